/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * group.c - the free blocks of one block group
 *
 * Every change touches one free run: taking blocks cuts it in at most two, giving blocks back
 * joins it with its neighbours.  The counters lose the old runs and gain the new ones.
 */
#include "fsbackends/ext4/group.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define BITS 64u

/* ---- the bitmap ------------------------------------------------------------------------- */

/* The first bit at or after `from` whose value is `value`; `end` if there is none before. */
static uint32_t next_bit(const uint64_t *map, uint32_t from, uint32_t end, bool value)
{
	uint64_t flip = value ? 0 : UINT64_MAX;
	uint32_t word = from / BITS;
	uint64_t bits;

	if (from >= end)
		return end;
	bits = (map[word] ^ flip) & (UINT64_MAX << (from % BITS));
	while (!bits) {
		word++;
		if (word * BITS >= end)
			return end;
		bits = map[word] ^ flip;
	}
	from = word * BITS + (uint32_t)__builtin_ctzll(bits);
	return from < end ? from : end;
}

/* The first bit of the row of set bits that ends before `end`; `end` if end - 1 is clear. */
static uint32_t row_start(const uint64_t *map, uint32_t end)
{
	uint32_t word;
	uint64_t clear;

	if (end == 0)
		return 0;
	word = (end - 1) / BITS;
	clear = ~map[word];
	if (end % BITS)
		clear &= (1ull << (end % BITS)) - 1;
	while (!clear) {
		if (word == 0)
			return 0;
		word--;
		clear = ~map[word];
	}
	return word * BITS + BITS - (uint32_t)__builtin_clzll(clear);
}

static void change_bits(uint64_t *map, uint32_t start, uint32_t len, bool value)
{
	while (len > 0) {
		uint32_t off = start % BITS;
		uint32_t n = len < BITS - off ? len : BITS - off;
		uint64_t mask = (n == BITS ? UINT64_MAX : (1ull << n) - 1) << off;

		if (value)
			map[start / BITS] |= mask;
		else
			map[start / BITS] &= ~mask;
		start += n;
		len -= n;
	}
}

/* ---- runs and their buddies ------------------------------------------------------------- */

/* The order of the buddy that begins at `start`, the front of what is left of a run. */
static unsigned int front_order(const struct ext4_group *group, uint32_t start, uint32_t len)
{
	unsigned int by_len = 31u - (unsigned int)__builtin_clz(len);
	unsigned int order = group->max_order;

	if (by_len < order)
		order = by_len;
	if (start && (unsigned int)__builtin_ctz(start) < order)
		order = (unsigned int)__builtin_ctz(start);
	return order;
}

/* Count the run [start, end) as there (sign 1) or no longer there (sign -1). */
static void count_run(struct ext4_group *group, uint32_t start, uint32_t end, int sign)
{
	uint32_t orders = group->orders;

	if (start == end)
		return;
	__atomic_store_n(&group->nr_runs, group->nr_runs + (uint32_t)sign, __ATOMIC_RELAXED);
	while (start < end) {
		unsigned int order = front_order(group, start, end - start);

		group->buddies[order] += (uint32_t)sign;
		if (group->buddies[order])
			orders |= 1u << order;
		else
			orders &= ~(1u << order);
		start += 1u << order;
	}
	__atomic_store_n(&group->orders, orders, __ATOMIC_RELAXED);
}

static void add_free(struct ext4_group *group, uint32_t n)
{
	__atomic_store_n(&group->nr_free, group->nr_free + n, __ATOMIC_RELAXED);
}

bool ext4_group_next_run(const struct ext4_group *group, uint32_t from, uint32_t *start,
			 uint32_t *len)
{
	if (from < group->first_free)
		from = group->first_free;
	from = next_bit(group->map, from, group->nr_blocks, true);
	if (from >= group->nr_blocks)
		return false;
	*start = from;
	*len = next_bit(group->map, from, group->nr_blocks, false) - from;
	return true;
}

uint32_t ext4_group_free_at(const struct ext4_group *group, uint32_t start, uint32_t max)
{
	uint32_t end = group->nr_blocks;

	if (start >= end)
		return 0;
	if (max < end - start)
		end = start + max;
	return next_bit(group->map, start, end, false) - start;
}

bool ext4_group_find_buddy(const struct ext4_group *group, unsigned int order, uint32_t *start)
{
	uint32_t large, run, len;
	unsigned int wanted;

	if (order > group->max_order)
		return false;
	large = group->orders & (UINT32_MAX << order);
	if (!large)
		return false;
	wanted = (unsigned int)__builtin_ctz(large);

	for (uint32_t from = 0; ext4_group_next_run(group, from, &run, &len); from = run + len) {
		for (uint32_t at = run; at < run + len;) {
			unsigned int front = front_order(group, at, run + len - at);

			if (front == wanted) {
				*start = at;
				return true;
			}
			at += 1u << front;
		}
	}
	assert(false); /* a counted buddy exists */
	return false;
}

void ext4_group_take(struct ext4_group *group, uint32_t start, uint32_t len)
{
	uint32_t run = row_start(group->map, start);
	uint32_t end = next_bit(group->map, start, group->nr_blocks, false);

	assert(len > 0);
	assert(end - start >= len);
	count_run(group, run, end, -1);
	count_run(group, run, start, 1);
	count_run(group, start + len, end, 1);
	change_bits(group->map, start, len, false);
	add_free(group, 0 - len);
	if (group->first_free == start)
		group->first_free = next_bit(group->map, start + len, group->nr_blocks, true);
}

void ext4_group_give(struct ext4_group *group, uint32_t start, uint32_t len)
{
	uint32_t run = row_start(group->map, start);
	uint32_t end = next_bit(group->map, start + len, group->nr_blocks, false);

	assert(len > 0);
	assert(next_bit(group->map, start, start + len, true) == start + len);
	count_run(group, run, start, -1);
	count_run(group, start + len, end, -1);
	count_run(group, run, end, 1);
	change_bits(group->map, start, len, true);
	add_free(group, len);
	if (start < group->first_free)
		group->first_free = start;
}

void ext4_group_use(struct ext4_group *group, uint32_t len)
{
	assert(group->nr_unused - group->nr_free >= len);
	group->nr_unused -= len;
}

void ext4_group_unuse(struct ext4_group *group, uint32_t len)
{
	group->nr_unused += len;
	assert(group->nr_unused <= group->nr_blocks);
}

bool ext4_group_ok(const struct ext4_group *group)
{
	uint32_t buddies[EXT4_MAX_ORDER + 1] = {0};
	uint32_t nr_free = 0, nr_runs = 0, orders = 0;
	uint32_t bit = 0;

	assert(group->first_free == next_bit(group->map, 0, group->nr_blocks, true));
	while ((bit = next_bit(group->map, bit, group->nr_blocks, true)) < group->nr_blocks) {
		uint32_t end = next_bit(group->map, bit, group->nr_blocks, false);

		nr_runs++;
		nr_free += end - bit;
		while (bit < end) {
			unsigned int order = front_order(group, bit, end - bit);

			buddies[order]++;
			orders |= 1u << order;
			bit += 1u << order;
		}
	}
	assert(nr_free == group->nr_free);
	assert(nr_runs == group->nr_runs);
	assert(orders == group->orders);
	assert(nr_free <= group->nr_unused);
	assert(memcmp(buddies, group->buddies, sizeof(buddies)) == 0);
	return true;
}

/* ---- all groups ------------------------------------------------------------------------- */

static int group_init(struct ext4_group *group, uint32_t nr_blocks, unsigned int max_order)
{
	group->map = env_zalloc((nr_blocks + BITS - 1) / BITS * sizeof(uint64_t));
	if (!group->map)
		return -ENOMEM;
	env_mutex_init(&group->lock, "ext4 group");
	group->nr_blocks = nr_blocks;
	group->max_order = max_order;
	group->first_free = nr_blocks;
	group->nr_unused = nr_blocks;
	ext4_group_give(group, 0, nr_blocks);
	return 0;
}

int ext4_groups_init(struct ext4_groups *groups, uint64_t nr_blocks, uint32_t per_group,
		     unsigned int max_order)
{
	uint64_t nr = (nr_blocks + per_group - 1) / per_group;

	assert(max_order <= EXT4_MAX_ORDER);
	assert(nr > 0);
	assert(nr <= UINT32_MAX);
	groups->nr = (uint32_t)nr;
	groups->per_group = per_group;
	groups->group = env_zalloc(nr * sizeof(*groups->group));
	if (!groups->group)
		return -ENOMEM;
	for (uint32_t g = 0; g < groups->nr; g++) {
		uint64_t left = nr_blocks - ext4_group_start(groups, g);
		int err = group_init(&groups->group[g],
				     left < per_group ? (uint32_t)left : per_group, max_order);

		if (err) {
			ext4_groups_destroy(groups);
			return err;
		}
	}
	return 0;
}

void ext4_groups_destroy(struct ext4_groups *groups)
{
	for (uint32_t g = 0; g < groups->nr; g++)
		env_free(groups->group[g].map);
	env_free(groups->group);
	groups->group = NULL;
	groups->nr = 0;
}

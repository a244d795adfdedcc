/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * block-set.c - distinct block numbers: an array of them and a hash table of places in it
 */
#include "fsbackends/ext4/block-set.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <iomap/env.h>

int block_set_init(struct block_set *set, uint32_t max)
{
	assert(max > 0);
	assert(max < UINT32_MAX / 4);
	*set = (struct block_set){.max = max, .nr_slots = 16};
	while (set->nr_slots < 2 * max)
		set->nr_slots *= 2;
	set->blocks = env_alloc(max * sizeof(*set->blocks));
	set->slots = env_zalloc(set->nr_slots * sizeof(*set->slots));
	if (set->blocks && set->slots)
		return 0;
	block_set_destroy(set);
	return -ENOMEM;
}

void block_set_destroy(struct block_set *set)
{
	env_free(set->blocks);
	env_free(set->slots);
	*set = (struct block_set){0};
}

static uint32_t hash(uint64_t block)
{
	return (uint32_t)((block * 0x9e3779b97f4a7c15ull) >> 32);
}

/* The slot that has the block, or the empty one where it would be. */
static uint32_t *slot_of(const struct block_set *set, uint64_t block)
{
	uint32_t mask = set->nr_slots - 1;
	uint32_t i = hash(block) & mask;

	while (set->slots[i] && set->blocks[set->slots[i] - 1] != block)
		i = (i + 1) & mask;
	return &set->slots[i];
}

bool block_set_add(struct block_set *set, uint64_t block)
{
	uint32_t *slot = slot_of(set, block);

	if (*slot || set->nr == set->max)
		return false;
	set->blocks[set->nr++] = block;
	*slot = set->nr;
	return true;
}

/* What could not be in this slot because another was there moves up. */
static void close_gap(struct block_set *set, uint32_t gap)
{
	uint32_t mask = set->nr_slots - 1;

	set->slots[gap] = 0;
	for (uint32_t i = (gap + 1) & mask; set->slots[i]; i = (i + 1) & mask) {
		uint32_t wanted = hash(set->blocks[set->slots[i] - 1]) & mask;

		if (((i - wanted) & mask) < ((i - gap) & mask))
			continue;
		set->slots[gap] = set->slots[i];
		set->slots[i] = 0;
		gap = i;
	}
}

bool block_set_remove(struct block_set *set, uint64_t block)
{
	uint32_t *slot = slot_of(set, block);
	uint32_t place = *slot;
	uint64_t last;

	if (!place)
		return false;
	close_gap(set, (uint32_t)(slot - set->slots));
	last = set->blocks[set->nr - 1];
	if (place < set->nr) {
		*slot_of(set, last) = place;
		set->blocks[place - 1] = last;
	}
	set->nr--;
	return true;
}

void block_set_clear(struct block_set *set)
{
	if (set->nr)
		memset(set->slots, 0, set->nr_slots * sizeof(*set->slots));
	set->nr = 0;
}

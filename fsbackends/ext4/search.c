/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * search.c - find a run of free blocks and take it
 *
 * First the goal.  Then the groups are walked from the first one upward and around, once for
 * each criterion, from the strictest to "anything"; a group whose counters cannot satisfy the
 * criterion is passed over without its lock, and so is a busy one except by the last.
 */
#include "fsbackends/ext4/search.h"

#include <assert.h>
#include <errno.h>
#include <iomap/backing_dev.h>
#include <iomap/cost.h>
#include "fsbackends/ext4/layout.h"
#include "fsbackends/ext4/mballoc.h"

/* EX17 */
#define MAX_TO_SCAN 200u
#define MIN_TO_SCAN 10u
/* EX16 (c) */
#define MAX_TRIMS 3u
/* The contention counter's end, and from where on the file system counts as busy. */
#define CONTENTION_MAX	8u
#define CONTENTION_BUSY 2u

/* EX16 (a)..(e) */
enum criterion {
	BUDDY,
	AVERAGE_RUN,
	TRIMMED,
	ENOUGH_FREE,
	ANYTHING,
};

struct run {
	uint32_t group;
	uint32_t start;
	uint32_t len; /* 0: none */
};

struct walk {
	struct ext4_mballoc *mballoc;
	const struct ext4_search *search;
	enum criterion criterion;
	uint32_t len; /* the wish, trimmed in TRIMMED */
	uint32_t nr_found; /* runs looked at */
	struct run best;
	bool any; /* take the first run there is */
	bool stop; /* enough was looked at: what is best will do */
	bool done; /* best was taken */
};

/* ---- locks ------------------------------------------------------------------------------ */

static void contention_add(struct ext4_mballoc *mballoc)
{
	uint32_t now = __atomic_load_n(&mballoc->contention, __ATOMIC_RELAXED);

	if (now < CONTENTION_MAX)
		__atomic_store_n(&mballoc->contention, now + 1, __ATOMIC_RELAXED);
}

static void contention_sub(struct ext4_mballoc *mballoc)
{
	uint32_t now = __atomic_load_n(&mballoc->contention, __ATOMIC_RELAXED);

	if (now > 0)
		__atomic_store_n(&mballoc->contention, now - 1, __ATOMIC_RELAXED);
}

bool ext4_search_is_busy(const struct ext4_mballoc *mballoc)
{
	return __atomic_load_n(&mballoc->contention, __ATOMIC_RELAXED) > CONTENTION_BUSY;
}

static bool group_trylock(struct ext4_mballoc *mballoc, struct ext4_group *group)
{
	if (!env_mutex_trylock(&group->lock)) {
		contention_add(mballoc);
		return false;
	}
	contention_sub(mballoc);
	return true;
}

void ext4_search_lock(struct ext4_mballoc *mballoc, struct inode *inode, struct ext4_group *group)
{
	uint64_t began;

	if (group_trylock(mballoc, group))
		return;
	began = env_clock_ns();
	env_mutex_lock(&group->lock);
	if (inode)
		wb_account_lock_wait(inode, env_clock_ns() - began);
}

/* => group->lock is held */
static void take(const struct ext4_search *search, struct ext4_group *group, uint32_t start,
		 uint32_t len)
{
	ext4_group_take(group, start, len);
	if (search->use)
		ext4_search_use(group, len);
}

void ext4_search_use(struct ext4_group *group, uint32_t len)
{
	env_charge(ENV_COST_BITMAP, 1);
	ext4_group_use(group, len);
}

/* ---- the goal --------------------------------------------------------------------------- */

/* EX14 */
static bool try_goal(struct ext4_mballoc *mballoc, const struct ext4_search *search)
{
	uint32_t g = ext4_group_of(&mballoc->groups, search->goal);
	uint32_t start = (uint32_t)(search->goal - ext4_group_start(&mballoc->groups, g));
	struct ext4_group *group;
	bool all_free;

	if (g >= mballoc->groups.nr)
		return false;
	group = &mballoc->groups.group[g];
	ext4_search_lock(mballoc, search->inode, group);
	env_charge(ENV_COST_GROUP_RUN, 1);
	all_free = ext4_group_free_at(group, start, search->len) == search->len;
	if (all_free)
		take(search, group, start, search->len);
	env_mutex_unlock(&group->lock);
	return all_free;
}

/* ---- one group -------------------------------------------------------------------------- */

static unsigned int log2_of(uint32_t len)
{
	return 31u - (unsigned int)__builtin_clz(len);
}

/* Could the group satisfy the criterion?  Read with or without its lock. */
static bool group_is_good(const struct walk *walk, uint32_t g)
{
	const struct ext4_group *group = &walk->mballoc->groups.group[g];
	uint32_t nr_free = __atomic_load_n(&group->nr_free, __ATOMIC_RELAXED);
	uint32_t nr_runs = __atomic_load_n(&group->nr_runs, __ATOMIC_RELAXED);
	uint32_t orders = __atomic_load_n(&group->orders, __ATOMIC_RELAXED);

	switch (walk->criterion) {
	case BUDDY:
		return g % EXT4_FLEX_GROUPS && orders >> log2_of(walk->len);
	case AVERAGE_RUN:
	case TRIMMED:
		return nr_runs && nr_free / nr_runs >= walk->len;
	case ENOUGH_FREE:
		return nr_free >= walk->len;
	case ANYTHING:
		break;
	}
	return nr_free > 0;
}

/* EX17: the longest until one is long enough, then the least surplus. */
static bool run_is_better(const struct walk *walk, uint32_t len)
{
	if (walk->best.len < walk->len)
		return len > walk->best.len;
	return len >= walk->len && len < walk->best.len;
}

/* Take the front of the best run, which is in this group. */
static void take_best(struct walk *walk, struct ext4_group *group)
{
	if (walk->best.len > walk->len)
		walk->best.len = walk->len;
	take(walk->search, group, walk->best.start, walk->best.len);
	walk->done = true;
}

static void scan_buddies(struct walk *walk, struct ext4_group *group, uint32_t g)
{
	env_charge(ENV_COST_GROUP_RUN, 1);
	if (!ext4_group_find_buddy(group, log2_of(walk->len), &walk->best.start))
		return;
	walk->best.group = g;
	walk->best.len = walk->len;
	take_best(walk, group);
}

static bool scanned_enough(struct walk *walk)
{
	if (walk->any || walk->best.len == walk->len)
		return true;
	if (walk->nr_found > MAX_TO_SCAN)
		walk->stop = true;
	return walk->stop || (walk->best.len > walk->len && walk->nr_found > MIN_TO_SCAN);
}

static void scan_runs(struct walk *walk, struct ext4_group *group, uint32_t g)
{
	bool whole_only = walk->criterion == AVERAGE_RUN || walk->criterion == TRIMMED;
	uint32_t start, len;

	for (uint32_t from = 0; ext4_group_next_run(group, from, &start, &len);
	     from = start + len) {
		env_charge(ENV_COST_GROUP_RUN, 1);
		if (whole_only && len < walk->len)
			continue;
		walk->nr_found++;
		if (len == walk->len || run_is_better(walk, len))
			walk->best = (struct run){g, start, len};
		if (scanned_enough(walk))
			break;
	}

	if (!walk->best.len || walk->best.group != g)
		return;
	if (walk->any || walk->stop || walk->best.len >= walk->len)
		take_best(walk, group);
}

/* ---- all groups ------------------------------------------------------------------------- */

static bool lock_for_scan(const struct walk *walk, struct ext4_group *group)
{
	if (walk->criterion != ANYTHING && !walk->mballoc->config.wait_for_groups)
		return group_trylock(walk->mballoc, group);
	ext4_search_lock(walk->mballoc, walk->search->inode, group);
	return true;
}

static void scan_groups(struct walk *walk, enum criterion criterion)
{
	struct ext4_groups *groups = &walk->mballoc->groups;

	walk->criterion = criterion;
	for (uint32_t i = 0; i < groups->nr && !walk->done && !walk->stop; i++) {
		uint32_t g = (walk->search->group + i) % groups->nr;
		struct ext4_group *group = &groups->group[g];

		if (!group_is_good(walk, g) || !lock_for_scan(walk, group))
			continue;
		if (!group_is_good(walk, g))
			;
		else if (criterion == BUDDY)
			scan_buddies(walk, group, g);
		else
			scan_runs(walk, group, g);
		env_mutex_unlock(&group->lock);
	}
}

static bool is_power_of_two(uint32_t n)
{
	return (n & (n - 1)) == 0;
}

/* EX16 (c): powers of two below the wish, and not below the request. */
static void scan_trimmed(struct walk *walk)
{
	unsigned int order = log2_of(walk->search->len);

	for (unsigned int trims = 0; trims <= MAX_TRIMS && trims <= order; trims++) {
		uint32_t len = 1u << (order - trims);

		if (len == walk->search->len)
			continue;
		if (len < walk->search->least || walk->done || walk->stop)
			break;
		walk->len = len;
		scan_groups(walk, TRIMMED);
	}
	if (!walk->done)
		walk->len = walk->search->len;
}

/* The best run was seen in a group that is unlocked since: take what is left of it. */
static void take_remembered(struct walk *walk)
{
	struct ext4_group *group = &walk->mballoc->groups.group[walk->best.group];

	ext4_search_lock(walk->mballoc, walk->search->inode, group);
	walk->best.len = ext4_group_free_at(group, walk->best.start, walk->len);
	if (walk->best.len)
		take_best(walk, group);
	env_mutex_unlock(&group->lock);
}

static void scan_all(struct walk *walk)
{
	if (walk->len >= 2 && is_power_of_two(walk->len) &&
	    log2_of(walk->len) <= walk->mballoc->config.max_order)
		scan_groups(walk, BUDDY);
	if (!walk->done)
		scan_groups(walk, AVERAGE_RUN);
	if (!walk->done)
		scan_trimmed(walk);
	if (!walk->done)
		scan_groups(walk, ENOUGH_FREE);
	if (!walk->done)
		scan_groups(walk, ANYTHING);
	if (!walk->done && walk->best.len)
		take_remembered(walk);
	if (!walk->done) {
		walk->best.len = 0;
		walk->stop = false;
		walk->any = true;
		scan_groups(walk, ANYTHING);
	}
}

int ext4_search(struct ext4_mballoc *mballoc, const struct ext4_search *search, uint64_t *block,
		uint32_t *len)
{
	struct walk walk = {.mballoc = mballoc, .search = search, .len = search->len};

	assert(search->len > 0);
	assert(search->least <= search->len);
	if (search->has_goal && try_goal(mballoc, search)) {
		*block = search->goal;
		*len = search->len;
		return 0;
	}

	scan_all(&walk);
	if (!walk.done)
		return -ENOSPC;
	*block = ext4_group_start(&mballoc->groups, walk.best.group) + walk.best.start;
	*len = walk.best.len;
	return 0;
}

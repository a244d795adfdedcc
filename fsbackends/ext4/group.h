/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * group.h - the free blocks of one block group (EX2)
 *
 *	ext4_groups_init(&groups, nr_blocks, 32768, 13);	everything is free
 *	group = &groups.group[g];
 *	env_mutex_lock(&group->lock);
 *	if (ext4_group_next_run(group, 0, &start, &len))
 *		ext4_group_take(group, start, len);
 *	env_mutex_unlock(&group->lock);
 *	ext4_groups_destroy(&groups);
 *
 * Block numbers are relative to the group.  A free run is a longest row of free blocks; it
 * falls into buddies, aligned powers of two, in one way only, so the counters of the buddies
 * follow from the bitmap and are kept by taking a run apart and putting its pieces back.
 */
#ifndef FSBACKENDS_EXT4_GROUP_H
#define FSBACKENDS_EXT4_GROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <iomap/env.h>

#define EXT4_MAX_ORDER 13

/*
 * How a member is protected:
 *	I	set at creation, never changed
 *	G	lock
 *	a	written under lock, read without it as a hint
 */
struct ext4_group {
	struct env_mutex lock;
	uint32_t nr_blocks; /* [I] */
	uint32_t nr_free; /* [a] free and not in a preallocation */
	uint32_t nr_runs; /* [a] free runs */
	uint32_t orders; /* [a] bit k: there is a free buddy of order k */
	uint32_t first_free; /* [G] nr_blocks if none */
	uint32_t nr_unused; /* [G] free on disk: nr_free and what preallocations hold */
	uint32_t buddies[EXT4_MAX_ORDER + 1]; /* [G] free buddies of each order */
	uint32_t max_order; /* [I] */
	uint64_t *map; /* [G] a set bit is a free block */
};

struct ext4_groups {
	struct ext4_group *group; /* [I] */
	uint32_t nr; /* [I] */
	uint32_t per_group; /* [I] blocks of every group but the last */
};

/* All blocks are free.  0 or -ENOMEM. */
int ext4_groups_init(struct ext4_groups *groups, uint64_t nr_blocks, uint32_t per_group,
		     unsigned int max_order);
void ext4_groups_destroy(struct ext4_groups *groups);

/* The group of a device block. */
static inline uint32_t ext4_group_of(const struct ext4_groups *groups, uint64_t block)
{
	return (uint32_t)(block / groups->per_group);
}

/* Device block number of the group's first. */
static inline uint64_t ext4_group_start(const struct ext4_groups *groups, uint32_t g)
{
	return (uint64_t)g * groups->per_group;
}

/*
 * => group->lock is held for all of the following
 */

/* The first free run at or after `from`, cut at its front if `from` lies inside. */
bool ext4_group_next_run(const struct ext4_group *group, uint32_t from, uint32_t *start,
			 uint32_t *len);
/* How many blocks from `start` on are free, at most max. */
uint32_t ext4_group_free_at(const struct ext4_group *group, uint32_t start, uint32_t max);
/* The lowest free buddy of the smallest order that is at least `order`. */
bool ext4_group_find_buddy(const struct ext4_group *group, unsigned int order, uint32_t *start);

/* All of [start, start + len) is free: no longer.  Still free on disk. */
void ext4_group_take(struct ext4_group *group, uint32_t start, uint32_t len);
/* None of [start, start + len) is free: it is. */
void ext4_group_give(struct ext4_group *group, uint32_t start, uint32_t len);
/* `len` of the blocks taken are used by a file now, or no longer. */
void ext4_group_use(struct ext4_group *group, uint32_t len);
void ext4_group_unuse(struct ext4_group *group, uint32_t len);

/* For assertions: the counters agree with the bitmap. */
bool ext4_group_ok(const struct ext4_group *group);

#endif

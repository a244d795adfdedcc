/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * search.h - find a run of free blocks and take it (EX14, EX16..EX18)
 */
#ifndef FSBACKENDS_EXT4_SEARCH_H
#define FSBACKENDS_EXT4_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

struct ext4_group;
struct ext4_mballoc;
struct inode;

struct ext4_search {
	struct inode *inode; /* charged with waiting, or NULL */
	uint32_t len; /* the wish, blocks */
	uint32_t least; /* the request alone: the wish is not trimmed below it */
	uint32_t group; /* where to begin */
	bool use; /* what is taken goes to a file at once: EX2's free on disk too */
	bool has_goal;
	uint64_t goal; /* if has_goal: take the wish from here if all of it is free */
};

/*
 * Take 1..search->len blocks, all in one group: less than the wish only where nothing better
 * was found.  0 or -ENOSPC.
 */
int ext4_search(struct ext4_mballoc *mballoc, const struct ext4_search *search, uint64_t *block,
		uint32_t *len);

/* Lock a group, waiting; the time is the inode's (may be NULL). */
void ext4_search_lock(struct ext4_mballoc *mballoc, struct inode *inode, struct ext4_group *group);
/* len blocks that were taken are a file's: its bitmap changes.  => group->lock is held */
void ext4_search_use(struct ext4_group *group, uint32_t len);
/* Have groups been fought for lately?  (EX9: a quiet file system is not busy.) */
bool ext4_search_is_busy(const struct ext4_mballoc *mballoc);

#endif

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * free-space.h - the free extents of one allocation group (XF7)
 *
 *	xfs_free_space_init(&space);
 *	xfs_free_space_add(&space, 16, 1000);
 *	extent = xfs_free_space_fitting(&space, 10);	the smallest of at least 10 blocks
 *	xfs_free_space_take(&space, extent->start, 10);
 *	xfs_free_space_destroy(&space);
 *
 * Block numbers are those of the group.  The lock is the owner's; the counts can be read
 * without it.
 */
#ifndef FSBACKENDS_XFS_FREE_SPACE_H
#define FSBACKENDS_XFS_FREE_SPACE_H

#include "tree.h"

/* Disjoint and never adjacent. */
struct xfs_free_extent {
	struct xfs_tree_node by_start;
	struct xfs_tree_node by_size; /* by length, then start */
	uint64_t start;
	uint64_t len;
};

struct xfs_free_space {
	struct xfs_tree by_start;
	struct xfs_tree by_size;
	uint64_t nr_blocks; /* [a] */
	uint64_t longest; /* [a] blocks of the longest extent */
	struct xfs_free_extent *spares; /* linked by by_start.parent */
	unsigned int nr_spares;
};

void xfs_free_space_init(struct xfs_free_space *space);
void xfs_free_space_destroy(struct xfs_free_space *space);

static inline uint64_t xfs_free_space_nr_blocks(const struct xfs_free_space *space)
{
	return __atomic_load_n(&space->nr_blocks, __ATOMIC_RELAXED);
}

static inline uint64_t xfs_free_space_longest(const struct xfs_free_space *space)
{
	return __atomic_load_n(&space->longest, __ATOMIC_RELAXED);
}

/* Blocks that were in use become free.  -ENOMEM with nothing changed. */
int xfs_free_space_add(struct xfs_free_space *space, uint64_t start, uint64_t len);
/*
 * Blocks that are free, all of them in one extent, come into use.  -ENOMEM with nothing
 * changed.
 */
int xfs_free_space_take(struct xfs_free_space *space, uint64_t start, uint64_t len);

/* The last extent that starts at or before block; NULL if none. */
struct xfs_free_extent *xfs_free_space_at(const struct xfs_free_space *space, uint64_t block);
/* The first extent by start. */
struct xfs_free_extent *xfs_free_space_first(const struct xfs_free_space *space);
/* The first by size of at least len blocks; NULL if none. */
struct xfs_free_extent *xfs_free_space_fitting(const struct xfs_free_space *space, uint64_t len);
/* The last extent by size. */
struct xfs_free_extent *xfs_free_space_largest(const struct xfs_free_space *space);

struct xfs_free_extent *xfs_free_extent_by_start(const struct xfs_free_extent *extent,
						 enum xfs_tree_side side);
struct xfs_free_extent *xfs_free_extent_by_size(const struct xfs_free_extent *extent,
						enum xfs_tree_side side);
/* How many extents there are from this one on, by size. */
uint64_t xfs_free_space_nr_from(const struct xfs_free_space *space,
				const struct xfs_free_extent *extent);

/* For assertions. */
bool xfs_free_space_ok(const struct xfs_free_space *space);

#endif

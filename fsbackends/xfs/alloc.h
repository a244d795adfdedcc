/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * alloc.h - the space of a file system: who promised what, which blocks are free
 *
 *	xfs_space_init(&space, &geometry);
 *	err = xfs_space_reserve(&space, 10);		a delayed write promises blocks
 *	err = xfs_alloc(&space, &request, &start, &len);	places some of them
 *	xfs_space_use_reserved(&space, len);
 *	xfs_free(&space, start, len, NULL);
 *	xfs_space_destroy(&space);
 *
 * `available` counts the blocks nobody has or was promised (XF8).  Whoever allocates has taken
 * its blocks from it before, by promise or at once, so the groups together always have them: free,
 * or busy until the freeing is durable (XF27).  Who finds none but busy ones has the log written.
 *
 * Lock order: the group's inode lock -> AGF.
 */
#ifndef FSBACKENDS_XFS_ALLOC_H
#define FSBACKENDS_XFS_ALLOC_H

#include <iomap/env.h>

#include "free-space.h"
#include "geometry.h"

struct inode;
struct xfs_busy;
struct xfs_inode_chunk;
struct xfs_log;

/*
 *	A	agf
 *	N	inode_lock
 */
struct xfs_ag {
	struct env_mutex agf; /* held for search and update of one allocation (XF7) */
	struct xfs_free_space free; /* [A, counts read without] */
	struct xfs_busy *busy; /* [A] freed, the oldest first; not in `free` yet (XF27) */
	struct xfs_busy *last_busy; /* [A] */
	bool logged; /* [a] its headers and trees wait to be written in place (XF26) */
	struct env_mutex inode_lock;
	struct xfs_inode_chunk **chunks; /* [N] by block */
	size_t nr_chunks; /* [N] */
	size_t max_chunks; /* [N] */
};

struct xfs_space {
	struct xfs_geometry geometry; /* [I] */
	bool agf_trylock; /* [I] knob of XF18 */
	struct xfs_log *log; /* [I] whose commits end XF27; NULL: what is freed is free */
	struct xfs_ag *ags; /* array [I] */
	uint64_t total; /* [I] blocks for data and inodes */
	uint64_t available; /* [a] */
	uint64_t reserved; /* [a] promised to delayed records, with their metadata */
	uint64_t dir_rotor; /* [a] XF4 */
	uint64_t data_rotor; /* [a] XF6 */
	uint64_t nr_busy; /* [a] extents */
};

/* -ENOMEM, or 0 with everything free but headers and log. */
int xfs_space_init(struct xfs_space *space, const struct xfs_geometry *geometry);
void xfs_space_destroy(struct xfs_space *space);

/* Take blocks out of `available`, -ENOSPC if there are not so many; and back. */
int xfs_space_claim(struct xfs_space *space, uint64_t nr);
void xfs_space_unclaim(struct xfs_space *space, uint64_t nr);
/* The same with a promise kept in `reserved`. */
int xfs_space_reserve(struct xfs_space *space, uint64_t nr);
void xfs_space_unreserve(struct xfs_space *space, uint64_t nr);
/* Promised blocks have become real ones. */
void xfs_space_use_reserved(struct xfs_space *space, uint64_t nr);

static inline uint64_t xfs_space_available(const struct xfs_space *space)
{
	return __atomic_load_n(&space->available, __ATOMIC_RELAXED);
}

struct xfs_alloc_request {
	struct xfs_place target; /* where it would be best */
	uint64_t len; /* blocks, 1 .. XFS_MAX_EXTENT */
	struct inode *inode; /* waits for an AGF are charged to it; may be NULL */
};

/*
 * Place up to request->len blocks in one piece (XF17..XF22).  0, -ENOSPC or -ENOMEM.
 * => the blocks were claimed or reserved; the counters do not change here
 */
int xfs_alloc(struct xfs_space *space, const struct xfs_alloc_request *request, uint64_t *start,
	      uint64_t *len);
/* Exactly len blocks near the start of the group, for inodes.  0, -ENOSPC or -ENOMEM. */
int xfs_alloc_in_ag(struct xfs_space *space, uint64_t ag, uint64_t len, uint64_t *start);
/* Blocks that hold no data any more are free, but not yet available.  Returns how many: all,
 * or none if there is no memory to say so. */
uint64_t xfs_free_claimed(struct xfs_space *space, uint64_t start, uint64_t len,
			  struct inode *inode);
/* The same, and available. */
void xfs_free(struct xfs_space *space, uint64_t start, uint64_t len, struct inode *inode);

/* The freeing of all that was freed before this change of the log is durable. */
void xfs_space_end_busy(struct xfs_space *space, uint64_t change);

/* Take the AGF, waiting; the time is charged to the inode's context. */
void xfs_agf_lock(struct xfs_space *space, uint64_t ag, struct inode *inode);
void xfs_agf_unlock(struct xfs_space *space, uint64_t ag);
/* The headers and trees of the group have changed.  => the AGF is held */
void xfs_agf_mark(struct xfs_space *space, uint64_t ag);

/* A piece of free space that a search settled on; len 0: none. */
struct xfs_found {
	uint64_t start; /* in the group */
	uint64_t len;
	uint64_t nr_seen; /* free extents looked at (XF23) */
};

/* Deciding only: between minlen and len blocks near block (XF19), or by size (XF20). */
struct xfs_found xfs_find_near(const struct xfs_free_space *free, uint64_t block, uint64_t minlen,
			       uint64_t len);
struct xfs_found xfs_find_by_size(const struct xfs_free_space *free, uint64_t minlen, uint64_t len);
/* The shortest piece the request shall accept (XF17). */
uint64_t xfs_minimum_len(const struct xfs_space *space, const struct xfs_alloc_request *request);

#endif

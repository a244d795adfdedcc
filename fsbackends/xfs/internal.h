/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * internal.h - a mounted XFS-like file system and its inodes
 *
 * Lock order, outermost first:
 *	folio lock, invalidate_lock, i_rwsem: the library's
 *	  trim_lock		takes i_rwsem only by trylock
 *	  map_lock		shared to look up, exclusive to change
 *	    log write_lock	only to free what is busy (XF27)
 *	    AGF			one at a time
 *	ioend_lock and the log's lock are leaves.
 *
 * A transaction begins before map_lock is taken: it may wait for log space, which those who hold
 * locks inside theirs give back (XF26).
 */
#ifndef FSBACKENDS_XFS_INTERNAL_H
#define FSBACKENDS_XFS_INTERNAL_H

#include "fsbackends/base/base.h"
#include "fsbackends/base/extent-map.h"
#include "fsbackends/base/map-hint.h"

#include "alloc.h"
#include "log.h"
#include "prealloc.h"

#define XFS_NO_AG UINT64_MAX

/* W15 */
enum xfs_shard {
	XFS_SHARD_DATA_AG,
	XFS_SHARD_INODE_AG,
	XFS_SHARD_STREAM,
};

/* No stream was chosen yet (XF32). */
#define XFS_NO_STREAM UINT32_MAX

/* The knobs of XF31. */
struct xfs_options {
	uint64_t nr_ags;
	uint64_t allocsize;
	uint64_t extsize; /* bytes, 0: none (XF10) */
	uint64_t logsize; /* bytes, 0: by the size of the device */
	uint64_t streams; /* XF32; 0 and 1: none */
	bool busy_extents; /* XF27 */
	bool concurrency;
	bool inode32;
	bool delalloc;
	bool agf_trylock;
	bool gap_rule;
	bool rmap_at_completion;
	enum xfs_eof_prealloc eof_prealloc;
	enum xfs_shard shard;
};

struct xfs {
	struct fs fs;
	struct xfs_options options; /* [I] */
	struct xfs_space space;
	struct xfs_log log;
	uint32_t stream_rotor; /* [a] the next inode's stream */
	struct env_mutex trim_lock;
	struct list_head to_trim; /* [trim_lock] inodes, by trim_link */
};

/*
 *	I	set at creation, never changed
 *	a	atomic
 *	M	map_lock; "a M": held to write
 *	E	ioend_lock
 *	T	the file system's trim_lock
 */
struct xfs_inode {
	struct fs_inode node;
	struct env_rwsem map_lock;
	struct extent_map map; /* [M] */
	uint64_t seq; /* [a M] number of the last change of map (A21) */
	struct map_hint hint; /* a record of map that needs no lock */
	uint64_t disk_size; /* [a M] bytes: the end of file that completed writes reach (F25) */
	uint64_t data_ag; /* [a M] of the last real record, XFS_NO_AG: none */
	uint64_t data_end; /* [M] where that record ends in the file */
	uint64_t meta_change; /* [a] last change that fdatasync needs, as the log counts */
	uint64_t time_change; /* [a] last change of the time stamps */
	struct xfs_logged logged; /* its block in the group */
	uint32_t stream; /* [a] XFS_NO_STREAM until it is first dirtied (XF32) */
	struct list_head trim_link; /* [T] was closed with space behind its end (XF14) */
	bool closed_dirty; /* [i_rwsem] was closed with delayed data once (XF14) */
	bool keep_prealloc; /* [i_rwsem] fallocate() put space behind the end */
	struct env_mutex ioend_lock;
	struct list_head ioends; /* [E] finished, waiting for completion */
	struct wb_completion ioend_work;
};

static inline struct xfs *xfs_of(const struct inode *inode)
{
	return container_of(fs_of(inode), struct xfs, fs);
}

static inline struct xfs_inode *xfs_inode_from(const struct inode *inode)
{
	return container_of(fs_inode_from(inode), struct xfs_inode, node);
}

static inline uint64_t xfs_blocks_up(const struct inode *inode, uint64_t bytes)
{
	return (bytes + (1ull << inode->i_blkbits) - 1) >> inode->i_blkbits;
}

/* ---- inode.c ----------------------------------------------------------------------------- */

int xfs_new_inode(struct fs *fs, struct fs_inode *parent, bool is_dir, struct fs_inode **inode);
void xfs_free_inode(struct fs_inode *inode, bool unlinked);
int xfs_truncate(struct fs_inode *inode, uint64_t old_size, uint64_t size);
int xfs_fallocate(struct fs_inode *inode, uint64_t pos, uint64_t len);
int xfs_punch(struct fs_inode *inode, uint64_t pos, uint64_t len);
int xfs_insert(struct fs_inode *inode, uint64_t pos, uint64_t len, uint64_t size);
int xfs_collapse(struct fs_inode *inode, uint64_t pos, uint64_t len, uint64_t size);
void xfs_last_close(struct fs_inode *inode);
int xfs_next_extent(struct fs_inode *inode, uint64_t pos, struct fs_extent *extent);
uint64_t xfs_wb_shard(const struct inode *inode);
/* The inode's stream, chosen when it is first asked for (XF32). */
uint32_t xfs_stream_of(struct xfs_inode *ip);
/* The periodic part of XF14, on the log's thread: it may not wait for log space. */
void xfs_trim_files(void *fs);

/* Metadata that fdatasync needs has changed; the time stamps have. */
void xfs_mark_meta(struct xfs_inode *ip);
void xfs_mark_time(struct xfs_inode *ip);

/* ---- space of one file: map.c.  => map_lock is held exclusively -------------------------- */

/* The map has changed. */
void xfs_map_bump(struct xfs_inode *ip);
/*
 * Make the start of the delayed record with this block real, in one piece; *left: the block is
 * still delayed.  => an ALLOC transaction is running
 */
int xfs_map_convert_delayed(struct xfs_inode *ip, uint64_t block, bool *left);
/*
 * Unwritten space for at most len blocks of a hole from `file` on; *len is what it became.
 * => an ALLOC transaction is running
 */
int xfs_map_fill_hole(struct xfs_inode *ip, uint64_t file, uint64_t *len);
/* Give back what lies in [file, end).  => a FREE transaction is running, unless only_delayed */
int xfs_map_remove(struct xfs_inode *ip, uint64_t file, uint64_t end, bool only_delayed);
/*
 * Give back [file, end) and what is delayed behind it, and move the rest down; make [file, end) a
 * hole, moving up.  => a FREE transaction is running
 */
int xfs_map_collapse(struct xfs_inode *ip, uint64_t file, uint64_t end);
int xfs_map_insert_hole(struct xfs_inode *ip, uint64_t file, uint64_t end);

/*
 * A hole [file, end) was made, maybe in the middle of a delayed record: one of the two that are
 * left may be without data, and then nothing would ever make it real.  Gives back what they have
 * that is not under dirty blocks.  => invalidate_lock, and not map_lock, is held exclusively
 */
void xfs_map_release_beside(struct xfs_inode *ip, uint64_t file, uint64_t end);

/* Describe a record; or what is not in any, up to end. */
void xfs_map_describe(const struct xfs_inode *ip, const struct extent *extent, struct iomap *iomap);
void xfs_map_describe_hole(const struct xfs_inode *ip, uint64_t file, uint64_t end,
			   struct iomap *iomap);

static inline bool xfs_map_is_valid(const struct xfs_inode *ip, const struct iomap *iomap)
{
	return iomap->validity_cookie == __atomic_load_n(&ip->seq, __ATOMIC_ACQUIRE);
}

extern const struct iomap_ops xfs_read_ops;
extern const struct iomap_ops xfs_write_ops;
extern const struct iomap_ops xfs_overwrite_ops;
extern const struct iomap_write_ops xfs_folio_ops;

/* ---- writeback.c ------------------------------------------------------------------------- */

int xfs_writepages(struct address_space *mapping, struct writeback_control *wbc);
void xfs_ioend_work(struct wb_completion *work);

/* ---- xfs.c ------------------------------------------------------------------------------- */

extern const struct fs_backend xfs_backend;

#endif

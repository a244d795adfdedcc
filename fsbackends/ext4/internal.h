/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * internal.h - the ext4-like file system and its inodes, for this folder
 *
 * Lock order, outermost first:
 *	names_lock
 *	i_rwsem, invalidate_lock, folio lock
 *	  a handle of the journal	(journal.h)
 *	    inode->data_lock
 *	      the allocator's	(mballoc.h)
 *	    fs->inode_lock
 *	inode->done_lock and the journal's own are taken with none of these needed inside them.
 */
#ifndef FSBACKENDS_EXT4_INTERNAL_H
#define FSBACKENDS_EXT4_INTERNAL_H

#include "fsbackends/base/base.h"
#include "fsbackends/base/extent-map.h"
#include "fsbackends/base/map-hint.h"
#include "fsbackends/ext4/journal.h"
#include "fsbackends/ext4/layout.h"
#include "fsbackends/ext4/mballoc.h"
#include "fsbackends/ext4/tree.h"

/* File blocks have 32-bit numbers. */
#define EXT4_MAX_BLOCKS (1ull << 32)
/* EX21 */
#define EXT4_MAX_WRITTEN   32768u
#define EXT4_MAX_UNWRITTEN 32767u

struct ext4_fs;

/* The numbers a group's inodes have. */
struct ext4_inode_group {
	uint64_t *used; /* [inode_lock] a bit for each; NULL: none */
	uint32_t nr_used; /* [inode_lock] */
};

struct ext4_fs {
	struct fs fs;
	struct ext4_layout layout; /* [I] */
	struct ext4_mballoc mballoc;
	struct ext4_journal journal;
	bool delalloc; /* [I] */

	/* Blocks.  What is reserved can be allocated; what is free can be reserved (EX3). */
	uint64_t total; /* [I] for data */
	uint64_t nr_free; /* [a] neither allocated nor reserved */
	uint64_t nr_reserved; /* [a] promised to delayed allocation */
	uint64_t nr_tree_free; /* [a] kept for tree blocks, not counted above */

	struct env_mutex inode_lock;
	struct ext4_inode_group *inode_groups; /* [inode_lock] */
	uint32_t next_dir; /* [inode_lock] flexible group of the next directory (EX30) */
};

enum ext4_inode_flags {
	EXT4_CLOSED = 1u << 0, /* not written to since its last close (EX9) */
};

/* How many metadata blocks a handle may change (EX5): */
enum ext4_credits {
	EXT4_CREDITS_TIME = 1, /* an inode */
	EXT4_CREDITS_CREATE = 4, /* an inode, its number, */
	EXT4_CREDITS_STEP = 8, /* one change of the records and of space, */
	EXT4_CREDITS_RUN = 32, /* several of these, */
	EXT4_CREDITS_FREE = 32, /* much of a file's space: the rest is not counted */
};

struct ext4_inode {
	struct fs_inode base;
	struct env_rwsem data_lock;
	struct extent_map map; /* [data_lock] */
	uint64_t sequence; /* [a, changed under data_lock] of map (A21) */
	struct ext4_tree tree; /* [data_lock] */
	struct map_hint hint; /* a record of map that needs no lock */
	uint64_t nr_delayed; /* [data_lock] blocks */
	uint64_t disk_size; /* [a, changed under data_lock] what a crash would leave (F25) */
	uint64_t sync_tid; /* [a] the last transaction with a change of it, */
	uint64_t datasync_tid; /* [a] and with one needed to reach its data */
	uint32_t flags; /* [a] enum ext4_inode_flags */
	uint32_t group; /* [I] */
	struct ext4_prealloc_list preallocs;
	struct env_mutex done_lock;
	struct list_head done; /* [done_lock] ioends written and not yet finished */
	struct wb_completion done_work; /* queued while done is not empty */
};

static inline struct ext4_fs *ext4_fs_from(const struct fs *fs)
{
	return container_of(fs, struct ext4_fs, fs);
}

static inline struct ext4_inode *ext4_inode_from(const struct inode *inode)
{
	return container_of(inode, struct ext4_inode, base.inode);
}

static inline struct ext4_fs *ext4_fs_of(const struct ext4_inode *node)
{
	return ext4_fs_from(node->base.fs);
}

static inline uint32_t ext4_flags(const struct ext4_inode *node)
{
	return __atomic_load_n(&node->flags, __ATOMIC_ACQUIRE);
}

static inline void ext4_set_flags(struct ext4_inode *node, uint32_t flags)
{
	if ((ext4_flags(node) & flags) != flags)
		__atomic_fetch_or(&node->flags, flags, __ATOMIC_ACQ_REL);
}

/* ---- ext4.c ----------------------------------------------------------------------------- */

extern const struct fs_backend ext4_backend;

/* ---- inode.c ---------------------------------------------------------------------------- */

int ext4_new_inode(struct fs *base, struct fs_inode *parent, bool is_dir, struct fs_inode **inode);
void ext4_free_inode(struct fs_inode *base, bool unlinked);
int ext4_inode_groups_init(struct ext4_fs *fs);
void ext4_inode_groups_destroy(struct ext4_fs *fs);
uint64_t ext4_inode_shard(const struct inode *inode);

/* ---- map.c ------------------------------------------------------------------------------ */

extern const struct iomap_ops ext4_read_ops;
extern const struct iomap_ops ext4_write_ops;
extern const struct iomap_ops ext4_overwrite_ops;
extern const struct iomap_write_ops ext4_folio_ops;

/* A request for the space of [file, file + len).  => data_lock is held exclusively */
void ext4_request_init(struct ext4_request *request, struct ext4_inode *node, uint64_t file,
		       uint64_t len);
/*
 * Map pos for writeback; a delayed run of up to EXT4_MAX_RUN blocks from pos on is given
 * space first (EX5).
 */
int ext4_map_for_writeback(struct ext4_inode *node, uint64_t pos, struct iomap *iomap);
/* Is the map still true? */
bool ext4_map_is_valid(struct inode *inode, const struct iomap *iomap);
/* Give back what is only promised for [pos, pos + len). */
void ext4_discard_delayed(struct ext4_inode *node, uint64_t pos, uint64_t len);
/* [pos, pos + len) was written: make it so, and disk_size (EX22, F25). */
int ext4_map_written(struct ext4_inode *node, uint64_t pos, uint64_t len, bool unwritten);
/* Free all space, of any kind; the inode has no user. */
void ext4_free_space(struct ext4_inode *node, struct ext4_handle *handle);

int ext4_truncate(struct fs_inode *base, uint64_t old_size, uint64_t size);
int ext4_fallocate(struct fs_inode *base, uint64_t pos, uint64_t len);
int ext4_punch(struct fs_inode *base, uint64_t pos, uint64_t len);
int ext4_insert(struct fs_inode *base, uint64_t pos, uint64_t len, uint64_t size);
int ext4_collapse(struct fs_inode *base, uint64_t pos, uint64_t len, uint64_t size);
void ext4_last_close(struct fs_inode *base);
int ext4_next_extent(struct fs_inode *base, uint64_t pos, struct fs_extent *extent);

/* ---- writeback.c ------------------------------------------------------------------------ */

extern const struct address_space_operations ext4_aops;

/* The work of node->done_work: end the ioends on node->done. */
void ext4_finish_ioends(struct wb_completion *work);

/* ---- sync.c ----------------------------------------------------------------------------- */

/* What the handle changes: the inode, the space [block, block + len), an inode number. */
void ext4_dirty_inode(struct ext4_inode *node, struct ext4_handle *handle, bool datasync);
void ext4_dirty_space(struct ext4_fs *fs, struct ext4_handle *handle, uint64_t block, uint64_t len);
void ext4_dirty_number(struct ext4_fs *fs, struct ext4_handle *handle, uint64_t ino);

int ext4_fsync(struct inode *inode, bool datasync);
int ext4_sync_fs(struct super_block *sb);

#endif

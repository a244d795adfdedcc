/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fs.h - what a file system is made of: super block, inode, its cached pages, open file
 *
 *	super_init(&fs->sb, cache, bdi, block_size, &ops);
 *	inode_init(&node->inode, &fs->sb, ino, &aops);	embedded in the back end's own
 *	file_init(&file, &node->inode, 0);
 *	n = iomap_file_buffered_write(...);		see iomap.h
 *	err = file_fsync(&file, 0, UINT64_MAX, false);
 *	file_release(&file);
 *	inode_evict(&node->inode);
 *	super_shutdown(&fs->sb);
 *
 * Lock order, outermost first (L20):
 *	inode->i_rwsem
 *	  mapping->invalidate_lock
 *	    folio lock		(several by rising index)
 *	      back end's locks
 *	        mapping->lock	(never held across I/O)
 *	          locks of block state, reclaim lists, allocator (leaves)
 *	bdi switch lock -> wb list lock -> inode->i_lock -> mapping->lock
 */
#ifndef IOMAP_FS_H
#define IOMAP_FS_H

#include <stdbool.h>
#include <stdint.h>
#include <iomap/env.h>
#include <iomap/list.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct address_space;
struct backing_dev;
struct file;
struct folio;
struct inode;
struct page_cache;
struct super_block;
struct wb_ctx;
struct writeback_control;

/* An error word: the last error, a "seen" bit and a counter (K24).  0: no error ever. */
typedef uint32_t errseq_t;

/* ---- address_space: the cached pages of one inode ----------------------------------- */

struct readahead_control {
	struct file *file; /* may be NULL */
	struct address_space *mapping;
	uint64_t index; /* next folio to hand out */
	uint64_t nr_pages; /* still to hand out */
	struct folio *folio; /* handed out last */
};

/* The next locked folio of the window, or NULL at its end.  The reference is the window's. */
struct folio *filemap_readahead_folio(struct readahead_control *rac);

/* All methods may sleep unless said otherwise. */
struct address_space_operations {
	/*
	 * Required.  Fill the folio; it is locked.  The read ends with folio_end_read(), here
	 * or later.  Returns 0 if that will happen or has happened.
	 */
	int (*read_folio)(struct file *file, struct folio *folio);
	/* Fill all folios of the window; those not taken by filemap_readahead_folio() or not
	 * read are removed by the caller. */
	void (*readahead)(struct readahead_control *rac);
	/* Required.  Write dirty folios as wbc asks. */
	int (*writepages)(struct address_space *mapping, struct writeback_control *wbc);
	/*
	 * Optional.  Set folio->block_state of a folio about to enter the mapping to memory of
	 * env_alloc(); its first uint32_t is its size in bytes.  The cache frees it with the
	 * folio.  0 or -ENOMEM.  No lock is held.
	 */
	int (*init_folio)(struct address_space *mapping, struct folio *folio);
	/* Optional.  May the clean, locked folio be evicted?  Detaches block state (G14). */
	bool (*release_folio)(struct folio *folio);
	/* Optional.  [off, off + len) of the locked folio is going away (G15). */
	void (*invalidate_folio)(struct folio *folio, uint64_t off, uint64_t len);
	/* Optional.  Are the touched blocks uptodate (E11)?  No lock needed. */
	bool (*is_partially_uptodate)(struct folio *folio, uint64_t off, uint64_t len);
};

/*
 * How a member is protected:
 *	I	set before the inode is used, then constant
 *	a	atomic
 *	M	lock
 */
struct address_space {
	struct inode *host; /* [I] */
	struct page_cache *cache; /* [I] */
	const struct address_space_operations *a_ops; /* [I] */
	uint8_t min_order; /* [I] J1 */
	uint8_t max_order; /* [I] J1 */
	uint8_t page_shift; /* [I] log2 of the cache's page size */
	bool stable_writes; /* [I] wait for writeback before changing a folio (F32) */
	void *index_root; /* [M, read under RCU] folio or index node */
	struct env_mutex lock; /* L7: index, tags, counters below, folio DIRTY/WRITEBACK */
	errseq_t wb_err; /* [a] */
	uint64_t nr_pages; /* [M] cached */
	uint64_t nr_dirty; /* [M] pages of dirty folios */
	uint64_t nr_writeback; /* [M] pages of folios under writeback */
	uint64_t writeback_bytes; /* [M] of their blocks that were dirty, if counted (W57) */
	uint64_t writeback_index; /* [a] where a cyclic pass goes on (F1) */
	uint32_t legacy_errors; /* [a] MAPPING_EIO, MAPPING_ENOSPC (K27) */
	struct env_rwsem invalidate_lock; /* L2 */
};

enum mapping_errors {
	MAPPING_EIO = 1,
	MAPPING_ENOSPC = 2,
};

/* ---- super_block -------------------------------------------------------------------- */

#define WB_SHARD_ANY UINT64_MAX

struct super_operations {
	/* Optional.  Write the inode's metadata; data was written before (K12). */
	int (*write_inode)(struct inode *inode, struct writeback_control *wbc);
	/* Optional.  The fsync duty after data is written: commit metadata, flush the device. */
	int (*fsync)(struct inode *inode, bool datasync);
	/* Optional.  Commit everything of the file system (sync). */
	int (*sync_fs)(struct super_block *sb);
	/* Optional.  How many inodes of different shards can allocate at once (W9); default 1. */
	unsigned int (*wb_parallelism)(const struct super_block *sb);
	/* Optional.  The inode's shard or WB_SHARD_ANY (W13).  May not sleep. */
	uint64_t (*wb_shard)(const struct inode *inode);
};

struct super_block {
	const struct super_operations *s_op; /* [I] */
	struct page_cache *s_cache; /* [I] */
	struct backing_dev *s_bdi; /* [I] */
	uint32_t s_blocksize; /* [I] bytes */
	uint8_t s_blkbits; /* [I] */
	/*
	 * [I] Set between super_init() and the first inode: writes and writeback pay for buffer
	 * heads besides (EX26, VC6).  Changes costs in virtual time and nothing else.
	 */
	bool s_buffer_heads;
	errseq_t s_wb_err; /* [a] for syncfs (K27) */
	struct env_mutex s_wb_lock; /* protects s_wb_inodes */
	struct list_head s_wb_inodes; /* inodes with pages under writeback (K15) */
	struct list_head s_wb_waiting; /* .. those a sync still has to wait for */
	struct env_mutex s_sync_lock; /* one sync at a time */
	struct env_waitq s_inode_wait; /* I_SYNC cleared or i_pins dropped on some inode */
	struct list_head s_link; /* on bdi->sbs */
	uint32_t s_parallelism; /* [bdi] wb_parallelism() at the first inode; 0: not asked yet */
	void *s_fs_info; /* the back end's */
};

/*
 * 0; -EINVAL for a block size that is not a power of two in 512 .. 2 MiB, or that is larger
 * than the largest folio (J11).
 */
int super_init(struct super_block *sb, struct page_cache *cache, struct backing_dev *bdi,
	       uint32_t block_size, const struct super_operations *ops);
/* No inode of it is in use.  Detaches it from its bdi. */
void super_shutdown(struct super_block *sb);
/*
 * Write and wait for everything that is dirty now, in all contexts (K15).  Returns the error of
 * the file system's own commit; those of data are kept for fsync and syncfs.
 */
int super_sync(struct super_block *sb);

/* ---- inode -------------------------------------------------------------------------- */

enum inode_state {
	I_DIRTY_SYNC = 1u << 0, /* metadata */
	I_DIRTY_DATASYNC = 1u << 1, /* metadata needed to reach the data */
	I_DIRTY_PAGES = 1u << 2,
	I_DIRTY_TIME = 1u << 3, /* lazy timestamps */
	I_SYNC = 1u << 4, /* one flusher or sync is writing it (L13) */
	I_FREEING = 1u << 5,
	I_NEW = 1u << 6,
	I_DIRTY = I_DIRTY_SYNC | I_DIRTY_DATASYNC | I_DIRTY_PAGES,
};

/*
 *	i	i_lock
 *	W	list_lock of the context it is bound to
 *	R	i_rwsem exclusive to write
 */
struct inode {
	struct super_block *i_sb; /* [I] */
	uint64_t i_ino; /* [I] */
	uint64_t i_size; /* [a] bytes; written under i_rwsem (grow: also the folio lock) */
	uint8_t i_blkbits; /* [I] log2 of the block size */
	struct address_space i_mapping;
	struct env_rwsem i_rwsem; /* L1 */
	struct env_mutex i_lock; /* L9 */
	uint32_t i_state; /* [i, read without] enum inode_state */
	struct wb_ctx *i_wb; /* [i + mapping lock] the context it is bound to (K31) */
	struct list_head i_io_list; /* [W] */
	uint8_t i_list; /* [W + i] which list of the context that is in; 0: none */
	uint64_t dirtied_when; /* [i] ns: when it became dirty (K5) */
	struct list_head i_wb_link; /* [s_wb_lock] on s_wb_inodes */
	uint32_t i_pins; /* [s_wb_lock] syncs that wait for its I/O */
	uint32_t i_dio_count; /* [a] direct I/O in flight (I12) */
};

/*
 * Make the inode ready.  Folio orders are 0 .. max for blocks up to a page, else from the
 * block size; change with mapping_set_folio_order_range() before the first use.
 */
void inode_init(struct inode *inode, struct super_block *sb, uint64_t ino,
		const struct address_space_operations *a_ops);
/*
 * Forget it: takes it off all lists, drops its whole cache without writing, waits for its I/O.
 * => nobody else uses the inode
 */
void inode_evict(struct inode *inode);

static inline uint64_t inode_size_read(const struct inode *inode)
{
	return __atomic_load_n(&inode->i_size, __ATOMIC_ACQUIRE);
}

static inline void inode_size_write(struct inode *inode, uint64_t size)
{
	__atomic_store_n(&inode->i_size, size, __ATOMIC_RELEASE);
}

/* Add I_DIRTY_* flags; a clean inode joins its context's list (K5).  No lock below i_lock. */
void inode_mark_dirty(struct inode *inode, unsigned int flags);

/* ---- mapping_* ---------------------------------------------------------------------- */

/* Both are clamped to the cache's largest order; max is raised to min (J1). */
void mapping_set_folio_order_range(struct address_space *mapping, unsigned int min,
				   unsigned int max);

/* Record a writeback error: errseq of the mapping and the super block, legacy flag (F23). */
void mapping_set_error(struct address_space *mapping, int error);
/* Test and clear the legacy flags: -ENOSPC, -EIO (wins) or 0 (K27). */
int mapping_check_errors(struct address_space *mapping);

/* ---- file --------------------------------------------------------------------------- */

enum file_flags {
	FILE_DSYNC = 1u << 0, /* each write is followed by a sync of its range (D38) */
	FILE_SYNC = 1u << 1,
	FILE_RANDOM = 1u << 2, /* no readahead beyond the request */
	FILE_SEQUENTIAL = 1u << 3, /* twice the readahead window */
};

/* Readahead state (E12, J14); pages. */
struct file_ra_state {
	uint64_t start;
	uint32_t size;
	uint32_t async_size;
	uint32_t ra_pages; /* limit */
	uint32_t order;
	uint64_t prev_index; /* page read last, UINT64_MAX: none */
};

struct file {
	struct inode *f_inode;
	unsigned int f_flags; /* enum file_flags */
	struct env_mutex f_lock; /* L12: f_wb_err */
	errseq_t f_wb_err; /* error sample (K25) */
	struct file_ra_state f_ra; /* not locked: a race costs a window, never data */
};

void file_init(struct file *file, struct inode *inode, unsigned int flags);
void file_release(struct file *file);

/*
 * Write and wait for [start, end] (end inclusive), report errors once per open file (K16, K26),
 * then let the back end commit.  datasync: only the metadata needed to reach the data.
 */
int file_fsync(struct file *file, uint64_t start, uint64_t end, bool datasync);
/* The error check alone. */
int file_check_and_advance_wb_err(struct file *file);
/* syncfs: super_sync(), then the super block's error against *sample (K27). */
int super_syncfs(struct super_block *sb, errseq_t *sample);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

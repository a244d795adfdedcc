/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * base.h - what every back end is built from
 *
 * A back end is one folder and one line in fsbackends/table.c: a struct fs_backend.  It
 * supplies placement, the mapping and its completion; the name space (namespace.c), the file
 * layer (file.c) and the extent map (extent-map.h) are common.
 */
#ifndef FSBACKENDS_BASE_H
#define FSBACKENDS_BASE_H

#include <iomap/backing_dev.h>
#include <iomap/blkdev.h>
#include <iomap/env.h>
#include <iomap/filemap.h>
#include <iomap/folio.h>
#include <iomap/fs.h>
#include <iomap/fsbackend.h>
#include <iomap/iomap.h>
#include <iomap/list.h>
#include <iomap/page_cache.h>

struct fs_backend;
struct fs_dirent;

/* Embedded first in the back end's own file system. */
struct fs {
	struct super_block sb;
	const struct fs_backend *backend; /* [I] */
	struct block_device *bdev; /* [I] */
	struct env_mutex sync_lock; /* one fs_sync() at a time */
	errseq_t sync_seen; /* [sync_lock] what it has told of the errors of data */
	struct env_mutex names_lock; /* every name, link and open count of this fs */
	struct fs_inode *root; /* [I] */
};

/* Embedded first in the back end's own inode. */
struct fs_inode {
	struct inode inode;
	struct fs *fs; /* [I] */
	bool is_dir; /* [I] */
	bool linked; /* [names_lock] has a name */
	unsigned int nr_open; /* [names_lock] */
	struct fs_dirent *entries; /* [names_lock] of a directory */
	size_t nr_entries; /* [names_lock] */
	size_t max_entries; /* [names_lock] */
};

static inline struct fs *fs_of(const struct inode *inode)
{
	return container_of(inode->i_sb, struct fs, sb);
}

static inline struct fs_inode *fs_inode_from(const struct inode *inode)
{
	return container_of(inode, struct fs_inode, inode);
}

struct fs_option {
	const char *name;
	const char *value; /* default, as text */
	const char *text; /* meaning, range */
};

struct fs_backend {
	const char *name;
	const char *text;
	const struct fs_option *options; /* ended by a NULL name */

	/*
	 * Make an empty file system.  Sets up *fs by fs_init() and its own part; no inode yet.
	 * On failure writes one line to error.
	 */
	int (*mount)(struct fs **fs, struct page_cache *cache, struct backing_dev *bdi,
		     struct block_device *dev, const struct fs_config *config, char *error,
		     size_t error_size);
	/* Everything is written, every inode freed. */
	void (*unmount)(struct fs *fs);

	/*
	 * A new inode placed beside its parent (NULL: the root directory); calls inode_init().
	 * => names_lock is held
	 */
	int (*new_inode)(struct fs *fs, struct fs_inode *parent, bool is_dir,
			 struct fs_inode **inode);
	/*
	 * The inode has no user and no cache (inode_evict() was called).  unlinked: free its
	 * space and its number; else only its memory.
	 */
	void (*free_inode)(struct fs_inode *inode, bool unlinked);

	const struct iomap_ops *read_ops; /* read, readahead: never allocate */
	/* Buffered write and zero.  => i_rwsem is held exclusively */
	const struct iomap_ops *write_ops;
	/*
	 * Buffered write over what has space, while others do the same: like write_ops, but
	 * -EAGAIN instead of making space.  What a write has promised and then gives back must
	 * not be what another one has found meanwhile.  So never IOMAP_F_NEW, and nothing to end.
	 * => i_rwsem is held
	 */
	const struct iomap_ops *overwrite_ops;
	const struct iomap_write_ops *folio_ops;

	/*
	 * i_size went from old_size to size, and the cache with it: record disk_size, and free the
	 * space from the block's end on, unless the file grows: then what fallocate() put behind
	 * the old end stays.  => i_rwsem and invalidate_lock are held exclusively
	 */
	int (*truncate)(struct fs_inode *inode, uint64_t old_size, uint64_t size);
	/*
	 * Turn the holes of [pos, pos + len) (whole blocks) into unwritten space.  -ENOSPC leaves
	 * what was made.  => i_rwsem and invalidate_lock are held exclusively
	 */
	int (*fallocate)(struct fs_inode *inode, uint64_t pos, uint64_t len);
	/*
	 * Free the space of [pos, pos + len) (whole blocks), of any kind.  0, or -ENOMEM with
	 * nothing freed.  => as fallocate; nothing of it is cached dirty or under writeback
	 */
	int (*punch)(struct fs_inode *inode, uint64_t pos, uint64_t len);
	/*
	 * Move the space from pos on (a block) up by len bytes (whole blocks), so that a hole
	 * comes in; or remove [pos, pos + len) and move what is behind it down.  size: what
	 * i_size will be, recorded as disk_size.  0; -EFBIG or -ENOMEM with nothing changed.
	 * => as fallocate; nothing from pos on is cached
	 */
	int (*insert)(struct fs_inode *inode, uint64_t pos, uint64_t len, uint64_t size);
	int (*collapse)(struct fs_inode *inode, uint64_t pos, uint64_t len, uint64_t size);
	/* Optional.  A descriptor was closed and it was the last one. */
	void (*last_close)(struct fs_inode *inode);
	int (*next_extent)(struct fs_inode *inode, uint64_t pos, struct fs_extent *extent);
	void (*get_space)(struct fs *fs, struct fs_space *space);
};

/*
 * Where to give up for want of memory is to lose data, ask again after a pause: in completion
 * until there is some, in writeback that often (K17).
 */
#define FS_ENOMEM_PAUSE_NS 1000000ull
#define FS_ENOMEM_TRIES	   1000u

/* fsbackends/table.c: ended by NULL. */
extern const struct fs_backend *const fs_backends[];

/* Set up the common part; the errno of super_init() with a line in error. */
int fs_init(struct fs *fs, const struct fs_backend *backend, struct page_cache *cache,
	    struct backing_dev *bdi, struct block_device *dev, const struct fs_config *config,
	    const struct super_operations *ops, char *error, size_t error_size);

/*
 * Option values: config->options is "a=1,b=on".  fs_options_check() refuses unknown names and
 * malformed text with one line; the getters return the value given or the default, and refuse
 * values out of range.
 */
int fs_options_check(const struct fs_backend *backend, const char *options, char *error,
		     size_t error_size);
int fs_option_u64(const struct fs_backend *backend, const char *options, const char *name,
		  uint64_t min, uint64_t max, uint64_t *value, char *error, size_t error_size);
int fs_option_bool(const struct fs_backend *backend, const char *options, const char *name,
		   bool *value, char *error, size_t error_size);
/* The index of the value in the NULL-ended list of words. */
int fs_option_word(const struct fs_backend *backend, const char *options, const char *name,
		   const char *const *words, unsigned int *value, char *error, size_t error_size);

/* The address_space_operations entries that only need backend->read_ops. */
int fs_read_folio(struct file *file, struct folio *folio);
void fs_readahead(struct readahead_control *rac);

#endif

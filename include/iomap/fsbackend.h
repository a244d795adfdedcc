/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fsbackend.h - the file systems that come with the library, and files on them
 *
 *	struct fs_config config = { .type = "xfs" };
 *
 *	fs_mount(&fs, cache, bdi, dev, &config, error, sizeof(error));	empty: mkfs and mount
 *	fs_mkdir(fs, "/dir1");
 *	fs_open(fs, "/dir1/a", FS_OPEN_CREATE, &file);
 *	n = fs_write(file, buffer, 4096, 0);
 *	fs_fsync(file, false);
 *	fs_close(file);
 *	fs_unmount(fs);
 *
 * Paths are absolute, "/" separated.  Calls on one fs may run in parallel; calls on one
 * file too.  Everything returns 0 (or bytes) or a negative errno.
 */
#ifndef IOMAP_FSBACKEND_H
#define IOMAP_FSBACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct backing_dev;
struct block_device;
struct file;
struct fs;
struct inode;
struct page_cache;

struct fs_config {
	const char *type; /* "xfs", "ext4": see fs_backend_name() */
	uint32_t block_size; /* bytes, 0: 4096 */
	const char *options; /* "name=value,name=value" for the back end, or NULL */
	unsigned int nr_cpus; /* what geometry rules may assume, 0: env_nr_cpus() */
};

/* Name and one-line text of the back end number i, NULL behind the last. */
const char *fs_backend_name(unsigned int i);
const char *fs_backend_text(unsigned int i);
/* Option number i of a back end: "name", default and meaning; NULL behind the last. */
const char *fs_backend_option(const char *type, unsigned int i, const char **value,
			      const char **text);

/*
 * Make an empty file system on the device and mount it.  On failure `error` holds one line:
 * what is wrong and what would be right.
 */
int fs_mount(struct fs **fs, struct page_cache *cache, struct backing_dev *bdi,
	     struct block_device *dev, const struct fs_config *config, char *error,
	     size_t error_size);
/* As fs_sync(), and with its result; then free everything in any case.  Every file is closed. */
int fs_unmount(struct fs *fs);

enum fs_open_flags {
	FS_OPEN_CREATE = 1u << 0, /* if absent */
	FS_OPEN_EXCLUSIVE = 1u << 1, /* with CREATE: -EEXIST if present */
	FS_OPEN_TRUNCATE = 1u << 2,
	FS_OPEN_SYNC = 1u << 3,
	FS_OPEN_DSYNC = 1u << 4,
	FS_OPEN_READONLY = 1u << 5, /* writes give -EBADF */
};

int fs_mkdir(struct fs *fs, const char *path); /* -EEXIST, -ENOENT, -ENOTDIR */
int fs_mkdir_parents(struct fs *fs, const char *path); /* mkdir -p */
int fs_open(struct fs *fs, const char *path, unsigned int flags, struct file **file);
int fs_close(struct file *file);
/* The space is freed when the last file on it is closed. */
int fs_unlink(struct fs *fs, const char *path);
int fs_stat(struct fs *fs, const char *path, uint64_t *size, bool *is_dir);

ssize_t fs_write(struct file *file, const void *memory, size_t len, uint64_t pos);
ssize_t fs_read(struct file *file, void *memory, size_t len, uint64_t pos);
uint64_t fs_size(const struct file *file);
struct inode *fs_inode_of(const struct file *file);
int fs_truncate(struct file *file, uint64_t size);

/* The values of fallocate(2). */
enum fs_falloc_mode {
	FS_FALLOC_KEEP_SIZE = 0x01,
	FS_FALLOC_PUNCH_HOLE = 0x02, /* with KEEP_SIZE: free whole blocks, zero parts of blocks */
	FS_FALLOC_COLLAPSE_RANGE = 0x08, /* remove whole blocks; what is behind moves down */
	FS_FALLOC_ZERO_RANGE = 0x10, /* becomes unwritten space */
	FS_FALLOC_INSERT_RANGE = 0x20, /* whole blocks of hole; what is behind moves up */
};

/*
 * As fallocate(2); mode 0 or KEEP_SIZE alone gives holes unwritten space (XF11).  -EOPNOTSUPP for
 * modes that do not go together or PUNCH_HOLE without KEEP_SIZE; -EINVAL for length 0, and where
 * COLLAPSE and INSERT_RANGE are not whole blocks or not before the end of the file; -EFBIG past
 * the longest file; -ENOSPC, with what was allocated before it; -EBADF.  Data of the range that
 * is dirty is written first, and an error of that is returned (G10).
 */
int fs_fallocate(struct file *file, unsigned int mode, uint64_t pos, uint64_t len);
int fs_fsync(struct file *file, bool datasync);
/* Write the range; wait: for it too.  No metadata, no device flush. */
int fs_sync_range(struct file *file, uint64_t pos, uint64_t len, bool wait);
enum fs_advice { FS_ADVICE_NORMAL, FS_ADVICE_RANDOM, FS_ADVICE_SEQUENTIAL, FS_ADVICE_DONTNEED };
int fs_advise(struct file *file, uint64_t pos, uint64_t len, enum fs_advice advice);
/*
 * Write everything and commit it.  The error of the commit; else the last one since the mount of
 * writing data, by whomever it was written, that no fs_sync() has returned yet (K27).
 */
int fs_sync(struct fs *fs);

/* One record of a file's space, in file order; see EC1..EC3. */
struct fs_extent {
	uint64_t pos; /* bytes */
	uint64_t len;
	uint64_t addr; /* device bytes; 0 if delayed */
	bool delayed;
	bool unwritten;
};

/* The first record that ends after pos; -ENOENT if there is none. */
int fs_next_extent(struct file *file, uint64_t pos, struct fs_extent *extent);

struct fs_extent_counts {
	uint64_t merged; /* as filefrag counts (EC1) */
	uint64_t unmerged; /* records (EC3) */
};
int fs_count_extents(struct file *file, struct fs_extent_counts *counts);

struct fs_space {
	uint64_t total; /* bytes for data */
	uint64_t free; /* not allocated */
	uint64_t reserved; /* of the free: promised to delayed allocation (CB6) */
};
void fs_get_space(struct fs *fs, struct fs_space *space);

/* The writeback contexts the file system can use (W9). */
unsigned int fs_parallelism(struct fs *fs);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

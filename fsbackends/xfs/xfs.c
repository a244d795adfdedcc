/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * xfs.c - an XFS-like file system: options, mount, sync
 *
 * Metadata is kept in memory.  What the log would have to write is counted, and written by whoever
 * needs it on the device or by the log's own thread.
 */
#include "xfs.h"
#include "internal.h"

#include <errno.h>
#include <stdio.h>

#define ALLOCSIZE_MIN 4096ull
#define ALLOCSIZE_MAX (1ull << 30)
#define STREAMS_MAX   65536

#define LOG_SHARE	2048 /* of the device the log takes one in so many */
#define LOG_DEFAULT_MIN (10ull << 20)
#define LOG_DEFAULT_MAX (2ull << 30)

/* ---- options (XF31) ---------------------------------------------------------------------- */

static const char *const eof_prealloc_words[] = {"full", "fixed64k", "off", NULL};
static const char *const shard_words[] = {"data_ag", "inode_ag", "stream", NULL};

static const struct fs_option xfs_fs_options[] = {
	{"agcount", "0", "allocation groups, 0: by the size of the device"},
	{"concurrency", "off", "as many groups as CPUs, of 4 GiB at least; on, off"},
	{"allocsize", "0",
	 "bytes reserved behind the end of a growing file, a power of two of "
	 "4K to 1G; 0: as eof_prealloc says"},
	{"extsize", "0",
	 "blocks are chosen at write(), in whole multiples of so many bytes; 0: off"},
	{"logsize", "0",
	 "bytes of log space that transactions share, at least 512K; 0: by the size of the device"},
	{"streams", "0", "files go round so many bands of groups, 2 or more; 0: off"},
	{"busy_extents", "on", "what is freed is used again when the log is written; on, off"},
	{"inode32", "off", "inode numbers of 32 bits, data anywhere; on, off"},
	{"delalloc", "on", "choose blocks when data is written back, not at write(); on, off"},
	{"agf_trylock", "on", "pass by a busy group before waiting for one; on, off"},
	{"gap_rule", "on", "keep short holes of a file on the device too; on, off"},
	{"eof_prealloc", "full",
	 "what a growing file reserves: full (as much as it has), fixed64k, off"},
	{"rmap_at_completion", "on", "finished writes take their group's lock; on, off"},
	{"xfs_shard", "data_ag",
	 "what binds a file to a writeback context: data_ag, inode_ag, "
	 "stream"},
	{NULL, NULL, NULL},
};

static int check_allocsize(const struct xfs_options *options, uint32_t block_size, char *error,
			   size_t error_size)
{
	uint64_t size = options->allocsize;

	if (size == 0)
		return 0;
	if ((size & (size - 1)) == 0 && size >= ALLOCSIZE_MIN && size >= block_size)
		return 0;
	snprintf(error, error_size,
		 "xfs option 'allocsize': %llu should be a power of two of at least %llu",
		 (unsigned long long)size,
		 (unsigned long long)(block_size > ALLOCSIZE_MIN ? block_size : ALLOCSIZE_MIN));
	return -EINVAL;
}

static int check_extsize(const struct xfs_options *options, uint32_t block_size, char *error,
			 size_t error_size)
{
	if (options->extsize % block_size == 0)
		return 0;
	snprintf(error, error_size, "xfs option 'extsize': %llu should be a multiple of %u",
		 (unsigned long long)options->extsize, block_size);
	return -EINVAL;
}

static int check_logsize(const struct xfs_options *options, char *error, size_t error_size)
{
	if (options->logsize == 0 || options->logsize >= XFS_LOG_MIN_BYTES)
		return 0;
	snprintf(error, error_size, "xfs option 'logsize': %llu should be at least %llu",
		 (unsigned long long)options->logsize, (unsigned long long)XFS_LOG_MIN_BYTES);
	return -EINVAL;
}

static int check_streams(const struct xfs_options *options, char *error, size_t error_size)
{
	if (options->shard != XFS_SHARD_STREAM || options->streams > 1)
		return 0;
	snprintf(error, error_size, "xfs option 'xfs_shard': stream needs streams=2 or more");
	return -EINVAL;
}

static int read_sizes(struct xfs_options *options, const struct fs_config *config, char *error,
		      size_t error_size)
{
	const struct {
		const char *name;
		uint64_t max;
		uint64_t *value;
	} sizes[] = {
		{"agcount", 1u << 20, &options->nr_ags},
		{"allocsize", ALLOCSIZE_MAX, &options->allocsize},
		{"extsize", ALLOCSIZE_MAX, &options->extsize},
		{"logsize", LOG_DEFAULT_MAX, &options->logsize},
		{"streams", STREAMS_MAX, &options->streams},
	};
	int err = 0;

	for (size_t i = 0; !err && i < sizeof(sizes) / sizeof(sizes[0]); i++)
		err = fs_option_u64(&xfs_backend, config->options, sizes[i].name, 0, sizes[i].max,
				    sizes[i].value, error, error_size);
	if (!err)
		err = check_allocsize(options, config->block_size, error, error_size);
	if (!err)
		err = check_extsize(options, config->block_size, error, error_size);
	return err ? err : check_logsize(options, error, error_size);
}

static int read_switches(struct xfs_options *options, const char *text, char *error,
			 size_t error_size)
{
	const struct {
		const char *name;
		bool *value;
	} switches[] = {
		{"concurrency", &options->concurrency},
		{"inode32", &options->inode32},
		{"delalloc", &options->delalloc},
		{"busy_extents", &options->busy_extents},
		{"agf_trylock", &options->agf_trylock},
		{"gap_rule", &options->gap_rule},
		{"rmap_at_completion", &options->rmap_at_completion},
	};
	int err = 0;

	for (size_t i = 0; !err && i < sizeof(switches) / sizeof(switches[0]); i++)
		err = fs_option_bool(&xfs_backend, text, switches[i].name, switches[i].value, error,
				     error_size);
	return err;
}

static int read_options(struct xfs_options *options, const struct fs_config *config, char *error,
			size_t error_size)
{
	const char *text = config->options;
	unsigned int word;
	int err;

	err = read_switches(options, text, error, error_size);
	if (err)
		return err;
	err = read_sizes(options, config, error, error_size);
	if (err)
		return err;
	err = fs_option_word(&xfs_backend, text, "eof_prealloc", eof_prealloc_words, &word, error,
			     error_size);
	if (err)
		return err;
	options->eof_prealloc = (enum xfs_eof_prealloc)word;
	err = fs_option_word(&xfs_backend, text, "xfs_shard", shard_words, &word, error,
			     error_size);
	if (err)
		return err;
	options->shard = (enum xfs_shard)word;
	return check_streams(options, error, error_size);
}

/* ---- super operations -------------------------------------------------------------------- */

/*
 * Nothing to send for an overwrite but the flush; else one log record, which stands for all
 * changes so far (XF24, XF26).
 */
static int xfs_fsync(struct inode *inode, bool datasync)
{
	const struct xfs_inode *ip = xfs_inode_from(inode);
	struct xfs_log *log = &xfs_of(inode)->log;
	uint64_t change = __atomic_load_n(&ip->meta_change, __ATOMIC_RELAXED);
	uint64_t time_change = __atomic_load_n(&ip->time_change, __ATOMIC_RELAXED);
	int err;

	if (!datasync && time_change > change)
		change = time_change;
	err = xfs_log_commit(log, change);
	return err ? err : xfs_log_flush(log);
}

static int xfs_sync_fs(struct super_block *sb)
{
	struct xfs_log *log = &container_of(sb, struct xfs, fs.sb)->log;
	int err = xfs_log_commit_all(log);

	return err ? err : xfs_log_flush(log);
}

/* XF29 */
static unsigned int xfs_wb_parallelism(const struct super_block *sb)
{
	return (unsigned int)container_of(sb, struct xfs, fs.sb)->space.geometry.nr_ags;
}

/* No write_inode: an inode is never written in place, and the log is written by who waits. */
static const struct super_operations xfs_super_ops = {
	.fsync = xfs_fsync,
	.sync_fs = xfs_sync_fs,
	.wb_parallelism = xfs_wb_parallelism,
	.wb_shard = xfs_wb_shard,
};

/* ---- mount ------------------------------------------------------------------------------- */

static int make_geometry(const struct xfs *xfs, const struct block_device *dev,
			 const struct fs_config *config, struct xfs_geometry *geometry, char *error,
			 size_t error_size)
{
	struct xfs_geometry_config wanted = {
		.size = dev->size,
		.block_size = config->block_size,
		.nr_ags = xfs->options.nr_ags,
		.concurrency = xfs->options.concurrency ? config->nr_cpus : 0,
		.inode32 = xfs->options.inode32,
	};

	return xfs_geometry_init(geometry, &wanted, error, error_size);
}

static uint64_t log_bytes(const struct xfs *xfs, const struct block_device *dev)
{
	uint64_t bytes = dev->size / LOG_SHARE;

	if (xfs->options.logsize > 0)
		return xfs->options.logsize;
	if (bytes > LOG_DEFAULT_MAX)
		return LOG_DEFAULT_MAX;
	return bytes > LOG_DEFAULT_MIN ? bytes : LOG_DEFAULT_MIN;
}

static void end_busy(void *fs, uint64_t change)
{
	struct xfs *xfs = fs;

	xfs_space_end_busy(&xfs->space, change);
}

static int init_log(struct xfs *xfs, struct block_device *dev)
{
	const struct xfs_geometry *geometry = &xfs->space.geometry;
	struct xfs_place place = {geometry->log_ag, XFS_AG_HEADER_BLOCKS};
	struct xfs_log_config config = {
		.bdev = dev,
		.addr = xfs_block_at(geometry, place) << geometry->blkbits,
		.len = geometry->log_blocks << geometry->blkbits,
		.size = log_bytes(xfs, dev),
		.space = &xfs->space,
		.committed = end_busy,
		.timer = xfs_trim_files,
		.arg = xfs,
	};
	int err = xfs_log_init(&xfs->log, &config);

	if (!err && xfs->options.busy_extents)
		xfs->space.log = &xfs->log;
	return err;
}

static int xfs_mount(struct fs **fs, struct page_cache *cache, struct backing_dev *bdi,
		     struct block_device *dev, const struct fs_config *config, char *error,
		     size_t error_size)
{
	struct xfs *xfs = env_zalloc(sizeof(*xfs));
	struct xfs_geometry geometry;
	int err;

	if (!xfs)
		return -ENOMEM;
	err = fs_init(&xfs->fs, &xfs_backend, cache, bdi, dev, config, &xfs_super_ops, error,
		      error_size);
	if (err)
		goto free_xfs;
	err = read_options(&xfs->options, config, error, error_size);
	if (err)
		goto shut_down;
	err = make_geometry(xfs, dev, config, &geometry, error, error_size);
	if (err)
		goto shut_down;
	err = xfs_space_init(&xfs->space, &geometry);
	if (err)
		goto shut_down;
	xfs->space.agf_trylock = xfs->options.agf_trylock;
	env_mutex_init(&xfs->trim_lock, "xfs trim_lock");
	list_init(&xfs->to_trim);
	err = init_log(xfs, dev);
	if (err)
		goto destroy_space;

	*fs = &xfs->fs;
	return 0;

destroy_space:
	xfs_space_destroy(&xfs->space);
shut_down:
	super_shutdown(&xfs->fs.sb);
free_xfs:
	env_free(xfs);
	return err;
}

static void xfs_unmount(struct fs *fs)
{
	struct xfs *xfs = container_of(fs, struct xfs, fs);

	super_shutdown(&fs->sb);
	xfs_log_destroy(&xfs->log);
	xfs_space_destroy(&xfs->space);
	env_free(xfs);
}

struct xfs_space *xfs_space_of(struct fs *fs)
{
	return &container_of(fs, struct xfs, fs)->space;
}

struct xfs_log *xfs_log_of(struct fs *fs)
{
	return &container_of(fs, struct xfs, fs)->log;
}

/* CB6 */
static void xfs_get_space(struct fs *fs, struct fs_space *space)
{
	struct xfs *xfs = container_of(fs, struct xfs, fs);
	uint64_t reserved = __atomic_load_n(&xfs->space.reserved, __ATOMIC_RELAXED);
	unsigned int bits = xfs->space.geometry.blkbits;

	space->total = xfs->space.total << bits;
	space->free = (xfs_space_available(&xfs->space) + reserved) << bits;
	space->reserved = reserved << bits;
}

const struct fs_backend xfs_backend = {
	.name = "xfs",
	.text = "XFS-like: allocation groups, delayed allocation, whole extents at writeback",
	.options = xfs_fs_options,
	.mount = xfs_mount,
	.unmount = xfs_unmount,
	.new_inode = xfs_new_inode,
	.free_inode = xfs_free_inode,
	.read_ops = &xfs_read_ops,
	.write_ops = &xfs_write_ops,
	.overwrite_ops = &xfs_overwrite_ops,
	.folio_ops = &xfs_folio_ops,
	.truncate = xfs_truncate,
	.fallocate = xfs_fallocate,
	.punch = xfs_punch,
	.insert = xfs_insert,
	.collapse = xfs_collapse,
	.last_close = xfs_last_close,
	.next_extent = xfs_next_extent,
	.get_space = xfs_get_space,
};

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * ext4.c - the ext4-like back end: options, mount, unmount, its table
 */
#include "internal.h"

#include <errno.h>
#include <stdio.h>

#define MIN_BLOCK_SIZE 512u
#define MAX_BLOCK_SIZE 65536u
#define NS_PER_S       1000000000ull
/* Of the space for data, 1/50 but not more than this many blocks are for the tree blocks of
 * extents: an estimate that delayed data may not eat (EX3). */
#define METADATA_SHARE	50u
#define METADATA_BLOCKS 4096u

static const struct fs_option options[] = {
	{"delalloc", "on", "place data at writeback; off: when it is written (EX24)"},
	{"mballoc", "new", "new, or old: one stream goal, waits for busy groups (EX25)"},
	{"group_lock", "try", "try: pass over busy groups; spin: wait for them (EX18)"},
	{"goals", "0", "stream goals, 0: by CPUs and groups (EX15), up to 65536"},
	{"small_file", "16", "blocks up to which a file is small (EX9), 0..65536"},
	{"group_chunk", "512", "blocks that small files share (EX13), 1..8192"},
	{"commit", "5", "seconds a transaction of the journal runs (EX23), 1..3600"},
	{"bh", "off", "on: pay for buffer heads too (EX26); nothing else changes"},
	{NULL, NULL, NULL},
};

struct settings {
	bool delalloc;
	unsigned int is_old; /* index into new_or_old */
	unsigned int waits; /* index into try_or_spin */
	uint64_t goals;
	uint64_t small_file;
	uint64_t group_chunk;
	uint64_t commit_s;
	bool buffer_heads;
};

static int settings_parse(struct settings *settings, const char *text, char *error,
			  size_t error_size)
{
	static const char *const new_or_old[] = {"new", "old", NULL};
	static const char *const try_or_spin[] = {"try", "spin", NULL};
	const struct fs_backend *self = &ext4_backend;
	int err = fs_options_check(self, text, error, error_size);

	if (!err)
		err = fs_option_bool(self, text, "delalloc", &settings->delalloc, error,
				     error_size);
	if (!err)
		err = fs_option_word(self, text, "mballoc", new_or_old, &settings->is_old, error,
				     error_size);
	if (!err)
		err = fs_option_word(self, text, "group_lock", try_or_spin, &settings->waits, error,
				     error_size);
	if (!err)
		err = fs_option_u64(self, text, "goals", 0, 65536, &settings->goals, error,
				    error_size);
	if (!err)
		err = fs_option_u64(self, text, "small_file", 0, 65536, &settings->small_file,
				    error, error_size);
	if (!err)
		err = fs_option_u64(self, text, "group_chunk", 1, 8192, &settings->group_chunk,
				    error, error_size);
	if (!err)
		err = fs_option_u64(self, text, "commit", 1, 3600, &settings->commit_s, error,
				    error_size);
	if (!err)
		err = fs_option_bool(self, text, "bh", &settings->buffer_heads, error, error_size);
	return err;
}

static int check_device(const struct block_device *dev, uint32_t block_size, char *error,
			size_t error_size)
{
	uint64_t min_size;

	if (block_size < MIN_BLOCK_SIZE || block_size > MAX_BLOCK_SIZE ||
	    (block_size & (block_size - 1))) {
		snprintf(error, error_size, "ext4: block size %u is not a power of two in %u .. %u",
			 block_size, MIN_BLOCK_SIZE, MAX_BLOCK_SIZE);
		return -EINVAL;
	}
	if (block_size < dev->logical_block) {
		snprintf(error, error_size, "ext4: block size %u is smaller than the device's, %u",
			 block_size, dev->logical_block);
		return -EINVAL;
	}
	min_size = ext4_layout_min_size(block_size);
	if (dev->size < min_size) {
		snprintf(error, error_size,
			 "ext4: a device of %llu bytes is too small, it takes at least %llu",
			 (unsigned long long)dev->size, (unsigned long long)min_size);
		return -ENOSPC;
	}
	return 0;
}

/* ---- super block operations ------------------------------------------------------------- */

/* EX27 */
static unsigned int wb_parallelism(const struct super_block *sb)
{
	const struct fs *base = container_of(sb, struct fs, sb);

	return (ext4_fs_from(base)->layout.nr_groups + 3) / 4;
}

static const struct super_operations super_ops = {
	.fsync = ext4_fsync,
	.sync_fs = ext4_sync_fs,
	.wb_parallelism = wb_parallelism,
	.wb_shard = ext4_inode_shard,
};

/* ---- mount ------------------------------------------------------------------------------ */

static void mark_metadata(void *arg, uint64_t start, uint32_t len)
{
	struct ext4_fs *fs = arg;

	ext4_mballoc_reserve(&fs->mballoc, start, len);
	fs->total -= len;
}

static int space_init(struct ext4_fs *fs, const struct settings *settings, unsigned int nr_cpus)
{
	struct ext4_mballoc_config config = {
		.nr_blocks = fs->layout.nr_blocks,
		.block_size = fs->layout.block_size,
		.per_group = fs->layout.per_group,
		.max_order = fs->layout.max_order,
		.nr_cpus = nr_cpus,
		.nr_goals = settings->is_old ? 1 : (uint32_t)settings->goals,
		.small_blocks = (uint32_t)settings->small_file,
		.chunk_blocks = (uint32_t)settings->group_chunk,
		.wait_for_groups = settings->is_old || settings->waits,
	};
	uint64_t for_metadata;
	int err = ext4_mballoc_init(&fs->mballoc, &config);

	if (err)
		return err;
	fs->total = fs->layout.nr_blocks;
	ext4_layout_mark(&fs->layout, mark_metadata, fs);
	for_metadata = fs->total / METADATA_SHARE;
	if (for_metadata > METADATA_BLOCKS)
		for_metadata = METADATA_BLOCKS;
	fs->total -= for_metadata;
	fs->nr_tree_free = for_metadata;
	fs->nr_free = fs->total;
	return 0;
}

static int journal_init(struct ext4_fs *fs, struct block_device *dev, uint64_t interval_ns)
{
	const struct ext4_layout *layout = &fs->layout;
	int err = ext4_journal_init(&fs->journal, dev, layout->block_size, layout->journal_start,
				    layout->journal_blocks, interval_ns);

	if (err)
		return err;
	/* What is set aside for tree blocks is all of them. */
	err = ext4_journal_set_release(&fs->journal, (uint32_t)fs->nr_tree_free + 1,
				       ext4_tree_release, fs);
	if (err)
		ext4_journal_destroy(&fs->journal);
	return err;
}

static int mount(struct fs **base, struct page_cache *cache, struct backing_dev *bdi,
		 struct block_device *dev, const struct fs_config *config, char *error,
		 size_t error_size)
{
	uint32_t block_size = config->block_size ? config->block_size : 4096;
	struct settings settings;
	struct ext4_fs *fs;
	int err = settings_parse(&settings, config->options, error, error_size);

	if (!err)
		err = check_device(dev, block_size, error, error_size);
	if (err)
		return err;
	snprintf(error, error_size, "ext4: no memory");
	fs = env_zalloc(sizeof(*fs));
	if (!fs)
		return -ENOMEM;
	fs->delalloc = settings.delalloc;
	err = ext4_layout_init(&fs->layout, dev->size, block_size);
	if (err)
		goto free_fs;
	err = space_init(fs, &settings, config->nr_cpus ? config->nr_cpus : env_nr_cpus());
	if (err)
		goto free_fs;
	err = ext4_inode_groups_init(fs);
	if (err)
		goto destroy_mballoc;
	err = journal_init(fs, dev, settings.commit_s * NS_PER_S);
	if (err)
		goto destroy_inode_groups;
	err = fs_init(&fs->fs, &ext4_backend, cache, bdi, dev, config, &super_ops, error,
		      error_size);
	if (err)
		goto destroy_journal;

	fs->fs.sb.s_buffer_heads = settings.buffer_heads;
	*base = &fs->fs;
	return 0;

destroy_journal:
	ext4_journal_destroy(&fs->journal);
destroy_inode_groups:
	ext4_inode_groups_destroy(fs);
destroy_mballoc:
	ext4_mballoc_destroy(&fs->mballoc);
free_fs:
	env_free(fs);
	return err;
}

static void unmount(struct fs *base)
{
	struct ext4_fs *fs = ext4_fs_from(base);

	super_shutdown(&fs->fs.sb);
	ext4_journal_destroy(&fs->journal);
	ext4_inode_groups_destroy(fs);
	ext4_mballoc_destroy(&fs->mballoc);
	env_free(fs);
}

static void get_space(struct fs *base, struct fs_space *space)
{
	struct ext4_fs *fs = ext4_fs_from(base);
	unsigned int shift = fs->fs.sb.s_blkbits;
	uint64_t reserved = __atomic_load_n(&fs->nr_reserved, __ATOMIC_ACQUIRE);
	uint64_t nr_free = __atomic_load_n(&fs->nr_free, __ATOMIC_ACQUIRE);

	space->total = fs->total << shift;
	space->free = (nr_free + reserved) << shift;
	space->reserved = reserved << shift;
}

const struct fs_backend ext4_backend = {
	.name = "ext4",
	.text = "ext4-like: block groups, 8 MiB chunks, delayed allocation at writeback",
	.options = options,
	.mount = mount,
	.unmount = unmount,
	.new_inode = ext4_new_inode,
	.free_inode = ext4_free_inode,
	.read_ops = &ext4_read_ops,
	.write_ops = &ext4_write_ops,
	.overwrite_ops = &ext4_overwrite_ops,
	.folio_ops = &ext4_folio_ops,
	.truncate = ext4_truncate,
	.fallocate = ext4_fallocate,
	.punch = ext4_punch,
	.insert = ext4_insert,
	.collapse = ext4_collapse,
	.last_close = ext4_last_close,
	.next_extent = ext4_next_extent,
	.get_space = get_space,
};

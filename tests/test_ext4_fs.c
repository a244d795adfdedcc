/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_ext4_fs.c - the ext4-like back end under the whole library
 */
#include <iomap/fsbackend.h>

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <iomap/backing_dev.h>
#include <iomap/blkdev.h>
#include <iomap/env.h>
#include <iomap/fs.h>
#include <iomap/page_cache.h>
#include <iomap/sim.h>

#define KIB 1024ull
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

struct world {
	struct page_cache *cache;
	struct block_device *dev; /* count, over fault, over ram or null */
	struct block_device *fault;
	struct backing_dev *bdi;
	struct fs *fs;
};

struct setup {
	uint64_t size; /* of the device */
	uint64_t capacity; /* of the cache, 0: 64 MiB */
	uint32_t block_size;
	unsigned int nr_contexts; /* 0: 1 */
	unsigned int nr_cpus;
	const char *options;
	bool forgets; /* a null device */
};

static int world_try(struct world *world, const struct setup *setup, char *error, size_t size)
{
	struct fs_config config = {
		.type = "ext4",
		.block_size = setup->block_size,
		.options = setup->options,
		.nr_cpus = setup->nr_cpus,
	};
	unsigned int nr_contexts = setup->nr_contexts ? setup->nr_contexts : 1;
	struct page_cache_config cache;
	struct block_device *bottom;

	page_cache_config_init(&cache);
	cache.capacity = setup->capacity ? setup->capacity : 64 * MIB;
	cr_assert_eq(page_cache_create(&world->cache, &cache), 0);
	if (setup->forgets)
		cr_assert_eq(blkdev_null_create(&bottom, setup->size, 0), 0);
	else
		cr_assert_eq(blkdev_ram_create(&bottom, setup->size, 0), 0);
	if (!setup->forgets)
		blkdev_ram_poison(bottom, 0xa5);
	cr_assert_eq(blkdev_fault_create(&world->fault, bottom), 0);
	cr_assert_eq(blkdev_count_create(&world->dev, world->fault), 0);
	cr_assert_eq(bdi_create(&world->bdi, world->cache, world->dev, nr_contexts, WB_MAP_AUTO),
		     0);
	return fs_mount(&world->fs, world->cache, world->bdi, world->dev, &config, error, size);
}

static void world_tear_down(struct world *world)
{
	bdi_destroy(world->bdi);
	blkdev_destroy(world->dev);
	page_cache_destroy(world->cache);
}

static void world_open(struct world *world, const struct setup *setup)
{
	char error[200];

	cr_assert_eq(world_try(world, setup, error, sizeof(error)), 0, "%s", error);
}

static void world_close(struct world *world)
{
	cr_assert_eq(fs_unmount(world->fs), 0);
	world_tear_down(world);
}

static struct file *file_new(struct world *world, const char *path)
{
	struct file *file;

	cr_assert_eq(fs_open(world->fs, path, FS_OPEN_CREATE, &file), 0);
	return file;
}

static void write_at(struct file *file, const void *memory, size_t len, uint64_t pos)
{
	cr_assert_eq(fs_write(file, memory, len, pos), (ssize_t)len);
}

/* What the byte at pos should be. */
static unsigned char pattern(uint64_t pos, unsigned int salt)
{
	return (unsigned char)((pos * 31 + (pos >> 9) * 7 + salt) | 1);
}

static void write_pattern(struct file *file, uint64_t pos, size_t len, unsigned int salt)
{
	unsigned char *memory = env_alloc(len);

	cr_assert_not_null(memory);
	for (size_t i = 0; i < len; i++)
		memory[i] = pattern(pos + i, salt);
	write_at(file, memory, len, pos);
	env_free(memory);
}

static bool has_pattern(struct file *file, uint64_t pos, size_t len, unsigned int salt)
{
	unsigned char *memory = env_alloc(len);
	bool same = true;

	cr_assert_not_null(memory);
	cr_assert_eq(fs_read(file, memory, len, pos), (ssize_t)len);
	for (size_t i = 0; i < len; i++)
		same = same && memory[i] == pattern(pos + i, salt);
	env_free(memory);
	return same;
}

static bool is_zero(struct file *file, uint64_t pos, size_t len)
{
	static unsigned char memory[256 * 1024];

	cr_assert_leq(len, sizeof(memory));
	cr_assert_eq(fs_read(file, memory, len, pos), (ssize_t)len);
	for (size_t i = 0; i < len; i++)
		if (memory[i])
			return false;
	return true;
}

static void drop_cache(struct world *world)
{
	page_cache_drop(world->cache);
}

static struct fs_space space_of(struct world *world)
{
	struct fs_space space;

	fs_get_space(world->fs, &space);
	return space;
}

/* Is every 8 MiB chunk of the file, as far as it has space, in one piece on the device? */
static bool chunks_are_whole(struct file *file)
{
	uint64_t offset = 0, chunk = UINT64_MAX;
	struct fs_extent extent;

	for (uint64_t pos = 0; fs_next_extent(file, pos, &extent) == 0;) {
		uint64_t end = (pos / (8 * MIB) + 1) * (8 * MIB);

		if (pos < extent.pos)
			pos = extent.pos;
		else if (pos / (8 * MIB) == chunk && extent.addr - extent.pos != offset)
			return false;
		chunk = pos / (8 * MIB);
		offset = extent.addr - extent.pos;
		pos = end < extent.pos + extent.len ? end : extent.pos + extent.len;
	}
	return true;
}

/* ---- contents --------------------------------------------------------------------------- */

static void contents_survive(uint32_t block_size, const char *options)
{
	struct setup setup = {.size = 64 * MIB, .block_size = block_size, .options = options};
	struct world world;
	struct file *file;

	world_open(&world, &setup);
	file = file_new(&world, "/a");
	write_pattern(file, 0, 100000, 1);
	write_pattern(file, 300001, 5000, 2);
	write_pattern(file, 50000, 1234, 3);
	cr_assert_eq(fs_fsync(file, false), 0);
	drop_cache(&world);
	cr_assert(has_pattern(file, 0, 50000, 1));
	cr_assert(has_pattern(file, 50000, 1234, 3));
	cr_assert(has_pattern(file, 51234, 100000 - 51234, 1));
	cr_assert(is_zero(file, 100000, 200001));
	cr_assert(has_pattern(file, 300001, 5000, 2));
	fs_close(file);
	world_close(&world);
}

Test(ext4_fs, contents_survive_at_every_block_size)
{
	for (uint32_t block_size = 512; block_size <= 65536; block_size *= 2)
		contents_survive(block_size, NULL);
}

Test(ext4_fs, contents_survive_without_delayed_allocation)
{
	for (uint32_t block_size = 512; block_size <= 65536; block_size *= 8)
		contents_survive(block_size, "delalloc=off");
}

Test(ext4_fs, what_truncate_cut_off_reads_as_zero)
{
	struct setup setup = {.size = 64 * MIB};
	struct world world;
	struct file *file;

	world_open(&world, &setup);
	file = file_new(&world, "/a");
	write_pattern(file, 0, 100000, 1);
	cr_assert_eq(fs_fsync(file, false), 0);
	cr_assert_eq(fs_truncate(file, 5000), 0);
	cr_assert_eq(fs_truncate(file, 100000), 0);
	cr_assert(has_pattern(file, 0, 5000, 1));
	cr_assert(is_zero(file, 5000, 95000));
	cr_assert_eq(fs_fsync(file, false), 0);
	drop_cache(&world);
	cr_assert(is_zero(file, 5000, 95000));
	fs_close(file);
	world_close(&world);
}

Test(ext4_fs, written_space_is_written_after_fsync)
{
	struct setup setup = {.size = 64 * MIB};
	struct fs_extent extent;
	struct world world;
	struct file *file;

	world_open(&world, &setup);
	file = file_new(&world, "/a");
	write_pattern(file, 0, 200000, 1);
	cr_assert_eq(fs_next_extent(file, 0, &extent), 0);
	cr_assert(extent.delayed);
	cr_assert_eq(fs_fsync(file, false), 0);
	for (uint64_t pos = 0; fs_next_extent(file, pos, &extent) == 0;
	     pos = extent.pos + extent.len) {
		cr_assert_not(extent.delayed);
		cr_assert_not(extent.unwritten);
	}
	fs_close(file);
	world_close(&world);
}

Test(ext4_fs, fallocate_makes_unwritten_records_of_limited_length)
{
	struct setup setup = {.size = 4 * GIB, .forgets = true};
	struct fs_extent extent;
	struct world world;
	struct file *file;
	uint64_t pos = 0;

	world_open(&world, &setup);
	file = file_new(&world, "/a");
	cr_assert_eq(fs_fallocate(file, 0, 0, GIB), 0);
	cr_assert_eq(fs_size(file), GIB);
	for (; fs_next_extent(file, pos, &extent) == 0; pos += extent.len) {
		cr_assert_eq(extent.pos, pos);
		cr_assert(extent.unwritten);
		cr_assert_leq(extent.len, 32767 * 4096);
	}
	cr_assert_eq(pos, GIB);
	fs_close(file);
	world_close(&world);
}

/* ---- space ------------------------------------------------------------------------------ */

Test(ext4_fs, space_is_reserved_allocated_and_freed)
{
	struct setup setup = {.size = 64 * MIB};
	struct fs_space before;
	struct world world;
	struct file *file;

	world_open(&world, &setup);
	before = space_of(&world);
	cr_assert_eq(before.free, before.total);
	file = file_new(&world, "/a");
	write_pattern(file, 0, 100 * KIB, 1);
	cr_assert_eq(space_of(&world).reserved, 100 * KIB);
	cr_assert_eq(space_of(&world).free, before.free);
	cr_assert_eq(fs_fsync(file, false), 0);
	cr_assert_eq(space_of(&world).reserved, 0);
	cr_assert_eq(space_of(&world).free, before.free - 100 * KIB);
	write_pattern(file, 500 * KIB, 100 * KIB, 1);
	cr_assert_eq(fs_truncate(file, 0), 0);
	cr_assert_eq(space_of(&world).reserved, 0);
	cr_assert_eq(space_of(&world).free, before.free);
	fs_close(file);
	world_close(&world);
}

Test(ext4_fs, unlink_frees_space_and_number)
{
	struct setup setup = {.size = 64 * MIB};
	struct fs_space before;
	struct world world;
	struct file *file;
	uint64_t ino;

	world_open(&world, &setup);
	before = space_of(&world);
	file = file_new(&world, "/a");
	ino = fs_inode_of(file)->i_ino;
	write_pattern(file, 0, 100 * KIB, 1);
	cr_assert_eq(fs_fsync(file, false), 0);
	write_pattern(file, 200 * KIB, 100 * KIB, 1);
	cr_assert_eq(fs_unlink(world.fs, "/a"), 0);
	fs_close(file);
	cr_assert_eq(space_of(&world).free, before.free);
	cr_assert_eq(space_of(&world).reserved, 0);
	file = file_new(&world, "/b");
	cr_assert_eq(fs_inode_of(file)->i_ino, ino);
	fs_close(file);
	world_close(&world);
}

Test(ext4_fs, a_full_device_says_so_at_write_and_not_later)
{
	struct setup setup = {.size = 16 * MIB};
	struct fs_space space;
	struct world world;
	struct file *file;
	char block[4096] = {1};
	uint64_t pos = 0;
	ssize_t n;

	world_open(&world, &setup);
	file = file_new(&world, "/a");
	/* Every second block, so that no chunk is used up. */
	while ((n = fs_write(file, block, sizeof(block), pos)) == sizeof(block))
		pos += 2 * sizeof(block);
	cr_assert_eq(n, -ENOSPC);
	cr_assert_eq(fs_fsync(file, false), 0);
	space = space_of(&world);
	cr_assert_eq(space.free, 0);
	cr_assert_eq(space.reserved, 0);
	cr_assert_eq(pos / 2, space.total);
	fs_close(file);
	world_close(&world);
}

Test(ext4_fs, what_did_not_fit_can_be_written_after_a_truncate)
{
	struct setup setup = {.size = 16 * MIB};
	struct world world;
	struct file *file;
	uint64_t total;

	world_open(&world, &setup);
	total = space_of(&world).total;
	file = file_new(&world, "/a");
	for (unsigned int i = 0; i < 3; i++) {
		cr_assert_eq(fs_fallocate(file, 0, 0, total + 4096), -ENOSPC);
		cr_assert_eq(fs_truncate(file, 0), 0);
		cr_assert_eq(fs_fallocate(file, 0, 0, total), 0);
		cr_assert_eq(fs_truncate(file, 0), 0);
	}
	fs_close(file);
	world_close(&world);
}

Test(ext4_fs, a_failed_write_leaves_no_promise_and_no_stale_bytes)
{
	struct blkdev_fault_rule rule = {.op = BIO_WRITE, .kind = BIO_DATA, .error = -EIO};
	struct setup setup = {.size = 64 * MIB};
	struct world world;
	struct file *file;

	world_open(&world, &setup);
	file = file_new(&world, "/a");
	cr_assert_eq(blkdev_fault_add(world.fault, &rule), 0);
	write_pattern(file, 0, 100 * KIB, 1);
	cr_assert_eq(fs_fsync(file, false), -EIO);
	blkdev_fault_clear(world.fault);
	cr_assert_eq(space_of(&world).reserved, 0);
	drop_cache(&world);
	cr_assert(is_zero(file, 0, 100 * KIB));
	fs_close(file);
	cr_assert_eq(fs_unmount(world.fs), -EIO);
	world_tear_down(&world);
}

/* ---- placement -------------------------------------------------------------------------- */

struct rewrite {
	struct file *file;
	uint64_t nr_blocks;
	uint32_t *order;
};

/* Every block once, in random order. */
static void rewrite_init(struct rewrite *rewrite, struct file *file, uint64_t size, uint64_t seed)
{
	struct env_rng rng;

	rewrite->file = file;
	rewrite->nr_blocks = size / 4096;
	rewrite->order = env_alloc(rewrite->nr_blocks * sizeof(*rewrite->order));
	cr_assert_not_null(rewrite->order);
	env_rng_seed(&rng, seed);
	for (uint32_t i = 0; i < rewrite->nr_blocks; i++) {
		uint32_t j = (uint32_t)env_rng_below(&rng, i + 1);

		rewrite->order[i] = rewrite->order[j];
		rewrite->order[j] = i;
	}
}

static void rewrite_step(const struct rewrite *rewrite, uint64_t i)
{
	static const char block[4096] = {1};

	write_at(rewrite->file, block, sizeof(block), rewrite->order[i] * 4096ull);
}

/*
 * EX28.  Two groups of which only the first begins with a copy of the super block would be one
 * piece.  But a block for the file's records takes the place behind the last chunk, wherever a
 * group has no smaller piece left for it.
 */
static void one_gib_at_random(uint64_t seed, uint64_t capacity)
{
	struct setup setup = {.size = 8 * GIB, .capacity = capacity, .forgets = true};
	struct rewrite rewrite;
	struct world world;
	struct fs_extent_counts counts;

	world_open(&world, &setup);
	rewrite_init(&rewrite, file_new(&world, "/a"), GIB, seed);
	for (uint64_t i = 0; i < rewrite.nr_blocks; i++)
		rewrite_step(&rewrite, i);
	cr_assert_eq(fs_fsync(rewrite.file, false), 0);
	cr_assert_eq(fs_count_extents(rewrite.file, &counts), 0);
	cr_assert_geq(counts.merged, 8);
	cr_assert_leq(counts.merged, 24);
	cr_assert_geq(counts.unmerged, 9);
	cr_assert(chunks_are_whole(rewrite.file));
	fs_close(rewrite.file);
	env_free(rewrite.order);
	world_close(&world);
}

Test(ext4_fs, one_gib_at_random_through_a_small_cache_is_in_few_pieces)
{
	one_gib_at_random(1, 64 * MIB);
}

Test(ext4_fs, one_gib_at_random_through_a_large_cache_is_in_few_pieces)
{
	one_gib_at_random(2, 512 * MIB);
}

/*
 * Group 1 begins with a copy, so the first whole buddy of 8 MiB is the second one.  The fifth
 * record does not fit into the inode and makes one cut more.
 */
Test(ext4_fs, one_gib_in_order_is_cut_where_a_group_begins_with_a_copy)
{
	struct setup setup = {.size = 8 * GIB, .forgets = true};
	const uint64_t starts[] = {34816, 67584, 100352};
	struct fs_extent_counts counts;
	static char memory[MIB];
	struct fs_extent extent;
	struct world world;
	struct file *file;
	uint64_t pos = 0;

	world_open(&world, &setup);
	file = file_new(&world, "/a");
	for (pos = 0; pos < GIB; pos += sizeof(memory))
		write_at(file, memory, sizeof(memory), pos);
	cr_assert_eq(fs_fsync(file, false), 0);
	pos = 0;
	for (unsigned int i = 0; i < 3; i++) {
		cr_assert_eq(fs_next_extent(file, pos, &extent), 0);
		cr_assert_eq(extent.addr / 4096, starts[i]);
		pos = extent.pos + extent.len;
	}
	cr_assert_eq(fs_count_extents(file, &counts), 0);
	cr_assert_eq(counts.merged, 6);
	fs_close(file);
	world_close(&world);
}

Test(ext4_fs, two_files_at_once_share_no_chunk)
{
	struct setup setup = {.size = 2 * GIB, .capacity = 32 * MIB, .forgets = true};
	struct rewrite a, b;
	struct world world;

	setup.nr_contexts = 2;
	world_open(&world, &setup);
	rewrite_init(&a, file_new(&world, "/a"), 128 * MIB, 1);
	rewrite_init(&b, file_new(&world, "/b"), 128 * MIB, 2);
	for (uint64_t i = 0; i < a.nr_blocks; i++) {
		rewrite_step(&a, i);
		rewrite_step(&b, i);
	}
	cr_assert_eq(fs_sync(world.fs), 0);
	cr_assert(chunks_are_whole(a.file));
	cr_assert(chunks_are_whole(b.file));
	fs_close(a.file);
	fs_close(b.file);
	env_free(a.order);
	env_free(b.order);
	world_close(&world);
}

/* Merged extents of the first of 4 files that grow in turn, a block at a time. */
static uint64_t extents_of_appended(const char *options)
{
	struct setup setup = {.size = 4 * GIB, .nr_cpus = 4, .options = options, .forgets = true};
	struct fs_extent_counts counts;
	struct file *files[4];
	struct world world;

	world_open(&world, &setup);
	for (unsigned int i = 0; i < 4; i++) {
		char path[20];

		snprintf(path, sizeof(path), "/file%u", i);
		files[i] = file_new(&world, path);
	}
	for (uint64_t block = 0; block < 1000; block++)
		for (unsigned int i = 0; i < 4; i++)
			cr_assert_eq(fs_fallocate(files[i], 0, block * 4096, 4096), 0);
	cr_assert_eq(fs_count_extents(files[0], &counts), 0);
	for (unsigned int i = 0; i < 4; i++)
		fs_close(files[i]);
	world_close(&world);
	return counts.merged;
}

/* EX25: one stream goal gives each file the next block in turn. */
Test(ext4_fs, files_appended_by_fallocate_interleave_in_the_old_way)
{
	cr_assert_geq(extents_of_appended("mballoc=old"), 950);
}

Test(ext4_fs, small_files_lie_one_behind_the_other)
{
	struct setup setup = {.size = 256 * MIB};
	struct world world;
	uint64_t next = 0;

	world_open(&world, &setup);
	for (unsigned int i = 0; i < 10; i++) {
		char path[20];
		struct file *file;
		struct fs_extent extent;

		snprintf(path, sizeof(path), "/file%u", i);
		file = file_new(&world, path);
		write_pattern(file, 0, 10000, i);
		cr_assert_eq(fs_fsync(file, false), 0);
		cr_assert_eq(fs_next_extent(file, 0, &extent), 0);
		cr_assert_eq(extent.len, 3 * 4096);
		if (i > 0)
			cr_assert_eq(extent.addr, next);
		next = extent.addr + extent.len;
		fs_close(file);
	}
	world_close(&world);
}

/* 40 groups are 3 flexible groups; each group has 8192 inodes. */
Test(ext4_fs, directories_go_round_and_files_stay_with_them)
{
	struct setup setup = {.size = 5 * GIB, .forgets = true};
	struct world world;

	world_open(&world, &setup);
	cr_assert_eq(fs_parallelism(world.fs), 10);
	for (unsigned int i = 0; i < 5; i++) {
		char path[20];
		struct file *file;

		snprintf(path, sizeof(path), "/dir%u", i);
		cr_assert_eq(fs_mkdir(world.fs, path), 0);
		snprintf(path, sizeof(path), "/dir%u/a", i);
		file = file_new(&world, path);
		cr_assert_eq((fs_inode_of(file)->i_ino - 1) / 8192, i % 3 * 16);
		fs_close(file);
	}
	world_close(&world);
}

/* ---- journal ---------------------------------------------------------------------------- */

struct figures {
	uint64_t requests;
	uint64_t bytes;
	uint64_t flushes;
};

/* What the call sent to the device, beside data. */
static struct figures fsync_figures(struct world *world, struct file *file, bool datasync)
{
	struct blkdev_count count;
	struct figures figures = {0};

	blkdev_count_reset(world->dev);
	cr_assert_eq(fs_fsync(file, datasync), 0);
	blkdev_count_read(world->dev, &count);
	figures.requests = count.ios[BIO_WRITE][BIO_JOURNAL];
	figures.bytes = count.bytes[BIO_WRITE][BIO_JOURNAL];
	for (int kind = 0; kind < BIO_NR_KINDS; kind++)
		figures.flushes += count.ios[BIO_FLUSH][kind];
	return figures;
}

/*
 * EX23.  The bitmaps of blocks and of inodes, the group's descriptor, the inode: with a
 * descriptor in front one request, and then the commit block.
 */
Test(ext4_fs, fsync_writes_each_changed_block_and_a_commit_block_and_flushes)
{
	struct setup setup = {.size = 64 * MIB};
	struct figures figures;
	struct world world;
	struct file *file;

	world_open(&world, &setup);
	file = file_new(&world, "/a");
	write_pattern(file, 0, 4096, 1);
	figures = fsync_figures(&world, file, false);
	cr_assert_eq(figures.requests, 2);
	cr_assert_eq(figures.bytes, (1 + 4 + 1) * 4096);
	cr_assert_eq(figures.flushes, 1);

	figures = fsync_figures(&world, file, false);
	cr_assert_eq(figures.requests, 0);
	cr_assert_eq(figures.flushes, 1);
	fs_close(file);
	world_close(&world);
}

Test(ext4_fs, an_overwrite_needs_a_commit_for_its_timestamp_only)
{
	struct setup setup = {.size = 64 * MIB};
	struct world world;
	struct file *file;

	world_open(&world, &setup);
	file = file_new(&world, "/a");
	write_pattern(file, 0, 8192, 1);
	cr_assert_eq(fs_fsync(file, false), 0);
	write_pattern(file, 0, 8192, 2);
	cr_assert_eq(fsync_figures(&world, file, true).requests, 0);
	cr_assert_eq(fsync_figures(&world, file, false).bytes, 3 * 4096);
	write_pattern(file, 0, 8193, 2);
	cr_assert_eq(fsync_figures(&world, file, true).requests, 2);
	fs_close(file);
	world_close(&world);
}

Test(ext4_fs, the_journal_goes_round)
{
	struct setup setup = {.size = 4 * MIB};
	struct world world;
	struct file *file;

	world_open(&world, &setup);
	file = file_new(&world, "/a");
	for (unsigned int i = 0; i < 100; i++) {
		write_pattern(file, 0, 4096, i);
		cr_assert_geq(fsync_figures(&world, file, false).requests, 2);
	}
	drop_cache(&world);
	cr_assert(has_pattern(file, 0, 4096, 99));
	fs_close(file);
	world_close(&world);
}

Test(ext4_fs, a_commit_that_fails_is_made_again)
{
	struct blkdev_fault_rule rule = {
		.op = BIO_WRITE, .kind = BIO_JOURNAL, .count = 1, .error = -EIO};
	struct setup setup = {.size = 64 * MIB};
	struct world world;
	struct file *file;

	world_open(&world, &setup);
	file = file_new(&world, "/a");
	write_pattern(file, 0, 4096, 1);
	cr_assert_eq(blkdev_fault_add(world.fault, &rule), 0);
	cr_assert_eq(fs_fsync(file, false), -EIO);
	cr_assert_eq(fsync_figures(&world, file, false).requests, 2);
	fs_close(file);
	world_close(&world);
}

Test(ext4_fs, sync_commits_all_inodes_at_once)
{
	struct setup setup = {.size = 64 * MIB};
	struct blkdev_count count;
	struct file *files[20];
	struct world world;

	world_open(&world, &setup);
	for (unsigned int i = 0; i < 20; i++) {
		char path[20];

		snprintf(path, sizeof(path), "/file%u", i);
		files[i] = file_new(&world, path);
		write_pattern(files[i], 0, 4096, i);
	}
	blkdev_count_reset(world.dev);
	cr_assert_eq(fs_sync(world.fs), 0);
	blkdev_count_read(world.dev, &count);
	cr_assert_eq(count.ios[BIO_WRITE][BIO_JOURNAL], 2);
	/* 16 inodes in a block, two bitmaps and a group's descriptor. */
	cr_assert_eq(count.bytes[BIO_WRITE][BIO_JOURNAL], (2 + 2 + 3) * 4096);
	for (unsigned int i = 0; i < 20; i++) {
		cr_assert_eq(fsync_figures(&world, files[i], false).requests, 0);
		fs_close(files[i]);
	}
	world_close(&world);
}

/* What unmount wrote in place: every block that was committed, neighbours in one request. */
Test(ext4_fs, unmount_writes_committed_blocks_to_their_places)
{
	struct setup setup = {.size = 64 * MIB};
	struct blkdev_count count;
	struct world world;
	struct file *file;

	world_open(&world, &setup);
	file = file_new(&world, "/a");
	write_pattern(file, 0, 4096, 1);
	cr_assert_eq(fs_fsync(file, false), 0);
	blkdev_count_read(world.dev, &count);
	cr_assert_eq(count.ios[BIO_WRITE][BIO_META], 0);
	fs_close(file);
	cr_assert_eq(fs_unmount(world.fs), 0);
	blkdev_count_read(world.dev, &count);
	cr_assert_eq(count.bytes[BIO_WRITE][BIO_META], 4 * 4096);
	world_tear_down(&world);
}

/* N12, N26: what belongs to one of them is not the other's. */
Test(ext4_fs, two_on_one_device_of_contexts_know_nothing_of_each_other)
{
	struct setup setup = {.size = 64 * MIB, .nr_contexts = 2};
	struct fs_config config = {.type = "ext4"};
	struct world world, other;
	struct file *a, *b;
	char error[200];

	world_open(&world, &setup);
	other = world;
	cr_assert_eq(blkdev_ram_create(&other.dev, 64 * MIB, 0), 0);
	cr_assert_eq(fs_mount(&other.fs, world.cache, world.bdi, other.dev, &config, error,
			      sizeof(error)),
		     0);
	a = file_new(&world, "/a");
	b = file_new(&other, "/a");
	cr_assert_eq(fs_inode_of(a)->i_ino, fs_inode_of(b)->i_ino);
	write_pattern(a, 0, 200000, 1);
	write_pattern(b, 0, 100000, 2);
	cr_assert_eq(fs_sync(world.fs), 0);
	cr_assert_eq(fs_sync(other.fs), 0);
	drop_cache(&world);
	cr_assert(has_pattern(a, 0, 200000, 1));
	cr_assert(has_pattern(b, 0, 100000, 2));
	fs_close(b);
	cr_assert_eq(fs_unmount(other.fs), 0);
	write_pattern(a, 0, 200000, 3);
	cr_assert_eq(fs_fsync(a, false), 0);
	fs_close(a);
	cr_assert_eq(fs_unmount(world.fs), 0);
	blkdev_destroy(other.dev);
	world_tear_down(&world);
}

/* ---- mount ------------------------------------------------------------------------------ */

static void mount_is_refused(const struct setup *setup, int expected, const char *word)
{
	struct world world;
	char error[200] = "";

	cr_assert_eq(world_try(&world, setup, error, sizeof(error)), expected);
	cr_assert_not_null(strstr(error, word), "'%s'", error);
	cr_assert_null(strchr(error, '\n'));
	world_tear_down(&world);
}

Test(ext4_fs, a_small_device_is_refused)
{
	struct setup setup = {.size = MIB};

	mount_is_refused(&setup, -ENOSPC, "too small");
}

Test(ext4_fs, wrong_options_are_refused)
{
	struct setup setup = {.size = 64 * MIB, .options = "mballoc=newer"};

	mount_is_refused(&setup, -EINVAL, "mballoc");
	setup.options = "group_chunk=0";
	mount_is_refused(&setup, -EINVAL, "group_chunk");
	setup.options = "commit=0";
	mount_is_refused(&setup, -EINVAL, "commit");
	setup.options = "bh=perhaps";
	mount_is_refused(&setup, -EINVAL, "bh");
	setup.options = "stripe=4";
	mount_is_refused(&setup, -EINVAL, "stripe");
}

Test(ext4_fs, no_memory_refuses_the_mount)
{
	struct setup setup = {.size = 64 * MIB};
	struct world world;
	int err = -ENOMEM;

	for (unsigned int n = 0; err == -ENOMEM; n++) {
		struct fs_config config = {.type = "ext4"};
		char error[200];

		cr_assert_lt(n, 100);
		world_open(&world, &setup);
		cr_assert_eq(fs_unmount(world.fs), 0);
		env_alloc_fail(n, 1);
		err = fs_mount(&world.fs, world.cache, world.bdi, world.dev, &config, error,
			       sizeof(error));
		env_alloc_fail(0, 0);
		if (!err)
			fs_unmount(world.fs);
		world_tear_down(&world);
	}
	cr_assert_eq(err, 0);
}

/* ---- all at once ------------------------------------------------------------------------ */

#define STRESS_SIZE (2 * MIB)

struct stress {
	struct world *world;
	struct env_thread *thread;
	unsigned int salt;
	unsigned int nr_steps;
};

/* A file of its own: write, cut, sync, and look. */
static void stress_run(void *arg)
{
	struct stress *stress = arg;
	char path[20];
	struct file *file;
	struct env_rng rng;

	env_rng_seed(&rng, stress->salt);
	snprintf(path, sizeof(path), "/file%u", stress->salt);
	file = file_new(stress->world, path);
	for (unsigned int i = 0; i < stress->nr_steps; i++) {
		uint64_t pos = env_rng_below(&rng, STRESS_SIZE);
		size_t len = 1 + (size_t)env_rng_below(&rng, 30000);

		write_pattern(file, pos, len, stress->salt);
		cr_assert(has_pattern(file, pos, len, stress->salt));
		switch (env_rng_below(&rng, 20)) {
		case 0:
			cr_assert_eq(fs_fsync(file, i % 2), 0);
			break;
		case 1:
			cr_assert_eq(fs_truncate(file, env_rng_below(&rng, STRESS_SIZE)), 0);
			break;
		case 2:
			cr_assert_eq(fs_fallocate(file, FS_FALLOC_KEEP_SIZE, pos, len), 0);
			break;
		case 3:
			cr_assert_eq(fs_close(file), 0);
			file = file_new(stress->world, path);
			break;
		case 4:
			cr_assert_eq(fs_sync(stress->world->fs), 0);
			break;
		default:
			break;
		}
	}
	cr_assert_eq(fs_close(file), 0);
}

static void stress_for(const char *options, uint32_t block_size, unsigned int nr_steps)
{
	struct setup setup = {.size = 32 * MIB, .capacity = 4 * MIB, .options = options};
	struct stress stress[4];
	struct world world;
	uint64_t free_before;

	setup.nr_contexts = 2;
	setup.block_size = block_size;
	world_open(&world, &setup);
	free_before = space_of(&world).free;
	for (unsigned int i = 0; i < 4; i++) {
		stress[i].world = &world;
		stress[i].salt = i;
		stress[i].nr_steps = nr_steps;
		cr_assert_eq(env_thread_create(&stress[i].thread, "stress", stress_run, &stress[i]),
			     0);
	}
	for (unsigned int i = 0; i < 4; i++)
		env_thread_join(stress[i].thread);
	cr_assert_eq(fs_sync(world.fs), 0);
	cr_assert_eq(space_of(&world).reserved, 0);
	for (unsigned int i = 0; i < 4; i++) {
		char path[20];

		snprintf(path, sizeof(path), "/file%u", i);
		cr_assert_eq(fs_unlink(world.fs, path), 0);
	}
	cr_assert_eq(space_of(&world).free, free_before);
	world_close(&world);
}

static void stress_with(const char *options, uint32_t block_size)
{
	stress_for(options, block_size, 300);
}

static void stress_a_little(void *arg)
{
	stress_for(arg, 4096, 15);
}

/* Handles, commits, writeback and truncate wait for each other in no circle. */
static void threads_agree_in_any_order(const char *options)
{
	static struct env_sim_result result;
	struct env_sim_config config;

	env_sim_config_init(&config);
	config.schedule = ENV_SIM_ADVERSARIAL;
	cr_assert_eq(env_sim_run_seeds(&config, 20, stress_a_little, (void *)options, &result), 0,
		     "%s", result.text);
}

Test(ext4_fs, threads_agree_in_any_order)
{
	threads_agree_in_any_order("commit=1");
}

Test(ext4_fs, threads_agree_in_any_order_the_old_way)
{
	threads_agree_in_any_order("mballoc=old,delalloc=off");
}

Test(ext4_fs, many_threads_agree)
{
	stress_with(NULL, 4096);
}

Test(ext4_fs, many_threads_agree_on_small_blocks)
{
	stress_with(NULL, 1024);
}

Test(ext4_fs, many_threads_agree_on_blocks_larger_than_a_page)
{
	stress_with(NULL, 16384);
}

Test(ext4_fs, many_threads_agree_in_the_old_way)
{
	stress_with("mballoc=old,delalloc=off", 4096);
}

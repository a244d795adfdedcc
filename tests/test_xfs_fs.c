/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_xfs_fs.c - the XFS-like back end under the whole library
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <iomap/backing_dev.h>
#include <iomap/blkdev.h>
#include <iomap/env.h>
#include <iomap/fs.h>
#include <iomap/fsbackend.h>
#include <iomap/page_cache.h>

#define KIB (1ull << 10)
#define MIB (1ull << 20)

struct world {
	struct block_device *fault;
	struct block_device *dev; /* counts what goes to fault, and to memory */
	struct page_cache *cache;
	struct backing_dev *bdi;
	struct fs *fs;
};

struct world_config {
	uint64_t size;
	uint64_t capacity;
	uint32_t block_size;
	unsigned int nr_contexts;
	unsigned int workers;
	const char *options;
};

static struct world world;

/* Memory that was never written is poisoned: nobody may ever read it through a file. */
static void world_open_with(struct world_config set)
{
	struct page_cache_config config;
	struct block_device *ram;
	struct fs_config fs_config = {
		.type = "xfs",
		.block_size = set.block_size,
		.options = set.options,
	};
	char error[256];
	int err;

	page_cache_config_init(&config);
	config.capacity = set.capacity ? set.capacity : 64 * MIB;
	config.dirty_ratio = 90;
	config.dirty_background_ratio = 80;
	config.writeback_interval_ns = 0;
	cr_assert_eq(page_cache_create(&world.cache, &config), 0);
	cr_assert_eq(blkdev_ram_create(&ram, set.size ? set.size : 512 * MIB, set.workers), 0);
	blkdev_ram_poison(ram, 0xAA);
	cr_assert_eq(blkdev_fault_create(&world.fault, ram), 0);
	cr_assert_eq(blkdev_count_create(&world.dev, world.fault), 0);
	cr_assert_eq(bdi_create(&world.bdi, world.cache, world.dev,
				set.nr_contexts ? set.nr_contexts : 1, WB_MAP_AUTO),
		     0);
	err = fs_mount(&world.fs, world.cache, world.bdi, world.dev, &fs_config, error,
		       sizeof(error));
	cr_assert_eq(err, 0, "%s", error);
}

static void world_open(void)
{
	world_open_with((struct world_config){0});
}

/* An error of data that no sync has told is told by the unmount. */
static void world_close_with(int err)
{
	cr_assert_eq(fs_unmount(world.fs), err);
	bdi_destroy(world.bdi);
	blkdev_destroy(world.dev);
	page_cache_destroy(world.cache);
}

static void world_close(void)
{
	world_close_with(0);
}

static struct file *open_file(const char *path)
{
	struct file *file;

	cr_assert_eq(fs_open(world.fs, path, FS_OPEN_CREATE, &file), 0);
	return file;
}

static struct fs_space get_space(void)
{
	struct fs_space space;

	fs_get_space(world.fs, &space);
	return space;
}

static struct fs_extent_counts count_extents(struct file *file)
{
	struct fs_extent_counts counts;

	cr_assert_eq(fs_count_extents(file, &counts), 0);
	return counts;
}

static struct fs_extent extent_at(struct file *file, uint64_t pos)
{
	struct fs_extent extent;

	cr_assert_eq(fs_next_extent(file, pos, &extent), 0);
	return extent;
}

/* What a byte of a test file is. */
static unsigned char byte_at(uint64_t pos)
{
	return (unsigned char)(1 + pos * 31 % 251 + pos / 4096 % 4);
}

static unsigned char memory[8 * MIB];

static void write_bytes(struct file *file, uint64_t pos, uint64_t len)
{
	for (uint64_t i = 0; i < len; i++)
		memory[i] = byte_at(pos + i);
	cr_assert_eq(fs_write(file, memory, len, pos), (ssize_t)len);
}

/* The range has what write_bytes() put there, or zeroes. */
static void range_is(struct file *file, uint64_t pos, uint64_t len, bool zero)
{
	cr_assert_eq(fs_read(file, memory, len, pos), (ssize_t)len);
	for (uint64_t i = 0; i < len; i++)
		if (memory[i] != (zero ? 0 : byte_at(pos + i)))
			cr_assert_fail("byte %llu", (unsigned long long)(pos + i));
}

static void fsync_and_drop(struct file *file)
{
	cr_assert_eq(fs_fsync(file, false), 0);
	page_cache_drop(world.cache);
}

/* ---- data -------------------------------------------------------------------------------- */

Test(xfs_fs, data_survives_the_cache)
{
	struct file *file;

	world_open();
	file = open_file("/a");
	write_bytes(file, 0, 5 * MIB + 123);
	fsync_and_drop(file);
	range_is(file, 0, 5 * MIB + 123, false);
	fs_close(file);
	world_close();
}

Test(xfs_fs, holes_read_as_zeroes)
{
	struct file *file;

	world_open();
	file = open_file("/a");
	write_bytes(file, 3 * MIB + 7, 1000);
	fsync_and_drop(file);
	range_is(file, 0, 3 * MIB + 7, true);
	range_is(file, 3 * MIB + 7, 1000, false);
	fs_close(file);
	world_close();
}

/* Random writes, truncates and syncs against an array. */
static void agrees_with_an_array(struct world_config set, uint64_t seed)
{
	enum { SIZE = 1 << 20 };
	unsigned char *model = env_zalloc(SIZE);
	struct env_rng rng;
	struct file *file;
	uint64_t size = 0;

	env_rng_seed(&rng, seed);
	world_open_with(set);
	file = open_file("/a");
	for (int step = 0; step < 400; step++) {
		uint64_t pos = env_rng_below(&rng, SIZE);
		uint64_t len = 1 + env_rng_below(&rng, step % 3 ? 9000 : 200000);

		len = len < SIZE - pos ? len : SIZE - pos;
		switch (env_rng_below(&rng, 8)) {
		case 0:
			cr_assert_eq(fs_truncate(file, pos), 0);
			if (pos < size)
				memset(model + pos, 0, size - pos);
			size = pos;
			break;
		case 1:
			cr_assert_eq(fs_fsync(file, step % 2), 0);
			break;
		case 2:
			cr_assert_eq(fs_sync(world.fs), 0);
			page_cache_drop(world.cache);
			break;
		case 3:
			cr_assert_eq(fs_fallocate(file, FS_FALLOC_KEEP_SIZE, pos, len), 0);
			break;
		default:
			for (uint64_t i = 0; i < len; i++)
				memory[i] = (unsigned char)env_rng_u64(&rng);
			cr_assert_eq(fs_write(file, memory, len, pos), (ssize_t)len);
			memcpy(model + pos, memory, len);
			size = pos + len > size ? pos + len : size;
		}
		cr_assert_eq(fs_size(file), size);
		if (size > 0)
			cr_assert_eq(fs_read(file, memory, SIZE, 0), (ssize_t)size);
		cr_assert_eq(memcmp(memory, model, size), 0, "step %d", step);
	}
	fs_close(file);
	cr_assert_eq(fs_sync(world.fs), 0);
	cr_assert_eq(get_space().reserved, 0);
	world_close();
	env_free(model);
}

Test(xfs_fs, agrees_with_an_array_blocks_of_512)
{
	agrees_with_an_array((struct world_config){.block_size = 512}, 1);
}

Test(xfs_fs, agrees_with_an_array_blocks_of_4k)
{
	agrees_with_an_array((struct world_config){.block_size = 4096}, 2);
}

Test(xfs_fs, agrees_with_an_array_blocks_of_16k)
{
	agrees_with_an_array((struct world_config){.block_size = 16384}, 3);
}

Test(xfs_fs, agrees_with_an_array_blocks_of_64k)
{
	agrees_with_an_array((struct world_config){.block_size = 65536}, 4);
}

Test(xfs_fs, agrees_with_an_array_in_a_small_cache)
{
	agrees_with_an_array((struct world_config){.capacity = 4 * MIB, .workers = 2}, 5);
}

Test(xfs_fs, agrees_with_an_array_without_delayed_allocation)
{
	agrees_with_an_array((struct world_config){.options = "delalloc=off"}, 6);
}

Test(xfs_fs, agrees_with_an_array_in_many_groups)
{
	agrees_with_an_array(
		(struct world_config){
			.options = "agcount=64,inode32=on,rmap_at_completion=off,gap_rule=off,"
				   "agf_trylock=off,eof_prealloc=fixed64k,xfs_shard=inode_ag",
			.size = 64 * MIB,
		},
		7);
}

/* ---- space ------------------------------------------------------------------------------- */

Test(xfs_fs, blocks_are_chosen_at_writeback)
{
	struct file *file;

	world_open();
	file = open_file("/a");
	write_bytes(file, 0, 32 * KIB);
	cr_assert(extent_at(file, 0).delayed);
	cr_assert_eq(extent_at(file, 0).len, 32 * KIB);
	cr_assert_eq(get_space().reserved, 8 * 4096 + 4096, "a block of the map tree");
	cr_assert_eq(fs_fsync(file, false), 0);
	cr_assert(!extent_at(file, 0).delayed);
	cr_assert(!extent_at(file, 0).unwritten);
	cr_assert_eq(get_space().reserved, 0);
	fs_close(file);
	world_close();
}

Test(xfs_fs, writeback_places_the_whole_record)
{
	struct file *file;

	world_open();
	file = open_file("/a");
	write_bytes(file, 0, 2 * MIB);
	cr_assert_eq(fs_sync_range(file, 64 * KIB, 4096, true), 0);
	cr_assert(!extent_at(file, 0).delayed);
	cr_assert_eq(get_space().reserved, 0);
	cr_assert_eq(fs_fsync(file, false), 0);
	cr_assert_eq(count_extents(file).unmerged, 1);
	cr_assert_eq(extent_at(file, 0).len, 2 * MIB);
	fs_close(file);
	world_close();
}

Test(xfs_fs, a_short_file_reserves_nothing_behind_its_end)
{
	struct file *file;

	world_open();
	file = open_file("/a");
	write_bytes(file, 0, 60 * KIB);
	cr_assert_eq(extent_at(file, 0).len, 60 * KIB);
	fs_close(file);
	world_close();
}

Test(xfs_fs, close_gives_back_what_is_behind_the_end)
{
	struct file *file;

	world_open();
	file = open_file("/a");
	write_bytes(file, 0, 64 * KIB);
	write_bytes(file, 64 * KIB, 64 * KIB);
	cr_assert_eq(extent_at(file, 0).len, (16 + 32) * 4096);
	cr_assert_eq(fs_fsync(file, false), 0);
	fs_close(file);
	file = open_file("/a");
	cr_assert_eq(extent_at(file, 0).len, 128 * KIB);
	cr_assert_eq(fs_next_extent(file, 128 * KIB, &(struct fs_extent){0}), -ENOENT);
	fs_close(file);
	world_close();
}

Test(xfs_fs, close_with_dirty_data_gives_back_once)
{
	struct file *file;

	world_open();
	for (int round = 0; round < 2; round++) {
		file = open_file("/a");
		write_bytes(file, round * 128 * KIB, 64 * KIB);
		write_bytes(file, round * 128 * KIB + 64 * KIB, 64 * KIB);
		fs_close(file);
		file = open_file("/a");
		if (round == 0)
			cr_assert_eq(extent_at(file, 0).len, 128 * KIB);
		else
			cr_assert_gt(extent_at(file, 0).len, 256 * KIB);
		fs_close(file);
	}
	world_close();
}

Test(xfs_fs, truncate_gives_back_everything)
{
	uint64_t free_before;
	struct file *file;

	world_open();
	file = open_file("/a");
	free_before = get_space().free;
	write_bytes(file, 0, 4 * MIB);
	cr_assert_eq(fs_fsync(file, false), 0);
	write_bytes(file, 6 * MIB, 1 * MIB);
	cr_assert_eq(fs_truncate(file, 0), 0);
	cr_assert_eq(get_space().reserved, 0);
	cr_assert_eq(get_space().free, free_before);
	fs_close(file);
	world_close();
}

Test(xfs_fs, unlink_gives_back_everything)
{
	uint64_t free_before;
	struct file *file;

	world_open();
	free_before = get_space().free;
	file = open_file("/a");
	write_bytes(file, 0, 4 * MIB);
	cr_assert_eq(fs_fsync(file, false), 0);
	write_bytes(file, 6 * MIB, 1 * MIB);
	fs_close(file);
	cr_assert_eq(fs_unlink(world.fs, "/a"), 0);
	cr_assert_eq(get_space().reserved, 0);
	cr_assert_eq(get_space().free, free_before);
	world_close();
}

Test(xfs_fs, full_is_said_at_write_time)
{
	struct file *file;
	uint64_t pos = 0;
	ssize_t n;

	world_open_with((struct world_config){.size = 32 * MIB});
	file = open_file("/a");
	memset(memory, 1, sizeof(memory));
	while ((n = fs_write(file, memory, 256 * KIB, pos)) > 0)
		pos += (uint64_t)n;
	cr_assert_eq(n, -ENOSPC);
	cr_assert_gt(pos, 28 * MIB);
	cr_assert_eq(fs_fsync(file, false), 0, "what was accepted has a place");
	cr_assert_eq(get_space().reserved, 0);
	cr_assert_eq(fs_truncate(file, 0), 0);
	cr_assert_eq(fs_write(file, memory, 256 * KIB, 0), (ssize_t)(256 * KIB));
	fs_close(file);
	world_close();
}

Test(xfs_fs, fallocate_is_unwritten_until_written)
{
	struct file *file;

	world_open();
	file = open_file("/a");
	cr_assert_eq(fs_fallocate(file, 0, 0, 1 * MIB), 0);
	cr_assert_eq(fs_size(file), 1 * MIB);
	cr_assert_eq(count_extents(file).unmerged, 1);
	cr_assert(extent_at(file, 0).unwritten);
	range_is(file, 0, 1 * MIB, true);
	write_bytes(file, 256 * KIB, 256 * KIB);
	fsync_and_drop(file);
	cr_assert_eq(count_extents(file).unmerged, 3);
	cr_assert_eq(count_extents(file).merged, 1);
	range_is(file, 0, 256 * KIB, true);
	range_is(file, 256 * KIB, 256 * KIB, false);
	fs_close(file);
	world_close();
}

Test(xfs_fs, preallocation_that_comes_inside_the_file_is_not_dirty)
{
	struct page_cache_stats before, after;
	struct file *file;

	world_open();
	file = open_file("/a");
	write_bytes(file, 0, 512 * KIB);
	write_bytes(file, 512 * KIB, 512 * KIB);
	cr_assert_gt(extent_at(file, 0).len, 1792 * KIB);
	page_cache_get_stats(world.cache, &before);
	write_bytes(file, 1536 * KIB, 4 * KIB);
	page_cache_get_stats(world.cache, &after);
	cr_assert_eq(after.dirtied_bytes - before.dirtied_bytes, 4 * KIB);
	fsync_and_drop(file);
	range_is(file, 0, 1 * MIB, false);
	range_is(file, 1 * MIB, 512 * KIB, true);
	range_is(file, 1536 * KIB, 4 * KIB, false);
	cr_assert_eq(get_space().reserved, 0);
	fs_close(file);
	world_close();
}

Test(xfs_fs, preallocation_that_comes_inside_by_truncate_reads_as_zeroes)
{
	struct file *file;

	for (int flush = 0; flush < 2; flush++) {
		world_open();
		file = open_file("/a");
		write_bytes(file, 0, 512 * KIB);
		write_bytes(file, 512 * KIB, 512 * KIB);
		if (flush)
			cr_assert_eq(fs_fsync(file, false), 0);
		cr_assert_eq(fs_truncate(file, 1536 * KIB), 0);
		cr_assert_gt(extent_at(file, 0).len + extent_at(file, 1 * MIB).len, 1792 * KIB);
		range_is(file, 1 * MIB, 512 * KIB, true);
		fsync_and_drop(file);
		range_is(file, 0, 1 * MIB, false);
		range_is(file, 1 * MIB, 512 * KIB, true);
		cr_assert_eq(get_space().reserved, 0);
		fs_close(file);
		world_close();
	}
}

/* ---- placement --------------------------------------------------------------------------- */

Test(xfs_fs, directories_go_round_the_groups)
{
	const uint64_t ag_bytes = 512 * MIB / 4;
	unsigned int nr[4] = {0};

	world_open();
	for (int i = 0; i < 12; i++) {
		struct file *file;
		char path[32];

		snprintf(path, sizeof(path), "/dir%d", i);
		cr_assert_eq(fs_mkdir(world.fs, path), 0);
		snprintf(path, sizeof(path), "/dir%d/file", i);
		file = open_file(path);
		write_bytes(file, 0, 4096);
		cr_assert_eq(fs_fsync(file, false), 0);
		nr[extent_at(file, 0).addr / ag_bytes]++;
		fs_close(file);
	}
	for (int ag = 0; ag < 4; ag++)
		cr_assert_eq(nr[ag], 3);
	world_close();
}

Test(xfs_fs, a_context_for_each_group)
{
	struct file *files[4];

	world_open_with((struct world_config){.nr_contexts = 4});
	cr_assert_eq(fs_parallelism(world.fs), 4);
	for (int i = 0; i < 4; i++) {
		char path[32];

		snprintf(path, sizeof(path), "/dir%d", i);
		cr_assert_eq(fs_mkdir(world.fs, path), 0);
		snprintf(path, sizeof(path), "/dir%d/file", i);
		files[i] = open_file(path);
		write_bytes(files[i], 0, 4096);
	}
	for (int i = 0; i < 4; i++) {
		cr_assert_eq(wb_context_of(fs_inode_of(files[i])), i);
		fs_close(files[i]);
	}
	world_close();
}

/* A random permutation of the blocks is written; every `batch` blocks all is flushed. */
static uint64_t extents_of_random_file(uint64_t nr_blocks, uint64_t batch)
{
	uint64_t *order = env_alloc(nr_blocks * sizeof(*order));
	struct env_rng rng;
	struct file *file;
	uint64_t merged;

	env_rng_seed(&rng, 3);
	for (uint64_t i = 0; i < nr_blocks; i++)
		order[i] = i;
	for (uint64_t i = nr_blocks - 1; i > 0; i--) {
		uint64_t j = env_rng_below(&rng, i + 1);
		uint64_t block = order[i];

		order[i] = order[j];
		order[j] = block;
	}
	world_open();
	file = open_file("/a");
	memset(memory, 1, 4096);
	for (uint64_t i = 0; i < nr_blocks; i++) {
		cr_assert_eq(fs_write(file, memory, 4096, order[i] * 4096), 4096);
		if ((i + 1) % batch == 0)
			cr_assert_eq(fs_fsync(file, true), 0);
	}
	cr_assert_eq(fs_fsync(file, true), 0);
	merged = count_extents(file).merged;
	cr_assert_leq(merged, count_extents(file).unmerged);
	fs_close(file);
	world_close();
	env_free(order);
	return merged;
}

/* EC7 */
Test(xfs_fs, small_flushes_of_random_writes_leave_many_extents)
{
	uint64_t merged = extents_of_random_file(6000, 1200);

	cr_assert_gt(merged, 6000 * 100 / 150, "%llu", (unsigned long long)merged);
	cr_assert_lt(merged, 6000 * 100 / 110, "%llu", (unsigned long long)merged);
}

Test(xfs_fs, one_flush_of_random_writes_leaves_one_extent)
{
	cr_assert_eq(extents_of_random_file(6000, 6000), 1);
}

Test(xfs_fs, delayed_runs_are_counted_twice)
{
	struct file *file;

	world_open();
	file = open_file("/a");
	write_bytes(file, 0, 4096);
	write_bytes(file, 8192, 4096);
	cr_assert_eq(fs_fsync(file, false), 0);
	cr_assert_eq(count_extents(file).merged, 1, "the gap is kept");
	write_bytes(file, 4096, 4096);
	cr_assert_eq(count_extents(file).merged, 3);
	cr_assert_eq(fs_fsync(file, false), 0);
	cr_assert_eq(count_extents(file).merged, 1);
	cr_assert_eq(count_extents(file).unmerged, 1);
	fs_close(file);
	world_close();
}

/* ---- folio sizes: a map that ends cuts the hint (XF10..XF12) ----------------------------- */

struct trace {
	unsigned int nr;
	struct {
		uint64_t index;
		unsigned int order;
	} folios[64];
};

static void trace_folio(void *arg, const struct inode *inode, uint64_t index, unsigned int order)
{
	struct trace *trace = arg;

	(void)inode;
	if (trace->nr < 64) {
		trace->folios[trace->nr].index = index;
		trace->folios[trace->nr].order = order;
	}
	trace->nr++;
}

Test(xfs_fs, folio_orders_follow_the_maps)
{
	static const uint64_t writes[][2] = {
		{589824, 314615}, {372736, 50336}, {0, 716},
		{0, 240606},	  {1903264, 59},   {1748992, 4728730},
	};
	static const unsigned int expected[][2] = {
		{144, 4},  {160, 5},  {192, 4},	 {208, 3},  {216, 2},  {220, 0},  {91, 0},
		{92, 2},   {96, 2},   {100, 1},	 {102, 0},  {103, 0},  {0, 0},	  {1, 0},
		{2, 1},	   {4, 2},    {8, 3},	 {16, 4},   {32, 4},   {48, 3},	  {56, 1},
		{58, 0},   {464, 0},  {427, 0},	 {428, 2},  {432, 4},  {448, 4},  {465, 0},
		{466, 1},  {468, 2},  {472, 3},	 {480, 5},  {512, 9},  {1024, 9}, {1536, 4},
		{1552, 4}, {1568, 3}, {1576, 2}, {1580, 0}, {1581, 0},
	};
	const unsigned int nr = sizeof(expected) / sizeof(expected[0]);
	struct trace trace = {0};
	struct file *file;

	world_open();
	file = open_file("/a");
	page_cache_trace_insert(world.cache, trace_folio, &trace);
	for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++)
		write_bytes(file, writes[i][0], writes[i][1]);
	page_cache_trace_insert(world.cache, NULL, NULL);
	for (unsigned int i = 0; i < nr && i < trace.nr; i++) {
		cr_assert_eq(trace.folios[i].index, expected[i][0], "folio %u", i);
		cr_assert_eq(trace.folios[i].order, expected[i][1], "folio %u", i);
	}
	cr_assert_eq(trace.nr, nr);
	fs_close(file);
	world_close();
}

/* ---- log --------------------------------------------------------------------------------- */

static struct blkdev_count count_fsync(struct file *file, bool datasync)
{
	struct blkdev_count count;

	blkdev_count_reset(world.dev);
	cr_assert_eq(fs_fsync(file, datasync), 0);
	blkdev_count_read(world.dev, &count);
	return count;
}

Test(xfs_fs, fsync_writes_the_log_once)
{
	struct blkdev_count count;
	struct file *file;

	world_open();
	file = open_file("/a");
	write_bytes(file, 0, 8192);
	count = count_fsync(file, true);
	cr_assert_eq(count.ios[BIO_WRITE][BIO_DATA], 1);
	cr_assert_eq(count.ios[BIO_WRITE][BIO_JOURNAL], 1);
	cr_assert_gt(count.bytes[BIO_WRITE][BIO_JOURNAL], 1024, "creation, allocation, conversion");
	cr_assert_eq(count.ios[BIO_FLUSH][BIO_JOURNAL], 1);
	fs_close(file);
	world_close();
}

Test(xfs_fs, overwrites_need_the_log_for_time_stamps_only)
{
	struct blkdev_count count;
	struct file *file;

	world_open();
	file = open_file("/a");
	write_bytes(file, 0, 8192);
	cr_assert_eq(fs_fsync(file, false), 0);
	write_bytes(file, 0, 4096);
	count = count_fsync(file, true);
	cr_assert_eq(count.bytes[BIO_WRITE][BIO_DATA], 4096);
	cr_assert_eq(count.ios[BIO_WRITE][BIO_JOURNAL], 0);
	count = count_fsync(file, false);
	cr_assert_eq(count.ios[BIO_WRITE][BIO_JOURNAL], 1);
	cr_assert_eq(count.bytes[BIO_WRITE][BIO_JOURNAL], 1024);
	count = count_fsync(file, false);
	cr_assert_eq(count.ios[BIO_WRITE][BIO_JOURNAL], 0);
	fs_close(file);
	world_close();
}

Test(xfs_fs, log_errors_are_reported)
{
	struct blkdev_fault_rule rule = {
		.op = BIO_WRITE, .kind = BIO_JOURNAL, .count = 1, .error = -EIO};
	struct file *file;

	world_open();
	file = open_file("/a");
	write_bytes(file, 0, 8192);
	cr_assert_eq(blkdev_fault_add(world.fault, &rule), 0);
	cr_assert_eq(fs_fsync(file, false), -EIO);
	cr_assert_eq(fs_fsync(file, false), 0);
	fs_close(file);
	world_close();
}

/* ---- failures ---------------------------------------------------------------------------- */

/* A7: a failed write leaves its blocks unwritten, so old device contents never show. */
Test(xfs_fs, failed_writes_stay_unwritten)
{
	struct blkdev_fault_rule rule = {
		.op = BIO_WRITE, .kind = BIO_DATA, .count = 1, .error = -EIO};
	struct file *file;

	world_open();
	file = open_file("/a");
	cr_assert_eq(blkdev_fault_add(world.fault, &rule), 0);
	write_bytes(file, 0, 64 * KIB);
	cr_assert_eq(fs_fsync(file, false), -EIO);
	cr_assert_eq(get_space().reserved, 0);
	cr_assert(extent_at(file, 0).unwritten);
	page_cache_drop(world.cache);
	range_is(file, 0, 64 * KIB, true);
	fs_close(file);
	world_close_with(-EIO);
}

/* M40, F10: whichever allocation of a flush fails, no promise is left behind. */
Test(xfs_fs, promises_end_whichever_allocation_fails)
{
	for (unsigned int n = 0; n < 40; n++) {
		struct file *file;

		world_open();
		file = open_file("/a");
		for (uint64_t i = 0; i < 20; i++)
			write_bytes(file, i * 96 * KIB, 32 * KIB + i * 512);
		env_alloc_fail(n, 1);
		fs_fsync(file, false);
		env_alloc_fail(0, 0);
		fs_fsync(file, false);
		cr_assert_eq(fs_truncate(file, fs_size(file)), 0);
		cr_assert_eq(get_space().reserved, 0, "allocation %u", n);
		fs_close(file);
		world_close();
	}
}

/* D37: a write that stops early keeps promises only below what it wrote. */
Test(xfs_fs, failed_writes_keep_no_promise)
{
	for (unsigned int n = 0; n < 40; n++) {
		struct file *file;

		world_open();
		file = open_file("/a");
		write_bytes(file, 0, 4096);
		env_alloc_fail(n, 1);
		fs_write(file, memory, 300 * KIB, 1 * MIB);
		env_alloc_fail(0, 0);
		cr_assert_eq(fs_fsync(file, false), 0);
		cr_assert_eq(fs_truncate(file, fs_size(file)), 0);
		cr_assert_eq(get_space().reserved, 0, "allocation %u", n);
		fs_close(file);
		world_close();
	}
}

/* ---- threads ----------------------------------------------------------------------------- */

#define NR_WRITERS 4

static void writer(void *arg)
{
	unsigned int id = *(unsigned int *)arg;
	unsigned char *block = env_alloc(16384);
	struct env_rng rng;
	struct file *file;
	char path[32];

	env_rng_seed(&rng, id);
	snprintf(path, sizeof(path), "/dir%u/file", id % 2);
	cr_assert_eq(fs_open(world.fs, path, FS_OPEN_CREATE, &file), 0);
	for (int i = 0; i < 400; i++) {
		uint64_t pos = (env_rng_below(&rng, 400) * NR_WRITERS + id) * 16384;
		unsigned char byte = (unsigned char)(pos / 16384 % 250 + 1);

		memset(block, byte, 16384);
		cr_assert_eq(fs_write(file, block, 16384, pos), 16384);
		if (i % 50 == 0)
			cr_assert_eq(fs_fsync(file, i % 100 == 0), 0);
		cr_assert_eq(fs_read(file, block, 16384, pos), 16384);
		for (unsigned int k = 0; k < 16384; k++)
			cr_assert_eq(block[k], byte);
	}
	fs_close(file);
	env_free(block);
}

Test(xfs_fs, parallel_writers_do_not_disturb_each_other)
{
	struct env_thread *threads[NR_WRITERS];
	unsigned int ids[NR_WRITERS];

	world_open_with((struct world_config){
		.capacity = 16 * MIB, .nr_contexts = 4, .workers = 2, .size = 256 * MIB});
	cr_assert_eq(fs_mkdir(world.fs, "/dir0"), 0);
	cr_assert_eq(fs_mkdir(world.fs, "/dir1"), 0);
	for (unsigned int i = 0; i < NR_WRITERS; i++) {
		ids[i] = i;
		cr_assert_eq(env_thread_create(&threads[i], "writer", writer, &ids[i]), 0);
	}
	for (unsigned int i = 0; i < NR_WRITERS; i++)
		env_thread_join(threads[i]);
	cr_assert_eq(fs_sync(world.fs), 0);
	cr_assert_eq(get_space().reserved % 4096, 0);
	world_close();
}

/* ---- options ----------------------------------------------------------------------------- */

Test(xfs_fs, bad_options_are_refused)
{
	const char *const bad[] = {"agcount=999999", "allocsize=5000", "eof_prealloc=some",
				   "colour=red",     "allocsize=2048", "delalloc=maybe"};

	world_open();
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct fs_config config = {.type = "xfs", .options = bad[i]};
		char error[256] = "";
		struct fs *fs;

		cr_assert_eq(fs_mount(&fs, world.cache, world.bdi, world.dev, &config, error,
				      sizeof(error)),
			     -EINVAL, "%s", bad[i]);
		cr_assert_neq(error[0], '\0');
	}
	world_close();
}

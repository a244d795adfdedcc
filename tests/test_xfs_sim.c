/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_xfs_sim.c - the XFS-like back end in virtual time: who waits for whom, and for how long
 */
#include "fsbackends/xfs/xfs.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include <iomap/backing_dev.h>
#include <iomap/blkdev.h>
#include <iomap/cost.h>
#include <iomap/fs.h>
#include <iomap/fsbackend.h>
#include <iomap/page_cache.h>
#include <iomap/sim.h>

#include "fsbackends/xfs/alloc.h"

#define MIB   (1ull << 20)
#define BLOCK 4096ull
#define MSEC  1000000ull
#define SEC   1000000000ull

struct set {
	const char *options;
	unsigned int nr_contexts;
	unsigned int workers; /* 0: 1 */
};

static struct page_cache *cache;
static struct block_device *dev;
static struct backing_dev *bdi;
static struct fs *fs;
static unsigned char memory[MIB];

static void open_fs(const struct set *set)
{
	struct fs_config fs_config = {.type = "xfs", .options = set->options};
	struct page_cache_config config;
	struct bdi_tuning tuning;
	struct block_device *null;
	char error[256];

	page_cache_config_init(&config);
	config.capacity = 128 * MIB;
	config.dirty_bytes = 100 * MIB;
	config.dirty_background_bytes = 90 * MIB;
	config.writeback_interval_ns = 0;
	cr_assert_eq(page_cache_create(&cache, &config), 0);
	cr_assert_eq(blkdev_null_create(&null, 1024 * MIB, 0), 0);
	cr_assert_eq(blkdev_count_create(&dev, null), 0);
	cr_assert_eq(bdi_create(&bdi, cache, dev, set->nr_contexts, WB_MAP_AUTO), 0);
	if (set->workers) {
		bdi_get_tuning(bdi, &tuning);
		tuning.workers_per_ctx = set->workers;
		cr_assert_eq(bdi_set_tuning(bdi, &tuning), 0);
	}
	cr_assert_eq(fs_mount(&fs, cache, bdi, dev, &fs_config, error, sizeof(error)), 0, "%s",
		     error);
}

static void close_fs(void)
{
	cr_assert_eq(fs_unmount(fs), 0);
	bdi_destroy(bdi);
	blkdev_destroy(dev);
	page_cache_destroy(cache);
}

static void run(void (*fn)(void *arg), const void *arg)
{
	static struct env_sim_result result;
	struct env_sim_config config;

	env_sim_config_init(&config);
	config.nr_cpus = 8;
	config.max_ns = 10000 * SEC;
	cr_assert_eq(env_sim_run(&config, fn, (void *)arg, &result), 0, "%s", result.text);
}

static struct file *open_file(unsigned int nr)
{
	struct file *file;
	char path[32];

	snprintf(path, sizeof(path), "/f%u", nr);
	cr_assert_eq(fs_open(fs, path, FS_OPEN_CREATE, &file), 0);
	return file;
}

static void write_at(struct file *file, uint64_t pos, uint64_t len)
{
	cr_assert_eq(fs_write(file, memory, len, pos), (ssize_t)len);
}

static struct fs_extent extent_at(struct file *file, uint64_t pos)
{
	struct fs_extent extent;

	cr_assert_eq(fs_next_extent(file, pos, &extent), 0);
	return extent;
}

static uint64_t group_of(uint64_t addr)
{
	return xfs_place_of(&xfs_space_of(fs)->geometry, addr / BLOCK).ag;
}

static struct wb_stats sum_stats(unsigned int nr_contexts)
{
	struct wb_stats sum = {0};

	for (unsigned int i = 0; i < nr_contexts; i++) {
		struct wb_stats stats;

		wb_get_stats(bdi, i, &stats);
#define X(name, text) sum.name += stats.name;
		WB_STATS(X)
#undef X
	}
	return sum;
}

/* ---- charges ----------------------------------------------------------------------------- */

/* VC11..VC13, XF7: what an allocation takes, and that only part of it holds the group. */
static void allocate(void *arg)
{
	struct set set = {NULL, 1, 0};
	struct xfs_alloc_request request = {.target = {1, 100}, .len = 8};
	uint64_t begin, block, len;

	(void)arg;
	open_fs(&set);
	begin = env_clock_ns();
	cr_assert_eq(xfs_alloc(xfs_space_of(fs), &request, &block, &len), 0);
	cr_assert_eq(env_clock_ns() - begin, env_cost_ns(ENV_COST_ALLOC, 1) +
						     env_cost_ns(ENV_COST_ALLOC_STEP, 1) +
						     env_cost_ns(ENV_COST_AGF_UPDATE, 1));
	begin = env_clock_ns();
	xfs_free_claimed(xfs_space_of(fs), block, len, NULL);
	cr_assert_eq(env_clock_ns() - begin,
		     env_cost_ns(ENV_COST_ALLOC, 1) + env_cost_ns(ENV_COST_AGF_UPDATE, 1));
	close_fs();
}

Test(xfs_sim, an_allocation_costs_what_the_table_says)
{
	run(allocate, NULL);
}

/* ---- completion and the AGF (XF25) ------------------------------------------------------- */

static void sync_all(void *arg)
{
	(void)arg;
	cr_assert_eq(fs_sync(fs), 0);
}

/* Completion waits for the group; an allocation of the same file passes by meanwhile (XF18). */
static void complete_in_busy_group(void *arg)
{
	struct set set = {arg, 1, 0};
	struct env_thread *syncer;
	struct file *file;
	uint64_t begin;

	open_fs(&set);
	file = open_file(0);
	cr_assert_eq(fs_fallocate(file, 0, 0, MIB), 0);
	cr_assert_eq(group_of(extent_at(file, 0).addr), 0);
	write_at(file, 0, MIB);
	begin = env_clock_ns();
	xfs_agf_lock(xfs_space_of(fs), 0, NULL);
	cr_assert_eq(env_thread_create(&syncer, "sync", sync_all, NULL), 0);
	env_sleep_ns(5 * MSEC);
	write_at(file, 2 * MIB, BLOCK);
	cr_assert_eq(fs_sync_range(file, 2 * MIB, BLOCK, false), 0);
	cr_assert_lt(env_clock_ns() - begin, 6 * MSEC, "it did not wait");
	cr_assert_eq(group_of(extent_at(file, 2 * MIB).addr), 1);
	env_sleep_ns(95 * MSEC);
	xfs_agf_unlock(xfs_space_of(fs), 0);
	env_thread_join(syncer);
	cr_assert_eq(extent_at(file, 0).unwritten, false);
	if (arg)
		cr_assert_lt(sum_stats(1).lock_wait_ns, MSEC);
	else
		cr_assert_geq(sum_stats(1).lock_wait_ns, 90 * MSEC);
	fs_close(file);
	close_fs();
}

Test(xfs_sim, completion_waits_for_the_group)
{
	run(complete_in_busy_group, NULL);
}

Test(xfs_sim, completion_without_reverse_map_does_not)
{
	run(complete_in_busy_group, "rmap_at_completion=off");
}

/* ---- contexts ---------------------------------------------------------------------------- */

#define NR_FILES    12
#define FILE_SIZE   (60 * MIB)
#define FILE_BLOCKS 150

/* WT5: the files' inodes are in group 0, which is full; their data went to groups 1 to 3. */
struct spill {
	struct set set;
	unsigned int nr_used;
	uint64_t ns;
};

static void spill(void *arg)
{
	struct spill *spill = arg;
	struct file *files[NR_FILES], *filler;

	open_fs(&spill->set);
	filler = open_file(100);
	/* All but what the inodes still need, and less than a file. */
	cr_assert_eq(fs_fallocate(filler, 0, 0, 246 * MIB), 0);
	for (unsigned int i = 0; i < NR_FILES; i++) {
		files[i] = open_file(i);
		cr_assert_eq(fs_fallocate(files[i], 0, 0, FILE_SIZE), 0);
	}
	for (uint64_t k = 0; k < FILE_BLOCKS; k++)
		for (unsigned int i = 0; i < NR_FILES; i++)
			write_at(files[i], k * 3 * BLOCK, BLOCK);
	spill->ns = env_clock_ns();
	cr_assert_eq(fs_sync(fs), 0);
	spill->ns = env_clock_ns() - spill->ns;
	for (unsigned int i = 0; i < 4; i++) {
		struct wb_stats stats;

		wb_get_stats(bdi, i, &stats);
		spill->nr_used += stats.written > 0;
	}
	for (unsigned int i = 0; i < NR_FILES; i++)
		fs_close(files[i]);
	fs_close(filler);
	close_fs();
}

Test(xfs_sim, contexts_follow_the_data)
{
	struct spill data = {.set = {"agcount=4,xfs_shard=data_ag", 4, 0}};
	struct spill inode = {.set = {"agcount=4,xfs_shard=inode_ag", 4, 0}};

	run(spill, &data);
	run(spill, &inode);
	cr_assert_geq(data.nr_used, 3);
	cr_assert_eq(inode.nr_used, 1);
	cr_assert_geq((double)inode.ns / (double)data.ns, 1.5, "%llu against %llu ns",
		      (unsigned long long)inode.ns, (unsigned long long)data.ns);
}

/* XF32: streams own bands of groups, and with xfs_shard=stream contexts. */
static void use_streams(void *arg)
{
	struct set set = {"agcount=8,streams=4,xfs_shard=stream", 4, 0};

	(void)arg;
	open_fs(&set);
	for (unsigned int i = 0; i < 8; i++) {
		struct file *file = open_file(i);

		write_at(file, 0, BLOCK);
		cr_assert_eq(wb_context_of(fs_inode_of(file)), (int)(i % 4));
		cr_assert_eq(fs_fsync(file, false), 0);
		cr_assert_eq(group_of(extent_at(file, 0).addr) / 2, i % 4);
		fs_close(file);
	}
	close_fs();
}

Test(xfs_sim, streams_own_groups_and_contexts)
{
	run(use_streams, NULL);
}

#define NR_OVERWRITTEN 50

/* WT12: one AGF is held for 100 ms; overwrites of the same context need none. */
static void overwrite_beside(void *arg)
{
	const struct set *set = arg;
	struct file *blocked, *files[NR_OVERWRITTEN];
	struct blkdev_count count;

	open_fs(set);
	blocked = open_file(100);
	for (unsigned int i = 0; i < NR_OVERWRITTEN; i++) {
		files[i] = open_file(i);
		write_at(files[i], 0, BLOCK);
	}
	cr_assert_eq(fs_sync(fs), 0);
	write_at(blocked, 0, BLOCK);
	for (unsigned int i = 0; i < NR_OVERWRITTEN; i++)
		write_at(files[i], 0, BLOCK);
	blkdev_count_reset(dev);
	xfs_agf_lock(xfs_space_of(fs), 0, NULL);
	bdi_start_writeback(bdi, 100000);
	env_sleep_ns(10 * MSEC);
	blkdev_count_read(dev, &count);
	cr_assert_eq(count.ios[BIO_WRITE][BIO_DATA], set->workers > 1 ? NR_OVERWRITTEN : 0);
	env_sleep_ns(90 * MSEC);
	xfs_agf_unlock(xfs_space_of(fs), 0);
	fs_close(blocked);
	for (unsigned int i = 0; i < NR_OVERWRITTEN; i++)
		fs_close(files[i]);
	close_fs();
}

Test(xfs_sim, one_worker_is_stopped_by_a_busy_group)
{
	struct set set = {"agcount=1", 1, 1};

	run(overwrite_beside, &set);
}

Test(xfs_sim, a_second_worker_goes_on_with_overwrites)
{
	struct set set = {"agcount=1", 1, 2};

	run(overwrite_beside, &set);
}

/* ---- what is freed (XF27), what is behind the end (XF14), extent size (XF10) ------------- */

static void free_and_use(void *arg)
{
	struct set set = {arg ? "agcount=1,busy_extents=off" : "agcount=1", 1, 0};
	struct file *first, *next;
	uint64_t addr;

	open_fs(&set);
	first = open_file(0);
	next = open_file(1);
	write_at(first, 0, BLOCK);
	cr_assert_eq(fs_fsync(first, false), 0);
	addr = extent_at(first, 0).addr;
	cr_assert_eq(fs_truncate(first, 0), 0);
	write_at(next, 0, BLOCK);
	cr_assert_eq(fs_sync_range(next, 0, BLOCK, true), 0);
	if (arg)
		cr_assert_eq(extent_at(next, 0).addr, addr);
	else
		cr_assert_neq(extent_at(next, 0).addr, addr);
	cr_assert_eq(fs_fsync(next, false), 0);
	write_at(first, 0, BLOCK);
	cr_assert_eq(fs_fsync(first, false), 0);
	if (!arg)
		cr_assert_eq(extent_at(first, 0).addr, addr, "the freeing is durable");
	fs_close(first);
	fs_close(next);
	close_fs();
}

Test(xfs_sim, freed_blocks_are_busy_until_the_commit)
{
	run(free_and_use, NULL);
}

Test(xfs_sim, freed_blocks_are_free_at_once_if_asked)
{
	run(free_and_use, "off");
}

static uint64_t end_of_space(void)
{
	struct file *file = open_file(0);
	struct fs_extent extent;
	uint64_t pos = 0;

	while (fs_next_extent(file, pos, &extent) == 0)
		pos = extent.pos + extent.len;
	fs_close(file);
	return pos;
}

static void trim_late(void *arg)
{
	struct set set = {NULL, 1, 0};

	(void)arg;
	open_fs(&set);
	for (uint64_t i = 0; i < 4; i++) {
		struct file *file = open_file(0);

		write_at(file, i * MIB / 4, MIB / 4);
		fs_close(file);
	}
	cr_assert_gt(end_of_space(), MIB, "it was closed with dirty data before");
	cr_assert_eq(fs_sync(fs), 0);
	env_sleep_ns(299 * SEC);
	cr_assert_gt(end_of_space(), MIB);
	env_sleep_ns(600 * SEC);
	cr_assert_eq(end_of_space(), MIB);
	close_fs();
}

Test(xfs_sim, what_is_behind_the_end_goes_after_five_minutes)
{
	run(trim_late, NULL);
}

static void use_extsize(void *arg)
{
	struct set set = {"extsize=65536", 1, 0};
	struct file *file;

	(void)arg;
	open_fs(&set);
	file = open_file(0);
	write_at(file, 5 * BLOCK, BLOCK);
	cr_assert_eq(extent_at(file, 0).pos, 0);
	cr_assert_eq(extent_at(file, 0).len, 65536);
	cr_assert_not(extent_at(file, 0).delayed);
	cr_assert(extent_at(file, 0).unwritten);
	fs_close(file);
	close_fs();
}

Test(xfs_sim, an_extent_size_is_allocated_at_once)
{
	run(use_extsize, NULL);
}

/* ---- the log as the limit (XF26) --------------------------------------------------------- */

#define NR_SMALL 1600

struct small {
	struct set set;
	uint64_t ns; /* of the sync */
	struct wb_stats stats;
};

/* WT23, scaled: many files of one block in many directories. */
static void write_small_files(void *arg)
{
	struct small *small = arg;
	struct file *files[NR_SMALL];

	open_fs(&small->set);
	for (unsigned int i = 0; i < NR_SMALL; i++) {
		char path[64];

		snprintf(path, sizeof(path), "/d%u", i % 16);
		if (i < 16)
			cr_assert_eq(fs_mkdir(fs, path), 0);
		snprintf(path, sizeof(path), "/d%u/f%u", i % 16, i);
		cr_assert_eq(fs_open(fs, path, FS_OPEN_CREATE, &files[i]), 0);
		write_at(files[i], 0, BLOCK);
	}
	cr_assert_eq(fs_sync_range(files[0], 0, BLOCK, true), 0);
	small->ns = env_clock_ns();
	cr_assert_eq(fs_sync(fs), 0);
	small->ns = env_clock_ns() - small->ns;
	small->stats = sum_stats(small->set.nr_contexts);
	for (unsigned int i = 0; i < NR_SMALL; i++)
		fs_close(files[i]);
	close_fs();
}

static double speed_up(const char *options, unsigned int from, unsigned int to,
		       struct wb_stats *stats)
{
	struct small one = {.set = {options, from, 0}};
	struct small many = {.set = {options, to, 0}};

	run(write_small_files, &one);
	run(write_small_files, &many);
	*stats = many.stats;
	return (double)one.ns / (double)many.ns;
}

Test(xfs_sim, a_small_log_is_the_limit_of_many_contexts)
{
	struct wb_stats stats;
	double small = speed_up("agcount=16,logsize=524288", 4, 8, &stats);

	cr_assert_gt(stats.log_wait_ns, stats.lock_wait_ns);
	cr_assert_lt(small, 1.3);
	cr_assert_gt(speed_up("agcount=16,logsize=67108864", 1, 4, &stats), 1.5);
	cr_assert_eq(stats.log_wait_ns, 0);
}

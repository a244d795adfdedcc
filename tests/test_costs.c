/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_costs.c - what buffered I/O costs in virtual time: the rows of A2, and each charge
 *
 * The rows are ratios to a copy of the same bytes: 550 ns for 4 KiB at random, 256 ns where
 * they go on.
 */
#include <criterion/criterion.h>
#include <iomap/backing_dev.h>
#include <iomap/blkdev.h>
#include <iomap/cost.h>
#include <iomap/fsbackend.h>
#include <iomap/page_cache.h>
#include <iomap/sim.h>
#include <string.h>

#define PAGE	  4096ull
#define KIB128	  (128ull << 10)
#define CHUNK	  (2ull << 20)
#define FILE_SIZE (32ull << 20)

#define COPY_RANDOM_NS 550.0
#define COPY_STREAM_NS 256.0

struct rig {
	const char *type;
	const char *options;
	bool single_pages;
	void (*measure)(struct rig *rig);
	double ns; /* what it found */

	struct page_cache *cache;
	struct block_device *dev;
	struct backing_dev *bdi;
	struct fs *fs;
	struct file *file;
};

static unsigned char memory[CHUNK];

/* ---- the rig: a cached, clean file over a device that takes no time ---- */

static void rig_open(struct rig *rig)
{
	struct page_cache_config config;
	struct fs_config fs_config = {.type = rig->type, .options = rig->options};
	char error[256] = "";

	page_cache_config_init(&config);
	config.capacity = 4 * FILE_SIZE;
	config.dirty_bytes = 2 * FILE_SIZE;
	config.dirty_background_bytes = 2 * FILE_SIZE - PAGE;
	config.writeback_interval_ns = 0;
	if (rig->single_pages) {
		config.order_hint = false;
		config.max_folio = PAGE;
	}
	cr_assert_eq(page_cache_create(&rig->cache, &config), 0);
	cr_assert_eq(blkdev_null_create(&rig->dev, 1ull << 30, 0), 0);
	cr_assert_eq(bdi_create(&rig->bdi, rig->cache, rig->dev, 1, WB_MAP_AUTO), 0);
	cr_assert_eq(fs_mount(&rig->fs, rig->cache, rig->bdi, rig->dev, &fs_config, error,
			      sizeof(error)),
		     0, "%s", error);
	cr_assert_eq(fs_open(rig->fs, "/file", FS_OPEN_CREATE, &rig->file), 0);
}

static void rig_close(struct rig *rig)
{
	cr_assert_eq(fs_close(rig->file), 0);
	cr_assert_eq(fs_unmount(rig->fs), 0);
	bdi_destroy(rig->bdi);
	blkdev_destroy(rig->dev);
	page_cache_destroy(rig->cache);
}

static void write_at(struct rig *rig, uint64_t len, uint64_t pos)
{
	cr_assert_eq(fs_write(rig->file, memory, len, pos), (ssize_t)len);
}

static void read_at(struct rig *rig, uint64_t len, uint64_t pos)
{
	cr_assert_eq(fs_read(rig->file, memory, len, pos), (ssize_t)len);
}

/* In one map, so that each write finds room for a whole folio. */
static void fill(struct rig *rig)
{
	cr_assert_eq(fs_fallocate(rig->file, 0, 0, FILE_SIZE), 0);
	for (uint64_t pos = 0; pos < FILE_SIZE; pos += CHUNK)
		write_at(rig, CHUNK, pos);
}

static void run_rig(void *arg)
{
	struct rig *rig = arg;

	rig_open(rig);
	fill(rig);
	cr_assert_eq(fs_fsync(rig->file, false), 0);
	rig->measure(rig);
	rig_close(rig);
}

/* What the measure of the rig says, in a faithful world. */
static double measured(struct rig rig)
{
	struct env_sim_config config;
	struct env_sim_result result;
	int err;

	env_sim_config_init(&config);
	err = env_sim_run(&config, run_rig, &rig, &result);
	cr_assert_eq(err, 0, "%s", result.text);
	return rig.ns;
}

/* ---- what is measured: ns for an operation ---- */

enum { NR_OPS = 1024 };

/* Every page of the file is as likely, none follows the one before. */
static uint64_t random_page(unsigned int i)
{
	return (i * 7919ull + 5) % (FILE_SIZE / PAGE) * PAGE;
}

static void measure_random(struct rig *rig, void (*op)(struct rig *, uint64_t, uint64_t),
			   uint64_t len)
{
	uint64_t start = env_clock_ns();

	for (unsigned int i = 0; i < NR_OPS; i++)
		op(rig, len, random_page(i));
	rig->ns = (double)(env_clock_ns() - start) / NR_OPS;
}

static void measure_sequential(struct rig *rig, void (*op)(struct rig *, uint64_t, uint64_t))
{
	uint64_t start = env_clock_ns();

	for (uint64_t pos = 0; pos < FILE_SIZE; pos += KIB128)
		op(rig, KIB128, pos);
	rig->ns = (double)(env_clock_ns() - start) / (double)(FILE_SIZE / KIB128);
}

static void random_write_4k(struct rig *rig)
{
	measure_random(rig, write_at, PAGE);
}

static void random_write_512(struct rig *rig)
{
	measure_random(rig, write_at, 512);
}

static void random_read_4k(struct rig *rig)
{
	measure_random(rig, read_at, PAGE);
}

static void sequential_write(struct rig *rig)
{
	measure_sequential(rig, write_at);
}

static void sequential_read(struct rig *rig)
{
	measure_sequential(rig, read_at);
}

static void check_ratio(double ratio, double published)
{
	cr_assert_geq(ratio, published * 0.9);
	cr_assert_leq(ratio, published * 1.1);
}

/* Bandwidth relative to a copy that goes on. */
static double stream_ratio(double ns)
{
	return COPY_STREAM_NS * (double)(KIB128 / PAGE) / ns;
}

/* ---- A2 ---- */

Test(costs, the_file_is_cached_in_folios_of_2_mib)
{
	struct page_cache_stats stats;
	struct rig rig = {.type = "xfs"};

	rig_open(&rig);
	fill(&rig);
	page_cache_get_stats(rig.cache, &stats);
	cr_assert_eq(stats.folios_created[9], FILE_SIZE / CHUNK);
	rig_close(&rig);
}

Test(costs, random_write_of_4_kib)
{
	double ns = measured((struct rig){.type = "xfs", .measure = random_write_4k});

	check_ratio(ns / COPY_RANDOM_NS, 3.09);
	cr_assert_float_eq(ns, 1150 + 550, 1);
}

Test(costs, random_read_of_4_kib)
{
	double ns = measured((struct rig){.type = "xfs", .measure = random_read_4k});

	check_ratio(ns / COPY_RANDOM_NS, 2.09);
	cr_assert_float_eq(ns, 600 + 550, 1);
}

Test(costs, random_write_of_512_bytes)
{
	double ns = measured((struct rig){.type = "xfs", .measure = random_write_512});

	check_ratio(ns / COPY_RANDOM_NS, 2.58);
	cr_assert_float_eq(ns, 1150 + 270, 1);
}

Test(costs, sequential_write_of_128_kib)
{
	double ns = measured((struct rig){.type = "xfs", .measure = sequential_write});

	check_ratio(stream_ratio(ns), 0.85);
}

Test(costs, sequential_read_of_128_kib)
{
	double ns = measured((struct rig){.type = "xfs", .measure = sequential_read});

	check_ratio(stream_ratio(ns), 0.76);
}

Test(costs, buffer_heads_make_a_random_write_5_to_8_times_as_dear)
{
	double xfs = measured((struct rig){.type = "xfs", .measure = random_write_4k});
	double ext4 = measured(
		(struct rig){.type = "ext4", .options = "bh=on", .measure = random_write_4k});

	cr_assert_geq(ext4 / xfs, 5);
	cr_assert_leq(ext4 / xfs, 8);
}

Test(costs, buffer_heads_slow_a_sequential_write_down_to_70_to_90_percent)
{
	double xfs = measured((struct rig){.type = "xfs", .measure = sequential_write});
	double ext4 = measured(
		(struct rig){.type = "ext4", .options = "bh=on", .measure = sequential_write});

	cr_assert_geq(xfs / ext4, 0.70);
	cr_assert_leq(xfs / ext4, 0.90);
}

Test(costs, single_pages_slow_a_sequential_write_down_to_45_to_65_percent)
{
	double large = measured((struct rig){.type = "xfs", .measure = sequential_write});
	double pages = measured(
		(struct rig){.type = "xfs", .single_pages = true, .measure = sequential_write});

	cr_assert_geq(large / pages, 0.45);
	cr_assert_leq(large / pages, 0.65);
}

/* ---- each charge ---- */

static void time_of_long_write(struct rig *rig)
{
	uint64_t start = env_clock_ns();

	write_at(rig, KIB128, 40 * PAGE);
	rig->ns = (double)(env_clock_ns() - start);
}

Test(costs, a_long_copy_is_cold_for_its_first_4_kib)
{
	double ns = measured((struct rig){.type = "xfs", .measure = time_of_long_write});

	cr_assert_float_eq(ns, 1150 + 550 + 31 * 256, 1);
}

static void time_of_write_behind_read(struct rig *rig)
{
	uint64_t start;

	read_at(rig, PAGE, 7 * PAGE);
	start = env_clock_ns();
	write_at(rig, PAGE, 8 * PAGE);
	rig->ns = (double)(env_clock_ns() - start);
}

Test(costs, a_write_goes_on_where_a_read_ended)
{
	double ns = measured((struct rig){.type = "xfs", .measure = time_of_write_behind_read});

	cr_assert_float_eq(ns, 1150 + 256, 1);
}

static void time_of_appended_pages(struct rig *rig)
{
	uint64_t start;

	write_at(rig, PAGE, FILE_SIZE);
	start = env_clock_ns();
	for (unsigned int i = 1; i <= 16; i++)
		write_at(rig, PAGE, FILE_SIZE + i * PAGE);
	rig->ns = (double)(env_clock_ns() - start) / 16;
}

Test(costs, a_new_folio_is_created_and_inserted)
{
	double ns = measured((struct rig){
		.type = "xfs", .single_pages = true, .measure = time_of_appended_pages});

	cr_assert_float_eq(ns, 1150 + 256 + 530 + 100, 1);
}

/* One run of dirty pages: what is not per folio is the same for both lengths. */
static double flush_ns(struct rig *rig, uint64_t nr_pages)
{
	uint64_t start;

	write_at(rig, nr_pages * PAGE, 0);
	start = env_clock_ns();
	cr_assert_eq(fs_fsync(rig->file, true), 0);
	return (double)(env_clock_ns() - start);
}

static void time_of_flushed_folio(struct rig *rig)
{
	double few = flush_ns(rig, 16);

	rig->ns = (flush_ns(rig, 48) - few) / 32;
}

Test(costs, a_folio_is_flushed_started_and_ended)
{
	double ns = measured((struct rig){
		.type = "xfs", .single_pages = true, .measure = time_of_flushed_folio});

	cr_assert_float_eq(ns, 500 + 100 + 300 + 100, 1);
}

Test(costs, buffer_heads_are_walked_in_writeback)
{
	struct rig rig = {.type = "ext4", .single_pages = true, .measure = time_of_flushed_folio};
	double plain = measured(rig);

	rig.options = "bh=on";
	cr_assert_float_eq(measured(rig) - plain, 120, 1);
}

static void time_of_request(struct rig *rig)
{
	uint64_t start;
	double one = flush_ns(rig, 2);

	write_at(rig, PAGE, 0);
	write_at(rig, PAGE, 2 * PAGE);
	start = env_clock_ns();
	cr_assert_eq(fs_fsync(rig->file, true), 0);
	rig->ns = (double)(env_clock_ns() - start) - one;
}

Test(costs, a_request_is_built)
{
	double ns = measured(
		(struct rig){.type = "xfs", .single_pages = true, .measure = time_of_request});

	cr_assert_float_eq(ns, 2000, 1);
}

Test(costs, nothing_is_kept_on_the_host)
{
	struct rig rig = {.type = "xfs"};

	rig_open(&rig);
	write_at(&rig, PAGE, 0);
	cr_assert_eq(env_task_self.local[ENV_LOCAL_PLACE], 0);
	rig_close(&rig);
}

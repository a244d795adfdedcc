/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_folio_stress.c - everything at once: write, read, truncate, fsync, drop (M131, M132)
 *
 * Every block that is written is filled with a stamp that names file, block and write.  So a
 * reader can tell of any word whether it belongs where it was found, and after the storm each
 * block holds one stamp alone, or zeroes, in the cache as well as on the device.
 */
#include <iomap/fsbackend.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "env/lockdep.h"
#include "tests/flat.h"

#define BLOCK	    4096u
#define WORDS	    (BLOCK / sizeof(uint64_t))
#define FILE_BLOCKS 384u
#define MAX_BLOCKS  48u /* of one write or read */
#define MAX_FILES   3u

struct storm {
	struct block_device *dev;
	struct page_cache *cache;
	struct backing_dev *bdi;
	struct fs *fs;
	struct file *files[MAX_FILES];
	unsigned int nr_files;
	unsigned int nr_rounds;
	uint32_t nr_writes; /* [a] */
};

struct sailor {
	struct storm *storm;
	uint64_t seed;
	struct flat_thread thread;
};

static struct page_cache_stats stats_of(struct storm *storm)
{
	struct page_cache_stats stats;

	page_cache_get_stats(storm->cache, &stats);
	return stats;
}

static void storm_open(struct storm *storm, const char *type, unsigned int nr_contexts,
		       uint64_t capacity)
{
	struct fs_config fs_config = {.type = type, .block_size = BLOCK};
	struct page_cache_config config;
	char error[256];
	char path[16];

	memset(storm, 0, sizeof(*storm));
	page_cache_config_init(&config);
	config.capacity = capacity;
	config.prefault = false;
	config.writeback_interval_ns = 2000000;
	config.dirty_expire_ns = 4000000;
	cr_assert_eq(page_cache_create(&storm->cache, &config), 0);
	cr_assert_eq(blkdev_ram_create(&storm->dev, 512 * MiB, 2), 0);
	cr_assert_eq(bdi_create(&storm->bdi, storm->cache, storm->dev, nr_contexts, WB_MAP_HASH),
		     0);
	cr_assert_eq(fs_mount(&storm->fs, storm->cache, storm->bdi, storm->dev, &fs_config, error,
			      sizeof(error)),
		     0, "%s", error);
	storm->nr_files = MAX_FILES;
	for (unsigned int i = 0; i < MAX_FILES; i++) {
		snprintf(path, sizeof(path), "/file%u", i);
		cr_assert_eq(fs_open(storm->fs, path, FS_OPEN_CREATE, &storm->files[i]), 0);
	}
}

/* Nothing is left of it: no folio, no block state, no counter (M118, M132). */
static void storm_close(struct storm *storm)
{
	struct page_cache_stats stats;

	for (unsigned int i = 0; i < MAX_FILES; i++)
		cr_assert_eq(fs_close(storm->files[i]), 0);
	cr_assert_eq(fs_unmount(storm->fs), 0);
	stats = stats_of(storm);
	cr_assert_eq(stats.nr_cached, 0);
	cr_assert_eq(stats.nr_dirty, 0);
	cr_assert_eq(stats.nr_writeback, 0);
	cr_assert_eq(stats.folio_bytes, 0);
	cr_assert_eq(stats.state_bytes, 0);
	cr_assert_eq(stats.nr_free, page_cache_get_config(storm->cache)->capacity / BLOCK);
	bdi_destroy(storm->bdi);
	page_cache_destroy(storm->cache);
	blkdev_destroy(storm->dev);
}

/* ---- stamps ------------------------------------------------------------------------- */

/* The number of the write, then file and block; never 0. */
static uint64_t stamp_of(unsigned int file, uint64_t block, uint32_t write)
{
	return (uint64_t)write << 32 | (uint64_t)(file + 1) << 24 | block;
}

/* Also a stamp that is being written over zeroes, byte by byte. */
static bool stamp_fits(uint64_t stamp, unsigned int file, uint64_t block)
{
	uint32_t expected = (uint32_t)stamp_of(file, block, 0);

	for (unsigned int shift = 0; shift < 32; shift += 8) {
		uint32_t byte = (uint32_t)(stamp >> shift) & 0xff;

		if (byte && byte != (expected >> shift & 0xff))
			return false;
	}
	return true;
}

static void fill_blocks(uint64_t *words, unsigned int file, uint64_t first, uint64_t nr,
			uint32_t write)
{
	for (uint64_t i = 0; i < nr; i++)
		for (uint64_t j = 0; j < WORDS; j++)
			*words++ = stamp_of(file, first + i, write);
}

/* ---- what the threads do ------------------------------------------------------------ */

static unsigned int any_file(const struct storm *storm, struct env_rng *rng)
{
	return (unsigned int)env_rng_below(rng, storm->nr_files);
}

static void do_write(struct storm *storm, struct env_rng *rng, uint64_t *words)
{
	unsigned int file = any_file(storm, rng);
	uint64_t first = env_rng_below(rng, FILE_BLOCKS);
	uint64_t nr = 1 + env_rng_below(rng, MAX_BLOCKS);
	uint32_t write = __atomic_add_fetch(&storm->nr_writes, 1, __ATOMIC_RELAXED);

	nr = nr < FILE_BLOCKS - first ? nr : FILE_BLOCKS - first;
	fill_blocks(words, file, first, nr, write);
	cr_assert_eq(fs_write(storm->files[file], words, nr * BLOCK, first * BLOCK),
		     (ssize_t)(nr * BLOCK));
}

static void do_read(struct storm *storm, struct env_rng *rng, uint64_t *words)
{
	unsigned int file = any_file(storm, rng);
	uint64_t first = env_rng_below(rng, FILE_BLOCKS);
	uint64_t nr = 1 + env_rng_below(rng, MAX_BLOCKS);
	ssize_t got = fs_read(storm->files[file], words, nr * BLOCK, first * BLOCK);

	cr_assert_geq(got, 0);
	for (uint64_t i = 0; i < (uint64_t)got / sizeof(*words); i++)
		cr_assert(stamp_fits(words[i], file, first + i / WORDS),
			  "file %u block %zu holds %zx", file, (size_t)(first + i / WORDS),
			  (size_t)words[i]);
}

static void do_truncate(struct storm *storm, struct env_rng *rng)
{
	unsigned int file = any_file(storm, rng);
	uint64_t size = env_rng_below(rng, FILE_BLOCKS * WORDS) * sizeof(uint64_t);

	cr_assert_eq(fs_truncate(storm->files[file], size), 0);
}

static void write_and_truncate(void *arg)
{
	struct sailor *sailor = arg;
	uint64_t *words = malloc((uint64_t)MAX_BLOCKS * BLOCK);
	struct env_rng rng;

	cr_assert(words);
	env_rng_seed(&rng, sailor->seed);
	for (unsigned int round = 0; round < sailor->storm->nr_rounds; round++) {
		if (env_rng_below(&rng, 8) == 0)
			do_truncate(sailor->storm, &rng);
		else
			do_write(sailor->storm, &rng, words);
	}
	free(words);
}

static void read_only(void *arg)
{
	struct sailor *sailor = arg;
	uint64_t *words = malloc((uint64_t)MAX_BLOCKS * BLOCK);
	struct env_rng rng;

	cr_assert(words);
	env_rng_seed(&rng, sailor->seed);
	for (unsigned int round = 0; round < sailor->storm->nr_rounds; round++)
		do_read(sailor->storm, &rng, words);
	free(words);
}

static void sync_and_drop(void *arg)
{
	struct sailor *sailor = arg;
	struct storm *storm = sailor->storm;
	struct env_rng rng;

	env_rng_seed(&rng, sailor->seed);
	for (unsigned int round = 0; round < storm->nr_rounds; round++) {
		struct file *file = storm->files[any_file(storm, &rng)];

		switch (env_rng_below(&rng, 6)) {
		case 0:
			cr_assert_eq(fs_fsync(file, false), 0);
			break;
		case 1:
			cr_assert_eq(fs_sync_range(file, env_rng_below(&rng, MiB), 100000, false),
				     0);
			break;
		case 2:
			cr_assert_eq(fs_advise(file, 0, MiB, FS_ADVICE_DONTNEED), 0);
			break;
		case 3:
			bdi_start_writeback(storm->bdi, 100);
			break;
		case 4:
			if (round % 8 == 0)
				cr_assert_eq(fs_sync(storm->fs), 0);
			break;
		case 5:
			page_cache_drop(storm->cache);
			break;
		}
	}
}

/* ---- after the storm ---------------------------------------------------------------- */

/* One stamp a block, or zeroes; zeroes alone may follow (a truncation inside the block). */
static void check_block(const uint64_t *words, uint64_t nr, unsigned int file, uint64_t block)
{
	uint64_t i = 0;

	cr_assert(stamp_fits(words[0], file, block));
	while (i < nr && words[i] == words[0])
		i++;
	while (i < nr && words[i] == 0)
		i++;
	cr_assert_eq(i, nr, "file %u block %zu word %zu: %zx, first %zx", file, (size_t)block,
		     (size_t)i, (size_t)words[i], (size_t)words[0]);
}

static void check_files(struct storm *storm)
{
	static uint64_t before[FILE_BLOCKS * WORDS];
	static uint64_t after[FILE_BLOCKS * WORDS];

	for (unsigned int file = 0; file < storm->nr_files; file++) {
		uint64_t size = fs_size(storm->files[file]);
		uint64_t nr = size / sizeof(uint64_t);

		cr_assert_eq(fs_read(storm->files[file], before, sizeof(before), 0), (ssize_t)size);
		for (uint64_t i = 0; i < nr; i += WORDS)
			check_block(before + i, nr - i < WORDS ? nr - i : WORDS, file, i / WORDS);
		/* The device agrees. */
		cr_assert_eq(fs_fsync(storm->files[file], false), 0);
		page_cache_drop(storm->cache);
		cr_assert_eq(fs_read(storm->files[file], after, sizeof(after), 0), (ssize_t)size);
		cr_assert_eq(memcmp(before, after, size), 0);
	}
}

static void run_storm(struct storm *storm, unsigned int nr_files, unsigned int nr_rounds)
{
	static void (*const jobs[])(void *) = {write_and_truncate, write_and_truncate, read_only,
					       read_only, sync_and_drop};
	struct sailor sailors[5];

	storm->nr_files = nr_files;
	storm->nr_rounds = nr_rounds;
	for (unsigned int i = 0; i < 5; i++) {
		sailors[i].storm = storm;
		sailors[i].seed = 1000 + i;
		flat_thread_start(&sailors[i].thread, jobs[i], &sailors[i]);
	}
	for (unsigned int i = 0; i < 5; i++)
		flat_thread_join(&sailors[i].thread);
	check_files(storm);
}

/* M132 */
Test(folio_stress, one_file)
{
	struct storm storm;

	storm_open(&storm, "xfs", 1, 16 * MiB);
	run_storm(&storm, 1, 1500);
	storm_close(&storm);
}

/* M132, M128 */
Test(folio_stress, several_files_in_several_contexts)
{
	struct storm storm;

	storm_open(&storm, "xfs", 4, 16 * MiB);
	run_storm(&storm, MAX_FILES, 1000);
	storm_close(&storm);
}

/* M132: the cache is smaller than the files, so that reclaim takes part. */
Test(folio_stress, a_small_cache)
{
	struct storm storm;

	storm_open(&storm, "xfs", 2, 2 * MiB);
	run_storm(&storm, MAX_FILES, 800);
	storm_close(&storm);
}

/* M132: the other back end. */
Test(folio_stress, another_back_end)
{
	struct storm storm;

	storm_open(&storm, "ext4", 2, 8 * MiB);
	run_storm(&storm, MAX_FILES, 800);
	storm_close(&storm);
}

/* M131, L20, L21 */
Test(folio_stress, no_lock_is_taken_out_of_order)
{
	struct storm storm;

	env_lockdep_install();
	storm_open(&storm, "xfs", 3, 4 * MiB);
	run_storm(&storm, MAX_FILES, 400);
	storm_close(&storm);
	cr_assert_not(env_lockdep_found());
}

/* M131 for the folio layer alone, with throttled writers and evicted inodes. */
struct churner {
	struct flat *flat;
	uint64_t first_ino;
	struct flat_thread thread;
};

static void write_and_remove(void *arg)
{
	static const unsigned char bytes[64 * KiB];
	struct churner *churner = arg;

	for (unsigned int round = 0; round < 40; round++) {
		struct flat_file *file = flat_create(churner->flat, churner->first_ino + round % 7);

		for (unsigned int i = 0; i < 12; i++)
			cr_assert_eq(flat_write(file, bytes, sizeof(bytes), i * sizeof(bytes)),
				     (ssize_t)sizeof(bytes));
		if (round % 3 == 0)
			cr_assert_eq(flat_fsync(file), 0);
		if (round % 3 == 1)
			flat_truncate(file, 100000);
		flat_remove(file);
	}
}

static void sync_all(void *arg)
{
	struct churner *churner = arg;

	for (unsigned int round = 0; round < 60; round++) {
		super_sync(&churner->flat->sb);
		bdi_start_writeback(churner->flat->bdi, 50);
		page_cache_drop(churner->flat->cache);
	}
}

static void churn_inodes(void)
{
	struct flat_config config;
	struct churner churners[3];
	struct flat flat;

	flat_config_init(&config);
	config.cache.capacity = 8 * MiB;
	config.cache.writeback_interval_ns = 1000000;
	config.cache.dirty_expire_ns = 1000000;
	config.nr_contexts = 3;
	config.map = WB_MAP_INO_MOD;
	config.workers = 1;
	flat_open(&flat, &config);
	for (unsigned int i = 0; i < 3; i++) {
		churners[i].flat = &flat;
		churners[i].first_ino = i * 10;
		flat_thread_start(&churners[i].thread, i < 2 ? write_and_remove : sync_all,
				  &churners[i]);
	}
	for (unsigned int i = 0; i < 3; i++)
		flat_thread_join(&churners[i].thread);
	flat_close(&flat);
}

Test(folio_stress, inodes_come_and_go)
{
	churn_inodes();
}

Test(folio_stress, inodes_come_and_go_without_a_lock_out_of_order)
{
	env_lockdep_install();
	churn_inodes();
	cr_assert_not(env_lockdep_found());
}

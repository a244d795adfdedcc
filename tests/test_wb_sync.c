/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_wb_sync.c - what is asked of all contexts at once: sync, so many pages, figures; failures
 * in any of them (W5, W40..W45, W60..W62)
 */
#include <iomap/backing_dev.h>

#include <stdio.h>
#include <xxhash.h>
#include "tests/test_wb_many.h"

/* ---- time of a sync (W40, W45) --------------------------------------------------------- */

#define FOLIO_NS 20000 /* of CPU that a flusher needs for each */

static int take_time(struct flat_file *file, struct folio *folio)
{
	(void)file;
	(void)folio;
	env_cpu(FOLIO_NS);
	return 0;
}

struct timed {
	unsigned int nr_contexts;
	bool serial;
	uint64_t ns;
};

/* Four contexts, or one, with the same work; a device that can take it all. */
static void timed_program(void *arg)
{
	struct timed *timed = arg;
	struct page_cache_config config;
	struct flat_file *files[8];
	struct bdi_tuning tuning;
	struct flat rig;

	page_cache_config_init(&config);
	config.capacity = 64 * MiB;
	config.prefault = false;
	config.writeback_interval_ns = 0;
	wb_rig_open(&rig, &config, NULL, timed->nr_contexts, WB_MAP_INO_MOD, NULL);
	bdi_get_tuning(rig.bdi, &tuning);
	tuning.sync_serial = timed->serial;
	cr_assert_eq(bdi_set_tuning(rig.bdi, &tuning), 0);
	for (unsigned int i = 0; i < 8; i++) {
		files[i] = flat_create(&rig, i);
		flat_dirty_pages(files[i], 0, 100, 1);
	}
	rig.on_write_folio = take_time;
	timed->ns = env_clock_ns();
	cr_assert_eq(super_sync(&rig.sb), 0);
	timed->ns = env_clock_ns() - timed->ns;
	for (unsigned int i = 0; i < 8; i++)
		flat_remove(files[i]);
	flat_close(&rig);
}

static uint64_t sync_ns(unsigned int nr_contexts, bool serial)
{
	struct timed timed = {.nr_contexts = nr_contexts, .serial = serial};

	wb_simulate(8, 0, timed_program, &timed);
	return timed.ns;
}

/* WT13, N16 */
Test(wb_sync, contexts_are_synced_at_the_same_time)
{
	uint64_t one = sync_ns(1, false);

	for (unsigned int nr = 2; nr <= 8; nr *= 2)
		cr_assert_leq(sync_ns(nr, false), one * 13 / 10 / nr + one / 20);
	cr_assert_geq(sync_ns(4, true), one * 9 / 10);
	cr_assert_leq(sync_ns(4, true), one * 11 / 10);
}

/* N27: after it no task of the flush is queued anywhere. */
static void quiet_program(void *arg)
{
	struct page_cache_config config;
	struct flat_file *files[8];
	struct bdi_stats stats;
	struct flat rig;

	(void)arg;
	many_config(&config);
	wb_rig_open(&rig, &config, "nvme", 4, WB_MAP_INO_MOD, NULL);
	for (unsigned int i = 0; i < 8; i++) {
		files[i] = flat_create(&rig, i);
		flat_dirty_pages(files[i], 0, 10, 1);
	}
	cr_assert_eq(super_sync(&rig.sb), 0);
	bdi_get_stats(rig.bdi, &stats);
	for (unsigned int i = 0; i < 4; i++)
		cr_assert(list_empty(&rig.bdi->slots[i]->works));
	cr_assert_eq(stats.sum.nr_dirty_inodes, 0);
	cr_assert_eq(stats.sum.writeback, 0);
	cr_assert_eq(stats.sum.completion_queue, 0);
	cr_assert_eq(stats.sum.written, 80);
	cr_assert_eq(stats.sum.works, 4);
	for (unsigned int i = 0; i < 8; i++)
		flat_remove(files[i]);
	flat_close(&rig);
}

Test(wb_sync, nothing_is_left_after_a_sync)
{
	wb_simulate(4, 0, quiet_program, NULL);
	for (uint64_t seed = 1; seed <= 30; seed++)
		wb_simulate(4, seed, quiet_program, NULL);
}

/* ---- so many pages (W43, N22) ----------------------------------------------------------- */

/* 100, 10, 1 and 0 inodes of a page each in four contexts. */
static void check_budget(int64_t nr_pages, bool tight)
{
	static const unsigned int load[4] = {100, 10, 1, 0};
	struct page_cache_config config;
	struct inode *inodes[4];
	struct bdi_stats stats;
	struct flat rig;

	many_config(&config);
	wb_rig_open(&rig, &config, NULL, 4, WB_MAP_INO_MOD, NULL);
	for (unsigned int i = 0; i < 4; i++) {
		inodes[i] = many_create(&rig, 0, load[i] + 1);
		for (unsigned int j = 0; j < load[i]; j++)
			inodes[i][j].i_ino = j * 4 + i;
		many_dirty(inodes[i], load[i]);
	}
	bdi_writeback(rig.bdi, nr_pages);
	bdi_get_stats(rig.bdi, &stats);
	if (nr_pages > 111)
		nr_pages = 111;
	cr_assert_geq(stats.sum.written, (uint64_t)nr_pages);
	if (tight)
		cr_assert_leq(stats.sum.written, (uint64_t)nr_pages + 4);
	for (unsigned int i = 0; i < 4; i++)
		many_remove(inodes[i], load[i] + 1);
	flat_close(&rig);
}

/* WT18 */
Test(wb_sync, as_many_pages_are_written_as_were_asked_for)
{
	for (int64_t n = 1; n < 130; n += 7)
		check_budget(n, true);
	check_budget(INT64_MAX, false);
}

/* ---- failures (N23, M133, M134) ----------------------------------------------------------- */

/* WT19: with the n-th allocation failing, whatever n is, all data reaches the device. */
Test(wb_sync, no_allocation_is_needed_to_write)
{
	for (unsigned int n = 0;; n++) {
		struct flat_file *files[8];
		struct flat_config config;
		unsigned int failed;
		struct flat rig;

		flat_config_init(&config);
		config.nr_contexts = 4;
		config.map = WB_MAP_INO_MOD;
		flat_open(&rig, &config);
		for (unsigned int i = 0; i < 8; i++) {
			files[i] = flat_create(&rig, i);
			flat_dirty_pages(files[i], 0, 3, 1);
		}
		env_alloc_fail(n, 1);
		bdi_start_writeback(rig.bdi, 8);
		bdi_writeback(rig.bdi, 4);
		cr_assert_eq(super_sync(&rig.sb), 0);
		failed = env_alloc_fail(0, 0);
		for (unsigned int i = 0; i < 8; i++) {
			cr_assert(files[i]->written[0] && files[i]->written[2]);
			flat_remove(files[i]);
		}
		flat_close(&rig);
		if (!failed)
			break;
		cr_assert_lt(n, 100);
	}
}

/* WT19: an I/O error in one context is its file's alone. */
Test(wb_sync, an_io_error_in_a_context_stays_there)
{
	for (uint64_t bad = 0; bad < 4; bad++) {
		struct flat_file *files[4];
		struct flat_config config;
		struct flat rig;
		struct blkdev_fault_rule rule = {
			.op = BIO_WRITE,
			.kind = -1,
			.addr = bad * FLAT_FILE_BYTES + PAGE,
			.len = PAGE,
			.error = -EIO,
		};

		flat_config_init(&config);
		config.nr_contexts = 4;
		config.map = WB_MAP_INO_MOD;
		flat_open(&rig, &config);
		cr_assert_eq(blkdev_fault_add(rig.dev, &rule), 0);
		for (unsigned int i = 0; i < 4; i++) {
			files[i] = flat_create(&rig, i);
			flat_dirty_pages(files[i], 0, 3, 1);
		}
		cr_assert_eq(super_sync(&rig.sb), 0);
		wb_assert_balanced(&rig);
		cr_assert_eq(flat_stats(&rig).nr_dirty, 0);
		for (unsigned int i = 0; i < 4; i++) {
			cr_assert_eq(files[i]->written[0] + files[i]->written[2], 2);
			cr_assert_eq(files[i]->written[1], i != bad);
			cr_assert_eq(flat_fsync(files[i]), i == bad ? -EIO : 0);
			cr_assert_eq(flat_fsync(files[i]), 0);
			flat_remove(files[i]);
		}
		flat_close(&rig);
	}
}

/* ---- any number gives the same (M128) ------------------------------------------------------- */

#define SAME_FILES 8
#define SAME_STEPS 200

struct outcome {
	uint64_t digest[SAME_FILES];
	int error[SAME_STEPS];
};

static void run_same(unsigned int nr_contexts, bool resize, struct outcome *outcome)
{
	static unsigned char bytes[2 * MiB];
	struct flat_file *files[SAME_FILES];
	struct blkdev_fault_rule rule = {
		.op = BIO_WRITE,
		.kind = -1,
		.addr = 3 * FLAT_FILE_BYTES,
		.len = FLAT_FILE_BYTES,
		.error = -EIO,
		.after = 100,
		.count = 50,
	};
	struct flat_config config;
	struct env_rng rng;
	struct flat rig;

	memset(outcome, 0, sizeof(*outcome));
	flat_config_init(&config);
	config.nr_contexts = nr_contexts;
	config.map = WB_MAP_INO_MOD;
	/* Only what is asked for is written, so errors come at the same steps. */
	config.cache.capacity = 64 * MiB;
	config.cache.dirty_bytes = 60 * MiB;
	config.cache.dirty_background_bytes = 58 * MiB;
	config.cache.max_folio = PAGE;
	flat_open(&rig, &config);
	cr_assert_eq(blkdev_fault_add(rig.dev, &rule), 0);
	env_rng_seed(&rng, 99);
	for (unsigned int i = 0; i < SAME_FILES; i++)
		files[i] = flat_create(&rig, i);
	for (unsigned int step = 0; step < SAME_STEPS; step++) {
		struct flat_file *file = files[env_rng_below(&rng, SAME_FILES)];
		uint64_t pos = env_rng_below(&rng, sizeof(bytes) / 2);
		uint64_t len = 1 + env_rng_below(&rng, 60000);

		memset(bytes, (int)step, len);
		cr_assert_eq(flat_write(file, bytes, len, pos), (ssize_t)len);
		if (step % 5 == 0)
			outcome->error[step] = flat_fsync(file);
		if (step % 23 == 0)
			flat_truncate(file, pos);
		if (step % 31 == 0)
			outcome->error[step] = super_sync(&rig.sb);
		if (resize)
			cr_assert_eq(bdi_set_nr_contexts(rig.bdi, 1 + step * 5 % 8), 0);
	}
	super_sync(&rig.sb);
	blkdev_fault_clear(rig.dev);
	for (unsigned int i = 0; i < SAME_FILES; i++) {
		memset(bytes, 0, sizeof(bytes));
		flat_read(files[i], bytes, sizeof(bytes), 0);
		outcome->digest[i] = XXH3_64bits(bytes, sizeof(bytes));
		flat_remove(files[i]);
	}
	flat_close(&rig);
}

/* WT17, M128 */
Test(wb_sync, contents_and_errors_do_not_depend_on_the_number)
{
	static struct outcome one, other;
	unsigned int nr_errors = 0;

	run_same(1, false, &one);
	for (unsigned int i = 0; i < SAME_STEPS; i++)
		nr_errors += one.error[i] != 0;
	cr_assert_gt(nr_errors, 0);
	for (unsigned int nr = 2; nr <= 8; nr *= 2) {
		run_same(nr, false, &other);
		cr_assert_eq(memcmp(&one, &other, sizeof(one)), 0);
	}
	run_same(1, true, &other);
	cr_assert_eq(memcmp(&one, &other, sizeof(one)), 0);
}

/* ---- one context is the plain flusher (W7) --------------------------------------------------- */

static enum wb_map trace_map;
static bool trace_rebind;

static void trace_program(void *arg)
{
	static unsigned char bytes[64 * KiB];
	struct page_cache_config config;
	struct flat_file *files[6];
	struct bdi_tuning tuning;
	struct env_rng rng;
	struct flat rig;

	(void)arg;
	page_cache_config_init(&config);
	config.capacity = 4 * MiB;
	config.prefault = false;
	config.dirty_bytes = 1 * MiB;
	config.dirty_background_bytes = 512 * KiB;
	wb_rig_open(&rig, &config, "nvme", 1, trace_map, NULL);
	bdi_get_tuning(rig.bdi, &tuning);
	tuning.rebind_on_refile = trace_rebind;
	cr_assert_eq(bdi_set_tuning(rig.bdi, &tuning), 0);
	env_rng_seed(&rng, 5);
	for (unsigned int i = 0; i < 6; i++)
		files[i] = flat_create(&rig, i);
	for (unsigned int step = 0; step < 300; step++) {
		uint64_t pos = env_rng_below(&rng, 1 * MiB);

		cr_assert_gt(flat_write(files[step % 6], bytes, sizeof(bytes), pos), 0);
		if (step % 40 == 0)
			super_sync(&rig.sb);
		env_sleep_ns(env_rng_below(&rng, 40 * NS_PER_MS));
	}
	for (unsigned int i = 0; i < 6; i++)
		flat_remove(files[i]);
	flat_close(&rig);
}

static uint64_t trace_hash(enum wb_map map, bool rebind)
{
	static struct env_sim_result result;
	struct env_sim_config config;

	trace_map = map;
	trace_rebind = rebind;
	env_sim_config_init(&config);
	cr_assert_eq(env_sim_run(&config, trace_program, NULL, &result), 0, "%s", result.text);
	return result.trace_hash;
}

/* WT16: whatever there is to choose, with one context each run is the same, event for event. */
Test(wb_sync, one_context_does_the_same_under_every_policy)
{
	uint64_t hash = trace_hash(WB_MAP_ONE, false);

	for (enum wb_map map = WB_MAP_AUTO; map <= WB_MAP_INDEX; map++) {
		cr_assert_eq(trace_hash(map, false), hash);
		cr_assert_eq(trace_hash(map, true), hash);
	}
}

/* ---- users that count for themselves (N21, M118) -------------------------------------------- */

static struct flat flat;

static void open_small(unsigned int nr_contexts)
{
	struct flat_config config;

	flat_config_init(&config);
	config.cache.dirty_bytes = 400 * PAGE;
	config.cache.dirty_background_bytes = 200 * PAGE;
	config.nr_contexts = nr_contexts;
	config.map = WB_MAP_INO_MOD;
	flat_open(&flat, &config);
}

static void close_small(void)
{
	flat_close(&flat);
}

TestSuite(wb_users, .fini = close_small);

/* WT25: copies on their way to a server count as writeback of the file, wherever it moves. */
Test(wb_users, pages_outside_the_cache_count_for_the_context)
{
	struct flat_file *file;

	open_small(4);
	file = flat_create(&flat, 3);
	flat_dirty_pages(file, 0, 2, 1);
	inode_wb_stat_add(&file->inode, WB_STAT_WRITEBACK, 10);
	inode_wb_stat_add(&file->inode, WB_STAT_RECLAIMABLE, 5);
	cr_assert_eq(flat_wb_stats(&flat, 3).writeback, 10);
	cr_assert_eq(flat_wb_stats(&flat, 3).reclaimable, 7);
	cr_assert_eq(flat_stats(&flat).nr_writeback, 10);
	cr_assert_eq(bdi_set_nr_contexts(flat.bdi, 1), 0);
	cr_assert_eq(flat_wb_stats(&flat, 0).writeback, 10);
	cr_assert_eq(flat_wb_stats(&flat, 0).reclaimable, 7);
	wb_assert_settled(&flat);
	inode_wb_stat_add(&file->inode, WB_STAT_RECLAIMABLE, -5);
	cr_assert_eq(super_sync(&flat.sb), 0);
	/* Clean, and still not free to go. */
	cr_assert_eq(bdi_set_nr_contexts(flat.bdi, 3), 0);
	inode_wb_stat_add(&file->inode, WB_STAT_WRITTEN, 10);
	inode_wb_stat_add(&file->inode, WB_STAT_WRITEBACK, -10);
	cr_assert_eq(flat_wb_stats(&flat, 0).written, 12);
	wb_assert_balanced(&flat);
	page_cache_drop(flat.cache);
	cr_assert_eq(flat_stats(&flat).nr_dirty, 0);
	cr_assert_eq(flat_stats(&flat).nr_writeback, 0);
	cr_assert_eq(flat_stats(&flat).nr_cached, 0);
	flat_remove(file);
}

/* WT25, N21: "exceeded" is true when any context is, not only the first. */
Test(wb_users, dirty_is_exceeded_when_any_context_has_exceeded)
{
	for (uint64_t context = 0; context < 4; context++) {
		struct flat_file *files[4];

		if (context)
			flat_close(&flat);
		open_small(4);
		for (uint64_t i = 0; i < 4; i++) {
			files[i] = flat_create(&flat, i);
			flat_dirty_page(files[i], 0, 1);
		}
		cr_assert_not(bdi_dirty_exceeded(flat.bdi));
		flat_hold(&flat, BIO_WRITE);
		flat_dirty_pages(files[context], 1, 350, 1);
		cr_assert(bdi_dirty_exceeded(flat.bdi));
		flat_release(&flat);
		cr_assert_eq(super_sync(&flat.sb), 0);
		cr_assert_not(bdi_dirty_exceeded(flat.bdi));
		for (uint64_t i = 0; i < 4; i++)
			flat_remove(files[i]);
	}
}

/* W60: each kind of wait has its own place. */
Test(wb_users, waits_are_told_apart)
{
	struct flat_file *file;
	struct bdi_stats stats;

	open_small(2);
	file = flat_create(&flat, 1);
	/* Not bound yet: for nobody. */
	wb_account_lock_wait(&file->inode, 1);
	flat_dirty_page(file, 0, 1);
	wb_account_lock_wait(&file->inode, 10);
	wb_account_log_wait(&file->inode, 20);
	wb_account_wait(&file->inode, WB_WAIT_DEVICE, 30);
	cr_assert_eq(flat_wb_stats(&flat, 1).lock_wait_ns, 10);
	cr_assert_eq(flat_wb_stats(&flat, 1).log_wait_ns, 20);
	cr_assert_eq(flat_wb_stats(&flat, 1).device_wait_ns, 30);
	bdi_get_stats(flat.bdi, &stats);
	cr_assert_eq(stats.sum.lock_wait_ns, 10);
	cr_assert_eq(stats.sum.nr_b_dirty, 1);
	flat_remove(file);
}

/* ---- workers (W25) -------------------------------------------------------------------------- */

struct blocked {
	unsigned int workers;
	unsigned int nr_flushed; /* after 10 ms, of 50 */
};

/* The first inode's writer has to wait for 100 ms. */
static int wait_if_first(struct flat_file *file, struct folio *folio)
{
	(void)folio;
	if (file->inode.i_ino == 0)
		env_sleep_ns(100 * NS_PER_MS);
	return 0;
}

static void blocked_program(void *arg)
{
	struct blocked *blocked = arg;
	struct page_cache_config config;
	struct flat_file *files[51];
	struct bdi_tuning tuning;
	struct flat rig;

	many_config(&config);
	wb_rig_open(&rig, &config, "nvme", 1, WB_MAP_ONE, NULL);
	bdi_get_tuning(rig.bdi, &tuning);
	tuning.workers_per_ctx = blocked->workers;
	cr_assert_eq(bdi_set_tuning(rig.bdi, &tuning), 0);
	rig.on_write_folio = wait_if_first;
	for (unsigned int i = 0; i < 51; i++) {
		files[i] = flat_create(&rig, i);
		flat_dirty_page(files[i], 0, 1);
	}
	bdi_start_writeback(rig.bdi, INT64_MAX);
	env_sleep_ns(10 * NS_PER_MS);
	for (unsigned int i = 1; i < 51; i++)
		blocked->nr_flushed += files[i]->written[0];
	cr_assert_eq(super_sync(&rig.sb), 0);
	for (unsigned int i = 0; i < 51; i++) {
		cr_assert(files[i]->written[0]);
		flat_remove(files[i]);
	}
	flat_close(&rig);
}

/* W25; the essence of WT12, without an allocator. */
Test(wb_sync, a_second_worker_goes_on_while_the_first_waits)
{
	struct blocked one = {.workers = 1}, two = {.workers = 2};

	wb_simulate(4, 0, blocked_program, &one);
	cr_assert_eq(one.nr_flushed, 0);
	wb_simulate(4, 0, blocked_program, &two);
	cr_assert_eq(two.nr_flushed, 50);
}

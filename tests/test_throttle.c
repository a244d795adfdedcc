/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_throttle.c - writers at the dirty limit, in virtual time (K20..K23, W50..W57)
 *
 * Each test is a program of the simulator: a device that takes the time of a real one, a cache
 * with limits that are soon reached, and writers that go round their own files.  What a writer
 * can do without a device is a copy of 4 GB a second.
 */
#include <iomap/sim.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "folio/counters.h"
#include "folio/internal.h"
#include "tests/flat.h"

#define NS_PER_MS     1000000ull
#define NS_PER_SECOND 1000000000ull

#define WRITERS_MAX 16
#define CHUNK	    (64 * KiB)
#define CHUNK_NS    (CHUNK / 4) /* 4 GB/s */

/* ---- a simulated machine ------------------------------------------------------------ */

/* A flat file system on a device with a profile; several can share the first one's cache. */
static void rig_open(struct flat *rig, const struct flat *other,
		     const struct page_cache_config *config, const char *profile, unsigned int nr)
{
	static const struct super_operations ops = {0};
	struct block_device *null, *model;

	memset(rig, 0, sizeof(*rig));
	if (other)
		rig->cache = other->cache;
	else
		cr_assert_eq(page_cache_create(&rig->cache, config), 0);
	cr_assert_eq(blkdev_null_create(&null, FLAT_FILES * FLAT_FILE_BYTES, 0), 0);
	cr_assert_eq(blkdev_model_create(&model, null, blkdev_profile_find(profile)), 0);
	cr_assert_eq(blkdev_fault_create(&rig->dev, model), 0);
	rig->count = model;
	cr_assert_eq(bdi_create(&rig->bdi, rig->cache, rig->dev, nr, WB_MAP_INO_MOD), 0);
	cr_assert_eq(super_init(&rig->sb, rig->cache, rig->bdi, PAGE, &ops), 0);
}

static void rig_close(struct flat *rig, const struct flat *other)
{
	super_shutdown(&rig->sb);
	bdi_destroy(rig->bdi);
	blkdev_destroy(rig->dev);
	if (!other)
		page_cache_destroy(rig->cache);
}

static void simulate(void (*program)(void *arg), void *arg)
{
	static struct env_sim_result result;
	struct env_sim_config config;

	env_sim_config_init(&config);
	config.nr_cpus = 8;
	cr_assert_eq(env_sim_run(&config, program, arg, &result), 0, "%s", result.text);
}

/* ---- writers ------------------------------------------------------------------------ */

struct writer {
	struct flat_thread thread;
	struct flat_file *file;
	uint64_t start_ns, end_ns; /* when it writes */
	uint64_t bytes; /* [a] written since mark() */
	uint64_t longest_ns; /* of its writes since then */
	uint64_t total; /* written at all */
};

static const unsigned char memory[CHUNK];

static void write_round(void *arg)
{
	struct writer *writer = arg;
	uint64_t now = env_clock_ns();

	if (now < writer->start_ns)
		env_sleep_ns(writer->start_ns - now);
	while ((now = env_clock_ns()) < writer->end_ns) {
		uint64_t took;

		env_cpu(CHUNK_NS);
		cr_assert_eq(
			flat_write(writer->file, memory, CHUNK, writer->total % FLAT_FILE_BYTES),
			(ssize_t)CHUNK);
		took = env_clock_ns() - now;
		if (took > writer->longest_ns)
			writer->longest_ns = took;
		writer->bytes += CHUNK;
		writer->total += CHUNK;
	}
}

static void writers_start(struct writer *writers, unsigned int nr, struct flat *rig,
			  uint64_t first_ino, uint64_t start_ns, uint64_t end_ns)
{
	for (unsigned int i = 0; i < nr; i++) {
		writers[i] = (struct writer){.start_ns = start_ns, .end_ns = end_ns};
		writers[i].file = flat_create(rig, first_ino + i);
		flat_thread_start(&writers[i].thread, write_round, &writers[i]);
	}
}

static void writers_mark(struct writer *writers, unsigned int nr)
{
	for (unsigned int i = 0; i < nr; i++) {
		writers[i].bytes = 0;
		writers[i].longest_ns = 0;
	}
}

static void writers_join(struct writer *writers, unsigned int nr)
{
	for (unsigned int i = 0; i < nr; i++)
		flat_thread_join(&writers[i].thread);
}

static void writers_remove(struct writer *writers, unsigned int nr)
{
	for (unsigned int i = 0; i < nr; i++)
		flat_remove(writers[i].file);
}

/* ---- what was seen ------------------------------------------------------------------ */

struct figures {
	uint64_t rate; /* bytes a second of all writers */
	uint64_t slowest, fastest; /* bytes of one writer */
	uint64_t longest_ns; /* one write */
	uint64_t dirty_min, dirty_max; /* pages of dirty and writeback */
	double busy; /* part of the time the device's channels worked */
	uint64_t flushed; /* bytes a second that reached the device */
};

static uint64_t level(struct flat *rig)
{
	struct page_cache_stats stats = flat_stats(rig);

	return stats.nr_dirty + stats.nr_writeback;
}

static uint64_t written_pages(struct flat *rig)
{
	uint64_t pages = 0;

	for (unsigned int i = 0; i < bdi_nr_contexts(rig->bdi); i++)
		pages += flat_wb_stats(rig, i).written;
	return pages;
}

/* Watch for so long, from now on. */
static struct figures watch(struct flat *rig, struct writer *writers, unsigned int nr, uint64_t ns)
{
	struct figures seen = {.slowest = UINT64_MAX, .dirty_min = UINT64_MAX};
	uint64_t start = env_clock_ns();
	uint64_t pages = written_pages(rig);
	struct blkdev_model_stats device;
	uint64_t busy = 0;

	writers_mark(writers, nr);
	blkdev_model_reset(rig->count);
	while (env_clock_ns() < start + ns) {
		uint64_t now = level(rig);

		if (now < seen.dirty_min)
			seen.dirty_min = now;
		if (now > seen.dirty_max)
			seen.dirty_max = now;
		env_sleep_ns(NS_PER_MS);
	}
	ns = env_clock_ns() - start;
	blkdev_model_read(rig->count, &device);
	for (unsigned int i = 0; i < device.channels; i++)
		busy += device.busy_ns[i];
	seen.busy = (double)busy / (double)(ns * device.channels);
	seen.flushed = (written_pages(rig) - pages) * PAGE * NS_PER_SECOND / ns;
	for (unsigned int i = 0; i < nr; i++) {
		seen.rate += writers[i].bytes * NS_PER_SECOND / ns;
		if (writers[i].bytes < seen.slowest)
			seen.slowest = writers[i].bytes;
		if (writers[i].bytes > seen.fastest)
			seen.fastest = writers[i].bytes;
		if (writers[i].longest_ns > seen.longest_ns)
			seen.longest_ns = writers[i].longest_ns;
	}
	return seen;
}

/* Limits in pages of the tests' cache. */
#define THRESH	   (128 * MiB / PAGE)
#define BACKGROUND (64 * MiB / PAGE)
#define FREERUN	   (96 * MiB / PAGE)

static void cache_config(struct page_cache_config *config)
{
	page_cache_config_init(config);
	config->capacity = 512 * MiB;
	config->prefault = false;
	config->dirty_bytes = THRESH * PAGE;
	config->dirty_background_bytes = BACKGROUND * PAGE;
}

struct steady {
	unsigned int nr_writers, nr_contexts;
	const char *profile;
	uint64_t warm_ns, watch_ns;
	struct figures seen;
	void (*tune)(struct flat *rig);
};

static void steady_program(void *arg)
{
	struct steady *run = arg;
	struct writer writers[WRITERS_MAX];
	struct page_cache_config config;
	struct flat rig;

	cache_config(&config);
	rig_open(&rig, NULL, &config, run->profile, run->nr_contexts);
	if (run->tune)
		run->tune(&rig);
	writers_start(writers, run->nr_writers, &rig, 1, 0,
		      env_clock_ns() + run->warm_ns + run->watch_ns);
	env_sleep_ns(run->warm_ns);
	run->seen = watch(&rig, writers, run->nr_writers, run->watch_ns);
	writers_join(writers, run->nr_writers);
	writers_remove(writers, run->nr_writers);
	rig_close(&rig, NULL);
}

/* The device never waits for writers, and each writer gets what the device does for it. */
static void assert_paced(const struct steady *run)
{
	const struct figures *seen = &run->seen;

	cr_assert_geq(seen->busy, 0.98);
	cr_assert_geq(seen->rate, seen->flushed * 97 / 100);
	cr_assert_leq(seen->rate, seen->flushed * 103 / 100);
	cr_assert_geq(seen->dirty_min, FREERUN - run->nr_writers * CHUNK / PAGE);
	cr_assert_lt(seen->dirty_max, THRESH);
}

/* ---- writers of one device (K21, W55) ----------------------------------------------- */

Test(throttle, twelve_writers_go_smoothly_at_the_rate_of_the_device)
{
	struct steady run = {
		.nr_writers = 12,
		.nr_contexts = 1,
		.profile = "nvme",
		.warm_ns = 2000 * NS_PER_MS,
		.watch_ns = 300 * NS_PER_MS,
	};

	simulate(steady_program, &run);
	assert_paced(&run);
	cr_assert_geq(run.seen.slowest, run.seen.fastest * 8 / 10);
	cr_assert_leq(run.seen.longest_ns, 5 * NS_PER_MS);
}

/* The first estimate is a twentieth of the device: writers run into freerun again and again. */
Test(throttle, a_device_faster_than_was_thought_is_kept_busy_at_once)
{
	struct steady run = {
		.nr_writers = 12,
		.nr_contexts = 1,
		.profile = "nvme",
		.warm_ns = 100 * NS_PER_MS,
		.watch_ns = 500 * NS_PER_MS,
	};

	simulate(steady_program, &run);
	assert_paced(&run);
	cr_assert_geq(run.seen.slowest, run.seen.fastest / 3);
	cr_assert_leq(run.seen.longest_ns, 10 * NS_PER_MS);
}

/* 12 over 8: in four contexts two writers share what one has in the others (W55). */
Test(throttle, eight_contexts_keep_the_device_as_busy_as_one)
{
	struct steady run = {
		.nr_writers = 12,
		.nr_contexts = 8,
		.profile = "nvme-virtual",
		.warm_ns = 4500 * NS_PER_MS,
		.watch_ns = 500 * NS_PER_MS,
	};

	simulate(steady_program, &run);
	assert_paced(&run);
	cr_assert_geq(run.seen.slowest, run.seen.fastest * 4 / 10);
	cr_assert_leq(run.seen.longest_ns, 20 * NS_PER_MS);
}

/* The first estimate is too high for it until it has written for some seconds. */
Test(throttle, a_disk_is_kept_busy_and_no_writer_starves)
{
	struct steady run = {
		.nr_writers = 12,
		.nr_contexts = 1,
		.profile = "disk",
		.warm_ns = 8000 * NS_PER_MS,
		.watch_ns = 2000 * NS_PER_MS,
	};

	simulate(steady_program, &run);
	assert_paced(&run);
	cr_assert_geq(run.seen.slowest, run.seen.fastest * 9 / 10);
	cr_assert_leq(run.seen.longest_ns, 50 * NS_PER_MS);
}

static void share_as_posted(struct flat *rig)
{
	struct bdi_tuning tuning;

	bdi_get_tuning(rig->bdi, &tuning);
	tuning.throttle_share = WB_SHARE_POSTED;
	tuning.kick_all = false;
	cr_assert_eq(bdi_set_tuning(rig->bdi, &tuning), 0);
}

/* W56 */
Test(throttle, the_posted_shares_keep_the_device_busy_too)
{
	struct steady run = {
		.nr_writers = 16,
		.nr_contexts = 8,
		.profile = "nvme-virtual",
		.warm_ns = 4500 * NS_PER_MS,
		.watch_ns = 500 * NS_PER_MS,
		.tune = share_as_posted,
	};

	simulate(steady_program, &run);
	assert_paced(&run);
}

/* A folio is 256 pages here, and a look at the limits lets all of it through. */
static void small_limits(struct flat *rig)
{
	cr_assert_eq(page_cache_set_dirty_bytes(rig->cache, 4 * MiB, 2 * MiB), 0);
	rig->cache->dirty_limit = rig->cache->dirty_thresh;
}

static void large_program(void *arg)
{
	static const unsigned char large[1 * MiB];
	struct writer *writer = arg;

	while (env_clock_ns() < writer->end_ns) {
		env_cpu(sizeof(large) / 4);
		cr_assert_eq(flat_write(writer->file, large, sizeof(large),
					writer->total % FLAT_FILE_BYTES),
			     (ssize_t)sizeof(large));
		writer->bytes += sizeof(large);
		writer->total += sizeof(large);
	}
}

static void large_writes_program(void *arg)
{
	struct figures *seen = arg;
	struct writer writers[12];
	struct page_cache_config config;
	struct flat rig;

	cache_config(&config);
	rig_open(&rig, NULL, &config, "nvme-virtual", 1);
	small_limits(&rig);
	for (unsigned int i = 0; i < 12; i++) {
		writers[i] = (struct writer){.end_ns = env_clock_ns() + 2 * NS_PER_SECOND};
		writers[i].file = flat_create(&rig, i);
		flat_thread_start(&writers[i].thread, large_program, &writers[i]);
	}
	env_sleep_ns(NS_PER_SECOND);
	*seen = watch(&rig, writers, 12, NS_PER_SECOND);
	writers_join(writers, 12);
	writers_remove(writers, 12);
	rig_close(&rig, NULL);
}

/*
 * More writers than CPUs, each of which fills a quarter of the limit at once: whoever was woken
 * may go on, though others have run before him.
 */
Test(throttle, no_writer_starves_where_one_write_takes_much_of_the_limit)
{
	struct figures seen;

	simulate(large_writes_program, &seen);
	cr_assert_geq(seen.slowest, seen.fastest * 9 / 10);
	cr_assert_geq(seen.busy, 0.97);
}

/* ---- any schedule ------------------------------------------------------------------- */

static void write_some(void *arg)
{
	struct writer *writer = arg;

	for (uint64_t pos = 0; pos < 40 * PAGE; pos += PAGE)
		cr_assert_eq(flat_write(writer->file, memory, PAGE, pos), (ssize_t)PAGE);
}

static void any_program(void *arg)
{
	struct writer writers[4];
	struct page_cache_config config;
	struct flat rig;

	(void)arg;
	cache_config(&config);
	config.capacity = 2 * MiB;
	config.dirty_bytes = 32 * PAGE;
	config.dirty_background_bytes = 16 * PAGE;
	rig_open(&rig, NULL, &config, "nvme", 2);
	for (unsigned int i = 0; i < 4; i++) {
		writers[i].file = flat_create(&rig, i);
		flat_thread_start(&writers[i].thread, write_some, &writers[i]);
	}
	writers_join(writers, 4);
	cr_assert_gt(flat_stats(&rig).nr_throttled, 0);
	cr_assert_eq(super_sync(&rig.sb), 0);
	cr_assert_eq(level(&rig), 0);
	writers_remove(writers, 4);
	rig_close(&rig, NULL);
}

/* No wake-up is lost, no lock is held in a sleep but i_rwsem (L24). */
Test(throttle, throttling_is_right_under_any_schedule)
{
	static const char *const no_sleep[] = {"wb->list_lock", "mapping->lock",   "inode->i_lock",
					       "wb->work_lock", "cache->bdi_lock", NULL};
	static struct env_sim_result result;
	struct env_sim_config config;

	env_sim_config_init(&config);
	config.schedule = ENV_SIM_ADVERSARIAL;
	config.check_order = true;
	config.no_sleep = no_sleep;
	cr_assert_eq(env_sim_run_seeds(&config, 60, any_program, NULL, &result), 0, "%s",
		     result.text);
}

/* ---- below freerun, and the hard limit ---------------------------------------------- */

static void free_program(void *arg)
{
	struct flat *rig = arg;
	struct page_cache_config config;
	struct flat_file *file;

	cache_config(&config);
	config.writeback_interval_ns = 0;
	rig_open(rig, NULL, &config, "disk", 1);
	for (uint64_t ino = 1; ino <= 6; ino++) {
		file = flat_create(rig, ino);
		for (uint64_t pos = 0; pos < FLAT_FILE_BYTES; pos += CHUNK)
			cr_assert_eq(flat_write(file, memory, CHUNK, pos), (ssize_t)CHUNK);
		cr_assert_eq(flat_stats(rig).nr_throttled, 0);
		cr_assert_eq(flat_fsync(file), 0);
		flat_remove(file);
	}
	rig_close(rig, NULL);
}

/* M124: in its whole life, whatever the device. */
Test(throttle, a_writer_below_freerun_never_sleeps)
{
	struct flat rig;

	simulate(free_program, &rig);
}

static void full_program(void *arg)
{
	struct writer writers[WRITERS_MAX];
	struct page_cache_config config;
	struct flat rig;
	uint64_t most = 0;

	(void)arg;
	cache_config(&config);
	rig_open(&rig, NULL, &config, "nvme", 4);
	flat_hold(&rig, BIO_WRITE);
	writers_start(writers, WRITERS_MAX, &rig, 1, 0, env_clock_ns() + NS_PER_SECOND);
	for (unsigned int i = 0; i < 500; i++) {
		uint64_t now = level(&rig);

		if (now > most)
			most = now;
		env_sleep_ns(NS_PER_MS);
	}
	/* A folio of CHUNK is the least that is dirtied at a time. */
	cr_assert_leq(most, THRESH + WRITERS_MAX * CHUNK / PAGE);
	cr_assert_geq(most, THRESH * 98 / 100);
	flat_release(&rig);
	writers_join(writers, WRITERS_MAX);
	writers_remove(writers, WRITERS_MAX);
	rig_close(&rig, NULL);
}

/* M123 */
Test(throttle, the_hard_limit_holds_while_the_device_stands_still)
{
	simulate(full_program, NULL);
}

/* Files of 4 KiB, each new: none has a context when its writer is to be held back. */
static void write_small_files(void *arg)
{
	struct flat *rig = arg;

	for (uint64_t ino = 16; ino < FLAT_FILES; ino++) {
		struct flat_file *file = flat_create(rig, ino);

		cr_assert_eq(flat_write(file, memory, PAGE, 0), (ssize_t)PAGE);
		rig->context = (char *)rig->context + 1;
		flat_remove(file);
	}
}

static void small_files_program(void *arg)
{
	struct page_cache_config config;
	struct flat_file *files[8];
	struct flat_thread thread;
	struct flat rig;

	(void)arg;
	cache_config(&config);
	rig_open(&rig, NULL, &config, "nvme", 4);
	flat_hold(&rig, BIO_WRITE);
	for (uint64_t i = 0; i < 8; i++) {
		files[i] = flat_create(&rig, i);
		flat_dirty_pages(files[i], 0, THRESH / 8, 1);
	}
	flat_thread_start(&thread, write_small_files, &rig);
	env_sleep_ns(NS_PER_SECOND);
	cr_assert_leq((size_t)rig.context, 1);
	flat_release(&rig);
	flat_thread_join(&thread);
	for (uint64_t i = 0; i < 8; i++)
		flat_remove(files[i]);
	rig_close(&rig, NULL);
}

Test(throttle, writers_of_new_small_files_are_held_back_too)
{
	simulate(small_files_program, NULL);
}

/* ---- background writeback ----------------------------------------------------------- */

struct background {
	bool kick_all;
	unsigned int nr_flushed; /* contexts */
};

/* Eight contexts have dirty pages up to the limit; then a writer of the first goes on. */
static void background_program(void *arg)
{
	struct background *run = arg;
	struct page_cache_config config;
	struct flat_file *files[8];
	struct bdi_tuning tuning;
	struct flat rig;
	uint64_t pages = BACKGROUND / 8;

	cache_config(&config);
	config.writeback_interval_ns = 0;
	rig_open(&rig, NULL, &config, "nvme", 8);
	bdi_get_tuning(rig.bdi, &tuning);
	tuning.kick_all = run->kick_all;
	cr_assert_eq(bdi_set_tuning(rig.bdi, &tuning), 0);
	for (uint64_t i = 0; i < 8; i++) {
		files[i] = flat_create(&rig, 8 + i);
		for (uint64_t page = 0; page < pages; page += 8)
			flat_write(files[i], memory, 8 * PAGE, page * PAGE);
	}
	env_sleep_ns(NS_PER_SECOND);
	cr_assert_eq(level(&rig), BACKGROUND);
	cr_assert_eq(written_pages(&rig), 0);
	for (uint64_t page = pages; page < 2 * pages; page += 8) {
		flat_write(files[0], memory, 8 * PAGE, page * PAGE);
		env_sleep_ns(100000);
	}
	env_sleep_ns(200 * NS_PER_MS);
	/* It stops at its limit: a slice of each context is what it may take too much. */
	cr_assert_leq(flat_stats(&rig).nr_dirty, BACKGROUND);
	cr_assert_geq(flat_stats(&rig).nr_dirty, BACKGROUND - 8 * (8 * MiB / PAGE));
	for (unsigned int i = 0; i < 8; i++)
		run->nr_flushed += flat_wb_stats(&rig, i).written > 0;
	for (uint64_t i = 0; i < 8; i++)
		flat_remove(files[i]);
	rig_close(&rig, NULL);
}

/* M122, N17 */
Test(throttle, background_writeback_starts_above_its_limit_in_every_context)
{
	struct background run = {.kick_all = true};

	simulate(background_program, &run);
	cr_assert_eq(run.nr_flushed, 8);
}

/* The same as posted: what has no writer stays (N17). */
Test(throttle, a_writer_that_wakes_its_own_context_leaves_the_others_alone)
{
	struct background run = {.kick_all = false};

	simulate(background_program, &run);
	cr_assert_eq(run.nr_flushed, 1);
}

/* ---- several devices ---------------------------------------------------------------- */

struct pair {
	unsigned int nr_contexts; /* of the first device */
	unsigned int nr_first; /* writers of the first device */
	bool stall; /* the first device, when both have been at work for a while */
	struct figures second;
};

#define NR_SECOND 8

/* The second device's writers, while the first does something else. */
static void pair_program(void *arg)
{
	struct pair *run = arg;
	struct writer first[WRITERS_MAX], second[NR_SECOND];
	struct page_cache_config config;
	struct flat rig, other;
	uint64_t end;

	cache_config(&config);
	rig_open(&rig, NULL, &config, "nvme-virtual", run->nr_contexts);
	rig_open(&other, &rig, NULL, "sata-ssd", 1);
	end = env_clock_ns() + (run->stall ? 5 : 4) * NS_PER_SECOND;
	writers_start(first, run->nr_first, &rig, 1, 0, end);
	writers_start(second, NR_SECOND, &other, 1, 0, end);
	env_sleep_ns(3 * NS_PER_SECOND);
	if (run->stall) {
		flat_hold(&rig, BIO_WRITE);
		env_sleep_ns(NS_PER_SECOND);
	}
	run->second = watch(&other, second, NR_SECOND, NS_PER_SECOND);
	flat_release(&rig);
	writers_join(first, run->nr_first);
	writers_join(second, NR_SECOND);
	writers_remove(first, run->nr_first);
	writers_remove(second, NR_SECOND);
	rig_close(&other, &rig);
	rig_close(&rig, NULL);
}

/* M125 */
Test(throttle, a_stalled_device_does_not_slow_writers_of_another)
{
	struct pair run = {.nr_contexts = 1, .nr_first = 4, .stall = true};

	simulate(pair_program, &run);
	cr_assert_geq(run.second.busy, 0.95);
	cr_assert_geq(run.second.slowest, run.second.fastest * 7 / 10);
	cr_assert_leq(run.second.longest_ns, 50 * NS_PER_MS);
}

static uint64_t second_rate(unsigned int nr_contexts)
{
	struct pair run = {.nr_contexts = nr_contexts, .nr_first = 8};

	simulate(pair_program, &run);
	return run.second.rate;
}

/* N19 */
Test(throttle, the_number_of_contexts_is_nothing_to_another_device)
{
	uint64_t one = second_rate(1);
	uint64_t eight = second_rate(8);

	cr_assert_geq(eight, one * 95 / 100);
	cr_assert_leq(eight, one * 105 / 100);
}

/* ---- a context that becomes active -------------------------------------------------- */

struct activation {
	unsigned int nr_contexts;
	bool posted;
	struct figures seen;
};

/* Context 1 has worked for seconds and stops; half a second later context 3 begins. */
static void activation_program(void *arg)
{
	struct activation *run = arg;
	struct writer before[2], after[2];
	struct page_cache_config config;
	uint64_t start;
	struct flat rig;

	cache_config(&config);
	config.dirty_bytes = 16 * MiB;
	config.dirty_background_bytes = 8 * MiB;
	rig_open(&rig, NULL, &config, "nvme-virtual", run->nr_contexts);
	if (run->posted)
		share_as_posted(&rig);
	start = env_clock_ns() + 4500 * NS_PER_MS;
	for (unsigned int i = 0; i < 2; i++) {
		writers_start(&before[i], 1, &rig, 1 + 8 * i, 0, start - 500 * NS_PER_MS);
		writers_start(&after[i], 1, &rig, 3 + 8 * i, start, start + 1300 * NS_PER_MS);
	}
	writers_join(before, 2);
	env_sleep_ns(start + 900 * NS_PER_MS - env_clock_ns());
	run->seen = watch(&rig, after, 2, 200 * NS_PER_MS);
	writers_join(after, 2);
	writers_remove(before, 2);
	writers_remove(after, 2);
	rig_close(&rig, NULL);
}

static uint64_t activation_rate(unsigned int nr_contexts, bool posted)
{
	struct activation run = {.nr_contexts = nr_contexts, .posted = posted};

	simulate(activation_program, &run);
	return run.seen.rate;
}

/* N18, WT15 */
Test(throttle, a_context_that_becomes_active_is_soon_as_fast_as_one_alone)
{
	uint64_t alone = activation_rate(1, false);

	cr_assert_geq(activation_rate(8, false), alone * 80 / 100);
	/* Here the posted shares do no harm: what is free up to freerun is enough to start. */
	cr_assert_leq(activation_rate(8, true), alone * 105 / 100);
}

/* ---- shares (K22, W50..W52, W56) ---------------------------------------------------- */

/* Two devices with eight contexts and one, whose completions the test makes up. */
static struct flat eight, single;
static struct flat_file *files[9];

static void open_shares(void)
{
	struct page_cache_config config;

	cache_config(&config);
	config.writeback_interval_ns = 0;
	rig_open(&eight, NULL, &config, "nvme", 8);
	rig_open(&single, &eight, NULL, "nvme", 1);
	for (uint64_t i = 0; i < 9; i++) {
		files[i] = flat_create(i < 8 ? &eight : &single, i);
		flat_dirty_page(files[i], 0, 1);
	}
}

static void close_shares(void)
{
	for (unsigned int i = 0; i < 9; i++)
		flat_remove(files[i]);
	rig_close(&single, &eight);
	rig_close(&eight, NULL);
}

TestSuite(throttle_share, .init = open_shares, .fini = close_shares);

static void complete(struct flat *rig, unsigned int context, uint64_t pages)
{
	rig->bdi->slots[context]->nr_completions += pages;
	rig->cache->nr_completions += pages;
}

static uint64_t share_of(const struct flat *rig, unsigned int context)
{
	return wb_share(rig->bdi->slots[context], 8000, 8000);
}

static void tune(struct flat *rig, uint32_t min_ratio, uint32_t max_ratio, enum wb_share share)
{
	struct bdi_tuning tuning;

	bdi_get_tuning(rig->bdi, &tuning);
	tuning.min_ratio = min_ratio;
	tuning.max_ratio = max_ratio;
	tuning.throttle_share = share;
	cr_assert_eq(bdi_set_tuning(rig->bdi, &tuning), 0);
}

/* Before anything has been written there is nothing to share out. */
Test(throttle_share, without_completions_a_device_has_the_whole_limit)
{
	cr_assert_eq(share_of(&single, 0), 8000);
	cr_assert_eq(share_of(&eight, 0), 1000);
}

/* W51, W7: one context is the device. */
Test(throttle_share, a_device_has_its_part_of_all_completions)
{
	complete(&eight, 2, 300);
	complete(&eight, 5, 300);
	complete(&single, 0, 200);
	cr_assert_eq(share_of(&single, 0), 2000);
	cr_assert_eq(share_of(&eight, 2), 3000);
}

/* W52 */
Test(throttle_share, a_context_has_at_least_its_equal_part)
{
	complete(&eight, 2, 600);
	complete(&single, 0, 200);
	cr_assert_eq(share_of(&eight, 2), 6000);
	cr_assert_eq(share_of(&eight, 3), 6000 / 8);
}

/* The same where only four have something to do. */
Test(throttle_share, contexts_without_anything_dirty_have_no_part)
{
	cr_assert_eq(super_sync(&eight.sb), 0);
	for (unsigned int i = 0; i < 4; i++)
		flat_dirty_page(files[i], 0, 1);
	complete(&eight, 2, 3000 - 8);
	complete(&single, 0, 800);
	cr_assert_eq(share_of(&eight, 3), 8000 * 3000 / 3800 / 4);
}

/* W56 */
Test(throttle_share, as_posted_each_context_competes_alone)
{
	complete(&eight, 2, 600);
	complete(&single, 0, 200);
	tune(&eight, 0, 100, WB_SHARE_POSTED);
	cr_assert_eq(share_of(&eight, 2), 6000);
	cr_assert_eq(share_of(&eight, 3), 0);
	cr_assert_eq(wb_share(eight.bdi->slots[3], 8000, 0), 1000);
}

/* K22: so that it can start. */
Test(throttle_share, a_device_that_was_idle_has_an_eighth_of_what_is_left)
{
	complete(&eight, 0, 1000);
	cr_assert_eq(wb_share(single.bdi->slots[0], 8000, 8000), 0);
	cr_assert_eq(wb_share(single.bdi->slots[0], 8000, 4000), 500);
	cr_assert_eq(wb_share(single.bdi->slots[0], 8000, 0), 1000);
}

Test(throttle_share, a_device_has_no_less_and_no_more_than_its_ratios_say)
{
	complete(&eight, 0, 1000);
	tune(&single, 5, 100, WB_SHARE_BDI);
	cr_assert_eq(share_of(&single, 0), 400);
	tune(&eight, 0, 30, WB_SHARE_BDI);
	cr_assert_eq(share_of(&eight, 0), 2400);
}

/* K22 */
Test(throttle_share, completions_count_for_some_seconds)
{
	uint64_t aged_ns = eight.cache->aged_ns;

	complete(&eight, 0, 1000);
	share_age(eight.cache, aged_ns + 3 * NS_PER_SECOND - 1);
	cr_assert_eq(eight.cache->nr_completions, 1000);
	share_age(eight.cache, aged_ns + 3 * NS_PER_SECOND);
	cr_assert_eq(eight.cache->nr_completions, 500);
	cr_assert_eq(eight.bdi->slots[0]->nr_completions, 500);
	share_age(eight.cache, aged_ns + 9 * NS_PER_SECOND);
	cr_assert_eq(eight.cache->nr_completions, 125);
	share_age(eight.cache, aged_ns + 900 * NS_PER_SECOND);
	cr_assert_eq(eight.cache->nr_completions, 0);
}

/* ---- estimates (W53, W54) ----------------------------------------------------------- */

Test(throttle_share, what_is_added_by_growing_starts_with_its_part_of_the_sum)
{
	struct wb_ctx *wb = eight.bdi->slots[7];

	for (unsigned int i = 0; i < 7; i++)
		eight.bdi->slots[i]->avg_bandwidth = 1600;
	wb_bandwidth_start(wb, 8);
	cr_assert_eq(wb->avg_bandwidth, 7 * 1600 / 8);
	cr_assert_eq(wb->write_bandwidth, 7 * 1600 / 8);
	wb_bandwidth_start(wb, 0);
	cr_assert_eq(wb->avg_bandwidth, 100 * MiB / PAGE);
}

/* A window of writing; nothing is measured before it is 200 ms long. */
Test(throttle_share, a_window_moves_the_estimate_by_its_part_of_the_period)
{
	struct wb_ctx *wb = eight.bdi->slots[7];
	uint64_t start, old = 100 * MiB / PAGE;

	wb_bandwidth_begin(wb);
	start = wb->bw_stamp;
	wb->written += 51200;
	wb_bandwidth_update(wb, start + 200 * NS_PER_MS - 1);
	cr_assert_eq(wb->write_bandwidth, old);
	wb_bandwidth_update(wb, start + 512 * NS_PER_MS);
	cr_assert_eq(wb->write_bandwidth, (51200 * 1000 + old * (4096 - 512)) / 4096);
	cr_assert_eq(wb->avg_bandwidth, old);
	/* Now the smooth value follows: the newer two are both above it. */
	wb->written += 51200;
	old = wb->write_bandwidth;
	wb_bandwidth_update(wb, start + 1024 * NS_PER_MS);
	cr_assert_gt(wb->write_bandwidth, old);
	cr_assert_eq(wb->avg_bandwidth, 25600 + (old - 25600) / 8);
	wb_bandwidth_end(wb);
}

Test(throttle_share, after_a_gap_the_estimate_is_the_average_of_it)
{
	struct wb_ctx *wb = eight.bdi->slots[7];

	wb_bandwidth_begin(wb);
	wb->written += 5000;
	wb_bandwidth_update(wb, wb->bw_stamp + 5 * NS_PER_SECOND);
	cr_assert_eq(wb->write_bandwidth, 1000);
	cr_assert_eq(wb->avg_bandwidth, 1000);
	wb_bandwidth_end(wb);
}

static void idle_program(void *arg)
{
	struct flat_file *file;
	struct wb_ctx *wb;

	(void)arg;
	open_shares();
	wb = single.bdi->slots[0];
	file = files[8];
	for (unsigned int i = 0; i < 10; i++) {
		wb_bandwidth_begin(wb);
		env_sleep_ns(50 * NS_PER_MS);
		wb->written += 50;
		wb_bandwidth_end(wb);
		env_sleep_ns(NS_PER_SECOND);
	}
	/* While nothing is written nothing is measured. */
	wb_bandwidth_update(wb, env_clock_ns());
	cr_assert_eq(wb->write_bandwidth, 100 * MiB / PAGE);
	wb_bandwidth_begin(wb);
	wb_bandwidth_update(wb, env_clock_ns());
	cr_assert_eq(wb->write_bandwidth, (500 * 1000 + (100 * MiB / PAGE) * (4096 - 500)) / 4096);
	wb_bandwidth_end(wb);
	wb->written -= 500;
	cr_assert_eq(flat_fsync(file), 0);
	close_shares();
}

/* W53 */
Test(throttle, time_without_writing_does_not_lower_the_estimate)
{
	simulate(idle_program, NULL);
}

/* ---- limits that change (K18) ------------------------------------------------------- */

Test(throttle_share, a_new_limit_counts_at_once_if_it_is_higher)
{
	struct page_cache *cache = eight.cache;

	cr_assert_eq(cache->dirty_limit, THRESH);
	cr_assert_eq(page_cache_set_dirty_ratio(cache, 50, 20), 0);
	cr_assert_eq(cache->dirty_limit, 256 * MiB / PAGE);
	cr_assert_eq(cache->background_thresh, cache->buddy.nr_pages / 5);
	cr_assert_eq(page_cache_set_dirty_bytes(cache, 8 * MiB, 8 * MiB), 0);
	cr_assert_eq(cache->dirty_thresh, 2048);
	cr_assert_eq(cache->background_thresh, 1024);
	/* The hard one comes down later. */
	cr_assert_eq(cache->dirty_limit, 256 * MiB / PAGE);
	cr_assert_eq(page_cache_set_dirty_ratio(cache, 101, 0), -EINVAL);
	cr_assert_eq(page_cache_set_dirty_bytes(cache, 0, 1), -EINVAL);
	cr_assert_eq(page_cache_set_dirty_bytes(cache, 1, 0), -EINVAL);
}

static void lower_program(void *arg)
{
	struct writer writers[8];
	struct page_cache_config config;
	struct flat rig;
	uint64_t before;

	(void)arg;
	cache_config(&config);
	rig_open(&rig, NULL, &config, "sata-ssd", 1);
	writers_start(writers, 8, &rig, 1, 0, env_clock_ns() + 12 * NS_PER_SECOND);
	env_sleep_ns(NS_PER_SECOND);
	cr_assert_eq(page_cache_set_dirty_bytes(rig.cache, 16 * MiB, 8 * MiB), 0);
	env_sleep_ns(300 * NS_PER_MS);
	before = rig.cache->dirty_limit;
	cr_assert_lt(before, THRESH);
	cr_assert_geq(before, level(&rig));
	env_sleep_ns(10 * NS_PER_SECOND);
	cr_assert_lt(rig.cache->dirty_limit, before);
	cr_assert_leq(level(&rig), 12 * MiB / PAGE * 2);
	writers_join(writers, 8);
	writers_remove(writers, 8);
	rig_close(&rig, NULL);
}

Test(throttle, a_lower_limit_comes_step_by_step)
{
	simulate(lower_program, NULL);
}

/* ---- a device that has to keep its part (K22) --------------------------------------- */

static uint64_t strict_most; /* pages */

static void strict_program(void *arg)
{
	struct writer writers[4];
	struct page_cache_config config;
	struct bdi_tuning tuning;
	struct flat rig;

	(void)arg;
	cache_config(&config);
	rig_open(&rig, NULL, &config, "sata-ssd", 1);
	bdi_get_tuning(rig.bdi, &tuning);
	tuning.strict_limit = true;
	tuning.max_ratio = 25;
	cr_assert_eq(bdi_set_tuning(rig.bdi, &tuning), 0);
	writers_start(writers, 4, &rig, 1, 0, env_clock_ns() + 2 * NS_PER_SECOND);
	for (unsigned int i = 0; i < 1900; i++) {
		uint64_t now = level(&rig);

		strict_most = now > strict_most ? now : strict_most;
		env_sleep_ns(NS_PER_MS);
	}
	cr_assert_leq(strict_most, THRESH / 4 + 4 * CHUNK / PAGE + 128);
	writers_join(writers, 4);
	cr_assert_gt(written_pages(&rig), 2 * 330 * MiB / PAGE);
	writers_remove(writers, 4);
	rig_close(&rig, NULL);
}

Test(throttle, a_strict_device_keeps_its_part_far_below_freerun)
{
	simulate(strict_program, NULL);
}

/* ---- blocks in place of pages (W57) ------------------------------------------------- */

struct account {
	enum dirty_accounting accounting;
	uint64_t throttled; /* sleeps of a writer that dirties one page of each folio */
};

/* 1024 folios of 16 pages are half the limit if one page of each counts, else three times it. */
static void account_program(void *arg)
{
	struct account *run = arg;
	struct page_cache_config config;
	struct flat_file *many[8];
	struct page_cache *cache;
	struct flat rig;

	cache_config(&config);
	config.dirty_accounting = run->accounting;
	config.dirty_bytes = 2048 * PAGE;
	config.dirty_background_bytes = 1800 * PAGE;
	rig_open(&rig, NULL, &config, "disk", 1);
	cache = rig.cache;
	for (unsigned int i = 0; i < 8; i++) {
		many[i] = flat_create(&rig, i);
		for (uint64_t j = 0; j < 128; j++) {
			struct folio *folio;

			cr_assert_eq(wb_balance_dirty_pages(flat_mapping(many[i]), false), 0);
			folio = flat_new_folio(many[i], j * 16, 4);
			folio_count_dirtied(folio, PAGE);
			folio_mark_dirty(folio);
			folio_unlock_put(folio);
		}
	}
	run->throttled = flat_stats(&rig).nr_throttled;
	if (run->accounting == DIRTY_ACCOUNT_BLOCK) {
		cr_assert_eq(cache->nr_dirty, 1024 * 16);
		cr_assert_eq(cache->dirty_bytes, 1024 * PAGE);
	}
	cr_assert_eq(super_sync(&rig.sb), 0);
	cr_assert_eq(cache->dirty_bytes, 0);
	cr_assert_eq(cache->writeback_bytes, 0);
	for (unsigned int i = 0; i < 8; i++)
		flat_remove(many[i]);
	rig_close(&rig, NULL);
}

Test(throttle, counted_in_blocks_a_folio_is_what_is_dirty_of_it)
{
	struct account folio = {.accounting = DIRTY_ACCOUNT_FOLIO};
	struct account block = {.accounting = DIRTY_ACCOUNT_BLOCK};

	simulate(account_program, &folio);
	simulate(account_program, &block);
	cr_assert_gt(folio.throttled, 0);
	cr_assert_eq(block.throttled, 0);
}

/* M118 with pages outside the cache: whatever the order, nothing is left. */
Test(throttle_share, bytes_of_blocks_come_back_to_nothing)
{
	struct page_cache_config config;
	struct flat_file *file;
	struct folio *folio;
	struct flat rig;

	cache_config(&config);
	config.dirty_accounting = DIRTY_ACCOUNT_BLOCK;
	rig_open(&rig, NULL, &config, "nvme", 1);
	file = flat_create(&rig, 1);
	folio = flat_new_folio(file, 0, 2);
	folio_count_dirtied(folio, 1024);
	folio_mark_dirty(folio);
	cr_assert_eq(rig.cache->dirty_bytes, 1024);
	folio_count_dirtied(folio, 512);
	cr_assert_eq(rig.cache->dirty_bytes, 1536);
	cr_assert(folio_clear_dirty_for_io(folio));
	cr_assert_eq(rig.cache->dirty_bytes, 0);
	folio_start_writeback(folio);
	cr_assert_eq(rig.cache->writeback_bytes, 1536);
	inode_wb_stat_add(&file->inode, WB_STAT_WRITEBACK, 3);
	cr_assert_eq(rig.cache->writeback_bytes, 1536 + 3 * PAGE);
	folio_count_dirtied(folio, 2048);
	folio_mark_dirty(folio);
	folio_end_writeback(folio);
	inode_wb_stat_add(&file->inode, WB_STAT_WRITEBACK, -3);
	cr_assert_eq(rig.cache->writeback_bytes, 0);
	cr_assert_eq(rig.cache->dirty_bytes, 2048);
	folio_cancel_dirty(folio);
	cr_assert_eq(rig.cache->dirty_bytes, 0);
	/* Dirtied by one who does not count blocks: all of it. */
	folio_mark_dirty(folio);
	cr_assert_eq(rig.cache->dirty_bytes, 4 * PAGE);
	folio_cancel_dirty(folio);
	folio_unlock_put(folio);
	flat_remove(file);
	rig_close(&rig, NULL);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_wb_storm.c - the number of contexts changes at random under everything else (WT6, WT11)
 *
 * Owners write, read, truncate, sync and replace files of their own and know each byte of them.
 * Beside them run syncs, best-effort flushes and the resizer.
 */
#include <iomap/backing_dev.h>

#include "tests/test_wb_rig.h"

#define FILE_MAX (64 * KiB)
#define FILES	 4 /* of one owner */
#define OWNERS	 4

struct known {
	struct flat_file *file;
	uint64_t ino;
	uint64_t size;
	unsigned char bytes[FILE_MAX];
};

struct storm;

struct owner {
	struct storm *storm;
	struct flat_thread thread;
	struct env_rng rng;
	struct known known[FILES];
	unsigned char memory[FILE_MAX];
};

struct storm {
	uint64_t seed;
	unsigned int nr_ops; /* of each owner, then it ends; 0: until end_ns */
	uint64_t end_ns;
	uint64_t resize_min_ns, resize_max_ns; /* between two resizes */
	uint64_t pause_ns; /* of an owner between two operations */
	unsigned int workers; /* of each context */
	bool sync_is_exact; /* nobody writes while the check after a sync looks */
	struct flat rig;
	struct owner owners[OWNERS];
	bool stop; /* [a] */
	uint32_t nr_resizes;
};

/* ---- what owners do ------------------------------------------------------------------ */

static void do_write(struct owner *owner, struct known *known)
{
	uint64_t pos = env_rng_below(&owner->rng, FILE_MAX);
	uint64_t len = 1 + env_rng_below(&owner->rng, FILE_MAX - pos);

	memset(known->bytes + pos, (int)(1 + env_rng_below(&owner->rng, 255)), len);
	cr_assert_eq(flat_write(known->file, known->bytes + pos, len, pos), (ssize_t)len);
	if (pos + len > known->size)
		known->size = pos + len;
}

static void check_bytes(struct owner *owner, struct known *known)
{
	ssize_t got = flat_read(known->file, owner->memory, FILE_MAX, 0);

	cr_assert_eq(got, (ssize_t)known->size);
	cr_assert_arr_eq(owner->memory, known->bytes, known->size);
}

static void do_truncate(struct owner *owner, struct known *known)
{
	uint64_t size = env_rng_below(&owner->rng, FILE_MAX);

	flat_truncate(known->file, size);
	memset(known->bytes + size, 0, FILE_MAX - size);
	known->size = size;
}

static void do_replace(struct owner *owner, struct known *known)
{
	flat_remove(known->file);
	known->file = flat_create(&owner->storm->rig, known->ino);
	memset(known->bytes, 0, FILE_MAX);
	known->size = 0;
}

/* What it knows is on the device: an fsync, or a sync, has returned.  Holes are zero. */
static void check_device(struct owner *owner, struct known *known)
{
	for (uint64_t pos = 0; pos < known->size; pos += PAGE) {
		uint64_t len = known->size - pos < PAGE ? known->size - pos : PAGE;

		if (__atomic_load_n(&known->file->written[pos / PAGE], __ATOMIC_ACQUIRE))
			flat_device_read(known->file, owner->memory, PAGE, pos);
		else
			memset(owner->memory, 0, PAGE);
		cr_assert_arr_eq(owner->memory, known->bytes + pos, len);
	}
}

static void do_one(struct owner *owner)
{
	struct known *known = &owner->known[env_rng_below(&owner->rng, FILES)];

	switch (env_rng_below(&owner->rng, 16)) {
	case 0:
		cr_assert_eq(flat_fsync(known->file), 0);
		check_device(owner, known);
		break;
	case 1:
		do_truncate(owner, known);
		break;
	case 2:
		do_replace(owner, known);
		break;
	case 3:
		/* M127: nobody else writes to this file, so what is known must be there. */
		cr_assert_eq(super_sync(&owner->storm->rig.sb), 0);
		for (unsigned int i = 0; i < FILES; i++)
			check_device(owner, &owner->known[i]);
		break;
	case 4:
		filemap_dontneed(flat_mapping(known->file), 0, 0);
		break;
	case 5:
	case 6:
		check_bytes(owner, known);
		break;
	case 7:
		inode_mark_dirty(&known->file->inode, I_DIRTY_SYNC);
		break;
	case 8:
		inode_mark_dirty(&known->file->inode, I_DIRTY_TIME);
		break;
	default:
		do_write(owner, known);
		break;
	}
}

static void own(void *arg)
{
	struct owner *owner = arg;
	const struct storm *storm = owner->storm;

	for (unsigned int op = 0;
	     storm->nr_ops ? op < storm->nr_ops : env_clock_ns() < storm->end_ns; op++) {
		do_one(owner);
		if (storm->pause_ns)
			env_sleep_ns(env_rng_below(&owner->rng, 2 * storm->pause_ns));
	}
}

/* ---- beside them --------------------------------------------------------------------- */

static bool is_over(const struct storm *storm)
{
	return __atomic_load_n(&storm->stop, __ATOMIC_ACQUIRE);
}

static void flush(void *arg)
{
	struct storm *storm = arg;
	struct env_rng rng;

	env_rng_seed(&rng, storm->seed + 1000);
	while (!is_over(storm)) {
		if (env_rng_below(&rng, 2))
			bdi_start_writeback(storm->rig.bdi, 1 + (int64_t)env_rng_below(&rng, 64));
		else
			bdi_writeback(storm->rig.bdi, INT64_MAX);
		env_sleep_ns(1 + env_rng_below(&rng, storm->resize_max_ns));
	}
}

static void resize(void *arg)
{
	struct storm *storm = arg;
	struct env_rng rng;

	env_rng_seed(&rng, storm->seed + 2000);
	while (!is_over(storm)) {
		unsigned int nr = 1 + (unsigned int)env_rng_below(&rng, 16);

		cr_assert_eq(bdi_set_nr_contexts(storm->rig.bdi, nr), 0);
		cr_assert_eq(bdi_nr_contexts(storm->rig.bdi), nr);
		storm->nr_resizes++;
		env_sleep_ns(storm->resize_min_ns +
			     env_rng_below(&rng, storm->resize_max_ns - storm->resize_min_ns + 1));
	}
}

/* N9: whoever walks the contexts sees whole ones. */
static void walk(void *arg)
{
	struct storm *storm = arg;
	static char text[65536];

	while (!is_over(storm)) {
		struct bdi_stats stats;

		for (unsigned int i = 0; i < 20; i++) {
			struct wb_stats one;

			if (wb_get_stats(storm->rig.bdi, i, &one) != WB_CONTEXT_NONE)
				cr_assert_gt(one.avg_bandwidth, 0);
		}
		bdi_dirty_exceeded(storm->rig.bdi);
		bdi_get_stats(storm->rig.bdi, &stats);
		cr_assert_geq(stats.nr_slots, stats.nr_live);
		cr_assert_gt(bdi_show(storm->rig.bdi, text, sizeof(text)), 0);
		env_sleep_ns(storm->resize_max_ns / 2 + 1);
	}
}

/* ---- the whole ----------------------------------------------------------------------- */

/* M126: who writes for a context has the inode to itself. */
static void check_writer(struct flat_file *file, struct writeback_control *wbc)
{
	if (wbc->for_sync || wbc->for_background)
		cr_assert(__atomic_load_n(&file->inode.i_state, __ATOMIC_ACQUIRE) & I_SYNC);
}

static void open_storm(struct storm *storm, const char *profile)
{
	struct page_cache_config config;
	struct bdi_tuning tuning;

	page_cache_config_init(&config);
	config.capacity = 2 * MiB;
	config.prefault = false;
	config.dirty_bytes = 400 * KiB;
	config.dirty_background_bytes = 200 * KiB;
	config.writeback_interval_ns = 5 * NS_PER_MS;
	config.dirty_expire_ns = 10 * NS_PER_MS;
	wb_rig_open(&storm->rig, &config, profile, 4, WB_MAP_HASH, NULL);
	bdi_get_tuning(storm->rig.bdi, &tuning);
	tuning.workers_per_ctx = storm->workers ? storm->workers : 1;
	cr_assert_eq(bdi_set_tuning(storm->rig.bdi, &tuning), 0);
	storm->rig.on_writepages = check_writer;
	for (unsigned int i = 0; i < OWNERS; i++) {
		struct owner *owner = &storm->owners[i];

		owner->storm = storm;
		env_rng_seed(&owner->rng, storm->seed * OWNERS + i);
		for (unsigned int j = 0; j < FILES; j++) {
			owner->known[j].ino = i * FILES + j;
			owner->known[j].file = flat_create(&storm->rig, i * FILES + j);
		}
	}
}

/* Everything is as the owners know it, in the cache and on the device, and nothing is left. */
static void close_storm(struct storm *storm)
{
	cr_assert_eq(super_sync(&storm->rig.sb), 0);
	wb_assert_settled(&storm->rig);
	wb_assert_balanced(&storm->rig);
	cr_assert_eq(flat_stats(&storm->rig).nr_dirty, 0);
	page_cache_drop(storm->rig.cache);
	for (unsigned int i = 0; i < OWNERS; i++)
		for (unsigned int j = 0; j < FILES; j++) {
			check_bytes(&storm->owners[i], &storm->owners[i].known[j]);
			flat_remove(storm->owners[i].known[j].file);
		}
	for (unsigned int i = 0; i < 16; i++) {
		struct wb_stats stats = flat_wb_stats(&storm->rig, i);

		cr_assert_eq(stats.nr_dirty_inodes, 0);
		cr_assert_eq(stats.reclaimable, 0);
		cr_assert_eq(stats.writeback, 0);
	}
	flat_close(&storm->rig);
}

static void rage(struct storm *storm)
{
	struct flat_thread flusher, resizer, walker;

	flat_thread_start(&resizer, resize, storm);
	flat_thread_start(&flusher, flush, storm);
	flat_thread_start(&walker, walk, storm);
	for (unsigned int i = 0; i < OWNERS; i++)
		flat_thread_start(&storm->owners[i].thread, own, &storm->owners[i]);
	for (unsigned int i = 0; i < OWNERS; i++)
		flat_thread_join(&storm->owners[i].thread);
	__atomic_store_n(&storm->stop, true, __ATOMIC_RELEASE);
	flat_thread_join(&flusher);
	flat_thread_join(&walker);
	flat_thread_join(&resizer);
}

static void virtual_storm(void *arg)
{
	struct storm *storm = arg;

	open_storm(storm, "nvme");
	if (!storm->nr_ops)
		storm->end_ns = env_clock_ns() + 60 * NS_PER_SECOND;
	rage(storm);
	close_storm(storm);
}

static struct storm *new_storm(uint64_t seed)
{
	static struct storm storm;

	memset(&storm, 0, sizeof(storm));
	storm.seed = seed;
	return &storm;
}

/* WT6 as written: 60 s of virtual time, resized each 10 .. 200 ms; M117, M119, N9..N14. */
static void sixty_seconds(uint64_t seed, unsigned int workers)
{
	struct storm *storm = new_storm(seed);

	storm->resize_min_ns = 10 * NS_PER_MS;
	storm->resize_max_ns = 200 * NS_PER_MS;
	storm->pause_ns = 20 * NS_PER_MS;
	storm->workers = workers;
	wb_simulate(8, 0, virtual_storm, storm);
	cr_assert_gt(storm->nr_resizes, 300);
}

Test(wb_storm, sixty_seconds_seed_1)
{
	sixty_seconds(1, 1);
}

Test(wb_storm, sixty_seconds_seed_2)
{
	sixty_seconds(2, 1);
}

Test(wb_storm, sixty_seconds_with_several_workers)
{
	sixty_seconds(3, 3);
}

/* The checkers of memory and races slow it down, and look for something else. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SEEDS 20
#else
#define SEEDS 250
#endif

/* WT6 where the seed chooses who goes on: few operations, many interleavings. */
static void adversary(uint64_t first, uint64_t nr, unsigned int workers)
{
	for (uint64_t seed = first; seed < first + nr; seed++) {
		struct storm *storm = new_storm(seed);

		storm->nr_ops = 12;
		storm->resize_min_ns = 1;
		storm->resize_max_ns = NS_PER_MS;
		storm->workers = workers;
		wb_simulate(4, seed, virtual_storm, storm);
	}
}

Test(wb_storm, adversary)
{
	adversary(1, SEEDS, 1);
}

Test(wb_storm, adversary_with_several_workers)
{
	adversary(1001, SEEDS, 2);
}

/* WT6 with real threads, for the race checkers. */
static void on_host(uint64_t seed, unsigned int workers)
{
	struct storm *storm = new_storm(seed);

	storm->resize_max_ns = 2 * NS_PER_MS;
	storm->workers = workers;
	open_storm(storm, NULL);
	storm->end_ns = env_clock_ns() + 2 * NS_PER_SECOND;
	rage(storm);
	close_storm(storm);
	cr_assert_gt(storm->nr_resizes, 20);
}

Test(wb_storm, on_the_host)
{
	on_host(4, 1);
}

Test(wb_storm, on_the_host_with_several_workers)
{
	on_host(5, 3);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_wb_move.c - inodes that change their context: when, in which order, at what price (W16..
 * W19, W30..W37)
 */
#include <sys/param.h>

#include <iomap/backing_dev.h>

#include "tests/test_wb_many.h"

static struct flat flat;

static void open_flat(unsigned int nr, enum wb_map map, const struct super_operations *ops)
{
	struct flat_config config;

	flat_config_init(&config);
	config.cache.dirty_bytes = 8 * MiB;
	config.cache.dirty_background_bytes = 6 * MiB;
	config.nr_contexts = nr;
	config.map = map;
	if (ops)
		config.super_ops = ops;
	flat_open(&flat, &config);
}

static void close_flat(void)
{
	flat_close(&flat);
}

TestSuite(wb_move, .fini = close_flat);

/* ---- retirement (W33) ----------------------------------------------------------------- */

/* M129, N13: dirty and clean pages stay, the counts go along. */
Test(wb_move, a_shrink_moves_dirty_inodes_and_drops_nothing)
{
	struct flat_file *files[16];

	open_flat(8, WB_MAP_INO_MOD, NULL);
	for (unsigned int i = 0; i < 16; i++) {
		files[i] = flat_create(&flat, i);
		flat_dirty_pages(files[i], 0, 4, 1);
	}
	for (unsigned int i = 0; i < 4; i++)
		cr_assert_eq(flat_fsync(files[i]), 0);
	cr_assert_eq(bdi_set_nr_contexts(flat.bdi, 3), 0);
	wb_assert_settled(&flat);
	wb_assert_balanced(&flat);
	cr_assert_eq(flat_stats(&flat).nr_dirty, 12 * 4);
	for (unsigned int i = 0; i < 16; i++) {
		cr_assert_lt(wb_context_of(&files[i]->inode), 3);
		for (unsigned int page = 0; page < 4; page++)
			cr_assert(flat_is_cached(files[i], page));
		/* Nothing was written for it (W34). */
		cr_assert_eq(files[i]->nr_writepages, i < 4);
	}
	cr_assert_eq(super_sync(&flat.sb), 0);
	for (unsigned int i = 0; i < 16; i++) {
		cr_assert(files[i]->written[3]);
		flat_remove(files[i]);
	}
}

/* W30.4, M120, M121: who is moved is not made younger, and the order is by age. */
Test(wb_move, moved_inodes_keep_their_time_and_the_order)
{
	struct page_cache_config config;
	struct inode *inodes, *inode;
	static uint64_t when[500];
	uint64_t last = 0;
	struct flat rig;

	open_flat(1, WB_MAP_AUTO, NULL);
	many_config(&config);
	wb_rig_open(&rig, &config, NULL, 8, WB_MAP_HASH, NULL);
	inodes = many_create(&rig, 0, 500);
	many_dirty(inodes, 500);
	for (unsigned int i = 0; i < 500; i++)
		when[i] = inodes[i].dirtied_when;
	cr_assert_eq(bdi_set_nr_contexts(rig.bdi, 1), 0);
	for (unsigned int i = 0; i < 500; i++)
		cr_assert_eq(inodes[i].dirtied_when, when[i]);
	list_for_each_entry(inode, &rig.bdi->slots[0]->lists[WB_B_DIRTY], struct inode, i_io_list) {
		cr_assert_geq(inode->dirtied_when, last);
		last = inode->dirtied_when;
	}
	cr_assert_eq(flat_wb_stats(&rig, 0).nr_b_dirty, 500);
	many_remove(inodes, 500);
	flat_close(&rig);
}

struct fsync_run {
	struct flat_thread thread;
	struct flat_file *file;
};

static void fsync_thread(void *arg)
{
	struct fsync_run *run = arg;

	cr_assert_eq(flat_fsync(run->file), 0);
}

static void sync_thread(void *arg)
{
	cr_assert_eq(super_sync(arg), 0);
}

/* Some dirty, some under writeback, some both, some waited for by a sync. */
static void dirty_in_all_ways(struct flat_file *files[16])
{
	for (unsigned int i = 0; i < 16; i++) {
		files[i] = flat_create(&flat, i);
		flat_dirty_pages(files[i], 0, 4, 1);
		if (i % 4 != 0)
			filemap_fdatawrite_range(flat_mapping(files[i]), 0, UINT64_MAX,
						 WB_SYNC_NONE);
		if (i % 4 == 2)
			flat_dirty_pages(files[i], 4, 2, 2);
	}
}

/* WT7, N30, B65: with all I/O held the resize returns, and so do writers. */
Test(wb_move, a_resize_does_not_wait_for_data)
{
	struct flat_file *files[16];
	struct fsync_run run;
	struct flat_thread sync;

	open_flat(8, WB_MAP_INO_MOD, NULL);
	flat_hold(&flat, BIO_WRITE);
	dirty_in_all_ways(files);
	cr_assert_eq(bdi_set_nr_contexts(flat.bdi, 1), 0);
	wb_assert_settled(&flat);
	wb_assert_balanced(&flat);
	cr_assert_eq(flat_wb_stats(&flat, 0).writeback, 12 * 4);
	cr_assert_eq(bdi_set_nr_contexts(flat.bdi, 6), 0);
	for (unsigned int i = 0; i < 16; i++)
		flat_dirty_page(files[i], 10, 3);
	cr_assert_eq(bdi_set_nr_contexts(flat.bdi, 2), 0);
	wb_assert_balanced(&flat);
	run.file = files[5];
	flat_thread_start(&run.thread, fsync_thread, &run);
	flat_thread_start(&sync, sync_thread, &flat.sb);
	env_sleep_ns(10 * NS_PER_MS);
	flat_release(&flat);
	flat_thread_join(&run.thread);
	flat_thread_join(&sync);
	wb_assert_balanced(&flat);
	cr_assert_eq(flat_stats(&flat).nr_writeback, 0);
	for (unsigned int i = 0; i < 16; i++)
		flat_remove(files[i]);
}

/* What a sync waits for has left the list of its kind, and is found all the same (K15). */
Test(wb_move, inodes_that_a_sync_waits_for_are_moved_too)
{
	struct flat_file *files[8];
	struct flat_thread sync;

	open_flat(8, WB_MAP_INO_MOD, NULL);
	flat_hold(&flat, BIO_WRITE);
	for (unsigned int i = 0; i < 8; i++) {
		files[i] = flat_create(&flat, i);
		flat_dirty_pages(files[i], 0, 4, 1);
	}
	flat_thread_start(&sync, sync_thread, &flat.sb);
	/* Its works are done: it waits for the inodes. */
	for (unsigned int i = 0; i < 8; i++)
		flat_eventually(flat_wb_stats(&flat, i).works == 1);
	cr_assert_eq(bdi_set_nr_contexts(flat.bdi, 1), 0);
	cr_assert_not(flat_thread_is_done(&sync));
	cr_assert_eq(flat_wb_stats(&flat, 0).writeback, 8 * 4);
	flat_release(&flat);
	flat_thread_join(&sync);
	for (unsigned int i = 0; i < 8; i++)
		flat_remove(files[i]);
}

static void remove_file(void *arg)
{
	flat_remove(arg);
}

/* An inode that is going away and waits for its I/O holds up no resize. */
Test(wb_move, a_freeing_inode_under_writeback_does_not_hold_up_a_resize)
{
	struct flat_thread thread;
	struct flat_file *file;

	open_flat(4, WB_MAP_INO_MOD, NULL);
	file = flat_create(&flat, 3);
	flat_dirty_page(file, 0, 1);
	flat_hold(&flat, BIO_WRITE);
	filemap_fdatawrite_range(flat_mapping(file), 0, UINT64_MAX, WB_SYNC_NONE);
	flat_thread_start(&thread, remove_file, file);
	flat_eventually(__atomic_load_n(&file->inode.i_state, __ATOMIC_ACQUIRE) & I_FREEING);
	cr_assert_eq(bdi_set_nr_contexts(flat.bdi, 1), 0);
	cr_assert_eq(flat_wb_stats(&flat, 0).writeback, 1);
	flat_release(&flat);
	flat_thread_join(&thread);
	wb_assert_balanced(&flat);
}

/* ---- first dirtying (W16) -------------------------------------------------------------- */

/* A clean inode's binding is a hint: it is not moved by a resize but bound anew. */
Test(wb_move, a_clean_inode_is_bound_anew_when_it_becomes_dirty)
{
	struct flat_file *file;

	open_flat(4, WB_MAP_INO_MOD, NULL);
	file = flat_create(&flat, 3);
	flat_dirty_page(file, 0, 1);
	cr_assert_eq(super_sync(&flat.sb), 0);
	cr_assert_eq(bdi_set_nr_contexts(flat.bdi, 2), 0);
	cr_assert_eq(wb_context_of(&file->inode), 3);
	flat_dirty_page(file, 1, 1);
	cr_assert_eq(wb_context_of(&file->inode), 1);
	flat_remove(file);
}

/* ---- after a slice (W17, W32) ----------------------------------------------------------- */

static uint32_t nr_redirty; /* [a] */

/* Each pass finds the inode dirty again when it ends. */
static void redirty(struct flat_file *file, struct writeback_control *wbc)
{
	(void)wbc;
	if (__atomic_fetch_add(&nr_redirty, 1, __ATOMIC_RELAXED) < 100)
		flat_dirty_page(file, 2000 + __atomic_load_n(&nr_redirty, __ATOMIC_RELAXED), 1);
}

static int dirty_behind(struct flat_file *file, struct folio *folio)
{
	if (folio->index == 0)
		flat_dirty_page(file, 1000, 1);
	return 0;
}

static int context_after_slice(bool rebind)
{
	struct bdi_tuning tuning;
	struct flat_file *file;
	int context;

	open_flat(1, WB_MAP_INO_MOD, NULL);
	bdi_get_tuning(flat.bdi, &tuning);
	tuning.rebind_on_refile = rebind;
	cr_assert_eq(bdi_set_tuning(flat.bdi, &tuning), 0);
	file = flat_create(&flat, 3);
	flat_dirty_page(file, 0, 1);
	cr_assert_eq(bdi_set_nr_contexts(flat.bdi, 4), 0);
	/* Growing moves nothing by itself. */
	cr_assert_eq(wb_context_of(&file->inode), 0);
	flat.on_writepages = redirty;
	flat.on_write_folio = dirty_behind;
	bdi_writeback(flat.bdi, INT64_MAX);
	context = wb_context_of(&file->inode);
	wb_assert_balanced(&flat);
	flat.on_writepages = NULL;
	flat.on_write_folio = NULL;
	cr_assert_eq(super_sync(&flat.sb), 0);
	flat_remove(file);
	return context;
}

Test(wb_move, a_dirty_inode_goes_where_it_belongs_after_its_slice)
{
	cr_assert_eq(context_after_slice(true), 3);
	cr_assert_eq(flat_wb_stats(&flat, 3).moves_in, 1);
	cr_assert_eq(flat_wb_stats(&flat, 0).moves_out, 1);
}

Test(wb_move, or_stays_if_told_so)
{
	cr_assert_eq(context_after_slice(false), 0);
}

/* ---- completions (W26) ------------------------------------------------------------------ */

static struct env_completion first_runs, first_may_end;
static uint32_t nr_run; /* [a] */

static void stop_first(struct wb_completion *work)
{
	(void)work;
	if (__atomic_fetch_add(&nr_run, 1, __ATOMIC_ACQ_REL) == 0) {
		env_complete(&first_runs);
		env_completion_wait(&first_may_end);
	}
}

Test(wb_move, completions_of_a_retired_context_are_run)
{
	struct wb_completion works[3] = {
		{.fn = stop_first}, {.fn = stop_first}, {.fn = stop_first}};
	struct flat_file *file;

	open_flat(4, WB_MAP_INO_MOD, NULL);
	env_completion_init(&first_runs);
	env_completion_init(&first_may_end);
	file = flat_create(&flat, 3);
	flat_dirty_page(file, 0, 1);
	wb_queue_completion(&file->inode, &works[0]);
	env_completion_wait(&first_runs);
	wb_queue_completion(&file->inode, &works[1]);
	cr_assert_eq(flat_wb_stats(&flat, 3).completion_queue, 2);
	cr_assert_eq(bdi_set_nr_contexts(flat.bdi, 1), 0);
	/* The queue follows the binding. */
	wb_queue_completion(&file->inode, &works[2]);
	flat_eventually(flat_wb_stats(&flat, 0).completions == 1);
	env_complete(&first_may_end);
	flat_eventually(flat_wb_stats(&flat, 3).completions == 2);
	flat_eventually(flat_wb_stats(&flat, 3).completion_queue == 0);
	flat_remove(file);
}

/* ---- the price (W37, B66) ---------------------------------------------------------------- */

/* Few inodes would still be in the CPU's caches, and many not. */
static void cool_caches(void)
{
	static unsigned char other[64 * MiB];

	for (size_t i = 0; i < sizeof(other); i += 64)
		__atomic_fetch_add(&other[i], 1, __ATOMIC_RELAXED);
}

static uint64_t shrink_ns(unsigned int nr_inodes)
{
	struct page_cache_config config;
	struct inode *inodes;
	uint64_t start, ns;
	struct flat rig;

	many_config(&config);
	wb_rig_open(&rig, &config, NULL, 8, WB_MAP_HASH, NULL);
	inodes = many_create(&rig, 0, nr_inodes);
	many_dirty(inodes, nr_inodes);
	cool_caches();
	start = env_clock_ns();
	cr_assert_eq(bdi_set_nr_contexts(rig.bdi, 1), 0);
	ns = env_clock_ns() - start;
	cr_assert_eq(flat_wb_stats(&rig, 0).nr_dirty_inodes, nr_inodes);
	many_remove(inodes, nr_inodes);
	flat_close(&rig);
	return ns;
}

/* WT9: the best of several, as other programs take the CPU away from the longer one more often. */
Test(wb_move, moving_is_linear_in_dirty_inodes)
{
	uint64_t thousand = UINT64_MAX, ten_thousand = UINT64_MAX;

	open_flat(1, WB_MAP_AUTO, NULL);
	for (unsigned int round = 0; round < 40; round++) {
		uint64_t few = shrink_ns(1000), many = shrink_ns(10000);

		thousand = few < thousand ? few : thousand;
		ten_thousand = many < ten_thousand ? many : ten_thousand;
		if (round >= 3 && ten_thousand <= 12 * thousand)
			break;
	}
	cr_assert_leq(ten_thousand, 12 * thousand, "%zu ns, %zu ns", (size_t)thousand,
		      (size_t)ten_thousand);
}

/* ---- writers (N14, N29) ------------------------------------------------------------------ */

struct load {
	unsigned int numbers[3]; /* of contexts, in turn each 10 ms */
	uint64_t longest_ns; /* of a write */
};

struct load_writer {
	struct flat_thread thread;
	struct flat_file *file;
	unsigned char memory[64 * KiB]; /* what it writes, all the same byte */
	uint64_t end_ns;
	uint64_t written; /* bytes from the start of the file */
	uint64_t longest_ns;
};

static void load_write(void *arg)
{
	struct load_writer *writer = arg;
	uint64_t len = sizeof(writer->memory);
	uint64_t pos = 0;

	while (env_clock_ns() < writer->end_ns) {
		uint64_t start = env_clock_ns();
		uint64_t took;

		env_cpu(len / 4);
		cr_assert_eq(flat_write(writer->file, writer->memory, len, pos), (ssize_t)len);
		writer->written = MAX(writer->written, pos + len);
		pos = (pos + len) % FLAT_FILE_BYTES;
		took = env_clock_ns() - start;
		writer->longest_ns = MAX(writer->longest_ns, took);
	}
}

/* What it wrote is on the device. */
static void load_check(const struct load_writer *writer)
{
	unsigned char memory[PAGE];

	cr_assert_gt(writer->written, 0);
	for (uint64_t pos = 0; pos < writer->written; pos += PAGE) {
		flat_device_read(writer->file, memory, PAGE, pos);
		cr_assert_arr_eq(memory, writer->memory, PAGE);
	}
}

#define LOAD_WRITERS 12

static void load_program(void *arg)
{
	static struct load_writer writers[LOAD_WRITERS];
	struct page_cache_config config;
	struct load *load = arg;
	struct inode *others;
	struct flat rig;
	uint64_t end;

	page_cache_config_init(&config);
	config.capacity = 256 * MiB;
	config.prefault = false;
	config.dirty_bytes = 128 * MiB;
	config.dirty_background_bytes = 64 * MiB;
	wb_rig_open(&rig, &config, "nvme", load->numbers[0], WB_MAP_HASH, NULL);
	/* 10 000 that are dirty and are not written, as they are too young. */
	others = many_create(&rig, 100, 10000);
	for (unsigned int i = 0; i < 10000; i++)
		inode_mark_dirty(&others[i], I_DIRTY_TIME);
	end = env_clock_ns() + 2 * NS_PER_SECOND;
	for (unsigned int i = 0; i < LOAD_WRITERS; i++) {
		writers[i] = (struct load_writer){.file = flat_create(&rig, i), .end_ns = end};
		memset(writers[i].memory, (int)(1 + i), sizeof(writers[i].memory));
		flat_thread_start(&writers[i].thread, load_write, &writers[i]);
	}
	for (unsigned int i = 1; env_clock_ns() < end; i++) {
		env_sleep_ns(10 * NS_PER_MS);
		cr_assert_eq(bdi_set_nr_contexts(rig.bdi, load->numbers[i % 3]), 0);
	}
	for (unsigned int i = 0; i < LOAD_WRITERS; i++) {
		flat_thread_join(&writers[i].thread);
		load->longest_ns = MAX(load->longest_ns, writers[i].longest_ns);
	}
	cr_assert_eq(super_sync(&rig.sb), 0);
	wb_assert_settled(&rig);
	wb_assert_balanced(&rig);
	for (unsigned int i = 0; i < LOAD_WRITERS; i++) {
		load_check(&writers[i]);
		flat_remove(writers[i].file);
	}
	many_remove(others, 10000);
	flat_close(&rig);
}

static uint64_t longest_stall(unsigned int first, unsigned int second, unsigned int third)
{
	struct load load = {.numbers = {first, second, third}};

	wb_simulate(16, 0, load_program, &load);
	return load.longest_ns;
}

/*
 * N14: changing the number each 10 ms costs a writer at most 1 ms more than the worst of the
 * numbers; no byte is lost and the counters balance (M128, M129).
 */
Test(wb_load, resizing_does_not_stall_writers)
{
	uint64_t one = longest_stall(1, 1, 1);
	uint64_t three = longest_stall(3, 3, 3);
	uint64_t twelve = longest_stall(12, 12, 12);
	uint64_t all = longest_stall(1, 12, 3);
	uint64_t two = longest_stall(3, 12, 3);

	cr_assert_leq(all, MAX(one, MAX(three, twelve)) + NS_PER_MS, "%zu %zu %zu: %zu",
		      (size_t)one, (size_t)three, (size_t)twelve, (size_t)all);
	cr_assert_leq(two, MAX(three, twelve) + NS_PER_MS, "%zu %zu: %zu", (size_t)three,
		      (size_t)twelve, (size_t)two);
}

struct expiry {
	bool resize;
	uint64_t longest_ns;
};

/* Files are dirtied once each and then left alone, while the number changes. */
static void expiry_program(void *arg)
{
	struct expiry *expiry = arg;
	struct page_cache_config config;
	struct flat_file *files[40];
	uint64_t dirtied[40], done = 0;
	struct flat rig;

	page_cache_config_init(&config);
	config.capacity = 64 * MiB;
	config.prefault = false;
	config.writeback_interval_ns = NS_PER_SECOND;
	config.dirty_expire_ns = 3 * NS_PER_SECOND;
	wb_rig_open(&rig, &config, "nvme", 4, WB_MAP_HASH, NULL);
	for (unsigned int tick = 0; done < 40; tick++) {
		if (tick % 5 == 0 && tick / 5 < 40) {
			files[tick / 5] = flat_create(&rig, tick / 5);
			flat_dirty_page(files[tick / 5], 0, 1);
			dirtied[tick / 5] = env_clock_ns();
		}
		env_sleep_ns(100 * NS_PER_MS);
		if (expiry->resize)
			cr_assert_eq(bdi_set_nr_contexts(rig.bdi, 1 + tick * 7 % 16), 0);
		for (; done <= tick / 5 && done < 40 && files[done]->written[0]; done++)
			if (env_clock_ns() - dirtied[done] > expiry->longest_ns)
				expiry->longest_ns = env_clock_ns() - dirtied[done];
	}
	for (unsigned int i = 0; i < 40; i++)
		flat_remove(files[i]);
	flat_close(&rig);
}

/* N29, M121: expire + interval + the tick in which we see it. */
Test(wb_load, resizing_does_not_postpone_expiry)
{
	struct expiry expiry = {.resize = true};

	wb_simulate(8, 0, expiry_program, &expiry);
	cr_assert_leq(expiry.longest_ns, 4 * NS_PER_SECOND + 200 * NS_PER_MS, "%zu",
		      (size_t)expiry.longest_ns);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_folio_dirty.c - clean, dirty, under writeback: counters, tags, limits, throttling
 */
#include <iomap/folio.h>

#include <errno.h>
#include <string.h>
#include "tests/flat.h"

/* Limits that are easy to reach: 400 pages, 200 in the background, free up to 300. */
#define THRESH	   400u
#define BACKGROUND 200u
#define FREERUN	   300u

static struct flat flat;
static struct flat_file *file;

static void open_flat(void)
{
	struct flat_config config;

	flat_config_init(&config);
	config.cache.dirty_bytes = THRESH * PAGE;
	config.cache.dirty_background_bytes = BACKGROUND * PAGE;
	flat_open(&flat, &config);
	file = flat_create(&flat, 1);
}

static void close_flat(void)
{
	flat_remove(file);
	flat_close(&flat);
}

TestSuite(folio_dirty, .init = open_flat, .fini = close_flat);

/* The cache's, the mapping's and the context's figures, which must agree (M117). */
static void assert_counters(uint64_t dirty, uint64_t writeback)
{
	struct page_cache_stats stats = flat_stats(&flat);
	struct wb_stats wb = flat_wb_stats(&flat, 0);

	cr_assert_eq(stats.nr_dirty, dirty);
	cr_assert_eq(stats.nr_writeback, writeback);
	cr_assert_eq(flat_mapping(file)->nr_dirty, dirty);
	cr_assert_eq(flat_mapping(file)->nr_writeback, writeback);
	cr_assert_eq(wb.reclaimable, dirty);
	cr_assert_eq(wb.writeback, writeback);
}

static bool has_tag(struct folio *folio, enum filemap_tag tag)
{
	struct folio_batch batch;
	uint64_t start = folio->index;
	bool found = filemap_get_folios(flat_mapping(file), &start, folio->index, tag, &batch) > 0;

	filemap_release_folios(&batch);
	return found;
}

/* ---- transitions (K1, C20, C22, F7) ------------------------------------------------- */

Test(folio_dirty, a_clean_folio_becomes_dirty_once)
{
	struct folio *folio = flat_new_folio(file, 0, 0);

	cr_assert(folio_mark_dirty(folio));
	cr_assert(folio_test(folio, FOLIO_DIRTY));
	cr_assert(has_tag(folio, FILEMAP_DIRTY));
	assert_counters(1, 0);
	cr_assert_not(folio_mark_dirty(folio));
	assert_counters(1, 0);
	cr_assert_eq(flat_wb_stats(&flat, 0).dirtied, 1);
	folio_unlock_put(folio);
}

Test(folio_dirty, a_large_folio_counts_all_its_pages)
{
	struct folio *folio = flat_new_folio(file, 8, 3);

	folio_mark_dirty(folio);
	assert_counters(8, 0);
	cr_assert(folio_clear_dirty_for_io(folio));
	folio_start_writeback(folio);
	assert_counters(0, 8);
	folio_unlock(folio);
	folio_end_writeback(folio);
	assert_counters(0, 0);
	cr_assert_eq(flat_wb_stats(&flat, 0).written, 8);
	folio_put(folio);
}

/* C22: the tag stays until writeback starts. */
Test(folio_dirty, cleared_for_io_it_can_still_be_found)
{
	struct folio *folio = flat_new_folio(file, 0, 0);

	folio_mark_dirty(folio);
	cr_assert(folio_clear_dirty_for_io(folio));
	cr_assert_not(folio_test(folio, FOLIO_DIRTY));
	cr_assert(has_tag(folio, FILEMAP_DIRTY));
	assert_counters(0, 0);
	cr_assert_not(folio_clear_dirty_for_io(folio));
	folio_start_writeback(folio);
	cr_assert_not(has_tag(folio, FILEMAP_DIRTY));
	cr_assert(has_tag(folio, FILEMAP_WRITEBACK));
	folio_unlock(folio);
	folio_end_writeback(folio);
	cr_assert_not(has_tag(folio, FILEMAP_WRITEBACK));
	folio_put(folio);
}

/* F28 */
Test(folio_dirty, it_can_be_dirtied_again_under_writeback)
{
	struct folio *folio = flat_new_folio(file, 0, 0);

	folio_mark_dirty(folio);
	folio_clear_dirty_for_io(folio);
	folio_start_writeback(folio);
	cr_assert(folio_mark_dirty(folio));
	assert_counters(1, 1);
	cr_assert(has_tag(folio, FILEMAP_DIRTY));
	cr_assert(has_tag(folio, FILEMAP_WRITEBACK));
	folio_unlock(folio);
	folio_end_writeback(folio);
	cr_assert(folio_test(folio, FOLIO_DIRTY));
	assert_counters(1, 0);
	folio_put(folio);
}

Test(folio_dirty, dirtied_between_clear_and_start_it_keeps_its_tag)
{
	struct folio *folio = flat_new_folio(file, 0, 0);

	folio_mark_dirty(folio);
	folio_clear_dirty_for_io(folio);
	folio_mark_dirty(folio);
	folio_start_writeback(folio);
	cr_assert(has_tag(folio, FILEMAP_DIRTY));
	folio_unlock(folio);
	folio_end_writeback(folio);
	cr_assert(has_tag(folio, FILEMAP_DIRTY));
	folio_put(folio);
}

Test(folio_dirty, cancelling_takes_everything_back)
{
	struct folio *folio = flat_new_folio(file, 0, 2);

	folio_mark_dirty(folio);
	folio_cancel_dirty(folio);
	cr_assert_not(folio_test(folio, FOLIO_DIRTY));
	cr_assert_not(has_tag(folio, FILEMAP_DIRTY));
	assert_counters(0, 0);
	folio_cancel_dirty(folio);
	assert_counters(0, 0);
	folio_unlock_put(folio);
}

Test(folio_dirty, the_first_dirty_page_makes_the_inode_dirty)
{
	cr_assert_eq(file->inode.i_state & I_DIRTY, 0);
	cr_assert_eq(wb_context_of(&file->inode), -1);
	flat_dirty_page(file, 0, 1);
	cr_assert(file->inode.i_state & I_DIRTY_PAGES);
	cr_assert_eq(wb_context_of(&file->inode), 0);
	cr_assert_eq(flat_wb_stats(&flat, 0).nr_dirty_inodes, 1);
}

/* M117: after every step of a random walk, what is counted is what is there. */
Test(folio_dirty, counters_are_the_sums_over_the_folios)
{
	struct folio *folios[24];
	struct env_rng rng;

	env_rng_seed(&rng, 3);
	for (unsigned int i = 0; i < 24; i++) {
		folios[i] = flat_new_folio(file, i * 8, i % 4);
		folio_unlock(folios[i]);
	}
	for (unsigned int step = 0; step < 3000; step++) {
		struct folio *folio = folios[env_rng_below(&rng, 24)];
		uint64_t dirty = 0, writeback = 0;

		folio_lock(folio);
		switch (env_rng_below(&rng, 4)) {
		case 0:
			folio_mark_dirty(folio);
			break;
		case 1:
			if (!folio_test(folio, FOLIO_WRITEBACK) && folio_clear_dirty_for_io(folio))
				folio_start_writeback(folio);
			break;
		case 2:
			if (folio_test(folio, FOLIO_WRITEBACK))
				folio_end_writeback(folio);
			break;
		case 3:
			folio_cancel_dirty(folio);
			break;
		}
		folio_unlock(folio);
		for (unsigned int i = 0; i < 24; i++) {
			if (folio_test(folios[i], FOLIO_DIRTY))
				dirty += folio_nr_pages(folios[i]);
			if (folio_test(folios[i], FOLIO_WRITEBACK))
				writeback += folio_nr_pages(folios[i]);
		}
		assert_counters(dirty, writeback);
	}
	for (unsigned int i = 0; i < 24; i++) {
		if (folio_test(folios[i], FOLIO_WRITEBACK))
			folio_end_writeback(folios[i]);
		folio_put(folios[i]);
	}
}

/* M118 */
Test(folio_dirty, after_sync_and_drop_every_counter_is_zero)
{
	static unsigned char bytes[1 * MiB];
	struct page_cache_stats stats;

	cr_assert_eq(flat_write(file, bytes, sizeof(bytes), 12345), (ssize_t)sizeof(bytes));
	cr_assert_eq(super_sync(&flat.sb), 0);
	assert_counters(0, 0);
	page_cache_drop(flat.cache);
	stats = flat_stats(&flat);
	cr_assert_eq(stats.nr_cached, 0);
	cr_assert_eq(stats.folio_bytes, 0);
	cr_assert_eq(stats.state_bytes, 0);
	cr_assert_eq(stats.nr_free, 16 * MiB / PAGE);
	cr_assert_eq(flat_wb_stats(&flat, 0).nr_dirty_inodes, 0);
	cr_assert_eq(flat_wb_stats(&flat, 0).dirtied, flat_wb_stats(&flat, 0).written);
}

/* ---- limits (K18, K19) -------------------------------------------------------------- */

static bool gate_is_open; /* [a] */

static void wait_at_gate(struct flat_file *one, struct writeback_control *wbc)
{
	(void)one;
	(void)wbc;
	flat_eventually(__atomic_load_n(&gate_is_open, __ATOMIC_ACQUIRE));
}

/* The number of dirty pages up to which a writer may go without a look at the device. */
static uint64_t find_freerun(struct flat *world)
{
	struct flat_file *one = flat_create(world, 2);
	uint64_t pages = 0;

	/* The flusher comes, and takes nothing yet. */
	world->on_writepages = wait_at_gate;
	for (;;) {
		/* So that it looks each time. */
		env_task_self.local[ENV_LOCAL_DIRTIED_MAX] = 0;
		if (wb_balance_dirty_pages(flat_mapping(one), true))
			break;
		flat_dirty_page(one, pages++, 1);
	}
	cr_assert_eq(flat_stats(world).nr_dirty + flat_stats(world).nr_writeback, pages);
	__atomic_store_n(&gate_is_open, true, __ATOMIC_RELEASE);
	super_sync(&world->sb);
	flat_remove(one);
	return pages - 1;
}

static uint64_t freerun_of(void (*change)(struct page_cache_config *config))
{
	struct flat_config config;
	struct flat world;
	uint64_t pages;

	flat_config_init(&config);
	change(&config.cache);
	flat_open(&world, &config);
	pages = find_freerun(&world);
	flat_close(&world);
	return pages;
}

Test(folio_dirty, a_writer_is_free_up_to_the_middle_of_the_limits)
{
	cr_assert_eq(find_freerun(&flat), FREERUN);
}

static void keep_defaults(struct page_cache_config *config)
{
	(void)config;
}

Test(folio_dirty, the_default_limits_are_parts_of_the_capacity)
{
	/* 20 % and 10 % of 4096 pages. */
	cr_assert_eq(freerun_of(keep_defaults), (819 + 409) / 2);
}

static void set_ratios(struct page_cache_config *config)
{
	config->dirty_ratio = 30;
	config->dirty_background_ratio = 5;
}

Test(folio_dirty, ratios_are_of_the_capacity)
{
	cr_assert_eq(freerun_of(set_ratios), (1228 + 204) / 2);
}

static void set_bytes(struct page_cache_config *config)
{
	set_ratios(config);
	config->dirty_bytes = 100 * PAGE + 1;
}

Test(folio_dirty, bytes_win_over_the_ratio)
{
	/* 101 pages; 5 % in the background is more, so half of it. */
	cr_assert_eq(freerun_of(set_bytes), (101 + 50) / 2);
}

static void set_background_too_high(struct page_cache_config *config)
{
	config->dirty_bytes = 400 * PAGE;
	config->dirty_background_bytes = 400 * PAGE;
}

Test(folio_dirty, a_background_limit_that_is_too_high_is_half_the_limit)
{
	cr_assert_eq(freerun_of(set_background_too_high), 300);
}

/* ---- throttling (K20..K23) ---------------------------------------------------------- */

static unsigned char chunk[PAGE];

/* Page by page, as a writer does. */
static void write_pages(struct flat_file *one, uint64_t first, uint64_t nr)
{
	for (uint64_t i = 0; i < nr; i++)
		cr_assert_eq(flat_write(one, chunk, PAGE, (first + i) * PAGE), (ssize_t)PAGE);
}

/* M124 */
Test(folio_dirty, a_writer_below_freerun_never_sleeps)
{
	flat_hold(&flat, BIO_WRITE);
	write_pages(file, 0, FREERUN);
	cr_assert_eq(flat_stats(&flat).nr_throttled, 0);
	cr_assert_eq(flat_stats(&flat).throttled_ns, 0);
	flat_release(&flat);
}

Test(folio_dirty, nowait_gives_eagain_over_freerun)
{
	flat_hold(&flat, BIO_WRITE);
	flat_dirty_pages(file, 0, FREERUN + 1, 1);
	env_task_self.local[ENV_LOCAL_DIRTIED_MAX] = 0;
	cr_assert_eq(wb_balance_dirty_pages(flat_mapping(file), true), -EAGAIN);
	cr_assert_eq(flat_stats(&flat).nr_throttled, 0);
	flat_release(&flat);
	super_sync(&flat.sb);
	cr_assert_eq(wb_balance_dirty_pages(flat_mapping(file), true), 0);
}

Test(folio_dirty, a_cancelled_writer_gets_eintr)
{
	flat_hold(&flat, BIO_WRITE);
	flat_dirty_pages(file, 0, THRESH, 1);
	env_task_self.local[ENV_LOCAL_DIRTIED_MAX] = 0;
	env_task_self.local[ENV_LOCAL_CANCELLED] = 1;
	cr_assert_eq(wb_balance_dirty_pages(flat_mapping(file), false), -EINTR);
	env_task_self.local[ENV_LOCAL_CANCELLED] = 0;
	flat_release(&flat);
}

Test(folio_dirty, a_cancelled_writer_below_freerun_is_not_disturbed)
{
	flat_dirty_pages(file, 0, 10, 1);
	env_task_self.local[ENV_LOCAL_DIRTIED_MAX] = 0;
	env_task_self.local[ENV_LOCAL_CANCELLED] = 1;
	cr_assert_eq(wb_balance_dirty_pages(flat_mapping(file), false), 0);
	env_task_self.local[ENV_LOCAL_CANCELLED] = 0;
}

#define WRITERS 4
/* What one writer may dirty between two looks: the cap of K20 and a page. */
#define WRITER_SLACK 32u

struct writer {
	struct flat_file *file;
	uint64_t nr_pages;
};

static void write_all(void *arg)
{
	struct writer *writer = arg;

	write_pages(writer->file, 0, writer->nr_pages);
}

static uint64_t dirty_and_writeback(void)
{
	struct page_cache_stats stats = flat_stats(&flat);

	return stats.nr_dirty + stats.nr_writeback;
}

/* M123: with a device that does nothing, writers stop at the limit. */
Test(folio_dirty, the_hard_limit_holds_while_the_device_stands_still)
{
	struct flat_thread threads[WRITERS];
	struct writer writers[WRITERS];

	flat_hold(&flat, BIO_WRITE);
	for (unsigned int i = 0; i < WRITERS; i++) {
		writers[i] = (struct writer){flat_create(&flat, 10 + i), THRESH};
		flat_thread_start(&threads[i], write_all, &writers[i]);
	}
	while (flat_stats(&flat).nr_throttled < 3 * WRITERS) {
		cr_assert_leq(dirty_and_writeback(), THRESH + WRITERS * WRITER_SLACK);
		env_sleep_ns(500000);
	}
	for (unsigned int i = 0; i < WRITERS; i++)
		cr_assert_not(flat_thread_is_done(&threads[i]));
	cr_assert_gt(dirty_and_writeback(), FREERUN);
	flat_release(&flat);
	for (unsigned int i = 0; i < WRITERS; i++)
		flat_thread_join(&threads[i]);
	cr_assert_leq(dirty_and_writeback(), THRESH + WRITERS * WRITER_SLACK);
	cr_assert_eq(super_sync(&flat.sb), 0);
	for (unsigned int i = 0; i < WRITERS; i++)
		flat_remove(writers[i].file);
}

/* K21: else nobody would ever clean what the writer waits for. */
Test(folio_dirty, the_flusher_runs_before_a_writer_sleeps)
{
	write_pages(file, 0, 4 * THRESH);
	cr_assert_leq(dirty_and_writeback(), THRESH + WRITER_SLACK);
	cr_assert_eq(super_sync(&flat.sb), 0);
}

/* Another device over the same cache. */
static void open_second_device(struct flat *second)
{
	struct block_device *ram;
	static const struct super_operations ops = {0};

	memset(second, 0, sizeof(*second));
	second->cache = flat.cache;
	cr_assert_eq(blkdev_ram_create(&ram, FLAT_FILES * FLAT_FILE_BYTES, 0), 0);
	cr_assert_eq(blkdev_count_create(&second->count, ram), 0);
	cr_assert_eq(blkdev_fault_create(&second->dev, second->count), 0);
	cr_assert_eq(bdi_create(&second->bdi, second->cache, second->dev, 1, WB_MAP_AUTO), 0);
	cr_assert_eq(super_init(&second->sb, second->cache, second->bdi, PAGE, &ops), 0);
}

static void close_second_device(struct flat *second)
{
	super_shutdown(&second->sb);
	bdi_destroy(second->bdi);
	blkdev_destroy(second->dev);
}

/* M125: whatever a stalled device has taken of the limit, another one goes on. */
Test(folio_dirty, a_stalled_device_does_not_stop_writers_of_another)
{
	struct writer stalled = {file, THRESH + 200};
	struct flat_thread thread, other;
	struct writer healthy;
	struct flat second;

	open_second_device(&second);
	flat_hold(&flat, BIO_WRITE);
	flat_thread_start(&thread, write_all, &stalled);
	flat_eventually(flat_stats(&flat).nr_throttled >= 5);
	healthy = (struct writer){flat_create(&second, 1), 2 * THRESH};
	flat_thread_start(&other, write_all, &healthy);
	flat_thread_join(&other);
	cr_assert_not(flat_thread_is_done(&thread));
	flat_release(&flat);
	flat_thread_join(&thread);
	flat_remove(healthy.file);
	close_second_device(&second);
}

/* The same when nothing is left of the limit. */
Test(folio_dirty, a_device_that_has_taken_the_whole_limit_does_not_stop_another)
{
	struct flat_thread other;
	struct writer healthy;
	struct flat second;

	open_second_device(&second);
	flat_hold(&flat, BIO_WRITE);
	flat_dirty_pages(file, 0, THRESH + 20, 1);
	healthy = (struct writer){flat_create(&second, 1), 200};
	flat_thread_start(&other, write_all, &healthy);
	flat_thread_join(&other);
	flat_release(&flat);
	flat_remove(healthy.file);
	close_second_device(&second);
}

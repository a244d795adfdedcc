/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_folio_reclaim.c - which folios leave the cache, and what a full cache does
 */
#include <iomap/page_cache.h>

#include <errno.h>
#include <string.h>
#include "tests/flat.h"

/* A small cache without throttling, so that it can fill up with anything. */
#define PAGES 512

static struct flat flat;
static struct flat_file *file;

static void open_flat(void)
{
	struct flat_config config;

	flat_config_init(&config);
	config.cache.capacity = PAGES * PAGE;
	config.cache.dirty_ratio = 100;
	config.cache.dirty_background_ratio = 99;
	flat_open(&flat, &config);
	file = flat_create(&flat, 1);
}

static void close_flat(void)
{
	flat_remove(file);
	flat_close(&flat);
}

TestSuite(folio_reclaim, .init = open_flat, .fini = close_flat);

static struct folio *get(uint64_t index, unsigned int flags)
{
	struct folio *folio;

	cr_assert_eq(filemap_get_folio(flat_mapping(file), index, flags, &folio), 0);
	return folio;
}

/* Clean, not used since: what reclaim takes first. */
static void add_cold(uint64_t index)
{
	struct folio *folio = get(index, FGP_CREAT);

	folio_clear(folio, FOLIO_REFERENCED);
	folio_put(folio);
}

/* ---- what stays (M104) -------------------------------------------------------------- */

Test(folio_reclaim, clean_folios_are_dropped)
{
	for (uint64_t index = 0; index < 100; index++)
		add_cold(index);
	cr_assert_eq(page_cache_drop(flat.cache), 100);
	cr_assert_eq(flat_stats(&flat).nr_cached, 0);
	cr_assert_eq(flat_stats(&flat).nr_free, PAGES);
	cr_assert_eq(flat_stats(&flat).nr_reclaimed, 100);
}

Test(folio_reclaim, used_folios_are_dropped_too_in_the_end)
{
	struct folio *folio = get(0, FGP_CREAT | FGP_ACCESSED);

	folio_set(folio, FOLIO_REFERENCED);
	folio_put(folio);
	cr_assert_eq(page_cache_drop(flat.cache), 1);
}

Test(folio_reclaim, a_dirty_folio_stays)
{
	flat_dirty_page(file, 0, 1);
	cr_assert_eq(page_cache_drop(flat.cache), 0);
	cr_assert(flat_is_cached(file, 0));
}

Test(folio_reclaim, a_folio_under_writeback_stays)
{
	flat_hold(&flat, BIO_WRITE);
	flat_dirty_page(file, 0, 1);
	filemap_fdatawrite_range(flat_mapping(file), 0, UINT64_MAX, WB_SYNC_NONE);
	cr_assert_eq(page_cache_drop(flat.cache), 0);
	cr_assert(flat_is_cached(file, 0));
	flat_release(&flat);
	cr_assert_eq(page_cache_drop(flat.cache), 1);
}

Test(folio_reclaim, a_locked_folio_stays)
{
	struct folio *folio = get(0, FGP_CREAT | FGP_LOCK);

	folio_clear(folio, FOLIO_REFERENCED);
	cr_assert_eq(page_cache_drop(flat.cache), 0);
	cr_assert(flat_is_cached(file, 0));
	folio_unlock_put(folio);
	cr_assert_eq(page_cache_drop(flat.cache), 1);
}

Test(folio_reclaim, a_folio_somebody_holds_stays)
{
	struct folio *folio = get(0, FGP_CREAT);

	folio_clear(folio, FOLIO_REFERENCED);
	cr_assert_eq(page_cache_drop(flat.cache), 0);
	cr_assert(flat_is_cached(file, 0));
	folio_put(folio);
	cr_assert_eq(page_cache_drop(flat.cache), 1);
}

Test(folio_reclaim, invalidation_of_clean_pages_spares_the_same)
{
	struct folio *held = get(1, FGP_CREAT);

	flat_dirty_page(file, 0, 1);
	add_cold(2);
	add_cold(9);
	cr_assert_eq(filemap_invalidate_clean(flat_mapping(file), 0, 8), 1);
	cr_assert(flat_is_cached(file, 0));
	cr_assert(flat_is_cached(file, 1));
	cr_assert_not(flat_is_cached(file, 2));
	cr_assert(flat_is_cached(file, 9));
	folio_put(held);
}

Test(folio_reclaim, invalidation_of_clean_pages_takes_only_whole_folios)
{
	struct folio *folio = flat_new_folio(file, 0, 3);

	folio_unlock_put(folio);
	cr_assert_eq(filemap_invalidate_clean(flat_mapping(file), 0, 6), 0);
	cr_assert_eq(filemap_invalidate_clean(flat_mapping(file), 1, 7), 0);
	cr_assert_eq(filemap_invalidate_clean(flat_mapping(file), 0, 7), 8);
}

/* ---- what comes back (M105) --------------------------------------------------------- */

Test(folio_reclaim, evicted_data_comes_back_as_written)
{
	static unsigned char model[3 * MiB];
	static unsigned char back[3 * MiB];
	struct env_rng rng;

	env_rng_seed(&rng, 5);
	for (unsigned int round = 0; round < 60; round++) {
		uint64_t pos = env_rng_below(&rng, sizeof(model));
		uint64_t len = 1 + env_rng_below(&rng, 200000);

		len = len < sizeof(model) - pos ? len : sizeof(model) - pos;
		memset(model + pos, (int)round + 1, len);
		cr_assert_eq(flat_write(file, model + pos, len, pos), (ssize_t)len);
		if (round % 7 == 0)
			filemap_fdatawrite_range(flat_mapping(file), 0, UINT64_MAX, WB_SYNC_NONE);
		if (round % 3 == 0)
			page_cache_drop(flat.cache);
	}
	uint64_t size = inode_size_read(&file->inode);
	cr_assert_eq(flat_read(file, back, sizeof(back), 0), (ssize_t)size);
	cr_assert_eq(memcmp(back, model, size), 0);
}

/* ---- a full cache ------------------------------------------------------------------- */

Test(folio_reclaim, a_full_cache_of_clean_folios_makes_room)
{
	for (uint64_t index = 0; index < PAGES; index++)
		add_cold(index);
	cr_assert_eq(flat_stats(&flat).nr_free, 0);
	for (uint64_t index = PAGES; index < 3 * PAGES; index++)
		add_cold(index);
	cr_assert_leq(flat_stats(&flat).nr_cached, PAGES);
}

Test(folio_reclaim, a_used_folio_gets_a_second_chance)
{
	for (uint64_t index = 0; index < PAGES; index++)
		add_cold(index);
	/* A quarter, spread over all of the cache's lists. */
	for (uint64_t index = 0; index < PAGES; index += 4 * 8)
		for (uint64_t i = 0; i < 8; i++)
			folio_put(get(index + i, FGP_ACCESSED));
	add_cold(PAGES);
	cr_assert_gt(flat_stats(&flat).nr_reclaimed, 0);
	for (uint64_t index = 0; index < PAGES; index += 4 * 8)
		for (uint64_t i = 0; i < 8; i++)
			cr_assert(flat_is_cached(file, index + i), "page %zu", (size_t)(index + i));
}

Test(folio_reclaim, the_second_chance_is_one)
{
	for (uint64_t index = 0; index < PAGES; index++) {
		struct folio *folio = get(index, FGP_CREAT | FGP_ACCESSED);

		folio_set(folio, FOLIO_REFERENCED);
		folio_put(folio);
	}
	add_cold(PAGES);
	cr_assert(flat_is_cached(file, PAGES));
}

/* A page that is dirty costs a wait for the flusher, which is woken. */
Test(folio_reclaim, a_full_cache_of_dirty_folios_is_written_to_make_room)
{
	unsigned char byte;

	flat_dirty_pages(file, 0, PAGES, 0x5a);
	cr_assert_eq(flat_stats(&flat).nr_free, 0);
	cr_assert_eq(flat_stats(&flat).nr_dirty, PAGES);
	flat_dirty_pages(file, PAGES, PAGES, 0x5b);
	cr_assert_eq(flat_fsync(file), 0);
	for (uint64_t index = 0; index < 2 * PAGES; index++) {
		cr_assert_eq(flat_read(file, &byte, 1, index * PAGE + 17), 1);
		cr_assert_eq(byte, index < PAGES ? 0x5a : 0x5b);
	}
}

static void add_one(void *arg)
{
	(void)arg;
	folio_put(get(PAGES, FGP_CREAT));
}

Test(folio_reclaim, a_full_cache_waits_for_writes_in_flight)
{
	struct flat_thread thread;

	flat_dirty_pages(file, 0, PAGES, 1);
	flat_hold(&flat, BIO_WRITE);
	flat_thread_start(&thread, add_one, NULL);
	/* It has woken the flusher. */
	flat_eventually(blkdev_fault_held(flat.dev) > 0);
	cr_assert_not(flat_thread_is_done(&thread));
	flat_release(&flat);
	flat_thread_join(&thread);
	cr_assert(flat_is_cached(file, PAGES));
}

Test(folio_reclaim, nothing_to_evict_is_enomem)
{
	static struct folio *held[PAGES];
	struct folio *folio;

	for (uint64_t index = 0; index < PAGES; index++)
		held[index] = get(index, FGP_CREAT);
	cr_assert_eq(filemap_get_folio(flat_mapping(file), PAGES, FGP_CREAT, &folio), -ENOMEM);
	cr_assert_eq(filemap_get_folio(flat_mapping(file), PAGES, FGP_CREAT | FGP_NOWAIT, &folio),
		     -EAGAIN);
	for (uint64_t index = 0; index < PAGES; index++)
		folio_put(held[index]);
	cr_assert_eq(filemap_get_folio(flat_mapping(file), PAGES, FGP_CREAT, &folio), 0);
	folio_put(folio);
}

Test(folio_reclaim, nowait_does_not_evict)
{
	struct folio *folio;

	for (uint64_t index = 0; index < PAGES; index++)
		add_cold(index);
	cr_assert_eq(filemap_get_folio(flat_mapping(file), PAGES, FGP_CREAT | FGP_NOWAIT, &folio),
		     -EAGAIN);
	cr_assert_eq(flat_stats(&flat).nr_reclaimed, 0);
}

/* J11: blocks of several pages need room in one piece. */
Test(folio_reclaim, a_folio_of_the_least_order_is_had_from_a_full_cache)
{
	struct flat_file *large = flat_create(&flat, 2);
	struct folio *folio;

	mapping_set_folio_order_range(flat_mapping(large), 4, 9);
	for (uint64_t index = 0; index < PAGES; index++)
		add_cold(index);
	cr_assert_eq(filemap_get_folio(flat_mapping(large), 0, FGP_CREAT, &folio), 0);
	cr_assert_eq(folio_order(folio), 4);
	folio_put(folio);
	flat_remove(large);
}

/* J5: a large folio is a wish. */
Test(folio_reclaim, a_large_folio_does_not_wait_for_writeback)
{
	struct folio *folio;

	flat_hold(&flat, BIO_WRITE);
	flat_dirty_pages(file, 0, PAGES - 1, 1);
	cr_assert_eq(filemap_get_folio(flat_mapping(file), 1024, FGP_CREAT | 9u << FGP_ORDER_SHIFT,
				       &folio),
		     0);
	cr_assert_eq(folio_order(folio), 0);
	cr_assert_eq(blkdev_fault_held(flat.dev), 0);
	folio_put(folio);
	flat_release(&flat);
}

Test(folio_reclaim, a_drop_behind_folio_goes_when_it_is_written)
{
	struct folio *folio = get(0, FGP_CREAT | FGP_LOCK | FGP_DONTCACHE);

	memset(folio->data, 1, PAGE);
	folio_mark_uptodate(folio);
	folio_mark_dirty(folio);
	inode_size_write(&file->inode, PAGE);
	folio_unlock_put(folio);
	flat_hold(&flat, BIO_WRITE);
	filemap_fdatawrite_range(flat_mapping(file), 0, UINT64_MAX, WB_SYNC_NONE);
	cr_assert_eq(flat_stats(&flat).nr_cached, 1);
	flat_release(&flat);
	cr_assert_eq(flat_stats(&flat).nr_cached, 0);
}

/* POSIX_FADV_DONTNEED */
Test(folio_reclaim, dontneed_starts_writing_and_drops_what_is_clean)
{
	flat_dirty_pages(file, 0, 4, 1);
	flat_hold(&flat, BIO_WRITE);
	filemap_dontneed(flat_mapping(file), 0, 4 * PAGE);
	cr_assert_eq(blkdev_fault_held(flat.dev), 4);
	cr_assert_eq(flat_stats(&flat).nr_cached, 4);
	flat_release(&flat);
	filemap_dontneed(flat_mapping(file), 0, 4 * PAGE);
	cr_assert_eq(flat_stats(&flat).nr_cached, 0);
}

Test(folio_reclaim, dontneed_spares_pages_partly_outside)
{
	for (uint64_t index = 0; index < 8; index++)
		add_cold(index);
	inode_size_write(&file->inode, 8 * PAGE);
	filemap_dontneed(flat_mapping(file), PAGE + 1, 4 * PAGE);
	cr_assert(flat_is_cached(file, 1));
	cr_assert_not(flat_is_cached(file, 2));
	cr_assert_not(flat_is_cached(file, 4));
	cr_assert(flat_is_cached(file, 5));
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_folio_filemap.c - folios of a mapping: look up, create, orders, batches, races
 */
#include <iomap/filemap.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "tests/flat.h"

static struct flat flat;
static struct flat_file *file;

static void open_flat(void)
{
	struct flat_config config;

	flat_config_init(&config);
	flat_open(&flat, &config);
	file = flat_create(&flat, 1);
}

static void close_flat(void)
{
	flat_remove(file);
	flat_close(&flat);
}

TestSuite(folio_filemap, .init = open_flat, .fini = close_flat);

static int get(uint64_t index, unsigned int flags, struct folio **folio)
{
	return filemap_get_folio(flat_mapping(file), index, flags, folio);
}

static unsigned int with_hint(unsigned int order)
{
	return FGP_LOCK | FGP_CREAT | order << FGP_ORDER_SHIFT;
}

/* Create for page index with that hint; returns the order, and where it starts. */
static unsigned int create(uint64_t index, unsigned int hint, uint64_t *start)
{
	struct folio *folio;
	unsigned int order;

	cr_assert_eq(get(index, with_hint(hint), &folio), 0);
	order = folio_order(folio);
	if (start)
		*start = folio->index;
	folio_unlock_put(folio);
	return order;
}

/* ---- flags -------------------------------------------------------------------------- */

Test(folio_filemap, an_absent_folio_is_not_made_without_creat)
{
	struct folio *folio;

	cr_assert_eq(get(3, FGP_LOCK, &folio), -ENOENT);
	cr_assert_eq(get(3, 0, &folio), -ENOENT);
	cr_assert_eq(flat_stats(&flat).nr_cached, 0);
}

Test(folio_filemap, creat_with_lock_returns_it_locked_and_empty)
{
	struct folio *folio;

	cr_assert_eq(get(3, FGP_LOCK | FGP_CREAT, &folio), 0);
	cr_assert(folio_is_locked(folio));
	cr_assert_not(folio_test(folio, FOLIO_UPTODATE | FOLIO_DIRTY | FOLIO_WRITEBACK));
	cr_assert_eq(folio->index, 3);
	cr_assert_eq(folio->mapping, flat_mapping(file));
	cr_assert_eq(folio_pos(folio), 3 * PAGE);
	cr_assert_eq(folio_size(folio), PAGE);
	/* The index's and the caller's. */
	cr_assert_eq(folio_ref_count(folio), 2);
	folio_unlock_put(folio);
}

Test(folio_filemap, creat_without_lock_returns_it_unlocked)
{
	struct folio *folio;

	cr_assert_eq(get(3, FGP_CREAT, &folio), 0);
	cr_assert_not(folio_is_locked(folio));
	folio_put(folio);
}

Test(folio_filemap, a_second_look_up_finds_the_same_folio)
{
	struct folio *first, *second;

	cr_assert_eq(get(3, FGP_CREAT, &first), 0);
	cr_assert_eq(get(3, FGP_CREAT | FGP_LOCK, &second), 0);
	cr_assert_eq(first, second);
	cr_assert_eq(folio_ref_count(first), 3);
	folio_unlock_put(second);
	folio_put(first);
}

Test(folio_filemap, every_page_of_a_folio_leads_to_it)
{
	struct folio *folio, *found;

	folio = flat_new_folio(file, 16, 3);
	folio_unlock(folio);
	for (uint64_t index = 16; index < 24; index++) {
		cr_assert_eq(get(index, 0, &found), 0);
		cr_assert_eq(found, folio);
		folio_put(found);
	}
	cr_assert_eq(get(15, 0, &found), -ENOENT);
	cr_assert_eq(get(24, 0, &found), -ENOENT);
	folio_put(folio);
}

Test(folio_filemap, nowait_gives_eagain_for_a_locked_folio)
{
	struct folio *folio, *again;

	cr_assert_eq(get(3, FGP_CREAT | FGP_LOCK, &folio), 0);
	cr_assert_eq(get(3, FGP_LOCK | FGP_NOWAIT, &again), -EAGAIN);
	cr_assert_eq(folio_ref_count(folio), 2);
	folio_unlock_put(folio);
}

Test(folio_filemap, nowait_gives_eagain_when_there_is_no_memory)
{
	struct folio *folio;

	page_cache_fail_alloc(flat.cache, 0, 1000);
	cr_assert_eq(get(3, FGP_CREAT | FGP_LOCK | FGP_NOWAIT, &folio), -EAGAIN);
	page_cache_fail_alloc(flat.cache, 0, 0);
}

Test(folio_filemap, accessed_marks_it_used)
{
	struct folio *folio;

	cr_assert_eq(get(3, FGP_CREAT, &folio), 0);
	folio_clear(folio, FOLIO_REFERENCED);
	folio_put(folio);
	cr_assert_eq(get(3, FGP_ACCESSED, &folio), 0);
	cr_assert(folio_test(folio, FOLIO_REFERENCED));
	folio_put(folio);
}

Test(folio_filemap, dontcache_marks_what_it_creates)
{
	struct folio *folio;

	cr_assert_eq(get(3, FGP_CREAT | FGP_DONTCACHE, &folio), 0);
	cr_assert(folio_test(folio, FOLIO_DROPBEHIND));
	folio_put(folio);
}

Test(folio_filemap, an_ordinary_use_takes_the_dontcache_mark_away)
{
	struct folio *folio;

	cr_assert_eq(get(3, FGP_CREAT | FGP_DONTCACHE, &folio), 0);
	folio_put(folio);
	cr_assert_eq(get(3, FGP_LOCK | FGP_CREAT, &folio), 0);
	cr_assert_not(folio_test(folio, FOLIO_DROPBEHIND));
	folio_unlock_put(folio);
}

Test(folio_filemap, dontcache_does_not_mark_what_was_there)
{
	struct folio *folio;

	cr_assert_eq(get(3, FGP_CREAT, &folio), 0);
	folio_put(folio);
	cr_assert_eq(get(3, FGP_CREAT | FGP_DONTCACHE, &folio), 0);
	cr_assert_not(folio_test(folio, FOLIO_DROPBEHIND));
	folio_put(folio);
}

/* ---- stable pages (F32) ------------------------------------------------------------- */

static void start_held_write(uint64_t index)
{
	flat_hold(&flat, BIO_WRITE);
	flat_dirty_page(file, index, 7);
	cr_assert_eq(filemap_fdatawrite_range(flat_mapping(file), 0, UINT64_MAX, WB_SYNC_NONE), 0);
	cr_assert_eq(blkdev_fault_held(flat.dev), 1);
}

Test(folio_filemap, writeback_is_not_waited_for_without_need)
{
	struct folio *folio;

	start_held_write(3);
	cr_assert_eq(get(3, FGP_WRITEBEGIN, &folio), 0);
	cr_assert(folio_test(folio, FOLIO_WRITEBACK));
	folio_unlock_put(folio);
	flat_release(&flat);
}

Test(folio_filemap, nowait_gives_eagain_where_stable_pages_would_wait)
{
	struct folio *folio;

	flat_mapping(file)->stable_writes = true;
	start_held_write(3);
	cr_assert_eq(get(3, FGP_WRITEBEGIN | FGP_NOWAIT, &folio), -EAGAIN);
	cr_assert_eq(get(3, FGP_LOCK | FGP_NOWAIT, &folio), 0);
	folio_unlock_put(folio);
	flat_release(&flat);
}

static void get_stable(void *arg)
{
	struct folio *folio;

	(void)arg;
	cr_assert_eq(get(3, FGP_WRITEBEGIN, &folio), 0);
	cr_assert_not(folio_test(folio, FOLIO_WRITEBACK));
	folio_unlock_put(folio);
}

Test(folio_filemap, a_writer_waits_for_writeback_of_stable_pages)
{
	struct flat_thread thread;
	struct folio *folio;

	flat_mapping(file)->stable_writes = true;
	start_held_write(3);
	folio = flat_find(file, 3);
	flat_thread_start(&thread, get_stable, NULL);
	flat_eventually(folio_test(folio, FOLIO_WAITERS));
	cr_assert_not(flat_thread_is_done(&thread));
	folio_put(folio);
	flat_release(&flat);
	flat_thread_join(&thread);
}

Test(folio_filemap, a_device_that_wants_stable_pages_makes_stable_mappings)
{
	struct flat_config config;
	struct flat_file *other;
	struct flat stable;

	flat_config_init(&config);
	config.stable_writes = true;
	flat_open(&stable, &config);
	other = flat_create(&stable, 1);
	cr_assert(flat_mapping(other)->stable_writes);
	cr_assert_not(flat_mapping(file)->stable_writes);
	flat_remove(other);
	flat_close(&stable);
}

/* ---- orders (J1..J13) --------------------------------------------------------------- */

Test(folio_filemap, the_hint_of_a_length_is_rounded_down)
{
	struct address_space *mapping = flat_mapping(file);

	cr_assert_eq(filemap_order_hint(mapping, 1), 0);
	cr_assert_eq(filemap_order_hint(mapping, 4095), 0);
	cr_assert_eq(filemap_order_hint(mapping, 4096), 0);
	cr_assert_eq(filemap_order_hint(mapping, 8191), 0);
	cr_assert_eq(filemap_order_hint(mapping, 8192), 1);
	cr_assert_eq(filemap_order_hint(mapping, 20480), 2);
	cr_assert_eq(filemap_order_hint(mapping, 131071), 4);
	cr_assert_eq(filemap_order_hint(mapping, 131072), 5);
	cr_assert_eq(filemap_order_hint(mapping, 1 * MiB), 8);
	cr_assert_eq(filemap_order_hint(mapping, 64 * MiB), 14);
}

Test(folio_filemap, without_hints_the_order_is_the_least)
{
	struct flat_config config;
	struct flat_file *other;
	struct flat plain;

	flat_config_init(&config);
	config.cache.order_hint = false;
	flat_open(&plain, &config);
	other = flat_create(&plain, 1);
	cr_assert_eq(filemap_order_hint(flat_mapping(other), 1 * MiB), 0);
	flat_remove(other);
	flat_close(&plain);
}

/* M42: min(max, ctz(index), hint). */
Test(folio_filemap, the_order_follows_hint_alignment_and_limit)
{
	static const uint64_t indexes[] = {0, 1, 2, 3, 4, 6, 8, 12, 16, 48, 64, 96, 256, 512, 1024};

	for (unsigned int max = 0; max <= 9; max += 3) {
		mapping_set_folio_order_range(flat_mapping(file), 0, max);
		for (size_t i = 0; i < sizeof(indexes) / sizeof(indexes[0]); i++)
			for (unsigned int hint = 0; hint <= 11; hint++) {
				unsigned int expected = hint < max ? hint : max;
				uint64_t index = indexes[i];

				if (index && (unsigned int)__builtin_ctzll(index) < expected)
					expected = (unsigned int)__builtin_ctzll(index);
				cr_assert_eq(create(index, hint, NULL), expected);
				filemap_truncate_range(flat_mapping(file), 0, UINT64_MAX);
			}
	}
}

Test(folio_filemap, the_order_range_is_clamped)
{
	struct address_space *mapping = flat_mapping(file);

	cr_assert_eq(mapping->min_order, 0);
	cr_assert_eq(mapping->max_order, PAGE_CACHE_MAX_ORDER);
	mapping_set_folio_order_range(mapping, 3, 20);
	cr_assert_eq(mapping->min_order, 3);
	cr_assert_eq(mapping->max_order, PAGE_CACHE_MAX_ORDER);
	mapping_set_folio_order_range(mapping, 20, 0);
	cr_assert_eq(mapping->min_order, PAGE_CACHE_MAX_ORDER);
	cr_assert_eq(mapping->max_order, PAGE_CACHE_MAX_ORDER);
	mapping_set_folio_order_range(mapping, 4, 2);
	cr_assert_eq(mapping->min_order, 4);
	cr_assert_eq(mapping->max_order, 4);
}

Test(folio_filemap, the_cache_limits_the_order)
{
	struct flat_config config;
	struct flat_file *other;
	struct flat small;

	flat_config_init(&config);
	config.cache.max_folio = 64 * KiB;
	flat_open(&small, &config);
	other = flat_create(&small, 1);
	cr_assert_eq(flat_mapping(other)->max_order, 4);
	flat_remove(other);
	flat_close(&small);
}

Test(folio_filemap, creation_rounds_the_index_down_to_the_least_order)
{
	uint64_t start;

	mapping_set_folio_order_range(flat_mapping(file), 2, 4);
	cr_assert_eq(create(7, 0, &start), 2);
	cr_assert_eq(start, 4);
	cr_assert_eq(create(21, 9, &start), 2);
	cr_assert_eq(start, 20);
	cr_assert_eq(create(32, 9, &start), 4);
	cr_assert_eq(start, 32);
}

/* J11, M46 */
Test(folio_filemap, blocks_larger_than_pages_make_larger_folios)
{
	struct flat_config config;
	struct flat_file *other;
	struct folio *folio;
	struct flat large;

	flat_config_init(&config);
	config.block_size = 64 * KiB;
	flat_open(&large, &config);
	other = flat_create(&large, 1);
	cr_assert_eq(flat_mapping(other)->min_order, 4);
	cr_assert_eq(filemap_get_folio(flat_mapping(other), 5, FGP_LOCK | FGP_CREAT, &folio), 0);
	cr_assert_eq(folio_size(folio), 64 * KiB);
	cr_assert_eq(folio->index, 0);
	folio_unlock_put(folio);
	flat_remove(other);
	flat_close(&large);
}

Test(folio_filemap, a_block_larger_than_the_largest_folio_is_refused)
{
	static const struct super_operations ops = {0};
	struct super_block sb;

	cr_assert_eq(super_init(&sb, flat.cache, flat.bdi, 4 * MiB, &ops), -EINVAL);
	cr_assert_eq(super_init(&sb, flat.cache, flat.bdi, 3000, &ops), -EINVAL);
	cr_assert_eq(super_init(&sb, flat.cache, flat.bdi, 256, &ops), -EINVAL);
	cr_assert_eq(super_init(&sb, flat.cache, flat.bdi, 2 * MiB, &ops), 0);
	super_shutdown(&sb);
}

/* M43 */
Test(folio_filemap, a_failed_allocation_tries_the_next_smaller_order)
{
	page_cache_fail_alloc(flat.cache, 3, 1000);
	cr_assert_eq(create(0, 5, NULL), 2);
	page_cache_fail_alloc(flat.cache, 0, 0);
}

/* M43 */
Test(folio_filemap, a_fragmented_memory_makes_smaller_folios)
{
	page_cache_fragment(flat.cache, 2);
	cr_assert_eq(create(0, 9, NULL), 2);
	page_cache_defragment(flat.cache);
	cr_assert_eq(create(512, 9, NULL), 9);
}

/* M43 */
Test(folio_filemap, orders_are_not_tried_below_the_least)
{
	struct folio *folio;

	mapping_set_folio_order_range(flat_mapping(file), 2, 5);
	page_cache_fail_alloc(flat.cache, 2, 1000);
	cr_assert_eq(get(0, with_hint(5), &folio), -ENOMEM);
	page_cache_fail_alloc(flat.cache, 0, 0);
	cr_assert_eq(flat_stats(&flat).nr_cached, 0);
}

Test(folio_filemap, no_memory_for_one_page_is_enomem)
{
	struct folio *folio;

	page_cache_fail_alloc(flat.cache, 0, 1000);
	cr_assert_eq(get(0, with_hint(0), &folio), -ENOMEM);
	page_cache_fail_alloc(flat.cache, 0, 0);
	cr_assert_eq(get(0, with_hint(0), &folio), 0);
	folio_unlock_put(folio);
}

/* M44 */
Test(folio_filemap, a_folio_in_the_way_makes_the_new_one_smaller)
{
	create(5, 0, NULL);
	cr_assert_eq(create(0, 4, NULL), 2);
	cr_assert_eq(create(4, 4, NULL), 0);
	cr_assert_eq(create(6, 4, NULL), 1);
	cr_assert_eq(create(8, 4, NULL), 3);
}

/* M41, M42, M44: a model says for every creation what must come out. */
Test(folio_filemap, random_creations_never_overlap)
{
	static unsigned char taken[2048];
	struct env_rng rng;

	env_rng_seed(&rng, 17);
	for (unsigned int round = 0; round < 4000; round++) {
		uint64_t index = env_rng_below(&rng, sizeof(taken));
		unsigned int hint = (unsigned int)env_rng_below(&rng, 11);
		unsigned int expected = hint < 9 ? hint : 9;
		uint64_t start;

		if (round % 1000 == 0) {
			filemap_truncate_range(flat_mapping(file), 0, UINT64_MAX);
			memset(taken, 0, sizeof(taken));
		}
		if (taken[index])
			continue;
		if (index && (unsigned int)__builtin_ctzll(index) < expected)
			expected = (unsigned int)__builtin_ctzll(index);
		for (uint64_t i = 0; i < 1ull << expected; i++)
			while (index + i < sizeof(taken) && taken[index + i] &&
			       i < 1ull << expected)
				expected--;
		cr_assert_eq(create(index, hint, &start), expected, "page %zu hint %u",
			     (size_t)index, hint);
		cr_assert_eq(start, index);
		for (uint64_t i = 0; i < 1ull << expected && index + i < sizeof(taken); i++)
			taken[index + i] = 1;
	}
}

static void count_insert(void *arg, const struct inode *inode, uint64_t index, unsigned int order)
{
	uint64_t *pages = arg;

	cr_assert_eq(inode, &file->inode);
	cr_assert_eq(index % (1ull << order), 0);
	*pages += 1ull << order;
}

/* M45 */
Test(folio_filemap, no_folio_of_a_write_ends_past_the_write)
{
	static unsigned char bytes[300 * 1024];
	uint64_t pages = 0;

	page_cache_trace_insert(flat.cache, count_insert, &pages);
	cr_assert_eq(flat_write(file, bytes, sizeof(bytes), 12345), (ssize_t)sizeof(bytes));
	page_cache_trace_insert(flat.cache, NULL, NULL);
	cr_assert_eq(pages, (12345 + sizeof(bytes) - 1) / PAGE - 12345 / PAGE + 1);
}

Test(folio_filemap, created_folios_are_counted_by_order)
{
	create(0, 3, NULL);
	create(8, 3, NULL);
	create(17, 0, NULL);
	cr_assert_eq(flat_stats(&flat).folios_created[3], 2);
	cr_assert_eq(flat_stats(&flat).folios_created[0], 1);
	cr_assert_eq(flat_stats(&flat).nr_cached, 17);
}

/* ---- batches ------------------------------------------------------------------------ */

Test(folio_filemap, a_batch_goes_on_where_the_last_one_ended)
{
	struct folio_batch batch;
	uint64_t start = 10;

	for (uint64_t index = 0; index < 100; index++)
		create(index, 0, NULL);
	cr_assert_eq(filemap_get_folios(flat_mapping(file), &start, 59, FILEMAP_ANY, &batch), 31);
	cr_assert_eq(start, 41);
	for (unsigned int i = 0; i < 31; i++) {
		cr_assert_eq(batch.folios[i]->index, 10 + i);
		cr_assert_eq(folio_ref_count(batch.folios[i]), 2);
	}
	filemap_release_folios(&batch);
	cr_assert_eq(filemap_get_folios(flat_mapping(file), &start, 59, FILEMAP_ANY, &batch), 19);
	cr_assert_eq(start, 60);
	filemap_release_folios(&batch);
	cr_assert_eq(filemap_get_folios(flat_mapping(file), &start, 59, FILEMAP_ANY, &batch), 0);
}

Test(folio_filemap, a_batch_starts_with_the_folio_that_covers_the_first_page)
{
	struct folio_batch batch;
	uint64_t start = 13;

	create(8, 3, NULL);
	create(16, 0, NULL);
	cr_assert_eq(filemap_get_folios(flat_mapping(file), &start, 15, FILEMAP_ANY, &batch), 1);
	cr_assert_eq(batch.folios[0]->index, 8);
	cr_assert_eq(start, 16);
	filemap_release_folios(&batch);
}

Test(folio_filemap, a_batch_with_a_tag_skips_the_others)
{
	struct folio_batch batch;
	uint64_t start = 0;

	flat_dirty_pages(file, 0, 8, 1);
	cr_assert_eq(flat_fsync(file), 0);
	flat_dirty_page(file, 2, 2);
	flat_dirty_page(file, 5, 2);
	cr_assert_eq(filemap_get_folios(flat_mapping(file), &start, UINT64_MAX >> 12, FILEMAP_DIRTY,
					&batch),
		     2);
	cr_assert_eq(batch.folios[0]->index, 2);
	cr_assert_eq(batch.folios[1]->index, 5);
	filemap_release_folios(&batch);
	start = 0;
	cr_assert_eq(filemap_get_folios(flat_mapping(file), &start, UINT64_MAX >> 12,
					FILEMAP_WRITEBACK, &batch),
		     0);
}

Test(folio_filemap, a_clean_range_needs_no_writeback)
{
	create(3, 0, NULL);
	cr_assert_not(filemap_range_needs_writeback(flat_mapping(file), 0, UINT64_MAX));
}

Test(folio_filemap, a_dirty_folio_needs_writeback_where_it_is)
{
	flat_dirty_page(file, 3, 1);
	cr_assert(filemap_range_needs_writeback(flat_mapping(file), 0, UINT64_MAX));
	cr_assert(filemap_range_needs_writeback(flat_mapping(file), 4 * PAGE - 1, 4 * PAGE - 1));
	cr_assert_not(filemap_range_needs_writeback(flat_mapping(file), 0, 3 * PAGE - 1));
	cr_assert_not(filemap_range_needs_writeback(flat_mapping(file), 4 * PAGE, UINT64_MAX));
}

Test(folio_filemap, a_locked_folio_counts_as_needing_writeback)
{
	struct folio *folio;

	cr_assert_eq(get(3, FGP_LOCK | FGP_CREAT, &folio), 0);
	cr_assert(filemap_range_needs_writeback(flat_mapping(file), 0, UINT64_MAX));
	folio_unlock_put(folio);
}

Test(folio_filemap, a_folio_under_writeback_counts_as_needing_writeback)
{
	start_held_write(3);
	cr_assert(filemap_range_needs_writeback(flat_mapping(file), 0, UINT64_MAX));
	flat_release(&flat);
	cr_assert_not(filemap_range_needs_writeback(flat_mapping(file), 0, UINT64_MAX));
}

/* ---- type-stable descriptors and races ---------------------------------------------- */

Test(folio_filemap, the_memory_of_an_evicted_folio_stays_a_descriptor)
{
	struct folio *folio;

	cr_assert_eq(get(3, FGP_CREAT, &folio), 0);
	folio_put(folio);
	cr_assert_eq(page_cache_drop(flat.cache), 1);
	cr_assert_eq(folio_ref_count(folio), 0);
	cr_assert_eq(folio->cache, flat.cache);
}

Test(folio_filemap, a_freed_descriptor_serves_again)
{
	struct folio *first, *second;

	cr_assert_eq(get(3, FGP_CREAT, &first), 0);
	folio_put(first);
	page_cache_drop(flat.cache);
	cr_assert_eq(get(99, FGP_CREAT, &second), 0);
	cr_assert_eq(first, second);
	cr_assert_eq(flat_stats(&flat).folio_bytes, sizeof(struct folio));
	folio_put(second);
}

#define RACE_PAGES  32
#define RACE_ROUNDS 4000

/* What a folio's first page says: whose page it is. */
static uint64_t page_stamp(const struct folio *folio)
{
	return folio->mapping->host->i_ino << 32 | folio->index;
}

struct race {
	struct flat_file *files[2];
	uint32_t nr_users; /* [a] still running */
};

/* Look-ups without lock: a folio that is uptodate is the one that was asked for. */
static void race_look_up(void *arg)
{
	struct race *race = arg;
	struct env_rng rng;

	env_rng_seed(&rng, (uint64_t)(uintptr_t)&rng);
	for (unsigned int round = 0; round < RACE_ROUNDS; round++) {
		struct flat_file *victim = race->files[round % 2];
		uint64_t index = env_rng_below(&rng, RACE_PAGES);
		struct folio *folio = flat_find(victim, index);
		uint64_t stamp;

		if (!folio)
			continue;
		cr_assert_leq(folio->index, index);
		cr_assert_lt(index, folio->index + folio_nr_pages(folio));
		if (folio_test(folio, FOLIO_UPTODATE)) {
			memcpy(&stamp, folio->data, sizeof(stamp));
			cr_assert_eq(stamp, victim->inode.i_ino << 32 | folio->index);
		}
		folio_put(folio);
	}
	__atomic_fetch_sub(&race->nr_users, 1, __ATOMIC_RELEASE);
}

static void race_create(void *arg)
{
	struct race *race = arg;
	struct env_rng rng;

	env_rng_seed(&rng, (uint64_t)(uintptr_t)&rng);
	for (unsigned int round = 0; round < RACE_ROUNDS; round++) {
		struct address_space *mapping = flat_mapping(race->files[round % 2]);
		uint64_t index = env_rng_below(&rng, RACE_PAGES);
		unsigned int hint = (unsigned int)env_rng_below(&rng, 4);
		struct folio *folio;
		uint64_t stamp;

		cr_assert_eq(filemap_get_folio(mapping, index, with_hint(hint), &folio), 0);
		cr_assert_eq(folio->mapping, mapping);
		cr_assert_lt(index - folio->index, folio_nr_pages(folio));
		stamp = page_stamp(folio);
		if (folio_test(folio, FOLIO_UPTODATE)) {
			cr_assert_eq(memcmp(folio->data, &stamp, sizeof(stamp)), 0);
		} else {
			memcpy(folio->data, &stamp, sizeof(stamp));
			folio_mark_uptodate(folio);
		}
		folio_unlock_put(folio);
	}
	__atomic_fetch_sub(&race->nr_users, 1, __ATOMIC_RELEASE);
}

static void race_evict(void *arg)
{
	struct race *race = arg;

	while (__atomic_load_n(&race->nr_users, __ATOMIC_ACQUIRE)) {
		page_cache_drop(flat.cache);
		filemap_invalidate_clean(flat_mapping(race->files[0]), 0, RACE_PAGES);
		filemap_truncate_range(flat_mapping(race->files[1]), 0, UINT64_MAX);
	}
}

Test(folio_filemap, look_ups_and_creations_race_with_eviction)
{
	struct race race = {.files = {file, flat_create(&flat, 2)}, .nr_users = 4};
	struct flat_thread threads[5];

	flat_thread_start(&threads[0], race_look_up, &race);
	flat_thread_start(&threads[1], race_look_up, &race);
	flat_thread_start(&threads[2], race_create, &race);
	flat_thread_start(&threads[3], race_create, &race);
	flat_thread_start(&threads[4], race_evict, &race);
	for (unsigned int i = 0; i < 5; i++)
		flat_thread_join(&threads[i]);
	page_cache_drop(flat.cache);
	cr_assert_eq(flat_stats(&flat).nr_cached, 0);
	cr_assert_eq(flat_stats(&flat).folio_bytes, 0);
	cr_assert_eq(flat_stats(&flat).nr_free, 16 * MiB / PAGE);
	flat_remove(race.files[1]);
}

#define TWINS 2000

static void create_all(void *arg)
{
	(void)arg;
	for (uint64_t index = 0; index < TWINS; index++) {
		struct folio *folio;

		cr_assert_eq(get(index, FGP_LOCK | FGP_CREAT, &folio), 0);
		cr_assert_eq(folio->index, index);
		folio_unlock_put(folio);
	}
}

Test(folio_filemap, two_creators_of_a_page_get_one_folio)
{
	struct flat_thread threads[2];
	uint64_t pages = 0;

	page_cache_trace_insert(flat.cache, count_insert, &pages);
	flat_thread_start(&threads[0], create_all, NULL);
	flat_thread_start(&threads[1], create_all, NULL);
	flat_thread_join(&threads[0]);
	flat_thread_join(&threads[1]);
	cr_assert_eq(pages, TWINS);
	cr_assert_eq(flat_stats(&flat).nr_cached, TWINS);
	page_cache_trace_insert(flat.cache, NULL, NULL);
}

Test(folio_filemap, no_memory_for_the_index_is_enomem_and_no_folio)
{
	struct folio *folio;
	uint64_t free_before = flat_stats(&flat).nr_free;

	create(0, 0, NULL);
	env_alloc_fail(0, 1000);
	cr_assert_eq(get(1ull << 30, with_hint(0), &folio), -ENOMEM);
	env_alloc_fail(0, 0);
	cr_assert_eq(flat_stats(&flat).nr_free, free_before - 1);
	cr_assert_eq(flat_stats(&flat).nr_cached, 1);
}

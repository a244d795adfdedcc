/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_folio_lock.c - one folio: its lock, its waits, its references
 */
#include <iomap/folio.h>

#include "tests/flat.h"

static struct flat flat;
static struct flat_file *file;
static struct folio *folio;

/* A folio of the cache with the caller's reference, not locked. */
static void open_flat(void)
{
	struct flat_config config;

	flat_config_init(&config);
	flat_open(&flat, &config);
	file = flat_create(&flat, 1);
	cr_assert_eq(filemap_get_folio(flat_mapping(file), 0, FGP_CREAT, &folio), 0);
}

static void close_flat(void)
{
	folio_put(folio);
	flat_remove(file);
	flat_close(&flat);
}

TestSuite(folio_lock, .init = open_flat, .fini = close_flat);

Test(folio_lock, trylock_takes_a_free_lock_once)
{
	cr_assert(folio_trylock(folio));
	cr_assert(folio_is_locked(folio));
	cr_assert_not(folio_trylock(folio));
	folio_unlock(folio);
	cr_assert_not(folio_is_locked(folio));
	cr_assert(folio_trylock(folio));
	folio_unlock(folio);
}

Test(folio_lock, lock_and_references_do_not_disturb_each_other)
{
	folio_lock(folio);
	folio_get(folio);
	cr_assert_eq(folio_ref_count(folio), 3);
	cr_assert(folio_is_locked(folio));
	folio_put(folio);
	cr_assert_eq(folio_ref_count(folio), 2);
	cr_assert(folio_is_locked(folio));
	folio_unlock(folio);
	cr_assert_eq(folio_ref_count(folio), 2);
}

Test(folio_lock, unlock_put_does_both)
{
	folio_get(folio);
	folio_lock(folio);
	folio_unlock_put(folio);
	cr_assert_not(folio_is_locked(folio));
	cr_assert_eq(folio_ref_count(folio), 2);
}

Test(folio_lock, the_last_put_of_a_removed_folio_frees_its_pages)
{
	uint64_t free_before = flat_stats(&flat).nr_free;

	filemap_truncate_range(flat_mapping(file), 0, UINT64_MAX);
	cr_assert_eq(folio->mapping, NULL);
	cr_assert_eq(folio_ref_count(folio), 1);
	cr_assert_eq(flat_stats(&flat).nr_free, free_before);
	folio_put(folio);
	cr_assert_eq(flat_stats(&flat).nr_free, free_before + 1);
	cr_assert_eq(filemap_get_folio(flat_mapping(file), 0, FGP_CREAT, &folio), 0);
}

#define COUNTERS 4
#define ROUNDS	 20000

static uint64_t shared; /* protected by the folio lock */

static void count_under_lock(void *arg)
{
	(void)arg;
	for (unsigned int i = 0; i < ROUNDS; i++) {
		folio_lock(folio);
		shared++;
		folio_unlock(folio);
	}
}

Test(folio_lock, one_holder_at_a_time)
{
	struct flat_thread threads[COUNTERS];

	shared = 0;
	for (unsigned int i = 0; i < COUNTERS; i++)
		flat_thread_start(&threads[i], count_under_lock, NULL);
	for (unsigned int i = 0; i < COUNTERS; i++)
		flat_thread_join(&threads[i]);
	cr_assert_eq(shared, COUNTERS * ROUNDS);
	cr_assert_not(folio_test(folio, FOLIO_LOCKED));
}

static void take_lock(void *arg)
{
	bool *taken = arg;

	folio_lock(folio);
	__atomic_store_n(taken, true, __ATOMIC_RELEASE);
	folio_unlock(folio);
}

Test(folio_lock, unlock_wakes_every_sleeper)
{
	bool taken[COUNTERS] = {false};
	struct flat_thread threads[COUNTERS];

	folio_lock(folio);
	for (unsigned int i = 0; i < COUNTERS; i++)
		flat_thread_start(&threads[i], take_lock, &taken[i]);
	flat_eventually(folio_test(folio, FOLIO_WAITERS));
	for (unsigned int i = 0; i < COUNTERS; i++)
		cr_assert_not(__atomic_load_n(&taken[i], __ATOMIC_ACQUIRE));
	folio_unlock(folio);
	for (unsigned int i = 0; i < COUNTERS; i++)
		flat_thread_join(&threads[i]);
}

static void wait_locked(void *arg)
{
	(void)arg;
	folio_wait_locked(folio);
}

Test(folio_lock, waiting_for_the_lock_does_not_take_it)
{
	struct flat_thread thread;

	folio_lock(folio);
	flat_thread_start(&thread, wait_locked, NULL);
	flat_eventually(folio_test(folio, FOLIO_WAITERS));
	cr_assert_not(flat_thread_is_done(&thread));
	folio_unlock(folio);
	flat_thread_join(&thread);
	cr_assert_not(folio_is_locked(folio));
}

Test(folio_lock, waiting_for_a_free_lock_returns_at_once)
{
	folio_wait_locked(folio);
	folio_wait_writeback(folio);
}

static void start_writeback(void)
{
	folio_lock(folio);
	folio_mark_uptodate(folio);
	folio_mark_dirty(folio);
	cr_assert(folio_clear_dirty_for_io(folio));
	folio_start_writeback(folio);
	folio_unlock(folio);
}

static void wait_writeback(void *arg)
{
	(void)arg;
	folio_wait_writeback(folio);
	cr_assert_not(folio_test(folio, FOLIO_WRITEBACK));
}

Test(folio_lock, the_end_of_writeback_wakes_its_sleepers)
{
	struct flat_thread threads[2];

	start_writeback();
	flat_thread_start(&threads[0], wait_writeback, NULL);
	flat_thread_start(&threads[1], wait_writeback, NULL);
	flat_eventually(folio_test(folio, FOLIO_WAITERS));
	folio_end_writeback(folio);
	flat_thread_join(&threads[0]);
	flat_thread_join(&threads[1]);
}

/* The sleepers' mark is one for both reasons: a wake-up for one must not lose the other. */
Test(folio_lock, sleepers_for_lock_and_writeback_do_not_lose_each_other)
{
	struct flat_thread for_lock, for_writeback;

	start_writeback();
	folio_lock(folio);
	flat_thread_start(&for_writeback, wait_writeback, NULL);
	flat_eventually(folio_test(folio, FOLIO_WAITERS));
	flat_thread_start(&for_lock, wait_locked, NULL);
	folio_unlock(folio);
	flat_thread_join(&for_lock);
	cr_assert_not(flat_thread_is_done(&for_writeback));
	folio_end_writeback(folio);
	flat_thread_join(&for_writeback);
}

Test(folio_lock, the_writeback_flag_can_be_waited_for_with_the_lock_held)
{
	struct flat_thread thread;

	start_writeback();
	folio_lock(folio);
	flat_thread_start(&thread, wait_writeback, NULL);
	flat_eventually(folio_test(folio, FOLIO_WAITERS));
	folio_end_writeback(folio);
	flat_thread_join(&thread);
	folio_unlock(folio);
}

static void end_read(void *arg)
{
	folio_end_read(folio, *(bool *)arg);
}

Test(folio_lock, any_thread_may_end_a_read)
{
	struct flat_thread thread;
	bool success = true;

	folio_lock(folio);
	flat_thread_start(&thread, end_read, &success);
	folio_wait_locked(folio);
	cr_assert(folio_test(folio, FOLIO_UPTODATE));
	flat_thread_join(&thread);
}

Test(folio_lock, a_failed_read_leaves_it_not_uptodate)
{
	folio_lock(folio);
	folio_end_read(folio, false);
	cr_assert_not(folio_is_locked(folio));
	cr_assert_not(folio_test(folio, FOLIO_UPTODATE));
}

Test(folio_lock, a_failed_read_does_not_take_uptodate_away)
{
	folio_lock(folio);
	folio_mark_uptodate(folio);
	folio_end_read(folio, false);
	cr_assert(folio_test(folio, FOLIO_UPTODATE));
}

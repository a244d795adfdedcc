/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_folio_readahead.c - buffered reads: hits, windows, orders, errors, ends of files
 */
#include <iomap/filemap.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <iomap/iomap.h>
#include "tests/flat.h"

#define FILE_PAGES 4096u

static struct flat flat;
static struct flat_file *file;

/* Folios put into the cache since the last look, in order. */
static struct {
	uint64_t index[FILE_PAGES];
	unsigned int order[FILE_PAGES];
	size_t nr;
} seen;

static void note_insert(void *arg, const struct inode *inode, uint64_t index, unsigned int order)
{
	(void)arg;
	(void)inode;
	seen.index[seen.nr] = index;
	seen.order[seen.nr] = order;
	seen.nr++;
}

static void open_flat(void)
{
	struct flat_config config;

	flat_config_init(&config);
	flat_open(&flat, &config);
	file = flat_create(&flat, 1);
	inode_size_write(&file->inode, FILE_PAGES * PAGE);
	page_cache_trace_insert(flat.cache, note_insert, NULL);
}

static void close_flat(void)
{
	page_cache_trace_insert(flat.cache, NULL, NULL);
	flat_remove(file);
	flat_close(&flat);
}

TestSuite(folio_readahead, .init = open_flat, .fini = close_flat);

static unsigned char buffer[FILE_PAGES * PAGE];

static void read_pages(uint64_t index, uint64_t nr)
{
	seen.nr = 0;
	cr_assert_eq(flat_read(file, buffer, nr * PAGE, index * PAGE), (ssize_t)(nr * PAGE));
}

/* The folios just added cover exactly pages [first, end), in order. */
static void assert_added(uint64_t first, uint64_t end)
{
	for (size_t i = 0; i < seen.nr; i++) {
		cr_assert_eq(seen.index[i], first);
		first += 1ull << seen.order[i];
	}
	cr_assert_eq(first, end);
}

/* The first marked page in [0, FILE_PAGES), or FILE_PAGES. */
static uint64_t marked_page(void)
{
	for (uint64_t index = 0; index < FILE_PAGES; index++) {
		struct folio *folio = flat_find(file, index);
		bool marked = folio && folio_test(folio, FOLIO_READAHEAD);

		if (folio)
			folio_put(folio);
		if (marked)
			return index;
	}
	return FILE_PAGES;
}

/* ---- hits --------------------------------------------------------------------------- */

/* M48: no I/O, no lock of the folio. */
Test(folio_readahead, a_hit_needs_neither_the_device_nor_the_lock)
{
	struct blkdev_count count;
	struct folio *folio;

	flat_dirty_page(file, 3, 8);
	cr_assert_eq(filemap_get_folio(flat_mapping(file), 3, FGP_LOCK, &folio), 0);
	cr_assert_eq(flat_read(file, buffer, PAGE, 3 * PAGE), (ssize_t)PAGE);
	cr_assert_eq(buffer[17], 8);
	folio_unlock_put(folio);
	blkdev_count_read(flat.count, &count);
	cr_assert_eq(count.ios[BIO_READ][BIO_DATA], 0);
}

Test(folio_readahead, a_read_marks_the_folio_used)
{
	struct folio *folio;

	flat_dirty_page(file, 3, 8);
	folio = flat_find(file, 3);
	folio_clear(folio, FOLIO_REFERENCED);
	cr_assert_eq(flat_read(file, buffer, 1, 3 * PAGE), 1);
	cr_assert(folio_test(folio, FOLIO_REFERENCED));
	folio_put(folio);
}

Test(folio_readahead, a_read_moves_the_position_by_what_it_returns)
{
	struct kiocb iocb = {.ki_filp = &file->file, .ki_pos = 5000};
	struct iov_iter iter;

	iov_iter_init(&iter, buffer, 12345);
	cr_assert_eq(filemap_read(&iocb, &iter), 12345);
	cr_assert_eq(iocb.ki_pos, 5000 + 12345);
	cr_assert_eq(iter.count, 0);
}

/* ---- ends of files (M54, M47) ------------------------------------------------------- */

Test(folio_readahead, bytes_past_the_end_are_not_returned)
{
	inode_size_write(&file->inode, 10000);
	memset(buffer, 0xee, sizeof(buffer));
	cr_assert_eq(flat_read(file, buffer, 100000, 9000), 1000);
	cr_assert_eq(buffer[999], 0);
	cr_assert_eq(buffer[1000], 0xee);
	cr_assert_eq(flat_read(file, buffer, 100, 10000), 0);
	cr_assert_eq(flat_read(file, buffer, 100, 1 << 30), 0);
}

Test(folio_readahead, a_read_of_an_empty_file_is_empty)
{
	inode_size_write(&file->inode, 0);
	cr_assert_eq(flat_read(file, buffer, 100, 0), 0);
	cr_assert_eq(flat_stats(&flat).nr_cached, 0);
}

Test(folio_readahead, a_read_of_nothing_is_nothing)
{
	cr_assert_eq(flat_read(file, buffer, 0, 0), 0);
	cr_assert_eq(flat_stats(&flat).nr_cached, 0);
}

/* M47 */
Test(folio_readahead, no_folio_passes_the_last_page)
{
	for (uint64_t pages = 1; pages < 100; pages += 9) {
		flat_truncate(file, 0);
		inode_size_write(&file->inode, pages * PAGE - 100);
		file->file.f_ra.prev_index = UINT64_MAX;
		for (uint64_t index = 0; index < pages; index++)
			flat_read(file, buffer, PAGE, index * PAGE);
		cr_assert_eq(flat_stats(&flat).nr_cached, pages);
	}
}

/* M47 with folios of several pages: only the first page is inside for sure. */
Test(folio_readahead, no_large_folio_starts_past_the_last_page)
{
	mapping_set_folio_order_range(flat_mapping(file), 3, 9);
	inode_size_write(&file->inode, 20 * PAGE + 1);
	cr_assert_eq(flat_read(file, buffer, sizeof(buffer), 0), (ssize_t)(20 * PAGE + 1));
	cr_assert_eq(flat_stats(&flat).nr_cached, 24);
}

/* E5 */
static size_t shrink_while_copying(struct iov_iter *iter, void *memory, size_t len)
{
	(void)memory;
	if (iter->done == 0)
		inode_size_write(&file->inode, PAGE);
	return len;
}

Test(folio_readahead, a_shrink_is_seen_at_the_next_folio)
{
	struct kiocb iocb = {.ki_filp = &file->file};
	struct iov_iter iter = {.count = 10 * PAGE, .copy = shrink_while_copying};

	mapping_set_folio_order_range(flat_mapping(file), 0, 0);
	cr_assert_eq(filemap_read(&iocb, &iter), (ssize_t)PAGE);
}

static size_t copy_little(struct iov_iter *iter, void *memory, size_t len)
{
	(void)memory;
	return iter->done + len <= 6000 ? len : 6000 - iter->done;
}

Test(folio_readahead, a_destination_that_ends_gives_a_short_count)
{
	struct kiocb iocb = {.ki_filp = &file->file};
	struct iov_iter iter = {.count = 10 * PAGE, .copy = copy_little};

	cr_assert_eq(filemap_read(&iocb, &iter), 6000);
	cr_assert_eq(iocb.ki_pos, 6000);
	cr_assert_eq(filemap_read(&iocb, &iter), -EFAULT);
}

/* ---- windows (E12, J14) ------------------------------------------------------------- */

/* The limit is 32 pages. */
Test(folio_readahead, the_first_window_follows_the_request)
{
	static const struct {
		uint64_t request, window;
	} cases[] = {{1, 4}, {2, 4}, {3, 8}, {4, 8}, {5, 16}, {8, 16}, {9, 32}, {32, 32}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		flat_truncate(file, 0);
		inode_size_write(&file->inode, FILE_PAGES * PAGE);
		file->file.f_ra.prev_index = UINT64_MAX;
		read_pages(0, cases[i].request);
		/* The mark of a window that was read whole starts the next one at once. */
		if (cases[i].request < cases[i].window) {
			assert_added(0, cases[i].window);
			cr_assert_eq(marked_page(), cases[i].request);
		}
	}
}

Test(folio_readahead, the_mark_starts_the_next_window)
{
	read_pages(0, 1);
	assert_added(0, 4);
	read_pages(1, 1);
	assert_added(4, 12);
	cr_assert_eq(marked_page(), 4);
	read_pages(2, 2);
	cr_assert_eq(seen.nr, 0);
	/* 16 pages in folios of 16: the end is rounded down to their alignment. */
	read_pages(4, 1);
	assert_added(12, 16);
	cr_assert_eq(marked_page(), 12);
}

Test(folio_readahead, windows_do_not_exceed_the_limit)
{
	for (uint64_t index = 0; index < 512; index++) {
		uint64_t first;

		read_pages(index, 1);
		if (!seen.nr)
			continue;
		first = seen.index[0];
		cr_assert_leq(seen.index[seen.nr - 1] + (1ull << seen.order[seen.nr - 1]) - first,
			      32);
	}
}

Test(folio_readahead, orders_grow_by_two_with_each_window)
{
	unsigned int previous = 0;

	read_pages(0, 1);
	cr_assert_eq(seen.order[0], 0);
	for (uint64_t index = 1; index < 256; index++) {
		read_pages(index, 1);
		for (size_t i = 0; i < seen.nr; i++) {
			cr_assert_leq(seen.order[i], previous + 2);
			cr_assert_eq(seen.index[i] % (1ull << seen.order[i]), 0);
		}
		for (size_t i = 0; i < seen.nr; i++)
			previous = seen.order[i] > previous ? seen.order[i] : previous;
	}
	/* 32 pages at most are order 5 at most. */
	cr_assert_eq(previous, 5);
}

Test(folio_readahead, a_small_random_read_reads_just_that)
{
	struct file_ra_state before;

	read_pages(0, 1);
	before = file->file.f_ra;
	read_pages(1000, 2);
	assert_added(1000, 1002);
	cr_assert_eq(seen.order[0], 0);
	cr_assert_eq(file->file.f_ra.start, before.start);
	cr_assert_eq(file->file.f_ra.size, before.size);
	cr_assert_eq(file->file.f_ra.async_size, before.async_size);
}

Test(folio_readahead, a_read_after_the_last_one_is_sequential)
{
	read_pages(1000, 1);
	assert_added(1000, 1001);
	read_pages(1001, 1);
	assert_added(1001, 1005);
}

Test(folio_readahead, random_files_read_just_the_request)
{
	file->file.f_flags |= FILE_RANDOM;
	read_pages(0, 3);
	assert_added(0, 3);
	read_pages(3, 1);
	assert_added(3, 4);
	cr_assert_eq(marked_page(), FILE_PAGES);
}

Test(folio_readahead, sequential_files_have_twice_the_window)
{
	uint64_t largest = 0;

	file->file.f_flags |= FILE_SEQUENTIAL;
	for (uint64_t index = 0; index < 512; index++) {
		uint64_t pages = 0;

		read_pages(index, 1);
		for (size_t i = 0; i < seen.nr; i++)
			pages += 1ull << seen.order[i];
		largest = pages > largest ? pages : largest;
	}
	cr_assert_eq(largest, 64);
}

Test(folio_readahead, a_limit_of_zero_reads_just_the_request)
{
	file->file.f_ra.ra_pages = 0;
	read_pages(0, 2);
	assert_added(0, 2);
}

Test(folio_readahead, the_largest_order_of_the_mapping_holds)
{
	mapping_set_folio_order_range(flat_mapping(file), 0, 1);
	for (uint64_t index = 0; index < 256; index++) {
		read_pages(index, 1);
		for (size_t i = 0; i < seen.nr; i++)
			cr_assert_leq(seen.order[i], 1);
	}
}

Test(folio_readahead, the_least_order_of_the_mapping_holds)
{
	mapping_set_folio_order_range(flat_mapping(file), 2, 9);
	for (uint64_t index = 0; index < 256; index++) {
		read_pages(index, 1);
		for (size_t i = 0; i < seen.nr; i++)
			cr_assert_geq(seen.order[i], 2);
	}
}

Test(folio_readahead, cached_pages_in_the_window_are_skipped)
{
	flat_dirty_page(file, 2, 9);
	read_pages(0, 1);
	cr_assert_eq(seen.nr, 3);
	cr_assert_eq(seen.index[0], 0);
	cr_assert_eq(seen.index[1], 1);
	cr_assert_eq(seen.index[2], 3);
	cr_assert_eq(flat_read(file, buffer, 4 * PAGE, 0), (ssize_t)(4 * PAGE));
	cr_assert_eq(buffer[2 * PAGE], 9);
	cr_assert_eq(buffer[3 * PAGE], 0);
}

/* J14: then single pages do. */
Test(folio_readahead, a_failed_allocation_falls_back_to_the_least_order)
{
	read_pages(0, 8);
	page_cache_fail_alloc(flat.cache, 1, 100000);
	for (uint64_t index = 8; index < 128; index++) {
		read_pages(index, 1);
		for (size_t i = 0; i < seen.nr; i++)
			cr_assert_eq(seen.order[i], 0);
	}
	page_cache_fail_alloc(flat.cache, 0, 0);
}

Test(folio_readahead, a_read_without_memory_is_enomem)
{
	page_cache_fail_alloc(flat.cache, 0, 100000);
	cr_assert_eq(flat_read(file, buffer, PAGE, 0), -ENOMEM);
	page_cache_fail_alloc(flat.cache, 0, 0);
	cr_assert_eq(flat_read(file, buffer, PAGE, 0), (ssize_t)PAGE);
}

Test(folio_readahead, data_read_through_windows_is_the_files)
{
	for (uint64_t index = 0; index < 300; index++)
		flat_dirty_page(file, index, (unsigned char)(index % 251));
	cr_assert_eq(flat_fsync(file), 0);
	for (unsigned int step = 1; step < 50; step += 7) {
		page_cache_drop(flat.cache);
		for (uint64_t index = 0; index + step <= 300; index += step) {
			read_pages(index, step);
			for (unsigned int i = 0; i < step; i++)
				cr_assert_eq(buffer[i * PAGE + 100],
					     (unsigned char)((index + i) % 251));
		}
	}
}

/* ---- errors (M55, E4) --------------------------------------------------------------- */

static void fail_reads(uint64_t index, uint64_t nr)
{
	struct blkdev_fault_rule rule = {.op = BIO_READ,
					 .kind = -1,
					 .addr = FLAT_FILE_BYTES + index * PAGE,
					 .len = nr * PAGE,
					 .error = -EIO};

	cr_assert_eq(blkdev_fault_add(flat.dev, &rule), 0);
}

/* M55 */
Test(folio_readahead, an_error_ahead_is_not_seen_before_its_page)
{
	fail_reads(2, 1);
	read_pages(0, 2);
	cr_assert_eq(flat_read(file, buffer, PAGE, 2 * PAGE), -EIO);
	read_pages(3, 1);
}

Test(folio_readahead, an_error_behind_good_bytes_gives_a_short_count)
{
	fail_reads(2, 1);
	mapping_set_folio_order_range(flat_mapping(file), 0, 0);
	cr_assert_eq(flat_read(file, buffer, 4 * PAGE, 0), (ssize_t)(2 * PAGE));
}

/* M52 */
Test(folio_readahead, a_later_read_of_a_healthy_device_succeeds)
{
	fail_reads(0, 8);
	cr_assert_eq(flat_read(file, buffer, PAGE, 0), -EIO);
	blkdev_fault_clear(flat.dev);
	read_pages(0, 4);
}

Test(folio_readahead, an_error_makes_the_window_smaller)
{
	fail_reads(0, 1);
	cr_assert_eq(file->file.f_ra.ra_pages, 32);
	cr_assert_eq(flat_read(file, buffer, PAGE, 0), -EIO);
	cr_assert_eq(file->file.f_ra.ra_pages, 8);
}

static int refuse_read(struct flat_file *one, struct folio *folio)
{
	(void)one;
	(void)folio;
	return -ENOMEM;
}

Test(folio_readahead, an_error_of_the_back_end_is_the_readers)
{
	/* Without readahead, so that the folio is made by the read itself. */
	static struct address_space_operations ops;

	ops = *flat_mapping(file)->a_ops;
	ops.readahead = NULL;
	flat_mapping(file)->a_ops = &ops;
	flat.on_read_folio = refuse_read;
	cr_assert_eq(flat_read(file, buffer, PAGE, 0), -ENOMEM);
	cr_assert_eq(flat_read(file, buffer, PAGE, 0), -ENOMEM);
	flat.on_read_folio = NULL;
	/* Nobody holds what was tried. */
	page_cache_drop(flat.cache);
	cr_assert_eq(flat_stats(&flat).nr_cached, 0);
	cr_assert_eq(flat_stats(&flat).folio_bytes, 0);
}

static void take_no_folio(struct readahead_control *rac)
{
	(void)rac;
}

/* E8 */
Test(folio_readahead, folios_the_back_end_does_not_take_are_removed)
{
	static struct address_space_operations ops;

	ops = *flat_mapping(file)->a_ops;
	ops.readahead = take_no_folio;
	flat_mapping(file)->a_ops = &ops;
	read_pages(0, 1);
	cr_assert_eq(flat_stats(&flat).nr_cached, 1);
	cr_assert_eq(file->nr_read_folio, 1);
}

static void take_one_folio(struct readahead_control *rac)
{
	struct folio *folio = filemap_readahead_folio(rac);

	if (!folio)
		return;
	memset(folio->data, 1, folio_size(folio));
	folio_end_read(folio, true);
}

/* E8 */
Test(folio_readahead, folios_behind_the_last_taken_one_are_removed)
{
	static struct address_space_operations ops;

	ops = *flat_mapping(file)->a_ops;
	ops.readahead = take_one_folio;
	flat_mapping(file)->a_ops = &ops;
	read_pages(0, 1);
	cr_assert_eq(buffer[0], 1);
	cr_assert_eq(flat_stats(&flat).nr_cached, 1);
	cr_assert_eq(file->nr_read_folio, 0);
}

/* ---- NOWAIT and waits --------------------------------------------------------------- */

static ssize_t read_nowait(uint64_t pos, size_t len)
{
	struct kiocb iocb = {.ki_filp = &file->file, .ki_pos = pos, .ki_flags = IOCB_NOWAIT};
	struct iov_iter iter;

	iov_iter_init(&iter, buffer, len);
	return filemap_read(&iocb, &iter);
}

Test(folio_readahead, nowait_reads_what_is_cached)
{
	flat_dirty_page(file, 0, 1);
	cr_assert_eq(read_nowait(0, PAGE), (ssize_t)PAGE);
	cr_assert_eq(read_nowait(0, 4 * PAGE), (ssize_t)PAGE);
}

Test(folio_readahead, nowait_gives_eagain_where_nothing_is_cached)
{
	cr_assert_eq(read_nowait(0, PAGE), -EAGAIN);
	cr_assert_eq(flat_stats(&flat).nr_cached, 0);
}

Test(folio_readahead, nowait_gives_eagain_for_a_folio_that_is_being_read)
{
	struct folio *folio;

	cr_assert_eq(filemap_get_folio(flat_mapping(file), 0, FGP_LOCK | FGP_CREAT, &folio), 0);
	cr_assert_eq(read_nowait(0, PAGE), -EAGAIN);
	folio_unlock(folio);
	/* It would have to read it. */
	cr_assert_eq(read_nowait(0, PAGE), -EAGAIN);
	folio_put(folio);
}

Test(folio_readahead, nowait_gives_eagain_while_the_cache_is_being_removed)
{
	struct folio *folio;

	cr_assert_eq(filemap_get_folio(flat_mapping(file), 0, FGP_CREAT, &folio), 0);
	folio_put(folio);
	env_rwsem_write_lock(&flat_mapping(file)->invalidate_lock);
	cr_assert_eq(read_nowait(0, PAGE), -EAGAIN);
	env_rwsem_write_unlock(&flat_mapping(file)->invalidate_lock);
}

static void read_first_page(void *arg)
{
	unsigned char bytes[PAGE];

	(void)arg;
	cr_assert_eq(flat_read(file, bytes, sizeof(bytes), 0), (ssize_t)PAGE);
}

/* M53 */
Test(folio_readahead, a_reader_waits_for_the_read_of_another)
{
	struct flat_thread threads[2];
	struct folio *folio = NULL;

	flat_hold(&flat, BIO_READ);
	flat_thread_start(&threads[0], read_first_page, NULL);
	flat_eventually(blkdev_fault_held(flat.dev) == 4);
	folio = flat_find(file, 0);
	cr_assert(folio_is_locked(folio));
	flat_thread_start(&threads[1], read_first_page, NULL);
	/* The two readers and this thread, beside the index. */
	flat_eventually(folio_ref_count(folio) == 4);
	cr_assert_not(flat_thread_is_done(&threads[0]));
	cr_assert_not(flat_thread_is_done(&threads[1]));
	folio_put(folio);
	flat_release(&flat);
	flat_thread_join(&threads[0]);
	flat_thread_join(&threads[1]);
	cr_assert_eq(file->nr_read_folio, 0);
}

static void read_page_100(void *arg)
{
	unsigned char bytes[PAGE];

	(void)arg;
	cr_assert_eq(flat_read(file, bytes, sizeof(bytes), 100 * PAGE), (ssize_t)PAGE);
}

/* The reader waits for its page, not for the window. */
Test(folio_readahead, what_is_read_ahead_is_not_waited_for)
{
	struct blkdev_fault_rule rule = {
		.op = BIO_READ, .kind = -1, .addr = FLAT_FILE_BYTES + 101 * PAGE, .len = 3 * PAGE};
	struct flat_thread thread;

	cr_assert_eq(blkdev_fault_add(flat.dev, &rule), 0);
	file->file.f_ra.prev_index = 99;
	flat_thread_start(&thread, read_page_100, NULL);
	flat_thread_join(&thread);
	cr_assert_eq(blkdev_fault_held(flat.dev), 3);
	flat_release(&flat);
}

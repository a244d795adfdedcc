/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_folio_errseq.c - who is told of a failed write, and how often
 */
#include <iomap/fs.h>

#include <errno.h>
#include <string.h>
#include "tests/flat.h"

static struct flat flat;
static struct flat_file *inode;
static struct file a, b;

static void open_flat(void)
{
	struct flat_config config;

	flat_config_init(&config);
	flat_open(&flat, &config);
	inode = flat_create(&flat, 1);
	file_init(&a, &inode->inode, 0);
	file_init(&b, &inode->inode, 0);
}

static void close_flat(void)
{
	file_release(&a);
	file_release(&b);
	flat_remove(inode);
	flat_close(&flat);
}

TestSuite(folio_errseq, .init = open_flat, .fini = close_flat);

static int sync_file(struct file *file)
{
	return file_fsync(file, 0, UINT64_MAX, false);
}

static void record(int error)
{
	mapping_set_error(flat_mapping(inode), error);
}

Test(folio_errseq, without_an_error_fsync_is_silent)
{
	cr_assert_eq(sync_file(&a), 0);
	flat_dirty_page(inode, 0, 1);
	cr_assert_eq(sync_file(&a), 0);
}

/* M83 */
Test(folio_errseq, a_file_is_told_once)
{
	record(-EIO);
	cr_assert_eq(sync_file(&a), -EIO);
	cr_assert_eq(sync_file(&a), 0);
	cr_assert_eq(sync_file(&a), 0);
}

/* M84 */
Test(folio_errseq, every_file_open_before_is_told_once)
{
	record(-EIO);
	cr_assert_eq(sync_file(&a), -EIO);
	cr_assert_eq(sync_file(&b), -EIO);
	cr_assert_eq(sync_file(&a), 0);
	cr_assert_eq(sync_file(&b), 0);
}

/* M84 */
Test(folio_errseq, a_file_opened_after_the_report_is_not_told)
{
	struct file late;

	record(-EIO);
	cr_assert_eq(sync_file(&a), -EIO);
	file_init(&late, &inode->inode, 0);
	cr_assert_eq(sync_file(&late), 0);
	file_release(&late);
	cr_assert_eq(sync_file(&b), -EIO);
}

/* M85, K25 */
Test(folio_errseq, a_file_opened_after_an_unseen_error_is_told)
{
	struct file late;

	record(-EIO);
	file_init(&late, &inode->inode, 0);
	cr_assert_eq(sync_file(&late), -EIO);
	cr_assert_eq(sync_file(&late), 0);
	cr_assert_eq(sync_file(&a), -EIO);
	file_release(&late);
}

/* M88, K24 */
Test(folio_errseq, two_errors_before_a_look_are_one_report_of_the_latest)
{
	record(-EIO);
	record(-ENOSPC);
	cr_assert_eq(sync_file(&a), -ENOSPC);
	cr_assert_eq(sync_file(&a), 0);
}

Test(folio_errseq, an_identical_unseen_error_changes_nothing)
{
	errseq_t word;

	record(-EIO);
	word = flat_mapping(inode)->wb_err;
	record(-EIO);
	cr_assert_eq(flat_mapping(inode)->wb_err, word);
}

Test(folio_errseq, the_same_error_after_a_report_is_a_new_one)
{
	record(-EIO);
	cr_assert_eq(sync_file(&a), -EIO);
	record(-EIO);
	cr_assert_eq(sync_file(&a), -EIO);
	cr_assert_eq(sync_file(&a), 0);
	cr_assert_eq(sync_file(&b), -EIO);
	cr_assert_eq(sync_file(&b), 0);
}

/* K29 */
Test(folio_errseq, an_error_in_another_range_is_reported)
{
	flat_dirty_page(inode, 9, 1);
	record(-EIO);
	cr_assert_eq(file_fsync(&a, 0, PAGE - 1, false), -EIO);
}

/* M82, K26 */
Test(folio_errseq, a_failed_write_is_reported_and_not_retried)
{
	struct blkdev_fault_rule rule = {.op = BIO_WRITE, .kind = -1, .count = 1, .error = -EIO};
	struct blkdev_count count;
	struct folio *folio;

	flat_dirty_page(inode, 0, 1);
	cr_assert_eq(blkdev_fault_add(flat.dev, &rule), 0);
	cr_assert_eq(sync_file(&a), -EIO);
	folio = flat_find(inode, 0);
	cr_assert(folio_test(folio, FOLIO_UPTODATE));
	cr_assert_not(folio_test(folio, FOLIO_DIRTY | FOLIO_WRITEBACK));
	folio_put(folio);
	cr_assert_eq(sync_file(&a), 0);
	cr_assert_eq(sync_file(&b), -EIO);
	blkdev_count_read(flat.count, &count);
	cr_assert_eq(count.ios[BIO_WRITE][BIO_DATA], 0);
}

Test(folio_errseq, an_error_of_the_flusher_is_reported)
{
	struct blkdev_fault_rule rule = {.op = BIO_WRITE, .kind = -1, .error = -ENOSPC};

	flat_dirty_page(inode, 0, 1);
	cr_assert_eq(blkdev_fault_add(flat.dev, &rule), 0);
	super_sync(&flat.sb);
	blkdev_fault_clear(flat.dev);
	cr_assert_eq(sync_file(&a), -ENOSPC);
	cr_assert_eq(sync_file(&b), -ENOSPC);
	cr_assert_eq(sync_file(&b), 0);
}

static int fail_mapping(struct flat_file *file, struct folio *folio)
{
	(void)file;
	return folio->index % 2 ? 0 : -ENOSPC;
}

/* M74 */
Test(folio_errseq, a_failed_mapping_does_not_stop_an_integrity_pass)
{
	struct blkdev_count count;

	flat_dirty_pages(inode, 0, 8, 1);
	flat.on_write_folio = fail_mapping;
	cr_assert_eq(sync_file(&a), -ENOSPC);
	flat.on_write_folio = NULL;
	blkdev_count_read(flat.count, &count);
	cr_assert_eq(count.ios[BIO_WRITE][BIO_DATA], 4);
	cr_assert_eq(sync_file(&a), 0);
}

/* M75 */
Test(folio_errseq, a_failed_mapping_stops_a_best_effort_pass)
{
	struct blkdev_count count;

	flat_dirty_pages(inode, 0, 8, 1);
	flat.on_write_folio = fail_mapping;
	cr_assert_eq(filemap_fdatawrite_range(flat_mapping(inode), PAGE, UINT64_MAX, WB_SYNC_NONE),
		     -ENOSPC);
	flat.on_write_folio = NULL;
	blkdev_count_read(flat.count, &count);
	cr_assert_eq(count.ios[BIO_WRITE][BIO_DATA], 1);
	cr_assert_eq(flat_stats(&flat).nr_dirty, 6);
}

Test(folio_errseq, a_read_error_is_no_write_error)
{
	struct blkdev_fault_rule rule = {.op = BIO_READ, .kind = -1, .error = -EIO};
	char byte;

	flat_dirty_page(inode, 0, 1);
	cr_assert_eq(sync_file(&a), 0);
	page_cache_drop(flat.cache);
	cr_assert_eq(blkdev_fault_add(flat.dev, &rule), 0);
	cr_assert_eq(flat_read(inode, &byte, 1, 0), -EIO);
	blkdev_fault_clear(flat.dev);
	cr_assert_eq(sync_file(&a), 0);
}

/* M87, K27 */
Test(folio_errseq, syncfs_has_a_report_of_its_own)
{
	errseq_t sample = 0;

	record(-EIO);
	cr_assert_eq(sync_file(&a), -EIO);
	cr_assert_eq(super_syncfs(&flat.sb, &sample), -EIO);
	cr_assert_eq(super_syncfs(&flat.sb, &sample), 0);
	cr_assert_eq(sync_file(&b), -EIO);
}

Test(folio_errseq, syncfs_tells_of_any_file)
{
	struct blkdev_fault_rule rule = {.op = BIO_WRITE, .kind = -1, .count = 1, .error = -EIO};
	struct flat_file *other = flat_create(&flat, 2);
	errseq_t sample = 0;

	flat_dirty_page(other, 0, 1);
	cr_assert_eq(blkdev_fault_add(flat.dev, &rule), 0);
	cr_assert_eq(super_syncfs(&flat.sb, &sample), -EIO);
	cr_assert_eq(sync_file(&a), 0);
	cr_assert_eq(flat_fsync(other), -EIO);
	flat_remove(other);
}

/* K27 */
Test(folio_errseq, the_internal_check_prefers_eio_and_clears)
{
	record(-ENOSPC);
	record(-EIO);
	cr_assert_eq(mapping_check_errors(flat_mapping(inode)), -EIO);
	cr_assert_eq(mapping_check_errors(flat_mapping(inode)), 0);
	record(-ENOSPC);
	cr_assert_eq(mapping_check_errors(flat_mapping(inode)), -ENOSPC);
}

Test(folio_errseq, write_and_wait_uses_the_internal_check)
{
	struct blkdev_fault_rule rule = {.op = BIO_WRITE, .kind = -1, .count = 1, .error = -EIO};

	flat_dirty_page(inode, 0, 1);
	cr_assert_eq(blkdev_fault_add(flat.dev, &rule), 0);
	cr_assert_eq(filemap_write_and_wait_range(flat_mapping(inode), 0, UINT64_MAX), -EIO);
	cr_assert_eq(filemap_write_and_wait_range(flat_mapping(inode), 0, UINT64_MAX), 0);
	/* The files are told nevertheless. */
	cr_assert_eq(sync_file(&a), -EIO);
}

/* ---- waiting and metadata ----------------------------------------------------------- */

static void fsync_thread(void *arg)
{
	cr_assert_eq(sync_file(arg), 0);
}

/* M86 */
Test(folio_errseq, fsync_waits_for_writes_that_others_started)
{
	struct flat_thread thread;
	struct folio *folio;

	flat_dirty_page(inode, 0, 1);
	flat_hold(&flat, BIO_WRITE);
	filemap_fdatawrite_range(flat_mapping(inode), 0, UINT64_MAX, WB_SYNC_NONE);
	folio = flat_find(inode, 0);
	flat_thread_start(&thread, fsync_thread, &a);
	flat_eventually(folio_test(folio, FOLIO_WAITERS));
	cr_assert_not(flat_thread_is_done(&thread));
	folio_put(folio);
	flat_release(&flat);
	flat_thread_join(&thread);
}

static uint32_t nr_reports; /* [a] */

static void count_reports(void *arg)
{
	for (unsigned int i = 0; i < 100; i++)
		if (sync_file(arg) == -EIO)
			__atomic_fetch_add(&nr_reports, 1, __ATOMIC_RELAXED);
}

/* L12 */
Test(folio_errseq, two_threads_on_one_file_get_one_report)
{
	struct flat_thread threads[2];

	record(-EIO);
	flat_thread_start(&threads[0], count_reports, &a);
	flat_thread_start(&threads[1], count_reports, &a);
	flat_thread_join(&threads[0]);
	flat_thread_join(&threads[1]);
	cr_assert_eq(nr_reports, 1);
}

static uint32_t nr_fsync_calls;
static bool last_datasync;

static int note_fsync(struct inode *one, bool datasync)
{
	(void)one;
	nr_fsync_calls++;
	last_datasync = datasync;
	return nr_fsync_calls == 2 ? -EROFS : 0;
}

Test(folio_errseq, the_back_end_commits_after_the_data)
{
	static const struct super_operations ops = {.fsync = note_fsync};
	struct super_block sb;
	struct flat_file *other;

	cr_assert_eq(super_init(&sb, flat.cache, flat.bdi, PAGE, &ops), 0);
	other = flat_create_on(&flat, &sb, 2);
	cr_assert_eq(file_fsync(&other->file, 0, UINT64_MAX, true), 0);
	cr_assert(last_datasync);
	cr_assert_eq(file_fsync(&other->file, 0, UINT64_MAX, false), -EROFS);
	cr_assert_not(last_datasync);
	mapping_set_error(flat_mapping(other), -EIO);
	cr_assert_eq(file_fsync(&other->file, 0, UINT64_MAX, false), -EIO);
	cr_assert_eq(nr_fsync_calls, 3);
	flat_remove(other);
	super_shutdown(&sb);
}

static uint32_t nr_failures; /* [a] of writepages still to come */

static int fail_with_enomem(struct flat_file *file, struct folio *folio)
{
	uint32_t left = __atomic_load_n(&nr_failures, __ATOMIC_RELAXED);

	(void)file;
	if (!left)
		return 0;
	__atomic_store_n(&nr_failures, left - 1, __ATOMIC_RELAXED);
	/* The back end could not even begin: the folio is as dirty as before. */
	folio_mark_dirty(folio);
	return -ENOMEM;
}

/* K17 */
Test(folio_errseq, an_integrity_write_without_memory_is_tried_again)
{
	unsigned char bytes[PAGE];

	flat_dirty_page(inode, 0, 3);
	nr_failures = 3;
	flat.on_write_folio = fail_with_enomem;
	/* The mapping has noted the failure, the data has arrived. */
	sync_file(&a);
	flat.on_write_folio = NULL;
	cr_assert_eq(nr_failures, 0);
	cr_assert_eq(flat_stats(&flat).nr_dirty, 0);
	flat_device_read(inode, bytes, sizeof(bytes), 0);
	cr_assert_eq(bytes[0], 3);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_folio_truncate.c - folios leave with the bytes they hold: truncate, invalidate
 */
#include <iomap/filemap.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <iomap/fsbackend.h>
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

TestSuite(folio_truncate, .init = open_flat, .fini = close_flat);

/* Every byte of [pos, pos + len) of the file is `byte`. */
static void assert_bytes(uint64_t pos, size_t len, unsigned char byte)
{
	unsigned char *back = malloc(len);

	cr_assert(back);
	cr_assert_eq(flat_read(file, back, len, pos), (ssize_t)len);
	for (size_t i = 0; i < len; i++)
		cr_assert_eq(back[i], byte, "byte %zu: %d", (size_t)pos + i, back[i]);
	free(back);
}

static void write_bytes(uint64_t pos, size_t len, unsigned char byte)
{
	unsigned char *bytes = malloc(len);

	cr_assert(bytes);
	memset(bytes, byte, len);
	cr_assert_eq(flat_write(file, bytes, len, pos), (ssize_t)len);
	free(bytes);
}

/* ---- whole folios ------------------------------------------------------------------- */

/* M94 */
Test(folio_truncate, nothing_at_or_past_the_new_size_stays)
{
	struct folio_batch batch;
	uint64_t start = 10;

	write_bytes(0, 100 * PAGE, 1);
	flat_truncate(file, 10 * PAGE);
	/* A dirty folio across the new size is not split. */
	cr_assert_eq(filemap_get_folios(flat_mapping(file), &start, 1000, FILEMAP_ANY, &batch), 1);
	cr_assert_lt(batch.folios[0]->index, 10);
	filemap_release_folios(&batch);
	assert_bytes(0, 10 * PAGE, 1);
}

Test(folio_truncate, single_pages_past_the_new_size_go)
{
	flat_dirty_pages(file, 0, 100, 1);
	flat_truncate(file, 10 * PAGE);
	cr_assert_eq(flat_stats(&flat).nr_cached, 10);
	cr_assert_eq(flat_stats(&flat).nr_dirty, 10);
}

Test(folio_truncate, removing_dirty_folios_writes_nothing)
{
	struct blkdev_count count;

	write_bytes(0, 100 * PAGE, 1);
	flat_truncate(file, 0);
	cr_assert_eq(flat_stats(&flat).nr_cached, 0);
	cr_assert_eq(flat_stats(&flat).nr_dirty, 0);
	cr_assert_eq(flat_wb_stats(&flat, 0).reclaimable, 0);
	cr_assert_eq(flat_fsync(file), 0);
	blkdev_count_read(flat.count, &count);
	cr_assert_eq(count.ios[BIO_WRITE][BIO_DATA], 0);
}

/* M95 */
Test(folio_truncate, a_range_takes_only_what_is_inside)
{
	flat_dirty_pages(file, 0, 20, 1);
	cr_assert_eq(flat_fsync(file), 0);
	filemap_truncate_range(flat_mapping(file), 5 * PAGE, 9 * PAGE - 1);
	for (uint64_t index = 0; index < 20; index++)
		cr_assert_eq(flat_is_cached(file, index), index < 5 || index >= 9);
}

/* M95 */
Test(folio_truncate, the_covered_part_of_a_dirty_folio_is_zeroed)
{
	struct folio *folio = flat_new_folio(file, 0, 3);

	memset(folio->data, 7, 8 * PAGE);
	folio_mark_dirty(folio);
	folio_unlock_put(folio);
	filemap_truncate_range(flat_mapping(file), PAGE + 100, 3 * PAGE + 49);
	assert_bytes(0, PAGE + 100, 7);
	assert_bytes(PAGE + 100, 2 * PAGE - 50, 0);
	assert_bytes(3 * PAGE + 50, 5 * PAGE - 50, 7);
}

/* M96 */
Test(folio_truncate, the_rest_of_a_dirty_folio_is_written_later)
{
	unsigned char back[3 * PAGE];
	struct folio *folio = flat_new_folio(file, 0, 3);

	memset(folio->data, 7, 8 * PAGE);
	folio_mark_dirty(folio);
	folio_unlock_put(folio);
	flat_truncate(file, 2 * PAGE + 10);
	cr_assert_eq(flat_fsync(file), 0);
	flat_device_read(file, back, sizeof(back), 0);
	for (size_t i = 0; i < sizeof(back); i++)
		cr_assert_eq(back[i], i < 2 * PAGE + 10 ? 7 : 0);
}

/* M95: a clean folio at the edge may go, since it can be read again. */
Test(folio_truncate, the_rest_of_a_clean_folio_reads_as_before)
{
	write_bytes(0, 8 * PAGE, 7);
	cr_assert_eq(flat_fsync(file), 0);
	filemap_truncate_range(flat_mapping(file), 2 * PAGE, 5 * PAGE - 1);
	assert_bytes(0, 2 * PAGE, 7);
	assert_bytes(5 * PAGE, 3 * PAGE, 7);
}

Test(folio_truncate, a_range_inside_one_page_zeroes_just_that)
{
	flat_dirty_page(file, 3, 9);
	filemap_truncate_range(flat_mapping(file), 3 * PAGE + 5, 3 * PAGE + 5);
	assert_bytes(3 * PAGE, 5, 9);
	assert_bytes(3 * PAGE + 5, 1, 0);
	assert_bytes(3 * PAGE + 6, PAGE - 6, 9);
}

/* M93 */
Test(folio_truncate, down_and_up_again_reads_zero)
{
	for (unsigned int flush = 0; flush < 2; flush++) {
		write_bytes(0, 50 * PAGE, 3);
		if (flush)
			cr_assert_eq(flat_fsync(file), 0);
		flat_truncate(file, 5 * PAGE + 77);
		flat_truncate(file, 50 * PAGE);
		assert_bytes(0, 5 * PAGE + 77, 3);
		assert_bytes(5 * PAGE + 77, 45 * PAGE - 77, 0);
		cr_assert_eq(flat_fsync(file), 0);
		page_cache_drop(flat.cache);
		assert_bytes(0, 5 * PAGE + 77, 3);
		assert_bytes(5 * PAGE + 77, 45 * PAGE - 77, 0);
		flat_truncate(file, 0);
	}
}

/* ---- waits -------------------------------------------------------------------------- */

static void truncate_to_zero(void *arg)
{
	(void)arg;
	flat_truncate(file, 0);
}

/* M97 */
Test(folio_truncate, writes_in_flight_are_waited_for)
{
	struct flat_thread thread;
	struct folio *folio;

	flat_dirty_page(file, 3, 1);
	flat_hold(&flat, BIO_WRITE);
	filemap_fdatawrite_range(flat_mapping(file), 0, UINT64_MAX, WB_SYNC_NONE);
	folio = flat_find(file, 3);
	flat_thread_start(&thread, truncate_to_zero, NULL);
	flat_eventually(folio_test(folio, FOLIO_WAITERS));
	cr_assert_not(flat_thread_is_done(&thread));
	cr_assert_eq(blkdev_fault_held(flat.dev), 1);
	flat_release(&flat);
	flat_thread_join(&thread);
	cr_assert_eq(folio->mapping, NULL);
	folio_put(folio);
	cr_assert_eq(flat_stats(&flat).nr_writeback, 0);
}

/* G9: the first pass takes what it can without waiting. */
Test(folio_truncate, others_go_before_the_wait)
{
	struct flat_thread thread;

	flat_dirty_pages(file, 0, 8, 1);
	flat_hold(&flat, BIO_WRITE);
	filemap_fdatawrite_range(flat_mapping(file), 0, PAGE - 1, WB_SYNC_NONE);
	flat_thread_start(&thread, truncate_to_zero, NULL);
	flat_eventually(flat_stats(&flat).nr_cached == 1);
	cr_assert_not(flat_thread_is_done(&thread));
	flat_release(&flat);
	flat_thread_join(&thread);
}

Test(folio_truncate, a_locked_folio_is_waited_for)
{
	struct flat_thread thread;
	struct folio *folio;

	flat_dirty_page(file, 3, 1);
	cr_assert_eq(filemap_get_folio(flat_mapping(file), 3, FGP_LOCK, &folio), 0);
	flat_thread_start(&thread, truncate_to_zero, NULL);
	flat_eventually(folio_test(folio, FOLIO_WAITERS));
	cr_assert_eq(folio->mapping, flat_mapping(file));
	folio_unlock(folio);
	flat_thread_join(&thread);
	cr_assert_eq(folio->mapping, NULL);
	folio_put(folio);
}

static struct folio *held_folio;

static void get_locked(void *arg)
{
	int *err = arg;
	struct folio *folio;

	*err = filemap_get_folio(flat_mapping(file), 3, FGP_LOCK, &folio);
	if (!*err)
		folio_unlock_put(folio);
}

/* L46 */
Test(folio_truncate, who_waited_for_a_truncated_folio_does_not_get_it)
{
	struct flat_thread thread;
	int err = 1;

	flat_dirty_page(file, 3, 1);
	cr_assert_eq(filemap_get_folio(flat_mapping(file), 3, FGP_LOCK, &held_folio), 0);
	flat_thread_start(&thread, get_locked, &err);
	flat_eventually(folio_test(held_folio, FOLIO_WAITERS));
	folio_unlock(held_folio);
	filemap_truncate_range(flat_mapping(file), 0, UINT64_MAX);
	flat_thread_join(&thread);
	folio_put(held_folio);
	cr_assert(err == -ENOENT || err == 0);
	cr_assert_eq(filemap_get_folio(flat_mapping(file), 3, FGP_LOCK, &held_folio), -ENOENT);
}

/* ---- invalidate (I4) ---------------------------------------------------------------- */

Test(folio_truncate, invalidate_removes_clean_folios)
{
	flat_dirty_pages(file, 0, 10, 1);
	cr_assert_eq(flat_fsync(file), 0);
	cr_assert_eq(filemap_invalidate(flat_mapping(file), 2, 7), 0);
	for (uint64_t index = 0; index < 10; index++)
		cr_assert_eq(flat_is_cached(file, index), index < 2 || index > 7);
}

Test(folio_truncate, invalidate_reports_a_dirty_folio_and_removes_the_others)
{
	flat_dirty_pages(file, 0, 10, 1);
	cr_assert_eq(flat_fsync(file), 0);
	flat_dirty_page(file, 4, 2);
	cr_assert_eq(filemap_invalidate(flat_mapping(file), 0, 9), -EBUSY);
	cr_assert_eq(flat_stats(&flat).nr_cached, 1);
	cr_assert_eq(flat_stats(&flat).nr_dirty, 1);
	assert_bytes(4 * PAGE, PAGE, 2);
}

/* ---- a grown size (D30) ------------------------------------------------------------- */

/* Blocks of 1 KiB in pages of 4 KiB, to have blocks beside each other in a page. */
struct small_blocks {
	struct flat flat;
	struct flat_file *file;
};

static void small_blocks_open(struct small_blocks *small)
{
	struct flat_config config;

	flat_config_init(&config);
	config.block_size = 1024;
	flat_open(&small->flat, &config);
	small->file = flat_create(&small->flat, 1);
}

static void small_blocks_close(struct small_blocks *small)
{
	flat_remove(small->file);
	flat_close(&small->flat);
}

Test(folio_truncate, growing_clears_the_page_behind_the_old_end)
{
	struct small_blocks small;
	struct folio *folio;

	small_blocks_open(&small);
	flat_dirty_page(small.file, 0, 5);
	inode_size_write(&small.file->inode, 1500);
	filemap_isize_extended(&small.file->inode, 1500, 10000);
	folio = flat_find(small.file, 0);
	cr_assert_eq(folio->data[1499], 5);
	cr_assert_eq(folio->data[1500], 0);
	cr_assert_eq(folio->data[4095], 0);
	folio_put(folio);
	small_blocks_close(&small);
}

Test(folio_truncate, growing_inside_the_old_block_clears_nothing)
{
	struct small_blocks small;
	struct folio *folio;

	small_blocks_open(&small);
	flat_dirty_page(small.file, 0, 5);
	filemap_isize_extended(&small.file->inode, 1500, 1600);
	folio = flat_find(small.file, 0);
	cr_assert_eq(folio->data[1500], 5);
	folio_put(folio);
	small_blocks_close(&small);
}

/* ---- block state (M101, M102): a file system of 1 KiB blocks ------------------------- */

struct xfs_world {
	struct block_device *dev;
	struct page_cache *cache;
	struct backing_dev *bdi;
	struct fs *fs;
	struct file *file;
	struct address_space *mapping;
	struct folio *folio; /* at 0, locked, with one written block */
};

static void xfs_open(struct xfs_world *world)
{
	struct fs_config fs_config = {.type = "xfs", .block_size = 1024};
	struct page_cache_config config;
	unsigned char block[1024];
	char error[256];

	page_cache_config_init(&config);
	config.capacity = 16 * MiB;
	config.prefault = false;
	cr_assert_eq(page_cache_create(&world->cache, &config), 0);
	cr_assert_eq(blkdev_ram_create(&world->dev, 512 * MiB, 0), 0);
	cr_assert_eq(bdi_create(&world->bdi, world->cache, world->dev, 1, WB_MAP_AUTO), 0);
	cr_assert_eq(fs_mount(&world->fs, world->cache, world->bdi, world->dev, &fs_config, error,
			      sizeof(error)),
		     0, "%s", error);
	cr_assert_eq(fs_open(world->fs, "/a", FS_OPEN_CREATE, &world->file), 0);
	memset(block, 6, sizeof(block));
	cr_assert_eq(fs_write(world->file, block, sizeof(block), 0), (ssize_t)sizeof(block));
	world->mapping = &fs_inode_of(world->file)->i_mapping;
	cr_assert_eq(filemap_get_folio(world->mapping, 0, FGP_LOCK, &world->folio), 0);
}

static void xfs_close(struct xfs_world *world)
{
	folio_unlock_put(world->folio);
	cr_assert_eq(fs_close(world->file), 0);
	cr_assert_eq(fs_unmount(world->fs), 0);
	bdi_destroy(world->bdi);
	page_cache_destroy(world->cache);
	blkdev_destroy(world->dev);
}

/* M101 */
Test(folio_truncate, a_dirty_folio_is_not_released)
{
	struct xfs_world world;
	uint64_t before;

	xfs_open(&world);
	before = folio_state(world.folio);
	cr_assert(before & FOLIO_DIRTY);
	cr_assert(before & FOLIO_PRIVATE);
	cr_assert_not(world.mapping->a_ops->release_folio(world.folio));
	cr_assert_eq(folio_state(world.folio), before);
	xfs_close(&world);
}

/* M102 */
Test(folio_truncate, invalidating_a_part_changes_no_state)
{
	struct xfs_world world;
	uint64_t before;

	xfs_open(&world);
	before = folio_state(world.folio);
	world.mapping->a_ops->invalidate_folio(world.folio, 1024, 1024);
	cr_assert_eq(folio_state(world.folio), before);
	world.mapping->a_ops->invalidate_folio(world.folio, 0, 1024);
	cr_assert_eq(folio_state(world.folio), before);
	xfs_close(&world);
}

Test(folio_truncate, invalidating_all_makes_it_clean)
{
	struct xfs_world world;
	struct page_cache_stats stats;

	xfs_open(&world);
	world.mapping->a_ops->invalidate_folio(world.folio, 0, 4096);
	cr_assert_not(folio_test(world.folio, FOLIO_DIRTY | FOLIO_PRIVATE));
	page_cache_get_stats(world.cache, &stats);
	cr_assert_eq(stats.nr_dirty, 0);
	xfs_close(&world);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_iomap_writeback.c - one pass over a file: which blocks are written, where, in what order
 */
#include "world.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct world world;
static struct world_file *file;

static void open_world(struct world_config config)
{
	world_open(&world, &config);
	file = world.file;
}

static void close_world(void)
{
	world_check(&world);
	world_close(&world);
}

TestSuite(iomap_writeback, .fini = close_world);

static const struct {
	uint32_t page, block;
} sizes[] = {
	{4096, 512},   {4096, 1024},  {4096, 4096},  {4096, 16384},
	{4096, 65536}, {65536, 1024}, {65536, 4096}, {65536, 65536},
};

#define NR_SIZES (sizeof(sizes) / sizeof(sizes[0]))

#define ON_EACH_SIZE(name)                                                                         \
	static void name(uint64_t block);                                                          \
	Test(iomap_writeback, name)                                                                \
	{                                                                                          \
		for (unsigned int i = 0; i < NR_SIZES; i++) {                                      \
			open_world((struct world_config){.page_size = sizes[i].page,               \
							 .block_size = sizes[i].block});           \
			name(sizes[i].block);                                                      \
			if (i + 1 < NR_SIZES)                                                      \
				close_world();                                                     \
		}                                                                                  \
	}                                                                                          \
	static void name(uint64_t block)

/* ---- what is written ---- */

ON_EACH_SIZE(after_fsync_all_is_clean_and_on_the_device) /* M57 M65 */
{
	world_set(file, 0, 100 * KiB, IOMAP_MAPPED);
	world_fill(file, 3000, 300000, 1);
	world_fill(file, 500000, 1, 2);
	world_fill(file, 640 * KiB, block, 3);
	cr_assert_eq(world_fsync(file), 0);
	cr_assert_eq(world_nr_dirty_blocks(file), 0);
	world_check(&world);
	cr_assert(world_disk_has(file, 0, 3000, 0));
	cr_assert(world_disk_has(file, 3000, 300000, 1));
	cr_assert(world_disk_zero(file, 303000, 500000 - 303000));
	cr_assert(world_disk_has(file, 500000, 1, 2));
	cr_assert(world_disk_zero(file, 500001, 640 * KiB - 500001));
	cr_assert(world_disk_has(file, 640 * KiB, block, 3));
	cr_assert_eq(file->disk_size, inode_size_read(&file->inode));
}

ON_EACH_SIZE(exactly_the_dirty_blocks_are_written) /* M58 M59 */
{
	world_set(file, 0, 64 * block, IOMAP_MAPPED);
	cr_assert(world_reads_as(file, 0, 64 * block, 0));
	world_fill(file, 3 * block, 1, 1);
	world_fill(file, 5 * block + 7, 2 * block, 1);
	world_fill(file, 60 * block, 4 * block, 1);
	world_io(&world);
	cr_assert_eq(world_fsync(file), 0);
	cr_assert_eq(world_io(&world).write_bytes, (1 + 3 + 4) * block);
	cr_assert(world_disk_has(file, 0, 3 * block, 0));
	cr_assert(world_disk_has(file, 60 * block, 4 * block, 1));
	cr_assert_eq(world_fsync(file), 0);
	cr_assert_eq(world_io(&world).writes, 0);
}

ON_EACH_SIZE(block_of_the_end_is_written_with_zeroes_behind_it) /* M60 M61 M70 */
{
	uint64_t size = 2 * block + 100;
	unsigned char *memory = malloc(block);
	struct folio *folio;

	world_fill(file, 0, size, 1);
	folio = world_folio(file, size - 1);
	memset(folio->data + (size - folio_pos(folio)), 0xEE,
	       folio_size(folio) - (size - folio_pos(folio)));
	folio_put(folio);
	cr_assert_eq(world_fsync(file), 0);
	cr_assert_eq(world_io(&world).write_bytes, 3 * block);
	world_device_read(&world, file->blocks[2].addr, memory, block);
	for (uint64_t i = 0; i < block; i++)
		cr_assert_eq(memory[i], i < 100 ? world_byte(1, 2 * block + i) : 0);
	cr_assert_eq(file->disk_size, size);
	for (unsigned int i = 0; i < file->nr_ioends; i++)
		cr_assert_leq(file->ioends[i].offset + file->ioends[i].size, size);
	free(memory);
}

ON_EACH_SIZE(wholly_dirty_folio_is_written_up_to_the_end) /* M25 M58 M61 */
{
	uint64_t size = 2 * block + 100;
	struct folio *folio;

	world_set(file, 0, size, IOMAP_MAPPED);
	cr_assert(world_reads_as(file, 0, size, 0));
	for (uint64_t pos = 0; pos < size; pos += folio_size(folio)) {
		folio = world_folio(file, pos);
		folio_lock(folio);
		iomap_dirty_folio(folio);
		folio_unlock_put(folio);
	}
	world_io(&world);
	cr_assert_eq(world_fsync(file), 0);
	cr_assert_eq(world_io(&world).write_bytes, 3 * block);
	cr_assert_eq(world_nr_dirty_blocks(file), 0);
}

Test(iomap_writeback, folio_past_the_end_is_skipped) /* M62 M14 */
{
	open_world((struct world_config){.block_size = 1024});
	world_fill(file, 0, 65536, 1);
	world_fill(file, 32768, 10, 2);
	/* A truncate has set the size and not yet removed the folios. */
	inode_size_write(&file->inode, 5000);
	cr_assert_eq(world_fsync(file), 0);
	cr_assert_eq(world_io(&world).write_bytes, 5 * 1024);
	cr_assert_eq(file->disk_size, 5000);
	filemap_truncate(&file->inode, 5000);
	cr_assert_eq(world_order(file, 32768), -1);
}

Test(iomap_writeback, hole_takes_the_data_without_io) /* M63 */
{
	open_world((struct world_config){.block_size = 1024});
	world_set(file, 0, 65536, IOMAP_MAPPED);
	world_fill(file, 0, 16384, 1);
	file->wb_type = IOMAP_HOLE;
	file->wb_pos = 4096;
	file->wb_len = 2048;
	world_io(&world);
	cr_assert_eq(world_fsync(file), 0);
	cr_assert_eq(world_io(&world).write_bytes, 16384 - 2048);
	cr_assert_eq(world_nr_dirty_blocks(file), 0);
	cr_assert(world_disk_has(file, 0, 4096, 1));
	cr_assert(world_disk_has(file, 4096, 2048, 0));
	cr_assert(world_disk_has(file, 6144, 10240, 1));
	/* All of a folio. */
	file->wb_pos = 0;
	file->wb_len = 1 * MiB;
	world_fill(file, 0, 16384, 2);
	cr_assert_eq(world_fsync(file), 0);
	cr_assert_eq(world_io(&world).writes, 0);
}

ON_EACH_SIZE(hole_of_one_block_ends_writeback) /* M63 M65 */
{
	world_set(file, 0, 8 * block, IOMAP_MAPPED);
	world_fill(file, 0, 8 * block, 1);
	file->wb_type = IOMAP_HOLE;
	file->wb_pos = block;
	file->wb_len = block;
	cr_assert_eq(world_fsync(file), 0);
	world_check(&world);
	cr_assert(world_disk_has(file, 0, block, 1));
	cr_assert(world_disk_has(file, block, block, 0));
	cr_assert(world_disk_has(file, 2 * block, 6 * block, 1));
}

static void answer_is_eio(int type)
{
	static const uint64_t places[] = {0, 1024, 15360, 16384};
	struct file other;

	for (unsigned int i = 0; i < 4; i++) {
		open_world((struct world_config){.block_size = 1024, .max_folio = 16384});
		world_set(file, 0, 65536, IOMAP_MAPPED);
		file_init(&other, &file->inode, 0);
		world_fill(file, 0, 65536, 1);
		file->wb_type = type;
		file->wb_pos = places[i];
		file->wb_len = 1024;
		cr_assert_eq(world_writepages(file, WB_SYNC_ALL, INT64_MAX), -EIO);
		filemap_fdatawait_range(&file->inode.i_mapping, 0, UINT64_MAX);
		world_check(&world);
		file->wb_len = 0;
		cr_assert_eq(world_fsync(file), -EIO);
		cr_assert_eq(world_fsync(file), 0);
		cr_assert_eq(file_fsync(&other, 0, UINT64_MAX, false), -EIO);
		file_release(&other);
		if (i < 3)
			close_world();
	}
}

Test(iomap_writeback, delalloc_answer_is_eio) /* M64 M65 */
{
	answer_is_eio(IOMAP_DELALLOC);
}

Test(iomap_writeback, inline_answer_is_eio) /* M64 M65 */
{
	answer_is_eio(IOMAP_INLINE);
}

/* ---- the calls of the back end ---- */

static uint64_t next_pos;
static uint64_t nr_asked;

static void check_ascending(struct world_file *f, struct folio *folio, uint64_t pos, uint64_t len)
{
	(void)f;
	cr_assert(folio_is_locked(folio));
	cr_assert(folio_test(folio, FOLIO_WRITEBACK)); /* M66 */
	cr_assert_not(folio_test(folio, FOLIO_DIRTY));
	cr_assert_geq(pos, next_pos);
	cr_assert_geq(pos, folio_pos(folio));
	cr_assert_leq(pos + len, folio_pos(folio) + folio_size(folio));
	next_pos = pos + 1;
	nr_asked++;
}

Test(iomap_writeback, runs_come_in_order_from_folios_under_writeback) /* M66 M67 */
{
	open_world((struct world_config){.block_size = 512, .max_folio = 16384});
	world_set(file, 0, 1 * MiB, IOMAP_MAPPED);
	for (uint64_t pos = 900 * KiB; pos > 40000; pos -= 3 * 512 + 30720)
		world_fill(file, pos / 512 * 512, 1024, 1);
	file->on_range = check_ascending;
	cr_assert_eq(world_fsync(file), 0);
	cr_assert_geq(nr_asked, 20);
}

static void bump_sequence(struct world_file *f, struct folio *folio, uint64_t pos, uint64_t len)
{
	(void)folio;
	(void)pos;
	(void)len;
	env_mutex_lock(&f->lock);
	f->seq++;
	env_mutex_unlock(&f->lock);
}

Test(iomap_writeback, map_serves_folios_until_the_sequence_moves) /* M73, F12 */
{
	open_world((struct world_config){.max_folio = 4096});
	world_set(file, 0, 65536, IOMAP_MAPPED);
	world_fill(file, 0, 65536, 1);
	cr_assert_eq(world_fsync(file), 0);
	cr_assert_eq(file->nr_lookups, 1);
	file->on_range = bump_sequence;
	world_fill(file, 0, 65536, 2);
	cr_assert_eq(world_fsync(file), 0);
	cr_assert_eq(file->nr_lookups, 1 + 16);
}

static void move_blocks(struct world_file *f, struct folio *folio, uint64_t pos, uint64_t len)
{
	static bool moved;

	(void)folio;
	(void)len;
	if (moved || pos < 8192)
		return;
	moved = true;
	world_set(f, 8192, 8192, IOMAP_UNWRITTEN);
}

Test(iomap_writeback, blocks_moved_between_two_folios_get_the_data) /* M73 */
{
	uint64_t old;
	unsigned char byte;

	open_world((struct world_config){.max_folio = 4096});
	world_set(file, 0, 16384, IOMAP_MAPPED);
	old = file->blocks[2].addr;
	file->on_range = move_blocks;
	world_fill(file, 0, 16384, 1);
	cr_assert_eq(world_fsync(file), 0);
	cr_assert(world_disk_has(file, 0, 16384, 1));
	world_device_read(&world, old, &byte, 1);
	cr_assert_eq(byte, world_byte(0, 8192));
}

/* ---- passes ---- */

Test(iomap_writeback, integrity_pass_goes_on_after_an_error) /* M74 M40 */
{
	open_world((struct world_config){.max_folio = 4096});
	world_fill(file, 0, 65536, 1);
	file->wb_error = -ENOSPC;
	file->wb_pos = 16384;
	file->wb_len = 8192;
	cr_assert_eq(world_writepages(file, WB_SYNC_ALL, INT64_MAX), -ENOSPC);
	filemap_fdatawait_range(&file->inode.i_mapping, 0, UINT64_MAX);
	cr_assert_eq(world_nr_dirty_blocks(file), 0);
	cr_assert(world_disk_has(file, 0, 16384, 1));
	cr_assert(world_disk_has(file, 24576, 40960, 1));
	cr_assert_eq(world.reserved, 0); /* M40 */
	file->wb_len = 0;
	cr_assert_eq(world_fsync(file), -ENOSPC);
	cr_assert_eq(world_fsync(file), 0);
}

Test(iomap_writeback, first_error_of_an_integrity_pass_is_returned) /* M74 */
{
	open_world((struct world_config){.max_folio = 4096});
	world_fill(file, 0, 65536, 1);
	file->wb_error = -EDQUOT;
	file->wb_pos = 4096;
	file->wb_len = 4096;
	world_fail_io(&world, BIO_WRITE, 0, 1, -EIO);
	cr_assert_eq(world_writepages(file, WB_SYNC_ALL, INT64_MAX), -EDQUOT);
	filemap_fdatawait_range(&file->inode.i_mapping, 0, UINT64_MAX);
	file->wb_len = 0;
	cr_assert_lt(world_fsync(file), 0);
}

Test(iomap_writeback, best_effort_pass_ends_at_the_first_error) /* M75 */
{
	open_world((struct world_config){.max_folio = 4096});
	world_fill(file, 0, 65536, 1);
	file->wb_error = -ENOSPC;
	file->wb_pos = 16384;
	file->wb_len = 4096;
	cr_assert_eq(world_writepages(file, WB_SYNC_NONE, INT64_MAX), -ENOSPC);
	filemap_fdatawait_range(&file->inode.i_mapping, 0, UINT64_MAX);
	cr_assert_eq(world_nr_dirty_blocks(file), 16 - 5);
	cr_assert(world_disk_has(file, 0, 16384, 1)); /* what was built is submitted (F21) */
	file->wb_len = 0;
	cr_assert_eq(world_fsync(file), -ENOSPC);
	cr_assert(world_disk_has(file, 20480, 45056, 1));
}

Test(iomap_writeback, best_effort_pass_ends_when_the_budget_is_used) /* M75 */
{
	open_world((struct world_config){.max_folio = 16384});
	world_fill(file, 0, 256 * KiB, 1);
	cr_assert_eq(world_writepages(file, WB_SYNC_NONE, 10), 0);
	filemap_fdatawait_range(&file->inode.i_mapping, 0, UINT64_MAX);
	/* Folios of four pages: the third crosses ten. */
	cr_assert_eq(world_nr_dirty_blocks(file), 64 - 12);
	cr_assert_eq(world_writepages(file, WB_SYNC_ALL, 10), 0);
	filemap_fdatawait_range(&file->inode.i_mapping, 0, UINT64_MAX);
	cr_assert_eq(world_nr_dirty_blocks(file), 0);
}

/* ---- writeback that takes time ---- */

static uint32_t syncing_done;

static void sync_file(void *arg)
{
	*(int *)arg = world_writepages(file, WB_SYNC_ALL, INT64_MAX);
	filemap_fdatawait_range(&file->inode.i_mapping, 0, UINT64_MAX);
	__atomic_store_n(&syncing_done, 1, __ATOMIC_RELEASE);
}

static void start_held_writeback(void)
{
	world_set(file, 0, 16384, IOMAP_MAPPED);
	world_fill(file, 0, 16384, 1);
	world_hold_io(&world, BIO_WRITE);
	cr_assert_eq(world_writepages(file, WB_SYNC_NONE, INT64_MAX), 0);
	cr_assert_eq(blkdev_fault_held(world.fault), 1);
	blkdev_fault_clear(world.fault);
}

Test(iomap_writeback, best_effort_does_not_wait_for_io_in_flight) /* M78 M79 M80 */
{
	open_world((struct world_config){.block_size = 1024});
	start_held_writeback();
	world_fill(file, 1024, 1024, 2);
	cr_assert(world_is_dirty(file, 1024));
	cr_assert_eq(world_writepages(file, WB_SYNC_NONE, INT64_MAX), 0);
	cr_assert_eq(file->nr_ioends, 1); /* M80 */
	cr_assert(world_is_dirty(file, 1024));
	world_heal(&world);
	filemap_fdatawait_range(&file->inode.i_mapping, 0, UINT64_MAX);
	cr_assert(world_is_dirty(file, 1024)); /* M79 */
	cr_assert_eq(world_nr_dirty_blocks(file), 1);
	cr_assert_eq(world_fsync(file), 0);
	cr_assert(world_disk_has(file, 0, 1024, 1));
	cr_assert(world_disk_has(file, 1024, 1024, 2));
	cr_assert(world_disk_has(file, 2048, 14336, 1));
}

Test(iomap_writeback, integrity_waits_for_io_in_flight_and_writes_again) /* M78 M79 M80 */
{
	struct env_thread *thread;
	int result = 1;

	open_world((struct world_config){.block_size = 1024});
	start_held_writeback();
	world_fill(file, 1024, 1024, 2);
	cr_assert_eq(env_thread_create(&thread, "sync", sync_file, &result), 0);
	env_sleep_ns(5000000);
	cr_assert_eq(__atomic_load_n(&syncing_done, __ATOMIC_ACQUIRE), 0);
	env_mutex_lock(&file->lock);
	cr_assert_eq(file->nr_ioends, 1);
	env_mutex_unlock(&file->lock);
	world_heal(&world);
	env_thread_join(thread);
	cr_assert_eq(result, 0);
	cr_assert_eq(file->nr_ioends, 2);
	cr_assert_eq(world_nr_dirty_blocks(file), 0);
	cr_assert(world_disk_has(file, 1024, 1024, 2));
	cr_assert(world_disk_has(file, 2048, 14336, 1));
}

static uint32_t writing_done;

static void write_second(void *arg)
{
	(void)arg;
	world_fill(file, 1024, 1024, 2);
	__atomic_store_n(&writing_done, 1, __ATOMIC_RELEASE);
}

Test(iomap_writeback, stable_pages_do_not_change_under_writeback) /* M81 */
{
	struct env_thread *thread;
	struct folio *folio;

	open_world((struct world_config){.block_size = 1024, .stable = true});
	start_held_writeback();
	cr_assert_eq(world_write_flags(file, 0, "x", 1, IOCB_NOWAIT), -EAGAIN);
	cr_assert_eq(env_thread_create(&thread, "writer", write_second, NULL), 0);
	env_sleep_ns(5000000);
	cr_assert_eq(__atomic_load_n(&writing_done, __ATOMIC_ACQUIRE), 0);
	folio = world_folio(file, 0);
	for (uint64_t i = 0; i < 16384; i++)
		cr_assert_eq(folio->data[i], world_byte(1, i));
	folio_put(folio);
	world_heal(&world);
	env_thread_join(thread);
	cr_assert(world_disk_has(file, 0, 16384, 1));
	cr_assert(world_is_dirty(file, 1024));
	cr_assert_eq(world_fsync(file), 0);
	cr_assert(world_disk_has(file, 1024, 1024, 2));
}

static void start_truncate(void *arg)
{
	(void)arg;
	cr_assert_eq(world_truncate(file, 0), 0);
	__atomic_store_n(&writing_done, 1, __ATOMIC_RELEASE);
}

Test(iomap_writeback, truncate_waits_for_io_in_flight) /* M97 */
{
	struct env_thread *thread;

	open_world((struct world_config){.block_size = 1024});
	start_held_writeback();
	cr_assert_eq(env_thread_create(&thread, "truncate", start_truncate, NULL), 0);
	env_sleep_ns(5000000);
	cr_assert_eq(__atomic_load_n(&writing_done, __ATOMIC_ACQUIRE), 0);
	world_heal(&world);
	env_thread_join(thread);
	cr_assert_eq(file->inode.i_mapping.nr_pages, 0);
}

Test(iomap_writeback, size_that_grows_meanwhile_does_not_become_durable) /* M70 M71, L34 */
{
	open_world((struct world_config){.block_size = 1024});
	world_set(file, 0, 4096, IOMAP_UNWRITTEN);
	world_set_size(file, 0);
	world_fill(file, 0, 100, 1);
	world_hold_io(&world, BIO_WRITE);
	cr_assert_eq(world_writepages(file, WB_SYNC_NONE, INT64_MAX), 0);
	blkdev_fault_clear(world.fault);
	world_fill(file, 100, 500, 1);
	cr_assert_eq(inode_size_read(&file->inode), 600);
	world_heal(&world);
	filemap_fdatawait_range(&file->inode.i_mapping, 0, UINT64_MAX);
	cr_assert_eq(file->disk_size, 100);
	cr_assert_eq(world_fsync(file), 0);
	cr_assert_eq(file->disk_size, 600);
}

/* ---- errors of the device ---- */

ON_EACH_SIZE(failed_write_leaves_the_folio_clean_and_readable) /* M82 M134 */
{
	world_set(file, 0, 4 * block, IOMAP_MAPPED);
	world_fill(file, 0, 4 * block, 1);
	world_fail_io(&world, BIO_WRITE, 0, 0, -EIO);
	cr_assert_eq(world_fsync(file), -EIO);
	filemap_fdatawait_range(&file->inode.i_mapping, 0, UINT64_MAX);
	world_check(&world);
	cr_assert_eq(world_nr_dirty_blocks(file), 0);
	cr_assert(world_reads_as(file, 0, 4 * block, 1));
	world_heal(&world);
	world_io(&world);
	cr_assert_eq(world_fsync(file), 0); /* reported, and not tried again */
	cr_assert_eq(world_io(&world).writes, 0);
	world_drop(&world);
	world_drop(&world);
	cr_assert(world_reads_as(file, 0, 4 * block, 0));
}

ON_EACH_SIZE(unwritten_space_stays_so_when_its_write_fails) /* M72 M71 */
{
	world_fill(file, 0, 4 * block, 1);
	world_fail_io(&world, BIO_WRITE, 0, 0, -EIO);
	cr_assert_eq(world_fsync(file), -EIO);
	filemap_fdatawait_range(&file->inode.i_mapping, 0, UINT64_MAX);
	world_heal(&world);
	for (unsigned int i = 0; i < 4; i++)
		cr_assert_eq(file->blocks[i].type, IOMAP_UNWRITTEN);
	cr_assert_eq(file->disk_size, 0);
	world_drop(&world);
	world_drop(&world);
	cr_assert(world_reads_zero(file, 0, 4 * block));
	world_fill(file, 0, 4 * block, 2);
	cr_assert_eq(world_fsync(file), 0);
	cr_assert_eq(file->blocks[0].type, IOMAP_MAPPED);
	cr_assert_eq(file->disk_size, 4 * block);
}

Test(iomap_writeback, unwritten_space_is_converted_only_when_the_io_is_done) /* M72 */
{
	open_world((struct world_config){0});
	world_set(file, 0, 8192, IOMAP_UNWRITTEN);
	world_fill(file, 0, 8192, 1);
	world_hold_io(&world, BIO_WRITE);
	cr_assert_eq(world_writepages(file, WB_SYNC_NONE, INT64_MAX), 0);
	cr_assert_eq(file->blocks[0].type, IOMAP_UNWRITTEN);
	world_heal(&world);
	cr_assert_eq(world_fsync(file), 0);
	cr_assert_eq(file->blocks[0].type, IOMAP_MAPPED);
}

Test(iomap_writeback, part_truncated_dirty_folio_keeps_the_rest) /* M96 */
{
	open_world((struct world_config){.block_size = 1024});
	world_fill(file, 0, 65536, 1);
	cr_assert_eq(world_order(file, 0), 4);
	cr_assert_eq(world_truncate(file, 10000), 0);
	cr_assert(world_reads_as(file, 0, 10000, 1));
	cr_assert_eq(world_fsync(file), 0);
	world_drop(&world);
	world_drop(&world);
	cr_assert(world_reads_as(file, 0, 10000, 1));
	cr_assert(world_disk_has(file, 0, 10000, 1));
}

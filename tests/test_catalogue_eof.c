/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_catalogue_eof.c - failures that page caches had: the end of the file, and zeroing
 */
#include "tests/bed.h"

#include "tests/world.h"

static uint64_t end_of_block(const struct bed *bed, uint64_t pos)
{
	return (pos + bed->shape.block - 1) / bed->shape.block * bed->shape.block;
}

static void cut_inside_a_block(struct bed *bed, unsigned int mode, bool punch)
{
	bed_fallocate(bed, mode, 0, 4 * KiB);
	bed_write(bed, 0, 4 * KiB, 'A');
	bed_truncate(bed, 16);
	if (punch)
		bed_punch(bed, 16, 16);
	bed_fsync(bed);
	bed_assert(bed, bed_device_has(bed, 0, 16, 'A'));
	bed_assert(bed, bed_device_has(bed, 16, end_of_block(bed, 16) - 16, 0));
	bed_remount(bed);
	bed_truncate(bed, 4 * KiB);
	bed_assert(bed, bed_reads(bed, 16, 4 * KiB - 16, 0));
}

/* B03: bytes behind a new end are cleared before the block is written. */
BED_TEST(catalogue_eof, b03_a_block_that_was_cut_is_written_with_zeroes_behind_the_end)
{
	cut_inside_a_block(bed, FS_FALLOC_KEEP_SIZE, true);
}

BED_TEST(catalogue_eof, b03_without_the_punch)
{
	cut_inside_a_block(bed, FS_FALLOC_KEEP_SIZE, false);
}

BED_TEST(catalogue_eof, b03_with_space_inside_the_file)
{
	cut_inside_a_block(bed, 0, true);
}

/* B04: dirty bytes over unwritten space are zeroed like others. */
BED_TEST(catalogue_eof, b04_zeroing_reaches_dirty_bytes_over_unwritten_space)
{
	bed_fallocate(bed, 0, 0, 64 * KiB);
	bed_write(bed, 0, 64 * KiB, 'A');
	bed_zero(bed, 6000, 20000);
	bed_check(bed);
	bed_fsync(bed);
	bed_remount(bed);
	bed_check(bed);
}

/* The library's own zeroing; no back end of ours lets it meet such space. */
Test(catalogue_eof, b04_zeroing_finds_what_is_dirty_over_unwritten_space)
{
	struct world world;
	struct world_config config = {.alloc = WORLD_UNWRITTEN};

	world_open(&world, &config);
	world_set(world.file, 0, 64 * KiB, IOMAP_UNWRITTEN);
	world_fill(world.file, 0, 64 * KiB, 1);
	cr_assert_eq(world_zero(world.file, 6000, 20000, NULL), 0);
	for (unsigned int i = 0; i < 2; i++) {
		cr_assert(world_reads_as(world.file, 0, 6000, 1));
		cr_assert(world_reads_zero(world.file, 6000, 20000));
		cr_assert(world_reads_as(world.file, 26000, 64 * KiB - 26000, 1));
		cr_assert_eq(world_fsync(world.file), 0);
		world_drop(&world);
	}
	world_check(&world);
	world_close(&world);
}

/* B07: old bytes in every block between the end of the file and a later write. */
Test(catalogue_eof, b07_all_blocks_behind_the_end_are_cleared_not_only_the_next)
{
	struct world world;
	struct world_config config = {0};

	world_open(&world, &config);
	world_set(world.file, 0, 16 * KiB, IOMAP_MAPPED);
	world_set_size(world.file, 1000);
	world_fill(world.file, 12 * KiB, 4 * KiB, 1);
	for (unsigned int i = 0; i < 2; i++) {
		cr_assert(world_reads_as(world.file, 0, 1000, 0));
		cr_assert(world_reads_zero(world.file, 1000, 12 * KiB - 1000));
		cr_assert(world_reads_as(world.file, 12 * KiB, 4 * KiB, 1));
		cr_assert_eq(world_fsync(world.file), 0);
		world_drop(&world);
	}
	cr_assert(world_disk_zero(world.file, 1000, 12 * KiB - 1000));
	world_check(&world);
	world_close(&world);
}

/* B08: the size it has already: space behind the end goes all the same; growing keeps it. */
BED_TEST(catalogue_eof, b08_truncate_to_the_same_size_frees_space_behind_the_end)
{
	bed_fallocate(bed, FS_FALLOC_KEEP_SIZE, 0, MiB);
	bed_write(bed, 0, 64 * KiB, 'A');
	bed_fsync(bed);
	bed_assert(bed, bed_allocated(bed) == MiB);
	bed_truncate(bed, 64 * KiB);
	bed_assert(bed, bed_allocated(bed) == 64 * KiB);
}

BED_TEST(catalogue_eof, b08_growing_keeps_space_behind_the_end)
{
	bed_fallocate(bed, FS_FALLOC_KEEP_SIZE, 0, MiB);
	bed_write(bed, 0, 64 * KiB, 'A');
	bed_fsync(bed);
	bed_truncate(bed, 128 * KiB);
	bed_assert(bed, bed_allocated(bed) == MiB);
}

/* B09: the range to zero ends behind the end of the file, in the block where the file ends. */
BED_TEST(catalogue_eof, b09_zeroing_over_the_end_inside_one_block)
{
	bed_write(bed, 4096, 512, 'A');
	bed_zero(bed, 4351, 512);
	bed_assert(bed, fs_size(bed->file) == 4863);
	bed_assert(bed, bed_reads(bed, 4096, 255, 'A'));
	bed_assert(bed, bed_reads(bed, 4351, 512, 0));
}

/* B10: of the last block the beginning is zeroed, of the first the end. */
BED_TEST(catalogue_eof, b10_zeroing_clears_the_right_end_of_a_block)
{
	bed_write(bed, 0, 128 * KiB, 'X');
	bed_zero(bed, 0, 100000);
	bed_check(bed);
	bed_write(bed, 0, 128 * KiB, 'Y');
	bed_fsync(bed);
	bed_zero(bed, 30001, 70000);
	bed_check(bed);
	bed_drop(bed);
	bed_punch(bed, 10001, 110000);
}

/* B11: the size is not that of the part that was written last. */
BED_TEST(catalogue_eof, b11_writing_the_first_part_does_not_move_the_size_back)
{
	bed_write(bed, 0, 88, 'X');
	bed_write(bed, 10000, 1000, 'Y');
	bed_assert(bed, fs_sync_range(bed->file, 0, 4 * KiB, true) == 0);
	bed_assert(bed, fs_size(bed->file) == 11000);
	bed_fsync(bed);
	bed_assert(bed, fs_size(bed->file) == 11000);
	bed_remount(bed);
	bed_check(bed);
}

/* B12: nothing is dirty any more, and the size is still to be kept. */
BED_TEST(catalogue_eof, b12_a_folio_written_on_its_own_and_then_synced)
{
	bed_write(bed, 0, 64 * KiB, 'A');
	bed_writeback(bed);
	bed_fsync(bed);
	bed_remount(bed);
	bed_assert(bed, fs_size(bed->file) == 64 * KiB);
	bed_drop(bed);
	bed_write(bed, 64 * KiB, 100, 'B');
	bed_fsync(bed);
	bed_remount(bed);
	bed_assert(bed, fs_size(bed->file) == 64 * KiB + 100);
	bed_check(bed);
}

/* B13: to the same size first, with dirty bytes, then shorter, then longer again. */
BED_TEST(catalogue_eof, b13_truncate_of_a_dirty_file_and_an_append)
{
	bed_write(bed, 0, 6000, 'A');
	bed_truncate(bed, 6000);
	bed_truncate(bed, 5000);
	bed_write(bed, 5000, 10, 'B');
	bed_fsync(bed);
	bed_remount(bed);
	bed_check(bed);
}

/* B14: between the end of data kept in the inode and a later write there are zeroes. */
Test(catalogue_eof, b14_inline_data_cut_and_written_behind_its_end)
{
	static const unsigned char right[] = {'H', 'E', 0, 0, 0, 'X'};
	unsigned char memory[6];
	struct world world;
	struct world_config config = {.capacity = 2 * MiB};
	struct world_file *other;

	world_open(&world, &config);
	/* No memory of the cache is zero by chance. */
	other = world_file_create(&world);
	world_fill(other, 0, 4 * MiB, 1);
	cr_assert_eq(world_truncate(other, 0), 0);
	world_set_inline(world.file, "HELLO", 5, 64);
	cr_assert_eq(world_truncate(world.file, 2), 0);
	cr_assert_eq(world_write(world.file, 5, "X", 1), 1);
	for (unsigned int i = 0; i < 2; i++) {
		cr_assert_eq(world_read(world.file, 0, memory, 6), 6);
		cr_assert_arr_eq(memory, right, 6);
		world_drop(&world);
	}
	world_check(&world);
	world_close(&world);
}

/* How a file grows over what lies behind its end. */
static void grow_over_garbage(struct bed *bed, bool cached, void (*grow)(struct bed *bed))
{
	bed_write(bed, 0, 5000, 'A');
	bed_fsync(bed);
	bed_spoil(bed, 5000, end_of_block(bed, 5000) - 5000, BED_POISON);
	if (!cached)
		bed_drop(bed);
	grow(bed);
	bed_check(bed);
	bed_fsync(bed);
	bed_assert(bed, bed_device_has(bed, 5000, end_of_block(bed, 5000) - 5000, 0));
	bed_assert(bed, bed_device_has_no_stale(bed));
	bed_remount(bed);
	bed_check(bed);
}

static void grow_by_truncate(struct bed *bed)
{
	bed_truncate(bed, 100000);
}

static void grow_by_append(struct bed *bed)
{
	bed_write(bed, 90000, 100, 'B');
}

static void grow_by_fallocate(struct bed *bed)
{
	bed_fallocate(bed, 0, 90000, 10000);
}

/* B15: zeroes behind the old end are on the device no later than the size that covers them. */
BED_TEST(catalogue_eof, b15_truncate_up_over_garbage_behind_the_end)
{
	grow_over_garbage(bed, false, grow_by_truncate);
}

BED_TEST(catalogue_eof, b15_truncate_up_with_the_last_block_cached)
{
	grow_over_garbage(bed, true, grow_by_truncate);
}

BED_TEST(catalogue_eof, b15_append_over_garbage_behind_the_end)
{
	grow_over_garbage(bed, false, grow_by_append);
}

BED_TEST(catalogue_eof, b15_fallocate_over_garbage_behind_the_end)
{
	grow_over_garbage(bed, false, grow_by_fallocate);
}

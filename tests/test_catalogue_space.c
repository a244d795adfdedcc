/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_catalogue_space.c - failures that page caches had: delayed and unwritten space
 */
#include "tests/bed.h"

#include <errno.h>
#include <iomap/env.h>
#include "tests/world.h"

/* B18: half a block stored while its space was delayed, the other half once it was written. */
BED_TEST(catalogue_space, b18_the_second_half_of_a_block_does_not_start_from_zeroes)
{
	bed_write(bed, 4 * KiB, 2 * KiB, 'a');
	bed_fallocate(bed, 0, 0, 128 * KiB);
	bed_write(bed, 64 * KiB, 2 * KiB, 'b');
	bed_fsync(bed);
	bed_drop(bed);
	bed_write(bed, 66 * KiB, 2 * KiB, 'd');
	bed_check(bed);
}

static const struct bed_shape small_blocks[] = {{1 * KiB, 4 * KiB, 4 * KiB},
						{1 * KiB, 4 * KiB, 64 * KiB},
						{0, 0, 0}};

/* B19: several unwritten records in one page are all converted. */
BED_TEST_ON(catalogue_space, b19_every_unwritten_record_in_a_page_is_converted, NULL, small_blocks)
{
	struct file *other;

	bed_assert(bed, fs_open(bed->fs, "/other", FS_OPEN_CREATE, &other) == 0);
	bed_fallocate(bed, FS_FALLOC_KEEP_SIZE, 0, 1 * KiB);
	/* In between, so that the two do not touch on the device. */
	bed_assert(bed, fs_fallocate(other, 0, 0, 16 * KiB) == 0);
	bed_fallocate(bed, FS_FALLOC_KEEP_SIZE, 2 * KiB, 1 * KiB);
	bed_write(bed, 0, 4 * KiB, 'A');
	bed_fsync(bed);
	bed_assert(bed, !bed_has_unwritten(bed, 0, 4 * KiB));
	bed_assert(bed, bed_device_has(bed, 0, 4 * KiB, 'A'));
	bed_assert(bed, fs_close(other) == 0);
	bed_assert(bed, fs_unlink(bed->fs, "/other") == 0);
}

/* B21: cutting a delayed record up again and again does not use up what it reserved. */
BED_TEST(catalogue_space, b21_zeroing_every_other_piece_of_delayed_data)
{
	bed_write(bed, 0, 64 * KiB, 'A');
	for (uint64_t pos = 0; pos < 64 * KiB; pos += 8 * KiB)
		bed_zero(bed, pos, 4 * KiB);
	bed_check(bed);
	for (uint64_t pos = 4 * KiB; pos < 64 * KiB; pos += 8 * KiB)
		bed_zero(bed, pos, 4 * KiB);
	bed_fsync(bed);
	bed_assert(bed, bed_reserved(bed) == 0);
	bed_assert(bed, bed_reads(bed, 0, 64 * KiB, 0));
}

BED_TEST(catalogue_space, b21_punching_every_other_piece_of_delayed_data)
{
	uint64_t all, some;

	bed_write(bed, 0, MiB, 'A');
	all = bed_reserved(bed);
	for (uint64_t pos = 0; pos < MiB; pos += 128 * KiB)
		bed_punch(bed, pos, 64 * KiB);
	some = bed_reserved(bed);
	bed_assert(bed, some < all);
	for (uint64_t pos = 64 * KiB; pos < MiB; pos += 128 * KiB)
		bed_punch(bed, pos, 64 * KiB);
	bed_fsync(bed);
	bed_assert(bed, bed_reserved(bed) == 0);
	bed_assert(bed, bed_allocated(bed) == 0);
}

/* B22: the space a file has is the same before and after writeback. */
BED_TEST(catalogue_space, b22_rewriting_counts_space_once)
{
	uint64_t before;

	bed_write(bed, 0, 64 * KiB, 'A');
	bed_write(bed, 0, 64 * KiB, 'B');
	bed_truncate(bed, 256 * KiB);
	bed_write(bed, 128 * KiB, 64 * KiB, 'C');
	bed_write(bed, 128 * KiB, 64 * KiB, 'D');
	before = bed_allocated(bed);
	bed_assert(bed, before >= 128 * KiB);
	bed_fsync(bed);
	bed_remount(bed);
	bed_assert(bed, bed_allocated(bed) == 128 * KiB);
}

BED_TEST(catalogue_space, b22_space_kept_behind_the_end_counts_once)
{
	bed_fallocate(bed, FS_FALLOC_KEEP_SIZE, 0, 128 * KiB);
	bed_write(bed, 64 * KiB, 64 * KiB, 'A');
	bed_assert(bed, bed_allocated(bed) == 128 * KiB);
	bed_fsync(bed);
	bed_assert(bed, bed_allocated(bed) == 128 * KiB);
}

/* B23: fallocate over delayed data neither doubles nor loses its reservation. */
BED_TEST(catalogue_space, b23_fallocate_over_delayed_data)
{
	bed_write(bed, 0, 64 * KiB, 'A');
	bed_fallocate(bed, 0, 0, 128 * KiB);
	bed_assert(bed, bed_allocated(bed) >= 128 * KiB);
	bed_fsync(bed);
	bed_assert(bed, bed_reserved(bed) == 0);
	bed_remount(bed);
	bed_assert(bed, bed_allocated(bed) == 128 * KiB);
}

/* B24: what truncate cuts off gives its reservation back, to the block. */
BED_TEST_ON(catalogue_space, b24_truncate_gives_reservations_back, NULL, small_blocks)
{
	uint64_t all, some;

	bed_write(bed, 0, 16 * KiB, 'A');
	all = bed_reserved(bed);
	bed_truncate(bed, 5000);
	some = bed_reserved(bed);
	bed_assert(bed, some < all);
	bed_fsync(bed);
	bed_assert(bed, bed_reserved(bed) == 0);
	bed_assert(bed, bed_allocated(bed) == 5 * KiB);
}

/* Leave about `bytes` of space free. */
static struct file *fill_space(struct bed *bed, uint64_t bytes)
{
	struct fs_space space;
	struct file *file;

	bed_assert(bed, fs_open(bed->fs, "/fill", FS_OPEN_CREATE, &file) == 0);
	fs_get_space(bed->fs, &space);
	for (uint64_t len = 64 * MiB, pos = 0; len >= bed->shape.block;) {
		fs_get_space(bed->fs, &space);
		if (space.free >= bytes + len &&
		    fs_fallocate(file, FS_FALLOC_KEEP_SIZE, pos, len) == 0)
			pos += len;
		else
			len /= 2;
	}
	return file;
}

static void give_back(struct bed *bed, struct file *file)
{
	bed_assert(bed, fs_close(file) == 0);
	bed_assert(bed, fs_unlink(bed->fs, "/fill") == 0);
}

/* B26: space that a file has is there for it when the rest is full. */
BED_TEST(catalogue_space, b26_space_that_was_set_aside_can_be_written_when_all_is_full)
{
	struct file *fill;

	bed_fallocate(bed, FS_FALLOC_KEEP_SIZE, 0, MiB);
	fill = fill_space(bed, 0);
	bed_write(bed, 0, MiB, 'A');
	bed_fsync(bed);
	bed_assert(bed, bed_device_has(bed, 0, MiB, 'A'));
	give_back(bed, fill);
}

/* B34: a full device takes what fits, says how much, and keeps no promise. */
BED_TEST(catalogue_space, b34_a_write_into_a_full_device_stores_what_fits)
{
	uint64_t block = bed->shape.block;
	struct file *fill = fill_space(bed, 5 * block);
	static unsigned char memory[2 * MiB];
	uint64_t sum = 0;
	ssize_t n;

	memset(memory, 'A', sizeof(memory));
	while ((n = fs_write(bed->file, memory, sizeof(memory) / 2, sum)) > 0) {
		bed_assert(bed, (uint64_t)n % block == 0);
		sum += (uint64_t)n;
		bed_assert(bed, fs_size(bed->file) == sum);
		bed_assert(bed, sum <= 64 * block); /* not only a little: it was full */
	}
	bed_assert(bed, n == -ENOSPC);
	memset(bed->model, 'A', sum);
	bed->size = sum;
	bed_fsync(bed);
	bed_assert(bed, bed_reserved(bed) == 0);
	bed_assert(bed, bed_allocated(bed) == sum);
	give_back(bed, fill);
}

/* B35: after a short extending write nothing is cached past the end. */
BED_TEST(catalogue_space, b35_a_short_extending_write_leaves_nothing_behind_the_end)
{
	struct file *fill = fill_space(bed, 8 * bed->shape.block);
	struct page_cache_stats stats;
	static unsigned char memory[MiB];
	ssize_t n;

	memset(memory, 'A', sizeof(memory));
	n = fs_write(bed->file, memory, sizeof(memory), 0);
	bed_assert(bed, n >= 0 || n == -ENOSPC);
	bed->size = n > 0 ? (uint64_t)n : 0;
	memset(bed->model, 'A', bed->size);
	page_cache_get_stats(bed->cache, &stats);
	if (bed->shape.folio <= bed->shape.block)
		bed_assert(bed, stats.nr_cached * bed->shape.page <= bed->size);
	give_back(bed, fill);
	bed_truncate(bed, 2 * MiB);
	bed_check(bed);
}

struct appender {
	struct file *file;
	uint64_t pos;
	ssize_t result;
};

static void append(void *arg)
{
	struct appender *appender = arg;

	appender->result = fs_write(appender->file, "twelve bytes", 12, appender->pos);
}

static void write_out(void *arg)
{
	for (unsigned int i = 0; i < 4; i++)
		fs_sync_range(arg, 0, BED_FILE_MAX, false);
}

/* B27: writeback works on a map that a close trims while the file grows. */
BED_TEST(catalogue_space, b27_appends_writeback_and_trimming)
{
	for (unsigned int i = 0; i < 8; i++) {
		struct env_thread *writer, *flusher;
		struct appender appender = {.pos = bed->size + 64 * KiB - i};
		struct file *other;

		bed_assert(bed, fs_open(bed->fs, "/file", 0, &other) == 0);
		bed_assert(bed, fs_open(bed->fs, "/file", 0, &appender.file) == 0);
		bed_write(bed, bed->size, 64 * KiB - i, 'A' + (unsigned char)i);
		bed_assert(bed, env_thread_create(&writer, "writer", append, &appender) == 0);
		bed_assert(bed, env_thread_create(&flusher, "flusher", write_out, bed->file) == 0);
		bed_assert(bed, fs_close(other) == 0);
		env_thread_join(writer);
		env_thread_join(flusher);
		bed_assert(bed, appender.result == 12);
		bed_assert(bed, fs_close(appender.file) == 0);
		memcpy(bed->model + bed->size, "twelve bytes", 12);
		bed->size += 12;
	}
	bed_fsync(bed);
	bed_check(bed);
	bed_remount(bed);
	bed_assert(bed, bed_reserved(bed) == 0);
	bed_assert(bed, bed_allocated(bed) == (bed->size + bed->shape.block - 1) /
						      bed->shape.block * bed->shape.block);
}

/* B28: a delayed answer to writeback is no address. */
Test(catalogue_space, b28_a_delayed_map_is_not_written)
{
	struct world world;
	struct world_config config = {.block_size = 4096};

	world_open(&world, &config);
	world_fill(world.file, 0, 4096, 1);
	world.file->wb_type = IOMAP_DELALLOC;
	world.file->wb_pos = 0;
	world.file->wb_len = 4096;
	cr_assert_eq(world_fsync(world.file), -EIO);
	cr_assert_eq(world_io(&world).writes, 0);
	cr_assert_eq(world_nr_dirty_blocks(world.file), 0);
	world.file->wb_type = -1;
	world_check(&world);
	world_close(&world);
}

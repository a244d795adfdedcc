/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_fs_fallocate.c - space of a file made, taken and moved
 */
#include "tests/bed.h"

#include <errno.h>
#include <iomap/env.h>
#include <stdlib.h>

#define PUNCH	 (FS_FALLOC_PUNCH_HOLE | FS_FALLOC_KEEP_SIZE)
#define COLLAPSE FS_FALLOC_COLLAPSE_RANGE
#define INSERT	 FS_FALLOC_INSERT_RANGE
#define ZERO	 FS_FALLOC_ZERO_RANGE
#define KEEP	 FS_FALLOC_KEEP_SIZE

/* ---- what is refused -------------------------------------------------------------------- */

BED_TEST(fs_fallocate, modes_that_do_not_go_together_are_refused)
{
	static const unsigned int modes[] = {FS_FALLOC_PUNCH_HOLE,
					     PUNCH | ZERO,
					     COLLAPSE | INSERT,
					     COLLAPSE | KEEP,
					     INSERT | KEEP,
					     0x40,
					     0x100};

	bed_write(bed, 0, 512 * KiB, 'A');
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		bed_assert(bed, fs_fallocate(bed->file, modes[i], 0, 64 * KiB) == -EOPNOTSUPP);
}

BED_TEST(fs_fallocate, impossible_ranges_are_refused)
{
	uint64_t block = bed->shape.block;
	uint64_t huge = 1ull << 62;

	bed_write(bed, 0, 4 * block, 'A');
	bed_assert(bed, fs_fallocate(bed->file, PUNCH, 0, 0) == -EINVAL);
	bed_assert(bed, fs_fallocate(bed->file, ZERO, UINT64_MAX - 10, 20) == -EFBIG);
	bed_assert(bed, fs_fallocate(bed->file, COLLAPSE, 1, block) == -EINVAL);
	bed_assert(bed, fs_fallocate(bed->file, COLLAPSE, 0, block + 512) == -EINVAL);
	bed_assert(bed, fs_fallocate(bed->file, COLLAPSE, block, 3 * block) == -EINVAL);
	bed_assert(bed, fs_fallocate(bed->file, INSERT, 1, block) == -EINVAL);
	bed_assert(bed, fs_fallocate(bed->file, INSERT, 4 * block, block) == -EINVAL);
	bed_assert(bed, fs_fallocate(bed->file, INSERT, 0, huge) == -EFBIG);
	bed_check(bed);
}

BED_TEST(fs_fallocate, a_file_opened_to_read_is_left_alone)
{
	struct file *reader;

	bed_write(bed, 0, 64 * KiB, 'A');
	bed_assert(bed, fs_open(bed->fs, "/file", FS_OPEN_READONLY, &reader) == 0);
	bed_assert(bed, fs_fallocate(reader, PUNCH, 0, 64 * KiB) == -EBADF);
	bed_assert(bed, fs_close(reader) == 0);
}

/* ---- what they do ----------------------------------------------------------------------- */

BED_TEST(fs_fallocate, a_punched_range_has_no_space_and_reads_as_zero)
{
	uint64_t block = bed->shape.block;

	bed_write(bed, 0, 8 * block, 'A');
	bed_fsync(bed);
	bed_punch(bed, block + 100, 4 * block);
	bed_assert(bed, bed_allocated(bed) == 5 * block);
	bed_check(bed);
}

BED_TEST(fs_fallocate, a_zeroed_range_keeps_unwritten_space)
{
	uint64_t block = bed->shape.block;

	bed_write(bed, 0, 8 * block, 'A');
	bed_fsync(bed);
	bed_zero(bed, block + 100, 4 * block);
	bed_fsync(bed);
	bed_assert(bed, bed_allocated(bed) == 8 * block);
	bed_assert(bed, bed_has_unwritten(bed, 2 * block, 3 * block));
}

/* The size goes along only if asked to. */
BED_TEST(fs_fallocate, zeroing_behind_the_end_may_keep_the_size)
{
	bed_write(bed, 0, 10000, 'A');
	bed_fallocate(bed, ZERO | KEEP, 5000, 100 * KiB);
	bed_assert(bed, fs_size(bed->file) == 10000);
	bed_check(bed);
	bed_fallocate(bed, ZERO, 8000, 200 * KiB);
	bed_assert(bed, fs_size(bed->file) == 8000 + 200 * KiB);
}

/* Errors of the data that has to be written first come before any change (G10). */
BED_TEST(fs_fallocate, data_that_cannot_be_written_stops_the_change)
{
	static const unsigned int modes[] = {PUNCH, ZERO, COLLAPSE, INSERT};
	const struct blkdev_fault_rule rule = {
		.op = BIO_WRITE, .kind = BIO_DATA, .error = -EIO, .count = 1};

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		bed_truncate(bed, 0);
		bed_write(bed, 0, 256 * KiB, 'A');
		bed_assert(bed, blkdev_fault_add(bed->fault, &rule) == 0);
		bed_assert(bed, fs_fallocate(bed->file, modes[i], 64 * KiB, 64 * KiB) == -EIO);
		blkdev_fault_clear(bed->fault);
		bed_assert(bed, fs_size(bed->file) == 256 * KiB);
		bed_assert(bed, fs_fsync(bed->file, false) == -EIO);
	}
	bed_truncate(bed, 0);
	bed_assert(bed, fs_sync(bed->fs) == -EIO); /* once for the file system, too */
}

/* ---- against the model ------------------------------------------------------------------ */

static uint64_t blocks(struct env_rng *random, const struct bed *bed, uint64_t most)
{
	return env_rng_below(random, most) * bed->shape.block;
}

static void any_change(struct bed *bed, struct env_rng *random)
{
	uint64_t max = 24 * (uint64_t)bed->shape.block;
	uint64_t pos = env_rng_below(random, max);
	uint64_t len = 1 + env_rng_below(random, max / 3);
	uint64_t aligned = blocks(random, bed, 12);
	uint64_t some = bed->shape.block + blocks(random, bed, 4);

	switch (env_rng_below(random, 12)) {
	case 0:
	case 1:
	case 2:
		bed_write(bed, pos, len, (unsigned char)(1 + env_rng_below(random, 255)));
		break;
	case 3:
		bed_punch(bed, pos, len);
		break;
	case 4:
		bed_fallocate(bed, ZERO | (env_rng_below(random, 2) ? KEEP : 0), pos, len);
		break;
	case 5:
		bed_fallocate(bed, env_rng_below(random, 2) ? KEEP : 0, pos, len);
		break;
	case 6:
		if (aligned + some < bed->size)
			bed_fallocate(bed, COLLAPSE, aligned, some);
		break;
	case 7:
		if (aligned < bed->size && bed->size + some < 2 * max)
			bed_fallocate(bed, INSERT, aligned, some);
		break;
	case 8:
		bed_truncate(bed, pos);
		break;
	case 9:
		bed_fsync(bed);
		break;
	case 10:
		bed_writeback(bed);
		break;
	default:
		bed_drop(bed);
	}
}

static void agrees(struct bed *bed, uint64_t seed)
{
	struct env_rng random;

	env_rng_seed(&random, seed);
	for (unsigned int i = 0; i < 150; i++) {
		any_change(bed, &random);
		if (i % 10 == 9)
			bed_check(bed);
	}
	bed_truncate(bed, 0);
	bed_fsync(bed);
	bed_assert(bed, bed_allocated(bed) == 0);
	bed_assert(bed, bed_reserved(bed) == 0);
}

/* M1, M89, M91, M93 */
BED_TEST(fs_fallocate, every_mode_agrees_with_the_model)
{
	for (uint64_t seed = 1; seed <= 8; seed++)
		agrees(bed, seed);
}

/* ---- without memory --------------------------------------------------------------------- */

/* M133: whichever allocation fails, the call says so and nothing is half moved. */
BED_TEST(fs_fallocate, moving_without_memory_moves_nothing)
{
	static const unsigned int modes[] = {COLLAPSE, INSERT};
	uint64_t block = bed->shape.block;

	for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
		int err = -ENOMEM;

		bed_truncate(bed, 0);
		for (unsigned int i = 0; i < 8; i++) {
			bed_write(bed, 2 * i * block, block, (unsigned char)('a' + i));
			bed_fsync(bed);
		}
		for (unsigned int n = 0; err; n++) {
			env_alloc_fail(n, 1);
			err = fs_fallocate(bed->file, modes[m], block, 2 * block);
			env_alloc_fail(0, 0);
			bed_assert(bed, err == 0 || err == -ENOMEM);
			bed_assert(bed, n < 1000);
			if (err)
				bed_check(bed);
		}
		/* It went through once: the model does the same. */
		if (modes[m] == COLLAPSE) {
			memmove(bed->model + block, bed->model + 3 * block, bed->size - 3 * block);
			memset(bed->model + bed->size - 2 * block, 0, 2 * block);
			bed->size -= 2 * block;
		} else {
			memmove(bed->model + 3 * block, bed->model + block, bed->size - block);
			memset(bed->model + block, 0, 2 * block);
			bed->size += 2 * block;
		}
		bed_check(bed);
	}
}

/* ---- space without data ----------------------------------------------------------------- */

/*
 * What is reserved behind the end of a file comes inside when it grows; a hole in the middle of it
 * left a promise that no data would ever have used (check-sim, seed 538).
 */
BED_TEST(fs_fallocate, a_hole_in_delayed_space_leaves_no_promise_without_data)
{
	uint64_t block = bed->shape.block;

	for (uint64_t pos = 0; pos < MiB; pos += 128 * KiB)
		bed_write(bed, pos, 128 * KiB, 'A');
	bed_truncate(bed, 2 * MiB);
	bed_punch(bed, MiB + 256 * KiB, block);
	bed_writeback(bed);
	bed_assert(bed, bed_reserved(bed) == 0);
}

BED_TEST(fs_fallocate, a_hole_beside_data_leaves_no_promise_without_data)
{
	uint64_t block = bed->shape.block;

	for (uint64_t pos = 0; pos < MiB; pos += 128 * KiB)
		bed_write(bed, pos, 128 * KiB, 'A');
	bed_truncate(bed, 2 * MiB);
	bed_write(bed, MiB + 512 * KiB, block, 'B');
	bed_punch(bed, MiB + 256 * KiB, block);
	bed_punch(bed, 0, MiB);
	bed_writeback(bed);
	bed_assert(bed, bed_reserved(bed) == 0);
}

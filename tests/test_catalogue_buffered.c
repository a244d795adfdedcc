/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_catalogue_buffered.c - failures that page caches had: buffered reads and writes
 */
#include "tests/bed.h"

/* B17: a file that grew is read in its new part at once. */
BED_TEST(catalogue_buffered, b17_growing_and_reading_the_fresh_part)
{
	unsigned char memory[100];

	bed_truncate(bed, MiB);
	bed_assert(bed, bed_reads(bed, 512 * KiB, 4 * KiB, 0));
	bed_assert(bed, fs_read(bed->file, memory, sizeof(memory), MiB - 10) == 10);
	bed_write(bed, 0, 10, 'A');
}

/* B32: a write that begins at the end of the file, inside a block that is not cached. */
BED_TEST(catalogue_buffered, b32_a_write_at_the_end_reads_the_block_it_begins_in)
{
	bed_write(bed, 0, 32, 'A');
	bed_remount(bed);
	bed_write(bed, 32, 32, 'B');
}

/* B39: an answer of a step inside is not the result of the truncation. */
BED_TEST(catalogue_buffered, b39_truncate_says_0_or_an_error)
{
	bed_write(bed, 0, 10000, 'A');
	bed_assert(bed, fs_truncate(bed->file, 5000) == 0);
	bed_truncate(bed, 5000);
	bed_fsync(bed);
	bed_truncate(bed, 2500);
	bed_drop(bed);
	bed_truncate(bed, 1000);
}

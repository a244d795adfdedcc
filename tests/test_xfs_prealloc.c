/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_xfs_prealloc.c - the arithmetic of EOF preallocation (XF10..XF13)
 */
#include "fsbackends/xfs/prealloc.h"

#include <criterion/criterion.h>

#include "fsbackends/xfs/geometry.h"

#define KIB (1ull << 10)
#define MIB (1ull << 20)
#define GIB (1ull << 30)

static struct extent_map map;

static void open_map(void)
{
	extent_map_init(&map, XFS_MAX_EXTENT, XFS_MAX_EXTENT);
}

static void add(uint64_t file, uint64_t start, uint64_t len, enum extent_state state)
{
	struct extent extent = {.file = file, .start = start, .len = len, .state = state};

	cr_assert_eq(extent_map_insert(&map, &extent), 0);
}

/* A large, empty file system. */
static struct xfs_prealloc full(void)
{
	return (struct xfs_prealloc){
		.mode = XFS_EOF_PREALLOC_FULL,
		.blkbits = 12,
		.total = 1000 * 1000 * 1000,
		.available = 1000 * 1000 * 1000,
	};
}

/* For a write where the map ends. */
static uint64_t blocks_at(struct xfs_prealloc prealloc, uint64_t block)
{
	return xfs_eof_prealloc_blocks(&prealloc, &map, block << prealloc.blkbits, block);
}

Test(xfs_prealloc, small_files_get_none)
{
	open_map();
	add(0, EXTENT_NO_START, 15, EXTENT_DELAYED);
	cr_assert_eq(blocks_at(full(), 15), 0);
	extent_map_destroy(&map);
}

Test(xfs_prealloc, twice_what_precedes_as_a_power_of_two)
{
	open_map();
	add(0, EXTENT_NO_START, 16, EXTENT_DELAYED);
	cr_assert_eq(blocks_at(full(), 16), 32);
	add(16, EXTENT_NO_START, 37, EXTENT_DELAYED);
	cr_assert_eq(blocks_at(full(), 53), 64);
	extent_map_destroy(&map);
}

Test(xfs_prealloc, after_a_hole_64_kib)
{
	open_map();
	add(0, 100, 1000, EXTENT_NORM);
	cr_assert_eq(blocks_at(full(), 1001), 16);
	extent_map_destroy(&map);
	open_map();
	cr_assert_eq(blocks_at(full(), 500), 16);
	extent_map_destroy(&map);
}

/* XF13: what a flusher's slices cut apart counts as one. */
Test(xfs_prealloc, adjacent_records_count_together)
{
	open_map();
	for (uint64_t i = 0; i < 8; i++)
		add(1024 * i, 5000 + 1024 * i, 1024, i % 2 ? EXTENT_NORM : EXTENT_UNWRITTEN);
	cr_assert_eq(blocks_at(full(), 8192), 16384);
	extent_map_destroy(&map);
}

Test(xfs_prealloc, a_gap_on_the_device_ends_the_run)
{
	open_map();
	add(0, 5000, 1024, EXTENT_NORM);
	add(1024, 9000, 512, EXTENT_NORM);
	cr_assert_eq(blocks_at(full(), 1536), 1024);
	extent_map_destroy(&map);
}

Test(xfs_prealloc, a_delayed_record_ends_the_run)
{
	open_map();
	add(0, 5000, 1024, EXTENT_NORM);
	add(1024, EXTENT_NO_START, 512, EXTENT_DELAYED);
	cr_assert_eq(blocks_at(full(), 1536), 1024);
	extent_map_destroy(&map);
}

/* XF13: a sequential writer whose records are cut reaches the largest preallocation. */
Test(xfs_prealloc, long_sequential_files_reach_the_longest_extent)
{
	uint64_t block = 0;
	uint64_t blocks = 0;

	open_map();
	for (unsigned int i = 0; blocks < XFS_MAX_EXTENT && i < 10000; i++) {
		add(block, 1000 + block, 4096, i % 2 ? EXTENT_NORM : EXTENT_UNWRITTEN);
		block += 4096;
		blocks = blocks_at(full(), block);
	}
	cr_assert_eq(blocks, XFS_MAX_EXTENT);
	cr_assert_leq(block, XFS_MAX_EXTENT + 4096);
	extent_map_destroy(&map);
}

Test(xfs_prealloc, doubling_past_the_longest_extent_takes_the_offset)
{
	open_map();
	add(0, 1000, XFS_MAX_EXTENT, EXTENT_NORM);
	add(XFS_MAX_EXTENT, 1000 + XFS_MAX_EXTENT, 1u << 20, EXTENT_NORM);
	cr_assert_eq(blocks_at(full(), XFS_MAX_EXTENT + (1u << 20)), XFS_MAX_EXTENT);
	extent_map_destroy(&map);
}

Test(xfs_prealloc, little_free_space_means_little_preallocation)
{
	struct xfs_prealloc prealloc = full();
	const unsigned int shifts[] = {6, 5, 4, 3, 2, 0};

	open_map();
	add(0, 1000, 1u << 14, EXTENT_NORM);
	for (unsigned int percent = 0; percent < 6; percent++) {
		prealloc.available = prealloc.total / 100 * percent + prealloc.total / 200;
		cr_assert_eq(blocks_at(prealloc, 1u << 14), (1u << 15) >> shifts[percent],
			     "%u percent", percent);
	}
	extent_map_destroy(&map);
}

Test(xfs_prealloc, never_as_much_as_is_free)
{
	struct xfs_prealloc prealloc = full();

	open_map();
	add(0, 1000, 1u << 14, EXTENT_NORM);
	prealloc.total = 100000;
	prealloc.available = 20000;
	cr_assert_eq(blocks_at(prealloc, 1u << 14), (1u << 15) >> 4);
	extent_map_destroy(&map);
}

Test(xfs_prealloc, allocsize_replaces_the_rule)
{
	struct xfs_prealloc prealloc = full();

	open_map();
	prealloc.allocsize = 4096;
	cr_assert_eq(blocks_at(prealloc, 0), 1);
	prealloc.allocsize = 1 * MIB;
	cr_assert_eq(xfs_eof_prealloc_end(&prealloc, &map, 0, 0, 4096), 256);
	cr_assert_eq(xfs_eof_prealloc_end(&prealloc, &map, MIB, 3 * MIB, 3 * MIB + 5), 1024);
	extent_map_destroy(&map);
}

/* XF12, from real folio sizes: 1024 pages written at page 480 behind 53 delayed blocks. */
Test(xfs_prealloc, the_end_starts_from_the_last_byte_rounded_down)
{
	struct xfs_prealloc prealloc = full();

	open_map();
	add(427, EXTENT_NO_START, 53, EXTENT_DELAYED);
	cr_assert_eq(xfs_eof_prealloc_end(&prealloc, &map, 480 * 4096, 480 * 4096, 1504 * 4096),
		     1552);
	extent_map_destroy(&map);
}

Test(xfs_prealloc, other_block_sizes_use_bytes)
{
	struct xfs_prealloc prealloc = full();

	open_map();
	prealloc.blkbits = 9;
	cr_assert_eq(blocks_at(prealloc, 128), 128, "64 KiB");
	cr_assert_eq(blocks_at(prealloc, 127), 0);
	prealloc.blkbits = 16;
	cr_assert_eq(blocks_at(prealloc, 1), 1);
	extent_map_destroy(&map);
}

Test(xfs_prealloc, knobs)
{
	struct xfs_prealloc prealloc = full();

	open_map();
	add(0, 1000, 4096, EXTENT_NORM);
	prealloc.mode = XFS_EOF_PREALLOC_FIXED;
	cr_assert_eq(blocks_at(prealloc, 4096), 16);
	prealloc.mode = XFS_EOF_PREALLOC_OFF;
	cr_assert_eq(blocks_at(prealloc, 4096), 0);
	cr_assert_eq(xfs_eof_prealloc_end(&prealloc, &map, 16 * MIB, 16 * MIB, 17 * MIB), 0);
	extent_map_destroy(&map);
}

Test(xfs_prealloc, worst_case_map_blocks)
{
	cr_assert_eq(xfs_worst_map_blocks(1, 4096), 1);
	cr_assert_eq(xfs_worst_map_blocks(251, 4096), 1);
	cr_assert_eq(xfs_worst_map_blocks(252, 4096), 2 + 1);
	cr_assert_eq(xfs_worst_map_blocks(1024, 4096), 5 + 1);
	cr_assert_eq(xfs_worst_map_blocks(XFS_MAX_EXTENT, 4096), 8356 + 34 + 1);
}

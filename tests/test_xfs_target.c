/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_xfs_target.c - where a range of a file had best be (XF16)
 */
#include "fsbackends/xfs/target.h"

#include <criterion/criterion.h>

#define AG_BLOCKS 10000

static const struct xfs_geometry geometry = {
	.block_size = 4096,
	.blkbits = 12,
	.nr_blocks = 4 * AG_BLOCKS,
	.ag_blocks = AG_BLOCKS,
	.nr_ags = 4,
};

static struct extent_map map;
static struct xfs_place target;

static void add(uint64_t file, uint64_t start, uint64_t len)
{
	struct extent extent = {.file = file, .start = start, .len = len};

	if (start == EXTENT_NO_START)
		extent.state = EXTENT_DELAYED;
	cr_assert_eq(extent_map_insert(&map, &extent), 0);
}

static void open_map(void)
{
	extent_map_init(&map, XFS_MAX_EXTENT, XFS_MAX_EXTENT);
}

static void close_map(void)
{
	extent_map_destroy(&map);
}

static void target_is(uint64_t ag, uint64_t block)
{
	cr_assert_eq(target.ag, ag);
	cr_assert_eq(target.block, block, "block %llu", (unsigned long long)target.block);
}

/* ---- (a) delayed ------------------------------------------------------------------------- */

Test(xfs_target, delayed_follows_the_record_before)
{
	open_map();
	add(0, 12000, 10);
	cr_assert(xfs_target_delayed(&geometry, &map, 10, 5, true, &target));
	target_is(1, 2010);
	close_map();
}

Test(xfs_target, delayed_keeps_a_gap_of_four_lengths)
{
	open_map();
	add(0, 12000, 10);
	cr_assert(xfs_target_delayed(&geometry, &map, 30, 5, true, &target));
	target_is(1, 2030);
	cr_assert(xfs_target_delayed(&geometry, &map, 31, 5, true, &target));
	target_is(1, 2010);
	cr_assert(xfs_target_delayed(&geometry, &map, 30, 5, false, &target));
	target_is(1, 2010);
	close_map();
}

Test(xfs_target, delayed_stays_in_the_group)
{
	open_map();
	add(0, 19980, 10);
	cr_assert(xfs_target_delayed(&geometry, &map, 20, 5, true, &target));
	target_is(1, 9990);
	add(10, 19990, 10);
	cr_assert(xfs_target_delayed(&geometry, &map, 20, 5, true, &target));
	target_is(1, 10000);
	close_map();
}

Test(xfs_target, delayed_knows_nothing_without_a_real_record_before)
{
	open_map();
	cr_assert(!xfs_target_delayed(&geometry, &map, 30, 5, true, &target));
	add(0, 12000, 10);
	add(20, EXTENT_NO_START, 5);
	add(40, 500, 5);
	cr_assert(!xfs_target_delayed(&geometry, &map, 30, 5, true, &target));
	close_map();
}

/* ---- (b) direct -------------------------------------------------------------------------- */

Test(xfs_target, direct_at_the_end_keeps_any_gap)
{
	open_map();
	add(0, 12000, 10);
	cr_assert(xfs_target_direct(&geometry, &map, 5010, 1, true, &target));
	target_is(1, 7010);
	cr_assert(xfs_target_direct(&geometry, &map, 9010, 1, true, &target));
	target_is(1, 2010);
	close_map();
}

Test(xfs_target, direct_takes_the_nearer_side)
{
	open_map();
	add(0, 1000, 10);
	add(100, 25000, 10);
	cr_assert(xfs_target_direct(&geometry, &map, 20, 10, true, &target));
	target_is(0, 1020);
	cr_assert(xfs_target_direct(&geometry, &map, 80, 10, true, &target));
	target_is(2, 5000 - 20);
	close_map();
}

Test(xfs_target, direct_takes_the_left_on_ties)
{
	open_map();
	add(0, 1000, 10);
	add(50, 25000, 10);
	cr_assert(xfs_target_direct(&geometry, &map, 30, 20, true, &target));
	target_is(0, 1030);
	close_map();
}

/* Gap of 60 over 4 lengths of 10: before the next by its own length, at 2 * 60 - 10. */
Test(xfs_target, direct_goes_right_before_a_far_next)
{
	open_map();
	add(100, 25000, 10);
	cr_assert(xfs_target_direct(&geometry, &map, 40, 10, true, &target));
	target_is(2, 4990);
	close_map();
}

Test(xfs_target, direct_knows_nothing_between_delayed_records)
{
	open_map();
	add(0, EXTENT_NO_START, 10);
	add(100, EXTENT_NO_START, 10);
	cr_assert(!xfs_target_direct(&geometry, &map, 40, 10, true, &target));
	close_map();
}

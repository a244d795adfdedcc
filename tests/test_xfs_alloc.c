/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_xfs_alloc.c - which blocks a request gets (XF17..XF22), on four small groups
 */
#include "fsbackends/xfs/alloc.h"

#include <criterion/criterion.h>
#include <errno.h>

/* ---- near search in one group ------------------------------------------------------------ */

static struct xfs_free_space free_space;

static void add(uint64_t start, uint64_t len)
{
	cr_assert_eq(xfs_free_space_add(&free_space, start, len), 0);
}

static void found_is(struct xfs_found found, uint64_t start, uint64_t len)
{
	cr_assert_eq(found.start, start, "start %llu", (unsigned long long)found.start);
	cr_assert_eq(found.len, len, "len %llu", (unsigned long long)found.len);
}

Test(xfs_alloc, near_takes_the_target_inside_a_free_extent)
{
	add(100, 100);
	found_is(xfs_find_near(&free_space, 150, 10, 10), 150, 10);
	found_is(xfs_find_near(&free_space, 190, 10, 10), 190, 10);
	xfs_free_space_destroy(&free_space);
}

Test(xfs_alloc, near_takes_the_start_of_an_extent_that_ends_too_early)
{
	add(100, 100);
	found_is(xfs_find_near(&free_space, 191, 10, 10), 100, 10);
	found_is(xfs_find_near(&free_space, 500, 10, 10), 100, 10);
	found_is(xfs_find_near(&free_space, 50, 10, 10), 100, 10);
	xfs_free_space_destroy(&free_space);
}

Test(xfs_alloc, near_prefers_the_nearest_of_those_that_fit)
{
	add(0, 20);
	add(100, 20);
	add(130, 5);
	add(300, 1000);
	found_is(xfs_find_near(&free_space, 140, 10, 10), 100, 10);
	found_is(xfs_find_near(&free_space, 250, 10, 10), 300, 10);
	xfs_free_space_destroy(&free_space);
}

Test(xfs_alloc, near_takes_the_longest_if_none_fits)
{
	add(0, 30);
	add(100, 20);
	add(400, 30);
	found_is(xfs_find_near(&free_space, 110, 1, 50), 0, 30);
	found_is(xfs_find_near(&free_space, 390, 1, 50), 400, 30);
	found_is(xfs_find_near(&free_space, 390, 31, 50), 0, 0);
	xfs_free_space_destroy(&free_space);
}

/* 1000 free extents of 2 blocks every 10: too many to look at all. */
static void add_many(void)
{
	for (uint64_t i = 0; i < 1000; i++)
		add(10 * i, 2);
}

Test(xfs_alloc, near_walks_both_ways_among_many)
{
	add_many();
	found_is(xfs_find_near(&free_space, 5004, 2, 2), 5000, 2);
	found_is(xfs_find_near(&free_space, 5007, 2, 2), 5010, 2);
	found_is(xfs_find_near(&free_space, 5000, 1, 1), 5000, 1);
	found_is(xfs_find_near(&free_space, 5001, 1, 1), 5001, 1);
	found_is(xfs_find_near(&free_space, 20000, 2, 2), 9990, 2);
	xfs_free_space_destroy(&free_space);
}

Test(xfs_alloc, near_agrees_with_trying_every_extent)
{
	struct env_rng rng;

	env_rng_seed(&rng, 7);
	for (uint64_t i = 0; i < 3000; i++)
		add(20 * i, 1 + env_rng_below(&rng, 15));
	for (int round = 0; round < 500; round++) {
		uint64_t target = env_rng_below(&rng, 60000);
		uint64_t len = 1 + env_rng_below(&rng, 12);
		struct xfs_found found = xfs_find_near(&free_space, target, len, len);
		uint64_t best = UINT64_MAX;
		uint64_t distance =
			found.start < target ? target - found.start : found.start - target;

		for (const struct xfs_free_extent *e = xfs_free_space_first(&free_space); e;
		     e = xfs_free_extent_by_start(e, XFS_TREE_RIGHT)) {
			uint64_t at = e->start;

			if (e->len < len)
				continue;
			if (at < target && at + e->len >= target + len)
				at = target;
			at = at < target ? target - at : at - target;
			best = at < best ? at : best;
		}
		cr_assert_eq(found.len, len);
		cr_assert_eq(distance, best);
	}
	xfs_free_space_destroy(&free_space);
}

Test(xfs_alloc, by_size_takes_the_smallest_that_fits)
{
	add(0, 30);
	add(100, 20);
	add(400, 25);
	found_is(xfs_find_by_size(&free_space, 21, 21), 400, 21);
	found_is(xfs_find_by_size(&free_space, 5, 50), 0, 30);
	found_is(xfs_find_by_size(&free_space, 31, 50), 0, 0);
	xfs_free_space_destroy(&free_space);
}

/* ---- four groups ------------------------------------------------------------------------- */

#define AG_BLOCKS 1000

static struct xfs_space space;

static void open_space(void)
{
	struct xfs_geometry_config config = {
		.size = 4 * AG_BLOCKS * 4096,
		.block_size = 4096,
		.nr_ags = 4,
	};
	struct xfs_geometry geometry;
	char error[200];

	cr_assert_eq(xfs_geometry_init(&geometry, &config, error, sizeof(error)), 0);
	cr_assert_eq(xfs_space_init(&space, &geometry), 0);
}

/* Leave free in the group only [start, start + len). */
static void leave_only(uint64_t ag, uint64_t start, uint64_t len)
{
	struct xfs_free_space *ag_free = &space.ags[ag].free;

	xfs_free_space_destroy(ag_free);
	if (len > 0)
		cr_assert_eq(xfs_free_space_add(ag_free, start, len), 0);
}

static uint64_t start_got;
static uint64_t len_got;

static int alloc(uint64_t ag, uint64_t block, uint64_t len)
{
	struct xfs_alloc_request request = {.target = {ag, block}, .len = len};

	return xfs_alloc(&space, &request, &start_got, &len_got);
}

Test(xfs_alloc, the_target_is_taken_if_it_is_free)
{
	open_space();
	cr_assert_eq(alloc(2, 500, 10), 0);
	cr_assert_eq(start_got, 2 * AG_BLOCKS + 500);
	cr_assert_eq(len_got, 10);
	xfs_space_destroy(&space);
}

Test(xfs_alloc, a_busy_group_is_passed_by)
{
	open_space();
	leave_only(3, 700, 20);
	env_mutex_lock(&space.ags[2].agf);
	cr_assert_eq(alloc(2, 500, 10), 0);
	env_mutex_unlock(&space.ags[2].agf);
	cr_assert_eq(start_got, 3 * AG_BLOCKS + 700, "by size in the next group");
	xfs_space_destroy(&space);
}

Test(xfs_alloc, the_search_goes_round_the_groups)
{
	open_space();
	leave_only(2, 0, 0);
	leave_only(3, 100, 5);
	leave_only(0, 300, 50);
	cr_assert_eq(alloc(2, 500, 10), 0);
	cr_assert_eq(start_got, 300);
	xfs_space_destroy(&space);
}

Test(xfs_alloc, the_minimum_is_the_longest_seen_on_the_way)
{
	struct xfs_alloc_request request = {.target = {1, 0}, .len = 100};

	open_space();
	for (uint64_t ag = 0; ag < 4; ag++)
		leave_only(ag, 50, 10 * (ag + 1));
	cr_assert_eq(xfs_minimum_len(&space, &request), 40);
	request.len = 20;
	cr_assert_eq(xfs_minimum_len(&space, &request), 20);
	for (uint64_t ag = 0; ag < 4; ag++)
		leave_only(ag, 0, 0);
	cr_assert_eq(xfs_minimum_len(&space, &request), 1);
	xfs_space_destroy(&space);
}

Test(xfs_alloc, a_request_too_long_for_all_gets_the_longest)
{
	open_space();
	for (uint64_t ag = 0; ag < 4; ag++)
		leave_only(ag, 50, 10 * (ag + 1));
	cr_assert_eq(alloc(1, 0, 100), 0);
	cr_assert_eq(start_got, 3 * AG_BLOCKS + 50);
	cr_assert_eq(len_got, 40);
	xfs_space_destroy(&space);
}

Test(xfs_alloc, every_free_block_can_be_had)
{
	uint64_t nr = 0;

	open_space();
	while (alloc(1, 100, 77) == 0)
		nr += len_got;
	cr_assert_eq(nr, space.total);
	xfs_space_destroy(&space);
}

Test(xfs_alloc, what_is_freed_can_be_had_again)
{
	open_space();
	cr_assert_eq(xfs_space_claim(&space, 10), 0);
	cr_assert_eq(alloc(1, 100, 10), 0);
	xfs_free(&space, start_got, len_got, NULL);
	cr_assert_eq(xfs_space_available(&space), space.total);
	cr_assert_eq(alloc(1, 100, 10), 0);
	cr_assert_eq(start_got, AG_BLOCKS + 100);
	xfs_space_destroy(&space);
}

Test(xfs_alloc, headers_and_log_are_never_free)
{
	uint64_t log_ag;

	open_space();
	log_ag = space.geometry.log_ag;
	cr_assert_eq(log_ag, 2);
	cr_assert_eq(xfs_free_space_first(&space.ags[0].free)->start, XFS_AG_HEADER_BLOCKS);
	cr_assert_eq(xfs_free_space_first(&space.ags[log_ag].free)->start,
		     XFS_AG_HEADER_BLOCKS + space.geometry.log_blocks);
	xfs_space_destroy(&space);
}

Test(xfs_alloc, promises_come_out_of_what_is_available)
{
	open_space();
	cr_assert_eq(xfs_space_reserve(&space, 100), 0);
	cr_assert_eq(xfs_space_available(&space), space.total - 100);
	cr_assert_eq(xfs_space_reserve(&space, space.total), -ENOSPC);
	xfs_space_use_reserved(&space, 40);
	xfs_space_unreserve(&space, 60);
	cr_assert_eq(space.reserved, 0);
	cr_assert_eq(xfs_space_available(&space), space.total - 40);
	xfs_space_destroy(&space);
}

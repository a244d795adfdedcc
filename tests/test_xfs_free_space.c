/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_xfs_free_space.c - the two maps of free extents against a bitmap (XF7)
 */
#include "fsbackends/xfs/free-space.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include <iomap/env.h>

#define NR_BLOCKS 2000

struct model {
	struct xfs_free_space space;
	bool is_free[NR_BLOCKS];
};

static void model_open(struct model *model)
{
	memset(model, 0, sizeof(*model));
	xfs_free_space_init(&model->space);
}

static void model_add(struct model *model, uint64_t start, uint64_t len)
{
	cr_assert_eq(xfs_free_space_add(&model->space, start, len), 0);
	for (uint64_t i = 0; i < len; i++)
		model->is_free[start + i] = true;
}

static void model_take(struct model *model, uint64_t start, uint64_t len)
{
	cr_assert_eq(xfs_free_space_take(&model->space, start, len), 0);
	for (uint64_t i = 0; i < len; i++)
		model->is_free[start + i] = false;
}

/* The run of equal blocks from start on. */
static uint64_t run_len(const struct model *model, uint64_t start)
{
	uint64_t end = start;

	while (end < NR_BLOCKS && model->is_free[end] == model->is_free[start])
		end++;
	return end - start;
}

static void check_equal(const struct model *model)
{
	const struct xfs_free_extent *extent = xfs_free_space_first(&model->space);
	uint64_t start = 0;
	uint64_t longest = 0;
	uint64_t nr_blocks = 0;

	cr_assert(xfs_free_space_ok(&model->space));
	while (start < NR_BLOCKS) {
		uint64_t len = run_len(model, start);

		if (model->is_free[start]) {
			cr_assert(extent);
			cr_assert_eq(extent->start, start);
			cr_assert_eq(extent->len, len);
			extent = xfs_free_extent_by_start(extent, XFS_TREE_RIGHT);
			longest = len > longest ? len : longest;
			nr_blocks += len;
		}
		start += len;
	}
	cr_assert_null(extent);
	cr_assert_eq(xfs_free_space_longest(&model->space), longest);
	cr_assert_eq(xfs_free_space_nr_blocks(&model->space), nr_blocks);
}

Test(xfs_free_space, agrees_with_a_bitmap)
{
	struct model *model = env_alloc(sizeof(*model));
	struct env_rng rng;

	env_rng_seed(&rng, 1);
	model_open(model);
	for (int i = 0; i < 20000; i++) {
		uint64_t start = env_rng_below(&rng, NR_BLOCKS);
		uint64_t len = 1 + env_rng_below(&rng, run_len(model, start));

		if (env_rng_below(&rng, 2))
			len = 1 + len % 5 < len ? 1 + len % 5 : len;
		if (model->is_free[start])
			model_take(model, start, len);
		else
			model_add(model, start, len);
		if (i % 100 == 0)
			check_equal(model);
	}
	check_equal(model);
	xfs_free_space_destroy(&model->space);
	env_free(model);
}

Test(xfs_free_space, by_size_orders_by_length_then_start)
{
	struct xfs_free_space space;
	const struct xfs_free_extent *extent;

	xfs_free_space_init(&space);
	xfs_free_space_add(&space, 50, 3);
	xfs_free_space_add(&space, 10, 3);
	xfs_free_space_add(&space, 30, 7);
	xfs_free_space_add(&space, 90, 1);

	extent = xfs_free_space_fitting(&space, 2);
	cr_assert_eq(extent->start, 10);
	cr_assert_eq(xfs_free_space_nr_from(&space, extent), 3);
	extent = xfs_free_extent_by_size(extent, XFS_TREE_RIGHT);
	cr_assert_eq(extent->start, 50);
	extent = xfs_free_extent_by_size(extent, XFS_TREE_RIGHT);
	cr_assert_eq(extent, xfs_free_space_largest(&space));
	cr_assert_eq(extent->start, 30);
	cr_assert_null(xfs_free_space_fitting(&space, 8));
	xfs_free_space_destroy(&space);
}

Test(xfs_free_space, holds_a_hundred_thousand_extents)
{
	struct xfs_free_space space;

	xfs_free_space_init(&space);
	for (uint64_t i = 0; i < 100000; i++)
		cr_assert_eq(xfs_free_space_add(&space, 2 * (i * 7919 % 100000), 1), 0);
	cr_assert(xfs_free_space_ok(&space));
	cr_assert_eq(xfs_tree_nr(&space.by_start), 100000);
	for (uint64_t i = 0; i < 100000; i += 2)
		cr_assert_eq(xfs_free_space_take(&space, 2 * i, 1), 0);
	cr_assert(xfs_free_space_ok(&space));
	cr_assert_eq(xfs_free_space_at(&space, 4)->start, 2);
	xfs_free_space_destroy(&space);
}

Test(xfs_free_space, freeing_goes_on_without_memory)
{
	struct xfs_free_space space;

	xfs_free_space_init(&space);
	xfs_free_space_add(&space, 0, 100);
	xfs_free_space_take(&space, 0, 100);
	env_alloc_fail(0, 1000);
	for (uint64_t i = 0; i < 10; i++)
		cr_assert_eq(xfs_free_space_add(&space, 10 * i, 1), 0);
	env_alloc_fail(0, 0);
	cr_assert(xfs_free_space_ok(&space));
	xfs_free_space_destroy(&space);
}

Test(xfs_free_space, nothing_changes_without_memory)
{
	struct xfs_free_space space;

	xfs_free_space_init(&space);
	xfs_free_space_add(&space, 0, 100);
	env_alloc_fail(0, 1000);
	cr_assert_eq(xfs_free_space_take(&space, 10, 10), -ENOMEM);
	cr_assert_eq(xfs_free_space_add(&space, 200, 1), -ENOMEM);
	env_alloc_fail(0, 0);
	cr_assert(xfs_free_space_ok(&space));
	cr_assert_eq(xfs_free_space_nr_blocks(&space), 100);
	xfs_free_space_destroy(&space);
}

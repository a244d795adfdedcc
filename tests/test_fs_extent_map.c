/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_fs_extent_map.c - the extent map against an array with one entry a block
 */
#include "fsbackends/base/extent-map.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include <iomap/env.h>

#define MODEL_BLOCKS 4096

struct model_block {
	bool present;
	enum extent_state state;
	uint64_t start;
};

/* The map, what it should say, and the promises it should hold. */
struct world {
	struct extent_map map;
	struct model_block blocks[MODEL_BLOCKS];
	uint64_t reserved;
	uint64_t next_start;
	struct env_rng rng;
};

static void world_init(struct world *world, uint64_t seed, uint64_t max_len, uint64_t max_unwritten)
{
	memset(world, 0, sizeof(*world));
	extent_map_init(&world->map, max_len, max_unwritten);
	env_rng_seed(&world->rng, seed);
	world->next_start = 1000;
}

static uint64_t world_random(struct world *world, uint64_t below)
{
	return env_rng_below(&world->rng, below);
}

static struct extent norm(uint64_t file, uint64_t start, uint64_t len)
{
	return (struct extent){file, start, len, EXTENT_NORM, 0};
}

static struct extent delayed(uint64_t file, uint64_t len, uint32_t reserved)
{
	return (struct extent){file, EXTENT_NO_START, len, EXTENT_DELAYED, reserved};
}

static bool block_matches(const struct extent *extent, uint64_t block,
			  const struct model_block *model)
{
	if (!model->present || model->state != extent->state)
		return false;
	return extent->state == EXTENT_DELAYED ||
	       model->start == extent->start + (block - extent->file);
}

static bool blocks_continue(const struct model_block *a, const struct model_block *b)
{
	if (!a->present || !b->present || a->state != b->state)
		return false;
	return a->state == EXTENT_DELAYED || a->start + 1 == b->start;
}

/* The records say of each block what the model says, and nothing else. */
static void check_blocks(const struct world *world)
{
	struct extent extent;
	uint64_t block = 0;
	uint64_t reserved = 0;
	uint64_t nr = 0;

	while (extent_map_find(&world->map, block, &extent)) {
		cr_assert_geq(extent.file, block);
		for (; block < extent.file; block++)
			cr_assert_not(world->blocks[block].present);
		for (; block < extent.file + extent.len; block++)
			cr_assert(block_matches(&extent, block, &world->blocks[block]));
		reserved += extent.reserved;
		nr++;
	}
	for (; block < MODEL_BLOCKS; block++)
		cr_assert_not(world->blocks[block].present);
	cr_assert_eq(nr, world->map.nr);
	cr_assert_eq(reserved, world->reserved);
	cr_assert(extent_map_ok(&world->map));
}

/* With no limit on the length, a record is as long as it can be. */
static void check_nr_records(const struct world *world)
{
	uint64_t nr = 0;

	for (size_t i = 0; i < MODEL_BLOCKS; i++)
		if (world->blocks[i].present &&
		    (i == 0 || !blocks_continue(&world->blocks[i - 1], &world->blocks[i])))
			nr++;
	cr_assert_eq(nr, world->map.nr);
}

static void check_find_before(struct world *world)
{
	uint64_t block = world_random(world, MODEL_BLOCKS + 1);
	struct extent extent;
	uint64_t last = block;

	while (last > 0 && !world->blocks[last - 1].present)
		last--;
	cr_assert_eq(extent_map_find_before(&world->map, block, &extent), last > 0);
	if (last > 0) {
		cr_assert_lt(extent.file, block);
		cr_assert(extent.file <= last - 1 && last - 1 < extent.file + extent.len);
	}
}

static void check_last(const struct world *world)
{
	struct extent extent;
	uint64_t last = MODEL_BLOCKS;

	while (last > 0 && !world->blocks[last - 1].present)
		last--;
	cr_assert_eq(extent_map_last(&world->map, &extent), last > 0);
	if (last > 0)
		cr_assert_eq(extent.file + extent.len, last);
}

/* Blocks from `block` on that are all present or all absent. */
static uint64_t run_length(const struct world *world, uint64_t block, uint64_t max)
{
	uint64_t n = 0;

	while (n < max && block + n < MODEL_BLOCKS &&
	       world->blocks[block + n].present == world->blocks[block].present)
		n++;
	return n;
}

/* A device place: often the one that continues the block before. */
static uint64_t world_start(struct world *world, uint64_t block, uint64_t len)
{
	const struct model_block *before = &world->blocks[block - (block > 0)];

	if (block > 0 && before->present && before->state != EXTENT_DELAYED &&
	    world_random(world, 4) > 0)
		return before->start + 1;
	world->next_start += len + 1;
	return world->next_start - len;
}

static void model_set(struct world *world, uint64_t block, uint64_t len, enum extent_state state,
		      uint64_t start)
{
	for (uint64_t i = 0; i < len; i++) {
		struct model_block *model = &world->blocks[block + i];

		model->present = true;
		model->state = state;
		if (start != EXTENT_NO_START)
			model->start = start + i;
	}
}

static void world_insert(struct world *world, uint64_t block, uint64_t len)
{
	struct extent extent = {.file = block, .len = len, .start = EXTENT_NO_START};
	int err;

	extent.state = (enum extent_state)world_random(world, 3);
	if (extent.state == EXTENT_DELAYED)
		extent.reserved = (uint32_t)world_random(world, 5);
	else
		extent.start = world_start(world, block, len);
	err = extent_map_insert(&world->map, &extent);
	if (err)
		return;
	world->reserved += extent.reserved;
	model_set(world, block, len, extent.state, extent.start);
}

static bool any_delayed(const struct world *world, uint64_t block, uint64_t len)
{
	for (uint64_t i = 0; i < len; i++)
		if (world->blocks[block + i].state == EXTENT_DELAYED)
			return true;
	return false;
}

static void world_convert(struct world *world, uint64_t block, uint64_t len)
{
	enum extent_state state = (enum extent_state)world_random(world, 2);
	uint64_t start = EXTENT_NO_START;
	uint32_t reserved = 0;

	if (any_delayed(world, block, len) || world_random(world, 3) == 0)
		start = world_start(world, block, len);
	if (extent_map_convert(&world->map, block, len, start, state, &reserved))
		return;
	world->reserved -= reserved;
	model_set(world, block, len, state, start);
}

struct removal {
	struct world *world;
	uint64_t pos;
	uint64_t reserved;
	unsigned int nr_calls;
};

static void remove_piece(void *arg, const struct extent *piece)
{
	struct removal *removal = arg;

	cr_assert_geq(piece->file, removal->pos);
	for (uint64_t block = piece->file; block < piece->file + piece->len; block++) {
		cr_assert(block_matches(piece, block, &removal->world->blocks[block]));
		removal->world->blocks[block] = (struct model_block){0};
	}
	removal->pos = piece->file + piece->len;
	removal->reserved += piece->reserved;
	removal->nr_calls++;
}

static void world_remove(struct world *world, uint64_t block, uint64_t len)
{
	struct removal removal = {.world = world, .pos = block};
	bool only_delayed = world_random(world, 3) == 0;
	int err = extent_map_remove(&world->map, block, len, only_delayed, remove_piece, &removal);

	if (err) {
		cr_assert_eq(err, -ENOMEM);
		cr_assert_eq(removal.nr_calls, 0);
		return;
	}
	cr_assert_leq(removal.pos, block + len);
	world->reserved -= removal.reserved;
	for (uint64_t i = block; i < block + len && i < MODEL_BLOCKS; i++)
		cr_assert(!world->blocks[i].present ||
			  (only_delayed && world->blocks[i].state != EXTENT_DELAYED));
}

static void world_step(struct world *world, uint64_t max_len)
{
	uint64_t block = world_random(world, MODEL_BLOCKS);
	uint64_t len = run_length(world, block, 1 + world_random(world, max_len));

	if (!world->blocks[block].present)
		world_insert(world, block, len);
	else if (world_random(world, 3) > 0)
		world_convert(world, block, len);
	else
		world_remove(world, block, 1 + world_random(world, 2 * max_len));
}

static void run_model(uint64_t seed, uint64_t max_record, uint64_t max_unwritten, uint64_t max_len,
		      unsigned int nr_steps, unsigned int nr_allocs_to_fail)
{
	struct world *world = env_zalloc(sizeof(*world));

	cr_assert(world);
	world_init(world, seed, max_record, max_unwritten);
	for (unsigned int i = 0; i < nr_steps; i++) {
		if (nr_allocs_to_fail)
			env_alloc_fail(i % nr_allocs_to_fail, i % 4 != 0);
		world_step(world, max_len);
		check_find_before(world);
		if (i % 16 == 0) {
			check_blocks(world);
			check_last(world);
			if (max_record > MODEL_BLOCKS)
				check_nr_records(world);
		}
	}
	env_alloc_fail(0, 0);
	check_blocks(world);
	extent_map_destroy(&world->map);
	env_free(world);
}

Test(fs_extent_map, says_of_each_block_what_was_done_to_it)
{
	for (uint64_t seed = 1; seed <= 4; seed++)
		run_model(seed, UINT32_MAX, UINT32_MAX, 8, 6000, 0);
}

Test(fs_extent_map, works_with_single_blocks_in_many_chunks)
{
	run_model(11, UINT32_MAX, UINT32_MAX, 1, 20000, 0);
}

Test(fs_extent_map, works_with_ranges_over_many_chunks)
{
	run_model(12, UINT32_MAX, UINT32_MAX, 1, 10000, 0);
	run_model(13, UINT32_MAX, UINT32_MAX, 1500, 4000, 0);
}

Test(fs_extent_map, keeps_to_the_longest_length)
{
	run_model(21, 16, 7, 16, 8000, 0);
	run_model(22, 8, 8, 8, 8000, 0);
}

Test(fs_extent_map, is_unchanged_when_an_allocation_fails)
{
	for (unsigned int nr = 1; nr <= 3; nr++) {
		run_model(30 + nr, UINT32_MAX, UINT32_MAX, 2, 8000, nr);
		run_model(40 + nr, 200, 50, 200, 4000, nr);
	}
}

Test(fs_extent_map, a_failed_first_insert_leaves_it_empty)
{
	struct extent_map map;
	struct extent extent = norm(0, 10, 1);

	extent_map_init(&map, 100, 100);
	for (unsigned int after = 0; after < 2; after++) {
		env_alloc_fail(after, 1);
		cr_expect_eq(extent_map_insert(&map, &extent), -ENOMEM);
		env_alloc_fail(0, 0);
		cr_expect_not(extent_map_find(&map, 0, &extent));
		cr_expect_eq(map.nr, 0);
	}
	cr_expect_eq(extent_map_insert(&map, &extent), 0);
	extent_map_destroy(&map);
}

/* XF9 */
Test(fs_extent_map, adjacent_real_records_join)
{
	struct extent_map map;
	struct extent extents[] = {norm(0, 100, 5), norm(10, 110, 5), norm(5, 105, 5)};
	struct extent found;

	extent_map_init(&map, 100, 100);
	for (size_t i = 0; i < 3; i++)
		cr_assert_eq(extent_map_insert(&map, &extents[i]), 0);
	cr_assert_eq(map.nr, 1);
	cr_assert(extent_map_find(&map, 7, &found));
	cr_expect_eq(found.file, 0);
	cr_expect_eq(found.start, 100);
	cr_expect_eq(found.len, 15);
	extent_map_destroy(&map);
}

/* XF9 */
Test(fs_extent_map, records_apart_on_the_device_do_not_join)
{
	struct extent_map map;
	struct extent a = norm(0, 100, 5);
	struct extent b = norm(5, 106, 5);

	extent_map_init(&map, 100, 100);
	cr_assert_eq(extent_map_insert(&map, &a), 0);
	cr_assert_eq(extent_map_insert(&map, &b), 0);
	cr_expect_eq(map.nr, 2);
	extent_map_destroy(&map);
}

/* XF9 */
Test(fs_extent_map, delayed_records_join_and_add_up_their_promises)
{
	struct extent_map map;
	struct extent a = delayed(0, 5, 2);
	struct extent b = delayed(5, 5, 3);
	struct extent found;

	extent_map_init(&map, 100, 100);
	cr_assert_eq(extent_map_insert(&map, &a), 0);
	cr_assert_eq(extent_map_insert(&map, &b), 0);
	cr_assert(extent_map_find(&map, 0, &found));
	cr_expect_eq(found.len, 10);
	cr_expect_eq(found.reserved, 5);
	extent_map_destroy(&map);
}

Test(fs_extent_map, a_delayed_record_converted_as_a_whole_gives_its_promise_back)
{
	struct extent_map map;
	struct extent a = delayed(0, 10, 7);
	uint32_t reserved = 0;

	extent_map_init(&map, 100, 100);
	cr_assert_eq(extent_map_insert(&map, &a), 0);
	cr_assert_eq(extent_map_convert(&map, 0, 10, 50, EXTENT_UNWRITTEN, &reserved), 0);
	cr_expect_eq(reserved, 7);
	cr_expect_eq(map.nr, 1);
	extent_map_destroy(&map);
}

Test(fs_extent_map, a_delayed_record_converted_in_part_keeps_its_promise)
{
	struct extent_map map;
	struct extent a = delayed(0, 10, 7);
	struct extent found;
	uint32_t reserved = 99;

	extent_map_init(&map, 100, 100);
	cr_assert_eq(extent_map_insert(&map, &a), 0);
	cr_assert_eq(extent_map_convert(&map, 0, 4, 50, EXTENT_UNWRITTEN, &reserved), 0);
	cr_expect_eq(reserved, 0);
	cr_assert(extent_map_find(&map, 4, &found));
	cr_expect_eq(found.state, EXTENT_DELAYED);
	cr_expect_eq(found.len, 6);
	cr_expect_eq(found.reserved, 7);
	extent_map_destroy(&map);
}

/* A completion over several extents: each keeps its address. */
Test(fs_extent_map, converting_to_written_keeps_addresses)
{
	struct extent_map map;
	struct extent a = {0, 100, 5, EXTENT_UNWRITTEN, 0};
	struct extent b = {5, 300, 5, EXTENT_UNWRITTEN, 0};
	struct extent found;

	extent_map_init(&map, 100, 100);
	cr_assert_eq(extent_map_insert(&map, &a), 0);
	cr_assert_eq(extent_map_insert(&map, &b), 0);
	cr_assert_eq(extent_map_convert(&map, 3, 4, EXTENT_NO_START, EXTENT_NORM, NULL), 0);
	cr_expect_eq(map.nr, 4);
	cr_assert(extent_map_find(&map, 3, &found));
	cr_expect_eq(found.start, 103);
	cr_expect_eq(found.len, 2);
	cr_assert(extent_map_find(&map, 5, &found));
	cr_expect_eq(found.start, 300);
	cr_expect_eq(found.state, EXTENT_NORM);
	extent_map_destroy(&map);
}

Test(fs_extent_map, removing_nothing_calls_nobody)
{
	struct extent_map map;
	struct extent a = norm(10, 100, 5);

	extent_map_init(&map, 100, 100);
	cr_expect_eq(extent_map_remove(&map, 0, UINT64_MAX, false, NULL, NULL), 0);
	cr_assert_eq(extent_map_insert(&map, &a), 0);
	cr_expect_eq(extent_map_remove(&map, 0, 10, false, NULL, NULL), 0);
	cr_expect_eq(extent_map_remove(&map, 15, UINT64_MAX, false, NULL, NULL), 0);
	cr_expect_eq(map.nr, 1);
	extent_map_destroy(&map);
}

/* Memory: a file written in order has full chunks, and an emptied map has none. */
Test(fs_extent_map, chunks_are_full_after_appending_and_gone_after_removing)
{
	struct extent_map map;
	const uint64_t nr = 100000;

	extent_map_init(&map, 100, 100);
	for (uint64_t i = 0; i < nr; i++) {
		struct extent extent = norm(2 * i, 5 * i, 1);

		cr_assert_eq(extent_map_insert(&map, &extent), 0);
	}
	cr_expect_eq(map.nr, nr);
	cr_expect_eq(map.nr_chunks, (nr + 127) / 128);
	cr_expect(extent_map_ok(&map));
	cr_expect_eq(extent_map_remove(&map, 1, UINT64_MAX, false, NULL, NULL), 0);
	cr_expect_eq(map.nr, 1);
	cr_expect_eq(extent_map_remove(&map, 0, UINT64_MAX, false, NULL, NULL), 0);
	cr_expect_eq(map.nr_chunks, 0);
	extent_map_destroy(&map);
}

/* Blocks filled in a scattered order end as one record in one chunk. */
Test(fs_extent_map, scattered_filling_ends_in_one_record)
{
	struct extent_map map;
	const uint64_t nr = 65536;

	extent_map_init(&map, nr, nr);
	for (uint64_t i = 0; i < nr; i++) {
		uint64_t block = i * 40503 % nr;
		struct extent extent = norm(block, 7 + block, 1);

		cr_assert_eq(extent_map_insert(&map, &extent), 0);
	}
	cr_expect_eq(map.nr, 1);
	cr_expect_eq(map.nr_chunks, 1);
	cr_expect(extent_map_ok(&map));
	extent_map_destroy(&map);
}

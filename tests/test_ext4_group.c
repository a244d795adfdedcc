/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_ext4_group.c - the bitmap, runs and buddies of a block group, against an array of bools
 */
#include "fsbackends/ext4/group.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#define NR	  200u
#define MAX_ORDER 5u

struct world {
	struct ext4_groups groups;
	struct ext4_group *group;
	bool is_free[NR];
};

static void world_open(struct world *world)
{
	cr_assert_eq(ext4_groups_init(&world->groups, NR, NR, MAX_ORDER), 0);
	world->group = &world->groups.group[0];
	memset(world->is_free, true, sizeof(world->is_free));
}

static void world_close(struct world *world)
{
	ext4_groups_destroy(&world->groups);
}

static void take(struct world *world, uint32_t start, uint32_t len)
{
	ext4_group_take(world->group, start, len);
	memset(world->is_free + start, false, len);
}

static void give(struct world *world, uint32_t start, uint32_t len)
{
	ext4_group_give(world->group, start, len);
	memset(world->is_free + start, true, len);
}

static bool buddy_is_free(const struct world *world, uint32_t start, unsigned int order)
{
	if (start + (1u << order) > NR)
		return false;
	for (uint32_t i = 0; i < 1u << order; i++)
		if (!world->is_free[start + i])
			return false;
	return true;
}

/* Free, and not half of a larger free buddy. */
static bool is_buddy(const struct world *world, uint32_t start, unsigned int order)
{
	uint32_t parent = start & ~((2u << order) - 1);

	if (!buddy_is_free(world, start, order))
		return false;
	return order == MAX_ORDER || !buddy_is_free(world, parent, order + 1);
}

static uint32_t count_buddies(const struct world *world, unsigned int order)
{
	uint32_t n = 0;

	for (uint32_t start = 0; start < NR; start += 1u << order)
		n += is_buddy(world, start, order);
	return n;
}

static void check_counters(const struct world *world)
{
	const struct ext4_group *group = world->group;
	uint32_t nr_free = 0, nr_runs = 0, first_free = NR;

	for (uint32_t i = NR; i-- > 0;) {
		if (!world->is_free[i])
			continue;
		nr_free++;
		nr_runs += i == 0 || !world->is_free[i - 1];
		first_free = i;
	}
	cr_assert_eq(group->nr_free, nr_free);
	cr_assert_eq(group->nr_runs, nr_runs);
	cr_assert_eq(group->first_free, first_free);
	for (unsigned int order = 0; order <= MAX_ORDER; order++) {
		uint32_t n = count_buddies(world, order);

		cr_assert_eq(group->buddies[order], n);
		cr_assert_eq((group->orders >> order) & 1, n > 0);
	}
	cr_assert(ext4_group_ok(group));
}

static void check_find_buddy(const struct world *world)
{
	for (unsigned int order = 0; order <= MAX_ORDER; order++) {
		unsigned int smallest = order;
		uint32_t expected = 0, found;

		while (smallest <= MAX_ORDER && !count_buddies(world, smallest))
			smallest++;
		if (smallest > MAX_ORDER) {
			cr_assert_not(ext4_group_find_buddy(world->group, order, &found));
			continue;
		}
		while (!is_buddy(world, expected, smallest))
			expected += 1u << smallest;
		cr_assert(ext4_group_find_buddy(world->group, order, &found));
		cr_assert_eq(found, expected);
	}
}

/* How many blocks from start on have the same state as it. */
static uint32_t same_from(const struct world *world, uint32_t start)
{
	uint32_t end = start;

	while (end < NR && world->is_free[end] == world->is_free[start])
		end++;
	return end - start;
}

Test(ext4_group, agrees_with_the_model_after_every_change)
{
	struct world world;
	struct env_rng rng;

	world_open(&world);
	env_rng_seed(&rng, 1);
	for (unsigned int i = 0; i < 3000; i++) {
		uint32_t start = (uint32_t)env_rng_below(&rng, NR);
		uint32_t len = 1 + (uint32_t)env_rng_below(&rng, same_from(&world, start));

		if (world.is_free[start])
			take(&world, start, len);
		else
			give(&world, start, len);
		check_counters(&world);
		check_find_buddy(&world);
	}
	world_close(&world);
}

Test(ext4_group, runs_are_found_in_order)
{
	struct world world;
	uint32_t start, len;

	world_open(&world);
	take(&world, 0, NR);
	cr_assert_not(ext4_group_next_run(world.group, 0, &start, &len));
	give(&world, 63, 2);
	give(&world, 130, 70);

	cr_assert(ext4_group_next_run(world.group, 0, &start, &len));
	cr_assert_eq(start, 63);
	cr_assert_eq(len, 2);
	cr_assert(ext4_group_next_run(world.group, 65, &start, &len));
	cr_assert_eq(start, 130);
	cr_assert_eq(len, 70);
	cr_assert(ext4_group_next_run(world.group, 150, &start, &len));
	cr_assert_eq(start, 150);
	cr_assert_eq(len, 50);
	cr_assert_not(ext4_group_next_run(world.group, NR, &start, &len));
	world_close(&world);
}

Test(ext4_group, free_at_stops_at_the_wish_and_at_the_end)
{
	struct world world;

	world_open(&world);
	take(&world, 100, 1);
	cr_assert_eq(ext4_group_free_at(world.group, 90, 5), 5);
	cr_assert_eq(ext4_group_free_at(world.group, 90, 50), 10);
	cr_assert_eq(ext4_group_free_at(world.group, 100, 50), 0);
	cr_assert_eq(ext4_group_free_at(world.group, 190, UINT32_MAX), 10);
	cr_assert_eq(ext4_group_free_at(world.group, NR, 1), 0);
	world_close(&world);
}

Test(ext4_group, what_is_taken_is_used_on_disk_only_when_said_so)
{
	struct world world;

	world_open(&world);
	take(&world, 0, 16);
	cr_assert_eq(world.group->nr_unused, NR);
	ext4_group_use(world.group, 6);
	cr_assert_eq(world.group->nr_unused, NR - 6);
	ext4_group_unuse(world.group, 6);
	give(&world, 0, 16);
	cr_assert_eq(world.group->nr_unused, world.group->nr_free);
	world_close(&world);
}

Test(ext4_group, the_last_group_may_be_short)
{
	struct ext4_groups groups;

	cr_assert_eq(ext4_groups_init(&groups, 1000, 256, 6), 0);
	cr_assert_eq(groups.nr, 4);
	cr_assert_eq(groups.group[2].nr_free, 256);
	cr_assert_eq(groups.group[3].nr_free, 1000 - 3 * 256);
	cr_assert_eq(ext4_group_of(&groups, 999), 3);
	cr_assert_eq(ext4_group_start(&groups, 3), 768);
	ext4_groups_destroy(&groups);
}

Test(ext4_group, no_memory_is_no_leak)
{
	struct ext4_groups groups;

	for (unsigned int n = 0; n < 5; n++) {
		env_alloc_fail(n, 1);
		cr_assert_eq(ext4_groups_init(&groups, 1000, 256, 6), -ENOMEM);
		cr_assert_eq(env_alloc_fail(0, 0), 1);
	}
}

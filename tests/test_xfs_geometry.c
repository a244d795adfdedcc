/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_xfs_geometry.c - allocation groups and inode numbers (XF2, XF3, XF6)
 */
#include "fsbackends/xfs/geometry.h"

#include <criterion/criterion.h>
#include <errno.h>

#define MIB (1ull << 20)
#define GIB (1ull << 30)
#define TIB (1ull << 40)

static struct xfs_geometry geometry_for(struct xfs_geometry_config config)
{
	struct xfs_geometry geometry;
	char error[200] = "";

	if (!config.block_size)
		config.block_size = 4096;
	cr_assert_eq(xfs_geometry_init(&geometry, &config, error, sizeof(error)), 0, "%s", error);
	return geometry;
}

Test(xfs_geometry, group_count_follows_the_size)
{
	const struct {
		uint64_t size;
		uint64_t nr_ags;
	} table[] = {
		{16 * MIB, 1}, {64 * MIB, 2},	{128 * MIB, 4},
		{1 * GIB, 4},  {3840 * GIB, 4}, {4 * TIB - 4096, 4},
		{4 * TIB, 4},  {5 * TIB, 5},	{10 * TIB + 4096, 11},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		cr_assert_eq(
			geometry_for((struct xfs_geometry_config){.size = table[i].size}).nr_ags,
			table[i].nr_ags, "row %zu", i);
}

Test(xfs_geometry, last_group_may_be_shorter)
{
	struct xfs_geometry geometry =
		geometry_for((struct xfs_geometry_config){.size = GIB + 4096, .nr_ags = 3});

	cr_assert_eq(geometry.ag_blocks, (262145 + 2) / 3);
	cr_assert_eq(xfs_ag_nr_blocks(&geometry, 0), 87382);
	cr_assert_eq(xfs_ag_nr_blocks(&geometry, 2), 262145 - 2 * 87382);
}

Test(xfs_geometry, concurrency_adds_groups_of_4_gib_at_least)
{
	struct xfs_geometry_config config = {.size = 100 * GIB, .concurrency = 12};

	cr_assert_eq(geometry_for(config).nr_ags, 12);
	config.size = 30 * GIB;
	cr_assert_eq(geometry_for(config).nr_ags, 7);
	config.size = 8 * GIB;
	cr_assert_eq(geometry_for(config).nr_ags, 4);
	config.nr_ags = 2;
	cr_assert_eq(geometry_for(config).nr_ags, 2);
}

Test(xfs_geometry, inode_number_has_the_group_on_top)
{
	struct xfs_geometry geometry = geometry_for((struct xfs_geometry_config){.size = GIB});
	struct xfs_place place = {3, 16};
	uint64_t ino = xfs_ino_at(&geometry, place, 5);

	cr_assert_eq(geometry.agblk_bits, 16);
	cr_assert_eq(ino, (3ull << 19) | (16 << 3) | 5);
	cr_assert_eq(xfs_ino_place(&geometry, ino).ag, 3);
	cr_assert_eq(xfs_ino_place(&geometry, ino).block, 16);
	cr_assert_eq(xfs_ino_slot(&geometry, ino), 5);
}

Test(xfs_geometry, inode32_keeps_numbers_small)
{
	struct xfs_geometry_config config = {.size = 8 * TIB, .inode32 = true};
	struct xfs_geometry geometry = geometry_for(config);

	cr_assert_eq(geometry.nr_ags, 8);
	cr_assert_eq(geometry.nr_inode_ags, 2);
	config.inode32 = false;
	cr_assert_eq(geometry_for(config).nr_inode_ags, 8);
}

Test(xfs_geometry, impossible_counts_are_refused_in_one_line)
{
	struct xfs_geometry_config config = {.size = 4 * MIB, .block_size = 4096, .nr_ags = 100};
	struct xfs_geometry geometry;
	char error[200] = "";

	cr_assert_eq(xfs_geometry_init(&geometry, &config, error, sizeof(error)), -EINVAL);
	cr_assert_neq(error[0], '\0');
	config.size = 10 * TIB;
	config.nr_ags = 4;
	cr_assert_eq(xfs_geometry_init(&geometry, &config, error, sizeof(error)), -EINVAL);
	cr_assert_str_eq(error, "xfs: agcount=4 makes groups larger than 1 TiB; use at least 10");
}

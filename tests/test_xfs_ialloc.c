/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_xfs_ialloc.c - which inode number a new file or directory gets (XF3..XF6)
 */
#include "fsbackends/xfs/ialloc.h"

#include <criterion/criterion.h>
#include <errno.h>

#define GIB (1ull << 30)

static struct xfs_space space;

static void open_space(struct xfs_geometry_config config)
{
	struct xfs_geometry geometry;
	char error[200];

	if (!config.block_size)
		config.block_size = 4096;
	cr_assert_eq(xfs_geometry_init(&geometry, &config, error, sizeof(error)), 0);
	cr_assert_eq(xfs_space_init(&space, &geometry), 0);
}

static uint64_t new_file(uint64_t ag)
{
	uint64_t ino;

	cr_assert_eq(xfs_ialloc(&space, ag, &ino), 0);
	return ino;
}

static uint64_t new_dir_ag(void)
{
	return xfs_ino_place(&space.geometry, new_file(xfs_ialloc_next_dir_ag(&space))).ag;
}

Test(xfs_ialloc, twelve_directories_over_four_groups)
{
	unsigned int nr[4] = {0};

	open_space((struct xfs_geometry_config){.size = GIB});
	for (int i = 0; i < 12; i++)
		nr[new_dir_ag()]++;
	for (int ag = 0; ag < 4; ag++)
		cr_assert_eq(nr[ag], 3);
	xfs_space_destroy(&space);
}

Test(xfs_ialloc, twelve_directories_over_128_groups)
{
	bool seen[128] = {false};

	open_space((struct xfs_geometry_config){.size = GIB, .nr_ags = 128});
	for (int i = 0; i < 12; i++) {
		uint64_t ag = new_dir_ag();

		cr_assert(!seen[ag]);
		seen[ag] = true;
	}
	xfs_space_destroy(&space);
}

Test(xfs_ialloc, files_get_the_lowest_number_in_the_group)
{
	uint64_t first;

	open_space((struct xfs_geometry_config){.size = GIB});
	first = new_file(1);
	cr_assert_eq(first, (1ull << 19) | (XFS_AG_HEADER_BLOCKS << 3));
	cr_assert_eq(new_file(1), first + 1);
	cr_assert_eq(new_file(1), first + 2);
	xfs_ifree(&space, first + 1);
	cr_assert_eq(new_file(1), first + 1);
	xfs_space_destroy(&space);
}

Test(xfs_ialloc, a_chunk_is_64_inodes_in_8_blocks)
{
	uint64_t before, first;

	open_space((struct xfs_geometry_config){.size = GIB});
	before = xfs_space_available(&space);
	first = new_file(0);
	for (unsigned int i = 1; i < 64; i++)
		cr_assert_eq(new_file(0), first + i);
	cr_assert_eq(xfs_space_available(&space), before - 8);
	new_file(0);
	cr_assert_eq(xfs_space_available(&space), before - 16);
	xfs_space_destroy(&space);
}

Test(xfs_ialloc, an_empty_chunk_gives_its_blocks_back)
{
	uint64_t before, first, second;

	open_space((struct xfs_geometry_config){.size = GIB});
	before = xfs_space_available(&space);
	first = new_file(0);
	second = new_file(0);
	xfs_ifree(&space, first);
	cr_assert_eq(xfs_space_available(&space), before - 8);
	xfs_ifree(&space, second);
	cr_assert_eq(xfs_space_available(&space), before);
	cr_assert(xfs_free_space_ok(&space.ags[0].free));
	cr_assert_eq(new_file(0), first);
	xfs_space_destroy(&space);
}

Test(xfs_ialloc, a_busy_group_is_passed_by)
{
	open_space((struct xfs_geometry_config){.size = GIB});
	env_mutex_lock(&space.ags[2].inode_lock);
	cr_assert_eq(xfs_ino_place(&space.geometry, new_file(2)).ag, 3);
	env_mutex_unlock(&space.ags[2].inode_lock);
	cr_assert_eq(xfs_ino_place(&space.geometry, new_file(2)).ag, 2);
	xfs_space_destroy(&space);
}

Test(xfs_ialloc, large_and_small_blocks)
{
	const uint32_t sizes[] = {512, 1024, 65536};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint64_t first;

		open_space((struct xfs_geometry_config){.size = GIB, .block_size = sizes[i]});
		first = new_file(1);
		for (unsigned int n = 1; n < 200; n++)
			cr_assert_eq(xfs_ino_place(&space.geometry, new_file(1)).ag, 1);
		for (unsigned int n = 0; n < 200; n++)
			xfs_ifree(&space, first + n);
		cr_assert_eq(xfs_space_available(&space), space.total);
		xfs_space_destroy(&space);
	}
}

Test(xfs_ialloc, full_is_enospc)
{
	uint64_t ino;

	open_space((struct xfs_geometry_config){.size = GIB});
	cr_assert_eq(xfs_space_claim(&space, xfs_space_available(&space) - 7), 0);
	cr_assert_eq(xfs_ialloc(&space, 0, &ino), -ENOSPC);
	cr_assert_eq(xfs_space_available(&space), 7);
	xfs_space_destroy(&space);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_ext4_layout.c - which blocks are metadata
 */
#include "fsbackends/ext4/layout.h"

#include <criterion/criterion.h>
#include <errno.h>

#define MIB (1ull << 20)
#define GIB (1ull << 30)

struct sum {
	const struct ext4_layout *layout;
	uint64_t blocks;
	uint64_t end;
};

static void add(void *arg, uint64_t start, uint32_t len)
{
	struct sum *sum = arg;

	cr_assert_gt(len, 0);
	cr_assert_geq(start, sum->end);
	cr_assert_leq(start + len, sum->layout->nr_blocks);
	cr_assert_eq(start / sum->layout->per_group, (start + len - 1) / sum->layout->per_group);
	sum->blocks += len;
	sum->end = start + len;
}

static uint64_t marked(const struct ext4_layout *layout)
{
	struct sum sum = {.layout = layout};

	ext4_layout_mark(layout, add, &sum);
	return sum.blocks;
}

Test(ext4_layout, one_gib_is_eight_groups)
{
	struct ext4_layout layout;

	cr_assert_eq(ext4_layout_init(&layout, GIB, 4096), 0);
	cr_assert_eq(layout.per_group, 32768);
	cr_assert_eq(layout.nr_groups, 8);
	cr_assert_eq(layout.max_order, 13);
	cr_assert_eq(layout.table_blocks, 512);
	cr_assert_eq(layout.inodes_per_group, 8192);
	/* Super block, one block of descriptors, room for 1024 times as many. */
	cr_assert_eq(layout.backup_blocks, 1 + 1 + 127);
	cr_assert_eq(layout.journal_blocks, 8192);
}

Test(ext4_layout, copies_are_in_0_1_and_powers_of_3_5_7)
{
	const uint32_t with[] = {0, 1, 3, 5, 7, 9, 25, 27, 49, 81, 125};
	unsigned int n = 0;

	for (uint32_t g = 0; g <= 125; g++) {
		bool expected = n < sizeof(with) / sizeof(with[0]) && with[n] == g;

		n += expected;
		cr_assert_eq(ext4_layout_has_backup(g), expected, "group %u", g);
	}
}

Test(ext4_layout, every_size_leaves_room_for_data)
{
	for (uint32_t block_size = 512; block_size <= 65536; block_size *= 2) {
		uint64_t least = ext4_layout_min_size(block_size);

		for (uint64_t size = least; size <= 64 * GIB; size = size * 5 / 4 + block_size) {
			struct ext4_layout layout;

			cr_assert_eq(ext4_layout_init(&layout, size, block_size), 0);
			cr_assert_leq(layout.nr_blocks * block_size, size);
			cr_assert_geq(layout.journal_blocks, 3);
			cr_assert_geq(layout.inodes_per_group, 64);
			cr_assert_lt(marked(&layout), layout.nr_blocks * 3 / 4);
		}
	}
}

Test(ext4_layout, a_last_group_without_room_is_not_used)
{
	struct ext4_layout layout;

	cr_assert_eq(ext4_layout_init(&layout, 128 * MIB + 30 * 4096, 4096), 0);
	cr_assert_eq(layout.nr_groups, 1);
	cr_assert_eq(layout.nr_blocks, 32768);
}

/* EX1, EX23: what a transaction writes is in the metadata of the first of 16 groups. */
Test(ext4_layout, bitmaps_and_inodes_are_with_the_first_of_16_groups)
{
	struct ext4_layout layout;
	uint64_t first = 16ull * 32768;

	cr_assert_eq(ext4_layout_init(&layout, 8 * GIB, 4096), 0);
	cr_assert_eq(ext4_layout_bitmap(&layout, 0), layout.backup_blocks);
	cr_assert_eq(ext4_layout_bitmap(&layout, 15), layout.backup_blocks + 15);
	cr_assert_eq(ext4_layout_inode_bitmap(&layout, 1), layout.backup_blocks + 17);
	cr_assert_eq(ext4_layout_inode(&layout, 1), layout.backup_blocks + 32);
	cr_assert_eq(ext4_layout_inode(&layout, 17), layout.backup_blocks + 33);
	cr_assert_eq(ext4_layout_inode(&layout, 8193), layout.backup_blocks + 32 + 512);
	cr_assert_eq(ext4_layout_bitmap(&layout, 16), first);
	cr_assert_eq(ext4_layout_inode(&layout, 16 * 8192 + 1), first + 32);
	cr_assert_eq(ext4_layout_descriptor(&layout, 63), 1);
	cr_assert_eq(ext4_layout_descriptor(&layout, 0), 1);
}

Test(ext4_layout, a_small_device_is_refused)
{
	struct ext4_layout layout;

	cr_assert_eq(ext4_layout_init(&layout, MIB, 4096), -ENOSPC);
}

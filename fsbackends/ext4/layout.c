/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * layout.c - what of a device is not for data
 *
 *	group 0:	| copy | bitmaps of 16 groups | inode tables of 16 groups | journal | data
 *	group 1:	| copy | data
 *	group 2:	| data
 *
 * The copy of the super block and the group descriptors is in groups 0, 1 and the powers of
 * 3, 5 and 7.  Only its size matters here, nothing is kept in it.
 */
#include "fsbackends/ext4/layout.h"

#include <assert.h>
#include <errno.h>

#define KIB 1024ull
#define MIB (1024 * KIB)

/* Group sizes are 16-bit numbers of blocks, and whole bytes of a bitmap. */
#define MAX_PER_GROUP	 65528u
#define BYTES_PER_INODE	 (16 * KIB)
#define DESCRIPTOR_BYTES 64u
/* Room for descriptors until the file system has grown this many times. */
#define GROWTH	  1024u
#define MAX_ORDER 13u
/* A last group with less room for data than this is not used. */
#define MIN_DATA_BLOCKS 16u

static uint64_t div_up(uint64_t a, uint64_t b)
{
	return (a + b - 1) / b;
}

static uint32_t min_u32(uint64_t a, uint32_t b)
{
	return a < b ? (uint32_t)a : b;
}

static bool is_power_of(uint32_t g, uint32_t base)
{
	while (g % base == 0)
		g /= base;
	return g == 1;
}

bool ext4_layout_has_backup(uint32_t g)
{
	return g <= 1 || is_power_of(g, 3) || is_power_of(g, 5) || is_power_of(g, 7);
}

static uint32_t group_blocks(const struct ext4_layout *layout, uint32_t g)
{
	return min_u32(layout->nr_blocks - (uint64_t)g * layout->per_group, layout->per_group);
}

/* The bitmaps and tables that sit in the group. */
static uint32_t flex_blocks(const struct ext4_layout *layout, uint32_t g)
{
	if (g % EXT4_FLEX_GROUPS)
		return 0;
	return min_u32(layout->nr_groups - g, EXT4_FLEX_GROUPS) * (2 + layout->table_blocks);
}

static uint32_t meta_blocks(const struct ext4_layout *layout, uint32_t g)
{
	uint32_t copy = ext4_layout_has_backup(g) ? layout->backup_blocks : 0;

	return copy + flex_blocks(layout, g);
}

static uint32_t backup_blocks(const struct ext4_layout *layout)
{
	uint32_t per_block = layout->block_size / DESCRIPTOR_BYTES;
	uint64_t now = div_up(layout->nr_groups, per_block);
	uint64_t later = div_up((uint64_t)layout->nr_groups * GROWTH, per_block) - now;

	/* The addresses of the spare blocks fill one block at most. */
	if (later > layout->block_size / 4)
		later = layout->block_size / 4;
	/* Descriptors of a huge file system with small blocks are elsewhere: not modelled. */
	return min_u32(1 + now + later, layout->per_group / 4);
}

/* Grows with the file system, but fits into one group. */
static uint32_t journal_blocks(uint64_t nr_blocks, uint32_t per_group)
{
	static const struct {
		uint64_t below; /* file system blocks */
		uint32_t blocks;
	} sizes[] = {
		{32768, 1024},	  {262144, 4096},    {524288, 8192},	 {4194304, 16384},
		{8388608, 32768}, {16777216, 65536}, {33554432, 131072},
	};
	uint32_t blocks = 262144;

	if (nr_blocks < 16384)
		return (uint32_t)(nr_blocks / 16);
	for (unsigned int i = sizeof(sizes) / sizeof(sizes[0]); i-- > 0;)
		if (nr_blocks < sizes[i].below)
			blocks = sizes[i].blocks;
	return blocks < per_group / 2 ? blocks : per_group / 2;
}

/* Behind the tables of group 0, else the first group without metadata. */
static void place_journal(struct ext4_layout *layout)
{
	uint32_t used = meta_blocks(layout, 0);
	uint32_t g;

	layout->journal_blocks = journal_blocks(layout->nr_blocks, layout->per_group);
	layout->journal_start = used;
	if (used + layout->journal_blocks + MIN_DATA_BLOCKS <= group_blocks(layout, 0))
		return;

	for (g = 1; g < layout->nr_groups; g++)
		if (!meta_blocks(layout, g) && group_blocks(layout, g) >= layout->journal_blocks)
			break;
	if (g < layout->nr_groups) {
		layout->journal_start = (uint64_t)g * layout->per_group;
		return;
	}
	layout->journal_blocks = (group_blocks(layout, 0) - used) / 2;
}

uint64_t ext4_layout_min_size(uint32_t block_size)
{
	return block_size > 32 * KIB ? 4 * MIB : 2 * MIB;
}

int ext4_layout_init(struct ext4_layout *layout, uint64_t size, uint32_t block_size)
{
	uint32_t inodes_per_block = block_size / EXT4_INODE_SIZE;
	uint32_t log2_size = (uint32_t)__builtin_ctz(block_size);
	uint64_t first_group;
	uint32_t last;

	if (size < ext4_layout_min_size(block_size))
		return -ENOSPC;

	layout->block_size = block_size;
	layout->nr_blocks = size / block_size;
	layout->per_group = min_u32(8ull * block_size, MAX_PER_GROUP);
	layout->max_order = min_u32(log2_size + 1, MAX_ORDER);
	layout->nr_groups = (uint32_t)div_up(layout->nr_blocks, layout->per_group);

	first_group = layout->nr_blocks < layout->per_group ? layout->nr_blocks : layout->per_group;
	layout->table_blocks =
		(uint32_t)div_up(first_group * block_size / BYTES_PER_INODE, inodes_per_block);
	layout->inodes_per_group = layout->table_blocks * inodes_per_block;
	layout->backup_blocks = backup_blocks(layout);

	last = layout->nr_groups - 1;
	if (last && group_blocks(layout, last) < meta_blocks(layout, last) + MIN_DATA_BLOCKS) {
		layout->nr_groups = last;
		layout->nr_blocks = (uint64_t)last * layout->per_group;
	}
	place_journal(layout);
	return 0;
}

/* The first bitmap of the flexible group; *nr: how many groups it has. */
static uint64_t flex_start(const struct ext4_layout *layout, uint32_t g, uint32_t *nr)
{
	uint32_t first = g - g % EXT4_FLEX_GROUPS;
	uint32_t copy = ext4_layout_has_backup(first) ? layout->backup_blocks : 0;

	assert(g < layout->nr_groups);
	*nr = min_u32(layout->nr_groups - first, EXT4_FLEX_GROUPS);
	return (uint64_t)first * layout->per_group + copy;
}

uint64_t ext4_layout_bitmap(const struct ext4_layout *layout, uint32_t g)
{
	uint32_t nr;

	return flex_start(layout, g, &nr) + g % EXT4_FLEX_GROUPS;
}

uint64_t ext4_layout_inode_bitmap(const struct ext4_layout *layout, uint32_t g)
{
	uint32_t nr;
	uint64_t start = flex_start(layout, g, &nr);

	return start + nr + g % EXT4_FLEX_GROUPS;
}

uint64_t ext4_layout_descriptor(const struct ext4_layout *layout, uint32_t g)
{
	uint32_t block = 1 + g / (layout->block_size / DESCRIPTOR_BYTES);

	return block < layout->backup_blocks ? block : layout->backup_blocks - 1;
}

uint64_t ext4_layout_inode(const struct ext4_layout *layout, uint64_t ino)
{
	uint32_t g = (uint32_t)((ino - 1) / layout->inodes_per_group);
	uint32_t slot = (uint32_t)((ino - 1) % layout->inodes_per_group);
	uint32_t nr;
	uint64_t tables = flex_start(layout, g, &nr) + 2 * nr;

	return tables + (uint64_t)(g % EXT4_FLEX_GROUPS) * layout->table_blocks +
	       slot / (layout->block_size / EXT4_INODE_SIZE);
}

void ext4_layout_mark(const struct ext4_layout *layout,
		      void (*mark)(void *arg, uint64_t start, uint32_t len), void *arg)
{
	for (uint32_t g = 0; g < layout->nr_groups; g++) {
		uint64_t start = (uint64_t)g * layout->per_group;
		uint32_t meta = meta_blocks(layout, g);

		assert(meta <= group_blocks(layout, g));
		if (meta)
			mark(arg, start, meta);
		if (layout->journal_start / layout->per_group == g)
			mark(arg, layout->journal_start, layout->journal_blocks);
	}
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * layout.h - what of a device is not for data (EX1)
 *
 *	if (ext4_layout_init(&layout, dev->size, block_size) == 0)
 *		ext4_layout_mark(&layout, mark, arg);	calls mark() for each such range
 *
 * A flexible group is 16 groups whose bitmaps and inode tables sit in the first of them.
 */
#ifndef FSBACKENDS_EXT4_LAYOUT_H
#define FSBACKENDS_EXT4_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#define EXT4_FLEX_GROUPS 16u
#define EXT4_INODE_SIZE	 256u

struct ext4_layout {
	uint64_t nr_blocks; /* rounded down to what the last group needs */
	uint32_t block_size;
	uint32_t per_group; /* blocks */
	uint32_t nr_groups;
	uint32_t max_order; /* of a buddy */
	uint32_t inodes_per_group;
	uint32_t table_blocks; /* one group's inode table */
	uint32_t backup_blocks; /* super block, descriptors, room for more descriptors */
	uint64_t journal_start;
	uint32_t journal_blocks;
};

/* 0, or -ENOSPC if the device is too small. */
int ext4_layout_init(struct ext4_layout *layout, uint64_t size, uint32_t block_size);
/* The least device for a block size, in bytes. */
uint64_t ext4_layout_min_size(uint32_t block_size);

/* Does the group begin with a copy of the super block? */
bool ext4_layout_has_backup(uint32_t g);

/* Where a group's metadata, or an inode, is. */
uint64_t ext4_layout_bitmap(const struct ext4_layout *layout, uint32_t g);
uint64_t ext4_layout_inode_bitmap(const struct ext4_layout *layout, uint32_t g);
uint64_t ext4_layout_descriptor(const struct ext4_layout *layout, uint32_t g);
uint64_t ext4_layout_inode(const struct ext4_layout *layout, uint64_t ino);

/* Call mark for each metadata range, by rising address; none crosses a group's end. */
void ext4_layout_mark(const struct ext4_layout *layout,
		      void (*mark)(void *arg, uint64_t start, uint32_t len), void *arg);

#endif

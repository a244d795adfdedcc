/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * tree.h - the blocks that hold a file's records when the inode has no room for them
 *
 * Four records are in the inode.  More need leaves, and more than four leaves need blocks
 * above them.  A file's blocks become more with its records and fewer only when it is cut.
 * What is in them is not kept; that they take space, near the data they speak of, and are
 * written, decides how a large file is cut (EX1, EX11).
 */
#ifndef FSBACKENDS_EXT4_TREE_H
#define FSBACKENDS_EXT4_TREE_H

#include <stdint.h>

struct ext4_handle;
struct ext4_inode;

struct ext4_tree {
	uint64_t *blocks; /* of the device; the first are leaves */
	uint32_t nr;
	uint32_t max;
};

/* How many blocks so many records need. */
uint32_t ext4_tree_size(uint32_t block_size, uint64_t nr_records);

/*
 * The records at file block `file` have changed: blocks that are missing are added, and the
 * one that holds the records is written.  Without space or memory they are too few.
 * => data_lock is held exclusively
 */
void ext4_tree_changed(struct ext4_inode *node, struct ext4_handle *handle, uint64_t file);
/* Give up what is not needed any more: free when that is durable.  => data_lock is held alone */
void ext4_tree_cut(struct ext4_inode *node, struct ext4_handle *handle);
/* The journal has forgotten the block: its space is free.  arg is the file system. */
void ext4_tree_release(void *arg, uint64_t block);
/* Of an inode that goes: its memory, not its blocks. */
void ext4_tree_destroy(struct ext4_inode *node);

#endif

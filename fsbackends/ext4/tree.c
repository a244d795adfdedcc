/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * tree.c - the blocks that hold a file's records
 */
#include "internal.h"

#include <errno.h>
#include <string.h>

#define INODE_RECORDS 4u
#define HEADER_BYTES  12u
#define RECORD_BYTES  12u

static uint64_t div_up(uint64_t a, uint64_t b)
{
	return (a + b - 1) / b;
}

uint32_t ext4_tree_size(uint32_t block_size, uint64_t nr_records)
{
	uint32_t per_block = (block_size - HEADER_BYTES) / RECORD_BYTES;
	uint64_t nr = 0;

	while (nr_records > INODE_RECORDS) {
		nr_records = div_up(nr_records, per_block);
		nr += nr_records;
	}
	return (uint32_t)nr;
}

static uint32_t tree_size(const struct ext4_inode *node)
{
	return ext4_tree_size(node->base.inode.i_sb->s_blocksize,
			      node->map.nr - node->map.nr_delayed);
}

static int make_room(struct ext4_tree *tree)
{
	uint32_t max = tree->max ? 2 * tree->max : 4;
	uint64_t *blocks;

	if (tree->nr < tree->max)
		return 0;
	blocks = env_alloc(max * sizeof(*blocks));
	if (!blocks)
		return -ENOMEM;
	if (tree->nr)
		memcpy(blocks, tree->blocks, tree->nr * sizeof(*blocks));
	env_free(tree->blocks);
	tree->blocks = blocks;
	tree->max = max;
	return 0;
}

/* From what is set aside for such blocks, see ext4.c. */
static bool take_reserved(struct ext4_fs *fs)
{
	uint64_t nr = __atomic_load_n(&fs->nr_tree_free, __ATOMIC_RELAXED);

	while (nr > 0)
		if (__atomic_compare_exchange_n(&fs->nr_tree_free, &nr, nr - 1, true,
						__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return true;
	return false;
}

static void give_reserved(struct ext4_fs *fs)
{
	__atomic_fetch_add(&fs->nr_tree_free, 1, __ATOMIC_ACQ_REL);
}

void ext4_tree_release(void *arg, uint64_t block)
{
	struct ext4_fs *fs = arg;

	ext4_mballoc_free(&fs->mballoc, block, 1);
	give_reserved(fs);
}

static int add_block(struct ext4_inode *node, struct ext4_handle *handle, uint64_t file)
{
	struct ext4_fs *fs = ext4_fs_of(node);
	struct ext4_request request;
	uint64_t block;
	uint32_t len;
	int err = make_room(&node->tree);

	if (err)
		return err;
	if (!take_reserved(fs))
		return -ENOSPC;
	ext4_request_init(&request, node, file, 1);
	request.is_metadata = true;
	err = ext4_mballoc_allocate(&fs->mballoc, &request, &block, &len);
	if (err) {
		give_reserved(fs);
		return err;
	}
	ext4_dirty_space(fs, handle, block, 1);
	node->tree.blocks[node->tree.nr++] = block;
	return 0;
}

/* The leaf with the records at `file`, as if they were spread evenly. */
static uint64_t leaf_at(const struct ext4_inode *node, uint64_t file)
{
	uint64_t leaves = div_up(node->tree.nr * INODE_RECORDS, INODE_RECORDS + 1);
	struct extent last;
	uint64_t leaf = 0;

	if (extent_map_last(&node->map, &last) && file < last.file + last.len)
		leaf = file * leaves / (last.file + last.len);
	return node->tree.blocks[leaf];
}

void ext4_tree_changed(struct ext4_inode *node, struct ext4_handle *handle, uint64_t file)
{
	uint32_t size = tree_size(node);

	while (node->tree.nr < size && add_block(node, handle, file) == 0)
		;
	if (node->tree.nr)
		ext4_handle_dirty(handle, leaf_at(node, file));
}

void ext4_tree_cut(struct ext4_inode *node, struct ext4_handle *handle)
{
	struct ext4_fs *fs = ext4_fs_of(node);
	uint32_t size = tree_size(node);

	while (node->tree.nr > size) {
		uint64_t block = node->tree.blocks[--node->tree.nr];

		ext4_dirty_space(fs, handle, block, 1);
		ext4_handle_forget(handle, block);
	}
}

void ext4_tree_destroy(struct ext4_inode *node)
{
	env_free(node->tree.blocks);
}

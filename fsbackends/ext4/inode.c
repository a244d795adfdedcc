/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * inode.c - inode numbers, and which group they are in (EX30)
 *
 * Number = group * inodes per group + slot + 1; the lowest free slot first.  A directory goes
 * to the next flexible group in turn, a file to the group of its directory; the next group
 * with room if that one is full.
 */
#include "internal.h"

#include <errno.h>

#define BITS	 64u
#define ROOT_INO 2u
/* Numbers below are reserved, but for the root's. */
#define FIRST_INO 11u

int ext4_inode_groups_init(struct ext4_fs *fs)
{
	env_mutex_init(&fs->inode_lock, "ext4 inodes");
	fs->inode_groups = env_zalloc(fs->layout.nr_groups * sizeof(*fs->inode_groups));
	return fs->inode_groups ? 0 : -ENOMEM;
}

void ext4_inode_groups_destroy(struct ext4_fs *fs)
{
	for (uint32_t g = 0; g < fs->layout.nr_groups; g++)
		env_free(fs->inode_groups[g].used);
	env_free(fs->inode_groups);
}

/* ---- numbers ---------------------------------------------------------------------------- */

static int slots_make(struct ext4_fs *fs, uint32_t g)
{
	struct ext4_inode_group *group = &fs->inode_groups[g];

	if (group->used)
		return 0;
	group->used =
		env_zalloc((fs->layout.inodes_per_group + BITS - 1) / BITS * sizeof(uint64_t));
	if (!group->used)
		return -ENOMEM;
	if (g == 0) {
		group->used[0] = (1ull << (FIRST_INO - 1)) - 1;
		group->nr_used = FIRST_INO - 1;
	}
	return 0;
}

static uint32_t lowest_free_slot(const struct ext4_inode_group *group)
{
	uint32_t word = 0;

	while (group->used[word] == UINT64_MAX)
		word++;
	return word * BITS + (uint32_t)__builtin_ctzll(~group->used[word]);
}

/* A number in the group or the next one with room. */
static int take_number(struct ext4_fs *fs, uint32_t wanted, uint64_t *ino, uint32_t *found)
{
	uint32_t per_group = fs->layout.inodes_per_group;

	for (uint32_t i = 0; i < fs->layout.nr_groups; i++) {
		uint32_t g = (wanted + i) % fs->layout.nr_groups;
		struct ext4_inode_group *group = &fs->inode_groups[g];
		int err = slots_make(fs, g);
		uint32_t slot;

		if (err)
			return err;
		if (group->nr_used == per_group)
			continue;
		slot = lowest_free_slot(group);
		group->used[slot / BITS] |= 1ull << (slot % BITS);
		group->nr_used++;
		*ino = (uint64_t)g * per_group + slot + 1;
		*found = g;
		return 0;
	}
	return -ENOSPC;
}

static void give_number(struct ext4_fs *fs, uint64_t ino)
{
	uint32_t per_group = fs->layout.inodes_per_group;
	struct ext4_inode_group *group = &fs->inode_groups[(ino - 1) / per_group];
	uint32_t slot = (uint32_t)((ino - 1) % per_group);

	group->used[slot / BITS] &= ~(1ull << (slot % BITS));
	group->nr_used--;
}

static uint32_t wanted_group(struct ext4_fs *fs, const struct fs_inode *parent, bool is_dir)
{
	uint32_t nr_flex = (fs->layout.nr_groups + EXT4_FLEX_GROUPS - 1) / EXT4_FLEX_GROUPS;
	uint32_t flex = fs->next_dir;

	if (!is_dir)
		return ext4_inode_from(&parent->inode)->group;
	fs->next_dir = (fs->next_dir + 1) % nr_flex;
	return flex * EXT4_FLEX_GROUPS;
}

/* Number and group. */
static int inode_place(struct ext4_fs *fs, struct ext4_inode *node, const struct fs_inode *parent,
		       bool is_dir, uint64_t *ino)
{
	int err = 0;

	env_mutex_lock(&fs->inode_lock);
	if (!parent)
		*ino = ROOT_INO;
	else
		err = take_number(fs, wanted_group(fs, parent, is_dir), ino, &node->group);
	env_mutex_unlock(&fs->inode_lock);
	return err;
}

/* ---- inodes ----------------------------------------------------------------------------- */

/* What mkfs made is not in the journal. */
static void journal_new(struct ext4_inode *node)
{
	struct ext4_fs *fs = ext4_fs_of(node);
	struct ext4_handle handle;

	(void)ext4_handle_start(&fs->journal, &handle, EXT4_CREDITS_CREATE, NULL, false);
	ext4_dirty_number(fs, &handle, node->base.inode.i_ino);
	ext4_dirty_inode(node, &handle, true);
	ext4_handle_stop(&handle);
}

int ext4_new_inode(struct fs *base, struct fs_inode *parent, bool is_dir, struct fs_inode **inode)
{
	struct ext4_fs *fs = ext4_fs_from(base);
	struct ext4_inode *node = env_zalloc(sizeof(*node));
	uint64_t ino;
	int err;

	if (!node)
		return -ENOMEM;
	env_rwsem_init(&node->data_lock, "ext4 data lock");
	extent_map_init(&node->map, EXT4_MAX_WRITTEN, EXT4_MAX_UNWRITTEN);
	env_mutex_init(&node->done_lock, "ext4 done");
	list_init(&node->done);
	node->done_work.fn = ext4_finish_ioends;
	node->base.fs = base;
	node->base.is_dir = is_dir;

	err = inode_place(fs, node, parent, is_dir, &ino);
	if (err) {
		env_free(node);
		return err;
	}
	ext4_prealloc_init(&fs->mballoc, &node->preallocs);
	inode_init(&node->base.inode, &base->sb, ino, &ext4_aops);
	if (parent)
		journal_new(node);
	*inode = &node->base;
	return 0;
}

/* Its space and its number are free. */
static void delete (struct ext4_fs *fs, struct ext4_inode *node)
{
	uint64_t ino = node->base.inode.i_ino;
	struct ext4_handle handle;

	(void)ext4_handle_start(&fs->journal, &handle, EXT4_CREDITS_FREE, NULL, false);
	ext4_free_space(node, &handle);
	env_mutex_lock(&fs->inode_lock);
	give_number(fs, ino);
	env_mutex_unlock(&fs->inode_lock);
	ext4_dirty_number(fs, &handle, ino);
	ext4_handle_stop(&handle);
}

void ext4_free_inode(struct fs_inode *base, bool unlinked)
{
	struct ext4_inode *node = ext4_inode_from(&base->inode);
	struct ext4_fs *fs = ext4_fs_of(node);

	ext4_prealloc_destroy(&fs->mballoc, &node->preallocs);
	if (unlinked)
		delete (fs, node);
	ext4_tree_destroy(node);
	extent_map_destroy(&node->map);
	env_free(node);
}

uint64_t ext4_inode_shard(const struct inode *inode)
{
	return ext4_mballoc_stream(&ext4_fs_from(fs_of(inode))->mballoc, inode->i_ino);
}

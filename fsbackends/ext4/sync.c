/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * sync.c - what is in which transaction, and fsync and sync, which wait for it
 */
#include "internal.h"

/* => the handle is open */
void ext4_dirty_inode(struct ext4_inode *node, struct ext4_handle *handle, bool datasync)
{
	struct ext4_fs *fs = ext4_fs_of(node);

	__atomic_store_n(&node->sync_tid, handle->tid, __ATOMIC_RELEASE);
	if (datasync)
		__atomic_store_n(&node->datasync_tid, handle->tid, __ATOMIC_RELEASE);
	ext4_handle_dirty(handle, ext4_layout_inode(&fs->layout, node->base.inode.i_ino));
}

void ext4_dirty_space(struct ext4_fs *fs, struct ext4_handle *handle, uint64_t block, uint64_t len)
{
	uint32_t last = ext4_group_of(&fs->mballoc.groups, block + len - 1);

	for (uint32_t g = ext4_group_of(&fs->mballoc.groups, block); g <= last; g++) {
		ext4_handle_dirty(handle, ext4_layout_bitmap(&fs->layout, g));
		ext4_handle_dirty(handle, ext4_layout_descriptor(&fs->layout, g));
	}
}

void ext4_dirty_number(struct ext4_fs *fs, struct ext4_handle *handle, uint64_t ino)
{
	uint32_t g = (uint32_t)((ino - 1) / fs->layout.inodes_per_group);

	ext4_handle_dirty(handle, ext4_layout_inode_bitmap(&fs->layout, g));
	ext4_handle_dirty(handle, ext4_layout_descriptor(&fs->layout, g));
	ext4_handle_dirty(handle, ext4_layout_inode(&fs->layout, ino));
}

int ext4_fsync(struct inode *inode, bool datasync)
{
	struct ext4_inode *node = ext4_inode_from(inode);
	struct ext4_journal *journal = &ext4_fs_of(node)->journal;
	uint64_t tid =
		__atomic_load_n(datasync ? &node->datasync_tid : &node->sync_tid, __ATOMIC_ACQUIRE);
	int err = ext4_journal_commit(journal, tid);

	return err ? err : ext4_journal_flush(journal);
}

int ext4_sync_fs(struct super_block *sb)
{
	struct ext4_fs *fs = ext4_fs_from(container_of(sb, struct fs, sb));
	int err = ext4_journal_commit_all(&fs->journal);

	return err ? err : ext4_journal_flush(&fs->journal);
}

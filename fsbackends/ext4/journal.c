/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * journal.c - what makes metadata durable
 *
 * A commit is one sequential request into the journal area: a descriptor, the metadata blocks,
 * a commit block.  It is made by fsync, for one inode, and by sync, for all.  Metadata is never
 * written to its place; running transactions, their timer and the space of the journal (EX23)
 * would be here.
 */
#include "internal.h"

#include <errno.h>
#include <string.h>

#define MAGIC 0x4c414e4a34545845ull /* "EXT4JNAL" */

enum block_type { DESCRIPTOR, METADATA, COMMIT, NR_BLOCK_TYPES };

struct journal_header {
	uint64_t magic;
	uint64_t sequence;
	uint32_t type;
	uint32_t nr_metadata;
};

int ext4_journal_init(struct ext4_fs *fs)
{
	struct ext4_journal *journal = &fs->journal;

	env_mutex_init(&journal->lock, "ext4 journal");
	journal->start = fs->layout.journal_start;
	journal->nr_blocks = fs->layout.journal_blocks;
	journal->next = 0;
	journal->sequence = 0;
	journal->block = env_zalloc((size_t)fs->layout.block_size * NR_BLOCK_TYPES);
	return journal->block ? 0 : -ENOMEM;
}

void ext4_journal_destroy(struct ext4_fs *fs)
{
	env_free(fs->journal.block);
}

static unsigned char *block_fill(struct ext4_fs *fs, enum block_type type, uint32_t nr_metadata)
{
	unsigned char *block = fs->journal.block + (size_t)type * fs->layout.block_size;
	struct journal_header header = {
		.magic = MAGIC,
		.sequence = fs->journal.sequence,
		.type = type,
		.nr_metadata = nr_metadata,
	};

	memcpy(block, &header, sizeof(header));
	return block;
}

/* => journal->lock is held */
static int commit_write(struct ext4_fs *fs, uint64_t nr_metadata)
{
	struct ext4_journal *journal = &fs->journal;
	uint32_t room = journal->nr_blocks - 2;
	uint32_t nr = nr_metadata < room ? (uint32_t)nr_metadata : room;
	uint32_t size = fs->layout.block_size;
	unsigned char *metadata;
	struct bio bio;
	int err;

	if (journal->next + nr + 2 > journal->nr_blocks)
		journal->next = 0;
	journal->sequence++;

	bio_init(&bio, fs->fs.bdev, BIO_WRITE, BIO_JOURNAL,
		 (journal->start + journal->next) * size);
	err = bio_add(&bio, block_fill(fs, DESCRIPTOR, nr), size);
	metadata = block_fill(fs, METADATA, nr);
	for (uint32_t i = 0; !err && i < nr; i++)
		err = bio_add(&bio, metadata, size);
	if (!err)
		err = bio_add(&bio, block_fill(fs, COMMIT, nr), size);
	if (!err)
		err = bio_submit_wait(&bio);
	bio_uninit(&bio);
	if (!err)
		journal->next += nr + 2;
	return err;
}

static int device_flush(struct ext4_fs *fs)
{
	struct bio bio;
	int err;

	bio_init(&bio, fs->fs.bdev, BIO_FLUSH, BIO_JOURNAL, 0);
	err = bio_submit_wait(&bio);
	bio_uninit(&bio);
	return err;
}

/* What is dirty in the inode goes into the next commit.  => journal->lock is held */
static void commit_begin(struct ext4_inode *node)
{
	/* In this order, so that nobody sees an inode that needs no commit. */
	__atomic_fetch_or(&node->flags, EXT4_COMMITTING, __ATOMIC_ACQ_REL);
	__atomic_fetch_and(&node->flags, ~(uint32_t)EXT4_DIRTY, __ATOMIC_ACQ_REL);
}

static void commit_end(struct ext4_inode *node, int err)
{
	if (err)
		__atomic_fetch_or(&node->flags, EXT4_DIRTY, __ATOMIC_ACQ_REL);
	__atomic_fetch_and(&node->flags, ~(uint32_t)EXT4_COMMITTING, __ATOMIC_ACQ_REL);
}

/* Commit the inode if some of `flags` is dirty, or wait for whoever is doing it. */
static int commit_inode(struct ext4_fs *fs, struct ext4_inode *node, uint32_t flags)
{
	int err = 0;

	env_mutex_lock(&fs->journal.lock);
	if (ext4_flags(node) & flags) {
		commit_begin(node);
		err = commit_write(fs, 1);
		commit_end(node, err);
	}
	env_mutex_unlock(&fs->journal.lock);
	return err;
}

int ext4_fsync(struct inode *inode, bool datasync)
{
	struct ext4_inode *node = ext4_inode_from(inode);
	struct ext4_fs *fs = ext4_fs_of(node);
	uint32_t flags = datasync ? EXT4_DATASYNC_DIRTY : EXT4_DIRTY;
	int err = 0;

	if (ext4_flags(node) & (flags | EXT4_COMMITTING))
		err = commit_inode(fs, node, flags);
	return err ? err : device_flush(fs);
}

static uint64_t commit_begin_all(struct ext4_fs *fs)
{
	struct ext4_inode *node;
	uint64_t nr = 0;

	env_mutex_lock(&fs->inode_lock);
	list_for_each_entry(node, &fs->inodes, struct ext4_inode, link) {
		if (ext4_flags(node) & EXT4_DIRTY) {
			commit_begin(node);
			nr++;
		}
	}
	env_mutex_unlock(&fs->inode_lock);
	return nr;
}

/* Every commit in progress is ours: the journal's lock is held. */
static void commit_end_all(struct ext4_fs *fs, int err)
{
	struct ext4_inode *node;

	env_mutex_lock(&fs->inode_lock);
	list_for_each_entry(node, &fs->inodes, struct ext4_inode, link)
		if (ext4_flags(node) & EXT4_COMMITTING)
			commit_end(node, err);
	env_mutex_unlock(&fs->inode_lock);
}

int ext4_sync_fs(struct super_block *sb)
{
	struct ext4_fs *fs = ext4_fs_from(container_of(sb, struct fs, sb));
	uint32_t per_block = fs->layout.block_size / EXT4_INODE_SIZE;
	uint64_t nr_inodes;
	int err = 0;

	env_mutex_lock(&fs->journal.lock);
	nr_inodes = commit_begin_all(fs);
	if (nr_inodes) {
		err = commit_write(fs, (nr_inodes + per_block - 1) / per_block);
		commit_end_all(fs, err);
	}
	env_mutex_unlock(&fs->journal.lock);
	return err ? err : device_flush(fs);
}

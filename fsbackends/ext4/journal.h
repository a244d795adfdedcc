/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * journal.h - what makes metadata durable (EX23)
 *
 *	err = ext4_handle_start(&journal, &handle, 8, inode, false);
 *	ext4_handle_dirty(&handle, block);	once for each metadata block that changes
 *	ext4_handle_stop(&handle);
 *	err = ext4_journal_commit(&journal, handle.tid);
 *
 * All changes between start and stop become durable together.  They are part of the one
 * running transaction, which holds the numbers of the blocks that were changed.  A thread of
 * the journal commits it when it has run for a while, when somebody asks, or when it is large:
 * it lets no handle start, waits for those there are, begins a new transaction, and writes the
 * old one one behind the other into the journal area.  Long after that, or when the area is
 * full, the blocks go to their places.
 *
 * Metadata is in memory and needs none of its blocks: what is written stands for it.
 *
 * A metadata block whose space is given up is forgotten:
 *
 *	ext4_handle_forget(&handle, block);
 *
 * It still belongs to the journal then, which may be writing it.  When the transaction is
 * durable nothing of the block is left to be written, and its space is released to whoever
 * may want it for something else.
 *
 * A handle may be started with folios locked, but nothing may lock a folio, wait for I/O or
 * start another handle between start and stop, and no lock of this file system that is taken
 * within a handle may be held when one starts.
 */
#ifndef FSBACKENDS_EXT4_JOURNAL_H
#define FSBACKENDS_EXT4_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <iomap/env.h>
#include "fsbackends/ext4/block-set.h"

struct block_device;
struct inode;

/*
 *	I	set at creation
 *	L	lock
 *	a	written under lock, read without
 *	T	only the journal's thread
 */
struct ext4_journal {
	struct block_device *bdev; /* [I] */
	uint32_t block_size; /* [I] */
	uint64_t start; /* [I] block of the device */
	uint32_t nr_blocks; /* [I] */
	uint32_t max_running; /* [I] blocks a transaction may have */
	uint64_t interval_ns; /* [I] how long a transaction runs */

	struct env_mutex lock;
	struct env_waitq starting; /* handles that wait for a transaction */
	struct env_waitq working; /* the thread, for something to do */
	struct env_waitq stopping; /* the thread, for the last handle */
	struct env_waitq committing; /* for the end of a commit */

	uint64_t running_tid; /* [a] */
	struct block_set running; /* [L] */
	struct block_set forgotten; /* [L] in the running transaction */
	uint64_t running_since; /* [L] its first change, ns; if it has one */
	uint32_t nr_handles; /* [L] */
	uint32_t nr_promised; /* [L] blocks they may still add */
	bool is_locked; /* [L] no handle may start */
	uint64_t wanted_tid; /* [L] commit up to here */
	bool is_stopped; /* [L] */

	uint64_t ended_tid; /* [L] the last whose commit ended, well or not */
	uint64_t committed_tid; /* [a] it and all before are durable */
	uint64_t failed_first, failed_last; /* [L] a range of transactions whose commit failed */
	int failed_err; /* [L] */

	struct block_set commit; /* [T] blocks of the transaction, and of failed ones before */
	struct block_set releasing; /* [T] forgotten in it, and in failed ones before */
	struct block_set placed; /* [T] committed, not yet in their places */
	uint64_t placed_since; /* [T] */
	uint32_t nr_used; /* [T] blocks of the area they need */
	uint32_t next; /* [T] block of the area */
	unsigned char *memory; /* [T] what is written: one block of each type */
	void (*release)(void *arg, uint64_t block); /* [I] */
	void *release_arg; /* [I] */
	struct env_thread *thread; /* [I] */
};

struct ext4_handle {
	struct ext4_journal *journal;
	struct inode *inode; /* it is written back: the waiting is its context's; may be NULL */
	uint64_t tid;
	uint32_t credits; /* blocks it may still add */
	uint32_t max_credits;
};

/* 0, -ENOMEM, or the error of a thread that did not start.  nr_blocks >= 3. */
int ext4_journal_init(struct ext4_journal *journal, struct block_device *bdev, uint32_t block_size,
		      uint64_t start, uint32_t nr_blocks, uint64_t interval_ns);
/*
 * Who takes the space of forgotten blocks, of which there are never more than max.  It is told
 * by the journal's thread, without a lock.  Before the first handle; 0 or -ENOMEM.
 */
int ext4_journal_set_release(struct ext4_journal *journal, uint32_t max,
			     void (*release)(void *arg, uint64_t block), void *arg);
/* Commits what is left and writes it to its place. */
void ext4_journal_destroy(struct ext4_journal *journal);

/* Part of the running transaction, for up to `credits` blocks.  -EAGAIN only with nowait. */
int ext4_handle_start(struct ext4_journal *journal, struct ext4_handle *handle, uint32_t credits,
		      struct inode *inode, bool nowait);
void ext4_handle_stop(struct ext4_handle *handle);
/* The same work goes on, maybe in another transaction, if fewer than `credits` are left. */
void ext4_handle_extend(struct ext4_handle *handle, uint32_t credits);
void ext4_handle_dirty(struct ext4_handle *handle, uint64_t block);
/* The block is not metadata any more.  Its owner has none of it left. */
void ext4_handle_forget(struct ext4_handle *handle, uint64_t block);

/* The running transaction; without the lock a hint that can only be too old. */
static inline uint64_t ext4_journal_tid(const struct ext4_journal *journal)
{
	return __atomic_load_n(&journal->running_tid, __ATOMIC_ACQUIRE);
}

static inline bool ext4_journal_is_committed(const struct ext4_journal *journal, uint64_t tid)
{
	return __atomic_load_n(&journal->committed_tid, __ATOMIC_ACQUIRE) >= tid;
}

/* Return when it is durable; the error of its commit.  A failed one is made again. */
int ext4_journal_commit(struct ext4_journal *journal, uint64_t tid);
/* The same for all there is. */
int ext4_journal_commit_all(struct ext4_journal *journal);
/* What is committed survives when this returns. */
int ext4_journal_flush(struct ext4_journal *journal);

#endif

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * log.h - transactions, the space they share, and how they become durable (XF26)
 *
 *	xfs_log_init(&log, &config);
 *	xfs_log_begin(&log, XFS_TRANS_ALLOC, inode);	waits for space in the log
 *	... lock, change, seq = xfs_log_change(&log), unlock ...
 *	xfs_log_end(&log, XFS_TRANS_ALLOC, &ip->logged);
 *	err = xfs_log_commit(&log, seq);	it is on the device, if not flushed yet
 *	err = xfs_log_flush(&log);
 *	xfs_log_destroy(&log);
 *
 * The log knows how many changes there were and which are written, not what they are.  Its space
 * is counted in bytes, which are free, reserved by a transaction, logged and not yet written, or
 * written and needed until the metadata itself has been written in place.
 *
 * Lock order: write_lock -> lock.  A transaction begins before the locks of what it changes.
 */
#ifndef FSBACKENDS_XFS_LOG_H
#define FSBACKENDS_XFS_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include <iomap/env.h>
#include <iomap/list.h>

struct block_device;
struct inode;
struct xfs_space;

#define XFS_LOG_MIN_BYTES (512ull << 10)

enum xfs_trans {
	XFS_TRANS_ALLOC,
	XFS_TRANS_CONVERT,
	XFS_TRANS_SIZE,
	XFS_TRANS_FREE,
	XFS_TRANS_CREATE,
	XFS_TRANS_REMOVE,
	XFS_NR_TRANS
};

/* Bytes of log space that each kind reserves, and what it has logged when it ends. */
struct xfs_trans_size {
	uint32_t reserved;
	uint32_t logged;
};
extern const struct xfs_trans_size xfs_trans_sizes[XFS_NR_TRANS];

/* Metadata that is written in place some time after it was logged. */
struct xfs_logged {
	uint64_t block; /* [I] on the device */
	uint64_t round; /* [L of the log] of metadata writing that it waits for */
};

struct xfs_log_config {
	struct block_device *bdev;
	uint64_t addr; /* bytes on the device */
	uint64_t len;
	uint64_t size; /* bytes of log space to share, XFS_LOG_MIN_BYTES at least */
	struct xfs_space *space; /* whose groups hold the metadata */
	/* Unless NULL: called, with no lock held, when all changes up to this one are durable. */
	void (*committed)(void *arg, uint64_t change);
	/* Unless NULL: at the time asked for by xfs_log_wake_at(), on the log's thread. */
	void (*timer)(void *arg);
	void *arg;
};

/*
 *	I	set at creation, never changed
 *	a	atomic
 *	W	write_lock
 *	L	lock
 *	T	the log's thread
 */
struct xfs_log {
	struct xfs_log_config config; /* [I] len is whole requests */
	uint32_t io_size; /* [I] bytes that every request is a multiple of */
	struct env_mutex write_lock; /* one commit at a time */
	unsigned char *record; /* [W] what is written */
	uint64_t head; /* [W] where the next request goes, below len */
	uint64_t changes; /* [a] number of the last change */
	uint64_t started; /* [a] the last change that a commit has taken up */
	uint64_t committed; /* [a] the last change that is written */

	struct env_mutex lock;
	int64_t free; /* [L] time stamps reserve nothing and may overdraw it */
	uint64_t pending; /* [L] logged, not yet written */
	uint64_t pending_since; /* [L] the clock when it was 0 last */
	bool armed; /* [L] the thread will look at pending in time without being woken */
	uint64_t written; /* [L] in the log, metadata not in place */
	struct list_head waiters; /* [L] transactions in order of arrival */
	uint64_t nr_waits; /* [L] transactions that had to wait */
	uint64_t round; /* [L] number of metadata writings begun */
	uint64_t *blocks; /* [L] of metadata logged in this round */
	uint64_t nr_blocks, max_blocks; /* [L] */
	uint64_t wake_at; /* [L] the clock when timer() is wanted, ENV_FOREVER: never */
	uint64_t retry_at; /* [T] nothing is written before this time: a write has failed */
	bool stop; /* [L] */
	struct env_waitq wake; /* of the thread */
	struct env_thread *thread; /* [I] */
	struct xfs_push *push; /* [T] */
};

/* -ENOMEM, or the error of a thread that did not start. */
int xfs_log_init(struct xfs_log *log, const struct xfs_log_config *config);
/* Nothing is written any more.  => no transaction is running */
void xfs_log_destroy(struct xfs_log *log);

/*
 * Reserve space for a transaction, behind all that wait for it already.  The wait is charged to
 * the inode's context (inode may be NULL).  => no lock is held that a transaction takes
 */
void xfs_log_begin(struct xfs_log *log, enum xfs_trans kind, struct inode *inode);
/* The same without waiting; false if that would be needed. */
bool xfs_log_try_begin(struct xfs_log *log, enum xfs_trans kind);
/* What was reserved and not logged is free again.  logged: an inode's metadata, or NULL. */
void xfs_log_end(struct xfs_log *log, enum xfs_trans kind, struct xfs_logged *logged);
/* Nothing was changed. */
void xfs_log_cancel(struct xfs_log *log, enum xfs_trans kind);
/* A small change that reserves nothing, such as of a time stamp. */
void xfs_log_small(struct xfs_log *log, struct xfs_logged *logged);

static inline uint64_t xfs_log_change(struct xfs_log *log)
{
	return __atomic_add_fetch(&log->changes, 1, __ATOMIC_RELAXED);
}

/* Has a commit taken up this change?  If not, one more of the same kind needs no new number. */
static inline bool xfs_log_is_started(const struct xfs_log *log, uint64_t change)
{
	return change <= __atomic_load_n(&log->started, __ATOMIC_RELAXED);
}

static inline bool xfs_log_is_committed(const struct xfs_log *log, uint64_t change)
{
	return change <= __atomic_load_n(&log->committed, __ATOMIC_ACQUIRE);
}

int xfs_log_commit(struct xfs_log *log, uint64_t change);
int xfs_log_commit_all(struct xfs_log *log);
/* What is logged, even if all changes are committed. */
int xfs_log_write_pending(struct xfs_log *log);
int xfs_log_flush(struct xfs_log *log);

/* Have timer() called at this time of env_clock_ns(), or earlier if that was asked before. */
void xfs_log_wake_at(struct xfs_log *log, uint64_t time);

/* ---- log.c to log-thread.c --------------------------------------------------------------- */

/* One request to the device, and for the log's thread a reason to write one. */
#define XFS_LOG_REQUEST_MAX  (256u << 10)
#define XFS_LOG_REQUEST_FULL (32u << 10)

int xfs_log_thread_start(struct xfs_log *log);
void xfs_log_thread_stop(struct xfs_log *log);
/* Give space back, and hand it to those who wait.  => lock is held */
void xfs_log_release(struct xfs_log *log, uint64_t bytes);
/* Should the log's thread write metadata to free space?  => lock is held */
bool xfs_log_is_short(const struct xfs_log *log);

#endif

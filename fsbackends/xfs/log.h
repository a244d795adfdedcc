/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * log.h - makes metadata durable: one small sequential write for all changes so far
 *
 *	seq = xfs_log_change(&log);		something in memory has changed
 *	err = xfs_log_commit(&log, seq);	it is on the device, if not flushed yet
 *	err = xfs_log_flush(&log);
 *
 * The log knows how many changes there were and which are written, not what they are.  Its
 * space and its waiting (XF26) would be counted here.
 */
#ifndef FSBACKENDS_XFS_LOG_H
#define FSBACKENDS_XFS_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include <iomap/env.h>

struct block_device;

/*	L	lock */
struct xfs_log {
	struct block_device *bdev; /* [I] */
	uint64_t addr; /* [I] bytes */
	uint64_t len; /* [I] bytes, whole requests */
	uint32_t io_size; /* [I] bytes of one request */
	struct env_mutex lock; /* one commit at a time */
	unsigned char *record; /* [L] what is written */
	uint64_t head; /* [L] where the next request goes, below len */
	uint64_t changes; /* [a] number of the last change */
	uint64_t started; /* [a] the last change that a commit has taken up */
	uint64_t committed; /* [a] the last change that is written */
};

/* -ENOMEM */
int xfs_log_init(struct xfs_log *log, struct block_device *bdev, uint64_t addr, uint64_t len);
void xfs_log_destroy(struct xfs_log *log);

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
int xfs_log_flush(struct xfs_log *log);

#endif

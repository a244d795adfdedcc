/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * log.c - log space, and group commit
 *
 * A transaction takes its space before it locks anything, in order of arrival if it has to wait,
 * and gives most of it back.  A commit writes what all transactions have logged so far, in
 * requests of up to 256 KiB; whoever waits for the lock meanwhile mostly finds his change
 * committed.  The space of what is written comes back when log-thread.c has written the metadata.
 */
#include "log.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include <iomap/backing_dev.h>
#include <iomap/blkdev.h>
#include <iomap/cost.h>

#define SECTOR_BYTES   512
#define RECORD_MIN     (2 * SECTOR_BYTES)
#define HEADER_BYTES   SECTOR_BYTES
#define SMALL_BYTES    SECTOR_BYTES /* of a time stamp */
#define RECORD_MAGIC   "XFSlog\0"
#define PAYLOAD_MAX    (XFS_LOG_REQUEST_MAX - HEADER_BYTES)
#define MIN_BLOCK_ROOM 64

/* Reservations for the worst case, what is logged for the usual one. */
const struct xfs_trans_size xfs_trans_sizes[XFS_NR_TRANS] = {
	[XFS_TRANS_ALLOC] = {96u << 10, 1u << 10},  [XFS_TRANS_CONVERT] = {96u << 10, 1u << 10},
	[XFS_TRANS_SIZE] = {8u << 10, 1u << 10},    [XFS_TRANS_FREE] = {96u << 10, 1u << 10},
	[XFS_TRANS_CREATE] = {96u << 10, 2u << 10}, [XFS_TRANS_REMOVE] = {96u << 10, 2u << 10},
};

/* ---- space ------------------------------------------------------------------------------- */

struct waiter {
	struct list_head link;
	int64_t bytes;
	struct env_completion granted;
};

/* Metadata is written before space runs out, so that mostly nobody waits for it. */
bool xfs_log_is_short(const struct xfs_log *log)
{
	return log->free < (int64_t)(log->config.size / 4) || !list_empty(&log->waiters);
}

/* => lock is held */
static bool take_space(struct xfs_log *log, int64_t bytes)
{
	if (!list_empty(&log->waiters) || log->free < bytes)
		return false;
	log->free -= bytes;
	return true;
}

void xfs_log_release(struct xfs_log *log, uint64_t bytes)
{
	log->free += (int64_t)bytes;
	while (!list_empty(&log->waiters)) {
		struct waiter *waiter = list_first_entry(&log->waiters, struct waiter, link);

		if (log->free < waiter->bytes)
			return;
		log->free -= waiter->bytes;
		list_del_init(&waiter->link);
		env_complete(&waiter->granted);
	}
}

static void wait_for_space(struct xfs_log *log, struct waiter *waiter, struct inode *inode)
{
	uint64_t start = env_clock_ns();

	env_waitq_wake(&log->wake);
	env_completion_wait(&waiter->granted);
	if (inode)
		wb_account_log_wait(inode, env_clock_ns() - start);
}

void xfs_log_begin(struct xfs_log *log, enum xfs_trans kind, struct inode *inode)
{
	struct waiter waiter = {.bytes = xfs_trans_sizes[kind].reserved};
	bool taken;

	env_charge(ENV_COST_LOG_RESERVE, 1);
	env_mutex_lock(&log->lock);
	taken = take_space(log, waiter.bytes);
	if (!taken) {
		env_completion_init(&waiter.granted);
		list_add_tail(&waiter.link, &log->waiters);
		log->nr_waits++;
	}
	env_mutex_unlock(&log->lock);
	if (!taken)
		wait_for_space(log, &waiter, inode);
}

bool xfs_log_try_begin(struct xfs_log *log, enum xfs_trans kind)
{
	bool taken;

	env_charge(ENV_COST_LOG_RESERVE, 1);
	env_mutex_lock(&log->lock);
	taken = take_space(log, xfs_trans_sizes[kind].reserved);
	env_mutex_unlock(&log->lock);
	return taken;
}

/* ---- what was logged --------------------------------------------------------------------- */

/* => lock is held */
static bool make_room(struct xfs_log *log)
{
	uint64_t max = log->max_blocks ? 2 * log->max_blocks : MIN_BLOCK_ROOM;
	uint64_t *blocks;

	if (log->nr_blocks < log->max_blocks)
		return true;
	blocks = env_alloc(max * sizeof(*blocks));
	if (!blocks)
		return false;
	if (log->nr_blocks > 0)
		memcpy(blocks, log->blocks, log->nr_blocks * sizeof(*blocks));
	env_free(log->blocks);
	log->blocks = blocks;
	log->max_blocks = max;
	return true;
}

/*
 * Once a round.  Without memory the block is not written: nothing but a figure depends on it.
 * => lock is held
 */
static void note_block(struct xfs_log *log, struct xfs_logged *logged)
{
	if (logged->round == log->round || !make_room(log))
		return;
	logged->round = log->round;
	log->blocks[log->nr_blocks++] = logged->block;
}

/* Returns whether the log's thread has something to do now.  => lock is held */
static bool add_pending(struct xfs_log *log, uint64_t bytes, struct xfs_logged *logged)
{
	bool was_armed = log->armed;

	if (logged)
		note_block(log, logged);
	if (log->pending == 0)
		log->pending_since = env_clock_ns();
	log->pending += bytes;
	log->armed = true;
	return !was_armed || (log->pending >= XFS_LOG_REQUEST_FULL &&
			      log->pending - bytes < XFS_LOG_REQUEST_FULL);
}

static void end(struct xfs_log *log, uint64_t reserved, uint64_t logged_bytes,
		struct xfs_logged *logged)
{
	bool wake;

	env_mutex_lock(&log->lock);
	wake = logged_bytes > 0 && add_pending(log, logged_bytes, logged);
	if (reserved >= logged_bytes)
		xfs_log_release(log, reserved - logged_bytes);
	else
		log->free -= (int64_t)(logged_bytes - reserved);
	wake |= xfs_log_is_short(log);
	env_mutex_unlock(&log->lock);
	if (wake)
		env_waitq_wake(&log->wake);
}

void xfs_log_end(struct xfs_log *log, enum xfs_trans kind, struct xfs_logged *logged)
{
	end(log, xfs_trans_sizes[kind].reserved, xfs_trans_sizes[kind].logged, logged);
}

void xfs_log_cancel(struct xfs_log *log, enum xfs_trans kind)
{
	end(log, xfs_trans_sizes[kind].reserved, 0, NULL);
}

void xfs_log_small(struct xfs_log *log, struct xfs_logged *logged)
{
	end(log, 0, SMALL_BYTES, logged);
}

/* ---- commit ------------------------------------------------------------------------------ */

/* One request; returns how many of the bytes it held, or an error.  => write_lock is held */
static int64_t write_record(struct xfs_log *log, uint64_t last_change, uint64_t bytes)
{
	uint64_t payload = bytes < PAYLOAD_MAX ? bytes : PAYLOAD_MAX;
	uint64_t len = (HEADER_BYTES + payload + log->io_size - 1) / log->io_size * log->io_size;
	struct bio bio;
	int err;

	/* The log is a ring of whole requests; the rest of one goes into the next. */
	if (len > log->config.len - log->head) {
		len = log->config.len - log->head;
		payload = payload < len - HEADER_BYTES ? payload : len - HEADER_BYTES;
	}
	memcpy(log->record, RECORD_MAGIC, sizeof(RECORD_MAGIC));
	memcpy(log->record + sizeof(RECORD_MAGIC), &last_change, sizeof(last_change));
	bio_init(&bio, log->config.bdev, BIO_WRITE, BIO_JOURNAL, log->config.addr + log->head);
	err = bio_add(&bio, log->record, len);
	if (!err)
		err = bio_submit_wait(&bio);
	bio_uninit(&bio);
	if (err)
		return err;
	log->head = (log->head + len) % log->config.len;
	return (int64_t)payload;
}

/* All that is logged; at least one record.  => write_lock is held */
static int write_pending(struct xfs_log *log, uint64_t last_change)
{
	uint64_t bytes, done = 0;
	int64_t n;

	env_mutex_lock(&log->lock);
	bytes = log->pending;
	log->pending = 0;
	env_mutex_unlock(&log->lock);

	do {
		n = write_record(log, last_change, bytes - done);
		done += n > 0 ? (uint64_t)n : 0;
	} while (n >= 0 && done < bytes);

	env_mutex_lock(&log->lock);
	log->written += done;
	log->pending += bytes - done;
	env_mutex_unlock(&log->lock);
	return n < 0 ? (int)n : 0;
}

/* => write_lock is held */
static int commit_started(struct xfs_log *log)
{
	uint64_t last = __atomic_load_n(&log->changes, __ATOMIC_RELAXED);
	int err;

	__atomic_store_n(&log->started, last, __ATOMIC_RELAXED);
	err = write_pending(log, last);
	if (!err)
		__atomic_store_n(&log->committed, last, __ATOMIC_RELEASE);
	return err;
}

static void tell_committed(struct xfs_log *log)
{
	if (log->config.committed)
		log->config.committed(log->config.arg,
				      __atomic_load_n(&log->committed, __ATOMIC_ACQUIRE));
}

int xfs_log_commit(struct xfs_log *log, uint64_t change)
{
	int err = 0;

	if (xfs_log_is_committed(log, change))
		return 0;
	env_mutex_lock(&log->write_lock);
	if (!xfs_log_is_committed(log, change))
		err = commit_started(log);
	env_mutex_unlock(&log->write_lock);
	tell_committed(log);
	return err;
}

int xfs_log_write_pending(struct xfs_log *log)
{
	bool any;
	int err = 0;

	env_mutex_lock(&log->write_lock);
	env_mutex_lock(&log->lock);
	any = log->pending > 0;
	env_mutex_unlock(&log->lock);
	if (any)
		err = commit_started(log);
	env_mutex_unlock(&log->write_lock);
	tell_committed(log);
	return err;
}

int xfs_log_commit_all(struct xfs_log *log)
{
	return xfs_log_commit(log, __atomic_load_n(&log->changes, __ATOMIC_RELAXED));
}

int xfs_log_flush(struct xfs_log *log)
{
	struct bio bio;
	int err;

	bio_init(&bio, log->config.bdev, BIO_FLUSH, BIO_JOURNAL, 0);
	err = bio_submit_wait(&bio);
	bio_uninit(&bio);
	return err;
}

/* ---- life -------------------------------------------------------------------------------- */

void xfs_log_wake_at(struct xfs_log *log, uint64_t time)
{
	env_mutex_lock(&log->lock);
	log->wake_at = time < log->wake_at ? time : log->wake_at;
	env_mutex_unlock(&log->lock);
	env_waitq_wake(&log->wake);
}

int xfs_log_init(struct xfs_log *log, const struct xfs_log_config *config)
{
	uint32_t io_size = RECORD_MIN;
	int err;

	if (config->bdev->logical_block > io_size)
		io_size = config->bdev->logical_block;
	assert(config->size >= XFS_LOG_MIN_BYTES);
	*log = (struct xfs_log){.config = *config, .io_size = io_size, .wake_at = ENV_FOREVER};
	log->config.len = config->len / io_size * io_size;
	log->free = (int64_t)config->size;
	log->round = 1;
	log->record = env_zalloc(XFS_LOG_REQUEST_MAX);
	if (!log->record)
		return -ENOMEM;
	list_init(&log->waiters);
	env_mutex_init(&log->write_lock, "xfs log write");
	env_mutex_init(&log->lock, "xfs log");
	env_waitq_init(&log->wake);
	err = xfs_log_thread_start(log);
	if (err)
		env_free(log->record);
	return err;
}

void xfs_log_destroy(struct xfs_log *log)
{
	xfs_log_thread_stop(log);
	assert(list_empty(&log->waiters));
	env_free(log->blocks);
	env_free(log->record);
}

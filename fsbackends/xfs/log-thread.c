/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * log-thread.c - writes the log behind the transactions, and the metadata behind the log
 *
 * The thread writes what is logged when a request is worth it, or when it has waited for half a
 * minute; while it writes the next batch gathers.  When log space runs short, or after that half
 * minute, it writes the metadata logged so far in place, and the space of its log is free (XF26).
 *
 * No bytes of metadata exist and none are read back.  Each block is written to the header of its
 * group, which nothing else uses: real requests of real sizes, near where the block would be.
 */
#include "log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <iomap/blkdev.h>

#include "alloc.h"

#define WINDOW_NS    30000000000ull
#define RETRY_NS     100000000ull
#define NR_IN_FLIGHT 32
/* Both trees of free space, the reverse map and the headers. */
#define GROUP_BLOCKS 4

struct xfs_push {
	uint64_t *blocks; /* to write, with the memory of the round before */
	uint64_t max_blocks;
	unsigned char *zeroes; /* GROUP_BLOCKS */
	uint32_t nr_running; /* [a] */
	int error; /* [a] */
	struct env_waitq idle;
	struct bio bios[NR_IN_FLIGHT];
};

/* ---- metadata ---------------------------------------------------------------------------- */

static void bio_done(struct bio *bio)
{
	struct xfs_push *push = bio->private_data;

	if (bio->status)
		__atomic_store_n(&push->error, bio->status, __ATOMIC_RELAXED);
	bio_uninit(bio);
	if (__atomic_sub_fetch(&push->nr_running, 1, __ATOMIC_ACQ_REL) == 0)
		env_waitq_wake(&push->idle);
}

static void submit(struct xfs_log *log, struct bio *bio, uint64_t block, uint64_t nr)
{
	const struct xfs_geometry *geometry = &log->config.space->geometry;
	struct xfs_push *push = log->push;

	bio_init(bio, log->config.bdev, BIO_WRITE, BIO_META, block << geometry->blkbits);
	bio->end_io = bio_done;
	bio->private_data = push;
	__atomic_fetch_add(&push->nr_running, 1, __ATOMIC_RELAXED);
	if (bio_add(bio, push->zeroes, nr << geometry->blkbits))
		bio_endio(bio, -ENOMEM);
	else
		bio_submit(bio);
}

/* The requests of a batch are out together; the log goes on in between. */
static void wait_for_batch(struct xfs_log *log)
{
	struct xfs_push *push = log->push;

	env_wait_event(&push->idle, __atomic_load_n(&push->nr_running, __ATOMIC_ACQUIRE) == 0);
	if (__atomic_load_n(&log->pending, __ATOMIC_RELAXED) >= XFS_LOG_REQUEST_FULL)
		xfs_log_write_pending(log);
}

static int compare_blocks(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a;
	uint64_t right = *(const uint64_t *)b;

	return left < right ? -1 : left > right;
}

/* The block of a group's header that stands for a block anywhere in the group. */
static uint64_t stand_in(const struct xfs_geometry *geometry, uint64_t block)
{
	struct xfs_place place = xfs_place_of(geometry, block);

	place.block = GROUP_BLOCKS + place.block % (XFS_AG_HEADER_BLOCKS - GROUP_BLOCKS);
	return xfs_block_at(geometry, place);
}

static void write_inode_blocks(struct xfs_log *log, uint64_t nr)
{
	const struct xfs_geometry *geometry = &log->config.space->geometry;
	const uint64_t *blocks = log->push->blocks;
	unsigned int used = 0;

	for (uint64_t i = 0; i < nr; i++) {
		/* Inodes share blocks. */
		if (i > 0 && blocks[i] == blocks[i - 1])
			continue;
		submit(log, &log->push->bios[used++], stand_in(geometry, blocks[i]), 1);
		if (used == NR_IN_FLIGHT) {
			wait_for_batch(log);
			used = 0;
		}
	}
	wait_for_batch(log);
}

static void write_groups(struct xfs_log *log)
{
	struct xfs_space *space = log->config.space;
	unsigned int used = 0;

	for (uint64_t ag = 0; ag < space->geometry.nr_ags; ag++) {
		if (!__atomic_exchange_n(&space->ags[ag].logged, false, __ATOMIC_RELAXED))
			continue;
		submit(log, &log->push->bios[used++], xfs_ag_first_block(&space->geometry, ag),
		       GROUP_BLOCKS);
		if (used == NR_IN_FLIGHT) {
			wait_for_batch(log);
			used = 0;
		}
	}
	wait_for_batch(log);
}

/* Take over the blocks of this round; transactions fill the other array.  => lock is held */
static uint64_t next_round(struct xfs_log *log)
{
	struct xfs_push *push = log->push;
	uint64_t *blocks = push->blocks;
	uint64_t max_blocks = push->max_blocks;
	uint64_t nr = log->nr_blocks;

	push->blocks = log->blocks;
	push->max_blocks = log->max_blocks;
	log->blocks = blocks;
	log->max_blocks = max_blocks;
	log->nr_blocks = 0;
	log->round++;
	return nr;
}

/* Whatever was logged before is in place afterwards, and its log space free. */
static int write_metadata(struct xfs_log *log)
{
	struct xfs_push *push = log->push;
	int err = xfs_log_write_pending(log); /* the log goes first */
	uint64_t bytes, nr;

	if (err)
		return err;
	env_mutex_lock(&log->lock);
	bytes = log->written;
	nr = next_round(log);
	env_mutex_unlock(&log->lock);

	push->error = 0;
	if (nr > 1)
		qsort(push->blocks, nr, sizeof(*push->blocks), compare_blocks);
	write_inode_blocks(log, nr);
	write_groups(log);
	if (push->error)
		return push->error;

	env_mutex_lock(&log->lock);
	log->written -= bytes;
	xfs_log_release(log, bytes);
	env_mutex_unlock(&log->lock);
	return 0;
}

/* ---- the thread -------------------------------------------------------------------------- */

enum job {
	JOB_WAIT,
	JOB_LOG,
	JOB_METADATA,
	JOB_TIMER,
	JOB_STOP,
};

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* What to do now, or else until when nothing.  => lock is held */
static enum job next_job(struct xfs_log *log, uint64_t now, uint64_t *until)
{
	uint64_t window_end = log->pending_since + WINDOW_NS;

	*until = ENV_FOREVER;
	if (log->stop)
		return JOB_STOP;
	if (log->wake_at <= now) {
		log->wake_at = ENV_FOREVER;
		return JOB_TIMER;
	}
	*until = log->wake_at;
	if (now < log->retry_at) {
		*until = earlier(*until, log->retry_at);
		return JOB_WAIT;
	}
	if (xfs_log_is_short(log) && log->pending + log->written > 0)
		return JOB_METADATA;
	if (log->pending >= XFS_LOG_REQUEST_FULL)
		return JOB_LOG;
	if (log->pending > 0 && window_end <= now)
		return JOB_METADATA;
	log->armed = log->pending > 0 || now < window_end;
	if (log->armed)
		*until = earlier(*until, window_end);
	return JOB_WAIT;
}

static enum job wait_for_job(struct xfs_log *log)
{
	uint32_t key = env_waitq_prepare(&log->wake);
	uint64_t now = env_clock_ns();
	uint64_t until;
	enum job job;

	env_mutex_lock(&log->lock);
	job = next_job(log, now, &until);
	env_mutex_unlock(&log->lock);
	if (job != JOB_WAIT)
		env_waitq_cancel(&log->wake);
	else if (until == ENV_FOREVER)
		env_waitq_wait(&log->wake, key, ENV_FOREVER);
	else
		env_waitq_wait(&log->wake, key, until - now);
	return job;
}

static void work(void *arg)
{
	struct xfs_log *log = arg;
	enum job job;
	int err;

	while ((job = wait_for_job(log)) != JOB_STOP) {
		err = 0;
		if (job == JOB_LOG)
			err = xfs_log_write_pending(log);
		else if (job == JOB_METADATA)
			err = write_metadata(log);
		else if (job == JOB_TIMER)
			log->config.timer(log->config.arg);
		/* Who waits for the log tries again himself, and hears of the error. */
		if (err)
			log->retry_at = env_clock_ns() + RETRY_NS;
	}
}

static void push_free(struct xfs_log *log)
{
	env_free(log->push->blocks);
	env_free(log->push->zeroes);
	env_free(log->push);
}

int xfs_log_thread_start(struct xfs_log *log)
{
	struct xfs_push *push = env_zalloc(sizeof(*push));
	int err = -ENOMEM;

	if (!push)
		return -ENOMEM;
	log->push = push;
	push->zeroes = env_zalloc((size_t)log->config.space->geometry.block_size * GROUP_BLOCKS);
	env_waitq_init(&push->idle);
	if (push->zeroes)
		err = env_thread_create(&log->thread, "xfs log", work, log);
	if (err)
		push_free(log);
	return err;
}

void xfs_log_thread_stop(struct xfs_log *log)
{
	env_mutex_lock(&log->lock);
	log->stop = true;
	env_mutex_unlock(&log->lock);
	env_waitq_wake(&log->wake);
	env_thread_join(log->thread);
	push_free(log);
}

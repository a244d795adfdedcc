/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * log.c - group commit
 *
 * A commit writes one record that stands for every change up to its start; whoever waits for
 * the lock meanwhile mostly finds his change committed.
 */
#include "log.h"

#include <errno.h>
#include <string.h>

#include <iomap/blkdev.h>

#define RECORD_BYTES 1024
#define RECORD_MAGIC "XFSlog\0"

int xfs_log_init(struct xfs_log *log, struct block_device *bdev, uint64_t addr, uint64_t len)
{
	uint32_t io_size = RECORD_BYTES;

	if (bdev->logical_block > io_size)
		io_size = bdev->logical_block;
	*log = (struct xfs_log){.bdev = bdev, .addr = addr, .io_size = io_size};
	log->len = len / io_size * io_size;
	log->record = env_zalloc(io_size);
	if (!log->record)
		return -ENOMEM;
	env_mutex_init(&log->lock, "xfs log");
	return 0;
}

void xfs_log_destroy(struct xfs_log *log)
{
	env_free(log->record);
}

/* => log->lock is held */
static int write_record(struct xfs_log *log, uint64_t last_change)
{
	struct bio bio;
	int err;

	memcpy(log->record, RECORD_MAGIC, sizeof(RECORD_MAGIC));
	memcpy(log->record + sizeof(RECORD_MAGIC), &last_change, sizeof(last_change));
	bio_init(&bio, log->bdev, BIO_WRITE, BIO_JOURNAL, log->addr + log->head);
	err = bio_add(&bio, log->record, log->io_size);
	if (!err)
		err = bio_submit_wait(&bio);
	bio_uninit(&bio);
	if (!err)
		log->head = (log->head + log->io_size) % log->len;
	return err;
}

int xfs_log_commit(struct xfs_log *log, uint64_t change)
{
	uint64_t last;
	int err;

	if (xfs_log_is_committed(log, change))
		return 0;
	env_mutex_lock(&log->lock);
	if (xfs_log_is_committed(log, change)) {
		env_mutex_unlock(&log->lock);
		return 0;
	}
	last = __atomic_load_n(&log->changes, __ATOMIC_RELAXED);
	__atomic_store_n(&log->started, last, __ATOMIC_RELAXED);
	err = write_record(log, last);
	if (!err)
		__atomic_store_n(&log->committed, last, __ATOMIC_RELEASE);
	env_mutex_unlock(&log->lock);
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

	bio_init(&bio, log->bdev, BIO_FLUSH, BIO_JOURNAL, 0);
	err = bio_submit_wait(&bio);
	bio_uninit(&bio);
	return err;
}

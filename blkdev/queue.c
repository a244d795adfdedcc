/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * queue.c - bios in order of arrival, served by the submitter or by worker threads
 *
 * A worker that finds nothing notes seq under the lock and sleeps while it is unchanged;
 * whoever adds a bio changes seq under the lock and wakes one worker, if any is idle.
 */
#include "internal.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>

static void seq_advance(struct bio_queue *queue)
{
	__atomic_store_n(&queue->seq, queue->seq + 1, __ATOMIC_RELAXED);
}

/* With the lock held; it is dropped for the time of the sleep. */
static void sleep_idle(struct bio_queue *queue)
{
	uint32_t seq = queue->seq;

	queue->nr_idle++;
	env_mutex_unlock(&queue->lock);
	env_futex_wait(&queue->seq, seq, ENV_FOREVER);
	env_mutex_lock(&queue->lock);
	queue->nr_idle--;
}

/* The oldest bio, waiting for one; NULL when the queue has stopped. */
static struct bio *take_oldest(struct bio_queue *queue)
{
	struct bio *bio;

	env_mutex_lock(&queue->lock);
	while (!(bio = bio_list_pop(&queue->bios)) && !queue->stop)
		sleep_idle(queue);
	env_mutex_unlock(&queue->lock);
	return bio;
}

static void serve(struct bio_queue *queue, struct bio *bio)
{
	bio_endio(bio, queue->serve(queue->bdev, bio));
}

static void worker_main(void *arg)
{
	struct bio_queue *queue = arg;
	struct bio *bio;

	while ((bio = take_oldest(queue)))
		serve(queue, bio);
}

void bio_queue_submit(struct bio_queue *queue, struct bio *bio)
{
	bool wake;

	if (queue->nr_workers == 0) {
		serve(queue, bio);
		return;
	}

	env_mutex_lock(&queue->lock);
	bio_list_add(&queue->bios, bio);
	seq_advance(queue);
	wake = queue->nr_idle > 0;
	env_mutex_unlock(&queue->lock);
	if (wake)
		env_futex_wake(&queue->seq, 1);
}

void bio_queue_stop(struct bio_queue *queue)
{
	env_mutex_lock(&queue->lock);
	assert(!queue->bios.head);
	queue->stop = true;
	seq_advance(queue);
	env_mutex_unlock(&queue->lock);
	env_futex_wake(&queue->seq, INT_MAX);

	for (unsigned int i = 0; i < queue->nr_workers; i++)
		env_thread_join(queue->workers[i]);
	env_free(queue->workers);
}

int bio_queue_start(struct bio_queue *queue, struct block_device *bdev,
		    int (*serve_one)(struct block_device *bdev, struct bio *bio),
		    unsigned int nr_workers)
{
	int err;

	*queue = (struct bio_queue){.bdev = bdev, .serve = serve_one};
	env_spin_init(&queue->lock, "blkdev queue");
	if (nr_workers == 0)
		return 0;

	queue->workers = env_alloc(nr_workers * sizeof(struct env_thread *));
	if (!queue->workers)
		return -ENOMEM;
	for (; queue->nr_workers < nr_workers; queue->nr_workers++) {
		err = env_thread_create(&queue->workers[queue->nr_workers], bdev->name, worker_main,
					queue);
		if (err) {
			bio_queue_stop(queue);
			return err;
		}
	}
	return 0;
}

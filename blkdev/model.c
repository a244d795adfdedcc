/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * model.c - a wrapper that takes the time of a real device
 *
 * The queue says when each request completes; it is brought up to date by whoever comes with
 * the lock, a submitter or the device's thread.  The thread sleeps until the next event and
 * hands what has completed to the device below, which moves the data and ends it.  A
 * submitter wakes it only if its request makes an event earlier than the thread expects.
 *
 * Who writes data while the queue is full waits until it is not, behind those who came before.
 * Everything else is waited for by somebody, is little, and may be submitted where nobody may
 * sleep.
 *
 * Memory has no queue and no thread: the submitter pays for the copy, then passes it on.
 */
#include "internal.h"
#include "model.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>

/* How much is copied before a CPU looks again how many others copy. */
#define COPY_STEP 65536u

/*
 * How a member is protected:
 *	I	set at creation, never changed
 *	L	lock
 *	a	atomic
 */
struct model_device {
	struct block_device bdev;
	struct blkdev_profile profile; /* [I] */
	struct env_thread *thread; /* [I] NULL if synchronous */
	struct env_mutex lock;
	struct model_queue queue; /* [L] if synchronous, only its figures */
	uint64_t wake_ns; /* [L] when the thread wakes by itself; 0: it is awake, or soon */
	bool stop; /* [L] */
	uint32_t seq; /* [L, read without it as a futex] changes to wake the thread */
	unsigned int nr_copying; /* [a] submitters that copy now */
	uint64_t room_last; /* [a] requests of data so far, if there is a limit to them */
	uint64_t room_first; /* [a] those of them that found room */
	struct env_waitq room; /* where those wait who find none */
};

static const struct blkdev_ops model_ops;

static struct model_device *model_of(struct block_device *bdev)
{
	assert(bdev->ops == &model_ops);

	return container_of(bdev, struct model_device, bdev);
}

/* ---- room for data ---- */

static bool has_limit(const struct model_device *model)
{
	return model->profile.queue_bytes || model->profile.queue_requests;
}

static bool takes_room(const struct model_device *model, const struct bio *bio)
{
	return has_limit(model) && bio->op == BIO_WRITE && bio->kind == BIO_DATA;
}

static bool is_below(const uint64_t *count, uint64_t limit)
{
	return limit == 0 || __atomic_load_n(count, __ATOMIC_RELAXED) < limit;
}

/* Nobody else may take what is seen here: only one is let in at a time. */
static bool has_room(const struct model_device *model, uint64_t ticket)
{
	return __atomic_load_n(&model->room_first, __ATOMIC_ACQUIRE) == ticket &&
	       is_below(&model->queue.data_bytes, model->profile.queue_bytes) &&
	       is_below(&model->queue.nr_data, model->profile.queue_requests);
}

/* The last request to come in may exceed the limit of bytes. */
static void await_room(struct model_device *model)
{
	uint64_t ticket = __atomic_fetch_add(&model->room_last, 1, __ATOMIC_RELAXED);

	env_wait_event(&model->room, has_room(model, ticket));
}

static void let_next_in(struct model_device *model)
{
	__atomic_fetch_add(&model->room_first, 1, __ATOMIC_RELEASE);
	env_waitq_wake(&model->room);
}

/* ---- the thread ---- */

static void pass_all(struct model_device *model, struct model_io *io)
{
	while (io) {
		struct model_io *next = io->next;
		struct bio *bio = io->bio;

		env_free(io);
		blkdev_pass(&model->bdev, bio);
		io = next;
	}
}

/* With the lock held; it is dropped for the time of the sleep. */
static void sleep_until_next(struct model_device *model)
{
	uint64_t next_ns = model_queue_next(&model->queue);
	uint64_t now_ns = env_clock_ns();
	uint32_t seq = model->seq;

	if (next_ns <= now_ns)
		return;
	model->wake_ns = next_ns;
	env_mutex_unlock(&model->lock);
	env_futex_wait(&model->seq, seq, next_ns == UINT64_MAX ? ENV_FOREVER : next_ns - now_ns);
	env_mutex_lock(&model->lock);
	model->wake_ns = 0;
}

/* Whoever brings the queue up to date, the thread comes for each request that completes. */
static void thread_main(void *arg)
{
	struct model_device *model = arg;
	bool limited = has_limit(model);
	struct model_io *done;

	env_mutex_lock(&model->lock);
	while (!model->stop) {
		model_queue_advance(&model->queue, env_clock_ns());
		done = model_queue_take_done(&model->queue);
		if (done || limited) {
			env_mutex_unlock(&model->lock);
			env_waitq_wake(&model->room);
			pass_all(model, done);
			env_mutex_lock(&model->lock);
		}
		if (!done && !model->stop)
			sleep_until_next(model);
	}
	env_mutex_unlock(&model->lock);
}

/* With the lock held. */
static void seq_advance(struct model_device *model)
{
	model->wake_ns = 0;
	__atomic_store_n(&model->seq, model->seq + 1, __ATOMIC_RELAXED);
}

/* ---- a request ---- */

/* The next request of the io; false if that was the last: the io may be gone then. */
static bool submit_request(struct model_device *model, struct model_io *io)
{
	bool more, wake;

	env_mutex_lock(&model->lock);
	more = model_queue_submit(&model->queue, io, env_clock_ns());
	wake = model_queue_next(&model->queue) < model->wake_ns;
	if (wake)
		seq_advance(model);
	env_mutex_unlock(&model->lock);
	if (wake)
		env_futex_wake(&model->seq, 1);
	return more;
}

static void submit_to_queue(struct model_device *model, struct bio *bio)
{
	bool limited = takes_room(model, bio);
	struct model_io *io = model_io_create(&model->profile, bio);
	bool more = true;

	if (!io) {
		bio_endio(bio, -ENOMEM);
		return;
	}
	while (more) {
		if (limited)
			await_room(model);
		more = submit_request(model, io);
		if (limited)
			let_next_in(model);
	}
}

/* Copying CPUs, with this one: a task that was preempted does not copy. */
static unsigned int nr_copying_cpus(struct model_device *model)
{
	unsigned int nr = __atomic_load_n(&model->nr_copying, __ATOMIC_RELAXED);
	unsigned int nr_cpus = env_nr_cpus();

	return nr < nr_cpus ? nr : nr_cpus;
}

/* Take the time of the copy, returns how much that was. */
static uint64_t charge_copy(struct model_device *model, const struct bio *bio)
{
	uint64_t copy_ns = 0;

	__atomic_fetch_add(&model->nr_copying, 1, __ATOMIC_RELAXED);
	for (uint64_t off = 0; off < bio->len; off += COPY_STEP) {
		uint64_t len = bio->len - off < COPY_STEP ? bio->len - off : COPY_STEP;
		uint64_t ns = model_copy_ns(&model->profile, bio->op, len, nr_copying_cpus(model));

		env_cpu(ns);
		copy_ns += ns;
	}
	__atomic_fetch_sub(&model->nr_copying, 1, __ATOMIC_RELAXED);
	return copy_ns;
}

static void submit_synchronous(struct model_device *model, struct bio *bio)
{
	struct model_cost cost = model_cost(&model->profile, bio->op, bio->addr, bio->len);
	uint64_t copy_ns;

	env_cpu(cost.latency_ns);
	copy_ns = charge_copy(model, bio);
	env_mutex_lock(&model->lock);
	model_stats_add(&model->queue.stats, &cost);
	model->queue.stats.busy_ns[0] += copy_ns;
	env_mutex_unlock(&model->lock);
	blkdev_pass(&model->bdev, bio);
}

static void model_submit(struct block_device *bdev, struct bio *bio)
{
	struct model_device *model = model_of(bdev);

	if (bio->op == BIO_FLUSH && model->profile.protected_cache)
		blkdev_pass(bdev, bio);
	else if (model->profile.synchronous)
		submit_synchronous(model, bio);
	else
		submit_to_queue(model, bio);
}

/* ---- figures ---- */

void blkdev_model_read(struct block_device *bdev, struct blkdev_model_stats *stats)
{
	struct model_device *model = model_of(bdev);

	env_mutex_lock(&model->lock);
	if (!model->profile.synchronous)
		model_queue_advance(&model->queue, env_clock_ns());
	*stats = model->queue.stats;
	env_mutex_unlock(&model->lock);
}

void blkdev_model_reset(struct block_device *bdev)
{
	struct model_device *model = model_of(bdev);

	env_mutex_lock(&model->lock);
	if (!model->profile.synchronous)
		model_queue_advance(&model->queue, env_clock_ns());
	model_queue_reset_stats(&model->queue);
	env_mutex_unlock(&model->lock);
}

/* ---- life ---- */

static void thread_stop(struct model_device *model)
{
	env_mutex_lock(&model->lock);
	assert(model_queue_is_idle(&model->queue));
	model->stop = true;
	seq_advance(model);
	env_mutex_unlock(&model->lock);
	env_futex_wake(&model->seq, 1);
	env_thread_join(model->thread);
}

static void model_destroy(struct block_device *bdev)
{
	struct model_device *model = model_of(bdev);

	if (model->thread)
		thread_stop(model);
	model_queue_uninit(&model->queue);
	env_free(model);
}

static const struct blkdev_ops model_ops = {
	.submit = model_submit,
	.destroy = model_destroy,
};

int blkdev_model_create(struct block_device **bdev, struct block_device *below,
			const struct blkdev_profile *profile)
{
	struct model_device *model;
	int err;

	err = model_check_profile(profile);
	if (err)
		return err;
	model = env_zalloc(sizeof(*model));
	if (!model)
		return -ENOMEM;
	blkdev_init_wrapper(&model->bdev, &model_ops, "model", below);
	model->bdev.rotational = profile->rotational;
	model->profile = *profile;
	env_spin_init(&model->lock, "blkdev model");
	env_waitq_init(&model->room);
	err = model_queue_init(&model->queue, &model->profile, below->size);
	if (err)
		goto free_model;
	if (!profile->synchronous) {
		err = env_thread_create(&model->thread, "blkdev model", thread_main, model);
		if (err)
			goto uninit_queue;
	}

	*bdev = &model->bdev;
	return 0;

uninit_queue:
	model_queue_uninit(&model->queue);
free_model:
	env_free(model);
	return err;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fault-later.c - the thread of a fault device: late requests, torn ones, the power cut
 *
 * Jobs are kept by the time they are due.  The thread takes the first one that is due, does it
 * without the lock, and sleeps if there is none.
 */
#include "fault.h"

#include <assert.h>

/* ---- jobs ---- */

void fault_job_add(struct fault_device *fault, struct fault_job *job)
{
	struct fault_job **place = &fault->jobs;

	while (*place && (*place)->due_ns <= job->due_ns)
		place = &(*place)->next;
	job->next = *place;
	*place = job;
}

static unsigned int nr_in_window(const struct fault_device *fault, uint64_t window)
{
	unsigned int nr = 0;

	for (struct fault_job *job = fault->jobs; job; job = job->next)
		nr += job->window == window;
	return nr;
}

static struct fault_job *member(struct fault_device *fault, uint64_t window, uint64_t nr)
{
	struct fault_job *job = fault->jobs;

	while (job->window != window || nr-- > 0)
		job = job->next;
	return job;
}

/* The new one gets the place of any, itself among them: all orders are equally likely. */
void fault_window_join(struct fault_device *fault, struct fault_job *job, struct env_rng *rng)
{
	struct bio *bio = job->bio;
	struct fault_job *other;

	fault_job_add(fault, job);
	other = member(fault, job->window, env_rng_below(rng, nr_in_window(fault, job->window)));
	job->bio = other->bio;
	other->bio = bio;
}

void fault_window_close(struct fault_device *fault, uint64_t window)
{
	struct fault_job **place = &fault->jobs;
	struct fault_job *closed = NULL, **closed_end = &closed;

	while (*place) {
		struct fault_job *job = *place;

		if (job->window == window) {
			*place = job->next;
			job->due_ns = 0;
			*closed_end = job;
			closed_end = &job->next;
		} else {
			place = &job->next;
		}
	}
	*closed_end = fault->jobs;
	fault->jobs = closed;
}

static void do_job(struct fault_device *fault, struct fault_job *job)
{
	struct bio *bio = job->bio;
	bool tear = job->tear;
	uint64_t seed = job->seed;
	int error = job->error;

	env_free(job);
	if (tear) {
		fault_tear(fault, bio, seed);
		bio_endio(bio, error);
	} else {
		fault_send(fault, bio);
	}
}

/* ---- the thread ---- */

/* With the lock held; it is dropped for the time of the sleep. */
static void sleep_until_next(struct fault_device *fault, uint64_t now_ns)
{
	uint64_t timeout_ns = fault->jobs ? fault->jobs->due_ns - now_ns : ENV_FOREVER;
	uint32_t seq = fault->seq;

	env_mutex_unlock(&fault->lock);
	env_futex_wait(&fault->seq, seq, timeout_ns);
	env_mutex_lock(&fault->lock);
}

/* The first job if it is due. */
static struct fault_job *take_due(struct fault_device *fault, uint64_t now_ns)
{
	struct fault_job *job = fault->jobs;

	if (!job || job->due_ns > now_ns)
		return NULL;
	fault->jobs = job->next;
	return job;
}

static void work(struct fault_device *fault)
{
	uint64_t now_ns = env_clock_ns();
	struct fault_job *job;

	if (fault_power_can_settle(fault)) {
		fault_power_settle(fault);
		return;
	}
	job = take_due(fault, now_ns);
	if (!job) {
		sleep_until_next(fault, now_ns);
		return;
	}
	env_mutex_unlock(&fault->lock);
	do_job(fault, job);
	env_mutex_lock(&fault->lock);
}

static void thread_main(void *arg)
{
	struct fault_device *fault = arg;

	env_mutex_lock(&fault->lock);
	while (!fault->stop)
		work(fault);
	env_mutex_unlock(&fault->lock);
}

void fault_thread_poke(struct fault_device *fault)
{
	__atomic_store_n(&fault->seq, fault->seq + 1, __ATOMIC_RELAXED);
}

void fault_thread_wake(struct fault_device *fault)
{
	env_futex_wake(&fault->seq, 1);
}

int fault_thread_start(struct fault_device *fault)
{
	struct env_thread *thread;
	int err;

	if (fault->thread)
		return 0;
	err = env_thread_create(&thread, "blkdev fault", thread_main, fault);
	if (err)
		return err;
	env_mutex_lock(&fault->lock);
	fault->thread = thread;
	env_mutex_unlock(&fault->lock);
	return 0;
}

void fault_thread_stop(struct fault_device *fault)
{
	if (!fault->thread)
		return;
	env_mutex_lock(&fault->lock);
	assert(!fault->jobs);
	fault->stop = true;
	fault_thread_poke(fault);
	env_mutex_unlock(&fault->lock);
	fault_thread_wake(fault);
	env_thread_join(fault->thread);
}

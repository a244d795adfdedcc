/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * wait.c - wait queue (an event count) and completion
 *
 * No wake-up is lost, whatever orderings the condition itself uses: waiter and waker each
 * do a read-modify-write of `waiters`, and one of the two comes first.
 *
 *	waiter first: the waker sees it and moves seq on, so the waiter does not sleep
 *	waker first:  the waiter's look at the condition comes after the change
 */
#include <iomap/env.h>

#include <limits.h>

/* ---- wait queue ---- */

void env_waitq_init(struct env_waitq *queue)
{
	queue->seq = 0;
	queue->waiters = 0;
}

uint32_t env_waitq_prepare(struct env_waitq *queue)
{
	__atomic_fetch_add(&queue->waiters, 1, __ATOMIC_SEQ_CST);
	env_switch_point_at("waitq: announced");
	return __atomic_load_n(&queue->seq, __ATOMIC_SEQ_CST);
}

static bool woken_since(const struct env_waitq *queue, uint32_t key)
{
	return __atomic_load_n(&queue->seq, __ATOMIC_SEQ_CST) != key;
}

static bool wait_until(struct env_waitq *queue, uint32_t key, uint64_t deadline)
{
	while (!woken_since(queue, key)) {
		uint64_t now = env_clock_ns();

		if (now >= deadline)
			return false;
		env_futex_wait(&queue->seq, key, deadline - now);
	}
	return true;
}

bool env_waitq_wait(struct env_waitq *queue, uint32_t key, uint64_t timeout_ns)
{
	bool woken = true;
	uint64_t deadline;

	if (timeout_ns == ENV_FOREVER ||
	    __builtin_add_overflow(env_clock_ns(), timeout_ns, &deadline)) {
		while (!woken_since(queue, key))
			env_futex_wait(&queue->seq, key, ENV_FOREVER);
	} else {
		woken = wait_until(queue, key, deadline);
	}
	env_waitq_cancel(queue);
	return woken;
}

void env_waitq_cancel(struct env_waitq *queue)
{
	__atomic_fetch_sub(&queue->waiters, 1, __ATOMIC_SEQ_CST);
}

void env_waitq_wake(struct env_waitq *queue)
{
	/* Not a plain load: it must not be done before the condition was changed. */
	if (__atomic_fetch_add(&queue->waiters, 0, __ATOMIC_SEQ_CST) == 0)
		return;
	env_switch_point_at("waitq: waiters seen");
	__atomic_fetch_add(&queue->seq, 1, __ATOMIC_SEQ_CST);
	env_futex_wake(&queue->seq, INT_MAX);
}

/* ---- completion ---- */

enum {
	COMPLETION_PENDING,
	COMPLETION_DONE,
	COMPLETION_WAITED, /* pending, and somebody may sleep */
};

void env_completion_init(struct env_completion *completion)
{
	__atomic_store_n(&completion->done, COMPLETION_PENDING, __ATOMIC_RELAXED);
}

void env_complete(struct env_completion *completion)
{
	uint32_t *done = &completion->done;
	uint32_t before;

	env_switch_point_at("completion: completes");
	/* After the exchange the completion may be gone; a wake-up uses its address only. */
	before = __atomic_exchange_n(done, COMPLETION_DONE, __ATOMIC_ACQ_REL);
	env_switch_point_at("completion: done");
	if (before == COMPLETION_WAITED)
		env_futex_wake(done, INT_MAX);
}

void env_completion_wait(struct env_completion *completion)
{
	uint32_t seen = __atomic_load_n(&completion->done, __ATOMIC_ACQUIRE);

	while (seen != COMPLETION_DONE) {
		env_switch_point_at("completion: not done");
		if (seen == COMPLETION_PENDING &&
		    !__atomic_compare_exchange_n(&completion->done, &seen, COMPLETION_WAITED, false,
						 __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE))
			continue;
		env_futex_wait(&completion->done, COMPLETION_WAITED, ENV_FOREVER);
		seen = __atomic_load_n(&completion->done, __ATOMIC_ACQUIRE);
	}
}

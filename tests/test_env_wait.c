/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_env_wait.c - wait queue and completion
 */
#include <criterion/criterion.h>

#include <stdlib.h>

#include <iomap/env.h>

#define NR_ROUNDS 5000

#define MSEC 1000000ull

/* Relaxed on purpose: the wait queue alone must make a change of the condition seen. */
static uint32_t peek(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

/* ---- wait queue ---- */

Test(env_waitq, wake_without_waiter_changes_nothing)
{
	struct env_waitq queue;

	env_waitq_init(&queue);
	env_waitq_wake(&queue);
	cr_assert_eq(queue.seq, 0);
}

Test(env_waitq, wake_after_prepare_ends_the_wait, .timeout = 20)
{
	struct env_waitq queue;
	uint32_t key;

	env_waitq_init(&queue);
	key = env_waitq_prepare(&queue);
	env_waitq_wake(&queue);
	cr_assert(env_waitq_wait(&queue, key, ENV_FOREVER));
	cr_assert_eq(queue.waiters, 0);
}

Test(env_waitq, wake_before_prepare_does_not_count)
{
	struct env_waitq queue;
	uint32_t other, key;

	env_waitq_init(&queue);
	other = env_waitq_prepare(&queue);
	env_waitq_wake(&queue);
	key = env_waitq_prepare(&queue);
	cr_assert_not(env_waitq_wait(&queue, key, MSEC));
	cr_assert(env_waitq_wait(&queue, other, MSEC));
	cr_assert_eq(queue.waiters, 0);
}

Test(env_waitq, wait_takes_its_time)
{
	struct env_waitq queue;
	uint64_t start = env_clock_ns();
	uint32_t key;

	env_waitq_init(&queue);
	key = env_waitq_prepare(&queue);
	cr_assert_not(env_waitq_wait(&queue, key, 20 * MSEC));
	cr_assert_geq(env_clock_ns() - start, 20 * MSEC);
}

Test(env_waitq, cancel_leaves_no_waiter)
{
	struct env_waitq queue;

	env_waitq_init(&queue);
	env_waitq_prepare(&queue);
	env_waitq_cancel(&queue);
	env_waitq_wake(&queue);
	cr_assert_eq(queue.waiters, 0);
	cr_assert_eq(queue.seq, 0);
}

struct ball {
	struct env_waitq queue;
	uint32_t side;
};

static void play(struct ball *ball, uint32_t side)
{
	for (unsigned int i = 0; i < NR_ROUNDS; i++) {
		env_wait_event(&ball->queue, peek(&ball->side) == side);
		__atomic_store_n(&ball->side, 1 - side, __ATOMIC_RELAXED);
		env_waitq_wake(&ball->queue);
	}
}

static void play_other_side(void *arg)
{
	play(arg, 1);
}

/* One lost wake-up would end the game. */
Test(env_waitq, loses_no_wake_up, .timeout = 60)
{
	struct ball ball = {0};
	struct env_thread *other;

	env_waitq_init(&ball.queue);
	cr_assert_eq(env_thread_create(&other, "other", play_other_side, &ball), 0);
	play(&ball, 0);
	env_thread_join(other);
	cr_assert_eq(ball.side, 0);
	cr_assert_eq(ball.queue.waiters, 0);
}

static void wait_for_start(void *arg)
{
	struct ball *ball = arg;

	env_wait_event(&ball->queue, peek(&ball->side));
}

Test(env_waitq, wakes_all, .timeout = 20)
{
	struct ball ball = {0};
	struct env_thread *threads[4];

	env_waitq_init(&ball.queue);
	for (unsigned int i = 0; i < 4; i++)
		cr_assert_eq(env_thread_create(&threads[i], "waiter", wait_for_start, &ball), 0);
	while (peek(&ball.queue.waiters) < 4)
		env_sleep_ns(MSEC / 10);
	__atomic_store_n(&ball.side, 1, __ATOMIC_RELAXED);
	env_waitq_wake(&ball.queue);
	for (unsigned int i = 0; i < 4; i++)
		env_thread_join(threads[i]);
}

/* ---- completion ---- */

Test(env_completion, done_before_the_wait, .timeout = 20)
{
	struct env_completion done;

	env_completion_init(&done);
	env_complete(&done);
	env_completion_wait(&done);
	env_completion_wait(&done);
}

/* Where the completer finds what to complete; NULL: nothing yet. */
struct mailbox {
	struct env_waitq queue;
	struct env_completion *completion;
};

static void complete_all(void *arg)
{
	struct mailbox *box = arg;
	struct env_completion *completion;

	for (unsigned int i = 0; i < NR_ROUNDS; i++) {
		env_wait_event(&box->queue, __atomic_load_n(&box->completion, __ATOMIC_ACQUIRE));
		completion = __atomic_exchange_n(&box->completion, NULL, __ATOMIC_ACQUIRE);
		env_complete(completion);
	}
}

/* Each completion is freed at once: the completer must not look at it again. */
Test(env_completion, may_be_freed_after_the_wait, .timeout = 60)
{
	struct mailbox box = {0};
	struct env_thread *completer;

	env_waitq_init(&box.queue);
	cr_assert_eq(env_thread_create(&completer, "completer", complete_all, &box), 0);
	for (unsigned int i = 0; i < NR_ROUNDS; i++) {
		struct env_completion *completion = malloc(sizeof(*completion));

		env_completion_init(completion);
		__atomic_store_n(&box.completion, completion, __ATOMIC_RELEASE);
		env_waitq_wake(&box.queue);
		env_completion_wait(completion);
		completion->done = 0xdead;
		free(completion);
	}
	env_thread_join(completer);
}

static void wait_for_completion(void *arg)
{
	env_completion_wait(arg);
}

Test(env_completion, wakes_all, .timeout = 20)
{
	struct env_completion done;
	struct env_thread *threads[3];

	env_completion_init(&done);
	for (unsigned int i = 0; i < 3; i++)
		cr_assert_eq(env_thread_create(&threads[i], "waiter", wait_for_completion, &done),
			     0);
	env_sleep_ns(5 * MSEC);
	env_complete(&done);
	for (unsigned int i = 0; i < 3; i++)
		env_thread_join(threads[i]);
}

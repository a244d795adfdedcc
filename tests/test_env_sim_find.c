/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_env_sim_find.c - what the simulator finds, and what it says about it
 *
 * Programs that are left in the middle lose their memory, so these use none of the heap.
 */
#include <criterion/criterion.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <iomap/env.h>
#include <iomap/sim.h>
#include "env/lockdep.h"
#include "env/rcu.h"

#define MSEC 1000000ull

static struct env_sim_config config;
static struct env_sim_result result;

static struct env_mutex a, b, c;
static struct env_rwsem sem;
static uint32_t word;

static void setup(void)
{
	env_sim_config_init(&config);
}

static void locks_init(void)
{
	env_mutex_init(&a, "A");
	env_mutex_init(&b, "B");
	env_mutex_init(&c, "C");
	env_rwsem_init(&sem, "S");
	word = 0;
}

static void expect(enum env_sim_finding finding, void (*fn)(void *))
{
	int err = env_sim_run(&config, fn, NULL, &result);

	cr_assert_eq(result.finding, finding, "%s\n%s", env_sim_finding_name(result.finding),
		     result.text);
	cr_assert_eq(err, finding ? -EPROTO : 0);
	cr_assert_null(env_world);
}

static void expect_text(const char *text)
{
	cr_assert_not_null(strstr(result.text, text), "no \"%s\" in:\n%s", text, result.text);
}

/* ---- deadlock ---- */

__attribute__((noinline)) static void take_b_then_a(void *arg)
{
	(void)arg;
	env_mutex_lock(&b);
	env_sleep_ns(MSEC);
	env_mutex_lock(&a);
	env_mutex_unlock(&a);
	env_mutex_unlock(&b);
}

static void ab_ba(void *arg)
{
	struct env_thread *thread;

	(void)arg;
	locks_init();
	env_thread_create(&thread, "other", take_b_then_a, NULL);
	env_mutex_lock(&a);
	env_sleep_ns(2 * MSEC);
	env_mutex_lock(&b);
	env_mutex_unlock(&b);
	env_mutex_unlock(&a);
	env_thread_join(thread);
}

Test(env_sim_find, deadlock, .init = setup)
{
	config.check_order = false;
	config.seed = 42;
	expect(ENV_SIM_DEADLOCK, ab_ba);
	cr_assert_eq(result.seed, 42);
	cr_assert_eq(result.virtual_ns, 2 * MSEC);
	expect_text("sim: deadlock: ");
	expect_text("\nseed 42, faithful, at 1.002000000 s, 2 tasks\n");
	expect_text(
		"task 1 \"main\" waits for the mutex \"B\", held by task 2 \"other\"; holds \"A\"");
	expect_text(
		"task 2 \"other\" waits for the mutex \"A\", held by task 1 \"main\"; holds \"B\"");
	expect_text("    ab_ba+0x");
	expect_text("    take_b_then_a+0x");
}

static void take_twice(void *arg)
{
	(void)arg;
	locks_init();
	env_mutex_lock(&a);
	env_mutex_lock(&a);
}

Test(env_sim_find, lock_taken_twice, .init = setup)
{
	expect(ENV_SIM_DEADLOCK, take_twice);
}

static void write_after_read(void *arg)
{
	(void)arg;
	locks_init();
	env_rwsem_read_lock(&sem);
	env_rwsem_write_lock(&sem);
}

Test(env_sim_find, reader_that_becomes_a_writer, .init = setup)
{
	expect(ENV_SIM_DEADLOCK, write_after_read);
	expect_text("waits for the rwsem \"S\", held by 1 readers");
}

static void wait_for_nobody(void *arg)
{
	struct env_completion completion;

	(void)arg;
	env_completion_init(&completion);
	env_completion_wait(&completion);
	word = 1;
}

Test(env_sim_find, wait_that_nobody_ends, .init = setup)
{
	expect(ENV_SIM_DEADLOCK, wait_for_nobody);
	expect_text("no task can run and no timer is set");
	expect_text("    wait_for_nobody+0x");
}

/* ---- lost wake-up ---- */

static void set_without_wake(void *arg)
{
	(void)arg;
	env_sleep_ns(MSEC);
	__atomic_store_n(&word, 1, __ATOMIC_SEQ_CST);
}

static void never_woken(void *arg)
{
	struct env_thread *thread;

	(void)arg;
	locks_init();
	env_thread_create(&thread, "setter", set_without_wake, NULL);
	env_futex_wait(&word, 0, ENV_FOREVER);
	env_thread_join(thread);
}

Test(env_sim_find, lost_wakeup, .init = setup)
{
	expect(ENV_SIM_LOST_WAKEUP, never_woken);
	expect_text("task 1 \"main\" waits for a word to change from 0, and it has");
}

/* ---- lock order ---- */

static void nest(struct env_mutex *outer, struct env_mutex *inner)
{
	env_mutex_lock(outer);
	env_mutex_lock(inner);
	env_mutex_unlock(inner);
	env_mutex_unlock(outer);
}

__attribute__((noinline)) static void order_first(void)
{
	nest(&a, &b);
	nest(&b, &c);
}

static void circle_of_three(void *arg)
{
	(void)arg;
	locks_init();
	order_first();
	nest(&c, &a);
}

Test(env_sim_find, lock_order_inversion, .init = setup)
{
	expect(ENV_SIM_LOCK_ORDER, circle_of_three);
	expect_text("sim: lock order inversion: now \"C\" -> \"A\"\n");
	expect_text("before: \"A\" -> \"B\" by task 1 \"main\"\n");
	expect_text("before: \"B\" -> \"C\" by task 1 \"main\"\n");
	expect_text("    order_first+0x");
	config.check_order = false;
	expect(ENV_SIM_NONE, circle_of_three);
}

static void try_against_order(void *arg)
{
	(void)arg;
	locks_init();
	nest(&a, &b);
	env_mutex_lock(&b);
	if (env_mutex_trylock(&a))
		env_mutex_unlock(&a);
	env_mutex_unlock(&b);
}

Test(env_sim_find, trylock_is_no_inversion, .init = setup)
{
	expect(ENV_SIM_NONE, try_against_order);
}

/* ---- forbidden waits ---- */

static void sleep_locked(void *arg)
{
	(void)arg;
	locks_init();
	env_mutex_lock(&a);
	env_sleep_ns(1);
	env_mutex_unlock(&a);
}

static void rwsem_locked(void *arg)
{
	(void)arg;
	locks_init();
	env_mutex_lock(&a);
	env_rwsem_read_lock(&sem);
	env_rwsem_read_unlock(&sem);
	env_mutex_unlock(&a);
}

static void wait_locked(void *arg)
{
	(void)arg;
	locks_init();
	env_mutex_lock(&a);
	env_futex_wait(&word, 1, ENV_FOREVER);
	env_mutex_unlock(&a);
}

static void mutex_locked(void *arg)
{
	(void)arg;
	locks_init();
	nest(&a, &b);
	env_mutex_lock(&b);
	env_sleep_ns(1);
	env_mutex_unlock(&b);
}

Test(env_sim_find, forbidden_wait, .init = setup)
{
	static const char *const no_sleep[] = {"Z", "A", NULL};

	expect(ENV_SIM_NONE, sleep_locked);
	config.no_sleep = no_sleep;
	expect(ENV_SIM_FORBIDDEN_WAIT, sleep_locked);
	expect_text("to sleep while \"A\" is held");
	expect(ENV_SIM_FORBIDDEN_WAIT, rwsem_locked);
	expect(ENV_SIM_FORBIDDEN_WAIT, wait_locked);
	expect(ENV_SIM_NONE, mutex_locked);
}

static void sleep_reading(void *arg)
{
	(void)arg;
	env_rcu_read_lock();
	env_sleep_ns(1);
	env_rcu_read_unlock();
}

Test(env_sim_find, sleep_in_an_rcu_section, .init = setup)
{
	expect(ENV_SIM_FORBIDDEN_WAIT, sleep_reading);
	expect_text("in an RCU read section");
}

/* ---- leaks ---- */

static void end_at_once(void *arg)
{
	(void)arg;
}

static void sleep_for_ever(void *arg)
{
	(void)arg;
	env_sleep_ns(ENV_FOREVER);
	/* So that the call above is no jump and this function stays on the stack. */
	word = 1;
}

static void no_join(void *arg)
{
	struct env_thread *thread;

	(void)arg;
	env_thread_create(&thread, "lonely", end_at_once, NULL);
	env_sleep_ns(MSEC);
}

static void leave_sleeping(void *arg)
{
	struct env_thread *thread;

	(void)arg;
	env_thread_create(&thread, "sleeper", sleep_for_ever, NULL);
	env_sleep_ns(MSEC);
}

static void leave_locked(void *arg)
{
	(void)arg;
	locks_init();
	env_mutex_lock(&a);
}

static void leave_locked_in_task(void *arg)
{
	struct env_thread *thread;

	(void)arg;
	env_thread_create(&thread, "holder", leave_locked, NULL);
	env_thread_join(thread);
}

Test(env_sim_find, task_that_was_not_joined, .init = setup)
{
	expect(ENV_SIM_LEAK, no_join);
	expect_text("task 2 \"lonely\" was not joined");
}

Test(env_sim_find, task_that_is_left_sleeping, .init = setup)
{
	expect(ENV_SIM_LEAK, leave_sleeping);
	expect_text("task 2 \"sleeper\" waits for its sleep to end; for 0.001000000 s\n");
	expect_text("    sleep_for_ever+0x");
}

Test(env_sim_find, lock_held_at_the_end, .init = setup)
{
	expect(ENV_SIM_LEAK, leave_locked);
	expect(ENV_SIM_LEAK, leave_locked_in_task);
	expect_text("task 2 \"holder\" ends with a lock held");
}

/* ---- misuse, and programs that do not end ---- */

static void unlock_unlocked(void *arg)
{
	(void)arg;
	locks_init();
	env_mutex_unlock(&a);
}

Test(env_sim_find, unlock_of_what_is_not_held, .init = setup)
{
	expect(ENV_SIM_MISUSE, unlock_unlocked);
}

static void spin(void *arg)
{
	(void)arg;
	while (!__atomic_load_n(&word, __ATOMIC_RELAXED))
		env_switch_point();
}

Test(env_sim_find, livelock, .init = setup)
{
	config.max_steps = 10000;
	word = 0;
	expect(ENV_SIM_LIVELOCK, spin);
}

static void tick(void *arg)
{
	(void)arg;
	for (;;)
		env_sleep_ns(MSEC);
}

Test(env_sim_find, time_limit, .init = setup)
{
	config.max_ns = 100 * MSEC;
	expect(ENV_SIM_TIME_LIMIT, tick);
	cr_assert_leq(result.virtual_ns, 101 * MSEC);
}

static void fail_assertion(void *arg)
{
	(void)arg;
	env_sleep_ns(MSEC);
	abort();
}

/* It ends as it would without the simulator, after a line about the seed. */
Test(env_sim_find, assertion_that_fails, .init = setup, .signal = SIGABRT)
{
	expect(ENV_SIM_NONE, fail_assertion);
}

/* A run after a finding knows nothing of it. */
Test(env_sim_find, next_run_starts_anew, .init = setup)
{
	expect(ENV_SIM_DEADLOCK, take_twice);
	expect(ENV_SIM_NONE, mutex_locked);
	cr_assert_str_empty(result.text);
}

/* ---- classes that nest in themselves ---- */

static struct env_mutex twins[2];

static void nest_twins(void *arg)
{
	(void)arg;
	for (unsigned int i = 0; i < 2; i++)
		env_mutex_init(&twins[i], "twin");
	nest(&twins[0], &twins[1]);
}

static void nest_allowed_twins(void *arg)
{
	env_lockdep_allow("twin");
	nest_twins(arg);
}

Test(env_sim_find, two_locks_of_one_class, .init = setup)
{
	static const char *const may_nest[] = {"twin", NULL};

	expect(ENV_SIM_LOCK_ORDER, nest_twins);
	expect_text("sim: lock order inversion: \"twin\" while another \"twin\" is held\n");
	expect(ENV_SIM_NONE, nest_allowed_twins);
	config.may_nest = may_nest;
	expect(ENV_SIM_NONE, nest_twins);
}

/* ---- locks that are not env.h's ---- */

struct bit {
	uint32_t word;
	const char *name;
};

static struct bit x, y;

static void bit_lock(struct bit *bit)
{
	env_lockdep_wait(bit, bit->name);
	while (__atomic_exchange_n(&bit->word, 1, __ATOMIC_ACQUIRE))
		env_futex_wait(&bit->word, 1, ENV_FOREVER);
	env_lockdep_taken(bit, bit->name);
}

static void bit_unlock(struct bit *bit)
{
	env_lockdep_release(bit);
	__atomic_store_n(&bit->word, 0, __ATOMIC_RELEASE);
	env_futex_wake(&bit->word, UINT32_MAX);
}

static void bits_init(void)
{
	locks_init();
	x = (struct bit){.name = "X"};
	y = (struct bit){.name = "Y"};
}

static void bit_against_mutex(void *arg)
{
	(void)arg;
	bits_init();
	bit_lock(&x);
	nest(&a, &b);
	bit_unlock(&x);
	env_mutex_lock(&b);
	bit_lock(&x);
	bit_unlock(&x);
	env_mutex_unlock(&b);
}

Test(env_sim_find, order_of_a_bit_lock_and_a_mutex, .init = setup)
{
	expect(ENV_SIM_LOCK_ORDER, bit_against_mutex);
	expect_text("now \"B\" -> \"X\"\n");
}

static void want_bit(void *arg)
{
	(void)arg;
	env_mutex_lock(&a);
	env_sleep_ns(MSEC);
	bit_lock(&x);
	bit_unlock(&x);
	env_mutex_unlock(&a);
}

static void circle_through_a_bit(void *arg)
{
	struct env_thread *thread, *ticker;

	bits_init();
	env_thread_create(&ticker, "ticker", tick, arg);
	env_thread_create(&thread, "other", want_bit, NULL);
	bit_lock(&x);
	env_sleep_ns(2 * MSEC);
	env_mutex_lock(&a);
	env_thread_join(thread);
}

/* It is found at once, though a timer goes on. */
Test(env_sim_find, deadlock_through_a_bit_lock, .init = setup)
{
	config.check_order = false;
	expect(ENV_SIM_DEADLOCK, circle_through_a_bit);
	expect_text(
		"task 3 \"other\" waits for the lock \"X\", held by task 1 \"main\"; holds \"A\"");
	expect_text(
		"task 1 \"main\" waits for the mutex \"A\", held by task 3 \"other\"; holds \"X\"");
}

static void sleep_with_bit(void *arg)
{
	(void)arg;
	bits_init();
	bit_lock(&x);
	env_sleep_ns(1);
	bit_unlock(&x);
}

static void want_bit_in_section(void *arg)
{
	(void)arg;
	bits_init();
	env_rcu_read_lock();
	bit_lock(&x);
	bit_unlock(&x);
	env_rcu_read_unlock();
}

static void end_with_bit(void *arg)
{
	(void)arg;
	bits_init();
	bit_lock(&x);
}

Test(env_sim_find, waits_with_and_for_a_bit_lock, .init = setup)
{
	static const char *const no_sleep[] = {"X", NULL};

	expect(ENV_SIM_NONE, sleep_with_bit);
	config.no_sleep = no_sleep;
	expect(ENV_SIM_FORBIDDEN_WAIT, sleep_with_bit);
	expect(ENV_SIM_FORBIDDEN_WAIT, want_bit_in_section);
	expect(ENV_SIM_LEAK, end_with_bit);
}

static void contend_for_bit(void *arg)
{
	struct env_thread *thread;

	(void)arg;
	bits_init();
	env_thread_create(&thread, "other", want_bit, NULL);
	bit_lock(&x);
	env_sleep_ns(3 * MSEC);
	bit_unlock(&x);
	env_thread_join(thread);
}

Test(env_sim_find, waits_for_a_bit_lock_are_counted, .init = setup)
{
	expect(ENV_SIM_NONE, contend_for_bit);
	cr_assert_eq(result.nr_locks, 1);
	cr_assert_str_eq(result.locks[0].name, "X");
	cr_assert_eq(result.locks[0].waits, 1);
	cr_assert_eq(result.locks[0].wait_ns, 2 * MSEC);
}

/* ---- stalls behind a timer ---- */

static void stall_beside_a_timer(void *arg)
{
	struct env_thread *ticker;

	locks_init();
	env_thread_create(&ticker, "ticker", tick, arg);
	wait_for_nobody(arg);
}

Test(env_sim_find, time_limit_says_who_waits_how_long_for_what, .init = setup)
{
	config.max_ns = 100 * MSEC;
	expect(ENV_SIM_TIME_LIMIT, stall_beside_a_timer);
	expect_text(
		"the program has not ended; task 1 \"main\" waits longest, for 0.101000000 s\n");
	expect_text("task 1 \"main\" waits for a word to change from 2; for 0.101000000 s\n");
	expect_text("task 2 \"ticker\" waits for its sleep to end");
}

static void lose_beside_a_timer(void *arg)
{
	struct env_thread *ticker;

	locks_init();
	env_thread_create(&ticker, "ticker", tick, arg);
	never_woken(arg);
}

Test(env_sim_find, lost_wakeup_behind_a_timer, .init = setup)
{
	config.max_ns = 100 * MSEC;
	expect(ENV_SIM_LOST_WAKEUP, lose_beside_a_timer);
	expect_text(" waits for a word to change from 0, and it has; for 1.102000000 s\n");
}

/* ---- a planted race in a small queue ---- */

/*
 * One producer, two consumers.  The mistake: a consumer looks at the queue, and only then
 * takes the key of its wait; what comes in between is not seen.
 */
#define NR_ITEMS 6

static struct queue {
	struct env_mutex lock;
	uint32_t seq;
	uint32_t sleepers;
	unsigned int nr;
	unsigned int nr_taken;
	bool planted;
} queue;

static bool queue_take(void)
{
	bool taken;

	env_mutex_lock(&queue.lock);
	taken = queue.nr > 0;
	if (taken) {
		queue.nr--;
		queue.nr_taken++;
	}
	env_mutex_unlock(&queue.lock);
	return taken;
}

static void queue_put(void)
{
	env_mutex_lock(&queue.lock);
	queue.nr++;
	__atomic_fetch_add(&queue.seq, 1, __ATOMIC_SEQ_CST);
	env_mutex_unlock(&queue.lock);
	env_futex_wake(&queue.seq, 1);
}

static void consume(void *arg)
{
	unsigned int nr = NR_ITEMS / 2;

	(void)arg;
	while (nr > 0) {
		uint32_t key = __atomic_load_n(&queue.seq, __ATOMIC_SEQ_CST);

		if (queue_take()) {
			nr--;
			continue;
		}
		if (queue.planted)
			key = __atomic_load_n(&queue.seq, __ATOMIC_SEQ_CST);
		env_futex_wait(&queue.seq, key, ENV_FOREVER);
	}
}

static void queue_program(void *arg)
{
	struct env_thread *consumers[2];
	bool planted = queue.planted;

	(void)arg;
	memset(&queue, 0, sizeof(queue));
	queue.planted = planted;
	env_mutex_init(&queue.lock, "queue");
	for (unsigned int i = 0; i < 2; i++)
		env_thread_create(&consumers[i], "consumer", consume, NULL);
	for (unsigned int i = 0; i < NR_ITEMS; i++)
		queue_put();
	for (unsigned int i = 0; i < 2; i++)
		env_thread_join(consumers[i]);
}

Test(env_sim_find, planted_race_is_found_in_1000_seeds, .init = setup)
{
	struct env_sim_result again;

	config.schedule = ENV_SIM_ADVERSARIAL;
	queue.planted = true;
	cr_assert_eq(env_sim_run_seeds(&config, 1000, queue_program, NULL, &result), -EPROTO);
	cr_assert_eq(result.finding, ENV_SIM_DEADLOCK, "%s", result.text);
	expect_text("\"consumer\" waits for a word to change from ");
	expect_text("    consume+0x");

	/* Its seed alone replays it. */
	config.seed = result.seed;
	cr_assert_eq(env_sim_run(&config, queue_program, NULL, &again), -EPROTO);
	cr_assert_eq(memcmp(&again, &result, sizeof(result)), 0);
}

Test(env_sim_find, nothing_is_found_in_the_queue_without_it, .init = setup)
{
	config.schedule = ENV_SIM_ADVERSARIAL;
	queue.planted = false;
	cr_assert_eq(env_sim_run_seeds(&config, 1000, queue_program, NULL, &result), 0, "%s",
		     result.text);
	cr_assert_eq(queue.nr_taken, NR_ITEMS);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_env_sim_script.c - interleavings that a script forces
 */
#include <criterion/criterion.h>

#include <errno.h>
#include <string.h>
#include <iomap/env.h>
#include <iomap/sim.h>
#include "env/lockdep.h"
#include "env/rcu.h"

#define MSEC 1000000ull

static struct env_sim_config config;
static struct env_sim_result result;
static struct env_mutex lock;
static char steps[256];

static void setup(void)
{
	env_sim_config_init(&config);
}

static void step(const char *text)
{
	strcat(steps, text);
	strcat(steps, " ");
}

/* Under both schedules, the second with many seeds; the steps are always the same. */
static void expect_steps(void (*fn)(void *arg), const char *expected)
{
	for (uint64_t seed = 0; seed <= 50; seed++) {
		int err;

		steps[0] = '\0';
		config.schedule = seed ? ENV_SIM_ADVERSARIAL : ENV_SIM_FAITHFUL;
		config.seed = seed;
		err = env_sim_run(&config, fn, NULL, &result);
		cr_assert_eq(err, 0, "%s", result.text);
		cr_assert_str_eq(steps, expected, "seed %lu", seed);
	}
}

static void expect_finding(void (*fn)(void *arg), const char *text)
{
	for (uint64_t seed = 0; seed <= 5; seed++) {
		config.schedule = seed ? ENV_SIM_ADVERSARIAL : ENV_SIM_FAITHFUL;
		config.seed = seed;
		cr_assert_eq(env_sim_run(&config, fn, NULL, &result), -EPROTO);
		cr_assert_eq(result.finding, ENV_SIM_SCRIPT, "%s", result.text);
		cr_assert_not_null(strstr(result.text, text), "no \"%s\" in:\n%s", text,
				   result.text);
	}
}

/* ---- named points ---- */

static void add_slowly(void *arg)
{
	unsigned int *sum = arg;
	unsigned int seen = *sum;

	env_switch_point_at("add: read");
	*sum = seen + 1;
	step("added");
}

static void add_at_once(void *arg)
{
	++*(unsigned int *)arg;
	step("one");
}

/* The update in between is lost: always, not once in a thousand seeds. */
static void lose_an_update(void *arg)
{
	struct env_thread *slow, *fast;
	unsigned int sum = 0;

	(void)arg;
	env_sim_stop_at("add: read", "slow", 1);
	cr_assert_eq(env_thread_create(&slow, "slow", add_slowly, &sum), 0);
	env_sim_wait_stopped("add: read");
	cr_assert_eq(env_thread_create(&fast, "fast", add_at_once, &sum), 0);
	env_thread_join(fast);
	env_sim_go("add: read");
	env_thread_join(slow);
	cr_assert_eq(sum, 1);
}

Test(env_sim_script, lost_update_is_forced, .init = setup)
{
	expect_steps(lose_an_update, "one added ");
}

static void pass_thrice(void *arg)
{
	for (int i = 0; i < 3; i++) {
		env_switch_point_at("loop");
		step(arg);
	}
}

static void stop_third(void *arg)
{
	struct env_thread *a, *b;

	(void)arg;
	env_sim_stop_at("loop", "a", 3);
	cr_assert_eq(env_thread_create(&a, "a", pass_thrice, "a"), 0);
	env_sim_wait_stopped("loop");
	cr_assert_eq(env_thread_create(&b, "b", pass_thrice, "b"), 0);
	env_thread_join(b);
	env_sim_go("loop");
	env_thread_join(a);
}

Test(env_sim_script, stop_is_for_one_task_at_its_nth_time, .init = setup)
{
	expect_steps(stop_third, "a a b b b a ");
}

static void stop_both(void *arg)
{
	struct env_thread *a, *b;

	(void)arg;
	env_sim_stop_at("loop", "a", 1);
	env_sim_stop_at("loop", "b", 2);
	cr_assert_eq(env_thread_create(&b, "b", pass_thrice, "b"), 0);
	env_sim_wait_quiet();
	step("quiet");
	cr_assert_eq(env_thread_create(&a, "a", pass_thrice, ""), 0);
	env_sim_wait_stopped("loop");
	step("both");
	env_sim_go("loop");
	env_thread_join(a);
	env_thread_join(b);
	steps[strcspn(steps, "h") + 1] = '\0';
}

Test(env_sim_script, wait_is_for_all_stops_of_a_point, .init = setup)
{
	expect_steps(stop_both, "b quiet both");
}

static void sleep_long(void *arg)
{
	(void)arg;
	step("asleep");
	env_sleep_ns(MSEC);
	step("awake");
}

static void wait_for_quiet(void *arg)
{
	struct env_thread *thread;

	(void)arg;
	cr_assert_eq(env_thread_create(&thread, "sleeper", sleep_long, NULL), 0);
	env_sim_wait_quiet();
	step("quiet");
	env_thread_join(thread);
}

Test(env_sim_script, quiet_is_when_all_others_wait, .init = setup)
{
	config.schedule = ENV_SIM_FAITHFUL;
	cr_assert_eq(env_sim_run(&config, wait_for_quiet, NULL, &result), 0);
	cr_assert_str_eq(steps, "asleep quiet awake ");
}

/* ---- points around locks ---- */

static void hold(void *arg)
{
	env_mutex_lock(&lock);
	step(arg);
	env_mutex_unlock(&lock);
}

/* a and b wait at their gates; whoever is let go first has the lock first. */
static void choose_order(void *arg)
{
	struct env_thread *a, *b;

	(void)arg;
	env_mutex_init(&lock, "gate");
	env_sim_stop_at("before lock gate", "a", 1);
	cr_assert_eq(env_thread_create(&a, "a", hold, "a"), 0);
	env_sim_wait_stopped("before lock gate");
	env_sim_stop_at("after lock gate", "b", 1);
	cr_assert_eq(env_thread_create(&b, "b", hold, "b"), 0);
	env_sim_wait_stopped("after lock gate");
	env_sim_go("before lock gate");
	env_sim_wait_quiet();
	step("blocked");
	env_sim_go("after lock gate");
	env_thread_join(a);
	env_thread_join(b);
}

Test(env_sim_script, order_of_two_holders_is_chosen, .init = setup)
{
	expect_steps(choose_order, "blocked b a ");
}

static void stop_around_unlock(void *arg)
{
	struct env_thread *a;

	(void)arg;
	env_mutex_init(&lock, "gate");
	env_sim_stop_at("before unlock gate", NULL, 1);
	env_sim_stop_at("after unlock gate", NULL, 1);
	cr_assert_eq(env_thread_create(&a, "a", hold, "a"), 0);
	env_sim_wait_stopped("before unlock gate");
	cr_assert(env_mutex_is_locked(&lock));
	env_sim_go("before unlock gate");
	env_sim_wait_stopped("after unlock gate");
	cr_assert_not(env_mutex_is_locked(&lock));
	env_sim_go("after unlock gate");
	env_thread_join(a);
}

Test(env_sim_script, task_stops_on_either_side_of_an_unlock, .init = setup)
{
	expect_steps(stop_around_unlock, "a ");
}

/* ---- wait queue and completion, at their own points ---- */

static struct env_waitq queue;
static struct env_completion completion;
static bool condition;

static void wait_for_condition(void *arg)
{
	(void)arg;
	env_wait_event(&queue, condition);
	step("woken");
}

/* The change comes after the waiter has said that it waits and before it looks. */
static void change_between(void *arg)
{
	struct env_thread *thread;

	(void)arg;
	env_waitq_init(&queue);
	condition = false;
	env_sim_stop_at("waitq: announced", "waiter", 1);
	cr_assert_eq(env_thread_create(&thread, "waiter", wait_for_condition, NULL), 0);
	env_sim_wait_stopped("waitq: announced");
	condition = true;
	env_waitq_wake(&queue);
	step("changed");
	env_sim_go("waitq: announced");
	env_thread_join(thread);
}

Test(env_sim_script, waitq_does_not_lose_a_wake_up, .init = setup)
{
	expect_steps(change_between, "changed woken ");
}

static void wait_for_completion(void *arg)
{
	(void)arg;
	env_completion_wait(&completion);
	step("completed");
}

static void complete_between(void *arg)
{
	struct env_thread *thread;

	(void)arg;
	env_completion_init(&completion);
	env_sim_stop_at("completion: not done", NULL, 1);
	cr_assert_eq(env_thread_create(&thread, "waiter", wait_for_completion, NULL), 0);
	env_sim_wait_stopped("completion: not done");
	env_complete(&completion);
	step("done");
	env_sim_go("completion: not done");
	env_thread_join(thread);
}

Test(env_sim_script, completion_does_not_lose_a_wake_up, .init = setup)
{
	expect_steps(complete_between, "done completed ");
}

/* ---- scripts that do not come true ---- */

static void wait_for_nobody(void *arg)
{
	struct env_thread *a;

	(void)arg;
	env_sim_stop_at("loop", "a", 4);
	cr_assert_eq(env_thread_create(&a, "a", pass_thrice, ""), 0);
	env_sim_wait_stopped("loop");
}

Test(env_sim_script, point_that_is_not_reached_is_a_finding, .init = setup)
{
	expect_finding(wait_for_nobody, "sim: script that does not come true: "
					"task \"a\" did not come to \"loop\": 3 of 4 times\n");
}

static void leave_armed(void *arg)
{
	(void)arg;
	env_sim_stop_at("nowhere", NULL, 1);
}

Test(env_sim_script, stop_left_at_the_end_is_a_finding, .init = setup)
{
	expect_finding(leave_armed, "no task came to \"nowhere\"\n");
}

static void forget_to_go(void *arg)
{
	struct env_thread *a;

	(void)arg;
	env_sim_stop_at("loop", NULL, 1);
	cr_assert_eq(env_thread_create(&a, "a", pass_thrice, ""), 0);
	env_thread_join(a);
}

Test(env_sim_script, task_never_let_go_is_a_finding, .init = setup)
{
	expect_finding(forget_to_go, "nobody lets task 2 \"a\" go on from \"loop\"\n");
}

static void go_nowhere(void *arg)
{
	(void)arg;
	env_sim_go("loop");
}

Test(env_sim_script, go_for_nobody_is_a_finding, .init = setup)
{
	expect_finding(go_nowhere, "no task is stopped at \"loop\", to go on\n");
}

static void tick(void *arg)
{
	(void)arg;
	for (;;)
		env_sleep_ns(MSEC);
}

static void wait_beside_a_timer(void *arg)
{
	struct env_thread *thread;

	(void)arg;
	cr_assert_eq(env_thread_create(&thread, "ticker", tick, NULL), 0);
	env_sim_stop_at("nowhere", NULL, 1);
	env_sim_wait_stopped("nowhere");
}

Test(env_sim_script, timers_do_not_hide_it, .init = setup)
{
	config.max_ns = 100 * MSEC;
	expect_finding(wait_beside_a_timer, "no task came to \"nowhere\"\n");
}

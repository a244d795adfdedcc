/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_env_sim_use.c - who used the CPUs of a run, who waited for locks, and the trace of both
 */
#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>
#include <iomap/cost.h>
#include <iomap/env.h>
#include <iomap/sim.h>
#include <iomap/trace.h>

#define MSEC 1000000ull
#define SEC  1000000000ull

static struct env_sim_config config;
static struct env_sim_result result;
static char trace[4096];
static struct env_mutex lock;

static void note_event(void *arg, const struct env_trace_event *event)
{
	static const char *const tracks[] = {"cpu", "context", "channel", "lock"};
	size_t len = strlen(trace);

	cr_assert_eq(arg, trace);
	snprintf(
		trace + len, sizeof(trace) - len, "%s %u %s %llu-%llu %llu\n", tracks[event->track],
		event->number, event->name, (unsigned long long)(event->start_ns - SEC) / 1000,
		(unsigned long long)(event->end_ns - SEC) / 1000, (unsigned long long)event->value);
}

static void setup(void)
{
	env_sim_config_init(&config);
	config.trace = note_event;
	config.trace_arg = trace;
}

static void run(void (*fn)(void *arg), void *arg)
{
	int err = env_sim_run(&config, fn, arg, &result);

	cr_assert_eq(err, 0, "%s", result.text);
}

static void work(void *arg)
{
	(void)arg;
	for (int i = 0; i < 4; i++)
		env_cpu(MSEC);
}

static void two_workers(void *arg)
{
	struct env_thread *threads[2];

	(void)arg;
	env_cpu(MSEC);
	for (unsigned int i = 0; i < 2; i++)
		cr_assert_eq(env_thread_create(&threads[i], "worker", work, NULL), 0);
	for (unsigned int i = 0; i < 2; i++)
		env_thread_join(threads[i]);
	env_sleep_ns(MSEC);
	env_cpu(MSEC);
}

Test(env_sim_use, a_task_has_one_span_until_another_runs, .init = setup)
{
	config.nr_cpus = 1;
	run(two_workers, NULL);
	cr_assert_str_eq(trace, "cpu 0 main 0-1000 1\n"
				"cpu 0 worker 1000-4000 2\n"
				"cpu 0 worker 4000-7000 3\n"
				"cpu 0 worker 7000-8000 2\n"
				"cpu 0 worker 8000-9000 3\n"
				"cpu 0 main 10000-11000 1\n");
}

Test(env_sim_use, cpu_time_is_told_by_task_name, .init = setup)
{
	config.switch_ns = 1000;
	run(two_workers, NULL);
	cr_assert_eq(result.nr_kinds, 3);
	cr_assert_str_eq(result.kinds[0].name, "rcu");
	cr_assert_str_eq(result.kinds[1].name, "main");
	cr_assert_eq(result.kinds[1].nr_tasks, 1);
	cr_assert_str_eq(result.kinds[2].name, "worker");
	cr_assert_eq(result.kinds[2].nr_tasks, 2);
	cr_assert_eq(result.kinds[2].busy_ns, 8 * MSEC + 2 * 1000);
	cr_assert_eq(result.kinds[0].busy_ns + result.kinds[1].busy_ns + result.kinds[2].busy_ns,
		     result.cpu_busy_ns[0] + result.cpu_busy_ns[1]);
}

static void many_names(void *arg)
{
	(void)arg;
	for (unsigned int i = 0; i < 100; i++) {
		struct env_thread *thread;
		char name[64];

		snprintf(name, sizeof(name), "a task whose name is longer than 31, no %u", i);
		cr_assert_eq(env_thread_create(&thread, name, work, NULL), 0);
		env_thread_join(thread);
	}
}

Test(env_sim_use, what_is_too_many_is_other, .init = setup)
{
	config.trace = NULL;
	run(many_names, NULL);
	cr_assert_eq(result.nr_kinds, ENV_SIM_MAX_KINDS);
	cr_assert_str_eq(result.kinds[2].name, "a task whose name is longer tha");
	cr_assert_str_eq(result.kinds[ENV_SIM_MAX_KINDS - 1].name, "other");
	cr_assert_eq(result.kinds[ENV_SIM_MAX_KINDS - 1].nr_tasks, 100 - (ENV_SIM_MAX_KINDS - 3));
	cr_assert_eq(result.cpu_busy_ns[0] + result.cpu_busy_ns[1], 400 * MSEC);
}

static void hold(void *arg)
{
	(void)arg;
	env_mutex_lock(&lock);
	env_cpu(2 * MSEC);
	env_mutex_unlock(&lock);
}

static void three_holders(void *arg)
{
	struct env_thread *threads[3];

	(void)arg;
	env_mutex_init(&lock, "door");
	for (unsigned int i = 0; i < 3; i++)
		cr_assert_eq(env_thread_create(&threads[i], "holder", hold, NULL), 0);
	for (unsigned int i = 0; i < 3; i++)
		env_thread_join(threads[i]);
}

Test(env_sim_use, waits_for_locks_are_told_by_class, .init = setup)
{
	config.nr_cpus = 3;
	run(three_holders, NULL);
	cr_assert_eq(result.nr_locks, 1);
	cr_assert_str_eq(result.locks[0].name, "door");
	cr_assert_eq(result.locks[0].waits, 2);
	cr_assert_eq(result.locks[0].wait_ns, (2 + 4) * MSEC);
	cr_assert_not_null(strstr(trace, "lock 3 door 0-2000 0\n"), "%s", trace);
	cr_assert_not_null(strstr(trace, "lock 4 door 0-4000 0\n"), "%s", trace);
}

static void own_span(void *arg)
{
	(void)arg;
	env_trace_span(ENV_TRACK_CHANNEL, 3, "read", SEC + 5000, SEC + 9000, 4096);
}

Test(env_sim_use, spans_of_the_program_are_handed_on, .init = setup)
{
	run(own_span, NULL);
	cr_assert_str_eq(trace, "channel 3 read 5-9 4096\n");
	config.trace = NULL;
	run(own_span, NULL);
}

/* VC19 */
Test(env_sim_use, costs_come_from_the_table, .init = setup)
{
	cr_assert_eq(config.switch_ns, 0);
	env_sim_config_costs(&config);
	cr_assert_eq(config.switch_ns, env_cost_ns(ENV_COST_SWITCH, 1));
	cr_assert_eq(config.wake_ns, env_cost_ns(ENV_COST_WAKE, 1));
	cr_assert_eq(config.switch_ns, 2000);
	cr_assert_eq(config.wake_ns, 5000);
}

static void sleep_once(void *arg)
{
	(void)arg;
	env_sleep_ns(MSEC);
	env_cpu(MSEC);
}

static void many_sleepers(void *arg)
{
	struct env_thread *threads[ENV_SIM_MAX_CPUS];

	(void)arg;
	for (unsigned int i = 0; i < ENV_SIM_MAX_CPUS; i++)
		cr_assert_eq(env_thread_create(&threads[i], "sleeper", sleep_once, NULL), 0);
	for (unsigned int i = 0; i < ENV_SIM_MAX_CPUS; i++)
		env_thread_join(threads[i]);
}

Test(env_sim_use, each_of_192_cpus_is_used, .init = setup)
{
	config.trace = NULL;
	config.nr_cpus = ENV_SIM_MAX_CPUS;
	run(many_sleepers, NULL);
	for (unsigned int i = 0; i < ENV_SIM_MAX_CPUS; i++)
		cr_assert_eq(result.cpu_busy_ns[i], MSEC);
	cr_assert_eq(result.virtual_ns, 2 * MSEC);
}

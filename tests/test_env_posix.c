/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_env_posix.c - threads, futex, clock, and the way into another world
 */
#include <criterion/criterion.h>

#include <string.h>

#include <iomap/env.h>

#include "env/rcu.h"

#define MSEC 1000000ull

/* ---- the host ---- */

static void store_slot(void *arg)
{
	*(unsigned int *)arg = env_task_slot();
}

Test(env_posix, thread_runs_its_function)
{
	struct env_thread *thread;
	unsigned int slot = ENV_RWSEM_SLOTS;

	cr_assert_eq(env_thread_create(&thread, "a name that is longer than 15", store_slot, &slot),
		     0);
	env_thread_join(thread);
	cr_assert_lt(slot, ENV_RWSEM_SLOTS);
}

Test(env_posix, threads_spread_over_the_slots)
{
	bool seen[ENV_RWSEM_SLOTS] = {false};
	struct env_thread *thread;
	unsigned int slot;

	for (unsigned int i = 0; i < ENV_RWSEM_SLOTS; i++) {
		cr_assert_eq(env_thread_create(&thread, NULL, store_slot, &slot), 0);
		env_thread_join(thread);
		seen[slot] = true;
	}
	for (unsigned int i = 0; i < ENV_RWSEM_SLOTS; i++)
		cr_assert(seen[i], "slot %u", i);
}

Test(env_posix, slot_of_a_thread_stays)
{
	cr_assert_eq(env_task_slot(), env_task_slot());
}

Test(env_posix, has_a_cpu)
{
	cr_assert_geq(env_nr_cpus(), 1);
}

Test(env_posix, sleep_takes_its_time)
{
	uint64_t start = env_clock_ns();

	env_sleep_ns(10 * MSEC);
	cr_assert_geq(env_clock_ns() - start, 10 * MSEC);
}

Test(env_posix, word_wait_needs_the_expected_value, .timeout = 20)
{
	uint32_t word = 1;

	cr_assert(env_futex_wait(&word, 0, ENV_FOREVER));
}

Test(env_posix, word_wait_times_out)
{
	uint64_t start = env_clock_ns();
	uint32_t word = 0;

	/* It may return early for no reason. */
	while (env_futex_wait(&word, 0, 5 * MSEC))
		;
	cr_assert_geq(env_clock_ns() - start, 5 * MSEC);
}

/* ---- another world ---- */

static char calls[2048];

static void note(const char *call)
{
	strncat(calls, call, sizeof(calls) - strlen(calls) - 1);
	strncat(calls, " ", sizeof(calls) - strlen(calls) - 1);
}

static int other_thread_create(struct env_thread **thread, const char *name, void (*fn)(void *arg),
			       void *arg)
{
	(void)fn;
	(void)arg;
	*thread = NULL;
	note(name);
	return -1;
}

static void other_thread_join(struct env_thread *thread)
{
	(void)thread;
	note("join");
}

static void other_lock_init(const void *lock, const char *name)
{
	(void)lock;
	note(name);
}

#define MUTEX_CALL(name)                                                                           \
	static void other_##name(struct env_mutex *mutex)                                          \
	{                                                                                          \
		(void)mutex;                                                                       \
		note(#name);                                                                       \
	}
#define RWSEM_CALL(name)                                                                           \
	static void other_##name(struct env_rwsem *sem)                                            \
	{                                                                                          \
		(void)sem;                                                                         \
		note(#name);                                                                       \
	}
#define RWSEM_TRY(name)                                                                            \
	static bool other_##name(struct env_rwsem *sem)                                            \
	{                                                                                          \
		(void)sem;                                                                         \
		note(#name);                                                                       \
		return true;                                                                       \
	}
#define PLAIN_CALL(name)                                                                           \
	static void other_##name(void)                                                             \
	{                                                                                          \
		note(#name);                                                                       \
	}

MUTEX_CALL(mutex_lock)
MUTEX_CALL(mutex_unlock)
RWSEM_CALL(read_lock)
RWSEM_CALL(read_unlock)
RWSEM_CALL(write_lock)
RWSEM_CALL(write_unlock)
RWSEM_TRY(read_trylock)
RWSEM_TRY(write_trylock)
PLAIN_CALL(section_begin)
PLAIN_CALL(section_end)
PLAIN_CALL(grace)
PLAIN_CALL(switch_point)

static bool other_mutex_trylock(struct env_mutex *mutex)
{
	(void)mutex;
	note("mutex_trylock");
	return true;
}

static bool other_futex_wait(const uint32_t *addr, uint32_t expected, uint64_t timeout_ns)
{
	(void)addr;
	(void)expected;
	(void)timeout_ns;
	note("wait");
	return false;
}

static void other_futex_wake(const uint32_t *addr, unsigned int nr)
{
	(void)addr;
	(void)nr;
	note("wake");
}

static uint64_t other_clock_ns(void)
{
	note("clock");
	return 42;
}

static void other_sleep_ns(uint64_t ns)
{
	(void)ns;
	note("sleep");
}

static void other_cpu(uint64_t ns)
{
	(void)ns;
	note("cpu");
}

static unsigned int other_nr_cpus(void)
{
	note("nr_cpus");
	return 7;
}

static const struct env_world other_world = {
	.thread_create = other_thread_create,
	.thread_join = other_thread_join,
	.lock_init = other_lock_init,
	.mutex_lock = other_mutex_lock,
	.mutex_trylock = other_mutex_trylock,
	.mutex_unlock = other_mutex_unlock,
	.rwsem_read_lock = other_read_lock,
	.rwsem_read_trylock = other_read_trylock,
	.rwsem_read_unlock = other_read_unlock,
	.rwsem_write_lock = other_write_lock,
	.rwsem_write_trylock = other_write_trylock,
	.rwsem_write_unlock = other_write_unlock,
	.futex_wait = other_futex_wait,
	.futex_wake = other_futex_wake,
	.clock_ns = other_clock_ns,
	.sleep_ns = other_sleep_ns,
	.cpu = other_cpu,
	.nr_cpus = other_nr_cpus,
	.rcu_read_lock = other_section_begin,
	.rcu_read_unlock = other_section_end,
	.rcu_synchronize = other_grace,
	.switch_point = other_switch_point,
};

Test(env_world, gets_thread_and_time_calls)
{
	struct env_thread *thread;
	uint32_t word = 0;

	env_world = &other_world;
	cr_assert_eq(env_thread_create(&thread, "create", store_slot, NULL), -1);
	env_thread_join(NULL);
	cr_assert_eq(env_nr_cpus(), 7);
	cr_assert_eq(env_clock_ns(), 42);
	env_sleep_ns(1);
	env_cpu(1);
	env_switch_point();
	cr_assert_not(env_futex_wait(&word, 0, 1));
	env_futex_wake(&word, 1);
	env_world = NULL;
	cr_assert_str_eq(calls, "create join nr_cpus clock sleep cpu switch_point wait wake ");
}

Test(env_world, gets_lock_calls)
{
	struct env_mutex mutex;
	struct env_rwsem sem;

	env_world = &other_world;
	env_mutex_init(&mutex, "M");
	env_mutex_lock(&mutex);
	cr_assert(env_mutex_trylock(&mutex));
	env_mutex_unlock(&mutex);
	env_rwsem_init(&sem, "S");
	env_rwsem_read_lock(&sem);
	cr_assert(env_rwsem_read_trylock(&sem));
	env_rwsem_read_unlock(&sem);
	env_rwsem_write_lock(&sem);
	cr_assert(env_rwsem_write_trylock(&sem));
	env_rwsem_write_unlock(&sem);
	env_world = NULL;
	cr_assert_str_eq(calls, "M mutex_lock mutex_trylock mutex_unlock S read_lock read_trylock "
				"read_unlock write_lock write_trylock write_unlock ");
}

static void note_call(struct env_rcu_head *head)
{
	(void)head;
	note("fn");
}

Test(env_world, gets_rcu_calls)
{
	struct env_rcu_head head;

	env_world = &other_world;
	env_rcu_read_lock();
	env_rcu_read_unlock();
	env_rcu_synchronize();
	env_rcu_call(&head, note_call);
	env_rcu_barrier();
	env_world = NULL;
	cr_assert_str_eq(calls, "section_begin section_end grace grace fn ");
}

Test(env_world, gets_the_waits_of_a_completion)
{
	struct env_completion done;

	env_world = &other_world;
	env_completion_init(&done);
	env_complete(&done);
	env_completion_wait(&done);
	env_world = NULL;
	cr_assert_str_eq(calls, "switch_point switch_point ", "nobody waited");
}

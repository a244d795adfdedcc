/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * posix.c - the host: threads, futex waits, clock, sleep
 *
 * Each public call is one test of env_world in front of the host's own function.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "internal.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NSEC_PER_SEC 1000000000ULL

/* pthread_setname_np() takes no longer name. */
#define THREAD_NAME_MAX 16

struct env_thread {
	pthread_t pthread;
	void (*fn)(void *arg);
	void *arg;
	char name[THREAD_NAME_MAX];
};

const struct env_world *env_world;

__thread struct env_task env_task_self __attribute__((tls_model("initial-exec")));

/* Threads so far that took a reader slot. */
static unsigned int nr_slots_given;

unsigned int env_task_slot_assign(void)
{
	unsigned int nr = __atomic_fetch_add(&nr_slots_given, 1, __ATOMIC_RELAXED);

	env_task_self.slot = nr % ENV_RWSEM_SLOTS + 1;
	return env_task_self.slot - 1;
}

/* ---- threads ---- */

static void *thread_main(void *arg)
{
	struct env_thread *thread = arg;

	/* The name is for debuggers only. */
	(void)pthread_setname_np(pthread_self(), thread->name);
	thread->fn(thread->arg);
	return NULL;
}

int env_posix_thread_create(struct env_thread **thread_ret, const char *name, void (*fn)(void *arg),
			    void *arg)
{
	struct env_thread *thread = malloc(sizeof(*thread));
	int err;

	if (!thread)
		return -ENOMEM;
	thread->fn = fn;
	thread->arg = arg;
	snprintf(thread->name, sizeof(thread->name), "%s", name ? name : "iomap");

	err = pthread_create(&thread->pthread, NULL, thread_main, thread);
	if (err) {
		free(thread);
		return -err;
	}
	*thread_ret = thread;
	return 0;
}

void env_posix_thread_join(struct env_thread *thread)
{
	pthread_join(thread->pthread, NULL);
	free(thread);
}

unsigned int env_posix_nr_cpus(void)
{
	cpu_set_t cpus;
	long nr;

	if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0 && CPU_COUNT(&cpus) > 0)
		return (unsigned int)CPU_COUNT(&cpus);

	/* More CPUs than a cpu_set_t holds. */
	nr = sysconf(_SC_NPROCESSORS_ONLN);
	return nr > 0 ? (unsigned int)nr : 1;
}

/* ---- futex ---- */

static struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec){
		.tv_sec = (time_t)(ns / NSEC_PER_SEC),
		.tv_nsec = (long)(ns % NSEC_PER_SEC),
	};
}

bool env_posix_futex_wait(const uint32_t *addr, uint32_t expected, uint64_t timeout_ns)
{
	struct timespec timeout = timespec_of(timeout_ns);
	long ret;

	ret = syscall(SYS_futex, addr, FUTEX_WAIT_PRIVATE, expected,
		      timeout_ns == ENV_FOREVER ? NULL : &timeout, NULL, 0);
	return !(ret < 0 && errno == ETIMEDOUT);
}

/* Reads nothing at addr: the caller may wake an address that is gone (see env_complete). */
void env_posix_futex_wake(const uint32_t *addr, unsigned int nr)
{
	syscall(SYS_futex, addr, FUTEX_WAKE_PRIVATE, nr > INT_MAX ? INT_MAX : (int)nr, NULL, NULL,
		0);
}

/* ---- time ---- */

uint64_t env_posix_clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NSEC_PER_SEC + (uint64_t)now.tv_nsec;
}

void env_posix_sleep_ns(uint64_t ns)
{
	struct timespec left = timespec_of(ns);

	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
		;
}

/* ---- what a host has no use for ---- */

void env_posix_cpu(uint64_t ns)
{
	(void)ns;
}

void env_posix_switch_point(void)
{
}

/* ---- dispatch ---- */

void env_switch_point_named(const char *name)
{
	if (env_world->switch_point_at)
		env_world->switch_point_at(name);
	else
		env_world->switch_point();
}

int env_thread_create(struct env_thread **thread, const char *name, void (*fn)(void *arg),
		      void *arg)
{
	if (env_unlikely(env_world != NULL))
		return env_world->thread_create(thread, name, fn, arg);
	return env_posix_thread_create(thread, name, fn, arg);
}

void env_thread_join(struct env_thread *thread)
{
	if (env_unlikely(env_world != NULL))
		env_world->thread_join(thread);
	else
		env_posix_thread_join(thread);
}

unsigned int env_nr_cpus(void)
{
	if (env_unlikely(env_world != NULL))
		return env_world->nr_cpus();
	return env_posix_nr_cpus();
}

bool env_futex_wait(const uint32_t *addr, uint32_t expected, uint64_t timeout_ns)
{
	if (env_unlikely(env_world != NULL))
		return env_world->futex_wait(addr, expected, timeout_ns);
	return env_posix_futex_wait(addr, expected, timeout_ns);
}

void env_futex_wake(const uint32_t *addr, unsigned int nr)
{
	if (env_unlikely(env_world != NULL))
		env_world->futex_wake(addr, nr);
	else
		env_posix_futex_wake(addr, nr);
}

uint64_t env_clock_ns(void)
{
	if (env_unlikely(env_world != NULL))
		return env_world->clock_ns();
	return env_posix_clock_ns();
}

void env_sleep_ns(uint64_t ns)
{
	if (env_unlikely(env_world != NULL))
		env_world->sleep_ns(ns);
	else
		env_posix_sleep_ns(ns);
}

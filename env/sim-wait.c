/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * sim-wait.c - futex waits and sleep of the simulator
 *
 * Waiters of one word are woken in the order they came, by the adversary in any order.
 */
#include "sim.h"

uint64_t sim_time_after(uint64_t ns)
{
	uint64_t time;

	return __builtin_add_overflow(env_sim.now, ns, &time) ? ENV_FOREVER : time;
}

/* Where a word's waiters are depends on its address, their order does not. */
static struct sim_link *waiters_of(const uint32_t *addr)
{
	uint64_t hash = (uint64_t)(uintptr_t)addr * 0x9e3779b97f4a7c15u;

	return &env_sim.futexes[hash >> 58].waiters;
}

static bool ends_for_no_reason(void)
{
	return env_sim.adversarial && env_sim.style.spurious &&
	       env_rng_below(&env_sim.rng, 16) == 0;
}

bool sim_futex_wait(const uint32_t *addr, uint32_t expected, uint64_t timeout_ns)
{
	struct sim_task *task = env_sim.current;
	uint64_t until = timeout_ns == ENV_FOREVER ? ENV_FOREVER : sim_time_after(timeout_ns);

	sim_check_sleep("wait for a word to change");
	sim_point();
	if (__atomic_load_n(addr, __ATOMIC_SEQ_CST) != expected || ends_for_no_reason())
		return true;
	task->wait.kind = SIM_WAIT_FUTEX;
	task->wait.word = addr;
	task->wait.expected = expected;
	if (task->wanted)
		sim_check_circle();
	sim_list_append(waiters_of(addr), &task->link);
	return sim_block(until);
}

static unsigned int count_waiters(const struct sim_link *waiters, const uint32_t *addr)
{
	unsigned int nr = 0;

	for (struct sim_link *link = waiters->next; link != waiters; link = link->next)
		nr += sim_entry(link, struct sim_task, link)->wait.word == addr;
	return nr;
}

/* Number n of those that wait for the word, from 0. */
static struct sim_task *waiter_at(const struct sim_link *waiters, const uint32_t *addr, uint64_t n)
{
	struct sim_link *link = waiters->next;

	for (;; link = link->next) {
		struct sim_task *task = sim_entry(link, struct sim_task, link);

		if (task->wait.word == addr && n-- == 0)
			return task;
	}
}

void sim_futex_wake(const uint32_t *addr, unsigned int nr)
{
	struct sim_link *waiters = waiters_of(addr);
	unsigned int nr_waiters;

	sim_point();
	nr_waiters = count_waiters(waiters, addr);
	for (; nr > 0 && nr_waiters > 0; nr--, nr_waiters--) {
		uint64_t n = env_sim.adversarial ? env_rng_below(&env_sim.rng, nr_waiters) : 0;

		sim_unblock(waiter_at(waiters, addr, n));
	}
	sim_point();
}

void sim_sleep_ns(uint64_t ns)
{
	sim_check_sleep("sleep");
	sim_point();
	env_sim.current->wait.kind = SIM_WAIT_SLEEP;
	sim_block(sim_time_after(ns));
}

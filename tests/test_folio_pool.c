/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_folio_pool.c - a pool without memory: everybody who waits gets an object, sooner or later
 */
#include <criterion/criterion.h>

#include <iomap/env.h>
#include <iomap/sim.h>
#include "folio/pool.h"

#define NR_TASKS 5
#define ROUNDS	 4
#define RESERVE	 2

static struct pool pool;

static void take_and_give_back(void *arg)
{
	(void)arg;
	for (unsigned int i = 0; i < ROUNDS; i++) {
		void *first = pool_get(&pool);

		cr_assert_not_null(first);
		env_sleep_ns(1000);
		pool_put(&pool, first);
	}
}

static void starve(void *arg)
{
	struct env_thread *tasks[NR_TASKS];

	(void)arg;
	cr_assert_eq(pool_init(&pool, 64, RESERVE, 2 * RESERVE), 0);
	for (unsigned int i = 0; i < NR_TASKS; i++)
		cr_assert_eq(env_thread_create(&tasks[i], "taker", take_and_give_back, NULL), 0);
	env_alloc_fail(0, UINT32_MAX);
	for (unsigned int i = 0; i < NR_TASKS; i++)
		env_thread_join(tasks[i]);
	env_alloc_fail(0, 0);
	cr_assert_geq(pool.nr_free, RESERVE); /* some got theirs before the memory ended */
	pool_destroy(&pool);
}

/* M133: five tasks share two objects; seeds 1 .. 2000. */
Test(folio_pool, waiters_are_woken_when_the_host_has_no_memory)
{
	static struct env_sim_result result;
	struct env_sim_config config;

	env_sim_config_init(&config);
	config.schedule = ENV_SIM_ADVERSARIAL;
	cr_assert_eq(env_sim_run_seeds(&config, 2000, starve, NULL, &result), 0, "%s", result.text);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * sim.c - a run of the simulator from its beginning to its end
 *
 * env_sim_run() stands in the host's own stack, switches to the first task, and gets the thread
 * back when the main task has ended or something was found.  Tasks that are left then are dropped
 * where they stand.
 */
#include "sim.h"

#include <iomap/cost.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MSEC 1000000ull
#define SEC  (1000 * MSEC)
#define DAY  (86400 * SEC)

struct sim env_sim;

void *sim_checked(void *memory)
{
	if (!memory) {
		fprintf(stderr, "sim: out of memory\n");
		abort();
	}
	return memory;
}

/* ---- configuration ---- */

void env_sim_config_init(struct env_sim_config *config)
{
	*config = (struct env_sim_config){
		.schedule = ENV_SIM_FAITHFUL,
		.seed = 1,
		.nr_cpus = 2,
		.quantum_ns = 3 * MSEC,
		.slow = 1,
		.start_ns = SEC,
		.max_ns = 365 * DAY,
		.max_steps = 100000000,
		.stack_size = 256 << 10,
		.check_order = true,
	};
}

void env_sim_config_costs(struct env_sim_config *config)
{
	config->switch_ns = env_cost_ns(ENV_COST_SWITCH, 1);
	config->wake_ns = env_cost_ns(ENV_COST_WAKE, 1);
}

static bool config_ok(const struct env_sim_config *config)
{
	if (config->schedule != ENV_SIM_FAITHFUL && config->schedule != ENV_SIM_ADVERSARIAL)
		return false;
	if (config->nr_cpus == 0 || config->nr_cpus > ENV_SIM_MAX_CPUS)
		return false;
	if (config->slow == 0 || config->slow > 1000000)
		return false;
	return config->quantum_ns > 0 && config->stack_size >= 16384 &&
	       config->stack_size <= 1ull << 32;
}

const char *env_sim_finding_name(enum env_sim_finding finding)
{
	static const char *const names[] = {
#define X(name, text) text,
		ENV_SIM_FINDINGS(X)
#undef X
	};

	return finding < sizeof(names) / sizeof(names[0]) ? names[finding] : "?";
}

/* ---- the end of a run ---- */

/* The first task that main should have joined. */
static const struct sim_task *left_over(void)
{
	for (struct sim_link *link = env_sim.tasks.next; link != &env_sim.tasks;
	     link = link->next) {
		const struct sim_task *task = sim_entry(link, struct sim_task, all);

		if (task != env_sim.main && !task->service)
			return task;
	}
	return NULL;
}

struct program {
	void (*fn)(void *arg);
	void *arg;
};

static void sim_main_task(void *arg)
{
	const struct program *program = arg;
	const struct sim_task *task;

	program->fn(program->arg);
	if (env_sim.main->nr_held > 0 || env_sim.main->rcu_nesting > 0)
		sim_fail(ENV_SIM_LEAK, "the program ends with a lock held");
	sim_script_fail_if_stuck(true);
	sim_rcu_barrier();
	task = left_over();
	if (task)
		sim_fail(ENV_SIM_LEAK, "task %u \"%s\" was not joined", task->id, task->name);
	sim_fiber_switch(&env_sim.main->fiber, &env_sim.host, false);
}

/* ---- a run ---- */

static void run_init(const struct env_sim_config *config, struct env_sim_result *result)
{
	memset(&env_sim, 0, sizeof(env_sim));
	env_sim.config = *config;
	env_sim.adversarial = config->schedule == ENV_SIM_ADVERSARIAL;
	env_sim.now = config->start_ns;
	env_sim.deadline = config->max_ns ? sim_time_after(config->max_ns) : ENV_FOREVER;
	env_sim.text = result->text;
	env_rng_seed(&env_sim.rng, config->seed);
	sim_sched_init();
	sim_rcu_init();
	for (unsigned int i = 0; i < SIM_FUTEX_BUCKETS; i++)
		sim_list_init(&env_sim.futexes[i].waiters);
	sim_fiber_adopt(&env_sim.host);
}

static int run(struct program *program)
{
	int err = sim_task_create(&env_sim.rcu_task, "rcu", sim_rcu_main, NULL, true);

	if (!err)
		err = sim_task_create(&env_sim.main, "main", sim_main_task, program, false);
	if (!err)
		sim_task_switch(sim_next());
	return err;
}

static void run_free(void)
{
	while (!sim_list_empty(&env_sim.tasks))
		sim_task_free(sim_entry(env_sim.tasks.next, struct sim_task, all));
	sim_order_free();
	sim_locks_free();
	sim_sched_free();
}

static void fill(struct env_sim_result *result)
{
	result->finding = env_sim.finding;
	result->virtual_ns = env_sim.now - env_sim.config.start_ns;
	result->switches = env_sim.switches;
	result->trace_hash = env_sim.hash;
	sim_use_fill(result);
	sim_order_fill(result);
}

int env_sim_run(const struct env_sim_config *config, void (*fn)(void *arg), void *arg,
		struct env_sim_result *result)
{
	struct program program = {fn, arg};
	const struct env_world *world = env_world;
	struct env_task self = env_task_self;
	int err;

	if (world == &sim_world)
		return -EBUSY;
	memset(result, 0, sizeof(*result));
	result->seed = config->seed;
	if (!config_ok(config))
		return -EINVAL;

	run_init(config, result);
	env_world = &sim_world;
	sim_abort_watch();
	err = run(&program);
	sim_abort_unwatch();
	env_world = world;
	env_task_self = self;
	sim_trace_end();
	fill(result);
	run_free();
	if (!err && result->finding)
		err = -EPROTO;
	return err;
}

int env_sim_run_seeds(const struct env_sim_config *config, uint64_t nr, void (*fn)(void *arg),
		      void *arg, struct env_sim_result *result)
{
	struct env_sim_config one = *config;
	int err = 0;

	for (; nr > 0 && !err; nr--, one.seed++)
		err = env_sim_run(&one, fn, arg, result);
	return err;
}

/* ---- the world ---- */

const struct env_world sim_world = {
	.thread_create = sim_thread_create,
	.thread_join = sim_thread_join,
	.lock_init = sim_lock_init,
	.spin_init = sim_spin_init,
	.mutex_lock = sim_mutex_lock,
	.mutex_trylock = sim_mutex_trylock,
	.mutex_unlock = sim_mutex_unlock,
	.rwsem_read_lock = sim_rwsem_read_lock,
	.rwsem_read_trylock = sim_rwsem_read_trylock,
	.rwsem_read_unlock = sim_rwsem_read_unlock,
	.rwsem_write_lock = sim_rwsem_write_lock,
	.rwsem_write_trylock = sim_rwsem_write_trylock,
	.rwsem_write_unlock = sim_rwsem_write_unlock,
	.futex_wait = sim_futex_wait,
	.futex_wake = sim_futex_wake,
	.clock_ns = sim_clock_ns,
	.sleep_ns = sim_sleep_ns,
	.cpu = sim_cpu,
	.nr_cpus = sim_nr_cpus,
	.rcu_read_lock = sim_rcu_read_lock,
	.rcu_read_unlock = sim_rcu_read_unlock,
	.rcu_synchronize = sim_rcu_synchronize,
	.switch_point = sim_point,
	.rcu_call = sim_rcu_call,
	.rcu_barrier = sim_rcu_barrier,
	.switch_point_at = sim_switch_point_at,
	.own_lock_wait = sim_own_lock_wait,
	.own_lock_taken = sim_own_lock_taken,
	.own_lock_gone = sim_own_lock_gone,
	.lock_may_nest = sim_lock_may_nest,
	.trace_span = sim_trace_span,
};

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * sim-task.c - tasks of the simulator: start, switch, end, join
 *
 * env_task_self is the running task's: each switch puts the next one's in its place.
 */
#include "sim.h"

#include "order.h"

#include <errno.h>
#include <execinfo.h>
#include <stdlib.h>

/* ---- one task's life ---- */

static void check_nothing_held(const struct sim_task *task)
{
	if (task->nr_held > 0)
		sim_fail(ENV_SIM_LEAK, "task %u \"%s\" ends with a lock held", task->id,
			 task->name);
	if (task->rcu_nesting > 0)
		sim_fail(ENV_SIM_LEAK, "task %u \"%s\" ends in an RCU read section", task->id,
			 task->name);
}

static struct sim_task *joiner_of(const struct sim_task *task)
{
	for (struct sim_link *link = env_sim.tasks.next; link != &env_sim.tasks;
	     link = link->next) {
		struct sim_task *other = sim_entry(link, struct sim_task, all);

		if (other->wait.kind == SIM_WAIT_JOIN && other->wait.task == task)
			return other;
	}
	return NULL;
}

static void run_task(struct sim_task *task)
{
	struct sim_task *joiner;

	sim_point();
	task->fn(task->arg);
	sim_point();
	check_nothing_held(task);
	sim_note(SIM_NOTE_END, task->id, 0);
	task->state = SIM_DONE;
	joiner = joiner_of(task);
	if (joiner)
		sim_unblock(joiner);
	sim_end();
}

/* Who switches to a task for the first time says so here. */
static struct sim_fiber *starter;

static void sim_task_entry(void)
{
	sim_fiber_started(starter);
	run_task(env_sim.current);
}

int sim_task_create(struct sim_task **result, const char *name, void (*fn)(void *arg), void *arg,
		    bool service)
{
	struct sim_task *task = calloc(1, sizeof(*task));
	int err;

	if (!task)
		return -ENOMEM;
	err = sim_fiber_init(&task->fiber, env_sim.config.stack_size, sim_task_entry);
	if (err) {
		free(task);
		return err;
	}
	/* The program's own tasks are 1, 2, ... */
	task->id = service ? 0 : ++env_sim.nr_created;
	task->service = service;
	task->self.slot = task->id % ENV_RWSEM_SLOTS + 1;
	task->fn = fn;
	task->arg = arg;
	task->cpu = env_sim.config.nr_cpus;
	task->state = SIM_WAITING;
	task->priority = env_rng_u64(&env_sim.rng) | 1ull << 63;
	task->name = order_name(name ? name : "iomap");
	task->kind = sim_kind(task->name);
	task->kind->nr_tasks++;
	sim_list_init(&task->link);
	sim_list_init(&task->rcu_link);
	sim_list_append(&env_sim.tasks, &task->all);
	sim_sched_reserve(++env_sim.nr_tasks);
	sim_note(SIM_NOTE_START, task->id, 0);
	sim_unblock(task);
	*result = task;
	return 0;
}

void sim_task_free(struct sim_task *task)
{
	sim_sched_forget(task);
	sim_list_remove(&task->all);
	env_sim.nr_tasks--;
	sim_fiber_uninit(&task->fiber);
	free(task->held);
	free(task);
}

/* ---- switch ---- */

/* Somebody wants to know where this task stands: show it, and wait on. */
static void show_frames(struct sim_task *task)
{
	while (env_unlikely(env_sim.capturer != NULL)) {
		struct sim_fiber *to = env_sim.capturer;

		env_sim.capturer = NULL;
		task->nr_frames = backtrace(task->frames, SIM_FRAMES);
		sim_fiber_switch(&task->fiber, to, false);
	}
}

void sim_task_switch(struct sim_task *next)
{
	struct sim_task *self = env_sim.current;
	struct sim_fiber *from = self ? &self->fiber : &env_sim.host;

	if (self) {
		self->self = env_task_self;
		env_sim.switches++;
	}
	sim_note(SIM_NOTE_SWITCH, next->id, 0);
	env_task_self = next->self;
	env_sim.current = next;
	if (!next->started) {
		next->started = true;
		starter = from;
	}
	sim_fiber_switch(from, &next->fiber, self && self->state == SIM_DONE);
	if (self)
		show_frames(self);
}

void sim_task_capture(struct sim_task *task)
{
	if (task == env_sim.current) {
		task->nr_frames = backtrace(task->frames, SIM_FRAMES);
	} else if (task->started && task->state != SIM_DONE) {
		env_sim.capturer = &env_sim.current->fiber;
		sim_fiber_switch(&env_sim.current->fiber, &task->fiber, false);
	}
}

/* ---- the calls of env.h ---- */

int sim_thread_create(struct env_thread **thread, const char *name, void (*fn)(void *arg),
		      void *arg)
{
	struct sim_task *task;
	int err;

	sim_point();
	err = sim_task_create(&task, name, fn, arg, false);
	if (err)
		return err;
	*thread = (struct env_thread *)task;
	sim_point();
	return 0;
}

void sim_thread_join(struct env_thread *thread)
{
	struct sim_task *task = (struct sim_task *)thread;
	struct sim_wait *wait = &env_sim.current->wait;

	sim_check_sleep("join a task");
	sim_point();
	while (task->state != SIM_DONE) {
		wait->kind = SIM_WAIT_JOIN;
		wait->task = task;
		sim_block(ENV_FOREVER);
	}
	sim_task_free(task);
}

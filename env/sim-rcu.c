/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * sim-rcu.c - read sections, grace periods and callbacks of the simulator
 *
 * A clock counts the beginnings of sections and of grace periods.  A grace period is over when
 * no section is left that began before it; readers are listed by their beginning, so only the
 * oldest is looked at.  Callbacks run in a task of their own, in the order they were handed in.
 */
#include "sim.h"

#include <string.h>

/* ---- grace periods ---- */

static bool grace_is_over(uint64_t grace)
{
	if (sim_list_empty(&env_sim.rcu_readers))
		return true;
	return sim_entry(env_sim.rcu_readers.next, struct sim_task, rcu_link)->rcu_start > grace;
}

static void wake_waiters(void)
{
	struct sim_link *link = env_sim.rcu_waiters.next;

	while (link != &env_sim.rcu_waiters) {
		struct sim_task *task = sim_entry(link, struct sim_task, link);

		link = link->next;
		if (grace_is_over(task->wait.grace))
			sim_unblock(task);
	}
}

static void wait_for_grace(void)
{
	struct sim_task *task = env_sim.current;
	uint64_t grace = ++env_sim.rcu_clock;

	while (!grace_is_over(grace)) {
		task->wait.kind = SIM_WAIT_RCU;
		task->wait.grace = grace;
		sim_list_append(&env_sim.rcu_waiters, &task->link);
		sim_block(ENV_FOREVER);
	}
}

void sim_rcu_read_lock(void)
{
	struct sim_task *task = env_sim.current;

	if (task->rcu_nesting++ > 0)
		return;
	task->rcu_start = ++env_sim.rcu_clock;
	sim_list_append(&env_sim.rcu_readers, &task->rcu_link);
	sim_point();
}

void sim_rcu_read_unlock(void)
{
	struct sim_task *task = env_sim.current;

	if (task->rcu_nesting == 0)
		sim_fail(ENV_SIM_MISUSE, "the end of an RCU read section that was not begun");
	if (task->rcu_nesting == 1)
		sim_point();
	if (--task->rcu_nesting > 0)
		return;
	sim_list_remove(&task->rcu_link);
	wake_waiters();
}

void sim_rcu_synchronize(void)
{
	sim_check_sleep("wait for a grace period");
	sim_point();
	wait_for_grace();
	sim_note(SIM_NOTE_RCU, env_sim.current->id, 0);
}

/* ---- callbacks: a head is the next one, and a function ---- */

typedef void (*callback)(struct env_rcu_head *head);

static void queue_append(struct env_rcu_head *head, callback fn)
{
	head->words[0] = NULL;
	memcpy(&head->words[1], &fn, sizeof(fn));
	if (env_sim.rcu_last)
		env_sim.rcu_last->words[0] = head;
	else
		env_sim.rcu_first = head;
	env_sim.rcu_last = head;
}

static struct env_rcu_head *queue_take(void)
{
	struct env_rcu_head *first = env_sim.rcu_first;

	env_sim.rcu_first = NULL;
	env_sim.rcu_last = NULL;
	return first;
}

/* It may free the head. */
static void run(struct env_rcu_head *head)
{
	callback fn;

	memcpy(&fn, &head->words[1], sizeof(fn));
	fn(head);
	env_sim.rcu_done++;
}

static void wake_barriers(void)
{
	struct sim_link *link = env_sim.rcu_barriers.next;

	while (link != &env_sim.rcu_barriers) {
		struct sim_task *task = sim_entry(link, struct sim_task, link);

		link = link->next;
		if (env_sim.rcu_done >= task->wait.grace)
			sim_unblock(task);
	}
}

void sim_rcu_main(void *arg)
{
	struct sim_task *task = env_sim.current;

	(void)arg;
	for (;;) {
		struct env_rcu_head *head, *next;

		while (!env_sim.rcu_first) {
			task->wait.kind = SIM_WAIT_RCU_WORK;
			sim_block(ENV_FOREVER);
		}
		head = queue_take();
		wait_for_grace();
		for (; head; head = next) {
			next = head->words[0];
			run(head);
			sim_point();
		}
		sim_note(SIM_NOTE_RCU, task->id, env_sim.rcu_done);
		wake_barriers();
	}
}

/* Does not wait: the caller may hold locks, or be in a read section. */
void sim_rcu_call(struct env_rcu_head *head, callback fn)
{
	queue_append(head, fn);
	env_sim.rcu_called++;
	if (env_sim.rcu_task->wait.kind == SIM_WAIT_RCU_WORK)
		sim_unblock(env_sim.rcu_task);
	sim_point();
}

void sim_rcu_barrier(void)
{
	struct sim_task *task = env_sim.current;
	uint64_t goal = env_sim.rcu_called;

	sim_check_sleep("wait for RCU callbacks");
	sim_point();
	while (env_sim.rcu_done < goal) {
		task->wait.kind = SIM_WAIT_RCU_BARRIER;
		task->wait.grace = goal;
		sim_list_append(&env_sim.rcu_barriers, &task->link);
		sim_block(ENV_FOREVER);
	}
}

void sim_rcu_init(void)
{
	sim_list_init(&env_sim.rcu_readers);
	sim_list_init(&env_sim.rcu_waiters);
	sim_list_init(&env_sim.rcu_barriers);
}

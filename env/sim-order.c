/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * sim-order.c - lock classes of the simulator: in which order they nest, how long they are waited
 * for, and which may not be held by a task that sleeps
 *
 * A lock's class is its name.  Before a task waits for a lock, each class it holds gives an edge
 * held -> wanted in one graph; a new edge that closes a circle is a finding, with the stack that
 * each edge of the circle was first seen with.  A lock taken twice is left to the search for
 * deadlocks, and locks that were not made in this run are not checked.
 */
#include "sim.h"

#include "order.h"

#include <execinfo.h>
#include <stdlib.h>
#include <string.h>

struct edge {
	unsigned int task;
	const char *task_name;
	int nr_frames;
	void *frames[SIM_FRAMES];
};

/* Of this run. */
static struct order order;

static struct class_use {
	bool is_known; /* what follows is set */
	bool no_sleep;
	bool spins;
	uint64_t waits;
	uint64_t wait_ns;
} uses[ORDER_MAX];

/* The last of a name that stays: locks of the program's own come by name each time. */
static struct {
	const char *name;
	unsigned int class;
} last;

/* ---- classes ---- */

static bool is_listed(const char *const *list, const char *name)
{
	for (; list && *list; list++)
		if (strcmp(*list, name) == 0)
			return true;
	return false;
}

static unsigned int class_get(const char *name)
{
	unsigned int class = order_class(&order, name);

	if (class && !uses[class].is_known) {
		uses[class].is_known = true;
		uses[class].no_sleep = is_listed(env_sim.config.no_sleep, name);
		order.may_nest[class] |= is_listed(env_sim.config.may_nest, name);
	}
	return class;
}

void sim_order_set_class(const void *lock, const char *name)
{
	order_lock_init(&order, lock, class_get(name ? name : "lock"));
}

void sim_order_set_spins(const void *lock)
{
	unsigned int class = order_class_of(&order, lock);

	uses[class].spins = class != ORDER_NO_CLASS;
}

bool sim_class_spins(unsigned int class)
{
	return uses[class].spins;
}

unsigned int sim_order_class(const void *lock)
{
	return order_class_of(&order, lock);
}

unsigned int sim_order_named_class(const char *name)
{
	if (name != last.name) {
		last.name = name;
		last.class = class_get(name);
	}
	return last.class;
}

const char *sim_class_name(unsigned int class)
{
	return order_class_name(&order, class);
}

void sim_lock_may_nest(const char *name)
{
	order.may_nest[class_get(name)] = true;
}

/* ---- order ---- */

/* The circle is from -> to, new, and to -> ... -> from, which a search has just walked. */
static void fail_circle(unsigned int from, unsigned int to)
{
	for (unsigned int i = from; i != to; i = order.reached_from[i]) {
		unsigned int before = order.reached_from[i];
		const struct edge *edge = *order_edge(&order, before, i);

		sim_print("before: \"%s\" -> \"%s\" by task %u \"%s\"\n", sim_class_name(before),
			  sim_class_name(i), edge->task, edge->task_name);
		sim_print_frames(edge->frames, edge->nr_frames);
	}
	sim_fail(ENV_SIM_LOCK_ORDER, "now \"%s\" -> \"%s\"", sim_class_name(from),
		 sim_class_name(to));
}

static void edge_add(unsigned int from, unsigned int to)
{
	void **slot = order_edge(&order, from, to);
	struct edge *edge;

	if (*slot)
		return;
	edge = sim_checked(calloc(1, sizeof(*edge)));
	edge->task = env_sim.current->id;
	edge->task_name = env_sim.current->name;
	edge->nr_frames = backtrace(edge->frames, SIM_FRAMES);
	*slot = edge;
	if (order_closes(&order, from, to))
		fail_circle(from, to);
}

void sim_order_check(const void *lock, unsigned int class)
{
	const struct sim_task *task = env_sim.current;

	if (!env_sim.config.check_order || class == ORDER_NO_CLASS)
		return;
	for (unsigned int i = 0; i < task->nr_held; i++) {
		const struct sim_held *held = &task->held[i];

		if (held->class == class && held->addr != lock && !order.may_nest[class])
			sim_fail(ENV_SIM_LOCK_ORDER, "\"%s\" while another \"%s\" is held",
				 sim_class_name(class), sim_class_name(class));
		if (held->class != ORDER_NO_CLASS && held->class != class)
			edge_add(held->class, class);
	}
}

/* ---- sleep ---- */

void sim_check_spins(const char *what)
{
	const struct sim_task *task = env_sim.current;

	if (env_likely(task->nr_spins == 0))
		return;
	for (unsigned int i = 0; i < task->nr_held; i++)
		if (sim_class_spins(task->held[i].class))
			sim_fail(ENV_SIM_FORBIDDEN_WAIT, "to %s while \"%s\" is held", what,
				 sim_class_name(task->held[i].class));
}

void sim_check_sleep(const char *what)
{
	const struct sim_task *task = env_sim.current;

	if (task->rcu_nesting > 0)
		sim_fail(ENV_SIM_FORBIDDEN_WAIT, "to %s in an RCU read section", what);
	sim_check_spins(what);
	for (unsigned int i = 0; i < task->nr_held; i++) {
		unsigned int class = task->held[i].class;

		if (uses[class].no_sleep)
			sim_fail(ENV_SIM_FORBIDDEN_WAIT, "to %s while \"%s\" is held", what,
				 sim_class_name(class));
	}
}

/* ---- waits ---- */

void sim_order_waited(unsigned int class, uint64_t start)
{
	uses[class].waits++;
	uses[class].wait_ns += env_sim.now - start;
	sim_trace_span(ENV_TRACK_LOCK, env_sim.current->id, sim_class_name(class), start,
		       env_sim.now, 0);
}

void sim_order_fill(struct env_sim_result *result)
{
	for (unsigned int i = 0; i < ORDER_MAX; i++) {
		bool full = result->nr_locks == ENV_SIM_MAX_KINDS;
		struct env_sim_lock_use *use = &result->locks[result->nr_locks - full];

		if (uses[i].waits == 0)
			continue;
		sim_name_copy(use->name, full ? "other" : sim_class_name(i));
		use->waits += uses[i].waits;
		use->wait_ns += uses[i].wait_ns;
		result->nr_locks += !full;
	}
}

/* ---- a run ---- */

void sim_order_free(void)
{
	order_clear(&order);
	memset(uses, 0, sizeof(uses));
	last.name = NULL;
}

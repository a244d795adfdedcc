/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * sim-order.c - lock classes of the simulator, and the order in which they nest
 *
 * A lock's class is its name.  Before a task waits for a lock, each class it
 * holds gives an edge held -> wanted in one graph; a new edge that closes a
 * circle is a finding, with the stack that each edge of the circle was first
 * seen with.  Classes that nest in themselves are left to the search for
 * deadlocks, and so are locks that were not made in this run.
 */
#include "sim.h"

#include <execinfo.h>
#include <stdlib.h>
#include <string.h>

#define CLASS_MAX 128 /* locks of more classes are not checked */

struct lock_class {
	char *name;
	bool no_sleep;
	bool reached; /* by the search that runs now */
	unsigned int from; /* the class it was reached from */
};

struct edge {
	unsigned int task;
	char task_name[SIM_NAME_MAX];
	int nr_frames;
	void *frames[SIM_FRAMES];
};

struct known_lock {
	const void *addr;
	unsigned int class;
};

/* Of this run. */
static struct order {
	struct lock_class classes[CLASS_MAX]; /* 0: no class */
	unsigned int nr_classes;
	struct edge *edges[CLASS_MAX][CLASS_MAX]; /* from, to */
	struct known_lock *known; /* hash table, open addressing; only looked up */
	size_t nr_known;
	size_t known_size; /* a power of two */
} order;

/* ---- classes ---- */

static bool may_not_sleep(const char *name)
{
	for (const char *const *no_sleep = env_sim.config.no_sleep; no_sleep && *no_sleep;
	     no_sleep++)
		if (strcmp(*no_sleep, name) == 0)
			return true;
	return false;
}

static unsigned int class_get(const char *name)
{
	unsigned int class;

	for (class = 1; class < order.nr_classes; class ++)
		if (strcmp(order.classes[class].name, name) == 0)
			return class;
	if (class == CLASS_MAX)
		return SIM_NO_CLASS;
	order.nr_classes++;
	order.classes[class].name = sim_checked(strdup(name));
	order.classes[class].no_sleep = may_not_sleep(name);
	return class;
}

const char *sim_class_name(unsigned int class)
{
	return class ? order.classes[class].name : "?";
}

/* ---- which lock has which class ---- */

static struct known_lock *known_slot(const void *addr)
{
	size_t mask = order.known_size - 1;
	size_t i = (size_t)((uintptr_t)addr / 4 * 0x9e3779b97f4a7c15u >> 20) & mask;

	while (order.known[i].addr && order.known[i].addr != addr)
		i = (i + 1) & mask;
	return &order.known[i];
}

static void known_grow(void)
{
	struct known_lock *old = order.known;
	size_t old_size = order.known_size;

	order.known_size = old_size ? old_size * 2 : 256;
	order.known = sim_checked(calloc(order.known_size, sizeof(*order.known)));
	for (size_t i = 0; i < old_size; i++)
		if (old[i].addr)
			*known_slot(old[i].addr) = old[i];
	free(old);
}

/* A lock made at the address of one that is gone takes its place. */
void sim_order_set_class(const void *lock, const char *name)
{
	struct known_lock *slot;

	if (order.nr_known * 2 >= order.known_size)
		known_grow();
	slot = known_slot(lock);
	if (!slot->addr)
		order.nr_known++;
	slot->addr = lock;
	slot->class = class_get(name ? name : "lock");
}

unsigned int sim_order_class(const void *lock)
{
	return order.known_size ? known_slot(lock)->class : SIM_NO_CLASS;
}

/* ---- the graph ---- */

/* Is there a way from `start` to `goal`?  Leaves it in class->from. */
static bool reaches(unsigned int start, unsigned int goal)
{
	unsigned int todo[CLASS_MAX];
	unsigned int nr_todo = 0;

	for (unsigned int i = 0; i < order.nr_classes; i++)
		order.classes[i].reached = false;
	order.classes[start].reached = true;
	todo[nr_todo++] = start;
	while (nr_todo > 0 && !order.classes[goal].reached) {
		unsigned int from = todo[--nr_todo];

		for (unsigned int to = 1; to < order.nr_classes; to++) {
			if (!order.edges[from][to] || order.classes[to].reached)
				continue;
			order.classes[to].reached = true;
			order.classes[to].from = from;
			todo[nr_todo++] = to;
		}
	}
	return order.classes[goal].reached;
}

/* The circle is from -> to, new, and to -> ... -> from, which a search has just walked. */
static void fail_circle(unsigned int from, unsigned int to)
{
	for (unsigned int i = from; i != to; i = order.classes[i].from) {
		unsigned int before = order.classes[i].from;
		const struct edge *edge = order.edges[before][i];

		sim_print("before: \"%s\" -> \"%s\" by task %u \"%s\"\n", sim_class_name(before),
			  sim_class_name(i), edge->task, edge->task_name);
		sim_print_frames(edge->frames, edge->nr_frames);
	}
	sim_fail(ENV_SIM_LOCK_ORDER, "now \"%s\" -> \"%s\"", sim_class_name(from),
		 sim_class_name(to));
}

static void edge_add(unsigned int from, unsigned int to)
{
	struct edge *edge;

	if (order.edges[from][to])
		return;
	edge = sim_checked(calloc(1, sizeof(*edge)));
	edge->task = env_sim.current->id;
	memcpy(edge->task_name, env_sim.current->name, SIM_NAME_MAX);
	edge->nr_frames = backtrace(edge->frames, SIM_FRAMES);
	order.edges[from][to] = edge;
	if (reaches(to, from))
		fail_circle(from, to);
}

void sim_order_check(unsigned int class)
{
	const struct sim_task *task = env_sim.current;

	if (!env_sim.config.check_order || class == SIM_NO_CLASS)
		return;
	for (unsigned int i = 0; i < task->nr_held; i++) {
		unsigned int held = task->held[i].lock->class;

		if (held != SIM_NO_CLASS && held != class)
			edge_add(held, class);
	}
}

void sim_check_sleep(const char *what)
{
	const struct sim_task *task = env_sim.current;

	if (task->rcu_nesting > 0)
		sim_fail(ENV_SIM_FORBIDDEN_WAIT, "to %s in an RCU read section", what);
	for (unsigned int i = 0; i < task->nr_held; i++) {
		unsigned int class = task->held[i].lock->class;

		if (order.classes[class].no_sleep)
			sim_fail(ENV_SIM_FORBIDDEN_WAIT, "to %s while \"%s\" is held", what,
				 sim_class_name(class));
	}
}

void sim_order_init(void)
{
	order.nr_classes = 1;
}

void sim_order_free(void)
{
	for (unsigned int from = 1; from < order.nr_classes; from++) {
		for (unsigned int to = 1; to < order.nr_classes; to++) {
			free(order.edges[from][to]);
			order.edges[from][to] = NULL;
		}
		free(order.classes[from].name);
	}
	memset(order.classes, 0, sizeof(order.classes));
	free(order.known);
	order.known = NULL;
	order.nr_known = 0;
	order.known_size = 0;
}

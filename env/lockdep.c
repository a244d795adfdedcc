/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * lockdep.c - the host with its lock order checked
 *
 * Each thread keeps the stack of the locks it holds.  Before it waits for one more, each
 * class held gives an edge held -> wanted in one graph of classes.  A new edge that closes
 * a circle is reported: with this thread's stack, and with the stack that each other edge
 * of the circle was first seen with.  A known edge costs a look-up and reports nothing, so
 * each inversion is told once.
 *
 * Locks without a class (never initialised, or before the install) are not checked.
 */
#include "lockdep.h"

#include "internal.h"
#include "order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELD_MAX  512 /* locks a thread holds at once; more are not checked */
#define CHAIN_MAX 512 /* bytes of a printed stack */

struct held {
	const void *obj;
	unsigned int class;
};

/* A thread borrows one for as long as it holds any lock. */
struct held_stack {
	struct held_stack *next; /* in the pool */
	unsigned int nr;
	struct held locks[HELD_MAX];
};

/*
 * One per process, like env_world.  Protected by `lock`, but for found [atomic].
 */
static struct lockdep {
	struct env_mutex lock;
	struct order order; /* an edge is the stack it was first seen with, a string */
	bool nest_reported[ORDER_MAX];
	struct held_stack *pool;
	bool found;
} lockdep;

static __thread struct held_stack *held_stack; /* NULL: nothing is held */

static const char *class_name(unsigned int class)
{
	return order_class_name(&lockdep.order, class);
}

/* ---- what this thread holds ---- */

static unsigned int nr_held(void)
{
	return held_stack ? held_stack->nr : 0;
}

static void stack_borrow(void)
{
	held_stack = lockdep.pool;
	if (held_stack)
		lockdep.pool = held_stack->next;
	else
		held_stack = order_checked(malloc(sizeof(*held_stack)));
	held_stack->nr = 0;
}

static void stack_give_back(void)
{
	env_posix_mutex_lock(&lockdep.lock);
	held_stack->next = lockdep.pool;
	lockdep.pool = held_stack;
	env_posix_mutex_unlock(&lockdep.lock);
	held_stack = NULL;
}

/* With lockdep.lock held. */
static void hold(const void *obj, unsigned int class)
{
	if (!held_stack)
		stack_borrow();
	if (held_stack->nr < HELD_MAX)
		held_stack->locks[held_stack->nr++] = (struct held){obj, class};
}

/* ---- reports ---- */

static void chain_print(char *chain, size_t size, const char *wanted)
{
	size_t len = 0;

	for (unsigned int i = 0; i < nr_held() && len < size; i++)
		len += (size_t)snprintf(chain + len, size - len, "%s -> ",
					class_name(held_stack->locks[i].class));
	if (len < size)
		snprintf(chain + len, size - len, "%s", wanted);
}

static void report_self(unsigned int class, const char *what)
{
	char chain[CHAIN_MAX];

	chain_print(chain, sizeof(chain), class_name(class));
	fprintf(stderr, "lockdep: %s: \"%s\"\n    now:    %s\n", what, class_name(class), chain);
	__atomic_store_n(&lockdep.found, true, __ATOMIC_SEQ_CST);
}

/* The circle is from -> to, new, and to -> ... -> from, which a search has just walked. */
static void report_circle(unsigned int from, unsigned int to)
{
	const unsigned int *before = lockdep.order.reached_from;
	char chain[CHAIN_MAX];

	chain_print(chain, sizeof(chain), class_name(to));
	fprintf(stderr, "lockdep: lock order inversion: \"%s\" and \"%s\"\n    now:    %s\n",
		class_name(from), class_name(to), chain);
	for (unsigned int i = from; i != to; i = before[i])
		fprintf(stderr, "    before: %s\n",
			(const char *)*order_edge(&lockdep.order, before[i], i));
	__atomic_store_n(&lockdep.found, true, __ATOMIC_SEQ_CST);
}

/* ---- checks ---- */

static void edge_add(unsigned int from, unsigned int to)
{
	void **edge = order_edge(&lockdep.order, from, to);
	char chain[CHAIN_MAX];

	if (*edge)
		return;
	chain_print(chain, sizeof(chain), class_name(to));
	*edge = order_checked(strdup(chain));
	if (order_closes(&lockdep.order, from, to))
		report_circle(from, to);
}

static void check_nesting(const struct held *held, const void *obj, unsigned int class)
{
	if (held->obj == obj)
		report_self(class, "taken twice by one thread");
	else if (!lockdep.order.may_nest[class] && !lockdep.nest_reported[class])
		report_self(class, "nests in its own class");
	else
		return;
	lockdep.nest_reported[class] = true;
}

/* This thread is about to wait for obj. */
static void check_order(const void *obj, unsigned int class)
{
	for (unsigned int i = 0; i < nr_held(); i++) {
		struct held *held = &held_stack->locks[i];

		if (held->class == class)
			check_nesting(held, obj, class);
		else
			edge_add(held->class, class);
	}
}

/* ---- the calls of lockdep.h ---- */

void env_lockdep_install(void)
{
	env_world = &env_lockdep_world;
}

bool env_lockdep_found(void)
{
	return __atomic_load_n(&lockdep.found, __ATOMIC_SEQ_CST);
}

void env_lockdep_do_allow(const char *name)
{
	if (env_world->lock_may_nest)
		env_world->lock_may_nest(name);
}

void env_lockdep_do_wait(const void *lock, const char *name)
{
	if (env_world->own_lock_wait)
		env_world->own_lock_wait(lock, name);
}

void env_lockdep_do_taken(const void *lock, const char *name)
{
	if (env_world->own_lock_taken)
		env_world->own_lock_taken(lock, name);
}

void env_lockdep_do_release(const void *lock)
{
	if (env_world->own_lock_gone)
		env_world->own_lock_gone(lock);
}

/* ---- the world: locks of any kind ---- */

static void lock_may_nest(const char *name)
{
	env_posix_mutex_lock(&lockdep.lock);
	lockdep.order.may_nest[order_class(&lockdep.order, name)] = true;
	env_posix_mutex_unlock(&lockdep.lock);
}

static void own_lock_wait(const void *lock, const char *name)
{
	unsigned int class;

	env_posix_mutex_lock(&lockdep.lock);
	class = order_class(&lockdep.order, name);
	if (class)
		check_order(lock, class);
	env_posix_mutex_unlock(&lockdep.lock);
}

static void own_lock_taken(const void *lock, const char *name)
{
	unsigned int class;

	env_posix_mutex_lock(&lockdep.lock);
	class = order_class(&lockdep.order, name);
	if (class)
		hold(lock, class);
	env_posix_mutex_unlock(&lockdep.lock);
}

/* Locks may be released in any order; the top of the stack is the usual one. */
static void release(const void *obj)
{
	for (unsigned int i = nr_held(); i-- > 0;) {
		struct held *held = &held_stack->locks[i];

		if (held->obj != obj)
			continue;
		held_stack->nr--;
		memmove(held, held + 1, (held_stack->nr - i) * sizeof(*held));
		if (held_stack->nr == 0)
			stack_give_back();
		return;
	}
}

/* ---- the world: those of env.h ---- */

static void lock_init(const void *lock, const char *name)
{
	env_posix_mutex_lock(&lockdep.lock);
	order_lock_init(&lockdep.order, lock, order_class(&lockdep.order, name));
	env_posix_mutex_unlock(&lockdep.lock);
}

static void acquire(const void *lock, bool can_wait)
{
	unsigned int class;

	env_posix_mutex_lock(&lockdep.lock);
	class = order_class_of(&lockdep.order, lock);
	if (class && can_wait)
		check_order(lock, class);
	if (class)
		hold(lock, class);
	env_posix_mutex_unlock(&lockdep.lock);
}

static bool acquire_if(bool taken, const void *lock)
{
	if (taken)
		acquire(lock, false);
	return taken;
}

static void mutex_lock(struct env_mutex *mutex)
{
	acquire(mutex, true);
	env_posix_mutex_lock(mutex);
}

static bool mutex_trylock(struct env_mutex *mutex)
{
	return acquire_if(env_posix_mutex_trylock(mutex), mutex);
}

static void mutex_unlock(struct env_mutex *mutex)
{
	release(mutex);
	env_posix_mutex_unlock(mutex);
}

/* A reader counts like a writer: behind a waiting writer it waits for other readers. */
static void rwsem_read_lock(struct env_rwsem *sem)
{
	acquire(sem, true);
	env_posix_rwsem_read_lock(sem);
}

static bool rwsem_read_trylock(struct env_rwsem *sem)
{
	return acquire_if(env_posix_rwsem_read_trylock(sem), sem);
}

static void rwsem_read_unlock(struct env_rwsem *sem)
{
	release(sem);
	env_posix_rwsem_read_unlock(sem);
}

static void rwsem_write_lock(struct env_rwsem *sem)
{
	acquire(sem, true);
	env_posix_rwsem_write_lock(sem);
}

static bool rwsem_write_trylock(struct env_rwsem *sem)
{
	return acquire_if(env_posix_rwsem_write_trylock(sem), sem);
}

static void rwsem_write_unlock(struct env_rwsem *sem)
{
	release(sem);
	env_posix_rwsem_write_unlock(sem);
}

const struct env_world env_lockdep_world = {
	.thread_create = env_posix_thread_create,
	.thread_join = env_posix_thread_join,
	.lock_init = lock_init,
	.mutex_lock = mutex_lock,
	.mutex_trylock = mutex_trylock,
	.mutex_unlock = mutex_unlock,
	.rwsem_read_lock = rwsem_read_lock,
	.rwsem_read_trylock = rwsem_read_trylock,
	.rwsem_read_unlock = rwsem_read_unlock,
	.rwsem_write_lock = rwsem_write_lock,
	.rwsem_write_trylock = rwsem_write_trylock,
	.rwsem_write_unlock = rwsem_write_unlock,
	.futex_wait = env_posix_futex_wait,
	.futex_wake = env_posix_futex_wake,
	.clock_ns = env_posix_clock_ns,
	.sleep_ns = env_posix_sleep_ns,
	.cpu = env_posix_cpu,
	.nr_cpus = env_posix_nr_cpus,
	.rcu_read_lock = env_posix_rcu_read_lock,
	.rcu_read_unlock = env_posix_rcu_read_unlock,
	.rcu_synchronize = env_posix_rcu_synchronize,
	.switch_point = env_posix_switch_point,
	.own_lock_wait = own_lock_wait,
	.own_lock_taken = own_lock_taken,
	.own_lock_gone = release,
	.lock_may_nest = lock_may_nest,
};

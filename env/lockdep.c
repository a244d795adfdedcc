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
 * Memory comes from malloc, so that tests which fail the n-th env_alloc() count the same.
 */
#include "lockdep.h"

#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLASS_MAX 256
#define HELD_MAX  512 /* locks a thread holds at once; more are not checked */
#define CHAIN_MAX 512 /* bytes of a printed stack */

struct lock_class {
	const char *name;
	bool may_nest;
	bool nest_reported;
	bool reached; /* by the search that runs now */
	unsigned int from; /* the class it was reached from */
};

/* What class the lock at this address has. */
struct known_lock {
	const void *obj;
	struct lock_class *class;
};

struct held {
	const void *obj;
	struct lock_class *class;
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
	struct lock_class classes[CLASS_MAX];
	unsigned int nr_classes;
	char *edges[CLASS_MAX][CLASS_MAX]; /* from, to: the stack it was first seen with */
	struct known_lock *known; /* hash table, open addressing */
	size_t nr_known;
	size_t known_size; /* a power of two */
	struct held_stack *pool;
	bool found;
} lockdep;

static __thread struct held_stack *held_stack; /* NULL: nothing is held */

static void *checked(void *memory)
{
	if (!memory) {
		fprintf(stderr, "lockdep: out of memory\n");
		abort();
	}
	return memory;
}

/* ---- classes ---- */

static unsigned int class_index(const struct lock_class *class)
{
	return (unsigned int)(class - lockdep.classes);
}

/* NULL if there is no room for one more; it is then not checked. */
static struct lock_class *class_get(const char *name)
{
	struct lock_class *class = lockdep.classes;
	struct lock_class *end = class + lockdep.nr_classes;

	for (; class < end; class ++)
		if (strcmp(class->name, name) == 0)
			return class;
	if (lockdep.nr_classes == CLASS_MAX)
		return NULL;
	lockdep.nr_classes++;
	class->name = checked(strdup(name));
	return class;
}

/* ---- known locks ---- */

static struct known_lock *known_slot(const void *obj)
{
	size_t mask = lockdep.known_size - 1;
	size_t i = (size_t)((uintptr_t)obj / 4 * 0x9e3779b97f4a7c15u >> 20) & mask;

	while (lockdep.known[i].obj && lockdep.known[i].obj != obj)
		i = (i + 1) & mask;
	return &lockdep.known[i];
}

static void known_grow(void)
{
	struct known_lock *old = lockdep.known;
	size_t old_size = lockdep.known_size;

	lockdep.known_size = old_size ? old_size * 2 : 1024;
	lockdep.known = checked(calloc(lockdep.known_size, sizeof(*lockdep.known)));
	for (size_t i = 0; i < old_size; i++)
		if (old[i].obj)
			*known_slot(old[i].obj) = old[i];
	free(old);
}

/* A lock made at the address of one that is gone takes its place. */
static void known_set(const void *obj, struct lock_class *class)
{
	struct known_lock *slot;

	if (lockdep.nr_known * 2 >= lockdep.known_size)
		known_grow();
	slot = known_slot(obj);
	if (!slot->obj)
		lockdep.nr_known++;
	slot->obj = obj;
	slot->class = class;
}

static struct lock_class *known_class(const void *obj)
{
	return lockdep.known_size ? known_slot(obj)->class : NULL;
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
		held_stack = checked(malloc(sizeof(*held_stack)));
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
static void hold(const void *obj, struct lock_class *class)
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
					held_stack->locks[i].class->name);
	if (len < size)
		snprintf(chain + len, size - len, "%s", wanted);
}

static void report_self(struct lock_class *class, const char *what)
{
	char chain[CHAIN_MAX];

	chain_print(chain, sizeof(chain), class->name);
	fprintf(stderr, "lockdep: %s: \"%s\"\n    now:    %s\n", what, class->name, chain);
	__atomic_store_n(&lockdep.found, true, __ATOMIC_SEQ_CST);
}

/* The circle is from -> to, new, and to -> ... -> from, which a search has just walked. */
static void report_circle(const struct lock_class *from, const struct lock_class *to)
{
	char chain[CHAIN_MAX];

	chain_print(chain, sizeof(chain), to->name);
	fprintf(stderr, "lockdep: lock order inversion: \"%s\" and \"%s\"\n    now:    %s\n",
		from->name, to->name, chain);
	for (unsigned int i = class_index(from); i != class_index(to); i = lockdep.classes[i].from)
		fprintf(stderr, "    before: %s\n", lockdep.edges[lockdep.classes[i].from][i]);
	__atomic_store_n(&lockdep.found, true, __ATOMIC_SEQ_CST);
}

/* ---- the graph ---- */

/* Is there a way from `start` to `goal`?  Leaves it in class->from. */
static bool reaches(const struct lock_class *start, const struct lock_class *goal)
{
	unsigned int todo[CLASS_MAX];
	unsigned int nr_todo = 0;

	for (unsigned int i = 0; i < lockdep.nr_classes; i++)
		lockdep.classes[i].reached = false;
	lockdep.classes[class_index(start)].reached = true;
	todo[nr_todo++] = class_index(start);

	while (nr_todo > 0 && !goal->reached) {
		unsigned int from = todo[--nr_todo];

		for (unsigned int to = 0; to < lockdep.nr_classes; to++) {
			if (!lockdep.edges[from][to] || lockdep.classes[to].reached)
				continue;
			lockdep.classes[to].reached = true;
			lockdep.classes[to].from = from;
			todo[nr_todo++] = to;
		}
	}
	return goal->reached;
}

static void edge_add(const struct lock_class *from, const struct lock_class *to)
{
	char **edge = &lockdep.edges[class_index(from)][class_index(to)];
	char chain[CHAIN_MAX];

	if (*edge)
		return;
	chain_print(chain, sizeof(chain), to->name);
	*edge = checked(strdup(chain));
	if (reaches(to, from))
		report_circle(from, to);
}

static void check_nesting(const struct held *held, const void *obj, struct lock_class *class)
{
	if (held->obj == obj)
		report_self(class, "taken twice by one thread");
	else if (!class->may_nest && !class->nest_reported)
		report_self(class, "nests in its own class");
	else
		return;
	class->nest_reported = true;
}

/* This thread is about to wait for obj. */
static void check_order(const void *obj, struct lock_class *class)
{
	for (unsigned int i = 0; i < nr_held(); i++) {
		struct held *held = &held_stack->locks[i];

		if (held->class == class)
			check_nesting(held, obj, class);
		else
			edge_add(held->class, class);
	}
}

/* The common part of all acquisitions, with lockdep.lock held. */
static void take(const void *obj, struct lock_class *class, bool can_wait)
{
	if (!class)
		return;
	if (can_wait)
		check_order(obj, class);
	hold(obj, class);
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
	struct lock_class *class;

	env_posix_mutex_lock(&lockdep.lock);
	class = class_get(name);
	if (class)
		class->may_nest = true;
	env_posix_mutex_unlock(&lockdep.lock);
}

void env_lockdep_do_acquire(const void *obj, const char *name, bool can_wait)
{
	env_posix_mutex_lock(&lockdep.lock);
	take(obj, class_get(name), can_wait);
	env_posix_mutex_unlock(&lockdep.lock);
}

/* Locks may be released in any order; the top of the stack is the usual one. */
void env_lockdep_do_release(const void *obj)
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

/* ---- the world ---- */

static void lock_init(const void *lock, const char *name)
{
	env_posix_mutex_lock(&lockdep.lock);
	known_set(lock, class_get(name));
	env_posix_mutex_unlock(&lockdep.lock);
}

static void acquire(const void *lock, bool can_wait)
{
	env_posix_mutex_lock(&lockdep.lock);
	take(lock, known_class(lock), can_wait);
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
	env_lockdep_do_release(mutex);
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
	env_lockdep_do_release(sem);
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
	env_lockdep_do_release(sem);
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
};

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * sim-lock.c - mutex and readers-writer lock of the simulator
 *
 * A free lock is its memory alone, all zero.  One that is held or waited for has a record with
 * its owner and its waiters; a word in the lock is the record's number.
 *
 * Faithful: who unlocks hands the lock to the one that waits longest (CB3), so a lock with
 * waiters is never free.  Adversarial: who unlocks wakes all, and any task may come first.
 */
#include "sim.h"

#include <stdlib.h>

/* ---- records ---- */

static struct sim_lock *record_add(void)
{
	struct sim_lock *lock = sim_checked(calloc(1, sizeof(*lock)));

	if (env_sim.nr_locks == env_sim.max_locks) {
		env_sim.max_locks = env_sim.max_locks ? env_sim.max_locks * 2 : 64;
		env_sim.locks = sim_checked(
			realloc(env_sim.locks, env_sim.max_locks * sizeof(struct sim_lock *)));
	}
	env_sim.locks[env_sim.nr_locks++] = lock;
	lock->number = env_sim.nr_locks;
	return lock;
}

static struct sim_lock *record_new(const void *addr, uint32_t *word)
{
	struct sim_lock *lock = env_sim.free_lock;

	if (lock)
		env_sim.free_lock = lock->next_free;
	else
		lock = record_add();
	lock->addr = addr;
	lock->word = word;
	lock->sem = NULL;
	lock->class = sim_order_class(addr);
	sim_list_init(&lock->waiters);
	__atomic_store_n(word, lock->number, __ATOMIC_RELAXED);
	return lock;
}

static struct sim_lock *record_of(const void *addr, uint32_t *word)
{
	uint32_t number = __atomic_load_n(word, __ATOMIC_RELAXED);

	if (number == 0)
		return record_new(addr, word);
	if (number > env_sim.nr_locks || env_sim.locks[number - 1]->addr != addr)
		sim_fail(ENV_SIM_MISUSE, "a lock was overwritten, or is no lock");
	return env_sim.locks[number - 1];
}

static void record_free(struct sim_lock *lock)
{
	__atomic_store_n(lock->word, 0, __ATOMIC_RELAXED);
	lock->addr = NULL;
	lock->next_free = env_sim.free_lock;
	env_sim.free_lock = lock;
}

static struct sim_lock *mutex_record(struct env_mutex *mutex)
{
	return record_of(mutex, &mutex->word);
}

static struct sim_lock *rwsem_record(struct env_rwsem *sem)
{
	struct sim_lock *lock = record_of(sem, &sem->writers.word);

	lock->sem = sem;
	return lock;
}

void sim_locks_free(void)
{
	for (uint32_t i = 0; i < env_sim.nr_locks; i++)
		free(env_sim.locks[i]);
	free(env_sim.locks);
}

/* ---- who has it ---- */

static struct sim_task *first_waiter(const struct sim_lock *lock)
{
	return sim_entry(lock->waiters.next, struct sim_task, link);
}

static bool writer_waits(const struct sim_lock *lock)
{
	for (struct sim_link *link = lock->waiters.next; link != &lock->waiters; link = link->next)
		if (!sim_entry(link, struct sim_task, link)->wait.shared)
			return true;
	return false;
}

/* What env.h's assertions look at; and nothing is left of a lock that is free. */
static void publish(struct sim_lock *lock)
{
	if (lock->sem)
		__atomic_store_n(&lock->sem->writer, lock->owner || writer_waits(lock),
				 __ATOMIC_RELAXED);
	if (!lock->owner && !lock->nr_readers && sim_list_empty(&lock->waiters))
		record_free(lock);
}

/* May a task take it now?  Waiters come first. */
static bool is_free(const struct sim_lock *lock, bool shared)
{
	if (lock->owner || (lock->nr_readers && !shared))
		return false;
	return sim_list_empty(&lock->waiters);
}

static void hold(struct sim_task *task, struct sim_held held)
{
	if (task->nr_held == task->max_held) {
		task->max_held = task->max_held ? task->max_held * 2 : 16;
		task->held = sim_checked(realloc(task->held, task->max_held * sizeof(*task->held)));
	}
	task->held[task->nr_held++] = held;
	task->nr_spins += sim_class_spins(held.class);
	sim_note(SIM_NOTE_LOCK, task->id, (uint64_t)held.class << 1 | held.shared);
}

static void give(struct sim_lock *lock, struct sim_task *task, bool shared)
{
	hold(task, (struct sim_held){lock->addr, lock, lock->class, shared});
	if (shared)
		lock->nr_readers++;
	else
		lock->owner = task;
}

/* Hand it to the first waiter; and to the next ones too while they are readers. */
static void hand_over(struct sim_lock *lock)
{
	while (!sim_list_empty(&lock->waiters)) {
		struct sim_task *task = first_waiter(lock);
		bool shared = task->wait.shared;

		if (lock->owner || (lock->nr_readers && !shared))
			return;
		give(lock, task, shared);
		sim_unblock(task);
	}
}

static void wake_all(struct sim_lock *lock)
{
	while (!sim_list_empty(&lock->waiters))
		sim_unblock(first_waiter(lock));
}

/* ---- wait for it ---- */

static const char *kind_of(const struct sim_lock *lock)
{
	return lock->sem ? "rwsem" : "mutex";
}

static const struct sim_task *holder_of(const void *addr)
{
	for (struct sim_link *link = env_sim.tasks.next; link != &env_sim.tasks;
	     link = link->next) {
		const struct sim_task *task = sim_entry(link, struct sim_task, all);

		for (unsigned int i = 0; i < task->nr_held; i++)
			if (task->held[i].addr == addr)
				return task;
	}
	return NULL;
}

const struct sim_task *sim_owner_waited_for(const struct sim_task *task)
{
	if (task->wait.kind == SIM_WAIT_LOCK)
		return task->wait.lock->owner;
	if (task->wait.kind == SIM_WAIT_FUTEX && task->wanted)
		return holder_of(task->wanted);
	return NULL;
}

static void fail_deadlock(const struct sim_task *task)
{
	bool own = task->wait.kind != SIM_WAIT_LOCK;

	sim_fail(ENV_SIM_DEADLOCK,
		 "the current task waits for the %s \"%s\", whose owner waits for it",
		 own ? "lock" : kind_of(task->wait.lock),
		 sim_class_name(own ? task->wanted_class : task->wait.lock->class));
}

void sim_check_circle(void)
{
	const struct sim_task *self = env_sim.current;
	const struct sim_task *task = sim_owner_waited_for(self);

	for (unsigned int i = 0; task && i < env_sim.nr_tasks; i++) {
		if (task == self)
			fail_deadlock(self);
		task = sim_owner_waited_for(task);
	}
}

static void wait_for(struct sim_lock *lock, bool shared)
{
	struct sim_task *task = env_sim.current;

	task->wait.kind = SIM_WAIT_LOCK;
	task->wait.lock = lock;
	task->wait.shared = shared;
	sim_check_circle();
	sim_list_append(&lock->waiters, &task->link);
	publish(lock);
	if (sim_class_spins(lock->class) && !env_sim.adversarial)
		sim_spin();
	else
		sim_block(ENV_FOREVER);
}

static bool try_take(struct sim_lock *lock, bool shared)
{
	bool taken = is_free(lock, shared);

	if (taken)
		give(lock, env_sim.current, shared);
	publish(lock);
	return taken;
}

/* ---- give it back ---- */

static bool forget_held(const void *addr, bool shared)
{
	struct sim_task *task = env_sim.current;

	for (unsigned int i = task->nr_held; i-- > 0;) {
		if (task->held[i].addr != addr || task->held[i].shared != shared)
			continue;
		task->nr_held--;
		task->nr_spins -= sim_class_spins(task->held[i].class);
		for (; i < task->nr_held; i++)
			task->held[i] = task->held[i + 1];
		return true;
	}
	return false;
}

static void fail_not_held(const struct sim_lock *lock)
{
	sim_fail(ENV_SIM_MISUSE, "unlock of the %s \"%s\", which the current task does not hold",
		 kind_of(lock), sim_class_name(lock->class));
}

static void put(struct sim_lock *lock, bool shared)
{
	if (!forget_held(lock->addr, shared))
		fail_not_held(lock);
	sim_note(SIM_NOTE_UNLOCK, env_sim.current->id, lock->class);
	if (shared)
		lock->nr_readers--;
	else
		lock->owner = NULL;
	if (lock->nr_readers == 0) {
		if (env_sim.adversarial)
			wake_all(lock);
		else
			hand_over(lock);
	}
	publish(lock);
}

/* ---- the calls of env.h ---- */

void sim_lock_init(const void *lock, const char *name)
{
	sim_order_set_class(lock, name);
}

void sim_spin_init(const void *lock, const char *name)
{
	sim_order_set_class(lock, name);
	sim_order_set_spins(lock);
}

static struct sim_lock *record(void *lock, bool sem)
{
	return sem ? rwsem_record(lock) : mutex_record(lock);
}

static inline void lock_point(const char *what, const void *lock)
{
	if (env_unlikely(env_sim.nr_armed > 0))
		sim_script_check(what, sim_class_name(sim_order_class(lock)));
}

static void take(void *lock, bool sem, bool shared)
{
	unsigned int class = sim_order_class(lock);
	uint64_t start;

	lock_point("before lock ", lock);
	sim_point();
	if (sem)
		sim_check_sleep("wait for a readers-writer lock");
	else if (!sim_class_spins(class))
		sim_check_spins("wait for a mutex");
	sim_order_check(lock, class);
	if (!try_take(record(lock, sem), shared)) {
		start = env_sim.now;
		do
			wait_for(record(lock, sem), shared);
		while (env_sim.adversarial && !try_take(record(lock, sem), shared));
		sim_order_waited(class, start);
	}
	lock_point("after lock ", lock);
}

static bool take_if_free(void *lock, bool sem, bool shared)
{
	bool taken;

	lock_point("before lock ", lock);
	sim_point();
	taken = try_take(record(lock, sem), shared);
	if (taken)
		lock_point("after lock ", lock);
	return taken;
}

static void give_back(void *lock, bool sem, bool shared)
{
	lock_point("before unlock ", lock);
	put(record(lock, sem), shared);
	lock_point("after unlock ", lock);
	sim_point();
}

void sim_mutex_lock(struct env_mutex *mutex)
{
	take(mutex, false, false);
}

bool sim_mutex_trylock(struct env_mutex *mutex)
{
	return take_if_free(mutex, false, false);
}

void sim_mutex_unlock(struct env_mutex *mutex)
{
	give_back(mutex, false, false);
}

void sim_rwsem_read_lock(struct env_rwsem *sem)
{
	take(sem, true, true);
}

bool sim_rwsem_read_trylock(struct env_rwsem *sem)
{
	return take_if_free(sem, true, true);
}

void sim_rwsem_read_unlock(struct env_rwsem *sem)
{
	give_back(sem, true, true);
}

void sim_rwsem_write_lock(struct env_rwsem *sem)
{
	take(sem, true, false);
}

bool sim_rwsem_write_trylock(struct env_rwsem *sem)
{
	return take_if_free(sem, true, false);
}

void sim_rwsem_write_unlock(struct env_rwsem *sem)
{
	give_back(sem, true, false);
}

/* ---- locks that are not env.h's: the program takes them, we know who has them ---- */

void sim_own_lock_wait(const void *lock, const char *name)
{
	struct sim_task *task = env_sim.current;
	unsigned int class = sim_order_named_class(name);

	sim_script_point("before lock ", name);
	sim_point();
	sim_check_sleep("wait for a lock");
	sim_order_check(lock, class);
	task->wanted = lock;
	task->wanted_class = class;
	task->wanted_since = env_sim.now;
	task->wanted_waits = task->nr_waits;
}

void sim_own_lock_taken(const void *lock, const char *name)
{
	struct sim_task *task = env_sim.current;
	unsigned int class = sim_order_named_class(name);

	if (task->wanted == lock && task->nr_waits != task->wanted_waits)
		sim_order_waited(class, task->wanted_since);
	task->wanted = NULL;
	hold(task, (struct sim_held){.addr = lock, .class = class});
	sim_script_point("after lock ", name);
	sim_point();
}

void sim_own_lock_gone(const void *lock)
{
	struct sim_task *task = env_sim.current;

	for (unsigned int i = 0; env_unlikely(env_sim.nr_armed > 0) && i < task->nr_held; i++)
		if (task->held[i].addr == lock)
			sim_script_check("before unlock ", sim_class_name(task->held[i].class));
	sim_point();
	if (forget_held(lock, false))
		sim_note(SIM_NOTE_UNLOCK, task->id, 0);
}

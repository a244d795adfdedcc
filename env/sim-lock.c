/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * sim-lock.c - mutex and readers-writer lock of the simulator
 *
 * A free lock is its memory alone, all zero.  One that is held or waited for
 * has a record with its owner and its waiters; a word in the lock is the
 * record's number.
 *
 * Faithful: who unlocks hands the lock to the one that waits longest (CB3), so
 * a lock with waiters is never free.  Adversarial: who unlocks wakes all, and
 * any task may come first.
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

/* What env.h's assertions look at; and nothing is left of a lock that is free.
 */
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

static void give(struct sim_lock *lock, struct sim_task *task, bool shared)
{
	if (task->nr_held == task->max_held) {
		task->max_held = task->max_held ? task->max_held * 2 : 16;
		task->held = sim_checked(realloc(task->held, task->max_held * sizeof(*task->held)));
	}
	task->held[task->nr_held++] = (struct sim_held){lock, shared};
	if (shared)
		lock->nr_readers++;
	else
		lock->owner = task;
	sim_note(SIM_NOTE_LOCK, task->id, (uint64_t)lock->class << 1 | shared);
}

/* Hand it to the first waiter; and to the next ones too while they are readers.
 */
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

/* Does its owner wait, maybe through others, for the current task? */
static void check_circle(struct sim_lock *lock)
{
	const struct sim_task *task = lock->owner;

	for (unsigned int i = 0; task && i < env_sim.nr_tasks; i++) {
		if (task == env_sim.current)
			sim_fail(ENV_SIM_DEADLOCK,
				 "the current task waits for the %s \"%s\", whose "
				 "owner waits for it",
				 kind_of(lock), sim_class_name(lock->class));
		if (task->wait.kind != SIM_WAIT_LOCK)
			return;
		task = task->wait.lock->owner;
	}
}

static void wait_for(struct sim_lock *lock, bool shared)
{
	struct sim_task *task = env_sim.current;

	task->wait.kind = SIM_WAIT_LOCK;
	task->wait.lock = lock;
	task->wait.shared = shared;
	check_circle(lock);
	sim_list_append(&lock->waiters, &task->link);
	publish(lock);
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

static void forget_held(const struct sim_lock *lock, bool shared)
{
	struct sim_task *task = env_sim.current;

	for (unsigned int i = task->nr_held; i-- > 0;) {
		if (task->held[i].lock != lock || task->held[i].shared != shared)
			continue;
		task->nr_held--;
		for (; i < task->nr_held; i++)
			task->held[i] = task->held[i + 1];
		return;
	}
	sim_fail(ENV_SIM_MISUSE, "unlock of the %s \"%s\", which the current task does not hold",
		 kind_of(lock), sim_class_name(lock->class));
}

static void put(struct sim_lock *lock, bool shared)
{
	forget_held(lock, shared);
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

void sim_mutex_lock(struct env_mutex *mutex)
{
	sim_point();
	sim_order_check(sim_order_class(mutex));
	while (!try_take(mutex_record(mutex), false)) {
		wait_for(mutex_record(mutex), false);
		if (!env_sim.adversarial)
			return;
	}
}

bool sim_mutex_trylock(struct env_mutex *mutex)
{
	sim_point();
	return try_take(mutex_record(mutex), false);
}

void sim_mutex_unlock(struct env_mutex *mutex)
{
	put(mutex_record(mutex), false);
	sim_point();
}

static void rwsem_lock(struct env_rwsem *sem, bool shared)
{
	sim_point();
	sim_check_sleep("wait for a readers-writer lock");
	sim_order_check(sim_order_class(sem));
	while (!try_take(rwsem_record(sem), shared)) {
		wait_for(rwsem_record(sem), shared);
		if (!env_sim.adversarial)
			return;
	}
}

static bool rwsem_trylock(struct env_rwsem *sem, bool shared)
{
	sim_point();
	return try_take(rwsem_record(sem), shared);
}

static void rwsem_unlock(struct env_rwsem *sem, bool shared)
{
	put(rwsem_record(sem), shared);
	sim_point();
}

void sim_rwsem_read_lock(struct env_rwsem *sem)
{
	rwsem_lock(sem, true);
}

bool sim_rwsem_read_trylock(struct env_rwsem *sem)
{
	return rwsem_trylock(sem, true);
}

void sim_rwsem_read_unlock(struct env_rwsem *sem)
{
	rwsem_unlock(sem, true);
}

void sim_rwsem_write_lock(struct env_rwsem *sem)
{
	rwsem_lock(sem, false);
}

bool sim_rwsem_write_trylock(struct env_rwsem *sem)
{
	return rwsem_trylock(sem, false);
}

void sim_rwsem_write_unlock(struct env_rwsem *sem)
{
	rwsem_unlock(sem, false);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * lock.c - mutex and readers-writer lock on the host
 *
 * Mutex: the word is 0 (free), 1 (held) or 2 (held, somebody may sleep).  A taker spins
 * for about a microsecond, then leaves 2 behind and sleeps; who unlocks a 2 wakes one.
 *
 * Readers-writer lock: a reader counts itself in a slot, then looks for a writer; a writer
 * announces itself in `writer`, then looks at the slots.  Both do so with SEQ_CST
 * operations, so at least one of them sees the other:
 *
 *	reader:	readers++; writer?	 yes: readers--, sleep on `writer`, again
 *	writer:	writer = 1; readers?	 yes: sleep on that slot until it is empty
 *
 * `writer` is 1 while one holds or wants the lock, 2 if besides readers sleep on it.
 * SLOT_DRAIN in a slot says that the writer sleeps there; the last reader out wakes it.
 */
#include "internal.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

#define MUTEX_SPINS 100

/* The writer sleeps until the rest of the slot is zero. */
#define SLOT_DRAIN 0x80000000u

#define WRITER_NONE    0
#define WRITER_ALONE   1
#define WRITER_WAITERS 2

/* After so many vain rounds a reader queues up among the writers instead. */
#define READER_ROUNDS 4

static_assert(sizeof(((struct env_rwsem *)NULL)->slot[0]) == 64, "a slot is a cache line");

/* ---- mutex ---- */

static bool mutex_cas(struct env_mutex *mutex, uint32_t from, uint32_t to)
{
	return __atomic_compare_exchange_n(&mutex->word, &from, to, false, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
}

/* Spin while the holder is likely to leave soon: nobody sleeps yet. */
static bool mutex_spin(struct env_mutex *mutex)
{
	for (int i = 0; i < MUTEX_SPINS; i++) {
		uint32_t word = __atomic_load_n(&mutex->word, __ATOMIC_RELAXED);

		if (word == 2)
			return false;
		if (word == 0 && mutex_cas(mutex, 0, 1))
			return true;
		env_cpu_relax();
	}
	return false;
}

void env_mutex_lock_slow(struct env_mutex *mutex)
{
	if (mutex_spin(mutex))
		return;
	/* We cannot know whether others sleep too, so we take it as 2. */
	while (__atomic_exchange_n(&mutex->word, 2, __ATOMIC_ACQUIRE) != 0)
		env_posix_futex_wait(&mutex->word, 2, ENV_FOREVER);
}

/* The mutex is free already and may be gone: only its address is used. */
void env_mutex_wake(struct env_mutex *mutex)
{
	env_posix_futex_wake(&mutex->word, 1);
}

void env_posix_mutex_lock(struct env_mutex *mutex)
{
	if (env_unlikely(!mutex_cas(mutex, 0, 1)))
		env_mutex_lock_slow(mutex);
}

bool env_posix_mutex_trylock(struct env_mutex *mutex)
{
	return mutex_cas(mutex, 0, 1);
}

void env_posix_mutex_unlock(struct env_mutex *mutex)
{
	if (env_unlikely(__atomic_exchange_n(&mutex->word, 0, __ATOMIC_RELEASE) == 2))
		env_mutex_wake(mutex);
}

/* ---- readers ---- */

static uint32_t *reader_slot(struct env_rwsem *sem)
{
	return &sem->slot[env_task_slot()].readers;
}

static void reader_enter(struct env_rwsem *sem)
{
	__atomic_fetch_add(reader_slot(sem), 1, __ATOMIC_SEQ_CST);
}

static bool writer_seen(const struct env_rwsem *sem)
{
	return __atomic_load_n(&sem->writer, __ATOMIC_SEQ_CST) != WRITER_NONE;
}

/* This thread has left its slot and saw a writer, which may sleep there. */
void env_rwsem_read_wake(struct env_rwsem *sem)
{
	uint32_t *slot = reader_slot(sem);

	if (__atomic_load_n(slot, __ATOMIC_SEQ_CST) == SLOT_DRAIN)
		env_posix_futex_wake(slot, INT_MAX);
}

static void reader_leave(struct env_rwsem *sem)
{
	__atomic_fetch_sub(reader_slot(sem), 1, __ATOMIC_SEQ_CST);
	if (env_unlikely(writer_seen(sem)))
		env_rwsem_read_wake(sem);
}

static void reader_sleep(struct env_rwsem *sem)
{
	uint32_t alone = WRITER_ALONE;

	/* Fails if the writer has left, or if it knows of sleepers already. */
	if (!__atomic_compare_exchange_n(&sem->writer, &alone, WRITER_WAITERS, false,
					 __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) &&
	    alone == WRITER_NONE)
		return;
	env_posix_futex_wait(&sem->writer, WRITER_WAITERS, ENV_FOREVER);
}

/* Counted in its slot but a writer is there: back out, wait, try again. */
void env_rwsem_read_lock_slow(struct env_rwsem *sem)
{
	for (int round = 0; round < READER_ROUNDS; round++) {
		reader_leave(sem);
		reader_sleep(sem);
		reader_enter(sem);
		if (!writer_seen(sem))
			return;
	}

	/* Writers come one after the other: take a place in their queue. */
	reader_leave(sem);
	env_posix_mutex_lock(&sem->writers);
	reader_enter(sem);
	env_posix_mutex_unlock(&sem->writers);
}

void env_posix_rwsem_read_lock(struct env_rwsem *sem)
{
	reader_enter(sem);
	if (env_unlikely(writer_seen(sem)))
		env_rwsem_read_lock_slow(sem);
}

bool env_posix_rwsem_read_trylock(struct env_rwsem *sem)
{
	if (writer_seen(sem))
		return false;
	reader_enter(sem);
	if (env_likely(!writer_seen(sem)))
		return true;
	reader_leave(sem);
	return false;
}

void env_posix_rwsem_read_unlock(struct env_rwsem *sem)
{
	reader_leave(sem);
}

/* ---- writers ---- */

static void writer_announce(struct env_rwsem *sem)
{
	__atomic_exchange_n(&sem->writer, WRITER_ALONE, __ATOMIC_SEQ_CST);
}

static void writer_withdraw(struct env_rwsem *sem)
{
	if (__atomic_exchange_n(&sem->writer, WRITER_NONE, __ATOMIC_SEQ_CST) == WRITER_WAITERS)
		env_posix_futex_wake(&sem->writer, INT_MAX);
	env_posix_mutex_unlock(&sem->writers);
}

/* Wait until the slot's readers are gone; those that come now back out again. */
static void slot_drain(uint32_t *slot)
{
	uint32_t readers = __atomic_load_n(slot, __ATOMIC_SEQ_CST);

	if (env_likely(readers == 0))
		return;
	while ((readers & ~SLOT_DRAIN) != 0) {
		if (!(readers & SLOT_DRAIN) &&
		    !__atomic_compare_exchange_n(slot, &readers, readers | SLOT_DRAIN, false,
						 __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			continue;
		env_posix_futex_wait(slot, readers | SLOT_DRAIN, ENV_FOREVER);
		readers = __atomic_load_n(slot, __ATOMIC_SEQ_CST);
	}
	__atomic_fetch_and(slot, ~SLOT_DRAIN, __ATOMIC_SEQ_CST);
}

static bool readers_seen(const struct env_rwsem *sem)
{
	for (unsigned int i = 0; i < ENV_RWSEM_SLOTS; i++)
		if (__atomic_load_n(&sem->slot[i].readers, __ATOMIC_SEQ_CST) != 0)
			return true;
	return false;
}

void env_posix_rwsem_write_lock(struct env_rwsem *sem)
{
	env_posix_mutex_lock(&sem->writers);
	writer_announce(sem);
	for (unsigned int i = 0; i < ENV_RWSEM_SLOTS; i++)
		slot_drain(&sem->slot[i].readers);
}

bool env_posix_rwsem_write_trylock(struct env_rwsem *sem)
{
	if (readers_seen(sem))
		return false;
	if (!env_posix_mutex_trylock(&sem->writers))
		return false;
	writer_announce(sem);
	if (!readers_seen(sem))
		return true;
	writer_withdraw(sem);
	return false;
}

void env_posix_rwsem_write_unlock(struct env_rwsem *sem)
{
	assert(env_rwsem_is_write_locked(sem));
	writer_withdraw(sem);
}

/* ---- dispatch ---- */

void env_rwsem_init(struct env_rwsem *sem, const char *name)
{
	memset(sem, 0, sizeof(*sem));
	if (env_unlikely(env_world != NULL))
		env_world->lock_init(sem, name);
}

bool env_rwsem_read_trylock(struct env_rwsem *sem)
{
	if (env_unlikely(env_world != NULL))
		return env_world->rwsem_read_trylock(sem);
	return env_posix_rwsem_read_trylock(sem);
}

void env_rwsem_write_lock(struct env_rwsem *sem)
{
	if (env_unlikely(env_world != NULL))
		env_world->rwsem_write_lock(sem);
	else
		env_posix_rwsem_write_lock(sem);
}

bool env_rwsem_write_trylock(struct env_rwsem *sem)
{
	if (env_unlikely(env_world != NULL))
		return env_world->rwsem_write_trylock(sem);
	return env_posix_rwsem_write_trylock(sem);
}

void env_rwsem_write_unlock(struct env_rwsem *sem)
{
	if (env_unlikely(env_world != NULL))
		env_world->rwsem_write_unlock(sem);
	else
		env_posix_rwsem_write_unlock(sem);
}

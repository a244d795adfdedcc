/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * lockdep.h - a world that finds lock-order inversions before they deadlock
 *
 *	env_lockdep_install();		first of all, in a test
 *	env_lockdep_allow("folio");	several folios may be locked at once
 *	... run the program ...
 *	assert(!env_lockdep_found());
 *
 * A lock's class is its name.  Taking B while A is held says "A before B"; when such facts
 * form a circle, or a class nests in itself, the chains are printed on stderr.  Every order
 * needs to be seen only once, in any thread, at any time: no race has to be hit.
 */
#ifndef ENV_LOCKDEP_H
#define ENV_LOCKDEP_H

#include <iomap/env.h>

extern const struct env_world env_lockdep_world;

void env_lockdep_install(void);

/* Has any inversion been reported? */
bool env_lockdep_found(void);

/*
 * ---- below: for each world that checks locks, the simulator too; else nothing is done, at the
 * cost of one branch
 */

void env_lockdep_do_allow(const char *name);
void env_lockdep_do_wait(const void *lock, const char *name);
void env_lockdep_do_taken(const void *lock, const char *name);
void env_lockdep_do_release(const void *lock);

/* Two locks of this class may be held at once; their users know in which order. */
static inline void env_lockdep_allow(const char *name)
{
	if (env_unlikely(env_world != NULL))
		env_lockdep_do_allow(name);
}

/*
 * For what is a lock but not one of env.h's, such as a bit in a word: call wait before a loop
 * that may wait for it, and taken once it is had.  A try says taken alone, since a try cannot
 * deadlock.  The name stays for the life of the process.
 */
static inline void env_lockdep_wait(const void *lock, const char *name)
{
	if (env_unlikely(env_world != NULL))
		env_lockdep_do_wait(lock, name);
}

static inline void env_lockdep_taken(const void *lock, const char *name)
{
	if (env_unlikely(env_world != NULL))
		env_lockdep_do_taken(lock, name);
}

/*
 * By the thread that took it, before it is free.  If another thread will unlock, call this where
 * the lock is handed over; releasing what this thread does not hold does nothing.
 */
static inline void env_lockdep_release(const void *lock)
{
	if (env_unlikely(env_world != NULL))
		env_lockdep_do_release(lock);
}

#endif

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

/* ---- below: nothing is done, at the cost of one branch, unless it is installed ---- */

void env_lockdep_do_allow(const char *name);
void env_lockdep_do_acquire(const void *obj, const char *name, bool can_wait);
void env_lockdep_do_release(const void *obj);

static inline bool env_lockdep_is_installed(void)
{
	return env_unlikely(env_world != NULL) && env_world == &env_lockdep_world;
}

/* Two locks of this class may be held at once; their users know in which order. */
static inline void env_lockdep_allow(const char *name)
{
	if (env_unlikely(env_lockdep_is_installed()))
		env_lockdep_do_allow(name);
}

/*
 * For what is a lock but not one of env.h's, such as a bit in a word.  Call before waiting
 * for it; a try that has succeeded says try_acquire instead, since a try cannot deadlock.
 */
static inline void env_lockdep_acquire(const void *obj, const char *name)
{
	if (env_unlikely(env_lockdep_is_installed()))
		env_lockdep_do_acquire(obj, name, true);
}

static inline void env_lockdep_try_acquire(const void *obj, const char *name)
{
	if (env_unlikely(env_lockdep_is_installed()))
		env_lockdep_do_acquire(obj, name, false);
}

/*
 * By the thread that acquired it.  If another thread will unlock, call this where the lock
 * is handed over; releasing what this thread does not hold does nothing.
 */
static inline void env_lockdep_release(const void *obj)
{
	if (env_unlikely(env_lockdep_is_installed()))
		env_lockdep_do_release(obj);
}

#endif

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * rcu.h - read without locks, free after the readers
 *
 *	env_rcu_read_lock();
 *	node = __atomic_load_n(&root->node, __ATOMIC_ACQUIRE);
 *	... look at node, do not sleep ...
 *	env_rcu_read_unlock();
 *
 *	__atomic_store_n(&root->node, NULL, __ATOMIC_RELEASE);
 *	env_rcu_call(&node->rcu, node_free);	node_free() runs when no reader is left
 *
 * On the host this is liburcu's bp flavour: threads need no registration, and a read
 * section costs a few plain instructions where the kernel has membarrier().
 */
#ifndef ENV_RCU_H
#define ENV_RCU_H

#include <iomap/env.h>

#if defined(__SANITIZE_THREAD__)
#define ENV_RCU_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ENV_RCU_TSAN 1
#endif
#endif

/*
 * Small liburcu functions become inline; their licence allows it to an LGPL library.  Not
 * where checkers would be compiled into them: liburcu's reader struct is not aligned as it
 * is declared, and UndefinedBehaviorSanitizer says so.
 */
#if !defined(ENV_RCU_TSAN) && !defined(__SANITIZE_ADDRESS__)
#ifndef _LGPL_SOURCE
#define _LGPL_SOURCE
#endif
#ifndef URCU_INLINE_SMALL_FUNCTIONS
#define URCU_INLINE_SMALL_FUNCTIONS
#endif
#endif
#include <urcu/urcu-bp.h>

#ifdef ENV_RCU_TSAN
/*
 * ThreadSanitizer cannot look into liburcu.  Everything before a read_unlock happens before
 * everything after a later grace period; this address stands for that.
 */
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);
extern char env_rcu_grace;
#define env_rcu_tsan_release() __tsan_release(&env_rcu_grace)
#define env_rcu_tsan_acquire() __tsan_acquire(&env_rcu_grace)
#else
#define env_rcu_tsan_release() ((void)0)
#define env_rcu_tsan_acquire() ((void)0)
#endif

struct env_rcu_head {
	void *words[2];
};

/* Read sections nest. */
static inline void env_rcu_read_lock(void)
{
	if (env_unlikely(env_world != NULL)) {
		env_world->rcu_read_lock();
		return;
	}
	urcu_bp_read_lock();
}

static inline void env_rcu_read_unlock(void)
{
	if (env_unlikely(env_world != NULL)) {
		env_world->rcu_read_unlock();
		return;
	}
	env_rcu_tsan_release();
	urcu_bp_read_unlock();
}

/*
 * Call fn(head) in some thread once every read section that runs now has ended.
 *
 * => not in a read section, and with no lock held that a reader could wait for: a world
 *    without rcu_call (lockdep) waits, and calls fn before it returns
 */
void env_rcu_call(struct env_rcu_head *head, void (*fn)(struct env_rcu_head *head));

/* Wait until every read section that runs now has ended.  Not in a read section. */
void env_rcu_synchronize(void);

/* Wait until every fn handed to env_rcu_call() before has returned.  Not from such an fn. */
void env_rcu_barrier(void);

#endif

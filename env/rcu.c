/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * rcu.c - grace periods: liburcu on the host, the world's own elsewhere
 */
#include "rcu.h"

#include "internal.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>

static_assert(sizeof(struct env_rcu_head) >= sizeof(struct rcu_head), "liburcu's head fits");
static_assert(_Alignof(struct env_rcu_head) >= _Alignof(struct rcu_head), "and is aligned");

void env_posix_rcu_read_lock(void)
{
	urcu_bp_read_lock();
}

void env_posix_rcu_read_unlock(void)
{
	env_rcu_tsan_release();
	urcu_bp_read_unlock();
}

void env_posix_rcu_synchronize(void)
{
	urcu_bp_synchronize_rcu();
	env_rcu_tsan_acquire();
}

#ifdef ENV_RCU_TSAN

char env_rcu_grace;

/*
 * A head has no room for a second function, so the calls are noted beside it; and since
 * liburcu's barrier looks like a race from outside, they are counted.  They run in order.
 */
static uint32_t nr_called;
static uint32_t nr_run;

struct call_note {
	struct rcu_head rcu;
	struct env_rcu_head *head;
	void (*fn)(struct env_rcu_head *head);
};

static void call_note_run(struct rcu_head *rcu)
{
	struct call_note *note = caa_container_of(rcu, struct call_note, rcu);

	env_rcu_tsan_acquire();
	note->fn(note->head);
	free(note);
	__atomic_fetch_add(&nr_run, 1, __ATOMIC_SEQ_CST);
	env_posix_futex_wake(&nr_run, INT_MAX);
}

static void posix_rcu_call(struct env_rcu_head *head, void (*fn)(struct env_rcu_head *head))
{
	struct call_note *note = malloc(sizeof(*note));

	if (!note)
		abort();
	note->head = head;
	note->fn = fn;
	env_rcu_tsan_release();
	__atomic_fetch_add(&nr_called, 1, __ATOMIC_SEQ_CST);
	urcu_bp_call_rcu(&note->rcu, call_note_run);
}

static void posix_rcu_barrier(void)
{
	uint32_t goal = __atomic_load_n(&nr_called, __ATOMIC_SEQ_CST);
	uint32_t run;

	while (run = __atomic_load_n(&nr_run, __ATOMIC_SEQ_CST), (int32_t)(goal - run) > 0)
		env_posix_futex_wait(&nr_run, run, ENV_FOREVER);
}

#else

static void posix_rcu_call(struct env_rcu_head *head, void (*fn)(struct env_rcu_head *head))
{
	/*
	 * The two heads are the same memory under two names, and so are the two function
	 * types to the calling convention; a function between them would need a third word.
	 */
	urcu_bp_call_rcu((struct rcu_head *)head, (void (*)(struct rcu_head *))(void (*)(void))fn);
}

static void posix_rcu_barrier(void)
{
	urcu_bp_barrier();
}

#endif

void env_rcu_call(struct env_rcu_head *head, void (*fn)(struct env_rcu_head *head))
{
	if (env_likely(env_world == NULL)) {
		posix_rcu_call(head, fn);
	} else if (env_world->rcu_call) {
		env_world->rcu_call(head, fn);
	} else {
		env_world->rcu_synchronize();
		fn(head);
	}
}

void env_rcu_synchronize(void)
{
	if (env_unlikely(env_world != NULL))
		env_world->rcu_synchronize();
	else
		env_posix_rcu_synchronize();
}

void env_rcu_barrier(void)
{
	if (env_likely(env_world == NULL))
		posix_rcu_barrier();
	else if (env_world->rcu_barrier)
		env_world->rcu_barrier();
	/* Else env_rcu_call() has waited already. */
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * internal.h - the host's own calls, which never look at env_world
 *
 * The public functions dispatch; these do the work on the host.  A world that wraps the
 * host (lockdep) calls them too.
 */
#ifndef ENV_INTERNAL_H
#define ENV_INTERNAL_H

#include <iomap/env.h>

/* posix.c */
int env_posix_thread_create(struct env_thread **thread, const char *name, void (*fn)(void *arg),
			    void *arg);
void env_posix_thread_join(struct env_thread *thread);
unsigned int env_posix_nr_cpus(void);
bool env_posix_futex_wait(const uint32_t *addr, uint32_t expected, uint64_t timeout_ns);
void env_posix_futex_wake(const uint32_t *addr, unsigned int nr);
uint64_t env_posix_clock_ns(void);
void env_posix_sleep_ns(uint64_t ns);
void env_posix_cpu(uint64_t ns);
void env_posix_switch_point(void);

/* lock.c */
void env_posix_mutex_lock(struct env_mutex *mutex);
bool env_posix_mutex_trylock(struct env_mutex *mutex);
void env_posix_mutex_unlock(struct env_mutex *mutex);
void env_posix_rwsem_read_lock(struct env_rwsem *sem);
bool env_posix_rwsem_read_trylock(struct env_rwsem *sem);
void env_posix_rwsem_read_unlock(struct env_rwsem *sem);
void env_posix_rwsem_write_lock(struct env_rwsem *sem);
bool env_posix_rwsem_write_trylock(struct env_rwsem *sem);
void env_posix_rwsem_write_unlock(struct env_rwsem *sem);

/* rcu.c */
void env_posix_rcu_read_lock(void);
void env_posix_rcu_read_unlock(void);
void env_posix_rcu_synchronize(void);

/* Tell the CPU that this is a spin loop. */
static inline void env_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ __volatile__("yield" : : : "memory");
#else
	__asm__ __volatile__("" : : : "memory");
#endif
}

#endif

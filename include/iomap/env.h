/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * env.h - the host: threads, locks, waits, clock, random numbers, memory
 *
 *	struct env_mutex lock;
 *
 *	env_mutex_init(&lock, "my lock");	the name is the lock's class
 *	env_mutex_lock(&lock);
 *	...
 *	env_mutex_unlock(&lock);
 *
 * Everything that waits, runs in parallel or reads a clock goes through here, in the
 * library and in a back end.  The program runs on the host itself (posix) unless
 * env_world names another world; each call then costs one predictable branch.
 *
 * No function here fails unless it says so.
 */
#ifndef IOMAP_ENV_H
#define IOMAP_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define env_likely(x)	__builtin_expect(!!(x), 1)
#define env_unlikely(x) __builtin_expect(!!(x), 0)

/* No limit for a wait. */
#define ENV_FOREVER UINT64_MAX

struct env_mutex {
	uint32_t word; /* 0 free, 1 held, 2 held and somebody waits */
};

/*
 * A readers-writer lock whose readers do not share a cache line: each thread counts
 * itself in the slot of its own.  A waiting writer keeps new readers out.
 */
#define ENV_RWSEM_SLOTS 4

struct env_rwsem {
	struct {
		uint32_t readers;
		uint32_t pad[15];
	} slot[ENV_RWSEM_SLOTS];
	uint32_t writer; /* 1 while a writer holds or wants it */
	struct env_mutex writers; /* one writer at a time */
	uint32_t pad[14];
};

/* An event count: waiters sleep until somebody says that something may have changed. */
struct env_waitq {
	uint32_t seq;
	uint32_t waiters;
};

struct env_completion {
	uint32_t done;
};

struct env_thread;
struct env_rcu_head;

/* What a span of a trace belongs to, see trace.h. */
enum env_track {
	ENV_TRACK_CPU, /* number: the CPU; name: the task that ran */
	ENV_TRACK_CONTEXT, /* number: the writeback context; name: "slice", "work", ... */
	ENV_TRACK_CHANNEL, /* number: the device's channel; name: "read", "write", "flush" */
	ENV_TRACK_LOCK, /* number: the task that waited; name: the lock's class */
};

/*
 * The world the program runs in, NULL for the host itself.  A world replaces every call
 * below by its own; set it before the first object is made and do not change it after.
 */
struct env_world {
	int (*thread_create)(struct env_thread **thread, const char *name, void (*fn)(void *arg),
			     void *arg);
	void (*thread_join)(struct env_thread *thread);
	void (*lock_init)(const void *lock, const char *name);
	void (*mutex_lock)(struct env_mutex *mutex);
	bool (*mutex_trylock)(struct env_mutex *mutex);
	void (*mutex_unlock)(struct env_mutex *mutex);
	void (*rwsem_read_lock)(struct env_rwsem *sem);
	bool (*rwsem_read_trylock)(struct env_rwsem *sem);
	void (*rwsem_read_unlock)(struct env_rwsem *sem);
	void (*rwsem_write_lock)(struct env_rwsem *sem);
	bool (*rwsem_write_trylock)(struct env_rwsem *sem);
	void (*rwsem_write_unlock)(struct env_rwsem *sem);
	bool (*futex_wait)(const uint32_t *addr, uint32_t expected, uint64_t timeout_ns);
	void (*futex_wake)(const uint32_t *addr, unsigned int nr);
	uint64_t (*clock_ns)(void);
	void (*sleep_ns)(uint64_t ns);
	void (*cpu)(uint64_t ns);
	unsigned int (*nr_cpus)(void);
	void (*rcu_read_lock)(void);
	void (*rcu_read_unlock)(void);
	void (*rcu_synchronize)(void);
	void (*switch_point)(void);
	/* Both or none; without, env_rcu_call() waits for readers itself and then calls. */
	void (*rcu_call)(struct env_rcu_head *head, void (*fn)(struct env_rcu_head *head));
	void (*rcu_barrier)(void);
	/* Optional: env_switch_point_at(); without, it is a switch_point. */
	void (*switch_point_at)(const char *name);
	/*
	 * Optional: a lock that is not one of env.h's, such as a bit in a word.  This task may
	 * have to wait for it; has it; gives it back, or over to another task.
	 */
	void (*own_lock_wait)(const void *lock, const char *name);
	void (*own_lock_taken)(const void *lock, const char *name);
	void (*own_lock_gone)(const void *lock);
	/* Optional: one task may hold several locks of that name. */
	void (*lock_may_nest)(const char *name);
	/* Optional, else lock_init: the lock is one of env_spin_init(). */
	void (*spin_init)(const void *lock, const char *name);
	/* Optional: record a span, see trace.h. */
	void (*trace_span)(enum env_track track, unsigned int number, const char *name,
			   uint64_t start_ns, uint64_t end_ns, uint64_t value);
};

extern const struct env_world *env_world;

/* ---- this thread -------------------------------------------------------------------- */

/* What the library keeps for each thread; all zero in a new thread. */
struct env_task {
	unsigned int slot; /* which reader slot of an env_rwsem is this thread's */
	uint64_t local[4]; /* words for the layers above, see ENV_LOCAL_* */
};

enum {
	ENV_LOCAL_DIRTIED, /* folio: bytes dirtied and not yet paid for by a sleep */
	ENV_LOCAL_DIRTIED_MAX, /* folio: how many until the next one, 0: not known yet */
	ENV_LOCAL_CANCELLED, /* iomap: not 0: operations of this thread end with -EINTR */
	ENV_LOCAL_PLACE, /* iomap: where the last copy of this thread ended, see cost.h */
};

extern __thread struct env_task env_task_self __attribute__((tls_model("initial-exec")));

unsigned int env_task_slot_assign(void);

static inline unsigned int env_task_slot(void)
{
	unsigned int slot = env_task_self.slot;

	return env_likely(slot) ? slot - 1 : env_task_slot_assign();
}

/*
 * Start a thread that runs fn(arg).  Returns 0 with *thread set, or a negative errno.
 * Every started thread must be joined once; the join frees it.
 */
int env_thread_create(struct env_thread **thread, const char *name, void (*fn)(void *arg),
		      void *arg);
void env_thread_join(struct env_thread *thread);

/* CPUs this world has, at least 1. */
unsigned int env_nr_cpus(void);

/* ---- futex-style waits -------------------------------------------------------------- */

/*
 * Sleep while *addr == expected, until woken or for timeout_ns.  May return early for no
 * reason: callers look again.  Returns false if the time ran out.
 */
bool env_futex_wait(const uint32_t *addr, uint32_t expected, uint64_t timeout_ns);
/* Wake up to nr threads that sleep on addr. */
void env_futex_wake(const uint32_t *addr, unsigned int nr);

/* ---- mutex -------------------------------------------------------------------------- */

void env_mutex_lock_slow(struct env_mutex *mutex);
void env_mutex_wake(struct env_mutex *mutex);

static inline void env_mutex_init(struct env_mutex *mutex, const char *name)
{
	mutex->word = 0;
	if (env_unlikely(env_world != NULL))
		env_world->lock_init(mutex, name);
}

/*
 * A mutex that is only ever held for a moment: its holder waits for nothing but other such
 * locks.  On the host it is like any other; a virtual CPU waits for it busily.
 */
static inline void env_spin_init(struct env_mutex *mutex, const char *name)
{
	mutex->word = 0;
	if (env_unlikely(env_world != NULL))
		(env_world->spin_init ? env_world->spin_init : env_world->lock_init)(mutex, name);
}

static inline bool env_mutex_trylock(struct env_mutex *mutex)
{
	uint32_t unlocked = 0;

	if (env_unlikely(env_world != NULL))
		return env_world->mutex_trylock(mutex);
	return __atomic_compare_exchange_n(&mutex->word, &unlocked, 1, false, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
}

static inline void env_mutex_lock(struct env_mutex *mutex)
{
	uint32_t unlocked = 0;

	if (env_unlikely(env_world != NULL)) {
		env_world->mutex_lock(mutex);
		return;
	}
	if (env_unlikely(!__atomic_compare_exchange_n(&mutex->word, &unlocked, 1, false,
						      __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)))
		env_mutex_lock_slow(mutex);
}

static inline void env_mutex_unlock(struct env_mutex *mutex)
{
	if (env_unlikely(env_world != NULL)) {
		env_world->mutex_unlock(mutex);
		return;
	}
	if (env_unlikely(__atomic_exchange_n(&mutex->word, 0, __ATOMIC_RELEASE) == 2))
		env_mutex_wake(mutex);
}

/* For assertions: somebody holds it (not necessarily this thread). */
static inline bool env_mutex_is_locked(const struct env_mutex *mutex)
{
	return __atomic_load_n(&mutex->word, __ATOMIC_RELAXED) != 0;
}

/* ---- readers-writer lock ------------------------------------------------------------ */

void env_rwsem_init(struct env_rwsem *sem, const char *name);
void env_rwsem_read_lock_slow(struct env_rwsem *sem);
void env_rwsem_read_wake(struct env_rwsem *sem);
bool env_rwsem_read_trylock(struct env_rwsem *sem);
void env_rwsem_write_lock(struct env_rwsem *sem);
bool env_rwsem_write_trylock(struct env_rwsem *sem);
void env_rwsem_write_unlock(struct env_rwsem *sem);

static inline void env_rwsem_read_lock(struct env_rwsem *sem)
{
	if (env_unlikely(env_world != NULL)) {
		env_world->rwsem_read_lock(sem);
		return;
	}
	__atomic_fetch_add(&sem->slot[env_task_slot()].readers, 1, __ATOMIC_SEQ_CST);
	if (env_unlikely(__atomic_load_n(&sem->writer, __ATOMIC_SEQ_CST)))
		env_rwsem_read_lock_slow(sem);
}

/* The thread that took the read lock gives it back. */
static inline void env_rwsem_read_unlock(struct env_rwsem *sem)
{
	if (env_unlikely(env_world != NULL)) {
		env_world->rwsem_read_unlock(sem);
		return;
	}
	__atomic_fetch_sub(&sem->slot[env_task_slot()].readers, 1, __ATOMIC_SEQ_CST);
	if (env_unlikely(__atomic_load_n(&sem->writer, __ATOMIC_SEQ_CST)))
		env_rwsem_read_wake(sem);
}

/* For assertions: a writer holds or wants it. */
static inline bool env_rwsem_is_write_locked(const struct env_rwsem *sem)
{
	return __atomic_load_n(&sem->writer, __ATOMIC_RELAXED) != 0;
}

/* ---- wait queue and completion ------------------------------------------------------ */

void env_waitq_init(struct env_waitq *queue);
/* Announce a wait: call, look at the condition, then env_waitq_wait() or _cancel(). */
uint32_t env_waitq_prepare(struct env_waitq *queue);
/* Sleep until a wake-up that came after the prepare.  Returns false if the time ran out. */
bool env_waitq_wait(struct env_waitq *queue, uint32_t key, uint64_t timeout_ns);
void env_waitq_cancel(struct env_waitq *queue);
/* Wake all waiters; cheap if there is none.  The condition must be changed before. */
void env_waitq_wake(struct env_waitq *queue);

/* Sleep on queue until condition is true. */
#define env_wait_event(queue, condition)                                                           \
	do {                                                                                       \
		uint32_t env_key_ = env_waitq_prepare(queue);                                      \
		if (condition) {                                                                   \
			env_waitq_cancel(queue);                                                   \
			break;                                                                     \
		}                                                                                  \
		env_waitq_wait(queue, env_key_, ENV_FOREVER);                                      \
	} while (1)

void env_completion_init(struct env_completion *completion);
/* Wakes the waiters; the completion may be gone as soon as a waiter has seen it. */
void env_complete(struct env_completion *completion);
void env_completion_wait(struct env_completion *completion);

/* ---- time --------------------------------------------------------------------------- */

uint64_t env_clock_ns(void); /* monotonic */
void env_sleep_ns(uint64_t ns);

/* Charge work to this task's CPU; nothing on the host, where work takes its own time. */
static inline void env_cpu(uint64_t ns)
{
	if (env_unlikely(env_world != NULL))
		env_world->cpu(ns);
}

/* A place where another task may run; nothing on the host. */
static inline void env_switch_point(void)
{
	if (env_unlikely(env_world != NULL))
		env_world->switch_point();
}

void env_switch_point_named(const char *name);

/* The same with a name, by which a script of the simulator can stop a task (sim.h). */
static inline void env_switch_point_at(const char *name)
{
	if (env_unlikely(env_world != NULL))
		env_switch_point_named(name);
}

/* ---- random numbers: a generator is its seed, the same on every machine ------------- */

struct env_rng {
	uint64_t state[4];
};

void env_rng_seed(struct env_rng *rng, uint64_t seed);
uint64_t env_rng_u64(struct env_rng *rng);
/* Uniform in [0, bound); bound > 0. */
uint64_t env_rng_below(struct env_rng *rng, uint64_t bound);

/* ---- memory ------------------------------------------------------------------------- */

/* NULL if there is none left or env_alloc_fail() said so. */
void *env_alloc(size_t size);
void *env_zalloc(size_t size);
void env_free(void *memory);

/*
 * Test hook: let `after` allocations of any thread succeed and fail the next `count`
 * (0: fail none).  Returns how many failed since the last call.
 */
unsigned int env_alloc_fail(unsigned int after, unsigned int count);

/*
 * Map size bytes of zeroed memory aligned to align (a power of two), on huge pages where the
 * host gives them; touched once if prefault.  NULL if the host has no room.
 */
void *env_arena_map(size_t size, size_t align, bool prefault);
void env_arena_unmap(void *memory, size_t size);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

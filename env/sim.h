/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * sim.h - what the files of the simulator share
 *
 *	sim.c		a run from its beginning to its end; the world
 *	sim-fiber.c	stacks, and the switch between them
 *	sim-task.c	tasks: start, end, join
 *	sim-sched.c	who runs when: CPUs, timers, the clock
 *	sim-lock.c	mutex and readers-writer lock
 *	sim-order.c	lock classes: their order, and waits for them
 *	sim-script.c	tasks stopped at a point, and let go
 *	sim-wait.c	futex waits and sleep
 *	sim-rcu.c	read sections, grace periods, callbacks
 *	sim-use.c	who used the CPUs; the trace
 *	sim-report.c	findings; sim-stack.c names what is on a stack
 *	sim-abort.c	names the seed when an assertion fails
 *
 * All of it runs on one thread, so nothing here is locked.  Its own memory comes from malloc, so
 * that tests which fail the n-th env_alloc() count the same.
 */
#ifndef ENV_SIM_H
#define ENV_SIM_H

#include "env/rcu.h"
#include "env/sim-fiber.h"
#include <iomap/env.h>
#include <iomap/sim.h>

#define SIM_FRAMES 24
#define SIM_STOPS  32

/* ---- lists: first in, first out, and out of the middle ---- */

struct sim_link {
	struct sim_link *next;
	struct sim_link *prev;
};

static inline void sim_list_init(struct sim_link *list)
{
	list->next = list;
	list->prev = list;
}

static inline bool sim_list_empty(const struct sim_link *list)
{
	return list->next == list;
}

static inline void sim_list_append(struct sim_link *list, struct sim_link *link)
{
	link->next = list;
	link->prev = list->prev;
	list->prev->next = link;
	list->prev = link;
}

static inline void sim_list_remove(struct sim_link *link)
{
	link->prev->next = link->next;
	link->next->prev = link->prev;
	sim_list_init(link);
}

#define sim_entry(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

/* ---- what there is ---- */

/* Something that happens at a time; those of one time in the order they were set. */
struct sim_event {
	uint64_t time;
	uint64_t seq;
	uint32_t pos; /* in the heap, from 1; 0: not set */
	bool of_cpu; /* else a task's timer */
};

struct sim_cpu {
	struct sim_event event; /* end of a slice, or start of `current` */
	struct sim_task *current; /* NULL: idle */
	struct sim_task *last; /* that ran here */
	struct sim_link queue; /* ready tasks */
	unsigned int nr_queued;
	uint64_t slice; /* being charged now */
	uint64_t busy_ns;
	struct env_trace_event span; /* not told yet; name NULL: none */
};

/* A lock that is held or waited for; others are but a word that is 0. */
struct sim_lock {
	const void *addr;
	uint32_t number; /* from 1, in env_sim.locks; never changed */
	uint32_t *word; /* in the lock: the number of this record */
	struct env_rwsem *sem; /* NULL: a mutex */
	unsigned int class;
	struct sim_task *owner; /* that holds it alone */
	unsigned int nr_readers;
	struct sim_link waiters;
	struct sim_lock *next_free;
};

struct sim_held {
	const void *addr;
	struct sim_lock *lock; /* NULL: it is not one of env.h's */
	unsigned int class;
	bool shared;
};

enum sim_state {
	SIM_READY, /* runs, or would if it were chosen */
	SIM_WAITING,
	SIM_DONE,
};

/* X(name, text): what a task waits for. */
#define SIM_WAITS(X)                                                                               \
	X(NOTHING, "nothing")                                                                      \
	X(LOCK, "lock")                                                                            \
	X(FUTEX, "futex")                                                                          \
	X(SLEEP, "its sleep to end")                                                               \
	X(JOIN, "task")                                                                            \
	X(RCU, "an RCU grace period")                                                              \
	X(RCU_BARRIER, "RCU callbacks")                                                            \
	X(RCU_WORK, "RCU callbacks to run")                                                        \
	X(STOPPED, "the script, at")                                                               \
	X(SCRIPT, "a task to come to")                                                             \
	X(QUIET, "all others to wait")

enum sim_wait_kind {
#define X(name, text) SIM_WAIT_##name,
	SIM_WAITS(X)
#undef X
};

struct sim_wait {
	enum sim_wait_kind kind;
	bool shared; /* LOCK: as a reader */
	bool timed_out;
	struct sim_lock *lock; /* LOCK */
	const uint32_t *word; /* FUTEX */
	uint32_t expected; /* FUTEX */
	struct sim_task *task; /* JOIN */
	uint64_t grace; /* RCU, RCU_BARRIER: what has to be reached */
	const char *point; /* STOPPED, SCRIPT */
	uint64_t start; /* when it began */
};

/* All tasks of one name. */
struct sim_kind {
	const char *name;
	uint64_t nr_tasks;
	uint64_t busy_ns;
};

struct sim_task {
	struct sim_fiber fiber;
	struct env_task self; /* env_task_self while another task runs */
	struct sim_link all; /* on env_sim.tasks */
	struct sim_link link; /* on a CPU's queue or with others that wait for the same */
	struct sim_event timer;
	enum sim_state state;
	struct sim_wait wait;

	unsigned int cpu; /* where it is or was last */
	uint64_t charge; /* of an env_cpu(), still to be worked off */
	uint64_t turn; /* left of its quantum */
	uint32_t ready_pos; /* adversarial: in env_sim.ready */
	uint64_t priority; /* adversarial */

	/* A lock that is not one of env.h's and is wanted, but not had yet. */
	const void *wanted;
	unsigned int wanted_class;
	uint64_t wanted_since;
	uint64_t wanted_waits; /* nr_waits then */
	uint64_t nr_waits; /* of any kind */

	struct sim_held *held;
	unsigned int nr_held;
	unsigned int max_held;

	unsigned int nr_spins; /* held, of env_spin_init() */
	bool spins; /* faithful: waits for one, on its CPU */

	unsigned int rcu_nesting;
	uint64_t rcu_start; /* of the outermost section */
	struct sim_link rcu_link; /* on env_sim.rcu_readers */

	unsigned int id; /* from 1, in order of creation */
	bool started;
	bool service; /* the simulator's own */
	void (*fn)(void *arg);
	void *arg;
	const char *name; /* from order_name() */
	struct sim_kind *kind;

	int nr_frames; /* for a report */
	void *frames[SIM_FRAMES];
};

struct sim_futex_bucket {
	struct sim_link waiters;
};

#define SIM_FUTEX_BUCKETS 64

/* How an adversarial run chooses; drawn from the seed. */
struct sim_style {
	bool by_priority; /* the highest runs, until it is put last; else anyone */
	uint64_t switch_mask; /* a switch at a point is one in mask + 1 */
	uint64_t early_mask; /* the next timer goes off early once in mask + 1 points */
	bool spurious; /* waits may end for no reason */
};

/* Of a script: the task stops when it comes to the point for the nth time. */
struct sim_stop {
	const char *point; /* NULL: free */
	const char *task; /* its name; NULL: any */
	unsigned int nth;
	unsigned int left; /* until it stops */
	struct sim_task *stopped; /* after that */
};

/* One per process, like env_world. */
struct sim {
	struct env_sim_config config;
	bool adversarial;
	bool running;
	struct sim_fiber host;
	struct sim_task *current;
	struct sim_task *main;
	struct sim_link tasks;
	unsigned int nr_tasks; /* that exist */
	unsigned int nr_created;

	uint64_t now;
	uint64_t deadline; /* of the run */
	uint64_t overtime; /* when it passed and was put off; 0: it was not */
	uint64_t seq; /* of events */
	struct sim_event **heap; /* from index 1 */
	uint32_t nr_events;
	uint32_t max_events;
	struct sim_cpu cpus[ENV_SIM_MAX_CPUS];
	uint64_t idle[ENV_SIM_MAX_CPUS / 64]; /* a bit for each CPU without a task */
	unsigned int nr_queued; /* on all CPUs */
	struct sim_kind kinds[ENV_SIM_MAX_KINDS];
	unsigned int nr_kinds;

	struct env_rng rng;
	struct sim_style style;
	uint64_t next_low; /* priority of the next task that is put last, counting down */
	struct sim_task **ready; /* adversarial: all that could run, with the current one */
	uint32_t nr_ready;

	uint64_t steps; /* since the clock moved */
	uint64_t switches;
	uint64_t hash;

	struct sim_lock **locks; /* records by number - 1 */
	uint32_t nr_locks;
	uint32_t max_locks;
	struct sim_lock *free_lock;

	struct sim_futex_bucket futexes[SIM_FUTEX_BUCKETS];

	uint64_t rcu_clock;
	struct sim_link rcu_readers; /* tasks in a section, oldest first */
	struct sim_link rcu_waiters; /* tasks that wait for them */
	struct sim_link rcu_barriers; /* tasks that wait for callbacks */
	struct sim_task *rcu_task;
	struct env_rcu_head *rcu_first;
	struct env_rcu_head *rcu_last;
	uint64_t rcu_called;
	uint64_t rcu_done;

	struct sim_stop stops[SIM_STOPS];
	unsigned int nr_armed; /* stops whose task has not come */
	unsigned int nr_quiet; /* tasks that wait for all others to wait */

	struct sim_fiber *capturer; /* who wants the stack of the task that is switched to */
	enum env_sim_finding finding;
	char *text;
};

extern struct sim env_sim;

/* ---- sim.c ---- */

extern const struct env_world sim_world;

/* memory, or the end of the process: the simulator itself cannot go on without. */
void *sim_checked(void *memory);

enum sim_note {
	SIM_NOTE_SWITCH,
	SIM_NOTE_LOCK,
	SIM_NOTE_UNLOCK,
	SIM_NOTE_WAIT,
	SIM_NOTE_WAKE,
	SIM_NOTE_CPU,
	SIM_NOTE_START,
	SIM_NOTE_END,
	SIM_NOTE_RCU,
};

/* Add to the hash of what happened. */
static inline void sim_note(enum sim_note note, uint64_t id, uint64_t value)
{
	uint64_t mixed = (env_sim.hash ^ env_sim.now ^ (uint64_t)note << 56 ^ id << 32 ^ value) *
			 0x9e3779b97f4a7c15u;

	env_sim.hash = mixed ^ mixed >> 29;
}

/* ---- sim-task.c ---- */

/* service: it is the simulator's own. */
int sim_task_create(struct sim_task **task, const char *name, void (*fn)(void *arg), void *arg,
		    bool service);
/* It is done, or the run is over. */
void sim_task_free(struct sim_task *task);
int sim_thread_create(struct env_thread **thread, const char *name, void (*fn)(void *arg),
		      void *arg);
void sim_thread_join(struct env_thread *thread);
/* Let the task run in place of the current one. */
void sim_task_switch(struct sim_task *task);
/* Put the task's stack in task->frames. */
void sim_task_capture(struct sim_task *task);

/* ---- sim-sched.c ---- */

void sim_sched_init(void);
void sim_sched_free(void);
void sim_sched_reserve(unsigned int nr_tasks);
/* The task is going to be freed. */
void sim_sched_forget(const struct sim_task *task);
/* Whose turn it is when nobody runs. */
struct sim_task *sim_next(void);
/* A place where the adversary may let another task go on. */
void sim_point(void);
/* The current task waits, for what is in its wait; at most until the time. False: timed out. */
bool sim_block(uint64_t until);
/* The same on its CPU, which it keeps busy; for a moment. */
void sim_spin(void);
/* The task need not wait any more. */
void sim_unblock(struct sim_task *task);
/* The current task is at its end. */
void sim_end(void) __attribute__((noreturn));
void sim_cpu(uint64_t ns);
uint64_t sim_clock_ns(void);
unsigned int sim_nr_cpus(void);

/* ---- sim-use.c ---- */

/* Into an array of ENV_SIM_NAME, cut if need be. */
void sim_name_copy(char *to, const char *name);
/* The kind of tasks of that name, which is from order_name(). */
struct sim_kind *sim_kind(const char *name);
void sim_use_fill(struct env_sim_result *result);
void sim_trace_span(enum env_track track, unsigned int number, const char *name, uint64_t start_ns,
		    uint64_t end_ns, uint64_t value);
void sim_trace_cpu(struct sim_cpu *cpu, const struct sim_task *task, uint64_t start, uint64_t end);
/* Tell what was kept back. */
void sim_trace_end(void);

/* The task has the CPU for ns from start on. */
static inline void sim_busy(struct sim_cpu *cpu, struct sim_task *task, uint64_t start, uint64_t ns)
{
	cpu->busy_ns += ns;
	task->kind->busy_ns += ns;
	if (env_unlikely(env_sim.config.trace != NULL) && ns > 0)
		sim_trace_cpu(cpu, task, start, start + ns);
}

/* ---- sim-lock.c ---- */

void sim_lock_init(const void *lock, const char *name);
void sim_spin_init(const void *lock, const char *name);
void sim_mutex_lock(struct env_mutex *mutex);
bool sim_mutex_trylock(struct env_mutex *mutex);
void sim_mutex_unlock(struct env_mutex *mutex);
void sim_rwsem_read_lock(struct env_rwsem *sem);
bool sim_rwsem_read_trylock(struct env_rwsem *sem);
void sim_rwsem_read_unlock(struct env_rwsem *sem);
void sim_rwsem_write_lock(struct env_rwsem *sem);
bool sim_rwsem_write_trylock(struct env_rwsem *sem);
void sim_rwsem_write_unlock(struct env_rwsem *sem);
void sim_locks_free(void);
void sim_own_lock_wait(const void *lock, const char *name);
void sim_own_lock_taken(const void *lock, const char *name);
void sim_own_lock_gone(const void *lock);
/* The task that has what the task waits for, or NULL. */
const struct sim_task *sim_owner_waited_for(const struct sim_task *task);
/* The current task is going to wait: does the owner wait, maybe through others, for it? */
void sim_check_circle(void);

/* ---- sim-order.c ---- */

void sim_order_free(void);
void sim_order_set_class(const void *lock, const char *name);
/* The lock's class is of locks that are held for a moment. */
void sim_order_set_spins(const void *lock);
bool sim_class_spins(unsigned int class);
/* The current task, going to sleep for `what`, holds none of those. */
void sim_check_spins(const char *what);
unsigned int sim_order_class(const void *lock);
/* By a name that stays. */
unsigned int sim_order_named_class(const char *name);
const char *sim_class_name(unsigned int class);
/* The current task has waited for a lock of the class since start. */
void sim_order_waited(unsigned int class, uint64_t start);
void sim_order_fill(struct env_sim_result *result);
void sim_lock_may_nest(const char *name);
/* The current task may have to wait for the lock. */
void sim_order_check(const void *lock, unsigned int class);
/* The current task may have to sleep: for `what`. */
void sim_check_sleep(const char *what);

/* ---- sim-script.c ---- */

/* Stop the current task, if a script says so. */
void sim_script_check(const char *what, const char *name);
void sim_switch_point_at(const char *name);
/* Nobody else can go on without time going on. */
void sim_script_quiet(void);
/* No task goes on, or the program has ended. */
void sim_script_fail_if_stuck(bool at_end);

static inline void sim_script_point(const char *what, const char *name)
{
	if (env_unlikely(env_sim.nr_armed > 0))
		sim_script_check(what, name);
}

/* ---- sim-wait.c ---- */

bool sim_futex_wait(const uint32_t *addr, uint32_t expected, uint64_t timeout_ns);
void sim_futex_wake(const uint32_t *addr, unsigned int nr);
void sim_sleep_ns(uint64_t ns);
/* now + ns, never more than ENV_FOREVER */
uint64_t sim_time_after(uint64_t ns);

/* ---- sim-rcu.c ---- */

void sim_rcu_init(void);
/* The task that runs callbacks. */
void sim_rcu_main(void *arg);
void sim_rcu_read_lock(void);
void sim_rcu_read_unlock(void);
void sim_rcu_synchronize(void);
void sim_rcu_call(struct env_rcu_head *head, void (*fn)(struct env_rcu_head *head));
void sim_rcu_barrier(void);

/* ---- sim-report.c ---- */

/* Write the report, and leave the run. */
void sim_fail(enum env_sim_finding finding, const char *format, ...)
	__attribute__((noreturn, format(printf, 1 + 1, 3)));
/* No task can run and no timer is set. */
void sim_fail_stalled(void) __attribute__((noreturn));
/* The clock has come to the deadline. */
void sim_time_limit(void);
/* Append to the report: what is printed in full, or cut. */
void sim_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
void sim_print_frames(void *const *frames, int nr);

/* ---- sim-abort.c ---- */

void sim_abort_watch(void);
void sim_abort_unwatch(void);

/* ---- sim-stack.c ---- */

/* Name of the function that contains the address and its offset; false: nobody knows. */
bool sim_stack_name(const void *addr, char *name, size_t size, size_t *offset);

#endif

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * sim.h - run a program on virtual CPUs under a virtual clock, the same way each time
 *
 *	struct env_sim_config config;
 *	struct env_sim_result result;
 *
 *	env_sim_config_init(&config);
 *	config.schedule = ENV_SIM_ADVERSARIAL;
 *	if (env_sim_run_seeds(&config, 1000, test_my_back_end, NULL, &result))
 *		fputs(result.text, stderr);	names the seed: run that one alone again
 *
 * The program is a function and all that it starts with env_thread_create(). Its threads are
 * coroutines on the calling thread; whatever env.h offers waits, sleeps and tells the time in
 * virtual nanoseconds.  Code takes no virtual time but for what it charges by env_cpu(): a
 * second of sleep costs nothing, and a million switches cost less than a second.
 *
 * A run is a function of the program, the configuration and the seed, if the program itself
 * decides nothing by addresses, by the host's clock or by other threads.
 *
 * Only what goes through env.h takes part: a task that waits for the host (a device of kind file
 * with its own host threads, a pthread mutex) stops the whole simulation.  While a run lasts
 * env_world is the simulator for the whole process, so no other thread may use env.h. Objects
 * made in a run are used and freed in that run.
 */
#ifndef IOMAP_SIM_H
#define IOMAP_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <iomap/trace.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

enum env_sim_schedule {
	/*
	 * For measurements.  First come, first served: locks are handed to whoever waits
	 * longest, a woken task goes to an idle CPU if there is one, and tasks share a CPU in
	 * turns of a quantum (VC22).  The seed changes nothing.
	 */
	ENV_SIM_FAITHFUL,
	/*
	 * For finding races.  Before and after each operation on a lock, wait or RCU, and at
	 * each env_switch_point(), the seed chooses which task goes on.  Locks may be overtaken,
	 * waits may return early, and a sleep may end while others have hardly moved: all that
	 * env.h allows.  CPUs do not limit anything.
	 */
	ENV_SIM_ADVERSARIAL,
};

/* X(name, text): what can be wrong with a program. */
#define ENV_SIM_FINDINGS(X)                                                                        \
	X(NONE, "nothing")                                                                         \
	X(DEADLOCK, "deadlock")                                                                    \
	X(LOST_WAKEUP, "lost wake-up")                                                             \
	X(LOCK_ORDER, "lock order inversion")                                                      \
	X(FORBIDDEN_WAIT, "forbidden wait")                                                        \
	X(LEAK, "leak at exit")                                                                    \
	X(MISUSE, "misuse of a lock")                                                              \
	X(LIVELOCK, "livelock")                                                                    \
	X(TIME_LIMIT, "time limit passed")                                                         \
	X(SCRIPT, "script that does not come true")

enum env_sim_finding {
#define X(name, text) ENV_SIM_##name,
	ENV_SIM_FINDINGS(X)
#undef X
};

#define ENV_SIM_MAX_CPUS  192
#define ENV_SIM_MAX_KINDS 64 /* of tasks, and of locks */
#define ENV_SIM_NAME	  32
#define ENV_SIM_TEXT	  16384

struct env_sim_config {
	enum env_sim_schedule schedule;
	uint64_t seed;
	unsigned int nr_cpus; /* 1 .. ENV_SIM_MAX_CPUS */
	uint64_t quantum_ns; /* a task's turn while others wait for its CPU */
	uint64_t switch_ns; /* charged when a CPU turns to another task (VC19); faithful */
	uint64_t wake_ns; /* until an idle CPU starts a woken task (VC19); faithful */
	uint64_t slow; /* how many times as long as charged all work takes; 1 .. 1000000 */
	uint64_t start_ns; /* what the clock says first */
	uint64_t max_ns; /* TIME_LIMIT after so much virtual time; 0: never */
	uint64_t max_steps; /* LIVELOCK after so many calls without it moving; 0: never */
	size_t stack_size; /* of each task, bytes */
	bool check_order; /* look for lock order inversions */
	/* Lock classes that may not be held while sleeping: names, then NULL; NULL: none. */
	const char *const *no_sleep;
	/* Lock classes of which a task may hold several at once; the same. */
	const char *const *may_nest;
	/*
	 * Called with each span of the run, in the order in which they become known; NULL: none.
	 * Names in events stay for the life of the process.  Not every call comes from a task, so
	 * it uses nothing of env.h.
	 *
	 *	ENV_TRACK_CPU	a task had the CPU so long without a break; value: its id
	 *	ENV_TRACK_LOCK	a task wanted a lock and could not go on without
	 */
	void (*trace)(void *arg, const struct env_trace_event *event);
	void *trace_arg;
};

/* What all tasks of one name did. */
struct env_sim_task_use {
	char name[ENV_SIM_NAME];
	uint64_t nr_tasks;
	uint64_t busy_ns; /* with the switches to them */
};

/* How long tasks waited for locks of one class, each wait until the task went on. */
struct env_sim_lock_use {
	char name[ENV_SIM_NAME];
	uint64_t waits;
	uint64_t wait_ns;
};

struct env_sim_result {
	enum env_sim_finding finding;
	uint64_t seed;
	uint64_t virtual_ns; /* how long it took */
	uint64_t switches; /* of tasks */
	uint64_t trace_hash; /* of all that happened, in order */
	uint64_t cpu_busy_ns[ENV_SIM_MAX_CPUS];
	/* By name, in order of the first task; the last one is "other" if there are too many. */
	unsigned int nr_kinds;
	struct env_sim_task_use kinds[ENV_SIM_MAX_KINDS];
	/* Those that were waited for, in order of the first lock that was made; the same. */
	unsigned int nr_locks;
	struct env_sim_lock_use locks[ENV_SIM_MAX_KINDS];
	/* Empty without a finding, else lines: what, seed, time, the tasks and their stacks. */
	char text[ENV_SIM_TEXT];
};

/* Faithful, seed 1, 2 CPUs, turns of 3 ms, switches and wake-ups for free. */
void env_sim_config_init(struct env_sim_config *config);
/* Switches and wake-ups cost what the table in cost.h says (VC19). */
void env_sim_config_costs(struct env_sim_config *config);

/*
 * Run fn(arg) and all that it starts, until fn returns or there is a finding. A task that fn
 * started and did not join, or a lock still held, is a finding too.
 *
 * Returns 0; -EPROTO with a finding: the program was left where it stood, and the memory it had
 * is lost; -EINVAL for a configuration out of range; -EBUSY inside a run; -ENOMEM. *result is
 * set in each case.
 */
int env_sim_run(const struct env_sim_config *config, void (*fn)(void *arg), void *arg,
		struct env_sim_result *result);

/*
 * The same for nr seeds from config->seed on, until the first that does not return 0. *result is
 * of the last run.
 */
int env_sim_run_seeds(const struct env_sim_config *config, uint64_t nr, void (*fn)(void *arg),
		      void *arg, struct env_sim_result *result);

/*
 * A script forces one interleaving: a task is stopped at a point, another one runs, the first
 * goes on.  It is part of the program, most often of the task that started the others, and it
 * works in both schedules.
 *
 *	env_sim_stop_at("after unlock extents", "reader", 1);
 *	env_thread_create(&reader, "reader", read_and_check, file);
 *	env_sim_wait_stopped("after unlock extents");	it has looked the place up, and not read
 *	env_thread_create(&puncher, "puncher", punch, file);
 *	env_sim_wait_quiet();			the punch is done, or waits for the reader
 *	env_sim_go("after unlock extents");
 *	env_thread_join(reader);
 *	env_thread_join(puncher);
 *
 * Points are the names that the code gives to env_switch_point_at(), and around locks of a class
 * C "before lock C", "after lock C" (the task has it), "before unlock C" and "after unlock C".
 *
 * A stop that nobody comes to, a task that is never let go, and a go with nobody to go are a
 * finding SCRIPT; if there are periodic timers, as in a cache with its flushers, after max_ns.
 */

/* Stop the task of that name (NULL: any) when it comes to the point for the nth time from now. */
void env_sim_stop_at(const char *point, const char *task, unsigned int nth);
/* Wait until all stops at the point have their task. */
void env_sim_wait_stopped(const char *point);
/* Let all tasks that are stopped at the point go on. */
void env_sim_go(const char *point);
/* Wait until no other task can go on before the clock does. */
void env_sim_wait_quiet(void);

/* "deadlock", ... */
const char *env_sim_finding_name(enum env_sim_finding finding);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

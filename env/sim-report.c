/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * sim-report.c - what is said about a finding
 *
 *	sim: deadlock: no task can run and no timer is set
 *	seed 7, adversarial, at 1.000000000 s, 2 tasks
 *	task 1 "main" waits for task 2 "worker"
 *	    wait_for_all+0x31
 *	task 2 "worker" waits for the mutex "A", held by task 1 "main"; holds "B"
 *	    ...
 *
 * No address is printed, so the text too is the same each time.
 */
#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What was told before the head of the report is known, such as the other half of a circle. */
static char details[ENV_SIM_TEXT / 2];

static void append(char *text, size_t size, const char *format, va_list args)
{
	size_t len = strlen(text);

	vsnprintf(text + len, size - len, format, args);
}

void sim_print(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	append(details, sizeof(details), format, args);
	va_end(args);
}

static void print(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void print(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	append(env_sim.text, ENV_SIM_TEXT, format, args);
	va_end(args);
}

/* ---- stacks ---- */

#define NAME_MAX_LEN 128

/* The simulator's calls are all named so; below the program's own come those that began it. */
static bool is_call(const char *name)
{
	return strncmp(name, "sim_", 4) == 0 || strncmp(name, "env_sim_", 8) == 0;
}

static bool is_root(const char *name)
{
	return strcmp(name, "sim_rcu_main") == 0 || strcmp(name, "sim_main_task") == 0 ||
	       strcmp(name, "sim_task_entry") == 0;
}

/* A frame's address is behind its call. */
static bool frame_name(const void *frame, char *name, size_t *offset)
{
	if (!sim_stack_name((const char *)frame - 1, name, NAME_MAX_LEN, offset))
		return false;
	(*offset)++;
	return true;
}

/* The program's own frames are [*first, the result). */
static int frames_of_program(void *const *frames, int nr, int *first)
{
	char name[NAME_MAX_LEN];
	size_t offset;

	*first = 0;
	for (int i = 0; i < nr; i++) {
		if (!frame_name(frames[i], name, &offset))
			return i;
		if (is_root(name))
			return i;
		if (is_call(name))
			*first = i + 1;
	}
	return nr;
}

static void frames_to(void (*out)(const char *format, ...), void *const *frames, int nr)
{
	char name[NAME_MAX_LEN];
	size_t offset;
	int first;
	int end = frames_of_program(frames, nr, &first);

	for (int i = first; i < end; i++)
		if (frame_name(frames[i], name, &offset))
			out("    %s+0x%zx\n", name, offset);
}

void sim_print_frames(void *const *frames, int nr)
{
	frames_to(sim_print, frames, nr);
}

/* ---- tasks ---- */

static void print_owner(const struct sim_task *task)
{
	const struct sim_task *owner = sim_owner_waited_for(task);

	if (owner)
		print(", held by task %u \"%s\"", owner->id, owner->name);
}

static void print_lock_wait(const struct sim_task *task)
{
	const struct sim_lock *lock = task->wait.lock;

	print(" waits for the %s \"%s\"", lock->sem ? "rwsem" : "mutex",
	      sim_class_name(lock->class));
	print_owner(task);
	if (lock->nr_readers)
		print(", held by %u readers", lock->nr_readers);
}

static void print_own_lock_wait(const struct sim_task *task)
{
	print(" waits for the lock \"%s\"", sim_class_name(task->wanted_class));
	print_owner(task);
}

static bool is_lost(const struct sim_task *task)
{
	return task->wait.kind == SIM_WAIT_FUTEX &&
	       __atomic_load_n(task->wait.word, __ATOMIC_SEQ_CST) != task->wait.expected;
}

static void print_wait(const struct sim_task *task)
{
	static const char *const texts[] = {
#define X(name, text) text,
		SIM_WAITS(X)
#undef X
	};
	const struct sim_wait *wait = &task->wait;

	if (wait->kind == SIM_WAIT_LOCK)
		print_lock_wait(task);
	else if (wait->kind == SIM_WAIT_FUTEX && task->wanted)
		print_own_lock_wait(task);
	else if (wait->kind == SIM_WAIT_FUTEX)
		print(" waits for a word to change from %u%s", wait->expected,
		      is_lost(task) ? ", and it has" : "");
	else if (wait->kind == SIM_WAIT_JOIN)
		print(" waits for task %u \"%s\" to end", wait->task->id, wait->task->name);
	else if (wait->kind == SIM_WAIT_STOPPED || wait->kind == SIM_WAIT_SCRIPT)
		print(" waits for %s \"%s\"", texts[wait->kind], wait->point);
	else if (wait->kind != SIM_WAIT_NOTHING)
		print(" waits for %s", texts[wait->kind]);
	else if (task->state == SIM_DONE)
		print(" has ended");
	else
		print(" runs");
}

static uint64_t waited(const struct sim_task *task)
{
	return task->state == SIM_WAITING ? env_sim.now - task->wait.start : 0;
}

static const char *seconds(uint64_t ns)
{
	static char text[32];

	snprintf(text, sizeof(text), "%llu.%09llu s", (unsigned long long)(ns / 1000000000u),
		 (unsigned long long)(ns % 1000000000u));
	return text;
}

static void print_task(struct sim_task *task)
{
	print("task %u \"%s\"", task->id, task->name);
	print_wait(task);
	for (unsigned int i = 0; i < task->nr_held; i++)
		print("%s \"%s\"", i ? "," : "; holds", sim_class_name(task->held[i].class));
	if (waited(task) > 0)
		print("; for %s", seconds(waited(task)));
	print("\n");
	task->nr_frames = 0;
	sim_task_capture(task);
	frames_to(print, task->frames, task->nr_frames);
}

/* An idle service has nothing to do with anything. */
static bool is_involved(const struct sim_task *task)
{
	return !task->service || task->wait.kind != SIM_WAIT_RCU_WORK;
}

static void print_tasks(void)
{
	if (env_sim.current)
		print_task(env_sim.current);
	for (struct sim_link *link = env_sim.tasks.next; link != &env_sim.tasks;
	     link = link->next) {
		struct sim_task *task = sim_entry(link, struct sim_task, all);

		if (task != env_sim.current && is_involved(task))
			print_task(task);
	}
}

/* ---- findings ---- */

void sim_fail(enum env_sim_finding finding, const char *format, ...)
{
	va_list args;

	env_sim.finding = finding;
	env_sim.text[0] = '\0';
	print("sim: %s: ", env_sim_finding_name(finding));
	va_start(args, format);
	append(env_sim.text, ENV_SIM_TEXT, format, args);
	va_end(args);
	print("\nseed %llu, %s, at %s, %u tasks\n", (unsigned long long)env_sim.config.seed,
	      env_sim.adversarial ? "adversarial" : "faithful", seconds(env_sim.now),
	      env_sim.nr_tasks - 1);
	print("%s", details);
	details[0] = '\0';
	print_tasks();
	sim_fiber_switch(&env_sim.current->fiber, &env_sim.host, false);
	__builtin_unreachable();
}

/* A task that sleeps since `until` or longer though its word has changed. */
static const struct sim_task *lost_task(uint64_t until)
{
	for (struct sim_link *link = env_sim.tasks.next; link != &env_sim.tasks;
	     link = link->next) {
		const struct sim_task *task = sim_entry(link, struct sim_task, all);

		if (is_lost(task) && task->wait.start <= until)
			return task;
	}
	return NULL;
}

static void fail_lost(const struct sim_task *task)
{
	sim_fail(ENV_SIM_LOST_WAKEUP, "task %u \"%s\" sleeps though its word has changed", task->id,
		 task->name);
}

void sim_fail_stalled(void)
{
	const struct sim_task *lost = lost_task(env_sim.now);

	sim_script_fail_if_stuck(false);
	if (lost)
		fail_lost(lost);
	sim_fail(ENV_SIM_DEADLOCK, "no task can run and no timer is set");
}

static const struct sim_task *longest_wait(void)
{
	const struct sim_task *longest = env_sim.main;

	for (struct sim_link *link = env_sim.tasks.next; link != &env_sim.tasks;
	     link = link->next) {
		const struct sim_task *task = sim_entry(link, struct sim_task, all);

		if (!task->service && waited(task) > waited(longest))
			longest = task;
	}
	return longest;
}

/*
 * Periodic timers hide a stall.  A task whose word has changed may be about to be woken: it gets
 * one more second.
 */
void sim_time_limit(void)
{
	const struct sim_task *task;

	sim_script_fail_if_stuck(false);
	if (env_sim.overtime == 0 && lost_task(env_sim.now)) {
		env_sim.overtime = env_sim.now;
		env_sim.deadline = sim_time_after(1000000000);
		return;
	}
	task = env_sim.overtime ? lost_task(env_sim.overtime) : NULL;
	if (task)
		fail_lost(task);
	task = longest_wait();
	sim_fail(ENV_SIM_TIME_LIMIT,
		 "the program has not ended; task %u \"%s\" waits longest, for %s", task->id,
		 task->name, seconds(waited(task)));
}

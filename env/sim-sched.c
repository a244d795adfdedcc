/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * sim-sched.c - who runs when: CPUs, timers, the clock
 *
 * Faithful: the simulation goes from event to event.  An event is a task's timer, or one of a
 * CPU: its task starts, or a slice of what that task charges is over.  Between two events the
 * task runs in no time at all.  A task that waits leaves its CPU to the next of the CPU's queue;
 * if that is empty the CPU takes the first of the longest other queue.
 *
 * Adversarial: all tasks that could run are in `ready`, and at each point one is drawn.
 *
 * There is no scheduler beside the tasks: whoever has to wait looks for the next and switches to
 * it, and often finds itself.
 */
#include "sim.h"

#include <stdlib.h>

/* ---- events: a binary heap ---- */

static bool event_before(const struct sim_event *a, const struct sim_event *b)
{
	return a->time != b->time ? a->time < b->time : a->seq < b->seq;
}

static void heap_put(uint32_t pos, struct sim_event *event)
{
	env_sim.heap[pos] = event;
	event->pos = pos;
}

static void heap_up(uint32_t pos, struct sim_event *event)
{
	for (; pos > 1 && event_before(event, env_sim.heap[pos / 2]); pos /= 2)
		heap_put(pos, env_sim.heap[pos / 2]);
	heap_put(pos, event);
}

static void heap_down(uint32_t pos, struct sim_event *event)
{
	uint32_t child;

	while (child = pos * 2, child <= env_sim.nr_events) {
		if (child < env_sim.nr_events &&
		    event_before(env_sim.heap[child + 1], env_sim.heap[child]))
			child++;
		if (!event_before(env_sim.heap[child], event))
			break;
		heap_put(pos, env_sim.heap[child]);
		pos = child;
	}
	heap_put(pos, event);
}

static void event_set(struct sim_event *event, uint64_t time)
{
	event->time = time;
	event->seq = env_sim.seq++;
	heap_up(++env_sim.nr_events, event);
}

static void event_cancel(struct sim_event *event)
{
	uint32_t pos = event->pos;
	struct sim_event *last;

	if (pos == 0)
		return;
	event->pos = 0;
	last = env_sim.heap[env_sim.nr_events--];
	if (last == event)
		return;
	if (pos > 1 && event_before(last, env_sim.heap[pos / 2]))
		heap_up(pos, last);
	else
		heap_down(pos, last);
}

static void clock_set(uint64_t time)
{
	if (time == env_sim.now)
		return;
	env_sim.now = time;
	env_sim.steps = 0;
	if (env_unlikely(time > env_sim.deadline))
		sim_time_limit();
}

static void count_step(void)
{
	if (env_unlikely(++env_sim.steps > env_sim.config.max_steps) && env_sim.config.max_steps)
		sim_fail(ENV_SIM_LIVELOCK, "the clock stands still");
}

/* ---- faithful: CPUs ---- */

/* Who holds a spinning lock at the end of its turn goes on for so long. */
#define SPIN_TURN_NS 10000

static void cpu_start(struct sim_cpu *cpu, struct sim_task *task, uint64_t delay)
{
	unsigned int number = (unsigned int)(cpu - env_sim.cpus);

	cpu->current = task;
	env_sim.idle[number / 64] &= ~(1ull << number % 64);
	task->cpu = number;
	task->turn = env_sim.config.quantum_ns;
	/* What the simulator needs for itself costs nothing. */
	if (cpu->last != task && !task->service) {
		cpu->last = task;
		sim_busy(cpu, task, env_sim.now + delay, env_sim.config.switch_ns);
		delay += env_sim.config.switch_ns;
	}
	event_set(&cpu->event, env_sim.now + delay);
}

static void cpu_enqueue(struct sim_cpu *cpu, struct sim_task *task)
{
	sim_list_append(&cpu->queue, &task->link);
	cpu->nr_queued++;
	env_sim.nr_queued++;
}

static struct sim_task *cpu_dequeue(struct sim_cpu *cpu)
{
	struct sim_task *task = sim_entry(cpu->queue.next, struct sim_task, link);

	sim_list_remove(&task->link);
	cpu->nr_queued--;
	env_sim.nr_queued--;
	return task;
}

static struct sim_cpu *longest_queue(void)
{
	struct sim_cpu *longest = &env_sim.cpus[0];

	for (unsigned int i = 1; i < env_sim.config.nr_cpus; i++)
		if (env_sim.cpus[i].nr_queued > longest->nr_queued)
			longest = &env_sim.cpus[i];
	return longest;
}

/* The CPU's task has left. */
static void cpu_next(struct sim_cpu *cpu)
{
	unsigned int number = (unsigned int)(cpu - env_sim.cpus);

	cpu->current = NULL;
	env_sim.idle[number / 64] |= 1ull << number % 64;
	if (env_sim.nr_queued)
		cpu_start(cpu, cpu_dequeue(cpu->nr_queued ? cpu : longest_queue()), 0);
}

/* The CPU it ran on, if that is idle; else any idle one; else NULL. */
static struct sim_cpu *idle_cpu(const struct sim_task *task)
{
	if (task->cpu < env_sim.config.nr_cpus && !env_sim.cpus[task->cpu].current)
		return &env_sim.cpus[task->cpu];
	for (unsigned int i = 0; i < ENV_SIM_MAX_CPUS / 64; i++)
		if (env_sim.idle[i])
			return &env_sim.cpus[i * 64 +
					     (unsigned int)__builtin_ctzll(env_sim.idle[i])];
	return NULL;
}

static struct sim_cpu *shortest_queue(const struct sim_task *task)
{
	struct sim_cpu *shortest =
		&env_sim.cpus[task->cpu < env_sim.config.nr_cpus ? task->cpu : 0];

	for (unsigned int i = 0; i < env_sim.config.nr_cpus; i++)
		if (env_sim.cpus[i].nr_queued < shortest->nr_queued)
			shortest = &env_sim.cpus[i];
	return shortest;
}

static void place(struct sim_task *task)
{
	struct sim_cpu *cpu = idle_cpu(task);

	if (cpu)
		cpu_start(cpu, task, env_sim.config.wake_ns);
	else
		cpu_enqueue(shortest_queue(task), task);
}

static void slice_start(struct sim_cpu *cpu)
{
	struct sim_task *task = cpu->current;

	cpu->slice = task->charge < task->turn ? task->charge : task->turn;
	event_set(&cpu->event, env_sim.now + cpu->slice);
}

static void slice_end(struct sim_cpu *cpu)
{
	struct sim_task *task = cpu->current;

	sim_busy(cpu, task, env_sim.now - cpu->slice, cpu->slice);
	task->charge -= cpu->slice;
	task->turn -= cpu->slice;
	cpu->slice = 0;
}

/* The CPU's event.  Returns the task that can run now, or NULL. */
static struct sim_task *cpu_event(struct sim_cpu *cpu)
{
	struct sim_task *task = cpu->current;

	slice_end(cpu);
	if (task->turn == 0) {
		if (cpu->nr_queued && task->nr_spins == 0) {
			cpu_enqueue(cpu, task);
			cpu_start(cpu, cpu_dequeue(cpu), 0);
			return NULL;
		}
		task->turn = task->nr_spins ? SPIN_TURN_NS : env_sim.config.quantum_ns;
	}
	if (task->charge) {
		slice_start(cpu);
		return NULL;
	}
	return task;
}

static void timer_event(struct sim_event *event)
{
	struct sim_task *task = sim_entry(event, struct sim_task, timer);

	task->wait.timed_out = true;
	sim_unblock(task);
}

/* Nobody runs, and nothing is due now. */
static bool all_idle(void)
{
	for (unsigned int i = 0; i < env_sim.config.nr_cpus; i++)
		if (env_sim.cpus[i].current && !env_sim.cpus[i].current->spins)
			return false;
	return env_sim.nr_events == 0 || env_sim.heap[1]->time > env_sim.now;
}

/* The next task that can run, in virtual time. */
static struct sim_task *next_faithful(void)
{
	for (;;) {
		struct sim_event *event;
		struct sim_task *task;

		if (env_unlikely(env_sim.nr_quiet > 0) && all_idle())
			sim_script_quiet();
		event = env_sim.heap[1];
		if (env_unlikely(env_sim.nr_events == 0))
			sim_fail_stalled();
		event_cancel(event);
		clock_set(event->time);
		if (!event->of_cpu) {
			timer_event(event);
			continue;
		}
		task = cpu_event(sim_entry(event, struct sim_cpu, event));
		if (task)
			return task;
	}
}

/* Would nothing happen before the time, and nobody else want the CPU? */
static bool undisturbed(const struct sim_cpu *cpu, const struct sim_task *task, uint64_t time)
{
	if (env_sim.nr_events && env_sim.heap[1]->time <= time)
		return false;
	return cpu->nr_queued == 0 || time - env_sim.now < task->turn;
}

static void charge_faithful(struct sim_task *task, uint64_t ns)
{
	struct sim_cpu *cpu = &env_sim.cpus[task->cpu];
	struct sim_task *next;

	if (ns == 0)
		return;
	if (undisturbed(cpu, task, env_sim.now + ns)) {
		sim_busy(cpu, task, env_sim.now, ns);
		/* A turn that is over while nobody waits starts again. */
		if (ns < task->turn)
			task->turn -= ns;
		else
			task->turn = env_sim.config.quantum_ns -
				     (ns - task->turn) % env_sim.config.quantum_ns;
		clock_set(env_sim.now + ns);
		return;
	}
	task->charge = ns;
	slice_start(cpu);
	next = next_faithful();
	if (next != task)
		sim_task_switch(next);
}

/* ---- adversarial ---- */

static void ready_add(struct sim_task *task)
{
	task->ready_pos = env_sim.nr_ready;
	env_sim.ready[env_sim.nr_ready++] = task;
}

static void ready_remove(struct sim_task *task)
{
	struct sim_task *last = env_sim.ready[--env_sim.nr_ready];

	env_sim.ready[task->ready_pos] = last;
	last->ready_pos = task->ready_pos;
}

static struct sim_task *highest(void)
{
	struct sim_task *task = env_sim.ready[0];

	for (uint32_t i = 1; i < env_sim.nr_ready; i++)
		if (env_sim.ready[i]->priority > task->priority)
			task = env_sim.ready[i];
	return task;
}

static struct sim_task *draw(void)
{
	if (env_sim.style.by_priority)
		return highest();
	return env_sim.ready[env_rng_below(&env_sim.rng, env_sim.nr_ready)];
}

/* The clock jumps to the next timer. */
static void timer_fire(void)
{
	struct sim_event *event = env_sim.heap[1];

	event_cancel(event);
	if (event->time > env_sim.now)
		clock_set(event->time);
	timer_event(event);
}

static struct sim_task *next_adversarial(void)
{
	while (env_sim.nr_ready == 0) {
		if (env_sim.nr_quiet > 0)
			sim_script_quiet();
		else if (env_sim.nr_events == 0)
			sim_fail_stalled();
		else
			timer_fire();
	}
	return draw();
}

static void adversary(void)
{
	struct sim_task *next;

	if (env_sim.nr_events && (env_rng_u64(&env_sim.rng) & env_sim.style.early_mask) == 0)
		timer_fire();
	if (env_rng_u64(&env_sim.rng) & env_sim.style.switch_mask)
		return;
	if (env_sim.style.by_priority)
		env_sim.current->priority = env_sim.next_low--;
	next = draw();
	if (next != env_sim.current)
		sim_task_switch(next);
}

static void charge_adversarial(struct sim_task *task, uint64_t ns)
{
	sim_busy(&env_sim.cpus[(task->id - 1) % env_sim.config.nr_cpus], task, env_sim.now, ns);
	clock_set(env_sim.now + ns);
	while (env_sim.nr_events && env_sim.heap[1]->time <= env_sim.now)
		timer_fire();
	adversary();
}

/* Each seed has its own habits: some races need many switches, others few at the right place. */
static void style_draw(struct sim_style *style)
{
	static const uint64_t masks[] = {0, 1, 7, 31};

	style->by_priority = env_rng_below(&env_sim.rng, 4) == 0;
	style->switch_mask = style->by_priority ? 63 : masks[env_rng_below(&env_sim.rng, 4)];
	style->early_mask = (64ull << env_rng_below(&env_sim.rng, 4)) - 1;
	style->spurious = env_rng_below(&env_sim.rng, 4) == 0;
}

/* ---- both ---- */

void sim_sched_init(void)
{
	sim_list_init(&env_sim.tasks);
	for (unsigned int i = 0; i < ENV_SIM_MAX_CPUS; i++) {
		env_sim.cpus[i].event.of_cpu = true;
		sim_list_init(&env_sim.cpus[i].queue);
	}
	for (unsigned int i = 0; i < env_sim.config.nr_cpus; i++)
		env_sim.idle[i / 64] |= 1ull << i % 64;
	env_sim.next_low = (1ull << 63) - 1;
	style_draw(&env_sim.style);
}

void sim_sched_reserve(unsigned int nr_tasks)
{
	uint32_t need = nr_tasks + ENV_SIM_MAX_CPUS;

	if (need <= env_sim.max_events)
		return;
	env_sim.max_events = need * 2;
	env_sim.heap = sim_checked(
		realloc(env_sim.heap, (env_sim.max_events + 1) * sizeof(*env_sim.heap)));
	env_sim.ready =
		sim_checked(realloc(env_sim.ready, env_sim.max_events * sizeof(*env_sim.ready)));
}

void sim_sched_free(void)
{
	free(env_sim.heap);
	free(env_sim.ready);
}

void sim_sched_forget(const struct sim_task *task)
{
	for (unsigned int i = 0; i < env_sim.config.nr_cpus; i++)
		if (env_sim.cpus[i].last == task)
			env_sim.cpus[i].last = NULL;
}

void sim_point(void)
{
	count_step();
	if (env_sim.adversarial)
		adversary();
}

struct sim_task *sim_next(void)
{
	return env_sim.adversarial ? next_adversarial() : next_faithful();
}

/* The current task does not go on.  Returns when it does, unless it is done. */
static void give_up(struct sim_task *task)
{
	struct sim_task *next;

	count_step();
	if (env_sim.adversarial)
		ready_remove(task);
	else
		cpu_next(&env_sim.cpus[task->cpu]);
	next = sim_next();
	if (next != task)
		sim_task_switch(next);
}

bool sim_block(uint64_t until)
{
	struct sim_task *task = env_sim.current;

	sim_note(SIM_NOTE_WAIT, task->id, task->wait.kind);
	task->state = SIM_WAITING;
	task->wait.timed_out = false;
	task->wait.start = env_sim.now;
	task->nr_waits++;
	if (until != ENV_FOREVER)
		event_set(&task->timer, until > env_sim.now ? until : env_sim.now);
	give_up(task);
	return !task->wait.timed_out;
}

void sim_spin(void)
{
	struct sim_task *task = env_sim.current;
	struct sim_task *next;

	sim_note(SIM_NOTE_WAIT, task->id, task->wait.kind);
	task->state = SIM_WAITING;
	task->spins = true;
	task->wait.start = env_sim.now;
	task->nr_waits++;
	count_step();
	next = next_faithful();
	if (next != task)
		sim_task_switch(next);
}

static void spin_end(struct sim_task *task)
{
	struct sim_cpu *cpu = &env_sim.cpus[task->cpu];

	task->spins = false;
	sim_busy(cpu, task, task->wait.start, env_sim.now - task->wait.start);
	event_set(&cpu->event, env_sim.now);
}

void sim_unblock(struct sim_task *task)
{
	sim_note(SIM_NOTE_WAKE, task->id, task->wait.timed_out);
	task->state = SIM_READY;
	task->wait.kind = SIM_WAIT_NOTHING;
	event_cancel(&task->timer);
	sim_list_remove(&task->link);
	if (env_sim.adversarial)
		ready_add(task);
	else if (task->spins)
		spin_end(task);
	else
		place(task);
}

void sim_end(void)
{
	give_up(env_sim.current);
	__builtin_unreachable();
}

void sim_cpu(uint64_t ns)
{
	struct sim_task *task = env_sim.current;

	ns *= env_sim.config.slow;
	sim_note(SIM_NOTE_CPU, task->id, ns);
	if (env_sim.adversarial)
		charge_adversarial(task, ns);
	else
		charge_faithful(task, ns);
}

uint64_t sim_clock_ns(void)
{
	/* Counts as a step: who waits for the clock without sleeping waits for ever. */
	sim_point();
	return env_sim.now;
}

unsigned int sim_nr_cpus(void)
{
	return env_sim.config.nr_cpus;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * sim-use.c - who used the CPUs, and the spans of a trace
 *
 * A CPU's span is kept back until something else runs there, so that the many charges of one
 * task make one span.
 */
#include "sim.h"

#include "order.h"

#include <string.h>

/* ---- kinds of tasks ---- */

struct sim_kind *sim_kind(const char *name)
{
	struct sim_kind *kind = env_sim.kinds;
	struct sim_kind *end = kind + env_sim.nr_kinds;

	while (kind < end && kind->name != name)
		kind++;
	if (kind == env_sim.kinds + ENV_SIM_MAX_KINDS)
		return kind - 1;
	if (kind == end) {
		env_sim.nr_kinds++;
		kind->name = env_sim.nr_kinds < ENV_SIM_MAX_KINDS ? name : order_name("other");
	}
	return kind;
}

void sim_use_fill(struct env_sim_result *result)
{
	for (unsigned int i = 0; i < env_sim.config.nr_cpus; i++)
		result->cpu_busy_ns[i] = env_sim.cpus[i].busy_ns;
	result->nr_kinds = env_sim.nr_kinds;
	for (unsigned int i = 0; i < env_sim.nr_kinds; i++) {
		const struct sim_kind *kind = &env_sim.kinds[i];

		sim_name_copy(result->kinds[i].name, kind->name);
		result->kinds[i].nr_tasks = kind->nr_tasks;
		result->kinds[i].busy_ns = kind->busy_ns;
	}
}

void sim_name_copy(char *to, const char *name)
{
	size_t len = strnlen(name, ENV_SIM_NAME - 1);

	memcpy(to, name, len);
	to[len] = '\0';
}

/* ---- trace ---- */

void sim_trace_span(enum env_track track, unsigned int number, const char *name, uint64_t start_ns,
		    uint64_t end_ns, uint64_t value)
{
	struct env_trace_event event = {track, number, name, start_ns, end_ns, value};

	if (env_sim.config.trace)
		env_sim.config.trace(env_sim.config.trace_arg, &event);
}

static void span_end(struct env_trace_event *span)
{
	if (span->name)
		env_sim.config.trace(env_sim.config.trace_arg, span);
	span->name = NULL;
}

void sim_trace_cpu(struct sim_cpu *cpu, const struct sim_task *task, uint64_t start, uint64_t end)
{
	struct env_trace_event *span = &cpu->span;

	if (span->name && span->value == task->id && span->end_ns == start) {
		span->end_ns = end;
		return;
	}
	span_end(span);
	*span = (struct env_trace_event){
		.track = ENV_TRACK_CPU,
		.number = (unsigned int)(cpu - env_sim.cpus),
		.name = task->name,
		.start_ns = start,
		.end_ns = end,
		.value = task->id,
	};
}

void sim_trace_end(void)
{
	for (unsigned int i = 0; i < env_sim.config.nr_cpus; i++)
		span_end(&env_sim.cpus[i].span);
}

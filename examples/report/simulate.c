/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * simulate.c - one run on virtual CPUs under a virtual clock
 */
#include "simulate.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <iomap/cost.h>

#include "table.h"
#include "trace.h"

#define DAY_NS (86400ull * 1000000000ull)

static void piece_task(void *arg)
{
	struct piece *piece = arg;

	piece->error = piece->fn(piece->run, piece->arg, piece->err);
}

static void configure(struct env_sim_config *config, const struct knobs *knobs)
{
	env_sim_config_init(config);
	config->schedule = ENV_SIM_FAITHFUL;
	config->seed = knob_number(knobs, KNOB_SEED);
	config->nr_cpus = (unsigned int)knob_number(knobs, KNOB_CPUS);
	config->slow = knobs_slowness(knobs);
	config->switch_ns = env_cost_ns(ENV_COST_SWITCH, 1) * config->slow;
	config->wake_ns = env_cost_ns(ENV_COST_WAKE, 1) * config->slow;
	config->max_ns = DAY_NS;
	config->stack_size = 512 << 10;
	config->check_order = false; /* the tests do that; here it costs time */
}

static void keep_use(struct results *results, const struct env_sim_result *sim)
{
	results->virtual_ns = sim->virtual_ns;
	results->switches = sim->switches;
	results->trace_hash = sim->trace_hash;
	results->nr_kinds = sim->nr_kinds;
	memcpy(results->kinds, sim->kinds, sizeof(results->kinds));
	results->nr_locks = sim->nr_locks;
	memcpy(results->locks, sim->locks, sizeof(results->locks));
	results->cpu_busy_ns = 0;
	for (unsigned int i = 0; i < ENV_SIM_MAX_CPUS; i++)
		results->cpu_busy_ns += sim->cpu_busy_ns[i];
}

static void tell_finding(struct piece *piece, int error, const struct env_sim_result *sim)
{
	if (error == -EPROTO)
		snprintf(
			piece->err, ERR_MAX,
			"the simulation of '%s' ends after %s: %s; the same command shows it again",
			piece->run->label[0] ? piece->run->label : "the run",
			human_ns(sim->virtual_ns), env_sim_finding_name(sim->finding));
	else
		snprintf(piece->err, ERR_MAX, "the simulation did not start: %s", strerror(-error));
	piece->error = error == -EINVAL ? -EPROTO : error;
}

static int trace_failed(struct piece *piece, int error)
{
	piece->error = error;
	snprintf(piece->err, ERR_MAX, "--trace '%.200s': %s; it is a file that may be written",
		 piece->run->knobs.trace, strerror(-error));
	return error;
}

static int start_trace(struct piece *piece, struct trace *trace, struct env_sim_config *config)
{
	int error = trace_open(trace, piece->run->knobs.trace, config->start_ns);

	if (error)
		return trace_failed(piece, error);
	config->trace = trace_span;
	config->trace_arg = trace;
	return 0;
}

static void end_trace(struct piece *piece, struct trace *trace)
{
	int error = trace_close(trace);

	if (error && !piece->error)
		trace_failed(piece, error);
}

void simulate(struct piece *piece, char text[ENV_SIM_TEXT])
{
	static struct env_sim_result sim; /* too large for a stack; a process has one simulation */
	const char *path = piece->run->knobs.trace;
	struct env_sim_config config;
	struct trace trace;
	int error;

	configure(&config, &piece->run->knobs);
	if (path && start_trace(piece, &trace, &config))
		return;
	error = env_sim_run(&config, piece_task, piece, &sim);
	memcpy(text, sim.text, ENV_SIM_TEXT);
	if (path)
		end_trace(piece, &trace);
	if (error)
		tell_finding(piece, error, &sim);
	else
		keep_use(&piece->run->results, &sim);
}

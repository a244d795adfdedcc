/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * sim-script.c - tasks that are stopped at a point and let go by a script
 *
 * A stop is armed until its task has come there; then the task waits until it is let go.  Points
 * of locks have no name of their own: they are "before lock " and the class, and so on.
 */
#include "sim.h"

#include "order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- points ---- */

static bool is_point(const char *point, const char *what, const char *name)
{
	size_t len = strlen(what);

	return strncmp(point, what, len) == 0 && strcmp(point + len, name) == 0;
}

static bool is_for(const struct sim_stop *stop, const struct sim_task *task)
{
	return !stop->task || strcmp(stop->task, task->name) == 0;
}

static struct sim_stop *stop_for(const struct sim_task *task, const char *what, const char *name)
{
	for (struct sim_stop *stop = env_sim.stops; stop < env_sim.stops + SIM_STOPS; stop++)
		if (stop->left > 0 && is_point(stop->point, what, name) && is_for(stop, task) &&
		    --stop->left == 0)
			return stop;
	return NULL;
}

static void wake_all(enum sim_wait_kind kind)
{
	for (struct sim_link *link = env_sim.tasks.next; link != &env_sim.tasks;
	     link = link->next) {
		struct sim_task *task = sim_entry(link, struct sim_task, all);

		if (task->wait.kind == kind)
			sim_unblock(task);
	}
}

void sim_script_check(const char *what, const char *name)
{
	struct sim_task *task = env_sim.current;
	struct sim_stop *stop = stop_for(task, what, name);

	if (!stop)
		return;
	env_sim.nr_armed--;
	stop->stopped = task;
	wake_all(SIM_WAIT_SCRIPT);
	task->wait.kind = SIM_WAIT_STOPPED;
	task->wait.point = stop->point;
	sim_block(ENV_FOREVER);
}

void sim_switch_point_at(const char *name)
{
	sim_script_point("", name);
	sim_point();
}

/* ---- what a script says ---- */

static void must_be_inside(const char *call)
{
	if (env_world == &sim_world)
		return;
	fprintf(stderr, "sim: %s() outside a run\n", call);
	abort();
}

void env_sim_stop_at(const char *point, const char *task, unsigned int nth)
{
	struct sim_stop *stop = env_sim.stops;

	must_be_inside(__func__);
	while (stop < env_sim.stops + SIM_STOPS && stop->point)
		stop++;
	if (stop == env_sim.stops + SIM_STOPS)
		sim_fail(ENV_SIM_SCRIPT, "more than %d stops at once", SIM_STOPS);
	stop->point = order_name(point);
	stop->task = task ? order_name(task) : NULL;
	stop->nth = nth > 0 ? nth : 1;
	stop->left = stop->nth;
	env_sim.nr_armed++;
}

static bool is_armed(const char *point)
{
	for (const struct sim_stop *stop = env_sim.stops; stop < env_sim.stops + SIM_STOPS; stop++)
		if (stop->left > 0 && strcmp(stop->point, point) == 0)
			return true;
	return false;
}

void env_sim_wait_stopped(const char *point)
{
	struct sim_wait *wait = &env_sim.current->wait;

	must_be_inside(__func__);
	while (is_armed(point)) {
		wait->kind = SIM_WAIT_SCRIPT;
		wait->point = order_name(point);
		sim_block(ENV_FOREVER);
	}
}

void env_sim_go(const char *point)
{
	bool any = false;

	must_be_inside(__func__);
	for (struct sim_stop *stop = env_sim.stops; stop < env_sim.stops + SIM_STOPS; stop++) {
		if (!stop->stopped || strcmp(stop->point, point) != 0)
			continue;
		any = true;
		sim_unblock(stop->stopped);
		memset(stop, 0, sizeof(*stop));
	}
	if (!any)
		sim_fail(ENV_SIM_SCRIPT, "no task is stopped at \"%s\", to go on", point);
	sim_point();
}

void env_sim_wait_quiet(void)
{
	must_be_inside(__func__);
	env_sim.nr_quiet++;
	env_sim.current->wait.kind = SIM_WAIT_QUIET;
	sim_block(ENV_FOREVER);
}

void sim_script_quiet(void)
{
	env_sim.nr_quiet = 0;
	wake_all(SIM_WAIT_QUIET);
}

/* ---- a script that does not come true ---- */

static void fail_armed(const struct sim_stop *stop)
{
	char times[48] = "";

	if (stop->nth > 1)
		snprintf(times, sizeof(times), ": %u of %u times", stop->nth - stop->left,
			 stop->nth);
	if (!stop->task)
		sim_fail(ENV_SIM_SCRIPT, "no task came to \"%s\"%s", stop->point, times);
	sim_fail(ENV_SIM_SCRIPT, "task \"%s\" did not come to \"%s\"%s", stop->task, stop->point,
		 times);
}

void sim_script_fail_if_stuck(bool at_end)
{
	bool is_waited_for = at_end;

	for (struct sim_link *link = env_sim.tasks.next; link != &env_sim.tasks; link = link->next)
		if (sim_entry(link, struct sim_task, all)->wait.kind == SIM_WAIT_SCRIPT)
			is_waited_for = true;
	for (const struct sim_stop *stop = env_sim.stops; stop < env_sim.stops + SIM_STOPS; stop++)
		if (stop->left > 0 && is_waited_for)
			fail_armed(stop);
	for (const struct sim_stop *stop = env_sim.stops; stop < env_sim.stops + SIM_STOPS; stop++)
		if (stop->stopped)
			sim_fail(ENV_SIM_SCRIPT, "nobody lets task %u \"%s\" go on from \"%s\"",
				 stop->stopped->id, stop->stopped->name, stop->point);
}

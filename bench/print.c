/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * print.c - results against their targets: a table to read, and JSON
 */
#include "bench.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <jansson.h>

/* ---- figures ---- */

static double gain(const struct result *result, unsigned int peer)
{
	return result->has[peer] ? result->ns[peer] / result->two_ns[peer] : NAN;
}

/* How many times faster than the peer ours is. */
static double ratio(const struct result *result, unsigned int peer)
{
	return result->has[peer] && result->has[OURS] ? result->ns[peer] / result->ns[OURS] : NAN;
}

double goal_value(const struct result *result, const struct goal *goal)
{
	switch (goal->kind) {
	case GOAL_OVER_MEMCPY:
		return result->has[MEMCPY] ? result->ns[OURS] - result->ns[MEMCPY] : NAN;
	case GOAL_VS_MEMCPY:
		return ratio(result, MEMCPY);
	case GOAL_VS_KERNEL:
		return ratio(result, KERNEL);
	case GOAL_GAIN:
		return gain(result, OURS);
	case GOAL_NS:
		return result->ns[OURS];
	case GOAL_OVERHEAD:
		return result->overhead * 100;
	case GOAL_NONE:
		break;
	}
	return NAN;
}

static bool less_is_better(const struct goal *goal)
{
	return goal->kind == GOAL_OVER_MEMCPY || goal->kind == GOAL_NS ||
	       goal->kind == GOAL_OVERHEAD;
}

bool goal_met(const struct result *result, const struct goal *goal)
{
	double value = goal_value(result, goal);

	if (less_is_better(goal))
		return value <= goal->target;
	if (goal->kind == GOAL_GAIN && value >= 0.9 * gain(result, MEMCPY))
		return true;
	return value >= goal->target;
}

static const char *unit_of(const struct goal *goal)
{
	switch (goal->kind) {
	case GOAL_OVER_MEMCPY:
		return "ns over memcpy";
	case GOAL_VS_MEMCPY:
		return "x memcpy";
	case GOAL_VS_KERNEL:
		return "x kernel";
	case GOAL_GAIN:
		return "x one thread";
	case GOAL_NS:
		return "ns";
	case GOAL_OVERHEAD:
		return "% of the data";
	case GOAL_NONE:
		break;
	}
	return "";
}

/* ---- the table ---- */

static void text_of(char *text, size_t size, double value, bool is_ns)
{
	if (isnan(value))
		snprintf(text, size, "-");
	else
		snprintf(text, size, is_ns ? "%.0f" : "%.2f", value);
}

static void print_ns(FILE *out, const struct result *result, unsigned int peer)
{
	char text[32];

	text_of(text, sizeof(text), result->has[peer] ? result->ns[peer] : NAN, true);
	fprintf(out, " %9s", text);
}

static void print_goal(FILE *out, const struct result *result, const struct goal *goal)
{
	bool is_ns = goal->kind == GOAL_OVER_MEMCPY || goal->kind == GOAL_NS;
	double value = goal_value(result, goal);
	char name[64], text[32], target[32] = "";
	const char *verdict = "";

	snprintf(name, sizeof(name), "%s%s", result->row->name, goal->suffix);
	text_of(text, sizeof(text), value, is_ns);
	if (goal->target > 0) {
		snprintf(target, sizeof(target), "%s %g",
			 less_is_better(goal) ? "<=" : ">=", goal->target);
		verdict = isnan(value) ? "not measured" : goal_met(result, goal) ? "met" : "MISS";
	}
	fprintf(out, "%-34s", name);
	for (unsigned int p = 0; p < NR_PEERS; p++)
		print_ns(out, result, p);
	fprintf(out, " %8s %-14s %8s  %s", text, unit_of(goal), target, verdict);
	if (goal->kind == GOAL_GAIN)
		fprintf(out, " (memcpy %.2f, kernel %.2f)", gain(result, MEMCPY),
			gain(result, KERNEL));
	fputc('\n', out);
}

void print_table(void *stream, const struct result *results, unsigned int nr)
{
	FILE *out = stream;

	fprintf(out, "%-34s %9s %9s %9s %8s %-14s %8s\n", "row", "ours ns", "memcpy", "kernel",
		"figure", "", "target");
	for (unsigned int i = 0; i < nr; i++)
		for (unsigned int g = 0; g < MAX_GOALS; g++)
			if (results[i].row->goals[g].kind != GOAL_NONE)
				print_goal(out, &results[i], &results[i].row->goals[g]);
}

/* ---- JSON ---- */

static void put_number(json_t *object, const char *name, double value)
{
	json_object_set_new(object, name, isfinite(value) ? json_real(value) : json_null());
}

static void put_peers(json_t *object, const struct result *result)
{
	static const char *const names[NR_PEERS] = {"ours", "memcpy", "kernel"};

	for (unsigned int p = 0; p < NR_PEERS; p++) {
		char name[32];

		snprintf(name, sizeof(name), "%s_ns", names[p]);
		put_number(object, name, result->has[p] ? result->ns[p] : NAN);
		if (result->row->nr_threads > 1) {
			snprintf(name, sizeof(name), "%s_gain", names[p]);
			put_number(object, name, gain(result, p));
		}
	}
}

static json_t *goal_json(const struct result *result, const struct goal *goal,
			 const char *kernel_name)
{
	json_t *object = json_object();
	char name[64];

	snprintf(name, sizeof(name), "%s%s", result->row->name, goal->suffix);
	json_object_set_new(object, "row", json_string(name));
	put_peers(object, result);
	json_object_set_new(object, "rounds", json_integer(result->nr_rounds));
	put_number(object, "ratio_memcpy", ratio(result, MEMCPY));
	put_number(object, "ratio_kernel", ratio(result, KERNEL));
	put_number(object, "value", goal_value(result, goal));
	json_object_set_new(object, "unit", json_string(unit_of(goal)));
	put_number(object, "target", goal->target > 0 ? goal->target : NAN);
	json_object_set_new(object, "met",
			    goal->target > 0 && !isnan(goal_value(result, goal))
				    ? json_boolean(goal_met(result, goal))
				    : json_null());
	json_object_set_new(object, "kernel", json_string(kernel_name));
	return object;
}

int print_json(const char *path, const struct result *results, unsigned int nr,
	       const char *kernel_name)
{
	const size_t flags = JSON_INDENT(2) | JSON_REAL_PRECISION(6);
	json_t *array = json_array();
	int err;

	for (unsigned int i = 0; i < nr; i++)
		for (unsigned int g = 0; g < MAX_GOALS; g++)
			if (results[i].row->goals[g].kind != GOAL_NONE)
				json_array_append_new(array, goal_json(&results[i],
								       &results[i].row->goals[g],
								       kernel_name));
	errno = 0;
	if (strcmp(path, "-") == 0) {
		err = json_dumpf(array, stdout, flags);
		putchar('\n');
	} else {
		err = json_dump_file(array, path, flags);
	}
	json_decref(array);
	return err ? (errno ? -errno : -EIO) : 0;
}

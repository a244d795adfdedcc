/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_report_calibrate.c - the table of costs is measured and printed, every entry
 */
#include "examples/report/calibrate.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <iomap/cost.h>
#include <iomap/sim.h>

#include "examples/report/knobs.h"

static const struct calibrate_size tiny = {.nr_rounds = 2,
					   .file_bytes = 4ull << 20,
					   .nr_ops = 64,
					   .nr_files = 4};

static char err[ERR_MAX];

static char *run(bool json)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	cr_assert_eq(calibrate_run_sized(&tiny, out, json, err), 0, "%s", err);
	fclose(out);
	return text;
}

Test(calibrate, every_entry_has_a_line)
{
	char *text = run(false);

	for (unsigned int cost = 0; cost < NR_ENV_COSTS; cost++) {
		char start[64];

		snprintf(start, sizeof(start), "\n%s ", env_cost_table[cost].name);
		cr_assert(strstr(text, start), "no line for %s", env_cost_table[cost].name);
	}
	free(text);
}

Test(calibrate, json_has_every_entry_in_order)
{
	char *text = run(true);
	json_t *costs = json_loads(text, 0, NULL);

	cr_assert_eq(json_array_size(costs), NR_ENV_COSTS);
	for (unsigned int cost = 0; cost < NR_ENV_COSTS; cost++) {
		json_t *entry = json_array_get(costs, cost);

		cr_assert_str_eq(json_string_value(json_object_get(entry, "name")),
				 env_cost_table[cost].name);
		cr_assert(json_object_get(entry, "here_ns"));
		cr_assert_gt(strlen(json_string_value(json_object_get(entry, "how"))), 0);
	}
	json_decref(costs);
	free(text);
}

Test(calibrate, what_cannot_be_measured_says_so)
{
	char *text = run(false);
	const char *line = strstr(text, "\nbitmap ");

	cr_assert(line);
	line = strstr(line, "not measurable here: assumed");
	cr_assert(line && line < strstr(strstr(text, "\nbitmap ") + 1, "\n"));
	free(text);
}

static void run_in_sim(void *arg)
{
	*(int *)arg = calibrate_run_sized(&tiny, stdout, false, err);
}

Test(calibrate, refuses_to_measure_virtual_time)
{
	struct env_sim_config config;
	struct env_sim_result result;
	int error = 0;

	env_sim_config_init(&config);
	cr_assert_eq(env_sim_run(&config, run_in_sim, &error, &result), 0);
	cr_assert_eq(error, -EINVAL);
	cr_assert_str_not_empty(err);
}

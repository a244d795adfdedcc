/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * report.c - the default report
 *
 * Each entry is what `iomap-report run` would be given.  Its rig is gone before the next one
 * is made, so that memory is that of the largest.
 */
#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <iomap/env.h>

#include "experiments.h"
#include "json.h"
#include "progress.h"
#include "table.h"

#define ARGS_MAX 3

struct entry {
	const char *experiment;
	const char *args[2 * ARGS_MAX + 1]; /* name, value, ..., NULL */
};

static const struct entry entries[] = {
	{"anchor-overwrite", {"fs", "xfs", "warm", "written"}},
	{"anchor-overwrite", {"fs", "xfs", "warm", "readahead"}},
	{"anchor-overwrite", {"fs", "ext4", "warm", "written"}},
	{"anchor-overwrite", {"fs", "ext4", "warm", "readahead"}},
	{"anchor-overwrite", {"dirty-tracking", "folio", "warm", "readahead", "memory", "2g"}},
	{"page-64k", {"fs", "xfs"}},
	{"page-64k", {"fs", "ext4"}},
	{"page-64k", {"sync", "end"}},
	{"block-size", {"fs", "xfs"}},
	{"order-hint", {"fs", "xfs"}},
	{"contexts", {"fs", "xfs"}},
	{"contexts", {"fs", "ext4"}},
	{"seed-000", {"fs", "xfs"}},
	{"seed-000", {"fs", "ext4"}},
	{"seed-002", {"fs", "xfs"}},
	{"seed-002", {"fs", "ext4"}},
	{"seed-003", {"fs", "xfs"}},
	{"seed-004", {"fs", "xfs"}},
	{"seed-004", {"fs", "ext4", "dirty-tracking", "block"}},
};

#define NR_ENTRIES (sizeof(entries) / sizeof(entries[0]))

static int run_entry(const struct entry *entry, struct outcome *outcome, bool quiet)
{
	struct knobs knobs;
	char err[ERR_MAX];
	int status;

	outcome_init(outcome, entry->experiment);
	knobs_init(&knobs);
	for (unsigned int i = 0; entry->args[i]; i += 2)
		if (knobs_set(&knobs, entry->args[i], entry->args[i + 1], err))
			abort();
	progress_part();
	status = experiment_run(experiment_find(entry->experiment), &knobs, outcome, err);
	progress_hide();
	if (err[0])
		fprintf(stderr, "iomap-report: %s: %s\n", entry->experiment, err);
	else if (!quiet)
		outcome_print(outcome, true, stdout);
	return status;
}

static void count_verdicts(const struct outcome *outcomes, unsigned int *nr)
{
	for (unsigned int i = 0; i < NR_ENTRIES; i++)
		for (unsigned int j = 0; j < outcomes[i].nr_facts; j++)
			nr[outcomes[i].facts[j].verdict]++;
}

static void name_misses(const struct outcome *outcomes)
{
	for (unsigned int i = 0; i < NR_ENTRIES; i++) {
		for (unsigned int j = 0; j < outcomes[i].nr_facts; j++) {
			const struct fact *one = &outcomes[i].facts[j];

			if (one->verdict == FACT_MISS)
				fprintf(stderr, "iomap-report: %s: %s is %s; expected %s (%s)\n",
					outcomes[i].workload, one->what, one->ours, one->expected,
					one->source);
		}
	}
}

static void print_end(const struct outcome *outcomes, uint64_t started_ns)
{
	unsigned int nr[3] = {0};
	struct rusage usage;

	count_verdicts(outcomes, nr);
	getrusage(RUSAGE_SELF, &usage);
	printf("%u expectations hold, %u are missed; %u more figures beside published ones.\n"
	       "Elapsed %s, peak memory %s.\n",
	       nr[FACT_OK], nr[FACT_MISS], nr[FACT_INFO], human_ns(env_clock_ns() - started_ns),
	       human_bytes((uint64_t)usage.ru_maxrss << 10));
}

int report_run(const char *json)
{
	struct outcome outcomes[NR_ENTRIES];
	bool quiet = json && strcmp(json, "-") == 0;
	uint64_t started_ns = env_clock_ns();
	char err[ERR_MAX] = "";
	int status = EXIT_OK;

	progress_start(NR_ENTRIES);
	for (unsigned int i = 0; i < NR_ENTRIES; i++)
		if (run_entry(&entries[i], &outcomes[i], quiet) != EXIT_OK)
			status = EXIT_MISS;
	progress_stop();
	if (!quiet)
		print_end(outcomes, started_ns);
	name_misses(outcomes);
	if (json && json_write_outcomes(outcomes, NR_ENTRIES, json, err)) {
		fprintf(stderr, "iomap-report: %s\n", err);
		status = EXIT_BAD_INPUT;
	}
	for (unsigned int i = 0; i < NR_ENTRIES; i++)
		outcome_destroy(&outcomes[i]);
	return status;
}

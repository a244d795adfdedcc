/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * report.c - the default report, and the one of all published tables
 *
 * Each part is what `iomap-report run` would be given.  Its rig is gone before the next one
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
#include "published.h"
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

/* ---- both reports ----------------------------------------------------------------------- */

struct report {
	struct outcome *outcomes;
	unsigned int nr;
	bool brief;
	bool quiet; /* standard output is for JSON */
	const char *json;
	uint64_t started_ns;
	int status;
};

static int report_start(struct report *report, unsigned int nr, const char *json)
{
	*report = (struct report){.nr = nr, .json = json};
	report->outcomes = calloc(nr, sizeof(*report->outcomes));
	if (!report->outcomes) {
		fputs("iomap-report: no memory for the results\n", stderr);
		return EXIT_MISS;
	}
	report->quiet = json && strcmp(json, "-") == 0;
	report->started_ns = env_clock_ns();
	progress_start(nr);
	return EXIT_OK;
}

/* What one of them returned. */
static void report_add(struct report *report, const struct outcome *outcome, int status,
		       const char *err)
{
	progress_hide();
	if (status != EXIT_OK)
		report->status = EXIT_MISS;
	if (err[0])
		fprintf(stderr, "iomap-report: %s: %s\n", outcome->workload, err);
	else if (!report->quiet)
		outcome_print(outcome, report->brief, stdout);
}

static void name_misses(const struct report *report)
{
	for (unsigned int i = 0; i < report->nr; i++) {
		const struct outcome *outcome = &report->outcomes[i];

		for (unsigned int j = 0; j < outcome->nr_facts; j++) {
			const struct fact *one = &outcome->facts[j];

			if (one->verdict == FACT_MISS)
				fprintf(stderr, "iomap-report: %s: %s is %s; expected %s (%s)\n",
					outcome->workload, one->what, one->ours, one->expected,
					one->source);
		}
	}
}

static unsigned int nr_of(const struct outcome *outcome, enum verdict verdict)
{
	unsigned int nr = 0;

	for (unsigned int i = 0; i < outcome->nr_facts; i++)
		nr += outcome->facts[i].verdict == verdict;
	return nr;
}

static unsigned int nr_in_all(const struct report *report, enum verdict verdict)
{
	unsigned int nr = 0;

	for (unsigned int i = 0; i < report->nr; i++)
		nr += nr_of(&report->outcomes[i], verdict);
	return nr;
}

/* The clock and the memory of it all; the pieces' memory is that of the largest. */
static void print_use(const struct report *report)
{
	struct rusage self, pieces;
	long peak;

	getrusage(RUSAGE_SELF, &self);
	getrusage(RUSAGE_CHILDREN, &pieces);
	peak = self.ru_maxrss > pieces.ru_maxrss ? self.ru_maxrss : pieces.ru_maxrss;
	printf("Elapsed %s, peak memory %s.\n", human_ns(env_clock_ns() - report->started_ns),
	       human_bytes((uint64_t)peak << 10));
}

static int report_end(struct report *report)
{
	char err[ERR_MAX] = "";

	if (!report->quiet)
		print_use(report);
	name_misses(report);
	if (report->json && json_write_outcomes(report->outcomes, report->nr, report->json, err)) {
		fprintf(stderr, "iomap-report: %s\n", err);
		report->status = EXIT_BAD_INPUT;
	}
	for (unsigned int i = 0; i < report->nr; i++)
		outcome_destroy(&report->outcomes[i]);
	free(report->outcomes);
	return report->status;
}

/* ---- the default report ----------------------------------------------------------------- */

static void run_entry(struct report *report, unsigned int i)
{
	const struct entry *entry = &entries[i];
	struct outcome *outcome = &report->outcomes[i];
	struct knobs knobs;
	char err[ERR_MAX];
	int status;

	outcome_init(outcome, entry->experiment);
	knobs_init(&knobs);
	for (unsigned int arg = 0; entry->args[arg]; arg += 2)
		if (knobs_set(&knobs, entry->args[arg], entry->args[arg + 1], err))
			abort();
	progress_part();
	status = experiment_run(experiment_find(entry->experiment), &knobs, outcome, err);
	report_add(report, outcome, status, err);
}

int report_run(const char *json)
{
	struct report report;

	if (report_start(&report, NR_ENTRIES, json))
		return EXIT_MISS;
	report.brief = true;
	for (unsigned int i = 0; i < NR_ENTRIES; i++)
		run_entry(&report, i);
	progress_stop();
	if (!report.quiet)
		printf("%u expectations hold, %u are missed; %u more figures beside published "
		       "ones.\n",
		       nr_in_all(&report, FACT_OK), nr_in_all(&report, FACT_MISS),
		       nr_in_all(&report, FACT_INFO));
	return report_end(&report);
}

/* ---- published tables ------------------------------------------------------------------- */

static unsigned int nr_tables(void)
{
	unsigned int nr = 0;

	while (published_tables[nr])
		nr++;
	return nr;
}

static void run_table(struct report *report, unsigned int i, const struct knobs *knobs)
{
	struct outcome *outcome = &report->outcomes[i];
	char err[ERR_MAX];
	int status;

	outcome_init(outcome, published_tables[i]->id);
	progress_part();
	status = published_run(published_tables[i], knobs, outcome, err);
	report_add(report, outcome, status, err);
}

static void print_summary(const struct report *report)
{
	struct table table;

	table_init(&table, "lrrrl");
	table_row(&table, "table\tinside\tdocumented\tOUTSIDE\twhat it repeats");
	for (unsigned int i = 0; i < report->nr; i++) {
		const struct outcome *outcome = &report->outcomes[i];

		table_row(&table, "%s\t%u\t%u\t%u\t%s", outcome->workload, nr_of(outcome, FACT_OK),
			  nr_of(outcome, FACT_INFO), nr_of(outcome, FACT_MISS), outcome->text);
	}
	table_row(&table, "all\t%u\t%u\t%u\t", nr_in_all(report, FACT_OK),
		  nr_in_all(report, FACT_INFO), nr_in_all(report, FACT_MISS));
	table_print(&table, stdout);
	fputs("\n", stdout);
}

int report_published(const struct knobs *knobs, const char *json)
{
	struct report report;

	if (report_start(&report, nr_tables(), json))
		return EXIT_MISS;
	for (unsigned int i = 0; i < report.nr; i++)
		run_table(&report, i, knobs);
	progress_stop();
	if (!report.quiet)
		print_summary(&report);
	return report_end(&report);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_report_pub_contexts.c - published tables on contexts and extents: one seed, small
 */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "examples/report/published.h"

/* One seed, and a scale if it is given.  The status of the run. */
static int run_small(const char *id, const char *scale, struct outcome *outcome)
{
	const struct published *table = published_find(id);
	struct knobs knobs;
	char err[ERR_MAX] = "";
	int status;

	cr_assert_not_null(table, "no table %s", id);
	knobs_init(&knobs);
	cr_assert_eq(knobs_set(&knobs, "seed", "1", err), 0, "%s", err);
	if (scale)
		cr_assert_eq(knobs_set(&knobs, "scale", scale, err), 0, "%s", err);
	outcome_init(outcome, id);
	status = published_run(table, &knobs, outcome, err);
	cr_assert_str_empty(err, "%s: %s", id, err);
	return status;
}

static const struct fact *fact_of(const struct outcome *outcome, const char *what)
{
	for (unsigned int i = 0; i < outcome->nr_facts; i++)
		if (strcmp(outcome->facts[i].what, what) == 0)
			return &outcome->facts[i];
	cr_assert_fail("no fact '%s'", what);
	return NULL;
}

static void assert_verdict(const struct outcome *outcome, const char *what, enum verdict verdict)
{
	const struct fact *one = fact_of(outcome, what);

	cr_assert_eq(one->verdict, verdict, "%s: %s, wanted %s", what, one->ours, one->expected);
}

/* 0 if no fact is missed, else 1. */
static void assert_status(const struct outcome *outcome, int status)
{
	cr_assert_eq(status, outcome_misses(outcome) ? EXIT_MISS : EXIT_OK);
}

static double figure_published(const char *id, const char *label)
{
	const struct published *table = published_find(id);

	for (unsigned int i = 0; i < table->nr_cells; i++)
		if (strcmp(table->cells[i].label, label) == 0)
			return table->cells[i].published;
	return NAN;
}

Test(pub_contexts, tables_have_the_published_figures)
{
	cr_assert_eq(figure_published("T1", "nr 4"), 135);
	cr_assert_eq(figure_published("T1", "nr 12"), 138);
	cr_assert_eq(figure_published("T2", "XFS base"), 6251);
	cr_assert_eq(figure_published("T2", "ext4 parallel"), 5961);
	cr_assert_eq(figure_published("T3", "PMEM, XFS, base"), 70.7);
	cr_assert_eq(figure_published("T3", "NVMe, ext4, parallel"), 80.1);
	cr_assert_eq(figure_published("T4", "random, ext4, nr 12"), 20.9);
	cr_assert_eq(figure_published("T4", "sequential, XFS, base"), 156);
	cr_assert_eq(figure_published("T12", "PMEM, XFS, nr 12"), 1015);
	cr_assert_eq(figure_published("T12", "NVMe, ext4, nr 1"), 494);
	cr_assert_eq(figure_published("T13", "XFS base, records"), 1964);
	cr_assert_eq(figure_published("T14", "nr 4"), 47.3);
}

Test(pub_contexts, t1_one_context_is_base)
{
	struct outcome outcome;
	int status = run_small("T1", "1/256", &outcome);

	assert_status(&outcome, status);
	assert_verdict(&outcome, "1 context over base", FACT_OK);
	outcome_destroy(&outcome);
}

Test(pub_contexts, t2_a_file_has_one_context)
{
	struct outcome outcome;
	int status = run_small("T2", "1/32", &outcome);

	assert_status(&outcome, status);
	assert_verdict(&outcome, "XFS base: after the flush over remounted", FACT_OK);
	assert_verdict(&outcome, "XFS: parallel over base, remounted", FACT_OK);
	outcome_destroy(&outcome);
}

Test(pub_contexts, t3_on_one_cpu_the_automatic_number_does_what_base_does)
{
	struct outcome outcome;
	int status = run_small("T3", "1/256", &outcome);

	assert_status(&outcome, status);
	cr_assert_eq(status, EXIT_OK);
	assert_verdict(&outcome, "PMEM, XFS: automatic: the events of base", FACT_OK);
	assert_verdict(&outcome, "NVMe, ext4: automatic number", FACT_OK);
	outcome_destroy(&outcome);
}

Test(pub_contexts, t4_a_disk_has_one_context)
{
	struct outcome outcome;
	int status = run_small("T4", "1/256", &outcome);

	assert_status(&outcome, status);
	assert_verdict(&outcome, "random, XFS: automatic number", FACT_OK);
	assert_verdict(&outcome, "sequential, ext4: automatic number", FACT_OK);
	assert_verdict(&outcome, "sequential, XFS: 1 context over base", FACT_OK);
	outcome_destroy(&outcome);
}

Test(pub_contexts, t12_has_as_many_contexts_as_groups_or_cpus)
{
	struct outcome outcome;
	int status = run_small("T12", "1/1024", &outcome);

	assert_status(&outcome, status);
	assert_verdict(&outcome, "PMEM, XFS: automatic number", FACT_OK);
	assert_verdict(&outcome, "NVMe, ext4: automatic number", FACT_OK);
	outcome_destroy(&outcome);
}

Test(pub_contexts, t13_counts_records_and_pieces)
{
	struct outcome outcome;
	int status = run_small("T13", NULL, &outcome);

	assert_status(&outcome, status);
	cr_assert_eq(status, EXIT_OK);
	assert_verdict(&outcome, "records over pieces, least difference", FACT_OK);
	outcome_destroy(&outcome);
}

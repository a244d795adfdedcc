/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * published-print.c - a published table beside ours
 */
#include <stdio.h>
#include <string.h>

#include "published.h"
#include "table.h"

static const char *figure_text(double figure)
{
	return figure != 0 ? human_figure(figure) : "-";
}

static const char *times(double figure, double base)
{
	return figure != 0 && base != 0 ? text("%.2f x", figure / base) : "";
}

static void print_cells(const struct outcome *outcome, FILE *out)
{
	const struct published *table = outcome->published;
	const char *unit = table->unit ? table->unit : "MiB/s";
	double base = published_figure(outcome, table->base, false);
	struct table cells;

	table_init(&cells, "lrrrrr");
	table_row(&cells, "%s\tours\t\tpublished\t\town defaults", unit);
	for (unsigned int i = 0; i < table->nr_cells; i++) {
		const struct cell *cell = &table->cells[i];
		double ours = published_figure(outcome, i, false);

		table_row(&cells, "%s\t%s\t%s\t%s\t%s\t%s", cell->label, figure_text(ours),
			  times(ours, base), figure_text(cell->published),
			  times(cell->published, table->cells[table->base].published),
			  cell->own ? figure_text(published_figure(outcome, i, true)) : "");
	}
	table_print(&cells, out);
}

/* Busy time of the kinds of tasks whose name begins so, as CPUs. */
static const char *cpus_of(const struct results *results, const char *name)
{
	uint64_t ns = 0;

	for (unsigned int i = 0; i < results->nr_kinds; i++)
		if (strncmp(results->kinds[i].name, name, strlen(name)) == 0)
			ns += results->kinds[i].busy_ns;
	return results->virtual_ns ? text("%.2f", (double)ns / (double)results->virtual_ns) : "-";
}

static uint64_t waits_of(const struct results *results)
{
	uint64_t ns = 0;

	for (unsigned int i = 0; i < results->nr_locks; i++)
		ns += results->locks[i].wait_ns;
	return ns;
}

/* What nobody published (R5): of the first seed. */
static void print_more(const struct outcome *outcome, FILE *out)
{
	const struct published *table = outcome->published;
	struct table more;

	table_init(&more, "lrrrrrrrrr");
	table_row(&more, "first seed\tdata\trequests\tmean\tcache ampl.\tfs ampl.\twriters' CPUs"
			 "\tflushers'\tcompletion\tlock waits");
	for (unsigned int i = 0; i < table->nr_cells; i++) {
		const struct results *results = &published_run_of(outcome, 0, i)->results;

		table_row(&more, "%s\t%s\t%llu\t%s\t%s\t%s\t%s\t%s\t%s\t%s", table->cells[i].label,
			  human_bytes(results->data_bytes), (unsigned long long)results->write_ios,
			  human_bytes(results_mean_request(results)),
			  human_ratio(results->cache_amplification),
			  human_ratio(results->fs_amplification), cpus_of(results, "fio-job"),
			  cpus_of(results, "flush"), cpus_of(results, "wb-done"),
			  human_ns(waits_of(results)));
	}
	table_print(&more, out);
}

static void print_bands(const struct outcome *outcome, FILE *out)
{
	static const char *const verdicts[] = {"documented", "inside", "OUTSIDE"};
	struct table bands;

	table_init(&bands, "lrrl");
	table_row(&bands, "band\tours, median of seeds\twanted (published)\t");
	for (unsigned int i = 0; i < outcome->nr_facts; i++) {
		const struct fact *one = &outcome->facts[i];

		table_row(&bands, "%s\t%s\t%s\t%s", one->what, one->ours, one->expected,
			  verdicts[one->verdict]);
	}
	table_print(&bands, out);
}

/* What the first run has for these knobs: the table's, unless the user said otherwise. */
static void print_pairs(const struct outcome *outcome, pairs_t pairs, FILE *out)
{
	for (unsigned int i = 0; pairs[i]; i += 2)
		fprintf(out, " --%s %s", pairs[i],
			knob_text(&outcome->runs[0].knobs, knob_find(pairs[i])));
}

void published_print(const struct outcome *outcome, FILE *out)
{
	const struct published *table = outcome->published;

	fprintf(out, "%s - %s\n  %s\n ", table->id, table->title, table->where);
	print_pairs(outcome, table->system, out);
	fputs("\n  posted:", out);
	print_pairs(outcome, table->posted, out);
	fputs("\n\n", out);
	print_cells(outcome, out);
	fputs("\n", out);
	print_more(outcome, out);
	fputs("\n", out);
	print_bands(outcome, out);
}

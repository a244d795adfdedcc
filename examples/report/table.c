/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * table.c - print outcomes and lists as aligned tables
 */
#include "table.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <iomap/fsbackend.h>

#include "published.h"
#include "sweep.h"

/* ---- units ------------------------------------------------------------------------------ */

const char *human_bytes(uint64_t bytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
	double value = (double)bytes;
	unsigned int unit = 0;

	while (value >= 1024 && unit < 4) {
		value /= 1024;
		unit++;
	}
	if (unit == 0)
		return text("%llu B", (unsigned long long)bytes);
	return text("%.*f %s", value < 100 ? 2 : 1, value, units[unit]);
}

const char *human_figure(double value)
{
	int places = value < 1 ? 3 : value < 10 ? 2 : value < 100 ? 1 : 0;

	return text("%.*f", places, value);
}

const char *human_rate(uint64_t bytes_per_s)
{
	return text("%s MiB/s", human_figure((double)bytes_per_s / (1 << 20)));
}

const char *human_ns(uint64_t ns)
{
	double value = (double)ns;

	if (ns < 1000)
		return text("%llu ns", (unsigned long long)ns);
	if (ns < 1000000)
		return text("%.1f us", value / 1e3);
	if (ns < 1000000000)
		return text("%.1f ms", value / 1e6);
	return text("%.2f s", value / 1e9);
}

const char *human_ratio(double ratio)
{
	return isnan(ratio) ? "-" : text("%.2f", ratio);
}

const char *human_result(enum result_unit unit, uint64_t value)
{
	switch (unit) {
	case UNIT_BYTES:
		return human_bytes(value);
	case UNIT_NS:
		return human_ns(value);
	case UNIT_RATE:
		return human_rate(value);
	case UNIT_COUNT:
		break;
	}
	return text("%llu", (unsigned long long)value);
}

/* ---- a table ---------------------------------------------------------------------------- */

void table_init(struct table *table, const char *align)
{
	*table = (struct table){.align = align};
}

void table_row(struct table *table, const char *format, ...)
{
	char **rows = realloc(table->rows, (table->nr_rows + 1) * sizeof(*rows));
	va_list args;

	if (!rows)
		return;
	table->rows = rows;
	va_start(args, format);
	rows[table->nr_rows++] = text_new(format, args);
	va_end(args);
}

static void measure_columns(const struct table *table, int *width)
{
	for (unsigned int i = 0; i < table->nr_rows; i++) {
		const char *cell = table->rows[i];

		for (unsigned int column = 0; cell && column < TABLE_COLUMNS_MAX; column++) {
			size_t len = strcspn(cell, "\t");

			if ((int)len > width[column])
				width[column] = (int)len;
			cell = cell[len] ? cell + len + 1 : NULL;
		}
	}
}

static void print_row(const struct table *table, const char *cell, const int *width, FILE *out)
{
	fputs(" ", out);
	for (unsigned int column = 0; cell && column < TABLE_COLUMNS_MAX; column++) {
		size_t len = strcspn(cell, "\t");
		bool last = !cell[len];

		if (table->align[column] == 'r')
			fprintf(out, " %*.*s", width[column], (int)len, cell);
		else if (last)
			fprintf(out, " %.*s", (int)len, cell);
		else
			fprintf(out, " %-*.*s", width[column], (int)len, cell);
		if (!last)
			fputs(" ", out);
		cell = last ? NULL : cell + len + 1;
	}
	fputs("\n", out);
}

static void print_line(const int *width, unsigned int nr_columns, FILE *out)
{
	fputs(" ", out);
	for (unsigned int column = 0; column < nr_columns; column++) {
		fputs(column ? "  " : " ", out);
		for (int i = 0; i < width[column]; i++)
			fputc('-', out);
	}
	fputs("\n", out);
}

void table_forget(struct table *table)
{
	for (unsigned int i = 0; i < table->nr_rows; i++)
		free(table->rows[i]);
	free(table->rows);
	table_init(table, table->align);
}

void table_print(struct table *table, FILE *out)
{
	int width[TABLE_COLUMNS_MAX] = {0};

	measure_columns(table, width);
	for (unsigned int i = 0; i < table->nr_rows; i++) {
		print_row(table, table->rows[i], width, out);
		if (i == 0)
			print_line(width, (unsigned int)strlen(table->align), out);
	}
	table_forget(table);
}

/* ---- parts of an outcome ---------------------------------------------------------------- */

static bool same_in_all_runs(const struct outcome *outcome, unsigned int id)
{
	const char *first = outcome->runs[0].knobs.value[id].text;

	for (unsigned int i = 1; i < outcome->nr_runs; i++)
		if (strcmp(outcome->runs[i].knobs.value[id].text, first) != 0)
			return false;
	return true;
}

/* The knobs that are not at their standard value. */
static void print_config(const struct outcome *outcome, FILE *out)
{
	const struct knobs *knobs = &outcome->runs[0].knobs;

	fprintf(out, "  --fs %s", knob_text(knobs, KNOB_FS));
	for (unsigned int id = 0; id < NR_KNOBS; id++)
		if (id != KNOB_FS && same_in_all_runs(outcome, id) &&
		    strcmp(knobs->value[id].text, knob_table[id].standard) != 0)
			fprintf(out, " --%s %s", knob_table[id].name, knobs->value[id].text);
	fputs("\n", out);
}

static void print_results(const struct results *results, FILE *out)
{
	struct table table;

	table_init(&table, "lrl");
	table_row(&table, "figure\tvalue\tmeaning");
#define X(name, unit, meaning)                                                                     \
	if (results->name)                                                                         \
		table_row(&table, #name "\t%s\t%s", human_result(unit, results->name), meaning);
	RESULT_COUNTS(X)
#undef X
#define X(name, meaning)                                                                           \
	if (!isnan(results->name))                                                                 \
		table_row(&table, #name "\t%s\t%s", human_ratio(results->name), meaning);
	RESULT_RATIOS(X)
#undef X
	table_row(&table, "nr_wb_ctx\t%u\twriteback contexts", results->nr_wb_ctx);
	if (results->extents_merged)
		table_row(&table, "extents\t%llu\tas filefrag counts; %llu records",
			  (unsigned long long)results->extents_merged,
			  (unsigned long long)results->extents_unmerged);
	table_print(&table, out);
}

static void print_histograms(const struct results *results, FILE *out)
{
	bool any = false;

	for (unsigned int order = 0; order < PAGE_CACHE_ORDERS; order++) {
		if (!results->folios[order])
			continue;
		fprintf(out, "%s%u: %llu", any ? ", " : "  folios by order  ", order,
			(unsigned long long)results->folios[order]);
		any = true;
	}
	fputs(any ? "\n" : "", out);
	any = false;
	for (unsigned int b = 0; b < BLKDEV_HIST_BUCKETS; b++) {
		if (!results->write_hist[b])
			continue;
		fprintf(out, "%s%s: %llu", any ? ", " : "  writes by size   ", size_text(1ull << b),
			(unsigned long long)results->write_hist[b]);
		any = true;
	}
	fputs(any ? "\n" : "", out);
}

static void print_contexts(const struct results *results, FILE *out)
{
	struct table table;

	table_init(&table, "rrrrrrr");
	table_row(&table, "context\tinodes\tbytes\trequests\tslices\tbusy\tlock wait");
	for (unsigned int i = 0; i < results->nr_wb_ctx; i++) {
		const struct wb_stats *stats = &results->contexts[i];

		table_row(&table, "%u\t%llu\t%s\t%llu\t%llu\t%s\t%s", i,
			  (unsigned long long)stats->inodes, human_bytes(stats->bytes),
			  (unsigned long long)stats->requests, (unsigned long long)stats->slices,
			  human_ns(stats->busy_ns), human_ns(stats->lock_wait_ns));
	}
	table_print(&table, out);
}

/* What the simulated tasks did, and which locks they waited for: the longest first. */
static void print_use(const struct results *results, FILE *out)
{
	struct table table;
	bool shown[ENV_SIM_MAX_KINDS] = {false};

	table_init(&table, "lrr");
	table_row(&table, "task\tthreads\tCPU time");
	for (unsigned int i = 0; i < results->nr_kinds; i++)
		if (results->kinds[i].busy_ns)
			table_row(&table, "%s\t%llu\t%s", results->kinds[i].name,
				  (unsigned long long)results->kinds[i].nr_tasks,
				  human_ns(results->kinds[i].busy_ns));
	table_print(&table, out);
	if (!results->nr_locks)
		return;
	table_init(&table, "lrr");
	table_row(&table, "lock\twaits\tall together");
	for (unsigned int n = 0; n < results->nr_locks; n++) {
		unsigned int most = ENV_SIM_MAX_KINDS;

		for (unsigned int i = 0; i < results->nr_locks; i++)
			if (!shown[i] && (most == ENV_SIM_MAX_KINDS ||
					  results->locks[i].wait_ns > results->locks[most].wait_ns))
				most = i;
		shown[most] = true;
		table_row(&table, "%s\t%llu\t%s", results->locks[most].name,
			  (unsigned long long)results->locks[most].waits,
			  human_ns(results->locks[most].wait_ns));
	}
	table_print(&table, out);
}

static void print_jobs(const struct run *run, FILE *out)
{
	struct table table;

	table_init(&table, "lrrrrl");
	table_row(&table, "job\twritten\tread\ttime\trate\t");
	for (unsigned int i = 0; i < run->nr_jobs; i++) {
		const struct job_line *job = &run->jobs[i];
		double seconds = (double)job->elapsed_ns / 1e9;
		double bytes = (double)(job->user_bytes + job->read_bytes);

		table_row(&table, "%s\t%s\t%s\t%s\t%s\t%s", job->name, human_bytes(job->user_bytes),
			  human_bytes(job->read_bytes), human_ns(job->elapsed_ns),
			  human_rate(seconds > 0 ? (uint64_t)(bytes / seconds) : 0), job->error);
	}
	table_print(&table, out);
}

static void print_runs(const struct outcome *outcome, FILE *out)
{
	struct table table;

	table_init(&table, "lrrrrrrrrr");
	table_row(&table, "run\tuser\tdirtied\tdata\tcache ampl.\tfs ampl.\trequests\tmean\trate"
			  "\ttime");
	for (unsigned int i = 0; i < outcome->nr_runs; i++) {
		const struct run *run = &outcome->runs[i];
		const struct results *results = &run->results;

		table_row(
			&table, "%s\t%s\t%s\t%s\t%s\t%s\t%llu\t%s\t%s\t%s", run->label,
			human_bytes(results->user_bytes), human_bytes(results->dirtied_bytes),
			human_bytes(results->data_bytes), human_ratio(results->cache_amplification),
			human_ratio(results->fs_amplification),
			(unsigned long long)results->write_ios,
			human_bytes(results_mean_request(results)),
			human_rate(results->bandwidth_bytes_per_s), human_ns(results->elapsed_ns));
	}
	table_print(&table, out);
}

static void print_facts(const struct outcome *outcome, FILE *out)
{
	static const char *const verdicts[] = {"", "ok", "MISS"};
	struct table table;

	if (!outcome->nr_facts)
		return;
	fputs("\n", out);
	table_init(&table, "lrrll");
	table_row(&table, "what\tours\tpublished, expected\tverdict\tsource");
	for (unsigned int i = 0; i < outcome->nr_facts; i++) {
		const struct fact *one = &outcome->facts[i];

		table_row(&table, "%s\t%s\t%s\t%s\t%s", one->what, one->ours, one->expected,
			  verdicts[one->verdict], one->source);
	}
	table_print(&table, out);
}

/* Words of a long line, filled to 96 columns. */
static void print_filled(const char *line, FILE *out)
{
	const unsigned int width = 96;
	unsigned int column = 0;

	fputs("  ", out);
	while (*line) {
		unsigned int len = (unsigned int)strcspn(line, " ");

		if (column && column + 1 + len > width) {
			fputs("\n  ", out);
			column = 0;
		}
		fprintf(out, "%s%.*s", column ? " " : "", (int)len, line);
		column += len + (column ? 1 : 0);
		line += len;
		line += strspn(line, " ");
	}
	fputs("\n", out);
}

static void print_notes(const struct outcome *outcome, FILE *out)
{
	if (outcome->nr_notes)
		fputs("\n", out);
	for (unsigned int i = 0; i < outcome->nr_notes; i++)
		print_filled(outcome->notes[i], out);
	fputs("\n", out);
	fflush(out);
}

void outcome_print_head(const struct outcome *outcome, FILE *out)
{
	fprintf(out, "%s%s%s\n", outcome->workload, outcome->text ? " - " : "",
		outcome->text ? outcome->text : "");
	if (!outcome->nr_runs)
		return;
	print_config(outcome, out);
	fputs("\n", out);
}

void outcome_print_tail(const struct outcome *outcome, FILE *out)
{
	print_facts(outcome, out);
	print_notes(outcome, out);
}

void outcome_print(const struct outcome *outcome, bool brief, FILE *out)
{
	const struct run *first = outcome->runs;

	if (outcome->published && outcome->nr_runs) {
		published_print(outcome, out);
		print_notes(outcome, out);
		return;
	}
	outcome_print_head(outcome, out);
	if (!outcome->nr_runs)
		return;
	if (outcome->nr_runs > 1 || brief) {
		print_runs(outcome, out);
		if (outcome->nr_runs == 1)
			print_histograms(&first->results, out);
	} else {
		if (first->nr_jobs)
			print_jobs(first, out);
		fputs(first->nr_jobs ? "\n" : "", out);
		print_results(&first->results, out);
		print_histograms(&first->results, out);
		if (first->results.nr_wb_ctx > 1)
			print_contexts(&first->results, out);
		if (first->results.nr_kinds)
			print_use(&first->results, out);
	}
	outcome_print_tail(outcome, out);
}

/* ---- list ------------------------------------------------------------------------------- */

static void list_workloads(FILE *out)
{
	struct table table;

	table_init(&table, "ll");
	table_row(&table, "workload\twhat it does");
	for (unsigned int i = 0; experiments[i]; i++)
		table_row(&table, "%s\t%s", experiments[i]->name, experiments[i]->text);
	for (unsigned int i = 0; published_tables[i]; i++)
		table_row(&table, "%s\tpublished: %s", published_tables[i]->id,
			  published_tables[i]->title);
	for (unsigned int i = 0; named_sweeps[i]; i++)
		table_row(&table, "%s\tsweep: %s", named_sweeps[i]->name, named_sweeps[i]->text);
	table_row(&table, "FILE.fio\ta job file of fio");
	table_row(&table, "FILE.cmd\tfio and dd commands, one a line");
	table_row(&table, "'fio ...'\ta command line of fio; all that follows is fio's");
	table_print(&table, out);
}

static void list_backends(FILE *out)
{
	struct table table;
	const char *name;

	table_init(&table, "ll");
	table_row(&table, "file system\twhat it is");
	for (unsigned int i = 0; (name = fs_backend_name(i)) != NULL; i++)
		table_row(&table, "%s\t%s", name, fs_backend_text(i));
	table_print(&table, out);
	fputs("\n", out);
	table_init(&table, "llll");
	table_row(&table, "--fs-options of\tname\tdefault\tmeaning");
	for (unsigned int i = 0; (name = fs_backend_name(i)) != NULL; i++) {
		const char *option;
		const char *value;
		const char *meaning;

		for (unsigned int j = 0;
		     (option = fs_backend_option(name, j, &value, &meaning)) != NULL; j++)
			table_row(&table, "%s\t%s\t%s\t%s", name, option, value, meaning);
	}
	table_print(&table, out);
}

static void list_devices(FILE *out)
{
	struct table table;
	const char *name;

	table_init(&table, "lrrrrl");
	table_row(&table, "modelled device\twrites\trequests/s\tchannels\tqueue\t");
	for (unsigned int i = 0; (name = blkdev_profile_name(i)) != NULL; i++) {
		const struct blkdev_profile *profile = blkdev_profile_find(name);
		const char *kind = profile->rotational	  ? "one head"
				   : profile->synchronous ? "memory: the submitter copies"
							  : "";

		table_row(&table, "%s\t%.0f MB/s\t%s\t%u\t%u\t%s", name,
			  (double)profile->write_bandwidth / 1e6,
			  profile->write_iops
				  ? text("%llu", (unsigned long long)profile->write_iops)
				  : "-",
			  profile->channels, profile->queue_depth, kind);
	}
	table_print(&table, out);
}

static void list_knobs(FILE *out)
{
	struct table table;

	table_init(&table, "llll");
	table_row(&table, "knob\tvalues\tdefault\tmeaning");
	for (unsigned int id = 0; id < NR_KNOBS; id++) {
		const struct knob *knob = &knob_table[id];

		table_row(&table, "--%s\t%s\t%s\t%s%s%s%s", knob->name, knob->values,
			  knob->standard, knob->help, knob->only ? " (" : "",
			  knob->only ? knob->only : "", knob->only ? ")" : "");
	}
	table_row(&table, "--trace\tFILE\t\tspans of one simulated run, to be opened in Perfetto");
	table_row(&table, "--json\tFILE|-\t\twrite the results there; -: nothing else on stdout");
	table_print(&table, out);
}

static void list_results(FILE *out)
{
	static const char *const units[] = {"bytes", "", "ns", "bytes/s"};
	struct table table;

	table_init(&table, "lll");
	table_row(&table, "result\tunit\tmeaning");
#define X(name, unit, meaning) table_row(&table, #name "\t%s\t%s", units[unit], meaning);
	RESULT_COUNTS(X)
#undef X
#define X(name, meaning) table_row(&table, #name "\t\t%s", meaning);
	RESULT_RATIOS(X)
	RESULT_OTHERS(X)
#undef X
	table_print(&table, out);
}

void list_print(FILE *out)
{
	list_workloads(out);
	fputs("\n", out);
	list_backends(out);
	fputs("\n", out);
	list_devices(out);
	fputs("\n", out);
	list_knobs(out);
	fputs("\n", out);
	list_results(out);
}

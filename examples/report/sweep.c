/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * sweep.c - one workload with every combination of some knobs
 *
 * The runs of the outcome are in the order of the axes, the last one turning fastest.
 */
#define _GNU_SOURCE /* memmem() */
#include "sweep.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs.h"
#include "pieces.h"
#include "progress.h"
#include "table.h"

const struct named_sweep *const named_sweeps[] = {&sweep_knee, NULL};

const struct named_sweep *named_sweep_find(const char *name)
{
	for (unsigned int i = 0; named_sweeps[i]; i++)
		if (strcmp(named_sweeps[i]->name, name) == 0)
			return named_sweeps[i];
	return NULL;
}

/* ---- axes ------------------------------------------------------------------------------- */

static int complain(const char *vary, const char *right, char *err)
{
	snprintf(err, ERR_MAX, "--vary '%.200s': %s", vary, right);
	return -EINVAL;
}

static int add_value(struct axis *axis, const char *value, size_t len, char *err)
{
	char **values = realloc(axis->values, (axis->nr + 1) * sizeof(*values));
	struct knobs scratch;

	if (values)
		axis->values = values;
	if (values)
		values[axis->nr] = strndup(value, len);
	if (!values || !values[axis->nr]) {
		snprintf(err, ERR_MAX, "no memory for the values of --vary");
		return -EINVAL;
	}
	axis->nr++;
	knobs_init(&scratch);
	return knobs_set(&scratch, knob_table[axis->knob].name, axis->values[axis->nr - 1], err);
}

/* Reads "a..b" or "a..b:step" of len characters; false: it is no such thing. */
static bool read_range(const char *text, size_t len, unsigned long long *range)
{
	char copy[64];
	int end = -1;

	range[2] = 1;
	if (len >= sizeof(copy) || !isdigit((unsigned char)text[0]))
		return false;
	memcpy(copy, text, len);
	copy[len] = '\0';
	if (sscanf(copy, "%llu..%llu%n", &range[0], &range[1], &end) == 2 && end == (int)len)
		return true;
	end = -1;
	return sscanf(copy, "%llu..%llu:%llu%n", &range[0], &range[1], &range[2], &end) == 3 &&
	       end == (int)len;
}

static int add_range(struct axis *axis, const char *vary, const unsigned long long *range,
		     char *err)
{
	char number[32];

	if (range[0] > range[1] || range[2] == 0)
		return complain(vary, "a range goes up, as in 1..12 or 0..100:10", err);
	for (unsigned long long at = range[0]; at <= range[1]; at += range[2]) {
		if (axis->nr >= SWEEP_RUNS_MAX)
			return complain(vary, "a sweep has at most 4096 runs", err);
		snprintf(number, sizeof(number), "%llu", at);
		if (add_value(axis, number, strlen(number), err))
			return -EINVAL;
	}
	return 0;
}

static int add_values(struct axis *axis, const char *vary, const char *list, char *err)
{
	while (*list) {
		size_t len = strcspn(list, ",");
		unsigned long long range[3];
		int bad;

		if (len == 0)
			return complain(vary, "a value is missing; it is NAME=VALUE,VALUE,...",
					err);
		if (axis->nr >= SWEEP_RUNS_MAX)
			return complain(vary, "a sweep has at most 4096 runs", err);
		if (read_range(list, len, range))
			bad = add_range(axis, vary, range, err);
		else if (memmem(list, len, "..", 2))
			return complain(vary,
					"a range is of whole numbers, as in 1..12 or "
					"0..100:10",
					err);
		else
			bad = add_value(axis, list, len, err);
		if (bad)
			return bad;
		list += len;
		if (*list == ',' && !*++list)
			return complain(vary, "a value is missing after the last comma", err);
	}
	return 0;
}

int sweep_add(struct sweep *sweep, const char *vary, char *err)
{
	size_t len = strcspn(vary, "=");
	struct axis *axis;
	char name[64];

	if (!vary[len] || !vary[len + 1])
		return complain(vary, "it is NAME=VALUES, as in nr-wb-ctx=1..12 or fs=xfs,ext4",
				err);
	if (sweep->nr_axes == SWEEP_AXES_MAX)
		return complain(vary, "at most eight knobs vary", err);
	snprintf(name, sizeof(name), "%.*s", (int)len, vary);
	axis = &sweep->axes[sweep->nr_axes];
	*axis = (struct axis){.knob = knob_find(name)};
	if (axis->knob == NR_KNOBS)
		return knobs_set(&(struct knobs){0}, name, NULL, err);
	for (unsigned int i = 0; i < sweep->nr_axes; i++)
		if (sweep->axes[i].knob == axis->knob)
			return complain(vary, "this knob varies already; give all values at once",
					err);
	sweep->nr_axes++;
	return add_values(axis, vary, vary + len + 1, err);
}

void sweep_destroy(struct sweep *sweep)
{
	for (unsigned int i = 0; i < sweep->nr_axes; i++) {
		for (unsigned int j = 0; j < sweep->axes[i].nr; j++)
			free(sweep->axes[i].values[j]);
		free(sweep->axes[i].values);
	}
	for (unsigned int i = 0; i < sweep->nr_show; i++)
		free((char *)sweep->show[i]);
	*sweep = (struct sweep){0};
}

/* ---- runs ------------------------------------------------------------------------------- */

static uint64_t nr_runs(const struct sweep *sweep)
{
	uint64_t nr = 1;

	for (unsigned int i = 0; i < sweep->nr_axes && nr <= SWEEP_RUNS_MAX; i++)
		nr *= sweep->axes[i].nr;
	return nr;
}

static int check_size(const struct sweep *sweep, const struct knobs *knobs, char *err)
{
	if (!sweep->nr_axes) {
		snprintf(err, ERR_MAX,
			 "sweep what? give --vary NAME=VALUES, as in "
			 "--vary nr-wb-ctx=1..12");
		return -EINVAL;
	}
	for (unsigned int i = 0; i < sweep->nr_axes; i++) {
		const char *name = knob_table[sweep->axes[i].knob].name;

		if (sweep->axes[i].knob == KNOB_CLOCK) {
			snprintf(err, ERR_MAX,
				 "--vary clock: figures of two clocks do not compare; "
				 "give --clock");
			return -EINVAL;
		}
		if (!knob_given(knobs, sweep->axes[i].knob))
			continue;
		snprintf(err, ERR_MAX, "--%s is given and varies too; leave one of them out", name);
		return -EINVAL;
	}
	if (nr_runs(sweep) > SWEEP_RUNS_MAX) {
		snprintf(err, ERR_MAX, "these --vary make more than %u runs; leave values out",
			 SWEEP_RUNS_MAX);
		return -EINVAL;
	}
	return 0;
}

static const char *value_of(const struct sweep *sweep, unsigned int run, unsigned int axis)
{
	for (unsigned int i = sweep->nr_axes - 1; i > axis; i--)
		run /= sweep->axes[i].nr;
	return sweep->axes[axis].values[run % sweep->axes[axis].nr];
}

static int add_run(const struct sweep *sweep, const struct knobs *knobs,
		   const struct sweep_workload *workload, struct outcome *outcome, char *err)
{
	const struct experiment *experiment = workload->experiment;
	unsigned int nr = outcome->nr_runs;
	struct knobs own = *knobs;
	struct run *run;

	for (unsigned int i = 0; i < sweep->nr_axes; i++)
		if (knobs_set(&own, knob_table[sweep->axes[i].knob].name, value_of(sweep, nr, i),
			      err))
			return -EINVAL;
	if (experiment && experiment->defaults)
		experiment->defaults(&own);
	if (knobs_check(&own, experiment ? experiment->name : "fio jobs", err))
		return -EINVAL;
	if (experiment && experiment->check && experiment->check(&own, err))
		return -EINVAL;
	run = outcome_add_run(outcome, &own);
	for (unsigned int i = 0; i < sweep->nr_axes; i++) {
		size_t used = strlen(run->label);

		snprintf(run->label + used, sizeof(run->label) - used, "%s%s=%s", used ? " " : "",
			 knob_table[sweep->axes[i].knob].name, value_of(sweep, nr, i));
	}
	return 0;
}

static int do_run(struct run *run, const void *arg, char *err)
{
	const struct sweep_workload *workload = arg;

	if (workload->experiment)
		return workload->experiment->run(run, err);
	return jobs_run_once(run, workload->fio, err);
}

static int run_all(const struct sweep_workload *workload, struct outcome *outcome, char *err)
{
	struct piece *pieces = calloc(outcome->nr_runs, sizeof(*pieces));
	int error;

	if (!pieces) {
		snprintf(err, ERR_MAX, "no memory for %u runs", outcome->nr_runs);
		return -ENOMEM;
	}
	for (unsigned int i = 0; i < outcome->nr_runs; i++) {
		pieces[i].run = &outcome->runs[i];
		pieces[i].fn = do_run;
		pieces[i].arg = workload;
	}
	progress_step("sweep %.60s", workload->name);
	error = pieces_run(pieces, outcome->nr_runs, err);
	free(pieces);
	return error;
}

static void judge_jobs(struct outcome *outcome)
{
	for (unsigned int i = 0; i < outcome->nr_runs; i++) {
		const struct run *run = &outcome->runs[i];

		for (unsigned int j = 0; j < run->nr_jobs; j++)
			if (run->jobs[j].error[0])
				fact(outcome, false,
				     text("%s: job %s", run->label, run->jobs[j].name),
				     "ended by an error", "no error", "fio");
	}
}

int sweep_run(const struct sweep *sweep, const struct knobs *knobs,
	      const struct sweep_workload *workload, struct outcome *outcome, char *err)
{
	struct knobs own = *knobs;
	int error;

	err[0] = '\0';
	outcome->text = "sweep";
	outcome->sweep = sweep;
	if (check_size(sweep, knobs, err))
		return EXIT_BAD_INPUT;
	knobs_default(&own, KNOB_CLOCK, "virtual");
	for (unsigned int i = (unsigned int)nr_runs(sweep); i > 0; i--)
		if (add_run(sweep, &own, workload, outcome, err))
			return EXIT_BAD_INPUT;
	error = run_all(workload, outcome, err);
	if (error)
		return error == -EINVAL || error == -ENOSPC ? EXIT_BAD_INPUT : EXIT_MISS;
	judge_jobs(outcome);
	return outcome_misses(outcome) ? EXIT_MISS : EXIT_OK;
}

/* ---- figures to show -------------------------------------------------------------------- */

static const char *const figure_names[] = {
#define X(name, unit, meaning) #name,
	RESULT_COUNTS(X)
#undef X
#define X(name, meaning) #name,
		RESULT_RATIOS(X)
#undef X
			"extents_merged",
	"extents_unmerged",
	NULL,
};

int sweep_show(struct sweep *sweep, const char *names, char *err)
{
	while (*names) {
		size_t len = strcspn(names, ",");
		char *name = strndup(names, len);
		unsigned int i = 0;
		const char *nearest;

		if (!name || sweep->nr_show == SWEEP_SHOW_MAX) {
			snprintf(err, ERR_MAX, "--show has at most %d names", SWEEP_SHOW_MAX);
			free(name);
			return -EINVAL;
		}
		sweep->show[sweep->nr_show++] = name;
		while (figure_names[i] && strcmp(figure_names[i], name) != 0)
			i++;
		if (!figure_names[i]) {
			nearest = word_nearest(name, figure_names);
			snprintf(err, ERR_MAX, "--show: no result '%.60s'; %s%s%s", name,
				 nearest ? "did you mean '" : "'iomap-report list' has them",
				 nearest ? nearest : "", nearest ? "'?" : "");
			return -EINVAL;
		}
		names += len + (names[len] == ',');
	}
	return 0;
}

/* In tables the unit of rates is in the heading. */
static const char *heading(const char *show)
{
	return strstr(show, "bytes_per_s") ? text("%s in MiB/s", show) : show;
}

static const char *figure_text(const struct results *results, const char *wanted)
{
#define X(name, unit, meaning)                                                                     \
	if (strcmp(wanted, #name) == 0)                                                            \
		return unit == UNIT_RATE ? human_figure((double)results->name / (1 << 20))         \
					 : human_result(unit, results->name);
	RESULT_COUNTS(X)
#undef X
#define X(name, meaning)                                                                           \
	if (strcmp(wanted, #name) == 0)                                                            \
		return human_ratio(results->name);
	RESULT_RATIOS(X)
#undef X
	return text("%llu", (unsigned long long)(strcmp(wanted, "extents_merged") == 0
							 ? results->extents_merged
							 : results->extents_unmerged));
}

/* ---- tables ----------------------------------------------------------------------------- */

/* Rows: the first knob.  Columns: the second. */
static void print_matrix(const struct sweep *sweep, const struct outcome *outcome, const char *show,
			 FILE *out)
{
	const struct axis *rows = &sweep->axes[0];
	const struct axis *columns = &sweep->axes[1];
	char align[TABLE_COLUMNS_MAX + 1];
	struct table table;

	memset(align, 'r', sizeof(align));
	align[0] = 'l';
	align[columns->nr + 1] = '\0';
	fprintf(out, "  %s, by --%s (down) and --%s\n", heading(show), knob_table[rows->knob].name,
		knob_table[columns->knob].name);
	table_init(&table, align);
	for (unsigned int i = 0; i <= rows->nr; i++) {
		char *line = NULL;
		size_t size;
		FILE *row = open_memstream(&line, &size);

		if (!row)
			return;
		fputs(i ? rows->values[i - 1] : "", row);
		for (unsigned int j = 0; j < columns->nr; j++) {
			const struct run *run =
				i ? &outcome->runs[(i - 1) * columns->nr + j] : NULL;

			fprintf(row, "\t%s",
				run ? figure_text(&run->results, show) : columns->values[j]);
		}
		fclose(row);
		table_row(&table, "%s", line);
		free(line);
	}
	table_print(&table, out);
	fputs("\n", out);
}

static const char *const usual[] = {
	"bandwidth_bytes_per_s", "elapsed_ns",	 "data_bytes",	 "write_ios", "cache_amplification",
	"fs_amplification",	 "lock_wait_ns", "throttled_ns", NULL,
};

/* One line a run. */
static void print_list(const struct sweep *sweep, const struct outcome *outcome, FILE *out)
{
	const char *const *show = sweep->nr_show ? sweep->show : usual;
	unsigned int nr = 0;
	char align[TABLE_COLUMNS_MAX + 1];
	struct table table;

	while (nr < (sweep->nr_show ? sweep->nr_show : 64) && show[nr])
		nr++;
	memset(align, 'r', sizeof(align));
	memset(align, 'l', sweep->nr_axes);
	align[sweep->nr_axes + nr] = '\0';
	table_init(&table, align);
	for (unsigned int i = 0; i <= outcome->nr_runs; i++) {
		char *line = NULL;
		size_t size;
		FILE *row = open_memstream(&line, &size);

		if (!row)
			return;
		for (unsigned int j = 0; j < sweep->nr_axes; j++)
			fprintf(row, "%s%s", j ? "\t" : "",
				i ? value_of(sweep, i - 1, j)
				  : knob_table[sweep->axes[j].knob].name);
		for (unsigned int j = 0; j < nr; j++)
			fprintf(row, "\t%s",
				i ? figure_text(&outcome->runs[i - 1].results, show[j])
				  : heading(show[j]));
		fclose(row);
		table_row(&table, "%s", line);
		free(line);
	}
	table_print(&table, out);
	fputs("\n", out);
}

void sweep_print(const struct sweep *sweep, const struct outcome *outcome, FILE *out)
{
	outcome_print_head(outcome, out);
	if (sweep->nr_axes == 2 && sweep->axes[1].nr < TABLE_COLUMNS_MAX) {
		for (unsigned int i = 0; i < (sweep->nr_show ? sweep->nr_show : 1); i++)
			print_matrix(sweep, outcome, sweep->nr_show ? sweep->show[i] : usual[0],
				     out);
	} else {
		print_list(sweep, outcome, out);
	}
	outcome_print_tail(outcome, out);
}

/* ---- CSV -------------------------------------------------------------------------------- */

static void put_line(const struct sweep *sweep, const struct outcome *outcome, unsigned int nr,
		     FILE *out)
{
	const struct results *results = &outcome->runs[nr].results;

	for (unsigned int i = 0; i < sweep->nr_axes; i++)
		fprintf(out, "%s%s", i ? "," : "", value_of(sweep, nr, i));
#define X(name, unit, meaning) fprintf(out, ",%llu", (unsigned long long)results->name);
	RESULT_COUNTS(X)
#undef X
#define X(name, meaning)                                                                           \
	if (isnan(results->name))                                                                  \
		fputc(',', out);                                                                   \
	else                                                                                       \
		fprintf(out, ",%.12g", results->name);
	RESULT_RATIOS(X)
#undef X
	fprintf(out, ",%llu,%llu\n", (unsigned long long)results->extents_merged,
		(unsigned long long)results->extents_unmerged);
}

int sweep_write_csv(const struct sweep *sweep, const struct outcome *outcome, const char *path,
		    char *err)
{
	bool to_stdout = strcmp(path, "-") == 0;
	FILE *out = to_stdout ? stdout : fopen(path, "w");
	int error = out ? 0 : -errno;

	if (out) {
		for (unsigned int i = 0; i < sweep->nr_axes; i++)
			fprintf(out, "%s%s", i ? "," : "", knob_table[sweep->axes[i].knob].name);
		for (unsigned int i = 0; figure_names[i]; i++)
			fprintf(out, ",%s", figure_names[i]);
		fputc('\n', out);
		for (unsigned int i = 0; i < outcome->nr_runs; i++)
			put_line(sweep, outcome, i, out);
		if (fflush(out) || ferror(out))
			error = errno ? -errno : -EIO;
		if (!to_stdout && fclose(out) && !error)
			error = -errno;
	}
	if (error)
		snprintf(err, ERR_MAX, "--csv '%.200s': %s; it is a file that may be written, or -",
			 path, strerror(-error));
	return error;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * published.c - run a published table, and judge ours by its bands
 *
 * The runs of an outcome are in this order: for each seed all cells, then for each seed the
 * cells that are run with the library's own defaults too.
 */
#include "published.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "jobs.h"
#include "pieces.h"
#include "progress.h"
#include "table.h"

#define OWN_LOSS_MAX 0.95 /* of the posted figure, R4 */

const struct published *const published_tables[] = {
	&published_a2,	&published_t1,	&published_t2,	&published_t3,	&published_t4,
	&published_t7,	&published_t8,	&published_t9,	&published_t12, &published_t13,
	&published_t14, &published_t21, &published_t27, &published_t31, NULL,
};

const struct published *published_find(const char *id)
{
	for (unsigned int i = 0; published_tables[i]; i++)
		if (strcasecmp(published_tables[i]->id, id) == 0)
			return published_tables[i];
	return NULL;
}

/* ---- figures ---------------------------------------------------------------------------- */

double published_bandwidth(const struct run *run)
{
	const struct knob_value *scale = &run->knobs.value[KNOB_SCALE];
	double rate = (double)run->results.bandwidth_bytes_per_s;

	if (!knobs_scale_rates(&run->knobs))
		return rate;
	return rate * (double)scale->den / (double)scale->number;
}

static double figure_of(const struct published *table, const struct run *run)
{
	if (table->figure)
		return table->figure(run);
	return published_bandwidth(run) / (1 << 20);
}

double view_figure(const struct view *view, unsigned int cell)
{
	return figure_of(view->table, view->runs[cell]);
}

static unsigned int largest_cell(const struct view *view, const struct band *band)
{
	unsigned int largest = band->a;

	for (unsigned int cell = band->a; cell <= band->b; cell++)
		if (view_figure(view, cell) > view_figure(view, largest))
			largest = cell;
	return largest;
}

double band_peak(const struct view *view, const struct band *band)
{
	return largest_cell(view, band) - band->a + 1;
}

double band_knee(const struct view *view, const struct band *band)
{
	double peak = view_figure(view, largest_cell(view, band));
	unsigned int cell = band->a;

	while (view_figure(view, cell) < 0.95 * peak)
		cell++;
	return cell - band->a + 1;
}

double band_least_step(const struct view *view, const struct band *band)
{
	double least = INFINITY;

	for (unsigned int cell = band->a; cell < band->b; cell++)
		least = fmin(least, view_figure(view, cell + 1) / view_figure(view, cell));
	return least;
}

double band_decline(const struct view *view, const struct band *band)
{
	return 1 - view_figure(view, band->b) / view_figure(view, largest_cell(view, band));
}

double band_peak_gain(const struct view *view, const struct band *band)
{
	return view_figure(view, largest_cell(view, band)) / view_figure(view, band->a);
}

double band_amplification(const struct view *view, const struct band *band)
{
	return view->runs[band->a]->results.cache_amplification;
}

double band_contexts(const struct view *view, const struct band *band)
{
	return view->runs[band->a]->results.nr_wb_ctx;
}

double band_over_best(const struct view *view, const struct band *band)
{
	struct band before = {.a = band->b, .b = band->a - 1};

	return view_figure(view, band->a) / view_figure(view, largest_cell(view, &before));
}

/* ---- one run ---------------------------------------------------------------------------- */

static int parse(struct fio_workload *workload, const char *job, char *err)
{
	fio_workload_init(workload);
	if (job[0] == '[')
		return fio_parse_job_text(workload, "job", job, err, ERR_MAX);
	return fio_parse_line(workload, job, err, ERR_MAX);
}

static int first_job_error(const struct run *run, char *err)
{
	for (unsigned int i = 0; i < run->nr_jobs; i++) {
		if (run->jobs[i].error[0]) {
			snprintf(err, ERR_MAX, "%s", run->jobs[i].error);
			return -EIO;
		}
	}
	return 0;
}

int published_measure(const char *job, struct rig *rig, struct run *run, char *err)
{
	struct fio_workload workload;
	int error = parse(&workload, job, err);

	free(run->jobs);
	run->jobs = NULL;
	run->nr_jobs = 0;
	if (!error)
		error = jobs_measure(&workload, rig, run, err);
	if (!error)
		error = first_job_error(run, err);
	fio_workload_destroy(&workload);
	return error;
}

struct assignment {
	const struct published *table;
	const struct cell *cell;
};

static int run_job(const struct published *table, const struct cell *cell, struct run *run,
		   char *err)
{
	const char *prepare = cell->prepare ? cell->prepare : table->prepare;
	struct rig rig = {.knobs = &run->knobs};
	int error = rig_open(&rig, err);

	if (error)
		return error;
	if (prepare)
		error = published_measure(prepare, &rig, run, err);
	if (!error)
		error = published_measure(cell->job ? cell->job : table->job, &rig, run, err);
	rig_close(&rig);
	return error;
}

static int do_assignment(struct run *run, const void *arg, char *err)
{
	const struct assignment *job = arg;

	if (job->table->run)
		return job->table->run(job->table, job->cell, run, err);
	return run_job(job->table, job->cell, run, err);
}

/* ---- all runs --------------------------------------------------------------------------- */

/* What the table says holds, unless the user said otherwise. */
static void apply(struct knobs *knobs, pairs_t pairs)
{
	for (unsigned int i = 0; pairs[i]; i += 2) {
		enum knob_id id = knob_find(pairs[i]);

		if (id == NR_KNOBS)
			abort();
		knobs_default(knobs, id, pairs[i + 1]);
	}
}

static unsigned int nr_seeds(const struct knobs *knobs)
{
	return knob_given(knobs, KNOB_SEED) ? 1 : PUBLISHED_SEEDS;
}

/* A multiple of 1 MiB, as --device-size is without a scale. */
static void scale_device(struct knobs *knobs)
{
	struct knob_value *size = &knobs->value[KNOB_DEVICE_SIZE];

	size->number = knobs_scaled(knobs, size->number, 1 << 20);
}

static int add_cell(const struct published *table, const struct cell *cell,
		    const struct knobs *user, unsigned int seed, bool own, struct outcome *outcome,
		    char *err)
{
	static const char *const seeds[PUBLISHED_SEEDS] = {"1", "2", "3"};
	struct knobs knobs = *user;
	struct run *run;

	knobs_force(&knobs, KNOB_CLOCK, "virtual");
	apply(&knobs, table->system);
	if (!own)
		apply(&knobs, table->posted);
	apply(&knobs, cell->knobs);
	if (!own)
		apply(&knobs, cell->posted);
	knobs_default(&knobs, KNOB_SEED, seeds[seed]);
	if (knobs_check(&knobs, table->id, err))
		return -EINVAL;
	if (table->scale_device)
		scale_device(&knobs);
	run = outcome_add_run(outcome, &knobs);
	snprintf(run->label, sizeof(run->label), "%.40s%s, seed %s", cell->label,
		 own ? ", own defaults" : "", knob_text(&knobs, KNOB_SEED));
	return 0;
}

static int refuse_given(const struct published *table, const struct knobs *user, pairs_t pairs,
			char *err)
{
	for (unsigned int i = 0; pairs[i]; i += 2) {
		if (!knob_given(user, knob_find(pairs[i])))
			continue;
		snprintf(err, ERR_MAX, "--%s with %s, which varies it; leave it out", pairs[i],
			 table->id);
		return -EINVAL;
	}
	return 0;
}

/* What tells the cells apart is not the user's. */
static int check_given(const struct published *table, const struct knobs *user, char *err)
{
	int bad = 0;

	if (knob_given(user, KNOB_CLOCK) && !knobs_virtual(user)) {
		snprintf(err, ERR_MAX, "--clock real with %s; published tables run in virtual time",
			 table->id);
		return -EINVAL;
	}
	for (unsigned int i = 0; i < table->nr_cells && !bad; i++) {
		bad = refuse_given(table, user, table->cells[i].knobs, err);
		if (!bad)
			bad = refuse_given(table, user, table->cells[i].posted, err);
	}
	return bad;
}

/* Adds all runs; assignments[i] is what runs[i] does. */
static int add_runs(const struct published *table, const struct knobs *user,
		    struct outcome *outcome, struct assignment *assignments, char *err)
{
	unsigned int seeds = nr_seeds(user);

	for (unsigned int own = 0; own < 2; own++) {
		for (unsigned int seed = 0; seed < seeds; seed++) {
			for (unsigned int i = 0; i < table->nr_cells; i++) {
				const struct cell *cell = &table->cells[i];

				if (own && !cell->own)
					continue;
				assignments[outcome->nr_runs] = (struct assignment){table, cell};
				if (add_cell(table, cell, user, seed, own, outcome, err))
					return -EINVAL;
			}
		}
	}
	return 0;
}

static int run_all(const struct published *table, const struct assignment *assignments,
		   struct outcome *outcome, char *err)
{
	struct piece *pieces = calloc(outcome->nr_runs, sizeof(*pieces));
	int error;

	if (!pieces) {
		snprintf(err, ERR_MAX, "no memory for %u runs", outcome->nr_runs);
		return -ENOMEM;
	}
	for (unsigned int i = 0; i < outcome->nr_runs; i++) {
		pieces[i].run = &outcome->runs[i];
		pieces[i].fn = do_assignment;
		pieces[i].arg = &assignments[i];
	}
	progress_step("%s", table->id);
	error = pieces_run(pieces, outcome->nr_runs, err);
	free(pieces);
	return error;
}

/* ---- judging ---------------------------------------------------------------------------- */

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;

	return (x > y) - (x < y);
}

double published_median(double *values, unsigned int nr)
{
	qsort(values, nr, sizeof(*values), compare_doubles);
	return values[nr / 2];
}

static unsigned int seeds_of(const struct outcome *outcome)
{
	return nr_seeds(&outcome->runs[0].knobs);
}

const struct run *published_run_of(const struct outcome *outcome, unsigned int seed,
				   unsigned int cell)
{
	return &outcome->runs[seed * outcome->published->nr_cells + cell];
}

const struct run *published_own_run_of(const struct outcome *outcome, unsigned int seed,
				       unsigned int cell)
{
	const struct published *table = outcome->published;
	unsigned int before = 0;
	unsigned int nr_own = 0;

	for (unsigned int i = 0; i < table->nr_cells; i++) {
		before += i < cell && table->cells[i].own;
		nr_own += table->cells[i].own;
	}
	return &outcome->runs[seeds_of(outcome) * table->nr_cells + seed * nr_own + before];
}

double published_figure(const struct outcome *outcome, unsigned int cell, bool own)
{
	double values[PUBLISHED_SEEDS];

	for (unsigned int seed = 0; seed < seeds_of(outcome); seed++)
		values[seed] = figure_of(outcome->published,
					 own ? published_own_run_of(outcome, seed, cell)
					     : published_run_of(outcome, seed, cell));
	return published_median(values, seeds_of(outcome));
}

static bool within(double value, double least, double most)
{
	return value >= least && value <= most;
}

/* By how much single runs may lie outside. */
static double slack(const struct band *band)
{
	if (isinf(band->least))
		return fabs(band->most) / 5;
	if (isinf(band->most))
		return fabs(band->least) / 5;
	return (band->most - band->least) / 5;
}

static double band_value(const struct view *view, const struct band *band)
{
	if (band->of)
		return band->of(view, band);
	return view_figure(view, band->a) / view_figure(view, band->b);
}

static void judge_band(struct outcome *outcome, const struct band *band)
{
	const struct published *table = outcome->published;
	const struct run **runs = calloc(table->nr_cells, sizeof(*runs));
	struct view view = {table, runs};
	double values[PUBLISHED_SEEDS];
	unsigned int nr = seeds_of(outcome);
	const char *ours;
	bool inside = true;
	double median;

	if (!runs)
		return;
	for (unsigned int seed = 0; seed < nr; seed++) {
		for (unsigned int cell = 0; cell < table->nr_cells; cell++)
			runs[cell] = published_run_of(outcome, seed, cell);
		values[seed] = band_value(&view, band);
		if (!within(values[seed], band->least - slack(band), band->most + slack(band)))
			inside = false;
	}
	free(runs);
	median = published_median(values, nr);
	inside = inside && within(median, band->least, band->most);
	ours = nr == 1 ? text("%.4g", median)
		       : text("%.4g (%.4g .. %.4g)", median, values[0], values[nr - 1]);
	if (!inside && band->documented) {
		fact_info(outcome, text("%s: outside", band->what), ours, band_text(band),
			  table->id);
		note(outcome, "%s: %s", band->what, band->documented);
		return;
	}
	fact(outcome, inside, band->what, ours, band_text(band), table->id);
}

const char *band_text(const struct band *band)
{
	const char *shown = band->published != 0 ? text(" (%.4g)", band->published) : "";

	if (isinf(band->most))
		return text(">= %.4g%s", band->least, shown);
	if (isinf(band->least))
		return text("<= %.4g%s", band->most, shown);
	return text("%.4g .. %.4g%s", band->least, band->most, shown);
}

static void judge_own(struct outcome *outcome)
{
	const struct published *table = outcome->published;

	for (unsigned int cell = 0; cell < table->nr_cells; cell++) {
		double posted = published_figure(outcome, cell, false);
		double own;

		if (!table->cells[cell].own)
			continue;
		own = published_figure(outcome, cell, true);
		fact(outcome, own >= OWN_LOSS_MAX * posted,
		     text("%.40s: own defaults over posted setting", table->cells[cell].label),
		     text("%.4g", own / posted), ">= 0.95", "R4");
	}
}

int published_run(const struct published *table, const struct knobs *knobs, struct outcome *outcome,
		  char *err)
{
	struct assignment *assignments;
	int error;

	outcome->workload = table->id;
	outcome->text = table->title;
	outcome->published = table;
	err[0] = '\0';
	if (check_given(table, knobs, err))
		return EXIT_BAD_INPUT;
	assignments = calloc(2 * PUBLISHED_SEEDS * table->nr_cells, sizeof(*assignments));
	if (!assignments) {
		snprintf(err, ERR_MAX, "no memory for the runs");
		return EXIT_MISS;
	}
	error = add_runs(table, knobs, outcome, assignments, err);
	if (error) {
		free(assignments);
		return EXIT_BAD_INPUT;
	}
	error = run_all(table, assignments, outcome, err);
	free(assignments);
	if (error)
		return error == -EINVAL ? EXIT_BAD_INPUT : EXIT_MISS;
	for (unsigned int i = 0; i < table->nr_bands; i++)
		judge_band(outcome, &table->bands[i]);
	judge_own(outcome);
	if (table->note)
		note(outcome, "%s", table->note);
	return outcome_misses(outcome) ? EXIT_MISS : EXIT_OK;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * sweep.h - one workload with every combination of some knobs
 *
 *	struct sweep sweep = {0};
 *
 *	sweep_add(&sweep, "nr-wb-ctx=1..12", err);
 *	sweep_add(&sweep, "ags=1,2,4", err);
 *	status = sweep_run(&sweep, &knobs, &workload, &outcome, err);
 *	sweep_print(&sweep, &outcome, stdout);
 *	sweep_destroy(&sweep);
 *
 * Values are `a..b`, `a..b:step`, words, or several of these with commas between.
 */
#ifndef REPORT_SWEEP_H
#define REPORT_SWEEP_H

#include <stdio.h>

#include "experiments.h"
#include "fio-parse.h"

#define SWEEP_AXES_MAX 8
#define SWEEP_RUNS_MAX 4096
#define SWEEP_SHOW_MAX 8

struct axis {
	enum knob_id knob;
	char **values;
	unsigned int nr;
};

struct sweep {
	struct axis axes[SWEEP_AXES_MAX];
	unsigned int nr_axes;
	const char *show[SWEEP_SHOW_MAX]; /* names of results; the first is bandwidth if none */
	unsigned int nr_show;
};

/* What is run: one of the two. */
struct sweep_workload {
	const char *name;
	const struct experiment *experiment;
	struct fio_workload *fio;
};

/* All return 0 or -EINVAL with one line in err. */
int sweep_add(struct sweep *sweep, const char *vary, char *err);
/* Names of results, with commas between. */
int sweep_show(struct sweep *sweep, const char *names, char *err);
void sweep_destroy(struct sweep *sweep);

/* Returns what the program exits with, as experiment_run(). */
int sweep_run(const struct sweep *sweep, const struct knobs *knobs,
	      const struct sweep_workload *workload, struct outcome *outcome, char *err);
void sweep_print(const struct sweep *sweep, const struct outcome *outcome, FILE *out);
/* One line a run: the knobs that vary, then every figure. */
int sweep_write_csv(const struct sweep *sweep, const struct outcome *outcome, const char *path,
		    char *err);

/* A sweep with a name. */
struct named_sweep {
	const char *name;
	const char *text;
	const char *job;
	const char *const *knobs; /* name, value, ..., NULL */
	const char *const *vary; /* NULL at the end */
	/* Optional.  Notes on what was found. */
	void (*judge)(const struct sweep *sweep, struct outcome *outcome);
};

extern const struct named_sweep *const named_sweeps[]; /* NULL at the end */

const struct named_sweep *named_sweep_find(const char *name);

extern const struct named_sweep sweep_knee;

#endif

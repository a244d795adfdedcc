/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * published.h - tables that others published, as data: system, workload, figures, bands
 *
 *	static const struct cell cells[] = {
 *		{"nr 1", 16.4, .posted = {"nr-wb-ctx", "1"}},
 *		{"nr 8", 40.8, .posted = {"nr-wb-ctx", "8"}, .own = true},
 *	};
 *	static const struct band bands[] = {
 *		{"8 contexts over 1", .a = 1, .b = 0, .least = 2.0, .most = 3.0, .published = 2.49},
 *	};
 *	const struct published published_t14 = {.id = "T14", ...};
 *
 * and one line in the list of published.c.  Each cell of a table is a configuration.  It is run
 * with three seeds in virtual time; the median has to lie in the band, and each single run in
 * the band widened by a fifth of its width on both sides (R2).  A cell with `own` is also run
 * with the library's defaults, which must not lose more than 5 % of its figure (R4).
 *
 * Knobs are pairs of strings.  A run has those of the table's system, then those of the cell;
 * unless it is of the library's own defaults, also the table's `posted` and the cell's `posted`.
 */
#ifndef REPORT_PUBLISHED_H
#define REPORT_PUBLISHED_H

#include <stdio.h>

#include "experiments.h"
#include "rig.h"

#define PUBLISHED_SEEDS 3
#define PAIRS_MAX	16

typedef const char *const pairs_t[2 * PAIRS_MAX + 1]; /* name, value, ..., NULL */

struct cell {
	const char *label;
	double published; /* its figure, 0: none was published */
	pairs_t knobs;
	pairs_t posted;
	bool own; /* run it with the library's defaults too */
	const char *job; /* NULL: the table's */
	const char *prepare; /* NULL: the table's */
	long argument; /* for the table's own run() */
};

struct published;
struct view;

struct band {
	const char *what;
	/* What is judged, from the runs of one seed; NULL: figure of cell a over that of cell b. */
	double (*of)(const struct view *view, const struct band *band);
	unsigned int a, b; /* cells, or whatever of() takes them for */
	/*
	 * Both ends belong to the band; INFINITY or -INFINITY: open.  An open band has no width:
	 * single runs may miss its end by a fifth of that.
	 */
	double least, most;
	double published; /* 0: nothing to show beside ours */
	const char
		*documented; /* why we lie outside, which then is no failure; NULL: we should not */
};

struct published {
	const char *id; /* "T14" */
	const char *title;
	const char *where; /* who, when, on what */
	pairs_t system; /* fs, cpus, memory, device, scale, ... (R3) */
	bool scale_device; /* its size too is multiplied by the scale: seeks, full groups */
	pairs_t posted; /* map, throttle-share, kick-all of the posted version (R4) */
	const char *job; /* a job file if it begins with '[', else one command line of fio */
	const char *prepare; /* the same, run before; nothing of it counts; NULL: none */
	const struct cell *cells;
	unsigned int nr_cells;
	const struct band *bands;
	unsigned int nr_bands;
	unsigned int base; /* the cell that the others are shown as multiples of */
	const char *unit; /* of the figures; NULL: MiB/s */
	/* The figure of a run; NULL: bandwidth in MiB/s. */
	double (*figure)(const struct run *run);
	/*
	 * NULL: rig, prepare, job, as it says above.  Else the whole run, in the simulated world;
	 * figures that struct results has no name for go to results.more[].
	 */
	int (*run)(const struct published *table, const struct cell *cell, struct run *run,
		   char *err);
	const char *note; /* what one should know when comparing, or NULL */
};

/* The runs of one seed. */
struct view {
	const struct published *table;
	const struct run *const *runs; /* by cell */
};

extern const struct published *const published_tables[]; /* NULL at the end */

/* "T14", "t14"; NULL: there is none. */
const struct published *published_find(const char *id);
/* As experiment_run(). */
int published_run(const struct published *table, const struct knobs *knobs, struct outcome *outcome,
		  char *err);
void published_print(const struct outcome *outcome, FILE *out);

/* ---- of an outcome, for printing ---------------------------------------------------------- */

/* Sorts them. */
double published_median(double *values, unsigned int nr);
const struct run *published_run_of(const struct outcome *outcome, unsigned int seed,
				   unsigned int cell);
const struct run *published_own_run_of(const struct outcome *outcome, unsigned int seed,
				       unsigned int cell);
/* The median over the seeds; own: with the library's defaults. */
double published_figure(const struct outcome *outcome, unsigned int cell, bool own);
const char *band_text(const struct band *band);

/* ---- for tables ------------------------------------------------------------------------- */

/* Of user data, bytes per second: at full speed where rates are scaled. */
double published_bandwidth(const struct run *run);
double view_figure(const struct view *view, unsigned int cell);
/* For `of`: 1 for the first of cells a .. b, with the largest figure, 2 for the second, ... */
double band_peak(const struct view *view, const struct band *band);
/* The first of cells a .. b that has at least 95 % of the largest figure, counted the same way. */
double band_knee(const struct view *view, const struct band *band);
/* The smallest factor from one of cells a .. b to the next; from 1 on they do not fall. */
double band_least_step(const struct view *view, const struct band *band);
/* From the largest figure of cells a .. b to the last of them: 0.15 is a loss of 15 %. */
double band_decline(const struct view *view, const struct band *band);
double band_peak_gain(const struct view *view, const struct band *band); /* largest over first */
/* cache_amplification of cell a. */
double band_amplification(const struct view *view, const struct band *band);

/* Writeback contexts that cell a had. */
double band_contexts(const struct view *view, const struct band *band);
/* Figure of cell a over the largest of cells b .. a - 1. */
double band_over_best(const struct view *view, const struct band *band);

/* Pairs for `posted` of a cell: one context as in a kernel that knows no others, ... */
#define PLAIN_FLUSHER "nr-wb-ctx", "1", "wb-map", "one", "throttle-share", "bdi", "kick-all", "on"
/* ... and the library's own choices. */
#define AUTOMATIC_NUMBER                                                                           \
	"nr-wb-ctx", "auto", "wb-map", "auto", "throttle-share", "bdi", "kick-all", "on"

/* A job or command in an open rig: results and jobs of the run.  For run() of a table. */
int published_measure(const char *job, struct rig *rig, struct run *run, char *err);

/* ---- the tables ------------------------------------------------------------------------- */

extern const struct published published_a2;
extern const struct published published_t1;
extern const struct published published_t2;
extern const struct published published_t3;
extern const struct published published_t4;
extern const struct published published_t7;
extern const struct published published_t8;
extern const struct published published_t9;
extern const struct published published_t12;
extern const struct published published_t13;
extern const struct published published_t14;
extern const struct published published_t21;
extern const struct published published_t27;
extern const struct published published_t31;

#endif

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * experiments.h - the built-in experiments, and what a workload leaves behind
 *
 *	struct outcome outcome;
 *
 *	outcome_init(&outcome, experiment->name);
 *	status = experiment_run(experiment, &knobs, &outcome, err);
 *	... outcome.runs[i].results, outcome.facts[i] ...
 *	outcome_destroy(&outcome);
 *
 * An experiment varies up to two knobs; one that the user has set keeps its value.  Each
 * combination is a run in a rig of its own.  Then facts are judged over all runs.  Tables that
 * others published are in published.h.
 */
#ifndef REPORT_EXPERIMENTS_H
#define REPORT_EXPERIMENTS_H

#include <stdarg.h>
#include <stdbool.h>

#include "knobs.h"
#include "results.h"

/* What the program exits with. */
enum { EXIT_OK, EXIT_MISS, EXIT_BAD_INPUT };

#define SOURCE_PROJECT "by definition"

enum verdict { FACT_INFO, FACT_OK, FACT_MISS };

/* One line: what we measured beside what it should be. */
struct fact {
	char what[96];
	char ours[64];
	char expected[64];
	const char *source;
	enum verdict verdict;
};

/* One job of a fio run. */
struct job_line {
	char name[64];
	uint64_t user_bytes;
	uint64_t read_bytes;
	uint64_t elapsed_ns;
	char error[320];
};

struct run {
	char label[64]; /* "block-size=8k", empty if nothing varies */
	struct knobs knobs;
	struct results results;
	struct job_line *jobs;
	unsigned int nr_jobs;
};

struct published;
struct sweep;

struct outcome {
	const char *workload;
	const char *text; /* what it is, NULL: a file of the user */
	const struct sweep *sweep; /* what varied in it, NULL: it is none */
	const struct published *published; /* the table it repeats, NULL: none */
	struct run *runs;
	unsigned int nr_runs;
	struct fact *facts;
	unsigned int nr_facts;
	char **notes;
	unsigned int nr_notes;
};

#define VARIATIONS_MAX 2

struct variation {
	enum knob_id knob;
	const char *const *values; /* NULL: there is no variation; ends in NULL */
};

struct experiment {
	const char *name;
	const char *text;
	struct variation vary[VARIATIONS_MAX];
	/* Optional.  Its own defaults. */
	void (*defaults)(struct knobs *knobs);
	/* Optional.  Sizes that it cannot do: -EINVAL with one line in err. */
	int (*check)(const struct knobs *knobs, char *err);
	/* One run: fills run->results.  0 or a negative errno with one line in err. */
	int (*run)(struct run *run, char *err);
	/* Adds facts and notes about all runs. */
	void (*judge)(struct outcome *outcome);
};

extern const struct experiment *const experiments[]; /* NULL at the end */

const struct experiment *experiment_find(const char *name);
/* Returns EXIT_OK, EXIT_MISS or EXIT_BAD_INPUT; err is empty unless it could not run. */
int experiment_run(const struct experiment *experiment, const struct knobs *knobs,
		   struct outcome *outcome, char *err);

void outcome_init(struct outcome *outcome, const char *workload);
void outcome_destroy(struct outcome *outcome);
struct run *outcome_add_run(struct outcome *outcome, const struct knobs *knobs);
/* How many facts are missed. */
unsigned int outcome_misses(const struct outcome *outcome);

void note(struct outcome *outcome, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* ours and expected are printed texts; ok: does it hold? */
void fact(struct outcome *outcome, bool ok, const char *what, const char *ours,
	  const char *expected, const char *source);
/* Figures side by side that nobody judges. */
void fact_info(struct outcome *outcome, const char *what, const char *ours, const char *published,
	       const char *source);
/* Exactly the expected number; run: whose label stands before what, or NULL. */
void fact_exact(struct outcome *outcome, const struct run *run, const char *what, uint64_t ours,
		uint64_t expected, const char *source);
/* The same for every run: one line if it holds in all, else one for each that fails. */
void fact_exact_all(struct outcome *outcome, const char *what,
		    uint64_t (*ours)(const struct run *run),
		    uint64_t (*expected)(const struct run *run), const char *source);
/* The usual `ours`. */
uint64_t run_user_bytes(const struct run *run);
uint64_t run_data_bytes(const struct run *run);
void fact_within(struct outcome *outcome, const struct run *run, const char *what, double ours,
		 double least, double most, const char *source);

/* printf into one of sixteen buffers in turn; for arguments of the calls above. */
const char *text(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* printf into new memory; the program ends if there is none. */
char *text_new(const char *format, va_list args) __attribute__((format(printf, 1, 0)));

extern const struct experiment exp_anchor_overwrite;
extern const struct experiment exp_page_64k;
extern const struct experiment exp_block_size;
extern const struct experiment exp_order_hint;
extern const struct experiment exp_contexts;
extern const struct experiment exp_seed_000;
extern const struct experiment exp_seed_002;
extern const struct experiment exp_seed_003;
extern const struct experiment exp_seed_004;

#endif

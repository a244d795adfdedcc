/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * experiments.c - the table of experiments; running one in all its variations; its outcome
 */
#include "experiments.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pieces.h"
#include "progress.h"

const struct experiment *const experiments[] = {
	&exp_anchor_overwrite, &exp_page_64k, &exp_block_size, &exp_order_hint, &exp_contexts,
	&exp_seed_000,	       &exp_seed_002, &exp_seed_003,   &exp_seed_004,	NULL,
};

const struct experiment *experiment_find(const char *name)
{
	for (unsigned int i = 0; experiments[i]; i++)
		if (strcmp(experiments[i]->name, name) == 0)
			return experiments[i];
	return NULL;
}

/* ---- outcome ---------------------------------------------------------------------------- */

static void *grow(void *array, unsigned int nr, size_t size)
{
	void *larger = realloc(array, (nr + 1) * size);

	if (!larger) {
		fprintf(stderr, "iomap-report: no memory\n");
		exit(EXIT_MISS);
	}
	memset((char *)larger + nr * size, 0, size);
	return larger;
}

void outcome_init(struct outcome *outcome, const char *workload)
{
	*outcome = (struct outcome){.workload = workload};
}

void outcome_destroy(struct outcome *outcome)
{
	for (unsigned int i = 0; i < outcome->nr_runs; i++)
		free(outcome->runs[i].jobs);
	for (unsigned int i = 0; i < outcome->nr_notes; i++)
		free(outcome->notes[i]);
	free(outcome->runs);
	free(outcome->facts);
	free(outcome->notes);
	*outcome = (struct outcome){.workload = outcome->workload};
}

struct run *outcome_add_run(struct outcome *outcome, const struct knobs *knobs)
{
	struct run *run;

	outcome->runs = grow(outcome->runs, outcome->nr_runs, sizeof(*run));
	run = &outcome->runs[outcome->nr_runs++];
	run->knobs = *knobs;
	return run;
}

unsigned int outcome_misses(const struct outcome *outcome)
{
	unsigned int nr = 0;

	for (unsigned int i = 0; i < outcome->nr_facts; i++)
		nr += outcome->facts[i].verdict == FACT_MISS;
	return nr;
}

char *text_new(const char *format, va_list args)
{
	va_list again;
	char *copy;
	int len;

	va_copy(again, args);
	len = vsnprintf(NULL, 0, format, again);
	va_end(again);
	copy = grow(NULL, (unsigned int)len, 1);
	vsnprintf(copy, (size_t)len + 1, format, args);
	return copy;
}

void note(struct outcome *outcome, const char *format, ...)
{
	va_list args;

	outcome->notes = grow(outcome->notes, outcome->nr_notes, sizeof(*outcome->notes));
	va_start(args, format);
	outcome->notes[outcome->nr_notes++] = text_new(format, args);
	va_end(args);
}

static void add_fact(struct outcome *outcome, const char *what, const char *ours,
		     const char *expected, const char *source, enum verdict verdict)
{
	struct fact *added;

	outcome->facts = grow(outcome->facts, outcome->nr_facts, sizeof(*added));
	added = &outcome->facts[outcome->nr_facts++];
	snprintf(added->what, sizeof(added->what), "%s", what);
	snprintf(added->ours, sizeof(added->ours), "%s", ours);
	snprintf(added->expected, sizeof(added->expected), "%s", expected);
	added->source = source;
	added->verdict = verdict;
}

void fact(struct outcome *outcome, bool ok, const char *what, const char *ours,
	  const char *expected, const char *source)
{
	add_fact(outcome, what, ours, expected, source, ok ? FACT_OK : FACT_MISS);
}

void fact_info(struct outcome *outcome, const char *what, const char *ours, const char *published,
	       const char *source)
{
	add_fact(outcome, what, ours, published, source, FACT_INFO);
}

static const char *labelled(const struct run *run, const char *what)
{
	return run && run->label[0] ? text("%s: %s", run->label, what) : what;
}

void fact_exact(struct outcome *outcome, const struct run *run, const char *what, uint64_t ours,
		uint64_t expected, const char *source)
{
	fact(outcome, ours == expected, labelled(run, what), text("%llu", (unsigned long long)ours),
	     text("%llu", (unsigned long long)expected), source);
}

uint64_t run_user_bytes(const struct run *run)
{
	return run->results.user_bytes;
}

uint64_t run_data_bytes(const struct run *run)
{
	return run->results.data_bytes;
}

void fact_exact_all(struct outcome *outcome, const char *what,
		    uint64_t (*ours)(const struct run *run),
		    uint64_t (*expected)(const struct run *run), const char *source)
{
	bool complete = true;

	for (unsigned int i = 0; i < outcome->nr_runs; i++) {
		const struct run *run = &outcome->runs[i];
		bool holds = ours(run) == expected(run);

		if (!holds || outcome->nr_runs == 1)
			fact_exact(outcome, run, what, ours(run), expected(run), source);
		complete = complete && holds;
	}
	if (complete && outcome->nr_runs > 1)
		fact(outcome, true, what, text("all %u runs", outcome->nr_runs), "exact", source);
}

void fact_within(struct outcome *outcome, const struct run *run, const char *what, double ours,
		 double least, double most, const char *source)
{
	fact(outcome, ours >= least && ours <= most, labelled(run, what), text("%.10g", ours),
	     text("%.10g .. %.10g", least, most), source);
}

const char *text(const char *format, ...)
{
	static __thread char buffers[16][128];
	static __thread unsigned int turn;
	char *buffer = buffers[turn++ % 16];
	va_list args;

	va_start(args, format);
	vsnprintf(buffer, sizeof(buffers[0]), format, args);
	va_end(args);
	return buffer;
}

/* ---- running ---------------------------------------------------------------------------- */

static bool varies(const struct variation *vary, const struct knobs *knobs)
{
	return vary->values && !knob_given(knobs, vary->knob);
}

static void add_label(struct run *run, enum knob_id knob)
{
	size_t used = strlen(run->label);

	snprintf(run->label + used, sizeof(run->label) - used, "%s%s=%s", used ? " " : "",
		 knob_table[knob].name, knob_text(&run->knobs, knob));
}

/* Turn the knobs that vary from this one on, and add a run for each combination. */
static void add_variations(const struct experiment *experiment, const struct knobs *knobs,
			   unsigned int depth, struct outcome *outcome,
			   const struct knobs *untouched)
{
	struct knobs turned = *knobs;
	struct run *run;

	if (depth < VARIATIONS_MAX && varies(&experiment->vary[depth], untouched)) {
		const struct variation *vary = &experiment->vary[depth];

		for (unsigned int i = 0; vary->values[i]; i++) {
			knobs_force(&turned, vary->knob, vary->values[i]);
			add_variations(experiment, &turned, depth + 1, outcome, untouched);
		}
		return;
	}
	if (depth < VARIATIONS_MAX) {
		add_variations(experiment, knobs, depth + 1, outcome, untouched);
		return;
	}
	run = outcome_add_run(outcome, knobs);
	for (unsigned int i = 0; i < VARIATIONS_MAX; i++)
		if (varies(&experiment->vary[i], untouched))
			add_label(run, experiment->vary[i].knob);
}

static int call_experiment(struct run *run, const void *arg, char *err)
{
	const struct experiment *experiment = arg;

	return experiment->run(run, err);
}

static int run_all(const struct experiment *experiment, struct outcome *outcome, char *err)
{
	struct piece *pieces = calloc(outcome->nr_runs, sizeof(*pieces));
	int error;

	if (!pieces) {
		snprintf(err, ERR_MAX, "no memory for %u runs", outcome->nr_runs);
		return -ENOMEM;
	}
	for (unsigned int i = 0; i < outcome->nr_runs; i++) {
		pieces[i].run = &outcome->runs[i];
		pieces[i].fn = call_experiment;
		pieces[i].arg = experiment;
	}
	progress_step("%s %s", experiment->name, knob_text(&outcome->runs[0].knobs, KNOB_FS));
	error = pieces_run(pieces, outcome->nr_runs, err);
	free(pieces);
	return error;
}

int experiment_run(const struct experiment *experiment, const struct knobs *knobs,
		   struct outcome *outcome, char *err)
{
	struct knobs own = *knobs;
	int error;

	err[0] = '\0';
	outcome->text = experiment->text;
	if (experiment->defaults)
		experiment->defaults(&own);
	if (knobs_check(&own, experiment->name, err))
		return EXIT_BAD_INPUT;
	if (experiment->check && experiment->check(&own, err))
		return EXIT_BAD_INPUT;
	add_variations(experiment, &own, 0, outcome, &own);
	error = run_all(experiment, outcome, err);
	if (error)
		return error == -EINVAL || error == -ENOSPC ? EXIT_BAD_INPUT : EXIT_MISS;
	experiment->judge(outcome);
	return outcome_misses(outcome) ? EXIT_MISS : EXIT_OK;
}

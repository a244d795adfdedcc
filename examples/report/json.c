/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * json.c - write outcomes with jansson
 *
 * {"schema": 1, "workload": .., "config": {..}, "results": {..}}; several runs add "runs", and
 * config and results are those of the first.
 */
#include "json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "published.h"
#include "sweep.h"

#define SCHEMA 1

static json_t *integer(uint64_t value)
{
	return json_integer((json_int_t)value);
}

static json_t *real(double value)
{
	return isnan(value) ? json_null() : json_real(value);
}

/* ---- config ----------------------------------------------------------------------------- */

static json_t *knob_json(const struct knob *knob, const struct knob_value *value)
{
	switch (knob->kind) {
	case KNOB_SIZE:
		return integer(value->number);
	case KNOB_COUNT:
		return strcmp(value->text, "auto") == 0 ? json_string("auto")
							: integer(value->number);
	case KNOB_WORD:
	case KNOB_RATIO:
	case KNOB_TEXT:
	case KNOB_BACKEND:
	case KNOB_DEVICE_SPEC:
		break;
	}
	return json_string(value->text);
}

static json_t *config_json(const struct knobs *knobs)
{
	json_t *config = json_object();

	for (unsigned int id = 0; id < NR_KNOBS; id++) {
		char name[64];

		snprintf(name, sizeof(name), "%s", knob_table[id].name);
		for (char *c = name; *c; c++)
			*c = *c == '-' ? '_' : *c;
		json_object_set_new(config, name, knob_json(&knob_table[id], &knobs->value[id]));
	}
	return config;
}

/* ---- results ---------------------------------------------------------------------------- */

static void set_hist(json_t *hist, uint64_t key, uint64_t nr)
{
	char name[32];

	snprintf(name, sizeof(name), "%llu", (unsigned long long)key);
	if (nr)
		json_object_set_new(hist, name, integer(nr));
}

static json_t *contexts_json(const struct results *results)
{
	json_t *contexts = json_array();

	for (unsigned int i = 0; i < results->nr_wb_ctx; i++) {
		json_t *context = json_object();

#define X(name, text) json_object_set_new(context, #name, integer(results->contexts[i].name));
		WB_STATS(X)
#undef X
		json_array_append_new(contexts, context);
	}
	return contexts;
}

static json_t *kinds_json(const struct results *results)
{
	json_t *kinds = json_object();

	for (unsigned int i = 0; i < results->nr_kinds; i++) {
		const struct env_sim_task_use *kind = &results->kinds[i];

		json_object_set_new(kinds, kind->name,
				    json_pack("{s:I,s:I}", "tasks", (json_int_t)kind->nr_tasks,
					      "busy_ns", (json_int_t)kind->busy_ns));
	}
	return kinds;
}

static json_t *locks_json(const struct results *results)
{
	json_t *locks = json_object();

	for (unsigned int i = 0; i < results->nr_locks; i++) {
		const struct env_sim_lock_use *lock = &results->locks[i];

		json_object_set_new(locks, lock->name,
				    json_pack("{s:I,s:I}", "waits", (json_int_t)lock->waits,
					      "wait_ns", (json_int_t)lock->wait_ns));
	}
	return locks;
}

static json_t *channels_json(const struct results *results)
{
	json_t *channels = json_array();

	for (unsigned int i = 0; i < results->model.channels; i++)
		json_array_append_new(channels, integer(results->model.busy_ns[i]));
	return channels;
}

static json_t *results_json(const struct results *results)
{
	json_t *object = json_object();
	json_t *sizes = json_object();
	json_t *orders = json_object();
	char hash[32];

#define X(name, unit, text) json_object_set_new(object, #name, integer(results->name));
	RESULT_COUNTS(X)
#undef X
#define X(name, text) json_object_set_new(object, #name, real(results->name));
	RESULT_RATIOS(X)
#undef X
	for (unsigned int b = 0; b < BLKDEV_HIST_BUCKETS; b++)
		set_hist(sizes, 1ull << b, results->write_hist[b]);
	for (unsigned int order = 0; order < PAGE_CACHE_ORDERS; order++)
		set_hist(orders, order, results->folios[order]);
	json_object_set_new(object, "io_size_hist", sizes);
	json_object_set_new(object, "folio_order_hist", orders);
	json_object_set_new(object, "contexts", contexts_json(results));
	json_object_set_new(object, "nr_wb_ctx", integer(results->nr_wb_ctx));
	json_object_set_new(object, "extents",
			    json_pack("{s:I,s:I}", "merged", (json_int_t)results->extents_merged,
				      "unmerged", (json_int_t)results->extents_unmerged));
	if (results->nr_kinds) {
		json_object_set_new(object, "cpu", kinds_json(results));
		json_object_set_new(object, "lock_waits", locks_json(results));
	}
	if (results->model.channels)
		json_object_set_new(object, "channels", channels_json(results));
	if (results->nr_more) {
		json_t *more = json_array();

		for (unsigned int i = 0; i < results->nr_more; i++)
			json_array_append_new(more, real(results->more[i]));
		json_object_set_new(object, "more", more);
	}
	if (results->content_xxh3) {
		snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)results->content_xxh3);
		json_object_set_new(object, "content_xxh3", json_string(hash));
	}
	return object;
}

static json_t *jobs_json(const struct run *run)
{
	json_t *jobs = json_array();

	for (unsigned int i = 0; i < run->nr_jobs; i++) {
		const struct job_line *job = &run->jobs[i];

		json_array_append_new(jobs, json_pack("{s:s,s:I,s:I,s:I,s:s}", "name", job->name,
						      "user_bytes", (json_int_t)job->user_bytes,
						      "read_bytes", (json_int_t)job->read_bytes,
						      "elapsed_ns", (json_int_t)job->elapsed_ns,
						      "error", job->error));
	}
	return jobs;
}

/* ---- an outcome ------------------------------------------------------------------------- */

static void set_run(json_t *object, const struct run *run)
{
	if (run->label[0])
		json_object_set_new(object, "label", json_string(run->label));
	json_object_set_new(object, "config", config_json(&run->knobs));
	json_object_set_new(object, "results", results_json(&run->results));
	if (run->nr_jobs)
		json_object_set_new(object, "jobs", jobs_json(run));
}

static json_t *facts_json(const struct outcome *outcome)
{
	static const char *const verdicts[] = {"info", "ok", "miss"};
	json_t *facts = json_array();

	for (unsigned int i = 0; i < outcome->nr_facts; i++) {
		const struct fact *one = &outcome->facts[i];

		json_array_append_new(facts,
				      json_pack("{s:s,s:s,s:s,s:s,s:s}", "what", one->what, "ours",
						one->ours, "expected", one->expected, "verdict",
						verdicts[one->verdict], "source", one->source));
	}
	return facts;
}

static json_t *notes_json(const struct outcome *outcome)
{
	json_t *notes = json_array();

	for (unsigned int i = 0; i < outcome->nr_notes; i++)
		json_array_append_new(notes, json_string(outcome->notes[i]));
	return notes;
}

/* Simulated figures are the same wherever the job file lies, so is the document. */
static const char *workload_name(const struct outcome *outcome)
{
	const char *slash = strrchr(outcome->workload, '/');

	if (!slash || !outcome->nr_runs || !knobs_virtual(&outcome->runs[0].knobs) ||
	    strchr(outcome->workload, ' '))
		return outcome->workload;
	return slash + 1;
}

static json_t *axes_json(const struct sweep *sweep)
{
	json_t *axes = json_array();

	for (unsigned int i = 0; i < sweep->nr_axes; i++) {
		json_t *values = json_array();

		for (unsigned int j = 0; j < sweep->axes[i].nr; j++)
			json_array_append_new(values, json_string(sweep->axes[i].values[j]));
		json_array_append_new(axes, json_pack("{s:s,s:o}", "knob",
						      knob_table[sweep->axes[i].knob].name,
						      "values", values));
	}
	return axes;
}

static json_t *published_json(const struct outcome *outcome)
{
	const struct published *table = outcome->published;
	json_t *cells = json_array();

	for (unsigned int i = 0; i < table->nr_cells; i++) {
		json_t *cell = json_pack(
			"{s:s,s:f,s:o}", "label", table->cells[i].label, "ours",
			published_figure(outcome, i, false), "published",
			real(table->cells[i].published != 0 ? table->cells[i].published : NAN));

		if (table->cells[i].own)
			json_object_set_new(cell, "own_defaults",
					    real(published_figure(outcome, i, true)));
		json_array_append_new(cells, cell);
	}
	return json_pack("{s:s,s:s,s:s,s:o}", "title", table->title, "where", table->where, "unit",
			 table->unit ? table->unit : "MiB/s", "cells", cells);
}

static json_t *outcome_json(const struct outcome *outcome)
{
	json_t *object = json_object();

	json_object_set_new(object, "schema", integer(SCHEMA));
	json_object_set_new(object, "workload", json_string(workload_name(outcome)));
	if (outcome->nr_runs)
		set_run(object, &outcome->runs[0]);
	if (outcome->nr_runs > 1) {
		json_t *runs = json_array();

		for (unsigned int i = 0; i < outcome->nr_runs; i++) {
			json_t *run = json_object();

			set_run(run, &outcome->runs[i]);
			json_array_append_new(runs, run);
		}
		json_object_set_new(object, "runs", runs);
	}
	if (outcome->sweep)
		json_object_set_new(object, "sweep", axes_json(outcome->sweep));
	/* Without runs there is an error instead of an outcome. */
	if (outcome->published && outcome->nr_facts)
		json_object_set_new(object, "published", published_json(outcome));
	json_object_set_new(object, "expectations", facts_json(outcome));
	json_object_set_new(object, "notes", notes_json(outcome));
	return object;
}

static int write_json(json_t *document, const char *path, char *err)
{
	const size_t flags = JSON_INDENT(2) | JSON_REAL_PRECISION(12);
	FILE *out = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
	int error = out ? 0 : -errno;

	if (out) {
		if (json_dumpf(document, out, flags) || fputc('\n', out) == EOF || fflush(out))
			error = errno ? -errno : -EIO;
		if (out != stdout && fclose(out) && !error)
			error = -errno;
	}
	json_decref(document);
	if (error)
		snprintf(err, ERR_MAX,
			 "--json '%.200s': %s; it is a file that may be written, or -", path,
			 strerror(-error));
	return error;
}

int json_write_outcome(const struct outcome *outcome, const char *path, char *err)
{
	return write_json(outcome_json(outcome), path, err);
}

int json_write_outcomes(const struct outcome *outcomes, unsigned int nr, const char *path,
			char *err)
{
	json_t *document = json_object();
	json_t *all = json_array();

	for (unsigned int i = 0; i < nr; i++)
		json_array_append_new(all, outcome_json(&outcomes[i]));
	json_object_set_new(document, "schema", integer(SCHEMA));
	json_object_set_new(document, "workload", json_string("report"));
	json_object_set_new(document, "workloads", all);
	return write_json(document, path, err);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * jobs.c - run fio jobs in a rig, and compare what they wrote with what fio prescribes
 *
 * Time and rate are fio's: the dirty rest is not in them.  Then everything is synced, so that
 * the device figures and the extents are those of all bytes that were written.
 */
#include "jobs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pieces.h"
#include "progress.h"

struct fio_scale jobs_scale(const struct knobs *knobs)
{
	const struct knob_value *scale = &knobs->value[KNOB_SCALE];

	return (struct fio_scale){scale->number, scale->den, knobs_scale_rates(knobs)};
}

static int compare_paths(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Of every file that still exists, once. */
static void add_extents(struct fs_target *target, struct results *results)
{
	if (target->nr_paths)
		qsort(target->paths, target->nr_paths, sizeof(*target->paths), compare_paths);
	for (unsigned int i = 0; i < target->nr_paths; i++) {
		struct file *file;

		if (i > 0 && strcmp(target->paths[i], target->paths[i - 1]) == 0)
			continue;
		if (fs_open(target->rig->fs, target->paths[i], FS_OPEN_READONLY, &file))
			continue;
		(void)rig_add_extents(file, results);
		(void)fs_close(file);
	}
}

static int keep_jobs(const struct fio_result *result, struct run *run)
{
	run->jobs = calloc(result->nr_jobs ? result->nr_jobs : 1, sizeof(*run->jobs));
	if (!run->jobs)
		return -ENOMEM;
	run->nr_jobs = result->nr_jobs;
	for (unsigned int i = 0; i < result->nr_jobs; i++) {
		const struct fio_job_result *job = &result->jobs[i];
		struct job_line *line = &run->jobs[i];

		snprintf(line->name, sizeof(line->name), "%s", job->name);
		snprintf(line->error, sizeof(line->error), "%s", job->error);
		line->user_bytes = job->counters.user_bytes;
		line->read_bytes = job->counters.read_bytes;
		line->elapsed_ns = job->counters.elapsed_ns;
	}
	return 0;
}

static int collect(struct fs_target *target, const struct fio_result *result, struct run *run,
		   char *err)
{
	struct rig *rig = target->rig;
	uint64_t start = env_clock_ns();
	int error = fs_sync(rig->fs);

	if (error)
		return rig_failed(err, "sync after the jobs", error);
	__atomic_store_n(&rig->user_bytes, result->total.user_bytes, __ATOMIC_RELAXED);
	rig->elapsed_ns = result->total.elapsed_ns;
	rig_collect(rig, &run->results);
	run->results.sync_ns = env_clock_ns() - start;
	run->results.user_read_bytes = result->total.read_bytes;
	results_derive(&run->results);
	add_extents(target, &run->results);
	error = keep_jobs(result, run);
	return error ? rig_failed(err, "figures of the jobs", error) : 0;
}

/* --seed moves the random numbers of all jobs. */
static void seed_jobs(const struct fio_workload *workload, const struct knobs *knobs)
{
	if (!knob_given(knobs, KNOB_SEED) && knob_number(knobs, KNOB_SEED) == 1)
		return; /* each job has its own */
	for (unsigned int i = 0; i < workload->nr_jobs; i++)
		workload->jobs[i].opt.randseed = knob_number(knobs, KNOB_SEED);
}

int jobs_measure(const struct fio_workload *workload, struct rig *rig, struct run *run, char *err)
{
	struct fio_progress bytes = {0};
	struct fio_run_options how = {.scale = jobs_scale(rig->knobs), .progress = &bytes};
	struct fs_target fs_target;
	struct fio_target target = {.ctx = &fs_target, .ops = &fs_target_ops};
	struct fio_result result;
	int error;

	seed_jobs(workload, rig->knobs);
	fs_target_init(&fs_target, rig);
	progress_watch(&bytes.bytes_done, &bytes.bytes_planned);
	error = fio_run(workload, &target, &how, &result);
	progress_watch(NULL, NULL);
	if (error) {
		rig_failed(err, "starting the jobs", error);
	} else {
		error = collect(&fs_target, &result, run, err);
		fio_result_destroy(&result);
	}
	fs_target_destroy(&fs_target);
	return error;
}

/* ---- a workload of the user ------------------------------------------------------------- */

static void judge_bytes(const struct fio_workload *workload, const struct run *run,
			struct outcome *outcome)
{
	struct fio_scale scale = jobs_scale(&run->knobs);
	struct fio_span expected = fio_workload_expected_bytes(workload, &scale);
	uint64_t user_bytes = run->results.user_bytes;
	const char *ours = text("%llu", (unsigned long long)user_bytes);

	if (expected.max == UINT64_MAX) {
		fact_info(outcome, "user_bytes", ours, "-", "a job ends by time or file size");
		return;
	}
	if (expected.min == expected.max)
		fact_exact(outcome, NULL, "user_bytes", user_bytes, expected.min,
			   "fio's arithmetic");
	else
		fact(outcome, user_bytes >= expected.min && user_bytes <= expected.max,
		     "user_bytes", ours,
		     text("%llu .. %llu", (unsigned long long)expected.min,
			  (unsigned long long)expected.max),
		     "fio's arithmetic");
}

static void judge_jobs(const struct run *run, struct outcome *outcome)
{
	for (unsigned int i = 0; i < run->nr_jobs; i++)
		if (run->jobs[i].error[0])
			fact(outcome, false, text("job %s", run->jobs[i].name), "ended by an error",
			     "no error", "fio");
}

int jobs_run_once(struct run *run, const struct fio_workload *workload, char *err)
{
	struct rig rig = {.knobs = &run->knobs};
	int error = rig_open(&rig, err);

	if (error)
		return error;
	error = jobs_measure(workload, &rig, run, err);
	rig_close(&rig);
	return error == -EINVAL ? -EIO : error; /* the input was right */
}

static int run_piece(struct run *run, const void *arg, char *err)
{
	return jobs_run_once(run, arg, err);
}

int jobs_run(const struct fio_workload *workload, const struct knobs *knobs,
	     struct outcome *outcome, char *err)
{
	struct knobs own = *knobs;
	struct piece piece = {.fn = run_piece, .arg = workload};
	int error;

	if (knobs_check(&own, "fio jobs", err))
		return EXIT_BAD_INPUT;
	for (unsigned int i = 0; i < workload->nr_notes; i++)
		note(outcome, "%s", workload->notes[i]);
	if (!workload->nr_jobs)
		note(outcome, "There is no job in it.");
	piece.run = outcome_add_run(outcome, &own);
	progress_step("%s", outcome->workload);
	error = pieces_run(&piece, 1, err);
	if (error)
		return error == -EINVAL ? EXIT_BAD_INPUT : EXIT_MISS;
	judge_bytes(workload, piece.run, outcome);
	judge_jobs(piece.run, outcome);
	return outcome_misses(outcome) ? EXIT_MISS : EXIT_OK;
}

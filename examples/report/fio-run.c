/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fio-run.c - run the jobs of a workload: setup, stonewalls, threads, results
 */
#include "fio-run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fio-clone.h"

/* ---- the clones of a run ------------------------------------------------- */

static bool job_in_run(const struct fio_job *job, unsigned int run)
{
	return job->run == run;
}

/* Do several clones write the same files?  Names without $jobnum do not tell them apart. */
static bool job_shares_files(const struct fio_workload *workload, const struct fio_job *job)
{
	const char *format = job->opt.filename_format;

	if (job->opt.numjobs > 1 && (job->filenames || !strstr(format, "$jobnum")))
		return true;
	for (unsigned int i = 0; i < workload->nr_jobs; i++) {
		const struct fio_job *other = &workload->jobs[i];

		if (other != job && other->run == job->run && other->filenames && job->filenames)
			return true;
	}
	return false;
}

/* The clones of a job are set up in the order 0, N-1, ..., 1. */
static unsigned int clone_index(unsigned int position, unsigned int nr_clones)
{
	return position ? nr_clones - position : 0;
}

static void init_clone(struct fio_clone *clone, struct fio_runner *runner, unsigned int job_index,
		       unsigned int position)
{
	const struct fio_job *job = &runner->workload->jobs[job_index];

	memset(clone, 0, sizeof(*clone));
	clone->runner = runner;
	clone->job = job;
	clone->job_index = job_index;
	clone->index = clone_index(position, (unsigned int)job->opt.numjobs);
	clone->number = runner->nr_clones;
	clone->unit = fio_job_smallest_block(&job->opt);
	clone->shares_files = job_shares_files(runner->workload, job);
	env_rng_seed(&clone->file_rng, job->opt.randseed * (clone->number + 1ULL));
}

static uint64_t count_clones(const struct fio_workload *workload, unsigned int run)
{
	uint64_t nr = 0;

	for (unsigned int i = 0; i < workload->nr_jobs; i++)
		if (job_in_run(&workload->jobs[i], run))
			nr += workload->jobs[i].opt.numjobs;
	return nr;
}

#define CLONES_MAX (1U << 20)

static int make_clones(struct fio_runner *runner, unsigned int run)
{
	uint64_t nr = count_clones(runner->workload, run);
	unsigned int group = 0;
	unsigned int wall = 0;

	runner->nr_clones = 0;
	if (nr > CLONES_MAX)
		return -E2BIG;
	runner->clones = env_zalloc((nr ? nr : 1) * sizeof(*runner->clones));
	if (!runner->clones)
		return -ENOMEM;
	for (unsigned int i = 0; i < runner->workload->nr_jobs; i++) {
		const struct fio_job *job = &runner->workload->jobs[i];

		if (!job_in_run(job, run))
			continue;
		if (runner->nr_clones) {
			group += job->opt.stonewall || job->opt.new_group;
			wall += job->opt.stonewall;
		}
		for (unsigned int position = 0; position < job->opt.numjobs; position++) {
			struct fio_clone *clone = &runner->clones[runner->nr_clones];

			init_clone(clone, runner, i, position);
			clone->group = group;
			clone->wall = wall;
			runner->nr_clones++;
		}
	}
	return 0;
}

/* ---- when a clone starts and ends ---------------------------------------- */

static void end_clone(struct fio_clone *clone)
{
	__atomic_store_n(&clone->terminate, 1, __ATOMIC_RELEASE);
}

/* exitall: the first clone that ends ends others too. */
static void end_others(struct fio_clone *clone)
{
	struct fio_runner *runner = clone->runner;

	for (unsigned int i = 0; i < runner->nr_clones; i++) {
		struct fio_clone *other = &runner->clones[i];

		if (clone->job->opt.exit_what == FIO_EXIT_ALL ||
		    (clone->job->opt.exit_what == FIO_EXIT_STONEWALL &&
		     other->wall == clone->wall) ||
		    (clone->job->opt.exit_what == FIO_EXIT_GROUP && other->group == clone->group))
			end_clone(other);
	}
}

static bool job_has_name(const struct fio_job *job, const char *name)
{
	return strcmp(job->name, name) == 0 || (job->opt.name && strcmp(job->opt.name, name) == 0);
}

/* Have all clones above that wait_for= names ended? */
static bool awaited_have_ended(const struct fio_clone *clone)
{
	const struct fio_clone *other = clone->runner->clones;

	for (; other->job_index < clone->job_index; other++)
		if (job_has_name(other->job, clone->job->opt.wait_for) &&
		    !__atomic_load_n(&other->ended, __ATOMIC_ACQUIRE))
			return false;
	return true;
}

static bool may_go(struct fio_clone *clone)
{
	return __atomic_load_n(&clone->runner->go, __ATOMIC_ACQUIRE);
}

static void wait_for_others(struct fio_clone *clone)
{
	struct fio_runner *runner = clone->runner;

	env_wait_event(&runner->changed, may_go(clone));
	if (clone->job->opt.wait_for)
		env_wait_event(&runner->changed,
			       awaited_have_ended(clone) || fio_clone_must_end(clone));
}

/* startdelay counts from the start of the whole run, not of the jobs between two walls. */
static void wait_for_delay(struct fio_clone *clone)
{
	const struct fio_span *delay = &clone->job->opt.startdelay;
	uint64_t until = clone->runner->start_ns + delay->min;
	uint64_t now = env_clock_ns();

	if (delay->max > delay->min)
		until += env_rng_below(&clone->file_rng, delay->max - delay->min + 1);
	while (now < until && !fio_clone_must_end(clone)) {
		env_sleep_ns(until - now < 100000000 ? until - now : 100000000);
		now = env_clock_ns();
	}
}

static void run_clone(struct fio_clone *clone)
{
	if (clone->job->opt.startdelay.max)
		wait_for_delay(clone);
	if (!clone->err && !clone->job->opt.create_serialize)
		fio_clone_setup(clone);
	if (!clone->err && !fio_clone_must_end(clone))
		fio_clone_work(clone);
	if (clone->job->opt.exitall)
		end_others(clone);
	__atomic_store_n(&clone->ended, 1, __ATOMIC_RELEASE);
	env_waitq_wake(&clone->runner->changed);
}

static void clone_thread(void *arg)
{
	struct fio_clone *clone = arg;

	wait_for_others(clone);
	run_clone(clone);
}

/* ---- setup --------------------------------------------------------------- */

static void plan(struct fio_runner *runner)
{
	uint64_t bytes = 0;

	for (unsigned int i = 0; i < runner->nr_clones; i++)
		if (!runner->clones[i].job->opt.time_based && !runner->clones[i].err)
			bytes += runner->clones[i].limit;
	__atomic_fetch_add(&runner->progress->bytes_planned, bytes, __ATOMIC_RELAXED);
}

static void set_up(struct fio_runner *runner, unsigned int run)
{
	const struct fio_target *target = runner->target;

	for (unsigned int i = 0; i < runner->nr_clones; i++)
		fio_clone_make_folders(&runner->clones[i]);
	for (unsigned int i = 0; i < runner->nr_clones; i++) {
		struct fio_clone *clone = &runner->clones[i];

		if (!clone->err && clone->job->opt.create_serialize)
			fio_clone_setup(clone);
	}
	plan(runner);
	if (target->ops->setup_done)
		target->ops->setup_done(target->ctx, run);
}

/* ---- the jobs between two stonewalls ------------------------------------- */

static void join_threads(struct fio_clone *clones, unsigned int nr)
{
	for (unsigned int i = 0; i < nr; i++) {
		if (clones[i].thread)
			env_thread_join(clones[i].thread);
		clones[i].thread = NULL;
	}
}

static void run_in_threads(struct fio_runner *runner, struct fio_clone *clones, unsigned int nr)
{
	__atomic_store_n(&runner->go, 0, __ATOMIC_RELEASE);
	for (unsigned int i = 0; i < nr; i++) {
		int err = env_thread_create(&clones[i].thread, "fio-job", clone_thread, &clones[i]);

		if (!err)
			continue;
		clones[i].thread = NULL;
		fio_clone_fail(&clones[i], NULL, "thread", err);
		__atomic_store_n(&clones[i].ended, 1, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&runner->go, 1, __ATOMIC_RELEASE);
	env_waitq_wake(&runner->changed);
	join_threads(clones, nr);
}

static void run_wall(struct fio_runner *runner, struct fio_clone *clones, unsigned int nr)
{
	for (unsigned int i = 0; i < nr; i++)
		if (clones[i].job->opt.pre_read && !clones[i].err &&
		    !fio_clone_must_end(&clones[i]))
			fio_clone_pre_read(&clones[i]);
	if (runner->how->serial) {
		for (unsigned int i = 0; i < nr; i++)
			run_clone(&clones[i]);
	} else {
		run_in_threads(runner, clones, nr);
	}
}

static void run_walls(struct fio_runner *runner)
{
	unsigned int first = 0;

	runner->start_ns = env_clock_ns();
	while (first < runner->nr_clones) {
		unsigned int end = first;

		while (end < runner->nr_clones &&
		       runner->clones[end].wall == runner->clones[first].wall)
			end++;
		run_wall(runner, &runner->clones[first], end - first);
		first = end;
	}
}

/* ---- results ------------------------------------------------------------- */

/* From when to when a job, or all jobs, did I/O. */
struct period {
	uint64_t from;
	uint64_t to;
};

static void period_add(struct period *period, const struct fio_clone *clone)
{
	if (clone->end_ns == 0)
		return;
	if (period->to == 0 || clone->counted_from_ns < period->from)
		period->from = clone->counted_from_ns;
	if (clone->end_ns > period->to)
		period->to = clone->end_ns;
}

static void counters_add(struct fio_counters *sum, const struct fio_counters *counters)
{
#define X(name, text) sum->name += counters->name;
	FIO_COUNTERS(X)
#undef X
}

static void collect(struct fio_runner *runner)
{
	struct fio_result *result = runner->result;
	struct period all = {0, 0};
	struct period of_job = {0, 0};

	for (unsigned int i = 0; i < runner->nr_clones; i++) {
		const struct fio_clone *clone = &runner->clones[i];
		struct fio_job_result *job = &result->jobs[clone->job_index];

		if (i == 0 || clone->job != clone[-1].job)
			of_job = (struct period){0, 0};
		period_add(&of_job, clone);
		period_add(&all, clone);
		counters_add(&job->counters, &clone->counters);
		counters_add(&result->total, &clone->counters);
		job->counters.elapsed_ns = of_job.to - of_job.from;
		if (clone->err && job->error[0] == '\0')
			memcpy(job->error, clone->error, sizeof(job->error));
	}
	result->total.elapsed_ns += all.to - all.from;
}

static int run_once(struct fio_runner *runner, unsigned int run)
{
	int err = make_clones(runner, run);

	if (err)
		return err;
	set_up(runner, run);
	run_walls(runner);
	collect(runner);
	for (unsigned int i = 0; i < runner->nr_clones; i++)
		fio_clone_destroy(&runner->clones[i]);
	env_free(runner->clones);
	runner->clones = NULL;
	return 0;
}

void fio_result_destroy(struct fio_result *result)
{
	env_free(result->jobs);
	memset(result, 0, sizeof(*result));
}

int fio_run(const struct fio_workload *workload, const struct fio_target *target,
	    const struct fio_run_options *how, struct fio_result *result)
{
	struct fio_runner runner = {
		.workload = workload,
		.target = target,
		.how = how,
		.result = result,
		.progress = how->progress,
	};
	int err = 0;

	if (!runner.progress)
		runner.progress = &runner.own_progress;
	env_waitq_init(&runner.changed);
	memset(result, 0, sizeof(*result));
	result->jobs = env_zalloc((workload->nr_jobs + 1) * sizeof(*result->jobs));
	if (!result->jobs)
		return -ENOMEM;
	result->nr_jobs = workload->nr_jobs;
	for (unsigned int i = 0; i < workload->nr_jobs; i++)
		result->jobs[i].name = workload->jobs[i].name;
	for (unsigned int run = 0; run < workload->nr_runs && !err; run++)
		err = run_once(&runner, run);
	if (err)
		fio_result_destroy(result);
	return err;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pub-extents.c - write one file at random, and count its extents as time goes by
 *
 * A second task looks every few microseconds how much is dirtied and written, to see when
 * writeback begins and how fast it is.
 */
#include "pub-extents.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <iomap/env.h>

#include "jobs.h"

#define LOOK_NS 20000ull
#define NS_IN_S 1000000000ull

struct watch {
	struct rig *rig;
	bool stop; /* atomic */
	uint64_t began; /* pages dirtied before the first was written, 0: none is */
	uint64_t dirtied; /* at the last look before which there was a write */
	uint64_t written;
};

static void sum_contexts(struct rig *rig, uint64_t *dirtied, uint64_t *written)
{
	*dirtied = 0;
	*written = 0;
	for (unsigned int i = 0; i < bdi_nr_contexts(rig->bdi); i++) {
		struct wb_stats stats;

		wb_get_stats(rig->bdi, i, &stats);
		*dirtied += stats.dirtied;
		*written += stats.written + stats.writeback;
	}
}

static void watch_main(void *arg)
{
	struct watch *watch = arg;
	uint64_t dirtied;
	uint64_t written;

	while (!__atomic_load_n(&watch->stop, __ATOMIC_ACQUIRE)) {
		sum_contexts(watch->rig, &dirtied, &written);
		if (written && !watch->began)
			watch->began = dirtied;
		if (dirtied > watch->dirtied) {
			watch->dirtied = dirtied;
			watch->written = written;
		}
		env_sleep_ns(LOOK_NS);
	}
}

/* ---- samples ---------------------------------------------------------------------------- */

static int sample(struct rig *rig, const char *path, enum extents_sample when, struct results *to)
{
	struct fs_extent_counts counts;
	struct file *file;
	int error = fs_open(rig->fs, path, FS_OPEN_READONLY, &file);

	if (error)
		return error;
	error = fs_count_extents(file, &counts);
	if (!error) {
		to->more[MORE_MERGED + when] = (double)counts.merged;
		to->more[MORE_UNMERGED + when] = (double)counts.unmerged;
		to->more[MORE_BLOCKS] = (double)(fs_size(file) / 4096);
	}
	(void)fs_close(file);
	return error;
}

/* What an unmount and a mount change: all is written, and nothing is in memory any more. */
static int sample_remounted(struct rig *rig, const char *path, struct results *to)
{
	int error = rig_drop_cache(rig);

	return error ? error : sample(rig, path, EXTENTS_REMOUNTED, to);
}

static int sample_later(struct rig *rig, const char *path, struct results *to)
{
	int error;

	env_sleep_ns(25 * NS_IN_S);
	error = sample(rig, path, EXTENTS_25, to);
	if (error)
		return error;
	env_sleep_ns(15 * NS_IN_S);
	error = sample(rig, path, EXTENTS_40, to);
	return error ? error : sample_remounted(rig, path, to);
}

/* ---- the run ---------------------------------------------------------------------------- */

static void keep_speed(const struct watch *watch, struct results *to)
{
	double blocks = to->more[MORE_BLOCKS];

	to->more[MORE_FLUSH_BEGAN] = 1;
	if (!watch->began || blocks == 0 || watch->dirtied <= watch->began)
		return;
	to->more[MORE_FLUSH_BEGAN] = (double)watch->began / blocks;
	to->more[MORE_FLUSH_SPEED] =
		(double)watch->written / (double)(watch->dirtied - watch->began);
}

/* What was written, by whomever. */
struct written {
	const char *path;
	uint64_t bytes;
	uint64_t elapsed_ns;
};

/* The last block of the file is written just now. */
static int after_writing(struct rig *rig, const struct watch *watch, const struct written *written,
			 struct run *run, char *err)
{
	struct results more = {0};
	int error = sample(rig, written->path, EXTENTS_0, &more);

	keep_speed(watch, &more);
	if (!error)
		error = sample_later(rig, written->path, &more);
	if (error)
		return rig_failed(err, "extents of the file", error);
	rig->elapsed_ns = written->elapsed_ns;
	__atomic_store_n(&rig->user_bytes, written->bytes, __ATOMIC_RELAXED);
	rig_collect(rig, &run->results);
	memcpy(run->results.more, more.more, sizeof(more.more));
	run->results.nr_more = NR_MORE_EXTENTS;
	run->results.extents_merged = (uint64_t)more.more[MORE_MERGED + EXTENTS_REMOUNTED];
	run->results.extents_unmerged = (uint64_t)more.more[MORE_UNMERGED + EXTENTS_REMOUNTED];
	return 0;
}

static int start_watch(struct watch *watch, struct env_thread **thread, char *err)
{
	int error = env_thread_create(thread, "watch", watch_main, watch);

	return error ? rig_failed(err, "a task that watches", error) : 0;
}

static void stop_watch(struct watch *watch, struct env_thread *thread)
{
	__atomic_store_n(&watch->stop, true, __ATOMIC_RELEASE);
	env_thread_join(thread);
}

/* ---- in the order of fio's job ----------------------------------------------------------- */

static int first_error(const struct fio_result *result, char *err)
{
	for (unsigned int i = 0; i < result->nr_jobs; i++) {
		if (result->jobs[i].error[0]) {
			snprintf(err, ERR_MAX, "%s", result->jobs[i].error);
			return -EIO;
		}
	}
	return 0;
}

static int after_job(struct fs_target *target, const struct watch *watch,
		     const struct fio_result *result, struct run *run, char *err)
{
	struct written written = {target->paths[0], result->total.user_bytes,
				  result->total.elapsed_ns};
	int error = first_error(result, err);

	return error ? error : after_writing(target->rig, watch, &written, run, err);
}

static int run_job(const struct fio_workload *workload, struct rig *rig, struct run *run, char *err)
{
	struct fio_run_options how = {.scale = jobs_scale(rig->knobs)};
	struct fs_target fs_target;
	struct fio_target target = {.ctx = &fs_target, .ops = &fs_target_ops};
	struct watch watch = {.rig = rig};
	struct env_thread *watcher;
	struct fio_result result;
	int error = start_watch(&watch, &watcher, err);

	if (error)
		return error;
	fs_target_init(&fs_target, rig);
	error = fio_run(workload, &target, &how, &result);
	stop_watch(&watch, watcher);
	if (error) {
		rig_failed(err, "starting the job", error);
	} else {
		error = after_job(&fs_target, &watch, &result, run, err);
		fio_result_destroy(&result);
	}
	fs_target_destroy(&fs_target);
	return error;
}

static int parse_and_run(const char *job, struct rig *rig, struct run *run, char *err)
{
	struct fio_workload workload;
	int error;

	fio_workload_init(&workload);
	error = fio_parse_line(&workload, job, err, ERR_MAX);
	for (unsigned int i = 0; i < workload.nr_jobs && !error; i++)
		workload.jobs[i].opt.randseed = knob_number(rig->knobs, KNOB_SEED);
	if (!error)
		error = run_job(&workload, rig, run, err);
	fio_workload_destroy(&workload);
	return error;
}

/* ---- each block with the same chance ------------------------------------------------------ */

static void shuffle(uint32_t *blocks, uint32_t nr, uint64_t seed)
{
	struct env_rng rng;

	env_rng_seed(&rng, seed);
	for (uint32_t i = 0; i < nr; i++) {
		uint32_t j = (uint32_t)env_rng_below(&rng, i + 1);

		blocks[i] = blocks[j];
		blocks[j] = i;
	}
}

static int write_blocks(struct file *file, const uint32_t *blocks, uint32_t nr)
{
	static const unsigned char block[4096];

	for (uint32_t i = 0; i < nr; i++) {
		ssize_t n = fs_write(file, block, sizeof(block), blocks[i] * 4096ull);

		if (n != sizeof(block))
			return n < 0 ? (int)n : -EIO;
	}
	return 0;
}

static int write_shuffled(struct rig *rig, uint32_t nr)
{
	uint32_t *blocks = calloc(nr, sizeof(*blocks));
	struct file *file;
	int error;

	if (!blocks)
		return -ENOMEM;
	shuffle(blocks, nr, knob_number(rig->knobs, KNOB_SEED));
	error = fs_open(rig->fs, "/file", FS_OPEN_CREATE, &file);
	if (!error) {
		error = write_blocks(file, blocks, nr);
		(void)fs_close(file);
	}
	free(blocks);
	return error;
}

static int run_shuffled(struct rig *rig, struct run *run, char *err)
{
	uint64_t bytes = knobs_scaled(rig->knobs, 1ull << 30, 4096);
	struct watch watch = {.rig = rig};
	struct written written = {.path = "/file", .bytes = bytes};
	uint64_t start = env_clock_ns();
	struct env_thread *watcher;
	int error = start_watch(&watch, &watcher, err);

	if (error)
		return error;
	error = write_shuffled(rig, (uint32_t)(bytes / 4096));
	written.elapsed_ns = env_clock_ns() - start;
	stop_watch(&watch, watcher);
	if (error)
		return rig_failed(err, "writing the file", error);
	return after_writing(rig, &watch, &written, run, err);
}

int extents_run(const struct published *table, const struct cell *cell, struct run *run, char *err)
{
	struct rig rig = {.knobs = &run->knobs};
	int error = rig_open(&rig, err);

	if (error)
		return error;
	if (cell->argument == EXTENTS_SHUFFLED)
		error = run_shuffled(&rig, run, err);
	else
		error = parse_and_run(table->job, &rig, run, err);
	rig_close(&rig);
	return error;
}

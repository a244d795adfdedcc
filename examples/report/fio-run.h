/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fio-run.h - run the jobs of a workload over a target
 *
 *	struct fio_target target = { .ctx = my_fs, .ops = &my_ops };
 *	struct fio_run_options how = { .scale = { 1, 64 } };
 *	struct fio_result result;
 *
 *	err = fio_run(&workload, &target, &how, &result);
 *	... result.total.user_bytes, result.jobs[i].error ...
 *	fio_result_destroy(&result);
 *
 * Each clone of a job runs in a thread of its own.  For each run of fio the files of all
 * jobs are made first, in the order of the jobs; then the jobs between two stonewalls run
 * together.
 */
#ifndef REPORT_FIO_RUN_H
#define REPORT_FIO_RUN_H

#include <sys/types.h>

#include "fio-parse.h"

enum {
	FIO_OPEN_CREATE = 1, /* make the file if it is missing */
	FIO_OPEN_RDONLY = 2,
	FIO_OPEN_SYNC = 4,
	FIO_OPEN_DSYNC = 8,
	FIO_OPEN_DIRECT = 16,
	FIO_OPEN_TRUNC = 32,
};

enum { FIO_ALLOC_KEEP_SIZE = 1 };
enum { FIO_RANGE_WAIT_BEFORE = 1, FIO_RANGE_WRITE = 2, FIO_RANGE_WAIT_AFTER = 4 };

enum fio_advice { FIO_ADVICE_RANDOM = 1, FIO_ADVICE_SEQUENTIAL = 2, FIO_ADVICE_DONTNEED = 4 };

/*
 * What a target must do.  All return 0 (pwrite and pread: how many bytes) or a negative
 * errno, and may be called from several threads, for one path or one file too.
 */
struct fio_target_ops {
	int (*open)(void *ctx, const char *path, unsigned int flags, void **file);
	int (*close)(void *ctx, void *file);
	int (*unlink)(void *ctx, const char *path);
	/* -ENOENT: there is none. */
	int (*stat)(void *ctx, const char *path, uint64_t *size);
	/* Make the folder and those above it; 0 if it is there. */
	int (*mkdir_p)(void *ctx, const char *path);
	ssize_t (*pwrite)(void *file, const void *buf, size_t len, uint64_t pos);
	ssize_t (*pread)(void *file, void *buf, size_t len, uint64_t pos);
	int (*fsync)(void *file);
	int (*fdatasync)(void *file);
	int (*sync_file_range)(void *file, uint64_t pos, uint64_t len, unsigned int flags);
	int (*fallocate)(void *file, unsigned int mode, uint64_t pos, uint64_t len);
	int (*truncate)(void *file, uint64_t size);
	int (*fadvise)(void *file, uint64_t pos, uint64_t len, enum fio_advice advice);
	/* Optional: the files are made, the jobs of this run start now. */
	void (*setup_done)(void *ctx, unsigned int run);
	/* Optional: a job's ramp_time is over, what counts starts now. */
	void (*ramp_done)(void *ctx, unsigned int job);
};

struct fio_target {
	void *ctx;
	const struct fio_target_ops *ops;
};

/*
 * Multiplies size, filesize, io_size, offset, offset_increment and, unless it keeps time, the
 * times of time_based jobs.  Not block sizes, not the number of files.  A size stays a multiple
 * of the block if it was one, and at least one block if it was that.
 */
struct fio_scale {
	uint64_t num; /* both 0: 1 */
	uint64_t den;
	bool keeps_time;
};

/* Other threads may read these while the run goes on, with __atomic_load_n(). */
struct fio_progress {
	uint64_t bytes_done; /* written and read by jobs */
	uint64_t bytes_planned; /* 0 as long as files are made; without time_based jobs */
	uint32_t stop; /* set it to end all jobs */
};

struct fio_run_options {
	struct fio_scale scale;
	bool serial; /* one clone after the other in the caller's thread */
	struct fio_progress *progress; /* may be NULL */
};

#define FIO_COUNTERS(X)                                                                            \
	X(user_bytes, "bytes that write calls of jobs took")                                       \
	X(read_bytes, "bytes that read calls of jobs gave")                                        \
	X(write_calls, "write calls of jobs")                                                      \
	X(read_calls, "read calls of jobs")                                                        \
	X(syncs, "fsync, fdatasync and sync_file_range calls of jobs")                             \
	X(layout_bytes, "bytes written when the files were made")                                  \
	X(errors, "clones that an error ended")

struct fio_counters {
#define X(name, text) uint64_t name;
	FIO_COUNTERS(X)
#undef X
	uint64_t elapsed_ns; /* from the first start to the last end, without ramp_time */
};

struct fio_job_result {
	const char *name; /* the workload's */
	struct fio_counters counters; /* of all clones */
	char error[320]; /* the first one: job, file, operation, errno; empty: none */
};

struct fio_result {
	struct fio_job_result *jobs; /* as many as the workload has */
	unsigned int nr_jobs;
	struct fio_counters total;
};

/*
 * Returns 0 if the run took place; the errors of jobs are in the result.  -ENOMEM if it
 * could not start; the result is empty then.
 */
int fio_run(const struct fio_workload *workload, const struct fio_target *target,
	    const struct fio_run_options *how, struct fio_result *result);
void fio_result_destroy(struct fio_result *result);

/* bytes under the scale; block is the job's smallest. */
uint64_t fio_scale_bytes(const struct fio_scale *scale, uint64_t bytes, uint64_t block);

/*
 * The user_bytes that fio's arithmetic prescribes for the whole workload, found without
 * running it: the same min and max, or bounds where chance decides (mixed jobs, several
 * block sizes).  0 and UINT64_MAX: unknown, because of a job that ends by time or takes
 * the size of existing files.
 */
struct fio_span fio_workload_expected_bytes(const struct fio_workload *workload,
					    const struct fio_scale *scale);

#endif

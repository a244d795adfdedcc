/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * jobs.h - fio jobs over a file system of the library
 */
#ifndef REPORT_JOBS_H
#define REPORT_JOBS_H

#include <iomap/env.h>

#include "experiments.h"
#include "fio-parse.h"
#include "fio-run.h"
#include "rig.h"

/* Run it as the knobs say; outcome gets one run and its facts.  As experiment_run() returns. */
int jobs_run(const struct fio_workload *workload, const struct knobs *knobs,
	     struct outcome *outcome, char *err);

/* What --scale and --scale-rates mean for a job. */
struct fio_scale jobs_scale(const struct knobs *knobs);

/* One run in a rig of its own; fills run->results and run->jobs. */
int jobs_run_once(struct run *run, const struct fio_workload *workload, char *err);

/*
 * Run it in an open rig, from zeroed counters, to the sync after it; fills run->results and
 * run->jobs.  0 or a negative errno with one line in err.
 */
int jobs_measure(const struct fio_workload *workload, struct rig *rig, struct run *run, char *err);

/* fio's target over a file system: ctx is the struct fs_target. */
struct fs_target {
	struct rig *rig;
	struct env_mutex lock; /* protects the paths */
	char **paths; /* all files there were */
	unsigned int nr_paths;
	bool started; /* the counters are at zero */
};

extern const struct fio_target_ops fs_target_ops;

void fs_target_init(struct fs_target *target, struct rig *rig);
void fs_target_destroy(struct fs_target *target);

#endif

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pub-t4.c - one disk: several flushers make it seek
 */
#include "published.h"

#include <math.h>

/* The job of T12.  960 s at a scale of 1/16 are the published minute. */
#define JOB(rw, bs, runtime)                                                                       \
	"fio --directory=/mnt --name=test --bs=" bs " --iodepth=1024 --rw=" rw                     \
	" --ioengine=io_uring --time_based=1 --runtime=" runtime                                   \
	" --numjobs=12 --size=450M --direct=0"
#define RANDOM	   JOB("randwrite", "4k", "960")
#define SEQUENTIAL JOB("write", "128k", "30")

/* Four cells a row: base, as many contexts as CPUs, one, the library's own number. */
#define ROW(job_name, job_text, fs_name, fs_id, base, parallel)                                    \
	{job_name ", " fs_name ", base", base, .knobs = {"fs", fs_id}, .posted = {PLAIN_FLUSHER},  \
	 .job = job_text},                                                                         \
		{job_name ", " fs_name ", nr 12", parallel, .knobs = {"fs", fs_id},                \
		 .posted = {"nr-wb-ctx", "12"}, .job = job_text},                                  \
		{job_name ", " fs_name ", nr 1", 0, .knobs = {"fs", fs_id},                        \
		 .posted = {"nr-wb-ctx", "1"}, .job = job_text},                                   \
	{                                                                                          \
		job_name ", " fs_name ", automatic", 0,                                            \
			.knobs = {"fs", fs_id}, .posted = {AUTOMATIC_NUMBER}, .job = job_text      \
	}

static const struct cell cells[] = {
	ROW("random", RANDOM, "XFS", "xfs", 22.6, 22.9),
	ROW("random", RANDOM, "ext4", "ext4", 22.5, 20.9),
	ROW("sequential", SEQUENTIAL, "XFS", "xfs", 156, 133),
	ROW("sequential", SEQUENTIAL, "ext4", "ext4", 147, 124),
};

#define SHORT_RUNS                                                                                 \
	"a request costs the disk half a rotation even if it skips a few KiB (VC21), so the disk " \
	"does as many requests a second as before; and twelve flushers, which are at all files "   \
	"at once, find shorter runs of dirty blocks than one, which is at one file at a time"
#define LONG_REQUESTS                                                                              \
	"no layer cuts requests to a limit of the device (1280 KiB in A3): a request is as long "  \
	"as what a flusher finds, several MiB, so that the disk seeks as seldom for twelve "       \
	"flushers as for one"

#define ROW_BANDS(row, first, from, to, ratio, why)                                                \
	{row ": 12 contexts over base",                                                            \
	 .a = (first) + 1,                                                                         \
	 .b = (first),                                                                             \
	 .least = (from),                                                                          \
	 .most = (to),                                                                             \
	 .published = (ratio),                                                                     \
	 .documented = (why)},                                                                     \
		{row ": 1 context over base", .a = (first) + 2, .b = (first), .least = 0.98,       \
		 .most = 1.02},                                                                    \
		{row ": automatic number", band_contexts, .a = (first) + 3, .least = 1,            \
		 .most = 1},                                                                       \
	{                                                                                          \
		row ": automatic over the best", band_over_best, .a = (first) + 3, .b = (first),   \
								 .least = 0.95, .most = INFINITY   \
	}

static const struct band bands[] = {
	ROW_BANDS("random, XFS", 0, 0.90, 1.10, 1.013, SHORT_RUNS),
	ROW_BANDS("random, ext4", 4, 0.90, 1.10, 0.929, SHORT_RUNS),
	ROW_BANDS("sequential, XFS", 8, 0.75, 0.92, 0.853, LONG_REQUESTS),
	ROW_BANDS("sequential, ext4", 12, 0.75, 0.92, 0.844, LONG_REQUESTS),
};

const struct published published_t4 = {
	.id = "T4",
	.title = "one disk, 12 jobs: random and sequential writes with 1 and 12 contexts",
	.where = "Kundan Kumar, 2025-06: a spinning disk; CPUs, memory and jobs were not stated",
	/* Of 9 G about 8 are for pages. */
	.system = {"cpus", "12", "memory", "8g", "device", "disk", "device-size", "1000g", "scale",
		   "1/16"},
	.scale_device = true,
	.posted = {"wb-map", "ino-mod", "throttle-share", "posted", "kick-all", "off"},
	.job = RANDOM,
	.cells = cells,
	.nr_cells = sizeof(cells) / sizeof(cells[0]),
	.bands = bands,
	.nr_bands = sizeof(bands) / sizeof(bands[0]),
	.note = "The time of the random job is not scaled: pauses of writers and estimates of rates"
		" are not either.",
};

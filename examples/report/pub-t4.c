/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pub-t4.c - one disk: several flushers make it seek
 */
#include "published.h"

#include <math.h>

/* The job of T12, and the same of streams. */
#define JOB(rw, bs, runtime)                                                                       \
	"fio --directory=/mnt --name=test --bs=" bs " --iodepth=1024 --rw=" rw                     \
	" --ioengine=io_uring --time_based=1 --runtime=" runtime                                   \
	" --numjobs=12 --size=450M --direct=0"
#define RANDOM	   JOB("randwrite", "4k", "60")
#define SEQUENTIAL JOB("write", "128k", "60")

/* Until contexts know what the device writes in a second, which is less than they start with. */
#define WARM                                                                                       \
	"fio --name=warm --rw=write --bs=1m --directory=/mnt --numjobs=12 --size=450M"             \
	" --end_fsync=1"

/*
 * Rates are scaled as sizes are, and times stay.  A stream is then alike if all it consists of
 * is: slices, requests, what the disk writes in a second; it seeks as often as before.  A random
 * block does not shrink: there are fewer of them, and each seek takes the longer.
 */
#define FEWER_REQUESTS	 "scale-requests", "off"
#define SHORTER_REQUESTS "scale-requests", "on"

/* Four cells a row: base, as many contexts as CPUs, one, the library's own number. */
#define ROW(job_name, how, job_text, warm_up, fs_name, fs_id, base, parallel)                      \
	{job_name ", " fs_name ", base",                                                           \
	 base,                                                                                     \
	 .knobs = {"fs", fs_id, how},                                                              \
	 .posted = {PLAIN_FLUSHER},                                                                \
	 .job = job_text,                                                                          \
	 .prepare = warm_up},                                                                      \
		{job_name ", " fs_name ", nr 12", parallel,	   .knobs = {"fs", fs_id, how},    \
		 .posted = {"nr-wb-ctx", "12"},	  .job = job_text, .prepare = warm_up},            \
		{job_name ", " fs_name ", nr 1",                                                   \
		 0,                                                                                \
		 .knobs = {"fs", fs_id, how},                                                      \
		 .posted = {"nr-wb-ctx", "1"},                                                     \
		 .job = job_text,                                                                  \
		 .prepare = warm_up},                                                              \
	{                                                                                          \
		job_name ", " fs_name ", automatic", 0, .knobs = {"fs", fs_id, how},               \
							.posted = {AUTOMATIC_NUMBER},              \
							.job = job_text, .prepare = warm_up        \
	}

#define RANDOM_ROW(...)	    ROW("random", FEWER_REQUESTS, RANDOM, NULL, __VA_ARGS__)
#define SEQUENTIAL_ROW(...) ROW("sequential", SHORTER_REQUESTS, SEQUENTIAL, WARM, __VA_ARGS__)

static const struct cell cells[] = {
	RANDOM_ROW("XFS", "xfs", 22.6, 22.9),
	RANDOM_ROW("ext4", "ext4", 22.5, 20.9),
	SEQUENTIAL_ROW("XFS", "xfs", 156, 133),
	SEQUENTIAL_ROW("ext4", "ext4", 147, 124),
};

#define FEWER_SEEKS                                                                                \
	"by its own time the disk writes 0.91 (XFS) and 0.92 (ext4) of what it writes for one "    \
	"flusher: at each of twelve streams it finds about five requests of 1280 KiB, 42 ms, and " \
	"takes 5 ms to the next.  What is still dirty after the minute, an eighth of all, counts " \
	"for both alike; and writers wait longer for the log behind one long stream"

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
	ROW_BANDS("random, XFS", 0, 0.90, 1.10, 1.013, NULL),
	ROW_BANDS("random, ext4", 4, 0.90, 1.10, 0.929, NULL),
	ROW_BANDS("sequential, XFS", 8, 0.75, 0.92, 0.853, FEWER_SEEKS),
	ROW_BANDS("sequential, ext4", 12, 0.75, 0.92, 0.844, FEWER_SEEKS),
};

const struct published published_t4 = {
	.id = "T4",
	.title = "one disk, 12 jobs: random and sequential writes with 1 and 12 contexts",
	.where = "Kundan Kumar, 2025-06: a spinning disk; CPUs, memory and jobs were not stated",
	/* Of 9 G about 8 are for pages. */
	.system = {"cpus", "12", "memory", "8g", "device", "disk", "device-size", "1000g", "scale",
		   "1/16", "scale-rates", "on", "min-slice", "256k"},
	.scale_device = true,
	.posted = {"wb-map", "ino-mod", "throttle-share", "posted", "kick-all", "off"},
	.job = RANDOM,
	.cells = cells,
	.nr_cells = sizeof(cells) / sizeof(cells[0]),
	.bands = bands,
	.nr_bands = sizeof(bands) / sizeof(bands[0]),
	.note = "Of the random 25 MiB/s, 23 are what may be dirty over the minute: the disk has"
		" little part in them, whoever flushes.",
};

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pub-a2.c - what buffered I/O costs: rows as ratios to a copy of the same bytes
 *
 * A cached, clean file over a device that takes no time; one task, in virtual time.  The costs
 * of the table in cost.h were taken from this one, so this shows that the paths charge each of
 * them as often as it is due, and that nothing else is charged.
 */
#include "published.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <iomap/env.h>

#define PAGE	   4096ull
#define KIB128	   (128ull << 10)
#define CHUNK	   (2ull << 20)
#define FILE_SIZE  (32ull << 20)
#define NR_CALLS   1024u
#define COPY_COLD  550.0 /* ns for 4 KiB anywhere */
#define COPY_GOING 256.0 /* for 4 KiB where they go on */

enum operation { WRITE_4K, READ_4K, WRITE_512, WRITE_128K, READ_128K, NR_OPERATIONS };

static const struct {
	uint64_t len;
	bool reads;
	bool random;
} operations[NR_OPERATIONS] = {
	[WRITE_4K] = {PAGE, false, true},    [READ_4K] = {PAGE, true, true},
	[WRITE_512] = {512, false, true},    [WRITE_128K] = {KIB128, false, false},
	[READ_128K] = {KIB128, true, false},
};

#define XFS  "fs", "xfs"
#define BH   "fs", "ext4", "fs-options", "bh=on"
#define ONES "fs", "xfs", "order-hint", "off", "max-folio", "4k"

enum {
	XFS_WRITE_4K,
	XFS_READ_4K,
	XFS_WRITE_512,
	XFS_WRITE_128K,
	XFS_READ_128K,
	BH_WRITE_4K,
	BH_WRITE_128K,
	ONES_WRITE_128K,
};

static const struct cell cells[] = {
	[XFS_WRITE_4K] = {"xfs: write 4 KiB at random", 1700, .knobs = {XFS}, .argument = WRITE_4K},
	[XFS_READ_4K] = {"xfs: read 4 KiB at random", 1150, .knobs = {XFS}, .argument = READ_4K},
	[XFS_WRITE_512] = {"xfs: write 512 bytes at random", 1420, .knobs = {XFS},
			   .argument = WRITE_512},
	[XFS_WRITE_128K] = {"xfs: overwrite 128 KiB in a row", 9638, .knobs = {XFS},
			    .argument = WRITE_128K},
	[XFS_READ_128K] = {"xfs: read 128 KiB in a row", 10832, .knobs = {XFS},
			   .argument = READ_128K},
	[BH_WRITE_4K] = {"ext4, buffer heads: write 4 KiB", 11500, .knobs = {BH},
			 .argument = WRITE_4K},
	[BH_WRITE_128K] = {"ext4, buffer heads: overwrite 128 KiB", 12136, .knobs = {BH},
			   .argument = WRITE_128K},
	[ONES_WRITE_128K] = {"single pages: overwrite 128 KiB", 17712, .knobs = {ONES},
			     .argument = WRITE_128K},
};

/* ---- one run ---------------------------------------------------------------------------- */

/* Every page of the file is as likely, none follows the one before. */
static uint64_t position(const struct run *run, enum operation operation, unsigned int i)
{
	uint64_t start = knob_number(&run->knobs, KNOB_SEED) * 5;

	if (operations[operation].random)
		return (i * 7919ull + start) % (FILE_SIZE / PAGE) * PAGE;
	return i * operations[operation].len % FILE_SIZE;
}

static unsigned int nr_calls(enum operation operation)
{
	if (operations[operation].random)
		return NR_CALLS;
	return (unsigned int)(FILE_SIZE / operations[operation].len);
}

static int do_calls(struct rig *rig, struct file *file, enum operation operation,
		    unsigned char *memory, const struct run *run)
{
	uint64_t len = operations[operation].len;
	int error = 0;

	for (unsigned int i = 0; i < nr_calls(operation) && !error; i++) {
		uint64_t pos = position(run, operation, i);

		if (!operations[operation].reads)
			error = rig_write(rig, file, memory, len, pos);
		else if (fs_read(file, memory, len, pos) != (ssize_t)len)
			error = -EIO;
	}
	return error;
}

/* In one map, so that each write finds room for a whole folio. */
static int fill(struct rig *rig, struct file *file, unsigned char *memory)
{
	int error = fs_fallocate(file, 0, 0, FILE_SIZE);

	for (uint64_t pos = 0; pos < FILE_SIZE && !error; pos += CHUNK)
		error = rig_write(rig, file, memory, CHUNK, pos);
	return error ? error : fs_fsync(file, false);
}

static int measure(struct rig *rig, struct file *file, enum operation operation, struct run *run)
{
	unsigned char *memory = calloc(1, CHUNK);
	int error = memory ? fill(rig, file, memory) : -ENOMEM;

	rig_start(rig);
	if (!error)
		error = do_calls(rig, file, operation, memory, run);
	rig_stop(rig);
	rig_collect(rig, &run->results);
	run->results.more[0] = (double)rig->elapsed_ns / nr_calls(operation);
	run->results.nr_more = 1;
	free(memory);
	return error;
}

static int run_calls(const struct published *table, const struct cell *cell, struct run *run,
		     char *err)
{
	struct rig rig = {.knobs = &run->knobs};
	struct file *file;
	int error = rig_open(&rig, err);

	(void)table;
	if (error)
		return error;
	error = fs_open(rig.fs, "/file", FS_OPEN_CREATE, &file);
	if (!error) {
		error = measure(&rig, file, (enum operation)cell->argument, run);
		(void)fs_close(file);
	}
	if (error)
		rig_failed(err, "measuring calls", error);
	rig_close(&rig);
	return error;
}

/* ---- judging ---------------------------------------------------------------------------- */

static double ns_of_call(const struct run *run)
{
	return run->results.more[0];
}

static double to_cold_copy(const struct view *view, const struct band *band)
{
	return view_figure(view, band->a) / COPY_COLD;
}

static double rate_to_copy(const struct view *view, const struct band *band)
{
	return COPY_GOING * (double)(KIB128 / PAGE) / view_figure(view, band->a);
}

/* Within 10 %. */
#define NEAR(x) .least = 0.9 * (x), .most = 1.1 * (x), .published = x

static const struct band bands[] = {
	{"xfs: write 4 KiB over a copy", to_cold_copy, .a = XFS_WRITE_4K, NEAR(3.09)},
	{"xfs: read 4 KiB over a copy", to_cold_copy, .a = XFS_READ_4K, NEAR(2.09)},
	{"xfs: write 512 bytes over a copy of 4 KiB", to_cold_copy, .a = XFS_WRITE_512, NEAR(2.58)},
	{"xfs: rate of 128 KiB writes over copies", rate_to_copy, .a = XFS_WRITE_128K, NEAR(0.85)},
	{"xfs: rate of 128 KiB reads over copies", rate_to_copy, .a = XFS_READ_128K, NEAR(0.76)},
	{"write 4 KiB, buffer heads over xfs", .a = BH_WRITE_4K, .b = XFS_WRITE_4K, .least = 5,
	 .most = 8, .published = 6.76},
	{"rate of 128 KiB writes, buffer heads over xfs", .a = XFS_WRITE_128K, .b = BH_WRITE_128K,
	 .least = 0.70, .most = 0.90, .published = 0.79},
	{"rate of 128 KiB writes, single pages over xfs", .a = XFS_WRITE_128K, .b = ONES_WRITE_128K,
	 .least = 0.45, .most = 0.65, .published = 0.54},
};

const struct published published_a2 = {
	.id = "A2",
	.title = "what calls cost on a cached file, ns",
	.where = "this project: Linux 6.18, XFS, ext4 and tmpfs on a 2-core x86-64 machine",
	.system = {"cpus", "2", "memory", "128m", "device", "null", "device-size", "1g",
		   "dirty-bytes", "64m", "dirty-background-bytes", "63m", "writeback-interval-ms",
		   "0", "nr-wb-ctx", "1"},
	.posted = {NULL},
	.cells = cells,
	.nr_cells = sizeof(cells) / sizeof(cells[0]),
	.bands = bands,
	.nr_bands = sizeof(bands) / sizeof(bands[0]),
	.unit = "ns",
	.figure = ns_of_call,
	.run = run_calls,
};

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pub-t31.c - per-block dirty bits: 8 jobs that sync each 4 KiB block of their 64 KiB pages
 *
 * Exactly one block of a page is dirty at each flush, so 16 is the geometric limit.  That takes
 * no more than a part of each file to be seen: every write is like the others.
 */
#include "published.h"

#define JOBS                                                                                       \
	"[global]\n"                                                                               \
	"size=1g\n"                                                                                \
	"numjobs=8\n"                                                                              \
	"filename_format=file.$jobnum\n"                                                           \
	"invalidate=0\n"

enum { BITS_OFF, BITS_ON };

static const struct cell cells[] = {
	{"bits off", 28, .knobs = {"dirty-tracking", "folio"}},
	{"bits on", 452, .knobs = {"dirty-tracking", "block"}, .own = true},
};

/* Blocks written for each block of the user. */
static double blocks(const struct view *view, const struct band *band)
{
	const struct results *results = &view->runs[band->a]->results;

	return (double)results->data_bytes / (double)results->user_bytes;
}

static const struct band bands[] = {
	{"bits off: blocks written per block", blocks, .a = BITS_OFF, .least = 16, .most = 16,
	 .published = 16},
	{"bits on: blocks written per block", blocks, .a = BITS_ON, .least = 1, .most = 1,
	 .published = 1},
	{"bits on over off", .a = BITS_ON, .b = BITS_OFF, .least = 10, .most = 17, .published = 16},
};

static double figure(const struct run *run)
{
	return (double)run->results.bandwidth_bytes_per_s / 1e6;
}

const struct published published_t31 = {
	.id = "T31",
	.title = "8 jobs sync each 4 KiB write, 64 KiB pages: per-block dirty bits off and on",
	.where = "R. Harjani, 2023-07, merged in 6.6: Power, 64 KiB pages, NVMe",
	.system = {"fs", "xfs", "cpus", "16", "memory", "64g", "page-size", "64k", "max-folio",
		   "64k", "device", "nvme-450m", "device-size", "64g", "scale", "1/64"},
	.posted = {PLAIN_FLUSHER},
	.prepare = JOBS "[layout]\nrw=write\nbs=1m\nend_fsync=1\n",
	.job = JOBS "[test]\nrw=randwrite\nbs=4k\nioengine=psync\noverwrite=1\npre_read=1\n"
		    "fdatasync=1\nio_size=128m\n",
	.cells = cells,
	.nr_cells = sizeof(cells) / sizeof(cells[0]),
	.bands = bands,
	.nr_bands = sizeof(bands) / sizeof(bands[0]),
	.unit = "MB/s",
	.figure = figure,
};

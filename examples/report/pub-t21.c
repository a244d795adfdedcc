/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pub-t21.c - what one flusher writes from single pages and from large folios
 *
 * Several files are written in a row; neither the workload nor the drive was published.  The
 * flusher is what limits where the drive does not, which the cells without a drive show.
 */
#include "published.h"

#include <math.h>
#include <string.h>

enum { FOLIOS_OFF, FOLIOS_ON, NO_DRIVE_OFF, NO_DRIVE_ON };

#define SINGLE_PAGES "order-hint", "off", "max-folio", "4k"
#define LARGE_FOLIOS "order-hint", "on", "max-folio", "2m"
#define DRIVE	     "device", "990pro", "device-queue", "64m"
#define NO_DRIVE     "device", "null"

static const struct cell cells[] = {
	{"single pages", 800, .knobs = {SINGLE_PAGES, DRIVE}},
	{"large folios", 2400, .knobs = {LARGE_FOLIOS, DRIVE}, .own = true},
	{"single pages, no drive", .knobs = {SINGLE_PAGES, NO_DRIVE}},
	{"large folios, no drive", .knobs = {LARGE_FOLIOS, NO_DRIVE}},
};

/* Share of the time that the flusher has a CPU. */
static double flusher_cpu(const struct view *view, const struct band *band)
{
	const struct results *results = &view->runs[band->a]->results;
	uint64_t ns = 0;

	for (unsigned int i = 0; i < results->nr_kinds; i++)
		if (strcmp(results->kinds[i].name, "flush") == 0)
			ns += results->kinds[i].busy_ns;
	return (double)ns / (double)results->virtual_ns;
}

static const struct band bands[] = {
	{"large folios over single pages", .a = FOLIOS_ON, .b = FOLIOS_OFF, .least = 2, .most = 5,
	 .published = 3,
	 .documented = "here one flusher starts single pages at 7 GB/s (0.6 us each, VC7, VC8), "
		       "twice as much as the drive takes, which so limits both. The published "
		       "800 MB/s are 5.1 us a page; and the 2.4 GB/s of large folios, at which "
		       "it is busy again, are 1.7 us for each 4 KiB, whatever its folio: the "
		       "table of costs has none of a flusher by the byte"},
	{"no drive: CPU of the flusher, single pages", flusher_cpu, .a = NO_DRIVE_OFF,
	 .least = 0.75, .most = INFINITY},
	{"no drive: large folios over single pages", .a = NO_DRIVE_ON, .b = NO_DRIVE_OFF,
	 .least = 2, .most = INFINITY},
};

static double figure(const struct run *run)
{
	return (double)run->results.bandwidth_bytes_per_s / 1e6;
}

const struct published published_t21 = {
	.id = "T21",
	.title = "large folios in the flusher",
	.where = "C. Mason at LSF/MM 2025: XFS on NVMe, before one flusher saturates",
	.system = {"fs", "xfs", "cpus", "16", "memory", "16g", "device-size", "64g", "scale",
		   "1/64"},
	.posted = {PLAIN_FLUSHER},
	.job = "fio --name=test --rw=write --bs=1m --size=2g --numjobs=4 --fallocate=none",
	.cells = cells,
	.nr_cells = sizeof(cells) / sizeof(cells[0]),
	.bands = bands,
	.nr_bands = sizeof(bands) / sizeof(bands[0]),
	.unit = "MB/s",
	.figure = figure,
};

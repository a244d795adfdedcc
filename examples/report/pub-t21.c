/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pub-t21.c - what one flusher writes from single pages and from large folios
 *
 * Several files are written in a row, so that the flusher is what limits; neither the workload
 * nor the drive was published.
 */
#include "published.h"

enum { FOLIOS_OFF, FOLIOS_ON };

static const struct cell cells[] = {
	{"single pages", 800, .knobs = {"order-hint", "off", "max-folio", "4k"}},
	{"large folios", 2400, .knobs = {"order-hint", "on", "max-folio", "2m"}, .own = true},
};

static const struct band bands[] = {
	{"large folios over single pages", .a = FOLIOS_ON, .b = FOLIOS_OFF, .least = 2, .most = 5,
	 .published = 3,
	 .documented = "one flusher starts a page in 0.6 us here (VC7, VC8), so it writes more "
		       "than the drive does; the published 800 MB/s are 5 us a page"},
};

static double figure(const struct run *run)
{
	return (double)run->results.bandwidth_bytes_per_s / 1e6;
}

const struct published published_t21 = {
	.id = "T21",
	.title = "large folios in the flusher",
	.where = "C. Mason at LSF/MM 2025: XFS on NVMe, before one flusher saturates",
	.system = {"fs", "xfs", "cpus", "16", "memory", "16g", "device", "990pro", "device-size",
		   "64g", "device-queue", "64m", "scale", "1/64"},
	.posted = {PLAIN_FLUSHER},
	.job = "fio --name=test --rw=write --bs=1m --size=2g --numjobs=4 --fallocate=none",
	.cells = cells,
	.nr_cells = sizeof(cells) / sizeof(cells[0]),
	.bands = bands,
	.nr_bands = sizeof(bands) / sizeof(bands[0]),
	.unit = "MB/s",
	.figure = figure,
};

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pub-t1.c - throughput against the number of contexts, as many as CPUs
 */
#include "published.h"
#include "published-jobs.h"

#include <math.h>

#define NR(n, mib)                                                                                 \
	{                                                                                          \
		"nr " #n, mib, .posted = { "nr-wb-ctx", #n }                                       \
	}

/* The unpatched kernel: base; the cell of n contexts has number n. */
static const struct cell cells[] = {
	{"base", 9.57, .posted = {PLAIN_FLUSHER}},
	NR(1, 9.50),
	NR(2, 18.1),
	NR(3, 46.4),
	NR(4, 135),
	NR(5, 160),
	NR(6, 163),
	NR(7, 162),
	NR(8, 154),
	NR(9, 152),
	NR(10, 145),
	NR(11, 145),
	{"nr 12", 138, .posted = {"nr-wb-ctx", "12"}, .own = true},
};

static const struct band bands[] = {
	{"1 context over base", .a = 1, .b = 0, .least = 0.97, .most = 1.03, .published = 0.993},
	{"least step from 1 to 4 contexts", band_least_step, .a = 1, .b = 4, .least = 1.0,
	 .most = INFINITY, .published = 1.91},
	{"contexts with 95 % of the peak", band_knee, .a = 1, .b = 12, .least = 4, .most = 6,
	 .published = 5},
	{"decline from the peak to 12", band_decline, .a = 1, .b = 12, .least = 0.05, .most = 0.30,
	 .published = 0.153},
	{"peak over base", band_peak_gain, .a = 0, .b = 12, .least = 2.5, .most = INFINITY,
	 .published = 17.0},
};

const struct published published_t1 = {
	.id = "T1",
	.title = "12 jobs write 144 growing files at random: 1 to 12 contexts, 4 groups",
	.where = "Kundan Kumar, 2025-06: 12 CPUs, 9 G RAM, NVMe PM1733a 3.84 TB, XFS with 4 AGs",
	.system = {"fs", "xfs", "cpus", "12", "memory", "9g", "device", "pm1733a", "device-size",
		   "256g", "ags", "4", "scale", "1/64", "scale-rates", "on"},
	.posted = {"wb-map", "ino-mod", "throttle-share", "posted", "kick-all", "off"},
	.job = JOB_TWELVE_DIRECTORIES,
	.cells = cells,
	.nr_cells = sizeof(cells) / sizeof(cells[0]),
	.bands = bands,
	.nr_bands = sizeof(bands) / sizeof(bands[0]),
	.note = "The published step from 2 to 4 contexts, 7.5 times, was measured once; T14 repeats"
		" the sweep.",
};

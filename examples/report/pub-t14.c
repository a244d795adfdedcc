/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pub-t14.c - throughput against the number of contexts, repeated independently
 */
#include "published.h"
#include "published-jobs.h"

#include <math.h>

#define NR(n, mib)                                                                                 \
	{                                                                                          \
		"nr " #n, mib, .posted = { "nr-wb-ctx", #n }                                       \
	}

static const struct cell cells[] = {
	NR(1, 16.4),
	NR(2, 32.3),
	NR(3, 39.0),
	NR(4, 47.3),
	NR(5, 45.7),
	NR(6, 46.0),
	NR(7, 42.7),
	{"nr 8", 40.8, .posted = {"nr-wb-ctx", "8"}, .own = true},
	{"automatic", 0, .posted = {AUTOMATIC_NUMBER}},
	{"nr 8, bound to groups", 47.1, .posted = {"nr-wb-ctx", "8", "wb-map", "index"}},
};

/* Within 20 %. */
#define OVER_ONE(nr, x)                                                                            \
	{                                                                                          \
#nr " contexts over 1", .a = nr - 1, .b = 0, .least = 0.8 * (x),                   \
					.most = 1.2 * (x), .published = x                          \
	}

static const struct band bands[] = {
	OVER_ONE(2, 1.97),
	OVER_ONE(3, 2.38),
	OVER_ONE(4, 2.88),
	OVER_ONE(5, 2.79),
	OVER_ONE(6, 2.80),
	OVER_ONE(7, 2.60),
	OVER_ONE(8, 2.49),
	{"contexts at the peak", band_peak, .a = 0, .b = 7, .least = 3, .most = 5, .published = 4},
	{"automatic number", band_contexts, .a = 8, .least = 4, .most = 4},
	{"automatic over the best", band_over_best, .a = 8, .b = 0, .least = 0.95,
	 .most = INFINITY},
	{"8 bound to groups over 4", .a = 9, .b = 3, .least = 0.93, .most = 1.07, .published = 1.0},
};

const struct published published_t14 = {
	.id = "T14",
	.title = "12 jobs write 144 growing files at random: 1 to 8 contexts, 4 groups",
	.where = "wangyufei, 2025-09: 8 CPUs, 4 G RAM, 20 GB virtual NVMe, XFS with 4 AGs",
	.system = {"fs", "xfs", "cpus", "8", "memory", "4g", "device", "nvme-virtual",
		   "device-size", "20g", "ags", "4", "scale", "1/64", "scale-rates", "on"},
	.posted = {"wb-map", "ino-mod", "throttle-share", "posted", "kick-all", "off"},
	.job = JOB_TWELVE_DIRECTORIES,
	.cells = cells,
	.nr_cells = sizeof(cells) / sizeof(cells[0]),
	.bands = bands,
	.nr_bands = sizeof(bands) / sizeof(bands[0]),
};

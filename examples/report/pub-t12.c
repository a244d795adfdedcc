/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pub-t12.c - 12 preallocated files, written at random again and again
 */
#include "published.h"
#include "published-jobs.h"

#include <math.h>

#define PMEM "device", "pmem", "memory", "10g" /* the memory that is the device is missing */
/* Of 6 GiB what the scale leaves: the files fill all groups. */
#define PMEM_FOR_XFS  PMEM, "device-size", "96m", "ags", "4", "fs", "xfs"
#define PMEM_FOR_EXT4 PMEM, "device-size", "6g", "fs", "ext4"
#define NVME	      "device", "nvme", "memory", "16g", "device-size", "256g"
#define NVME_FOR_XFS  NVME, "fs", "xfs"
#define NVME_FOR_EXT4 NVME, "fs", "ext4"

/* Three cells a row: one context, twelve, the library's own number. */
#define ROW(name, system, base, parallel)                                                          \
	{name ", nr 1", base, .knobs = {system}, .posted = {"nr-wb-ctx", "1"}},                    \
		{name ", nr 12", parallel, .knobs = {system}, .posted = {"nr-wb-ctx", "12"},       \
		 .own = true},                                                                     \
	{                                                                                          \
		name ", automatic", 0, .knobs = {system}, .posted = { AUTOMATIC_NUMBER }           \
	}

enum { PMEM_XFS = 0, PMEM_EXT4 = 3, NVME_XFS = 6, NVME_EXT4 = 9 };

static const struct cell cells[] = {
	ROW("PMEM, XFS", PMEM_FOR_XFS, 544, 1015),
	ROW("PMEM, ext4", PMEM_FOR_EXT4, 536, 1047),
	ROW("NVMe, XFS", NVME_FOR_XFS, 651, 808),
	ROW("NVMe, ext4", NVME_FOR_EXT4, 494, 797),
};

static double gain(const struct view *view, unsigned int row)
{
	return view_figure(view, row + 1) / view_figure(view, row);
}

/* Gain of row a over gain of row b. */
static double gain_over_gain(const struct view *view, const struct band *band)
{
	return gain(view, band->a) / gain(view, band->b);
}

/* Why not. */
#define CONVERSION                                                                                 \
	"a conversion holds its group for the 130 us that T14 asks for (VC14), so that the first " \
	"pass over unwritten blocks takes most of the minute with one completion worker, or with " \
	"files that are all in one group (NVMe), and not with four groups (PMEM); the published "  \
	"minute held six passes with one context, so there a conversion took 43 us at most"
#define CHEAP_WRITERS                                                                              \
	"the workers to which io_uring hands a write that would block (VC22) are not simulated: "  \
	"writer and flusher take 8 us of a CPU for a block, and not 45 as published (12 CPUs for " \
	"1047 MiB/s), so CPUs are left for more flushers"
#define DEVICE_BOUND                                                                               \
	"one flusher already gives the assumed device (VC21) all requests it can take, as a "      \
	"block takes 2 us and not 8 as published; twelve find shorter runs, so they write less "   \
	"with as many requests a second"

#define GAIN(name, row, from, to, x, why)                                                          \
	{                                                                                          \
		name ": 12 contexts over 1", .a = (row) + 1, .b = (row), .least = (from),          \
					     .most = (to), .published = (x), .documented = (why)   \
	}
#define LARGER(what, row, than, x, why)                                                            \
	{                                                                                          \
		what, gain_over_gain, .a = (row), .b = (than), .least = 1.0, .most = INFINITY,     \
				      .published = (x), .documented = (why)                        \
	}
#define AUTOMATIC(name, row, nr, why)                                                              \
	{name ": automatic number", band_contexts, .a = (row) + 2, .least = (nr), .most = (nr)},   \
	{                                                                                          \
		name ": automatic over the best", band_over_best, .a = (row) + 2, .b = (row),      \
								  .least = 0.95, .most = INFINITY, \
								  .documented = (why)              \
	}

static const struct band bands[] = {
	GAIN("PMEM, XFS", PMEM_XFS, 1.6, 2.2, 1.87, CONVERSION),
	GAIN("PMEM, ext4", PMEM_EXT4, 1.6, 2.2, 1.95, CHEAP_WRITERS),
	GAIN("NVMe, XFS", NVME_XFS, 1.15, 1.8, 1.24, CONVERSION),
	GAIN("NVMe, ext4", NVME_EXT4, 1.15, 1.8, 1.61, DEVICE_BOUND),
	LARGER("XFS: gain on PMEM over gain on NVMe", PMEM_XFS, NVME_XFS, 1.50, NULL),
	LARGER("ext4: gain on PMEM over gain on NVMe", PMEM_EXT4, NVME_EXT4, 1.21, NULL),
	LARGER("PMEM: gain of ext4 over gain of XFS", PMEM_EXT4, PMEM_XFS, 1.05, CONVERSION),
	LARGER("NVMe: gain of ext4 over gain of XFS", NVME_EXT4, NVME_XFS, 1.30, DEVICE_BOUND),
	AUTOMATIC("PMEM, XFS", PMEM_XFS, 4, NULL),
	AUTOMATIC("PMEM, ext4", PMEM_EXT4, 12, NULL),
	AUTOMATIC("NVMe, XFS", NVME_XFS, 4, NULL),
	AUTOMATIC("NVMe, ext4", NVME_EXT4, 12, DEVICE_BOUND),
};

const struct published published_t12 = {
	.id = "T12",
	.title = "12 jobs write preallocated files at random, then overwrite: 1 and 12 contexts",
	.where = "Kundan Kumar, 2025-05: 12 CPUs, 16 G RAM, PMEM 6 G and NVMe 3.84 TB",
	.system = {"cpus", "12", "scale", "1/64", "scale-rates", "on"},
	.posted = {"wb-map", "ino-mod", "throttle-share", "posted", "kick-all", "off"},
	.job = JOB_TWELVE_FILES,
	.cells = cells,
	.nr_cells = sizeof(cells) / sizeof(cells[0]),
	.bands = bands,
	.nr_bands = sizeof(bands) / sizeof(bands[0]),
};

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pub-t13.c - extents of a file, counted in two ways
 */
#include "pub-extents.h"

#include <math.h>
#include <string.h>

/* The figure is what the publisher's tool shows for that file system. */

static const struct cell cells[] = {
	{"XFS base, records", 1964, .knobs = {"fs", "xfs"}, .posted = {"nr-wb-ctx", "1"}},
	{"XFS parallel, records", 1384, .knobs = {"fs", "xfs"}, .posted = {"nr-wb-ctx", "12"}},
	{"ext4 base, pieces", 21, .knobs = {"fs", "ext4"}, .posted = {"nr-wb-ctx", "1"}},
	{"ext4 parallel, pieces", 11, .knobs = {"fs", "ext4"}, .posted = {"nr-wb-ctx", "12"}},
};

static double shown(const struct run *run)
{
	bool xfs = strcmp(knob_text(&run->knobs, KNOB_FS), "xfs") == 0;

	return run->results.more[(xfs ? MORE_UNMERGED : MORE_MERGED) + EXTENTS_40];
}

/* Records that are no piece of their own, the fewest of all samples of cells a .. b. */
static double least_difference(const struct view *view, const struct band *band)
{
	double least = INFINITY;

	for (unsigned int cell = band->a; cell <= band->b; cell++)
		for (unsigned int when = 0; when < NR_EXTENTS_SAMPLES; when++)
			least = fmin(least, extents_more(view, cell, MORE_UNMERGED + when) -
						    extents_more(view, cell, MORE_MERGED + when));
	return least;
}

static const struct band bands[] = {
	{"records over pieces, least difference", least_difference, .a = 0, .b = 3, .least = 0,
	 .most = INFINITY},
	{"XFS: parallel over base", .a = 1, .b = 0, .least = 0.5, .most = 1.3, .published = 0.705},
	{"ext4: parallel over base", .a = 3, .b = 2, .least = 0.5, .most = 1.3, .published = 0.524},
};

const struct published published_t13 = {
	.id = "T13",
	.title = "extents of one file written at random: records of XFS, pieces of ext4",
	.where = "Kundan Kumar, 2025-05: 12 CPUs, 16 G RAM, PMEM, XFS with 4 AGs and ext4",
	.system = {"cpus", "12", "memory", "8g", "device", "pmem", "device-size", "6g", "scale",
		   "1/64"},
	.posted = {"wb-map", "ino-mod", "throttle-share", "posted", "kick-all", "off"},
	.job = JOB_ONE_RANDOM_FILE,
	.cells = cells,
	.nr_cells = sizeof(cells) / sizeof(cells[0]),
	.bands = bands,
	.nr_bands = sizeof(bands) / sizeof(bands[0]),
	.unit = "extents",
	.figure = shown,
	.run = extents_run,
	.note = "xfs_io stat counts records, filefrag pieces: the two rows cannot be compared.",
};

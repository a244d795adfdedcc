/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pub-t2.c - extents of a file written at random, until it is flushed
 */
#include "pub-extents.h"

#include <math.h>

enum { XFS, XFS_PARALLEL, EXT4, EXT4_PARALLEL, NO_RMAP, NO_TRYLOCK, XFS_SHUFFLED, EXT4_SHUFFLED };

static const struct cell cells[] = {
	{"XFS base", 6251, .knobs = {"fs", "xfs"}, .posted = {PLAIN_FLUSHER}},
	{"XFS parallel", 6183, .knobs = {"fs", "xfs"}, .posted = {"nr-wb-ctx", "12"}},
	{"ext4 base", 7080, .knobs = {"fs", "ext4"}, .posted = {PLAIN_FLUSHER}},
	{"ext4 parallel", 5961, .knobs = {"fs", "ext4"}, .posted = {"nr-wb-ctx", "12"}},
	{"XFS, no reverse map", 0, .knobs = {"fs", "xfs", "fs-options", "rmap_at_completion=off"},
	 .posted = {PLAIN_FLUSHER}, .argument = EXTENTS_SHUFFLED},
	{"XFS, waits for a busy AG", 0, .knobs = {"fs", "xfs", "fs-options", "agf_trylock=off"},
	 .posted = {PLAIN_FLUSHER}, .argument = EXTENTS_SHUFFLED},
	{"XFS, shuffled", 0, .knobs = {"fs", "xfs"}, .posted = {PLAIN_FLUSHER},
	 .argument = EXTENTS_SHUFFLED},
	{"ext4, shuffled", 0, .knobs = {"fs", "ext4"}, .posted = {PLAIN_FLUSHER},
	 .argument = EXTENTS_SHUFFLED},
};

/* Right after the last write, as filefrag counts. */
static double at_once(const struct run *run)
{
	return run->results.more[MORE_MERGED + EXTENTS_0];
}

static double merged(const struct view *view, unsigned int cell, enum extents_sample when)
{
	return extents_more(view, cell, MORE_MERGED + when);
}

/* EC6: 1 + N r (1 - f0)^2 */
static double over_formula(const struct view *view, const struct band *band)
{
	double left = 1 - extents_more(view, band->a, MORE_FLUSH_BEGAN);
	double formula = 1 + extents_more(view, band->a, MORE_BLOCKS) *
				     extents_more(view, band->a, MORE_FLUSH_SPEED) * left * left;

	return merged(view, band->a, EXTENTS_0) / formula;
}

static double flushed_over_remounted(const struct view *view, const struct band *band)
{
	return merged(view, band->a, EXTENTS_40) / merged(view, band->a, EXTENTS_REMOUNTED);
}

static double remounted_over_first(const struct view *view, const struct band *band)
{
	return merged(view, band->a, EXTENTS_REMOUNTED) / merged(view, band->a, EXTENTS_0);
}

static double later_over_first(const struct view *view, const struct band *band)
{
	return merged(view, band->a, EXTENTS_25) / merged(view, band->a, EXTENTS_0);
}

/* Parallel over base. */
static double remounted_over_other(const struct view *view, const struct band *band)
{
	return merged(view, band->a, EXTENTS_REMOUNTED) / merged(view, band->b, EXTENTS_REMOUNTED);
}

static double remounted(const struct view *view, const struct band *band)
{
	return merged(view, band->a, EXTENTS_REMOUNTED);
}

/* Of 1 GiB there would be that many, it is cut by block groups. */
static double remounted_of_1g(const struct view *view, const struct band *band)
{
	return merged(view, band->a, EXTENTS_REMOUNTED) * 262144 /
	       extents_more(view, band->a, MORE_BLOCKS);
}

/* Why not. */
#define CLUSTERS                                                                                   \
	"fio that draws a written block takes the next one that is not (its random map), so the "  \
	"last holes lie in clusters; a cluster is one piece, and EC6 takes each hole for one"
#define FLUSHER_IS_FASTER                                                                          \
	"EC6 is for a flusher that is slower than the writer; here the writer waits for the map "  \
	"lock while the flusher allocates (VC13), so that the flusher is done with a whole slice " \
	"before there is more to write"
#define ALL_DIVERTED                                                                               \
	"a completion goes on to the reverse map when it gives up the map lock (XF25), for which " \
	"the flusher waits, so the two go in step and the flusher finds the group busy nearly "    \
	"each time, whether that takes 20 us or 160; under the map lock it never would; the "      \
	"published count needs 22 to 24 per cent of the later allocations"

#define XFS_BANDS(name, cell, ratio)                                                               \
	{name ": at once over 1 + N r (1 - f0)^2",                                                 \
	 over_formula,                                                                             \
	 .a = (cell),                                                                              \
	 .least = 0.85,                                                                            \
	 .most = 1.15,                                                                             \
	 .documented = CLUSTERS},                                                                  \
		{name ": after the flush over remounted",                                          \
		 flushed_over_remounted,                                                           \
		 .a = (cell),                                                                      \
		 .least = 1,                                                                       \
		 .most = 1,                                                                        \
		 .published = 1},                                                                  \
	{                                                                                          \
		name ": remounted over at once", remounted_over_first,                             \
			.a = (cell), .least = 0.25, .most = 0.55, .published = (ratio),            \
			.documented = ALL_DIVERTED                                                 \
	}
#define EXT4_BANDS(name, cell)                                                                     \
	{name ": at once over 1 + N r (1 - f0)^2",                                                 \
	 over_formula,                                                                             \
	 .a = (cell),                                                                              \
	 .least = 0.85,                                                                            \
	 .most = 1.15,                                                                             \
	 .documented = CLUSTERS},                                                                  \
		{name ": 25 s later over at once",                                                 \
		 later_over_first,                                                                 \
		 .a = (cell),                                                                      \
		 .least = 0.99,                                                                    \
		 .most = 1.01,                                                                     \
		 .published = 1},                                                                  \
	{                                                                                          \
		name ": remounted, of 1 GiB", remounted_of_1g, .a = (cell), .least = 8,            \
							       .most = 24, .published = 11         \
	}

static const struct band bands[] = {
	XFS_BANDS("XFS base", XFS, 0.404),
	XFS_BANDS("XFS parallel", XFS_PARALLEL, 0.376),
	{"XFS: parallel over base, at once", .a = XFS_PARALLEL, .b = XFS, .least = 0.85,
	 .most = 1.15, .published = 0.989},
	{"XFS: parallel over base, remounted", remounted_over_other, .a = XFS_PARALLEL, .b = XFS,
	 .least = 0.85, .most = 1.15, .published = 0.921},
	EXT4_BANDS("ext4 base", EXT4),
	EXT4_BANDS("ext4 parallel", EXT4_PARALLEL),
	{"XFS, shuffled: at once over 1 + N r (1 - f0)^2", over_formula, .a = XFS_SHUFFLED,
	 .least = 0.85, .most = 1.15, .documented = FLUSHER_IS_FASTER},
	{"ext4, shuffled: at once over 1 + N r (1 - f0)^2", over_formula, .a = EXT4_SHUFFLED,
	 .least = 0.85, .most = 1.15},
	{"XFS, no reverse map: remounted", remounted, .a = NO_RMAP, .least = -INFINITY, .most = 50},
	{"XFS, waits for a busy AG: remounted", remounted, .a = NO_TRYLOCK, .least = -INFINITY,
	 .most = 50},
};

const struct published published_t2 = {
	.id = "T2",
	.title = "extents of one file written at random, at once, after the flush, remounted",
	.where = "Kundan Kumar, 2025-06: 12 CPUs, 9 G RAM, PMEM, XFS with 4 AGs and ext4",
	/* Of 9 GB about 8 are for pages: writeback begins at 0.8 of the file. */
	.system = {"cpus", "12", "memory", "8g", "device", "pmem", "device-size", "6g", "scale",
		   "1/8"},
	.posted = {"wb-map", "ino-mod", "throttle-share", "posted", "kick-all", "off"},
	.job = JOB_ONE_RANDOM_FILE,
	.cells = cells,
	.nr_cells = sizeof(cells) / sizeof(cells[0]),
	.bands = bands,
	.nr_bands = sizeof(bands) / sizeof(bands[0]),
	.unit = "extents at once",
	.figure = at_once,
	.run = extents_run,
	.note = "Bounds of ext4 for 1 GiB are those of as much as the scale leaves.  At the last"
		" write the flusher may be within a slice.  A remounted file is one that was synced"
		" and dropped from the cache.",
};

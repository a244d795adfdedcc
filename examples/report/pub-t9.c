/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pub-t9.c - 64 KiB pages over 4 KiB blocks on a disk
 */
#include "pub-page64k.h"

#include <math.h>

#define SEQUENTIAL_MBS 160.0 /* what the disk writes in a row */

static const struct cell cells[] = {
	{"xfs, dirty pages", 8, .knobs = {OLD_XFS}},
	{"ext4, buffer heads", 8, .knobs = {EXT4_BH}},
	{"xfs, dirty blocks", .knobs = {"fs", "xfs"}, .own = true},
	{"xfs, dirty pages, gaps pass", .knobs = {OLD_XFS, "device-gaps", "on"}},
	{"ext4, gaps pass", .knobs = {EXT4_BH, "device-gaps", "on"}},
};

static double of_sequential(const struct view *view, const struct band *band)
{
	return fmax(view_figure(view, band->a), view_figure(view, band->b)) / SEQUENTIAL_MBS;
}

static const struct band bands[] = {
	{"xfs, dirty pages, over ext4", .a = 0, .b = 1, .least = 0.7, .most = 1.6, .published = 1},
	{"the faster of the two over 160 MB/s", of_sequential, .a = 0, .b = 1, .least = -INFINITY,
	 .most = 0.15, .published = 0.05},
};

const struct published published_t9 = {
	.id = "T9",
	.title = "the same on a disk, 4 G",
	.where = "Zhengyuan Liu, 2020-07: Linux 5.7, arm64, 16 G RAM, a disk",
	/* A disk of 1 TB, scaled: how far it seeks depends on the part that the file is. */
	.system = {PAGE64K_SYSTEM, "scale", "1/64", "device-queue", "16m", "device", "disk",
		   "device-size", "16g"},
	.posted = {PAGE64K_POSTED},
	.job = JOB_RANDOM_OVERWRITE("4g"),
	.prepare = JOB_DD("4g"),
	.cells = cells,
	.nr_cells = sizeof(cells) / sizeof(cells[0]),
	.bands = bands,
	.nr_bands = sizeof(bands) / sizeof(bands[0]),
	.base = 1,
	.unit = "MB/s",
	.figure = page64k_figure,
	.note = "A gap costs this disk half a rotation, however short (VC21).  To one that lets"
		" gaps pass under its head, of which the last two rows are, 64 KiB cost 0.4 ms."
		"  What was published lies between.",
};

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pub-t7.c - 64 KiB pages over 4 KiB blocks: random overwrites of files of many sizes
 */
#include "pub-page64k.h"

#include <math.h>

#define SIZE(text, size, mbs, ...)                                                                 \
	{                                                                                          \
		text " " size, mbs, .knobs = {__VA_ARGS__}, .prepare = JOB_DD_TWICE(size),         \
				    .job = JOB_RANDOM_OVERWRITE(size)                              \
	}

#define CACHED(text, size)                                                                         \
	{                                                                                          \
		text " " size, .knobs = {OLD_XFS}, .prepare = JOB_DD_TWICE(size),                  \
			       .job = JOB_CACHED_OVERWRITE(size)                                   \
	}

enum {
	XFS_512M,
	XFS_1G,
	XFS_2G,
	XFS_4G,
	XFS_8G,
	EXT4,
	BITS = EXT4 + 5,
	CACHED_4G = BITS + 5,
	CACHED_8G,
	NR_CELLS
};

static const struct cell cells[NR_CELLS] = {
	SIZE("xfs, dirty pages", "512m", 1500, OLD_XFS),
	SIZE("xfs, dirty pages", "1g", 1500, OLD_XFS),
	SIZE("xfs, dirty pages", "2g", 1400, OLD_XFS),
	SIZE("xfs, dirty pages", "4g", 120, OLD_XFS),
	SIZE("xfs, dirty pages", "8g", 60, OLD_XFS),
	SIZE("ext4, buffer heads", "512m", 1000, EXT4_BH),
	SIZE("ext4, buffer heads", "1g", 1000, EXT4_BH),
	SIZE("ext4, buffer heads", "2g", 800, EXT4_BH),
	SIZE("ext4, buffer heads", "4g", 290, EXT4_BH),
	SIZE("ext4, buffer heads", "8g", 280, EXT4_BH),
	SIZE("xfs, dirty blocks", "512m", 0, "fs", "xfs"),
	SIZE("xfs, dirty blocks", "1g", 0, "fs", "xfs"),
	SIZE("xfs, dirty blocks", "2g", 0, "fs", "xfs"),
	{"xfs, dirty blocks 4g", .knobs = {"fs", "xfs"}, .own = true, .prepare = JOB_DD_TWICE("4g"),
	 .job = JOB_RANDOM_OVERWRITE("4g")},
	SIZE("xfs, dirty blocks", "8g", 0, "fs", "xfs"),
	CACHED("xfs, dirty pages, not dropped", "4g"),
	CACHED("xfs, dirty pages, not dropped", "8g"),
};

static double most_throttled_ms(const struct view *view, const struct band *band)
{
	uint64_t ns = 0;

	for (unsigned int cell = band->a; cell <= band->b; cell++)
		if (view->runs[cell]->results.throttled_ns > ns)
			ns = view->runs[cell]->results.throttled_ns;
	return (double)ns / 1e6;
}

static double own_figure(const struct view *view, const struct band *band)
{
	return view_figure(view, band->a);
}

/* With dirty blocks over ext4: the least favourable size but 2g, which has its own band. */
static double least_over_ext4(const struct view *view, const struct band *band)
{
	double least = INFINITY;

	for (unsigned int i = 0; i < 5; i++)
		if (i != XFS_2G)
			least = fmin(least, view_figure(view, band->a + i) /
						    view_figure(view, band->b + i));
	return least;
}

static const struct band bands[] = {
	/* What the speed of the CPUs was taken from. */
	{"xfs, dirty pages 512m, MB/s", own_figure, .a = XFS_512M, .least = 1425, .most = 1575,
	 .published = 1500},
	{"xfs, dirty pages: 2g over 4g", .a = XFS_2G, .b = XFS_4G, .least = 5, .most = INFINITY,
	 .published = 11.7,
	 .documented = "by chance, a writer of 2 GiB waits long for a locked page, as is said of "
		       "dirty blocks at 2g; with short writes it is 7.0 to 7.9 for three seeds at "
		       "1/64, 1/32 and 1/16"},
	{"xfs, dirty pages: most sleep up to 2g, ms", most_throttled_ms, .a = XFS_512M, .b = XFS_2G,
	 .least = 0, .most = 0},
	{"4g: xfs, dirty pages, over ext4", .a = XFS_4G, .b = EXT4 + 3, .least = 0.26, .most = 0.55,
	 .published = 0.41},
	{"8g: xfs, dirty pages, over ext4", .a = XFS_8G, .b = EXT4 + 4, .least = 0.10, .most = 0.35,
	 .published = 0.21},
	{"not dropped 4g: amplification over 16 x (1 - p)", page64k_identity, .a = CACHED_4G,
	 .least = 0.95, .most = 1.05, .published = 1},
	{"not dropped 8g: amplification over 16 x (1 - p)", page64k_identity, .a = CACHED_8G,
	 .least = 0.95, .most = 1.05, .published = 1},
	{"xfs, dirty blocks, over ext4: least but for 2g", least_over_ext4, .a = BITS, .b = EXT4,
	 .least = 0.95, .most = INFINITY},
	{"xfs, dirty blocks, over ext4: 2g", .a = BITS + XFS_2G, .b = EXT4 + XFS_2G, .least = 0.95,
	 .most = INFINITY,
	 .documented = "nobody sleeps for the limits, but the writer waits for the page that the "
		       "flusher has locked until a write of up to 4 MiB is done, which takes 0.8 s "
		       "at 1/64 of the rate, as chance has it; with writes of no more than 1/64 of "
		       "16 MiB it is 1.2 to 1.45"},
};

const struct published published_t7 = {
	.id = "T7",
	.title = "64 KiB pages, 4 KiB blocks: random overwrites of a file, by its size",
	.where = "Zhengyuan Liu, 2020-07: Linux 5.7, arm64, 16 G RAM, SATA SSD of 350 MB/s",
	.system = {PAGE64K_SYSTEM, "scale", "1/64", "device-queue", "16m", "device", "sata-ssd",
		   "device-size", "64g"},
	.posted = {PAGE64K_POSTED},
	.job = JOB_RANDOM_OVERWRITE("4g"), /* but each cell has its own */
	.cells = cells,
	.nr_cells = NR_CELLS,
	.bands = bands,
	.nr_bands = sizeof(bands) / sizeof(bands[0]),
	.base = EXT4 + 3,
	.unit = "MB/s",
	.figure = page64k_figure,
};

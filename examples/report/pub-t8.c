/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pub-t8.c - 64 KiB pages over 4 KiB blocks on NVMe, with the writer's CPU
 */
#include "pub-page64k.h"

#include <math.h>

static const struct cell cells[] = {
	{"xfs, dirty pages", 600, .knobs = {OLD_XFS}},
	{"ext4, buffer heads", 850, .knobs = {EXT4_BH}},
	{"xfs, dirty blocks", .knobs = {"fs", "xfs"}, .own = true},
};

static double writer_cpu(const struct view *view, const struct band *band)
{
	return page64k_cpu(view->runs[band->a]);
}

static double writer_cpus(const struct view *view, const struct band *band)
{
	return page64k_cpu(view->runs[band->a]) / page64k_cpu(view->runs[band->b]);
}

/* Share of the time until everything is written that the medium is busy. */
static double device_busy(const struct view *view, const struct band *band)
{
	const struct results *results = &view->runs[band->a]->results;
	uint64_t ns = 0;

	for (unsigned int i = 0; i < results->model.channels; i++)
		ns += results->model.busy_ns[i];
	return (double)ns / results->model.channels /
	       (double)(results->elapsed_ns + results->sync_ns);
}

static const struct band bands[] = {
	{"xfs, dirty pages: amplification", page64k_amplification, .a = 0, .least = 2, .most = 5,
	 .published = 3},
	{"ext4: amplification", page64k_amplification, .a = 1, .least = 1, .most = 1.02,
	 .published = 1},
	{"xfs, dirty pages, over ext4", .a = 0, .b = 1, .least = 0.5, .most = 0.9,
	 .published = 0.71},
	{"xfs, dirty pages: device busy", device_busy, .a = 0, .least = 0.9, .most = INFINITY,
	 .published = 0.9},
	{"ext4: CPU of the writer", writer_cpu, .a = 1, .least = 0.9, .most = INFINITY,
	 .published = 1},
	{"CPU of the writer, xfs over ext4", writer_cpus, .a = 0, .b = 1, .least = -INFINITY,
	 .most = 0.6, .published = 0.35},
};

const struct published published_t8 = {
	.id = "T8",
	.title = "the same on NVMe, 4 G, with the CPU of the writer",
	.where = "Zhengyuan Liu, 2020-07: Linux 5.7, arm64, 16 G RAM, NVMe of 2 GB/s",
	.system = {PAGE64K_SYSTEM, "scale", "1/64", "device-queue", "64m", "device", "nvme-400k",
		   "device-size", "64g"},
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
};

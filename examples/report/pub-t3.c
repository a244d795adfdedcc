/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pub-t3.c - one CPU: contexts change nothing
 */
#include "published.h"
#include "published-jobs.h"

/* Three cells a row: base, the posted version, the library's own number. */
#define ROW(device_name, device, size, memory, fs_name, fs, base, parallel)                        \
	{device_name ", " fs_name ", base", base,                                                  \
	 .knobs = {"device", device, "device-size", size, "memory", memory, "fs", fs},             \
	 .posted = {PLAIN_FLUSHER}},                                                               \
		{device_name ", " fs_name ", parallel", parallel,                                  \
		 .knobs = {"device", device, "device-size", size, "memory", memory, "fs", fs},     \
		 .posted = {"nr-wb-ctx", "1"}, .own = true},                                       \
	{                                                                                          \
		device_name ", " fs_name ", automatic", 0,                                         \
			.knobs = {"device", device, "device-size", size,                           \
				  "memory", memory, "fs",	   fs},                            \
			.posted = {                                                                \
				AUTOMATIC_NUMBER,                                                  \
				"wb-map",                                                          \
				"one"                                                              \
			}                                                                          \
	}

/* The memory that is the device is missing elsewhere. */
#define PMEM(...) ROW("PMEM", "pmem", "6g", "10g", __VA_ARGS__)
#define NVME(...) ROW("NVMe", "nvme", "256g", "16g", __VA_ARGS__)

static const struct cell cells[] = {
	PMEM("XFS", "xfs", 70.7, 70.5),
	PMEM("ext4", "ext4", 137, 138),
	NVME("XFS", "xfs", 45.2, 44.5),
	NVME("ext4", "ext4", 81.2, 80.1),
};

/* 1: every event of the two runs was the same; else 0. */
static double same_events(const struct view *view, const struct band *band)
{
	const struct results *a = &view->runs[band->a]->results;
	const struct results *b = &view->runs[band->b]->results;

	return a->trace_hash == b->trace_hash && a->virtual_ns == b->virtual_ns &&
	       a->switches == b->switches && a->write_ios == b->write_ios;
}

#define ROW_BANDS(row, first, ratio)                                                               \
	{row ": parallel over base", .a = (first) + 1, .b = (first), .least = 0.97, .most = 1.03,  \
	 .published = ratio},                                                                      \
		{row ": automatic number", band_contexts, .a = (first) + 2, .least = 1,            \
		 .most = 1},                                                                       \
	{                                                                                          \
		row ": automatic: the events of base", same_events,                                \
			.a = (first) + 2, .b = (first), .least = 1, .most = 1                      \
	}

static const struct band bands[] = {
	ROW_BANDS("PMEM, XFS", 0, 0.997),
	ROW_BANDS("PMEM, ext4", 3, 1.007),
	ROW_BANDS("NVMe, XFS", 6, 0.985),
	ROW_BANDS("NVMe, ext4", 9, 0.986),
};

const struct published published_t3 = {
	.id = "T3",
	.title = "one CPU: writeback contexts cost nothing where they cannot help",
	.where = "Kundan Kumar, 2025-06: maxcpus=1, PMEM and NVMe, XFS and ext4; the job of T12",
	.system = {"cpus", "1", "scale", "1/64"},
	.posted = {"wb-map", "ino-mod", "throttle-share", "posted", "kick-all", "off"},
	.job = JOB_TWELVE_FILES,
	.cells = cells,
	.nr_cells = sizeof(cells) / sizeof(cells[0]),
	.bands = bands,
	.nr_bands = sizeof(bands) / sizeof(bands[0]),
};

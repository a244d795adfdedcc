/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * rig.h - one file system with its cache and its device, made as the knobs say
 *
 *	struct rig rig = {.knobs = &knobs};
 *
 *	if (rig_open(&rig, err))
 *		...
 *	... warm up ...
 *	rig_start(&rig);			counters at zero, the clock runs
 *	... fs_write(file, ...) ...
 *	rig_stop(&rig);			the clock stops
 *	rig_collect(&rig, &results);
 *	rig_close(&rig);
 *
 * The device is wrapped by a counter, the only source of device figures.
 */
#ifndef REPORT_RIG_H
#define REPORT_RIG_H

#include <iomap/backing_dev.h>
#include <iomap/blkdev.h>
#include <iomap/fsbackend.h>
#include <iomap/page_cache.h>

#include "knobs.h"
#include "results.h"

struct rig {
	/* set by the caller */
	const struct knobs *knobs;
	uint32_t io_max; /* request limit of the device as readers see it, 0: none */

	struct block_device *dev;
	struct block_device *model; /* below the counter; NULL: it is no model */
	struct page_cache *cache;
	struct backing_dev *bdi;
	struct fs *fs;

	/* what the counters that cannot be reset had at the start */
	struct page_cache_stats start_stats;
	struct wb_stats start_contexts[WB_CTX_MAX];
	uint64_t start_folios[PAGE_CACHE_ORDERS]; /* when the cache was empty */
	uint64_t started_ns;
	uint64_t elapsed_ns;
	uint64_t user_bytes; /* atomic; since the start, of rig_write() or set by the caller */
};

/* Returns 0, or -EINVAL with one line in err; then nothing is left open. */
int rig_open(struct rig *rig, char *err);
/* Every file is closed. */
void rig_close(struct rig *rig);

void rig_start(struct rig *rig);
void rig_stop(struct rig *rig);
/* Everything but extents and what only the caller knows; results is zeroed first. */
void rig_collect(struct rig *rig, struct results *results);

/* Write everything, then empty the cache. */
int rig_drop_cache(struct rig *rig);
/* From now on folio_order_hist counts. */
void rig_count_folios(struct rig *rig);

/* Add the file's extents to the results. */
int rig_add_extents(struct file *file, struct results *results);

/* fs_write() of all bytes: 0 or a negative errno; counted as user_bytes. */
int rig_write(struct rig *rig, struct file *file, const void *memory, size_t len, uint64_t pos);

/* One line for a call that failed; returns error. */
int rig_failed(char *err, const char *what, int error);

#endif

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * calibrate-rig.h - a file system over a device with a gate
 *
 * The device takes no time and keeps nothing.  While its gate is shut data writes stay in it,
 * so that writing back and completing can be timed one after the other.
 */
#ifndef REPORT_CALIBRATE_RIG_H
#define REPORT_CALIBRATE_RIG_H

#include <iomap/backing_dev.h>
#include <iomap/blkdev.h>
#include <iomap/env.h>
#include <iomap/fsbackend.h>
#include <iomap/page_cache.h>

struct gate_device {
	struct block_device bdev;
	struct env_mutex lock; /* protects the rest */
	bool shut;
	struct bio *first;
	struct bio **tail;
	uint64_t nr_held;
};

struct cal_rig {
	struct gate_device gate;
	struct page_cache *cache;
	struct backing_dev *bdi;
	struct fs *fs;
};

/* single_pages: every folio is a page.  Nothing is written back unless asked for. */
int cal_rig_open(struct cal_rig *rig, uint64_t capacity, bool single_pages, const char *options);
/* Every file is closed. */
void cal_rig_close(struct cal_rig *rig);

void gate_shut(struct gate_device *gate);
/* Complete what was held, in this thread; returns how many requests. */
uint64_t gate_open(struct gate_device *gate);

#endif

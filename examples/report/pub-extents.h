/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pub-extents.h - extents of one file while it is flushed, for the tables that count them
 */
#ifndef REPORT_PUB_EXTENTS_H
#define REPORT_PUB_EXTENTS_H

#include "published.h"

/* When it was looked at: seconds since the last write. */
enum extents_sample { EXTENTS_0, EXTENTS_25, EXTENTS_40, EXTENTS_REMOUNTED, NR_EXTENTS_SAMPLES };

/* What is in results.more[]. */
enum {
	MORE_MERGED, /* counts of all samples */
	MORE_UNMERGED = MORE_MERGED + NR_EXTENTS_SAMPLES,
	MORE_BLOCKS = MORE_UNMERGED + NR_EXTENTS_SAMPLES, /* of the file */
	MORE_FLUSH_BEGAN, /* share of the file that was dirty when writeback began; 1: it did not */
	MORE_FLUSH_SPEED, /* of the flusher over that of the writer, from there to the last write */
	NR_MORE_EXTENTS
};

#define JOB_ONE_RANDOM_FILE                                                                        \
	"fio --directory=/mnt --name=test --bs=4k --iodepth=1024 --rw=randwrite "                  \
	"--ioengine=io_uring --numjobs=1 --size=1G --direct=0 --fallocate=none"

/*
 * The `argument` of a cell.  fio that draws a block it has written takes the next one that it
 * has not: what is left at last lies in clusters.  Shuffled: each block with the same chance.
 */
enum { EXTENTS_FIO, EXTENTS_SHUFFLED };

/* run() of a table: its job writes one file, which is sampled. */
int extents_run(const struct published *table, const struct cell *cell, struct run *run, char *err);

static inline double extents_more(const struct view *view, unsigned int cell, unsigned int which)
{
	return view->runs[cell]->results.more[which];
}

#endif

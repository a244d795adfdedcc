/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pub-page64k.h - 64 KiB pages over 4 KiB blocks: what T7, T8 and T9 have in common
 *
 *	dd if=/dev/zero of=/mnt/testfile bs=1M count=4096
 *	fio --ioengine=sync --rw=randwrite --iodepth=64 --size=4G --name=test
 *	    --filename=/mnt/testfile --bs=4k
 *
 * The file is written before, is synced and stays in the cache.  fio would drop its clean pages
 * first (invalidate=1), and the pages that it then makes would have no more than the block just
 * written in them, of which old XFS writes no more than that: the published figures are those
 * of a cached file.
 *
 * Rates are scaled as sizes are, so that what takes 5 s or 30 s stays what it is beside them
 * (R3); figures are given as of the full size.  So is what the device has in its queue: a
 * flusher waits until a request of its own has a place there, and without that old XFS would
 * have a third of the file in it.  And so is the least slice that a flusher writes, 4 MiB.
 */
#ifndef REPORT_PUB_PAGE64K_H
#define REPORT_PUB_PAGE64K_H

#include "published.h"

#define JOB_DD(file_size)                                                                          \
	"fio --name=dd --rw=write --bs=1m --filename=testfile --size=" file_size " --end_fsync=1"

/* So long that the flusher knows what the device writes in a second. */
#define JOB_DD_TWICE(file_size) JOB_DD(file_size) " --loops=2"

#define JOB_RANDOM_OVERWRITE(file_size)                                                            \
	"fio --ioengine=sync --rw=randwrite --iodepth=64 --name=test --filename=testfile "         \
	"--bs=4k --invalidate=0 --size=" file_size

#define PAGE64K_SYSTEM                                                                             \
	"cpus", "8", "memory", "16g", "page-size", "64k", "max-folio", "64k", "scale-rates", "on", \
		"min-slice", "64k"

/* Kernel 5.7: one flusher. */
#define PAGE64K_POSTED PLAIN_FLUSHER

/* The two file systems of 2020: XFS knew dirty pages only, ext4 had buffer heads. */
#define OLD_XFS "fs", "xfs", "dirty-tracking", "folio"
#define EXT4_BH "fs", "ext4", "fs-options", "bh=on"

/* MB/s of fio, as of the full size. */
double page64k_figure(const struct run *run);
/* Of the writer, from 0 to 1: what it does not sleep. */
double page64k_cpu(const struct run *run);

/* For `of`: amplification of cell a, the rest that is flushed at the end and all. */
double page64k_amplification(const struct view *view, const struct band *band);
/*
 * That over the identity (page / block) x (1 - p), where p is the share of the writes that find
 * their page dirty.
 */
double page64k_identity(const struct view *view, const struct band *band);

#endif

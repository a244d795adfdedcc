/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pub-page64k.h - 64 KiB pages over 4 KiB blocks: what T7, T8 and T9 have in common
 *
 *	dd if=/dev/zero of=/mnt/testfile bs=1M count=4096
 *	fio --ioengine=sync --rw=randwrite --iodepth=64 --size=4G --name=test
 *	    --filename=/mnt/testfile --bs=4k
 *
 * That fio drops the clean pages of the file when it opens it (invalidate=1 is its default), so
 * that what dd has put into the cache is gone, whatever it was meant for.  The pages that writes
 * then make hold those blocks alone that were written since, and old XFS writes them all each
 * time: 1 the first time, 16 the last, half a page on the average.  The published amplifications
 * are those: 2.5 of 4 GiB and 5 of 8 GiB on the SATA SSD, 3 on NVMe.  A file that stays in the
 * cache has twice as much; JOB_CACHED_OVERWRITE is that, for comparison.
 *
 * Rates are scaled as sizes are, so that what takes 5 s or 30 s stays what it is beside them
 * (R3); figures are given as of the full size.  So is what the device has in its queue: a
 * flusher waits until a request of its own has a place there, and without that old XFS would
 * have a third of the file in it.  And so is the least slice that a flusher writes, 4 MiB.
 *
 * How much the device limits depends on how fast the CPUs are beside it, and those of the arm64
 * machine are not those of the costs.  What its author measured where no device has a part, 512
 * MiB under XFS in T7, tells: 1.5 GB/s against 2.36.
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
	"--bs=4k --size=" file_size

#define JOB_CACHED_OVERWRITE(file_size) JOB_RANDOM_OVERWRITE(file_size) " --invalidate=0"

#define PAGE64K_SYSTEM                                                                             \
	"cpus", "8", "cpu-speed", "7/11", "memory", "16g", "page-size", "64k", "max-folio", "64k", \
		"scale-rates", "on", "min-slice", "64k"

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
 * their page dirty; 1 for JOB_CACHED_OVERWRITE, as every block of each page is written.
 */
double page64k_identity(const struct view *view, const struct band *band);

#endif

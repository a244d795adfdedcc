/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * overwrite.h - the sequence of random overwrites that the anchors were measured with
 *
 * Writes of 4 KiB at block ((r >> 8) mod blocks of the file), r(0) = 12345,
 * r(i+1) = r(i) * 1664525 + 1013904223 mod 2^32, advanced before each write.
 */
#ifndef REPORT_OVERWRITE_H
#define REPORT_OVERWRITE_H

#include <stdint.h>

#include "rig.h"

#define OVERWRITE_LEN 4096u

struct overwrite_count {
	uint64_t blocks; /* distinct blocks of the file system that are hit */
	uint64_t runs; /* maximal runs of adjacent ones */
};

/* What the arithmetic says, without running anything.  0 or -ENOMEM. */
int overwrite_predict(uint64_t file_size, uint64_t nr_writes, uint64_t block_size,
		      struct overwrite_count *count);
int overwrite_run(struct rig *rig, struct file *file, uint64_t file_size, uint64_t nr_writes);

/* The file the anchors start from: written in 1 MiB writes, then fsynced. */
int overwrite_make_file(struct rig *rig, const char *path, uint64_t file_size, struct file **file);
/* Read the whole file in 1 MiB reads. */
int overwrite_read_file(struct file *file, uint64_t file_size);

#endif

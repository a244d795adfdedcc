/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * calibrate.h - the table of costs, measured on the library and the machine that run now
 *
 * Each entry is what one step takes here, by the clock, or by the difference of two runs that
 * differ in nothing else.  It is meant to be read beside the table's value: the table stands
 * for another machine and a kernel, and does not change with this.
 */
#ifndef REPORT_CALIBRATE_H
#define REPORT_CALIBRATE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct calibrate_size {
	unsigned int nr_rounds; /* 1 .. CALIBRATE_MAX_ROUNDS */
	uint64_t file_bytes; /* cached; a multiple of 2 MiB, at least 4 MiB */
	unsigned int nr_ops; /* small operations a round */
	unsigned int nr_files; /* files a round that get their first block */
};

#define CALIBRATE_MAX_ROUNDS 64

/* Seconds, not minutes.  0, or a negative errno with one line in err (ERR_MAX bytes). */
int calibrate_run(FILE *out, bool json, char *err);
/* The same in another size. */
int calibrate_run_sized(const struct calibrate_size *size, FILE *out, bool json, char *err);

#endif

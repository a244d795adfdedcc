/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * compare.h - two files of --json: what changed, by how much
 */
#ifndef REPORT_COMPARE_H
#define REPORT_COMPARE_H

#include <stdio.h>

/* Returns what the program exits with; err holds one line unless that is 0. */
int compare_files(const char *a, const char *b, FILE *out, char *err);

#endif

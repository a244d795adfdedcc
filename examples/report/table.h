/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * table.h - figures for people: aligned tables with units
 *
 *	struct table table;
 *
 *	table_init(&table, "lrr");		left, right, right
 *	table_row(&table, "name\tbytes\tratio");	the first row is the heading
 *	table_row(&table, "%s\t%s\t%.2f", name, human_bytes(n), ratio);
 *	table_print(&table, stdout);		and forget it
 */
#ifndef REPORT_TABLE_H
#define REPORT_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "results.h"

struct outcome;

#define TABLE_COLUMNS_MAX 72

struct table {
	const char *align;
	char **rows;
	unsigned int nr_rows;
};

void table_init(struct table *table, const char *align);
void table_row(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
void table_print(struct table *table, FILE *out);
void table_forget(struct table *table);

/* "16.0 MiB", "1.25 ms": buffers in turn for each thread, as text() has. */
const char *human_bytes(uint64_t bytes);
/* A number of three digits, or more if it is large. */
const char *human_figure(double value);
const char *human_rate(uint64_t bytes_per_s);
const char *human_ns(uint64_t ns);
const char *human_ratio(double ratio);

const char *human_result(enum result_unit unit, uint64_t value);

/* What it is and how it was run; facts and notes. */
void outcome_print_head(const struct outcome *outcome, FILE *out);
void outcome_print_tail(const struct outcome *outcome, FILE *out);
/* Everything about a workload; brief: each run in one line. */
void outcome_print(const struct outcome *outcome, bool brief, FILE *out);
/* The knobs, experiments, file systems and results there are. */
void list_print(FILE *out);

#endif

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fio-value.h - numbers as fio writes them: sizes, times, expressions
 *
 * Each call returns 0, FIO_VALUE_CUT if fio would drop the end of the text (`1.5m` is 1),
 * or -EINVAL.
 */
#ifndef REPORT_FIO_VALUE_H
#define REPORT_FIO_VALUE_H

#include <stddef.h>
#include <stdint.h>

#define FIO_VALUE_CUT 1

/* A size or a plain number: 4096, 0x1000, 4k, 4Ki, 4kB; 4KiB is 4000 if kb_base is 1024. */
int fio_value_size(const char *text, uint64_t kb_base, uint64_t *size);
/* The same with a sign. */
int fio_value_signed(const char *text, uint64_t kb_base, int64_t *size);
/* A time in nanoseconds; unit_ns is what a number without a unit counts. */
int fio_value_time(const char *text, uint64_t unit_ns, uint64_t *ns);
/* + - * / % ^ and parentheses over sizes. */
int fio_value_expression(const char *text, uint64_t kb_base, uint64_t *value);

#endif

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * report.h - reports of many parts, one after the other
 */
#ifndef REPORT_REPORT_H
#define REPORT_REPORT_H

#include "knobs.h"

/*
 * Every experiment in its main configurations.  json: a file, "-", or NULL.  Returns what the
 * program exits with.
 */
int report_run(const char *json);

/* Every published table, with these knobs, and how many of its bands are met. */
int report_published(const struct knobs *knobs, const char *json);

#endif

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * report.h - the default report: every experiment in its main configurations
 */
#ifndef REPORT_REPORT_H
#define REPORT_REPORT_H

/* json: a file, "-", or NULL.  Returns what the program exits with. */
int report_run(const char *json);

#endif

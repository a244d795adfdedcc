/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * json.h - outcomes as JSON
 */
#ifndef REPORT_JSON_H
#define REPORT_JSON_H

#include "experiments.h"

/* "-": standard output.  0, or a negative errno with one line in err. */
int json_write_outcome(const struct outcome *outcome, const char *path, char *err);
/* Of several workloads: one document with all of them. */
int json_write_outcomes(const struct outcome *outcomes, unsigned int nr, const char *path,
			char *err);

#endif

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * progress.h - a line on stderr, if it is a terminal, that says what is being done
 *
 *	progress_start(nr_steps);			0: unknown
 *	progress_step("anchor-overwrite %s", fs);	the next step
 *	progress_watch(&bytes_done, &bytes_planned);	of this step, or NULL
 *	progress_count(runs_done, nr_runs);		of this step
 *	progress_hide();				before anything is printed
 *	progress_stop();
 */
#ifndef REPORT_PROGRESS_H
#define REPORT_PROGRESS_H

#include <stdint.h>

void progress_start(unsigned int nr_parts);
void progress_stop(void);
/* The next of the parts begins. */
void progress_part(void);
void progress_step(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Both are read with __atomic_load_n() until the next call. */
void progress_watch(const uint64_t *done, const uint64_t *planned);
/* So many runs of this step are done. */
void progress_count(unsigned int done, unsigned int nr);
void progress_hide(void);
/* For a process that was forked: the line is its parent's. */
void progress_forget(void);

#endif

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * trace.h - the spans of a simulated run as Chrome trace events, for Perfetto
 *
 *	struct trace trace;
 *
 *	trace_open(&trace, path, start_ns);
 *	config.trace = trace_span;
 *	config.trace_arg = &trace;
 *	... the run ...
 *	error = trace_close(&trace);
 *
 * {"traceEvents": [...]}: one process for each kind of track, one thread in it for each CPU,
 * context, channel of the device and task that waited for locks.  Events go to the file as they
 * come; times are microseconds of the virtual clock.
 */
#ifndef REPORT_TRACE_H
#define REPORT_TRACE_H

#include <stdio.h>

#include <iomap/trace.h>

#define TRACE_TRACKS 4

struct trace {
	FILE *out;
	uint64_t start_ns;
	/* by kind and number: has the track got its name? */
	unsigned char *named[TRACE_TRACKS];
	unsigned int nr_named[TRACE_TRACKS];
	int error;
};

/* 0 or a negative errno. */
int trace_open(struct trace *trace, const char *path, uint64_t start_ns);
void trace_span(void *arg, const struct env_trace_event *event);
/* The first error of all. */
int trace_close(struct trace *trace);

#endif

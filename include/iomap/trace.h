/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * trace.h - what happened when: spans of time on the tracks of a run
 *
 *	start = env_clock_ns();
 *	... the context writes an inode ...
 *	env_trace_span(ENV_TRACK_CONTEXT, wb->index, "slice", start, env_clock_ns(), pages);
 *
 * A world that records calls its recorder; on the host a span is one predictable branch.
 */
#ifndef IOMAP_TRACE_H
#define IOMAP_TRACE_H

#include <iomap/env.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct env_trace_event {
	enum env_track track;
	unsigned int number;
	const char *name; /* lives as long as the run */
	uint64_t start_ns, end_ns;
	uint64_t value; /* of a slice: pages; a channel: bytes; a CPU: the task's number; else 0 */
};

void env_trace_world(enum env_track track, unsigned int number, const char *name, uint64_t start_ns,
		     uint64_t end_ns, uint64_t value);

/* From start_ns until end_ns, which may lie ahead. */
static inline void env_trace_span(enum env_track track, unsigned int number, const char *name,
				  uint64_t start_ns, uint64_t end_ns, uint64_t value)
{
	if (env_unlikely(env_world != NULL))
		env_trace_world(track, number, name, start_ns, end_ns, value);
}

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

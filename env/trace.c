/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * trace.c - hand a span to the world, if it records
 */
#include <iomap/trace.h>

void env_trace_world(enum env_track track, unsigned int number, const char *name, uint64_t start_ns,
		     uint64_t end_ns, uint64_t value)
{
	if (env_world->trace_span)
		env_world->trace_span(track, number, name, start_ns, end_ns, value);
}

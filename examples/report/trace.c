/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * trace.c - the spans of a simulated run as Chrome trace events
 */
#include "trace.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_MAX (1u << 24)

static const struct {
	const char *process;
	const char *thread;
} tracks[TRACE_TRACKS] = {
	[ENV_TRACK_CPU] = {"CPUs", "CPU"},
	[ENV_TRACK_CONTEXT] = {"writeback contexts", "context"},
	[ENV_TRACK_CHANNEL] = {"device", "channel"},
	[ENV_TRACK_LOCK] = {"lock waits", "task"},
};

static void put_name(FILE *out, const char *name)
{
	for (; *name; name++) {
		if (*name == '"' || *name == '\\')
			fputc('\\', out);
		if ((unsigned char)*name >= ' ')
			fputc(*name, out);
	}
}

/* Kinds of tracks are processes 1, 2, ...: Perfetto takes 0 for its own. */
static unsigned int process_of(enum env_track track)
{
	return (unsigned int)track + 1;
}

int trace_open(struct trace *trace, const char *path, uint64_t start_ns)
{
	*trace = (struct trace){.start_ns = start_ns};
	trace->out = fopen(path, "w");
	if (!trace->out)
		return -errno;
	fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", trace->out);
	for (unsigned int track = 0; track < TRACE_TRACKS; track++)
		fprintf(trace->out,
			"%s\n{\"ph\":\"M\",\"pid\":%u,\"tid\":0,\"name\":\"process_name\","
			"\"args\":{\"name\":\"%s\"}}",
			track ? "," : "", process_of(track), tracks[track].process);
	return 0;
}

/* false: it has its name, or there is no memory to know. */
static bool is_new(struct trace *trace, enum env_track track, unsigned int number)
{
	unsigned int nr = trace->nr_named[track];
	unsigned char *larger;

	if (number < nr) {
		larger = trace->named[track];
	} else if (number >= NUMBER_MAX) {
		return false;
	} else {
		nr = (number + 64) / 64 * 128;
		larger = realloc(trace->named[track], nr);
		if (!larger) {
			trace->error = -ENOMEM;
			return false;
		}
		memset(larger + trace->nr_named[track], 0, nr - trace->nr_named[track]);
		trace->named[track] = larger;
		trace->nr_named[track] = nr;
	}
	if (larger[number])
		return false;
	larger[number] = 1;
	return true;
}

static void put_time(FILE *out, const char *key, uint64_t ns)
{
	fprintf(out, ",\"%s\":%llu.%03u", key, (unsigned long long)(ns / 1000),
		(unsigned int)(ns % 1000));
}

void trace_span(void *arg, const struct env_trace_event *event)
{
	struct trace *trace = arg;
	unsigned int process = process_of(event->track);
	uint64_t start = event->start_ns > trace->start_ns ? event->start_ns : trace->start_ns;

	if (is_new(trace, event->track, event->number))
		fprintf(trace->out,
			",\n{\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"name\":\"thread_name\","
			"\"args\":{\"name\":\"%s %u\"}}",
			process, event->number, tracks[event->track].thread, event->number);
	fprintf(trace->out, ",\n{\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"name\":\"", process,
		event->number);
	put_name(trace->out, event->name);
	fputc('"', trace->out);
	put_time(trace->out, "ts", start - trace->start_ns);
	put_time(trace->out, "dur", event->end_ns > start ? event->end_ns - start : 0);
	if (event->value)
		fprintf(trace->out, ",\"args\":{\"value\":%llu}", (unsigned long long)event->value);
	fputc('}', trace->out);
}

int trace_close(struct trace *trace)
{
	int error = trace->error;

	fputs("\n]}\n", trace->out);
	if (!error && (fflush(trace->out) || ferror(trace->out)))
		error = errno ? -errno : -EIO;
	if (fclose(trace->out) && !error)
		error = -errno;
	for (unsigned int track = 0; track < TRACE_TRACKS; track++)
		free(trace->named[track]);
	return error;
}

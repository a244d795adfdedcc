/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * calibrate.c - from timings to the entries of the table of costs
 *
 * An entry is worked out in each round from that round's timings; what is printed is the median
 * of the rounds, and the least and the most.
 */
#include "calibrate.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include <jansson.h>
#include <iomap/cost.h>

#include "calibrate-probe.h"
#include "knobs.h"

static const struct calibrate_size usual_size = {.nr_rounds = 9,
						 .file_bytes = 128ull << 20,
						 .nr_ops = 20000,
						 .nr_files = 256};

/* ---- entries from timings ---- */

static double copy_bytes(const double *ns)
{
	return (ns[PROBE_COPY_4K] - ns[PROBE_COPY_512]) * 4096 / (4096 - 512);
}

static double copy_cold(const double *ns)
{
	return ns[PROBE_COPY_4K] - copy_bytes(ns);
}

static double copy_write(const double *ns)
{
	return ns[PROBE_COPY_IN];
}

static double copy_read(const double *ns)
{
	return ns[PROBE_COPY_OUT];
}

static double lookup(const double *ns)
{
	return ns[PROBE_READ_EDGE] - ns[PROBE_READ_INSIDE];
}

static double dirty(const double *ns)
{
	return ns[PROBE_WRITE_EDGE] - ns[PROBE_WRITE_INSIDE] - lookup(ns);
}

static double map(const double *ns)
{
	return ns[PROBE_WRITE_EDGE_MAPS] - ns[PROBE_WRITE_EDGE];
}

static double write_call(const double *ns)
{
	return ns[PROBE_WRITE_INSIDE] - lookup(ns) - dirty(ns);
}

static double read_call(const double *ns)
{
	return ns[PROBE_READ_INSIDE] - lookup(ns);
}

static double folio_create(const double *ns)
{
	return ns[PROBE_CREATE] - ns[PROBE_WRITE_PAGES] + ns[PROBE_FREE];
}

static double flush_folio(const double *ns)
{
	return ns[PROBE_FLUSH_FOLIO];
}

static double mapping_lock(const double *ns)
{
	return ns[PROBE_LOCK];
}

static double end_folio(const double *ns)
{
	return ns[PROBE_END_FOLIO];
}

static double request(const double *ns)
{
	return ns[PROBE_FLUSH_REQUEST] - ns[PROBE_FLUSH_FOLIO];
}

static double alloc(const double *ns)
{
	return ns[PROBE_FLUSH_NEW] - ns[PROBE_FLUSH_OLD];
}

static double convert(const double *ns)
{
	return ns[PROBE_END_UNWRITTEN] - ns[PROBE_END_OLD];
}

static double rmap(const double *ns)
{
	return ns[PROBE_END_UNWRITTEN_RMAP] - ns[PROBE_END_OLD_RMAP] - convert(ns);
}

static double switch_task(const double *ns)
{
	return ns[PROBE_SWITCH];
}

static double wake_task(const double *ns)
{
	return ns[PROBE_WAKE];
}

static const char not_measurable[] = "not measurable here: assumed";

/* X(id, function of the timings, how) */
#define MEASURED(X)                                                                                \
	X(COPY_COLD, copy_cold, "memcpy of 512 and of 4096 bytes to random pages, at no byte")     \
	X(COPY_COLD_BYTES, copy_bytes, "the same, what the bytes add")                             \
	X(COPY_WRITE, copy_write, "memcpy of 128 KiB into one stretch of memory after another")    \
	X(COPY_READ, copy_read, "memcpy of 128 KiB out of it")                                     \
	X(WRITE_CALL, write_call,                                                                  \
	  "2 bytes written to pages in use, less lookup and dirty; the map is the one seen last")  \
	X(READ_CALL, read_call, "2 bytes read from pages in use, less lookup")                     \
	X(MAP, map,                                                                                \
	  "2 bytes written over the edge of two records, less of two pages; a map not seen last")  \
	X(LOOKUP, lookup, "2 bytes read over the edge of two pages, less inside one")              \
	X(DIRTY, dirty,                                                                            \
	  "2 bytes written over the edge of two pages, less inside one, less lookup")              \
	X(FOLIO_CREATE, folio_create,                                                              \
	  "128 KiB to new single pages, less to old ones, and evicting them")                      \
	X(FLUSH_FOLIO, flush_folio, "dirty single pages in a row, until their requests are out")   \
	X(MAPPING_LOCK, mapping_lock, "a turn of two threads that take one mutex all the time")    \
	X(END_FOLIO, end_folio, "the same pages, from the device's word to their end")             \
	X(REQUEST, request, "every second page dirty, less as many in a row")                      \
	X(ALLOC, alloc, "new files' first page written back, less old files'; whole, with steps")  \
	X(CONVERT, convert,                                                                        \
	  "unwritten blocks with gaps ended, less written ones; CPU time of all threads")          \
	X(RMAP, rmap, "the same with rmap_at_completion=on, less off")                             \
	X(SWITCH, switch_task, "a turn of two threads on one CPU that wake each other")            \
	X(WAKE, wake_task, "the same on two CPUs")

static const struct {
	double (*derive)(const double *ns); /* NULL: cannot be */
	const char *how;
} entries[NR_ENV_COSTS] = {
#define X(id, fn, text) [ENV_COST_##id] = {fn, text},
	MEASURED(X)
#undef X
};

/* ---- rounds ---- */

struct figure {
	double median; /* NAN: not measured */
	double least, most;
};

static void figure_from(struct figure *figure, double *values, unsigned int nr)
{
	figure->median = median_of(values, nr);
	figure->least = values[0];
	figure->most = values[nr - 1];
}

static void figures_from(struct figure figure[NR_ENV_COSTS],
			 double ns[CALIBRATE_MAX_ROUNDS][NR_PROBE_FIGURES], unsigned int nr)
{
	double values[CALIBRATE_MAX_ROUNDS];

	for (unsigned int cost = 0; cost < NR_ENV_COSTS; cost++) {
		for (unsigned int round = 0; round < nr; round++)
			values[round] =
				entries[cost].derive ? entries[cost].derive(ns[round]) : NAN;
		figure_from(&figure[cost], values, nr);
	}
}

/* The round before the first only warms up. */
static int measure(const struct calibrate_size *size, struct figure figure[NR_ENV_COSTS],
		   const char **what)
{
	double ns[CALIBRATE_MAX_ROUNDS][NR_PROBE_FIGURES];
	struct probe *probe;
	int err;

	err = probe_open(&probe, size, what);
	if (err)
		return err;
	err = probe_round(probe, ns[0], what);
	for (unsigned int round = 0; !err && round < size->nr_rounds; round++)
		err = probe_round(probe, ns[round], what);
	probe_close(probe);
	if (!err)
		figures_from(figure, ns, size->nr_rounds);
	return err;
}

/* ---- output ---- */

static double table_ns(const struct env_cost_entry *entry)
{
	return (double)entry->ps / 1000;
}

static const char *how_of(unsigned int cost, const struct figure *figure)
{
	return isnan(figure->median) ? not_measurable : entries[cost].how;
}

static void print_entry(FILE *out, unsigned int cost, const struct figure *figure)
{
	const struct env_cost_entry *entry = &env_cost_table[cost];
	char unit[80];

	if (entry->per > 1)
		snprintf(unit, sizeof(unit), "%llu x %s", (unsigned long long)entry->per,
			 entry->unit);
	else
		snprintf(unit, sizeof(unit), "%s", entry->unit);
	fprintf(out, "%-16s %-5s %8.0f ", entry->name, entry->rule, table_ns(entry));
	if (isnan(figure->median))
		fprintf(out, "%8s %17s", "-", "");
	else
		fprintf(out, "%8.0f %8.0f%9.0f", figure->median, figure->least, figure->most);
	fprintf(out, "  %-46s %s\n", unit, how_of(cost, figure));
}

static void print_table(FILE *out, const struct figure *figure, unsigned int nr_rounds)
{
	fprintf(out, "Nanoseconds; here: median, least and most of %u rounds.\n\n", nr_rounds);
	fprintf(out, "%-16s %-5s %8s %8s %8s%9s  %-46s %s\n", "cost", "rule", "table", "here",
		"least", "most", "for one", "how it was measured here");
	for (unsigned int cost = 0; cost < NR_ENV_COSTS; cost++)
		print_entry(out, cost, &figure[cost]);
}

static json_t *real(double value)
{
	return isnan(value) ? json_null() : json_real(value);
}

static json_t *entry_json(unsigned int cost, const struct figure *figure)
{
	const struct env_cost_entry *entry = &env_cost_table[cost];
	json_t *object = json_object();

	json_object_set_new(object, "name", json_string(entry->name));
	json_object_set_new(object, "rule", json_string(entry->rule));
	json_object_set_new(object, "unit", json_string(entry->unit));
	json_object_set_new(object, "per", json_integer((json_int_t)entry->per));
	json_object_set_new(object, "table_ns", json_real(table_ns(entry)));
	json_object_set_new(object, "here_ns", real(figure->median));
	json_object_set_new(object, "least_ns", real(isnan(figure->median) ? NAN : figure->least));
	json_object_set_new(object, "most_ns", real(isnan(figure->median) ? NAN : figure->most));
	json_object_set_new(object, "how", json_string(how_of(cost, figure)));
	json_object_set_new(object, "origin", json_string(entry->origin));
	return object;
}

static int print_json(FILE *out, const struct figure *figure)
{
	json_t *costs = json_array();
	int err;

	for (unsigned int cost = 0; cost < NR_ENV_COSTS; cost++)
		json_array_append_new(costs, entry_json(cost, &figure[cost]));
	err = json_dumpf(costs, out, JSON_INDENT(2));
	json_decref(costs);
	fputc('\n', out);
	return err ? -EIO : 0;
}

/* ---- all ---- */

int calibrate_run_sized(const struct calibrate_size *size, FILE *out, bool json, char *err)
{
	struct figure figure[NR_ENV_COSTS];
	const char *what;
	int error;

	if (env_world) {
		snprintf(err, ERR_MAX, "calibrate: only the host's time can be measured");
		return -EINVAL;
	}
	error = measure(size, figure, &what);
	if (error) {
		snprintf(err, ERR_MAX, "calibrate: %s: %s", what, strerror(-error));
		return error;
	}
	if (!json)
		print_table(out, figure, size->nr_rounds);
	else
		error = print_json(out, figure);
	if (error || fflush(out)) {
		snprintf(err, ERR_MAX, "calibrate: cannot write the figures");
		return -EIO;
	}
	return 0;
}

int calibrate_run(FILE *out, bool json, char *err)
{
	return calibrate_run_sized(&usual_size, out, json, err);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * compare.c - two files of --json: what changed, by how much
 *
 * Runs are compared in their order, with the same number of them on both sides.  Only what
 * differs is shown.
 */
#include "compare.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include <jansson.h>

#include "experiments.h"
#include "table.h"

static json_t *load(const char *path, char *err)
{
	json_error_t error;
	json_t *document = json_load_file(path, 0, &error);

	if (!document) {
		snprintf(err, ERR_MAX, "%.200s:%d: %.160s; it is a file that --json wrote", path,
			 error.line > 0 ? error.line : 1, error.text);
		return NULL;
	}
	if (json_integer_value(json_object_get(document, "schema")) == 1 &&
	    (json_object_get(document, "results") || json_object_get(document, "workloads")))
		return document;
	snprintf(err, ERR_MAX, "%.200s:1: no results of schema 1; it is a file that --json wrote",
		 path);
	json_decref(document);
	return NULL;
}

/* ---- one value -------------------------------------------------------------------------- */

static const char *value_text(const json_t *value)
{
	if (json_is_string(value))
		return text("%s", json_string_value(value));
	if (json_is_integer(value))
		return text("%lld", (long long)json_integer_value(value));
	if (json_is_real(value))
		return text("%.6g", json_real_value(value));
	return value && !json_is_null(value) ? "..." : "-";
}

static const char *change_text(const json_t *a, const json_t *b)
{
	double from = json_number_value(a);
	double to = json_number_value(b);

	if (!json_is_number(a) || !json_is_number(b))
		return "";
	if (from == 0)
		return "new";
	if (fabs(to / from) >= 10)
		return text("%.1f x", to / from);
	return text("%+.1f %%", 100 * (to / from - 1));
}

static void row_of(struct table *table, const char *name, const json_t *a, const json_t *b)
{
	table_row(table, "%s\t%s\t%s\t%s", name, value_text(a), value_text(b), change_text(a, b));
}

/* Arrays and objects in objects: each number of theirs has a name with dots. */
static void compare_values(struct table *table, const char *name, const json_t *a, const json_t *b);

static void compare_objects(struct table *table, const char *prefix, json_t *a, json_t *b)
{
	const char *key;
	json_t *value;

	json_object_foreach(a, key, value)
		compare_values(table, text("%s%s%s", prefix, *prefix ? "." : "", key), value,
			       json_object_get(b, key));
	json_object_foreach(b, key, value) if (!json_object_get(a, key))
		compare_values(table, text("%s%s%s", prefix, *prefix ? "." : "", key), NULL, value);
}

static void compare_arrays(struct table *table, const char *prefix, json_t *a, json_t *b)
{
	size_t nr =
		json_array_size(a) > json_array_size(b) ? json_array_size(a) : json_array_size(b);

	for (size_t i = 0; i < nr; i++)
		compare_values(table, text("%s.%zu", prefix, i), json_array_get(a, i),
			       json_array_get(b, i));
}

static void compare_values(struct table *table, const char *name, const json_t *a, const json_t *b)
{
	char prefix[128];

	if (json_equal(a, b) || (!a && !b))
		return;
	snprintf(prefix, sizeof(prefix), "%s", name);
	if ((json_is_object(a) || !a) && (json_is_object(b) || !b) && (a || b))
		compare_objects(table, prefix, (json_t *)a, (json_t *)b);
	else if ((json_is_array(a) || !a) && (json_is_array(b) || !b))
		compare_arrays(table, prefix, (json_t *)a, (json_t *)b);
	else
		row_of(table, prefix, a, b);
}

/* ---- a run ------------------------------------------------------------------------------ */

static bool compare_part(json_t *a, json_t *b, const char *part, const char *title, FILE *out)
{
	struct table table;
	bool differ;

	table_init(&table, "lrrr");
	table_row(&table, "%s\tA\tB\tchange", title);
	compare_objects(&table, "", json_object_get(a, part), json_object_get(b, part));
	differ = table.nr_rows > 1;
	if (differ)
		table_print(&table, out);
	else
		table_forget(&table);
	return differ;
}

static void compare_runs(json_t *a, json_t *b, const char *name, FILE *out)
{
	bool config;
	bool results;

	fprintf(out, "%s\n", name);
	config = compare_part(a, b, "config", "knob", out);
	results = compare_part(a, b, "results", "figure", out);
	if (!config && !results)
		fputs("  the same\n", out);
	else if (!results)
		fputs("  all figures are the same\n", out);
	fputs("\n", out);
}

static int mismatch(const char *what, size_t nr_a, size_t nr_b, char *err)
{
	snprintf(err, ERR_MAX, "A has %zu %s and B has %zu; compare files of the same command",
		 nr_a, what, nr_b);
	return EXIT_BAD_INPUT;
}

static int compare_workloads(json_t *a, json_t *b, FILE *out, char *err)
{
	const char *name_a = json_string_value(json_object_get(a, "workload"));
	const char *name_b = json_string_value(json_object_get(b, "workload"));
	json_t *runs_a = json_object_get(a, "runs");
	json_t *runs_b = json_object_get(b, "runs");
	size_t nr_a = runs_a ? json_array_size(runs_a) : 1;
	size_t nr_b = runs_b ? json_array_size(runs_b) : 1;

	if (nr_a != nr_b)
		return mismatch("runs", nr_a, nr_b, err);
	name_a = name_a ? name_a : "?";
	name_b = name_b ? name_b : "?";
	for (size_t i = 0; i < nr_a; i++) {
		json_t *run_a = runs_a ? json_array_get(runs_a, i) : a;
		json_t *run_b = runs_b ? json_array_get(runs_b, i) : b;
		const char *label = json_string_value(json_object_get(run_a, "label"));

		compare_runs(run_a, run_b,
			     text("%.50s%s%.50s%s%s", name_a,
				  strcmp(name_a, name_b) == 0 ? "" : " and ",
				  strcmp(name_a, name_b) == 0 ? "" : name_b, label ? ": " : "",
				  label ? label : ""),
			     out);
	}
	return EXIT_OK;
}

static int compare_documents(json_t *a, json_t *b, FILE *out, char *err)
{
	json_t *all_a = json_object_get(a, "workloads");
	json_t *all_b = json_object_get(b, "workloads");
	int status = EXIT_OK;

	if (!all_a && !all_b)
		return compare_workloads(a, b, out, err);
	if (!all_a || !all_b || json_array_size(all_a) != json_array_size(all_b))
		return mismatch("workloads", all_a ? json_array_size(all_a) : 1,
				all_b ? json_array_size(all_b) : 1, err);
	for (size_t i = 0; i < json_array_size(all_a) && !status; i++)
		status = compare_workloads(json_array_get(all_a, i), json_array_get(all_b, i), out,
					   err);
	return status;
}

int compare_files(const char *path_a, const char *path_b, FILE *out, char *err)
{
	json_t *a = load(path_a, err);
	json_t *b = a ? load(path_b, err) : NULL;
	int status = EXIT_BAD_INPUT;

	if (a && b)
		status = compare_documents(a, b, out, err);
	json_decref(a);
	json_decref(b);
	return status;
}

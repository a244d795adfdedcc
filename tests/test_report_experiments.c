/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_report_experiments.c - the exact figures of the experiments, and the shape of the JSON
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include <jansson.h>

#include "examples/report/overwrite.h"

#ifndef IOMAP_BUILD
#define IOMAP_BUILD "build"
#endif

/* The JSON of a run that must exit with 0; nothing else may be on stdout. */
static json_t *run(const char *arguments)
{
	char command[1024];
	json_error_t error;
	json_t *document;
	FILE *pipe;
	int status;

	snprintf(command, sizeof(command), "%s/iomap-report run %s --json -", IOMAP_BUILD,
		 arguments);
	pipe = popen(command, "r");
	cr_assert_not_null(pipe);
	document = json_loadf(pipe, 0, &error);
	status = pclose(pipe);
	cr_assert_not_null(document, "%s: %s", arguments, error.text);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: status %x", arguments,
		  status);
	return document;
}

static json_int_t figure(const json_t *object, const char *name)
{
	json_t *value = json_object_get(json_object_get(object, "results"), name);

	cr_assert(json_is_integer(value), "%s", name);
	return json_integer_value(value);
}

static double ratio(const json_t *object, const char *name)
{
	json_t *value = json_object_get(json_object_get(object, "results"), name);

	cr_assert(json_is_number(value), "%s", name);
	return json_number_value(value);
}

static json_t *run_number(json_t *document, size_t i)
{
	json_t *one = json_array_get(json_object_get(document, "runs"), i);

	cr_assert_not_null(one, "run %zu", i);
	return one;
}

/* ---- the arithmetic --------------------------------------------------------------------- */

Test(report_experiments, the_sequence_hits_4042_blocks_in_3906_runs)
{
	struct overwrite_count count;

	cr_assert_eq(overwrite_predict(512u << 20, 4096, 4096, &count), 0);
	cr_assert_eq(count.blocks, 4042);
	cr_assert_eq(count.runs, 3906);
}

Test(report_experiments, the_longer_sequence_hits_what_linux_wrote)
{
	static const struct {
		uint64_t block_size;
		uint64_t bytes;
		uint64_t runs;
	} rows[] = {
		{4096, 63188992, 13636},  {8192, 118964224, 11395}, {16384, 211746816, 7883},
		{32768, 341508096, 3793}, {65536, 463994880, 964},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct overwrite_count count;

		overwrite_predict(512u << 20, 16384, rows[i].block_size, &count);
		cr_expect_eq(count.blocks * rows[i].block_size, rows[i].bytes);
		cr_expect_eq(count.runs, rows[i].runs);
	}
}

/* ---- anchor-overwrite ------------------------------------------------------------------- */

static void anchor(const char *fs, const char *warm, json_int_t most_ios)
{
	char arguments[128];
	json_t *document;

	snprintf(arguments, sizeof(arguments), "anchor-overwrite --fs %s --warm %s", fs, warm);
	document = run(arguments);
	cr_expect_eq(figure(document, "user_bytes"), 16777216);
	cr_expect_eq(figure(document, "data_bytes"), 16556032);
	cr_expect_geq(figure(document, "write_ios"), 3906);
	cr_expect_leq(figure(document, "write_ios"), most_ios);
	json_decref(document);
}

Test(report_experiments, xfs_overwrites_as_linux_with_folios_from_writing)
{
	anchor("xfs", "written", 3906);
}

Test(report_experiments, xfs_overwrites_as_linux_with_folios_from_readahead)
{
	anchor("xfs", "readahead", 3906);
}

Test(report_experiments, ext4_overwrites_as_linux)
{
	anchor("ext4", "readahead", 3912);
}

Test(report_experiments, per_folio_tracking_amplifies_as_old_linux)
{
	json_t *document = run("anchor-overwrite --warm readahead --dirty-tracking folio "
			       "--memory 2g");

	cr_expect_gt(ratio(document, "cache_amplification"), 30.0);
	json_decref(document);
}

Test(report_experiments, scale_shrinks_file_and_writes)
{
	json_t *document = run("anchor-overwrite --scale 1/64");

	cr_expect_eq(figure(document, "user_bytes"), 16777216 / 64);
	json_decref(document);
}

/* ---- the others ------------------------------------------------------------------------- */

static void page_64k(const char *fs)
{
	char arguments[128];
	json_t *document;

	snprintf(arguments, sizeof(arguments), "page-64k --scale 1/4 --sync each --fs %s", fs);
	document = run(arguments);
	cr_expect_float_eq(ratio(run_number(document, 0), "cache_amplification"), 1.0, 1e-12);
	cr_expect_float_eq(ratio(run_number(document, 1), "cache_amplification"), 16.0, 1e-12);
	json_decref(document);
}

Test(report_experiments, a_page_of_64k_costs_16_blocks_without_dirty_bits_on_xfs)
{
	page_64k("xfs");
}

Test(report_experiments, a_page_of_64k_costs_16_blocks_without_dirty_bits_on_ext4)
{
	page_64k("ext4");
}

Test(report_experiments, one_sync_at_the_end_costs_the_same_either_way)
{
	json_t *document = run("page-64k --scale 1/4 --sync end --dirty-tracking folio");

	cr_expect_float_eq(ratio(document, "cache_amplification"), 1.0, 1e-12);
	json_decref(document);
}

Test(report_experiments, blocks_of_all_sizes_cost_what_linux_wrote)
{
	static const json_int_t bytes[] = {63188992, 118964224, 211746816, 341508096, 463994880};
	static const json_int_t ios[] = {13636, 11395, 7883, 3793, 964};
	json_t *document = run("block-size --fs xfs");

	for (size_t i = 0; i < 5; i++) {
		cr_expect_eq(figure(run_number(document, i), "data_bytes"), bytes[i]);
		cr_expect_eq(figure(run_number(document, i), "write_ios"), ios[i]);
	}
	json_decref(document);
}

static json_t *orders(const json_t *object)
{
	return json_object_get(json_object_get(object, "results"), "folio_order_hist");
}

Test(report_experiments, the_order_hint_decides_the_folios)
{
	json_t *document = run("order-hint --device null --file-size 32m");

	cr_expect_eq(json_object_size(orders(run_number(document, 0))), 1);
	cr_expect_not_null(json_object_get(orders(run_number(document, 0)), "0"));
	cr_expect_eq(json_object_size(orders(run_number(document, 1))), 1);
	cr_expect_not_null(json_object_get(orders(run_number(document, 1)), "5"));
	json_decref(document);
}

Test(report_experiments, the_number_of_contexts_changes_no_byte)
{
	json_t *one = run("contexts --file-size 12m --memory 64m --nr-wb-ctx 1");
	json_t *twelve = run("contexts --file-size 12m --memory 64m --nr-wb-ctx 12");
	const char *hash =
		json_string_value(json_object_get(json_object_get(one, "results"), "content_xxh3"));
	const char *other = json_string_value(
		json_object_get(json_object_get(twelve, "results"), "content_xxh3"));

	cr_assert(hash && other);
	cr_expect_str_eq(hash, other);
	cr_expect_eq(figure(twelve, "nr_wb_ctx"), 12);
	cr_expect_eq(figure(twelve, "dirty_left_bytes"), 0);
	json_decref(one);
	json_decref(twelve);
}

/* ---- the shape of the JSON -------------------------------------------------------------- */

Test(report_json, has_every_documented_member)
{
	static const char *const names[] = {
		"user_bytes",	    "dirtied_bytes", "data_bytes",	 "meta_bytes",
		"journal_bytes",    "gc_bytes",	     "fill_bytes",	 "read_bytes",
		"write_ios",	    "meta_ios",	     "journal_ios",	 "cache_amplification",
		"fs_amplification", "io_size_hist",  "folio_order_hist", "bandwidth_bytes_per_s",
		"elapsed_ns",	    "contexts",	     "nr_wb_ctx",	 "extents",
	};
	json_t *document = run("anchor-overwrite --scale 1/64 --nr-wb-ctx 2");
	json_t *results = json_object_get(document, "results");
	json_t *context;

	cr_expect_eq(json_integer_value(json_object_get(document, "schema")), 1);
	cr_expect_str_eq(json_string_value(json_object_get(document, "workload")),
			 "anchor-overwrite");
	cr_expect_null(json_object_get(document, "runs"));
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		cr_expect_not_null(json_object_get(results, names[i]), "%s", names[i]);
	cr_expect_eq(json_array_size(json_object_get(results, "contexts")), 2);
	context = json_array_get(json_object_get(results, "contexts"), 0);
	cr_expect(json_is_integer(json_object_get(context, "inodes")));
	cr_expect(json_is_integer(json_object_get(context, "bytes")));
	cr_expect(json_is_integer(json_object_get(context, "busy_ns")));
	cr_expect(json_is_integer(json_object_get(context, "lock_wait_ns")));
	cr_expect(json_is_integer(json_object_get(json_object_get(results, "extents"), "merged")));
	json_decref(document);
}

Test(report_json, config_has_the_value_of_each_knob)
{
	json_t *document = run("anchor-overwrite --scale 1/64 --page-size 16k --fs ext4");
	json_t *config = json_object_get(document, "config");

	cr_expect_eq(json_integer_value(json_object_get(config, "page_size")), 16384);
	cr_expect_str_eq(json_string_value(json_object_get(config, "fs")), "ext4");
	cr_expect_str_eq(json_string_value(json_object_get(config, "scale")), "1/64");
	cr_expect_str_eq(json_string_value(json_object_get(config, "dirty_tracking")), "block");
	json_decref(document);
}

Test(report_json, a_knob_that_is_given_is_not_varied)
{
	json_t *document = run("page-64k --scale 1/16 --dirty-tracking folio");

	cr_expect_null(json_object_get(document, "runs"));
	cr_expect_float_eq(ratio(document, "cache_amplification"), 16.0, 1e-12);
	json_decref(document);
}

Test(report_json, the_first_run_is_the_document_s_own)
{
	json_t *document = run("page-64k --scale 1/16");

	cr_expect_eq(json_array_size(json_object_get(document, "runs")), 2);
	cr_expect(json_equal(json_object_get(document, "results"),
			     json_object_get(run_number(document, 0), "results")));
	json_decref(document);
}

/* ---- fio jobs --------------------------------------------------------------------------- */

static json_t *run_seed(const char *name)
{
	char arguments[256];

	snprintf(arguments, sizeof(arguments), "%s/jobs/%s --scale 1/64", IOMAP_TEST_DATA, name);
	return run(arguments);
}

static void seed_writes(const char *name, json_int_t user_bytes)
{
	json_t *document = run_seed(name);

	cr_expect_eq(figure(document, "user_bytes"), user_bytes, "%s", name);
	json_decref(document);
}

/* 12 jobs of 16 MiB, in 12 files each of as many whole blocks as fit. */
#define BYTES_000 (12 * 12 * (((16 << 20) / 12) / 4096 * 4096ll))

Test(report_seeds, job_000)
{
	seed_writes("seed-000-job_nvme.fio", BYTES_000);
	seed_writes("seed-000-job_nvme.job12-dir12.fio", BYTES_000);
	seed_writes("seed-000-run.cmd", BYTES_000);
}

Test(report_seeds, job_002_writes_until_its_time_is_over)
{
	json_t *document = run_seed("seed-002.cmd");

	cr_expect_gt(figure(document, "user_bytes"), 0);
	cr_expect_lt(figure(document, "elapsed_ns"), 5000000000ll);
	json_decref(document);
}

Test(report_seeds, job_003)
{
	seed_writes("seed-003.cmd", (100ll << 30) / 64);
}

Test(report_seeds, job_003_preparation_is_not_fio_s)
{
	seed_writes("seed-003-prep.cmd", 0);
}

Test(report_seeds, job_004)
{
	seed_writes("seed-004-prep.cmd", 64 << 20);
	seed_writes("seed-004.cmd", 64 << 20);
	seed_writes("seed-004-sizes.cmd", (8 + 16 + 32 + 64 + 128 + 256) << 20);
}

Test(report_seeds, a_command_line_is_a_workload)
{
	json_t *document = run("'fio --name=a --rw=write --bs=64k --size=1m --directory=./x'");

	cr_expect_eq(figure(document, "user_bytes"), 1 << 20);
	cr_expect_eq(json_array_size(json_object_get(document, "jobs")), 1);
	json_decref(document);
}

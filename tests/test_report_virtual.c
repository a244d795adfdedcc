/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_report_virtual.c - runs under the virtual clock: the same each time, side by side, traced
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include <iomap/env.h>

#include "examples/report/pieces.h"
#include "examples/report/published.h"

#ifndef IOMAP_BUILD
#define IOMAP_BUILD "build"
#endif

/* Files of more than the memory, so that limits, eviction and all contexts act. */
#define JOB                                                                                        \
	"'fio --name=t --rw=randwrite --bs=4k --size=12m --nrfiles=4 --numjobs=2 "                 \
	"--create_on_open=1'"
#define SYSTEM "--clock virtual --memory 16m --cpus 4 --nr-wb-ctx 2 --wb-map ino-mod"

/* All that the command writes to stdout; it exits with 0. */
static char *output_of(const char *arguments)
{
	char command[1024];
	char *text = NULL;
	size_t size;
	FILE *memory = open_memstream(&text, &size);
	FILE *pipe;
	int status;
	int c;

	snprintf(command, sizeof(command), "%s/iomap-report %s", IOMAP_BUILD, arguments);
	pipe = popen(command, "r");
	cr_assert_not_null(pipe);
	while ((c = fgetc(pipe)) != EOF)
		fputc(c, memory);
	status = pclose(pipe);
	fclose(memory);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: status %x", arguments,
		  status);
	return text;
}

static json_t *json_of(const char *arguments)
{
	char *text = output_of(arguments);
	json_error_t error;
	json_t *document = json_loads(text, 0, &error);

	cr_assert_not_null(document, "%s: %s", arguments, error.text);
	free(text);
	return document;
}

static json_t *results_of(json_t *object)
{
	json_t *results = json_object_get(object, "results");

	cr_assert_not_null(results);
	return results;
}

static json_int_t figure(json_t *object, const char *name)
{
	json_t *value = json_object_get(results_of(object), name);

	cr_assert(json_is_integer(value), "%s", name);
	return json_integer_value(value);
}

/* ---- one run ---------------------------------------------------------------------------- */

static void same_twice(const char *arguments)
{
	char *first = output_of(arguments);
	char *second = output_of(arguments);

	cr_assert_str_eq(first, second, "%s", arguments);
	cr_assert_gt(strlen(first), 100);
	free(first);
	free(second);
}

Test(report_virtual, a_job_gives_the_same_document_twice_on_xfs)
{
	same_twice("run " JOB " " SYSTEM " --json -");
}

Test(report_virtual, a_job_gives_the_same_document_twice_on_ext4)
{
	same_twice("run " JOB " " SYSTEM " --fs ext4 --json -");
}

Test(report_virtual, an_experiment_gives_the_same_document_twice)
{
	same_twice("run contexts --clock virtual --file-size 12m --memory 8m --json -");
}

Test(report_virtual, a_seed_gives_other_figures)
{
	char *first = output_of("run " JOB " " SYSTEM " --seed 1 --json -");
	char *second = output_of("run " JOB " " SYSTEM " --seed 2 --json -");

	cr_assert_str_neq(first, second);
	free(first);
	free(second);
}

Test(report_virtual, the_document_says_where_time_went)
{
	json_t *document = json_of("run " JOB " " SYSTEM " --json -");
	json_t *results = results_of(document);
	json_t *cpu = json_object_get(results, "cpu");
	json_t *channels = json_object_get(results, "channels");
	json_int_t sum = 0;
	const char *key;
	json_t *value;

	cr_expect_eq(figure(document, "user_bytes"), 24 << 20);
	cr_expect_gt(figure(document, "virtual_ns"), 0);
	cr_expect_geq(figure(document, "virtual_ns"), figure(document, "elapsed_ns"));
	cr_expect_gt(figure(document, "switches"), 0);
	cr_expect_geq(figure(document, "media_bytes"), figure(document, "data_bytes"));
	cr_expect_gt(figure(document, "device_busy_ns"), 0);
	cr_expect_not_null(json_object_get(results, "lock_waits"));
	cr_expect_eq(json_array_size(json_object_get(results, "contexts")), 2);
	cr_assert_not_null(json_object_get(cpu, "fio-job"));
	json_object_foreach(cpu, key, value) sum +=
		json_integer_value(json_object_get(value, "busy_ns"));
	cr_expect_eq(sum, figure(document, "cpu_busy_ns"));
	cr_expect_eq(json_array_size(channels), 4);
	json_decref(document);
}

Test(report_virtual, the_standard_device_is_a_model)
{
	json_t *document = json_of("run " JOB " --clock virtual --json -");
	json_t *config = json_object_get(document, "config");

	cr_expect_str_eq(json_string_value(json_object_get(config, "device")), "nvme");
	json_decref(document);
}

Test(report_virtual, a_model_works_with_the_real_clock_too)
{
	json_t *document = json_of("run 'fio --name=t --rw=write --bs=64k --size=1m --end_fsync=1' "
				   "--device model:sata-ssd --json -");

	cr_expect_geq(figure(document, "media_bytes"), 1 << 20);
	json_decref(document);
}

Test(report_virtual, a_slower_device_takes_longer)
{
	const char *job = "'fio --name=t --rw=write --bs=1m --size=32m --end_fsync=1'";
	char arguments[256];
	json_t *fast, *slow;

	snprintf(arguments, sizeof(arguments), "run %s --clock virtual --device pmem --json -",
		 job);
	fast = json_of(arguments);
	snprintf(arguments, sizeof(arguments), "run %s --clock virtual --device disk --json -",
		 job);
	slow = json_of(arguments);
	cr_expect_gt(figure(slow, "elapsed_ns"), 5 * figure(fast, "elapsed_ns"));
	/* 160 MB/s */
	cr_expect_gt(figure(slow, "elapsed_ns"), 200000000);
	cr_expect_lt(figure(slow, "elapsed_ns"), 400000000);
	json_decref(fast);
	json_decref(slow);
}

Test(report_virtual, time_based_jobs_end_by_the_virtual_clock)
{
	json_t *document = json_of("run 'fio --name=t --rw=randwrite --bs=64k --size=1m "
				   "--time_based --runtime=2' --clock virtual --json -");

	cr_expect_geq(figure(document, "elapsed_ns"), 2000000000);
	cr_expect_lt(figure(document, "elapsed_ns"), 2100000000);
	json_decref(document);
}

Test(report_virtual, every_knob_of_the_contexts_is_taken)
{
	free(output_of("run " JOB " --clock virtual --memory 16m --cpus 4 --nr-wb-ctx 4 "
		       "--wb-map shard-band --throttle-share posted --kick-all off --rebind off "
		       "--workers-per-ctx 2 --sync-serial on --completion-queues single "
		       "--min-slice 64k --max-ratio 50 --strict-limit on --dirty-ratio 30 "
		       "--dirty-background-ratio 5 --json -"));
	free(output_of("run " JOB " --clock virtual --memory 16m --wb-map index --json -"));
	free(output_of("run " JOB
		       " --clock virtual --memory 16m --dirty-accounting block --json -"));
}

/* ---- trace ------------------------------------------------------------------------------ */

static char *file_text(const char *path)
{
	FILE *file = fopen(path, "r");
	char *text = NULL;
	size_t size = 0;

	cr_assert_not_null(file);
	cr_assert_gt(getdelim(&text, &size, '\0', file), 0);
	fclose(file);
	return text;
}

static char *trace_of(const char *arguments)
{
	char path[] = "/tmp/iomap-trace-XXXXXX";
	int fd = mkstemp(path);
	char command[512];
	char *text;

	close(fd);
	snprintf(command, sizeof(command), "run %s --trace %s", arguments, path);
	free(output_of(command));
	text = file_text(path);
	unlink(path);
	return text;
}

struct process {
	char name[32];
	unsigned int nr_spans;
	bool named[64]; /* threads */
};

static void read_event(const json_t *event, struct process *processes)
{
	json_int_t pid = json_integer_value(json_object_get(event, "pid"));
	json_int_t tid = json_integer_value(json_object_get(event, "tid"));
	const char *name = json_string_value(json_object_get(event, "name"));
	const char *phase = json_string_value(json_object_get(event, "ph"));
	const json_t *args = json_object_get(event, "args");

	cr_assert(pid >= 1 && pid <= 4);
	cr_assert_not_null(name);
	if (strcmp(phase, "X") == 0) {
		cr_assert_geq(json_number_value(json_object_get(event, "ts")), 0);
		cr_assert_geq(json_number_value(json_object_get(event, "dur")), 0);
		cr_assert(tid >= 64 || processes[pid].named[tid], "no name of %d:%d", (int)pid,
			  (int)tid);
		processes[pid].nr_spans++;
	} else if (strcmp(name, "process_name") == 0) {
		snprintf(processes[pid].name, sizeof(processes[pid].name), "%s",
			 json_string_value(json_object_get(args, "name")));
	} else {
		cr_assert_str_eq(name, "thread_name");
		if (tid < 64)
			processes[pid].named[tid] = true;
	}
}

Test(report_virtual, a_trace_has_a_track_for_all_there_is)
{
	char *text = trace_of(JOB " " SYSTEM);
	json_error_t error;
	json_t *document = json_loads(text, 0, &error);
	struct process processes[5] = {0};
	json_t *event;
	size_t i;

	cr_assert_not_null(document, "%s", error.text);
	json_array_foreach(json_object_get(document, "traceEvents"), i, event)
		read_event(event, processes);
	cr_expect_str_eq(processes[1].name, "CPUs");
	cr_expect_str_eq(processes[2].name, "writeback contexts");
	cr_expect_str_eq(processes[3].name, "device");
	cr_expect_str_eq(processes[4].name, "lock waits");
	for (unsigned int cpu = 0; cpu < 4; cpu++)
		cr_expect(processes[1].named[cpu], "CPU %u", cpu);
	for (unsigned int context = 0; context < 2; context++)
		cr_expect(processes[2].named[context], "context %u", context);
	for (unsigned int channel = 0; channel < 4; channel++)
		cr_expect(processes[3].named[channel], "channel %u", channel);
	for (unsigned int process = 1; process <= 4; process++)
		cr_expect_gt(processes[process].nr_spans, 0, "%s", processes[process].name);
	json_decref(document);
	free(text);
}

Test(report_virtual, a_trace_is_the_same_twice)
{
	char *first = trace_of(JOB " " SYSTEM);
	char *second = trace_of(JOB " " SYSTEM);

	cr_assert_str_eq(first, second);
	free(first);
	free(second);
}

Test(report_virtual, a_trace_changes_no_figure)
{
	char path[] = "/tmp/iomap-trace-XXXXXX";
	int fd = mkstemp(path);
	char arguments[512];
	char *with, *without;

	close(fd);
	snprintf(arguments, sizeof(arguments), "run " JOB " " SYSTEM " --json - --trace %s", path);
	with = output_of(arguments);
	without = output_of("run " JOB " " SYSTEM " --json -");
	unlink(path);
	cr_assert_str_eq(with, without);
	free(with);
	free(without);
}

/* ---- sweep and compare ------------------------------------------------------------------ */

#define SMALL_JOB "'fio --name=t --rw=randwrite --bs=4k --size=1m --nrfiles=4'"

Test(report_virtual, a_sweep_runs_every_combination_in_order)
{
	json_t *document = json_of("sweep " SMALL_JOB
				   " --vary fs=xfs,ext4 --vary nr-wb-ctx=1..3,5..9:2 --json -");
	static const char *const contexts[] = {"1", "2", "3", "5", "7", "9"};
	json_t *runs = json_object_get(document, "runs");

	cr_assert_eq(json_array_size(runs), 12);
	for (size_t i = 0; i < 12; i++) {
		json_t *run = json_array_get(runs, i);
		char label[64];

		snprintf(label, sizeof(label), "fs=%s nr-wb-ctx=%s", i < 6 ? "xfs" : "ext4",
			 contexts[i % 6]);
		cr_expect_str_eq(json_string_value(json_object_get(run, "label")), label);
		cr_expect_eq(figure(run, "user_bytes"), 1 << 20);
	}
	cr_expect_eq(json_array_size(json_object_get(document, "sweep")), 2);
	json_decref(document);
}

Test(report_virtual, a_sweep_of_an_experiment_takes_its_knobs)
{
	json_t *document = json_of("sweep contexts --file-size 4m --vary nr-wb-ctx=1,4 --json -");
	json_t *runs = json_object_get(document, "runs");

	cr_assert_eq(json_array_size(runs), 2);
	cr_expect_eq(figure(json_array_get(runs, 0), "nr_wb_ctx"), 1);
	cr_expect_eq(figure(json_array_get(runs, 1), "nr_wb_ctx"), 4);
	json_decref(document);
}

Test(report_virtual, a_sweep_gives_the_same_lines_twice)
{
	same_twice("sweep " SMALL_JOB " --vary seed=1..4 --vary nr-wb-ctx=1,2 --csv -");
}

Test(report_virtual, the_csv_has_a_heading_and_a_line_for_each_run)
{
	char *text = output_of("sweep " SMALL_JOB " --vary seed=1..4 --csv -");
	unsigned int nr = 0;

	cr_expect_eq(strncmp(text, "seed,user_bytes,", 16), 0);
	for (const char *c = text; *c; c++)
		nr += *c == '\n';
	cr_expect_eq(nr, 5);
	free(text);
}

Test(report_virtual, a_table_of_two_knobs_has_rows_and_columns)
{
	char *text = output_of("sweep " SMALL_JOB
			       " --vary nr-wb-ctx=1,2 --vary fs=xfs,ext4 --show user_bytes");

	cr_expect_not_null(strstr(text, "user_bytes"));
	cr_expect_not_null(strstr(text, "  1  1.00 MiB  1.00 MiB"), "%s", text);
	cr_expect_not_null(strstr(text, "  2  1.00 MiB  1.00 MiB"), "%s", text);
	free(text);
}

Test(report_virtual, compare_shows_only_what_changed)
{
	char a[] = "/tmp/iomap-a-XXXXXX";
	char b[] = "/tmp/iomap-b-XXXXXX";
	char arguments[256];
	char *text;

	close(mkstemp(a));
	close(mkstemp(b));
	snprintf(arguments, sizeof(arguments), "run %s --clock virtual --json %s", SMALL_JOB, a);
	free(output_of(arguments));
	snprintf(arguments, sizeof(arguments), "run %s --clock virtual --fs ext4 --json %s",
		 SMALL_JOB, b);
	free(output_of(arguments));
	snprintf(arguments, sizeof(arguments), "compare %s %s", a, b);
	text = output_of(arguments);
	cr_expect_not_null(strstr(text, "xfs"));
	cr_expect_not_null(strstr(text, "journal_bytes"));
	cr_expect_null(strstr(text, "user_bytes"));
	free(text);
	snprintf(arguments, sizeof(arguments), "compare %s %s", a, a);
	text = output_of(arguments);
	cr_expect_not_null(strstr(text, "the same"));
	free(text);
	unlink(a);
	unlink(b);
}

/* ---- pieces ----------------------------------------------------------------------------- */

static void make_run(struct run *run, const char *label)
{
	memset(run, 0, sizeof(*run));
	knobs_init(&run->knobs);
	knobs_force(&run->knobs, KNOB_CLOCK, "virtual");
	snprintf(run->label, sizeof(run->label), "%s", label);
}

static int sleep_for(struct run *run, const void *arg, char *err)
{
	const uint64_t *ns = arg;

	(void)err;
	env_sleep_ns(*ns);
	run->results.user_bytes = *ns;
	run->jobs = calloc(1, sizeof(*run->jobs));
	run->nr_jobs = 1;
	snprintf(run->jobs[0].name, sizeof(run->jobs[0].name), "job of %u", (unsigned int)*ns);
	return 0;
}

static int wait_for_ever(struct run *run, const void *arg, char *err)
{
	struct env_mutex lock;

	(void)run;
	(void)arg;
	(void)err;
	env_mutex_init(&lock, "lock of the test");
	env_mutex_lock(&lock);
	env_mutex_lock(&lock);
	return 0;
}

static int crash(struct run *run, const void *arg, char *err)
{
	(void)run;
	(void)arg;
	(void)err;
	signal(SIGKILL, SIG_DFL);
	raise(SIGKILL);
	return 0;
}

static int complain(struct run *run, const void *arg, char *err)
{
	(void)run;
	snprintf(err, ERR_MAX, "%s", (const char *)arg);
	return -ENOSPC;
}

Test(report_virtual, pieces_come_back_in_their_order)
{
	uint64_t ns[20];
	struct run runs[20];
	struct piece pieces[20] = {{0}};
	char err[ERR_MAX] = "";

	for (unsigned int i = 0; i < 20; i++) {
		ns[i] = 1000 * (20 - i);
		make_run(&runs[i], "x");
		pieces[i] = (struct piece){.run = &runs[i], .fn = sleep_for, .arg = &ns[i]};
	}
	cr_assert_eq(pieces_run(pieces, 20, err), 0, "%s", err);
	for (unsigned int i = 0; i < 20; i++) {
		char name[64];

		snprintf(name, sizeof(name), "job of %u", (unsigned int)ns[i]);
		cr_expect_eq(runs[i].results.user_bytes, ns[i]);
		/* What switches cost is the same in all. */
		cr_expect_eq(runs[i].results.virtual_ns - ns[i],
			     runs[0].results.virtual_ns - ns[0]);
		cr_assert_eq(runs[i].nr_jobs, 1);
		cr_expect_str_eq(runs[i].jobs[0].name, name);
		free(runs[i].jobs);
	}
}

Test(report_virtual, a_finding_of_the_simulator_is_one_line_and_no_hang)
{
	struct run run;
	struct piece piece = {.run = &run, .fn = wait_for_ever};
	char err[ERR_MAX] = "";

	make_run(&run, "seed=1");
	cr_assert_eq(pieces_run(&piece, 1, err), -EPROTO);
	cr_expect_not_null(strstr(err, "seed=1"), "%s", err);
	cr_expect_null(strchr(err, '\n'), "%s", err);
	cr_expect(strstr(err, "deadlock") || strstr(err, "misuse"), "%s", err);
}

Test(report_virtual, a_crash_of_one_run_is_one_line)
{
	uint64_t ns = 1;
	struct run runs[3];
	struct piece pieces[3] = {{0}};
	char err[ERR_MAX] = "";

	for (unsigned int i = 0; i < 3; i++) {
		make_run(&runs[i], i == 1 ? "the bad one" : "good");
		pieces[i] = (struct piece){.run = &runs[i], .fn = sleep_for, .arg = &ns};
	}
	pieces[1].fn = crash;
	cr_assert_eq(pieces_run(pieces, 3, err), -EFAULT);
	cr_expect_not_null(strstr(err, "the bad one"), "%s", err);
	cr_expect_not_null(strstr(err, "killed by signal 9"), "%s", err);
	cr_expect_eq(runs[2].results.user_bytes, 1);
	free(runs[0].jobs);
	free(runs[2].jobs);
}

Test(report_virtual, an_error_of_a_run_keeps_its_line)
{
	struct run run;
	struct piece piece = {.run = &run, .fn = complain, .arg = "no space; more would do"};
	char err[ERR_MAX] = "";

	make_run(&run, "");
	cr_assert_eq(pieces_run(&piece, 1, err), -ENOSPC);
	cr_expect_str_eq(err, "no space; more would do");
}

/* ---- published tables ------------------------------------------------------------------- */

/* A figure of the cell's argument, moved by the seed. */
static int pretend(const struct published *table, const struct cell *cell, struct run *run,
		   char *err)
{
	uint64_t seed = knob_number(&run->knobs, KNOB_SEED);
	bool own = knob_number(&run->knobs, KNOB_NR_WB_CTX) == 0;

	(void)table;
	(void)err;
	run->results.bandwidth_bytes_per_s =
		((uint64_t)cell->argument * 100 + seed) * (own ? 8 : 10);
	return 0;
}

static const struct cell pretend_cells[] = {
	{"one", 100, .argument = 1, .posted = {"nr-wb-ctx", "1"}},
	{"two", 200, .argument = 2, .posted = {"nr-wb-ctx", "2"}},
	{"three", 300, .argument = 4, .posted = {"nr-wb-ctx", "3"}, .own = true},
	{"four", 300, .argument = 3, .posted = {"nr-wb-ctx", "4"}},
};

static const struct band pretend_bands[] = {
	{"inside", .a = 1, .b = 0, .least = 1.9, .most = 2.1, .published = 2},
	{"outside", .a = 1, .b = 0, .least = 2.5, .most = 3.0},
	{"known", .a = 1, .b = 0, .least = 2.5, .most = 3.0, .documented = "we know why"},
	{"single runs outside", .a = 1, .b = 0, .least = 1.970, .most = 1.9725},
	{"open", .a = 1, .b = 0, .least = 1.5, .most = INFINITY},
	{"peak", band_peak, .a = 0, .b = 3, .least = 3, .most = 3},
	{"knee", band_knee, .a = 0, .b = 3, .least = 3, .most = 3},
	{"decline", band_decline, .a = 0, .b = 3, .least = 0.24, .most = 0.26},
	{"gain", band_peak_gain, .a = 0, .b = 3, .least = 3.8, .most = 4.0},
	{"least step", band_least_step, .a = 0, .b = 2, .least = 1.9, .most = INFINITY},
};

static const struct published pretend_table = {
	.id = "T0",
	.title = "a table of the tests",
	.where = "here",
	.system = {"fs", "ext4", "cpus", "3"},
	.posted = {"kick-all", "off"},
	.cells = pretend_cells,
	.nr_cells = 4,
	.bands = pretend_bands,
	.nr_bands = 10,
	.run = pretend,
};

static enum verdict verdict_of(const struct outcome *outcome, const char *what)
{
	for (unsigned int i = 0; i < outcome->nr_facts; i++)
		if (strncmp(outcome->facts[i].what, what, strlen(what)) == 0)
			return outcome->facts[i].verdict;
	cr_assert(false, "no fact %s", what);
	return FACT_MISS;
}

Test(report_virtual, a_published_table_is_judged_by_its_bands)
{
	struct knobs knobs;
	struct outcome outcome;
	char err[ERR_MAX];

	knobs_init(&knobs);
	outcome_init(&outcome, "T0");
	cr_assert_eq(published_run(&pretend_table, &knobs, &outcome, err), EXIT_MISS, "%s", err);
	cr_assert_eq(outcome.nr_runs, 3 * 4 + 3);
	cr_expect_eq(verdict_of(&outcome, "inside"), FACT_OK);
	cr_expect_eq(verdict_of(&outcome, "outside"), FACT_MISS);
	cr_expect_eq(verdict_of(&outcome, "known"), FACT_INFO);
	cr_expect_eq(verdict_of(&outcome, "single runs outside"), FACT_MISS);
	cr_expect_eq(verdict_of(&outcome, "open"), FACT_OK);
	cr_expect_eq(verdict_of(&outcome, "peak"), FACT_OK);
	cr_expect_eq(verdict_of(&outcome, "knee"), FACT_OK);
	cr_expect_eq(verdict_of(&outcome, "decline"), FACT_OK);
	cr_expect_eq(verdict_of(&outcome, "gain"), FACT_OK);
	cr_expect_eq(verdict_of(&outcome, "least step"), FACT_OK);
	cr_expect_eq(verdict_of(&outcome, "three: own defaults"), FACT_MISS);
	cr_expect_eq(outcome_misses(&outcome), 3);
	outcome_destroy(&outcome);
}

Test(report_virtual, own_defaults_have_the_system_but_not_the_posted_knobs)
{
	struct knobs knobs;
	struct outcome outcome;
	char err[ERR_MAX];
	const struct run *posted, *own;

	knobs_init(&knobs);
	outcome_init(&outcome, "T0");
	published_run(&pretend_table, &knobs, &outcome, err);
	posted = published_run_of(&outcome, 1, 2);
	own = published_own_run_of(&outcome, 1, 2);
	cr_expect_eq(knob_number(&posted->knobs, KNOB_NR_WB_CTX), 3);
	cr_expect_eq(knob_number(&own->knobs, KNOB_NR_WB_CTX), 0);
	cr_expect_not(knob_on(&posted->knobs, KNOB_KICK_ALL));
	cr_expect(knob_on(&own->knobs, KNOB_KICK_ALL));
	cr_expect_eq(knob_number(&own->knobs, KNOB_CPUS), 3);
	cr_expect_eq(knob_number(&own->knobs, KNOB_SEED), 2);
	cr_expect_eq(knob_number(&posted->knobs, KNOB_SEED), 2);
	outcome_destroy(&outcome);
}

Test(report_virtual, every_published_table_has_knobs_that_exist)
{
	for (unsigned int t = 0; published_tables[t]; t++) {
		const struct published *table = published_tables[t];
		struct knobs knobs;
		char err[ERR_MAX];

		knobs_init(&knobs);
		for (unsigned int i = 0; table->system[i]; i += 2)
			cr_expect_eq(knobs_set(&knobs, table->system[i], table->system[i + 1], err),
				     0, "%s: %s", table->id, err);
		for (unsigned int i = 0; table->posted[i]; i += 2)
			cr_expect_eq(knobs_set(&knobs, table->posted[i], table->posted[i + 1], err),
				     0, "%s: %s", table->id, err);
		cr_expect_not_null(published_find(table->id));
		cr_expect(table->job || table->run, "%s", table->id);
		for (unsigned int i = 0; i < table->nr_bands; i++) {
			cr_expect_lt(table->bands[i].a, table->nr_cells, "%s", table->id);
			cr_expect_lt(table->bands[i].b, table->nr_cells, "%s", table->id);
			cr_expect_leq(table->bands[i].least, table->bands[i].most, "%s", table->id);
		}
	}
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_report_cli.c - what the program says and exits with, above all when the input is wrong
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "examples/report/published.h"

#ifndef IOMAP_BUILD
#define IOMAP_BUILD "build"
#endif

#define TEXT_MAX 4096

/* Exit status of the program with these arguments; its stderr in text. */
static int status_of(const char *arguments, char *text)
{
	char command[1024];
	size_t len;
	FILE *pipe;
	int status;

	snprintf(command, sizeof(command), "%s/iomap-report %s 2>&1 >/dev/null", IOMAP_BUILD,
		 arguments);
	pipe = popen(command, "r");
	cr_assert_not_null(pipe);
	len = fread(text, 1, TEXT_MAX - 1, pipe);
	text[len] = '\0';
	status = pclose(pipe);
	cr_assert(WIFEXITED(status), "%s: killed", arguments);
	return WEXITSTATUS(status);
}

static unsigned int nr_lines(const char *text)
{
	unsigned int nr = 0;

	for (; *text; text++)
		nr += *text == '\n';
	return nr;
}

/* Refused: exit 2, and one line that has the words. */
static void refused(const char *arguments, const char *words)
{
	char text[TEXT_MAX];
	int status = status_of(arguments, text);

	cr_assert_eq(status, 2, "%s: exit %d, %s", arguments, status, text);
	cr_assert_eq(nr_lines(text), 1, "%s: %s", arguments, text);
	cr_assert_eq(strncmp(text, "iomap-report: ", 14), 0, "%s: %s", arguments, text);
	cr_assert_not_null(strstr(text, words), "%s: '%s' is not in: %s", arguments, words, text);
}

Test(report_cli, an_unknown_knob_names_the_nearest)
{
	refused("run anchor-overwrite --page-sise 4k", "did you mean --page-size?");
	refused("run anchor-overwrite --jsn -", "did you mean --json?");
}

Test(report_cli, an_unknown_workload_names_the_nearest)
{
	refused("run anchor-overwite", "did you mean 'anchor-overwrite'?");
	refused("run no-such-thing-anywhere", "list");
}

Test(report_cli, an_unknown_command_names_the_nearest)
{
	refused("rum anchor-overwrite", "did you mean 'run'?");
}

Test(report_cli, knobs_of_later_versions_are_named_as_such)
{
	refused("run anchor-overwrite --html x.html", "not available in this version");
}

Test(report_cli, what_only_a_virtual_clock_has_is_refused_with_the_real_one)
{
	refused("run anchor-overwrite --cpus 4", "add --clock virtual");
	refused("run anchor-overwrite --trace /tmp/iomap-trace-refused", "add --clock virtual");
	unlink("/tmp/iomap-trace-refused");
}

Test(report_cli, what_a_virtual_clock_cannot_have_is_refused)
{
	refused("run anchor-overwrite --clock virtual --device file:/tmp/x", "takes real time");
	refused("run anchor-overwrite --clock virtual --cpus 0", "at least 1");
	refused("run anchor-overwrite --clock virtual --cpus 100000", "at most");
	refused("run anchor-overwrite --clock virtual --trace -", "may be written");
	refused("run contexts --clock virtual --trace /tmp/iomap-trace-refused2", "takes one");
	unlink("/tmp/iomap-trace-refused2");
	refused("T14 --clock real", "virtual time");
}

Test(report_cli, a_knob_out_of_range_says_the_range)
{
	refused("run anchor-overwrite --workers-per-ctx 0", "at least 1");
	refused("run anchor-overwrite --workers-per-ctx 1000", "at most");
	refused("run anchor-overwrite --dirty-ratio 101", "at most 100");
	refused("run anchor-overwrite --max-ratio 101", "at most 100");
}

Test(report_cli, a_sweep_with_wrong_values_says_what_would_be_right)
{
	refused("sweep anchor-overwrite", "--vary");
	refused("sweep", "run what?");
	refused("sweep anchor-overwrite --vary", "--vary has no value");
	refused("sweep anchor-overwrite --vary nr-wb-ctx", "NAME=VALUES");
	refused("sweep anchor-overwrite --vary nr-wb-ctxx=1", "did you mean --nr-wb-ctx?");
	refused("sweep anchor-overwrite --vary nr-wb-ctx=5..1", "goes up");
	refused("sweep anchor-overwrite --vary nr-wb-ctx=1..5:0", "goes up");
	refused("sweep anchor-overwrite --vary nr-wb-ctx=1,,2", "a value is missing");
	refused("sweep anchor-overwrite --vary memory=1g..2g", "whole numbers");
	refused("sweep anchor-overwrite --vary fs=xfs,zfs", "there are: xfs");
	refused("sweep anchor-overwrite --vary seed=1..5000", "at most 4096");
	refused("sweep anchor-overwrite --vary seed=1..100 --vary nr-wb-ctx=1..100", "4096");
	refused("sweep anchor-overwrite --vary fs=xfs --vary fs=ext4", "varies already");
	refused("sweep anchor-overwrite --vary fs=xfs --fs ext4", "leave one of them out");
	refused("sweep anchor-overwrite --vary clock=real,virtual", "--clock");
	refused("sweep anchor-overwrite --vary fs=xfs --show datta_bytes", "'data_bytes'");
	refused("sweep T14 --vary seed=1", "run T14");
	refused("sweep knee --vary seed=1", "has its own");
	refused("run anchor-overwrite --vary fs=xfs", "belongs to");
	refused("run anchor-overwrite --csv -", "belongs to");
}

Test(report_cli, a_published_table_refuses_the_knobs_it_varies)
{
	refused("T14 --nr-wb-ctx 4", "which varies it");
	refused("run T15x", "did you mean");
}

Test(report_cli, the_report_of_published_tables_takes_little)
{
	refused("published T3", "it takes --seed");
	refused("published --fs xfs", "a report takes --seed");
	refused("published --scale 0", "--scale");
	refused("publishd", "did you mean 'published'?");
}

/* Scaled down so far that some tables cannot be what they are: those are named. */
Test(report_cli, the_report_of_published_tables_has_a_line_for_each)
{
	static char out[1 << 20];
	unsigned int nr = 0;
	const char *table;
	FILE *pipe = popen(
		IOMAP_BUILD "/iomap-report published --seed 1 --scale 1/1024 2>/dev/null", "r");

	cr_assert_not_null(pipe);
	out[fread(out, 1, sizeof(out) - 1, pipe)] = '\0';
	cr_assert_eq(WEXITSTATUS(pclose(pipe)), 1);
	table = strstr(out, "\n  table  inside");
	cr_assert_not_null(table);
	for (unsigned int i = 0; published_tables[i]; i++, nr++) {
		char line[32];

		snprintf(line, sizeof(line), "\n  %s ", published_tables[i]->id);
		table = strstr(table, line);
		cr_assert_not_null(table, "no line of %s", published_tables[i]->id);
	}
	cr_assert_gt(nr, 10);
	cr_assert_not_null(strstr(table, "\n  all "));
}

Test(report_cli, compare_names_the_file_that_is_wrong)
{
	char path[] = "/tmp/iomap-report-XXXXXX";
	char arguments[64];
	int fd = mkstemp(path);

	refused("compare", "two files");
	refused("compare /no/such/a.json /no/such/b.json", "/no/such/a.json");
	cr_assert_eq(write(fd, "{\n\"schema\": 1,\n", 16), 16);
	close(fd);
	snprintf(arguments, sizeof(arguments), "compare %s %s", path, path);
	refused(arguments, path);
	unlink(path);
}

Test(report_cli, calibrate_takes_no_other_argument)
{
	refused("calibrate fast", "takes no argument");
}

Test(report_cli, an_unknown_file_system_names_those_there_are)
{
	refused("run anchor-overwrite --fs zfs", "xfs, ext4");
}

Test(report_cli, an_impossible_size_says_what_is_possible)
{
	refused("run anchor-overwrite --page-size 5k", "power of two from 4k to 64k");
	refused("run anchor-overwrite --page-size 128k", "power of two from 4k to 64k");
	refused("run anchor-overwrite --page-size many", "a size is a number");
	refused("run anchor-overwrite --page-size -4k", "a size is a number");
	refused("run anchor-overwrite --block-size 4m", "512 to 64k");
	refused("run anchor-overwrite --block-size 3k", "512 to 64k");
	refused("run anchor-overwrite --block-size 64k --max-folio 16k", "--max-folio");
	refused("run anchor-overwrite --max-folio 4m", "page size to 2m");
	refused("run anchor-overwrite --memory 1m", "at least 2m");
	refused("run anchor-overwrite --memory 64m --scale 1/64", "at least 2m");
	refused("run anchor-overwrite --memory 99999999999t", "less than 2^62");
	refused("run anchor-overwrite --nr-wb-ctx 1000", "at most 256");
	refused("run anchor-overwrite --nr-wb-ctx 0", "auto or a number from 1");
	refused("run anchor-overwrite --scale 1/0", "1/64");
	refused("run anchor-overwrite --device-size 1m", "--device-size");
	refused("run anchor-overwrite --device-size 1000", "multiple of 512");
}

Test(report_cli, a_wrong_word_lists_the_right_ones)
{
	refused("run anchor-overwrite --warm cold", "written|readahead");
	refused("run anchor-overwrite --dirty-tracking page", "block|folio");
	refused("run anchor-overwrite --device floppy", "ram, null, file:PATH or a model: pm1733a");
	refused("run anchor-overwrite --fs-options speed=1", "speed");
	refused("run anchor-overwrite --fs ext4 --ags 4", "xfs has");
}

Test(report_cli, a_knob_of_another_workload_is_refused)
{
	refused("run page-64k --warm written", "it is a knob of anchor-overwrite");
	refused("--memory 1g", "run WORKLOAD");
}

Test(report_cli, a_missing_argument_is_named)
{
	refused("run", "run what?");
	refused("run anchor-overwrite --fs", "--fs has no value");
	refused("run anchor-overwrite --json", "--json has no value");
	refused("run anchor-overwrite page-64k", "one run has one workload");
}

Test(report_cli, a_missing_or_unwritable_file_is_named)
{
	refused("run /no/such/job.fio", "/no/such/job.fio");
	refused("run anchor-overwrite --json /no/such/dir/out.json", "/no/such/dir/out.json");
	refused("run anchor-overwrite --device file:/no/such/dir/disk --device-size 1g",
		"/no/such/dir/disk");
}

Test(report_cli, a_bad_line_of_a_job_file_is_named_with_file_and_line)
{
	char path[] = "/tmp/iomap-report-XXXXXX";
	char arguments[64];
	char where[64];
	int fd = mkstemp(path);
	FILE *file = fdopen(fd, "w");

	cr_assert_not_null(file);
	fputs("[global]\nrw=write\nsize=1m\n[job]\nbsize=4k\n", file);
	fclose(file);
	snprintf(arguments, sizeof(arguments), "run %s", path);
	snprintf(where, sizeof(where), "%s:5:", path);
	refused(arguments, where);
	unlink(path);
}

Test(report_cli, an_excerpt_with_dots_is_refused)
{
	refused("run " IOMAP_TEST_DATA "/jobs/seed-000-job_nvme.literal-excerpt.fio", "...");
}

Test(report_cli, list_and_help_exit_0)
{
	char text[TEXT_MAX];

	cr_assert_eq(status_of("list", text), 0);
	cr_assert_eq(status_of("--help", text), 0);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_fio_parse.c - how job files and command lines are read
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "examples/report/fio-options.h"
#include "examples/report/fio-parse.h"
#include "examples/report/fio-value.h"

#ifndef IOMAP_TEST_DATA
#define IOMAP_TEST_DATA "tests"
#endif

/* ---- helpers ------------------------------------------------------------- */

static struct fio_workload workload;
static char err[FIO_ERR_MAX];

static void setup(void)
{
	fio_workload_init(&workload);
}

static void teardown(void)
{
	fio_workload_destroy(&workload);
}

TestSuite(fio_parse, .init = setup, .fini = teardown);

static void parse(const char *text)
{
	cr_assert_eq(fio_parse_job_text(&workload, "t.fio", text, err, sizeof(err)), 0, "%s", err);
}

static void parse_line(const char *line)
{
	cr_assert_eq(fio_parse_line(&workload, line, err, sizeof(err)), 0, "%s", err);
}

static void refuse(const char *text, const char *message)
{
	cr_assert_neq(fio_parse_job_text(&workload, "t.fio", text, err, sizeof(err)), 0);
	cr_assert_str_eq(err, message);
}

static void refuse_line(const char *line, const char *message)
{
	cr_assert_neq(fio_parse_line(&workload, line, err, sizeof(err)), 0);
	cr_assert_str_eq(err, message);
}

static const struct fio_options *opt(unsigned int job)
{
	cr_assert_lt(job, workload.nr_jobs);
	return &workload.jobs[job].opt;
}

static bool has_note(const char *part)
{
	for (unsigned int i = 0; i < workload.nr_notes; i++)
		if (strstr(workload.notes[i], part))
			return true;
	return false;
}

static const char *data_path(const char *name)
{
	static char path[512];

	snprintf(path, sizeof(path), "%s/jobs/%s", IOMAP_TEST_DATA, name);
	return path;
}

static void load(const char *name)
{
	cr_assert_eq(fio_load(&workload, data_path(name), err, sizeof(err)), 0, "%s", err);
}

static uint64_t size_of(const char *text)
{
	uint64_t size = 12345;

	cr_assert_geq(fio_value_size(text, 1024, &size), 0);
	return size;
}

/* ---- numbers ------------------------------------------------------------- */

Test(fio_value, sizes)
{
	cr_assert_eq(size_of("4096"), 4096);
	cr_assert_eq(size_of("0x1000"), 4096);
	cr_assert_eq(size_of("4k"), 4096);
	cr_assert_eq(size_of("4K"), 4096);
	cr_assert_eq(size_of("64MB"), 64ULL << 20);
	cr_assert_eq(size_of("2t"), 2ULL << 40);
	cr_assert_eq(size_of("1B"), 1);
}

Test(fio_value, iec_names_are_decimal_with_a_b_only)
{
	cr_assert_eq(size_of("8kiB"), 8000);
	cr_assert_eq(size_of("1GiB"), 1000000000);
	cr_assert_eq(size_of("64Ki"), 65536);
	cr_assert_eq(size_of("1mi"), 1048576);
}

Test(fio_value, kb_base_turns_units_round)
{
	uint64_t size;

	cr_assert_eq(fio_value_size("4k", 1000, &size), 0);
	cr_assert_eq(size, 4000);
	cr_assert_eq(fio_value_size("4KiB", 1000, &size), 0);
	cr_assert_eq(size, 4096);
}

Test(fio_value, fractions_are_cut)
{
	uint64_t size;

	cr_assert_eq(fio_value_size("1.5m", 1024, &size), FIO_VALUE_CUT);
	cr_assert_eq(size, 1);
	cr_assert_eq(fio_value_size("1e6", 1024, &size), FIO_VALUE_CUT);
	cr_assert_eq(size, 1);
}

Test(fio_value, words_are_not_numbers)
{
	uint64_t size;

	cr_assert_eq(fio_value_size("four", 1024, &size), -EINVAL);
	cr_assert_eq(fio_value_size("4q", 1024, &size), -EINVAL);
	cr_assert_eq(fio_value_size("", 1024, &size), -EINVAL);
	cr_assert_eq(fio_value_size("-4", 1024, &size), -EINVAL);
	cr_assert_eq(fio_value_size("99999999999999999999", 1024, &size), -EINVAL);
	cr_assert_eq(fio_value_size("99999999999t", 1024, &size), -EINVAL);
}

Test(fio_value, times)
{
	uint64_t ns;

	cr_assert_eq(fio_value_time("3", 1000000000, &ns), 0);
	cr_assert_eq(ns, 3000000000);
	cr_assert_eq(fio_value_time("2m", 1000000000, &ns), 0);
	cr_assert_eq(ns, 120000000000);
	cr_assert_eq(fio_value_time("1ms", 1000, &ns), 0);
	cr_assert_eq(ns, 1000000);
	cr_assert_eq(fio_value_time("7us", 1000000000, &ns), 0);
	cr_assert_eq(ns, 7000);
	cr_assert_eq(fio_value_time("1d", 1, &ns), 0);
	cr_assert_eq(ns, 86400000000000);
	cr_assert_eq(fio_value_time("1w", 1, &ns), -EINVAL);
}

Test(fio_value, expressions)
{
	uint64_t value;

	cr_assert_eq(fio_value_expression("5*1024*1024*100/8", 1024, &value), 0);
	cr_assert_eq(value, 65536000);
	cr_assert_eq(size_of("(4*16k)"), 65536);
	cr_assert_eq(size_of("(2^10 + 3*(7-4))"), 1033);
	cr_assert_eq(size_of("(17%5)"), 2);
	cr_assert_eq(fio_value_expression("1/0", 1024, &value), -EINVAL);
	cr_assert_eq(fio_value_expression("1-2", 1024, &value), -EINVAL);
	cr_assert_eq(fio_value_expression("2^63*2^63", 1024, &value), -EINVAL);
	cr_assert_eq(fio_value_expression("(4", 1024, &value), -EINVAL);
}

/* ---- job files ----------------------------------------------------------- */

Test(fio_parse, defaults)
{
	parse("[j]\nsize=1m\n");
	cr_assert(opt(0)->reads && !opt(0)->writes);
	cr_assert_eq(opt(0)->bs[FIO_READ].min, 4096);
	cr_assert_eq(opt(0)->fallocate, FIO_FALLOCATE_ALLOCATE);
	cr_assert(opt(0)->invalidate && opt(0)->randrepeat && opt(0)->overwrite);
	cr_assert_str_eq(opt(0)->ioengine, "psync");
}

Test(fio_parse, comments_blanks_and_line_ends)
{
	parse("; a\n  # b\n\n[j]\r\n\tsize=64k\t; tail\r\nnumjobs=3   # text\nrw=write");
	cr_assert_eq(opt(0)->size.value, 65536);
	cr_assert_eq(opt(0)->numjobs, 3);
	cr_assert(opt(0)->writes);
}

Test(fio_parse, a_comment_sign_cuts_the_value)
{
	parse("[j]\nsize=4k;8k\n");
	cr_assert_eq(opt(0)->size.value, 4096);
}

Test(fio_parse, names_may_have_blanks)
{
	parse("[a job]\nsize=4k\n");
	cr_assert_str_eq(workload.jobs[0].name, "a job");
}

Test(fio_parse, globals_hold_for_the_jobs_below)
{
	parse("[a]\nsize=4k\n[global]\nbs=8k\nsize=8k\n[b]\n[globalx]\nbs=16k\nsize=16k\n[c]\n");
	cr_assert_eq(workload.nr_jobs, 3);
	cr_assert_eq(opt(0)->bs[FIO_READ].min, 4096);
	cr_assert_eq(opt(1)->bs[FIO_READ].min, 8192);
	cr_assert_eq(opt(2)->size.value, 16384);
}

Test(fio_parse, the_later_of_two_settings_wins)
{
	parse("[j]\nsize=4k\nsize=8k\noverwrite=1\noverwrite=0\nrw=write\n");
	cr_assert_eq(opt(0)->size.value, 8192);
	cr_assert_not(opt(0)->overwrite);
}

Test(fio_parse, kb_base_is_read_first)
{
	parse("[j]\nsize=4k\nkb_base=1000\nbs=1k\n");
	cr_assert_eq(opt(0)->size.value, 4000);
}

Test(fio_parse, flags_may_stand_alone)
{
	parse("[global]\nsize=4k\n[j]\nnorandommap\nstonewall\n[k]\nnorandommap=0\ntime_based=1\n"
	      "runtime=1\n");
	cr_assert(opt(0)->norandommap && opt(0)->stonewall);
	cr_assert(!opt(1)->norandommap && opt(1)->time_based);
}

Test(fio_parse, a_true_or_false_option_needs_a_value)
{
	refuse("[j]\nsize=4k\ndirect\n", "t.fio:3: job 'j': direct: needs a value; use direct=...");
}

Test(fio_parse, true_or_false_is_0_or_1)
{
	refuse("[j]\nend_fsync=2\n", "t.fio:2: job 'j': end_fsync: '2' is neither 0 nor 1");
}

Test(fio_parse, a_setting_before_the_first_section_is_an_error)
{
	refuse("size=4k\n[j]\n", "t.fio:1: 'size=4k' stands before the first [section]; start with "
				 "[global] or [NAME]");
}

Test(fio_parse, globals_alone_are_an_error)
{
	refuse("[global]\nsize=4k\n", "t.fio: no job in it; add a [NAME] section below [global]");
}

Test(fio_parse, an_unknown_option_names_the_nearest)
{
	refuse("[j]\nrwmixraed=3\n",
	       "t.fio:2: job 'j': rwmixraed: fio has no such option; did you mean 'rwmixread'?");
}

Test(fio_parse, names_are_case_sensitive)
{
	refuse("[j]\nIOENGINE=psync\n",
	       "t.fio:2: job 'j': IOENGINE: fio has no such option; did you mean 'ioengine'?");
}

Test(fio_parse, words_are_case_sensitive)
{
	refuse("[j]\nrw=Write\n",
	       "t.fio:2: job 'j': rw: 'Write' is not one of its values; use one of read write "
	       "randread randwrite rw readwrite randrw trim randtrim trimwrite randtrimwrite");
}

Test(fio_parse, blanks_round_the_equals_sign_are_dropped_with_a_note)
{
	parse("[j]\nrw = write\nsize= 64k\nbs =8k\n");
	cr_assert(opt(0)->writes);
	cr_assert_eq(opt(0)->size.value, 65536);
	cr_assert_eq(opt(0)->bs[FIO_WRITE].min, 8192);
	cr_assert(has_note("t.fio:3: the blank behind '='"));
}

Test(fio_parse, variables_are_replaced)
{
	setenv("FIO_TEST_SIZE", "1", 1);
	parse("[j]\nsize=${FIO_TEST_SIZE}Gi\ndirectory=/a/${FIO_TEST_SIZE}\n");
	cr_assert_eq(opt(0)->size.value, 1 << 30);
	cr_assert_str_eq(workload.jobs[0].directories[0], "/a/1");
}

Test(fio_parse, a_variable_that_is_not_set_leaves_nothing)
{
	unsetenv("FIO_TEST_UNSET");
	refuse("[j]\nsize=${FIO_TEST_UNSET}\n",
	       "t.fio:2: job 'j': size: the value is empty; use size=..., and check that the "
	       "variables in it are set");
}

Test(fio_parse, keywords_are_calculated)
{
	parse("[j]\nsize=4*$pagesize\nnumjobs=$ncpus\nfilesize=10*1000*$mb_memory/7\n");
	cr_assert_eq(opt(0)->size.value, 4 * (uint64_t)sysconf(_SC_PAGESIZE));
	cr_assert_geq(opt(0)->numjobs, 1);
	cr_assert_gt(opt(0)->filesize.max, 1000);
}

Test(fio_parse, a_value_that_is_cut_is_noted)
{
	parse("[j]\nsize=4m\nnumjobs=1.5m\n");
	cr_assert_eq(opt(0)->numjobs, 1);
	cr_assert(has_note("'1.5m' is read as 1"));
}

Test(fio_parse, one_value_serves_all_directions)
{
	parse("[global]\nsize=1m\n[a]\nbs=8k\n[b]\nbs=8k,16k\n[c]\nbs=,8k\n[d]\nbs=8k,\n");
	cr_assert_eq(opt(0)->bs[FIO_WRITE].min, 8192);
	cr_assert_eq(opt(1)->bs[FIO_READ].min, 8192);
	cr_assert_eq(opt(1)->bs[FIO_WRITE].min, 16384);
	cr_assert_eq(opt(2)->bs[FIO_READ].min, 4096);
	cr_assert_eq(opt(2)->bs[FIO_WRITE].min, 8192);
	cr_assert_eq(opt(3)->bs[FIO_READ].min, 8192);
	cr_assert_eq(opt(3)->bs[FIO_WRITE].min, 4096);
}

Test(fio_parse, ranges_may_be_reversed)
{
	parse("[j]\nsize=1m\nbsrange=16k:4k\nfilesize=2k-512k\n");
	cr_assert_eq(opt(0)->bs[FIO_READ].min, 4096);
	cr_assert_eq(opt(0)->bs[FIO_READ].max, 16384);
	cr_assert_eq(opt(0)->filesize.max, 512 << 10);
}

Test(fio_parse, open_percentages_share_the_rest)
{
	parse("[j]\nsize=1m\nrw=randwrite\nbssplit=4k/50:64k/30:1m/:2m/\n");
	cr_assert_eq(opt(0)->nr_bssplit[FIO_WRITE], 4);
	cr_assert_eq(opt(0)->bssplit[FIO_WRITE][3].percent, 10);
	cr_assert_eq(opt(0)->bs[FIO_WRITE].max, 2 << 20);
}

Test(fio_parse, percentages_must_add_up)
{
	refuse("[j]\nbssplit=4k/50:8k/60\n",
	       "t.fio:2: job 'j': bssplit: the percentages add up to 110; use 100");
}

Test(fio_parse, modifiers_of_rw)
{
	parse("[global]\nsize=1m\n[a]\nrw=write:4k\n[b]\nrw=read:-8k\n[c]\nrw=randwrite:4\n");
	cr_assert_eq(opt(0)->seq_hole, 4096);
	cr_assert_eq(opt(1)->seq_hole, -8192);
	cr_assert_eq(opt(2)->rand_run, 4);
}

Test(fio_parse, times_have_their_own_units)
{
	parse("[j]\nsize=1m\nruntime=2m\nthinktime=1ms\nstartdelay=1-3\nramp_time=10\n");
	cr_assert_eq(opt(0)->runtime, 120000000000);
	cr_assert_eq(opt(0)->thinktime, 1000000);
	cr_assert_eq(opt(0)->startdelay.max, 3000000000);
	cr_assert_eq(opt(0)->ramp_time, 10000000000);
}

Test(fio_parse, colons_part_names_unless_escaped)
{
	parse("[j]\nsize=1m\nfilename=a:b\\:c:d\n");
	cr_assert_eq(opt(0)->nrfiles, 3);
	cr_assert_str_eq(workload.jobs[0].filenames[1], "b:c");
}

Test(fio_parse, size_below_a_block_is_an_error)
{
	refuse("[j]\nsize=4k\nbs=8k\n",
	       "t.fio:1: job 'j': size=4096 is less than a block of 8192 bytes");
}

Test(fio_parse, percent_sizes)
{
	parse("[j]\nsize=50%\n[k]\nsize=100%\n");
	cr_assert(opt(0)->size.is_percent);
	cr_assert_eq(opt(0)->size.value, 50);
}

Test(fio_parse, time_based_without_runtime_has_no_effect)
{
	parse("[j]\nsize=4k\ntime_based\n");
	cr_assert_not(opt(0)->time_based);
	cr_assert(has_note("time_based without runtime"));
}

Test(fio_parse, loops_0_is_1)
{
	parse("[j]\nsize=4k\nloops=0\n");
	cr_assert_eq(opt(0)->loops, 1);
}

Test(fio_parse, the_later_share_of_a_mix_rules)
{
	parse("[j]\nsize=4k\nrwmixread=67\nrwmixwrite=30\n");
	cr_assert_eq(opt(0)->rwmixread, 70);
}

Test(fio_parse, pre_read_clears_invalidate)
{
	parse("[j]\nsize=4k\npre_read=1\n");
	cr_assert_not(opt(0)->invalidate);
}

Test(fio_parse, another_alignment_switches_the_map_off)
{
	parse("[j]\nsize=1m\nrw=randwrite\nba=1k\n");
	cr_assert(opt(0)->norandommap);
	cr_assert(has_note("blockalign switches the random map off"));
}

Test(fio_parse, ignored_options_are_noted_once)
{
	parse("[j]\nsize=4k\ngroup_reporting\ndir=./\nthreads=1\nmem=shm\ngroup_reporting=1\n");
	cr_assert_eq(workload.nr_notes, 1);
	cr_assert_str_eq(workload.notes[0], "read and ignored: group_reporting dir threads mem");
}

Test(fio_parse, engines_without_file_data_are_refused)
{
	refuse("[j]\nioengine=net\n",
	       "t.fio:2: job 'j': ioengine: 'net' is not modelled: it does no I/O to the data of "
	       "files; use psync, sync, vsync, pvsync, pvsync2, libaio, io_uring or posixaio");
}

Test(fio_parse, devices_are_refused)
{
	refuse("[j]\nsize=4k\nfilename=/dev/nvme0n1\n",
	       "t.fio:1: job 'j': filename: /dev/nvme0n1 is a device, which is not modelled; use "
	       "a file");
}

Test(fio_parse, what_would_change_the_result_is_refused)
{
	refuse("[j]\nsteadystate=iops:1%\n",
	       "t.fio:2: job 'j': steadystate: is not modelled; use runtime=");
}

Test(fio_parse, trim_is_refused)
{
	refuse("[j]\nrw=randtrim\n",
	       "t.fio:2: job 'j': rw: randtrim is not modelled: trim is for devices; use read, "
	       "write, randread, randwrite, rw or randrw");
}

Test(fio_parse, wait_for_needs_an_earlier_job)
{
	refuse("[j]\nsize=4k\nwait_for=k\n[k]\n",
	       "t.fio:1: job 'j': wait_for: no job 'k' above; name an earlier section");
}

Test(fio_parse, rate_and_rate_iops_exclude_each_other)
{
	refuse("[j]\nsize=4k\nrate=1m\nrate_iops=10\n",
	       "t.fio:1: job 'j': rate and rate_iops exclude each other");
}

Test(fio_parse, an_error_in_globals_names_them)
{
	refuse("[global]\nbs=x\n[j]\n",
	       "t.fio:2: [global]: bs: 'x' is not a number; use digits with k, m, g or t");
}

/* Every option that is modelled, ignored or refused has exactly one row. */
Test(fio_parse, the_table_has_no_name_twice)
{
	const struct fio_option *option;

	for (unsigned int i = 0; (option = fio_option_at(i)) != NULL; i++)
		cr_assert_eq(fio_option_find(option->name), option, "%s", option->name);
}

Test(fio_parse, an_include_is_read_beside_the_job_file)
{
	char dir[] = "/tmp/fio-include-XXXXXX";
	char path[128];
	FILE *stream;

	cr_assert_not_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/inc", dir);
	stream = fopen(path, "w");
	fputs("bs=8k ; eight\nnrfiles=3\n", stream);
	fclose(stream);
	snprintf(path, sizeof(path), "%s/job.fio", dir);
	stream = fopen(path, "w");
	fputs("[j]\nsize=1m\ninclude inc\nnrfiles=2\n", stream);
	fclose(stream);
	cr_expect_eq(fio_load(&workload, path, err, sizeof(err)), 0, "%s", err);
	cr_expect_eq(opt(0)->bs[FIO_READ].min, 8192);
	cr_expect_eq(opt(0)->nrfiles, 2);
	remove(path);
	snprintf(path, sizeof(path), "%s/inc", dir);
	remove(path);
	rmdir(dir);
}

Test(fio_parse, an_include_that_is_missing_is_an_error)
{
	refuse("[j]\ninclude no-such-file\n",
	       "t.fio:2: include: cannot read no-such-file: No such file or directory");
}

/* ---- command lines ------------------------------------------------------- */

Test(fio_parse, dashes_blanks_and_equals_are_all_the_same)
{
	parse_line("fio -name x -rw=write --bs 8k -size=64k --iodepth 1");
	cr_assert_str_eq(workload.jobs[0].name, "x");
	cr_assert(opt(0)->writes);
	cr_assert_eq(opt(0)->bs[FIO_WRITE].min, 8192);
}

Test(fio_parse, unique_abbreviations_are_options)
{
	parse_line("fio --name=x --size=64k -group_reportin --numjo=2");
	cr_assert_eq(opt(0)->numjobs, 2);
}

Test(fio_parse, options_before_the_first_name_are_defaults)
{
	parse_line("fio -rw=randrw --size=8g --name=job1 --name=job2 --runtime=300s");
	cr_assert_eq(workload.nr_jobs, 2);
	cr_assert(opt(0)->random && opt(1)->random);
	cr_assert_eq(opt(0)->runtime, 0);
	cr_assert_eq(opt(1)->runtime, 300000000000);
}

Test(fio_parse, a_global_name_starts_defaults)
{
	parse_line("fio --name=global --size=8k --name=a --name=b --size=4k");
	cr_assert_eq(workload.nr_jobs, 2);
	cr_assert_eq(opt(0)->size.value, 8192);
	cr_assert_eq(opt(1)->size.value, 4096);
}

Test(fio_parse, quotes_are_read_as_a_shell_does)
{
	parse_line("fio --name='a b' --size=4k --filename_format='F.$jobnum' --directory=\"x y\"");
	cr_assert_str_eq(workload.jobs[0].name, "a b");
	cr_assert_str_eq(opt(0)->filename_format, "F.$jobnum");
	cr_assert_str_eq(workload.jobs[0].directories[0], "x y");
}

Test(fio_parse, a_bad_value_on_the_command_line_names_its_option)
{
	refuse_line("fio --name=j --rw=wrte",
		    "command line: --rw: job 'j': 'wrte' is not one of its values; use one of read "
		    "write randread randwrite rw readwrite randrw trim randtrim trimwrite "
		    "randtrimwrite");
}

Test(fio_parse, an_unknown_option_on_the_command_line_names_the_nearest)
{
	refuse_line("fio --name=j --fsnc=1",
		    "command line: --fsnc: fio has no such option; did you mean '--fsync'?");
}

Test(fio_parse, a_command_line_without_a_job_is_an_error)
{
	refuse_line("fio --size=4k", "command line: no job; use --name=NAME or a job file");
}

Test(fio_parse, client_and_server_are_refused)
{
	refuse_line("fio --client=host job.fio",
		    "command line: --client: is not for running jobs; leave it out");
}

Test(fio_parse, several_job_files_have_a_stonewall_between)
{
	char line[1200];
	char file[512];

	snprintf(file, sizeof(file), "%s", data_path("xfstests-xfs-641.fio"));
	setenv("SCRATCH_MNT", "/mnt/t", 1);
	snprintf(line, sizeof(line), "fio %s --output=x %s", file, file);
	parse_line(line);
	cr_assert_eq(workload.nr_jobs, 4);
	cr_assert_not(opt(1)->stonewall);
	cr_assert(opt(2)->stonewall);
}

Test(fio_parse, section_takes_only_what_it_names)
{
	char line[600];

	snprintf(line, sizeof(line), "fio --section=job3 --section=job5 %s",
		 data_path("seed-000-job_nvme.fio"));
	parse_line(line);
	cr_assert_eq(workload.nr_jobs, 2);
	cr_assert_str_eq(workload.jobs[1].name, "job5");
}

Test(fio_parse, dd_is_a_sequential_write)
{
	parse_line("dd if=/dev/zero of=/mnt/f bs=1M count=3 conv=fsync oflag=dsync");
	cr_assert_eq(opt(0)->size.value, 3 << 20);
	cr_assert_eq(opt(0)->bs[FIO_WRITE].min, 1 << 20);
	cr_assert(opt(0)->end_fsync && opt(0)->truncate_on_open && !opt(0)->invalidate);
	cr_assert_eq(opt(0)->sync, FIO_SYNC_DSYNC);
	cr_assert_str_eq(workload.jobs[0].filenames[0], "/mnt/f");
}

Test(fio_parse, dd_has_its_own_units)
{
	parse_line("dd if=/dev/zero of=f bs=4kB count=1; dd if=/dev/zero of=f bs=4KiB count=1");
	cr_assert_eq(opt(0)->size.value, 4000);
	cr_assert_eq(opt(1)->size.value, 4096);
}

Test(fio_parse, dd_without_a_count_is_an_error)
{
	refuse_line("dd if=/dev/zero of=f bs=4k", "command line: dd: use bs=N and count=N");
}

Test(fio_parse, preparation_is_skipped_with_a_note)
{
	parse_line(
		"mkfs.xfs -f /dev/x && mount /dev/x /mnt; sync; echo 3 > /proc/sys/vm/drop_caches;"
		"fio --name=j --size=4k");
	cr_assert_eq(workload.nr_jobs, 1);
	cr_assert_eq(workload.nr_runs, 1);
	cr_assert(has_note("mkfs.xfs: prepared by the program itself"));
}

Test(fio_parse, other_commands_are_an_error)
{
	refuse_line("bonnie --size=1", "command line: bonnie: not a command that is known; use fio "
				       "or dd");
}

Test(fio_parse, an_open_quote_is_an_error)
{
	refuse_line("fio --name='x", "command line: a quote is not closed");
}

Test(fio_parse, what_looks_like_a_command)
{
	cr_assert(fio_line_is_command("fio --name=x"));
	cr_assert(fio_line_is_command(" dd if=/dev/zero"));
	cr_assert_not(fio_line_is_command("fiox"));
	cr_assert_not(fio_line_is_command("job.fio"));
}

/* ---- files of commands --------------------------------------------------- */

Test(fio_parse, a_cmd_file_joins_lines_and_counts_them)
{
	char path[] = "/tmp/fio-cmd-XXXXXX.cmd";
	char message[128];
	int fd = mkstemps(path, 4);
	FILE *stream = fdopen(fd, "w");

	fputs("# first\nfio --name=a \\\n  --size=4k\n\nfio --name=b --size=x\n", stream);
	fclose(stream);
	cr_expect_neq(fio_load(&workload, path, err, sizeof(err)), 0);
	remove(path);
	snprintf(message, sizeof(message),
		 "%s:5: --size: job 'b': 'x' is not a number; use digits "
		 "with k, m, g or t",
		 path);
	cr_assert_str_eq(err, message);
	cr_assert_eq(opt(0)->size.value, 4096);
}

Test(fio_parse, a_job_file_is_found_by_the_end_of_its_name)
{
	load("seed-000-run.cmd");
	cr_assert_eq(workload.nr_jobs, 12);
	cr_assert(has_note("seed-000-job_nvme.fio is taken for the job file job_nvme.fio"));
}

Test(fio_parse, each_command_is_a_run_of_its_own)
{
	load("seed-004-sizes.cmd");
	cr_assert_eq(workload.nr_runs, 6);
	cr_assert_eq(workload.jobs[5].run, 5);
	cr_assert_eq(opt(5)->size.value, 16ULL << 30);
}

/* ---- published files ----------------------------------------------------- */

Test(fio_parse, seed_000_is_read_as_written)
{
	load("seed-000-job_nvme.fio");
	cr_assert_eq(workload.nr_jobs, 12);
	for (unsigned int i = 0; i < 12; i++) {
		cr_assert_eq(opt(i)->nrfiles, 12);
		cr_assert_eq(opt(i)->size.value, 1 << 30);
		cr_assert(opt(i)->create_on_open && opt(i)->random && opt(i)->writes);
		cr_assert_str_eq(opt(i)->ioengine, "io_uring");
	}
	cr_assert_str_eq(workload.jobs[11].directories[0], "/mnt/dir1");
}

Test(fio_parse, lines_that_were_left_out_are_an_error)
{
	char message[700];

	snprintf(message, sizeof(message),
		 "%s:19: job 'job2': ...: stands for lines that were left "
		 "out; write all jobs out",
		 data_path("seed-000-job_nvme.literal-excerpt.fio"));
	cr_assert_neq(fio_load(&workload, data_path("seed-000-job_nvme.literal-excerpt.fio"), err,
			       sizeof(err)),
		      0);
	cr_assert_str_eq(err, message);
}

Test(fio_parse, seed_002_has_one_dash)
{
	load("seed-002.cmd");
	cr_assert_eq(opt(0)->runtime, 60000000000);
	cr_assert(opt(0)->time_based);
	cr_assert_eq(opt(0)->numjobs, 8);
	cr_assert_eq(opt(0)->size.value, 450 << 20);
	cr_assert(has_note("iodepth=1024"));
	cr_assert(has_note("read and ignored: eta-interval eta-newline group_reporting"));
}

Test(fio_parse, the_preparation_of_seed_003_is_skipped)
{
	load("seed-003-prep.cmd");
	cr_assert_eq(workload.nr_jobs, 0);
	cr_assert_eq(workload.nr_notes, 2);
}

Test(fio_parse, published_files_are_accepted)
{
	static const char *const names[] = {
		"kernel-iomap-4ce02c67-test_randwrite.fio",
		"kernel-btrfs-bssplit-writers.fio",
		"kernel-xfs-shared-lock-randrw.fio",
		"fio-examples-waitfor.fio",
		"fio-examples-exitwhat.fio",
		"fio-examples-tiobench-example.fio",
		"fio-t-jobs-t0007-37cf9e3c.fio",
		"fio-t-jobs-t0029.fio",
		"xfstests-generic-751.fio",
		"xfstests-xfs-641.fio",
		"mmtests-randread-sync-heavywrite.fio",
		"xfs-iomap-dirty-tracking-rfc-v4.cmd",
		"f2fs-sustain.cmd",
		"iomap-ifs-uptodate-randrw.cmd",
		"seed-003.cmd",
		"seed-004-prep.cmd",
	};

	setenv("MNT", "/mnt/t", 1);
	setenv("SCRATCH_MNT", "/mnt/t", 1);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		fio_workload_destroy(&workload);
		fio_workload_init(&workload);
		load(names[i]);
		cr_assert_gt(workload.nr_jobs, 0, "%s", names[i]);
	}
}

Test(fio_parse, published_files_beyond_the_model_are_refused)
{
	static const char *const refused[][2] = {
		{"fio-examples-rbd.fio", "ioengine: 'rbd' is not modelled"},
		{"fio-examples-falloc.fio", "ioengine: 'falloc' is not modelled"},
		{"fio-examples-cross-stripe-verify.fio", "/dev/nvme0n1 is a device"},
		{"avocado-fio-simple.fio", "job 'file3': ioengine: 'mmap' is not modelled"},
	};

	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		fio_workload_destroy(&workload);
		fio_workload_init(&workload);
		cr_assert_neq(fio_load(&workload, data_path(refused[i][0]), err, sizeof(err)), 0);
		cr_assert(strstr(err, refused[i][1]), "%s", err);
		cr_assert_null(strchr(err, '\n'));
	}
}

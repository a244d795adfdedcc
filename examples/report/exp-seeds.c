/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * exp-seeds.c - the jobs of published messages, as they were posted, run with --scale 1/64
 *
 * What they measured depends on their machines, devices and CPUs; beside our figures theirs are
 * shown, not judged.  Judged is what must hold anywhere: bytes written, folio sizes, and the
 * amplification that follows from them.
 */
#include "experiments.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs.h"
#include "table.h"
#include "rig.h"

/* ---- the jobs --------------------------------------------------------------------------- */

#define DIRECTORY_JOB(n) "[job" #n "]\ndirectory=/mnt/dir" #n "\n\n"

static const char job_000[] =
	"[global]\n"
	"bs=4k\n"
	"iodepth=1\n"
	"rw=randwrite\n"
	"ioengine=io_uring\n"
	"nrfiles=12\n"
	"numjobs=1                # Each job writes to a different file\n"
	"size=1g\n"
	"direct=0                 # Buffered I/O to trigger writeback\n"
	"group_reporting=1\n"
	"create_on_open=1\n"
	"name=test\n"
	"\n" DIRECTORY_JOB(1) DIRECTORY_JOB(2) DIRECTORY_JOB(3) DIRECTORY_JOB(4) DIRECTORY_JOB(5)
		DIRECTORY_JOB(6) DIRECTORY_JOB(7) DIRECTORY_JOB(8) DIRECTORY_JOB(9)
			DIRECTORY_JOB(10) DIRECTORY_JOB(11) DIRECTORY_JOB(12);

static const char job_002[] =
	"fio --directory=/mnt --name=test --bs=4k --iodepth=1024 --rw=randwrite "
	"--ioengine=io_uring --time_based=1 -runtime=60 --numjobs=8 --size=450M --direct=0 "
	"--eta-interval=1 --eta-newline=1 --group_reporting";

static const char job_003[] =
	"fio --name=bcachefs --filename=/mnt/test  --size=100G --ioengine=io_uring --iodepth=16 "
	"--rw=write --bs=128k";

/* Both with the size of the file, in MiB. */
static const char prepare_004[] = "dd if=/dev/zero of=/mnt/testfile bs=1M count=%llu";
static const char job_004[] = "fio --ioengine=sync --rw=randwrite --iodepth=64 --size=%lluM "
			      "--name=test --filename=/mnt/testfile --bs=4k";

/* ---- running one ------------------------------------------------------------------------ */

/* A job file if it begins with a section, else a command. */
static int parse(struct fio_workload *workload, const char *job, char *err)
{
	fio_workload_init(workload);
	if (job[0] == '[')
		return fio_parse_job_text(workload, "job", job, err, ERR_MAX);
	return fio_parse_line(workload, job, err, ERR_MAX);
}

static int first_job_error(const struct run *run, char *err)
{
	for (unsigned int i = 0; i < run->nr_jobs; i++) {
		if (run->jobs[i].error[0]) {
			snprintf(err, ERR_MAX, "%s", run->jobs[i].error);
			return -EIO;
		}
	}
	return 0;
}

static int measure_job(const char *job, struct rig *rig, struct run *run, char *err)
{
	struct fio_workload workload;
	int error = parse(&workload, job, err);

	if (!error)
		error = jobs_measure(&workload, rig, run, err);
	if (!error)
		error = first_job_error(run, err);
	fio_workload_destroy(&workload);
	return error;
}

static int run_job(const char *job, struct run *run, char *err)
{
	struct rig rig = {.knobs = &run->knobs};
	int error = rig_open(&rig, err);

	if (error)
		return error;
	error = measure_job(job, &rig, run, err);
	rig_close(&rig);
	return error;
}

static uint64_t prescribed_bytes(const struct run *run, const char *job)
{
	struct fio_scale scale = jobs_scale(&run->knobs);
	struct fio_workload workload;
	struct fio_span bytes = {0, 0};
	char err[ERR_MAX];

	if (parse(&workload, job, err) == 0)
		bytes = fio_workload_expected_bytes(&workload, &scale);
	fio_workload_destroy(&workload);
	return bytes.max;
}

static void note_scale(struct outcome *outcome)
{
	const struct knobs *knobs = &outcome->runs[0].knobs;

	note(outcome,
	     "Sizes, memory and the time of time_based jobs are those published times %s; %s.",
	     knob_text(knobs, KNOB_SCALE),
	     knobs_virtual(knobs)
		     ? "rates are by a virtual clock"
		     : "rates are in real time on this machine, over a device without latency");
}

static const char *rate_and_gain(const struct run *run, const struct run *base)
{
	double gain = (double)run->results.bandwidth_bytes_per_s /
		      (double)base->results.bandwidth_bytes_per_s;

	return text("%s, %.2f x", human_rate(run->results.bandwidth_bytes_per_s), gain);
}

/* ---- 000: the context sweep ------------------------------------------------------------- */

static const char *const counts_000[] = {"1", "2", "4", "6", "8", "12", NULL};

static const struct {
	unsigned int nr;
	const char *rate;
} published_000[] = {
	{1, "9.5 MiB/s, 1.00 x"},  {2, "18.1 MiB/s, 1.91 x"}, {3, "46.4 MiB/s, 4.88 x"},
	{4, "135 MiB/s, 14.2 x"},  {5, "160 MiB/s, 16.8 x"},  {6, "163 MiB/s, 17.2 x"},
	{7, "162 MiB/s, 17.1 x"},  {8, "154 MiB/s, 16.2 x"},  {9, "152 MiB/s, 16.0 x"},
	{10, "145 MiB/s, 15.3 x"}, {11, "145 MiB/s, 15.3 x"}, {12, "138 MiB/s, 14.5 x"},
};

static void defaults_000(struct knobs *knobs)
{
	knobs_default(knobs, KNOB_SCALE, "1/64");
	knobs_default(knobs, KNOB_MEMORY, "9g");
	knobs_default(knobs, KNOB_WB_MAP, "ino-mod");
}

static int run_000(struct run *run, char *err)
{
	return run_job(job_000, run, err);
}

static uint64_t expected_000(const struct run *run)
{
	return prescribed_bytes(run, job_000);
}

static void judge_000(struct outcome *outcome)
{
	fact_exact_all(outcome, "user_bytes", run_user_bytes, expected_000, "fio's arithmetic");
	for (unsigned int i = 0; i < outcome->nr_runs; i++) {
		const struct run *run = &outcome->runs[i];

		for (size_t j = 0; j < sizeof(published_000) / sizeof(published_000[0]); j++)
			if (published_000[j].nr == run->results.nr_wb_ctx)
				fact_info(outcome, text("%u contexts: rate", published_000[j].nr),
					  rate_and_gain(run, outcome->runs), published_000[j].rate,
					  "XFS, 12 CPUs (T1)");
	}
	note_scale(outcome);
}

const struct experiment exp_seed_000 = {
	.name = "seed-000",
	.text = "the published context sweep: 12 jobs, 12 files each, 4 KiB random writes (T1)",
	.vary = {{KNOB_NR_WB_CTX, counts_000}},
	.defaults = defaults_000,
	.run = run_000,
	.judge = judge_000,
};

/* ---- 002: overwriting for a minute ------------------------------------------------------ */

static const char *const counts_002[] = {"1", "8", NULL};

static void defaults_002(struct knobs *knobs)
{
	knobs_default(knobs, KNOB_SCALE, "1/64");
	knobs_default(knobs, KNOB_MEMORY, "11g");
}

static int run_002(struct run *run, char *err)
{
	return run_job(job_002, run, err);
}

static void judge_002(struct outcome *outcome)
{
	for (unsigned int i = 0; i < outcome->nr_runs; i++) {
		const struct run *run = &outcome->runs[i];
		bool one = run->results.nr_wb_ctx == 1;

		fact_info(outcome, text("%u contexts: rate", run->results.nr_wb_ctx),
			  rate_and_gain(run, outcome->runs),
			  one ? "973 MiB/s, 1.00 x" : "1237 MiB/s, 1.27 x",
			  "F2FS on a phone, 8 CPUs (T5)");
		fact_within(outcome, run, "cache_amplification", run->results.cache_amplification,
			    0.99, 1.01, SOURCE_PROJECT);
	}
	note(outcome,
	     "Published on F2FS, which is not a file system of this version: here --fs %s.",
	     knob_text(&outcome->runs[0].knobs, KNOB_FS));
	note_scale(outcome);
}

const struct experiment exp_seed_002 = {
	.name = "seed-002",
	.text = "the published F2FS job: 8 files overwritten at random for a minute (T5)",
	.vary = {{KNOB_NR_WB_CTX, counts_002}},
	.defaults = defaults_002,
	.run = run_002,
	.judge = judge_002,
};

/* ---- 003: the order hint ---------------------------------------------------------------- */

static const char *const devices_003[] = {"ram", "null", NULL};
static const char *const hints_003[] = {"off", "on", NULL};

static void defaults_003(struct knobs *knobs)
{
	knobs_default(knobs, KNOB_SCALE, "1/64");
	knobs_default(knobs, KNOB_MEMORY, "64g");
}

static int run_003(struct run *run, char *err)
{
	return run_job(job_003, run, err);
}

static void judge_hint(struct outcome *outcome, const struct run *off, const struct run *on)
{
	bool keeps = strcmp(knob_text(&on->knobs, KNOB_DEVICE), "null") != 0;

	fact_info(outcome, text("%s: rate without hint", knob_text(&off->knobs, KNOB_DEVICE)),
		  human_rate(off->results.bandwidth_bytes_per_s),
		  keeps ? "2730 MB/s" : "2920 MB/s, no_data_io", "bcachefs on a 990 Pro (T6)");
	fact_info(outcome, text("%s: rate with hint", knob_text(&on->knobs, KNOB_DEVICE)),
		  rate_and_gain(on, off), keeps ? "3430 MB/s, 1.25 x" : "4630 MB/s, 1.5 x",
		  "bcachefs on a 990 Pro (T6)");
}

static uint64_t nr_folios(const struct results *results)
{
	uint64_t nr = 0;

	for (unsigned int i = 0; i < PAGE_CACHE_ORDERS; i++)
		nr += results->folios[i];
	return nr;
}

static uint64_t expected_003(const struct run *run)
{
	return prescribed_bytes(run, job_003);
}

static void judge_003(struct outcome *outcome)
{
	fact_exact_all(outcome, "user_bytes", run_user_bytes, expected_003, "fio's arithmetic");
	for (unsigned int i = 0; i + 1 < outcome->nr_runs; i += 2) {
		const struct run *off = &outcome->runs[i];
		const struct run *on = &outcome->runs[i + 1];

		if (knob_on(&off->knobs, KNOB_ORDER_HINT) || !knob_on(&on->knobs, KNOB_ORDER_HINT))
			break;
		judge_hint(outcome, off, on);
		if (knob_number(&on->knobs, KNOB_PAGE_SIZE) == 4096)
			fact_exact(outcome, on, "folios, off over on",
				   nr_folios(&off->results) / nr_folios(&on->results), 32,
				   "order 5 (T6)");
	}
	note(outcome,
	     "Published on bcachefs, which is not a file system of this version: here --fs "
	     "%s, and the device null for no_data_io.",
	     knob_text(&outcome->runs[0].knobs, KNOB_FS));
	note_scale(outcome);
}

const struct experiment exp_seed_003 = {
	.name = "seed-003",
	.text = "the published order hint job: one file written in 128 KiB calls (T6)",
	.vary = {{KNOB_DEVICE, devices_003}, {KNOB_ORDER_HINT, hints_003}},
	.defaults = defaults_003,
	.run = run_003,
	.judge = judge_003,
};

/* ---- 004: 64 KiB pages ------------------------------------------------------------------ */

static const char *const trackings_004[] = {"folio", "block", NULL};
static const char *const sizes_004[] = {"512m", "1g", "2g", "4g", "8g", "16g", NULL};

static const struct {
	uint64_t mib;
	const char *xfs;
	const char *ext4;
} published_004[] = {
	{512, "1.5 GB/s", "1 GB/s"},	{1024, "1.5 GB/s", "1 GB/s"},
	{2048, "1.4 GB/s", "800 MB/s"}, {4096, "120 MB/s", "290 MB/s"},
	{8192, "60 MB/s", "280 MB/s"},	{16384, "140 MB/s", "-"},
};

static void defaults_004(struct knobs *knobs)
{
	knobs_default(knobs, KNOB_SCALE, "1/64");
	knobs_default(knobs, KNOB_PAGE_SIZE, "64k");
	knobs_default(knobs, KNOB_MEMORY, "16g");
	knobs_default(knobs, KNOB_FILE_SIZE, "4g");
	/* Single pages, as that kernel had. */
	if (!knob_given(knobs, KNOB_MAX_FOLIO))
		knobs_force(knobs, KNOB_MAX_FOLIO, knob_text(knobs, KNOB_PAGE_SIZE));
}

static uint64_t mib_of(const struct knobs *knobs)
{
	return knob_number(knobs, KNOB_FILE_SIZE) >> 20;
}

static int check_004(const struct knobs *knobs, char *err)
{
	if (knob_number(knobs, KNOB_FILE_SIZE) % (1u << 20) == 0 && mib_of(knobs))
		return 0;
	snprintf(err, ERR_MAX, "--file-size '%s'; seed-004 takes a multiple of 1m",
		 knob_text(knobs, KNOB_FILE_SIZE));
	return -EINVAL;
}

/* dd makes the file; its pages stay in the cache, as far as they have room. */
static int run_004(struct run *run, char *err)
{
	struct rig rig = {.knobs = &run->knobs};
	unsigned long long mib = mib_of(&run->knobs);
	char command[256];
	int error = rig_open(&rig, err);

	if (error)
		return error;
	snprintf(command, sizeof(command), prepare_004, mib);
	error = measure_job(command, &rig, run, err);
	free(run->jobs);
	run->jobs = NULL;
	run->nr_jobs = 0;
	snprintf(command, sizeof(command), job_004, mib);
	if (!error)
		error = measure_job(command, &rig, run, err);
	rig_close(&rig);
	return error;
}

static const char *published_rate_004(const struct run *run)
{
	bool is_ext4 = strcmp(knob_text(&run->knobs, KNOB_FS), "ext4") == 0;

	for (size_t i = 0; i < sizeof(published_004) / sizeof(published_004[0]); i++)
		if (published_004[i].mib == mib_of(&run->knobs))
			return is_ext4 ? published_004[i].ext4 : published_004[i].xfs;
	return "-";
}

static uint64_t expected_004(const struct run *run)
{
	return knobs_scaled(&run->knobs, mib_of(&run->knobs) << 20, 4096);
}

static bool tracks_folios(const struct run *run)
{
	return knob_number(&run->knobs, KNOB_DIRTY_TRACKING) == DIRTY_TRACKING_FOLIO;
}

/* With dirty bits per block; per folio there is no exact figure. */
static uint64_t expected_data_004(const struct run *run)
{
	return tracks_folios(run) ? run->results.data_bytes : run->results.dirtied_bytes;
}

/* Device over fio, where the message has both or says that the device was at its limit. */
static const char *published_amplification_004(const struct run *run)
{
	if (mib_of(&run->knobs) == 4096)
		return "2.5 (300 / 120 MB/s)";
	return mib_of(&run->knobs) == 8192 ? "5.0 (300 / 60 MB/s)" : NULL;
}

static void judge_004(struct outcome *outcome)
{
	fact_exact_all(outcome, "user_bytes", run_user_bytes, expected_004, "fio's arithmetic");
	fact_exact_all(outcome, "data_bytes, dirty bits per block", run_data_bytes,
		       expected_data_004, "dirtied_bytes");
	for (unsigned int i = 0; i < outcome->nr_runs; i++) {
		const struct run *run = &outcome->runs[i];
		bool is_ext4 = strcmp(knob_text(&run->knobs, KNOB_FS), "ext4") == 0;

		/* The kernel of that message had per-block state in ext4, not in XFS. */
		if (tracks_folios(run) == is_ext4)
			continue;
		fact_info(outcome, text("%s: rate", run->label),
			  human_rate(run->results.bandwidth_bytes_per_s), published_rate_004(run),
			  "Linux 5.7, SATA SSD (T7)");
		if (!is_ext4 && published_amplification_004(run))
			fact_info(outcome, text("%s: cache_amplification", run->label),
				  human_ratio(run->results.cache_amplification),
				  published_amplification_004(run), "Linux 5.7, SATA SSD (T7)");
	}
	note(outcome,
	     "Per folio, a page is written whole each time it goes from clean to dirty: 16 (1 - p) "
	     "bytes per byte, p being the share of the file that is dirty.  Files below the dirty "
	     "limits are written once; the device of the published runs wrote 2.5 bytes per byte "
	     "at 4 GiB and 5 at 8 GiB.");
	note_scale(outcome);
}

const struct experiment exp_seed_004 = {
	.name = "seed-004",
	.text = "the published 64 KiB page job: 512 MiB to 16 GiB overwritten at random (T7)",
	.vary = {{KNOB_DIRTY_TRACKING, trackings_004}, {KNOB_FILE_SIZE, sizes_004}},
	.defaults = defaults_004,
	.check = check_004,
	.run = run_004,
	.judge = judge_004,
};

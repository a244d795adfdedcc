/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * exp-blocksize.c - amplification of random 4 KiB overwrites against the block size
 *
 * The file and the sequence of anchor-overwrite, with 16384 writes: whole blocks are written, so
 * larger blocks cost more bytes in fewer requests.  The arithmetic is exact.
 */
#include "experiments.h"
#include "overwrite.h"

#define NR_WRITES 16384u
#define SOURCE	  "Linux 6.18, measured (A3)"

static const char *const block_sizes[] = {"4k", "8k", "16k", "32k", "64k", NULL};

static void defaults(struct knobs *knobs)
{
	if (knob_given(knobs, KNOB_MEMORY))
		return;
	knobs_default(knobs, KNOB_MEMORY, "768m");
	knobs_default(knobs, KNOB_DIRTY_BACKGROUND_BYTES, "2457m");
	knobs_default(knobs, KNOB_DIRTY_BYTES, "4915m");
}

static uint64_t file_size_of(const struct knobs *knobs)
{
	uint64_t block = knob_number(knobs, KNOB_BLOCK_SIZE);

	return knobs_scaled(knobs, knob_number(knobs, KNOB_FILE_SIZE),
			    block > OVERWRITE_LEN ? block : OVERWRITE_LEN);
}

static uint64_t nr_writes_of(const struct knobs *knobs)
{
	return knobs_scaled(knobs, NR_WRITES, 1);
}

static int measure(struct rig *rig, struct file *file, struct run *run)
{
	int error;

	rig_start(rig);
	error = overwrite_run(rig, file, file_size_of(&run->knobs), nr_writes_of(&run->knobs));
	if (!error)
		error = fs_fsync(file, false);
	rig_stop(rig);
	rig_collect(rig, &run->results);
	return error ? error : rig_add_extents(file, &run->results);
}

static int run_block_size(struct run *run, char *err)
{
	struct rig rig = {.knobs = &run->knobs};
	struct file *file;
	int error = rig_open(&rig, err);

	if (error)
		return error;
	error = overwrite_make_file(&rig, "/anchor", file_size_of(&run->knobs), &file);
	if (error) {
		rig_failed(err, "writing the file", error);
	} else {
		error = measure(&rig, file, run);
		if (error)
			rig_failed(err, "overwriting the file", error);
		(void)fs_close(file);
	}
	rig_close(&rig);
	return error;
}

static uint64_t expected_user_bytes(const struct run *run)
{
	return nr_writes_of(&run->knobs) * OVERWRITE_LEN;
}

static void judge_run(struct outcome *outcome, const struct run *run)
{
	uint64_t block = knob_number(&run->knobs, KNOB_BLOCK_SIZE);
	struct overwrite_count count;

	if (knob_number(&run->knobs, KNOB_DIRTY_TRACKING) != DIRTY_TRACKING_BLOCK ||
	    knob_given(&run->knobs, KNOB_MEMORY) ||
	    knob_given(&run->knobs, KNOB_DIRTY_BACKGROUND_BYTES) ||
	    overwrite_predict(file_size_of(&run->knobs), nr_writes_of(&run->knobs), block, &count))
		return;
	fact_exact(outcome, run, "data_bytes", run->results.data_bytes, count.blocks * block,
		   SOURCE);
	if (knob_text(&run->knobs, KNOB_FS)[0] == 'x')
		fact_exact(outcome, run, "write_ios", run->results.write_ios, count.runs, SOURCE);
	else
		fact_within(outcome, run, "write_ios", (double)run->results.write_ios,
			    (double)count.runs, (double)count.runs * 1.01, "arithmetic (A3)");
}

static void judge(struct outcome *outcome)
{
	fact_exact_all(outcome, "user_bytes", run_user_bytes, expected_user_bytes, SOURCE_PROJECT);
	for (unsigned int i = 0; i < outcome->nr_runs; i++)
		judge_run(outcome, &outcome->runs[i]);
	note(outcome, "With 64 KiB blocks Linux sent 1021 requests where 964 would do: its device "
		      "takes at most 1280 KiB in one.");
}

const struct experiment exp_block_size = {
	.name = "block-size",
	.text = "16384 random 4 KiB overwrites of a cached 512 MiB file, blocks of 4 to 64 KiB",
	.vary = {{KNOB_BLOCK_SIZE, block_sizes}},
	.defaults = defaults,
	.run = run_block_size,
	.judge = judge,
};

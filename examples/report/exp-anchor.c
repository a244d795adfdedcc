/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * exp-anchor.c - amplification of random 4 KiB overwrites, as measured on Linux 6.18 and 6.1
 *
 * A file is written, or written and read back into the cache by readahead; then 4096 random
 * blocks of it are overwritten and synced.  What must reach the device follows from the
 * sequence alone: as many blocks as are hit, in as many requests as they form runs.
 */
#include "experiments.h"
#include "overwrite.h"

#include <math.h>

/* A device that takes requests of 1280 KiB: a read of 1 MiB is one readahead window. */
#define DEVICE_IO_MAX (1280u << 10)
#define NR_WRITES     4096u

#define SOURCE_618 "Linux 6.18, measured (A1)"
#define SOURCE_61  "Linux 6.1, measured (A1)"

/* 10 and 20 % of a machine with 24 GiB. */
#define DIRTY_BACKGROUND_24G "2457m"
#define DIRTY_24G	     "4915m"

static void defaults(struct knobs *knobs)
{
	if (knob_given(knobs, KNOB_MEMORY))
		return;
	knobs_default(knobs, KNOB_MEMORY, "768m");
	knobs_default(knobs, KNOB_DIRTY_BACKGROUND_BYTES, DIRTY_BACKGROUND_24G);
	knobs_default(knobs, KNOB_DIRTY_BYTES, DIRTY_24G);
}

static uint64_t file_size_of(const struct knobs *knobs)
{
	return knobs_scaled(knobs, knob_number(knobs, KNOB_FILE_SIZE), OVERWRITE_LEN);
}

static uint64_t nr_writes_of(const struct knobs *knobs)
{
	return knobs_scaled(knobs, NR_WRITES, 1);
}

/* Replace the folios that writing left by those that readahead makes. */
static int read_back(struct rig *rig, struct file *file, uint64_t size)
{
	int error = rig_drop_cache(rig);

	if (!error)
		error = fs_advise(file, 0, 0, FS_ADVICE_SEQUENTIAL);
	if (!error)
		error = overwrite_read_file(file, size);
	return error;
}

static int measure(struct rig *rig, struct file *file, struct run *run)
{
	uint64_t size = file_size_of(&run->knobs);
	int error = 0;

	if (knob_number(&run->knobs, KNOB_WARM) == WARM_READAHEAD)
		error = read_back(rig, file, size);
	if (error)
		return error;
	rig_start(rig);
	error = overwrite_run(rig, file, size, nr_writes_of(&run->knobs));
	if (!error)
		error = fs_fsync(file, false);
	rig_stop(rig);
	rig_collect(rig, &run->results);
	return error ? error : rig_add_extents(file, &run->results);
}

static int run_anchor(struct run *run, char *err)
{
	struct rig rig = {.knobs = &run->knobs, .io_max = DEVICE_IO_MAX};
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

/* Is everything flushed once, at the end? */
static bool one_flush(const struct knobs *knobs)
{
	return !knob_given(knobs, KNOB_MEMORY) && !knob_given(knobs, KNOB_DIRTY_BYTES) &&
	       !knob_given(knobs, KNOB_DIRTY_BACKGROUND_BYTES);
}

static bool is_xfs(const struct knobs *knobs)
{
	return knob_text(knobs, KNOB_FS)[0] == 'x';
}

/* Dirty blocks alone are written, so the arithmetic decides. */
static void judge_blocks(struct outcome *outcome, const struct run *run)
{
	const struct results *results = &run->results;
	uint64_t block = knob_number(&run->knobs, KNOB_BLOCK_SIZE);
	struct overwrite_count count;

	if (overwrite_predict(file_size_of(&run->knobs), nr_writes_of(&run->knobs), block, &count))
		return;
	fact_exact(outcome, run, "data_bytes", results->data_bytes, count.blocks * block,
		   SOURCE_618);
	if (is_xfs(&run->knobs))
		fact_exact(outcome, run, "write_ios", results->write_ios, count.runs, SOURCE_618);
	else
		fact_within(outcome, run, "write_ios", (double)results->write_ios,
			    (double)count.runs, (double)count.runs + 6, SOURCE_618);
}

static unsigned int largest_order(const struct results *results)
{
	unsigned int order = PAGE_CACHE_ORDERS - 1;

	while (order && !results->folios[order])
		order--;
	return order;
}

/* Whole folios are written. */
static void judge_folios(struct outcome *outcome, const struct run *run)
{
	const struct results *results = &run->results;
	const struct knobs *knobs = &run->knobs;
	unsigned int order = largest_order(results);

	note(outcome,
	     "The mechanism: with dirty bits per folio, each change of a folio from clean to dirty "
	     "costs a write of all its uptodate blocks; the largest folios here are of order %u "
	     "(%s), made by %s.",
	     order, size_text(knob_number(knobs, KNOB_PAGE_SIZE) << order),
	     knob_number(knobs, KNOB_WARM) == WARM_READAHEAD ? "readahead" : "the writes");
	if (knob_number(knobs, KNOB_WARM) != WARM_READAHEAD)
		return;
	if (one_flush(knobs) && knob_number(knobs, KNOB_SCALE) == 1 &&
	    knobs->value[KNOB_SCALE].den == 1 && knob_number(knobs, KNOB_FILE_SIZE) == 512u << 20)
		fact_within(outcome, run, "cache_amplification, one flush",
			    results->cache_amplification, 27, 33, "arithmetic (A1)");
	else if (knob_given(knobs, KNOB_MEMORY) && results->throttled_ns)
		fact(outcome, results->cache_amplification > 30, "cache_amplification",
		     text("%.2f", results->cache_amplification), "> 30 (137.15)", SOURCE_61);
	else
		fact_info(outcome, "cache_amplification",
			  text("%.2f", results->cache_amplification), "137.15", SOURCE_61);
	note(outcome,
	     "Linux 6.1 wrote 137.15 bytes per byte: its background writeback flushed the folios "
	     "again and again while the overwrites went on.  The limits here: %s.",
	     one_flush(knobs) ? "those of a machine with 24 GiB, so one flush at the end"
			      : "as given by --memory or --dirty-bytes");
}

static bool only_dirty_blocks(const struct knobs *knobs)
{
	return knob_number(knobs, KNOB_DIRTY_TRACKING) == DIRTY_TRACKING_BLOCK;
}

static void judge(struct outcome *outcome)
{
	for (unsigned int i = 0; i < outcome->nr_runs; i++) {
		const struct run *run = &outcome->runs[i];

		fact_exact(outcome, run, "user_bytes", run->results.user_bytes,
			   nr_writes_of(&run->knobs) * OVERWRITE_LEN, SOURCE_PROJECT);
		if (!only_dirty_blocks(&run->knobs))
			judge_folios(outcome, run);
		else if (one_flush(&run->knobs))
			judge_blocks(outcome, run);
		if (one_flush(&run->knobs))
			note(outcome,
			     "Dirty limits are those of a machine with 24 GiB (%s, %s): "
			     "nothing is flushed before the fsync.",
			     DIRTY_BACKGROUND_24G, DIRTY_24G);
	}
}

const struct experiment exp_anchor_overwrite = {
	.name = "anchor-overwrite",
	.text = "4096 random 4 KiB overwrites of a cached 512 MiB file, then fsync",
	.defaults = defaults,
	.run = run_anchor,
	.judge = judge,
};

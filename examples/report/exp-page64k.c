/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * exp-page64k.c - 64 KiB pages over 4 KiB blocks, as on the machines that asked for dirty bits
 *
 * Each block of a cached file is overwritten once, in random order.  Folios are single pages of
 * 64 KiB: --max-folio is the page size unless given.  With a sync after each write exactly one
 * block of a folio is dirty at each flush, so a flush writes 1 block or all 16.
 */
#include "experiments.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <iomap/env.h>

#include "overwrite.h"
#include "progress.h"
#include "table.h"

#define PAGE_MIN "64k"
#define SOURCE	 "Linux 6.6, 16 x in fio (T31)"

static const char *const trackings[] = {"block", "folio", NULL};

static void defaults(struct knobs *knobs)
{
	knobs_default(knobs, KNOB_PAGE_SIZE, PAGE_MIN);
	knobs_default(knobs, KNOB_FILE_SIZE, "64m");
	if (!knob_given(knobs, KNOB_MAX_FOLIO))
		knobs_force(knobs, KNOB_MAX_FOLIO, knob_text(knobs, KNOB_PAGE_SIZE));
	if (!knob_given(knobs, KNOB_MEMORY)) {
		knobs_default(knobs, KNOB_MEMORY, "128m");
		knobs_default(knobs, KNOB_DIRTY_BACKGROUND_BYTES, "100m");
		knobs_default(knobs, KNOB_DIRTY_BYTES, "110m");
	}
}

static uint64_t file_size_of(const struct knobs *knobs)
{
	return knobs_scaled(knobs, knob_number(knobs, KNOB_FILE_SIZE),
			    knob_number(knobs, KNOB_PAGE_SIZE));
}

/* Every block number once, in random order. */
static uint32_t *shuffled(uint64_t nr, uint64_t seed)
{
	uint32_t *order = malloc(nr * sizeof(*order));
	struct env_rng rng;

	if (!order)
		return NULL;
	env_rng_seed(&rng, seed);
	for (uint64_t i = 0; i < nr; i++) {
		uint64_t j = env_rng_below(&rng, i + 1);

		order[i] = order[j];
		order[j] = (uint32_t)i;
	}
	return order;
}

static int overwrite_blocks(struct rig *rig, struct file *file, const uint32_t *order, uint64_t nr)
{
	bool each = knob_number(rig->knobs, KNOB_SYNC) == SYNC_EACH;
	size_t len = knob_number(rig->knobs, KNOB_BLOCK_SIZE);
	unsigned char *block = malloc(len);
	uint64_t done = 0;
	int error = block ? 0 : -ENOMEM;

	progress_watch(&done, &nr);
	for (uint64_t i = 0; i < nr && !error; i++) {
		memset(block, (int)(i % 251), len);
		error = rig_write(rig, file, block, len, order[i] * len);
		if (!error && each)
			error = fs_fsync(file, true);
		__atomic_store_n(&done, i + 1, __ATOMIC_RELAXED);
	}
	progress_watch(NULL, NULL);
	free(block);
	return error;
}

static int measure(struct rig *rig, struct file *file, struct run *run)
{
	uint64_t nr = file_size_of(&run->knobs) / knob_number(&run->knobs, KNOB_BLOCK_SIZE);
	uint32_t *order = shuffled(nr, knob_number(&run->knobs, KNOB_SEED));
	int error = -ENOMEM;

	if (!order)
		return error;
	rig_start(rig);
	error = overwrite_blocks(rig, file, order, nr);
	if (!error)
		error = fs_fsync(file, false);
	rig_stop(rig);
	rig_collect(rig, &run->results);
	free(order);
	return error ? error : rig_add_extents(file, &run->results);
}

static int run_page_64k(struct run *run, char *err)
{
	struct rig rig = {.knobs = &run->knobs};
	struct file *file;
	int error = rig_open(&rig, err);

	if (error)
		return error;
	error = overwrite_make_file(&rig, "/testfile", file_size_of(&run->knobs), &file);
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

static bool is_tracking(const struct run *run, enum dirty_tracking tracking)
{
	return knob_number(&run->knobs, KNOB_DIRTY_TRACKING) == tracking;
}

/* Blocks that a flush of a folio with one dirty block writes. */
static double expected_of(const struct knobs *knobs)
{
	uint64_t block = knob_number(knobs, KNOB_BLOCK_SIZE);
	uint64_t folio = knob_number(knobs, KNOB_MAX_FOLIO);

	if (knob_number(knobs, KNOB_SYNC) == SYNC_END || block > folio ||
	    knob_number(knobs, KNOB_DIRTY_TRACKING) == DIRTY_TRACKING_BLOCK)
		return 1;
	return (double)folio / (double)block;
}

static void judge_gain(struct outcome *outcome)
{
	const struct run *block = NULL;
	const struct run *folio = NULL;

	for (unsigned int i = 0; i < outcome->nr_runs; i++) {
		if (is_tracking(&outcome->runs[i], DIRTY_TRACKING_BLOCK))
			block = &outcome->runs[i];
		else
			folio = &outcome->runs[i];
	}
	if (!block || !folio)
		return;
	fact_info(outcome, "rate, block over folio",
		  text("%.2f x", (double)block->results.bandwidth_bytes_per_s /
					 (double)folio->results.bandwidth_bytes_per_s),
		  "16 x (28 to 452 MB/s)", "Linux 6.6 on NVMe (T31)");
	note(outcome,
	     "The rates are of this machine and a device without latency; the published ones "
	     "are of an NVMe device that was busy writing.");
}

static uint64_t expected_user_bytes(const struct run *run)
{
	return file_size_of(&run->knobs);
}

static void judge(struct outcome *outcome)
{
	fact_exact_all(outcome, "user_bytes", run_user_bytes, expected_user_bytes, SOURCE_PROJECT);
	for (unsigned int i = 0; i < outcome->nr_runs; i++) {
		const struct run *run = &outcome->runs[i];
		double expected = expected_of(&run->knobs);
		double ours = run->results.cache_amplification;

		/* Larger folios than pages: how large they are is the writer's doing. */
		if (knob_number(&run->knobs, KNOB_MAX_FOLIO) !=
			    knob_number(&run->knobs, KNOB_PAGE_SIZE) &&
		    is_tracking(run, DIRTY_TRACKING_FOLIO))
			fact_info(outcome, "cache_amplification", human_ratio(ours), "-", SOURCE);
		else
			fact(outcome, ours == expected,
			     run->label[0] ? text("%s: cache_amplification", run->label)
					   : "cache_amplification",
			     human_ratio(ours), human_ratio(expected), SOURCE);
	}
	if (!knob_given(&outcome->runs[0].knobs, KNOB_MAX_FOLIO))
		note(outcome, "Every folio is one page: --max-folio is --page-size here.");
	judge_gain(outcome);
}

const struct experiment exp_page_64k = {
	.name = "page-64k",
	.text = "64 KiB pages: each 4 KiB block of a cached file overwritten once, at random",
	.vary = {{KNOB_DIRTY_TRACKING, trackings}},
	.defaults = defaults,
	.run = run_page_64k,
	.judge = judge,
};

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * exp-orderhint.c - what it costs to cache a sequential file in single pages
 *
 * A new file is written in 128 KiB calls and synced, with and without the order hint, to a
 * device that keeps the data and to one that forgets it.  Each time is the median of a few
 * rounds over the same memory, which is touched before.
 *
 * The file is preallocated, as fio does it.  The maps of a file that grows end where the space
 * reserved behind its end does, and a write across such an end makes smaller folios (J10).
 */
#include "experiments.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "overwrite.h"
#include "table.h"

#define CALL_LEN  (128u << 10)
#define NR_ROUNDS 3
#define SOURCE	  "Linux 6.10, bcachefs (T6)"

static const char *const devices[] = {"ram", "null", NULL};
static const char *const hints[] = {"off", "on", NULL};

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
	return knobs_scaled(knobs, knob_number(knobs, KNOB_FILE_SIZE), CALL_LEN);
}

static int write_file(struct rig *rig, struct file *file, uint64_t size)
{
	unsigned char *call = malloc(CALL_LEN);
	int error = call ? 0 : -ENOMEM;

	if (call)
		memset(call, 0x5a, CALL_LEN);
	for (uint64_t pos = 0; pos < size && !error; pos += CALL_LEN)
		error = rig_write(rig, file, call, CALL_LEN, pos);
	free(call);
	return error ? error : fs_fsync(file, false);
}

/* One round: a new file, written and synced; then it is gone, and its folios with it. */
static int run_round(struct rig *rig, struct results *results)
{
	struct file *file;
	int error = fs_open(rig->fs, "/test", FS_OPEN_CREATE, &file);

	if (error)
		return error;
	error = fs_fallocate(file, 0, 0, file_size_of(rig->knobs));
	if (error) {
		(void)fs_close(file);
		return error;
	}
	rig_count_folios(rig);
	rig_start(rig);
	error = write_file(rig, file, file_size_of(rig->knobs));
	rig_stop(rig);
	rig_collect(rig, results);
	if (!error)
		error = rig_add_extents(file, results);
	(void)fs_close(file);
	return error ? error : fs_unlink(rig->fs, "/test");
}

static int compare_elapsed(const void *a, const void *b)
{
	const struct results *left = a;
	const struct results *right = b;

	return left->elapsed_ns < right->elapsed_ns ? -1 : left->elapsed_ns > right->elapsed_ns;
}

/* The first round touches the memory of cache and device, and is not counted. */
static int run_rounds(struct rig *rig, struct run *run)
{
	struct results *rounds = calloc(NR_ROUNDS, sizeof(*rounds));
	int error = rounds ? run_round(rig, &rounds[0]) : -ENOMEM;

	for (unsigned int i = 0; i < NR_ROUNDS && !error; i++)
		error = run_round(rig, &rounds[i]);
	if (!error) {
		qsort(rounds, NR_ROUNDS, sizeof(*rounds), compare_elapsed);
		run->results = rounds[NR_ROUNDS / 2];
	}
	free(rounds);
	return error;
}

static int run_order_hint(struct run *run, char *err)
{
	struct rig rig = {.knobs = &run->knobs};
	int error = rig_open(&rig, err);

	if (error)
		return error;
	error = run_rounds(&rig, run);
	if (error)
		rig_failed(err, "writing the file", error);
	rig_close(&rig);
	return error;
}

static const struct run *find_run(const struct outcome *outcome, const char *device, bool hint)
{
	for (unsigned int i = 0; i < outcome->nr_runs; i++) {
		const struct knobs *knobs = &outcome->runs[i].knobs;

		if (strcmp(knob_text(knobs, KNOB_DEVICE), device) == 0 &&
		    knob_on(knobs, KNOB_ORDER_HINT) == hint)
			return &outcome->runs[i];
	}
	return NULL;
}

static bool only_in_order(const struct results *results, unsigned int order)
{
	for (unsigned int i = 0; i < PAGE_CACHE_ORDERS; i++)
		if (i != order && results->folios[i])
			return false;
	return results->folios[order] > 0;
}

static const char *orders_text(const struct results *results)
{
	char list[64] = "";

	for (unsigned int i = 0; i < PAGE_CACHE_ORDERS; i++) {
		size_t used = strlen(list);

		if (results->folios[i])
			snprintf(list + used, sizeof(list) - used, "%s%u:%llu", used ? " " : "", i,
				 (unsigned long long)results->folios[i]);
	}
	return text("%s", list);
}

static unsigned int order_of(const struct knobs *knobs, uint64_t len)
{
	unsigned int order = 0;

	if (len > knob_number(knobs, KNOB_MAX_FOLIO))
		len = knob_number(knobs, KNOB_MAX_FOLIO);
	while (knob_number(knobs, KNOB_PAGE_SIZE) << (order + 1) <= len)
		order++;
	return order;
}

static uint64_t expected_user_bytes(const struct run *run)
{
	return file_size_of(&run->knobs);
}

static void judge_orders(struct outcome *outcome, const struct run *run)
{
	const struct knobs *knobs = &run->knobs;
	bool hint = knob_on(knobs, KNOB_ORDER_HINT);
	uint64_t least = knob_number(knobs, KNOB_BLOCK_SIZE);
	unsigned int order = order_of(knobs, hint && least < CALL_LEN ? CALL_LEN : least);
	const char *what =
		run->label[0] ? text("%s: folios by order", run->label) : "folios by order";

	fact(outcome, only_in_order(&run->results, order), what, orders_text(&run->results),
	     text("only order %u", order), SOURCE);
}

static void judge_gain(struct outcome *outcome, const char *device, double least,
		       const char *published)
{
	const struct run *off = find_run(outcome, device, false);
	const struct run *on = find_run(outcome, device, true);
	double gain;

	if (!off || !on)
		return;
	gain = (double)off->results.elapsed_ns / (double)on->results.elapsed_ns;
	/* A short run measures the machine, not the cache. */
	if (least > 0 && off->results.user_bytes >= 64u << 20)
		fact(outcome, gain >= least, text("device=%s: time off / on", device),
		     text("%.2f x", gain), text(">= %.2f (%s)", least, published), SOURCE);
	else
		fact_info(outcome, text("device=%s: time off / on", device), text("%.2f x", gain),
			  published, SOURCE);
}

static void judge(struct outcome *outcome)
{
	fact_exact_all(outcome, "user_bytes", run_user_bytes, expected_user_bytes, SOURCE_PROJECT);
	for (unsigned int i = 0; i < outcome->nr_runs; i++)
		judge_orders(outcome, &outcome->runs[i]);
	judge_gain(outcome, "ram", 0, "1.25 with data");
	judge_gain(outcome, "null", 1.5, "1.5 without");
	note(outcome,
	     "Times are medians of %u rounds; published is bcachefs on a 990 Pro, with data "
	     "and with no_data_io.",
	     NR_ROUNDS);
}

const struct experiment exp_order_hint = {
	.name = "order-hint",
	.text = "a new 512 MiB file written in 128 KiB calls, with and without large folios",
	.vary = {{KNOB_DEVICE, devices}, {KNOB_ORDER_HINT, hints}},
	.defaults = defaults,
	.run = run_order_hint,
	.judge = judge,
};

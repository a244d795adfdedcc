/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * exp-contexts.c - the same random writes with 1 to 12 writeback contexts
 *
 * 12 directories of 12 files; a thread a directory writes each 4 KiB block of its files once, in
 * random order, to files that grow from random offsets.  All is synced, dropped from the cache
 * and read back: the number of contexts must not change a byte.
 */
#include "experiments.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include <iomap/env.h>

#include "table.h"
#include "rig.h"

#define NR_DIRS	      12
#define FILES_PER_DIR 12
#define WRITE_LEN     4096u
#define READ_LEN      (256u << 10)
#define SOURCE	      "XFS, 12 CPUs (T1)"

static const char *const counts[] = {"1", "2", "3",  "4",  "5",	 "6", "7",
				     "8", "9", "10", "11", "12", NULL};

/* MiB/s with 1 .. 12 contexts. */
static const double published[] = {9.5, 18.1, 46.4, 135, 160, 163, 162, 154, 152, 145, 145, 138};

struct writer {
	struct rig *rig;
	struct env_thread *thread;
	struct file *files[FILES_PER_DIR];
	unsigned int dir;
	uint64_t blocks; /* of each file */
	int error;
};

static void defaults(struct knobs *knobs)
{
	knobs_default(knobs, KNOB_FILE_SIZE, "96m");
	knobs_default(knobs, KNOB_MEMORY, "512m");
	knobs_default(knobs, KNOB_WB_MAP, "ino-mod");
}

static uint64_t blocks_of(const struct knobs *knobs)
{
	uint64_t size = knobs_scaled(knobs, knob_number(knobs, KNOB_FILE_SIZE), WRITE_LEN);
	uint64_t blocks = size / WRITE_LEN / NR_DIRS / FILES_PER_DIR;

	return blocks ? blocks : 1;
}

/* ---- writing ---------------------------------------------------------------------------- */

/* Block b of the n-th file is the same in every run. */
static void fill_block(unsigned char *block, unsigned int dir, uint64_t file, uint64_t b)
{
	uint64_t word = (dir * FILES_PER_DIR + file) << 32 ^ b;

	for (size_t at = 0; at < WRITE_LEN; at += sizeof(word)) {
		word = word * 6364136223846793005ull + 1442695040888963407ull;
		memcpy(block + at, &word, sizeof(word));
	}
}

static int open_files(struct writer *writer)
{
	char path[64];
	int error;

	snprintf(path, sizeof(path), "/dir%u", writer->dir + 1);
	error = fs_mkdir(writer->rig->fs, path);
	for (unsigned int i = 0; i < FILES_PER_DIR && !error; i++) {
		snprintf(path, sizeof(path), "/dir%u/test.%u", writer->dir + 1, i);
		error = fs_open(writer->rig->fs, path, FS_OPEN_CREATE, &writer->files[i]);
	}
	return error;
}

static void close_files(struct writer *writer)
{
	for (unsigned int i = 0; i < FILES_PER_DIR; i++)
		if (writer->files[i])
			(void)fs_close(writer->files[i]);
}

/* A full cycle over nr numbers in random order: a shuffle of each file's own. */
static uint32_t *shuffled(struct env_rng *rng, uint64_t nr)
{
	uint32_t *order = malloc(nr * sizeof(*order));

	for (uint64_t i = 0; order && i < nr; i++) {
		uint64_t j = env_rng_below(rng, i + 1);

		order[i] = order[j];
		order[j] = (uint32_t)i;
	}
	return order;
}

/* As fio does: one write to each file in turn. */
static int write_blocks(struct writer *writer, uint32_t *const *orders)
{
	unsigned char block[WRITE_LEN];
	int error = 0;

	for (uint64_t i = 0; i < writer->blocks; i++) {
		for (unsigned int f = 0; f < FILES_PER_DIR && !error; f++) {
			uint64_t b = orders[f][i];

			fill_block(block, writer->dir, f, b);
			error = rig_write(writer->rig, writer->files[f], block, WRITE_LEN,
					  b * WRITE_LEN);
		}
	}
	return error;
}

static void writer_run(void *arg)
{
	struct writer *writer = arg;
	uint32_t *orders[FILES_PER_DIR] = {NULL};
	struct env_rng rng;
	bool complete = true;

	env_rng_seed(&rng, knob_number(writer->rig->knobs, KNOB_SEED) * NR_DIRS + writer->dir);
	for (unsigned int f = 0; f < FILES_PER_DIR; f++) {
		orders[f] = shuffled(&rng, writer->blocks);
		complete = complete && orders[f];
	}
	writer->error = complete ? write_blocks(writer, orders) : -ENOMEM;
	for (unsigned int f = 0; f < FILES_PER_DIR; f++)
		free(orders[f]);
}

static int write_all(struct writer *writers)
{
	unsigned int nr = 0;
	int error = 0;

	while (nr < NR_DIRS && !error) {
		error = env_thread_create(&writers[nr].thread, "writer", writer_run, &writers[nr]);
		nr += !error;
	}
	for (unsigned int i = 0; i < nr; i++) {
		env_thread_join(writers[i].thread);
		error = error ? error : writers[i].error;
	}
	return error;
}

/* ---- reading back ----------------------------------------------------------------------- */

static int hash_file(struct file *file, XXH3_state_t *hash, unsigned char *buffer)
{
	uint64_t pos = 0;
	ssize_t n;

	while ((n = fs_read(file, buffer, READ_LEN, pos)) > 0) {
		XXH3_64bits_update(hash, buffer, (size_t)n);
		pos += (uint64_t)n;
	}
	return (int)n;
}

static int hash_all(const struct writer *writers, uint64_t *result)
{
	XXH3_state_t *hash = XXH3_createState();
	unsigned char *buffer = malloc(READ_LEN);
	int error = hash && buffer ? 0 : -ENOMEM;

	if (!error)
		XXH3_64bits_reset(hash);
	for (unsigned int i = 0; i < NR_DIRS && !error; i++)
		for (unsigned int f = 0; f < FILES_PER_DIR && !error; f++)
			error = hash_file(writers[i].files[f], hash, buffer);
	if (!error)
		*result = XXH3_64bits_digest(hash);
	free(buffer);
	XXH3_freeState(hash);
	return error;
}

/* What the contents must hash to, without any file. */
static uint64_t expected_hash(uint64_t blocks)
{
	XXH3_state_t *hash = XXH3_createState();
	unsigned char block[WRITE_LEN];
	uint64_t result = 0;

	if (!hash)
		return 0;
	XXH3_64bits_reset(hash);
	for (unsigned int dir = 0; dir < NR_DIRS; dir++) {
		for (unsigned int f = 0; f < FILES_PER_DIR; f++) {
			for (uint64_t b = 0; b < blocks; b++) {
				fill_block(block, dir, f, b);
				XXH3_64bits_update(hash, block, sizeof(block));
			}
		}
	}
	result = XXH3_64bits_digest(hash);
	XXH3_freeState(hash);
	return result;
}

/* ---- a run ------------------------------------------------------------------------------ */

static int measure(struct rig *rig, struct writer *writers, struct run *run)
{
	uint64_t synced_ns;
	int error;

	rig_start(rig);
	error = write_all(writers);
	synced_ns = env_clock_ns();
	if (!error)
		error = fs_sync(rig->fs);
	rig_stop(rig);
	rig_collect(rig, &run->results);
	run->results.sync_ns = env_clock_ns() - synced_ns;
	for (unsigned int i = 0; i < NR_DIRS && !error; i++)
		for (unsigned int f = 0; f < FILES_PER_DIR && !error; f++)
			error = rig_add_extents(writers[i].files[f], &run->results);
	if (!error)
		error = rig_drop_cache(rig);
	/* A device that forgets has nothing to compare. */
	if (!error && strcmp(knob_text(&run->knobs, KNOB_DEVICE), "null") != 0)
		error = hash_all(writers, &run->results.content_xxh3);
	return error;
}

static int run_contexts(struct run *run, char *err)
{
	struct rig rig = {.knobs = &run->knobs};
	struct writer writers[NR_DIRS] = {{0}};
	int error = rig_open(&rig, err);

	if (error)
		return error;
	for (unsigned int i = 0; i < NR_DIRS && !error; i++) {
		writers[i].rig = &rig;
		writers[i].dir = i;
		writers[i].blocks = blocks_of(&run->knobs);
		error = open_files(&writers[i]);
	}
	if (!error)
		error = measure(&rig, writers, run);
	if (error)
		rig_failed(err, "writing the files", error);
	for (unsigned int i = 0; i < NR_DIRS; i++)
		close_files(&writers[i]);
	rig_close(&rig);
	return error;
}

/* ---- facts ------------------------------------------------------------------------------ */

struct spread {
	unsigned int nr_used; /* contexts with inodes */
	unsigned int nr_idle; /* of them, without a byte written */
	uint64_t least;
	uint64_t most;
};

static struct spread spread_of(const struct results *results)
{
	struct spread spread = {.least = UINT64_MAX};

	for (unsigned int i = 0; i < results->nr_wb_ctx; i++) {
		uint64_t bytes = results->contexts[i].bytes;

		if (!results->contexts[i].inodes)
			continue;
		spread.nr_used++;
		spread.nr_idle += bytes == 0;
		spread.least = bytes < spread.least ? bytes : spread.least;
		spread.most = bytes > spread.most ? bytes : spread.most;
	}
	return spread;
}

static uint64_t left_in_contexts(const struct results *results)
{
	uint64_t pages = 0;

	for (unsigned int i = 0; i < results->nr_wb_ctx; i++)
		pages += results->contexts[i].reclaimable + results->contexts[i].writeback;
	return pages;
}

/* One fact over all runs; a run that fails is named. */
static void judge_all(struct outcome *outcome, const char *what, const char *expected,
		      bool (*holds)(const struct run *run, uint64_t hash), uint64_t hash)
{
	const struct run *failed = NULL;
	unsigned int nr = 0;

	for (unsigned int i = 0; i < outcome->nr_runs; i++) {
		if (holds(&outcome->runs[i], hash))
			nr++;
		else
			failed = &outcome->runs[i];
	}
	fact(outcome, !failed, what,
	     text("%u of %u runs%s%s", nr, outcome->nr_runs, failed ? ", not " : "",
		  failed ? failed->label : ""),
	     expected, SOURCE_PROJECT);
}

static bool contents_are_right(const struct run *run, uint64_t hash)
{
	return run->results.content_xxh3 == hash;
}

static uint64_t expected_user_bytes(const struct run *run)
{
	return blocks_of(&run->knobs) * NR_DIRS * FILES_PER_DIR * WRITE_LEN;
}

static bool every_context_wrote(const struct run *run, uint64_t hash)
{
	(void)hash;
	return spread_of(&run->results).nr_idle == 0;
}

static bool nothing_is_left(const struct run *run, uint64_t hash)
{
	const struct results *results = &run->results;

	(void)hash;
	return results->dirty_left_bytes + results->writeback_left_bytes +
		       left_in_contexts(results) ==
	       0;
}

/* One line a number of contexts, with the published rate beside ours. */
static void judge_rate(struct outcome *outcome, const struct run *run)
{
	const struct results *results = &run->results;
	const struct results *base = &outcome->runs[0].results;
	struct spread spread = spread_of(results);
	unsigned int nr = results->nr_wb_ctx;
	double gain = (double)results->bandwidth_bytes_per_s / (double)base->bandwidth_bytes_per_s;

	if (nr < 1 || nr > NR_DIRS)
		return;
	fact_info(outcome, text("%u contexts: rate", nr),
		  text("%s, %.2f x", human_rate(results->bandwidth_bytes_per_s), gain),
		  text("%.1f MiB/s, %.2f x", published[nr - 1], published[nr - 1] / published[0]),
		  SOURCE);
	note(outcome, "%u contexts: %u used, each wrote %s to %s; lock waits %s; %llu extents.", nr,
	     spread.nr_used, human_bytes(spread.least), human_bytes(spread.most),
	     human_ns(results->lock_wait_ns), (unsigned long long)results->extents_merged);
}

static void judge(struct outcome *outcome)
{
	uint64_t hash = expected_hash(blocks_of(&outcome->runs[0].knobs));
	const char *hash_text = text("xxh3 %016llx", (unsigned long long)hash);

	fact_exact_all(outcome, "user_bytes", run_user_bytes, expected_user_bytes, SOURCE_PROJECT);
	if (strcmp(knob_text(&outcome->runs[0].knobs, KNOB_DEVICE), "null") != 0)
		judge_all(outcome, "contents read back", hash_text, contents_are_right, hash);
	judge_all(outcome, "every context with inodes wrote", "all", every_context_wrote, hash);
	judge_all(outcome, "dirty or under writeback after sync", "0", nothing_is_left, hash);
	for (unsigned int i = 0; i < outcome->nr_runs; i++)
		judge_rate(outcome, &outcome->runs[i]);
	if (knobs_virtual(&outcome->runs[0].knobs))
		return;
	note(outcome,
	     "Rates are in real time on the %u CPUs of this machine, over a device without "
	     "latency: they are no result for 12 CPUs and an NVMe device, "
	     "which the published ones are.",
	     env_nr_cpus());
}

const struct experiment exp_contexts = {
	.name = "contexts",
	.text = "12 threads write 4 KiB at random into 144 growing files, 1 to 12 contexts",
	.vary = {{KNOB_NR_WB_CTX, counts}},
	.defaults = defaults,
	.run = run_contexts,
	.judge = judge,
};

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * measure.c - alternating rounds of the peers, and the median of each
 *
 * Other work on the machine slows all peers of a round alike, and a disturbed round does not
 * move a median; the ratios are ratios of medians.
 */
#include "bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <iomap/env.h>

#define MAX_ROUNDS 64
#define SEED	   20240607
#define HOT_BYTES  (64 * KIB)

/* ---- what all peers do ---- */

void fill_pattern(unsigned char *memory, size_t len)
{
	for (size_t i = 0; i < len; i++)
		memory[i] = (unsigned char)((i % 512) * 7 + (i % 512) / 256);
}

bool pattern_ok(const unsigned char *memory, size_t len)
{
	unsigned char pattern[512];

	fill_pattern(pattern, sizeof(pattern));
	for (size_t off = 0; off < len; off += sizeof(pattern))
		if (memcmp(memory + off, pattern, sizeof(pattern)) != 0)
			return false;
	return true;
}

static void shuffle(uint64_t *pos, uint64_t nr, struct env_rng *rng)
{
	for (uint64_t i = nr; i > 1; i--) {
		uint64_t j = env_rng_below(rng, i);
		uint64_t other = pos[j];

		pos[j] = pos[i - 1];
		pos[i - 1] = other;
	}
}

/* The offsets of one thread, which has the file from start for len bytes to itself. */
static void pos_fill(uint64_t *pos, const struct row *row, uint64_t start, uint64_t len,
		     struct env_rng *rng)
{
	uint64_t nr_places = len / row->op_bytes;
	uint64_t hot = start + len / 2;

	for (uint64_t i = 0; i < row->nr_ops; i++) {
		switch (row->where) {
		case WHERE_RANDOM:
			pos[i] = start + env_rng_below(rng, nr_places) * row->op_bytes;
			break;
		case WHERE_HOT:
			pos[i] =
				hot + env_rng_below(rng, HOT_BYTES / row->op_bytes) * row->op_bytes;
			break;
		case WHERE_SEQUENTIAL:
		case WHERE_ONCE:
			pos[i] = start + i % nr_places * row->op_bytes;
			break;
		case WHERE_EVERY_4TH:
			pos[i] = start + i * 4 % nr_places * row->op_bytes;
			break;
		}
	}
	if (row->where == WHERE_ONCE)
		shuffle(pos, row->nr_ops, rng);
}

static void load_free(struct load *load)
{
	for (unsigned int i = 0; i < MAX_THREADS; i++) {
		env_free((void *)load->pos[i]);
		env_free(load->memory[i]);
	}
}

static int load_make(struct load *load, const struct row *row)
{
	uint64_t bytes =
		row->fixture.file_bytes ? row->fixture.file_bytes : row->fixture.append_bytes;
	uint64_t part = row->split ? bytes / row->nr_threads : bytes;
	struct env_rng rng;

	*load = (struct load){.op = row->op,
			      .clean = row->clean,
			      .op_bytes = row->op_bytes,
			      .nr_ops = row->nr_ops};
	env_rng_seed(&rng, SEED);
	for (unsigned int i = 0; row->nr_ops && i < row->nr_threads; i++) {
		uint64_t *pos = env_alloc(row->nr_ops * sizeof(*pos));

		load->pos[i] = pos;
		load->memory[i] = env_alloc(row->op_bytes);
		if (!pos || !load->memory[i]) {
			load_free(load);
			return -ENOMEM;
		}
		pos_fill(pos, row, row->split ? i * part : 0, part, &rng);
		fill_pattern(load->memory[i], row->op_bytes);
	}
	return 0;
}

/* ---- a run by one or more threads ---- */

struct runner {
	struct peer *peer;
	const struct load *load;
	unsigned int thread;
	struct env_completion ready;
	uint32_t *go; /* set when every thread is there */
	uint64_t end_ns;
	int err;
};

static void run_to_end(struct runner *runner)
{
	runner->err = runner->peer->ops->run(runner->peer, runner->load, runner->thread);
	runner->end_ns = env_clock_ns();
}

static void runner_main(void *arg)
{
	struct runner *runner = arg;

	env_complete(&runner->ready);
	while (!__atomic_load_n(runner->go, __ATOMIC_ACQUIRE))
		;
	run_to_end(runner);
}

/* Elapsed time of nr_threads that each do the load's operations; this thread is the first. */
static int time_run(struct peer *peer, const struct load *load, unsigned int nr_threads,
		    uint64_t *elapsed_ns)
{
	struct runner runner[MAX_THREADS];
	struct env_thread *thread[MAX_THREADS];
	uint32_t go = 0;
	uint64_t start_ns, end_ns;
	unsigned int nr = 1;
	int err = 0;

	runner[0] = (struct runner){.peer = peer, .load = load};
	for (; !err && nr < nr_threads; nr += !err) {
		runner[nr] = (struct runner){.peer = peer, .load = load, .thread = nr, .go = &go};
		env_completion_init(&runner[nr].ready);
		err = env_thread_create(&thread[nr], "bench", runner_main, &runner[nr]);
		if (!err)
			env_completion_wait(&runner[nr].ready);
	}
	start_ns = env_clock_ns();
	__atomic_store_n(&go, 1, __ATOMIC_RELEASE);
	run_to_end(&runner[0]);

	end_ns = 0;
	for (unsigned int i = 0; i < nr; i++) {
		if (i > 0)
			env_thread_join(thread[i]);
		if (!err)
			err = runner[i].err;
		if (runner[i].end_ns > end_ns)
			end_ns = runner[i].end_ns;
	}
	*elapsed_ns = end_ns - start_ns;
	return err;
}

/* Nanoseconds for one operation. */
static int sample(struct peer *peer, const struct load *load, unsigned int nr_threads, double *ns)
{
	uint64_t elapsed_ns;
	int err = peer->ops->ready(peer, load);

	if (!err)
		err = time_run(peer, load, nr_threads, &elapsed_ns);
	if (!err)
		*ns = (double)elapsed_ns / (double)(load->nr_ops * nr_threads);
	return err;
}

/* ---- rounds ---- */

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values, unsigned int nr)
{
	qsort(values, nr, sizeof(*values), by_value);
	return nr % 2 ? values[nr / 2] : (values[nr / 2 - 1] + values[nr / 2]) / 2;
}

struct samples {
	double one[NR_PEERS][MAX_ROUNDS];
	double two[NR_PEERS][MAX_ROUNDS];
};

/* Every round starts with another peer.  The round before the first only warms up. */
static int measure_rounds(struct peer *const peers[NR_PEERS], const struct row *row,
			  const struct load *load, unsigned int nr_rounds, struct samples *samples)
{
	for (unsigned int round = 0; round <= nr_rounds; round++) {
		unsigned int at = round ? round - 1 : 0;

		for (unsigned int i = 0; i < NR_PEERS; i++) {
			unsigned int p = (round + i) % NR_PEERS;
			int err;

			if (!peers[p] || (row->alone && p != OURS))
				continue;
			err = sample(peers[p], load, 1, &samples->one[p][at]);
			if (!err && row->nr_threads > 1)
				err = sample(peers[p], load, row->nr_threads, &samples->two[p][at]);
			if (err)
				return err;
		}
	}
	return 0;
}

int measure_row(struct peer *const peers[NR_PEERS], const struct row *row, unsigned int nr_rounds,
		struct result *result)
{
	struct samples samples;
	struct load load;
	int err;

	*result = (struct result){.row = row, .nr_rounds = nr_rounds};
	if (row->op == OP_NONE) {
		result->nr_rounds = 1;
		result->overhead = peers[OURS]->ops->overhead(peers[OURS]);
		return 0;
	}
	err = load_make(&load, row);
	if (err)
		return err;
	if (nr_rounds > MAX_ROUNDS)
		nr_rounds = MAX_ROUNDS;
	err = measure_rounds(peers, row, &load, nr_rounds, &samples);
	load_free(&load);
	for (unsigned int p = 0; !err && p < NR_PEERS; p++) {
		if (!peers[p] || (row->alone && p != OURS))
			continue;
		result->has[p] = true;
		result->ns[p] = median(samples.one[p], nr_rounds);
		if (row->nr_threads > 1)
			result->two_ns[p] = median(samples.two[p], nr_rounds);
	}
	return err;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * bench.h - peers that do the same operations on the same offsets, and the rows to measure
 *
 *	for each row:
 *		peer->open(fixture);			files made, cached
 *		for each round, for each peer:
 *			peer->ready(load);		not timed
 *			peer->run(load, thread);	timed
 *		peer->close();
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_THREADS 2
#define MAX_FILES   2
#define MAX_GOALS   2
#define KIB	    1024u
#define MIB	    (1024u * KIB)

enum { OURS, MEMCPY, KERNEL, NR_PEERS };

/* The files that a row needs; rows in a row that need the same share them. */
struct fixture {
	uint64_t file_bytes; /* 0: no file, the row appends to a new one */
	uint64_t append_bytes; /* how long that one will get */
	uint32_t fill_bytes; /* they were written in writes of that size, which makes the order */
	unsigned int nr_files;
};

enum op {
	OP_WRITE,
	OP_READ,
	OP_APPEND, /* to a file made anew before each run */
	OP_FLUSH, /* one fsync of the dirty blocks at pos[] */
	OP_NONE, /* nothing is timed: a row about memory */
};

/* The operations of one row, the same for every peer. */
struct load {
	enum op op;
	bool clean; /* every file is clean when a run starts; else every page is dirty */
	uint32_t op_bytes;
	uint64_t nr_ops; /* of each thread */
	const uint64_t *pos[MAX_THREADS]; /* file offsets, in order */
	unsigned char *memory[MAX_THREADS]; /* op_bytes to write from or read to */
};

struct peer;

struct peer_ops {
	/* 0 or a negative errno, after a line on stderr. */
	int (*open)(struct peer *peer, const struct fixture *fixture);
	int (*ready)(struct peer *peer, const struct load *load);
	int (*run)(struct peer *peer, const struct load *load, unsigned int thread);
	void (*close)(struct peer *peer);
	void (*destroy)(struct peer *peer);
	/* Bytes beside the data per byte of data; NULL: not known. */
	double (*overhead)(struct peer *peer);
};

struct peer {
	const struct peer_ops *ops;
	const char *name; /* "libiomap", "memcpy", "pwrite on xfs" */
};

struct peer *ours_create(void);
struct peer *memcpy_create(void);
struct peer *kernel_create(void);

/* Bytes that repeat every 512, so that a file written from them is the same everywhere. */
void fill_pattern(unsigned char *memory, size_t len);
bool pattern_ok(const unsigned char *memory, size_t len);

/* ---- rows --------------------------------------------------------------------------- */

enum where { WHERE_RANDOM, WHERE_HOT, WHERE_SEQUENTIAL, WHERE_ONCE, WHERE_EVERY_4TH };

enum goal_kind {
	GOAL_NONE,
	GOAL_OVER_MEMCPY, /* ours - memcpy, ns: at most */
	GOAL_VS_MEMCPY, /* memcpy / ours: at least */
	GOAL_VS_KERNEL, /* kernel / ours: at least */
	GOAL_GAIN, /* of two threads: at least, or 0.9 of memcpy's */
	GOAL_NS, /* ours, ns: at most */
	GOAL_OVERHEAD, /* % of the data: at most */
};

struct goal {
	const char *suffix; /* of the row's name */
	enum goal_kind kind;
	double target; /* 0: none, for information */
};

struct row {
	const char *name;
	struct fixture fixture;
	enum op op;
	enum where where;
	bool clean;
	bool split; /* thread i has the i-th part of the file to itself */
	bool alone; /* no peer can do the same */
	unsigned int nr_threads;
	uint32_t op_bytes;
	uint64_t nr_ops;
	struct goal goals[MAX_GOALS];
};

/* Row number i, NULL behind the last.  quick: smaller files, fewer operations. */
const struct row *row_at(unsigned int i);
void row_scale(struct row *row, bool quick);

/* ---- measuring ---------------------------------------------------------------------- */

struct result {
	const struct row *row;
	unsigned int nr_rounds;
	bool has[NR_PEERS];
	double ns[NR_PEERS]; /* median, of one operation, one thread */
	double two_ns[NR_PEERS]; /* the same with two threads: elapsed / operations of both */
	double overhead; /* of ours, for GOAL_OVERHEAD */
};

/* The fixture is open in every peer.  0 or a negative errno. */
int measure_row(struct peer *const peers[NR_PEERS], const struct row *row, unsigned int nr_rounds,
		struct result *result);

/* ---- printing ----------------------------------------------------------------------- */

double goal_value(const struct result *result, const struct goal *goal);
bool goal_met(const struct result *result, const struct goal *goal);
void print_table(void *stream, const struct result *results, unsigned int nr);
/* path "-": standard output.  0 or a negative errno. */
int print_json(const char *path, const struct result *results, unsigned int nr,
	       const char *kernel_name);

#endif

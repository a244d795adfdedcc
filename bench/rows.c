/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * rows.c - what is measured and what it should reach
 *
 * Rows that share a fixture stand together: it is made once for them.
 */
#include "bench.h"

#define FILE_BYTES  (512ull * MIB)
#define FLUSH_BYTES (1024ull * MIB)
#define NR_RANDOM   65536
#define NR_HOT	    (4 * NR_RANDOM)
#define NR_APPENDS  16384

#define ORDER_0                                                                                    \
	{                                                                                          \
		.file_bytes = FILE_BYTES, .fill_bytes = 4 * KIB, .nr_files = 1                     \
	}
#define ORDER_4                                                                                    \
	{                                                                                          \
		.file_bytes = FILE_BYTES, .fill_bytes = 64 * KIB, .nr_files = 1                    \
	}
#define ORDER_9                                                                                    \
	{                                                                                          \
		.file_bytes = FILE_BYTES, .fill_bytes = 2 * MIB, .nr_files = 1                     \
	}
#define TWO_FILES                                                                                  \
	{                                                                                          \
		.file_bytes = FILE_BYTES / 2, .fill_bytes = 64 * KIB, .nr_files = 2                \
	}
#define NO_FILE                                                                                    \
	{                                                                                          \
		.append_bytes = NR_APPENDS * 4ull * KIB, .fill_bytes = 4 * KIB                     \
	}
#define TO_FLUSH                                                                                   \
	{                                                                                          \
		.file_bytes = FLUSH_BYTES, .fill_bytes = MIB, .nr_files = 1                        \
	}

#define WRITE_4K  .op = OP_WRITE, .op_bytes = 4 * KIB, .nr_ops = NR_RANDOM
#define WRITE_512 .op = OP_WRITE, .op_bytes = 512, .nr_ops = 2 * NR_RANDOM
#define READ_4K	  .op = OP_READ, .op_bytes = 4 * KIB, .nr_ops = NR_RANDOM

/* Targets of a row are in its goals; a goal without one is there for information. */
#define OVER_MEMCPY(ns)                                                                            \
	{                                                                                          \
		"", GOAL_OVER_MEMCPY, ns                                                           \
	}
#define VS_MEMCPY(ratio)                                                                           \
	{                                                                                          \
		"", GOAL_VS_MEMCPY, ratio                                                          \
	}
#define ALSO_KERNEL(ratio)                                                                         \
	{                                                                                          \
		"-vs-kernel", GOAL_VS_KERNEL, ratio                                                \
	}
#define VS_KERNEL(ratio)                                                                           \
	{                                                                                          \
		"", GOAL_VS_KERNEL, ratio                                                          \
	}
#define GAIN                                                                                       \
	{                                                                                          \
		"", GOAL_GAIN, 1.7                                                                 \
	}

static const struct row rows[] = {
	{"write-4k-random-order0", ORDER_0, WRITE_4K,
	 .goals = {OVER_MEMCPY(250), ALSO_KERNEL(2.2)}},
	{"write-4k-hot-order0", ORDER_0, WRITE_4K, .where = WHERE_HOT, .goals = {VS_KERNEL(6)}},
	{"write-4k-first-order0", ORDER_0, WRITE_4K, .where = WHERE_ONCE, .clean = true,
	 .goals = {OVER_MEMCPY(0), ALSO_KERNEL(0)}},
	{"read-4k-random-order0", ORDER_0, READ_4K, .goals = {VS_KERNEL(1.7)}},
	{"memory-order0", ORDER_0, .op = OP_NONE, .goals = {{"", GOAL_OVERHEAD, 1.9}}},

	{"write-4k-random-order4", ORDER_4, WRITE_4K,
	 .goals = {OVER_MEMCPY(120), ALSO_KERNEL(2.2)}},
	{"write-4k-hot-order4", ORDER_4, WRITE_4K, .where = WHERE_HOT, .goals = {VS_KERNEL(6)}},
	{"write-4k-first-order4", ORDER_4, WRITE_4K, .where = WHERE_ONCE, .clean = true,
	 .goals = {OVER_MEMCPY(0), ALSO_KERNEL(0)}},
	{"write-512b-random", ORDER_4, WRITE_512, .goals = {VS_KERNEL(4)}},
	{"read-4k-random", ORDER_4, READ_4K, .goals = {VS_KERNEL(1.7)}},
	{"read-4k-hot", ORDER_4, READ_4K, .where = WHERE_HOT, .goals = {VS_KERNEL(6)}},
	{"two-threads-read-one-file", ORDER_4, READ_4K, .nr_threads = 2, .goals = {GAIN}},
	{"two-threads-write-one-file", ORDER_4, WRITE_4K, .nr_threads = 2, .split = true,
	 .goals = {GAIN}},
	{"memory-order4", ORDER_4, .op = OP_NONE, .goals = {{"", GOAL_OVERHEAD, 0.2}}},

	{"write-4k-random-order9", ORDER_9, WRITE_4K,
	 .goals = {OVER_MEMCPY(120), ALSO_KERNEL(2.2)}},
	{"write-128k-seq", ORDER_9, .op = OP_WRITE, .where = WHERE_SEQUENTIAL,
	 .op_bytes = 128 * KIB, .nr_ops = FILE_BYTES / (128 * KIB),
	 .goals = {VS_MEMCPY(0.93), ALSO_KERNEL(1)}},
	{"memory-order9", ORDER_9, .op = OP_NONE, .goals = {{"", GOAL_OVERHEAD, 0}}},

	{"two-threads-write-two-files", TWO_FILES, WRITE_4K, .nr_threads = 2, .goals = {GAIN}},

	{"append-4k", NO_FILE, .op = OP_APPEND, .where = WHERE_SEQUENTIAL, .op_bytes = 4 * KIB,
	 .nr_ops = NR_APPENDS, .goals = {VS_KERNEL(3)}},

	{"flush-every-4th", TO_FLUSH, .op = OP_FLUSH, .where = WHERE_EVERY_4TH, .clean = true,
	 .alone = true, .op_bytes = 4 * KIB, .nr_ops = FLUSH_BYTES / (16 * KIB),
	 .goals = {{"", GOAL_NS, 250}}},
};

const struct row *row_at(unsigned int i)
{
	return i < sizeof(rows) / sizeof(rows[0]) ? &rows[i] : NULL;
}

void row_scale(struct row *row, bool quick)
{
	uint64_t part = quick ? 4 : 1;

	if (row->where == WHERE_HOT)
		row->nr_ops = NR_HOT;
	row->nr_ops /= part;
	row->fixture.file_bytes /= part;
	row->fixture.append_bytes /= part;
	if (row->nr_threads == 0)
		row->nr_threads = 1;
}

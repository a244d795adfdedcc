/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * overwrite.c - write the anchors' file, overwrite it, and count what must be hit
 */
#include "overwrite.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define CALL_LEN (1u << 20)

struct sequence {
	uint32_t r;
	uint64_t nr_blocks; /* of OVERWRITE_LEN, in the file */
};

static void sequence_init(struct sequence *sequence, uint64_t file_size)
{
	sequence->r = 12345;
	sequence->nr_blocks = file_size / OVERWRITE_LEN;
}

static uint64_t sequence_next(struct sequence *sequence)
{
	sequence->r = sequence->r * 1664525u + 1013904223u;
	return (sequence->r >> 8) % sequence->nr_blocks * OVERWRITE_LEN;
}

static void count_hits(const bool *hit, uint64_t nr, struct overwrite_count *count)
{
	*count = (struct overwrite_count){0};
	for (uint64_t i = 0; i < nr; i++) {
		count->blocks += hit[i];
		count->runs += hit[i] && (i == 0 || !hit[i - 1]);
	}
}

int overwrite_predict(uint64_t file_size, uint64_t nr_writes, uint64_t block_size,
		      struct overwrite_count *count)
{
	uint64_t nr = (file_size + block_size - 1) / block_size;
	bool *hit = calloc(nr, sizeof(*hit));
	struct sequence sequence;

	if (!hit)
		return -ENOMEM;
	sequence_init(&sequence, file_size);
	for (uint64_t i = 0; i < nr_writes; i++) {
		uint64_t pos = sequence_next(&sequence);

		for (uint64_t at = pos; at < pos + OVERWRITE_LEN; at += block_size)
			hit[at / block_size] = true;
	}
	count_hits(hit, nr, count);
	free(hit);
	return 0;
}

int overwrite_run(struct rig *rig, struct file *file, uint64_t file_size, uint64_t nr_writes)
{
	struct sequence sequence;
	unsigned char block[OVERWRITE_LEN];
	int error = 0;

	sequence_init(&sequence, file_size);
	for (uint64_t i = 0; i < nr_writes && !error; i++) {
		memset(block, (int)(i % 251), sizeof(block));
		error = rig_write(rig, file, block, sizeof(block), sequence_next(&sequence));
	}
	return error;
}

int overwrite_make_file(struct rig *rig, const char *path, uint64_t file_size, struct file **file)
{
	unsigned char *call = malloc(CALL_LEN);
	int error = call ? fs_open(rig->fs, path, FS_OPEN_CREATE, file) : -ENOMEM;

	if (error) {
		free(call);
		return error;
	}
	for (uint64_t pos = 0; pos < file_size && !error; pos += CALL_LEN) {
		uint64_t left = file_size - pos;

		memset(call, (int)(pos / CALL_LEN % 251 + 1), CALL_LEN);
		error = rig_write(rig, *file, call, left < CALL_LEN ? left : CALL_LEN, pos);
	}
	free(call);
	if (!error)
		error = fs_fsync(*file, false);
	if (error)
		(void)fs_close(*file);
	return error;
}

int overwrite_read_file(struct file *file, uint64_t file_size)
{
	unsigned char *call = malloc(CALL_LEN);
	ssize_t n = 1;

	if (!call)
		return -ENOMEM;
	for (uint64_t pos = 0; pos < file_size && n > 0; pos += (uint64_t)n)
		n = fs_read(file, call, CALL_LEN, pos);
	free(call);
	if (n < 0)
		return (int)n;
	return n ? 0 : -EIO;
}

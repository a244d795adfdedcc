/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * memcpy.c - the limit: the same bytes copied to and from plain memory of the same size
 *
 * The memory is of the kind the library keeps its folios in, on huge pages where the host gives
 * them.
 */
#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <iomap/env.h>
#include <iomap/list.h>

struct copier {
	struct peer peer;
	struct fixture fixture;
	unsigned char *files; /* one behind the other */
	size_t size;
};

static struct copier *copier_of(struct peer *peer)
{
	return container_of(peer, struct copier, peer);
}

static int copier_open(struct peer *peer, const struct fixture *fixture)
{
	struct copier *copier = copier_of(peer);
	uint64_t bytes = fixture->file_bytes * fixture->nr_files + fixture->append_bytes;

	copier->fixture = *fixture;
	copier->size = (bytes + 2 * MIB - 1) & ~(uint64_t)(2 * MIB - 1);
	copier->files = env_arena_map(copier->size, 2 * MIB, true);
	if (!copier->files) {
		fprintf(stderr, "bench: memcpy: no memory\n");
		return -ENOMEM;
	}
	memset(copier->files, 1, copier->size);
	return 0;
}

static void copier_close(struct peer *peer)
{
	struct copier *copier = copier_of(peer);

	if (copier->files)
		env_arena_unmap(copier->files, copier->size);
	copier->files = NULL;
}

static int copier_ready(struct peer *peer, const struct load *load)
{
	(void)peer;
	(void)load;
	return 0;
}

/* The copies must happen, all of them, although nobody looks at the bytes. */
static inline void keep(const void *memory)
{
	__asm__ volatile("" : : "r"(memory) : "memory");
}

static int copier_run(struct peer *peer, const struct load *load, unsigned int thread)
{
	struct copier *copier = copier_of(peer);
	unsigned int nr_files = copier->fixture.nr_files ? copier->fixture.nr_files : 1;
	unsigned char *file = copier->files + (thread % nr_files) * copier->fixture.file_bytes;
	unsigned char *memory = load->memory[thread];
	const uint64_t *pos = load->pos[thread];
	uint32_t len = load->op_bytes;

	if (load->op == OP_READ) {
		for (uint64_t i = 0; i < load->nr_ops; i++) {
			memcpy(memory, file + pos[i], len);
			keep(memory);
		}
	} else {
		for (uint64_t i = 0; i < load->nr_ops; i++) {
			memcpy(file + pos[i], memory, len);
			keep(file);
		}
	}
	return 0;
}

static void copier_destroy(struct peer *peer)
{
	env_free(copier_of(peer));
}

static const struct peer_ops copier_ops = {
	.open = copier_open,
	.ready = copier_ready,
	.run = copier_run,
	.close = copier_close,
	.destroy = copier_destroy,
};

struct peer *memcpy_create(void)
{
	struct copier *copier = env_zalloc(sizeof(*copier));

	if (!copier)
		return NULL;
	copier->peer.ops = &copier_ops;
	copier->peer.name = "memcpy";
	return &copier->peer;
}

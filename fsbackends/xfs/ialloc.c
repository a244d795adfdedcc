/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * ialloc.c - inodes come in chunks of 64 taken from the free space of a group
 *
 * A group's chunks are an array sorted by block; in each, a bitmap says which inodes are free.
 * An empty chunk gives its blocks back.
 */
#include "ialloc.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define CHUNK_INODES 64 /* at least a block of them */
#define WORD_BITS    64

struct xfs_inode_chunk {
	uint64_t block; /* in the group */
	unsigned int nr_inodes;
	unsigned int nr_free;
	uint64_t free[]; /* bitmap */
};

static unsigned int chunk_inodes(const struct xfs_geometry *geometry)
{
	unsigned int in_block = 1u << geometry->inopb_bits;

	return in_block > CHUNK_INODES ? in_block : CHUNK_INODES;
}

static unsigned int chunk_blocks(const struct xfs_geometry *geometry)
{
	return chunk_inodes(geometry) >> geometry->inopb_bits;
}

/* ---- one chunk --------------------------------------------------------------------------- */

static struct xfs_inode_chunk *chunk_alloc(unsigned int nr_inodes, uint64_t block)
{
	size_t bytes = nr_inodes / WORD_BITS * sizeof(uint64_t);
	struct xfs_inode_chunk *chunk = env_alloc(sizeof(*chunk) + bytes);

	if (!chunk)
		return NULL;
	chunk->block = block;
	chunk->nr_inodes = nr_inodes;
	chunk->nr_free = nr_inodes;
	memset(chunk->free, 0xff, bytes);
	return chunk;
}

/* => one is free */
static unsigned int chunk_take_lowest(struct xfs_inode_chunk *chunk)
{
	unsigned int word = 0;
	unsigned int bit;

	while (chunk->free[word] == 0)
		word++;
	bit = (unsigned int)__builtin_ctzll(chunk->free[word]);
	chunk->free[word] &= ~(1ull << bit);
	chunk->nr_free--;
	return word * WORD_BITS + bit;
}

static void chunk_give(struct xfs_inode_chunk *chunk, unsigned int n)
{
	uint64_t bit = 1ull << n % WORD_BITS;

	assert(!(chunk->free[n / WORD_BITS] & bit));
	chunk->free[n / WORD_BITS] |= bit;
	chunk->nr_free++;
}

static uint64_t chunk_ino(const struct xfs_geometry *geometry, uint64_t ag,
			  const struct xfs_inode_chunk *chunk, unsigned int n)
{
	struct xfs_place place = {ag, chunk->block + (n >> geometry->inopb_bits)};

	return xfs_ino_at(geometry, place, n & ((1u << geometry->inopb_bits) - 1));
}

/* ---- the chunks of a group: inode_lock is held ------------------------------------------- */

/* The first chunk behind block. */
static size_t chunk_index_behind(const struct xfs_ag *ag, uint64_t block)
{
	size_t low = 0;
	size_t high = ag->nr_chunks;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (ag->chunks[middle]->block > block)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static int chunks_make_room(struct xfs_ag *ag)
{
	size_t max = ag->max_chunks ? 2 * ag->max_chunks : 4;
	struct xfs_inode_chunk **chunks;

	if (ag->nr_chunks < ag->max_chunks)
		return 0;
	chunks = env_alloc(max * sizeof(struct xfs_inode_chunk *));
	if (!chunks)
		return -ENOMEM;
	if (ag->nr_chunks > 0)
		memcpy(chunks, ag->chunks, ag->nr_chunks * sizeof(struct xfs_inode_chunk *));
	env_free(ag->chunks);
	ag->chunks = chunks;
	ag->max_chunks = max;
	return 0;
}

static void chunk_insert(struct xfs_ag *ag, struct xfs_inode_chunk *chunk)
{
	size_t i = chunk_index_behind(ag, chunk->block);

	memmove(&ag->chunks[i + 1], &ag->chunks[i],
		(ag->nr_chunks - i) * sizeof(struct xfs_inode_chunk *));
	ag->chunks[i] = chunk;
	ag->nr_chunks++;
}

static void chunk_remove(struct xfs_ag *ag, size_t i)
{
	env_free(ag->chunks[i]);
	ag->nr_chunks--;
	memmove(&ag->chunks[i], &ag->chunks[i + 1],
		(ag->nr_chunks - i) * sizeof(struct xfs_inode_chunk *));
}

static struct xfs_inode_chunk *chunk_with_room(const struct xfs_ag *ag)
{
	for (size_t i = 0; i < ag->nr_chunks; i++)
		if (ag->chunks[i]->nr_free > 0)
			return ag->chunks[i];
	return NULL;
}

/* New inodes from the free space, as near to the group's start as there is room. */
static int chunk_create(struct xfs_space *space, uint64_t ag_nr, struct xfs_inode_chunk **created)
{
	struct xfs_ag *ag = &space->ags[ag_nr];
	unsigned int nr_blocks = chunk_blocks(&space->geometry);
	struct xfs_inode_chunk *chunk;
	uint64_t start;
	int err;

	err = chunks_make_room(ag);
	if (err)
		return err;
	chunk = chunk_alloc(chunk_inodes(&space->geometry), 0);
	if (!chunk)
		return -ENOMEM;
	err = xfs_space_claim(space, nr_blocks);
	if (err)
		goto free_chunk;
	err = xfs_alloc_in_ag(space, ag_nr, nr_blocks, &start);
	if (err)
		goto unclaim;

	chunk->block = xfs_place_of(&space->geometry, start).block;
	chunk_insert(ag, chunk);
	*created = chunk;
	return 0;

unclaim:
	xfs_space_unclaim(space, nr_blocks);
free_chunk:
	env_free(chunk);
	return err;
}

static int ag_take_inode(struct xfs_space *space, uint64_t ag_nr, uint64_t *ino)
{
	struct xfs_inode_chunk *chunk = chunk_with_room(&space->ags[ag_nr]);

	if (!chunk) {
		int err = chunk_create(space, ag_nr, &chunk);

		if (err)
			return err;
	}
	*ino = chunk_ino(&space->geometry, ag_nr, chunk, chunk_take_lowest(chunk));
	return 0;
}

/* ---- all groups -------------------------------------------------------------------------- */

uint64_t xfs_ialloc_next_dir_ag(struct xfs_space *space)
{
	return __atomic_fetch_add(&space->dir_rotor, 1, __ATOMIC_RELAXED) %
	       space->geometry.nr_inode_ags;
}

static int try_ags(struct xfs_space *space, uint64_t first, bool wait, uint64_t *ino)
{
	uint64_t nr = space->geometry.nr_inode_ags;
	int err = -ENOSPC;

	for (uint64_t i = 0; i < nr && err == -ENOSPC; i++) {
		uint64_t ag = (first + i) % nr;

		if (wait)
			env_mutex_lock(&space->ags[ag].inode_lock);
		else if (!env_mutex_trylock(&space->ags[ag].inode_lock))
			continue;
		err = ag_take_inode(space, ag, ino);
		env_mutex_unlock(&space->ags[ag].inode_lock);
	}
	return err;
}

int xfs_ialloc(struct xfs_space *space, uint64_t ag, uint64_t *ino)
{
	int err = try_ags(space, ag, false, ino);

	return err == -ENOSPC ? try_ags(space, ag, true, ino) : err;
}

void xfs_ifree(struct xfs_space *space, uint64_t ino)
{
	const struct xfs_geometry *geometry = &space->geometry;
	struct xfs_place place = xfs_ino_place(geometry, ino);
	struct xfs_ag *ag = &space->ags[place.ag];
	struct xfs_inode_chunk *chunk;
	size_t i;

	env_mutex_lock(&ag->inode_lock);
	i = chunk_index_behind(ag, place.block);
	assert(i > 0);
	chunk = ag->chunks[--i];
	chunk_give(chunk, (unsigned int)((place.block - chunk->block) << geometry->inopb_bits) +
				  xfs_ino_slot(geometry, ino));
	if (chunk->nr_free == chunk->nr_inodes) {
		xfs_free(space, xfs_ag_first_block(geometry, place.ag) + chunk->block,
			 chunk_blocks(geometry), NULL);
		chunk_remove(ag, i);
	}
	env_mutex_unlock(&ag->inode_lock);
}

void xfs_ialloc_destroy(struct xfs_ag *ag)
{
	for (size_t i = 0; i < ag->nr_chunks; i++)
		env_free(ag->chunks[i]);
	env_free(ag->chunks);
}

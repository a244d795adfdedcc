/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * block-set.h - distinct block numbers, as many as its owner has said
 *
 *	block_set_init(&set, 1000);
 *	if (block_set_add(&set, block))
 *		it was not there before
 *	for (i = 0; i < set.nr; i++)
 *		set.blocks[i], in the order they came if none was removed
 *	block_set_remove(&set, block);
 *	block_set_clear(&set);
 *	block_set_destroy(&set);
 *
 * All memory is taken at the start, so that adding cannot fail.  A full set forgets what is
 * added.  No lock: the owner's.
 */
#ifndef FSBACKENDS_EXT4_BLOCK_SET_H
#define FSBACKENDS_EXT4_BLOCK_SET_H

#include <stdbool.h>
#include <stdint.h>

struct block_set {
	uint64_t *blocks;
	uint32_t nr;
	uint32_t max;
	uint32_t *slots; /* hash table: 1 + place in blocks, 0: empty */
	uint32_t nr_slots; /* a power of two, at least twice max */
};

/* 0 or -ENOMEM; max > 0. */
int block_set_init(struct block_set *set, uint32_t max);
void block_set_destroy(struct block_set *set);
/* True if the block is new. */
bool block_set_add(struct block_set *set, uint64_t block);
/* The last one takes its place.  True if it was there. */
bool block_set_remove(struct block_set *set, uint64_t block);
void block_set_clear(struct block_set *set);

#endif

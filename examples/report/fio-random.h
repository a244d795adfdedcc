/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fio-random.h - which block comes next: the map of blocks already done, and skewed draws
 */
#ifndef REPORT_FIO_RANDOM_H
#define REPORT_FIO_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

#include <iomap/env.h>

#include "fio-parse.h"

/* ---- the map: one bit a block -------------------------------------------- */

#define FIO_MAP_LEVELS 6
#define FIO_MAP_NONE   UINT64_MAX

/*
 * A bit of level 0 is a block; a bit of each next level says that a word of the level
 * below is full, so that the next free block is found in a few steps.
 */
struct fio_map {
	uint64_t nr;
	unsigned int nr_levels;
	uint64_t *level[FIO_MAP_LEVELS];
	uint64_t nr_bits[FIO_MAP_LEVELS];
	size_t size; /* bytes of all levels */
};

/* A map of nr free blocks; false without memory. */
bool fio_map_init(struct fio_map *map, uint64_t nr);
void fio_map_destroy(struct fio_map *map);
void fio_map_clear(struct fio_map *map);
/* The first free block from block on, round the end if need be; FIO_MAP_NONE: full. */
uint64_t fio_map_next_free(const struct fio_map *map, uint64_t block);
/* How many blocks from block on are free, counting up to max. */
uint64_t fio_map_free_run(const struct fio_map *map, uint64_t block, uint64_t max);
void fio_map_take(struct fio_map *map, uint64_t block, uint64_t nr);

/* ---- skewed draws -------------------------------------------------------- */

/* What is calculated once for a number of blocks. */
struct fio_skew {
	uint64_t nr;
	double zeta;
	double zeta2;
};

/* A block below nr.  unit is the size of a block, for zones given in bytes. */
uint64_t fio_dist_draw(const struct fio_dist *dist, enum fio_dir dir, struct fio_skew *skew,
		       struct env_rng *rng, uint64_t nr, uint64_t unit);

#endif

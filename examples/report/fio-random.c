/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fio-random.c - which block comes next: the map of blocks already done, and skewed draws
 */
#include "fio-random.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- the map ------------------------------------------------------------- */

static uint64_t words_of(uint64_t bits)
{
	return (bits + 63) / 64;
}

/* Bits behind the last block count as done, on every level. */
static void fill_tail(struct fio_map *map, unsigned int level)
{
	uint64_t bits = map->nr_bits[level];

	if (bits % 64)
		map->level[level][bits / 64] = UINT64_MAX << (bits % 64);
}

void fio_map_clear(struct fio_map *map)
{
	memset(map->level[0], 0, map->size);
	for (unsigned int i = 0; i < map->nr_levels; i++)
		fill_tail(map, i);
}

bool fio_map_init(struct fio_map *map, uint64_t nr)
{
	uint64_t words = 0;
	uint64_t *memory;

	assert(nr > 0);
	memset(map, 0, sizeof(*map));
	map->nr = nr;
	do {
		assert(map->nr_levels < FIO_MAP_LEVELS);
		map->nr_bits[map->nr_levels++] = nr;
		nr = words_of(nr);
		words += nr;
	} while (nr > 1);
	map->size = words * sizeof(uint64_t);
	memory = env_alloc(map->size);
	if (!memory)
		return false;
	for (unsigned int i = 0; i < map->nr_levels; i++) {
		map->level[i] = memory;
		memory += words_of(map->nr_bits[i]);
	}
	fio_map_clear(map);
	return true;
}

void fio_map_destroy(struct fio_map *map)
{
	env_free(map->level[0]);
	memset(map, 0, sizeof(*map));
}

static unsigned int lowest_zero(uint64_t word)
{
	return (unsigned int)__builtin_ctzll(~word);
}

/* Climb until a level has a word that is not full, then descend to its first block. */
static uint64_t free_from(const struct fio_map *map, uint64_t bit)
{
	for (unsigned int i = 0; i < map->nr_levels && bit < map->nr_bits[i]; i++) {
		uint64_t word = map->level[i][bit / 64] | ((1ULL << bit % 64) - 1);

		if (word == UINT64_MAX) {
			bit = bit / 64 + 1;
			continue;
		}
		bit = bit / 64 * 64 + lowest_zero(word);
		while (i-- > 0)
			bit = bit * 64 + lowest_zero(map->level[i][bit]);
		return bit;
	}
	return FIO_MAP_NONE;
}

uint64_t fio_map_next_free(const struct fio_map *map, uint64_t block)
{
	uint64_t found = free_from(map, block);

	return found == FIO_MAP_NONE && block ? free_from(map, 0) : found;
}

static bool is_taken(const struct fio_map *map, uint64_t block)
{
	return map->level[0][block / 64] >> (block % 64) & 1;
}

uint64_t fio_map_free_run(const struct fio_map *map, uint64_t block, uint64_t max)
{
	uint64_t run = 0;

	while (run < max && block + run < map->nr && !is_taken(map, block + run))
		run++;
	return run;
}

void fio_map_take(struct fio_map *map, uint64_t block, uint64_t nr)
{
	for (; nr; block++, nr--) {
		uint64_t bit = block;

		assert(block < map->nr);
		for (unsigned int i = 0; i < map->nr_levels; i++, bit /= 64) {
			map->level[i][bit / 64] |= 1ULL << (bit % 64);
			if (map->level[i][bit / 64] != UINT64_MAX)
				break;
		}
	}
}

/* ---- skewed draws -------------------------------------------------------- */

#define ZETA_TERMS 1000000

/* The sum of 1/i^theta; beyond the first million terms, its integral. */
static double zeta(uint64_t nr, double theta)
{
	uint64_t terms = nr < ZETA_TERMS ? nr : ZETA_TERMS;
	double sum = 0;

	for (uint64_t i = 1; i <= terms; i++)
		sum += pow(1.0 / (double)i, theta);
	if (nr > terms)
		sum += (pow((double)nr, 1 - theta) - pow((double)terms, 1 - theta)) / (1 - theta);
	return sum;
}

static double draw_unit(struct env_rng *rng)
{
	return (double)(env_rng_u64(rng) >> 11) * 0x1p-53;
}

static uint64_t clamp_rank(double rank, uint64_t nr)
{
	if (!(rank > 0))
		return 0;
	return rank >= (double)(nr - 1) ? nr - 1 : (uint64_t)rank;
}

/* After Gray and others, "Quickly generating billion-record synthetic databases", 1994. */
static uint64_t zipf_rank(double theta, struct fio_skew *skew, struct env_rng *rng, uint64_t nr)
{
	double u = draw_unit(rng);
	double eta;

	if (skew->nr != nr) {
		skew->nr = nr;
		skew->zeta = zeta(nr, theta);
		skew->zeta2 = zeta(nr < 2 ? nr : 2, theta);
	}
	if (u * skew->zeta < 1 || nr < 2)
		return 0;
	if (u * skew->zeta < 1 + pow(0.5, theta) || nr == 2)
		return 1;
	eta = (1 - pow(2.0 / (double)nr, 1 - theta)) / (1 - skew->zeta2 / skew->zeta);
	return clamp_rank((double)nr * pow(eta * u - eta + 1, 1 / (1 - theta)), nr);
}

static uint64_t normal_rank(double percent, struct env_rng *rng, uint64_t nr)
{
	double u = 1 - draw_unit(rng);
	double v = draw_unit(rng);
	double normal = sqrt(-2 * log(u)) * cos(2 * M_PI * v);
	double rank = (double)nr / 2 + normal * (double)nr * percent / 100;

	while (rank < 0)
		rank += (double)nr;
	while (rank >= (double)nr)
		rank -= (double)nr;
	return clamp_rank(rank, nr);
}

/* Ranks are scattered over the file, so that hot blocks are not neighbours. */
static uint64_t scatter(uint64_t rank, uint64_t nr)
{
	rank ^= rank >> 31;
	rank = (rank + 1) * 0x9e3779b97f4a7c15ULL;
	rank ^= rank >> 32;
	return rank % nr;
}

static uint64_t zone_blocks(const struct fio_zone *zone, uint64_t nr, uint64_t unit)
{
	return zone->size ? zone->size / unit : nr * zone->size_percent / 100;
}

static uint64_t zoned_block(const struct fio_zone *zone, unsigned int nr_zones, struct env_rng *rng,
			    uint64_t nr, uint64_t unit)
{
	uint64_t draw = env_rng_below(rng, 100);
	uint64_t first = 0;
	uint64_t blocks;

	for (; nr_zones > 1 && draw >= zone->access_percent; zone++, nr_zones--) {
		draw -= zone->access_percent;
		first += zone_blocks(zone, nr, unit);
	}
	if (first >= nr)
		return nr - 1;
	blocks = zone_blocks(zone, nr, unit);
	if (blocks == 0 || blocks > nr - first)
		blocks = nr_zones == 1 ? nr - first : 1;
	return first + env_rng_below(rng, blocks);
}

uint64_t fio_dist_draw(const struct fio_dist *dist, enum fio_dir dir, struct fio_skew *skew,
		       struct env_rng *rng, uint64_t nr, uint64_t unit)
{
	switch (dist->kind) {
	case FIO_DIST_UNIFORM:
		return env_rng_below(rng, nr);
	case FIO_DIST_ZIPF:
		return scatter(zipf_rank(dist->shape, skew, rng, nr), nr);
	case FIO_DIST_PARETO:
		return scatter(
			clamp_rank((double)(nr - 1) * pow(draw_unit(rng),
							  log(dist->shape) / log(1 - dist->shape)),
				   nr),
			nr);
	case FIO_DIST_NORMAL:
		return scatter(normal_rank(dist->shape, rng, nr), nr);
	case FIO_DIST_ZONED:
		return zoned_block(dist->zones[dir], dist->nr_zones[dir], rng, nr, unit);
	}
	return 0;
}

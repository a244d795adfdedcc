/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * random.c - xoshiro256** (Blackman and Vigna), its state filled by splitmix64
 *
 * A generator is a function of its seed alone: the same numbers on every machine.
 */
#include <iomap/env.h>

#include <assert.h>

__extension__ typedef unsigned __int128 uint128;

static uint64_t splitmix64(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static uint64_t rotate_left(uint64_t x, unsigned int bits)
{
	return (x << bits) | (x >> (64 - bits));
}

void env_rng_seed(struct env_rng *rng, uint64_t seed)
{
	for (unsigned int i = 0; i < 4; i++)
		rng->state[i] = splitmix64(&seed);
}

uint64_t env_rng_u64(struct env_rng *rng)
{
	uint64_t *s = rng->state;
	uint64_t result = rotate_left(s[1] * 5, 7) * 9;
	uint64_t t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotate_left(s[3], 45);
	return result;
}

/*
 * The high word of number * bound is in [0, bound).  Some results have one number more than
 * the others; those whose low word is below 2^64 mod bound are the surplus, and are redrawn.
 */
uint64_t env_rng_below(struct env_rng *rng, uint64_t bound)
{
	uint64_t surplus;
	uint128 product;

	assert(bound > 0);

	product = (uint128)env_rng_u64(rng) * bound;
	if ((uint64_t)product < bound) {
		surplus = -bound % bound;
		while ((uint64_t)product < surplus)
			product = (uint128)env_rng_u64(rng) * bound;
	}
	return (uint64_t)(product >> 64);
}

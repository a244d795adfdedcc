/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_env_random.c - random numbers
 */
#include <criterion/criterion.h>

#include <iomap/env.h>

/* The first outputs of splitmix64 for seed 0. */
Test(env_random, state_is_splitmix64_of_the_seed)
{
	struct env_rng rng;

	env_rng_seed(&rng, 0);
	cr_assert_eq(rng.state[0], 0xe220a8397b1dcdafu);
	cr_assert_eq(rng.state[1], 0x6e789e6aa1b965f4u);
	cr_assert_eq(rng.state[2], 0x06c45d188009454fu);
	cr_assert_eq(rng.state[3], 0xf88bb8a8724c81ecu);
}

/* Of the generator's published test vector. */
Test(env_random, numbers_are_those_of_xoshiro256starstar)
{
	static const uint64_t expected[] = {
		11520u,
		0u,
		1509978240u,
		1215971899390074240u,
		1216172134540287360u,
		607988272756665600u,
		16172922978634559625u,
		8476171486693032832u,
	};
	struct env_rng rng = {{1, 2, 3, 4}};

	for (unsigned int i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
		cr_assert_eq(env_rng_u64(&rng), expected[i], "number %u", i);
}

Test(env_random, below_stays_below)
{
	static const uint64_t bounds[] = {1, 2, 3, 1000, 1ull << 63, UINT64_MAX};
	struct env_rng rng;

	env_rng_seed(&rng, 1);
	for (unsigned int i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++)
		for (unsigned int n = 0; n < 1000; n++)
			cr_assert_lt(env_rng_below(&rng, bounds[i]), bounds[i]);
}

Test(env_random, below_reaches_every_number_about_as_often)
{
	unsigned int seen[6] = {0};
	struct env_rng rng;

	env_rng_seed(&rng, 2);
	for (unsigned int n = 0; n < 60000; n++)
		seen[env_rng_below(&rng, 6)]++;
	for (unsigned int i = 0; i < 6; i++) {
		cr_assert_gt(seen[i], 9500);
		cr_assert_lt(seen[i], 10500);
	}
}

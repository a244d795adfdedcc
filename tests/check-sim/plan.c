/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * plan.c - what a seed decides before the run
 */
#include "check.h"

#include <stdio.h>

#define ONE_OF(rng, ...)                                                                           \
	({                                                                                         \
		static const uint64_t of_[] = {__VA_ARGS__};                                       \
		of_[env_rng_below(rng, sizeof(of_) / sizeof(of_[0]))];                             \
	})

static const char *const file_systems[] = {"flat", "xfs", "ext4"};

static uint32_t smallest_block(const char *fs)
{
	return fs[0] == 'e' ? 1024 : 512;
}

void plan_make(struct plan *plan, uint64_t seed, const struct plan_wish *wish)
{
	struct env_rng rng;
	uint32_t block;

	env_rng_seed(&rng, seed);
	plan->seed = seed;
	plan->fs = file_systems[env_rng_below(&rng, 3)];
	if (wish->fs)
		plan->fs = wish->fs;
	plan->trouble = (enum trouble)ONE_OF(&rng, TROUBLE_NONE, TROUBLE_NONE, TROUBLE_SLOW,
					     TROUBLE_SLOW, TROUBLE_FAILING);
	plan->nr_tasks = (unsigned int)(2 + env_rng_below(&rng, MAX_TASKS - 1));
	plan->nr_files = (unsigned int)(2 + env_rng_below(&rng, MAX_FILES - 1));
	plan->nr_ops = (unsigned int)ONE_OF(&rng, 10, 20, 30, 60);
	if (wish->nr_ops)
		plan->nr_ops = wish->nr_ops;
	plan->nr_contexts = (unsigned int)(1 + env_rng_below(&rng, 4));
	plan->workers = (unsigned int)ONE_OF(&rng, 0, 1, 1, 2);
	block = (uint32_t)ONE_OF(&rng, 512, 1024, 4096, 4096, 8192);
	plan->block_size = block < smallest_block(plan->fs) ? smallest_block(plan->fs) : block;
	plan->max_folio = (uint32_t)(ONE_OF(&rng, 8, 8, 16, 32, 64, 256) * KiB);
	plan->cache_bytes = ONE_OF(&rng, 192, 256, 384, 512, 1024) * KiB;
	plan->dirty_bytes = plan->cache_bytes / ONE_OF(&rng, 2, 3, 4);
	plan->background_bytes = plan->dirty_bytes / 2;
	plan->interval_ns = ONE_OF(&rng, 0, 1, 10, 100) * 1000000;
	plan->expire_ns = plan->interval_ns * env_rng_below(&rng, 4);
	plan->stripe = (unsigned int)ONE_OF(&rng, 1, 2, 3, 8, 16, 64);
	plan->nr_cells = (unsigned int)ONE_OF(&rng, 64, 256, 256, 512, FILE_CELLS);
	for (unsigned int i = 0; i < MAX_OPS; i++)
		plan->emphasis[i] = (unsigned int)ONE_OF(&rng, 0, 1, 1, 2, 6);
	plan->stable_writes = env_rng_below(&rng, 5) == 0;
	plan->restless = env_rng_below(&rng, 5) == 0;
}

void plan_print(const struct plan *plan)
{
	static const char *const troubles[NR_TROUBLES] = {"none", "slow", "failing"};

	printf("plan: %s, trouble %s, %u tasks of %u ops, %u files, stripe %u, %u contexts, "
	       "%u workers, block %u, folio %u, cache %llu KiB, dirty %llu KiB, "
	       "interval %llu ms, expire %llu ms, %u cells%s%s\n",
	       plan->fs, troubles[plan->trouble], plan->nr_tasks, plan->nr_ops, plan->nr_files,
	       plan->stripe, plan->nr_contexts, plan->workers, plan->block_size, plan->max_folio,
	       (unsigned long long)(plan->cache_bytes / KiB),
	       (unsigned long long)(plan->dirty_bytes / KiB),
	       (unsigned long long)(plan->interval_ns / 1000000),
	       (unsigned long long)(plan->expire_ns / 1000000), plan->nr_cells,
	       plan->stable_writes ? ", stable writes" : "", plan->restless ? ", restless" : "");
}

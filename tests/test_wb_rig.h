/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_wb_rig.h - what the tests of writeback contexts share: a flat file system on the host, or
 * in a run of the simulator on a device that takes time
 */
#ifndef TESTS_TEST_WB_RIG_H
#define TESTS_TEST_WB_RIG_H

#include <iomap/sim.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "folio/wb.h"
#include "tests/flat.h"

#define NS_PER_MS 1000000ull

/* The flat file system with its bytes in memory behind a device of that profile; NULL: none. */
static inline void wb_rig_open(struct flat *rig, const struct page_cache_config *cache,
			       const char *profile, unsigned int nr, enum wb_map map,
			       const struct super_operations *ops)
{
	static const struct super_operations no_ops = {0};
	struct block_device *ram;

	memset(rig, 0, sizeof(*rig));
	cr_assert_eq(page_cache_create(&rig->cache, cache), 0);
	cr_assert_eq(blkdev_ram_create(&ram, FLAT_FILES * FLAT_FILE_BYTES, 0), 0);
	rig->count = ram;
	if (profile)
		cr_assert_eq(blkdev_model_create(&rig->count, ram, blkdev_profile_find(profile)),
			     0);
	cr_assert_eq(blkdev_fault_create(&rig->dev, rig->count), 0);
	cr_assert_eq(bdi_create(&rig->bdi, rig->cache, rig->dev, nr, map), 0);
	cr_assert_eq(super_init(&rig->sb, rig->cache, rig->bdi, PAGE, ops ? ops : &no_ops), 0);
}

/* Run it on nr_cpus CPUs, faithful, or adversarial with a seed other than 0. */
static inline void wb_simulate(unsigned int nr_cpus, uint64_t seed, void (*program)(void *arg),
			       void *arg)
{
	static const char *const may_nest[] = {"wb->list_lock", NULL};
	static struct env_sim_result result;
	struct env_sim_config config;

	env_sim_config_init(&config);
	config.nr_cpus = nr_cpus;
	config.may_nest = may_nest;
	if (seed) {
		config.schedule = ENV_SIM_ADVERSARIAL;
		config.seed = seed;
	}
	cr_assert_eq(env_sim_run(&config, program, arg, &result), 0, "%s", result.text);
}

/* Every context is LIVE or IDLE, as its number says, and an IDLE one has nothing (W3). */
static inline void wb_assert_settled(const struct flat *rig)
{
	struct bdi_stats stats;

	bdi_get_stats(rig->bdi, &stats);
	cr_assert_eq(stats.nr_live, bdi_nr_contexts(rig->bdi));
	for (unsigned int i = 0; i < stats.nr_slots; i++) {
		struct wb_stats one;
		enum wb_context_state state = wb_get_stats(rig->bdi, i, &one);

		cr_assert_eq(state, i < stats.nr_live ? WB_CONTEXT_LIVE : WB_CONTEXT_IDLE);
		if (state == WB_CONTEXT_IDLE) {
			cr_assert_eq(one.nr_dirty_inodes, 0);
			cr_assert_eq(one.reclaimable, 0);
			cr_assert_eq(one.writeback, 0);
		}
	}
}

/* The contexts' counts add up to the cache's at a quiet moment (M117, W62). */
static inline void wb_assert_balanced(struct flat *rig)
{
	struct bdi_stats stats;

	bdi_get_stats(rig->bdi, &stats);
	cr_assert_eq(stats.sum.reclaimable, flat_stats(rig).nr_dirty);
	cr_assert_eq(stats.sum.writeback, flat_stats(rig).nr_writeback);
}

#endif

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_wb_map.c - which context an inode gets under each policy (W13, W14)
 */
#include <iomap/backing_dev.h>

#include <xxhash.h>
#include "tests/test_wb_many.h"

#define NR_INODES 1000

static unsigned int nr_groups;

static unsigned int parallelism(const struct super_block *sb)
{
	(void)sb;
	return nr_groups;
}

/* One in ten has none. */
static uint64_t shard_of(const struct inode *inode)
{
	return inode->i_ino % 10 == 9 ? WB_SHARD_ANY : inode->i_ino % nr_groups;
}

static const struct super_operations sharded = {
	.wb_parallelism = parallelism,
	.wb_shard = shard_of,
};

static unsigned int hash_of(uint64_t ino, unsigned int nr)
{
	unsigned char bytes[8];

	for (unsigned int i = 0; i < 8; i++)
		bytes[i] = (unsigned char)(ino >> (8 * i));
	return (unsigned int)(((XXH3_64bits(bytes, 8) >> 32) * nr) >> 32);
}

static unsigned int expected(enum wb_map map, const struct inode *inode, unsigned int nr,
			     unsigned int nth)
{
	uint64_t shard = shard_of(inode);

	switch (map) {
	case WB_MAP_AUTO:
		if (shard != WB_SHARD_ANY)
			return (unsigned int)(shard % nr);
		break;
	case WB_MAP_SHARD_BAND:
		if (shard != WB_SHARD_ANY)
			return (unsigned int)(shard * nr / nr_groups);
		break;
	case WB_MAP_INDEX:
		if (nr_groups <= nr && shard != WB_SHARD_ANY)
			return (unsigned int)shard;
		return (unsigned int)(inode->i_ino % nr);
	case WB_MAP_INO_MOD:
		return (unsigned int)(inode->i_ino % nr);
	case WB_MAP_ROUND_ROBIN:
		return nth % nr;
	case WB_MAP_ONE:
		return 0;
	case WB_MAP_HASH:
		break;
	}
	return hash_of(inode->i_ino, nr);
}

static void check_policy(enum wb_map map, unsigned int nr)
{
	struct page_cache_config config;
	struct inode *inodes;
	struct flat rig;

	many_config(&config);
	wb_rig_open(&rig, &config, NULL, nr, map, &sharded);
	inodes = many_create(&rig, 0xffffff00, NR_INODES);
	many_dirty(inodes, NR_INODES);
	for (unsigned int i = 0; i < NR_INODES; i++)
		cr_assert_eq(wb_context_of(&inodes[i]), (int)expected(map, &inodes[i], nr, i));
	/* W1, M119: each on one list of one context. */
	for (unsigned int i = 0, sum = 0; i < nr; i++) {
		sum += (unsigned int)flat_wb_stats(&rig, i).nr_dirty_inodes;
		if (i + 1 == nr)
			cr_assert_eq(sum, NR_INODES);
	}
	cr_assert_eq(super_sync(&rig.sb), 0);
	many_remove(inodes, NR_INODES);
	flat_close(&rig);
}

/* WT4, N4 */
Test(wb_map, every_policy_chooses_as_defined)
{
	for (enum wb_map map = WB_MAP_AUTO; map <= WB_MAP_INDEX; map++)
		for (unsigned int nr = 1; nr <= 8; nr++)
			for (nr_groups = 3; nr_groups <= 12; nr_groups += 3)
				check_policy(map, nr);
}

static double largest_over_mean(uint64_t first, uint64_t stride, unsigned int nr)
{
	unsigned int bins[16] = {0};
	unsigned int largest = 0;

	for (uint64_t i = 0; i < 100000; i++)
		bins[hash_of(first + i * stride, nr)]++;
	for (unsigned int i = 0; i < nr; i++)
		largest = bins[i] > largest ? bins[i] : largest;
	return largest * nr / 100000.0;
}

/* WT3, N3; that the library's hash is this one is checked above. */
Test(wb_map, the_hash_spreads_inode_numbers)
{
	for (unsigned int nr = 2; nr <= 16; nr++) {
		cr_assert_leq(largest_over_mean(1, 1, nr), 1.1);
		cr_assert_leq(largest_over_mean(1, 64, nr), 1.1);
		cr_assert_leq(largest_over_mean(1, 8192, nr), 1.1);
		cr_assert_leq(largest_over_mean(7, 1ull << 32, nr), 1.1);
	}
}

/* The policy can be changed while inodes are dirty: they keep their context (W19). */
Test(wb_map, a_new_policy_is_for_those_that_become_dirty)
{
	struct page_cache_config config;
	struct bdi_tuning tuning;
	struct inode *inodes;
	struct flat rig;

	nr_groups = 4;
	many_config(&config);
	wb_rig_open(&rig, &config, NULL, 4, WB_MAP_INO_MOD, &sharded);
	inodes = many_create(&rig, 0, 16);
	many_dirty(inodes, 8);
	bdi_get_tuning(rig.bdi, &tuning);
	tuning.map = WB_MAP_ONE;
	cr_assert_eq(bdi_set_tuning(rig.bdi, &tuning), 0);
	many_dirty(inodes, 16);
	for (unsigned int i = 0; i < 16; i++)
		cr_assert_eq(wb_context_of(&inodes[i]), i < 8 ? (int)i % 4 : 0);
	many_remove(inodes, 16);
	flat_close(&rig);
}

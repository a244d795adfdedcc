/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * wb-map.c - which context an inode should have (W13, W14)
 */
#include <xxhash.h>

#include "folio/wb.h"

/* Always of 64 bits, the same on every machine (W14). */
static unsigned int hash_context(uint64_t ino, unsigned int nr)
{
	unsigned char bytes[8];
	uint64_t hash;

	for (unsigned int i = 0; i < 8; i++)
		bytes[i] = (unsigned char)(ino >> (8 * i));
	hash = XXH3_64bits(bytes, sizeof(bytes));
	return (unsigned int)(((hash >> 32) * nr) >> 32);
}

static uint64_t shard_of(const struct inode *inode)
{
	const struct super_operations *ops = inode->i_sb->s_op;

	return ops->wb_shard ? ops->wb_shard(inode) : WB_SHARD_ANY;
}

static uint64_t nr_shards(const struct inode *inode)
{
	uint64_t nr = __atomic_load_n(&inode->i_sb->s_parallelism, __ATOMIC_RELAXED);

	return nr ? nr : 1;
}

/* Neighbours share a context; a shard that is out of range counts as the last. */
static unsigned int band_context(const struct inode *inode, uint64_t shard, unsigned int nr)
{
	uint64_t shards = nr_shards(inode);

	if (shard >= shards)
		shard = shards - 1;
	return (unsigned int)(shard * nr / shards);
}

static unsigned int choose_context(struct backing_dev *bdi, const struct inode *inode)
{
	unsigned int nr = __atomic_load_n(&bdi->nr_live, __ATOMIC_ACQUIRE);
	uint64_t shard;

	switch (bdi_tuned(bdi, map)) {
	case WB_MAP_INO_MOD:
		return (unsigned int)(inode->i_ino % nr);
	case WB_MAP_ROUND_ROBIN:
		return __atomic_fetch_add(&bdi->next_round_robin, 1, __ATOMIC_RELAXED) % nr;
	case WB_MAP_ONE:
		return 0;
	case WB_MAP_HASH:
		break;
	case WB_MAP_AUTO:
		shard = shard_of(inode);
		if (shard != WB_SHARD_ANY)
			return (unsigned int)(shard % nr);
		break;
	case WB_MAP_SHARD_BAND:
		shard = shard_of(inode);
		if (shard != WB_SHARD_ANY)
			return band_context(inode, shard, nr);
		break;
	case WB_MAP_INDEX:
		shard = shard_of(inode);
		if (shard < nr && nr_shards(inode) <= nr)
			return (unsigned int)shard;
		return (unsigned int)(inode->i_ino % nr);
	}
	return hash_context(inode->i_ino, nr);
}

struct wb_ctx *wb_map_inode(const struct inode *inode)
{
	struct backing_dev *bdi = inode->i_sb->s_bdi;

	return bdi->slots[choose_context(bdi, inode)];
}

bool wb_map_disagrees(const struct inode *inode, const struct wb_ctx *wb)
{
	return bdi_tuned(wb->bdi, map) != WB_MAP_ROUND_ROBIN && wb_map_inode(inode) != wb;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * geometry.c - how many allocation groups, and how large
 */
#include "geometry.h"

#include <errno.h>
#include <stdio.h>

#define MIB (1ull << 20)
#define GIB (1ull << 30)
#define TIB (1ull << 40)

#define AG_MAX_BYTES		TIB
#define CONCURRENT_AG_MIN_BYTES (4 * GIB)
#define LOG_BYTES		(4 * MIB)
#define LOG_MIN_BYTES		(16ull << 10)
#define LOG_SHARE		16 /* of its group the log takes at most one in so many */

static uint64_t div_up(uint64_t n, uint64_t by)
{
	return n / by + (n % by != 0);
}

/* XF2 */
static uint64_t nr_ags_plain(uint64_t size)
{
	if (size >= 4 * TIB)
		return div_up(size, AG_MAX_BYTES);
	if (size >= 128 * MIB)
		return 4;
	return size >= 32 * MIB ? 2 : 1;
}

static uint64_t nr_ags_for(const struct xfs_geometry_config *config)
{
	uint64_t plain = nr_ags_plain(config->size);
	uint64_t most = config->size / CONCURRENT_AG_MIN_BYTES;
	uint64_t wanted = config->concurrency;

	if (config->nr_ags > 0)
		return config->nr_ags;
	if (wanted > most)
		wanted = most;
	return wanted > plain ? wanted : plain;
}

static uint8_t log2_up(uint64_t n)
{
	uint8_t bits = 0;

	while (bits < 63 && (1ull << bits) < n)
		bits++;
	return bits;
}

/* XF6: the groups whose inode numbers all fit 32 bits; one at least. */
static uint64_t nr_inode32_ags(const struct xfs_geometry *geometry)
{
	unsigned int bits = geometry->agblk_bits + geometry->inopb_bits;
	uint64_t nr = bits >= 32 ? 1 : 1ull << (32 - bits);

	return nr < geometry->nr_ags ? nr : geometry->nr_ags;
}

static uint64_t log_blocks_for(const struct xfs_geometry *geometry)
{
	uint64_t bytes = geometry->ag_blocks * geometry->block_size / LOG_SHARE;

	if (bytes > LOG_BYTES)
		bytes = LOG_BYTES;
	if (bytes < LOG_MIN_BYTES)
		bytes = LOG_MIN_BYTES;
	return div_up(bytes, geometry->block_size);
}

static int cut_into_ags(struct xfs_geometry *geometry, const struct xfs_geometry_config *config,
			char *error, size_t error_size)
{
	uint64_t nr = nr_ags_for(config);
	uint64_t log_room = div_up(LOG_MIN_BYTES, config->block_size);
	uint64_t least = XFS_AG_MIN_BLOCKS + log_room;
	uint64_t left;

	if (geometry->nr_blocks / nr < least) {
		snprintf(
			error, error_size,
			"xfs: %llu allocation groups on %llu blocks are too small; each needs %llu",
			(unsigned long long)nr, (unsigned long long)geometry->nr_blocks,
			(unsigned long long)least);
		return -EINVAL;
	}
	geometry->ag_blocks = div_up(geometry->nr_blocks, nr);
	if (geometry->ag_blocks > AG_MAX_BYTES / config->block_size) {
		snprintf(error, error_size,
			 "xfs: agcount=%llu makes groups larger than 1 TiB; use at least %llu",
			 (unsigned long long)nr,
			 (unsigned long long)div_up(config->size, AG_MAX_BYTES));
		return -EINVAL;
	}

	/* Rounding up can leave nothing for the last groups, or too little for the last one. */
	left = geometry->nr_blocks % geometry->ag_blocks;
	if (left > 0 && left < least)
		geometry->nr_blocks -= left;
	geometry->nr_ags = div_up(geometry->nr_blocks, geometry->ag_blocks);
	return 0;
}

int xfs_geometry_init(struct xfs_geometry *geometry, const struct xfs_geometry_config *config,
		      char *error, size_t error_size)
{
	int err;

	*geometry = (struct xfs_geometry){.block_size = config->block_size};
	geometry->blkbits = log2_up(config->block_size);
	geometry->inopb_bits = log2_up(config->block_size / XFS_INODE_SIZE);
	geometry->nr_blocks = config->size / config->block_size;

	err = cut_into_ags(geometry, config, error, error_size);
	if (err)
		return err;
	geometry->agblk_bits = log2_up(geometry->ag_blocks);
	geometry->nr_inode_ags = config->inode32 ? nr_inode32_ags(geometry) : geometry->nr_ags;
	geometry->log_ag = geometry->nr_ags / 2;
	geometry->log_blocks = log_blocks_for(geometry);
	return 0;
}

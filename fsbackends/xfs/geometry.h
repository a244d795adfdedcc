/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * geometry.h - how a device is cut into allocation groups (XF1..XF3)
 *
 * A block number is a device address / block size.  A place is an allocation group and a
 * block in it.  Each group starts with a header that is never allocated; one of the groups
 * in the middle holds the log behind its header.
 */
#ifndef FSBACKENDS_XFS_GEOMETRY_H
#define FSBACKENDS_XFS_GEOMETRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* MAXEXT: blocks of the longest extent (XF1). */
#define XFS_MAX_EXTENT ((1ull << 21) - 1)
#define XFS_INODE_SIZE 512
/* Super block, headers, tree roots and free list of a group. */
#define XFS_AG_HEADER_BLOCKS 16
#define XFS_AG_MIN_BLOCKS    64

struct xfs_geometry {
	uint32_t block_size;
	uint8_t blkbits;
	uint8_t agblk_bits; /* of a block number in its group */
	uint8_t inopb_bits; /* log2 of the inodes in a block */
	uint64_t nr_blocks;
	uint64_t ag_blocks; /* of every group but the last */
	uint64_t nr_ags;
	uint64_t nr_inode_ags; /* those that may hold inodes (XF6) */
	uint64_t log_ag;
	uint64_t log_blocks;
};

struct xfs_place {
	uint64_t ag;
	uint64_t block;
};

struct xfs_geometry_config {
	uint64_t size; /* bytes of the device */
	uint32_t block_size;
	uint64_t nr_ags; /* 0: by XF2 */
	unsigned int concurrency; /* CPUs that shall not meet in a group, 0: plain default */
	bool inode32;
};

/* 0, or -EINVAL with one line in error. */
int xfs_geometry_init(struct xfs_geometry *geometry, const struct xfs_geometry_config *config,
		      char *error, size_t error_size);

static inline uint64_t xfs_ag_first_block(const struct xfs_geometry *geometry, uint64_t ag)
{
	return ag * geometry->ag_blocks;
}

static inline uint64_t xfs_ag_nr_blocks(const struct xfs_geometry *geometry, uint64_t ag)
{
	uint64_t left = geometry->nr_blocks - xfs_ag_first_block(geometry, ag);

	return left < geometry->ag_blocks ? left : geometry->ag_blocks;
}

static inline struct xfs_place xfs_place_of(const struct xfs_geometry *geometry, uint64_t block)
{
	return (struct xfs_place){block / geometry->ag_blocks, block % geometry->ag_blocks};
}

static inline uint64_t xfs_block_at(const struct xfs_geometry *geometry, struct xfs_place place)
{
	return xfs_ag_first_block(geometry, place.ag) + place.block;
}

/* Inode number and back (XF3). */
static inline uint64_t xfs_ino_at(const struct xfs_geometry *geometry, struct xfs_place place,
				  unsigned int slot)
{
	return (((place.ag << geometry->agblk_bits) | place.block) << geometry->inopb_bits) | slot;
}

static inline struct xfs_place xfs_ino_place(const struct xfs_geometry *geometry, uint64_t ino)
{
	uint64_t block = ino >> geometry->inopb_bits;

	return (struct xfs_place){block >> geometry->agblk_bits,
				  block & ((1ull << geometry->agblk_bits) - 1)};
}

static inline unsigned int xfs_ino_slot(const struct xfs_geometry *geometry, uint64_t ino)
{
	return (unsigned int)(ino & ((1ull << geometry->inopb_bits) - 1));
}

#endif

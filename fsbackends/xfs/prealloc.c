/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prealloc.c - the arithmetic of EOF preallocation
 */
#include "prealloc.h"

#include <stdbool.h>

#include "geometry.h"

#define SMALL_FILE_BYTES (64ull << 10)
/* What XF11 doubles is never more than this. */
#define MAX_DOUBLED (1ull << 21)

#define MAP_LEVELS	 5
#define MAP_BLOCK_HEADER 80
#define MAP_RECORD	 16

static uint64_t allocsize_bytes(const struct xfs_prealloc *prealloc)
{
	return prealloc->allocsize > 0 ? prealloc->allocsize : SMALL_FILE_BYTES;
}

/* The allocation size in blocks, at least one. */
static uint64_t least_blocks(const struct xfs_prealloc *prealloc)
{
	uint64_t blocks = allocsize_bytes(prealloc) >> prealloc->blkbits;

	return blocks > 0 ? blocks : 1;
}

static bool continues(const struct extent *before, const struct extent *after)
{
	return before->state != EXTENT_DELAYED && after->state != EXTENT_DELAYED &&
	       before->file + before->len == after->file &&
	       before->start + before->len == after->start;
}

/*
 * XF11 step 3: a file written in slices has several records in a row on the device; they
 * count as one.
 */
static uint64_t run_len_before(const struct extent_map *map, struct extent last)
{
	uint64_t len = last.len;
	struct extent before;

	while (len <= XFS_MAX_EXTENT / 2 && extent_map_find_before(map, last.file, &before) &&
	       continues(&before, &last)) {
		len += before.len;
		last = before;
	}
	return len;
}

/* XF11 step 5: the fuller the file system, the less. */
static unsigned int throttle_shift(const struct xfs_prealloc *prealloc)
{
	unsigned int shift = 0;

	for (unsigned int percent = 5; percent >= 1; percent--)
		if (prealloc->available < prealloc->total / 100 * percent)
			shift = 7 - percent;
	return shift;
}

static uint64_t power_of_two_down(uint64_t n)
{
	return n ? 1ull << (63 - __builtin_clzll(n)) : 0;
}

/* XF11 steps 4 to 7, for a run of run_len blocks before a write at `block`. */
static uint64_t doubled(const struct xfs_prealloc *prealloc, uint64_t run_len, uint64_t block)
{
	uint64_t blocks = 2 * run_len;

	if (blocks > XFS_MAX_EXTENT)
		blocks = block;
	if (blocks > MAX_DOUBLED)
		blocks = MAX_DOUBLED;
	blocks = power_of_two_down(blocks >> throttle_shift(prealloc));
	if (blocks > XFS_MAX_EXTENT)
		blocks = XFS_MAX_EXTENT;
	while (blocks > 0 && blocks >= prealloc->available)
		blocks >>= 4;
	return blocks;
}

uint64_t xfs_eof_prealloc_blocks(const struct xfs_prealloc *prealloc, const struct extent_map *map,
				 uint64_t i_size, uint64_t block)
{
	uint64_t least = least_blocks(prealloc);
	struct extent before;
	uint64_t blocks;

	if (prealloc->mode == XFS_EOF_PREALLOC_OFF)
		return 0;
	if (prealloc->allocsize > 0)
		return least;
	if (i_size < SMALL_FILE_BYTES)
		return 0;
	if (prealloc->mode == XFS_EOF_PREALLOC_FIXED)
		return least;
	if (!extent_map_find_before(map, block, &before) || before.file + before.len < block)
		return least;
	blocks = doubled(prealloc, run_len_before(map, before), block);
	return blocks > least ? blocks : least;
}

uint64_t xfs_eof_prealloc_end(const struct xfs_prealloc *prealloc, const struct extent_map *map,
			      uint64_t i_size, uint64_t pos, uint64_t end)
{
	uint64_t max_block = (uint64_t)INT64_MAX >> prealloc->blkbits;
	uint64_t blocks = xfs_eof_prealloc_blocks(prealloc, map, i_size, pos >> prealloc->blkbits);
	uint64_t size = allocsize_bytes(prealloc);
	uint64_t last = (end - 1) / size * size;
	uint64_t prealloc_end;

	if (blocks == 0)
		return 0;
	prealloc_end = (last >> prealloc->blkbits) + blocks;
	return prealloc_end < max_block ? prealloc_end : max_block;
}

uint32_t xfs_worst_map_blocks(uint64_t nr, uint32_t block_size)
{
	uint64_t records = (block_size - MAP_BLOCK_HEADER) / MAP_RECORD;
	uint64_t sum = 0;

	for (int level = 0; level < MAP_LEVELS; level++) {
		nr = (nr + records - 1) / records;
		sum += nr;
		if (nr == 1)
			break;
	}
	return (uint32_t)sum;
}

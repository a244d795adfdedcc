/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prealloc.h - how much a delayed write reserves beyond what it needs (XF10..XF12)
 *
 * Nothing here changes anything.
 */
#ifndef FSBACKENDS_XFS_PREALLOC_H
#define FSBACKENDS_XFS_PREALLOC_H

#include <stdint.h>

#include "fsbackends/base/extent-map.h"

enum xfs_eof_prealloc {
	XFS_EOF_PREALLOC_FULL, /* XF11 */
	XFS_EOF_PREALLOC_FIXED, /* 64 KiB where XF11 gives at least that */
	XFS_EOF_PREALLOC_OFF,
};

struct xfs_prealloc {
	enum xfs_eof_prealloc mode;
	uint8_t blkbits;
	uint64_t allocsize; /* bytes, 0: by XF11 */
	uint64_t total; /* blocks of the file system */
	uint64_t available; /* blocks free now */
};

/* Blocks to add to a write at `block` of a file of i_size bytes with nothing behind (XF11). */
uint64_t xfs_eof_prealloc_blocks(const struct xfs_prealloc *prealloc, const struct extent_map *map,
				 uint64_t i_size, uint64_t block);

/*
 * Where the delayed record of a write of bytes [pos, end) ends, in blocks (XF12); maybe before
 * the write does.
 */
uint64_t xfs_eof_prealloc_end(const struct xfs_prealloc *prealloc, const struct extent_map *map,
			      uint64_t i_size, uint64_t pos, uint64_t end);

/* Map-tree blocks that recording `nr` blocks may take at worst (XF10). */
uint32_t xfs_worst_map_blocks(uint64_t nr, uint32_t block_size);

#endif

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * target.h - where the blocks of a file range had best be (XF16)
 *
 * Both look at the records around [file, file + len) only; false: nothing there tells, take
 * the inode's default.
 */
#ifndef FSBACKENDS_XFS_TARGET_H
#define FSBACKENDS_XFS_TARGET_H

#include "fsbackends/base/extent-map.h"
#include "geometry.h"

/* XF16 (a): a delayed record becomes real.  keep_gap off: always right behind (XF31). */
bool xfs_target_delayed(const struct xfs_geometry *geometry, const struct extent_map *map,
			uint64_t file, uint64_t len, bool keep_gap, struct xfs_place *target);
/* XF16 (b): a hole is filled at once. */
bool xfs_target_direct(const struct xfs_geometry *geometry, const struct extent_map *map,
		       uint64_t file, uint64_t len, bool keep_gap, struct xfs_place *target);

#endif

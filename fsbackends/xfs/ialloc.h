/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * ialloc.h - inode numbers (XF3..XF6)
 */
#ifndef FSBACKENDS_XFS_IALLOC_H
#define FSBACKENDS_XFS_IALLOC_H

#include "alloc.h"

/* The first group to try for a new directory; the rotor moves on (XF4). */
uint64_t xfs_ialloc_next_dir_ag(struct xfs_space *space);
/* The lowest free inode number from group `ag` on (XF5).  0, -ENOSPC or -ENOMEM. */
int xfs_ialloc(struct xfs_space *space, uint64_t ag, uint64_t *ino);
void xfs_ifree(struct xfs_space *space, uint64_t ino);

/* For xfs_space_destroy(). */
void xfs_ialloc_destroy(struct xfs_ag *ag);

#endif

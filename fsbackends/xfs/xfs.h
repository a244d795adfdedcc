/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * xfs.h - the parts of a mounted XFS-like file system, for those who look inside or get in its way
 */
#ifndef FSBACKENDS_XFS_XFS_H
#define FSBACKENDS_XFS_XFS_H

struct fs;
struct xfs_log;
struct xfs_space;

/* => fs is mounted with type "xfs" */
struct xfs_space *xfs_space_of(struct fs *fs);
struct xfs_log *xfs_log_of(struct fs *fs);

#endif

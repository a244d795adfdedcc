/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * table.c - the back ends there are, in the order they are listed to users
 */
#include "fsbackends/base/base.h"

extern const struct fs_backend xfs_backend, ext4_backend;

const struct fs_backend *const fs_backends[] = {
	&xfs_backend,
	&ext4_backend,
	NULL,
};

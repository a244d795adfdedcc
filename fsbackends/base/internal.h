/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * internal.h - what the files of base/ share and no back end sees
 */
#ifndef FSBACKENDS_BASE_INTERNAL_H
#define FSBACKENDS_BASE_INTERNAL_H

#include "base.h"

/* The longest file (D1). */
#define FS_MAX_SIZE (1ull << 62)

/* ---- file.c ---- */

bool fs_is_readonly(const struct file *file);
/* For everything that moves i_size down or the space under the cache: i_rwsem, invalidate_lock. */
void fs_lock_alone(struct inode *inode);
void fs_unlock_alone(struct inode *inode);
/*
 * Make the file longer by a hole (G8).  A failure leaves the size as it was.
 * => fs_lock_alone()
 */
int fs_grow(struct inode *inode, uint64_t size);

/* ---- namespace.c ---- */

int fs_names_start(struct fs *fs);
/* Evict and free every inode, the root too.  => nobody uses the file system any more */
void fs_names_finish(struct fs *fs);

/* The file at path with one more user.  flags: FS_OPEN_CREATE, FS_OPEN_EXCLUSIVE. */
int fs_names_get(struct fs *fs, const char *path, unsigned int flags, struct fs_inode **inode);
/* One user less; the last user of a file without a name frees it. */
void fs_names_put(struct fs_inode *inode);

#endif

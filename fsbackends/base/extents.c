/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * extents.c - the records of a file, one by one and counted
 */
#include "base.h"

#include <errno.h>
#include <string.h>

int fs_next_extent(struct file *file, uint64_t pos, struct fs_extent *extent)
{
	struct inode *inode = file->f_inode;

	return fs_of(inode)->backend->next_extent(fs_inode_from(inode), pos, extent);
}

/*
 * Does the extent go on where the last one ended, or where it would be had the file no hole
 * between the two (EC1)?  A delayed one has the address 0 (EC2).
 */
static bool extent_continues(const struct fs_extent *last, const struct fs_extent *extent)
{
	if (extent->pos == 0)
		return true;
	if (extent->addr == last->addr + last->len)
		return true;
	return extent->addr == last->addr + (extent->pos - last->pos);
}

int fs_count_extents(struct file *file, struct fs_extent_counts *counts)
{
	struct fs_extent_counts sum = {0, 0};
	struct fs_extent last;
	struct fs_extent extent;
	uint64_t pos = 0;
	int err;

	memset(&last, 0, sizeof(last));
	while ((err = fs_next_extent(file, pos, &extent)) == 0) {
		assert(extent.len > 0);
		assert(extent.pos + extent.len > pos);
		if (!extent_continues(&last, &extent) || sum.merged == 0)
			sum.merged++;
		sum.unmerged++;
		last = extent;
		pos = extent.pos + extent.len;
	}
	if (err != -ENOENT)
		return err;
	*counts = sum;
	return 0;
}

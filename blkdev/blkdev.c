/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * blkdev.c - what every device has, and stacks of devices
 */
#include "internal.h"

#include <errno.h>

int blkdev_check_size(uint64_t size)
{
	/* Host offsets and pointer differences are signed. */
	if (size == 0 || size > INT64_MAX || size % BLKDEV_SECTOR)
		return -EINVAL;
	return 0;
}

void blkdev_init(struct block_device *bdev, const struct blkdev_ops *ops, const char *name,
		 uint64_t size)
{
	*bdev = (struct block_device){
		.ops = ops,
		.name = name,
		.size = size,
		.logical_block = BLKDEV_SECTOR,
	};
}

void blkdev_init_wrapper(struct block_device *bdev, const struct blkdev_ops *ops, const char *name,
			 struct block_device *below)
{
	*bdev = *below;
	bdev->ops = ops;
	bdev->name = name;
	bdev->below = below;
}

void blkdev_destroy(struct block_device *bdev)
{
	while (bdev) {
		struct block_device *below = bdev->below;

		bdev->ops->destroy(bdev);
		bdev = below;
	}
}

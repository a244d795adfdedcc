/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * null.c - a device that accepts writes and forgets them; reads give zeroes
 */
#include "internal.h"

#include <errno.h>
#include <string.h>

struct null_device {
	struct block_device bdev;
	struct bio_queue queue;
};

static int null_serve(struct block_device *bdev, struct bio *bio)
{
	(void)bdev;
	if (bio->op == BIO_READ)
		for (unsigned int i = 0; i < bio->nr_vecs; i++)
			memset(bio->vecs[i].base, 0, bio->vecs[i].len);
	return 0;
}

static void null_submit(struct block_device *bdev, struct bio *bio)
{
	bio_queue_submit(&container_of(bdev, struct null_device, bdev)->queue, bio);
}

static void null_destroy(struct block_device *bdev)
{
	struct null_device *null = container_of(bdev, struct null_device, bdev);

	bio_queue_stop(&null->queue);
	env_free(null);
}

static const struct blkdev_ops null_ops = {
	.submit = null_submit,
	.destroy = null_destroy,
};

int blkdev_null_create(struct block_device **bdev, uint64_t size, unsigned int workers)
{
	struct null_device *null;
	int err;

	err = blkdev_check_size(size);
	if (err)
		return err;
	null = env_zalloc(sizeof(*null));
	if (!null)
		return -ENOMEM;
	blkdev_init(&null->bdev, &null_ops, "null", size);
	err = bio_queue_start(&null->queue, &null->bdev, null_serve, workers);
	if (err) {
		env_free(null);
		return err;
	}
	*bdev = &null->bdev;
	return 0;
}

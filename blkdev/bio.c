/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * bio.c - a request: a vector of memory, one device range
 *
 * bio_submit() looks at the request once, at the top of a stack of devices: what no device
 * could serve ends there with an error, and no device sees it.
 */
#include <iomap/blkdev.h>

#include <iomap/env.h>

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

/* ---- the vector ---- */

void bio_init(struct bio *bio, struct block_device *bdev, enum bio_op op, enum bio_kind kind,
	      uint64_t addr)
{
	bio->bdev = bdev;
	bio->op = op;
	bio->kind = kind;
	bio->status = 0;
	bio->addr = addr;
	bio->len = 0;
	bio->vecs = bio->inline_vecs;
	bio->nr_vecs = 0;
	bio->max_vecs = BIO_INLINE_VECS;
	bio->end_io = NULL;
	bio->private_data = NULL;
	bio->next = NULL;
	bio->device_word = 0;
}

void bio_uninit(struct bio *bio)
{
	if (bio->vecs != bio->inline_vecs)
		env_free(bio->vecs);
	bio->vecs = bio->inline_vecs;
	bio->nr_vecs = 0;
	bio->max_vecs = BIO_INLINE_VECS;
}

static int vecs_grow(struct bio *bio)
{
	unsigned int max_vecs = bio->max_vecs * 2;
	struct bio_vec *vecs;

	if (bio->max_vecs > UINT_MAX / 2)
		return -ENOMEM;
	vecs = env_alloc(max_vecs * sizeof(*vecs));
	if (!vecs)
		return -ENOMEM;

	memcpy(vecs, bio->vecs, bio->nr_vecs * sizeof(*vecs));
	if (bio->vecs != bio->inline_vecs)
		env_free(bio->vecs);
	bio->vecs = vecs;
	bio->max_vecs = max_vecs;
	return 0;
}

static bool continues_last_vec(const struct bio *bio, const void *base)
{
	const struct bio_vec *last;

	if (bio->nr_vecs == 0)
		return false;
	last = &bio->vecs[bio->nr_vecs - 1];
	return (const char *)last->base + last->len == base;
}

int bio_add(struct bio *bio, void *base, size_t len)
{
	int err;

	if (len == 0)
		return 0;
	if (continues_last_vec(bio, base)) {
		bio->vecs[bio->nr_vecs - 1].len += len;
	} else {
		if (bio->nr_vecs == bio->max_vecs) {
			err = vecs_grow(bio);
			if (err)
				return err;
		}
		bio->vecs[bio->nr_vecs++] = (struct bio_vec){.base = base, .len = len};
	}
	bio->len += len;
	return 0;
}

/* ---- submission ---- */

/* Only for use inside assert(). */
static bool bio_ok(const struct bio *bio)
{
	uint64_t len = 0;

	assert(bio->bdev);
	assert(bio->end_io);
	assert(bio->nr_vecs <= bio->max_vecs);
	for (unsigned int i = 0; i < bio->nr_vecs; i++)
		len += bio->vecs[i].len;
	assert(len == bio->len);
	return true;
}

/* Could the device serve it?  0, or the error it ends with. */
static int bio_check(const struct bio *bio)
{
	const struct block_device *bdev = bio->bdev;

	if ((unsigned int)bio->op >= BIO_NR_OPS || (unsigned int)bio->kind >= BIO_NR_KINDS)
		return -EINVAL;
	if (bio->op == BIO_FLUSH)
		return bio->len == 0 ? 0 : -EINVAL;
	if (bio->len == 0)
		return -EINVAL;
	if (bio->addr % bdev->logical_block || bio->len % bdev->logical_block)
		return -EINVAL;
	if (bio->len > bdev->size || bio->addr > bdev->size - bio->len)
		return -EIO;
	return 0;
}

void bio_submit(struct bio *bio)
{
	int err;

	assert(bio_ok(bio));

	err = bio_check(bio);
	if (err)
		bio_endio(bio, err);
	else
		bio->bdev->ops->submit(bio->bdev, bio);
}

void bio_endio(struct bio *bio, int status)
{
	assert(status <= 0);

	bio->status = status;
	bio->end_io(bio);
}

static void complete_submitter(struct bio *bio)
{
	env_complete(bio->private_data);
}

int bio_submit_wait(struct bio *bio)
{
	struct env_completion done;

	env_completion_init(&done);
	bio->end_io = complete_submitter;
	bio->private_data = &done;
	bio_submit(bio);
	env_completion_wait(&done);
	return bio->status;
}

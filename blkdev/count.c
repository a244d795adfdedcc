/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * count.c - counts each request on its way down and each error on its way up
 *
 * Figures and notes share one lock, held for a few instructions twice a request, so that a
 * reader of the figures sees requests whole.  A bio below has a note of this device; notes
 * come from a pool, which grows while there are not enough and keeps what it has.
 */
#include "internal.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define NOTES_PER_BLOCK 64

struct count_note {
	struct bio_note note;
	struct count_device *count;
	struct count_note *next; /* in the pool */
};

struct note_block {
	struct note_block *next;
	struct count_note notes[NOTES_PER_BLOCK];
};

/*
 * How a member is protected:
 *	L	lock
 */
struct count_device {
	struct block_device bdev;
	struct env_mutex lock;
	struct blkdev_count figures; /* [L] */
	struct count_note *free_notes; /* [L] */
	struct note_block *blocks; /* [L] all notes there are */
};

static struct count_device *count_of(struct block_device *bdev)
{
	return container_of(bdev, struct count_device, bdev);
}

/* ---- the pool ---- */

static void pool_add(struct count_device *count, struct note_block *block)
{
	block->next = count->blocks;
	count->blocks = block;
	for (unsigned int i = 0; i < NOTES_PER_BLOCK; i++) {
		struct count_note *note = &block->notes[i];

		note->count = count;
		note->next = count->free_notes;
		count->free_notes = note;
	}
}

static struct count_note *pool_take(struct count_device *count)
{
	struct count_note *note = count->free_notes;

	if (note)
		count->free_notes = note->next;
	return note;
}

/* The pool was empty: make more, without the lock held. */
static struct count_note *pool_grow_and_take(struct count_device *count)
{
	struct note_block *block = env_alloc(sizeof(*block));
	struct count_note *note;

	env_mutex_lock(&count->lock);
	if (block)
		pool_add(count, block);
	note = pool_take(count);
	env_mutex_unlock(&count->lock);
	return note;
}

/* ---- the figures ---- */

/* b, with len in [2^b, 2^(b+1)); len > 0. */
static unsigned int hist_bucket(uint64_t len)
{
	unsigned int bucket = 63 - (unsigned int)__builtin_clzll(len);

	return bucket < BLKDEV_HIST_BUCKETS ? bucket : BLKDEV_HIST_BUCKETS - 1;
}

static void figures_add(struct blkdev_count *figures, const struct bio *bio)
{
	figures->ios[bio->op][bio->kind]++;
	figures->bytes[bio->op][bio->kind] += bio->len;
	if (bio->kind != BIO_DATA)
		return;
	if (bio->op == BIO_WRITE)
		figures->write_hist[hist_bucket(bio->len)]++;
	else if (bio->op == BIO_READ)
		figures->read_hist[hist_bucket(bio->len)]++;
}

static void figures_add_error(struct blkdev_count *figures, const struct bio *bio)
{
	figures->errors[bio->op][bio->kind]++;
}

/* ---- a request ---- */

static void count_end_io(struct bio *bio)
{
	struct count_note *note = container_of(bio_note(bio), struct count_note, note);
	struct count_device *count = note->count;

	bio_restore(bio);
	env_mutex_lock(&count->lock);
	if (bio->status)
		figures_add_error(&count->figures, bio);
	note->next = count->free_notes;
	count->free_notes = note;
	env_mutex_unlock(&count->lock);
	bio->end_io(bio);
}

static void end_without_note(struct count_device *count, struct bio *bio)
{
	env_mutex_lock(&count->lock);
	figures_add_error(&count->figures, bio);
	env_mutex_unlock(&count->lock);
	bio_endio(bio, -ENOMEM);
}

static void count_submit(struct block_device *bdev, struct bio *bio)
{
	struct count_device *count = count_of(bdev);
	struct count_note *note;

	env_mutex_lock(&count->lock);
	figures_add(&count->figures, bio);
	note = pool_take(count);
	env_mutex_unlock(&count->lock);

	if (env_unlikely(!note))
		note = pool_grow_and_take(count);
	if (env_unlikely(!note)) {
		end_without_note(count, bio);
		return;
	}
	bio_intercept(bio, &note->note, count_end_io);
	blkdev_pass(bdev, bio);
}

/* ---- life ---- */

static void count_destroy(struct block_device *bdev)
{
	struct count_device *count = count_of(bdev);

	while (count->blocks) {
		struct note_block *block = count->blocks;

		count->blocks = block->next;
		env_free(block);
	}
	env_free(count);
}

static const struct blkdev_ops count_ops = {
	.submit = count_submit,
	.destroy = count_destroy,
};

int blkdev_count_create(struct block_device **bdev, struct block_device *below)
{
	struct count_device *count = env_zalloc(sizeof(*count));
	struct note_block *block = env_alloc(sizeof(*block));

	if (!count || !block) {
		env_free(block);
		env_free(count);
		return -ENOMEM;
	}
	blkdev_init_wrapper(&count->bdev, &count_ops, "count", below);
	env_spin_init(&count->lock, "blkdev count");
	pool_add(count, block);
	*bdev = &count->bdev;
	return 0;
}

void blkdev_count_read(struct block_device *bdev, struct blkdev_count *figures)
{
	struct count_device *count = count_of(bdev);

	assert(bdev->ops == &count_ops);

	env_mutex_lock(&count->lock);
	*figures = count->figures;
	env_mutex_unlock(&count->lock);
}

void blkdev_count_reset(struct block_device *bdev)
{
	struct count_device *count = count_of(bdev);

	assert(bdev->ops == &count_ops);

	env_mutex_lock(&count->lock);
	memset(&count->figures, 0, sizeof(count->figures));
	env_mutex_unlock(&count->lock);
}

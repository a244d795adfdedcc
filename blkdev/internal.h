/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * internal.h - what the devices share: checks, interception, a queue with workers
 */
#ifndef BLKDEV_INTERNAL_H
#define BLKDEV_INTERNAL_H

#include <iomap/blkdev.h>
#include <iomap/env.h>

#define BLKDEV_SECTOR 512

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* ---- blkdev.c ---- */

/* Can a device of our own have this size?  0, or -EINVAL. */
int blkdev_check_size(uint64_t size);

/* Fill bdev: a device on its own, or one over below with below's properties. */
void blkdev_init(struct block_device *bdev, const struct blkdev_ops *ops, const char *name,
		 uint64_t size);
void blkdev_init_wrapper(struct block_device *bdev, const struct blkdev_ops *ops, const char *name,
			 struct block_device *below);

/* A wrapper hands the bio down.  It was checked at the top. */
static inline void blkdev_pass(struct block_device *bdev, struct bio *bio)
{
	bdev->below->ops->submit(bdev->below, bio);
}

/* ---- interception ---- */

/*
 * How a wrapper sees the end of a bio: it keeps a note while the bio is below.
 *
 *	bio_intercept(bio, &mine->note, my_end_io);
 *	blkdev_pass(bdev, bio);
 *
 *	my_end_io:	note = bio_note(bio);
 *			bio_restore(bio);	before the note is reused
 *			bio->end_io(bio);	the wrapper above, or the submitter
 *
 * Notes of stacked wrappers nest.  A device that uses device_word in another way must put
 * it back before bio_endio().
 */
struct bio_note {
	void (*end_io)(struct bio *bio);
	uint64_t device_word;
};

static inline void bio_intercept(struct bio *bio, struct bio_note *note,
				 void (*end_io)(struct bio *bio))
{
	note->end_io = bio->end_io;
	note->device_word = bio->device_word;
	bio->end_io = end_io;
	bio->device_word = (uintptr_t)note;
}

static inline struct bio_note *bio_note(const struct bio *bio)
{
	return (struct bio_note *)(uintptr_t)bio->device_word;
}

static inline void bio_restore(struct bio *bio)
{
	const struct bio_note *note = bio_note(bio);

	bio->end_io = note->end_io;
	bio->device_word = note->device_word;
}

/* ---- a list of bios, oldest first, linked by bio->next ---- */

struct bio_list {
	struct bio *head;
	struct bio *tail; /* undefined if head is NULL */
};

static inline void bio_list_add(struct bio_list *list, struct bio *bio)
{
	bio->next = NULL;
	if (list->head)
		list->tail->next = bio;
	else
		list->head = bio;
	list->tail = bio;
}

/* NULL if it is empty. */
static inline struct bio *bio_list_pop(struct bio_list *list)
{
	struct bio *bio = list->head;

	if (bio) {
		list->head = bio->next;
		bio->next = NULL;
	}
	return bio;
}

/* ---- queue.c ---- */

/*
 * Serve bios: by the submitter itself, or by worker threads in order of arrival.
 *
 * How a member is protected:
 *	I	set at creation, never changed
 *	L	lock
 */
struct bio_queue {
	struct block_device *bdev; /* [I] */
	int (*serve)(struct block_device *bdev, struct bio *bio); /* [I] returns the status */
	struct env_thread **workers; /* [I] */
	unsigned int nr_workers; /* [I] 0: the submitter serves */
	struct env_mutex lock;
	struct bio_list bios; /* [L] */
	unsigned int nr_idle; /* [L] workers asleep, or about to be */
	bool stop; /* [L] */
	uint32_t seq; /* [L, read without it as a futex] changes with bios and stop */
};

/* 0, or a negative errno with nothing started. */
int bio_queue_start(struct bio_queue *queue, struct block_device *bdev,
		    int (*serve)(struct block_device *bdev, struct bio *bio),
		    unsigned int nr_workers);
void bio_queue_submit(struct bio_queue *queue, struct bio *bio);
/* The queue is empty.  Returns when the workers are gone. */
void bio_queue_stop(struct bio_queue *queue);

#endif

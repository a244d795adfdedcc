/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * model.h - when a modelled device serves each request
 *
 *	model_queue_init(&queue, &profile, size);
 *	io = model_io_create(&profile, bio);
 *	while (model_queue_submit(&queue, io, now))
 *		;				one request after another
 *	...
 *	model_queue_advance(&queue, now);
 *	ios = model_queue_take_done(&queue);	completed by now, linked by io->next
 *	model_queue_next(&queue);		when to look again
 *
 * Nothing here waits, locks or reads a clock: the outcome depends on the order of requests
 * and the times given alone.
 */
#ifndef BLKDEV_MODEL_H
#define BLKDEV_MODEL_H

#include <iomap/blkdev.h>

/* ---- one request ---- */

struct model_cost {
	uint64_t service_ns; /* of the whole device, without seek */
	uint64_t latency_ns;
	uint64_t media_read; /* bytes */
	uint64_t media_written;
	uint64_t partial_units;
};

/* What a request costs, wherever the head is. */
struct model_cost model_cost(const struct blkdev_profile *profile, enum bio_op op, uint64_t addr,
			     uint64_t len);

/* Move the head of a disk of that size to where op begins; 0 if it is there. */
uint64_t model_seek_ns(const struct blkdev_profile *profile, uint64_t size, enum bio_op op,
		       uint64_t from, uint64_t to);

/* Copy len bytes from or to memory while that many CPUs copy, this one among them. */
uint64_t model_copy_ns(const struct blkdev_profile *profile, enum bio_op op, uint64_t len,
		       unsigned int nr_copying);

/* Count a request of that cost. */
void model_stats_add(struct blkdev_model_stats *stats, const struct model_cost *cost);

/* ---- all requests of a device ---- */

struct model_io;

struct model_request {
	struct model_request *next; /* in one of the queue's lists */
	struct model_io *first, *last; /* its own and those added to it, linked by io->next */
	uint64_t addr, len;
};

/*
 * A bio in the device: one request, or several if it is longer than the longest.  Only a bio of
 * one request is ever added to another's, so an io is in no more than one list.
 */
struct model_io {
	struct model_io *next;
	struct bio *bio;
	uint64_t nr_submitted, nr_left; /* of its requests: so far; not completed */
	uint64_t nr;
	struct model_request requests[];
};

/* NULL without memory.  env_free() it when it is done. */
struct model_io *model_io_create(const struct blkdev_profile *profile, struct bio *bio);

struct model_flight {
	uint64_t done_ns;
	uint64_t nr; /* order of begin; decides between equal times */
	struct model_request *request;
};

struct model_queue {
	const struct blkdev_profile *profile;
	uint64_t size; /* bytes of the device */
	uint64_t now_ns;

	/* without a tag, oldest first */
	struct model_request *waiting;
	struct model_request **waiting_end;

	/* of a disk: with a tag and not yet begun, oldest first */
	struct model_request *window;
	struct model_request **window_end;
	uint32_t nr_window;
	unsigned int nr_overtakes; /* of the oldest, by later requests */

	uint64_t nr_waiting; /* requests not begun, with a tag and without */

	/* data being written: requests not completed, their bytes [read as atomics anywhere] */
	uint64_t nr_data;
	uint64_t data_bytes;

	/* begun and not completed: a heap, the first one to complete on top */
	struct model_flight *flights;
	uint32_t nr_flights;

	/* completed, oldest first, until they are taken */
	struct model_io *done;
	struct model_io **done_end;

	uint64_t head_addr; /* of a disk: the end of the last request begun */
	uint64_t free_ns[BLKDEV_MODEL_CHANNELS_MAX]; /* when a channel has served what it has */
	uint64_t nr_begun; /* since creation */
	struct blkdev_model_stats stats;
};

/* Is there such a device?  0, or -EINVAL. */
int model_check_profile(const struct blkdev_profile *profile);

/* The profile must stay.  0, or -ENOMEM. */
int model_queue_init(struct model_queue *queue, const struct blkdev_profile *profile,
		     uint64_t size);
void model_queue_uninit(struct model_queue *queue);

/*
 * The next request of the io; false if it was the last, and the io may be done and taken now.
 * Times never go back; one before the last given counts as that one.
 */
bool model_queue_submit(struct model_queue *queue, struct model_io *io, uint64_t now_ns);
void model_queue_advance(struct model_queue *queue, uint64_t now_ns);
/* NULL if there is none. */
struct model_io *model_queue_take_done(struct model_queue *queue);
/* When something happens if nothing is submitted; not after now: something is done. */
uint64_t model_queue_next(const struct model_queue *queue);

/* Forget the figures, keep the requests. */
void model_queue_reset_stats(struct model_queue *queue);
bool model_queue_is_idle(const struct model_queue *queue);

#endif

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fault.h - what the files of the fault device share
 *
 *	fault.c		rules, and what becomes of a request
 *	fault-later.c	the device's thread: what is done later, or must wait
 *	fault-tear.c	a part of a write reaches the device
 *	fault-power.c	a volatile write cache, and the power cut
 */
#ifndef BLKDEV_FAULT_H
#define BLKDEV_FAULT_H

#include "internal.h"

struct fault_device;

/* A bio on which the thread shall act. */
struct fault_job {
	struct fault_job *next;
	struct bio *bio;
	uint64_t due_ns;
	uint64_t window; /* of a rule that reorders; 0: none */
	bool tear; /* write a part and end it; else let it go on */
	uint64_t seed; /* of the choice of that part */
	int error; /* how a torn one ends */
};

/* A request below, while there is a write cache; a write stays until a flush. */
struct fault_record {
	struct bio_note note;
	struct fault_device *fault;
	struct fault_record *older;
	struct bio *bio; /* NULL: completed */
	struct bio read; /* of a write: fetches what it overwrites */
	enum bio_op op;
	uint64_t addr, len;
	uint64_t done_nr; /* of a write: when it completed; of a flush: what it covers */
	unsigned char *old; /* of a write: what it overwrote */
};

enum fault_power {
	POWER_ON,
	POWER_GOING, /* requests fail; those that were in flight are not settled */
	POWER_OFF,
};

/*
 * How a member is protected:
 *	I	set before the first request, then constant
 *	L	lock
 *	T	the thread's, once power is off
 */
struct fault_device {
	struct block_device bdev;
	struct env_mutex lock;
	struct fault_rule *rules; /* [L] in order of addition, with their counts */
	struct fault_rule **rules_end; /* [L] where the next one is linked */
	struct env_rng rng; /* [L] of rules without a seed, and of the power cut */
	struct bio_list held; /* [L] */
	unsigned int nr_held; /* [L] */
	uint64_t nr_hits; /* [L] */

	struct env_thread *thread; /* [L] NULL until something needs it */
	struct fault_job *jobs; /* [L] by time, then in order of arrival */
	uint64_t nr_windows; /* [L] */
	bool stop; /* [L] */
	uint32_t seq; /* [L, read without it as a futex] changes to wake the thread */

	bool write_cache; /* [I] */
	enum fault_power power; /* [L] */
	struct fault_record *records; /* [L; T] the newest write first */
	uint64_t nr_in_flight; /* [L] below, with a record */
	uint64_t nr_done; /* [L] writes completed, ever */
	struct bio_list caught; /* [L; T] above the device when the power went: torn, then failed */
	struct bio_list returned; /* [L; T] below when it went: failed after all is settled */
	unsigned char *settled; /* [T] a bit a sector: its fate is known */
	size_t settled_size; /* [I] bytes mapped */
	struct env_waitq power_wait; /* power is off */
};

/* ---- fault.c ---- */

struct fault_device *fault_of(struct block_device *bdev);

/* Let a bio go on to the device below. */
void fault_send(struct fault_device *fault, struct bio *bio);

/* ---- fault-later.c ---- */

/* 0, or what thread creation says; nothing if it runs. */
int fault_thread_start(struct fault_device *fault);
void fault_thread_stop(struct fault_device *fault);
/* With the lock held: something has changed.  Then fault_thread_wake() without it. */
void fault_thread_poke(struct fault_device *fault);
void fault_thread_wake(struct fault_device *fault);
/* With the lock held. */
void fault_job_add(struct fault_device *fault, struct fault_job *job);
/*
 * With the lock held: the window is as large as it gets, let it go now.  Members change
 * places as they join, so that their order is chosen already.
 */
void fault_window_close(struct fault_device *fault, uint64_t window);
void fault_window_join(struct fault_device *fault, struct fault_job *job, struct env_rng *rng);

/* ---- fault-tear.c ---- */

/* Write a part of the bio, never all of it, and wait for that. */
void fault_tear(struct fault_device *fault, const struct bio *bio, uint64_t seed);
/* Write contiguous memory, and wait. */
void fault_write_sectors(struct fault_device *fault, uint64_t addr, void *memory, uint64_t len);

/* ---- fault-power.c ---- */

/* There is a write cache: send the bio down with a record. */
void fault_power_send(struct fault_device *fault, struct bio *bio);
/* With the lock held: from now on nothing is done.  Then fault_thread_wake(). */
void fault_power_go(struct fault_device *fault);
/* With the lock held: is there nothing below any more? */
bool fault_power_can_settle(const struct fault_device *fault);
/* By the thread, with the lock held, which is dropped meanwhile. */
void fault_power_settle(struct fault_device *fault);
void fault_power_uninit(struct fault_device *fault);

#endif

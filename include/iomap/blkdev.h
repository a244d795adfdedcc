/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * blkdev.h - block devices: where bytes go, and where they are counted
 *
 *	struct block_device *ram, *dev;
 *	struct bio bio;
 *
 *	blkdev_ram_create(&ram, 1 << 30, 0);
 *	blkdev_count_create(&dev, ram);		takes ram over
 *	bio_init(&bio, dev, BIO_WRITE, BIO_DATA, pos);
 *	bio_add(&bio, memory, 4096);
 *	err = bio_submit_wait(&bio);
 *	bio_uninit(&bio);
 *	blkdev_destroy(dev);			and ram with it
 *
 * A request is one bio: a vector of memory, one device range.  The device reads or writes
 * that memory itself (no bounce copies) and calls bio->end_io once, in any thread, maybe
 * before the submission returns.
 */
#ifndef IOMAP_BLKDEV_H
#define IOMAP_BLKDEV_H

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct block_device;

enum bio_op {
	BIO_READ,
	BIO_WRITE,
	BIO_FLUSH, /* make completed writes durable; no memory, no range */
	BIO_NR_OPS
};

/* What the bytes are for; counted apart (CB5). */
enum bio_kind {
	BIO_DATA, /* file data */
	BIO_META, /* metadata in place */
	BIO_JOURNAL, /* log, journal, checkpoint */
	BIO_GC, /* data moved by cleaning */
	BIO_NR_KINDS
};

struct bio_vec {
	void *base;
	size_t len;
};

#define BIO_INLINE_VECS 4

struct bio {
	struct block_device *bdev;
	enum bio_op op;
	enum bio_kind kind;
	int status; /* 0 or a negative errno; valid in end_io and after */
	uint64_t addr; /* device byte address, a multiple of the device's logical block */
	uint64_t len; /* bytes, the sum of the vector */
	struct bio_vec *vecs;
	unsigned int nr_vecs;
	unsigned int max_vecs;
	void (*end_io)(struct bio *bio); /* takes the bio back; must not wait for other I/O */
	void *private_data; /* the submitter's */
	struct bio *next; /* the device's while the bio is submitted */
	uint64_t device_word; /* the same: a wrapper's note about this bio */
	struct bio_vec inline_vecs[BIO_INLINE_VECS];
};

/* An empty request at device byte address addr. */
void bio_init(struct bio *bio, struct block_device *bdev, enum bio_op op, enum bio_kind kind,
	      uint64_t addr);
/* Frees the vector, not the memory it names. */
void bio_uninit(struct bio *bio);
/* Append memory; joins the last piece if adjacent.  0, or -ENOMEM with the bio unchanged. */
int bio_add(struct bio *bio, void *base, size_t len);
/* Hand the bio to its device; end_io follows exactly once, whatever happens. */
void bio_submit(struct bio *bio);
/* Submit and wait; returns the status.  end_io and private_data are used by the call. */
int bio_submit_wait(struct bio *bio);
/* For devices: the bio is finished with status. */
void bio_endio(struct bio *bio, int status);

struct blkdev_ops {
	/* Required.  Takes the bio; must end it once with bio_endio(), sooner or later. */
	void (*submit)(struct block_device *bdev, struct bio *bio);
	/* Required.  No bio is in flight.  Frees the device (not what is below it). */
	void (*destroy)(struct block_device *bdev);
};

/* Embedded first in each device's own struct; set by its constructor, then constant. */
struct block_device {
	const struct blkdev_ops *ops;
	const char *name; /* "ram", "count", ... */
	struct block_device *below; /* of a wrapper, else NULL */
	uint64_t size; /* bytes */
	uint32_t logical_block; /* bytes; addresses and lengths are multiples of it */
	uint32_t io_max; /* bytes a reader may ask for beyond the readahead limit, 0: none */
	bool rotational;
	bool stable_writes; /* memory must not change while it is written */
};

/* Destroy a stack of devices from its top.  No bio may be in flight. */
void blkdev_destroy(struct block_device *bdev);

/*
 * Memory as a device.  workers = 0: the copy is done by the submitter and end_io is called
 * before bio_submit() returns; else that many threads serve one queue in order of arrival.
 * Memory is taken as it is written to; never-written bytes read as zero (or poison, below).
 */
int blkdev_ram_create(struct block_device **bdev, uint64_t size, unsigned int workers);
/* Every byte not yet written reads as `byte`.  Only on a ram device, before its first I/O. */
void blkdev_ram_poison(struct block_device *bdev, unsigned char byte);

/* Accepts writes and forgets them; reads give zeroes.  workers as above. */
int blkdev_null_create(struct block_device **bdev, uint64_t size, unsigned int workers);

/*
 * A host file or block device, created or grown to size if it is a regular file and shorter.
 * O_DIRECT where the host allows and the memory is aligned, else ordinary I/O.  workers >= 1
 * threads; a bio with more pieces than one system call takes is still one request.
 * 0, or -errno of the host, -EINVAL for an impossible size.
 */
int blkdev_file_open(struct block_device **bdev, const char *path, uint64_t size,
		     unsigned int workers);

/* ---- count: the only source of device figures --------------------------------------- */

#define BLKDEV_HIST_BUCKETS 32

struct blkdev_count {
	uint64_t ios[BIO_NR_OPS][BIO_NR_KINDS]; /* requests submitted */
	uint64_t bytes[BIO_NR_OPS][BIO_NR_KINDS];
	uint64_t errors[BIO_NR_OPS][BIO_NR_KINDS]; /* requests that ended with an error */
	/* data writes by size: bucket b counts sizes in [2^b, 2^(b+1)) bytes */
	uint64_t write_hist[BLKDEV_HIST_BUCKETS];
	uint64_t read_hist[BLKDEV_HIST_BUCKETS];
};

int blkdev_count_create(struct block_device **bdev, struct block_device *below);
void blkdev_count_read(struct block_device *bdev, struct blkdev_count *count);
void blkdev_count_reset(struct block_device *bdev);

/* ---- fault: I/O that fails, comes late, or is lost ----------------------------------- */

/* What happens to a request that a rule hits. */
enum blkdev_fault_action {
	/* It ends with error at once, without having reached the device; error 0: it is held. */
	BLKDEV_FAULT_STOP,
	/* It goes on after delay_ns. */
	BLKDEV_FAULT_DELAY,
	/*
	 * It waits until there are `window` of them, or delay_ns after the first; then all go on
	 * in an order that the seed chooses.
	 */
	BLKDEV_FAULT_REORDER,
	/* Writes only.  Not all of its sectors reach the device, then it ends with error, or 0. */
	BLKDEV_FAULT_TEAR,
	/* Writes and flushes only.  It is reported done, and nothing was done. */
	BLKDEV_FAULT_LOSE,
	/* The power goes before it is done, see blkdev_fault_power_cut(). */
	BLKDEV_FAULT_CUT,
};

/*
 * Which requests a rule hits, and how.  op/kind: -1 for any.  The request must touch
 * [addr, addr + len) (len 0: anywhere).  Of these the seed takes one in `chance` (0, 1: all).
 * after: let that many of them pass first; count: then hit that many (0: all that follow).
 */
struct blkdev_fault_rule {
	int op;
	int kind;
	uint64_t addr;
	uint64_t len;
	uint64_t after;
	uint64_t count;
	int error; /* 0 or a negative errno */
	enum blkdev_fault_action action;
	uint64_t delay_ns; /* of env_clock_ns(); needed to reorder */
	unsigned int window; /* requests; at least 2 to reorder */
	uint64_t chance;
	uint64_t seed; /* of this rule's choices; 0: they are drawn from the device's */
};

int blkdev_fault_create(struct block_device **bdev, struct block_device *below);
/* The device's generator starts anew; it starts with 1. */
void blkdev_fault_seed(struct block_device *bdev, uint64_t seed);
/*
 * Rules are tried in the order they were added; the first that hits decides.  0; -EINVAL for an
 * impossible rule; -ENOMEM; or the error of the device's thread, which does what cannot be done
 * at once, if it could not start.  By one thread at a time.
 */
int blkdev_fault_add(struct block_device *bdev, const struct blkdev_fault_rule *rule);
/* Forget all rules.  What is held stays held, what is late goes when its time comes. */
void blkdev_fault_clear(struct block_device *bdev);
/* Let the held requests go on to the device below, oldest first; returns how many. */
unsigned int blkdev_fault_release(struct block_device *bdev);
/* Requests hit so far; requests held now. */
uint64_t blkdev_fault_hits(struct block_device *bdev);
unsigned int blkdev_fault_held(struct block_device *bdev);

/*
 * From now on the device has a volatile write cache: a power cut may undo each write that
 * completed and that no later flush made durable.  A flush that completes covers the writes
 * that had completed when it was submitted.  Before the first request; each write is preceded
 * by a read of what it overwrites, of its kind.  0, -ENOMEM, or the error of a thread that did
 * not start.
 */
int blkdev_fault_write_cache(struct block_device *bdev);
/*
 * The power goes.  New requests fail with -EIO.  Those that the device has, also held and late
 * ones, are written in part, at the granularity of a sector, by the seed; then they fail with
 * -EIO.  With a write cache, writes it had accepted are kept, undone or undone in part by the
 * seed; overlapping ones leave each sector as some write left it.  Without one, completed
 * writes are durable and those at the device below end as they would have.
 *
 * Returns before all that has happened: 0, or the error of a thread that could not start.
 */
int blkdev_fault_power_cut(struct block_device *bdev);
/* Waits until the cut is over; what is on the device then is durable, and requests are served. */
void blkdev_fault_power_on(struct block_device *bdev);
bool blkdev_fault_power_is_off(struct block_device *bdev);

/* ---- model: a device that takes the time of a real one ------------------------------- */

#define BLKDEV_MODEL_CHANNELS_MAX 64

/*
 * What a device is like.  A request of b bytes keeps the device busy for
 *
 *	max(b / bandwidth, 1 / IOPS)
 *
 * and completes latency_ns after that.  Bandwidth and IOPS are those of the whole device;
 * each of its channels gives an equal share.  0 means no limit, unless it says otherwise.
 */
struct blkdev_profile {
	const char *name;
	uint32_t channels; /* requests served at once; 1 .. BLKDEV_MODEL_CHANNELS_MAX */
	uint32_t queue_depth; /* tags: requests in the device; 1 .. 65536 */
	/*
	 * Bytes of the longest request, a multiple of 512, 0: any number.  A longer bio becomes
	 * several requests, each with a tag, and completes with the last of them.  Not of memory.
	 */
	uint64_t max_request;
	/*
	 * Data being written in the device and waiting for a tag: who submits more waits in
	 * bio_submit(), in order of arrival, until it is less.  0: no limit.
	 */
	uint64_t queue_bytes;
	uint32_t queue_requests; /* the same as a number of requests, before any are merged */
	bool protected_cache; /* what it has survives a power cut: a flush is done at once */
	uint64_t latency_ns; /* of each request, while its channel serves others */
	uint64_t read_bandwidth, write_bandwidth; /* bytes a second */
	uint64_t read_iops, write_iops; /* requests a second; a flush counts as a write */
	/*
	 * Bytes of a piece.  A longer request is spread over as many channels as it has pieces;
	 * 0: every request is served by one channel.
	 */
	uint32_t stripe;
	/*
	 * Bytes the medium writes at a time, 0: any number.  A write that covers a unit only in
	 * part has the device read that unit first, one latency more, and write it whole.
	 */
	uint32_t unit;
	/*
	 * One head (channels must be 1), which moves unless a request begins where the one before
	 * it ended: seek_min_ns .. seek_max_ns by the square root of the distance, then half a
	 * rotation.  The requests in the device are served by rising address, again and again;
	 * the oldest is overtaken 4 * queue_depth times at most.  A bio that continues one of them
	 * is added to it, up to max_request: without that, none is.
	 */
	bool rotational;
	uint64_t seek_min_ns, seek_max_ns, rotation_ns;
	/*
	 * The head may also stay on its track and let a gap ahead of it pass, at the bandwidth
	 * above: it does so wherever that is sooner.
	 */
	bool passes_gaps;
	/*
	 * Memory: there is no queue, the submitter copies before bio_submit() returns.  A CPU
	 * copies cpu_bandwidth bytes a second while all together do not exceed the bandwidth
	 * above.
	 */
	bool synchronous;
	uint64_t cpu_bandwidth;
};

/* The profile of that name, or NULL. */
const struct blkdev_profile *blkdev_profile_find(const char *name);
/* Names of all profiles: those of i = 0, 1, ...; then NULL. */
const char *blkdev_profile_name(unsigned int i);

/*
 * Give each request the time the profile says, counted by env_clock_ns(); then it goes to the
 * device below, which moves the data and ends it.  What is not completed has not reached the
 * device below.  Requests without a tag wait in order of submission.  A thread of the device
 * completes requests, one after another, and calls end_io if the device below has no threads.
 * How late that thread is does not change the times of later requests.  A bio for which there is
 * no memory ends with -ENOMEM.
 *
 * A synchronous device has no thread: it charges the time to the submitter with env_cpu(),
 * which is nothing on the host, where a copy takes its own time.
 *
 * The profile is copied, its name is not.  0, -ENOMEM, -EINVAL for an impossible profile, or
 * the error of a thread that could not start; below is taken over only with 0.
 */
int blkdev_model_create(struct block_device **bdev, struct block_device *below,
			const struct blkdev_profile *profile);

struct blkdev_model_stats {
	uint64_t ios; /* requests whose service has begun; a bio may be several, or part of one */
	uint64_t merged; /* bios added to a request that was there */
	uint64_t media_read; /* bytes: what was asked for, and units read to be written */
	uint64_t media_written; /* bytes: whole units if there are units */
	uint64_t partial_units; /* units that a write covered only in part */
	uint64_t queue_wait_ns; /* sum over requests, from submission to begin of service */
	uint64_t queue_max; /* the most requests submitted and not completed */
	uint64_t seeks; /* requests that did not begin where the head was */
	uint64_t seek_ns; /* of these: moving, waiting for the place to come, passing a gap */
	uint32_t channels; /* of the profile */
	/* service given out to each channel, also what is still to come; one of memory: copying */
	uint64_t busy_ns[BLKDEV_MODEL_CHANNELS_MAX];
};

void blkdev_model_read(struct block_device *bdev, struct blkdev_model_stats *stats);
void blkdev_model_reset(struct block_device *bdev);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

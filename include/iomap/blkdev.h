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

/* ---- fault: I/O that fails, or is held ---------------------------------------------- */

/*
 * Which requests a rule hits.  op/kind: -1 for any.  The request must touch [addr, addr + len)
 * (len 0: anywhere).  after: let that many matching requests pass first; count: then hit that
 * many (0: all that follow).
 */
struct blkdev_fault_rule {
	int op;
	int kind;
	uint64_t addr;
	uint64_t len;
	uint64_t after;
	uint64_t count;
	int error; /* negative errno; 0: hold the request instead of failing it */
};

int blkdev_fault_create(struct block_device **bdev, struct block_device *below);
/* Rules are tried in the order they were added; the first that hits decides. */
int blkdev_fault_add(struct block_device *bdev, const struct blkdev_fault_rule *rule);
/* Forget all rules.  Held requests stay held. */
void blkdev_fault_clear(struct block_device *bdev);
/* Let the held requests go on to the device below, oldest first; returns how many. */
unsigned int blkdev_fault_release(struct block_device *bdev);
/* Requests hit so far; requests held now. */
uint64_t blkdev_fault_hits(struct block_device *bdev);
unsigned int blkdev_fault_held(struct block_device *bdev);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

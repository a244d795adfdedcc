/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fault-tear.c - a write of which only some sectors reach the device
 *
 * Half of the torn writes stop somewhere, the others lack sectors anywhere.
 */
#include "fault.h"

/* ---- a part of a bio ---- */

/* Bytes [off, off + len) of the bio's memory, appended to part; false: no memory. */
static bool copy_vecs(struct bio *part, const struct bio *bio, uint64_t off, uint64_t len)
{
	for (unsigned int i = 0; i < bio->nr_vecs && len > 0; i++) {
		const struct bio_vec *vec = &bio->vecs[i];
		uint64_t n;

		if (off >= vec->len) {
			off -= vec->len;
			continue;
		}
		n = vec->len - off < len ? vec->len - off : len;
		if (bio_add(part, (char *)vec->base + off, n))
			return false;
		off = 0;
		len -= n;
	}
	return true;
}

/* An error of the device below makes the write a little more torn. */
static void write_part(struct fault_device *fault, const struct bio *bio, uint64_t off,
		       uint64_t len)
{
	struct bio part;

	bio_init(&part, fault->bdev.below, BIO_WRITE, bio->kind, bio->addr + off);
	if (copy_vecs(&part, bio, off, len))
		bio_submit_wait(&part);
	bio_uninit(&part);
}

void fault_write_sectors(struct fault_device *fault, uint64_t addr, void *memory, uint64_t len)
{
	struct bio bio;

	bio_init(&bio, fault->bdev.below, BIO_WRITE, BIO_DATA, addr);
	bio_add(&bio, memory, len);
	bio_submit_wait(&bio);
	bio_uninit(&bio);
}

/* ---- which part ---- */

static void write_prefix(struct fault_device *fault, const struct bio *bio, struct env_rng *rng)
{
	uint32_t sector = fault->bdev.logical_block;
	uint64_t len = env_rng_below(rng, bio->len / sector) * sector;

	if (len)
		write_part(fault, bio, 0, len);
}

/* One sector is lost in any case, the others by the toss of a coin. */
static void write_some(struct fault_device *fault, const struct bio *bio, struct env_rng *rng)
{
	uint32_t sector = fault->bdev.logical_block;
	uint64_t nr = bio->len / sector;
	uint64_t lost = env_rng_below(rng, nr);
	uint64_t start = 0;

	for (uint64_t i = 0; i <= nr; i++) {
		if (i < nr && i != lost && env_rng_below(rng, 2))
			continue;
		if (i > start)
			write_part(fault, bio, start * sector, (i - start) * sector);
		start = i + 1;
	}
}

void fault_tear(struct fault_device *fault, const struct bio *bio, uint64_t seed)
{
	struct env_rng rng;

	env_rng_seed(&rng, seed);
	if (env_rng_below(&rng, 2))
		write_prefix(fault, bio, &rng);
	else
		write_some(fault, bio, &rng);
}

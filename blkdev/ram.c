/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * ram.c - memory as a device
 *
 * One mapping holds all: the bytes, and after them a bitmap with one bit a chunk.  The host
 * backs a page of it only once that is written to, so a device may be far bigger than the
 * machine, and the bitmap of a device that is not poisoned costs nothing.
 *
 * Poison: a chunk without its bit has never been written to and reads as the poison byte.
 * The first write to a chunk fills it with poison, then sets the bit, then writes.
 */
#include "internal.h"

#include "env/copy.h"
#include "env/memory.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define CHUNK_SIZE 4096

/*
 * How a member is protected:
 *	I	set at creation (poison: before the first I/O), never changed
 *	a	atomic
 *	P	poison_lock
 */
struct ram_device {
	struct block_device bdev;
	struct bio_queue queue;
	char *map; /* [I] */
	size_t map_len; /* [I] */
	bool poisoned; /* [I] */
	unsigned char poison; /* [I] */
	uint64_t *written; /* [a, set with P] in map: the bitmap */
	struct env_mutex poison_lock;
};

static struct ram_device *ram_of(struct block_device *bdev)
{
	return container_of(bdev, struct ram_device, bdev);
}

/* ---- poison ---- */

static bool chunk_is_written(const struct ram_device *ram, uint64_t chunk)
{
	uint64_t word = __atomic_load_n(&ram->written[chunk / 64], __ATOMIC_ACQUIRE);

	return word >> (chunk % 64) & 1;
}

static size_t chunk_len(const struct ram_device *ram, uint64_t chunk)
{
	uint64_t left = ram->bdev.size - chunk * CHUNK_SIZE;

	return left < CHUNK_SIZE ? left : CHUNK_SIZE;
}

static void chunk_fill(struct ram_device *ram, uint64_t chunk)
{
	env_mutex_lock(&ram->poison_lock);
	if (!chunk_is_written(ram, chunk)) {
		memset(ram->map + chunk * CHUNK_SIZE, ram->poison, chunk_len(ram, chunk));
		__atomic_fetch_or(&ram->written[chunk / 64], 1ULL << (chunk % 64),
				  __ATOMIC_RELEASE);
	}
	env_mutex_unlock(&ram->poison_lock);
}

static void fill_before_write(struct ram_device *ram, uint64_t addr, uint64_t len)
{
	uint64_t last = (addr + len - 1) / CHUNK_SIZE;

	for (uint64_t chunk = addr / CHUNK_SIZE; chunk <= last; chunk++)
		if (!chunk_is_written(ram, chunk))
			chunk_fill(ram, chunk);
}

static void read_poisoned(const struct ram_device *ram, uint64_t addr, char *to, size_t len)
{
	while (len > 0) {
		size_t n = CHUNK_SIZE - addr % CHUNK_SIZE;

		if (n > len)
			n = len;
		if (chunk_is_written(ram, addr / CHUNK_SIZE))
			memcpy(to, ram->map + addr, n);
		else
			memset(to, ram->poison, n);
		addr += n;
		to += n;
		len -= n;
	}
}

/* ---- serving ---- */

static void ram_read(const struct ram_device *ram, uint64_t addr, char *to, size_t len)
{
	if (env_unlikely(ram->poisoned))
		read_poisoned(ram, addr, to, len);
	else
		memcpy(to, ram->map + addr, len);
}

static void ram_write(struct ram_device *ram, uint64_t addr, const char *from, size_t len)
{
	if (env_unlikely(ram->poisoned))
		fill_before_write(ram, addr, len);
	/* The folio may be written to meanwhile. */
	env_copy_shared(ram->map + addr, from, len);
}

static int ram_serve(struct block_device *bdev, struct bio *bio)
{
	struct ram_device *ram = ram_of(bdev);
	uint64_t addr = bio->addr;

	for (unsigned int i = 0; i < bio->nr_vecs; i++) {
		const struct bio_vec *vec = &bio->vecs[i];

		if (bio->op == BIO_READ)
			ram_read(ram, addr, vec->base, vec->len);
		else
			ram_write(ram, addr, vec->base, vec->len);
		addr += vec->len;
	}
	return 0;
}

static void ram_submit(struct block_device *bdev, struct bio *bio)
{
	bio_queue_submit(&ram_of(bdev)->queue, bio);
}

/* ---- life ---- */

static void ram_destroy(struct block_device *bdev)
{
	struct ram_device *ram = ram_of(bdev);

	bio_queue_stop(&ram->queue);
	env_sparse_unmap(ram->map, ram->map_len);
	env_free(ram);
}

static const struct blkdev_ops ram_ops = {
	.submit = ram_submit,
	.destroy = ram_destroy,
};

static int ram_map(struct ram_device *ram, uint64_t size)
{
	uint64_t bytes_len = (size + CHUNK_SIZE - 1) / CHUNK_SIZE * CHUNK_SIZE;
	uint64_t bitmap_len = (bytes_len / CHUNK_SIZE + 63) / 64 * sizeof(uint64_t);

	if (bytes_len + bitmap_len > SIZE_MAX)
		return -ENOMEM;
	ram->map_len = bytes_len + bitmap_len;
	ram->map = env_sparse_map(ram->map_len);
	if (!ram->map)
		return -ENOMEM;
	ram->written = (uint64_t *)(void *)(ram->map + bytes_len);
	return 0;
}

int blkdev_ram_create(struct block_device **bdev, uint64_t size, unsigned int workers)
{
	struct ram_device *ram;
	int err;

	err = blkdev_check_size(size);
	if (err)
		return err;
	ram = env_zalloc(sizeof(*ram));
	if (!ram)
		return -ENOMEM;
	blkdev_init(&ram->bdev, &ram_ops, "ram", size);
	env_spin_init(&ram->poison_lock, "ram poison");
	err = ram_map(ram, size);
	if (err)
		goto free_ram;
	err = bio_queue_start(&ram->queue, &ram->bdev, ram_serve, workers);
	if (err)
		goto unmap;

	*bdev = &ram->bdev;
	return 0;

unmap:
	env_sparse_unmap(ram->map, ram->map_len);
free_ram:
	env_free(ram);
	return err;
}

void blkdev_ram_poison(struct block_device *bdev, unsigned char byte)
{
	struct ram_device *ram = ram_of(bdev);

	assert(bdev->ops == &ram_ops);

	ram->poisoned = true;
	ram->poison = byte;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_blkdev_ram.c - the devices that keep bytes in memory, or nowhere; the queue
 */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include <iomap/blkdev.h>
#include <iomap/env.h>

#define KIB 1024ull
#define TIB (1ull << 38) /* a sparse device; checkers have no room for more */

static void transfer(struct block_device *bdev, enum bio_op op, uint64_t addr, void *memory,
		     size_t len)
{
	struct bio bio;

	bio_init(&bio, bdev, op, BIO_DATA, addr);
	cr_assert_eq(bio_add(&bio, memory, len), 0);
	cr_assert_eq(bio_submit_wait(&bio), 0);
	bio_uninit(&bio);
}

static void fill(struct block_device *bdev, uint64_t addr, int byte, size_t len)
{
	char memory[8 * KIB];

	memset(memory, byte, len);
	transfer(bdev, BIO_WRITE, addr, memory, len);
}

/* Are all bytes there this one? */
static bool is_all(struct block_device *bdev, uint64_t addr, int byte, size_t len)
{
	char memory[8 * KIB];

	memset(memory, ~byte, len);
	transfer(bdev, BIO_READ, addr, memory, len);
	for (size_t i = 0; i < len; i++)
		if (memory[i] != (char)byte)
			return false;
	return true;
}

/* ---- bytes ---- */

Test(blkdev_ram, keeps_what_is_written)
{
	struct block_device *ram;

	cr_assert_eq(blkdev_ram_create(&ram, 16 * KIB, 0), 0);
	cr_assert(is_all(ram, 0, 0, 8 * KIB));
	fill(ram, 512, 'a', 1024);
	cr_assert(is_all(ram, 0, 0, 512));
	cr_assert(is_all(ram, 512, 'a', 1024));
	cr_assert(is_all(ram, 1536, 0, 512));
	blkdev_destroy(ram);
}

Test(blkdev_ram, a_bio_is_one_range_of_many_pieces)
{
	static char memory[40 * 512];
	struct block_device *ram;
	struct bio bio;

	cr_assert_eq(blkdev_ram_create(&ram, 64 * KIB, 0), 0);
	bio_init(&bio, ram, BIO_WRITE, BIO_DATA, 1024);
	for (int i = 0; i < 20; i++) {
		memset(memory + i * 1024, 'a' + i, 512);
		cr_assert_eq(bio_add(&bio, memory + i * 1024, 512), 0);
	}
	cr_assert_eq(bio_submit_wait(&bio), 0);
	bio_uninit(&bio);
	for (int i = 0; i < 20; i++)
		cr_assert(is_all(ram, 1024 + (uint64_t)i * 512, 'a' + i, 512));
	blkdev_destroy(ram);
}

Test(blkdev_ram, may_be_far_bigger_than_the_host)
{
	struct block_device *ram;

	cr_assert_eq(blkdev_ram_create(&ram, TIB, 0), 0);
	fill(ram, TIB - 512, 'z', 512);
	cr_assert(is_all(ram, TIB - 512, 'z', 512));
	cr_assert(is_all(ram, TIB / 2, 0, 512));
	blkdev_destroy(ram);
}

Test(blkdev_ram, flush_is_no_error)
{
	struct block_device *ram;

	cr_assert_eq(blkdev_ram_create(&ram, 16 * KIB, 0), 0);
	transfer(ram, BIO_FLUSH, 0, NULL, 0);
	blkdev_destroy(ram);
}

/* ---- poison ---- */

Test(blkdev_ram, poison_is_where_nothing_was_written)
{
	struct block_device *ram;

	/* The last chunk is not whole. */
	cr_assert_eq(blkdev_ram_create(&ram, 16 * KIB + 512, 0), 0);
	blkdev_ram_poison(ram, 0xaa);
	cr_assert(is_all(ram, 0, 0xaa, 8 * KIB));
	fill(ram, 4 * KIB + 512, 'a', 512);
	fill(ram, 16 * KIB, 'b', 512);
	fill(ram, 8 * KIB - 512, 0, 1024);
	cr_assert(is_all(ram, 0, 0xaa, 4 * KIB + 512));
	cr_assert(is_all(ram, 4 * KIB + 512, 'a', 512));
	cr_assert(is_all(ram, 5 * KIB, 0xaa, 3 * KIB - 512));
	cr_assert(is_all(ram, 8 * KIB - 512, 0, 1024));
	cr_assert(is_all(ram, 8 * KIB + 512, 0xaa, 7 * KIB + 512));
	cr_assert(is_all(ram, 16 * KIB, 'b', 512));
	blkdev_destroy(ram);
}

/* ---- null ---- */

Test(blkdev_null, forgets)
{
	struct block_device *null;

	cr_assert_eq(blkdev_null_create(&null, 1ull << 50, 0), 0);
	fill(null, 1ull << 49, 'a', 512);
	cr_assert(is_all(null, 1ull << 49, 0, 512));
	transfer(null, BIO_FLUSH, 0, NULL, 0);
	blkdev_destroy(null);
}

Test(blkdev_null, has_workers_too)
{
	struct block_device *null;

	cr_assert_eq(blkdev_null_create(&null, 16 * KIB, 2), 0);
	fill(null, 0, 'a', 512);
	cr_assert(is_all(null, 0, 0, 512));
	blkdev_destroy(null);
}

/* ---- who serves, and when ---- */

static void note_end(struct bio *bio)
{
	*(bool *)bio->private_data = true;
}

Test(blkdev_queue, without_workers_the_submitter_serves)
{
	struct block_device *null;
	bool ended = false;
	char memory[512];
	struct bio bio;

	cr_assert_eq(blkdev_null_create(&null, 16 * KIB, 0), 0);
	bio_init(&bio, null, BIO_READ, BIO_DATA, 0);
	cr_assert_eq(bio_add(&bio, memory, 512), 0);
	bio.end_io = note_end;
	bio.private_data = &ended;
	bio_submit(&bio);
	cr_assert(ended);
	bio_uninit(&bio);
	blkdev_destroy(null);
}

#define NR_BIOS 200

struct order {
	struct env_waitq queue;
	unsigned int nr_ended;
	uint64_t addrs[NR_BIOS];
};

static void note_order(struct bio *bio)
{
	struct order *order = bio->private_data;
	unsigned int nr = __atomic_load_n(&order->nr_ended, __ATOMIC_RELAXED);

	order->addrs[nr] = bio->addr;
	bio_uninit(bio);
	free(bio);
	__atomic_store_n(&order->nr_ended, nr + 1, __ATOMIC_RELEASE);
	env_waitq_wake(&order->queue);
}

Test(blkdev_queue, one_worker_serves_in_order_of_arrival, .timeout = 20)
{
	struct block_device *null;
	struct order order = {0};
	char memory[512];

	cr_assert_eq(blkdev_null_create(&null, 1ull << 30, 1), 0);
	env_waitq_init(&order.queue);
	for (unsigned int i = 0; i < NR_BIOS; i++) {
		struct bio *bio = malloc(sizeof(*bio));

		bio_init(bio, null, BIO_READ, BIO_DATA, i * KIB);
		cr_assert_eq(bio_add(bio, memory, 512), 0);
		bio->end_io = note_order;
		bio->private_data = &order;
		bio_submit(bio);
	}
	env_wait_event(&order.queue, __atomic_load_n(&order.nr_ended, __ATOMIC_ACQUIRE) == NR_BIOS);
	for (unsigned int i = 0; i < NR_BIOS; i++)
		cr_assert_eq(order.addrs[i], i * KIB);
	blkdev_destroy(null);
}

struct client {
	struct block_device *bdev;
	uint64_t addr;
};

static void write_and_read_back(void *arg)
{
	struct client *client = arg;

	for (int i = 0; i < 200; i++) {
		uint64_t addr = client->addr + (uint64_t)(i % 8) * 512;

		fill(client->bdev, addr, i, 512);
		cr_assert(is_all(client->bdev, addr, i, 512));
	}
}

static void run_clients(struct block_device *bdev)
{
	struct client clients[4];
	struct env_thread *threads[4];

	for (unsigned int i = 0; i < 4; i++) {
		clients[i] = (struct client){bdev, i * 4 * KIB + i * 512};
		cr_assert_eq(
			env_thread_create(&threads[i], "client", write_and_read_back, &clients[i]),
			0);
	}
	for (unsigned int i = 0; i < 4; i++)
		env_thread_join(threads[i]);
}

Test(blkdev_queue, many_clients_many_workers, .timeout = 60)
{
	struct block_device *ram, *count, *fault;
	struct blkdev_count figures;

	cr_assert_eq(blkdev_ram_create(&ram, 64 * KIB, 3), 0);
	cr_assert_eq(blkdev_count_create(&count, ram), 0);
	cr_assert_eq(blkdev_fault_create(&fault, count), 0);
	run_clients(fault);
	blkdev_count_read(count, &figures);
	cr_assert_eq(figures.ios[BIO_WRITE][BIO_DATA], 800);
	cr_assert_eq(figures.ios[BIO_READ][BIO_DATA], 800);
	blkdev_destroy(fault);
}

/* Clients share chunks: each is filled with poison once, before any write to it. */
Test(blkdev_queue, poison_with_many_clients, .timeout = 60)
{
	struct block_device *ram;

	cr_assert_eq(blkdev_ram_create(&ram, 64 * KIB, 3), 0);
	blkdev_ram_poison(ram, 0xaa);
	run_clients(ram);
	cr_assert(is_all(ram, 4 * KIB, 0xaa, 512));
	blkdev_destroy(ram);
}

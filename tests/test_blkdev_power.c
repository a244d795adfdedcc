/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_blkdev_power.c - a volatile write cache, and what is left after the power went
 */
#include <criterion/criterion.h>

#include <errno.h>
#include <string.h>

#include <iomap/blkdev.h>
#include <iomap/env.h>
#include <iomap/sim.h>

#define SECTOR	   512
#define NR_SECTORS 16

static struct block_device *below;

static struct block_device *cached_ram(unsigned int workers)
{
	struct block_device *fault;

	cr_assert_eq(blkdev_ram_create(&below, 1 << 20, workers), 0);
	cr_assert_eq(blkdev_fault_create(&fault, below), 0);
	cr_assert_eq(blkdev_fault_write_cache(fault), 0);
	return fault;
}

static int write_sectors(struct block_device *bdev, unsigned int first, unsigned int nr, char byte)
{
	char memory[NR_SECTORS * SECTOR];
	struct bio bio;
	int err;

	memset(memory, byte, sizeof(memory));
	bio_init(&bio, bdev, BIO_WRITE, BIO_DATA, (uint64_t)first * SECTOR);
	cr_assert_eq(bio_add(&bio, memory, nr * SECTOR), 0);
	err = bio_submit_wait(&bio);
	bio_uninit(&bio);
	return err;
}

static int flush(struct block_device *bdev)
{
	struct bio bio;

	bio_init(&bio, bdev, BIO_FLUSH, BIO_DATA, 0);
	return bio_submit_wait(&bio);
}

/* A character a sector, '.' for one that was never written. */
static void look(struct block_device *bdev, char *bytes)
{
	char memory[NR_SECTORS * SECTOR];
	struct bio bio;

	bio_init(&bio, bdev, BIO_READ, BIO_DATA, 0);
	cr_assert_eq(bio_add(&bio, memory, sizeof(memory)), 0);
	cr_assert_eq(bio_submit_wait(&bio), 0);
	bio_uninit(&bio);
	for (unsigned int i = 0; i < NR_SECTORS; i++) {
		char byte = memory[i * SECTOR];

		for (unsigned int j = 0; j < SECTOR; j++)
			cr_assert_eq(memory[i * SECTOR + j], byte, "a sector is whole");
		bytes[i] = byte ? byte : '.';
	}
	bytes[NR_SECTORS] = 0;
}

static void cycle_power(struct block_device *bdev)
{
	cr_assert_eq(blkdev_fault_power_cut(bdev), 0);
	blkdev_fault_power_on(bdev);
}

/* ---- the cache ---- */

Test(blkdev_power, with_power_the_cache_is_not_seen)
{
	struct block_device *fault = cached_ram(1);
	char bytes[NR_SECTORS + 1];

	cr_assert_eq(write_sectors(fault, 0, 8, 'a'), 0);
	cr_assert_eq(write_sectors(fault, 4, 8, 'b'), 0);
	cr_assert_eq(flush(fault), 0);
	look(fault, bytes);
	cr_assert_str_eq(bytes, "aaaabbbbbbbb....");
	blkdev_destroy(fault);
}

Test(blkdev_power, what_was_flushed_stays)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct block_device *fault = cached_ram(0);
		char bytes[NR_SECTORS + 1];

		blkdev_fault_seed(fault, seed);
		cr_assert_eq(write_sectors(fault, 0, 8, 'a'), 0);
		cr_assert_eq(write_sectors(fault, 4, 8, 'b'), 0);
		cr_assert_eq(flush(fault), 0);
		cycle_power(fault);
		look(fault, bytes);
		cr_assert_str_eq(bytes, "aaaabbbbbbbb....");
		blkdev_destroy(fault);
	}
}

/* Counts how the write of 'b' over 'a' came out: kept, undone, in part. */
Test(blkdev_power, what_was_not_flushed_may_be_undone)
{
	unsigned int nr_kept = 0, nr_undone = 0, nr_torn = 0;

	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct block_device *fault = cached_ram(0);
		char bytes[NR_SECTORS + 1];

		blkdev_fault_seed(fault, seed);
		cr_assert_eq(write_sectors(fault, 0, 16, 'a'), 0);
		cr_assert_eq(flush(fault), 0);
		cr_assert_eq(write_sectors(fault, 0, 16, 'b'), 0);
		cycle_power(fault);
		look(fault, bytes);
		cr_assert_eq(strspn(bytes, "ab"), NR_SECTORS);
		if (!strchr(bytes, 'a'))
			nr_kept++;
		else if (!strchr(bytes, 'b'))
			nr_undone++;
		else
			nr_torn++;
		blkdev_destroy(fault);
	}
	cr_assert_geq(nr_kept, 5);
	cr_assert_geq(nr_undone, 5);
	cr_assert_geq(nr_torn, 5);
}

/* Three writes to one place: each may be what is left, and the time before them. */
Test(blkdev_power, overwritten_sector_is_as_some_write_left_it)
{
	unsigned int seen[256] = {0};

	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct block_device *fault = cached_ram(0);
		char bytes[NR_SECTORS + 1];

		blkdev_fault_seed(fault, seed);
		cr_assert_eq(write_sectors(fault, 2, 4, 'a'), 0);
		cr_assert_eq(write_sectors(fault, 0, 4, 'b'), 0);
		cr_assert_eq(write_sectors(fault, 2, 4, 'c'), 0);
		cycle_power(fault);
		look(fault, bytes);
		cr_assert_not_null(strchr(".b", bytes[0]));
		cr_assert_not_null(strchr(".abc", bytes[2]));
		cr_assert_not_null(strchr(".ac", bytes[5]));
		cr_assert_eq(bytes[6], '.');
		seen[(unsigned char)bytes[2]]++;
		blkdev_destroy(fault);
	}
	for (const char *byte = ".abc"; *byte; byte++)
		cr_assert_geq(seen[(unsigned char)*byte], 1, "%c", *byte);
}

Test(blkdev_power, flush_that_failed_makes_nothing_durable)
{
	unsigned int nr_undone = 0;

	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct block_device *fault = cached_ram(0);
		struct blkdev_fault_rule rule = {.op = BIO_FLUSH, .kind = -1, .error = -EIO};
		char bytes[NR_SECTORS + 1];

		blkdev_fault_seed(fault, seed);
		cr_assert_eq(blkdev_fault_add(fault, &rule), 0);
		cr_assert_eq(write_sectors(fault, 0, 16, 'a'), 0);
		cr_assert_eq(flush(fault), -EIO);
		cycle_power(fault);
		look(fault, bytes);
		nr_undone += strchr(bytes, '.') != NULL;
		blkdev_destroy(fault);
	}
	cr_assert_geq(nr_undone, 5);
}

Test(blkdev_power, what_survived_is_durable)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct block_device *fault = cached_ram(0);
		char before[NR_SECTORS + 1], after[NR_SECTORS + 1];

		blkdev_fault_seed(fault, seed);
		cr_assert_eq(write_sectors(fault, 0, 16, 'a'), 0);
		cycle_power(fault);
		look(fault, before);
		cycle_power(fault);
		look(fault, after);
		cr_assert_str_eq(before, after);
		blkdev_destroy(fault);
	}
}

Test(blkdev_power, same_seed_same_remains)
{
	char bytes[2][NR_SECTORS + 1];

	for (unsigned int i = 0; i < 2; i++) {
		struct block_device *fault = cached_ram(0);

		blkdev_fault_seed(fault, 77);
		for (unsigned int j = 0; j < 8; j++)
			cr_assert_eq(write_sectors(fault, j, 8, (char)('a' + j)), 0);
		cycle_power(fault);
		look(fault, bytes[i]);
		blkdev_destroy(fault);
	}
	cr_assert_str_eq(bytes[0], bytes[1]);
}

/* ---- without power ---- */

Test(blkdev_power, without_power_all_fails)
{
	struct block_device *fault = cached_ram(0);

	cr_assert_not(blkdev_fault_power_is_off(fault));
	cr_assert_eq(blkdev_fault_power_cut(fault), 0);
	cr_assert(blkdev_fault_power_is_off(fault));
	cr_assert_eq(write_sectors(fault, 0, 1, 'a'), -EIO);
	cr_assert_eq(flush(fault), -EIO);
	blkdev_fault_power_on(fault);
	cr_assert_not(blkdev_fault_power_is_off(fault));
	cr_assert_eq(write_sectors(fault, 0, 1, 'a'), 0);
	blkdev_destroy(fault);
}

Test(blkdev_power, destroyed_without_power)
{
	struct block_device *fault = cached_ram(0);

	cr_assert_eq(write_sectors(fault, 0, 1, 'a'), 0);
	cr_assert_eq(blkdev_fault_power_cut(fault), 0);
	blkdev_destroy(fault);
}

/* The power goes with the third write; it fails and is there in part. */
Test(blkdev_power, rule_cuts_at_a_request)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct block_device *fault = cached_ram(0);
		struct blkdev_fault_rule rule = {
			.op = BIO_WRITE,
			.kind = -1,
			.after = 2,
			.count = 1,
			.action = BLKDEV_FAULT_CUT,
		};
		char bytes[NR_SECTORS + 1];

		blkdev_fault_seed(fault, seed);
		cr_assert_eq(blkdev_fault_add(fault, &rule), 0);
		cr_assert_eq(write_sectors(fault, 0, 4, 'a'), 0);
		cr_assert_eq(flush(fault), 0);
		cr_assert_eq(write_sectors(fault, 8, 4, 'b'), 0);
		cr_assert_eq(write_sectors(fault, 0, 4, 'c'), -EIO);
		cr_assert_eq(write_sectors(fault, 4, 4, 'd'), -EIO);
		blkdev_fault_power_on(fault);
		look(fault, bytes);
		cr_assert_geq(strspn(bytes, "ac"), 4);
		cr_assert(memchr(bytes, 'a', 4), "not all of a torn write is there");
		cr_assert_null(strchr(bytes, 'd'));
		blkdev_destroy(fault);
	}
}

Test(blkdev_power, cut_without_a_cache_keeps_what_completed)
{
	struct block_device *fault;
	char bytes[NR_SECTORS + 1];

	cr_assert_eq(blkdev_ram_create(&below, 1 << 20, 0), 0);
	cr_assert_eq(blkdev_fault_create(&fault, below), 0);
	cr_assert_eq(write_sectors(fault, 0, 16, 'a'), 0);
	cycle_power(fault);
	look(fault, bytes);
	cr_assert_str_eq(bytes, "aaaaaaaaaaaaaaaa");
	blkdev_destroy(fault);
}

/* ---- in flight ---- */

struct late_write {
	struct bio bio;
	char memory[4 * SECTOR];
	struct env_completion done;
};

static void late_write_done(struct bio *bio)
{
	struct late_write *write = bio->private_data;

	env_complete(&write->done);
}

static void late_write_start(struct late_write *write, struct block_device *bdev,
			     unsigned int first)
{
	memset(write->memory, 'x', sizeof(write->memory));
	env_completion_init(&write->done);
	bio_init(&write->bio, bdev, BIO_WRITE, BIO_DATA, (uint64_t)first * SECTOR);
	cr_assert_eq(bio_add(&write->bio, write->memory, sizeof(write->memory)), 0);
	write->bio.end_io = late_write_done;
	write->bio.private_data = write;
	bio_submit(&write->bio);
}

static void add_for_range(struct block_device *bdev, unsigned int first,
			  enum blkdev_fault_action action)
{
	struct blkdev_fault_rule rule = {
		.op = -1,
		.kind = -1,
		.addr = (uint64_t)first * SECTOR,
		.len = 4 * SECTOR,
		.action = action,
		.delay_ns = 1000000000000,
		.window = 4,
	};

	cr_assert_eq(blkdev_fault_add(bdev, &rule), 0);
}

/* One is held, one late, one waits for its window. */
Test(blkdev_power, caught_requests_fail, .timeout = 20)
{
	struct block_device *fault = cached_ram(0);
	struct late_write writes[3];
	char bytes[NR_SECTORS + 1];

	add_for_range(fault, 0, BLKDEV_FAULT_STOP);
	add_for_range(fault, 4, BLKDEV_FAULT_DELAY);
	add_for_range(fault, 8, BLKDEV_FAULT_REORDER);
	for (unsigned int i = 0; i < 3; i++)
		late_write_start(&writes[i], fault, i * 4);
	cr_assert_eq(blkdev_fault_held(fault), 1);
	cr_assert_eq(blkdev_fault_power_cut(fault), 0);
	for (unsigned int i = 0; i < 3; i++) {
		env_completion_wait(&writes[i].done);
		cr_assert_eq(writes[i].bio.status, -EIO);
	}
	blkdev_fault_power_on(fault);
	blkdev_fault_clear(fault);
	cr_assert_eq(blkdev_fault_held(fault), 0);
	look(fault, bytes);
	cr_assert_eq(strspn(bytes, "x."), NR_SECTORS);
	blkdev_destroy(fault);
}

/* A second fault device holds what is at the device below. */
Test(blkdev_power, requests_below_fail_when_they_return, .timeout = 20)
{
	struct blkdev_fault_rule hold = {.op = BIO_WRITE, .kind = -1, .count = 1};
	struct block_device *slow, *fault;
	struct late_write write;

	cr_assert_eq(blkdev_ram_create(&below, 1 << 20, 0), 0);
	cr_assert_eq(blkdev_fault_create(&slow, below), 0);
	cr_assert_eq(blkdev_fault_create(&fault, slow), 0);
	cr_assert_eq(blkdev_fault_write_cache(fault), 0);
	cr_assert_eq(blkdev_fault_add(slow, &hold), 0);
	late_write_start(&write, fault, 0);
	cr_assert_eq(blkdev_fault_held(slow), 1);
	cr_assert_eq(blkdev_fault_power_cut(fault), 0);
	cr_assert_eq(write_sectors(fault, 8, 1, 'a'), -EIO);
	cr_assert_eq(write.bio.status, 0, "it has not returned");
	cr_assert_eq(blkdev_fault_release(slow), 1);
	env_completion_wait(&write.done);
	cr_assert_eq(write.bio.status, -EIO);
	blkdev_fault_power_on(fault);
	blkdev_destroy(fault);
}

/* ---- in the simulator ---- */

struct ordered_writer {
	struct block_device *bdev;
	char durable; /* the last letter that a flush covered */
	char written; /* the last that was written, or tried */
};

static void write_letters(void *arg)
{
	struct ordered_writer *writer = arg;

	for (char letter = 'a'; letter <= 'z'; letter++) {
		writer->written = letter;
		if (write_sectors(writer->bdev, 0, 1, letter))
			return;
		if (letter % 3 == 0) {
			if (flush(writer->bdev))
				return;
			writer->durable = letter;
		}
	}
}

static void cut_while_writing(void *arg)
{
	struct ordered_writer writer = {.bdev = cached_ram(2)};
	struct env_thread *thread;
	char bytes[NR_SECTORS + 1], left;

	(void)arg;
	cr_assert_eq(env_thread_create(&thread, "writer", write_letters, &writer), 0);
	env_sleep_ns(1000);
	cr_assert_eq(blkdev_fault_power_cut(writer.bdev), 0);
	env_thread_join(thread);
	blkdev_fault_power_on(writer.bdev);
	look(writer.bdev, bytes);
	left = bytes[0] == '.' ? 0 : bytes[0];
	cr_assert_geq(left, writer.durable);
	cr_assert_leq(left, writer.written);
	blkdev_destroy(writer.bdev);
}

Test(blkdev_power, nothing_durable_is_lost_by_any_schedule)
{
	struct env_sim_config config;
	struct env_sim_result result;

	env_sim_config_init(&config);
	config.schedule = ENV_SIM_ADVERSARIAL;
	cr_assert_eq(env_sim_run_seeds(&config, 200, cut_while_writing, NULL, &result), 0, "%s",
		     result.text);
}

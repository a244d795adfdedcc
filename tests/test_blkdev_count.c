/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_blkdev_count.c - the figures of a device
 */
#include <criterion/criterion.h>

#include <errno.h>
#include <string.h>

#include <iomap/blkdev.h>
#include <iomap/env.h>

#define KIB 1024ull

static int submit(struct block_device *bdev, enum bio_op op, enum bio_kind kind, size_t len)
{
	static char memory[64 * KIB];
	struct bio bio;
	int err;

	bio_init(&bio, bdev, op, kind, 0);
	cr_assert_eq(bio_add(&bio, memory, len), 0);
	err = bio_submit_wait(&bio);
	bio_uninit(&bio);
	return err;
}

static struct block_device *counted_null(void)
{
	struct block_device *null, *count;

	cr_assert_eq(blkdev_null_create(&null, 64 * KIB, 0), 0);
	cr_assert_eq(blkdev_count_create(&count, null), 0);
	return count;
}

Test(blkdev_count, counts_by_op_and_kind)
{
	struct block_device *dev = counted_null();
	struct blkdev_count figures, expected = {0};

	submit(dev, BIO_WRITE, BIO_DATA, 4096);
	submit(dev, BIO_WRITE, BIO_DATA, 512);
	submit(dev, BIO_WRITE, BIO_JOURNAL, 1024);
	submit(dev, BIO_READ, BIO_META, 2048);
	submit(dev, BIO_READ, BIO_GC, 512);
	submit(dev, BIO_READ, BIO_DATA, 4608);
	submit(dev, BIO_FLUSH, BIO_JOURNAL, 0);

	expected.ios[BIO_WRITE][BIO_DATA] = 2;
	expected.bytes[BIO_WRITE][BIO_DATA] = 4608;
	expected.ios[BIO_WRITE][BIO_JOURNAL] = 1;
	expected.bytes[BIO_WRITE][BIO_JOURNAL] = 1024;
	expected.ios[BIO_READ][BIO_META] = 1;
	expected.bytes[BIO_READ][BIO_META] = 2048;
	expected.ios[BIO_READ][BIO_GC] = 1;
	expected.bytes[BIO_READ][BIO_GC] = 512;
	expected.ios[BIO_READ][BIO_DATA] = 1;
	expected.bytes[BIO_READ][BIO_DATA] = 4608;
	expected.ios[BIO_FLUSH][BIO_JOURNAL] = 1;
	expected.write_hist[12] = 1;
	expected.write_hist[9] = 1;
	expected.read_hist[12] = 1;
	blkdev_count_read(dev, &figures);
	cr_assert_eq(memcmp(&figures, &expected, sizeof(figures)), 0);
	blkdev_destroy(dev);
}

Test(blkdev_count, reset_starts_again)
{
	struct block_device *dev = counted_null();
	struct blkdev_count figures, zero = {0};

	submit(dev, BIO_WRITE, BIO_DATA, 4096);
	blkdev_count_reset(dev);
	blkdev_count_read(dev, &figures);
	cr_assert_eq(memcmp(&figures, &zero, sizeof(figures)), 0);
	blkdev_destroy(dev);
}

Test(blkdev_count, counts_errors_from_below)
{
	struct block_device *null, *fault, *count;
	struct blkdev_count figures;
	struct blkdev_fault_rule rule = {.op = BIO_WRITE, .kind = -1, .count = 1, .error = -EIO};

	cr_assert_eq(blkdev_null_create(&null, 64 * KIB, 0), 0);
	cr_assert_eq(blkdev_fault_create(&fault, null), 0);
	cr_assert_eq(blkdev_count_create(&count, fault), 0);
	cr_assert_eq(blkdev_fault_add(fault, &rule), 0);
	cr_assert_eq(submit(count, BIO_WRITE, BIO_META, 512), -EIO);
	cr_assert_eq(submit(count, BIO_WRITE, BIO_META, 512), 0);
	blkdev_count_read(count, &figures);
	cr_assert_eq(figures.ios[BIO_WRITE][BIO_META], 2);
	cr_assert_eq(figures.errors[BIO_WRITE][BIO_META], 1);
	blkdev_destroy(count);
}

/* ---- the submitter's end_io ---- */

static void check_end(struct bio *bio)
{
	cr_assert_eq(bio->end_io, check_end);
	cr_assert_eq(bio->device_word, 0);
	++*(unsigned int *)bio->private_data;
}

Test(blkdev_count, wrappers_stack)
{
	struct block_device *dev = counted_null();
	unsigned int nr_ended = 0;
	struct blkdev_count figures;
	char memory[512];
	struct bio bio;

	for (unsigned int i = 0; i < 5; i++)
		cr_assert_eq(blkdev_count_create(&dev, dev), 0);
	bio_init(&bio, dev, BIO_READ, BIO_DATA, 0);
	cr_assert_eq(bio_add(&bio, memory, sizeof(memory)), 0);
	bio.end_io = check_end;
	bio.private_data = &nr_ended;
	for (unsigned int i = 1; i <= 3; i++) {
		bio_submit(&bio);
		cr_assert_eq(nr_ended, i);
		cr_assert_eq(bio.status, 0);
	}
	bio_uninit(&bio);
	for (struct block_device *bdev = dev; bdev->below; bdev = bdev->below) {
		blkdev_count_read(bdev, &figures);
		cr_assert_eq(figures.ios[BIO_READ][BIO_DATA], 3);
	}
	blkdev_destroy(dev);
}

/* ---- many in flight ---- */

#define NR_BIOS 1000

static void note_end(struct bio *bio)
{
	unsigned int *nr_by_status = bio->private_data;

	nr_by_status[bio->status ? 1 : 0]++;
	if (bio->status)
		cr_assert_eq(bio->status, -ENOMEM);
}

static void hold_many(struct block_device *count, struct bio *bios, unsigned int *nr_by_status)
{
	static char memory[512];

	for (unsigned int i = 0; i < NR_BIOS; i++) {
		bio_init(&bios[i], count, BIO_WRITE, BIO_DATA, 0);
		cr_assert_eq(bio_add(&bios[i], memory, sizeof(memory)), 0);
		bios[i].end_io = note_end;
		bios[i].private_data = nr_by_status;
		bio_submit(&bios[i]);
	}
}

static struct block_device *holding_null(struct block_device **fault)
{
	static const struct blkdev_fault_rule hold = {.op = -1, .kind = -1};
	struct block_device *null, *count;

	cr_assert_eq(blkdev_null_create(&null, 64 * KIB, 0), 0);
	cr_assert_eq(blkdev_fault_create(fault, null), 0);
	cr_assert_eq(blkdev_fault_add(*fault, &hold), 0);
	cr_assert_eq(blkdev_count_create(&count, *fault), 0);
	return count;
}

Test(blkdev_count, any_number_may_be_in_flight)
{
	static struct bio bios[NR_BIOS];
	unsigned int nr_by_status[2] = {0};
	struct block_device *fault, *count = holding_null(&fault);

	hold_many(count, bios, nr_by_status);
	cr_assert_eq(blkdev_fault_held(fault), NR_BIOS);
	cr_assert_eq(blkdev_fault_release(fault), NR_BIOS);
	cr_assert_eq(nr_by_status[0], NR_BIOS);
	blkdev_destroy(count);
}

Test(blkdev_count, without_memory_a_bio_ends_with_enomem)
{
	static struct bio bios[NR_BIOS];
	unsigned int nr_by_status[2] = {0};
	struct block_device *fault, *count = holding_null(&fault);
	struct blkdev_count figures;
	unsigned int nr_failed;

	env_alloc_fail(0, UINT32_MAX);
	hold_many(count, bios, nr_by_status);
	env_alloc_fail(0, 0);
	nr_failed = nr_by_status[1];
	cr_assert_gt(nr_failed, 0);
	cr_assert_eq(blkdev_fault_release(fault), NR_BIOS - nr_failed);
	cr_assert_eq(nr_by_status[0], NR_BIOS - nr_failed);
	blkdev_count_read(count, &figures);
	cr_assert_eq(figures.ios[BIO_WRITE][BIO_DATA], NR_BIOS);
	cr_assert_eq(figures.errors[BIO_WRITE][BIO_DATA], nr_failed);
	blkdev_destroy(count);
}

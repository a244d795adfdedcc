/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_blkdev_fault.c - requests that fail, or are held
 */
#include <criterion/criterion.h>

#include <errno.h>
#include <string.h>

#include <iomap/blkdev.h>
#include <iomap/env.h>

#define KIB 1024ull

#define ANY -1

static struct block_device *faulty_ram(void)
{
	struct block_device *ram, *fault;

	cr_assert_eq(blkdev_ram_create(&ram, 64 * KIB, 0), 0);
	cr_assert_eq(blkdev_fault_create(&fault, ram), 0);
	return fault;
}

static int submit(struct block_device *bdev, enum bio_op op, enum bio_kind kind, uint64_t addr)
{
	static char memory[512];
	struct bio bio;
	int err;

	bio_init(&bio, bdev, op, kind, addr);
	if (op != BIO_FLUSH)
		cr_assert_eq(bio_add(&bio, memory, sizeof(memory)), 0);
	err = bio_submit_wait(&bio);
	bio_uninit(&bio);
	return err;
}

static int write_at(struct block_device *bdev, uint64_t addr)
{
	return submit(bdev, BIO_WRITE, BIO_DATA, addr);
}

static void add(struct block_device *fault, struct blkdev_fault_rule rule)
{
	cr_assert_eq(blkdev_fault_add(fault, &rule), 0);
}

/* ---- rules ---- */

Test(blkdev_fault, without_rules_all_pass)
{
	struct block_device *fault = faulty_ram();

	cr_assert_eq(write_at(fault, 0), 0);
	cr_assert_eq(blkdev_fault_hits(fault), 0);
	blkdev_destroy(fault);
}

Test(blkdev_fault, rule_selects_op_and_kind)
{
	struct block_device *fault = faulty_ram();

	add(fault, (struct blkdev_fault_rule){.op = BIO_WRITE, .kind = BIO_META, .error = -EIO});
	cr_assert_eq(submit(fault, BIO_WRITE, BIO_DATA, 0), 0);
	cr_assert_eq(submit(fault, BIO_READ, BIO_META, 0), 0);
	cr_assert_eq(submit(fault, BIO_WRITE, BIO_META, 0), -EIO);
	cr_assert_eq(blkdev_fault_hits(fault), 1);
	blkdev_destroy(fault);
}

Test(blkdev_fault, rule_selects_a_range)
{
	struct block_device *fault = faulty_ram();

	/* One byte in the third sector, and the bytes around it. */
	add(fault, (struct blkdev_fault_rule){
			   .op = ANY, .kind = ANY, .addr = 1025, .len = 511, .error = -EIO});
	cr_assert_eq(write_at(fault, 512), 0);
	cr_assert_eq(write_at(fault, 1024), -EIO);
	cr_assert_eq(write_at(fault, 1536), 0);
	cr_assert_eq(submit(fault, BIO_FLUSH, BIO_DATA, 1100), 0, "a flush has no range");
	blkdev_destroy(fault);
}

Test(blkdev_fault, range_to_the_end_does_not_overflow)
{
	struct block_device *fault = faulty_ram();

	add(fault, (struct blkdev_fault_rule){
			   .op = ANY, .kind = ANY, .addr = 1024, .len = UINT64_MAX, .error = -EIO});
	cr_assert_eq(write_at(fault, 512), 0);
	cr_assert_eq(write_at(fault, 63 * KIB), -EIO);
	blkdev_destroy(fault);
}

Test(blkdev_fault, flush_can_fail)
{
	struct block_device *fault = faulty_ram();

	add(fault, (struct blkdev_fault_rule){.op = BIO_FLUSH, .kind = ANY, .error = -EIO});
	cr_assert_eq(write_at(fault, 0), 0);
	cr_assert_eq(submit(fault, BIO_FLUSH, BIO_JOURNAL, 0), -EIO);
	blkdev_destroy(fault);
}

Test(blkdev_fault, some_pass_then_some_fail)
{
	struct block_device *fault = faulty_ram();

	add(fault, (struct blkdev_fault_rule){
			   .op = ANY, .kind = ANY, .after = 2, .count = 3, .error = -ENOSPC});
	for (unsigned int i = 0; i < 8; i++)
		cr_assert_eq(write_at(fault, 0), i >= 2 && i < 5 ? -ENOSPC : 0, "write %u", i);
	cr_assert_eq(blkdev_fault_hits(fault), 3);
	blkdev_destroy(fault);
}

Test(blkdev_fault, count_zero_is_all_that_follow)
{
	struct block_device *fault = faulty_ram();

	add(fault, (struct blkdev_fault_rule){.op = ANY, .kind = ANY, .after = 1, .error = -EIO});
	cr_assert_eq(write_at(fault, 0), 0);
	for (unsigned int i = 0; i < 5; i++)
		cr_assert_eq(write_at(fault, 0), -EIO);
	blkdev_destroy(fault);
}

Test(blkdev_fault, first_rule_that_hits_decides)
{
	struct block_device *fault = faulty_ram();

	add(fault, (struct blkdev_fault_rule){.op = BIO_READ, .kind = ANY, .error = -EBADF});
	add(fault, (struct blkdev_fault_rule){.op = ANY, .kind = ANY, .count = 1, .error = -EIO});
	add(fault, (struct blkdev_fault_rule){.op = ANY, .kind = ANY, .error = -ENOSPC});
	cr_assert_eq(write_at(fault, 0), -EIO);
	cr_assert_eq(write_at(fault, 0), -ENOSPC);
	cr_assert_eq(submit(fault, BIO_READ, BIO_DATA, 0), -EBADF);
	blkdev_destroy(fault);
}

Test(blkdev_fault, failed_write_changes_nothing)
{
	struct block_device *fault = faulty_ram();
	char memory[512];
	struct bio bio;

	add(fault, (struct blkdev_fault_rule){.op = BIO_WRITE, .kind = ANY, .error = -EIO});
	memset(memory, 'a', sizeof(memory));
	bio_init(&bio, fault, BIO_WRITE, BIO_DATA, 0);
	cr_assert_eq(bio_add(&bio, memory, sizeof(memory)), 0);
	cr_assert_eq(bio_submit_wait(&bio), -EIO);
	bio.op = BIO_READ;
	cr_assert_eq(bio_submit_wait(&bio), 0);
	cr_assert_eq(memory[0], 0);
	bio_uninit(&bio);
	blkdev_destroy(fault);
}

Test(blkdev_fault, clear_forgets_the_rules)
{
	struct block_device *fault = faulty_ram();

	add(fault, (struct blkdev_fault_rule){.op = ANY, .kind = ANY, .error = -EIO});
	cr_assert_eq(write_at(fault, 0), -EIO);
	blkdev_fault_clear(fault);
	cr_assert_eq(write_at(fault, 0), 0);
	add(fault, (struct blkdev_fault_rule){.op = ANY, .kind = ANY, .error = -EIO});
	cr_assert_eq(write_at(fault, 0), -EIO);
	cr_assert_eq(blkdev_fault_hits(fault), 2);
	blkdev_destroy(fault);
}

Test(blkdev_fault, impossible_rules_are_refused)
{
	static const struct blkdev_fault_rule rules[] = {
		{.op = -2, .kind = ANY, .error = -EIO},
		{.op = BIO_NR_OPS, .kind = ANY, .error = -EIO},
		{.op = ANY, .kind = -2, .error = -EIO},
		{.op = ANY, .kind = BIO_NR_KINDS, .error = -EIO},
		{.op = ANY, .kind = ANY, .error = EIO},
	};
	struct block_device *fault = faulty_ram();

	for (unsigned int i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		cr_assert_eq(blkdev_fault_add(fault, &rules[i]), -EINVAL, "rule %u", i);
	cr_assert_eq(write_at(fault, 0), 0);
	blkdev_destroy(fault);
}

/* ---- held requests ---- */

struct ends {
	unsigned int nr;
	uint64_t addrs[8];
};

static void note_end(struct bio *bio)
{
	struct ends *ends = bio->private_data;

	cr_assert_eq(bio->status, 0);
	ends->addrs[ends->nr++] = bio->addr;
}

static void submit_three(struct block_device *bdev, struct bio *bios, struct ends *ends)
{
	static char memory[512];

	for (unsigned int i = 0; i < 3; i++) {
		bio_init(&bios[i], bdev, BIO_WRITE, BIO_DATA, i * 512);
		cr_assert_eq(bio_add(&bios[i], memory, sizeof(memory)), 0);
		bios[i].end_io = note_end;
		bios[i].private_data = ends;
		bio_submit(&bios[i]);
	}
}

Test(blkdev_fault, held_requests_go_on_oldest_first)
{
	struct block_device *fault = faulty_ram();
	struct ends ends = {0};
	struct bio bios[3];

	add(fault, (struct blkdev_fault_rule){.op = ANY, .kind = ANY, .error = 0});
	submit_three(fault, bios, &ends);
	cr_assert_eq(ends.nr, 0);
	cr_assert_eq(blkdev_fault_held(fault), 3);
	cr_assert_eq(blkdev_fault_hits(fault), 3);
	cr_assert_eq(blkdev_fault_release(fault), 3);
	cr_assert_eq(ends.nr, 3);
	for (unsigned int i = 0; i < 3; i++)
		cr_assert_eq(ends.addrs[i], i * 512);
	cr_assert_eq(blkdev_fault_held(fault), 0);
	cr_assert_eq(blkdev_fault_release(fault), 0);
	blkdev_destroy(fault);
}

Test(blkdev_fault, clear_releases_nothing)
{
	struct block_device *fault = faulty_ram();
	struct ends ends = {0};
	struct bio bios[3];

	add(fault, (struct blkdev_fault_rule){.op = ANY, .kind = ANY, .count = 2});
	submit_three(fault, bios, &ends);
	cr_assert_eq(ends.nr, 1, "the third is not held");
	blkdev_fault_clear(fault);
	cr_assert_eq(blkdev_fault_held(fault), 2);
	cr_assert_eq(blkdev_fault_release(fault), 2);
	cr_assert_eq(ends.nr, 3);
	blkdev_destroy(fault);
}

static void submit_held(void *arg)
{
	cr_assert_eq(write_at(arg, 0), 0);
}

Test(blkdev_fault, held_request_is_waited_for, .timeout = 20)
{
	struct block_device *fault = faulty_ram();
	struct env_thread *thread;

	add(fault, (struct blkdev_fault_rule){.op = ANY, .kind = ANY, .error = 0});
	cr_assert_eq(env_thread_create(&thread, "submitter", submit_held, fault), 0);
	while (blkdev_fault_held(fault) == 0)
		env_sleep_ns(100000);
	cr_assert_eq(blkdev_fault_release(fault), 1);
	env_thread_join(thread);
	blkdev_destroy(fault);
}

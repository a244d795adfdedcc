/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_blkdev_fault.c - requests that fail, are held, late, out of order, torn or lost
 */
#include <criterion/criterion.h>

#include <errno.h>
#include <string.h>

#include <iomap/blkdev.h>
#include <iomap/env.h>
#include <iomap/sim.h>

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
		{.op = ANY, .kind = ANY, .action = BLKDEV_FAULT_CUT + 1},
		{.op = ANY, .kind = ANY, .action = BLKDEV_FAULT_REORDER, .window = 2},
		{.op = ANY, .kind = ANY, .action = BLKDEV_FAULT_REORDER, .delay_ns = 1},
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

/* ---- chance ---- */

static unsigned int nr_failed_of_100(uint64_t device_seed, uint64_t rule_seed)
{
	struct block_device *fault = faulty_ram();
	unsigned int nr_failed = 0;

	blkdev_fault_seed(fault, device_seed);
	add(fault, (struct blkdev_fault_rule){
			   .op = ANY, .kind = ANY, .error = -EIO, .chance = 4, .seed = rule_seed});
	for (unsigned int i = 0; i < 100; i++)
		nr_failed = nr_failed * 2 % 1000003 + (write_at(fault, 0) != 0);
	blkdev_destroy(fault);
	return nr_failed;
}

Test(blkdev_fault, chance_is_the_seeds)
{
	cr_assert_eq(nr_failed_of_100(7, 0), nr_failed_of_100(7, 0));
	cr_assert_neq(nr_failed_of_100(7, 0), nr_failed_of_100(8, 0));
	cr_assert_eq(nr_failed_of_100(7, 5), nr_failed_of_100(8, 5), "the rule's own seed");
}

Test(blkdev_fault, chance_is_about_what_it_says)
{
	struct block_device *fault = faulty_ram();

	add(fault, (struct blkdev_fault_rule){.op = ANY, .kind = ANY, .error = -EIO, .chance = 4});
	for (unsigned int i = 0; i < 400; i++)
		write_at(fault, 0);
	cr_assert_geq(blkdev_fault_hits(fault), 60);
	cr_assert_leq(blkdev_fault_hits(fault), 140);
	blkdev_destroy(fault);
}

/* ---- late ---- */

static uint64_t time_of_write(uint64_t delay_ns)
{
	struct block_device *fault = faulty_ram();
	uint64_t start_ns = env_clock_ns(), took_ns;

	add(fault,
	    (struct blkdev_fault_rule){
		    .op = ANY, .kind = ANY, .action = BLKDEV_FAULT_DELAY, .delay_ns = delay_ns});
	cr_assert_eq(write_at(fault, 0), 0);
	took_ns = env_clock_ns() - start_ns;
	blkdev_destroy(fault);
	return took_ns;
}

Test(blkdev_fault, delayed_request_comes_late)
{
	cr_assert_geq(time_of_write(2000000), 2000000);
}

static void check_virtual_delay(void *arg)
{
	(void)arg;
	cr_assert_eq(time_of_write(5000000000), 5000000000);
}

Test(blkdev_fault, delay_is_of_the_worlds_clock)
{
	struct env_sim_config config;
	struct env_sim_result result;

	env_sim_config_init(&config);
	cr_assert_eq(env_sim_run(&config, check_virtual_delay, NULL, &result), 0, "%s",
		     result.text);
}

/* ---- out of order ---- */

#define NR_ORDERED 8

struct arrivals {
	unsigned int nr; /* [a] */
	uint64_t addrs[NR_ORDERED];
	struct bio bios[NR_ORDERED];
};

static void note_arrival(struct bio *bio)
{
	struct arrivals *arrivals = bio->private_data;

	cr_assert_eq(bio->status, 0);
	arrivals->addrs[arrivals->nr] = bio->addr / 512;
	__atomic_store_n(&arrivals->nr, arrivals->nr + 1, __ATOMIC_RELEASE);
}

static void submit_ordered(struct block_device *bdev, struct arrivals *arrivals, unsigned int nr)
{
	static char memory[512];

	*arrivals = (struct arrivals){0};
	for (unsigned int i = 0; i < nr; i++) {
		bio_init(&arrivals->bios[i], bdev, BIO_WRITE, BIO_DATA, i * 512);
		cr_assert_eq(bio_add(&arrivals->bios[i], memory, sizeof(memory)), 0);
		arrivals->bios[i].end_io = note_arrival;
		arrivals->bios[i].private_data = arrivals;
		bio_submit(&arrivals->bios[i]);
	}
}

static unsigned int nr_arrived(struct arrivals *arrivals)
{
	return __atomic_load_n(&arrivals->nr, __ATOMIC_ACQUIRE);
}

static void wait_for(struct arrivals *arrivals, unsigned int nr)
{
	while (nr_arrived(arrivals) < nr)
		env_sleep_ns(100000);
}

static void reordered(struct arrivals *arrivals, uint64_t seed)
{
	struct block_device *fault = faulty_ram();

	add(fault, (struct blkdev_fault_rule){.op = ANY,
					      .kind = ANY,
					      .action = BLKDEV_FAULT_REORDER,
					      .window = NR_ORDERED,
					      .delay_ns = UINT64_MAX / 4,
					      .seed = seed});
	submit_ordered(fault, arrivals, NR_ORDERED);
	wait_for(arrivals, NR_ORDERED);
	blkdev_destroy(fault);
}

Test(blkdev_fault, window_goes_in_the_seeds_order, .timeout = 20)
{
	struct arrivals first, again, other;
	unsigned int seen = 0;
	bool moved = false;

	reordered(&first, 3);
	reordered(&again, 3);
	reordered(&other, 4);
	cr_assert_eq(memcmp(first.addrs, again.addrs, sizeof(first.addrs)), 0);
	cr_assert_neq(memcmp(first.addrs, other.addrs, sizeof(first.addrs)), 0);
	for (unsigned int i = 0; i < NR_ORDERED; i++) {
		seen |= 1u << first.addrs[i];
		moved = moved || first.addrs[i] != i;
	}
	cr_assert_eq(seen, (1u << NR_ORDERED) - 1, "each one once");
	cr_assert(moved);
}

Test(blkdev_fault, window_that_does_not_fill_goes_by_time, .timeout = 20)
{
	struct block_device *fault = faulty_ram();
	struct arrivals arrivals;
	uint64_t start_ns = env_clock_ns();

	add(fault, (struct blkdev_fault_rule){.op = ANY,
					      .kind = ANY,
					      .action = BLKDEV_FAULT_REORDER,
					      .window = NR_ORDERED,
					      .delay_ns = 2000000});
	submit_ordered(fault, &arrivals, 3);
	wait_for(&arrivals, 3);
	cr_assert_geq(env_clock_ns() - start_ns, 2000000);
	submit_ordered(fault, &arrivals, 3);
	wait_for(&arrivals, 3);
	blkdev_destroy(fault);
}

/* ---- torn and lost ---- */

#define NR_SECTORS 32

static int transfer(struct block_device *bdev, enum bio_op op, unsigned char *memory)
{
	struct bio bio;
	int err;

	bio_init(&bio, bdev, op, BIO_DATA, 4096);
	/* Two pieces that are not whole blocks. */
	cr_assert_eq(bio_add(&bio, memory + 700, NR_SECTORS * 512 - 700), 0);
	cr_assert_eq(bio_add(&bio, memory, 700), 0);
	err = bio_submit_wait(&bio);
	bio_uninit(&bio);
	return err;
}

/* A bit for each sector that has its byte. */
static uint32_t tear_and_look(uint64_t seed, int error)
{
	struct block_device *fault = faulty_ram();
	static unsigned char memory[NR_SECTORS * 512];
	uint32_t written = 0;

	add(fault, (struct blkdev_fault_rule){.op = ANY,
					      .kind = ANY,
					      .action = BLKDEV_FAULT_TEAR,
					      .error = error,
					      .seed = seed});
	for (unsigned int i = 0; i < sizeof(memory); i++)
		memory[(i + 700) % sizeof(memory)] = (unsigned char)(1 + i / 512);
	cr_assert_eq(transfer(fault, BIO_WRITE, memory), error);
	memset(memory, 0xee, sizeof(memory));
	cr_assert_eq(transfer(fault, BIO_READ, memory), 0, "a read is not torn");
	for (unsigned int i = 0; i < sizeof(memory); i++) {
		unsigned char got = memory[(i + 700) % sizeof(memory)];

		cr_assert(got == 0 || got == 1 + i / 512);
		if (i % 512 == 0 && got)
			written |= 1u << (i / 512);
		cr_assert_eq(got != 0, (written >> (i / 512)) & 1, "a sector is whole");
	}
	blkdev_destroy(fault);
	return written;
}

Test(blkdev_fault, torn_write_is_never_whole)
{
	unsigned int nr_prefixes = 0, nr_holes = 0;

	for (uint64_t seed = 1; seed <= 20; seed++) {
		uint32_t written = tear_and_look(seed, -EIO);

		cr_assert_neq(written, UINT32_MAX);
		if ((written & (written + 1)) == 0)
			nr_prefixes++;
		else
			nr_holes++;
	}
	cr_assert_geq(nr_prefixes, 3);
	cr_assert_geq(nr_holes, 3);
}

Test(blkdev_fault, torn_write_may_be_reported_done)
{
	cr_assert_neq(tear_and_look(1, 0), UINT32_MAX);
	cr_assert_eq(tear_and_look(9, 0), tear_and_look(9, -ENOSPC), "the same part");
}

Test(blkdev_fault, lost_write_is_reported_done)
{
	struct block_device *fault = faulty_ram();
	unsigned char memory[NR_SECTORS * 512];

	add(fault, (struct blkdev_fault_rule){.op = ANY, .kind = ANY, .action = BLKDEV_FAULT_LOSE});
	memset(memory, 'a', sizeof(memory));
	cr_assert_eq(transfer(fault, BIO_WRITE, memory), 0);
	cr_assert_eq(submit(fault, BIO_FLUSH, BIO_DATA, 0), 0);
	cr_assert_eq(blkdev_fault_hits(fault), 2);
	cr_assert_eq(transfer(fault, BIO_READ, memory), 0);
	cr_assert_eq(blkdev_fault_hits(fault), 2, "a read is not lost");
	for (unsigned int i = 0; i < sizeof(memory); i++)
		cr_assert_eq(memory[i], 0);
	blkdev_destroy(fault);
}

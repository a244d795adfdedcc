/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_xfs_log.c - log space, its waiting and its writing (XF26), in virtual time
 */
#include "fsbackends/xfs/log.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <iomap/blkdev.h>
#include <iomap/sim.h>

#include "fsbackends/xfs/alloc.h"

#define KIB	  (1ull << 10)
#define MIB	  (1ull << 20)
#define SEC	  1000000000ull
#define RESERVED  (96 * KIB)
#define POOL_HELD (XFS_LOG_MIN_BYTES / RESERVED)

static struct block_device *fault, *dev;
static struct xfs_space space;
static struct xfs_log xlog;

static void open_log(uint64_t size)
{
	struct xfs_geometry_config wanted = {.size = 256 * MIB, .block_size = 4096};
	struct xfs_log_config config = {.size = size, .addr = 64 * KIB, .len = MIB};
	struct block_device *null, *model;
	struct xfs_geometry geometry;
	char error[200];

	cr_assert_eq(xfs_geometry_init(&geometry, &wanted, error, sizeof(error)), 0);
	cr_assert_eq(xfs_space_init(&space, &geometry), 0);
	cr_assert_eq(blkdev_null_create(&null, 256 * MIB, 0), 0);
	cr_assert_eq(blkdev_model_create(&model, null, blkdev_profile_find("nvme-virtual")), 0);
	cr_assert_eq(blkdev_fault_create(&fault, model), 0);
	cr_assert_eq(blkdev_count_create(&dev, fault), 0);
	config.bdev = dev;
	config.space = &space;
	cr_assert_eq(xfs_log_init(&xlog, &config), 0);
}

static void close_log(void)
{
	xfs_log_destroy(&xlog);
	xfs_space_destroy(&space);
	blkdev_destroy(dev);
}

static struct blkdev_count count_io(void)
{
	struct blkdev_count count;

	blkdev_count_read(dev, &count);
	return count;
}

static void run(void (*fn)(void *arg))
{
	static struct env_sim_result result;
	struct env_sim_config config;

	env_sim_config_init(&config);
	config.nr_cpus = 4;
	config.max_ns = 1000 * SEC;
	cr_assert_eq(env_sim_run(&config, fn, NULL, &result), 0, "%s", result.text);
}

/* One after another; each logs the metadata of an inode in a block of its own. */
static void run_transactions(unsigned int nr)
{
	for (unsigned int i = 0; i < nr; i++) {
		struct xfs_logged logged = {.block = 1000 + i % 100};

		xfs_log_begin(&xlog, XFS_TRANS_ALLOC, NULL);
		xfs_log_change(&xlog);
		xfs_log_end(&xlog, XFS_TRANS_ALLOC, &logged);
	}
}

/* ---- space ------------------------------------------------------------------------------- */

struct late {
	enum xfs_trans kind;
	unsigned int turn; /* 0: not there yet */
};

static unsigned int nr_turns;

static void come_late(void *arg)
{
	struct late *late = arg;

	xfs_log_begin(&xlog, late->kind, NULL);
	late->turn = ++nr_turns;
	xfs_log_cancel(&xlog, late->kind);
}

/* XF26: a reservation that does not fit waits, and all behind it wait in order. */
static void wait_in_order(void *arg)
{
	struct late lates[] = {
		{.kind = XFS_TRANS_ALLOC}, {.kind = XFS_TRANS_SIZE}, {.kind = XFS_TRANS_CONVERT}};
	struct env_thread *threads[3];

	(void)arg;
	open_log(XFS_LOG_MIN_BYTES);
	for (unsigned int i = 0; i < POOL_HELD; i++)
		xfs_log_begin(&xlog, XFS_TRANS_ALLOC, NULL);
	for (unsigned int i = 0; i < 3; i++) {
		cr_assert_eq(env_thread_create(&threads[i], "late", come_late, &lates[i]), 0);
		env_sleep_ns(1000000);
	}
	cr_assert_eq(nr_turns, 0, "8 KiB would fit, but stand behind 96 KiB");
	cr_assert_eq(xlog.nr_waits, 3);
	cr_assert_not(xfs_log_try_begin(&xlog, XFS_TRANS_SIZE));
	for (unsigned int i = 0; i < POOL_HELD; i++)
		xfs_log_cancel(&xlog, XFS_TRANS_ALLOC);
	for (unsigned int i = 0; i < 3; i++) {
		env_thread_join(threads[i]);
		cr_assert_eq(lates[i].turn, i + 1);
	}
	cr_assert_eq(xlog.free, XFS_LOG_MIN_BYTES);
	close_log();
}

Test(xfs_log, reservations_wait_in_order)
{
	run(wait_in_order);
}

/* XF26: what was reserved and not used comes back at once, what was logged when it is in place. */
static void give_back(void *arg)
{
	(void)arg;
	open_log(XFS_LOG_MIN_BYTES);
	run_transactions(1);
	cr_assert_eq(xlog.free, XFS_LOG_MIN_BYTES - xfs_trans_sizes[XFS_TRANS_ALLOC].logged);
	cr_assert_eq(xlog.pending, xfs_trans_sizes[XFS_TRANS_ALLOC].logged);
	env_sleep_ns(31 * SEC);
	cr_assert_eq(xlog.free, XFS_LOG_MIN_BYTES);
	close_log();
}

Test(xfs_log, space_comes_back)
{
	run(give_back);
}

/* XF26: 1 to 4 KiB stay of a transaction that had reserved 96 KiB, or 8 for a new size. */
Test(xfs_log, sizes_are_those_of_the_rule)
{
	for (unsigned int kind = 0; kind < XFS_NR_TRANS; kind++) {
		cr_assert_eq(xfs_trans_sizes[kind].reserved,
			     kind == XFS_TRANS_SIZE ? 8 * KIB : RESERVED);
		cr_assert_geq(xfs_trans_sizes[kind].logged, KIB);
		cr_assert_leq(xfs_trans_sizes[kind].logged, 4 * KIB);
	}
}

/* ---- writing ----------------------------------------------------------------------------- */

/* XF26: sequential requests of 32 to 256 KiB, and metadata in place so that space comes back. */
static void write_behind(void *arg)
{
	struct blkdev_count count;
	uint64_t ios, bytes;

	(void)arg;
	open_log(XFS_LOG_MIN_BYTES);
	run_transactions(5000);
	count = count_io();
	ios = count.ios[BIO_WRITE][BIO_JOURNAL];
	bytes = count.bytes[BIO_WRITE][BIO_JOURNAL];
	cr_assert_gt(bytes, 4 * MIB);
	cr_assert_geq(bytes / ios, 32 * KIB * 9 / 10, "%llu requests", (unsigned long long)ios);
	cr_assert_leq(bytes / ios, 256 * KIB);
	cr_assert_gt(count.ios[BIO_WRITE][BIO_META], 0);
	cr_assert_lt(count.bytes[BIO_WRITE][BIO_META], bytes, "inodes share blocks and rounds");
	close_log();
}

Test(xfs_log, the_thread_writes_large_requests)
{
	run(write_behind);
}

/* Nobody asks for it, and it is durable after the window. */
static void write_in_time(void *arg)
{
	uint64_t change;

	(void)arg;
	open_log(XFS_LOG_MIN_BYTES);
	env_sleep_ns(100 * SEC);
	cr_assert_eq(count_io().ios[BIO_WRITE][BIO_JOURNAL], 0);
	xfs_log_begin(&xlog, XFS_TRANS_SIZE, NULL);
	change = xfs_log_change(&xlog);
	xfs_log_end(&xlog, XFS_TRANS_SIZE, NULL);
	env_sleep_ns(29 * SEC);
	cr_assert_not(xfs_log_is_committed(&xlog, change));
	env_sleep_ns(2 * SEC);
	cr_assert(xfs_log_is_committed(&xlog, change));
	cr_assert_eq(count_io().ios[BIO_WRITE][BIO_JOURNAL], 1);
	close_log();
}

Test(xfs_log, small_changes_are_written_after_half_a_minute)
{
	run(write_in_time);
}

/* One time stamp is one record of 1024 bytes, the figure of A1 and A3. */
static void commit_small(void *arg)
{
	uint64_t change;

	(void)arg;
	open_log(XFS_LOG_MIN_BYTES);
	change = xfs_log_change(&xlog);
	xfs_log_small(&xlog, NULL);
	cr_assert_eq(xfs_log_commit(&xlog, change), 0);
	cr_assert_eq(xfs_log_commit(&xlog, change), 0);
	cr_assert_eq(count_io().ios[BIO_WRITE][BIO_JOURNAL], 1);
	cr_assert_eq(count_io().bytes[BIO_WRITE][BIO_JOURNAL], 1024);
	close_log();
}

Test(xfs_log, a_time_stamp_is_1024_bytes)
{
	run(commit_small);
}

/* Whoever waits for space is not lost when the log cannot be written for a while. */
static void write_fails(void *arg)
{
	struct blkdev_fault_rule rule = {
		.op = BIO_WRITE, .kind = BIO_JOURNAL, .count = 3, .error = -EIO};

	(void)arg;
	open_log(XFS_LOG_MIN_BYTES);
	cr_assert_eq(blkdev_fault_add(fault, &rule), 0);
	run_transactions(2000);
	cr_assert_eq(blkdev_fault_hits(fault), 3);
	close_log();
}

Test(xfs_log, failed_writes_are_tried_again)
{
	run(write_fails);
}

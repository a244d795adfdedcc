/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_ext4_journal.c - transactions under virtual time (EX23), and the sets they are made of
 */
#include "fsbackends/ext4/journal.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <iomap/blkdev.h>
#include <iomap/sim.h>
#include "fsbackends/ext4/tree.h"

#define BLOCK	  4096u
#define START	  1000u
#define NR_BLOCKS 1024u
#define SECOND	  1000000000ull

/* ---- sets ------------------------------------------------------------------------------- */

Test(ext4_journal, a_set_has_each_block_once)
{
	struct block_set set;

	cr_assert_eq(block_set_init(&set, 100), 0);
	for (uint64_t i = 0; i < 100; i++)
		cr_assert(block_set_add(&set, i * 4096));
	for (uint64_t i = 0; i < 100; i++)
		cr_assert_not(block_set_add(&set, i * 4096));
	cr_assert_eq(set.nr, 100);
	cr_assert_not(block_set_add(&set, 1));
	block_set_clear(&set);
	cr_assert_eq(set.nr, 0);
	cr_assert(block_set_add(&set, 4096));
	cr_assert_eq(set.blocks[0], 4096);
	block_set_destroy(&set);
}

/* Slots that collide move up: whatever is removed, the others are found. */
Test(ext4_journal, a_set_forgets_what_is_removed)
{
	struct block_set set;

	cr_assert_eq(block_set_init(&set, 64), 0);
	for (uint64_t i = 0; i < 64; i++)
		cr_assert(block_set_add(&set, i * i));
	for (uint64_t i = 0; i < 64; i += 3)
		cr_assert(block_set_remove(&set, i * i));
	for (uint64_t i = 0; i < 64; i += 3)
		cr_assert_not(block_set_remove(&set, i * i));
	cr_assert_eq(set.nr, 42);
	for (uint64_t i = 0; i < 64; i++)
		cr_assert_eq(block_set_add(&set, i * i), i % 3 == 0);
	cr_assert_eq(set.nr, 64);
	block_set_destroy(&set);
}

/* 340 records in a block of 4 KiB, four in the inode. */
Test(ext4_journal, a_tree_has_blocks_for_all_records)
{
	cr_assert_eq(ext4_tree_size(4096, 4), 0);
	cr_assert_eq(ext4_tree_size(4096, 5), 1);
	cr_assert_eq(ext4_tree_size(4096, 340), 1);
	cr_assert_eq(ext4_tree_size(4096, 341), 2);
	cr_assert_eq(ext4_tree_size(4096, 4 * 340), 4);
	cr_assert_eq(ext4_tree_size(4096, 4 * 340 + 1), 5 + 1);
}

/* ---- a journal of its own --------------------------------------------------------------- */

struct rig {
	struct ext4_journal journal;
	struct block_device *dev; /* count, over fault, over null */
	struct block_device *fault;
};

static void rig_open(struct rig *rig)
{
	struct block_device *null;

	cr_assert_eq(blkdev_null_create(&null, 64 << 20, 0), 0);
	cr_assert_eq(blkdev_fault_create(&rig->fault, null), 0);
	cr_assert_eq(blkdev_count_create(&rig->dev, rig->fault), 0);
	cr_assert_eq(
		ext4_journal_init(&rig->journal, rig->dev, BLOCK, START, NR_BLOCKS, 5 * SECOND), 0);
}

static void rig_close(struct rig *rig)
{
	ext4_journal_destroy(&rig->journal);
	blkdev_destroy(rig->dev);
}

static uint64_t blocks_written(struct rig *rig, enum bio_kind kind)
{
	struct blkdev_count count;

	blkdev_count_read(rig->dev, &count);
	return count.bytes[BIO_WRITE][kind] / BLOCK;
}

static uint64_t requests(struct rig *rig, enum bio_kind kind)
{
	struct blkdev_count count;

	blkdev_count_read(rig->dev, &count);
	return count.ios[BIO_WRITE][kind];
}

/* Change nr blocks in one handle; its transaction. */
static uint64_t change(struct rig *rig, uint64_t first, uint32_t nr)
{
	struct ext4_handle handle;

	cr_assert_eq(ext4_handle_start(&rig->journal, &handle, nr, NULL, false), 0);
	for (uint32_t i = 0; i < nr; i++)
		ext4_handle_dirty(&handle, first + i);
	ext4_handle_stop(&handle);
	return handle.tid;
}

static void simulate(void (*fn)(void *arg))
{
	static struct env_sim_result result;
	struct env_sim_config config;

	env_sim_config_init(&config);
	cr_assert_eq(env_sim_run(&config, fn, NULL, &result), 0, "%s", result.text);
	config.schedule = ENV_SIM_ADVERSARIAL;
	cr_assert_eq(env_sim_run_seeds(&config, 50, fn, NULL, &result), 0, "%s", result.text);
}

/* The figures of a run in which the seed may also decide when a sleep ends. */
static void simulate_times(void (*fn)(void *arg))
{
	static struct env_sim_result result;
	struct env_sim_config config;

	env_sim_config_init(&config);
	cr_assert_eq(env_sim_run(&config, fn, NULL, &result), 0, "%s", result.text);
}

static void commit_by_time(void *arg)
{
	struct rig rig;

	(void)arg;
	rig_open(&rig);
	env_sleep_ns(60 * SECOND);
	cr_assert_eq(requests(&rig, BIO_JOURNAL), 0);
	change(&rig, 7, 3);
	change(&rig, 8, 1);
	env_sleep_ns(4900000000ull);
	cr_assert_eq(requests(&rig, BIO_JOURNAL), 0);
	env_sleep_ns(200000000);
	/* Descriptor and blocks, then the commit block. */
	cr_assert_eq(requests(&rig, BIO_JOURNAL), 2);
	cr_assert_eq(blocks_written(&rig, BIO_JOURNAL), 1 + 3 + 1);
	rig_close(&rig);
}

Test(ext4_journal, a_transaction_is_committed_after_five_seconds)
{
	simulate_times(commit_by_time);
}

static void place_by_time(void *arg)
{
	struct rig rig;

	(void)arg;
	rig_open(&rig);
	cr_assert_eq(ext4_journal_commit(&rig.journal, change(&rig, 7, 3)), 0);
	cr_assert_eq(ext4_journal_commit(&rig.journal, change(&rig, 8, 3)), 0);
	cr_assert_eq(ext4_journal_commit(&rig.journal, change(&rig, 100, 1)), 0);
	env_sleep_ns(29 * SECOND);
	cr_assert_eq(requests(&rig, BIO_META), 0);
	env_sleep_ns(2 * SECOND);
	/* 7 .. 10 and 100: each once. */
	cr_assert_eq(requests(&rig, BIO_META), 2);
	cr_assert_eq(blocks_written(&rig, BIO_META), 5);
	rig_close(&rig);
}

Test(ext4_journal, committed_blocks_go_to_their_places_later)
{
	simulate_times(place_by_time);
}

static void commit_by_size(void *arg)
{
	struct rig rig;

	(void)arg;
	rig_open(&rig);
	for (uint32_t i = 0; i < NR_BLOCKS / 4; i += 8)
		change(&rig, i, 8);
	cr_assert_eq(ext4_journal_tid(&rig.journal), 1);
	cr_assert_eq(change(&rig, 5000, 8), 2);
	cr_assert_eq(ext4_journal_commit(&rig.journal, 1), 0);
	cr_assert_eq(blocks_written(&rig, BIO_JOURNAL), 2 + 256 + 1);
	rig_close(&rig);
}

Test(ext4_journal, a_quarter_of_the_area_is_committed_at_once)
{
	simulate_times(commit_by_size);
}

/* 1024 blocks take three transactions of 256: the fourth needs the places written first. */
static void area_is_full(void *arg)
{
	struct rig rig;

	(void)arg;
	rig_open(&rig);
	for (unsigned int i = 0; i < 3; i++)
		cr_assert_eq(ext4_journal_commit(&rig.journal, change(&rig, i * 256, 256)), 0);
	cr_assert_eq(requests(&rig, BIO_META), 0);
	cr_assert_eq(ext4_journal_commit(&rig.journal, change(&rig, 768, 256)), 0);
	cr_assert_eq(blocks_written(&rig, BIO_META), 768);
	rig_close(&rig);
}

Test(ext4_journal, a_full_area_is_emptied_before_the_next_commit)
{
	simulate_times(area_is_full);
}

/* ---- forgotten blocks ------------------------------------------------------------------- */

static unsigned int nr_released;
static uint64_t last_released;

static void release(void *arg, uint64_t block)
{
	(void)arg;
	nr_released++;
	last_released = block;
}

static void rig_open_with_release(struct rig *rig)
{
	rig_open(rig);
	cr_assert_eq(ext4_journal_set_release(&rig->journal, 8, release, NULL), 0);
	nr_released = 0;
}

/* Change `changed`, forget `forgotten`. */
static uint64_t change_and_forget(struct rig *rig, uint64_t changed, uint64_t forgotten)
{
	struct ext4_handle handle;

	cr_assert_eq(ext4_handle_start(&rig->journal, &handle, 4, NULL, false), 0);
	ext4_handle_dirty(&handle, changed);
	ext4_handle_forget(&handle, forgotten);
	ext4_handle_stop(&handle);
	return handle.tid;
}

static void forget_committed(void *arg)
{
	struct rig rig;
	uint64_t tid;

	(void)arg;
	rig_open_with_release(&rig);
	cr_assert_eq(ext4_journal_commit(&rig.journal, change(&rig, 7, 1)), 0);
	tid = change_and_forget(&rig, 100, 7);
	env_sleep_ns(SECOND);
	cr_assert_eq(nr_released, 0);
	cr_assert_eq(ext4_journal_commit(&rig.journal, tid), 0);
	cr_assert_eq(nr_released, 1);
	cr_assert_eq(last_released, 7);
	env_sleep_ns(31 * SECOND);
	/* 100, not 7: it is somebody else's now. */
	cr_assert_eq(blocks_written(&rig, BIO_META), 1);
	rig_close(&rig);
}

Test(ext4_journal, a_forgotten_block_is_released_by_the_commit_and_never_placed)
{
	simulate_times(forget_committed);
}

static void forget_running(void *arg)
{
	struct rig rig;

	(void)arg;
	rig_open_with_release(&rig);
	change(&rig, 7, 1);
	cr_assert_eq(ext4_journal_commit(&rig.journal, change_and_forget(&rig, 100, 7)), 0);
	cr_assert_eq(nr_released, 1);
	/* Descriptor, 100, commit block. */
	cr_assert_eq(blocks_written(&rig, BIO_JOURNAL), 3);
	env_sleep_ns(31 * SECOND);
	cr_assert_eq(blocks_written(&rig, BIO_META), 1);
	rig_close(&rig);
}

Test(ext4_journal, a_block_forgotten_in_its_own_transaction_is_not_written)
{
	simulate_times(forget_running);
}

static void forget_and_fail(void *arg)
{
	struct blkdev_fault_rule rule = {
		.op = BIO_WRITE, .kind = BIO_JOURNAL, .count = 1, .error = -EIO};
	struct rig rig;
	uint64_t tid;

	(void)arg;
	rig_open_with_release(&rig);
	cr_assert_eq(ext4_journal_commit(&rig.journal, change(&rig, 7, 1)), 0);
	cr_assert_eq(blkdev_fault_add(rig.fault, &rule), 0);
	tid = change_and_forget(&rig, 100, 7);
	cr_assert_eq(ext4_journal_commit(&rig.journal, tid), -EIO);
	cr_assert_eq(nr_released, 0);
	cr_assert_eq(ext4_journal_commit(&rig.journal, tid), 0);
	cr_assert_eq(nr_released, 1);
	rig_close(&rig);
}

Test(ext4_journal, a_failed_commit_releases_nothing)
{
	simulate_times(forget_and_fail);
}

/* ---- several at once -------------------------------------------------------------------- */

struct commit_task {
	struct rig *rig;
	uint64_t tid;
};

static void commit_run(void *arg)
{
	struct commit_task *task = arg;

	cr_assert_eq(ext4_journal_commit(&task->rig->journal, task->tid), 0);
}

static void commit_waits_for_handle(void *arg)
{
	struct ext4_handle first, second;
	struct commit_task task;
	struct env_thread *thread;
	struct rig rig;

	(void)arg;
	rig_open(&rig);
	cr_assert_eq(ext4_handle_start(&rig.journal, &first, 4, NULL, false), 0);
	ext4_handle_dirty(&first, 7);
	task = (struct commit_task){&rig, first.tid};
	cr_assert_eq(env_thread_create(&thread, "commit", commit_run, &task), 0);
	env_sleep_ns(SECOND);
	/* The transaction is locked: nobody may join it, and it is not written yet. */
	cr_assert_eq(ext4_handle_start(&rig.journal, &second, 4, NULL, true), -EAGAIN);
	cr_assert_eq(requests(&rig, BIO_JOURNAL), 0);
	ext4_handle_dirty(&first, 8);
	ext4_handle_stop(&first);
	cr_assert_eq(ext4_handle_start(&rig.journal, &second, 4, NULL, false), 0);
	cr_assert_eq(second.tid, first.tid + 1);
	ext4_handle_stop(&second);
	env_thread_join(thread);
	cr_assert_eq(blocks_written(&rig, BIO_JOURNAL), 1 + 2 + 1);
	rig_close(&rig);
}

Test(ext4_journal, a_commit_waits_for_handles_and_handles_wait_for_it)
{
	simulate_times(commit_waits_for_handle);
}

static void failed_commit(void *arg)
{
	struct blkdev_fault_rule rule = {
		.op = BIO_WRITE, .kind = BIO_JOURNAL, .count = 1, .error = -EIO};
	struct rig rig;
	uint64_t tid;

	(void)arg;
	rig_open(&rig);
	cr_assert_eq(blkdev_fault_add(rig.fault, &rule), 0);
	tid = change(&rig, 7, 3);
	cr_assert_eq(ext4_journal_commit(&rig.journal, tid), -EIO);
	cr_assert_not(ext4_journal_is_committed(&rig.journal, tid));
	cr_assert_eq(ext4_journal_commit(&rig.journal, tid), 0);
	cr_assert(ext4_journal_is_committed(&rig.journal, tid));
	cr_assert_eq(ext4_journal_commit_all(&rig.journal), 0);
	rig_close(&rig);
}

Test(ext4_journal, a_failed_commit_is_told_once_and_made_again)
{
	simulate(failed_commit);
}

/* EX5: a handle that has used its blocks goes on in the next transaction if this one is full. */
static void restart(void *arg)
{
	struct ext4_handle handle;
	struct rig rig;

	(void)arg;
	rig_open(&rig);
	cr_assert_eq(ext4_handle_start(&rig.journal, &handle, 32, NULL, false), 0);
	for (uint64_t block = 0; block < 1000; block++) {
		ext4_handle_extend(&handle, 8);
		ext4_handle_dirty(&handle, block);
	}
	cr_assert_gt(handle.tid, 3);
	ext4_handle_stop(&handle);
	cr_assert_eq(ext4_journal_commit_all(&rig.journal), 0);
	rig_close(&rig);
}

Test(ext4_journal, a_handle_restarts_when_its_credits_are_used)
{
	simulate(restart);
}

static void many_run(void *arg)
{
	struct rig *rig = arg;

	for (unsigned int i = 0; i < 20; i++) {
		uint64_t tid = change(rig, i * 3, 40);

		if (i % 4 == 0)
			cr_assert_eq(ext4_journal_commit(&rig->journal, tid), 0);
	}
}

static void many(void *arg)
{
	struct env_thread *threads[4];
	struct rig rig;

	(void)arg;
	rig_open(&rig);
	for (unsigned int i = 0; i < 4; i++)
		cr_assert_eq(env_thread_create(&threads[i], "many", many_run, &rig), 0);
	for (unsigned int i = 0; i < 4; i++)
		env_thread_join(threads[i]);
	rig_close(&rig);
}

Test(ext4_journal, many_threads_commit)
{
	simulate(many);
}

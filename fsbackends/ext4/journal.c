/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * journal.c - handles, the running transaction, and the thread that commits it
 */
#include "fsbackends/ext4/journal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <iomap/backing_dev.h>
#include <iomap/blkdev.h>
#include <iomap/cost.h>

#define MAGIC 0x4c414e4a34545845ull /* "EXT4JNAL" */

/* EX23: a quarter of the area, but not less than this. */
#define RUNNING_SHARE 4u
#define RUNNING_MIN   64u
/* What a descriptor block says of each block that follows it. */
#define TAG_BYTES 16u
/* The longest request. */
#define REQUEST_BYTES (1024u * 1024u)
/* How long blocks that are committed may wait for their places. */
#define PLACE_NS 30000000000ull

enum block_type { DESCRIPTOR, METADATA, COMMIT, NR_BLOCK_TYPES };

struct block_header {
	uint64_t magic;
	uint64_t tid;
	uint32_t type;
	uint32_t nr_metadata;
};

static uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* ---- handles ---------------------------------------------------------------------------- */

/* => lock is held */
static bool has_room(const struct ext4_journal *journal, uint32_t credits)
{
	uint32_t used = journal->running.nr + journal->nr_promised;

	return used == 0 || used + credits <= journal->max_running;
}

/* => lock is held */
static void want_commit(struct ext4_journal *journal, uint64_t tid)
{
	if (journal->wanted_tid >= tid)
		return;
	journal->wanted_tid = tid;
	env_waitq_wake(&journal->working);
}

/* => lock is held; it is given up while waiting */
static void wait_to_start(struct ext4_journal *journal, uint32_t credits)
{
	while (journal->is_locked || !has_room(journal, credits)) {
		uint32_t key;

		if (!journal->is_locked)
			want_commit(journal, journal->running_tid);
		key = env_waitq_prepare(&journal->starting);
		env_mutex_unlock(&journal->lock);
		env_waitq_wait(&journal->starting, key, ENV_FOREVER);
		env_mutex_lock(&journal->lock);
	}
}

/* => lock is held */
static int join(struct ext4_journal *journal, struct ext4_handle *handle, bool nowait)
{
	bool ready = !journal->is_locked && has_room(journal, handle->max_credits);

	if (!ready) {
		uint64_t since;

		if (nowait)
			return -EAGAIN;
		since = env_clock_ns();
		wait_to_start(journal, handle->max_credits);
		if (handle->inode)
			wb_account_log_wait(handle->inode, env_clock_ns() - since);
	}
	handle->tid = journal->running_tid;
	handle->credits = handle->max_credits;
	journal->nr_promised += handle->credits;
	journal->nr_handles++;
	return 0;
}

/* => lock is held */
static void leave(struct ext4_journal *journal, struct ext4_handle *handle)
{
	journal->nr_promised -= handle->credits;
	if (--journal->nr_handles == 0 && journal->is_locked)
		env_waitq_wake(&journal->stopping);
	if (handle->credits)
		env_waitq_wake(&journal->starting);
	handle->credits = 0;
}

int ext4_handle_start(struct ext4_journal *journal, struct ext4_handle *handle, uint32_t credits,
		      struct inode *inode, bool nowait)
{
	int err;

	*handle = (struct ext4_handle){
		.journal = journal,
		.inode = inode,
		.max_credits = min_u32(credits, journal->max_running),
	};
	env_charge(ENV_COST_HANDLE, 1);
	env_mutex_lock(&journal->lock);
	err = join(journal, handle, nowait);
	env_mutex_unlock(&journal->lock);
	return err;
}

void ext4_handle_stop(struct ext4_handle *handle)
{
	struct ext4_journal *journal = handle->journal;

	env_mutex_lock(&journal->lock);
	leave(journal, handle);
	env_mutex_unlock(&journal->lock);
}

void ext4_handle_extend(struct ext4_handle *handle, uint32_t credits)
{
	struct ext4_journal *journal = handle->journal;

	if (handle->credits >= min_u32(credits, handle->max_credits))
		return;
	env_charge(ENV_COST_HANDLE, 1);
	env_mutex_lock(&journal->lock);
	leave(journal, handle);
	(void)join(journal, handle, false);
	env_mutex_unlock(&journal->lock);
}

void ext4_handle_dirty(struct ext4_handle *handle, uint64_t block)
{
	struct ext4_journal *journal = handle->journal;

	env_mutex_lock(&journal->lock);
	if (block_set_add(&journal->running, block)) {
		if (handle->credits) {
			handle->credits--;
			journal->nr_promised--;
		}
		if (journal->running.nr == 1) {
			journal->running_since = env_clock_ns();
			env_waitq_wake(&journal->working);
		}
	}
	env_mutex_unlock(&journal->lock);
}

void ext4_handle_forget(struct ext4_handle *handle, uint64_t block)
{
	struct ext4_journal *journal = handle->journal;
	bool is_new;

	env_mutex_lock(&journal->lock);
	is_new = block_set_add(&journal->forgotten, block);
	env_mutex_unlock(&journal->lock);
	assert(is_new);
	(void)is_new;
}

/* ---- requests --------------------------------------------------------------------------- */

/* Up to nr blocks, each of which is `memory`: what memory for the vector there is. */
static uint32_t bio_fill(struct ext4_journal *journal, struct bio *bio, uint32_t nr,
			 unsigned char *memory)
{
	uint32_t n = 0;

	while (n < nr && bio_add(bio, memory, journal->block_size) == 0)
		n++;
	return n;
}

/* nr blocks, each of which is `memory`, to `block` of the device. */
static int write_same(struct ext4_journal *journal, enum bio_kind kind, uint64_t block, uint32_t nr,
		      unsigned char *memory)
{
	uint32_t longest = REQUEST_BYTES / journal->block_size;
	int err = 0;

	while (nr > 0 && !err) {
		struct bio bio;
		uint32_t n;

		bio_init(&bio, journal->bdev, BIO_WRITE, kind, block * journal->block_size);
		n = bio_fill(journal, &bio, min_u32(nr, longest), memory);
		env_charge(ENV_COST_REQUEST, 1);
		/* A few pieces need no memory. */
		err = n ? bio_submit_wait(&bio) : -ENOMEM;
		bio_uninit(&bio);
		block += n;
		nr -= n;
	}
	return err;
}

int ext4_journal_flush(struct ext4_journal *journal)
{
	struct bio bio;
	int err;

	bio_init(&bio, journal->bdev, BIO_FLUSH, BIO_JOURNAL, 0);
	err = bio_submit_wait(&bio);
	bio_uninit(&bio);
	return err;
}

static unsigned char *block_fill(struct ext4_journal *journal, enum block_type type, uint64_t tid,
				 uint32_t nr_metadata)
{
	unsigned char *block = journal->memory + (size_t)type * journal->block_size;
	struct block_header header = {
		.magic = MAGIC,
		.tid = tid,
		.type = type,
		.nr_metadata = nr_metadata,
	};

	memcpy(block, &header, sizeof(header));
	return block;
}

/* ---- to their places -------------------------------------------------------------------- */

static int compare_blocks(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* How many of the sorted blocks from i on lie one behind the other. */
static uint32_t run_length(const uint64_t *blocks, uint32_t nr, uint32_t i)
{
	uint32_t n = 1;

	while (i + n < nr && blocks[i + n] == blocks[i] + n)
		n++;
	return n;
}

/* Write what was committed to its place: then the area is empty. */
static int place_all(struct ext4_journal *journal)
{
	struct block_set *set = &journal->placed;
	unsigned char *memory = block_fill(journal, METADATA, 0, 1);
	int err = 0;

	/* The table of the set does not know the new order, but is wiped with it. */
	qsort(set->blocks, set->nr, sizeof(*set->blocks), compare_blocks);
	for (uint32_t i = 0, n; i < set->nr; i += n) {
		int run_err;

		n = run_length(set->blocks, set->nr, i);
		run_err = write_same(journal, BIO_META, set->blocks[i], n, memory);
		if (!err)
			err = run_err;
	}
	block_set_clear(set);
	journal->nr_used = 0;
	return err;
}

/* ---- commit ----------------------------------------------------------------------------- */

static uint32_t nr_descriptors(const struct ext4_journal *journal, uint32_t nr_metadata)
{
	uint32_t per_block =
		(journal->block_size - (uint32_t)sizeof(struct block_header)) / TAG_BYTES;

	return (nr_metadata + per_block - 1) / per_block;
}

/* The next nr blocks of the area, which may be its last and its first. */
static int write_next(struct ext4_journal *journal, uint32_t nr, unsigned char *memory)
{
	int err = 0;

	while (nr > 0 && !err) {
		uint32_t n = min_u32(nr, journal->nr_blocks - journal->next);

		err = write_same(journal, BIO_JOURNAL, journal->start + journal->next, n, memory);
		journal->next = (journal->next + n) % journal->nr_blocks;
		nr -= n;
	}
	return err;
}

/* Descriptors and blocks; when they are there, the block that makes them count. */
static int write_commit(struct ext4_journal *journal, uint64_t tid)
{
	uint32_t nr = min_u32(journal->commit.nr, journal->nr_blocks * 3 / 4 - 2);
	uint32_t nr_front = nr_descriptors(journal, nr) + nr;
	uint32_t before = journal->next;
	unsigned char *memory = block_fill(journal, DESCRIPTOR, tid, nr);
	int err = 0;

	if (journal->nr_used + nr_front + 1 > journal->nr_blocks ||
	    journal->placed.nr + nr > journal->placed.max)
		err = place_all(journal);
	if (!err)
		err = write_next(journal, nr_front, memory);
	if (!err)
		err = write_next(journal, 1, block_fill(journal, COMMIT, tid, nr));
	if (err) {
		journal->next = before;
		return err;
	}

	if (!journal->nr_used)
		journal->placed_since = env_clock_ns();
	journal->nr_used += nr_front + 1;
	for (uint32_t i = 0; i < nr; i++)
		block_set_add(&journal->placed, journal->commit.blocks[i]);
	return 0;
}

/*
 * What was changed and what was forgotten since the last time.  The commit before this one may
 * have failed: then its blocks are still there.  => lock is held
 */
static void take_running(struct ext4_journal *journal)
{
	for (uint32_t i = 0; i < journal->running.nr; i++)
		block_set_add(&journal->commit, journal->running.blocks[i]);
	block_set_clear(&journal->running);
	for (uint32_t i = 0; i < journal->forgotten.nr; i++) {
		block_set_remove(&journal->commit, journal->forgotten.blocks[i]);
		block_set_add(&journal->releasing, journal->forgotten.blocks[i]);
	}
	block_set_clear(&journal->forgotten);
}

/* Let no handle in, wait until all are out, and begin a new transaction.  => lock is held */
static uint64_t close_running(struct ext4_journal *journal)
{
	uint64_t tid = journal->running_tid;

	journal->is_locked = true;
	while (journal->nr_handles) {
		uint32_t key = env_waitq_prepare(&journal->stopping);

		env_mutex_unlock(&journal->lock);
		env_waitq_wait(&journal->stopping, key, ENV_FOREVER);
		env_mutex_lock(&journal->lock);
	}
	take_running(journal);
	__atomic_store_n(&journal->running_tid, tid + 1, __ATOMIC_RELEASE);
	journal->is_locked = false;
	env_waitq_wake(&journal->starting);
	return tid;
}

/* => lock is held */
static void commit_ended(struct ext4_journal *journal, uint64_t tid, int err)
{
	journal->ended_tid = tid;
	if (!err) {
		block_set_clear(&journal->commit);
		__atomic_store_n(&journal->committed_tid, tid, __ATOMIC_RELEASE);
	} else {
		if (journal->failed_last + 1 != tid)
			journal->failed_first = tid;
		journal->failed_last = tid;
		journal->failed_err = err;
	}
	env_waitq_wake(&journal->committing);
}

/* It is durable that they were given up: nothing writes them any more, others may have them. */
static void release_forgotten(struct ext4_journal *journal)
{
	struct block_set *set = &journal->releasing;

	for (uint32_t i = 0; i < set->nr; i++) {
		block_set_remove(&journal->placed, set->blocks[i]);
		journal->release(journal->release_arg, set->blocks[i]);
	}
	block_set_clear(set);
}

static void commit_running(struct ext4_journal *journal)
{
	uint64_t tid;
	int err = 0;

	env_mutex_lock(&journal->lock);
	tid = close_running(journal);
	env_mutex_unlock(&journal->lock);

	if (journal->commit.nr)
		err = write_commit(journal, tid);
	if (!err && journal->releasing.nr)
		release_forgotten(journal);

	env_mutex_lock(&journal->lock);
	commit_ended(journal, tid, err);
	env_mutex_unlock(&journal->lock);
}

/* ---- the thread ------------------------------------------------------------------------- */

enum duty { NOTHING, COMMIT_RUNNING, PLACE_ALL, STOP };

static uint64_t time_left(uint64_t since, uint64_t interval, uint64_t now)
{
	return now - since >= interval ? 0 : interval - (now - since);
}

/* What is to be done now, or in *wait_ns.  => lock is held */
static enum duty find_duty(const struct ext4_journal *journal, uint64_t *wait_ns)
{
	uint64_t now = env_clock_ns();
	uint64_t left;

	*wait_ns = ENV_FOREVER;
	if (journal->wanted_tid >= journal->running_tid)
		return COMMIT_RUNNING;
	if (journal->is_stopped)
		return STOP;
	if (journal->running.nr) {
		*wait_ns = time_left(journal->running_since, journal->interval_ns, now);
		if (!*wait_ns)
			return COMMIT_RUNNING;
	}
	if (journal->nr_used) {
		left = time_left(journal->placed_since, PLACE_NS, now);
		if (!left)
			return PLACE_ALL;
		if (left < *wait_ns)
			*wait_ns = left;
	}
	return NOTHING;
}

static void thread_run(void *arg)
{
	struct ext4_journal *journal = arg;
	enum duty duty;

	do {
		uint32_t key = env_waitq_prepare(&journal->working);
		uint64_t wait_ns;

		env_mutex_lock(&journal->lock);
		duty = find_duty(journal, &wait_ns);
		env_mutex_unlock(&journal->lock);
		if (duty == NOTHING) {
			env_waitq_wait(&journal->working, key, wait_ns);
			continue;
		}
		env_waitq_cancel(&journal->working);
		if (duty == COMMIT_RUNNING)
			commit_running(journal);
		else
			/* What cannot be written now is not tried again: it is in the journal. */
			(void)place_all(journal);
	} while (duty != STOP);
}

/* ---- waiting for it --------------------------------------------------------------------- */

/* => lock is held; it is given up while waiting */
static void wait_for_end(struct ext4_journal *journal, uint64_t tid)
{
	while (journal->ended_tid < tid) {
		uint32_t key = env_waitq_prepare(&journal->committing);

		env_mutex_unlock(&journal->lock);
		env_waitq_wait(&journal->committing, key, ENV_FOREVER);
		env_mutex_lock(&journal->lock);
	}
}

/* => lock is held; it is given up while waiting */
static int commit_locked(struct ext4_journal *journal, uint64_t tid)
{
	/* It is being committed now, or it failed and is part of the next. */
	if (tid <= journal->ended_tid)
		tid = journal->running_tid;
	want_commit(journal, tid);
	wait_for_end(journal, tid);
	if (tid >= journal->failed_first && tid <= journal->failed_last)
		return journal->failed_err;
	return 0;
}

int ext4_journal_commit(struct ext4_journal *journal, uint64_t tid)
{
	int err = 0;

	env_mutex_lock(&journal->lock);
	if (!ext4_journal_is_committed(journal, tid))
		err = commit_locked(journal, tid);
	env_mutex_unlock(&journal->lock);
	return err;
}

int ext4_journal_commit_all(struct ext4_journal *journal)
{
	uint64_t last;
	int err = 0;

	env_mutex_lock(&journal->lock);
	last = journal->running_tid - (journal->running.nr ? 0 : 1);
	if (!ext4_journal_is_committed(journal, last))
		err = commit_locked(journal, last);
	env_mutex_unlock(&journal->lock);
	return err;
}

/* ---- set up ----------------------------------------------------------------------------- */

static int sets_init(struct ext4_journal *journal)
{
	int err = block_set_init(&journal->running, 2 * journal->max_running);

	if (!err)
		err = block_set_init(&journal->commit, 4 * journal->max_running);
	if (!err)
		err = block_set_init(&journal->placed, journal->nr_blocks);
	return err;
}

static void free_all(struct ext4_journal *journal)
{
	block_set_destroy(&journal->running);
	block_set_destroy(&journal->commit);
	block_set_destroy(&journal->placed);
	if (journal->release) {
		block_set_destroy(&journal->forgotten);
		block_set_destroy(&journal->releasing);
	}
	env_free(journal->memory);
}

int ext4_journal_init(struct ext4_journal *journal, struct block_device *bdev, uint32_t block_size,
		      uint64_t start, uint32_t nr_blocks, uint64_t interval_ns)
{
	uint32_t max_running = nr_blocks / RUNNING_SHARE;
	int err;

	*journal = (struct ext4_journal){
		.bdev = bdev,
		.block_size = block_size,
		.start = start,
		.nr_blocks = nr_blocks,
		.max_running = max_running > RUNNING_MIN ? max_running : RUNNING_MIN,
		.interval_ns = interval_ns,
		.running_tid = 1,
		.failed_last = 0,
		.failed_first = 1,
	};
	env_mutex_init(&journal->lock, "ext4 journal");
	env_waitq_init(&journal->starting);
	env_waitq_init(&journal->working);
	env_waitq_init(&journal->stopping);
	env_waitq_init(&journal->committing);
	journal->memory = env_zalloc((size_t)block_size * NR_BLOCK_TYPES);
	err = journal->memory ? sets_init(journal) : -ENOMEM;
	if (!err)
		err = env_thread_create(&journal->thread, "ext4 journal", thread_run, journal);
	if (err)
		free_all(journal);
	return err;
}

int ext4_journal_set_release(struct ext4_journal *journal, uint32_t max,
			     void (*release)(void *arg, uint64_t block), void *arg)
{
	int err = block_set_init(&journal->forgotten, max);

	if (err)
		return err;
	err = block_set_init(&journal->releasing, max);
	if (err) {
		block_set_destroy(&journal->forgotten);
		return err;
	}
	journal->release = release;
	journal->release_arg = arg;
	return 0;
}

void ext4_journal_destroy(struct ext4_journal *journal)
{
	(void)ext4_journal_commit_all(journal);
	env_mutex_lock(&journal->lock);
	journal->is_stopped = true;
	env_waitq_wake(&journal->working);
	env_mutex_unlock(&journal->lock);
	env_thread_join(journal->thread);
	free_all(journal);
}

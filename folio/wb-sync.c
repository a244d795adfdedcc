/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * wb-sync.c - what is asked of all contexts of a device (W5, W21, W40..W45)
 *
 * RETIRING contexts are asked like LIVE ones; an IDLE one has nothing, now and later.
 */
#include "folio/wb.h"

/* ---- background (W21) --------------------------------------------------------------- */

void wb_kick_background(struct backing_dev *bdi)
{
	for (unsigned int i = 0; i < WB_CTX_MAX / 64; i++) {
		uint64_t left = __atomic_load_n(&bdi->dirty_contexts[i], __ATOMIC_ACQUIRE);

		for (; left; left &= left - 1)
			wb_start_background(bdi->slots[i * 64 + __builtin_ctzll(left)]);
	}
}

void wb_kick_writer(struct wb_ctx *wb)
{
	if (bdi_tuned(wb->bdi, kick_all))
		wb_kick_background(wb->bdi);
	else
		wb_start_background(wb);
}

/* ---- so many pages (W43) ------------------------------------------------------------ */

static bool has_dirty_inodes(const struct wb_ctx *wb)
{
	return counter_read(&wb->nr_listed) != 0;
}

/* How pages are split: by the bandwidths of those that have something to write, as of now. */
struct split {
	int64_t nr_pages;
	unsigned int nr; /* contexts */
	uint64_t bandwidth[WB_CTX_MAX];
	uint64_t sum;
};

static void split_init(struct split *split, const struct backing_dev *bdi, int64_t nr_pages)
{
	split->nr_pages = nr_pages;
	split->nr = __atomic_load_n(&bdi->nr_slots, __ATOMIC_ACQUIRE);
	split->sum = 0;
	for (unsigned int i = 0; i < split->nr; i++) {
		const struct wb_ctx *wb = bdi->slots[i];

		split->bandwidth[i] = has_dirty_inodes(wb) ? counter_read(&wb->avg_bandwidth) : 0;
		split->sum += split->bandwidth[i];
	}
}

static int64_t part_of(const struct split *split, unsigned int index)
{
	__uint128_t pages = (uint64_t)split->nr_pages;

	if (!split->bandwidth[index])
		return 0;
	if (split->nr_pages == INT64_MAX)
		return INT64_MAX;
	return (int64_t)((pages * split->bandwidth[index] + split->sum - 1) / split->sum);
}

static void flush_work_init(struct wb_work *work, const struct split *split, unsigned int index)
{
	memset(work, 0, sizeof(*work));
	work->sync_mode = WB_SYNC_NONE;
	work->nr_pages = part_of(split, index);
	work->tagged = true;
	work->range_cyclic = true;
	work->nr_hops = split->nr - 1;
	env_completion_init(&work->done);
}

/*
 * A context that had less than its part leaves the rest of it to the others, so that as many
 * pages are written as were asked for, or all there are (N22).
 */
bool wb_pass_on(struct wb_ctx *wb, struct wb_work *work)
{
	struct backing_dev *bdi = wb->bdi;
	unsigned int nr = __atomic_load_n(&bdi->nr_slots, __ATOMIC_ACQUIRE);
	unsigned int index = wb->index;

	if (work->nr_pages <= 0 || work->nr_pages == INT64_MAX)
		return false;
	while (work->nr_hops) {
		work->nr_hops--;
		index = (index + 1) % nr;
		if (index != wb->index && has_dirty_inodes(bdi->slots[index]) &&
		    wb_queue_work(bdi->slots[index], work))
			return true;
	}
	return false;
}

void bdi_start_writeback(struct backing_dev *bdi, int64_t nr_pages)
{
	struct split split;

	split_init(&split, bdi, nr_pages);
	for (unsigned int i = 0; i < split.nr; i++) {
		struct wb_ctx *wb = bdi->slots[i];
		struct wb_work *work;

		if (!split.bandwidth[i])
			continue;
		work = env_alloc(sizeof(*work));
		if (!work) {
			/* Nothing waits for it; the background loop does the same job. */
			wb_start_background(wb);
			continue;
		}
		flush_work_init(work, &split, i);
		work->auto_free = true;
		if (!wb_queue_work(wb, work))
			env_free(work);
	}
}

/* Queue the works of all contexts, then wait for all; or one by one.  works NULL: one by one. */
static void run_works(struct backing_dev *bdi, struct wb_work *works, unsigned int nr,
		      void (*init)(struct wb_work *work, const struct wb_ctx *wb, const void *arg),
		      const void *arg)
{
	struct wb_work single;

	for (unsigned int i = 0; i < nr; i++) {
		struct wb_work *work = works ? &works[i] : &single;

		init(work, bdi->slots[i], arg);
		if (!wb_queue_work(bdi->slots[i], work))
			env_complete(&work->done);
		if (!works)
			env_completion_wait(&work->done);
	}
	for (unsigned int i = 0; works && i < nr; i++)
		env_completion_wait(&works[i].done);
}

static void init_flush(struct wb_work *work, const struct wb_ctx *wb, const void *arg)
{
	flush_work_init(work, arg, wb->index);
}

void bdi_writeback(struct backing_dev *bdi, int64_t nr_pages)
{
	struct wb_work *works;
	struct split split;

	split_init(&split, bdi, nr_pages);
	works = env_alloc(split.nr * sizeof(*works));
	run_works(bdi, works, split.nr, init_flush, &split);
	env_free(works);
}

/* ---- everything of a file system (W40, W41) ------------------------------------------ */

static void init_sync(struct wb_work *work, const struct wb_ctx *wb, const void *arg)
{
	(void)wb;
	memset(work, 0, sizeof(*work));
	work->sb = (struct super_block *)arg;
	work->sync_mode = WB_SYNC_ALL;
	work->nr_pages = INT64_MAX;
	work->for_sync = true;
	env_completion_init(&work->done);
}

/*
 * Let every context write what it has of the file system.  No inode goes from a context that
 * has not begun to one that is done (W35).
 */
static void sync_contexts(struct super_block *sb)
{
	struct backing_dev *bdi = sb->s_bdi;
	struct wb_work *works = NULL;
	unsigned int nr;

	env_rwsem_write_lock(&bdi->switch_lock);
	nr = __atomic_load_n(&bdi->nr_slots, __ATOMIC_ACQUIRE);
	/* Without memory it is slower, but that is no reason to leave data behind (N23). */
	if (!bdi_tuned(bdi, sync_serial))
		works = env_alloc(nr * sizeof(*works));
	run_works(bdi, works, nr, init_sync, sb);
	env_free(works);
	env_rwsem_write_unlock(&bdi->switch_lock);
	for (unsigned int i = 0; i < nr; i++)
		if (wb_state(bdi->slots[i]) == WB_RETIRING)
			wb_wake(bdi->slots[i]);
}

/* The I/O that these and others have started (K15); later starters wait for theirs. */
static void wait_for_writeback(struct super_block *sb)
{
	env_mutex_lock(&sb->s_wb_lock);
	list_splice_tail_init(&sb->s_wb_inodes, &sb->s_wb_waiting);
	while (!list_empty(&sb->s_wb_waiting)) {
		struct inode *inode = list_first_entry(&sb->s_wb_waiting, struct inode, i_wb_link);

		/* Back where its own end of writeback expects it, and pinned against eviction. */
		list_move_tail(&inode->i_wb_link, &sb->s_wb_inodes);
		__atomic_fetch_add(&inode->i_pins, 1, __ATOMIC_ACQ_REL);
		env_mutex_unlock(&sb->s_wb_lock);
		filemap_fdatawait_range(&inode->i_mapping, 0, UINT64_MAX);
		env_mutex_lock(&sb->s_wb_lock);
		__atomic_fetch_sub(&inode->i_pins, 1, __ATOMIC_ACQ_REL);
		env_waitq_wake(&sb->s_inode_wait);
	}
	env_mutex_unlock(&sb->s_wb_lock);
}

int super_sync(struct super_block *sb)
{
	int err = 0;

	env_mutex_lock(&sb->s_sync_lock);
	sync_contexts(sb);
	wait_for_writeback(sb);
	if (sb->s_op->sync_fs)
		err = sb->s_op->sync_fs(sb);
	env_mutex_unlock(&sb->s_sync_lock);
	return err;
}

int super_syncfs(struct super_block *sb, errseq_t *sample)
{
	int err = super_sync(sb);
	int err2 = errseq_check_and_advance(&sb->s_wb_err, sample);

	return err ? err : err2;
}

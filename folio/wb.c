/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * wb.c - one writeback context at work: its lists, its works, its two threads
 *
 * The flusher does explicit works first, in order; then what is old (periodic); then, while
 * too much is dirty, everything (background) (K7, K8).  One inode is written a slice at a time
 * by one thread, which the inode's I_SYNC flag stands for (K10, W1).
 *
 * Lock order: list_lock -> inode->i_lock.  work_lock and completion_lock are leaves.
 */
#include "folio/internal.h"

#define NS_PER_SECOND 1000000000ull
/* A slice is at least this (K11). */
#define MIN_SLICE_BYTES	      (4ull << 20)
#define LAZY_TIME_NS	      (12ull * 3600 * NS_PER_SECOND)
#define BANDWIDTH_INTERVAL_NS 200000000ull
#define BANDWIDTH_PERIOD_NS   (4096ull * 1000000)

/* ---- lists (K4..K6, K13) ------------------------------------------------------------ */

/* => list_lock and i_lock are held */
static void list_file(struct wb_ctx *wb, struct inode *inode, struct list_head *list)
{
	if (!inode->i_listed) {
		inode->i_listed = true;
		__atomic_store_n(&wb->nr_listed, wb->nr_listed + 1, __ATOMIC_SEQ_CST);
	}
	inode->i_taken = list == &wb->b_more_io;
	list_move_tail(&inode->i_io_list, list);
}

void wb_list_unfile(struct wb_ctx *wb, struct inode *inode)
{
	if (!inode->i_listed)
		return;
	inode->i_listed = false;
	inode->i_taken = false;
	list_del_init(&inode->i_io_list);
	__atomic_store_n(&wb->nr_listed, wb->nr_listed - 1, __ATOMIC_RELAXED);
}

/* To the young end of b_dirty, which stays sorted by dirtied_when. */
static void list_redirty(struct wb_ctx *wb, struct inode *inode, uint64_t now)
{
	if (!list_empty(&wb->b_dirty)) {
		struct inode *young = list_last_entry(&wb->b_dirty, struct inode, i_io_list);

		if (inode->dirtied_when < young->dirtied_when)
			inode->dirtied_when = now;
	}
	list_file(wb, inode, &wb->b_dirty);
}

/* => i_lock is held */
static void state_add(struct inode *inode, unsigned int flags)
{
	__atomic_store_n(&inode->i_state, inode->i_state | flags, __ATOMIC_RELEASE);
}

/*
 * On the right list for the flags, or with a writer that files it when it is done?  An inode
 * with nothing but lazy timestamps is on a list of its own.  => i_lock is held
 */
static bool is_accounted_for(const struct inode *inode, unsigned int flags)
{
	if (inode->i_state & (I_SYNC | I_FREEING))
		return true;
	return inode->i_listed &&
	       (inode->i_state & I_DIRTY || !(flags & I_DIRTY) || inode->i_taken);
}

/*
 * A flag that others see set means that a sync will find the inode: so the flags of a clean
 * inode are set in the same step that lists it.
 */
void inode_mark_dirty(struct inode *inode, unsigned int flags)
{
	struct wb_ctx *wb;
	bool done;

	if (likely((__atomic_load_n(&inode->i_state, __ATOMIC_ACQUIRE) & flags) == flags))
		return;
	wb_bind_inode(inode);
	env_mutex_lock(&inode->i_lock);
	wb = inode->i_wb;
	done = is_accounted_for(inode, flags);
	if (done)
		state_add(inode, flags);
	env_mutex_unlock(&inode->i_lock);
	if (done)
		return;
	while (!done) {
		env_mutex_lock(&wb->list_lock);
		env_mutex_lock(&inode->i_lock);
		done = is_accounted_for(inode, flags);
		if (!done && inode->i_wb == wb && wb->state == WB_LIVE) {
			inode->dirtied_when = env_clock_ns();
			list_file(wb, inode, flags & I_DIRTY ? &wb->b_dirty : &wb->b_dirty_time);
			done = true;
		}
		if (done)
			state_add(inode, flags);
		env_mutex_unlock(&wb->list_lock);
		wb = inode->i_wb;
		env_mutex_unlock(&inode->i_lock);
	}
	wb_arm_timer(wb);
}

/* Refill b_io: what needs another slice, then what was dirtied by the cutoff, oldest first. */
static void queue_expired(struct wb_ctx *wb, struct list_head *list, uint64_t cutoff)
{
	while (!list_empty(list)) {
		struct inode *inode = list_first_entry(list, struct inode, i_io_list);

		if (inode->dirtied_when > cutoff)
			break;
		env_mutex_lock(&inode->i_lock);
		inode->i_taken = true;
		env_mutex_unlock(&inode->i_lock);
		list_move_tail(&inode->i_io_list, &wb->b_io);
	}
}

static void queue_io(struct wb_ctx *wb, const struct wb_work *work)
{
	uint64_t now = env_clock_ns();
	uint64_t lazy = now > LAZY_TIME_NS ? now - LAZY_TIME_NS : 0;

	list_splice_tail_init(&wb->b_more_io, &wb->b_io);
	queue_expired(wb, &wb->b_dirty, work->cutoff);
	/* Timestamps alone wait half a day, or for a sync. */
	queue_expired(wb, &wb->b_dirty_time, work->for_sync ? work->cutoff : lazy);
}

/* ---- bandwidth (W53) ---------------------------------------------------------------- */

static void wb_update_bandwidth(struct wb_ctx *wb, uint64_t now)
{
	uint64_t elapsed = now - wb->bw_stamp;
	uint64_t written = counter_read(&wb->written);
	uint64_t pages = written - wb->bw_written;
	uint64_t old = wb->write_bandwidth;
	uint64_t avg = wb->avg_bandwidth;
	uint64_t bw;

	if (elapsed < BANDWIDTH_INTERVAL_NS)
		return;
	if (elapsed > BANDWIDTH_PERIOD_NS) {
		bw = (uint64_t)((__uint128_t)pages * NS_PER_SECOND / elapsed);
		avg = bw;
	} else {
		bw = (uint64_t)(((__uint128_t)pages * NS_PER_SECOND +
				 (__uint128_t)old * (BANDWIDTH_PERIOD_NS - elapsed)) /
				BANDWIDTH_PERIOD_NS);
		if (avg > old && old >= bw)
			avg -= (avg - old) / 8;
		if (avg < old && old <= bw)
			avg += (old - avg) / 8;
	}
	__atomic_store_n(&wb->write_bandwidth, bw ? bw : 1, __ATOMIC_RELAXED);
	__atomic_store_n(&wb->avg_bandwidth, avg ? avg : 1, __ATOMIC_RELAXED);
	wb->bw_stamp = now;
	wb->bw_written = written;
}

/* Only time in which the context wrote counts: a new window starts with the first slice. */
static void bandwidth_window_start(struct wb_ctx *wb)
{
	uint64_t now = env_clock_ns();

	if (now - wb->bw_stamp > NS_PER_SECOND) {
		wb->bw_stamp = now;
		wb->bw_written = counter_read(&wb->written);
	}
}

/* ---- one inode (K10..K13) ----------------------------------------------------------- */

static int64_t slice_pages(const struct wb_ctx *wb, const struct wb_work *work)
{
	const struct page_cache *cache = wb->bdi->cache;
	uint64_t chunk = MIN_SLICE_BYTES >> cache->page_shift;
	uint64_t pages;

	if (work->sync_mode == WB_SYNC_ALL || work->tagged)
		return INT64_MAX;
	pages = counter_read(&wb->avg_bandwidth) / 2;
	if (pages > cache->dirty_thresh / 8)
		pages = cache->dirty_thresh / 8;
	if (pages > (uint64_t)work->nr_pages)
		pages = (uint64_t)work->nr_pages;
	return (int64_t)((pages + chunk) / chunk * chunk);
}

/* Data, wait if asked, then metadata (K12).  => I_SYNC is ours, no lock held */
static int inode_write(struct inode *inode, struct writeback_control *wbc)
{
	struct address_space *mapping = &inode->i_mapping;
	unsigned int dirty;
	int err, err2;

	err = mapping->a_ops->writepages(mapping, wbc);
	if (wbc->sync_mode == WB_SYNC_ALL && !wbc->for_sync)
		filemap_fdatawait_range(mapping, 0, UINT64_MAX);
	env_mutex_lock(&inode->i_lock);
	dirty = inode->i_state & (I_DIRTY | I_DIRTY_TIME);
	__atomic_store_n(&inode->i_state, inode->i_state & ~dirty, __ATOMIC_RELEASE);
	/* Whoever tags a folio after this look sees the flag cleared, and sets it. */
	if (mapping_has_dirty_tag(mapping))
		state_add(inode, I_DIRTY_PAGES);
	env_mutex_unlock(&inode->i_lock);
	/* Written for another reason, lazy timestamps go along (K12). */
	if (dirty & ~(uint32_t)I_DIRTY_PAGES && inode->i_sb->s_op->write_inode) {
		err2 = inode->i_sb->s_op->write_inode(inode, wbc);
		if (!err)
			err = err2;
	}
	return err;
}

/* Where the inode goes after a slice (K13).  => list_lock and i_lock are held */
static void inode_refile(struct wb_ctx *wb, struct inode *inode, const struct wb_work *work,
			 const struct writeback_control *wbc)
{
	uint64_t now = env_clock_ns();

	if (inode->i_state & I_FREEING) {
		wb_list_unfile(wb, inode);
		return;
	}
	if (inode->i_state & I_DIRTY && (wbc->sync_mode == WB_SYNC_ALL || wbc->tagged_writepages))
		inode->dirtied_when = now; /* not picked again by the same sync */
	if (wbc->pages_skipped)
		list_redirty(wb, inode, now);
	else if (inode->i_state & I_DIRTY_PAGES)
		if (wbc->nr_to_write <= 0 && inode->dirtied_when <= work->cutoff)
			list_file(wb, inode, &wb->b_more_io);
		else
			list_redirty(wb, inode, now);
	else if (inode->i_state & I_DIRTY)
		list_redirty(wb, inode, now);
	else if (inode->i_state & I_DIRTY_TIME)
		list_file(wb, inode, &wb->b_dirty_time);
	else
		wb_list_unfile(wb, inode);
}

/*
 * Write one slice of the inode; true if pages were written or it is clean now.
 * => list_lock is held, dropped meanwhile
 */
static bool write_slice(struct wb_ctx *wb, struct inode *inode, struct wb_work *work)
{
	int64_t slice = slice_pages(wb, work);
	struct super_block *sb = inode->i_sb;
	struct writeback_control wbc = {
		.sync_mode = work->sync_mode,
		.nr_to_write = slice,
		.range_end = UINT64_MAX,
		.range_cyclic = work->sync_mode == WB_SYNC_NONE,
		.tagged_writepages = work->tagged,
		.for_sync = work->for_sync,
		.for_background = work->for_background,
	};
	uint64_t start = env_clock_ns();
	bool progress;

	env_mutex_unlock(&wb->list_lock);
	inode_write(inode, &wbc);
	counter_add(&wb->stats.slices, 1);
	counter_add(&wb->stats.busy_ns, env_clock_ns() - start);
	wb_update_bandwidth(wb, env_clock_ns());
	env_mutex_lock(&wb->list_lock);
	env_mutex_lock(&inode->i_lock);
	inode_refile(wb, inode, work, &wbc);
	progress = wbc.nr_to_write < slice || !(inode->i_state & (I_DIRTY | I_DIRTY_TIME));
	__atomic_store_n(&inode->i_state, inode->i_state & ~(uint32_t)I_SYNC, __ATOMIC_RELEASE);
	env_mutex_unlock(&inode->i_lock);
	/* From here on the inode may be gone. */
	env_waitq_wake(&sb->s_inode_wait);
	if (work->nr_pages != INT64_MAX)
		work->nr_pages -= slice - wbc.nr_to_write;
	return progress;
}

static void wait_for_other_writer(struct wb_ctx *wb, struct inode *inode)
{
	struct super_block *sb = inode->i_sb;
	uint32_t key = env_waitq_prepare(&sb->s_inode_wait);

	/* The inode is on our list and cannot go before list_lock is dropped. */
	if (__atomic_load_n(&inode->i_state, __ATOMIC_ACQUIRE) & I_SYNC) {
		env_mutex_unlock(&wb->list_lock);
		env_waitq_wait(&sb->s_inode_wait, key, NS_PER_SECOND);
		env_mutex_lock(&wb->list_lock);
	} else {
		env_waitq_cancel(&sb->s_inode_wait);
	}
}

/* Claim the inode: I_SYNC set, or false if it has been dealt with.  => list_lock held */
static bool inode_claim(struct wb_ctx *wb, struct inode *inode, const struct wb_work *work)
{
	bool claimed = false;

	env_mutex_lock(&inode->i_lock);
	if (inode->i_state & (I_NEW | I_FREEING) || (work->sb && inode->i_sb != work->sb)) {
		list_redirty(wb, inode, env_clock_ns());
	} else if (inode->i_state & I_SYNC) {
		if (work->sync_mode == WB_SYNC_NONE) {
			list_file(wb, inode, &wb->b_more_io);
		} else {
			env_mutex_unlock(&inode->i_lock);
			wait_for_other_writer(wb, inode);
			return false;
		}
	} else {
		state_add(inode, I_SYNC);
		claimed = true;
	}
	env_mutex_unlock(&inode->i_lock);
	return claimed;
}

/* ---- works -------------------------------------------------------------------------- */

bool wb_over_background(const struct wb_ctx *wb)
{
	const struct page_cache *cache = wb->bdi->cache;
	uint64_t nr_dirty = counter_read(&cache->nr_dirty);

	if (nr_dirty > cache->background_thresh)
		return true;
	/*
	 * Writers are being throttled for what others have in flight, while nothing of this
	 * context is: without it they would sleep for pages that nobody writes (M125).
	 */
	return nr_dirty + counter_read(&cache->nr_writeback) > dirty_freerun(cache) &&
	       counter_read(&wb->reclaimable) && !counter_read(&wb->writeback);
}

static bool works_pending(struct wb_ctx *wb)
{
	bool pending;

	env_mutex_lock(&wb->work_lock);
	pending = !list_empty(&wb->works);
	env_mutex_unlock(&wb->work_lock);
	return pending;
}

/* Has the work ended for another reason than empty lists (K9)? */
static bool work_is_over(struct wb_ctx *wb, const struct wb_work *work)
{
	if (work->nr_pages <= 0)
		return true;
	if ((work->for_background || work->for_periodic) && works_pending(wb))
		return true;
	if (__atomic_load_n(&wb->stop, __ATOMIC_ACQUIRE) && work->sync_mode == WB_SYNC_NONE)
		return true;
	return work->for_background && !wb_over_background(wb);
}

static void wb_writeback(struct wb_ctx *wb, struct wb_work *work)
{
	bandwidth_window_start(wb);
	/*
	 * What is dirty when the work starts (K8), so that a constant dirtier cannot make it
	 * endless (K14).  Not when it was asked for: a slice that ends in between renews the
	 * inode's time.
	 */
	if (!work->for_periodic)
		work->cutoff = env_clock_ns();
	env_mutex_lock(&wb->list_lock);
	while (!work_is_over(wb, work)) {
		bool refilled = list_empty(&wb->b_io);
		bool progress = false;

		if (work->for_background)
			work->cutoff = env_clock_ns();
		if (refilled)
			queue_io(wb, work);
		/* One slice for each inode of this round. */
		while (!list_empty(&wb->b_io) && !work_is_over(wb, work)) {
			struct inode *inode = list_first_entry(&wb->b_io, struct inode, i_io_list);

			if (inode_claim(wb, inode, work))
				progress |= write_slice(wb, inode, work);
		}
		if (progress || !refilled)
			continue;
		if (list_empty(&wb->b_more_io))
			break;
		/* Another writer has them all: wait for one to end. */
		wait_for_other_writer(wb,
				      list_first_entry(&wb->b_more_io, struct inode, i_io_list));
	}
	env_mutex_unlock(&wb->list_lock);
}

void wb_wake(struct wb_ctx *wb)
{
	env_waitq_wake(&wb->wake);
}

void wb_queue_work(struct wb_ctx *wb, struct wb_work *work)
{
	env_mutex_lock(&wb->work_lock);
	list_add_tail(&work->link, &wb->works);
	env_mutex_unlock(&wb->work_lock);
	wb_wake(wb);
}

static struct wb_work *take_work(struct wb_ctx *wb)
{
	struct wb_work *work = NULL;

	env_mutex_lock(&wb->work_lock);
	if (!list_empty(&wb->works)) {
		work = list_first_entry(&wb->works, struct wb_work, link);
		list_del_init(&work->link);
	}
	env_mutex_unlock(&wb->work_lock);
	return work;
}

static void do_explicit_works(struct wb_ctx *wb)
{
	struct wb_work *work;

	while ((work = take_work(wb)) != NULL) {
		bool auto_free = work->auto_free;

		wb_writeback(wb, work);
		counter_add(&wb->stats.works, 1);
		if (auto_free)
			env_free(work);
		else
			env_complete(&work->done);
	}
}

/* ---- timer -------------------------------------------------------------------------- */

/* Never later than already armed (K5). */
void wb_arm_timer(struct wb_ctx *wb)
{
	uint64_t interval = wb->bdi->cache->config.writeback_interval_ns;
	bool armed = false;

	/* With do_periodic(): it disarms, then looks for inodes; here an inode was listed first. */
	if (!interval || __atomic_load_n(&wb->timer_ns, __ATOMIC_SEQ_CST))
		return;
	env_mutex_lock(&wb->work_lock);
	if (!wb->timer_ns) {
		__atomic_store_n(&wb->timer_ns, env_clock_ns() + interval, __ATOMIC_RELAXED);
		armed = true;
	}
	env_mutex_unlock(&wb->work_lock);
	if (armed)
		wb_wake(wb);
}

static void do_periodic(struct wb_ctx *wb)
{
	const struct page_cache_config *config = &wb->bdi->cache->config;
	uint64_t now = env_clock_ns();
	uint64_t due = __atomic_load_n(&wb->timer_ns, __ATOMIC_RELAXED);
	struct wb_work work = {
		.sync_mode = WB_SYNC_NONE,
		.nr_pages = INT64_MAX,
		.for_periodic = true,
		.range_cyclic = true,
	};

	if (!due || now < due)
		return;
	if (now > config->dirty_expire_ns) {
		work.cutoff = now - config->dirty_expire_ns;
		wb_writeback(wb, &work);
	}
	env_mutex_lock(&wb->work_lock);
	__atomic_store_n(&wb->timer_ns, 0, __ATOMIC_SEQ_CST);
	env_mutex_unlock(&wb->work_lock);
	if (__atomic_load_n(&wb->nr_listed, __ATOMIC_SEQ_CST))
		wb_arm_timer(wb);
}

static void do_background(struct wb_ctx *wb)
{
	struct wb_work work = {
		.sync_mode = WB_SYNC_NONE,
		.nr_pages = INT64_MAX,
		.for_background = true,
		.range_cyclic = true,
	};

	__atomic_store_n(&wb->start_background, false, __ATOMIC_SEQ_CST);
	if (wb_over_background(wb))
		wb_writeback(wb, &work);
}

void wb_thread_main(void *arg)
{
	struct wb_ctx *wb = arg;

	for (;;) {
		uint32_t key = env_waitq_prepare(&wb->wake);
		uint64_t due = __atomic_load_n(&wb->timer_ns, __ATOMIC_RELAXED);
		uint64_t now = due ? env_clock_ns() : 0;

		if (works_pending(wb) || (due && due <= now) ||
		    __atomic_load_n(&wb->start_background, __ATOMIC_SEQ_CST)) {
			env_waitq_cancel(&wb->wake);
		} else if (__atomic_load_n(&wb->stop, __ATOMIC_SEQ_CST)) {
			env_waitq_cancel(&wb->wake);
			return;
		} else {
			env_waitq_wait(&wb->wake, key, due ? due - now : ENV_FOREVER);
			continue;
		}
		do_explicit_works(wb);
		do_periodic(wb);
		do_background(wb);
	}
}

/* ---- completion work (W26) ---------------------------------------------------------- */

void wb_queue_completion(struct inode *inode, struct wb_completion *work)
{
	struct wb_ctx *wb = __atomic_load_n(&inode->i_wb, __ATOMIC_ACQUIRE);

	work->next = NULL;
	env_mutex_lock(&wb->completion_lock);
	*wb->completion_tail = work;
	wb->completion_tail = &work->next;
	/* Inside: once the work is done the context may be destroyed. */
	env_waitq_wake(&wb->completion_wake);
	env_mutex_unlock(&wb->completion_lock);
}

static struct wb_completion *take_completions(struct wb_ctx *wb)
{
	struct wb_completion *first;

	env_mutex_lock(&wb->completion_lock);
	first = wb->completion_first;
	wb->completion_first = NULL;
	wb->completion_tail = &wb->completion_first;
	env_mutex_unlock(&wb->completion_lock);
	return first;
}

void wb_completion_main(void *arg)
{
	struct wb_ctx *wb = arg;

	for (;;) {
		uint32_t key = env_waitq_prepare(&wb->completion_wake);
		struct wb_completion *work = take_completions(wb);

		if (!work) {
			if (__atomic_load_n(&wb->stop, __ATOMIC_SEQ_CST)) {
				env_waitq_cancel(&wb->completion_wake);
				return;
			}
			env_waitq_wait(&wb->completion_wake, key, ENV_FOREVER);
			continue;
		}
		env_waitq_cancel(&wb->completion_wake);
		while (work) {
			struct wb_completion *next = work->next;

			counter_add(&wb->stats.completions, 1);
			work->fn(work);
			work = next;
		}
	}
}

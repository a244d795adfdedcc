/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * wb.c - one writeback context at work: its works and its threads
 *
 * The worker does explicit works first, in order; then what is old (periodic); then, while
 * too much is dirty, everything (background) (K7, K8).  One inode is written a slice at a time
 * by one thread, which the inode's I_SYNC flag stands for (K10, W1).
 *
 * There may be helpers: further workers that write inodes of whatever the first is at (W25).
 */
#include <iomap/trace.h>

#include "folio/wb.h"

/* How soon a retiring context looks again for what it could not move. */
#define RETIRE_PAUSE_NS 500000ull

/* ---- one inode (K10..K13) ----------------------------------------------------------- */

static int64_t slice_pages(const struct wb_ctx *wb, const struct wb_work *work)
{
	const struct page_cache *cache = wb->bdi->cache;
	uint64_t chunk = bdi_tuned(wb->bdi, min_slice) >> cache->page_shift;
	uint64_t pages;

	if (work->sync_mode == WB_SYNC_ALL || work->tagged)
		return INT64_MAX;
	pages = counter_read(&wb->avg_bandwidth) / 2;
	if (pages > counter_read(&cache->dirty_thresh) / 8)
		pages = counter_read(&cache->dirty_thresh) / 8;
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
	env_switch_point_at("inode: flags cleared");
	/* Whoever tags a folio after this look sees the flag cleared, and sets it. */
	if (mapping_has_dirty_tag(mapping))
		inode_state_add(inode, I_DIRTY_PAGES);
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

	if (wbc->pages_skipped)
		wb_list_redirty(wb, inode, now);
	else if (inode->i_state & I_DIRTY_PAGES)
		if (wbc->nr_to_write <= 0 && inode->dirtied_when <= work->cutoff)
			wb_list_file(wb, inode, WB_B_MORE_IO);
		else
			wb_list_redirty(wb, inode, now);
	else if (inode->i_state & I_DIRTY)
		wb_list_redirty(wb, inode, now);
	else if (inode->i_state & I_DIRTY_TIME)
		wb_list_file(wb, inode, WB_B_DIRTY_TIME);
	else
		wb_list_unfile(wb, inode);
}

/*
 * The end of a slice: file the inode here, or in `to` if that is where it goes from now on,
 * which postpones nothing (W30).  => i_lock and the list locks are held
 */
static void slice_end(struct wb_ctx *wb, struct wb_ctx *to, struct inode *inode,
		      const struct wb_work *work, const struct writeback_control *wbc)
{
	unsigned int flags = inode->i_state;

	if (flags & I_DIRTY && (wbc->sync_mode == WB_SYNC_ALL || wbc->tagged_writepages))
		inode->dirtied_when = env_clock_ns(); /* not picked again by the same sync */
	if (flags & I_FREEING) {
		wb_list_unfile(wb, inode);
	} else if (to && (flags & (I_DIRTY | I_DIRTY_TIME) || wb->state != WB_LIVE)) {
		wb_list_unfile(wb, inode);
		wb_rebind(inode, wb, to);
		if (flags & (I_DIRTY | I_DIRTY_TIME))
			wb_list_file_in_order(to, inode);
	} else {
		inode_refile(wb, inode, work, wbc);
	}
	__atomic_store_n(&inode->i_state, inode->i_state & ~(uint32_t)I_SYNC, __ATOMIC_RELEASE);
}

static void slice_account(struct wb_ctx *wb, uint64_t start, int64_t pages)
{
	uint64_t end = env_clock_ns();

	counter_add(&wb->stats.slices, 1);
	counter_add(&wb->stats.slice_pages, pages > 0 ? (uint64_t)pages : 0);
	counter_add(&wb->stats.busy_ns, end - start);
	env_trace_span(ENV_TRACK_CONTEXT, wb->index, "slice", start, end, (uint64_t)pages);
	wb_bandwidth_update(wb, end);
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
	struct wb_ctx *to;
	bool progress;

	env_mutex_unlock(&wb->list_lock);
	inode_write(inode, &wbc);
	to = wb_refile_lock(wb, inode);
	slice_account(wb, start, slice - wbc.nr_to_write);
	env_mutex_lock(&inode->i_lock);
	slice_end(wb, to, inode, work, &wbc);
	progress = wbc.nr_to_write < slice || !(inode->i_state & (I_DIRTY | I_DIRTY_TIME));
	env_mutex_unlock(&inode->i_lock);
	/* From here on the inode may be gone; who waits for that takes a list lock we hold. */
	env_waitq_wake(&sb->s_inode_wait);
	if (to)
		wb_refile_unlock(wb, to);
	if (work->nr_pages != INT64_MAX)
		work->nr_pages -= slice - wbc.nr_to_write;
	return progress;
}

/* => list_lock is held, dropped meanwhile */
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

/*
 * Claim the inode: I_SYNC set, or false if it has been dealt with.  While it is written it
 * waits on b_more_io, out of the way of other workers.  => list_lock held
 */
static bool inode_claim(struct wb_ctx *wb, struct inode *inode, const struct wb_work *work)
{
	bool claimed = false;

	env_mutex_lock(&inode->i_lock);
	if (inode->i_state & (I_NEW | I_FREEING) || (work->sb && inode->i_sb != work->sb)) {
		wb_list_redirty(wb, inode, env_clock_ns());
	} else {
		claimed = !(inode->i_state & I_SYNC);
		inode_state_add(inode, I_SYNC);
		wb_list_file(wb, inode, WB_B_MORE_IO);
	}
	env_mutex_unlock(&inode->i_lock);
	return claimed;
}

/* ---- works -------------------------------------------------------------------------- */

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
	if ((work->for_background || work->for_periodic) &&
	    (works_pending(wb) || wb_state(wb) != WB_LIVE))
		return true;
	if (__atomic_load_n(&wb->stop, __ATOMIC_ACQUIRE) && work->sync_mode == WB_SYNC_NONE)
		return true;
	return work->for_background && !wb_over_background(wb);
}

static void call_helpers(struct wb_ctx *wb)
{
	if (__atomic_load_n(&wb->nr_helpers, __ATOMIC_RELAXED))
		env_waitq_wake(&wb->help_wake);
}

/*
 * One slice for each inode of a round, round after round, until the work is done; a helper
 * leaves waiting to the first worker.  => list_lock is held, dropped meanwhile
 */
static void write_rounds(struct wb_ctx *wb, struct wb_work *work, bool helper)
{
	while (!work_is_over(wb, work)) {
		bool refilled = wb_list_first(wb, WB_B_IO) == NULL;
		bool progress = false;
		struct inode *inode;

		if (work->for_background)
			work->cutoff = env_clock_ns();
		/* One inode is for this worker itself. */
		if (refilled && wb_list_queue_io(wb, work) > 1)
			call_helpers(wb);
		while ((inode = wb_list_first(wb, WB_B_IO)) != NULL && !work_is_over(wb, work))
			if (inode_claim(wb, inode, work))
				progress |= write_slice(wb, inode, work);
		if (progress || !refilled)
			continue;
		inode = wb_list_first(wb, WB_B_MORE_IO);
		if (!inode || helper)
			break;
		/* Another writer has them all: wait for one to end. */
		wait_for_other_writer(wb, inode);
	}
}

/* => list_lock is held, dropped meanwhile */
static void wait_for_helpers(struct wb_ctx *wb)
{
	while (wb->nr_helping) {
		uint32_t key = env_waitq_prepare(&wb->help_done);

		env_mutex_unlock(&wb->list_lock);
		env_waitq_wait(&wb->help_done, key, ENV_FOREVER);
		env_mutex_lock(&wb->list_lock);
	}
}

static void wb_writeback(struct wb_ctx *wb, struct wb_work *work)
{
	wb_bandwidth_begin(wb);
	env_mutex_lock(&wb->list_lock);
	/*
	 * What is dirty when the work starts (K8), so that a constant dirtier cannot make it
	 * endless (K14).  Not when it was asked for: a slice that ends in between renews the
	 * inode's time.  No slice is being written now: nobody helps before there is a work.
	 */
	if (!work->for_periodic)
		work->cutoff = env_clock_ns();
	wb->current = work;
	write_rounds(wb, work, false);
	wb->current = NULL;
	wait_for_helpers(wb);
	env_mutex_unlock(&wb->list_lock);
	wb_bandwidth_end(wb);
}

void wb_helper_main(void *arg)
{
	struct wb_helper *helper = arg;
	struct wb_ctx *wb = helper->wb;

	for (;;) {
		uint32_t key = env_waitq_prepare(&wb->help_wake);

		if (__atomic_load_n(&helper->stop, __ATOMIC_SEQ_CST)) {
			env_waitq_cancel(&wb->help_wake);
			return;
		}
		env_mutex_lock(&wb->list_lock);
		if (wb->current) {
			wb->nr_helping++;
			write_rounds(wb, wb->current, true);
			if (--wb->nr_helping == 0)
				env_waitq_wake(&wb->help_done);
		}
		env_mutex_unlock(&wb->list_lock);
		env_waitq_wait(&wb->help_wake, key, ENV_FOREVER);
	}
}

void wb_wake(struct wb_ctx *wb)
{
	env_waitq_wake(&wb->wake);
}

void wb_start_background(struct wb_ctx *wb)
{
	if (!__atomic_exchange_n(&wb->start_background, true, __ATOMIC_SEQ_CST))
		wb_wake(wb);
}

bool wb_queue_work(struct wb_ctx *wb, struct wb_work *work)
{
	bool taken;

	env_mutex_lock(&wb->work_lock);
	taken = !wb->closed && wb_state(wb) != WB_IDLE;
	if (taken)
		list_add_tail(&work->link, &wb->works);
	env_mutex_unlock(&wb->work_lock);
	if (taken)
		wb_wake(wb);
	return taken;
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
		uint64_t start = env_clock_ns();
		uint64_t before = counter_read(&wb->stats.slice_pages);

		wb_writeback(wb, work);
		counter_add(&wb->stats.works, 1);
		env_trace_span(ENV_TRACK_CONTEXT, wb->index, "work", start, env_clock_ns(),
			       counter_read(&wb->stats.slice_pages) - before);
		if (wb_pass_on(wb, work))
			continue;
		if (work->auto_free)
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

/* ---- the end of a context ----------------------------------------------------------- */

/* Is nothing left of a retiring context (W33)?  Then it is IDLE. */
static bool become_idle(struct wb_ctx *wb)
{
	bool idle;

	env_mutex_lock(&wb->list_lock);
	env_mutex_lock(&wb->work_lock);
	idle = !wb->nr_listed && list_empty(&wb->works) && !counter_read(&wb->reclaimable) &&
	       !counter_read(&wb->writeback);
	if (idle) {
		__atomic_store_n(&wb->state, WB_IDLE, __ATOMIC_RELEASE);
		__atomic_store_n(&wb->timer_ns, 0, __ATOMIC_SEQ_CST);
	}
	env_mutex_unlock(&wb->work_lock);
	env_mutex_unlock(&wb->list_lock);
	if (idle)
		env_waitq_wake(&wb->bdi->idle_wait);
	return idle;
}

/*
 * Give everything away.  What cannot go now - somebody is about to dirty it, a sync runs -
 * is looked at again when there is a work to do or after a pause.
 */
static void retire(struct wb_ctx *wb)
{
	uint32_t key = env_waitq_prepare(&wb->wake);

	wb_move_all(wb);
	if (works_pending(wb) || become_idle(wb))
		env_waitq_cancel(&wb->wake);
	else
		env_waitq_wait(&wb->wake, key, RETIRE_PAUSE_NS);
}

/* No work is taken any more, unless there is one. */
static bool close_context(struct wb_ctx *wb)
{
	env_mutex_lock(&wb->work_lock);
	wb->closed = list_empty(&wb->works);
	env_mutex_unlock(&wb->work_lock);
	return wb->closed;
}

static bool has_to_do(struct wb_ctx *wb, uint64_t now, uint64_t due)
{
	return works_pending(wb) || (due && due <= now) || wb_state(wb) == WB_RETIRING ||
	       __atomic_load_n(&wb->start_background, __ATOMIC_SEQ_CST);
}

void wb_thread_main(void *arg)
{
	struct wb_ctx *wb = arg;

	for (;;) {
		uint32_t key = env_waitq_prepare(&wb->wake);
		uint64_t due = __atomic_load_n(&wb->timer_ns, __ATOMIC_RELAXED);
		uint64_t now = due ? env_clock_ns() : 0;

		if (has_to_do(wb, now, due)) {
			env_waitq_cancel(&wb->wake);
		} else if (__atomic_load_n(&wb->stop, __ATOMIC_SEQ_CST)) {
			env_waitq_cancel(&wb->wake);
			if (close_context(wb))
				return;
		} else {
			env_waitq_wait(&wb->wake, key, due ? due - now : ENV_FOREVER);
			continue;
		}
		do_explicit_works(wb);
		if (wb_state(wb) == WB_RETIRING) {
			retire(wb);
			continue;
		}
		do_periodic(wb);
		do_background(wb);
	}
}

/* ---- completion work (W26) ---------------------------------------------------------- */

void wb_queue_completion(struct inode *inode, struct wb_completion *work)
{
	struct wb_ctx *wb = __atomic_load_n(&inode->i_wb, __ATOMIC_ACQUIRE);

	if (bdi_tuned(wb->bdi, single_completion_queue))
		wb = wb->bdi->slots[0];
	work->next = NULL;
	env_mutex_lock(&wb->completion_lock);
	*wb->completion_tail = work;
	wb->completion_tail = &work->next;
	__atomic_store_n(&wb->completion_length, wb->completion_length + 1, __ATOMIC_RELAXED);
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

/* The works may be gone once they have run. */
static void run_completions(struct wb_ctx *wb, struct wb_completion *work)
{
	uint64_t start = env_clock_ns();
	uint64_t nr = 0;

	while (work) {
		struct wb_completion *next = work->next;

		counter_add(&wb->stats.completions, 1);
		work->fn(work);
		work = next;
		nr++;
	}
	counter_add(&wb->stats.completion_ns, env_clock_ns() - start);
	env_mutex_lock(&wb->completion_lock);
	__atomic_store_n(&wb->completion_length, wb->completion_length - nr, __ATOMIC_RELAXED);
	env_mutex_unlock(&wb->completion_lock);
	env_trace_span(ENV_TRACK_CONTEXT, wb->index, "completion", start, env_clock_ns(), nr);
}

void wb_completion_main(void *arg)
{
	struct wb_ctx *wb = arg;

	for (;;) {
		uint32_t key = env_waitq_prepare(&wb->completion_wake);
		struct wb_completion *work = take_completions(wb);

		if (work) {
			env_waitq_cancel(&wb->completion_wake);
			run_completions(wb, work);
		} else if (__atomic_load_n(&wb->stop, __ATOMIC_SEQ_CST)) {
			env_waitq_cancel(&wb->completion_wake);
			return;
		} else {
			env_waitq_wait(&wb->completion_wake, key, ENV_FOREVER);
		}
	}
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * dirty.c - clean, dirty, under writeback: the transitions, their accounting, the limits
 *
 * Every transition of a folio happens under its mapping's lock, where flag, tag and all
 * counters change together (K1, M117); so counters always agree with the binding of the inode.
 */
#include "folio/internal.h"

/* ---- transitions -------------------------------------------------------------------- */

bool folio_mark_dirty(struct folio *folio)
{
	struct address_space *mapping = folio->mapping;
	struct page_cache *cache = folio->cache;
	struct inode *inode = mapping->host;
	uint64_t pages = folio_nr_pages(folio);

	assert(folio_is_locked(folio));
	if (folio_test(folio, FOLIO_DIRTY))
		return false;
	wb_bind_inode(inode);
	env_mutex_lock(&mapping->lock);
	folio_set(folio, FOLIO_DIRTY);
	index_set_mark(&mapping->index_root, folio->index, INDEX_DIRTY);
	mapping->nr_dirty += pages;
	counter_add(&cache->nr_dirty, pages);
	counter_add(&inode->i_wb->reclaimable, pages);
	counter_add(&inode->i_wb->dirtied, pages);
	env_mutex_unlock(&mapping->lock);
	env_task_self.local[ENV_LOCAL_DIRTIED] += pages;
	inode_mark_dirty(inode, I_DIRTY_PAGES);
	return true;
}

/* => mapping->lock is held */
static bool clear_dirty_locked(struct address_space *mapping, struct folio *folio)
{
	uint64_t pages = folio_nr_pages(folio);

	if (!folio_test(folio, FOLIO_DIRTY))
		return false;
	folio_clear(folio, FOLIO_DIRTY);
	mapping->nr_dirty -= pages;
	counter_sub(&folio->cache->nr_dirty, pages);
	counter_sub(&mapping->host->i_wb->reclaimable, pages);
	return true;
}

bool folio_clear_dirty_for_io(struct folio *folio)
{
	struct address_space *mapping = folio->mapping;
	bool was_dirty;

	assert(folio_is_locked(folio));
	env_mutex_lock(&mapping->lock);
	was_dirty = clear_dirty_locked(mapping, folio);
	env_mutex_unlock(&mapping->lock);
	return was_dirty;
}

void folio_cancel_dirty(struct folio *folio)
{
	struct address_space *mapping = folio->mapping;

	assert(folio_is_locked(folio));
	env_mutex_lock(&mapping->lock);
	if (clear_dirty_locked(mapping, folio)) {
		index_clear_mark(&mapping->index_root, folio->index, INDEX_DIRTY);
		index_clear_mark(&mapping->index_root, folio->index, INDEX_TOWRITE);
	}
	env_mutex_unlock(&mapping->lock);
}

void folio_start_writeback(struct folio *folio)
{
	struct address_space *mapping = folio->mapping;
	struct inode *inode = mapping->host;
	struct super_block *sb = inode->i_sb;
	uint64_t pages = folio_nr_pages(folio);

	assert(folio_is_locked(folio));
	assert(!folio_test(folio, FOLIO_WRITEBACK));
	env_mutex_lock(&mapping->lock);
	folio_set(folio, FOLIO_WRITEBACK);
	index_set_mark(&mapping->index_root, folio->index, INDEX_WRITEBACK);
	if (!folio_test(folio, FOLIO_DIRTY))
		index_clear_mark(&mapping->index_root, folio->index, INDEX_DIRTY);
	index_clear_mark(&mapping->index_root, folio->index, INDEX_TOWRITE);
	if (mapping->nr_writeback == 0) {
		env_mutex_lock(&sb->s_wb_lock);
		list_add_tail(&inode->i_wb_link, &sb->s_wb_inodes);
		env_mutex_unlock(&sb->s_wb_lock);
	}
	mapping->nr_writeback += pages;
	counter_add(&folio->cache->nr_writeback, pages);
	counter_add(&inode->i_wb->writeback, pages);
	env_mutex_unlock(&mapping->lock);
}

/* The folio was to be dropped when clean (D39). */
static void drop_behind(struct folio *folio)
{
	if (folio_trylock(folio)) {
		if (folio->mapping)
			filemap_evict_folio(folio);
		folio_unlock(folio);
	}
	folio_put(folio);
}

void folio_end_writeback(struct folio *folio)
{
	struct address_space *mapping = folio->mapping;
	struct page_cache *cache = folio->cache;
	struct inode *inode = mapping->host;
	struct super_block *sb = inode->i_sb;
	uint64_t pages = folio_nr_pages(folio);
	bool drop = folio_test(folio, FOLIO_DROPBEHIND);
	uint64_t old, left;

	assert(folio_test(folio, FOLIO_WRITEBACK));
	if (unlikely(drop))
		folio_get(folio);
	env_mutex_lock(&mapping->lock);
	/* Counters first: who sees no tag, no list entry or no flag any more sees them right. */
	left = __atomic_sub_fetch(&cache->nr_writeback, pages, __ATOMIC_ACQ_REL);
	counter_sub(&inode->i_wb->writeback, pages);
	counter_add(&inode->i_wb->written, pages);
	counter_add(&sb->s_bdi->nr_completions, pages);
	counter_add(&cache->nr_completions, pages);
	mapping->nr_writeback -= pages;
	if (mapping->nr_writeback == 0) {
		env_mutex_lock(&sb->s_wb_lock);
		list_del_init(&inode->i_wb_link);
		env_mutex_unlock(&sb->s_wb_lock);
	}
	index_clear_mark(&mapping->index_root, folio->index, INDEX_WRITEBACK);
	/* Last, and once seen the folio and the inode may go; their memory of locks lasts. */
	old = __atomic_fetch_and(&folio->state, ~(uint64_t)FOLIO_WRITEBACK, __ATOMIC_ACQ_REL);
	env_mutex_unlock(&mapping->lock);
	if (unlikely(old & FOLIO_WAITERS))
		folio_wake_waiters(folio);
	if (left + counter_read(&cache->nr_dirty) <= dirty_freerun(cache))
		env_waitq_wake(&cache->dirty_wait);
	env_waitq_wake(&cache->memory_wait);
	if (unlikely(drop))
		drop_behind(folio);
}

/* ---- limits (K18) ------------------------------------------------------------------- */

static uint64_t limit_pages(const struct page_cache *cache, uint64_t bytes, uint32_t ratio)
{
	if (bytes)
		return (bytes + cache->config.page_size - 1) >> cache->page_shift;
	return cache->buddy.nr_pages * ratio / 100;
}

void dirty_limits_init(struct page_cache *cache)
{
	const struct page_cache_config *config = &cache->config;

	cache->dirty_thresh = limit_pages(cache, config->dirty_bytes, config->dirty_ratio);
	cache->background_thresh =
		limit_pages(cache, config->dirty_background_bytes, config->dirty_background_ratio);
	if (cache->dirty_thresh < 4)
		cache->dirty_thresh = 4;
	if (cache->background_thresh >= cache->dirty_thresh)
		cache->background_thresh = cache->dirty_thresh / 2;
}

/* ---- throttling (K20..K23) ---------------------------------------------------------- */

#define THROTTLE_PAUSE_MAX_NS 200000000ull
#define NS_PER_SECOND	      1000000000ull
/* Fixed point of the position factor: 1.0. */
#define POS_ONE 1024

/*
 * How fast writers may go relative to the device: 2.0 at freerun, 1.0 half way to the limit,
 * 0 at the limit, falling as a cube around the middle (K21).
 */
static uint64_t position_factor(uint64_t dirty, uint64_t freerun, uint64_t limit)
{
	int64_t setpoint = (int64_t)((freerun + limit) / 2);
	int64_t x, factor;

	if (dirty >= limit)
		return 0;
	x = (setpoint - (int64_t)dirty) * POS_ONE / ((int64_t)limit - setpoint + 1);
	factor = POS_ONE + (x * x / POS_ONE) * x / POS_ONE;
	if (factor < 0)
		return 0;
	return factor > 2 * POS_ONE ? 2 * POS_ONE : (uint64_t)factor;
}

/* Pages of dirty + writeback on the device. */
static uint64_t bdi_dirty(const struct backing_dev *bdi)
{
	unsigned int nr = __atomic_load_n(&bdi->nr_slots, __ATOMIC_ACQUIRE);
	uint64_t pages = 0;

	for (unsigned int i = 0; i < nr; i++)
		pages += counter_read(&bdi->slots[i]->reclaimable) +
			 counter_read(&bdi->slots[i]->writeback);
	return pages;
}

/* The device's part of the limit: by recent completions, with room to start (K22). */
static uint64_t bdi_share(const struct page_cache *cache, const struct backing_dev *bdi,
			  uint64_t dirty)
{
	uint64_t limit = cache->dirty_thresh;
	uint64_t all = counter_read(&cache->nr_completions);
	uint64_t own = counter_read(&bdi->nr_completions);
	uint64_t least = dirty < limit ? (limit - dirty) / 8 : 0;
	uint64_t share;

	share = all ? (uint64_t)((__uint128_t)limit * own / all) : limit;
	return share > least ? share : least;
}

/* Completions count for about three seconds, those of idle devices too (K22). */
static void age_completions(struct page_cache *cache, uint64_t now)
{
	uint64_t last = __atomic_load_n(&cache->aged_ns, __ATOMIC_RELAXED);
	struct backing_dev *bdi;

	if (now - last < 3 * NS_PER_SECOND ||
	    !__atomic_compare_exchange_n(&cache->aged_ns, &last, now, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED))
		return;
	env_mutex_lock(&cache->bdi_lock);
	list_for_each_entry(bdi, &cache->bdis, struct backing_dev, link) {
		uint64_t half = counter_read(&bdi->nr_completions) / 2;

		counter_sub(&bdi->nr_completions, half);
		counter_sub(&cache->nr_completions, half);
	}
	env_mutex_unlock(&cache->bdi_lock);
}

/* Pages a writer may dirty before it looks again (K20). */
static uint64_t allowance(const struct page_cache *cache, uint64_t dirty)
{
	uint64_t headroom = dirty < cache->dirty_thresh ? cache->dirty_thresh - dirty : 0;
	uint64_t cap = cache->dirty_thresh / (32 * cache->nr_cpus);
	uint64_t pages;

	if (headroom == 0)
		return 1;
	pages = 1ull << ((63u - (unsigned int)__builtin_clzll(headroom)) / 2);
	if (cap < 16)
		cap = 16;
	return pages < cap ? pages : cap;
}

/* How long this writer sleeps for the pages it has dirtied. */
static uint64_t throttle_pause(const struct page_cache *cache, struct wb_ctx *wb, uint64_t dirty,
			       uint64_t pages)
{
	uint64_t share = bdi_share(cache, wb->bdi, dirty);
	uint64_t own = bdi_dirty(wb->bdi);
	uint64_t factor = position_factor(dirty, dirty_freerun(cache), cache->dirty_thresh);
	uint64_t writers = 1 + __atomic_load_n(&wb->nr_throttled, __ATOMIC_RELAXED);
	uint64_t rate;

	if (own < share / 2) /* keeps devices busy that others starve (M125) */
		factor = factor * 8 + POS_ONE;
	else if (own > share)
		factor = factor / 4 + (factor / 4 * 3) * share / own;
	rate = counter_read(&wb->avg_bandwidth) * factor / POS_ONE / writers;
	if (rate == 0)
		return THROTTLE_PAUSE_MAX_NS;
	return pages * NS_PER_SECOND / rate;
}

static void throttle_sleep(struct page_cache *cache, struct wb_ctx *wb, uint64_t pause)
{
	uint64_t start = env_clock_ns();
	uint32_t key = env_waitq_prepare(&cache->dirty_wait);

	__atomic_fetch_add(&wb->nr_throttled, 1, __ATOMIC_RELAXED);
	if (counter_read(&cache->nr_dirty) + counter_read(&cache->nr_writeback) >
	    dirty_freerun(cache))
		env_waitq_wait(&cache->dirty_wait, key, pause);
	else
		env_waitq_cancel(&cache->dirty_wait);
	__atomic_fetch_sub(&wb->nr_throttled, 1, __ATOMIC_RELAXED);
	counter_add(&cache->stats.nr_throttled, 1);
	counter_add(&cache->stats.throttled_ns, env_clock_ns() - start);
}

static int balance_slow(struct address_space *mapping, bool nowait)
{
	struct page_cache *cache = mapping->cache;
	struct inode *inode = mapping->host;
	uint64_t *local = env_task_self.local;
	struct wb_ctx *wb = __atomic_load_n(&inode->i_wb, __ATOMIC_ACQUIRE);
	uint64_t pages = local[ENV_LOCAL_DIRTIED];
	uint64_t chunk = cache->page_shift < 15 ? (32u << 10) >> cache->page_shift : 1;

	for (;;) {
		uint64_t nr_dirty = counter_read(&cache->nr_dirty);
		uint64_t dirty = nr_dirty + counter_read(&cache->nr_writeback);
		uint64_t pause;

		if (nr_dirty > cache->background_thresh || (wb && wb_over_background(wb)))
			wb_kick_background(inode->i_sb->s_bdi);
		if (dirty <= dirty_freerun(cache) || !wb) {
			local[ENV_LOCAL_DIRTIED] = 0;
			local[ENV_LOCAL_DIRTIED_MAX] = allowance(cache, dirty);
			return 0;
		}
		if (nowait)
			return -EAGAIN;
		if (local[ENV_LOCAL_CANCELLED])
			return -EINTR;
		age_completions(cache, env_clock_ns());
		pause = throttle_pause(cache, wb, dirty, pages);
		if (pause < 10000 && dirty < cache->dirty_thresh)
			break; /* too short to sleep for */
		if (pause > THROTTLE_PAUSE_MAX_NS)
			pause = THROTTLE_PAUSE_MAX_NS;
		throttle_sleep(cache, wb, pause);
		dirty = counter_read(&cache->nr_dirty) + counter_read(&cache->nr_writeback);
		if (dirty < cache->dirty_thresh && pause < THROTTLE_PAUSE_MAX_NS)
			break;
		/* Others have taken the limit: this context goes on chunk by chunk (M125). */
		if (counter_read(&wb->reclaimable) + counter_read(&wb->writeback) <= chunk)
			break;
	}
	local[ENV_LOCAL_DIRTIED] = 0;
	local[ENV_LOCAL_DIRTIED_MAX] = chunk;
	return 0;
}

int wb_balance_dirty_pages(struct address_space *mapping, bool nowait)
{
	const uint64_t *local = env_task_self.local;

	if (likely(local[ENV_LOCAL_DIRTIED] < local[ENV_LOCAL_DIRTIED_MAX]))
		return 0;
	return balance_slow(mapping, nowait);
}

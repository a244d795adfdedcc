/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * dirty.c - clean, dirty, under writeback: the transitions and their accounting
 *
 * Every transition of a folio happens under its mapping's lock, where flag, tag and all
 * counters change together (K1, M117); so counters always agree with the binding of the inode.
 *
 * A cache that is asked to counts, beside pages, the bytes of dirty blocks, for its limits alone
 * (W57).  How much of a folio is dirty stands in its state, where it also outlasts the time from
 * clearing the dirty flag to the start of writeback.  Of what is under writeback only the sum of
 * each file is known, and a folio that ends takes its average part.
 */
#include <iomap/cost.h>

#include "folio/counters.h"
#include "folio/internal.h"

/* ---- bytes of dirty blocks (W57) ---------------------------------------------------- */

#define DIRTY_UNIT_SHIFT 9 /* the smallest block */

static inline bool counts_blocks(const struct page_cache *cache)
{
	return unlikely(cache->config.dirty_accounting == DIRTY_ACCOUNT_BLOCK);
}

static uint64_t folio_dirty_bytes(const struct folio *folio)
{
	return (folio_state(folio) & FOLIO_DIRTY_PART) >> FOLIO_DIRTY_PART_SHIFT
								  << DIRTY_UNIT_SHIFT;
}

/* => folio lock */
static void folio_add_dirty_bytes(struct folio *folio, uint64_t bytes)
{
	__atomic_fetch_add(&folio->state, bytes >> DIRTY_UNIT_SHIFT << FOLIO_DIRTY_PART_SHIFT,
			   __ATOMIC_RELAXED);
}

void folio_count_dirtied(struct folio *folio, uint64_t bytes)
{
	struct page_cache *cache = folio->cache;

	counter_add(&cache->stats.dirtied_bytes, bytes);
	if (!counts_blocks(cache))
		return;
	folio_add_dirty_bytes(folio, bytes);
	env_task_self.local[ENV_LOCAL_DIRTIED] += bytes;
	if (folio_test(folio, FOLIO_DIRTY))
		counter_add(&cache->dirty_bytes, bytes);
}

/* The folio became dirty; if nobody has said how much of it, then all.  => folio lock */
static void blocks_dirtied(struct folio *folio)
{
	if (!folio_dirty_bytes(folio)) {
		folio_add_dirty_bytes(folio, folio_size(folio));
		env_task_self.local[ENV_LOCAL_DIRTIED] += folio_size(folio);
	}
	counter_add(&folio->cache->dirty_bytes, folio_dirty_bytes(folio));
}

/* => folio and mapping lock; nr_writeback is still what it was */
static void blocks_start_writeback(struct address_space *mapping, struct folio *folio)
{
	uint64_t bytes = folio_dirty_bytes(folio);

	mapping->writeback_bytes += bytes;
	counter_add(&folio->cache->writeback_bytes, bytes);
	/* Dirtied again in between: what it has counts once more. */
	if (!folio_test(folio, FOLIO_DIRTY))
		folio_clear(folio, FOLIO_DIRTY_PART);
}

/* So many pages of the file end.  => mapping lock; nr_writeback is still what it was */
static void blocks_end_writeback(struct address_space *mapping, uint64_t pages)
{
	uint64_t bytes = mapping->writeback_bytes * pages / mapping->nr_writeback;

	mapping->writeback_bytes -= bytes;
	counter_sub(&mapping->cache->writeback_bytes, bytes);
}

void blocks_count_foreign(struct address_space *mapping, int64_t dirty, int64_t writeback)
{
	struct page_cache *cache = mapping->cache;
	uint64_t bytes;

	if (!counts_blocks(cache))
		return;
	counter_add(&cache->dirty_bytes, (uint64_t)dirty << cache->page_shift);
	if (writeback < 0) {
		blocks_end_writeback(mapping, (uint64_t)-writeback);
		return;
	}
	bytes = (uint64_t)writeback << cache->page_shift;
	mapping->writeback_bytes += bytes;
	counter_add(&cache->writeback_bytes, bytes);
}

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
	if (counts_blocks(cache))
		blocks_dirtied(folio);
	else
		env_task_self.local[ENV_LOCAL_DIRTIED] += pages << cache->page_shift;
	env_mutex_unlock(&mapping->lock);
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
	if (counts_blocks(folio->cache))
		counter_sub(&folio->cache->dirty_bytes, folio_dirty_bytes(folio));
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
		if (counts_blocks(folio->cache))
			folio_clear(folio, FOLIO_DIRTY_PART);
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
	env_charge(ENV_COST_MAPPING_LOCK, 1);
	folio_set(folio, FOLIO_WRITEBACK);
	env_switch_point_at("writeback: flag set");
	index_set_mark(&mapping->index_root, folio->index, INDEX_WRITEBACK);
	if (!folio_test(folio, FOLIO_DIRTY))
		index_clear_mark(&mapping->index_root, folio->index, INDEX_DIRTY);
	index_clear_mark(&mapping->index_root, folio->index, INDEX_TOWRITE);
	if (mapping->nr_writeback == 0) {
		env_mutex_lock(&sb->s_wb_lock);
		list_add_tail(&inode->i_wb_link, &sb->s_wb_inodes);
		env_mutex_unlock(&sb->s_wb_lock);
	}
	if (counts_blocks(folio->cache))
		blocks_start_writeback(mapping, folio);
	mapping->nr_writeback += pages;
	counter_add(&folio->cache->nr_writeback, pages);
	if (__atomic_fetch_add(&inode->i_wb->writeback, pages, __ATOMIC_SEQ_CST) == 0)
		wb_bandwidth_wake(inode->i_wb);
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
	uint64_t old;

	assert(folio_test(folio, FOLIO_WRITEBACK));
	if (unlikely(drop))
		folio_get(folio);
	env_charge(ENV_COST_END_FOLIO, 1);
	env_mutex_lock(&mapping->lock);
	env_charge(ENV_COST_MAPPING_LOCK, 1);
	/* Counters first: who sees no tag, no list entry or no flag any more sees them right. */
	if (counts_blocks(cache))
		blocks_end_writeback(mapping, pages);
	__atomic_fetch_sub(&cache->nr_writeback, pages, __ATOMIC_ACQ_REL);
	counter_add(&inode->i_wb->written, pages);
	counter_add(&inode->i_wb->nr_completions, pages);
	counter_add(&cache->nr_completions, pages);
	if (__atomic_sub_fetch(&inode->i_wb->writeback, pages, __ATOMIC_SEQ_CST) == 0)
		wb_bandwidth_idle(inode->i_wb);
	mapping->nr_writeback -= pages;
	if (mapping->nr_writeback == 0) {
		env_mutex_lock(&sb->s_wb_lock);
		list_del_init(&inode->i_wb_link);
		env_mutex_unlock(&sb->s_wb_lock);
	}
	index_clear_mark(&mapping->index_root, folio->index, INDEX_WRITEBACK);
	/* Last, and once seen the folio and the inode may go; their memory of locks lasts. */
	old = __atomic_fetch_and(&folio->state, ~(uint64_t)FOLIO_WRITEBACK, __ATOMIC_ACQ_REL);
	env_switch_point_at("writeback: flag cleared");
	env_mutex_unlock(&mapping->lock);
	if (unlikely(old & FOLIO_WAITERS))
		folio_wake_waiters(folio);
	if (cache_dirty_and_writeback(cache) <= dirty_freerun(cache))
		env_waitq_wake(&cache->dirty_wait);
	env_waitq_wake(&cache->memory_wait);
	if (unlikely(drop))
		drop_behind(folio);
}

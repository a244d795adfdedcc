/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * reclaim.c - which clean folio leaves first
 *
 * Second chance: each list is oldest first; a folio used since the last look goes to the young
 * end once.  Dirty folios stay; when nothing is clean the flusher is woken and waited for.
 */
#include "folio/internal.h"

/* Sleeps of a caller that finds everything dirty and not being written; each at most. */
#define RECLAIM_WAITS	100
#define RECLAIM_WAIT_NS 20000000ull
/* Folios of a list that are looked at for the sake of a large folio. */
#define RECLAIM_LIGHT 64

/* By the place of its memory in the arena, which is the same in every run (CB10). */
static struct reclaim_shard *shard_of(const struct folio *folio)
{
	struct page_cache *cache = folio->cache;
	uint64_t page = (uint64_t)(folio->data - cache->buddy.arena) >> cache->page_shift;

	return &cache->shards[(page ^ page >> 3 ^ page >> 6 ^ page >> 9) % RECLAIM_SHARDS];
}

void reclaim_init(struct page_cache *cache)
{
	for (unsigned int i = 0; i < RECLAIM_SHARDS; i++) {
		env_spin_init(&cache->shards[i].lock, "reclaim list");
		list_init(&cache->shards[i].folios);
	}
}

void reclaim_add(struct folio *folio)
{
	struct reclaim_shard *shard = shard_of(folio);

	env_mutex_lock(&shard->lock);
	list_add_tail(&folio->lru, &shard->folios);
	shard->nr++;
	folio_set(folio, FOLIO_LRU);
	env_mutex_unlock(&shard->lock);
}

void reclaim_forget(struct folio *folio)
{
	struct reclaim_shard *shard = shard_of(folio);

	env_mutex_lock(&shard->lock);
	list_del_init(&folio->lru);
	shard->nr--;
	folio_clear(folio, FOLIO_LRU);
	env_mutex_unlock(&shard->lock);
}

/* The oldest folio of the list that may be evicted now, with a reference. */
static struct folio *shard_take(struct reclaim_shard *shard, uint64_t *budget, bool *busy)
{
	struct folio *found = NULL;

	env_mutex_lock(&shard->lock);
	while (*budget && !found && !list_empty(&shard->folios)) {
		struct folio *folio = list_first_entry(&shard->folios, struct folio, lru);

		(*budget)--;
		list_move_tail(&folio->lru, &shard->folios);
		if (folio_is_locked(folio) || folio_ref_count(folio) > 1)
			*busy = true;
		if (folio_test(folio, FOLIO_REFERENCED))
			folio_clear(folio, FOLIO_REFERENCED);
		else if (!folio_test(folio, FOLIO_DIRTY | FOLIO_WRITEBACK | FOLIO_LOCKED) &&
			 folio_try_get(folio))
			found = folio;
	}
	env_mutex_unlock(&shard->lock);
	return found;
}

static uint64_t folio_evict(struct folio *folio)
{
	uint64_t pages = folio_nr_pages(folio);
	bool evicted;

	if (!folio_trylock(folio)) {
		folio_put(folio);
		return 0;
	}
	evicted = folio->mapping && filemap_evict_folio(folio);
	folio_unlock_put(folio);
	return evicted ? pages : 0;
}

/*
 * Evict clean folios until `pages` are freed, looking at no more than max folios a list.  *busy
 * is set if some folio is in use now, and will be clean and unused later.
 */
static uint64_t reclaim_scan(struct page_cache *cache, uint64_t pages, uint64_t max, bool *busy)
{
	uint64_t freed = 0;

	for (unsigned int i = 0; i < RECLAIM_SHARDS && freed < pages; i++) {
		uint32_t hand = __atomic_fetch_add(&cache->reclaim_hand, 1, __ATOMIC_RELAXED);
		struct reclaim_shard *shard = &cache->shards[hand % RECLAIM_SHARDS];
		uint64_t budget;
		struct folio *folio;

		env_mutex_lock(&shard->lock);
		budget = 2 * shard->nr; /* the second time nobody is spared */
		env_mutex_unlock(&shard->lock);
		budget = budget < max ? budget : max;
		while (freed < pages && (folio = shard_take(shard, &budget, busy)) != NULL)
			freed += folio_evict(folio);
	}
	counter_add(&cache->stats.nr_reclaimed, freed);
	return freed;
}

uint64_t reclaim_pages(struct page_cache *cache, uint64_t pages)
{
	bool busy;

	return reclaim_scan(cache, pages, UINT64_MAX, &busy);
}

uint64_t reclaim_lightly(struct page_cache *cache, uint64_t pages)
{
	bool busy;

	return reclaim_scan(cache, pages, RECLAIM_LIGHT + pages, &busy);
}

static void kick_flushers(struct page_cache *cache)
{
	struct backing_dev *bdi;

	env_mutex_lock(&cache->bdi_lock);
	list_for_each_entry(bdi, &cache->bdis, struct backing_dev, link)
		bdi_start_writeback(bdi, 1024);
	env_mutex_unlock(&cache->bdi_lock);
}

bool reclaim_wait(struct page_cache *cache, unsigned int order)
{
	uint64_t pages = 1ull << order;
	/* A little more than asked for, so that not every page costs a look. */
	uint64_t batch = pages < 32 ? 32 : pages;

	/* Writes in flight are waited for as long as they take. */
	for (unsigned int idle = 0; idle < RECLAIM_WAITS;) {
		uint32_t key = env_waitq_prepare(&cache->memory_wait);
		bool busy = false;

		/* What others have freed meanwhile is on no list to be reclaimed from. */
		if (reclaim_scan(cache, batch, UINT64_MAX, &busy) >= pages ||
		    buddy_has(&cache->buddy, order)) {
			env_waitq_cancel(&cache->memory_wait);
			return true;
		}
		if (!busy && !counter_read(&cache->nr_dirty) &&
		    !counter_read(&cache->nr_writeback)) {
			env_waitq_cancel(&cache->memory_wait);
			/* Nothing will become clean; somebody may have freed a folio. */
			return buddy_has(&cache->buddy, order);
		}
		kick_flushers(cache);
		if (!env_waitq_wait(&cache->memory_wait, key, RECLAIM_WAIT_NS) &&
		    !counter_read(&cache->nr_writeback))
			idle++;
	}
	return false;
}

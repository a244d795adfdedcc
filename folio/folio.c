/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * folio.c - one folio: descriptor, references, lock, waits
 *
 * Flags and reference count are one 64-bit word, so that the usual pairs (take a reference
 * and the lock; drop both) are one atomic step.
 */
#include <iomap/folio.h>

#include "folio/internal.h"

/*
 * Descriptors are made a chunk at a time and never given back before the cache is.  Once a
 * cache has many a chunk is a huge page: a look-up in a large cache misses the TLB less.
 */
#define SMALL_CHUNK (64u << 10)
#define LARGE_CHUNK (2u << 20)
#define MANY_FOLIOS 4096

static_assert(sizeof(struct folio_chunk) <= sizeof(struct folio),
	      "a chunk's header takes the place of one folio");

uint64_t folio_size(const struct folio *folio)
{
	return 1ull << (folio_order(folio) + folio->cache->page_shift);
}

uint64_t folio_pos(const struct folio *folio)
{
	return folio->index << folio->cache->page_shift;
}

/* => folio_lock is held */
static bool descriptors_grow(struct page_cache *cache)
{
	size_t size = cache->nr_folio_slots < MANY_FOLIOS ? SMALL_CHUNK : LARGE_CHUNK;
	struct folio_chunk *chunk = env_arena_map(size, size, false);
	size_t nr = size / sizeof(struct folio);

	if (!chunk)
		return false;
	chunk->next = cache->chunks;
	chunk->size = size;
	cache->chunks = chunk;
	for (size_t i = nr - 1; i > 0; i--) {
		struct folio *folio = (struct folio *)chunk + i;

		folio->cache = cache;
		folio->lru.next = (struct list_head *)(void *)cache->free_folios;
		cache->free_folios = folio;
	}
	cache->nr_folio_slots += nr - 1;
	return true;
}

static struct folio *descriptor_get(struct page_cache *cache)
{
	struct folio *folio = NULL;

	env_mutex_lock(&cache->folio_lock);
	if (likely(cache->free_folios != NULL) || descriptors_grow(cache)) {
		folio = cache->free_folios;
		cache->free_folios = (struct folio *)(void *)folio->lru.next;
		cache->nr_folios++;
	}
	env_mutex_unlock(&cache->folio_lock);
	return folio;
}

static void descriptor_put(struct page_cache *cache, struct folio *folio)
{
	env_mutex_lock(&cache->folio_lock);
	folio->lru.next = (struct list_head *)(void *)cache->free_folios;
	cache->free_folios = folio;
	cache->nr_folios--;
	env_mutex_unlock(&cache->folio_lock);
}

struct folio *folio_alloc(struct page_cache *cache, unsigned int order)
{
	struct folio *folio;
	void *data;

	data = buddy_alloc(&cache->buddy, order);
	if (!data)
		return NULL;
	folio = descriptor_get(cache);
	if (!folio) {
		buddy_free(&cache->buddy, data, order);
		return NULL;
	}
	__atomic_store_n(&folio->mapping, NULL, __ATOMIC_RELAXED);
	folio->data = data;
	folio->block_state = NULL;
	/* Locked from the start: a late look-up of what it was before cannot get the lock. */
	__atomic_store_n(&folio->state,
			 FOLIO_REF_ONE | FOLIO_LOCKED | (uint64_t)order << FOLIO_ORDER_SHIFT,
			 __ATOMIC_RELEASE);
	env_lockdep_taken(folio, FOLIO_LOCK_CLASS);
	return folio;
}

/* The last reference is gone, so nobody can find the folio any more. */
static void folio_free(struct folio *folio)
{
	struct page_cache *cache = folio->cache;

	assert(folio->mapping == NULL);
	assert(!folio_test(folio, FOLIO_DIRTY | FOLIO_WRITEBACK));
	if (folio_test(folio, FOLIO_LRU))
		reclaim_forget(folio);
	if (folio->block_state) {
		/* Its first word is its size, see address_space_operations.init_folio. */
		counter_sub(&cache->stats.state_bytes, *(uint32_t *)folio->block_state);
		env_free(folio->block_state);
		folio->block_state = NULL;
	}
	buddy_free(&cache->buddy, folio->data, folio_order(folio));
	descriptor_put(cache, folio);
	env_waitq_wake(&cache->memory_wait);
}

void folio_put(struct folio *folio)
{
	uint64_t old = __atomic_fetch_sub(&folio->state, FOLIO_REF_ONE, __ATOMIC_ACQ_REL);

	assert(old >= FOLIO_REF_ONE);
	if (unlikely(old < 2 * FOLIO_REF_ONE))
		folio_free(folio);
}

/* ---- waits -------------------------------------------------------------------------- */

/*
 * LOCKED and WRITEBACK share one sleepers' bit: a waker clears it and wakes all; who finds his
 * bit still set says so again and sleeps.
 */
void folio_wait_bit(struct folio *folio, uint32_t bit)
{
	uint64_t state = folio_state(folio);

	while (state & bit) {
		if (!(state & FOLIO_WAITERS)) {
			if (!__atomic_compare_exchange_n(&folio->state, &state,
							 state | FOLIO_WAITERS, false,
							 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
				continue;
			state |= FOLIO_WAITERS;
		}
		env_futex_wait(folio_wait_word(folio), (uint32_t)state, ENV_FOREVER);
		state = folio_state(folio);
	}
}

void folio_wake_waiters(struct folio *folio)
{
	folio_clear(folio, FOLIO_WAITERS);
	env_futex_wake(folio_wait_word(folio), UINT32_MAX);
}

void folio_wait_locked(struct folio *folio)
{
	folio_wait_bit(folio, FOLIO_LOCKED);
}

void folio_wait_writeback(struct folio *folio)
{
	folio_wait_bit(folio, FOLIO_WRITEBACK);
}

/* ---- lock --------------------------------------------------------------------------- */

static inline bool folio_lock_bit(struct folio *folio)
{
	uint64_t old = __atomic_fetch_or(&folio->state, FOLIO_LOCKED, __ATOMIC_ACQ_REL);

	return !(old & FOLIO_LOCKED);
}

bool folio_trylock(struct folio *folio)
{
	if (!folio_lock_bit(folio))
		return false;
	env_lockdep_taken(folio, FOLIO_LOCK_CLASS);
	return true;
}

void folio_lock(struct folio *folio)
{
	env_lockdep_wait(folio, FOLIO_LOCK_CLASS);
	while (unlikely(!folio_lock_bit(folio)))
		folio_wait_bit(folio, FOLIO_LOCKED);
	env_lockdep_taken(folio, FOLIO_LOCK_CLASS);
}

static inline void folio_unlock_bit(struct folio *folio)
{
	uint64_t old;

	assert(folio_is_locked(folio));
	old = __atomic_fetch_and(&folio->state, ~(uint64_t)FOLIO_LOCKED, __ATOMIC_ACQ_REL);
	if (unlikely(old & FOLIO_WAITERS))
		folio_wake_waiters(folio);
	env_switch_point_at("after unlock " FOLIO_LOCK_CLASS);
}

void folio_unlock(struct folio *folio)
{
	env_lockdep_release(folio);
	folio_unlock_bit(folio);
}

void folio_unlock_put(struct folio *folio)
{
	uint64_t old;

	assert(folio_is_locked(folio));
	env_lockdep_release(folio);
	old = __atomic_fetch_sub(&folio->state, FOLIO_REF_ONE | FOLIO_LOCKED, __ATOMIC_ACQ_REL);
	if (unlikely(old & FOLIO_WAITERS))
		folio_wake_waiters(folio);
	if (unlikely(old < 2 * FOLIO_REF_ONE))
		folio_free(folio);
	env_switch_point_at("after unlock " FOLIO_LOCK_CLASS);
}

/* ---- uptodate ----------------------------------------------------------------------- */

void folio_mark_uptodate(struct folio *folio)
{
	assert(folio_is_locked(folio));
	folio_set(folio, FOLIO_UPTODATE);
}

void folio_end_read(struct folio *folio, bool success)
{
	if (success)
		folio_set(folio, FOLIO_UPTODATE);
	/* The read owns the lock, whichever thread this is (C15). */
	folio_unlock_bit(folio);
}

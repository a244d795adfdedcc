/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * filemap.c - the folios of a mapping: look up, create, add, remove, batches
 */
#include <iomap/filemap.h>

#include <iomap/cost.h>

#include "folio/internal.h"

/* Rounds of reclaim for one folio before -ENOMEM: others may take what was freed. */
#define ALLOC_TRIES 16

unsigned int filemap_order_hint(const struct address_space *mapping, uint64_t len)
{
	unsigned int bits;

	if (!mapping->cache->config.order_hint || len >> mapping->page_shift == 0)
		return 0;
	bits = 63u - (unsigned int)__builtin_clzll(len);
	return bits - mapping->page_shift;
}

/* ---- look up ------------------------------------------------------------------------ */

/*
 * Every read and write looks a folio up.  So what only a world wants to hear of is left out of the
 * host's copy of these, and it asks once whether there is one.
 */
static inline void tell_world(const char *point, const bool in_world)
{
	if (in_world)
		env_switch_point_at(point);
}

static __attribute__((always_inline)) inline struct folio *
lookup(struct address_space *mapping, uint64_t index, const bool in_world)
{
	void *const *slot;
	struct folio *folio;

	env_rcu_read_lock();
	for (;;) {
		folio = index_load(&mapping->index_root, index, &slot);
		if (!folio)
			break;
		tell_world("lookup: found", in_world);
		if (unlikely(!folio_try_get(folio))) {
			env_switch_point(); /* to whoever is freeing it */
			continue;
		}
		tell_world("lookup: referenced", in_world);
		/* It may have been freed and be another one by now. */
		if (likely(index_reload(slot) == folio))
			break;
		env_rcu_read_unlock();
		folio_put(folio);
		env_rcu_read_lock();
	}
	env_rcu_read_unlock();
	return folio;
}

static __attribute__((noinline)) struct folio *lookup_in_world(struct address_space *mapping,
							       uint64_t index)
{
	env_charge(ENV_COST_LOOKUP, 1);
	return lookup(mapping, index, true);
}

struct folio *filemap_lookup(struct address_space *mapping, uint64_t index)
{
	if (unlikely(env_world != NULL))
		return lookup_in_world(mapping, index);
	return lookup(mapping, index, false);
}

static inline bool folio_covers(const struct folio *folio, const struct address_space *mapping,
				uint64_t index)
{
	return folio->mapping == mapping && index - folio->index < folio_nr_pages(folio);
}

static __attribute__((always_inline)) inline struct folio *
lookup_lock(struct address_space *mapping, uint64_t index, bool nowait, bool *busy,
	    const bool in_world)
{
	struct folio *folio;
	int got;

	for (;;) {
		env_rcu_read_lock();
		do {
			folio = index_load(&mapping->index_root, index, NULL);
			tell_world("lookup: found", in_world);
			got = folio ? folio_try_get_lock(folio) : 0;
			if (unlikely(got < 0))
				env_switch_point(); /* to whoever is freeing it */
		} while (unlikely(got < 0));
		env_rcu_read_unlock();
		if (!folio)
			return NULL;
		if (unlikely(got == 0)) {
			if (nowait) {
				*busy = true;
				folio_put(folio);
				return NULL;
			}
			folio_lock(folio);
		}
		if (likely(folio_covers(folio, mapping, index)))
			return folio;
		folio_unlock_put(folio);
	}
}

static __attribute__((noinline)) struct folio *
lookup_lock_in_world(struct address_space *mapping, uint64_t index, bool nowait, bool *busy)
{
	env_charge(ENV_COST_LOOKUP, 1);
	return lookup_lock(mapping, index, nowait, busy, true);
}

/*
 * The locked folio at index with a reference; NULL if absent, or with *busy set if nowait and
 * its lock is taken.  Membership is checked under the lock (L46), so no re-load is needed.
 */
static inline struct folio *filemap_lookup_lock(struct address_space *mapping, uint64_t index,
						bool nowait, bool *busy)
{
	if (unlikely(env_world != NULL))
		return lookup_lock_in_world(mapping, index, nowait, busy);
	return lookup_lock(mapping, index, nowait, busy, false);
}

/* ---- create ------------------------------------------------------------------------- */

/* The largest order <= order at which [index, +2^order) holds no folio; index is aligned. */
static unsigned int order_without_overlap(struct address_space *mapping, uint64_t index,
					  unsigned int order)
{
	uint64_t found = index;

	env_rcu_read_lock();
	if (order > mapping->min_order &&
	    index_find(&mapping->index_root, &found, index + (1ull << order) - 1, INDEX_NO_MARK,
		       NULL))
		while (order > mapping->min_order && index + (1ull << order) > found)
			order--;
	env_rcu_read_unlock();
	return order;
}

/* Where and how large a folio for page index with that hint is (J4). */
static unsigned int creation_order(const struct address_space *mapping, uint64_t *index,
				   unsigned int hint)
{
	unsigned int min = mapping->min_order;
	unsigned int order = mapping->cache->config.order_hint ? hint : 0;

	*index &= ~((1ull << min) - 1);
	if (order < min)
		order = min;
	if (order > mapping->max_order)
		order = mapping->max_order;
	if (*index & ((1ull << order) - 1))
		order = (unsigned int)__builtin_ctzll(*index);
	return order;
}

int filemap_alloc_folio(struct address_space *mapping, uint64_t index, unsigned int order,
			enum alloc_effort effort, struct folio **result)
{
	struct page_cache *cache = mapping->cache;
	unsigned int tries = 0;
	struct folio *folio;

	/* A large folio is a wish (J5). */
	if (order > mapping->min_order && effort == ALLOC_WAIT)
		effort = ALLOC_LIGHT;
	while (unlikely(!(folio = folio_alloc(cache, order)))) {
		if (effort == ALLOC_NOWAIT || ++tries > ALLOC_TRIES)
			return -ENOMEM;
		if (effort == ALLOC_LIGHT) {
			effort = ALLOC_NOWAIT;
			if (reclaim_lightly(cache, 1ull << order) < 1ull << order)
				return -ENOMEM;
		} else if (!reclaim_wait(cache, order)) {
			return -ENOMEM;
		}
	}
	env_charge(ENV_COST_FOLIO_CREATE, 1);
	folio->index = index;
	if (mapping->a_ops->init_folio) {
		int err = mapping->a_ops->init_folio(mapping, folio);

		if (err) {
			folio_unlock_put(folio);
			return err;
		}
		if (folio->block_state)
			counter_add(&cache->stats.state_bytes, *(uint32_t *)folio->block_state);
	}
	*result = folio;
	return 0;
}

int filemap_add_folio(struct address_space *mapping, struct folio *folio, uint64_t index)
{
	struct page_cache *cache = mapping->cache;
	unsigned int order = folio_order(folio);
	int err;

	assert(folio_is_locked(folio));
	folio->index = index;
	__atomic_store_n(&folio->mapping, mapping, __ATOMIC_RELAXED);
	folio_get(folio);
	env_mutex_lock(&mapping->lock);
	env_charge(ENV_COST_MAPPING_LOCK, 1);
	err = index_insert(&mapping->index_root, index, order, folio, &cache->index_memory);
	if (likely(!err)) {
		mapping->nr_pages += 1ull << order;
		if (unlikely(cache->trace_insert != NULL))
			cache->trace_insert(cache->trace_arg, mapping->host, index, order);
	}
	env_mutex_unlock(&mapping->lock);
	if (unlikely(err)) {
		__atomic_store_n(&folio->mapping, NULL, __ATOMIC_RELAXED);
		folio_put(folio);
		return err;
	}
	counter_add(&cache->nr_cached, 1ull << order);
	counter_add(&cache->stats.folios_created[order], 1);
	reclaim_add(folio);
	return 0;
}

/* Make a locked folio for page index: 0, -EEXIST (look again), -ENOMEM. */
static int filemap_create(struct address_space *mapping, uint64_t index, unsigned int flags,
			  struct folio **result)
{
	unsigned int order = creation_order(mapping, &index, flags >> FGP_ORDER_SHIFT);
	struct folio *folio = NULL;
	int err;

	order = order_without_overlap(mapping, index, order);
	for (;;) {
		err = filemap_alloc_folio(mapping, index, order,
					  flags & FGP_NOWAIT ? ALLOC_NOWAIT : ALLOC_WAIT, &folio);
		if (!err) {
			if (flags & FGP_DONTCACHE)
				folio_set(folio, FOLIO_DROPBEHIND);
			err = filemap_add_folio(mapping, folio, index);
			if (!err)
				break;
			folio_unlock_put(folio);
		}
		if (order == mapping->min_order)
			return err;
		order--;
	}
	*result = folio;
	return 0;
}

int filemap_get_folio(struct address_space *mapping, uint64_t index, unsigned int flags,
		      struct folio **result)
{
	struct folio *folio;
	bool busy = false;
	int err;

repeat:
	if (flags & FGP_LOCK)
		folio = filemap_lookup_lock(mapping, index, flags & FGP_NOWAIT, &busy);
	else
		folio = filemap_lookup(mapping, index);
	if (unlikely(busy))
		return -EAGAIN;
	if (unlikely(!folio)) {
		if (!(flags & FGP_CREAT))
			return -ENOENT;
		err = filemap_create(mapping, index, flags, &folio);
		if (err == -EEXIST)
			goto repeat;
		if (err)
			return err == -ENOMEM && (flags & FGP_NOWAIT) ? -EAGAIN : err;
		if (!(flags & FGP_LOCK))
			folio_unlock(folio);
		*result = folio;
		return 0;
	}
	if (flags & FGP_ACCESSED && !folio_test(folio, FOLIO_REFERENCED))
		folio_set(folio, FOLIO_REFERENCED);
	if (unlikely(folio_test(folio, FOLIO_DROPBEHIND)) && !(flags & FGP_DONTCACHE))
		folio_clear(folio, FOLIO_DROPBEHIND);
	if ((flags & FGP_STABLE) && unlikely(mapping->stable_writes) &&
	    folio_test(folio, FOLIO_WRITEBACK)) {
		if (flags & FGP_NOWAIT) {
			if (flags & FGP_LOCK)
				folio_unlock(folio);
			folio_put(folio);
			return -EAGAIN;
		}
		folio_wait_writeback(folio);
	}
	*result = folio;
	return 0;
}

/* ---- remove ------------------------------------------------------------------------- */

/* => mapping->lock is held */
static void filemap_unlink(struct address_space *mapping, struct folio *folio)
{
	unsigned int order = folio_order(folio);

	index_remove(&mapping->index_root, folio->index, order, &mapping->cache->index_memory);
	mapping->nr_pages -= 1ull << order;
	counter_sub(&mapping->cache->nr_cached, 1ull << order);
	__atomic_store_n(&folio->mapping, NULL, __ATOMIC_RELEASE);
}

void filemap_remove_folio(struct folio *folio)
{
	struct address_space *mapping = folio->mapping;

	assert(folio_is_locked(folio));
	assert(!folio_test(folio, FOLIO_WRITEBACK));
	folio_cancel_dirty(folio);
	env_mutex_lock(&mapping->lock);
	filemap_unlink(mapping, folio);
	env_mutex_unlock(&mapping->lock);
	folio_put(folio);
}

bool filemap_evict_folio(struct folio *folio)
{
	struct address_space *mapping = folio->mapping;
	uint64_t state;
	bool frozen = false;

	assert(folio_is_locked(folio));
	if (folio_test(folio, FOLIO_DIRTY | FOLIO_WRITEBACK))
		return false;
	if (folio_ref_count(folio) != 2)
		return false;
	if (mapping->a_ops->release_folio && !mapping->a_ops->release_folio(folio))
		return false;
	env_mutex_lock(&mapping->lock);
	/*
	 * The index's reference and the caller's, and not dirty: decided in one step, together
	 * with giving up the index's reference, so that a look-up either came before or sees
	 * that the folio is gone.
	 */
	state = folio_state(folio);
	while (state >> 32 == 2 && !(state & (FOLIO_DIRTY | FOLIO_WRITEBACK)) && !frozen)
		frozen = __atomic_compare_exchange_n(&folio->state, &state, state - FOLIO_REF_ONE,
						     false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
	if (frozen)
		filemap_unlink(mapping, folio);
	env_mutex_unlock(&mapping->lock);
	return frozen;
}

/* ---- batches ------------------------------------------------------------------------ */

static enum index_mark mark_of(enum filemap_tag tag)
{
	switch (tag) {
	case FILEMAP_DIRTY:
		return INDEX_DIRTY;
	case FILEMAP_TOWRITE:
		return INDEX_TOWRITE;
	case FILEMAP_WRITEBACK:
		return INDEX_WRITEBACK;
	case FILEMAP_ANY:
		break;
	}
	return INDEX_NO_MARK;
}

unsigned int filemap_get_folios(struct address_space *mapping, uint64_t *start, uint64_t end,
				enum filemap_tag tag, struct folio_batch *batch)
{
	void *const *slot;
	struct folio *folio;
	uint64_t index;

	batch->nr = 0;
	env_rcu_read_lock();
	while (batch->nr < FOLIO_BATCH_SIZE && *start <= end) {
		index = *start;
		folio = index_find(&mapping->index_root, &index, end, mark_of(tag), &slot);
		if (!folio)
			break;
		env_switch_point_at("lookup: found");
		if (!folio_try_get(folio)) {
			env_switch_point();
			continue;
		}
		env_switch_point_at("lookup: referenced");
		if (unlikely(index_reload(slot) != folio)) {
			env_rcu_read_unlock();
			folio_put(folio);
			env_rcu_read_lock();
			continue;
		}
		batch->folios[batch->nr++] = folio;
		*start = folio->index + folio_nr_pages(folio);
	}
	env_rcu_read_unlock();
	return batch->nr;
}

void filemap_release_folios(struct folio_batch *batch)
{
	for (unsigned int i = 0; i < batch->nr; i++)
		folio_put(batch->folios[i]);
	batch->nr = 0;
}

bool filemap_range_needs_writeback(struct address_space *mapping, uint64_t pos, uint64_t end)
{
	uint64_t index = pos >> mapping->page_shift;
	struct folio_batch batch;
	bool found = false;

	while (!found && filemap_get_folios(mapping, &index, end >> mapping->page_shift,
					    FILEMAP_ANY, &batch)) {
		for (unsigned int i = 0; i < batch.nr; i++)
			found |= folio_test(batch.folios[i],
					    FOLIO_DIRTY | FOLIO_WRITEBACK | FOLIO_LOCKED);
		filemap_release_folios(&batch);
	}
	return found;
}

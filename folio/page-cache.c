/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * page-cache.c - make and destroy a cache; its limits and figures
 */
#include <iomap/page_cache.h>

#include "folio/counters.h"
#include "folio/internal.h"
#include "folio/ioend-size.h"

#define LARGEST_FOLIO (2u << 20)

static bool is_power_of_two(uint64_t value)
{
	return value && !(value & (value - 1));
}

void page_cache_config_init(struct page_cache_config *config)
{
	*config = (struct page_cache_config){
		.capacity = 1ull << 30,
		.page_size = 4096,
		.max_folio = 0,
		.dirty_tracking = DIRTY_TRACKING_BLOCK,
		.order_hint = true,
		.prefault = true,
		.dirty_ratio = 20,
		.dirty_background_ratio = 10,
		.writeback_interval_ns = 5000000000ull,
		.dirty_expire_ns = 30000000000ull,
		.readahead_bytes = 128 << 10,
	};
}

static int config_check(const struct page_cache_config *config)
{
	if (!is_power_of_two(config->page_size) || config->page_size < 4096 ||
	    config->page_size > 65536)
		return -EINVAL;
	if (config->max_folio &&
	    (!is_power_of_two(config->max_folio) || config->max_folio < config->page_size ||
	     config->max_folio > LARGEST_FOLIO))
		return -EINVAL;
	if (config->capacity < LARGEST_FOLIO)
		return -EINVAL;
	if (config->dirty_ratio > 100 || config->dirty_background_ratio > 100)
		return -EINVAL;
	if ((unsigned int)config->dirty_accounting > DIRTY_ACCOUNT_BLOCK)
		return -EINVAL;
	return 0;
}

static int cache_init_memory(struct page_cache *cache)
{
	const struct page_cache_config *config = &cache->config;
	uint64_t size = config->capacity & ~(uint64_t)(LARGEST_FOLIO - 1);
	uint32_t run_order = (uint32_t)__builtin_ctz(LARGEST_FOLIO) - cache->page_shift;
	int err;

	err = buddy_init(&cache->buddy, size, cache->page_shift, run_order, config->prefault);
	if (err)
		return err;
	err = pool_init(&cache->ioend_pool, IOMAP_IOEND_SIZE, 16, 1024);
	if (err)
		buddy_destroy(&cache->buddy);
	return err;
}

int page_cache_create(struct page_cache **result, const struct page_cache_config *config)
{
	struct page_cache *cache;
	int err;

	err = config_check(config);
	if (err)
		return err;
	cache = env_zalloc(sizeof(*cache));
	if (!cache)
		return -ENOMEM;
	cache->config = *config;
	cache->page_shift = (uint32_t)__builtin_ctz(config->page_size);
	cache->max_order =
		(uint32_t)__builtin_ctz(config->max_folio ? config->max_folio : LARGEST_FOLIO) -
		cache->page_shift;
	cache->nr_cpus = env_nr_cpus();
	cache->aged_ns = env_clock_ns();
	cache->limited_ns = cache->aged_ns;
	env_spin_init(&cache->folio_lock, "cache->folio_lock");
	env_mutex_init(&cache->bdi_lock, "cache->bdi_lock");
	env_waitq_init(&cache->memory_wait);
	env_waitq_init(&cache->dirty_wait);
	list_init(&cache->bdis);
	reclaim_init(cache);
	err = cache_init_memory(cache);
	if (err) {
		env_free(cache);
		return err;
	}
	dirty_limits_init(cache);
	*result = cache;
	return 0;
}

void page_cache_destroy(struct page_cache *cache)
{
	assert(list_empty(&cache->bdis));
	assert(cache->nr_folios == 0);
	assert(cache->nr_dirty == 0);
	assert(cache->nr_writeback == 0);
	assert(cache->dirty_bytes == 0);
	assert(cache->writeback_bytes == 0);
	env_rcu_barrier();
	assert(counter_read(&cache->index_memory.bytes) == 0);
	while (cache->chunks) {
		struct folio_chunk *chunk = cache->chunks;

		cache->chunks = chunk->next;
		env_arena_unmap(chunk, chunk->size);
	}
	pool_destroy(&cache->ioend_pool);
	buddy_destroy(&cache->buddy);
	env_free(cache);
}

uint32_t page_cache_page_size(const struct page_cache *cache)
{
	return cache->config.page_size;
}

const struct page_cache_config *page_cache_get_config(const struct page_cache *cache)
{
	return &cache->config;
}

void page_cache_get_stats(struct page_cache *cache, struct page_cache_stats *stats)
{
#define X(name, text) stats->name = counter_read(&cache->stats.name);
	PAGE_CACHE_STATS(X)
#undef X
	for (unsigned int order = 0; order < PAGE_CACHE_ORDERS; order++)
		stats->folios_created[order] = counter_read(&cache->stats.folios_created[order]);
	stats->nr_dirty = counter_read(&cache->nr_dirty);
	stats->nr_writeback = counter_read(&cache->nr_writeback);
	stats->nr_cached = counter_read(&cache->nr_cached);
	stats->nr_free = counter_read(&cache->buddy.nr_free);
	stats->index_bytes = counter_read(&cache->index_memory.bytes);
	stats->buddy_bytes = cache->buddy.nr_pages;
	env_mutex_lock(&cache->folio_lock);
	stats->folio_bytes = cache->nr_folios * sizeof(struct folio);
	env_mutex_unlock(&cache->folio_lock);
}

void page_cache_trace_insert(struct page_cache *cache,
			     void (*fn)(void *arg, const struct inode *inode, uint64_t index,
					unsigned int order),
			     void *arg)
{
	cache->trace_arg = arg;
	__atomic_store_n(&cache->trace_insert, fn, __ATOMIC_RELEASE);
}

uint64_t page_cache_drop(struct page_cache *cache)
{
	uint64_t total = 0;
	uint64_t freed;

	do {
		freed = reclaim_pages(cache, UINT64_MAX);
		total += freed;
	} while (freed);
	return total;
}

void page_cache_fail_alloc(struct page_cache *cache, unsigned int min_order, unsigned int count)
{
	buddy_fail(&cache->buddy, min_order, count);
}

uint64_t page_cache_fragment(struct page_cache *cache, unsigned int order)
{
	return buddy_fragment(&cache->buddy, order);
}

void page_cache_defragment(struct page_cache *cache)
{
	buddy_defragment(&cache->buddy);
}

void *page_cache_ioend_get(struct page_cache *cache)
{
	return pool_get(&cache->ioend_pool);
}

void page_cache_ioend_put(struct page_cache *cache, void *ioend)
{
	pool_put(&cache->ioend_pool, ioend);
}

void page_cache_count_filled(struct page_cache *cache, uint64_t bytes)
{
	counter_add(&cache->stats.fill_bytes, bytes);
}

void page_cache_count_read(struct page_cache *cache, uint64_t bytes)
{
	counter_add(&cache->stats.read_bytes, bytes);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * page_cache.h - a page cache: its memory, its limits, its figures
 *
 *	struct page_cache_config config;
 *	struct page_cache *cache;
 *
 *	page_cache_config_init(&config);
 *	config.capacity = 1 << 30;
 *	err = page_cache_create(&cache, &config);
 *	... mount file systems over it ...
 *	page_cache_destroy(cache);
 *
 * There are no globals: several caches can live in one process, with different page sizes.
 */
#ifndef IOMAP_PAGE_CACHE_H
#define IOMAP_PAGE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct page_cache;

/* What one dirty byte makes dirty for writeback. */
enum dirty_tracking {
	DIRTY_TRACKING_BLOCK, /* its block (since Linux 6.6) */
	DIRTY_TRACKING_FOLIO, /* every uptodate block of its folio (before) */
};

/* What the dirty limits count of a folio with a dirty block (W57). */
enum dirty_accounting {
	DIRTY_ACCOUNT_FOLIO, /* all of it (K1) */
	DIRTY_ACCOUNT_BLOCK, /* its dirty blocks */
};

/* The largest folio a cache of 4 KiB pages can have: 2^9 pages. */
#define PAGE_CACHE_MAX_ORDER 9

struct page_cache_config {
	uint64_t capacity; /* bytes of folio memory; rounded down to 2 MiB; at least 2 MiB */
	uint32_t page_size; /* power of two, 4096 .. 65536 */
	uint32_t max_folio; /* bytes, power of two, page_size .. 2 MiB; 0: 2 MiB (J1) */
	enum dirty_tracking dirty_tracking;
	enum dirty_accounting dirty_accounting;
	bool order_hint; /* off: writes make folios of the minimum order only (J3) */
	bool prefault; /* touch the memory once at creation */

	/* Dirty limits (K18): a value in bytes that is not 0 wins over the percentage. */
	uint32_t dirty_ratio; /* % of capacity */
	uint32_t dirty_background_ratio;
	uint64_t dirty_bytes;
	uint64_t dirty_background_bytes;
	uint64_t writeback_interval_ns; /* periodic writeback (K8); 0: off */
	uint64_t dirty_expire_ns; /* age at which periodic writeback takes an inode */
	uint32_t readahead_bytes; /* limit of a readahead window (E12) */
};

/* The defaults of the specification. */
void page_cache_config_init(struct page_cache_config *config);

/* 0; -EINVAL for a value out of range; -ENOMEM. */
int page_cache_create(struct page_cache **cache, const struct page_cache_config *config);

/*
 * Every file system over it is unmounted, their backing devices are destroyed, and then the
 * block devices: a device's thread may still be on its way out of a completion.
 */
void page_cache_destroy(struct page_cache *cache);

uint32_t page_cache_page_size(const struct page_cache *cache);
const struct page_cache_config *page_cache_get_config(const struct page_cache *cache);

/*
 * Change the dirty limits of a running cache, both in % of its capacity or both in bytes; one
 * form clears the other (K18).  A lower limit comes step by step, and never below what is dirty.
 * 0, or -EINVAL for more than 100 % or for 0 bytes.
 */
int page_cache_set_dirty_ratio(struct page_cache *cache, uint32_t ratio, uint32_t background);
int page_cache_set_dirty_bytes(struct page_cache *cache, uint64_t bytes, uint64_t background);

#define PAGE_CACHE_ORDERS 21

/*
 * X(name, text): a cumulative figure (C) or a level (L).  This list makes the struct, the
 * report and the documentation.
 */
#define PAGE_CACHE_STATS(X)                                                                        \
	X(dirtied_bytes, "bytes of blocks that went from clean to dirty")                          \
	X(fill_bytes, "bytes read to complete partly written blocks")                              \
	X(read_bytes, "bytes read from the device into the cache otherwise")                       \
	X(nr_dirty, "dirty pages now (pages of folios)")                                           \
	X(nr_writeback, "pages under writeback now")                                               \
	X(nr_cached, "pages in the cache now")                                                     \
	X(nr_free, "pages free now")                                                               \
	X(nr_reclaimed, "pages evicted")                                                           \
	X(nr_throttled, "sleeps of writers for the dirty limits")                                  \
	X(throttled_ns, "time writers slept for the dirty limits")                                 \
	X(folio_bytes, "memory of folio descriptors now")                                          \
	X(index_bytes, "memory of index nodes now")                                                \
	X(state_bytes, "memory of per-block state now")                                            \
	X(buddy_bytes, "memory of the page allocator's own map")

struct page_cache_stats {
#define X(name, text) uint64_t name;
	PAGE_CACHE_STATS(X)
#undef X
	uint64_t folios_created[PAGE_CACHE_ORDERS]; /* by order */
};

void page_cache_get_stats(struct page_cache *cache, struct page_cache_stats *stats);

/*
 * Called for each folio that is put into the cache, in order, with the lock of its mapping
 * held (so it must be quick and must not call the library).  NULL: no longer.
 */
struct inode;
void page_cache_trace_insert(struct page_cache *cache,
			     void (*fn)(void *arg, const struct inode *inode, uint64_t index,
					unsigned int order),
			     void *arg);

/* Evict every clean folio that nobody uses; returns pages freed. */
uint64_t page_cache_drop(struct page_cache *cache);

/* Test hook: the next `count` folio allocations of at least min_order fail (0: none). */
void page_cache_fail_alloc(struct page_cache *cache, unsigned int min_order, unsigned int count);

/*
 * Test hook: take free pages so that no free run is larger than 2^order pages; undone by
 * page_cache_defragment().  Returns pages taken.
 */
uint64_t page_cache_fragment(struct page_cache *cache, unsigned int order);
void page_cache_defragment(struct page_cache *cache);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

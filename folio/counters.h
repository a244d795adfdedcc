/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * counters.h - the cache's figures that only the layer above can count
 */
#ifndef FOLIO_COUNTERS_H
#define FOLIO_COUNTERS_H

#include <stdint.h>

struct page_cache;

void page_cache_count_dirtied(struct page_cache *cache, uint64_t bytes);
void page_cache_count_filled(struct page_cache *cache, uint64_t bytes);
void page_cache_count_read(struct page_cache *cache, uint64_t bytes);

#endif

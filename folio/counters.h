/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * counters.h - the cache's figures that only the layer above can count
 */
#ifndef FOLIO_COUNTERS_H
#define FOLIO_COUNTERS_H

#include <stdint.h>

struct folio;
struct page_cache;

/* Blocks of so many bytes went from clean to dirty; the folio's flag follows.  => folio lock */
void folio_count_dirtied(struct folio *folio, uint64_t bytes);
void page_cache_count_filled(struct page_cache *cache, uint64_t bytes);
void page_cache_count_read(struct page_cache *cache, uint64_t bytes);

#endif

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * ioend-size.h - the object size of the cache's ioend pool
 *
 * The pool belongs to the cache, what is in it to iomap/, which asserts that an ioend fits.
 */
#ifndef FOLIO_IOEND_SIZE_H
#define FOLIO_IOEND_SIZE_H

#include <stddef.h>

struct page_cache;

#define IOMAP_IOEND_SIZE 512

void *page_cache_ioend_get(struct page_cache *cache);
void page_cache_ioend_put(struct page_cache *cache, void *ioend);

#endif

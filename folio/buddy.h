/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * buddy.h - the page allocator of one cache: power-of-two runs of pages from one arena
 */
#ifndef FOLIO_BUDDY_H
#define FOLIO_BUDDY_H

#include <stdbool.h>
#include <stdint.h>
#include <iomap/env.h>
#include <iomap/list.h>

#define BUDDY_ORDERS 10

struct buddy {
	struct env_mutex lock;
	unsigned char *arena; /* [I] aligned to the largest run */
	uint64_t size; /* [I] bytes, whole largest runs */
	uint32_t page_shift; /* [I] log2 of the page size */
	uint32_t max_order; /* [I] < BUDDY_ORDERS */
	uint64_t nr_pages; /* [I] */
	uint64_t nr_free; /* [lock, read without] pages */
	struct list_head free[BUDDY_ORDERS]; /* [lock] links live in the free runs themselves */
	unsigned char *map; /* [lock] a byte a page: free order + 1 at the head of a free run */
	uint32_t fail_min_order; /* [lock] test hook */
	uint32_t fail_count; /* [lock, read without] */
	struct list_head taken; /* [lock] runs held by buddy_fragment() */
};

/* 0; -ENOMEM.  size: whole runs of the largest order. */
int buddy_init(struct buddy *buddy, uint64_t size, uint32_t page_shift, uint32_t max_order,
	       bool prefault);
void buddy_destroy(struct buddy *buddy);
/* A run of 2^order pages, naturally aligned in the arena; NULL if there is none. */
void *buddy_alloc(struct buddy *buddy, unsigned int order);
void buddy_free(struct buddy *buddy, void *run, unsigned int order);
/* Is there one now?  Somebody else may take it first. */
bool buddy_has(struct buddy *buddy, unsigned int order);
/* Test hooks, see page_cache.h. */
void buddy_fail(struct buddy *buddy, unsigned int min_order, unsigned int count);
uint64_t buddy_fragment(struct buddy *buddy, unsigned int order);
void buddy_defragment(struct buddy *buddy);
/* For assertions: free runs disjoint, maximal (no two free buddies), counts right. */
bool buddy_ok(struct buddy *buddy);

#endif

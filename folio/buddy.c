/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * buddy.c - power-of-two runs of pages, split when they are too large, merged when both are free
 *
 * The arena starts as runs of the largest order that nobody has touched.  They are marked
 * fresh in the map and are on no list, so that memory which is never needed is never
 * written to: the links of a free run live in the run.  Fresh runs are taken by rising
 * address and only when the lists have none; so the fresh ones are always the end of the
 * arena.
 *
 *	map:	| 0 | o+1 | 0 ... | 0 | o+1 | 0 ... | FRESH | 0 ... | FRESH | 0 ...
 *		 used free run     used free run     never used
 */
#include "folio/buddy.h"

#include <assert.h>
#include <errno.h>

#define FRESH 0xff

static_assert(BUDDY_ORDERS < FRESH, "a free order + 1 is not FRESH");

static inline struct list_head *run_at(const struct buddy *buddy, uint64_t page)
{
	return (struct list_head *)(void *)(buddy->arena + (page << buddy->page_shift));
}

static inline uint64_t run_page(const struct buddy *buddy, const void *run)
{
	return (uint64_t)((const unsigned char *)run - buddy->arena) >> buddy->page_shift;
}

static inline void nr_free_set(struct buddy *buddy, uint64_t nr_free)
{
	__atomic_store_n(&buddy->nr_free, nr_free, __ATOMIC_RELAXED);
}

/* ---- lists and map ---- */

/* The run used last is taken first: its lines are still in the CPU's cache. */
static inline void run_list(struct buddy *buddy, uint64_t page, unsigned int order)
{
	buddy->map[page] = (unsigned char)(order + 1);
	list_add(run_at(buddy, page), &buddy->free[order]);
}

static inline void run_unlist(struct buddy *buddy, uint64_t page)
{
	struct list_head *run = run_at(buddy, page);

	buddy->map[page] = 0;
	run->next->prev = run->prev;
	run->prev->next = run->next;
}

/*
 * The first fresh run, found by halving.  At most once for each run of the arena.
 *
 * => returns nr_pages if there is none
 */
static uint64_t fresh_page(const struct buddy *buddy)
{
	unsigned int order = buddy->max_order;
	uint64_t begin = 0;
	uint64_t end = buddy->nr_pages >> order;

	if (env_likely(buddy->map[(end - 1) << order] != FRESH))
		return buddy->nr_pages;
	while (begin < end) {
		uint64_t middle = begin + (end - begin) / 2;

		if (buddy->map[middle << order] == FRESH)
			end = middle;
		else
			begin = middle + 1;
	}
	return begin << order;
}

/* => lock is held */
static void *run_take(struct buddy *buddy, unsigned int order)
{
	unsigned int from = order;
	uint64_t page;

	while (from <= buddy->max_order && list_empty(&buddy->free[from]))
		from++;
	if (env_likely(from <= buddy->max_order)) {
		page = run_page(buddy, buddy->free[from].next);
		run_unlist(buddy, page);
	} else if (order > buddy->max_order) {
		return NULL;
	} else {
		page = fresh_page(buddy);
		if (page == buddy->nr_pages)
			return NULL;
		buddy->map[page] = 0;
		from = buddy->max_order;
	}

	while (from > order) {
		from--;
		run_list(buddy, page + (1ull << from), from);
	}
	nr_free_set(buddy, buddy->nr_free - (1ull << order));
	return run_at(buddy, page);
}

/* => lock is held */
static void run_give(struct buddy *buddy, uint64_t page, unsigned int order)
{
	nr_free_set(buddy, buddy->nr_free + (1ull << order));
	while (order < buddy->max_order) {
		uint64_t other = page ^ (1ull << order);

		if (buddy->map[other] != order + 1)
			break;
		run_unlist(buddy, other);
		page &= ~(1ull << order);
		order++;
	}
	run_list(buddy, page, order);
}

/* ---- life ---- */

int buddy_init(struct buddy *buddy, uint64_t size, uint32_t page_shift, uint32_t max_order,
	       bool prefault)
{
	uint64_t run_size = 1ull << (page_shift + max_order);

	assert(max_order < BUDDY_ORDERS);
	assert(page_shift < 32 && 1ull << page_shift >= sizeof(struct list_head));
	assert(size > 0 && size % run_size == 0);

	*buddy = (struct buddy){
		.size = size,
		.page_shift = page_shift,
		.max_order = max_order,
		.nr_pages = size >> page_shift,
		.nr_free = size >> page_shift,
	};
	env_spin_init(&buddy->lock, "buddy lock");
	for (unsigned int order = 0; order < BUDDY_ORDERS; order++)
		list_init(&buddy->free[order]);
	list_init(&buddy->taken);

	buddy->map = env_zalloc(buddy->nr_pages);
	if (!buddy->map)
		return -ENOMEM;
	for (uint64_t page = 0; page < buddy->nr_pages; page += 1ull << max_order)
		buddy->map[page] = FRESH;

	buddy->arena = env_arena_map(size, run_size, prefault);
	if (!buddy->arena)
		goto free_map;
	return 0;

free_map:
	env_free(buddy->map);
	buddy->map = NULL;
	return -ENOMEM;
}

void buddy_destroy(struct buddy *buddy)
{
	env_arena_unmap(buddy->arena, buddy->size);
	env_free(buddy->map);
	buddy->arena = NULL;
	buddy->map = NULL;
}

/* ---- alloc and free ---- */

bool buddy_has(struct buddy *buddy, unsigned int order)
{
	bool found;

	assert(order <= buddy->max_order);
	env_mutex_lock(&buddy->lock);
	while (order <= buddy->max_order && list_empty(&buddy->free[order]))
		order++;
	found = order <= buddy->max_order || fresh_page(buddy) < buddy->nr_pages;
	env_mutex_unlock(&buddy->lock);
	return found;
}

/* Does the test hook want this allocation to fail? */
static bool alloc_must_fail(struct buddy *buddy, unsigned int order)
{
	bool fail;

	env_mutex_lock(&buddy->lock);
	fail = buddy->fail_count > 0 && order >= buddy->fail_min_order;
	if (fail)
		__atomic_store_n(&buddy->fail_count, buddy->fail_count - 1, __ATOMIC_RELAXED);
	env_mutex_unlock(&buddy->lock);
	return fail;
}

void *buddy_alloc(struct buddy *buddy, unsigned int order)
{
	void *run;

	if (env_unlikely(__atomic_load_n(&buddy->fail_count, __ATOMIC_RELAXED)) &&
	    alloc_must_fail(buddy, order))
		return NULL;

	env_mutex_lock(&buddy->lock);
	run = run_take(buddy, order);
	env_mutex_unlock(&buddy->lock);
	return run;
}

void buddy_free(struct buddy *buddy, void *run, unsigned int order)
{
	uint64_t page = run_page(buddy, run);

	assert(order <= buddy->max_order);
	assert(page < buddy->nr_pages);
	assert(run == run_at(buddy, page));
	assert((page & ((1ull << order) - 1)) == 0);

	env_mutex_lock(&buddy->lock);
	/* Not free already. */
	assert(buddy->map[page] == 0);
	run_give(buddy, page, order);
	env_mutex_unlock(&buddy->lock);
}

/* ---- test hooks ---- */

void buddy_fail(struct buddy *buddy, unsigned int min_order, unsigned int count)
{
	env_mutex_lock(&buddy->lock);
	buddy->fail_min_order = min_order;
	__atomic_store_n(&buddy->fail_count, count, __ATOMIC_RELAXED);
	env_mutex_unlock(&buddy->lock);
}

/*
 * One page of each run that is too large keeps the rest from merging; for order 2:
 *
 *	page:	| 0 | 1 | 2   3 | 4   5   6   7 |
 *		taken o0   o1          o2
 */
uint64_t buddy_fragment(struct buddy *buddy, unsigned int order)
{
	uint64_t nr_taken = 0;
	struct list_head *run;

	if (order >= buddy->max_order)
		return 0;

	env_mutex_lock(&buddy->lock);
	while ((run = run_take(buddy, order + 1)) != NULL) {
		uint64_t page = run_page(buddy, run);

		for (unsigned int o = 0; o <= order; o++)
			run_give(buddy, page + (1ull << o), o);
		list_add(run, &buddy->taken);
		nr_taken++;
	}
	env_mutex_unlock(&buddy->lock);
	return nr_taken;
}

void buddy_defragment(struct buddy *buddy)
{
	env_mutex_lock(&buddy->lock);
	while (!list_empty(&buddy->taken)) {
		struct list_head *run = buddy->taken.next;

		list_del_init(run);
		run_give(buddy, run_page(buddy, run), 0);
	}
	env_mutex_unlock(&buddy->lock);
}

/* ---- what must be true ---- */

/* Each run on a list is aligned and is in the map with that order. */
static bool lists_ok(const struct buddy *buddy, uint64_t *nr_listed)
{
	*nr_listed = 0;
	for (unsigned int order = 0; order < BUDDY_ORDERS; order++) {
		const struct list_head *head = &buddy->free[order];

		for (const struct list_head *run = head->next; run != head; run = run->next) {
			uint64_t page = run_page(buddy, run);

			if (page >= buddy->nr_pages || run != run_at(buddy, page))
				return false;
			if (order > buddy->max_order || buddy->map[page] != order + 1)
				return false;
			if (run->next->prev != run || run->prev->next != run)
				return false;
			*nr_listed += 1ull << order;
		}
	}
	return true;
}

/* Is the free run at page aligned, alone in its pages, and used its buddy? */
static bool run_ok(const struct buddy *buddy, uint64_t page, unsigned int order)
{
	if (order > buddy->max_order || (page & ((1ull << order) - 1)) != 0)
		return false;
	for (uint64_t i = 1; i < 1ull << order; i++)
		if (buddy->map[page + i] != 0)
			return false;
	return order == buddy->max_order || buddy->map[page ^ (1ull << order)] != order + 1;
}

/* Runs of the map are as they should be, and after a fresh one there are only fresh ones. */
static bool map_ok(const struct buddy *buddy, uint64_t *nr_listed, uint64_t *nr_fresh)
{
	uint64_t page = 0;

	*nr_listed = 0;
	*nr_fresh = 0;
	while (page < buddy->nr_pages) {
		bool fresh = buddy->map[page] == FRESH;
		unsigned int order = fresh ? buddy->max_order : buddy->map[page] - 1u;

		if (*nr_fresh && !fresh)
			return false;
		if (!buddy->map[page]) {
			page++;
			continue;
		}
		if (!run_ok(buddy, page, order))
			return false;
		*(fresh ? nr_fresh : nr_listed) += 1ull << order;
		page += 1ull << order;
	}
	return true;
}

bool buddy_ok(struct buddy *buddy)
{
	uint64_t nr_on_lists, nr_in_map, nr_fresh;
	bool ok;

	env_mutex_lock(&buddy->lock);
	ok = lists_ok(buddy, &nr_on_lists) && map_ok(buddy, &nr_in_map, &nr_fresh) &&
	     nr_on_lists == nr_in_map && nr_in_map + nr_fresh == buddy->nr_free;
	env_mutex_unlock(&buddy->lock);
	return ok;
}

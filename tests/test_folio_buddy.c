/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_folio_buddy.c - the page allocator: runs are disjoint, aligned and merge again
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <iomap/env.h>
#include "folio/buddy.h"

#define PAGE_SHIFT 12
#define MAX_ORDER  9
#define RUN_PAGES  (1u << MAX_ORDER)
#define RUN_SIZE   (1ul << (PAGE_SHIFT + MAX_ORDER))

static void buddy_open(struct buddy *buddy, unsigned int nr_runs)
{
	cr_assert_eq(buddy_init(buddy, nr_runs * RUN_SIZE, PAGE_SHIFT, MAX_ORDER, false), 0);
	cr_assert(buddy_ok(buddy));
}

/* Everything was given back, and has merged. */
static void buddy_close(struct buddy *buddy, unsigned int nr_runs)
{
	cr_assert(buddy_ok(buddy));
	cr_assert_eq(buddy->nr_free, buddy->nr_pages);
	for (unsigned int i = 0; i < nr_runs; i++)
		cr_assert_not_null(buddy_alloc(buddy, MAX_ORDER));
	cr_assert_null(buddy_alloc(buddy, 0));
	buddy_destroy(buddy);
}

Test(buddy, runs_are_naturally_aligned)
{
	struct buddy buddy;
	void *run[MAX_ORDER + 1];

	buddy_open(&buddy, 2);
	for (unsigned int order = 0; order <= MAX_ORDER; order++) {
		run[order] = buddy_alloc(&buddy, order);
		cr_assert_not_null(run[order]);
		cr_assert_eq((uintptr_t)run[order] & ((1ul << (PAGE_SHIFT + order)) - 1), 0);
	}
	for (unsigned int order = 0; order <= MAX_ORDER; order++)
		buddy_free(&buddy, run[order], order);
	buddy_close(&buddy, 2);
}

Test(buddy, every_page_can_be_had)
{
	static unsigned char *page[2 * RUN_PAGES];
	struct buddy buddy;

	buddy_open(&buddy, 2);
	for (unsigned int i = 0; i < 2 * RUN_PAGES; i++) {
		page[i] = buddy_alloc(&buddy, 0);
		cr_assert_not_null(page[i]);
		cr_assert(page[i] >= buddy.arena && page[i] < buddy.arena + buddy.size);
		memset(page[i], (int)i & 0xff, 1u << PAGE_SHIFT);
	}
	cr_assert_null(buddy_alloc(&buddy, 0));
	cr_assert_eq(buddy.nr_free, 0);
	cr_assert(buddy_ok(&buddy));
	for (unsigned int i = 0; i < 2 * RUN_PAGES; i++) {
		cr_assert_eq(page[i][0], i & 0xff);
		cr_assert_eq(page[i][(1u << PAGE_SHIFT) - 1], i & 0xff);
		buddy_free(&buddy, page[i], 0);
	}
	buddy_close(&buddy, 2);
}

Test(buddy, an_order_can_be_out_while_lower_ones_are_not)
{
	struct buddy buddy;
	void *page, *run;

	buddy_open(&buddy, 1);
	page = buddy_alloc(&buddy, 0);
	cr_assert_null(buddy_alloc(&buddy, MAX_ORDER));
	run = buddy_alloc(&buddy, MAX_ORDER - 1);
	cr_assert_not_null(run);
	cr_assert_null(buddy_alloc(&buddy, MAX_ORDER - 1));
	buddy_free(&buddy, page, 0);
	buddy_free(&buddy, run, MAX_ORDER - 1);
	buddy_close(&buddy, 1);
}

Test(buddy, an_order_above_the_largest_is_never_there)
{
	struct buddy buddy;

	buddy_open(&buddy, 2);
	cr_assert_null(buddy_alloc(&buddy, MAX_ORDER + 1));
	buddy_close(&buddy, 2);
}

/* Before memory that was never used, what was given back is used again. */
Test(buddy, used_memory_comes_before_fresh)
{
	struct buddy buddy;
	void *run;

	buddy_open(&buddy, 4);
	run = buddy_alloc(&buddy, MAX_ORDER);
	for (unsigned int i = 0; i < 3; i++) {
		buddy_free(&buddy, run, MAX_ORDER);
		cr_assert_eq(buddy_alloc(&buddy, MAX_ORDER), run);
	}
	buddy_free(&buddy, run, MAX_ORDER);
	buddy_close(&buddy, 4);
}

Test(buddy, random_runs_never_overlap)
{
	static struct {
		unsigned char *run;
		unsigned int order;
	} held[256];
	struct env_rng rng;
	struct buddy buddy;

	env_rng_seed(&rng, 1);
	buddy_open(&buddy, 8);
	for (unsigned int step = 0; step < 20000; step++) {
		unsigned int i = (unsigned int)env_rng_below(&rng, 256);

		if (held[i].run) {
			size_t size = (size_t)1 << (PAGE_SHIFT + held[i].order);

			cr_assert_eq(held[i].run[0], (unsigned char)i);
			cr_assert_eq(held[i].run[size - 1], (unsigned char)i);
			buddy_free(&buddy, held[i].run, held[i].order);
			held[i].run = NULL;
		} else {
			held[i].order = (unsigned int)env_rng_below(&rng, MAX_ORDER);
			held[i].run = buddy_alloc(&buddy, held[i].order);
			if (held[i].run) {
				size_t size = (size_t)1 << (PAGE_SHIFT + held[i].order);

				held[i].run[0] = (unsigned char)i;
				held[i].run[size - 1] = (unsigned char)i;
			}
		}
		if (step % 256 == 0)
			cr_assert(buddy_ok(&buddy));
	}
	for (unsigned int i = 0; i < 256; i++)
		if (held[i].run)
			buddy_free(&buddy, held[i].run, held[i].order);
	buddy_close(&buddy, 8);
}

Test(buddy, large_pages_and_a_single_order_work)
{
	struct buddy buddy;
	void *a, *b;

	cr_assert_eq(buddy_init(&buddy, 2u << 16, 16, 0, true), 0);
	a = buddy_alloc(&buddy, 0);
	b = buddy_alloc(&buddy, 0);
	cr_assert(a && b && a != b);
	cr_assert_null(buddy_alloc(&buddy, 0));
	buddy_free(&buddy, a, 0);
	buddy_free(&buddy, b, 0);
	cr_assert(buddy_ok(&buddy));
	buddy_destroy(&buddy);
}

Test(buddy, no_memory_for_the_map_is_an_error)
{
	struct buddy buddy;

	env_alloc_fail(0, 1);
	cr_assert_eq(buddy_init(&buddy, RUN_SIZE, PAGE_SHIFT, MAX_ORDER, false), -ENOMEM);
	cr_assert_eq(env_alloc_fail(0, 0), 1);
}

Test(buddy, the_hook_fails_only_the_orders_asked_for)
{
	struct buddy buddy;
	void *page, *run;

	buddy_open(&buddy, 2);
	buddy_fail(&buddy, 4, 2);
	page = buddy_alloc(&buddy, 3);
	cr_assert_not_null(page);
	cr_assert_null(buddy_alloc(&buddy, 4));
	cr_assert_null(buddy_alloc(&buddy, 5));
	run = buddy_alloc(&buddy, 5);
	cr_assert_not_null(run);
	buddy_free(&buddy, page, 3);
	buddy_free(&buddy, run, 5);
	buddy_close(&buddy, 2);
}

Test(buddy, the_hook_can_be_taken_back)
{
	struct buddy buddy;
	void *page;

	buddy_open(&buddy, 1);
	buddy_fail(&buddy, 0, 100);
	cr_assert_null(buddy_alloc(&buddy, 0));
	buddy_fail(&buddy, 0, 0);
	page = buddy_alloc(&buddy, 0);
	cr_assert_not_null(page);
	buddy_free(&buddy, page, 0);
	buddy_close(&buddy, 1);
}

Test(buddy, a_fragmented_arena_has_no_run_above_the_order)
{
	for (unsigned int order = 0; order < MAX_ORDER; order++) {
		struct buddy buddy;
		uint64_t nr_taken;
		void *run;

		buddy_open(&buddy, 2);
		nr_taken = buddy_fragment(&buddy, order);
		cr_assert_eq(nr_taken, 2 * RUN_PAGES >> (order + 1));
		cr_assert_eq(buddy.nr_free, buddy.nr_pages - nr_taken);
		cr_assert(buddy_ok(&buddy));
		cr_assert_null(buddy_alloc(&buddy, order + 1));
		run = buddy_alloc(&buddy, order);
		cr_assert_not_null(run);
		buddy_free(&buddy, run, order);
		buddy_defragment(&buddy);
		buddy_close(&buddy, 2);
	}
}

Test(buddy, fragmenting_works_around_what_is_in_use)
{
	struct buddy buddy;
	void *run[3];

	buddy_open(&buddy, 2);
	run[0] = buddy_alloc(&buddy, 0);
	run[1] = buddy_alloc(&buddy, 6);
	run[2] = buddy_alloc(&buddy, 3);
	buddy_fragment(&buddy, 2);
	cr_assert(buddy_ok(&buddy));
	cr_assert_null(buddy_alloc(&buddy, 3));
	buddy_free(&buddy, run[1], 6);
	cr_assert_eq(buddy_alloc(&buddy, 6), run[1]);
	buddy_defragment(&buddy);
	buddy_free(&buddy, run[0], 0);
	buddy_free(&buddy, run[1], 6);
	buddy_free(&buddy, run[2], 3);
	buddy_close(&buddy, 2);
}

Test(buddy, fragmenting_to_the_largest_order_takes_nothing)
{
	struct buddy buddy;

	buddy_open(&buddy, 1);
	cr_assert_eq(buddy_fragment(&buddy, MAX_ORDER), 0);
	buddy_close(&buddy, 1);
}

struct worker {
	struct env_thread *thread;
	struct buddy *buddy;
	uint64_t seed;
	uint32_t nr_errors; /* its own until the join */
};

static void worker_run(void *arg)
{
	struct worker *worker = arg;
	struct env_rng rng;

	env_rng_seed(&rng, worker->seed);
	for (unsigned int step = 0; step < 3000; step++) {
		unsigned int order = (unsigned int)env_rng_below(&rng, 6);
		uint64_t *run = buddy_alloc(worker->buddy, order);

		if (!run) {
			worker->nr_errors++;
			continue;
		}
		*run = worker->seed;
		run[(1ul << (PAGE_SHIFT + order)) / sizeof(*run) - 1] = worker->seed;
		if (*run != worker->seed)
			worker->nr_errors++;
		buddy_free(worker->buddy, run, order);
	}
}

Test(buddy, threads_share_it)
{
	struct worker worker[3];
	struct buddy buddy;

	buddy_open(&buddy, 2);
	for (unsigned int i = 0; i < 3; i++) {
		worker[i] = (struct worker){.buddy = &buddy, .seed = i + 1};
		cr_assert_eq(env_thread_create(&worker[i].thread, "worker", worker_run, &worker[i]),
			     0);
	}
	for (unsigned int i = 0; i < 3; i++) {
		env_thread_join(worker[i].thread);
		cr_assert_eq(worker[i].nr_errors, 0);
	}
	buddy_close(&buddy, 2);
}

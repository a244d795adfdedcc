/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_folio_index.c - the index: a map from page numbers to folios, with marks
 *
 * The index never looks into a folio, so these have just a place: struct item.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <iomap/env.h>
#include <iomap/folio.h>
#include "env/rcu.h"
#include "folio/index.h"

/* The number of the last page of the largest file of 4 KiB pages. */
#define LAST_PAGE ((1ull << 52) - 1)

struct item {
	struct folio folio;
	unsigned int order;
	bool marks[INDEX_NR_MARKS];
	bool inserted;
};

struct tree {
	void *root;
	struct index_memory memory;
};

static struct item *item_of(struct folio *folio)
{
	return container_of(folio, struct item, folio);
}

static struct item item_at(uint64_t index, unsigned int order)
{
	return (struct item){.folio.index = index, .order = order};
}

static uint64_t item_nr_pages(const struct item *item)
{
	return 1ull << item->order;
}

static int tree_insert(struct tree *tree, struct item *item)
{
	return index_insert(&tree->root, item->folio.index, item->order, &item->folio,
			    &tree->memory);
}

static void tree_remove(struct tree *tree, struct item *item)
{
	index_remove(&tree->root, item->folio.index, item->order, &tree->memory);
}

static struct folio *tree_load(struct tree *tree, uint64_t index)
{
	return index_load(&tree->root, index, NULL);
}

/* It is empty: it has no node and costs nothing. */
static void tree_close(struct tree *tree)
{
	cr_assert_null(tree->root);
	cr_assert_eq(tree->memory.bytes, 0);
	cr_assert(index_ok(&tree->root));
	env_rcu_barrier();
}

/* ---- single facts ---- */

Test(index, an_empty_tree_has_nothing)
{
	struct tree tree = {0};
	uint64_t index = 0;

	cr_assert_null(tree_load(&tree, 0));
	cr_assert_null(tree_load(&tree, UINT64_MAX));
	cr_assert_null(index_find(&tree.root, &index, UINT64_MAX, INDEX_NO_MARK, NULL));
	cr_assert_not(index_marked(&tree.root, INDEX_DIRTY));
	index_copy_mark(&tree.root, 0, UINT64_MAX, INDEX_DIRTY, INDEX_TOWRITE);
	tree_close(&tree);
}

Test(index, a_folio_is_found_at_each_of_its_pages_and_nowhere_else)
{
	for (unsigned int order = 0; order <= 12; order++) {
		struct tree tree = {0};
		struct item item = item_at(3ull << order, order);
		uint64_t first = item.folio.index;

		cr_assert_eq(tree_insert(&tree, &item), 0);
		cr_assert(index_ok(&tree.root));
		for (uint64_t i = 0; i < item_nr_pages(&item); i++)
			cr_assert_eq(tree_load(&tree, first + i), &item.folio);
		cr_assert_null(tree_load(&tree, first - 1));
		cr_assert_null(tree_load(&tree, first + item_nr_pages(&item)));
		cr_assert_null(tree_load(&tree, 0));
		tree_remove(&tree, &item);
		cr_assert_null(tree_load(&tree, first));
		tree_close(&tree);
	}
}

Test(index, a_folio_at_page_0_is_found_whatever_its_order)
{
	for (unsigned int order = 0; order <= 12; order++) {
		struct tree tree = {0};
		struct item item = item_at(0, order);

		cr_assert_eq(tree_insert(&tree, &item), 0);
		cr_assert(index_ok(&tree.root));
		cr_assert_eq(tree_load(&tree, 0), &item.folio);
		cr_assert_eq(tree_load(&tree, item_nr_pages(&item) - 1), &item.folio);
		cr_assert_null(tree_load(&tree, item_nr_pages(&item)));
		tree_remove(&tree, &item);
		tree_close(&tree);
	}
}

Test(index, a_slot_tells_whether_the_folio_is_still_there)
{
	struct tree tree = {0};
	struct item stays = item_at(0, 0), goes = item_at(5, 0);
	void *const *slot;

	cr_assert_eq(tree_insert(&tree, &stays), 0);
	cr_assert_eq(tree_insert(&tree, &goes), 0);
	cr_assert_eq(index_load(&tree.root, 5, &slot), &goes.folio);
	cr_assert_eq(index_reload(slot), &goes.folio);
	tree_remove(&tree, &goes);
	cr_assert_null(index_reload(slot));
	tree_remove(&tree, &stays);
	tree_close(&tree);
}

/*
 * Two folios that share a page: the second is refused, and nothing changes.
 */
static void check_taken(uint64_t index_a, unsigned int order_a, uint64_t index_b,
			unsigned int order_b)
{
	struct tree tree = {0};
	struct item a = item_at(index_a, order_a), b = item_at(index_b, order_b);
	uint64_t bytes;

	cr_assert_eq(tree_insert(&tree, &a), 0);
	bytes = tree.memory.bytes;
	cr_assert_eq(tree_insert(&tree, &b), -EEXIST);
	cr_assert_eq(tree.memory.bytes, bytes);
	cr_assert(index_ok(&tree.root));
	cr_assert_eq(tree_load(&tree, index_a), &a.folio);
	tree_remove(&tree, &a);
	tree_close(&tree);
}

Test(index, a_taken_page_is_refused)
{
	check_taken(7, 0, 7, 0);
}

Test(index, a_page_of_a_large_folio_is_refused)
{
	check_taken(512, 9, 512, 0);
	check_taken(512, 9, 1023, 0);
	check_taken(512, 9, 544, 5);
	check_taken(4, 2, 7, 0);
	check_taken(1024, 10, 1500, 0);
}

Test(index, a_large_folio_over_a_page_is_refused)
{
	check_taken(512, 0, 512, 9);
	check_taken(1023, 0, 512, 9);
	check_taken(544, 5, 512, 9);
	check_taken(7, 0, 4, 2);
	check_taken(1500, 0, 1024, 10);
}

Test(index, a_large_folio_over_the_whole_tree_is_refused)
{
	check_taken(0, 0, 0, 4);
	check_taken(15, 0, 0, 9);
	check_taken(3, 0, 0, 12);
	check_taken(64, 5, 0, 10);
}

Test(index, neighbours_of_different_orders_do_not_touch)
{
	struct tree tree = {0};
	struct item items[] = {item_at(0, 5),	item_at(32, 4),	  item_at(48, 3),
			       item_at(56, 0),	item_at(64, 6),	  item_at(480, 5),
			       item_at(512, 9), item_at(1024, 5), item_at(1056, 1)};
	unsigned int nr = sizeof(items) / sizeof(items[0]);

	for (unsigned int i = 0; i < nr; i++) {
		cr_assert_eq(tree_insert(&tree, &items[i]), 0);
		cr_assert(index_ok(&tree.root));
	}
	for (unsigned int i = 0; i < nr; i++) {
		uint64_t first = items[i].folio.index;

		cr_assert_eq(tree_load(&tree, first), &items[i].folio);
		cr_assert_eq(tree_load(&tree, first + item_nr_pages(&items[i]) - 1),
			     &items[i].folio);
	}
	for (unsigned int i = 0; i < nr; i++) {
		tree_remove(&tree, &items[i]);
		cr_assert(index_ok(&tree.root));
		cr_assert_null(tree_load(&tree, items[i].folio.index));
		if (i + 1 < nr)
			cr_assert_eq(tree_load(&tree, items[i + 1].folio.index),
				     &items[i + 1].folio);
	}
	tree_close(&tree);
}

Test(index, the_last_pages_of_the_largest_file_work)
{
	struct tree tree = {0};
	struct item last = item_at(LAST_PAGE, 0), large = item_at((LAST_PAGE | 511) - 1023, 9);
	struct item first = item_at(0, 0);
	uint64_t index = 1;

	cr_assert_eq(tree_insert(&tree, &first), 0);
	cr_assert_eq(tree_insert(&tree, &last), 0);
	cr_assert_eq(tree_insert(&tree, &large), 0);
	cr_assert(index_ok(&tree.root));
	cr_assert_eq(tree_load(&tree, LAST_PAGE), &last.folio);
	cr_assert_eq(tree_load(&tree, large.folio.index + 511), &large.folio);
	cr_assert_null(tree_load(&tree, LAST_PAGE + 1));
	cr_assert_eq(index_find(&tree.root, &index, LAST_PAGE, INDEX_NO_MARK, NULL), &large.folio);
	cr_assert_eq(index, large.folio.index);
	index += 512;
	cr_assert_eq(index_find(&tree.root, &index, LAST_PAGE, INDEX_NO_MARK, NULL), &last.folio);
	tree_remove(&tree, &last);
	tree_remove(&tree, &large);
	tree_remove(&tree, &first);
	tree_close(&tree);
}

Test(index, the_last_number_of_all_works)
{
	struct tree tree = {0};
	struct item item = item_at(UINT64_MAX, 0);
	uint64_t index = 0;

	cr_assert_eq(tree_insert(&tree, &item), 0);
	cr_assert(index_ok(&tree.root));
	cr_assert_eq(tree_load(&tree, UINT64_MAX), &item.folio);
	index_set_mark(&tree.root, UINT64_MAX, INDEX_DIRTY);
	cr_assert_eq(index_find(&tree.root, &index, UINT64_MAX, INDEX_DIRTY, NULL), &item.folio);
	cr_assert_eq(index, UINT64_MAX);
	index = 0;
	cr_assert_null(index_find(&tree.root, &index, UINT64_MAX, INDEX_WRITEBACK, NULL));
	index_copy_mark(&tree.root, 0, UINT64_MAX, INDEX_DIRTY, INDEX_WRITEBACK);
	cr_assert(index_get_mark(&tree.root, UINT64_MAX, INDEX_WRITEBACK));
	tree_remove(&tree, &item);
	tree_close(&tree);
}

Test(index, a_tree_is_as_high_as_its_last_folio_needs)
{
	struct tree tree = {0};
	struct item low = item_at(3, 0), middle = item_at(32, 4), high = item_at(1ull << 40, 0);
	uint64_t bytes;

	cr_assert_eq(tree_insert(&tree, &low), 0);
	bytes = tree.memory.bytes;
	cr_assert_eq(tree_insert(&tree, &high), 0);
	tree_remove(&tree, &high);
	cr_assert_eq(tree.memory.bytes, bytes);
	cr_assert_eq(tree_insert(&tree, &middle), 0);
	tree_remove(&tree, &middle);
	cr_assert_eq(tree.memory.bytes, bytes);
	cr_assert(index_ok(&tree.root));
	cr_assert_eq(tree_load(&tree, 3), &low.folio);
	tree_remove(&tree, &low);
	tree_close(&tree);
}

/* ---- no memory ---- */

/*
 * Insert `item` beside `first`, failing each allocation in turn: the tree does not change.
 */
static void check_no_memory(struct item first, struct item item)
{
	struct tree tree = {0};
	unsigned int nr_failed = 1;
	int err;

	cr_assert_eq(tree_insert(&tree, &first), 0);
	index_set_mark(&tree.root, first.folio.index, INDEX_DIRTY);
	for (unsigned int n = 0; nr_failed; n++) {
		void *root = tree.root;
		uint64_t bytes = tree.memory.bytes;

		env_alloc_fail(n, 1);
		err = tree_insert(&tree, &item);
		nr_failed = env_alloc_fail(0, 0);
		cr_assert(index_ok(&tree.root));
		cr_assert_eq(tree_load(&tree, first.folio.index), &first.folio);
		cr_assert(index_get_mark(&tree.root, first.folio.index, INDEX_DIRTY));
		if (nr_failed) {
			cr_assert_eq(err, -ENOMEM);
			cr_assert_eq(tree.root, root);
			cr_assert_eq(tree.memory.bytes, bytes);
			cr_assert_null(tree_load(&tree, item.folio.index));
		} else {
			cr_assert_eq(err, 0);
			cr_assert_eq(tree_load(&tree, item.folio.index), &item.folio);
			cr_assert_gt(n, 0);
		}
	}
	tree_remove(&tree, &item);
	tree_remove(&tree, &first);
	tree_close(&tree);
}

Test(index, no_memory_below_a_node_changes_nothing)
{
	check_no_memory(item_at(1ull << 20, 0), item_at(0, 0));
}

Test(index, no_memory_above_the_root_changes_nothing)
{
	check_no_memory(item_at(0, 0), item_at(1ull << 40, 0));
	check_no_memory(item_at(0, 0), item_at(1ull << 40, 9));
}

Test(index, no_memory_for_the_first_node_changes_nothing)
{
	struct tree tree = {0};
	struct item item = item_at(1ull << 40, 0);
	unsigned int n = 0;

	for (;; n++) {
		env_alloc_fail(n, 1);
		if (tree_insert(&tree, &item) == 0)
			break;
		cr_assert_null(tree.root);
		cr_assert_eq(tree.memory.bytes, 0);
	}
	cr_assert_eq(env_alloc_fail(0, 0), 0);
	/* Shifts 40, 34, ... 4, 0. */
	cr_assert_eq(n, 8);
	tree_remove(&tree, &item);
	tree_close(&tree);
}

/* ---- memory ---- */

/* A file of 512 MiB of folios of one order; returns its bytes. */
static uint64_t file_bytes(unsigned int order)
{
	uint64_t nr = 131072u >> order;
	struct item *items = env_zalloc(nr * sizeof(*items));
	struct tree tree = {0};
	uint64_t bytes;

	cr_assert_not_null(items);
	for (uint64_t i = 0; i < nr; i++) {
		items[i] = item_at(i << order, order);
		cr_assert_eq(tree_insert(&tree, &items[i]), 0);
	}
	cr_assert(index_ok(&tree.root));
	bytes = tree.memory.bytes;
	for (uint64_t i = 0; i < nr; i++)
		cr_assert_eq(tree_load(&tree, i << order), &items[i].folio);
	for (uint64_t i = 0; i < nr; i++)
		tree_remove(&tree, &items[i]);
	tree_close(&tree);
	env_free(items);
	return bytes;
}

Test(index, a_page_costs_ten_bytes_and_a_half_at_most)
{
	cr_assert_leq(file_bytes(0) * 10, 131072 * 105);
}

Test(index, an_order_4_folio_costs_eleven_bytes_at_most)
{
	cr_assert_leq(file_bytes(4), 8192 * 11);
}

/* ---- marks ---- */

Test(index, a_mark_is_the_folios_own)
{
	struct tree tree = {0};
	struct item a = item_at(16, 4), b = item_at(32, 0), c = item_at(33, 0);

	tree_insert(&tree, &a);
	tree_insert(&tree, &b);
	tree_insert(&tree, &c);
	index_set_mark(&tree.root, 32, INDEX_DIRTY);
	cr_assert(index_get_mark(&tree.root, 32, INDEX_DIRTY));
	cr_assert_not(index_get_mark(&tree.root, 33, INDEX_DIRTY));
	cr_assert_not(index_get_mark(&tree.root, 16, INDEX_DIRTY));
	cr_assert_not(index_get_mark(&tree.root, 32, INDEX_WRITEBACK));
	cr_assert(index_ok(&tree.root));
	tree_remove(&tree, &a);
	tree_remove(&tree, &b);
	tree_remove(&tree, &c);
	tree_close(&tree);
}

Test(index, a_tree_is_marked_while_a_folio_is)
{
	struct tree tree = {0};
	struct item a = item_at(0, 0), b = item_at(1ull << 30, 0), c = item_at(1ull << 40, 3);

	tree_insert(&tree, &a);
	tree_insert(&tree, &b);
	index_set_mark(&tree.root, 0, INDEX_WRITEBACK);
	index_set_mark(&tree.root, 1ull << 30, INDEX_WRITEBACK);
	cr_assert(index_marked(&tree.root, INDEX_WRITEBACK));
	index_clear_mark(&tree.root, 0, INDEX_WRITEBACK);
	cr_assert(index_marked(&tree.root, INDEX_WRITEBACK));
	/* A higher root has it too, and a lower one. */
	tree_insert(&tree, &c);
	cr_assert(index_ok(&tree.root));
	cr_assert(index_marked(&tree.root, INDEX_WRITEBACK));
	tree_remove(&tree, &c);
	cr_assert(index_marked(&tree.root, INDEX_WRITEBACK));
	index_clear_mark(&tree.root, 1ull << 30, INDEX_WRITEBACK);
	cr_assert_not(index_marked(&tree.root, INDEX_WRITEBACK));
	cr_assert(index_ok(&tree.root));
	tree_remove(&tree, &a);
	tree_remove(&tree, &b);
	tree_close(&tree);
}

Test(index, a_removed_folio_takes_its_marks_with_it)
{
	struct tree tree = {0};
	struct item a = item_at(64, 5), b = item_at(0, 0);

	tree_insert(&tree, &a);
	tree_insert(&tree, &b);
	for (unsigned int mark = 0; mark < INDEX_NR_MARKS; mark++)
		index_set_mark(&tree.root, 64, mark);
	tree_remove(&tree, &a);
	for (unsigned int mark = 0; mark < INDEX_NR_MARKS; mark++)
		cr_assert_not(index_marked(&tree.root, mark));
	tree_insert(&tree, &a);
	for (unsigned int mark = 0; mark < INDEX_NR_MARKS; mark++)
		cr_assert_not(index_get_mark(&tree.root, 64, mark));
	tree_remove(&tree, &a);
	tree_remove(&tree, &b);
	tree_close(&tree);
}

Test(index, marks_are_copied_to_every_folio_that_covers_a_page_of_the_range)
{
	struct tree tree = {0};
	struct item items[] = {item_at(31, 0), item_at(32, 5),	item_at(64, 0),	 item_at(80, 2),
			       item_at(84, 0), item_at(512, 9), item_at(1024, 0)};
	bool expected[] = {false, true, true, true, false, true, false};
	unsigned int nr = sizeof(items) / sizeof(items[0]);

	for (unsigned int i = 0; i < nr; i++) {
		tree_insert(&tree, &items[i]);
		/* One that has no mark to copy. */
		if (items[i].folio.index != 84)
			index_set_mark(&tree.root, items[i].folio.index, INDEX_DIRTY);
	}
	index_copy_mark(&tree.root, 40, 600, INDEX_DIRTY, INDEX_TOWRITE);
	cr_assert(index_ok(&tree.root));
	for (unsigned int i = 0; i < nr; i++)
		cr_assert_eq(index_get_mark(&tree.root, items[i].folio.index, INDEX_TOWRITE),
			     expected[i], "folio %u", i);
	for (unsigned int i = 0; i < nr; i++)
		tree_remove(&tree, &items[i]);
	tree_close(&tree);
}

Test(index, marks_are_copied_from_inside_a_folio_of_several_slots)
{
	struct tree tree = {0};
	struct item items[] = {item_at(0, 2), item_at(4, 2), item_at(8, 0)};

	for (unsigned int i = 0; i < 3; i++) {
		tree_insert(&tree, &items[i]);
		index_set_mark(&tree.root, items[i].folio.index, INDEX_DIRTY);
	}
	index_copy_mark(&tree.root, 6, 7, INDEX_DIRTY, INDEX_TOWRITE);
	cr_assert_not(index_get_mark(&tree.root, 0, INDEX_TOWRITE));
	cr_assert(index_get_mark(&tree.root, 4, INDEX_TOWRITE));
	cr_assert_not(index_get_mark(&tree.root, 8, INDEX_TOWRITE));
	for (unsigned int i = 0; i < 3; i++)
		tree_remove(&tree, &items[i]);
	tree_close(&tree);
}

/* ---- find ---- */

Test(index, find_crosses_holes)
{
	struct tree tree = {0};
	struct item items[] = {item_at(2, 0), item_at(17, 0), item_at(5000, 0),
			       item_at(1ull << 33, 9), item_at(1ull << 51, 0)};
	uint64_t index = 0;

	for (unsigned int i = 0; i < 5; i++)
		tree_insert(&tree, &items[i]);
	for (unsigned int i = 0; i < 5; i++) {
		void *const *slot;

		cr_assert_eq(index_find(&tree.root, &index, UINT64_MAX, INDEX_NO_MARK, &slot),
			     &items[i].folio);
		cr_assert_eq(index, items[i].folio.index);
		cr_assert_eq(index_reload(slot), &items[i].folio);
		index += item_nr_pages(&items[i]);
	}
	cr_assert_null(index_find(&tree.root, &index, UINT64_MAX, INDEX_NO_MARK, NULL));
	for (unsigned int i = 0; i < 5; i++)
		tree_remove(&tree, &items[i]);
	tree_close(&tree);
}

Test(index, find_stops_at_the_last_page)
{
	struct tree tree = {0};
	struct item item = item_at(100, 0);
	uint64_t index = 0;

	tree_insert(&tree, &item);
	cr_assert_null(index_find(&tree.root, &index, 99, INDEX_NO_MARK, NULL));
	cr_assert_eq(index, 0);
	cr_assert_eq(index_find(&tree.root, &index, 100, INDEX_NO_MARK, NULL), &item.folio);
	index = 101;
	cr_assert_null(index_find(&tree.root, &index, 100, INDEX_NO_MARK, NULL));
	tree_remove(&tree, &item);
	tree_close(&tree);
}

Test(index, find_from_inside_a_folio_gives_its_first_page)
{
	for (unsigned int order = 1; order <= 10; order++) {
		struct tree tree = {0};
		struct item before = item_at(0, order), item = item_at(1ull << order, order);

		tree_insert(&tree, &before);
		tree_insert(&tree, &item);
		index_set_mark(&tree.root, 0, INDEX_DIRTY);
		index_set_mark(&tree.root, item.folio.index, INDEX_DIRTY);
		for (unsigned int mark = 0; mark <= INDEX_NO_MARK; mark += INDEX_NO_MARK) {
			uint64_t index = item.folio.index + item_nr_pages(&item) - 1;

			cr_assert_eq(index_find(&tree.root, &index, index, mark, NULL),
				     &item.folio);
			cr_assert_eq(index, item.folio.index);
		}
		tree_remove(&tree, &before);
		tree_remove(&tree, &item);
		tree_close(&tree);
	}
}

Test(index, find_skips_folios_without_the_mark)
{
	static struct item items[2048];
	struct tree tree = {0};
	uint64_t index = 0;

	for (unsigned int i = 0; i < 2048; i++) {
		items[i] = item_at(i, 0);
		tree_insert(&tree, &items[i]);
	}
	index_set_mark(&tree.root, 1999, INDEX_DIRTY);
	cr_assert_eq(index_find(&tree.root, &index, UINT64_MAX, INDEX_DIRTY, NULL),
		     &items[1999].folio);
	index++;
	cr_assert_null(index_find(&tree.root, &index, UINT64_MAX, INDEX_DIRTY, NULL));
	for (unsigned int i = 0; i < 2048; i++)
		tree_remove(&tree, &items[i]);
	tree_close(&tree);
}

/* ---- against a model ---- */

/* Some windows of a large file, page by page. */
#define WINDOW_PAGES 1024
#define NR_WINDOWS   4
#define MODEL_PAGES  (NR_WINDOWS * WINDOW_PAGES)

static const uint64_t window_start[NR_WINDOWS] = {0, 1024, 1ull << 30,
						  LAST_PAGE + 1 - WINDOW_PAGES};

struct model {
	struct tree tree;
	struct item *page[MODEL_PAGES];
	struct item items[MODEL_PAGES];
};

static uint64_t page_index(unsigned int page)
{
	return window_start[page / WINDOW_PAGES] + page % WINDOW_PAGES;
}

static struct item *model_unused_item(struct model *model, struct env_rng *rng)
{
	unsigned int i = (unsigned int)env_rng_below(rng, MODEL_PAGES);

	while (model->items[i].inserted)
		i = (i + 1) % MODEL_PAGES;
	return &model->items[i];
}

static void model_insert(struct model *model, unsigned int page, unsigned int order,
			 struct item *item)
{
	int expected = 0;

	page &= ~((1u << order) - 1);
	for (unsigned int i = 0; i < 1u << order; i++)
		if (model->page[page + i])
			expected = -EEXIST;
	*item = item_at(page_index(page), order);
	cr_assert_eq(tree_insert(&model->tree, item), expected);
	if (expected)
		return;
	item->inserted = true;
	for (unsigned int i = 0; i < 1u << order; i++)
		model->page[page + i] = item;
}

static void model_remove(struct model *model, struct item *item)
{
	tree_remove(&model->tree, item);
	item->inserted = false;
	for (unsigned int i = 0; i < MODEL_PAGES; i++)
		if (model->page[i] == item)
			model->page[i] = NULL;
}

/* The model's own copy, of the pages [first, last] of the model. */
static void model_copy_mark(struct model *model, unsigned int first, unsigned int last,
			    enum index_mark from, enum index_mark to)
{
	index_copy_mark(&model->tree.root, page_index(first), page_index(last), from, to);
	for (unsigned int i = first; i <= last; i++)
		if (model->page[i] && model->page[i]->marks[from])
			model->page[i]->marks[to] = true;
}

static void check_find(struct model *model, unsigned int first, enum index_mark mark)
{
	struct item *expected = NULL;
	uint64_t index = page_index(first);
	struct folio *folio;

	for (unsigned int i = first; i < MODEL_PAGES && !expected; i++)
		if (model->page[i] && (mark == INDEX_NO_MARK || model->page[i]->marks[mark]))
			expected = model->page[i];
	folio = index_find(&model->tree.root, &index, UINT64_MAX, mark, NULL);
	cr_assert_eq(folio, expected ? &expected->folio : NULL);
	if (expected)
		cr_assert_eq(index, expected->folio.index);
}

static void check_model(struct model *model)
{
	struct item *last = NULL;

	cr_assert(index_ok(&model->tree.root));
	for (unsigned int i = 0; i < MODEL_PAGES; i++) {
		struct item *item = model->page[i];

		cr_assert_eq(tree_load(&model->tree, page_index(i)), item ? &item->folio : NULL);
		if (item && item != last)
			for (unsigned int mark = 0; mark < INDEX_NR_MARKS; mark++)
				cr_assert_eq(
					index_get_mark(&model->tree.root, item->folio.index, mark),
					item->marks[mark]);
		last = item;
	}
}

static void model_step(struct model *model, struct env_rng *rng)
{
	static const unsigned char orders[] = {0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 9, 10};
	unsigned int page = (unsigned int)env_rng_below(rng, MODEL_PAGES);
	enum index_mark mark = (enum index_mark)env_rng_below(rng, INDEX_NR_MARKS);
	struct item *item = model->page[page];

	switch (env_rng_below(rng, 8)) {
	case 0:
	case 1:
	case 2:
		model_insert(model, page, orders[env_rng_below(rng, sizeof(orders))],
			     model_unused_item(model, rng));
		break;
	case 3:
	case 4:
		if (item)
			model_remove(model, item);
		break;
	case 5:
		if (item) {
			index_set_mark(&model->tree.root, item->folio.index, mark);
			item->marks[mark] = true;
		}
		break;
	case 6:
		if (item) {
			index_clear_mark(&model->tree.root, item->folio.index, mark);
			item->marks[mark] = false;
		}
		break;
	default:
		if (env_rng_below(rng, 16) == 0)
			model_copy_mark(model, page,
					page + (unsigned int)env_rng_below(rng, MODEL_PAGES - page),
					mark, (mark + 1) % INDEX_NR_MARKS);
		check_find(model, page, (enum index_mark)env_rng_below(rng, INDEX_NR_MARKS + 1));
	}
}

static void check_random(uint64_t seed)
{
	static struct model model;
	struct env_rng rng;

	env_rng_seed(&rng, seed);
	for (unsigned int step = 0; step < 10000; step++) {
		model_step(&model, &rng);
		if (step % 100 == 0)
			check_model(&model);
		/* From an empty tree again, now and then. */
		for (unsigned int i = 0; step % 2500 == 2499 && i < MODEL_PAGES; i++)
			if (model.page[i])
				model_remove(&model, model.page[i]);
	}
	tree_close(&model.tree);
}

Test(index, random_changes_agree_with_a_model)
{
	for (uint64_t seed = 1; seed <= 4; seed++)
		check_random(seed);
}

/* ---- readers beside a writer ---- */

/*
 * Each place has its own item, so a reader knows what it may find.  Every eighth page from
 * 0 to 1023 stays, dirty.  Around them pages come and go; after them large folios, pages in
 * their place, and one far away that makes the tree higher and lower.
 */
#define STAYING_PAGES 1024
#define RACE_PAGES    2048
#define FAR_PAGE      (1ull << 30)

struct race {
	struct tree tree;
	struct env_mutex lock;
	struct item page[RACE_PAGES];
	struct item order_5[RACE_PAGES / 32];
	struct item far;
	uint32_t done; /* [a] */
	uint32_t nr_errors; /* [a] */
};

static void race_error(struct race *race)
{
	__atomic_fetch_add(&race->nr_errors, 1, __ATOMIC_RELAXED);
}

static bool page_stays(uint64_t page)
{
	return page < STAYING_PAGES && page % 8 == 0;
}

/* A page is free or has a folio that covers it; it is never free if it stays. */
static void race_load(struct race *race, uint64_t page)
{
	void *const *slot;
	struct folio *folio, *again;

	env_rcu_read_lock();
	folio = index_load(&race->tree.root, page, &slot);
	if (folio) {
		struct item *item = item_of(folio);

		again = index_reload(slot);
		if (page < folio->index || page >= folio->index + item_nr_pages(item))
			race_error(race);
		if (page_stays(page) && again != folio)
			race_error(race);
	} else if (page_stays(page)) {
		race_error(race);
	}
	env_rcu_read_unlock();
}

/* All that stays is found in order, whatever else is. */
static void race_find(struct race *race, enum index_mark mark)
{
	uint64_t index = 0;
	uint64_t expected = 0;
	struct folio *folio = NULL;

	do {
		uint64_t from = index;

		env_rcu_read_lock();
		folio = index_find(&race->tree.root, &index, FAR_PAGE, mark, NULL);
		if (folio && page_stays(folio->index)) {
			if (folio->index != expected || index != expected)
				race_error(race);
			expected += 8;
		}
		env_rcu_read_unlock();
		if (index < from)
			index = from;
		index++;
	} while (folio && index <= FAR_PAGE);
	if (expected != STAYING_PAGES)
		race_error(race);
}

static void race_reader(void *arg)
{
	struct race *race = arg;
	struct env_rng rng;

	env_rng_seed(&rng, 7);
	do {
		for (unsigned int i = 0; i < 64; i++)
			race_load(race, env_rng_below(&rng, RACE_PAGES));
		race_load(race, FAR_PAGE);
		race_find(race, INDEX_DIRTY);
		race_find(race, INDEX_NO_MARK);
		if (!index_marked(&race->tree.root, INDEX_DIRTY))
			race_error(race);
	} while (!__atomic_load_n(&race->done, __ATOMIC_ACQUIRE));
}

/* Insert it, or if it is there remove it. */
static void race_toggle(struct race *race, struct item *item)
{
	if (item->inserted) {
		tree_remove(&race->tree, item);
		item->inserted = false;
	} else {
		item->inserted = tree_insert(&race->tree, item) == 0;
		if (item->inserted && item->folio.index % 3 == 0)
			index_set_mark(&race->tree.root, item->folio.index, INDEX_DIRTY);
	}
}

static void race_step(struct race *race, struct env_rng *rng)
{
	uint64_t page = env_rng_below(rng, RACE_PAGES);

	env_mutex_lock(&race->lock);
	switch (env_rng_below(rng, 4)) {
	case 0:
		race_toggle(race, &race->far);
		break;
	case 1:
		if (page >= STAYING_PAGES)
			race_toggle(race, &race->order_5[page / 32]);
		break;
	default:
		if (!page_stays(page))
			race_toggle(race, &race->page[page]);
	}
	env_mutex_unlock(&race->lock);
}

static void race_open(struct race *race)
{
	env_mutex_init(&race->lock, "race lock");
	race->far = item_at(FAR_PAGE, 0);
	for (unsigned int i = 0; i < RACE_PAGES / 32; i++)
		race->order_5[i] = item_at(32u * i, 5);
	for (unsigned int i = 0; i < RACE_PAGES; i++) {
		race->page[i] = item_at(i, 0);
		if (!page_stays(i))
			continue;
		cr_assert_eq(tree_insert(&race->tree, &race->page[i]), 0);
		index_set_mark(&race->tree.root, i, INDEX_DIRTY);
		race->page[i].inserted = true;
	}
}

static void race_close(struct race *race)
{
	cr_assert(index_ok(&race->tree.root));
	for (unsigned int i = 0; i < RACE_PAGES / 32; i++)
		if (race->order_5[i].inserted)
			race_toggle(race, &race->order_5[i]);
	for (unsigned int i = 0; i < RACE_PAGES; i++)
		if (race->page[i].inserted)
			race_toggle(race, &race->page[i]);
	if (race->far.inserted)
		race_toggle(race, &race->far);
	tree_close(&race->tree);
}

Test(index, readers_miss_nothing_that_stays)
{
	static struct race race;
	struct env_thread *readers[2];
	struct env_rng rng;

	race_open(&race);
	for (unsigned int i = 0; i < 2; i++)
		cr_assert_eq(env_thread_create(&readers[i], "reader", race_reader, &race), 0);
	env_rng_seed(&rng, 1);
	for (unsigned int step = 0; step < 50000; step++)
		race_step(&race, &rng);
	__atomic_store_n(&race.done, 1, __ATOMIC_RELEASE);
	for (unsigned int i = 0; i < 2; i++)
		env_thread_join(readers[i]);
	cr_assert_eq(race.nr_errors, 0);
	race_close(&race);
}

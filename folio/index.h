/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * index.h - page number -> folio: a radix tree with multi-page entries and marks
 *
 * One tree a mapping, its root in mapping->index_root.  Readers walk it under RCU without a
 * lock; writers hold mapping->lock.  A node of the lowest level covers 16 pages, of the other
 * levels 64 slots: so a folio of order 4 or more takes slots one level up and costs no leaf.
 * A folio that covers several slots stands in each of them; its marks are at the first.
 */
#ifndef FOLIO_INDEX_H
#define FOLIO_INDEX_H

#include <stdbool.h>
#include <stdint.h>

struct folio;

enum index_mark {
	INDEX_DIRTY,
	INDEX_TOWRITE,
	INDEX_WRITEBACK,
	INDEX_NR_MARKS,
	INDEX_NO_MARK = INDEX_NR_MARKS, /* any folio */
};

/* What nodes cost, added up over the trees of a cache. [a] */
struct index_memory {
	uint64_t bytes;
};

/*
 * The folio that covers page `index`, or NULL; the caller is in an RCU section or holds the
 * lock.  *slot (may be NULL) is where it was found: index_reload(slot) == folio tells that it
 * is still there.
 */
struct folio *index_load(void *const *root, uint64_t index, void *const **slot);
static inline struct folio *index_reload(void *const *slot)
{
	return (struct folio *)__atomic_load_n(slot, __ATOMIC_ACQUIRE);
}

/*
 * Insert at [index, index + 2^order), all or nothing (J6).  0; -EEXIST (some page is taken);
 * -ENOMEM.  No change on failure.  => lock held
 */
int index_insert(void **root, uint64_t index, unsigned int order, struct folio *folio,
		 struct index_memory *memory);
/* => lock held; the folio stands at [index, index + 2^order).  Its marks go with it. */
void index_remove(void **root, uint64_t index, unsigned int order, struct index_memory *memory);

/* => lock held; a folio of that order stands at index */
void index_set_mark(void **root, uint64_t index, enum index_mark mark);
void index_clear_mark(void **root, uint64_t index, enum index_mark mark);
bool index_get_mark(void *const *root, uint64_t index, enum index_mark mark);
/* Every folio in pages [first, last] with mark `from` gets mark `to` (F1).  => lock held */
void index_copy_mark(void **root, uint64_t first, uint64_t last, enum index_mark from,
		     enum index_mark to);

/*
 * The first folio with the mark (or any) that covers a page in [*index, last]; NULL if none.
 * Skips subtrees without the mark.  *index is set to the folio's first page as the tree has it
 * (which may be before the old *index).  Lock held or RCU; under RCU the result may be stale:
 * the caller takes a reference and re-checks with index_reload().
 */
struct folio *index_find(void *const *root, uint64_t *index, uint64_t last, enum index_mark mark,
			 void *const **slot);

/* Does any folio have the mark?  Lock held or RCU. */
bool index_marked(void *const *root, enum index_mark mark);

/* For assertions: counts, marks of parents, no empty node.  => lock held */
bool index_ok(void *const *root);

#endif

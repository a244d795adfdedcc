/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * truncate.c - take folios out of a mapping: truncate, invalidate, extended size
 */
#include "folio/internal.h"

static void invalidate_bytes(struct folio *folio, uint64_t off, uint64_t len)
{
	const struct address_space_operations *ops = folio->mapping->a_ops;

	if (ops->invalidate_folio)
		ops->invalidate_folio(folio, off, len);
}

/* => folio is locked, not under writeback, in its mapping, entirely inside the range */
static void truncate_whole(struct folio *folio)
{
	folio_cancel_dirty(folio);
	invalidate_bytes(folio, 0, folio_size(folio));
	filemap_remove_folio(folio);
}

/*
 * Zero the part of the folio in [start, end].  A folio is not split (C9): a dirty one stays
 * whole, a clean one is dropped, since it can be read again.
 */
static void truncate_partial(struct folio *folio, uint64_t start, uint64_t end)
{
	uint64_t pos = folio_pos(folio);
	uint64_t size = folio_size(folio);
	uint64_t from = start > pos ? start - pos : 0;
	uint64_t to = end - pos < size ? end - pos + 1 : size;

	folio_wait_writeback(folio);
	memset(folio->data + from, 0, to - from);
	invalidate_bytes(folio, from, to - from);
	if (!folio_test(folio, FOLIO_DIRTY))
		truncate_whole(folio);
}

static bool is_inside(const struct folio *folio, uint64_t start, uint64_t end)
{
	uint64_t pos = folio_pos(folio);

	return pos >= start && pos + folio_size(folio) - 1 <= end;
}

/* First pass: what can be had without waiting. */
static void truncate_quick(struct address_space *mapping, uint64_t start, uint64_t end)
{
	uint64_t index = start >> mapping->page_shift;
	uint64_t last = end >> mapping->page_shift;
	struct folio_batch batch;

	while (filemap_get_folios(mapping, &index, last, FILEMAP_ANY, &batch)) {
		for (unsigned int i = 0; i < batch.nr; i++) {
			struct folio *folio = batch.folios[i];

			if (!is_inside(folio, start, end) || !folio_trylock(folio))
				continue;
			if (folio->mapping == mapping && !folio_test(folio, FOLIO_WRITEBACK))
				truncate_whole(folio);
			folio_unlock(folio);
		}
		filemap_release_folios(&batch);
	}
}

void filemap_truncate_range(struct address_space *mapping, uint64_t start, uint64_t end)
{
	uint64_t first = start >> mapping->page_shift;
	uint64_t last = end >> mapping->page_shift;
	struct folio_batch batch;
	uint64_t index;
	bool again;

	truncate_quick(mapping, start, end);
	/* Second pass: wait for the rest, and look again until nothing is left inside. */
	do {
		again = false;
		index = first;
		while (filemap_get_folios(mapping, &index, last, FILEMAP_ANY, &batch)) {
			for (unsigned int i = 0; i < batch.nr; i++) {
				struct folio *folio = batch.folios[i];

				folio_lock(folio);
				if (folio->mapping == mapping) {
					if (is_inside(folio, start, end)) {
						folio_wait_writeback(folio);
						truncate_whole(folio);
						again = true;
					} else {
						truncate_partial(folio, start, end);
					}
				}
				folio_unlock(folio);
			}
			filemap_release_folios(&batch);
		}
	} while (again);
}

void filemap_truncate(struct inode *inode, uint64_t newsize)
{
	filemap_truncate_range(&inode->i_mapping, newsize, UINT64_MAX);
}

void filemap_isize_extended(struct inode *inode, uint64_t from, uint64_t to)
{
	struct address_space *mapping = &inode->i_mapping;
	uint64_t block = 1ull << inode->i_blkbits;
	uint64_t page = 1ull << mapping->page_shift;
	uint64_t rounded = (from + block - 1) & ~(block - 1);
	struct folio *folio;

	/* Only a page that held the old end and gains a block is concerned (D30). */
	if (from >= to || block >= page || rounded >= to || !(rounded & (page - 1)))
		return;
	if (filemap_get_folio(mapping, from >> mapping->page_shift, FGP_LOCK, &folio))
		return;
	if (folio_test(folio, FOLIO_DIRTY)) {
		uint64_t pos = folio_pos(folio);
		uint64_t end = pos + folio_size(folio);

		end = to < end ? to : end;
		memset(folio->data + (from - pos), 0, end - from);
	}
	folio_unlock_put(folio);
}

uint64_t filemap_invalidate_clean(struct address_space *mapping, uint64_t first, uint64_t last)
{
	struct folio_batch batch;
	uint64_t index = first;
	uint64_t pages = 0;

	while (filemap_get_folios(mapping, &index, last, FILEMAP_ANY, &batch)) {
		for (unsigned int i = 0; i < batch.nr; i++) {
			struct folio *folio = batch.folios[i];
			uint64_t nr = folio_nr_pages(folio);

			if (folio->index < first || folio->index + nr - 1 > last)
				continue;
			if (folio_test(folio, FOLIO_DIRTY | FOLIO_WRITEBACK) ||
			    !folio_trylock(folio))
				continue;
			if (folio->mapping == mapping && filemap_evict_folio(folio))
				pages += nr;
			folio_unlock(folio);
		}
		filemap_release_folios(&batch);
	}
	return pages;
}

int filemap_invalidate(struct address_space *mapping, uint64_t first, uint64_t last)
{
	struct folio_batch batch;
	uint64_t index = first;
	int err = 0;

	while (filemap_get_folios(mapping, &index, last, FILEMAP_ANY, &batch)) {
		for (unsigned int i = 0; i < batch.nr; i++) {
			struct folio *folio = batch.folios[i];

			folio_lock(folio);
			if (folio->mapping == mapping) {
				folio_wait_writeback(folio);
				if (folio_test(folio, FOLIO_DIRTY))
					err = -EBUSY;
				else
					truncate_whole(folio);
			}
			folio_unlock(folio);
		}
		filemap_release_folios(&batch);
	}
	return err;
}

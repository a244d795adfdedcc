/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * writeout.c - which folios of a mapping a pass writes, and waiting for them
 *
 * A pass visits dirty folios by rising index.  WB_SYNC_ALL first tags what is dirty now, so
 * that later dirtying cannot make it endless.
 */
#include <iomap/cost.h>

#include "folio/internal.h"

/* How long an integrity pass waits before it asks a back end again that had no memory (K17). */
#define ENOMEM_PAUSE_NS 1000000ull

static bool pass_is_tagged(const struct writeback_control *wbc)
{
	return wbc->sync_mode == WB_SYNC_ALL || wbc->tagged_writepages;
}

static void pass_start(struct address_space *mapping, struct writeback_control *wbc)
{
	unsigned int shift = mapping->page_shift;

	wbc->started = true;
	wbc->batch.nr = 0;
	wbc->batch_next = 0;
	wbc->saved_error = 0;
	if (wbc->range_cyclic) {
		wbc->next_index = __atomic_load_n(&mapping->writeback_index, __ATOMIC_RELAXED);
		wbc->end_index = UINT64_MAX >> shift;
	} else {
		wbc->next_index = wbc->range_start >> shift;
		wbc->end_index = wbc->range_end >> shift;
	}
	if (pass_is_tagged(wbc)) {
		env_mutex_lock(&mapping->lock);
		index_copy_mark(&mapping->index_root, wbc->next_index, wbc->end_index, INDEX_DIRTY,
				INDEX_TOWRITE);
		env_mutex_unlock(&mapping->lock);
	}
}

/* Lock the folio and make it ours to write; false: skip it (F2). */
static bool pass_claim(struct address_space *mapping, const struct writeback_control *wbc,
		       struct folio *folio)
{
	folio_lock(folio);
	if (folio->mapping != mapping)
		goto skip;
	if (!folio_test(folio, FOLIO_DIRTY))
		goto skip;
	if (folio_test(folio, FOLIO_WRITEBACK)) {
		if (wbc->sync_mode == WB_SYNC_NONE)
			goto skip;
		folio_wait_writeback(folio);
	}
	if (!folio_clear_dirty_for_io(folio))
		goto skip;
	env_charge(ENV_COST_FLUSH_FOLIO, 1);
	return true;
skip:
	folio_unlock(folio);
	return false;
}

/* The next claimed folio, NULL when the range is done; its reference is the batch's. */
static struct folio *pass_next(struct address_space *mapping, struct writeback_control *wbc)
{
	enum filemap_tag tag = pass_is_tagged(wbc) ? FILEMAP_TOWRITE : FILEMAP_DIRTY;

	for (;;) {
		while (wbc->batch_next < wbc->batch.nr) {
			struct folio *folio = wbc->batch.folios[wbc->batch_next++];

			if (pass_claim(mapping, wbc, folio))
				return folio;
		}
		filemap_release_folios(&wbc->batch);
		wbc->batch_next = 0;
		if (!filemap_get_folios(mapping, &wbc->next_index, wbc->end_index, tag,
					&wbc->batch))
			return NULL;
	}
}

static void pass_end(struct address_space *mapping, struct writeback_control *wbc,
		     uint64_t resume_index)
{
	filemap_release_folios(&wbc->batch);
	if (wbc->range_cyclic)
		__atomic_store_n(&mapping->writeback_index, resume_index, __ATOMIC_RELAXED);
}

struct folio *filemap_writeback_iter(struct address_space *mapping, struct writeback_control *wbc,
				     struct folio *folio, int *error)
{
	if (!wbc->started) {
		pass_start(mapping, wbc);
	} else if (folio) {
		wbc->nr_to_write -= (int64_t)folio_nr_pages(folio);
		if (*error && !wbc->saved_error)
			wbc->saved_error = *error;
		if (wbc->sync_mode == WB_SYNC_NONE && (wbc->saved_error || wbc->nr_to_write <= 0)) {
			pass_end(mapping, wbc, folio->index + folio_nr_pages(folio));
			*error = wbc->saved_error;
			return NULL;
		}
	}
	folio = pass_next(mapping, wbc);
	if (!folio) {
		pass_end(mapping, wbc, 0);
		*error = wbc->saved_error;
	} else {
		*error = 0;
	}
	return folio;
}

/* ---- whole ranges ------------------------------------------------------------------- */

static bool mapping_has_tag(struct address_space *mapping, enum index_mark mark)
{
	bool marked;

	env_rcu_read_lock();
	marked = index_marked(&mapping->index_root, mark);
	env_rcu_read_unlock();
	return marked;
}

bool mapping_has_dirty_tag(struct address_space *mapping)
{
	bool marked;

	env_mutex_lock(&mapping->lock);
	marked = index_marked(&mapping->index_root, INDEX_DIRTY);
	env_mutex_unlock(&mapping->lock);
	return marked;
}

static int write_range(struct address_space *mapping, uint64_t start, uint64_t end,
		       enum writeback_sync_mode mode)
{
	int err;

	for (;;) {
		struct writeback_control wbc = {
			.sync_mode = mode,
			.nr_to_write = INT64_MAX,
			.range_start = start,
			.range_end = end,
		};

		err = mapping->a_ops->writepages(mapping, &wbc);
		if (err != -ENOMEM || mode != WB_SYNC_ALL)
			return err;
		env_sleep_ns(ENOMEM_PAUSE_NS);
	}
}

int filemap_fdatawrite_range(struct address_space *mapping, uint64_t start, uint64_t end,
			     enum writeback_sync_mode mode)
{
	struct wb_ctx *wb;
	int err;

	if (!mapping_has_tag(mapping, INDEX_DIRTY))
		return 0;
	wb = __atomic_load_n(&mapping->host->i_wb, __ATOMIC_ACQUIRE);
	if (wb)
		wb_bandwidth_begin(wb);
	err = write_range(mapping, start, end, mode);
	if (wb)
		wb_bandwidth_end(wb);
	return err;
}

void filemap_fdatawait_range(struct address_space *mapping, uint64_t start, uint64_t end)
{
	uint64_t index = start >> mapping->page_shift;
	uint64_t last = end >> mapping->page_shift;
	struct folio_batch batch;

	if (!mapping_has_tag(mapping, INDEX_WRITEBACK))
		return;
	while (filemap_get_folios(mapping, &index, last, FILEMAP_WRITEBACK, &batch)) {
		for (unsigned int i = 0; i < batch.nr; i++)
			folio_wait_writeback(batch.folios[i]);
		filemap_release_folios(&batch);
	}
}

int filemap_write_and_wait_range(struct address_space *mapping, uint64_t start, uint64_t end)
{
	int err, err2;

	err = filemap_fdatawrite_range(mapping, start, end, WB_SYNC_ALL);
	if (err != -EIO)
		filemap_fdatawait_range(mapping, start, end);
	err2 = mapping_check_errors(mapping);
	return err ? err : err2;
}

void filemap_dontneed(struct address_space *mapping, uint64_t pos, uint64_t len)
{
	uint64_t end = len && pos + len > pos ? pos + len - 1 : UINT64_MAX;
	uint64_t page = 1ull << mapping->page_shift;
	uint64_t first, last;

	filemap_fdatawrite_range(mapping, pos, end, WB_SYNC_NONE);
	first = (pos + page - 1) >> mapping->page_shift;
	last = end == UINT64_MAX ? end >> mapping->page_shift : (end + 1) >> mapping->page_shift;
	if (end != UINT64_MAX) {
		/* The page that holds the end of the file counts as covered. */
		if (end + 1 >= inode_size_read(mapping->host))
			last = end >> mapping->page_shift;
		else if (last-- == 0)
			return;
	}
	if (first <= last)
		filemap_invalidate_clean(mapping, first, last);
}

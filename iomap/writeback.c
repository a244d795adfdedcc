/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * writeback.c - turn dirty folios into ioends (section f)
 *
 * A pass walks the dirty folios of one file by rising index.  Each run of dirty blocks is
 * mapped by the back end and joins the pending ioend, or submits it and starts another when it
 * does not continue it.  The pass submits what is pending when it ends.
 *
 *	block:	|  0  |  1  |  2  |  3  |
 *	dirty:	   *     *           *
 *	runs:	<--------->	<--->
 */
#include "folio/charge.h"
#include "iomap/internal.h"

/*
 * Where writing the folio ends (F6): 0 if it lies entirely past the end of the file.  Garbage
 * behind the end is cleared every time.
 */
static uint64_t writeback_end(const struct inode *inode, struct folio *folio)
{
	uint64_t pos = folio_pos(folio);
	uint64_t end = pos + folio_size(folio);
	uint64_t isize = inode_size_read(inode);

	if (end <= isize)
		return end;
	if (pos >= isize)
		return 0;
	memset(folio->data + (isize - pos), 0, end - isize);
	return isize;
}

/* Map and queue one run; `submitted` counts what goes to the device. */
static int writeback_run(struct iomap_writepage_ctx *wpc, struct folio *folio, uint64_t pos,
			 uint64_t len, uint64_t end_pos, uint64_t *submitted)
{
	while (len) {
		ssize_t handled = wpc->ops->writeback_range(wpc, folio, pos, len, end_pos);

		if (handled < 0)
			return (int)handled;
		if (handled == 0 || (uint64_t)handled > len)
			return -EIO;
		if (wpc->iomap.type != IOMAP_HOLE)
			*submitted += (uint64_t)handled;
		pos += (uint64_t)handled;
		len -= (uint64_t)handled;
	}
	return 0;
}

/* The blocks of a folio with state: the dirty ones, or, as before Linux 6.6, all it has. */
static int writeback_blocks(struct iomap_writepage_ctx *wpc, struct folio *folio,
			    struct iomap_folio_state *ifs, uint64_t end_pos, uint64_t *submitted)
{
	struct inode *inode = wpc->inode;
	const struct page_cache_config *config = page_cache_get_config(folio->cache);
	bool whole = config->dirty_tracking == DIRTY_TRACKING_FOLIO;
	unsigned int bits = inode->i_blkbits;
	uint64_t start = folio_pos(folio);
	unsigned int last = (unsigned int)((end_pos - start + (1ull << bits) - 1) >> bits);
	unsigned int block = 0;
	unsigned int nr;
	int err;

	for (;;) {
		nr = whole ? ifs_next_uptodate_run(inode, folio, ifs, &block, last, true)
			   : ifs_next_dirty_run(inode, folio, ifs, &block, last);
		if (!nr)
			return 0;
		err = writeback_run(wpc, folio, start + ((uint64_t)block << bits),
				    (uint64_t)nr << bits, end_pos, submitted);
		if (err)
			return err;
		block += nr;
	}
}

/* => folio is locked, its dirty flag cleared for I/O, not under writeback */
static int writeback_folio(struct iomap_writepage_ctx *wpc, struct folio *folio)
{
	struct inode *inode = wpc->inode;
	struct iomap_folio_state *ifs;
	uint64_t size = folio_size(folio);
	uint64_t end_pos = writeback_end(inode, folio);
	uint64_t submitted = 0;
	bool had_state = folio_test(folio, FOLIO_PRIVATE);
	int err;

	if (!end_pos)
		return 0;
	ifs = ifs_attach(inode, folio);
	if (ifs) {
		if (!had_state)
			ifs_set_range_dirty(inode, folio, 0, end_pos - folio_pos(folio));
		assert(__atomic_load_n(&ifs->write_bytes_pending, __ATOMIC_ACQUIRE) == 0);
		/* A completion may come at once and must not see the last byte (C18, L40). */
		__atomic_store_n(&ifs->write_bytes_pending, (uint32_t)size, __ATOMIC_RELEASE);
	}
	folio_start_writeback(folio);
	if (ifs) {
		err = writeback_blocks(wpc, folio, ifs, end_pos, &submitted);
		ifs_clear_all_dirty(inode, folio, ifs);
	} else {
		err = writeback_run(wpc, folio, folio_pos(folio), size, end_pos, &submitted);
	}
	if (unlikely(env_world != NULL))
		charge_writeback(inode, folio, submitted);
	if (err)
		mapping_set_error(&inode->i_mapping, err);
	if (ifs && submitted < size)
		iomap_finish_folio_write(folio, (uint32_t)(size - submitted));
	else if (!ifs && !submitted)
		folio_end_writeback(folio);
	return err;
}

int iomap_writepages(struct iomap_writepage_ctx *wpc)
{
	struct address_space *mapping = &wpc->inode->i_mapping;
	struct folio *folio = NULL;
	int error = 0;

	while ((folio = filemap_writeback_iter(mapping, wpc->wbc, folio, &error)) != NULL) {
		error = writeback_folio(wpc, folio);
		folio_unlock(folio);
	}
	if (wpc->ioend) {
		struct iomap_ioend *ioend = wpc->ioend;
		int err;

		/* Properly built, whatever became of other folios (F21). */
		wpc->ioend = NULL;
		err = wpc->ops->writeback_submit(wpc, ioend, 0);
		if (!error)
			error = err;
	}
	return error;
}

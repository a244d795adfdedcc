/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * delalloc.c - give back what a short or failed write had reserved (D32..D37)
 *
 * Reservations under dirty cached blocks below i_size stay: another writer relies on them.
 */
#include "iomap/internal.h"

struct release {
	struct inode *inode;
	void (*punch)(struct inode *inode, uint64_t pos, uint64_t len, void *arg);
	void *arg;
	uint64_t kept; /* everything before is punched or kept */
};

static void punch_to(struct release *release, uint64_t pos)
{
	if (pos > release->kept)
		release->punch(release->inode, release->kept, pos - release->kept, release->arg);
}

/* The locked folio is dirty: punch between its dirty blocks, up to `limit`. */
static void punch_around(struct release *release, struct folio *folio, uint64_t limit)
{
	struct inode *inode = release->inode;
	uint64_t pos = folio_pos(folio);
	uint64_t end = pos + folio_size(folio);
	const struct iomap_folio_state *ifs = ifs_of(folio);
	unsigned int bits = inode->i_blkbits;

	end = end < limit ? end : limit;
	if (!ifs) {
		/* Every block is dirty (C3). */
		punch_to(release, pos);
	} else {
		unsigned int block =
			release->kept > pos ? (unsigned int)((release->kept - pos) >> bits) : 0;
		unsigned int last = (unsigned int)((end - pos + (1ull << bits) - 1) >> bits);
		unsigned int nr;

		while ((nr = ifs_next_dirty_run(inode, folio, ifs, &block, last)) > 0) {
			punch_to(release, pos + ((uint64_t)block << bits));
			block += nr;
			if (pos + ((uint64_t)block << bits) > release->kept)
				release->kept = pos + ((uint64_t)block << bits);
		}
		punch_to(release, end);
	}
	if (end > release->kept)
		release->kept = end;
}

void iomap_write_delalloc_release(struct inode *inode, uint64_t start, uint64_t end,
				  void (*punch)(struct inode *inode, uint64_t pos, uint64_t len,
						void *arg),
				  void *arg)
{
	struct address_space *mapping = &inode->i_mapping;
	struct release release = {inode, punch, arg, start};
	uint64_t isize = inode_size_read(inode);
	uint64_t mask = (1ull << inode->i_blkbits) - 1;
	uint64_t limit = end < isize ? end : (isize + mask) & ~mask;
	uint64_t index = start >> mapping->page_shift;
	struct folio_batch batch;

	limit = limit < end ? limit : end;
	while (start < limit &&
	       filemap_get_folios(mapping, &index, (limit - 1) >> mapping->page_shift, FILEMAP_ANY,
				  &batch)) {
		for (unsigned int i = 0; i < batch.nr; i++) {
			struct folio *folio = batch.folios[i];

			folio_lock(folio);
			if (folio->mapping == mapping && folio_test(folio, FOLIO_DIRTY))
				punch_around(&release, folio, limit);
			folio_unlock(folio);
		}
		filemap_release_folios(&batch);
	}
	punch_to(&release, end);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * zero.c - zero a byte range through the cache (section g)
 *
 * Holes and unwritten space read as zero already and are skipped, unless dirty data may lie
 * over unwritten space: that is written out first, and the map asked for again.
 */
#include "folio/charge.h"
#include "iomap/internal.h"

/* Write out the rest of the range so that the map shows what is really there (G3). */
static int flush_and_ask_again(struct iomap_iter *iter)
{
	iter->iomap.flags |= IOMAP_F_STALE;
	return filemap_write_and_wait_range(&iter->inode->i_mapping, iter->pos,
					    iter->pos + iter->len - 1);
}

static int zero_iter(struct iomap_iter *iter, bool *did_zero,
		     const struct iomap_write_ops *write_ops)
{
	while (iomap_length(iter)) {
		uint64_t bytes = iomap_length(iter);
		struct folio *folio;
		uint64_t off;
		int err;

		err = wb_balance_dirty_pages(&iter->inode->i_mapping, false);
		if (!err)
			err = iomap_write_begin(iter, write_ops, &bytes, &folio, &off);
		if (err)
			return err;
		if (iter->iomap.flags & IOMAP_F_STALE)
			return 0;
		memset(folio->data + off, 0, bytes);
		if (unlikely(env_world != NULL))
			charge_write(iter->inode, folio, iter->pos, bytes);
		if (iomap_write_end(iter, write_ops, bytes, bytes, folio) != bytes)
			return -EIO;
		if (did_zero)
			*did_zero = true;
		err = iomap_iter_advance(iter, bytes);
		if (err)
			return err;
	}
	return 0;
}

int iomap_zero_range(struct inode *inode, uint64_t pos, uint64_t len, bool *did_zero,
		     const struct iomap_ops *ops, const struct iomap_write_ops *write_ops,
		     void *private_data)
{
	struct iomap_iter iter = {
		.inode = inode,
		.pos = pos,
		.len = len,
		.flags = IOMAP_ZERO,
		.private_data = private_data,
	};
	bool range_dirty;
	int ret;

	if (!len)
		return 0;
	range_dirty = filemap_range_needs_writeback(&inode->i_mapping, pos, pos + len - 1);
	while ((ret = iomap_iter(&iter, ops)) > 0) {
		const struct iomap *src = iomap_iter_srcmap(&iter);

		if (src->type == IOMAP_UNWRITTEN && range_dirty) {
			range_dirty = false;
			iter.status = flush_and_ask_again(&iter);
		} else if (src->type == IOMAP_HOLE || src->type == IOMAP_UNWRITTEN) {
			iter.status = iomap_iter_advance(&iter, iomap_length(&iter));
		} else {
			iter.status = zero_iter(&iter, did_zero, write_ops);
		}
	}
	return ret;
}

int iomap_truncate_page(struct inode *inode, uint64_t pos, bool *did_zero,
			const struct iomap_ops *ops, const struct iomap_write_ops *write_ops,
			void *private_data)
{
	uint64_t size = 1ull << inode->i_blkbits;
	uint64_t off = pos & (size - 1);

	if (!off)
		return 0;
	return iomap_zero_range(inode, pos, size - off, did_zero, ops, write_ops, private_data);
}

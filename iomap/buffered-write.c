/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * buffered-write.c - write into the cache (section d)
 *
 * The hit path - an uptodate, dirty folio - is the index walk, one atomic step to get the folio
 * and its lock, the copy, a look at the dirty bits, one atomic step to give it back.
 */
#include "folio/charge.h"
#include "folio/copy.h"
#include "iomap/internal.h"

/* J3; whether hints are wanted at all is decided where a folio is made. */
static inline unsigned int order_hint(const struct address_space *mapping, uint64_t len)
{
	unsigned int bits = 63u - (unsigned int)__builtin_clzll(len);

	return bits > mapping->page_shift ? bits - mapping->page_shift : 0;
}

/* ---- begin -------------------------------------------------------------------------- */

static inline int get_folio(struct iomap_iter *iter, const struct iomap_write_ops *write_ops,
			    uint64_t len, struct folio **folio)
{
	struct address_space *mapping = &iter->inode->i_mapping;
	unsigned int flags = FGP_WRITEBEGIN;

	if (unlikely(write_ops && write_ops->get_folio))
		return write_ops->get_folio(iter, iter->pos, len, folio);
	if (unlikely(iter->flags & (IOMAP_NOWAIT | IOMAP_DONTCACHE))) {
		if (iter->flags & IOMAP_NOWAIT)
			flags |= FGP_NOWAIT;
		if (iter->flags & IOMAP_DONTCACHE)
			flags |= FGP_DONTCACHE;
	}
	flags |= order_hint(mapping, len) << FGP_ORDER_SHIFT;
	return filemap_get_folio(mapping, iter->pos >> mapping->page_shift, flags, folio);
}

static inline void put_folio(struct iomap_iter *iter, const struct iomap_write_ops *write_ops,
			     uint64_t copied, struct folio *folio)
{
	if (write_ops && write_ops->put_folio)
		write_ops->put_folio(iter->inode, iter->pos, copied, folio);
	else
		folio_unlock_put(folio);
}

/* Read [pos, pos + len) of the locked folio from the source map and wait. */
static int read_sync(const struct iomap_iter *iter, const struct iomap_write_ops *write_ops,
		     struct folio *folio, uint64_t pos, uint64_t len)
{
	const struct iomap *src = iomap_iter_srcmap(iter);
	struct bio bio;
	int err;

	page_cache_count_filled(folio->cache, len);
	if (write_ops && write_ops->read_folio_range)
		return write_ops->read_folio_range(iter, folio, pos, len);
	bio_init(&bio, src->bdev, BIO_READ, BIO_DATA, src->addr + (pos - src->offset));
	err = bio_add(&bio, folio->data + (pos - folio_pos(folio)), len);
	if (!err) {
		env_charge(ENV_COST_REQUEST, 1);
		err = bio_submit_wait(&bio);
	}
	bio_uninit(&bio);
	return err;
}

/*
 * Make the block at file byte `start` ready for a write of [from, to) into it (D16, D18).
 * What is zeroed becomes uptodate only with the write itself: until then it has a hole where
 * the new bytes go.
 */
static int prepare_block(const struct iomap_iter *iter, const struct iomap_write_ops *write_ops,
			 struct folio *folio, uint64_t start, uint64_t from, uint64_t to)
{
	struct inode *inode = iter->inode;
	uint64_t size = 1ull << inode->i_blkbits;
	uint64_t off = start - folio_pos(folio);
	unsigned char *block = folio->data + off;
	int err;

	if (from <= start && to >= start + size)
		return 0;
	if (ifs_block_is_uptodate(inode, folio, ifs_of(folio),
				  (unsigned int)(off >> inode->i_blkbits)))
		return 0;
	if (iomap_needs_zeroing(iter, start)) {
		if (from > start)
			memset(block, 0, from - start);
		if (to < start + size)
			memset(block + (to - start), 0, start + size - to);
		return 0;
	}
	if (iter->flags & IOMAP_NOWAIT)
		return -EAGAIN;
	err = read_sync(iter, write_ops, folio, start, size);
	if (err)
		return err;
	if (iomap_iter_srcmap(iter)->flags & IOMAP_F_ZERO_TAIL && to < start + size)
		memset(block + (to - start), 0, start + size - to);
	ifs_set_range_uptodate(inode, folio, off, size);
	return 0;
}

/* The same for unsharing: every block is needed, none may be a hole (G11). */
static int prepare_unshare(const struct iomap_iter *iter, const struct iomap_write_ops *write_ops,
			   struct folio *folio, uint64_t from, uint64_t to)
{
	struct inode *inode = iter->inode;
	uint64_t pos = folio_pos(folio);
	unsigned int bits = inode->i_blkbits;
	unsigned int block = (unsigned int)((from - pos) >> bits);
	unsigned int end = (unsigned int)((to - pos + (1ull << bits) - 1) >> bits);
	unsigned int nr;
	int err;

	while ((nr = ifs_next_uptodate_run(inode, folio, ifs_of(folio), &block, end, false)) > 0) {
		uint64_t off = (uint64_t)block << bits;
		uint64_t len = (uint64_t)nr << bits;

		if (iomap_needs_zeroing(iter, pos + off))
			return -EIO;
		err = read_sync(iter, write_ops, folio, pos + off, len);
		if (err)
			return err;
		ifs_set_range_uptodate(inode, folio, off, len);
		block += nr;
	}
	return 0;
}

static inline int prepare_folio(const struct iomap_iter *iter,
				const struct iomap_write_ops *write_ops, struct folio *folio,
				uint64_t len)
{
	struct inode *inode = iter->inode;
	uint64_t mask = (1ull << inode->i_blkbits) - 1;
	uint64_t from = iter->pos;
	uint64_t to = from + len;
	uint64_t start = pos_of(&inode->i_mapping, folio);
	uint64_t head = from & ~mask;
	uint64_t tail = (to - 1) & ~mask;
	int err = 0;

	/* All of it will be overwritten: nothing to prepare, no block state (D14). */
	if (from <= start && to >= start + size_of(&inode->i_mapping, folio) &&
	    !(iter->flags & IOMAP_UNSHARE))
		return 0;
	ifs_attach(inode, folio);
	if (likely(folio_test(folio, FOLIO_UPTODATE)))
		return 0;
	if (iter->flags & IOMAP_UNSHARE)
		return prepare_unshare(iter, write_ops, folio, from, to);
	/* Only the first and the last block can be written in part. */
	if ((from | to) & mask) {
		err = prepare_block(iter, write_ops, folio, head, from, to);
		if (!err && tail != head)
			err = prepare_block(iter, write_ops, folio, tail, from, to);
	}
	return err;
}

/* The body of iomap_write_begin(), inlined into the write loop. */
static inline int write_begin(struct iomap_iter *iter, const struct iomap_write_ops *write_ops,
			      uint64_t *len, struct folio **result, uint64_t *off)
{
	const struct address_space *mapping = &iter->inode->i_mapping;
	struct folio *folio;
	uint64_t left;
	int err;

	if (unlikely(env_task_self.local[ENV_LOCAL_CANCELLED] != 0))
		return -EINTR;
	err = get_folio(iter, write_ops, *len, &folio);
	if (unlikely(err))
		return err;
	/* Nothing under this folio can change from here to its unlock (A22). */
	if (write_ops && write_ops->iomap_valid &&
	    unlikely(!write_ops->iomap_valid(iter->inode, &iter->iomap))) {
		iter->iomap.flags |= IOMAP_F_STALE;
		put_folio(iter, write_ops, 0, folio);
		return 0;
	}
	*off = iter->pos - pos_of(mapping, folio);
	left = size_of(mapping, folio) - *off;
	if (*len > left)
		*len = left;
	if (unlikely(iomap_iter_srcmap(iter)->type == IOMAP_INLINE))
		err = iomap_iter_srcmap(iter)->offset ? -EIO : iomap_read_inline(iter, folio);
	else
		err = prepare_folio(iter, write_ops, folio, *len);
	if (unlikely(err)) {
		put_folio(iter, write_ops, 0, folio);
		return err;
	}
	*result = folio;
	return 0;
}

/* ---- end ---------------------------------------------------------------------------- */

static void write_inline(struct iomap_iter *iter, struct folio *folio, uint64_t off,
			 uint64_t copied)
{
	memcpy((unsigned char *)iter->iomap.inline_data + (iter->pos - iter->iomap.offset),
	       folio->data + off, copied);
	inode_mark_dirty(iter->inode, I_DIRTY_SYNC | I_DIRTY_DATASYNC);
}

static inline uint64_t write_end(struct iomap_iter *iter, const struct iomap_write_ops *write_ops,
				 uint64_t len, uint64_t copied, struct folio *folio)
{
	struct inode *inode = iter->inode;
	uint64_t off = iter->pos - pos_of(&inode->i_mapping, folio);
	uint64_t old_size = inode_size_read(inode);
	bool grew = false;

	/* A block filled in part cannot be described (D20); no byte dirties nothing (C26). */
	if (unlikely(copied < len)) {
		if (!folio_test(folio, FOLIO_UPTODATE))
			copied = 0;
		else
			ifs_attach(inode, folio); /* not all of it gets dirty (C20) */
	}
	if (likely(copied > 0)) {
		ifs_set_range_uptodate(inode, folio, off, len);
		if (unlikely(iter->iomap.type == IOMAP_INLINE))
			write_inline(iter, folio, off, copied);
		else
			iomap_folio_dirtied(inode, folio, off, copied);
		/* With the data in the folio, before its unlock (D22, L35). */
		if (iter->pos + copied > old_size &&
		    !(iter->flags & (IOMAP_ZERO | IOMAP_UNSHARE))) {
			inode_size_write(inode, iter->pos + copied);
			iter->iomap.flags |= IOMAP_F_SIZE_CHANGED;
			grew = true;
		}
	}
	put_folio(iter, write_ops, copied, folio);
	if (unlikely(grew && old_size < iter->pos))
		filemap_isize_extended(inode, old_size, iter->pos);
	return copied;
}

int iomap_write_begin(struct iomap_iter *iter, const struct iomap_write_ops *write_ops,
		      uint64_t *len, struct folio **folio, uint64_t *off)
{
	uint64_t usable = iomap_length(iter);
	uint64_t chunk =
		1ull << (iter->inode->i_mapping.max_order + iter->inode->i_mapping.page_shift);
	uint64_t in_chunk = chunk - (iter->pos & (chunk - 1));

	if (*len > usable)
		*len = usable;
	if (*len > in_chunk)
		*len = in_chunk;
	return write_begin(iter, write_ops, len, folio, off);
}

uint64_t iomap_write_end(struct iomap_iter *iter, const struct iomap_write_ops *write_ops,
			 uint64_t len, uint64_t copied, struct folio *folio)
{
	return write_end(iter, write_ops, len, copied, folio);
}

/* ---- the loop ----------------------------------------------------------------------- */

/*
 * A step failed or took nothing: what was created past the end of the file goes (D25, D26).
 * That may wait for a folio's lock, so a NOWAIT write leaves it to the next truncate.
 */
static void drop_past_eof(const struct iomap_iter *iter, uint64_t len)
{
	struct inode *inode = iter->inode;
	uint64_t size = inode_size_read(inode);
	uint64_t pos = iter->pos;

	if (pos + len > size && !(iter->flags & IOMAP_NOWAIT))
		filemap_truncate_range(&inode->i_mapping, pos > size ? pos : size, pos + len - 1);
}

static inline size_t copy_in(struct iov_iter *from, unsigned char *to, size_t len)
{
	if (likely(from->memory != NULL))
		copy_to_cache(to, from->memory, len);
	else
		len = from->copy(from, to, len);
	iov_iter_advance(from, len);
	return len;
}

/* The body for one map: 0 if anything was accepted under it, else the error (D9). */
static int write_iter(struct iomap_iter *iter, struct iov_iter *from,
		      const struct iomap_write_ops *write_ops)
{
	struct inode *inode = iter->inode;
	struct address_space *mapping = &inode->i_mapping;
	uint64_t chunk = 1ull << (mapping->max_order + mapping->page_shift);
	uint64_t start = iter->pos;
	uint64_t limit = UINT64_MAX; /* after a short copy: how much is known to be readable */
	int err = 0;

	do {
		uint64_t bytes = chunk - (iter->pos & (chunk - 1));
		struct folio *folio;
		uint64_t off, accepted;
		size_t copied;

		if (bytes > from->count)
			bytes = from->count;
		if (bytes > limit)
			bytes = limit;
		err = wb_balance_dirty_pages(mapping, iter->flags & IOMAP_NOWAIT);
		if (unlikely(err))
			break;
		if (bytes > iomap_length(iter))
			bytes = iomap_length(iter);
		if (from->fault_in && from->fault_in(from, bytes) == 0) {
			err = -EFAULT;
			break;
		}
		err = write_begin(iter, write_ops, &bytes, &folio, &off);
		if (unlikely(err)) {
			drop_past_eof(iter, bytes);
			break;
		}
		if (unlikely(iter->iomap.flags & IOMAP_F_STALE))
			break;
		copied = copy_in(from, folio->data + off, bytes);
		if (unlikely(env_world != NULL))
			charge_write(inode, folio, iter->pos, copied);
		accepted = write_end(iter, write_ops, bytes, copied, folio);
		limit = UINT64_MAX;
		if (likely(accepted > 0)) {
			if (unlikely(accepted < copied))
				iov_iter_revert(from, copied - accepted);
			err = iomap_iter_advance(iter, accepted);
			continue;
		}
		drop_past_eof(iter, bytes);
		iov_iter_revert(from, copied);
		if (chunk > 1ull << mapping->page_shift)
			chunk /= 2;
		if (copied)
			limit = copied;
		else if (!from->fault_in) {
			err = -EFAULT; /* nobody can tell why; it would be so for ever */
			break;
		}
	} while (!err && from->count && iomap_length(iter));
	return iter->pos > start ? 0 : err;
}

ssize_t iomap_file_buffered_write(struct kiocb *iocb, struct iov_iter *from,
				  const struct iomap_ops *ops,
				  const struct iomap_write_ops *write_ops, void *private_data)
{
	struct iomap_iter iter;
	ssize_t written;
	int err;

	/* Field by field: iomap_iter() clears the maps, which are most of it. */
	iter.iomap.length = 0;
	iter.status = 0;
	iter.inode = iocb->ki_filp->f_inode;
	iter.pos = iocb->ki_pos;
	iter.len = from->count;
	iter.flags = IOMAP_WRITE;
	iter.private_data = private_data;
	if (iocb->ki_flags & IOCB_NOWAIT)
		iter.flags |= IOMAP_NOWAIT;
	if (iocb->ki_flags & IOCB_DONTCACHE)
		iter.flags |= IOMAP_DONTCACHE;
	while ((err = iomap_iter(&iter, ops)) > 0)
		iter.status = write_iter(&iter, from, write_ops);
	written = (ssize_t)(iter.pos - iocb->ki_pos);
	if (!written)
		return err;
	env_charge(ENV_COST_WRITE_CALL, 1);
	if (unlikely(iocb->ki_flags & IOCB_DONTCACHE) && !(iocb->ki_flags & IOCB_NOWAIT))
		filemap_fdatawrite_range(&iter.inode->i_mapping, iocb->ki_pos, iter.pos - 1,
					 WB_SYNC_NONE);
	iocb->ki_pos = iter.pos;
	return written;
}

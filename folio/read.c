/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * read.c - buffered read from the cache (section e)
 *
 * A hit is one index walk, one reference, one copy; no lock of the folio (M48).
 */
#include <iomap/iomap.h>

#include "folio/charge.h"
#include "folio/copy.h"
#include "folio/internal.h"

static bool range_is_uptodate(struct folio *folio, uint64_t pos, uint64_t len)
{
	const struct address_space *mapping = folio->mapping;
	uint64_t off = pos - folio_pos(folio);

	if (folio_test(folio, FOLIO_UPTODATE))
		return true;
	if (!mapping || !mapping->a_ops->is_partially_uptodate)
		return false;
	/* One block, or all of it: the flag has said it all. */
	if (1ull << mapping->host->i_blkbits >= folio_size(folio))
		return false;
	if (off == 0 && len >= folio_size(folio))
		return false;
	return mapping->a_ops->is_partially_uptodate(folio, off, len);
}

/* Read the locked, not uptodate folio; waits for it.  0, -EIO, or the back end's errno. */
static int read_folio(struct file *file, struct folio *folio)
{
	struct address_space *mapping = folio->mapping;
	int err;

	env_lockdep_release(folio);
	err = mapping->a_ops->read_folio(file, folio);
	if (err) {
		folio_end_read(folio, false); /* no read was started */
		return err;
	}
	folio_wait_locked(folio);
	if (folio_test(folio, FOLIO_UPTODATE))
		return 0;
	__atomic_store_n(&file->f_ra.ra_pages,
			 __atomic_load_n(&file->f_ra.ra_pages, __ATOMIC_RELAXED) / 4,
			 __ATOMIC_RELAXED);
	return -EIO;
}

/*
 * Make [pos, pos + len) of the folio readable (E4).  0; -EAGAIN; -EIO; 1: look it up again.
 */
static int make_uptodate(struct kiocb *iocb, struct folio *folio, uint64_t pos, uint64_t len)
{
	struct address_space *mapping = &iocb->ki_filp->f_inode->i_mapping;
	bool nowait = iocb->ki_flags & IOCB_NOWAIT;
	int err = 0;

	if (nowait) {
		if (!env_rwsem_read_trylock(&mapping->invalidate_lock))
			return -EAGAIN;
	} else {
		env_rwsem_read_lock(&mapping->invalidate_lock);
	}
	if (!folio_trylock(folio)) {
		env_rwsem_read_unlock(&mapping->invalidate_lock);
		if (nowait)
			return -EAGAIN;
		folio_wait_locked(folio);
		return 1;
	}
	if (folio->mapping != mapping)
		err = 1;
	else if (range_is_uptodate(folio, pos, len))
		err = 0;
	else if (nowait)
		err = -EAGAIN;
	else {
		err = read_folio(iocb->ki_filp, folio);
		env_rwsem_read_unlock(&mapping->invalidate_lock);
		return err;
	}
	folio_unlock(folio);
	env_rwsem_read_unlock(&mapping->invalidate_lock);
	return err;
}

/* Nothing is cached at pos: readahead, then at least one folio (E2). */
static int read_absent(struct kiocb *iocb, uint64_t index, uint64_t request, struct folio **result)
{
	struct file *file = iocb->ki_filp;
	struct address_space *mapping = &file->f_inode->i_mapping;
	uint64_t aligned = index & ~((1ull << mapping->min_order) - 1);
	struct folio *folio;
	int err;

	if (iocb->ki_flags & IOCB_NOWAIT)
		return -EAGAIN;
	if (env_task_self.local[ENV_LOCAL_CANCELLED])
		return -EINTR;
	readahead_sync(file, index, request);
	folio = filemap_lookup(mapping, index);
	if (!folio) {
		env_rwsem_read_lock(&mapping->invalidate_lock);
		err = filemap_alloc_folio(mapping, aligned, mapping->min_order, ALLOC_WAIT, &folio);
		if (!err) {
			err = filemap_add_folio(mapping, folio, aligned);
			if (err) {
				folio_unlock_put(folio);
			} else {
				err = read_folio(file, folio);
				if (err)
					folio_put(folio);
			}
		}
		env_rwsem_read_unlock(&mapping->invalidate_lock);
		if (err)
			return err == -EEXIST ? 1 : err;
	}
	*result = folio;
	return 0;
}

/* Copy bytes out; returns how many. */
static size_t copy_out(struct iov_iter *iter, const unsigned char *from, size_t len)
{
	if (likely(iter->memory != NULL))
		copy_from_cache(iter->memory, from, len);
	else
		len = iter->copy(iter, (void *)from, len);
	iov_iter_advance(iter, len);
	return len;
}

static void drop_after_read(struct folio *folio)
{
	if (folio_test(folio, FOLIO_DIRTY | FOLIO_WRITEBACK) || !folio_trylock(folio))
		return;
	if (folio->mapping)
		filemap_evict_folio(folio);
	folio_unlock(folio);
}

ssize_t filemap_read(struct kiocb *iocb, struct iov_iter *iter)
{
	struct file *file = iocb->ki_filp;
	struct inode *inode = file->f_inode;
	struct address_space *mapping = &inode->i_mapping;
	unsigned int shift = mapping->page_shift;
	size_t total = 0;
	int err = 0;

	env_charge(ENV_COST_READ_CALL, 1);
	while (iter->count) {
		uint64_t pos = iocb->ki_pos;
		uint64_t size = inode_size_read(inode);
		uint64_t index = pos >> shift;
		uint64_t last = (pos + iter->count + (1ull << shift) - 1) >> shift;
		struct folio *folio;
		uint64_t off;
		size_t len, copied;

		if (pos >= size)
			break;
		folio = filemap_lookup(mapping, index);
		if (unlikely(!folio)) {
			err = read_absent(iocb, index, last - index, &folio);
			if (err == 1)
				continue;
			if (err)
				break;
		}
		if (unlikely(folio_test(folio, FOLIO_READAHEAD))) {
			if (!(iocb->ki_flags & IOCB_NOWAIT))
				readahead_async(file, folio, last - folio->index);
		}
		off = pos - (folio->index << shift);
		len = (1ull << (folio_order(folio) + shift)) - off;
		len = iter->count < len ? iter->count : len;
		if (unlikely(!folio_test(folio, FOLIO_UPTODATE))) {
			uint64_t in_file = pos + len < size ? len : size - pos;

			err = make_uptodate(iocb, folio, pos, in_file);
			if (err) {
				folio_put(folio);
				if (err == 1)
					continue;
				break;
			}
			/* What lies behind is not known good, whatever the size is by now. */
			len = in_file;
		}
		/* Sampled after the folio is known good (E5). */
		size = inode_size_read(inode);
		if (pos >= size) {
			folio_put(folio);
			break;
		}
		if (len > size - pos)
			len = size - pos;
		copied = copy_out(iter, folio->data + off, len);
		if (unlikely(env_world != NULL))
			charge_read(inode, pos, copied);
		if (!folio_test(folio, FOLIO_REFERENCED))
			folio_set(folio, FOLIO_REFERENCED);
		if (unlikely(folio_test(folio, FOLIO_DROPBEHIND)))
			drop_after_read(folio);
		folio_put(folio);
		iocb->ki_pos += copied;
		total += copied;
		__atomic_store_n(&file->f_ra.prev_index, (iocb->ki_pos - 1) >> shift,
				 __ATOMIC_RELAXED);
		if (copied < len) {
			err = -EFAULT;
			break;
		}
	}
	return total ? (ssize_t)total : err == 1 ? 0 : err;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fallocate.c - space of a file made, taken, moved: the modes of fallocate(2)
 *
 * All of it is done alone (L20), in the cache before the back end's map.  Dirty data that lies over
 * what changes is written first: in a folio that is only partly concerned it would stay, and be
 * written later over the hole (G10).
 */
#include "base.h"
#include "internal.h"

#include <errno.h>

/* The range in bytes, and the blocks that it touches and covers. */
struct range {
	uint64_t pos;
	uint64_t end;
	uint64_t touched_pos, touched_end;
	uint64_t covered_pos, covered_end; /* covered_pos >= covered_end: none */
};

static struct range range_of(const struct inode *inode, uint64_t pos, uint64_t len)
{
	uint64_t mask = inode->i_sb->s_blocksize - 1;
	uint64_t end = pos + len;

	return (struct range){
		.pos = pos,
		.end = end,
		.touched_pos = pos & ~mask,
		.touched_end = (end + mask) & ~mask,
		.covered_pos = (pos + mask) & ~mask,
		.covered_end = end & ~mask,
	};
}

static bool is_whole_blocks(const struct range *range)
{
	return range->pos == range->touched_pos && range->end == range->touched_end;
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* ---- space made ----------------------------------------------------------------------------- */

static int fill_holes(struct inode *inode, const struct range *range, bool keep_size)
{
	const struct fs_backend *backend = fs_of(inode)->backend;
	int err = backend->fallocate(fs_inode_from(inode), range->touched_pos,
				     range->touched_end - range->touched_pos);

	if (!err && !keep_size && range->end > inode_size_read(inode))
		err = fs_grow(inode, range->end);
	return err;
}

/* ---- space taken ---------------------------------------------------------------------------- */

/* What lies behind the end of the file reads as zero already, and must not be cached (G6). */
static int zero(struct inode *inode, uint64_t pos, uint64_t end)
{
	const struct fs_backend *backend = fs_of(inode)->backend;

	end = min_u64(end, inode_size_read(inode));
	if (pos >= end)
		return 0;
	return iomap_zero_range(inode, pos, end - pos, NULL, backend->write_ops, backend->folio_ops,
				NULL);
}

/* Blocks of which only a part is in the range. */
static int zero_edges(struct inode *inode, const struct range *range)
{
	int err;

	if (range->covered_pos >= range->covered_end)
		return zero(inode, range->pos, range->end);
	err = zero(inode, range->pos, range->covered_pos);
	return err ? err : zero(inode, range->covered_end, range->end);
}

/* G10 */
static int punch_hole(struct inode *inode, const struct range *range)
{
	struct address_space *mapping = &inode->i_mapping;
	int err;

	err = filemap_write_and_wait_range(mapping, range->touched_pos, range->touched_end - 1);
	if (!err)
		err = zero_edges(inode, range);
	if (err || range->covered_pos >= range->covered_end)
		return err;
	filemap_truncate_range(mapping, range->covered_pos, range->covered_end - 1);
	return fs_of(inode)->backend->punch(fs_inode_from(inode), range->covered_pos,
					    range->covered_end - range->covered_pos);
}

/* Old contents go with their space; unwritten space comes in its place. */
static int zero_range(struct inode *inode, const struct range *range, bool keep_size)
{
	int err = punch_hole(inode, range);

	return err ? err : fill_holes(inode, range, keep_size);
}

/* ---- space moved ---------------------------------------------------------------------------- */

/* Nothing from pos on is cached any more, and the device has it all. */
static int forget_from(struct inode *inode, uint64_t pos)
{
	struct address_space *mapping = &inode->i_mapping;
	int err = filemap_write_and_wait_range(mapping, pos, UINT64_MAX);

	if (err)
		return err;
	return filemap_invalidate(mapping, pos >> mapping->page_shift,
				  UINT64_MAX >> mapping->page_shift);
}

static int collapse_range(struct inode *inode, const struct range *range)
{
	uint64_t size = inode_size_read(inode);
	uint64_t len = range->end - range->pos;
	int err;

	if (!is_whole_blocks(range) || range->end >= size)
		return -EINVAL;
	err = forget_from(inode, range->pos);
	if (!err)
		err = fs_of(inode)->backend->collapse(fs_inode_from(inode), range->pos, len,
						      size - len);
	if (!err)
		inode_size_write(inode, size - len);
	return err;
}

static int insert_range(struct inode *inode, const struct range *range)
{
	uint64_t size = inode_size_read(inode);
	uint64_t len = range->end - range->pos;
	int err;

	if (!is_whole_blocks(range) || range->pos >= size)
		return -EINVAL;
	if (len > FS_MAX_SIZE - size)
		return -EFBIG;
	err = forget_from(inode, range->pos);
	if (!err)
		err = fs_of(inode)->backend->insert(fs_inode_from(inode), range->pos, len,
						    size + len);
	if (!err)
		inode_size_write(inode, size + len);
	return err;
}

/* ---- the call ------------------------------------------------------------------------------- */

static int fallocate_alone(struct inode *inode, unsigned int mode, const struct range *range)
{
	switch (mode) {
	case 0:
	case FS_FALLOC_KEEP_SIZE:
		return fill_holes(inode, range, mode & FS_FALLOC_KEEP_SIZE);
	case FS_FALLOC_PUNCH_HOLE | FS_FALLOC_KEEP_SIZE:
		return punch_hole(inode, range);
	case FS_FALLOC_ZERO_RANGE:
	case FS_FALLOC_ZERO_RANGE | FS_FALLOC_KEEP_SIZE:
		return zero_range(inode, range, mode & FS_FALLOC_KEEP_SIZE);
	case FS_FALLOC_COLLAPSE_RANGE:
		return collapse_range(inode, range);
	case FS_FALLOC_INSERT_RANGE:
		return insert_range(inode, range);
	}
	return -EOPNOTSUPP;
}

int fs_fallocate(struct file *file, unsigned int mode, uint64_t pos, uint64_t len)
{
	struct inode *inode = file->f_inode;
	struct range range;
	int err;

	if (fs_is_readonly(file))
		return -EBADF;
	if (len == 0)
		return -EINVAL;
	if (pos > FS_MAX_SIZE || len > FS_MAX_SIZE - pos)
		return -EFBIG;
	range = range_of(inode, pos, len);
	fs_lock_alone(inode);
	err = fallocate_alone(inode, mode, &range);
	fs_unlock_alone(inode);
	return err;
}

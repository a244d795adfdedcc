/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * map.c - from file blocks to device blocks: look up, promise, place, give back
 *
 * A write over a hole only promises space: a delayed record is put into the map and its blocks
 * are taken from the global count (XF8, XF10).  Writeback places the whole record at once
 * (XF15).  A write over what is there already is a look-up under the shared lock.
 */
#include "internal.h"

#include <errno.h>

#include "target.h"
#include "ialloc.h"

/* A write reserves at most so many pages at a time (XF10). */
#define MAX_RESERVED_PAGES 1024

/* ---- describing -------------------------------------------------------------------------- */

static inline void describe_at(const struct xfs_inode *ip, const struct extent *extent,
			       uint64_t seq, struct iomap *iomap)
{
	static const uint16_t types[] = {
		[EXTENT_NORM] = IOMAP_MAPPED,
		[EXTENT_UNWRITTEN] = IOMAP_UNWRITTEN,
		[EXTENT_DELAYED] = IOMAP_DELALLOC,
	};
	unsigned int bits = ip->node.inode.i_blkbits;

	iomap->type = types[extent->state];
	iomap->offset = extent->file << bits;
	iomap->length = extent->len << bits;
	iomap->addr = extent->state == EXTENT_DELAYED ? IOMAP_NULL_ADDR : extent->start << bits;
	iomap->bdev = ip->node.fs->bdev;
	iomap->validity_cookie = seq;
}

void xfs_map_describe(const struct xfs_inode *ip, const struct extent *extent, struct iomap *iomap)
{
	describe_at(ip, extent, ip->seq, iomap);
}

void xfs_map_describe_hole(const struct xfs_inode *ip, uint64_t file, uint64_t end,
			   struct iomap *iomap)
{
	unsigned int bits = ip->node.inode.i_blkbits;

	iomap->type = IOMAP_HOLE;
	iomap->offset = file << bits;
	iomap->length = (end - file) << bits;
	iomap->addr = IOMAP_NULL_ADDR;
	iomap->validity_cookie = ip->seq;
}

/* The record with the block, or false with *hole_end, at most `end`, where the hole ends. */
static inline bool find_record(const struct xfs_inode *ip, uint64_t block, uint64_t end,
			       struct extent *extent, uint64_t *hole_end)
{
	bool found = extent_map_find(&ip->map, block, extent);

	if (found && extent->file <= block)
		return true;
	*hole_end = found && extent->file < end ? extent->file : end;
	return false;
}

/* ---- changes ----------------------------------------------------------------------------- */

void xfs_map_bump(struct xfs_inode *ip)
{
	__atomic_store_n(&ip->seq, ip->seq + 1, __ATOMIC_RELEASE);
}

static void set_last_data(struct xfs_inode *ip, uint64_t ag, uint64_t end)
{
	__atomic_store_n(&ip->data_ag, ag, __ATOMIC_RELAXED);
	ip->data_end = end;
}

/* New real blocks: maybe the last ones of the file now (W15). */
static void note_data(struct xfs_inode *ip, uint64_t file, uint64_t len, uint64_t start)
{
	const struct xfs_geometry *geometry = &xfs_of(&ip->node.inode)->space.geometry;

	if (file + len >= ip->data_end)
		set_last_data(ip, xfs_place_of(geometry, start).ag, file + len);
}

/* Look for the last real blocks. */
static void find_last_data(struct xfs_inode *ip)
{
	const struct xfs_geometry *geometry = &xfs_of(&ip->node.inode)->space.geometry;
	struct extent extent;
	bool found;

	found = extent_map_last(&ip->map, &extent);
	while (found && extent.state == EXTENT_DELAYED)
		found = extent_map_find_before(&ip->map, extent.file, &extent);
	if (found)
		set_last_data(ip, xfs_place_of(geometry, extent.start).ag,
			      extent.file + extent.len);
	else
		set_last_data(ip, XFS_NO_AG, 0);
}

/* Real blocks from `file` on may have gone. */
static void note_data_gone(struct xfs_inode *ip, uint64_t file)
{
	if (file < ip->data_end)
		find_last_data(ip);
}

static void give_back_piece(void *arg, const struct extent *piece)
{
	struct xfs_inode *ip = arg;
	struct xfs_space *space = &xfs_of(&ip->node.inode)->space;

	if (piece->state == EXTENT_DELAYED)
		xfs_space_unreserve(space, piece->len + piece->reserved);
	else
		xfs_free(space, piece->start, piece->len, NULL);
}

int xfs_map_remove(struct xfs_inode *ip, uint64_t file, uint64_t end, bool only_delayed)
{
	struct extent next;
	int err;

	if (!extent_map_find(&ip->map, file, &next) || next.file >= end)
		return 0;
	err = extent_map_remove(&ip->map, file, end - file, only_delayed, give_back_piece, ip);
	if (err)
		return err;
	xfs_map_bump(ip);
	if (!only_delayed) {
		note_data_gone(ip, file);
		xfs_mark_meta(ip);
	}
	return 0;
}

static void note_moved(struct xfs_inode *ip)
{
	xfs_map_bump(ip);
	find_last_data(ip);
	xfs_mark_meta(ip);
}

int xfs_map_collapse(struct xfs_inode *ip, uint64_t file, uint64_t end)
{
	int err = xfs_map_remove(ip, file, UINT64_MAX, true);

	if (!err)
		err = extent_map_collapse(&ip->map, file, end - file, give_back_piece, ip);
	if (!err)
		note_moved(ip);
	return err;
}

int xfs_map_insert_hole(struct xfs_inode *ip, uint64_t file, uint64_t end)
{
	int err = xfs_map_remove(ip, file, UINT64_MAX, true);

	if (!err)
		err = extent_map_insert_hole(&ip->map, file, end - file);
	if (!err)
		note_moved(ip);
	return err;
}

/* ---- placing ----------------------------------------------------------------------------- */

/*
 * XF32: the stream owns some groups, the last one the rest too; which of them comes from the
 * inode number.
 */
static struct xfs_place stream_target(struct xfs_inode *ip)
{
	const struct xfs *xfs = xfs_of(&ip->node.inode);
	uint64_t nr_ags = xfs->space.geometry.nr_ags;
	uint64_t streams = xfs->options.streams;
	uint64_t stream = xfs_stream_of(ip);
	uint64_t set = nr_ags / streams;
	struct xfs_place place = xfs_ino_place(&xfs->space.geometry, ip->node.inode.i_ino);
	uint64_t ag;

	if (set == 0)
		ag = stream % nr_ags;
	else if (stream == streams - 1)
		ag = stream * set + ip->node.inode.i_ino % (nr_ags - stream * set);
	else
		ag = stream * set + ip->node.inode.i_ino % set;
	return ag == place.ag ? place : (struct xfs_place){ag, 0};
}

/* XF16, XF6: beside the inode; or anywhere, for the first data in inode32 mode. */
static struct xfs_place default_target(struct xfs_inode *ip)
{
	struct xfs *xfs = xfs_of(&ip->node.inode);
	uint64_t nr_ags = xfs->space.geometry.nr_ags;

	if (xfs->options.streams > 1)
		return stream_target(ip);
	if (xfs->options.inode32 && ip->data_ag == XFS_NO_AG)
		return (struct xfs_place){
			__atomic_fetch_add(&xfs->space.data_rotor, 1, __ATOMIC_RELAXED) % nr_ags,
			0};
	return xfs_ino_place(&xfs->space.geometry, ip->node.inode.i_ino);
}

/* Place up to len blocks of a delayed record from its start; false in `delayed`: of a hole. */
static int place_blocks(struct xfs_inode *ip, uint64_t file, uint64_t len, bool delayed,
			uint64_t *start, uint64_t *got)
{
	struct xfs *xfs = xfs_of(&ip->node.inode);
	const struct xfs_geometry *geometry = &xfs->space.geometry;
	bool keep_gap = xfs->options.gap_rule;
	struct xfs_alloc_request request = {.len = len, .inode = &ip->node.inode};
	bool has_target;

	if (delayed)
		has_target = xfs_target_delayed(geometry, &ip->map, file, len, keep_gap,
						&request.target);
	else
		has_target =
			xfs_target_direct(geometry, &ip->map, file, len, keep_gap, &request.target);
	if (!has_target)
		request.target = default_target(ip);
	return xfs_alloc(&xfs->space, &request, start, got);
}

/* Place the first part of a delayed record. */
static int convert_record(struct xfs_inode *ip, const struct extent *record)
{
	struct xfs_space *space = &xfs_of(&ip->node.inode)->space;
	uint32_t map_blocks = 0;
	uint64_t start, len;
	int err;

	err = place_blocks(ip, record->file, record->len, true, &start, &len);
	if (err)
		return err;
	err = extent_map_convert(&ip->map, record->file, len, start, EXTENT_UNWRITTEN, &map_blocks);
	if (err) {
		xfs_free_claimed(space, start, len, &ip->node.inode);
		return err;
	}
	xfs_space_use_reserved(space, len);
	xfs_space_unreserve(space, map_blocks);
	note_data(ip, record->file, len, start);
	xfs_map_bump(ip);
	xfs_mark_meta(ip);
	return 0;
}

static bool find_delayed(const struct xfs_inode *ip, uint64_t block, struct extent *record)
{
	return extent_map_find(&ip->map, block, record) && record->file <= block &&
	       record->state == EXTENT_DELAYED;
}

int xfs_map_convert_delayed(struct xfs_inode *ip, uint64_t block, bool *left)
{
	struct extent record;
	int err = 0;

	if (find_delayed(ip, block, &record))
		err = convert_record(ip, &record);
	*left = !err && find_delayed(ip, block, &record);
	return err;
}

int xfs_map_fill_hole(struct xfs_inode *ip, uint64_t file, uint64_t *len)
{
	struct xfs_space *space = &xfs_of(&ip->node.inode)->space;
	struct extent extent = {.file = file, .state = EXTENT_UNWRITTEN};
	uint64_t wanted = *len < XFS_MAX_EXTENT ? *len : XFS_MAX_EXTENT;
	int err;

	err = xfs_space_claim(space, wanted);
	if (err)
		return err;
	err = place_blocks(ip, file, wanted, false, &extent.start, &extent.len);
	if (err) {
		xfs_space_unclaim(space, wanted);
		return err;
	}
	xfs_space_unclaim(space, wanted - extent.len);
	err = extent_map_insert(&ip->map, &extent);
	if (err) {
		xfs_free(space, extent.start, extent.len, &ip->node.inode);
		return err;
	}
	note_data(ip, file, extent.len, extent.start);
	xfs_map_bump(ip);
	xfs_mark_meta(ip);
	*len = extent.len;
	return 0;
}

/* ---- promising (XF10) -------------------------------------------------------------------- */

/* A delayed record over the hole [file, end). */
static int reserve(struct xfs_inode *ip, uint64_t file, uint64_t end)
{
	struct xfs_space *space = &xfs_of(&ip->node.inode)->space;
	uint64_t len = end - file < XFS_MAX_EXTENT ? end - file : XFS_MAX_EXTENT;
	struct extent extent = {
		.file = file,
		.start = EXTENT_NO_START,
		.len = len,
		.state = EXTENT_DELAYED,
		.reserved = xfs_worst_map_blocks(len, space->geometry.block_size),
	};
	int err;

	err = xfs_space_reserve(space, len + extent.reserved);
	if (err)
		return err;
	err = extent_map_insert(&ip->map, &extent);
	if (err) {
		xfs_space_unreserve(space, len + extent.reserved);
		return err;
	}
	xfs_map_bump(ip);
	return 0;
}

/* Where the delayed record of a write to [pos, end) at the end of the file shall end. */
static uint64_t prealloc_end(const struct xfs_inode *ip, uint64_t pos, uint64_t end)
{
	const struct inode *inode = &ip->node.inode;
	const struct xfs *xfs = xfs_of(inode);
	uint64_t i_size = inode_size_read(inode);
	struct xfs_prealloc prealloc = {
		.mode = xfs->options.eof_prealloc,
		.blkbits = inode->i_blkbits,
		.allocsize = xfs->options.allocsize,
		.total = xfs->space.total,
		.available = xfs_space_available(&xfs->space),
	};

	if (end <= i_size)
		return 0;
	return xfs_eof_prealloc_end(&prealloc, &ip->map, i_size, pos, end);
}

/* XF10 (1): with an extent-size hint blocks are chosen at write time, whole multiples of it. */
static bool allocates_late(const struct xfs *xfs, unsigned int flags)
{
	return xfs->options.delalloc && xfs->options.extsize == 0 && !(flags & IOMAP_DIRECT);
}

/* Widen the hole [*file, *end) to the extent size as far as it is one. */
static void round_to_extsize(const struct xfs_inode *ip, uint64_t *file, uint64_t *end)
{
	const struct inode *inode = &ip->node.inode;
	uint64_t size = xfs_of(inode)->options.extsize >> inode->i_blkbits;
	uint64_t from = *file / size * size;
	uint64_t to = (*end + size - 1) / size * size;
	struct extent extent;

	if (extent_map_find_before(&ip->map, *file, &extent) && extent.file + extent.len > from)
		from = extent.file + extent.len;
	if (extent_map_find(&ip->map, *file, &extent) && extent.file < to)
		to = extent.file;
	*file = from;
	*end = to;
}

/*
 * Blocks for the hole [file, end) now; maybe more than that, maybe less, but some for `file`.
 * Without space for whole extents it gets what it needs.
 */
static int fill_now(struct xfs_inode *ip, uint64_t file, uint64_t end)
{
	uint64_t from = file;
	uint64_t to = end;
	uint64_t len = end - file;
	int err = -ENOSPC;

	if (xfs_of(&ip->node.inode)->options.extsize > 0) {
		round_to_extsize(ip, &from, &to);
		while ((len = to - from) > 0 && from <= file) {
			err = xfs_map_fill_hole(ip, from, &len);
			if (err)
				break;
			from += len;
		}
		if (from > file)
			return 0;
	}
	len = end - file;
	return err == -ENOSPC ? xfs_map_fill_hole(ip, file, &len) : err;
}

/* Space for a write to [pos, end), whose first block is in a hole that ends at hole_end. */
static int make_space(struct xfs_inode *ip, uint64_t pos, uint64_t end, uint64_t hole_end,
		      bool delayed)
{
	uint64_t block = pos >> ip->node.inode.i_blkbits;
	struct extent last;

	if (!delayed)
		return fill_now(ip, block, hole_end);

	if (!extent_map_last(&ip->map, &last) || last.file < block) {
		uint64_t wish = prealloc_end(ip, pos, end);
		int err = wish > hole_end ? reserve(ip, block, wish) : -ENOSPC;

		if (err != -ENOSPC)
			return err;
	}
	return reserve(ip, block, hole_end);
}

/* The look-up found a hole: again, and fill it.  => map_lock is held exclusively */
static int begin_in_hole_locked(struct xfs_inode *ip, uint64_t pos, uint64_t len, bool delayed,
				struct iomap *iomap)
{
	struct inode *inode = &ip->node.inode;
	uint64_t most = (uint64_t)MAX_RESERVED_PAGES << inode->i_mapping.page_shift;
	uint64_t end = pos + (len < most ? len : most);
	uint64_t block = pos >> inode->i_blkbits;
	uint64_t hole_end;
	struct extent extent;
	int err = 0;

	if (!find_record(ip, block, xfs_blocks_up(inode, end), &extent, &hole_end)) {
		err = make_space(ip, pos, end, hole_end, delayed);
		if (!err) {
			extent_map_find(&ip->map, block, &extent);
			iomap->flags |= IOMAP_F_NEW;
		}
	}
	if (!err)
		xfs_map_describe(ip, &extent, iomap);
	return err;
}

static int begin_in_hole(struct xfs_inode *ip, uint64_t pos, uint64_t len, unsigned int flags,
			 struct iomap *iomap)
{
	struct xfs *xfs = xfs_of(&ip->node.inode);
	bool delayed = allocates_late(xfs, flags);
	int err;

	if (!delayed)
		xfs_log_begin(&xfs->log, XFS_TRANS_ALLOC, &ip->node.inode);
	env_rwsem_write_lock(&ip->map_lock);
	err = begin_in_hole_locked(ip, pos, len, delayed, iomap);
	env_rwsem_write_unlock(&ip->map_lock);
	if (!delayed && iomap->flags & IOMAP_F_NEW)
		xfs_log_end(&xfs->log, XFS_TRANS_ALLOC, &ip->logged);
	else if (!delayed)
		xfs_log_cancel(&xfs->log, XFS_TRANS_ALLOC);
	return err;
}

/* ---- begin and end ----------------------------------------------------------------------- */

static inline bool lock_shared(struct xfs_inode *ip, unsigned int flags)
{
	if (env_unlikely(flags & IOMAP_NOWAIT))
		return env_rwsem_read_trylock(&ip->map_lock);
	env_rwsem_read_lock(&ip->map_lock);
	return true;
}

static int read_begin(struct inode *inode, uint64_t pos, uint64_t len, unsigned int flags,
		      struct iomap *iomap, struct iomap *srcmap)
{
	struct xfs_inode *ip = xfs_inode_from(inode);
	uint64_t block = pos >> inode->i_blkbits;
	uint64_t hole_end;
	struct extent extent;

	(void)srcmap;
	if (!lock_shared(ip, flags))
		return -EAGAIN;
	if (find_record(ip, block, xfs_blocks_up(inode, pos + len), &extent, &hole_end))
		xfs_map_describe(ip, &extent, iomap);
	else
		xfs_map_describe_hole(ip, block, hole_end, iomap);
	env_rwsem_read_unlock(&ip->map_lock);
	return 0;
}

/*
 * Preallocation behind the end of the file reads as zeroes without help: it shall not become
 * dirty cache that nobody would write.  => the map is DELALLOC and contains pos
 */
static void cut_at_eof(const struct inode *inode, uint64_t pos, struct iomap *iomap)
{
	uint64_t eof = xfs_blocks_up(inode, inode_size_read(inode)) << inode->i_blkbits;
	uint64_t end = iomap->offset + iomap->length;

	if (pos >= eof) {
		iomap->type = IOMAP_UNWRITTEN;
		iomap->offset = iomap->offset > eof ? iomap->offset : eof;
	} else {
		end = end < eof ? end : eof;
	}
	iomap->length = end - iomap->offset;
}

/* Without the lock.  If it is not true any more the check under the folio lock tells (A22). */
static inline bool describe_hinted(const struct xfs_inode *ip, uint64_t block, struct iomap *iomap)
{
	uint64_t seq = __atomic_load_n(&ip->seq, __ATOMIC_ACQUIRE);
	struct extent extent;

	if (!map_hint_get(&ip->hint, seq, block, &extent))
		return false;
	describe_at(ip, &extent, seq, iomap);
	return true;
}

/* The record with the block; or false, with *hole_end as of find_record().  => map_lock is held */
static inline bool describe_found(struct xfs_inode *ip, uint64_t block, uint64_t end,
				  uint64_t *hole_end, struct iomap *iomap)
{
	struct extent extent;

	if (!find_record(ip, block, end, &extent, hole_end))
		return false;
	xfs_map_describe(ip, &extent, iomap);
	map_hint_put(&ip->hint, ip->seq, &extent);
	return true;
}

static int overwrite_begin(struct inode *inode, uint64_t pos, uint64_t len, unsigned int flags,
			   struct iomap *iomap, struct iomap *srcmap)
{
	struct xfs_inode *ip = xfs_inode_from(inode);
	uint64_t block = pos >> inode->i_blkbits;
	uint64_t hole_end;
	bool found;

	(void)srcmap;
	xfs_mark_time(ip);
	if (env_likely(describe_hinted(ip, block, iomap)))
		return 0;
	if (!lock_shared(ip, flags))
		return -EAGAIN;
	found = describe_found(ip, block, xfs_blocks_up(inode, pos + len), &hole_end, iomap);
	env_rwsem_read_unlock(&ip->map_lock);
	return found ? 0 : -EAGAIN;
}

static int write_begin(struct inode *inode, uint64_t pos, uint64_t len, unsigned int flags,
		       struct iomap *iomap, struct iomap *srcmap)
{
	struct xfs_inode *ip = xfs_inode_from(inode);
	uint64_t block = pos >> inode->i_blkbits;
	uint64_t hole_end;

	(void)srcmap;
	if (flags & IOMAP_WRITE) {
		xfs_mark_time(ip);
		if (env_likely(describe_hinted(ip, block, iomap)))
			return 0;
	}
	if (!lock_shared(ip, flags))
		return -EAGAIN;
	if (env_likely(
		    describe_found(ip, block, xfs_blocks_up(inode, pos + len), &hole_end, iomap))) {
		env_rwsem_read_unlock(&ip->map_lock);
		if (env_unlikely(flags & IOMAP_ZERO) && iomap->type == IOMAP_DELALLOC)
			cut_at_eof(inode, pos, iomap);
		return 0;
	}
	if (!(flags & IOMAP_WRITE) || (flags & IOMAP_UNSHARE)) {
		xfs_map_describe_hole(ip, block, hole_end, iomap);
		env_rwsem_read_unlock(&ip->map_lock);
		return 0;
	}
	env_rwsem_read_unlock(&ip->map_lock);
	if (flags & IOMAP_NOWAIT)
		return -EAGAIN;
	return begin_in_hole(ip, pos, len, flags, iomap);
}

/*
 * D36.  If there is no memory to cut a record the promise stays with the file: it is kept until
 * the file is cut, written there, or goes.
 */
static void punch_delayed(struct inode *inode, uint64_t pos, uint64_t len, void *arg)
{
	struct xfs_inode *ip = xfs_inode_from(inode);

	(void)arg;
	env_rwsem_write_lock(&ip->map_lock);
	xfs_map_remove(ip, pos >> inode->i_blkbits, xfs_blocks_up(inode, pos + len), true);
	env_rwsem_write_unlock(&ip->map_lock);
}

static void release_clean(struct inode *inode, const struct extent *record)
{
	unsigned int bits = inode->i_blkbits;

	iomap_write_delalloc_release(inode, record->file << bits,
				     (record->file + record->len) << bits, punch_delayed, NULL);
}

void xfs_map_release_beside(struct xfs_inode *ip, uint64_t file, uint64_t end)
{
	struct extent before, behind;
	bool has_before, has_behind;

	env_rwsem_read_lock(&ip->map_lock);
	has_before = extent_map_find_before(&ip->map, file, &before) &&
		     before.file + before.len == file && before.state == EXTENT_DELAYED;
	has_behind = extent_map_find(&ip->map, end, &behind) && behind.file == end &&
		     behind.state == EXTENT_DELAYED;
	env_rwsem_read_unlock(&ip->map_lock);
	if (has_before)
		release_clean(&ip->node.inode, &before);
	if (has_behind)
		release_clean(&ip->node.inode, &behind);
}

/* Give back what a short write did not use (D32, D33). */
static int write_end(struct inode *inode, uint64_t pos, uint64_t len, uint64_t written,
		     unsigned int flags, struct iomap *iomap)
{
	uint64_t block_mask = inode->i_sb->s_blocksize - 1;
	uint64_t start, end;

	if (env_likely(!(iomap->flags & IOMAP_F_NEW)) || iomap->type != IOMAP_DELALLOC ||
	    flags & IOMAP_FAULT)
		return 0;
	start = written == 0 ? pos & ~block_mask : (pos + written + block_mask) & ~block_mask;
	end = (pos + len + block_mask) & ~block_mask;
	if (start >= end)
		return 0;

	if (!(flags & (IOMAP_UNSHARE | IOMAP_ZERO)))
		env_rwsem_write_lock(&inode->i_mapping.invalidate_lock);
	iomap_write_delalloc_release(inode, start, end, punch_delayed, NULL);
	if (!(flags & (IOMAP_UNSHARE | IOMAP_ZERO)))
		env_rwsem_write_unlock(&inode->i_mapping.invalidate_lock);
	return 0;
}

static bool map_is_valid(struct inode *inode, const struct iomap *iomap)
{
	return xfs_map_is_valid(xfs_inode_from(inode), iomap);
}

const struct iomap_ops xfs_read_ops = {
	.iomap_begin = read_begin,
};

const struct iomap_ops xfs_write_ops = {
	.iomap_begin = write_begin,
	.iomap_end = write_end,
};

const struct iomap_ops xfs_overwrite_ops = {
	.iomap_begin = overwrite_begin,
};

const struct iomap_write_ops xfs_folio_ops = {
	.iomap_valid = map_is_valid,
};

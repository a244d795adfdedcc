/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * writeback.c - from dirty folios to real blocks, and what follows when they are written
 *
 * A pass keeps the last map as long as the file's records do not change (F12).  A delayed
 * record under a dirty block is placed as a whole and is unwritten until its data has arrived
 * (XF15); then a completion worker takes all the file's finished ioends, sorts and joins them,
 * and makes each range written with one transaction (XF25).
 */
#include "internal.h"

#include <errno.h>

#include <iomap/cost.h>

/* ---- mapping ----------------------------------------------------------------------------- */

static void describe(const struct xfs_inode *ip, uint64_t block, uint64_t end, struct iomap *iomap)
{
	struct extent extent;
	bool found = extent_map_find(&ip->map, block, &extent);

	memset(iomap, 0, sizeof(*iomap));
	if (found && extent.file <= block) {
		xfs_map_describe(ip, &extent, iomap);
		return;
	}
	/* A dirty block without space: a truncate was here first (F14). */
	if (found && extent.file < end)
		end = extent.file;
	xfs_map_describe_hole(ip, block, end, iomap);
}

/* One transaction a piece, until the block has a place (XF15). */
static int place_delayed(struct xfs_inode *ip, uint64_t block, uint64_t end, struct iomap *iomap)
{
	struct xfs_log *log = &xfs_of(&ip->node.inode)->log;
	bool left;
	int err;

	do {
		xfs_log_begin(log, XFS_TRANS_ALLOC, &ip->node.inode);
		env_rwsem_write_lock(&ip->map_lock);
		err = xfs_map_convert_delayed(ip, block, &left);
		if (!err && !left)
			describe(ip, block, end, iomap);
		env_rwsem_write_unlock(&ip->map_lock);
		if (err)
			xfs_log_cancel(log, XFS_TRANS_ALLOC);
		else
			xfs_log_end(log, XFS_TRANS_ALLOC, &ip->logged);
	} while (left);
	return err;
}

static int map_range(struct xfs_inode *ip, uint64_t pos, uint64_t len, struct iomap *iomap)
{
	const struct inode *inode = &ip->node.inode;
	uint64_t block = pos >> inode->i_blkbits;
	uint64_t end = xfs_blocks_up(inode, pos + len);
	int err;

	env_rwsem_read_lock(&ip->map_lock);
	describe(ip, block, end, iomap);
	env_rwsem_read_unlock(&ip->map_lock);
	if (iomap->type != IOMAP_DELALLOC)
		return 0;

	err = place_delayed(ip, block, end, iomap);
	/* The folio becomes clean whatever is returned: without space its data is lost. */
	for (unsigned int i = 1; err == -ENOMEM && i < FS_ENOMEM_TRIES; i++) {
		env_sleep_ns(FS_ENOMEM_PAUSE_NS);
		err = place_delayed(ip, block, end, iomap);
	}
	return err;
}

static bool map_covers(const struct xfs_inode *ip, const struct iomap *iomap, uint64_t pos)
{
	return pos >= iomap->offset && pos - iomap->offset < iomap->length &&
	       xfs_map_is_valid(ip, iomap);
}

/* The rest of the folio will not be written: no promise may stay below it (F10). */
static void discard_delayed(struct xfs_inode *ip, const struct folio *folio, uint64_t pos)
{
	const struct inode *inode = &ip->node.inode;

	env_rwsem_write_lock(&ip->map_lock);
	xfs_map_remove(ip, pos >> inode->i_blkbits,
		       xfs_blocks_up(inode, folio_pos(folio) + folio_size(folio)), true);
	env_rwsem_write_unlock(&ip->map_lock);
}

static ssize_t writeback_range(struct iomap_writepage_ctx *wpc, struct folio *folio, uint64_t pos,
			       uint64_t len, uint64_t end_pos)
{
	struct xfs_inode *ip = xfs_inode_from(wpc->inode);
	ssize_t n = 0;

	if (!map_covers(ip, &wpc->iomap, pos))
		n = map_range(ip, pos, len, &wpc->iomap);
	if (n == 0)
		n = iomap_add_to_ioend(wpc, folio, pos, end_pos, len);
	if (n < 0)
		discard_delayed(ip, folio, pos);
	return n;
}

/* ---- completion -------------------------------------------------------------------------- */

static uint64_t ioend_end(const struct iomap_ioend *ioend)
{
	return ioend->io_offset + ioend->io_size;
}

/*
 * The transaction goes on with the reverse map of the group (XF25), without the map lock: so an
 * allocation of the same file may find the group busy, and pass by it (XF18).
 */
static void update_reverse_map(struct xfs_inode *ip, uint64_t start)
{
	struct xfs *xfs = xfs_of(&ip->node.inode);
	uint64_t ag;

	if (!xfs->options.rmap_at_completion)
		return;
	ag = xfs_place_of(&xfs->space.geometry, start).ag;
	xfs_agf_lock(&xfs->space, ag, &ip->node.inode);
	env_charge(ENV_COST_RMAP, 1);
	xfs_agf_mark(&xfs->space, ag);
	xfs_agf_unlock(&xfs->space, ag);
}

/* The first unwritten record with blocks of [*block, end); false if there is none. */
static bool find_unwritten(const struct xfs_inode *ip, uint64_t *block, uint64_t end,
			   struct extent *extent)
{
	while (*block < end && extent_map_find(&ip->map, *block, extent) && extent->file < end) {
		if (extent->state == EXTENT_UNWRITTEN)
			return true;
		*block = extent->file + extent->len;
	}
	return false;
}

/*
 * The next unwritten blocks of [*block, end) hold their data now; *start is where their record
 * was.  1, 0 if there are none left, or an error.  => map_lock is held exclusively
 */
static int convert_next(struct xfs_inode *ip, uint64_t *block, uint64_t end, uint64_t *start)
{
	struct extent extent;
	uint64_t from, to;
	int err;

	if (!find_unwritten(ip, block, end, &extent))
		return 0;
	from = extent.file > *block ? extent.file : *block;
	to = extent.file + extent.len < end ? extent.file + extent.len : end;
	err = extent_map_convert(&ip->map, from, to - from, EXTENT_NO_START, EXTENT_NORM, NULL);
	if (err)
		return err;
	xfs_map_bump(ip);
	xfs_mark_meta(ip);
	*block = to;
	*start = extent.start;
	return 1;
}

/* F25.  => map_lock is held exclusively */
static void raise_disk_size(struct xfs_inode *ip, uint64_t end)
{
	uint64_t i_size = inode_size_read(&ip->node.inode);

	if (end > i_size)
		end = i_size;
	if (end <= ip->disk_size)
		return;
	__atomic_store_n(&ip->disk_size, end, __ATOMIC_RELAXED);
	xfs_mark_meta(ip);
}

/* => a transaction is running */
static int convert_and_raise(struct xfs_inode *ip, uint64_t pos, uint64_t end, bool unwritten)
{
	const struct inode *inode = &ip->node.inode;
	uint64_t block = pos >> inode->i_blkbits;
	uint64_t end_block = xfs_blocks_up(inode, end);
	uint64_t start = 0;
	int n = 0;

	env_rwsem_write_lock(&ip->map_lock);
	if (unwritten) {
		env_charge(ENV_COST_CONVERT, 1);
		n = convert_next(ip, &block, end_block, &start);
	}
	while (n > 0) {
		env_rwsem_write_unlock(&ip->map_lock);
		update_reverse_map(ip, start);
		env_rwsem_write_lock(&ip->map_lock);
		n = convert_next(ip, &block, end_block, &start);
	}
	if (n == 0)
		raise_disk_size(ip, end);
	env_rwsem_write_unlock(&ip->map_lock);
	return n;
}

static int try_complete_range(struct xfs_inode *ip, uint64_t pos, uint64_t end, bool unwritten)
{
	struct inode *inode = &ip->node.inode;
	struct xfs_log *log = &xfs_of(inode)->log;
	enum xfs_trans kind = unwritten ? XFS_TRANS_CONVERT : XFS_TRANS_SIZE;
	int err;

	if (!unwritten && end <= __atomic_load_n(&ip->disk_size, __ATOMIC_RELAXED))
		return 0;
	xfs_log_begin(log, kind, inode);
	err = convert_and_raise(ip, pos, end, unwritten);
	if (err)
		xfs_log_cancel(log, kind);
	else
		xfs_log_end(log, kind, &ip->logged);
	return err;
}

/*
 * One transaction for the data of [pos, end), which has arrived.  The folios are clean already, so
 * nobody else would try a second time.
 */
static int complete_range(struct xfs_inode *ip, uint64_t pos, uint64_t end, bool unwritten)
{
	int err;

	while ((err = try_complete_range(ip, pos, end, unwritten)) == -ENOMEM)
		env_sleep_ns(FS_ENOMEM_PAUSE_NS);
	return err;
}

/*
 * Metadata first, then the end of writeback: fsync waits for the folios only (F25).
 * => after the last ioend the inode may be gone
 */
static void finish_joined(struct list_head *joined)
{
	struct iomap_ioend *first = list_first_entry(joined, struct iomap_ioend, io_list);
	struct iomap_ioend *last = list_last_entry(joined, struct iomap_ioend, io_list);
	int err = first->io_error;

	/* After a failure the blocks stay unwritten, so that they never show old contents (A7). */
	if (!err)
		err = complete_range(xfs_inode_from(first->io_inode), first->io_offset,
				     ioend_end(last), first->io_flags & IOMAP_IOEND_UNWRITTEN);
	while (!list_empty(joined)) {
		struct iomap_ioend *ioend = list_first_entry(joined, struct iomap_ioend, io_list);

		list_del_init(&ioend->io_list);
		ioend->io_error = err;
		iomap_finish_ioend(ioend);
	}
}

/* Cut the ioends that one transaction can serve off the front of the list (F26). */
static void take_joined(struct list_head *ioends, struct list_head *joined)
{
	const struct iomap_ioend *last;

	list_init(joined);
	do {
		struct iomap_ioend *ioend = list_first_entry(ioends, struct iomap_ioend, io_list);

		list_move_tail(&ioend->io_list, joined);
		last = ioend;
	} while (
		!list_empty(ioends) &&
		iomap_ioend_can_merge(last, list_first_entry(ioends, struct iomap_ioend, io_list)));
}

void xfs_ioend_work(struct wb_completion *work)
{
	struct xfs_inode *ip = container_of(work, struct xfs_inode, ioend_work);
	struct list_head ioends, joined;

	list_init(&ioends);
	env_mutex_lock(&ip->ioend_lock);
	list_splice_tail_init(&ip->ioends, &ioends);
	env_mutex_unlock(&ip->ioend_lock);

	iomap_sort_ioends(&ioends);
	while (!list_empty(&ioends)) {
		take_joined(&ioends, &joined);
		finish_joined(&joined);
	}
}

/* The first to come queues the worker; it must not see the list before it is queued. */
static void queue_ioend(struct xfs_inode *ip, struct iomap_ioend *ioend)
{
	env_mutex_lock(&ip->ioend_lock);
	if (list_empty(&ip->ioends))
		wb_queue_completion(&ip->node.inode, &ip->ioend_work);
	list_add_tail(&ioend->io_list, &ip->ioends);
	env_mutex_unlock(&ip->ioend_lock);
}

static bool needs_worker(const struct xfs_inode *ip, const struct iomap_ioend *ioend)
{
	if (ioend->io_flags & (IOMAP_IOEND_UNWRITTEN | IOMAP_IOEND_DONTCACHE))
		return true;
	return ioend_end(ioend) > __atomic_load_n(&ip->disk_size, __ATOMIC_RELAXED);
}

static void ioend_done(struct iomap_ioend *ioend)
{
	struct xfs_inode *ip = xfs_inode_from(ioend->io_inode);

	if (needs_worker(ip, ioend))
		queue_ioend(ip, ioend);
	else
		iomap_finish_ioend(ioend);
}

static int writeback_submit(struct iomap_writepage_ctx *wpc, struct iomap_ioend *ioend, int error)
{
	(void)wpc;
	return iomap_ioend_submit(ioend, error, ioend_done);
}

static const struct iomap_writeback_ops xfs_writeback_ops = {
	.writeback_range = writeback_range,
	.writeback_submit = writeback_submit,
};

int xfs_writepages(struct address_space *mapping, struct writeback_control *wbc)
{
	struct iomap_writepage_ctx wpc = {
		.inode = mapping->host,
		.wbc = wbc,
		.ops = &xfs_writeback_ops,
	};

	return iomap_writepages(&wpc);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * inode.c - an inode from its place on the device to its end
 */
#include "internal.h"

#include <errno.h>

#include <iomap/cost.h>

#include "ialloc.h"

/* XF14 */
#define TRIM_INTERVAL_NS 300000000000ull

static const struct address_space_operations xfs_aops = {
	.read_folio = fs_read_folio,
	.readahead = fs_readahead,
	.writepages = xfs_writepages,
	.init_folio = iomap_init_folio,
	.release_folio = iomap_release_folio,
	.invalidate_folio = iomap_invalidate_folio,
	.is_partially_uptodate = iomap_is_partially_uptodate,
};

/* ---- what the log has to know ------------------------------------------------------------ */

void xfs_mark_meta(struct xfs_inode *ip)
{
	struct xfs_log *log = &xfs_of(&ip->node.inode)->log;

	if (xfs_log_is_started(log, __atomic_load_n(&ip->meta_change, __ATOMIC_RELAXED)))
		__atomic_store_n(&ip->meta_change, xfs_log_change(log), __ATOMIC_RELAXED);
}

void xfs_mark_time(struct xfs_inode *ip)
{
	struct xfs_log *log = &xfs_of(&ip->node.inode)->log;

	if (env_likely(
		    !xfs_log_is_started(log, __atomic_load_n(&ip->time_change, __ATOMIC_RELAXED))))
		return;
	__atomic_store_n(&ip->time_change, xfs_log_change(log), __ATOMIC_RELAXED);
	xfs_log_small(log, &ip->logged);
	inode_mark_dirty(&ip->node.inode, I_DIRTY_SYNC);
}

/* ---- life -------------------------------------------------------------------------------- */

/* XF4: directories go round the groups; XF5: files stay with their directory. */
static uint64_t first_ag(struct xfs *xfs, const struct fs_inode *parent, bool is_dir)
{
	if (!parent)
		return 0;
	if (is_dir)
		return xfs_ialloc_next_dir_ag(&xfs->space);
	return xfs_ino_place(&xfs->space.geometry, parent->inode.i_ino).ag;
}

int xfs_new_inode(struct fs *fs, struct fs_inode *parent, bool is_dir, struct fs_inode **inode)
{
	struct xfs *xfs = container_of(fs, struct xfs, fs);
	const struct xfs_geometry *geometry = &xfs->space.geometry;
	struct xfs_inode *ip = env_zalloc(sizeof(*ip));
	uint64_t ino;
	int err;

	if (!ip)
		return -ENOMEM;
	xfs_log_begin(&xfs->log, XFS_TRANS_CREATE, NULL);
	env_charge(ENV_COST_ALLOC, 1);
	err = xfs_ialloc(&xfs->space, first_ag(xfs, parent, is_dir), &ino);
	if (err) {
		xfs_log_cancel(&xfs->log, XFS_TRANS_CREATE);
		env_free(ip);
		return err;
	}
	inode_init(&ip->node.inode, &fs->sb, ino, &xfs_aops);
	env_rwsem_init(&ip->map_lock, "xfs map_lock");
	extent_map_init(&ip->map, XFS_MAX_EXTENT, XFS_MAX_EXTENT);
	ip->data_ag = XFS_NO_AG;
	ip->stream = XFS_NO_STREAM;
	ip->logged.block = xfs_block_at(geometry, xfs_ino_place(geometry, ino));
	list_init(&ip->trim_link);
	env_spin_init(&ip->ioend_lock, "xfs ioend_lock");
	list_init(&ip->ioends);
	ip->ioend_work.fn = xfs_ioend_work;
	xfs_mark_meta(ip);
	xfs_log_end(&xfs->log, XFS_TRANS_CREATE, &ip->logged);
	*inode = &ip->node;
	return 0;
}

/* Give back everything, without needing memory for it. */
static void free_space_of(struct xfs_inode *ip)
{
	struct xfs_space *space = &xfs_of(&ip->node.inode)->space;
	struct extent extent;

	for (uint64_t block = 0; extent_map_find(&ip->map, block, &extent);
	     block = extent.file + extent.len) {
		if (extent.state == EXTENT_DELAYED)
			xfs_space_unreserve(space, extent.len + extent.reserved);
		else
			xfs_free(space, extent.start, extent.len, NULL);
	}
}

void xfs_free_inode(struct fs_inode *inode, bool unlinked)
{
	struct xfs_inode *ip = container_of(inode, struct xfs_inode, node);
	struct xfs *xfs = xfs_of(&inode->inode);

	assert(list_empty(&ip->ioends));
	env_mutex_lock(&xfs->trim_lock);
	list_del_init(&ip->trim_link);
	env_mutex_unlock(&xfs->trim_lock);
	if (unlinked) {
		xfs_log_begin(&xfs->log, XFS_TRANS_REMOVE, NULL);
		env_charge(ENV_COST_ALLOC, 1);
		free_space_of(ip);
		xfs_ifree(&xfs->space, inode->inode.i_ino);
		xfs_log_change(&xfs->log);
		xfs_log_end(&xfs->log, XFS_TRANS_REMOVE, &ip->logged);
	}
	extent_map_destroy(&ip->map);
	env_free(ip);
}

/* ---- size and space ---------------------------------------------------------------------- */

/* => map_lock is held exclusively */
static int remove_from(struct xfs_inode *ip, uint64_t size)
{
	return xfs_map_remove(ip, xfs_blocks_up(&ip->node.inode, size), UINT64_MAX, false);
}

int xfs_truncate(struct fs_inode *inode, uint64_t old_size, uint64_t size)
{
	struct xfs_inode *ip = container_of(inode, struct xfs_inode, node);
	struct xfs_log *log = &xfs_of(&inode->inode)->log;
	enum xfs_trans kind = size <= old_size ? XFS_TRANS_FREE : XFS_TRANS_SIZE;
	int err = 0;

	xfs_log_begin(log, kind, NULL);
	env_rwsem_write_lock(&ip->map_lock);
	if (size <= old_size)
		err = remove_from(ip, size);
	if (!err) {
		__atomic_store_n(&ip->disk_size, size, __ATOMIC_RELAXED);
		xfs_mark_meta(ip);
	}
	env_rwsem_write_unlock(&ip->map_lock);
	if (err)
		xfs_log_cancel(log, kind);
	else
		xfs_log_end(log, kind, &ip->logged);
	ip->closed_dirty = false;
	return err;
}

/* The first hole of [block, end); false if there is none.  => map_lock is held */
static bool find_hole(const struct xfs_inode *ip, uint64_t block, uint64_t end, uint64_t *start,
		      uint64_t *len)
{
	struct extent extent;
	bool found;

	while ((found = extent_map_find(&ip->map, block, &extent)) && extent.file <= block)
		block = extent.file + extent.len;
	if (block >= end)
		return false;
	*start = block;
	*len = (found && extent.file < end ? extent.file : end) - block;
	return true;
}

/* One transaction for each piece. */
static int fill_first_hole(struct xfs_inode *ip, uint64_t *block, uint64_t end)
{
	struct xfs_log *log = &xfs_of(&ip->node.inode)->log;
	uint64_t start, len;
	int err = 0;
	bool found;

	xfs_log_begin(log, XFS_TRANS_ALLOC, NULL);
	env_rwsem_write_lock(&ip->map_lock);
	found = find_hole(ip, *block, end, &start, &len);
	if (found)
		err = xfs_map_fill_hole(ip, start, &len);
	env_rwsem_write_unlock(&ip->map_lock);
	*block = found ? start + len : end;
	if (found && !err)
		xfs_log_end(log, XFS_TRANS_ALLOC, &ip->logged);
	else
		xfs_log_cancel(log, XFS_TRANS_ALLOC);
	return err;
}

int xfs_fallocate(struct fs_inode *inode, uint64_t pos, uint64_t len)
{
	struct xfs_inode *ip = container_of(inode, struct xfs_inode, node);
	uint64_t block = pos >> inode->inode.i_blkbits;
	uint64_t end = (pos + len) >> inode->inode.i_blkbits;
	int err = 0;

	ip->keep_prealloc = true;
	while (!err && block < end)
		err = fill_first_hole(ip, &block, end);
	return err;
}

/* One transaction that changes the records of [pos, pos + len), and disk_size if size is given. */
static int change_range(struct fs_inode *inode, uint64_t pos, uint64_t len, const uint64_t *size,
			int (*change)(struct xfs_inode *ip, uint64_t file, uint64_t end))
{
	struct xfs_inode *ip = container_of(inode, struct xfs_inode, node);
	struct xfs_log *log = &xfs_of(&inode->inode)->log;
	unsigned int bits = inode->inode.i_blkbits;
	int err;

	xfs_log_begin(log, XFS_TRANS_FREE, NULL);
	env_rwsem_write_lock(&ip->map_lock);
	err = change(ip, pos >> bits, (pos + len) >> bits);
	if (!err && size)
		__atomic_store_n(&ip->disk_size, *size, __ATOMIC_RELAXED);
	env_rwsem_write_unlock(&ip->map_lock);
	if (err)
		xfs_log_cancel(log, XFS_TRANS_FREE);
	else
		xfs_log_end(log, XFS_TRANS_FREE, &ip->logged);
	return err;
}

static int remove_range(struct xfs_inode *ip, uint64_t file, uint64_t end)
{
	return xfs_map_remove(ip, file, end, false);
}

int xfs_punch(struct fs_inode *inode, uint64_t pos, uint64_t len)
{
	struct xfs_inode *ip = container_of(inode, struct xfs_inode, node);
	unsigned int bits = inode->inode.i_blkbits;
	int err = change_range(inode, pos, len, NULL, remove_range);

	if (!err)
		xfs_map_release_beside(ip, pos >> bits, (pos + len) >> bits);
	return err;
}

int xfs_insert(struct fs_inode *inode, uint64_t pos, uint64_t len, uint64_t size)
{
	return change_range(inode, pos, len, &size, xfs_map_insert_hole);
}

int xfs_collapse(struct fs_inode *inode, uint64_t pos, uint64_t len, uint64_t size)
{
	return change_range(inode, pos, len, &size, xfs_map_collapse);
}

/* ---- space behind the end (XF14) --------------------------------------------------------- */

/* => map_lock is held */
static bool has_delayed(const struct xfs_inode *ip)
{
	struct extent extent;

	for (uint64_t block = 0; extent_map_find(&ip->map, block, &extent);
	     block = extent.file + extent.len)
		if (extent.state == EXTENT_DELAYED)
			return true;
	return false;
}

static bool has_behind_end(struct xfs_inode *ip)
{
	struct extent extent;
	bool has;

	env_rwsem_read_lock(&ip->map_lock);
	has = extent_map_last(&ip->map, &extent) &&
	      extent.file + extent.len >
		      xfs_blocks_up(&ip->node.inode, inode_size_read(&ip->node.inode));
	env_rwsem_read_unlock(&ip->map_lock);
	return has;
}

/* No memory: next time.  => i_rwsem is held exclusively, a FREE transaction is running */
static void trim(struct xfs_inode *ip)
{
	struct xfs_log *log = &xfs_of(&ip->node.inode)->log;

	env_rwsem_write_lock(&ip->map_lock);
	remove_from(ip, inode_size_read(&ip->node.inode));
	env_rwsem_write_unlock(&ip->map_lock);
	xfs_log_end(log, XFS_TRANS_FREE, &ip->logged);
}

static void trim_later(struct xfs_inode *ip)
{
	struct xfs *xfs = xfs_of(&ip->node.inode);

	env_mutex_lock(&xfs->trim_lock);
	if (list_empty(&ip->trim_link))
		list_add_tail(&ip->trim_link, &xfs->to_trim);
	env_mutex_unlock(&xfs->trim_lock);
	xfs_log_wake_at(&xfs->log, env_clock_ns() + TRIM_INTERVAL_NS);
}

/*
 * What was reserved behind the end of the file goes, but only once for a file that is closed
 * with dirty data: its writer opens and closes it again and again.  Then it goes later.
 * => i_rwsem is held exclusively
 */
void xfs_last_close(struct fs_inode *inode)
{
	struct xfs_inode *ip = container_of(inode, struct xfs_inode, node);
	bool behind;

	if (ip->keep_prealloc)
		return;
	behind = has_behind_end(ip);
	if (ip->closed_dirty) {
		if (behind)
			trim_later(ip);
		return;
	}
	if (behind) {
		xfs_log_begin(&xfs_of(&inode->inode)->log, XFS_TRANS_FREE, NULL);
		trim(ip);
	}
	env_rwsem_read_lock(&ip->map_lock);
	ip->closed_dirty = has_delayed(ip);
	env_rwsem_read_unlock(&ip->map_lock);
}

/* False: it is in use or dirty, or the log is full.  => trim_lock is held */
static bool try_trim(struct xfs_inode *ip)
{
	struct inode *inode = &ip->node.inode;
	bool can;

	if (!env_rwsem_write_trylock(&inode->i_rwsem))
		return false;
	env_rwsem_read_lock(&ip->map_lock);
	can = !has_delayed(ip);
	env_rwsem_read_unlock(&ip->map_lock);
	can = can && (ip->keep_prealloc || xfs_log_try_begin(&xfs_of(inode)->log, XFS_TRANS_FREE));
	if (can && !ip->keep_prealloc)
		trim(ip);
	env_rwsem_write_unlock(&inode->i_rwsem);
	return can;
}

void xfs_trim_files(void *arg)
{
	struct xfs *xfs = arg;
	struct list_head files;
	bool left;

	list_init(&files);
	env_mutex_lock(&xfs->trim_lock);
	list_splice_tail_init(&xfs->to_trim, &files);
	while (!list_empty(&files)) {
		struct xfs_inode *ip = list_first_entry(&files, struct xfs_inode, trim_link);

		list_del_init(&ip->trim_link);
		if (!try_trim(ip))
			list_add_tail(&ip->trim_link, &xfs->to_trim);
	}
	left = !list_empty(&xfs->to_trim);
	env_mutex_unlock(&xfs->trim_lock);
	if (left)
		xfs_log_wake_at(&xfs->log, env_clock_ns() + TRIM_INTERVAL_NS);
}

/* ---- questions --------------------------------------------------------------------------- */

int xfs_next_extent(struct fs_inode *inode, uint64_t pos, struct fs_extent *extent)
{
	struct xfs_inode *ip = container_of(inode, struct xfs_inode, node);
	unsigned int bits = inode->inode.i_blkbits;
	struct extent found;
	bool is_there;

	env_rwsem_read_lock(&ip->map_lock);
	is_there = extent_map_find(&ip->map, pos >> bits, &found);
	env_rwsem_read_unlock(&ip->map_lock);
	if (!is_there)
		return -ENOENT;
	*extent = (struct fs_extent){
		.pos = found.file << bits,
		.len = found.len << bits,
		.addr = found.state == EXTENT_DELAYED ? 0 : found.start << bits,
		.delayed = found.state == EXTENT_DELAYED,
		.unwritten = found.state == EXTENT_UNWRITTEN,
	};
	return 0;
}

uint32_t xfs_stream_of(struct xfs_inode *ip)
{
	struct xfs *xfs = xfs_of(&ip->node.inode);
	uint32_t stream = __atomic_load_n(&ip->stream, __ATOMIC_RELAXED);
	uint32_t next;

	if (stream != XFS_NO_STREAM)
		return stream;
	next = __atomic_fetch_add(&xfs->stream_rotor, 1, __ATOMIC_RELAXED) %
	       (uint32_t)xfs->options.streams;
	/* Somebody else may have chosen meanwhile. */
	if (__atomic_compare_exchange_n(&ip->stream, &stream, next, false, __ATOMIC_RELAXED,
					__ATOMIC_RELAXED))
		return next;
	return stream;
}

/* W15 */
uint64_t xfs_wb_shard(const struct inode *inode)
{
	const struct xfs *xfs = xfs_of(inode);
	uint64_t ag = __atomic_load_n(&xfs_inode_from(inode)->data_ag, __ATOMIC_RELAXED);

	if (xfs->options.shard == XFS_SHARD_STREAM)
		return xfs_stream_of(xfs_inode_from(inode));
	if (xfs->options.shard == XFS_SHARD_DATA_AG && ag != XFS_NO_AG)
		return ag;
	if (xfs->options.inode32 && ag == XFS_NO_AG)
		return WB_SHARD_ANY;
	return xfs_ino_place(&xfs->space.geometry, inode->i_ino).ag;
}

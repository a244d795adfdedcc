/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * inode.c - an inode from its place on the device to its end
 */
#include "internal.h"

#include <errno.h>

#include "ialloc.h"

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
	struct xfs_inode *ip = env_zalloc(sizeof(*ip));
	uint64_t ino;
	int err;

	if (!ip)
		return -ENOMEM;
	err = xfs_ialloc(&xfs->space, first_ag(xfs, parent, is_dir), &ino);
	if (err) {
		env_free(ip);
		return err;
	}
	inode_init(&ip->node.inode, &fs->sb, ino, &xfs_aops);
	env_rwsem_init(&ip->map_lock, "xfs map_lock");
	extent_map_init(&ip->map, XFS_MAX_EXTENT, XFS_MAX_EXTENT);
	ip->data_ag = XFS_NO_AG;
	env_mutex_init(&ip->ioend_lock, "xfs ioend_lock");
	list_init(&ip->ioends);
	ip->ioend_work.fn = xfs_ioend_work;
	xfs_mark_meta(ip);
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
	if (unlinked) {
		free_space_of(ip);
		xfs_ifree(&xfs->space, inode->inode.i_ino);
		xfs_log_change(&xfs->log);
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
	int err = 0;

	env_rwsem_write_lock(&ip->map_lock);
	if (size <= old_size)
		err = remove_from(ip, size);
	if (!err) {
		__atomic_store_n(&ip->disk_size, size, __ATOMIC_RELAXED);
		xfs_mark_meta(ip);
	}
	env_rwsem_write_unlock(&ip->map_lock);
	ip->closed_dirty = false;
	return err;
}

int xfs_fallocate(struct fs_inode *inode, uint64_t pos, uint64_t len)
{
	struct xfs_inode *ip = container_of(inode, struct xfs_inode, node);
	uint64_t block = pos >> inode->inode.i_blkbits;
	uint64_t end = (pos + len) >> inode->inode.i_blkbits;
	int err = 0;

	ip->keep_prealloc = true;
	env_rwsem_write_lock(&ip->map_lock);
	while (!err && block < end) {
		struct extent extent;
		bool found = extent_map_find(&ip->map, block, &extent);
		uint64_t hole = end - block;

		if (found && extent.file <= block) {
			block = extent.file + extent.len;
			continue;
		}
		if (found && extent.file < end)
			hole = extent.file - block;
		err = xfs_map_fill_hole(ip, block, &hole);
		block += hole;
	}
	env_rwsem_write_unlock(&ip->map_lock);
	return err;
}

static bool has_delayed(const struct xfs_inode *ip)
{
	struct extent extent;

	for (uint64_t block = 0; extent_map_find(&ip->map, block, &extent);
	     block = extent.file + extent.len)
		if (extent.state == EXTENT_DELAYED)
			return true;
	return false;
}

/*
 * XF14: what was reserved behind the end of the file goes, but only once for a file that is
 * closed with dirty data: its writer opens and closes it again and again.  No memory: next time.
 * => i_rwsem is held exclusively
 */
void xfs_last_close(struct fs_inode *inode)
{
	struct xfs_inode *ip = container_of(inode, struct xfs_inode, node);

	if (ip->closed_dirty || ip->keep_prealloc)
		return;
	env_rwsem_write_lock(&ip->map_lock);
	remove_from(ip, inode_size_read(&inode->inode));
	ip->closed_dirty = has_delayed(ip);
	env_rwsem_write_unlock(&ip->map_lock);
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

/* W15 */
uint64_t xfs_wb_shard(const struct inode *inode)
{
	const struct xfs *xfs = xfs_of(inode);
	uint64_t ag = __atomic_load_n(&xfs_inode_from(inode)->data_ag, __ATOMIC_RELAXED);

	if (xfs->options.shard == XFS_SHARD_DATA_AG && ag != XFS_NO_AG)
		return ag;
	if (xfs->options.inode32 && ag == XFS_NO_AG)
		return WB_SHARD_ANY;
	return xfs_ino_place(&xfs->space.geometry, inode->i_ino).ag;
}

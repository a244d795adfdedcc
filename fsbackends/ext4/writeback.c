/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * writeback.c - dirty folios to the device, and what follows when they are there
 *
 * Space is allocated for the dirty run under the folio at hand and serves the folios behind it
 * as well.  Writes to unwritten space, or past what a crash would leave of the file, are
 * finished by the completion thread of the inode's context: first the extents and the size,
 * then the folios (F25).
 */
#include "internal.h"

/* ---- submission ------------------------------------------------------------------------- */

static uint64_t folio_end(const struct folio *folio)
{
	return folio_pos(folio) + folio_size(folio);
}

/* Does the map in use still cover pos (F12)? */
static bool map_serves(struct inode *inode, const struct iomap *iomap, uint64_t pos)
{
	return iomap->length && pos >= iomap->offset && pos < iomap->offset + iomap->length &&
	       ext4_map_is_valid(inode, iomap);
}

static ssize_t writeback_range(struct iomap_writepage_ctx *wpc, struct folio *folio, uint64_t pos,
			       uint64_t len, uint64_t end_pos)
{
	struct ext4_inode *node = ext4_inode_from(wpc->inode);
	ssize_t ret = 0;

	if (!map_serves(wpc->inode, &wpc->iomap, pos))
		ret = ext4_map_for_writeback(node, pos, &wpc->iomap);
	if (!ret)
		ret = iomap_add_to_ioend(wpc, folio, pos, end_pos, len);
	if (ret < 0)
		ext4_discard_delayed(node, pos, folio_end(folio) - pos);
	return ret;
}

static bool raises_disk_size(const struct iomap_ioend *ioend)
{
	struct ext4_inode *node = ext4_inode_from(ioend->io_inode);

	return ioend->io_offset + ioend->io_size >
	       __atomic_load_n(&node->disk_size, __ATOMIC_ACQUIRE);
}

/* The device is done with the ioend: any thread. */
static void ioend_done(struct iomap_ioend *ioend)
{
	struct ext4_inode *node = ext4_inode_from(ioend->io_inode);
	bool was_empty;

	env_mutex_lock(&node->done_lock);
	was_empty = list_empty(&node->done);
	list_add_tail(&ioend->io_list, &node->done);
	env_mutex_unlock(&node->done_lock);
	/* Else it is queued already, and may be gone with the inode by now. */
	if (was_empty)
		wb_queue_completion(&node->base.inode, &node->done_work);
}

static int writeback_submit(struct iomap_writepage_ctx *wpc, struct iomap_ioend *ioend, int error)
{
	bool has_work = (ioend->io_flags & IOMAP_IOEND_UNWRITTEN) || raises_disk_size(ioend);

	(void)wpc;
	return iomap_ioend_submit(ioend, error, has_work ? ioend_done : NULL);
}

static const struct iomap_writeback_ops writeback_ops = {
	.writeback_range = writeback_range,
	.writeback_submit = writeback_submit,
};

static int writepages(struct address_space *mapping, struct writeback_control *wbc)
{
	struct iomap_writepage_ctx wpc = {
		.inode = mapping->host,
		.wbc = wbc,
		.ops = &writeback_ops,
	};

	return iomap_writepages(&wpc);
}

/* ---- completion ------------------------------------------------------------------------- */

/* How many ioends from the front of the list one update of the metadata serves (F26). */
static unsigned int count_mergeable(struct list_head *ioends)
{
	struct iomap_ioend *ioend = list_first_entry(ioends, struct iomap_ioend, io_list);
	unsigned int n = 1;

	while (ioend->io_list.next != ioends) {
		struct iomap_ioend *next =
			list_entry(ioend->io_list.next, struct iomap_ioend, io_list);

		if (!iomap_ioend_can_merge(ioend, next))
			break;
		ioend = next;
		n++;
	}
	return n;
}

/* One transaction for the first n ioends, which continue each other (EX22, EX23). */
static void finish_front(struct list_head *ioends, unsigned int n)
{
	struct iomap_ioend *first = list_first_entry(ioends, struct iomap_ioend, io_list);
	struct iomap_ioend *ioend = first;
	uint64_t len = 0;
	int err = first->io_error;

	for (unsigned int i = 0; i < n; i++) {
		len += ioend->io_size;
		ioend = list_entry(ioend->io_list.next, struct iomap_ioend, io_list);
	}
	/* What failed stays unwritten, and disk_size where it is. */
	if (!err)
		err = ext4_map_written(ext4_inode_from(first->io_inode), first->io_offset, len,
				       first->io_flags & IOMAP_IOEND_UNWRITTEN);

	for (unsigned int i = 0; i < n; i++) {
		ioend = list_first_entry(ioends, struct iomap_ioend, io_list);
		list_del_init(&ioend->io_list);
		ioend->io_error = err;
		/* With its last folio the inode may go. */
		iomap_finish_ioend(ioend);
	}
}

void ext4_finish_ioends(struct wb_completion *work)
{
	struct ext4_inode *node = container_of(work, struct ext4_inode, done_work);
	struct list_head ioends;

	list_init(&ioends);
	env_mutex_lock(&node->done_lock);
	list_splice_tail_init(&node->done, &ioends);
	env_mutex_unlock(&node->done_lock);

	iomap_sort_ioends(&ioends);
	while (!list_empty(&ioends))
		finish_front(&ioends, count_mergeable(&ioends));
}

const struct address_space_operations ext4_aops = {
	.read_folio = fs_read_folio,
	.readahead = fs_readahead,
	.writepages = writepages,
	.init_folio = iomap_init_folio,
	.release_folio = iomap_release_folio,
	.invalidate_folio = iomap_invalidate_folio,
	.is_partially_uptodate = iomap_is_partially_uptodate,
};

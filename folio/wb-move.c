/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * wb-move.c - the binding of inodes to contexts: first dirtying, corrections, retirement
 *
 * A binding changes under the inode's lock and its mapping's, where the counts of its pages
 * change hands too.  All who count pages do so under the mapping's lock, so none of them can
 * use the old binding later, and I/O in flight ends against the new one (W30).
 */
#include <iomap/cost.h>

#include "folio/wb.h"

/* So many inodes are moved while two list locks are held (W31). */
#define BATCH 64
/* .. and so many are looked at for each context they may go to, and at most. */
#define LOOKS_MAX 1024

/* ---- first dirtying (W16) ----------------------------------------------------------- */

/*
 * Is the inode on a list, being written, or are there pages to account?
 * => i_lock and mapping->lock are held
 */
static bool binding_is_fixed(const struct inode *inode)
{
	const struct address_space *mapping = &inode->i_mapping;

	return inode->i_wb && (inode->i_state & (I_DIRTY | I_SYNC) || inode->i_list ||
			       mapping->nr_dirty || mapping->nr_writeback);
}

/* Bind the inode to wb if it is not bound firmly; wb NULL: only look.  True: it was. */
static bool try_to_bind(struct inode *inode, struct wb_ctx *wb, bool *retired)
{
	struct address_space *mapping = &inode->i_mapping;
	bool fixed;

	env_mutex_lock(&inode->i_lock);
	env_mutex_lock(&mapping->lock);
	fixed = binding_is_fixed(inode);
	*retired = fixed && !inode->i_list && !(inode->i_state & I_SYNC) &&
		   wb_state(inode->i_wb) != WB_LIVE;
	if (!fixed && wb) {
		if (inode->i_wb != wb)
			counter_add(&wb->stats.inodes, 1);
		__atomic_store_n(&inode->i_wb, wb, __ATOMIC_RELEASE);
	}
	env_mutex_unlock(&mapping->lock);
	env_mutex_unlock(&inode->i_lock);
	return fixed;
}

void wb_bind_inode(struct inode *inode)
{
	bool retired;

	if (likely(__atomic_load_n(&inode->i_state, __ATOMIC_RELAXED) & I_DIRTY) &&
	    likely(__atomic_load_n(&inode->i_wb, __ATOMIC_ACQUIRE) != NULL))
		return;
	/* Asked twice for one dirtying: for the page and for the inode; chosen once. */
	if (!try_to_bind(inode, NULL, &retired) &&
	    !try_to_bind(inode, wb_map_inode(inode), &retired))
		return;
	if (retired)
		wb_leave_retired(inode);
}

int wb_context_of(const struct inode *inode)
{
	const struct wb_ctx *wb = __atomic_load_n(&inode->i_wb, __ATOMIC_ACQUIRE);

	return wb ? (int)wb->index : -1;
}

/* ---- one inode (W30) ---------------------------------------------------------------- */

static void lock_both(struct wb_ctx *a, struct wb_ctx *b)
{
	env_mutex_lock(a->index < b->index ? &a->list_lock : &b->list_lock);
	env_mutex_lock(a->index < b->index ? &b->list_lock : &a->list_lock);
}

static void unlock_both(struct wb_ctx *a, struct wb_ctx *b)
{
	env_mutex_unlock(&a->list_lock);
	env_mutex_unlock(&b->list_lock);
}

static void move_writeback_count(struct wb_ctx *from, struct wb_ctx *to, uint64_t pages)
{
	if (__atomic_fetch_add(&to->writeback, pages, __ATOMIC_SEQ_CST) == 0)
		wb_bandwidth_wake(to);
	if (__atomic_sub_fetch(&from->writeback, pages, __ATOMIC_SEQ_CST) == 0)
		wb_bandwidth_idle(from);
}

void wb_rebind(struct inode *inode, struct wb_ctx *from, struct wb_ctx *to)
{
	struct address_space *mapping = &inode->i_mapping;

	assert(inode->i_wb == from && !inode->i_list && to->state == WB_LIVE);
	env_mutex_lock(&mapping->lock);
	env_charge(ENV_COST_MAPPING_LOCK, 1);
	counter_add(&to->reclaimable, mapping->nr_dirty);
	counter_sub(&from->reclaimable, mapping->nr_dirty);
	if (mapping->nr_writeback)
		move_writeback_count(from, to, mapping->nr_writeback);
	__atomic_store_n(&inode->i_wb, to, __ATOMIC_RELEASE);
	env_mutex_unlock(&mapping->lock);
	counter_add(&from->stats.moves_out, 1);
	counter_add(&to->stats.moves_in, 1);
	counter_add(&to->stats.inodes, 1);
}

/* Move it if that is still right.  => both list locks are held */
static bool move_one(struct inode *inode, struct wb_ctx *from, struct wb_ctx *to)
{
	bool listed, moved = false;

	env_mutex_lock(&inode->i_lock);
	listed = inode->i_list;
	/* One that is going away leaves its list itself; its I/O may end in another context. */
	if (inode->i_wb == from && to->state == WB_LIVE && !(inode->i_state & I_SYNC) &&
	    !(listed && inode->i_state & I_FREEING)) {
		wb_list_unfile(from, inode);
		wb_rebind(inode, from, to);
		if (listed)
			wb_list_file_in_order(to, inode);
		moved = true;
	}
	env_mutex_unlock(&inode->i_lock);
	return moved;
}

/* The context has got inodes: let it look after them. */
static void let_know(struct wb_ctx *wb)
{
	if (!counter_read(&wb->nr_listed))
		return;
	wb_arm_timer(wb);
	if (wb_over_background(wb))
		wb_start_background(wb);
}

/*
 * No switch lock: the inode is on no list, so no sync counts on finding it there, and none
 * has to be waited for.
 */
void wb_leave_retired(struct inode *inode)
{
	struct wb_ctx *from = __atomic_load_n(&inode->i_wb, __ATOMIC_ACQUIRE);
	struct wb_ctx *to = wb_map_inode(inode);

	if (wb_state(from) == WB_LIVE || from == to)
		return;
	lock_both(from, to);
	env_mutex_lock(&inode->i_lock);
	if (inode->i_wb == from && from->state != WB_LIVE && to->state == WB_LIVE &&
	    !inode->i_list && !(inode->i_state & I_SYNC))
		wb_rebind(inode, from, to);
	env_mutex_unlock(&inode->i_lock);
	unlock_both(from, to);
	/* It may wait for nothing but this. */
	wb_wake(from);
}

/* ---- after a slice (W17) ------------------------------------------------------------ */

static struct wb_ctx *refile_target(struct wb_ctx *wb, struct inode *inode)
{
	struct wb_ctx *to;

	if (wb_state(wb) == WB_LIVE &&
	    (!bdi_tuned(wb->bdi, rebind_on_refile) || !wb_map_disagrees(inode, wb)))
		return NULL;
	to = wb_map_inode(inode);
	return to == wb ? NULL : to;
}

struct wb_ctx *wb_refile_lock(struct wb_ctx *wb, struct inode *inode)
{
	struct wb_ctx *to = refile_target(wb, inode);

	if (!to || !env_rwsem_read_trylock(&wb->bdi->switch_lock)) {
		env_mutex_lock(&wb->list_lock);
		return NULL;
	}
	lock_both(wb, to);
	if (to->state == WB_LIVE)
		return to;
	env_mutex_unlock(&to->list_lock);
	env_rwsem_read_unlock(&wb->bdi->switch_lock);
	return NULL;
}

void wb_refile_unlock(struct wb_ctx *wb, struct wb_ctx *to)
{
	env_mutex_unlock(&to->list_lock);
	env_rwsem_read_unlock(&wb->bdi->switch_lock);
	let_know(to);
}

/* ---- a context retires (W31, W33) --------------------------------------------------- */

/* Where the first inode that can go, goes. */
static struct wb_ctx *first_target(struct wb_ctx *wb)
{
	struct wb_ctx *to = NULL;
	struct inode *inode;

	env_mutex_lock(&wb->list_lock);
	for (unsigned int list = WB_B_DIRTY; list < NR_WB_LISTS && !to; list++)
		list_for_each_entry(inode, &wb->lists[list], struct inode, i_io_list)
			if (!(__atomic_load_n(&inode->i_state, __ATOMIC_RELAXED) &
			      (I_SYNC | I_FREEING))) {
				to = wb_map_inode(inode);
				break;
			}
	env_mutex_unlock(&wb->list_lock);
	return to;
}

/* => both list locks are held */
static unsigned int move_list(struct wb_ctx *from, struct wb_ctx *to, enum wb_list list,
			      unsigned int max, unsigned int *looks)
{
	bool any = bdi_tuned(from->bdi, map) == WB_MAP_ROUND_ROBIN;
	struct inode *inode, *next;
	unsigned int moved = 0;

	list_for_each_entry_safe(inode, next, &from->lists[list], struct inode, i_io_list) {
		if (moved == max || (*looks)-- == 0)
			break;
		if (any || wb_map_inode(inode) == to)
			moved += move_one(inode, from, to);
	}
	return moved;
}

static unsigned int nr_looks(const struct backing_dev *bdi)
{
	unsigned int looks = BATCH * __atomic_load_n(&bdi->nr_live, __ATOMIC_RELAXED);

	return looks < LOOKS_MAX ? looks : LOOKS_MAX;
}

/* Returns how many listed inodes were moved, to one context. */
static unsigned int move_batch(struct wb_ctx *wb)
{
	struct wb_ctx *to = first_target(wb);
	unsigned int moved = 0;

	if (!to || to == wb || !env_rwsem_read_trylock(&wb->bdi->switch_lock))
		return 0;
	lock_both(wb, to);
	for (unsigned int list = WB_B_DIRTY; list < NR_WB_LISTS && moved < BATCH; list++) {
		unsigned int looks = nr_looks(wb->bdi);

		moved += move_list(wb, to, list, BATCH - moved, &looks);
	}
	unlock_both(wb, to);
	env_rwsem_read_unlock(&wb->bdi->switch_lock);
	let_know(to);
	return moved;
}

/*
 * Inodes of the context that are only under writeback, pinned against eviction.  What was
 * looked at goes to the end of its list, so that the next look goes on from here.
 * => s_wb_lock is held
 */
static unsigned int pin_from(const struct wb_ctx *wb, struct list_head *list,
			     struct inode *pinned[BATCH], unsigned int nr)
{
	struct inode *first = NULL;
	unsigned int looks = LOOKS_MAX;

	while (!list_empty(list) && nr < BATCH && looks--) {
		struct inode *inode = list_first_entry(list, struct inode, i_wb_link);

		if (inode == first)
			break;
		if (!first)
			first = inode;
		list_move_tail(&inode->i_wb_link, list);
		if (__atomic_load_n(&inode->i_wb, __ATOMIC_ACQUIRE) != wb)
			continue;
		__atomic_fetch_add(&inode->i_pins, 1, __ATOMIC_ACQ_REL);
		pinned[nr++] = inode;
	}
	return nr;
}

static unsigned int pin_batch(const struct wb_ctx *wb, struct super_block *sb,
			      struct inode *pinned[BATCH])
{
	unsigned int nr;

	env_mutex_lock(&sb->s_wb_lock);
	nr = pin_from(wb, &sb->s_wb_inodes, pinned, 0);
	nr = pin_from(wb, &sb->s_wb_waiting, pinned, nr);
	env_mutex_unlock(&sb->s_wb_lock);
	return nr;
}

static void unpin_batch(struct super_block *sb, struct inode *pinned[BATCH], unsigned int nr)
{
	env_mutex_lock(&sb->s_wb_lock);
	for (unsigned int i = 0; i < nr; i++)
		__atomic_fetch_sub(&pinned[i]->i_pins, 1, __ATOMIC_ACQ_REL);
	env_waitq_wake(&sb->s_inode_wait);
	env_mutex_unlock(&sb->s_wb_lock);
}

/* Returns how many were moved. */
static unsigned int move_pinned(struct wb_ctx *wb, struct inode *pinned[BATCH], unsigned int nr)
{
	unsigned int moved = 0;

	for (unsigned int i = 0; i < nr; i++) {
		struct wb_ctx *to;

		if (!pinned[i])
			continue;
		to = wb_map_inode(pinned[i]);
		if (to == wb)
			continue;
		lock_both(wb, to);
		/* Those behind it that go the same way, too. */
		for (unsigned int j = i; j < nr; j++) {
			if (!pinned[j] || (j > i && wb_map_disagrees(pinned[j], to)))
				continue;
			moved += move_one(pinned[j], wb, to);
			pinned[j] = NULL;
		}
		unlock_both(wb, to);
		let_know(to);
	}
	return moved;
}

static bool move_writeback(struct wb_ctx *wb, struct super_block *sb)
{
	struct inode *pinned[BATCH], *left[BATCH];
	unsigned int nr, moved;

	do {
		if (!counter_read(&wb->writeback) && !counter_read(&wb->reclaimable))
			return true;
		if (!env_rwsem_read_trylock(&wb->bdi->switch_lock))
			return false;
		nr = pin_batch(wb, sb, pinned);
		memcpy(left, pinned, nr * sizeof(*left));
		moved = move_pinned(wb, left, nr);
		env_rwsem_read_unlock(&wb->bdi->switch_lock);
		unpin_batch(sb, pinned, nr);
	} while (moved);
	return true;
}

/* The resizer holds resize_lock for us, so no super block comes or goes. */
bool wb_move_all(struct wb_ctx *wb)
{
	struct super_block *sb;

	while (counter_read(&wb->nr_listed))
		if (!move_batch(wb))
			return false;
	list_for_each_entry(sb, &wb->bdi->sbs, struct super_block, s_link)
		if (!move_writeback(wb, sb))
			return false;
	return true;
}

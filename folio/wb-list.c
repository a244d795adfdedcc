/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * wb-list.c - the lists of dirty inodes of one context, and how an inode gets there
 */
#include "folio/wb.h"

#define LAZY_TIME_NS (12ull * 3600 * NS_PER_SECOND)

/* ---- counts ------------------------------------------------------------------------- */

static void count_listed(struct wb_ctx *wb, uint64_t nr)
{
	uint64_t *word = &wb->bdi->dirty_contexts[wb->index / 64];
	uint64_t bit = 1ull << (wb->index % 64);

	/* With do_periodic(), which disarms the timer and then looks. */
	__atomic_store_n(&wb->nr_listed, nr, __ATOMIC_SEQ_CST);
	if (nr == 0)
		__atomic_fetch_and(word, ~bit, __ATOMIC_RELEASE);
	else if (!(__atomic_load_n(word, __ATOMIC_RELAXED) & bit))
		__atomic_fetch_or(word, bit, __ATOMIC_RELEASE);
}

static void count_on(struct wb_ctx *wb, enum wb_list list, uint64_t change)
{
	__atomic_store_n(&wb->nr_on[list], wb->nr_on[list] + change, __ATOMIC_RELAXED);
}

/* ---- lists (K4..K6, K13) ------------------------------------------------------------ */

static void leave_list(struct wb_ctx *wb, struct inode *inode)
{
	if (wb->finger == inode)
		wb->finger = NULL;
	if (inode->i_list)
		count_on(wb, inode->i_list, -1ull);
	list_del_init(&inode->i_io_list);
}

static void join_list(struct wb_ctx *wb, struct inode *inode, enum wb_list list,
		      struct list_head *after)
{
	enum wb_list old = inode->i_list;

	leave_list(wb, inode);
	inode->i_list = (uint8_t)list;
	list_add(&inode->i_io_list, after);
	count_on(wb, list, 1);
	if (!old)
		count_listed(wb, wb->nr_listed + 1);
}

void wb_list_file(struct wb_ctx *wb, struct inode *inode, enum wb_list list)
{
	leave_list(wb, inode);
	/* Off the list before its end is looked for: it may be the last one. */
	list_add_tail(&inode->i_io_list, &wb->lists[list]);
	count_on(wb, list, 1);
	if (!inode->i_list)
		count_listed(wb, wb->nr_listed + 1);
	inode->i_list = (uint8_t)list;
}

void wb_list_unfile(struct wb_ctx *wb, struct inode *inode)
{
	if (!inode->i_list)
		return;
	leave_list(wb, inode);
	inode->i_list = WB_UNLISTED;
	count_listed(wb, wb->nr_listed - 1);
}

void wb_list_redirty(struct wb_ctx *wb, struct inode *inode, uint64_t now)
{
	const struct list_head *head = &wb->lists[WB_B_DIRTY];

	if (!list_empty(head)) {
		struct inode *young = list_last_entry(head, struct inode, i_io_list);

		if (inode->dirtied_when < young->dirtied_when)
			inode->dirtied_when = now;
	}
	wb_list_file(wb, inode, WB_B_DIRTY);
}

static bool is_younger(const struct list_head *entry, uint64_t when)
{
	return list_entry(entry, struct inode, i_io_list)->dirtied_when > when;
}

/*
 * Inodes are moved in the order of their time, so the next one's place is close behind that
 * of the one before: the finger makes a whole move linear in both lists (B66).
 */
static struct list_head *place_in_order(struct wb_ctx *wb, struct list_head *head, uint64_t when)
{
	struct list_head *place = head->prev;

	if (place == head || !is_younger(place, when))
		return place;
	if (wb->finger)
		place = &wb->finger->i_io_list;
	while (place != head && is_younger(place, when))
		place = place->prev;
	while (place->next != head && !is_younger(place->next, when))
		place = place->next;
	return place;
}

void wb_list_file_in_order(struct wb_ctx *wb, struct inode *inode)
{
	wb_list_unfile(wb, inode);
	if (inode->i_state & I_DIRTY) {
		join_list(wb, inode, WB_B_DIRTY,
			  place_in_order(wb, &wb->lists[WB_B_DIRTY], inode->dirtied_when));
		wb->finger = inode;
	} else {
		/* Half a day late or early does not matter to these; a walk would. */
		wb_list_file(wb, inode, WB_B_DIRTY_TIME);
	}
}

static void queue_one(struct wb_ctx *wb, struct inode *inode)
{
	env_mutex_lock(&inode->i_lock);
	wb_list_file(wb, inode, WB_B_IO);
	env_mutex_unlock(&inode->i_lock);
}

static void queue_expired(struct wb_ctx *wb, enum wb_list list, uint64_t cutoff)
{
	struct inode *inode;

	while ((inode = wb_list_first(wb, list)) != NULL && inode->dirtied_when <= cutoff)
		queue_one(wb, inode);
}

uint64_t wb_list_queue_io(struct wb_ctx *wb, const struct wb_work *work)
{
	uint64_t now = env_clock_ns();
	uint64_t lazy = now > LAZY_TIME_NS ? now - LAZY_TIME_NS : 0;
	struct inode *inode, *next;

	/* What another worker is writing stays where it is until that is done. */
	list_for_each_entry_safe(inode, next, &wb->lists[WB_B_MORE_IO], struct inode, i_io_list)
		if (!(__atomic_load_n(&inode->i_state, __ATOMIC_RELAXED) & I_SYNC))
			queue_one(wb, inode);
	queue_expired(wb, WB_B_DIRTY, work->cutoff);
	/* Timestamps alone wait half a day, or for a sync. */
	queue_expired(wb, WB_B_DIRTY_TIME, work->for_sync ? work->cutoff : lazy);
	return wb->nr_on[WB_B_IO];
}

/* ---- an inode becomes dirty (K5) ---------------------------------------------------- */

/*
 * On the right list for the flags, or with a writer that files it when it is done?  An inode
 * with nothing but lazy timestamps is on a list of its own.  => i_lock is held
 */
static bool is_accounted_for(const struct inode *inode, unsigned int flags)
{
	if (inode->i_state & (I_SYNC | I_FREEING))
		return true;
	return inode->i_list && (inode->i_state & I_DIRTY || !(flags & I_DIRTY) ||
				 inode->i_list == WB_B_IO || inode->i_list == WB_B_MORE_IO);
}

/* Into the context, unless it is not the inode's or takes no more (W4). */
static bool try_to_list(struct wb_ctx *wb, struct inode *inode, unsigned int flags)
{
	bool done;

	env_mutex_lock(&wb->list_lock);
	env_mutex_lock(&inode->i_lock);
	done = is_accounted_for(inode, flags);
	if (!done && inode->i_wb == wb && (wb->state == WB_LIVE || inode->i_list)) {
		inode->dirtied_when = env_clock_ns();
		wb_list_file(wb, inode, flags & I_DIRTY ? WB_B_DIRTY : WB_B_DIRTY_TIME);
		done = true;
	}
	if (done)
		inode_state_add(inode, flags);
	env_mutex_unlock(&inode->i_lock);
	env_mutex_unlock(&wb->list_lock);
	return done;
}

/*
 * A flag that others see set means that a sync will find the inode: so the flags of a clean
 * inode are set in the same step that lists it.
 */
void inode_mark_dirty(struct inode *inode, unsigned int flags)
{
	struct wb_ctx *wb;
	bool done;

	env_switch_point_at("inode: marked dirty");
	if (likely((__atomic_load_n(&inode->i_state, __ATOMIC_ACQUIRE) & flags) == flags))
		return;
	wb_bind_inode(inode);
	env_mutex_lock(&inode->i_lock);
	done = is_accounted_for(inode, flags);
	if (done)
		inode_state_add(inode, flags);
	env_mutex_unlock(&inode->i_lock);
	if (done)
		return;
	for (;;) {
		wb = __atomic_load_n(&inode->i_wb, __ATOMIC_ACQUIRE);
		if (try_to_list(wb, inode, flags))
			break;
		wb_leave_retired(inode);
	}
	wb_arm_timer(wb);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * wb.h - what the files about writeback contexts share
 *
 *	bdi.c		a device: made, tuned, stopped
 *	wb.c		one context at work: its works, its threads
 *	wb-list.c	its lists of dirty inodes
 *	wb-map.c	which context an inode should have
 *	wb-move.c	which it has: binding, moving
 *	wb-resize.c	how many there are
 *	wb-sync.c	what is asked of all of them
 *	wb-stats.c	what they say about themselves
 *
 * Lock order: resize_lock -> switch_lock -> list_lock (two: by index) -> inode->i_lock ->
 * mapping->lock.  work_lock is inside list_lock, completion_lock is a leaf.  A worker takes
 * switch_lock by trylock only: who holds it alone waits for that worker.
 */
#ifndef FOLIO_WB_H
#define FOLIO_WB_H

#include "folio/internal.h"

#define NS_PER_SECOND 1000000000ull

/* ---- wb-list.c: list_lock is held, and i_lock of the inode -------------------------- */

/* To the young end of a list. */
void wb_list_file(struct wb_ctx *wb, struct inode *inode, enum wb_list list);
/* To b_dirty, or b_dirty_time if there is nothing else, at its place by dirtied_when. */
void wb_list_file_in_order(struct wb_ctx *wb, struct inode *inode);
/* To the young end of b_dirty, which stays sorted: an older one is made younger. */
void wb_list_redirty(struct wb_ctx *wb, struct inode *inode, uint64_t now);
/*
 * Refill b_io: what needs another slice, then what is old enough (K6).  Returns how many there
 * are.  => no i_lock
 */
uint64_t wb_list_queue_io(struct wb_ctx *wb, const struct wb_work *work);

static inline struct inode *wb_list_first(const struct wb_ctx *wb, enum wb_list list)
{
	const struct list_head *head = &wb->lists[list];

	return list_empty(head) ? NULL : list_first_entry(head, struct inode, i_io_list);
}

static inline void inode_state_add(struct inode *inode, unsigned int flags)
{
	__atomic_store_n(&inode->i_state, inode->i_state | flags, __ATOMIC_RELEASE);
}

/* ---- wb-map.c ----------------------------------------------------------------------- */

/* The context the policy wants for the inode now, always one that was LIVE (W13). */
struct wb_ctx *wb_map_inode(const struct inode *inode);
/* Does the policy want it to leave wb?  Never with a policy that has no opinion (W17). */
bool wb_map_disagrees(const struct inode *inode, const struct wb_ctx *wb);

/* ---- wb-move.c ---------------------------------------------------------------------- */

/* The inode's context has retired and it is on no list: move it to a LIVE one (W16). */
void wb_leave_retired(struct inode *inode);
/*
 * After a slice: where the inode should go instead of back to wb, or NULL.  With a context
 * the switch lock is held shared and both list locks are, else wb's list lock alone (W17).
 * => I_SYNC is ours, no lock held
 */
struct wb_ctx *wb_refile_lock(struct wb_ctx *wb, struct inode *inode);
/* Drops all but wb's list lock, and lets `to` know that it has something. */
void wb_refile_unlock(struct wb_ctx *wb, struct wb_ctx *to);
/*
 * Change the binding; the inode's counts go along.  It is on no list.
 * => both list locks and i_lock are held, `to` is LIVE
 */
void wb_rebind(struct inode *inode, struct wb_ctx *from, struct wb_ctx *to);
/* Move what can be moved away from a retiring context (W33); false: some is left. */
bool wb_move_all(struct wb_ctx *wb);

/* ---- wb.c --------------------------------------------------------------------------- */

/*
 * False: the context is IDLE or stopped, it has nothing to write and the work is not queued.
 */
bool wb_queue_work(struct wb_ctx *wb, struct wb_work *work);
void wb_wake(struct wb_ctx *wb);
void wb_start_background(struct wb_ctx *wb);
void wb_arm_timer(struct wb_ctx *wb);
/* The bodies of a context's threads. */
void wb_thread_main(void *arg);
void wb_helper_main(void *arg);
void wb_completion_main(void *arg);

/* ---- wb-resize.c => resize_lock is held ---------------------------------------------- */

/* 0, or an errno and nothing has changed. */
int wb_resize(struct backing_dev *bdi, unsigned int nr);
/* Give every context so many workers.  0, or an errno and nothing has changed. */
int wb_set_workers(struct backing_dev *bdi, unsigned int nr);
/* Stop them all and free them (W44). */
void wb_stop_all(struct backing_dev *bdi);
/* What the number should be if nobody asks for one, and why (W8). */
struct wb_inputs {
	bool rotational;
	unsigned int nr_cpus;
	unsigned int parallelism; /* the most of any file system */
};
unsigned int wb_automatic_number(const struct backing_dev *bdi, struct wb_inputs *inputs);

/* ---- wb-sync.c ----------------------------------------------------------------------- */

/* Hand what is left of a best-effort budget to the next context; false: nobody takes it. */
bool wb_pass_on(struct wb_ctx *wb, struct wb_work *work);

#endif

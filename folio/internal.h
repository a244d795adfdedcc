/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * internal.h - what the files of folio/ share
 */
#ifndef FOLIO_INTERNAL_H
#define FOLIO_INTERNAL_H

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <iomap/backing_dev.h>
#include <iomap/blkdev.h>
#include <iomap/env.h>
#include <iomap/filemap.h>
#include <iomap/folio.h>
#include <iomap/fs.h>
#include <iomap/list.h>
#include <iomap/page_cache.h>
#include "env/lockdep.h"
#include "env/rcu.h"
#include "folio/buddy.h"
#include "folio/index.h"
#include "folio/pool.h"

#define likely	 env_likely
#define unlikely env_unlikely

/* Reclaim lists of a cache; a folio's list is chosen by its address. */
#define RECLAIM_SHARDS 8

struct reclaim_shard {
	struct env_mutex lock;
	uint32_t pad;
	uint64_t nr; /* [lock] folios */
	struct list_head folios; /* [lock] oldest first */
	char line[32];
};

struct folio_chunk {
	struct folio_chunk *next;
	size_t size;
};

/*
 *	I	set at creation, never changed
 *	a	atomic
 */
struct page_cache {
	struct page_cache_config config; /* [I] */
	uint32_t page_shift; /* [I] */
	uint32_t max_order; /* [I] */
	uint32_t nr_cpus; /* [I] */

	struct buddy buddy;

	struct env_mutex folio_lock; /* protects the four below */
	struct folio *free_folios; /* linked by lru.next */
	struct folio_chunk *chunks;
	uint64_t nr_folios; /* in use */
	uint64_t nr_folio_slots;

	struct index_memory index_memory; /* [a] */
	struct reclaim_shard shards[RECLAIM_SHARDS];
	uint32_t reclaim_hand; /* [a] next shard to look at */
	struct env_waitq memory_wait; /* a folio was freed or became clean */

	/* Limits in pages (K18). [a] */
	uint64_t dirty_thresh;
	uint64_t background_thresh;
	uint64_t dirty_limit; /* the hard one: dirty_thresh, or on its way down to it */
	uint64_t limited_ns; /* when it moved last */
	struct env_waitq dirty_wait; /* dirty fell to freerun */

	uint64_t nr_dirty; /* [a] pages */
	uint64_t nr_writeback; /* [a] pages */
	uint64_t nr_cached; /* [a] pages */
	uint64_t dirty_bytes; /* [a] of dirty blocks, if they are counted (W57) */
	uint64_t writeback_bytes; /* [a] the same, under writeback */
	uint64_t nr_completions; /* [a] pages written, aged (K22) */
	uint64_t aged_ns; /* [a] when that was done last */
	struct page_cache_stats stats; /* [a] cumulative ones only */

	struct env_mutex bdi_lock; /* protects bdis */
	struct list_head bdis;

	struct pool ioend_pool;

	void (*trace_insert)(void *arg, const struct inode *inode, uint64_t index,
			     unsigned int order);
	void *trace_arg;
};

static inline void counter_add(uint64_t *counter, uint64_t n)
{
	__atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

static inline void counter_sub(uint64_t *counter, uint64_t n)
{
	__atomic_fetch_sub(counter, n, __ATOMIC_RELAXED);
}

static inline uint64_t counter_read(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

/* ---- folio.c ------------------------------------------------------------------------ */

#define FOLIO_LOCK_CLASS "folio lock"

/* A locked folio of no mapping with one reference, or NULL. */
struct folio *folio_alloc(struct page_cache *cache, unsigned int order);

/* Take a reference unless the folio has been freed. */
static inline bool folio_try_get(struct folio *folio)
{
	uint64_t state = __atomic_load_n(&folio->state, __ATOMIC_RELAXED);

	do {
		if (unlikely(state < FOLIO_REF_ONE))
			return false;
	} while (unlikely(!__atomic_compare_exchange_n(&folio->state, &state, state + FOLIO_REF_ONE,
						       true, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)));
	return true;
}

/*
 * The same and the lock in one step, with the mark of use; -1: freed, 0: only the reference
 * (somebody has the lock), 1: both.
 */
static inline int folio_try_get_lock(struct folio *folio)
{
	uint64_t state = __atomic_load_n(&folio->state, __ATOMIC_RELAXED);
	uint64_t next;

	do {
		if (unlikely(state < FOLIO_REF_ONE))
			return -1;
		next = (state + FOLIO_REF_ONE) | FOLIO_LOCKED | FOLIO_REFERENCED;
	} while (unlikely(!__atomic_compare_exchange_n(&folio->state, &state, next, true,
						       __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)));
	if (unlikely(state & FOLIO_LOCKED))
		return 0;
	env_lockdep_taken(folio, FOLIO_LOCK_CLASS);
	return 1;
}

/* The state word's low half, where waiters sleep. */
static inline uint32_t *folio_wait_word(struct folio *folio)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return (uint32_t *)&folio->state;
#else
	return (uint32_t *)&folio->state + 1;
#endif
}

void folio_wait_bit(struct folio *folio, uint32_t bit);
void folio_wake_waiters(struct folio *folio);

/* ---- filemap.c ---------------------------------------------------------------------- */

/* The folio at index with a reference, or NULL; no lock taken, no mark of use. */
struct folio *filemap_lookup(struct address_space *mapping, uint64_t index);
/* Put the folio (locked, one reference of the caller) into the index.  0, -EEXIST, -ENOMEM. */
int filemap_add_folio(struct address_space *mapping, struct folio *folio, uint64_t index);
/* What an allocation may do when there is no free memory. */
enum alloc_effort {
	ALLOC_NOWAIT, /* nothing */
	ALLOC_LIGHT, /* one short look for clean memory */
	ALLOC_WAIT, /* that for a large folio; wait for writeback for one of the minimum order */
};

/* A folio of the order for index, ready to be added: locked, with block state.  -ENOMEM. */
int filemap_alloc_folio(struct address_space *mapping, uint64_t index, unsigned int order,
			enum alloc_effort effort, struct folio **folio);
/* Take the locked folio out of its mapping; drops the index's reference. */
void filemap_remove_folio(struct folio *folio);
/* The locked folio is clean, not under writeback: take it out if nobody else uses it (G18). */
bool filemap_evict_folio(struct folio *folio);

/* ---- reclaim.c ---------------------------------------------------------------------- */

void reclaim_init(struct page_cache *cache);
void reclaim_add(struct folio *folio);
void reclaim_forget(struct folio *folio);
/* Evict clean folios until `pages` are freed or all were looked at; returns pages freed. */
uint64_t reclaim_pages(struct page_cache *cache, uint64_t pages);
/* The same with little effort: for what is only a wish. */
uint64_t reclaim_lightly(struct page_cache *cache, uint64_t pages);
/* Until a folio of the order may be had, waiting for writeback and for others that have memory
 * in use; false if nothing can be freed. */
bool reclaim_wait(struct page_cache *cache, unsigned int order);

/* ---- writeback contexts: see wb.h ---------------------------------------------------- */

enum wb_state {
	WB_IDLE, /* slot filled, threads parked, nothing on it */
	WB_LIVE,
	WB_RETIRING, /* no inode is added; being emptied */
};

/* Where a dirty inode is: inode->i_list (K4). */
enum wb_list {
	WB_UNLISTED,
	WB_B_DIRTY, /* oldest first */
	WB_B_DIRTY_TIME, /* only lazy timestamps; oldest first */
	WB_B_IO, /* taken for this round */
	WB_B_MORE_IO, /* taken, being written or to be written again */
	NR_WB_LISTS
};

struct wb_work {
	struct list_head link; /* [work_lock] */
	struct super_block *sb; /* NULL: all */
	enum writeback_sync_mode sync_mode;
	int64_t nr_pages; /* budget, INT64_MAX: no limit */
	uint64_t cutoff; /* only inodes dirtied at or before (ns); set when it starts */
	bool tagged;
	bool for_sync;
	bool for_background;
	bool for_periodic;
	bool range_cyclic;
	bool auto_free; /* nobody waits: the worker frees it */
	unsigned int nr_hops; /* contexts that may still take over what is left of the budget */
	struct env_completion done;
};

/* A worker beyond the first. */
struct wb_helper {
	struct wb_ctx *wb;
	struct env_thread *thread;
	bool stop; /* [a] */
};

/*
 * One writeback context.  What it contends for with another context is nothing but the
 * cache's global counters (W23).
 */
struct wb_ctx {
	struct backing_dev *bdi; /* [I] */
	unsigned int index; /* [I] */
	enum wb_state state; /* [resize_lock + list_lock to write, a] */

	struct env_mutex list_lock; /* L10 */
	struct list_head lists[NR_WB_LISTS];
	uint64_t nr_on[NR_WB_LISTS]; /* [list_lock to write, a] */
	uint64_t nr_listed; /* [list_lock to write, a] the sum */
	struct inode *finger; /* [list_lock] on b_dirty: the last one put in order */
	struct wb_work *current; /* [list_lock] what the first worker is at; others help */
	unsigned int nr_helping; /* [list_lock] */

	struct env_mutex work_lock; /* L11 */
	struct list_head works; /* FIFO */
	bool closed; /* [work_lock] the worker has left: no work is taken any more */
	bool start_background; /* [a] */
	bool stop; /* [a] */
	uint64_t timer_ns; /* [work_lock] when periodic writeback is due; 0: not armed */
	struct env_waitq wake;
	struct env_thread *thread; /* the first worker */

	/* The workers beyond the first (W25). */
	struct wb_helper helpers[WB_WORKERS_MAX - 1];
	unsigned int nr_helpers; /* [resize_lock to write, a] */
	struct env_waitq help_wake;
	struct env_waitq help_done;

	struct env_mutex completion_lock; /* protects the two below */
	struct wb_completion *completion_first;
	struct wb_completion **completion_tail;
	uint64_t completion_length; /* [completion_lock to write, a] with the ones taken */
	struct env_waitq completion_wake;
	struct env_thread *completion_thread;

	uint64_t reclaimable; /* [a] pages */
	uint64_t writeback; /* [a] pages */
	uint64_t dirtied; /* [a] pages, cumulative */
	uint64_t written; /* [a] pages, cumulative */

	uint64_t nr_completions; /* [a] pages written, aged (K22, W52) */

	/* Bandwidth (W53), pages a second. [a] */
	uint64_t write_bandwidth;
	uint64_t avg_bandwidth;
	uint64_t bw_stamp; /* begin of the window, moved on by the time without writing */
	uint64_t bw_written; /* pages written before it */
	uint64_t bw_idle_ns; /* since when nothing is written, 0: something is */
	uint32_t bw_writers; /* flushers at work */
	uint32_t nr_throttled; /* [a] writers asleep now */

	struct wb_stats stats; /* [a] */
};

struct backing_dev {
	struct page_cache *cache; /* [I] */
	struct block_device *bdev; /* [I] */
	struct bdi_tuning tuning; /* [resize_lock to write, a] */
	unsigned int user_nr; /* [resize_lock] 0: automatic */
	struct list_head link; /* [cache->bdi_lock] */
	struct env_mutex resize_lock; /* protects the number of contexts, sbs */
	/*
	 * Outside list_lock.  Shared: whoever moves listed inodes, and only by trylock.  Alone:
	 * a sync, from its first work to its last (W35).
	 */
	struct env_rwsem switch_lock;
	struct env_waitq idle_wait; /* a context became IDLE */
	struct list_head sbs; /* super blocks, by s_link */
	struct wb_ctx *slots[WB_CTX_MAX]; /* filled in order, never moved (W2) */
	unsigned int nr_slots; /* [a] */
	unsigned int nr_live; /* [a] */
	uint64_t dirty_contexts[WB_CTX_MAX / 64]; /* [a] bitmap: has listed inodes */
	uint64_t nr_resizes; /* [a] */
	uint64_t resize_ns; /* [a] */
	uint32_t next_round_robin; /* [a] */
};

/* A member of the device's tuning; may change at any time. */
#define bdi_tuned(bdi, member) __atomic_load_n(&(bdi)->tuning.member, __ATOMIC_RELAXED)

/*
 * The context to account the inode's pages to; bound here if it is clean and idle (W16).
 * => no lock held
 */
void wb_bind_inode(struct inode *inode);
/* Let every context with dirty inodes look at the background limit (W21). */
void wb_kick_background(struct backing_dev *bdi);
/*
 * The same for a writer of context `wb`: all contexts, or with the tuning kick_all off this
 * one alone.
 */
void wb_kick_writer(struct wb_ctx *wb);
/* Off its list, if it is on one.  => list_lock and i_lock are held */
void wb_list_unfile(struct wb_ctx *wb, struct inode *inode);
/* A file system came, went or told its parallelism: the automatic number again (W8). */
void bdi_number_changed(struct backing_dev *bdi);
/* Is the mapping's DIRTY tag set anywhere? */
bool mapping_has_dirty_tag(struct address_space *mapping);

static inline enum wb_state wb_state(const struct wb_ctx *wb)
{
	return __atomic_load_n(&wb->state, __ATOMIC_ACQUIRE);
}

/* ---- dirty.c ------------------------------------------------------------------------ */

/*
 * Whole pages of the file that are outside the cache become dirty, come under writeback, or end
 * (W57).  => mapping->lock, with nr_writeback still what it was
 */
void blocks_count_foreign(struct address_space *mapping, int64_t dirty, int64_t writeback);

/* ---- throttle.c --------------------------------------------------------------------- */

void dirty_limits_init(struct page_cache *cache);
/* Is background writeback wanted (K8, W21)? */
bool wb_over_background(const struct wb_ctx *wb);

static inline uint64_t dirty_freerun(const struct page_cache *cache)
{
	return (counter_read(&cache->dirty_thresh) + counter_read(&cache->background_thresh)) / 2;
}

/* Pages, as the limits count them: for the background, and for throttling (K19, W57). */
static inline uint64_t cache_dirty(const struct page_cache *cache)
{
	if (unlikely(cache->config.dirty_accounting == DIRTY_ACCOUNT_BLOCK))
		return counter_read(&cache->dirty_bytes) >> cache->page_shift;
	return counter_read(&cache->nr_dirty);
}

static inline uint64_t cache_dirty_and_writeback(const struct page_cache *cache)
{
	if (unlikely(cache->config.dirty_accounting == DIRTY_ACCOUNT_BLOCK))
		return (counter_read(&cache->dirty_bytes) +
			counter_read(&cache->writeback_bytes)) >>
		       cache->page_shift;
	return counter_read(&cache->nr_dirty) + counter_read(&cache->nr_writeback);
}

/* ---- share.c ------------------------------------------------------------------------ */

/* The context's part of `limit` while `dirty` pages of it are taken (K22, W51, W52, W56). */
uint64_t wb_share(const struct wb_ctx *wb, uint64_t limit, uint64_t dirty);
/* Completions count for about three seconds; call it now and then. */
void share_age(struct page_cache *cache, uint64_t now);
/* The device goes: its completions count no longer.  => on no list of the cache any more */
void share_forget(struct backing_dev *bdi);

/* ---- bandwidth.c -------------------------------------------------------------------- */

/* First estimate of a context that is one of `nr` now, or 0: of a device that starts (W54). */
void wb_bandwidth_start(struct wb_ctx *wb, unsigned int nr);
/* Somebody - a flusher, an fsync - begins to write what the context has; ends. */
void wb_bandwidth_begin(struct wb_ctx *wb);
void wb_bandwidth_end(struct wb_ctx *wb);
/* The context has pages under writeback again; none any more. */
void wb_bandwidth_wake(struct wb_ctx *wb);
void wb_bandwidth_idle(struct wb_ctx *wb);
/* Take the window into the estimate if it is long enough; any thread, at any time. */
void wb_bandwidth_update(struct wb_ctx *wb, uint64_t now);

/* ---- errseq.c ----------------------------------------------------------------------- */

void errseq_set(errseq_t *word, int error);
errseq_t errseq_sample(const errseq_t *word);
/* 0 or the error not yet seen by *since; marks it seen and moves *since. */
int errseq_check_and_advance(errseq_t *word, errseq_t *since);

/* ---- readahead.c -------------------------------------------------------------------- */

/* Page `index` of a read of `request` pages is not cached. */
void readahead_sync(struct file *file, uint64_t index, uint64_t request);
/* The read reached the mark on `folio`. */
void readahead_async(struct file *file, struct folio *folio, uint64_t request);

#endif

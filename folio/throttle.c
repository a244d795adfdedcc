/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * throttle.c - how much may be dirty, and how fast writers may go (K18..K23, W50, W55)
 *
 *	0 ------ background ------ freerun ------ setpoint ------ limit
 *	nobody			   free		  as fast as	  stop
 *	writes			   up to here	  the flusher
 *
 * Each byte a writer dirties above freerun is a debt, which it pays by sleeping at the rate of
 * its context's bandwidth, shared among the context's writers, times two factors: one for the
 * place of the whole cache between freerun and limit, one for the context's own part of that.
 * A sleep is followed by a new look; what is not paid yet is paid at the rate of that time.
 */
#include "folio/internal.h"

#define NS_PER_SECOND  1000000000ull
#define PAUSE_MAX_NS   200000000ull
#define PAUSE_MIN_NS   10000ull /* shorter ones are not worth it: the debt stands over */
#define PAUSE_USUAL_NS 10000000ull /* so long a writer may sleep without a new look */
#define STOP_MIN_NS    100000ull /* between two looks of one who may not go on at all */
#define LIMIT_STEP_NS  200000000ull

/* Fixed point: 1.0. */
#define ONE 1024

/* ---- limits (K18) ------------------------------------------------------------------- */

static uint64_t limit_pages(const struct page_cache *cache, uint64_t bytes, uint32_t ratio)
{
	if (bytes)
		return (bytes + cache->config.page_size - 1) >> cache->page_shift;
	return cache->buddy.nr_pages * ratio / 100;
}

static void limits_set(struct page_cache *cache, uint64_t thresh, uint64_t background)
{
	if (thresh < 4)
		thresh = 4;
	if (background >= thresh)
		background = thresh / 2;
	__atomic_store_n(&cache->dirty_thresh, thresh, __ATOMIC_RELAXED);
	__atomic_store_n(&cache->background_thresh, background, __ATOMIC_RELAXED);
	/* The hard limit goes up at once. */
	if (counter_read(&cache->dirty_limit) < thresh)
		__atomic_store_n(&cache->dirty_limit, thresh, __ATOMIC_RELAXED);
}

void dirty_limits_init(struct page_cache *cache)
{
	const struct page_cache_config *config = &cache->config;

	limits_set(
		cache, limit_pages(cache, config->dirty_bytes, config->dirty_ratio),
		limit_pages(cache, config->dirty_background_bytes, config->dirty_background_ratio));
}

int page_cache_set_dirty_ratio(struct page_cache *cache, uint32_t ratio, uint32_t background)
{
	if (ratio > 100 || background > 100)
		return -EINVAL;
	limits_set(cache, limit_pages(cache, 0, ratio), limit_pages(cache, 0, background));
	return 0;
}

int page_cache_set_dirty_bytes(struct page_cache *cache, uint64_t bytes, uint64_t background)
{
	if (!bytes || !background)
		return -EINVAL;
	limits_set(cache, limit_pages(cache, bytes, 0), limit_pages(cache, background, 0));
	return 0;
}

/* The hard limit comes down by 1/32 each 200 ms, not below what is dirty. */
static void lower_limit(struct page_cache *cache, uint64_t now, uint64_t dirty)
{
	uint64_t limit = counter_read(&cache->dirty_limit);
	uint64_t floor = counter_read(&cache->dirty_thresh);
	uint64_t last = counter_read(&cache->limited_ns);

	if (limit <= floor || now < last + LIMIT_STEP_NS ||
	    !__atomic_compare_exchange_n(&cache->limited_ns, &last, now, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED))
		return;
	if (floor < dirty)
		floor = dirty;
	if (floor < limit)
		limit -= (limit - floor + 31) / 32;
	__atomic_store_n(&cache->dirty_limit, limit, __ATOMIC_RELAXED);
}

/* ---- a context against its part ----------------------------------------------------- */

/* What one look at the cache and at a context shows, in pages. */
struct balance {
	uint64_t dirty; /* dirty and under writeback, all */
	uint64_t freerun, limit;
	uint64_t own; /* the same of the context */
	uint64_t own_freerun, own_limit;
	bool strict; /* the context has to keep its part even below freerun */
};

static uint64_t context_pages(const struct wb_ctx *wb)
{
	return counter_read(&wb->reclaimable) + counter_read(&wb->writeback);
}

/* Pages of a context's folios, as the limits count them: as many in a hundred as of all. */
static uint64_t as_counted(const struct page_cache *cache, uint64_t pages)
{
	uint64_t all = counter_read(&cache->nr_dirty) + counter_read(&cache->nr_writeback);

	if (likely(cache->config.dirty_accounting == DIRTY_ACCOUNT_FOLIO) || !all)
		return pages;
	return (uint64_t)((__uint128_t)pages * cache_dirty_and_writeback(cache) / all);
}

/*
 * Who has more than his part leaves some of the last quarter to those who have not, and all of it
 * if he has an eighth more (M125).
 */
static uint64_t left_to_others(const struct balance *now)
{
	uint64_t excess = now->own > now->own_limit ? now->own - now->own_limit : 0;
	uint64_t quarter = now->limit > now->freerun ? (now->limit - now->freerun) / 4 : 0;

	if (excess >= now->own_limit / 8)
		return excess ? quarter : 0;
	return (uint64_t)((__uint128_t)quarter * excess * 8 / now->own_limit);
}

static struct balance balance_look(const struct wb_ctx *wb)
{
	const struct page_cache *cache = wb->bdi->cache;
	uint64_t thresh = counter_read(&cache->dirty_thresh);
	uint64_t background = counter_read(&cache->background_thresh);
	struct balance now = {
		.dirty = cache_dirty_and_writeback(cache),
		.freerun = (thresh + background) / 2,
		.limit = counter_read(&cache->dirty_limit),
		.own = as_counted(cache, context_pages(wb)),
		.strict = bdi_tuned(wb->bdi, strict_limit),
	};

	now.own_limit = wb_share(wb, thresh, now.dirty);
	now.own_freerun = (now.own_limit + background * now.own_limit / thresh) / 2;
	now.limit -= left_to_others(&now);
	return now;
}

/* Nobody has to sleep here (M124, W55). */
static bool is_free(const struct balance *now)
{
	return now->dirty <= now->freerun && (!now->strict || now->own <= now->own_freerun);
}

/* Nobody may go on here. */
static bool is_full(const struct balance *now)
{
	return now->dirty >= now->limit || (now->strict && now->own >= now->own_limit);
}

bool wb_over_background(const struct wb_ctx *wb)
{
	const struct page_cache *cache = wb->bdi->cache;
	uint64_t background = counter_read(&cache->background_thresh);
	uint64_t thresh = counter_read(&cache->dirty_thresh);
	uint64_t own = as_counted(cache, counter_read(&wb->reclaimable));
	uint64_t dirty;

	if (cache_dirty(cache) > background)
		return true;
	if (!own)
		return false;
	dirty = cache_dirty_and_writeback(cache);
	if (own > background * wb_share(wb, thresh, dirty) / thresh)
		return true;
	/*
	 * Writers are being throttled for what others have in flight, while nothing of this
	 * context is: without it they would sleep for pages that nobody writes (M125).
	 */
	return dirty > dirty_freerun(cache) && !counter_read(&wb->writeback);
}

/* ---- rate (K21) --------------------------------------------------------------------- */

/*
 * How fast writers may go relative to the device: 2.0 at freerun, 1.0 half way to the limit,
 * 0 at the limit, falling as a cube around the middle.
 */
static uint64_t position_factor(uint64_t dirty, uint64_t freerun, uint64_t limit)
{
	int64_t setpoint = (int64_t)((freerun + limit) / 2);
	int64_t x, factor;

	if (dirty >= limit)
		return 0;
	if (dirty <= freerun)
		return 2 * ONE;
	x = (setpoint - (int64_t)dirty) * ONE / ((int64_t)limit - setpoint + 1);
	factor = ONE + (x * x / ONE) * x / ONE;
	return factor < 0 ? 0 : (uint64_t)factor;
}

/*
 * A context that has more than its part of the setpoint is slowed down, to a quarter at most;
 * one that has not half of its part goes up to 8 times as fast, lest its device gets idle.
 */
static uint64_t part_factor(const struct balance *now)
{
	uint64_t setpoint = (now->freerun + now->limit) / 2;
	uint64_t part = (uint64_t)((__uint128_t)setpoint * now->own_limit / now->limit) + 1;
	uint64_t factor = now->own < 2 * part ? (2 * part - now->own) * ONE / part : 0;

	if (factor < ONE / 4)
		factor = ONE / 4;
	if (now->own * 16 < now->own_limit)
		return factor * 8;
	if (now->own * 2 < now->own_limit)
		return factor * now->own_limit / (now->own * 2);
	return factor;
}

/* Bytes a second for one writer of the context. */
static uint64_t writer_rate(const struct wb_ctx *wb, const struct balance *now)
{
	const struct page_cache *cache = wb->bdi->cache;
	uint64_t writers = 1 + __atomic_load_n(&wb->nr_throttled, __ATOMIC_RELAXED);
	uint64_t base = as_counted(cache, counter_read(&wb->avg_bandwidth) << cache->page_shift);
	uint64_t factor = position_factor(now->dirty, now->freerun, now->limit);

	if (now->strict) {
		uint64_t own = position_factor(now->own, now->own_freerun, now->own_limit);

		factor = factor < own ? factor : own;
	} else {
		factor = factor * part_factor(now) / ONE;
	}
	return (uint64_t)((__uint128_t)base * factor / ONE / writers);
}

/* Time for so many pages, PAUSE_MAX_NS at most. */
static uint64_t pages_ns(uint64_t pages, uint64_t per_second)
{
	__uint128_t ns = (__uint128_t)pages * NS_PER_SECOND / per_second;

	return ns < PAUSE_MAX_NS ? (uint64_t)ns : PAUSE_MAX_NS;
}

/*
 * A sleep ends before the cache can have moved by more than an eighth of its way from freerun to
 * the limit, as what it was computed from holds no longer; and before the context can have
 * written all it has, lest its device gets idle.
 */
static uint64_t longest_pause(const struct wb_ctx *wb, const struct balance *now)
{
	uint64_t bandwidth = counter_read(&wb->avg_bandwidth);
	uint64_t steps = now->limit > now->freerun ? (now->limit - now->freerun) / 8 : 0;
	uint64_t moved = pages_ns(steps, bandwidth);
	uint64_t written = pages_ns(context_pages(wb), bandwidth);

	if (moved < PAUSE_USUAL_NS)
		moved = PAUSE_USUAL_NS;
	if (written < STOP_MIN_NS)
		written = STOP_MIN_NS;
	return moved < written ? moved : written;
}

/* ---- a writer (K20, K21) ------------------------------------------------------------ */

/* Bytes a writer may dirty in one go when it has to sleep for them. */
static uint64_t chunk_bytes(const struct page_cache *cache)
{
	return cache->page_shift < 15 ? 32u << 10 : cache->config.page_size;
}

/* Bytes a writer may dirty before it looks again, when it is free. */
static uint64_t allowance(const struct page_cache *cache, const struct balance *now)
{
	uint64_t headroom = now->dirty < now->limit ? now->limit - now->dirty : 1;
	uint64_t cap = counter_read(&cache->dirty_thresh) / (32 * cache->nr_cpus);
	uint64_t pages = 1ull << ((63u - (unsigned int)__builtin_clzll(headroom)) / 2);

	if (cap < 16)
		cap = 16;
	return (pages < cap ? pages : cap) << cache->page_shift;
}

/*
 * The context the inode's pages count for.  One that was never dirty has none yet: it is held to
 * the context of its device that has most, or small new files would never be.
 */
static struct wb_ctx *context_of(const struct inode *inode)
{
	struct wb_ctx *most = __atomic_load_n(&inode->i_wb, __ATOMIC_ACQUIRE);
	const struct backing_dev *bdi = inode->i_sb->s_bdi;
	unsigned int nr = __atomic_load_n(&bdi->nr_slots, __ATOMIC_ACQUIRE);

	if (most)
		return most;
	most = bdi->slots[0];
	for (unsigned int i = 1; i < nr; i++)
		if (context_pages(bdi->slots[i]) > context_pages(most))
			most = bdi->slots[i];
	return most;
}

/* True if it ended because dirty fell to freerun.  *slept is how long it was. */
static bool throttle_sleep(struct wb_ctx *wb, uint64_t pause, uint64_t *slept)
{
	struct page_cache *cache = wb->bdi->cache;
	uint64_t start = env_clock_ns();
	uint32_t key = env_waitq_prepare(&cache->dirty_wait);
	struct balance now = balance_look(wb);
	bool woken = true;

	__atomic_fetch_add(&wb->nr_throttled, 1, __ATOMIC_RELAXED);
	if (is_free(&now))
		env_waitq_cancel(&cache->dirty_wait);
	else
		woken = env_waitq_wait(&cache->dirty_wait, key, pause);
	__atomic_fetch_sub(&wb->nr_throttled, 1, __ATOMIC_RELAXED);
	*slept = env_clock_ns() - start;
	counter_add(&cache->stats.nr_throttled, 1);
	counter_add(&cache->stats.throttled_ns, *slept);
	counter_add(&wb->stats.nr_throttled, 1);
	counter_add(&wb->stats.throttled_ns, *slept);
	return woken;
}

/* Sleep for the debt; -EINTR if the thread is cancelled.  *debt is what is left of it. */
static int pay(struct inode *inode, uint64_t *debt)
{
	struct page_cache *cache = inode->i_mapping.cache;
	bool slept = false;

	for (;;) {
		/* Looked up again: the inode may be moved meanwhile. */
		struct wb_ctx *wb = context_of(inode);
		struct balance now = balance_look(wb);
		uint64_t time = env_clock_ns();
		uint64_t max = longest_pause(wb, &now);
		uint64_t rate, pause, slept_ns, paid;

		if (is_free(&now)) {
			*debt = 0;
			return 0;
		}
		share_age(cache, time);
		wb_bandwidth_update(wb, time);
		lower_limit(cache, time, now.dirty);
		/* Others have taken the limit: this context goes on chunk by chunk (M125). */
		if (is_full(&now) && slept && now.own << cache->page_shift <= chunk_bytes(cache))
			return 0;
		rate = writer_rate(wb, &now);
		pause = rate ? (uint64_t)((__uint128_t)*debt * NS_PER_SECOND / rate) : max;
		if (!is_full(&now) && pause < PAUSE_MIN_NS)
			return 0;
		if (env_task_self.local[ENV_LOCAL_CANCELLED])
			return -EINTR;
		wb_kick_writer(wb);
		/* It was free, whatever others have made of it before this task came to run. */
		if (throttle_sleep(wb, pause < max ? pause : max, &slept_ns) && !now.strict) {
			*debt = 0;
			return 0;
		}
		paid = (uint64_t)((__uint128_t)rate * slept_ns / NS_PER_SECOND);
		*debt -= paid < *debt ? paid : *debt;
		slept = true;
	}
}

static int balance_slow(struct address_space *mapping, bool nowait)
{
	struct page_cache *cache = mapping->cache;
	uint64_t *local = env_task_self.local;
	struct wb_ctx *wb = context_of(mapping->host);
	struct balance now = balance_look(wb);
	uint64_t debt = local[ENV_LOCAL_DIRTIED];
	int err;

	if (wb_over_background(wb))
		wb_kick_writer(wb);
	if (is_free(&now)) {
		local[ENV_LOCAL_DIRTIED] = 0;
		local[ENV_LOCAL_DIRTIED_MAX] = allowance(cache, &now);
		return 0;
	}
	if (nowait)
		return -EAGAIN;
	/* A new thread takes over what one that has gone has left unpaid. */
	if (!local[ENV_LOCAL_DIRTIED_MAX] && debt < chunk_bytes(cache))
		debt = chunk_bytes(cache);
	err = pay(mapping->host, &debt);
	if (err)
		return err;
	local[ENV_LOCAL_DIRTIED] = debt;
	local[ENV_LOCAL_DIRTIED_MAX] = debt + chunk_bytes(cache);
	return 0;
}

int wb_balance_dirty_pages(struct address_space *mapping, bool nowait)
{
	const uint64_t *local = env_task_self.local;

	if (likely(local[ENV_LOCAL_DIRTIED] < local[ENV_LOCAL_DIRTIED_MAX]))
		return 0;
	return balance_slow(mapping, nowait);
}

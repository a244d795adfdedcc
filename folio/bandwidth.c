/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * bandwidth.c - how fast a context writes (W53, W54)
 *
 * A window of at least 200 ms of writing gives one more value: pages written, by time.  The
 * context writes while somebody writes for it or pages of it are under writeback; the time
 * in between is no part of the window, whose beginning is moved on by it.
 *
 *	writing:	|#########|         |#####|          |###
 *	window:		<---------...........-----............->
 *
 * What races here costs one inexact window, never more: no lock is worth that.
 */
#include "folio/internal.h"

#define NS_PER_SECOND 1000000000ull
#define START_BYTES   (100ull << 20) /* a second; of a device nothing is known about */
#define WINDOW_NS     200000000ull
#define PERIOD_NS     (4096ull * 1000000) /* over which the estimate forgets */

static uint64_t at_least_one(uint64_t pages)
{
	return pages ? pages : 1;
}

void wb_bandwidth_start(struct wb_ctx *wb, unsigned int nr)
{
	const struct backing_dev *bdi = wb->bdi;
	unsigned int nr_live = __atomic_load_n(&bdi->nr_live, __ATOMIC_ACQUIRE);
	uint64_t now = env_clock_ns();
	uint64_t pages = 0;

	/* Together they are as fast as before. */
	for (unsigned int i = 0; nr && i < nr_live; i++)
		if (bdi->slots[i] != wb)
			pages += counter_read(&bdi->slots[i]->avg_bandwidth);
	pages = pages ? at_least_one(pages / nr) : START_BYTES >> bdi->cache->page_shift;
	__atomic_store_n(&wb->write_bandwidth, pages, __ATOMIC_RELAXED);
	__atomic_store_n(&wb->avg_bandwidth, pages, __ATOMIC_RELAXED);
	__atomic_store_n(&wb->bw_written, counter_read(&wb->written), __ATOMIC_RELAXED);
	__atomic_store_n(&wb->bw_stamp, now, __ATOMIC_RELAXED);
	__atomic_store_n(&wb->bw_idle_ns, at_least_one(now), __ATOMIC_RELAXED);
}

/* ---- when it writes ----------------------------------------------------------------- */

void wb_bandwidth_wake(struct wb_ctx *wb)
{
	uint64_t idle_ns;

	if (!counter_read(&wb->bw_idle_ns))
		return;
	idle_ns = __atomic_exchange_n(&wb->bw_idle_ns, 0, __ATOMIC_ACQ_REL);
	if (idle_ns)
		counter_add(&wb->bw_stamp, env_clock_ns() - idle_ns);
}

void wb_bandwidth_idle(struct wb_ctx *wb)
{
	if (!__atomic_load_n(&wb->bw_writers, __ATOMIC_SEQ_CST))
		__atomic_store_n(&wb->bw_idle_ns, at_least_one(env_clock_ns()), __ATOMIC_RELEASE);
}

void wb_bandwidth_begin(struct wb_ctx *wb)
{
	__atomic_fetch_add(&wb->bw_writers, 1, __ATOMIC_SEQ_CST);
	wb_bandwidth_wake(wb);
}

void wb_bandwidth_end(struct wb_ctx *wb)
{
	__atomic_fetch_sub(&wb->bw_writers, 1, __ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&wb->writeback, __ATOMIC_SEQ_CST))
		wb_bandwidth_idle(wb);
}

/* ---- the estimate ------------------------------------------------------------------- */

static void take_window(struct wb_ctx *wb, uint64_t pages, uint64_t elapsed)
{
	uint64_t old = counter_read(&wb->write_bandwidth);
	uint64_t avg = counter_read(&wb->avg_bandwidth);
	__uint128_t per_second = (__uint128_t)pages * NS_PER_SECOND;
	uint64_t bw;

	if (elapsed > PERIOD_NS) {
		bw = (uint64_t)(per_second / elapsed);
		avg = bw;
	} else {
		bw = (uint64_t)((per_second + (__uint128_t)old * (PERIOD_NS - elapsed)) /
				PERIOD_NS);
		if (avg > old && old >= bw)
			avg -= (avg - old) / 8;
		else if (avg < old && old <= bw)
			avg += (old - avg) / 8;
	}
	__atomic_store_n(&wb->write_bandwidth, at_least_one(bw), __ATOMIC_RELAXED);
	__atomic_store_n(&wb->avg_bandwidth, at_least_one(avg), __ATOMIC_RELAXED);
}

void wb_bandwidth_update(struct wb_ctx *wb, uint64_t now)
{
	uint64_t stamp = counter_read(&wb->bw_stamp);
	uint64_t written;

	if (now < stamp + WINDOW_NS || counter_read(&wb->bw_idle_ns))
		return;
	/* Whoever moves the stamp takes the window. */
	if (!__atomic_compare_exchange_n(&wb->bw_stamp, &stamp, now, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED))
		return;
	written = counter_read(&wb->written);
	take_window(wb, written - __atomic_exchange_n(&wb->bw_written, written, __ATOMIC_RELAXED),
		    now - stamp);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * wb-stats.c - what contexts say about themselves, and what back ends tell them (W60..W62)
 */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>

#include "folio/wb.h"

/* ---- told by back ends --------------------------------------------------------------- */

void wb_account_wait(struct inode *inode, enum wb_wait kind, uint64_t ns)
{
	struct wb_ctx *wb = __atomic_load_n(&inode->i_wb, __ATOMIC_ACQUIRE);

	if (!wb)
		return;
	switch (kind) {
	case WB_WAIT_LOCK:
		counter_add(&wb->stats.lock_wait_ns, ns);
		break;
	case WB_WAIT_LOG:
		counter_add(&wb->stats.log_wait_ns, ns);
		break;
	case WB_WAIT_DEVICE:
		counter_add(&wb->stats.device_wait_ns, ns);
		break;
	}
}

void wb_account_request(struct inode *inode, uint64_t bytes)
{
	struct wb_ctx *wb = __atomic_load_n(&inode->i_wb, __ATOMIC_ACQUIRE);

	if (wb) {
		counter_add(&wb->stats.requests, 1);
		counter_add(&wb->stats.bytes, bytes);
	}
}

/* ---- pages outside the cache --------------------------------------------------------- */

/* => mapping->lock is held */
static void add_writeback(struct inode *inode, uint64_t n)
{
	struct address_space *mapping = &inode->i_mapping;
	struct super_block *sb = inode->i_sb;
	struct wb_ctx *wb = inode->i_wb;
	uint64_t before = mapping->nr_writeback;

	blocks_count_foreign(mapping, 0, (int64_t)n);
	mapping->nr_writeback += n;
	counter_add(&mapping->cache->nr_writeback, n);
	if (__atomic_fetch_add(&wb->writeback, n, __ATOMIC_SEQ_CST) == 0)
		wb_bandwidth_wake(wb);
	if (!__atomic_load_n(&wb->writeback, __ATOMIC_SEQ_CST))
		wb_bandwidth_idle(wb);
	if (!before == !mapping->nr_writeback)
		return;
	/* Where a retiring context finds it. */
	env_mutex_lock(&sb->s_wb_lock);
	if (before)
		list_del_init(&inode->i_wb_link);
	else
		list_add_tail(&inode->i_wb_link, &sb->s_wb_inodes);
	env_mutex_unlock(&sb->s_wb_lock);
}

/*
 * They count in the mapping like pages of the cache, so a move takes them along, and an inode
 * that has some keeps its context.
 */
void inode_wb_stat_add(struct inode *inode, enum wb_stat_item item, int64_t n)
{
	struct address_space *mapping = &inode->i_mapping;
	uint64_t pages = (uint64_t)n;

	wb_bind_inode(inode);
	env_mutex_lock(&mapping->lock);
	switch (item) {
	case WB_STAT_RECLAIMABLE:
		blocks_count_foreign(mapping, n, 0);
		mapping->nr_dirty += pages;
		counter_add(&mapping->cache->nr_dirty, pages);
		counter_add(&inode->i_wb->reclaimable, pages);
		break;
	case WB_STAT_WRITEBACK:
		add_writeback(inode, pages);
		break;
	case WB_STAT_WRITTEN:
		counter_add(&inode->i_wb->written, pages);
		counter_add(&inode->i_wb->nr_completions, pages);
		counter_add(&mapping->cache->nr_completions, pages);
		break;
	}
	env_mutex_unlock(&mapping->lock);
	if (n < 0 && cache_dirty_and_writeback(mapping->cache) <= dirty_freerun(mapping->cache))
		env_waitq_wake(&mapping->cache->dirty_wait);
}

/* ---- figures ------------------------------------------------------------------------ */

static uint64_t wb_share_now(const struct wb_ctx *wb)
{
	const struct page_cache *cache = wb->bdi->cache;

	return wb_share(wb, counter_read(&cache->dirty_thresh), cache_dirty_and_writeback(cache));
}

bool bdi_dirty_exceeded(const struct backing_dev *bdi)
{
	const struct page_cache *cache = bdi->cache;
	unsigned int nr = __atomic_load_n(&bdi->nr_slots, __ATOMIC_ACQUIRE);

	if (cache_dirty_and_writeback(cache) <= dirty_freerun(cache) &&
	    !bdi_tuned(bdi, strict_limit))
		return false;
	for (unsigned int i = 0; i < nr; i++) {
		const struct wb_ctx *wb = bdi->slots[i];
		uint64_t own = counter_read(&wb->reclaimable) + counter_read(&wb->writeback);

		if (own && own > wb_share_now(wb))
			return true;
	}
	return false;
}

static enum wb_context_state public_state(const struct wb_ctx *wb)
{
	switch (wb_state(wb)) {
	case WB_LIVE:
		return WB_CONTEXT_LIVE;
	case WB_RETIRING:
		return WB_CONTEXT_RETIRING;
	case WB_IDLE:
		break;
	}
	return WB_CONTEXT_IDLE;
}

static void collect(const struct wb_ctx *wb, struct wb_stats *stats)
{
	unsigned int shift = wb->bdi->cache->page_shift;

#define X(name, text) stats->name = counter_read(&wb->stats.name);
	WB_STATS(X)
#undef X
	stats->nr_dirty_inodes = counter_read(&wb->nr_listed);
	stats->nr_b_dirty = counter_read(&wb->nr_on[WB_B_DIRTY]);
	stats->nr_b_io = counter_read(&wb->nr_on[WB_B_IO]);
	stats->nr_b_more_io = counter_read(&wb->nr_on[WB_B_MORE_IO]);
	stats->nr_b_dirty_time = counter_read(&wb->nr_on[WB_B_DIRTY_TIME]);
	stats->reclaimable = counter_read(&wb->reclaimable);
	stats->writeback = counter_read(&wb->writeback);
	stats->dirtied = counter_read(&wb->dirtied);
	stats->written = counter_read(&wb->written);
	stats->nr_throttled_now = __atomic_load_n(&wb->nr_throttled, __ATOMIC_RELAXED);
	stats->completion_queue = counter_read(&wb->completion_length);
	stats->share = wb_share_now(wb);
	stats->avg_bandwidth = counter_read(&wb->avg_bandwidth) << shift;
	stats->write_bandwidth = counter_read(&wb->write_bandwidth) << shift;
}

enum wb_context_state wb_get_stats(const struct backing_dev *bdi, unsigned int context,
				   struct wb_stats *stats)
{
	memset(stats, 0, sizeof(*stats));
	if (context >= __atomic_load_n(&bdi->nr_slots, __ATOMIC_ACQUIRE))
		return WB_CONTEXT_NONE;
	collect(bdi->slots[context], stats);
	return public_state(bdi->slots[context]);
}

static void add_stats(struct wb_stats *sum, const struct wb_stats *one)
{
#define X(name, text) sum->name += one->name;
	WB_STATS(X)
#undef X
}

void bdi_get_stats(struct backing_dev *bdi, struct bdi_stats *stats)
{
	struct wb_inputs inputs;

	memset(stats, 0, sizeof(*stats));
	env_mutex_lock(&bdi->resize_lock);
	stats->automatic = wb_automatic_number(bdi, &inputs);
	stats->rotational = inputs.rotational;
	stats->nr_cpus = inputs.nr_cpus;
	stats->parallelism = inputs.parallelism;
	stats->user_nr = bdi->user_nr;
	stats->nr_live = bdi->nr_live;
	stats->nr_slots = bdi->nr_slots;
	env_mutex_unlock(&bdi->resize_lock);
	stats->resizes = counter_read(&bdi->nr_resizes);
	stats->resize_ns = counter_read(&bdi->resize_ns);
	for (unsigned int i = 0; i < stats->nr_slots; i++) {
		struct wb_stats one;

		wb_get_stats(bdi, i, &one);
		add_stats(&stats->sum, &one);
	}
}

/* ---- as text (W62, N20) -------------------------------------------------------------- */

struct text {
	char *buf;
	size_t size;
	size_t len; /* of all, also what did not fit */
};

__attribute__((format(printf, 2, 3))) static void put(struct text *text, const char *format, ...)
{
	size_t room = text->len < text->size ? text->size - text->len : 0;
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(room ? text->buf + text->len : NULL, room, format, args);
	va_end(args);
	if (len > 0)
		text->len += (size_t)len;
}

static void put_device(struct text *text, const struct bdi_stats *stats)
{
	put(text,
	    "contexts %u live of %u, asked %u, automatic %u (%s, %u cpus, parallelism %u), "
	    "%llu resizes in %llu us\n",
	    stats->nr_live, stats->nr_slots, stats->user_nr, stats->automatic,
	    stats->rotational ? "rotational" : "not rotational", stats->nr_cpus, stats->parallelism,
	    (unsigned long long)stats->resizes, (unsigned long long)stats->resize_ns / 1000);
}

static void put_context(struct text *text, unsigned int index, enum wb_context_state state,
			const struct wb_stats *stats)
{
	static const char *const names[] = {"none", "idle", "live", "retiring"};

	put(text, "%u %s", index, names[state]);
#define X(name, words) put(text, " " #name " %llu", (unsigned long long)stats->name);
	WB_STATS(X)
#undef X
	put(text, "\n");
}

ssize_t bdi_show(struct backing_dev *bdi, char *buf, size_t size)
{
	struct text text = {.buf = buf, .size = size};
	struct bdi_stats stats;

	if (size)
		buf[0] = '\0';
	bdi_get_stats(bdi, &stats);
	put_device(&text, &stats);
	for (unsigned int i = 0; i < stats.nr_slots; i++) {
		struct wb_stats one;
		enum wb_context_state state = wb_get_stats(bdi, i, &one);

		put_context(&text, i, state, &one);
	}
	return (ssize_t)text.len;
}

ssize_t bdi_store_nr(struct backing_dev *bdi, const char *text, size_t len)
{
	unsigned int nr = 0;
	size_t i = 0, first;
	int err;

	while (i < len && isspace((unsigned char)text[i]))
		i++;
	for (first = i; i < len && isdigit((unsigned char)text[i]); i++) {
		nr = nr * 10 + (unsigned int)(text[i] - '0');
		if (nr > WB_CTX_MAX)
			return -EINVAL;
	}
	if (i == first)
		return -EINVAL;
	while (i < len && isspace((unsigned char)text[i]))
		i++;
	if (i != len)
		return -EINVAL;
	err = bdi_set_nr_contexts(bdi, nr);
	return err ? err : (ssize_t)len;
}

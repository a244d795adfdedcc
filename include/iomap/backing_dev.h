/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * backing_dev.h - the writeback of one block device: N contexts, each with its own thread
 *
 *	bdi_create(&bdi, cache, dev, nr_contexts);	0: automatic
 *	... super_init(&sb, cache, bdi, ...) ...
 *	bdi_destroy(bdi);
 *
 * An inode belongs to one context while it is dirty (K31): its data is allocated and written
 * in file order by one thread at a time.  The number of contexts can be changed while all runs.
 */
#ifndef IOMAP_BACKING_DEV_H
#define IOMAP_BACKING_DEV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct address_space;
struct backing_dev;
struct block_device;
struct inode;
struct page_cache;

#define WB_CTX_MAX     256
#define WB_WORKERS_MAX 16

/* Which context an inode gets at its first dirtying (W13). */
enum wb_map {
	WB_MAP_AUTO, /* the file system's shard, else the hash */
	WB_MAP_HASH,
	WB_MAP_INO_MOD,
	WB_MAP_ROUND_ROBIN,
	WB_MAP_ONE,
	WB_MAP_SHARD_BAND, /* neighbouring shards share a context */
	WB_MAP_INDEX, /* the shard itself if there are contexts enough, else INO_MOD */
};

/* How a device's part of the dirty limit is split among its contexts (W51, W52, W56). */
enum wb_share {
	WB_SHARE_BDI, /* the device has a part, each context a part of that */
	WB_SHARE_POSTED, /* each context competes alone in the whole system */
};

/* What can be turned while running, each device for itself. */
struct bdi_tuning {
	enum wb_map map; /* W13 */
	enum wb_share throttle_share; /* W56 */
	bool rebind_on_refile; /* W17; on */
	bool kick_all; /* W21; on.  Off: a writer wakes its own context only */
	bool sync_serial; /* W45; off.  On: one context is synced after the other */
	bool single_completion_queue; /* W26; off.  On: all complete on context 0 */
	unsigned int workers_per_ctx; /* W25; 1 .. WB_WORKERS_MAX */
	uint64_t min_slice; /* K11; bytes, 4 MiB */
	uint32_t min_ratio, max_ratio; /* K22; per cent of the dirty limit, 0 and 100 */
	bool strict_limit; /* K22; off */
};

/*
 * nr: number of contexts, 0 = automatic: 1 on a rotational device or one CPU, else the CPUs,
 * but not more than a file system says it can use (W8), which is asked when its first inode
 * comes; found again when one is mounted or unmounted.
 * 0, -EINVAL (more than WB_CTX_MAX), -ENOMEM, or the errno of a thread that did not start.
 */
int bdi_create(struct backing_dev **bdi, struct page_cache *cache, struct block_device *bdev,
	       unsigned int nr, enum wb_map map);
/* All file systems on it are shut down.  Stops all contexts (W44). */
void bdi_destroy(struct backing_dev *bdi);

void bdi_get_tuning(const struct backing_dev *bdi, struct bdi_tuning *tuning);
/* 0, or -EINVAL and -ENOMEM (threads); then nothing has changed. */
int bdi_set_tuning(struct backing_dev *bdi, const struct bdi_tuning *tuning);

/*
 * Change the number of contexts while everything runs (W30..W37); 0: back to automatic.  Waits
 * until contexts that are given up are empty, but never for data.  0, -EINVAL, or -ENOMEM and
 * the errno of a thread that did not start; then nothing has changed.
 */
int bdi_set_nr_contexts(struct backing_dev *bdi, unsigned int nr);

struct block_device *bdi_block_device(const struct backing_dev *bdi);
/* Contexts that take inodes now: 1 or more. */
unsigned int bdi_nr_contexts(const struct backing_dev *bdi);

/*
 * Write nr_pages of dirty data or all there is (INT64_MAX: all), the oldest of each context, in
 * all contexts at once (W43, N22).  The first does not wait; the second waits until the requests
 * are submitted.
 */
void bdi_start_writeback(struct backing_dev *bdi, int64_t nr_pages);
void bdi_writeback(struct backing_dev *bdi, int64_t nr_pages);

/* X(name, text) for each context (W60): what it has now, and all the inodes it ever had ... */
#define WB_LEVELS(X)                                                                               \
	X(inodes, "inodes ever bound to it")                                                       \
	X(nr_dirty_inodes, "inodes on its lists now")                                              \
	X(nr_b_dirty, "of these, not taken for writing yet")                                       \
	X(nr_b_io, "of these, taken for this round")                                               \
	X(nr_b_more_io, "of these, being written or to be written again")                          \
	X(nr_b_dirty_time, "of these, with nothing but lazy timestamps")                           \
	X(reclaimable, "dirty pages now")                                                          \
	X(writeback, "pages under writeback now")                                                  \
	X(nr_throttled_now, "of its writers, asleep now")                                          \
	X(completion_queue, "ioends that wait for it now")                                         \
	X(share, "pages of the dirty limit that are its part now")                                 \
	X(avg_bandwidth, "smoothed estimate, bytes per second")                                    \
	X(write_bandwidth, "estimate, bytes per second")

/* ... and what was done since it was made. */
#define WB_TOTALS(X)                                                                               \
	X(dirtied, "pages dirtied")                                                                \
	X(written, "pages written")                                                                \
	X(bytes, "bytes of requests submitted")                                                    \
	X(requests, "requests submitted")                                                          \
	X(slices, "inodes written, once a slice")                                                  \
	X(slice_pages, "pages written in slices")                                                  \
	X(works, "explicit works done")                                                            \
	X(busy_ns, "time its thread was writing")                                                  \
	X(lock_wait_ns, "time spent waiting for allocator locks")                                  \
	X(log_wait_ns, "time spent waiting for room in the log")                                   \
	X(device_wait_ns, "time spent waiting to hand requests to the device")                     \
	X(nr_throttled, "sleeps of its writers for the dirty limits")                              \
	X(throttled_ns, "time its writers slept for the dirty limits")                             \
	X(moves_in, "inodes that came from another context while dirty")                           \
	X(moves_out, "inodes that went to another")                                                \
	X(completions, "ioends finished by its completion thread")                                 \
	X(completion_ns, "time that thread was at work")

#define WB_STATS(X) WB_LEVELS(X) WB_TOTALS(X)

struct wb_stats {
#define X(name, text) uint64_t name;
	WB_STATS(X)
#undef X
};

/* LIVE contexts take new inodes; RETIRING ones are being emptied; IDLE ones are empty (W3). */
enum wb_context_state {
	WB_CONTEXT_NONE, /* there never was one of that number */
	WB_CONTEXT_IDLE,
	WB_CONTEXT_LIVE,
	WB_CONTEXT_RETIRING,
};

/* Of each context below bdi_stats.nr_slots; all 0 from there on. */
enum wb_context_state wb_get_stats(const struct backing_dev *bdi, unsigned int context,
				   struct wb_stats *stats);

/* Of a device (W61). */
struct bdi_stats {
	struct wb_stats sum; /* over its contexts */
	unsigned int nr_live; /* contexts that take inodes */
	unsigned int nr_slots; /* contexts there ever were, with their threads and figures */
	unsigned int user_nr; /* what was asked for; 0: automatic */
	unsigned int automatic; /* what the number is if nobody asks, because of: */
	bool rotational;
	unsigned int nr_cpus;
	unsigned int parallelism; /* the most of any file system on it (W9) */
	uint64_t resizes; /* changes of nr_live */
	uint64_t resize_ns; /* how long they took */
};

/* Waits for a change of the number to end. */
void bdi_get_stats(struct backing_dev *bdi, struct bdi_stats *stats);

/*
 * The same as text: a line about the device, then one about each context (W62).  Returns the
 * length of the text, of which buf has what fits, with a 0 at its end, as snprintf() does.
 */
ssize_t bdi_show(struct backing_dev *bdi, char *buf, size_t size);
/*
 * bdi_set_nr_contexts() of a decimal number with space around it.  Returns len, as all of the
 * text is consumed, or an errno (W36).
 */
ssize_t bdi_store_nr(struct backing_dev *bdi, const char *text, size_t len);

/*
 * Is dirty data being held back in any context of the device: above its part of the limit while
 * writers are throttled, or at any time with strict_limit (N21)?
 */
bool bdi_dirty_exceeded(const struct backing_dev *bdi);
/* The context the inode is bound to, -1 if none yet. */
int wb_context_of(const struct inode *inode);

/* What a thread that writes an inode may have to wait for (W60). */
enum wb_wait {
	WB_WAIT_LOCK, /* an allocator's lock */
	WB_WAIT_LOG, /* room in the log or journal */
	WB_WAIT_DEVICE, /* the device to take a request */
};

/* For back ends: this thread waited `ns` for that, while it wrote the inode. */
void wb_account_wait(struct inode *inode, enum wb_wait kind, uint64_t ns);

static inline void wb_account_lock_wait(struct inode *inode, uint64_t ns)
{
	wb_account_wait(inode, WB_WAIT_LOCK, ns);
}

static inline void wb_account_log_wait(struct inode *inode, uint64_t ns)
{
	wb_account_wait(inode, WB_WAIT_LOG, ns);
}

/*
 * For back ends that keep pages of a file outside its cache, as a copy on its way to a server:
 * n more (less) pages of that kind count for the inode's context, device and cache.  It is
 * dirty before they become reclaimable.  What was added is taken away again.
 */
enum wb_stat_item {
	WB_STAT_RECLAIMABLE,
	WB_STAT_WRITEBACK,
	WB_STAT_WRITTEN, /* only up */
};
void inode_wb_stat_add(struct inode *inode, enum wb_stat_item item, int64_t n);

/* A write request of that many bytes was submitted for the inode. */
void wb_account_request(struct inode *inode, uint64_t bytes);

/*
 * Run fn(work) on the completion thread of the inode's context (W26); the place for completion
 * work that may sleep.
 */
struct wb_completion {
	struct wb_completion *next;
	void (*fn)(struct wb_completion *work);
};
void wb_queue_completion(struct inode *inode, struct wb_completion *work);

/*
 * Called by whoever is about to dirty pages of the mapping, with no lock but i_rwsem held
 * (K20, L24): sleeps while there is too much dirty.  nowait: -EAGAIN instead.  -EINTR if the
 * thread is cancelled.
 */
int wb_balance_dirty_pages(struct address_space *mapping, bool nowait);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

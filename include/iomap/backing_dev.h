/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * backing_dev.h - the writeback of one block device: N contexts, each with its own thread
 *
 *	bdi_create(&bdi, cache, dev, nr_contexts);	0: automatic
 *	... super_init(&sb, cache, bdi, ...) ...
 *	bdi_destroy(bdi);
 *
 * An inode belongs to one context while it is dirty (K31): its data is allocated and written
 * in file order by one thread.
 */
#ifndef IOMAP_BACKING_DEV_H
#define IOMAP_BACKING_DEV_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct address_space;
struct backing_dev;
struct block_device;
struct inode;
struct page_cache;

#define WB_CTX_MAX 256

/* Which context an inode gets at its first dirtying (W13). */
enum wb_map {
	WB_MAP_AUTO, /* the file system's shard, else the hash */
	WB_MAP_HASH,
	WB_MAP_INO_MOD,
	WB_MAP_ROUND_ROBIN,
	WB_MAP_ONE,
};

/*
 * nr: number of contexts, 0 = automatic: 1 on a rotational device or one CPU, else the CPUs,
 * but not more than the file systems say they can use (W8); fixed at the first super_init().
 * 0, -EINVAL (more than WB_CTX_MAX), -ENOMEM, or the errno of a thread that did not start.
 */
int bdi_create(struct backing_dev **bdi, struct page_cache *cache, struct block_device *bdev,
	       unsigned int nr, enum wb_map map);
/* All file systems on it are shut down.  Stops all contexts (W44). */
void bdi_destroy(struct backing_dev *bdi);

struct block_device *bdi_block_device(const struct backing_dev *bdi);
unsigned int bdi_nr_contexts(const struct backing_dev *bdi);

/* Start writing about nr_pages of dirty data in every context, without waiting (W43). */
void bdi_start_writeback(struct backing_dev *bdi, int64_t nr_pages);

/* X(name, text) for each context (W60). */
#define WB_STATS(X)                                                                                \
	X(inodes, "inodes ever bound to it")                                                       \
	X(nr_dirty_inodes, "inodes on its lists now")                                              \
	X(reclaimable, "dirty pages now")                                                          \
	X(writeback, "pages under writeback now")                                                  \
	X(dirtied, "pages dirtied")                                                                \
	X(written, "pages written")                                                                \
	X(bytes, "bytes of requests submitted")                                                    \
	X(requests, "requests submitted")                                                          \
	X(slices, "inodes written, once a slice")                                                  \
	X(works, "explicit works done")                                                            \
	X(busy_ns, "time its thread was writing")                                                  \
	X(lock_wait_ns, "time spent waiting for allocator locks")                                  \
	X(completions, "ioends finished by its completion thread")                                 \
	X(write_bandwidth, "estimate, bytes per second")

struct wb_stats {
#define X(name, text) uint64_t name;
	WB_STATS(X)
#undef X
};

void wb_get_stats(const struct backing_dev *bdi, unsigned int context, struct wb_stats *stats);
/* The context the inode is bound to, -1 if none yet. */
int wb_context_of(const struct inode *inode);

/* For back ends: this thread waited `ns` for an allocator lock while writing the inode. */
void wb_account_lock_wait(struct inode *inode, uint64_t ns);

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

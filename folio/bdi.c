/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * bdi.c - a backing device: its contexts, and which one an inode belongs to
 */
#include <xxhash.h>

#include "folio/internal.h"

#define NS_PER_SECOND 1000000000ull

/* ---- one context -------------------------------------------------------------------- */

static void wb_stop(struct wb_ctx *wb)
{
	__atomic_store_n(&wb->stop, true, __ATOMIC_SEQ_CST);
	wb_wake(wb);
	env_waitq_wake(&wb->completion_wake);
	if (wb->thread)
		env_thread_join(wb->thread);
	if (wb->completion_thread)
		env_thread_join(wb->completion_thread);
	assert(list_empty(&wb->works));
	assert(wb->nr_listed == 0);
	assert(wb->reclaimable == 0);
	assert(wb->writeback == 0);
	assert(wb->completion_first == NULL);
	env_free(wb);
}

/* => resize_lock is held */
static int wb_start(struct backing_dev *bdi)
{
	unsigned int index = bdi->nr_slots;
	uint64_t pages_per_second = (100ull << 20) >> bdi->cache->page_shift; /* W54 */
	struct wb_ctx *wb;
	int err;

	wb = env_zalloc(sizeof(*wb));
	if (!wb)
		return -ENOMEM;
	wb->bdi = bdi;
	wb->index = index;
	wb->state = WB_LIVE;
	env_mutex_init(&wb->list_lock, "wb->list_lock");
	env_mutex_init(&wb->work_lock, "wb->work_lock");
	env_mutex_init(&wb->completion_lock, "wb->completion_lock");
	env_waitq_init(&wb->wake);
	env_waitq_init(&wb->completion_wake);
	list_init(&wb->b_dirty);
	list_init(&wb->b_io);
	list_init(&wb->b_more_io);
	list_init(&wb->b_dirty_time);
	list_init(&wb->works);
	wb->completion_tail = &wb->completion_first;
	wb->write_bandwidth = pages_per_second;
	wb->avg_bandwidth = pages_per_second;
	wb->bw_stamp = env_clock_ns();
	err = env_thread_create(&wb->thread, "flush", wb_thread_main, wb);
	if (!err)
		err = env_thread_create(&wb->completion_thread, "wb-done", wb_completion_main, wb);
	if (err) {
		wb_stop(wb);
		return err;
	}
	bdi->slots[index] = wb;
	__atomic_store_n(&bdi->nr_slots, index + 1, __ATOMIC_RELEASE);
	__atomic_store_n(&bdi->nr_live, index + 1, __ATOMIC_RELEASE);
	return 0;
}

/* ---- the device --------------------------------------------------------------------- */

int bdi_create(struct backing_dev **result, struct page_cache *cache, struct block_device *bdev,
	       unsigned int nr, enum wb_map map)
{
	struct backing_dev *bdi;
	int err;

	if (nr > WB_CTX_MAX)
		return -EINVAL;
	bdi = env_zalloc(sizeof(*bdi));
	if (!bdi)
		return -ENOMEM;
	bdi->cache = cache;
	bdi->bdev = bdev;
	bdi->map = map;
	bdi->user_nr = nr;
	env_mutex_init(&bdi->resize_lock, "bdi->resize_lock");
	list_init(&bdi->sbs);
	env_mutex_lock(&bdi->resize_lock);
	err = wb_start(bdi);
	env_mutex_unlock(&bdi->resize_lock);
	if (err) {
		env_free(bdi);
		return err;
	}
	env_mutex_lock(&cache->bdi_lock);
	list_add_tail(&bdi->link, &cache->bdis);
	env_mutex_unlock(&cache->bdi_lock);
	*result = bdi;
	return 0;
}

void bdi_destroy(struct backing_dev *bdi)
{
	struct page_cache *cache = bdi->cache;

	assert(list_empty(&bdi->sbs));
	env_mutex_lock(&cache->bdi_lock);
	list_del_init(&bdi->link);
	env_mutex_unlock(&cache->bdi_lock);
	counter_sub(&cache->nr_completions, counter_read(&bdi->nr_completions));
	for (unsigned int i = 0; i < bdi->nr_slots; i++)
		wb_stop(bdi->slots[i]);
	env_free(bdi);
}

struct block_device *bdi_block_device(const struct backing_dev *bdi)
{
	return bdi->bdev;
}

/* The number of contexts there shall be (W8, W10).  => resize_lock is held */
static unsigned int wanted_contexts(const struct backing_dev *bdi)
{
	unsigned int cpus = bdi->cache->nr_cpus;
	unsigned int parallelism = 1;
	struct super_block *sb;

	if (bdi->user_nr)
		return bdi->user_nr;
	if (bdi->bdev->rotational || cpus == 1)
		return 1;
	list_for_each_entry(sb, &bdi->sbs, struct super_block, s_link) {
		unsigned int own = sb->s_op->wb_parallelism ? sb->s_op->wb_parallelism(sb) : 1;

		if (own > parallelism)
			parallelism = own;
	}
	if (parallelism > cpus)
		parallelism = cpus;
	return parallelism < WB_CTX_MAX ? parallelism : WB_CTX_MAX;
}

unsigned int bdi_nr_contexts(const struct backing_dev *bdi)
{
	struct env_mutex *lock = (struct env_mutex *)&bdi->resize_lock;
	unsigned int nr;

	env_mutex_lock(lock);
	nr = bdi->started ? bdi->nr_live : wanted_contexts(bdi);
	env_mutex_unlock(lock);
	return nr;
}

/*
 * The first inode is being dirtied: decide the number and start the threads.  If the host has
 * no room for more threads there are fewer contexts; one there always is.
 */
static void bdi_start_contexts(struct backing_dev *bdi)
{
	env_mutex_lock(&bdi->resize_lock);
	if (!bdi->started) {
		unsigned int nr = wanted_contexts(bdi);

		while (bdi->nr_slots < nr && wb_start(bdi) == 0)
			;
		__atomic_store_n(&bdi->started, true, __ATOMIC_RELEASE);
	}
	env_mutex_unlock(&bdi->resize_lock);
}

/* ---- mapping an inode to a context (W13, W14) --------------------------------------- */

static unsigned int hash_context(uint64_t ino, unsigned int nr)
{
	unsigned char bytes[8];
	uint64_t hash;

	for (unsigned int i = 0; i < 8; i++)
		bytes[i] = (unsigned char)(ino >> (8 * i));
	hash = XXH3_64bits(bytes, sizeof(bytes));
	return (unsigned int)(((hash >> 32) * nr) >> 32);
}

static unsigned int choose_context(struct backing_dev *bdi, const struct inode *inode)
{
	unsigned int nr = __atomic_load_n(&bdi->nr_live, __ATOMIC_ACQUIRE);
	const struct super_operations *ops = inode->i_sb->s_op;
	uint64_t shard;

	switch (bdi->map) {
	case WB_MAP_INO_MOD:
		return (unsigned int)(inode->i_ino % nr);
	case WB_MAP_ROUND_ROBIN:
		return __atomic_fetch_add(&bdi->next_round_robin, 1, __ATOMIC_RELAXED) % nr;
	case WB_MAP_ONE:
		return 0;
	case WB_MAP_HASH:
		break;
	case WB_MAP_AUTO:
		shard = ops->wb_shard ? ops->wb_shard(inode) : WB_SHARD_ANY;
		if (shard != WB_SHARD_ANY)
			return (unsigned int)(shard % nr);
		break;
	}
	return hash_context(inode->i_ino, nr);
}

/*
 * Is the inode on a list, being written, or are there pages to account (W16)?
 * => i_lock and mapping->lock are held
 */
static bool binding_is_fixed(const struct inode *inode)
{
	const struct address_space *mapping = &inode->i_mapping;

	return inode->i_wb && (inode->i_state & (I_DIRTY | I_SYNC) || inode->i_listed ||
			       mapping->nr_dirty || mapping->nr_writeback);
}

void wb_bind_inode(struct inode *inode)
{
	struct backing_dev *bdi = inode->i_sb->s_bdi;
	struct address_space *mapping = &inode->i_mapping;
	struct wb_ctx *wb;
	bool fixed;

	if (likely(__atomic_load_n(&inode->i_state, __ATOMIC_RELAXED) & I_DIRTY) &&
	    likely(__atomic_load_n(&inode->i_wb, __ATOMIC_ACQUIRE) != NULL))
		return;
	/* Asked twice for one dirtying: for the page and for the inode; chosen once. */
	env_mutex_lock(&inode->i_lock);
	env_mutex_lock(&mapping->lock);
	fixed = binding_is_fixed(inode);
	env_mutex_unlock(&mapping->lock);
	env_mutex_unlock(&inode->i_lock);
	if (fixed)
		return;
	if (unlikely(!__atomic_load_n(&bdi->started, __ATOMIC_ACQUIRE)))
		bdi_start_contexts(bdi);
	wb = bdi->slots[choose_context(bdi, inode)];
	env_mutex_lock(&inode->i_lock);
	env_mutex_lock(&mapping->lock);
	if (!binding_is_fixed(inode)) {
		if (inode->i_wb != wb)
			counter_add(&wb->stats.inodes, 1);
		__atomic_store_n(&inode->i_wb, wb, __ATOMIC_RELEASE);
	}
	env_mutex_unlock(&mapping->lock);
	env_mutex_unlock(&inode->i_lock);
}

int wb_context_of(const struct inode *inode)
{
	const struct wb_ctx *wb = __atomic_load_n(&inode->i_wb, __ATOMIC_ACQUIRE);

	return wb ? (int)wb->index : -1;
}

/* ---- all contexts (W5) -------------------------------------------------------------- */

void wb_kick_background(struct backing_dev *bdi)
{
	unsigned int nr = __atomic_load_n(&bdi->nr_slots, __ATOMIC_ACQUIRE);

	for (unsigned int i = 0; i < nr; i++) {
		struct wb_ctx *wb = bdi->slots[i];

		if (!counter_read(&wb->nr_listed))
			continue;
		if (!__atomic_exchange_n(&wb->start_background, true, __ATOMIC_SEQ_CST))
			wb_wake(wb);
	}
}

void bdi_start_writeback(struct backing_dev *bdi, int64_t nr_pages)
{
	unsigned int nr = __atomic_load_n(&bdi->nr_slots, __ATOMIC_ACQUIRE);
	uint64_t total = 0;

	for (unsigned int i = 0; i < nr; i++)
		if (counter_read(&bdi->slots[i]->nr_listed))
			total += counter_read(&bdi->slots[i]->avg_bandwidth);
	for (unsigned int i = 0; i < nr; i++) {
		struct wb_ctx *wb = bdi->slots[i];
		struct wb_work *work;
		__uint128_t part;

		if (!counter_read(&wb->nr_listed))
			continue;
		work = env_zalloc(sizeof(*work));
		if (!work) {
			/* Nothing waits for it; the background loop does the same job. */
			__atomic_store_n(&wb->start_background, true, __ATOMIC_SEQ_CST);
			wb_wake(wb);
			continue;
		}
		part = (__uint128_t)(uint64_t)nr_pages * counter_read(&wb->avg_bandwidth);
		work->sync_mode = WB_SYNC_NONE;
		work->nr_pages = nr_pages == INT64_MAX
					 ? nr_pages
					 : (int64_t)((part + total - 1) / (total ? total : 1));
		work->tagged = true;
		work->range_cyclic = true;
		work->auto_free = true;
		wb_queue_work(wb, work);
	}
}

static void sync_work_queue(struct wb_ctx *wb, struct wb_work *work, struct super_block *sb)
{
	memset(work, 0, sizeof(*work));
	work->sb = sb;
	work->sync_mode = WB_SYNC_ALL;
	work->nr_pages = INT64_MAX;
	work->for_sync = true;
	env_completion_init(&work->done);
	wb_queue_work(wb, work);
}

/* Let every context write what it has of the file system. */
static void sync_contexts(struct super_block *sb)
{
	struct backing_dev *bdi = sb->s_bdi;
	unsigned int nr = __atomic_load_n(&bdi->nr_slots, __ATOMIC_ACQUIRE);
	struct wb_work *works = env_alloc(nr * sizeof(*works));
	struct wb_work single;

	if (!works) {
		/* Slower, but memory is no reason to leave data behind (N23). */
		for (unsigned int i = 0; i < nr; i++) {
			sync_work_queue(bdi->slots[i], &single, sb);
			env_completion_wait(&single.done);
		}
		return;
	}
	/* All are queued before the first is waited for (W40). */
	for (unsigned int i = 0; i < nr; i++)
		sync_work_queue(bdi->slots[i], &works[i], sb);
	for (unsigned int i = 0; i < nr; i++)
		env_completion_wait(&works[i].done);
	env_free(works);
}

int super_sync(struct super_block *sb)
{
	struct list_head waiting;
	int err = 0;

	env_mutex_lock(&sb->s_sync_lock);
	sync_contexts(sb);

	/* Then the I/O that these and others have started (K15); later starters wait for theirs. */
	list_init(&waiting);
	env_mutex_lock(&sb->s_wb_lock);
	list_splice_tail_init(&sb->s_wb_inodes, &waiting);
	while (!list_empty(&waiting)) {
		struct inode *inode = list_first_entry(&waiting, struct inode, i_wb_link);

		/* Back where its own end of writeback expects it, and pinned against eviction. */
		list_move_tail(&inode->i_wb_link, &sb->s_wb_inodes);
		__atomic_fetch_add(&inode->i_pins, 1, __ATOMIC_ACQ_REL);
		env_mutex_unlock(&sb->s_wb_lock);
		filemap_fdatawait_range(&inode->i_mapping, 0, UINT64_MAX);
		env_mutex_lock(&sb->s_wb_lock);
		__atomic_fetch_sub(&inode->i_pins, 1, __ATOMIC_ACQ_REL);
		env_waitq_wake(&sb->s_inode_wait);
	}
	env_mutex_unlock(&sb->s_wb_lock);
	if (sb->s_op->sync_fs)
		err = sb->s_op->sync_fs(sb);
	env_mutex_unlock(&sb->s_sync_lock);
	return err;
}

int super_syncfs(struct super_block *sb, errseq_t *sample)
{
	int err = super_sync(sb);
	int err2 = errseq_check_and_advance(&sb->s_wb_err, sample);

	return err ? err : err2;
}

/* ---- figures ------------------------------------------------------------------------ */

void wb_get_stats(const struct backing_dev *bdi, unsigned int context, struct wb_stats *stats)
{
	const struct wb_ctx *wb;

	memset(stats, 0, sizeof(*stats));
	if (context >= __atomic_load_n(&bdi->nr_slots, __ATOMIC_ACQUIRE))
		return;
	wb = bdi->slots[context];
#define X(name, text) stats->name = counter_read(&wb->stats.name);
	WB_STATS(X)
#undef X
	stats->nr_dirty_inodes = counter_read(&wb->nr_listed);
	stats->reclaimable = counter_read(&wb->reclaimable);
	stats->writeback = counter_read(&wb->writeback);
	stats->dirtied = counter_read(&wb->dirtied);
	stats->written = counter_read(&wb->written);
	stats->write_bandwidth = counter_read(&wb->write_bandwidth) << bdi->cache->page_shift;
}

void wb_account_lock_wait(struct inode *inode, uint64_t ns)
{
	struct wb_ctx *wb = __atomic_load_n(&inode->i_wb, __ATOMIC_ACQUIRE);

	if (wb)
		counter_add(&wb->stats.lock_wait_ns, ns);
}

void wb_account_request(struct inode *inode, uint64_t bytes)
{
	struct wb_ctx *wb = __atomic_load_n(&inode->i_wb, __ATOMIC_ACQUIRE);

	if (wb) {
		counter_add(&wb->stats.requests, 1);
		counter_add(&wb->stats.bytes, bytes);
	}
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_folio_wb.c - writeback contexts: lists, works, background, periodic, several contexts
 */
#include <iomap/backing_dev.h>

#include <errno.h>
#include <string.h>
#include <xxhash.h>
#include "tests/flat.h"

/* 400 pages, 200 in the background. */
#define THRESH	   400u
#define BACKGROUND 200u

static struct flat flat;

static void open_with(unsigned int nr_contexts, enum wb_map map)
{
	struct flat_config config;

	flat_config_init(&config);
	config.cache.dirty_bytes = THRESH * PAGE;
	config.cache.dirty_background_bytes = BACKGROUND * PAGE;
	config.nr_contexts = nr_contexts;
	config.map = map;
	flat_open(&flat, &config);
}

static void close_flat(void)
{
	flat_close(&flat);
}

/* Every test opens its own. */
TestSuite(folio_wb, .fini = close_flat);

static bool is_clean(struct flat_file *file)
{
	uint32_t state = __atomic_load_n(&file->inode.i_state, __ATOMIC_ACQUIRE);

	return !(state & (I_DIRTY | I_SYNC));
}

/* ---- lists (K4, K5, M119) ----------------------------------------------------------- */

/* M119 */
Test(folio_wb, a_dirty_inode_is_listed_once_and_a_clean_one_is_not)
{
	struct flat_file *file;

	open_with(1, WB_MAP_AUTO);
	file = flat_create(&flat, 1);
	cr_assert_eq(flat_wb_stats(&flat, 0).nr_dirty_inodes, 0);
	flat_dirty_page(file, 0, 1);
	flat_dirty_page(file, 1, 1);
	inode_mark_dirty(&file->inode, I_DIRTY_SYNC);
	cr_assert_eq(flat_wb_stats(&flat, 0).nr_dirty_inodes, 1);
	super_sync(&flat.sb);
	cr_assert_eq(flat_wb_stats(&flat, 0).nr_dirty_inodes, 0);
	cr_assert(is_clean(file));
	flat_remove(file);
}

/* M120 */
Test(folio_wb, dirtying_again_does_not_renew_the_time)
{
	struct flat_file *file;
	uint64_t when;

	open_with(1, WB_MAP_AUTO);
	file = flat_create(&flat, 1);
	flat_dirty_page(file, 0, 1);
	when = file->inode.dirtied_when;
	cr_assert_gt(when, 0);
	flat_dirty_page(file, 1, 1);
	inode_mark_dirty(&file->inode, I_DIRTY_SYNC);
	cr_assert_eq(file->inode.dirtied_when, when);
	flat_remove(file);
}

/* The order in which inodes were written, and how. */
static struct {
	uint64_t ino[4096];
	bool background[4096];
	bool integrity[4096];
	uint32_t nr; /* [a] */
} order;

static void note_order(struct flat_file *file, struct writeback_control *wbc)
{
	uint32_t i = __atomic_load_n(&order.nr, __ATOMIC_RELAXED);

	cr_assert_lt(i, 4096);
	order.ino[i] = file->inode.i_ino;
	order.background[i] = wbc->for_background;
	order.integrity[i] = wbc->sync_mode == WB_SYNC_ALL;
	__atomic_store_n(&order.nr, i + 1, __ATOMIC_RELEASE);
}

static uint32_t nr_ordered(void)
{
	return __atomic_load_n(&order.nr, __ATOMIC_ACQUIRE);
}

/* K6, M120 */
Test(folio_wb, the_oldest_inode_is_written_first)
{
	struct flat_file *files[6];

	open_with(1, WB_MAP_AUTO);
	flat.on_writepages = note_order;
	for (unsigned int i = 0; i < 6; i++) {
		files[i] = flat_create(&flat, 6 - i);
		flat_dirty_page(files[i], 0, 1);
	}
	flat_dirty_page(files[0], 1, 1);
	flat_dirty_page(files[3], 1, 1);
	super_sync(&flat.sb);
	cr_assert_eq(nr_ordered(), 6);
	for (unsigned int i = 0; i < 6; i++)
		cr_assert_eq(order.ino[i], 6 - i);
	for (unsigned int i = 0; i < 6; i++)
		flat_remove(files[i]);
}

Test(folio_wb, an_evicted_inode_leaves_its_list)
{
	struct flat_file *file;

	open_with(1, WB_MAP_AUTO);
	file = flat_create(&flat, 1);
	flat_dirty_pages(file, 0, 10, 1);
	flat_remove(file);
	cr_assert_eq(flat_wb_stats(&flat, 0).nr_dirty_inodes, 0);
	cr_assert_eq(flat_wb_stats(&flat, 0).reclaimable, 0);
	cr_assert_eq(flat_stats(&flat).nr_dirty, 0);
}

static void remove_file(void *arg)
{
	flat_remove(arg);
}

Test(folio_wb, an_inode_is_evicted_after_its_writeback)
{
	struct flat_thread thread;
	struct flat_file *file;
	struct folio *folio;

	open_with(1, WB_MAP_AUTO);
	file = flat_create(&flat, 1);
	flat_dirty_page(file, 0, 1);
	flat_hold(&flat, BIO_WRITE);
	filemap_fdatawrite_range(flat_mapping(file), 0, UINT64_MAX, WB_SYNC_NONE);
	folio = flat_find(file, 0);
	flat_thread_start(&thread, remove_file, file);
	flat_eventually(folio_test(folio, FOLIO_WAITERS));
	cr_assert_not(flat_thread_is_done(&thread));
	folio_put(folio);
	flat_release(&flat);
	flat_thread_join(&thread);
	cr_assert_eq(flat_wb_stats(&flat, 0).writeback, 0);
}

static struct env_completion slice_reached, slice_may_go;

/* Stops the first slice until the test lets it go. */
static void stop_first_slice(struct flat_file *file, struct writeback_control *wbc)
{
	note_order(file, wbc);
	if (order.nr == 1) {
		env_complete(&slice_reached);
		env_completion_wait(&slice_may_go);
	}
}

static void stop_at_first_slice(void)
{
	env_completion_init(&slice_reached);
	env_completion_init(&slice_may_go);
	flat.on_writepages = stop_first_slice;
}

Test(folio_wb, an_inode_is_evicted_after_the_flusher_has_left_it)
{
	struct flat_thread thread;
	struct flat_file *file;

	open_with(1, WB_MAP_AUTO);
	file = flat_create(&flat, 1);
	flat_dirty_page(file, 0, 1);
	stop_at_first_slice();
	bdi_start_writeback(flat.bdi, INT64_MAX);
	env_completion_wait(&slice_reached);
	cr_assert(file->inode.i_state & I_SYNC);
	flat_thread_start(&thread, remove_file, file);
	flat_eventually(__atomic_load_n(&file->inode.i_state, __ATOMIC_ACQUIRE) & I_FREEING);
	cr_assert_not(flat_thread_is_done(&thread));
	env_complete(&slice_may_go);
	flat_thread_join(&thread);
}

/* ---- works -------------------------------------------------------------------------- */

/* M127 */
Test(folio_wb, sync_brings_everything_to_the_device)
{
	unsigned char page[PAGE];
	struct flat_file *files[8];

	open_with(1, WB_MAP_AUTO);
	for (unsigned int i = 0; i < 8; i++) {
		files[i] = flat_create(&flat, i + 1);
		flat_dirty_pages(files[i], 0, 20, (unsigned char)(i + 1));
	}
	cr_assert_eq(super_sync(&flat.sb), 0);
	for (unsigned int i = 0; i < 8; i++) {
		flat_device_read(files[i], page, PAGE, 19 * PAGE);
		cr_assert_eq(page[PAGE - 1], i + 1);
		flat_remove(files[i]);
	}
	cr_assert_eq(flat_stats(&flat).nr_dirty, 0);
	cr_assert_eq(flat_stats(&flat).nr_writeback, 0);
}

static void sync_thread(void *arg)
{
	super_sync(arg);
}

/* K15: also for what others have started. */
Test(folio_wb, sync_waits_for_writes_in_flight)
{
	struct flat_thread thread;
	struct flat_file *file;
	struct folio *folio;

	open_with(1, WB_MAP_AUTO);
	file = flat_create(&flat, 1);
	flat_dirty_page(file, 0, 1);
	flat_hold(&flat, BIO_WRITE);
	filemap_fdatawrite_range(flat_mapping(file), 0, UINT64_MAX, WB_SYNC_NONE);
	folio = flat_find(file, 0);
	flat_thread_start(&thread, sync_thread, &flat.sb);
	flat_eventually(folio_test(folio, FOLIO_WAITERS));
	cr_assert_not(flat_thread_is_done(&thread));
	folio_put(folio);
	flat_release(&flat);
	flat_thread_join(&thread);
	flat_remove(file);
}

/* W42 */
Test(folio_wb, sync_leaves_other_file_systems_alone)
{
	static const struct super_operations ops = {0};
	struct flat_file *ours, *theirs;
	struct super_block other;

	open_with(1, WB_MAP_AUTO);
	cr_assert_eq(super_init(&other, flat.cache, flat.bdi, PAGE, &ops), 0);
	ours = flat_create(&flat, 1);
	theirs = flat_create_on(&flat, &other, 2);
	flat_dirty_page(theirs, 0, 1);
	flat_dirty_page(ours, 0, 1);
	super_sync(&flat.sb);
	cr_assert(is_clean(ours));
	cr_assert_not(is_clean(theirs));
	super_sync(&other);
	cr_assert(is_clean(theirs));
	flat_remove(ours);
	flat_remove(theirs);
	super_shutdown(&other);
}

static uint32_t nr_write_inode; /* [a] */

/* K12: data before metadata. */
static int check_data_is_written(struct inode *inode, struct writeback_control *wbc)
{
	cr_assert_eq(wbc->sync_mode, WB_SYNC_ALL);
	cr_assert_eq(inode->i_mapping.nr_dirty, 0);
	__atomic_fetch_add(&nr_write_inode, 1, __ATOMIC_RELAXED);
	return 0;
}

Test(folio_wb, metadata_is_written_after_data_and_only_if_dirty)
{
	static const struct super_operations ops = {.write_inode = check_data_is_written};
	struct flat_file *data, *both;
	struct super_block sb;

	open_with(1, WB_MAP_AUTO);
	cr_assert_eq(super_init(&sb, flat.cache, flat.bdi, PAGE, &ops), 0);
	data = flat_create_on(&flat, &sb, 1);
	both = flat_create_on(&flat, &sb, 2);
	flat_dirty_page(data, 0, 1);
	flat_dirty_page(both, 0, 1);
	inode_mark_dirty(&both->inode, I_DIRTY_SYNC);
	super_sync(&sb);
	cr_assert_eq(nr_write_inode, 1);
	flat_remove(data);
	flat_remove(both);
	super_shutdown(&sb);
}

static uint32_t nr_redirtied; /* [a] */

/* The inode is dirtied again as long as it is being written, for a while. */
static void redirty(struct flat_file *file, struct writeback_control *wbc)
{
	uint32_t nr = __atomic_fetch_add(&nr_redirtied, 1, __ATOMIC_RELAXED);

	(void)wbc;
	if (nr < 1000)
		flat_dirty_page(file, 500 + nr, 1);
}

static int redirty_behind(struct flat_file *file, struct folio *folio)
{
	if (__atomic_fetch_add(&nr_redirtied, 1, __ATOMIC_RELAXED) < 1000)
		flat_dirty_page(file, folio->index + 1, 1);
	return 0;
}

/* M76, K14: what is dirtied later is not the sync's. */
Test(folio_wb, a_constant_dirtier_does_not_keep_a_sync)
{
	struct flat_file *file;

	open_with(1, WB_MAP_AUTO);
	file = flat_create(&flat, 1);
	flat_dirty_page(file, 0, 1);
	flat.on_writepages = redirty;
	super_sync(&flat.sb);
	cr_assert_lt(nr_redirtied, 10);
	flat.on_writepages = NULL;
	flat_remove(file);
}

/* M76 */
Test(folio_wb, a_dirtier_ahead_of_an_integrity_pass_does_not_keep_it)
{
	struct flat_file *file;

	open_with(1, WB_MAP_AUTO);
	file = flat_create(&flat, 1);
	flat_dirty_page(file, 0, 1);
	flat.on_write_folio = redirty_behind;
	cr_assert_eq(flat_fsync(file), 0);
	cr_assert_eq(nr_redirtied, 1);
	flat.on_write_folio = NULL;
	flat_remove(file);
}

/* K14: works are done in order, so an endless one would keep the sync behind it. */
Test(folio_wb, a_constant_dirtier_does_not_keep_an_explicit_work)
{
	struct flat_file *file;

	open_with(1, WB_MAP_AUTO);
	file = flat_create(&flat, 1);
	flat_dirty_page(file, 0, 1);
	flat.on_write_folio = redirty_behind;
	bdi_start_writeback(flat.bdi, INT64_MAX);
	super_sync(&flat.sb);
	cr_assert_lt(nr_redirtied, 10);
	flat.on_write_folio = NULL;
	flat_remove(file);
}

/* F28, M79: written while in flight, a folio stays dirty and is written again. */
Test(folio_wb, a_folio_dirtied_in_flight_is_written_again_by_an_integrity_pass)
{
	struct flat_thread thread;
	struct flat_file *file;
	unsigned char page[PAGE];

	open_with(1, WB_MAP_AUTO);
	file = flat_create(&flat, 1);
	flat_dirty_page(file, 0, 1);
	flat_hold(&flat, BIO_WRITE);
	filemap_fdatawrite_range(flat_mapping(file), 0, UINT64_MAX, WB_SYNC_NONE);
	flat_dirty_page(file, 0, 2);
	/* M78 */
	filemap_fdatawrite_range(flat_mapping(file), 0, UINT64_MAX, WB_SYNC_NONE);
	cr_assert_eq(blkdev_fault_held(flat.dev), 1);
	cr_assert_eq(flat_stats(&flat).nr_dirty, 1);
	flat_thread_start(&thread, sync_thread, &flat.sb);
	flat_eventually(__atomic_load_n(&file->nr_writepages, __ATOMIC_ACQUIRE) >= 3);
	cr_assert_eq(blkdev_fault_held(flat.dev), 1);
	flat_release(&flat);
	flat_thread_join(&thread);
	flat_device_read(file, page, PAGE, 0);
	cr_assert_eq(page[0], 2);
	flat_remove(file);
}

/* M77 */
Test(folio_wb, a_cyclic_pass_goes_on_where_it_stopped)
{
	struct flat_file *file;
	struct writeback_control wbc = {
		.nr_to_write = 10, .range_cyclic = true, .range_end = UINT64_MAX};

	open_with(1, WB_MAP_AUTO);
	file = flat_create(&flat, 1);
	flat_dirty_pages(file, 0, 30, 1);
	cr_assert_eq(flat_mapping(file)->a_ops->writepages(flat_mapping(file), &wbc), 0);
	cr_assert_eq(wbc.nr_to_write, 0);
	cr_assert_eq(flat_stats(&flat).nr_dirty, 20);
	cr_assert_eq(flat_mapping(file)->writeback_index, 10);
	/* It does not wrap around (F4). */
	flat_dirty_page(file, 3, 1);
	wbc = (struct writeback_control){
		.nr_to_write = 1000, .range_cyclic = true, .range_end = UINT64_MAX};
	cr_assert_eq(flat_mapping(file)->a_ops->writepages(flat_mapping(file), &wbc), 0);
	cr_assert_eq(flat_stats(&flat).nr_dirty, 1);
	cr_assert_eq(flat_mapping(file)->writeback_index, 0);
	flat_remove(file);
}

/* ---- background and periodic (K7, K8) ----------------------------------------------- */

static void check_over_background(struct flat_file *file, struct writeback_control *wbc)
{
	if (wbc->for_background)
		cr_assert_gt(flat_stats(file->flat).nr_dirty, BACKGROUND);
	note_order(file, wbc);
}

/* M122: it starts above the limit and takes nothing below it. */
Test(folio_wb, background_writeback_stops_at_its_limit)
{
	struct flat_file *files[12];
	unsigned char page[PAGE] = {0};

	open_with(1, WB_MAP_AUTO);
	flat.on_writepages = check_over_background;
	for (unsigned int i = 0; i < 12; i++) {
		files[i] = flat_create(&flat, i + 1);
		for (uint64_t j = 0; j < 25; j++)
			cr_assert_eq(flat_write(files[i], page, PAGE, j * PAGE), (ssize_t)PAGE);
	}
	env_task_self.local[ENV_LOCAL_DIRTIED_MAX] = 0;
	cr_assert_eq(wb_balance_dirty_pages(flat_mapping(files[0]), false), 0);
	flat_eventually(flat_stats(&flat).nr_dirty <= BACKGROUND);
	for (unsigned int i = 0; i < nr_ordered(); i++)
		cr_assert(order.background[i]);
	/* Inodes are taken one by one until it is enough. */
	cr_assert_gt(flat_stats(&flat).nr_dirty, 0);
	for (unsigned int i = 0; i < 12; i++)
		flat_remove(files[i]);
}

Test(folio_wb, below_the_background_limit_nothing_is_written)
{
	struct flat_file *file;
	unsigned char page[PAGE] = {0};

	open_with(1, WB_MAP_AUTO);
	file = flat_create(&flat, 1);
	for (uint64_t j = 0; j < BACKGROUND; j++) {
		env_task_self.local[ENV_LOCAL_DIRTIED_MAX] = 0;
		cr_assert_eq(flat_write(file, page, PAGE, j * PAGE), (ssize_t)PAGE);
	}
	cr_assert_eq(file->nr_writepages, 0);
	flat_remove(file);
}

static void open_periodic(struct flat *world, uint64_t interval_ns, uint64_t expire_ns,
			  unsigned int nr_contexts)
{
	struct flat_config config;

	flat_config_init(&config);
	config.cache.writeback_interval_ns = interval_ns;
	config.cache.dirty_expire_ns = expire_ns;
	config.nr_contexts = nr_contexts;
	config.map = WB_MAP_INO_MOD;
	flat_open(world, &config);
}

/* M121, W20: in every context, without anybody asking. */
Test(folio_wb, old_inodes_are_written_periodically)
{
	struct flat_file *files[4];

	open_periodic(&flat, 1000000, 2000000, 2);
	for (unsigned int i = 0; i < 4; i++) {
		files[i] = flat_create(&flat, i + 1);
		flat_dirty_pages(files[i], 0, 3, 1);
	}
	for (unsigned int i = 0; i < 4; i++)
		flat_eventually(is_clean(files[i]));
	flat_eventually(flat_stats(&flat).nr_dirty + flat_stats(&flat).nr_writeback == 0);
	/* And again after a pause. */
	flat_dirty_page(files[0], 0, 2);
	flat_eventually(is_clean(files[0]));
	for (unsigned int i = 0; i < 4; i++)
		flat_remove(files[i]);
}

Test(folio_wb, young_inodes_are_left_alone_by_periodic_writeback)
{
	const uint64_t minute = 60000000000ull;
	struct flat_file *young, *old;
	struct flat other;

	open_periodic(&other, 1000000, 1, 1);
	old = flat_create(&other, 1);
	open_periodic(&flat, 1000000, minute, 1);
	young = flat_create(&flat, 1);
	flat_dirty_page(young, 0, 1);
	/* Meanwhile another cache, with the same interval, does it time and again. */
	for (unsigned int round = 0; round < 5; round++) {
		flat_dirty_page(old, 0, 1);
		flat_eventually(is_clean(old));
	}
	cr_assert_not(is_clean(young));
	flat_remove(old);
	flat_close(&other);
	flat_remove(young);
}

Test(folio_wb, an_interval_of_zero_turns_periodic_writeback_off)
{
	struct flat_file *file;

	open_periodic(&flat, 0, 1, 1);
	file = flat_create(&flat, 1);
	flat_dirty_page(file, 0, 1);
	/* A work is done after which the flusher would look at its timer. */
	bdi_start_writeback(flat.bdi, 0);
	flat_eventually(flat_wb_stats(&flat, 0).works == 1);
	cr_assert_eq(file->nr_writepages, 0);
	flat_remove(file);
}

/* M130 */
Test(folio_wb, explicit_work_goes_before_the_rest_of_background_work)
{
	struct flat_file *files[12];
	struct flat_thread thread;

	open_with(1, WB_MAP_AUTO);
	stop_at_first_slice();
	for (unsigned int i = 0; i < 12; i++) {
		files[i] = flat_create(&flat, i + 1);
		flat_dirty_pages(files[i], 0, 25, 1);
	}
	env_task_self.local[ENV_LOCAL_DIRTIED_MAX] = 0;
	cr_assert_eq(wb_balance_dirty_pages(flat_mapping(files[0]), false), 0);
	env_completion_wait(&slice_reached);
	cr_assert(order.background[0]);
	/* The sync's work is queued when the thread has the lock that covers it. */
	flat_thread_start(&thread, sync_thread, &flat.sb);
	flat_eventually(env_mutex_is_locked(&flat.sb.s_sync_lock));
	bdi_start_writeback(flat.bdi, INT64_MAX);
	env_complete(&slice_may_go);
	flat_thread_join(&thread);
	for (unsigned int i = 1; i < nr_ordered(); i++)
		cr_assert_not(order.background[i]);
	for (unsigned int i = 0; i < 12; i++)
		flat_remove(files[i]);
}

/* K11: then the next one has its turn. */
Test(folio_wb, a_large_inode_is_written_a_slice_at_a_time)
{
	struct flat_file *large, *small;
	struct flat_config config;

	flat_config_init(&config);
	config.cache.capacity = 64 * MiB;
	config.cache.dirty_bytes = 40 * MiB;
	config.cache.dirty_background_bytes = 1 * MiB;
	flat_open(&flat, &config);
	flat.on_writepages = note_order;
	large = flat_create(&flat, 1);
	small = flat_create(&flat, 2);
	flat_dirty_pages(large, 0, 4096, 1);
	flat_dirty_page(small, 0, 1);
	env_task_self.local[ENV_LOCAL_DIRTIED_MAX] = 0;
	cr_assert_eq(wb_balance_dirty_pages(flat_mapping(large), false), 0);
	flat_eventually(flat_stats(&flat).nr_dirty <= 256);
	cr_assert_gt(nr_ordered(), 2);
	cr_assert_eq(order.ino[0], 1);
	cr_assert_eq(order.ino[1], 2);
	cr_assert_eq(order.ino[2], 1);
	flat_remove(large);
	flat_remove(small);
}

/* ---- several contexts --------------------------------------------------------------- */

/* W10 */
Test(folio_wb, the_number_asked_for_is_the_number)
{
	struct flat_file *file;

	open_with(5, WB_MAP_ROUND_ROBIN);
	cr_assert_eq(bdi_nr_contexts(flat.bdi), 5);
	file = flat_create(&flat, 1);
	flat_dirty_page(file, 0, 1);
	cr_assert_eq(bdi_nr_contexts(flat.bdi), 5);
	flat_remove(file);
}

Test(folio_wb, too_many_contexts_are_refused)
{
	struct backing_dev *bdi;

	open_with(1, WB_MAP_AUTO);
	cr_assert_eq(bdi_create(&bdi, flat.cache, flat.dev, WB_CTX_MAX + 1, WB_MAP_AUTO), -EINVAL);
	cr_assert_eq(bdi_create(&bdi, flat.cache, flat.dev, WB_CTX_MAX, WB_MAP_AUTO), 0);
	bdi_destroy(bdi);
}

static unsigned int want_many(const struct super_block *sb)
{
	(void)sb;
	return 1000000;
}

static unsigned int want_two(const struct super_block *sb)
{
	(void)sb;
	return 2;
}

static unsigned int automatic_number(bool rotational, const struct super_operations *ops)
{
	struct flat_config config;
	struct flat_file *file;
	struct flat world;
	unsigned int nr;

	flat_config_init(&config);
	config.nr_contexts = 0;
	config.rotational = rotational;
	config.super_ops = ops;
	flat_open(&world, &config);
	/* Nobody is asked before there is an inode. */
	cr_assert_eq(bdi_nr_contexts(world.bdi), 1);
	file = flat_create(&world, 1);
	nr = bdi_nr_contexts(world.bdi);
	flat_dirty_page(file, 0, 1);
	cr_assert_eq(bdi_nr_contexts(world.bdi), nr);
	flat_remove(file);
	flat_close(&world);
	return nr;
}

/* W8 */
Test(folio_wb, the_automatic_number)
{
	static const struct super_operations none = {0};
	static const struct super_operations many = {.wb_parallelism = want_many};
	static const struct super_operations two = {.wb_parallelism = want_two};
	unsigned int cpus = env_nr_cpus();

	open_with(1, WB_MAP_AUTO);
	cr_assert_eq(automatic_number(false, &none), 1);
	cr_assert_eq(automatic_number(true, &many), 1);
	cr_assert_eq(automatic_number(false, &many), cpus < WB_CTX_MAX ? cpus : WB_CTX_MAX);
	cr_assert_eq(automatic_number(false, &two), cpus < 2 ? cpus : 2);
}

/* Where a clean inode with that number is bound to; nothing of it stays. */
static int context_of(uint64_t ino)
{
	static struct inode inode;
	static const struct address_space_operations ops = {0};
	int context;

	inode_init(&inode, &flat.sb, ino, &ops);
	inode_mark_dirty(&inode, I_DIRTY_SYNC);
	context = wb_context_of(&inode);
	inode_evict(&inode);
	return context;
}

/* W14 */
Test(folio_wb, the_hash_of_the_inode_number_chooses_the_context)
{
	open_with(5, WB_MAP_HASH);
	for (uint64_t ino = 0; ino < 1000; ino++) {
		uint64_t hash = XXH3_64bits(&ino, sizeof(ino));

		cr_assert_eq(context_of(ino), (int)(((hash >> 32) * 5) >> 32));
	}
}

static void assert_spread(uint64_t first, uint64_t stride, unsigned int nr)
{
	uint64_t bins[16] = {0};
	uint64_t largest = 0;

	for (uint64_t i = 0; i < 20000; i++)
		bins[context_of(first + i * stride)]++;
	for (unsigned int i = 0; i < nr; i++)
		largest = bins[i] > largest ? bins[i] : largest;
	cr_assert_leq(largest * nr, 20000 * 110 / 100, "stride %zu: %zu of %u", (size_t)stride,
		      (size_t)largest, nr);
}

/* N3 */
Test(folio_wb, the_hash_spreads_any_numbers)
{
	open_with(7, WB_MAP_HASH);
	assert_spread(0, 1, 7);
	assert_spread(0, 64, 7);
	assert_spread(0, 8192, 7);
	assert_spread(0, 1ull << 32, 7);
}

Test(folio_wb, the_inode_number_modulo_the_contexts)
{
	open_with(3, WB_MAP_INO_MOD);
	for (uint64_t ino = 0; ino < 30; ino++)
		cr_assert_eq(context_of(ino), (int)(ino % 3));
}

Test(folio_wb, round_robin_takes_the_next_each_time)
{
	open_with(3, WB_MAP_ROUND_ROBIN);
	for (int i = 0; i < 12; i++)
		cr_assert_eq(context_of(7), i % 3);
}

Test(folio_wb, one_context_takes_all)
{
	open_with(3, WB_MAP_ONE);
	for (uint64_t ino = 0; ino < 30; ino++)
		cr_assert_eq(context_of(ino), 0);
}

static uint64_t shard_of(const struct inode *inode)
{
	return inode->i_ino < 100 ? inode->i_ino / 10 : WB_SHARD_ANY;
}

/* W13 */
Test(folio_wb, the_shard_of_the_file_system_chooses_else_the_hash)
{
	static const struct super_operations ops = {.wb_shard = shard_of};
	struct flat_config config;

	flat_config_init(&config);
	config.nr_contexts = 4;
	config.super_ops = &ops;
	flat_open(&flat, &config);
	for (uint64_t ino = 0; ino < 100; ino++)
		cr_assert_eq(context_of(ino), (int)(ino / 10 % 4));
	for (uint64_t ino = 100; ino < 200; ino++) {
		uint64_t hash = XXH3_64bits(&ino, sizeof(ino));

		cr_assert_eq(context_of(ino), (int)(((hash >> 32) * 4) >> 32));
	}
}

/* W19: it is not moved because it is dirtied again. */
Test(folio_wb, a_dirty_inode_keeps_its_context)
{
	struct flat_file *file;
	int context;

	open_with(4, WB_MAP_ROUND_ROBIN);
	file = flat_create(&flat, 1);
	flat_dirty_page(file, 0, 1);
	context = wb_context_of(&file->inode);
	for (uint64_t i = 1; i < 20; i++) {
		flat_dirty_page(file, i, 1);
		inode_mark_dirty(&file->inode, I_DIRTY_SYNC);
		cr_assert_eq(wb_context_of(&file->inode), context);
	}
	flat_remove(file);
}

/* W16: nor while it has pages under writeback; M117 in every context. */
Test(folio_wb, an_inode_with_writes_in_flight_keeps_its_context)
{
	struct flat_file *file;
	int context;

	open_with(4, WB_MAP_ROUND_ROBIN);
	file = flat_create(&flat, 1);
	flat_dirty_page(file, 0, 1);
	context = wb_context_of(&file->inode);
	flat_hold(&flat, BIO_WRITE);
	bdi_start_writeback(flat.bdi, INT64_MAX);
	flat_eventually(blkdev_fault_held(flat.dev) == 1 && is_clean(file));
	flat_dirty_page(file, 1, 1);
	cr_assert_eq(wb_context_of(&file->inode), context);
	cr_assert_eq(flat_wb_stats(&flat, (unsigned int)context).reclaimable, 1);
	cr_assert_eq(flat_wb_stats(&flat, (unsigned int)context).writeback, 1);
	flat_release(&flat);
	super_sync(&flat.sb);
	/* Clean and idle: the next one is chosen. */
	flat_dirty_page(file, 2, 1);
	cr_assert_neq(wb_context_of(&file->inode), context);
	for (unsigned int i = 0; i < 4; i++) {
		cr_assert_eq(flat_wb_stats(&flat, i).writeback, 0);
		cr_assert_eq(flat_wb_stats(&flat, i).reclaimable,
			     (int)i == wb_context_of(&file->inode));
	}
	flat_remove(file);
}

/* W40, M127: all contexts work at the same time. */
Test(folio_wb, sync_starts_all_contexts_before_it_waits)
{
	struct flat_file *files[4];
	struct flat_thread thread;

	open_with(4, WB_MAP_INO_MOD);
	for (unsigned int i = 0; i < 4; i++) {
		files[i] = flat_create(&flat, i + 4);
		flat_dirty_page(files[i], 0, 1);
	}
	flat_hold(&flat, BIO_WRITE);
	flat_thread_start(&thread, sync_thread, &flat.sb);
	flat_eventually(blkdev_fault_held(flat.dev) == 4);
	cr_assert_not(flat_thread_is_done(&thread));
	flat_release(&flat);
	flat_thread_join(&thread);
	for (unsigned int i = 0; i < 4; i++) {
		cr_assert(is_clean(files[i]));
		cr_assert_eq(flat_wb_stats(&flat, i).works, 1);
		flat_remove(files[i]);
	}
}

/* Which thread writes for which context, and how many write one inode. */
static struct {
	const void *thread[4]; /* [a] */
	uint32_t nr_writers[FLAT_FILES]; /* [a] */
} owner;

static int check_owner(struct flat_file *file, struct folio *folio)
{
	unsigned int context = (unsigned int)wb_context_of(&file->inode);
	uint32_t *writers = &owner.nr_writers[file->inode.i_ino];
	const void *nobody = NULL;

	(void)folio;
	cr_assert_eq(__atomic_fetch_add(writers, 1, __ATOMIC_ACQ_REL), 0);
	if (!__atomic_compare_exchange_n(&owner.thread[context], &nobody, &env_task_self, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		cr_assert_eq(nobody, (const void *)&env_task_self);
	__atomic_fetch_sub(writers, 1, __ATOMIC_ACQ_REL);
	return 0;
}

/* M126 */
Test(folio_wb, an_inode_is_written_by_its_own_context_alone)
{
	struct flat_file *files[12];

	open_with(4, WB_MAP_INO_MOD);
	flat.on_write_folio = check_owner;
	for (unsigned int i = 0; i < 12; i++)
		files[i] = flat_create(&flat, i + 1);
	for (unsigned int round = 0; round < 20; round++) {
		for (unsigned int i = 0; i < 12; i++)
			flat_dirty_pages(files[i], 0, 5, (unsigned char)round);
		bdi_start_writeback(flat.bdi, INT64_MAX);
		if (round % 4 == 0)
			super_sync(&flat.sb);
	}
	super_sync(&flat.sb);
	for (unsigned int i = 0; i < 4; i++)
		cr_assert(owner.thread[i]);
	for (unsigned int i = 0; i < 12; i++)
		flat_remove(files[i]);
}

/* W43: the budget is split, so one context does not do all of it. */
Test(folio_wb, a_page_budget_is_split_over_the_contexts)
{
	struct flat_file *files[16];
	uint64_t written = 0;

	open_with(4, WB_MAP_INO_MOD);
	for (unsigned int i = 0; i < 16; i++) {
		files[i] = flat_create(&flat, i);
		flat_dirty_pages(files[i], 0, 10, 1);
	}
	/* All start with the same bandwidth: ten pages each, one inode. */
	bdi_start_writeback(flat.bdi, 40);
	for (unsigned int i = 0; i < 4; i++)
		flat_eventually(flat_wb_stats(&flat, i).works == 1);
	for (unsigned int i = 0; i < 4; i++) {
		cr_assert_eq(flat_wb_stats(&flat, i).written, 10);
		written += flat_wb_stats(&flat, i).written;
	}
	cr_assert_eq(written, 40);
	bdi_start_writeback(flat.bdi, INT64_MAX);
	for (unsigned int i = 0; i < 4; i++)
		flat_eventually(flat_wb_stats(&flat, i).works == 2);
	cr_assert_eq(flat_stats(&flat).nr_dirty, 0);
	for (unsigned int i = 0; i < 16; i++)
		flat_remove(files[i]);
}

Test(folio_wb, a_context_without_dirty_inodes_gets_no_work)
{
	struct flat_file *file;

	open_with(2, WB_MAP_INO_MOD);
	file = flat_create(&flat, 2);
	flat_dirty_page(file, 0, 1);
	bdi_start_writeback(flat.bdi, 100);
	flat_eventually(flat_wb_stats(&flat, 0).works == 1);
	cr_assert_eq(flat_wb_stats(&flat, 1).works, 0);
	flat_remove(file);
}

/* W21: a writer in one context wakes the others that have dirty inodes. */
Test(folio_wb, background_writeback_runs_in_every_context)
{
	struct flat_file *files[4];

	open_with(4, WB_MAP_INO_MOD);
	for (unsigned int i = 0; i < 4; i++) {
		files[i] = flat_create(&flat, i + 4);
		flat_dirty_pages(files[i], 0, BACKGROUND / 4 + 10, 1);
	}
	flat_hold(&flat, BIO_WRITE);
	env_task_self.local[ENV_LOCAL_DIRTIED_MAX] = 0;
	cr_assert_eq(wb_balance_dirty_pages(flat_mapping(files[0]), false), 0);
	flat_eventually(flat_stats(&flat).nr_dirty <= BACKGROUND);
	flat_release(&flat);
	for (unsigned int i = 0; i < 4; i++)
		flat_remove(files[i]);
}

/* The same operations, then what the device holds. */
static void run_and_digest(unsigned int nr_contexts, uint64_t digests[8])
{
	static unsigned char bytes[2 * MiB];
	struct flat_config config;
	struct flat_file *files[8];
	struct flat world;
	struct env_rng rng;

	flat_config_init(&config);
	config.nr_contexts = nr_contexts;
	config.map = WB_MAP_INO_MOD;
	config.cache.dirty_bytes = 2 * MiB;
	flat_open(&world, &config);
	env_rng_seed(&rng, 99);
	for (unsigned int i = 0; i < 8; i++)
		files[i] = flat_create(&world, i + 1);
	for (unsigned int step = 0; step < 200; step++) {
		struct flat_file *file = files[env_rng_below(&rng, 8)];
		uint64_t pos = env_rng_below(&rng, sizeof(bytes) / 2);
		uint64_t len = 1 + env_rng_below(&rng, 60000);

		memset(bytes, (int)step, len);
		cr_assert_eq(flat_write(file, bytes, len, pos), (ssize_t)len);
		if (step % 10 == 0)
			cr_assert_eq(flat_fsync(file), 0);
		if (step % 23 == 0)
			flat_truncate(file, pos);
		if (step % 31 == 0)
			super_sync(&world.sb);
	}
	super_sync(&world.sb);
	page_cache_drop(world.cache);
	for (unsigned int i = 0; i < 8; i++) {
		memset(bytes, 0, sizeof(bytes));
		flat_read(files[i], bytes, sizeof(bytes), 0);
		digests[i] = XXH3_64bits(bytes, sizeof(bytes));
		flat_remove(files[i]);
	}
	flat_close(&world);
}

/* M128 */
Test(folio_wb, several_contexts_write_the_same_bytes_as_one)
{
	uint64_t one[8], four[8];

	open_with(1, WB_MAP_AUTO);
	run_and_digest(1, one);
	run_and_digest(4, four);
	cr_assert_arr_eq(one, four, sizeof(one));
}

/* ---- completions and figures -------------------------------------------------------- */

struct note {
	struct wb_completion work;
	uint32_t place;
};

static uint32_t nr_notes;

static void take_note(struct wb_completion *work)
{
	struct note *note = container_of(work, struct note, work);

	note->place = __atomic_load_n(&nr_notes, __ATOMIC_RELAXED);
	__atomic_store_n(&nr_notes, note->place + 1, __ATOMIC_RELEASE);
}

/* W26 */
Test(folio_wb, completion_works_run_in_order)
{
	struct flat_file *file;
	struct note notes[50];

	open_with(2, WB_MAP_INO_MOD);
	file = flat_create(&flat, 3);
	flat_dirty_page(file, 0, 1);
	for (unsigned int i = 0; i < 50; i++) {
		notes[i].work.fn = take_note;
		wb_queue_completion(&file->inode, &notes[i].work);
	}
	flat_eventually(__atomic_load_n(&nr_notes, __ATOMIC_ACQUIRE) == 50);
	for (unsigned int i = 0; i < 50; i++)
		cr_assert_eq(notes[i].place, i);
	cr_assert_eq(flat_wb_stats(&flat, 1).completions, 50);
	cr_assert_eq(flat_wb_stats(&flat, 0).completions, 0);
	flat_remove(file);
}

Test(folio_wb, a_context_counts_what_it_does)
{
	struct wb_stats stats;
	struct flat_file *file;

	open_with(1, WB_MAP_AUTO);
	file = flat_create(&flat, 1);
	flat_dirty_pages(file, 0, 10, 1);
	super_sync(&flat.sb);
	stats = flat_wb_stats(&flat, 0);
	cr_assert_eq(stats.inodes, 1);
	cr_assert_eq(stats.dirtied, 10);
	cr_assert_eq(stats.written, 10);
	cr_assert_eq(stats.requests, 10);
	cr_assert_eq(stats.bytes, 10 * PAGE);
	cr_assert_eq(stats.slices, 1);
	cr_assert_eq(stats.works, 1);
	/* W54 */
	cr_assert_eq(stats.write_bandwidth, 100 * MiB);
	cr_assert_eq(flat_wb_stats(&flat, 1).written, 0);
	flat_remove(file);
}

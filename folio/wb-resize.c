/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * wb-resize.c - how many contexts and workers a device has, and changing that live (W8..W12,
 * W30..W37)
 *
 * => resize_lock is held by all callers
 */
#include "folio/wb.h"

/* ---- the automatic number (W8) ------------------------------------------------------ */

unsigned int wb_automatic_number(const struct backing_dev *bdi, struct wb_inputs *inputs)
{
	unsigned int nr;
	struct super_block *sb;

	inputs->rotational = bdi->bdev->rotational;
	inputs->nr_cpus = bdi->cache->nr_cpus;
	inputs->parallelism = 1;
	list_for_each_entry(sb, &bdi->sbs, struct super_block, s_link)
		if (sb->s_parallelism > inputs->parallelism)
			inputs->parallelism = sb->s_parallelism;
	if (inputs->rotational || inputs->nr_cpus == 1)
		return 1;
	nr = inputs->parallelism < inputs->nr_cpus ? inputs->parallelism : inputs->nr_cpus;
	return nr < WB_CTX_MAX ? nr : WB_CTX_MAX;
}

/* Nobody can be told that it failed; some number of contexts there always is. */
void bdi_number_changed(struct backing_dev *bdi)
{
	unsigned int nr_live = __atomic_load_n(&bdi->nr_live, __ATOMIC_RELAXED);
	struct wb_inputs inputs;
	unsigned int nr;

	if (bdi->user_nr)
		return;
	nr = wb_automatic_number(bdi, &inputs);
	while (wb_resize(bdi, nr) != 0 && nr > nr_live)
		nr = (nr + nr_live) / 2;
}

/* ---- workers (W25) ------------------------------------------------------------------ */

static void stop_helpers(struct wb_ctx *wb, unsigned int keep)
{
	for (unsigned int i = keep; i < wb->nr_helpers; i++)
		__atomic_store_n(&wb->helpers[i].stop, true, __ATOMIC_SEQ_CST);
	env_waitq_wake(&wb->help_wake);
	for (unsigned int i = keep; i < wb->nr_helpers; i++)
		env_thread_join(wb->helpers[i].thread);
	if (keep < wb->nr_helpers)
		__atomic_store_n(&wb->nr_helpers, keep, __ATOMIC_RELAXED);
}

static int start_helpers(struct wb_ctx *wb, unsigned int nr)
{
	while (wb->nr_helpers < nr) {
		struct wb_helper *helper = &wb->helpers[wb->nr_helpers];
		int err;

		helper->wb = wb;
		helper->stop = false;
		err = env_thread_create(&helper->thread, "flush+", wb_helper_main, helper);
		if (err)
			return err;
		__atomic_store_n(&wb->nr_helpers, wb->nr_helpers + 1, __ATOMIC_RELAXED);
	}
	return 0;
}

int wb_set_workers(struct backing_dev *bdi, unsigned int nr)
{
	unsigned int old = bdi_tuned(bdi, workers_per_ctx);
	int err = 0;

	for (unsigned int i = 0; i < bdi->nr_slots && !err; i++)
		err = start_helpers(bdi->slots[i], nr - 1);
	for (unsigned int i = 0; i < bdi->nr_slots; i++)
		stop_helpers(bdi->slots[i], (err ? old : nr) - 1);
	return err;
}

/* ---- one context -------------------------------------------------------------------- */

static void wb_init(struct wb_ctx *wb, struct backing_dev *bdi, unsigned int index)
{
	wb->bdi = bdi;
	wb->index = index;
	wb->state = WB_IDLE;
	env_spin_init(&wb->list_lock, "wb->list_lock");
	env_spin_init(&wb->work_lock, "wb->work_lock");
	env_spin_init(&wb->completion_lock, "wb->completion_lock");
	env_waitq_init(&wb->wake);
	env_waitq_init(&wb->help_wake);
	env_waitq_init(&wb->help_done);
	env_waitq_init(&wb->completion_wake);
	for (unsigned int list = 0; list < NR_WB_LISTS; list++)
		list_init(&wb->lists[list]);
	list_init(&wb->works);
	wb->completion_tail = &wb->completion_first;
}

static void wb_mark_stopped(struct wb_ctx *wb)
{
	__atomic_store_n(&wb->stop, true, __ATOMIC_SEQ_CST);
	wb_wake(wb);
	env_waitq_wake(&wb->completion_wake);
}

/* => marked */
static void wb_join_and_free(struct wb_ctx *wb)
{
	stop_helpers(wb, 0);
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

static int wb_create(struct wb_ctx **result, struct backing_dev *bdi, unsigned int index)
{
	struct wb_ctx *wb = env_zalloc(sizeof(*wb));
	int err;

	if (!wb)
		return -ENOMEM;
	wb_init(wb, bdi, index);
	err = env_thread_create(&wb->thread, "flush", wb_thread_main, wb);
	if (!err)
		err = env_thread_create(&wb->completion_thread, "wb-done", wb_completion_main, wb);
	if (!err)
		err = start_helpers(wb, bdi_tuned(bdi, workers_per_ctx) - 1);
	if (err) {
		wb_mark_stopped(wb);
		wb_join_and_free(wb);
		return err;
	}
	*result = wb;
	return 0;
}

void wb_stop_all(struct backing_dev *bdi)
{
	for (unsigned int i = 0; i < bdi->nr_slots; i++)
		wb_mark_stopped(bdi->slots[i]);
	for (unsigned int i = 0; i < bdi->nr_slots; i++)
		wb_join_and_free(bdi->slots[i]);
}

static void wb_set_state(struct wb_ctx *wb, enum wb_state state)
{
	env_mutex_lock(&wb->list_lock);
	__atomic_store_n(&wb->state, state, __ATOMIC_RELEASE);
	env_mutex_unlock(&wb->list_lock);
}

/* ---- grow (W32) --------------------------------------------------------------------- */

/* Make what is missing of the first nr contexts, all or none of them. */
static int fill_slots(struct backing_dev *bdi, unsigned int nr)
{
	unsigned int have = bdi->nr_slots;
	int err = 0;

	while (have < nr && !err) {
		err = wb_create(&bdi->slots[have], bdi, have);
		if (!err)
			wb_bandwidth_start(bdi->slots[have++], bdi->nr_live ? nr : 0);
	}
	if (err) {
		for (unsigned int i = bdi->nr_slots; i < have; i++)
			wb_mark_stopped(bdi->slots[i]);
		for (unsigned int i = bdi->nr_slots; i < have; i++) {
			wb_join_and_free(bdi->slots[i]);
			bdi->slots[i] = NULL;
		}
		return err;
	}
	if (have > bdi->nr_slots)
		__atomic_store_n(&bdi->nr_slots, have, __ATOMIC_RELEASE);
	return 0;
}

static int wb_grow(struct backing_dev *bdi, unsigned int nr)
{
	unsigned int nr_slots = bdi->nr_slots;
	int err = fill_slots(bdi, nr);

	if (err)
		return err;
	for (unsigned int i = bdi->nr_live; i < nr; i++) {
		/* One that comes back starts anew, too (W54). */
		if (i < nr_slots)
			wb_bandwidth_start(bdi->slots[i], nr);
		wb_set_state(bdi->slots[i], WB_LIVE);
	}
	__atomic_store_n(&bdi->nr_live, nr, __ATOMIC_RELEASE);
	return 0;
}

/* ---- shrink (W33) ------------------------------------------------------------------- */

static void wb_shrink(struct backing_dev *bdi, unsigned int nr)
{
	unsigned int old = bdi->nr_live;

	__atomic_store_n(&bdi->nr_live, nr, __ATOMIC_RELEASE);
	for (unsigned int i = nr; i < old; i++)
		wb_set_state(bdi->slots[i], WB_RETIRING);
	for (unsigned int i = nr; i < old; i++)
		wb_wake(bdi->slots[i]);
	for (unsigned int i = nr; i < old; i++)
		env_wait_event(&bdi->idle_wait, wb_state(bdi->slots[i]) == WB_IDLE);
}

int wb_resize(struct backing_dev *bdi, unsigned int nr)
{
	uint64_t start = env_clock_ns();
	int err = 0;

	if (nr == bdi->nr_live)
		return 0;
	if (nr > bdi->nr_live)
		err = wb_grow(bdi, nr);
	else
		wb_shrink(bdi, nr);
	if (!err) {
		counter_add(&bdi->nr_resizes, 1);
		counter_add(&bdi->resize_ns, env_clock_ns() - start);
	}
	return err;
}

/* ---- asked from outside ------------------------------------------------------------- */

int bdi_set_nr_contexts(struct backing_dev *bdi, unsigned int nr)
{
	struct wb_inputs inputs;
	int err;

	if (nr > WB_CTX_MAX)
		return -EINVAL;
	env_mutex_lock(&bdi->resize_lock);
	err = wb_resize(bdi, nr ? nr : wb_automatic_number(bdi, &inputs));
	if (!err)
		__atomic_store_n(&bdi->user_nr, nr, __ATOMIC_RELAXED);
	env_mutex_unlock(&bdi->resize_lock);
	return err;
}

unsigned int bdi_nr_contexts(const struct backing_dev *bdi)
{
	return __atomic_load_n(&bdi->nr_live, __ATOMIC_ACQUIRE);
}

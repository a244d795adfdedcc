/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * bdi.c - a backing device: made, tuned, stopped
 */
#include "folio/wb.h"

/* ---- tuning ------------------------------------------------------------------------- */

static void tuning_init(struct backing_dev *bdi, enum wb_map map)
{
	bdi->tuning = (struct bdi_tuning){
		.map = map,
		.throttle_share = WB_SHARE_BDI,
		.rebind_on_refile = true,
		.kick_all = true,
		.workers_per_ctx = 1,
		.min_slice = 4ull << 20,
		.max_ratio = 100,
	};
}

static bool tuning_is_valid(const struct backing_dev *bdi, const struct bdi_tuning *tuning)
{
	return tuning->map <= WB_MAP_INDEX && tuning->throttle_share <= WB_SHARE_POSTED &&
	       tuning->workers_per_ctx >= 1 && tuning->workers_per_ctx <= WB_WORKERS_MAX &&
	       tuning->min_slice >= bdi->cache->config.page_size &&
	       tuning->min_slice <= INT64_MAX && tuning->min_ratio <= tuning->max_ratio &&
	       tuning->max_ratio <= 100;
}

#define TUNING_MEMBERS(X)                                                                          \
	X(map)                                                                                     \
	X(throttle_share)                                                                          \
	X(rebind_on_refile)                                                                        \
	X(kick_all)                                                                                \
	X(sync_serial)                                                                             \
	X(single_completion_queue)                                                                 \
	X(workers_per_ctx)                                                                         \
	X(min_slice)                                                                               \
	X(min_ratio)                                                                               \
	X(max_ratio)                                                                               \
	X(strict_limit)

void bdi_get_tuning(const struct backing_dev *bdi, struct bdi_tuning *tuning)
{
	memset(tuning, 0, sizeof(*tuning));
#define X(member) tuning->member = bdi_tuned(bdi, member);
	TUNING_MEMBERS(X)
#undef X
}

int bdi_set_tuning(struct backing_dev *bdi, const struct bdi_tuning *tuning)
{
	int err;

	if (!tuning_is_valid(bdi, tuning))
		return -EINVAL;
	env_mutex_lock(&bdi->resize_lock);
	err = wb_set_workers(bdi, tuning->workers_per_ctx);
	if (err) {
		env_mutex_unlock(&bdi->resize_lock);
		return err;
	}
#define X(member) __atomic_store_n(&bdi->tuning.member, tuning->member, __ATOMIC_RELAXED);
	TUNING_MEMBERS(X)
#undef X
	env_mutex_unlock(&bdi->resize_lock);
	return 0;
}

/* ---- the device --------------------------------------------------------------------- */

int bdi_create(struct backing_dev **result, struct page_cache *cache, struct block_device *bdev,
	       unsigned int nr, enum wb_map map)
{
	struct backing_dev *bdi;
	int err;

	if (nr > WB_CTX_MAX || map > WB_MAP_INDEX)
		return -EINVAL;
	bdi = env_zalloc(sizeof(*bdi));
	if (!bdi)
		return -ENOMEM;
	bdi->cache = cache;
	bdi->bdev = bdev;
	bdi->user_nr = nr;
	tuning_init(bdi, map);
	env_mutex_init(&bdi->resize_lock, "bdi->resize_lock");
	env_rwsem_init(&bdi->switch_lock, "bdi->switch_lock");
	env_waitq_init(&bdi->idle_wait);
	list_init(&bdi->sbs);
	env_mutex_lock(&bdi->resize_lock);
	err = wb_resize(bdi, nr ? nr : 1);
	env_mutex_unlock(&bdi->resize_lock);
	if (err) {
		env_free(bdi);
		return err;
	}
	/* Making it is not changing it. */
	bdi->nr_resizes = 0;
	bdi->resize_ns = 0;
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
	share_forget(bdi);
	env_mutex_lock(&bdi->resize_lock);
	wb_stop_all(bdi);
	env_mutex_unlock(&bdi->resize_lock);
	env_free(bdi);
}

struct block_device *bdi_block_device(const struct backing_dev *bdi)
{
	return bdi->bdev;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * calibrate-rig.c - a device with a gate, a cache and a file system over it
 */
#include "calibrate-rig.h"

#include <string.h>

#define DEVICE_BYTES (8ull << 30)
#define NO_LIMIT     (1ull << 40)

/* ---- the device ---- */

static struct gate_device *gate_of(struct block_device *bdev)
{
	return (struct gate_device *)bdev;
}

static bool gate_holds(struct gate_device *gate, struct bio *bio)
{
	bool held;

	env_mutex_lock(&gate->lock);
	held = gate->shut && bio->op == BIO_WRITE && bio->kind == BIO_DATA;
	if (held) {
		bio->next = NULL;
		*gate->tail = bio;
		gate->tail = &bio->next;
		gate->nr_held++;
	}
	env_mutex_unlock(&gate->lock);
	return held;
}

static void gate_submit(struct block_device *bdev, struct bio *bio)
{
	if (gate_holds(gate_of(bdev), bio))
		return;
	if (bio->op == BIO_READ)
		for (unsigned int i = 0; i < bio->nr_vecs; i++)
			memset(bio->vecs[i].base, 0, bio->vecs[i].len);
	bio_endio(bio, 0);
}

/* Part of the rig. */
static void gate_destroy(struct block_device *bdev)
{
	(void)bdev;
}

static void gate_init(struct gate_device *gate)
{
	static const struct blkdev_ops ops = {.submit = gate_submit, .destroy = gate_destroy};

	*gate = (struct gate_device){
		.bdev = {.ops = &ops, .name = "gate", .size = DEVICE_BYTES, .logical_block = 512}};
	gate->tail = &gate->first;
	env_mutex_init(&gate->lock, "calibrate gate");
}

void gate_shut(struct gate_device *gate)
{
	env_mutex_lock(&gate->lock);
	gate->shut = true;
	env_mutex_unlock(&gate->lock);
}

uint64_t gate_open(struct gate_device *gate)
{
	struct bio *bio;
	uint64_t nr;

	env_mutex_lock(&gate->lock);
	bio = gate->first;
	nr = gate->nr_held;
	gate->shut = false;
	gate->first = NULL;
	gate->tail = &gate->first;
	gate->nr_held = 0;
	env_mutex_unlock(&gate->lock);
	while (bio) {
		struct bio *next = bio->next;

		bio->next = NULL;
		bio_endio(bio, 0);
		bio = next;
	}
	return nr;
}

/* ---- the rig ---- */

static int make_cache(struct cal_rig *rig, uint64_t capacity, bool single_pages)
{
	struct page_cache_config config;

	page_cache_config_init(&config);
	config.capacity = capacity;
	config.prefault = true;
	config.dirty_bytes = NO_LIMIT;
	config.dirty_background_bytes = NO_LIMIT;
	config.writeback_interval_ns = 0;
	if (single_pages) {
		config.order_hint = false;
		config.max_folio = config.page_size;
	}
	return page_cache_create(&rig->cache, &config);
}

int cal_rig_open(struct cal_rig *rig, uint64_t capacity, bool single_pages, const char *options)
{
	struct fs_config config = {.type = "xfs", .options = options};
	char error[256];
	int err;

	*rig = (struct cal_rig){0};
	gate_init(&rig->gate);
	err = make_cache(rig, capacity, single_pages);
	if (!err)
		err = bdi_create(&rig->bdi, rig->cache, &rig->gate.bdev, 1, WB_MAP_AUTO);
	if (!err)
		err = fs_mount(&rig->fs, rig->cache, rig->bdi, &rig->gate.bdev, &config, error,
			       sizeof(error));
	if (err)
		cal_rig_close(rig);
	return err;
}

void cal_rig_close(struct cal_rig *rig)
{
	if (rig->fs)
		fs_unmount(rig->fs);
	if (rig->bdi)
		bdi_destroy(rig->bdi);
	if (rig->cache)
		page_cache_destroy(rig->cache);
	*rig = (struct cal_rig){0};
}

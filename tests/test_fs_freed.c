/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_fs_freed.c - no device is ever written where the back end has freed the space
 *
 * A device of the test's own asks, when a data write comes and again before it is done, whether all
 * of it belongs to a file.  One task writes, one takes space away, one starts writeback; the
 * simulator tries the schedules.  What fails names its seed.
 */
#include <criterion/criterion.h>

#include <iomap/backing_dev.h>
#include <iomap/blkdev.h>
#include <iomap/env.h>
#include <iomap/fsbackend.h>
#include <iomap/page_cache.h>
#include <iomap/sim.h>
#include <stdlib.h>
#include <string.h>
#include "tests/units.h"

#define NR_FILES 2
#define NR_OPS	 14
#define BLOCK	 1024u
#define BLOCKS	 96u /* of a file */

static const char *fs_type;
static struct fs *fs;
static struct backing_dev *bdi;
static struct file *files[NR_FILES];

/* ---- the device that asks ------------------------------------------------------------ */

static bool is_in(struct file *file, uint64_t addr)
{
	struct fs_extent extent;

	for (uint64_t pos = 0; fs_next_extent(file, pos, &extent) == 0;
	     pos = extent.pos + extent.len)
		if (!extent.delayed && addr >= extent.addr && addr < extent.addr + extent.len)
			return true;
	return false;
}

static void check_owned(const struct bio *bio, const char *when)
{
	for (uint64_t addr = bio->addr; addr < bio->addr + bio->len; addr += BLOCK) {
		bool owned = false;

		for (unsigned int i = 0; i < NR_FILES; i++)
			owned = owned || is_in(files[i], addr);
		cr_assert(owned, "%s: %s, byte %llu of the device is free", fs_type, when,
			  (unsigned long long)addr);
	}
}

static void asking_submit(struct block_device *bdev, struct bio *bio)
{
	if (bio->op == BIO_WRITE && bio->kind == BIO_DATA) {
		check_owned(bio, "a write begins");
		env_sleep_ns(1000);
		check_owned(bio, "a write ends");
	}
	bdev->below->ops->submit(bdev->below, bio);
}

static void asking_destroy(struct block_device *bdev)
{
	free(bdev);
}

static struct block_device *asking_create(struct block_device *below)
{
	static const struct blkdev_ops ops = {.submit = asking_submit, .destroy = asking_destroy};
	struct block_device *bdev = malloc(sizeof(*bdev));

	*bdev = *below;
	bdev->ops = &ops;
	bdev->name = "asking";
	bdev->below = below;
	return bdev;
}

/* ---- what the tasks do --------------------------------------------------------------- */

static void write_some(void *arg)
{
	static unsigned char memory[16 * BLOCK];
	struct env_rng *rng = arg;

	memset(memory, 'A', sizeof(memory));
	for (unsigned int i = 0; i < NR_OPS; i++) {
		struct file *file = files[env_rng_below(rng, NR_FILES)];
		uint64_t len = 1 + env_rng_below(rng, sizeof(memory));
		ssize_t n = fs_write(file, memory, len, env_rng_below(rng, BLOCKS * BLOCK));

		cr_assert_eq(n, (ssize_t)len);
		if (env_rng_below(rng, 4) == 0)
			cr_assert_eq(fs_fsync(file, false), 0);
	}
}

static void take_space(void *arg)
{
	struct env_rng *rng = arg;

	for (unsigned int i = 0; i < NR_OPS; i++) {
		struct file *file = files[env_rng_below(rng, NR_FILES)];
		uint64_t pos = env_rng_below(rng, BLOCKS) * BLOCK;
		uint64_t len = (1 + env_rng_below(rng, 20)) * BLOCK;

		switch (env_rng_below(rng, 4)) {
		case 0:
			cr_assert_eq(fs_truncate(file, pos + 100), 0);
			break;
		case 1:
			fs_fallocate(file, FS_FALLOC_COLLAPSE_RANGE, pos, len);
			break;
		case 2:
			fs_fallocate(file, FS_FALLOC_INSERT_RANGE, pos, len);
			break;
		default:
			cr_assert_eq(fs_fallocate(file, FS_FALLOC_PUNCH_HOLE | FS_FALLOC_KEEP_SIZE,
						  pos, len),
				     0);
		}
	}
}

static void start_writeback(void *arg)
{
	(void)arg;
	for (unsigned int i = 0; i < NR_OPS; i++) {
		bdi_start_writeback(bdi, 16);
		env_sleep_ns(1000);
	}
}

static void run(void *arg)
{
	const struct env_sim_config *sim = arg;
	static void (*const tasks[])(void *) = {write_some, take_space, start_writeback};
	struct fs_config config = {.type = fs_type, .block_size = BLOCK};
	struct page_cache_config cache_config;
	struct env_thread *threads[3];
	struct block_device *dev;
	struct page_cache *cache;
	struct env_rng rngs[3];
	char error[256];

	page_cache_config_init(&cache_config);
	cache_config.capacity = 4 * MiB;
	cache_config.max_folio = 16 * KiB;
	cache_config.writeback_interval_ns = 0;
	cr_assert_eq(page_cache_create(&cache, &cache_config), 0);
	cr_assert_eq(blkdev_ram_create(&dev, 64 * MiB, 0), 0);
	dev = asking_create(dev);
	cr_assert_eq(bdi_create(&bdi, cache, dev, 2, WB_MAP_AUTO), 0);
	cr_assert_eq(fs_mount(&fs, cache, bdi, dev, &config, error, sizeof(error)), 0);
	cr_assert_eq(fs_open(fs, "/a", FS_OPEN_CREATE, &files[0]), 0);
	cr_assert_eq(fs_open(fs, "/b", FS_OPEN_CREATE, &files[1]), 0);

	for (unsigned int i = 0; i < 3; i++) {
		env_rng_seed(&rngs[i], sim->seed * 3 + i);
		cr_assert_eq(env_thread_create(&threads[i], "task", tasks[i], &rngs[i]), 0);
	}
	for (unsigned int i = 0; i < 3; i++)
		env_thread_join(threads[i]);
	cr_assert_eq(fs_sync(fs), 0);
	for (unsigned int i = 0; i < NR_FILES; i++)
		fs_close(files[i]);
	cr_assert_eq(fs_unmount(fs), 0);
	bdi_destroy(bdi);
	blkdev_destroy(dev);
	page_cache_destroy(cache);
}

static void under_schedules(const char *type)
{
	static const char *const may_nest[] = {"wb->list_lock", NULL};
	static struct env_sim_result result;
	struct env_sim_config config;

	fs_type = type;
	env_sim_config_init(&config);
	config.schedule = ENV_SIM_ADVERSARIAL;
	config.may_nest = may_nest;
	for (config.seed = 1; config.seed <= 150; config.seed++)
		cr_assert_eq(env_sim_run(&config, run, &config, &result), 0, "%s", result.text);
}

/* M135, M97: seeds 1 .. 150. */
Test(fs_freed, xfs_writes_to_no_block_that_it_has_freed)
{
	under_schedules("xfs");
}

Test(fs_freed, ext4_writes_to_no_block_that_it_has_freed)
{
	under_schedules("ext4");
}

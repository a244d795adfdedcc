/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * world.c - the devices, the cache and the file system of a run
 *
 * A cache has 2 MiB at least.  To make it smaller, a ballast file holds folios that nobody
 * gives back before the end.
 */
#include "check.h"

#include <stdio.h>
#include <string.h>
#include <iomap/backing_dev.h>
#include <iomap/blkdev.h>
#include <iomap/filemap.h>
#include <iomap/folio.h>
#include <iomap/fsbackend.h>
#include <iomap/page_cache.h>

#define DEVICE_SIZE (128 * MiB)
#define CACHE_SIZE  (2 * MiB)

struct world world;

/* ---- the library's file systems ---- */

static struct fs *fs;

static int library_mount(void)
{
	struct fs_config config = {
		.type = world.plan->fs,
		.block_size = world.plan->block_size,
		.nr_cpus = 4,
	};
	char error[256] = "";
	int err;

	err = fs_mount(&fs, world.cache, world.bdi, world.fault, &config, error, sizeof(error));
	check(!err, "mount: %s", error);
	return 0;
}

static int library_unmount(void)
{
	return fs_unmount(fs);
}

static int library_open(const char *name, struct file **file)
{
	char path[32];

	snprintf(path, sizeof(path), "/%s", name);
	return fs_open(fs, path, FS_OPEN_CREATE, file);
}

static void library_close(struct file *file)
{
	fs_close(file);
}

static int library_unlink(const char *name)
{
	char path[32];

	snprintf(path, sizeof(path), "/%s", name);
	return fs_unlink(fs, path);
}

static int library_sync(void)
{
	return fs_sync(fs);
}

static uint64_t library_reserved(void)
{
	struct fs_space space;

	fs_get_space(fs, &space);
	return space.reserved;
}

const struct fsys library_fsys = {
	.mount = library_mount,
	.unmount = library_unmount,
	.open = library_open,
	.close = library_close,
	.unlink = library_unlink,
	.write = fs_write,
	.read = fs_read,
	.truncate = fs_truncate,
	.fallocate = fs_fallocate,
	.sync = library_sync,
	.reserved = library_reserved,
};

/* ---- ballast ---- */

static struct {
	struct super_block sb;
	struct inode inode;
	struct folio *folios[CACHE_SIZE / (4 * KiB)];
	unsigned int nr;
} ballast;

static int no_read_folio(struct file *file, struct folio *folio)
{
	(void)file, (void)folio;
	fail("ballast is read");
}

static int no_writepages(struct address_space *mapping, struct writeback_control *wbc)
{
	(void)mapping, (void)wbc;
	return 0;
}

static void ballast_load(uint64_t bytes)
{
	static const struct super_operations super_ops = {0};
	static const struct address_space_operations aops = {
		.read_folio = no_read_folio,
		.writepages = no_writepages,
	};
	const unsigned int order = 3;
	uint64_t index = 0;

	ballast.nr = 0;
	check(!super_init(&ballast.sb, world.cache, world.bdi, 4096, &super_ops), "no ballast");
	inode_init(&ballast.inode, &ballast.sb, 1, &aops);
	while (index * 4 * KiB < bytes) {
		struct folio *folio;

		check(!filemap_get_folio(&ballast.inode.i_mapping, index,
					 FGP_LOCK | FGP_CREAT | order << FGP_ORDER_SHIFT, &folio),
		      "no ballast");
		folio_mark_uptodate(folio);
		folio_unlock(folio);
		ballast.folios[ballast.nr++] = folio;
		index += folio_nr_pages(folio);
	}
}

static void ballast_drop(void)
{
	while (ballast.nr)
		folio_put(ballast.folios[--ballast.nr]);
	inode_evict(&ballast.inode);
	super_shutdown(&ballast.sb);
}

/* ---- trouble ---- */

static void add_rule(struct blkdev_fault_rule rule)
{
	check(!blkdev_fault_add(world.fault, &rule), "a rule was refused");
}

static void be_slow(struct env_rng *rng)
{
	add_rule((struct blkdev_fault_rule){.op = -1,
					    .kind = -1,
					    .action = BLKDEV_FAULT_DELAY,
					    .delay_ns = 1 + env_rng_below(rng, 20000000),
					    .chance = 2 + env_rng_below(rng, 4)});
	add_rule((struct blkdev_fault_rule){.op = -1,
					    .kind = -1,
					    .action = BLKDEV_FAULT_REORDER,
					    .delay_ns = 1 + env_rng_below(rng, 20000000),
					    .window = 2 + (unsigned int)env_rng_below(rng, 4),
					    .chance = 1 + env_rng_below(rng, 3)});
}

static void be_failing(struct env_rng *rng)
{
	add_rule((struct blkdev_fault_rule){.op = (int)env_rng_below(rng, 2),
					    .kind = BIO_DATA,
					    .action = env_rng_below(rng, 2) ? BLKDEV_FAULT_STOP
									    : BLKDEV_FAULT_TEAR,
					    .error = -5,
					    .count = 1 + env_rng_below(rng, 20),
					    .chance = 1 + env_rng_below(rng, 8)});
}

void world_trouble_start(struct env_rng *rng)
{
	if (world.plan->trouble == TROUBLE_SLOW)
		be_slow(rng);
	else if (world.plan->trouble == TROUBLE_FAILING)
		be_failing(rng);
}

void world_trouble_end(void)
{
	blkdev_fault_clear(world.fault);
}

bool world_has_failed(void)
{
	return world.plan->trouble == TROUBLE_FAILING && blkdev_fault_hits(world.fault) > 0;
}

/* ---- life ---- */

static void open_cache(const struct plan *plan)
{
	struct page_cache_config config;

	page_cache_config_init(&config);
	config.capacity = CACHE_SIZE;
	config.max_folio = plan->max_folio > plan->block_size ? plan->max_folio : plan->block_size;
	config.prefault = false;
	config.dirty_bytes = plan->dirty_bytes;
	config.dirty_background_bytes = plan->background_bytes;
	config.writeback_interval_ns = plan->interval_ns;
	config.dirty_expire_ns = plan->expire_ns;
	config.readahead_bytes = 64 * KiB;
	check(!page_cache_create(&world.cache, &config), "no cache");
}

static void open_device(const struct plan *plan)
{
	struct block_device *ram;

	check(!blkdev_ram_create(&ram, DEVICE_SIZE, plan->workers), "no ram");
	blkdev_ram_poison(ram, 0xee);
	check(!blkdev_fault_create(&world.fault, ram), "no fault");
	world.fault->stable_writes = plan->stable_writes;
	blkdev_fault_seed(world.fault, plan->seed);
}

void world_open(const struct plan *plan)
{
	world.plan = plan;
	world.fsys = plan->fs[0] == 'f' ? &flat_fsys : &library_fsys;
	open_cache(plan);
	open_device(plan);
	check(!bdi_create(&world.bdi, world.cache, world.fault, plan->nr_contexts, WB_MAP_AUTO),
	      "no bdi");
	check(!world.fsys->mount(), "no mount");
	ballast_load(CACHE_SIZE - plan->cache_bytes);
}

static void check_all_zero(void)
{
	struct page_cache_stats stats;

	page_cache_get_stats(world.cache, &stats);
	check(stats.nr_dirty == 0, "%llu pages are dirty at the end",
	      (unsigned long long)stats.nr_dirty);
	check(stats.nr_writeback == 0, "%llu pages under writeback at the end",
	      (unsigned long long)stats.nr_writeback);
	check(stats.nr_cached == 0, "%llu pages cached at the end",
	      (unsigned long long)stats.nr_cached);
	check(stats.nr_free == CACHE_SIZE / (4 * KiB), "%llu pages free at the end",
	      (unsigned long long)stats.nr_free);
	check(stats.state_bytes == 0, "%llu bytes of block state at the end",
	      (unsigned long long)stats.state_bytes);
}

void world_close(void)
{
	ballast_drop();
	bdi_destroy(world.bdi);
	check_all_zero();
	blkdev_destroy(world.fault);
	page_cache_destroy(world.cache);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_regress_sim.c - what check-sim has found, made to happen every time
 *
 * Seeds are those of the mix of operations at that time.
 */
#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>
#include <iomap/backing_dev.h>
#include <iomap/blkdev.h>
#include <iomap/env.h>
#include <iomap/fsbackend.h>
#include <iomap/page_cache.h>
#include <iomap/sim.h>

#define KiB 1024ull
#define MiB (1024 * KiB)
#define SEC 1000000000ull

struct world {
	struct block_device *dev;
	struct page_cache *cache;
	struct backing_dev *bdi;
	struct fs *fs;
};

static void world_open(struct world *world, const struct fs_config *fs_config, uint64_t size)
{
	struct page_cache_config config;
	char err[256];

	page_cache_config_init(&config);
	config.capacity = 8 * MiB;
	cr_assert_eq(page_cache_create(&world->cache, &config), 0);
	cr_assert_eq(blkdev_ram_create(&world->dev, size, 0), 0);
	cr_assert_eq(bdi_create(&world->bdi, world->cache, world->dev, 1, WB_MAP_AUTO), 0);
	cr_assert_eq(fs_mount(&world->fs, world->cache, world->bdi, world->dev, fs_config, err,
			      sizeof(err)),
		     0, "%s", err);
}

static void world_close(struct world *world)
{
	cr_assert_eq(fs_unmount(world->fs), 0);
	bdi_destroy(world->bdi);
	blkdev_destroy(world->dev);
	page_cache_destroy(world->cache);
}

static struct file *file_new(struct world *world, const char *path)
{
	struct file *file;

	cr_assert_eq(fs_open(world->fs, path, FS_OPEN_CREATE, &file), 0);
	return file;
}

static void simulate(void (*fn)(void *arg))
{
	static struct env_sim_result result;
	struct env_sim_config config;

	env_sim_config_init(&config);
	cr_assert_eq(env_sim_run(&config, fn, NULL, &result), 0, "%s", result.text);
}

/* ---- ext4: a tree block that is somebody else's now ------------------------------------- */

/*
 * Blocks that held a file's records stayed in the journal when they were freed, which wrote them
 * to what had been their places half a minute later: over the data of other files.  Seeds 967,
 * 973, 1236, 1325, 1460 and 1682.
 */

#define BLOCK	   (1 * KiB)
#define NR_RECORDS 400

/* Each second block: as many records. */
static void write_sparse(struct file *file)
{
	char memory[BLOCK] = {0};

	for (uint64_t i = 0; i < NR_RECORDS; i++)
		cr_assert_eq(fs_write(file, memory, BLOCK, 2 * i * BLOCK), (ssize_t)BLOCK);
}

static bool is_filled(struct file *file, uint64_t size)
{
	static char memory[64 * KiB];
	uint64_t wrong = 0;

	for (uint64_t pos = 0; pos < size; pos += sizeof(memory)) {
		cr_assert_eq(fs_read(file, memory, sizeof(memory), pos), sizeof(memory));
		for (size_t i = 0; i < sizeof(memory); i++)
			wrong += memory[i] != 'x';
	}
	return wrong == 0;
}

/* So much that it gets what others have freed. */
static uint64_t fill_device(struct world *world, struct file *file)
{
	static char memory[64 * KiB];
	struct fs_space space;
	uint64_t size;

	memset(memory, 'x', sizeof(memory));
	fs_get_space(world->fs, &space);
	size = space.free / sizeof(memory) * sizeof(memory);
	for (uint64_t pos = 0; pos < size; pos += sizeof(memory))
		cr_assert_eq(fs_write(file, memory, sizeof(memory), pos), sizeof(memory));
	return size;
}

static void reuse_tree_blocks(void *arg)
{
	struct fs_config config = {.type = "ext4", .block_size = BLOCK, .nr_cpus = 1};
	struct file *sparse, *full;
	struct world world;
	uint64_t size;

	(void)arg;
	world_open(&world, &config, 64 * MiB);
	sparse = file_new(&world, "/sparse");
	write_sparse(sparse);
	cr_assert_eq(fs_sync(world.fs), 0);
	cr_assert_eq(fs_truncate(sparse, 0), 0);
	fs_close(sparse);
	cr_assert_eq(fs_sync(world.fs), 0);

	full = file_new(&world, "/full");
	size = fill_device(&world, full);
	cr_assert_eq(fs_sync(world.fs), 0);
	env_sleep_ns(60 * SEC);
	page_cache_drop(world.cache);
	cr_assert(is_filled(full, size));
	fs_close(full);
	world_close(&world);
}

Test(regress_sim, the_journal_writes_no_block_that_was_freed)
{
	simulate(reuse_tree_blocks);
}

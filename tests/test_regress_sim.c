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
#include "flat.h"

#define MS  1000000ull
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

/* ---- memory that others give back while a write waits for some --------------------------- */

/*
 * A task that waited for memory looked for folios to reclaim, but not whether memory was free by
 * now: with all of the cache free, and one folio in use somewhere, it gave up with -ENOMEM after
 * two seconds.  Seed 79329.
 */

struct filling {
	struct flat_file *file;
	struct folio *folios[512];
	unsigned int nr;
};

/* So many folios, all of them in use. */
static void take_memory(struct filling *filling, uint64_t nr)
{
	while (filling->nr < nr) {
		struct folio *folio = flat_new_folio(filling->file, filling->nr, 0);

		folio_unlock(folio);
		filling->folios[filling->nr++] = folio;
	}
}

/* Removed first: there is nothing to reclaim at any time, memory only becomes free. */
static void give_memory(struct filling *filling)
{
	flat_remove(filling->file);
	while (filling->nr)
		folio_put(filling->folios[--filling->nr]);
}

static void write_one(void *arg)
{
	cr_assert_eq(flat_write(arg, "x", 1, 0), 1);
}

static void give_while_waiting(void *arg)
{
	struct filling given = {0}, kept = {0};
	struct flat_config config;
	struct env_thread *writer;
	struct flat_file *file;
	struct flat flat;
	uint64_t start;

	(void)arg;
	flat_config_init(&config);
	config.cache.capacity = 2 * MiB;
	flat_open(&flat, &config);
	file = flat_create(&flat, 1);
	given.file = flat_create(&flat, 2);
	kept.file = flat_create(&flat, 3);
	take_memory(&given, 256);
	take_memory(&kept, flat_stats(&flat).nr_free);
	cr_assert_eq(env_thread_create(&writer, "writer", write_one, file), 0);
	env_sleep_ns(100 * MS);

	start = env_clock_ns();
	give_memory(&given);
	env_thread_join(writer);
	cr_assert_lt(env_clock_ns() - start, 50 * MS);
	give_memory(&kept);
	flat_remove(file);
	flat_close(&flat);
}

Test(regress_sim, a_write_that_waits_for_memory_takes_what_others_free)
{
	simulate(give_while_waiting);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_env_sim_stack.c - the whole library in the simulator: cache, contexts, a file system
 *
 * Four tasks share a small cache: two write a file each, truncate and sync it; one reads both;
 * one syncs everything and evicts.  Each writer knows what its file must hold and looks.
 */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>
#include <iomap/backing_dev.h>
#include <iomap/blkdev.h>
#include <iomap/env.h>
#include <iomap/fs.h>
#include <iomap/fsbackend.h>
#include <iomap/page_cache.h>
#include <iomap/sim.h>

#define KIB	  (1ull << 10)
#define MIB	  (1ull << 20)
#define USEC	  1000ull
#define MSEC	  1000000ull
#define FILE_SIZE (768 * KIB)
#define NR_OPS	  30

struct model {
	struct file *file;
	unsigned int id;
	uint64_t size;
	unsigned char bytes[FILE_SIZE];
};

struct machine {
	const char *type;
	unsigned int workers;
	struct block_device *dev;
	struct page_cache *cache;
	struct backing_dev *bdi;
	struct fs *fs;
	struct model models[2];
	struct blkdev_count count;
};

static struct machine machine;
static struct env_sim_result result;

static void mount_all(void)
{
	struct page_cache_config config;
	struct block_device *ram;
	struct fs_config fs_config = {.type = machine.type};
	char error[256];
	int err;

	page_cache_config_init(&config);
	config.capacity = 2 * MIB;
	config.prefault = false;
	config.dirty_ratio = 40;
	config.dirty_background_ratio = 10;
	cr_assert_eq(page_cache_create(&machine.cache, &config), 0);
	cr_assert_eq(blkdev_ram_create(&ram, 128 * MIB, machine.workers), 0);
	blkdev_ram_poison(ram, 0xAA);
	cr_assert_eq(blkdev_count_create(&machine.dev, ram), 0);
	cr_assert_eq(bdi_create(&machine.bdi, machine.cache, machine.dev, 2, WB_MAP_AUTO), 0);
	err = fs_mount(&machine.fs, machine.cache, machine.bdi, machine.dev, &fs_config, error,
		       sizeof(error));
	cr_assert_eq(err, 0, "%s", error);
}

static void unmount_all(void)
{
	cr_assert_eq(fs_unmount(machine.fs), 0);
	blkdev_count_read(machine.dev, &machine.count);
	bdi_destroy(machine.bdi);
	blkdev_destroy(machine.dev);
	page_cache_destroy(machine.cache);
}

/* ---- the writers ---- */

static void write_some(struct model *model, struct env_rng *rng)
{
	static unsigned char data[2][64 * KIB];
	unsigned char *from = data[model->id];
	uint64_t len = 1 + env_rng_below(rng, sizeof(data[0]));
	uint64_t pos = env_rng_below(rng, FILE_SIZE - len);

	memset(from, (int)env_rng_below(rng, 255) + 1, len);
	cr_assert_eq(fs_write(model->file, from, len, pos), (ssize_t)len);
	memcpy(model->bytes + pos, from, len);
	if (pos + len > model->size)
		model->size = pos + len;
}

static void truncate_some(struct model *model, struct env_rng *rng)
{
	uint64_t size = env_rng_below(rng, FILE_SIZE);

	cr_assert_eq(fs_truncate(model->file, size), 0);
	if (size < model->size)
		memset(model->bytes + size, 0, model->size - size);
	model->size = size;
}

static void check(const struct model *model)
{
	unsigned char piece[16 * KIB];

	cr_assert_eq(fs_size(model->file), model->size);
	for (uint64_t pos = 0; pos < model->size; pos += sizeof(piece)) {
		uint64_t left = model->size - pos;
		size_t len = left < sizeof(piece) ? left : sizeof(piece);

		cr_assert_eq(fs_read(model->file, piece, len, pos), (ssize_t)len);
		cr_assert_eq(memcmp(piece, model->bytes + pos, len), 0,
			     "file %u is wrong behind %llu", model->id, (unsigned long long)pos);
	}
}

static void write_file(void *arg)
{
	struct model *model = arg;
	struct env_rng rng;

	env_rng_seed(&rng, model->id + 1);
	for (unsigned int i = 0; i < NR_OPS; i++) {
		switch (env_rng_below(&rng, 12)) {
		case 0:
			cr_assert_eq(fs_fsync(model->file, false), 0);
			break;
		case 1:
			truncate_some(model, &rng);
			break;
		case 2:
			check(model);
			break;
		default:
			write_some(model, &rng);
		}
		env_cpu(50 * USEC);
	}
	check(model);
}

/* ---- the others ---- */

static void read_files(void *arg)
{
	static unsigned char data[100 * KIB];
	struct env_rng rng;

	(void)arg;
	env_rng_seed(&rng, 3);
	for (unsigned int i = 0; i < NR_OPS; i++) {
		struct file *file = machine.models[i % 2].file;

		cr_assert_geq(fs_read(file, data, sizeof(data), env_rng_below(&rng, FILE_SIZE)), 0);
		env_cpu(20 * USEC);
	}
}

static void sync_and_evict(void *arg)
{
	(void)arg;
	for (unsigned int i = 0; i < 6; i++) {
		struct file *file = machine.models[i % 2].file;

		env_sleep_ns(300 * USEC);
		if (i % 3 == 0)
			cr_assert_eq(fs_sync(machine.fs), 0);
		cr_assert_eq(fs_advise(file, 0, FILE_SIZE, FS_ADVICE_DONTNEED), 0);
		page_cache_drop(machine.cache);
	}
}

static void program(void *arg)
{
	static const char *const paths[] = {"/a", "/b"};
	struct env_thread *threads[4];

	(void)arg;
	mount_all();
	for (unsigned int i = 0; i < 2; i++) {
		memset(&machine.models[i], 0, sizeof(machine.models[i]));
		machine.models[i].id = i;
		cr_assert_eq(fs_open(machine.fs, paths[i], FS_OPEN_CREATE, &machine.models[i].file),
			     0);
	}
	for (unsigned int i = 0; i < 2; i++)
		cr_assert_eq(
			env_thread_create(&threads[i], "writer", write_file, &machine.models[i]),
			0);
	cr_assert_eq(env_thread_create(&threads[2], "reader", read_files, NULL), 0);
	cr_assert_eq(env_thread_create(&threads[3], "syncer", sync_and_evict, NULL), 0);
	for (unsigned int i = 0; i < 4; i++)
		env_thread_join(threads[i]);
	/* Periodic writeback has its turn. */
	env_sleep_ns(60000 * MSEC);
	for (unsigned int i = 0; i < 2; i++) {
		check(&machine.models[i]);
		cr_assert_eq(fs_close(machine.models[i].file), 0);
	}
	unmount_all();
}

static void run_type(const char *type, const struct env_sim_config *config)
{
	int err;

	machine.type = type;
	err = env_sim_run(config, program, NULL, &result);
	cr_assert_eq(err, 0, "%d: %s", err, result.text);
}

static void run_seeds(const char *type, unsigned int workers)
{
	struct env_sim_config config;
	const char *first = getenv("SIM_SEED");
	const char *nr = getenv("SIM_SEEDS");

	machine.workers = workers;
	env_sim_config_init(&config);
	config.schedule = ENV_SIM_ADVERSARIAL;
	config.seed = first ? strtoull(first, NULL, 0) : 1;
	for (uint64_t left = nr ? strtoull(nr, NULL, 0) : 50; left > 0; left--, config.seed++)
		run_type(type, &config);
}

Test(env_sim_stack, xfs_under_50_seeds, .timeout = 300)
{
	run_seeds("xfs", 0);
}

Test(env_sim_stack, ext4_under_50_seeds, .timeout = 300)
{
	run_seeds("ext4", 0);
}

Test(env_sim_stack, xfs_with_a_slow_device_under_50_seeds, .timeout = 300)
{
	run_seeds("xfs", 2);
}

Test(env_sim_stack, run_is_the_same_each_time, .timeout = 60)
{
	struct env_sim_config config;
	struct env_sim_result first;
	struct blkdev_count count;

	env_sim_config_init(&config);
	for (int schedule = 0; schedule < 2; schedule++) {
		config.schedule = schedule ? ENV_SIM_ADVERSARIAL : ENV_SIM_FAITHFUL;
		run_type("xfs", &config);
		first = result;
		count = machine.count;
		run_type("xfs", &config);
		cr_assert_eq(memcmp(&result, &first, sizeof(result)), 0);
		cr_assert_eq(memcmp(&machine.count, &count, sizeof(count)), 0);
	}
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_iomap_model.c - random operations against a flat array of bytes (M1)
 *
 * The cache is smaller than the file, maps are short and now and then out of date, and sources
 * stop in the middle of a copy.  After each fsync the device holds what the array does.
 */
#include "world.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX (3 * MiB)
#define NR_OPS	 250
#define NR_KEPT	 64

/* A device block that another file shares: it must never change. */
struct kept {
	uint64_t addr;
	unsigned char bytes[512];
};

struct model {
	struct world world;
	struct world_file *file;
	struct env_rng rng;
	unsigned char *bytes; /* what the file must read as */
	uint64_t size;
	unsigned char *buffer;
	struct kept kept[NR_KEPT];
	unsigned int nr_kept;
};

static struct model model;

static uint64_t below(uint64_t bound)
{
	return env_rng_below(&model.rng, bound);
}

/* Often small and at a boundary, sometimes anything. */
static uint64_t some_pos(void)
{
	uint64_t pos = below(model.size + 100000 < FILE_MAX ? model.size + 100000 : FILE_MAX);

	switch (below(4)) {
	case 0:
		return pos & ~4095ull;
	case 1:
		return pos & ~(uint64_t)(model.world.config.block_size - 1);
	case 2:
		return model.size < FILE_MAX ? model.size : 0;
	default:
		return pos;
	}
}

static uint64_t some_len(uint64_t pos)
{
	static const uint64_t limits[] = {10, 600, 5000, 20000, 300000};
	uint64_t len = 1 + below(limits[below(5)]);

	if (below(3) == 0)
		len = (len + 4095) & ~4095ull;
	return pos + len <= FILE_MAX ? len : FILE_MAX - pos;
}

static void op_write(void)
{
	uint64_t pos = some_pos(), len = some_len(pos);
	unsigned char tag = (unsigned char)(1 + below(255));
	unsigned int flags = 0;
	struct world_source source;
	ssize_t written;

	if (!len)
		return;
	/* A device's own thread may drop a folio any time after its writeback. */
	if (!model.world.config.workers && below(10) == 0)
		flags = IOCB_DONTCACHE;
	for (uint64_t i = 0; i < len; i++)
		model.buffer[i] = (unsigned char)(tag + i * 3);
	world_source_init(&source, model.buffer, len);
	for (unsigned int i = 0; i < 3; i++)
		if (below(3) == 0)
			source.short_at[i] = below(len);
	if (below(8) == 0)
		source.bad_at = below(len);
	written = world_write_from(model.file, pos, &source.iter, flags);
	if (source.bad_at < len)
		cr_assert_eq(written, source.bad_at ? (ssize_t)source.bad_at : -EFAULT);
	else
		cr_assert_eq(written, (ssize_t)len);
	if (written <= 0)
		return;
	memcpy(model.bytes + pos, model.buffer, (size_t)written);
	if (pos + (uint64_t)written > model.size)
		model.size = pos + (uint64_t)written;
}

static void check_read(uint64_t pos, uint64_t len)
{
	ssize_t got = world_read(model.file, pos, model.buffer, len);
	uint64_t expected = pos >= model.size ? 0 : model.size - pos;

	expected = expected < len ? expected : len;
	cr_assert_eq(got, (ssize_t)expected);
	for (uint64_t i = 0; i < expected; i++)
		cr_assert_eq(model.buffer[i], model.bytes[pos + i], "byte %llu of %llu",
			     (unsigned long long)(pos + i), (unsigned long long)model.size);
}

static void op_read(void)
{
	uint64_t pos = some_pos();

	check_read(pos, some_len(pos));
}

static void op_zero(void)
{
	uint64_t pos = some_pos(), len = some_len(pos);

	if (pos >= model.size)
		return;
	len = len < model.size - pos ? len : model.size - pos;
	cr_assert_eq(world_zero(model.file, pos, len, NULL), 0);
	memset(model.bytes + pos, 0, len);
}

static void op_truncate(void)
{
	uint64_t size = some_pos();

	cr_assert_eq(world_truncate(model.file, size), 0);
	if (size < model.size)
		memset(model.bytes + size, 0, model.size - size);
	model.size = size;
}

static void op_fsync(void)
{
	cr_assert_eq(world_fsync(model.file), 0);
	world_check(&model.world);
	cr_assert_eq(model.file->inode.i_mapping.nr_dirty, 0);
	cr_assert_eq(model.world.reserved, 0);
	world_disk_read(model.file, 0, model.buffer, model.size);
	for (uint64_t i = 0; i < model.size; i++)
		cr_assert_eq(model.buffer[i], model.bytes[i], "device byte %llu",
			     (unsigned long long)i);
}

static void op_evict(void)
{
	if (below(2))
		world_drop(&model.world);
	else
		filemap_dontneed(&model.file->inode.i_mapping, some_pos(), 100000);
}

/* Holes in the file get unwritten space. */
static void op_preallocate(void)
{
	uint64_t unit = model.world.config.block_size;
	uint64_t block = below(model.size / unit + 1);
	uint64_t size = model.size;

	for (unsigned int i = 0; i < 8 && (block + i + 1) * unit <= size; i++) {
		bool hole;

		env_mutex_lock(&model.file->lock);
		hole = model.file->blocks[block + i].type == IOMAP_HOLE;
		env_mutex_unlock(&model.file->lock);
		if (hole)
			world_set(model.file, (block + i) * unit, unit, IOMAP_UNWRITTEN);
	}
}

/* Another file gets a reference to some written blocks. */
static void op_share(void)
{
	uint64_t unit = model.world.config.block_size;
	uint64_t block = below(model.size / unit + 1);

	op_fsync();
	env_mutex_lock(&model.file->lock);
	for (unsigned int i = 0; i < 4 && (block + i + 1) * unit <= model.size; i++) {
		struct world_block *entry = &model.file->blocks[block + i];
		struct kept *kept = &model.kept[model.nr_kept];

		if (entry->type != IOMAP_MAPPED || entry->shared || model.nr_kept == NR_KEPT)
			continue;
		entry->shared = true;
		kept->addr = entry->addr;
		world_device_read(&model.world, kept->addr, kept->bytes, 512);
		model.nr_kept++;
		model.file->seq++;
	}
	env_mutex_unlock(&model.file->lock);
}

static void check_shared(void)
{
	unsigned char now[512];

	for (unsigned int i = 0; i < model.nr_kept; i++) {
		world_device_read(&model.world, model.kept[i].addr, now, 512);
		cr_assert_eq(memcmp(now, model.kept[i].bytes, 512), 0);
	}
}

static void one_op(void)
{
	switch (below(16)) {
	case 0:
	case 1:
	case 2:
	case 3:
	case 4:
	case 5:
		op_write();
		break;
	case 6:
	case 7:
	case 8:
	case 9:
		op_read();
		break;
	case 10:
		op_zero();
		break;
	case 11:
		op_truncate();
		break;
	case 12:
		op_fsync();
		break;
	case 13:
		op_evict();
		break;
	case 14:
		op_preallocate();
		break;
	case 15:
		op_share();
		break;
	}
}

static void run_once(struct world_config config, uint64_t seed)
{
	memset(&model, 0, sizeof(model));
	config.file_max = FILE_MAX + 2 * MiB;
	config.space = 64 * MiB;
	if (!config.capacity)
		config.capacity = 2 * MiB;
	world_open(&model.world, &config);
	model.file = model.world.file;
	model.file->stale_every = 7;
	model.bytes = calloc(1, FILE_MAX + 1);
	model.buffer = malloc(FILE_MAX + 1);
	env_rng_seed(&model.rng, seed);
	for (unsigned int i = 0; i < NR_OPS; i++)
		one_op();
	op_fsync();
	check_read(0, FILE_MAX);
	world_drop(&model.world);
	world_drop(&model.world);
	check_read(0, FILE_MAX);
	check_shared();
	cr_assert_eq(world_truncate(model.file, 0), 0);
	cr_assert_eq(model.world.space_left, config.space); /* M40 */
	cr_assert_eq(model.file->inode.i_mapping.nr_pages, 0);
	world_close(&model.world);
	free(model.bytes);
	free(model.buffer);
}

static void run(struct world_config config, uint64_t first_seed)
{
	for (uint64_t seed = first_seed; seed < first_seed + 3; seed++)
		run_once(config, seed);
}

Test(iomap_model, small_blocks_and_small_folios)
{
	run((struct world_config){.block_size = 512, .max_folio = 16384, .max_map = 4096}, 1);
}

Test(iomap_model, small_blocks_and_large_folios)
{
	run((struct world_config){.block_size = 1024, .max_folio = 262144}, 11);
}

Test(iomap_model, small_blocks_without_delalloc)
{
	run((struct world_config){.block_size = 1024, .max_folio = 65536, .alloc = WORLD_UNWRITTEN},
	    21);
}

Test(iomap_model, blocks_of_a_page)
{
	run((struct world_config){.block_size = 4096, .max_folio = 65536, .max_map = 12288}, 31);
}

Test(iomap_model, blocks_of_a_page_marked_new)
{
	run((struct world_config){.block_size = 4096, .max_folio = 32768, .alloc = WORLD_NEW}, 41);
}

Test(iomap_model, single_page_folios)
{
	run((struct world_config){.block_size = 512, .max_folio = 4096, .max_map = 1536}, 51);
}

Test(iomap_model, large_blocks)
{
	run((struct world_config){.block_size = 16384, .max_folio = 65536, .max_map = 32768}, 61);
}

Test(iomap_model, very_large_blocks)
{
	run((struct world_config){.block_size = 65536, .max_folio = 131072}, 71);
}

Test(iomap_model, large_pages_and_small_blocks)
{
	run((struct world_config){.page_size = 65536,
				  .block_size = 1024,
				  .max_folio = 131072,
				  .max_map = 8192},
	    81);
}

Test(iomap_model, large_pages_and_large_blocks)
{
	run((struct world_config){.page_size = 65536, .block_size = 65536, .capacity = 4 * MiB},
	    91);
}

Test(iomap_model, device_with_workers)
{
	run((struct world_config){.block_size = 1024, .max_folio = 65536, .workers = 2}, 101);
}

Test(iomap_model, stable_pages_and_real_limits)
{
	run((struct world_config){.block_size = 2048,
				  .max_folio = 32768,
				  .workers = 1,
				  .stable = true,
				  .real_limits = true,
				  .contexts = 2},
	    111);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * bed.c - one file on a real back end beside a flat model of its bytes, in every shape
 */
#include "tests/bed.h"

#include <stdlib.h>

#define CAPACITY (16 * MiB)

const struct bed_shape bed_shapes[] = {
	{1 * KiB, 4 * KiB, 4 * KiB},
	{1 * KiB, 4 * KiB, 64 * KiB},
	{4 * KiB, 4 * KiB, 4 * KiB},
	{4 * KiB, 4 * KiB, 64 * KiB},
	{4 * KiB, 64 * KiB, 2 * MiB},
	{64 * KiB, 4 * KiB, 2 * MiB},
	{0, 0, 0},
};

/* ---- building and checking ----------------------------------------------------------- */

static void build(struct bed *bed)
{
	struct fs_config fs = {.type = bed->type, .block_size = bed->shape.block};
	struct page_cache_config config;
	struct block_device *ram;
	struct fs_space space;
	char error[256] = "";

	page_cache_config_init(&config);
	config.capacity = CAPACITY;
	config.page_size = bed->shape.page;
	config.max_folio = bed->shape.folio;
	config.dirty_ratio = 90;
	config.dirty_background_ratio = 80;
	config.writeback_interval_ns = 0;
	bed_assert(bed, page_cache_create(&bed->cache, &config) == 0);
	bed_assert(bed, blkdev_ram_create(&ram, BED_DEVICE, 0) == 0);
	blkdev_ram_poison(ram, BED_POISON);
	bed_assert(bed, blkdev_fault_create(&bed->fault, ram) == 0);
	bed_assert(bed, blkdev_count_create(&bed->dev, bed->fault) == 0);
	bed_assert(bed, bdi_create(&bed->bdi, bed->cache, bed->dev, 1, WB_MAP_AUTO) == 0);
	cr_assert_eq(fs_mount(&bed->fs, bed->cache, bed->bdi, bed->dev, &fs, error, sizeof(error)),
		     0, "%s", error);
	bed_assert(bed, fs_open(bed->fs, "/file", FS_OPEN_CREATE, &bed->file) == 0);
	fs_get_space(bed->fs, &space);
	bed->free_before = space.free;
	bed->model = calloc(1, BED_FILE_MAX);
	bed->size = 0;
}

/* Nothing is left of the file once it has gone. */
static void check_gone(struct bed *bed)
{
	struct page_cache_stats stats;
	struct fs_space space;

	bed_assert(bed, fs_close(bed->file) == 0);
	bed_assert(bed, fs_unlink(bed->fs, "/file") == 0);
	bed_assert(bed, fs_sync(bed->fs) == 0);
	fs_get_space(bed->fs, &space);
	bed_assert(bed, space.reserved == 0);
	bed_assert(bed, space.free >= bed->free_before); /* and the inode's own */
	page_cache_get_stats(bed->cache, &stats);
	bed_assert(bed, stats.nr_dirty == 0);
	bed_assert(bed, stats.nr_writeback == 0);
	bed_assert(bed, stats.nr_cached == 0);
}

static void destroy(struct bed *bed)
{
	bed_assert(bed, fs_unmount(bed->fs) == 0);
	bdi_destroy(bed->bdi);
	blkdev_destroy(bed->dev);
	page_cache_destroy(bed->cache);
	free(bed->model);
}

static void run_one(struct bed *bed, void (*body)(struct bed *bed))
{
	build(bed);
	body(bed);
	bed_check(bed);
	bed_remount(bed);
	bed_check(bed);
	check_gone(bed);
	destroy(bed);
}

void bed_run(const char *type, const struct bed_shape *shapes, void (*body)(struct bed *bed))
{
	const char *name;

	for (unsigned int i = 0; (name = fs_backend_name(i)) != NULL; i++) {
		if (type && strcmp(type, name) != 0)
			continue;
		for (const struct bed_shape *shape = shapes ? shapes : bed_shapes; shape->block;
		     shape++) {
			struct bed bed = {.type = name, .shape = *shape};

			run_one(&bed, body);
		}
	}
}

/* ---- operations ---------------------------------------------------------------------- */

static void model_resize(struct bed *bed, uint64_t size)
{
	bed_assert(bed, size <= BED_FILE_MAX);
	if (size < bed->size)
		memset(bed->model + size, 0, bed->size - size);
	bed->size = size;
}

static void model_zero(struct bed *bed, uint64_t pos, uint64_t len)
{
	uint64_t end = pos + len < bed->size ? pos + len : bed->size;

	if (pos < end)
		memset(bed->model + pos, 0, end - pos);
}

static void model_collapse(struct bed *bed, uint64_t pos, uint64_t len)
{
	memmove(bed->model + pos, bed->model + pos + len, bed->size - pos - len);
	model_resize(bed, bed->size - len);
}

static void model_insert(struct bed *bed, uint64_t pos, uint64_t len)
{
	uint64_t behind = bed->size - pos;

	model_resize(bed, bed->size + len);
	memmove(bed->model + pos + len, bed->model + pos, behind);
	memset(bed->model + pos, 0, len);
}

static void model_fallocate(struct bed *bed, unsigned int mode, uint64_t pos, uint64_t len)
{
	if (mode & FS_FALLOC_COLLAPSE_RANGE) {
		model_collapse(bed, pos, len);
	} else if (mode & FS_FALLOC_INSERT_RANGE) {
		model_insert(bed, pos, len);
	} else {
		if (mode & (FS_FALLOC_PUNCH_HOLE | FS_FALLOC_ZERO_RANGE))
			model_zero(bed, pos, len);
		if (!(mode & FS_FALLOC_KEEP_SIZE) && pos + len > bed->size)
			model_resize(bed, pos + len);
	}
}

void bed_write(struct bed *bed, uint64_t pos, uint64_t len, unsigned char byte)
{
	unsigned char *memory = malloc(len);

	memset(memory, byte, len);
	bed_assert(bed, fs_write(bed->file, memory, len, pos) == (ssize_t)len);
	free(memory);
	if (pos + len > bed->size)
		model_resize(bed, pos + len);
	memset(bed->model + pos, byte, len);
}

void bed_truncate(struct bed *bed, uint64_t size)
{
	bed_assert(bed, fs_truncate(bed->file, size) == 0);
	model_resize(bed, size);
}

void bed_fallocate(struct bed *bed, unsigned int mode, uint64_t pos, uint64_t len)
{
	bed_assert(bed, fs_fallocate(bed->file, mode, pos, len) == 0);
	model_fallocate(bed, mode, pos, len);
}

void bed_punch(struct bed *bed, uint64_t pos, uint64_t len)
{
	bed_fallocate(bed, FS_FALLOC_PUNCH_HOLE | FS_FALLOC_KEEP_SIZE, pos, len);
}

void bed_zero(struct bed *bed, uint64_t pos, uint64_t len)
{
	bed_fallocate(bed, FS_FALLOC_ZERO_RANGE, pos, len);
}

void bed_fsync(struct bed *bed)
{
	bed_assert(bed, fs_fsync(bed->file, false) == 0);
}

void bed_writeback(struct bed *bed)
{
	bed_assert(bed, fs_sync_range(bed->file, 0, BED_FILE_MAX, true) == 0);
}

uint64_t bed_drop(struct bed *bed)
{
	return page_cache_drop(bed->cache);
}

void bed_remount(struct bed *bed)
{
	struct page_cache_stats stats;

	bed_assert(bed, fs_close(bed->file) == 0);
	bed_assert(bed, fs_sync(bed->fs) == 0);
	bed_drop(bed);
	page_cache_get_stats(bed->cache, &stats);
	bed_assert(bed, stats.nr_cached == 0);
	bed_assert(bed, fs_open(bed->fs, "/file", 0, &bed->file) == 0);
	bed_assert(bed, bed_reserved(bed) == 0);
}

/* ---- what is there ------------------------------------------------------------------- */

void bed_check(struct bed *bed)
{
	unsigned char *memory = malloc(bed->size + 1);

	bed_assert(bed, fs_size(bed->file) == bed->size);
	bed_assert(bed, fs_read(bed->file, memory, bed->size + 1, 0) == (ssize_t)bed->size);
	for (uint64_t pos = 0; pos < bed->size; pos++)
		cr_assert_eq(memory[pos], bed->model[pos],
			     "%s, blocks %u, pages %u, folios %u: byte %llu is %02x, not %02x",
			     bed->type, bed->shape.block, bed->shape.page, bed->shape.folio,
			     (unsigned long long)pos, memory[pos], bed->model[pos]);
	free(memory);
}

static bool all_are(const unsigned char *memory, uint64_t len, unsigned char byte)
{
	for (uint64_t i = 0; i < len; i++)
		if (memory[i] != byte)
			return false;
	return true;
}

bool bed_reads(struct bed *bed, uint64_t pos, uint64_t len, unsigned char byte)
{
	unsigned char *memory = malloc(len);
	bool same;

	same = fs_read(bed->file, memory, len, pos) == (ssize_t)len && all_are(memory, len, byte);
	free(memory);
	return same;
}

/* Past the cache and the counts: whole sectors. */
static void device_io(struct bed *bed, enum bio_op op, uint64_t addr, void *sectors, uint64_t len)
{
	struct bio bio;

	bio_init(&bio, bed->fault->below, op, BIO_DATA, addr);
	bed_assert(bed, bio_add(&bio, sectors, len) == 0);
	bed_assert(bed, bio_submit_wait(&bio) == 0);
	bio_uninit(&bio);
}

/* Past the cache and the counts.  addr and len need not be whole sectors. */
static void device_read(struct bed *bed, uint64_t addr, void *memory, uint64_t len)
{
	uint64_t start = addr / 512 * 512;
	uint64_t end = (addr + len + 511) / 512 * 512;
	unsigned char *sectors = malloc(end - start);

	device_io(bed, BIO_READ, start, sectors, end - start);
	memcpy(memory, sectors + (addr - start), len);
	free(sectors);
}

static void device_write(struct bed *bed, uint64_t addr, unsigned char byte, uint64_t len)
{
	uint64_t start = addr / 512 * 512;
	uint64_t end = (addr + len + 511) / 512 * 512;
	unsigned char *sectors = malloc(end - start);

	device_io(bed, BIO_READ, start, sectors, end - start);
	memset(sectors + (addr - start), byte, len);
	device_io(bed, BIO_WRITE, start, sectors, end - start);
	free(sectors);
}

bool bed_device_has(struct bed *bed, uint64_t pos, uint64_t len, unsigned char byte)
{
	while (len) {
		unsigned char memory[4096];
		struct fs_extent extent;
		uint64_t n = len < sizeof(memory) ? len : sizeof(memory);

		if (fs_next_extent(bed->file, pos, &extent) || extent.pos > pos || extent.delayed ||
		    extent.unwritten)
			return false;
		if (n > extent.pos + extent.len - pos)
			n = extent.pos + extent.len - pos;
		device_read(bed, extent.addr + (pos - extent.pos), memory, n);
		if (!all_are(memory, n, byte))
			return false;
		pos += n;
		len -= n;
	}
	return true;
}

static bool has_byte(const unsigned char *memory, uint64_t len, unsigned char byte)
{
	return memchr(memory, byte, len) != NULL;
}

static bool extent_has(struct bed *bed, const struct fs_extent *extent, uint64_t end,
		       unsigned char byte)
{
	unsigned char memory[4096];

	for (uint64_t pos = extent->pos; pos < end; pos += sizeof(memory)) {
		uint64_t n = end - pos < sizeof(memory) ? end - pos : sizeof(memory);

		device_read(bed, extent->addr + (pos - extent->pos), memory, n);
		if (has_byte(memory, n, byte))
			return true;
	}
	return false;
}

bool bed_device_has_no_stale(struct bed *bed)
{
	struct fs_extent extent;

	for (uint64_t pos = 0; !fs_next_extent(bed->file, pos, &extent) && extent.pos < bed->size;
	     pos = extent.pos + extent.len) {
		uint64_t end = extent.pos + extent.len;

		if (!extent.delayed && !extent.unwritten &&
		    extent_has(bed, &extent, end < bed->size ? end : bed->size, BED_POISON))
			return false;
	}
	return true;
}

void bed_spoil(struct bed *bed, uint64_t pos, uint64_t len, unsigned char byte)
{
	while (len) {
		struct fs_extent extent;
		uint64_t n = len;

		bed_assert(bed, fs_next_extent(bed->file, pos, &extent) == 0);
		bed_assert(bed, extent.pos <= pos && !extent.delayed);
		if (n > extent.pos + extent.len - pos)
			n = extent.pos + extent.len - pos;
		device_write(bed, extent.addr + (pos - extent.pos), byte, n);
		pos += n;
		len -= n;
	}
}

uint64_t bed_reserved(struct bed *bed)
{
	struct fs_space space;

	fs_get_space(bed->fs, &space);
	return space.reserved;
}

uint64_t bed_allocated(struct bed *bed)
{
	struct fs_extent extent;
	uint64_t bytes = 0;

	for (uint64_t pos = 0; !fs_next_extent(bed->file, pos, &extent);
	     pos = extent.pos + extent.len)
		bytes += extent.len;
	return bytes;
}

bool bed_has_unwritten(struct bed *bed, uint64_t pos, uint64_t len)
{
	struct fs_extent extent;

	for (uint64_t at = pos; !fs_next_extent(bed->file, at, &extent) && extent.pos < pos + len;
	     at = extent.pos + extent.len)
		if (extent.unwritten)
			return true;
	return false;
}

struct bed_io bed_io(struct bed *bed)
{
	struct blkdev_count count;
	struct bed_io io;

	blkdev_count_read(bed->dev, &count);
	io.reads = count.ios[BIO_READ][BIO_DATA];
	io.writes = count.ios[BIO_WRITE][BIO_DATA];
	io.write_bytes = count.bytes[BIO_WRITE][BIO_DATA];
	blkdev_count_reset(bed->dev);
	return io;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * world.c - a small file system for tests: a table of blocks, a log, and knobs
 *
 * Device space is handed out in order and never twice, so a write to a place that was given
 * back cannot hide.  Address 0 is never handed out.
 */
#include "world.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define POISON 0xAA

static struct world_file *file_of(const struct inode *inode)
{
	return container_of(inode, struct world_file, inode);
}

static uint64_t block_size(const struct world_file *file)
{
	return file->world->config.block_size;
}

static uint64_t round_down(uint64_t value, uint64_t unit)
{
	return value & ~(unit - 1);
}

static uint64_t round_up(uint64_t value, uint64_t unit)
{
	return round_down(value + unit - 1, unit);
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* ---- device space ------------------------------------------------------------------- */

/* Room for up to `len` bytes: takes as much as there is, returns how much. */
static uint64_t space_take(struct world *world, uint64_t len)
{
	uint64_t left = __atomic_load_n(&world->space_left, __ATOMIC_RELAXED);
	uint64_t unit = world->config.block_size;
	uint64_t take;

	do {
		take = min_u64(len, round_down(left, unit));
	} while (!__atomic_compare_exchange_n(&world->space_left, &left, left - take, false,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return take;
}

static void space_give(struct world *world, uint64_t len)
{
	__atomic_fetch_add(&world->space_left, len, __ATOMIC_RELAXED);
}

static uint64_t addr_take(struct world *world, uint64_t len)
{
	uint64_t addr = __atomic_fetch_add(&world->next_addr, len, __ATOMIC_RELAXED);

	cr_assert_leq(addr + len, world->ram->size);
	return addr;
}

/* ---- the block table: all with file->lock held -------------------------------------- */

static void block_clear(struct world_file *file, struct world_block *block)
{
	struct world *world = file->world;

	if (block->type == IOMAP_HOLE)
		return;
	if (block->type == IOMAP_DELALLOC)
		__atomic_fetch_sub(&world->reserved, block_size(file), __ATOMIC_RELAXED);
	space_give(world, block_size(file));
	if (block->cow)
		space_give(world, block_size(file));
	memset(block, 0, sizeof(*block));
}

static void blocks_clear(struct world_file *file, uint64_t first, uint64_t end)
{
	for (uint64_t i = first; i < end && i < file->nr_blocks; i++)
		block_clear(file, &file->blocks[i]);
	file->seq++;
}

/* Does block b go on where block a ends, in all that a map says? */
static bool blocks_join(const struct world_file *file, const struct world_block *a,
			const struct world_block *b)
{
	uint64_t unit = block_size(file);

	if (a->type != b->type || a->shared != b->shared || b->boundary || !a->cow != !b->cow)
		return false;
	if (a->type != IOMAP_MAPPED && a->type != IOMAP_UNWRITTEN)
		return true;
	return b->addr == a->addr + unit && (!a->cow || b->cow == a->cow + unit);
}

/* The run of blocks of one kind around `block`, at most `end`. */
static void run_around(const struct world_file *file, uint64_t block, uint64_t end, uint64_t *first,
		       uint64_t *last)
{
	*first = block;
	*last = block;
	while (*first > 0 && blocks_join(file, &file->blocks[*first - 1], &file->blocks[*first]))
		(*first)--;
	while (*last + 1 < end && blocks_join(file, &file->blocks[*last], &file->blocks[*last + 1]))
		(*last)++;
}

static void fill_map(struct world_file *file, struct iomap *map, uint64_t first, uint64_t last,
		     uint64_t wanted)
{
	const struct world_block *block;
	uint64_t max = file->world->config.max_map / block_size(file);

	/* A short map starts where it was asked for. */
	if (max) {
		first = wanted;
		last = min_u64(last, first + max - 1);
	}
	block = &file->blocks[first];
	map->offset = first * block_size(file);
	map->length = (last - first + 1) * block_size(file);
	map->type = block->type;
	map->addr = block->addr ? block->addr : IOMAP_NULL_ADDR;
	map->bdev = file->world->dev;
	map->validity_cookie = file->seq;
	if (block->shared)
		map->flags |= IOMAP_F_SHARED;
	if (block->boundary)
		map->flags |= IOMAP_F_BOUNDARY;
}

/* Space for the holes of [first, *end); *end moves down to what there was room for. */
static int fill_holes(struct world_file *file, uint64_t first, uint64_t *end)
{
	struct world *world = file->world;
	uint64_t unit = block_size(file);
	uint64_t got = space_take(world, (*end - first) * unit) / unit;
	uint64_t addr = 0;

	if (!got)
		return -ENOSPC;
	*end = first + got;
	if (world->config.alloc == WORLD_DELALLOC)
		__atomic_fetch_add(&world->reserved, got * unit, __ATOMIC_RELAXED);
	else
		addr = addr_take(world, got * unit);
	for (uint64_t i = 0; i < got; i++) {
		struct world_block *block = &file->blocks[first + i];

		block->type = world->config.alloc == WORLD_DELALLOC    ? IOMAP_DELALLOC
			      : world->config.alloc == WORLD_UNWRITTEN ? IOMAP_UNWRITTEN
								       : IOMAP_MAPPED;
		block->addr = addr ? addr + i * unit : 0;
	}
	file->seq++;
	return 0;
}

/* A place to write the shared blocks of [first, *end) to. */
static int fill_cow(struct world_file *file, uint64_t first, uint64_t *end)
{
	struct world *world = file->world;
	uint64_t unit = block_size(file);
	uint64_t got = space_take(world, (*end - first) * unit) / unit;
	uint64_t addr;

	if (!got)
		return -ENOSPC;
	*end = first + got;
	addr = addr_take(world, got * unit);
	for (uint64_t i = 0; i < got; i++)
		file->blocks[first + i].cow = addr + i * unit;
	file->seq++;
	return 0;
}

/* ---- begin and end ------------------------------------------------------------------ */

static int map_lookup(struct world_file *file, uint64_t pos, uint64_t len, unsigned int flags,
		      struct iomap *map, struct iomap *src)
{
	uint64_t unit = block_size(file);
	uint64_t block = pos / unit;
	uint64_t end = (pos + len + unit - 1) / unit;
	uint64_t first, last;
	int err;

	if (file->inline_data && pos < file->inline_max) {
		map->type = IOMAP_INLINE;
		map->addr = IOMAP_NULL_ADDR;
		map->length = file->inline_max;
		map->inline_data = file->inline_data;
		map->validity_cookie = file->seq;
		return 0;
	}
	if (block >= file->nr_blocks) {
		if (flags & (IOMAP_WRITE | IOMAP_FAULT))
			return -EFBIG;
		map->type = IOMAP_HOLE;
		map->addr = IOMAP_NULL_ADDR;
		map->offset = block * unit;
		map->length = end * unit - map->offset;
		return 0;
	}
	end = min_u64(end, file->nr_blocks);
	run_around(file, block, file->nr_blocks, &first, &last);
	if (file->blocks[block].type == IOMAP_HOLE && flags & IOMAP_WRITE &&
	    !(flags & IOMAP_UNSHARE)) {
		uint64_t max = file->world->config.max_map / unit;

		end = min_u64(end, last + 1);
		if (max)
			end = min_u64(end, block + max);
		err = fill_holes(file, block, &end);
		if (err)
			return err;
		fill_map(file, map, block, end - 1, block);
		map->flags |= IOMAP_F_NEW;
		return 0;
	}
	if (file->blocks[block].shared && flags & (IOMAP_WRITE | IOMAP_ZERO)) {
		if (!file->blocks[block].cow) {
			end = min_u64(end, last + 1);
			err = fill_cow(file, block, &end);
			if (err)
				return err;
			run_around(file, block, end, &first, &last);
		}
		fill_map(file, src, first, last, block);
		fill_map(file, map, first, last, block);
		src->flags = 0;
		map->type = IOMAP_UNWRITTEN;
		map->addr = file->blocks[map->offset / unit].cow;
		return 0;
	}
	fill_map(file, map, first, last, block);
	if (!(flags & IOMAP_REPORT))
		map->flags &= (uint16_t)~IOMAP_F_SHARED;
	return 0;
}

static void log_call(struct world_file *file, struct world_call call)
{
	if (file->nr_calls < WORLD_LOG)
		file->calls[file->nr_calls] = call;
	file->nr_calls++;
	*(call.is_end ? &file->nr_ends : &file->nr_begins) += 1;
}

static int world_begin(struct inode *inode, uint64_t pos, uint64_t len, unsigned int flags,
		       struct iomap *map, struct iomap *srcmap)
{
	struct world_file *file = file_of(inode);
	int err = 0;

	env_mutex_lock(&file->lock);
	if (file->begin_error && !file->begin_error_after)
		err = file->begin_error;
	else if (file->begin_error)
		file->begin_error_after--;
	if (!err)
		err = map_lookup(file, pos, len, flags, map, srcmap);
	if (!err && file->on_begin)
		err = file->on_begin(file, pos, len, flags, map, srcmap);
	log_call(file, (struct world_call){.result = err,
					   .pos = pos,
					   .len = len,
					   .flags = flags,
					   .type = map->type,
					   .map_flags = map->flags});
	env_mutex_unlock(&file->lock);
	return err;
}

void world_punch(struct inode *inode, uint64_t pos, uint64_t len, void *arg)
{
	struct world_file *file = file_of(inode);
	uint64_t unit = block_size(file);

	(void)arg;
	env_mutex_lock(&file->lock);
	file->nr_punches++;
	for (uint64_t at = pos; at < pos + len && at < inode_size_read(inode); at += unit)
		file->punched_dirty |= world_is_dirty(file, at);
	for (uint64_t i = pos / unit; i < (pos + len) / unit && i < file->nr_blocks; i++)
		if (file->blocks[i].type == IOMAP_DELALLOC)
			block_clear(file, &file->blocks[i]);
	file->seq++;
	env_mutex_unlock(&file->lock);
}

/* The rules D32 and D33. */
static void release_reservations(struct world_file *file, uint64_t start, uint64_t end,
				 unsigned int flags)
{
	struct address_space *mapping = &file->inode.i_mapping;

	if (start >= end)
		return;
	if (!(flags & (IOMAP_ZERO | IOMAP_UNSHARE)))
		env_rwsem_write_lock(&mapping->invalidate_lock);
	iomap_write_delalloc_release(&file->inode, start, end, world_punch, NULL);
	if (!(flags & (IOMAP_ZERO | IOMAP_UNSHARE)))
		env_rwsem_write_unlock(&mapping->invalidate_lock);
}

static int world_end(struct inode *inode, uint64_t pos, uint64_t len, uint64_t written,
		     unsigned int flags, struct iomap *map)
{
	struct world_file *file = file_of(inode);
	uint64_t unit = block_size(file);
	uint64_t start = written ? round_up(pos + written, unit) : round_down(pos, unit);
	uint64_t end = round_up(pos + len, unit);
	int err;

	env_mutex_lock(&file->lock);
	err = file->end_error;
	log_call(file, (struct world_call){.is_end = true,
					   .result = err,
					   .pos = pos,
					   .len = len,
					   .written = written,
					   .flags = flags,
					   .type = map->type,
					   .map_flags = map->flags});
	env_mutex_unlock(&file->lock);
	if (!(map->flags & IOMAP_F_NEW) || flags & IOMAP_FAULT)
		return err;
	if (map->type == IOMAP_DELALLOC) {
		release_reservations(file, start, end, flags);
	} else {
		env_mutex_lock(&file->lock);
		if (start < end)
			blocks_clear(file, start / unit, end / unit);
		env_mutex_unlock(&file->lock);
	}
	return err;
}

const struct iomap_ops world_ops = {.iomap_begin = world_begin, .iomap_end = world_end};

static bool world_valid(struct inode *inode, const struct iomap *map)
{
	struct world_file *file = file_of(inode);
	static unsigned int calls;
	bool valid;

	if (file->on_valid)
		file->on_valid(file);
	env_mutex_lock(&file->lock);
	valid = map->validity_cookie == file->seq;
	if (file->stale_left) {
		file->stale_left--;
		valid = false;
	} else if (file->stale_every &&
		   __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) % file->stale_every == 0) {
		valid = false;
	}
	env_mutex_unlock(&file->lock);
	return valid;
}

const struct iomap_write_ops world_write_ops = {.iomap_valid = world_valid};

/* ---- writeback ---------------------------------------------------------------------- */

/* The whole delayed extent around the block becomes unwritten space (F13). */
static void convert_delalloc(struct world_file *file, uint64_t block)
{
	uint64_t unit = block_size(file);
	uint64_t first, last, addr;

	run_around(file, block, file->nr_blocks, &first, &last);
	addr = addr_take(file->world, (last - first + 1) * unit);
	for (uint64_t i = first; i <= last; i++, addr += unit) {
		file->blocks[i].type = IOMAP_UNWRITTEN;
		file->blocks[i].addr = addr;
	}
	__atomic_fetch_sub(&file->world->reserved, (last - first + 1) * unit, __ATOMIC_RELAXED);
	file->seq++;
}

static void writeback_lookup(struct world_file *file, uint64_t pos, struct iomap *map)
{
	uint64_t unit = block_size(file);
	uint64_t block = pos / unit;
	uint64_t first, last;

	file->nr_lookups++;
	if (file->blocks[block].type == IOMAP_DELALLOC)
		convert_delalloc(file, block);
	run_around(file, block, file->nr_blocks, &first, &last);
	memset(map, 0, sizeof(*map));
	fill_map(file, map, first, last, block);
	if (file->blocks[block].cow)
		map->addr = file->blocks[map->offset / unit].cow;
}

static ssize_t world_writeback_range(struct iomap_writepage_ctx *wpc, struct folio *folio,
				     uint64_t pos, uint64_t len, uint64_t end_pos)
{
	struct world_file *file = file_of(wpc->inode);
	struct iomap *map = &wpc->iomap;
	bool bent;
	ssize_t done = 0;

	if (file->on_range)
		file->on_range(file, folio, pos, len);
	env_mutex_lock(&file->lock);
	bent = pos < file->wb_pos + file->wb_len && pos + len > file->wb_pos;
	if (bent && pos < file->wb_pos) {
		len = file->wb_pos - pos;
		bent = false;
	}
	if (bent && file->wb_error) {
		done = file->wb_error;
	} else if (bent && file->wb_type >= 0) {
		memset(map, 0, sizeof(*map));
		map->offset = pos;
		map->length = min_u64(len, file->wb_pos + file->wb_len - pos);
		map->type = (uint16_t)file->wb_type;
		map->addr = IOMAP_NULL_ADDR;
		map->validity_cookie = UINT64_MAX; /* not for another range */
	} else if (!map->length || pos < map->offset || pos >= map->offset + map->length ||
		   map->validity_cookie != file->seq) {
		writeback_lookup(file, pos, map);
	}
	env_mutex_unlock(&file->lock);
	if (!done)
		done = iomap_add_to_ioend(wpc, folio, pos, end_pos, len);
	if (done < 0) /* no reservation stays under clean cache (F10) */
		world_punch(&file->inode, round_down(pos, block_size(file)),
			    folio_pos(folio) + folio_size(folio) -
				    round_down(pos, block_size(file)),
			    NULL);
	return done;
}

/* => file->lock is held */
static void finish_blocks(struct world_file *file, const struct iomap_ioend *ioend)
{
	uint64_t unit = block_size(file);
	uint64_t end = round_up(ioend->io_offset + ioend->io_size, unit) / unit;
	uint64_t done;

	if (ioend->io_flags & (IOMAP_IOEND_UNWRITTEN | IOMAP_IOEND_SHARED)) {
		for (uint64_t i = ioend->io_offset / unit; i < end; i++) {
			struct world_block *block = &file->blocks[i];

			if (ioend->io_flags & IOMAP_IOEND_SHARED && block->cow) {
				space_give(file->world, unit);
				block->addr = block->cow;
				block->cow = 0;
				block->shared = false;
			}
			if (block->type == IOMAP_UNWRITTEN)
				block->type = IOMAP_MAPPED;
		}
		file->seq++;
	}
	done = min_u64(inode_size_read(&file->inode), ioend->io_offset + ioend->io_size);
	if (done > file->disk_size)
		file->disk_size = done;
}

/* Metadata first, then the folios (F25). */
static void ioend_complete(struct wb_completion *work)
{
	struct iomap_ioend *ioend = container_of(work, struct iomap_ioend, io_work);
	struct world_file *file = file_of(ioend->io_inode);

	env_mutex_lock(&file->lock);
	if (!ioend->io_error)
		finish_blocks(file, ioend);
	env_mutex_unlock(&file->lock);
	iomap_finish_ioend(ioend);
}

static void ioend_done(struct iomap_ioend *ioend)
{
	struct world_file *file = file_of(ioend->io_inode);
	bool metadata;

	env_mutex_lock(&file->lock);
	metadata = ioend->io_flags & (IOMAP_IOEND_UNWRITTEN | IOMAP_IOEND_SHARED) ||
		   ioend->io_offset + ioend->io_size > file->disk_size;
	env_mutex_unlock(&file->lock);
	ioend->io_work.fn = ioend_complete;
	if (metadata)
		wb_queue_completion(ioend->io_inode, &ioend->io_work);
	else
		iomap_finish_ioend(ioend);
}

static int world_writeback_submit(struct iomap_writepage_ctx *wpc, struct iomap_ioend *ioend,
				  int error)
{
	struct world_file *file = file_of(wpc->inode);

	env_mutex_lock(&file->lock);
	if (file->nr_ioends < WORLD_LOG)
		file->ioends[file->nr_ioends] = (struct world_ioend){.offset = ioend->io_offset,
								     .size = ioend->io_size,
								     .addr = ioend->io_addr,
								     .bio_len = ioend->io_bio.len,
								     .flags = ioend->io_flags,
								     .folios = ioend->io_folios};
	file->nr_ioends++;
	env_mutex_unlock(&file->lock);
	return iomap_ioend_submit(ioend, error, ioend_done);
}

const struct iomap_writeback_ops world_writeback_ops = {
	.writeback_range = world_writeback_range,
	.writeback_submit = world_writeback_submit,
};

/* ---- address space operations ------------------------------------------------------- */

static int aop_read_folio(struct file *file, struct folio *folio)
{
	(void)file;
	return iomap_read_folio(folio, &world_ops);
}

static void aop_readahead(struct readahead_control *rac)
{
	iomap_readahead(rac, &world_ops);
}

static int aop_writepages(struct address_space *mapping, struct writeback_control *wbc)
{
	struct iomap_writepage_ctx wpc = {
		.inode = mapping->host,
		.wbc = wbc,
		.ops = &world_writeback_ops,
	};

	return iomap_writepages(&wpc);
}

const struct address_space_operations world_aops = {
	.read_folio = aop_read_folio,
	.readahead = aop_readahead,
	.writepages = aop_writepages,
	.init_folio = iomap_init_folio,
	.release_folio = iomap_release_folio,
	.invalidate_folio = iomap_invalidate_folio,
	.is_partially_uptodate = iomap_is_partially_uptodate,
};

static const struct super_operations super_ops = {0};

/* ---- life --------------------------------------------------------------------------- */

static void config_defaults(struct world_config *config)
{
	if (!config->block_size)
		config->block_size = 4096;
	if (!config->page_size)
		config->page_size = 4096;
	if (!config->capacity)
		config->capacity = 16 * MiB;
	if (!config->file_max)
		config->file_max = 8 * MiB;
	if (!config->space)
		config->space = 64 * MiB;
	if (!config->contexts)
		config->contexts = 1;
}

void world_open(struct world *world, const struct world_config *wanted)
{
	struct page_cache_config config;

	memset(world, 0, sizeof(*world));
	world->config = *wanted;
	config_defaults(&world->config);
	page_cache_config_init(&config);
	config.capacity = world->config.capacity;
	config.page_size = world->config.page_size;
	config.max_folio = world->config.max_folio;
	config.prefault = false;
	config.writeback_interval_ns = 0;
	if (!world->config.real_limits) {
		config.dirty_ratio = 90;
		config.dirty_background_ratio = 80;
	}
	if (world->config.readahead)
		config.readahead_bytes = world->config.readahead;
	cr_assert_eq(page_cache_create(&world->cache, &config), 0);
	/* Space is handed out once, so the device is larger than what may be in use. */
	cr_assert_eq(blkdev_ram_create(&world->ram, 8 * world->config.space, world->config.workers),
		     0);
	blkdev_ram_poison(world->ram, POISON);
	cr_assert_eq(blkdev_fault_create(&world->fault, world->ram), 0);
	cr_assert_eq(blkdev_count_create(&world->dev, world->fault), 0);
	world->dev->stable_writes = world->config.stable;
	cr_assert_eq(bdi_create(&world->bdi, world->cache, world->dev, world->config.contexts,
				WB_MAP_AUTO),
		     0);
	cr_assert_eq(super_init(&world->sb, world->cache, world->bdi, world->config.block_size,
				&super_ops),
		     0);
	world->next_addr = 1 * MiB;
	world->space_left = world->config.space;
	world->file = world_file_create(world);
}

struct world_file *world_file_create(struct world *world)
{
	struct world_file *file = calloc(1, sizeof(*file));

	cr_assert(file && world->nr_files < 16);
	file->world = world;
	file->wb_type = -1;
	file->nr_blocks = world->config.file_max / world->config.block_size;
	file->blocks = calloc(file->nr_blocks, sizeof(*file->blocks));
	cr_assert(file->blocks);
	env_mutex_init(&file->lock, "world file->lock");
	inode_init(&file->inode, &world->sb, world->nr_files + 1, &world_aops);
	file_init(&file->file, &file->inode, 0);
	world->files[world->nr_files++] = file;
	return file;
}

void world_close(struct world *world)
{
	uint64_t used = 0;

	world_heal(world);
	for (unsigned int i = 0; i < world->nr_files; i++) {
		struct world_file *file = world->files[i];

		file_release(&file->file);
		inode_evict(&file->inode);
		blocks_clear(file, 0, file->nr_blocks);
		cr_assert_not(file->punched_dirty);
		free(file->inline_data);
		free(file->blocks);
	}
	super_shutdown(&world->sb);
	bdi_destroy(world->bdi);
	/* Its threads may still be on their way out of a completion, which uses the cache. */
	blkdev_destroy(world->dev);
	page_cache_destroy(world->cache);
	used = world->config.space - world->space_left;
	cr_assert_eq(used, 0, "space is lost");
	cr_assert_eq(world->reserved, 0, "reservations are lost");
	for (unsigned int i = 0; i < world->nr_files; i++)
		free(world->files[i]);
}

/* ---- the block table, for tests ----------------------------------------------------- */

void world_set_size(struct world_file *file, uint64_t size)
{
	inode_size_write(&file->inode, size);
	env_mutex_lock(&file->lock);
	file->disk_size = size;
	env_mutex_unlock(&file->lock);
}

static void device_write(struct world *world, uint64_t addr, void *memory, size_t len)
{
	struct bio bio;

	bio_init(&bio, world->ram, BIO_WRITE, BIO_DATA, addr);
	cr_assert_eq(bio_add(&bio, memory, len), 0);
	cr_assert_eq(bio_submit_wait(&bio), 0);
	bio_uninit(&bio);
}

void world_set(struct world_file *file, uint64_t pos, uint64_t len, enum iomap_type type)
{
	struct world *world = file->world;
	uint64_t unit = block_size(file);
	uint64_t first = pos / unit;
	uint64_t end = round_up(pos + len, unit) / unit;
	uint64_t addr = 0;

	cr_assert_leq(end, file->nr_blocks);
	env_mutex_lock(&file->lock);
	blocks_clear(file, first, end);
	if (type == IOMAP_MAPPED || type == IOMAP_UNWRITTEN)
		addr = addr_take(world, (end - first) * unit);
	if (type == IOMAP_DELALLOC)
		__atomic_fetch_add(&world->reserved, (end - first) * unit, __ATOMIC_RELAXED);
	if (type != IOMAP_HOLE)
		cr_assert_eq(space_take(world, (end - first) * unit), (end - first) * unit);
	for (uint64_t i = first; i < end; i++) {
		file->blocks[i].type = (uint8_t)type;
		file->blocks[i].addr = addr ? addr + (i - first) * unit : 0;
	}
	env_mutex_unlock(&file->lock);
	if (type == IOMAP_MAPPED) {
		unsigned char *memory = calloc(1, (end - first) * unit);

		/* Zero behind the end of the file, as a file system leaves it. */
		for (uint64_t at = first * unit; at < pos + len; at++)
			memory[at - first * unit] = world_byte(0, at);
		device_write(world, addr, memory, (end - first) * unit);
		free(memory);
	}
	if (pos + len > inode_size_read(&file->inode))
		world_set_size(file, pos + len);
}

void world_set_shared(struct world_file *file, uint64_t pos, uint64_t len)
{
	uint64_t unit = block_size(file);

	world_set(file, pos, len, IOMAP_MAPPED);
	for (uint64_t i = pos / unit; i < round_up(pos + len, unit) / unit; i++)
		file->blocks[i].shared = true;
}

void world_set_inline(struct world_file *file, const void *data, uint64_t len, uint64_t max)
{
	file->inline_data = calloc(1, max);
	file->inline_max = max;
	memcpy(file->inline_data, data, len);
	world_set_size(file, len);
}

/* ---- operations --------------------------------------------------------------------- */

/* The gap between the end of the file and a later write or size becomes zero (D2). */
static int zero_gap(struct world_file *file, uint64_t to)
{
	struct inode *inode = &file->inode;
	uint64_t size = inode_size_read(inode);
	int err;

	if (to <= size)
		return 0;
	env_rwsem_write_lock(&inode->i_mapping.invalidate_lock);
	err = iomap_zero_range(inode, size, to - size, NULL, &world_ops, &world_write_ops, NULL);
	env_rwsem_write_unlock(&inode->i_mapping.invalidate_lock);
	return err;
}

ssize_t world_write_from(struct world_file *file, uint64_t pos, struct iov_iter *from,
			 unsigned int kiocb_flags)
{
	struct kiocb iocb = {.ki_filp = &file->file, .ki_pos = pos, .ki_flags = kiocb_flags};
	ssize_t written;

	env_rwsem_write_lock(&file->inode.i_rwsem);
	written = zero_gap(file, pos);
	if (!written)
		written = iomap_file_buffered_write(&iocb, from, &world_ops, &world_write_ops,
						    file->arg);
	env_rwsem_write_unlock(&file->inode.i_rwsem);
	cr_assert_eq(iocb.ki_pos, pos + (written > 0 ? (uint64_t)written : 0));
	return written;
}

ssize_t world_write_flags(struct world_file *file, uint64_t pos, const void *memory, size_t len,
			  unsigned int kiocb_flags)
{
	struct iov_iter from;

	iov_iter_init(&from, memory, len);
	return world_write_from(file, pos, &from, kiocb_flags);
}

ssize_t world_write(struct world_file *file, uint64_t pos, const void *memory, size_t len)
{
	return world_write_flags(file, pos, memory, len, 0);
}

void world_fill(struct world_file *file, uint64_t pos, size_t len, unsigned int tag)
{
	unsigned char *memory = malloc(len);

	for (size_t i = 0; i < len; i++)
		memory[i] = world_byte(tag, pos + i);
	cr_assert_eq(world_write(file, pos, memory, len), (ssize_t)len);
	free(memory);
}

ssize_t world_read(struct world_file *file, uint64_t pos, void *memory, size_t len)
{
	struct kiocb iocb = {.ki_filp = &file->file, .ki_pos = pos};
	struct iov_iter to;

	iov_iter_init(&to, memory, len);
	return filemap_read(&iocb, &to);
}

int world_zero(struct world_file *file, uint64_t pos, uint64_t len, bool *did_zero)
{
	struct inode *inode = &file->inode;
	int err;

	env_rwsem_write_lock(&inode->i_rwsem);
	env_rwsem_write_lock(&inode->i_mapping.invalidate_lock);
	err = iomap_zero_range(inode, pos, len, did_zero, &world_ops, &world_write_ops, NULL);
	env_rwsem_write_unlock(&inode->i_mapping.invalidate_lock);
	env_rwsem_write_unlock(&inode->i_rwsem);
	return err;
}

/* The protocol G8. */
static int truncate_locked(struct world_file *file, uint64_t size)
{
	struct inode *inode = &file->inode;
	uint64_t old = inode_size_read(inode);
	uint64_t unit = block_size(file);
	int err = 0;

	if (size > old)
		err = iomap_zero_range(inode, old, size - old, NULL, &world_ops, &world_write_ops,
				       NULL);
	else if (size < old)
		err = iomap_truncate_page(inode, size, NULL, &world_ops, &world_write_ops, NULL);
	if (err)
		return err;
	inode_size_write(inode, size);
	if (size > old) {
		filemap_isize_extended(inode, old, size);
		return 0;
	}
	filemap_truncate(inode, size);
	env_mutex_lock(&file->lock);
	blocks_clear(file, round_up(size, unit) / unit, file->nr_blocks);
	if (file->disk_size > size)
		file->disk_size = size;
	env_mutex_unlock(&file->lock);
	return 0;
}

int world_truncate(struct world_file *file, uint64_t size)
{
	struct inode *inode = &file->inode;
	int err;

	env_rwsem_write_lock(&inode->i_rwsem);
	env_rwsem_write_lock(&inode->i_mapping.invalidate_lock);
	err = truncate_locked(file, size);
	env_rwsem_write_unlock(&inode->i_mapping.invalidate_lock);
	env_rwsem_write_unlock(&inode->i_rwsem);
	return err;
}

int world_fsync(struct world_file *file)
{
	return file_fsync(&file->file, 0, UINT64_MAX, false);
}

int world_writepages(struct world_file *file, enum writeback_sync_mode mode, int64_t nr_to_write)
{
	struct writeback_control wbc = {
		.sync_mode = mode,
		.nr_to_write = nr_to_write,
		.range_end = UINT64_MAX,
	};

	return aop_writepages(&file->inode.i_mapping, &wbc);
}

void world_drop(struct world *world)
{
	page_cache_drop(world->cache);
}

/* ---- bytes -------------------------------------------------------------------------- */

/* Never zero, so that lost bytes show; differs from tag to tag at each place. */
unsigned char world_byte(unsigned int tag, uint64_t pos)
{
	return (unsigned char)(1 + (pos * 7 + pos / 251 + tag * 37) % 255);
}

static bool bytes_are(const unsigned char *memory, uint64_t pos, size_t len, unsigned int tag)
{
	for (size_t i = 0; i < len; i++)
		if (memory[i] != world_byte(tag, pos + i))
			return false;
	return true;
}

static bool bytes_are_zero(const unsigned char *memory, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (memory[i])
			return false;
	return true;
}

/* tag -1: zero. */
static bool file_reads(struct world_file *file, uint64_t pos, size_t len, int tag)
{
	unsigned char *memory = malloc(len);
	bool same = world_read(file, pos, memory, len) == (ssize_t)len;

	if (same)
		same = tag < 0 ? bytes_are_zero(memory, len)
			       : bytes_are(memory, pos, len, (unsigned int)tag);
	free(memory);
	return same;
}

bool world_reads_as(struct world_file *file, uint64_t pos, size_t len, unsigned int tag)
{
	return file_reads(file, pos, len, (int)tag);
}

bool world_reads_zero(struct world_file *file, uint64_t pos, size_t len)
{
	return file_reads(file, pos, len, -1);
}

void world_device_read(struct world *world, uint64_t addr, void *memory, size_t len)
{
	uint64_t start = round_down(addr, 512);
	uint64_t end = round_up(addr + len, 512);
	unsigned char *sectors = malloc(end - start);
	struct bio bio;

	bio_init(&bio, world->ram, BIO_READ, BIO_DATA, start);
	cr_assert_eq(bio_add(&bio, sectors, end - start), 0);
	cr_assert_eq(bio_submit_wait(&bio), 0);
	bio_uninit(&bio);
	memcpy(memory, sectors + (addr - start), len);
	free(sectors);
}

void world_disk_read(struct world_file *file, uint64_t pos, void *memory, size_t len)
{
	uint64_t unit = block_size(file);
	unsigned char *to = memory;

	while (len) {
		size_t n = (size_t)min_u64(len, unit - pos % unit);
		const struct world_block *block = &file->blocks[pos / unit];

		if (block->type == IOMAP_MAPPED)
			world_device_read(file->world, block->addr + pos % unit, to, n);
		else
			memset(to, 0, n);
		pos += n;
		to += n;
		len -= n;
	}
}

bool world_disk_has(struct world_file *file, uint64_t pos, size_t len, unsigned int tag)
{
	unsigned char *memory = malloc(len);
	bool same;

	world_disk_read(file, pos, memory, len);
	same = bytes_are(memory, pos, len, tag);
	free(memory);
	return same;
}

bool world_disk_zero(struct world_file *file, uint64_t pos, size_t len)
{
	unsigned char *memory = malloc(len);
	bool same;

	world_disk_read(file, pos, memory, len);
	same = bytes_are_zero(memory, len);
	free(memory);
	return same;
}

/* ---- a source that can fail --------------------------------------------------------- */

static size_t source_copy(struct iov_iter *iter, void *cache_memory, size_t len)
{
	struct world_source *source = container_of(iter, struct world_source, iter);
	uint64_t end = min_u64(iter->done + len, source->bad_at);
	uint64_t *stop = NULL;

	for (unsigned int i = 0; i < 4; i++) {
		if (source->short_at[i] >= iter->done && source->short_at[i] < end) {
			end = source->short_at[i];
			stop = &source->short_at[i];
		}
	}
	if (stop)
		*stop = UINT64_MAX;
	if (end < iter->done + len)
		source->nr_short++;
	if (end <= iter->done)
		return 0;
	memcpy(cache_memory, source->memory + iter->done, end - iter->done);
	return end - iter->done;
}

static size_t source_fault_in(struct iov_iter *iter, size_t len)
{
	struct world_source *source = container_of(iter, struct world_source, iter);

	if (source->bad_at <= iter->done)
		return 0;
	return (size_t)min_u64(len, source->bad_at - iter->done);
}

void world_source_init(struct world_source *source, const void *memory, size_t len)
{
	memset(source, 0, sizeof(*source));
	source->iter.count = len;
	source->iter.copy = source_copy;
	source->iter.fault_in = source_fault_in;
	source->memory = memory;
	source->bad_at = UINT64_MAX;
	for (unsigned int i = 0; i < 4; i++)
		source->short_at[i] = UINT64_MAX;
}

/* ---- what is cached ----------------------------------------------------------------- */

struct folio *world_folio(struct world_file *file, uint64_t pos)
{
	struct address_space *mapping = &file->inode.i_mapping;
	uint64_t index = pos >> mapping->page_shift;
	uint64_t start = index;
	struct folio_batch batch;

	if (!filemap_get_folios(mapping, &start, index, FILEMAP_ANY, &batch))
		return NULL;
	return batch.folios[0];
}

int world_order(struct world_file *file, uint64_t pos)
{
	struct folio *folio = world_folio(file, pos);
	int order = -1;

	if (folio) {
		order = (int)folio_order(folio);
		folio_put(folio);
	}
	return order;
}

static bool folio_says(struct world_file *file, uint64_t pos,
		       bool (*question)(const struct folio *folio, uint64_t off))
{
	struct folio *folio = world_folio(file, pos);
	bool answer = false;

	if (folio) {
		answer = question(folio, pos - folio_pos(folio));
		folio_put(folio);
	}
	return answer;
}

static bool state_is_attached(const struct folio *folio, uint64_t off)
{
	(void)off;
	return iomap_folio_has_state(folio);
}

/* A block is dirty if its folio is and its bit is (M14). */
static bool block_is_dirty(const struct folio *folio, uint64_t off)
{
	return folio_test(folio, FOLIO_DIRTY) && iomap_block_is_dirty(folio, off);
}

bool world_is_dirty(struct world_file *file, uint64_t pos)
{
	return folio_says(file, pos, block_is_dirty);
}

bool world_is_uptodate(struct world_file *file, uint64_t pos)
{
	return folio_says(file, pos, iomap_block_is_uptodate);
}

bool world_has_state(struct world_file *file, uint64_t pos)
{
	return folio_says(file, pos, state_is_attached);
}

uint64_t world_nr_dirty_blocks(struct world_file *file)
{
	uint64_t nr = 0;

	for (uint64_t i = 0; i < file->nr_blocks; i++)
		nr += world_is_dirty(file, i * block_size(file));
	return nr;
}

static void check_folio(struct world_file *file, const struct folio *folio)
{
	const struct address_space *mapping = &file->inode.i_mapping;
	uint64_t unit = block_size(file);
	uint64_t size = folio_size(folio);
	bool all_uptodate = true;
	bool any_dirty = false;

	cr_assert_leq(folio_order(folio), mapping->max_order); /* M41 */
	cr_assert_geq(folio_order(folio), mapping->min_order);
	cr_assert_eq(folio->index % folio_nr_pages(folio), 0);
	cr_assert_eq(size % unit, 0); /* M46 */
	cr_assert_not(folio_is_locked(folio)); /* M134 */
	cr_assert_not(folio_test(folio, FOLIO_WRITEBACK)); /* M65 */
	cr_assert_eq(folio->mapping, mapping);
	if (size == unit)
		cr_assert_not(iomap_folio_has_state(folio)); /* M11 */
	for (uint64_t off = 0; off < size; off += unit) {
		bool uptodate = iomap_block_is_uptodate(folio, off);
		bool dirty = iomap_block_is_dirty(folio, off);

		all_uptodate &= uptodate;
		any_dirty |= dirty;
		if (dirty)
			cr_assert(uptodate); /* M15 */
	}
	if (iomap_folio_has_state(folio))
		cr_assert_eq(all_uptodate, folio_test(folio, FOLIO_UPTODATE)); /* M13 */
	if (any_dirty && folio_pos(folio) < inode_size_read(&file->inode))
		cr_assert(folio_test(folio, FOLIO_DIRTY)); /* M14 */
}

/* Returns pages of dirty folios. */
static uint64_t check_file(struct world_file *file)
{
	struct address_space *mapping = &file->inode.i_mapping;
	struct folio_batch batch;
	uint64_t dirty = 0, cached = 0;
	uint64_t index = 0, next = 0;

	while (filemap_get_folios(mapping, &index, UINT64_MAX >> mapping->page_shift, FILEMAP_ANY,
				  &batch)) {
		for (unsigned int i = 0; i < batch.nr; i++) {
			struct folio *folio = batch.folios[i];

			cr_assert_geq(folio->index, next); /* M44 */
			next = folio->index + folio_nr_pages(folio);
			check_folio(file, folio);
			cached += folio_nr_pages(folio);
			if (folio_test(folio, FOLIO_DIRTY))
				dirty += folio_nr_pages(folio);
		}
		filemap_release_folios(&batch);
	}
	cr_assert_eq(mapping->nr_pages, cached);
	cr_assert_eq(mapping->nr_dirty, dirty); /* M117 */
	cr_assert_eq(mapping->nr_writeback, 0);
	cr_assert_leq(file->disk_size, inode_size_read(&file->inode)); /* M71 */
	cr_assert_not(file->punched_dirty); /* M38 */
	return dirty;
}

struct barrier {
	struct wb_completion work;
	struct env_completion done;
};

static void barrier_pass(struct wb_completion *work)
{
	env_complete(&container_of(work, struct barrier, work)->done);
}

/* Whoever has ended a folio's writeback may still be dropping it behind (D39). */
static void wait_for_completions(struct world_file *file)
{
	struct barrier barrier = {.work.fn = barrier_pass};

	if (wb_context_of(&file->inode) < 0)
		return;
	env_completion_init(&barrier.done);
	wb_queue_completion(&file->inode, &barrier.work);
	env_completion_wait(&barrier.done);
}

void world_check(struct world *world)
{
	struct page_cache_stats stats;
	uint64_t dirty = 0;

	for (unsigned int i = 0; i < world->nr_files; i++)
		wait_for_completions(world->files[i]);
	for (unsigned int i = 0; i < world->nr_files; i++)
		dirty += check_file(world->files[i]);
	page_cache_get_stats(world->cache, &stats);
	cr_assert_eq(stats.nr_dirty, dirty); /* M117 */
	cr_assert_eq(stats.nr_writeback, 0);
}

/* ---- the device --------------------------------------------------------------------- */

struct world_io world_io(struct world *world)
{
	struct blkdev_count count;

	blkdev_count_read(world->dev, &count);
	blkdev_count_reset(world->dev);
	return (struct world_io){
		.reads = count.ios[BIO_READ][BIO_DATA],
		.read_bytes = count.bytes[BIO_READ][BIO_DATA],
		.writes = count.ios[BIO_WRITE][BIO_DATA],
		.write_bytes = count.bytes[BIO_WRITE][BIO_DATA],
	};
}

static void add_rule(struct world *world, struct blkdev_fault_rule rule)
{
	cr_assert_eq(blkdev_fault_add(world->fault, &rule), 0);
}

void world_fail_io(struct world *world, enum bio_op op, uint64_t after, uint64_t count, int error)
{
	add_rule(
		world,
		(struct blkdev_fault_rule){
			.op = (int)op, .kind = -1, .after = after, .count = count, .error = error});
}

void world_fail_range(struct world_file *file, enum bio_op op, uint64_t pos, uint64_t len,
		      int error)
{
	uint64_t unit = block_size(file);

	for (uint64_t at = round_down(pos, unit); at < pos + len; at += unit)
		add_rule(file->world,
			 (struct blkdev_fault_rule){.op = (int)op,
						    .kind = -1,
						    .addr = file->blocks[at / unit].addr,
						    .len = unit,
						    .error = error});
}

void world_hold_io(struct world *world, enum bio_op op)
{
	add_rule(world, (struct blkdev_fault_rule){.op = (int)op, .kind = -1});
}

void world_heal(struct world *world)
{
	blkdev_fault_clear(world->fault);
	blkdev_fault_release(world->fault);
}

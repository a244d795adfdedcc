/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_iomap_buffered_write.c - write() into the cache: what is read, what gets dirty, what is
 * reported, and in which folios it lands
 */
#include "world.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct world world;
static struct world_file *file;

static void open_world(struct world_config config)
{
	world_open(&world, &config);
	file = world.file;
}

static void close_world(void)
{
	world_check(&world);
	world_close(&world);
}

TestSuite(iomap_buffered_write, .fini = close_world);

/* The sizes that behave differently: below, at and above the page. */
static const struct {
	uint32_t page, block;
} sizes[] = {
	{4096, 512},   {4096, 1024},  {4096, 4096},  {4096, 16384},
	{4096, 65536}, {65536, 1024}, {65536, 4096}, {65536, 65536},
};

/* The fact holds in each geometry; the world is open with a MAPPED file of 512 KiB. */
static void on_each_size(void (*fact)(uint64_t block))
{
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		open_world((struct world_config){.page_size = sizes[i].page,
						 .block_size = sizes[i].block});
		world_set(file, 0, 512 * KiB, IOMAP_MAPPED);
		fact(sizes[i].block);
		world_check(&world);
		if (i + 1 < sizeof(sizes) / sizeof(sizes[0]))
			world_close(&world);
	}
}

#define ON_EACH_SIZE(name)                                                                         \
	static void name(uint64_t block);                                                          \
	Test(iomap_buffered_write, name)                                                           \
	{                                                                                          \
		on_each_size(name);                                                                \
	}                                                                                          \
	static void name(uint64_t block)

/* ---- what is read first ---- */

ON_EACH_SIZE(whole_folio_needs_no_read_and_no_state) /* M17 */
{
	struct world_io io;

	(void)block;
	world_fill(file, 65536, 65536, 1);
	io = world_io(&world);
	cr_assert_eq(io.reads, 0);
	cr_assert_not(world_has_state(file, 65536));
	cr_assert(world_reads_as(file, 65536, 65536, 1));
	cr_assert(world_reads_as(file, 0, 65536, 0));
}

ON_EACH_SIZE(whole_blocks_need_no_read) /* M18 M24 */
{
	struct world_io io;

	/* Nothing cached, then with neighbours that are. */
	world_fill(file, block, block, 1);
	world_fill(file, 3 * block, 2 * block, 1);
	world_fill(file, 2 * block, block, 1);
	io = world_io(&world);
	cr_assert_eq(io.reads, 0);
	cr_assert_eq(world_nr_dirty_blocks(file), 4);
	cr_assert(world_reads_as(file, 0, block, 0));
	cr_assert(world_reads_as(file, block, 4 * block, 1));
	cr_assert(world_reads_as(file, 5 * block, 65536, 0));
}

ON_EACH_SIZE(part_of_a_block_reads_that_block_once) /* M19 M22 M24 */
{
	struct world_io io;

	world_fill(file, 3 * block + 100, 10, 1);
	io = world_io(&world);
	cr_assert_eq(io.reads, 1);
	cr_assert_eq(io.read_bytes, block);
	cr_assert_eq(world_nr_dirty_blocks(file), 1);
	/* Uptodate by now (M22). */
	world_fill(file, 3 * block + 50, 100, 2);
	world_fill(file, 3 * block, block, 2);
	cr_assert_eq(world_io(&world).reads, 0);
	cr_assert(world_reads_as(file, 0, 3 * block, 0));
	cr_assert(world_reads_as(file, 3 * block, block, 2));
	cr_assert(world_reads_as(file, 4 * block, block, 0));
}

ON_EACH_SIZE(only_head_and_tail_blocks_are_read) /* M19, D18 */
{
	struct world_io io;

	world_fill(file, 2 * block + 1, 3 * block, 1);
	io = world_io(&world);
	cr_assert_eq(io.reads, 2);
	cr_assert_eq(io.read_bytes, 2 * block);
	cr_assert_eq(world_nr_dirty_blocks(file), 4);
	cr_assert(world_reads_as(file, 0, 2 * block + 1, 0));
	cr_assert(world_reads_as(file, 2 * block + 1, 3 * block, 1));
	cr_assert(world_reads_as(file, 5 * block + 1, block, 0));
}

ON_EACH_SIZE(block_that_starts_at_or_past_eof_is_not_read) /* M21 M50 */
{
	/* The device holds 0xAA there, as after a crash. */
	world_set(file, 256 * KiB, 128 * KiB, IOMAP_UNWRITTEN);
	for (uint64_t i = 0; i < 128 * KiB / block; i++)
		file->blocks[256 * KiB / block + i].type = IOMAP_MAPPED;
	world_set_size(file, 256 * KiB);
	world_fill(file, 256 * KiB, 10, 1);
	cr_assert_eq(world_io(&world).reads, 0);
	cr_assert_eq(inode_size_read(&file->inode), 256 * KiB + 10);
	world_fill(file, 256 * KiB + 10, 10, 1);
	cr_assert_eq(world_io(&world).reads, 0);
	cr_assert_eq(world_truncate(file, 256 * KiB + 100), 0);
	cr_assert(world_reads_as(file, 256 * KiB, 20, 1));
	cr_assert(world_reads_zero(file, 256 * KiB + 20, 80));
}

static void part_of_a_block_without_data(enum world_alloc alloc, enum iomap_type type)
{
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint64_t block = sizes[i].block;

		open_world((struct world_config){
			.page_size = sizes[i].page, .block_size = sizes[i].block, .alloc = alloc});
		world_set_size(file, 512 * KiB);
		world_set(file, 0, 512 * KiB, type);
		world_fill(file, 3 * block + 100, block + 10, 1);
		cr_assert_eq(world_io(&world).reads, 0);
		cr_assert_eq(world_nr_dirty_blocks(file), 2);
		cr_assert(world_reads_zero(file, 0, 3 * block + 100));
		cr_assert(world_reads_as(file, 3 * block + 100, block + 10, 1));
		cr_assert(world_reads_zero(file, 4 * block + 110, 2 * block));
		cr_assert_eq(world_fsync(file), 0);
		world_drop(&world);
		cr_assert(world_reads_zero(file, 0, 3 * block + 100));
		cr_assert(world_reads_as(file, 3 * block + 100, block + 10, 1));
		cr_assert(world_reads_zero(file, 4 * block + 110, 2 * block));
		world_check(&world);
		if (i + 1 < sizeof(sizes) / sizeof(sizes[0]))
			world_close(&world);
	}
}

Test(iomap_buffered_write, part_of_a_hole_reads_as_zero_elsewhere_with_delalloc) /* M20 */
{
	part_of_a_block_without_data(WORLD_DELALLOC, IOMAP_HOLE);
}

Test(iomap_buffered_write, part_of_a_hole_reads_as_zero_elsewhere_with_unwritten) /* M20 */
{
	part_of_a_block_without_data(WORLD_UNWRITTEN, IOMAP_HOLE);
}

Test(iomap_buffered_write, part_of_a_hole_reads_as_zero_elsewhere_with_new_space) /* M20 */
{
	part_of_a_block_without_data(WORLD_NEW, IOMAP_HOLE);
}

Test(iomap_buffered_write, part_of_unwritten_space_reads_as_zero_elsewhere) /* M20 */
{
	part_of_a_block_without_data(WORLD_DELALLOC, IOMAP_UNWRITTEN);
}

Test(iomap_buffered_write, part_of_delayed_space_reads_as_zero_elsewhere) /* M20 */
{
	part_of_a_block_without_data(WORLD_DELALLOC, IOMAP_DELALLOC);
}

ON_EACH_SIZE(shared_block_is_read_from_one_place_and_written_to_another) /* M23 */
{
	unsigned char *old = malloc(block), *now = malloc(block);
	uint64_t addr;

	world_set_shared(file, 0, 4 * block);
	addr = file->blocks[1].addr;
	world_fill(file, block + 7, 20, 1);
	cr_assert_eq(world_io(&world).read_bytes, block);
	cr_assert_eq(world_fsync(file), 0);
	cr_assert_eq(world_io(&world).write_bytes, block);
	cr_assert_neq(file->blocks[1].addr, addr);
	cr_assert_eq(file->ioends[0].flags & IOMAP_IOEND_SHARED, IOMAP_IOEND_SHARED);
	world_device_read(&world, addr, old, block);
	world_device_read(&world, file->blocks[1].addr, now, block);
	for (uint64_t i = 0; i < block; i++) {
		cr_assert_eq(old[i], world_byte(0, block + i));
		cr_assert_eq(now[i], world_byte(i >= 7 && i < 27 ? 1 : 0, block + i));
	}
	world_drop(&world);
	cr_assert(world_reads_as(file, block + 27, 3 * block - 27, 0));
	free(old);
	free(now);
}

static int zero_tail(struct world_file *f, uint64_t pos, uint64_t len, unsigned int flags,
		     struct iomap *map, struct iomap *src)
{
	(void)f;
	(void)pos;
	(void)len;
	(void)flags;
	(void)src;
	map->flags |= IOMAP_F_ZERO_TAIL;
	return 0;
}

Test(iomap_buffered_write, zero_tail_flag_clears_behind_the_write) /* D16 */
{
	open_world((struct world_config){.block_size = 1024});
	world_set(file, 0, 65536, IOMAP_MAPPED);
	file->on_begin = zero_tail;
	world_fill(file, 5000, 50, 1);
	file->on_begin = NULL;
	cr_assert(world_reads_as(file, 0, 5000, 0));
	cr_assert(world_reads_as(file, 5000, 50, 1));
	cr_assert(world_reads_zero(file, 5050, 5120 - 5050));
	cr_assert(world_reads_as(file, 5120, 4096, 0));
}

/* ---- what gets dirty ---- */

Test(iomap_buffered_write, exactly_the_touched_blocks_get_dirty) /* M24 */
{
	open_world((struct world_config){.block_size = 512});
	world_set(file, 0, 65536, IOMAP_MAPPED);
	cr_assert(world_reads_as(file, 0, 65536, 0));
	for (unsigned int i = 0; i < 40; i++) {
		uint64_t pos = i * 1501 % 60000, len = 1 + i * 97 % 2500;

		world_fill(file, pos, len, i);
		for (uint64_t at = 0; at < 65536; at += 512)
			cr_assert_eq(world_is_dirty(file, at), at + 512 > pos && at < pos + len);
		cr_assert_eq(world_fsync(file), 0);
	}
}

/* Bytes that went from clean to dirty are what the figure counts. */
Test(iomap_buffered_write, dirtied_bytes_count_blocks_once)
{
	struct page_cache_stats stats;

	open_world((struct world_config){.block_size = 512});
	world_set(file, 0, 65536, IOMAP_MAPPED);
	world_fill(file, 100, 1000, 1);
	world_fill(file, 600, 1000, 1);
	page_cache_get_stats(world.cache, &stats);
	cr_assert_eq(stats.dirtied_bytes, 4 * 512);
	cr_assert_eq(stats.fill_bytes, 3 * 512);
}

/* ---- short copies ---- */

static unsigned char *pattern(uint64_t pos, size_t len, unsigned int tag)
{
	unsigned char *memory = malloc(len);

	for (size_t i = 0; i < len; i++)
		memory[i] = world_byte(tag, pos + i);
	return memory;
}

static ssize_t write_short_at(uint64_t pos, size_t len, uint64_t stop, uint64_t bad)
{
	unsigned char *memory = pattern(pos, len, 1);
	struct world_source source;
	ssize_t written;

	world_source_init(&source, memory, len);
	source.short_at[0] = stop;
	source.bad_at = bad;
	written = world_write_from(file, pos, &source.iter, 0);
	if (stop < bad)
		cr_assert_geq(source.nr_short, 1);
	cr_assert_eq(source.iter.done, written < 0 ? 0 : (uint64_t)written);
	free(memory);
	return written;
}

ON_EACH_SIZE(copy_that_stops_once_loses_nothing) /* M27 M30 */
{
	static const uint64_t stops[] = {0, 1, 511, 512, 4095, 4096, 5000, 65535, 65536, 70000};

	(void)block;
	for (unsigned int i = 0; i < 10; i++) {
		world_drop(&world);
		cr_assert_eq(write_short_at(1000, 100000, stops[i], UINT64_MAX), 100000);
		cr_assert(world_reads_as(file, 0, 1000, 0));
		cr_assert(world_reads_as(file, 1000, 100000, 1));
		cr_assert(world_reads_as(file, 101000, 100000, 0));
		cr_assert_eq(world_zero(file, 0, 512 * KiB, NULL), 0);
		cr_assert_eq(world_fsync(file), 0);
		world_fill(file, 0, 512 * KiB, 0);
		cr_assert_eq(world_fsync(file), 0);
	}
}

Test(iomap_buffered_write, short_copy_into_a_folio_not_uptodate_counts_as_nothing) /* M27 */
{
	struct world_source source;
	unsigned char *memory = pattern(1024, 8192, 1);
	struct iomap_iter iter = {.pos = 1024, .len = 8192, .flags = IOMAP_WRITE};
	uint64_t len = 8192, off;
	struct folio *folio;

	open_world((struct world_config){.block_size = 1024, .page_size = 65536});
	world_set(file, 0, 65536, IOMAP_MAPPED);
	iter.inode = &file->inode;
	cr_assert_eq(iomap_iter(&iter, &world_ops), 1);
	cr_assert_eq(iomap_write_begin(&iter, &world_write_ops, &len, &folio, &off), 0);
	cr_assert_eq(len, 8192);
	cr_assert_eq(off, 1024);
	memset(folio->data + off, 1, 3000);
	cr_assert_eq(iomap_write_end(&iter, &world_write_ops, len, 3000, folio), 0);
	cr_assert_eq(world_nr_dirty_blocks(file), 0);
	for (uint64_t at = 0; at < 65536; at += 1024)
		cr_assert_not(world_is_uptodate(file, at));
	cr_assert_eq(iomap_iter(&iter, &world_ops), 0);
	cr_assert(world_reads_as(file, 0, 65536, 0));

	/* The loop then writes the shorter length, as a step of its own. */
	world_drop(&world);
	world_drop(&world);
	world_source_init(&source, memory, 8192);
	source.short_at[0] = 3000;
	cr_assert_eq(world_write_from(file, 1024, &source.iter, 0), 8192);
	cr_assert_eq(source.nr_short, 1);
	cr_assert(world_reads_as(file, 1024, 8192, 1));
	free(memory);
}

Test(iomap_buffered_write, short_copy_into_an_uptodate_folio_is_accepted) /* M28 */
{
	struct iomap_iter iter = {.pos = 1000, .len = 8192, .flags = IOMAP_WRITE};
	uint64_t len = 8192, off;
	struct folio *folio;

	open_world((struct world_config){.block_size = 1024, .page_size = 65536});
	world_set(file, 0, 65536, IOMAP_MAPPED);
	cr_assert(world_reads_as(file, 0, 65536, 0));
	iter.inode = &file->inode;
	cr_assert_eq(iomap_iter(&iter, &world_ops), 1);
	cr_assert_eq(iomap_write_begin(&iter, &world_write_ops, &len, &folio, &off), 0);
	cr_assert_eq(iomap_write_end(&iter, &world_write_ops, len, 3000, folio), 3000);
	cr_assert_eq(iomap_iter_advance(&iter, 3000), 0);
	for (uint64_t at = 0; at < 65536; at += 1024)
		cr_assert_eq(world_is_dirty(file, at), at < 4000);
	while (iomap_iter(&iter, &world_ops) > 0)
		;
}

Test(iomap_buffered_write,
     short_copy_over_a_whole_uptodate_folio_dirties_what_it_copied) /* M24 M28 */
{
	open_world((struct world_config){.block_size = 512});
	world_set(file, 0, 4096, IOMAP_MAPPED);
	cr_assert(world_reads_as(file, 0, 4096, 0));
	world_drop(&world); /* a clean folio without state ... */
	cr_assert(world_reads_as(file, 0, 4096, 0));
	{
		struct folio *folio = world_folio(file, 0);

		folio_lock(folio);
		cr_assert(iomap_release_folio(folio));
		folio_unlock_put(folio);
	}
	cr_assert_eq(write_short_at(0, 4096, 700, 700), 700);
	cr_assert_eq(world_nr_dirty_blocks(file), 2);
}

Test(iomap_buffered_write, copy_of_nothing_dirties_nothing) /* M26 */
{
	open_world((struct world_config){.block_size = 1024});
	world_set(file, 0, 65536, IOMAP_MAPPED);
	cr_assert(world_reads_as(file, 0, 65536, 0));
	cr_assert_eq(write_short_at(1000, 100, 0, 0), -EFAULT);
	cr_assert_eq(world_nr_dirty_blocks(file), 0);
	for (unsigned int i = 0; i < 2; i++) {
		struct iomap_iter iter = {
			.inode = &file->inode, .pos = 1000, .len = 100, .flags = IOMAP_WRITE};
		uint64_t len = 100, off;
		struct folio *folio;

		cr_assert_eq(iomap_iter(&iter, &world_ops), 1);
		cr_assert_eq(iomap_write_begin(&iter, &world_write_ops, &len, &folio, &off), 0);
		cr_assert_eq(iomap_write_end(&iter, &world_write_ops, len, 0, folio), 0);
		cr_assert_eq(iomap_iter(&iter, &world_ops), 0);
		cr_assert_eq(world_nr_dirty_blocks(file), 0);
		cr_assert_eq(file->inode.i_mapping.nr_dirty, 0);
		world_drop(&world); /* and not uptodate */
		world_drop(&world);
	}
}

ON_EACH_SIZE(unreadable_source_gives_what_was_before_it) /* M29 M30 */
{
	static const uint64_t bad[] = {1, 511, 512, 4095, 4096, 4097, 65536, 99999};

	(void)block;
	cr_assert_eq(write_short_at(1000, 100000, UINT64_MAX, 0), -EFAULT);
	cr_assert_eq(file->inode.i_mapping.nr_dirty, 0);
	for (unsigned int i = 0; i < 8; i++) {
		cr_assert_eq(write_short_at(1000, 100000, UINT64_MAX, bad[i]), (ssize_t)bad[i]);
		cr_assert(world_reads_as(file, 0, 1000, 0));
		cr_assert(world_reads_as(file, 1000, bad[i], 1));
		cr_assert(world_reads_as(file, 1000 + bad[i], 100000, 0));
		world_fill(file, 0, 512 * KiB, 0);
		cr_assert_eq(world_fsync(file), 0);
		world_drop(&world);
		world_drop(&world);
	}
}

Test(iomap_buffered_write, source_that_never_copies_does_not_hang)
{
	struct world_source source;

	open_world((struct world_config){0});
	world_source_init(&source, "abc", 3);
	source.iter.fault_in = NULL;
	source.bad_at = 0;
	cr_assert_eq(world_write_from(file, 0, &source.iter, 0), -EFAULT);
}

/* ---- errors in the middle ---- */

Test(iomap_buffered_write, error_in_a_later_folio_keeps_the_earlier_ones) /* M31 */
{
	static char memory[40960];

	open_world((struct world_config){.max_folio = 8192});
	world_set(file, 0, 65536, IOMAP_MAPPED);
	/* Only the last, partly written block must be read, and that fails. */
	world_fail_range(file, BIO_READ, 32768, 4096, -EIO);
	cr_assert_eq(world_write(file, 0, memory, 32768 + 100), 32768);
	cr_assert_eq(world_nr_dirty_blocks(file), 8);
	cr_assert_not(world_is_dirty(file, 32768));
	world_heal(&world);
	cr_assert(world_reads_as(file, 32768, 8192, 0));
}

Test(iomap_buffered_write, failed_write_past_eof_leaves_nothing_there) /* M35 */
{
	static char memory[65536];
	struct world_source source;

	open_world((struct world_config){.block_size = 1024});
	world_fill(file, 0, 1500, 1);
	world_source_init(&source, memory, sizeof(memory));
	source.bad_at = 0;
	cr_assert_eq(world_write_from(file, 1500, &source.iter, 0), -EFAULT);
	cr_assert_eq(inode_size_read(&file->inode), 1500);
	/* A copy that never gets anywhere after the folio was made. */
	world_source_init(&source, memory, sizeof(memory));
	source.iter.fault_in = NULL;
	source.bad_at = 0;
	cr_assert_eq(world_write_from(file, 20480, &source.iter, 0), -EFAULT);
	cr_assert_eq(inode_size_read(&file->inode), 1500);
	for (uint64_t pos = 4096; pos < 131072; pos += 4096)
		cr_assert_eq(world_order(file, pos), -1);
	cr_assert_eq(world_nr_dirty_blocks(file), 2);
	cr_assert(world_reads_as(file, 0, 1500, 1));
}

/* ---- i_size ---- */

static void put_and_check(struct inode *inode, uint64_t pos, uint64_t copied, struct folio *folio)
{
	cr_assert(folio_is_locked(folio));
	if (copied)
		cr_assert_geq(inode_size_read(inode), pos + copied);
	folio_unlock_put(folio);
}

Test(iomap_buffered_write, size_covers_the_data_before_the_folio_is_unlocked) /* M32 */
{
	static const struct iomap_write_ops ops = {.put_folio = put_and_check};
	static char memory[100000];
	struct kiocb iocb = {.ki_pos = 0};
	struct iov_iter from;

	open_world((struct world_config){.max_folio = 16384});
	iocb.ki_filp = &file->file;
	iov_iter_init(&from, memory, sizeof(memory));
	cr_assert_eq(iomap_file_buffered_write(&iocb, &from, &world_ops, &ops, NULL), 100000);
	cr_assert_eq(inode_size_read(&file->inode), 100000);
}

Test(iomap_buffered_write, only_writes_change_the_size) /* M33 */
{
	char memory[100];

	open_world((struct world_config){.block_size = 1024});
	world_fill(file, 0, 10000, 1);
	cr_assert_eq(world_zero(file, 9000, 1000, NULL), 0);
	cr_assert_eq(world_fsync(file), 0);
	world_drop(&world);
	cr_assert_eq(world_read(file, 9990, memory, 100), 10);
	world_fill(file, 100, 100, 2);
	cr_assert_eq(inode_size_read(&file->inode), 10000);
	cr_assert_eq(file->disk_size, 10000);
}

Test(iomap_buffered_write, end_is_told_when_the_size_grew) /* M34 */
{
	uint64_t size = 0;

	open_world((struct world_config){.block_size = 1024, .max_map = 4096});
	world_fill(file, 0, 10000, 1);
	world_fill(file, 3000, 5000, 1);
	world_fill(file, 8000, 3000, 1);
	world_fill(file, 500, 10, 1);
	for (unsigned int i = 1; i < file->nr_calls; i += 2) {
		const struct world_call *end = &file->calls[i];
		bool grew = end->pos + end->written > size;

		cr_assert(end->is_end);
		cr_assert_eq(!!(end->map_flags & IOMAP_F_SIZE_CHANGED), grew);
		size = grew ? end->pos + end->written : size;
	}
	cr_assert_eq(size, 11000);
}

/* ---- stale maps ---- */

static uint64_t word_of_state(uint64_t end)
{
	uint64_t word = 0;

	for (uint64_t pos = 0; pos < end; pos += 1024)
		word = word * 4 + 2 * world_is_dirty(file, pos) + world_is_uptodate(file, pos);
	return word;
}

static uint64_t state_before;
static unsigned char *bytes_before;

static int look_at_rejected_folio(struct world_file *f, uint64_t pos, uint64_t len,
				  unsigned int flags, struct iomap *map, struct iomap *src)
{
	struct folio *folio = world_folio(f, 8192);

	(void)pos;
	(void)len;
	(void)flags;
	(void)map;
	(void)src;
	cr_assert_eq(word_of_state(32768), state_before);
	cr_assert(folio);
	cr_assert_eq(memcmp(folio->data, bytes_before, 32768), 0);
	folio_put(folio);
	return 0;
}

Test(iomap_buffered_write, rejected_folio_is_untouched) /* M9 */
{
	struct folio *folio;

	open_world((struct world_config){.block_size = 1024, .page_size = 32768});
	world_set(file, 0, 32768, IOMAP_MAPPED);
	world_fill(file, 2048, 3000, 1);
	folio = world_folio(file, 8192);
	bytes_before = malloc(32768);
	memcpy(bytes_before, folio->data, 32768);
	folio_put(folio);
	state_before = word_of_state(32768);
	file->on_begin = look_at_rejected_folio;
	file->stale_left = 3;
	file->nr_begins = 0;
	world_fill(file, 3000, 9000, 2);
	cr_assert_eq(file->nr_begins, 4);
	cr_assert(world_reads_as(file, 3000, 9000, 2));
	free(bytes_before);
}

static bool convert_once;

/* Between begin and the check the unwritten space got data and lost its cache (L30). */
static void convert_behind_the_map(struct world_file *f)
{
	if (!convert_once)
		return;
	convert_once = false;
	world_set(f, 16384, 4096, IOMAP_MAPPED);
}

Test(iomap_buffered_write, unwritten_map_that_was_converted_loses_no_data) /* M8 M9, L30 */
{
	open_world((struct world_config){0});
	world_set(file, 0, 65536, IOMAP_UNWRITTEN);
	convert_once = true;
	file->on_valid = convert_behind_the_map;
	world_fill(file, 16484, 100, 1);
	cr_assert(world_reads_as(file, 16384, 100, 0));
	cr_assert(world_reads_as(file, 16484, 100, 1));
	cr_assert(world_reads_as(file, 16584, 3896, 0));
	cr_assert(world_reads_zero(file, 20480, 4096));
}

/* ---- NOWAIT ---- */

Test(iomap_buffered_write, nowait_does_not_wait_for_a_folio) /* M36 */
{
	struct folio *folio;

	open_world((struct world_config){0});
	world_fill(file, 0, 8192, 1);
	folio = world_folio(file, 0);
	folio_lock(folio);
	cr_assert_eq(world_write_flags(file, 0, "x", 1, IOCB_NOWAIT), -EAGAIN);
	folio_unlock_put(folio);
	cr_assert_eq(world_write_flags(file, 0, "x", 1, IOCB_NOWAIT), 1);
}

Test(iomap_buffered_write, nowait_does_not_read) /* M36 */
{
	static char memory[8192];

	open_world((struct world_config){.max_folio = 4096});
	world_set(file, 0, 65536, IOMAP_MAPPED);
	cr_assert_eq(world_write_flags(file, 100, "x", 1, IOCB_NOWAIT), -EAGAIN);
	cr_assert_eq(world_io(&world).reads, 0);
	/* What could be done is a short count. */
	cr_assert_eq(world_write_flags(file, 4096, memory, 5000, IOCB_NOWAIT), 4096);
	cr_assert_eq(world_io(&world).reads, 0);
	cr_assert(world_reads_as(file, 8192, 4096, 0));
}

Test(iomap_buffered_write, nowait_without_memory_is_eagain) /* M36 */
{
	open_world((struct world_config){.block_size = 1024});
	page_cache_fail_alloc(world.cache, 0, 1000);
	cr_assert_eq(world_write_flags(file, 0, "x", 1, IOCB_NOWAIT), -EAGAIN);
	page_cache_fail_alloc(world.cache, 0, 0);
	for (unsigned int n = 0;; n++) {
		ssize_t written;

		env_alloc_fail(n, 100);
		written = world_write_flags(file, 65536 * n, "x", 1, IOCB_NOWAIT);
		if (!env_alloc_fail(0, 0))
			break;
		cr_assert(written == -EAGAIN || written == -ENOMEM || written == 1,
			  "write says %zd", written);
		cr_assert_neq(written, -ENOMEM, "allocation %u", n);
	}
}

Test(iomap_buffered_write, nowait_over_the_dirty_limit_is_eagain) /* M36 */
{
	static char memory[1 << 20];
	ssize_t written = 1;
	uint64_t pos = 0;

	open_world((struct world_config){.capacity = 4 * MiB, .file_max = 8 * MiB});
	world_hold_io(&world, BIO_WRITE);
	while (pos < 8 * MiB && written > 0) {
		written = world_write_flags(file, pos, memory, 65536, IOCB_NOWAIT);
		pos += written > 0 ? (uint64_t)written : 0;
	}
	cr_assert_eq(written, -EAGAIN);
	cr_assert_lt(pos, 4 * MiB);
	world_heal(&world);
	cr_assert_eq(world_fsync(file), 0);
}

Test(iomap_buffered_write, cancelled_thread_writes_nothing) /* D10 */
{
	open_world((struct world_config){0});
	env_task_self.local[ENV_LOCAL_CANCELLED] = 1;
	cr_assert_eq(world_write(file, 0, "abc", 3), -EINTR);
	env_task_self.local[ENV_LOCAL_CANCELLED] = 0;
	cr_assert_eq(file->inode.i_mapping.nr_pages, 0);
	cr_assert_eq(inode_size_read(&file->inode), 0);
}

/* ---- the folios a write makes ---- */

static struct {
	uint64_t index;
	unsigned int order;
} made[256];
static unsigned int nr_made;

static void note_folio(void *arg, const struct inode *inode, uint64_t index, unsigned int order)
{
	(void)arg;
	(void)inode;
	if (nr_made < 256) {
		made[nr_made].index = index;
		made[nr_made].order = order;
	}
	nr_made++;
}

static unsigned int log2_floor(uint64_t value)
{
	return 63u - (unsigned int)__builtin_clzll(value);
}

/* The rule of M42 for one step. */
static unsigned int expected_order(uint64_t index, uint64_t len, unsigned int shift,
				   unsigned int max)
{
	unsigned int hint = log2_floor(len) > shift ? log2_floor(len) - shift : 0;
	unsigned int align = index ? (unsigned int)__builtin_ctzll(index) : 63;

	hint = hint < max ? hint : max;
	return hint < align ? hint : align;
}

static void folios_of_a_write(uint32_t page, uint32_t max_folio)
{
	static const uint64_t cases[][2] = {
		{0, 1 << 20}, {4096, 1 << 20},	{0, 20480}, {20000, 300000}, {65536, 65536},
		{12288, 5},   {1000000, 77777}, {0, 4095},  {61440, 8192},   {131072, 700001}};
	unsigned int shift = log2_floor(page);
	unsigned int max = log2_floor(max_folio) - shift;

	open_world((struct world_config){
		.page_size = page, .max_folio = max_folio, .block_size = 4096});
	world_set(file, 0, 4 * MiB, IOMAP_UNWRITTEN);
	page_cache_trace_insert(world.cache, note_folio, NULL);
	for (unsigned int i = 0; i < 10; i++) {
		uint64_t pos = cases[i][0], end = pos + cases[i][1];

		nr_made = 0;
		world_fill(file, pos, cases[i][1], 1);
		for (unsigned int j = 0; j < nr_made; j++) {
			uint64_t index = pos >> shift;
			uint64_t chunk = max_folio - pos % max_folio;
			uint64_t len = end - pos < chunk ? end - pos : chunk;

			cr_assert_eq(made[j].index, index);
			cr_assert_eq(made[j].order, expected_order(index, len, shift, max));
			/* M45 */
			cr_assert_leq((index + (1ull << made[j].order)) << shift,
				      (index << shift) + (len > page ? len : page));
			pos = (index + (1ull << made[j].order)) << shift;
		}
		cr_assert_geq(pos, end);
		cr_assert_eq(world_truncate(file, 0), 0);
		world_set(file, 0, 4 * MiB, IOMAP_UNWRITTEN);
	}
	page_cache_trace_insert(world.cache, NULL, NULL);
}

Test(iomap_buffered_write, folio_orders_follow_length_and_alignment) /* M41 M42 M45 */
{
	folios_of_a_write(4096, 2 * MiB);
	close_world();
	folios_of_a_write(4096, 4096);
	close_world();
	folios_of_a_write(4096, 65536);
	close_world();
	folios_of_a_write(65536, 2 * MiB);
}

Test(iomap_buffered_write, short_maps_make_small_folios) /* M42, J10 */
{
	open_world((struct world_config){.max_map = 8192});
	world_fill(file, 0, 65536, 1);
	for (uint64_t pos = 0; pos < 65536; pos += 8192)
		cr_assert_eq(world_order(file, pos), 1);
}

Test(iomap_buffered_write, without_memory_for_a_large_folio_smaller_ones_do) /* M43 */
{
	open_world((struct world_config){0});
	for (unsigned int order = 9; order > 0; order--) {
		page_cache_fail_alloc(world.cache, order, 1000);
		world_fill(file, 0, 2 * MiB, order);
		for (uint64_t pos = 0; pos < 2 * MiB; pos += 4096)
			cr_assert_eq(world_order(file, pos), (int)order - 1);
		cr_assert(world_reads_as(file, 0, 2 * MiB, order));
		cr_assert_eq(world_truncate(file, 0), 0);
	}
	page_cache_fail_alloc(world.cache, 0, 10000);
	cr_assert_eq(world_write(file, 0, "x", 1), -ENOMEM);
	page_cache_fail_alloc(world.cache, 0, 0);
	cr_assert_eq(inode_size_read(&file->inode), 0);
}

Test(iomap_buffered_write, one_failed_allocation_costs_one_order) /* M43 */
{
	open_world((struct world_config){0});
	page_cache_fail_alloc(world.cache, 0, 3);
	world_fill(file, 0, 65536, 1);
	page_cache_fail_alloc(world.cache, 0, 0);
	cr_assert_leq(world_order(file, 0), 4);
	cr_assert(world_reads_as(file, 0, 65536, 1));
}

Test(iomap_buffered_write, folio_in_the_way_makes_neighbours_smaller) /* M44 */
{
	open_world((struct world_config){0});
	world_fill(file, 0, 100, 1);
	world_fill(file, 40960, 4096, 2);
	world_fill(file, 100, 65536, 3);
	world_check(&world);
	cr_assert_eq(world_order(file, 0), 0);
	cr_assert_eq(world_order(file, 40960), 0);
	cr_assert(world_reads_as(file, 0, 100, 1));
	cr_assert(world_reads_as(file, 100, 65536, 3));
}

Test(iomap_buffered_write, large_blocks_are_never_cut) /* M46 */
{
	static const uint32_t blocks[] = {8192, 16384, 65536};

	for (unsigned int i = 0; i < 3; i++) {
		struct blkdev_count count;

		open_world((struct world_config){.block_size = blocks[i]});
		world_fill(file, 100, 100, 1);
		world_fill(file, 300000, 5, 1);
		cr_assert_eq(world_fsync(file), 0);
		world_drop(&world);
		world_drop(&world);
		cr_assert(world_reads_as(file, 100, 100, 1));
		cr_assert(world_reads_zero(file, 0, 100));
		blkdev_count_read(world.dev, &count);
		for (unsigned int b = 0; b < BLKDEV_HIST_BUCKETS; b++)
			if (1ull << b < blocks[i])
				cr_assert(!count.write_hist[b] && !count.read_hist[b]);
		if (i < 2)
			close_world();
	}
}

/* ---- growing the file ---- */

Test(iomap_buffered_write, gap_behind_the_old_end_reads_as_zero) /* M1, D30 */
{
	static const uint64_t ends[] = {1, 511, 512, 513, 1000, 4095, 4096, 5000};
	static const uint64_t starts[] = {5001, 8191, 8192, 20000};

	open_world((struct world_config){.block_size = 512});
	for (unsigned int i = 0; i < 8; i++) {
		for (unsigned int j = 0; j < 4; j++) {
			struct folio *folio;
			uint64_t page = ends[i] / 4096 * 4096;

			world_fill(file, 0, ends[i], 1);
			/* A store through a mapping left garbage behind the end. */
			folio = world_folio(file, page);
			if (folio) {
				memset(folio->data + (ends[i] - folio_pos(folio)), 0xEE,
				       folio_pos(folio) + folio_size(folio) - ends[i]);
				folio_put(folio);
			}
			world_fill(file, starts[j], 100, 2);
			cr_assert(world_reads_as(file, 0, ends[i], 1));
			cr_assert(world_reads_zero(file, ends[i], starts[j] - ends[i]));
			cr_assert(world_reads_as(file, starts[j], 100, 2));
			cr_assert_eq(world_truncate(file, 0), 0);
		}
	}
}

/* ---- inline data ---- */

Test(iomap_buffered_write, inline_data_is_read_and_written_in_memory) /* A6 */
{
	char back[40] = "";

	open_world((struct world_config){.block_size = 1024});
	world_set_inline(file, "0123456789", 10, 200);
	cr_assert_eq(world_read(file, 3, back, 40), 7);
	cr_assert_eq(memcmp(back, "3456789", 7), 0);
	cr_assert_eq(world_write(file, 8, "abcdef", 6), 6);
	cr_assert_eq(inode_size_read(&file->inode), 14);
	cr_assert_eq(memcmp(file->inline_data, "01234567abcdef", 14), 0);
	cr_assert_eq(file->inode.i_mapping.nr_dirty, 0);
	cr_assert(file->inode.i_state & I_DIRTY_DATASYNC);
	world_drop(&world);
	world_drop(&world);
	cr_assert_eq(world_read(file, 0, back, 40), 14);
	cr_assert_eq(memcmp(back, "01234567abcdef", 14), 0);
	cr_assert_eq(world_zero(file, 2, 3, NULL), 0);
	cr_assert_eq(memcmp(file->inline_data,
			    "01\0\0\0"
			    "567abcdef",
			    14),
		     0);
	cr_assert_eq(world_io(&world).reads, 0);
	cr_assert_eq(world_fsync(file), 0);
}

static int no_inline_data(struct world_file *f, uint64_t pos, uint64_t len, unsigned int flags,
			  struct iomap *map, struct iomap *src)
{
	(void)pos;
	(void)len;
	(void)flags;
	(void)src;
	map->type = IOMAP_INLINE;
	map->addr = IOMAP_NULL_ADDR;
	map->inline_data = f->arg;
	return 0;
}

Test(iomap_buffered_write, impossible_inline_maps_are_eio) /* A6 */
{
	static char data[65536];
	char byte;

	open_world((struct world_config){0});
	world_set(file, 0, 16384, IOMAP_UNWRITTEN);
	world_set(file, 8192, 4096, IOMAP_MAPPED);
	file->on_begin = no_inline_data; /* null data */
	cr_assert_eq(world_read(file, 0, &byte, 1), -EIO);
	cr_assert_eq(world_write(file, 0, "x", 1), -EIO);
	file->arg = data; /* does not start at 0 */
	cr_assert_eq(world_write(file, 8192, "x", 1), -EIO);
	file->on_begin = NULL;
	world_drop(&world);
}

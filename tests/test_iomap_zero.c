/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_iomap_zero.c - zeroing through the cache, and truncating with its help
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

TestSuite(iomap_zero, .fini = close_world);

static const struct {
	uint32_t page, block;
} sizes[] = {
	{4096, 512},   {4096, 1024},  {4096, 4096},  {4096, 16384},
	{4096, 65536}, {65536, 1024}, {65536, 4096}, {65536, 65536},
};

#define NR_SIZES (sizeof(sizes) / sizeof(sizes[0]))

#define ON_EACH_SIZE(name)                                                                         \
	static void name(uint64_t block);                                                          \
	Test(iomap_zero, name)                                                                     \
	{                                                                                          \
		for (unsigned int i = 0; i < NR_SIZES; i++) {                                      \
			open_world((struct world_config){.page_size = sizes[i].page,               \
							 .block_size = sizes[i].block});           \
			name(sizes[i].block);                                                      \
			if (i + 1 < NR_SIZES)                                                      \
				close_world();                                                     \
		}                                                                                  \
	}                                                                                          \
	static void name(uint64_t block)

ON_EACH_SIZE(mapped_space_becomes_zero_and_only_its_blocks_dirty) /* M89 M33 */
{
	bool did_zero = false;

	world_set(file, 0, 8 * block, IOMAP_MAPPED);
	cr_assert_eq(world_zero(file, block + 10, 2 * block, &did_zero), 0);
	cr_assert(did_zero);
	cr_assert_eq(world_nr_dirty_blocks(file), 3);
	cr_assert_eq(inode_size_read(&file->inode), 8 * block);
	for (unsigned int i = 0; i < 2; i++) {
		cr_assert(world_reads_as(file, 0, block + 10, 0));
		cr_assert(world_reads_zero(file, block + 10, 2 * block));
		cr_assert(world_reads_as(file, 3 * block + 10, 5 * block - 10, 0));
		cr_assert_eq(world_fsync(file), 0);
		world_drop(&world);
		world_drop(&world);
	}
}

ON_EACH_SIZE(delayed_space_becomes_zero) /* M89 */
{
	world_fill(file, 0, 8 * block, 1);
	cr_assert_eq(file->blocks[0].type, IOMAP_DELALLOC);
	cr_assert_eq(world_zero(file, block + 10, 2 * block, NULL), 0);
	for (unsigned int i = 0; i < 2; i++) {
		cr_assert(world_reads_as(file, 0, block + 10, 1));
		cr_assert(world_reads_zero(file, block + 10, 2 * block));
		cr_assert(world_reads_as(file, 3 * block + 10, 5 * block - 10, 1));
		cr_assert_eq(world_fsync(file), 0);
		world_drop(&world);
		world_drop(&world);
	}
}

ON_EACH_SIZE(shared_space_becomes_zero_in_its_own_place) /* M89 M23 */
{
	unsigned char byte;
	uint64_t addr;

	world_set_shared(file, 0, 4 * block);
	addr = file->blocks[1].addr;
	cr_assert_eq(world_zero(file, block + 10, block, NULL), 0);
	cr_assert_eq(world_fsync(file), 0);
	world_drop(&world);
	world_drop(&world);
	cr_assert(world_reads_as(file, 0, block + 10, 0));
	cr_assert(world_reads_zero(file, block + 10, block));
	cr_assert(world_reads_as(file, 2 * block + 10, 2 * block - 10, 0));
	world_device_read(&world, addr + 10, &byte, 1);
	cr_assert_eq(byte, world_byte(0, block + 10));
}

ON_EACH_SIZE(nothing_is_done_where_nothing_is) /* M90 */
{
	bool did_zero = false;

	world_set_size(file, 16 * block);
	world_set(file, 8 * block, 8 * block, IOMAP_UNWRITTEN);
	cr_assert(world_reads_zero(file, 0, 16 * block)); /* clean cache */
	cr_assert_eq(world_zero(file, 100, 15 * block, &did_zero), 0);
	cr_assert_not(did_zero);
	cr_assert_eq(file->inode.i_mapping.nr_dirty, 0);
	for (unsigned int i = 0; i < 8; i++)
		cr_assert_eq(file->blocks[i].type, IOMAP_HOLE);
	world_drop(&world);
	world_drop(&world);
	cr_assert_eq(world_zero(file, 100, 15 * block, NULL), 0);
	cr_assert_eq(file->inode.i_mapping.nr_pages, 0);
	cr_assert_eq(world.config.space - world.space_left, 8 * block);
}

ON_EACH_SIZE(dirty_data_over_unwritten_space_becomes_zero) /* M91 */
{
	world_set(file, 0, 16 * block, IOMAP_UNWRITTEN);
	world_fill(file, 2 * block + 5, block, 1);
	world_fill(file, 9 * block, 2 * block, 1);
	cr_assert_eq(world_zero(file, 2 * block + 100, 8 * block, NULL), 0);
	for (unsigned int i = 0; i < 2; i++) {
		cr_assert(world_reads_as(file, 2 * block + 5, 95, 1));
		cr_assert(world_reads_zero(file, 2 * block + 100, 8 * block));
		cr_assert(world_reads_as(file, 10 * block + 100, block - 100, 1));
		cr_assert(world_reads_zero(file, 11 * block, 5 * block));
		cr_assert_eq(world_fsync(file), 0);
		world_drop(&world);
		world_drop(&world);
	}
}

Test(iomap_zero, failing_flush_before_zeroing_is_reported) /* G3 */
{
	open_world((struct world_config){0});
	world_set(file, 0, 65536, IOMAP_UNWRITTEN);
	world_fill(file, 8192, 4096, 1);
	world_fail_io(&world, BIO_WRITE, 0, 0, -EIO);
	cr_assert_eq(world_zero(file, 0, 65536, NULL), -EIO);
	world_heal(&world);
	cr_assert_eq(world_zero(file, 0, 65536, NULL), 0);
	cr_assert_eq(file->nr_begins, file->nr_ends);
	cr_assert_eq(world_fsync(file), -EIO);
}

Test(iomap_zero, stale_and_short_maps_zero_all_the_same) /* M8 M89 */
{
	open_world((struct world_config){.block_size = 512, .max_map = 1024});
	world_set(file, 0, 65536, IOMAP_MAPPED);
	file->stale_every = 2;
	cr_assert_eq(world_zero(file, 100, 50000, NULL), 0);
	file->stale_every = 0;
	cr_assert(world_reads_as(file, 0, 100, 0));
	cr_assert(world_reads_zero(file, 100, 50000));
	cr_assert(world_reads_as(file, 50100, 15436, 0));
}

Test(iomap_zero, error_in_the_middle_is_returned) /* G1, B9 */
{
	open_world((struct world_config){.max_map = 4096});
	world_set(file, 0, 65536, IOMAP_MAPPED);
	file->begin_error = -ENOMEM;
	file->begin_error_after = 3;
	cr_assert_eq(world_zero(file, 0, 65536, NULL), -ENOMEM);
	file->begin_error = 0;
	cr_assert(world_reads_zero(file, 0, 12288));
	cr_assert(world_reads_as(file, 12288, 53248, 0));
}

/* ---- truncate ---- */

ON_EACH_SIZE(block_boundary_needs_no_zeroing) /* M92 */
{
	bool did_zero = false;

	world_set(file, 0, 8 * block, IOMAP_MAPPED);
	cr_assert_eq(iomap_truncate_page(&file->inode, 3 * block, &did_zero, &world_ops,
					 &world_write_ops, NULL),
		     0);
	cr_assert_not(did_zero);
	cr_assert_eq(file->nr_begins, 0);
	cr_assert_eq(file->inode.i_mapping.nr_pages, 0);
}

ON_EACH_SIZE(down_and_up_again_leaves_zeroes) /* M93 M94 */
{
	const uint64_t from[] = {0, 1, block, block + 1, 3 * block - 1, 3 * block + 1};

	for (unsigned int i = 0; i < 6; i++) {
		for (unsigned int dirty = 0; dirty < 2; dirty++) {
			cr_assert_eq(world_truncate(file, 0), 0);
			world_fill(file, 0, 8 * block, 1);
			if (!dirty)
				cr_assert_eq(world_fsync(file), 0);
			cr_assert_eq(world_truncate(file, from[i]), 0);
			for (uint64_t pos = (from[i] + 65535) / 65536 * 65536; pos < 8 * block;
			     pos += 4096)
				if (pos >= from[i] + 512 * KiB)
					cr_assert_eq(world_order(file, pos), -1);
			cr_assert_eq(world_truncate(file, 8 * block), 0);
			for (unsigned int j = 0; j < 2; j++) {
				if (from[i])
					cr_assert(world_reads_as(file, 0, from[i], 1));
				cr_assert(world_reads_zero(file, from[i], 8 * block - from[i]));
				cr_assert_eq(world_fsync(file), 0);
				world_drop(&world);
				world_drop(&world);
			}
		}
	}
}

ON_EACH_SIZE(no_folio_is_cached_past_the_new_end) /* M94 */
{
	const uint64_t to[] = {7 * block, 5 * block + 1, 3 * block, 1, 0};

	world_fill(file, 0, 8 * block, 1);
	for (unsigned int i = 0; i < 5; i++) {
		struct address_space *mapping = &file->inode.i_mapping;
		uint64_t index = (to[i] + (1ull << mapping->page_shift) - 1) >> mapping->page_shift;
		struct folio_batch batch;

		cr_assert_eq(world_truncate(file, to[i]), 0);
		if (filemap_get_folios(mapping, &index, UINT64_MAX >> 16, FILEMAP_ANY, &batch)) {
			/* Only one that reaches over from before the end. */
			cr_assert_eq(batch.nr, 1);
			cr_assert_lt(folio_pos(batch.folios[0]), to[i]);
			filemap_release_folios(&batch);
		}
	}
}

Test(iomap_zero, truncated_tail_is_zero_on_the_device_too) /* G8 M93 */
{
	unsigned char memory[1024];

	open_world((struct world_config){.block_size = 1024});
	world_set(file, 0, 8192, IOMAP_MAPPED);
	cr_assert_eq(world_truncate(file, 5000), 0);
	cr_assert_eq(world_fsync(file), 0);
	world_device_read(&world, file->blocks[4].addr, memory, 1024);
	for (uint64_t i = 0; i < 1024; i++)
		cr_assert_eq(memory[i], 4096 + i < 5000 ? world_byte(0, 4096 + i) : 0);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_iomap_delalloc.c - reservations: given back when a write does not need them, kept under
 * dirty data
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

TestSuite(iomap_delalloc, .fini = close_world);

static const struct {
	uint32_t page, block;
} sizes[] = {
	{4096, 512},   {4096, 1024},  {4096, 4096},  {4096, 16384},
	{4096, 65536}, {65536, 1024}, {65536, 4096}, {65536, 65536},
};

#define NR_SIZES (sizeof(sizes) / sizeof(sizes[0]))

#define ON_EACH_SIZE(name)                                                                         \
	static void name(uint64_t block);                                                          \
	Test(iomap_delalloc, name)                                                                 \
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

/* A block is reserved exactly if it is dirty (M37); nothing past the end is (M39). */
static void check_reservations(void)
{
	uint64_t unit = world.config.block_size;
	uint64_t reserved = 0;

	for (uint64_t i = 0; i < file->nr_blocks; i++) {
		bool delayed = file->blocks[i].type == IOMAP_DELALLOC;

		cr_assert_eq(delayed,
			     world_is_dirty(file, i * unit) && file->blocks[i].type != IOMAP_MAPPED,
			     "block %llu", (unsigned long long)i);
		if (delayed)
			cr_assert_lt(i * unit, inode_size_read(&file->inode));
		reserved += delayed * unit;
	}
	cr_assert_eq(world.reserved, reserved);
	cr_assert_not(file->punched_dirty); /* M38 */
}

static ssize_t write_until(uint64_t pos, uint64_t len, uint64_t bad)
{
	unsigned char *memory = malloc(len);
	struct world_source source;
	ssize_t written;

	for (uint64_t i = 0; i < len; i++)
		memory[i] = world_byte(1, pos + i);
	world_source_init(&source, memory, len);
	source.bad_at = bad;
	written = world_write_from(file, pos, &source.iter, 0);
	free(memory);
	return written;
}

ON_EACH_SIZE(short_write_keeps_only_what_it_wrote) /* M37 M39 */
{
	const uint64_t bad[] = {0, 1, block - 1, block, block + 1, 3 * block, 70000, 7 * block + 5};

	for (unsigned int i = 0; i < 8; i++) {
		ssize_t written = write_until(0, 8 * block + 70000, bad[i]);

		cr_assert_eq(written, bad[i] ? (ssize_t)bad[i] : -EFAULT);
		check_reservations();
		cr_assert_eq(world_truncate(file, 0), 0);
		cr_assert_eq(world.reserved, 0); /* M40 */
	}
}

ON_EACH_SIZE(failed_write_spares_dirty_blocks_of_others) /* M37 M38 */
{
	/* Dirty islands; the long write over and around them fails in its middle. */
	world_set_size(file, 32 * block);
	for (uint64_t i = 1; i < 30; i += 5)
		world_fill(file, i * block, 2 * block, 2);
	check_reservations();
	for (unsigned int i = 0; i < 20; i++) {
		uint64_t pos = i * block + 17;

		cr_assert_eq(write_until(pos, 10 * block, 0), -EFAULT);
		check_reservations();
	}
	for (uint64_t i = 1; i < 30; i += 5)
		cr_assert(world_reads_as(file, i * block, 2 * block, 2));
}

static void dirty_behind_the_writer(struct world_file *f)
{
	static bool done;
	struct folio *folio;
	uint64_t pos = 8 * world.config.block_size;

	if (done)
		return;
	done = true;
	/* A fault on another part of the same reservation. */
	(void)f;
	folio = world_folio(file, pos);
	cr_assert(folio);
	folio_lock(folio);
	iomap_dirty_folio(folio);
	folio_unlock_put(folio);
}

Test(iomap_delalloc, block_dirtied_by_a_fault_keeps_the_reservation) /* M37 M38, L32 */
{
	char byte;

	open_world((struct world_config){.max_folio = 4096});
	world_set_size(file, 65536);
	cr_assert_eq(world_read(file, 32768, &byte, 1), 1);
	file->on_valid = dirty_behind_the_writer;
	/* Needs a step that copies something before it fails for good. */
	cr_assert_eq(write_until(0, 65536, 4096), 4096);
	cr_assert_eq(file->blocks[0].type, IOMAP_DELALLOC);
	cr_assert_eq(file->blocks[1].type, IOMAP_HOLE);
	cr_assert_eq(file->blocks[8].type, IOMAP_DELALLOC);
	cr_assert_eq(file->blocks[9].type, IOMAP_HOLE);
	check_reservations();
}

/* ---- the release alone ---- */

static struct {
	uint64_t pos, end;
} punched[64];
static unsigned int nr_punched;

static void note_punch(struct inode *inode, uint64_t pos, uint64_t len, void *arg)
{
	cr_assert_eq(inode, &file->inode);
	cr_assert_eq(arg, &nr_punched);
	cr_assert_gt(len, 0);
	for (uint64_t at = pos; at < pos + len && at < inode_size_read(inode); at += 512)
		cr_assert_not(world_is_dirty(file, at)); /* M38 */
	punched[nr_punched].pos = pos;
	punched[nr_punched++].end = pos + len;
}

static void release(uint64_t start, uint64_t end)
{
	nr_punched = 0;
	env_rwsem_write_lock(&file->inode.i_mapping.invalidate_lock);
	iomap_write_delalloc_release(&file->inode, start, end, note_punch, &nr_punched);
	env_rwsem_write_unlock(&file->inode.i_mapping.invalidate_lock);
}

/* Each block of [start, end) is punched, or dirty and below i_size; in order, none twice. */
static void check_release(uint64_t start, uint64_t end)
{
	uint64_t at = start;

	release(start, end);
	for (unsigned int i = 0; i < nr_punched; i++) {
		cr_assert_geq(punched[i].pos, at);
		for (; at < punched[i].pos; at += 512)
			cr_assert(world_is_dirty(file, at) && at < inode_size_read(&file->inode));
		at = punched[i].end;
		cr_assert_leq(at, end);
	}
	for (; at < end; at += 512)
		cr_assert(world_is_dirty(file, at) && at < inode_size_read(&file->inode));
}

Test(iomap_delalloc, release_punches_all_but_dirty_blocks) /* M38 M39, D34 */
{
	struct env_rng rng;

	for (unsigned int seed = 1; seed <= 12; seed++) {
		open_world((struct world_config){.block_size = 512, .max_folio = 16384});
		env_rng_seed(&rng, seed);
		world_set(file, 0, 128 * KiB, IOMAP_UNWRITTEN);
		for (unsigned int i = 0; i < 12; i++)
			world_fill(file, env_rng_below(&rng, 200) * 512,
				   (1 + env_rng_below(&rng, 40)) * 512, 1);
		if (seed % 2) {
			cr_assert(world_reads_zero(file, 0, 1));
			inode_size_write(&file->inode, 64 * KiB + 700);
		}
		for (unsigned int i = 0; i < 30; i++) {
			uint64_t a = env_rng_below(&rng, 300), b = env_rng_below(&rng, 300);

			check_release((a < b ? a : b) * 512, (a < b ? b : a) * 512);
		}
		inode_size_write(&file->inode, 128 * KiB);
		if (seed < 12)
			close_world();
	}
}

Test(iomap_delalloc, release_keeps_a_dirty_folio_without_state) /* D34 */
{
	open_world((struct world_config){.block_size = 512});
	world_set(file, 0, 65536, IOMAP_UNWRITTEN);
	world_fill(file, 16384, 16384, 1);
	cr_assert_not(world_has_state(file, 16384));
	check_release(0, 65536);
	cr_assert_eq(nr_punched, 2);
	cr_assert_eq(punched[0].end, 16384);
	cr_assert_eq(punched[1].pos, 32768);
	check_release(20480, 24576);
	cr_assert_eq(nr_punched, 0);
	check_release(20480, 40960);
	cr_assert_eq(nr_punched, 1);
}

/* ---- the counters ---- */

ON_EACH_SIZE(reservations_end_with_the_file_or_its_writeback) /* M40 */
{
	world_fill(file, 0, 10 * block, 1);
	cr_assert_eq(world.reserved, 10 * block);
	cr_assert_eq(world_truncate(file, 0), 0);
	cr_assert_eq(world.reserved, 0);
	cr_assert_eq(world.space_left, world.config.space);
	world_fill(file, 0, 10 * block, 1);
	cr_assert_eq(world_fsync(file), 0);
	cr_assert_eq(world.reserved, 0);
	cr_assert_eq(world_truncate(file, 0), 0);
	world_fill(file, 0, 10 * block, 1);
	file->wb_error = -ENOSPC;
	file->wb_len = 100 * block;
	cr_assert_eq(world_fsync(file), -ENOSPC);
	cr_assert_eq(world.reserved, 0);
	file->wb_len = 0;
	cr_assert_eq(world_truncate(file, 0), 0);
	cr_assert_eq(world.space_left, world.config.space);
}

ON_EACH_SIZE(full_device_gives_a_short_write_then_enospc) /* M30 M31 */
{
	uint64_t pos;

	world.space_left = 5 * block;
	pos = (uint64_t)write_until(100, 8 * block, UINT64_MAX);
	cr_assert_eq(pos, 5 * block - 100);
	cr_assert_eq(world_write(file, 100 + pos, "x", 1), -ENOSPC);
	check_reservations();
	cr_assert(world_reads_zero(file, 0, 100));
	cr_assert(world_reads_as(file, 100, pos, 1));
	cr_assert_eq(inode_size_read(&file->inode), 5 * block);
	cr_assert_eq(world_fsync(file), 0);
	world.space_left += world.config.space - 5 * block;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_iomap_errors.c - a script of operations in which the n-th request or allocation fails,
 * for every n until none fails
 *
 * Whatever fails, an operation gives an error or a short count, what it reports done is done,
 * no other byte changes, and no folio stays locked or under writeback.
 */
#include "world.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SIZE 160000u
#define EDGE 65536u /* data before it, unwritten space behind */

static struct world world;
static struct world_file *file;

/* For each byte the values it may have; the first is the one the cache must show. */
static unsigned char now[2 * SIZE];
static unsigned char old[2 * SIZE]; /* what the device may still have after a failed write */
static uint64_t size;
static unsigned int nr_errors; /* operations that failed or came out short */

static void open_world(struct world_config config)
{
	world_open(&world, &config);
	file = world.file;
	world_set(file, 0, EDGE, IOMAP_MAPPED);
	world_set(file, EDGE, EDGE, IOMAP_UNWRITTEN);
	world_set_size(file, SIZE);
	memset(now, 0, sizeof(now));
	for (uint64_t pos = 0; pos < EDGE; pos++)
		now[pos] = world_byte(0, pos);
	memcpy(old, now, sizeof(old));
	size = SIZE;
	nr_errors = 0;
}

static void close_world(void)
{
	world_check(&world);
	world_close(&world);
}

/* ---- the operations of the script ---- */

static void do_write(uint64_t pos, uint64_t len, unsigned int tag)
{
	static unsigned char memory[2 * SIZE];
	ssize_t written;

	for (uint64_t i = 0; i < len; i++)
		memory[i] = world_byte(tag, pos + i);
	written = world_write(file, pos, memory, len);
	cr_assert(written <= (ssize_t)len && written != 0);
	if (written != (ssize_t)len)
		nr_errors++;
	if (written <= 0)
		return;
	memcpy(now + pos, memory, (size_t)written);
	if (pos + (uint64_t)written > size)
		size = pos + (uint64_t)written;
	cr_assert_eq(size, inode_size_read(&file->inode));
}

static void do_read(uint64_t pos, uint64_t len)
{
	static unsigned char memory[2 * SIZE];
	ssize_t got = world_read(file, pos, memory, len);
	uint64_t expected = pos + len <= size ? len : size - pos;

	cr_assert_leq(got, (ssize_t)expected);
	if (got != (ssize_t)expected)
		nr_errors++;
	if (got > 0)
		cr_assert_eq(memcmp(memory, now + pos, (size_t)got), 0);
}

/* An error leaves part of the range zeroed, which part is not told. */
static bool do_zero(uint64_t pos, uint64_t len)
{
	if (!world_zero(file, pos, len, NULL)) {
		memset(now + pos, 0, len);
		return true;
	}
	nr_errors++;
	return false;
}

static int do_fsync(void)
{
	int err = world_fsync(file);

	filemap_fdatawait_range(&file->inode.i_mapping, 0, UINT64_MAX);
	if (err)
		nr_errors++;
	return err;
}

/* ---- reads that fail (M134 M51 M52 M31) ---- */

static void script_of_reads(void)
{
	do_write(100, 50, 1); /* reads a block */
	do_read(0, 3000);
	do_write(7000, 9001, 2); /* reads at both ends */
	do_read(0, SIZE);
	do_zero(12000, 100); /* may read */
	do_write(SIZE - 10, 3000, 3);
	do_read(EDGE, SIZE);
}

static void each_read_fails(struct world_config config, uint64_t count)
{
	unsigned int nr = 0;

	for (uint64_t n = 0;; n++) {
		uint64_t hits;

		open_world(config);
		world_fail_io(&world, BIO_READ, n, count, -EIO);
		script_of_reads();
		hits = blkdev_fault_hits(world.fault);
		world_heal(&world);
		filemap_fdatawait_range(&file->inode.i_mapping, 0, UINT64_MAX);
		world_check(&world);
		if (!hits)
			cr_assert_eq(nr_errors, 0);
		do_read(0, size); /* nothing is lost, nothing is wrong */
		cr_assert(!nr_errors || hits);
		cr_assert_eq(do_fsync(), 0);
		world_drop(&world);
		world_drop(&world);
		nr_errors = 0;
		do_read(0, size);
		cr_assert_eq(nr_errors, 0);
		nr = (unsigned int)n;
		if (!hits)
			break;
		close_world();
	}
	cr_assert_geq(nr, 2);
}

Test(iomap_errors, each_single_read_that_fails, .fini = close_world) /* M134 M31 M51 M52 */
{
	each_read_fails((struct world_config){.block_size = 1024, .max_folio = 16384}, 1);
	close_world();
	each_read_fails((struct world_config){.block_size = 4096, .max_folio = 8192}, 1);
	close_world();
	each_read_fails((struct world_config){.block_size = 16384}, 1);
	close_world();
	each_read_fails((struct world_config){.block_size = 512, .page_size = 65536}, 1);
	close_world();
	each_read_fails(
		(struct world_config){.block_size = 512, .max_folio = 4096, .max_map = 2048}, 1);
}

Test(iomap_errors, all_reads_from_each_one_on_fail, .fini = close_world) /* M134 M52 */
{
	each_read_fails((struct world_config){.block_size = 1024, .max_folio = 16384}, 0);
	close_world();
	each_read_fails((struct world_config){.block_size = 4096, .workers = 1}, 0);
}

/* ---- writes that fail (M134 M82 M72 M65) ---- */

static int script_of_writes(void)
{
	int err = 0, err2;

	do_write(100, 5000, 1);
	do_write(EDGE - 500, 9000, 2);
	err = do_fsync();
	do_write(30000, SIZE, 3);
	do_write(0, 1024, 3);
	err2 = do_fsync();
	return err ? err : err2;
}

/* Each block on the device is all new, or what it was before. */
static void check_device_blocks(void)
{
	uint64_t unit = world.config.block_size;
	static unsigned char block[65536];

	for (uint64_t pos = 0; pos < size; pos += unit) {
		uint64_t len = size - pos < unit ? size - pos : unit;
		bool same = true, before = true, between = true;

		world_disk_read(file, pos, block, len);
		for (uint64_t i = 0; i < len; i++) {
			uint64_t at = pos + i;
			bool first =
				(at >= 100 && at < 5100) || (at >= EDGE - 500 && at < EDGE + 8500);
			unsigned int tag = at < 5100 ? 1 : 2;

			same &= block[i] == now[at];
			before &= block[i] == old[at];
			between &= block[i] == (first ? world_byte(tag, at) : old[at]);
		}
		cr_assert(same || before || between, "block at %llu", (unsigned long long)pos);
	}
}

static void each_write_fails(struct world_config config, uint64_t count)
{
	for (uint64_t n = 0;; n++) {
		uint64_t hits;
		int err;

		open_world(config);
		world_fail_io(&world, BIO_WRITE, n, count, -EIO);
		err = script_of_writes();
		hits = blkdev_fault_hits(world.fault);
		world_heal(&world);
		world_check(&world);
		cr_assert_eq(err, hits ? -EIO : 0); /* M82 M83 */
		cr_assert_eq(world_nr_dirty_blocks(file), 0);
		cr_assert_eq(world_fsync(file), 0);
		do_read(0, size);
		check_device_blocks();
		cr_assert_leq(file->disk_size, size); /* M71 */
		if (!hits)
			cr_assert_eq(file->disk_size, size);
		if (!hits)
			break;
		close_world();
		cr_assert_lt(n, 100);
	}
}

Test(iomap_errors, each_single_write_that_fails, .fini = close_world) /* M134 M65 M72 M82 */
{
	each_write_fails((struct world_config){.block_size = 1024, .max_folio = 16384}, 1);
	close_world();
	each_write_fails((struct world_config){.block_size = 4096, .max_folio = 4096}, 1);
	close_world();
	each_write_fails((struct world_config){.block_size = 16384, .workers = 1}, 1);
	close_world();
	each_write_fails((struct world_config){.block_size = 512, .page_size = 65536}, 1);
}

Test(iomap_errors, all_writes_from_each_one_on_fail, .fini = close_world) /* M134 M65 */
{
	each_write_fails((struct world_config){.block_size = 1024, .max_folio = 16384}, 0);
	close_world();
	each_write_fails((struct world_config){.block_size = 4096, .workers = 2}, 0);
}

/* ---- the back end's errors ---- */

Test(iomap_errors, each_map_of_writeback_fails, .fini = close_world) /* M74 M65 M40 */
{
	for (uint64_t pos = 0; pos < SIZE; pos += 1024) {
		uint64_t failed = 0;

		open_world((struct world_config){.block_size = 1024, .max_folio = 8192});
		do_write(0, SIZE, 1);
		file->wb_error = -ENOSPC;
		file->wb_pos = pos;
		file->wb_len = 1024;
		cr_assert_eq(do_fsync(), -ENOSPC);
		world_check(&world);
		cr_assert_eq(world.reserved, 0);
		file->wb_len = 0;
		cr_assert_eq(do_fsync(), 0);
		for (uint64_t at = 0; at < SIZE; at += 1024)
			failed += !world_disk_has(file, at, at + 1024 < SIZE ? 1024 : SIZE - at, 1);
		/* The rest of its folio at most. */
		cr_assert_geq(failed, 1);
		cr_assert_leq(failed, 8);
		if (pos + 1024 < SIZE)
			close_world();
	}
}

Test(iomap_errors, each_begin_of_a_script_fails, .fini = close_world) /* M2 M3 */
{
	for (unsigned int n = 0;; n++) {
		open_world((struct world_config){.block_size = 1024, .max_map = 4096});
		file->begin_error = -EREMOTEIO;
		file->begin_error_after = n;
		script_of_reads();
		file->begin_error = 0;
		world_check(&world);
		cr_assert_leq(file->nr_ends, file->nr_begins);
		if (!nr_errors && file->begin_error_after)
			break;
		nr_errors = 0;
		do_read(0, 12000);
		do_read(12100, size);
		cr_assert_eq(nr_errors, 0);
		close_world();
		cr_assert_lt(n, 500);
	}
}

/* ---- no memory (M133 M43) ---- */

static void script_of_all(void)
{
	do_write(100, 50, 1);
	do_read(0, 9000);
	do_write(5000, 30000, 2);
	do_fsync();
	if (!do_zero(700, 3000))
		do_write(700, 3000, 6); /* it is known again */
	do_write(SIZE - 5, 10000, 4);
	do_write(20000, 1, 5);
	do_fsync();
	do_read(0, size);
}

/*
 * The cache must be right whenever the script was told so.  What could not be zeroed is written
 * again below, with memory.
 */
static void check_after_no_memory(bool failed)
{
	filemap_fdatawait_range(&file->inode.i_mapping, 0, UINT64_MAX);
	world_check(&world);
	cr_assert(failed || !nr_errors);
	do_zero(700, 3000);
	nr_errors = 0;
	do_read(0, size);
	cr_assert_eq(nr_errors, 0);
	world_fill(file, 0, size, 9);
	cr_assert_eq(world_writepages(file, WB_SYNC_ALL, INT64_MAX), 0);
	filemap_fdatawait_range(&file->inode.i_mapping, 0, UINT64_MAX);
	world_drop(&world);
	world_drop(&world);
	cr_assert(world_reads_as(file, 0, size, 9));
	cr_assert(world_disk_has(file, 0, size, 9));
}

static void each_allocation_fails(struct world_config config, unsigned int count)
{
	for (unsigned int n = 0;; n++) {
		unsigned int failed;

		open_world(config);
		env_alloc_fail(n, count);
		script_of_all();
		failed = env_alloc_fail(0, 0);
		check_after_no_memory(failed);
		if (!failed)
			break;
		close_world();
		cr_assert_lt(n, 2000);
	}
}

Test(iomap_errors, each_single_allocation_that_fails, .fini = close_world) /* M133 */
{
	each_allocation_fails((struct world_config){.block_size = 1024, .max_folio = 16384}, 1);
	close_world();
	each_allocation_fails((struct world_config){.block_size = 4096, .max_folio = 4096}, 1);
	close_world();
	each_allocation_fails((struct world_config){.block_size = 512, .page_size = 65536}, 1);
	close_world();
	each_allocation_fails((struct world_config){.block_size = 16384, .workers = 1}, 1);
}

Test(iomap_errors, allocations_that_fail_for_a_while, .fini = close_world) /* M133 */
{
	static const unsigned int counts[] = {2, 5, 30};

	for (unsigned int i = 0; i < 3; i++) {
		each_allocation_fails((struct world_config){.block_size = 512, .max_folio = 8192},
				      counts[i]);
		if (i < 2)
			close_world();
	}
}

Test(iomap_errors, folio_allocations_of_each_order_that_fail, .fini = close_world) /* M133 M43 */
{
	static const unsigned int counts[] = {1, 2, 3, 5, 10, 1000};

	for (unsigned int order = 0; order < 6; order++) {
		for (unsigned int i = 0; i < 6; i++) {
			open_world((struct world_config){.block_size = 1024});
			page_cache_fail_alloc(world.cache, order, counts[i]);
			script_of_all();
			page_cache_fail_alloc(world.cache, 0, 0);
			if (order > 0)
				cr_assert_eq(nr_errors, 0);
			check_after_no_memory(true);
			if (order < 5 || i < 5)
				close_world();
		}
	}
}

Test(iomap_errors, fragmented_memory_makes_small_folios, .fini = close_world) /* M43 */
{
	open_world((struct world_config){.block_size = 1024});
	page_cache_fragment(world.cache, 1);
	script_of_all();
	cr_assert_eq(nr_errors, 0);
	for (uint64_t pos = 0; pos < SIZE; pos += 4096)
		cr_assert_leq(world_order(file, pos), 1);
	page_cache_defragment(world.cache);
	check_after_no_memory(false);
}

Test(iomap_errors, cache_full_of_dirty_folios_is_written_to_make_room,
     .fini = close_world) /* M133 */
{
	open_world((struct world_config){.capacity = 2 * MiB});
	for (uint64_t pos = 0; pos < 7 * MiB; pos += 64 * KiB)
		world_fill(file, pos, 64 * KiB, 7);
	for (uint64_t pos = 0; pos < 7 * MiB; pos += 64 * KiB)
		cr_assert(world_reads_as(file, pos, 64 * KiB, 7));
	cr_assert_eq(world_fsync(file), 0);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_iomap_ioend.c - what makes one write request and what starts another
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

TestSuite(iomap_ioend, .fini = close_world);

/* Each ioend is where the table says, and together they cover [pos, pos + len). */
static void check_ioends(uint64_t pos, uint64_t len)
{
	for (unsigned int i = 0; i < file->nr_ioends; i++) {
		const struct world_ioend *ioend = &file->ioends[i];

		cr_assert_eq(ioend->offset, pos);
		cr_assert_eq(ioend->addr, file->blocks[pos / world.config.block_size].addr);
		pos += ioend->size;
		len -= ioend->size;
	}
	cr_assert_eq(len, 0);
}

/* ---- one ---- */

Test(iomap_ioend, neighbouring_folios_are_one) /* M67 */
{
	open_world((struct world_config){.max_folio = 4096});
	world_set(file, 0, 1 * MiB, IOMAP_MAPPED);
	world_fill(file, 0, 1 * MiB, 1);
	cr_assert_eq(world_fsync(file), 0);
	cr_assert_eq(file->nr_ioends, 1);
	cr_assert_eq(file->ioends[0].folios, 256);
	cr_assert_eq(file->ioends[0].bio_len, 1 * MiB);
	check_ioends(0, 1 * MiB);
	cr_assert_eq(world_io(&world).writes, 1);
}

Test(iomap_ioend, neighbouring_maps_are_one) /* M67 */
{
	open_world((struct world_config){.block_size = 512, .max_map = 512, .page_size = 65536});
	world_set(file, 0, 65536, IOMAP_MAPPED);
	world_fill(file, 0, 65536, 1);
	cr_assert_eq(world_fsync(file), 0);
	cr_assert_geq(file->nr_lookups, 128);
	cr_assert_eq(file->nr_ioends, 1);
	cr_assert_eq(file->ioends[0].folios, 1);
}

Test(iomap_ioend, delayed_extent_becomes_one) /* F13 M67 */
{
	open_world((struct world_config){.max_folio = 65536});
	for (uint64_t pos = 0; pos < 1 * MiB; pos += 10000)
		world_fill(file, pos, 10000, 1);
	cr_assert_eq(world_fsync(file), 0);
	cr_assert_eq(file->nr_ioends, 1);
	cr_assert_eq(file->ioends[0].flags, IOMAP_IOEND_UNWRITTEN);
}

/* ---- several ---- */

Test(iomap_ioend, clean_block_between_makes_two) /* M68 M59 */
{
	open_world((struct world_config){.block_size = 1024});
	world_set(file, 0, 16384, IOMAP_MAPPED);
	cr_assert(world_reads_as(file, 0, 16384, 0));
	world_fill(file, 0, 2048, 1);
	world_fill(file, 3072, 1024, 1);
	cr_assert_eq(world_fsync(file), 0);
	cr_assert_eq(file->nr_ioends, 2);
}

Test(iomap_ioend, jump_on_the_device_makes_two) /* M68 */
{
	open_world((struct world_config){0});
	world_set(file, 0, 8192, IOMAP_MAPPED);
	world_set(file, 12288, 8192, IOMAP_MAPPED);
	world_set(file, 8192, 4096, IOMAP_MAPPED);
	world_fill(file, 0, 20480, 1);
	cr_assert_eq(world_fsync(file), 0);
	cr_assert_eq(file->nr_ioends, 3);
	check_ioends(0, 20480);
}

Test(iomap_ioend, unwritten_and_mapped_are_apart) /* M68 */
{
	open_world((struct world_config){0});
	world_set(file, 0, 65536, IOMAP_MAPPED);
	file->blocks[4].type = IOMAP_UNWRITTEN;
	file->blocks[5].type = IOMAP_UNWRITTEN;
	world_fill(file, 0, 65536, 1);
	cr_assert_eq(world_fsync(file), 0);
	cr_assert_eq(file->nr_ioends, 3);
	cr_assert_eq(file->ioends[0].flags, 0);
	cr_assert_eq(file->ioends[1].flags, IOMAP_IOEND_UNWRITTEN);
	cr_assert_eq(file->ioends[1].size, 8192);
	cr_assert_eq(file->ioends[2].flags, 0);
}

Test(iomap_ioend, shared_and_own_are_apart) /* M68 */
{
	open_world((struct world_config){0});
	world_set(file, 0, 65536, IOMAP_MAPPED);
	world_set_shared(file, 16384, 8192);
	world_fill(file, 0, 65536, 1);
	cr_assert_eq(world_fsync(file), 0);
	cr_assert_eq(file->nr_ioends, 3);
	cr_assert_eq(file->ioends[1].flags, IOMAP_IOEND_SHARED);
	cr_assert_eq(file->ioends[1].offset, 16384);
	cr_assert_eq(file->ioends[1].size, 8192);
	cr_assert(world_disk_has(file, 0, 65536, 1));
}

Test(iomap_ioend, boundary_starts_a_new_one) /* M68 */
{
	open_world((struct world_config){.max_folio = 4096});
	world_set(file, 0, 65536, IOMAP_MAPPED);
	file->blocks[7].boundary = true;
	world_fill(file, 0, 65536, 1);
	cr_assert_eq(world_fsync(file), 0);
	cr_assert_eq(file->nr_ioends, 2);
	cr_assert_eq(file->ioends[1].offset, 7 * 4096);
	cr_assert_eq(file->ioends[1].flags, IOMAP_IOEND_BOUNDARY);
	check_ioends(0, 65536);
}

Test(iomap_ioend, uncached_and_cached_data_are_apart) /* M68, D39 */
{
	static char memory[8192];

	open_world((struct world_config){.max_folio = 4096});
	world_set(file, 0, 32768, IOMAP_MAPPED);
	world_fill(file, 0, 8192, 1);
	world_fill(file, 16384, 8192, 1);
	cr_assert_eq(world_write_flags(file, 8192, memory, 8192, IOCB_DONTCACHE), 8192);
	filemap_fdatawait_range(&file->inode.i_mapping, 0, UINT64_MAX);
	cr_assert_eq(file->nr_ioends, 1);
	cr_assert_eq(file->ioends[0].flags, IOMAP_IOEND_DONTCACHE);
	cr_assert_eq(file->ioends[0].offset, 8192);
	cr_assert_eq(world_fsync(file), 0);
	cr_assert_eq(file->nr_ioends, 3);
	cr_assert_eq(file->ioends[1].flags, 0);
}

Test(iomap_ioend, one_has_at_most_4096_folios) /* M69 */
{
	open_world((struct world_config){
		.max_folio = 4096, .capacity = 32 * MiB, .file_max = 32 * MiB});
	world_set(file, 0, 17 * MiB, IOMAP_MAPPED);
	world_fill(file, 0, 17 * MiB, 1);
	cr_assert_eq(world_fsync(file), 0);
	cr_assert_eq(file->nr_ioends, 2);
	cr_assert_eq(file->ioends[0].folios, 4096);
	cr_assert_eq(file->ioends[1].folios, 256);
	check_ioends(0, 17 * MiB);
	cr_assert(world_disk_has(file, 0, 17 * MiB, 1));
}

Test(iomap_ioend, size_is_exact_at_the_end_of_the_file) /* M70, F18 F19 */
{
	static const uint64_t ends[] = {1, 1023, 1024, 1025, 4095, 4096, 4097, 70000};

	for (unsigned int i = 0; i < 8; i++) {
		open_world((struct world_config){.block_size = 1024});
		world_fill(file, 0, ends[i], 1);
		cr_assert_eq(world_fsync(file), 0);
		cr_assert_eq(file->nr_ioends, 1);
		cr_assert_eq(file->ioends[0].size, ends[i]);
		cr_assert_eq(file->ioends[0].bio_len, (ends[i] + 1023) / 1024 * 1024);
		cr_assert_eq(file->disk_size, ends[i]);
		if (i < 7)
			close_world();
	}
}

/* ---- completion ---- */

static uint32_t nr_done;
static int done_error;

static void done_by_test(struct iomap_ioend *ioend)
{
	__atomic_fetch_add(&nr_done, 1, __ATOMIC_RELAXED);
	if (ioend->io_error)
		__atomic_store_n(&done_error, ioend->io_error, __ATOMIC_RELAXED);
	iomap_finish_ioend(ioend);
}

static int submit_by_test(struct iomap_writepage_ctx *wpc, struct iomap_ioend *ioend, int error)
{
	cr_assert_null(wpc->ioend); /* F22 */
	return iomap_ioend_submit(ioend, error ? error : (int)(intptr_t)file->arg, done_by_test);
}

static int pass_of_test(void)
{
	struct iomap_writeback_ops ops = {
		.writeback_range = world_writeback_ops.writeback_range,
		.writeback_submit = submit_by_test,
	};
	struct writeback_control wbc = {
		.sync_mode = WB_SYNC_ALL,
		.nr_to_write = INT64_MAX,
		.range_end = UINT64_MAX,
	};
	struct iomap_writepage_ctx wpc = {.inode = &file->inode, .wbc = &wbc, .ops = &ops};

	return iomap_writepages(&wpc);
}

Test(iomap_ioend, each_is_completed_once) /* M65 */
{
	open_world((struct world_config){.block_size = 1024, .workers = 2});
	world_set(file, 0, 1 * MiB, IOMAP_MAPPED);
	for (uint64_t pos = 0; pos < 1 * MiB; pos += 3072)
		world_fill(file, pos, 1024, 1);
	cr_assert_eq(pass_of_test(), 0);
	filemap_fdatawait_range(&file->inode.i_mapping, 0, UINT64_MAX);
	cr_assert_eq(world_io(&world).writes, 342);
	while (__atomic_load_n(&nr_done, __ATOMIC_RELAXED) != 342)
		env_sleep_ns(100000);
	cr_assert_eq(done_error, 0);
}

Test(iomap_ioend, submission_with_an_error_does_no_io) /* M65, F21 */
{
	open_world((struct world_config){.block_size = 1024});
	world_set(file, 0, 65536, IOMAP_MAPPED);
	world_fill(file, 0, 65536, 1);
	file->arg = (void *)(intptr_t)-ENOSPC;
	cr_assert_eq(pass_of_test(), -ENOSPC);
	cr_assert_eq(nr_done, 1);
	cr_assert_eq(done_error, -ENOSPC);
	cr_assert_eq(world_io(&world).writes, 0);
	world_check(&world);
	cr_assert_eq(world_fsync(file), -ENOSPC);
}

Test(iomap_ioend, error_is_recorded_before_writeback_ends) /* M82, L47 */
{
	open_world((struct world_config){0});
	world_set(file, 0, 65536, IOMAP_MAPPED);
	world_fill(file, 0, 65536, 1);
	world_fail_io(&world, BIO_WRITE, 0, 0, -ENOSPC);
	cr_assert_eq(pass_of_test(), 0);
	filemap_fdatawait_range(&file->inode.i_mapping, 0, UINT64_MAX);
	cr_assert_eq(mapping_check_errors(&file->inode.i_mapping), -ENOSPC);
	world_heal(&world);
	cr_assert_eq(world_fsync(file), -ENOSPC);
}

/* ---- lists of finished ones (F26) ---- */

static struct iomap_ioend make(uint64_t offset, uint64_t size, uint64_t addr, unsigned int flags)
{
	return (struct iomap_ioend){
		.io_offset = offset, .io_size = size, .io_addr = addr, .io_flags = flags};
}

Test(iomap_ioend, sorting_is_by_position_and_stable)
{
	static struct iomap_ioend ioends[200];
	struct list_head list;
	struct iomap_ioend *ioend;
	struct env_rng rng;

	open_world((struct world_config){0});
	env_rng_seed(&rng, 7);
	for (unsigned int nr = 0; nr <= 200; nr += nr < 8 ? 1 : 32) {
		uint64_t last = 0;
		unsigned int seen = 0;
		const struct iomap_ioend *before = NULL;

		list_init(&list);
		for (unsigned int i = 0; i < nr; i++) {
			ioends[i] = make(env_rng_below(&rng, 50) * 4096, 4096, 0, 0);
			list_add_tail(&ioends[i].io_list, &list);
		}
		iomap_sort_ioends(&list);
		list_for_each_entry(ioend, &list, struct iomap_ioend, io_list) {
			cr_assert_geq(ioend->io_offset, last);
			if (before && before->io_offset == ioend->io_offset)
				cr_assert_lt(before, ioend);
			before = ioend;
			last = ioend->io_offset;
			seen++;
		}
		cr_assert_eq(seen, nr);
	}
}

Test(iomap_ioend, only_true_neighbours_can_be_finished_together)
{
	struct iomap_ioend a = make(0, 8192, 1 << 20, IOMAP_IOEND_UNWRITTEN);
	struct iomap_ioend b = make(8192, 4096, (1 << 20) + 8192, IOMAP_IOEND_UNWRITTEN);

	open_world((struct world_config){0});
	cr_assert(iomap_ioend_can_merge(&a, &b));
	cr_assert_not(iomap_ioend_can_merge(&b, &a));
	b.io_flags |= IOMAP_IOEND_BOUNDARY;
	cr_assert_not(iomap_ioend_can_merge(&a, &b));
	b.io_flags = IOMAP_IOEND_UNWRITTEN;
	a.io_flags |= IOMAP_IOEND_BOUNDARY; /* of the first it says nothing */
	cr_assert(iomap_ioend_can_merge(&a, &b));
	for (unsigned int flag = 1; flag <= IOMAP_IOEND_DONTCACHE; flag <<= 1) {
		if (!(flag & IOMAP_IOEND_NOMERGE))
			continue;
		b.io_flags = IOMAP_IOEND_UNWRITTEN ^ flag;
		cr_assert_not(iomap_ioend_can_merge(&a, &b));
	}
	b.io_flags = IOMAP_IOEND_UNWRITTEN;
	b.io_error = -EIO;
	cr_assert_not(iomap_ioend_can_merge(&a, &b));
	a.io_error = -EIO;
	cr_assert(iomap_ioend_can_merge(&a, &b));
	b.io_addr += 4096;
	cr_assert_not(iomap_ioend_can_merge(&a, &b));
	b.io_addr -= 4096;
	a.io_size -= 1; /* cut at the end of the file */
	cr_assert_not(iomap_ioend_can_merge(&a, &b));
}

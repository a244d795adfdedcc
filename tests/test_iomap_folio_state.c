/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_iomap_folio_state.c - which blocks of a folio are uptodate, which are dirty
 */
#include "world.h"

#include <criterion/criterion.h>
#include <errno.h>
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

TestSuite(iomap_folio_state, .fini = close_world);

static struct folio *locked_folio(uint64_t pos)
{
	struct folio *folio = world_folio(file, pos);

	cr_assert(folio);
	folio_lock(folio);
	return folio;
}

static uint64_t state_bytes(void)
{
	struct page_cache_stats stats;

	page_cache_get_stats(world.cache, &stats);
	return stats.state_bytes;
}

Test(iomap_folio_state, folio_of_one_block_has_none) /* M11 */
{
	static const struct {
		uint32_t page, block;
	} sizes[] = {{4096, 4096}, {4096, 16384}, {4096, 65536}, {65536, 65536}};
	char byte;

	for (unsigned int i = 0; i < 4; i++) {
		open_world((struct world_config){.page_size = sizes[i].page,
						 .block_size = sizes[i].block,
						 .max_folio = sizes[i].block});
		world_set(file, 0, 4 * sizes[i].block, IOMAP_MAPPED);
		cr_assert_eq(world_read(file, 0, &byte, 1), 1);
		cr_assert_eq(world_write(file, 10, "abc", 3), 3);
		cr_assert_not(world_has_state(file, 0));
		cr_assert_eq(state_bytes(), 0);
		cr_assert_eq(world_fsync(file), 0);
		cr_assert_not(world_has_state(file, 0));
		if (i < 3)
			close_world();
	}
}

Test(iomap_folio_state, attaching_to_a_dirty_folio_changes_no_answer) /* M12 */
{
	open_world((struct world_config){.block_size = 512});
	world_fill(file, 0, 65536, 1);
	cr_assert_eq(world_order(file, 0), 4);
	cr_assert_not(world_has_state(file, 0));
	for (uint64_t pos = 0; pos < 65536; pos += 512)
		cr_assert(world_is_dirty(file, pos) && world_is_uptodate(file, pos));
	world_fill(file, 700, 10, 1);
	cr_assert(world_has_state(file, 0));
	for (uint64_t pos = 0; pos < 65536; pos += 512)
		cr_assert(world_is_dirty(file, pos) && world_is_uptodate(file, pos));
}

Test(iomap_folio_state, attaching_to_a_clean_folio_changes_no_answer) /* M12 */
{
	struct folio *folio;

	open_world((struct world_config){.block_size = 1024});
	world_fill(file, 0, 16384, 1);
	cr_assert_eq(world_fsync(file), 0);
	folio = locked_folio(0);
	cr_assert(iomap_release_folio(folio));
	cr_assert_not(iomap_folio_has_state(folio));
	folio_unlock_put(folio);
	world_fill(file, 5000, 10, 1);
	cr_assert(world_has_state(file, 0));
	for (uint64_t pos = 0; pos < 16384; pos += 1024) {
		cr_assert(world_is_uptodate(file, pos));
		cr_assert_eq(world_is_dirty(file, pos), pos == 4096);
	}
}

/* A folio of many blocks, of which none is uptodate. */
static void empty_folio(uint64_t size)
{
	world_set(file, 0, size, IOMAP_UNWRITTEN);
	/* The whole folio fails to be read, so it stays, with nothing in it. */
	world_set(file, 0, size, IOMAP_MAPPED);
	world_fail_io(&world, BIO_READ, 0, 0, -EIO);
	cr_assert_eq(world_write(file, 0, "x", 1), -EIO);
	world_heal(&world);
}

Test(iomap_folio_state, folio_is_uptodate_when_its_last_block_is) /* M13 */
{
	struct folio *folio;

	open_world((struct world_config){.block_size = 512, .page_size = 65536});
	empty_folio(65536);
	/* Every second block, then the others from the end. */
	for (uint64_t pos = 0; pos < 65536; pos += 1024)
		world_fill(file, pos, 512, 1);
	for (uint64_t pos = 65536 - 512; pos > 512; pos -= 1024) {
		world_fill(file, pos, 512, 1);
		world_check(&world);
	}
	folio = world_folio(file, 0);
	cr_assert_not(folio_test(folio, FOLIO_UPTODATE));
	world_fill(file, 512, 512, 1);
	cr_assert(folio_test(folio, FOLIO_UPTODATE));
	folio_put(folio);
	cr_assert_eq(world_io(&world).reads, 1); /* the one that failed */
	cr_assert(world_reads_as(file, 0, 65536, 1));
}

Test(iomap_folio_state, dirty_and_uptodate_are_exact_across_words) /* M14 M15 M24 */
{
	static const unsigned int from[] = {0, 1, 62, 63, 64, 65, 127, 128, 190, 255};
	static const unsigned int nr[] = {1, 2, 3, 64, 65, 128};

	open_world(
		(struct world_config){.block_size = 512, .page_size = 65536, .max_folio = 131072});
	for (unsigned int i = 0; i < 10; i++) {
		for (unsigned int j = 0; j < 6; j++) {
			unsigned int end = from[i] + nr[j] < 256 ? from[i] + nr[j] : 256;

			cr_assert_eq(world_truncate(file, 0), 0);
			world_set(file, 0, 131072, IOMAP_UNWRITTEN);
			cr_assert(world_reads_zero(file, 0, 131072));
			world_fill(file, from[i] * 512, (end - from[i]) * 512, 1);
			for (unsigned int b = 0; b < 256; b++)
				cr_assert_eq(world_is_dirty(file, b * 512),
					     b >= from[i] && b < end);
			world_check(&world);
		}
	}
}

Test(iomap_folio_state, dirtying_a_folio_dirties_all_its_blocks) /* M25 */
{
	struct folio *folio;

	open_world((struct world_config){.block_size = 1024, .page_size = 65536});
	world_set(file, 0, 10000, IOMAP_MAPPED);
	cr_assert(world_reads_as(file, 0, 10000, 0));
	folio = locked_folio(0);
	cr_assert(iomap_dirty_folio(folio));
	cr_assert_not(iomap_dirty_folio(folio));
	folio_unlock_put(folio);
	/* Also those past the end of the file. */
	for (uint64_t pos = 0; pos < 65536; pos += 1024)
		cr_assert(world_is_dirty(file, pos));
}

Test(iomap_folio_state, dirty_folio_is_not_released) /* M101 */
{
	struct folio *folio;

	open_world((struct world_config){.block_size = 512});
	world_fill(file, 0, 4096, 1);
	world_fill(file, 100, 10, 1);
	folio = locked_folio(0);
	cr_assert_not(iomap_release_folio(folio));
	folio_unlock_put(folio);
	cr_assert(world_has_state(file, 0));
	cr_assert_eq(world_nr_dirty_blocks(file), 8);
	cr_assert_eq(world_fsync(file), 0);
	folio = locked_folio(0);
	cr_assert(iomap_release_folio(folio));
	folio_unlock_put(folio);
	cr_assert_not(world_has_state(file, 0));
	cr_assert_eq(world_nr_dirty_blocks(file), 0);
}

Test(iomap_folio_state, invalidating_a_part_changes_nothing) /* M102 */
{
	static const struct {
		uint64_t off, len;
	} parts[] = {{0, 512}, {512, 3584}, {0, 4095}, {1, 4095}, {100, 10}, {4095, 1}};
	struct folio *folio;

	open_world((struct world_config){.block_size = 512});
	world_set(file, 0, 4096, IOMAP_MAPPED);
	world_fill(file, 512, 1024, 1);
	for (unsigned int i = 0; i < 6; i++) {
		folio = locked_folio(0);
		iomap_invalidate_folio(folio, parts[i].off, parts[i].len);
		folio_unlock_put(folio);
		cr_assert(world_has_state(file, 0));
		for (uint64_t pos = 0; pos < 4096; pos += 512) {
			cr_assert_eq(world_is_dirty(file, pos), pos == 512 || pos == 1024);
			cr_assert_eq(world_is_uptodate(file, pos), pos == 512 || pos == 1024);
		}
	}
	folio = locked_folio(0);
	iomap_invalidate_folio(folio, 0, 4096);
	folio_unlock_put(folio);
	cr_assert_not(world_has_state(file, 0));
	cr_assert_eq(world_nr_dirty_blocks(file), 0);
	cr_assert(world_reads_as(file, 0, 4096, 0));
}

Test(iomap_folio_state, partially_uptodate_is_the_and_of_the_touched_blocks) /* M103 */
{
	static const char uptodate[] = "0110100111010001";
	struct folio *folio;

	open_world((struct world_config){.block_size = 512, .page_size = 8192});
	empty_folio(8192);
	folio = world_folio(file, 0);
	for (unsigned int b = 0; b < 16; b++)
		if (uptodate[b] == '1')
			world_fill(file, b * 512, 512, 1);
	for (uint64_t from = 0; from < 8192; from += 128) {
		for (uint64_t len = 1; len <= 8192 + 512; len += 127) {
			uint64_t end = from + len < 8192 ? from + len : 8192;
			bool all = true;

			for (uint64_t b = from / 512; b <= (end - 1) / 512; b++)
				all &= uptodate[b] == '1';
			cr_assert_eq(iomap_is_partially_uptodate(folio, from, len), all);
		}
	}
	folio_put(folio);
}

Test(iomap_folio_state, without_state_nothing_is_partially_uptodate) /* M103 */
{
	struct folio *folio;

	open_world((struct world_config){.block_size = 512});
	world_fill(file, 0, 4096, 1);
	folio = world_folio(file, 0);
	cr_assert_not(iomap_folio_has_state(folio));
	cr_assert_not(iomap_is_partially_uptodate(folio, 0, 512));
	folio_put(folio);
}

Test(iomap_folio_state, memory_of_states_is_given_back) /* M16 */
{
	open_world((struct world_config){.block_size = 512});
	world_set(file, 0, 1 * MiB, IOMAP_MAPPED);
	cr_assert(world_reads_as(file, 0, 1 * MiB, 0));
	cr_assert_gt(state_bytes(), 0);
	world_drop(&world);
	world_drop(&world);
	cr_assert_eq(state_bytes(), 0);
}

Test(iomap_folio_state, partly_uptodate_folio_that_is_released_is_read_again) /* M105, G18 */
{
	struct folio *folio;

	open_world((struct world_config){.block_size = 512});
	world_set(file, 0, 4096, IOMAP_MAPPED);
	world_fill(file, 1024, 512, 1);
	cr_assert_eq(world_fsync(file), 0);
	folio = locked_folio(0);
	cr_assert(iomap_release_folio(folio));
	folio_unlock_put(folio);
	for (uint64_t pos = 0; pos < 4096; pos += 512)
		cr_assert_not(world_is_uptodate(file, pos));
	cr_assert(world_reads_as(file, 0, 1024, 0));
	cr_assert(world_reads_as(file, 1024, 512, 1));
	cr_assert(world_reads_as(file, 1536, 2560, 0));
}

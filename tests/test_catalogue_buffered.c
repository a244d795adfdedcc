/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_catalogue_buffered.c - failures that page caches had: buffered reads and writes
 */
#include "tests/bed.h"

#include <errno.h>
#include <stdlib.h>
#include "tests/world.h"

/* B17: a file that grew is read in its new part at once. */
BED_TEST(catalogue_buffered, b17_growing_and_reading_the_fresh_part)
{
	unsigned char memory[100];

	bed_truncate(bed, MiB);
	bed_assert(bed, bed_reads(bed, 512 * KiB, 4 * KiB, 0));
	bed_assert(bed, fs_read(bed->file, memory, sizeof(memory), MiB - 10) == 10);
	bed_write(bed, 0, 10, 'A');
}

/* What a write copies from; before the copy that begins at `at`, something else happens. */
struct interrupted {
	struct world_source source; /* first */
	uint64_t at;
	void (*happens)(struct world *world);
	struct world *world;
	unsigned int times;
};

static size_t interrupted_fault_in(struct iov_iter *iter, size_t len)
{
	struct interrupted *from = (struct interrupted *)iter;
	size_t n = from->source.iter.count;

	if (from->times == 0 && from->source.iter.done >= from->at) {
		from->times++;
		from->happens(from->world);
	}
	return len < n ? len : n;
}

static void write_out_and_drop(struct world *world)
{
	cr_assert_eq(world_writepages(world->file, WB_SYNC_ALL, INT64_MAX), 0);
	filemap_fdatawait_range(&world->file->inode.i_mapping, 0, UINT64_MAX);
	world_drop(world);
}

/* B29: while a long write is under way, a block of its map is written and evicted. */
Test(catalogue_buffered, b29_a_map_that_goes_stale_under_a_long_write)
{
	struct world world;
	struct world_config config = {.alloc = WORLD_UNWRITTEN, .max_folio = 4096};
	struct interrupted from = {.at = 4096, .happens = write_out_and_drop, .world = &world};
	unsigned char *memory = malloc(36865);
	unsigned char last;

	world_open(&world, &config);
	world_set(world.file, 0, 40 * KiB, IOMAP_UNWRITTEN);
	cr_assert_eq(world_write(world.file, 40959, "X", 1), 1);
	for (uint64_t i = 0; i < 36865; i++)
		memory[i] = world_byte(1, i);
	world_source_init(&from.source, memory, 36865);
	from.source.iter.fault_in = interrupted_fault_in;
	cr_assert_eq(world_write_from(world.file, 0, &from.source.iter, 0), 36865);
	cr_assert_eq(from.times, 1);
	for (unsigned int i = 0; i < 2; i++) {
		cr_assert(world_reads_as(world.file, 0, 36865, 1));
		cr_assert(world_reads_zero(world.file, 36865, 40959 - 36865));
		cr_assert_eq(world_read(world.file, 40959, &last, 1), 1);
		cr_assert_eq(last, 'X');
		cr_assert_eq(world_fsync(world.file), 0);
		world_drop(&world);
	}
	free(memory);
	world_check(&world);
	world_close(&world);
}

/* B31: the third piece of a write cannot be read at first; the first two stay. */
Test(catalogue_buffered, b31_a_piece_that_faults_once_does_not_undo_the_pieces_before)
{
	static const char pieces[] = "aaaaaaaaaabbbbbbbbbbcccccccccc";
	struct world world;
	struct world_config config = {0};
	struct world_source source;
	char memory[30];

	world_open(&world, &config);
	world_source_init(&source, (const unsigned char *)pieces, 30);
	source.short_at[0] = 20;
	cr_assert_eq(world_write_from(world.file, 0, &source.iter, 0), 30);
	cr_assert_eq(source.nr_short, 1);
	for (unsigned int i = 0; i < 2; i++) {
		cr_assert_eq(world_read(world.file, 0, memory, 30), 30);
		cr_assert_arr_eq(memory, pieces, 30);
		cr_assert_eq(inode_size_read(&world.file->inode), 30);
		cr_assert_eq(world_fsync(world.file), 0);
		world_drop(&world);
	}
	world_check(&world);
	world_close(&world);
}

/* B32: a write that begins at the end of the file, inside a block that is not cached. */
BED_TEST(catalogue_buffered, b32_a_write_at_the_end_reads_the_block_it_begins_in)
{
	bed_write(bed, 0, 32, 'A');
	bed_remount(bed);
	bed_write(bed, 32, 32, 'B');
}

/* B33: a copy comes out short in a folio that was not cached. */
static void short_copy(uint32_t block_size, uint32_t max_folio)
{
	struct world world;
	struct world_config config = {.block_size = block_size, .max_folio = max_folio};
	unsigned char *memory = malloc(40000);
	struct world_source source;

	world_open(&world, &config);
	world_set(world.file, 0, 64 * KiB, IOMAP_MAPPED);
	for (uint64_t i = 0; i < 40000; i++)
		memory[i] = world_byte(1, 1000 + i);
	world_source_init(&source, memory, 40000);
	source.short_at[0] = 5000;
	cr_assert_eq(world_write_from(world.file, 1000, &source.iter, 0), 40000);
	cr_assert_eq(source.nr_short, 1);
	for (unsigned int i = 0; i < 2; i++) {
		cr_assert(world_reads_as(world.file, 0, 1000, 0));
		cr_assert(world_reads_as(world.file, 1000, 40000, 1));
		cr_assert(world_reads_as(world.file, 41000, 64 * KiB - 41000, 0));
		cr_assert_eq(world_fsync(world.file), 0);
		world_drop(&world);
	}
	free(memory);
	world_check(&world);
	world_close(&world);
}

Test(catalogue_buffered, b33_a_short_copy_does_not_shift_the_rest_of_the_write)
{
	short_copy(4096, 16 * KiB);
	short_copy(1024, 4 * KiB);
	short_copy(16 * KiB, 16 * KiB);
}

/* The source cannot be read any further: what is said to be stored is, and nothing else is. */
static void broken_source(uint32_t block_size, uint32_t page_size, uint64_t readable)
{
	struct world world;
	struct world_config config = {.block_size = block_size, .page_size = page_size};
	unsigned char *memory = malloc(40000);
	struct world_source source;
	ssize_t n;

	world_open(&world, &config);
	world_set(world.file, 0, 64 * KiB, IOMAP_MAPPED);
	for (uint64_t i = 0; i < 40000; i++)
		memory[i] = world_byte(1, 1000 + i);
	world_source_init(&source, memory, 40000);
	source.short_at[0] = readable;
	source.bad_at = readable;
	n = world_write_from(world.file, 1000, &source.iter, 0);
	cr_assert(n > 0 && (uint64_t)n <= readable, "%zd", n);
	for (unsigned int i = 0; i < 2; i++) {
		cr_assert(world_reads_as(world.file, 0, 1000, 0));
		cr_assert(world_reads_as(world.file, 1000, (size_t)n, 1));
		cr_assert(world_reads_as(world.file, 1000 + (uint64_t)n,
					 64 * KiB - 1000 - (size_t)n, 0));
		cr_assert_eq(world_fsync(world.file), 0);
		world_drop(&world);
	}
	free(memory);
	world_check(&world);
	world_close(&world);
}

Test(catalogue_buffered, b33_what_the_source_did_not_give_is_untouched)
{
	for (uint64_t readable = 1; readable < 40000; readable = readable * 3 + 1) {
		broken_source(4096, 4096, readable);
		broken_source(4096, 16 * KiB, readable);
		broken_source(1024, 4096, readable);
		broken_source(16 * KiB, 16 * KiB, readable);
	}
}

/* B35: a folio made for the whole write goes when only a part can be stored. */
Test(catalogue_buffered, b35_a_source_that_breaks_leaves_no_large_folio_behind_the_end)
{
	struct world world;
	struct world_config config = {.max_folio = 64 * KiB};
	unsigned char *memory = calloc(1, 64 * KiB);
	struct world_source source;

	world_open(&world, &config);
	world_source_init(&source, memory, 64 * KiB);
	source.short_at[0] = 100;
	source.bad_at = 100;
	cr_assert_eq(world_write_from(world.file, 0, &source.iter, 0), 100);
	cr_assert_eq(inode_size_read(&world.file->inode), 100);
	cr_assert_eq(world.file->inode.i_mapping.nr_pages, 1);
	cr_assert_eq(world_truncate(world.file, 64 * KiB), 0);
	cr_assert(world_reads_zero(world.file, 0, 64 * KiB));
	free(memory);
	world_check(&world);
	world_close(&world);
}

/* B36: the second of two reservations fails; the write keeps the first and no more. */
Test(catalogue_buffered, b36_a_reservation_that_fails_leaves_nothing_reserved)
{
	struct world world;
	struct world_config config = {.max_map = 32 * KiB};
	unsigned char *memory = calloc(1, 64 * KiB);

	world_open(&world, &config);
	for (unsigned int i = 0; i < 1000; i++) {
		world.file->begin_error = -EDQUOT;
		world.file->begin_error_after = i % 2;
		cr_assert_eq(world_write(world.file, 0, memory, 64 * KiB),
			     i % 2 ? (ssize_t)(32 * KiB) : -EDQUOT);
		world.file->begin_error = 0;
		cr_assert_eq(world.reserved, i % 2 ? 32 * KiB : 0);
		cr_assert_eq(world.file->inode.i_mapping.nr_pages, i % 2 ? 8 : 0);
		cr_assert_eq(world_truncate(world.file, 0), 0);
		cr_assert_eq(world.reserved, 0);
	}
	free(memory);
	world_check(&world);
	world_close(&world);
}

Test(catalogue_buffered, b36_a_source_that_cannot_be_read_leaves_nothing_reserved)
{
	struct world world;
	struct world_config config = {.block_size = 1024};
	unsigned char memory[1] = {0};
	struct world_source source;

	world_open(&world, &config);
	for (unsigned int i = 0; i < 1000; i++) {
		world_source_init(&source, memory, 64 * KiB);
		source.bad_at = 0;
		cr_assert_eq(world_write_from(world.file, 512, &source.iter, 0), -EFAULT);
		cr_assert_eq(world.reserved, 0);
		cr_assert_eq(inode_size_read(&world.file->inode), 0);
		cr_assert_eq(world.file->inode.i_mapping.nr_pages, 0);
	}
	world_check(&world);
	world_close(&world);
}

/* B37: a write that fails leaves what is cached as it is. */
static void failing_begin(uint32_t block_size, uint32_t folio)
{
	struct world world;
	struct world_config config = {.block_size = block_size, .max_folio = folio};
	unsigned char byte[100];

	memset(byte, 'B', sizeof(byte));
	world_open(&world, &config);
	world_fill(world.file, 0, 4 * KiB, 1);
	world.file->begin_error = -ENOSPC;
	cr_assert_eq(world_write(world.file, 100, byte, 100), -ENOSPC);
	world.file->begin_error = 0;
	cr_assert(world_reads_as(world.file, 0, 4 * KiB, 1));
	cr_assert_eq(world_write(world.file, 100, byte, 100), 100);
	for (unsigned int i = 0; i < 2; i++) {
		unsigned char memory[100];

		cr_assert(world_reads_as(world.file, 0, 100, 1));
		cr_assert_eq(world_read(world.file, 100, memory, 100), 100);
		cr_assert_arr_eq(memory, byte, 100);
		cr_assert(world_reads_as(world.file, 200, 4 * KiB - 200, 1));
		cr_assert_eq(world_fsync(world.file), 0);
		world_drop(&world);
	}
	world_check(&world);
	world_close(&world);
}

Test(catalogue_buffered, b37_a_failed_write_keeps_what_the_page_holds)
{
	failing_begin(4096, 4096);
	failing_begin(1024, 16 * KiB);
}

#define PIECE	  1000
#define NR_PIECES 250

struct piecewise {
	struct file *file;
	unsigned int first; /* piece; then every other one */
	unsigned char byte;
	unsigned int failures;
};

static void write_pieces(void *arg)
{
	struct piecewise *writer = arg;
	unsigned char memory[PIECE];

	memset(memory, writer->byte, sizeof(memory));
	for (uint64_t i = writer->first; i < NR_PIECES; i += 2)
		writer->failures += fs_write(writer->file, memory, PIECE, i * PIECE) != PIECE;
}

/* B38: pieces that share blocks and folios, by two writers, while folios are written and go. */
BED_TEST(catalogue_buffered, b38_two_writers_on_the_same_folios)
{
	struct piecewise even = {.file = bed->file, .first = 0, .byte = 'e'};
	struct piecewise odd = {.file = bed->file, .first = 1, .byte = 'o'};
	struct env_thread *threads[2];

	bed_write(bed, 0, NR_PIECES * PIECE / 2, 'A');
	bed_fsync(bed);
	bed_assert(bed, env_thread_create(&threads[0], "even", write_pieces, &even) == 0);
	bed_assert(bed, env_thread_create(&threads[1], "odd", write_pieces, &odd) == 0);
	for (unsigned int i = 0; i < 20; i++) {
		bed_writeback(bed);
		bed_drop(bed);
	}
	env_thread_join(threads[0]);
	env_thread_join(threads[1]);
	bed_assert(bed, even.failures + odd.failures == 0);
	for (uint64_t i = 0; i < NR_PIECES; i++)
		memset(bed->model + i * PIECE, i % 2 ? 'o' : 'e', PIECE);
	bed->size = NR_PIECES * PIECE;
	bed_check(bed);
	bed_fsync(bed);
	bed_remount(bed);
}

/* B39: an answer of a step inside is not the result of the truncation. */
BED_TEST(catalogue_buffered, b39_truncate_says_0_or_an_error)
{
	bed_write(bed, 0, 10000, 'A');
	bed_assert(bed, fs_truncate(bed->file, 5000) == 0);
	bed_truncate(bed, 5000);
	bed_fsync(bed);
	bed_truncate(bed, 2500);
	bed_drop(bed);
	bed_truncate(bed, 1000);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_catalogue_errors.c - failures that page caches had: errors, and who hears of them
 */
#include "tests/bed.h"

#include <errno.h>
#include <stdlib.h>
#include "tests/world.h"

#define NR_HANDLES 10

static void fail_data_writes(struct bed *bed)
{
	struct blkdev_fault_rule rule = {.op = BIO_WRITE, .kind = BIO_DATA, .error = -EIO};

	bed_assert(bed, blkdev_fault_add(bed->fault, &rule) == 0);
}

static void heal(struct bed *bed)
{
	blkdev_fault_clear(bed->fault);
}

static struct file *open_again(struct bed *bed)
{
	struct file *file;

	bed_assert(bed, fs_open(bed->fs, "/file", 0, &file) == 0);
	return file;
}

static int sync_and_close(struct file *file)
{
	int err = fs_fsync(file, false);
	int close_err = fs_close(file);

	return err ? err : close_err;
}

/* Start writing and wait, without asking how it went. */
static void write_out_unasked(struct bed *bed)
{
	fs_sync_range(bed->file, 0, BED_FILE_MAX, false);
	filemap_fdatawait_range(&fs_inode_of(bed->file)->i_mapping, 0, UINT64_MAX);
}

/* What the device refused is lost; store it again, and let everybody know. */
static void store_again(struct bed *bed)
{
	unsigned char *memory = malloc(bed->size);

	fs_sync(bed->fs);
	memcpy(memory, bed->model, bed->size);
	bed_assert(bed, fs_write(bed->file, memory, bed->size, 0) == (ssize_t)bed->size);
	bed_fsync(bed);
	bed_assert(bed, fs_sync(bed->fs) == 0);
	free(memory);
}

/* B103: each open file hears of it, once. */
BED_TEST(catalogue_errors, b103_every_handle_hears_of_an_error_once)
{
	struct file *handles[NR_HANDLES];

	for (unsigned int i = 0; i < NR_HANDLES; i++)
		handles[i] = open_again(bed);
	for (unsigned int pass = 0; pass < 3; pass++) {
		if (pass == 1)
			fail_data_writes(bed);
		if (pass == 2)
			heal(bed);
		for (unsigned int i = 0; i < NR_HANDLES && pass < 2; i++) {
			unsigned char byte = (unsigned char)('a' + i);

			bed_assert(bed, fs_write(handles[i], &byte, 1, i * 64 * KiB) == 1);
			bed->model[i * 64 * KiB] = byte;
			bed->size = i * 64 * KiB + 1 > bed->size ? i * 64 * KiB + 1 : bed->size;
		}
		for (unsigned int i = 0; i < NR_HANDLES; i++)
			bed_assert(bed, fs_fsync(handles[i], i % 2) == (pass == 1 ? -EIO : 0));
	}
	for (unsigned int i = 0; i < NR_HANDLES; i++)
		bed_assert(bed, fs_close(handles[i]) == 0);
	bed_assert(bed, fs_fsync(bed->file, false) == -EIO);
	store_again(bed);
}

/* B104: opened after an error that nobody has heard of. */
BED_TEST(catalogue_errors, b104_an_error_nobody_has_seen_is_for_the_next_one_who_opens)
{
	bed_write(bed, 0, 4 * KiB, 'A');
	fail_data_writes(bed);
	write_out_unasked(bed);
	heal(bed);
	bed_assert(bed, sync_and_close(open_again(bed)) == -EIO);
	bed_assert(bed, fs_fsync(bed->file, false) == -EIO);
	bed_assert(bed, sync_and_close(open_again(bed)) == 0);
	store_again(bed);
}

BED_TEST(catalogue_errors, b104_and_if_the_file_was_closed_and_evicted)
{
	bed_write(bed, 0, 4 * KiB, 'A');
	fail_data_writes(bed);
	write_out_unasked(bed);
	heal(bed);
	fs_close(bed->file);
	bed_drop(bed);
	bed->file = open_again(bed);
	bed_assert(bed, fs_fsync(bed->file, false) == -EIO);
	bed_assert(bed, sync_and_close(open_again(bed)) == 0);
	store_again(bed);
}

/* B105: a sync of everything says so too, once, whoever else has heard of it. */
BED_TEST(catalogue_errors, b105_sync_of_the_file_system_reports_an_error_once)
{
	bed_write(bed, 0, 4 * KiB, 'A');
	bed_fsync(bed);
	bed_assert(bed, fs_sync(bed->fs) == 0);
	bed_write(bed, 0, 4 * KiB, 'B');
	fail_data_writes(bed);
	bed_assert(bed, fs_fsync(bed->file, true) == -EIO);
	heal(bed);
	bed_assert(bed, fs_sync(bed->fs) == -EIO);
	bed_assert(bed, fs_sync(bed->fs) == 0);
	store_again(bed);
}

/* B106: the memory of the folio that failed belongs to another file by now. */
Test(catalogue_errors, b106_an_error_is_for_the_file_it_happened_to)
{
	struct world world;
	struct world_config config = {.capacity = 2 * MiB};
	struct world_file *other;

	world_open(&world, &config);
	other = world_file_create(&world);
	world_fill(world.file, 0, 4 * KiB, 1);
	world.file->wb_error = -EIO;
	world.file->wb_len = 4 * KiB;
	cr_assert_eq(world_writepages(world.file, WB_SYNC_NONE, INT64_MAX), -EIO);
	world.file->wb_error = 0;
	world.file->wb_len = 0;
	cr_assert_eq(world_truncate(world.file, 0), 0);
	world_fill(other, 0, MiB, 2);
	cr_assert_eq(world_fsync(other), 0);
	cr_assert_eq(world_fsync(world.file), -EIO);
	cr_assert_eq(world_fsync(world.file), 0);
	world_check(&world);
	world_close(&world);
}

/* B107: the third block of a folio has no place to go to. */
Test(catalogue_errors, b107_a_mapping_failure_in_the_middle_of_a_folio)
{
	struct world world;
	struct world_config config = {.block_size = 1024, .max_folio = 4096};

	world_open(&world, &config);
	for (unsigned int i = 1; i <= 3; i++) {
		world_fill(world.file, 0, 4 * KiB, i);
		world.file->wb_error = -EIO;
		world.file->wb_pos = 2 * KiB;
		world.file->wb_len = 1 * KiB;
		cr_assert_eq(world_fsync(world.file), -EIO);
		/* fsync did not wait; the blocks before it were queued, and end well. */
		world_check(&world);
		cr_assert(world_disk_has(world.file, 0, 2 * KiB, i));
		cr_assert_eq(world_fsync(world.file), 0);
		cr_assert_eq(world_nr_dirty_blocks(world.file), 0);
	}
	world.file->wb_len = 0;
	world_fill(world.file, 0, 4 * KiB, 4);
	cr_assert_eq(world_fsync(world.file), 0);
	cr_assert(world_disk_has(world.file, 0, 4 * KiB, 4));
	world_check(&world);
	world_close(&world);
}

/* B108: what was promised to data that could not be written is given back. */
Test(catalogue_errors, b108_no_reservation_stays_behind_a_failed_writeback)
{
	struct world world;
	struct world_config config = {.block_size = 1024};

	world_open(&world, &config);
	world_fill(world.file, 0, 64 * KiB, 1);
	cr_assert_eq(world.reserved, 64 * KiB);
	world.file->wb_error = -EIO;
	world.file->wb_len = 64 * KiB;
	cr_assert_eq(world_writepages(world.file, WB_SYNC_ALL, INT64_MAX), -EIO);
	world_drop(&world);
	cr_assert_eq(world.reserved, 0);
	world.file->wb_error = 0;
	world.file->wb_len = 0;
	world_fill(world.file, 0, 4 * KiB, 2);
	cr_assert_eq(world.reserved, 4 * KiB);
	cr_assert_eq(world_fsync(world.file), -EIO);
	cr_assert_eq(world_fsync(world.file), 0);
	cr_assert_eq(world.reserved, 0);
	cr_assert(world_disk_has(world.file, 0, 4 * KiB, 2));
	cr_assert(world_reads_zero(world.file, 4 * KiB, 60 * KiB));
	world_check(&world);
	world_close(&world);
}

/* The n-th allocation fails in a write over 'A': it says what it has stored. */
static bool write_without_memory(struct bed *bed, bool cached, unsigned int n)
{
	unsigned char memory[200];
	unsigned int failed;
	ssize_t stored;

	bed_write(bed, 0, 8 * KiB, 'A');
	bed_fsync(bed);
	if (!cached)
		bed_drop(bed);
	memset(memory, 'B', sizeof(memory));
	env_alloc_fail(n, 1);
	stored = fs_write(bed->file, memory, sizeof(memory), 4000);
	failed = env_alloc_fail(0, 0);
	bed_assert(bed, stored == -ENOMEM || (stored > 0 && stored <= 200));
	if (stored > 0)
		memset(bed->model + 4000, 'B', (size_t)stored);
	bed_check(bed);
	bed_fsync(bed);
	bed_drop(bed);
	bed_check(bed);
	return failed > 0;
}

/* B110: no memory, at any place in a write; there are not many. */
BED_TEST(catalogue_errors, b110_a_write_without_memory_says_what_it_stored)
{
	for (unsigned int cached = 0; cached < 2; cached++) {
		unsigned int n = 0;

		while (write_without_memory(bed, cached, n))
			bed_assert(bed, ++n < 100);
	}
}

/* The same of folios. */
BED_TEST(catalogue_errors, b110_a_write_without_a_folio_says_what_it_stored)
{
	unsigned char memory[200];
	ssize_t stored;

	bed_write(bed, 0, 8 * KiB, 'A');
	bed_fsync(bed);
	bed_drop(bed);
	memset(memory, 'B', sizeof(memory));
	page_cache_fail_alloc(bed->cache, 0, 1000);
	stored = fs_write(bed->file, memory, sizeof(memory), 4000);
	page_cache_fail_alloc(bed->cache, 0, 0);
	bed_assert(bed, stored == -ENOMEM);
	bed_check(bed);
}

/* The k-th request of a long read fails: what is returned is right, and nobody waits for ever. */
static bool read_with_failure(unsigned int workers, uint64_t k)
{
	unsigned char *memory = malloc(MiB);
	struct world world;
	struct world_config config = {
		.max_map = 64 * KiB, .readahead = 512 * KiB, .workers = workers};
	uint64_t hits;
	ssize_t n;

	world_open(&world, &config);
	world_set(world.file, 0, MiB, IOMAP_MAPPED);
	world_fail_io(&world, BIO_READ, k, 1, -EIO);
	n = world_read(world.file, 0, memory, MiB);
	hits = blkdev_fault_hits(world.fault);
	cr_assert(n == -EIO || (n > 0 && n <= (ssize_t)MiB));
	for (ssize_t i = 0; i < n; i++)
		cr_assert_eq(memory[i], world_byte(0, (uint64_t)i));
	world_heal(&world);
	cr_assert(world_reads_as(world.file, 0, MiB, 0));
	world_check(&world);
	world_close(&world);
	free(memory);
	return hits > 0;
}

/* B111: a read in many requests ends, whichever of them fails. */
Test(catalogue_errors, b111_a_read_ends_whichever_of_its_requests_fails)
{
	for (unsigned int workers = 0; workers < 2; workers++) {
		uint64_t k = 0;

		while (read_with_failure(workers, k))
			k++;
		cr_assert_geq(k, 2);
	}
}

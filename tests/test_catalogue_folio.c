/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_catalogue_folio.c - failures that page caches had: folios, their state, the index
 */
#include "tests/bed.h"

#include <errno.h>
#include <stdlib.h>
#include "tests/world.h"

static unsigned int nr_tagged(struct address_space *mapping, enum filemap_tag tag)
{
	struct folio_batch batch;
	uint64_t index = 0;
	unsigned int n = 0;

	while (filemap_get_folios(mapping, &index, UINT64_MAX >> mapping->page_shift, tag,
				  &batch)) {
		n += batch.nr;
		filemap_release_folios(&batch);
	}
	return n;
}

struct random_reader {
	struct world *world;
	uint32_t seed;
	unsigned int failures;
};

static uint32_t draw(struct random_reader *reader)
{
	reader->seed = reader->seed * 1664525u + 1013904223u;
	return reader->seed >> 8;
}

/* Reads of one page make small folios, long ones make large folios. */
static void read_at_random(void *arg)
{
	struct random_reader *reader = arg;

	for (unsigned int i = 0; i < 300; i++) {
		unsigned int nr = draw(reader) % 2;
		uint64_t pos = draw(reader) % (768 * KiB);
		size_t len = 1 + draw(reader) % (i % 2 ? 4 * KiB : 256 * KiB);
		struct world_file *file = reader->world->files[nr];

		reader->failures += !world_reads_as(file, pos, len, nr + 1);
	}
}

/* B40: folios of all orders come and go at the same places of the index of two files. */
Test(catalogue_folio, b40_a_page_is_always_of_the_file_and_place_it_is_found_at)
{
	struct world world;
	struct world_config config = {.workers = 1};
	struct random_reader readers[2] = {{.seed = 1}, {.seed = 2}};
	struct env_thread *threads[2];

	world_open(&world, &config);
	world_file_create(&world);
	for (unsigned int i = 0; i < 2; i++) {
		world_fill(world.files[i], 0, MiB, i + 1);
		cr_assert_eq(world_fsync(world.files[i]), 0);
	}
	for (unsigned int i = 0; i < 2; i++) {
		readers[i].world = &world;
		cr_assert_eq(env_thread_create(&threads[i], "reader", read_at_random, &readers[i]),
			     0);
	}
	for (unsigned int i = 0; i < 200; i++)
		world_drop(&world);
	for (unsigned int i = 0; i < 2; i++) {
		env_thread_join(threads[i]);
		cr_assert_eq(readers[i].failures, 0);
	}
	world_check(&world);
	world_close(&world);
}

static const struct bed_shape large_folios[] = {{4 * KiB, 4 * KiB, 64 * KiB},
						{1 * KiB, 4 * KiB, 64 * KiB},
						{16 * KiB, 4 * KiB, 64 * KiB},
						{0, 0, 0}};

/*
 * B41: truncate reaches into a dirty folio; what is left of it is still found to be dirty.  Folios
 * are not split here: a dirty one stays whole (C9).
 */
BED_TEST_ON(catalogue_folio, b41_what_is_left_of_a_dirty_folio_is_written, NULL, large_folios)
{
	struct address_space *mapping = &fs_inode_of(bed->file)->i_mapping;

	bed_write(bed, 0, 64 * KiB, 'A');
	bed_assert(bed, nr_tagged(mapping, FILEMAP_ANY) == 1);
	bed_truncate(bed, 40000);
	bed_fsync(bed);
	bed_assert(bed, nr_tagged(mapping, FILEMAP_DIRTY) == 0);
	bed_assert(bed, nr_tagged(mapping, FILEMAP_TOWRITE) == 0);
	bed_assert(bed, bed_device_has(bed, 0, 40000, 'A'));
}

/* The same where truncate writes nothing. */
Test(catalogue_folio, b41_a_dirty_folio_that_was_cut_into_is_tagged_dirty)
{
	struct world world;
	struct world_config config = {.max_folio = 64 * KiB};
	struct address_space *mapping;

	world_open(&world, &config);
	mapping = &world.file->inode.i_mapping;
	world_fill(world.file, 0, 64 * KiB, 1);
	cr_assert_eq(nr_tagged(mapping, FILEMAP_ANY), 1);
	cr_assert_eq(world_truncate(world.file, 40000), 0);
	cr_assert_eq(nr_tagged(mapping, FILEMAP_DIRTY), nr_tagged(mapping, FILEMAP_ANY));
	cr_assert_geq(mapping->nr_pages, 10);
	cr_assert_eq(mapping->nr_dirty, mapping->nr_pages);
	cr_assert_eq(world_fsync(world.file), 0);
	cr_assert_eq(nr_tagged(mapping, FILEMAP_DIRTY), 0);
	cr_assert_eq(nr_tagged(mapping, FILEMAP_TOWRITE), 0);
	cr_assert(world_disk_has(world.file, 0, 40000, 1));
	world_check(&world);
	world_close(&world);
}

struct reader {
	struct world_file *file;
	bool right;
};

static void read_all(void *arg)
{
	struct reader *reader = arg;

	reader->right = world_reads_as(reader->file, 0, 9000, 0);
}

static bool folio_is_uptodate(struct world_file *file)
{
	struct folio *folio = world_folio(file, 0);
	bool uptodate = folio && folio_test(folio, FOLIO_UPTODATE);

	if (folio)
		folio_put(folio);
	return uptodate;
}

/* B42: what is behind the end is zeroed while the front is still being read. */
Test(catalogue_folio, b42_a_folio_is_uptodate_when_its_read_has_ended_and_not_before)
{
	struct world world;
	struct world_config config = {.page_size = 16 * KiB};
	struct reader reader;
	struct env_thread *thread;

	world_open(&world, &config);
	world_set(world.file, 0, 9000, IOMAP_MAPPED);
	world_hold_io(&world, BIO_READ);
	reader.file = world.file;
	cr_assert_eq(env_thread_create(&thread, "reader", read_all, &reader), 0);
	while (blkdev_fault_held(world.fault) == 0)
		env_sleep_ns(100000);
	cr_assert_not(folio_is_uptodate(world.file));
	world_heal(&world);
	env_thread_join(thread);
	cr_assert(reader.right);
	cr_assert(folio_is_uptodate(world.file));
	world_fail_io(&world, BIO_READ, 0, 0, -EIO);
	read_all(&reader);
	cr_assert(reader.right);
	world_check(&world);
	world_close(&world);
}

/* B43: the read ends before its submission returns, and the folio may be gone by then. */
Test(catalogue_folio, b43_a_read_that_ends_at_once_ends_once)
{
	struct world world;
	struct world_config config = {.max_folio = 4096, .max_map = 4096, .readahead = 256 * KiB};

	world_open(&world, &config);
	world_set(world.file, 0, 2 * MiB, IOMAP_MAPPED);
	for (unsigned int i = 0; i < 4; i++) {
		cr_assert(world_reads_as(world.file, 0, 64 * KiB, 0));
		cr_assert_not(world_has_state(world.file, 0));
		world_drop(&world);
		cr_assert(world_reads_as(world.file, MiB, MiB, 0));
		world_check(&world);
		world_drop(&world);
	}
	world_close(&world);
}

/* Memory of the cache that was used for something else before. */
static void use_and_forget(struct world *world)
{
	struct world_file *other = world_file_create(world);

	world_fill(other, 0, 4 * MiB, 9);
	cr_assert_eq(world_truncate(other, 0), 0);
}

struct refusal {
	uint64_t pos, len; /* a map that begins in it fails .. */
	int error;
	unsigned int times; /* .. so often */
};

static int refuse(struct world_file *file, uint64_t pos, uint64_t len, unsigned int flags,
		  struct iomap *map, struct iomap *src)
{
	struct refusal *refusal = file->arg;

	(void)len, (void)flags, (void)map, (void)src;
	if (!refusal->times || pos < refusal->pos || pos >= refusal->pos + refusal->len)
		return 0;
	refusal->times--;
	return refusal->error;
}

static void readahead_is_refused(struct world_config config, struct refusal refusal,
				 uint64_t file_size)
{
	struct world world;

	config.readahead = 256 * KiB;
	world_open(&world, &config);
	world_set(world.file, 0, file_size, IOMAP_MAPPED);
	use_and_forget(&world);
	world.file->arg = &refusal;
	world.file->on_begin = refuse;
	cr_assert(world_reads_as(world.file, 0, file_size, 0));
	cr_assert_eq(refusal.times, 0);
	world_drop(&world);
	cr_assert(world_reads_as(world.file, 0, file_size, 0));
	world_check(&world);
	world_close(&world);
}

/* B44: a map is refused once in the middle of a readahead. */
Test(catalogue_folio, b44_what_a_broken_readahead_did_not_read_is_read_later)
{
	struct refusal refusal = {96 * KiB, 32 * KiB, -EAGAIN, 1};

	readahead_is_refused((struct world_config){.max_map = 32 * KiB, .page_size = 64 * KiB},
			     refusal, 256 * KiB);
	readahead_is_refused((struct world_config){.max_map = 32 * KiB, .max_folio = 4096}, refusal,
			     256 * KiB);
}

/* B45: and in the middle of a folio, whose front is being read already. */
Test(catalogue_folio, b45_a_readahead_given_up_in_the_middle_of_a_folio)
{
	for (uint64_t block = 1; block < 32; block++) {
		struct refusal refusal = {block * 4 * KiB, 4 * KiB, -ENOMEM, 1};
		struct world_config config = {.max_map = 4096, .page_size = 64 * KiB};

		readahead_is_refused(config, refusal, 128 * KiB);
		config.workers = 1;
		readahead_is_refused(config, refusal, 128 * KiB);
	}
}

/* B46: dirty, and then nothing of it is to be written. */
BED_TEST(catalogue_folio, b46_no_tag_is_left_where_there_is_nothing_to_write)
{
	struct address_space *mapping = &fs_inode_of(bed->file)->i_mapping;

	bed_write(bed, 0, 64 * KiB, 'A');
	bed_punch(bed, 0, 4 * KiB);
	bed_punch(bed, 5 * KiB, 2 * KiB);
	bed_truncate(bed, 8 * KiB);
	bed_truncate(bed, 64 * KiB);
	bed_assert(bed, fs_sync(bed->fs) == 0);
	bed_assert(bed, nr_tagged(mapping, FILEMAP_DIRTY) == 0);
	bed_assert(bed, nr_tagged(mapping, FILEMAP_TOWRITE) == 0);
	bed_assert(bed, nr_tagged(mapping, FILEMAP_WRITEBACK) == 0);
	bed_assert(bed, mapping->nr_dirty == 0);
}

/*
 * A folio is dirty and lies wholly behind the end when it is to be written: nothing is, and the
 * truncate that moved the end takes the folio and its tags away (F6).
 */
Test(catalogue_folio, b46_a_folio_behind_the_end_goes_with_its_tags)
{
	struct world world;
	struct world_config config = {.block_size = 1024, .max_folio = 4096};
	struct address_space *mapping;

	world_open(&world, &config);
	mapping = &world.file->inode.i_mapping;
	world_fill(world.file, 0, 16 * KiB, 1);
	inode_size_write(&world.file->inode, 4 * KiB);
	cr_assert_eq(world_fsync(world.file), 0);
	cr_assert_eq(nr_tagged(mapping, FILEMAP_WRITEBACK), 0);
	cr_assert_eq(world_io(&world).write_bytes, 4 * KiB);
	filemap_truncate(&world.file->inode, 4 * KiB);
	cr_assert_eq(nr_tagged(mapping, FILEMAP_DIRTY), 0);
	cr_assert_eq(nr_tagged(mapping, FILEMAP_TOWRITE), 0);
	cr_assert_eq(mapping->nr_dirty, 0);
	cr_assert_eq(mapping->nr_pages, 1);
	cr_assert(world_disk_has(world.file, 0, 4 * KiB, 1));
	world_check(&world);
	world_close(&world);
}

#define LAST_BYTE ((uint64_t)INT64_MAX)

/* B47: a read next to the largest offset leaves nothing that a truncate would meet for ever. */
BED_TEST(catalogue_folio, b47_reading_at_the_largest_offset_and_then_cutting_the_file)
{
	struct address_space *mapping = &fs_inode_of(bed->file)->i_mapping;
	unsigned char memory[4095];
	uint64_t cached;

	bed_write(bed, 0, 4 * KiB, 'A');
	cached = mapping->nr_pages;
	bed_assert(bed, fs_read(bed->file, memory, sizeof(memory), LAST_BYTE - 4095) == 0);
	bed_assert(bed, fs_read(bed->file, memory, sizeof(memory), UINT64_MAX - 4095) == 0);
	bed_assert(bed, mapping->nr_pages == cached);
	bed_truncate(bed, 0);
	bed_assert(bed, mapping->nr_pages == 0);
}

/* Whatever the answer, it is one: a count, 0 or a clean error, and the bytes are there. */
static void write_far_away(struct bed *bed, uint64_t end)
{
	unsigned char memory[200], seen[200];
	ssize_t n;

	memset(memory, 'Z', sizeof(memory));
	n = fs_write(bed->file, memory, sizeof(memory), end - 100);
	bed_assert(bed, n == -EFBIG || (n > 0 && n <= 200));
	if (n > 0) {
		bed_assert(bed, fs_size(bed->file) == end - 100 + (uint64_t)n);
		bed_assert(bed, fs_read(bed->file, seen, sizeof(seen), end - 100) == n);
		bed_assert(bed, memcmp(seen, memory, (size_t)n) == 0);
		bed_fsync(bed);
		bed_drop(bed);
		bed_assert(bed, fs_read(bed->file, seen, sizeof(seen), end - 100) == n);
		bed_assert(bed, memcmp(seen, memory, (size_t)n) == 0);
	} else {
		bed_assert(bed, fs_size(bed->file) == bed->size);
	}
	bed_truncate(bed, bed->size);
}

/* B48: ends of folios near the largest offsets do not wrap. */
BED_TEST(catalogue_folio, b48_offsets_near_the_largest)
{
	static const uint64_t ends[] = {
		1ull << 32, 1ull << 43, 1ull << 44,    1ull << 48,
		1ull << 62, LAST_BYTE,	LAST_BYTE + 1, UINT64_MAX - 100,
	};

	bed_write(bed, 0, 4 * KiB, 'A');
	for (unsigned int i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		const unsigned int zero = FS_FALLOC_ZERO_RANGE | FS_FALLOC_KEEP_SIZE;
		const unsigned int punch = FS_FALLOC_PUNCH_HOLE | FS_FALLOC_KEEP_SIZE;
		int err;

		write_far_away(bed, ends[i]);
		err = fs_truncate(bed->file, ends[i]);
		bed_assert(bed, err == 0 || err == -EFBIG);
		bed_assert(bed, fs_size(bed->file) == (err ? bed->size : ends[i]));
		err = fs_fallocate(bed->file, zero, ends[i] - 8192, 8192);
		bed_assert(bed, err == 0 || err == -EFBIG || err == -ENOSPC);
		err = fs_fallocate(bed->file, punch, ends[i] - 65536, 65536);
		bed_assert(bed, err == 0 || err == -EFBIG);
		bed_truncate(bed, bed->size);
		bed_check(bed);
	}
}

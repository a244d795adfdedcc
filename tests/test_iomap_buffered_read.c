/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_iomap_buffered_read.c - how folios are filled: what is read, what is zeroed, what fails
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

TestSuite(iomap_buffered_read, .fini = close_world);

static const struct {
	uint32_t page, block;
} sizes[] = {
	{4096, 512},   {4096, 1024},  {4096, 4096},  {4096, 16384},
	{4096, 65536}, {65536, 1024}, {65536, 4096}, {65536, 65536},
};

#define NR_SIZES (sizeof(sizes) / sizeof(sizes[0]))

#define ON_EACH_SIZE(name)                                                                         \
	static void name(uint64_t block);                                                          \
	Test(iomap_buffered_read, name)                                                            \
	{                                                                                          \
		for (unsigned int i = 0; i < NR_SIZES; i++) {                                      \
			open_world((struct world_config){.page_size = sizes[i].page,               \
							 .block_size = sizes[i].block,             \
							 .readahead = 65536});                     \
			name(sizes[i].block);                                                      \
			if (i + 1 < NR_SIZES)                                                      \
				close_world();                                                     \
		}                                                                                  \
	}                                                                                          \
	static void name(uint64_t block)

/* ---- what is read ---- */

Test(iomap_buffered_read, cached_data_needs_no_io_and_no_lock) /* M48 */
{
	struct folio *folio;

	open_world((struct world_config){.block_size = 1024});
	world_set(file, 0, 65536, IOMAP_MAPPED);
	cr_assert(world_reads_as(file, 0, 65536, 0));
	world_io(&world);
	folio = world_folio(file, 5000);
	folio_lock(folio); /* a reader that wants it would hang */
	cr_assert(world_reads_as(file, 5000, 2000, 0));
	folio_unlock_put(folio);
	cr_assert_eq(world_io(&world).reads, 0);
}

ON_EACH_SIZE(each_missing_block_is_read_once) /* M49 M50 M58 */
{
	uint64_t size = 6 * block + block / 2;
	uint64_t blocks = 7;

	world_set(file, 0, size, IOMAP_MAPPED);
	world_fill(file, 2 * block, block, 1);
	world_fill(file, 4 * block, block, 1);
	cr_assert_eq(world_io(&world).reads, 0);
	cr_assert(world_reads_as(file, 0, 2 * block, 0));
	cr_assert(world_reads_as(file, 2 * block, block, 1));
	cr_assert(world_reads_as(file, 3 * block, block, 0));
	cr_assert(world_reads_as(file, 4 * block, block, 1));
	cr_assert(world_reads_as(file, 5 * block, size - 5 * block, 0));
	cr_assert_eq(world_io(&world).read_bytes, (blocks - 2) * block);
}

ON_EACH_SIZE(blocks_past_eof_are_zeroed_not_read) /* M50 */
{
	struct folio *folio;
	uint64_t size;

	/* Eight blocks with garbage on the device, of which two and a half are in the file. */
	world_set(file, 0, 8 * block, IOMAP_MAPPED);
	size = 2 * block + block / 2;
	world_set_size(file, size);
	cr_assert(world_reads_as(file, 0, size, 0));
	cr_assert_eq(world_io(&world).read_bytes, 3 * block);
	folio = world_folio(file, size - 1);
	for (uint64_t at = 3 * block; at < folio_pos(folio) + folio_size(folio); at++)
		cr_assert_eq(folio->data[at - folio_pos(folio)], 0);
	folio_put(folio);
}

ON_EACH_SIZE(nothing_past_eof_is_returned) /* M54 */
{
	unsigned char memory[3000];
	uint64_t size = 3 * block - 100;

	world_set(file, 0, 3 * block, IOMAP_MAPPED);
	world_set_size(file, size);
	memset(memory, 0xEE, sizeof(memory));
	cr_assert_eq(world_read(file, size - 10, memory, 3000), 10);
	cr_assert_eq(memory[9], world_byte(0, size - 1));
	cr_assert_eq(memory[10], 0xEE);
	cr_assert_eq(world_read(file, size, memory, 1), 0);
	cr_assert_eq(world_read(file, size + 100000, memory, 1), 0);
	/* The size shrinks over cached data. */
	inode_size_write(&file->inode, size - 5);
	cr_assert_eq(world_read(file, size - 10, memory, 3000), 5);
	inode_size_write(&file->inode, size);
}

ON_EACH_SIZE(holes_and_unwritten_space_read_as_zero_without_io)
{
	world_set_size(file, 16 * block);
	world_set(file, 4 * block, 4 * block, IOMAP_UNWRITTEN);
	world_set(file, 8 * block, 2 * block, IOMAP_MAPPED);
	world_set(file, 10 * block, 2 * block, IOMAP_DELALLOC);
	cr_assert(world_reads_zero(file, 0, 8 * block));
	cr_assert(world_reads_as(file, 8 * block, 2 * block, 0));
	cr_assert(world_reads_zero(file, 10 * block, 6 * block));
	cr_assert_eq(world_io(&world).read_bytes, 2 * block);
}

Test(iomap_buffered_read, neighbours_on_the_device_are_one_request) /* E7 */
{
	struct world_io io;

	open_world((struct world_config){.block_size = 512, .max_map = 1024, .readahead = 65536});
	world_set(file, 0, 65536, IOMAP_MAPPED);
	cr_assert(world_reads_as(file, 0, 65536, 0));
	io = world_io(&world);
	cr_assert_eq(io.read_bytes, 65536);
	cr_assert_lt(io.reads, 64); /* not one for each of the 64 maps */
}

Test(iomap_buffered_read, one_long_map_is_one_request) /* E8 */
{
	struct world_io io;

	open_world((struct world_config){.readahead = 65536});
	world_set(file, 0, 65536, IOMAP_MAPPED);
	cr_assert(world_reads_as(file, 0, 65536, 0));
	io = world_io(&world);
	cr_assert_eq(io.read_bytes, 65536);
	cr_assert_eq(io.reads, 1);
	cr_assert_eq(file->nr_begins, 1);
}

ON_EACH_SIZE(dirty_blocks_survive_the_fill_around_them) /* M56 */
{
	/* Old data is on the device under the dirty block too. */
	world_set(file, 0, 8 * block, IOMAP_MAPPED);
	world_fill(file, 3 * block, block, 5);
	cr_assert(world_reads_as(file, 0, 3 * block, 0));
	cr_assert(world_reads_as(file, 3 * block, block, 5));
	cr_assert(world_reads_as(file, 4 * block, 4 * block, 0));
	cr_assert(world_is_dirty(file, 3 * block));
	cr_assert_eq(world_nr_dirty_blocks(file), 1);
}

Test(iomap_buffered_read, old_contents_come_from_the_source_map) /* B5 */
{
	open_world((struct world_config){.block_size = 1024});
	world_set_shared(file, 0, 8192);
	world_fill(file, 1024, 1024, 1);
	/* The place to write to has been taken, but holds nothing yet. */
	cr_assert_neq(file->blocks[1].cow, 0);
	cr_assert(world_reads_as(file, 0, 1024, 0));
	cr_assert(world_reads_as(file, 1024, 1024, 1));
	cr_assert(world_reads_as(file, 2048, 6144, 0));
}

static int give_source(struct world_file *f, uint64_t pos, uint64_t len, unsigned int flags,
		       struct iomap *map, struct iomap *src)
{
	(void)f;
	(void)pos;
	(void)len;
	(void)flags;
	*src = *map;
	map->type = IOMAP_UNWRITTEN;
	map->addr = 32 * MiB;
	return 0;
}

Test(iomap_buffered_read, read_uses_the_source_map_if_there_is_one) /* B5 M23 */
{
	open_world((struct world_config){.block_size = 1024});
	world_set(file, 0, 8192, IOMAP_MAPPED);
	file->on_begin = give_source;
	cr_assert(world_reads_as(file, 0, 8192, 0));
	file->on_begin = NULL;
}

/* ---- failures ---- */

Test(iomap_buffered_read, failing_block_fails_only_its_readers) /* M51 M52 */
{
	char byte;

	open_world((struct world_config){.block_size = 1024, .page_size = 65536});
	/* Two requests: a jump on the device between them. */
	world_set(file, 0, 32768, IOMAP_MAPPED);
	world_set(file, 32768, 32768, IOMAP_UNWRITTEN);
	world_set(file, 32768, 32768, IOMAP_MAPPED);
	cr_assert_neq(file->blocks[32].addr, file->blocks[31].addr + 1024);
	world_fail_range(file, BIO_READ, 40960, 1024, -EIO);
	cr_assert_eq(world_read(file, 40960, &byte, 1), -EIO);
	/* The first half has come in and can be read, though its folio is not whole. */
	cr_assert(world_is_uptodate(file, 0));
	cr_assert_not(world_is_uptodate(file, 40960));
	cr_assert(world_reads_as(file, 0, 1024, 0));
	cr_assert(world_reads_as(file, 20000, 3000, 0));
	cr_assert_eq(world_read(file, 40960, &byte, 1), -EIO);
	world_io(&world);
	world_heal(&world);
	cr_assert(world_reads_as(file, 0, 65536, 0));
	cr_assert_eq(world_io(&world).read_bytes, 32768);
}

ON_EACH_SIZE(read_works_again_when_the_device_does) /* M52 */
{
	char byte;

	world_set(file, 0, 4 * block, IOMAP_MAPPED);
	world_fail_io(&world, BIO_READ, 0, 0, -ENODATA);
	cr_assert_eq(world_read(file, 0, &byte, 1), -EIO);
	cr_assert_eq(world_read(file, 0, &byte, 1), -EIO);
	world_check(&world);
	world_heal(&world);
	cr_assert(world_reads_as(file, 0, 4 * block, 0));
}

Test(iomap_buffered_read, read_errors_are_no_writeback_errors) /* K28 */
{
	char byte;

	open_world((struct world_config){0});
	world_set(file, 0, 8192, IOMAP_MAPPED);
	world_fail_io(&world, BIO_READ, 0, 0, -EIO);
	cr_assert_eq(world_read(file, 0, &byte, 1), -EIO);
	world_heal(&world);
	cr_assert_eq(world_fsync(file), 0);
}

Test(iomap_buffered_read, readahead_errors_are_invisible) /* M55 */
{
	char byte;

	open_world((struct world_config){.max_folio = 4096, .max_map = 4096, .readahead = 65536});
	world_set(file, 0, 65536, IOMAP_MAPPED);
	/* Not neighbours on the device, so that each page is a request. */
	for (uint64_t pos = 0; pos < 65536; pos += 8192) {
		world_set(file, pos, 4096, IOMAP_UNWRITTEN);
		world_set(file, pos, 4096, IOMAP_MAPPED);
	}
	world_fail_range(file, BIO_READ, 4096, 61440, -EIO);
	cr_assert(world_reads_as(file, 0, 4096, 0));
	cr_assert_eq(world_read(file, 8192, &byte, 1), -EIO);
	world_heal(&world);
	cr_assert(world_reads_as(file, 0, 65536, 0));
}

Test(iomap_buffered_read, begin_errors_in_readahead_are_invisible) /* M55 */
{
	char byte;

	open_world((struct world_config){.max_map = 4096, .readahead = 65536});
	world_set(file, 0, 65536, IOMAP_MAPPED);
	file->begin_error = -ENOMEM;
	file->begin_error_after = 1;
	cr_assert(world_reads_as(file, 0, 4096, 0));
	cr_assert_eq(world_read(file, 32768, &byte, 1), -EIO);
	file->begin_error = 0;
	cr_assert(world_reads_as(file, 0, 65536, 0));
	world_check(&world);
}

Test(iomap_buffered_read, failing_begin_is_eio) /* E7 */
{
	char byte;

	open_world((struct world_config){0});
	world_set(file, 0, 8192, IOMAP_MAPPED);
	file->begin_error = -EUCLEAN;
	cr_assert_eq(world_read(file, 0, &byte, 1), -EIO);
	file->begin_error = 0;
	cr_assert(world_reads_as(file, 0, 8192, 0));
}

/* ---- completions late and out of order ---- */

struct reader {
	struct env_thread *thread;
	ssize_t result;
	uint32_t done;
	unsigned char memory[65536];
};

static struct reader reader;

static void read_all(void *arg)
{
	struct reader *self = arg;

	self->result = world_read(file, 0, self->memory, sizeof(self->memory));
	__atomic_store_n(&self->done, 1, __ATOMIC_RELEASE);
}

static void hold_range(uint64_t pos, uint64_t len)
{
	struct blkdev_fault_rule rule = {
		.op = BIO_READ, .kind = -1, .addr = file->blocks[pos / 1024].addr, .len = len};

	cr_assert_eq(blkdev_fault_add(world.fault, &rule), 0);
}

static void two_requests_of_which_one_is_held(bool first)
{
	struct folio *folio;

	open_world((struct world_config){.block_size = 1024, .page_size = 65536});
	world_set(file, 0, 32768, IOMAP_MAPPED);
	world_set(file, 32768, 32768, IOMAP_UNWRITTEN);
	world_set(file, 32768, 32768, IOMAP_MAPPED);
	hold_range(first ? 0 : 32768, 32768);
	cr_assert_eq(env_thread_create(&reader.thread, "reader", read_all, &reader), 0);
	while (blkdev_fault_held(world.fault) == 0 || world_io(&world).reads == 1)
		env_sleep_ns(100000);
	/* The other request may have ended; the folio stays locked, and nothing is returned. */
	env_sleep_ns(5000000);
	folio = world_folio(file, 0);
	cr_assert(folio_is_locked(folio));
	cr_assert_not(folio_test(folio, FOLIO_UPTODATE));
	cr_assert_eq(__atomic_load_n(&reader.done, __ATOMIC_ACQUIRE), 0);
	folio_put(folio);
	world_heal(&world);
	env_thread_join(reader.thread);
	cr_assert_eq(reader.result, 65536);
	for (uint64_t i = 0; i < 65536; i++)
		cr_assert_eq(reader.memory[i], world_byte(0, i));
}

Test(iomap_buffered_read, folio_is_locked_until_its_first_request_is_done) /* M53 */
{
	two_requests_of_which_one_is_held(true);
}

Test(iomap_buffered_read, folio_is_locked_until_its_last_request_is_done) /* M53 */
{
	two_requests_of_which_one_is_held(false);
}

Test(iomap_buffered_read, completions_in_other_threads_fill_all) /* M53 */
{
	open_world((struct world_config){
		.block_size = 512, .page_size = 65536, .workers = 3, .max_map = 1024});
	world_set(file, 0, 2 * MiB, IOMAP_MAPPED);
	/* A jump on the device every few blocks makes many requests for each folio. */
	for (uint64_t pos = 0; pos < 2 * MiB; pos += 5632) {
		world_set(file, pos, 512, IOMAP_UNWRITTEN);
		world_set(file, pos, 512, IOMAP_MAPPED);
	}
	cr_assert(world_reads_as(file, 0, 2 * MiB, 0));
	world_check(&world);
}

/* ---- readahead ---- */

static uint64_t last_page;
static uint32_t too_far;

static void check_end(void *arg, const struct inode *inode, uint64_t index, unsigned int order)
{
	(void)arg;
	(void)inode;
	if (index + (1ull << order) - 1 > last_page)
		too_far++;
}

Test(iomap_buffered_read, readahead_makes_no_folio_past_the_file) /* M47 */
{
	static const uint64_t file_sizes[] = {1,     4095,   4096,   4097,   20000,  65536,
					      65537, 100000, 262144, 300001, 1 << 20};
	static unsigned char memory[10000];

	open_world((struct world_config){0});
	page_cache_trace_insert(world.cache, check_end, NULL);
	for (unsigned int i = 0; i < 11; i++) {
		uint64_t pos = 0;
		ssize_t got;

		cr_assert_eq(world_truncate(file, 0), 0);
		world_set(file, 0, file_sizes[i], IOMAP_MAPPED);
		last_page = (file_sizes[i] - 1) / 4096;
		while ((got = world_read(file, pos, memory, sizeof(memory))) > 0) {
			for (uint64_t j = 0; j < (uint64_t)got; j++)
				cr_assert_eq(memory[j], world_byte(0, pos + j));
			pos += (uint64_t)got;
		}
		cr_assert_eq(pos, file_sizes[i]);
	}
	cr_assert_eq(too_far, 0);
	page_cache_trace_insert(world.cache, NULL, NULL);
}

Test(iomap_buffered_read, nowait_reads_only_what_is_cached) /* E2 E4 */
{
	struct kiocb iocb = {.ki_flags = IOCB_NOWAIT};
	unsigned char memory[8192];
	struct iov_iter to;

	open_world((struct world_config){.max_folio = 4096, .readahead = 4096});
	world_set(file, 0, 65536, IOMAP_MAPPED);
	iocb.ki_filp = &file->file;
	iov_iter_init(&to, memory, sizeof(memory));
	cr_assert_eq(filemap_read(&iocb, &to), -EAGAIN);
	cr_assert_eq(world_io(&world).reads, 0);
	cr_assert(world_reads_as(file, 0, 4096, 0));
	cr_assert_eq(world_truncate(file, 65536), 0);
	iocb.ki_pos = 0;
	iov_iter_init(&to, memory, sizeof(memory));
	cr_assert_geq(filemap_read(&iocb, &to), 4096);
}

/* Memory that can be written to up to byte 5000. */
static size_t copy_to_faulting(struct iov_iter *iter, void *cache_memory, size_t len)
{
	unsigned char *memory = iter->context;

	if (iter->done + len > 5000)
		len = 5000 - iter->done;
	memcpy(memory + iter->done, cache_memory, len);
	return len;
}

Test(iomap_buffered_read, destination_that_faults_gives_a_short_count) /* E6 */
{
	static unsigned char memory[8192];
	struct iov_iter to = {.count = 8192, .copy = copy_to_faulting, .context = memory};
	struct kiocb iocb = {.ki_pos = 0};

	open_world((struct world_config){0});
	world_set(file, 0, 16384, IOMAP_MAPPED);
	iocb.ki_filp = &file->file;
	cr_assert_eq(filemap_read(&iocb, &to), 5000);
	cr_assert_eq(iocb.ki_pos, 5000);
	for (uint64_t i = 0; i < 5000; i++)
		cr_assert_eq(memory[i], world_byte(0, i));
	cr_assert_eq(filemap_read(&iocb, &to), -EFAULT);
	cr_assert_eq(iocb.ki_pos, 5000);
}

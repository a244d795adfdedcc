/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_catalogue_writeback.c - failures that page caches had: writeback, its completion, sync
 */
#include "tests/bed.h"

#include <errno.h>
#include <stdlib.h>
#include "tests/world.h"

/* Run it in a thread of its own, as the locks of the caller are not the thread's. */
static void beside(void (*fn)(void *arg), void *arg)
{
	struct env_thread *thread;

	cr_assert_eq(env_thread_create(&thread, "beside", fn, arg), 0);
	env_thread_join(thread);
}

/* ---- completion ---------------------------------------------------------------------- */

struct gate {
	struct wb_completion work;
	struct env_completion open, passed;
};

static void wait_at_gate(struct wb_completion *work)
{
	struct gate *gate = container_of(work, struct gate, work);

	env_completion_wait(&gate->open);
	env_complete(&gate->passed);
}

/* B20: the data is on the device, the record still says unwritten; the folio must stay. */
Test(catalogue_writeback, b20_a_folio_stays_until_its_space_is_converted)
{
	struct gate gate = {.work.fn = wait_at_gate};
	struct world world;
	struct world_config config = {.alloc = WORLD_UNWRITTEN};
	struct page_cache_stats stats;

	world_open(&world, &config);
	world_set(world.file, 0, 16 * KiB, IOMAP_UNWRITTEN);
	world_fill(world.file, 0, 16 * KiB, 1);
	env_completion_init(&gate.open);
	env_completion_init(&gate.passed);
	wb_queue_completion(&world.file->inode, &gate.work);
	cr_assert_eq(world_writepages(world.file, WB_SYNC_NONE, INT64_MAX), 0);
	cr_assert_eq(world.file->blocks[0].type, IOMAP_UNWRITTEN);
	world_drop(&world);
	page_cache_get_stats(world.cache, &stats);
	cr_assert_eq(stats.nr_writeback, 4);
	cr_assert(world_reads_as(world.file, 0, 16 * KiB, 1));
	env_complete(&gate.open);
	env_completion_wait(&gate.passed);
	cr_assert_eq(world_fsync(world.file), 0);
	world_drop(&world);
	cr_assert(world_reads_as(world.file, 0, 16 * KiB, 1));
	cr_assert(world_disk_has(world.file, 0, 16 * KiB, 1));
	world_check(&world);
	world_close(&world);
}

/* ---- a file that changes under writeback ---------------------------------------------- */

#define CHANGED (124 * KiB)

static void cut_and_write_again(void *arg)
{
	struct world_file *file = arg;

	cr_assert_eq(world_truncate(file, CHANGED), 0);
	world_fill(file, CHANGED, 4 * KiB, 2);
}

/* The last folio but one is being written, by a map that covers the last one too. */
static void change_the_last_folio(struct world_file *file, struct folio *folio, uint64_t pos,
				  uint64_t len)
{
	(void)folio, (void)len;
	if (pos + 4 * KiB != CHANGED || file->arg)
		return;
	file->arg = file;
	beside(cut_and_write_again, file);
}

/* B49: the map that writeback works with is not that of the file any more. */
Test(catalogue_writeback, b49_truncate_and_write_while_writeback_has_a_map)
{
	struct world world;
	struct world_config config = {.max_folio = 4096};
	uint64_t old;

	world_open(&world, &config);
	world_fill(world.file, 0, 128 * KiB, 1);
	world.file->on_range = change_the_last_folio;
	cr_assert_eq(world_fsync(world.file), 0);
	cr_assert_eq(world.file->arg, world.file);
	old = world.file->blocks[CHANGED / 4096 - 1].addr;
	cr_assert_eq(world_fsync(world.file), 0);
	cr_assert_eq(world.reserved, 0);
	cr_assert_neq(world.file->blocks[CHANGED / 4096].addr, old + 4096);
	world_drop(&world);
	cr_assert(world_reads_as(world.file, 0, CHANGED, 1));
	cr_assert(world_reads_as(world.file, CHANGED, 4 * KiB, 2));
	cr_assert(world_disk_has(world.file, CHANGED, 4 * KiB, 2));
	world.file->arg = NULL;
	world_check(&world);
	world_close(&world);
}

static void cut_and_write_far(void *arg)
{
	struct world_file *file = arg;

	cr_assert_eq(world_truncate(file, 4 * KiB), 0);
	world_fill(file, 60 * KiB, 4 * KiB, 2);
}

/* B52: the file is cut and grows again while its I/O has not been done yet. */
Test(catalogue_writeback, b52_truncate_and_regrow_while_io_is_held)
{
	struct world world;
	struct world_config config = {0};
	struct env_thread *thread;

	world_open(&world, &config);
	world_fill(world.file, 0, 64 * KiB, 1);
	world_hold_io(&world, BIO_WRITE);
	cr_assert_eq(world_writepages(world.file, WB_SYNC_NONE, INT64_MAX), 0);
	cr_assert_gt(blkdev_fault_held(world.fault), 0);
	cr_assert_eq(env_thread_create(&thread, "cutter", cut_and_write_far, world.file), 0);
	world_heal(&world);
	env_thread_join(thread);
	for (unsigned int i = 0; i < 2; i++) {
		cr_assert(world_reads_as(world.file, 0, 4 * KiB, 1));
		cr_assert(world_reads_zero(world.file, 4 * KiB, 56 * KiB));
		cr_assert(world_reads_as(world.file, 60 * KiB, 4 * KiB, 2));
		cr_assert_eq(world_fsync(world.file), 0);
		world_drop(&world);
	}
	cr_assert_eq(world.reserved, 0);
	world_check(&world);
	world_close(&world);
}

struct syncing_source {
	struct world_source source; /* first */
	size_t (*copy)(struct iov_iter *iter, void *memory, size_t len);
	struct world_file *file;
	struct env_thread *thread;
};

static void sync_once(void *arg)
{
	cr_assert_eq(world_fsync(arg), 0);
}

static size_t start_sync_and_copy(struct iov_iter *iter, void *memory, size_t len)
{
	struct syncing_source *from = (struct syncing_source *)iter;

	if (!from->thread)
		cr_assert_eq(env_thread_create(&from->thread, "sync", sync_once, from->file), 0);
	return from->copy(iter, memory, len);
}

/* B53: a sync at the moment when the folio is dirty and the size does not cover it yet. */
Test(catalogue_writeback, b53_a_sync_in_the_middle_of_an_extending_write)
{
	for (unsigned int i = 0; i < 20; i++) {
		struct world world;
		struct world_config config = {.block_size = 1024};
		struct syncing_source from;
		unsigned char memory[100], seen[100];

		world_open(&world, &config);
		world_fill(world.file, 0, 100, 1);
		cr_assert_eq(world_fsync(world.file), 0);
		memset(memory, 'X', sizeof(memory));
		world_source_init(&from.source, memory, sizeof(memory));
		from.copy = from.source.iter.copy;
		from.source.iter.copy = start_sync_and_copy;
		from.file = world.file;
		from.thread = NULL;
		cr_assert_eq(world_write_from(world.file, 200, &from.source.iter, 0), 100);
		env_thread_join(from.thread);
		cr_assert_eq(world_fsync(world.file), 0);
		world_drop(&world);
		cr_assert_eq(inode_size_read(&world.file->inode), 300);
		cr_assert_eq(world.file->disk_size, 300);
		cr_assert(world_reads_as(world.file, 0, 100, 1));
		cr_assert(world_reads_zero(world.file, 100, 100));
		cr_assert_eq(world_read(world.file, 200, seen, 100), 100);
		cr_assert_arr_eq(seen, memory, 100);
		world_check(&world);
		world_close(&world);
	}
}

/* ---- parts of folios, and batches ------------------------------------------------------ */

/* B50: two blocks of one folio that need two requests; fsync waits for both. */
Test(catalogue_writeback, b50_both_blocks_of_a_folio_are_there_when_fsync_returns)
{
	struct world world;
	struct world_config config = {.block_size = 1024, .max_folio = 4096, .workers = 2};

	world_open(&world, &config);
	world_set(world.file, 0, 1 * KiB, IOMAP_MAPPED);
	world_set(world.file, 2 * KiB, 1 * KiB, IOMAP_UNWRITTEN);
	world_set(world.file, 2 * KiB, 1 * KiB, IOMAP_MAPPED);
	for (unsigned int i = 1; i <= 50; i++) {
		world_fill(world.file, 0, 1 * KiB, i);
		world_fill(world.file, 2 * KiB, 1 * KiB, i);
		cr_assert_eq(world_fsync(world.file), 0);
		cr_assert(world_disk_has(world.file, 0, 1 * KiB, i));
		cr_assert(world_disk_has(world.file, 2 * KiB, 1 * KiB, i));
	}
	cr_assert_geq(world.file->nr_ioends, 100);
	world_check(&world);
	world_close(&world);
}

/* B51: what does not fit into one object of the device goes into the next. */
static void objects(uint32_t max_folio)
{
	struct world world;
	struct world_config config = {.max_folio = max_folio};
	struct world_file *file;

	world_open(&world, &config);
	file = world.file;
	world_set(file, 0, 256 * KiB, IOMAP_MAPPED);
	for (uint64_t pos = 0; pos < 256 * KiB; pos += 64 * KiB)
		file->blocks[pos / 4096].boundary = true;
	world_fill(file, 0, 256 * KiB, 1);
	cr_assert_eq(world_fsync(file), 0);
	cr_assert_eq(file->nr_ioends, 4);
	for (unsigned int i = 0; i < 4; i++) {
		cr_assert_eq(file->ioends[i].offset, i * 64 * KiB);
		cr_assert_eq(file->ioends[i].size, 64 * KiB);
	}
	cr_assert_eq(world_nr_dirty_blocks(file), 0);
	cr_assert(world_disk_has(file, 0, 256 * KiB, 1));
	world_check(&world);
	world_close(&world);
}

Test(catalogue_writeback, b51_the_first_folio_of_the_next_object_is_written_too)
{
	objects(4096);
	objects(64 * KiB);
	objects(256 * KiB);
}

/* B56: one byte makes one block dirty. */
BED_TEST(catalogue_writeback, b56_one_byte_writes_one_block)
{
	struct bed_io io;

	bed_write(bed, 0, 64 * KiB, 'A');
	bed_fsync(bed);
	bed_io(bed);
	bed_write(bed, 5000, 1, 'B');
	bed_fsync(bed);
	io = bed_io(bed);
	bed_assert(bed, io.writes == 1);
	bed_assert(bed, io.write_bytes == bed->shape.block);
	bed_assert(bed, io.reads == 0);
}

/* B57: appended in small steps: nothing is written before it is asked for, and nothing twice. */
BED_TEST(catalogue_writeback, b57_small_appends_are_written_once)
{
	struct bed_io io;

	bed_io(bed);
	for (unsigned int i = 0; i < 64; i++)
		bed_write(bed, i * KiB, 1 * KiB, 'A');
	io = bed_io(bed);
	bed_assert(bed, io.writes == 0);
	bed_fsync(bed);
	io = bed_io(bed);
	bed_assert(bed, io.write_bytes == 64 * KiB);
	bed_assert(bed, io.reads == 0);
}

static const struct bed_shape large_blocks[] = {{64 * KiB, 4 * KiB, 2 * MiB},
						{64 * KiB, 64 * KiB, 64 * KiB},
						{0, 0, 0}};

/* B58: writes much smaller than a block read each block at most once and write it once. */
BED_TEST_ON(catalogue_writeback, b58_small_writes_do_not_read_and_write_blocks_again, NULL,
	    large_blocks)
{
	struct bed_io io;

	for (unsigned int pass = 0; pass < 2; pass++) {
		bed_io(bed);
		for (uint64_t pos = 0; pos < 2 * MiB; pos += 512)
			bed_write(bed, pos, 512, 'A' + (unsigned char)pass);
		bed_fsync(bed);
		io = bed_io(bed);
		bed_assert(bed, io.write_bytes == 2 * MiB);
		/* The second time the blocks are there, and not in the cache. */
		bed_assert(bed, io.reads <= pass * 2 * MiB / (64 * KiB));
		bed_remount(bed);
	}
}

/* B59: one request of the folio has ended, the other has not. */
Test(catalogue_writeback, b59_a_folio_is_not_changed_before_its_last_request_ends)
{
	struct blkdev_fault_rule hold = {.op = BIO_WRITE, .kind = -1, .len = 8 * KiB};
	struct world world;
	struct world_config config = {.block_size = 1024, .page_size = 16 * KiB, .stable = true};

	world_open(&world, &config);
	world_set(world.file, 0, 8 * KiB, IOMAP_MAPPED);
	world_set(world.file, 8 * KiB, 8 * KiB, IOMAP_UNWRITTEN);
	world_set(world.file, 8 * KiB, 8 * KiB, IOMAP_MAPPED);
	world_fill(world.file, 0, 16 * KiB, 1);
	hold.addr = world.file->blocks[0].addr;
	cr_assert_eq(blkdev_fault_add(world.fault, &hold), 0);
	cr_assert_eq(world_writepages(world.file, WB_SYNC_NONE, INT64_MAX), 0);
	cr_assert_eq(blkdev_fault_held(world.fault), 1);
	cr_assert(world_disk_has(world.file, 8 * KiB, 8 * KiB, 1));
	cr_assert_eq(world_write_flags(world.file, 0, "x", 1, IOCB_NOWAIT), -EAGAIN);
	cr_assert_eq(world_write_flags(world.file, 9 * KiB, "x", 1, IOCB_NOWAIT), -EAGAIN);
	world_heal(&world);
	cr_assert_eq(world_fsync(world.file), 0);
	cr_assert(world_disk_has(world.file, 0, 16 * KiB, 1));
	world_fill(world.file, 0, 1 * KiB, 2);
	cr_assert_eq(world_fsync(world.file), 0);
	cr_assert(world_disk_has(world.file, 0, 1 * KiB, 2));
	world_check(&world);
	world_close(&world);
}

/* ---- passes that end ------------------------------------------------------------------- */

#define FIRST	 16 /* folios that are dirty when the pass begins */
#define PATIENCE 200 /* ranges after which the writer gives up, and the pass has failed */

struct steady_writer {
	struct world_file *file;
	uint64_t now; /* the page being written */
	bool append;
	unsigned int ranges;
};

static void write_one_page(void *arg)
{
	struct steady_writer *writer = arg;
	uint64_t size = inode_size_read(&writer->file->inode);
	uint64_t other = writer->now ? writer->now - 1 : 1;

	world_fill(writer->file, writer->append ? size : other * 4 * KiB, 4 * KiB, 1);
}

/* For each page that is written another one becomes dirty. */
static void keep_writing(struct world_file *file, struct folio *folio, uint64_t pos, uint64_t len)
{
	struct steady_writer *writer = file->arg;

	(void)folio, (void)len;
	writer->now = pos / (4 * KiB);
	if (writer->ranges++ < PATIENCE)
		beside(write_one_page, writer);
}

static void pass_ends(bool append, bool whole)
{
	struct world world;
	struct world_config config = {.max_folio = 4096};
	struct steady_writer writer = {.append = append};

	world_open(&world, &config);
	writer.file = world.file;
	world_fill(world.file, 0, FIRST * 4 * KiB, 1);
	world.file->arg = &writer;
	world.file->on_range = keep_writing;
	cr_assert_eq(whole ? super_sync(&world.sb) : world_fsync(world.file), 0);
	world.file->on_range = NULL;
	world.file->arg = NULL;
	cr_assert_geq(writer.ranges, FIRST);
	cr_assert_leq(writer.ranges, FIRST + FOLIO_BATCH_SIZE, "%u ranges", writer.ranges);
	cr_assert_eq(world_fsync(world.file), 0);
	world_check(&world);
	world_close(&world);
}

/* B60: what becomes dirty during the pass is not the pass's business. */
Test(catalogue_writeback, b60_fsync_does_not_follow_a_file_that_is_appended_to)
{
	pass_ends(true, false);
}

Test(catalogue_writeback, b60_sync_does_not_follow_a_file_that_is_appended_to)
{
	pass_ends(true, true);
}

/* B61: the same with a file that is only rewritten. */
Test(catalogue_writeback, b61_fsync_does_not_follow_a_file_that_is_rewritten)
{
	pass_ends(false, false);
}

Test(catalogue_writeback, b61_sync_meets_a_busy_file_once)
{
	pass_ends(false, true);
}

static void write_in_cycles(void *arg)
{
	struct world_file *file = arg;

	for (unsigned int i = 0; i < 200; i++) {
		struct writeback_control wbc = {
			.sync_mode = WB_SYNC_NONE, .nr_to_write = 3, .range_cyclic = true};

		cr_assert_eq(world_aops.writepages(&file->inode.i_mapping, &wbc), 0);
	}
}

/* B62: a cyclic pass, which begins in the middle, beside a sync from the beginning. */
Test(catalogue_writeback, b62_a_cyclic_pass_and_a_sync_do_not_wait_for_each_other)
{
	struct world world;
	struct world_config config = {.max_folio = 4096, .workers = 1};
	struct env_thread *thread;

	world_open(&world, &config);
	world_fill(world.file, 0, 40 * KiB, 1);
	world.file->inode.i_mapping.writeback_index = 5;
	cr_assert_eq(env_thread_create(&thread, "cyclic", write_in_cycles, world.file), 0);
	for (unsigned int i = 0; i < 100; i++) {
		world_fill(world.file, 0, 40 * KiB, i);
		cr_assert_eq(world_fsync(world.file), 0);
		cr_assert(world_disk_has(world.file, 0, 40 * KiB, i));
	}
	env_thread_join(thread);
	world_check(&world);
	world_close(&world);
}

/* B64: half of the memory is dirty and not due; the rest is needed again and again. */
Test(catalogue_writeback, b64_memory_is_found_while_dirty_pages_wait_for_their_time)
{
	struct world world;
	struct world_config config = {.capacity = 2 * MiB};
	struct world_file *clean;
	struct page_cache_stats stats;

	world_open(&world, &config);
	cr_assert_eq(page_cache_set_dirty_ratio(world.cache, 100, 100), 0);
	clean = world_file_create(&world);
	world_set(clean, 0, 4 * MiB, IOMAP_MAPPED);
	world_fill(world.file, 0, MiB - 128 * KiB, 1);
	page_cache_get_stats(world.cache, &stats);
	cr_assert_eq(stats.nr_dirty * 4 * KiB, MiB - 128 * KiB);
	cr_assert(world_reads_as(clean, 0, 4 * MiB, 0));
	world_fill(world.file, MiB - 128 * KiB, 4 * MiB, 1);
	cr_assert(world_reads_as(clean, 0, 4 * MiB, 0));
	cr_assert(world_reads_as(world.file, 0, 5 * MiB - 128 * KiB, 1));
	cr_assert_eq(world_fsync(world.file), 0);
	world_check(&world);
	world_close(&world);
}

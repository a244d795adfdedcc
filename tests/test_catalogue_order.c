/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_catalogue_order.c - failures that page caches had: eviction, shutdown, order, other parties
 */
#include "tests/bed.h"

#include <errno.h>
#include <stdlib.h>
#include "tests/world.h"

/* ---- eviction ------------------------------------------------------------------------ */

struct evictor {
	struct page_cache *cache;
	bool stop; /* [a] */
};

static void evict(void *arg)
{
	struct evictor *evictor = arg;

	while (!__atomic_load_n(&evictor->stop, __ATOMIC_ACQUIRE))
		page_cache_drop(evictor->cache);
}

static struct env_thread *start_evicting(struct evictor *evictor)
{
	struct env_thread *thread;

	cr_assert_eq(env_thread_create(&thread, "evictor", evict, evictor), 0);
	return thread;
}

static void stop_evicting(struct evictor *evictor, struct env_thread *thread)
{
	__atomic_store_n(&evictor->stop, true, __ATOMIC_RELEASE);
	env_thread_join(thread);
}

/* B112: the folio that is appended to is evicted between two appends. */
BED_TEST(catalogue_order, b112_appends_in_small_steps_while_folios_go)
{
	struct evictor evictor = {.cache = bed->cache};
	struct env_thread *thread = start_evicting(&evictor);

	for (unsigned int i = 0; i < 300; i++) {
		bed_write(bed, bed->size, 100 + i % 7, (unsigned char)('a' + i % 26));
		if (i % 10 == 0)
			bed_fsync(bed);
	}
	stop_evicting(&evictor, thread);
	bed_check(bed);
}

/* B113: data writes are held; what they carry is stored over, and memory is wanted. */
BED_TEST(catalogue_order, b113_newer_data_is_not_evicted_when_older_data_is_written)
{
	struct blkdev_fault_rule hold = {.op = BIO_WRITE, .kind = BIO_DATA};

	bed_write(bed, 0, 64 * KiB, 'A');
	bed_assert(bed, fs_close(bed->file) == 0);
	bed_assert(bed, fs_open(bed->fs, "/file", 0, &bed->file) == 0);
	bed_assert(bed, blkdev_fault_add(bed->fault, &hold) == 0);
	bed_assert(bed, fs_sync_range(bed->file, 0, 64 * KiB, false) == 0);
	bed_assert(bed, blkdev_fault_held(bed->fault) > 0);
	bed_write(bed, 0, 64 * KiB, 'B');
	bed_assert(bed, bed_drop(bed) == 0);
	bed_check(bed);
	blkdev_fault_clear(bed->fault);
	blkdev_fault_release(bed->fault);
	filemap_fdatawait_range(&fs_inode_of(bed->file)->i_mapping, 0, UINT64_MAX);
	bed_drop(bed);
	bed_check(bed);
	bed_fsync(bed);
	bed_assert(bed, bed_device_has(bed, 0, 64 * KiB, 'B'));
}

/* B114: who evicts and who completes take the same locks. */
Test(catalogue_order, b114_evicting_and_completing_do_not_wait_for_each_other)
{
	struct world world;
	struct world_config config = {.block_size = 1024, .workers = 2};
	struct evictor evictor = {0};
	struct env_thread *thread;

	world_open(&world, &config);
	evictor.cache = world.cache;
	thread = start_evicting(&evictor);
	for (unsigned int i = 0; i < 100; i++) {
		world_fill(world.file, 0, 64 * KiB, i);
		cr_assert_eq(world_writepages(world.file, WB_SYNC_NONE, INT64_MAX), 0);
		cr_assert(world_reads_as(world.file, 0, 64 * KiB, i));
	}
	stop_evicting(&evictor, thread);
	cr_assert_eq(world_fsync(world.file), 0);
	cr_assert(world_disk_has(world.file, 0, 64 * KiB, 99));
	world_check(&world);
	world_close(&world);
}

/* ---- shutdown ------------------------------------------------------------------------ */

/* A second file system in the bed's cache, to be unmounted by the test. */
struct second {
	struct block_device *fault, *dev;
	struct backing_dev *bdi;
	struct fs *fs;
	struct file *file;
};

static void second_open(struct second *second, struct bed *bed, bool write_cache)
{
	struct fs_config config = {.type = bed->type, .block_size = bed->shape.block};
	struct block_device *ram;
	char error[256] = "";

	bed_assert(bed, blkdev_ram_create(&ram, BED_DEVICE, 0) == 0);
	blkdev_ram_poison(ram, BED_POISON);
	bed_assert(bed, blkdev_fault_create(&second->fault, ram) == 0);
	if (write_cache)
		bed_assert(bed, blkdev_fault_write_cache(second->fault) == 0);
	bed_assert(bed, blkdev_count_create(&second->dev, second->fault) == 0);
	bed_assert(bed, bdi_create(&second->bdi, bed->cache, second->dev, 1, WB_MAP_AUTO) == 0);
	cr_assert_eq(fs_mount(&second->fs, bed->cache, second->bdi, second->dev, &config, error,
			      sizeof(error)),
		     0, "%s", error);
	bed_assert(bed, fs_open(second->fs, "/second", FS_OPEN_CREATE, &second->file) == 0);
}

static void second_free(struct second *second)
{
	bdi_destroy(second->bdi);
	blkdev_destroy(second->dev);
}

static void second_write(struct bed *bed, struct second *second, unsigned char byte)
{
	unsigned char *memory = malloc(MiB);

	memset(memory, byte, MiB);
	bed_assert(bed, fs_write(second->file, memory, MiB, 0) == (ssize_t)MiB);
	free(memory);
}

static uint64_t nr_flushes(struct second *second)
{
	struct blkdev_count count;
	uint64_t sum = 0;

	blkdev_count_read(second->dev, &count);
	for (unsigned int kind = 0; kind < BIO_NR_KINDS; kind++)
		sum += count.ios[BIO_FLUSH][kind];
	return sum;
}

/* Each sector is all of the one byte or all of the other. */
static bool second_device_has_either(struct second *second, uint64_t addr, uint64_t len,
				     unsigned char one, unsigned char other)
{
	unsigned char *memory = malloc(len);
	struct bio bio;
	bool same = true;

	bio_init(&bio, second->fault->below, BIO_READ, BIO_DATA, addr);
	cr_assert_eq(bio_add(&bio, memory, len), 0);
	cr_assert_eq(bio_submit_wait(&bio), 0);
	bio_uninit(&bio);
	for (uint64_t i = 0; i < len; i++)
		same &= memory[i] == memory[i / 512 * 512] &&
			(memory[i] == one || memory[i] == other);
	free(memory);
	return same;
}

static bool second_device_has(struct second *second, uint64_t addr, uint64_t len,
			      unsigned char byte)
{
	return second_device_has_either(second, addr, len, byte, byte);
}

/* B109: the device will never write again; unmounting ends and says so. */
BED_TEST(catalogue_order, b109_unmount_ends_on_a_device_that_writes_no_more)
{
	struct blkdev_fault_rule data = {.op = BIO_WRITE, .kind = BIO_DATA, .error = -EIO};
	struct blkdev_fault_rule all = {.op = BIO_WRITE, .kind = -1, .error = -EIO};

	for (unsigned int i = 0; i < 2; i++) {
		struct second second;

		second_open(&second, bed, false);
		second_write(bed, &second, 'A');
		bed_assert(bed, blkdev_fault_add(second.fault, i ? &all : &data) == 0);
		fs_close(second.file);
		bed_assert(bed, fs_unmount(second.fs) == -EIO);
		second_free(&second);
	}
}

/* B115: closing and unmounting write what is dirty, and flush the device after it. */
BED_TEST(catalogue_order, b115_unmount_writes_what_is_dirty)
{
	struct second second;
	struct fs_extent extent;
	uint64_t flushes;

	second_open(&second, bed, false);
	second_write(bed, &second, 'A');
	flushes = nr_flushes(&second);
	bed_assert(bed, fs_fsync(second.file, false) == 0);
	bed_assert(bed, nr_flushes(&second) > flushes);
	bed_assert(bed, fs_next_extent(second.file, 0, &extent) == 0);
	bed_assert(bed, extent.pos == 0 && !extent.delayed && !extent.unwritten);
	if (extent.len > MiB)
		extent.len = MiB;
	second_write(bed, &second, 'B');
	bed_assert(bed, second_device_has(&second, extent.addr, extent.len, 'A'));
	flushes = nr_flushes(&second);
	bed_assert(bed, fs_close(second.file) == 0);
	bed_assert(bed, fs_unmount(second.fs) == 0);
	bed_assert(bed, nr_flushes(&second) > flushes);
	bed_assert(bed, second_device_has(&second, extent.addr, extent.len, 'B'));
	second_free(&second);
}

/* ---- what a crash would find ---------------------------------------------------------- */

/* The power goes before the n-th request of an fsync of 'B' over 'A' is done; false: it had not. */
static bool cut_during_fsync(struct bed *bed, uint64_t n, uint64_t seed)
{
	struct blkdev_fault_rule cut = {
		.op = -1, .kind = -1, .after = n, .count = 1, .action = BLKDEV_FAULT_CUT};
	struct second second;
	struct fs_extent extent;
	bool was_cut;
	int err;

	second_open(&second, bed, true);
	second_write(bed, &second, 'A');
	bed_assert(bed, fs_fsync(second.file, false) == 0);
	bed_assert(bed, fs_next_extent(second.file, 0, &extent) == 0);
	extent.len = extent.len > MiB ? MiB : extent.len;
	second_write(bed, &second, 'B');
	bed_assert(bed, blkdev_fault_add(second.fault, &cut) == 0);
	blkdev_fault_seed(second.fault, seed);
	err = fs_fsync(second.file, false);
	was_cut = blkdev_fault_hits(second.fault) > 0;
	bed_assert(bed, was_cut ? err == -EIO : err == 0);
	blkdev_fault_clear(second.fault);
	if (!was_cut)
		bed_assert(bed, blkdev_fault_power_cut(second.fault) == 0);
	blkdev_fault_power_on(second.fault);
	if (was_cut)
		bed_assert(bed,
			   second_device_has_either(&second, extent.addr, extent.len, 'A', 'B'));
	else
		bed_assert(bed, second_device_has(&second, extent.addr, extent.len, 'B'));
	fs_close(second.file);
	fs_unmount(second.fs);
	second_free(&second);
	return was_cut;
}

static const struct bed_shape one_shape[] = {{4 * KiB, 4 * KiB, 64 * KiB}, {0, 0, 0}};

/* B116: a device that forgets what was not flushed: what a finished fsync covered is there. */
BED_TEST_ON(catalogue_order, b116_what_was_synced_survives_the_power, NULL, one_shape)
{
	for (uint64_t seed = 1; seed <= 8; seed++) {
		uint64_t n = 0;

		while (cut_during_fsync(bed, n, seed))
			bed_assert(bed, ++n < 100);
		bed_assert(bed, n > 1); /* data and a flush at least */
	}
}

static void change_the_tail(struct bed *bed, unsigned int mode)
{
	bed_write(bed, 0, 64 * KiB, '1');
	bed_assert(bed, bed_device_has_no_stale(bed));
	bed_fallocate(bed, mode, 60 * KiB, 4 * KiB);
	bed_assert(bed, bed_device_has_no_stale(bed));
	bed_check(bed);
	bed_fsync(bed);
	bed_assert(bed, bed_device_has_no_stale(bed));
}

/* B117: the tail of delayed data gets its space; what has no data yet is not called written. */
BED_TEST(catalogue_order, b117_fallocate_at_the_tail_of_delayed_data)
{
	change_the_tail(bed, 0);
}

BED_TEST(catalogue_order, b117_punch_at_the_tail_of_delayed_data)
{
	change_the_tail(bed, FS_FALLOC_PUNCH_HOLE | FS_FALLOC_KEEP_SIZE);
}

BED_TEST(catalogue_order, b117_zeroing_the_tail_of_delayed_data)
{
	change_the_tail(bed, FS_FALLOC_ZERO_RANGE | FS_FALLOC_KEEP_SIZE);
}

/* One block of many is written; the record it lies in is converted in part only. */
BED_TEST(catalogue_order, b117_writing_one_block_of_a_delayed_record)
{
	bed_write(bed, 0, 512 * KiB, '1');
	bed_assert(bed, fs_sync_range(bed->file, 256 * KiB, 1, true) == 0);
	bed_assert(bed, bed_device_has_no_stale(bed));
	bed_fsync(bed);
	bed_assert(bed, bed_device_has_no_stale(bed));
}

/* B118: unaligned writes, space and zeroes; at no step is space called written that is not. */
BED_TEST(catalogue_order, b118_size_space_and_delayed_data)
{
	bed_write(bed, 0x137dd, 0xdc69, 'A');
	bed_fallocate(bed, 0, 0xb531, 0xb5ad);
	bed_assert(bed, bed_device_has_no_stale(bed));
	bed_write(bed, 0x3e5ec, 0x1a14, 'B');
	bed_fallocate(bed, FS_FALLOC_ZERO_RANGE | FS_FALLOC_KEEP_SIZE, 0x20fac, 0x6d9c);
	bed_assert(bed, bed_device_has_no_stale(bed));
	bed_write(bed, 0x216ad, 0x274f, 'M');
	bed_writeback(bed);
	bed_assert(bed, bed_device_has_no_stale(bed));
	bed_check(bed);
	bed_fsync(bed);
	bed_assert(bed, bed_device_has_no_stale(bed));
}

/* ---- others who change the file --------------------------------------------------------- */

/* B119: what is below the cache has changed, and says so. */
Test(catalogue_order, b119_a_file_that_changes_below_the_cache)
{
	struct world world;
	struct world_config config = {.max_folio = 4096};
	struct address_space *mapping;

	world_open(&world, &config);
	mapping = &world.file->inode.i_mapping;
	world_fill(world.file, 0, 4 * KiB, 1);
	cr_assert_eq(world_fsync(world.file), 0);
	world_set(world.file, 0, 8 * KiB, IOMAP_MAPPED);
	cr_assert_eq(filemap_invalidate(mapping, 0, UINT64_MAX >> mapping->page_shift), 0);
	cr_assert_eq(inode_size_read(&world.file->inode), 8 * KiB);
	cr_assert(world_reads_as(world.file, 0, 8 * KiB, 0));

	/* What is dirty stays, and the caller hears of it; the rest is read again. */
	world_fill(world.file, 0, 4 * KiB, 2);
	world_set(world.file, 4 * KiB, 4 * KiB, IOMAP_HOLE);
	cr_assert_eq(filemap_invalidate(mapping, 0, UINT64_MAX >> mapping->page_shift), -EBUSY);
	cr_assert(world_reads_as(world.file, 0, 4 * KiB, 2));
	cr_assert(world_reads_zero(world.file, 4 * KiB, 4 * KiB));
	cr_assert_eq(world_fsync(world.file), 0);

	world_set_size(world.file, 1 * KiB);
	cr_assert_eq(filemap_invalidate(mapping, 0, UINT64_MAX >> mapping->page_shift), 0);
	cr_assert_not(world_reads_as(world.file, 0, 1 * KiB + 1, 2)); /* that is too much */
	cr_assert(world_reads_as(world.file, 0, 1 * KiB, 2));
	world_set_size(world.file, 8 * KiB);
	world_check(&world);
	world_close(&world);
}

/* B120: part of a block that is not cached is a miss, and one read; a whole block is none. */
BED_TEST(catalogue_order, b120_a_part_of_a_block_reads_the_block_once)
{
	struct page_cache_stats before, after;
	struct bed_io io;

	bed_write(bed, 0, 64 * KiB, 'A');
	bed_fsync(bed);
	bed_drop(bed);
	bed_io(bed);
	page_cache_get_stats(bed->cache, &before);
	bed_write(bed, 100, 10, 'B');
	page_cache_get_stats(bed->cache, &after);
	io = bed_io(bed);
	bed_assert(bed, io.reads == 1);
	bed_assert(bed, after.fill_bytes - before.fill_bytes == bed->shape.block);
	bed_assert(bed, after.read_bytes == before.read_bytes);
	bed_fsync(bed);
	bed_drop(bed);
	bed_io(bed);
	bed_write(bed, 0, bed->shape.block, 'C');
	io = bed_io(bed);
	bed_assert(bed, io.reads == 0);
	bed_truncate(bed, 300000);
	bed_fsync(bed);
	bed_drop(bed);
	bed_assert(bed, bed_reads(bed, 64 * KiB, 300000 - 64 * KiB, 0));
}

static void reserve(void *arg)
{
	for (unsigned int i = 0; i < 10; i++)
		cr_assert_eq(fs_fallocate(arg, 0, 0, 64 * KiB), 0);
}

/* B121: space and size by one, a cut and a write by another. */
BED_TEST(catalogue_order, b121_fallocate_beside_truncate_and_write)
{
	struct env_thread *thread;

	bed_assert(bed, env_thread_create(&thread, "reserver", reserve, bed->file) == 0);
	for (unsigned int i = 0; i < 10; i++) {
		bed_assert(bed, fs_truncate(bed->file, 4 * KiB) == 0);
		bed_assert(bed, fs_write(bed->file, "YYYY", 4, 60 * KiB) == 4);
		bed_assert(bed, bed_reads(bed, 60 * KiB, 4, 'Y'));
	}
	env_thread_join(thread);
	/* By whom the file was made longest decides its size; the last write is there. */
	bed->size = fs_size(bed->file);
	bed_assert(bed, bed->size == 64 * KiB || bed->size == 60 * KiB + 4);
	memset(bed->model + 60 * KiB, 'Y', 4);
	bed_check(bed);
	bed_fsync(bed);
	bed_remount(bed);
}

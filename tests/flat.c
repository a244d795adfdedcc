/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * flat.c - a file system without allocation, see flat.h
 */
#include "flat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <iomap/iomap.h>
#include "env/lockdep.h"

static const struct super_operations no_super_ops = {0};

static struct flat_file *flat_of(struct inode *inode)
{
	return container_of(inode, struct flat_file, inode);
}

static uint64_t device_addr(const struct flat_file *file, uint64_t pos)
{
	return file->inode.i_ino * FLAT_FILE_BYTES + pos;
}

/* ---- read --------------------------------------------------------------------------- */

/* The device holds what is no longer or not yet the file's: that reads as zero. */
static void read_end_io(struct bio *bio)
{
	struct folio *folio = bio->private_data;
	struct flat_file *file = flat_of(folio->mapping->host);
	uint64_t first = folio_pos(folio) / PAGE;
	int status = bio->status;

	for (uint64_t i = 0; i < folio_size(folio) / PAGE; i++)
		if (!__atomic_load_n(&file->written[first + i], __ATOMIC_ACQUIRE))
			memset(folio->data + i * PAGE, 0, PAGE);
	bio_uninit(bio);
	free(bio);
	folio_end_read(folio, status == 0);
}

static void start_read(struct flat_file *file, struct folio *folio)
{
	struct bio *bio = malloc(sizeof(*bio));

	cr_assert(bio);
	bio_init(bio, file->flat->dev, BIO_READ, BIO_DATA, device_addr(file, folio_pos(folio)));
	cr_assert_eq(bio_add(bio, folio->data, folio_size(folio)), 0);
	bio->private_data = folio;
	bio->end_io = read_end_io;
	bio_submit(bio);
}

static int flat_read_folio(struct file *opened, struct folio *folio)
{
	struct flat_file *file = flat_of(folio->mapping->host);

	(void)opened;
	__atomic_fetch_add(&file->nr_read_folio, 1, __ATOMIC_RELAXED);
	if (file->flat->on_read_folio)
		return file->flat->on_read_folio(file, folio);
	start_read(file, folio);
	return 0;
}

static void flat_readahead(struct readahead_control *rac)
{
	struct flat_file *file = flat_of(rac->mapping->host);
	struct folio *folio;

	__atomic_fetch_add(&file->nr_readahead, 1, __ATOMIC_RELAXED);
	while ((folio = filemap_readahead_folio(rac)) != NULL)
		start_read(file, folio);
}

/* ---- writeback ---------------------------------------------------------------------- */

static void write_end_io(struct bio *bio)
{
	struct folio *folio = bio->private_data;
	struct flat_file *file = flat_of(folio->mapping->host);
	uint64_t first = folio_pos(folio) / PAGE;

	if (bio->status)
		mapping_set_error(flat_mapping(file), bio->status);
	else
		for (uint64_t i = 0; i < folio_size(folio) / PAGE; i++)
			__atomic_store_n(&file->written[first + i], 1, __ATOMIC_RELEASE);
	bio_uninit(bio);
	free(bio);
	folio_end_writeback(folio);
}

static int write_folio(struct flat_file *file, struct folio *folio)
{
	uint64_t size = inode_size_read(&file->inode);
	uint64_t pos = folio_pos(folio);
	struct bio *bio;
	int err = 0;

	if (file->flat->on_write_folio)
		err = file->flat->on_write_folio(file, folio);
	if (err)
		mapping_set_error(flat_mapping(file), err);
	if (err || pos >= size) {
		folio_unlock(folio);
		return err;
	}
	if (size - pos < folio_size(folio))
		memset(folio->data + (size - pos), 0, folio_size(folio) - (size - pos));
	bio = malloc(sizeof(*bio));
	cr_assert(bio);
	bio_init(bio, file->flat->dev, BIO_WRITE, BIO_DATA, device_addr(file, pos));
	cr_assert_eq(bio_add(bio, folio->data, folio_size(folio)), 0);
	bio->private_data = folio;
	bio->end_io = write_end_io;
	folio_start_writeback(folio);
	wb_account_request(&file->inode, folio_size(folio));
	folio_unlock(folio);
	bio_submit(bio);
	return 0;
}

static int flat_writepages(struct address_space *mapping, struct writeback_control *wbc)
{
	struct flat_file *file = flat_of(mapping->host);
	struct folio *folio = NULL;
	int err = 0;

	__atomic_fetch_add(&file->nr_writepages, 1, __ATOMIC_RELAXED);
	if (file->flat->on_writepages)
		file->flat->on_writepages(file, wbc);
	while ((folio = filemap_writeback_iter(mapping, wbc, folio, &err)) != NULL)
		err = write_folio(file, folio);
	return err;
}

static const struct address_space_operations flat_aops = {
	.read_folio = flat_read_folio,
	.readahead = flat_readahead,
	.writepages = flat_writepages,
};

/* ---- set up ------------------------------------------------------------------------- */

void flat_config_init(struct flat_config *config)
{
	memset(config, 0, sizeof(*config));
	page_cache_config_init(&config->cache);
	config->cache.capacity = 16 * MiB;
	config->cache.prefault = false;
	config->cache.writeback_interval_ns = 0;
	config->nr_contexts = 1;
	config->map = WB_MAP_AUTO;
	config->block_size = PAGE;
	config->super_ops = &no_super_ops;
}

void flat_open(struct flat *flat, const struct flat_config *config)
{
	struct block_device *ram;

	memset(flat, 0, sizeof(*flat));
	cr_assert_eq(page_cache_create(&flat->cache, &config->cache), 0);
	cr_assert_eq(blkdev_ram_create(&ram, FLAT_FILES * FLAT_FILE_BYTES, config->workers), 0);
	cr_assert_eq(blkdev_count_create(&flat->count, ram), 0);
	cr_assert_eq(blkdev_fault_create(&flat->dev, flat->count), 0);
	flat->dev->rotational = config->rotational;
	flat->dev->stable_writes = config->stable_writes;
	cr_assert_eq(
		bdi_create(&flat->bdi, flat->cache, flat->dev, config->nr_contexts, config->map),
		0);
	cr_assert_eq(super_init(&flat->sb, flat->cache, flat->bdi, config->block_size,
				config->super_ops),
		     0);
}

void flat_close(struct flat *flat)
{
	super_shutdown(&flat->sb);
	bdi_destroy(flat->bdi);
	blkdev_destroy(flat->dev);
	page_cache_destroy(flat->cache);
}

struct flat_file *flat_create_on(struct flat *flat, struct super_block *sb, uint64_t ino)
{
	struct flat_file *file = calloc(1, sizeof(*file));

	cr_assert(file);
	cr_assert_lt(ino, FLAT_FILES);
	file->flat = flat;
	inode_init(&file->inode, sb, ino, &flat_aops);
	file_init(&file->file, &file->inode, 0);
	return file;
}

struct flat_file *flat_create(struct flat *flat, uint64_t ino)
{
	return flat_create_on(flat, &flat->sb, ino);
}

void flat_remove(struct flat_file *file)
{
	file_release(&file->file);
	inode_evict(&file->inode);
	free(file);
}

/* ---- files -------------------------------------------------------------------------- */

/* The locked folio is read from the device. */
static void fill_folio(struct flat_file *file, struct folio *folio)
{
	/* The lock goes to the read. */
	env_lockdep_release(folio);
	start_read(file, folio);
	folio_wait_locked(folio);
	folio_lock(folio);
	cr_assert(folio_test(folio, FOLIO_UPTODATE));
	cr_assert_eq(folio->mapping, flat_mapping(file));
}

/* One folio's part of a write; returns its bytes or an errno. */
static ssize_t write_step(struct flat_file *file, const unsigned char *memory, size_t len,
			  uint64_t pos)
{
	struct address_space *mapping = flat_mapping(file);
	unsigned int hint = filemap_order_hint(mapping, len);
	struct folio *folio;
	uint64_t off;
	int err;

	err = wb_balance_dirty_pages(mapping, false);
	if (!err)
		err = filemap_get_folio(mapping, pos / PAGE,
					FGP_WRITEBEGIN | hint << FGP_ORDER_SHIFT, &folio);
	if (err)
		return err;
	off = pos - folio_pos(folio);
	if (len > folio_size(folio) - off)
		len = folio_size(folio) - off;
	if (!folio_test(folio, FOLIO_UPTODATE) && len < folio_size(folio)) {
		if (folio_pos(folio) < inode_size_read(&file->inode))
			fill_folio(file, folio);
		else
			memset(folio->data, 0, folio_size(folio));
	}
	memcpy(folio->data + off, memory, len);
	folio_mark_uptodate(folio);
	folio_mark_dirty(folio);
	if (pos + len > inode_size_read(&file->inode))
		inode_size_write(&file->inode, pos + len);
	folio_unlock_put(folio);
	return (ssize_t)len;
}

static ssize_t write_locked(struct flat_file *file, const unsigned char *memory, size_t len,
			    uint64_t pos)
{
	size_t done = 0;

	cr_assert_leq(pos + len, FLAT_FILE_BYTES);
	while (done < len) {
		ssize_t step = write_step(file, memory + done, len - done, pos + done);

		if (step < 0)
			return done ? (ssize_t)done : step;
		done += (size_t)step;
	}
	return (ssize_t)done;
}

ssize_t flat_write(struct flat_file *file, const void *memory, size_t len, uint64_t pos)
{
	ssize_t written;

	env_rwsem_write_lock(&file->inode.i_rwsem);
	written = write_locked(file, memory, len, pos);
	env_rwsem_write_unlock(&file->inode.i_rwsem);
	return written;
}

ssize_t flat_read(struct flat_file *file, void *memory, size_t len, uint64_t pos)
{
	struct kiocb iocb = {.ki_filp = &file->file, .ki_pos = pos};
	struct iov_iter iter;

	iov_iter_init(&iter, memory, len);
	return filemap_read(&iocb, &iter);
}

void flat_truncate(struct flat_file *file, uint64_t size)
{
	static const unsigned char zeroes[PAGE];
	uint64_t old;

	env_rwsem_write_lock(&file->inode.i_rwsem);
	env_rwsem_write_lock(&flat_mapping(file)->invalidate_lock);
	old = inode_size_read(&file->inode);
	if (size < old && size % PAGE) {
		uint64_t tail = PAGE - size % PAGE;

		tail = tail < old - size ? tail : old - size;
		cr_assert_eq(write_locked(file, zeroes, tail, size), (ssize_t)tail);
	}
	inode_size_write(&file->inode, size);
	if (size < old) {
		filemap_truncate(&file->inode, size);
		for (uint64_t i = (size + PAGE - 1) / PAGE; i < FLAT_FILE_BYTES / PAGE; i++)
			__atomic_store_n(&file->written[i], 0, __ATOMIC_RELEASE);
	} else {
		filemap_isize_extended(&file->inode, old, size);
	}
	env_rwsem_write_unlock(&flat_mapping(file)->invalidate_lock);
	env_rwsem_write_unlock(&file->inode.i_rwsem);
}

int flat_fsync(struct flat_file *file)
{
	return file_fsync(&file->file, 0, UINT64_MAX, false);
}

void flat_dirty_page(struct flat_file *file, uint64_t index, unsigned char byte)
{
	struct folio *folio;

	cr_assert_eq(filemap_get_folio(flat_mapping(file), index, FGP_WRITEBEGIN, &folio), 0);
	memset(folio->data + (index - folio->index) * PAGE, byte, PAGE);
	if (folio_order(folio) == 0)
		folio_mark_uptodate(folio);
	cr_assert(folio_test(folio, FOLIO_UPTODATE));
	folio_mark_dirty(folio);
	if ((index + 1) * PAGE > inode_size_read(&file->inode))
		inode_size_write(&file->inode, (index + 1) * PAGE);
	folio_unlock_put(folio);
}

void flat_dirty_pages(struct flat_file *file, uint64_t first, uint64_t nr, unsigned char byte)
{
	for (uint64_t i = 0; i < nr; i++)
		flat_dirty_page(file, first + i, byte);
}

struct folio *flat_new_folio(struct flat_file *file, uint64_t index, unsigned int order)
{
	struct folio *folio;

	cr_assert_eq(filemap_get_folio(flat_mapping(file), index,
				       FGP_LOCK | FGP_CREAT | order << FGP_ORDER_SHIFT, &folio),
		     0);
	cr_assert_eq(folio->index, index);
	cr_assert_eq(folio_order(folio), order);
	cr_assert_not(folio_test(folio, FOLIO_UPTODATE));
	memset(folio->data, 0, folio_size(folio));
	folio_mark_uptodate(folio);
	if (folio_pos(folio) + folio_size(folio) > inode_size_read(&file->inode))
		inode_size_write(&file->inode, folio_pos(folio) + folio_size(folio));
	return folio;
}

struct folio *flat_find(struct flat_file *file, uint64_t index)
{
	struct folio *folio;

	return filemap_get_folio(flat_mapping(file), index, 0, &folio) ? NULL : folio;
}

bool flat_is_cached(struct flat_file *file, uint64_t index)
{
	struct folio *folio = flat_find(file, index);

	if (folio)
		folio_put(folio);
	return folio != NULL;
}

void flat_device_read(struct flat_file *file, void *memory, size_t len, uint64_t pos)
{
	struct bio bio;

	bio_init(&bio, file->flat->count, BIO_READ, BIO_META, device_addr(file, pos));
	cr_assert_eq(bio_add(&bio, memory, len), 0);
	cr_assert_eq(bio_submit_wait(&bio), 0);
	bio_uninit(&bio);
}

/* ---- held requests ------------------------------------------------------------------ */

void flat_hold(struct flat *flat, enum bio_op op)
{
	struct blkdev_fault_rule rule = {.op = (int)op, .kind = -1};

	cr_assert_eq(blkdev_fault_add(flat->dev, &rule), 0);
}

void flat_release(struct flat *flat)
{
	blkdev_fault_clear(flat->dev);
	blkdev_fault_release(flat->dev);
}

/* ---- figures ------------------------------------------------------------------------ */

struct page_cache_stats flat_stats(struct flat *flat)
{
	struct page_cache_stats stats;

	page_cache_get_stats(flat->cache, &stats);
	return stats;
}

struct wb_stats flat_wb_stats(struct flat *flat, unsigned int context)
{
	struct wb_stats stats;

	wb_get_stats(flat->bdi, context, &stats);
	return stats;
}

/* ---- threads ------------------------------------------------------------------------ */

static void thread_body(void *arg)
{
	struct flat_thread *thread = arg;

	thread->fn(thread->arg);
	__atomic_store_n(&thread->done, true, __ATOMIC_RELEASE);
}

void flat_thread_start(struct flat_thread *thread, void (*fn)(void *arg), void *arg)
{
	thread->fn = fn;
	thread->arg = arg;
	thread->done = false;
	cr_assert_eq(env_thread_create(&thread->thread, "test", thread_body, thread), 0);
}

bool flat_thread_is_done(const struct flat_thread *thread)
{
	return __atomic_load_n(&thread->done, __ATOMIC_ACQUIRE);
}

void flat_thread_join(struct flat_thread *thread)
{
	env_thread_join(thread->thread);
}

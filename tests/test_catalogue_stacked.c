/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_catalogue_stacked.c - failures that page caches had: a cache over a file of the same cache
 *
 * The device of the upper file system is a file of the lower one, served by a thread, as a loop
 * device is.  Both share one cache and its dirty limits.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <iomap/backing_dev.h>
#include <iomap/blkdev.h>
#include <iomap/env.h>
#include <iomap/fsbackend.h>
#include <iomap/page_cache.h>
#include <stdlib.h>
#include <string.h>
#include "tests/units.h"

#define LOOP_SIZE (64 * MiB)

struct loop_device {
	struct block_device bdev; /* first */
	struct file *file;
	struct env_thread *thread;
	struct env_mutex lock;
	struct env_waitq changed;
	struct bio *head, **tail; /* [lock] */
	bool stop; /* [lock] */
};

static int loop_transfer(struct loop_device *loop, struct bio *bio)
{
	uint64_t pos = bio->addr;

	if (bio->op == BIO_FLUSH)
		return fs_fsync(loop->file, false);
	for (unsigned int i = 0; i < bio->nr_vecs; i++) {
		struct bio_vec *vec = &bio->vecs[i];
		ssize_t n = bio->op == BIO_READ ? fs_read(loop->file, vec->base, vec->len, pos)
						: fs_write(loop->file, vec->base, vec->len, pos);

		if (n != (ssize_t)vec->len)
			return n < 0 ? (int)n : -EIO;
		pos += vec->len;
	}
	return 0;
}

static struct bio *loop_take(struct loop_device *loop, bool *stop)
{
	struct bio *bio;

	env_mutex_lock(&loop->lock);
	bio = loop->head;
	if (bio)
		loop->head = bio->next;
	if (!loop->head)
		loop->tail = &loop->head;
	*stop = loop->stop;
	env_mutex_unlock(&loop->lock);
	return bio;
}

static void loop_serve(void *arg)
{
	struct loop_device *loop = arg;
	bool stop = false;

	for (;;) {
		struct bio *bio;

		env_wait_event(&loop->changed, (bio = loop_take(loop, &stop)) != NULL || stop);
		if (!bio)
			return;
		bio_endio(bio, loop_transfer(loop, bio));
	}
}

static void loop_submit(struct block_device *bdev, struct bio *bio)
{
	struct loop_device *loop = (struct loop_device *)bdev;

	bio->next = NULL;
	env_mutex_lock(&loop->lock);
	*loop->tail = bio;
	loop->tail = &bio->next;
	env_mutex_unlock(&loop->lock);
	env_waitq_wake(&loop->changed);
}

static void loop_destroy(struct block_device *bdev)
{
	struct loop_device *loop = (struct loop_device *)bdev;

	env_mutex_lock(&loop->lock);
	loop->stop = true;
	env_mutex_unlock(&loop->lock);
	env_waitq_wake(&loop->changed);
	env_thread_join(loop->thread);
	free(loop);
}

static struct block_device *loop_create(struct file *file)
{
	static const struct blkdev_ops ops = {.submit = loop_submit, .destroy = loop_destroy};
	struct loop_device *loop = calloc(1, sizeof(*loop));

	loop->bdev = (struct block_device){
		.ops = &ops, .name = "loop", .size = LOOP_SIZE, .logical_block = 512};
	loop->file = file;
	loop->tail = &loop->head;
	env_mutex_init(&loop->lock, "loop->lock");
	env_waitq_init(&loop->changed);
	cr_assert_eq(env_thread_create(&loop->thread, "loop", loop_serve, loop), 0);
	return &loop->bdev;
}

/* ---- a file system on a device ----------------------------------------------------------- */

struct layer {
	struct block_device *dev;
	struct backing_dev *bdi;
	struct fs *fs;
	struct file *file;
};

static void layer_open(struct layer *layer, struct page_cache *cache, struct block_device *dev,
		       const char *type)
{
	struct fs_config config = {.type = type};
	char error[256] = "";

	layer->dev = dev;
	cr_assert_eq(bdi_create(&layer->bdi, cache, dev, 1, WB_MAP_AUTO), 0);
	cr_assert_eq(fs_mount(&layer->fs, cache, layer->bdi, dev, &config, error, sizeof(error)), 0,
		     "%s", error);
	cr_assert_eq(fs_open(layer->fs, "/file", FS_OPEN_CREATE, &layer->file), 0);
}

static void layer_close(struct layer *layer)
{
	cr_assert_eq(fs_close(layer->file), 0);
	cr_assert_eq(fs_unmount(layer->fs), 0);
	bdi_destroy(layer->bdi);
	blkdev_destroy(layer->dev);
}

#define CHUNK (64 * KiB)

static void fill(unsigned char *memory, uint64_t pos)
{
	memset(memory, (int)(1 + pos / CHUNK % 250), CHUNK);
}

static void write_much_and_read_it(struct page_cache *cache, struct file *file, uint64_t size)
{
	unsigned char *right = malloc(CHUNK);
	unsigned char *memory = malloc(CHUNK);

	for (uint64_t pos = 0; pos < size; pos += CHUNK) {
		fill(right, pos);
		cr_assert_eq(fs_write(file, right, CHUNK, pos), (ssize_t)CHUNK);
	}
	cr_assert_eq(fs_fsync(file, false), 0);
	page_cache_drop(cache);
	for (uint64_t pos = 0; pos < size; pos += CHUNK) {
		fill(right, pos);
		cr_assert_eq(fs_read(file, memory, CHUNK, pos), (ssize_t)CHUNK);
		cr_assert_arr_eq(memory, right, CHUNK);
	}
	free(right);
	free(memory);
}

/*
 * B63: what the upper file system writes back becomes dirty below.  The writer may sleep for the
 * limits, and so may the thread that serves the device, but not for each other.
 */
static void run_stacked(const char *type)
{
	struct page_cache_config config;
	struct page_cache *cache;
	struct layer lower, upper;
	struct block_device *ram;

	page_cache_config_init(&config);
	config.capacity = 16 * MiB;
	config.dirty_bytes = 2 * MiB;
	config.dirty_background_bytes = 1 * MiB;
	config.writeback_interval_ns = 0;
	cr_assert_eq(page_cache_create(&cache, &config), 0);
	cr_assert_eq(blkdev_ram_create(&ram, 2 * LOOP_SIZE, 0), 0);
	layer_open(&lower, cache, ram, type);
	cr_assert_eq(fs_truncate(lower.file, LOOP_SIZE), 0);
	layer_open(&upper, cache, loop_create(lower.file), type);
	write_much_and_read_it(cache, upper.file, 24 * MiB);
	layer_close(&upper);
	layer_close(&lower);
	page_cache_destroy(cache);
}

Test(catalogue_stacked, b63_a_cache_over_a_file_of_the_same_cache_makes_progress)
{
	const char *name;

	for (unsigned int i = 0; (name = fs_backend_name(i)) != NULL; i++)
		run_stacked(name);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * ours.c - the library as a user calls it: files of the XFS-like back end over a null device
 *
 * Dirty limits are out of reach and nothing is written back periodically, so a run does no I/O
 * but what it asks for.
 */
#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <iomap/iomap.h>
#include <iomap/fsbackend.h>

#define DEVICE_BYTES	 (8ull << 30)
#define NO_LIMIT	 (1ull << 40)
#define SPARE_BYTES	 (32 * MIB)
#define NR_CHECKED_PAGES 64

struct ours {
	struct peer peer;
	struct fixture fixture;
	struct page_cache *cache;
	struct block_device *dev;
	struct backing_dev *bdi;
	struct fs *fs;
	struct file *file[MAX_FILES];
	bool all_dirty;
};

static struct ours *ours_of(struct peer *peer)
{
	return container_of(peer, struct ours, peer);
}

static const char *path_of(unsigned int i)
{
	static const char *const paths[MAX_FILES] = {"/file0", "/file1"};

	return paths[i];
}

static int complain(const char *what, int err)
{
	fprintf(stderr, "bench: libiomap: %s: %s\n", what, strerror(-err));
	return err;
}

/* ---- a cache and a file system in it ---- */

static int cache_open(struct ours *ours)
{
	const struct fixture *fixture = &ours->fixture;
	struct page_cache_config config;
	uint64_t bytes = fixture->file_bytes * fixture->nr_files + fixture->append_bytes;

	page_cache_config_init(&config);
	config.capacity = bytes + bytes / 32 + SPARE_BYTES;
	config.prefault = true;
	config.dirty_bytes = NO_LIMIT;
	config.dirty_background_bytes = NO_LIMIT;
	config.writeback_interval_ns = 0;
	return page_cache_create(&ours->cache, &config);
}

static int world_open(struct ours *ours)
{
	struct fs_config config = {.type = "xfs"};
	char error[256];
	int err;

	err = cache_open(ours);
	if (err)
		return complain("no page cache", err);
	err = blkdev_null_create(&ours->dev, DEVICE_BYTES, 0);
	if (err)
		return complain("no device", err);
	err = bdi_create(&ours->bdi, ours->cache, ours->dev, 1, WB_MAP_AUTO);
	if (err)
		return complain("no writeback", err);
	err = fs_mount(&ours->fs, ours->cache, ours->bdi, ours->dev, &config, error, sizeof(error));
	if (err)
		fprintf(stderr, "bench: libiomap: %s\n", error);
	return err;
}

static void ours_close(struct peer *peer);

/* ---- files ---- */

static int write_whole(struct ours *ours, struct file *file)
{
	uint32_t len = ours->fixture.fill_bytes;
	unsigned char *memory = env_alloc(len);
	int err = memory ? 0 : -ENOMEM;

	if (memory)
		fill_pattern(memory, len);
	for (uint64_t pos = 0; !err && pos < ours->fixture.file_bytes; pos += len) {
		ssize_t n = fs_write(file, memory, len, pos);

		if (n != (ssize_t)len)
			err = n < 0 ? (int)n : -EIO;
	}
	env_free(memory);
	return err;
}

static int clean_all(struct ours *ours)
{
	int err = 0;

	ours->all_dirty = false;
	for (unsigned int i = 0; !err && i < ours->fixture.nr_files; i++)
		err = fs_fsync(ours->file[i], false);
	return err;
}

static int dirty_all(struct ours *ours)
{
	int err = 0;

	if (ours->all_dirty)
		return 0;
	for (unsigned int i = 0; !err && i < ours->fixture.nr_files; i++)
		err = write_whole(ours, ours->file[i]);
	ours->all_dirty = !err;
	return err;
}

static int files_make(struct ours *ours)
{
	int err = 0;

	for (unsigned int i = 0; !err && i < ours->fixture.nr_files; i++)
		err = fs_open(ours->fs, path_of(i), FS_OPEN_CREATE, &ours->file[i]);
	if (!err)
		err = dirty_all(ours);
	/* The space is allocated and written, as in a file that has been there for long. */
	if (!err)
		err = clean_all(ours);
	return err;
}

/*
 * A row about folios of one order is worthless if they have another.  Some have: those before
 * an end of space that was reserved while the file grew, in the kernel too.
 */
static void check_orders(struct ours *ours)
{
	uint64_t folio_bytes = page_cache_page_size(ours->cache);
	uint64_t bytes = ours->fixture.file_bytes * ours->fixture.nr_files;
	struct page_cache_stats stats;
	unsigned int order = 0;

	for (; folio_bytes < ours->fixture.fill_bytes; folio_bytes *= 2)
		order++;
	page_cache_get_stats(ours->cache, &stats);
	if (stats.folios_created[order] * folio_bytes < bytes / 10 * 9)
		fprintf(stderr, "bench: libiomap: only %llu of %llu folios have order %u\n",
			(unsigned long long)stats.folios_created[order],
			(unsigned long long)(bytes / folio_bytes), order);
}

static int ours_open(struct peer *peer, const struct fixture *fixture)
{
	struct ours *ours = ours_of(peer);
	int err;

	*ours = (struct ours){.peer = *peer, .fixture = *fixture};
	err = world_open(ours);
	if (!err) {
		err = files_make(ours);
		if (err)
			complain("cannot write the files", err);
	}
	if (err)
		ours_close(peer);
	else if (fixture->file_bytes)
		check_orders(ours);
	return err;
}

/* What was measured must also be right: no page was evicted, and the bytes are there. */
static void check_files(struct ours *ours)
{
	unsigned char page[4096];
	struct page_cache_stats stats;
	uint64_t nr_pages = ours->fixture.file_bytes / sizeof(page);
	struct env_rng rng;

	page_cache_get_stats(ours->cache, &stats);
	if (stats.nr_reclaimed)
		fprintf(stderr, "bench: libiomap: %llu pages were evicted\n",
			(unsigned long long)stats.nr_reclaimed);
	env_rng_seed(&rng, 1);
	for (unsigned int i = 0; nr_pages && i < NR_CHECKED_PAGES; i++) {
		uint64_t pos = env_rng_below(&rng, nr_pages) * sizeof(page);
		ssize_t n = fs_read(ours->file[0], page, sizeof(page), pos);

		if (n != sizeof(page) || !pattern_ok(page, sizeof(page))) {
			fprintf(stderr, "bench: libiomap: wrong bytes at %llu\n",
				(unsigned long long)pos);
			return;
		}
	}
}

static void ours_close(struct peer *peer)
{
	struct ours *ours = ours_of(peer);

	if (ours->fs && ours->file[0] && ours->fixture.file_bytes)
		check_files(ours);
	for (unsigned int i = 0; i < MAX_FILES; i++)
		if (ours->file[i])
			fs_close(ours->file[i]);
	if (ours->fs)
		fs_unmount(ours->fs);
	if (ours->bdi)
		bdi_destroy(ours->bdi);
	if (ours->dev)
		blkdev_destroy(ours->dev);
	if (ours->cache)
		page_cache_destroy(ours->cache);
	*ours = (struct ours){.peer = *peer};
}

static void ours_destroy(struct peer *peer)
{
	env_free(ours_of(peer));
}

/* ---- a run ---- */

static int new_file(struct ours *ours)
{
	if (ours->file[0]) {
		fs_close(ours->file[0]);
		ours->file[0] = NULL;
		fs_unlink(ours->fs, path_of(0));
	}
	return fs_open(ours->fs, path_of(0), FS_OPEN_CREATE, &ours->file[0]);
}

static int write_run(struct file *file, const struct load *load, unsigned int thread)
{
	const unsigned char *memory = load->memory[thread];
	const uint64_t *pos = load->pos[thread];
	uint32_t len = load->op_bytes;

	for (uint64_t i = 0; i < load->nr_ops; i++) {
		ssize_t n = fs_write(file, memory, len, pos[i]);

		if (n != (ssize_t)len)
			return n < 0 ? (int)n : -EIO;
	}
	return 0;
}

static int read_run(struct file *file, const struct load *load, unsigned int thread)
{
	unsigned char *memory = load->memory[thread];
	const uint64_t *pos = load->pos[thread];
	uint32_t len = load->op_bytes;

	for (uint64_t i = 0; i < load->nr_ops; i++) {
		ssize_t n = fs_read(file, memory, len, pos[i]);

		if (n != (ssize_t)len)
			return n < 0 ? (int)n : -EIO;
	}
	return 0;
}

static int ours_ready(struct peer *peer, const struct load *load)
{
	struct ours *ours = ours_of(peer);
	int err;

	if (load->op == OP_APPEND)
		return new_file(ours);
	if (load->op == OP_READ || load->op == OP_NONE)
		return 0;
	if (!load->clean)
		return dirty_all(ours);
	err = clean_all(ours);
	if (!err && load->op == OP_FLUSH)
		err = write_run(ours->file[0], load, 0);
	return err;
}

static int ours_run(struct peer *peer, const struct load *load, unsigned int thread)
{
	struct ours *ours = ours_of(peer);
	unsigned int nr_files = ours->fixture.nr_files ? ours->fixture.nr_files : 1;
	struct file *file = ours->file[thread % nr_files];

	if (load->op == OP_FLUSH)
		return fs_fsync(file, false);
	if (load->op == OP_READ)
		return read_run(file, load, thread);
	return write_run(file, load, thread);
}

static double ours_overhead(struct peer *peer)
{
	struct ours *ours = ours_of(peer);
	struct page_cache_stats stats;

	page_cache_get_stats(ours->cache, &stats);
	return (double)(stats.folio_bytes + stats.index_bytes + stats.state_bytes +
			stats.buddy_bytes) /
	       (double)(stats.nr_cached * page_cache_page_size(ours->cache));
}

static const struct peer_ops ours_ops = {
	.open = ours_open,
	.ready = ours_ready,
	.run = ours_run,
	.close = ours_close,
	.destroy = ours_destroy,
	.overhead = ours_overhead,
};

struct peer *ours_create(void)
{
	struct ours *ours = env_zalloc(sizeof(*ours));

	if (!ours)
		return NULL;
	ours->peer.ops = &ours_ops;
	ours->peer.name = "libiomap";
	return &ours->peer;
}

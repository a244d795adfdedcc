/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * flat.h - the smallest file system over folios, for tests of the folio layer alone
 *
 *	struct flat_config config;
 *	struct flat flat;
 *	struct flat_file *file;
 *
 *	flat_config_init(&config);
 *	flat_open(&flat, &config);
 *	file = flat_create(&flat, 1);
 *	flat_write(file, memory, len, pos);
 *	flat_remove(file);
 *	flat_close(&flat);
 *
 * File n lies at n * FLAT_FILE_BYTES of the device; a folio is written by one request of its
 * own.  Everything that can go wrong is asserted.  Periodic writeback is off unless asked for.
 */
#ifndef TESTS_FLAT_H
#define TESTS_FLAT_H

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <iomap/backing_dev.h>
#include <iomap/blkdev.h>
#include <iomap/env.h>
#include <iomap/filemap.h>
#include <iomap/folio.h>
#include <iomap/fs.h>
#include <iomap/page_cache.h>
#include "tests/units.h"

#define PAGE		4096ull
#define FLAT_FILE_BYTES (16 * MiB)
#define FLAT_FILES	64

struct flat;
struct flat_file;

struct flat_config {
	struct page_cache_config cache;
	unsigned int nr_contexts; /* 0: automatic */
	enum wb_map map;
	uint32_t block_size;
	unsigned int workers; /* of the device */
	bool rotational;
	bool stable_writes;
	const struct super_operations *super_ops; /* NULL: none of them */
};

struct flat {
	struct page_cache *cache;
	struct block_device *dev; /* the top: faults */
	struct block_device *count; /* what reached the memory */
	struct backing_dev *bdi;
	struct super_block sb;
	/* Optional.  At the start of a pass, by whoever writes, without locks. */
	void (*on_writepages)(struct flat_file *file, struct writeback_control *wbc);
	/* Optional.  Before a locked folio is written; an error fails its mapping. */
	int (*on_write_folio)(struct flat_file *file, struct folio *folio);
	/* Optional.  Instead of reading the locked folio. */
	int (*on_read_folio)(struct flat_file *file, struct folio *folio);
	void *context; /* of the test */
};

struct flat_file {
	struct inode inode;
	struct file file; /* open as long as the inode lives */
	struct flat *flat;
	uint32_t nr_read_folio; /* [a] calls */
	uint32_t nr_readahead; /* [a] */
	uint32_t nr_writepages; /* [a] */
	unsigned char written[FLAT_FILE_BYTES / PAGE]; /* [a] the page is on the device */
};

/* 16 MiB of cache, one context, no periodic writeback, pages as blocks. */
void flat_config_init(struct flat_config *config);
void flat_open(struct flat *flat, const struct flat_config *config);
/* All files are removed. */
void flat_close(struct flat *flat);
/* A second file system on the same device and cache has its own super block only. */
struct flat_file *flat_create_on(struct flat *flat, struct super_block *sb, uint64_t ino);
struct flat_file *flat_create(struct flat *flat, uint64_t ino);
/* Drops what is dirty. */
void flat_remove(struct flat_file *file);

static inline struct address_space *flat_mapping(struct flat_file *file)
{
	return &file->inode.i_mapping;
}

/* Returns len, or an errno if throttling or a look-up failed at the first step. */
ssize_t flat_write(struct flat_file *file, const void *memory, size_t len, uint64_t pos);
ssize_t flat_read(struct flat_file *file, void *memory, size_t len, uint64_t pos);
void flat_truncate(struct flat_file *file, uint64_t size);
int flat_fsync(struct flat_file *file);
/* Page `index` alone becomes dirty and filled with `byte`, without throttling. */
void flat_dirty_page(struct flat_file *file, uint64_t index, unsigned char byte);
/* Pages [first, first + nr), as flat_dirty_page(). */
void flat_dirty_pages(struct flat_file *file, uint64_t first, uint64_t nr, unsigned char byte);
/* A new, uptodate folio of the order that starts at index; locked, referenced. */
struct folio *flat_new_folio(struct flat_file *file, uint64_t index, unsigned int order);
/* The folio at index with a reference, not locked; NULL if there is none. */
struct folio *flat_find(struct flat_file *file, uint64_t index);
bool flat_is_cached(struct flat_file *file, uint64_t index);
/* What the device has at pos of the file. */
void flat_device_read(struct flat_file *file, void *memory, size_t len, uint64_t pos);

/* From now on requests of the kind of operation are held; flat_release() lets all go. */
void flat_hold(struct flat *flat, enum bio_op op);
void flat_release(struct flat *flat);

struct page_cache_stats flat_stats(struct flat *flat);
struct wb_stats flat_wb_stats(struct flat *flat, unsigned int context);

/* ---- threads ------------------------------------------------------------------------ */

struct flat_thread {
	struct env_thread *thread;
	void (*fn)(void *arg);
	void *arg;
	bool done; /* [a] */
};

void flat_thread_start(struct flat_thread *thread, void (*fn)(void *arg), void *arg);
bool flat_thread_is_done(const struct flat_thread *thread);
void flat_thread_join(struct flat_thread *thread);

/* Wait until the condition holds; far too long a wait fails the test. */
#define flat_eventually(condition)                                                                 \
	do {                                                                                       \
		uint64_t flat_limit_ = env_clock_ns() + 60000000000ull;                            \
		while (!(condition)) {                                                             \
			cr_assert_lt(env_clock_ns(), flat_limit_, "never: %s", #condition);        \
			env_sleep_ns(200000);                                                      \
		}                                                                                  \
	} while (0)

#endif

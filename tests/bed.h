/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * bed.h - one file on a real back end beside a flat model of its bytes, in every shape
 *
 *	BED_TEST(suite, b18_half_a_block_then_the_other_half)
 *	{
 *		bed_write(bed, 64 * KiB, 2 * KiB, 'b');
 *		bed_fsync(bed);
 *		bed_remount(bed);
 *	}
 *
 * The body runs for each back end in each shape of blocks, pages and folios, on an empty file.
 * Every operation goes to the file and to the model; bed_check() compares all of it, and so does
 * the end of the body, before and after a bed_remount(); then nothing may be reserved, dirty or
 * allocated any more.  A failure names the back end and the shape.
 */
#ifndef TESTS_BED_H
#define TESTS_BED_H

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <iomap/backing_dev.h>
#include <iomap/blkdev.h>
#include <iomap/fsbackend.h>
#include <iomap/page_cache.h>
#include "tests/units.h"

#define BED_FILE_MAX (4 * MiB) /* what the model covers */
#define BED_DEVICE   (512 * MiB)
#define BED_POISON   0xAA /* what the device has where nobody wrote */

struct bed_shape {
	uint32_t block;
	uint32_t page;
	uint32_t folio; /* the largest */
};

struct bed {
	const char *type; /* of the back end */
	struct bed_shape shape;
	struct block_device *fault; /* over poisoned memory */
	struct block_device *dev; /* counts, over fault */
	struct page_cache *cache;
	struct backing_dev *bdi;
	struct fs *fs;
	struct file *file;
	unsigned char *model; /* BED_FILE_MAX bytes */
	uint64_t size;
	uint64_t free_before; /* space of the file system with the empty file */
};

/* Blocks smaller than, equal to and larger than a page; folios of one page and of many. */
extern const struct bed_shape bed_shapes[]; /* ended by block 0 */

/* type NULL: each back end; shapes NULL: bed_shapes. */
void bed_run(const char *type, const struct bed_shape *shapes, void (*body)(struct bed *bed));

#define BED_TEST_ON(suite, name, type, shapes)                                                     \
	static void name(struct bed *bed);                                                         \
	Test(suite, name)                                                                          \
	{                                                                                          \
		bed_run(type, shapes, name);                                                       \
	}                                                                                          \
	static void name(struct bed *bed)
#define BED_TEST(suite, name) BED_TEST_ON(suite, name, NULL, NULL)

/* An assertion that says on what. */
#define bed_assert(bed, condition)                                                                 \
	cr_assert(condition, "%s, blocks %u, pages %u, folios %u: %s", (bed)->type,                \
		  (bed)->shape.block, (bed)->shape.page, (bed)->shape.folio, #condition)

/* ---- operations that must succeed ---------------------------------------------------- */

void bed_write(struct bed *bed, uint64_t pos, uint64_t len, unsigned char byte);
void bed_truncate(struct bed *bed, uint64_t size); /* up or down */
void bed_fallocate(struct bed *bed, unsigned int mode, uint64_t pos, uint64_t len);
void bed_punch(struct bed *bed, uint64_t pos, uint64_t len);
void bed_zero(struct bed *bed, uint64_t pos, uint64_t len); /* ZERO_RANGE */
void bed_fsync(struct bed *bed);
void bed_writeback(struct bed *bed); /* of the whole file, and wait; no commit */
/* Evict what is clean; the folios that leave. */
uint64_t bed_drop(struct bed *bed);
/* Write, commit and forget all that is cached, close and open again. */
void bed_remount(struct bed *bed);

/* ---- what is there ------------------------------------------------------------------- */

/* Size and bytes of the file are the model's. */
void bed_check(struct bed *bed);
/* [pos, pos + len) reads as the byte. */
bool bed_reads(struct bed *bed, uint64_t pos, uint64_t len, unsigned char byte);
/* The same of the device, where the file's records say it is; false over holes. */
bool bed_device_has(struct bed *bed, uint64_t pos, uint64_t len, unsigned char byte);
/* Below the size, space that reads give from the device has none of its poison. */
bool bed_device_has_no_stale(struct bed *bed);
/* Write to the device, past the cache, where the file's records say [pos, pos + len) is. */
void bed_spoil(struct bed *bed, uint64_t pos, uint64_t len, unsigned char byte);
uint64_t bed_reserved(struct bed *bed); /* bytes of delayed allocation */
uint64_t bed_allocated(struct bed *bed); /* bytes of the file's records, delayed ones too */
bool bed_has_unwritten(struct bed *bed, uint64_t pos, uint64_t len);
/* Data writes that reached the device since the last call. */
struct bed_io {
	uint64_t reads, writes, write_bytes;
} bed_io(struct bed *bed);

#endif

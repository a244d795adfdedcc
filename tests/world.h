/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * world.h - a small file system for tests, made of the public interface
 *
 *	struct world world;
 *	struct world_config config = {.block_size = 1024};	the rest: sensible defaults
 *	struct world_file *file;
 *
 *	world_open(&world, &config);		cache, devices, bdi, file system, one file
 *	file = world.file;
 *	world_set(file, 0, 65536, IOMAP_MAPPED);	data of tag 0 on the device
 *	world_write(file, 100, memory, 200);
 *	world_check(&world);			the invariants of a quiet moment
 *	world_close(&world);			everything must be clean of leaks
 *
 * A file is a table with one entry a block.  What the library asks is logged; what the back
 * end answers can be bent by the members of struct world_file under "knobs".
 */
#ifndef TESTS_WORLD_H
#define TESTS_WORLD_H

#include <stdbool.h>
#include <stdint.h>
#include <iomap/folio.h>
#include <iomap/iomap.h>
#include "tests/units.h"

/* What a write into a hole gets. */
enum world_alloc {
	WORLD_DELALLOC, /* a reservation, converted to unwritten space by writeback */
	WORLD_UNWRITTEN, /* unwritten space at once */
	WORLD_NEW, /* mapped space marked IOMAP_F_NEW */
};

/* 0 in a member means its default. */
struct world_config {
	uint32_t block_size; /* 4096 */
	uint32_t page_size; /* 4096 */
	uint32_t max_folio; /* bytes; 2 MiB */
	uint64_t capacity; /* of the cache; 16 MiB */
	uint64_t file_max; /* bytes the block table covers; 8 MiB */
	uint64_t space; /* bytes that may be allocated; 64 MiB, the size of the device */
	uint64_t max_map; /* longest map begin gives, whole blocks; no limit */
	enum world_alloc alloc;
	unsigned int workers; /* of the device; 0: I/O ends before its submission returns */
	unsigned int contexts; /* of the bdi; 1 */
	bool real_limits; /* dirty limits of 20 % and 10 % instead of 90 % and 80 % */
	bool stable; /* the device wants stable pages */
	uint32_t readahead; /* bytes; 128 KiB */
};

struct world_block {
	uint8_t type; /* HOLE, DELALLOC, MAPPED, UNWRITTEN */
	bool shared; /* MAPPED, and a write goes to another place */
	bool boundary; /* a map that starts here has IOMAP_F_BOUNDARY */
	uint64_t addr; /* on the device */
	uint64_t cow; /* where a shared block will be written; 0: not reserved yet */
};

/* One call of begin or end. */
struct world_call {
	bool is_end;
	int result;
	uint64_t pos, len, written;
	unsigned int flags;
	uint16_t type, map_flags;
};

/* One submitted ioend. */
struct world_ioend {
	uint64_t offset, size, addr, bio_len;
	unsigned int flags, folios;
};

#define WORLD_LOG 512

struct world_file {
	struct inode inode;
	struct world *world;
	struct file file; /* an open file on it */
	struct env_mutex lock; /* protects what follows down to the knobs */
	struct world_block *blocks;
	uint64_t nr_blocks;
	uint64_t seq; /* changes with the table; the maps' validity cookie */
	uint64_t disk_size; /* bytes known to be written (F25) */
	unsigned char *inline_data; /* not NULL: [0, inline_max) is inline */
	uint64_t inline_max;

	/* What happened. */
	struct world_call calls[WORLD_LOG];
	unsigned int nr_calls; /* may be more than WORLD_LOG: only the first are kept */
	unsigned int nr_begins, nr_ends;
	struct world_ioend ioends[WORLD_LOG];
	unsigned int nr_ioends;
	unsigned int nr_lookups; /* writeback_range() calls that did not reuse the map */
	unsigned int nr_punches;
	bool punched_dirty; /* a punch hit a dirty cached block below i_size (M38) */

	/* Knobs.  Ranges are in bytes. */
	unsigned int stale_left; /* so many iomap_valid() calls say no */
	unsigned int stale_every; /* and then every n-th; 0: none */
	int begin_error; /* begin fails with it ... */
	unsigned int begin_error_after; /* ... after so many good calls */
	int end_error;
	int wb_error; /* writeback_range() fails at wb_pos .. */
	int wb_type; /* .. or finds this enum iomap_type there; -1: what is true */
	uint64_t wb_pos, wb_len;
	/* Called last in begin, may change the maps or fail. */
	int (*on_begin)(struct world_file *file, uint64_t pos, uint64_t len, unsigned int flags,
			struct iomap *map, struct iomap *src);
	/* Called first in iomap_valid and writeback_range, with the folio locked. */
	void (*on_valid)(struct world_file *file);
	void (*on_range)(struct world_file *file, struct folio *folio, uint64_t pos, uint64_t len);
	void *arg; /* the test's */
};

struct world {
	struct world_config config;
	struct block_device *ram; /* poisoned: what nobody wrote reads as 0xAA */
	struct block_device *fault; /* over ram */
	struct block_device *dev; /* counts, over fault */
	struct page_cache *cache;
	struct backing_dev *bdi;
	struct super_block sb;
	struct world_file *file; /* the first one */
	uint64_t next_addr; /* [a] device space is handed out in order, never again */
	uint64_t space_left; /* [a] bytes */
	uint64_t reserved; /* [a] bytes of delayed allocation */
	struct world_file *files[16];
	unsigned int nr_files;
};

/* Any failure in here fails the test. */
void world_open(struct world *world, const struct world_config *config);
void world_close(struct world *world);
struct world_file *world_file_create(struct world *world);

/* ---- the block table ---------------------------------------------------------------- */

/*
 * Blocks of [pos, pos + len) get the type; i_size and disk_size grow to cover them.  MAPPED
 * has world_byte(0, pos) on the device, UNWRITTEN has poison, DELALLOC is reserved.
 */
void world_set(struct world_file *file, uint64_t pos, uint64_t len, enum iomap_type type);
/* MAPPED, and shared with somebody: a write must go to another place. */
void world_set_shared(struct world_file *file, uint64_t pos, uint64_t len);
void world_set_inline(struct world_file *file, const void *data, uint64_t len, uint64_t max);
void world_set_size(struct world_file *file, uint64_t size);
/* Takes delayed space of the range back: the punch callback, counted. */
void world_punch(struct inode *inode, uint64_t pos, uint64_t len, void *arg);

extern const struct iomap_ops world_ops;
extern const struct iomap_write_ops world_write_ops;
extern const struct iomap_writeback_ops world_writeback_ops;
extern const struct address_space_operations world_aops;

/* ---- operations, with the locks they need ------------------------------------------- */

/* write(): also zeroes the gap behind i_size (D2).  Bytes or an errno. */
ssize_t world_write(struct world_file *file, uint64_t pos, const void *memory, size_t len);
ssize_t world_write_flags(struct world_file *file, uint64_t pos, const void *memory, size_t len,
			  unsigned int kiocb_flags);
ssize_t world_write_from(struct world_file *file, uint64_t pos, struct iov_iter *from,
			 unsigned int kiocb_flags);
/* len bytes of world_byte(tag, ...), which must all be accepted. */
void world_fill(struct world_file *file, uint64_t pos, size_t len, unsigned int tag);
ssize_t world_read(struct world_file *file, uint64_t pos, void *memory, size_t len);
int world_zero(struct world_file *file, uint64_t pos, uint64_t len, bool *did_zero);
int world_truncate(struct world_file *file, uint64_t size);
int world_fsync(struct world_file *file);
/* One pass over the file. */
int world_writepages(struct world_file *file, enum writeback_sync_mode mode, int64_t nr_to_write);
/* Evict what is clean. */
void world_drop(struct world *world);

/* The test pattern: what tag's writer puts at file byte pos. */
unsigned char world_byte(unsigned int tag, uint64_t pos);
/* Through the cache: are [pos, pos + len) the tag's bytes?  Zero bytes? */
bool world_reads_as(struct world_file *file, uint64_t pos, size_t len, unsigned int tag);
bool world_reads_zero(struct world_file *file, uint64_t pos, size_t len);
/* The same on the device, by the block table, without the cache and without being counted. */
bool world_disk_has(struct world_file *file, uint64_t pos, size_t len, unsigned int tag);
bool world_disk_zero(struct world_file *file, uint64_t pos, size_t len);
void world_disk_read(struct world_file *file, uint64_t pos, void *memory, size_t len);
void world_device_read(struct world *world, uint64_t addr, void *memory, size_t len);

/* ---- a source that can fail --------------------------------------------------------- */

struct world_source {
	struct iov_iter iter; /* first: give &source.iter to a write */
	const unsigned char *memory;
	uint64_t bad_at; /* from this byte on it cannot be read at all; UINT64_MAX: none */
	uint64_t short_at[4]; /* a copy stops here once; UINT64_MAX: unused */
	unsigned int nr_short; /* copies that came out short so far */
};

void world_source_init(struct world_source *source, const void *memory, size_t len);

/* ---- what is cached ----------------------------------------------------------------- */

/* The folio that holds byte pos, with a reference, or NULL. */
struct folio *world_folio(struct world_file *file, uint64_t pos);
int world_order(struct world_file *file, uint64_t pos); /* -1: not cached */
bool world_is_dirty(struct world_file *file, uint64_t pos);
bool world_is_uptodate(struct world_file *file, uint64_t pos);
bool world_has_state(struct world_file *file, uint64_t pos);
/* How many blocks of the file are dirty in the cache. */
uint64_t world_nr_dirty_blocks(struct world_file *file);

/* M11, M13..M15, M41, M44, M46, M117 for all files; no operation may be in progress. */
void world_check(struct world *world);

/* ---- the device --------------------------------------------------------------------- */

struct world_io {
	uint64_t reads, read_bytes, writes, write_bytes;
};

/* Data I/O since the last call. */
struct world_io world_io(struct world *world);
/* The next requests of the op that touch the file range (0 bytes: any) fail or are held. */
void world_fail_io(struct world *world, enum bio_op op, uint64_t after, uint64_t count, int error);
void world_fail_range(struct world_file *file, enum bio_op op, uint64_t pos, uint64_t len,
		      int error);
void world_hold_io(struct world *world, enum bio_op op);
/* No more failing and holding; what is held goes on. */
void world_heal(struct world *world);

#endif

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * filemap.h - the folios of a mapping: look up, create, read, write out, remove
 */
#ifndef IOMAP_FILEMAP_H
#define IOMAP_FILEMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <iomap/fs.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct iov_iter;
struct kiocb;

/* ---- look up and create ------------------------------------------------------------- */

enum fgp_flags {
	FGP_ACCESSED = 1u << 0, /* a use: reclaim shall spare it */
	FGP_LOCK = 1u << 1, /* return it locked */
	FGP_CREAT = 1u << 2, /* create it if absent */
	FGP_WRITE = 1u << 3, /* it is going to be written */
	FGP_NOWAIT = 1u << 4, /* do not sleep: -EAGAIN */
	FGP_STABLE = 1u << 5, /* wait for writeback if the mapping wants stable pages */
	FGP_DONTCACHE = 1u << 6, /* a folio created here is dropped when clean (D39) */
	FGP_ORDER_SHIFT = 26,
	FGP_WRITEBEGIN = FGP_LOCK | FGP_WRITE | FGP_CREAT | FGP_STABLE,
};

/* The hint for a write of len bytes: floor(log2(len)) - log2(page size), at least 0 (J3). */
unsigned int filemap_order_hint(const struct address_space *mapping, uint64_t len);

/*
 * The folio that covers page `index`, with a reference.  flags: FGP_* | order hint <<
 * FGP_ORDER_SHIFT.  0 with *folio set; -ENOENT (absent, no FGP_CREAT); -EAGAIN (FGP_NOWAIT);
 * -ENOMEM at the minimum order (J5).
 */
int filemap_get_folio(struct address_space *mapping, uint64_t index, unsigned int flags,
		      struct folio **folio);

#define FOLIO_BATCH_SIZE 31

struct folio_batch {
	unsigned int nr;
	struct folio *folios[FOLIO_BATCH_SIZE];
};

/* Which folios a batch look-up wants. */
enum filemap_tag {
	FILEMAP_DIRTY,
	FILEMAP_TOWRITE,
	FILEMAP_WRITEBACK,
	FILEMAP_ANY,
};

/*
 * The next folios with the tag from page *start to page end (inclusive), each with a reference;
 * *start moves behind the last.  Returns how many.
 */
unsigned int filemap_get_folios(struct address_space *mapping, uint64_t *start, uint64_t end,
				enum filemap_tag tag, struct folio_batch *batch);
void filemap_release_folios(struct folio_batch *batch);

/* Is any folio of bytes [pos, end] (end inclusive) dirty, under writeback or locked? */
bool filemap_range_needs_writeback(struct address_space *mapping, uint64_t pos, uint64_t end);

/* ---- read --------------------------------------------------------------------------- */

/* Buffered read at iocb->ki_pos into iter; moves ki_pos (E1..E6, E13).  Bytes, or an errno. */
ssize_t filemap_read(struct kiocb *iocb, struct iov_iter *iter);

/* ---- write out ---------------------------------------------------------------------- */

enum writeback_sync_mode {
	WB_SYNC_NONE, /* best effort */
	WB_SYNC_ALL, /* everything that is dirty now, waiting for I/O in flight */
};

struct writeback_control {
	enum writeback_sync_mode sync_mode;
	int64_t nr_to_write; /* pages; INT64_MAX: no limit */
	int64_t pages_skipped;
	uint64_t range_start; /* bytes */
	uint64_t range_end; /* last byte, inclusive */
	bool range_cyclic;
	bool tagged_writepages;
	bool for_sync; /* part of a global sync: the waiting comes later */
	bool for_background;

	/* The iterator's own. */
	struct folio_batch batch;
	unsigned int batch_next;
	uint64_t next_index;
	uint64_t end_index;
	int saved_error;
	bool started;
};

/*
 * The next folio to write: locked, clean for I/O, not under writeback; NULL at the end, with
 * *error the pass's result (F1..F5).
 * => folio: what the last call returned, NULL at first; *error: how its writing ended
 */
struct folio *filemap_writeback_iter(struct address_space *mapping, struct writeback_control *wbc,
				     struct folio *folio, int *error);

/* Start writing dirty data of bytes [start, end]; WB_SYNC_ALL skips nothing. */
int filemap_fdatawrite_range(struct address_space *mapping, uint64_t start, uint64_t end,
			     enum writeback_sync_mode mode);
/* Wait for write I/O in the range; no error check. */
void filemap_fdatawait_range(struct address_space *mapping, uint64_t start, uint64_t end);
/* Both, with the legacy error check (for callers without a file). */
int filemap_write_and_wait_range(struct address_space *mapping, uint64_t start, uint64_t end);

/* ---- remove ------------------------------------------------------------------------- */

/* Drop the cache of [start, end] (end inclusive, UINT64_MAX: to infinity); zero the covered part
 * of folios at the ends (G9).  => invalidate_lock is held exclusively or nobody else reads */
void filemap_truncate_range(struct address_space *mapping, uint64_t start, uint64_t end);
/* Drop everything from newsize on. */
void filemap_truncate(struct inode *inode, uint64_t newsize);
/* i_size grew from `from` to `to`: clear the tail of the block that held the old end (D30). */
void filemap_isize_extended(struct inode *inode, uint64_t from, uint64_t to);
/* Evict clean, unused folios that lie entirely in pages [first, last]; dirty ones stay. */
uint64_t filemap_invalidate_clean(struct address_space *mapping, uint64_t first, uint64_t last);
/*
 * Remove every folio of pages [first, last], waiting for lock and writeback; -EBUSY if one was
 * dirty (the others are removed) (I4).
 */
int filemap_invalidate(struct address_space *mapping, uint64_t first, uint64_t last);

/* What POSIX_FADV_DONTNEED does: start writing, evict clean folios entirely inside. */
void filemap_dontneed(struct address_space *mapping, uint64_t pos, uint64_t len);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

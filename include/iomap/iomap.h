/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * iomap.h - from a file system's mapping to cached I/O
 *
 * A file system says where bytes live (iomap_begin) and how to write them back
 * (writeback_range); this turns it into buffered reads and writes over large folios with
 * per-block state.  See examples/hello for a whole file system.
 */
#ifndef IOMAP_IOMAP_H
#define IOMAP_IOMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>
#include <iomap/backing_dev.h>
#include <iomap/blkdev.h>
#include <iomap/filemap.h>
#include <iomap/fs.h>
#include <iomap/page_cache.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* ---- struct iomap: one mapping of a byte range (rules A1..A25) ---------------------- */

enum iomap_type {
	IOMAP_HOLE, /* no space */
	IOMAP_DELALLOC, /* space promised, no address yet */
	IOMAP_MAPPED, /* written data at addr */
	IOMAP_UNWRITTEN, /* space at addr, reads as zero */
	IOMAP_INLINE, /* data in inline_data */
};

enum iomap_map_flags {
	IOMAP_F_NEW = 1u << 0, /* allocated by this begin; what is not written must be zeroed */
	IOMAP_F_DIRTY = 1u << 1, /* uncommitted metadata is needed to reach the data */
	IOMAP_F_SHARED = 1u << 2, /* shared with another file, or the CoW destination */
	IOMAP_F_MERGED = 1u << 3, /* several records merged for reporting */
	IOMAP_F_BOUNDARY = 1u << 4, /* do not merge I/O at its start with an earlier ioend */
	IOMAP_F_ZERO_TAIL = 1u << 5, /* zero what follows the write in a block that was read */
	IOMAP_F_ANON_WRITE = 1u << 6, /* the address is assigned in the back end's submit */
	IOMAP_F_PRIVATE = 1u << 12, /* the back end's own */
	IOMAP_F_SIZE_CHANGED = 1u << 14, /* set by the library: i_size grew under this map */
	IOMAP_F_STALE = 1u << 15, /* set by the library: the map was out of date */
};

/* What an operation is; given to begin and end. */
enum iomap_op_flags {
	IOMAP_WRITE = 1u << 0,
	IOMAP_ZERO = 1u << 1,
	IOMAP_REPORT = 1u << 2,
	IOMAP_FAULT = 1u << 3,
	IOMAP_DIRECT = 1u << 4,
	IOMAP_NOWAIT = 1u << 5,
	IOMAP_OVERWRITE_ONLY = 1u << 6,
	IOMAP_UNSHARE = 1u << 7,
	IOMAP_ATOMIC = 1u << 8,
	IOMAP_DONTCACHE = 1u << 9,
};

#define IOMAP_NULL_ADDR UINT64_MAX

struct iomap {
	uint64_t addr; /* device byte address of offset, or IOMAP_NULL_ADDR */
	uint64_t offset; /* file byte position */
	uint64_t length; /* bytes */
	uint16_t type; /* enum iomap_type */
	uint16_t flags; /* enum iomap_map_flags */
	struct block_device *bdev; /* MAPPED and UNWRITTEN */
	void *inline_data; /* INLINE */
	void *private_data; /* untouched; for end */
	uint64_t validity_cookie; /* for iomap_valid (A21) */
};

struct iomap_ops {
	/*
	 * Required.  Fill *iomap (zeroed before) for a range that contains pos; *srcmap if old
	 * data is to be read from elsewhere (B5).  0 or a negative errno.  No folio lock is
	 * held, except by read_folio.  Keeps no lock past its return.  With IOMAP_WRITE never
	 * a hole (A5).
	 */
	int (*iomap_begin)(struct inode *inode, uint64_t pos, uint64_t len, unsigned int flags,
			   struct iomap *iomap, struct iomap *srcmap);
	/*
	 * Optional.  Once for each successful begin (B11): `written` bytes of the `len` that
	 * could have been processed from pos.
	 */
	int (*iomap_end)(struct inode *inode, uint64_t pos, uint64_t len, uint64_t written,
			 unsigned int flags, struct iomap *iomap);
};

/* ---- the iterator (rules B1..B12) --------------------------------------------------- */

struct iomap_iter {
	struct inode *inode;
	uint64_t pos;
	uint64_t len; /* bytes still to do */
	uint64_t iter_start_pos; /* pos when the current map was got */
	int status; /* set by the body: 0 or a negative errno */
	unsigned int flags; /* enum iomap_op_flags */
	struct iomap iomap;
	struct iomap srcmap;
	void *private_data;
};

/* 1: a map is there, do the body; 0: done; negative errno. */
int iomap_iter(struct iomap_iter *iter, const struct iomap_ops *ops);
/* The body has finished n bytes; -EIO and nothing moves if n is more than is usable (B3). */
int iomap_iter_advance(struct iomap_iter *iter, uint64_t n);

/* Bytes of the current map that can be used from pos on (B2). */
static inline uint64_t iomap_length(const struct iomap_iter *iter)
{
	uint64_t end = iter->iomap.offset + iter->iomap.length;

	if (iter->srcmap.type != IOMAP_HOLE && iter->srcmap.offset + iter->srcmap.length < end)
		end = iter->srcmap.offset + iter->srcmap.length;
	end -= iter->pos;
	return end < iter->len ? end : iter->len;
}

/* Where old contents are read from (B5). */
static inline const struct iomap *iomap_iter_srcmap(const struct iomap_iter *iter)
{
	return iter->srcmap.type != IOMAP_HOLE ? &iter->srcmap : &iter->iomap;
}

/* ---- the caller's memory ------------------------------------------------------------ */

/*
 * A source or destination of `count` bytes.  Plain memory, or a callback that may copy short
 * (memory that can be unreadable).
 */
struct iov_iter {
	unsigned char *memory; /* next byte, NULL with a callback */
	size_t count; /* bytes left */
	/* Copy up to len bytes between the iterator's position `done` and cache memory; returns
	 * how many (may be short, 0 = fault).  Must not use the cache. */
	size_t (*copy)(struct iov_iter *iter, void *cache_memory, size_t len);
	/* How many of the next len bytes can be touched without a fault; 0: none.  May sleep. */
	size_t (*fault_in)(struct iov_iter *iter, size_t len);
	void *context; /* for the callbacks */
	uint64_t done; /* bytes consumed so far */
};

static inline void iov_iter_init(struct iov_iter *iter, const void *memory, size_t len)
{
	memset(iter, 0, sizeof(*iter));
	iter->memory = (unsigned char *)memory;
	iter->count = len;
}

static inline void iov_iter_advance(struct iov_iter *iter, size_t len)
{
	if (iter->memory)
		iter->memory += len;
	iter->count -= len;
	iter->done += len;
}

static inline void iov_iter_revert(struct iov_iter *iter, size_t len)
{
	if (iter->memory)
		iter->memory -= len;
	iter->count += len;
	iter->done -= len;
}

enum kiocb_flags {
	IOCB_NOWAIT = 1u << 0,
	IOCB_DSYNC = 1u << 1,
	IOCB_DONTCACHE = 1u << 2,
};

struct kiocb {
	struct file *ki_filp;
	uint64_t ki_pos; /* moved by exactly what the call returns */
	unsigned int ki_flags; /* enum kiocb_flags */
};

/* ---- buffered write (section d) ----------------------------------------------------- */

struct iomap_write_ops {
	/* Optional.  A locked, referenced folio that covers pos. */
	int (*get_folio)(struct iomap_iter *iter, uint64_t pos, uint64_t len, struct folio **folio);
	/* Optional.  Unlock and drop it. */
	void (*put_folio)(struct inode *inode, uint64_t pos, uint64_t copied, struct folio *folio);
	/* Optional.  Is the map still true?  Called with the folio locked (A22). */
	bool (*iomap_valid)(struct inode *inode, const struct iomap *iomap);
	/* Optional.  Read part of a locked folio synchronously; default: from the source map's
	 * device. */
	int (*read_folio_range)(const struct iomap_iter *iter, struct folio *folio, uint64_t pos,
				uint64_t len);
};

/*
 * Write iter at iocb->ki_pos.  Bytes written, or an errno if none.  write_ops may be NULL.
 * => i_rwsem is held: exclusively if the file may grow; pos <= i_size (D2)
 */
ssize_t iomap_file_buffered_write(struct kiocb *iocb, struct iov_iter *from,
				  const struct iomap_ops *ops,
				  const struct iomap_write_ops *write_ops, void *private_data);

/*
 * The pair for callers that fill the folio in place, for one step under a map from
 * iomap_iter().  begin: *len is the wish, then the bytes of this step, all in *folio (locked)
 * at *off; IOMAP_F_STALE in iter->iomap.flags means no folio: end the body with status 0.
 * end: accepts `copied` of len bytes (all or nothing if the folio is not uptodate), raises
 * i_size, unlocks and drops the folio; returns bytes accepted; then iomap_iter_advance().
 */
int iomap_write_begin(struct iomap_iter *iter, const struct iomap_write_ops *write_ops,
		      uint64_t *len, struct folio **folio, uint64_t *off);
uint64_t iomap_write_end(struct iomap_iter *iter, const struct iomap_write_ops *write_ops,
			 uint64_t len, uint64_t copied, struct folio *folio);

/*
 * Zero [pos, pos + len) through the cache; i_size does not change (G1..G6).  *did_zero (may be
 * NULL) is set if something was zeroed.  => i_rwsem and invalidate_lock are held exclusively
 */
int iomap_zero_range(struct inode *inode, uint64_t pos, uint64_t len, bool *did_zero,
		     const struct iomap_ops *ops, const struct iomap_write_ops *write_ops,
		     void *private_data);
/* Zero from pos to the end of its block (G7). */
int iomap_truncate_page(struct inode *inode, uint64_t pos, bool *did_zero,
			const struct iomap_ops *ops, const struct iomap_write_ops *write_ops,
			void *private_data);

/*
 * After a short or failed delalloc write: give back the reservations of [start, end) except
 * under dirty cached blocks below i_size (D33..D37).  punch removes only delayed space and takes
 * no folio lock (D36).  => invalidate_lock is held exclusively
 */
void iomap_write_delalloc_release(struct inode *inode, uint64_t start, uint64_t end,
				  void (*punch)(struct inode *inode, uint64_t pos, uint64_t len,
						void *arg),
				  void *arg);

/* ---- read (section e): for the back end's address_space_operations ------------------ */

int iomap_read_folio(struct folio *folio, const struct iomap_ops *ops);
void iomap_readahead(struct readahead_control *rac, const struct iomap_ops *ops);

/* ---- per-folio block state: the rest of address_space_operations -------------------- */

int iomap_init_folio(struct address_space *mapping, struct folio *folio);
bool iomap_release_folio(struct folio *folio);
void iomap_invalidate_folio(struct folio *folio, uint64_t off, uint64_t len);
bool iomap_is_partially_uptodate(struct folio *folio, uint64_t off, uint64_t len);
/* Dirty the whole folio (G13); returns true if it was clean.  => folio lock is held */
bool iomap_dirty_folio(struct folio *folio);

/* For assertions and tests: the state of the block at byte off of the folio. */
bool iomap_block_is_uptodate(const struct folio *folio, uint64_t off);
bool iomap_block_is_dirty(const struct folio *folio, uint64_t off);
bool iomap_folio_has_state(const struct folio *folio);

/* ---- writeback (section f) ---------------------------------------------------------- */

enum iomap_ioend_flags {
	IOMAP_IOEND_SHARED = 1u << 0,
	IOMAP_IOEND_UNWRITTEN = 1u << 1,
	IOMAP_IOEND_BOUNDARY = 1u << 2,
	IOMAP_IOEND_DIRECT = 1u << 3,
	IOMAP_IOEND_DONTCACHE = 1u << 4,
	/* These must be equal for two ioends to join. */
	IOMAP_IOEND_NOMERGE = IOMAP_IOEND_SHARED | IOMAP_IOEND_UNWRITTEN | IOMAP_IOEND_DIRECT |
			      IOMAP_IOEND_DONTCACHE,
};

/* Folios in one ioend at most (F20). */
#define IOMAP_IOEND_FOLIOS 4096

/* What one folio has in an ioend. */
struct iomap_piece {
	struct folio *folio;
	uint32_t len; /* bytes */
};

/*
 * One write: contiguous in the file and on the device.  io_bio's vector is whole blocks;
 * [io_offset, io_offset + io_size) is byte exact at the end of the file (F18).
 */
struct iomap_ioend {
	struct list_head io_list; /* the back end's, from submission to iomap_finish_ioend() */
	struct inode *io_inode;
	uint64_t io_offset;
	uint64_t io_size;
	uint64_t io_addr; /* device address of io_offset */
	unsigned int io_flags;
	unsigned int io_folios; /* folio pieces begun in it */
	int io_error;
	void *io_private; /* the back end's, from wpc->iomap.private_data */
	struct wb_completion io_work; /* for wb_queue_completion(), by its owner */
	struct iomap_piece *io_pieces;
	unsigned int io_nr_pieces;
	unsigned int io_max_pieces;
	struct iomap_piece io_inline_pieces[2];
	struct bio io_bio;
};

struct iomap_writepage_ctx;

struct iomap_writeback_ops {
	/*
	 * Required.  Map and queue at most len bytes of the folio from pos on: set wpc->iomap,
	 * then iomap_add_to_ioend().  Returns bytes handled, 1..len, or an errno after giving
	 * back its reservations from pos to the folio's end (F10).  The folio is locked.
	 */
	ssize_t (*writeback_range)(struct iomap_writepage_ctx *wpc, struct folio *folio,
				   uint64_t pos, uint64_t len, uint64_t end_pos);
	/*
	 * Required.  Take wpc's pending ioend: submit it, or, with error, end it as failed.
	 * iomap_ioend_submit() is the plain way.
	 */
	int (*writeback_submit)(struct iomap_writepage_ctx *wpc, struct iomap_ioend *ioend,
				int error);
};

struct iomap_writepage_ctx {
	struct iomap iomap; /* the map in use, may serve several folios (F12) */
	struct inode *inode;
	struct writeback_control *wbc;
	const struct iomap_writeback_ops *ops;
	struct iomap_ioend *ioend; /* pending */
	void *wb_private;
};

/* The back end's writepages: set inode, wbc, ops; the rest zero. */
int iomap_writepages(struct iomap_writepage_ctx *wpc);

/* Queue [pos, pos + len) of the folio under wpc->iomap (F16..F18); bytes taken or an errno. */
ssize_t iomap_add_to_ioend(struct iomap_writepage_ctx *wpc, struct folio *folio, uint64_t pos,
			   uint64_t end_pos, uint64_t len);

/*
 * Submit the ioend's request.  done is called when it is finished, in any thread without locks
 * (L23); NULL: iomap_finish_ioend().  With error no I/O is done.
 */
int iomap_ioend_submit(struct iomap_ioend *ioend, int error,
		       void (*done)(struct iomap_ioend *ioend));

/* End writeback of all its folios with ioend->io_error and free it (F23). */
void iomap_finish_ioend(struct iomap_ioend *ioend);

/*
 * Sort a list of finished ioends (linked by io_list) by file position, and join `next` to
 * `ioend` if one metadata update serves both (F26).
 */
void iomap_sort_ioends(struct list_head *ioends);
bool iomap_ioend_can_merge(const struct iomap_ioend *ioend, const struct iomap_ioend *next);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * internal.h - what the files of iomap/ share: per-folio block state
 */
#ifndef IOMAP_INTERNAL_H
#define IOMAP_INTERNAL_H

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <iomap/env.h>
#include <iomap/folio.h>
#include <iomap/iomap.h>
#include <iomap/page_cache.h>
#include "folio/counters.h"

#define likely	 env_likely
#define unlikely env_unlikely

/*
 * Two bits a block of a folio with more than one block (C1, C2).  The memory is there from the
 * folio's creation, so that no later step can fail for want of it; it counts only while
 * FOLIO_PRIVATE is set ("attached"), else the folio's flags speak for all blocks (C3).
 *
 *	lock	bits, read_bytes_pending; a leaf, taken by completions too (L8)
 */
struct iomap_folio_state {
	uint32_t size; /* [I] of this object, in bytes; the folio layer reads it */
	struct env_mutex lock;
	uint32_t read_bytes_pending; /* [lock] C14 */
	uint32_t write_bytes_pending; /* [a] C18 */
	uint64_t bits[]; /* [lock, read without] uptodate words, then dirty words */
};

/* folio_pos() and folio_size() for a folio of the mapping, without leaving this file. */
static inline uint64_t pos_of(const struct address_space *mapping, const struct folio *folio)
{
	return folio->index << mapping->page_shift;
}

static inline uint64_t size_of(const struct address_space *mapping, const struct folio *folio)
{
	return 1ull << (folio_order(folio) + mapping->page_shift);
}

static inline unsigned int folio_nr_blocks(const struct inode *inode, const struct folio *folio)
{
	return 1u << (folio_order(folio) + inode->i_mapping.page_shift - inode->i_blkbits);
}

/* The attached state, or NULL. */
static inline struct iomap_folio_state *ifs_of(const struct folio *folio)
{
	return folio_test(folio, FOLIO_PRIVATE) ? folio->block_state : NULL;
}

/* Attach it, seeded by the flags (C4); NULL if the folio is one block.  => folio lock */
struct iomap_folio_state *ifs_attach(const struct inode *inode, struct folio *folio);
/* Is every block uptodate?  => folio lock, or the end of a read */
bool ifs_is_fully_uptodate(const struct inode *inode, const struct folio *folio,
			   const struct iomap_folio_state *ifs);

/* The blocks touched by bytes [off, off + len) of the folio become uptodate (C10). */
void ifs_set_range_uptodate(const struct inode *inode, struct folio *folio, uint64_t off,
			    uint64_t len);
/*
 * They become dirty; the folio's flag is the caller's.  Returns the bytes of blocks that were
 * clean, as far as the bits know.
 */
uint64_t ifs_set_range_dirty(const struct inode *inode, struct folio *folio, uint64_t off,
			     uint64_t len);
void ifs_clear_all_dirty(const struct inode *inode, struct folio *folio,
			 struct iomap_folio_state *ifs);

bool ifs_block_is_uptodate(const struct inode *inode, const struct folio *folio,
			   const struct iomap_folio_state *ifs, unsigned int block);

/*
 * The next run of blocks in [*from, to) whose uptodate (or dirty) bit is `set`: *from is its
 * first block, the return value how many; 0: none.
 */
unsigned int ifs_next_uptodate_run(const struct inode *inode, const struct folio *folio,
				   const struct iomap_folio_state *ifs, unsigned int *from,
				   unsigned int to, bool set);
unsigned int ifs_next_dirty_run(const struct inode *inode, const struct folio *folio,
				const struct iomap_folio_state *ifs, unsigned int *from,
				unsigned int to);

/* Mark dirty after a write of `len` bytes at off: bits, flag, accounting (C20, C24). */
void iomap_folio_dirtied(struct inode *inode, struct folio *folio, uint64_t off, uint64_t len);

/* Does old content at file byte pos read as zero under the map (D16)? */
static inline bool iomap_needs_zeroing(const struct iomap_iter *iter, uint64_t pos)
{
	const struct iomap *srcmap = iomap_iter_srcmap(iter);

	return srcmap->type != IOMAP_MAPPED || srcmap->flags & IOMAP_F_NEW ||
	       pos >= inode_size_read(iter->inode);
}

/* Copy inline data into its folio and zero the rest (A6).  => folio lock */
int iomap_read_inline(const struct iomap_iter *iter, struct folio *folio);

/* `len` bytes of the folio have been written, or have failed to be. */
void iomap_finish_folio_write(struct folio *folio, uint32_t len);

#endif

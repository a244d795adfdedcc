/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * folio.h - a run of cached file bytes: locked, read and written back as one
 *
 *	err = filemap_get_folio(mapping, index, FGP_LOCK, &folio);	takes a reference
 *	... read or change folio->data ...
 *	folio_unlock(folio);
 *	folio_put(folio);			drops it; do not touch folio again
 *
 * A folio is a naturally aligned power-of-two number of pages (J2).  Its descriptor is
 * type-stable: memory that was a folio stays a (free) folio until its cache is destroyed,
 * so a look-up may touch one that has just been freed and will see that it has.
 */
#ifndef IOMAP_FOLIO_H
#define IOMAP_FOLIO_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <iomap/list.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct address_space;
struct page_cache;

/*
 * The low half of folio->state.  "lock": changed under the folio lock; "set/clear: any"
 * bits are hints.
 */
enum folio_bits {
	FOLIO_LOCKED = 1u << 0, /* the folio lock (L3) */
	FOLIO_WAITERS = 1u << 1, /* somebody sleeps for LOCKED or WRITEBACK */
	FOLIO_UPTODATE = 1u << 2, /* every block is as new as storage; never cleared (C11) */
	FOLIO_DIRTY = 1u << 3, /* some block is newer than storage [mapping lock] */
	FOLIO_WRITEBACK = 1u << 4, /* write I/O in flight (L4) [mapping lock] */
	FOLIO_REFERENCED = 1u << 5, /* used since reclaim looked last */
	FOLIO_READAHEAD = 1u << 6, /* reading it starts the next readahead (E3) */
	FOLIO_DROPBEHIND = 1u << 7, /* evict when clean (D39) */
	FOLIO_LRU = 1u << 8, /* on a reclaim list [that list's lock] */
	FOLIO_PRIVATE = 1u << 9, /* per-block state is attached (C5) [folio lock] */
	FOLIO_DIRTY_PART_SHIFT = 10, /* dirty sectors, if counted (W57): bits 10..22 [folio lock] */
	FOLIO_ORDER_SHIFT = 26, /* order in bits 26..30 [constant while referenced] */
};

#define FOLIO_DIRTY_PART (0x1fffu << FOLIO_DIRTY_PART_SHIFT)
#define FOLIO_ORDER_MASK (31u << FOLIO_ORDER_SHIFT)
#define FOLIO_REF_ONE	 (1ull << 32)

/*
 * How a member is protected:
 *	I	set at creation, never changed
 *	a	atomic
 *	L	the folio lock
 *	M	mapping->lock
 * With two letters: both are held to write it, either one to read it.
 */
struct folio {
	uint64_t state; /* [a] bits below, references above: one word, one atomic step */
	struct address_space *mapping; /* [L M] NULL once removed */
	uint64_t index; /* [I] number of its first page in the file */
	unsigned char *data; /* pointer [I], bytes [L] */
	void *block_state; /* memory [I], contents: see iomap/folio-state.c */
	struct list_head lru; /* [lock of the reclaim list] */
	struct page_cache *cache; /* [I] */
};

static_assert(sizeof(struct folio) == 64, "a folio descriptor is one cache line");

static inline uint64_t folio_state(const struct folio *folio)
{
	return __atomic_load_n(&folio->state, __ATOMIC_ACQUIRE);
}

static inline bool folio_test(const struct folio *folio, unsigned int bit)
{
	return (folio_state(folio) & bit) != 0;
}

static inline unsigned int folio_order(const struct folio *folio)
{
	return (unsigned int)(__atomic_load_n(&folio->state, __ATOMIC_RELAXED) >>
			      FOLIO_ORDER_SHIFT) &
	       31u;
}

static inline uint64_t folio_nr_pages(const struct folio *folio)
{
	return 1ull << folio_order(folio);
}

static inline unsigned int folio_ref_count(const struct folio *folio)
{
	return (unsigned int)(folio_state(folio) >> 32);
}

/* Bytes, and position in the file, of a folio of a mapping. */
uint64_t folio_size(const struct folio *folio);
uint64_t folio_pos(const struct folio *folio);

static inline void folio_set(struct folio *folio, unsigned int bit)
{
	__atomic_fetch_or(&folio->state, bit, __ATOMIC_ACQ_REL);
}

static inline void folio_clear(struct folio *folio, unsigned int bit)
{
	__atomic_fetch_and(&folio->state, ~(uint64_t)bit, __ATOMIC_ACQ_REL);
}

/* ---- references (L5) ---------------------------------------------------------------- */

/* The caller holds a reference, or the folio is in the index and the mapping lock is held. */
static inline void folio_get(struct folio *folio)
{
	__atomic_fetch_add(&folio->state, FOLIO_REF_ONE, __ATOMIC_RELAXED);
}

/* The last put frees the folio; it is in no mapping then. */
void folio_put(struct folio *folio);

/* ---- the folio lock (L3) ------------------------------------------------------------ */

bool folio_trylock(struct folio *folio);
void folio_lock(struct folio *folio);
void folio_unlock(struct folio *folio);
/* One step for the pair; the usual end of an operation on a folio. */
void folio_unlock_put(struct folio *folio);

static inline bool folio_is_locked(const struct folio *folio)
{
	return folio_test(folio, FOLIO_LOCKED);
}

/* Sleep until the folio is not locked.  The caller holds a reference. */
void folio_wait_locked(struct folio *folio);
/* Sleep until no write I/O is in flight from it.  The caller holds a reference. */
void folio_wait_writeback(struct folio *folio);

/* ---- state changes ------------------------------------------------------------------ */

/* => folio lock is held (or the read that owns it is ending) */
void folio_mark_uptodate(struct folio *folio);

/*
 * Set the dirty flag and the DIRTY tag, account the pages, mark the inode (C20, K1).
 * Returns true if the folio was clean.
 * => folio lock is held, the folio is in its mapping
 */
bool folio_mark_dirty(struct folio *folio);

/*
 * Clear the dirty flag because the folio is going to be written (C22): accounting, not the
 * tag, which stays until writeback starts.  Returns true if the folio was dirty.
 * => folio lock is held
 */
bool folio_clear_dirty_for_io(struct folio *folio);

/* Clear the dirty flag, the tag and the accounting without I/O.  => folio lock is held */
void folio_cancel_dirty(struct folio *folio);

/*
 * Start and end of write I/O (F7): flag, tags and accounting.
 * => start: folio lock is held, flag not set; the folio is referenced until the end
 * => end: any context without locks (L23); drops nothing; wakes waiters
 */
void folio_start_writeback(struct folio *folio);
void folio_end_writeback(struct folio *folio);

/* The end of a read that owns the folio lock: uptodate if success, then unlock (C14). */
void folio_end_read(struct folio *folio, bool success);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

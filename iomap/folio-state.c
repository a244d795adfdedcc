/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * folio-state.c - which blocks of a folio are uptodate, which are dirty (section c)
 *
 * Bits are changed under the state's lock and may be looked at without it: every setter holds
 * the folio lock or owns the read, so a bit that its reader may rely on does not go away.
 */
#include "iomap/internal.h"

#define WORD_BITS 64u

static unsigned int nr_words(unsigned int nr_blocks)
{
	return (nr_blocks + WORD_BITS - 1) / WORD_BITS;
}

/* Bits [first, last] of the word that holds bit 64 * word. */
static uint64_t word_mask(unsigned int word, unsigned int first, unsigned int last)
{
	uint64_t mask = ~0ull;

	if (first > word * WORD_BITS)
		mask &= ~0ull << (first - word * WORD_BITS);
	if (last < word * WORD_BITS + WORD_BITS - 1)
		mask &= ~0ull >> (word * WORD_BITS + WORD_BITS - 1 - last);
	return mask;
}

static uint64_t word_load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* Set bits [first, last]; returns how many were clear.  => lock held */
static unsigned int bits_set(uint64_t *bits, unsigned int first, unsigned int last)
{
	unsigned int changed = 0;

	for (unsigned int word = first / WORD_BITS; word <= last / WORD_BITS; word++) {
		uint64_t mask = word_mask(word, first, last);
		uint64_t old = word_load(&bits[word]);

		changed += (unsigned int)__builtin_popcountll(mask & ~old);
		__atomic_store_n(&bits[word], old | mask, __ATOMIC_RELEASE);
	}
	return changed;
}

static bool bits_all_set(const uint64_t *bits, unsigned int first, unsigned int last)
{
	for (unsigned int word = first / WORD_BITS; word <= last / WORD_BITS; word++) {
		uint64_t mask = word_mask(word, first, last);

		if ((word_load(&bits[word]) & mask) != mask)
			return false;
	}
	return true;
}

/* First bit in [from, to) that is `set`, or to. */
static unsigned int bits_find(const uint64_t *bits, unsigned int from, unsigned int to, bool set)
{
	while (from < to) {
		uint64_t word = word_load(&bits[from / WORD_BITS]);
		unsigned int bit;

		if (!set)
			word = ~word;
		word &= ~0ull << (from % WORD_BITS);
		if (word) {
			bit = from / WORD_BITS * WORD_BITS + (unsigned int)__builtin_ctzll(word);
			return bit < to ? bit : to;
		}
		from = (from / WORD_BITS + 1) * WORD_BITS;
	}
	return to;
}

static unsigned int bits_next_run(const uint64_t *bits, unsigned int *from, unsigned int to,
				  bool set)
{
	unsigned int start = bits_find(bits, *from, to, set);

	*from = start;
	return start < to ? bits_find(bits, start, to, !set) - start : 0;
}

static const uint64_t *dirty_bits(const struct inode *inode, const struct folio *folio,
				  const struct iomap_folio_state *ifs)
{
	return ifs->bits + nr_words(folio_nr_blocks(inode, folio));
}

/* ---- life --------------------------------------------------------------------------- */

int iomap_init_folio(struct address_space *mapping, struct folio *folio)
{
	unsigned int nr_blocks = folio_nr_blocks(mapping->host, folio);
	struct iomap_folio_state *ifs;
	size_t size;

	if (nr_blocks <= 1)
		return 0;
	size = sizeof(*ifs) + 2 * nr_words(nr_blocks) * sizeof(uint64_t);
	ifs = env_alloc(size);
	if (!ifs)
		return -ENOMEM;
	memset(ifs, 0, size);
	ifs->size = (uint32_t)size;
	env_spin_init(&ifs->lock, "block state");
	folio->block_state = ifs;
	return 0;
}

struct iomap_folio_state *ifs_attach(const struct inode *inode, struct folio *folio)
{
	struct iomap_folio_state *ifs = folio->block_state;
	unsigned int nr_blocks = folio_nr_blocks(inode, folio);

	assert(folio_is_locked(folio));
	if (nr_blocks <= 1)
		return NULL;
	if (folio_test(folio, FOLIO_PRIVATE))
		return ifs;
	assert(ifs->read_bytes_pending == 0);
	assert(ifs->write_bytes_pending == 0);
	for (unsigned int i = 0; i < 2 * nr_words(nr_blocks); i++)
		__atomic_store_n(&ifs->bits[i], 0, __ATOMIC_RELEASE);
	if (folio_test(folio, FOLIO_UPTODATE))
		bits_set(ifs->bits, 0, nr_blocks - 1);
	if (folio_test(folio, FOLIO_DIRTY))
		bits_set((uint64_t *)dirty_bits(inode, folio, ifs), 0, nr_blocks - 1);
	folio_set(folio, FOLIO_PRIVATE);
	return ifs;
}

/* => folio lock */
static void ifs_detach(struct folio *folio)
{
	struct iomap_folio_state *ifs = ifs_of(folio);

	if (!ifs)
		return;
	assert(ifs->read_bytes_pending == 0);
	assert(__atomic_load_n(&ifs->write_bytes_pending, __ATOMIC_ACQUIRE) == 0);
	folio_clear(folio, FOLIO_PRIVATE);
}

bool iomap_release_folio(struct folio *folio)
{
	if (folio_test(folio, FOLIO_DIRTY))
		return false;
	ifs_detach(folio);
	return true;
}

void iomap_invalidate_folio(struct folio *folio, uint64_t off, uint64_t len)
{
	/* A part of the folio keeps its state (G15). */
	if (off != 0 || len != folio_size(folio))
		return;
	folio_cancel_dirty(folio);
	ifs_detach(folio);
}

/* ---- uptodate ----------------------------------------------------------------------- */

bool ifs_is_fully_uptodate(const struct inode *inode, const struct folio *folio,
			   const struct iomap_folio_state *ifs)
{
	return bits_all_set(ifs->bits, 0, folio_nr_blocks(inode, folio) - 1);
}

void ifs_set_range_uptodate(const struct inode *inode, struct folio *folio, uint64_t off,
			    uint64_t len)
{
	struct iomap_folio_state *ifs;
	bool all = true;

	if (likely(folio_test(folio, FOLIO_UPTODATE)))
		return;
	ifs = ifs_of(folio);
	if (ifs) {
		env_mutex_lock(&ifs->lock);
		bits_set(ifs->bits, (unsigned int)(off >> inode->i_blkbits),
			 (unsigned int)((off + len - 1) >> inode->i_blkbits));
		/* With a read pending its completion sets the flag (L39). */
		all = ifs->read_bytes_pending == 0 && ifs_is_fully_uptodate(inode, folio, ifs);
		env_mutex_unlock(&ifs->lock);
	}
	if (all)
		folio_mark_uptodate(folio);
}

bool ifs_block_is_uptodate(const struct inode *inode, const struct folio *folio,
			   const struct iomap_folio_state *ifs, unsigned int block)
{
	(void)inode;
	if (folio_test(folio, FOLIO_UPTODATE))
		return true;
	return ifs && bits_all_set(ifs->bits, block, block);
}

unsigned int ifs_next_uptodate_run(const struct inode *inode, const struct folio *folio,
				   const struct iomap_folio_state *ifs, unsigned int *from,
				   unsigned int to, bool set)
{
	(void)inode;
	if (!ifs) {
		bool uptodate = folio_test(folio, FOLIO_UPTODATE);

		return uptodate == set && *from < to ? to - *from : 0;
	}
	return bits_next_run(ifs->bits, from, to, set);
}

bool iomap_is_partially_uptodate(struct folio *folio, uint64_t off, uint64_t len)
{
	const struct iomap_folio_state *ifs = ifs_of(folio);
	const struct address_space *mapping = folio->mapping;
	uint64_t size = folio_size(folio);

	if (!ifs || !mapping || !len)
		return false;
	if (len > size - off)
		len = size - off;
	return bits_all_set(ifs->bits, (unsigned int)(off >> mapping->host->i_blkbits),
			    (unsigned int)((off + len - 1) >> mapping->host->i_blkbits));
}

/* ---- dirty -------------------------------------------------------------------------- */

uint64_t ifs_set_range_dirty(const struct inode *inode, struct folio *folio, uint64_t off,
			     uint64_t len)
{
	struct iomap_folio_state *ifs = ifs_of(folio);
	unsigned int first = (unsigned int)(off >> inode->i_blkbits);
	unsigned int last = (unsigned int)((off + len - 1) >> inode->i_blkbits);
	unsigned int changed;
	uint64_t *bits;

	if (!ifs)
		return folio_test(folio, FOLIO_DIRTY)
			       ? 0
			       : (uint64_t)(last - first + 1) << inode->i_blkbits;
	bits = (uint64_t *)dirty_bits(inode, folio, ifs);
	/* Dirty bits go away only under the folio lock, which is ours. */
	if (bits_all_set(bits, first, last))
		return 0;
	env_mutex_lock(&ifs->lock);
	changed = bits_set(bits, first, last);
	env_mutex_unlock(&ifs->lock);
	return (uint64_t)changed << inode->i_blkbits;
}

void ifs_clear_all_dirty(const struct inode *inode, struct folio *folio,
			 struct iomap_folio_state *ifs)
{
	unsigned int words = nr_words(folio_nr_blocks(inode, folio));

	env_mutex_lock(&ifs->lock);
	for (unsigned int i = words; i < 2 * words; i++)
		__atomic_store_n(&ifs->bits[i], 0, __ATOMIC_RELEASE);
	env_mutex_unlock(&ifs->lock);
}

unsigned int ifs_next_dirty_run(const struct inode *inode, const struct folio *folio,
				const struct iomap_folio_state *ifs, unsigned int *from,
				unsigned int to)
{
	return bits_next_run(dirty_bits(inode, folio, ifs), from, to, true);
}

void iomap_folio_dirtied(struct inode *inode, struct folio *folio, uint64_t off, uint64_t len)
{
	uint64_t bytes = ifs_set_range_dirty(inode, folio, off, len);

	if (bytes)
		folio_count_dirtied(folio, bytes);
	folio_mark_dirty(folio);
}

bool iomap_dirty_folio(struct folio *folio)
{
	struct inode *inode = folio->mapping->host;
	bool was_clean = !folio_test(folio, FOLIO_DIRTY);

	ifs_attach(inode, folio);
	iomap_folio_dirtied(inode, folio, 0, folio_size(folio));
	return was_clean;
}

/* ---- for assertions and tests ------------------------------------------------------- */

bool iomap_block_is_uptodate(const struct folio *folio, uint64_t off)
{
	const struct inode *inode = folio->mapping->host;

	return ifs_block_is_uptodate(inode, folio, ifs_of(folio),
				     (unsigned int)(off >> inode->i_blkbits));
}

bool iomap_block_is_dirty(const struct folio *folio, uint64_t off)
{
	const struct inode *inode = folio->mapping->host;
	const struct iomap_folio_state *ifs = ifs_of(folio);
	unsigned int block = (unsigned int)(off >> inode->i_blkbits);

	if (!ifs)
		return folio_test(folio, FOLIO_DIRTY);
	return bits_all_set(dirty_bits(inode, folio, ifs), block, block);
}

bool iomap_folio_has_state(const struct folio *folio)
{
	return folio_test(folio, FOLIO_PRIVATE);
}

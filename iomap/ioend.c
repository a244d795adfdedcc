/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * ioend.c - one write from the first piece to the end of its folios' writeback
 */
#include <iomap/cost.h>

#include "folio/ioend-size.h"
#include "iomap/internal.h"

static_assert(sizeof(struct iomap_ioend) <= IOMAP_IOEND_SIZE, "an ioend fits the cache's pool");

#define INLINE_PIECES                                                                              \
	(sizeof(((struct iomap_ioend *)0)->io_inline_pieces) / sizeof(struct iomap_piece))

/* ---- building (F16..F20) ------------------------------------------------------------ */

static struct iomap_ioend *ioend_new(const struct iomap_writepage_ctx *wpc, uint64_t pos,
				     unsigned int flags)
{
	struct page_cache *cache = wpc->inode->i_mapping.cache;
	struct iomap_ioend *ioend = page_cache_ioend_get(cache);
	uint64_t addr = wpc->iomap.addr + (pos - wpc->iomap.offset);

	list_init(&ioend->io_list);
	ioend->io_inode = wpc->inode;
	ioend->io_offset = pos;
	ioend->io_size = 0;
	ioend->io_addr = addr;
	ioend->io_flags = flags;
	ioend->io_folios = 0;
	ioend->io_error = 0;
	ioend->io_private = wpc->iomap.private_data;
	ioend->io_pieces = ioend->io_inline_pieces;
	ioend->io_nr_pieces = 0;
	ioend->io_max_pieces = INLINE_PIECES;
	bio_init(&ioend->io_bio, wpc->iomap.bdev, BIO_WRITE, BIO_DATA, addr);
	return ioend;
}

static void ioend_free(struct page_cache *cache, struct iomap_ioend *ioend)
{
	bio_uninit(&ioend->io_bio);
	if (ioend->io_pieces != ioend->io_inline_pieces)
		env_free(ioend->io_pieces);
	page_cache_ioend_put(cache, ioend);
}

/* Room for one more piece; false if the host has no memory. */
static bool pieces_grow(struct iomap_ioend *ioend)
{
	unsigned int max = ioend->io_max_pieces * 4;
	struct iomap_piece *pieces = env_alloc(max * sizeof(*pieces));

	if (!pieces)
		return false;
	memcpy(pieces, ioend->io_pieces, ioend->io_nr_pieces * sizeof(*pieces));
	if (ioend->io_pieces != ioend->io_inline_pieces)
		env_free(ioend->io_pieces);
	ioend->io_pieces = pieces;
	ioend->io_max_pieces = max;
	return true;
}

/* Would [pos, ...) under wpc's map continue the ioend (F17)? */
static bool ioend_can_append(const struct iomap_writepage_ctx *wpc, uint64_t pos,
			     unsigned int flags)
{
	const struct iomap_ioend *ioend = wpc->ioend;
	uint64_t addr = wpc->iomap.addr + (pos - wpc->iomap.offset);

	if (flags & IOMAP_IOEND_BOUNDARY)
		return false;
	if ((flags ^ ioend->io_flags) & IOMAP_IOEND_NOMERGE)
		return false;
	if (pos != ioend->io_offset + ioend->io_size)
		return false;
	if (addr != ioend->io_addr + ioend->io_size && !(wpc->iomap.flags & IOMAP_F_ANON_WRITE))
		return false;
	return wpc->iomap.bdev == ioend->io_bio.bdev;
}

/* Add `len` bytes of the folio; false if the ioend is full or memory is short. */
static bool ioend_append(struct iomap_ioend *ioend, struct folio *folio, uint64_t pos, uint64_t len,
			 uint64_t end_pos)
{
	struct iomap_piece *last =
		ioend->io_nr_pieces ? &ioend->io_pieces[ioend->io_nr_pieces - 1] : NULL;
	bool same = last && last->folio == folio;

	if (!same && ioend->io_folios == IOMAP_IOEND_FOLIOS)
		return false;
	if (!same && ioend->io_nr_pieces == ioend->io_max_pieces && !pieces_grow(ioend))
		return false;
	if (bio_add(&ioend->io_bio, folio->data + (pos - folio_pos(folio)), len))
		return false;
	if (same) {
		last->len += (uint32_t)len;
	} else {
		ioend->io_pieces[ioend->io_nr_pieces++] =
			(struct iomap_piece){folio, (uint32_t)len};
		ioend->io_folios++;
	}
	/* Byte exact at the end of the file; the request itself is whole blocks (F18, F19). */
	ioend->io_size += pos + len > end_pos ? end_pos - pos : len;
	return true;
}

static unsigned int ioend_flags_of(const struct iomap *map, const struct folio *folio, uint64_t pos)
{
	unsigned int flags = 0;

	if (map->type == IOMAP_UNWRITTEN)
		flags |= IOMAP_IOEND_UNWRITTEN;
	if (map->flags & IOMAP_F_SHARED)
		flags |= IOMAP_IOEND_SHARED;
	if (folio_test(folio, FOLIO_DROPBEHIND))
		flags |= IOMAP_IOEND_DONTCACHE;
	if (pos == map->offset && map->flags & IOMAP_F_BOUNDARY)
		flags |= IOMAP_IOEND_BOUNDARY;
	return flags;
}

static int submit_pending(struct iomap_writepage_ctx *wpc)
{
	struct iomap_ioend *ioend = wpc->ioend;

	if (!ioend)
		return 0;
	wpc->ioend = NULL; /* gone once submitted (F22) */
	return wpc->ops->writeback_submit(wpc, ioend, 0);
}

ssize_t iomap_add_to_ioend(struct iomap_writepage_ctx *wpc, struct folio *folio, uint64_t pos,
			   uint64_t end_pos, uint64_t len)
{
	const struct iomap *map = &wpc->iomap;
	unsigned int flags;
	bool added;
	int err;

	if (pos < map->offset || pos >= map->offset + map->length)
		return -EIO;
	if (len > map->offset + map->length - pos)
		len = map->offset + map->length - pos;
	if (map->type == IOMAP_HOLE)
		return (ssize_t)len;
	if (map->type != IOMAP_MAPPED && map->type != IOMAP_UNWRITTEN)
		return -EIO;
	flags = ioend_flags_of(map, folio, pos);
	if (wpc->ioend && ioend_can_append(wpc, pos, flags) &&
	    ioend_append(wpc->ioend, folio, pos, len, end_pos))
		return (ssize_t)len;
	err = submit_pending(wpc);
	if (err)
		return err;
	wpc->ioend = ioend_new(wpc, pos, flags);
	/* The first piece needs no memory. */
	added = ioend_append(wpc->ioend, folio, pos, len, end_pos);
	assert(added);
	(void)added;
	return (ssize_t)len;
}

/* ---- submission and completion (F21..F26) ------------------------------------------- */

static void ioend_end_io(struct bio *bio)
{
	struct iomap_ioend *ioend = container_of(bio, struct iomap_ioend, io_bio);
	void (*done)(struct iomap_ioend * ioend) =
		(void (*)(struct iomap_ioend *))bio->private_data;

	ioend->io_error = bio->status;
	done(ioend);
}

int iomap_ioend_submit(struct iomap_ioend *ioend, int error,
		       void (*done)(struct iomap_ioend *ioend))
{
	if (!done)
		done = iomap_finish_ioend;
	if (error) {
		ioend->io_error = error;
		done(ioend);
		return error;
	}
	ioend->io_bio.end_io = ioend_end_io;
	ioend->io_bio.private_data = (void *)done;
	env_charge(ENV_COST_REQUEST, 1);
	wb_account_request(ioend->io_inode, ioend->io_bio.len);
	bio_submit(&ioend->io_bio);
	return 0;
}

void iomap_finish_folio_write(struct folio *folio, uint32_t len)
{
	struct iomap_folio_state *ifs = ifs_of(folio);

	if (ifs) {
		uint32_t left =
			__atomic_sub_fetch(&ifs->write_bytes_pending, len, __ATOMIC_ACQ_REL);

		if (left)
			return;
	}
	folio_end_writeback(folio);
}

void iomap_finish_ioend(struct iomap_ioend *ioend)
{
	struct page_cache *cache = ioend->io_inode->i_mapping.cache;

	/* Before the last folio is let go: with it the inode may go (L47). */
	if (unlikely(ioend->io_error))
		mapping_set_error(&ioend->io_inode->i_mapping, ioend->io_error);
	for (unsigned int i = 0; i < ioend->io_nr_pieces; i++)
		iomap_finish_folio_write(ioend->io_pieces[i].folio, ioend->io_pieces[i].len);
	ioend_free(cache, ioend);
}

bool iomap_ioend_can_merge(const struct iomap_ioend *ioend, const struct iomap_ioend *next)
{
	if (ioend->io_error != next->io_error)
		return false;
	if (next->io_flags & IOMAP_IOEND_BOUNDARY)
		return false;
	if ((ioend->io_flags ^ next->io_flags) & IOMAP_IOEND_NOMERGE)
		return false;
	return ioend->io_offset + ioend->io_size == next->io_offset &&
	       ioend->io_addr + ioend->io_size == next->io_addr;
}

/* Merge sort of the list by file position; stable, so equal inputs give equal orders. */
void iomap_sort_ioends(struct list_head *ioends)
{
	struct list_head left, right, sorted;
	struct list_head *slow = ioends->next, *fast = ioends->next;

	if (list_empty(ioends) || ioends->next->next == ioends)
		return;
	while (fast->next != ioends && fast->next->next != ioends) {
		slow = slow->next;
		fast = fast->next->next;
	}
	list_init(&left);
	list_init(&right);
	list_init(&sorted);
	while (ioends->next != slow->next) {
		struct list_head *entry = ioends->next;

		if (entry == slow) {
			list_move_tail(entry, &left);
			break;
		}
		list_move_tail(entry, &left);
	}
	list_splice_tail_init(ioends, &right);
	iomap_sort_ioends(&left);
	iomap_sort_ioends(&right);
	while (!list_empty(&left) && !list_empty(&right)) {
		struct iomap_ioend *a = list_first_entry(&left, struct iomap_ioend, io_list);
		struct iomap_ioend *b = list_first_entry(&right, struct iomap_ioend, io_list);

		list_move_tail(a->io_offset <= b->io_offset ? &a->io_list : &b->io_list, &sorted);
	}
	list_splice_tail_init(&left, &sorted);
	list_splice_tail_init(&right, &sorted);
	list_splice_tail_init(&sorted, ioends);
}

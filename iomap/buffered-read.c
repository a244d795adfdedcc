/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * buffered-read.c - fill folios from the device (section e)
 *
 * Runs of blocks that are not uptodate are zeroed or read; runs adjacent on the device, also
 * of neighbouring folios, are one request.  A folio's state holds a bias while its runs are
 * being submitted, so that an early completion cannot end the read (C14, L38).
 */
#include <iomap/cost.h>

#include "iomap/internal.h"

/* A request never has more pieces than this; longer ones are several requests. */
#define READ_PIECES 512

struct read_piece {
	struct folio *folio;
	uint32_t off;
	uint32_t len;
};

/* One read request and the parts of folios it fills. */
struct read_io {
	struct bio bio;
	struct inode *inode;
	unsigned int nr_pieces;
	struct read_piece pieces[];
};

struct read_ctx {
	struct readahead_control *rac; /* NULL: one folio */
	struct folio *folio; /* being filled */
	uint64_t submitted; /* bytes of it handed to requests */
	struct read_io *io; /* not submitted yet */
	unsigned int max_pieces;
};

/* ---- completion --------------------------------------------------------------------- */

/* len bytes at off are read or failed; whoever finishes the last byte ends the read (C14, C17). */
static void finish_folio_read(struct inode *inode, struct folio *folio, uint64_t off, uint64_t len,
			      int error)
{
	struct iomap_folio_state *ifs = ifs_of(folio);
	bool finished = true;
	bool uptodate = !error;

	if (ifs) {
		env_mutex_lock(&ifs->lock);
		if (!error) {
			for (uint64_t end = off + len; off < end; off += 1ull << inode->i_blkbits) {
				unsigned int block = (unsigned int)(off >> inode->i_blkbits);

				__atomic_fetch_or(&ifs->bits[block / 64], 1ull << (block % 64),
						  __ATOMIC_RELEASE);
			}
		}
		ifs->read_bytes_pending -= (uint32_t)len;
		finished = ifs->read_bytes_pending == 0;
		uptodate = finished && ifs_is_fully_uptodate(inode, folio, ifs);
		env_mutex_unlock(&ifs->lock);
	}
	if (!finished)
		return;
	env_charge(ENV_COST_END_FOLIO, 1);
	folio_end_read(folio, uptodate);
}

static void read_end_io(struct bio *bio)
{
	struct read_io *io = bio->private_data;

	for (unsigned int i = 0; i < io->nr_pieces; i++) {
		struct read_piece *piece = &io->pieces[i];

		finish_folio_read(io->inode, piece->folio, piece->off, piece->len, bio->status);
	}
	bio_uninit(bio);
	env_free(io);
}

/* ---- submission --------------------------------------------------------------------- */

static void read_submit(struct read_ctx *ctx)
{
	struct read_io *io = ctx->io;

	if (!io)
		return;
	ctx->io = NULL;
	env_charge(ENV_COST_REQUEST, 1);
	bio_submit(&io->bio);
}

static int read_io_new(struct read_ctx *ctx, const struct iomap_iter *iter, uint64_t addr)
{
	struct read_io *io;
	/* What is left under the map, in folios of a page at least, bounds the pieces. */
	uint64_t pieces = (iomap_length(iter) >> iter->inode->i_mapping.page_shift) + 2;

	ctx->max_pieces = pieces < READ_PIECES ? (unsigned int)pieces : READ_PIECES;
	io = env_alloc(sizeof(*io) + ctx->max_pieces * sizeof(io->pieces[0]));
	if (!io)
		return -ENOMEM;
	bio_init(&io->bio, iomap_iter_srcmap(iter)->bdev, BIO_READ, BIO_DATA, addr);
	io->bio.end_io = read_end_io;
	io->bio.private_data = io;
	io->inode = iter->inode;
	io->nr_pieces = 0;
	ctx->io = io;
	return 0;
}

/* Queue the read of [off, off + len) of the folio at iter->pos. */
static int read_add(struct read_ctx *ctx, const struct iomap_iter *iter, uint64_t off, uint64_t len)
{
	struct folio *folio = ctx->folio;
	struct iomap_folio_state *ifs = ifs_of(folio);
	const struct iomap *map = iomap_iter_srcmap(iter);
	uint64_t addr = map->addr + (iter->pos - map->offset);
	struct read_io *io = ctx->io;
	int err;

	if (io && (io->bio.bdev != map->bdev || io->bio.addr + io->bio.len != addr ||
		   io->nr_pieces == ctx->max_pieces))
		read_submit(ctx);
	if (!ctx->io) {
		err = read_io_new(ctx, iter, addr);
		if (err)
			return err;
	}
	io = ctx->io;
	err = bio_add(&io->bio, folio->data + off, len);
	if (err) {
		if (!io->nr_pieces) {
			bio_uninit(&io->bio);
			env_free(io);
			ctx->io = NULL;
		}
		return err;
	}
	if (ifs && !ctx->submitted) {
		env_mutex_lock(&ifs->lock);
		ifs->read_bytes_pending += (uint32_t)folio_size(folio);
		env_mutex_unlock(&ifs->lock);
	}
	io->pieces[io->nr_pieces++] = (struct read_piece){folio, (uint32_t)off, (uint32_t)len};
	ctx->submitted += len;
	page_cache_count_read(folio->cache, len);
	return 0;
}

/* The submitter is done with the folio (C14..C16). */
static void read_end(struct read_ctx *ctx, struct inode *inode)
{
	struct folio *folio = ctx->folio;
	uint64_t submitted = ctx->submitted;
	struct iomap_folio_state *ifs;

	ctx->folio = NULL;
	ctx->submitted = 0;
	if (!submitted) {
		folio_end_read(folio, folio_test(folio, FOLIO_UPTODATE));
		return;
	}
	/* Entirely submitted, or one block: the completion owns it, it may be gone (C15). */
	ifs = submitted < folio_size(folio) ? ifs_of(folio) : NULL;
	if (ifs)
		finish_folio_read(inode, folio, 0, folio_size(folio) - submitted, -EAGAIN);
}

/* ---- one folio ---------------------------------------------------------------------- */

int iomap_read_inline(const struct iomap_iter *iter, struct folio *folio)
{
	const struct iomap *map = iomap_iter_srcmap(iter);
	uint64_t size = inode_size_read(iter->inode);
	uint64_t off = map->offset - folio_pos(folio);
	uint64_t len;

	if (folio_test(folio, FOLIO_UPTODATE))
		return 0;
	len = size > map->offset ? size - map->offset : 0;
	if (!map->inline_data || len > map->length || off + len > folio_size(folio))
		return -EIO;
	if (off > 0)
		ifs_attach(iter->inode, folio);
	memcpy(folio->data + off, map->inline_data, len);
	memset(folio->data + off + len, 0, folio_size(folio) - off - len);
	ifs_set_range_uptodate(iter->inode, folio, off, folio_size(folio) - off);
	return 0;
}

/*
 * Fill what the map covers of ctx->folio, from iter->pos on; advances to the end of either.
 */
static int read_folio_part(struct iomap_iter *iter, struct read_ctx *ctx)
{
	struct inode *inode = iter->inode;
	struct folio *folio = ctx->folio;
	uint64_t start = folio_pos(folio);
	uint64_t end = start + folio_size(folio);
	uint64_t isize = inode_size_read(inode);
	uint64_t map_end = iter->pos + iomap_length(iter);
	unsigned int bits = inode->i_blkbits;
	struct iomap_folio_state *ifs;
	int err;

	if (iomap_iter_srcmap(iter)->type == IOMAP_INLINE) {
		err = iomap_read_inline(iter, folio);
		if (err)
			return err;
		return iomap_iter_advance(iter, (map_end < end ? map_end : end) - iter->pos);
	}
	ifs = ifs_attach(inode, folio);
	end = map_end < end ? map_end : end;
	while (iter->pos < end) {
		unsigned int first = (unsigned int)((iter->pos - start) >> bits);
		unsigned int block = first;
		unsigned int last = (unsigned int)((end - start + (1ull << bits) - 1) >> bits);
		unsigned int nr;
		uint64_t off, len;

		nr = ifs_next_uptodate_run(inode, folio, ifs, &block, last, false);
		if (!nr)
			return iomap_iter_advance(iter, end - iter->pos);
		if (block > first) {
			off = (uint64_t)block << bits;
			err = iomap_iter_advance(iter, start + off - iter->pos);
			if (err)
				return err;
		}
		off = (uint64_t)block << bits;
		len = (uint64_t)nr << bits;
		/* Blocks past the end of the file are a run of their own: zeroed, not read. */
		if (start + off < isize && start + off + len > isize) {
			uint64_t in_file = isize - (start + off);

			len = (in_file + (1ull << bits) - 1) >> bits << bits;
		}
		if (iomap_needs_zeroing(iter, start + off)) {
			memset(folio->data + off, 0, len);
			ifs_set_range_uptodate(inode, folio, off, len);
		} else {
			err = read_add(ctx, iter, off, len);
			if (err)
				return err;
		}
		if (len > end - iter->pos)
			len = end - iter->pos;
		err = iomap_iter_advance(iter, len);
		if (err)
			return err;
	}
	return 0;
}

int iomap_read_folio(struct folio *folio, const struct iomap_ops *ops)
{
	struct iomap_iter iter = {
		.inode = folio->mapping->host,
		.pos = folio_pos(folio),
		.len = folio_size(folio),
	};
	struct read_ctx ctx = {.folio = folio};

	while (iomap_iter(&iter, ops) > 0)
		iter.status = read_folio_part(&iter, &ctx);
	/* Before the request goes out: with the bias gone its completion may end all. */
	read_end(&ctx, iter.inode);
	read_submit(&ctx);
	return 0;
}

void iomap_readahead(struct readahead_control *rac, const struct iomap_ops *ops)
{
	struct address_space *mapping = rac->mapping;
	struct iomap_iter iter = {
		.inode = mapping->host,
		.pos = rac->index << mapping->page_shift,
		.len = rac->nr_pages << mapping->page_shift,
	};
	struct read_ctx ctx = {.rac = rac};

	while (iomap_iter(&iter, ops) > 0) {
		while (!iter.status && iomap_length(&iter)) {
			if (!ctx.folio)
				ctx.folio = filemap_readahead_folio(rac);
			if (!ctx.folio)
				break;
			uint64_t end = folio_pos(ctx.folio) + folio_size(ctx.folio);

			iter.status = read_folio_part(&iter, &ctx);
			if (!iter.status && iter.pos >= end)
				read_end(&ctx, iter.inode);
		}
	}
	if (ctx.folio)
		read_end(&ctx, iter.inode);
	read_submit(&ctx);
}

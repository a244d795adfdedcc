/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * readahead.c - how far ahead of a reader, in folios how large (E12, J14)
 *
 * A file has one window [start, start + size).  The folio at start + size - async_size carries
 * a mark; the reader that comes to it starts the next window, larger and in larger folios.
 */
#include "folio/internal.h"

/* The window's limit for a request: a large request may be read in one go if the device can. */
static uint64_t window_max(const struct file *file, uint64_t request)
{
	const struct address_space *mapping = &file->f_inode->i_mapping;
	uint64_t max = __atomic_load_n(&file->f_ra.ra_pages, __ATOMIC_RELAXED);
	uint64_t io_max =
		bdi_block_device(file->f_inode->i_sb->s_bdi)->io_max >> mapping->page_shift;

	if (file->f_flags & FILE_SEQUENTIAL)
		max *= 2;
	if (request > max && io_max > max)
		max = request < io_max ? request : io_max;
	return max;
}

static uint64_t first_window(uint64_t request, uint64_t max)
{
	uint64_t size = 1;

	while (size < request)
		size *= 2;
	if (size <= max / 32)
		return size * 4;
	if (size <= max / 4)
		return size * 2;
	return max;
}

static uint64_t next_window(uint64_t size, uint64_t max)
{
	if (size < max / 16)
		return size * 4;
	if (size <= max / 2)
		return size * 2;
	return max;
}

/* The last page of the file, and whether it has one. */
static bool last_page(const struct address_space *mapping, uint64_t *last)
{
	uint64_t size = inode_size_read(mapping->host);

	*last = (size - 1) >> mapping->page_shift;
	return size > 0;
}

/* The order of the folio at index: aligned, inside the window and the file (J14). */
static unsigned int folio_order_at(const struct address_space *mapping, uint64_t index,
				   unsigned int order, uint64_t limit)
{
	if (index && (unsigned int)__builtin_ctzll(index) < order)
		order = (unsigned int)__builtin_ctzll(index);
	while (order > mapping->min_order && index + (1ull << order) - 1 > limit)
		order--;
	return order < mapping->min_order ? mapping->min_order : order;
}

/* Add one locked folio at index; its pages, or 0 (taken, or no memory). */
static uint64_t add_folio(struct address_space *mapping, uint64_t index, unsigned int order,
			  bool mark)
{
	struct folio *folio;

	if (filemap_alloc_folio(mapping, index, order, ALLOC_LIGHT, &folio))
		return 0;
	if (mark)
		folio_set(folio, FOLIO_READAHEAD);
	if (filemap_add_folio(mapping, folio, index)) {
		folio_unlock_put(folio);
		return 0;
	}
	/* Locked, and referenced by the index: the reader of the window ends both. */
	env_lockdep_release(folio);
	folio_put(folio);
	return 1ull << order;
}

struct folio *filemap_readahead_folio(struct readahead_control *rac)
{
	struct address_space *mapping = rac->mapping;

	if (!rac->nr_pages)
		return NULL;
	env_rcu_read_lock();
	/* Locked by this window, so it stays. */
	rac->folio = index_load(&mapping->index_root, rac->index, NULL);
	env_rcu_read_unlock();
	assert(rac->folio && folio_is_locked(rac->folio));
	rac->index += folio_nr_pages(rac->folio);
	rac->nr_pages = rac->nr_pages > folio_nr_pages(rac->folio)
				? rac->nr_pages - folio_nr_pages(rac->folio)
				: 0;
	return rac->folio;
}

/* Read the folios added so far; those the file system did not take are removed (E8). */
static void read_window(struct readahead_control *rac)
{
	struct folio *folio;

	if (!rac->nr_pages)
		return;
	if (rac->mapping->a_ops->readahead)
		rac->mapping->a_ops->readahead(rac);
	while ((folio = filemap_readahead_folio(rac)) != NULL) {
		folio_get(folio);
		filemap_remove_folio(folio);
		folio_end_read(folio, false);
		folio_put(folio);
	}
}

/*
 * Fill the holes of pages [index, end) with folios of at most the order and read them.  The
 * mark goes on the folio that contains mark_index.
 */
static void read_pages(struct file *file, uint64_t index, uint64_t end, unsigned int order,
		       uint64_t mark_index)
{
	struct address_space *mapping = &file->f_inode->i_mapping;
	struct readahead_control rac = {.file = file, .mapping = mapping};
	uint64_t min_pages = 1ull << mapping->min_order;
	uint64_t last;

	if (!last_page(mapping, &last) || index > last)
		return;
	last = end - 1 < last ? end - 1 : last;
	index &= ~(min_pages - 1);
	env_rwsem_read_lock(&mapping->invalidate_lock);
	rac.index = index;
	while (index <= last) {
		unsigned int want = folio_order_at(mapping, index, order, last);
		bool mark = mark_index >= index && mark_index < index + (1ull << want);
		uint64_t pages = 0;
		struct folio *cached = filemap_lookup(mapping, index);

		if (!cached) {
			pages = add_folio(mapping, index, want, mark);
			if (!pages && want > mapping->min_order) {
				order = mapping->min_order;
				mark = mark_index >= index && mark_index < index + min_pages;
				pages = add_folio(mapping, index, order, mark);
			}
		}
		if (pages) {
			rac.nr_pages += pages;
			index += pages;
			continue;
		}
		/* A page in between is cached: read what is before it. */
		uint64_t next = rac.index + rac.nr_pages;

		read_window(&rac);
		if (!cached)
			break; /* no memory */
		next = cached->index + folio_nr_pages(cached);
		folio_put(cached);
		index = next > index ? next : index + 1;
		rac.index = index;
		rac.nr_pages = 0;
	}
	read_window(&rac);
	env_rwsem_read_unlock(&mapping->invalidate_lock);
}

/* Readers of one open file share its window without a lock: a race costs a window at most. */
static struct file_ra_state window_load(const struct file *file)
{
	const struct file_ra_state *ra = &file->f_ra;

	return (struct file_ra_state){
		.start = __atomic_load_n(&ra->start, __ATOMIC_RELAXED),
		.size = __atomic_load_n(&ra->size, __ATOMIC_RELAXED),
		.async_size = __atomic_load_n(&ra->async_size, __ATOMIC_RELAXED),
		.order = __atomic_load_n(&ra->order, __ATOMIC_RELAXED),
	};
}

static void window_store(struct file *file, const struct file_ra_state *window)
{
	struct file_ra_state *ra = &file->f_ra;

	__atomic_store_n(&ra->start, window->start, __ATOMIC_RELAXED);
	__atomic_store_n(&ra->size, window->size, __ATOMIC_RELAXED);
	__atomic_store_n(&ra->async_size, window->async_size, __ATOMIC_RELAXED);
	__atomic_store_n(&ra->order, window->order, __ATOMIC_RELAXED);
}

void readahead_sync(struct file *file, uint64_t index, uint64_t request)
{
	struct file_ra_state ra = {.start = index};
	uint64_t max = window_max(file, request);
	uint64_t prev = __atomic_load_n(&file->f_ra.prev_index, __ATOMIC_RELAXED);
	bool sequential = index == prev || index == prev + 1;

	if (file->f_flags & FILE_RANDOM || !max) {
		/* Piece by piece: a window's folios are locked all at once. */
		request = request < max ? request : max ? max : 1;
		read_pages(file, index, index + request, 0, UINT64_MAX);
		return;
	}
	if (index && request <= max && !sequential) {
		/* A small random read: exactly that, and the window stays as it is. */
		read_pages(file, index, index + request, 0, UINT64_MAX);
		return;
	}
	ra.size = (uint32_t)first_window(request, max);
	ra.async_size = (uint32_t)(ra.size > request ? ra.size - request : ra.size);
	window_store(file, &ra);
	read_pages(file, ra.start, ra.start + ra.size, 0, ra.start + ra.size - ra.async_size);
}

void readahead_async(struct file *file, struct folio *folio, uint64_t request)
{
	struct address_space *mapping = &file->f_inode->i_mapping;
	struct file_ra_state ra = window_load(file);
	uint64_t max = window_max(file, request);
	uint64_t end;
	unsigned int order;

	folio_clear(folio, FOLIO_READAHEAD);
	if (!max)
		return;
	ra.order += 2;
	if (folio->index <= ra.start + ra.size - ra.async_size &&
	    ra.start + ra.size - ra.async_size < folio->index + folio_nr_pages(folio)) {
		ra.start += ra.size;
		ra.size = (uint32_t)next_window(ra.size, max);
	} else {
		/* A mark of another reader or an older window: go on from here. */
		ra.start = folio->index + folio_nr_pages(folio);
		ra.size = (uint32_t)first_window(request, max);
	}
	order = 31u - (unsigned int)__builtin_clz(ra.size | 1);
	order = order < ra.order ? order : ra.order;
	order = order < mapping->max_order ? order : mapping->max_order;
	end = (ra.start + ra.size) & ~((1ull << order) - 1);
	if (end > ra.start)
		ra.size = (uint32_t)(end - ra.start);
	ra.async_size = ra.size;
	window_store(file, &ra);
	read_pages(file, ra.start, ra.start + ra.size, order, ra.start);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * map.c - the space of a file: look up, promise, allocate, free
 *
 * A write over a hole is promised space (delayed, EX4); writeback gives it unwritten space, run
 * by run (EX5); when that is written it becomes so (EX22).  Every change of the extent map
 * happens with the data lock held exclusively and moves the sequence number, so that a map
 * handed out before is known to be old (A21).  What a crash must not lose is changed within a
 * handle of the journal.
 */
#include "internal.h"

#include <assert.h>
#include <errno.h>

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t extent_end(const struct extent *extent)
{
	return extent->file + extent->len;
}

/* ---- space counters (EX3, CB6) ---------------------------------------------------------- */

/* Promise up to `wish` blocks; returns how many. */
static uint64_t space_reserve(struct ext4_fs *fs, uint64_t wish)
{
	uint64_t nr_free = __atomic_load_n(&fs->nr_free, __ATOMIC_RELAXED);
	uint64_t n;

	do {
		n = min_u64(nr_free, wish);
		if (!n)
			return 0;
	} while (!__atomic_compare_exchange_n(&fs->nr_free, &nr_free, nr_free - n, true,
					      __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
	__atomic_fetch_add(&fs->nr_reserved, n, __ATOMIC_RELAXED);
	return n;
}

static void space_unreserve(struct ext4_fs *fs, uint64_t n)
{
	__atomic_fetch_sub(&fs->nr_reserved, n, __ATOMIC_RELAXED);
	__atomic_fetch_add(&fs->nr_free, n, __ATOMIC_ACQ_REL);
}

/* Promised blocks were allocated. */
static void space_use(struct ext4_fs *fs, uint64_t n)
{
	__atomic_fetch_sub(&fs->nr_reserved, n, __ATOMIC_RELAXED);
}

/* => the blocks are free in their groups, so whoever is promised them will find them */
static void space_free(struct ext4_fs *fs, uint64_t n)
{
	__atomic_fetch_add(&fs->nr_free, n, __ATOMIC_ACQ_REL);
}

/* ---- look up ---------------------------------------------------------------------------- */

static void map_changed(struct ext4_inode *node)
{
	__atomic_fetch_add(&node->sequence, 1, __ATOMIC_RELEASE);
}

static uint64_t map_sequence(const struct ext4_inode *node)
{
	return __atomic_load_n(&node->sequence, __ATOMIC_ACQUIRE);
}

bool ext4_map_is_valid(struct inode *inode, const struct iomap *iomap)
{
	return iomap->validity_cookie == map_sequence(ext4_inode_from(inode));
}

/* What the record said when the map was at `sequence`. */
static inline void fill_extent_at(const struct ext4_inode *node, const struct extent *extent,
				  uint64_t sequence, struct iomap *iomap)
{
	unsigned int shift = node->base.inode.i_blkbits;

	iomap->offset = extent->file << shift;
	iomap->length = extent->len << shift;
	iomap->validity_cookie = sequence;
	if (extent->state == EXTENT_DELAYED) {
		iomap->type = IOMAP_DELALLOC;
		iomap->addr = IOMAP_NULL_ADDR;
		return;
	}
	iomap->type = extent->state == EXTENT_NORM ? IOMAP_MAPPED : IOMAP_UNWRITTEN;
	iomap->addr = extent->start << shift;
	iomap->bdev = node->base.fs->bdev;
	if (!ext4_journal_is_committed(&ext4_fs_of(node)->journal,
				       __atomic_load_n(&node->datasync_tid, __ATOMIC_ACQUIRE)))
		iomap->flags |= IOMAP_F_DIRTY;
}

/* => data_lock is held */
static void fill_extent(const struct ext4_inode *node, const struct extent *extent,
			struct iomap *iomap)
{
	fill_extent_at(node, extent, map_sequence(node), iomap);
}

/* => data_lock is held */
static void fill_hole(const struct ext4_inode *node, uint64_t start, uint64_t end,
		      struct iomap *iomap)
{
	unsigned int shift = node->base.inode.i_blkbits;

	iomap->type = IOMAP_HOLE;
	iomap->addr = IOMAP_NULL_ADDR;
	iomap->offset = start << shift;
	iomap->length = (end - start) << shift;
	iomap->validity_cookie = map_sequence(node);
}

/* The record at block, or the hole up to the next one.  => data_lock is held */
static void fill_at(const struct ext4_inode *node, uint64_t block, struct iomap *iomap)
{
	struct extent extent;
	uint64_t end = EXT4_MAX_BLOCKS;

	if (extent_map_find(&node->map, block, &extent)) {
		if (extent.file <= block) {
			fill_extent(node, &extent, iomap);
			return;
		}
		end = extent.file;
	}
	/* Nothing is mapped past the largest file, but others may ask: all that is one hole. */
	if (block >= end)
		end = UINT64_MAX >> node->base.inode.i_blkbits;
	fill_hole(node, block, end, iomap);
}

static bool data_lock_shared(struct ext4_inode *node, unsigned int flags)
{
	if (flags & IOMAP_NOWAIT)
		return env_rwsem_read_trylock(&node->data_lock);
	env_rwsem_read_lock(&node->data_lock);
	return true;
}

static int read_begin(struct inode *inode, uint64_t pos, uint64_t len, unsigned int flags,
		      struct iomap *iomap, struct iomap *srcmap)
{
	struct ext4_inode *node = ext4_inode_from(inode);

	(void)len;
	(void)srcmap;
	if (!data_lock_shared(node, flags))
		return -EAGAIN;
	fill_at(node, pos >> inode->i_blkbits, iomap);
	env_rwsem_read_unlock(&node->data_lock);
	return 0;
}

/* ---- allocate --------------------------------------------------------------------------- */

static uint32_t writing_cpu(const struct inode *inode)
{
	int context = wb_context_of(inode);

	return context < 0 ? (uint32_t)inode->i_ino : (uint32_t)context;
}

void ext4_request_init(struct ext4_request *request, struct ext4_inode *node, uint64_t file,
		       uint64_t len)
{
	struct inode *inode = &node->base.inode;

	*request = (struct ext4_request){
		.inode = inode,
		.map = &node->map,
		.preallocs = &node->preallocs,
		.file = file,
		.len = (uint32_t)len,
		.size = inode_size_read(inode),
		.ino = inode->i_ino,
		.group = node->group,
		.cpu = writing_cpu(inode),
		.is_closed = ext4_flags(node) & EXT4_CLOSED,
	};
}

/*
 * Space for the front of [file, file + len): 1..len blocks.
 * => data_lock is held exclusively; len blocks are promised to the caller
 */
static int allocate(struct ext4_inode *node, uint64_t file, uint64_t len, bool no_normalise,
		    struct extent *extent)
{
	struct ext4_request request;
	uint32_t got;
	int err;

	ext4_request_init(&request, node, file, len);
	request.no_normalise = no_normalise;
	err = ext4_mballoc_allocate(&ext4_fs_of(node)->mballoc, &request, &extent->start, &got);
	if (err)
		return err;
	extent->file = file;
	extent->len = got;
	extent->state = EXTENT_UNWRITTEN;
	extent->reserved = 0;
	return 0;
}

/* The map did not take the extent: as if it had not been allocated. */
static void undo_allocate(struct ext4_inode *node, const struct extent *extent)
{
	struct ext4_fs *fs = ext4_fs_of(node);

	/* They say that the blocks are used, and will be asked for the same ones again. */
	ext4_prealloc_discard(&fs->mballoc, &node->preallocs);
	ext4_mballoc_free(&fs->mballoc, extent->start, extent->len);
}

/* The map has taken the new extent.  => data_lock is held exclusively */
static void allocated(struct ext4_inode *node, struct ext4_handle *handle,
		      const struct extent *extent)
{
	struct ext4_fs *fs = ext4_fs_of(node);

	map_changed(node);
	space_use(fs, extent->len);
	ext4_dirty_space(fs, handle, extent->start, extent->len);
	ext4_tree_changed(node, handle, extent->file);
	ext4_dirty_inode(node, handle, true);
}

/*
 * Fill the front of the hole [file, file + len) with unwritten space.
 * => data_lock is held exclusively
 */
static int allocate_hole(struct ext4_inode *node, struct ext4_handle *handle, uint64_t file,
			 uint64_t len, bool no_normalise, struct extent *extent)
{
	struct ext4_fs *fs = ext4_fs_of(node);
	uint64_t promised = space_reserve(fs, len);
	int err;

	if (!promised)
		return -ENOSPC;
	err = allocate(node, file, promised, no_normalise, extent);
	if (err)
		goto unreserve;
	err = extent_map_insert(&node->map, extent);
	if (err)
		goto undo;

	allocated(node, handle, extent);
	space_unreserve(fs, promised - extent->len);
	return 0;

undo:
	undo_allocate(node, extent);
unreserve:
	space_unreserve(fs, promised);
	return err;
}

/* => data_lock is held exclusively; [block, block + len) is delayed */
static int allocate_delayed(struct ext4_inode *node, struct ext4_handle *handle, uint64_t block,
			    uint64_t len, struct extent *extent)
{
	int err = allocate(node, block, len, false, extent);

	if (err)
		return err;
	err = extent_map_convert(&node->map, block, extent->len, extent->start, EXTENT_UNWRITTEN,
				 NULL);
	if (err) {
		undo_allocate(node, extent);
		return err;
	}
	assert(node->nr_delayed >= extent->len);
	node->nr_delayed -= extent->len;
	allocated(node, handle, extent);
	return 0;
}

/*
 * Give space to what is delayed at *block, up to `end`; moves *block behind it, or to `end` if
 * it is not delayed any more.
 */
static int place_part(struct ext4_inode *node, struct ext4_handle *handle, uint64_t *block,
		      uint64_t end)
{
	struct extent delayed, extent = {.file = end};
	int err = 0;

	env_rwsem_write_lock(&node->data_lock);
	if (extent_map_find(&node->map, *block, &delayed) && delayed.file <= *block &&
	    delayed.state == EXTENT_DELAYED)
		err = allocate_delayed(node, handle, *block,
				       min_u64(extent_end(&delayed), end) - *block, &extent);
	env_rwsem_write_unlock(&node->data_lock);
	if (!err)
		*block = extent_end(&extent);
	return err;
}

/* Give the delayed run from block on its space, part by part within one handle (EX5). */
static int place_run(struct ext4_inode *node, uint64_t block)
{
	uint64_t end = block + EXT4_MAX_RUN;
	uint64_t next = block;
	struct ext4_handle handle;
	int err;

	(void)ext4_handle_start(&ext4_fs_of(node)->journal, &handle, EXT4_CREDITS_RUN,
				&node->base.inode, false);
	err = place_part(node, &handle, &next, end);
	while (!err && next < end) {
		ext4_handle_extend(&handle, EXT4_CREDITS_STEP);
		err = place_part(node, &handle, &next, end);
	}
	ext4_handle_stop(&handle);
	/* The rest has its turn when its folio has. */
	return next > block ? 0 : err;
}

static void map_at(struct ext4_inode *node, uint64_t block, struct iomap *iomap)
{
	*iomap = (struct iomap){0};
	env_rwsem_read_lock(&node->data_lock);
	fill_at(node, block, iomap);
	env_rwsem_read_unlock(&node->data_lock);
}

int ext4_map_for_writeback(struct ext4_inode *node, uint64_t pos, struct iomap *iomap)
{
	uint64_t block = pos >> node->base.inode.i_blkbits;
	int err;

	map_at(node, block, iomap);
	if (iomap->type != IOMAP_DELALLOC)
		return 0;

	err = place_run(node, block);
	/* The folio becomes clean whatever is returned: without space its data is lost. */
	for (unsigned int i = 1; err == -ENOMEM && i < FS_ENOMEM_TRIES; i++) {
		env_sleep_ns(FS_ENOMEM_PAUSE_NS);
		err = place_run(node, block);
	}
	if (!err)
		map_at(node, block, iomap);
	return err;
}

/* ---- write ------------------------------------------------------------------------------ */

/*
 * Promise space for the front of the hole [file, file + len) (EX4).
 * => data_lock is held exclusively
 */
static int delay_hole(struct ext4_inode *node, uint64_t file, uint64_t len, struct extent *extent)
{
	struct ext4_fs *fs = ext4_fs_of(node);
	uint64_t promised = space_reserve(fs, len);
	int err;

	if (!promised)
		return -ENOSPC;
	*extent = (struct extent){
		.file = file,
		.start = EXTENT_NO_START,
		.len = promised,
		.state = EXTENT_DELAYED,
	};
	err = extent_map_insert(&node->map, extent);
	if (err) {
		space_unreserve(fs, promised);
		return err;
	}
	node->nr_delayed += promised;
	map_changed(node);
	return 0;
}

/*
 * Make space for a write of up to len blocks that found a hole at block.  With a handle it is
 * allocated now, block by block (EX24).
 */
static int write_hole(struct ext4_inode *node, struct ext4_handle *handle, uint64_t block,
		      uint64_t len, struct iomap *iomap)
{
	struct extent extent;
	bool found, is_hole;
	int err = 0;

	env_rwsem_write_lock(&node->data_lock);
	found = extent_map_find(&node->map, block, &extent);
	is_hole = !found || extent.file > block;
	if (is_hole) {
		if (found)
			len = min_u64(len, extent.file - block);
		if (handle)
			err = allocate_hole(node, handle, block, 1, false, &extent);
		else
			err = delay_hole(node, block, len, &extent);
	}
	if (!err) {
		fill_extent(node, &extent, iomap);
		/* What fails to be written of unwritten space reads as zero anyway. */
		if (is_hole && extent.state == EXTENT_DELAYED)
			iomap->flags |= IOMAP_F_NEW;
	}
	env_rwsem_write_unlock(&node->data_lock);
	return err;
}

/* EX24: one handle for each write. */
static int write_hole_now(struct ext4_inode *node, uint64_t block, uint64_t len,
			  struct iomap *iomap)
{
	struct ext4_handle handle;
	int err;

	(void)ext4_handle_start(&ext4_fs_of(node)->journal, &handle, EXT4_CREDITS_STEP, NULL,
				false);
	err = write_hole(node, &handle, block, len, iomap);
	ext4_handle_stop(&handle);
	return err;
}

static int join_running(struct ext4_inode *node, bool nowait)
{
	struct ext4_handle handle;
	int err = ext4_handle_start(&ext4_fs_of(node)->journal, &handle, EXT4_CREDITS_TIME, NULL,
				    nowait);

	if (err)
		return err;
	ext4_dirty_inode(node, &handle, false);
	ext4_handle_stop(&handle);
	return 0;
}

/*
 * The file is being written: it has a new timestamp, and somebody has it open.  The running
 * transaction needs to be told once.
 */
static inline int touch(struct ext4_inode *node, bool nowait)
{
	uint64_t tid = __atomic_load_n(&node->sync_tid, __ATOMIC_ACQUIRE);

	if (env_unlikely(ext4_flags(node) & EXT4_CLOSED))
		__atomic_fetch_and(&node->flags, ~(uint32_t)EXT4_CLOSED, __ATOMIC_ACQ_REL);
	if (env_likely(tid == ext4_journal_tid(&ext4_fs_of(node)->journal)))
		return 0;
	return join_running(node, nowait);
}

/* Without the lock.  If it is not true any more the check under the folio lock tells (A22). */
static inline bool fill_hinted(const struct ext4_inode *node, uint64_t block, struct iomap *iomap)
{
	uint64_t sequence = map_sequence(node);
	struct extent extent;

	if (!map_hint_get(&node->hint, sequence, block, &extent))
		return false;
	fill_extent_at(node, &extent, sequence, iomap);
	return true;
}

/* The record at block; false if there is none.  => data_lock is held */
static inline bool fill_found(struct ext4_inode *node, uint64_t block, struct iomap *iomap)
{
	struct extent extent;

	if (!extent_map_find(&node->map, block, &extent) || extent.file > block)
		return false;
	fill_extent(node, &extent, iomap);
	map_hint_put(&node->hint, map_sequence(node), &extent);
	return true;
}

static inline int overwrite_begin(struct inode *inode, uint64_t pos, uint64_t len,
				  unsigned int flags, struct iomap *iomap, struct iomap *srcmap)
{
	struct ext4_inode *node = ext4_inode_from(inode);
	uint64_t block = pos >> inode->i_blkbits;
	bool found;
	int err = touch(node, flags & IOMAP_NOWAIT);

	(void)len;
	(void)srcmap;
	if (env_unlikely(err))
		return err;
	if (env_likely(fill_hinted(node, block, iomap)))
		return 0;
	if (!data_lock_shared(node, flags))
		return -EAGAIN;
	found = fill_found(node, block, iomap);
	env_rwsem_read_unlock(&node->data_lock);
	return found ? 0 : -EAGAIN;
}

static int write_begin(struct inode *inode, uint64_t pos, uint64_t len, unsigned int flags,
		       struct iomap *iomap, struct iomap *srcmap)
{
	struct ext4_inode *node = ext4_inode_from(inode);
	uint64_t block = pos >> inode->i_blkbits;
	uint64_t end;

	if (!(flags & IOMAP_WRITE))
		return read_begin(inode, pos, len, flags, iomap, srcmap);
	if (env_likely(overwrite_begin(inode, pos, len, flags, iomap, srcmap) == 0))
		return 0;
	if (block >= EXT4_MAX_BLOCKS)
		return -EFBIG;
	if (flags & IOMAP_NOWAIT)
		return -EAGAIN;
	end = min_u64(((pos + len - 1) >> inode->i_blkbits) + 1, EXT4_MAX_BLOCKS);
	end = min_u64(end, block + EXT4_MAX_RUN);
	if (ext4_fs_of(node)->delalloc)
		return write_hole(node, NULL, block, end - block, iomap);
	return write_hole_now(node, block, end - block, iomap);
}

struct removal {
	struct ext4_inode *node;
	struct ext4_handle *handle; /* NULL: nothing real is removed */
	bool any;
};

static void free_extent(void *arg, const struct extent *extent)
{
	struct removal *removal = arg;
	struct ext4_inode *node = removal->node;
	struct ext4_fs *fs = ext4_fs_of(node);

	removal->any = true;
	if (extent->state == EXTENT_DELAYED) {
		assert(node->nr_delayed >= extent->len);
		node->nr_delayed -= extent->len;
		space_unreserve(fs, extent->len);
		return;
	}
	ext4_mballoc_free(&fs->mballoc, extent->start, extent->len);
	ext4_dirty_space(fs, removal->handle, extent->start, extent->len);
	space_free(fs, extent->len);
}

void ext4_discard_delayed(struct ext4_inode *node, uint64_t pos, uint64_t len)
{
	unsigned int shift = node->base.inode.i_blkbits;
	uint64_t start = pos >> shift;
	uint64_t end = (pos + len + node->base.inode.i_sb->s_blocksize - 1) >> shift;
	struct removal removal = {.node = node};

	env_rwsem_write_lock(&node->data_lock);
	/* Without memory to cut a record it keeps its promise, until the file is truncated. */
	(void)extent_map_remove(&node->map, start, end - start, true, free_extent, &removal);
	if (removal.any)
		map_changed(node);
	env_rwsem_write_unlock(&node->data_lock);
}

static void punch_delayed(struct inode *inode, uint64_t pos, uint64_t len, void *arg)
{
	(void)arg;
	ext4_discard_delayed(ext4_inode_from(inode), pos, len);
}

/* Give back what was promised by the begin and not written (D32..D37). */
static int write_end(struct inode *inode, uint64_t pos, uint64_t len, uint64_t written,
		     unsigned int flags, struct iomap *iomap)
{
	uint64_t mask = inode->i_sb->s_blocksize - 1;
	uint64_t start = written ? (pos + written + mask) & ~mask : pos & ~mask;
	uint64_t end = (pos + len + mask) & ~mask;
	bool is_locked = flags & (IOMAP_ZERO | IOMAP_UNSHARE);

	if (iomap->type != IOMAP_DELALLOC || !(iomap->flags & IOMAP_F_NEW) || (flags & IOMAP_FAULT))
		return 0;
	if (start >= end)
		return 0;
	if (!is_locked)
		env_rwsem_write_lock(&inode->i_mapping.invalidate_lock);
	iomap_write_delalloc_release(inode, start, end, punch_delayed, NULL);
	if (!is_locked)
		env_rwsem_write_unlock(&inode->i_mapping.invalidate_lock);
	return 0;
}

const struct iomap_ops ext4_read_ops = {
	.iomap_begin = read_begin,
};

const struct iomap_ops ext4_write_ops = {
	.iomap_begin = write_begin,
	.iomap_end = write_end,
};

const struct iomap_ops ext4_overwrite_ops = {
	.iomap_begin = overwrite_begin,
};

const struct iomap_write_ops ext4_folio_ops = {
	.iomap_valid = ext4_map_is_valid,
};

/* ---- written, truncated, preallocated --------------------------------------------------- */

static int try_map_written(struct ext4_inode *node, uint64_t pos, uint64_t len, bool unwritten)
{
	struct inode *inode = &node->base.inode;
	uint64_t start = pos >> inode->i_blkbits;
	uint64_t end = (pos + len + inode->i_sb->s_blocksize - 1) >> inode->i_blkbits;
	struct ext4_handle handle;
	uint64_t size;
	int err = 0;

	(void)ext4_handle_start(&ext4_fs_of(node)->journal, &handle, EXT4_CREDITS_STEP, inode,
				false);
	env_rwsem_write_lock(&node->data_lock);
	if (unwritten) {
		err = extent_map_convert(&node->map, start, end - start, EXTENT_NO_START,
					 EXTENT_NORM, NULL);
		if (!err) {
			map_changed(node);
			ext4_tree_changed(node, &handle, start);
			ext4_dirty_inode(node, &handle, true);
		}
	}
	size = min_u64(inode_size_read(inode), pos + len);
	if (!err && size > node->disk_size) {
		__atomic_store_n(&node->disk_size, size, __ATOMIC_RELEASE);
		ext4_dirty_inode(node, &handle, true);
	}
	env_rwsem_write_unlock(&node->data_lock);
	ext4_handle_stop(&handle);
	return err;
}

/* The folios are clean already, so nobody else would try a second time. */
int ext4_map_written(struct ext4_inode *node, uint64_t pos, uint64_t len, bool unwritten)
{
	int err;

	while ((err = try_map_written(node, pos, len, unwritten)) == -ENOMEM)
		env_sleep_ns(FS_ENOMEM_PAUSE_NS);
	return err;
}

void ext4_free_space(struct ext4_inode *node, struct ext4_handle *handle)
{
	struct removal removal = {.node = node, .handle = handle};
	struct extent extent;

	for (uint64_t at = 0; extent_map_find(&node->map, at, &extent); at = extent_end(&extent))
		free_extent(&removal, &extent);
	extent_map_destroy(&node->map);
	extent_map_init(&node->map, EXT4_MAX_WRITTEN, EXT4_MAX_UNWRITTEN);
	ext4_tree_cut(node, handle);
}

/* What [first, end) had is free.  => data_lock is held exclusively */
static int free_blocks(struct ext4_inode *node, struct ext4_handle *handle, uint64_t first,
		       uint64_t end)
{
	struct removal removal = {.node = node, .handle = handle};
	int err;

	ext4_prealloc_discard(&ext4_fs_of(node)->mballoc, &node->preallocs);
	if (first >= end)
		return 0;
	err = extent_map_remove(&node->map, first, end - first, false, free_extent, &removal);
	if (removal.any) {
		map_changed(node);
		ext4_tree_cut(node, handle);
		ext4_tree_changed(node, handle, first);
	}
	return err;
}

int ext4_truncate(struct fs_inode *base, uint64_t old_size, uint64_t size)
{
	struct ext4_inode *node = ext4_inode_from(&base->inode);
	uint64_t first = (size + base->inode.i_sb->s_blocksize - 1) >> base->inode.i_blkbits;
	struct ext4_handle handle;
	int err = 0;

	if (first > EXT4_MAX_BLOCKS)
		return -EFBIG;
	(void)ext4_handle_start(&ext4_fs_of(node)->journal, &handle, EXT4_CREDITS_FREE, NULL,
				false);
	env_rwsem_write_lock(&node->data_lock);
	if (size <= old_size)
		err = free_blocks(node, &handle, first, EXT4_MAX_BLOCKS);
	if (!err)
		__atomic_store_n(&node->disk_size, size, __ATOMIC_RELEASE);
	ext4_dirty_inode(node, &handle, true);
	env_rwsem_write_unlock(&node->data_lock);
	ext4_handle_stop(&handle);
	return err;
}

int ext4_punch(struct fs_inode *base, uint64_t pos, uint64_t len)
{
	struct ext4_inode *node = ext4_inode_from(&base->inode);
	unsigned int shift = base->inode.i_blkbits;
	uint64_t end = min_u64((pos + len) >> shift, EXT4_MAX_BLOCKS);
	struct ext4_handle handle;
	int err;

	(void)ext4_handle_start(&ext4_fs_of(node)->journal, &handle, EXT4_CREDITS_FREE, NULL,
				false);
	env_rwsem_write_lock(&node->data_lock);
	err = free_blocks(node, &handle, pos >> shift, end);
	if (!err)
		ext4_dirty_inode(node, &handle, true);
	env_rwsem_write_unlock(&node->data_lock);
	ext4_handle_stop(&handle);
	return err;
}

/* => data_lock is held */
static bool has_delayed_from(const struct ext4_inode *node, uint64_t pos)
{
	struct extent extent;

	for (uint64_t at = pos >> node->base.inode.i_blkbits;
	     extent_map_find(&node->map, at, &extent); at = extent_end(&extent))
		if (extent.state == EXTENT_DELAYED)
			return true;
	return false;
}

/* => data_lock is held exclusively; nothing from pos on is delayed */
static int move_blocks(struct ext4_inode *node, struct ext4_handle *handle, uint64_t pos,
		       uint64_t len, bool up)
{
	unsigned int shift = node->base.inode.i_blkbits;
	struct removal removal = {.node = node, .handle = handle};
	int err;

	ext4_prealloc_discard(&ext4_fs_of(node)->mballoc, &node->preallocs);
	if (up)
		err = extent_map_insert_hole(&node->map, pos >> shift, len >> shift);
	else
		err = extent_map_collapse(&node->map, pos >> shift, len >> shift, free_extent,
					  &removal);
	if (err)
		return err;
	map_changed(node);
	ext4_tree_cut(node, handle);
	ext4_tree_changed(node, handle, pos >> shift);
	return 0;
}

static int move_range(struct fs_inode *base, uint64_t pos, uint64_t len, uint64_t size, bool up)
{
	struct ext4_inode *node = ext4_inode_from(&base->inode);
	struct ext4_handle handle;
	int err;

	/* A promise that could not be given back for want of memory would not be moved. */
	ext4_discard_delayed(node, pos, EXT4_MAX_BLOCKS << base->inode.i_blkbits);
	(void)ext4_handle_start(&ext4_fs_of(node)->journal, &handle, EXT4_CREDITS_FREE, NULL,
				false);
	env_rwsem_write_lock(&node->data_lock);
	err = has_delayed_from(node, pos) ? -ENOMEM : move_blocks(node, &handle, pos, len, up);
	if (!err) {
		__atomic_store_n(&node->disk_size, size, __ATOMIC_RELEASE);
		ext4_dirty_inode(node, &handle, true);
	}
	env_rwsem_write_unlock(&node->data_lock);
	ext4_handle_stop(&handle);
	return err;
}

int ext4_insert(struct fs_inode *base, uint64_t pos, uint64_t len, uint64_t size)
{
	struct ext4_inode *node = ext4_inode_from(&base->inode);
	struct extent last;
	bool any;

	env_rwsem_read_lock(&node->data_lock);
	any = extent_map_last(&node->map, &last);
	env_rwsem_read_unlock(&node->data_lock);
	if (size > EXT4_MAX_BLOCKS << base->inode.i_blkbits ||
	    (any && extent_end(&last) + (len >> base->inode.i_blkbits) > EXT4_MAX_BLOCKS))
		return -EFBIG;
	return move_range(base, pos, len, size, true);
}

int ext4_collapse(struct fs_inode *base, uint64_t pos, uint64_t len, uint64_t size)
{
	return move_range(base, pos, len, size, false);
}

/* The front of what is missing in [*block, end); moves *block behind it. */
static int fallocate_step(struct ext4_inode *node, uint64_t *block, uint64_t end, bool no_normalise)
{
	struct ext4_handle handle;
	struct extent extent;
	bool found;
	int err = 0;

	(void)ext4_handle_start(&ext4_fs_of(node)->journal, &handle, EXT4_CREDITS_STEP, NULL,
				false);
	env_rwsem_write_lock(&node->data_lock);
	found = extent_map_find(&node->map, *block, &extent);
	if (!found || extent.file > *block) {
		if (found)
			end = min_u64(end, extent.file);
		err = allocate_hole(node, &handle, *block,
				    min_u64(end - *block, EXT4_MAX_UNWRITTEN), no_normalise,
				    &extent);
	}
	if (!err)
		*block = extent_end(&extent);
	env_rwsem_write_unlock(&node->data_lock);
	ext4_handle_stop(&handle);
	return err;
}

int ext4_fallocate(struct fs_inode *base, uint64_t pos, uint64_t len)
{
	struct ext4_inode *node = ext4_inode_from(&base->inode);
	uint64_t block = pos >> base->inode.i_blkbits;
	uint64_t end = (pos + len) >> base->inode.i_blkbits;
	/* What fits into one record is not to be cut by the chunks of EX10. */
	bool no_normalise = end - block <= EXT4_MAX_UNWRITTEN;
	int err = 0;

	if (end > EXT4_MAX_BLOCKS)
		return -EFBIG;
	err = touch(node, false);
	while (!err && block < end)
		err = fallocate_step(node, &block, end, no_normalise);
	return err;
}

void ext4_last_close(struct fs_inode *base)
{
	struct ext4_inode *node = ext4_inode_from(&base->inode);
	bool is_placed;

	ext4_set_flags(node, EXT4_CLOSED);
	env_rwsem_read_lock(&node->data_lock);
	is_placed = node->nr_delayed == 0;
	env_rwsem_read_unlock(&node->data_lock);
	if (is_placed)
		ext4_prealloc_discard(&ext4_fs_of(node)->mballoc, &node->preallocs);
}

int ext4_next_extent(struct fs_inode *base, uint64_t pos, struct fs_extent *extent)
{
	struct ext4_inode *node = ext4_inode_from(&base->inode);
	unsigned int shift = base->inode.i_blkbits;
	struct extent record;
	bool found;

	env_rwsem_read_lock(&node->data_lock);
	found = extent_map_find(&node->map, pos >> shift, &record);
	env_rwsem_read_unlock(&node->data_lock);
	if (!found)
		return -ENOENT;
	extent->pos = record.file << shift;
	extent->len = record.len << shift;
	extent->delayed = record.state == EXTENT_DELAYED;
	extent->unwritten = record.state == EXTENT_UNWRITTEN;
	extent->addr = extent->delayed ? 0 : record.start << shift;
	return 0;
}

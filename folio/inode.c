/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * inode.c - super block, inode, open file: set up, tear down, errors, fsync
 */
#include "folio/internal.h"

/* ---- super block -------------------------------------------------------------------- */

int super_init(struct super_block *sb, struct page_cache *cache, struct backing_dev *bdi,
	       uint32_t block_size, const struct super_operations *ops)
{
	uint64_t largest = 1ull << (cache->max_order + cache->page_shift);

	if (block_size < 512 || (block_size & (block_size - 1)) || block_size > largest)
		return -EINVAL;
	memset(sb, 0, sizeof(*sb));
	sb->s_op = ops;
	sb->s_cache = cache;
	sb->s_bdi = bdi;
	sb->s_blocksize = block_size;
	sb->s_blkbits = (uint8_t)__builtin_ctz(block_size);
	env_spin_init(&sb->s_wb_lock, "sb->s_wb_lock");
	env_mutex_init(&sb->s_sync_lock, "sb->s_sync_lock");
	env_waitq_init(&sb->s_inode_wait);
	list_init(&sb->s_wb_inodes);
	list_init(&sb->s_wb_waiting);
	env_mutex_lock(&bdi->resize_lock);
	list_add_tail(&sb->s_link, &bdi->sbs);
	env_mutex_unlock(&bdi->resize_lock);
	return 0;
}

/*
 * Ask the file system for its parallelism when it has its first inode: at super_init() it does
 * not know its own geometry yet (W8, W9).
 */
static void super_ask_parallelism(struct super_block *sb)
{
	const struct super_operations *ops = sb->s_op;
	unsigned int nr = ops->wb_parallelism ? ops->wb_parallelism(sb) : 1;

	env_mutex_lock(&sb->s_bdi->resize_lock);
	if (!sb->s_parallelism) {
		__atomic_store_n(&sb->s_parallelism, nr ? nr : 1, __ATOMIC_RELAXED);
		bdi_number_changed(sb->s_bdi);
	}
	env_mutex_unlock(&sb->s_bdi->resize_lock);
}

void super_shutdown(struct super_block *sb)
{
	assert(list_empty(&sb->s_wb_inodes));
	env_mutex_lock(&sb->s_bdi->resize_lock);
	list_del_init(&sb->s_link);
	bdi_number_changed(sb->s_bdi);
	env_mutex_unlock(&sb->s_bdi->resize_lock);
}

/* ---- inode -------------------------------------------------------------------------- */

void mapping_set_folio_order_range(struct address_space *mapping, unsigned int min,
				   unsigned int max)
{
	unsigned int largest = mapping->cache->max_order;

	min = min < largest ? min : largest;
	max = max < largest ? max : largest;
	mapping->min_order = (uint8_t)min;
	mapping->max_order = (uint8_t)(max > min ? max : min);
}

void inode_init(struct inode *inode, struct super_block *sb, uint64_t ino,
		const struct address_space_operations *a_ops)
{
	struct address_space *mapping = &inode->i_mapping;
	struct page_cache *cache = sb->s_cache;
	unsigned int min = 0;

	if (unlikely(!__atomic_load_n(&sb->s_parallelism, __ATOMIC_RELAXED)))
		super_ask_parallelism(sb);
	memset(inode, 0, sizeof(*inode));
	inode->i_sb = sb;
	inode->i_ino = ino;
	inode->i_blkbits = sb->s_blkbits;
	env_rwsem_init(&inode->i_rwsem, "i_rwsem");
	env_spin_init(&inode->i_lock, "i_lock");
	list_init(&inode->i_io_list);
	list_init(&inode->i_wb_link);
	mapping->host = inode;
	mapping->cache = cache;
	mapping->a_ops = a_ops;
	mapping->page_shift = (uint8_t)cache->page_shift;
	mapping->stable_writes = bdi_block_device(sb->s_bdi)->stable_writes;
	env_spin_init(&mapping->lock, "mapping->lock");
	env_rwsem_init(&mapping->invalidate_lock, "invalidate_lock");
	if (sb->s_blkbits > cache->page_shift)
		min = sb->s_blkbits - cache->page_shift; /* J11 */
	mapping_set_folio_order_range(mapping, min, cache->max_order);
}

void inode_evict(struct inode *inode)
{
	struct super_block *sb = inode->i_sb;
	struct wb_ctx *wb;

	/* No flusher finds it from here on, and the one that has it ends first. */
	env_mutex_lock(&inode->i_lock);
	__atomic_store_n(&inode->i_state, inode->i_state | I_FREEING, __ATOMIC_RELEASE);
	wb = inode->i_wb;
	env_mutex_unlock(&inode->i_lock);
	if (wb) {
		env_mutex_lock(&wb->list_lock);
		env_mutex_lock(&inode->i_lock);
		wb_list_unfile(wb, inode);
		env_mutex_unlock(&inode->i_lock);
		env_mutex_unlock(&wb->list_lock);
		env_wait_event(&sb->s_inode_wait,
			       !(__atomic_load_n(&inode->i_state, __ATOMIC_ACQUIRE) & I_SYNC));
		/* Who cleared it wakes us through the super block, and holds this until then. */
		env_mutex_lock(&wb->list_lock);
		env_mutex_unlock(&wb->list_lock);
	}
	filemap_truncate_range(&inode->i_mapping, 0, UINT64_MAX);
	env_wait_event(&sb->s_inode_wait, !__atomic_load_n(&inode->i_pins, __ATOMIC_ACQUIRE));
	/* The last user may still be on its way out of these. */
	env_mutex_lock(&sb->s_wb_lock);
	assert(list_empty(&inode->i_wb_link));
	env_mutex_unlock(&sb->s_wb_lock);
	env_mutex_lock(&inode->i_lock);
	env_mutex_lock(&inode->i_mapping.lock);
	assert(inode->i_mapping.nr_pages == 0);
	assert(inode->i_mapping.nr_dirty == 0);
	assert(inode->i_mapping.nr_writeback == 0);
	env_mutex_unlock(&inode->i_mapping.lock);
	env_mutex_unlock(&inode->i_lock);
}

/* ---- errors ------------------------------------------------------------------------- */

void mapping_set_error(struct address_space *mapping, int error)
{
	if (!error)
		return;
	errseq_set(&mapping->wb_err, error);
	errseq_set(&mapping->host->i_sb->s_wb_err, error);
	__atomic_fetch_or(&mapping->legacy_errors, error == -ENOSPC ? MAPPING_ENOSPC : MAPPING_EIO,
			  __ATOMIC_ACQ_REL);
}

int mapping_check_errors(struct address_space *mapping)
{
	uint32_t errors;

	if (!__atomic_load_n(&mapping->legacy_errors, __ATOMIC_ACQUIRE))
		return 0;
	errors = __atomic_exchange_n(&mapping->legacy_errors, 0, __ATOMIC_ACQ_REL);
	if (errors & MAPPING_EIO)
		return -EIO;
	return errors & MAPPING_ENOSPC ? -ENOSPC : 0;
}

/* ---- open file ---------------------------------------------------------------------- */

void file_init(struct file *file, struct inode *inode, unsigned int flags)
{
	struct address_space *mapping = &inode->i_mapping;

	memset(file, 0, sizeof(*file));
	file->f_inode = inode;
	file->f_flags = flags;
	env_mutex_init(&file->f_lock, "f_lock");
	file->f_wb_err = errseq_sample(&mapping->wb_err);
	file->f_ra.ra_pages = mapping->cache->config.readahead_bytes >> mapping->page_shift;
	file->f_ra.prev_index = UINT64_MAX;
}

void file_release(struct file *file)
{
	file->f_inode = NULL;
}

int file_check_and_advance_wb_err(struct file *file)
{
	struct address_space *mapping = &file->f_inode->i_mapping;
	int err = 0;

	if (__atomic_load_n(&mapping->wb_err, __ATOMIC_ACQUIRE) ==
	    __atomic_load_n(&file->f_wb_err, __ATOMIC_RELAXED))
		return 0;
	env_mutex_lock(&file->f_lock);
	err = errseq_check_and_advance(&mapping->wb_err, &file->f_wb_err);
	env_mutex_unlock(&file->f_lock);
	/* What a file was told needs no second telling by the internal check (K27). */
	if (err)
		mapping_check_errors(mapping);
	return err;
}

int file_fsync(struct file *file, uint64_t start, uint64_t end, bool datasync)
{
	struct inode *inode = file->f_inode;
	struct address_space *mapping = &inode->i_mapping;
	int err, err2;

	err = filemap_fdatawrite_range(mapping, start, end, WB_SYNC_ALL);
	if (err != -EIO)
		filemap_fdatawait_range(mapping, start, end);
	err2 = file_check_and_advance_wb_err(file);
	if (!err)
		err = err2;
	if (inode->i_sb->s_op->fsync) {
		err2 = inode->i_sb->s_op->fsync(inode, datasync);
		if (!err)
			err = err2;
	}
	return err;
}

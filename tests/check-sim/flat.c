/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * flat.c - the smallest file system: file number n lives in slot n, byte for byte
 *
 * A block of a slot is unwritten until its first write has completed, and again when the file
 * is cut before it.
 */
#include "check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <iomap/fsbackend.h>
#include <iomap/iomap.h>

#define SLOT	 (1 * MiB)
#define NR_SLOTS 64u

struct flat_file {
	struct file file;
	struct flat_inode *inode;
};

struct flat_inode {
	struct inode inode;
	char name[16]; /* "": unlinked */
	unsigned int nr_users;
	bool used;
	struct env_mutex lock; /* a leaf: what follows */
	unsigned char written[SLOT / 512]; /* by block */
	uint64_t seq; /* changes with it */
};

static struct {
	struct super_block sb;
	struct env_mutex lock; /* names and users */
	struct flat_inode inodes[NR_SLOTS];
	errseq_t seen;
} flat;

/* ---- iomap ---- */

static struct flat_inode *flat_of(const struct inode *inode)
{
	return container_of(inode, struct flat_inode, inode);
}

/* The blocks from `first` on that are alike. */
static uint64_t run_length(const struct flat_inode *inode, uint64_t first)
{
	uint64_t nr = SLOT / world.plan->block_size, end = first;

	while (end < nr && inode->written[end] == inode->written[first])
		end++;
	return end - first;
}

static int flat_begin(struct inode *host, uint64_t pos, uint64_t len, unsigned int flags,
		      struct iomap *map, struct iomap *srcmap)
{
	struct flat_inode *inode = flat_of(host);
	uint64_t unit = world.plan->block_size, first = pos / unit;

	(void)len, (void)srcmap;
	if (pos >= SLOT)
		return flags & IOMAP_WRITE ? -EFBIG : -EIO;
	env_mutex_lock(&inode->lock);
	map->type = inode->written[first] ? IOMAP_MAPPED : IOMAP_UNWRITTEN;
	map->offset = first * unit;
	map->length = run_length(inode, first) * unit;
	map->addr = host->i_ino * SLOT + map->offset;
	map->bdev = world.fault;
	map->validity_cookie = inode->seq;
	env_mutex_unlock(&inode->lock);
	return 0;
}

static bool flat_valid(struct inode *host, const struct iomap *map)
{
	struct flat_inode *inode = flat_of(host);
	bool valid;

	env_mutex_lock(&inode->lock);
	valid = map->validity_cookie == inode->seq;
	env_mutex_unlock(&inode->lock);
	return valid;
}

static const struct iomap_ops flat_ops = {.iomap_begin = flat_begin};
static const struct iomap_write_ops flat_write_ops = {.iomap_valid = flat_valid};

/* Blocks from the one that holds pos to the one before end. */
static void set_written(struct flat_inode *inode, uint64_t pos, uint64_t end, bool written)
{
	uint64_t unit = world.plan->block_size;

	env_mutex_lock(&inode->lock);
	for (uint64_t block = pos / unit; block * unit < end; block++)
		inode->written[block] = written;
	inode->seq++;
	env_mutex_unlock(&inode->lock);
}

/* ---- writeback ---- */

static ssize_t flat_writeback_range(struct iomap_writepage_ctx *wpc, struct folio *folio,
				    uint64_t pos, uint64_t len, uint64_t end_pos)
{
	int err = flat_begin(wpc->inode, pos, len, 0, &wpc->iomap, NULL);

	return err ? err : iomap_add_to_ioend(wpc, folio, pos, end_pos, len);
}

static void convert(struct wb_completion *work)
{
	struct iomap_ioend *ioend = container_of(work, struct iomap_ioend, io_work);

	set_written(flat_of(ioend->io_inode), ioend->io_offset, ioend->io_offset + ioend->io_size,
		    true);
	iomap_finish_ioend(ioend);
}

static void flat_ioend_done(struct iomap_ioend *ioend)
{
	if (ioend->io_error || !(ioend->io_flags & IOMAP_IOEND_UNWRITTEN)) {
		iomap_finish_ioend(ioend);
		return;
	}
	ioend->io_work.fn = convert;
	wb_queue_completion(ioend->io_inode, &ioend->io_work);
}

static int flat_writeback_submit(struct iomap_writepage_ctx *wpc, struct iomap_ioend *ioend,
				 int error)
{
	(void)wpc;
	return iomap_ioend_submit(ioend, error, flat_ioend_done);
}

static const struct iomap_writeback_ops flat_writeback_ops = {
	.writeback_range = flat_writeback_range,
	.writeback_submit = flat_writeback_submit,
};

static int flat_read_folio(struct file *file, struct folio *folio)
{
	(void)file;
	return iomap_read_folio(folio, &flat_ops);
}

static void flat_readahead(struct readahead_control *rac)
{
	iomap_readahead(rac, &flat_ops);
}

static int flat_writepages(struct address_space *mapping, struct writeback_control *wbc)
{
	struct iomap_writepage_ctx wpc = {
		.inode = mapping->host, .wbc = wbc, .ops = &flat_writeback_ops};

	return iomap_writepages(&wpc);
}

static const struct address_space_operations flat_aops = {
	.read_folio = flat_read_folio,
	.readahead = flat_readahead,
	.writepages = flat_writepages,
	.init_folio = iomap_init_folio,
	.release_folio = iomap_release_folio,
	.invalidate_folio = iomap_invalidate_folio,
	.is_partially_uptodate = iomap_is_partially_uptodate,
};

/* ---- size ---- */

/* What is between the end of the file and pos.  => i_rwsem is held alone */
static int zero_up_to(struct inode *inode, uint64_t pos)
{
	uint64_t size = inode_size_read(inode);
	int err;

	if (pos <= size)
		return 0;
	env_rwsem_write_lock(&inode->i_mapping.invalidate_lock);
	err = iomap_zero_range(inode, size, pos - size, NULL, &flat_ops, &flat_write_ops, NULL);
	env_rwsem_write_unlock(&inode->i_mapping.invalidate_lock);
	return err;
}

static int cut_to(struct inode *inode, uint64_t size)
{
	int err;

	env_rwsem_write_lock(&inode->i_mapping.invalidate_lock);
	err = iomap_truncate_page(inode, size, NULL, &flat_ops, &flat_write_ops, NULL);
	if (!err) {
		inode_size_write(inode, size);
		filemap_truncate(inode, size);
		set_written(flat_of(inode), size + world.plan->block_size - 1, SLOT, false);
	}
	env_rwsem_write_unlock(&inode->i_mapping.invalidate_lock);
	return err;
}

static int grow_to(struct inode *inode, uint64_t size)
{
	uint64_t old = inode_size_read(inode);
	int err = zero_up_to(inode, size);

	if (!err) {
		inode_size_write(inode, size);
		filemap_isize_extended(inode, old, size);
	}
	return err;
}

static int flat_truncate(struct file *file, uint64_t size)
{
	struct inode *inode = file->f_inode;
	int err;

	env_rwsem_write_lock(&inode->i_rwsem);
	if (size < inode_size_read(inode))
		err = cut_to(inode, size);
	else
		err = grow_to(inode, size);
	env_rwsem_write_unlock(&inode->i_rwsem);
	return err;
}

/* Every block has its place: there is nothing to give it, or to take. */
static int flat_fallocate(struct file *file, unsigned int mode, uint64_t pos, uint64_t len)
{
	struct inode *inode = file->f_inode;
	bool keep_size = mode & FS_FALLOC_KEEP_SIZE;
	int err = 0;

	if (mode & ~(unsigned int)FS_FALLOC_KEEP_SIZE)
		return -EOPNOTSUPP;
	env_rwsem_write_lock(&inode->i_rwsem);
	if (!keep_size && pos + len > inode_size_read(inode))
		err = grow_to(inode, pos + len);
	env_rwsem_write_unlock(&inode->i_rwsem);
	return err;
}

/* ---- bytes ---- */

static ssize_t write_locked(struct file *file, const void *memory, size_t len, uint64_t pos)
{
	struct kiocb iocb = {.ki_filp = file, .ki_pos = pos};
	struct iov_iter iter;

	iov_iter_init(&iter, memory, len);
	return iomap_file_buffered_write(&iocb, &iter, &flat_ops, &flat_write_ops, NULL);
}

/* -EAGAIN: it is not an overwrite. */
static ssize_t write_shared(struct file *file, const void *memory, size_t len, uint64_t pos)
{
	struct inode *inode = file->f_inode;
	ssize_t written = -EAGAIN;

	env_rwsem_read_lock(&inode->i_rwsem);
	if (pos + len <= inode_size_read(inode))
		written = write_locked(file, memory, len, pos);
	env_rwsem_read_unlock(&inode->i_rwsem);
	return written;
}

static ssize_t flat_write(struct file *file, const void *memory, size_t len, uint64_t pos)
{
	struct inode *inode = file->f_inode;
	ssize_t written = write_shared(file, memory, len, pos);

	if (written != -EAGAIN)
		return written;
	env_rwsem_write_lock(&inode->i_rwsem);
	written = zero_up_to(inode, pos);
	if (!written)
		written = write_locked(file, memory, len, pos);
	env_rwsem_write_unlock(&inode->i_rwsem);
	return written;
}

static ssize_t flat_read(struct file *file, void *memory, size_t len, uint64_t pos)
{
	struct kiocb iocb = {.ki_filp = file, .ki_pos = pos};
	struct iov_iter iter;

	iov_iter_init(&iter, memory, len);
	return filemap_read(&iocb, &iter);
}

/* ---- names ---- */

static struct flat_inode *find(const char *name)
{
	for (unsigned int i = 0; i < NR_SLOTS; i++)
		if (flat.inodes[i].used && strcmp(flat.inodes[i].name, name) == 0)
			return &flat.inodes[i];
	return NULL;
}

static struct flat_inode *create(const char *name)
{
	unsigned int i = 0;

	while (flat.inodes[i].used)
		i++;
	check(i < NR_SLOTS, "no slot is left");
	flat.inodes[i] = (struct flat_inode){.used = true};
	env_mutex_init(&flat.inodes[i].lock, "flat map");
	flat.inodes[i].nr_users = 1; /* the name */
	strcpy(flat.inodes[i].name, name);
	inode_init(&flat.inodes[i].inode, &flat.sb, i, &flat_aops);
	return &flat.inodes[i];
}

static void put(struct flat_inode *inode)
{
	bool last;

	env_mutex_lock(&flat.lock);
	last = --inode->nr_users == 0;
	env_mutex_unlock(&flat.lock);
	if (!last)
		return;
	inode_evict(&inode->inode);
	env_mutex_lock(&flat.lock);
	inode->used = false;
	env_mutex_unlock(&flat.lock);
}

static int flat_open(const char *name, struct file **file)
{
	struct flat_file *opened = calloc(1, sizeof(*opened));

	env_mutex_lock(&flat.lock);
	opened->inode = find(name);
	if (!opened->inode)
		opened->inode = create(name);
	opened->inode->nr_users++;
	env_mutex_unlock(&flat.lock);
	file_init(&opened->file, &opened->inode->inode, 0);
	*file = &opened->file;
	return 0;
}

static void flat_close(struct file *file)
{
	struct flat_file *opened = container_of(file, struct flat_file, file);

	file_release(file);
	put(opened->inode);
	free(opened);
}

static int flat_unlink(const char *name)
{
	struct flat_inode *inode;

	env_mutex_lock(&flat.lock);
	inode = find(name);
	if (inode)
		inode->name[0] = '\0';
	env_mutex_unlock(&flat.lock);
	if (!inode)
		return -ENOENT;
	put(inode);
	return 0;
}

/* ---- the whole ---- */

static int flat_mount(void)
{
	static const struct super_operations super_ops = {0};

	memset(&flat, 0, sizeof(flat));
	env_mutex_init(&flat.lock, "flat names");
	return super_init(&flat.sb, world.cache, world.bdi, world.plan->block_size, &super_ops);
}

static int flat_sync(void)
{
	return super_syncfs(&flat.sb, &flat.seen);
}

static int flat_unmount(void)
{
	int err = flat_sync();

	for (unsigned int i = 0; i < NR_SLOTS; i++)
		if (flat.inodes[i].used)
			put(&flat.inodes[i]);
	super_shutdown(&flat.sb);
	return err;
}

static uint64_t flat_reserved(void)
{
	return 0;
}

const struct fsys flat_fsys = {
	.mount = flat_mount,
	.unmount = flat_unmount,
	.open = flat_open,
	.close = flat_close,
	.unlink = flat_unlink,
	.write = flat_write,
	.read = flat_read,
	.truncate = flat_truncate,
	.fallocate = flat_fallocate,
	.sync = flat_sync,
	.reserved = flat_reserved,
};

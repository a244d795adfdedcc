/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * file.c - open files: write, read, truncate, sync
 *
 * Locks here are i_rwsem and below it invalidate_lock (L20).  A write over what is there shares
 * i_rwsem; one that makes the file longer has it alone (D1), and so has one that needs space,
 * and everything else that changes the size or the space.
 */
#include "base.h"
#include "internal.h"

#include <errno.h>

/* What fs_open() gives out. */
struct handle {
	struct file file;
	bool readonly; /* [I] */
};

static struct handle *handle_of(const struct file *file)
{
	return container_of(file, struct handle, file);
}

static const struct fs_backend *backend_of(const struct inode *inode)
{
	return fs_of(inode)->backend;
}

bool fs_is_readonly(const struct file *file)
{
	return handle_of(file)->readonly;
}

void fs_lock_alone(struct inode *inode)
{
	env_rwsem_write_lock(&inode->i_rwsem);
	env_rwsem_write_lock(&inode->i_mapping.invalidate_lock);
}

void fs_unlock_alone(struct inode *inode)
{
	env_rwsem_write_unlock(&inode->i_mapping.invalidate_lock);
	env_rwsem_write_unlock(&inode->i_rwsem);
}

/* ---- write ---------------------------------------------------------------------------------- */

static ssize_t write_locked(struct file *file, const struct iomap_ops *ops, const void *memory,
			    size_t len, uint64_t pos)
{
	const struct fs_backend *backend = backend_of(file->f_inode);
	struct kiocb iocb = {.ki_filp = file, .ki_pos = pos};
	struct iov_iter iter;

	iov_iter_init(&iter, memory, len);
	return iomap_file_buffered_write(&iocb, &iter, ops, backend->folio_ops, NULL);
}

/*
 * What stands between the end of the file and the write reads as zeroes (D2).
 * => i_rwsem is held exclusively
 */
static int zero_gap(struct inode *inode, uint64_t pos)
{
	const struct fs_backend *backend = backend_of(inode);
	uint64_t size = inode_size_read(inode);
	int err;

	if (pos <= size)
		return 0;
	env_rwsem_write_lock(&inode->i_mapping.invalidate_lock);
	err = iomap_zero_range(inode, size, pos - size, NULL, backend->write_ops,
			       backend->folio_ops, NULL);
	env_rwsem_write_unlock(&inode->i_mapping.invalidate_lock);
	return err;
}

static ssize_t write_alone(struct file *file, const void *memory, size_t len, uint64_t pos)
{
	struct inode *inode = file->f_inode;
	ssize_t n;

	env_rwsem_write_lock(&inode->i_rwsem);
	n = zero_gap(inode, pos);
	if (n == 0)
		n = write_locked(file, backend_of(inode)->write_ops, memory, len, pos);
	env_rwsem_write_unlock(&inode->i_rwsem);
	return n;
}

/* What is there already, up to the first hole; -EAGAIN if it starts with one, or would grow. */
static ssize_t write_shared(struct file *file, const void *memory, size_t len, uint64_t pos)
{
	struct inode *inode = file->f_inode;
	ssize_t n = -EAGAIN;

	if (pos + len > inode_size_read(inode))
		return -EAGAIN;
	env_rwsem_read_lock(&inode->i_rwsem);
	if (env_likely(pos + len <= inode_size_read(inode)))
		n = write_locked(file, backend_of(inode)->overwrite_ops, memory, len, pos);
	env_rwsem_read_unlock(&inode->i_rwsem);
	return n;
}

/* What write_shared() left: bytes of both, as long as there are any. */
static ssize_t write_rest(struct file *file, const char *memory, size_t len, uint64_t pos,
			  ssize_t shared)
{
	size_t done = shared > 0 ? (size_t)shared : 0;
	ssize_t n;

	if (shared < 0 && shared != -EAGAIN)
		return shared;
	n = write_alone(file, memory + done, len - done, pos + done);
	if (done == 0)
		return n;
	return n > 0 ? shared + n : shared;
}

/* D38 */
static ssize_t sync_written(struct file *file, uint64_t pos, ssize_t n)
{
	bool datasync = !(file->f_flags & FILE_SYNC);
	int err = file_fsync(file, pos, pos + (uint64_t)n - 1, datasync);

	return err ? err : n;
}

ssize_t fs_write(struct file *file, const void *memory, size_t len, uint64_t pos)
{
	ssize_t n;

	if (env_unlikely(handle_of(file)->readonly))
		return -EBADF;
	if (env_unlikely(len == 0))
		return 0;
	if (env_unlikely(pos >= FS_MAX_SIZE))
		return -EFBIG;
	if (env_unlikely(len > FS_MAX_SIZE - pos))
		len = FS_MAX_SIZE - pos;

	n = write_shared(file, memory, len, pos);
	if (env_unlikely(n != (ssize_t)len))
		n = write_rest(file, memory, len, pos, n);
	if (env_unlikely(file->f_flags & (FILE_SYNC | FILE_DSYNC)) && n > 0)
		return sync_written(file, pos, n);
	return n;
}

/* ---- read ----------------------------------------------------------------------------------- */

ssize_t fs_read(struct file *file, void *memory, size_t len, uint64_t pos)
{
	struct inode *inode = file->f_inode;
	struct kiocb iocb = {.ki_filp = file, .ki_pos = pos};
	struct iov_iter iter;
	ssize_t n;

	/* No file is longer, and a count has no more bits. */
	if (env_unlikely(len == 0 || pos >= FS_MAX_SIZE))
		return 0;
	if (env_unlikely(len > FS_MAX_SIZE - pos))
		len = FS_MAX_SIZE - pos;
	iov_iter_init(&iter, memory, len);
	env_rwsem_read_lock(&inode->i_rwsem);
	n = filemap_read(&iocb, &iter);
	env_rwsem_read_unlock(&inode->i_rwsem);
	return n;
}

/* ---- size and space ------------------------------------------------------------------------- */

/*
 * Cut the file (G8).  Once the tail of the new last block is zero there is no way back, so the
 * rest is done whatever fails, and the first error returned.
 * => fs_lock_alone()
 */
static int shrink(struct inode *inode, uint64_t size)
{
	const struct fs_backend *backend = backend_of(inode);
	uint64_t old = inode_size_read(inode);
	bool did_zero = false;
	int flush_err = 0;
	int err;

	err = iomap_truncate_page(inode, size, &did_zero, backend->write_ops, backend->folio_ops,
				  NULL);
	if (err)
		return err;
	inode_size_write(inode, size);
	filemap_truncate(inode, size);
	/* The old bytes behind the new end must not come back after a crash. */
	if (did_zero)
		flush_err = filemap_write_and_wait_range(
			&inode->i_mapping, size - size % inode->i_sb->s_blocksize, size - 1);
	err = backend->truncate(fs_inode_from(inode), old, size);
	return flush_err ? flush_err : err;
}

int fs_grow(struct inode *inode, uint64_t size)
{
	const struct fs_backend *backend = backend_of(inode);
	uint64_t old = inode_size_read(inode);
	int err;

	err = iomap_truncate_page(inode, old, NULL, backend->write_ops, backend->folio_ops, NULL);
	if (err)
		return err;
	inode_size_write(inode, size);
	filemap_isize_extended(inode, old, size);
	err = backend->truncate(fs_inode_from(inode), old, size);
	if (err)
		inode_size_write(inode, old);
	return err;
}

static int set_size(struct inode *inode, uint64_t size)
{
	uint64_t old = inode_size_read(inode);

	if (size < old)
		return shrink(inode, size);
	if (size > old)
		return fs_grow(inode, size);
	/* Space behind the end goes all the same. */
	return backend_of(inode)->truncate(fs_inode_from(inode), size, size);
}

int fs_truncate(struct file *file, uint64_t size)
{
	struct inode *inode = file->f_inode;
	int err;

	if (fs_is_readonly(file))
		return -EBADF;
	if (size > FS_MAX_SIZE)
		return -EFBIG;
	fs_lock_alone(inode);
	err = set_size(inode, size);
	fs_unlock_alone(inode);
	return err;
}

uint64_t fs_size(const struct file *file)
{
	return inode_size_read(file->f_inode);
}

struct inode *fs_inode_of(const struct file *file)
{
	return file->f_inode;
}

/* ---- sync, advice --------------------------------------------------------------------------- */

int fs_fsync(struct file *file, bool datasync)
{
	return file_fsync(file, 0, UINT64_MAX, datasync);
}

/* The last byte of the range; length 0 is to the end of the file, as in the system calls. */
static uint64_t range_last(uint64_t pos, uint64_t len)
{
	return len == 0 || len > UINT64_MAX - pos ? UINT64_MAX : pos + len - 1;
}

int fs_sync_range(struct file *file, uint64_t pos, uint64_t len, bool wait)
{
	struct address_space *mapping = &file->f_inode->i_mapping;
	uint64_t last = range_last(pos, len);
	int err;

	if (!wait)
		return filemap_fdatawrite_range(mapping, pos, last, WB_SYNC_NONE);
	err = filemap_fdatawrite_range(mapping, pos, last, WB_SYNC_ALL);
	if (err != -EIO) {
		int seen_err;

		filemap_fdatawait_range(mapping, pos, last);
		seen_err = file_check_and_advance_wb_err(file);
		if (!err)
			err = seen_err;
	}
	return err;
}

static void set_access_pattern(struct file *file, unsigned int pattern)
{
	unsigned int flags = file->f_flags & ~(unsigned int)(FILE_RANDOM | FILE_SEQUENTIAL);

	__atomic_store_n(&file->f_flags, flags | pattern, __ATOMIC_RELAXED);
}

int fs_advise(struct file *file, uint64_t pos, uint64_t len, enum fs_advice advice)
{
	switch (advice) {
	case FS_ADVICE_NORMAL:
		set_access_pattern(file, 0);
		return 0;
	case FS_ADVICE_RANDOM:
		set_access_pattern(file, FILE_RANDOM);
		return 0;
	case FS_ADVICE_SEQUENTIAL:
		set_access_pattern(file, FILE_SEQUENTIAL);
		return 0;
	case FS_ADVICE_DONTNEED:
		if (len == 0 || len > UINT64_MAX - pos)
			len = UINT64_MAX - pos;
		filemap_dontneed(&file->f_inode->i_mapping, pos, len);
		return 0;
	}
	return -EINVAL;
}

/* ---- open and close ------------------------------------------------------------------------- */

static unsigned int file_flags_from(unsigned int flags)
{
	return (flags & FS_OPEN_SYNC ? FILE_SYNC : 0u) | (flags & FS_OPEN_DSYNC ? FILE_DSYNC : 0u);
}

int fs_open(struct fs *fs, const char *path, unsigned int flags, struct file **file)
{
	struct fs_inode *inode;
	struct handle *handle;
	int err;

	if ((flags & FS_OPEN_READONLY) && (flags & FS_OPEN_TRUNCATE))
		return -EINVAL;
	handle = env_zalloc(sizeof(*handle));
	if (!handle)
		return -ENOMEM;
	err = fs_names_get(fs, path, flags, &inode);
	if (err) {
		env_free(handle);
		return err;
	}
	file_init(&handle->file, &inode->inode, file_flags_from(flags));
	handle->readonly = flags & FS_OPEN_READONLY;

	if (flags & FS_OPEN_TRUNCATE) {
		err = fs_truncate(&handle->file, 0);
		if (err) {
			fs_close(&handle->file);
			return err;
		}
	}
	*file = &handle->file;
	return 0;
}

int fs_close(struct file *file)
{
	struct fs_inode *inode = fs_inode_from(file->f_inode);

	file_release(file);
	env_free(handle_of(file));
	fs_names_put(inode);
	return 0;
}

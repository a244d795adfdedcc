/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * file.c - a host file or block device
 *
 * The file is open twice: for direct I/O where the host allows it, and for ordinary I/O.
 * A bio goes direct if it is made of whole host pages in aligned memory.  The two never
 * share a page then, unless the submitter lets requests overlap, and the host keeps its
 * cache and the disk in step.
 *
 * A bio that one system call does not finish (too many pieces, a short count, a signal) is
 * continued where the call stopped.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef IOV_MAX
#define IOV_MAX 1024
#endif

/* What direct I/O asks of a range and of memory: enough for any host. */
#define DIRECT_RANGE_ALIGN  4096
#define DIRECT_MEMORY_ALIGN 512

struct file_device {
	struct block_device bdev;
	struct bio_queue queue;
	int fd;
	int direct_fd; /* -1: the host does not allow it */
};

static struct file_device *file_of(struct block_device *bdev)
{
	return container_of(bdev, struct file_device, bdev);
}

/* ---- one request ---- */

/* The part of a bio that is still to be done. */
struct rest {
	uint64_t addr;
	uint64_t len;
	unsigned int vec; /* the first piece not yet done */
	size_t vec_off; /* bytes of it that are */
};

static void rest_advance(struct rest *rest, const struct bio *bio, size_t len)
{
	rest->addr += len;
	rest->len -= len;
	while (len > 0) {
		size_t left = bio->vecs[rest->vec].len - rest->vec_off;

		if (len < left) {
			rest->vec_off += len;
			return;
		}
		len -= left;
		rest->vec++;
		rest->vec_off = 0;
	}
}

static int rest_to_iov(const struct rest *rest, const struct bio *bio, struct iovec *iov)
{
	size_t off = rest->vec_off;
	int nr = 0;

	for (unsigned int i = rest->vec; i < bio->nr_vecs && nr < IOV_MAX; i++) {
		iov[nr].iov_base = (char *)bio->vecs[i].base + off;
		iov[nr].iov_len = bio->vecs[i].len - off;
		off = 0;
		nr++;
	}
	return nr;
}

static bool rest_can_go_direct(const struct rest *rest, const struct iovec *iov, int nr)
{
	if (rest->addr % DIRECT_RANGE_ALIGN || rest->len % DIRECT_RANGE_ALIGN)
		return false;
	for (int i = 0; i < nr; i++)
		if ((uintptr_t)iov[i].iov_base % DIRECT_MEMORY_ALIGN ||
		    iov[i].iov_len % DIRECT_MEMORY_ALIGN)
			return false;
	return true;
}

/* Bytes done, or a negative errno. */
static ssize_t transfer(int fd, enum bio_op op, const struct iovec *iov, int nr, uint64_t addr)
{
	ssize_t done;

	do {
		if (op == BIO_READ)
			done = preadv(fd, iov, nr, (off_t)addr);
		else
			done = pwritev(fd, iov, nr, (off_t)addr);
	} while (done < 0 && errno == EINTR);
	return done < 0 ? -errno : done;
}

/* Some of the rest, at least one byte. */
static ssize_t transfer_some(struct file_device *file, const struct bio *bio,
			     const struct rest *rest)
{
	struct iovec iov[IOV_MAX];
	int nr = rest_to_iov(rest, bio, iov);
	ssize_t done;

	if (file->direct_fd >= 0 && rest_can_go_direct(rest, iov, nr)) {
		done = transfer(file->direct_fd, bio->op, iov, nr, rest->addr);
		/* A host with stricter rules than ours. */
		if (done != -EINVAL)
			return done;
	}
	return transfer(file->fd, bio->op, iov, nr, rest->addr);
}

static int file_transfer(struct file_device *file, const struct bio *bio)
{
	struct rest rest = {.addr = bio->addr, .len = bio->len};

	while (rest.len > 0) {
		ssize_t done = transfer_some(file, bio, &rest);

		if (done < 0)
			return (int)done;
		/* Somebody has cut the file. */
		if (done == 0)
			return -EIO;
		rest_advance(&rest, bio, (size_t)done);
	}
	return 0;
}

static int file_flush(struct file_device *file)
{
	int ret;

	do {
		ret = fdatasync(file->fd);
	} while (ret < 0 && errno == EINTR);
	return ret < 0 ? -errno : 0;
}

static int file_serve(struct block_device *bdev, struct bio *bio)
{
	struct file_device *file = file_of(bdev);

	return bio->op == BIO_FLUSH ? file_flush(file) : file_transfer(file, bio);
}

static void file_submit(struct block_device *bdev, struct bio *bio)
{
	bio_queue_submit(&file_of(bdev)->queue, bio);
}

/* ---- life ---- */

static void file_close(struct file_device *file)
{
	if (file->direct_fd >= 0)
		close(file->direct_fd);
	close(file->fd);
}

static void file_destroy(struct block_device *bdev)
{
	struct file_device *file = file_of(bdev);

	bio_queue_stop(&file->queue);
	file_close(file);
	env_free(file);
}

static const struct blkdev_ops file_ops = {
	.submit = file_submit,
	.destroy = file_destroy,
};

static int grow_regular(int fd, uint64_t host_size, uint64_t size)
{
	if (host_size < size && ftruncate(fd, (off_t)size) < 0)
		return -errno;
	return 0;
}

static int check_host_device(int fd, uint64_t size)
{
	uint64_t host_size;

	if (ioctl(fd, BLKGETSIZE64, &host_size) < 0)
		return -errno;
	return host_size < size ? -EINVAL : 0;
}

/* See to it that the host's file has room for size bytes. */
static int make_room(int fd, uint64_t size)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (S_ISREG(st.st_mode))
		return grow_regular(fd, (uint64_t)st.st_size, size);
	if (S_ISBLK(st.st_mode))
		return check_host_device(fd, size);
	return -EINVAL;
}

static int file_open(struct file_device *file, const char *path, uint64_t size)
{
	int err;

	file->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (file->fd < 0)
		return -errno;
	err = make_room(file->fd, size);
	if (err) {
		close(file->fd);
		return err;
	}
	file->direct_fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
	return 0;
}

int blkdev_file_open(struct block_device **bdev, const char *path, uint64_t size,
		     unsigned int workers)
{
	struct file_device *file;
	int err;

	err = blkdev_check_size(size);
	if (err)
		return err;
	if (workers == 0)
		return -EINVAL;
	file = env_zalloc(sizeof(*file));
	if (!file)
		return -ENOMEM;
	blkdev_init(&file->bdev, &file_ops, "file", size);
	err = file_open(file, path, size);
	if (err)
		goto free_file;
	err = bio_queue_start(&file->queue, &file->bdev, file_serve, workers);
	if (err)
		goto close_file;

	*bdev = &file->bdev;
	return 0;

close_file:
	file_close(file);
free_file:
	env_free(file);
	return err;
}

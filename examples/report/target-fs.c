/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * target-fs.c - what fio's jobs call, done by a file system of the library
 *
 * Paths of the host become paths of that file system; relative ones start at its root.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs.h"

#define PATH_LEN 4096

/* Absolute, without empty parts, "." and "..". */
static int path_of(char *path, const char *given)
{
	size_t len = 0;

	while (*given) {
		size_t part = strcspn(given, "/");

		if (part == 2 && strncmp(given, "..", 2) == 0) {
			while (len > 0 && path[--len] != '/')
				;
		} else if (part > 0 && !(part == 1 && *given == '.')) {
			if (len + 1 + part >= PATH_LEN)
				return -ENAMETOOLONG;
			path[len++] = '/';
			memcpy(path + len, given, part);
			len += part;
		}
		given += part;
		given += *given == '/';
	}
	if (len == 0)
		path[len++] = '/';
	path[len] = '\0';
	return 0;
}

static int remember(struct fs_target *target, const char *path)
{
	char *copy = strdup(path);
	char **paths;

	env_mutex_lock(&target->lock);
	paths = realloc(target->paths, (target->nr_paths + 1) * sizeof(*paths));
	if (paths)
		target->paths = paths;
	if (paths && copy)
		paths[target->nr_paths++] = copy;
	env_mutex_unlock(&target->lock);
	if (paths && copy)
		return 0;
	free(copy);
	return -ENOMEM;
}

static unsigned int open_flags(unsigned int flags)
{
	unsigned int ours = 0;

	if (flags & FIO_OPEN_CREATE)
		ours |= FS_OPEN_CREATE;
	if (flags & FIO_OPEN_RDONLY)
		ours |= FS_OPEN_READONLY;
	if (flags & FIO_OPEN_SYNC)
		ours |= FS_OPEN_SYNC;
	if (flags & FIO_OPEN_DSYNC)
		ours |= FS_OPEN_DSYNC;
	if (flags & FIO_OPEN_TRUNC)
		ours |= FS_OPEN_TRUNCATE;
	return ours;
}

static int target_open(void *ctx, const char *given, unsigned int flags, void **handle)
{
	struct fs_target *target = ctx;
	char path[PATH_LEN];
	struct file *file;
	uint64_t size;
	bool is_new;
	bool is_dir;
	int err = path_of(path, given);

	if (err)
		return err;
	is_new = flags & FIO_OPEN_CREATE &&
		 fs_stat(target->rig->fs, path, &size, &is_dir) == -ENOENT;
	err = fs_open(target->rig->fs, path, open_flags(flags), &file);
	if (!err && is_new) {
		err = remember(target, path);
		if (err)
			(void)fs_close(file);
	}
	if (!err)
		*handle = file;
	return err;
}

static int target_close(void *ctx, void *handle)
{
	(void)ctx;
	return fs_close(handle);
}

static int target_unlink(void *ctx, const char *given)
{
	struct fs_target *target = ctx;
	char path[PATH_LEN];
	int err = path_of(path, given);

	return err ? err : fs_unlink(target->rig->fs, path);
}

static int target_stat(void *ctx, const char *given, uint64_t *size)
{
	struct fs_target *target = ctx;
	char path[PATH_LEN];
	bool is_dir;
	int err = path_of(path, given);

	return err ? err : fs_stat(target->rig->fs, path, size, &is_dir);
}

static int target_mkdir_p(void *ctx, const char *given)
{
	struct fs_target *target = ctx;
	char path[PATH_LEN];
	int err = path_of(path, given);

	if (err || strcmp(path, "/") == 0)
		return err;
	return fs_mkdir_parents(target->rig->fs, path);
}

static ssize_t target_pwrite(void *handle, const void *buf, size_t len, uint64_t pos)
{
	return fs_write(handle, buf, len, pos);
}

static ssize_t target_pread(void *handle, void *buf, size_t len, uint64_t pos)
{
	return fs_read(handle, buf, len, pos);
}

static int target_fsync(void *handle)
{
	return fs_fsync(handle, false);
}

static int target_fdatasync(void *handle)
{
	return fs_fsync(handle, true);
}

static int target_sync_file_range(void *handle, uint64_t pos, uint64_t len, unsigned int flags)
{
	return fs_sync_range(handle, pos, len,
			     flags & (FIO_RANGE_WAIT_BEFORE | FIO_RANGE_WAIT_AFTER));
}

static int target_fallocate(void *handle, unsigned int mode, uint64_t pos, uint64_t len)
{
	return fs_fallocate(handle, mode & FIO_ALLOC_KEEP_SIZE ? FS_FALLOC_KEEP_SIZE : 0, pos, len);
}

static int target_truncate(void *handle, uint64_t size)
{
	return fs_truncate(handle, size);
}

static int target_fadvise(void *handle, uint64_t pos, uint64_t len, enum fio_advice advice)
{
	switch (advice) {
	case FIO_ADVICE_RANDOM:
		return fs_advise(handle, pos, len, FS_ADVICE_RANDOM);
	case FIO_ADVICE_SEQUENTIAL:
		return fs_advise(handle, pos, len, FS_ADVICE_SEQUENTIAL);
	case FIO_ADVICE_DONTNEED:
		break;
	}
	return fs_advise(handle, pos, len, FS_ADVICE_DONTNEED);
}

/* What the jobs of the first run find is made; from here on it counts. */
static void target_setup_done(void *ctx, unsigned int run)
{
	struct fs_target *target = ctx;

	(void)run;
	if (!target->started)
		rig_start(target->rig);
	target->started = true;
}

const struct fio_target_ops fs_target_ops = {
	.open = target_open,
	.close = target_close,
	.unlink = target_unlink,
	.stat = target_stat,
	.mkdir_p = target_mkdir_p,
	.pwrite = target_pwrite,
	.pread = target_pread,
	.fsync = target_fsync,
	.fdatasync = target_fdatasync,
	.sync_file_range = target_sync_file_range,
	.fallocate = target_fallocate,
	.truncate = target_truncate,
	.fadvise = target_fadvise,
	.setup_done = target_setup_done,
};

void fs_target_init(struct fs_target *target, struct rig *rig)
{
	*target = (struct fs_target){.rig = rig};
	env_mutex_init(&target->lock, "report target");
}

void fs_target_destroy(struct fs_target *target)
{
	for (unsigned int i = 0; i < target->nr_paths; i++)
		free(target->paths[i]);
	free(target->paths);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fs.c - a whole file system: which there are, mount, sync, unmount
 */
#include "base.h"
#include "internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* CB1 */
#define BLOCK_SIZE_DEFAULT 4096u
#define BLOCK_SIZE_MIN	   512u
#define BLOCK_SIZE_MAX	   65536u

/* ---- what there is ---- */

static const struct fs_backend *backend_at(unsigned int i)
{
	unsigned int nr = 0;

	while (fs_backends[nr])
		nr++;
	return i < nr ? fs_backends[i] : NULL;
}

static const struct fs_backend *backend_find(const char *name)
{
	for (unsigned int i = 0; name && fs_backends[i]; i++)
		if (strcmp(fs_backends[i]->name, name) == 0)
			return fs_backends[i];
	return NULL;
}

const char *fs_backend_name(unsigned int i)
{
	const struct fs_backend *backend = backend_at(i);

	return backend ? backend->name : NULL;
}

const char *fs_backend_text(unsigned int i)
{
	const struct fs_backend *backend = backend_at(i);

	return backend ? backend->text : NULL;
}

const char *fs_backend_option(const char *type, unsigned int i, const char **value,
			      const char **text)
{
	const struct fs_backend *backend = backend_find(type);
	const struct fs_option *option = backend ? backend->options : NULL;

	if (!option)
		return NULL;
	while (i > 0 && option->name) {
		option++;
		i--;
	}
	if (option->name) {
		*value = option->value;
		*text = option->text;
	}
	return option->name;
}

/* ---- mount ---- */

static int refuse_type(const char *type, char *error, size_t error_size)
{
	char list[256] = "";
	size_t used = 0;

	for (unsigned int i = 0; fs_backends[i]; i++) {
		int n = snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "",
				 fs_backends[i]->name);

		if (n < 0 || (size_t)n >= sizeof(list) - used)
			break;
		used += (size_t)n;
	}
	snprintf(error, error_size, "no file system type '%s'; there are: %s", type ? type : "",
		 list);
	return -EINVAL;
}

static bool block_size_ok(uint32_t size)
{
	return size >= BLOCK_SIZE_MIN && size <= BLOCK_SIZE_MAX && (size & (size - 1)) == 0;
}

static int refuse_block_size(uint32_t size, char *error, size_t error_size)
{
	snprintf(error, error_size,
		 "block size %u: should be a power of two from %u to %u, "
		 "not above the largest folio of the cache",
		 size, BLOCK_SIZE_MIN, BLOCK_SIZE_MAX);
	return -EINVAL;
}

int fs_init(struct fs *fs, const struct fs_backend *backend, struct page_cache *cache,
	    struct backing_dev *bdi, struct block_device *dev, const struct fs_config *config,
	    const struct super_operations *ops, char *error, size_t error_size)
{
	uint32_t block_size = config->block_size ? config->block_size : BLOCK_SIZE_DEFAULT;
	int err;

	if (!block_size_ok(block_size))
		return refuse_block_size(block_size, error, error_size);
	if (dev->logical_block > block_size) {
		snprintf(error, error_size,
			 "block size %u: should be at least the device's block of %u", block_size,
			 dev->logical_block);
		return -EINVAL;
	}
	err = super_init(&fs->sb, cache, bdi, block_size, ops);
	if (err == -EINVAL)
		return refuse_block_size(block_size, error, error_size);
	if (err) {
		snprintf(error, error_size, "%s: no super block: %s", backend->name,
			 strerror(-err));
		return err;
	}
	fs->backend = backend;
	fs->bdev = dev;
	fs->sync_seen = 0;
	fs->root = NULL;
	env_mutex_init(&fs->sync_lock, "sync_lock");
	env_mutex_init(&fs->names_lock, "names_lock");
	return 0;
}

int fs_mount(struct fs **fs, struct page_cache *cache, struct backing_dev *bdi,
	     struct block_device *dev, const struct fs_config *config, char *error,
	     size_t error_size)
{
	const struct fs_backend *backend = backend_find(config->type);
	struct fs_config complete = *config;
	struct fs *mounted;
	int err;

	if (error_size > 0)
		error[0] = '\0';
	if (!backend)
		return refuse_type(config->type, error, error_size);
	err = fs_options_check(backend, config->options, error, error_size);
	if (err)
		return err;

	if (!complete.block_size)
		complete.block_size = BLOCK_SIZE_DEFAULT;
	if (!complete.nr_cpus)
		complete.nr_cpus = env_nr_cpus();
	err = backend->mount(&mounted, cache, bdi, dev, &complete, error, error_size);
	if (err)
		goto say_something;
	err = fs_names_start(mounted);
	if (err)
		goto unmount;

	if (error_size > 0)
		error[0] = '\0';
	*fs = mounted;
	return 0;

unmount:
	backend->unmount(mounted);
say_something:
	if (error_size > 0 && !error[0])
		snprintf(error, error_size, "%s: cannot mount: %s", backend->name, strerror(-err));
	return err;
}

int fs_unmount(struct fs *fs)
{
	const struct fs_backend *backend = fs->backend;
	int err = fs_sync(fs);

	fs_names_finish(fs);
	backend->unmount(fs);
	return err;
}

/* ---- a mounted one ---- */

int fs_sync(struct fs *fs)
{
	int err;

	env_mutex_lock(&fs->sync_lock);
	err = super_syncfs(&fs->sb, &fs->sync_seen);
	env_mutex_unlock(&fs->sync_lock);
	return err;
}

void fs_get_space(struct fs *fs, struct fs_space *space)
{
	fs->backend->get_space(fs, space);
}

unsigned int fs_parallelism(struct fs *fs)
{
	const struct super_operations *ops = fs->sb.s_op;

	return ops && ops->wb_parallelism ? ops->wb_parallelism(&fs->sb) : 1;
}

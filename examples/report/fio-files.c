/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fio-files.c - the files of a clone: names, sizes, and how they are made
 *
 * The sizes of all files are looked up before the first is made: two names for one file
 * both find it missing, and both make it, as in fio.
 */
#define _GNU_SOURCE /* strcasestr() */
#include "fio-clone.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* ---- names --------------------------------------------------------------- */

struct path {
	char *text;
	size_t len;
};

static void path_add(struct path *path, const char *text)
{
	size_t len = strlen(text);

	if (len > FIO_PATH_MAX - 1 - path->len)
		len = FIO_PATH_MAX - 1 - path->len;
	memcpy(path->text + path->len, text, len);
	path->len += len;
	path->text[path->len] = '\0';
}

static void path_add_number(struct path *path, uint64_t number)
{
	char digits[24];

	snprintf(digits, sizeof(digits), "%llu", (unsigned long long)number);
	path_add(path, digits);
}

/* filename_format with its keywords replaced, whatever their case. */
static void path_add_format(struct path *path, const struct fio_clone *clone, uint64_t nr)
{
	const char *format = clone->job->opt.filename_format;

	while (*format) {
		char one[2] = {*format, '\0'};

		if (strncasecmp(format, "$jobname", 8) == 0) {
			path_add(path, clone->job->name);
			format += 8;
		} else if (strncasecmp(format, "$jobnum", 7) == 0) {
			path_add_number(path, clone->index);
			format += 7;
		} else if (strncasecmp(format, "$filenum", 8) == 0) {
			path_add_number(path, nr);
			format += 8;
		} else if (strncasecmp(format, "$clientuid", 10) == 0) {
			path_add(path, "localhost");
			format += 10;
		} else {
			path_add(path, one);
			format++;
		}
	}
}

/* Clones take the folders in turn; with filename= all take the first. */
static const char *clone_folder(const struct fio_clone *clone)
{
	const struct fio_job *job = clone->job;

	if (!job->nr_directories)
		return NULL;
	return job->directories[job->filenames ? 0 : clone->index % job->nr_directories];
}

void fio_clone_path(const struct fio_clone *clone, uint64_t nr, char text[FIO_PATH_MAX])
{
	const char *folder = clone_folder(clone);
	struct path path = {.text = text};

	*text = '\0';
	if (folder && *folder) {
		path_add(&path, folder);
		if (text[path.len - 1] != '/')
			path_add(&path, "/");
	}
	if (clone->job->filenames)
		path_add(&path, clone->job->filenames[nr]);
	else
		path_add_format(&path, clone, nr);
}

int fio_clone_make_folders(struct fio_clone *clone)
{
	const struct fio_target *target = clone->runner->target;
	char last[FIO_PATH_MAX] = "";
	char path[FIO_PATH_MAX];
	int err;

	for (uint64_t i = 0; i < clone->job->opt.nrfiles; i++) {
		char *slash;

		fio_clone_path(clone, i, path);
		slash = strrchr(path, '/');
		if (!slash || slash == path)
			continue;
		*slash = '\0';
		if (strcmp(path, last) != 0) {
			err = target->ops->mkdir_p(target->ctx, path);
			if (err)
				return fio_clone_fail(clone, NULL, path, err);
			memcpy(last, path, sizeof(last));
		}
		/* The folder changes from file to file only if the name asks for it. */
		if (!clone->job->filenames &&
		    !strcasestr(clone->job->opt.filename_format, "$filenum"))
			break;
	}
	return 0;
}

/* ---- errors -------------------------------------------------------------- */

static const char *errno_name(int err)
{
	static const struct {
		int err;
		const char *name;
	} names[] = {
		{EIO, "EIO"},
		{ENOSPC, "ENOSPC"},
		{ENOMEM, "ENOMEM"},
		{ENOENT, "ENOENT"},
		{EEXIST, "EEXIST"},
		{EINVAL, "EINVAL"},
		{EFBIG, "EFBIG"},
		{EROFS, "EROFS"},
		{EACCES, "EACCES"},
		{ENOTDIR, "ENOTDIR"},
		{EISDIR, "EISDIR"},
		{ENOTSUP, "EOPNOTSUPP"},
		{ENOSYS, "ENOSYS"},
		{EDQUOT, "EDQUOT"},
		{ENAMETOOLONG, "ENAMETOOLONG"},
		{EILSEQ, "EILSEQ"},
		{EMFILE, "EMFILE"},
		{EINTR, "EINTR"},
		{EBADF, "EBADF"},
		{EPERM, "EPERM"},
		{EAGAIN, "EAGAIN"},
		{EOVERFLOW, "EOVERFLOW"},
		{EUCLEAN, "EUCLEAN"},
		{EBUSY, "EBUSY"},
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].err == err)
			return names[i].name;
	return NULL;
}

int fio_clone_fail(struct fio_clone *clone, const struct fio_file *file, const char *what, int err)
{
	char path[FIO_PATH_MAX] = "";
	const char *name = errno_name(-err);
	char number[24];

	if (clone->err)
		return err;
	clone->err = err;
	clone->counters.errors = 1;
	if (file)
		fio_clone_path(clone, (uint64_t)(file - clone->files), path);
	if (!name) {
		snprintf(number, sizeof(number), "errno %d", -err);
		name = number;
	}
	snprintf(clone->error, sizeof(clone->error), "job '%.60s': %.90s%s%.90s: %s",
		 clone->job->name, path, file ? ": " : "", what, name);
	return err;
}

/* An error of the job's own settings, found only now that the files are known. */
static int refuse(struct fio_clone *clone, const struct fio_file *file, const char *why)
{
	return fio_clone_fail(clone, file, why, -EINVAL);
}

/* ---- sizes --------------------------------------------------------------- */

uint64_t fio_job_smallest_block(const struct fio_options *opt)
{
	uint64_t smallest = opt->reads ? opt->bs[FIO_READ].min : UINT64_MAX;

	return opt->writes && opt->bs[FIO_WRITE].min < smallest ? opt->bs[FIO_WRITE].min : smallest;
}

uint64_t fio_job_largest_block(const struct fio_options *opt)
{
	uint64_t largest = opt->reads ? opt->bs[FIO_READ].max : 0;

	return opt->writes && opt->bs[FIO_WRITE].max > largest ? opt->bs[FIO_WRITE].max : largest;
}

uint64_t fio_scale_bytes(const struct fio_scale *scale, uint64_t bytes, uint64_t block)
{
	unsigned __int128 scaled = bytes;

	if (!scale || scale->den == 0 || scale->num == scale->den)
		return bytes;
	scaled = scaled * scale->num / scale->den;
	if (scaled > INT64_MAX)
		return INT64_MAX;
	if (bytes % block == 0)
		scaled -= scaled % block;
	if (scaled < block && bytes >= block)
		return block;
	return (uint64_t)scaled;
}

static uint64_t clone_scaled(const struct fio_clone *clone, uint64_t bytes)
{
	return fio_scale_bytes(&clone->runner->how->scale, bytes, clone->unit);
}

static uint64_t percent_of(uint64_t percent, uint64_t bytes)
{
	return (uint64_t)((unsigned __int128)bytes * percent / 100);
}

/* An offset option: bytes under the scale, or a part of the file. */
static uint64_t amount_of(const struct fio_clone *clone, const struct fio_amount *amount,
			  uint64_t file_size)
{
	return amount->is_percent ? percent_of(amount->value, file_size)
				  : clone_scaled(clone, amount->value);
}

static uint64_t file_offset(const struct fio_clone *clone, const struct fio_file *file)
{
	const struct fio_options *opt = &clone->job->opt;
	uint64_t offset;

	if (opt->file_append)
		return file->old_size;
	offset = amount_of(clone, &opt->offset, file->old_size) +
		 amount_of(clone, &opt->offset_increment, file->old_size) * clone->index;
	if (opt->offset_align > 1)
		offset = (offset + opt->offset_align - 1) / opt->offset_align * opt->offset_align;
	return offset;
}

/* One size serves as it is; out of a range a whole number of blocks is drawn. */
static uint64_t draw_filesize(struct fio_clone *clone, const struct fio_file *file)
{
	const struct fio_span *range = &clone->job->opt.filesize;
	uint64_t low = clone_scaled(clone, range->min);
	uint64_t high = clone_scaled(clone, range->max);
	uint64_t size;

	if (low == high)
		return low;
	if (file->old_size >= low && file->old_size <= high)
		return file->old_size;
	size = low + env_rng_below(&clone->file_rng, high - low + 1);
	return size - size % clone->unit;
}

/* size= divided over the files; a remainder of whole blocks goes to the first ones. */
static uint64_t share_of_size(const struct fio_clone *clone, uint64_t size, uint64_t nr)
{
	uint64_t share = size / clone->nr_files;
	uint64_t blocks = size % clone->nr_files / clone->unit;

	return share + (nr < blocks ? clone->unit : 0);
}

static int look_at_files(struct fio_clone *clone, uint64_t *total)
{
	const struct fio_target *target = clone->runner->target;
	char path[FIO_PATH_MAX];

	*total = 0;
	for (uint64_t i = 0; i < clone->nr_files; i++) {
		struct fio_file *file = &clone->files[i];
		int err;

		fio_clone_path(clone, i, path);
		err = target->ops->stat(target->ctx, path, &file->old_size);
		if (err && err != -ENOENT)
			return fio_clone_fail(clone, file, "stat", err);
		file->missing = err;
		if (err)
			file->old_size = 0;
		*total += file->old_size;
		if (clone->job->opt.verify)
			for (const char *c = path; *c; c++)
				file->path_hash =
					(file->path_hash ^ (unsigned char)*c) * 0x100000001b3ULL;
	}
	return 0;
}

/* The bytes that size= asks for, 0 if it is not given. */
static int wanted_size(struct fio_clone *clone, uint64_t total, uint64_t *size)
{
	const struct fio_amount *amount = &clone->job->opt.size;

	*size = amount->is_percent ? percent_of(amount->value, total)
				   : clone_scaled(clone, amount->value);
	if (amount->is_percent && *size == 0)
		return refuse(clone, &clone->files[0],
			      "size= in percent needs a file that is there; give size= in bytes");
	return 0;
}

/* Which part of the file the job works on, and how long the file must be for it. */
static int settle_file(struct fio_clone *clone, struct fio_file *file, uint64_t size)
{
	const struct fio_options *opt = &clone->job->opt;
	uint64_t end;

	file->offset = file_offset(clone, file);
	if (opt->filesize.max) {
		end = draw_filesize(clone, file);
		file->io_size = end > file->offset ? end - file->offset : 0;
	} else if (size) {
		file->io_size = share_of_size(clone, size, (uint64_t)(file - clone->files));
	} else if (file->old_size > file->offset) {
		file->io_size = file->old_size - file->offset;
	} else {
		return refuse(clone, file, "no size= and no such file with data; give size=");
	}
	if (__builtin_add_overflow(file->offset, file->io_size, &end) || end > INT64_MAX)
		return refuse(clone, file, "offset= and size= end beyond what a file can have");
	file->real_size = end > file->old_size ? end : file->old_size;
	file->short_of_size = file->old_size < end;
	if (file->missing && !opt->allow_file_create)
		return fio_clone_fail(clone, file, "allow_file_create=0", -ENOENT);
	return 0;
}

static void settle_limits(struct fio_clone *clone, uint64_t size, uint64_t total)
{
	const struct fio_options *opt = &clone->job->opt;
	uint64_t once;

	clone->amount = size && size < total ? size : total;
	once = clone->amount;
	if (opt->io_size.value)
		once = opt->io_size.is_percent ? percent_of(opt->io_size.value, clone->amount)
					       : clone_scaled(clone, opt->io_size.value);
	if (__builtin_mul_overflow(once, opt->loops, &clone->limit))
		clone->limit = UINT64_MAX;
	clone->ios_limit = UINT64_MAX;
	if (opt->number_ios &&
	    __builtin_mul_overflow(opt->number_ios, opt->loops, &clone->ios_limit))
		clone->ios_limit = UINT64_MAX;
}

static int settle_sizes(struct fio_clone *clone)
{
	uint64_t total;
	uint64_t size;
	int err;

	err = look_at_files(clone, &total);
	if (!err)
		err = wanted_size(clone, total, &size);
	if (err)
		return err;
	total = 0;
	for (uint64_t i = 0; i < clone->nr_files; i++) {
		err = settle_file(clone, &clone->files[i], size);
		if (err)
			return err;
		total += clone->files[i].io_size;
	}
	settle_limits(clone, size, total);
	return 0;
}

/* ---- making files -------------------------------------------------------- */

int fio_clone_need_buf(struct fio_clone *clone)
{
	uint64_t longest = 0;
	struct env_rng rng;

	if (clone->buf)
		return 0;
	for (uint64_t i = 0; i < clone->nr_files; i++)
		if (clone->files[i].real_size > longest)
			longest = clone->files[i].real_size;
	if (fio_job_largest_block(&clone->job->opt) < longest)
		longest = fio_job_largest_block(&clone->job->opt);
	clone->buf_size = (longest + 7) / 8 * 8 + 8;
	clone->buf = env_alloc(clone->buf_size);
	if (clone->buf && clone->job->opt.verify)
		clone->check_buf = env_alloc(clone->buf_size);
	if (!clone->buf || (clone->job->opt.verify && !clone->check_buf))
		return fio_clone_fail(clone, NULL, "buffer", -ENOMEM);
	env_rng_seed(&rng, clone->number + 1);
	for (size_t i = 0; i < clone->buf_size; i += 8) {
		uint64_t word = env_rng_u64(&rng);

		memcpy(clone->buf + i, &word, 8);
	}
	return 0;
}

unsigned int fio_clone_open_flags(const struct fio_clone *clone)
{
	const struct fio_options *opt = &clone->job->opt;
	unsigned int flags = 0;

	if (opt->allow_file_create)
		flags |= FIO_OPEN_CREATE;
	if (!opt->writes)
		flags |= FIO_OPEN_RDONLY;
	if (opt->direct)
		flags |= FIO_OPEN_DIRECT;
	if (opt->sync == FIO_SYNC_SYNC)
		flags |= FIO_OPEN_SYNC;
	if (opt->sync == FIO_SYNC_DSYNC)
		flags |= FIO_OPEN_DSYNC;
	if (opt->truncate_on_open)
		flags |= FIO_OPEN_TRUNC;
	return flags;
}

static int preallocate(struct fio_clone *clone, struct fio_file *file, void *handle)
{
	const struct fio_target_ops *ops = clone->runner->target->ops;
	int err = 0;

	switch (clone->job->opt.fallocate) {
	case FIO_FALLOCATE_NONE:
		return 0;
	case FIO_FALLOCATE_ALLOCATE:
		err = ops->fallocate(handle, 0, 0, file->real_size);
		break;
	case FIO_FALLOCATE_KEEP:
		err = ops->fallocate(handle, FIO_ALLOC_KEEP_SIZE, 0, file->real_size);
		break;
	case FIO_FALLOCATE_TRUNCATE:
		err = ops->truncate(handle, file->real_size);
		break;
	}
	/* fio goes on without where preallocation is not supported. */
	return err == -ENOTSUP ? 0 : err;
}

/* Write the whole file in blocks of the largest size that the job writes. */
static int write_out(struct fio_clone *clone, struct fio_file *file, void *handle)
{
	const struct fio_target_ops *ops = clone->runner->target->ops;
	uint64_t block = clone->job->opt.bs[FIO_WRITE].max;
	uint64_t pos = 0;
	int err = fio_clone_need_buf(clone);

	if (block > clone->buf_size)
		block = clone->buf_size;
	while (!err && pos < file->real_size) {
		uint64_t len = file->real_size - pos;
		ssize_t ret;

		if (len > block)
			len = block;
		ret = ops->pwrite(handle, clone->buf, len, pos);
		if (ret <= 0) {
			err = ret ? (int)ret : -EIO;
			break;
		}
		pos += (uint64_t)ret;
		clone->counters.layout_bytes += (uint64_t)ret;
		if (__atomic_load_n(&clone->runner->progress->stop, __ATOMIC_RELAXED))
			err = -EINTR;
	}
	return err;
}

static int fill(struct fio_clone *clone, struct fio_file *file, void *handle, bool whole)
{
	const struct fio_target_ops *ops = clone->runner->target->ops;
	int err = preallocate(clone, file, handle);

	if (!err && whole)
		err = ops->truncate(handle, file->real_size);
	if (!err && whole)
		err = write_out(clone, file, handle);
	if (!err && whole && clone->job->opt.create_fsync)
		err = ops->fsync(handle);
	if (!err)
		err = ops->fadvise(handle, 0, file->real_size, FIO_ADVICE_DONTNEED);
	return err;
}

/*
 * A job that reads, or overwrites, needs data in its files.  One that only writes starts
 * with a new file that has none, but may have room.
 */
static int make_file(struct fio_clone *clone, struct fio_file *file)
{
	const struct fio_options *opt = &clone->job->opt;
	const struct fio_target *target = clone->runner->target;
	bool whole = opt->reads || (opt->overwrite && !opt->file_append);
	char path[FIO_PATH_MAX];
	void *handle;
	int close_err;
	int err;

	fio_clone_path(clone, (uint64_t)(file - clone->files), path);
	if (whole || !opt->file_append) {
		err = target->ops->unlink(target->ctx, path);
		if (err && err != -ENOENT)
			return fio_clone_fail(clone, file, "unlink", err);
	}
	err = target->ops->open(target->ctx, path, FIO_OPEN_CREATE | (whole ? FIO_OPEN_TRUNC : 0),
				&handle);
	if (err)
		return fio_clone_fail(clone, file, "create", err);
	err = fill(clone, file, handle, whole);
	close_err = target->ops->close(target->ctx, handle);
	if (!err)
		err = close_err;
	return err ? fio_clone_fail(clone, file, "lay out", err) : 0;
}

int fio_clone_setup(struct fio_clone *clone)
{
	int err;

	clone->nr_files = clone->job->opt.nrfiles;
	clone->files = env_zalloc(clone->nr_files * sizeof(*clone->files));
	if (!clone->files)
		return fio_clone_fail(clone, NULL, "list of files", -ENOMEM);
	err = settle_sizes(clone);
	for (uint64_t i = 0; i < clone->nr_files && !err; i++)
		if (clone->files[i].short_of_size && !clone->job->opt.create_on_open)
			err = make_file(clone, &clone->files[i]);
	return err;
}

static int pre_read_file(struct fio_clone *clone, struct fio_file *file, void *handle)
{
	uint64_t block = clone->job->opt.bs[FIO_READ].max;
	uint64_t end = file->offset + file->io_size;
	uint64_t pos = file->offset;

	if (block > clone->buf_size)
		block = clone->buf_size;
	while (pos < end) {
		ssize_t ret = clone->runner->target->ops->pread(
			handle, clone->buf, end - pos < block ? end - pos : block, pos);

		if (ret < 0)
			return (int)ret;
		if (ret == 0)
			break;
		pos += (uint64_t)ret;
	}
	return 0;
}

int fio_clone_pre_read(struct fio_clone *clone)
{
	const struct fio_target *target = clone->runner->target;
	char path[FIO_PATH_MAX];
	int err = fio_clone_need_buf(clone);

	for (uint64_t i = 0; i < clone->nr_files && !err; i++) {
		struct fio_file *file = &clone->files[i];
		void *handle;

		fio_clone_path(clone, i, path);
		err = target->ops->open(target->ctx, path, fio_clone_open_flags(clone), &handle);
		if (err)
			return fio_clone_fail(clone, file, "open", err);
		err = pre_read_file(clone, file, handle);
		target->ops->close(target->ctx, handle);
		if (err)
			fio_clone_fail(clone, file, "pre_read", err);
	}
	return err;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_fio_run.c - what the jobs of fio do to their files, call by call
 *
 * The target keeps its files in memory and records each call.  The oracles are what
 * fio 3.33 itself did for the same job files.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <iomap/env.h>

#include "examples/report/fio-run.h"

#ifndef IOMAP_TEST_DATA
#define IOMAP_TEST_DATA "tests"
#endif

/* ---- a target in memory -------------------------------------------------- */

#define FILES_MAX 4096

struct memory_file {
	struct recorder *recorder;
	char *path;
	unsigned char *data;
	uint64_t size;
	bool exists;
	unsigned int nr_writers; /* pwrite calls that are under way */
};

struct recorder {
	struct env_mutex lock;
	struct memory_file file[FILES_MAX];
	unsigned int nr_files;
	char **line;
	size_t nr_lines;
	bool quiet; /* record nothing and keep no data */
	int fail_writes; /* pwrite number that fails, counted down; 0: none */
	int fail_err;
	unsigned int corrupt_after; /* pwrite number whose data is spoiled */
	uint64_t calls;
};

static void record(struct recorder *recorder, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void record(struct recorder *recorder, const char *format, ...)
{
	char line[512];
	va_list args;

	if (recorder->quiet)
		return;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	recorder->line = realloc(recorder->line, (recorder->nr_lines + 1) * sizeof(char *));
	recorder->line[recorder->nr_lines++] = strdup(line);
}

static const char *short_name(const char *path)
{
	return strncmp(path, "d/", 2) == 0 ? path + 2 : path;
}

static struct memory_file *find(struct recorder *recorder, const char *path)
{
	struct memory_file *file;

	for (unsigned int i = 0; i < recorder->nr_files; i++)
		if (strcmp(recorder->file[i].path, path) == 0)
			return &recorder->file[i];
	cr_assert_lt(recorder->nr_files, FILES_MAX);
	file = &recorder->file[recorder->nr_files++];
	file->recorder = recorder;
	file->path = strdup(path);
	return file;
}

static void resize(struct memory_file *file, uint64_t size)
{
	if (!file->recorder->quiet) {
		file->data = realloc(file->data, size + 1);
		if (size > file->size)
			memset(file->data + file->size, 0, size - file->size);
	}
	file->size = size;
}

static int rec_open(void *ctx, const char *path, unsigned int flags, void **handle)
{
	struct recorder *recorder = ctx;
	struct memory_file *file;
	int err = 0;

	env_mutex_lock(&recorder->lock);
	file = find(recorder, path);
	record(recorder, "open %s%s%s%s", short_name(path),
	       flags & FIO_OPEN_RDONLY ? " rdonly" : "", flags & FIO_OPEN_DSYNC ? " dsync" : "",
	       flags & FIO_OPEN_SYNC ? " sync" : "");
	if (!file->exists && !(flags & FIO_OPEN_CREATE))
		err = -ENOENT;
	if (!err && flags & FIO_OPEN_TRUNC)
		resize(file, 0);
	file->exists |= !err;
	*handle = file;
	env_mutex_unlock(&recorder->lock);
	return err;
}

static int rec_close(void *ctx, void *handle)
{
	struct recorder *recorder = ctx;
	struct memory_file *file = handle;

	env_mutex_lock(&recorder->lock);
	record(recorder, "close %s", short_name(file->path));
	env_mutex_unlock(&recorder->lock);
	return 0;
}

static int rec_unlink(void *ctx, const char *path)
{
	struct recorder *recorder = ctx;
	struct memory_file *file;
	bool existed;

	env_mutex_lock(&recorder->lock);
	file = find(recorder, path);
	existed = file->exists;
	if (existed)
		record(recorder, "unlink %s", short_name(path));
	file->exists = false;
	resize(file, 0);
	env_mutex_unlock(&recorder->lock);
	return existed ? 0 : -ENOENT;
}

static int rec_stat(void *ctx, const char *path, uint64_t *size)
{
	struct recorder *recorder = ctx;
	struct memory_file *file;
	int err;

	env_mutex_lock(&recorder->lock);
	file = find(recorder, path);
	*size = file->size;
	err = file->exists ? 0 : -ENOENT;
	env_mutex_unlock(&recorder->lock);
	return err;
}

static int rec_mkdir_p(void *ctx, const char *path)
{
	(void)ctx;
	(void)path;
	return 0;
}

static ssize_t rec_pwrite(void *handle, const void *buf, size_t len, uint64_t pos)
{
	struct memory_file *file = handle;
	struct recorder *recorder = file->recorder;
	ssize_t ret = (ssize_t)len;

	env_mutex_lock(&recorder->lock);
	recorder->calls++;
	record(recorder, "write %s %llu %zu", short_name(file->path), (unsigned long long)pos, len);
	if (recorder->fail_writes && --recorder->fail_writes == 0)
		ret = recorder->fail_err;
	if (ret > 0 && pos + len > file->size)
		resize(file, pos + len);
	if (ret > 0 && !recorder->quiet)
		memcpy(file->data + pos, buf, len);
	if (recorder->corrupt_after && --recorder->corrupt_after == 0)
		file->data[pos + len / 2] ^= 1;
	env_mutex_unlock(&recorder->lock);
	return ret;
}

static ssize_t rec_pread(void *handle, void *buf, size_t len, uint64_t pos)
{
	struct memory_file *file = handle;
	struct recorder *recorder = file->recorder;

	env_mutex_lock(&recorder->lock);
	record(recorder, "read %s %llu %zu", short_name(file->path), (unsigned long long)pos, len);
	if (pos >= file->size)
		len = 0;
	else if (len > file->size - pos)
		len = file->size - pos;
	if (!recorder->quiet)
		memcpy(buf, file->data + pos, len);
	env_mutex_unlock(&recorder->lock);
	return (ssize_t)len;
}

static int rec_note(void *handle, const char *what)
{
	struct memory_file *file = handle;

	env_mutex_lock(&file->recorder->lock);
	record(file->recorder, "%s %s", what, short_name(file->path));
	env_mutex_unlock(&file->recorder->lock);
	return 0;
}

static int rec_fsync(void *handle)
{
	return rec_note(handle, "fsync");
}

static int rec_fdatasync(void *handle)
{
	return rec_note(handle, "fdatasync");
}

static int rec_sync_file_range(void *handle, uint64_t pos, uint64_t len, unsigned int flags)
{
	struct memory_file *file = handle;

	env_mutex_lock(&file->recorder->lock);
	record(file->recorder, "sync_file_range %s %llu, %llu, %s", short_name(file->path),
	       (unsigned long long)pos, (unsigned long long)len,
	       flags == FIO_RANGE_WRITE ? "SYNC_FILE_RANGE_WRITE" : "?");
	env_mutex_unlock(&file->recorder->lock);
	return 0;
}

static int rec_fallocate(void *handle, unsigned int mode, uint64_t pos, uint64_t len)
{
	struct memory_file *file = handle;

	env_mutex_lock(&file->recorder->lock);
	record(file->recorder, "fallocate %s %llu %llu mode=%u", short_name(file->path),
	       (unsigned long long)pos, (unsigned long long)len, mode);
	if (mode == 0 && pos + len > file->size)
		resize(file, pos + len);
	env_mutex_unlock(&file->recorder->lock);
	return 0;
}

static int rec_truncate(void *handle, uint64_t size)
{
	struct memory_file *file = handle;

	env_mutex_lock(&file->recorder->lock);
	record(file->recorder, "ftruncate %s %llu", short_name(file->path),
	       (unsigned long long)size);
	resize(file, size);
	env_mutex_unlock(&file->recorder->lock);
	return 0;
}

static int rec_fadvise(void *handle, uint64_t pos, uint64_t len, enum fio_advice advice)
{
	struct memory_file *file = handle;
	const char *name = advice == FIO_ADVICE_DONTNEED ? "dontneed"
			   : advice == FIO_ADVICE_RANDOM ? "random"
							 : "sequential";

	env_mutex_lock(&file->recorder->lock);
	record(file->recorder, "fadvise %s %llu %llu %s", short_name(file->path),
	       (unsigned long long)pos, (unsigned long long)len, name);
	env_mutex_unlock(&file->recorder->lock);
	return 0;
}

static const struct fio_target_ops recorder_ops = {
	.open = rec_open,
	.close = rec_close,
	.unlink = rec_unlink,
	.stat = rec_stat,
	.mkdir_p = rec_mkdir_p,
	.pwrite = rec_pwrite,
	.pread = rec_pread,
	.fsync = rec_fsync,
	.fdatasync = rec_fdatasync,
	.sync_file_range = rec_sync_file_range,
	.fallocate = rec_fallocate,
	.truncate = rec_truncate,
	.fadvise = rec_fadvise,
};

/* ---- running ------------------------------------------------------------- */

struct world {
	struct recorder *recorder;
	struct fio_workload workload;
	struct fio_result result;
	struct fio_run_options how;
};

static void world_open(struct world *world)
{
	memset(world, 0, sizeof(*world));
	world->recorder = calloc(1, sizeof(*world->recorder));
	env_mutex_init(&world->recorder->lock, "recorder");
	fio_workload_init(&world->workload);
}

static void world_run(struct world *world)
{
	struct fio_target target = {.ctx = world->recorder, .ops = &recorder_ops};

	cr_assert_eq(fio_run(&world->workload, &target, &world->how, &world->result), 0);
}

static void world_close(struct world *world)
{
	struct recorder *recorder = world->recorder;

	for (unsigned int i = 0; i < recorder->nr_files; i++) {
		free(recorder->file[i].path);
		free(recorder->file[i].data);
	}
	for (size_t i = 0; i < recorder->nr_lines; i++)
		free(recorder->line[i]);
	free(recorder->line);
	free(recorder);
	fio_result_destroy(&world->result);
	fio_workload_destroy(&world->workload);
}

static void world_line(struct world *world, const char *line)
{
	char err[FIO_ERR_MAX];

	cr_assert_eq(fio_parse_line(&world->workload, line, err, sizeof(err)), 0, "%s", err);
}

static void world_load(struct world *world, const char *name)
{
	char path[512];
	char err[FIO_ERR_MAX];

	snprintf(path, sizeof(path), "%s/%s", IOMAP_TEST_DATA, name);
	cr_assert_eq(fio_load(&world->workload, path, err, sizeof(err)), 0, "%s", err);
}

/* Run one fio command line in a world without files. */
static void run_line(struct world *world, const char *line)
{
	world_open(world);
	world_line(world, line);
	world_run(world);
}

static unsigned int count(const struct world *world, const char *start)
{
	unsigned int nr = 0;

	for (size_t i = 0; i < world->recorder->nr_lines; i++)
		nr += strncmp(world->recorder->line[i], start, strlen(start)) == 0;
	return nr;
}

/* The recorded calls must be these, in this order; wanted ends in NULL. */
static void check_calls(const struct world *world, const char *const *wanted)
{
	size_t i = 0;

	for (; wanted[i]; i++) {
		cr_assert_lt(i, world->recorder->nr_lines, "missing: %s", wanted[i]);
		cr_assert_str_eq(world->recorder->line[i], wanted[i]);
	}
	cr_assert_eq(i, world->recorder->nr_lines, "unexpected: %s", world->recorder->line[i]);
}

/* Forget what setup did: drop all calls up to the first close. */
static void drop_setup(struct world *world)
{
	struct recorder *recorder = world->recorder;
	size_t nr = 0;

	while (nr < recorder->nr_lines && strncmp(recorder->line[nr], "close", 5) != 0)
		nr++;
	nr++;
	for (size_t i = 0; i < nr; i++)
		free(recorder->line[i]);
	recorder->nr_lines -= nr;
	memmove(recorder->line, recorder->line + nr, recorder->nr_lines * sizeof(char *));
}

/* ---- the oracles --------------------------------------------------------- */

enum oracle_kind {
	EXACT, /* every call in the same order */
	SET, /* the same blocks in any order */
	RANDOM, /* as many blocks, as many bytes, within the file */
	SIZES, /* as many bytes: block sizes are drawn */
};

/* Write one line of an oracle as the recorder would; false: it has no such line. */
static bool oracle_line(char *line, char *out, size_t size)
{
	static uint64_t next_pos;
	char name[64];
	unsigned long long len;

	line[strcspn(line, "\n")] = '\0';
	if (strstr(line, "(absent)"))
		return false;
	if (sscanf(line, "open %63s", name) == 1) {
		next_pos = 0;
		snprintf(out, size, "open %s%s%s", name, strstr(line, "O_RDONLY") ? " rdonly" : "",
			 strstr(line, "O_DSYNC") ? " dsync" : "");
	} else if (sscanf(line, "layout-next %63s %llu", name, &len) == 2) {
		snprintf(out, size, "write %s %llu %llu", name, (unsigned long long)next_pos, len);
		next_pos += len;
	} else if (sscanf(line, "preread-next %63s %llu", name, &len) == 2) {
		snprintf(out, size, "read %s %llu %llu", name, (unsigned long long)next_pos, len);
		next_pos += len;
	} else {
		snprintf(out, size, "%s", line);
	}
	return true;
}

static char **oracle_read(const char *name, size_t *nr)
{
	char path[512];
	char line[512];
	char out[512];
	char **lines = NULL;
	FILE *stream;

	snprintf(path, sizeof(path), "%s/oracles/%s.ops", IOMAP_TEST_DATA, name);
	stream = fopen(path, "r");
	cr_assert_not_null(stream, "%s", path);
	*nr = 0;
	while (fgets(line, sizeof(line), stream)) {
		if (!oracle_line(line, out, sizeof(out)))
			continue;
		lines = realloc(lines, (*nr + 1) * sizeof(char *));
		lines[(*nr)++] = strdup(out);
	}
	fclose(stream);
	return lines;
}

static bool is_io(const char *line)
{
	return strncmp(line, "write ", 6) == 0 || strncmp(line, "read ", 5) == 0;
}

/* What a set compares: the file, offset and length of each block, read or written. */
static int compare_blocks(const void *a, const void *b)
{
	return strcmp(strchr(*(char *const *)a, ' '), strchr(*(char *const *)b, ' '));
}

/* Split lines into blocks (first, sorted) and the rest (in order).  Returns how many blocks. */
static size_t split_blocks(char **lines, size_t nr)
{
	char **rest = malloc((nr + 1) * sizeof(*rest));
	size_t nr_rest = 0;
	size_t nr_blocks = 0;

	for (size_t i = 0; i < nr; i++) {
		if (is_io(lines[i]))
			lines[nr_blocks++] = lines[i];
		else
			rest[nr_rest++] = lines[i];
	}
	memcpy(lines + nr_blocks, rest, nr_rest * sizeof(*rest));
	qsort(lines, nr_blocks, sizeof(*lines), compare_blocks);
	free(rest);
	return nr_blocks;
}

static uint64_t sum_bytes(char **lines, size_t nr)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < nr; i++)
		sum += strtoull(strrchr(lines[i], ' '), NULL, 10);
	return sum;
}

static void compare_lines(char **ours, char **theirs, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		cr_assert_str_eq(ours[i], theirs[i]);
}

static void compare(enum oracle_kind kind, char **ours, size_t nr_ours, char **theirs,
		    size_t nr_theirs)
{
	size_t ours_io;
	size_t theirs_io;

	if (kind == EXACT) {
		compare_lines(ours, theirs, nr_ours < nr_theirs ? nr_ours : nr_theirs);
		cr_assert_eq(nr_ours, nr_theirs);
		return;
	}
	ours_io = split_blocks(ours, nr_ours);
	theirs_io = split_blocks(theirs, nr_theirs);
	cr_assert_eq(nr_ours - ours_io, nr_theirs - theirs_io);
	compare_lines(ours + ours_io, theirs + theirs_io, nr_ours - ours_io);
	cr_assert_eq(sum_bytes(ours, ours_io), sum_bytes(theirs, theirs_io));
	if (kind == SIZES)
		return;
	cr_assert_eq(ours_io, theirs_io);
	for (size_t i = 0; i < ours_io && kind == SET; i++)
		cr_assert_str_eq(strchr(ours[i], ' '), strchr(theirs[i], ' '));
}

static void check_oracle(const char *name, enum oracle_kind kind)
{
	struct world world;
	char job[128];
	char **theirs;
	size_t nr;

	world_open(&world);
	snprintf(job, sizeof(job), "oracles/%s.fio", name);
	world_load(&world, job);
	world_run(&world);
	cr_assert_str_eq(world.result.jobs[0].error, "");
	theirs = oracle_read(name, &nr);
	compare(kind, world.recorder->line, world.recorder->nr_lines, theirs, nr);
	for (size_t i = 0; i < nr; i++)
		free(theirs[i]);
	free(theirs);
	world_close(&world);
}

#define ORACLE(id, name, kind)                                                                     \
	Test(fio_oracle, id)                                                                       \
	{                                                                                          \
		check_oracle(name, kind);                                                          \
	}

ORACLE(write_default, "01-write-default", EXACT)
ORACLE(randwrite_map, "02-randwrite-map", SET)
ORACLE(randwrite_norandommap, "03-randwrite-norandommap", RANDOM)
ORACLE(fallocate_none, "04-fallocate-none", EXACT)
ORACLE(create_on_open, "05-create_on_open", EXACT)
ORACLE(overwrite_layout, "06-overwrite-layout", EXACT)
ORACLE(randrw_layout, "07-randrw-layout", SET)
ORACLE(pre_read, "08-pre_read", SET)
ORACLE(fsync_2, "09-fsync-2", EXACT)
ORACLE(fdatasync_end_fsync, "10-fdatasync-1-end_fsync", EXACT)
ORACLE(sync_file_range, "11-sync_file_range", EXACT)
ORACLE(fsync_3_files, "12-fsync-3files", EXACT)
ORACLE(roundrobin_2, "13-rr2", EXACT)
ORACLE(service_sequential, "14-fst-sequential", EXACT)
ORACLE(service_sequential_fsync_on_close, "15-fst-seq-openfiles1-foc", EXACT)
ORACLE(write_holes, "16-write-holes", EXACT)
ORACLE(write_backwards, "17-write-backwards", EXACT)
ORACLE(randwrite_4, "18-randwrite-4", RANDOM)
ORACLE(randwrite_4_identical, "19-randwrite-4-identical", RANDOM)
ORACLE(size_not_multiple, "20-size-not-multiple", EXACT)
ORACLE(nrfiles_division, "21-nrfiles-division", SET)
ORACLE(loops_3, "22-loops-3", EXACT)
ORACLE(io_size, "23-io_size", EXACT)
ORACLE(offset, "24-offset", EXACT)
ORACLE(bsrange, "25-bsrange", SIZES)
ORACLE(bssplit, "26-bssplit", SIZES)
ORACLE(filesize_smaller_size, "27-filesize-smaller-size", EXACT)
ORACLE(filename_list, "28-filename-list", EXACT)
ORACLE(file_append, "29-file_append", EXACT)
ORACLE(verify, "30-verify", SET)
ORACLE(sync_dsync, "31-sync-dsync", EXACT)
ORACLE(number_ios, "32-number_ios", EXACT)
ORACLE(unlink_each_loop, "33-unlink_each_loop", EXACT)
ORACLE(bs_2300, "34-bs-2300", EXACT)
ORACLE(kib_suffix, "35-kib-suffix", EXACT)
ORACLE(invalidate_0, "36-invalidate-0", EXACT)

/* ---- facts of single jobs ------------------------------------------------ */

/* What stands before the first --name holds for all jobs. */
#define FIO  "fio --ioengine=psync --bs=4k --invalidate=0 --fadvise_hint=0 "
#define SEQ  FIO "--rw=write --name=j "
#define RAND FIO "--rw=randwrite --name=j "
#define MIX  FIO "--rw=randrw --name=j "

/* Run line, forget the setup and compare the calls of the job. */
#define CHECK_JOB(line, ...)                                                                       \
	do {                                                                                       \
		const char *const wanted_[] = {__VA_ARGS__, NULL};                                 \
		struct world world_;                                                               \
                                                                                                   \
		run_line(&world_, line);                                                           \
		drop_setup(&world_);                                                               \
		check_calls(&world_, wanted_);                                                     \
		world_close(&world_);                                                              \
	} while (0)

Test(fio_run, a_count_that_is_met_at_the_end_of_a_pass_syncs_first_in_the_next)
{
	CHECK_JOB(SEQ "--size=8k --fsync=2 --loops=2", "open j.0.0", "write j.0.0 0 4096",
		  "write j.0.0 4096 4096", "fsync j.0.0", "close j.0.0", "open j.0.0",
		  "fsync j.0.0", "write j.0.0 0 4096", "write j.0.0 4096 4096", "close j.0.0");
}

Test(fio_run, end_fsync_does_not_follow_another_sync)
{
	CHECK_JOB(SEQ "--size=10000 --fsync=1 --end_fsync=1", "open j.0.0", "write j.0.0 0 4096",
		  "fsync j.0.0", "write j.0.0 4096 4096", "fsync j.0.0", "close j.0.0");
}

Test(fio_run, fsync_on_close_also_syncs_all_files_after_each_pass)
{
	CHECK_JOB(SEQ "--size=4k --fsync_on_close=1 --loops=2", "open j.0.0", "write j.0.0 0 4096",
		  "fsync j.0.0", "close j.0.0", "open j.0.0", "fsync j.0.0", "close j.0.0",
		  "open j.0.0", "write j.0.0 0 4096", "fsync j.0.0", "close j.0.0");
}

Test(fio_run, openfiles_limits_how_many_files_are_worked_on)
{
	CHECK_JOB(SEQ "--filename=a:b:c --size=12k --openfiles=2 --create_on_open=1 --loops=1 "
		      "--fallocate=none",
		  "close b", "open c", "write c 0 4096", "close c");
}

Test(fio_run, files_smaller_than_a_block_are_opened_and_closed)
{
	CHECK_JOB(SEQ "--size=4k --nrfiles=2 --create_on_open=1", "open j.0.1", "close j.0.1");
}

Test(fio_run, offsets_of_holes_advance_by_bytes)
{
	CHECK_JOB(SEQ "--rw=write:4 --size=20k", "open j.0.0", "write j.0.0 0 4096",
		  "write j.0.0 4100 4096", "write j.0.0 8200 4096", "write j.0.0 12300 4096",
		  "close j.0.0");
}

Test(fio_run, verify_backlog_reads_before_the_next_write)
{
	CHECK_JOB(SEQ "--size=12k --verify=crc32c --verify_backlog=2", "open j.0.0",
		  "write j.0.0 0 4096", "write j.0.0 4096 4096", "read j.0.0 0 4096",
		  "read j.0.0 4096 4096", "write j.0.0 8192 4096", "close j.0.0", "open j.0.0",
		  "read j.0.0 8192 4096", "close j.0.0");
}

Test(fio_run, io_size_above_size_is_one_long_pass_without_a_map)
{
	struct world world;

	run_line(&world, RAND "--size=8k --io_size=24k --norandommap");
	cr_assert_eq(count(&world, "write"), 6);
	cr_assert_eq(count(&world, "open"), 2);
	world_close(&world);
}

Test(fio_run, all_passes_together_stop_at_size_times_loops)
{
	struct world world;

	run_line(&world, SEQ "--size=16k --filesize=8k --nrfiles=3 --loops=2");
	cr_assert_eq(count(&world, "write"), 8);
	cr_assert_eq(world.result.total.user_bytes, 32768);
	world_close(&world);
}

Test(fio_run, loops_repeat_the_random_order)
{
	struct world world;

	run_line(&world, RAND "--size=64k --loops=2");
	drop_setup(&world);
	for (unsigned int i = 1; i <= 16; i++)
		cr_assert_str_eq(world.recorder->line[i], world.recorder->line[i + 18]);
	world_close(&world);
}

Test(fio_run, clones_have_different_orders)
{
	struct world world;
	unsigned int same = 0;

	world_open(&world);
	world.how.serial = true;
	world_line(&world, RAND "--filename=f --size=256k --numjobs=2");
	world_run(&world);
	drop_setup(&world);
	for (unsigned int i = 1; i <= 64; i++)
		same += strcmp(world.recorder->line[i], world.recorder->line[i + 66]) == 0;
	cr_assert_lt(same, 32);
	world_close(&world);
}

Test(fio_run, bsrange_without_a_map_draws_every_multiple)
{
	struct world world;
	unsigned int seen[5] = {0};

	run_line(&world, RAND "--bsrange=4k-16k --size=4m --norandommap");
	for (size_t i = 0; i < world.recorder->nr_lines; i++)
		if (strncmp(world.recorder->line[i], "write", 5) == 0)
			seen[strtoul(strrchr(world.recorder->line[i], ' '), NULL, 10) / 4096]++;
	for (unsigned int i = 1; i <= 4; i++)
		cr_assert_gt(seen[i], 60);
	world_close(&world);
}

/* How many different blocks do nr writes of this job touch? */
static unsigned int distinct_blocks(const char *line, unsigned int nr)
{
	struct world world;
	unsigned int distinct;

	run_line(&world, line);
	cr_assert_eq(count(&world, "write"), nr);
	nr = (unsigned int)split_blocks(world.recorder->line, world.recorder->nr_lines);
	distinct = 1;
	for (unsigned int i = 1; i < nr; i++)
		distinct += strcmp(world.recorder->line[i], world.recorder->line[i - 1]) != 0;
	world_close(&world);
	return distinct;
}

Test(fio_run, zipf_touches_fewer_blocks)
{
	cr_assert_lt(distinct_blocks(RAND "--size=1m --random_distribution=zipf:1.2", 256), 160);
}

Test(fio_run, pareto_normal_and_zoned_stay_in_the_file)
{
	cr_assert_lt(distinct_blocks(RAND "--size=1m --random_distribution=pareto:0.1", 256), 150);
	cr_assert_lt(distinct_blocks(RAND "--size=1m --random_distribution=normal:10", 256), 160);
	cr_assert_lt(distinct_blocks(RAND "--size=1m --random_distribution=zoned:90/10:10/90", 256),
		     140);
}

Test(fio_run, random_blocks_do_not_repeat_over_several_block_sizes)
{
	struct world world;
	char *seen = calloc(256, 1);

	run_line(&world, RAND "--bssplit=4k/50:32k/50 --size=1m");
	for (size_t i = 0; i < world.recorder->nr_lines; i++) {
		unsigned long long pos;
		unsigned long long len;

		if (sscanf(world.recorder->line[i], "write j.0.0 %llu %llu", &pos, &len) != 2)
			continue;
		for (; len; len -= 4096, pos += 4096)
			cr_assert_eq(seen[pos / 4096]++, 0);
	}
	for (unsigned int i = 0; i < 256; i++)
		cr_assert_eq(seen[i], 1);
	free(seen);
	world_close(&world);
}

Test(fio_run, a_mixed_job_goes_on_syncing_between_reads)
{
	struct world world;
	unsigned int nr_ios;

	run_line(&world, MIX "--size=400k --fsync=1");
	drop_setup(&world);
	nr_ios = count(&world, "write") + count(&world, "read");
	cr_assert_eq(nr_ios, 100);
	/* One before each I/O once a block is written, but none at the end. */
	cr_assert_gt(count(&world, "fsync"), 90);
	world_close(&world);
}

Test(fio_run, rwmixread_100_and_0_do_one_kind)
{
	struct world world;

	run_line(&world, MIX "--rwmixread=100 --size=64k");
	cr_assert_eq(world.result.total.read_calls, 16);
	cr_assert_eq(world.result.total.write_calls, 0);
	world_close(&world);
	run_line(&world, MIX "--rwmixwrite=100 --size=64k");
	cr_assert_eq(world.result.total.write_calls, 16);
	world_close(&world);
}

Test(fio_run, a_name_without_filenum_is_one_file_opened_several_times)
{
	struct world world;

	run_line(&world, SEQ "--size=8k --nrfiles=2 --filename_format='a.$jobnum'");
	cr_assert_eq(count(&world, "open a.0"), 4);
	cr_assert_eq(count(&world, "write a.0 0 4096"), 2);
	world_close(&world);
}

Test(fio_run, clones_take_folders_in_turn)
{
	struct world world;

	run_line(&world, SEQ "--size=4k --numjobs=3 --directory=x:y");
	cr_assert_eq(count(&world, "write x/j.0.0"), 1);
	cr_assert_eq(count(&world, "write y/j.1.0"), 1);
	cr_assert_eq(count(&world, "write x/j.2.0"), 1);
	world_close(&world);
}

Test(fio_run, clones_are_set_up_first_last_and_then_downwards)
{
	struct world world;

	world_open(&world);
	world.how.serial = true;
	world_line(&world, SEQ "--size=4k --numjobs=3");
	world_run(&world);
	cr_assert_str_eq(world.recorder->line[0], "open j.0.0");
	cr_assert_str_eq(world.recorder->line[4], "open j.2.0");
	cr_assert_str_eq(world.recorder->line[8], "open j.1.0");
	world_close(&world);
}

Test(fio_run, later_jobs_are_set_up_before_the_first_starts)
{
	struct world world;

	run_line(&world, SEQ "--size=4k --name=k --size=4k --stonewall");
	cr_assert_str_eq(world.recorder->line[4], "open k.0.0");
	cr_assert_str_eq(world.recorder->line[8], "open j.0.0");
	world_close(&world);
}

Test(fio_run, a_file_that_is_long_enough_keeps_its_contents)
{
	struct world world;

	world_open(&world);
	world_line(&world, "dd if=/dev/zero of=f bs=4k count=4; " SEQ "--filename=f --size=8k; " SEQ
			   "--filename=f --size=50%");
	world_run(&world);
	cr_assert_eq(count(&world, "unlink"), 0);
	cr_assert_eq(count(&world, "fallocate"), 0);
	cr_assert_eq(world.result.jobs[1].counters.user_bytes, 8192);
	cr_assert_eq(world.result.jobs[2].counters.user_bytes, 8192);
	world_close(&world);
}

Test(fio_run, a_job_without_size_takes_the_size_of_the_file)
{
	struct world world;

	world_open(&world);
	world_line(&world, "dd if=/dev/zero of=f bs=4k count=5; " SEQ "--filename=f");
	world_run(&world);
	cr_assert_eq(world.result.jobs[1].counters.user_bytes, 20480);
	world_close(&world);
}

Test(fio_run, a_second_append_starts_where_the_first_ended)
{
	struct world world;

	world_open(&world);
	world_line(&world, SEQ "--size=4k --file_append=1; " SEQ "--size=4k --file_append=1");
	world_run(&world);
	cr_assert_eq(count(&world, "write j.0.0 0 4096"), 1);
	cr_assert_eq(count(&world, "write j.0.0 4096 4096"), 1);
	world_close(&world);
}

/* The error of the only job. */
static void check_error(const char *line, const char *error)
{
	struct world world;

	run_line(&world, line);
	cr_assert_str_eq(world.result.jobs[0].error, error);
	cr_assert_eq(world.result.total.errors, 1);
	world_close(&world);
}

Test(fio_run, percent_of_a_missing_file_is_an_error)
{
	check_error(SEQ "--size=50%", "job 'j': j.0.0: size= in percent needs a file that is "
				      "there; give size= in bytes: EINVAL");
}

Test(fio_run, no_size_and_no_file_is_an_error)
{
	check_error(SEQ, "job 'j': j.0.0: no size= and no such file with data; give size=: EINVAL");
}

Test(fio_run, allow_file_create_0_needs_the_file)
{
	check_error(SEQ "--size=4k --allow_file_create=0",
		    "job 'j': j.0.0: allow_file_create=0: ENOENT");
}

Test(fio_run, an_error_stops_its_job_and_is_named)
{
	struct world world;

	world_open(&world);
	world.recorder->fail_writes = 3;
	world.recorder->fail_err = -ENOSPC;
	world.how.serial = true;
	world_line(&world, SEQ "--size=32k --name=k --size=8k");
	world_run(&world);
	cr_assert_str_eq(world.result.jobs[0].error, "job 'j': j.0.0: write: ENOSPC");
	cr_assert_eq(world.result.jobs[0].counters.user_bytes, 8192);
	cr_assert_str_eq(world.result.jobs[1].error, "");
	cr_assert_eq(world.result.jobs[1].counters.user_bytes, 32768 / 4);
	world_close(&world);
}

Test(fio_run, verify_finds_one_spoiled_bit)
{
	struct world world;

	world_open(&world);
	world.recorder->corrupt_after = 5;
	world_line(&world, RAND "--size=64k --verify=md5");
	world_run(&world);
	cr_assert_str_eq(world.result.jobs[0].error, "job 'j': j.0.0: verify: EILSEQ");
	world_close(&world);
}

Test(fio_run, verify_holds_over_loops_and_odd_blocks)
{
	struct world world;

	run_line(&world, RAND "--bs=2300 --size=100000 --loops=3 --verify=md5");
	cr_assert_str_eq(world.result.jobs[0].error, "");
	cr_assert_eq(world.result.total.read_bytes, world.result.total.user_bytes);
	world_close(&world);
}

Test(fio_run, a_read_job_verifies_what_another_wrote)
{
	struct world world;

	world_open(&world);
	world_load(&world, "jobs/fio-t-jobs-t0029.fio");
	world_run(&world);
	cr_assert_str_eq(world.result.jobs[1].error, "");
	cr_assert_eq(world.result.jobs[1].counters.read_bytes, 8192);
	world_close(&world);
}

/* The comment of this job file says how much fio reads: 87,040 KiB. */
Test(fio_run, sequential_reads_with_holes_read_what_fio_says)
{
	struct world world;

	world_open(&world);
	world.recorder->quiet = true;
	world_load(&world, "jobs/fio-t-jobs-t0007-37cf9e3c.fio");
	world_run(&world);
	cr_assert_eq(world.result.total.read_bytes, 87040 * 1024ULL);
	world_close(&world);
}

/* ---- time ---------------------------------------------------------------- */

Test(fio_run, a_time_based_job_wraps_in_place_and_drops_the_cache)
{
	struct world world;

	run_line(&world, "fio --name=j --rw=write --bs=4k --size=8k --time_based --runtime=20ms");
	cr_assert_gt(world.result.total.user_bytes, 16384);
	cr_assert_eq(count(&world, "open"), 2);
	cr_assert_geq(count(&world, "fadvise j.0.0 0 8192 dontneed"), 3);
	cr_assert_geq(world.result.total.elapsed_ns, 20000000);
	world_close(&world);
}

Test(fio_run, several_files_of_a_time_based_job_are_reopened)
{
	struct world world;

	run_line(&world, "fio --name=j --rw=write --bs=4k --size=16k --nrfiles=2 --time_based "
			 "--runtime=20ms");
	cr_assert_gt(count(&world, "open j.0.1"), 2);
	world_close(&world);
}

Test(fio_run, a_full_map_is_cleared_in_place)
{
	struct world world;

	run_line(&world, "fio --name=j --rw=randwrite --bs=4k --size=16k --nrfiles=2 --time_based "
			 "--runtime=20ms");
	cr_assert_eq(count(&world, "open j.0.1"), 2);
	cr_assert_gt(count(&world, "fadvise j.0.1 0 8192 dontneed"), 2);
	world_close(&world);
}

Test(fio_run, runtime_alone_is_a_cap)
{
	struct world world;

	run_line(&world, SEQ "--size=16k --runtime=60");
	cr_assert_eq(world.result.total.user_bytes, 16384);
	world_close(&world);
}

Test(fio_run, time_of_time_based_jobs_is_scaled)
{
	struct world world;

	world_open(&world);
	world.recorder->quiet = true;
	world.how.scale = (struct fio_scale){.num = 1, .den = 1000};
	world_line(&world, SEQ "--size=64m --time_based --runtime=10");
	world_run(&world);
	cr_assert_lt(world.result.total.elapsed_ns, 2000000000);
	world_close(&world);
}

Test(fio_run, time_stays_where_rates_are_scaled)
{
	struct world world;

	world_open(&world);
	world.recorder->quiet = true;
	world.how.scale = (struct fio_scale){.num = 1, .den = 1000, .keeps_time = true};
	world_line(&world, SEQ "--size=64m --time_based --runtime=10ms");
	world_run(&world);
	cr_assert_geq(world.result.total.elapsed_ns, 9000000);
	world_close(&world);
}

Test(fio_run, what_the_ramp_writes_is_not_counted)
{
	struct world world;

	world_open(&world);
	world.recorder->quiet = true;
	world_line(&world, SEQ "--size=1m --time_based --runtime=10ms --ramp_time=10ms "
			       "--thinktime=100");
	world_run(&world);
	cr_assert_lt(world.result.total.write_calls, world.recorder->calls);
	cr_assert_lt(world.result.total.elapsed_ns, 19000000);
	world_close(&world);
}

Test(fio_run, rate_iops_spreads_the_ios)
{
	struct world world;

	run_line(&world, SEQ "--size=20k --rate_iops=1000");
	cr_assert_geq(world.result.total.elapsed_ns, 4000000);
	world_close(&world);
}

Test(fio_run, a_job_of_no_blocks_ends_though_time_based)
{
	struct world world;

	run_line(&world, SEQ "--size=4k --nrfiles=2 --time_based --runtime=60");
	cr_assert_eq(world.result.total.user_bytes, 0);
	world_close(&world);
}

/* ---- several jobs -------------------------------------------------------- */

/* The place of the first line that begins so. */
static size_t place(const struct world *world, const char *start)
{
	for (size_t i = 0; i < world->recorder->nr_lines; i++)
		if (strncmp(world->recorder->line[i], start, strlen(start)) == 0)
			return i;
	cr_assert_fail("no line '%s'", start);
	return 0;
}

Test(fio_run, wait_for_waits_for_all_clones)
{
	struct world world;

	run_line(&world, SEQ "--size=64k --numjobs=3 --name=k --wait_for=j --size=4k");
	for (size_t i = place(&world, "write k.0.0"); i < world.recorder->nr_lines; i++)
		cr_assert_neq(strncmp(world.recorder->line[i], "write j", 7), 0);
	world_close(&world);
}

Test(fio_run, exitall_ends_the_group)
{
	struct world world;

	world_open(&world);
	world.recorder->quiet = true;
	world_line(&world, SEQ "--size=4k --exitall --name=k --size=1m --time_based "
			       "--runtime=600 --thinktime=1000");
	world_run(&world);
	cr_assert_lt(world.result.total.elapsed_ns, 60000000000);
	world_close(&world);
}

Test(fio_run, exit_what_all_also_ends_jobs_that_have_not_started)
{
	struct world world;

	run_line(&world, SEQ "--size=4k --exitall --exit_what=all --name=k --size=4k --stonewall");
	cr_assert_eq(count(&world, "write k"), 0);
	world_close(&world);
}

Test(fio_run, the_four_phases_of_waitfor_run)
{
	struct world world;

	world_open(&world);
	world.recorder->quiet = true;
	world.how.scale = (struct fio_scale){.num = 1, .den = 64};
	world_load(&world, "jobs/fio-examples-waitfor.fio");
	world_run(&world);
	for (unsigned int i = 0; i < 4; i++)
		cr_assert_str_eq(world.result.jobs[i].error, "");
	cr_assert_eq(world.result.total.user_bytes, 2 * 4 * (128 << 20) / 64);
	cr_assert_eq(world.result.total.read_bytes, 2 * 4 * (128 << 20) / 64);
	world_close(&world);
}

Test(fio_run, progress_reaches_what_was_planned)
{
	struct fio_progress progress = {0, 0, 0};
	struct world world;

	world_open(&world);
	world.recorder->quiet = true;
	world.how.progress = &progress;
	world_line(&world, RAND "--size=8m --numjobs=4");
	world_run(&world);
	cr_assert_eq(progress.bytes_planned, 32 << 20);
	cr_assert_eq(progress.bytes_done, 32 << 20);
	world_close(&world);
}

Test(fio_run, stop_ends_all_jobs)
{
	struct fio_progress progress = {0, 0, 1};
	struct world world;

	world_open(&world);
	world.how.progress = &progress;
	world_line(&world, RAND "--size=8m --time_based --runtime=600");
	world_run(&world);
	cr_assert_eq(world.result.total.user_bytes, 0);
	world_close(&world);
}

/* ---- published workloads ------------------------------------------------- */

/* Writes of a workload on a target that keeps nothing, and what arithmetic says. */
static uint64_t writes_of(const char *name, struct fio_scale scale)
{
	struct world world;
	struct fio_span expected;
	uint64_t writes;

	world_open(&world);
	world.recorder->quiet = true;
	world.how.scale = scale;
	world_load(&world, name);
	world_run(&world);
	for (unsigned int i = 0; i < world.result.nr_jobs; i++)
		cr_assert_str_eq(world.result.jobs[i].error, "");
	expected = fio_workload_expected_bytes(&world.workload, &scale);
	cr_assert_eq(expected.min, expected.max);
	cr_assert_eq(expected.min, world.result.total.user_bytes);
	writes = world.result.total.write_calls;
	world_close(&world);
	return writes;
}

Test(fio_run, seed_000_writes_262140_blocks_a_job)
{
	cr_assert_eq(
		writes_of("jobs/seed-000-job_nvme.fio", (struct fio_scale){.num = 1, .den = 1}),
		3145680);
}

Test(fio_run, seed_000_at_a_64th_writes_4092_blocks_a_job)
{
	cr_assert_eq(writes_of("jobs/seed-000-job_nvme.job12-dir12.fio",
			       (struct fio_scale){.num = 1, .den = 64}),
		     12 * 12 * 341);
}

Test(fio_run, seed_000_names_files_for_their_section)
{
	struct world world;

	world_open(&world);
	world.how.scale = (struct fio_scale){.num = 1, .den = 4096};
	world_load(&world, "jobs/seed-000-run.cmd");
	world_run(&world);
	cr_assert_eq(count(&world, "open /mnt/dir1/job1.0.11"), 1);
	cr_assert_eq(count(&world, "open /mnt/dir1/job12.0.0"), 1);
	cr_assert_eq(count(&world, "fallocate"), 0);
	world_close(&world);
}

Test(fio_run, seed_003_writes_819200_blocks)
{
	cr_assert_eq(writes_of("jobs/seed-003.cmd", (struct fio_scale){.num = 1, .den = 1}),
		     819200);
}

Test(fio_run, seed_004_writes_each_block_once)
{
	cr_assert_eq(writes_of("jobs/seed-004.cmd", (struct fio_scale){.num = 1, .den = 64}),
		     16384);
}

Test(fio_run, seed_004_sweep_is_six_runs)
{
	cr_assert_eq(
		writes_of("jobs/seed-004-sizes.cmd", (struct fio_scale){.num = 1, .den = 1024}),
		63 * 512 * 1024 / 4096);
}

Test(fio_run, seed_004_warm_up_is_written_by_dd)
{
	cr_assert_eq(writes_of("jobs/seed-004-prep.cmd", (struct fio_scale){.num = 1, .den = 64}),
		     64);
}

Test(fio_run, seed_002_runs_until_its_time_is_up)
{
	struct world world;

	world_open(&world);
	world.recorder->quiet = true;
	world.how.scale = (struct fio_scale){.num = 1, .den = 1000};
	world_load(&world, "jobs/seed-002.cmd");
	world_run(&world);
	cr_assert_geq(world.result.total.elapsed_ns, 60000000);
	cr_assert_gt(world.result.total.user_bytes, 8 * 450 * 1000);
	cr_assert_eq(fio_workload_expected_bytes(&world.workload, NULL).max, UINT64_MAX);
	world_close(&world);
}

/* ---- arithmetic ---------------------------------------------------------- */

Test(fio_scale, keeps_whole_blocks)
{
	const struct fio_scale scale = {.num = 1, .den = 3};

	cr_assert_eq(fio_scale_bytes(&scale, 16 * 4096, 4096), 5 * 4096);
	cr_assert_eq(fio_scale_bytes(&scale, 10000, 4096), 4096);
	cr_assert_eq(fio_scale_bytes(&scale, 100, 4096), 33);
}

/* Every line: what the run writes and what the arithmetic says agree. */
Test(fio_expect, agrees_with_runs)
{
	static const char *const lines[] = {
		SEQ "--size=10000",
		SEQ "--size=100k --nrfiles=3",
		SEQ "--size=16k --io_size=40k",
		SEQ "--size=16k --io_size=40k --loops=2",
		SEQ "--size=8k --loops=2 --io_size=12k",
		SEQ "--size=16k --filesize=8k --nrfiles=3 --loops=2",
		SEQ "--filesize=10000 --nrfiles=2",
		SEQ "--size=64k --number_ios=5 --loops=2",
		RAND "--size=8k --io_size=24k --norandommap",
		RAND "--size=48k --offset=8k --numjobs=3",
		RAND "--size=1m --bs=2300 --nrfiles=7",
		SEQ "--size=4k --nrfiles=2",
		SEQ "--size=48k --io_size=20k",
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct world world;
		struct fio_span expected;

		run_line(&world, lines[i]);
		expected = fio_workload_expected_bytes(&world.workload, NULL);
		cr_assert_eq(expected.min, world.result.total.user_bytes, "%s: %llu, not %llu",
			     lines[i], (unsigned long long)world.result.total.user_bytes,
			     (unsigned long long)expected.min);
		cr_assert_eq(expected.min, expected.max, "%s", lines[i]);
		world_close(&world);
	}
}

Test(fio_expect, bounds_where_chance_decides)
{
	struct fio_span expected;
	struct world world;

	run_line(&world, MIX "--size=64k");
	expected = fio_workload_expected_bytes(&world.workload, NULL);
	cr_assert_eq(expected.min, 0);
	cr_assert_eq(expected.max, 65536);
	world_close(&world);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * ops.c - what a task does: all that the library offers, at random
 *
 * A file belongs to one task, or its cells belong to all in turns of a stripe.  Only the owner
 * of a cell writes to it, so the model knows what it holds; anybody may read it.
 */
#include "check.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <iomap/backing_dev.h>
#include <iomap/fsbackend.h>
#include <iomap/page_cache.h>

struct shared_file shared_files[MAX_FILES];
bool sync_told;

static uint64_t below(struct task *task, uint64_t bound)
{
	return env_rng_below(&task->rng, bound);
}

static struct shared_file *some_file(struct task *task)
{
	return &shared_files[below(task, world.plan->nr_files)];
}

/* One that the task may write to. */
static struct shared_file *own_file(struct task *task)
{
	struct shared_file *file;

	do
		file = some_file(task);
	while (file->owner != task->nr && file->owner != MAX_TASKS);
	return file;
}

static struct file *handle_of(struct task *task, struct shared_file *file)
{
	return file->handles[task->nr];
}

static void check_error(int err, const char *what)
{
	check(!err || world_has_failed(), "%s gave %d without a failed request", what, err);
}

/* ---- write and read ---- */

static unsigned int some_cells(struct task *task)
{
	static const unsigned int limits[] = {1, 2, 8, 16, 64, MAX_OP_CELLS};

	return 1 + (unsigned int)below(task, limits[below(task, 6)]);
}

/* How far into the file: mostly not far, so that tasks meet. */
static unsigned int some_reach(struct task *task)
{
	return below(task, 8) ? world.plan->nr_cells : FILE_CELLS;
}

/* A run of cells that the task owns. */
static unsigned int own_cells(struct task *task, const struct shared_file *file,
			      unsigned int *first)
{
	unsigned int stripe = world.plan->stripe, tasks = world.plan->nr_tasks;
	unsigned int nr = some_cells(task), row, off;

	if (file->owner == task->nr) {
		*first = (unsigned int)below(task, some_reach(task));
		return *first + nr <= FILE_CELLS ? nr : FILE_CELLS - *first;
	}
	row = some_reach(task) / (stripe * tasks);
	row = row ? (unsigned int)below(task, row) : 0;
	off = (unsigned int)below(task, stripe);
	*first = (row * tasks + task->nr) * stripe + off;
	return nr <= stripe - off ? nr : stripe - off;
}

static void write_cells(struct task *task, struct model *model, struct file *file,
			unsigned int first, unsigned int nr)
{
	size_t len = (size_t)nr * CELL;
	ssize_t written;

	note("task %u: write file %u cells %u + %u", task->nr, model->nr, first, nr);
	model_write_start(model, first, nr, task->memory);
	written = world.fsys->write(file, task->memory, len, (uint64_t)first * CELL);
	check(written == (ssize_t)len || world_has_failed(), "a write of %zu bytes gave %zd", len,
	      written);
	model_write_done(model, first, nr, written > 0 ? (unsigned int)(written / CELL) : 0);
	note("task %u: written %zd, version %u", task->nr, written, model->last_version);
}

static void op_write(struct task *task)
{
	struct shared_file *file = own_file(task);
	unsigned int first, nr;

	nr = own_cells(task, file, &first);
	env_rwsem_read_lock(&file->gate);
	write_cells(task, &file->model, handle_of(task, file), first, nr);
	env_rwsem_read_unlock(&file->gate);
}

static void read_cells(struct task *task, struct model *model, struct file *file,
		       unsigned int first, unsigned int nr)
{
	ssize_t got;

	note("task %u: read file %u cells %u + %u", task->nr, model->nr, first, nr);
	model_expect(model, first, nr, &task->expected);
	got = world.fsys->read(file, task->memory, (size_t)nr * CELL, (uint64_t)first * CELL);
	model_check(model, first, nr, &task->expected, task->memory, got);
}

static void op_read(struct task *task)
{
	struct shared_file *file = some_file(task);
	unsigned int first = (unsigned int)below(task, some_reach(task));
	unsigned int nr = some_cells(task);

	nr = first + nr <= FILE_CELLS ? nr : FILE_CELLS - first;
	env_rwsem_read_lock(&file->gate);
	read_cells(task, &file->model, handle_of(task, file), first, nr);
	env_rwsem_read_unlock(&file->gate);
}

/* Not kept from those who cut the file. */
static void op_peek(struct task *task)
{
	struct shared_file *file = some_file(task);
	unsigned int first = (unsigned int)below(task, some_reach(task));
	unsigned int nr = some_cells(task);
	uint32_t moves = __atomic_load_n(&file->moves, __ATOMIC_SEQ_CST);
	ssize_t got;

	nr = first + nr <= FILE_CELLS ? nr : FILE_CELLS - first;
	note("task %u: peek file %u cells %u + %u", task->nr, file->model.nr, first, nr);
	got = world.fsys->read(handle_of(task, file), task->memory, (size_t)nr * CELL,
			       (uint64_t)first * CELL);
	if (!(moves & 1) && __atomic_load_n(&file->moves, __ATOMIC_SEQ_CST) == moves)
		model_check_any(&file->model, first, nr, task->memory, got);
}

void check_whole_file(struct task *task, struct model *model, struct file *file)
{
	for (unsigned int first = 0; first < FILE_CELLS; first += MAX_OP_CELLS)
		read_cells(task, model, file, first, MAX_OP_CELLS);
}

/* ---- size and space ---- */

/* The model follows what the file says if that failed. */
static void resize(struct task *task, struct model *model, struct file *file, uint64_t size)
{
	int err;

	note("task %u: truncate file %u to %llu", task->nr, model->nr, (unsigned long long)size);
	err = world.fsys->truncate(file, size);
	check_error(err, "truncate");
	check(err || inode_size_read(file->f_inode) == size, "truncate did not set the size");
	model_resize(model, inode_size_read(file->f_inode));
	note("task %u: truncated: %d", task->nr, err);
}

static void op_truncate(struct task *task)
{
	struct shared_file *file = own_file(task);
	uint64_t size = below(task, some_reach(task) * CELL_WORDS) * sizeof(uint64_t);

	env_rwsem_write_lock(&file->gate);
	resize(task, &file->model, handle_of(task, file), size);
	env_rwsem_write_unlock(&file->gate);
}

static int fallocate(struct task *task, struct shared_file *file, unsigned int mode, uint64_t pos,
		     uint64_t len)
{
	int err;

	note("task %u: fallocate file %u mode %x, %llu + %llu", task->nr, file->model.nr, mode,
	     (unsigned long long)pos, (unsigned long long)len);
	err = world.fsys->fallocate(handle_of(task, file), mode, pos, len);
	if (err != -EOPNOTSUPP)
		check_error(err, "fallocate");
	note("task %u: fallocated: %d", task->nr, err);
	return err;
}

static void op_fallocate(struct task *task)
{
	struct shared_file *file = own_file(task);
	uint64_t pos = below(task, FILE_CELLS * CELL / 2);
	uint64_t len = 8 + below(task, FILE_CELLS * CELL / 4);
	bool keep_size = below(task, 2);
	int err;

	pos &= ~7ull;
	len &= ~7ull;
	env_rwsem_write_lock(&file->gate);
	err = fallocate(task, file, keep_size ? FS_FALLOC_KEEP_SIZE : 0, pos, len);
	model_resize(&file->model, inode_size_read(handle_of(task, file)->f_inode));
	check(err || keep_size || file->model.size_done >= pos + len,
	      "fallocate did not set the size");
	env_rwsem_write_unlock(&file->gate);
}

/* Cells of its own become zero, with their space or without. */
static void op_zero(struct task *task)
{
	static const unsigned int modes[] = {FS_FALLOC_PUNCH_HOLE | FS_FALLOC_KEEP_SIZE,
					     FS_FALLOC_ZERO_RANGE | FS_FALLOC_KEEP_SIZE,
					     FS_FALLOC_ZERO_RANGE};
	struct shared_file *file = own_file(task);
	unsigned int mode = modes[below(task, 3)];
	unsigned int first, nr = own_cells(task, file, &first);
	int err;

	env_rwsem_write_lock(&file->gate);
	err = fallocate(task, file, mode, (uint64_t)first * CELL, (uint64_t)nr * CELL);
	if (err != -EOPNOTSUPP)
		model_zero(&file->model, first, nr, err);
	model_resize(&file->model, inode_size_read(handle_of(task, file)->f_inode));
	env_rwsem_write_unlock(&file->gate);
}

static void move_back(struct task *task, struct shared_file *file, uint64_t pos, uint64_t len)
{
	unsigned int tries = 0;

	/* What had to be written first may have failed, and is clean now. */
	while (fallocate(task, file, FS_FALLOC_COLLAPSE_RANGE, pos, len))
		check(++tries < 100, "collapse fails again and again");
}

/* All from some block on moves up and down again: a cell is known by its place. */
static void op_move(struct task *task)
{
	struct shared_file *file = some_file(task);
	uint64_t block = world.plan->block_size;
	uint64_t pos, len = (1 + below(task, 16)) * block;
	uint64_t size;

	env_rwsem_write_lock(&file->gate);
	size = inode_size_read(handle_of(task, file)->f_inode);
	pos = size ? below(task, size) / block * block : 0;
	__atomic_fetch_add(&file->moves, 1, __ATOMIC_SEQ_CST);
	if (size && !fallocate(task, file, FS_FALLOC_INSERT_RANGE, pos, len))
		move_back(task, file, pos, len);
	__atomic_fetch_add(&file->moves, 1, __ATOMIC_SEQ_CST);
	check(inode_size_read(handle_of(task, file)->f_inode) == size, "moving changed the size");
	env_rwsem_write_unlock(&file->gate);
}

/* ---- sync ---- */

static void tell(struct shared_file *file, unsigned int handle)
{
	file->told[handle] = true;
	file->told_at[handle] = ++file->model.now;
}

int sync_handle(struct shared_file *file, unsigned int handle, bool datasync)
{
	uint64_t start = ++file->model.now;
	int err = file_fsync(file->handles[handle], 0, UINT64_MAX, datasync);

	check_error(err, "fsync");
	if (err)
		tell(file, handle);
	else
		model_synced(&file->model, start, file->told_at[handle]);
	note("fsync of file %u by handle %u: %d", file->model.nr, handle, err);
	return err;
}

int sync_all(void)
{
	int err = world.fsys->sync();

	check_error(err, "sync");
	if (err)
		sync_told = true;
	return err;
}

static void op_fsync(struct task *task)
{
	struct shared_file *file = some_file(task);

	note("task %u: fsync file %u", task->nr, file->model.nr);
	sync_handle(file, task->nr, below(task, 2));
}

/* What is written must be there, though others write, and sync, beside it. */
static void op_write_through(struct task *task)
{
	struct shared_file *file = own_file(task);
	unsigned int first, nr;

	nr = own_cells(task, file, &first);
	env_rwsem_read_lock(&file->gate);
	write_cells(task, &file->model, handle_of(task, file), first, nr);
	sync_handle(file, task->nr, true);
	env_rwsem_read_unlock(&file->gate);
}

static void check_all_written(struct task *task, struct shared_file *file)
{
	const struct address_space *mapping = &handle_of(task, file)->f_inode->i_mapping;

	check(mapping->nr_dirty == 0 && mapping->nr_writeback == 0,
	      "file %u: after fsync %llu pages are dirty, %llu under writeback", file->model.nr,
	      (unsigned long long)mapping->nr_dirty, (unsigned long long)mapping->nr_writeback);
	/* Whoever was on the way with an error has had the time to leave it. */
	env_sleep_ns(1);
	check(!sync_handle(file, task->nr, true),
	      "file %u: an fsync tells what one before "
	      "should have told",
	      file->model.nr);
}

/* While nobody writes to the file nothing is left to do, and to tell, after an fsync. */
static void op_fsync_alone(struct task *task)
{
	struct shared_file *file = some_file(task);

	env_rwsem_write_lock(&file->gate);
	note("task %u: fsync file %u, alone", task->nr, file->model.nr);
	if (!sync_handle(file, task->nr, below(task, 2)))
		check_all_written(task, file);
	env_rwsem_write_unlock(&file->gate);
}

static void op_sync_range(struct task *task)
{
	struct shared_file *file = some_file(task);
	int err;

	note("task %u: sync_range file %u", task->nr, file->model.nr);
	err = fs_sync_range(handle_of(task, file), below(task, FILE_CELLS) * CELL,
			    below(task, MAX_OP_CELLS) * CELL, below(task, 2));
	check_error(err, "sync_range");
	if (err)
		tell(file, task->nr);
}

static void op_sync(struct task *task)
{
	int err;

	note("task %u: sync", task->nr);
	err = sync_all();
	note("task %u: synced: %d", task->nr, err);
}

static void op_writeback(struct task *task)
{
	note("task %u: writeback", task->nr);
	bdi_start_writeback(world.bdi, (int64_t)below(task, 64));
}

/* ---- memory ---- */

static void op_drop(struct task *task)
{
	note("task %u: drop", task->nr);
	page_cache_drop(world.cache);
}

static void op_dontneed(struct task *task)
{
	struct shared_file *file = some_file(task);

	note("task %u: dontneed file %u", task->nr, file->model.nr);
	fs_advise(handle_of(task, file), below(task, FILE_CELLS / 2) * CELL,
		  below(task, MAX_OP_CELLS) * CELL, FS_ADVICE_DONTNEED);
}

/* Of folios larger than they must be: a smaller one will do. */
static void op_fail_alloc(struct task *task)
{
	unsigned int order = world.plan->block_size > 4096 ? 2 : 1;

	page_cache_fail_alloc(world.cache, order + (unsigned int)below(task, 3),
			      (unsigned int)below(task, 4));
}

/* ---- contexts ---- */

static void op_contexts(struct task *task)
{
	unsigned int nr = 1 + (unsigned int)below(task, 5);
	int err;

	note("task %u: %u contexts", task->nr, nr);
	err = bdi_set_nr_contexts(world.bdi, nr);
	check(!err, "bdi_set_nr_contexts(%u) gave %d", nr, err);
	note("task %u: has contexts", task->nr);
}

static void op_tuning(struct task *task)
{
	struct bdi_tuning tuning;
	int err;

	bdi_get_tuning(world.bdi, &tuning);
	tuning.map = (enum wb_map)below(task, WB_MAP_INDEX + 1);
	tuning.throttle_share = (enum wb_share)below(task, 2);
	tuning.rebind_on_refile = below(task, 2);
	/* Off, pages of contexts that nobody writes to wait for the periodic writeback (W21). */
	tuning.kick_all = below(task, 2) || !world.plan->interval_ns;
	tuning.sync_serial = below(task, 2);
	tuning.single_completion_queue = below(task, 2);
	tuning.workers_per_ctx = 1 + (unsigned int)below(task, 3);
	tuning.min_slice = (1 + below(task, 64)) * 4096;
	tuning.min_ratio = 0;
	tuning.max_ratio = 100 - (uint32_t)below(task, 50);
	tuning.strict_limit = below(task, 2);
	note("task %u: tuning, map %d", task->nr, tuning.map);
	err = bdi_set_tuning(world.bdi, &tuning);
	check(!err, "bdi_set_tuning gave %d", err);
}

/* ---- files that come and go ---- */

static struct file *open_file(const char *name)
{
	struct file *file;
	int err = world.fsys->open(name, &file);

	check(!err, "open %s gave %d", name, err);
	return file;
}

static void unlink_file(const char *name)
{
	int err = world.fsys->unlink(name);

	check_error(err, "unlink");
}

static void op_temp_file(struct task *task)
{
	struct file *file;
	char name[16];

	snprintf(name, sizeof(name), "t%u-%u", task->nr, task->nr_temps++);
	note("task %u: create %s", task->nr, name);
	file = open_file(name);
	model_init(&task->temp, 100 + task->nr);
	for (uint64_t i = below(task, 4); i > 0; i--) {
		unsigned int first = (unsigned int)below(task, 64);

		write_cells(task, &task->temp, file, first, some_cells(task));
	}
	if (below(task, 3) == 0)
		check_error(file_fsync(file, 0, UINT64_MAX, false), "fsync");
	if (below(task, 2))
		resize(task, &task->temp, file, below(task, 10000) & ~7ull);
	if (below(task, 2))
		read_cells(task, &task->temp, file, 0, 64);
	note("task %u: unlink %s", task->nr, name);
	if (below(task, 2)) {
		unlink_file(name);
		read_cells(task, &task->temp, file, 0, 64);
		world.fsys->close(file);
	} else {
		world.fsys->close(file);
		unlink_file(name);
	}
	note("task %u: gone %s", task->nr, name);
}

static void op_reopen(struct task *task)
{
	struct shared_file *file = some_file(task);
	struct file *again = open_file(file->name);

	note("task %u: another handle of file %u", task->nr, file->model.nr);
	check(again->f_inode == handle_of(task, file)->f_inode, "%s is another file", file->name);
	if (below(task, 2))
		check_error(file_fsync(again, 0, UINT64_MAX, true), "fsync");
	world.fsys->close(again);
}

static void op_sleep(struct task *task)
{
	env_sleep_ns(below(task, 20000000));
}

/* ---- the mix ---- */

static const struct {
	unsigned int weight;
	void (*fn)(struct task *task);
} ops[] = {
	{30, op_write}, {20, op_read},	       {8, op_truncate},    {4, op_fallocate},
	{6, op_fsync},	{4, op_sync_range},    {3, op_sync},	    {4, op_writeback},
	{5, op_drop},	{4, op_dontneed},      {2, op_fail_alloc},  {5, op_contexts},
	{2, op_tuning}, {3, op_temp_file},     {2, op_reopen},	    {3, op_sleep},
	{16, op_peek},	{6, op_write_through}, {8, op_fsync_alone}, {6, op_zero},
	{3, op_move},
};

#define NR_OPS (sizeof(ops) / sizeof(ops[0]))

static_assert(NR_OPS <= MAX_OPS, "the plan has a number for each");

static void one_op(struct task *task)
{
	const unsigned int *emphasis = world.plan->emphasis;
	unsigned int sum = 0;
	uint64_t choice;

	/* Whatever the seed left out, something is written. */
	for (unsigned int i = 0; i < NR_OPS; i++)
		sum += ops[i].weight * emphasis[i];
	if (sum == 0 || below(task, 4) == 0) {
		op_write(task);
		return;
	}
	choice = below(task, sum);
	for (unsigned int i = 0; i < NR_OPS; i++) {
		if (choice < ops[i].weight * emphasis[i]) {
			ops[i].fn(task);
			return;
		}
		choice -= ops[i].weight * emphasis[i];
	}
}

void task_main(void *arg)
{
	struct task *task = arg;

	for (unsigned int i = 0; i < world.plan->nr_ops; i++) {
		if (world.plan->restless && below(task, 2))
			op_contexts(task);
		one_op(task);
	}
}

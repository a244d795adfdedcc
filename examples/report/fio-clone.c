/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fio-clone.c - the I/O of one clone of a job
 *
 * A clone makes passes over its files.  A pass is a loop: the rotation gives a file, which
 * is opened if need be; then either a sync is due, or the next block of that file is read
 * or written.  A file without a next block is closed and leaves the rotation.  A pass ends
 * when no file is left or when all bytes are issued.
 */
#include "fio-clone.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define PROGRESS_BYTES (1U << 20)
#define CLOCK_EVERY_NS 50000
#define CLOCK_IOS_MAX  64

static const struct fio_target_ops *clone_ops(const struct fio_clone *clone)
{
	return clone->runner->target->ops;
}

static const struct fio_options *clone_opt(const struct fio_clone *clone)
{
	return &clone->job->opt;
}

/* ---- time ---------------------------------------------------------------- */

/* What was counted during the ramp is dropped; what setup wrote stays. */
static void end_ramp(struct fio_clone *clone, uint64_t now)
{
	uint64_t layout_bytes = clone->counters.layout_bytes;

	memset(&clone->counters, 0, sizeof(clone->counters));
	clone->counters.layout_bytes = layout_bytes;
	clone->counted_from_ns = now;
	clone->ramp_end_ns = UINT64_MAX;
	if (clone_ops(clone)->ramp_done)
		clone_ops(clone)->ramp_done(clone->runner->target->ctx, clone->job_index);
}

static void look_at_clock(struct fio_clone *clone)
{
	uint64_t now = env_clock_ns();
	uint64_t passed = now - clone->checked_ns;

	if (now >= clone->ramp_end_ns)
		end_ramp(clone, now);
	if (now >= clone->stop_ns)
		clone->time_is_up = true;
	/* Look less often while I/Os are quick. */
	if (passed < CLOCK_EVERY_NS && clone->check_every < CLOCK_IOS_MAX)
		clone->check_every *= 2;
	else if (passed > 2 * CLOCK_EVERY_NS)
		clone->check_every = 1;
	clone->checked_ns = now;
	clone->check_left = clone->check_every;
}

static bool time_is_up(struct fio_clone *clone)
{
	if (clone->stop_ns != UINT64_MAX && --clone->check_left == 0)
		look_at_clock(clone);
	return clone->time_is_up || fio_clone_must_end(clone);
}

/* Sleep in short pieces, so that the clone can be told to end. */
static void pause_until(struct fio_clone *clone, uint64_t until_ns)
{
	uint64_t now = env_clock_ns();

	if (until_ns > clone->stop_ns)
		until_ns = clone->stop_ns;
	while (now < until_ns && !fio_clone_must_end(clone)) {
		uint64_t left = until_ns - now;

		env_sleep_ns(left < 100000000 ? left : 100000000);
		now = env_clock_ns();
	}
}

static uint64_t units_ns(uint64_t units, uint64_t per_second)
{
	return (uint64_t)((unsigned __int128)units * 1000000000 / per_second);
}

/* rate and rate_iops: the next I/O waits for what was issued to have taken its time. */
static void keep_rate(struct fio_clone *clone, enum fio_dir dir)
{
	const struct fio_options *opt = clone_opt(clone);
	uint64_t due_ns = 0;

	if (opt->rate[dir])
		due_ns = units_ns(clone->issued_dir_bytes[dir], opt->rate[dir]);
	else if (opt->rate_iops[dir])
		due_ns = units_ns(clone->issued_dir_ios[dir], opt->rate_iops[dir]);
	if (due_ns)
		pause_until(clone, clone->start_ns + due_ns);
}

static void think(struct fio_clone *clone)
{
	const struct fio_options *opt = clone_opt(clone);
	uint64_t spin = opt->thinktime_spin < opt->thinktime ? opt->thinktime_spin : opt->thinktime;
	uint64_t begin;

	if (!opt->thinktime || ++clone->think_ios < opt->thinktime_blocks)
		return;
	clone->think_ios = 0;
	begin = env_clock_ns();
	while (env_clock_ns() - begin < spin)
		env_cpu(1000);
	pause_until(clone, begin + opt->thinktime);
}

static void report_progress(struct fio_clone *clone)
{
	__atomic_fetch_add(&clone->runner->progress->bytes_done, clone->unreported,
			   __ATOMIC_RELAXED);
	clone->unreported = 0;
}

/* ---- files --------------------------------------------------------------- */

static int drop_cache(struct fio_clone *clone, const struct fio_file *file)
{
	if (!clone_opt(clone)->invalidate)
		return 0;
	return clone_ops(clone)->fadvise(file->handle, file->offset, file->io_size,
					 FIO_ADVICE_DONTNEED);
}

static int advise_pattern(struct fio_clone *clone, const struct fio_file *file)
{
	const struct fio_options *opt = clone_opt(clone);
	bool random = opt->fadvise_hint == FIO_FADVISE_RANDOM ||
		      (opt->fadvise_hint == FIO_FADVISE_PATTERN && opt->random);

	if (opt->fadvise_hint == FIO_FADVISE_NONE)
		return 0;
	return clone_ops(clone)->fadvise(file->handle, file->offset, file->io_size,
					 random ? FIO_ADVICE_RANDOM : FIO_ADVICE_SEQUENTIAL);
}

static int open_file(struct fio_clone *clone, struct fio_file *file)
{
	char path[FIO_PATH_MAX];
	int err;

	fio_clone_path(clone, (uint64_t)(file - clone->files), path);
	err = clone_ops(clone)->open(clone->runner->target->ctx, path, fio_clone_open_flags(clone),
				     &file->handle);
	if (err) {
		file->handle = NULL;
		return fio_clone_fail(clone, file, "open", err);
	}
	clone->nr_open++;
	err = drop_cache(clone, file);
	if (!err)
		err = advise_pattern(clone, file);
	return err ? fio_clone_fail(clone, file, "fadvise", err) : 0;
}

/* Jobs that do not write never sync, and no sync follows another one. */
static bool may_sync(const struct fio_clone *clone)
{
	return clone_opt(clone)->writes && !clone->last_was_sync;
}

static int sync_file(struct fio_clone *clone, struct fio_file *file, bool data_only)
{
	int err = data_only ? clone_ops(clone)->fdatasync(file->handle)
			    : clone_ops(clone)->fsync(file->handle);

	clone->counters.syncs++;
	if (err)
		return fio_clone_fail(clone, file, data_only ? "fdatasync" : "fsync", err);
	return 0;
}

static int close_file(struct fio_clone *clone, struct fio_file *file)
{
	int sync_err = 0;
	int err;

	if (!file->handle)
		return 0;
	if (clone_opt(clone)->fsync_on_close && may_sync(clone))
		sync_err = sync_file(clone, file, false);
	err = clone_ops(clone)->close(clone->runner->target->ctx, file->handle);
	file->handle = NULL;
	clone->nr_open--;
	if (err)
		fio_clone_fail(clone, file, "close", err);
	return sync_err ? sync_err : err;
}

static int unlink_file(struct fio_clone *clone, struct fio_file *file)
{
	char path[FIO_PATH_MAX];
	int err;

	fio_clone_path(clone, (uint64_t)(file - clone->files), path);
	err = clone_ops(clone)->unlink(clone->runner->target->ctx, path);
	return err && err != -ENOENT ? fio_clone_fail(clone, file, "unlink", err) : 0;
}

static int close_all(struct fio_clone *clone)
{
	int first = 0;

	for (uint64_t i = 0; i < clone->nr_files; i++) {
		int err = close_file(clone, &clone->files[i]);

		if (!first)
			first = err;
	}
	return first;
}

static int unlink_all(struct fio_clone *clone)
{
	int err = 0;

	for (uint64_t i = 0; i < clone->nr_files && !err; i++)
		err = unlink_file(clone, &clone->files[i]);
	return err;
}

/* ---- the rotation -------------------------------------------------------- */

static bool file_can_serve(const struct fio_clone *clone, const struct fio_file *file)
{
	return !file->done && (file->handle || clone->nr_open < clone_opt(clone)->openfiles);
}

/* The next file from clone->next_file on that is not done. */
static struct fio_file *choose_in_turn(struct fio_clone *clone)
{
	for (uint64_t i = 0; i < clone->nr_files; i++) {
		struct fio_file *file = &clone->files[clone->next_file];

		if (++clone->next_file == clone->nr_files)
			clone->next_file = 0;
		if (file_can_serve(clone, file))
			return file;
	}
	return NULL;
}

static struct fio_file *choose_at_random(struct fio_clone *clone)
{
	for (unsigned int tries = 0; tries < 64; tries++) {
		uint64_t nr =
			fio_dist_draw(&clone_opt(clone)->service_dist, FIO_READ, &clone->file_skew,
				      &clone->file_rng, clone->nr_files, 1);

		if (file_can_serve(clone, &clone->files[nr]))
			return &clone->files[nr];
	}
	clone->next_file = env_rng_below(&clone->file_rng, clone->nr_files);
	return choose_in_turn(clone);
}

static bool service_goes_on(struct fio_clone *clone)
{
	if (!clone->service_file || !clone->service_file->handle || clone->service_file->done)
		return false;
	if (clone_opt(clone)->service == FIO_SERVICE_SEQUENTIAL)
		return true;
	if (clone->service_left == 0)
		return false;
	clone->service_left--;
	return true;
}

/* Returns 0 with an open file, or with NULL if none is left. */
static int next_file(struct fio_clone *clone, struct fio_file **file)
{
	*file = clone->service_file;
	if (service_goes_on(clone))
		return 0;
	if (clone->nr_done == clone->nr_files)
		*file = NULL;
	else if (clone_opt(clone)->service == FIO_SERVICE_RANDOM)
		*file = choose_at_random(clone);
	else
		*file = choose_in_turn(clone);
	clone->service_file = *file;
	clone->service_left = clone_opt(clone)->service_ios - 1;
	if (!*file || (*file)->handle)
		return 0;
	return open_file(clone, *file);
}

static int finish_file(struct fio_clone *clone, struct fio_file *file)
{
	file->done = true;
	clone->nr_done++;
	return close_file(clone, file);
}

/* ---- the next block ------------------------------------------------------ */

/* A place in the job's part of a file, from its start. */
struct block {
	uint64_t at;
	uint64_t len;
};

static bool job_has_map(const struct fio_options *opt)
{
	return opt->random && !opt->norandommap;
}

static uint64_t draw_len(struct fio_clone *clone, enum fio_dir dir)
{
	const struct fio_options *opt = clone_opt(clone);
	const struct fio_span *bs = &opt->bs[dir];

	if (bs->min == bs->max)
		return bs->min;
	if (opt->bssplit[dir]) {
		const struct fio_bssplit *split = opt->bssplit[dir];
		uint64_t draw = env_rng_below(&clone->size_rng, 100);

		for (unsigned int i = 0; i + 1 < opt->nr_bssplit[dir]; i++, split++) {
			if (draw < split->percent)
				break;
			draw -= split->percent;
		}
		return split->bs;
	}
	if (opt->bs_unaligned)
		return bs->min + env_rng_below(&clone->size_rng, bs->max - bs->min + 1);
	return bs->min * (1 + env_rng_below(&clone->size_rng, bs->max / bs->min));
}

/* A length that fits between at and the end of the file, 0: not even the smallest. */
static uint64_t fitting_len(struct fio_clone *clone, const struct fio_file *file, enum fio_dir dir,
			    uint64_t at)
{
	uint64_t room = at < file->io_size ? file->io_size - at : 0;
	uint64_t smallest = clone_opt(clone)->bs[dir].min;

	if (smallest > room)
		return 0;
	for (unsigned int tries = 0; tries < 100; tries++) {
		uint64_t len = draw_len(clone, dir);

		if (len <= room)
			return len;
	}
	return smallest;
}

/* In a time_based job a full map is cleared in place, and the file's cache is dropped. */
static int refill_map(struct fio_clone *clone, struct fio_file *file, bool *is_full)
{
	*is_full = !clone_opt(clone)->time_based;
	if (*is_full)
		return 0;
	fio_map_clear(&file->map);
	return drop_cache(clone, file);
}

static int need_map(struct fio_clone *clone, struct fio_file *file)
{
	if (file->map.nr)
		return 0;
	return fio_map_init(&file->map, file->io_size / clone->unit) ? 0 : -ENOMEM;
}

/* A block that this pass has not touched yet, cut where a touched one follows. */
static int next_in_map(struct fio_clone *clone, struct fio_file *file, enum fio_dir dir,
		       struct block *block)
{
	uint64_t bit = FIO_MAP_NONE;
	bool is_full = false;
	uint64_t nr;
	int err;

	block->len = 0;
	if (file->io_size < clone_opt(clone)->bs[dir].min)
		return 0;
	err = need_map(clone, file);
	while (!err && !is_full && bit == FIO_MAP_NONE) {
		bit = fio_map_next_free(&file->map,
					env_rng_below(&clone->offset_rng, file->map.nr));
		if (bit == FIO_MAP_NONE)
			err = refill_map(clone, file, &is_full);
	}
	if (err || is_full)
		return err;

	block->at = bit * clone->unit;
	block->len = fitting_len(clone, file, dir, block->at);
	if (block->len == 0) /* a larger smallest block than the other direction's */
		block->len = clone->unit;
	nr = 1;
	if (block->len > clone->unit) {
		uint64_t run;

		nr = (block->len + clone->unit - 1) / clone->unit;
		run = fio_map_free_run(&file->map, bit, nr);
		if (run < nr)
			block->len = run * clone->unit;
		nr = run;
	}
	fio_map_take(&file->map, bit, nr);
	return 0;
}

static int next_drawn(struct fio_clone *clone, struct fio_file *file, enum fio_dir dir,
		      struct block *block)
{
	const struct fio_options *opt = clone_opt(clone);
	uint64_t align = opt->ba[dir];

	block->len = 0;
	if (file->io_size < opt->bs[dir].min)
		return 0;
	block->at = align * fio_dist_draw(&opt->dist, dir, &clone->skew, &clone->offset_rng,
					  (file->io_size - opt->bs[dir].min) / align + 1, align);
	block->len = fitting_len(clone, file, dir, block->at);
	return 0;
}

static int next_random(struct fio_clone *clone, struct fio_file *file, enum fio_dir dir,
		       struct block *block)
{
	return job_has_map(clone_opt(clone)) ? next_in_map(clone, file, dir, block)
					     : next_drawn(clone, file, dir, block);
}

/* A lone file of a time_based job starts again in place when its end is reached. */
static int wrap_in_place(struct fio_clone *clone, struct fio_file *file, enum fio_dir dir)
{
	const struct fio_options *opt = clone_opt(clone);

	if (!opt->time_based || clone->nr_files > 1 ||
	    file->last_pos[dir] < file->offset + file->io_size)
		return 0;
	file->last_pos[dir] = file->offset;
	return drop_cache(clone, file);
}

static int next_sequential(struct fio_clone *clone, struct fio_file *file, enum fio_dir dir,
			   struct block *block)
{
	int64_t hole = clone_opt(clone)->seq_hole;
	int err = wrap_in_place(clone, file, dir);

	block->len = 0;
	if (err || file->last_pos[dir] >= file->real_size)
		return err;
	block->at = file->last_pos[dir] - file->offset;
	if (block->at && hole) {
		block->at += (uint64_t)hole;
		if (block->at >= file->real_size) /* or below 0: unsigned */
			block->at = hole > 0 ? 0 : file->real_size + (uint64_t)hole;
	}
	block->len = fitting_len(clone, file, dir, block->at);
	return 0;
}

/* Is this I/O of a random job drawn, or does it follow on the last one? */
static bool draw_is_due(struct fio_clone *clone, enum fio_dir dir)
{
	const struct fio_options *opt = clone_opt(clone);

	if (opt->rand_run > 1) {
		if (clone->rand_left == 0)
			clone->rand_left = opt->rand_run;
		if (clone->rand_left-- < opt->rand_run)
			return false;
	}
	return opt->percentage_random[dir] == 100 ||
	       env_rng_below(&clone->mix_rng, 100) < opt->percentage_random[dir];
}

/* Sets block->len to 0 if nothing is left in the file. */
static int next_block(struct fio_clone *clone, struct fio_file *file, enum fio_dir dir,
		      struct block *block)
{
	const struct fio_options *opt = clone_opt(clone);
	int err;

	if (!opt->random)
		return next_sequential(clone, file, dir, block);
	if (draw_is_due(clone, dir))
		return next_random(clone, file, dir, block);
	if (opt->rand_run > 1 && opt->rand_identical) {
		block->at = file->last_start[dir] - file->offset;
		block->len = fitting_len(clone, file, dir, block->at);
		return 0;
	}
	err = next_sequential(clone, file, dir, block);
	if (err || block->len)
		return err;
	return next_random(clone, file, dir, block);
}

/* ---- contents ------------------------------------------------------------ */

/* An odd number: what it multiplies can be found again. */
#define STAMP 0xda942042e4dd58b5ULL

/* The 8 bytes at a multiple of 8 in the file, but for the pass that wrote them. */
static uint64_t pattern_base(const struct fio_file *file, uint64_t word)
{
	uint64_t mixed = (word + 1) * 0x9e3779b97f4a7c15ULL ^ file->path_hash;

	mixed = (mixed ^ mixed >> 29) * 0xbf58476d1ce4e5b9ULL;
	return mixed ^ mixed >> 32;
}

static void fill_pattern(const struct fio_file *file, unsigned char *buf, uint64_t pos,
			 uint64_t len, uint64_t pass)
{
	for (uint64_t done = 0; done < len;) {
		uint64_t word = pattern_base(file, (pos + done) / 8) + pass * STAMP;
		uint64_t skip = (pos + done) % 8;
		uint64_t part = 8 - skip < len - done ? 8 - skip : len - done;

		memcpy(buf + done, (unsigned char *)&word + skip, part);
		done += part;
	}
}

/* Which pass wrote the block?  Its first whole word says so. */
static uint64_t pattern_pass(const struct fio_file *file, const unsigned char *buf, uint64_t pos,
			     uint64_t len)
{
	uint64_t skip = (8 - pos % 8) % 8;
	uint64_t inverse = STAMP;
	uint64_t word;

	if (skip + 8 > len)
		return 0;
	for (unsigned int i = 0; i < 5; i++) /* Newton: the inverse modulo 2^64 */
		inverse *= 2 - STAMP * inverse;
	memcpy(&word, buf + skip, 8);
	return (word - pattern_base(file, (pos + skip) / 8)) * inverse;
}

/* The pass that a clone stamps; clones that share files cannot tell theirs apart. */
static uint64_t clone_stamp(const struct fio_clone *clone)
{
	return clone->shares_files ? 0 : clone->pass;
}

static int check_pattern(struct fio_clone *clone, const struct fio_file *file, uint64_t pos,
			 uint64_t len)
{
	uint64_t pass = clone_stamp(clone);

	if (!clone_opt(clone)->writes) { /* another job's blocks */
		pass = pattern_pass(file, clone->buf, pos, len);
		if (pass > UINT32_MAX)
			return fio_clone_fail(clone, file, "verify", -EILSEQ);
	}
	fill_pattern(file, clone->check_buf, pos, len, pass);
	if (memcmp(clone->buf, clone->check_buf, len) != 0)
		return fio_clone_fail(clone, file, "verify", -EILSEQ);
	return 0;
}

static int log_written(struct fio_clone *clone, const struct fio_file *file, uint64_t pos,
		       uint64_t len)
{
	if (clone->nr_written == clone->written_room) {
		uint64_t room = clone->written_room ? 2 * clone->written_room : 256;
		struct fio_written *larger = env_alloc(room * sizeof(*larger));

		if (!larger)
			return fio_clone_fail(clone, file, "verify log", -ENOMEM);
		if (clone->nr_written)
			memcpy(larger, clone->written, clone->nr_written * sizeof(*larger));
		env_free(clone->written);
		clone->written = larger;
		clone->written_room = room;
	}
	clone->written[clone->nr_written++] = (struct fio_written){
		.pos = pos,
		.file = (uint32_t)(file - clone->files),
		.len = (uint32_t)len,
	};
	return 0;
}

/* ---- one I/O ------------------------------------------------------------- */

static int read_block(struct fio_clone *clone, struct fio_file *file, uint64_t pos, uint64_t len)
{
	uint64_t done = 0;

	while (done < len) {
		ssize_t ret = clone_ops(clone)->pread(file->handle, clone->buf + done, len - done,
						      pos + done);

		clone->counters.read_calls++;
		if (ret <= 0) /* at the end of a file that is shorter than said: fio fails too */
			return fio_clone_fail(clone, file, "read", ret ? (int)ret : -EIO);
		done += (uint64_t)ret;
		clone->counters.read_bytes += (uint64_t)ret;
	}
	return 0;
}

static int write_block(struct fio_clone *clone, struct fio_file *file, uint64_t pos, uint64_t len)
{
	uint64_t done = 0;

	if (clone_opt(clone)->verify)
		fill_pattern(file, clone->buf, pos, len, clone_stamp(clone));
	while (done < len) {
		ssize_t ret = clone_ops(clone)->pwrite(file->handle, clone->buf + done, len - done,
						       pos + done);

		clone->counters.write_calls++;
		if (ret <= 0)
			return fio_clone_fail(clone, file, "write", ret ? (int)ret : -EIO);
		done += (uint64_t)ret;
		clone->counters.user_bytes += (uint64_t)ret;
	}
	if (file->first_write == UINT64_MAX || pos < file->first_write)
		file->first_write = pos;
	if (pos + len > file->last_write)
		file->last_write = pos + len;
	if (clone_opt(clone)->verify && clone_opt(clone)->do_verify)
		return log_written(clone, file, pos, len);
	return 0;
}

static void count_issued(struct fio_clone *clone, enum fio_dir dir, uint64_t len)
{
	clone->issued_bytes += len;
	clone->issued_ios++;
	clone->issued_writes += dir == FIO_WRITE;
	clone->issued_dir_bytes[dir] += len;
	clone->issued_dir_ios[dir]++;
	clone->unreported += len;
	if (clone->unreported >= PROGRESS_BYTES)
		report_progress(clone);
}

static int do_block(struct fio_clone *clone, struct fio_file *file, enum fio_dir dir,
		    const struct block *block)
{
	uint64_t pos = file->offset + block->at;
	int err;

	keep_rate(clone, dir);
	err = dir == FIO_WRITE ? write_block(clone, file, pos, block->len)
			       : read_block(clone, file, pos, block->len);
	if (!err && dir == FIO_READ && clone_opt(clone)->verify && !clone_opt(clone)->writes)
		err = check_pattern(clone, file, pos, block->len);
	if (err)
		return err;
	file->last_start[dir] = pos;
	file->last_pos[dir] = pos + block->len;
	clone->last_was_sync = false;
	count_issued(clone, dir, block->len);
	think(clone);
	return 0;
}

/* ---- syncs --------------------------------------------------------------- */

static bool count_is_due(const struct fio_clone *clone, uint64_t every)
{
	return every && clone->issued_writes && clone->issued_writes % every == 0;
}

/* The range that was written since the last call. */
static int sync_range(struct fio_clone *clone, struct fio_file *file)
{
	uint64_t pos = file->first_write;
	int err;

	if (pos == UINT64_MAX)
		return 0;
	err = clone_ops(clone)->sync_file_range(file->handle, pos, file->last_write - pos,
						clone_opt(clone)->sync_range_flags);
	clone->counters.syncs++;
	file->first_write = UINT64_MAX;
	file->last_write = 0;
	return err ? fio_clone_fail(clone, file, "sync_file_range", err) : 0;
}

/* If a sync is due, it goes to this file, whichever was written last. */
static int sync_if_due(struct fio_clone *clone, struct fio_file *file, bool *synced)
{
	const struct fio_options *opt = clone_opt(clone);
	int err;

	*synced = false;
	if (!may_sync(clone))
		return 0;
	if (count_is_due(clone, opt->fsync))
		err = sync_file(clone, file, false);
	else if (count_is_due(clone, opt->fdatasync))
		err = sync_file(clone, file, true);
	else if (count_is_due(clone, opt->sync_range))
		err = sync_range(clone, file);
	else
		return 0;
	*synced = true;
	clone->last_was_sync = true;
	return err;
}

/* end_fsync and fsync_on_close: every file once more when a pass is over. */
static int sync_round(struct fio_clone *clone)
{
	const struct fio_options *opt = clone_opt(clone);
	bool wanted = opt->end_fsync || opt->end_fdatasync || opt->fsync_on_close;
	int err = 0;

	if (!wanted || !may_sync(clone))
		return 0;
	for (uint64_t i = 0; i < clone->nr_files && !err; i++) {
		struct fio_file *file = &clone->files[i];
		bool was_open = file->handle;

		if (!was_open)
			err = open_file(clone, file);
		if (!err)
			err = sync_file(clone, file, opt->end_fdatasync && !opt->end_fsync);
		clone->last_was_sync = true;
		if (!was_open && file->handle) {
			int close_err = close_file(clone, file);

			err = err ? err : close_err;
		}
	}
	return err;
}

/* ---- verify -------------------------------------------------------------- */

static int verify_one(struct fio_clone *clone, const struct fio_written *written)
{
	struct fio_file *file = &clone->files[written->file];
	int err = file->handle ? 0 : open_file(clone, file);

	if (!err)
		err = read_block(clone, file, written->pos, written->len);
	if (!err)
		err = check_pattern(clone, file, written->pos, written->len);
	clone->last_was_sync = false;
	return err;
}

/* Read back what was written and not yet verified, in the order written. */
static int verify_written(struct fio_clone *clone)
{
	int err = 0;

	while (clone->nr_verified < clone->nr_written && !err && !time_is_up(clone))
		err = verify_one(clone, &clone->written[clone->nr_verified++]);
	return err;
}

static int verify_backlog(struct fio_clone *clone)
{
	uint64_t backlog = clone_opt(clone)->verify_backlog;
	int err;

	if (!backlog || clone->nr_written - clone->nr_verified < backlog)
		return 0;
	err = verify_written(clone);
	clone->nr_written = 0;
	clone->nr_verified = 0;
	return err;
}

static bool clone_verifies(const struct fio_clone *clone)
{
	const struct fio_options *opt = clone_opt(clone);

	return opt->verify && opt->do_verify && opt->writes && !opt->time_based;
}

/* ---- passes -------------------------------------------------------------- */

static uint64_t seed_of(const struct fio_clone *clone, unsigned int stream)
{
	return clone_opt(clone)->randseed * (clone->number + 1ULL) * 4 + stream;
}

static void seed(struct fio_clone *clone)
{
	env_rng_seed(&clone->offset_rng, seed_of(clone, 0));
	env_rng_seed(&clone->size_rng, seed_of(clone, 1));
	env_rng_seed(&clone->mix_rng, seed_of(clone, 2));
	env_rng_seed(&clone->file_rng, seed_of(clone, 3));
}

static void begin_pass(struct fio_clone *clone)
{
	if (clone->pass == 0 || clone_opt(clone)->randrepeat)
		seed(clone);
	clone->next_file = 0;
	clone->service_file = NULL;
	clone->nr_done = 0;
	clone->nr_written = 0;
	clone->nr_verified = 0;
	clone->rand_left = 0;
	clone->last_was_sync = false;
	for (uint64_t i = 0; i < clone->nr_files; i++) {
		struct fio_file *file = &clone->files[i];

		file->done = false;
		file->first_write = UINT64_MAX;
		file->last_write = 0;
		for (unsigned int dir = 0; dir < FIO_NR_DIRS; dir++) {
			file->last_pos[dir] = file->offset;
			file->last_start[dir] = file->offset;
		}
		if (file->map.nr)
			fio_map_clear(&file->map);
	}
}

static enum fio_dir choose_dir(struct fio_clone *clone)
{
	const struct fio_options *opt = clone_opt(clone);

	if (opt->reads && opt->writes)
		return env_rng_below(&clone->mix_rng, 100) < opt->rwmixread ? FIO_READ : FIO_WRITE;
	return opt->writes ? FIO_WRITE : FIO_READ;
}

static bool all_is_issued(const struct fio_clone *clone)
{
	if (clone_opt(clone)->time_based)
		return false;
	return clone->issued_bytes >= clone->limit || clone->issued_ios >= clone->ios_limit;
}

static int step(struct fio_clone *clone, struct fio_file *file)
{
	enum fio_dir dir;
	struct block block;
	bool synced;
	int err;

	err = sync_if_due(clone, file, &synced);
	if (err || synced)
		return err;
	dir = choose_dir(clone);
	err = next_block(clone, file, dir, &block);
	if (err)
		return fio_clone_fail(clone, file, "next block", err);
	if (block.len == 0)
		return finish_file(clone, file);
	return do_block(clone, file, dir, &block);
}

static int run_pass(struct fio_clone *clone)
{
	struct fio_file *file;
	int err = 0;

	begin_pass(clone);
	while (!err && !time_is_up(clone) && !all_is_issued(clone)) {
		err = verify_backlog(clone);
		if (!err)
			err = next_file(clone, &file);
		if (err || !file)
			break;
		err = step(clone, file);
	}
	if (!err)
		err = sync_round(clone);
	if (!err && clone_verifies(clone) && clone->nr_written) {
		err = close_all(clone);
		if (!err)
			err = verify_written(clone);
	}
	return err;
}

/* Passes go on for loops, then for as long as io_size asks for another block. */
static bool another_pass(const struct fio_clone *clone, uint64_t issued_before)
{
	const struct fio_options *opt = clone_opt(clone);
	uint64_t once = clone->limit / opt->loops;

	if (clone->time_is_up || fio_clone_must_end(clone) || opt->create_only)
		return false;
	if (clone->pass > 0 && clone->issued_ios == issued_before)
		return false;
	if (opt->time_based || clone->pass < opt->loops)
		return true;
	if (clone->issued_ios >= clone->ios_limit || clone->issued_bytes >= once)
		return false;
	if (once - clone->issued_bytes < fio_job_largest_block(opt))
		return false;
	return clone->nr_done < clone->nr_files || opt->io_size.value;
}

static int between_passes(struct fio_clone *clone)
{
	int err = close_all(clone);

	if (!err && clone_opt(clone)->unlink_each_loop)
		err = unlink_all(clone);
	return err;
}

static uint64_t job_time(const struct fio_clone *clone, uint64_t ns)
{
	const struct fio_scale *scale = &clone->runner->how->scale;

	if (!clone_opt(clone)->time_based || scale->keeps_time)
		return ns;
	return fio_scale_bytes(scale, ns, 1);
}

static void start_clock(struct fio_clone *clone)
{
	const struct fio_options *opt = clone_opt(clone);
	uint64_t ramp = job_time(clone, opt->ramp_time);

	clone->start_ns = env_clock_ns();
	clone->counted_from_ns = clone->start_ns;
	clone->checked_ns = clone->start_ns;
	clone->ramp_end_ns = ramp ? clone->start_ns + ramp : UINT64_MAX;
	clone->stop_ns = UINT64_MAX;
	if (opt->runtime)
		clone->stop_ns = clone->start_ns + ramp + job_time(clone, opt->runtime);
	else if (ramp)
		clone->stop_ns = UINT64_MAX - 1; /* the clock is looked at for the ramp */
	clone->check_every = 1;
	clone->check_left = 1;
}

/* fio unlinks a file while it is still open. */
static void finish_files(struct fio_clone *clone)
{
	for (uint64_t i = 0; i < clone->nr_files; i++) {
		struct fio_file *file = &clone->files[i];

		if (clone_opt(clone)->unlink && !clone_opt(clone)->create_only)
			unlink_file(clone, file);
		close_file(clone, file);
		if (file->map.nr)
			fio_map_destroy(&file->map);
	}
}

void fio_clone_work(struct fio_clone *clone)
{
	uint64_t issued_before = 0;
	int err = fio_clone_need_buf(clone);

	start_clock(clone);
	while (!err && another_pass(clone, issued_before)) {
		if (clone->pass > 0)
			err = between_passes(clone);
		if (err)
			break;
		issued_before = clone->issued_ios;
		err = run_pass(clone);
		clone->pass++;
	}
	finish_files(clone);
	clone->end_ns = env_clock_ns();
	report_progress(clone);
}

void fio_clone_destroy(struct fio_clone *clone)
{
	for (uint64_t i = 0; i < clone->nr_files && clone->files; i++) {
		assert(!clone->files[i].handle);
		if (clone->files[i].map.nr)
			fio_map_destroy(&clone->files[i].map);
	}
	env_free(clone->files);
	env_free(clone->written);
	env_free(clone->buf);
	env_free(clone->check_buf);
	clone->files = NULL;
	clone->written = NULL;
	clone->buf = NULL;
	clone->check_buf = NULL;
}

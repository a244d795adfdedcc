/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * rig.c - build device, cache, contexts and file system; read all their counters
 */
#include "rig.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <iomap/env.h>

/* Touching more memory than this at the start takes longer than the run may need. */
#define PREFAULT_MAX (1ull << 30)
#define FILE_WORKERS 4
#define NS_IN_MS     1000000ull

int rig_failed(char *err, const char *what, int error)
{
	const char *right = "";

	if (error == -ENOSPC)
		right = "; a larger --device-size would do";
	else if (error == -ENOMEM)
		right = "; a larger --memory would do";
	snprintf(err, ERR_MAX, "%s: %s%s", what, strerror(-error), right);
	return error;
}

/* ---- build ------------------------------------------------------------------------------ */

static int open_file_device(struct rig *rig, const char *path, char *err)
{
	const struct knobs *knobs = rig->knobs;
	uint64_t size = knob_number(knobs, KNOB_DEVICE_SIZE);
	struct stat st;
	int error;

	if (!knob_given(knobs, KNOB_DEVICE_SIZE) && stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
	    st.st_size > 0)
		size = (uint64_t)st.st_size;
	error = blkdev_file_open(&rig->dev, path, size, FILE_WORKERS);
	if (error)
		snprintf(err, ERR_MAX,
			 "--device 'file:%.200s': %s; it is a regular file or a block device that "
			 "may be written, of --device-size %s",
			 path, strerror(-error), size_text(size));
	return error;
}

static uint64_t inverse_scaled(const struct knobs *knobs, uint64_t ns)
{
	const struct knob_value *scale = &knobs->value[KNOB_SCALE];

	return ns * scale->den / scale->number;
}

/* 0 stays: it is no limit. */
static uint64_t scaled_rate(const struct knobs *knobs, uint64_t rate)
{
	return rate ? knobs_scaled(knobs, rate, 1) : 0;
}

/* As many requests as before, all shorter, and so is the longest; but no page is cut. */
static void shorten_requests(struct blkdev_profile *profile, const struct knobs *knobs)
{
	uint64_t page = knob_number(knobs, KNOB_PAGE_SIZE);

	if (profile->max_request)
		profile->max_request = knobs_scaled(knobs, profile->max_request, page);
}

/* Requests as long as before, but fewer: each takes longer by what sizes are smaller. */
static void slow_requests(struct blkdev_profile *profile, const struct knobs *knobs)
{
	profile->read_iops = scaled_rate(knobs, profile->read_iops);
	profile->write_iops = scaled_rate(knobs, profile->write_iops);
	profile->latency_ns = inverse_scaled(knobs, profile->latency_ns);
	profile->seek_min_ns = inverse_scaled(knobs, profile->seek_min_ns);
	profile->seek_max_ns = inverse_scaled(knobs, profile->seek_max_ns);
	profile->rotation_ns = inverse_scaled(knobs, profile->rotation_ns);
}

static void slow_down(struct blkdev_profile *profile, const struct knobs *knobs)
{
	profile->read_bandwidth = scaled_rate(knobs, profile->read_bandwidth);
	profile->write_bandwidth = scaled_rate(knobs, profile->write_bandwidth);
	if (knob_on(knobs, KNOB_SCALE_REQUESTS))
		shorten_requests(profile, knobs);
	else
		slow_requests(profile, knobs);
}

/* A model keeps its bytes in memory. */
static int put_model_over(struct rig *rig, char *err)
{
	const char *name = knobs_device_profile(rig->knobs);
	uint64_t queue = knob_number(rig->knobs, KNOB_DEVICE_QUEUE);
	struct block_device *below = rig->dev;
	struct blkdev_profile profile;
	int error;

	if (!name)
		return 0;
	profile = *blkdev_profile_find(name);
	if (knobs_scale_rates(rig->knobs) && !profile.synchronous)
		slow_down(&profile, rig->knobs);
	profile.passes_gaps |= knob_on(rig->knobs, KNOB_DEVICE_GAPS);
	profile.queue_bytes = queue ? knobs_scaled(rig->knobs, queue, 1) : 0;
	error = blkdev_model_create(&rig->dev, below, &profile);
	if (error) {
		rig->dev = below;
		return rig_failed(err, "no model of the device", error);
	}
	rig->model = rig->dev;
	return 0;
}

static int put_counter_over(struct rig *rig, char *err)
{
	struct block_device *below = rig->dev;
	int error = blkdev_count_create(&rig->dev, below);

	if (error) {
		rig->dev = below;
		return rig_failed(err, "no counter over the device", error);
	}
	return 0;
}

static int open_device(struct rig *rig, char *err)
{
	const char *spec = knob_text(rig->knobs, KNOB_DEVICE);
	uint64_t size = knob_number(rig->knobs, KNOB_DEVICE_SIZE);
	int error;

	rig->model = NULL;
	if (strncmp(spec, "file:", 5) == 0)
		error = open_file_device(rig, spec + 5, err);
	else if (strcmp(spec, "null") == 0)
		error = blkdev_null_create(&rig->dev, size, 0);
	else
		error = blkdev_ram_create(&rig->dev, size, 0);
	if (error) {
		rig->dev = NULL;
		if (!err[0])
			snprintf(err, ERR_MAX,
				 "--device-size %s: %s; it is a multiple of 512 the host can map",
				 size_text(size), strerror(-error));
		return error;
	}
	/* A wrapper tells what the device below it told when it was put over it. */
	rig->dev->io_max = rig->io_max;
	error = put_model_over(rig, err);
	return error ? error : put_counter_over(rig, err);
}

static int open_cache(struct rig *rig, char *err)
{
	const struct knobs *knobs = rig->knobs;
	uint64_t dirty = knob_number(knobs, KNOB_DIRTY_BYTES);
	uint64_t background = knob_number(knobs, KNOB_DIRTY_BACKGROUND_BYTES);
	struct page_cache_config config;
	int error;

	page_cache_config_init(&config);
	config.capacity = knobs_scaled(knobs, knob_number(knobs, KNOB_MEMORY), 1);
	config.page_size = (uint32_t)knob_number(knobs, KNOB_PAGE_SIZE);
	config.max_folio = (uint32_t)knob_number(knobs, KNOB_MAX_FOLIO);
	config.dirty_tracking = (enum dirty_tracking)knob_number(knobs, KNOB_DIRTY_TRACKING);
	config.order_hint = knob_on(knobs, KNOB_ORDER_HINT);
	config.prefault = config.capacity <= PREFAULT_MAX && !knobs_virtual(knobs);
	config.dirty_ratio = (uint32_t)knob_number(knobs, KNOB_DIRTY_RATIO);
	config.dirty_background_ratio = (uint32_t)knob_number(knobs, KNOB_DIRTY_BACKGROUND_RATIO);
	config.dirty_expire_ns = knob_number(knobs, KNOB_DIRTY_EXPIRE_MS) * NS_IN_MS;
	config.writeback_interval_ns = knob_number(knobs, KNOB_WRITEBACK_INTERVAL_MS) * NS_IN_MS;
	config.dirty_accounting = (enum dirty_accounting)knob_number(knobs, KNOB_DIRTY_ACCOUNTING);
	config.readahead_bytes = (uint32_t)knob_number(knobs, KNOB_READAHEAD);
	config.dirty_bytes = dirty ? knobs_scaled(knobs, dirty, 1) : 0;
	config.dirty_background_bytes = background ? knobs_scaled(knobs, background, 1) : 0;
	error = page_cache_create(&rig->cache, &config);
	if (error) {
		rig->cache = NULL;
		snprintf(err, ERR_MAX, "--memory %s: %s; it is from 2m to what the host can map",
			 size_text(config.capacity), strerror(-error));
	}
	return error;
}

static int tune_contexts(struct rig *rig)
{
	const struct knobs *knobs = rig->knobs;
	struct bdi_tuning tuning;

	bdi_get_tuning(rig->bdi, &tuning);
	tuning.throttle_share = (enum wb_share)knob_number(knobs, KNOB_THROTTLE_SHARE);
	tuning.rebind_on_refile = knob_on(knobs, KNOB_REBIND);
	tuning.kick_all = knob_on(knobs, KNOB_KICK_ALL);
	tuning.sync_serial = knob_on(knobs, KNOB_SYNC_SERIAL);
	tuning.single_completion_queue =
		knob_number(knobs, KNOB_COMPLETION_QUEUES) == COMPLETION_SINGLE;
	tuning.workers_per_ctx = (unsigned int)knob_number(knobs, KNOB_WORKERS_PER_CTX);
	tuning.min_slice = knob_number(knobs, KNOB_MIN_SLICE);
	tuning.min_ratio = (uint32_t)knob_number(knobs, KNOB_MIN_RATIO);
	tuning.max_ratio = (uint32_t)knob_number(knobs, KNOB_MAX_RATIO);
	tuning.strict_limit = knob_on(knobs, KNOB_STRICT_LIMIT);
	return bdi_set_tuning(rig->bdi, &tuning);
}

static int open_contexts(struct rig *rig, char *err)
{
	const struct knobs *knobs = rig->knobs;
	int error = bdi_create(&rig->bdi, rig->cache, rig->dev,
			       (unsigned int)knob_number(knobs, KNOB_NR_WB_CTX),
			       (enum wb_map)knob_number(knobs, KNOB_WB_MAP));

	if (error) {
		rig->bdi = NULL;
		return rig_failed(err, "no writeback contexts", error);
	}
	error = tune_contexts(rig);
	return error ? rig_failed(err, "tuning the writeback contexts", error) : 0;
}

static void add_option(char *options, size_t size, const char *option)
{
	size_t used = strlen(options);

	if (*option)
		snprintf(options + used, size - used, "%s%s", used ? "," : "", option);
}

static int open_fs(struct rig *rig, char *err)
{
	const struct knobs *knobs = rig->knobs;
	char options[1024] = "";
	char agcount[40] = "";
	struct fs_config config = {
		.type = knob_text(knobs, KNOB_FS),
		.block_size = (uint32_t)knob_number(knobs, KNOB_BLOCK_SIZE),
	};
	int error;

	if (knob_number(knobs, KNOB_AGS))
		snprintf(agcount, sizeof(agcount), "agcount=%llu",
			 (unsigned long long)knob_number(knobs, KNOB_AGS));
	add_option(options, sizeof(options), agcount);
	add_option(options, sizeof(options), knob_on(knobs, KNOB_DELALLOC) ? "" : "delalloc=off");
	add_option(options, sizeof(options), knob_text(knobs, KNOB_FS_OPTIONS));
	config.options = options[0] ? options : NULL;
	error = fs_mount(&rig->fs, rig->cache, rig->bdi, rig->dev, &config, err, ERR_MAX);
	if (!error) {
		err[0] = '\0';
		return 0;
	}
	rig->fs = NULL;
	if (!err[0])
		rig_failed(err, "mount", error);
	return error;
}

int rig_open(struct rig *rig, char *err)
{
	int error;

	err[0] = '\0';
	error = open_device(rig, err);
	if (!error)
		error = open_cache(rig, err);
	if (!error)
		error = open_contexts(rig, err);
	if (!error)
		error = open_fs(rig, err);
	if (error) {
		rig_close(rig);
		return -EINVAL;
	}
	rig_start(rig);
	return 0;
}

void rig_close(struct rig *rig)
{
	if (rig->fs)
		(void)fs_unmount(rig->fs);
	if (rig->bdi)
		bdi_destroy(rig->bdi);
	if (rig->dev)
		blkdev_destroy(rig->dev);
	if (rig->cache)
		page_cache_destroy(rig->cache);
	rig->fs = NULL;
	rig->bdi = NULL;
	rig->cache = NULL;
	rig->dev = NULL;
	rig->model = NULL;
}

/* ---- counters --------------------------------------------------------------------------- */

void rig_start(struct rig *rig)
{
	unsigned int nr = bdi_nr_contexts(rig->bdi);

	page_cache_get_stats(rig->cache, &rig->start_stats);
	for (unsigned int i = 0; i < nr; i++)
		wb_get_stats(rig->bdi, i, &rig->start_contexts[i]);
	blkdev_count_reset(rig->dev);
	if (rig->model)
		blkdev_model_reset(rig->model);
	__atomic_store_n(&rig->user_bytes, 0, __ATOMIC_RELAXED);
	rig->started_ns = env_clock_ns();
	rig->elapsed_ns = 0;
}

void rig_stop(struct rig *rig)
{
	rig->elapsed_ns = env_clock_ns() - rig->started_ns;
}

static void collect_device(struct rig *rig, struct results *results)
{
	struct blkdev_count count;

	blkdev_count_read(rig->dev, &count);
	results->data_bytes = count.bytes[BIO_WRITE][BIO_DATA];
	results->meta_bytes = count.bytes[BIO_WRITE][BIO_META];
	results->journal_bytes = count.bytes[BIO_WRITE][BIO_JOURNAL];
	results->gc_bytes = count.bytes[BIO_WRITE][BIO_GC];
	results->write_ios = count.ios[BIO_WRITE][BIO_DATA];
	results->meta_ios = count.ios[BIO_WRITE][BIO_META];
	results->journal_ios = count.ios[BIO_WRITE][BIO_JOURNAL];
	for (unsigned int kind = 0; kind < BIO_NR_KINDS; kind++)
		results->read_bytes += count.bytes[BIO_READ][kind];
	memcpy(results->write_hist, count.write_hist, sizeof(results->write_hist));
	if (rig->model)
		blkdev_model_read(rig->model, &results->model);
}

static void collect_cache(struct rig *rig, struct results *results)
{
	struct page_cache_stats stats;
	uint64_t page = page_cache_page_size(rig->cache);

	page_cache_get_stats(rig->cache, &stats);
	results->dirtied_bytes = stats.dirtied_bytes - rig->start_stats.dirtied_bytes;
	results->fill_bytes = stats.fill_bytes - rig->start_stats.fill_bytes;
	results->throttled_ns = stats.throttled_ns - rig->start_stats.throttled_ns;
	results->dirty_left_bytes = stats.nr_dirty * page;
	results->writeback_left_bytes = stats.nr_writeback * page;
	for (unsigned int order = 0; order < PAGE_CACHE_ORDERS; order++)
		results->folios[order] = stats.folios_created[order] - rig->start_folios[order];
}

/* What was done becomes what was done since the start. */
static void collect_context(const struct wb_stats *start, struct wb_stats *now)
{
#define X(name, text) now->name -= start->name;
	WB_TOTALS(X)
#undef X
}

static void collect_contexts(struct rig *rig, struct results *results)
{
	results->nr_wb_ctx = bdi_nr_contexts(rig->bdi);
	for (unsigned int i = 0; i < results->nr_wb_ctx; i++) {
		struct wb_stats *stats = &results->contexts[i];

		wb_get_stats(rig->bdi, i, stats);
		collect_context(&rig->start_contexts[i], stats);
		results->lock_wait_ns += stats->lock_wait_ns;
	}
}

void rig_collect(struct rig *rig, struct results *results)
{
	memset(results, 0, sizeof(*results));
	results->user_bytes = __atomic_load_n(&rig->user_bytes, __ATOMIC_RELAXED);
	results->elapsed_ns = rig->elapsed_ns;
	collect_device(rig, results);
	collect_cache(rig, results);
	collect_contexts(rig, results);
	results_derive(results);
}

/* ---- helpers of experiments ------------------------------------------------------------- */

void rig_count_folios(struct rig *rig)
{
	struct page_cache_stats stats;

	page_cache_get_stats(rig->cache, &stats);
	memcpy(rig->start_folios, stats.folios_created, sizeof(rig->start_folios));
}

int rig_drop_cache(struct rig *rig)
{
	int error = fs_sync(rig->fs);

	page_cache_drop(rig->cache);
	rig_count_folios(rig);
	return error;
}

int rig_add_extents(struct file *file, struct results *results)
{
	struct fs_extent_counts counts;
	int error = fs_count_extents(file, &counts);

	if (!error) {
		results->extents_merged += counts.merged;
		results->extents_unmerged += counts.unmerged;
	}
	return error;
}

int rig_write(struct rig *rig, struct file *file, const void *memory, size_t len, uint64_t pos)
{
	const unsigned char *from = memory;

	while (len > 0) {
		ssize_t n = fs_write(file, from, len, pos);

		if (n <= 0)
			return n ? (int)n : -EIO;
		__atomic_fetch_add(&rig->user_bytes, (uint64_t)n, __ATOMIC_RELAXED);
		from += n;
		pos += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * results.c - figures that follow from others
 */
#include "results.h"

#include <math.h>

static double ratio(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : NAN;
}

static uint64_t per_second(uint64_t bytes, uint64_t ns)
{
	return ns ? (uint64_t)((double)bytes * 1e9 / (double)ns) : 0;
}

void results_derive(struct results *results)
{
	uint64_t written = results->data_bytes + results->meta_bytes + results->journal_bytes +
			   results->gc_bytes;

	results->device_ios = results->model.ios;
	results->device_merged = results->model.merged;
	results->device_seeks = results->model.seeks;
	results->device_seek_ns = results->model.seek_ns;
	results->media_bytes = results->model.media_written;
	results->media_read_bytes = results->model.media_read;
	results->device_queue_max = results->model.queue_max;
	results->device_queue_ns = results->model.queue_wait_ns;
	results->device_busy_ns = 0;
	for (unsigned int i = 0; i < results->model.channels; i++)
		results->device_busy_ns += results->model.busy_ns[i];
	results->cache_amplification = ratio(results->data_bytes, results->dirtied_bytes);
	results->fs_amplification = ratio(written, results->user_bytes);
	results->bandwidth_bytes_per_s = per_second(results->user_bytes, results->elapsed_ns);
	results->read_bandwidth_bytes_per_s =
		per_second(results->user_read_bytes, results->elapsed_ns);
}

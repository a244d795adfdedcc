/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pub-page64k.c - figures of the random overwrites of T7, T8 and T9
 *
 * A page is written once for each time it becomes dirty, and a write makes it dirty if it finds
 * it clean.  So each write costs (page / block) x (1 - p) blocks of pages that are all there,
 * where p is the share of dirty pages, averaged over the writes.  A mean over time is smaller:
 * pages whose blocks have all had their turn are clean in the end, and no write comes to them any
 * more.
 */
#include "pub-page64k.h"

double page64k_figure(const struct run *run)
{
	const struct knob_value *scale = &run->knobs.value[KNOB_SCALE];
	double rate = (double)run->results.bandwidth_bytes_per_s / 1e6;

	if (!knobs_scale_rates(&run->knobs))
		return rate;
	return rate * (double)scale->den / (double)scale->number;
}

double page64k_cpu(const struct run *run)
{
	return 1 - (double)run->results.throttled_ns / (double)run->results.elapsed_ns;
}

static double amplification(const struct results *results)
{
	return (double)results->data_bytes / (double)results->user_bytes;
}

double page64k_amplification(const struct view *view, const struct band *band)
{
	return amplification(&view->runs[band->a]->results);
}

/* Pages that became dirty: writes that found theirs clean. */
static double nr_dirtied(const struct results *results)
{
	uint64_t nr = 0;

	for (unsigned int i = 0; i < results->nr_wb_ctx; i++)
		nr += results->contexts[i].dirtied;
	return (double)nr;
}

double page64k_identity(const struct view *view, const struct band *band)
{
	const struct run *run = view->runs[band->a];
	double page = (double)knob_number(&run->knobs, KNOB_PAGE_SIZE);
	double block = (double)knob_number(&run->knobs, KNOB_BLOCK_SIZE);
	double nr_writes = (double)run->results.user_bytes / block;
	double p = 1 - nr_dirtied(&run->results) / nr_writes;

	return amplification(&run->results) / (page / block * (1 - p));
}

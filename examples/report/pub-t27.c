/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pub-t27.c - the order hint for 1 MiB writes in a row, and requests of 4096 folios at most
 */
#include "published.h"

#include <math.h>

enum { HINT_OFF, HINT_ON };

static const struct cell cells[] = {
	{"hint off", 2500, .knobs = {"order-hint", "off"}},
	{"hint on", 7655, .knobs = {"order-hint", "on"}, .own = true},
};

static double nr_folios(const struct results *results)
{
	uint64_t nr = 0;

	for (unsigned int order = 0; order < PAGE_CACHE_ORDERS; order++)
		nr += results->folios[order];
	return (double)nr;
}

static double folios_over(const struct view *view, const struct band *band)
{
	return nr_folios(&view->runs[band->a]->results) / nr_folios(&view->runs[band->b]->results);
}

/* Log2 of the largest request, rounded down. */
static double largest_request(const struct view *view, const struct band *band)
{
	const struct results *results = &view->runs[band->a]->results;
	unsigned int largest = 0;

	for (unsigned int bucket = 0; bucket < BLKDEV_HIST_BUCKETS; bucket++)
		if (results->write_hist[bucket])
			largest = bucket;
	return largest;
}

static const struct band bands[] = {
	{"hint on over off", .a = HINT_ON, .b = HINT_OFF, .least = 2, .most = INFINITY,
	 .published = 3.06},
	{"folios, hint off over on", folios_over, .a = HINT_OFF, .b = HINT_ON, .least = 256,
	 .most = 256, .published = 256},
	{"hint off: log2 of the largest request, 4096 folios", largest_request, .a = HINT_OFF,
	 .least = 24, .most = 24, .published = 24},
};

const struct published published_t27 = {
	.id = "T27",
	.title = "4 jobs write 1 MiB in a row: order hint off and on",
	.where = "M. Wilcox, 2023-07, merged in 6.6: Linux 6.4-rc2, XFS",
	.system = {"fs", "xfs", "cpus", "16", "memory", "48g", "device", "null", "device-size",
		   "256g", "scale", "1/64"},
	.posted = {PLAIN_FLUSHER},
	.job = "fio --name=test --rw=write --bs=1m --size=32g --numjobs=4 "
	       "--io_size=8g",
	.cells = cells,
	.nr_cells = sizeof(cells) / sizeof(cells[0]),
	.bands = bands,
	.nr_bands = sizeof(bands) / sizeof(bands[0]),
	.note = "The device was not published; here it is one that takes no time, so that the "
		"caches' work is what limits.",
};

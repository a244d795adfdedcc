/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * calibrate-probe.h - what a round of calibration measures
 *
 *	err = probe_open(&probe, &size, &what);
 *	err = probe_round(&probe, ns, &what);	as often as wanted
 *	probe_close(probe);
 */
#ifndef REPORT_CALIBRATE_PROBE_H
#define REPORT_CALIBRATE_PROBE_H

#include "calibrate.h"

/* Nanoseconds of the host's clock for one of what the comment says. */
enum probe_figure {
	PROBE_COPY_512, /* memcpy of 512 bytes to a random page */
	PROBE_COPY_4K,
	PROBE_COPY_IN, /* 4 KiB of a memcpy of 128 KiB into the next memory */
	PROBE_COPY_OUT, /* .. out of it */
	/* in a few folios of a page, all in use */
	PROBE_WRITE_INSIDE, /* 2 bytes written inside a page */
	PROBE_WRITE_EDGE, /* .. over the edge of two */
	PROBE_WRITE_EDGE_MAPS, /* .. which are two records of the file's map */
	PROBE_READ_INSIDE,
	PROBE_READ_EDGE,
	PROBE_WRITE_PAGES, /* 4 KiB of a write of 128 KiB over folios of a page */
	PROBE_CREATE, /* .. that makes them */
	PROBE_FREE, /* a folio of a page evicted */
	PROBE_FLUSH_FOLIO, /* a folio of a page written back, in requests as long as can be */
	PROBE_FLUSH_REQUEST, /* .. in a request of its own */
	PROBE_END_FOLIO, /* a folio of a page completed */
	PROBE_FLUSH_OLD, /* a file's only block written back: it has a place */
	PROBE_FLUSH_NEW, /* .. it gets one */
	PROBE_END_OLD, /* a written block completed */
	PROBE_END_UNWRITTEN, /* an unwritten one */
	PROBE_END_UNWRITTEN_RMAP, /* .. and its group's reverse map */
	PROBE_END_OLD_RMAP, /* what the one above has to be compared with */
	PROBE_LOCK, /* a mutex taken by two threads in turn */
	PROBE_WAKE, /* from a futex's wake to the sleeper's next step, on another CPU */
	PROBE_SWITCH, /* .. on the same CPU; NAN if a thread cannot be bound to one */
	NR_PROBE_FIGURES
};

struct probe;

/* 0, or a negative errno with *what failed. */
int probe_open(struct probe **probe, const struct calibrate_size *size, const char **what);
int probe_round(struct probe *probe, double ns[NR_PROBE_FIGURES], const char **what);
void probe_close(struct probe *probe);

/* Sorts the values; NAN if one is. */
double median_of(double *values, unsigned int nr);

#endif

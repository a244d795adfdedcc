/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pieces.h - runs, each in the world its knobs ask for
 *
 *	struct piece pieces[2] = {{.run = a, .fn = measure, .arg = job}, ...};
 *
 *	error = pieces_run(pieces, 2, err);
 *
 * With the real clock they are done one after the other, here.  With the virtual clock each is
 * simulated in a process of its own, as many at once as the host has CPUs; what it leaves in
 * its struct run comes back.
 */
#ifndef REPORT_PIECES_H
#define REPORT_PIECES_H

#include "experiments.h"

struct piece {
	struct run *run;
	/* Fills run->results and run->jobs, nothing else.  0 or an error, with one line in err. */
	int (*fn)(struct run *run, const void *arg, char *err);
	const void *arg;

	/* set by pieces_run() */
	int error;
	char err[ERR_MAX];
};

/* The error of the first piece, in their order, that failed, with its line in err; or 0. */
int pieces_run(struct piece *pieces, unsigned int nr, char *err);

#endif

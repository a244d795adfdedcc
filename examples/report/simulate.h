/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * simulate.h - one run on virtual CPUs under a virtual clock
 */
#ifndef REPORT_SIMULATE_H
#define REPORT_SIMULATE_H

#include <iomap/sim.h>

#include "pieces.h"

/*
 * Do the piece, and add what the simulation knows to its results.  A finding of the simulator is
 * the error -EPROTO; text then holds what it has to say, and the memory of the run is lost.
 */
void simulate(struct piece *piece, char text[ENV_SIM_TEXT]);

#endif

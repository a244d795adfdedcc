/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * cli.h - the program without its main(), so that tests can call it
 */
#ifndef REPORT_CLI_H
#define REPORT_CLI_H

/* Returns what the program exits with: 0, 1 (a failed expectation or run), 2 (bad input). */
int report_main(int argc, char **argv);

#endif

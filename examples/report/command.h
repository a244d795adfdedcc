/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * command.h - what a command line says: a workload, knobs, and where results go
 */
#ifndef REPORT_COMMAND_H
#define REPORT_COMMAND_H

#include <stdbool.h>

#include "knobs.h"
#include "sweep.h"

struct command {
	struct knobs knobs;
	const char *workload; /* NULL: none */
	int fio_argc; /* 0: the workload is one argument */
	char **fio_argv;
	const char *json; /* NULL: none */
	const char *csv; /* NULL: none */
	struct sweep *sweep; /* set by the caller; NULL: the command is none */
};

/* The arguments behind the command's name.  0, or -EINVAL with one line in err. */
int command_read(struct command *command, int argc, char **argv, char *err);
/* Files must be writable before hours are spent. */
int command_check_files(const struct command *command, char *err);
/* A name that is no workload and no file: what was meant? */
int command_check_workload(const struct command *command, char *err);

/* Data go to stdout, and nothing else. */
bool command_quiet(const struct command *command);

#endif

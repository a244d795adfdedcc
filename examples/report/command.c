/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * command.c - read a command line
 */
#include "command.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "experiments.h"
#include "fio-parse.h"
#include "published.h"

#define NAMES_MAX 256

bool command_quiet(const struct command *command)
{
	return (command->json && strcmp(command->json, "-") == 0) ||
	       (command->csv && strcmp(command->csv, "-") == 0);
}

/* ---- reading ---------------------------------------------------------------------------- */

/* What the options take that are no knobs; NULL: there is no such option. */
static const char *option_takes(const char *name)
{
	static const struct {
		const char *name;
		const char *takes;
	} options[] = {
		{"json", "a FILE or -"},
		{"trace", "a FILE"},
		{"vary", "NAME=VALUES, as in nr-wb-ctx=1..12"},
		{"show", "names of results"},
		{"csv", "a FILE or -"},
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (strcmp(options[i].name, name) == 0)
			return options[i].takes;
	return NULL;
}

static int set_option(struct command *command, const char *name, const char *value, char *err)
{
	const char *takes = option_takes(name);

	if (!value || !*value) {
		snprintf(err, ERR_MAX, "--%s has no value; it takes %s", name, takes);
		return -EINVAL;
	}
	if (strcmp(name, "json") == 0) {
		command->json = value;
		return 0;
	}
	if (strcmp(name, "trace") == 0) {
		command->knobs.trace = value;
		return 0;
	}
	if (!command->sweep) {
		snprintf(err, ERR_MAX, "--%s belongs to 'iomap-report sweep WORKLOAD'", name);
		return -EINVAL;
	}
	if (strcmp(name, "vary") == 0)
		return sweep_add(command->sweep, value, err);
	if (strcmp(name, "show") == 0)
		return sweep_show(command->sweep, value, err);
	command->csv = value;
	return 0;
}

/* `--name value` or `--name=value`; *i moves to the last argument used. */
static int read_knob(struct command *command, int argc, char **argv, int *i, char *err)
{
	static char name[64];
	const char *given = argv[*i] + 2;
	size_t len = strcspn(given, "=");
	const char *value = given[len] ? given + len + 1 : NULL;
	int error;

	snprintf(name, sizeof(name), "%.*s", (int)len, given);
	if (!value && *i + 1 < argc)
		value = argv[*i + 1];
	if (option_takes(name))
		error = set_option(command, name, value, err);
	else
		error = knobs_set(&command->knobs, name, value, err);
	if (!given[len])
		(*i)++;
	return error;
}

int command_read(struct command *command, int argc, char **argv, char *err)
{
	knobs_init(&command->knobs);
	for (int i = 0; i < argc; i++) {
		if (strncmp(argv[i], "--", 2) == 0) {
			if (read_knob(command, argc, argv, &i, err))
				return -EINVAL;
		} else if (argv[i][0] == '-' && argv[i][1]) {
			snprintf(err, ERR_MAX,
				 "no option '%.100s'; knobs start with --, as in --fs", argv[i]);
			return -EINVAL;
		} else if (command->workload) {
			snprintf(err, ERR_MAX,
				 "'%.100s' comes after '%.100s'; one run has one workload", argv[i],
				 command->workload);
			return -EINVAL;
		} else {
			command->workload = argv[i];
			if (strcmp(argv[i], "fio") == 0) {
				command->fio_argc = argc - i;
				command->fio_argv = argv + i;
				return 0;
			}
		}
	}
	return 0;
}

/* ---- checks ----------------------------------------------------------------------------- */

static int check_file(const char *option, const char *path, const char *right, char *err)
{
	FILE *file;

	if (!path || (strcmp(path, "-") == 0 && strcmp(option, "trace") != 0))
		return 0;
	file = strcmp(path, "-") == 0 ? NULL : fopen(path, "a");
	if (!file) {
		snprintf(err, ERR_MAX, "--%s '%.200s': %s; it is a file that may be written%s",
			 option, path, strcmp(path, "-") == 0 ? "no file" : strerror(errno), right);
		return -EINVAL;
	}
	fclose(file);
	return 0;
}

int command_check_files(const struct command *command, char *err)
{
	int bad = check_file("json", command->json, ", or -", err);

	if (!bad)
		bad = check_file("csv", command->csv, ", or -", err);
	if (!bad)
		bad = check_file("trace", command->knobs.trace, "", err);
	if (!bad && command->json && command->csv && strcmp(command->json, "-") == 0 &&
	    strcmp(command->csv, "-") == 0) {
		snprintf(err, ERR_MAX, "--json - and --csv - both; one of them takes a FILE");
		bad = -EINVAL;
	}
	return bad;
}

static bool is_workload(const struct command *command)
{
	const char *name = command->workload;

	return command->fio_argc || experiment_find(name) || published_find(name) ||
	       named_sweep_find(name) || fio_line_is_command(name);
}

int command_check_workload(const struct command *command, char *err)
{
	const char *names[NAMES_MAX + 1];
	const char *nearest;
	unsigned int nr = 0;
	FILE *file;

	if (is_workload(command))
		return 0;
	file = fopen(command->workload, "r");
	if (file) {
		fclose(file);
		return 0;
	}
	if (errno != ENOENT || strpbrk(command->workload, "./"))
		return 0;
	for (unsigned int i = 0; experiments[i] && nr < NAMES_MAX; i++)
		names[nr++] = experiments[i]->name;
	for (unsigned int i = 0; published_tables[i] && nr < NAMES_MAX; i++)
		names[nr++] = published_tables[i]->id;
	for (unsigned int i = 0; named_sweeps[i] && nr < NAMES_MAX; i++)
		names[nr++] = named_sweeps[i]->name;
	names[nr] = NULL;
	nearest = word_nearest(command->workload, names);
	snprintf(err, ERR_MAX, "no file or experiment '%.200s'; %s%s%s", command->workload,
		 nearest ? "did you mean '" : "'iomap-report list' has the experiments",
		 nearest ? nearest : "", nearest ? "'?" : "");
	return -EINVAL;
}

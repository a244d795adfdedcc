/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * cli.c - the command line
 */
#include "cli.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "experiments.h"
#include "fio-parse.h"
#include "jobs.h"
#include "json.h"
#include "progress.h"
#include "report.h"
#include "table.h"

static const char usage[] =
	"usage:\n"
	"  iomap-report [--json FILE|-]          every experiment, published figures beside ours\n"
	"  iomap-report run WORKLOAD [knobs]     one workload\n"
	"  iomap-report list                     workloads, file systems, knobs, results\n"
	"\n"
	"WORKLOAD is a built-in experiment, a fio job file, a .cmd file of commands, or a command\n"
	"line of fio: quoted as one argument, or as all arguments from `fio' on.\n"
	"Exit status: 0, 1 if an expectation failed, 2 if the input is wrong.\n";

static const char *const subcommands[] = {"run", "list", "help", NULL};
static const char *const later_subcommands[] = {"sweep", "compare", "calibrate", NULL};

struct command {
	struct knobs knobs;
	const char *workload;
	int fio_argc; /* 0: the workload is one argument */
	char **fio_argv;
	const char *json; /* NULL: none */
};

static int complain(const char *err)
{
	progress_hide();
	fprintf(stderr, "iomap-report: %s\n", err);
	return EXIT_BAD_INPUT;
}

static bool word_is_in(const char *word, const char *const *words)
{
	for (unsigned int i = 0; words[i]; i++)
		if (strcmp(words[i], word) == 0)
			return true;
	return false;
}

/* ---- reading ---------------------------------------------------------------------------- */

/* `--name value` or `--name=value`; *i moves to the last argument used. */
static int read_knob(struct command *command, int argc, char **argv, int *i, char *err)
{
	static char name[64];
	const char *given = argv[*i] + 2;
	size_t len = strcspn(given, "=");
	const char *value = given[len] ? given + len + 1 : NULL;

	snprintf(name, sizeof(name), "%.*s", (int)len, given);
	if (!value && *i + 1 < argc)
		value = argv[*i + 1];
	if (strcmp(name, "json") == 0) {
		if (!value || !*value) {
			snprintf(err, ERR_MAX, "--json has no value; it takes a FILE or -");
			return -EINVAL;
		}
		command->json = value;
	} else if (knobs_set(&command->knobs, name, value, err)) {
		return -EINVAL;
	}
	if (!given[len])
		(*i)++;
	return 0;
}

static int read_command(struct command *command, int argc, char **argv, char *err)
{
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

/* ---- running ---------------------------------------------------------------------------- */

static bool quiet(const char *json)
{
	return json && strcmp(json, "-") == 0;
}

static int finish(const struct outcome *outcome, const struct command *command, int status,
		  char *err)
{
	if (!quiet(command->json))
		outcome_print(outcome, false, stdout);
	if (command->json && json_write_outcome(outcome, command->json, err))
		return complain(err);
	for (unsigned int i = 0; i < outcome->nr_runs; i++)
		for (unsigned int j = 0; j < outcome->runs[i].nr_jobs; j++)
			if (outcome->runs[i].jobs[j].error[0])
				fprintf(stderr, "iomap-report: %s\n",
					outcome->runs[i].jobs[j].error);
	for (unsigned int i = 0; i < outcome->nr_facts; i++) {
		const struct fact *one = &outcome->facts[i];

		if (one->verdict == FACT_MISS)
			fprintf(stderr, "iomap-report: %s: %s is %s; expected %s (%s)\n",
				outcome->workload, one->what, one->ours, one->expected,
				one->source);
	}
	return status;
}

/* --json FILE must be writable before hours are spent. */
static int check_json(const char *path, char *err)
{
	FILE *file;

	if (!path || strcmp(path, "-") == 0)
		return 0;
	file = fopen(path, "a");
	if (!file) {
		snprintf(err, ERR_MAX,
			 "--json '%.200s': %s; it is a file that may be written, or -", path,
			 strerror(errno));
		return -EINVAL;
	}
	fclose(file);
	return 0;
}

static int run_fio(const struct command *command, struct outcome *outcome, char *err)
{
	struct fio_workload workload;
	int error;
	int status;

	fio_workload_init(&workload);
	if (command->fio_argc)
		error = fio_parse_argv(&workload, command->fio_argc, command->fio_argv, err,
				       ERR_MAX);
	else if (fio_line_is_command(command->workload))
		error = fio_parse_line(&workload, command->workload, err, ERR_MAX);
	else
		error = fio_load(&workload, command->workload, err, ERR_MAX);
	status = error ? EXIT_BAD_INPUT : jobs_run(&workload, &command->knobs, outcome, err);
	fio_workload_destroy(&workload);
	return status;
}

static int run_workload(const struct command *command)
{
	const struct experiment *experiment = experiment_find(command->workload);
	struct outcome outcome;
	char err[ERR_MAX] = "";
	int status;

	outcome_init(&outcome, command->workload);
	progress_start(0);
	if (experiment)
		status = experiment_run(experiment, &command->knobs, &outcome, err);
	else
		status = run_fio(command, &outcome, err);
	progress_stop();
	if (err[0])
		complain(err);
	else
		status = finish(&outcome, command, status, err);
	outcome_destroy(&outcome);
	return status;
}

/* A name that is no experiment and no file: what was meant? */
static int check_workload_name(const struct command *command, char *err)
{
	const char *names[64];
	const char *nearest;
	unsigned int nr = 0;
	FILE *file;

	if (command->fio_argc || experiment_find(command->workload) ||
	    fio_line_is_command(command->workload))
		return 0;
	file = fopen(command->workload, "r");
	if (file) {
		fclose(file);
		return 0;
	}
	if (errno != ENOENT || strpbrk(command->workload, "./"))
		return 0;
	while (experiments[nr] && nr < 63) {
		names[nr] = experiments[nr]->name;
		nr++;
	}
	names[nr] = NULL;
	nearest = word_nearest(command->workload, names);
	snprintf(err, ERR_MAX, "no file or experiment '%.200s'; %s%s%s", command->workload,
		 nearest ? "did you mean '" : "'iomap-report list' has the experiments",
		 nearest ? nearest : "", nearest ? "'?" : "");
	return -EINVAL;
}

static int command_run(int argc, char **argv)
{
	struct command command = {0};
	char err[ERR_MAX] = "";

	knobs_init(&command.knobs);
	if (read_command(&command, argc, argv, err) || check_json(command.json, err))
		return complain(err);
	if (!command.workload)
		return complain(
			"run what? give an experiment of 'iomap-report list', a fio job file "
			"or 'fio ...'");
	if (check_workload_name(&command, err))
		return complain(err);
	return run_workload(&command);
}

static int command_report(int argc, char **argv)
{
	struct command command = {0};
	char err[ERR_MAX] = "";

	knobs_init(&command.knobs);
	if (read_command(&command, argc, argv, err))
		return complain(err);
	for (unsigned int id = 0; id < NR_KNOBS; id++) {
		if (!knob_given(&command.knobs, (enum knob_id)id))
			continue;
		snprintf(err, ERR_MAX,
			 "--%s without a workload; the default report takes --json, 'run WORKLOAD' "
			 "takes knobs",
			 knob_table[id].name);
		return complain(err);
	}
	if (check_json(command.json, err))
		return complain(err);
	return report_run(command.json);
}

static int unknown_subcommand(const char *word)
{
	char err[ERR_MAX];
	const char *nearest;

	if (word_is_in(word, later_subcommands)) {
		snprintf(err, ERR_MAX, "%s is not available in this version; there are: run, list",
			 word);
		return complain(err);
	}
	nearest = word_nearest(word, subcommands);
	if (experiment_find(word) || strpbrk(word, "./ "))
		snprintf(err, ERR_MAX, "no command '%.100s'; did you mean 'run %.100s'?", word,
			 word);
	else if (nearest)
		snprintf(err, ERR_MAX, "no command '%.100s'; did you mean '%s'?", word, nearest);
	else
		snprintf(err, ERR_MAX, "no command '%.100s'; there are: run, list", word);
	return complain(err);
}

int report_main(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : NULL;

	if (!word || (strncmp(word, "--", 2) == 0 && strcmp(word, "--help") != 0))
		return command_report(argc - 1, argv + 1);
	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
		fputs(usage, stdout);
		return EXIT_OK;
	}
	if (strcmp(word, "run") == 0)
		return command_run(argc - 2, argv + 2);
	if (strcmp(word, "list") == 0) {
		if (argc > 2)
			return complain("list takes no argument; 'iomap-report list' alone");
		list_print(stdout);
		return EXIT_OK;
	}
	return unknown_subcommand(word);
}

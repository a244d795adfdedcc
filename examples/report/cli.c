/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * cli.c - the commands
 */
#include "cli.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "calibrate.h"
#include "command.h"
#include "compare.h"
#include "experiments.h"
#include "fio-parse.h"
#include "jobs.h"
#include "json.h"
#include "progress.h"
#include "published.h"
#include "report.h"
#include "table.h"

static const char usage[] =
	"usage:\n"
	"  iomap-report [--json FILE|-]          every experiment, published figures beside ours\n"
	"  iomap-report run WORKLOAD [knobs]     one workload\n"
	"  iomap-report T14 [knobs]              one published table, ours beside it\n"
	"  iomap-report published [--seed N]     all of them\n"
	"  iomap-report sweep WORKLOAD --vary NAME=VALUES [--vary ...] [knobs]\n"
	"                                        every combination; VALUES is 1..12, 0..90:10 or\n"
	"                                        a,b,c; --show RESULTS, --csv FILE|-\n"
	"  iomap-report compare A.json B.json    what changed, by how much\n"
	"  iomap-report calibrate [--json -]     measure the table of costs on this host\n"
	"  iomap-report list                     workloads, file systems, knobs, results\n"
	"\n"
	"WORKLOAD is a built-in experiment, a fio job file, a .cmd file of commands, or a command\n"
	"line of fio: quoted as one argument, or as all arguments from `fio' on.\n"
	"With --clock virtual (a sweep's default) it runs on --cpus N simulated CPUs over a\n"
	"modelled --device, the same way each time; --trace FILE keeps what happened when.\n"
	"Exit status: 0, 1 if an expectation failed, 2 if the input is wrong.\n";

static const char *const subcommands[] = {"run",       "published", "sweep", "compare",
					  "calibrate", "list",	    "help",  NULL};

static int complain(const char *err)
{
	progress_hide();
	fprintf(stderr, "iomap-report: %s\n", err);
	return EXIT_BAD_INPUT;
}

/* ---- running ---------------------------------------------------------------------------- */

static void print(const struct outcome *outcome)
{
	if (outcome->sweep)
		sweep_print(outcome->sweep, outcome, stdout);
	else
		outcome_print(outcome, false, stdout);
}

static int finish(const struct outcome *outcome, const struct command *command, int status,
		  char *err)
{
	if (!command_quiet(command))
		print(outcome);
	if (command->csv && sweep_write_csv(outcome->sweep, outcome, command->csv, err))
		return complain(err);
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

/* What $ncpus and $mb_memory mean is the simulated machine's. */
static int load_fio(const struct command *command, struct fio_workload *workload, char *err)
{
	fio_workload_init(workload);
	if (knobs_virtual(&command->knobs) || command->sweep) {
		workload->nr_cpus = knob_number(&command->knobs, KNOB_CPUS);
		workload->mb_memory = knob_number(&command->knobs, KNOB_MEMORY) >> 20;
	}
	if (command->fio_argc)
		return fio_parse_argv(workload, command->fio_argc, command->fio_argv, err, ERR_MAX);
	if (fio_line_is_command(command->workload))
		return fio_parse_line(workload, command->workload, err, ERR_MAX);
	return fio_load(workload, command->workload, err, ERR_MAX);
}

static int run_fio(const struct command *command, struct outcome *outcome, char *err)
{
	struct fio_workload workload;
	int status = EXIT_BAD_INPUT;

	if (load_fio(command, &workload, err) == 0)
		status = jobs_run(&workload, &command->knobs, outcome, err);
	fio_workload_destroy(&workload);
	return status;
}

static int run_workload(const struct command *command, struct outcome *outcome, char *err)
{
	const struct experiment *experiment = experiment_find(command->workload);
	const struct published *table = published_find(command->workload);

	if (experiment)
		return experiment_run(experiment, &command->knobs, outcome, err);
	if (table)
		return published_run(table, &command->knobs, outcome, err);
	return run_fio(command, outcome, err);
}

/* ---- sweeps ----------------------------------------------------------------------------- */

static int sweep_fio(const struct command *command, struct outcome *outcome, char *err)
{
	struct fio_workload workload;
	struct sweep_workload what = {.name = command->workload, .fio = &workload};
	int status = EXIT_BAD_INPUT;

	if (load_fio(command, &workload, err) == 0) {
		for (unsigned int i = 0; i < workload.nr_notes; i++)
			note(outcome, "%s", workload.notes[i]);
		status = sweep_run(command->sweep, &command->knobs, &what, outcome, err);
	}
	fio_workload_destroy(&workload);
	return status;
}

/* Its own knobs hold unless the user says otherwise. */
static int sweep_named(const struct named_sweep *named, const struct command *command,
		       struct outcome *outcome, char *err)
{
	struct fio_workload workload;
	struct sweep_workload what = {.name = named->name, .fio = &workload};
	struct knobs knobs = command->knobs;
	int status = EXIT_BAD_INPUT;

	if (command->sweep->nr_axes) {
		snprintf(err, ERR_MAX, "--vary with %s, which has its own; leave it out",
			 named->name);
		return EXIT_BAD_INPUT;
	}
	for (unsigned int i = 0; named->knobs[i]; i += 2)
		knobs_default(&knobs, knob_find(named->knobs[i]), named->knobs[i + 1]);
	for (unsigned int i = 0; named->vary[i]; i++)
		if (sweep_add(command->sweep, named->vary[i], err))
			return EXIT_BAD_INPUT;
	fio_workload_init(&workload);
	if (fio_parse_job_text(&workload, named->name, named->job, err, ERR_MAX) == 0)
		status = sweep_run(command->sweep, &knobs, &what, outcome, err);
	if (!err[0])
		named->judge(command->sweep, outcome);
	fio_workload_destroy(&workload);
	return status;
}

static int sweep_workload(const struct command *command, struct outcome *outcome, char *err)
{
	const struct named_sweep *named = named_sweep_find(command->workload);
	struct sweep_workload what = {
		.name = command->workload,
		.experiment = experiment_find(command->workload),
	};

	if (named)
		return sweep_named(named, command, outcome, err);
	if (published_find(command->workload)) {
		snprintf(err, ERR_MAX, "%s has its own configurations; 'run %s' runs them",
			 command->workload, command->workload);
		return EXIT_BAD_INPUT;
	}
	if (what.experiment)
		return sweep_run(command->sweep, &command->knobs, &what, outcome, err);
	return sweep_fio(command, outcome, err);
}

/* ---- commands --------------------------------------------------------------------------- */

static int do_command(struct command *command, int argc, char **argv)
{
	struct outcome outcome;
	char err[ERR_MAX] = "";
	int status;

	if (command_read(command, argc, argv, err) || command_check_files(command, err))
		return complain(err);
	if (!command->workload)
		return complain(
			"run what? give an experiment of 'iomap-report list', a fio job file "
			"or 'fio ...'");
	if (command_check_workload(command, err))
		return complain(err);
	outcome_init(&outcome, command->workload);
	progress_start(0);
	status = command->sweep ? sweep_workload(command, &outcome, err)
				: run_workload(command, &outcome, err);
	progress_stop();
	if (err[0])
		complain(err);
	else
		status = finish(&outcome, command, status, err);
	outcome_destroy(&outcome);
	return status;
}

static int command_sweep(int argc, char **argv)
{
	struct sweep sweep = {0};
	struct command command = {.sweep = &sweep};
	int status = do_command(&command, argc, argv);

	sweep_destroy(&sweep);
	return status;
}

static int command_run(int argc, char **argv)
{
	struct command command = {0};

	/* A sweep with a name is one whatever the command. */
	if (argc > 0 && named_sweep_find(argv[0]))
		return command_sweep(argc, argv);
	return do_command(&command, argc, argv);
}

static int command_compare(int argc, char **argv)
{
	char err[ERR_MAX] = "";
	int status;

	if (argc != 2)
		return complain("compare takes two files of --json: compare A.json B.json");
	status = compare_files(argv[0], argv[1], stdout, err);
	return err[0] ? complain(err) : status;
}

static int command_calibrate(int argc, char **argv)
{
	bool json = argc == 2 && strcmp(argv[0], "--json") == 0 && strcmp(argv[1], "-") == 0;
	char err[ERR_MAX] = "";

	if (argc > 0 && !json)
		return complain("calibrate takes no argument but '--json -'");
	if (calibrate_run(stdout, json, err) == 0)
		return EXIT_OK;
	complain(err);
	return EXIT_MISS;
}

static int command_list(int argc)
{
	if (argc > 0)
		return complain("list takes no argument; 'iomap-report list' alone");
	list_print(stdout);
	return EXIT_OK;
}

static bool is_taken(const enum knob_id *taken, unsigned int id)
{
	for (unsigned int i = 0; taken[i] != NR_KNOBS; i++)
		if (taken[i] == id)
			return true;
	return false;
}

/* A report of many parts takes these knobs, NR_KNOBS at the end; right: their names. */
static int read_report(struct command *command, int argc, char **argv, const enum knob_id *taken,
		       const char *right, char *err)
{
	if (command_read(command, argc, argv, err))
		return -EINVAL;
	if (command->workload) {
		snprintf(err, ERR_MAX, "'%.100s' with a report of many parts; it takes %s",
			 command->workload, right);
		return -EINVAL;
	}
	for (unsigned int id = 0; id < NR_KNOBS; id++) {
		if (!knob_given(&command->knobs, (enum knob_id)id) || is_taken(taken, id))
			continue;
		snprintf(err, ERR_MAX,
			 "--%s without a workload; a report takes %s, 'run WORKLOAD' takes knobs",
			 knob_table[id].name, right);
		return -EINVAL;
	}
	if (command->knobs.trace) {
		snprintf(err, ERR_MAX, "--trace without a workload; 'run WORKLOAD' takes it");
		return -EINVAL;
	}
	return command_check_files(command, err);
}

static int command_report(int argc, char **argv)
{
	static const enum knob_id none[] = {NR_KNOBS};
	struct command command = {0};
	char err[ERR_MAX] = "";

	if (read_report(&command, argc, argv, none, "--json", err))
		return complain(err);
	return report_run(command.json);
}

static int command_published(int argc, char **argv)
{
	static const enum knob_id taken[] = {KNOB_SEED, KNOB_SCALE, NR_KNOBS};
	struct command command = {0};
	char err[ERR_MAX] = "";

	if (read_report(&command, argc, argv, taken, "--seed, --scale and --json", err))
		return complain(err);
	return report_published(&command.knobs, command.json);
}

static int unknown_command(const char *word)
{
	const char *nearest = word_nearest(word, subcommands);
	char err[ERR_MAX];

	if (experiment_find(word) || named_sweep_find(word) || strpbrk(word, "./ "))
		snprintf(err, ERR_MAX, "no command '%.100s'; did you mean 'run %.100s'?", word,
			 word);
	else if (nearest)
		snprintf(err, ERR_MAX, "no command '%.100s'; did you mean '%s'?", word, nearest);
	else
		snprintf(err, ERR_MAX,
			 "no command '%.100s'; there are: run, published, sweep, compare, "
			 "calibrate, list",
			 word);
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
	if (strcmp(word, "published") == 0)
		return command_published(argc - 2, argv + 2);
	if (strcmp(word, "sweep") == 0)
		return command_sweep(argc - 2, argv + 2);
	if (strcmp(word, "compare") == 0)
		return command_compare(argc - 2, argv + 2);
	if (strcmp(word, "calibrate") == 0)
		return command_calibrate(argc - 2, argv + 2);
	if (strcmp(word, "list") == 0)
		return command_list(argc - 2);
	if (published_find(word))
		return command_run(argc - 1, argv + 1);
	return unknown_command(word);
}

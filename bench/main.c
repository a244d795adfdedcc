/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * main.c - iomap-bench: the library against memcpy and against the kernel, in one run
 */
#include "bench.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_ROWS 64

struct options {
	const char *json; /* file, "-", or NULL */
	const char *prefix; /* of the rows to measure, or NULL */
	unsigned int nr_rounds;
	bool quick;
	bool alone; /* no peers, for a profiler */
};

static const char usage[] =
	"usage: iomap-bench [--quick] [--row PREFIX] [--rounds N] [--json FILE|-]\n"
	"                   [--alone] [--list]\n"
	"\n"
	"  --quick        files of a quarter of the size, fewer operations\n"
	"  --row PREFIX   only rows whose names start so\n"
	"  --rounds N     alternating rounds for each row, 5 to 64 (default 7, quick 5)\n"
	"  --json FILE    write the results there as JSON; -: to standard output\n"
	"  --alone        the library without its peers, for a profiler\n"
	"  --list         print the names of the rows\n";

/* ---- options ---- */

static void list_rows(void)
{
	for (unsigned int i = 0; row_at(i); i++)
		puts(row_at(i)->name);
}

static unsigned int rounds_parse(const char *text)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (*end || value < 5 || value > 64) {
		fprintf(stderr, "iomap-bench: --rounds %s: should be 5 to 64\n", text);
		exit(2);
	}
	return (unsigned int)value;
}

static void options_parse(struct options *options, int argc, char **argv)
{
	static const struct option table[] = {
		{"json", required_argument, NULL, 'j'},	  {"row", required_argument, NULL, 'r'},
		{"rounds", required_argument, NULL, 'n'}, {"quick", no_argument, NULL, 'q'},
		{"alone", no_argument, NULL, 'a'},	  {"list", no_argument, NULL, 'l'},
		{"help", no_argument, NULL, 'h'},	  {0},
	};
	int c;

	*options = (struct options){0};
	while ((c = getopt_long(argc, argv, "", table, NULL)) >= 0) {
		switch (c) {
		case 'j':
			options->json = optarg;
			break;
		case 'r':
			options->prefix = optarg;
			break;
		case 'n':
			options->nr_rounds = rounds_parse(optarg);
			break;
		case 'q':
			options->quick = true;
			break;
		case 'a':
			options->alone = true;
			break;
		case 'l':
			list_rows();
			exit(0);
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			fputs(usage, stderr);
			exit(2);
		}
	}
	if (optind < argc) {
		fprintf(stderr, "iomap-bench: '%s' is no option; see --help\n", argv[optind]);
		exit(2);
	}
	if (!options->nr_rounds)
		options->nr_rounds = options->quick ? 5 : 7;
}

static bool row_is_wanted(const struct options *options, const struct row *row)
{
	return !options->prefix ||
	       strncmp(row->name, options->prefix, strlen(options->prefix)) == 0;
}

/* ---- fixtures ---- */

static bool fixture_is_same(const struct fixture *a, const struct fixture *b)
{
	return a->file_bytes == b->file_bytes && a->append_bytes == b->append_bytes &&
	       a->fill_bytes == b->fill_bytes && a->nr_files == b->nr_files;
}

static void fixture_close(struct peer *const peers[NR_PEERS], bool open[NR_PEERS])
{
	for (unsigned int p = 0; p < NR_PEERS; p++) {
		if (open[p])
			peers[p]->ops->close(peers[p]);
		open[p] = false;
	}
}

static int fixture_open(struct peer *const peers[NR_PEERS], const struct row *row,
			bool open[NR_PEERS])
{
	for (unsigned int p = 0; p < NR_PEERS; p++) {
		int err;

		if (!peers[p] || (row->alone && p != OURS))
			continue;
		err = peers[p]->ops->open(peers[p], &row->fixture);
		if (err)
			return err;
		open[p] = true;
	}
	return 0;
}

/* ---- all rows ---- */

static void show_progress(const char *name)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r%-40s", name);
}

static int measure_all(struct peer *const peers[NR_PEERS], const struct row *rows,
		       unsigned int nr_rows, unsigned int nr_rounds, struct result *results)
{
	bool open[NR_PEERS] = {false};
	int err = 0;

	for (unsigned int i = 0; !err && i < nr_rows; i++) {
		show_progress(rows[i].name);
		if (i == 0 || !fixture_is_same(&rows[i].fixture, &rows[i - 1].fixture)) {
			fixture_close(peers, open);
			err = fixture_open(peers, &rows[i], open);
		}
		if (!err)
			err = measure_row(peers, &rows[i], nr_rounds, &results[i]);
		if (err)
			fprintf(stderr, "iomap-bench: %s: %s\n", rows[i].name, strerror(-err));
	}
	show_progress("");
	fixture_close(peers, open);
	return err;
}

static void print_heading(FILE *out, const struct options *options, const char *kernel_name)
{
	fprintf(out, "kernel: pwrite and pread, %s; %u rounds, medians; ns of one operation%s\n\n",
		kernel_name, options->nr_rounds,
		options->quick ? "; quick: files of a quarter of the size" : "");
}

static bool peers_create(const struct options *options, struct peer *peers[NR_PEERS])
{
	peers[OURS] = ours_create();
	if (!options->alone) {
		peers[MEMCPY] = memcpy_create();
		peers[KERNEL] = kernel_create();
	}
	return peers[OURS] && (options->alone || (peers[MEMCPY] && peers[KERNEL]));
}

static int run(const struct options *options, struct peer *const peers[NR_PEERS])
{
	static struct row rows[MAX_ROWS];
	static struct result results[MAX_ROWS];
	const char *kernel_name = peers[KERNEL] ? peers[KERNEL]->name : "not measured";
	FILE *out = options->json && strcmp(options->json, "-") == 0 ? stderr : stdout;
	unsigned int nr_rows = 0;
	int err;

	for (unsigned int i = 0; row_at(i); i++) {
		if (row_is_wanted(options, row_at(i))) {
			rows[nr_rows] = *row_at(i);
			row_scale(&rows[nr_rows++], options->quick);
		}
	}
	if (nr_rows == 0) {
		fprintf(stderr, "iomap-bench: no row starts with '%s'; see --list\n",
			options->prefix);
		return 2;
	}
	err = measure_all(peers, rows, nr_rows, options->nr_rounds, results);
	if (err)
		return 1;
	print_heading(out, options, kernel_name);
	print_table(out, results, nr_rows);
	if (options->json)
		err = print_json(options->json, results, nr_rows, kernel_name);
	if (err)
		fprintf(stderr, "iomap-bench: %s: %s\n", options->json, strerror(-err));
	return err ? 1 : 0;
}

int main(int argc, char **argv)
{
	struct peer *peers[NR_PEERS] = {NULL};
	struct options options;
	int status = 1;

	options_parse(&options, argc, argv);
	if (peers_create(&options, peers))
		status = run(&options, peers);
	for (unsigned int p = 0; p < NR_PEERS; p++)
		if (peers[p])
			peers[p]->ops->destroy(peers[p]);
	return status;
}

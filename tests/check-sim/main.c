/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * main.c - run seeds on every processor, and say which failed
 *
 *	iomap-check-sim				2000 seeds
 *	iomap-check-sim --seeds 100000
 *	iomap-check-sim --seed 4711		this one alone, with all that is known about it
 *
 * Worker processes take seeds from a shared counter.  One that finds something says so and
 * ends, since the world of a failed run cannot be left, and another takes its place.
 */
#include "check.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <iomap/sim.h>

#define MAX_JOBS 64

/* Of the processor, for a seed that takes some milliseconds. */
#define SEED_SECONDS 30

#define EXIT_DONE   0
#define EXIT_FAILED 3

/* ---- options ---- */

static struct {
	uint64_t first, nr;
	bool one;
	unsigned int jobs, max_failures;
	struct plan_wish wish;
} options = {.first = 1, .nr = 2000, .max_failures = 10};

static const char usage[] =
	"usage: iomap-check-sim [options]\n"
	"  --seeds N     so many seeds (2000)\n"
	"  --first N     from this one on (1)\n"
	"  --seed N      this one alone, with what its tasks did\n"
	"  --fs NAME     flat, xfs or ext4 instead of what the seed says\n"
	"  --ops N       operations of each task, instead of what the seed says\n"
	"  --jobs N      processes (the processors)\n"
	"  --failures N  stop after so many (10)\n";

static uint64_t number_of(const char *text)
{
	char *end;
	uint64_t number = strtoull(text, &end, 10);

	if (*end || end == text) {
		fprintf(stderr, "iomap-check-sim: '%s' is not a number\n", text);
		exit(2);
	}
	return number;
}

static void set_fs(const char *name)
{
	if (strcmp(name, "flat") && strcmp(name, "xfs") && strcmp(name, "ext4")) {
		fprintf(stderr, "iomap-check-sim: --fs %s: should be flat, xfs or ext4\n", name);
		exit(2);
	}
	options.wish.fs = name;
}

static void set_option(int option, const char *text)
{
	switch (option) {
	case 'n':
		options.nr = number_of(text);
		break;
	case 'f':
		options.first = number_of(text);
		break;
	case 's':
		options.first = number_of(text);
		options.nr = 1;
		options.one = true;
		break;
	case 't':
		set_fs(text);
		break;
	case 'o':
		options.wish.nr_ops = (unsigned int)number_of(text);
		break;
	case 'j':
		options.jobs = (unsigned int)number_of(text);
		break;
	case 'm':
		options.max_failures = (unsigned int)number_of(text);
		break;
	case 'h':
		fputs(usage, stdout);
		exit(0);
	default:
		fputs(usage, stderr);
		exit(2);
	}
}

static void parse_options(int argc, char **argv)
{
	static const struct option names[] = {
		{"seeds", required_argument, NULL, 'n'},
		{"first", required_argument, NULL, 'f'},
		{"seed", required_argument, NULL, 's'},
		{"fs", required_argument, NULL, 't'},
		{"ops", required_argument, NULL, 'o'},
		{"jobs", required_argument, NULL, 'j'},
		{"failures", required_argument, NULL, 'm'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int option;

	while ((option = getopt_long(argc, argv, "", names, NULL)) != -1)
		set_option(option, optarg);
	if (optind < argc)
		set_option('?', NULL);
	if (options.jobs == 0)
		options.jobs = (unsigned int)sysconf(_SC_NPROCESSORS_ONLN);
	if (options.jobs > MAX_JOBS)
		options.jobs = MAX_JOBS;
}

/* ---- what a run says ---- */

#define NR_NOTES  48
#define NOTE_SIZE 120

static char notes[NR_NOTES][NOTE_SIZE];
static unsigned int nr_notes;
static const struct plan *running;

void note(const char *format, ...)
{
	char *text = notes[nr_notes++ % NR_NOTES];
	va_list args;
	int n;

	n = snprintf(text, NOTE_SIZE, "%.6f ", (double)env_clock_ns() / 1e9);
	va_start(args, format);
	vsnprintf(text + n, NOTE_SIZE - (size_t)n, format, args);
	va_end(args);
	if (world.verbose)
		puts(text);
}

static void print_notes(void)
{
	unsigned int nr = nr_notes < NR_NOTES ? nr_notes : NR_NOTES;

	for (unsigned int i = 0; i < nr && !world.verbose; i++)
		printf("  %s\n", notes[(nr_notes - nr + i) % NR_NOTES]);
}

static void print_replay(void)
{
	printf("replay: build/iomap-check-sim --seed %llu", (unsigned long long)running->seed);
	if (options.wish.fs)
		printf(" --fs %s", options.wish.fs);
	if (options.wish.nr_ops)
		printf(" --ops %u", options.wish.nr_ops);
	printf("\n\n");
}

static void print_failure(const char *text)
{
	printf("seed %llu: %s\n", (unsigned long long)running->seed, text);
	plan_print(running);
	print_notes();
	print_replay();
	fflush(stdout);
}

void fail(const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	print_failure(text);
	_exit(EXIT_FAILED);
}

/* ---- a seed ---- */

static void sim_config(struct env_sim_config *config, uint64_t seed)
{
	/* An inode that moves: of its old context and of the new one, by rising number. */
	static const char *const may_nest[] = {"wb->list_lock", NULL};

	env_sim_config_init(config);
	config->schedule = ENV_SIM_ADVERSARIAL;
	config->seed = seed;
	config->nr_cpus = 4;
	/* A timer may fire while others have hardly moved, so each step may take half a minute. */
	config->max_ns = 1000 * 3600 * 1000000000ull;
	config->max_steps = 3000000;
	config->may_nest = may_nest;
}

/* A loop in which nobody else has a turn is ended by SIGVTALRM. */
static void start_clock(void)
{
	const struct itimerval limit = {.it_value.tv_sec = SEED_SECONDS};

	setitimer(ITIMER_VIRTUAL, &limit, NULL);
}

static void run_seed(uint64_t seed)
{
	static struct env_sim_result result;
	struct env_sim_config config;
	struct plan plan;

	plan_make(&plan, seed, &options.wish);
	running = &plan;
	nr_notes = 0;
	start_clock();
	sim_config(&config, seed);
	if (env_sim_run(&config, run_plan, &plan, &result)) {
		print_failure(result.text);
		_exit(EXIT_FAILED);
	}
	if (options.one)
		printf("%llu switches, hash %016llx, %.6f s\n", (unsigned long long)result.switches,
		       (unsigned long long)result.trace_hash, (double)result.virtual_ns / 1e9);
}

/* ---- workers ---- */

static struct {
	uint64_t next; /* [a] offset of the seed to take */
	uint64_t done; /* [a] */
	uint64_t current[MAX_JOBS]; /* what each worker runs */
} * shared;

static void work(unsigned int worker)
{
	uint64_t i;

	while ((i = __atomic_fetch_add(&shared->next, 1, __ATOMIC_RELAXED)) < options.nr) {
		uint64_t done;

		shared->current[worker] = options.first + i;
		run_seed(options.first + i);
		done = __atomic_add_fetch(&shared->done, 1, __ATOMIC_RELAXED);
		if (done % 1000 == 0) {
			printf("%llu seeds\n", (unsigned long long)done);
			fflush(stdout);
		}
	}
	fflush(stdout);
	_exit(EXIT_DONE);
}

static pid_t start_worker(unsigned int worker)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0)
		work(worker);
	if (pid < 0) {
		perror("iomap-check-sim: fork");
		exit(2);
	}
	return pid;
}

static void report_crash(unsigned int worker, int status)
{
	struct plan plan;

	plan_make(&plan, shared->current[worker], &options.wish);
	running = &plan;
	printf("seed %llu: ", (unsigned long long)plan.seed);
	if (WTERMSIG(status) == SIGVTALRM)
		printf("an endless loop\n");
	else
		printf("ended by signal %d\n", WTERMSIG(status));
	plan_print(&plan);
	print_replay();
}

static uint64_t run_all(void)
{
	pid_t workers[MAX_JOBS];
	unsigned int nr_running = 0;
	uint64_t nr_failed = 0;

	for (; nr_running < options.jobs; nr_running++)
		workers[nr_running] = start_worker(nr_running);
	while (nr_running > 0) {
		unsigned int worker = 0;
		int status;
		pid_t pid = wait(&status);

		while (worker < options.jobs && workers[worker] != pid)
			worker++;
		if (worker == options.jobs)
			continue;
		nr_running--;
		workers[worker] = 0;
		if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_DONE)
			continue;
		if (!WIFEXITED(status))
			report_crash(worker, status);
		if (++nr_failed >= options.max_failures) {
			__atomic_store_n(&shared->next, options.nr, __ATOMIC_RELAXED);
			continue;
		}
		workers[worker] = start_worker(worker);
		nr_running++;
	}
	return nr_failed;
}

int main(int argc, char **argv)
{
	uint64_t nr_failed;

	parse_options(argc, argv);
	world.verbose = options.one;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED) {
		perror("iomap-check-sim: mmap");
		return 2;
	}
	if (options.one)
		options.jobs = 1;
	nr_failed = run_all();
	printf("check-sim: %llu seeds without a finding, %llu with one\n",
	       (unsigned long long)shared->done, (unsigned long long)nr_failed);
	return nr_failed ? 1 : 0;
}

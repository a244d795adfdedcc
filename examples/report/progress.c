/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * progress.c - a thread that redraws one line a few times a second
 */
#include "progress.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include <iomap/env.h>

#define REDRAW_NS 200000000ull
#define ERASE	  "\r\033[K"

static struct {
	struct env_thread *thread; /* NULL: stderr is no terminal */
	struct env_mutex lock; /* protects what follows, and the line */
	uint32_t stop; /* atomic */
	uint64_t started_ns;
	unsigned int part;
	unsigned int nr_parts;
	char step[100];
	const uint64_t *done;
	const uint64_t *planned;
	unsigned int runs_done;
	unsigned int nr_runs;
	bool visible;
	bool forgotten; /* nothing is drawn or locked any more */
} progress;

/* => lock is held */
static void draw(void)
{
	uint64_t seconds = (env_clock_ns() - progress.started_ns) / 1000000000;
	uint64_t planned =
		progress.planned ? __atomic_load_n(progress.planned, __ATOMIC_RELAXED) : 0;

	fprintf(stderr, ERASE "[%3llu s] ", (unsigned long long)seconds);
	if (progress.nr_parts)
		fprintf(stderr, "%u/%u ", progress.part, progress.nr_parts);
	fprintf(stderr, "%s", progress.step);
	if (planned) {
		uint64_t done = __atomic_load_n(progress.done, __ATOMIC_RELAXED);

		fprintf(stderr, " %llu %%", (unsigned long long)(done * 100 / planned));
	}
	if (progress.nr_runs > 1)
		fprintf(stderr, ", run %u of %u", progress.runs_done, progress.nr_runs);
	fflush(stderr);
	progress.visible = true;
}

static void redraw(void *arg)
{
	(void)arg;
	while (!__atomic_load_n(&progress.stop, __ATOMIC_ACQUIRE)) {
		env_mutex_lock(&progress.lock);
		if (progress.step[0])
			draw();
		env_mutex_unlock(&progress.lock);
		env_futex_wait(&progress.stop, 0, REDRAW_NS);
	}
}

void progress_start(unsigned int nr_parts)
{
	env_mutex_init(&progress.lock, "progress");
	progress.stop = 0;
	progress.started_ns = env_clock_ns();
	progress.part = 0;
	progress.nr_parts = nr_parts;
	progress.step[0] = '\0';
	progress.done = NULL;
	progress.planned = NULL;
	progress.nr_runs = 0;
	if (isatty(STDERR_FILENO) &&
	    env_thread_create(&progress.thread, "progress", redraw, NULL) != 0)
		progress.thread = NULL;
}

void progress_stop(void)
{
	if (progress.thread) {
		__atomic_store_n(&progress.stop, 1, __ATOMIC_RELEASE);
		env_futex_wake(&progress.stop, 1);
		env_thread_join(progress.thread);
		progress.thread = NULL;
	}
	progress_hide();
}

void progress_part(void)
{
	if (progress.forgotten)
		return;
	env_mutex_lock(&progress.lock);
	progress.part++;
	env_mutex_unlock(&progress.lock);
}

void progress_step(const char *format, ...)
{
	va_list args;

	if (progress.forgotten)
		return;
	env_mutex_lock(&progress.lock);
	va_start(args, format);
	vsnprintf(progress.step, sizeof(progress.step), format, args);
	va_end(args);
	progress.done = NULL;
	progress.planned = NULL;
	progress.nr_runs = 0;
	env_mutex_unlock(&progress.lock);
}

void progress_count(unsigned int done, unsigned int nr)
{
	env_mutex_lock(&progress.lock);
	progress.runs_done = done;
	progress.nr_runs = nr;
	env_mutex_unlock(&progress.lock);
}

void progress_watch(const uint64_t *done, const uint64_t *planned)
{
	if (progress.forgotten)
		return;
	env_mutex_lock(&progress.lock);
	progress.done = done;
	progress.planned = planned;
	env_mutex_unlock(&progress.lock);
}

void progress_hide(void)
{
	if (progress.forgotten)
		return;
	env_mutex_lock(&progress.lock);
	if (progress.visible)
		fprintf(stderr, ERASE);
	progress.visible = false;
	progress.step[0] = '\0';
	env_mutex_unlock(&progress.lock);
}

void progress_forget(void)
{
	progress.forgotten = true;
	progress.thread = NULL;
}

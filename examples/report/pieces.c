/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pieces.c - do runs here, or each in a process of its own
 *
 * A simulation owns its process, and one that finds something leaves its memory behind.  So a
 * process is forked for each; it sends one message, and the parent puts it where a run here
 * would have put it.  The order in which they end is not seen.
 */
#include "pieces.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iomap/env.h>

#include "progress.h"
#include "simulate.h"

#define CHILDREN_MAX 64

/* Followed by nr_jobs of struct job_line. */
struct message {
	int error;
	unsigned int nr_jobs;
	char err[ERR_MAX];
	char text[ENV_SIM_TEXT];
	struct results results;
};

struct child {
	struct piece *piece;
	pid_t pid;
	int fd; /* where its message comes from */
};

/* ---- the child -------------------------------------------------------------------------- */

static bool send_all(int fd, const void *from, size_t len)
{
	const char *at = from;

	while (len > 0) {
		ssize_t n = write(fd, at, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += n;
		len -= (size_t)n;
	}
	return true;
}

static void be_child(struct piece *piece, int fd)
{
	static struct message message;
	struct run *run = piece->run;
	bool sent;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	progress_forget();
	simulate(piece, message.text);
	message.error = piece->error;
	memcpy(message.err, piece->err, ERR_MAX);
	message.results = run->results;
	message.nr_jobs = piece->error == -EPROTO ? 0 : run->nr_jobs;
	sent = send_all(fd, &message, sizeof(message)) &&
	       send_all(fd, run->jobs, message.nr_jobs * sizeof(*run->jobs));
	/* What this process has of the parent's output is not its own to write. */
	_exit(sent ? EXIT_OK : EXIT_MISS);
}

/* ---- the parent ------------------------------------------------------------------------- */

static void failed(struct piece *piece, const char *what, int error)
{
	piece->error = error;
	snprintf(piece->err, ERR_MAX, "%s: %s", what, strerror(-error));
}

static bool receive_all(int fd, void *to, size_t len)
{
	char *at = to;

	while (len > 0) {
		ssize_t n = read(fd, at, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += n;
		len -= (size_t)n;
	}
	return true;
}

static bool receive(struct child *child)
{
	static struct message message;
	struct piece *piece = child->piece;
	struct run *run = piece->run;

	if (!receive_all(child->fd, &message, sizeof(message)))
		return false;
	piece->error = message.error;
	memcpy(piece->err, message.err, ERR_MAX);
	run->results = message.results;
	run->jobs = NULL;
	run->nr_jobs = 0;
	if (message.text[0]) {
		progress_hide();
		fputs(message.text, stderr);
	}
	if (!message.nr_jobs)
		return true;
	run->jobs = calloc(message.nr_jobs, sizeof(*run->jobs));
	run->nr_jobs = run->jobs ? message.nr_jobs : 0;
	return run->jobs && receive_all(child->fd, run->jobs, run->nr_jobs * sizeof(*run->jobs));
}

static void tell_crash(struct piece *piece, int status)
{
	const char *label = piece->run->label[0] ? piece->run->label : "the run";

	piece->error = -EFAULT;
	if (WIFSIGNALED(status))
		snprintf(piece->err, ERR_MAX, "the process of '%s' was killed by signal %d (%s)",
			 label, WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		snprintf(piece->err, ERR_MAX, "the process of '%s' ended with status %d", label,
			 WEXITSTATUS(status));
}

static void finish(struct child *child)
{
	bool received = receive(child);
	int status = 0;

	close(child->fd);
	while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!received)
		tell_crash(child->piece, status);
	child->piece = NULL;
}

static void start(struct child *child, struct piece *piece)
{
	int fds[2];

	if (pipe(fds)) {
		failed(piece, "pipe", -errno);
		return;
	}
	fflush(NULL);
	child->pid = fork();
	if (child->pid == 0) {
		close(fds[0]);
		be_child(piece, fds[1]);
	}
	close(fds[1]);
	if (child->pid < 0) {
		failed(piece, "fork", -errno);
		close(fds[0]);
		return;
	}
	child->piece = piece;
	child->fd = fds[0];
}

/* Wait until one of them has something to say, or is gone. */
static struct child *wait_for_one(struct child *children, unsigned int nr)
{
	struct pollfd fds[CHILDREN_MAX];

	for (;;) {
		for (unsigned int i = 0; i < nr; i++)
			fds[i] = (struct pollfd){
				.fd = children[i].piece ? children[i].fd : -1,
				.events = POLLIN,
			};
		if (poll(fds, nr, -1) < 0)
			continue;
		for (unsigned int i = 0; i < nr; i++)
			if (fds[i].revents)
				return &children[i];
	}
}

static struct child *find_idle(struct child *children, unsigned int nr)
{
	for (unsigned int i = 0; i < nr; i++)
		if (!children[i].piece)
			return &children[i];
	return NULL;
}

static bool any_busy(const struct child *children, unsigned int nr)
{
	for (unsigned int i = 0; i < nr; i++)
		if (children[i].piece)
			return true;
	return false;
}

static void run_in_children(struct piece *pieces, unsigned int nr)
{
	struct child children[CHILDREN_MAX] = {{0}};
	unsigned int nr_children = env_nr_cpus() < CHILDREN_MAX ? env_nr_cpus() : CHILDREN_MAX;
	unsigned int done = 0;

	for (unsigned int next = 0; next < nr || any_busy(children, nr_children);) {
		struct child *idle = next < nr ? find_idle(children, nr_children) : NULL;

		if (idle) {
			start(idle, &pieces[next++]);
			continue;
		}
		finish(wait_for_one(children, nr_children));
		progress_count(++done, nr);
	}
}

/* ---- both ------------------------------------------------------------------------------- */

static void run_here(struct piece *pieces, unsigned int nr)
{
	for (unsigned int i = 0; i < nr; i++) {
		struct piece *piece = &pieces[i];

		progress_count(i, nr);
		piece->error = piece->fn(piece->run, piece->arg, piece->err);
		if (piece->error)
			return;
	}
}

int pieces_run(struct piece *pieces, unsigned int nr, char *err)
{
	if (nr > 1 && pieces[0].run->knobs.trace) {
		snprintf(err, ERR_MAX,
			 "--trace with %u runs; it takes one: give what varies (%.60s)", nr,
			 pieces[0].run->label);
		return -EINVAL;
	}
	if (nr && knobs_virtual(&pieces[0].run->knobs))
		run_in_children(pieces, nr);
	else
		run_here(pieces, nr);
	for (unsigned int i = 0; i < nr; i++) {
		if (pieces[i].error) {
			memcpy(err, pieces[i].err, ERR_MAX);
			return pieces[i].error;
		}
	}
	return 0;
}

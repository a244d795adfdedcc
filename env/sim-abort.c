/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * sim-abort.c - name the seed when an assertion of the program ends the process
 *
 * An assertion calls abort(), which cannot be turned into a result; but who reads its message
 * needs to know which run that was.
 */
#include "sim.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static struct sigaction before;

static void say_seed(int signal)
{
	char text[160];
	int len = snprintf(
		text, sizeof(text), "sim: aborted: seed %llu, %s, at %llu ns, task \"%s\"\n",
		(unsigned long long)env_sim.config.seed,
		env_sim.adversarial ? "adversarial" : "faithful", (unsigned long long)env_sim.now,
		env_sim.current ? env_sim.current->name : "-");

	if (write(STDERR_FILENO, text, (size_t)len) < 0)
		len = 0;
	/* It is blocked until we return; then whoever was there before has it. */
	sigaction(signal, &before, NULL);
	raise(signal);
}

void sim_abort_watch(void)
{
	struct sigaction action = {.sa_handler = say_seed};

	sigemptyset(&action.sa_mask);
	sigaction(SIGABRT, &action, &before);
}

void sim_abort_unwatch(void)
{
	sigaction(SIGABRT, &before, NULL);
}

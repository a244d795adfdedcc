/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_simtest.c - the example of a simulated test finds what is planted in it, and nothing else
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

static int run(const char *command, char *out, size_t size)
{
	FILE *simtest = popen(command, "r");
	size_t n;

	cr_assert_not_null(simtest);
	n = fread(out, 1, size - 1, simtest);
	out[n] = '\0';
	/* The shell turns a signal into a status. */
	return WEXITSTATUS(pclose(simtest));
}

Test(simtest, finds_nothing_in_1000_seeds)
{
	char out[256];

	cr_assert_eq(run(IOMAP_BUILD "/simtest", out, sizeof(out)), 0);
	cr_assert_str_eq(out, "1000 seeds: nothing found\n");
}

Test(simtest, finds_the_planted_race_at_the_same_seed_each_time)
{
	char out[512], again[512];

	cr_assert_neq(run(IOMAP_BUILD "/simtest racy 2>&1", out, sizeof(out)), 0);
	cr_assert_not_null(strstr(out, "check_file: Assertion"));
	cr_assert_not_null(strstr(out, "sim: aborted: seed "));
	cr_assert_neq(run(IOMAP_BUILD "/simtest racy 2>&1", again, sizeof(again)), 0);
	cr_assert_str_eq(out, again);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * sweep-knee.c - where more contexts stop to gain, for several numbers of allocation groups
 *
 * Inodes are spread over the contexts by their number, so each context holds files of all
 * groups, and contexts meet at the groups' locks.
 */
#include <string.h>

#include "published-jobs.h"
#include "sweep.h"
#include "table.h"

static const char *const knee_knobs[] = {
	"fs",	       "xfs",	"cpus",	  "16",	     "memory",	 "8g",
	"device",      "pm9a3", "wb-map", "ino-mod", "kick-all", "off",
	"scale-rates", "on",	"scale",  "1/64",    NULL,
};

static const char *const knee_vary[] = {"ags=1,2,4,8,16", "nr-wb-ctx=1..16", NULL};

static double rate(const struct run *run)
{
	return (double)run->results.bandwidth_bytes_per_s;
}

static uint64_t waits(const struct results *results)
{
	uint64_t ns = 0;

	for (unsigned int i = 0; i < results->nr_locks; i++)
		ns += results->locks[i].wait_ns;
	return ns;
}

/* The lock that was waited for longest. */
static const char *worst_lock(const struct results *results)
{
	unsigned int worst = 0;

	if (!results->nr_locks)
		return "no lock";
	for (unsigned int i = 1; i < results->nr_locks; i++)
		if (results->locks[i].wait_ns > results->locks[worst].wait_ns)
			worst = i;
	return text("%s (%s)", results->locks[worst].name, human_ns(results->locks[worst].wait_ns));
}

static void judge_row(struct outcome *outcome, const char *groups, const struct run *runs,
		      unsigned int nr)
{
	const struct run *last = &runs[nr - 1];
	unsigned int peak = 0;
	unsigned int knee = 0;

	for (unsigned int i = 1; i < nr; i++)
		if (rate(&runs[i]) > rate(&runs[peak]))
			peak = i;
	while (rate(&runs[knee]) < 0.95 * rate(&runs[peak]))
		knee++;
	note(outcome,
	     "%s groups: gains end at %s contexts with %s, %.2f times that of the first; the peak "
	     "is at %s, and %s contexts reach %.0f %% of it.  Lock waits: %s with the first, %s at "
	     "the knee, %s with the last, most of it for %s.",
	     groups, knob_text(&runs[knee].knobs, KNOB_NR_WB_CTX),
	     human_rate(runs[knee].results.bandwidth_bytes_per_s), rate(&runs[knee]) / rate(runs),
	     knob_text(&runs[peak].knobs, KNOB_NR_WB_CTX), knob_text(&last->knobs, KNOB_NR_WB_CTX),
	     100 * rate(last) / rate(&runs[peak]), human_ns(waits(&runs[0].results)),
	     human_ns(waits(&runs[knee].results)), human_ns(waits(&last->results)),
	     worst_lock(&last->results));
}

static void judge(const struct sweep *sweep, struct outcome *outcome)
{
	const struct axis *groups = &sweep->axes[0];
	unsigned int nr = sweep->axes[1].nr;

	for (unsigned int i = 0; i < groups->nr; i++)
		judge_row(outcome, groups->values[i], &outcome->runs[i * nr], nr);
}

const struct named_sweep sweep_knee = {
	.name = "knee",
	.text = "1 to 16 contexts over 1 to 16 allocation groups: where gains end, and why",
	.job = JOB_TWELVE_DIRECTORIES,
	.knobs = knee_knobs,
	.vary = knee_vary,
	.judge = judge,
};

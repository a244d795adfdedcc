/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_env_lockdep.c - inversions are found, and nothing else
 */
#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "env/lockdep.h"

static struct env_mutex a, b, c;
static struct env_rwsem sem;

static void setup(void)
{
	env_lockdep_install();
	env_mutex_init(&a, "A");
	env_mutex_init(&b, "B");
	env_mutex_init(&c, "C");
	env_rwsem_init(&sem, "S");
}

static void nest(struct env_mutex *outer, struct env_mutex *inner)
{
	env_mutex_lock(outer);
	env_mutex_lock(inner);
	env_mutex_unlock(inner);
	env_mutex_unlock(outer);
}

/* ---- what a report says ---- */

static FILE *report;
static int real_stderr;

static void report_start(void)
{
	report = tmpfile();
	cr_assert_not_null(report);
	real_stderr = dup(STDERR_FILENO);
	dup2(fileno(report), STDERR_FILENO);
}

static void report_read(char *text, size_t size)
{
	size_t len;

	fflush(stderr);
	dup2(real_stderr, STDERR_FILENO);
	close(real_stderr);
	rewind(report);
	len = fread(text, 1, size - 1, report);
	text[len] = '\0';
	fclose(report);
}

/* ---- clean programs ---- */

static void clean_thread(void *arg)
{
	(void)arg;
	nest(&a, &b);
	nest(&b, &c);
	nest(&a, &c);
}

Test(env_lockdep, clean_program, .init = setup)
{
	struct env_thread *threads[3];

	for (unsigned int i = 0; i < 3; i++)
		cr_assert_eq(env_thread_create(&threads[i], "clean", clean_thread, NULL), 0);
	for (unsigned int i = 0; i < 3; i++)
		env_thread_join(threads[i]);
	cr_assert_not(env_lockdep_found());
}

Test(env_lockdep, locks_may_be_released_in_any_order, .init = setup)
{
	env_mutex_lock(&a);
	env_mutex_lock(&b);
	env_mutex_unlock(&a);
	env_mutex_unlock(&b);
	/* Nothing is held any more, so this says nothing about A. */
	env_mutex_lock(&b);
	env_mutex_unlock(&b);
	env_mutex_lock(&a);
	env_mutex_unlock(&a);
	cr_assert_not(env_lockdep_found());
}

/* A try does not wait, so it may go against the order. */
Test(env_lockdep, trylock_is_no_inversion, .init = setup)
{
	nest(&a, &b);
	env_mutex_lock(&b);
	cr_assert(env_mutex_trylock(&a));
	env_mutex_unlock(&a);
	env_mutex_unlock(&b);
	cr_assert_not(env_lockdep_found());
}

Test(env_lockdep, lock_made_anew_has_its_new_class, .init = setup)
{
	nest(&a, &b);
	env_mutex_init(&a, "D");
	env_mutex_init(&b, "E");
	nest(&b, &a);
	cr_assert_not(env_lockdep_found());
}

Test(env_lockdep, unknown_lock_is_ignored, .init = setup)
{
	struct env_mutex unknown = {0};

	nest(&a, &unknown);
	nest(&unknown, &a);
	cr_assert_not(env_lockdep_found());
}

Test(env_lockdep, many_locks_are_known)
{
	static struct env_mutex many[5000];

	setup();
	for (unsigned int i = 0; i < 5000; i++)
		env_mutex_init(&many[i], i % 2 ? "odd" : "even");
	for (unsigned int i = 0; i < 5000; i += 2)
		nest(&many[i], &many[i + 1]);
	cr_assert_not(env_lockdep_found());
	nest(&many[4001], &many[4000]);
	cr_assert(env_lockdep_found());
}

/* ---- inversions ---- */

Test(env_lockdep, ab_ba_is_reported_with_both_chains, .init = setup)
{
	char text[2048];

	report_start();
	nest(&a, &b);
	nest(&b, &a);
	report_read(text, sizeof(text));
	cr_assert(env_lockdep_found());
	cr_assert_str_eq(text, "lockdep: lock order inversion: \"B\" and \"A\"\n"
			       "    now:    B -> A\n"
			       "    before: A -> B\n");
}

Test(env_lockdep, inversion_is_reported_once, .init = setup)
{
	char text[2048];

	nest(&a, &b);
	nest(&b, &a);
	report_start();
	nest(&b, &a);
	nest(&a, &b);
	report_read(text, sizeof(text));
	cr_assert_str_eq(text, "");
}

static void nest_ab(void *arg)
{
	(void)arg;
	nest(&a, &b);
}

/* The two orders need not meet in time. */
Test(env_lockdep, inversion_of_two_threads, .init = setup)
{
	struct env_thread *thread;

	cr_assert_eq(env_thread_create(&thread, "ab", nest_ab, NULL), 0);
	env_thread_join(thread);
	cr_assert_not(env_lockdep_found());
	nest(&b, &a);
	cr_assert(env_lockdep_found());
}

Test(env_lockdep, circle_of_three, .init = setup)
{
	char text[2048];

	nest(&a, &b);
	nest(&b, &c);
	cr_assert_not(env_lockdep_found());
	report_start();
	nest(&c, &a);
	report_read(text, sizeof(text));
	cr_assert(env_lockdep_found());
	cr_assert_not_null(strstr(text, "now:    C -> A\n"));
	cr_assert_not_null(strstr(text, "before: A -> B\n"));
	cr_assert_not_null(strstr(text, "before: B -> C\n"));
}

Test(env_lockdep, readers_count, .init = setup)
{
	env_rwsem_read_lock(&sem);
	env_mutex_lock(&a);
	env_mutex_unlock(&a);
	env_rwsem_read_unlock(&sem);
	cr_assert_not(env_lockdep_found());

	env_mutex_lock(&a);
	env_rwsem_write_lock(&sem);
	env_rwsem_write_unlock(&sem);
	env_mutex_unlock(&a);
	cr_assert(env_lockdep_found());
}

Test(env_lockdep, lock_got_by_a_try_counts_as_held, .init = setup)
{
	nest(&a, &b);
	cr_assert(env_mutex_trylock(&b));
	env_mutex_lock(&a);
	env_mutex_unlock(&a);
	env_mutex_unlock(&b);
	cr_assert(env_lockdep_found());
}

/* ---- one class ---- */

Test(env_lockdep, class_does_not_nest_in_itself, .init = setup)
{
	env_mutex_init(&b, "A");
	nest(&a, &b);
	cr_assert(env_lockdep_found());
}

Test(env_lockdep, class_nests_if_allowed, .init = setup)
{
	env_lockdep_allow("A");
	env_mutex_init(&b, "A");
	nest(&a, &b);
	cr_assert_not(env_lockdep_found());
}

Test(env_lockdep, one_lock_twice_is_never_allowed, .init = setup)
{
	env_lockdep_allow("S");
	env_rwsem_read_lock(&sem);
	env_rwsem_read_lock(&sem);
	env_rwsem_read_unlock(&sem);
	env_rwsem_read_unlock(&sem);
	cr_assert(env_lockdep_found());
}

/* ---- locks of others ---- */

Test(env_lockdep, foreign_lock_takes_part, .init = setup)
{
	int folio = 0;

	env_lockdep_wait(&folio, "folio");
	env_lockdep_taken(&folio, "folio");
	env_mutex_lock(&a);
	env_mutex_unlock(&a);
	env_lockdep_release(&folio);
	env_mutex_lock(&a);
	env_lockdep_taken(&folio, "folio");
	env_lockdep_release(&folio);
	cr_assert_not(env_lockdep_found());
	env_lockdep_wait(&folio, "folio");
	cr_assert(env_lockdep_found());
	env_lockdep_release(&folio);
	env_mutex_unlock(&a);
}

Test(env_lockdep, release_of_what_is_not_held_does_nothing, .init = setup)
{
	int folio = 0;

	env_lockdep_release(&folio);
	env_mutex_lock(&a);
	env_lockdep_release(&folio);
	env_mutex_unlock(&a);
	cr_assert_not(env_lockdep_found());
}

static void take(const int *lock, const char *name)
{
	env_lockdep_wait(lock, name);
	env_lockdep_taken(lock, name);
}

Test(env_lockdep, nothing_happens_if_not_installed)
{
	int folio = 0, page = 0;

	env_lockdep_allow("other");
	take(&folio, "folio");
	take(&page, "page");
	env_lockdep_release(&page);
	env_lockdep_release(&folio);
	take(&page, "page");
	take(&folio, "folio");
	cr_assert_not(env_lockdep_found());
}

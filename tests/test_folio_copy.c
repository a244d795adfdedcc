/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_folio_copy.c - streaming copies: which way they go depends on where source and target
 * lie in their pages, what they copy does not
 */
#include <criterion/criterion.h>
#include <iomap/env.h>
#include "folio/copy.h"

#define PAGE  4096u
#define ROOM  (4 * PAGE)
#define GUARD 0xee

static unsigned char source[ROOM] __attribute__((aligned(4096)));
static unsigned char target[ROOM] __attribute__((aligned(4096)));

static void source_fill(void)
{
	struct env_rng rng;

	env_rng_seed(&rng, 1);
	for (size_t i = 0; i < sizeof(source); i++)
		source[i] = (unsigned char)env_rng_below(&rng, 256);
}

static void expect_copied(size_t to, size_t from, size_t len)
{
	memset(target, GUARD, sizeof(target));
	memset(copy_recent, 0, sizeof(copy_recent)); /* else these pages would get a plain copy */
	copy_stream(target + to, source + from, len);
	cr_assert_eq(memcmp(target + to, source + from, len), 0, "%zu bytes from %zu to %zu", len,
		     from, to);
	for (size_t i = 0; i < sizeof(target); i++)
		if (i < to || i >= to + len)
			cr_assert_eq(target[i], GUARD, "byte %zu, copied %zu to %zu", i, len, to);
}

Test(folio_copy, a_page_from_any_place_in_a_page)
{
	source_fill();
	for (size_t from = 0; from < PAGE; from += 8)
		expect_copied(PAGE, from, PAGE);
}

Test(folio_copy, parts_of_lines_at_both_ends)
{
	source_fill();
	for (size_t to = PAGE; to < PAGE + 64; to += 9)
		for (size_t from = to - 64; from < to + 64; from += 5)
			expect_copied(to, from, PAGE - 13);
}

Test(folio_copy, several_pages)
{
	source_fill();
	for (size_t from = 0; from < PAGE; from += 40)
		expect_copied(PAGE - 100, from, 2 * PAGE + 200);
}

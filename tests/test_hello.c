/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_hello.c - the tutorial file system does what it says
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

Test(hello, reads_back_what_it_wrote_and_zeroes_what_it_left_out)
{
	char out[256] = "";
	FILE *hello = popen(IOMAP_BUILD "/hello", "r");
	size_t n;

	cr_assert_not_null(hello);
	n = fread(out, 1, sizeof(out) - 1, hello);
	out[n] = '\0';
	cr_assert_eq(pclose(hello), 0);
	cr_assert_str_eq(out, "hello, world\n"
			      "14 bytes written by the caller, 8192 to the device in 1 request\n");
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * tsan.c - lets criterion run under ThreadSanitizer
 *
 * Criterion maps its shared arena at random addresses, of which most are shadow memory under
 * ThreadSanitizer, and gives up.  It draws them with rand_r(); this one, linked in its place,
 * draws only from the part of that range that a program may use.  The address is
 * 0x200000000000 + number * 16 MiB, and programs may use 0x550000000000 to 0x567fffffffff.
 */
#if defined(__SANITIZE_THREAD__) && defined(__x86_64__)

#include <stdlib.h>

__attribute__((visibility("default"))) int rand_r(unsigned int *seed)
{
	*seed = *seed * 1103515245u + 12345u;
	return (int)(0x350000u + (*seed >> 8) % 0x18000u);
}

#endif

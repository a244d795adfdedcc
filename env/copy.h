/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * copy.h - copy file bytes that another thread may be changing
 *
 * A reader may see a concurrent write half done (E6), and a device may take a folio's bytes
 * while they change (F28): that is the contract, bytes are all that can differ.  So the race
 * checker is not asked about these copies.
 */
#ifndef ENV_COPY_H
#define ENV_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SANITIZE_THREAD__)
#define ENV_COPY_UNCHECKED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ENV_COPY_UNCHECKED 1
#endif
#endif

#ifdef ENV_COPY_UNCHECKED
__attribute__((no_sanitize("thread"), noinline, unused)) static void
env_copy_shared(void *to, const void *from, size_t len)
{
	volatile unsigned char *out = to;
	const volatile unsigned char *in = from;

	for (size_t i = 0; i < len; i++)
		out[i] = in[i];
}
#else
static inline void env_copy_shared(void *to, const void *from, size_t len)
{
	memcpy(to, from, len);
}
#endif

#endif

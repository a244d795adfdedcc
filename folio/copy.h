/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * copy.h - copies between the caller's memory and the cache
 *
 * Bytes written to a cached page are next read by a device, seldom by this CPU.  So they are
 * stored past the CPU's caches, which saves reading every line before it is overwritten: more
 * than half the time of a copy to a page that is not in them.  A page that this thread has used
 * lately is probably there; it gets an ordinary copy.
 */
#ifndef FOLIO_COPY_H
#define FOLIO_COPY_H

#include <stddef.h>
#include <stdint.h>
#include "env/copy.h"

#define COPY_PAGE_SHIFT 12
/* Pages a thread remembers; together about what its CPU's nearest caches hold. */
#define COPY_RECENT 64
/* Below this the price of streaming is more than it saves. */
#define COPY_STREAM_MIN 512

extern __thread uintptr_t copy_recent[COPY_RECENT] __attribute__((tls_model("initial-exec")));

void copy_stream(void *to, const void *from, size_t len);

/* This thread has just used the page at `memory`. */
static inline void copy_note(const void *memory)
{
	uintptr_t page = (uintptr_t)memory >> COPY_PAGE_SHIFT;

	copy_recent[page % COPY_RECENT] = page;
}

static inline void copy_to_cache(void *to, const void *from, size_t len)
{
	uintptr_t page = (uintptr_t)to >> COPY_PAGE_SHIFT;

	if (len < COPY_STREAM_MIN ||
	    (len <= 1u << COPY_PAGE_SHIFT && copy_recent[page % COPY_RECENT] == page))
		env_copy_shared(to, from, len);
	else
		copy_stream(to, from, len);
}

static inline void copy_from_cache(void *to, const void *from, size_t len)
{
	env_copy_shared(to, from, len);
	copy_note(from);
}

#endif

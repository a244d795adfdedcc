/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * copy.c - streaming copies into the cache
 */
#include "folio/copy.h"

#include <stdbool.h>

#if defined(__SSE2__) && !defined(ENV_COPY_UNCHECKED)
#include <emmintrin.h>
#define COPY_CAN_STREAM 1
#endif

#define LINE 64u
/* Addresses that differ by a multiple of it look alike to the order of loads and stores. */
#define ALIAS_BYTES	 4096u
#define STORES_UNDER_WAY 512u /* bytes, at most */

__thread uintptr_t copy_recent[COPY_RECENT] __attribute__((tls_model("initial-exec")));

#ifdef COPY_CAN_STREAM
/* A whole, aligned cache line, so that it goes to memory in one piece. */
static inline void stream_line(unsigned char *to, const unsigned char *from)
{
	__m128i a = _mm_loadu_si128((const __m128i *)(const void *)from);
	__m128i b = _mm_loadu_si128((const __m128i *)(const void *)(from + 16));
	__m128i c = _mm_loadu_si128((const __m128i *)(const void *)(from + 32));
	__m128i d = _mm_loadu_si128((const __m128i *)(const void *)(from + 48));

	_mm_stream_si128((__m128i *)(void *)to, a);
	_mm_stream_si128((__m128i *)(void *)(to + 16), b);
	_mm_stream_si128((__m128i *)(void *)(to + 32), c);
	_mm_stream_si128((__m128i *)(void *)(to + 48), d);
}

/*
 * A CPU tells a load from the stores before it by the low bits of their addresses, and lets one
 * that looks like a store under way wait for it.  Going up, a load looks like the stores just
 * done if the source lies a little before the target, page offset by page offset; a page then
 * took 2.5 times as long.  Going down, the same loads are ahead of the stores.
 */
static inline bool runs_into_stores(const unsigned char *to, const unsigned char *from)
{
	return ((uintptr_t)to - (uintptr_t)from - 1) % ALIAS_BYTES < STORES_UNDER_WAY;
}

static void stream_lines(unsigned char *to, const unsigned char *from, size_t len)
{
	if (runs_into_stores(to, from)) {
		for (size_t i = len; i > 0; i -= LINE)
			stream_line(to + i - LINE, from + i - LINE);
		return;
	}
	for (size_t i = 0; i < len; i += LINE)
		stream_line(to + i, from + i);
}

/* Copy len bytes that lie in one page. */
static void copy_piece(unsigned char *to, const unsigned char *from, size_t len)
{
	uintptr_t page = (uintptr_t)to >> COPY_PAGE_SHIFT;
	size_t head = -(uintptr_t)to % LINE;
	size_t lines;

	if (copy_recent[page % COPY_RECENT] == page || len < head + LINE) {
		memcpy(to, from, len);
	} else {
		copy_recent[page % COPY_RECENT] = page;
		lines = (len - head) / LINE * LINE;
		memcpy(to, from, head);
		stream_lines(to + head, from + head, lines);
		memcpy(to + head + lines, from + head + lines, len - head - lines);
	}
}

void copy_stream(void *to, const void *from, size_t len)
{
	unsigned char *out = to;
	const unsigned char *in = from;

	while (len) {
		size_t piece = (1u << COPY_PAGE_SHIFT) - (uintptr_t)out % (1u << COPY_PAGE_SHIFT);

		piece = piece < len ? piece : len;
		copy_piece(out, in, piece);
		out += piece;
		in += piece;
		len -= piece;
	}
	/* Before the folio's unlock says that the bytes are there. */
	_mm_sfence();
}
#else
void copy_stream(void *to, const void *from, size_t len)
{
	env_copy_shared(to, from, len);
}
#endif

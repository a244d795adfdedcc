/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * copy.c - streaming copies into the cache
 */
#include "folio/copy.h"

#if defined(__SSE2__) && !defined(ENV_COPY_UNCHECKED)
#include <emmintrin.h>
#define COPY_CAN_STREAM 1
#endif

#define LINE 64u

__thread uintptr_t copy_recent[COPY_RECENT] __attribute__((tls_model("initial-exec")));

#ifdef COPY_CAN_STREAM
/* Whole, aligned cache lines, so that each goes to memory in one piece. */
static void stream_lines(unsigned char *to, const unsigned char *from, size_t len)
{
	for (size_t i = 0; i < len; i += LINE) {
		__m128i a = _mm_loadu_si128((const __m128i *)(const void *)(from + i));
		__m128i b = _mm_loadu_si128((const __m128i *)(const void *)(from + i + 16));
		__m128i c = _mm_loadu_si128((const __m128i *)(const void *)(from + i + 32));
		__m128i d = _mm_loadu_si128((const __m128i *)(const void *)(from + i + 48));

		_mm_stream_si128((__m128i *)(void *)(to + i), a);
		_mm_stream_si128((__m128i *)(void *)(to + i + 16), b);
		_mm_stream_si128((__m128i *)(void *)(to + i + 32), c);
		_mm_stream_si128((__m128i *)(void *)(to + i + 48), d);
	}
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

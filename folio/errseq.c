/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * errseq.c - each open file learns of each error once (K24..K26)
 *
 * A word holds the last error (low 12 bits), whether somebody has seen it, and a counter.
 */
#include "folio/internal.h"

#define ERRSEQ_ERROR 0xfffu
#define ERRSEQ_SEEN  0x1000u
#define ERRSEQ_STEP  0x2000u

void errseq_set(errseq_t *word, int error)
{
	errseq_t old = __atomic_load_n(word, __ATOMIC_ACQUIRE);
	errseq_t next;

	assert(error < 0 && error >= -(int)ERRSEQ_ERROR);
	do {
		next = (old & ~(ERRSEQ_ERROR | ERRSEQ_SEEN)) | (uint32_t)-error;
		if (old & ERRSEQ_SEEN)
			next += ERRSEQ_STEP;
		if (next == old)
			return;
	} while (!__atomic_compare_exchange_n(word, &old, next, false, __ATOMIC_ACQ_REL,
					      __ATOMIC_ACQUIRE));
}

errseq_t errseq_sample(const errseq_t *word)
{
	errseq_t now = __atomic_load_n(word, __ATOMIC_ACQUIRE);

	/* An error nobody has seen shall be reported to the new opener. */
	return now & ERRSEQ_SEEN ? now : 0;
}

int errseq_check_and_advance(errseq_t *word, errseq_t *since)
{
	errseq_t now = __atomic_load_n(word, __ATOMIC_ACQUIRE);
	errseq_t seen;

	if (now == *since)
		return 0;
	do {
		seen = now | ERRSEQ_SEEN;
	} while (seen != now && !__atomic_compare_exchange_n(word, &now, seen, false,
							     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
	__atomic_store_n(since, seen, __ATOMIC_RELAXED);
	return -(int)(seen & ERRSEQ_ERROR);
}

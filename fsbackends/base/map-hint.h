/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * map-hint.h - one record of a file's map that can be read without a lock
 *
 * Most writes and reads fall into the longest record of their file.  A look-up that had to
 * take the lock leaves a copy of it here, with the sequence number of the map it was true for;
 * a later look-up takes it if the map has not changed since.
 */
#ifndef FSBACKENDS_MAP_HINT_H
#define FSBACKENDS_MAP_HINT_H

#include <stdbool.h>
#include <stdint.h>
#include "fsbackends/base/extent-map.h"

struct map_hint {
	uint32_t version; /* [a] odd while the rest is being changed */
	uint32_t state;
	uint64_t seq; /* of the map; the rest is nothing without it */
	uint64_t file;
	uint64_t start;
	uint64_t len; /* 0: none */
};

/* The record with the block, if the hint has it and the map is still at seq. */
static inline bool map_hint_get(const struct map_hint *hint, uint64_t seq, uint64_t block,
				struct extent *extent)
{
	uint32_t version = __atomic_load_n(&hint->version, __ATOMIC_ACQUIRE);

	if (version & 1 || __atomic_load_n(&hint->seq, __ATOMIC_ACQUIRE) != seq)
		return false;
	extent->file = __atomic_load_n(&hint->file, __ATOMIC_ACQUIRE);
	extent->start = __atomic_load_n(&hint->start, __ATOMIC_ACQUIRE);
	extent->len = __atomic_load_n(&hint->len, __ATOMIC_ACQUIRE);
	extent->state = (enum extent_state)__atomic_load_n(&hint->state, __ATOMIC_ACQUIRE);
	if (__atomic_load_n(&hint->version, __ATOMIC_RELAXED) != version)
		return false;
	return block - extent->file < extent->len;
}

/*
 * Leave the record here if there is none that is still true and as long.
 * => the map's lock is held, so that seq and extent belong together
 */
static inline void map_hint_put(struct map_hint *hint, uint64_t seq, const struct extent *extent)
{
	uint32_t version = __atomic_load_n(&hint->version, __ATOMIC_RELAXED);

	if (__atomic_load_n(&hint->seq, __ATOMIC_RELAXED) == seq &&
	    __atomic_load_n(&hint->len, __ATOMIC_RELAXED) >= extent->len)
		return;
	/* Somebody else is doing the same: one of us is enough. */
	if (version & 1 || !__atomic_compare_exchange_n(&hint->version, &version, version + 1,
							false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	__atomic_store_n(&hint->seq, seq, __ATOMIC_RELEASE);
	__atomic_store_n(&hint->file, extent->file, __ATOMIC_RELEASE);
	__atomic_store_n(&hint->start, extent->start, __ATOMIC_RELEASE);
	__atomic_store_n(&hint->len, extent->len, __ATOMIC_RELEASE);
	__atomic_store_n(&hint->state, (uint32_t)extent->state, __ATOMIC_RELEASE);
	__atomic_store_n(&hint->version, version + 2, __ATOMIC_RELEASE);
}

#endif

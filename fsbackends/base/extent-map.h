/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * extent-map.h - the space of one file: disjoint records in file order (XF9)
 *
 * Everything is in blocks.  No lock: the owner's.
 */
#ifndef FSBACKENDS_EXTENT_MAP_H
#define FSBACKENDS_EXTENT_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum extent_state {
	EXTENT_NORM, /* written */
	EXTENT_UNWRITTEN,
	EXTENT_DELAYED, /* promised; start is meaningless */
};

#define EXTENT_NO_START UINT64_MAX

struct extent {
	uint64_t file; /* first block in the file */
	uint64_t start; /* first block on the device, EXTENT_NO_START if delayed */
	uint64_t len; /* blocks */
	enum extent_state state;
	uint32_t reserved; /* metadata blocks promised with a delayed record */
};

struct extent_chunk;

struct extent_map {
	struct extent_chunk **chunks;
	size_t nr_chunks;
	size_t max_chunks;
	uint64_t nr; /* records */
	uint64_t nr_delayed; /* .. that are delayed */
	uint64_t max_len; /* longest record (MAXEXT), real and delayed alike */
	uint64_t max_unwritten; /* longest unwritten record */
};

void extent_map_init(struct extent_map *map, uint64_t max_len, uint64_t max_unwritten);
void extent_map_destroy(struct extent_map *map);

/* The record that contains block, or else the first one behind it; false if neither. */
bool extent_map_find(const struct extent_map *map, uint64_t block, struct extent *found);
/* The last record that starts before block (and may contain it); false if none. */
bool extent_map_find_before(const struct extent_map *map, uint64_t block, struct extent *found);
/* The last record of the map. */
bool extent_map_last(const struct extent_map *map, struct extent *found);

/*
 * Add a record over a hole, joining neighbours by XF9: real ones adjacent in file and device
 * and of equal state; delayed ones adjacent in the file (their reserved counts add up); never
 * past the longest length.  -ENOMEM with the map unchanged.
 */
int extent_map_insert(struct extent_map *map, const struct extent *extent);

/*
 * Make [file, file + len), which lies inside existing records, be at device block start in
 * state (from delayed to real, from unwritten to written); joins neighbours.  start is
 * EXTENT_NO_START to keep the addresses.  The reserved counts of delayed records cut in two
 * stay with the remaining pieces; that of what was replaced is returned in *reserved (may be
 * NULL).  -ENOMEM with the map unchanged.
 */
int extent_map_convert(struct extent_map *map, uint64_t file, uint64_t len, uint64_t start,
		       enum extent_state state, uint32_t *reserved);

/*
 * Remove what lies in [file, file + len), calling fn for each piece removed (in file order).
 * only_delayed: leave real records alone.  -ENOMEM with the map unchanged and fn not called.
 */
int extent_map_remove(struct extent_map *map, uint64_t file, uint64_t len, bool only_delayed,
		      void (*fn)(void *arg, const struct extent *piece), void *arg);

/*
 * Remove what lies in [file, file + len), calling fn for each piece, and move what is behind it
 * down; or make a hole there and move what was from `file` on up.  -ENOMEM with the map unchanged
 * and fn not called.  => nothing from `file` on is delayed
 */
int extent_map_collapse(struct extent_map *map, uint64_t file, uint64_t len,
			void (*fn)(void *arg, const struct extent *piece), void *arg);
int extent_map_insert_hole(struct extent_map *map, uint64_t file, uint64_t len);

/* For assertions: ordered, disjoint, merged, counts right. */
bool extent_map_ok(const struct extent_map *map);

#endif

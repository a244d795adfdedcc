/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * target.c - place a range behind, or before, its neighbours in the file
 *
 *	file	 prev |<-- gap -->| request |<-- gap' -->| next
 *	device	 prev |<-- gap -->| target
 *
 * A short gap is kept on the device, to be filled when the hole in the file is.
 */
#include "target.h"

/* A gap is short up to so many times the request. */
#define SHORT_GAP 4

struct choice {
	bool valid;
	struct xfs_place place;
	uint64_t distance;
};

static bool find_real_before(const struct extent_map *map, uint64_t file, struct extent *prev)
{
	return extent_map_find_before(map, file, prev) && prev->state != EXTENT_DELAYED;
}

/* The first block behind the record, even if its group ends there. */
static struct xfs_place place_behind(const struct xfs_geometry *geometry, const struct extent *prev)
{
	struct xfs_place place = xfs_place_of(geometry, prev->start);

	place.block += prev->len;
	return place;
}

static struct choice choose_left(const struct xfs_geometry *geometry, const struct extent *prev,
				 uint64_t file, uint64_t longest_gap)
{
	uint64_t gap = file - (prev->file + prev->len);
	struct choice choice = {true, place_behind(geometry, prev), 2 * gap};

	if (gap <= longest_gap &&
	    choice.place.block + gap < xfs_ag_nr_blocks(geometry, choice.place.ag)) {
		choice.place.block += gap;
		choice.distance = gap;
	}
	return choice;
}

static struct choice choose_right(const struct xfs_geometry *geometry, const struct extent *next,
				  uint64_t file, uint64_t len, bool keep_gap)
{
	uint64_t gap = next->file - file;
	struct choice choice = {true, xfs_place_of(geometry, next->start), 2 * gap};

	if (keep_gap && gap <= SHORT_GAP * len && choice.place.block >= gap) {
		choice.place.block -= gap;
		choice.distance = gap;
	} else if (choice.place.block >= len) {
		choice.place.block -= len;
		choice.distance = 2 * gap - len;
	}
	return choice;
}

bool xfs_target_delayed(const struct xfs_geometry *geometry, const struct extent_map *map,
			uint64_t file, uint64_t len, bool keep_gap, struct xfs_place *target)
{
	struct extent prev;

	if (!find_real_before(map, file, &prev))
		return false;
	*target = choose_left(geometry, &prev, file, keep_gap ? SHORT_GAP * len : 0).place;
	return true;
}

bool xfs_target_direct(const struct xfs_geometry *geometry, const struct extent_map *map,
		       uint64_t file, uint64_t len, bool keep_gap, struct xfs_place *target)
{
	struct choice left = {0};
	struct choice right = {0};
	struct extent prev, next;
	bool is_last = !extent_map_find(map, file, &next);
	uint64_t longest_gap = is_last ? UINT64_MAX : SHORT_GAP * len;

	if (find_real_before(map, file, &prev))
		left = choose_left(geometry, &prev, file, keep_gap ? longest_gap : 0);
	if (!is_last && next.state != EXTENT_DELAYED)
		right = choose_right(geometry, &next, file, len, keep_gap);

	if (left.valid && (!right.valid || left.distance <= right.distance))
		*target = left.place;
	else if (right.valid)
		*target = right.place;
	return left.valid || right.valid;
}

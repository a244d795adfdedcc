/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * extent-shift.c - records that change their place in the file
 *
 * A second map is made, record by record, with everything where it will be; so neighbours join
 * as in any map, and until it is complete nothing has changed.
 */
#include "extent-map.h"

#include <assert.h>

static uint64_t extent_end(const struct extent *extent)
{
	return extent->file + extent->len;
}

/* The part of the record in [from, to), length 0 if there is none. */
static struct extent part_in(const struct extent *extent, uint64_t from, uint64_t to)
{
	struct extent part = *extent;

	from = from > extent->file ? from : extent->file;
	to = to < extent_end(extent) ? to : extent_end(extent);
	part.file = from;
	part.len = from < to ? to - from : 0;
	if (part.state != EXTENT_DELAYED)
		part.start += from - extent->file;
	assert(part.len == 0 || part.len == extent->len || part.state != EXTENT_DELAYED);
	return part;
}

static int add_part(struct extent_map *map, struct extent part, uint64_t file)
{
	if (part.len == 0)
		return 0;
	part.file = file;
	return extent_map_insert(map, &part);
}

/* The map without [file, file + gone), what is behind that moved up by `up` besides. */
static int make_shifted(const struct extent_map *map, uint64_t file, uint64_t gone, uint64_t up,
			struct extent_map *shifted)
{
	struct extent extent;
	int err = 0;

	extent_map_init(shifted, map->max_len, map->max_unwritten);
	for (uint64_t block = 0; !err && extent_map_find(map, block, &extent);
	     block = extent_end(&extent)) {
		struct extent before = part_in(&extent, 0, file);
		struct extent behind = part_in(&extent, file + gone, UINT64_MAX);

		err = add_part(shifted, before, before.file);
		if (!err)
			err = add_part(shifted, behind, behind.file - gone + up);
	}
	if (err)
		extent_map_destroy(shifted);
	return err;
}

static void replace(struct extent_map *map, struct extent_map *by)
{
	extent_map_destroy(map);
	*map = *by;
}

int extent_map_collapse(struct extent_map *map, uint64_t file, uint64_t len,
			void (*fn)(void *arg, const struct extent *piece), void *arg)
{
	struct extent_map shifted;
	struct extent extent;
	int err = make_shifted(map, file, len, 0, &shifted);

	if (err)
		return err;
	for (uint64_t block = file;
	     extent_map_find(map, block, &extent) && extent.file < file + len;
	     block = extent_end(&extent)) {
		struct extent piece = part_in(&extent, file, file + len);

		fn(arg, &piece);
	}
	replace(map, &shifted);
	return 0;
}

int extent_map_insert_hole(struct extent_map *map, uint64_t file, uint64_t len)
{
	struct extent_map shifted;
	int err = make_shifted(map, file, 0, len, &shifted);

	if (!err)
		replace(map, &shifted);
	return err;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * iter.c - walk a range of a file, one map at a time (section b)
 *
 * Every successful begin is matched by one end, on every path (B11).
 */
#include <iomap/cost.h>

#include "iomap/internal.h"

int iomap_iter_advance(struct iomap_iter *iter, uint64_t n)
{
	if (n > iomap_length(iter))
		return -EIO;
	iter->pos += n;
	iter->len -= n;
	return 0;
}

/* Bytes that could have been done under the map from where it was got (B6). */
static uint64_t mapped_length(const struct iomap_iter *iter)
{
	uint64_t advanced = iter->pos - iter->iter_start_pos;
	uint64_t end = iter->iomap.offset + iter->iomap.length;
	uint64_t left = iter->len + advanced;

	if (iter->srcmap.type != IOMAP_HOLE && iter->srcmap.offset + iter->srcmap.length < end)
		end = iter->srcmap.offset + iter->srcmap.length;
	end -= iter->iter_start_pos;
	return end < left ? end : left;
}

/* Is what begin gave a map that can be used (A1, A5)? */
static bool map_is_usable(const struct iomap_iter *iter)
{
	const struct iomap *map = &iter->iomap;
	const struct iomap *src = &iter->srcmap;

	if (map->length == 0 || map->offset > iter->pos || map->length <= iter->pos - map->offset)
		return false;
	if (src->type != IOMAP_HOLE &&
	    (src->length == 0 || src->offset > iter->pos || src->length <= iter->pos - src->offset))
		return false;
	return !(iter->flags & IOMAP_WRITE) || iter->flags & IOMAP_UNSHARE ||
	       map->type != IOMAP_HOLE;
}

static int iter_finish(struct iomap_iter *iter, const struct iomap_ops *ops)
{
	uint64_t advanced = iter->pos - iter->iter_start_pos;
	bool stale = iter->iomap.flags & IOMAP_F_STALE;
	int err = 0;

	if (ops->iomap_end)
		err = ops->iomap_end(iter->inode, iter->iter_start_pos, mapped_length(iter),
				     advanced, iter->flags, &iter->iomap);
	iter->iomap.length = 0; /* no map is held */
	/* Progress wins over end's error (B6). */
	if (err < 0 && !advanced)
		return err;
	if (iter->status > 0)
		return -EIO;
	if (iter->status < 0)
		return iter->status;
	if (iter->len == 0 || (!advanced && !stale))
		return 0;
	return 1;
}

int iomap_iter(struct iomap_iter *iter, const struct iomap_ops *ops)
{
	int ret;

	if (iter->iomap.length) {
		ret = iter_finish(iter, ops);
		if (ret <= 0)
			return ret;
	} else if (iter->len == 0) {
		return 0;
	}
	iter->iter_start_pos = iter->pos;
	iter->status = 0;
	memset(&iter->iomap, 0, sizeof(iter->iomap));
	memset(&iter->srcmap, 0, sizeof(iter->srcmap));
	ret = ops->iomap_begin(iter->inode, iter->pos, iter->len, iter->flags, &iter->iomap,
			       &iter->srcmap);
	if (ret < 0) {
		iter->iomap.length = 0;
		return ret;
	}
	env_charge(ENV_COST_MAP, 1);
	if (unlikely(!map_is_usable(iter))) {
		if (ops->iomap_end)
			ops->iomap_end(iter->inode, iter->pos, 0, 0, iter->flags, &iter->iomap);
		iter->iomap.length = 0;
		return -EIO;
	}
	return 1;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * free-space.c - free extents in two trees
 *
 * Each free extent is one node in both.  A change of start or length that keeps the order by
 * start touches only the tree by size.
 */
#include "free-space.h"

#include <assert.h>
#include <errno.h>
#include <iomap/env.h>
#include <iomap/list.h>

/* Nodes kept so that freeing goes on when memory is short. */
#define MAX_SPARES 16

static struct xfs_free_extent *from_start(const struct xfs_tree_node *node)
{
	return node ? container_of(node, struct xfs_free_extent, by_start) : NULL;
}

static struct xfs_free_extent *from_size(const struct xfs_tree_node *node)
{
	return node ? container_of(node, struct xfs_free_extent, by_size) : NULL;
}

/* ---- nodes ------------------------------------------------------------------------------- */

static void spare_put(struct xfs_free_space *space, struct xfs_free_extent *extent)
{
	if (space->nr_spares == MAX_SPARES) {
		env_free(extent);
		return;
	}
	extent->by_start.parent = space->spares ? &space->spares->by_start : NULL;
	space->spares = extent;
	space->nr_spares++;
}

static struct xfs_free_extent *spare_get(struct xfs_free_space *space)
{
	struct xfs_free_extent *extent = space->spares;

	if (!extent)
		return env_alloc(sizeof(*extent));
	space->spares = from_start(extent->by_start.parent);
	space->nr_spares--;
	return extent;
}

/* Taking can fail where giving back must not: it is the time to lay in spares. */
static void spares_fill(struct xfs_free_space *space)
{
	while (space->nr_spares < MAX_SPARES) {
		struct xfs_free_extent *extent = env_alloc(sizeof(*extent));

		if (!extent)
			return;
		spare_put(space, extent);
	}
}

/* ---- links ------------------------------------------------------------------------------- */

static void link_by_start(struct xfs_free_space *space, struct xfs_free_extent *extent)
{
	struct xfs_tree_node *parent = NULL;
	struct xfs_tree_node *next = space->by_start.root;
	enum xfs_tree_side side = XFS_TREE_LEFT;

	while (next) {
		parent = next;
		side = extent->start < from_start(next)->start ? XFS_TREE_LEFT : XFS_TREE_RIGHT;
		next = next->child[side];
	}
	xfs_tree_link(&space->by_start, &extent->by_start, parent, side);
}

static bool is_smaller(const struct xfs_free_extent *a, const struct xfs_free_extent *b)
{
	return a->len != b->len ? a->len < b->len : a->start < b->start;
}

static void link_by_size(struct xfs_free_space *space, struct xfs_free_extent *extent)
{
	struct xfs_tree_node *parent = NULL;
	struct xfs_tree_node *next = space->by_size.root;
	enum xfs_tree_side side = XFS_TREE_LEFT;

	while (next) {
		parent = next;
		side = is_smaller(extent, from_size(next)) ? XFS_TREE_LEFT : XFS_TREE_RIGHT;
		next = next->child[side];
	}
	xfs_tree_link(&space->by_size, &extent->by_size, parent, side);
}

static void insert(struct xfs_free_space *space, struct xfs_free_extent *extent, uint64_t start,
		   uint64_t len)
{
	extent->start = start;
	extent->len = len;
	link_by_start(space, extent);
	link_by_size(space, extent);
}

static void drop(struct xfs_free_space *space, struct xfs_free_extent *extent)
{
	xfs_tree_remove(&space->by_start, &extent->by_start);
	xfs_tree_remove(&space->by_size, &extent->by_size);
	spare_put(space, extent);
}

/* Grow or shrink between the same neighbours. */
static void reshape(struct xfs_free_space *space, struct xfs_free_extent *extent, uint64_t start,
		    uint64_t len)
{
	xfs_tree_remove(&space->by_size, &extent->by_size);
	extent->start = start;
	extent->len = len;
	link_by_size(space, extent);
}

static void publish(struct xfs_free_space *space, uint64_t nr_blocks)
{
	const struct xfs_free_extent *largest = xfs_free_space_largest(space);

	__atomic_store_n(&space->nr_blocks, nr_blocks, __ATOMIC_RELAXED);
	__atomic_store_n(&space->longest, largest ? largest->len : 0, __ATOMIC_RELAXED);
}

/* ---- life and changes -------------------------------------------------------------------- */

void xfs_free_space_init(struct xfs_free_space *space)
{
	*space = (struct xfs_free_space){0};
}

void xfs_free_space_destroy(struct xfs_free_space *space)
{
	struct xfs_free_extent *extent;

	while ((extent = from_start(space->by_start.root)) != NULL) {
		xfs_tree_remove(&space->by_start, &extent->by_start);
		env_free(extent);
	}
	while (space->spares)
		env_free(spare_get(space));
	xfs_free_space_init(space);
}

int xfs_free_space_add(struct xfs_free_space *space, uint64_t start, uint64_t len)
{
	struct xfs_free_extent *before = xfs_free_space_at(space, start);
	struct xfs_free_extent *after = before ? xfs_free_extent_by_start(before, XFS_TREE_RIGHT)
					       : xfs_free_space_first(space);
	bool joins_before = before && before->start + before->len == start;
	bool joins_after = after && start + len == after->start;

	assert(len > 0);
	assert(!before || before->start + before->len <= start);
	assert(!after || start + len <= after->start);

	if (joins_before && joins_after) {
		uint64_t joined = before->len + len + after->len;

		drop(space, after);
		reshape(space, before, before->start, joined);
	} else if (joins_before) {
		reshape(space, before, before->start, before->len + len);
	} else if (joins_after) {
		reshape(space, after, start, after->len + len);
	} else {
		struct xfs_free_extent *extent = spare_get(space);

		if (!extent)
			return -ENOMEM;
		insert(space, extent, start, len);
	}
	publish(space, space->nr_blocks + len);
	return 0;
}

int xfs_free_space_take(struct xfs_free_space *space, uint64_t start, uint64_t len)
{
	struct xfs_free_extent *extent = xfs_free_space_at(space, start);
	uint64_t head, tail;

	assert(len > 0);
	assert(extent);
	assert(start + len <= extent->start + extent->len);
	head = start - extent->start;
	tail = extent->start + extent->len - (start + len);

	spares_fill(space);
	if (head > 0 && tail > 0) {
		struct xfs_free_extent *behind = spare_get(space);

		if (!behind)
			return -ENOMEM;
		reshape(space, extent, extent->start, head);
		insert(space, behind, start + len, tail);
	} else if (head > 0) {
		reshape(space, extent, extent->start, head);
	} else if (tail > 0) {
		reshape(space, extent, start + len, tail);
	} else {
		drop(space, extent);
	}
	publish(space, space->nr_blocks - len);
	return 0;
}

/* ---- look-up ----------------------------------------------------------------------------- */

struct xfs_free_extent *xfs_free_space_at(const struct xfs_free_space *space, uint64_t block)
{
	struct xfs_tree_node *node = space->by_start.root;
	struct xfs_free_extent *best = NULL;

	while (node) {
		struct xfs_free_extent *extent = from_start(node);

		if (extent->start <= block) {
			best = extent;
			node = node->child[XFS_TREE_RIGHT];
		} else {
			node = node->child[XFS_TREE_LEFT];
		}
	}
	return best;
}

struct xfs_free_extent *xfs_free_space_first(const struct xfs_free_space *space)
{
	return from_start(xfs_tree_end(&space->by_start, XFS_TREE_LEFT));
}

struct xfs_free_extent *xfs_free_space_fitting(const struct xfs_free_space *space, uint64_t len)
{
	struct xfs_tree_node *node = space->by_size.root;
	struct xfs_free_extent *best = NULL;

	while (node) {
		struct xfs_free_extent *extent = from_size(node);

		if (extent->len >= len) {
			best = extent;
			node = node->child[XFS_TREE_LEFT];
		} else {
			node = node->child[XFS_TREE_RIGHT];
		}
	}
	return best;
}

struct xfs_free_extent *xfs_free_space_largest(const struct xfs_free_space *space)
{
	return from_size(xfs_tree_end(&space->by_size, XFS_TREE_RIGHT));
}

struct xfs_free_extent *xfs_free_extent_by_start(const struct xfs_free_extent *extent,
						 enum xfs_tree_side side)
{
	return from_start(xfs_tree_step(&extent->by_start, side));
}

struct xfs_free_extent *xfs_free_extent_by_size(const struct xfs_free_extent *extent,
						enum xfs_tree_side side)
{
	return from_size(xfs_tree_step(&extent->by_size, side));
}

uint64_t xfs_free_space_nr_from(const struct xfs_free_space *space,
				const struct xfs_free_extent *extent)
{
	return xfs_tree_nr(&space->by_size) - xfs_tree_rank(&extent->by_size);
}

bool xfs_free_space_ok(const struct xfs_free_space *space)
{
	const struct xfs_free_extent *extent = xfs_free_space_first(space);
	const struct xfs_free_extent *before = NULL;
	uint64_t nr_blocks = 0;
	uint64_t longest = 0;

	assert(xfs_tree_ok(&space->by_start));
	assert(xfs_tree_ok(&space->by_size));
	assert(xfs_tree_nr(&space->by_start) == xfs_tree_nr(&space->by_size));
	for (; extent; extent = xfs_free_extent_by_start(extent, XFS_TREE_RIGHT)) {
		assert(extent->len > 0);
		assert(!before || before->start + before->len < extent->start);
		nr_blocks += extent->len;
		longest = extent->len > longest ? extent->len : longest;
		before = extent;
	}
	before = NULL;
	for (extent = from_size(xfs_tree_end(&space->by_size, XFS_TREE_LEFT)); extent;
	     extent = xfs_free_extent_by_size(extent, XFS_TREE_RIGHT)) {
		assert(!before || is_smaller(before, extent));
		before = extent;
	}
	assert(nr_blocks == space->nr_blocks);
	assert(longest == space->longest);
	return true;
}

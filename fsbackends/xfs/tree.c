/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * tree.c - a weight-balanced binary tree
 *
 * The weight of a subtree is its number of nodes plus one.  Neither child of a node weighs
 * more than HEAVY times the other; one or two rotations restore that where a change broke it.
 * HEAVY = 3 and SINGLE = 2 is the pair for which this is known to suffice.
 */
#include "tree.h"

#include <assert.h>

#define HEAVY  3
#define SINGLE 2

static uint64_t weight(const struct xfs_tree_node *node)
{
	return node ? node->nr + 1 : 1;
}

static enum xfs_tree_side other(enum xfs_tree_side side)
{
	return side == XFS_TREE_LEFT ? XFS_TREE_RIGHT : XFS_TREE_LEFT;
}

static void count(struct xfs_tree_node *node)
{
	node->nr = weight(node->child[0]) + weight(node->child[1]) - 1;
}

/* Let `to` (or nothing) hang where `from` hangs. */
static void replace(struct xfs_tree *tree, const struct xfs_tree_node *from,
		    struct xfs_tree_node *to)
{
	struct xfs_tree_node *parent = from->parent;

	if (!parent)
		tree->root = to;
	else
		parent->child[parent->child[1] == from] = to;
	if (to)
		to->parent = parent;
}

static void adopt(struct xfs_tree_node *parent, enum xfs_tree_side side,
		  struct xfs_tree_node *child)
{
	parent->child[side] = child;
	if (child)
		child->parent = parent;
}

/* node goes down to `side`, its other child comes up. */
static struct xfs_tree_node *rotate(struct xfs_tree *tree, struct xfs_tree_node *node,
				    enum xfs_tree_side side)
{
	struct xfs_tree_node *up = node->child[other(side)];

	replace(tree, node, up);
	adopt(node, other(side), up->child[side]);
	adopt(up, side, node);
	count(node);
	count(up);
	return up;
}

/* Make up for a child on `side` that has become too light. */
static struct xfs_tree_node *lean(struct xfs_tree *tree, struct xfs_tree_node *node,
				  enum xfs_tree_side side)
{
	struct xfs_tree_node *heavy = node->child[other(side)];

	if (weight(heavy->child[side]) >= SINGLE * weight(heavy->child[other(side)]))
		rotate(tree, heavy, other(side));
	return rotate(tree, node, side);
}

static struct xfs_tree_node *balance(struct xfs_tree *tree, struct xfs_tree_node *node)
{
	uint64_t left = weight(node->child[XFS_TREE_LEFT]);
	uint64_t right = weight(node->child[XFS_TREE_RIGHT]);

	count(node);
	if (right > HEAVY * left)
		return lean(tree, node, XFS_TREE_LEFT);
	if (left > HEAVY * right)
		return lean(tree, node, XFS_TREE_RIGHT);
	return node;
}

static void balance_upwards(struct xfs_tree *tree, struct xfs_tree_node *node)
{
	while (node)
		node = balance(tree, node)->parent;
}

void xfs_tree_link(struct xfs_tree *tree, struct xfs_tree_node *node, struct xfs_tree_node *parent,
		   enum xfs_tree_side side)
{
	assert(parent ? !parent->child[side] : !tree->root);
	node->parent = parent;
	node->child[0] = NULL;
	node->child[1] = NULL;
	node->nr = 1;
	if (parent)
		parent->child[side] = node;
	else
		tree->root = node;
	balance_upwards(tree, parent);
}

void xfs_tree_remove(struct xfs_tree *tree, struct xfs_tree_node *node)
{
	struct xfs_tree_node *next;
	struct xfs_tree_node *lowest;

	if (!node->child[0] || !node->child[1]) {
		lowest = node->parent;
		replace(tree, node, node->child[node->child[0] == NULL]);
		balance_upwards(tree, lowest);
		return;
	}

	/* The next larger node has no left child; it takes node's place. */
	next = xfs_tree_step(node, XFS_TREE_RIGHT);
	lowest = next->parent == node ? next : next->parent;
	replace(tree, next, next->child[XFS_TREE_RIGHT]);
	replace(tree, node, next);
	adopt(next, XFS_TREE_LEFT, node->child[XFS_TREE_LEFT]);
	adopt(next, XFS_TREE_RIGHT, node->child[XFS_TREE_RIGHT]);
	balance_upwards(tree, lowest);
}

static struct xfs_tree_node *outermost(struct xfs_tree_node *node, enum xfs_tree_side side)
{
	while (node && node->child[side])
		node = node->child[side];
	return node;
}

struct xfs_tree_node *xfs_tree_end(const struct xfs_tree *tree, enum xfs_tree_side side)
{
	return outermost(tree->root, side);
}

struct xfs_tree_node *xfs_tree_step(const struct xfs_tree_node *node, enum xfs_tree_side side)
{
	struct xfs_tree_node *parent = node->parent;

	if (node->child[side])
		return outermost(node->child[side], other(side));
	while (parent && parent->child[side] == node) {
		node = parent;
		parent = node->parent;
	}
	return parent;
}

uint64_t xfs_tree_rank(const struct xfs_tree_node *node)
{
	uint64_t rank = weight(node->child[XFS_TREE_LEFT]) - 1;

	for (; node->parent; node = node->parent)
		if (node->parent->child[XFS_TREE_RIGHT] == node)
			rank += weight(node->parent->child[XFS_TREE_LEFT]);
	return rank;
}

static bool node_ok(const struct xfs_tree_node *node, const struct xfs_tree_node *parent)
{
	uint64_t left, right;

	if (!node)
		return true;
	left = weight(node->child[XFS_TREE_LEFT]);
	right = weight(node->child[XFS_TREE_RIGHT]);
	assert(node->parent == parent);
	assert(node->nr == left + right - 1);
	assert(left <= HEAVY * right);
	assert(right <= HEAVY * left);
	return node_ok(node->child[0], node) && node_ok(node->child[1], node);
}

bool xfs_tree_ok(const struct xfs_tree *tree)
{
	return node_ok(tree->root, NULL);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * tree.h - a balanced binary tree whose nodes live in the ordered objects
 *
 * The owner walks down by its own order and links a node at the place it found.  Each node
 * knows how many nodes are below it, which keeps the tree balanced and gives the rank of a
 * node.
 */
#ifndef FSBACKENDS_XFS_TREE_H
#define FSBACKENDS_XFS_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum xfs_tree_side {
	XFS_TREE_LEFT, /* smaller */
	XFS_TREE_RIGHT,
};

struct xfs_tree_node {
	struct xfs_tree_node *parent;
	struct xfs_tree_node *child[2];
	uint64_t nr; /* nodes of the subtree, this one included */
};

struct xfs_tree {
	struct xfs_tree_node *root;
};

static inline uint64_t xfs_tree_nr(const struct xfs_tree *tree)
{
	return tree->root ? tree->root->nr : 0;
}

/* Put node under parent (NULL: the tree is empty), whose child on that side is free. */
void xfs_tree_link(struct xfs_tree *tree, struct xfs_tree_node *node, struct xfs_tree_node *parent,
		   enum xfs_tree_side side);
void xfs_tree_remove(struct xfs_tree *tree, struct xfs_tree_node *node);

/* The smallest or largest node, NULL if there is none. */
struct xfs_tree_node *xfs_tree_end(const struct xfs_tree *tree, enum xfs_tree_side side);
/* The neighbour of node in the order. */
struct xfs_tree_node *xfs_tree_step(const struct xfs_tree_node *node, enum xfs_tree_side side);
/* How many nodes are smaller than node. */
uint64_t xfs_tree_rank(const struct xfs_tree_node *node);

/* For assertions: links and counts agree, and the tree is balanced. */
bool xfs_tree_ok(const struct xfs_tree *tree);

#endif

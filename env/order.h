/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * order.h - classes of locks, and the graph of the orders in which they were seen to nest
 *
 *	class = order_class_of(&order, lock);
 *	edge = order_edge(&order, held, class);		"held" was held when `class` was wanted
 *	if (!*edge) {
 *		*edge = what there is to say about it;
 *		if (order_closes(&order, held, class))
 *			... the circle is held -> class -> ... -> held
 *	}
 *
 * Both finders of inversions have one.  They lock it, if need be.  Its memory comes from malloc,
 * so that tests which fail the n-th env_alloc() count the same.
 */
#ifndef ENV_ORDER_H
#define ENV_ORDER_H

#include <stdbool.h>
#include <stddef.h>

#define ORDER_MAX      256 /* classes; locks of more are not checked */
#define ORDER_NO_CLASS 0

/* What class the lock at this address has. */
struct order_lock {
	const void *addr;
	unsigned int class;
};

struct order {
	const char *names[ORDER_MAX]; /* from order_name(); 0: no class */
	unsigned int nr_classes; /* from 1; 0: none was made */
	bool may_nest[ORDER_MAX]; /* several of the class may be held at once */
	void *edges[ORDER_MAX][ORDER_MAX]; /* from, to: the finder's; NULL: not seen */
	/* Left by order_closes(): the class each one was reached from, on the way. */
	unsigned int reached_from[ORDER_MAX];
	struct order_lock *locks; /* hash table, open addressing; only looked up */
	size_t nr_locks;
	size_t size; /* a power of two */
};

/* memory, or the end of the process. */
void *order_checked(void *memory);
/* The one copy of the text, which stays for the life of the process. */
const char *order_name(const char *text);

/* The class of that name, made if need be; ORDER_NO_CLASS if there are too many. */
unsigned int order_class(struct order *order, const char *name);
const char *order_class_name(const struct order *order, unsigned int class);

/* A lock made at the address of one that is gone takes its place. */
void order_lock_init(struct order *order, const void *lock, unsigned int class);
/* ORDER_NO_CLASS if it was never initialised. */
unsigned int order_class_of(const struct order *order, const void *lock);

static inline void **order_edge(struct order *order, unsigned int from, unsigned int to)
{
	return &order->edges[from][to];
}

/* Is there a way back, from `to` to `from`? */
bool order_closes(struct order *order, unsigned int from, unsigned int to);

/* Forget everything; what the edges point to came from malloc. */
void order_clear(struct order *order);

#endif

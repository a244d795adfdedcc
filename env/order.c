/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * order.c - classes of locks, and the graph of the orders in which they were seen to nest
 */
#include "order.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *order_checked(void *memory)
{
	if (!memory) {
		fprintf(stderr, "env: out of memory\n");
		abort();
	}
	return memory;
}

/* ---- names ---- */

#define NR_BUCKETS 256

struct name {
	struct name *next;
	char text[];
};

/* One table a process: names outlive the runs of the simulator, for the events of a trace. */
static struct name *names[NR_BUCKETS];

static struct name **bucket_of(const char *text)
{
	uint32_t hash = 0;

	while (*text)
		hash = (hash ^ (unsigned char)*text++) * 16777619u;
	return &names[hash >> 24];
}

const char *order_name(const char *text)
{
	struct name **bucket = bucket_of(text);
	struct name *name;
	size_t size;

	for (name = *bucket; name; name = name->next)
		if (strcmp(name->text, text) == 0)
			return name->text;
	size = strlen(text) + 1;
	name = order_checked(malloc(sizeof(*name) + size));
	memcpy(name->text, text, size);
	name->next = *bucket;
	*bucket = name;
	return name->text;
}

/* ---- classes ---- */

unsigned int order_class(struct order *order, const char *text)
{
	const char *name = order_name(text);
	unsigned int class;

	if (order->nr_classes == 0)
		order->nr_classes = 1;
	for (class = 1; class < order->nr_classes; class ++)
		if (order->names[class] == name)
			return class;
	if (class == ORDER_MAX)
		return ORDER_NO_CLASS;
	order->nr_classes++;
	order->names[class] = name;
	return class;
}

const char *order_class_name(const struct order *order, unsigned int class)
{
	return class ? order->names[class] : "?";
}

/* ---- locks ---- */

static struct order_lock *slot_of(const struct order *order, const void *addr)
{
	size_t mask = order->size - 1;
	size_t i = (size_t)((uintptr_t)addr / 4 * 0x9e3779b97f4a7c15u >> 20) & mask;

	while (order->locks[i].addr && order->locks[i].addr != addr)
		i = (i + 1) & mask;
	return &order->locks[i];
}

static void grow(struct order *order)
{
	struct order_lock *old = order->locks;
	size_t old_size = order->size;

	order->size = old_size ? old_size * 2 : 256;
	order->locks = order_checked(calloc(order->size, sizeof(*order->locks)));
	for (size_t i = 0; i < old_size; i++)
		if (old[i].addr)
			*slot_of(order, old[i].addr) = old[i];
	free(old);
}

void order_lock_init(struct order *order, const void *lock, unsigned int class)
{
	struct order_lock *slot;

	if (order->nr_locks * 2 >= order->size)
		grow(order);
	slot = slot_of(order, lock);
	if (!slot->addr)
		order->nr_locks++;
	slot->addr = lock;
	slot->class = class;
}

unsigned int order_class_of(const struct order *order, const void *lock)
{
	return order->size ? slot_of(order, lock)->class : ORDER_NO_CLASS;
}

/* ---- the graph ---- */

bool order_closes(struct order *order, unsigned int from, unsigned int to)
{
	bool reached[ORDER_MAX] = {false};
	unsigned int todo[ORDER_MAX];
	unsigned int nr_todo = 0;

	reached[to] = true;
	todo[nr_todo++] = to;
	while (nr_todo > 0 && !reached[from]) {
		unsigned int at = todo[--nr_todo];

		for (unsigned int next = 1; next < order->nr_classes; next++) {
			if (!order->edges[at][next] || reached[next])
				continue;
			reached[next] = true;
			order->reached_from[next] = at;
			todo[nr_todo++] = next;
		}
	}
	return reached[from];
}

void order_clear(struct order *order)
{
	for (unsigned int from = 1; from < order->nr_classes; from++) {
		for (unsigned int to = 1; to < order->nr_classes; to++) {
			free(order->edges[from][to]);
			order->edges[from][to] = NULL;
		}
		order->may_nest[from] = false;
	}
	order->nr_classes = 0;
	free(order->locks);
	order->locks = NULL;
	order->nr_locks = 0;
	order->size = 0;
}

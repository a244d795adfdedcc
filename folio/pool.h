/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pool.h - objects of one size that writeback can always get, sooner or later
 *
 * A few are set aside.  When the host has no memory a caller waits for one to come back, which
 * it does as I/O completes; so writing out never fails for want of memory (C6, M133).
 */
#ifndef FOLIO_POOL_H
#define FOLIO_POOL_H

#include <stddef.h>
#include <stdint.h>
#include <iomap/env.h>

struct pool_object;

struct pool {
	struct env_mutex lock;
	size_t size; /* [I] */
	unsigned int nr_free; /* [lock] */
	unsigned int reserve; /* [I] kept for bad times */
	unsigned int max_free; /* [I] */
	struct pool_object *free; /* [lock] */
	struct env_waitq wait;
};

/* 0 or -ENOMEM. */
int pool_init(struct pool *pool, size_t size, unsigned int reserve, unsigned int max_free);
/* Every object is back. */
void pool_destroy(struct pool *pool);
/* Never NULL; may sleep. */
void *pool_get(struct pool *pool);
void pool_put(struct pool *pool, void *object);

#endif

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pool.c - objects of one size that writeback can always get, sooner or later
 */
#include "folio/pool.h"

#include <assert.h>
#include <errno.h>

struct pool_object {
	struct pool_object *next;
};

int pool_init(struct pool *pool, size_t size, unsigned int reserve, unsigned int max_free)
{
	assert(size >= sizeof(struct pool_object));
	env_spin_init(&pool->lock, "pool");
	env_waitq_init(&pool->wait);
	pool->size = size;
	pool->reserve = reserve;
	pool->max_free = max_free;
	pool->nr_free = 0;
	pool->free = NULL;
	for (unsigned int i = 0; i < reserve; i++) {
		void *object = env_alloc(size);

		if (!object) {
			pool_destroy(pool);
			return -ENOMEM;
		}
		pool_put(pool, object);
	}
	return 0;
}

void pool_destroy(struct pool *pool)
{
	while (pool->free) {
		struct pool_object *object = pool->free;

		pool->free = object->next;
		env_free(object);
	}
	pool->nr_free = 0;
}

/* A free object, leaving `spare` of them; NULL if there are not more. */
static void *pool_take(struct pool *pool, unsigned int spare)
{
	struct pool_object *object = NULL;

	env_mutex_lock(&pool->lock);
	if (pool->nr_free > spare) {
		object = pool->free;
		pool->free = object->next;
		pool->nr_free--;
	}
	env_mutex_unlock(&pool->lock);
	return object;
}

void *pool_get(struct pool *pool)
{
	void *object = pool_take(pool, pool->reserve);

	if (env_likely(object != NULL))
		return object;
	object = env_alloc(pool->size);
	if (env_likely(object != NULL))
		return object;
	env_wait_event(&pool->wait, (object = pool_take(pool, 0)) != NULL);
	return object;
}

void pool_put(struct pool *pool, void *memory)
{
	struct pool_object *object = memory;
	bool keep, was_empty;

	env_mutex_lock(&pool->lock);
	was_empty = pool->nr_free == 0;
	keep = pool->nr_free < pool->max_free;
	if (keep) {
		object->next = pool->free;
		pool->free = object;
		pool->nr_free++;
	}
	env_mutex_unlock(&pool->lock);
	if (!keep)
		env_free(object);
	else if (was_empty) /* only then somebody waits who has not been woken */
		env_waitq_wake(&pool->wait);
}

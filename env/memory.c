/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * memory.c - small objects from malloc, big arenas and sparse ones from mmap
 *
 * Tests make the n-th allocation fail: while the hook is armed each allocation draws a
 * ticket, and those with a ticket in [first, end) fail.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "memory.h"

#include <iomap/env.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define HUGE_PAGE_SIZE (2UL << 20)

/* ---- small objects ---- */

/* All members are atomic; `armed` publishes the others. */
static struct {
	uint32_t armed;
	unsigned int nr_failed;
	uint64_t ticket;
	uint64_t first;
	uint64_t end;
} alloc_fail;

static bool alloc_must_fail(void)
{
	uint64_t ticket;

	if (env_likely(!__atomic_load_n(&alloc_fail.armed, __ATOMIC_ACQUIRE)))
		return false;
	ticket = __atomic_fetch_add(&alloc_fail.ticket, 1, __ATOMIC_RELAXED);
	if (ticket < __atomic_load_n(&alloc_fail.first, __ATOMIC_RELAXED) ||
	    ticket >= __atomic_load_n(&alloc_fail.end, __ATOMIC_RELAXED))
		return false;
	__atomic_fetch_add(&alloc_fail.nr_failed, 1, __ATOMIC_RELAXED);
	return true;
}

unsigned int env_alloc_fail(unsigned int after, unsigned int count)
{
	__atomic_store_n(&alloc_fail.armed, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&alloc_fail.ticket, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&alloc_fail.first, after, __ATOMIC_RELAXED);
	__atomic_store_n(&alloc_fail.end, (uint64_t)after + count, __ATOMIC_RELAXED);
	__atomic_store_n(&alloc_fail.armed, count > 0, __ATOMIC_RELEASE);
	return __atomic_exchange_n(&alloc_fail.nr_failed, 0, __ATOMIC_RELAXED);
}

void *env_alloc(size_t size)
{
	if (alloc_must_fail())
		return NULL;
	/* NULL always means that there is none left. */
	return malloc(size ? size : 1);
}

void *env_zalloc(size_t size)
{
	if (alloc_must_fail())
		return NULL;
	return calloc(1, size ? size : 1);
}

void env_free(void *memory)
{
	free(memory);
}

/* ---- arenas ---- */

static size_t round_up(size_t size, size_t unit)
{
	return (size + unit - 1) & ~(unit - 1);
}

/*
 *	map:	|-------|=================|-----|
 *		  head   size, aligned      tail	head and tail are given back
 */
static char *map_aligned(size_t size, size_t align, size_t page)
{
	size_t slack = align - page;
	size_t head, tail;
	char *map;

	if (size > SIZE_MAX - slack)
		return NULL;
	map = mmap(NULL, size + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED)
		return NULL;

	head = round_up((uintptr_t)map, align) - (uintptr_t)map;
	tail = slack - head;
	if (head)
		munmap(map, head);
	if (tail)
		munmap(map + head + size, tail);
	return map + head;
}

static bool arena_populate(char *memory, size_t size, size_t page)
{
	if (madvise(memory, size, MADV_POPULATE_WRITE) == 0)
		return true;
	if (errno == ENOMEM)
		return false;

	/* An old kernel. */
	for (size_t off = 0; off < size; off += page)
		*(volatile char *)(memory + off) = 0;
	return true;
}

void *env_arena_map(size_t size, size_t align, bool prefault)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *memory;

	assert(align > 0 && (align & (align - 1)) == 0);

	if (size == 0 || size > SIZE_MAX - page)
		return NULL;
	size = round_up(size, page);
	if (align < page)
		align = page;
	/* A huge page must start on its own boundary. */
	if (size >= HUGE_PAGE_SIZE && align < HUGE_PAGE_SIZE)
		align = HUGE_PAGE_SIZE;

	memory = map_aligned(size, align, page);
	if (!memory)
		return NULL;
	/* A wish: a host without huge pages refuses it. */
	(void)madvise(memory, size, MADV_HUGEPAGE);
	if (prefault && !arena_populate(memory, size, page)) {
		munmap(memory, size);
		return NULL;
	}
	return memory;
}

void env_arena_unmap(void *memory, size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (memory)
		munmap(memory, round_up(size, page));
}

/* ---- sparse maps ---- */

void *env_sparse_map(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		return NULL;
	/* It would only make core dumps huge. */
	(void)madvise(memory, size, MADV_DONTDUMP);
	return memory;
}

void env_sparse_unmap(void *memory, size_t size)
{
	munmap(memory, size);
}

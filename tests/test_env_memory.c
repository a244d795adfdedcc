/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_env_memory.c - small objects, their failures, arenas
 */
#include <criterion/criterion.h>

#include <sys/mman.h>
#include <unistd.h>

#include <iomap/env.h>

#include "env/memory.h"

#define MIB (1ul << 20)

static bool alloc_works(void)
{
	void *memory = env_alloc(1);

	env_free(memory);
	return memory != NULL;
}

Test(env_memory, zalloc_is_zero)
{
	unsigned char *memory = env_zalloc(100);

	for (unsigned int i = 0; i < 100; i++)
		cr_assert_eq(memory[i], 0);
	env_free(memory);
}

Test(env_memory, nothing_is_still_something)
{
	void *memory = env_alloc(0);

	cr_assert_not_null(memory);
	env_free(memory);
}

Test(env_memory, chosen_allocations_fail)
{
	cr_assert_eq(env_alloc_fail(2, 3), 0);
	for (unsigned int i = 0; i < 8; i++)
		cr_assert_eq(alloc_works(), i < 2 || i >= 5, "allocation %u", i);
	cr_assert_eq(env_alloc_fail(0, 0), 3);
	cr_assert(alloc_works());
	cr_assert_eq(env_alloc_fail(0, 0), 0);
}

Test(env_memory, zalloc_can_fail_too)
{
	env_alloc_fail(0, 1);
	cr_assert_null(env_zalloc(1));
	cr_assert_eq(env_alloc_fail(0, 0), 1);
}

Test(env_memory, arena_is_aligned_and_zero)
{
	static const size_t aligns[] = {1, 4096, 65536, 4 * MIB};

	for (unsigned int i = 0; i < sizeof(aligns) / sizeof(aligns[0]); i++) {
		size_t size = 3 * MIB + 4096;
		char *arena = env_arena_map(size, aligns[i], false);

		cr_assert_not_null(arena);
		cr_assert_eq((uintptr_t)arena % aligns[i], 0);
		for (size_t off = 0; off < size; off += 4096)
			cr_assert_eq(arena[off], 0);
		arena[size - 1] = 1;
		env_arena_unmap(arena, size);
	}
}

/* What was over-mapped to align it is given back. */
Test(env_memory, unmapped_arena_leaves_nothing)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	unsigned char resident;
	char *arena = env_arena_map(page, MIB, false);

	cr_assert_eq(mincore(arena, page, &resident), 0);
	env_arena_unmap(arena, page);
	cr_assert_neq(mincore(arena, page, &resident), 0);
}

Test(env_memory, prefault_touches_every_page)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t size = 64 * page;
	unsigned char resident[64];
	char *arena = env_arena_map(size, page, true);

	cr_assert_not_null(arena);
	cr_assert_eq(mincore(arena, size, resident), 0);
	for (unsigned int i = 0; i < 64; i++)
		cr_assert(resident[i] & 1, "page %u", i);
	env_arena_unmap(arena, size);
}

Test(env_memory, impossible_arena_is_null)
{
	cr_assert_null(env_arena_map(0, 4096, false));
	cr_assert_null(env_arena_map(SIZE_MAX, 4096, false));
	cr_assert_null(env_arena_map(SIZE_MAX - 8191, MIB, false));
	cr_assert_null(env_arena_map(1ul << 62, 4096, false));
}

Test(env_memory, sparse_map_is_bigger_than_the_host)
{
	size_t size = 1ul << 38;
	char *map = env_sparse_map(size);

	cr_assert_not_null(map);
	map[size - 1] = 1;
	cr_assert_eq(map[size / 2], 0);
	env_sparse_unmap(map, size);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_ext4_mballoc.c - which blocks a file gets
 *
 * Most tests have 64 groups of 32768 blocks of 4 KiB, all of them free; group 0 of each 16 is
 * not preferred for data.
 */
#include "fsbackends/ext4/mballoc.h"

#include <criterion/criterion.h>
#include <errno.h>

#define PER_GROUP 32768u
#define CHUNK	  2048u
#define KIB	  1024ull
#define MIB	  (1024 * KIB)

struct world {
	struct ext4_mballoc mballoc;
	struct ext4_mballoc_config config;
};

struct test_file {
	struct world *world;
	struct extent_map map;
	struct ext4_prealloc_list preallocs;
	struct ext4_request request; /* what all requests have in common */
};

static void world_open_config(struct world *world)
{
	cr_assert_eq(ext4_mballoc_init(&world->mballoc, &world->config), 0);
}

static struct ext4_mballoc_config default_config(void)
{
	return (struct ext4_mballoc_config){
		.nr_blocks = 64ull * PER_GROUP,
		.block_size = 4096,
		.per_group = PER_GROUP,
		.max_order = 13,
		.nr_cpus = 4,
		.small_blocks = 16,
		.chunk_blocks = 512,
	};
}

static void world_open(struct world *world)
{
	world->config = default_config();
	world_open_config(world);
}

static void world_close(struct world *world)
{
	ext4_prealloc_discard_all(&world->mballoc);
	cr_assert(ext4_mballoc_ok(&world->mballoc));
	ext4_mballoc_destroy(&world->mballoc);
}

static void file_open(struct test_file *file, struct world *world, uint64_t ino, uint64_t size)
{
	file->world = world;
	extent_map_init(&file->map, 32768, 32767);
	ext4_prealloc_init(&world->mballoc, &file->preallocs);
	file->request = (struct ext4_request){
		.map = &file->map,
		.preallocs = &file->preallocs,
		.size = size,
		.ino = ino,
	};
}

static void file_close(struct test_file *file)
{
	ext4_prealloc_destroy(&file->world->mballoc, &file->preallocs);
	extent_map_destroy(&file->map);
}

/* Give the front of the blocks space; returns how many got it. */
static uint32_t allocate_some(struct test_file *file, uint64_t at, uint32_t len, uint64_t *block)
{
	struct ext4_request request = file->request;
	struct extent extent = {.file = at, .state = EXTENT_UNWRITTEN};
	uint32_t got;

	request.file = at;
	request.len = len;
	cr_assert_eq(ext4_mballoc_allocate(&file->world->mballoc, &request, block, &got), 0);
	cr_assert_gt(got, 0);
	cr_assert_leq(got, len);
	extent.start = *block;
	extent.len = got;
	cr_assert_eq(extent_map_insert(&file->map, &extent), 0);
	return got;
}

/* Give all of the blocks space in one piece, and say where. */
static uint64_t allocate(struct test_file *file, uint64_t at, uint32_t len)
{
	uint64_t block;

	cr_assert_eq(allocate_some(file, at, len, &block), len);
	return block;
}

static uint64_t block_at(const struct test_file *file, uint64_t at)
{
	struct extent extent;

	cr_assert(extent_map_find(&file->map, at, &extent));
	cr_assert_leq(extent.file, at);
	return extent.start + (at - extent.file);
}

static struct ext4_chunk table(struct world *world, uint64_t at, uint32_t len, uint64_t size)
{
	struct ext4_request request = {.file = at, .len = len, .size = size};

	return ext4_mballoc_table(&world->mballoc, &request);
}

/* ---- how much --------------------------------------------------------------------------- */

Test(ext4_mballoc, normalisation_table)
{
	static const struct {
		uint64_t file;
		uint32_t len;
		uint64_t size;
		uint64_t start;
		uint32_t chunk;
	} rows[] = {
		{0, 1, 0, 0, 4},
		{3, 1, 0, 0, 4},
		{3, 2, 0, 0, 8},
		{0, 1, 16 * KIB, 0, 4},
		{0, 1, 16 * KIB + 1, 0, 8},
		{16, 1, 68 * KIB, 0, 32},
		{0, 1, MIB, 0, 256},
		{300, 1, MIB + 1, 0, 512},
		{600, 1, 4 * MIB, 512, 512},
		{1100, 1, 4 * MIB + 1, 1024, 1024},
		{1100, 1, 8 * MIB, 1024, 1024},
		{1100, 1, 8 * MIB + 1, 0, 2048},
		{5000, 2048, 1024 * MIB, 4096, 2048},
	};
	struct world world;

	world_open(&world);
	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ext4_chunk chunk = table(&world, rows[i].file, rows[i].len, rows[i].size);

		cr_assert_eq(chunk.file, rows[i].start, "row %u", i);
		cr_assert_eq(chunk.len, rows[i].chunk, "row %u", i);
	}
	world_close(&world);
}

Test(ext4_mballoc, chunks_are_not_larger_than_a_buddy)
{
	struct world world;
	struct ext4_chunk chunk;

	world.config = default_config();
	world.config.block_size = 512;
	world.config.per_group = 4096;
	world.config.max_order = 10;
	world_open_config(&world);
	chunk = table(&world, 5000, 1, 1024 * MIB);
	cr_assert_eq(chunk.file, 4096);
	cr_assert_eq(chunk.len, 1024);
	world_close(&world);
}

Test(ext4_mballoc, a_chunk_is_one_block_at_least)
{
	struct world world;

	world.config = default_config();
	world.config.block_size = 65536;
	world_open_config(&world);
	cr_assert_eq(table(&world, 0, 1, 100).len, 1);
	cr_assert_eq(table(&world, 5000, 1, 1024 * MIB).len, 128);
	world_close(&world);
}

Test(ext4_mballoc, the_chunk_is_cut_at_the_files_own_space)
{
	struct extent before = {2048 + 10, 7, 5, EXTENT_NORM, 0};
	struct extent delayed = {2048 + 20, EXTENT_NO_START, 100, EXTENT_DELAYED, 0};
	struct extent after = {2048 + 200, 99, 5, EXTENT_UNWRITTEN, 0};
	struct world world;
	struct test_file file;
	struct ext4_chunk chunk;

	world_open(&world);
	file_open(&file, &world, 1, 100 * MIB);
	cr_assert_eq(extent_map_insert(&file.map, &before), 0);
	cr_assert_eq(extent_map_insert(&file.map, &delayed), 0);
	cr_assert_eq(extent_map_insert(&file.map, &after), 0);
	file.request.file = 2048 + 50;
	file.request.len = 70;
	chunk = ext4_mballoc_normalise(&world.mballoc, &file.request);
	cr_assert_eq(chunk.file, 2048 + 15);
	cr_assert_eq(chunk.len, 185);
	file_close(&file);
	world_close(&world);
}

Test(ext4_mballoc, the_chunk_is_cut_at_other_preallocations)
{
	struct world world;
	struct test_file file;
	struct ext4_chunk chunk;

	world_open(&world);
	file_open(&file, &world, 1, 2 * MIB);
	allocate(&file, 100, 1);
	/* The file is larger now, so the chunk would be [0, 2048), but has [0, 512) already. */
	file.request.size = 100 * MIB;
	file.request.file = 1000;
	file.request.len = 1;
	chunk = ext4_mballoc_normalise(&world.mballoc, &file.request);
	cr_assert_eq(chunk.file, 512);
	cr_assert_eq(chunk.len, 1536);
	file_close(&file);
	world_close(&world);
}

Test(ext4_mballoc, a_closed_file_gets_what_it_asks_for_at_its_end)
{
	struct world world;
	struct test_file file;

	world_open(&world);
	file_open(&file, &world, 1, 100 * 4096);
	file.request.is_closed = true;
	allocate(&file, 0, 100);
	cr_assert_eq(ext4_prealloc_discard_all(&world.mballoc), 0);
	file_close(&file);
	world_close(&world);
}

Test(ext4_mballoc, an_open_file_keeps_the_rest_of_its_chunk)
{
	struct world world;
	struct test_file file;

	world_open(&world);
	file_open(&file, &world, 1, 100 * 4096);
	allocate(&file, 0, 100);
	cr_assert_eq(ext4_prealloc_discard_all(&world.mballoc), 28);
	file_close(&file);
	world_close(&world);
}

/* ---- preallocation by position ---------------------------------------------------------- */

Test(ext4_mballoc, one_chunk_filled_at_random_is_contiguous)
{
	struct world world;
	struct test_file file;
	struct env_rng rng;
	bool done[CHUNK] = {false};
	uint64_t base;

	world_open(&world);
	file_open(&file, &world, 1, 100 * MIB);
	env_rng_seed(&rng, 7);
	base = allocate(&file, 3 * CHUNK + 77, 1) - 77;
	done[77] = true;
	for (unsigned int n = 1; n < CHUNK; n++) {
		uint64_t at = env_rng_below(&rng, CHUNK);

		while (done[at])
			at = (at + 1) % CHUNK;
		done[at] = true;
		cr_assert_eq(allocate(&file, 3 * CHUNK + at, 1), base + at);
	}
	/* It is used up. */
	cr_assert_eq(file.preallocs.nr, 0);
	file_close(&file);
	world_close(&world);
}

Test(ext4_mballoc, a_request_across_two_chunks_is_served_in_two_parts)
{
	struct world world;
	struct test_file file;
	uint64_t block;

	world_open(&world);
	file_open(&file, &world, 1, 100 * MIB);
	cr_assert_eq(allocate_some(&file, CHUNK - 10, 2000, &block), 10);
	cr_assert_eq(allocate_some(&file, CHUNK, 1990, &block), 1990);
	file_close(&file);
	world_close(&world);
}

Test(ext4_mballoc, two_files_share_no_chunk)
{
	struct world world;
	struct test_file a, b;

	world_open(&world);
	world.mballoc.config.nr_goals = 1;
	file_open(&a, &world, 1, 100 * MIB);
	file_open(&b, &world, 2, 100 * MIB);
	for (uint64_t at = 0; at < 4 * CHUNK; at += 16) {
		allocate(&a, at, 16);
		allocate(&b, at, 16);
	}
	for (uint64_t chunk = 0; chunk < 4 * CHUNK; chunk += CHUNK) {
		cr_assert_eq(block_at(&a, chunk) + CHUNK - 1, block_at(&a, chunk + CHUNK - 1));
		cr_assert_eq(block_at(&b, chunk) + CHUNK - 1, block_at(&b, chunk + CHUNK - 1));
	}
	file_close(&a);
	file_close(&b);
	world_close(&world);
}

Test(ext4_mballoc, discarding_frees_what_was_not_used)
{
	struct world world;
	struct test_file file;
	uint64_t block;

	world_open(&world);
	file_open(&file, &world, 1, 100 * MIB);
	block = allocate(&file, 5, 7);
	cr_assert_eq(ext4_prealloc_discard(&world.mballoc, &file.preallocs), CHUNK - 7);
	cr_assert(ext4_mballoc_ok(&world.mballoc));
	ext4_mballoc_free(&world.mballoc, block, 7);
	cr_assert_eq(world.mballoc.groups.group[block / PER_GROUP].nr_free, PER_GROUP);
	file_close(&file);
	world_close(&world);
}

/* ---- small files ------------------------------------------------------------------------ */

Test(ext4_mballoc, small_files_of_one_cpu_lie_one_behind_the_other)
{
	struct world world;
	struct test_file files[20];
	uint64_t next = 0;

	world_open(&world);
	for (unsigned int i = 0; i < 20; i++) {
		uint64_t block;

		file_open(&files[i], &world, i + 1, 5 * 4096);
		block = allocate(&files[i], 0, 5);
		if (i > 0)
			cr_assert_eq(block, next);
		next = block + 5;
	}
	for (unsigned int i = 0; i < 20; i++)
		file_close(&files[i]);
	world_close(&world);
}

Test(ext4_mballoc, small_files_begin_in_the_second_group)
{
	struct world world;
	struct test_file file;

	world_open(&world);
	file_open(&file, &world, 1, 4096);
	file.request.group = 16 + 5;
	cr_assert_eq(allocate(&file, 0, 1), 17ull * PER_GROUP);
	file_close(&file);
	world_close(&world);
}

Test(ext4_mballoc, each_cpu_has_its_own_chunk)
{
	struct world world;
	struct test_file a, b;
	uint64_t first;

	world_open(&world);
	file_open(&a, &world, 1, 4096);
	file_open(&b, &world, 2, 4096);
	b.request.cpu = 1;
	first = allocate(&a, 0, 1);
	cr_assert_eq(allocate(&b, 0, 1), first + 512);
	file_close(&a);
	file_close(&b);
	world_close(&world);
}

Test(ext4_mballoc, the_limit_of_small_files_counts_the_whole_file)
{
	struct world world;
	struct test_file file;

	world_open(&world);
	file_open(&file, &world, 1, 17 * 4096);
	allocate(&file, 0, 1);
	cr_assert_eq(file.preallocs.nr, 1);
	file_close(&file);

	file_open(&file, &world, 2, 16 * 4096);
	allocate(&file, 0, 1);
	cr_assert_eq(file.preallocs.nr, 0);
	file_close(&file);
	world_close(&world);
}

/* ---- where ------------------------------------------------------------------------------ */

Test(ext4_mballoc, a_chunk_follows_the_one_before_it)
{
	struct world world;
	struct test_file file;
	uint64_t first;

	world_open(&world);
	file_open(&file, &world, 1, 100 * MIB);
	first = allocate(&file, 0, CHUNK);
	/* Another file would have taken the lowest buddy. */
	world.mballoc.goals[ext4_mballoc_stream(&world.mballoc, 1)] = 40;
	cr_assert_eq(allocate(&file, CHUNK, 1), first + CHUNK);
	file_close(&file);
	world_close(&world);
}

Test(ext4_mballoc, a_chunk_precedes_the_one_behind_it)
{
	struct world world;
	struct test_file file;
	uint64_t second;

	world_open(&world);
	file_open(&file, &world, 1, 100 * MIB);
	world.mballoc.goals[ext4_mballoc_stream(&world.mballoc, 1)] = 5;
	ext4_mballoc_reserve(&world.mballoc, 5ull * PER_GROUP + 7, 1);
	second = allocate(&file, CHUNK, CHUNK);
	cr_assert_eq(second, 5ull * PER_GROUP + CHUNK);
	ext4_mballoc_free(&world.mballoc, 5ull * PER_GROUP + 7, 1);
	world.mballoc.goals[ext4_mballoc_stream(&world.mballoc, 1)] = 40;
	cr_assert_eq(allocate(&file, 0, CHUNK), second - CHUNK);
	file_close(&file);
	world_close(&world);
}

Test(ext4_mballoc, a_goal_is_taken_whole_or_not_at_all)
{
	struct world world;
	struct test_file file;
	uint64_t first;

	world_open(&world);
	file_open(&file, &world, 1, 100 * MIB);
	first = allocate(&file, 0, CHUNK);
	ext4_mballoc_reserve(&world.mballoc, first + CHUNK + 1000, 1);
	/* The lowest buddy of the smallest order that is enough: the rest of the cut one. */
	cr_assert_eq(allocate(&file, CHUNK, CHUNK), first + 2 * CHUNK);
	file_close(&file);
	world_close(&world);
}

Test(ext4_mballoc, streams_begin_where_they_were_last)
{
	struct world world;
	struct test_file file;

	world_open(&world);
	file_open(&file, &world, 6, 100 * MIB);
	cr_assert_eq(world.mballoc.config.nr_goals, 4);
	cr_assert_eq(ext4_mballoc_stream(&world.mballoc, 6), 2);
	world.mballoc.goals[2] = 33;
	cr_assert_eq(allocate(&file, 0, 1), 33ull * PER_GROUP);
	cr_assert_eq(world.mballoc.goals[2], 33);
	file_close(&file);
	world_close(&world);
}

Test(ext4_mballoc, a_full_group_passes_the_stream_on)
{
	struct world world;
	struct test_file file;

	world_open(&world);
	file_open(&file, &world, 0, 100 * MIB);
	world.mballoc.goals[0] = 33;
	ext4_mballoc_reserve(&world.mballoc, 33ull * PER_GROUP, PER_GROUP - 1000);
	cr_assert_eq(allocate(&file, 0, 1), 34ull * PER_GROUP);
	cr_assert_eq(world.mballoc.goals[0], 34);
	file_close(&file);
	world_close(&world);
}

Test(ext4_mballoc, goals_are_few_on_a_small_device)
{
	struct world world;

	world.config = default_config();
	world.config.nr_blocks = 5 * PER_GROUP;
	world_open_config(&world);
	cr_assert_eq(world.mballoc.config.nr_goals, 2);
	world_close(&world);
}

Test(ext4_mballoc, first_groups_of_flexible_groups_are_passed_over)
{
	struct world world;
	struct test_file file;

	world_open(&world);
	file_open(&file, &world, 0, 100 * MIB);
	cr_assert_eq(allocate(&file, 0, 1), PER_GROUP);
	file_close(&file);
	world_close(&world);
}

Test(ext4_mballoc, a_busy_group_is_passed_over)
{
	struct world world;
	struct test_file file;

	world_open(&world);
	file_open(&file, &world, 0, 100 * MIB);
	world.mballoc.goals[0] = 5;
	env_mutex_lock(&world.mballoc.groups.group[5].lock);
	cr_assert_eq(allocate(&file, 0, 1), 6ull * PER_GROUP);
	env_mutex_unlock(&world.mballoc.groups.group[5].lock);
	file_close(&file);
	world_close(&world);
}

/* ---- little left ------------------------------------------------------------------------ */

/* One group whose only free runs are the given ones. */
static void world_open_runs(struct world *world, const uint32_t (*runs)[2], unsigned int nr)
{
	world->config = default_config();
	world->config.nr_blocks = PER_GROUP;
	world_open_config(world);
	ext4_mballoc_reserve(&world->mballoc, 0, PER_GROUP);
	for (unsigned int i = 0; i < nr; i++)
		ext4_mballoc_free(&world->mballoc, runs[i][0], runs[i][1]);
}

Test(ext4_mballoc, the_run_with_the_least_surplus_is_taken)
{
	static const uint32_t runs[][2] = {{100, 9000}, {10001, 2500}, {20001, 5000}};
	struct world world;
	struct test_file file;

	world_open_runs(&world, runs, 3);
	file_open(&file, &world, 0, 100 * MIB);
	cr_assert_eq(allocate(&file, 0, CHUNK), 10001);
	file_close(&file);
	world_close(&world);
}

Test(ext4_mballoc, a_chunk_is_trimmed_to_what_there_is)
{
	static const uint32_t runs[][2] = {{101, 600}, {1001, 600}, {2001, 600}, {3001, 600}};
	struct world world;
	struct test_file file;
	uint64_t block;

	world_open_runs(&world, runs, 4);
	file_open(&file, &world, 0, 100 * MIB);
	/* 512 blocks were found, and are at the chunk's end, which still covers the request. */
	cr_assert_eq(allocate_some(&file, 1900, 10, &block), 10);
	cr_assert_eq(block, 101 + 1900 - (CHUNK - 512));
	cr_assert_eq(ext4_prealloc_discard_all(&world.mballoc), 502);
	file_close(&file);
	world_close(&world);
}

Test(ext4_mballoc, less_than_the_chunk_begins_at_its_start_if_that_is_enough)
{
	static const uint32_t runs[][2] = {{101, 600}, {1001, 600}, {2001, 600}, {3001, 600}};
	struct world world;
	struct test_file file;

	world_open_runs(&world, runs, 4);
	file_open(&file, &world, 0, 100 * MIB);
	cr_assert_eq(allocate(&file, 100, 10), 101 + 100);
	file_close(&file);
	world_close(&world);
}

Test(ext4_mballoc, less_than_the_chunk_begins_at_the_request_else)
{
	static const uint32_t runs[][2] = {{101, 600}, {1001, 600}, {2001, 600}, {3001, 600}};
	struct world world;
	struct test_file file;

	world_open_runs(&world, runs, 4);
	file_open(&file, &world, 0, 100 * MIB);
	cr_assert_eq(allocate(&file, 1000, 10), 101);
	file_close(&file);
	world_close(&world);
}

Test(ext4_mballoc, every_block_can_be_had)
{
	static const uint32_t runs[][2] = {{7, 1}, {90, 2}, {1000, 3}};
	struct world world;
	struct test_file file;
	struct ext4_request request;
	uint64_t block;
	uint32_t got;

	world_open_runs(&world, runs, 3);
	file_open(&file, &world, 0, 100 * MIB);
	for (uint64_t at = 0; at < 6; at += got)
		got = allocate_some(&file, at, (uint32_t)(6 - at), &block);
	request = file.request;
	request.file = 6;
	request.len = 1;
	cr_assert_eq(ext4_mballoc_allocate(&world.mballoc, &request, &block, &got), -ENOSPC);
	file_close(&file);
	world_close(&world);
}

Test(ext4_mballoc, preallocations_are_given_back_when_nothing_is_left)
{
	static const uint32_t runs[][2] = {{0, 2048}};
	struct world world;
	struct test_file hog, other;

	world_open_runs(&world, runs, 1);
	file_open(&hog, &world, 1, 100 * MIB);
	file_open(&other, &world, 2, 100 * MIB);
	cr_assert_eq(allocate(&hog, 10, 1), 10);
	cr_assert_eq(world.mballoc.groups.group[0].nr_free, 0);
	allocate(&other, 0, 100);
	cr_assert_eq(hog.preallocs.nr, 0);
	file_close(&hog);
	file_close(&other);
	world_close(&world);
}

Test(ext4_mballoc, no_memory_for_a_preallocation_gives_the_surplus_back)
{
	struct world world;
	struct test_file file;
	struct ext4_request request;
	uint64_t block;
	uint32_t got;

	world_open(&world);
	file_open(&file, &world, 0, 100 * MIB);
	request = file.request;
	request.file = 5;
	request.len = 3;
	env_alloc_fail(0, 1);
	cr_assert_eq(ext4_mballoc_allocate(&world.mballoc, &request, &block, &got), 0);
	cr_assert_eq(env_alloc_fail(0, 0), 1);
	cr_assert_eq(got, 3);
	cr_assert(ext4_mballoc_ok(&world.mballoc));
	file_close(&file);
	world_close(&world);
}

/* ---- all together ----------------------------------------------------------------------- */

#define NR_BLOCKS 4096u
#define NR_FILES  4u

struct stress {
	struct world world;
	struct test_file files[NR_FILES];
	bool is_used[NR_BLOCKS];
	uint32_t nr_used;
};

static void stress_mark(struct stress *stress, const struct extent *extent, bool use)
{
	for (uint64_t i = 0; i < extent->len; i++) {
		cr_assert_eq(stress->is_used[extent->start + i], !use);
		stress->is_used[extent->start + i] = use;
	}
	stress->nr_used += (uint32_t)(use ? extent->len : 0 - extent->len);
}

static void free_piece(void *arg, const struct extent *extent)
{
	struct stress *stress = arg;

	ext4_mballoc_free(&stress->world.mballoc, extent->start, extent->len);
	stress_mark(stress, extent, false);
}

static void stress_truncate(struct stress *stress, struct test_file *file, uint64_t at)
{
	ext4_prealloc_discard(&stress->world.mballoc, &file->preallocs);
	cr_assert_eq(extent_map_remove(&file->map, at, UINT32_MAX, false, free_piece, stress), 0);
}

static void stress_allocate(struct stress *stress, struct test_file *file, uint64_t at,
			    uint32_t len)
{
	struct ext4_request request = file->request;
	struct extent extent;
	uint32_t got;
	int err;

	request.file = at;
	request.len = len;
	if (extent_map_find(&file->map, at, &extent)) {
		if (extent.file <= at)
			return;
		if (len > extent.file - at)
			request.len = (uint32_t)(extent.file - at);
	}
	extent = (struct extent){.file = at, .state = EXTENT_UNWRITTEN};
	err = ext4_mballoc_allocate(&stress->world.mballoc, &request, &extent.start, &got);
	if (err) {
		cr_assert_eq(err, -ENOSPC);
		cr_assert_eq(stress->nr_used, NR_BLOCKS);
		return;
	}
	extent.len = got;
	cr_assert_eq(extent_map_insert(&file->map, &extent), 0);
	stress_mark(stress, &extent, true);
}

/* Nothing is lost or given twice, and -ENOSPC means that every block is used. */
Test(ext4_mballoc, random_allocation_and_freeing_adds_up)
{
	static struct stress stress;
	struct env_rng rng;

	stress.world.config = default_config();
	stress.world.config.nr_blocks = NR_BLOCKS;
	stress.world.config.per_group = 1024;
	stress.world.config.max_order = 8;
	world_open_config(&stress.world);
	env_rng_seed(&rng, 3);
	for (unsigned int i = 0; i < NR_FILES; i++)
		file_open(&stress.files[i], &stress.world, i, i == 0 ? 40 * KIB : 4 * MIB << i);

	for (unsigned int n = 0; n < 20000; n++) {
		struct test_file *file = &stress.files[env_rng_below(&rng, NR_FILES)];
		uint64_t at = env_rng_below(&rng, file->request.size / 4096);
		uint32_t len = 1 + (uint32_t)env_rng_below(&rng, 40);

		if (env_rng_below(&rng, 50) == 0)
			stress_truncate(&stress, file, at);
		else
			stress_allocate(&stress, file, at, len);
	}
	for (unsigned int i = 0; i < NR_FILES; i++)
		file_close(&stress.files[i]);
	world_close(&stress.world);
}

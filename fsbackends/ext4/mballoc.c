/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * mballoc.c - which blocks a file gets
 *
 * A request is served by the file's preallocations or, in a small file, by a chunk of its CPU.
 * Else it is grown to a chunk of the file, space is searched for that, and what the request
 * does not need is kept.  When nothing is left every preallocation is given back.
 */
#include "fsbackends/ext4/mballoc.h"

#include <assert.h>
#include <errno.h>
#include <iomap/cost.h>
#include "fsbackends/ext4/layout.h"
#include "fsbackends/ext4/prealloc.h"
#include "fsbackends/ext4/search.h"

#define KIB 1024ull
#define MIB (1024 * KIB)

/* Others may take what was given back for us; from the third try on we want no surplus. */
#define MAX_TRIES   16u
#define EXACT_TRIES 2u
/* Delayed records passed over to find where a file's space is. */
#define MAX_STEPS 64u

enum kind {
	KIND_EXACT, /* no more than asked */
	KIND_SMALL, /* from a chunk that small files share */
	KIND_STREAM, /* a chunk of the file */
};

static uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint32_t min_u32(uint64_t a, uint32_t b)
{
	return a < b ? (uint32_t)a : b;
}

static uint64_t request_end(const struct ext4_request *request)
{
	return request->file + request->len;
}

static uint64_t extent_end(const struct extent *extent)
{
	return extent->file + extent->len;
}

/* ---- how much (EX9, EX10) --------------------------------------------------------------- */

static uint64_t eof_block(const struct ext4_mballoc *mballoc, const struct ext4_request *request)
{
	return (request->size + mballoc->config.block_size - 1) >> mballoc->log2_block;
}

static bool file_is_small(const struct ext4_mballoc *mballoc, const struct ext4_request *request)
{
	uint64_t end = max_u64(request_end(request), eof_block(mballoc, request));

	return end <= mballoc->config.small_blocks;
}

static enum kind request_kind(const struct ext4_mballoc *mballoc,
			      const struct ext4_request *request)
{
	if (request->no_normalise || request->is_metadata)
		return KIND_EXACT;
	if (request_end(request) == eof_block(mballoc, request) && request->is_closed &&
	    !ext4_search_is_busy(mballoc))
		return KIND_EXACT;
	return file_is_small(mballoc, request) ? KIND_SMALL : KIND_STREAM;
}

static uint64_t chunk_bytes(uint64_t size)
{
	uint64_t bytes = 16 * KIB;

	if (size > 8 * MIB)
		return 8 * MIB;
	if (size > 4 * MIB)
		return 4 * MIB;
	if (size > MIB)
		return 2 * MIB;
	while (bytes < size)
		bytes *= 2;
	return bytes;
}

struct ext4_chunk ext4_mballoc_table(const struct ext4_mballoc *mballoc,
				     const struct ext4_request *request)
{
	uint64_t size = max_u64(request_end(request) << mballoc->log2_block, request->size);
	uint64_t len = max_u64(chunk_bytes(size) >> mballoc->log2_block, 1);
	struct ext4_chunk chunk;

	/* The largest buddy is smaller than 8 MiB if blocks are. */
	chunk.len = min_u32(len, 1u << mballoc->config.max_order);
	chunk.file = request->file - request->file % chunk.len;
	return chunk;
}

/* Cut [*start, *end) at the space the file has on both sides of the request. */
static void cut_at_extents(const struct ext4_request *request, uint64_t *start, uint64_t *end)
{
	struct extent extent;
	uint64_t at;

	for (at = request->file; at > *start; at = extent.file) {
		if (!extent_map_find_before(request->map, at, &extent))
			break;
		if (extent_end(&extent) <= *start)
			break;
		if (extent.state != EXTENT_DELAYED) {
			*start = extent_end(&extent);
			break;
		}
	}
	for (at = request->file; at < *end; at = extent_end(&extent)) {
		if (!extent_map_find(request->map, at, &extent))
			break;
		if (extent.state != EXTENT_DELAYED) {
			if (extent.file < *end)
				*end = extent.file;
			break;
		}
	}
}

struct ext4_chunk ext4_mballoc_normalise(const struct ext4_mballoc *mballoc,
					 const struct ext4_request *request)
{
	struct ext4_chunk chunk = ext4_mballoc_table(mballoc, request);
	uint64_t start = chunk.file, end = chunk.file + chunk.len;

	cut_at_extents(request, &start, &end);
	ext4_prealloc_cut(request->preallocs, request->file, &start, &end);
	assert(start <= request->file);
	assert(request->file < end);
	chunk.file = start;
	chunk.len = (uint32_t)(end - start);
	return chunk;
}

/* ---- where (EX11, EX15) ----------------------------------------------------------------- */

uint32_t ext4_mballoc_stream(const struct ext4_mballoc *mballoc, uint64_t ino)
{
	return (uint32_t)(ino % mballoc->config.nr_goals);
}

static uint32_t *stream_goal(struct ext4_mballoc *mballoc, const struct ext4_request *request)
{
	return &mballoc->goals[ext4_mballoc_stream(mballoc, request->ino)];
}

static void stream_moved(struct ext4_mballoc *mballoc, uint32_t *goal, uint64_t block)
{
	__atomic_store_n(goal, ext4_group_of(&mballoc->groups, block), __ATOMIC_RELAXED);
}

static uint64_t nr_blocks(const struct ext4_mballoc *mballoc)
{
	return mballoc->config.nr_blocks;
}

/* The extent with an address nearest to the request: the one before it, else the one behind. */
static bool find_near_extent(const struct ext4_request *request, struct extent *extent)
{
	uint64_t at = request->file;

	for (unsigned int i = 0; i < MAX_STEPS; i++) {
		if (!extent_map_find_before(request->map, at, extent))
			break;
		if (extent->state != EXTENT_DELAYED)
			return true;
		at = extent->file;
	}
	at = request->file;
	for (unsigned int i = 0; i < MAX_STEPS; i++) {
		if (!extent_map_find(request->map, at, extent))
			break;
		if (extent->state != EXTENT_DELAYED)
			return true;
		at = extent_end(extent);
	}
	return false;
}

/* Data begins in the second group of the inode's flexible group: the first has the tables. */
static uint64_t inode_goal(const struct ext4_mballoc *mballoc, const struct ext4_request *request)
{
	uint32_t g = request->group - request->group % EXT4_FLEX_GROUPS + 1;

	if (g >= mballoc->groups.nr)
		g--;
	return ext4_group_start(&mballoc->groups, g);
}

/* Of small files: as if the file would not stay sparse. */
static uint64_t near_goal(const struct ext4_mballoc *mballoc, const struct ext4_request *request)
{
	struct extent extent;
	uint64_t goal;

	if (!find_near_extent(request, &extent))
		return inode_goal(mballoc, request);
	/* Wraps around below zero, and is then too large as well. */
	goal = extent.start + (request->file - extent.file);
	return goal < nr_blocks(mballoc) ? goal : extent.start;
}

static bool find_address(const struct extent_map *map, uint64_t file, uint64_t *block)
{
	struct extent extent;

	if (!extent_map_find(map, file, &extent) || extent.file > file)
		return false;
	if (extent.state == EXTENT_DELAYED)
		return false;
	*block = extent.start + (file - extent.file);
	return true;
}

/* Where the chunk would continue its neighbours. */
static bool chunk_goal(const struct ext4_mballoc *mballoc, const struct ext4_request *request,
		       const struct ext4_chunk *chunk, uint64_t *goal)
{
	uint64_t block;

	if (chunk->file > 0 && find_address(request->map, chunk->file - 1, &block)) {
		*goal = block + 1;
		return *goal < nr_blocks(mballoc);
	}
	if (find_address(request->map, chunk->file + chunk->len, &block) && block >= chunk->len) {
		*goal = block - chunk->len;
		return true;
	}
	return false;
}

/* ---- take and keep ---------------------------------------------------------------------- */

static struct ext4_group *group_at(struct ext4_mballoc *mballoc, uint64_t block, uint32_t *off)
{
	uint32_t g = ext4_group_of(&mballoc->groups, block);

	assert(g < mballoc->groups.nr);
	*off = (uint32_t)(block - ext4_group_start(&mballoc->groups, g));
	return &mballoc->groups.group[g];
}

/* Blocks that were searched for and are not wanted after all. */
static void give_back(struct ext4_mballoc *mballoc, uint64_t block, uint32_t len)
{
	uint32_t off;
	struct ext4_group *group = group_at(mballoc, block, &off);

	if (!len)
		return;
	env_mutex_lock(&group->lock);
	ext4_group_give(group, off, len);
	env_mutex_unlock(&group->lock);
}

/* They were taken before, for a preallocation. */
static void mark_used(struct ext4_mballoc *mballoc, const struct ext4_request *request,
		      uint64_t block, uint32_t len)
{
	uint32_t off;
	struct ext4_group *group = group_at(mballoc, block, &off);

	ext4_search_lock(mballoc, request->inode, group);
	ext4_search_use(group, len);
	env_mutex_unlock(&group->lock);
}

/* EX19: which part of the chunk gets the `len` blocks that were found. */
static uint64_t place_in_chunk(const struct ext4_request *request, const struct ext4_chunk *chunk,
			       uint32_t len)
{
	uint64_t chunk_end = chunk->file + chunk->len;

	if (chunk_end - len <= request->file)
		return chunk_end - len;
	if (chunk->file + len >= request_end(request))
		return chunk->file;
	return request->file;
}

static int allocate_stream(struct ext4_mballoc *mballoc, const struct ext4_request *request,
			   uint64_t *block, uint32_t *len)
{
	struct ext4_chunk chunk = ext4_mballoc_normalise(mballoc, request);
	uint32_t *goal = stream_goal(mballoc, request);
	struct ext4_search search = {.inode = request->inode, .len = chunk.len};
	struct ext4_chunk found;
	uint64_t found_block;
	uint32_t front;
	int err;

	search.least = min_u32(chunk.file + chunk.len - request->file, request->len);
	search.group = __atomic_load_n(goal, __ATOMIC_RELAXED);
	search.has_goal = chunk_goal(mballoc, request, &chunk, &search.goal);
	err = ext4_search(mballoc, &search, &found_block, &found.len);
	if (err)
		return err;
	stream_moved(mballoc, goal, found_block);

	found.file = place_in_chunk(request, &chunk, found.len);
	front = (uint32_t)(request->file - found.file);
	*block = found_block + front;
	*len = min_u32(found.len - front, request->len);
	if (*len == found.len)
		return 0;
	if (ext4_prealloc_keep(request->preallocs, &found, found_block, request->file, *len)) {
		give_back(mballoc, found_block, front);
		give_back(mballoc, *block + *len, found.len - front - *len);
	}
	return 0;
}

static int allocate_small(struct ext4_mballoc *mballoc, const struct ext4_request *request,
			  uint64_t *block, uint32_t *len)
{
	uint64_t goal = near_goal(mballoc, request);
	struct ext4_cpu *cpu = &mballoc->cpus[request->cpu % mballoc->config.nr_cpus];
	struct ext4_search search = {.inode = request->inode, .least = request->len};
	uint32_t found;
	int err;

	if (ext4_cpu_use(cpu, goal, request->len, block)) {
		*len = request->len;
		return 0;
	}

	search.len = mballoc->config.chunk_blocks;
	if (search.len < request->len)
		search.len = request->len;
	search.group = ext4_group_of(&mballoc->groups, goal);
	err = ext4_search(mballoc, &search, block, &found);
	if (err)
		return err;
	*len = min_u32(found, request->len);
	if (*len < found && ext4_cpu_keep(mballoc, cpu, *block, found, *len))
		give_back(mballoc, *block + *len, found - *len);
	return 0;
}

/* No more than is asked for; a large file that is being filled goes with its stream. */
static int allocate_exact(struct ext4_mballoc *mballoc, const struct ext4_request *request,
			  uint64_t *block, uint32_t *len)
{
	bool is_stream = request->no_normalise && !file_is_small(mballoc, request);
	uint32_t *goal = stream_goal(mballoc, request);
	struct ext4_search search = {
		.inode = request->inode,
		.len = min_u32(request->len, mballoc->config.per_group),
		.use = true,
	};
	int err;

	search.least = search.len;
	if (is_stream)
		search.group = __atomic_load_n(goal, __ATOMIC_RELAXED);
	else
		search.group = ext4_group_of(&mballoc->groups, near_goal(mballoc, request));
	err = ext4_search(mballoc, &search, block, len);
	if (!err && is_stream)
		stream_moved(mballoc, goal, *block);
	return err;
}

/* EX8 */
static int allocate_kind(struct ext4_mballoc *mballoc, const struct ext4_request *request,
			 enum kind kind, uint64_t *block, uint32_t *len)
{
	int err = 0;

	if (!request->is_metadata && ext4_prealloc_use(request->preallocs, request, block, len))
		;
	else if (kind == KIND_SMALL)
		err = allocate_small(mballoc, request, block, len);
	else if (kind == KIND_STREAM)
		err = allocate_stream(mballoc, request, block, len);
	else
		return allocate_exact(mballoc, request, block, len);
	if (!err)
		mark_used(mballoc, request, *block, *len);
	return err;
}

int ext4_mballoc_allocate(struct ext4_mballoc *mballoc, const struct ext4_request *request,
			  uint64_t *block, uint32_t *len)
{
	enum kind kind = request_kind(mballoc, request);
	int err = -ENOSPC;

	assert(request->len > 0);
	for (unsigned int tries = 0; tries < MAX_TRIES; tries++) {
		if (tries == EXACT_TRIES)
			kind = KIND_EXACT;
		err = allocate_kind(mballoc, request, kind, block, len);
		if (err != -ENOSPC)
			break;
		if (!ext4_prealloc_discard_all(mballoc) && tries)
			break;
	}
	return err;
}

void ext4_mballoc_free(struct ext4_mballoc *mballoc, uint64_t block, uint64_t len)
{
	while (len > 0) {
		uint32_t off;
		struct ext4_group *group = group_at(mballoc, block, &off);
		uint32_t n = min_u32(len, group->nr_blocks - off);

		ext4_search_lock(mballoc, NULL, group);
		env_charge(ENV_COST_BITMAP, 1);
		ext4_group_unuse(group, n);
		ext4_group_give(group, off, n);
		env_mutex_unlock(&group->lock);
		block += n;
		len -= n;
	}
}

/* ---- set up ----------------------------------------------------------------------------- */

/* EX15 */
static uint32_t nr_goals(const struct ext4_mballoc_config *config)
{
	uint64_t nr_groups = (config->nr_blocks + config->per_group - 1) / config->per_group;

	if (config->nr_goals)
		return config->nr_goals;
	return min_u32((nr_groups + 3) / 4, config->nr_cpus);
}

int ext4_mballoc_init(struct ext4_mballoc *mballoc, const struct ext4_mballoc_config *config)
{
	int err = -ENOMEM;

	assert(config->nr_cpus > 0);
	assert(config->chunk_blocks > 0);
	mballoc->config = *config;
	mballoc->config.nr_goals = nr_goals(config);
	mballoc->log2_block = (uint32_t)__builtin_ctz(config->block_size);
	mballoc->contention = 0;
	env_mutex_init(&mballoc->files_lock, "ext4 files");
	list_init(&mballoc->files);

	mballoc->goals = env_zalloc(mballoc->config.nr_goals * sizeof(*mballoc->goals));
	if (!mballoc->goals)
		return err;
	mballoc->cpus = env_zalloc(config->nr_cpus * sizeof(*mballoc->cpus));
	if (!mballoc->cpus)
		goto free_goals;
	for (uint32_t i = 0; i < config->nr_cpus; i++)
		ext4_cpu_init(&mballoc->cpus[i]);
	err = ext4_groups_init(&mballoc->groups, config->nr_blocks, config->per_group,
			       config->max_order);
	if (err)
		goto free_cpus;
	return 0;

free_cpus:
	env_free(mballoc->cpus);
free_goals:
	env_free(mballoc->goals);
	return err;
}

void ext4_mballoc_destroy(struct ext4_mballoc *mballoc)
{
	assert(list_empty(&mballoc->files));
	ext4_prealloc_discard_all(mballoc);
	assert(ext4_mballoc_ok(mballoc));
	ext4_groups_destroy(&mballoc->groups);
	env_free(mballoc->cpus);
	env_free(mballoc->goals);
}

void ext4_mballoc_reserve(struct ext4_mballoc *mballoc, uint64_t start, uint32_t len)
{
	uint32_t off;
	struct ext4_group *group = group_at(mballoc, start, &off);

	ext4_group_take(group, off, len);
	ext4_group_use(group, len);
}

bool ext4_mballoc_ok(struct ext4_mballoc *mballoc)
{
	for (uint32_t g = 0; g < mballoc->groups.nr; g++) {
		struct ext4_group *group = &mballoc->groups.group[g];

		assert(ext4_group_ok(group));
		assert(group->nr_free == group->nr_unused);
	}
	return true;
}

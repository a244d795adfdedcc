/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prealloc.c - space that was taken but is not used yet
 *
 * Blocks of a preallocation are not free in their group's bitmap, so using one needs no search:
 * a file's are found by position in the file, those of a CPU are used one behind the other.
 * Giving a preallocation back frees what of it was not used.
 */
#include "fsbackends/ext4/prealloc.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include "fsbackends/ext4/mballoc.h"

#define BITS 64u
/* A CPU that has more chunks gives back the one with the least room. */
#define MAX_CPU_CHUNKS 8u

struct ext4_prealloc {
	uint64_t file; /* first block in the file */
	uint64_t block; /* first block on the device */
	uint32_t len;
	uint32_t nr_free; /* never 0 */
	uint64_t used[]; /* a bit for each block */
};

struct cpu_chunk {
	struct list_head link;
	uint64_t block;
	uint32_t len;
	uint32_t nr_used; /* less than len */
};

/* The blocks are in no preallocation any more, and were never used. */
static void give_back(struct ext4_mballoc *mballoc, uint64_t block, uint32_t len)
{
	uint32_t g = ext4_group_of(&mballoc->groups, block);
	struct ext4_group *group = &mballoc->groups.group[g];

	env_mutex_lock(&group->lock);
	ext4_group_give(group, (uint32_t)(block - ext4_group_start(&mballoc->groups, g)), len);
	env_mutex_unlock(&group->lock);
}

/* ---- of a file -------------------------------------------------------------------------- */

static bool is_used(const struct ext4_prealloc *prealloc, uint32_t i)
{
	return (prealloc->used[i / BITS] >> (i % BITS)) & 1;
}

/* How many blocks from i on are not used. */
static uint32_t unused_at(const struct ext4_prealloc *prealloc, uint32_t i)
{
	uint32_t end = i;

	while (end < prealloc->len && !is_used(prealloc, end))
		end++;
	return end - i;
}

static void set_used(struct ext4_prealloc *prealloc, uint32_t i, uint32_t len)
{
	for (uint32_t end = i + len; i < end; i++)
		prealloc->used[i / BITS] |= 1ull << (i % BITS);
	prealloc->nr_free -= len;
}

/* The first slot whose preallocation ends behind file block `at`. */
static uint32_t slot_find(const struct ext4_prealloc_list *file, uint64_t at)
{
	uint32_t low = 0, high = file->nr;

	while (low < high) {
		uint32_t mid = (low + high) / 2;

		if (file->by_pos[mid]->file + file->by_pos[mid]->len > at)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

static void slot_remove(struct ext4_prealloc_list *file, uint32_t slot)
{
	env_free(file->by_pos[slot]);
	file->nr--;
	memmove(&file->by_pos[slot], &file->by_pos[slot + 1],
		(file->nr - slot) * sizeof(struct ext4_prealloc *));
}

static int slot_make_room(struct ext4_prealloc_list *file)
{
	uint32_t max = file->max ? file->max * 2 : 8;
	struct ext4_prealloc **by_pos;

	if (file->nr < file->max)
		return 0;
	by_pos = env_alloc(max * sizeof(struct ext4_prealloc *));
	if (!by_pos)
		return -ENOMEM;
	if (file->nr)
		memcpy(by_pos, file->by_pos, file->nr * sizeof(struct ext4_prealloc *));
	env_free(file->by_pos);
	file->by_pos = by_pos;
	file->max = max;
	return 0;
}

bool ext4_prealloc_use(struct ext4_prealloc_list *file, const struct ext4_request *request,
		       uint64_t *block, uint32_t *len)
{
	struct ext4_prealloc *prealloc;
	uint32_t slot, i, n = 0;

	env_mutex_lock(&file->lock);
	slot = slot_find(file, request->file);
	if (slot < file->nr && file->by_pos[slot]->file <= request->file) {
		prealloc = file->by_pos[slot];
		i = (uint32_t)(request->file - prealloc->file);
		n = unused_at(prealloc, i);
		if (n > request->len)
			n = request->len;
		*block = prealloc->block + i;
		set_used(prealloc, i, n);
		if (!prealloc->nr_free)
			slot_remove(file, slot);
	}
	env_mutex_unlock(&file->lock);
	*len = n;
	return n > 0;
}

int ext4_prealloc_keep(struct ext4_prealloc_list *file, const struct ext4_chunk *chunk,
		       uint64_t block, uint64_t used, uint32_t nr_used)
{
	size_t words = (chunk->len + BITS - 1) / BITS;
	struct ext4_prealloc *prealloc;
	uint32_t slot;
	int err;

	assert(used >= chunk->file);
	assert(used + nr_used <= chunk->file + chunk->len);
	assert(nr_used < chunk->len);
	prealloc = env_zalloc(sizeof(*prealloc) + words * sizeof(uint64_t));
	if (!prealloc)
		return -ENOMEM;
	prealloc->file = chunk->file;
	prealloc->block = block;
	prealloc->len = chunk->len;
	prealloc->nr_free = chunk->len;
	set_used(prealloc, (uint32_t)(used - chunk->file), nr_used);

	env_mutex_lock(&file->lock);
	err = slot_make_room(file);
	if (!err) {
		slot = slot_find(file, chunk->file);
		memmove(&file->by_pos[slot + 1], &file->by_pos[slot],
			(file->nr - slot) * sizeof(struct ext4_prealloc *));
		file->by_pos[slot] = prealloc;
		file->nr++;
		assert(slot + 1 == file->nr ||
		       file->by_pos[slot + 1]->file >= chunk->file + chunk->len);
	}
	env_mutex_unlock(&file->lock);
	if (err)
		env_free(prealloc);
	return err;
}

void ext4_prealloc_cut(struct ext4_prealloc_list *file, uint64_t at, uint64_t *start, uint64_t *end)
{
	uint32_t slot;

	env_mutex_lock(&file->lock);
	slot = slot_find(file, at);
	if (slot > 0) {
		struct ext4_prealloc *before = file->by_pos[slot - 1];

		if (before->file + before->len > *start)
			*start = before->file + before->len;
	}
	if (slot < file->nr && file->by_pos[slot]->file < *end)
		*end = file->by_pos[slot]->file;
	env_mutex_unlock(&file->lock);
}

static uint64_t prealloc_give_back(struct ext4_mballoc *mballoc,
				   const struct ext4_prealloc *prealloc)
{
	uint32_t n;

	for (uint32_t i = 0; i < prealloc->len; i += n ? n : 1) {
		n = unused_at(prealloc, i);
		if (n)
			give_back(mballoc, prealloc->block + i, n);
	}
	return prealloc->nr_free;
}

uint64_t ext4_prealloc_discard(struct ext4_mballoc *mballoc, struct ext4_prealloc_list *file)
{
	uint64_t blocks = 0;

	env_mutex_lock(&file->lock);
	for (uint32_t i = 0; i < file->nr; i++) {
		blocks += prealloc_give_back(mballoc, file->by_pos[i]);
		env_free(file->by_pos[i]);
	}
	file->nr = 0;
	env_mutex_unlock(&file->lock);
	return blocks;
}

void ext4_prealloc_init(struct ext4_mballoc *mballoc, struct ext4_prealloc_list *file)
{
	env_mutex_init(&file->lock, "ext4 preallocations");
	file->by_pos = NULL;
	file->nr = 0;
	file->max = 0;
	env_mutex_lock(&mballoc->files_lock);
	list_add_tail(&file->link, &mballoc->files);
	env_mutex_unlock(&mballoc->files_lock);
}

void ext4_prealloc_destroy(struct ext4_mballoc *mballoc, struct ext4_prealloc_list *file)
{
	env_mutex_lock(&mballoc->files_lock);
	list_del_init(&file->link);
	env_mutex_unlock(&mballoc->files_lock);
	ext4_prealloc_discard(mballoc, file);
	env_free(file->by_pos);
}

/* ---- of a CPU --------------------------------------------------------------------------- */

void ext4_cpu_init(struct ext4_cpu *cpu)
{
	env_mutex_init(&cpu->lock, "ext4 locality group");
	list_init(&cpu->chunks);
	cpu->nr_chunks = 0;
}

static void chunk_remove(struct ext4_cpu *cpu, struct cpu_chunk *chunk)
{
	list_del_init(&chunk->link);
	cpu->nr_chunks--;
	env_free(chunk);
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

bool ext4_cpu_use(struct ext4_cpu *cpu, uint64_t goal, uint32_t len, uint64_t *block)
{
	struct cpu_chunk *chunk, *nearest = NULL;

	env_mutex_lock(&cpu->lock);
	list_for_each_entry(chunk, &cpu->chunks, struct cpu_chunk, link) {
		uint64_t next = chunk->block + chunk->nr_used;

		if (chunk->len - chunk->nr_used < len)
			continue;
		if (!nearest || distance(next, goal) < distance(*block, goal)) {
			nearest = chunk;
			*block = next;
		}
	}
	if (nearest) {
		nearest->nr_used += len;
		if (nearest->nr_used == nearest->len)
			chunk_remove(cpu, nearest);
	}
	env_mutex_unlock(&cpu->lock);
	return nearest != NULL;
}

static uint64_t chunk_give_back(struct ext4_mballoc *mballoc, struct ext4_cpu *cpu,
				struct cpu_chunk *chunk)
{
	uint32_t unused = chunk->len - chunk->nr_used;

	give_back(mballoc, chunk->block + chunk->nr_used, unused);
	chunk_remove(cpu, chunk);
	return unused;
}

static struct cpu_chunk *chunk_with_least_room(struct ext4_cpu *cpu)
{
	struct cpu_chunk *chunk, *least = NULL;

	list_for_each_entry(chunk, &cpu->chunks, struct cpu_chunk, link)
		if (!least || chunk->len - chunk->nr_used < least->len - least->nr_used)
			least = chunk;
	return least;
}

int ext4_cpu_keep(struct ext4_mballoc *mballoc, struct ext4_cpu *cpu, uint64_t block, uint32_t len,
		  uint32_t nr_used)
{
	struct cpu_chunk *chunk = env_alloc(sizeof(*chunk));

	assert(nr_used < len);
	if (!chunk)
		return -ENOMEM;
	chunk->block = block;
	chunk->len = len;
	chunk->nr_used = nr_used;

	env_mutex_lock(&cpu->lock);
	list_add(&chunk->link, &cpu->chunks);
	if (++cpu->nr_chunks > MAX_CPU_CHUNKS)
		chunk_give_back(mballoc, cpu, chunk_with_least_room(cpu));
	env_mutex_unlock(&cpu->lock);
	return 0;
}

uint64_t ext4_cpu_discard(struct ext4_mballoc *mballoc, struct ext4_cpu *cpu)
{
	struct cpu_chunk *chunk, *next;
	uint64_t blocks = 0;

	env_mutex_lock(&cpu->lock);
	list_for_each_entry_safe(chunk, next, &cpu->chunks, struct cpu_chunk, link)
		blocks += chunk_give_back(mballoc, cpu, chunk);
	env_mutex_unlock(&cpu->lock);
	return blocks;
}

uint64_t ext4_prealloc_discard_all(struct ext4_mballoc *mballoc)
{
	struct ext4_prealloc_list *file;
	uint64_t blocks = 0;

	env_mutex_lock(&mballoc->files_lock);
	list_for_each_entry(file, &mballoc->files, struct ext4_prealloc_list, link)
		blocks += ext4_prealloc_discard(mballoc, file);
	env_mutex_unlock(&mballoc->files_lock);
	for (uint32_t i = 0; i < mballoc->config.nr_cpus; i++)
		blocks += ext4_cpu_discard(mballoc, &mballoc->cpus[i]);
	return blocks;
}

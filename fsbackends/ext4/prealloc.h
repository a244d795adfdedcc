/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * prealloc.h - space that was taken but is not used yet (EX12, EX13)
 */
#ifndef FSBACKENDS_EXT4_PREALLOC_H
#define FSBACKENDS_EXT4_PREALLOC_H

#include <stdbool.h>
#include <stdint.h>

struct ext4_chunk;
struct ext4_cpu;
struct ext4_mballoc;
struct ext4_prealloc_list;
struct ext4_request;

/* A part of the request from the file's preallocations; false if none covers its front. */
bool ext4_prealloc_use(struct ext4_prealloc_list *file, const struct ext4_request *request,
		       uint64_t *block, uint32_t *len);
/* Keep chunk, which is at block; the blocks of [used, used + nr_used) are.  0 or -ENOMEM. */
int ext4_prealloc_keep(struct ext4_prealloc_list *file, const struct ext4_chunk *chunk,
		       uint64_t block, uint64_t used, uint32_t nr_used);
/* Cut [*start, *end), which contains file block `at`, at the neighbouring preallocations. */
void ext4_prealloc_cut(struct ext4_prealloc_list *file, uint64_t at, uint64_t *start,
		       uint64_t *end);

void ext4_cpu_init(struct ext4_cpu *cpu);
/* len blocks from the CPU's chunk nearest to the goal; false if none has so much. */
bool ext4_cpu_use(struct ext4_cpu *cpu, uint64_t goal, uint32_t len, uint64_t *block);
/* Keep a chunk whose first nr_used blocks are used.  0 or -ENOMEM. */
int ext4_cpu_keep(struct ext4_mballoc *mballoc, struct ext4_cpu *cpu, uint64_t block, uint32_t len,
		  uint32_t nr_used);
uint64_t ext4_cpu_discard(struct ext4_mballoc *mballoc, struct ext4_cpu *cpu);

#endif

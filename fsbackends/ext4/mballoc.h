/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * mballoc.h - which blocks a file gets (EX8..EX20)
 *
 *	ext4_mballoc_init(&mballoc, &config);
 *	ext4_mballoc_reserve(&mballoc, start, len);	metadata: never for files
 *	ext4_prealloc_init(&mballoc, &file);		once for each file
 *	err = ext4_mballoc_allocate(&mballoc, &request, &block, &len);
 *	ext4_mballoc_free(&mballoc, block, len);
 *	ext4_prealloc_discard(&mballoc, &file);
 *	ext4_prealloc_destroy(&mballoc, &file);
 *	ext4_mballoc_destroy(&mballoc);
 *
 * A large file takes space in chunks of up to 8 MiB, aligned in the file; what a request does
 * not need stays the file's preallocation and is used by position in the file.  Small files of
 * one CPU share chunks and fill them one behind the other.
 *
 * Lock order, outermost first:
 *	the file's data lock
 *	  mballoc->files_lock	(giving back all preallocations)
 *	    file->lock, cpu->lock
 *	      group->lock	(one at a time)
 */
#ifndef FSBACKENDS_EXT4_MBALLOC_H
#define FSBACKENDS_EXT4_MBALLOC_H

#include <stdbool.h>
#include <stdint.h>
#include <iomap/env.h>
#include <iomap/list.h>
#include "fsbackends/base/extent-map.h"
#include "fsbackends/ext4/group.h"

struct inode;
struct ext4_prealloc;

/* The most one request may ask for, except without normalisation. */
#define EXT4_MAX_RUN 2048u

struct ext4_mballoc_config {
	uint64_t nr_blocks;
	uint32_t block_size;
	uint32_t per_group;
	uint32_t max_order;
	uint32_t nr_cpus;
	uint32_t nr_goals; /* 0: as EX15 says */
	uint32_t small_blocks; /* files up to this size are small (EX9) */
	uint32_t chunk_blocks; /* what small files share (EX13) */
	bool wait_for_groups; /* never pass over a busy group (EX18) */
};

/* The chunks small files on one CPU fill (EX13). */
struct ext4_cpu {
	struct env_mutex lock;
	struct list_head chunks; /* [lock] newest first */
	uint32_t nr_chunks; /* [lock] */
};

struct ext4_mballoc {
	struct ext4_groups groups;
	struct ext4_mballoc_config config; /* [I] */
	uint32_t log2_block; /* [I] */
	uint32_t *goals; /* [a] the group each stream used last (EX15) */
	struct ext4_cpu *cpus; /* [I] */
	uint32_t contention; /* [a] rises when a group lock is busy, falls when not */
	struct env_mutex files_lock;
	struct list_head files; /* [files_lock] every file */
};

/* The preallocations of one file (EX12). */
struct ext4_prealloc_list {
	struct env_mutex lock;
	struct ext4_prealloc **by_pos; /* [lock] disjoint, by rising file block */
	uint32_t nr; /* [a, changed under lock] */
	uint32_t max; /* [lock] */
	struct list_head link; /* [files_lock] */
};

struct ext4_request {
	struct inode *inode; /* charged with waiting for groups; may be NULL */
	const struct extent_map *map; /* the file's space; its data lock is held exclusively */
	struct ext4_prealloc_list *preallocs;
	uint64_t file; /* first block in the file; not allocated yet */
	uint32_t len; /* blocks, none allocated yet */
	uint64_t size; /* the file's, in bytes */
	uint64_t ino;
	uint32_t group; /* the inode's */
	uint32_t cpu;
	bool is_closed; /* nobody has the file open for writing */
	bool no_normalise; /* exactly this, keep no surplus */
	bool is_metadata; /* a block of the file's tree, near where `file` is */
};

/* The chunk of a file that a request is grown to (EX10), in blocks. */
struct ext4_chunk {
	uint64_t file;
	uint32_t len;
};

/* 0 or -ENOMEM. */
int ext4_mballoc_init(struct ext4_mballoc *mballoc, const struct ext4_mballoc_config *config);
/* Every file is destroyed. */
void ext4_mballoc_destroy(struct ext4_mballoc *mballoc);
/* Only before the first allocation. */
void ext4_mballoc_reserve(struct ext4_mballoc *mballoc, uint64_t start, uint32_t len);

/*
 * Space for the front of the request: 1..request->len blocks at *block.  -ENOSPC if there is
 * no free block even after all preallocations were given back.
 * => the file's data lock is held exclusively
 */
int ext4_mballoc_allocate(struct ext4_mballoc *mballoc, const struct ext4_request *request,
			  uint64_t *block, uint32_t *len);
/* The blocks are used by a file, and no longer. */
void ext4_mballoc_free(struct ext4_mballoc *mballoc, uint64_t block, uint64_t len);

/* Which shard and which stream goal an inode number has (EX15, EX27). */
uint32_t ext4_mballoc_stream(const struct ext4_mballoc *mballoc, uint64_t ino);

void ext4_prealloc_init(struct ext4_mballoc *mballoc, struct ext4_prealloc_list *file);
/* Give back what the file's preallocations hold unused (EX20); returns how much. */
uint64_t ext4_prealloc_discard(struct ext4_mballoc *mballoc, struct ext4_prealloc_list *file);
void ext4_prealloc_destroy(struct ext4_mballoc *mballoc, struct ext4_prealloc_list *file);
/* The same for all files and all CPUs. */
uint64_t ext4_prealloc_discard_all(struct ext4_mballoc *mballoc);

/* The table of EX10 alone, before it is cut at what the file has. */
struct ext4_chunk ext4_mballoc_table(const struct ext4_mballoc *mballoc,
				     const struct ext4_request *request);
/* With the cuts. */
struct ext4_chunk ext4_mballoc_normalise(const struct ext4_mballoc *mballoc,
					 const struct ext4_request *request);

/* For assertions; no preallocation exists: every group agrees with itself and the disk. */
bool ext4_mballoc_ok(struct ext4_mballoc *mballoc);

#endif

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * memory.h - memory for what is huge and mostly empty
 */
#ifndef ENV_MEMORY_H
#define ENV_MEMORY_H

#include <stddef.h>

/*
 * Map size bytes that read as zero.  The host gives memory for a page once it is written
 * to; size may be far more than the host has.  NULL if there are no addresses left.
 */
void *env_sparse_map(size_t size);
void env_sparse_unmap(void *memory, size_t size);

#endif

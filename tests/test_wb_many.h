/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_wb_many.h - very many inodes of one page each, whose writes take no time
 */
#ifndef TESTS_TEST_WB_MANY_H
#define TESTS_TEST_WB_MANY_H

#include "tests/test_wb_rig.h"

static inline int many_writepages(struct address_space *mapping, struct writeback_control *wbc)
{
	struct folio *folio = NULL;
	int err = 0;

	while ((folio = filemap_writeback_iter(mapping, wbc, folio, &err)) != NULL) {
		folio_start_writeback(folio);
		folio_unlock(folio);
		folio_end_writeback(folio);
	}
	return err;
}

/* Inodes first .. first + nr - 1. */
static inline struct inode *many_create(struct flat *rig, uint64_t first, unsigned int nr)
{
	static const struct address_space_operations aops = {.writepages = many_writepages};
	struct inode *inodes = calloc(nr, sizeof(*inodes));

	cr_assert(inodes);
	for (unsigned int i = 0; i < nr; i++)
		inode_init(&inodes[i], &rig->sb, first + i, &aops);
	return inodes;
}

static inline void many_dirty(struct inode *inodes, unsigned int nr)
{
	for (unsigned int i = 0; i < nr; i++) {
		struct folio *folio;

		cr_assert_eq(
			filemap_get_folio(&inodes[i].i_mapping, 0, FGP_LOCK | FGP_CREAT, &folio),
			0);
		folio_mark_uptodate(folio);
		folio_mark_dirty(folio);
		folio_unlock_put(folio);
	}
}

static inline void many_remove(struct inode *inodes, unsigned int nr)
{
	for (unsigned int i = 0; i < nr; i++)
		inode_evict(&inodes[i]);
	free(inodes);
}

/* No limits, no periodic writeback. */
static inline void many_config(struct page_cache_config *config)
{
	page_cache_config_init(config);
	config->capacity = 1024 * MiB; /* touched where it is used only */
	config->prefault = false;
	config->dirty_bytes = 900 * MiB;
	config->dirty_background_bytes = 800 * MiB;
	config->writeback_interval_ns = 0;
}

#endif

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * aops.c - how every back end fills its cache: the library's read over its own read_ops
 */
#include "base.h"

int fs_read_folio(struct file *file, struct folio *folio)
{
	(void)file;
	return iomap_read_folio(folio, fs_of(folio->mapping->host)->backend->read_ops);
}

void fs_readahead(struct readahead_control *rac)
{
	iomap_readahead(rac, fs_of(rac->mapping->host)->backend->read_ops);
}

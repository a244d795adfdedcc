/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * charge.c - copies and buffer heads, in virtual time
 */
#include "folio/charge.h"

#include <iomap/folio.h>
#include <iomap/fs.h>

/* How far a copy is cold. */
#define COLD_BYTES 4096u

/* A byte of a file as one word, never 0: no address, so that it is the same in each run. */
static uint64_t place_of(const struct inode *inode, uint64_t pos)
{
	return (pos + 1) * 0x9e3779b97f4a7c15ull + inode->i_ino;
}

/* This task uses [pos, end): did its last use end there? */
static bool goes_on(const struct inode *inode, uint64_t pos, uint64_t end)
{
	uint64_t *place = &env_task_self.local[ENV_LOCAL_PLACE];
	bool same = *place == place_of(inode, pos);

	*place = place_of(inode, end);
	return same;
}

/* Returns whether the copy started at a place not used lately. */
static bool charge_copy(const struct inode *inode, uint64_t pos, uint64_t len, enum env_cost cost)
{
	bool cold = !goes_on(inode, pos, pos + len);

	if (cold) {
		uint64_t first = len < COLD_BYTES ? len : COLD_BYTES;

		env_charge(ENV_COST_COPY_COLD, 1);
		env_charge(ENV_COST_COPY_COLD_BYTES, first);
		len -= first;
	}
	if (len)
		env_charge(cost, len);
	return cold;
}

/* EX26: the heads of the blocks touched; all of the folio's, where they are not at hand. */
static void charge_heads(const struct inode *inode, const struct folio *folio, uint64_t nr_blocks,
			 bool cold)
{
	env_charge(ENV_COST_BH_BLOCK, nr_blocks);
	if (cold)
		env_charge(ENV_COST_BH_FOLIO_BLOCK, folio_size(folio) >> inode->i_blkbits);
}

void charge_read(const struct inode *inode, uint64_t pos, uint64_t len)
{
	charge_copy(inode, pos, len, ENV_COST_COPY_READ);
}

void charge_write(const struct inode *inode, const struct folio *folio, uint64_t pos, uint64_t len)
{
	unsigned int bits = inode->i_blkbits;
	bool cold;

	if (len == 0)
		return;
	env_charge(ENV_COST_DIRTY, 1);
	cold = charge_copy(inode, pos, len, ENV_COST_COPY_WRITE);
	if (inode->i_sb->s_buffer_heads)
		charge_heads(inode, folio, ((pos + len - 1) >> bits) - (pos >> bits) + 1, cold);
}

void charge_writeback(const struct inode *inode, const struct folio *folio, uint64_t len)
{
	uint64_t pos = folio_pos(folio);
	bool cold;

	if (!inode->i_sb->s_buffer_heads)
		return;
	cold = !goes_on(inode, pos, pos + folio_size(folio));
	charge_heads(inode, folio, len >> inode->i_blkbits, cold);
}

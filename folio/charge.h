/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * charge.h - what the bytes of a file cost in a world with a clock of its own
 *
 * A task that starts at some place finds nothing of it in its CPU's caches; one that goes on
 * where it was last finds the next bytes on their way.  So the first 4 KiB of a copy are dear,
 * unless this task's last one ended there, and the rest is cheap.
 *
 * Call these in a world only: what they look at is not kept on the host.
 */
#ifndef FOLIO_CHARGE_H
#define FOLIO_CHARGE_H

#include <stdint.h>
#include <iomap/cost.h>

struct folio;
struct inode;

/* [pos, pos + len) of the file was copied out of the cache (VC1). */
__attribute__((cold)) void charge_read(const struct inode *inode, uint64_t pos, uint64_t len);
/* .. was copied into the folio, whose blocks get dirty (VC1, VC4, VC6).  => folio lock */
__attribute__((cold)) void charge_write(const struct inode *inode, const struct folio *folio,
					uint64_t pos, uint64_t len);
/* `len` bytes of the folio go to the device (VC6).  => folio lock */
__attribute__((cold)) void charge_writeback(const struct inode *inode, const struct folio *folio,
					    uint64_t len);

#endif

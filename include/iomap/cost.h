/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * cost.h - what work costs on a virtual CPU: one table for all runs
 *
 *	env_charge(ENV_COST_LOOKUP, 1);		this task found one folio
 *	env_charge(ENV_COST_COPY_WRITE, len);	and copied len bytes into it
 *
 * Work on the host takes its own time and a charge is one predictable branch.  In a world
 * with a clock of its own code takes no time but what is charged here.  Each entry has a unit
 * and an origin: the measurement it was taken from, never the figure it should produce.
 */
#ifndef IOMAP_COST_H
#define IOMAP_COST_H

#include <iomap/env.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/*
 * X(id, name, rule, picoseconds, per, unit, origin)
 *
 * So many picoseconds for `per` of the unit.  A2 is the table of buffered I/O on a 2-core
 * x86-64 machine: pwrite of 4 KiB at random 1700 ns, of 512 bytes 1420 ns, pread 1150 ns,
 * memcpy 550 ns; 128 KiB sequential write 13.6, read 12.1, memcpy 16 GB/s; tmpfs, whose folios
 * are single pages, 7.4 GB/s.
 */
#define ENV_COSTS(X)                                                                               \
	X(COPY_COLD, "copy-cold", "VC1", 230000, 1, "copy at a place not used lately",             \
	  "A2: 1420 - 1150 ns for 512 bytes, without their share of the 550 for 4 KiB")            \
	X(COPY_COLD_BYTES, "copy-cold-bytes", "VC1", 320000, 4096, "byte copied there",            \
	  "A2: 550 - 230 ns for 4 KiB")                                                            \
	X(COPY_WRITE, "copy-write", "VC1", 256000, 4096, "byte copied in, going on",               \
	  "A2: memcpy 16 GB/s")                                                                    \
	X(COPY_READ, "copy-read", "VC1", 320000, 4096, "byte copied out, going on",                \
	  "A2: 128 KiB read, 12.1 GB/s without the call")                                          \
	X(WRITE_CALL, "write-call", "VC2", 700000, 1, "write call",                                \
	  "A2: 1700 - 550 ns, without map, lookup and dirty")                                      \
	X(READ_CALL, "read-call", "VC3", 450000, 1, "read call",                                   \
	  "A2: 1150 - 550 ns, without lookup")                                                     \
	X(MAP, "map", "VC2", 150000, 1, "mapping asked for", "A2: part of the write call")         \
	X(LOOKUP, "lookup", "VC4", 150000, 1, "folio looked up",                                   \
	  "A2: tmpfs 128 KiB, half of the 300 ns for each page")                                   \
	X(DIRTY, "dirty", "VC4", 150000, 1, "folio whose blocks are marked",                       \
	  "A2: tmpfs 128 KiB, the other half")                                                     \
	X(FOLIO_CREATE, "folio-create", "VC5", 530000, 1, "folio allocated, added, later freed",   \
	  "T6 without data I/O: 0.126 ns a byte, 4 KiB folios against 128 KiB ones")               \
	X(BH_BLOCK, "bh-block", "VC6", 120000, 1, "block of a request, buffer heads",              \
	  "A2: ext4 128 KiB, 3.9 us for 32 blocks")                                                \
	X(BH_FOLIO_BLOCK, "bh-folio-block", "VC6", 20000, 1,                                       \
	  "block of a folio not used lately, buffer heads",                                        \
	  "A2: ext4 pwrite 11500 ns, a walk over 512 buffer heads")                                \
	X(FLUSH_FOLIO, "flush-folio", "VC7", 500000, 1, "folio written back", "T21, T27")          \
	X(MAPPING_LOCK, "mapping-lock", "VC8", 100000, 1,                                          \
	  "folio changed under its mapping's lock", "T27")                                         \
	X(END_FOLIO, "end-folio", "VC9", 300000, 1, "folio whose I/O ended", "assumed")            \
	X(REQUEST, "request", "VC10", 2000000, 1, "request built and submitted", "assumed")        \
	X(ALLOC, "alloc", "VC11", 5000000, 1, "transaction that allocates", "assumed")             \
	X(ALLOC_STEP, "alloc-step", "VC12", 150000, 1, "free extent looked at", "assumed")         \
	X(AGF_UPDATE, "agf-update", "VC13", 300000000, 1, "change of a group's free space",        \
	  "T14: 238 us a block with one context")                                                  \
	X(CONVERT, "convert", "VC14", 5000000, 1, "transaction that converts unwritten extents",   \
	  "assumed")                                                                               \
	X(RMAP, "rmap", "VC14", 130000000, 1, "update of a reverse map under the AGF",             \
	  "T14: shape of 2 to 8 contexts")                                                         \
	X(LOG_RESERVE, "log-reserve", "VC15", 500000, 1, "log reservation that need not wait",     \
	  "assumed")                                                                               \
	X(HANDLE, "handle", "VC16", 2000000, 1, "journal handle started and stopped", "assumed")   \
	X(GROUP_RUN, "group-run", "VC16", 100000, 1, "free run of a group looked at", "assumed")   \
	X(BITMAP, "bitmap", "VC16", 1000000, 1, "update of a group's bitmap", "assumed")           \
	X(SWITCH, "switch", "VC19", 2000000, 1, "turn of a CPU to another task", "assumed")        \
	X(WAKE, "wake", "VC19", 5000000, 1, "task woken on an idle CPU", "assumed")

enum env_cost {
#define X(id, name, rule, ps, per, unit, origin) ENV_COST_##id,
	ENV_COSTS(X)
#undef X
		NR_ENV_COSTS
};

struct env_cost_entry {
	const char *name;
	const char *rule;
	uint64_t ps; /* for `per` of the unit */
	uint64_t per;
	const char *unit;
	const char *origin;
};

extern const struct env_cost_entry env_cost_table[NR_ENV_COSTS];

/* Nanoseconds for n of the entry's unit, rounded down. */
uint64_t env_cost_ns(enum env_cost cost, uint64_t n);

void env_charge_world(enum env_cost cost, uint64_t n);

/* Charge n of the entry's unit to this task's CPU; nothing on the host. */
static inline void env_charge(enum env_cost cost, uint64_t n)
{
	if (env_unlikely(env_world != NULL))
		env_charge_world(cost, n);
}

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

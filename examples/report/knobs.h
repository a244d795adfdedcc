/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * knobs.h - everything that can be turned, in one table
 *
 *	struct knobs knobs;
 *	char err[ERR_MAX];
 *
 *	knobs_init(&knobs);
 *	if (knobs_set(&knobs, "page-size", "64k", err))		one line, no newline
 *		...
 *	pages = knobs.value[KNOB_PAGE_SIZE].number;
 *
 * An experiment has defaults of its own: knobs_default() sets what the user left open.
 */
#ifndef REPORT_KNOBS_H
#define REPORT_KNOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The size of every `err`: one line that says what is wrong; what would be right. */
#define ERR_MAX 512

enum knob_kind {
	KNOB_WORD, /* number: which of the words */
	KNOB_SIZE, /* number: bytes */
	KNOB_COUNT, /* number, 0: auto */
	KNOB_RATIO, /* number / den */
	KNOB_TEXT, /* text */
	KNOB_BACKEND, /* text: a file system of the library */
	KNOB_DEVICE_SPEC, /* text; see device_profile() */
};

/* X(id, name, kind, values, default, only, help); only: of these workloads, NULL: of all */
#define KNOBS(X)                                                                                   \
	X(FS, "fs", KNOB_BACKEND, "NAME", "xfs", NULL, "the file system")                          \
	X(DEVICE, "device", KNOB_DEVICE_SPEC, "ram|null|file:PATH|[model:]PROFILE", "ram", NULL,   \
	  "where bytes go: memory, nowhere, a host's file, a modelled device (virtual: nvme)")     \
	X(DEVICE_SIZE, "device-size", KNOB_SIZE, "SIZE", "256g", NULL,                             \
	  "size of the device (memory is taken as it is written)")                                 \
	X(DEVICE_QUEUE, "device-queue", KNOB_SIZE, "SIZE", "0", NULL,                              \
	  "data written to a modelled device at a time, who has more waits; 0: no limit")          \
	X(DEVICE_GAPS, "device-gaps", KNOB_WORD, "on|off", "off", NULL,                            \
	  "a modelled disk lets a gap pass under its head if that is sooner than to move")         \
	X(PAGE_SIZE, "page-size", KNOB_SIZE, "SIZE", "4k", NULL, "page of the cache, 4k to 64k")   \
	X(BLOCK_SIZE, "block-size", KNOB_SIZE, "SIZE", "4k", NULL,                                 \
	  "block of the file system, 512 to 64k")                                                  \
	X(MAX_FOLIO, "max-folio", KNOB_SIZE, "SIZE", "2m", NULL, "largest folio, up to 2m")        \
	X(MEMORY, "memory", KNOB_SIZE, "SIZE", "16g", NULL, "capacity of the page cache")          \
	X(DIRTY_BYTES, "dirty-bytes", KNOB_SIZE, "SIZE", "0", NULL,                                \
	  "dirty limit of writers, 0: 20 % of the memory")                                         \
	X(DIRTY_BACKGROUND_BYTES, "dirty-background-bytes", KNOB_SIZE, "SIZE", "0", NULL,          \
	  "where background writeback starts, 0: 10 % of the memory")                              \
	X(DIRTY_RATIO, "dirty-ratio", KNOB_COUNT, "N", "20", NULL,                                 \
	  "dirty limit of writers, per cent of the memory")                                        \
	X(DIRTY_BACKGROUND_RATIO, "dirty-background-ratio", KNOB_COUNT, "N", "10", NULL,           \
	  "where background writeback starts, per cent of the memory")                             \
	X(DIRTY_EXPIRE_MS, "dirty-expire-ms", KNOB_COUNT, "N", "30000", NULL,                      \
	  "age at which periodic writeback takes an inode")                                        \
	X(WRITEBACK_INTERVAL_MS, "writeback-interval-ms", KNOB_COUNT, "N", "5000", NULL,           \
	  "between two rounds of periodic writeback, 0: none")                                     \
	X(READAHEAD, "readahead", KNOB_SIZE, "SIZE", "128k", NULL, "limit of a readahead window")  \
	X(AGS, "ags", KNOB_COUNT, "N|auto", "auto", NULL, "allocation groups of xfs")              \
	X(NR_WB_CTX, "nr-wb-ctx", KNOB_COUNT, "N|auto", "auto", NULL, "writeback contexts")        \
	X(WB_MAP, "wb-map", KNOB_WORD, "auto|hash|ino-mod|round-robin|one|shard-band|index",       \
	  "auto", NULL, "which context an inode gets")                                             \
	X(THROTTLE_SHARE, "throttle-share", KNOB_WORD, "bdi|posted", "bdi", NULL,                  \
	  "a context's part of the dirty limit: of the device's part, or alone in the system")     \
	X(KICK_ALL, "kick-all", KNOB_WORD, "on|off", "on", NULL,                                   \
	  "a throttled writer wakes every context, or its own only")                               \
	X(REBIND, "rebind", KNOB_WORD, "on|off", "on", NULL,                                       \
	  "an inode may change its context when it is clean")                                      \
	X(WORKERS_PER_CTX, "workers-per-ctx", KNOB_COUNT, "N", "1", NULL,                          \
	  "threads that write for one context")                                                    \
	X(SYNC_SERIAL, "sync-serial", KNOB_WORD, "on|off", "off", NULL,                            \
	  "sync waits for one context before it starts the next")                                  \
	X(COMPLETION_QUEUES, "completion-queues", KNOB_WORD, "per-ctx|single", "per-ctx", NULL,    \
	  "where completions run: each context's thread, or that of the first")                    \
	X(MIN_SLICE, "min-slice", KNOB_SIZE, "SIZE", "4m", NULL,                                   \
	  "the least a context writes of one inode at a time")                                     \
	X(MIN_RATIO, "min-ratio", KNOB_COUNT, "N", "0", NULL,                                      \
	  "the device's least part of the dirty limit, per cent")                                  \
	X(MAX_RATIO, "max-ratio", KNOB_COUNT, "N", "100", NULL,                                    \
	  "the device's largest part of the dirty limit, per cent")                                \
	X(STRICT_LIMIT, "strict-limit", KNOB_WORD, "on|off", "off", NULL,                          \
	  "the device's part holds even when the system has room")                                 \
	X(DIRTY_ACCOUNTING, "dirty-accounting", KNOB_WORD, "folio|block", "folio", NULL,           \
	  "what counts against the dirty limits: whole folios, or dirty blocks")                   \
	X(DIRTY_TRACKING, "dirty-tracking", KNOB_WORD, "block|folio", "block", NULL,               \
	  "what a dirty byte makes dirty: its block, or its whole folio")                          \
	X(ORDER_HINT, "order-hint", KNOB_WORD, "on|off", "on", NULL,                               \
	  "long writes make large folios")                                                         \
	X(DELALLOC, "delalloc", KNOB_WORD, "on|off", "on", NULL,                                   \
	  "blocks are chosen at writeback, not at write")                                          \
	X(FS_OPTIONS, "fs-options", KNOB_TEXT, "K=V,..", "", NULL, "options of the file system")   \
	X(SCALE, "scale", KNOB_RATIO, "N/M", "1", NULL,                                            \
	  "multiplies sizes, memory, limits, queue, time of time_based jobs")                      \
	X(SCALE_RATES, "scale-rates", KNOB_WORD, "off|on", "off", NULL,                            \
	  "the same for CPUs and a modelled device instead of times, which stay")                  \
	X(SCALE_REQUESTS, "scale-requests", KNOB_WORD, "on|off", "off", NULL,                      \
	  "with scaled rates: requests are shorter, not fewer; what each costs stays")             \
	X(SEED, "seed", KNOB_COUNT, "N", "1", NULL, "of all random numbers")                       \
	X(CLOCK, "clock", KNOB_WORD, "real|virtual", "real", NULL,                                 \
	  "the host's clock and CPUs, or simulated ones: the same figures in every run")           \
	X(CPUS, "cpus", KNOB_COUNT, "N", "8", NULL, "virtual CPUs of --clock virtual")             \
	X(CPU_SPEED, "cpu-speed", KNOB_RATIO, "N/M", "1", NULL,                                    \
	  "of those, beside the machine of the costs: 1/2 takes twice as long for everything")     \
	X(FILE_SIZE, "file-size", KNOB_SIZE, "SIZE", "512m",                                       \
	  "anchor-overwrite page-64k block-size order-hint contexts seed-004",                     \
	  "size of the file (contexts: of all files)")                                             \
	X(WARM, "warm", KNOB_WORD, "written|readahead", "written", "anchor-overwrite",             \
	  "where the cached folios come from")                                                     \
	X(SYNC, "sync", KNOB_WORD, "each|end", "each", "page-64k",                                 \
	  "fdatasync after each write, or fsync at the end")

enum knob_id {
#define X(id, name, kind, values, standard, only, help) KNOB_##id,
	KNOBS(X)
#undef X
		NR_KNOBS
};

enum { WARM_WRITTEN, WARM_READAHEAD };
enum { SYNC_EACH, SYNC_END };
enum { CLOCK_REAL, CLOCK_VIRTUAL };

enum { COMPLETION_PER_CTX, COMPLETION_SINGLE };

struct knob {
	const char *name;
	enum knob_kind kind;
	const char *values; /* KNOB_WORD: the words, between bars */
	const char *standard;
	const char *only;
	const char *help;
};

struct knob_value {
	const char *text; /* as given; lives as long as the arguments */
	uint64_t number;
	uint64_t den;
	bool given; /* by the user */
};

struct knobs {
	struct knob_value value[NR_KNOBS];
	/* FILE of --trace, NULL: none.  It changes no figure, so it is not in the table. */
	const char *trace;
};

extern const struct knob knob_table[NR_KNOBS];

void knobs_init(struct knobs *knobs);
/* NR_KNOBS: there is none of that name. */
enum knob_id knob_find(const char *name);
/* Returns 0, or -EINVAL with one line in err. */
int knobs_set(struct knobs *knobs, const char *name, const char *text, char *err);
/* What holds unless the user said otherwise.  text is known to be right. */
void knobs_default(struct knobs *knobs, enum knob_id id, const char *text);
/* Set it whatever the user said; it counts as not given. */
void knobs_force(struct knobs *knobs, enum knob_id id, const char *text);
/*
 * Settle what depends on other knobs.  Do the values fit together, and does the workload have
 * all that were given?
 */
int knobs_check(struct knobs *knobs, const char *workload, char *err);

static inline uint64_t knob_number(const struct knobs *knobs, enum knob_id id)
{
	return knobs->value[id].number;
}

static inline const char *knob_text(const struct knobs *knobs, enum knob_id id)
{
	return knobs->value[id].text;
}

static inline bool knob_given(const struct knobs *knobs, enum knob_id id)
{
	return knobs->value[id].given;
}

/* The model that the device asks for, NULL: it is none. */
const char *knobs_device_profile(const struct knobs *knobs);

static inline bool knobs_virtual(const struct knobs *knobs)
{
	return knobs->value[KNOB_CLOCK].number == CLOCK_VIRTUAL;
}

/* For on|off. */
static inline bool knob_on(const struct knobs *knobs, enum knob_id id)
{
	return knobs->value[id].number == 0;
}

static inline bool knobs_scale_rates(const struct knobs *knobs)
{
	return knobs->value[KNOB_SCALE_RATES].number == 1;
}

/* How many times as long as charged all work takes, to the nearest whole number. */
uint64_t knobs_slowness(const struct knobs *knobs);

/* bytes under the scale, rounded down to a multiple of unit, at least one unit. */
uint64_t knobs_scaled(const struct knobs *knobs, uint64_t bytes, uint64_t unit);

/* The nearest of the words (NULL at the end), or NULL if none is near. */
const char *word_nearest(const char *word, const char *const *words);

/* "64k", "1g", "1536": the shortest way to write it; four buffers in turn for each thread. */
const char *size_text(uint64_t bytes);

#endif

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * check.h - the whole library under random operations, a model, and every schedule
 *
 * A seed decides everything: the file system, the sizes, the faults, what each task does, and
 * in the simulator which task goes on.  A run ends with a finding of the simulator, with a
 * difference to the model, or well.
 *
 *	main.c		options, worker processes, what is printed
 *	plan.c		what a seed decides before the run
 *	world.c		the devices, the cache and the file system of a run
 *	flat.c		the smallest file system, beside those of the library
 *	model.c		what each file must hold
 *	ops.c		what a task does
 *	run.c		one run, and what must be true after it
 */
#ifndef TESTS_CHECK_SIM_CHECK_H
#define TESTS_CHECK_SIM_CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <iomap/env.h>
#include <iomap/fs.h>

#define KiB 1024ull
#define MiB (1024ull * 1024)

#define MAX_TASKS 4
#define MAX_FILES 4
#define MAX_OPS	  24

/* What a model is about: a sector, which a device writes whole or not at all. */
#define CELL	     512u
#define CELL_WORDS   (CELL / sizeof(uint64_t))
#define FILE_CELLS   1024u
#define MAX_OP_CELLS 256u

/* ---- plan.c: what a seed decides ---------------------------------------------------- */

enum trouble {
	TROUBLE_NONE,
	TROUBLE_SLOW, /* requests come late and out of order */
	TROUBLE_FAILING, /* data I/O fails now and then */
	NR_TROUBLES
};

struct plan {
	uint64_t seed;
	const char *fs; /* "xfs", "ext4", "flat" */
	enum trouble trouble;
	unsigned int nr_tasks, nr_files;
	unsigned int nr_ops; /* of each task */
	unsigned int nr_contexts;
	unsigned int workers; /* of the device */
	uint32_t block_size, max_folio;
	uint64_t cache_bytes; /* of file data, about */
	uint64_t dirty_bytes, background_bytes;
	uint64_t interval_ns, expire_ns;
	unsigned int stripe; /* cells of a shared file that belong to one task */
	unsigned int nr_cells; /* most is done in so many first cells of a file */
	unsigned int emphasis[MAX_OPS]; /* 0, 1 or more: how much of each operation */
	bool stable_writes;
	bool restless; /* contexts come and go all the time */
};

struct plan_wish {
	const char *fs; /* NULL: the seed's */
	unsigned int nr_ops; /* 0: the seed's */
};

void plan_make(struct plan *plan, uint64_t seed, const struct plan_wish *wish);
void plan_print(const struct plan *plan);

/* ---- world.c: what a run has -------------------------------------------------------- */

struct fsys {
	int (*mount)(void);
	int (*unmount)(void);
	int (*open)(const char *name, struct file **file); /* creates it if absent */
	void (*close)(struct file *file);
	int (*unlink)(const char *name);
	ssize_t (*write)(struct file *file, const void *memory, size_t len, uint64_t pos);
	ssize_t (*read)(struct file *file, void *memory, size_t len, uint64_t pos);
	int (*truncate)(struct file *file, uint64_t size);
	int (*fallocate)(struct file *file, unsigned int mode, uint64_t pos, uint64_t len);
	int (*sync)(void);
	uint64_t (*reserved)(void); /* bytes */
};

extern const struct fsys flat_fsys, library_fsys;

struct world {
	const struct plan *plan;
	const struct fsys *fsys;
	struct block_device *fault;
	struct page_cache *cache;
	struct backing_dev *bdi;
	uint64_t nr_failed; /* requests that were made to fail */
	bool verbose;
};

extern struct world world;

void world_open(const struct plan *plan);
/* Everything is taken down; all figures must be zero. */
void world_close(void);
/* From now on requests are late, or fail; and no longer. */
void world_trouble_start(struct env_rng *rng);
void world_trouble_end(void);
/* Has a request failed by now? */
bool world_has_failed(void);

/* ---- model.c: what a file must hold ------------------------------------------------- */

/*
 * A cell holds words that name file, cell and version, or zeroes (version 0).  While it is
 * being written it may hold either version, word by word; who owns it is the only writer.
 */
struct cell {
	uint32_t done, started; /* versions */
	uint32_t words; /* of `done`; what is behind them is zero */
	uint32_t ever; /* the newest version that was ever started */
	uint32_t durable; /* an fsync that succeeded covered it: it may not get older, */
	uint32_t durable_words; /* nor lose these */
	uint64_t started_at; /* the model's time; */
	uint64_t begun_at, done_at; /* and of `done` */
};

struct model {
	unsigned int nr; /* of the file, from 1 */
	struct cell cells[FILE_CELLS];
	uint64_t size_done, size_started;
	uint32_t last_version;
	uint64_t now; /* moves with each event */
	bool lost; /* a version that was done has gone: somebody must be told */
};

void model_init(struct model *model, unsigned int nr);
/* Make the bytes of a write of whole cells, and say that it has begun. */
void model_write_start(struct model *model, unsigned int first, unsigned int nr, uint64_t *memory);
/* So many cells were accepted. */
void model_write_done(struct model *model, unsigned int first, unsigned int nr,
		      unsigned int nr_accepted);
/* Nobody reads or writes. */
void model_resize(struct model *model, uint64_t size);
/* The same; the cells are zero, or, if that failed, may be. */
void model_zero(struct model *model, unsigned int first, unsigned int nr, bool failed);

/* What the model says before a read, of as many cells as the read wants. */
struct expected {
	struct cell cells[MAX_OP_CELLS];
	uint64_t size;
};

void model_expect(const struct model *model, unsigned int first, unsigned int nr,
		  struct expected *expected);
/* After it: is what was read possible? */
void model_check(struct model *model, unsigned int first, unsigned int nr,
		 const struct expected *expected, const uint64_t *memory, ssize_t got);

/* A read beside truncation: what was ever written to the cell, or zeroes. */
void model_check_any(const struct model *model, unsigned int first, unsigned int nr,
		     const uint64_t *memory, ssize_t got);

/* An fsync has succeeded that began at `start`, by who was last told of an error at told_at. */
void model_synced(struct model *model, uint64_t start, uint64_t told_at);

/* ---- ops.c: what tasks do ----------------------------------------------------------- */

struct shared_file {
	struct model model;
	char name[16];
	struct env_rwsem gate; /* shared by reads and writes, alone to cut the file */
	uint32_t moves; /* how often cells have been moved away and back; odd: they are away */
	unsigned int owner; /* task that may write to it, or MAX_TASKS: all, by stripes */
	struct file *handles[MAX_TASKS];
	bool told[MAX_TASKS]; /* the handle has reported an error */
	uint64_t told_at[MAX_TASKS]; /* the model's time after the last one */
};

extern struct shared_file shared_files[MAX_FILES];
extern bool sync_told;

struct task {
	unsigned int nr;
	struct env_thread *thread;
	struct env_rng rng;
	unsigned int nr_temps;
	uint64_t memory[MAX_OP_CELLS * CELL_WORDS];
	struct expected expected;
	struct model temp;
};

void task_main(void *task);
/* Read the whole file and compare. */
void check_whole_file(struct task *task, struct model *model, struct file *file);
/* An fsync, and what may come of it; remembers that the handle was told. */
int sync_handle(struct shared_file *file, unsigned int handle, bool datasync);
int sync_all(void);

/* ---- run.c, main.c ------------------------------------------------------------------ */

/* A run inside the simulator; arg is the struct plan. */
void run_plan(void *plan);

/* Say what the task is doing: the last words are printed if the run fails. */
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The run has failed; does not return. */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#define check(condition, ...)                                                                      \
	do {                                                                                       \
		if (!(condition))                                                                  \
			fail(__VA_ARGS__);                                                         \
	} while (0)

#endif

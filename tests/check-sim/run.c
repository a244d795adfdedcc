/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * run.c - one run, and what must be true after it
 */
#include "check.h"

#include <stdio.h>
#include <iomap/backing_dev.h>
#include <iomap/blkdev.h>
#include <iomap/page_cache.h>
#include "env/rcu.h"

static struct task tasks[MAX_TASKS];

/* ---- memory: what the library asked for and gave back ---- */

static uint64_t nr_allocated; /* one OS thread: no lock */

void *__real_env_alloc(size_t size);
void *__real_env_zalloc(size_t size);
void __real_env_free(void *memory);
void *__wrap_env_alloc(size_t size);
void *__wrap_env_zalloc(size_t size);
void __wrap_env_free(void *memory);

void *__wrap_env_alloc(size_t size)
{
	void *memory = __real_env_alloc(size);

	nr_allocated += memory != NULL;
	return memory;
}

void *__wrap_env_zalloc(size_t size)
{
	void *memory = __real_env_zalloc(size);

	nr_allocated += memory != NULL;
	return memory;
}

void __wrap_env_free(void *memory)
{
	nr_allocated -= memory != NULL;
	__real_env_free(memory);
}

/* ---- files ---- */

/* The first file is everybody's, the others are somebody's or everybody's. */
static void open_files(struct env_rng *rng)
{
	const struct plan *plan = world.plan;

	for (unsigned int i = 0; i < plan->nr_files; i++) {
		struct shared_file *file = &shared_files[i];

		model_init(&file->model, i + 1);
		snprintf(file->name, sizeof(file->name), "f%u", i);
		env_rwsem_init(&file->gate, "gate");
		file->owner = MAX_TASKS;
		if (i > 0 && env_rng_below(rng, 2))
			file->owner = (unsigned int)env_rng_below(rng, plan->nr_tasks);
		for (unsigned int j = 0; j < plan->nr_tasks; j++) {
			file->told[j] = false;
			file->told_at[j] = 0;
			check(!world.fsys->open(file->name, &file->handles[j]), "no file");
		}
	}
}

static void close_files(void)
{
	for (unsigned int i = 0; i < world.plan->nr_files; i++)
		for (unsigned int j = 0; j < world.plan->nr_tasks; j++)
			world.fsys->close(shared_files[i].handles[j]);
}

static void remove_files(void)
{
	for (unsigned int i = 0; i < world.plan->nr_files; i++)
		check(!world.fsys->unlink(shared_files[i].name), "no unlink");
}

/* ---- what must be true when all is quiet ---- */

static void check_clean(void)
{
	struct page_cache_stats stats;
	uint64_t reserved = world.fsys->reserved();

	page_cache_get_stats(world.cache, &stats);
	check(stats.nr_dirty == 0, "%llu pages are dirty after sync",
	      (unsigned long long)stats.nr_dirty);
	check(stats.nr_writeback == 0, "%llu pages under writeback after sync",
	      (unsigned long long)stats.nr_writeback);
	check(reserved == 0, "%llu bytes are reserved after sync", (unsigned long long)reserved);
	for (unsigned int i = 0; i < bdi_nr_contexts(world.bdi); i++) {
		struct wb_stats wb;

		wb_get_stats(world.bdi, i, &wb);
		check(wb.reclaimable == 0 && wb.writeback == 0,
		      "context %u has %llu dirty pages and %llu under writeback after sync", i,
		      (unsigned long long)wb.reclaimable, (unsigned long long)wb.writeback);
	}
}

/* Each handle has been told once of what its file lost, and no more (K26). */
static void check_told(void)
{
	const struct plan *plan = world.plan;

	for (unsigned int i = 0; i < plan->nr_files; i++) {
		struct shared_file *file = &shared_files[i];

		for (unsigned int j = 0; j < plan->nr_tasks; j++) {
			sync_handle(file, j, false);
			check(!file->model.lost || file->told[j],
			      "file %u lost data, handle %u was not told", i + 1, j);
			check(!sync_handle(file, j, false), "file %u: handle %u was told twice",
			      i + 1, j);
		}
		check(!file->model.lost || sync_told, "file %u lost data, no sync said so", i + 1);
	}
}

static void check_contents(void)
{
	const struct plan *plan = world.plan;

	for (unsigned int i = 0; i < plan->nr_files; i++)
		check_whole_file(&tasks[0], &shared_files[i].model, shared_files[i].handles[0]);
}

/* ---- the run ---- */

static void run_tasks(struct env_rng *rng)
{
	const struct plan *plan = world.plan;

	for (unsigned int i = 0; i < plan->nr_tasks; i++) {
		tasks[i].nr = i;
		tasks[i].nr_temps = 0;
		env_rng_seed(&tasks[i].rng, env_rng_u64(rng));
		check(!env_thread_create(&tasks[i].thread, "task", task_main, &tasks[i]),
		      "no thread");
	}
	for (unsigned int i = 0; i < plan->nr_tasks; i++)
		env_thread_join(tasks[i].thread);
}

void run_plan(void *arg)
{
	const struct plan *plan = arg;
	uint64_t before = nr_allocated;
	struct env_rng rng;

	env_rng_seed(&rng, plan->seed ^ 0x5eed);
	sync_told = false;
	world_open(plan);
	open_files(&rng);
	world_trouble_start(&rng);

	run_tasks(&rng);

	world_trouble_end();
	page_cache_fail_alloc(world.cache, 0, 0);
	note("the end: contents");
	check_contents();
	note("the end: sync");
	sync_all();
	check_clean();
	note("the end: contents of the device");
	page_cache_drop(world.cache);
	page_cache_drop(world.cache);
	check_contents();
	check_told();
	note("the end: unmount");
	close_files();
	if (env_rng_below(&rng, 2))
		remove_files();
	check(!world.fsys->unmount(), "unmount failed");
	world_close();
	env_rcu_barrier();
	check(nr_allocated == before, "%lld pieces of memory were not given back",
	      (long long)(nr_allocated - before));
}

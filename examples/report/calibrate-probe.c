/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * calibrate-probe.c - one round: the same steps in each, timed by the host's clock
 *
 * The first error of a round is kept in the probe; what comes after it does nothing.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_setaffinity() */
#endif

#include "calibrate-probe.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "calibrate-rig.h"

#define PAGE	     4096ull
#define BLOCK	     (128ull << 10)
#define CHUNK	     (2ull << 20)
#define SPARE	     (32ull << 20)
#define HOT_PAGES    8u
#define SMALL_PAGES  1024u /* of the steps that copy next to nothing; at most file_bytes */
#define INSIDE	     (PAGE / 2) /* offset in a page */
#define EDGE	     (PAGE - 1)
#define FLUSH_PIECE  (64 * PAGE)
#define LAP_STEPS    16u
#define MAX_LAPS     4096u
#define POLL_NS	     500000ull
#define NR_HANDOVERS 400u

struct probe {
	struct calibrate_size size;
	struct cal_rig pages; /* without reverse maps at completion */
	struct cal_rig rmap; /* with them */
	struct file *in_pages; /* file_bytes, one record */
	struct file *in_maps; /* SMALL_PAGES records, folios of a page */
	unsigned char *plain; /* file_bytes */
	unsigned char *memory; /* CHUNK */
	uint64_t *pos; /* nr_ops random pages */
	int err;
	const char *what;
};

static void fail(struct probe *probe, const char *what, int err)
{
	if (!probe->err) {
		probe->err = err;
		probe->what = what;
	}
}

static void check(struct probe *probe, const char *what, int err)
{
	if (err)
		fail(probe, what, err);
}

/* ---- files ---- */

static void write_at(struct probe *probe, struct file *file, uint64_t len, uint64_t pos)
{
	ssize_t n = probe->err ? (ssize_t)len : fs_write(file, probe->memory, len, pos);

	if (n != (ssize_t)len)
		fail(probe, "write", n < 0 ? (int)n : -EIO);
}

static void read_at(struct probe *probe, struct file *file, uint64_t len, uint64_t pos)
{
	ssize_t n = probe->err ? (ssize_t)len : fs_read(file, probe->memory, len, pos);

	if (n != (ssize_t)len)
		fail(probe, "read", n < 0 ? (int)n : -EIO);
}

/* Every step-th page of the first nr * step pages. */
static void write_pages(struct probe *probe, struct file *file, uint64_t nr, uint64_t step)
{
	for (uint64_t i = 0; i < nr; i++)
		write_at(probe, file, PAGE, i * step * PAGE);
}

static void flush(struct probe *probe, struct file *file, uint64_t pos, uint64_t len)
{
	if (!probe->err)
		check(probe, "flush", fs_sync_range(file, pos, len, false));
}

static void clean(struct probe *probe, struct file *file)
{
	if (!probe->err)
		check(probe, "fsync", fs_fsync(file, false));
}

/* Until nothing is under writeback.  A waiter of each folio would take part in the work. */
static void settle(struct cal_rig *rig)
{
	struct page_cache_stats stats;

	page_cache_get_stats(rig->cache, &stats);
	while (stats.nr_writeback) {
		env_sleep_ns(POLL_NS);
		page_cache_get_stats(rig->cache, &stats);
	}
}

static struct file *open_file(struct probe *probe, struct cal_rig *rig, const char *path)
{
	struct file *file = NULL;

	if (!probe->err)
		check(probe, "open", fs_open(rig->fs, path, FS_OPEN_CREATE, &file));
	return file;
}

static void close_file(struct file *file)
{
	if (file)
		fs_close(file);
}

/* Space first, so that the file is one record and a write finds room for a whole folio. */
static struct file *make_file(struct probe *probe, struct cal_rig *rig, const char *path,
			      uint64_t bytes, uint64_t chunk)
{
	struct file *file = open_file(probe, rig, path);

	if (!probe->err)
		check(probe, "fallocate", fs_fallocate(file, 0, 0, bytes));
	for (uint64_t pos = 0; chunk && pos < bytes; pos += chunk)
		write_at(probe, file, chunk, pos);
	if (chunk)
		clean(probe, file);
	return file;
}

/* Each second block is written on the device, the others only in the cache. */
static struct file *make_maps(struct probe *probe)
{
	struct file *file = make_file(probe, &probe->pages, "/maps", SMALL_PAGES * PAGE, 0);

	write_pages(probe, file, SMALL_PAGES / 2, 2);
	clean(probe, file);
	write_pages(probe, file, SMALL_PAGES, 1);
	return file;
}

/* ---- time ---- */

static double per(uint64_t start_ns, uint64_t nr)
{
	return (double)(env_clock_ns() - start_ns) / (double)nr;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double median_of(double *values, unsigned int nr)
{
	for (unsigned int i = 0; i < nr; i++)
		if (isnan(values[i]))
			return NAN;
	qsort(values, nr, sizeof(*values), by_value);
	return (values[(nr - 1) / 2] + values[nr / 2]) / 2;
}

/*
 * Steps are timed in laps, and the median lap counts: whatever else the machine does falls into
 * some laps and not into others.
 */
struct laps {
	double ns[MAX_LAPS];
	unsigned int nr;
	uint64_t start_ns;
};

static void laps_start(struct laps *laps)
{
	laps->nr = 0;
	laps->start_ns = env_clock_ns();
}

/* nr steps were done since the last lap. */
static void lap(struct laps *laps, uint64_t nr)
{
	uint64_t now_ns = env_clock_ns();

	if (laps->nr < MAX_LAPS)
		laps->ns[laps->nr++] = (double)(now_ns - laps->start_ns) / (double)nr;
	laps->start_ns = env_clock_ns();
}

static double laps_median(struct laps *laps)
{
	return median_of(laps->ns, laps->nr);
}

/* The copies must happen, although nobody looks at the bytes. */
static void keep(const void *memory)
{
	__asm__ volatile("" : : "r"(memory) : "memory");
}

static double time_random_copy(struct probe *probe, size_t len)
{
	struct laps laps;

	laps_start(&laps);
	for (unsigned int i = 0; i < probe->size.nr_ops; i++) {
		memcpy(probe->plain + probe->pos[i], probe->memory, len);
		keep(probe->plain);
		if (i % LAP_STEPS == LAP_STEPS - 1)
			lap(&laps, LAP_STEPS);
	}
	return laps_median(&laps);
}

/* For 4 KiB. */
static double time_stream_copy(struct probe *probe, bool in)
{
	struct laps laps;

	laps_start(&laps);
	for (uint64_t pos = 0; pos < probe->size.file_bytes; pos += BLOCK) {
		if (in)
			memcpy(probe->plain + pos, probe->memory, BLOCK);
		else
			memcpy(probe->memory, probe->plain + pos, BLOCK);
		keep(probe->plain);
		keep(probe->memory);
		lap(&laps, BLOCK / PAGE);
	}
	return laps_median(&laps);
}

typedef void (*io_fn)(struct probe *probe, struct file *file, uint64_t len, uint64_t pos);

/* Two bytes at that offset of a few pages, which stay in the CPU's caches. */
static double time_small(struct probe *probe, struct file *file, uint64_t off, io_fn io)
{
	struct laps laps;

	laps_start(&laps);
	for (unsigned int i = 0; i < probe->size.nr_ops; i++) {
		io(probe, file, 2, i % HOT_PAGES * PAGE + off);
		if (i % LAP_STEPS == LAP_STEPS - 1)
			lap(&laps, LAP_STEPS);
	}
	return laps_median(&laps);
}

/* For 4 KiB of writes of 128 KiB. */
static double time_stream(struct probe *probe, struct file *file)
{
	struct laps laps;

	laps_start(&laps);
	for (uint64_t pos = 0; pos < probe->size.file_bytes; pos += BLOCK) {
		write_at(probe, file, BLOCK, pos);
		lap(&laps, BLOCK / PAGE);
	}
	return laps_median(&laps);
}

/* ---- a round: copies, calls, folios ---- */

static void probe_copies(struct probe *probe, double *ns)
{
	ns[PROBE_COPY_512] = time_random_copy(probe, 512);
	ns[PROBE_COPY_4K] = time_random_copy(probe, PAGE);
	ns[PROBE_COPY_IN] = time_stream_copy(probe, true);
	ns[PROBE_COPY_OUT] = time_stream_copy(probe, false);
}

static void probe_calls(struct probe *probe, double *ns)
{
	struct file *file = probe->in_pages;

	write_pages(probe, file, SMALL_PAGES, 1); /* dirty, as in_maps is */
	ns[PROBE_WRITE_INSIDE] = time_small(probe, file, INSIDE, write_at);
	ns[PROBE_WRITE_EDGE] = time_small(probe, file, EDGE, write_at);
	ns[PROBE_WRITE_EDGE_MAPS] = time_small(probe, probe->in_maps, EDGE, write_at);
	ns[PROBE_READ_INSIDE] = time_small(probe, file, INSIDE, read_at);
	ns[PROBE_READ_EDGE] = time_small(probe, file, EDGE, read_at);
}

static void probe_folios(struct probe *probe, double *ns)
{
	struct file *file = probe->in_pages;
	uint64_t start;

	clean(probe, file);
	start = env_clock_ns();
	if (!probe->err)
		check(probe, "advise", fs_advise(file, 0, 0, FS_ADVICE_DONTNEED));
	ns[PROBE_FREE] = per(start, probe->size.file_bytes / PAGE);
	ns[PROBE_CREATE] = time_stream(probe, file);
	ns[PROBE_WRITE_PAGES] = time_stream(probe, file);
	clean(probe, file);
}

/* ---- a round: writing back ---- */

/*
 * Flush [pos, end) behind the shut gate, piece by piece; for one of the nr dirty pages of a
 * piece.  Returns with the gate shut.
 */
static double time_flush(struct probe *probe, struct cal_rig *rig, struct file *file, uint64_t pos,
			 uint64_t end, uint64_t piece, uint64_t nr)
{
	struct laps laps;

	gate_shut(&rig->gate);
	laps_start(&laps);
	for (; pos < end; pos += piece) {
		flush(probe, file, pos, piece);
		lap(&laps, nr);
	}
	return laps_median(&laps);
}

/* Complete what the gate holds; for one of nr. */
static double time_end(struct cal_rig *rig, uint64_t nr)
{
	uint64_t start = env_clock_ns();

	gate_open(&rig->gate);
	settle(rig);
	return per(start, nr);
}

static void probe_flush(struct probe *probe, double *ns)
{
	struct cal_rig *rig = &probe->pages;
	struct file *file = probe->in_pages;
	uint64_t bytes = SMALL_PAGES * PAGE;

	write_pages(probe, file, SMALL_PAGES, 1);
	ns[PROBE_FLUSH_FOLIO] =
		time_flush(probe, rig, file, 0, bytes, FLUSH_PIECE, FLUSH_PIECE / PAGE);
	ns[PROBE_END_FOLIO] = time_end(rig, SMALL_PAGES);
	write_pages(probe, file, SMALL_PAGES / 2, 2);
	ns[PROBE_FLUSH_REQUEST] =
		time_flush(probe, rig, file, 0, bytes, 2 * FLUSH_PIECE, FLUSH_PIECE / PAGE);
	time_end(rig, SMALL_PAGES / 2);
}

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/*
 * What a dirty block of the file takes to end.  This thread sleeps while another one works, so
 * the time of all CPUs is that one's, and when it ran does not matter.
 */
static double time_ends(struct probe *probe, struct cal_rig *rig, struct file *file, uint64_t bytes,
			uint64_t nr)
{
	uint64_t start;

	time_flush(probe, rig, file, 0, bytes, bytes, nr);
	start = cpu_ns();
	gate_open(&rig->gate);
	settle(rig);
	return (double)(cpu_ns() - start) / (double)nr;
}

/* Blocks with gaps between them: no two can share a request or a conversion. */
static void probe_convert(struct probe *probe, struct cal_rig *rig, double *unwritten, double *old)
{
	uint64_t bytes = SMALL_PAGES * PAGE;
	uint64_t nr = SMALL_PAGES / 2;
	struct file *file = make_file(probe, rig, "/unwritten", bytes, 0);

	write_pages(probe, file, nr, 2);
	*unwritten = time_ends(probe, rig, file, bytes, nr);
	write_pages(probe, file, nr, 2);
	*old = time_ends(probe, rig, file, bytes, nr);
	if (file)
		check(probe, "truncate", fs_truncate(file, 0));
	close_file(file);
}

static void path_of(char path[16], unsigned int i)
{
	snprintf(path, 16, "/new%u", i);
}

static double time_flush_files(struct probe *probe, struct file **file, unsigned int nr)
{
	struct cal_rig *rig = &probe->pages;
	struct laps laps;

	for (unsigned int i = 0; i < nr; i++)
		write_at(probe, file[i], PAGE, 0);
	gate_shut(&rig->gate);
	laps_start(&laps);
	for (unsigned int i = 0; i < nr; i++) {
		flush(probe, file[i], 0, PAGE);
		lap(&laps, 1);
	}
	time_end(rig, nr);
	return laps_median(&laps);
}

static void probe_alloc(struct probe *probe, double *ns)
{
	unsigned int nr = probe->size.nr_files;
	struct file **file = calloc(nr, sizeof(*file));
	char path[16];

	if (!file) {
		fail(probe, "memory", -ENOMEM);
		return;
	}
	for (unsigned int i = 0; i < nr; i++) {
		path_of(path, i);
		file[i] = open_file(probe, &probe->pages, path);
	}
	ns[PROBE_FLUSH_NEW] = time_flush_files(probe, file, nr);
	ns[PROBE_FLUSH_OLD] = time_flush_files(probe, file, nr);
	for (unsigned int i = 0; i < nr; i++) {
		path_of(path, i);
		if (file[i])
			check(probe, "unlink", fs_unlink(probe->pages.fs, path));
		close_file(file[i]);
	}
	free(file);
}

/* ---- a round: two threads ---- */

struct pair {
	struct env_mutex lock;
	uint64_t nr; /* turns of each thread */
	uint64_t count; /* [lock] */
	uint32_t word; /* [a] 0, 1: whose turn it is */
	bool bound; /* bind them to CPUs; false again if that cannot be done [a] */
	int cpu[2];
	struct laps laps; /* of the first thread: two turns each */
};

struct pair_thread {
	struct pair *pair;
	uint32_t self;
};

static void lock_main(void *arg)
{
	struct pair *pair = ((struct pair_thread *)arg)->pair;

	for (uint64_t i = 0; i < pair->nr; i++) {
		env_mutex_lock(&pair->lock);
		pair->count++;
		env_mutex_unlock(&pair->lock);
	}
}

static void bind_to(struct pair *pair, int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((unsigned int)cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		__atomic_store_n(&pair->bound, false, __ATOMIC_RELAXED);
}

static void turns_main(void *arg)
{
	struct pair_thread *thread = arg;
	struct pair *pair = thread->pair;
	uint32_t self = thread->self;
	uint32_t word;

	bind_to(pair, pair->cpu[self]);
	if (self == 0)
		laps_start(&pair->laps);
	for (uint64_t i = 0; i < pair->nr; i++) {
		while ((word = __atomic_load_n(&pair->word, __ATOMIC_ACQUIRE)) != self)
			env_futex_wait(&pair->word, word, ENV_FOREVER);
		if (self == 0)
			lap(&pair->laps, 2);
		__atomic_store_n(&pair->word, !self, __ATOMIC_RELEASE);
		env_futex_wake(&pair->word, 1);
	}
}

/* For one turn. */
static double time_pair(struct probe *probe, struct pair *pair, void (*fn)(void *arg))
{
	struct pair_thread arg[2] = {{pair, 0}, {pair, 1}};
	struct env_thread *thread[2];
	uint64_t start = env_clock_ns();
	unsigned int nr = 0;

	while (nr < 2 && !probe->err) {
		int err = env_thread_create(&thread[nr], "calibrate", fn, &arg[nr]);

		check(probe, "thread", err);
		if (!err)
			nr++;
	}
	/* Alone it would wait for ever. */
	if (nr == 1) {
		arg[1].self = 1;
		fn(&arg[1]);
	}
	for (unsigned int i = 0; i < nr; i++)
		env_thread_join(thread[i]);
	return per(start, 2 * pair->nr);
}

/* Two CPUs this process may use; -1: there is none. */
static void choose_cpus(int cpu[2])
{
	cpu_set_t set;
	unsigned int nr = 0;

	cpu[0] = cpu[1] = -1;
	if (sched_getaffinity(0, sizeof(set), &set))
		return;
	for (int i = 0; i < CPU_SETSIZE && nr < 2; i++)
		if (CPU_ISSET((unsigned int)i, &set))
			cpu[nr++] = i;
}

static double time_turns(struct probe *probe, int first, int second)
{
	struct pair pair = {.nr = NR_HANDOVERS, .bound = true, .cpu = {first, second}};

	if (first < 0 || second < 0)
		return NAN;
	time_pair(probe, &pair, turns_main);
	return pair.bound && !probe->err ? laps_median(&pair.laps) : NAN;
}

static void probe_threads(struct probe *probe, double *ns)
{
	struct pair pair = {.nr = 10 * NR_HANDOVERS};
	int cpu[2];

	env_mutex_init(&pair.lock, "calibrate pair");
	ns[PROBE_LOCK] = time_pair(probe, &pair, lock_main);
	choose_cpus(cpu);
	ns[PROBE_WAKE] = time_turns(probe, cpu[0], cpu[1]);
	ns[PROBE_SWITCH] = time_turns(probe, cpu[0], cpu[0]);
}

/* ---- life ---- */

int probe_round(struct probe *probe, double ns[NR_PROBE_FIGURES], const char **what)
{
	probe_copies(probe, ns);
	probe_calls(probe, ns);
	probe_folios(probe, ns);
	probe_flush(probe, ns);
	probe_convert(probe, &probe->pages, &ns[PROBE_END_UNWRITTEN], &ns[PROBE_END_OLD]);
	probe_convert(probe, &probe->rmap, &ns[PROBE_END_UNWRITTEN_RMAP], &ns[PROBE_END_OLD_RMAP]);
	probe_alloc(probe, ns);
	probe_threads(probe, ns);
	*what = probe->what;
	return probe->err;
}

static void choose_pages(struct probe *probe)
{
	struct env_rng rng;

	env_rng_seed(&rng, 1);
	for (unsigned int i = 0; i < probe->size.nr_ops; i++)
		probe->pos[i] = env_rng_below(&rng, probe->size.file_bytes / PAGE) * PAGE;
}

static void make_all(struct probe *probe)
{
	uint64_t bytes = probe->size.file_bytes;

	probe->plain = env_arena_map(bytes, CHUNK, true);
	probe->memory = env_zalloc(CHUNK);
	probe->pos = env_alloc(probe->size.nr_ops * sizeof(*probe->pos));
	if (!probe->plain || !probe->memory || !probe->pos) {
		fail(probe, "memory", -ENOMEM);
		return;
	}
	memset(probe->plain, 1, bytes);
	choose_pages(probe);
	check(probe, "single pages",
	      cal_rig_open(&probe->pages, bytes + SPARE, true, "rmap_at_completion=off"));
	if (!probe->err)
		check(probe, "reverse maps",
		      cal_rig_open(&probe->rmap, SPARE, true, "rmap_at_completion=on"));
	probe->in_pages = make_file(probe, &probe->pages, "/file", bytes, BLOCK);
	probe->in_maps = make_maps(probe);
}

int probe_open(struct probe **result, const struct calibrate_size *size, const char **what)
{
	struct probe *probe = env_zalloc(sizeof(*probe));
	int err;

	*what = "memory";
	if (!probe)
		return -ENOMEM;
	probe->size = *size;
	make_all(probe);
	*what = probe->what;
	err = probe->err;
	if (err)
		probe_close(probe);
	else
		*result = probe;
	return err;
}

void probe_close(struct probe *probe)
{
	close_file(probe->in_maps);
	close_file(probe->in_pages);
	cal_rig_close(&probe->pages);
	cal_rig_close(&probe->rmap);
	env_free(probe->pos);
	env_free(probe->memory);
	if (probe->plain)
		env_arena_unmap(probe->plain, probe->size.file_bytes);
	env_free(probe);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fio-clone.h - one clone of a job: its files and what it does to them
 *
 * fio-files.c makes the files, fio-clone.c does the I/O, fio-run.c decides when.
 */
#ifndef REPORT_FIO_CLONE_H
#define REPORT_FIO_CLONE_H

#include <iomap/env.h>

#include "fio-random.h"
#include "fio-run.h"

#define FIO_PATH_MAX 4096

struct fio_runner;

struct fio_file {
	void *handle; /* NULL: not open */
	uint64_t offset; /* the job's part of the file: from here, io_size bytes */
	uint64_t io_size;
	uint64_t real_size; /* of the whole file once it is made */
	uint64_t old_size; /* what setup found */
	uint64_t last_pos[FIO_NR_DIRS]; /* end of the last block */
	uint64_t last_start[FIO_NR_DIRS];
	uint64_t first_write; /* since the last sync_file_range, UINT64_MAX: none */
	uint64_t last_write;
	uint64_t path_hash; /* for the contents, if verify */
	struct fio_map map; /* nr == 0: none yet */
	bool done; /* nothing is left to do in this pass */
	bool short_of_size; /* must be made or made longer */
	bool missing;
};

/* A block that was written and will be read back. */
struct fio_written {
	uint64_t pos;
	uint32_t file;
	uint32_t len;
};

struct fio_clone {
	struct fio_runner *runner;
	const struct fio_job *job;
	unsigned int job_index;
	unsigned int index; /* among the clones of the job */
	unsigned int number; /* among all clones of the run, in the order of setup */
	unsigned int group; /* reporting group: what exitall ends */
	unsigned int wall; /* stonewalls above it */
	bool shares_files; /* other clones write the same files */

	struct fio_file *files;
	uint64_t nr_files;
	uint64_t nr_open;
	uint64_t nr_done;
	uint64_t next_file;
	struct fio_file *service_file;
	uint64_t service_left;

	uint64_t amount; /* size, settled */
	uint64_t limit; /* bytes to issue over all passes */
	uint64_t ios_limit;
	uint64_t unit; /* bytes of a bit in the map */

	struct env_rng offset_rng;
	struct env_rng size_rng;
	struct env_rng mix_rng;
	struct env_rng file_rng;
	struct fio_skew skew;
	struct fio_skew file_skew;
	uint64_t rand_left; /* I/Os until the next random offset */

	uint64_t pass;
	uint64_t issued_bytes;
	uint64_t issued_ios;
	uint64_t issued_writes;
	uint64_t issued_dir_bytes[FIO_NR_DIRS];
	uint64_t issued_dir_ios[FIO_NR_DIRS];
	uint64_t think_ios;
	bool last_was_sync;

	struct fio_written *written;
	uint64_t nr_written;
	uint64_t written_room;
	uint64_t nr_verified;

	unsigned char *buf;
	unsigned char *check_buf;
	size_t buf_size;

	uint64_t start_ns; /* when I/O started */
	uint64_t counted_from_ns; /* the same, or the end of the ramp */
	uint64_t end_ns;
	uint64_t ramp_end_ns; /* UINT64_MAX: none, or over */
	uint64_t stop_ns; /* UINT64_MAX: no limit */
	uint64_t checked_ns;
	uint32_t check_every; /* I/Os between two looks at the clock */
	uint32_t check_left;
	bool time_is_up;
	uint64_t unreported; /* bytes that progress does not know of */

	struct fio_counters counters;
	int err;
	char error[320];

	struct env_thread *thread;
	uint32_t terminate; /* atomic: end as soon as possible */
	uint32_t ended; /* atomic */
};

struct fio_runner {
	const struct fio_workload *workload;
	const struct fio_target *target;
	const struct fio_run_options *how;
	struct fio_result *result;
	struct fio_progress *progress;
	struct fio_progress own_progress; /* if the caller gave none */
	struct fio_clone *clones; /* of this run */
	unsigned int nr_clones;
	uint64_t start_ns;
	uint32_t go; /* atomic: the threads of this wall may start */
	struct env_waitq changed; /* go, ended or terminate has changed */
};

/* ---- fio-files.c --------------------------------------------------------- */

/* The name of file number nr. */
void fio_clone_path(const struct fio_clone *clone, uint64_t nr, char path[FIO_PATH_MAX]);
/* Make the folders that the names need. */
int fio_clone_make_folders(struct fio_clone *clone);
/* Settle the sizes and make the files. */
int fio_clone_setup(struct fio_clone *clone);
/* Read all files once. */
int fio_clone_pre_read(struct fio_clone *clone);
/* A buffer as long as the longest block, with pseudo-random bytes in it. */
int fio_clone_need_buf(struct fio_clone *clone);
unsigned int fio_clone_open_flags(const struct fio_clone *clone);
/* Note the first error: "job 'x': PATH: WHAT: ENAME".  Returns err. */
int fio_clone_fail(struct fio_clone *clone, const struct fio_file *file, const char *what, int err);
uint64_t fio_job_smallest_block(const struct fio_options *opt);
uint64_t fio_job_largest_block(const struct fio_options *opt);

/* ---- fio-clone.c --------------------------------------------------------- */

/* Everything from the first open to the last close. */
void fio_clone_work(struct fio_clone *clone);
/* Close and free what is left. */
void fio_clone_destroy(struct fio_clone *clone);

static inline bool fio_clone_must_end(const struct fio_clone *clone)
{
	return __atomic_load_n(&clone->terminate, __ATOMIC_RELAXED) ||
	       __atomic_load_n(&clone->runner->progress->stop, __ATOMIC_RELAXED);
}

#endif

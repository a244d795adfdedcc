/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fio-parse.h - fio job files and command lines, read into a list of jobs
 *
 *	struct fio_workload workload;
 *	char err[FIO_ERR_MAX];
 *
 *	fio_workload_init(&workload);
 *	if (fio_load(&workload, "job.fio", err, sizeof(err)))
 *		puts(err);				one line, no newline
 *	... workload.jobs, workload.notes ...
 *	fio_workload_destroy(&workload);
 *
 * The calls that read may be repeated: each adds its jobs as one more run of fio, which
 * starts when all jobs of the run before have ended.  After an error the workload may
 * only be destroyed.
 */
#ifndef REPORT_FIO_PARSE_H
#define REPORT_FIO_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FIO_ERR_MAX 512

enum fio_dir { FIO_READ, FIO_WRITE, FIO_NR_DIRS };

/* A number of bytes, or a percentage of the size of the files. */
struct fio_amount {
	uint64_t value; /* 0: not given */
	bool is_percent;
};

/* From min to max, both included; 0, 0: not given. */
struct fio_span {
	uint64_t min;
	uint64_t max;
};

struct fio_bssplit {
	uint64_t bs;
	unsigned int percent;
};

/* One zone of a zoned random distribution. */
struct fio_zone {
	unsigned int access_percent;
	unsigned int size_percent; /* of the file, if size is 0 */
	uint64_t size;
};

enum fio_dist_kind {
	FIO_DIST_UNIFORM,
	FIO_DIST_ZIPF,
	FIO_DIST_PARETO,
	FIO_DIST_NORMAL,
	FIO_DIST_ZONED,
};

struct fio_dist {
	enum fio_dist_kind kind;
	double shape; /* theta, power or deviation in percent */
	const struct fio_zone *zones[FIO_NR_DIRS];
	unsigned int nr_zones[FIO_NR_DIRS];
};

enum fio_service { FIO_SERVICE_ROUNDROBIN, FIO_SERVICE_SEQUENTIAL, FIO_SERVICE_RANDOM };

enum fio_fallocate {
	FIO_FALLOCATE_NONE,
	FIO_FALLOCATE_ALLOCATE, /* native and posix: the file grows */
	FIO_FALLOCATE_KEEP,
	FIO_FALLOCATE_TRUNCATE,
};

enum fio_fadvise { FIO_FADVISE_NONE, FIO_FADVISE_PATTERN, FIO_FADVISE_RANDOM, FIO_FADVISE_SEQ };
enum fio_sync { FIO_SYNC_NONE, FIO_SYNC_SYNC, FIO_SYNC_DSYNC };
enum fio_exit { FIO_EXIT_GROUP, FIO_EXIT_STONEWALL, FIO_EXIT_ALL };

/* The values of all options of one job.  Times are in nanoseconds. */
struct fio_options {
	/* which files */
	const char *name; /* what name= said, only a label */
	const char *directory;
	const char *filename;
	const char *filename_format;
	uint64_t nrfiles;
	uint64_t openfiles;
	enum fio_service service;
	struct fio_dist service_dist;
	uint64_t service_ios; /* I/Os to one file before the next is chosen */

	/* how much */
	struct fio_amount size;
	struct fio_amount io_size;
	struct fio_span filesize;
	struct fio_amount offset;
	struct fio_amount offset_increment;
	uint64_t offset_align;
	uint64_t number_ios;
	uint64_t loops;
	uint64_t numjobs;
	uint64_t kb_base;

	/* pattern */
	bool reads;
	bool writes;
	bool random;
	int64_t seq_hole; /* rw=write:N: bytes between one block and the next */
	uint64_t rand_run; /* rw=randwrite:N: I/Os from one random offset to the next */
	bool rand_identical; /* those I/Os all go to the same offset */
	struct fio_span bs[FIO_NR_DIRS]; /* smallest and largest block */
	uint64_t bs_fixed[3];
	struct fio_span bs_span[3];
	const struct fio_bssplit *bssplit[FIO_NR_DIRS];
	unsigned int nr_bssplit[FIO_NR_DIRS];
	bool bs_unaligned;
	uint64_t ba[3];
	uint64_t rwmixread;
	bool norandommap;
	struct fio_dist dist;
	uint64_t percentage_random[3];
	bool randrepeat;
	bool allrandrepeat;
	uint64_t randseed;

	/* files made before the job starts */
	enum fio_fallocate fallocate;
	bool overwrite;
	bool create_on_open;
	bool create_only;
	bool create_serialize;
	bool create_fsync;
	bool allow_file_create;
	bool file_append;
	bool pre_read;
	bool invalidate;
	bool unlink;
	bool unlink_each_loop;
	bool truncate_on_open; /* what dd does */
	enum fio_fadvise fadvise_hint;

	/* syncing */
	bool direct;
	enum fio_sync sync;
	uint64_t fsync;
	uint64_t fdatasync;
	uint64_t sync_range;
	unsigned int sync_range_flags;
	bool end_fsync;
	bool end_fdatasync; /* what dd does with conv=fdatasync */
	bool fsync_on_close;

	/* time and other jobs */
	uint64_t runtime;
	bool time_based;
	uint64_t ramp_time;
	struct fio_span startdelay;
	bool stonewall;
	bool new_group;
	const char *wait_for;
	bool exitall;
	enum fio_exit exit_what;
	uint64_t thinktime;
	uint64_t thinktime_spin;
	uint64_t thinktime_blocks;
	uint64_t rate[3];
	uint64_t rate_iops[3];

	/* verify */
	bool verify;
	bool do_verify;
	uint64_t verify_backlog;

	uint64_t iodepth;
	const char *ioengine;
};

/* One section: numjobs clones that do the same. */
struct fio_job {
	const char *name; /* of the section; data files are named for it */
	const char *where; /* FILE:LINE of its heading, for messages */
	unsigned int run; /* number of the fio command that it belongs to */
	struct fio_options opt;
	const char **filenames; /* filename= taken apart, NULL if not given */
	const char **directories;
	unsigned int nr_directories; /* 0: the current one */
};

struct fio_text;

struct fio_workload {
	struct fio_job *jobs;
	unsigned int nr_jobs;
	unsigned int nr_runs;
	const char **notes; /* one line each: what was read otherwise than one may expect */
	unsigned int nr_notes;
	/* set by the caller after the init: what $ncpus and $mb_memory are, 0: the host's */
	uint64_t nr_cpus;
	uint64_t mb_memory;
	/* private */
	struct fio_text *texts;
	const char **ignored;
	unsigned int nr_ignored;
	bool no_memory;
};

void fio_workload_init(struct fio_workload *workload);
void fio_workload_destroy(struct fio_workload *workload);

/*
 * All return 0, or a negative errno with one line in err that says where and what is
 * wrong and what would be right.
 */

/* A job file, or a file of commands if its name ends in .cmd. */
int fio_load(struct fio_workload *workload, const char *path, char *err, size_t err_size);
int fio_parse_job_file(struct fio_workload *workload, const char *path, char *err, size_t err_size);
/* The text of a job file; name is for messages. */
int fio_parse_job_text(struct fio_workload *workload, const char *name, const char *text, char *err,
		       size_t err_size);
/* What main() gets: argv[0] is the program's name. */
int fio_parse_argv(struct fio_workload *workload, int argc, char *const *argv, char *err,
		   size_t err_size);
/* A line as typed into a shell: `fio ...` or `dd ...`. */
int fio_parse_line(struct fio_workload *workload, const char *line, char *err, size_t err_size);
int fio_parse_cmd_file(struct fio_workload *workload, const char *path, char *err, size_t err_size);

/* Is line a command that fio_parse_line() reads (`fio ...`, `dd ...`)? */
bool fio_line_is_command(const char *line);

#endif

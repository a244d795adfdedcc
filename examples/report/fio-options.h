/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fio-options.h - the one table of fio's options, and how a setting is stored
 */
#ifndef REPORT_FIO_OPTIONS_H
#define REPORT_FIO_OPTIONS_H

#include "fio-parse.h"

enum fio_option_type {
	FIO_OPT_FLAG, /* may stand alone */
	FIO_OPT_BOOL, /* needs =0 or =1 */
	FIO_OPT_NUMBER,
	FIO_OPT_SIZES, /* read,write,trim */
	FIO_OPT_AMOUNT, /* size or percentage */
	FIO_OPT_SECONDS, /* time, a bare number is seconds */
	FIO_OPT_MICROSECONDS,
	FIO_OPT_STRING,
	FIO_OPT_WORD,
	FIO_OPT_OTHER, /* set() knows */
	FIO_OPT_IGNORED, /* read, has no effect here */
	FIO_OPT_IGNORED_FLAG, /* the same, may stand alone */
	FIO_OPT_REFUSED, /* help says why */
};

struct fio_word {
	const char *word;
	unsigned int value;
};

/* One name=value of a job file or a command line. */
struct fio_setting {
	const char *name;
	const char *value; /* NULL: stands alone */
	const char *where; /* "FILE:LINE: job 'x': size", "command line: --size: job 'x'" */
	uint64_t kb_base;
	struct fio_workload *workload;
	char *err;
	size_t err_size;
};

struct fio_option {
	const char *name;
	const char *aliases; /* with blanks between, NULL: none */
	enum fio_option_type type;
	size_t offset; /* of the value in struct fio_options */
	uint64_t min;
	uint64_t max; /* 0: no limit */
	const struct fio_word *words;
	int (*set)(const struct fio_setting *setting, struct fio_options *options);
	const char *help;
};

/* NULL if fio has no such option. */
const struct fio_option *fio_option_find(const char *name);
/* The options in the order of the table, NULL at its end. */
const struct fio_option *fio_option_at(unsigned int index);
/* The option's name that is spelled most like name, NULL if none is near. */
const char *fio_option_nearest(const char *name);
bool fio_option_needs_value(const struct fio_option *option);

void fio_options_init(struct fio_options *options);
/* Store one setting; an unknown name is an error. */
int fio_option_apply(const struct fio_setting *setting, struct fio_options *options);
/* What fio does with the values of a job when all are known. */
int fio_options_finish(const struct fio_setting *whole, struct fio_options *options);

/* Always -EINVAL: "WHERE: text" in the setting's err. */
int fio_setting_fail(const struct fio_setting *setting, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* ---- memory and notes of a workload -------------------------------------- */

/* Zeroed memory that lives as long as the workload; NULL sets workload->no_memory. */
void *fio_workload_alloc(struct fio_workload *workload, size_t size);
char *fio_workload_keep(struct fio_workload *workload, const char *text);
char *fio_workload_format(struct fio_workload *workload, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* The same note twice is kept once. */
void fio_workload_note(struct fio_workload *workload, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void fio_workload_ignore(struct fio_workload *workload, const char *option);

#endif

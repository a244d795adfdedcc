/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fio-cmd.h - a line of a shell, split into words
 */
#ifndef REPORT_FIO_CMD_H
#define REPORT_FIO_CMD_H

struct fio_workload;

struct fio_words {
	char **word; /* they live as long as the workload */
	int nr;
	const char *complaint; /* set with -EINVAL */
};

/*
 * The first command of *line: words up to its end, `;` or `&&`; *line moves behind it.
 * Quotes, backslashes, comments and ${NAME} are read as a shell does; what follows a `>`
 * stays a word.  Returns 0, -EINVAL or -ENOMEM.
 */
int fio_words_split(struct fio_words *words, struct fio_workload *workload, const char **line);

/* The next line of *text, joined where it ends in a backslash; *number counts lines. */
char *fio_line_join(struct fio_workload *workload, const char **text, unsigned int *number);

#endif

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fio-cmd.c - a line of a shell, split into words
 *
 * A word ends at a blank outside quotes.  Words are built in one buffer as long as the
 * line and its variables, and then copied.
 */
#include "fio-cmd.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fio-options.h"

#define WORD_MAX_LEN 8192
#define WORDS_MAX    1024

struct splitter {
	struct fio_workload *workload;
	struct fio_words *words;
	const char *next;
	char text[WORD_MAX_LEN];
	size_t len;
	bool in_word;
};

static int complain(struct splitter *splitter, const char *what, const char *name)
{
	const char *text = fio_workload_format(splitter->workload, "%s%s", what, name);

	splitter->words->complaint = text;
	return text ? -EINVAL : -ENOMEM;
}

static int add_char(struct splitter *splitter, char c)
{
	if (splitter->len + 1 >= WORD_MAX_LEN)
		return complain(splitter, "a word is too long", "");
	splitter->text[splitter->len++] = c;
	splitter->in_word = true;
	return 0;
}

static int end_word(struct splitter *splitter)
{
	struct fio_words *words = splitter->words;

	if (!splitter->in_word)
		return 0;
	if (words->nr == WORDS_MAX)
		return complain(splitter, "too many words", "");
	splitter->text[splitter->len] = '\0';
	words->word[words->nr] = fio_workload_keep(splitter->workload, splitter->text);
	if (!words->word[words->nr++])
		return -ENOMEM;
	splitter->len = 0;
	splitter->in_word = false;
	return 0;
}

/* fio's own keywords look like variables but are for fio, quoted or not. */
static bool is_keyword(const char *name)
{
	return strcmp(name, "jobname") == 0 || strcmp(name, "jobnum") == 0 ||
	       strcmp(name, "filenum") == 0 || strcmp(name, "clientuid") == 0;
}

/* $NAME or ${NAME} at next. */
static int add_variable(struct splitter *splitter)
{
	const char *start = splitter->next + 1;
	bool braces = *start == '{';
	const char *end;
	const char *value;
	char name[128];
	int err = 0;

	start += braces;
	for (end = start; isalnum((unsigned char)*end) || *end == '_'; end++)
		;
	snprintf(name, sizeof(name), "%.*s", (int)(end - start), start);
	if (end == start || (!braces && is_keyword(name)) || (braces && *end != '}')) {
		splitter->next++;
		return add_char(splitter, '$');
	}
	value = getenv(name);
	if (!value)
		return complain(splitter, "a variable is not set; export ", name);
	while (*value && !err)
		err = add_char(splitter, *value++);
	splitter->next = end + braces;
	return err;
}

static int add_quoted(struct splitter *splitter, char quote)
{
	int err = 0;

	splitter->next++;
	splitter->in_word = true;
	while (*splitter->next != quote && !err) {
		char c = *splitter->next;

		if (c == '\0')
			return complain(splitter, "a quote is not closed", "");
		if (quote == '"' && c == '$') {
			err = add_variable(splitter);
			continue;
		}
		if (quote == '"' && c == '\\' && strchr("\"\\$`", splitter->next[1]))
			c = *++splitter->next;
		err = add_char(splitter, c);
		splitter->next++;
	}
	splitter->next++;
	return err;
}

/* Does the command end here?  Then next moves behind what ends it. */
static bool take_end(struct splitter *splitter)
{
	const char *next = splitter->next;

	if (*next == '\0')
		return true;
	if (*next == '#' && !splitter->in_word) {
		splitter->next += strlen(next);
		return true;
	}
	if (*next == ';' || *next == '\n') {
		splitter->next++;
		return true;
	}
	if (strncmp(next, "&&", 2) == 0) {
		splitter->next += 2;
		return true;
	}
	return false;
}

static int take_char(struct splitter *splitter)
{
	char c = *splitter->next;

	if (isspace((unsigned char)c)) {
		splitter->next++;
		return end_word(splitter);
	}
	if (c == '\'' || c == '"')
		return add_quoted(splitter, c);
	if (c == '$')
		return add_variable(splitter);
	if (c == '\\' && splitter->next[1])
		c = *++splitter->next;
	splitter->next++;
	return add_char(splitter, c);
}

int fio_words_split(struct fio_words *words, struct fio_workload *workload, const char **line)
{
	struct splitter splitter = {.workload = workload, .words = words, .next = *line};
	int err = 0;

	memset(words, 0, sizeof(*words));
	words->word = fio_workload_alloc(workload, (WORDS_MAX + 1) * sizeof(*words->word));
	if (!words->word)
		return -ENOMEM;
	while (!err && !take_end(&splitter))
		err = take_char(&splitter);
	if (!err)
		err = end_word(&splitter);
	*line = splitter.next;
	return err;
}

char *fio_line_join(struct fio_workload *workload, const char **text, unsigned int *number)
{
	const char *from = *text;
	char *line = fio_workload_alloc(workload, strlen(from) + 1);
	char *to = line;

	if (!line)
		return NULL;
	while (*from) {
		if (from[0] == '\\' && (from[1] == '\n' || strncmp(from + 1, "\r\n", 2) == 0)) {
			from += from[1] == '\n' ? 2 : 3;
			++*number;
		} else if (*from == '\n') {
			from++;
			++*number;
			break;
		} else {
			*to++ = *from++;
		}
	}
	*text = from;
	return line;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fio-parse.c - fio job files and command lines, read into a list of jobs
 *
 * Whatever the source, settings are first collected section by section.  When a section
 * ends, its settings are applied over a copy of the global ones (kb_base first, because
 * the others are read with it) and the job is added.  A command line is a sequence of
 * sections too, parted by --name.
 */
#include "fio-parse.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <iomap/env.h>

#include "fio-cmd.h"
#include "fio-options.h"
#include "fio-value.h"

#define INCLUDE_DEPTH_MAX 16
#define LINE_MAX_LEN	  8192

/* ---- memory and notes ---------------------------------------------------- */

struct fio_text {
	struct fio_text *next;
	uint64_t bytes[];
};

void fio_workload_init(struct fio_workload *workload)
{
	memset(workload, 0, sizeof(*workload));
}

void fio_workload_destroy(struct fio_workload *workload)
{
	struct fio_text *next;

	for (struct fio_text *text = workload->texts; text; text = next) {
		next = text->next;
		env_free(text);
	}
	memset(workload, 0, sizeof(*workload));
}

void *fio_workload_alloc(struct fio_workload *workload, size_t size)
{
	struct fio_text *text = env_zalloc(sizeof(*text) + size);

	if (!text) {
		workload->no_memory = true;
		return NULL;
	}
	text->next = workload->texts;
	workload->texts = text;
	return text->bytes;
}

static char *keep_part(struct fio_workload *workload, const char *text, size_t len)
{
	char *copy = fio_workload_alloc(workload, len + 1);

	if (copy)
		memcpy(copy, text, len);
	return copy;
}

char *fio_workload_keep(struct fio_workload *workload, const char *text)
{
	return keep_part(workload, text, strlen(text));
}

static char *vformat(struct fio_workload *workload, const char *format, va_list args)
{
	char line[LINE_MAX_LEN];

	vsnprintf(line, sizeof(line), format, args);
	return fio_workload_keep(workload, line);
}

char *fio_workload_format(struct fio_workload *workload, const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	text = vformat(workload, format, args);
	va_end(args);
	return text;
}

/* A list with room for one more entry: it doubles at each power of two. */
static void *list_room(struct fio_workload *workload, void *list, unsigned int nr, size_t size)
{
	void *larger;

	if (nr & (nr - 1))
		return list;
	larger = fio_workload_alloc(workload, (nr ? 2 * (size_t)nr : 1) * size);
	if (larger && nr)
		memcpy(larger, list, nr * size);
	return larger;
}

static void list_add_text(struct fio_workload *workload, const char ***list, unsigned int *nr,
			  const char *text)
{
	const char **room;

	for (unsigned int i = 0; i < *nr; i++)
		if (strcmp((*list)[i], text) == 0)
			return;
	room = list_room(workload, *list, *nr, sizeof(*room));
	if (!room)
		return;
	room[(*nr)++] = text;
	*list = room;
}

void fio_workload_note(struct fio_workload *workload, const char *format, ...)
{
	va_list args;
	const char *text;

	va_start(args, format);
	text = vformat(workload, format, args);
	va_end(args);
	if (text)
		list_add_text(workload, &workload->notes, &workload->nr_notes, text);
}

void fio_workload_ignore(struct fio_workload *workload, const char *option)
{
	list_add_text(workload, &workload->ignored, &workload->nr_ignored, option);
}

/* ---- sections ------------------------------------------------------------ */

struct collected {
	const char *name;
	const char *value;
	const char *place; /* "FILE:LINE" or "command line" */
};

struct parser {
	struct fio_workload *workload;
	char *err;
	size_t err_size;
	const char *cmd_path; /* the .cmd file that is read, NULL: none */
	const char *line_place; /* "FILE:LINE" of the command, NULL: main()'s arguments */
	struct fio_options globals;
	bool stonewall_next; /* the next job starts another job file */

	/* the section that is open */
	const char *section; /* NULL: none yet */
	const char *section_place;
	bool section_is_global;
	bool section_is_skipped; /* --section names others */
	bool on_command_line;
	struct collected *settings;
	unsigned int nr_settings;

	const char **only; /* names given by --section */
	unsigned int nr_only;
};

static int fail(struct parser *parser, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static int fail(struct parser *parser, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(parser->err, parser->err_size, format, args);
	va_end(args);
	return -EINVAL;
}

static int fail_memory(struct parser *parser)
{
	fail(parser, "out of memory");
	return -ENOMEM;
}

static const char *section_title(struct parser *parser)
{
	if (parser->section_is_global)
		return "[global]";
	return fio_workload_format(parser->workload, "job '%s'", parser->section);
}

/* "FILE:LINE: job 'x': size", or "command line: --size: job 'x'". */
static const char *setting_where(struct parser *parser, const struct collected *collected)
{
	const char *title = section_title(parser);

	if (!title)
		return NULL;
	if (parser->on_command_line)
		return fio_workload_format(parser->workload, "%s: --%s: %s", collected->place,
					   collected->name, title);
	return fio_workload_format(parser->workload, "%s: %s: %s", collected->place, title,
				   collected->name);
}

static int apply(struct parser *parser, const struct collected *collected,
		 struct fio_options *options)
{
	struct fio_setting setting = {
		.name = collected->name,
		.value = collected->value,
		.kb_base = options->kb_base,
		.workload = parser->workload,
		.err = parser->err,
		.err_size = parser->err_size,
	};

	setting.where = setting_where(parser, collected);
	if (!setting.where)
		return fail_memory(parser);
	return fio_option_apply(&setting, options);
}

static bool is_kb_base(const struct collected *collected)
{
	return strcmp(collected->name, "kb_base") == 0;
}

static int apply_all(struct parser *parser, struct fio_options *options)
{
	int err = 0;

	for (unsigned int i = 0; i < parser->nr_settings && !err; i++)
		if (is_kb_base(&parser->settings[i]))
			err = apply(parser, &parser->settings[i], options);
	for (unsigned int i = 0; i < parser->nr_settings && !err; i++)
		if (!is_kb_base(&parser->settings[i]))
			err = apply(parser, &parser->settings[i], options);
	return err;
}

/* Take a:b:c apart; `\:` is a colon. */
static int split_names(struct parser *parser, const char *list, const char ***names,
		       uint64_t *nr_names)
{
	const char **split;
	uint64_t nr = 1;
	char *copy = fio_workload_keep(parser->workload, list);
	char *out = copy;

	for (const char *c = list; *c; c++)
		nr += *c == ':' && (c == list || c[-1] != '\\');
	split = fio_workload_alloc(parser->workload, nr * sizeof(*split));
	if (!split || !copy)
		return fail_memory(parser);

	nr = 0;
	split[nr++] = copy;
	for (const char *c = list; *c; c++) {
		if (*c == '\\' && c[1] == ':') {
			*out++ = *++c;
		} else if (*c == ':') {
			*out++ = '\0';
			split[nr++] = out;
		} else {
			*out++ = *c;
		}
	}
	*out = '\0';
	*names = split;
	*nr_names = nr;
	return 0;
}

static bool is_device(const char *path)
{
	return strncmp(path, "/dev/", 5) == 0 && strncmp(path, "/dev/shm/", 9) != 0;
}

static int job_name_files(struct parser *parser, struct fio_job *job)
{
	struct fio_options *opt = &job->opt;
	uint64_t nr;
	int err;

	if (opt->directory) {
		err = split_names(parser, opt->directory, &job->directories, &nr);
		if (err)
			return err;
		job->nr_directories = (unsigned int)nr;
	}
	if (opt->filename) {
		err = split_names(parser, opt->filename, &job->filenames, &opt->nrfiles);
		if (err)
			return err;
		for (uint64_t i = 0; i < opt->nrfiles; i++)
			if (is_device(job->filenames[i]))
				return fail(parser,
					    "%s: job '%s': filename: %s is a device, which "
					    "is not modelled; use a file",
					    job->where, job->name, job->filenames[i]);
	}
	if (opt->openfiles == 0 || opt->openfiles > opt->nrfiles)
		opt->openfiles = opt->nrfiles;
	return 0;
}

static int job_check_wait(struct parser *parser, const struct fio_job *job)
{
	const struct fio_job *earlier = parser->workload->jobs;

	if (!job->opt.wait_for)
		return 0;
	for (unsigned int i = 0; i < parser->workload->nr_jobs; i++, earlier++)
		if (earlier->run == job->run &&
		    (strcmp(earlier->name, job->opt.wait_for) == 0 ||
		     (earlier->opt.name && strcmp(earlier->opt.name, job->opt.wait_for) == 0)))
			return 0;
	return fail(parser, "%s: job '%s': wait_for: no job '%s' above; name an earlier section",
		    job->where, job->name, job->opt.wait_for);
}

static int add_job(struct parser *parser, struct fio_job *job)
{
	struct fio_workload *workload = parser->workload;
	struct fio_setting whole = {
		.name = "",
		.workload = workload,
		.err = parser->err,
		.err_size = parser->err_size,
	};
	struct fio_job *jobs;
	int err;

	whole.where = fio_workload_format(workload, "%s: job '%s'", job->where, job->name);
	if (!whole.where)
		return fail_memory(parser);
	err = fio_options_finish(&whole, &job->opt);
	if (!err)
		err = job_name_files(parser, job);
	if (!err)
		err = job_check_wait(parser, job);
	if (err)
		return err;

	jobs = list_room(workload, workload->jobs, workload->nr_jobs, sizeof(*jobs));
	if (!jobs)
		return fail_memory(parser);
	jobs[workload->nr_jobs++] = *job;
	workload->jobs = jobs;
	return 0;
}

static int section_end(struct parser *parser)
{
	struct fio_job job = {.name = parser->section, .where = parser->section_place};
	int err = 0;

	if (!parser->section)
		return 0;
	if (parser->section_is_global) {
		err = apply_all(parser, &parser->globals);
	} else if (!parser->section_is_skipped) {
		job.run = parser->workload->nr_runs;
		job.opt = parser->globals;
		err = apply_all(parser, &job.opt);
		if (parser->stonewall_next)
			job.opt.stonewall = true;
		parser->stonewall_next = false;
		if (!err)
			err = add_job(parser, &job);
	}
	parser->section = NULL;
	parser->nr_settings = 0;
	return err;
}

static bool section_is_wanted(const struct parser *parser, const char *name)
{
	for (unsigned int i = 0; i < parser->nr_only; i++)
		if (strcmp(parser->only[i], name) == 0)
			return true;
	return parser->nr_only == 0;
}

static int section_begin(struct parser *parser, const char *name, const char *place)
{
	int err = section_end(parser);

	if (err)
		return err;
	parser->section = name;
	parser->section_place = place;
	parser->section_is_global = strncmp(name, "global", 6) == 0;
	parser->section_is_skipped = !section_is_wanted(parser, name);
	return 0;
}

static int collect(struct parser *parser, const char *name, const char *value, const char *place)
{
	struct collected *room =
		list_room(parser->workload, parser->settings, parser->nr_settings, sizeof(*room));

	if (!room || !name || !place)
		return fail_memory(parser);
	room[parser->nr_settings++] = (struct collected){name, value, place};
	parser->settings = room;
	return 0;
}

/* ---- job files ----------------------------------------------------------- */

struct job_file {
	struct parser *parser;
	const char *path; /* of the job file */
	const char *shown; /* of the file that is read: it or an include */
	const char *place; /* "FILE:LINE" */
	unsigned int depth;
};

/* Replace each ${NAME} by the variable; one that is not set is empty. */
static int expand_variables(struct job_file *file, const char *value, char *out, size_t size)
{
	size_t len = 0;

	while (*value) {
		const char *end = strncmp(value, "${", 2) == 0 ? strchr(value, '}') : NULL;
		const char *piece = value;
		size_t piece_len = 1;
		char name[256];

		if (end) {
			snprintf(name, sizeof(name), "%.*s", (int)(end - value - 2), value + 2);
			piece = getenv(name);
			piece_len = piece ? strlen(piece) : 0;
			if (!piece)
				fio_workload_note(file->parser->workload,
						  "%s: the variable %s is not set", file->place,
						  name);
		}
		if (len + piece_len >= size)
			return fail(file->parser, "%s: the value is too long", file->place);
		memcpy(out + len, piece ? piece : "", piece_len);
		len += piece_len;
		value = end ? end + 1 : value + 1;
	}
	out[len] = '\0';
	return 0;
}

static uint64_t keyword_value(const struct fio_workload *workload, unsigned int which)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	if (which == 0)
		return page;
	if (which == 1)
		return workload->mb_memory ? workload->mb_memory
					   : (uint64_t)sysconf(_SC_PHYS_PAGES) * page >> 20;
	return workload->nr_cpus ? workload->nr_cpus : env_nr_cpus();
}

/* $pagesize, $mb_memory and $ncpus are numbers; a value that has one is calculated. */
static int expand_keywords(struct job_file *file, char *value, size_t size)
{
	static const char *const keywords[] = {"$pagesize", "$mb_memory", "$ncpus"};
	char out[LINE_MAX_LEN];
	uint64_t result;
	bool found = false;

	for (unsigned int i = 0; i < 3; i++) {
		char *at;

		while ((at = strstr(value, keywords[i])) != NULL) {
			snprintf(out, sizeof(out), "%.*s%llu%s", (int)(at - value), value,
				 (unsigned long long)keyword_value(file->parser->workload, i),
				 at + strlen(keywords[i]));
			snprintf(value, size, "%s", out);
			found = true;
		}
	}
	if (!found)
		return 0;
	if (fio_value_expression(value, 1024, &result))
		return fail(file->parser, "%s: '%s' cannot be calculated; use + - * / %% ^ ( )",
			    file->place, value);
	snprintf(value, size, "%llu", (unsigned long long)result);
	return 0;
}

static char *trim(char *text)
{
	char *end = text + strlen(text);

	while (end > text && isspace((unsigned char)end[-1]))
		end--;
	*end = '\0';
	while (isspace((unsigned char)*text))
		text++;
	return text;
}

static int read_setting(struct job_file *file, char *line)
{
	struct parser *parser = file->parser;
	char *equals = strchr(line, '=');
	char value[LINE_MAX_LEN];
	const char *kept = NULL;
	char *name;
	int err;

	if (equals) {
		const char *text = equals + 1;

		*equals = '\0';
		if (isspace((unsigned char)*text)) {
			fio_workload_note(parser->workload,
					  "%s: the blank behind '=' is dropped; "
					  "fio would misread the value",
					  file->place);
			while (isspace((unsigned char)*text))
				text++;
		}
		err = expand_variables(file, text, value, sizeof(value));
		if (!err)
			err = expand_keywords(file, value, sizeof(value));
		if (err)
			return err;
		kept = fio_workload_keep(parser->workload, value);
		if (!kept)
			return fail_memory(parser);
	}
	name = trim(line);
	return collect(parser, fio_workload_keep(parser->workload, name), kept, file->place);
}

static int read_text(struct job_file *file, const char *text);

static char *read_stream(struct fio_workload *workload, FILE *stream)
{
	size_t size = 4096;
	size_t len = 0;
	char *text = fio_workload_alloc(workload, size);

	while (text) {
		size_t nr = fread(text + len, 1, size - len - 1, stream);
		char *larger;

		len += nr;
		if (nr == 0)
			return text;
		if (len < size - 1)
			continue;
		larger = fio_workload_alloc(workload, 2 * size);
		if (larger)
			memcpy(larger, text, len);
		text = larger;
		size *= 2;
	}
	return NULL;
}

/* The whole file, NULL with errno set if it cannot be read. */
static char *read_file(struct fio_workload *workload, const char *path)
{
	FILE *stream = fopen(path, "r");
	char *text;

	if (!stream)
		return NULL;
	text = read_stream(workload, stream);
	if (text && ferror(stream)) {
		errno = EISDIR;
		text = NULL;
	} else if (!text) {
		errno = ENOMEM;
	}
	fclose(stream);
	return text;
}

/* name beside the file at path. */
static const char *beside(struct fio_workload *workload, const char *path, const char *name)
{
	const char *slash = strrchr(path, '/');

	return fio_workload_format(workload, "%.*s%s", slash ? (int)(slash - path + 1) : 0, path,
				   name);
}

static int read_include(struct job_file *file, const char *name)
{
	struct job_file included = *file;
	const char *path = name;
	char *text;

	if (++included.depth > INCLUDE_DEPTH_MAX)
		return fail(file->parser, "%s: include: more than %d files inside one another",
			    file->place, INCLUDE_DEPTH_MAX);
	text = read_file(file->parser->workload, path);
	if (!text && *name != '/') {
		path = beside(file->parser->workload, file->path, name);
		text = path ? read_file(file->parser->workload, path) : NULL;
	}
	if (!text)
		return fail(file->parser, "%s: include: cannot read %s: %s", file->place, name,
			    strerror(errno));
	included.shown = path;
	return read_text(&included, text);
}

static int read_heading(struct job_file *file, char *line)
{
	struct fio_workload *workload = file->parser->workload;
	char *end = strchr(line, ']');
	const char *name;

	if (file->depth)
		return fail(file->parser, "%s: an included file must not hold sections",
			    file->place);
	if (!end)
		return fail(file->parser, "%s: no ] behind [; use [NAME]", file->place);
	if (end == line + 1)
		return fail(file->parser, "%s: a section without a name; use [NAME]", file->place);
	name = keep_part(workload, line + 1, (size_t)(end - line - 1));
	if (!name)
		return fail_memory(file->parser);
	return section_begin(file->parser, name, file->place);
}

static int read_line(struct job_file *file, char *line)
{
	char *comment = strpbrk(line, ";#");
	char *text;

	if (comment)
		*comment = '\0';
	text = trim(line);
	if (*text == '\0')
		return 0;
	if (*text == '[')
		return read_heading(file, text);
	if (!file->parser->section)
		return fail(file->parser,
			    "%s: '%s' stands before the first [section]; start with "
			    "[global] or [NAME]",
			    file->place, text);
	if (strncmp(text, "include", 7) == 0 && isspace((unsigned char)text[7]))
		return read_include(file, trim(text + 7));
	return read_setting(file, text);
}

static int read_text(struct job_file *file, const char *text)
{
	char line[LINE_MAX_LEN];
	unsigned int number = 0;
	int err = 0;

	while (*text && !err) {
		size_t len = strcspn(text, "\n");

		file->place =
			fio_workload_format(file->parser->workload, "%s:%u", file->shown, ++number);
		if (!file->place)
			return fail_memory(file->parser);
		if (len >= sizeof(line))
			return fail(file->parser, "%s: the line is too long", file->place);
		memcpy(line, text, len);
		line[len] = '\0';
		err = read_line(file, line);
		text += len + (text[len] == '\n');
	}
	return err;
}

/* path is for includes, shown for messages. */
static int parse_job_text(struct parser *parser, const char *path, const char *shown,
			  const char *text)
{
	struct fio_options globals = parser->globals;
	unsigned int nr_jobs = parser->workload->nr_jobs;
	struct job_file file = {.parser = parser};
	int err;

	file.path = fio_workload_keep(parser->workload, path);
	file.shown = fio_workload_keep(parser->workload, shown);
	if (!file.path || !file.shown)
		return fail_memory(parser);
	parser->on_command_line = false;
	err = read_text(&file, text);
	if (!err)
		err = section_end(parser);
	parser->globals = globals;
	if (!err && parser->workload->nr_jobs == nr_jobs && parser->nr_only == 0)
		return fail(parser, "%s: no job in it; add a [NAME] section below [global]", shown);
	return err;
}

/* ---- the command line ---------------------------------------------------- */

/* Switches of the program fio itself. */
enum switch_kind { SWITCH_IGNORED, SWITCH_IGNORED_VALUE, SWITCH_SECTION, SWITCH_REFUSED };

static const struct {
	const char *name;
	enum switch_kind kind;
} switches[] = {
	{"section", SWITCH_SECTION},
	{"output", SWITCH_IGNORED_VALUE},
	{"output-format", SWITCH_IGNORED_VALUE},
	{"bandwidth-log", SWITCH_IGNORED},
	{"minimal", SWITCH_IGNORED},
	{"append-terse", SWITCH_IGNORED},
	{"terse-version", SWITCH_IGNORED_VALUE},
	{"eta", SWITCH_IGNORED_VALUE},
	{"eta-newline", SWITCH_IGNORED_VALUE},
	{"eta-interval", SWITCH_IGNORED_VALUE},
	{"status-interval", SWITCH_IGNORED_VALUE},
	{"max-jobs", SWITCH_IGNORED_VALUE},
	{"alloc-size", SWITCH_IGNORED_VALUE},
	{"aux-path", SWITCH_IGNORED_VALUE},
	{"debug", SWITCH_IGNORED_VALUE},
	{"warnings-fatal", SWITCH_IGNORED},
	{"idle-prof", SWITCH_IGNORED_VALUE},
	{"readonly", SWITCH_IGNORED},
	{"parse-only", SWITCH_REFUSED},
	{"showcmd", SWITCH_REFUSED},
	{"cmdhelp", SWITCH_REFUSED},
	{"enghelp", SWITCH_REFUSED},
	{"help", SWITCH_REFUSED},
	{"version", SWITCH_REFUSED},
	{"client", SWITCH_REFUSED},
	{"server", SWITCH_REFUSED},
	{"daemonize", SWITCH_REFUSED},
	{"remote-config", SWITCH_REFUSED},
	{"crctest", SWITCH_REFUSED},
	{"cpuclock-test", SWITCH_REFUSED},
	{"memcpytest", SWITCH_REFUSED},
	{"trigger", SWITCH_REFUSED},
	{"trigger-file", SWITCH_REFUSED},
	{"trigger-timeout", SWITCH_REFUSED},
	{"trigger-remote", SWITCH_REFUSED},
	{"inflate-log", SWITCH_REFUSED},
	{"merge-blktrace-only", SWITCH_REFUSED},
};

#define NR_SWITCHES ((int)(sizeof(switches) / sizeof(switches[0])))

/* What an argument turned out to be: an option, or else a switch. */
struct argument {
	const char *name; /* in full */
	const struct fio_option *option;
	int which; /* index of the switch, -1: none */
};

static int find_switch(const char *name)
{
	for (int i = 0; i < NR_SWITCHES; i++)
		if (strcmp(switches[i].name, name) == 0)
			return i;
	return -1;
}

/* The only option or switch that begins with name. */
static bool find_abbreviation(const char *name, struct argument *argument)
{
	const struct fio_option *option;
	unsigned int nr = 0;
	size_t len = strlen(name);

	for (unsigned int i = 0; (option = fio_option_at(i)) != NULL; i++) {
		if (strncmp(option->name, name, len) != 0)
			continue;
		*argument = (struct argument){option->name, option, -1};
		nr++;
	}
	for (int i = 0; i < NR_SWITCHES; i++) {
		if (strncmp(switches[i].name, name, len) != 0)
			continue;
		*argument = (struct argument){switches[i].name, NULL, i};
		nr++;
	}
	return nr == 1;
}

static bool find_argument(const char *name, struct argument *argument)
{
	*argument = (struct argument){name, fio_option_find(name), find_switch(name)};
	return argument->option || argument->which >= 0 || find_abbreviation(name, argument);
}

static bool argument_needs_value(const struct argument *argument)
{
	if (argument->option)
		return fio_option_needs_value(argument->option);
	return switches[argument->which].kind == SWITCH_IGNORED_VALUE ||
	       switches[argument->which].kind == SWITCH_SECTION;
}

static const char *line_place(const struct parser *parser)
{
	return parser->line_place ? parser->line_place : "command line";
}

static int take_switch(struct parser *parser, const struct argument *argument, const char *value)
{
	switch (switches[argument->which].kind) {
	case SWITCH_SECTION:
		list_add_text(parser->workload, &parser->only, &parser->nr_only, value);
		return 0;
	case SWITCH_REFUSED:
		return fail(parser, "%s: --%s: is not for running jobs; leave it out",
			    line_place(parser), argument->name);
	default:
		fio_workload_ignore(parser->workload, argument->name);
		return 0;
	}
}

static int take_option(struct parser *parser, const char *name, const char *value)
{
	if (strcmp(name, "name") != 0)
		return collect(parser, name, value, line_place(parser));
	if (strncmp(value, "global", 6) != 0 && !section_is_wanted(parser, value))
		fio_workload_note(parser->workload, "%s: job '%s' is left out by --section",
				  line_place(parser), value);
	return section_begin(parser, value, line_place(parser));
}

/* One option; its value may stand in the next argument, then *index moves on. */
static int take_argument(struct parser *parser, int argc, char *const *argv, int *index)
{
	const char *text = argv[*index] + 1 + (argv[*index][1] == '-');
	const char *equals = strchr(text, '=');
	const char *value = NULL;
	struct argument argument;
	const char *name;

	name = keep_part(parser->workload, text, equals ? (size_t)(equals - text) : strlen(text));
	if (!name)
		return fail_memory(parser);
	if (!find_argument(name, &argument)) {
		const char *nearest = fio_option_nearest(name);

		return fail(parser, "%s: --%s: fio has no such option; %s%s%s", line_place(parser),
			    name, nearest ? "did you mean '--" : "use --NAME=VALUE",
			    nearest ? nearest : "", nearest ? "'?" : "");
	}
	if (equals) {
		value = fio_workload_keep(parser->workload, equals + 1);
	} else if (argument_needs_value(&argument)) {
		if (++*index == argc)
			return fail(parser, "%s: --%s: needs a value; use --%s=...",
				    line_place(parser), argument.name, argument.name);
		value = fio_workload_keep(parser->workload, argv[*index]);
	}
	if (!value && (equals || argument_needs_value(&argument)))
		return fail_memory(parser);
	if (argument.option)
		return take_option(parser, argument.name, value);
	return take_switch(parser, &argument, value);
}

static bool ends_with(const char *text, const char *end)
{
	size_t text_len = strlen(text);
	size_t end_len = strlen(end);

	return text_len >= end_len && strcmp(text + text_len - end_len, end) == 0;
}

/* The only file beside path whose name ends in "-NAME", NULL: none or several. */
static const char *find_suffixed(struct fio_workload *workload, const char *path, const char *name)
{
	const char *folder = beside(workload, path, ".");
	const char *suffix = fio_workload_format(workload, "-%s", name);
	DIR *dir = folder ? opendir(folder) : NULL;
	const char *found = NULL;
	unsigned int nr = 0;
	struct dirent *entry;

	if (!dir)
		return NULL;
	while (suffix && (entry = readdir(dir)) != NULL) {
		if (!ends_with(entry->d_name, suffix))
			continue;
		found = beside(workload, path, entry->d_name);
		nr++;
	}
	closedir(dir);
	return nr == 1 ? found : NULL;
}

static const char *find_job_file(struct parser *parser, const char *name)
{
	struct fio_workload *workload = parser->workload;
	const char *path;

	if (!parser->cmd_path || access(name, R_OK) == 0)
		return name;
	path = beside(workload, parser->cmd_path, name);
	if (path && access(path, R_OK) == 0)
		return path;
	path = strchr(name, '/') ? NULL : find_suffixed(workload, parser->cmd_path, name);
	if (!path)
		return name;
	fio_workload_note(workload, "%s: %s is taken for the job file %s", line_place(parser), path,
			  name);
	return path;
}

static int parse_job_file(struct parser *parser, const char *name)
{
	const char *path;
	char *text;

	if (strcmp(name, "-") == 0) {
		text = read_stream(parser->workload, stdin);
		return text ? parse_job_text(parser, "-", "standard input", text)
			    : fail_memory(parser);
	}
	path = find_job_file(parser, name);
	text = read_file(parser->workload, path);
	if (!text)
		return fail(parser, "%s: cannot read the job file %s: %s", line_place(parser), path,
			    strerror(errno));
	return parse_job_text(parser, path, path, text);
}

static void parser_init(struct parser *parser, struct fio_workload *workload, char *err,
			size_t err_size)
{
	memset(parser, 0, sizeof(*parser));
	parser->workload = workload;
	parser->err = err;
	parser->err_size = err_size;
	fio_options_init(&parser->globals);
	if (err_size)
		*err = '\0';
}

/* All jobs of this run of fio are read. */
static int run_end(struct parser *parser)
{
	struct fio_workload *workload = parser->workload;
	char line[LINE_MAX_LEN] = "read and ignored:";
	size_t len = strlen(line);

	if (workload->no_memory)
		return fail_memory(parser);
	workload->nr_runs++;
	if (workload->nr_ignored == 0)
		return 0;
	for (unsigned int i = 0; i < workload->nr_ignored && len < sizeof(line); i++)
		len += (size_t)snprintf(line + len, sizeof(line) - len, " %s",
					workload->ignored[i]);
	for (unsigned int i = 0; i < workload->nr_notes; i++) {
		if (strncmp(workload->notes[i], line, 17) == 0) {
			workload->notes[i] = fio_workload_keep(workload, line);
			return workload->notes[i] ? 0 : fail_memory(parser);
		}
	}
	fio_workload_note(workload, "%s", line);
	return workload->no_memory ? fail_memory(parser) : 0;
}

static int open_command_line(struct parser *parser)
{
	parser->on_command_line = true;
	return section_begin(parser, "global", line_place(parser));
}

static int parse_arguments(struct parser *parser, int argc, char *const *argv)
{
	struct fio_workload *workload = parser->workload;
	unsigned int nr_jobs = workload->nr_jobs;
	const char **files = fio_workload_alloc(workload, (size_t)argc * sizeof(*files));
	unsigned int nr_files = 0;
	int err = open_command_line(parser);

	if (!files)
		return fail_memory(parser);
	for (int i = 1; i < argc && !err; i++) {
		if (argv[i][0] == '-' && argv[i][1] != '\0')
			err = take_argument(parser, argc, argv, &i);
		else
			files[nr_files++] = argv[i];
	}
	if (!err)
		err = section_end(parser);
	for (unsigned int i = 0; i < nr_files && !err; i++) {
		parser->stonewall_next = i > 0;
		err = parse_job_file(parser, files[i]);
	}
	if (err)
		return err;
	if (workload->nr_jobs == nr_jobs)
		return fail(parser, "%s: no job; use --name=NAME or a job file",
			    line_place(parser));
	return run_end(parser);
}

/* ---- dd ------------------------------------------------------------------ */

static int dd_number(struct parser *parser, const char *operand, const char *text, uint64_t *value)
{
	char plain[32];
	size_t len;
	uint64_t base = 1024;

	snprintf(plain, sizeof(plain), "%s", text);
	len = strlen(plain);
	if (len >= 2 && plain[len - 1] == 'B' && isalpha((unsigned char)plain[len - 2])) {
		plain[--len] = '\0'; /* kB is decimal, KiB is not: dd and fio disagree */
		base = plain[len - 1] == 'i' ? 1024 : 1000;
	}
	if (fio_value_size(plain, base, value) != 0)
		return fail(parser, "%s: dd: %s: '%s' is not a number", line_place(parser), operand,
			    text);
	return 0;
}

struct dd {
	const char *output;
	uint64_t bs;
	uint64_t count;
	uint64_t seek;
	bool keep; /* conv=notrunc */
};

static void dd_conversion(struct dd *dd, const char *list, struct fio_options *opt)
{
	if (strstr(list, "notrunc"))
		dd->keep = true;
	if (strstr(list, "fdatasync"))
		opt->end_fdatasync = true;
	else if (strstr(list, "fsync"))
		opt->end_fsync = true;
}

static void dd_flags(const char *list, struct fio_options *opt)
{
	if (strstr(list, "direct"))
		opt->direct = true;
	if (strstr(list, "dsync"))
		opt->sync = FIO_SYNC_DSYNC;
	else if (strstr(list, "sync"))
		opt->sync = FIO_SYNC_SYNC;
}

static int dd_operand(struct parser *parser, const char *operand, struct dd *dd,
		      struct fio_options *opt)
{
	const char *value = strchr(operand, '=');

	if (!value++)
		return fail(parser, "%s: dd: '%s' is not name=value", line_place(parser), operand);
	if (strncmp(operand, "if=", 3) == 0) {
		if (is_device(value))
			return 0;
		return fail(parser, "%s: dd: reading %s is not modelled; use if=/dev/zero",
			    line_place(parser), value);
	}
	if (strncmp(operand, "of=", 3) == 0)
		dd->output = value;
	else if (strncmp(operand, "bs=", 3) == 0)
		return dd_number(parser, "bs", value, &dd->bs);
	else if (strncmp(operand, "count=", 6) == 0)
		return dd_number(parser, "count", value, &dd->count);
	else if (strncmp(operand, "seek=", 5) == 0)
		return dd_number(parser, "seek", value, &dd->seek);
	else if (strncmp(operand, "conv=", 5) == 0)
		dd_conversion(dd, value, opt);
	else if (strncmp(operand, "oflag=", 6) == 0)
		dd_flags(value, opt);
	else if (strncmp(operand, "status=", 7) != 0 && strncmp(operand, "iflag=", 6) != 0)
		return fail(parser,
			    "%s: dd: '%s' is not modelled; use if, of, bs, count, seek, "
			    "conv, oflag",
			    line_place(parser), operand);
	return 0;
}

/* Sequential writes into a file that the open truncates, without any advice. */
static void dd_settle(const struct dd *dd, struct fio_options *opt)
{
	opt->reads = false;
	opt->writes = true;
	opt->create_on_open = true;
	opt->truncate_on_open = !dd->keep;
	opt->invalidate = false;
	opt->fadvise_hint = FIO_FADVISE_NONE;
	opt->size.value = dd->bs * dd->count;
	opt->offset.value = dd->seek * dd->bs;
	for (unsigned int i = 0; i < 3; i++)
		opt->bs_fixed[i] = dd->bs;
}

static int parse_dd(struct parser *parser, int argc, char *const *argv)
{
	struct fio_workload *workload = parser->workload;
	struct fio_job job = {.name = "dd"};
	struct dd dd = {.bs = 512};
	const char **names;
	int err = 0;

	job.where = line_place(parser);
	job.run = workload->nr_runs;
	job.opt = parser->globals;
	for (int i = 1; i < argc && !err; i++)
		err = dd_operand(parser, argv[i], &dd, &job.opt);
	if (err)
		return err;
	if (!dd.output || is_device(dd.output))
		return fail(parser, "%s: dd: use of=FILE, a regular file", line_place(parser));
	if (dd.bs == 0 || dd.count == 0 || dd.count > INT64_MAX / dd.bs)
		return fail(parser, "%s: dd: use bs=N and count=N", line_place(parser));
	dd_settle(&dd, &job.opt);
	err = add_job(parser, &job);
	if (err)
		return err;

	names = fio_workload_alloc(workload, sizeof(*names));
	if (!names)
		return fail_memory(parser);
	*names = dd.output;
	workload->jobs[workload->nr_jobs - 1].filenames = names;
	return run_end(parser);
}

/* ---- lines of a shell ---------------------------------------------------- */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Commands that make and mount a file system or empty its caches. */
static bool is_preparation(char *const *words)
{
	static const char *const names[] = {"mount",	"umount",   "mkdir",  "sync", "echo",
					    "bcachefs", "modprobe", "sysctl", "rm"};
	const char *name = base_name(words[0]);

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return strncmp(name, "mkfs", 4) == 0;
}

static int parse_words(struct parser *parser, int argc, char *const *argv)
{
	if (argc > 1 && strcmp(base_name(argv[0]), "sudo") == 0) {
		argc--;
		argv++;
	}
	if (strcmp(base_name(argv[0]), "fio") == 0)
		return parse_arguments(parser, argc, argv);
	if (strcmp(base_name(argv[0]), "dd") == 0)
		return parse_dd(parser, argc, argv);
	if (!is_preparation(argv))
		return fail(parser, "%s: %s: not a command that is known; use fio or dd",
			    line_place(parser), argv[0]);
	fio_workload_note(parser->workload, "%s: %s: prepared by the program itself, skipped",
			  line_place(parser), argv[0]);
	return 0;
}

/* All commands of one line, each with a fresh parser. */
static int parse_line(struct fio_workload *workload, const char *line, const char *cmd_path,
		      const char *place, char *err_text, size_t err_size)
{
	struct parser parser;
	struct fio_words words;
	int err = 0;

	while (!err && *line) {
		parser_init(&parser, workload, err_text, err_size);
		parser.cmd_path = cmd_path;
		parser.line_place = place;
		err = fio_words_split(&words, workload, &line);
		if (err == -ENOMEM)
			return fail_memory(&parser);
		if (err)
			return fail(&parser, "%s: %s", line_place(&parser), words.complaint);
		if (words.nr)
			err = parse_words(&parser, words.nr, words.word);
	}
	return err;
}

/* ---- what callers see ---------------------------------------------------- */

int fio_parse_job_text(struct fio_workload *workload, const char *name, const char *text, char *err,
		       size_t err_size)
{
	struct parser parser;
	int ret;

	parser_init(&parser, workload, err, err_size);
	ret = parse_job_text(&parser, name, name, text);
	return ret ? ret : run_end(&parser);
}

int fio_parse_job_file(struct fio_workload *workload, const char *path, char *err, size_t err_size)
{
	struct parser parser;
	char *text;

	parser_init(&parser, workload, err, err_size);
	text = read_file(workload, path);
	if (!text) {
		int code = errno;

		fail(&parser, "%s: cannot read the job file: %s", path, strerror(code));
		return -code;
	}
	return fio_parse_job_text(workload, path, text, err, err_size);
}

int fio_parse_argv(struct fio_workload *workload, int argc, char *const *argv, char *err,
		   size_t err_size)
{
	struct parser parser;

	parser_init(&parser, workload, err, err_size);
	return parse_arguments(&parser, argc, argv);
}

static int no_jobs(char *err, size_t err_size, const char *what)
{
	snprintf(err, err_size, "%s: no command that does I/O; use fio or dd", what);
	return -EINVAL;
}

int fio_parse_line(struct fio_workload *workload, const char *line, char *err, size_t err_size)
{
	unsigned int nr_jobs = workload->nr_jobs;
	int ret = parse_line(workload, line, NULL, NULL, err, err_size);

	if (!ret && workload->nr_jobs == nr_jobs)
		return no_jobs(err, err_size, "command line");
	return ret;
}

int fio_parse_cmd_file(struct fio_workload *workload, const char *path, char *err, size_t err_size)
{
	struct parser parser;
	const char *rest;
	char *line;
	unsigned int number = 1;
	int ret = 0;

	parser_init(&parser, workload, err, err_size);
	rest = read_file(workload, path);
	if (!rest) {
		int code = errno;

		fail(&parser, "%s: cannot read it: %s", path, strerror(code));
		return -code;
	}
	while (*rest && !ret) {
		const char *place = fio_workload_format(workload, "%s:%u", path, number);

		line = fio_line_join(workload, &rest, &number);
		if (!line || !place)
			return fail_memory(&parser);
		ret = parse_line(workload, line, path, place, err, err_size);
	}
	return ret;
}

int fio_load(struct fio_workload *workload, const char *path, char *err, size_t err_size)
{
	if (ends_with(path, ".cmd"))
		return fio_parse_cmd_file(workload, path, err, err_size);
	return fio_parse_job_file(workload, path, err, err_size);
}

bool fio_line_is_command(const char *line)
{
	size_t len;

	line += strspn(line, " \t");
	len = strcspn(line, " \t");
	return (len == 3 && strncmp(line, "fio", 3) == 0 && line[len]) ||
	       (len == 2 && strncmp(line, "dd", 2) == 0 && line[len]);
}

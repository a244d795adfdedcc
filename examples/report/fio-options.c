/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fio-options.c - the one table of fio's options, and how a setting is stored
 *
 * Each option of fio is one row, by what becomes of it here: modelled (it has a place in
 * struct fio_options), read and ignored, or refused with a reason.  A name without a row
 * is a typing error, and an error.
 */
#include "fio-options.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fio-value.h"

#define NR_TYPES 3 /* lists are read,write,trim */

/* Bits of sync_file_range(2). */
#define RANGE_WAIT_BEFORE 1
#define RANGE_WRITE	  2
#define RANGE_WAIT_AFTER  4

int fio_setting_fail(const struct fio_setting *setting, const char *format, ...)
{
	va_list args;
	int len = snprintf(setting->err, setting->err_size, "%s: ", setting->where);

	if (len >= 0 && (size_t)len < setting->err_size) {
		va_start(args, format);
		vsnprintf(setting->err + len, setting->err_size - (size_t)len, format, args);
		va_end(args);
	}
	return -EINVAL;
}

/* ---- small readers ------------------------------------------------------- */

/* The next field of *list up to the separator, copied; false at the end of the list. */
static bool next_field(const char **list, char separator, char *field, size_t size)
{
	const char *end;
	size_t len;

	if (!*list)
		return false;
	end = strchr(*list, separator);
	len = end ? (size_t)(end - *list) : strlen(*list);
	if (len >= size)
		len = size - 1;
	memcpy(field, *list, len);
	field[len] = '\0';
	*list = end ? end + 1 : NULL;
	return true;
}

static int size_fail(const struct fio_setting *setting, const char *text)
{
	return fio_setting_fail(setting, "'%s' is not a number; use digits with k, m, g or t",
				text);
}

static int read_size(const struct fio_setting *setting, const char *text, uint64_t *size)
{
	int err = fio_value_size(text, setting->kb_base, size);

	if (err < 0)
		return size_fail(setting, text);
	if (err == FIO_VALUE_CUT)
		fio_workload_note(setting->workload, "%s: '%s' is read as %llu, as fio does",
				  setting->where, text, (unsigned long long)*size);
	return 0;
}

static int read_time(const struct fio_setting *setting, const char *text, uint64_t unit_ns,
		     uint64_t *ns)
{
	if (fio_value_time(text, unit_ns, ns) < 0)
		return fio_setting_fail(
			setting, "'%s' is not a time; use digits with d, h, m, s, ms or us", text);
	return 0;
}

static int read_double(const struct fio_setting *setting, const char *text, double *value)
{
	char *end;

	*value = strtod(text, &end);
	if (end == text || *end != '\0')
		return fio_setting_fail(setting, "'%s' is not a number", text);
	return 0;
}

/* `a-b` or `a:b`, swapped if reversed; one value serves for both ends. */
static int read_span(const struct fio_setting *setting, const char *text, struct fio_span *span)
{
	char low[64];
	const char *dash = strpbrk(text, "-:");
	uint64_t swap;

	if (!dash || *text == '(') {
		int err = read_size(setting, text, &span->min);

		span->max = span->min;
		return err;
	}
	snprintf(low, sizeof(low), "%.*s", (int)(dash - text), text);
	if (read_size(setting, low, &span->min) || read_size(setting, dash + 1, &span->max))
		return -EINVAL;
	if (span->min > span->max) {
		swap = span->min;
		span->min = span->max;
		span->max = swap;
	}
	return 0;
}

/*
 * Walk a read,write,trim list: *which gets the text of each entry, empty where the default
 * stays.  One value alone serves all; a comma behind the last value stops the copying.
 */
static void split_types(const char *value, char which[NR_TYPES][256])
{
	const char *list = value;
	unsigned int nr = 0;

	memset(which, 0, sizeof(char[NR_TYPES][256]));
	while (nr < NR_TYPES && next_field(&list, ',', which[nr], sizeof(which[nr])))
		nr++;
	for (unsigned int i = nr; i > 0 && i < NR_TYPES; i++)
		snprintf(which[i], sizeof(which[i]), "%s", which[i - 1]);
}

static const struct fio_word *find_word(const struct fio_word *words, const char *text)
{
	for (; words->word; words++)
		if (strcmp(words->word, text) == 0)
			return words;
	return NULL;
}

static int word_fail(const struct fio_setting *setting, const struct fio_word *words,
		     const char *text)
{
	char list[256] = "";
	size_t len = 0;

	for (; words->word && len < sizeof(list); words++)
		len += (size_t)snprintf(list + len, sizeof(list) - len, " %s", words->word);
	return fio_setting_fail(setting, "'%s' is not one of its values; use one of%s", text, list);
}

/* ---- options with a syntax of their own ---------------------------------- */

enum { RW_READ = 1, RW_WRITE = 2, RW_RANDOM = 4, RW_TRIM = 8 };

static const struct fio_word rw_words[] = {
	{"read", RW_READ},
	{"write", RW_WRITE},
	{"randread", RW_READ | RW_RANDOM},
	{"randwrite", RW_WRITE | RW_RANDOM},
	{"rw", RW_READ | RW_WRITE},
	{"readwrite", RW_READ | RW_WRITE},
	{"randrw", RW_READ | RW_WRITE | RW_RANDOM},
	{"trim", RW_TRIM},
	{"randtrim", RW_TRIM},
	{"trimwrite", RW_TRIM},
	{"randtrimwrite", RW_TRIM},
	{NULL, 0},
};

static int set_rw(const struct fio_setting *setting, struct fio_options *options)
{
	const char *list = setting->value;
	const struct fio_word *word;
	char name[32];
	int64_t modifier = 0;

	next_field(&list, ':', name, sizeof(name));
	word = find_word(rw_words, name);
	if (!word)
		return word_fail(setting, rw_words, name);
	if (word->value & RW_TRIM)
		return fio_setting_fail(setting,
					"%s is not modelled: trim is for devices; use "
					"read, write, randread, randwrite, rw or randrw",
					name);
	if (list && fio_value_signed(list, setting->kb_base, &modifier) < 0)
		return size_fail(setting, list);
	options->reads = word->value & RW_READ;
	options->writes = word->value & RW_WRITE;
	options->random = word->value & RW_RANDOM;
	options->seq_hole = options->random ? 0 : modifier;
	options->rand_run = options->random && modifier > 1 ? (uint64_t)modifier : 1;
	return 0;
}

static int set_bsrange(const struct fio_setting *setting, struct fio_options *options)
{
	char which[NR_TYPES][256];

	split_types(setting->value, which);
	for (unsigned int i = 0; i < NR_TYPES; i++)
		if (*which[i] && read_span(setting, which[i], &options->bs_span[i]))
			return -EINVAL;
	return 0;
}

#define BSSPLIT_MAX 64

/* The sizes without a percentage share what the others leave. */
static int share_bssplit(const struct fio_setting *setting, struct fio_bssplit *split,
			 unsigned int nr)
{
	unsigned int given = 0;
	unsigned int nr_open = 0;

	for (unsigned int i = 0; i < nr; i++) {
		if (split[i].percent == UINT32_MAX)
			nr_open++;
		else
			given += split[i].percent;
	}
	if (given > 100 || (given < 100 && nr_open == 0))
		return fio_setting_fail(setting, "the percentages add up to %u; use 100", given);
	for (unsigned int i = 0; i < nr; i++)
		if (split[i].percent == UINT32_MAX)
			split[i].percent = (100 - given) / nr_open;
	return 0;
}

static int read_bssplit(const struct fio_setting *setting, const char *list,
			const struct fio_bssplit **splits, unsigned int *nr_splits)
{
	struct fio_bssplit *split =
		fio_workload_alloc(setting->workload, BSSPLIT_MAX * sizeof(*split));
	char entry[64];
	char size[64];
	unsigned int nr = 0;

	if (!split)
		return -ENOMEM;
	while (next_field(&list, ':', entry, sizeof(entry))) {
		const char *rest = entry;
		uint64_t percent = UINT32_MAX;

		if (nr == BSSPLIT_MAX)
			return fio_setting_fail(setting, "more than %d sizes", BSSPLIT_MAX);
		next_field(&rest, '/', size, sizeof(size));
		if (read_size(setting, size, &split[nr].bs))
			return -EINVAL;
		if (rest && *rest && (read_size(setting, rest, &percent) || percent > 100))
			return fio_setting_fail(setting, "'%s': use SIZE/PERCENT", entry);
		if (split[nr].bs == 0)
			return fio_setting_fail(setting, "a block of 0 bytes");
		split[nr++].percent = (unsigned int)percent;
	}
	*splits = split;
	*nr_splits = nr;
	return share_bssplit(setting, split, nr);
}

static int set_bssplit(const struct fio_setting *setting, struct fio_options *options)
{
	const char *list = setting->value;
	char *copy;
	char *comma;
	int err;

	copy = fio_workload_keep(setting->workload, list);
	if (!copy)
		return -ENOMEM;
	comma = strchr(copy, ',');
	if (comma)
		*comma++ = '\0';
	err = read_bssplit(setting, copy, &options->bssplit[FIO_READ],
			   &options->nr_bssplit[FIO_READ]);
	if (err)
		return err;
	if (comma) {
		if (strchr(comma, ','))
			*strchr(comma, ',') = '\0';
		return read_bssplit(setting, comma, &options->bssplit[FIO_WRITE],
				    &options->nr_bssplit[FIO_WRITE]);
	}
	options->bssplit[FIO_WRITE] = options->bssplit[FIO_READ];
	options->nr_bssplit[FIO_WRITE] = options->nr_bssplit[FIO_READ];
	return 0;
}

static int set_filesize(const struct fio_setting *setting, struct fio_options *options)
{
	return read_span(setting, setting->value, &options->filesize);
}

static int set_startdelay(const struct fio_setting *setting, struct fio_options *options)
{
	const char *dash = strpbrk(setting->value, "-:");
	struct fio_span *span = &options->startdelay;
	char low[64];

	snprintf(low, sizeof(low), "%.*s", (int)(dash ? dash - setting->value : 63),
		 setting->value);
	if (read_time(setting, low, 1000000000ULL, &span->min))
		return -EINVAL;
	span->max = span->min;
	if (dash && read_time(setting, dash + 1, 1000000000ULL, &span->max))
		return -EINVAL;
	if (span->max < span->min) {
		uint64_t swap = span->min;

		span->min = span->max;
		span->max = swap;
	}
	return 0;
}

static int set_rwmixwrite(const struct fio_setting *setting, struct fio_options *options)
{
	uint64_t percent;

	if (read_size(setting, setting->value, &percent))
		return -EINVAL;
	if (percent > 100)
		return fio_setting_fail(setting, "%s is too large; use 0 to 100", setting->value);
	options->rwmixread = 100 - percent;
	return 0;
}

static int set_buffered(const struct fio_setting *setting, struct fio_options *options)
{
	if (strcmp(setting->value, "0") != 0 && strcmp(setting->value, "1") != 0)
		return fio_setting_fail(setting, "'%s' is neither 0 nor 1", setting->value);
	options->direct = *setting->value == '0';
	return 0;
}

static int read_zones(const struct fio_setting *setting, const char *list, bool absolute,
		      const struct fio_zone **zones, unsigned int *nr_zones)
{
	struct fio_zone *zone = fio_workload_alloc(setting->workload, BSSPLIT_MAX * sizeof(*zone));
	char entry[64];
	char access[64];
	unsigned int nr = 0;
	uint64_t accesses = 0;
	uint64_t covered = 0;
	unsigned int nr_open = 0;

	if (!zone)
		return -ENOMEM;
	while (next_field(&list, ':', entry, sizeof(entry))) {
		const char *size = entry;
		uint64_t percent = 0;
		uint64_t amount = 0;

		next_field(&size, '/', access, sizeof(access));
		if (nr == BSSPLIT_MAX || read_size(setting, access, &percent) || percent > 100 ||
		    (size && *size && read_size(setting, size, &amount)))
			return fio_setting_fail(setting, "'%s': use ACCESS/SIZE in percent", entry);
		zone[nr].access_percent = (unsigned int)percent;
		if (absolute)
			zone[nr].size = amount;
		else
			zone[nr].size_percent = (unsigned int)amount;
		nr_open += amount == 0;
		accesses += percent;
		covered += amount;
		nr++;
	}
	if (accesses != 100)
		return fio_setting_fail(setting, "the accesses add up to %llu percent; use 100",
					(unsigned long long)accesses);
	if (!absolute && covered > 100)
		return fio_setting_fail(setting, "the sizes add up to more than 100 percent");
	for (unsigned int i = 0; i < nr && !absolute; i++)
		if (zone[i].size_percent == 0)
			zone[i].size_percent = (unsigned int)((100 - covered) / nr_open);
	*zones = zone;
	*nr_zones = nr;
	return 0;
}

static int set_zoned(const struct fio_setting *setting, const char *lists, bool absolute,
		     struct fio_dist *dist)
{
	char *reads = fio_workload_keep(setting->workload, lists ? lists : "");
	char *writes;
	int err;

	if (!reads)
		return -ENOMEM;
	writes = strchr(reads, ',');
	if (writes)
		*writes++ = '\0';
	err = read_zones(setting, reads, absolute, &dist->zones[FIO_READ],
			 &dist->nr_zones[FIO_READ]);
	if (err)
		return err;
	if (writes)
		return read_zones(setting, writes, absolute, &dist->zones[FIO_WRITE],
				  &dist->nr_zones[FIO_WRITE]);
	dist->zones[FIO_WRITE] = dist->zones[FIO_READ];
	dist->nr_zones[FIO_WRITE] = dist->nr_zones[FIO_READ];
	return 0;
}

static const struct fio_word dist_words[] = {
	{"random", FIO_DIST_UNIFORM},  {"zipf", FIO_DIST_ZIPF},
	{"pareto", FIO_DIST_PARETO},   {"normal", FIO_DIST_NORMAL},
	{"gauss", FIO_DIST_NORMAL},    {"zoned", FIO_DIST_ZONED},
	{"zoned_abs", FIO_DIST_ZONED}, {NULL, 0},
};

/* KIND[:SHAPE[:CENTER]]; the centre only moves where the hot blocks are scattered to. */
static int read_dist(const struct fio_setting *setting, const char *text, struct fio_dist *dist)
{
	static const double defaults[] = {0, 1.1, 0.2, 0, 0};
	const char *list = text;
	const struct fio_word *word;
	char name[32];
	char shape[64];

	next_field(&list, ':', name, sizeof(name));
	word = find_word(dist_words, name);
	if (!word)
		return word_fail(setting, dist_words, name);
	memset(dist, 0, sizeof(*dist));
	dist->kind = (enum fio_dist_kind)word->value;
	dist->shape = defaults[dist->kind];
	if (dist->kind == FIO_DIST_ZONED)
		return set_zoned(setting, list, strcmp(name, "zoned_abs") == 0, dist);
	if (dist->kind == FIO_DIST_UNIFORM || !next_field(&list, ':', shape, sizeof(shape)))
		return 0;
	if (read_double(setting, shape, &dist->shape))
		return -EINVAL;
	if (dist->kind == FIO_DIST_ZIPF && (dist->shape <= 0 || dist->shape == 1.0))
		return fio_setting_fail(setting, "theta must be above 0 and not 1.0");
	if (dist->kind == FIO_DIST_PARETO && (dist->shape <= 0 || dist->shape >= 1.0))
		return fio_setting_fail(setting, "the pareto value must lie between 0 and 1");
	if (dist->kind == FIO_DIST_NORMAL && (dist->shape < 0 || dist->shape > 100))
		return fio_setting_fail(setting, "the deviation must lie between 0 and 100");
	return 0;
}

static int set_random_distribution(const struct fio_setting *setting, struct fio_options *options)
{
	return read_dist(setting, setting->value, &options->dist);
}

static int set_file_service(const struct fio_setting *setting, struct fio_options *options)
{
	static const struct fio_word words[] = {
		{"roundrobin", FIO_SERVICE_ROUNDROBIN}, {"sequential", FIO_SERVICE_SEQUENTIAL},
		{"random", FIO_SERVICE_RANDOM},		{"zipf", FIO_SERVICE_RANDOM},
		{"pareto", FIO_SERVICE_RANDOM},		{"normal", FIO_SERVICE_RANDOM},
		{"gauss", FIO_SERVICE_RANDOM},		{NULL, 0},
	};
	const char *list = setting->value;
	const struct fio_word *word;
	char name[32];

	next_field(&list, ':', name, sizeof(name));
	word = find_word(words, name);
	if (!word)
		return word_fail(setting, words, name);
	options->service = (enum fio_service)word->value;
	options->service_ios = 1;
	memset(&options->service_dist, 0, sizeof(options->service_dist));
	if (options->service == FIO_SERVICE_RANDOM && strcmp(name, "random") != 0)
		return read_dist(setting, setting->value, &options->service_dist);
	if (list && read_size(setting, list, &options->service_ios))
		return -EINVAL;
	if (options->service_ios == 0)
		options->service_ios = 1;
	return 0;
}

static int set_sync_file_range(const struct fio_setting *setting, struct fio_options *options)
{
	static const struct fio_word words[] = {
		{"wait_before", RANGE_WAIT_BEFORE},
		{"write", RANGE_WRITE},
		{"wait_after", RANGE_WAIT_AFTER},
		{NULL, 0},
	};
	const char *colon = strrchr(setting->value, ':');
	const char *list;
	char modes[64];
	char mode[32];

	if (!colon || read_size(setting, colon + 1, &options->sync_range))
		return fio_setting_fail(setting, "'%s': use write:N, N writes between two calls",
					setting->value);
	snprintf(modes, sizeof(modes), "%.*s", (int)(colon - setting->value), setting->value);
	options->sync_range_flags = 0;
	for (list = modes; next_field(&list, ',', mode, sizeof(mode));) {
		const struct fio_word *word = find_word(words, mode);

		if (!word)
			return word_fail(setting, words, mode);
		options->sync_range_flags |= word->value;
	}
	return 0;
}

/* Anything but 0 switches verifying on: the contents are the program's own either way. */
static int set_verify(const struct fio_setting *setting, struct fio_options *options)
{
	static const struct fio_word words[] = {
		{"0", 0},	 {"md5", 1},	  {"crc64", 1},	   {"crc32", 1},
		{"crc32c", 1},	 {"crc16", 1},	  {"crc7", 1},	   {"sha1", 1},
		{"sha256", 1},	 {"sha512", 1},	  {"xxhash", 1},   {"sha3-224", 1},
		{"sha3-256", 1}, {"sha3-384", 1}, {"sha3-512", 1}, {"crc32c-intel", 1},
		{"meta", 1},	 {"pattern", 1},  {"null", 1},	   {NULL, 0},
	};
	const struct fio_word *word = find_word(words, setting->value);

	if (!word)
		return word_fail(setting, words, setting->value);
	options->verify = word->value;
	return 0;
}

static int set_ioengine(const struct fio_setting *setting, struct fio_options *options)
{
	enum { ENGINE_FILE, ENGINE_PAGES, ENGINE_MMAP, ENGINE_NO_DATA };
	static const struct fio_word engines[] = {
		{"psync", ENGINE_FILE},
		{"sync", ENGINE_FILE},
		{"vsync", ENGINE_FILE},
		{"pvsync", ENGINE_FILE},
		{"pvsync2", ENGINE_FILE},
		{"libaio", ENGINE_FILE},
		{"io_uring", ENGINE_FILE},
		{"posixaio", ENGINE_FILE},
		{"splice", ENGINE_PAGES},
		{"mmap", ENGINE_MMAP},
		{"null", ENGINE_NO_DATA},
		{"rbd", ENGINE_NO_DATA},
		{"rados", ENGINE_NO_DATA},
		{"net", ENGINE_NO_DATA},
		{"netsplice", ENGINE_NO_DATA},
		{"rdma", ENGINE_NO_DATA},
		{"sg", ENGINE_NO_DATA},
		{"nbd", ENGINE_NO_DATA},
		{"libpmem", ENGINE_NO_DATA},
		{"dev-dax", ENGINE_NO_DATA},
		{"pmemblk", ENGINE_NO_DATA},
		{"libpmemblk", ENGINE_NO_DATA},
		{"cpuio", ENGINE_NO_DATA},
		{"falloc", ENGINE_NO_DATA},
		{"ftruncate", ENGINE_NO_DATA},
		{"filecreate", ENGINE_NO_DATA},
		{"filestat", ENGINE_NO_DATA},
		{"filedelete", ENGINE_NO_DATA},
		{"e4defrag", ENGINE_NO_DATA},
		{"gfapi", ENGINE_NO_DATA},
		{"gfapi_async", ENGINE_NO_DATA},
		{"libhdfs", ENGINE_NO_DATA},
		{"libzbc", ENGINE_NO_DATA},
		{"http", ENGINE_NO_DATA},
		{"nfs", ENGINE_NO_DATA},
		{"exec", ENGINE_NO_DATA},
		{"libiscsi", ENGINE_NO_DATA},
		{"io_uring_cmd", ENGINE_NO_DATA},
		{"xnvme", ENGINE_NO_DATA},
		{"libblkio", ENGINE_NO_DATA},
		{"ime_psync", ENGINE_NO_DATA},
		{"external", ENGINE_NO_DATA},
		{NULL, 0},
	};
	const struct fio_word *engine = find_word(engines, setting->value);
	const char *use = "use psync, sync, vsync, pvsync, pvsync2, libaio, io_uring or posixaio";

	if (!engine)
		return fio_setting_fail(setting, "'%s' is not an I/O engine; %s", setting->value,
					use);
	if (engine->value == ENGINE_MMAP)
		return fio_setting_fail(setting,
					"'%s' is not modelled: it stores through a "
					"mapping; %s",
					setting->value, use);
	if (engine->value == ENGINE_NO_DATA)
		return fio_setting_fail(setting,
					"'%s' is not modelled: it does no I/O to the "
					"data of files; %s",
					setting->value, use);
	if (engine->value == ENGINE_PAGES)
		fio_workload_note(setting->workload,
				  "%s: splice writes whole blocks here, not page by page",
				  setting->where);
	options->ioengine = engine->word;
	return 0;
}

static int set_zonemode(const struct fio_setting *setting, struct fio_options *options)
{
	(void)options;
	if (strcmp(setting->value, "none") == 0)
		return 0;
	return fio_setting_fail(setting, "'%s' is not modelled: zones are for devices; use none",
				setting->value);
}

static int set_atomic(const struct fio_setting *setting, struct fio_options *options)
{
	(void)options;
	if (strcmp(setting->value, "0") == 0)
		return 0;
	return fio_setting_fail(setting, "atomic writes are not modelled; leave it out");
}

static int set_rate_process(const struct fio_setting *setting, struct fio_options *options)
{
	(void)options;
	if (strcmp(setting->value, "linear") == 0)
		return 0;
	return fio_setting_fail(setting, "'%s' is not modelled; use linear", setting->value);
}

static int set_kb_base(const struct fio_setting *setting, struct fio_options *options)
{
	if (strcmp(setting->value, "1000") != 0 && strcmp(setting->value, "1024") != 0)
		return fio_setting_fail(setting, "'%s' is neither 1000 nor 1024", setting->value);
	options->kb_base = setting->value[2] == '0' ? 1000 : 1024;
	return 0;
}

static const struct fio_word fallocate_words[] = {
	{"none", FIO_FALLOCATE_NONE},	      {"0", FIO_FALLOCATE_NONE},
	{"native", FIO_FALLOCATE_ALLOCATE},   {"posix", FIO_FALLOCATE_ALLOCATE},
	{"1", FIO_FALLOCATE_ALLOCATE},	      {"keep", FIO_FALLOCATE_KEEP},
	{"truncate", FIO_FALLOCATE_TRUNCATE}, {NULL, 0},
};

static const struct fio_word fadvise_words[] = {
	{"0", FIO_FADVISE_NONE},
	{"1", FIO_FADVISE_PATTERN},
	{"random", FIO_FADVISE_RANDOM},
	{"sequential", FIO_FADVISE_SEQ},
	{NULL, 0},
};

static const struct fio_word sync_words[] = {
	{"none", FIO_SYNC_NONE}, {"0", FIO_SYNC_NONE},	    {"sync", FIO_SYNC_SYNC},
	{"1", FIO_SYNC_SYNC},	 {"dsync", FIO_SYNC_DSYNC}, {NULL, 0},
};

static const struct fio_word exit_words[] = {
	{"group", FIO_EXIT_GROUP},
	{"stonewall", FIO_EXIT_STONEWALL},
	{"all", FIO_EXIT_ALL},
	{NULL, 0},
};

static const struct fio_word sequencer_words[] = {
	{"sequential", false},
	{"identical", true},
	{NULL, 0},
};

/* ---- the table ----------------------------------------------------------- */

/* clang-format off */

#define AT(field)     .offset = offsetof(struct fio_options, field)
#define FLAG(field)   .type = FIO_OPT_FLAG, AT(field)
#define BOOL(field)   .type = FIO_OPT_BOOL, AT(field)
#define NUMBER(field) .type = FIO_OPT_NUMBER, AT(field)
#define SIZES(field)  .type = FIO_OPT_SIZES, AT(field)
#define AMOUNT(field) .type = FIO_OPT_AMOUNT, AT(field)
#define SECONDS(field) .type = FIO_OPT_SECONDS, AT(field)
#define USECS(field)  .type = FIO_OPT_MICROSECONDS, AT(field)
#define STRING(field) .type = FIO_OPT_STRING, AT(field)
#define WORD(field, list) .type = FIO_OPT_WORD, AT(field), .words = list
#define OTHER(fn)     .type = FIO_OPT_OTHER, .set = fn
#define IGNORED       .type = FIO_OPT_IGNORED
#define IGNORED_FLAG  .type = FIO_OPT_IGNORED_FLAG
#define REFUSED(why)  .type = FIO_OPT_REFUSED, .help = why

static const struct fio_option table[] = {
	/* which files */
	{ "name", NULL, STRING(name), .help = "label of the job" },
	{ "directory", NULL, STRING(directory), .help = "folders of the files, a:b" },
	{ "filename", NULL, STRING(filename), .help = "the files, a:b:c" },
	{ "filename_format", NULL, STRING(filename_format),
	  .help = "how files are named, $jobname.$jobnum.$filenum" },
	{ "nrfiles", "nr_files", NUMBER(nrfiles), .min = 1, .help = "files of each clone" },
	{ "openfiles", NULL, NUMBER(openfiles), .help = "files that are open at a time" },
	{ "file_service_type", NULL, OTHER(set_file_service), .help = "which file comes next" },

	/* how much */
	{ "size", NULL, AMOUNT(size), .help = "bytes of all files of a clone" },
	{ "io_size", "io_limit", AMOUNT(io_size), .help = "bytes to read and write" },
	{ "filesize", NULL, OTHER(set_filesize), .help = "size of each file, or a range" },
	{ "offset", "fileoffset", AMOUNT(offset), .help = "where in a file the job starts" },
	{ "offset_increment", NULL, AMOUNT(offset_increment), .help = "more offset per clone" },
	{ "offset_align", NULL, NUMBER(offset_align), .help = "round the offset up to this" },
	{ "number_ios", NULL, NUMBER(number_ios), .help = "stop after so many I/Os" },
	{ "loops", NULL, NUMBER(loops), .help = "passes over the files" },
	{ "numjobs", NULL, NUMBER(numjobs), .min = 1, .help = "clones of the job" },
	{ "kb_base", NULL, OTHER(set_kb_base), .help = "1024 or 1000" },

	/* pattern */
	{ "rw", "readwrite", OTHER(set_rw), .help = "read, write, randwrite, randrw, ..." },
	{ "bs", "blocksize", SIZES(bs_fixed), .min = 1, .help = "block size" },
	{ "bsrange", "blocksize_range", OTHER(set_bsrange), .help = "range of block sizes" },
	{ "bssplit", NULL, OTHER(set_bssplit), .help = "block sizes with percentages" },
	{ "bs_unaligned", "blocksize_unaligned", FLAG(bs_unaligned),
	  .help = "any size of the range" },
	{ "ba", "blockalign", SIZES(ba), .help = "random offsets are multiples of this" },
	{ "rwmixread", NULL, NUMBER(rwmixread), .max = 100, .help = "percent of reads" },
	{ "rwmixwrite", NULL, OTHER(set_rwmixwrite), .help = "percent of writes" },
	{ "norandommap", NULL, FLAG(norandommap), .help = "random blocks may repeat" },
	{ "random_distribution", NULL, OTHER(set_random_distribution),
	  .help = "random, zipf:t, pareto:h, normal:d, zoned:a/s" },
	{ "percentage_random", NULL, SIZES(percentage_random), .max = 100,
	  .help = "the rest is sequential" },
	{ "rw_sequencer", NULL, WORD(rand_identical, sequencer_words),
	  .help = "what follows a random offset with rw=randX:N" },
	{ "randrepeat", NULL, BOOL(randrepeat), .help = "each pass has the same order" },
	{ "allrandrepeat", NULL, BOOL(allrandrepeat), .help = "also the same sizes and mix" },
	{ "randseed", NULL, NUMBER(randseed), .help = "of the random numbers" },

	/* files */
	{ "fallocate", NULL, WORD(fallocate, fallocate_words), .help = "preallocation" },
	{ "overwrite", NULL, BOOL(overwrite), .help = "write the files before the job" },
	{ "create_on_open", NULL, BOOL(create_on_open), .help = "make no files before the job" },
	{ "create_only", NULL, BOOL(create_only), .help = "stop when the files are made" },
	{ "create_serialize", NULL, BOOL(create_serialize), .help = "make files one by one" },
	{ "create_fsync", NULL, BOOL(create_fsync), .help = "sync files that are made" },
	{ "allow_file_create", NULL, BOOL(allow_file_create), .help = "make missing files" },
	{ "file_append", NULL, BOOL(file_append), .help = "start at the end of the files" },
	{ "pre_read", NULL, BOOL(pre_read), .help = "read the files before the job" },
	{ "invalidate", NULL, BOOL(invalidate), .help = "drop the cache at each open" },
	{ "unlink", NULL, BOOL(unlink), .help = "remove the files at the end" },
	{ "unlink_each_loop", NULL, BOOL(unlink_each_loop), .help = "and after each pass" },
	{ "fadvise_hint", NULL, WORD(fadvise_hint, fadvise_words), .help = "tell the pattern" },

	/* syncing */
	{ "direct", NULL, BOOL(direct), .help = "go round the cache" },
	{ "buffered", NULL, OTHER(set_buffered), .help = "the opposite of direct" },
	{ "sync", NULL, WORD(sync, sync_words), .help = "open with O_SYNC or O_DSYNC" },
	{ "fsync", NULL, NUMBER(fsync), .help = "writes between two fsyncs" },
	{ "fdatasync", NULL, NUMBER(fdatasync), .help = "writes between two fdatasyncs" },
	{ "sync_file_range", NULL, OTHER(set_sync_file_range), .help = "write:N" },
	{ "end_fsync", NULL, BOOL(end_fsync), .help = "fsync all files after a pass" },
	{ "fsync_on_close", NULL, BOOL(fsync_on_close), .help = "fsync at each close" },

	/* time and other jobs */
	{ "runtime", "timeout", SECONDS(runtime), .help = "stop after this time" },
	{ "time_based", NULL, FLAG(time_based), .help = "repeat until runtime is over" },
	{ "ramp_time", NULL, SECONDS(ramp_time), .help = "run before counting" },
	{ "startdelay", NULL, OTHER(set_startdelay), .help = "wait before the job" },
	{ "stonewall", "wait_for_previous", FLAG(stonewall), .help = "wait for the jobs above" },
	{ "new_group", NULL, FLAG(new_group), .help = "start a group (see exitall)" },
	{ "wait_for", NULL, STRING(wait_for), .help = "wait for an earlier job" },
	{ "exitall", NULL, FLAG(exitall), .help = "the first to end ends its group" },
	{ "exit_what", NULL, WORD(exit_what, exit_words), .help = "what exitall ends" },
	{ "thinktime", NULL, USECS(thinktime), .help = "pause between I/Os" },
	{ "thinktime_spin", NULL, USECS(thinktime_spin), .help = "this much of it busy" },
	{ "thinktime_blocks", NULL, NUMBER(thinktime_blocks), .min = 1,
	  .help = "I/Os between two pauses" },
	{ "rate", NULL, SIZES(rate), .help = "bytes per second" },
	{ "rate_iops", NULL, SIZES(rate_iops), .help = "I/Os per second" },
	{ "rate_process", NULL, OTHER(set_rate_process), .help = "linear" },

	/* verify */
	{ "verify", NULL, OTHER(set_verify), .help = "read back and compare" },
	{ "do_verify", NULL, BOOL(do_verify), .help = "after a pass" },
	{ "verify_backlog", NULL, NUMBER(verify_backlog), .help = "after so many writes" },

	{ "ioengine", NULL, OTHER(set_ioengine), .help = "psync, libaio, io_uring, ..." },
	{ "iodepth", NULL, NUMBER(iodepth), .help = "I/Os in flight (one here)" },
	{ "atomic", NULL, OTHER(set_atomic), .help = "only 0" },
	{ "zonemode", NULL, OTHER(set_zonemode), .help = "only none" },

	/* read and ignored: reports, logs, CPUs, buffers, what the program does itself */
	{ "description", NULL, IGNORED },
	{ "dir", NULL, IGNORED },
	{ "threads", NULL, IGNORED },
	{ "thread", NULL, IGNORED_FLAG },
	{ "group_reporting", NULL, IGNORED_FLAG },
	{ "stats", NULL, IGNORED },
	{ "unified_rw_reporting", NULL, IGNORED },
	{ "unit_base", NULL, IGNORED },
	{ "disk_util", NULL, IGNORED },
	{ "significant_figures", NULL, IGNORED },
	{ "gtod_reduce", NULL, IGNORED },
	{ "gtod_cpu", NULL, IGNORED },
	{ "clocksource", NULL, IGNORED },
	{ "disable_lat", NULL, IGNORED },
	{ "disable_clat", NULL, IGNORED },
	{ "disable_slat", NULL, IGNORED },
	{ "disable_bw_measurement", "disable_bw", IGNORED },
	{ "clat_percentiles", NULL, IGNORED },
	{ "lat_percentiles", NULL, IGNORED },
	{ "slat_percentiles", NULL, IGNORED },
	{ "percentile_list", NULL, IGNORED },
	{ "block_error_percentiles", NULL, IGNORED },
	{ "per_job_logs", NULL, IGNORED },
	{ "write_bw_log", NULL, IGNORED_FLAG },
	{ "write_lat_log", NULL, IGNORED_FLAG },
	{ "write_iops_log", NULL, IGNORED_FLAG },
	{ "write_hist_log", NULL, IGNORED_FLAG },
	{ "write_iolog", NULL, IGNORED },
	{ "bwavgtime", NULL, IGNORED },
	{ "iopsavgtime", NULL, IGNORED },
	{ "log_entries", NULL, IGNORED },
	{ "log_avg_msec", NULL, IGNORED },
	{ "log_hist_msec", NULL, IGNORED },
	{ "log_hist_coarseness", NULL, IGNORED },
	{ "log_max_value", NULL, IGNORED },
	{ "log_offset", NULL, IGNORED },
	{ "log_prio", NULL, IGNORED },
	{ "log_compression", NULL, IGNORED },
	{ "log_compression_cpus", NULL, IGNORED },
	{ "log_store_compressed", NULL, IGNORED },
	{ "log_unix_epoch", NULL, IGNORED },
	{ "log_alternate_epoch", NULL, IGNORED },
	{ "log_alternate_epoch_clock_id", NULL, IGNORED },
	{ "mem", "iomem", IGNORED },
	{ "iomem_align", "mem_align", IGNORED },
	{ "hugepage-size", NULL, IGNORED },
	{ "zero_buffers", NULL, IGNORED_FLAG },
	{ "refill_buffers", NULL, IGNORED_FLAG },
	{ "scramble_buffers", NULL, IGNORED },
	{ "buffer_pattern", NULL, IGNORED },
	{ "buffer_compress_percentage", NULL, IGNORED },
	{ "buffer_compress_chunk", NULL, IGNORED },
	{ "dedupe_percentage", NULL, IGNORED },
	{ "dedupe_mode", NULL, IGNORED },
	{ "dedupe_working_set_percentage", NULL, IGNORED },
	{ "dedupe_global", NULL, IGNORED },
	{ "cpus_allowed", NULL, IGNORED },
	{ "cpus_allowed_policy", NULL, IGNORED },
	{ "cpumask", NULL, IGNORED },
	{ "nice", NULL, IGNORED },
	{ "prio", NULL, IGNORED },
	{ "prioclass", NULL, IGNORED },
	{ "cmdprio_percentage", NULL, IGNORED },
	{ "cmdprio", NULL, IGNORED },
	{ "cmdprio_class", NULL, IGNORED },
	{ "cmdprio_bssplit", NULL, IGNORED },
	{ "numa_cpu_nodes", NULL, IGNORED },
	{ "numa_mem_policy", NULL, IGNORED },
	{ "ioscheduler", NULL, IGNORED },
	{ "hipri", NULL, IGNORED_FLAG },
	{ "hipri_percentage", NULL, IGNORED },
	{ "fixedbufs", NULL, IGNORED_FLAG },
	{ "registerfiles", NULL, IGNORED_FLAG },
	{ "sqthread_poll", NULL, IGNORED_FLAG },
	{ "sqthread_poll_cpu", NULL, IGNORED },
	{ "nonvectored", NULL, IGNORED },
	{ "force_async", NULL, IGNORED },
	{ "uncached", NULL, IGNORED },
	{ "nowait", NULL, IGNORED },
	{ "userspace_reap", NULL, IGNORED_FLAG },
	{ "iodepth_batch", "iodepth_batch_submit", IGNORED },
	{ "iodepth_batch_complete_min", "iodepth_batch_complete", IGNORED },
	{ "iodepth_batch_complete_max", NULL, IGNORED },
	{ "iodepth_low", NULL, IGNORED },
	{ "io_submit_mode", NULL, IGNORED },
	{ "serialize_overlap", NULL, IGNORED },
	{ "random_generator", NULL, IGNORED },
	{ "verify_async", NULL, IGNORED },
	{ "verify_async_cpus", NULL, IGNORED },
	{ "verify_backlog_batch", NULL, IGNORED },
	{ "verify_dump", NULL, IGNORED },
	{ "verify_fatal", NULL, IGNORED },
	{ "verify_interval", NULL, IGNORED },
	{ "verify_offset", NULL, IGNORED },
	{ "verify_pattern", NULL, IGNORED },
	{ "verify_state_save", NULL, IGNORED },
	{ "experimental_verify", NULL, IGNORED },
	{ "exec_prerun", NULL, IGNORED },
	{ "exec_postrun", NULL, IGNORED },
	{ "continue_on_error", NULL, IGNORED },
	{ "ignore_error", NULL, IGNORED },
	{ "error_dump", NULL, IGNORED },
	{ "exitall_on_error", NULL, IGNORED_FLAG },
	{ "rate_min", "ratemin", IGNORED },
	{ "rate_iops_min", NULL, IGNORED },
	{ "rate_cycle", "ratecycle", IGNORED },
	{ "thinktime_blocks_type", NULL, IGNORED },
	{ "allow_mounted_write", NULL, IGNORED },
	{ "unique_filename", NULL, IGNORED },

	/* refused: they would change the result */
	{ "opendir", NULL, REFUSED("files are not taken from a folder; use filename=") },
	{ "lockfile", NULL, REFUSED("leave it out") },
	{ "fill_device", "fill_fs", REFUSED("give the amount with size=") },
	{ "write_barrier", NULL, REFUSED("use fsync=") },
	{ "write_hint", NULL, REFUSED("leave it out") },
	{ "verify_only", NULL, REFUSED("use rw=read with verify=") },
	{ "verify_state_load", NULL, REFUSED("leave it out") },
	{ "rate_ignore_thinktime", NULL, REFUSED("leave it out") },
	{ "thinktime_iotime", NULL, REFUSED("use thinktime_blocks=") },
	{ "lockmem", NULL, REFUSED("give the size of the memory to the program") },
	{ "trim_percentage", NULL, REFUSED("trim is for devices") },
	{ "trim_verify_zero", NULL, REFUSED("trim is for devices") },
	{ "trim_backlog", NULL, REFUSED("trim is for devices") },
	{ "trim_backlog_batch", NULL, REFUSED("trim is for devices") },
	{ "read_iolog", NULL, REFUSED("give the log itself as the workload") },
	{ "read_iolog_chunked", NULL, REFUSED("give the log itself as the workload") },
	{ "replay_no_stall", NULL, REFUSED("give the log itself as the workload") },
	{ "replay_redirect", NULL, REFUSED("give the log itself as the workload") },
	{ "replay_scale", NULL, REFUSED("give the log itself as the workload") },
	{ "replay_align", NULL, REFUSED("give the log itself as the workload") },
	{ "replay_time_scale", NULL, REFUSED("give the log itself as the workload") },
	{ "replay_skip", NULL, REFUSED("give the log itself as the workload") },
	{ "merge_blktrace_file", NULL, REFUSED("block traces are not run by fio jobs") },
	{ "merge_blktrace_scalars", NULL, REFUSED("block traces are not run by fio jobs") },
	{ "merge_blktrace_iters", NULL, REFUSED("block traces are not run by fio jobs") },
	{ "zonesize", NULL, REFUSED("zones are for devices") },
	{ "zonecapacity", NULL, REFUSED("zones are for devices") },
	{ "zonerange", NULL, REFUSED("zones are for devices") },
	{ "zoneskip", NULL, REFUSED("zones are for devices") },
	{ "read_beyond_wp", NULL, REFUSED("zones are for devices") },
	{ "max_open_zones", NULL, REFUSED("zones are for devices") },
	{ "job_max_open_zones", NULL, REFUSED("zones are for devices") },
	{ "ignore_zone_limits", NULL, REFUSED("zones are for devices") },
	{ "zone_reset_threshold", NULL, REFUSED("zones are for devices") },
	{ "zone_reset_frequency", NULL, REFUSED("zones are for devices") },
	{ "max_latency", NULL, REFUSED("leave it out") },
	{ "latency_target", NULL, REFUSED("give a fixed load") },
	{ "latency_window", NULL, REFUSED("give a fixed load") },
	{ "latency_percentile", NULL, REFUSED("give a fixed load") },
	{ "latency_run", NULL, REFUSED("give a fixed load") },
	{ "profile", NULL, REFUSED("write the jobs out") },
	{ "cgroup", NULL, REFUSED("leave it out") },
	{ "cgroup_nodelete", NULL, REFUSED("leave it out") },
	{ "cgroup_weight", NULL, REFUSED("leave it out") },
	{ "uid", NULL, REFUSED("leave it out") },
	{ "gid", NULL, REFUSED("leave it out") },
	{ "flow_id", NULL, REFUSED("use rate=") },
	{ "flow", NULL, REFUSED("use rate=") },
	{ "flow_sleep", NULL, REFUSED("use rate=") },
	{ "steadystate", "ss", REFUSED("use runtime=") },
	{ "steadystate_duration", "ss_dur", REFUSED("use runtime=") },
	{ "steadystate_ramp_time", "ss_ramp", REFUSED("use ramp_time=") },
};

/* clang-format on */

#define NR_OPTIONS (sizeof(table) / sizeof(table[0]))

const struct fio_option *fio_option_at(unsigned int index)
{
	return index < NR_OPTIONS ? &table[index] : NULL;
}

static bool has_alias(const struct fio_option *option, const char *name)
{
	const char *list = option->aliases;
	char alias[64];

	while (next_field(&list, ' ', alias, sizeof(alias)))
		if (strcmp(alias, name) == 0)
			return true;
	return false;
}

const struct fio_option *fio_option_find(const char *name)
{
	for (unsigned int i = 0; i < NR_OPTIONS; i++)
		if (strcmp(table[i].name, name) == 0 || has_alias(&table[i], name))
			return &table[i];
	return NULL;
}

#define NAME_MAX_LEN 40

/* Letters to change, add, drop or swap with their neighbour to turn a into b. */
static unsigned int edit_distance(const char *a, const char *b)
{
	unsigned int rows[3][NAME_MAX_LEN + 1] = {0};
	size_t a_len = strlen(a);
	size_t b_len = strlen(b);

	if (a_len > NAME_MAX_LEN || b_len > NAME_MAX_LEN)
		return UINT32_MAX;
	for (unsigned int j = 0; j <= b_len; j++)
		rows[0][j] = j;
	for (unsigned int i = 1; i <= a_len; i++) {
		unsigned int *row = rows[i % 3];
		const unsigned int *last = rows[(i - 1) % 3];

		row[0] = i;
		for (unsigned int j = 1; j <= b_len; j++) {
			unsigned int best = last[j - 1] + (a[i - 1] != b[j - 1]);

			if (last[j] + 1 < best)
				best = last[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    rows[(i - 2) % 3][j - 2] + 1 < best)
				best = rows[(i - 2) % 3][j - 2] + 1;
			row[j] = best;
		}
	}
	return rows[a_len % 3][b_len];
}

const char *fio_option_nearest(const char *name)
{
	const char *nearest = NULL;
	unsigned int best = (unsigned int)strlen(name) / 3 + 2;
	char lower[NAME_MAX_LEN + 1] = "";

	for (unsigned int i = 0; i < NAME_MAX_LEN && name[i]; i++)
		lower[i] = (char)tolower((unsigned char)name[i]);
	for (unsigned int i = 0; i < NR_OPTIONS; i++) {
		const char *list = table[i].aliases;
		const char *spelling = table[i].name;
		char alias[64];

		do {
			unsigned int distance = edit_distance(lower, spelling);

			if (distance < best && distance < strlen(spelling)) {
				best = distance;
				nearest = table[i].name;
			}
			spelling = alias;
		} while (next_field(&list, ' ', alias, sizeof(alias)));
	}
	return nearest;
}

bool fio_option_needs_value(const struct fio_option *option)
{
	return option->type != FIO_OPT_FLAG && option->type != FIO_OPT_IGNORED_FLAG &&
	       option->type != FIO_OPT_REFUSED;
}

/* ---- storing a value ----------------------------------------------------- */

static int set_bool(const struct fio_setting *setting, const char *value, bool *field)
{
	if (strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
		return fio_setting_fail(setting, "'%s' is neither 0 nor 1", value);
	*field = *value == '1';
	return 0;
}

static int check_limits(const struct fio_setting *setting, const struct fio_option *option,
			uint64_t value)
{
	if (value < option->min)
		return fio_setting_fail(setting, "%llu is too small; use at least %llu",
					(unsigned long long)value, (unsigned long long)option->min);
	if (option->max && value > option->max)
		return fio_setting_fail(setting, "%llu is too large; use at most %llu",
					(unsigned long long)value, (unsigned long long)option->max);
	return 0;
}

static int set_number(const struct fio_setting *setting, const struct fio_option *option,
		      const char *text, uint64_t *field)
{
	int err = read_size(setting, text, field);

	return err ? err : check_limits(setting, option, *field);
}

static int set_sizes(const struct fio_setting *setting, const struct fio_option *option,
		     uint64_t *fields)
{
	char which[NR_TYPES][256];

	split_types(setting->value, which);
	for (unsigned int i = 0; i < NR_TYPES; i++)
		if (*which[i] && set_number(setting, option, which[i], &fields[i]))
			return -EINVAL;
	return 0;
}

static int set_amount(const struct fio_setting *setting, struct fio_amount *amount)
{
	size_t len = strlen(setting->value);
	char digits[32];

	if (len == 0 || setting->value[len - 1] != '%') {
		amount->is_percent = false;
		return read_size(setting, setting->value, &amount->value);
	}
	snprintf(digits, sizeof(digits), "%.*s", (int)(len - 1), setting->value);
	if (read_size(setting, digits, &amount->value))
		return -EINVAL;
	if (amount->value > 100)
		return fio_setting_fail(setting, "%s is more than all; use 1%% to 100%%",
					setting->value);
	amount->is_percent = true;
	return 0;
}

static int set_word(const struct fio_setting *setting, const struct fio_option *option, void *field)
{
	const struct fio_word *word = find_word(option->words, setting->value);

	if (!word)
		return word_fail(setting, option->words, setting->value);
	if (option->words == sequencer_words)
		*(bool *)field = word->value;
	else
		*(unsigned int *)field = word->value;
	return 0;
}

static int unknown_fail(const struct fio_setting *setting)
{
	const char *nearest = fio_option_nearest(setting->name);

	if (strspn(setting->name, ".") == strlen(setting->name))
		return fio_setting_fail(setting, "stands for lines that were left out; "
						 "write all jobs out");
	if (nearest)
		return fio_setting_fail(setting, "fio has no such option; did you mean '%s'?",
					nearest);
	return fio_setting_fail(setting, "fio has no such option; a setting is name=value");
}

static int refuse(const struct fio_setting *setting, const struct fio_option *option)
{
	return fio_setting_fail(setting, "is not modelled; %s", option->help);
}

int fio_option_apply(const struct fio_setting *setting, struct fio_options *options)
{
	const struct fio_option *option = fio_option_find(setting->name);
	void *field;
	const char *value = setting->value;

	if (!option)
		return unknown_fail(setting);
	if (option->type == FIO_OPT_REFUSED)
		return refuse(setting, option);
	if (fio_option_needs_value(option) && !value)
		return fio_setting_fail(setting, "needs a value; use %s=...", setting->name);
	if (value && *value == '\0')
		return fio_setting_fail(setting,
					"the value is empty; use %s=..., and check "
					"that the variables in it are set",
					setting->name);

	field = (char *)options + option->offset;
	switch (option->type) {
	case FIO_OPT_FLAG:
		return set_bool(setting, value ? value : "1", field);
	case FIO_OPT_BOOL:
		return set_bool(setting, value, field);
	case FIO_OPT_NUMBER:
		return set_number(setting, option, value, field);
	case FIO_OPT_SIZES:
		return set_sizes(setting, option, field);
	case FIO_OPT_AMOUNT:
		return set_amount(setting, field);
	case FIO_OPT_SECONDS:
		return read_time(setting, value, 1000000000ULL, field);
	case FIO_OPT_MICROSECONDS:
		return read_time(setting, value, 1000, field);
	case FIO_OPT_STRING:
		*(const char **)field = value;
		return 0;
	case FIO_OPT_WORD:
		return set_word(setting, option, field);
	case FIO_OPT_OTHER:
		return option->set(setting, options);
	case FIO_OPT_IGNORED:
	case FIO_OPT_IGNORED_FLAG:
		fio_workload_ignore(setting->workload, option->name);
		return 0;
	case FIO_OPT_REFUSED:
		break;
	}
	return refuse(setting, option);
}

/* ---- a whole job --------------------------------------------------------- */

void fio_options_init(struct fio_options *options)
{
	memset(options, 0, sizeof(*options));
	options->filename_format = "$jobname.$jobnum.$filenum";
	options->nrfiles = 1;
	options->service_ios = 1;
	options->loops = 1;
	options->numjobs = 1;
	options->kb_base = 1024;
	options->reads = true;
	options->rand_run = 1;
	for (unsigned int i = 0; i < NR_TYPES; i++) {
		options->bs_fixed[i] = 4096;
		options->percentage_random[i] = 100;
	}
	options->rwmixread = 50;
	options->randrepeat = true;
	options->randseed = 0x89;
	options->fallocate = FIO_FALLOCATE_ALLOCATE;
	options->create_serialize = true;
	options->create_fsync = true;
	options->allow_file_create = true;
	options->invalidate = true;
	options->fadvise_hint = FIO_FADVISE_PATTERN;
	options->thinktime_blocks = 1;
	options->do_verify = true;
	options->iodepth = 1;
	options->ioengine = "psync";
}

/* bssplit rules over bsrange, which rules over bs. */
static struct fio_span block_sizes(const struct fio_options *options, enum fio_dir dir)
{
	const struct fio_bssplit *split = options->bssplit[dir];
	struct fio_span span = options->bs_span[dir];

	if (split) {
		span = (struct fio_span){UINT64_MAX, 0};
		for (unsigned int i = 0; i < options->nr_bssplit[dir]; i++) {
			if (split[i].bs < span.min)
				span.min = split[i].bs;
			if (split[i].bs > span.max)
				span.max = split[i].bs;
		}
	} else if (span.max == 0) {
		span = (struct fio_span){options->bs_fixed[dir], options->bs_fixed[dir]};
	}
	return span;
}

static uint64_t smallest_block(const struct fio_options *options)
{
	uint64_t smallest = UINT64_MAX;

	if (options->reads)
		smallest = options->bs[FIO_READ].min;
	if (options->writes && options->bs[FIO_WRITE].min < smallest)
		smallest = options->bs[FIO_WRITE].min;
	return smallest;
}

/* The map needs uniform draws at multiples of the block. */
static void settle_random_map(const struct fio_setting *whole, struct fio_options *options)
{
	bool skewed = options->dist.kind != FIO_DIST_UNIFORM;
	bool aligned_otherwise = false;

	for (unsigned int dir = 0; dir < FIO_NR_DIRS; dir++) {
		if (options->ba[dir] && options->ba[dir] != options->bs[dir].min)
			aligned_otherwise = true;
		if (!options->ba[dir])
			options->ba[dir] = options->bs[dir].min;
	}
	if (!options->random || options->norandommap || (!skewed && !aligned_otherwise))
		return;
	options->norandommap = true;
	fio_workload_note(whole->workload, "%s: %s switches the random map off: blocks may repeat",
			  whole->where, skewed ? "random_distribution" : "blockalign");
}

static int settle_time(const struct fio_setting *whole, struct fio_options *options)
{
	bool has_rate = options->rate[FIO_READ] || options->rate[FIO_WRITE];
	bool has_iops = options->rate_iops[FIO_READ] || options->rate_iops[FIO_WRITE];

	if (options->time_based && options->runtime == 0) {
		options->time_based = false;
		fio_workload_note(whole->workload, "%s: time_based without runtime has no effect",
				  whole->where);
	}
	if (has_rate && has_iops)
		return fio_setting_fail(whole, "rate and rate_iops exclude each other");
	return 0;
}

static void note_what_differs(const struct fio_setting *whole, const struct fio_options *options)
{
	if (options->iodepth > 1)
		fio_workload_note(whole->workload,
				  "iodepth=%llu: I/Os are issued in order, one at a time",
				  (unsigned long long)options->iodepth);
	if (options->direct)
		fio_workload_note(whole->workload, "direct=1 goes round the page cache");
	if (options->verify && options->time_based && options->writes && !options->verify_backlog)
		fio_workload_note(whole->workload,
				  "%s: a time_based job without verify_backlog never verifies",
				  whole->where);
}

int fio_options_finish(const struct fio_setting *whole, struct fio_options *options)
{
	uint64_t smallest;

	for (unsigned int dir = 0; dir < FIO_NR_DIRS; dir++) {
		options->bs[dir] = block_sizes(options, (enum fio_dir)dir);
		if (options->bs[dir].min == 0)
			return fio_setting_fail(whole, "a block of 0 bytes; use bs=4k");
	}
	smallest = smallest_block(options);
	if (!options->size.is_percent && options->size.value && options->size.value < smallest)
		return fio_setting_fail(whole, "size=%llu is less than a block of %llu bytes",
					(unsigned long long)options->size.value,
					(unsigned long long)smallest);
	settle_random_map(whole, options);
	if (options->loops == 0)
		options->loops = 1;
	if (options->reads)
		options->overwrite = true;
	if (options->pre_read)
		options->invalidate = false;
	note_what_differs(whole, options);
	return settle_time(whole, options);
}

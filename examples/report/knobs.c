/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * knobs.c - the table of knobs, and reading their values
 */
#include "knobs.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <iomap/backing_dev.h>
#include <iomap/blkdev.h>
#include <iomap/fsbackend.h>
#include <iomap/sim.h>

#define WORDS_MAX     32
#define WORD_LEN_MAX  64
#define MEMORY_MIN    (2ull << 20)
#define LARGEST_FOLIO (2ull << 20)
#define SLOWNESS_MAX  1000000 /* of simulated CPUs */
#define CPU_SPEED_OFF 0.1 /* so far from what was asked for simulated CPUs may be */

const struct knob knob_table[NR_KNOBS] = {
#define X(id, name, kind, values, standard, only, help)                                            \
	[KNOB_##id] = {name, kind, values, standard, only, help},
	KNOBS(X)
#undef X
};

/* Known, but of a later version. */
static const char *const later_knobs[] = {"html", NULL};

/* ---- words ------------------------------------------------------------------------------ */

static unsigned int min3(unsigned int a, unsigned int b, unsigned int c)
{
	a = a < b ? a : b;
	return a < c ? a : c;
}

/* Letters to insert, remove or change to make one of the other. */
static unsigned int word_distance(const char *a, const char *b)
{
	unsigned int row[WORD_LEN_MAX + 1];
	size_t len = strlen(b);

	if (len > WORD_LEN_MAX || strlen(a) > WORD_LEN_MAX)
		return WORD_LEN_MAX;
	for (unsigned int j = 0; j <= len; j++)
		row[j] = j;
	for (unsigned int i = 1; a[i - 1]; i++) {
		unsigned int corner = row[0];

		row[0] = i;
		for (unsigned int j = 1; j <= len; j++) {
			unsigned int above = row[j];

			row[j] = min3(above + 1, row[j - 1] + 1, corner + (a[i - 1] != b[j - 1]));
			corner = above;
		}
	}
	return row[len];
}

const char *word_nearest(const char *word, const char *const *words)
{
	const char *best = NULL;
	unsigned int least = (unsigned int)strlen(word) / 2 + 1;

	for (unsigned int i = 0; words[i]; i++) {
		unsigned int distance = word_distance(word, words[i]);

		if (distance < least) {
			least = distance;
			best = words[i];
		}
	}
	return best;
}

const char *size_text(uint64_t bytes)
{
	static __thread char buffers[4][32];
	static __thread unsigned int turn;
	static const char units[] = "\0kmgt";
	char *text = buffers[turn++ % 4];
	unsigned int unit = 0;

	while (bytes && bytes % 1024 == 0 && unit < 4) {
		bytes /= 1024;
		unit++;
	}
	snprintf(text, sizeof(buffers[0]), "%llu%.1s", (unsigned long long)bytes, &units[unit]);
	return text;
}

/* ---- one value -------------------------------------------------------------------------- */

static int complain(char *err, enum knob_id id, const char *text, const char *right)
{
	snprintf(err, ERR_MAX, "--%s '%.100s'; %s", knob_table[id].name, text, right);
	return -EINVAL;
}

static int read_word(enum knob_id id, struct knob_value *value, char *err)
{
	const char *word = knob_table[id].values;
	char right[200];
	uint64_t number = 0;

	while (word) {
		size_t len = strcspn(word, "|");

		if (strlen(value->text) == len && strncmp(value->text, word, len) == 0) {
			value->number = number;
			return 0;
		}
		word = word[len] ? word + len + 1 : NULL;
		number++;
	}
	snprintf(right, sizeof(right), "it is one of %s", knob_table[id].values);
	return complain(err, id, value->text, right);
}

static int read_size(enum knob_id id, struct knob_value *value, char *err)
{
	static const char units[] = "kmgt";
	const char *right = "a size is a number and k, m, g or t (1024 each), as in 64k";
	const char *unit;
	char *end;

	if (!isdigit((unsigned char)value->text[0]))
		return complain(err, id, value->text, right);
	errno = 0;
	value->number = strtoull(value->text, &end, 10);
	if (errno)
		return complain(err, id, value->text, "it is less than 2^62");
	if (!*end)
		return 0;
	unit = strchr(units, tolower((unsigned char)*end));
	if (!unit || end[1])
		return complain(err, id, value->text, right);
	for (long i = unit - units; i >= 0; i--) {
		if (value->number > UINT64_MAX / 4 / 1024)
			return complain(err, id, value->text, "it is less than 2^62");
		value->number *= 1024;
	}
	return 0;
}

static int read_count(enum knob_id id, struct knob_value *value, char *err)
{
	bool may_be_auto = strstr(knob_table[id].values, "auto");
	const char *right = may_be_auto ? "it is auto or a number from 1" : "it is a number from 0";
	char *end;

	value->number = 0;
	if (may_be_auto && strcmp(value->text, "auto") == 0)
		return 0;
	errno = 0;
	value->number = strtoull(value->text, &end, 10);
	if (!isdigit((unsigned char)value->text[0]) || *end || errno)
		return complain(err, id, value->text, right);
	if (may_be_auto && (value->number == 0 || value->number > UINT32_MAX))
		return complain(err, id, value->text, right);
	return 0;
}

static int read_ratio(enum knob_id id, struct knob_value *value, char *err)
{
	const char *right = "it is N or N/M, as in 1/64, of numbers up to 1000000";
	char *end;

	if (!isdigit((unsigned char)value->text[0]))
		return complain(err, id, value->text, right);
	value->number = strtoull(value->text, &end, 10);
	value->den = 1;
	if (*end == '/' && isdigit((unsigned char)end[1]))
		value->den = strtoull(end + 1, &end, 10);
	if (*end || !value->number || !value->den || value->number > 1000000 ||
	    value->den > 1000000)
		return complain(err, id, value->text, right);
	return 0;
}

static int read_backend(enum knob_id id, struct knob_value *value, char *err)
{
	char right[200] = "there are:";
	const char *name;

	for (unsigned int i = 0; (name = fs_backend_name(i)) != NULL; i++) {
		size_t used = strlen(right);

		if (strcmp(name, value->text) == 0)
			return 0;
		snprintf(right + used, sizeof(right) - used, "%s %s", i ? "," : "", name);
	}
	return complain(err, id, value->text, right);
}

static bool device_is_plain(const char *text)
{
	return strcmp(text, "ram") == 0 || strcmp(text, "null") == 0 ||
	       strncmp(text, "file:", 5) == 0;
}

static const char *profile_name(const char *text)
{
	return strncmp(text, "model:", 6) == 0 ? text + 6 : text;
}

static int read_device(enum knob_id id, struct knob_value *value, char *err)
{
	char right[300] = "it is ram, null, file:PATH or a model:";
	const char *name;

	if (device_is_plain(value->text) && strcmp(value->text, "file:") != 0)
		return 0;
	if (blkdev_profile_find(profile_name(value->text)))
		return 0;
	for (unsigned int i = 0; (name = blkdev_profile_name(i)) != NULL; i++) {
		size_t used = strlen(right);

		snprintf(right + used, sizeof(right) - used, "%s %s", i ? "," : "", name);
	}
	return complain(err, id, value->text, right);
}

const char *knobs_device_profile(const struct knobs *knobs)
{
	const char *text = knob_text(knobs, KNOB_DEVICE);

	return device_is_plain(text) ? NULL : profile_name(text);
}

static int read_value(enum knob_id id, struct knob_value *value, char *err)
{
	switch (knob_table[id].kind) {
	case KNOB_WORD:
		return read_word(id, value, err);
	case KNOB_SIZE:
		return read_size(id, value, err);
	case KNOB_COUNT:
		return read_count(id, value, err);
	case KNOB_RATIO:
		return read_ratio(id, value, err);
	case KNOB_BACKEND:
		return read_backend(id, value, err);
	case KNOB_DEVICE_SPEC:
		return read_device(id, value, err);
	case KNOB_TEXT:
		break;
	}
	return 0;
}

/* ---- all values ------------------------------------------------------------------------- */

void knobs_force(struct knobs *knobs, enum knob_id id, const char *text)
{
	char err[ERR_MAX];

	knobs->value[id] = (struct knob_value){.text = text};
	if (read_value(id, &knobs->value[id], err))
		abort();
}

void knobs_default(struct knobs *knobs, enum knob_id id, const char *text)
{
	if (!knobs->value[id].given)
		knobs_force(knobs, id, text);
}

void knobs_init(struct knobs *knobs)
{
	knobs->trace = NULL;
	for (unsigned int id = 0; id < NR_KNOBS; id++)
		knobs_force(knobs, (enum knob_id)id, knob_table[id].standard);
}

static int complain_unknown(const char *name, char *err)
{
	const char *names[NR_KNOBS + 3];
	const char *nearest;

	for (unsigned int i = 0; later_knobs[i]; i++) {
		if (strcmp(later_knobs[i], name) == 0) {
			snprintf(err, ERR_MAX,
				 "--%s is not available in this version; 'iomap-report list' has "
				 "what is",
				 name);
			return -EINVAL;
		}
	}
	for (unsigned int id = 0; id < NR_KNOBS; id++)
		names[id] = knob_table[id].name;
	names[NR_KNOBS] = "json";
	names[NR_KNOBS + 1] = "trace";
	names[NR_KNOBS + 2] = NULL;
	nearest = word_nearest(name, names);
	if (nearest)
		snprintf(err, ERR_MAX, "no knob --%.100s; did you mean --%s?", name, nearest);
	else
		snprintf(err, ERR_MAX, "no knob --%.100s; 'iomap-report list' has them", name);
	return -EINVAL;
}

enum knob_id knob_find(const char *name)
{
	unsigned int id = 0;

	while (id < NR_KNOBS && strcmp(knob_table[id].name, name) != 0)
		id++;
	return (enum knob_id)id;
}

int knobs_set(struct knobs *knobs, const char *name, const char *text, char *err)
{
	struct knob_value value = {.text = text, .given = true};
	enum knob_id id = knob_find(name);
	int bad;

	if (id == NR_KNOBS)
		return complain_unknown(name, err);
	if (!text) {
		snprintf(err, ERR_MAX, "--%s has no value; it takes %s", name,
			 knob_table[id].values);
		return -EINVAL;
	}
	bad = read_value(id, &value, err);
	if (!bad)
		knobs->value[id] = value;
	return bad;
}

uint64_t knobs_scaled(const struct knobs *knobs, uint64_t bytes, uint64_t unit)
{
	const struct knob_value *scale = &knobs->value[KNOB_SCALE];
	uint64_t scaled = (uint64_t)((unsigned __int128)bytes * scale->number / scale->den);

	scaled -= scaled % unit;
	return scaled < unit ? unit : scaled;
}

/* By --scale-rates (a larger system is no faster) and --cpu-speed. */
static double exact_slowness(const struct knobs *knobs)
{
	const struct knob_value *scale = &knobs->value[KNOB_SCALE];
	const struct knob_value *speed = &knobs->value[KNOB_CPU_SPEED];
	double slow = (double)speed->den / (double)speed->number;

	if (knobs_scale_rates(knobs) && scale->number < scale->den)
		slow *= (double)scale->den / (double)scale->number;
	return slow;
}

uint64_t knobs_slowness(const struct knobs *knobs)
{
	double slow = exact_slowness(knobs);

	return slow < 1 ? 1 : (uint64_t)(slow + 0.5);
}

/* ---- values that do not fit together ---------------------------------------------------- */

static bool power_of_two_within(uint64_t value, uint64_t least, uint64_t most)
{
	return value >= least && value <= most && (value & (value - 1)) == 0;
}

static int check_page_sizes(const struct knobs *knobs, char *err)
{
	uint64_t page = knob_number(knobs, KNOB_PAGE_SIZE);
	uint64_t folio = knob_number(knobs, KNOB_MAX_FOLIO);
	uint64_t block = knob_number(knobs, KNOB_BLOCK_SIZE);

	if (!power_of_two_within(page, 4096, 65536))
		return complain(err, KNOB_PAGE_SIZE, size_text(page),
				"it is a power of two from 4k to 64k");
	if (!power_of_two_within(folio, page, LARGEST_FOLIO))
		return complain(err, KNOB_MAX_FOLIO, size_text(folio),
				"it is a power of two from the page size to 2m");
	if (!power_of_two_within(block, 512, 65536))
		return complain(err, KNOB_BLOCK_SIZE, size_text(block),
				"it is a power of two from 512 to 64k");
	if (block > folio)
		return complain(err, KNOB_BLOCK_SIZE, size_text(block),
				"it is not above --max-folio");
	return 0;
}

static int check_memory(const struct knobs *knobs, char *err)
{
	uint64_t memory = knobs_scaled(knobs, knob_number(knobs, KNOB_MEMORY), 1);

	if (memory < MEMORY_MIN)
		return complain(err, KNOB_MEMORY, knob_text(knobs, KNOB_MEMORY),
				"it is at least 2m, after --scale too");
	if (memory > 1ull << 42)
		return complain(err, KNOB_MEMORY, knob_text(knobs, KNOB_MEMORY),
				"it is at most 4t");
	if (knob_number(knobs, KNOB_DEVICE_SIZE) > 1ull << 46)
		return complain(err, KNOB_DEVICE_SIZE, knob_text(knobs, KNOB_DEVICE_SIZE),
				"it is at most 64t");
	return 0;
}

static int check_ranges(const struct knobs *knobs, char *err)
{
	static const struct {
		enum knob_id id;
		uint64_t least, most;
	} ranges[] = {
		{KNOB_NR_WB_CTX, 0, WB_CTX_MAX},
		{KNOB_CPUS, 1, ENV_SIM_MAX_CPUS},
		{KNOB_WORKERS_PER_CTX, 1, WB_WORKERS_MAX},
		{KNOB_DIRTY_RATIO, 1, 100},
		{KNOB_DIRTY_BACKGROUND_RATIO, 1, 100},
		{KNOB_MIN_RATIO, 0, 100},
		{KNOB_MAX_RATIO, 1, 100},
		{KNOB_DIRTY_EXPIRE_MS, 0, 1u << 30},
		{KNOB_WRITEBACK_INTERVAL_MS, 0, 1u << 30},
		{KNOB_READAHEAD, 0, 1u << 30},
		{KNOB_MIN_SLICE, 4096, 1ull << 40},
	};
	char right[64];

	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		uint64_t number = knob_number(knobs, ranges[i].id);

		if (number >= ranges[i].least && number <= ranges[i].most)
			continue;
		if (number > ranges[i].most)
			snprintf(right, sizeof(right), "it is at most %llu",
				 (unsigned long long)ranges[i].most);
		else
			snprintf(right, sizeof(right), "it is at least %llu",
				 (unsigned long long)ranges[i].least);
		return complain(err, ranges[i].id, knob_text(knobs, ranges[i].id), right);
	}
	return 0;
}

/* What a virtual clock can have, and what it alone has. */
static int check_clock(const struct knobs *knobs, char *err)
{
	const char *device = knob_text(knobs, KNOB_DEVICE);

	if (!knobs_virtual(knobs) && knob_given(knobs, KNOB_CPUS)) {
		snprintf(err, ERR_MAX,
			 "--cpus %s with the real clock, which has the host's CPUs; "
			 "add --clock virtual",
			 knob_text(knobs, KNOB_CPUS));
		return -EINVAL;
	}
	if (!knobs_virtual(knobs) && knobs->trace) {
		snprintf(err, ERR_MAX,
			 "--trace with the real clock, which keeps none; "
			 "add --clock virtual");
		return -EINVAL;
	}
	if (knobs_virtual(knobs) && strncmp(device, "file:", 5) == 0)
		return complain(err, KNOB_DEVICE, device,
				"a file of the host takes real time; with --clock virtual it is "
				"ram, null or a model");
	return 0;
}

/* Simulated work takes a whole number of times as long; a little beside it is no matter. */
static int check_cpu_speed(const struct knobs *knobs, char *err)
{
	double off = exact_slowness(knobs) / (double)knobs_slowness(knobs) - 1;

	if (!knobs_virtual(knobs) && knob_given(knobs, KNOB_CPU_SPEED)) {
		snprintf(err, ERR_MAX,
			 "--cpu-speed %s with the real clock, which has the host's CPUs; "
			 "add --clock virtual",
			 knob_text(knobs, KNOB_CPU_SPEED));
		return -EINVAL;
	}
	if (knobs_slowness(knobs) > SLOWNESS_MAX)
		return complain(err, KNOB_CPU_SPEED, knob_text(knobs, KNOB_CPU_SPEED),
				"it is at least 1/1000000, after --scale too");
	/* What a scale alone asks for is rounded however far off it is. */
	if (knob_number(knobs, KNOB_CPU_SPEED) == knobs->value[KNOB_CPU_SPEED].den ||
	    (off >= -CPU_SPEED_OFF && off <= CPU_SPEED_OFF))
		return 0;
	return complain(err, KNOB_CPU_SPEED, knob_text(knobs, KNOB_CPU_SPEED),
			"it is 1, 1/2, 1/3 ..; others need --scale-rates on, a small --scale");
}

static bool list_has(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = strstr(list, word); at; at = strstr(at + 1, word))
		if ((at == list || at[-1] == ' ') && (at[len] == ' ' || !at[len]))
			return true;
	return false;
}

static int check_workload(const struct knobs *knobs, const char *workload, char *err)
{
	for (unsigned int id = 0; id < NR_KNOBS; id++) {
		const char *only = knob_table[id].only;

		if (!knobs->value[id].given || !only || list_has(only, workload))
			continue;
		snprintf(err, ERR_MAX, "--%s has no meaning for '%.100s'; it is a knob of %s",
			 knob_table[id].name, workload, only);
		return -EINVAL;
	}
	return 0;
}

static bool backend_has_option(const char *fs, const char *name)
{
	const char *option;
	const char *value;
	const char *text;

	for (unsigned int i = 0; (option = fs_backend_option(fs, i, &value, &text)) != NULL; i++)
		if (strcmp(option, name) == 0)
			return true;
	return false;
}

static int check_backend(const struct knobs *knobs, char *err)
{
	const char *fs = knob_text(knobs, KNOB_FS);
	char right[100];

	if (knob_number(knobs, KNOB_AGS) && !backend_has_option(fs, "agcount")) {
		snprintf(right, sizeof(right), "%s has no allocation groups, xfs has", fs);
		return complain(err, KNOB_AGS, knob_text(knobs, KNOB_AGS), right);
	}
	if (!knob_on(knobs, KNOB_DELALLOC) && !backend_has_option(fs, "delalloc")) {
		snprintf(right, sizeof(right), "%s has no such option", fs);
		return complain(err, KNOB_DELALLOC, "off", right);
	}
	return 0;
}

int knobs_check(struct knobs *knobs, const char *workload, char *err)
{
	int bad = check_workload(knobs, workload, err);

	/* A device that takes no time would say little about time. */
	if (knobs_virtual(knobs) &&
	    strcmp(knob_text(knobs, KNOB_DEVICE), knob_table[KNOB_DEVICE].standard) == 0)
		knobs_default(knobs, KNOB_DEVICE, "nvme");
	if (!bad)
		bad = check_clock(knobs, err);
	if (!bad)
		bad = check_cpu_speed(knobs, err);
	if (!bad)
		bad = check_ranges(knobs, err);
	if (!bad)
		bad = check_page_sizes(knobs, err);
	if (!bad)
		bad = check_memory(knobs, err);
	if (!bad)
		bad = check_backend(knobs, err);
	return bad;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * options.c - "name=value,name=value" for a back end
 *
 * Every refusal is one line that says what is wrong and what would be right.
 */
#include "base.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A piece of the option text, not ended by a zero. */
struct text {
	const char *start;
	size_t len;
};

/* For "%.*s". */
#define TEXT(text) ((int)((text).len < 80 ? (text).len : 80)), (text).start

static int __attribute__((format(printf, 3, 4)))
refuse(char *error, size_t error_size, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(error, error_size, format, args);
	va_end(args);
	return -EINVAL;
}

static struct text text_from(const char *string)
{
	return (struct text){string, strlen(string)};
}

static bool text_is(struct text text, const char *string)
{
	return strlen(string) == text.len && memcmp(text.start, string, text.len) == 0;
}

/* Cut the first item off *options; false if there is none. */
static bool item_next(const char **options, struct text *item)
{
	if (!*options || **options == '\0')
		return false;
	item->start = *options;
	item->len = strcspn(item->start, ",");
	*options += item->len;
	if (**options == ',')
		++*options;
	return true;
}

/* "name=value" into its two parts; false if it is not of that form. */
static bool item_split(struct text item, struct text *name, struct text *value)
{
	const char *equals = memchr(item.start, '=', item.len);

	if (!equals)
		return false;
	name->start = item.start;
	name->len = (size_t)(equals - item.start);
	value->start = equals + 1;
	value->len = item.len - name->len - 1;
	return name->len > 0 && value->len > 0;
}

static const struct fs_option *option_find(const struct fs_backend *backend, struct text name)
{
	for (const struct fs_option *option = backend->options; option && option->name; option++)
		if (text_is(name, option->name))
			return option;
	return NULL;
}

/* The value given for the option, or its default. */
static struct text option_value(const struct fs_backend *backend, const char *options,
				const char *name, bool *given)
{
	const struct fs_option *option = option_find(backend, text_from(name));
	struct text item;

	assert(option);
	while (item_next(&options, &item)) {
		struct text item_name, value;

		if (item_split(item, &item_name, &value) && text_is(item_name, name)) {
			*given = true;
			return value;
		}
	}
	*given = false;
	return text_from(option->value);
}

/* "a, b, c" of what the back end knows. */
static void list_names(const struct fs_backend *backend, char *list, size_t size)
{
	size_t used = 0;

	list[0] = '\0';
	for (const struct fs_option *option = backend->options; option && option->name; option++) {
		int n = snprintf(list + used, size - used, "%s%s", used ? ", " : "", option->name);

		if (n < 0 || (size_t)n >= size - used)
			return;
		used += (size_t)n;
	}
}

static bool given_before(const char *options, const char *end, struct text name)
{
	struct text item;

	while (options < end && item_next(&options, &item)) {
		struct text item_name, value;

		if (item.start < end && item_split(item, &item_name, &value) &&
		    item_name.len == name.len && memcmp(item_name.start, name.start, name.len) == 0)
			return true;
	}
	return false;
}

int fs_options_check(const struct fs_backend *backend, const char *options, char *error,
		     size_t error_size)
{
	const char *rest = options;
	struct text item;

	while (item_next(&rest, &item)) {
		struct text name, value;

		if (!item_split(item, &name, &value))
			return refuse(error, error_size, "%s option '%.*s': should be name=value",
				      backend->name, TEXT(item));
		if (!option_find(backend, name)) {
			char list[512];

			list_names(backend, list, sizeof(list));
			if (!list[0])
				return refuse(error, error_size, "%s has no options, so not '%.*s'",
					      backend->name, TEXT(name));
			return refuse(error, error_size, "%s has no option '%.*s'; it has: %s",
				      backend->name, TEXT(name), list);
		}
		if (given_before(options, item.start, name))
			return refuse(error, error_size,
				      "%s option '%.*s' is given twice; give it once",
				      backend->name, TEXT(name));
	}
	return 0;
}

/* The factor of a last letter, 0 if it is none. */
static uint64_t unit_of(char letter)
{
	switch (letter) {
	case 'k':
	case 'K':
		return 1ull << 10;
	case 'm':
	case 'M':
		return 1ull << 20;
	case 'g':
	case 'G':
		return 1ull << 30;
	case 't':
	case 'T':
		return 1ull << 40;
	default:
		return 0;
	}
}

/* Decimal digits, then perhaps one of K, M, G, T. */
static bool parse_u64(struct text text, uint64_t *value)
{
	uint64_t unit = 1;
	uint64_t n = 0;

	if (text.len > 1 && unit_of(text.start[text.len - 1])) {
		unit = unit_of(text.start[text.len - 1]);
		text.len--;
	}
	for (size_t i = 0; i < text.len; i++) {
		unsigned int digit = (unsigned int)(text.start[i] - '0');

		if (digit > 9)
			return false;
		if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, digit, &n))
			return false;
	}
	return text.len > 0 && !__builtin_mul_overflow(n, unit, value);
}

int fs_option_u64(const struct fs_backend *backend, const char *options, const char *name,
		  uint64_t min, uint64_t max, uint64_t *value, char *error, size_t error_size)
{
	uint64_t parsed;
	bool given;
	struct text text = option_value(backend, options, name, &given);

	/* A default may stand outside, for "not given". */
	if (parse_u64(text, &parsed) && (!given || (parsed >= min && parsed <= max))) {
		*value = parsed;
		return 0;
	}
	if (max == UINT64_MAX)
		return refuse(error, error_size,
			      "%s option %s=%.*s: should be a number, at least %llu", backend->name,
			      name, TEXT(text), (unsigned long long)min);
	return refuse(error, error_size, "%s option %s=%.*s: should be a number from %llu to %llu",
		      backend->name, name, TEXT(text), (unsigned long long)min,
		      (unsigned long long)max);
}

int fs_option_bool(const struct fs_backend *backend, const char *options, const char *name,
		   bool *value, char *error, size_t error_size)
{
	bool given;
	struct text text = option_value(backend, options, name, &given);

	if (text_is(text, "on") || text_is(text, "1")) {
		*value = true;
		return 0;
	}
	if (text_is(text, "off") || text_is(text, "0")) {
		*value = false;
		return 0;
	}
	return refuse(error, error_size, "%s option %s=%.*s: should be on or off", backend->name,
		      name, TEXT(text));
}

int fs_option_word(const struct fs_backend *backend, const char *options, const char *name,
		   const char *const *words, unsigned int *value, char *error, size_t error_size)
{
	bool given;
	struct text text = option_value(backend, options, name, &given);
	char list[256];
	size_t used = 0;

	list[0] = '\0';
	for (unsigned int i = 0; words[i]; i++) {
		int n;

		if (text_is(text, words[i])) {
			*value = i;
			return 0;
		}
		n = snprintf(list + used, sizeof(list) - used, "%s%s", used ? ", " : "", words[i]);
		if (n > 0 && (size_t)n < sizeof(list) - used)
			used += (size_t)n;
	}
	return refuse(error, error_size, "%s option %s=%.*s: should be one of %s", backend->name,
		      name, TEXT(text), list);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fio-value.c - numbers as fio writes them: sizes, times, expressions
 */
#include "fio-value.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NS_PER_US 1000ULL
#define NS_PER_MS (1000 * NS_PER_US)
#define NS_PER_S  (1000 * NS_PER_MS)

/* The digits at *text, decimal or 0x; *text moves behind them. */
static int take_digits(const char **text, uint64_t *value)
{
	const char *start = *text;
	char *end;
	int base = start[0] == '0' && (start[1] == 'x' || start[1] == 'X') ? 16 : 10;

	if (!isdigit((unsigned char)*start))
		return -EINVAL;
	errno = 0;
	*value = strtoull(start, &end, base);
	if (errno || end == start)
		return -EINVAL;
	*text = end;
	return 0;
}

static unsigned int letter_power(char letter)
{
	static const char letters[] = "kmgtp";
	const char *found = letter ? strchr(letters, tolower((unsigned char)letter)) : NULL;

	return found ? (unsigned int)(found - letters) + 1 : 0;
}

/*
 * How many bytes the unit at *text counts; *text moves behind it.  `k`, `kB` and `Ki` are
 * powers of kb_base.  `KiB` is the other kind: fio takes the IEC name for the decimal one
 * as long as kb_base is 1024.
 */
static uint64_t take_unit(const char **text, uint64_t kb_base)
{
	const char *unit = *text;
	unsigned int power = letter_power(*unit);
	uint64_t bytes = 1;

	if (power == 0) {
		if (strcasecmp(unit, "b") == 0)
			*text = unit + 1;
		return 1;
	}
	unit++;
	if (strncasecmp(unit, "ib", 2) == 0) {
		kb_base = kb_base == 1024 ? 1000 : 1024;
		unit += 2;
	} else if (*unit == 'i' || *unit == 'I' || *unit == 'b' || *unit == 'B') {
		unit++;
	}
	while (power--)
		bytes *= kb_base;
	*text = unit;
	return bytes;
}

static int take_size(const char **text, uint64_t kb_base, uint64_t *size)
{
	uint64_t digits;

	if (take_digits(text, &digits))
		return -EINVAL;
	return __builtin_mul_overflow(digits, take_unit(text, kb_base), size) ? -EINVAL : 0;
}

/* What is left behind a number: nothing, a part that fio does not read, or an error. */
static int check_end(const char *rest)
{
	if (*rest == '\0')
		return 0;
	return *rest == '.' || *rest == 'e' || *rest == 'E' ? FIO_VALUE_CUT : -EINVAL;
}

int fio_value_size(const char *text, uint64_t kb_base, uint64_t *size)
{
	if (*text == '(')
		return fio_value_expression(text, kb_base, size);
	if (take_size(&text, kb_base, size))
		return -EINVAL;
	return check_end(text);
}

int fio_value_signed(const char *text, uint64_t kb_base, int64_t *size)
{
	bool negative = *text == '-';
	uint64_t absolute;
	int err = fio_value_size(negative ? text + 1 : text, kb_base, &absolute);

	if (err < 0 || absolute > INT64_MAX)
		return -EINVAL;
	*size = negative ? -(int64_t)absolute : (int64_t)absolute;
	return err;
}

int fio_value_time(const char *text, uint64_t unit_ns, uint64_t *ns)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {
		{"d", 86400 * NS_PER_S}, {"h", 3600 * NS_PER_S}, {"m", 60 * NS_PER_S},
		{"s", NS_PER_S},	 {"ms", NS_PER_MS},	 {"msec", NS_PER_MS},
		{"us", NS_PER_US},	 {"usec", NS_PER_US},	 {"sec", NS_PER_S},
	};
	uint64_t count;
	int err = 0;

	if (*text == '(') { /* times in expressions are in microseconds */
		if (fio_value_expression(text, 1024, &count))
			return -EINVAL;
		unit_ns = NS_PER_US;
	} else {
		if (take_digits(&text, &count))
			return -EINVAL;
		err = check_end(text);
		for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
			if (strcasecmp(text, units[i].name) == 0) {
				unit_ns = units[i].ns;
				err = 0;
			}
		}
	}
	if (err < 0 || __builtin_mul_overflow(count, unit_ns, ns))
		return -EINVAL;
	return err;
}

/* ---- expressions --------------------------------------------------------- */

struct expression {
	const char *text;
	uint64_t kb_base;
	unsigned int depth;
	bool failed;
};

static __int128 sum(struct expression *expression);

static char next_char(struct expression *expression)
{
	while (*expression->text == ' ' || *expression->text == '\t')
		expression->text++;
	return *expression->text;
}

static bool take_char(struct expression *expression, char c)
{
	if (next_char(expression) != c)
		return false;
	expression->text++;
	return true;
}

static __int128 fail(struct expression *expression)
{
	expression->failed = true;
	return 1;
}

/* Every value stays in 64 bits with its sign, so that no step can overflow 128. */
static __int128 checked(struct expression *expression, __int128 value)
{
	return value > INT64_MAX || value < INT64_MIN ? fail(expression) : value;
}

static __int128 operand(struct expression *expression)
{
	__int128 value;
	uint64_t size;

	if (expression->failed || expression->depth > 64)
		return fail(expression);
	expression->depth++;
	if (take_char(expression, '-')) {
		value = -operand(expression);
	} else if (take_char(expression, '(')) {
		value = sum(expression);
		if (!take_char(expression, ')'))
			return fail(expression);
	} else {
		if (take_size(&expression->text, expression->kb_base, &size))
			return fail(expression);
		value = checked(expression, size);
	}
	expression->depth--;
	return value;
}

static __int128 power(struct expression *expression)
{
	__int128 base = operand(expression);
	__int128 result = 1;
	__int128 exponent;

	if (!take_char(expression, '^'))
		return base;
	exponent = power(expression);
	if (exponent < 0 || exponent > 64)
		return fail(expression);
	while (exponent-- > 0 && !expression->failed)
		result = checked(expression, result * base);
	return result;
}

static __int128 product(struct expression *expression)
{
	__int128 value = power(expression);

	while (!expression->failed) {
		if (take_char(expression, '*')) {
			value = checked(expression, value * power(expression));
		} else if (next_char(expression) == '/' || next_char(expression) == '%') {
			char op = *expression->text++;
			__int128 by = power(expression);

			if (by == 0)
				return fail(expression);
			value = op == '/' ? value / by : value % by;
		} else {
			break;
		}
	}
	return value;
}

static __int128 sum(struct expression *expression)
{
	__int128 value = product(expression);

	while (!expression->failed) {
		if (take_char(expression, '+'))
			value = checked(expression, value + product(expression));
		else if (take_char(expression, '-'))
			value = checked(expression, value - product(expression));
		else
			break;
	}
	return value;
}

int fio_value_expression(const char *text, uint64_t kb_base, uint64_t *value)
{
	struct expression expression = {.text = text, .kb_base = kb_base};
	__int128 result = sum(&expression);

	if (expression.failed || next_char(&expression) != '\0' || result < 0)
		return -EINVAL;
	*value = (uint64_t)result;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "hist/bounds.h"

#include "util/times.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

size_t hist_bounds(uint64_t from, uint64_t to, uint64_t ret[HIST_BOUNDS_MAX])
{
	size_t n = 0;
	for (uint64_t ten = 1;; ten *= 10) {
		/* 0: not a whole number, or more than 64 bits */
		const uint64_t steps[] = { ten,
					   ten % 2 || ten / 2 > UINT64_MAX / 5 ? 0 : ten / 2 * 5,
					   ten > UINT64_MAX / 5 ? 0 : ten * 5 };
		for (size_t i = 0; i < 3; i++)
			if (steps[i] && steps[i] >= from && steps[i] <= to && n < HIST_BOUNDS_MAX)
				ret[n++] = steps[i];
		if (ten > UINT64_MAX / 10)
			return n;
	}
}

/* ---- as a user writes them ---- */

#define SPEC_MAX 1024
#define FIELDS_MAX HIST_BOUNDS_MAX
#define PER_TEN 3
#define PER_TEN_MAX 30

static int number(const char *text, bool is_time, uint64_t *ret)
{
	static const char units[] = "KMG";
	int64_t ns;
	char *end;
	if (is_time && strcmp(text, "0")) {
		const int rc = times_duration(text, &ns);
		*ret = rc ? 0 : (uint64_t)ns;
		return rc;
	}
	errno = 0;
	const unsigned long long n = strtoull(text, &end, 10);
	const char *unit = *end ? strchr(units, *end) : NULL;
	const unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
	if (*text < '0' || *text > '9' || end[unit != NULL])
		return -EINVAL;
	*ret = n << shift;
	return errno || *ret >> shift != n ? -ERANGE : 0;
}

/* The fields of a text, which is cut at `separator`: how many, FIELDS_MAX + 1 where it has more. */
static size_t split(char *text, const char *separator, char *ret[FIELDS_MAX])
{
	size_t n = 0;
	for (char *field; (field = strsep(&text, separator)); n++) {
		if (n == FIELDS_MAX)
			return n + 1;
		ret[n] = field;
	}
	return n;
}

/* -ERANGE: more than there may be, or more than 64 bits. */
static int linear(uint64_t from, uint64_t step, uint64_t count, uint64_t *ret, size_t *ret_n)
{
	if (!step || !count || count > HIST_BOUNDS_MAX || step > (UINT64_MAX - from) / count)
		return -ERANGE;
	for (*ret_n = 0; *ret_n < count; from += step)
		ret[(*ret_n)++] = from;
	return 0;
}

static int logarithmic(uint64_t from, uint64_t to, uint64_t per_ten, uint64_t *ret, size_t *ret_n)
{
	if (!from || to <= from || to > INT64_MAX || !per_ten || per_ten > PER_TEN_MAX)
		return -ERANGE;
	*ret_n = 0;
	for (unsigned i = 0; !*ret_n || ret[*ret_n - 1] < to; i++) {
		const double at = round((double)from * pow(10, (double)i / (double)per_ten));
		const uint64_t bound = at < (double)to ? (uint64_t)at : to;
		if (*ret_n && ret[*ret_n - 1] == bound)
			continue; /* of small numbers */
		if (*ret_n == HIST_BOUNDS_MAX)
			return -ERANGE;
		ret[(*ret_n)++] = bound;
	}
	return 0;
}

/* FROM:STEP:COUNT or FROM:TO[:PER_TEN] */
static int by_rule(char *text, bool is_linear, bool is_time, uint64_t *ret, size_t *ret_n)
{
	char *field[FIELDS_MAX];
	uint64_t from, second, third = PER_TEN;
	const size_t n = split(text, ":", field);
	int rc = n == 3 || (n == 2 && !is_linear) ? 0 : -EINVAL;
	rc = rc ? rc : number(field[0], is_time, &from);
	rc = rc ? rc : number(field[1], is_time, &second);
	rc = rc || n < 3 ? rc : number(field[2], false, &third);
	if (rc)
		return rc;
	return is_linear ? linear(from, second, third, ret, ret_n)
			 : logarithmic(from, second, third, ret, ret_n);
}

static int by_list(char *text, bool is_time, uint64_t *ret, size_t *ret_n)
{
	char *field[FIELDS_MAX];
	const size_t n = split(text, ",", field);
	int rc = n > HIST_BOUNDS_MAX ? -ERANGE : 0;
	for (size_t i = 0; !rc && i < n; i++) {
		rc = number(field[i], is_time, &ret[i]);
		if (!rc && i && ret[i] <= ret[i - 1])
			rc = -EINVAL;
	}
	*ret_n = n;
	return rc;
}

int hist_bounds_parse(const char *spec, bool is_time, uint64_t ret[HIST_BOUNDS_MAX], size_t *ret_n,
		      struct err *err)
{
	char text[SPEC_MAX];
	if (strlen(spec) >= sizeof(text))
		return err_set(err, -EINVAL, "buckets: longer than %d bytes", SPEC_MAX - 1);
	strcpy(text, spec);
	int rc = !strncmp(text, "linear:", 7) ? by_rule(text + 7, true, is_time, ret, ret_n)
		 : !strncmp(text, "log:", 4)  ? by_rule(text + 4, false, is_time, ret, ret_n)
					      : by_list(text, is_time, ret, ret_n);
	if (rc == -ERANGE)
		return err_set(err, -EINVAL,
			       "buckets: '%.100s' must give 1 to %d bounds of at most 64 bits",
			       spec, HIST_BOUNDS_MAX);
	return rc ? err_set(err, -EINVAL, "buckets: '%.100s' is none of %s, with ascending %s",
			    spec, HIST_BOUNDS_SYNTAX, is_time ? "times" : "numbers")
		  : 0;
}

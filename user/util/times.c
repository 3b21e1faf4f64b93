/* SPDX-License-Identifier: Apache-2.0 */
#include "util/times.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NSEC 1000000000ll

static const struct {
	const char *name;
	int64_t ns;
} units[] = {
	{ "ns", 1 },	    { "us", 1000 },	  { "ms", 1000000 },	 { "s", NSEC },
	{ "m", 60 * NSEC }, { "h", 3600 * NSEC }, { "d", 86400 * NSEC }, { "w", 7 * 86400 * NSEC },
};

static int unit_ns(const char *name, size_t len, int64_t *ret)
{
	if (!len) {
		*ret = NSEC;
		return 0;
	}
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strlen(units[i].name) == len && !memcmp(units[i].name, name, len)) {
			*ret = units[i].ns;
			return 0;
		}
	}
	return -EINVAL;
}

/* Digits of a fraction (behind the point) times unit, cut to whole nanoseconds. */
static int64_t fraction_ns(const char *digits, size_t n, int64_t unit)
{
	long double f = 0, scale = 1;
	for (size_t i = 0; i < n && i < 18; i++)
		f += (digits[i] - '0') * (scale /= 10);
	return (int64_t)(f * unit + 1e-6L);
}

/* One "12.5ms" at *p. */
static int duration_part(const char **p, int64_t *ret)
{
	const char *s = *p;
	if (!isdigit((unsigned char)*s))
		return -EINVAL;
	int64_t whole = 0;
	for (; isdigit((unsigned char)*s); s++) {
		if (__builtin_mul_overflow(whole, 10, &whole) || __builtin_add_overflow(whole, *s - '0', &whole))
			return -ERANGE;
	}
	const char *frac = s;
	size_t n_frac = 0;
	if (*s == '.') {
		frac = ++s;
		n_frac = strspn(s, "0123456789");
		if (!n_frac)
			return -EINVAL;
		s += n_frac;
	}
	size_t len = strspn(s, "abcdefghijklmnopqrstuvwxyz");
	int64_t unit, ns;
	if (unit_ns(s, len, &unit))
		return -EINVAL;
	/* "1m30": the bare number would be read as seconds by some and as minutes by others. */
	if (!len && s[len])
		return -EINVAL;
	if (__builtin_mul_overflow(whole, unit, &ns) ||
	    __builtin_add_overflow(ns, fraction_ns(frac, n_frac, unit), &ns))
		return -ERANGE;
	*p = s + len;
	*ret = ns;
	return 0;
}

int times_duration(const char *text, int64_t *ret_ns)
{
	int64_t sum = 0, part;
	const char *p = text;
	do {
		const char *start = p;
		int rc = duration_part(&p, &part);
		if (rc)
			return rc;
		if (start != text && isdigit((unsigned char)p[-1]))
			return -EINVAL;
		if (__builtin_add_overflow(sum, part, &sum))
			return -ERANGE;
	} while (*p);
	if (!sum)
		return -ERANGE;
	*ret_ns = sum;
	return 0;
}

static int seconds_ns(int64_t seconds, int64_t ns, int64_t *ret)
{
	int64_t v;
	if (__builtin_mul_overflow(seconds, NSEC, &v) || __builtin_add_overflow(v, ns, &v))
		return -ERANGE;
	*ret = v;
	return 0;
}

/* n digits exactly. */
static int digits(const char **p, int n, int min, int max, int *ret)
{
	int v = 0;
	for (int i = 0; i < n; i++, (*p)++) {
		if (!isdigit((unsigned char)**p))
			return -EINVAL;
		v = v * 10 + (**p - '0');
	}
	if (v < min || v > max)
		return -EINVAL;
	*ret = v;
	return 0;
}

static int literal(const char **p, const char *set)
{
	if (!**p || !strchr(set, **p))
		return -EINVAL;
	(*p)++;
	return 0;
}

/* "Z", "+02:00", or the end of the text: local time. */
static int zone_seconds(const char *p, struct tm *tm, int64_t *ret)
{
	int h, m;
	if (!*p) {
		tm->tm_isdst = -1;
		*ret = mktime(tm);
		return 0;
	}
	time_t utc = timegm(tm);
	if ((*p == 'Z' || *p == 'z') && !p[1]) {
		*ret = utc;
		return 0;
	}
	char sign = *p;
	if (literal(&p, "+-") || digits(&p, 2, 0, 23, &h) || literal(&p, ":") || digits(&p, 2, 0, 59, &m) || *p)
		return -EINVAL;
	int64_t off = (h * 60 + m) * 60;
	*ret = sign == '-' ? utc + off : utc - off;
	return 0;
}

static int days_of_month(int year, int month)
{
	static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
	return days[month - 1] + (month == 2 && leap);
}

static int rfc3339(const char *p, int64_t *ret_ns)
{
	struct tm tm = { 0 };
	int64_t ns = 0, seconds;
	if (digits(&p, 4, 1970, 2262, &tm.tm_year) || literal(&p, "-") || digits(&p, 2, 1, 12, &tm.tm_mon) ||
	    literal(&p, "-") || digits(&p, 2, 1, 31, &tm.tm_mday) || tm.tm_mday > days_of_month(tm.tm_year, tm.tm_mon))
		return -EINVAL;
	if (literal(&p, "Tt ") || digits(&p, 2, 0, 23, &tm.tm_hour) || literal(&p, ":") ||
	    digits(&p, 2, 0, 59, &tm.tm_min) || literal(&p, ":") || digits(&p, 2, 0, 60, &tm.tm_sec))
		return -EINVAL;
	if (*p == '.') {
		size_t n = strspn(++p, "0123456789");
		if (!n)
			return -EINVAL;
		ns = fraction_ns(p, n, NSEC);
		p += n;
	}
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	if (zone_seconds(p, &tm, &seconds))
		return -EINVAL;
	return seconds_ns(seconds, ns, ret_ns);
}

static int epoch(const char *p, int64_t *ret_ns)
{
	int64_t seconds = 0, ns = 0;
	for (; isdigit((unsigned char)*p); p++) {
		if (__builtin_mul_overflow(seconds, 10, &seconds) ||
		    __builtin_add_overflow(seconds, *p - '0', &seconds))
			return -ERANGE;
	}
	if (*p == '.') {
		size_t n = strspn(++p, "0123456789");
		if (!n)
			return -EINVAL;
		ns = fraction_ns(p, n, NSEC);
		p += n;
	}
	return *p ? -EINVAL : seconds_ns(seconds, ns, ret_ns);
}

int times_parse(const char *text, int64_t now_ns, int64_t *ret_ns)
{
	if (!strncmp(text, "now", 3)) {
		int64_t d = 0;
		if (text[3] && text[3] != '-' && text[3] != '+')
			return -EINVAL;
		int rc = text[3] ? times_duration(text + 4, &d) : 0;
		if (rc)
			return rc;
		int64_t v;
		if (text[3] == '-' ? __builtin_sub_overflow(now_ns, d, &v) : __builtin_add_overflow(now_ns, d, &v))
			return -ERANGE;
		*ret_ns = v;
		return 0;
	}
	if (!isdigit((unsigned char)*text))
		return -EINVAL;
	return strchr(text, '-') ? rfc3339(text, ret_ns) : epoch(text, ret_ns);
}

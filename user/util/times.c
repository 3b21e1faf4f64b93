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
	const char *names; /* each with a space behind it */
	int64_t ns;
} units[] = {
	{ "ns ", 1 },
	{ "us ", 1000 },
	{ "ms ", 1000000 },
	{ "s sec secs second seconds ", NSEC },
	{ "m min mins minute minutes ", 60 * NSEC },
	{ "h hr hrs hour hours ", 3600 * NSEC },
	{ "d day days ", 86400 * NSEC },
	{ "w week weeks ", 7 * 86400 * NSEC },
};

/* Find a word in a list of words with a space behind each. */
static bool has_word(const char *list, const char *word, size_t len)
{
	for (const char *end; (end = strchr(list, ' ')); list = end + 1)
		if ((size_t)(end - list) == len && !memcmp(list, word, len))
			return true;
	return false;
}

static int unit_ns(const char *name, size_t len, int64_t *ret)
{
	if (!len) {
		*ret = NSEC;
		return 0;
	}
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (has_word(units[i].names, name, len)) {
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
		if (__builtin_mul_overflow(whole, 10, &whole) ||
		    __builtin_add_overflow(whole, *s - '0', &whole))
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
	if (*s == ' ' && isalpha((unsigned char)s[1])) /* "10 minutes" */
		s++;
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
	if (literal(&p, "+-") || digits(&p, 2, 0, 23, &h) || literal(&p, ":") ||
	    digits(&p, 2, 0, 59, &m) || *p)
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

/* "14:05", "14:05:30", "14:05:30.25". */
static int clock_time(const char **p, struct tm *tm, int64_t *ret_ns, bool *ret_seconds)
{
	int64_t ns = 0;
	if (digits(p, 2, 0, 23, &tm->tm_hour) || literal(p, ":") ||
	    digits(p, 2, 0, 59, &tm->tm_min))
		return -EINVAL;
	*ret_seconds = **p == ':';
	if (*ret_seconds && (literal(p, ":") || digits(p, 2, 0, 60, &tm->tm_sec)))
		return -EINVAL;
	if (*ret_seconds && **p == '.') {
		size_t n = strspn(++*p, "0123456789");
		if (!n)
			return -EINVAL;
		ns = fraction_ns(*p, n, NSEC);
		*p += n;
	}
	*ret_ns = ns;
	return 0;
}

/* RFC 3339; without a zone also "2026-05-01" and "2026-05-01 10:00", local time. */
static int date_time(const char *p, int64_t *ret_ns)
{
	struct tm tm = { 0 };
	int64_t ns = 0, seconds;
	bool whole = true;
	if (digits(&p, 4, 1970, 2262, &tm.tm_year) || literal(&p, "-") ||
	    digits(&p, 2, 1, 12, &tm.tm_mon) || literal(&p, "-") ||
	    digits(&p, 2, 1, 31, &tm.tm_mday) || tm.tm_mday > days_of_month(tm.tm_year, tm.tm_mon))
		return -EINVAL;
	if (*p && (literal(&p, "Tt ") || clock_time(&p, &tm, &ns, &whole)))
		return -EINVAL;
	if (*p && !whole)
		return -EINVAL;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	if (zone_seconds(p, &tm, &seconds))
		return -EINVAL;
	return seconds_ns(seconds, ns, ret_ns);
}

/* "14:05": the last time that the local clock showed it. */
static int time_of_day(const char *p, int64_t now_ns, int64_t *ret_ns)
{
	time_t now = now_ns / NSEC, t;
	struct tm tm;
	int64_t ns, v;
	bool seconds;
	if (!localtime_r(&now, &tm))
		return -ERANGE;
	tm.tm_sec = 0;
	if (clock_time(&p, &tm, &ns, &seconds) || *p)
		return -EINVAL;
	struct tm today = tm;
	today.tm_isdst = tm.tm_isdst = -1;
	t = mktime(&today);
	int rc = seconds_ns(t, ns, &v);
	if (!rc && v > now_ns) {
		tm.tm_mday--;
		t = mktime(&tm);
		rc = seconds_ns(t, ns, &v);
	}
	if (!rc)
		*ret_ns = v;
	return rc;
}

/* "-1h", "1h", "1h ago", "10 minutes ago". A bare number of seconds would be a time since 1970. */
static int time_ago(const char *text, int64_t now_ns, int64_t *ret_ns)
{
	char duration[64];
	int64_t d, v;
	const char *from = text + (*text == '-');
	size_t len = strlen(from);
	if (len > 4 && !strcmp(from + len - 4, " ago"))
		len -= 4;
	if (len >= sizeof(duration) || strspn(from, "0123456789.") >= len)
		return -EINVAL;
	memcpy(duration, from, len);
	duration[len] = '\0';
	int rc = times_duration(duration, &d);
	if (!rc && __builtin_sub_overflow(now_ns, d, &v))
		rc = -ERANGE;
	if (!rc)
		*ret_ns = v;
	return rc;
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
		if (text[3] == '-' ? __builtin_sub_overflow(now_ns, d, &v)
				   : __builtin_add_overflow(now_ns, d, &v))
			return -ERANGE;
		*ret_ns = v;
		return 0;
	}
	if (isdigit((unsigned char)*text) && !text[strspn(text, "0123456789.")])
		return epoch(text, ret_ns);
	if (isdigit((unsigned char)text[0]) && isdigit((unsigned char)text[1]) && text[2] == ':')
		return time_of_day(text, now_ns, ret_ns);
	return strspn(text, "0123456789") == 4 && text[4] == '-' ? date_time(text, ret_ns)
								 : time_ago(text, now_ns, ret_ns);
}

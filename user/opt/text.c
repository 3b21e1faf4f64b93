/* SPDX-License-Identifier: Apache-2.0 */
#include "opt/text.h"

#include "util/buf.h"
#include "util/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

char *text_printable(const char *s, size_t len)
{
	struct buf b = BUF_INIT;
	size_t n;
	for (size_t i = 0; i < len; i += n) {
		n = utf8_char(s + i, len - i);
		bool hidden = !n || utf8_is_hidden(s + i, n);
		if (!n)
			n = 1;
		for (size_t j = 0; hidden && j < n; j++) {
			if (buf_printf(&b, "\\x%02x", (unsigned char)s[i + j]))
				goto fail;
		}
		if (!hidden && buf_add(&b, s + i, n))
			goto fail;
	}
	if (!buf_add_u8(&b, 0))
		return (char *)b.data;
fail:
	buf_fini(&b);
	return NULL;
}

size_t text_width(const char *s)
{
	size_t n = 0;
	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

void text_cut(char *s, size_t width)
{
	static const char ellipsis[] = "\xe2\x80\xa6"; /* U+2026, 3 bytes */
	if (text_width(s) <= width)
		return;
	size_t at = 0, n = 0;
	for (; s[at] && n < width; at++)
		n += (s[at + 1] & 0xc0) != 0x80;
	/*
	 * at: just behind the last character that fits; give its place, and more if it is short, to
	 * the ellipsis.
	 */
	if (strlen(s) - at + 1 < sizeof(ellipsis) - 1 && at < 2)
		return;
	do
		at--;
	while (at && ((s[at] & 0xc0) == 0x80 || strlen(s) - at < sizeof(ellipsis) - 1));
	memcpy(s + at, ellipsis, sizeof(ellipsis));
}

void text_put(FILE *f, const char *s, int width)
{
	char *shown = text_printable(s, strlen(s));
	size_t n = shown ? text_width(shown) : 0, want = (size_t)abs(width);
	int gap = n < want ? (int)(want - n) : 0;
	fprintf(f, "%*s%s%*s", width < 0 ? gap : 0, "", shown ? shown : "", width > 0 ? gap : 0,
		"");
	free(shown);
}

void text_time(int64_t ns, char *out)
{
	time_t seconds = ns / 1000000000;
	struct tm tm;
	if (ns % 1000000000 < 0)
		seconds--;
	localtime_r(&seconds, &tm);
	size_t n = strftime(out, 34, "%Y-%m-%dT%H:%M:%S%z", &tm);
	if (n < 5)
		return;
	/* +0200 -> +02:00, +00:00 -> Z */
	if (!strcmp(out + n - 5, "+0000")) {
		memcpy(out + n - 5, "Z", 2);
	} else {
		memmove(out + n - 1, out + n - 2, 3);
		out[n - 2] = ':';
	}
}

void text_range(int64_t from_ns, int64_t to_ns, char *out)
{
	char from[40], to[40];
	text_time(from_ns, from);
	text_time(to_ns, to);
	snprintf(out, 120, "%s .. %s (%.1f s)", from, to, (double)(to_ns - from_ns) / 1e9);
}

/*
 * Write n with three digits, in the first unit that gives less than 1,000. A unit is `times` the
 * one before.
 */
static void three_digits(uint64_t n, double times, const char *const *unit, size_t n_units,
			 char *out)
{
	double v = (double)n;
	size_t u = 0;
	while (v >= 999.5 && u + 1 < n_units) {
		v /= times;
		u++;
	}
	snprintf(out, 32, "%.*f %s", !u || v >= 99.95 ? 0 : v >= 9.995 ? 1 : 2, v, unit[u]);
}

void text_duration(uint64_t ns, char *out)
{
	static const char *const units[] = { "ns", "us", "ms", "s" };
	three_digits(ns, 1000, units, 4, out);
}

void text_bytes(uint64_t n, char *out)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	three_digits(n, 1024, units, 5, out);
}

void text_count(uint64_t n, char *out)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n);
	for (int i = 0; i < len; i++) {
		if (i && !((len - i) % 3))
			*out++ = ',';
		*out++ = digits[i];
	}
	*out = '\0';
}

const char *text_join(char *out, size_t cap, const char *const *v, size_t n)
{
	size_t len = 0;
	out[0] = 0;
	for (size_t i = 0; i < n && len < cap; i++)
		len += (size_t)snprintf(out + len, cap - len, "%s%s", i ? ", " : "", v[i]);
	return out;
}

void text_fold(FILE *f, const char *text, unsigned at, unsigned indent, unsigned width)
{
	unsigned column = at;
	for (const char *end; *text; text = end) {
		size_t blanks = strspn(text, " ");
		end = text + blanks + strcspn(text + blanks, " ");
		char word[512];
		snprintf(word, sizeof(word), "%.*s", (int)(end - text), text);
		unsigned columns = (unsigned)text_width(word);
		if (width && column > indent && column + columns > width) {
			fprintf(f, "\n%*s%s", (int)indent, "", word + blanks);
			column = indent + columns - (unsigned)blanks;
		} else {
			fputs(word, f);
			column += columns;
		}
	}
	fputc('\n', f);
}

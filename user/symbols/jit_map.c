/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf-TGID.map: "START SIZE NAME" to the end of the line, numbers in hexadecimal with or without
 * 0x.
 */
#include "symbols/jit_int.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_SIZE (128u * 1024) /* lines are shorter than this, or their names are cut */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A number and the spaces behind it; NULL when there is none. */
static const char *take_hex(const char *p, const char *end, uint64_t *ret)
{
	uint64_t v = 0;
	if (end - p > 2 && p[0] == '0' && (p[1] == 'x' || p[1] == 'X'))
		p += 2;
	const char *begin = p;
	for (; p < end && hex_digit(*p) >= 0; p++)
		v = v << 4 | (uint64_t)hex_digit(*p);
	if (p == begin || p - begin > 16 || p == end || (*p != ' ' && *p != '\t'))
		return NULL;
	while (p < end && (*p == ' ' || *p == '\t'))
		p++;
	*ret = v;
	return p;
}

static int take_line(struct jit_said *s, const char *p, const char *end)
{
	uint64_t addr, size;
	if (p == end)
		return 0;
	p = take_hex(p, end, &addr);
	p = p ? take_hex(p, end, &size) : NULL;
	while (p && end > p && isspace((unsigned char)end[-1]))
		end--;
	if (!p || p == end || memchr(p, 0, (size_t)(end - p))) {
		s->failures++;
		return 0;
	}
	return jit_say(s, addr, size, p, (size_t)(end - p));
}

struct lines {
	char *buf;
	size_t len;
	bool skipping; /* the rest of a line that did not fit */
};

/*
 * All whole lines in the buffer; what is left moves to its begin. A line longer than the buffer is
 * cut.
 */
static int take_lines(struct jit_said *s, struct lines *l, bool at_end)
{
	size_t at = 0;
	int rc = 0;
	while (!rc && at < l->len) {
		const char *line = l->buf + at, *nl = memchr(line, '\n', l->len - at);
		if (!nl && !at_end && (at || l->len < READ_SIZE))
			break;
		const char *end = nl ? nl : l->buf + l->len;
		if (!l->skipping)
			rc = take_line(s, line, end);
		l->skipping = !nl;
		at = (size_t)(end - l->buf) + (nl != NULL);
	}
	memmove(l->buf, l->buf + at, l->len - at);
	l->len -= at;
	return rc;
}

int jit_read_perf_map(struct jit_said *s, int fd)
{
	struct lines l = { .buf = malloc(READ_SIZE) };
	struct stat st;
	uint64_t at = 0;
	int rc = !l.buf ? -ENOMEM : fstat(fd, &st) ? -errno : !S_ISREG(st.st_mode) ? -EINVAL : 0;
	if (!rc && st.st_size > JIT_FILE_MAX)
		rc = -E2BIG;
	while (!rc && at < (uint64_t)st.st_size) {
		uint64_t left = (uint64_t)st.st_size - at, room = READ_SIZE - l.len;
		ssize_t n = pread(fd, l.buf + l.len, left < room ? left : room, (off_t)at);
		if (n < 0 && errno != EINTR)
			rc = -errno;
		if (n == 0)
			break; /* cut meanwhile */
		if (n > 0) {
			at += (uint64_t)n;
			l.len += (size_t)n;
			rc = take_lines(s, &l, false);
		}
	}
	/*
	 * A last line without its end is still being written, but a whole line all the same if it
	 * makes sense.
	 */
	rc = rc ? rc : take_lines(s, &l, true);
	free(l.buf);
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "util/utf8.h"

#include <string.h>

static bool continues(const unsigned char *p, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return false;
	}
	return true;
}

size_t utf8_char(const char *s, size_t len)
{
	const unsigned char *p = (const unsigned char *)s;
	size_t n = p[0] < 0x80	 ? 1
		   : p[0] < 0xc2 ? 0
		   : p[0] < 0xe0 ? 2
		   : p[0] < 0xf0 ? 3
		   : p[0] < 0xf5 ? 4
				 : 0;
	if (!n || n > len || !continues(p, n))
		return 0;
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
	    (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return n;
}

unsigned utf8_code(const char *s, size_t n)
{
	const unsigned char *p = (const unsigned char *)s;
	unsigned code = n == 1 ? p[0] : p[0] & (0x7fu >> n);
	for (size_t i = 1; i < n; i++)
		code = code << 6 | (p[i] & 0x3f);
	return code;
}

size_t utf8_put(char out[4], unsigned code)
{
	const size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
	for (size_t i = n; i > 1; i--, code >>= 6)
		out[i - 1] = (char)(0x80 | (code & 0x3f));
	out[0] = (char)(n == 1 ? code : (0xf00u >> n & 0xff) | code);
	return n;
}

bool utf8_is_hidden(const char *s, size_t n)
{
	static const struct {
		unsigned first, last;
	} hidden[] = {
		{ 0, 0x1f },	    { 0x7f, 0x9f },	{ 0xad, 0xad },	      { 0x61c, 0x61c },
		{ 0x180e, 0x180e }, { 0x200b, 0x200f }, { 0x2028, 0x202e },   { 0x2060, 0x206f },
		{ 0xfeff, 0xfeff }, { 0xfff9, 0xfffb }, { 0xe0000, 0xe0fff },
	};
	unsigned code = utf8_code(s, n);
	for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++)
		if (code >= hidden[i].first && code <= hidden[i].last)
			return true;
	return false;
}

void utf8_show(char *text, const char *kept)
{
	const size_t len = strlen(text);
	size_t out = 0, n;
	for (size_t i = 0; i < len; i += n) {
		n = utf8_char(text + i, len - i);
		const bool shown = n && (!utf8_is_hidden(text + i, n) || strchr(kept, text[i]));
		n = n ? n : 1;
		if (shown)
			memmove(text + out, text + i, n);
		else
			text[out] = '?';
		out += shown ? n : 1;
	}
	text[out] = 0;
}

bool utf8_is_whole(const char *s, size_t len)
{
	size_t n = 1;
	for (size_t i = 0; n && i < len; i += n)
		n = utf8_char(s + i, len - i);
	return n;
}

void utf8_mark_cut(char *text, size_t cap, size_t len)
{
	static const char mark[] = "...";
	size_t at = cap - sizeof(mark);
	if (len < cap)
		return;
	while (at && ((unsigned char)text[at] & 0xc0) == 0x80)
		at--;
	memcpy(text + at, mark, sizeof(mark));
}

int utf8_repair(struct buf *to, const char *s, size_t len)
{
	size_t whole = 0; /* bytes before i that are not added yet */
	int rc = 0;
	for (size_t i = 0, n; i < len && !rc; i += n ? n : 1) {
		n = utf8_char(s + i, len - i);
		whole += n;
		if (n)
			continue;
		rc = buf_add(to, s + i - whole, whole);
		rc = rc ? rc : buf_add(to, "\xef\xbf\xbd", 3);
		whole = 0;
	}
	return rc ? rc : buf_add(to, s + len - whole, whole);
}

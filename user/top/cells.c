/* SPDX-License-Identifier: Apache-2.0 */
#include "top/cells.h"

#include "util/utf8.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#define MARKS_MAX 2  /* marks over or under one letter */
#define PIECE_MAX 17 /* a character of 4 bytes as \xNN each, and a NUL */

/* One character as it is shown: how many bytes of s it was; its columns go to *ret_columns. */
static size_t piece(const char *s, size_t len, bool utf8, unsigned *marks, char out[PIECE_MAX],
		    size_t *ret_columns)
{
	size_t n = utf8_char(s, len);
	int columns = !n || utf8_is_hidden(s, n) ? -1
		      : n == 1			 ? 1
		      : utf8			 ? wcwidth((wchar_t)utf8_code(s, n))
						 : 1;
	if (!columns && ++*marks > MARKS_MAX)
		columns = -1;
	if (columns)
		*marks = 0;
	if (columns < 0) {
		size_t bytes = n ? n : 1;
		for (size_t i = 0; i < bytes; i++)
			snprintf(out + 4 * i, 5, "\\x%02x", (unsigned char)s[i]);
		*ret_columns = 4 * bytes;
		return bytes;
	}
	if (n > 1 && !utf8) {
		strcpy(out, "?");
	} else {
		memcpy(out, s, n);
		out[n] = 0;
	}
	*ret_columns = (size_t)columns;
	return n;
}

size_t cells_fit(char *out, size_t cap, const char *s, size_t width, bool utf8)
{
	const char *more = utf8 ? "\xe2\x80\xa6" : "~";
	size_t at = 0, columns = 0, len = strlen(s), w;
	size_t cut_at = 0, cut_columns = 0; /* what can stay when an ellipsis must follow */
	unsigned marks = MARKS_MAX;	    /* none has a letter to stand on yet */
	char one[PIECE_MAX];
	for (size_t i = 0; i < len;) {
		i += piece(s + i, len - i, utf8, &marks, one, &w);
		size_t bytes = strlen(one);
		if (columns + w > width || at + bytes + strlen(more) >= cap) {
			at = cut_at;
			columns = cut_columns;
			if (width) {
				strcpy(out + at, more);
				return columns + 1;
			}
			break;
		}
		memcpy(out + at, one, bytes);
		at += bytes;
		columns += w;
		if (columns < width) {
			cut_at = at;
			cut_columns = columns;
		}
	}
	out[at] = 0;
	return columns;
}

size_t cells_width(const char *s, bool utf8)
{
	size_t columns = 0, len = strlen(s), w;
	unsigned marks = MARKS_MAX;
	char one[PIECE_MAX];
	for (size_t i = 0; i < len; columns += w)
		i += piece(s + i, len - i, utf8, &marks, one, &w);
	return columns;
}

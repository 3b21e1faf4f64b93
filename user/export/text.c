/* SPDX-License-Identifier: Apache-2.0 */
#include "export/text.h"
#include "util/utf8.h"

#include <errno.h>
#include <string.h>

void text_fini(struct text *t)
{
	buf_fini(&t->room);
	buf_fini(&t->quoted);
	buf_fini(&t->whole);
}

static int make_whole(struct text *t, const char *s, size_t len)
{
	t->whole.len = 0;
	return utf8_repair(&t->whole, s, len);
}

static int add_json(struct buf *to, const char *s, size_t len)
{
	int rc = buf_reserve(to, len + 2);
	rc = rc ? rc : buf_add_u8(to, '"');
	for (size_t i = 0; !rc && i < len; i++) {
		unsigned char c = (unsigned char)s[i];
		if (c < 0x20 || c == 0x7f) {
			rc = buf_printf(to, "\\u%04x", c);
			continue;
		}
		if (c == '"' || c == '\\')
			rc = buf_add_u8(to, '\\');
		rc = rc ? rc : buf_add_u8(to, c);
	}
	return rc ? rc : buf_add_u8(to, '"');
}

int text_json(struct text *t, const char *s, size_t len)
{
	t->quoted.len = 0;
	int rc = add_json(&t->quoted, s, len);
	rc = rc ? rc : make_whole(t, (const char *)t->quoted.data, t->quoted.len);
	if (!rc)
		fwrite(t->whole.data, 1, t->whole.len, t->f);
	return rc;
}

void text_number(FILE *f, uint64_t n)
{
	char digits[20];
	size_t i = sizeof(digits);
	do
		digits[--i] = (char)('0' + n % 10);
	while (n /= 10);
	while (i < sizeof(digits))
		putc_unlocked(digits[i++], f);
}

int text_set(struct text *t, const struct query *q, uint32_t set)
{
	char value[TEXT_NAME_MAX];
	const struct label *labels;
	size_t n = query_set(q, set, &labels);
	int rc = 0;
	t->room.len = 0;
	for (size_t i = 0; !rc && i < n; i++) {
		size_t len = label_text(&labels[i], value, sizeof(value));
		len = len < sizeof(value) ? len : sizeof(value) - 1;
		if (n > 1) {
			rc = i ? buf_add(&t->room, ", ", 2) : 0;
			rc = rc ? rc : buf_add(&t->room, labels[i].key, labels[i].key_len);
			rc = rc ? rc : buf_add(&t->room, "=", 1);
		}
		rc = rc ? rc : len ? buf_add(&t->room, value, len) : buf_add(&t->room, "\"\"", 2);
	}
	if (!rc && !t->room.len)
		rc = buf_add(&t->room, "(none)", 6);
	return rc ? rc : buf_add(&t->room, "", 1);
}

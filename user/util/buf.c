/* SPDX-License-Identifier: Apache-2.0 */
#include "util/buf.h"

#include <endian.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int buf_grow(struct buf *b, size_t n)
{
	if (n > SIZE_MAX / 2 - b->len)
		return -ENOMEM;
	size_t cap = b->cap ? b->cap : 64;
	while (cap < b->len + n)
		cap *= 2;
	uint8_t *data = realloc(b->data, cap);
	if (!data)
		return -ENOMEM;
	room_begin(data, b->len + n, cap);
	b->data = data;
	b->cap = cap;
	return 0;
}

int buf_add(struct buf *b, const void *data, size_t len)
{
	if (!len)
		return 0;
	int rc = buf_reserve(b, len);
	if (rc)
		return rc;
	memcpy(b->data + b->len, data, len);
	b->len += len;
	return 0;
}

int buf_add_u32(struct buf *b, uint32_t v)
{
	v = htole32(v);
	return buf_add(b, &v, sizeof(v));
}

int buf_add_u64(struct buf *b, uint64_t v)
{
	v = htole64(v);
	return buf_add(b, &v, sizeof(v));
}

int buf_add_long_varint(struct buf *b, uint64_t v)
{
	uint8_t out[10];
	size_t n = 0;
	while (v >= 0x80) {
		out[n++] = (uint8_t)(v | 0x80);
		v >>= 7;
	}
	out[n++] = (uint8_t)v;
	return buf_add(b, out, n);
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)
		return -EINVAL;
	int rc = buf_reserve(b, (size_t)n + 1);
	if (rc)
		return rc;
	va_start(ap, fmt);
	vsnprintf((char *)b->data + b->len, (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->len += (size_t)n;
	return 0;
}

void buf_fini(struct buf *b)
{
	if (!b)
		return;
	free(b->data);
	*b = (struct buf)BUF_INIT;
}

const uint8_t *cursor_bytes(struct cursor *c, size_t len)
{
	if (c->bad || len > cursor_left(c)) {
		c->bad = 1;
		return NULL;
	}
	const uint8_t *p = c->p;
	c->p += len;
	return p;
}

static uint64_t read_le(struct cursor *c, size_t n)
{
	const uint8_t *p = cursor_bytes(c, n);
	uint64_t v = 0;
	for (size_t i = 0; p && i < n; i++)
		v |= (uint64_t)p[i] << (8 * i);
	return v;
}

uint32_t cursor_u32(struct cursor *c)
{
	return (uint32_t)read_le(c, 4);
}

uint64_t cursor_u64(struct cursor *c)
{
	return read_le(c, 8);
}

uint64_t cursor_long_varint(struct cursor *c)
{
	uint64_t v = 0;
	for (unsigned shift = 0; shift < 64; shift += 7) {
		uint8_t b = cursor_u8(c);
		if (shift == 63 && b > 1)
			break;
		v |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80))
			return c->bad ? 0 : v;
	}
	c->bad = 1;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growable array of bytes. data is NULL while empty; len <= cap always. Not thread-safe.
 * All calls that grow return 0 or -ENOMEM and leave the buffer as it was on failure. So results of
 * several calls may be or-ed (rc |= ...) where what was added before is thrown away on failure.
 */
#ifndef ASCRIBE_UTIL_BUF_H
#define ASCRIBE_UTIL_BUF_H

#include "util/room.h"

#include <stddef.h>
#include <stdint.h>

struct buf {
	uint8_t *data;
	size_t len;
	size_t cap;
};

#define BUF_INIT { NULL, 0, 0 }

int buf_grow(struct buf *b, size_t n);
/* Room for n more bytes behind len. */
static inline int buf_reserve(struct buf *b, size_t n)
{
	if (n > b->cap - b->len)
		return buf_grow(b, n);
	room_ask(b->data, b->len + n);
	return 0;
}

int buf_add(struct buf *b, const void *data, size_t len);
static inline int buf_add_u8(struct buf *b, uint8_t v)
{
	int rc = buf_reserve(b, 1);
	if (!rc)
		b->data[b->len++] = v;
	return rc;
}

/* Little-endian, whatever the machine. */
int buf_add_u32(struct buf *b, uint32_t v);
int buf_add_u64(struct buf *b, uint64_t v);
int buf_add_long_varint(struct buf *b, uint64_t v);
/* LEB128, at most 10 bytes. */
static inline int buf_add_varint(struct buf *b, uint64_t v)
{
	return v < 0x80 ? buf_add_u8(b, (uint8_t)v) : buf_add_long_varint(b, v);
}

int buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Free the memory and make the buffer empty; NULL is fine. */
void buf_fini(struct buf *b);

/*
 * A reader over bytes that somebody else owns. After an attempt to read past the end `bad` stays
 * set and every further read gives 0, so that a decoder may check once.
 */
struct cursor {
	const uint8_t *p;
	const uint8_t *end;
	int bad;
};

uint32_t cursor_u32(struct cursor *c);
uint64_t cursor_u64(struct cursor *c);
uint64_t cursor_long_varint(struct cursor *c);
/* The next len bytes, or NULL. */
const uint8_t *cursor_bytes(struct cursor *c, size_t len);

/* Over what a buffer holds; it may be empty. */
static inline struct cursor cursor_of(const struct buf *b)
{
	const uint8_t *p = b->data ? b->data : (const uint8_t *)"";
	return (struct cursor){ p, p + b->len, 0 };
}

static inline size_t cursor_left(const struct cursor *c)
{
	return (size_t)(c->end - c->p);
}

static inline uint8_t cursor_u8(struct cursor *c)
{
	if (c->p < c->end && !c->bad)
		return *c->p++;
	c->bad = 1;
	return 0;
}

/* Most have one byte or two: those are read where they are asked for. */
static inline uint64_t cursor_varint(struct cursor *c)
{
	if (c->p < c->end && !c->bad && *c->p < 0x80)
		return *c->p++;
	if (cursor_left(c) > 1 && !c->bad && c->p[1] < 0x80) {
		uint64_t v = (uint64_t)(c->p[0] & 0x7f) | (uint64_t)c->p[1] << 7;
		c->p += 2;
		return v;
	}
	return cursor_long_varint(c);
}

/* Below 2^32, or c is bad. */
static inline uint32_t cursor_varint32(struct cursor *c)
{
	uint64_t v = cursor_varint(c);
	if (v > UINT32_MAX)
		c->bad = 1;
	return (uint32_t)v;
}

/* A cursor of its own over the next len bytes; it is bad when there are fewer. */
static inline struct cursor cursor_part(struct cursor *c, uint64_t len)
{
	const uint8_t *p = cursor_bytes(c, len);
	p = p ? p : (const uint8_t *)"";
	return (struct cursor){ p, p + (c->bad ? 0 : len), c->bad };
}

#endif

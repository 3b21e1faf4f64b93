/* SPDX-License-Identifier: Apache-2.0 */
#include "store/file/bits.h"

#include "store/file/decompress.h"
#include "store/file/format.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

/* So that the bits of one value and the rest of a byte fit into 64 */
#define VALUE_MAX (1ull << 32)

struct bit_writer {
	struct buf *out;
	uint64_t bits;
	unsigned int n;
};

static int put_bits(struct bit_writer *w, uint64_t v, unsigned int n)
{
	int rc = 0;
	w->bits |= v << w->n;
	for (w->n += n; !rc && w->n >= 8; w->n -= 8) {
		rc = buf_add_u8(w->out, (uint8_t)w->bits);
		w->bits >>= 8;
	}
	return rc;
}

static unsigned int bits_of(uint64_t v)
{
	return 63u - (unsigned int)__builtin_clzll(v + 1);
}

static size_t varint_size(uint64_t v)
{
	return v ? (63u - (unsigned int)__builtin_clzll(v)) / 7 + 1 : 1;
}

/* Split into the classes, one byte per value, and the bits. */
static int split(const void *data, size_t len, struct buf *classes, struct buf *bits)
{
	struct cursor c = { data, (const uint8_t *)data + len, 0 };
	struct bit_writer w = { .out = bits };
	int rc = buf_reserve(classes, len);
	while (!rc && cursor_left(&c)) {
		const uint8_t *at = c.p;
		uint64_t v = cursor_varint(&c);
		if (c.bad || v >= VALUE_MAX || (size_t)(c.p - at) != varint_size(v))
			return -EINVAL;
		unsigned int b = bits_of(v);
		classes->data[classes->len++] = (uint8_t)b; /* a varint has a byte at least */
		rc = put_bits(&w, (v + 1) & ((1ull << b) - 1), b);
	}
	if (!rc && w.n)
		rc = buf_add_u8(bits, (uint8_t)w.bits);
	return rc;
}

int bits_pack(struct buf *out, const void *data, size_t len)
{
	struct buf classes = BUF_INIT, bits = BUF_INIT, packed = BUF_INIT;
	int rc = len ? split(data, len, &classes, &bits) : -EINVAL;
	size_t n = 0;
	if (!rc)
		rc = buf_reserve(&packed, ZSTD_compressBound(classes.len));
	if (!rc)
		n = ZSTD_compress(packed.data, packed.cap, classes.data, classes.len,
				  COMPRESSION_LEVEL_BITS);
	if (!rc && ZSTD_isError(n))
		rc = -ENOMEM;
	if (!rc)
		rc = buf_add_varint(out, classes.len);
	if (!rc)
		rc = buf_add_varint(out, n);
	if (!rc)
		rc = buf_add(out, packed.data, n);
	if (!rc && bits.len)
		rc = buf_add(out, bits.data, bits.len);
	buf_fini(&classes);
	buf_fini(&bits);
	buf_fini(&packed);
	return rc;
}

/* The bits behind the highest one of each value, from their lowest on. */
struct bit_reader {
	const uint8_t *p, *end;
	uint64_t have; /* the n lowest are next */
	unsigned int n;
};

/* At least 32 bits, or all there are. */
static inline void need_bits(struct bit_reader *r)
{
	uint64_t next;
	if (r->n >= 32)
		return;
	if ((size_t)(r->end - r->p) >= sizeof(next)) {
		memcpy(&next, r->p, sizeof(next));
		r->have |= le64toh(next) << r->n;
		r->p += (63 - r->n) / 8;
		r->n |= 56; /* what stands above that many bits is read again */
		r->have &= (1ull << r->n) - 1;
		return;
	}
	for (; r->n <= 56 && r->p < r->end; r->n += 8)
		r->have |= (uint64_t)*r->p++ << r->n;
}

/* As buf_add_varint, where there is room for 5 bytes. */
static inline uint8_t *put_varint(uint8_t *to, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		*to++ = (uint8_t)(v | 0x80);
	*to++ = (uint8_t)v;
	return to;
}

/* Behind what is expected, so that only one place is looked at before a value is written */
#define VARINT_SLACK 8

/* Room for raw_len + VARINT_SLACK was made. */
static int join(struct buf *out, const uint8_t *classes, size_t n, const struct cursor *bits,
		size_t raw_len)
{
	struct bit_reader r = { .p = bits->p, .end = bits->end };
	uint8_t *to = out->data + out->len, *end = to + raw_len;
	for (size_t i = 0; i < n; i++) {
		unsigned int b = classes[i];
		need_bits(&r);
		if (b > 32 || b > r.n || to >= end)
			return -EBADMSG;
		to = put_varint(to, (1ull << b | (r.have & ((1ull << b) - 1))) - 1);
		r.have >>= b;
		r.n -= b;
	}
	/* Less than a byte is left, of zeros. */
	if (to != end || r.p != r.end || r.n >= 8 || r.have)
		return -EBADMSG;
	out->len += raw_len;
	return 0;
}

int bits_unpack(struct buf *out, const uint8_t *data, size_t len, size_t raw_len)
{
	struct cursor c = { data, data + len, 0 };
	uint64_t n = cursor_varint(&c), n_packed = cursor_varint(&c);
	const uint8_t *packed = cursor_bytes(&c, n_packed);
	if (c.bad || !n || n > raw_len) /* a varint has a byte at least */
		return -EBADMSG;
	uint8_t *classes = malloc(n);
	int rc = classes && raw_len <= SIZE_MAX - VARINT_SLACK
			 ? buf_reserve(out, raw_len + VARINT_SLACK)
			 : -ENOMEM;
	if (!rc && decompress(classes, n, packed, n_packed) != n)
		rc = -EBADMSG;
	if (!rc)
		rc = join(out, classes, n, &c, raw_len);
	free(classes);
	return rc;
}

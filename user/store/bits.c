/* SPDX-License-Identifier: Apache-2.0 */
#include "store/bits.h"

#include "store/format.h"

#include <errno.h>
#include <stdlib.h>
#include <zstd.h>

#define VALUE_MAX (1ull << 32) /* so that the bits of one value and the rest of a byte fit into 64 */

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
		rc = buf_add_u8(classes, (uint8_t)b);
		if (!rc)
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
		n = ZSTD_compress(packed.data, packed.cap, classes.data, classes.len, COMPRESSION_LEVEL_BITS);
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

static int join(struct buf *out, const uint8_t *classes, size_t n, struct cursor *bits, size_t raw_len)
{
	uint64_t have = 0;
	unsigned int n_have = 0;
	size_t end = out->len + raw_len;
	for (size_t i = 0; i < n; i++) {
		unsigned int b = classes[i];
		if (b > 32)
			return -EBADMSG;
		for (; n_have < b; n_have += 8)
			have |= (uint64_t)cursor_u8(bits) << n_have;
		uint64_t v = (1ull << b | (have & ((1ull << b) - 1))) - 1;
		have >>= b;
		n_have -= b;
		if (bits->bad || varint_size(v) > end - out->len)
			return -EBADMSG;
		buf_add_varint(out, v); /* there is room */
	}
	return out->len == end && !have && !cursor_left(bits) ? 0 : -EBADMSG;
}

int bits_unpack(struct buf *out, const uint8_t *data, size_t len, size_t raw_len)
{
	struct cursor c = { data, data + len, 0 };
	uint64_t n = cursor_varint(&c), n_packed = cursor_varint(&c);
	const uint8_t *packed = cursor_bytes(&c, n_packed);
	if (c.bad || !n || n > raw_len) /* a varint has a byte at least */
		return -EBADMSG;
	uint8_t *classes = malloc(n);
	int rc = classes ? buf_reserve(out, raw_len) : -ENOMEM;
	size_t before = out->len;
	if (!rc && ZSTD_decompress(classes, n, packed, n_packed) != n)
		rc = -EBADMSG;
	if (!rc)
		rc = join(out, classes, n, &c, raw_len);
	if (rc)
		out->len = before;
	free(classes);
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How bytes are packed: codec 2 by an encoder of its own, bit by bit as docs/format.md has it, and
 * which codec is taken where.
 */
#include "store/file/bits.h"
#include "store/file/columns.h"
#include "store/file/format.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define VALUES 90
#define ROOM 1024

static uint64_t random_state = 5;

static uint32_t draw(uint32_t below)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(random_state >> 33) % below;
}

/* ---- codec 2 ---- */

struct bytes {
	uint8_t v[ROOM];
	size_t n;
};

static void put(struct bytes *b, uint64_t byte)
{
	assert_true(b->n < ROOM);
	b->v[b->n++] = (uint8_t)byte;
}

static void put_varint(struct bytes *b, uint64_t v)
{
	for (; v > 127; v /= 128)
		put(b, v % 128 + 128);
	put(b, v);
}

/* The frame of classes, packed, behind its two numbers; then the bits. */
static void put_packed(struct bytes *out, const struct bytes *classes, const struct bytes *bits)
{
	uint8_t frame[ROOM];
	size_t n = ZSTD_compress(frame, sizeof(frame), classes->v, classes->n, 1);
	assert_false(ZSTD_isError(n));
	put_varint(out, classes->n);
	put_varint(out, n);
	for (size_t i = 0; i < n; i++)
		put(out, frame[i]);
	for (size_t i = 0; i < bits->n; i++)
		put(out, bits->v[i]);
}

/* Varints as they are; their classes; the bits behind the highest one of value + 1. */
static void encode(const uint64_t *v, size_t n, struct bytes *plain, struct bytes *classes,
		   struct bytes *bits)
{
	size_t n_bits = 0;
	*plain = *classes = *bits = (struct bytes){ .n = 0 };
	for (size_t i = 0; i < n; i++) {
		int class = 0;
		put_varint(plain, v[i]);
		for (uint64_t x = v[i] + 1; x > 1; x /= 2)
			class ++;
		put(classes, (uint64_t)class);
		for (int k = 0; k < class; k++, n_bits++) {
			if (n_bits % 8 == 0)
				put(bits, 0);
			bits->v[bits->n - 1] |= (uint8_t)((v[i] + 1) >> k & 1) << n_bits % 8;
		}
	}
}

static int unpack(const struct bytes *packed, size_t raw_len, struct buf *out)
{
	out->len = 0;
	assert_int_equal(buf_add(out, "before", 6), 0);
	return bits_unpack(out, packed->v, packed->n, raw_len);
}

static void check_values(const uint64_t *v, size_t n)
{
	struct bytes plain, classes, bits, packed = { .n = 0 };
	struct buf out = BUF_INIT;
	uint8_t frame[ROOM];
	encode(v, n, &plain, &classes, &bits);
	assert_int_equal(bits_pack(&out, plain.v, plain.n), 0);
	struct cursor c = cursor_of(&out);
	assert_int_equal(cursor_varint(&c), n);
	size_t len = cursor_varint(&c);
	const uint8_t *p = cursor_bytes(&c, len);
	assert_non_null(p);
	assert_int_equal(ZSTD_decompress(frame, sizeof(frame), p, len), n);
	assert_memory_equal(frame, classes.v, n);
	assert_int_equal(cursor_left(&c), bits.n);
	assert_memory_equal(c.p, bits.v, bits.n);
	/* And back, from the other encoder. */
	put_packed(&packed, &classes, &bits);
	assert_int_equal(unpack(&packed, plain.n, &out), 0);
	assert_int_equal(out.len, 6 + plain.n);
	assert_memory_equal(out.data, "before", 6);
	assert_memory_equal(out.data + 6, plain.v, plain.n);
	/* A byte more or less than there are. */
	assert_int_equal(unpack(&packed, plain.n + 1, &out), -EBADMSG);
	assert_int_equal(unpack(&packed, plain.n - 1, &out), -EBADMSG);
	put(&packed, 0);
	assert_int_equal(unpack(&packed, plain.n, &out), -EBADMSG);
	packed.n -= 2;
	assert_int_equal(unpack(&packed, plain.n, &out), -EBADMSG);
	buf_fini(&out);
}

/* Of each width alone, at both of its ends; then of all widths in any number. */
static void every_width(void **state)
{
	uint64_t v[VALUES];
	(void)state;
	for (unsigned width = 0; width <= 32; width++)
		for (size_t n = 1; n <= 9; n++)
			for (int high = 0; high < 2; high++) {
				uint64_t least = (1ull << width) - 1;
				uint64_t most = width < 32 ? 2 * least : least;
				for (size_t i = 0; i < n; i++)
					v[i] = high ? most : least;
				check_values(v, n);
			}
	for (size_t n = 1; n <= VALUES; n++) {
		for (size_t i = 0; i < n; i++)
			v[i] = ((uint64_t)draw(1u << 31) << 1 | draw(2)) >> draw(33);
		check_values(v, n);
	}
}

/* Bytes that are no varints of this form: they stay as they are. */
static void not_packed(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
	} wrong[] = {
		{ "", 0 },
		{ "\x80", 1 },		       /* cut short */
		{ "\x80\x00", 2 },	       /* 0 in two bytes */
		{ "\xff\x00", 2 },	       /* 127 in two bytes */
		{ "\x80\x80\x80\x80\x10", 5 }, /* 2^32 */
		{ "\x01\x80\x00", 3 },
	};
	struct buf out = BUF_INIT;
	uint8_t codec;
	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(bits_pack(&out, wrong[i].bytes, wrong[i].len), -EINVAL);
		out.len = 0;
		assert_int_equal(codec_pack_varints(&out, wrong[i].bytes, wrong[i].len, &codec), 0);
		assert_int_equal(codec, CODEC_RAW);
		assert_int_equal(out.len, wrong[i].len);
	}
	/* At the end, behind many bits. */
	char late[402];
	for (size_t i = 0; i < 400; i += 2)
		memcpy(late + i, "\xff\x7f", 2);
	memcpy(late + 400, "\x80\x00", 2);
	assert_int_equal(bits_pack(&out, late, 400), 0);
	out.len = 0;
	assert_int_equal(bits_pack(&out, late, 402), -EINVAL);
	assert_int_equal(bits_pack(&out, late, 401), -EINVAL);
	assert_int_equal(out.len, 0);
	buf_fini(&out);
}

/* Classes and bits that no encoder writes. */
static void damaged_bits(void **state)
{
	static const struct {
		uint8_t class;
		const char *bits;
		size_t n_bits, raw_len;
		int rc;
	} cases[] = {
		{ 8, "\x00", 1, 2, 0 },	       /* 255 */
		{ 7, "\x00", 1, 1, 0 },	       /* 127: a bit is left, a zero */
		{ 7, "\x80", 1, 1, -EBADMSG }, /* a one */
		{ 0, "", 0, 1, 0 },	       /* 0 */
		{ 0, "\x00", 1, 1, -EBADMSG }, /* a byte that nobody needs */
		{ 32, "\xff\xff\xff\xff", 4, 5, 0 },
		{ 32, "\xff\xff\xff", 3, 5, -EBADMSG },
		{ 33, "\xff\xff\xff\xff\x01", 5, 5, -EBADMSG },
		{ 255, "\xff\xff\xff\xff\x01", 5, 5, -EBADMSG },
	};
	struct buf out = BUF_INIT;
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bytes packed = { .n = 0 }, classes = { .v = { cases[i].class }, .n = 1 },
			     bits = { .n = cases[i].n_bits };
		memcpy(bits.v, cases[i].bits, bits.n);
		put_packed(&packed, &classes, &bits);
		assert_int_equal(unpack(&packed, cases[i].raw_len, &out), cases[i].rc);
	}
	/* No value at all; more values than bytes; another number than the frame has. */
	static const uint64_t numbers[] = { 0, 1, 3, 4, 5 };
	for (size_t i = 0; i < 5; i++) {
		uint8_t frame[ROOM], zeros[4] = { 0 };
		struct bytes packed = { .n = 0 };
		size_t n = ZSTD_compress(frame, sizeof(frame), zeros, 4, 1);
		put_varint(&packed, numbers[i]);
		put_varint(&packed, n);
		for (size_t k = 0; k < n; k++)
			put(&packed, frame[k]);
		assert_int_equal(unpack(&packed, 4, &out), numbers[i] == 4 ? 0 : -EBADMSG);
		packed.n = 3;
		assert_int_equal(unpack(&packed, 4, &out), -EBADMSG);
	}
	buf_fini(&out);
}

/* ---- which codec ---- */

/* Where it does not get smaller it stays as it is: also of one length. */
static void only_where_smaller(void **state)
{
	uint8_t data[200], frame[ROOM], codec = 9;
	size_t same = 0, smaller = 0;
	struct buf out = BUF_INIT;
	(void)state;
	for (size_t random = 1; random < 100; random++)
		for (size_t rest = 0; rest < 40; rest++) {
			const size_t len = random + rest;
			for (size_t i = 0; i < len; i++)
				data[i] = i < random ? (uint8_t)draw(256) : 0;
			size_t n =
				ZSTD_compress(frame, sizeof(frame), data, len, COMPRESSION_LEVEL);
			out.len = 0;
			assert_int_equal(codec_pack(&out, data, len, &codec), 0);
			assert_int_equal(codec, n < len ? CODEC_ZSTD : CODEC_RAW);
			assert_int_equal(out.len, n < len ? n : len);
			same += n == len;
			smaller += n < len;
		}
	assert_true(same > 3 && smaller > 100);
	out.len = 0;
	assert_int_equal(codec_pack(&out, data, 0, &codec), 0);
	assert_int_equal(codec, CODEC_RAW);
	assert_int_equal(out.len, 0);
	buf_fini(&out);
}

/* Pieces below 128 bytes are not worth it. */
static void small_pieces(void **state)
{
	static const uint8_t zeros[128];
	struct buf out = BUF_INIT;
	uint8_t codec;
	(void)state;
	assert_int_equal(codec_pack_piece(&out, zeros, 127, &codec), 0);
	assert_int_equal(codec, CODEC_RAW);
	assert_int_equal(out.len, 127);
	assert_int_equal(codec_pack_piece(&out, zeros, 128, &codec), 0);
	assert_int_equal(codec, CODEC_ZSTD);
	assert_in_range(out.len, 128, 160);
	buf_fini(&out);
}

/* By bits where it is smaller by a 32nd at least, whatever stands before it. */
static void varints(void **state)
{
	(void)state;
	for (size_t before = 0; before < 3; before++)
		for (uint32_t period = 1; period <= 400; period += 133) {
			struct buf in = BUF_INIT, out = BUF_INIT, bits = BUF_INIT, zstd = BUF_INIT;
			uint64_t v[400];
			uint8_t codec, plain;
			for (size_t i = 0; i < period; i++)
				v[i] = draw(1u << 20);
			for (size_t i = 0; i < 4000; i++)
				assert_int_equal(buf_add_varint(&in, v[i % period]), 0);
			for (size_t i = 0; i < 10000 * before; i++)
				assert_int_equal(buf_add_u8(&out, 'x'), 0);
			assert_int_equal(codec_pack_varints(&out, in.data, in.len, &codec), 0);
			assert_int_equal(bits_pack(&bits, in.data, in.len), 0);
			assert_int_equal(codec_pack(&zstd, in.data, in.len, &plain), 0);
			bool by_bits = bits.len * 33 / 32 < zstd.len;
			const struct buf *want = by_bits ? &bits : &zstd;
			assert_int_equal(codec, by_bits ? CODEC_BITS : plain);
			assert_int_equal(out.len, 10000 * before + want->len);
			assert_memory_equal(out.data + 10000 * before, want->data, want->len);
			buf_fini(&in);
			buf_fini(&out);
			buf_fini(&bits);
			buf_fini(&zstd);
		}
}

static void wrong_codecs(void **state)
{
	static const uint8_t zeros[300];
	uint8_t frame[ROOM], empty[ROOM];
	struct buf out = BUF_INIT;
	(void)state;
	size_t n = ZSTD_compress(frame, sizeof(frame), zeros, 300, 1),
	       n_empty = ZSTD_compress(empty, sizeof(empty), "", 0, 1);
	assert_int_equal(codec_unpack(&out, CODEC_ZSTD, frame, n, 300), 0);
	assert_int_equal(out.len, 300);
	assert_int_equal(codec_unpack(&out, CODEC_RAW, frame, n, n), 0);
	assert_int_equal(out.len, 300 + n);
	assert_int_equal(codec_unpack(&out, CODEC_ZSTD, frame, n, 299), -EBADMSG);
	assert_int_equal(codec_unpack(&out, CODEC_ZSTD, frame, n, 301), -EBADMSG);
	assert_int_equal(codec_unpack(&out, CODEC_ZSTD, frame, n - 1, 300), -EBADMSG);
	assert_int_equal(codec_unpack(&out, CODEC_ZSTD, empty, n_empty, 0), -EBADMSG);
	assert_int_equal(codec_unpack(&out, 3, frame, n, 300), -EBADMSG);
	assert_int_equal(codec_unpack(&out, CODEC_RAW, frame, n, n + 1), -EBADMSG);
	assert_int_equal(codec_unpack(&out, CODEC_RAW, frame, n, n - 1), -EBADMSG);
	assert_int_equal(codec_unpack(&out, CODEC_RAW, frame, 0, 0), 0);
	assert_int_equal(out.len, 300 + n); /* nothing of what failed */
	buf_fini(&out);
}

/* ---- columns side by side ---- */

static void split_columns(void **state)
{
	const uint8_t two[] = { 1, 0, 0, 0, 'a', 2, 0, 0, 0, 'b', 'c' };
	struct cursor c[3];
	(void)state;
	assert_int_equal(columns_split(two, 11, c, 2), 0);
	assert_int_equal(cursor_left(&c[0]), 1);
	assert_int_equal(*c[0].p, 'a');
	assert_int_equal(cursor_left(&c[1]), 2);
	assert_int_equal(*c[1].p, 'b');
	assert_int_equal(columns_split(two, 11, c, 1), -EBADMSG);
	assert_int_equal(columns_split(two, 11, c, 3), -EBADMSG);
	for (size_t len = 0; len < 11; len++)
		assert_int_equal(columns_split(two, len, c, 2), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_width),	cmocka_unit_test(not_packed),
		cmocka_unit_test(damaged_bits), cmocka_unit_test(only_where_smaller),
		cmocka_unit_test(small_pieces), cmocka_unit_test(varints),
		cmocka_unit_test(wrong_codecs), cmocka_unit_test(split_columns),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

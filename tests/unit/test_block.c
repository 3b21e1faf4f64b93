/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks: which columns are packed, and that each is read back as it was written; heads that say
 * something else than docs/format.md allows.
 */
#include "store/block/block.h"
#include "util/crc32c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#define BYTES 8192u

/* Columns that are read by pieces stand in the file as they are, however well they would pack. */
static void pieces_are_not_packed(void **state)
{
	static uint8_t zeros[BYTES];
	struct block b = { .info = { .t0_ns = 1, .t1_ns = 2 } };
	struct buf out = BUF_INIT, back = BUF_INIT;
	struct block_head h;
	(void)state;
	for (unsigned c = COLUMN_TOP; c < N_COLUMNS; c++) {
		b.has |= 1u << c;
		assert_int_equal(buf_add(&b.column[c], zeros, BYTES - c), 0);
	}
	assert_int_equal(block_encode(&out, &b), 0);
	assert_int_equal(block_decode_head(&h, out.data, out.len, out.len), 0);
	for (unsigned c = COLUMN_TOP; c < N_COLUMNS; c++) {
		const struct block_column *k = &h.column[c];
		assert_true(block_has(&h, c));
		assert_int_equal(k->raw_len, BYTES - c);
		if (c >= COLUMN_POST_HEAD)
			assert_int_equal(k->stored_len, k->raw_len);
		else
			assert_in_range(k->stored_len, 1, BYTES / 16);
		back.len = 0;
		assert_int_equal(block_unpack(&h, c, out.data + k->at, &back), 0);
		assert_int_equal(back.len, BYTES - c);
		assert_memory_equal(back.data, zeros, back.len);
	}
	buf_fini(&out);
	buf_fini(&back);
	block_fini(&b);
}

/* ---- the head of a block ---- */

#define COUNT(v) (sizeof(v) / sizeof((v)[0]))
#define LARGE (1ull << 32)

struct head {
	uint8_t v[BLOCK_SIZE + 34 * COLUMN_SIZE];
	size_t len;
};

static void put_at(uint8_t *p, uint64_t v, int size)
{
	for (int k = 0; k < size; k++)
		p[k] = (uint8_t)(v >> 8 * k);
}

static const struct {
	int at, size;
	uint64_t v;
} fields[] = {
	{ 0, 8, 100 }, { 8, 8, 200 }, { 16, 8, 300 }, { 24, 1, 5 },    { 25, 1, 0 },
	{ 26, 1, 2 },  { 28, 4, 6 },  { 32, 8, 700 }, { 40, 4, 41 },   { 44, 4, 42 },
	{ 48, 4, 43 }, { 52, 4, 44 }, { 56, 4, 45 },  { 60, 4, 46 },   { 64, 4, 64 },
	{ 68, 4, 68 }, { 72, 4, 72 }, { 76, 4, 76 },  { 80, 4, 80 },   { 84, 4, 84 },
	{ 88, 4, 88 }, { 92, 4, 92 }, { 96, 4, 96 },  { 100, 4, 100 }, { 104, 4, 104 },
};

static void make_head(struct head *h)
{
	*h = (struct head){ .len = BLOCK_SIZE };
	for (size_t i = 0; i < COUNT(fields); i++)
		put_at(h->v + fields[i].at, fields[i].v, fields[i].size);
}

static void add_column(struct head *h, uint8_t id, uint32_t stored)
{
	uint8_t *p = h->v + h->len;
	h->v[25]++;
	h->len += COLUMN_SIZE;
	put_at(p, id, 1);
	put_at(p + 1, 1, 1);
	put_at(p + 4, 1000 + id, 4);
	put_at(p + 8, stored, 4);
	put_at(p + 12, 2000 + id, 4);
}

static int decode_head(struct head *h, uint64_t payload_len, struct block_head *ret)
{
	put_at(h->v + 108, 0, 4);
	put_at(h->v + 108, crc32c(h->v, h->len), 4);
	return block_decode_head(ret, h->v, h->len, payload_len);
}

static void heads(void **state)
{
	struct head h;
	struct block_head d;
	(void)state;
	make_head(&h);
	assert_int_equal(decode_head(&h, BLOCK_SIZE, &d), 0);
	const struct store_block *b = &d.info;
	assert_true(b->t0_ns == 100 && b->t1_ns == 200 && b->boot_ns == 300 && b->level == 5);
	assert_true(b->flags == 2 && b->n_rows == 6 && d.mark.bytes == 700);
	for (uint32_t k = 1; k <= N_DICTS; k++)
		assert_int_equal(d.mark.count[k], 40 + k);
	assert_true(b->seq == 64 && b->n_children == 68 && b->child_lo == 72 && b->child_hi == 76);
	assert_true(b->n_windows == 80 && b->anchor == 84 && b->n_folded == 88);
	assert_true(b->n_table == 92 && b->window_lo == 96 && b->window_hi == 100);
	assert_int_equal(b->idle, 104);
	static const struct {
		int at, size;
		uint64_t v;
		int rc;
	} changes[] = {
		{ 24, 1, 9, 0 },	{ 24, 1, 10, -EBADMSG },
		{ 0, 8, 199, 0 },	{ 0, 8, 200, -EBADMSG },
		{ 28, 4, 1u << 22, 0 }, { 28, 4, (1u << 22) + 1, -EBADMSG },
		{ 88, 4, 1u << 22, 0 }, { 88, 4, (1u << 22) + 1, -EBADMSG },
		{ 92, 4, 1u << 22, 0 }, { 92, 4, (1u << 22) + 1, -EBADMSG },
		{ 72, 4, 76, 0 },	{ 72, 4, 77, -EBADMSG },
	};
	for (size_t i = 0; i < COUNT(changes); i++) {
		make_head(&h);
		put_at(h.v + changes[i].at, changes[i].v, changes[i].size);
		if (decode_head(&h, BLOCK_SIZE, &d) != changes[i].rc)
			fail_msg("change %zu", i);
	}
	/* Any flipped bit; a byte less; a payload that is as long as the head says, or not. */
	make_head(&h);
	assert_int_equal(decode_head(&h, BLOCK_SIZE, &d), 0);
	for (size_t bit = 0; bit < 8 * BLOCK_SIZE; bit++) {
		h.v[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_equal(block_decode_head(&d, h.v, h.len, BLOCK_SIZE), -EBADMSG);
		h.v[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	assert_int_equal(block_decode_head(&d, h.v, BLOCK_SIZE - 1, BLOCK_SIZE), -EBADMSG);
	assert_int_equal(block_decode_head(&d, h.v, h.len, BLOCK_SIZE + 1), -EBADMSG);
	assert_int_equal(block_decode_head(&d, h.v, h.len, BLOCK_SIZE + LARGE), -EBADMSG);
}

static void directories(void **state)
{
	struct head h;
	struct block_head d;
	(void)state;
	make_head(&h);
	add_column(&h, 1, 30);
	add_column(&h, N_COLUMNS, 5); /* of a newer program */
	add_column(&h, N_COLUMNS - 1, 7);
	const uint64_t len = h.len + 42;
	assert_int_equal(decode_head(&h, len, &d), 0);
	assert_int_equal(d.has, 1u << 1 | 1u << (N_COLUMNS - 1));
	assert_int_equal(d.column[1].at, h.len);
	assert_int_equal(d.column[1].raw_len, 1001);
	assert_int_equal(d.column[1].stored_len, 30);
	assert_int_equal(d.column[1].crc, 2001);
	assert_int_equal(d.column[1].codec, 1);
	assert_int_equal(d.column[N_COLUMNS - 1].at, h.len + 35);
	assert_int_equal(decode_head(&h, len - 1, &d), -EBADMSG);
	assert_int_equal(decode_head(&h, len + 1, &d), -EBADMSG);
	h.len -= COLUMN_SIZE; /* the last one is not there */
	assert_int_equal(decode_head(&h, len, &d), -EBADMSG);
	make_head(&h);
	add_column(&h, 1, 30);
	add_column(&h, 1, 30);
	assert_int_equal(decode_head(&h, h.len + 60, &d), -EBADMSG);
	make_head(&h);
	add_column(&h, 1, UINT32_MAX);
	assert_int_equal(decode_head(&h, h.len + 60, &d), -EBADMSG);
	make_head(&h);
	for (uint8_t i = 0; i < 33; i++) {
		assert_int_equal(decode_head(&h, h.len, &d), 0);
		add_column(&h, 100 + i, 0);
	}
	assert_int_equal(decode_head(&h, h.len, &d), -EBADMSG); /* 33 columns */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_are_not_packed),
		cmocka_unit_test(heads),
		cmocka_unit_test(directories),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

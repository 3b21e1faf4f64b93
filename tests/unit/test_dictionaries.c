/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of dictionaries as docs/format.md has them, and with one thing wrong in each. */
#include "store/dict/dict.h"
#include "store/file/columns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#define COLUMNS 9
#define LARGE (1ull << 33)

/* The columns of a frame in the making. */
static struct buf columns[COLUMNS];

static void put(size_t column, uint64_t v)
{
	assert_int_equal(buf_add_varint(&columns[column], v), 0);
}

static void put_signed(size_t column, int64_t v)
{
	put(column, v < 0 ? 2 * (uint64_t)-v - 1 : 2 * (uint64_t)v);
}

static void put_text(size_t column, const char *text)
{
	assert_int_equal(buf_add(&columns[column], text, strlen(text)), 0);
}

/* Decode what was put, as n entries with so many columns. */
static int decode(struct dicts *d, enum kind kind, size_t n_columns, uint32_t n)
{
	struct buf out = BUF_INIT;
	for (size_t i = 0; i < n_columns; i++) {
		assert_int_equal(buf_add_u32(&out, (uint32_t)columns[i].len), 0);
		assert_int_equal(buf_add(&out, columns[i].data, columns[i].len), 0);
		buf_fini(&columns[i]);
	}
	int rc = dicts_decode(d, kind, out.data, out.len, n);
	buf_fini(&out);
	return rc;
}

static int add_string(struct dicts *d, const char *text)
{
	put(0, 0);
	put(2, strlen(text));
	put_text(3, text);
	return decode(d, KIND_STRINGS, 4, 1);
}

/* The eight fields in their order. */
static int add_frame(struct dicts *d, const uint64_t v[8])
{
	for (size_t i = 0; i < 8; i++)
		put_signed(i, (int64_t)v[i]);
	return decode(d, KIND_FRAMES, 8, 1);
}

static int add_stack(struct dicts *d, uint64_t back, int64_t frame)
{
	put(0, back);
	put_signed(1, frame);
	return decode(d, KIND_STACKS, 2, 1);
}

static int add_leaf(struct dicts *d, int64_t stack)
{
	put_signed(0, stack);
	return decode(d, KIND_LEAVES, 1, 1);
}

/* One label, with a new string before it unless text is NULL. */
static int add_set(struct dicts *d, const char *text, uint64_t n, uint64_t key, uint8_t type,
		   uint64_t value)
{
	if (text) {
		put(0, 0);
		put(2, strlen(text));
		put_text(3, text);
	}
	put(4, text != NULL);
	put(5, n);
	put(6, key);
	put(7, type);
	put(8, value);
	return decode(d, KIND_SETS, 9, 1);
}

static int add_event(struct dicts *d, const char *name, uint64_t name_len, const char *unit)
{
	put(0, name_len);
	put_text(0, name);
	put(0, strlen(unit));
	put_text(0, unit);
	put(0, 5);
	put(0, 6);
	return decode(d, KIND_EVENTS, 1, 1);
}

/* Three strings, a frame, a stack, and whatever stands before it. */
static void begin(struct dicts *d)
{
	assert_int_equal(dicts_init(d, false), 0);
	assert_int_equal(add_string(d, "function"), 0);
	assert_int_equal(add_string(d, "/bin/x"), 0);
	assert_int_equal(add_frame(d, (uint64_t[8]){ 1, 1, 1, 2, 2, 1, 77, 5 }), 0);
	assert_int_equal(add_stack(d, 1, 1), 0);
}

static void as_written(void **state)
{
	struct dicts d;
	const struct set_label *v;
	(void)state;
	begin(&d);
	const struct store_frame *f = &d.frames[1];
	assert_int_equal(f->kind, 1);
	assert_int_equal(f->flags, 1);
	assert_int_equal(f->function, 1);
	assert_int_equal(f->module, 2);
	assert_int_equal(f->build_id, 2);
	assert_int_equal(f->file, 1);
	assert_int_equal(f->line, 77);
	assert_int_equal(f->offset, 5);
	assert_int_equal(d.stacks[1].parent, 0);
	assert_int_equal(d.stacks[1].frame, 1);
	assert_int_equal(add_stack(&d, 1, 1), 0);
	assert_int_equal(d.stacks[2].parent, 1);
	assert_int_equal(add_leaf(&d, 2), 0);
	assert_int_equal(d.leaves[1], 2);
	assert_int_equal(add_set(&d, "key", 1, 1, LABEL_INT, 9), 0);
	assert_int_equal(add_set(&d, "value", 1, 1, LABEL_STRING, 2), 0);
	assert_int_equal(dicts_set(&d, 1, &v), 1);
	assert_int_equal((int64_t)v->value, -5); /* 9 is -5 in zigzag */
	assert_int_equal(dicts_set(&d, 2, &v), 1);
	assert_int_equal(v->value, 2);
	assert_int_equal(dicts_set(&d, 3, &v), 0);
	assert_int_equal(add_event(&d, "clock", 5, "ns"), 0);
	assert_string_equal(d.events[0].name, "clock");
	assert_string_equal(d.events[0].unit, "ns");
	assert_int_equal(d.events[0].ns_per_sample, 5);
	assert_int_equal(d.events[0].period, 6);
	dicts_fini(&d);
}

/* Of each field: a name that is not there, and more than 32 bits; but the offset has 64. */
static void wrong_frames(void **state)
{
	(void)state;
	for (size_t i = 0; i < 8; i++) {
		static const uint64_t most[8] = { 255, UINT32_MAX, 2, 2, 2, 2, UINT32_MAX, LARGE };
		struct dicts d;
		uint64_t v[8] = { 0 };
		begin(&d);
		v[i] = most[i];
		assert_int_equal(add_frame(&d, v), 0);
		v[i] = most[i] + 1;
		assert_int_equal(add_frame(&d, v), i == 7 ? 0 : -EBADMSG);
		v[i] = LARGE;
		assert_int_equal(add_frame(&d, v), i == 7 ? 0 : -EBADMSG);
		dicts_fini(&d);
	}
	struct dicts d;
	begin(&d);
	for (size_t i = 0; i < 7; i++)
		put(i, 0);
	assert_int_equal(decode(&d, KIND_FRAMES, 8, 1), -EBADMSG); /* no offset */
	dicts_fini(&d);
}

static void wrong_stacks_and_leaves(void **state)
{
	static const int64_t stacks[][2] = { { 0, 1 }, { 3, 1 }, { 1, 0 }, { 1, 2 }, { 1, -1 } };
	static const int64_t leaves[] = { 0, 2, -1 };
	struct dicts d;
	(void)state;
	begin(&d);
	for (size_t i = 0; i < sizeof(stacks) / sizeof(stacks[0]); i++)
		assert_int_equal(add_stack(&d, (uint64_t)stacks[i][0], stacks[i][1]), -EBADMSG);
	for (size_t i = 0; i < sizeof(leaves) / sizeof(leaves[0]); i++)
		assert_int_equal(add_leaf(&d, leaves[i]), -EBADMSG);
	assert_int_equal(decode(&d, KIND_STACKS, 2, 1), -EBADMSG);
	assert_int_equal(decode(&d, KIND_LEAVES, 1, 1), -EBADMSG);
	assert_int_equal(add_stack(&d, 2, 1), 0); /* of the empty stack */
	assert_int_equal(d.stacks[2].parent, 0);
	dicts_fini(&d);
}

static void wrong_sets_and_events(void **state)
{
	struct dicts d;
	(void)state;
	begin(&d);
	assert_int_equal(add_set(&d, "k", 1, 2, LABEL_INT, 0), -EBADMSG); /* key */
	assert_int_equal(add_set(&d, NULL, 1, 1, LABEL_STRING, 2), -EBADMSG);
	assert_int_equal(add_set(&d, NULL, 1, 1, 2, 0), -EBADMSG);
	assert_int_equal(add_set(&d, NULL, 0, 1, LABEL_INT, 0), -EBADMSG);
	assert_int_equal(add_set(&d, NULL, 2, 1, LABEL_INT, 0), -EBADMSG);
	assert_int_equal(add_set(&d, NULL, 1, 1, LABEL_STRING, 1), 0);
	assert_int_equal(add_event(&d, "clock", 70000, "ns"), -EBADMSG);
	assert_int_equal(add_event(&d, "clock", 65536, "ns"), -EBADMSG);
	put(0, 0);
	put(0, 0);
	put(0, 1);
	assert_int_equal(decode(&d, KIND_EVENTS, 1, 1), -EBADMSG); /* no period */
	dicts_fini(&d);
}

/* A string refers to one before it, at most 16 times in a row. */
static void references(void **state)
{
	struct dicts d;
	char text[40] = "abc";
	(void)state;
	assert_int_equal(dicts_init(&d, false), 0);
	assert_int_equal(add_string(&d, text), 0);
	for (size_t i = 1; i <= 16; i++) {
		put(0, 1);
		put(1, 2 + i);
		put(2, 1);
		put_text(3, "x");
		assert_int_equal(decode(&d, KIND_STRINGS, 4, 1), 0);
		strcat(text, "x");
		assert_string_equal(strings_get(&d.strings, 1 + (uint32_t)i, NULL), text);
	}
	put(0, 1);
	put(1, 19);
	put(2, 1);
	put_text(3, "x");
	assert_int_equal(decode(&d, KIND_STRINGS, 4, 1), -EBADMSG);
	/* How far back, bytes from there, bytes that follow. */
	static const uint64_t wrong[][3] = { { 18, 3, 1 }, /* before the first */
					     { 17, 4, 1 }, /* abc has three */
					     { 17, 0, 0 }, /* nothing */
					     { 17, 3, 2 }, /* one byte follows */
					     { 0, 0, 65536 } };
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		put(0, wrong[i][0]);
		if (wrong[i][0])
			put(1, wrong[i][1]);
		put(2, wrong[i][2]);
		put_text(3, "x");
		assert_int_equal(decode(&d, KIND_STRINGS, 4, 1), -EBADMSG);
	}
	dicts_fini(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_written),
		cmocka_unit_test(wrong_frames),
		cmocka_unit_test(wrong_stacks_and_leaves),
		cmocka_unit_test(wrong_sets_and_events),
		cmocka_unit_test(references),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries of a dictionary go to a file in batches: of 2^18 entries at most, and of texts and values
 * no more once there are 4 MiB. What was written in batches is read as it was.
 */
#include "store/dict/dict.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#define IDS (1u << 18)
#define BYTES (4u << 20)
#define BATCHES_MAX 8

struct batches {
	uint32_t n[BATCHES_MAX], texts[BATCHES_MAX];
	size_t count;
};

/* Write all entries from the first on; read them into `to`. */
static void write_batches(const struct dicts *from, enum kind kind, struct dicts *to,
			  struct batches *ret)
{
	struct dict_mark at = { dicts_first(kind), kind == KIND_SETS ? 1 : 0 }, next;
	*ret = (struct batches){ .count = 0 };
	while (at.next < dicts_count(from, kind)) {
		struct buf out = BUF_INIT;
		assert_true(ret->count < BATCHES_MAX);
		assert_int_equal(dicts_encode(from, kind, &at, &out, &next), 0);
		ret->n[ret->count] = next.next - at.next;
		ret->texts[ret->count] = next.text - at.text;
		assert_int_equal(dicts_decode(to, kind, out.data, out.len, ret->n[ret->count++]),
				 0);
		buf_fini(&out);
		at = next;
	}
	assert_int_equal(dicts_count(to, kind), dicts_count(from, kind));
}

static void check(const struct dicts *from, enum kind kind, struct dicts *to, const uint32_t *want,
		  size_t n)
{
	struct batches b;
	write_batches(from, kind, to, &b);
	assert_int_equal(b.count, n);
	for (size_t i = 0; i < n; i++)
		if (b.n[i] != want[i])
			fail_msg("batch %zu: %u instead of %u", i, b.n[i], want[i]);
}

/* One entry more of each kind than two batches hold. */
static void entries(void **state)
{
	const uint32_t n = 2 * IDS + 1, want[] = { IDS, IDS, 1 };
	struct dicts d, got;
	uint32_t id;
	(void)state;
	assert_int_equal(dicts_init(&d, true), 0);
	assert_int_equal(dicts_init(&got, false), 0);
	for (uint32_t i = 0; i < n; i++) {
		const struct store_frame f = { .kind = FRAME_USER, .offset = (uint64_t)i << 20 };
		char text[16];
		const int len = snprintf(text, sizeof(text), "%x", i);
		assert_int_equal(strings_add(&d.strings, text, (size_t)len, &id), 0);
		assert_int_equal(dicts_add_frame(&d, &f, &id), 0);
		assert_int_equal(dicts_add_stack(&d, i % 3 ? id / 2 : 0, id, &id), 0);
		assert_int_equal(dicts_add_leaf(&d, id, &id), 0);
	}
	check(&d, KIND_STRINGS, &got, want, 3);
	check(&d, KIND_FRAMES, &got, want, 3);
	check(&d, KIND_STACKS, &got, want, 3);
	check(&d, KIND_LEAVES, &got, want, 3);
	for (uint32_t i = 1; i <= n; i++) {
		const char *text = strings_get(&d.strings, i, NULL);
		assert_string_equal(strings_get(&got.strings, i, NULL), text);
		assert_int_equal(got.frames[i].offset, (uint64_t)(i - 1) << 20);
		assert_int_equal(got.stacks[i].frame, i);
		assert_int_equal(got.stacks[i].parent, (i - 1) % 3 ? i / 2 : 0);
		assert_int_equal(got.leaves[i], i);
	}
	dicts_fini(&got);
	dicts_fini(&d);
}

/* Texts none of which begins as another does: of each all bytes are stored. */
static void check_texts(size_t len, uint32_t n, const uint32_t *want, size_t n_want)
{
	static char text[STRING_MAX];
	struct dicts d, got;
	uint32_t id;
	assert_int_equal(dicts_init(&d, true), 0);
	assert_int_equal(dicts_init(&got, false), 0);
	memset(text, 'x', sizeof(text));
	for (uint32_t i = 1; i <= n; i++) {
		text[0] = (char)i;
		assert_int_equal(strings_add(&d.strings, text, len, &id), 0);
	}
	check(&d, KIND_STRINGS, &got, want, n_want);
	for (uint32_t i = 1; i <= n; i++) {
		size_t got_len;
		text[0] = (char)i;
		assert_memory_equal(strings_get(&got.strings, i, &got_len), text, len);
		assert_int_equal(got_len, len);
	}
	dicts_fini(&got);
	dicts_fini(&d);
}

/* 64 of 65,535 bytes are less than 4 MiB, 128 of 32,768 are just as much. */
static void long_texts(void **state)
{
	(void)state;
	check_texts(STRING_MAX, 131, (const uint32_t[]){ 65, 65, 1 }, 3);
	check_texts(1u << 15, 129, (const uint32_t[]){ 128, 1 }, 2);
}

static void add_number(struct dicts *d, const char *key, int64_t v)
{
	const struct label l = {
		.key = key, .key_len = (uint32_t)strlen(key), .type = LABEL_INT, .num = v
	};
	uint32_t id;
	assert_int_equal(dicts_add_set(d, &l, 1, &id), 0);
}

static void check_numbers(const struct dicts *d, int64_t first)
{
	for (uint32_t i = 1; i < d->n_sets; i++) {
		const struct set_label *v;
		assert_int_equal(dicts_set(d, i, &v), 1);
		assert_int_equal((int64_t)v->value, first + i - 1);
		assert_int_equal(v->key, 1);
	}
}

/* Sets of one small number: two batches, and one set more. */
static void many_sets(void **state)
{
	const uint32_t want[] = { IDS, IDS, 1 };
	struct dicts d, got;
	(void)state;
	assert_int_equal(dicts_init(&d, true), 0);
	assert_int_equal(dicts_init(&got, false), 0);
	for (uint32_t i = 0; i < 2 * IDS + 1; i++)
		add_number(&d, "k", i);
	check(&d, KIND_SETS, &got, want, 3);
	check_numbers(&got, 0);
	dicts_fini(&got);
	dicts_fini(&d);
}

/* Sets with many numbers of so many bytes each: a batch ends with the set that fills 4 MiB. */
static void check_large_sets(int64_t first, uint32_t bytes)
{
	enum { LABELS = SET_LABELS_MAX };
	const uint32_t each = bytes * LABELS, full = (BYTES + each - 1) / each,
		       want[] = { full, 1 };
	static char keys[LABELS][4];
	static struct label l[LABELS];
	struct dicts d, got;
	uint32_t id;
	assert_int_equal(dicts_init(&d, true), 0);
	assert_int_equal(dicts_init(&got, false), 0);
	for (uint32_t i = 0; i <= full; i++) {
		for (unsigned k = 0; k < LABELS; k++) {
			snprintf(keys[k], sizeof(keys[k]), "%u", k);
			l[k] = (struct label){ .key = keys[k],
					       .key_len = (uint32_t)strlen(keys[k]),
					       .type = LABEL_INT,
					       .num = first + i };
		}
		assert_int_equal(dicts_add_set(&d, l, LABELS, &id), 0);
	}
	check(&d, KIND_SETS, &got, want, 2);
	for (uint32_t i = 1; i <= full + 1; i++) {
		const struct set_label *v;
		assert_int_equal(dicts_set(&got, i, &v), LABELS);
		for (unsigned k = 0; k < LABELS; k++)
			assert_int_equal((int64_t)v[k].value, first + (int64_t)i - 1);
	}
	dicts_fini(&got);
	dicts_fini(&d);
}

/* Just as many bytes, and more. */
static void large_sets(void **state)
{
	(void)state;
	check_large_sets(1ll << 50, 8);
	check_large_sets(INT64_MIN, 10);
}

/* Texts of sets come first, in frames without a set, but the last of them. */
static void texts_before_sets(void **state)
{
	static char text[STRING_MAX];
	struct dicts d, got;
	struct batches b;
	uint32_t id;
	(void)state;
	assert_int_equal(dicts_init(&d, true), 0);
	assert_int_equal(dicts_init(&got, false), 0);
	memset(text, 'x', sizeof(text));
	for (uint32_t i = 0; i < 131; i++) {
		const struct label l = { .key = "k",
					 .key_len = 1,
					 .str = text,
					 .str_len = sizeof(text),
					 .type = LABEL_STRING };
		text[0] = (char)(1 + i);
		assert_int_equal(dicts_add_set(&d, &l, 1, &id), 0);
	}
	write_batches(&d, KIND_SETS, &got, &b);
	/* The key is a text, too: a byte of the first batch. */
	assert_int_equal(b.count, 3);
	assert_true(b.texts[0] == 66 && b.texts[1] == 65 && b.texts[2] == 1);
	assert_true(!b.n[0] && !b.n[1] && b.n[2] == 131);
	for (uint32_t i = 1; i <= 131; i++) {
		const struct set_label *v;
		size_t len;
		assert_int_equal(dicts_set(&got, i, &v), 1);
		text[0] = (char)i;
		assert_memory_equal(strings_get(&got.label_text, (uint32_t)v->value, &len), text,
				    sizeof(text));
	}
	dicts_fini(&got);
	dicts_fini(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entries),	     cmocka_unit_test(long_texts),
		cmocka_unit_test(many_sets),	     cmocka_unit_test(large_sets),
		cmocka_unit_test(texts_before_sets),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of wide labels: what goes in comes out, whole or in part, and damage is seen. */
#include "unit/store_model.h"

#include "store/block/settable.h"
#include "util/buf.h"

#define SETS 300
#define LABELS_MAX 6
#define KEYS 7
#define COLUMNS 8 /* from COLUMN_TABLE_NARROW on */

struct plain {
	uint32_t narrow;
	size_t n;
	struct settable_label v[LABELS_MAX];
};

struct tables {
	struct plain set[SETS];
	struct settable t;
	struct block b;
	struct buf *raw; /* [COLUMNS] */
	uint32_t n_narrow;
};

/* Every form of a value, and texts that miss one by a character. */
static struct settable_label draw_value(struct model *m)
{
	static const int64_t ints[] = { 0, 1, -1, 300, INT64_MAX, INT64_MIN, INT64_MAX - 5 };
	static const char *const texts[] = {
		"",
		"a",
		"some text",
		"01234567-89ab-cdef-0123-456789abcdef",
		"01234567-89ab-cdef-0123-456789abcdeF",
		"01234567-89ab-cdef-0123-456789abcde",
		"01234567_89ab-cdef-0123-456789abcdef",
		"01234567-89ab_cdef-0123-456789abcdef",
		"01234567-89ab-cdef_0123-456789abcdef",
		"01234567-89ab-cdef-0123_456789abcdef",
		"0123456789abcdef0123456789abcdef",
		"0123456789abcdef0123456789abcdeg",
		"0123456789abcdef0123456789abcde/",
		"0123456789abcdef0123456789abcde:",
		"0123456789abcdef0123456789abcde`",
		"0123456789abcdef0123456789abcdef0",
	};
	struct settable_label l = { .type = LABEL_STRING };
	if (!model_random(m, 3)) {
		l.type = LABEL_INT;
		l.num = model_random(m, 2) ? ints[model_random(m, 7)] : model_random(m, 1000);
		return l;
	}
	char *text = strdup(texts[model_random(m, 16)]);
	if (strlen(text) >= 32 && model_random(m, 2))
		text[model_random(m, 8)] = "0123456789abcdef"[model_random(m, 16)];
	l.str = text;
	l.len = (uint32_t)strlen(text);
	return l;
}

static void make(struct tables *t, uint64_t seed)
{
	struct model m = { .random = seed };
	*t = (struct tables){ .raw = &t->b.column[COLUMN_TABLE_NARROW] };
	uint32_t narrow = 0;
	for (size_t i = 0; i < SETS; i++) {
		struct plain *p = &t->set[i];
		narrow += model_random(&m, 3) ? 0 : model_random(&m, 200);
		p->narrow = narrow;
		p->n = model_random(&m, LABELS_MAX + 1);
		for (size_t k = 0; k < p->n; k++) {
			p->v[k] = draw_value(&m);
			p->v[k].key = model_random(&m, KEYS);
		}
		assert_int_equal(settable_add(&t->t, narrow, p->v, p->n), 0);
	}
	t->n_narrow = narrow + 1;
	assert_int_equal(settable_encode(&t->b, &t->t), 0);
	assert_int_equal(t->b.info.n_table, SETS);
}

static void fini(struct tables *t)
{
	for (size_t i = 0; i < SETS; i++)
		for (size_t k = 0; k < t->set[i].n; k++)
			free((char *)t->set[i].v[k].str);
	settable_fini(&t->t);
	block_fini(&t->b);
}

static bool same_value(const struct settable_label *a, const struct settable_label *b)
{
	return a->type == b->type &&
	       (a->type == LABEL_INT ? a->num == b->num
				     : a->len == b->len && !memcmp(a->str, b->str, a->len));
}

static void check_sets(const struct tables *t, const struct settable *got, bool odd_keys_alone)
{
	assert_int_equal(got->n, SETS);
	for (size_t i = 0; i < SETS; i++) {
		const struct plain *p = &t->set[i];
		size_t n = 0;
		assert_int_equal(got->sets[i].narrow, p->narrow);
		for (size_t k = 0; k < p->n; k++) {
			const struct settable_label *l = &got->labels[got->sets[i].first + n];
			if (odd_keys_alone && !(p->v[k].key & 1))
				continue;
			assert_int_equal(l->key, p->v[k].key);
			assert_true(same_value(l, &p->v[k]));
			n++;
		}
		assert_int_equal(got->sets[i].n, n);
	}
}

static bool is_odd(void *ctx, uint32_t key)
{
	(void)ctx;
	return key & 1;
}

static void what_goes_in_comes_out(void **state)
{
	const struct settable_keys odd = { is_odd, NULL };
	static struct tables t;
	(void)state;
	for (uint64_t seed = 1; seed < 20; seed++) {
		struct settable got;
		make(&t, seed);
		assert_int_equal(settable_decode(&got, t.raw, SETS, t.n_narrow, KEYS, NULL), 0);
		check_sets(&t, &got, false);
		settable_fini(&got);
		assert_int_equal(settable_decode(&got, t.raw, SETS, t.n_narrow, KEYS, &odd), 0);
		check_sets(&t, &got, true);
		settable_fini(&got);
		assert_int_equal(settable_decode_narrow(&got, t.raw, SETS, t.n_narrow), 0);
		for (size_t i = 0; i < SETS; i++) {
			assert_int_equal(got.sets[i].narrow, t.set[i].narrow);
			assert_int_equal(got.sets[i].n, 0);
		}
		settable_fini(&got);
		fini(&t);
	}
}

/* ---- damage ---- */

static int decode(const struct tables *t, const struct buf *raw, size_t n)
{
	struct settable got;
	int rc = settable_decode(&got, raw, n, t->n_narrow, KEYS, NULL);
	if (!rc)
		settable_fini(&got);
	return rc;
}

static int decode_narrow(const struct tables *t, const struct buf *raw, size_t n, uint32_t n_narrow)
{
	struct settable got;
	(void)t;
	int rc = settable_decode_narrow(&got, raw, n, n_narrow);
	if (!rc)
		settable_fini(&got);
	return rc;
}

/* A byte less or more in any column, and numbers out of their range. */
static void damage_is_seen(void **state)
{
	static struct tables t;
	struct settable got;
	struct buf raw[COLUMNS];
	(void)state;
	make(&t, 5);
	for (size_t i = 0; i < COLUMNS; i++) {
		memcpy(raw, t.raw, sizeof(raw));
		assert_true(raw[i].len > 0);
		raw[i].len--;
		assert_int_equal(decode(&t, raw, SETS), -EBADMSG);
		memcpy(raw, t.raw, sizeof(raw));
		raw[i].data = malloc(raw[i].len + 1);
		memcpy(raw[i].data, t.raw[i].data, raw[i].len);
		raw[i].data[raw[i].len++] = 0;
		assert_int_equal(decode(&t, raw, SETS), -EBADMSG);
		if (!i)
			assert_int_equal(decode_narrow(&t, raw, SETS, t.n_narrow), -EBADMSG);
		free(raw[i].data);
	}
	assert_int_equal(decode(&t, t.raw, SETS - 1), -EBADMSG);
	assert_int_equal(decode(&t, t.raw, SETS + 1), -EBADMSG);
	assert_int_equal(decode(&t, t.raw, SIZE_MAX / 2), -EBADMSG);
	assert_int_equal(decode_narrow(&t, t.raw, SETS - 1, t.n_narrow), -EBADMSG);
	assert_int_equal(decode_narrow(&t, t.raw, SETS + 1, t.n_narrow), -EBADMSG);
	assert_int_equal(decode_narrow(&t, t.raw, SIZE_MAX / 2, t.n_narrow), -EBADMSG);
	assert_int_equal(decode_narrow(&t, t.raw, SETS, t.n_narrow - 1), -EBADMSG);
	assert_int_equal(settable_decode(&got, t.raw, SETS, t.n_narrow - 1, KEYS, NULL), -EBADMSG);
	assert_int_equal(settable_decode(&got, t.raw, SETS, t.n_narrow, KEYS - 1, NULL), -EBADMSG);
	fini(&t);
}

/* A type or a number of labels that is none. */
static void bad_types_and_counts(void **state)
{
	struct block b = { .has = 0 };
	struct settable t = { 0 };
	const struct settable_label l = { .type = LABEL_STRING, .str = "abc", .len = 3 };
	struct buf *raw = &b.column[COLUMN_TABLE_NARROW];
	const struct tables one = { .n_narrow = 1 };
	(void)state;
	assert_int_equal(settable_add(&t, 0, &l, 1), 0);
	assert_int_equal(settable_encode(&b, &t), 0);
	assert_int_equal(decode(&one, raw, 1), 0);
	uint8_t *type = raw[COLUMN_TABLE_TYPE - COLUMN_TABLE_NARROW].data;
	for (unsigned i = VALUE_INT; i < 6; i++) {
		*type = (uint8_t)i;
		assert_int_equal(decode(&one, raw, 1), -EBADMSG);
	}
	*type = VALUE_TEXT;
	assert_int_equal(decode(&one, raw, 1), 0);
	struct buf *count = &raw[COLUMN_TABLE_COUNT - COLUMN_TABLE_NARROW];
	count->len = 0;
	assert_int_equal(buf_add_varint(count, SET_LABELS_MAX + 1), 0);
	assert_int_equal(decode(&one, raw, 1), -EBADMSG);
	settable_fini(&t);
	block_fini(&b);
}

/* A value has 65,535 bytes at most, in a table and by itself. */
static void the_longest_value(void **state)
{
	static char text[STRING_MAX + 1];
	const struct tables one = { .n_narrow = 1 };
	(void)state;
	memset(text, 'v', sizeof(text));
	for (uint32_t len = STRING_MAX - 1; len <= STRING_MAX + 1; len++) {
		const int want = len <= 65535 ? 0 : -EBADMSG;
		const struct settable_label l = { .type = LABEL_STRING, .str = text, .len = len };
		struct block b = { .has = 0 };
		struct settable t = { 0 };
		struct settable_label got;
		struct buf alone = BUF_INIT;
		assert_int_equal(settable_add(&t, 0, &l, 1), 0);
		assert_int_equal(settable_encode(&b, &t), 0);
		assert_int_equal(decode(&one, &b.column[COLUMN_TABLE_NARROW], 1), want);
		assert_int_equal(value_encode(&alone, &l), 0);
		struct cursor c = cursor_of(&alone);
		assert_int_equal(value_decode(&c, &got, NULL), want);
		assert_true(want || same_value(&got, &l));
		buf_fini(&alone);
		settable_fini(&t);
		block_fini(&b);
	}
}

/* ---- one value in a table ---- */

static bool is_form(const struct settable_label *l, size_t len)
{
	for (size_t i = 0; i < l->len; i++)
		if (len == 36 && (i == 8 || i == 13 || i == 18 || i == 23)
			    ? l->str[i] != '-'
			    : !strchr("0123456789abcdef", l->str[i]))
			return false;
	return l->type == LABEL_STRING && l->len == len;
}

static void a_value_is_found(void **state)
{
	static struct tables t;
	struct model m = { .random = 99 };
	size_t absent = 0;
	(void)state;
	make(&t, 3);
	for (size_t i = 0; i < 3000; i++) {
		struct settable_label l = draw_value(&m);
		const bool bin = is_form(&l, 36) || is_form(&l, 32);
		bool there = false;
		for (size_t k = 0; k < SETS; k++)
			for (size_t j = 0; j < t.set[k].n; j++)
				there |= same_value(&t.set[k].v[j], &l);
		assert_int_equal(settable_columns(&l), 1u << (l.type == LABEL_INT ? COLUMN_TABLE_INT
							      : bin		  ? COLUMN_TABLE_BIN
								    : COLUMN_TABLE_TEXT));
		bool may = settable_may_have(t.raw, &l);
		assert_true(may || !there);
		if (!there && l.type == LABEL_INT) {
			assert_false(may);
			absent++;
		}
		free((char *)l.str);
	}
	assert_true(absent > 20);
	const struct settable_label none[] = {
		{ .type = LABEL_STRING, .str = "not in it", .len = 9 },
		{ .type = LABEL_STRING, .str = "ffffffffffffffffffffffffffffffff", .len = 32 },
		{ .type = LABEL_STRING, .str = "ffffffff-ffff-ffff-ffff-ffffffffffff", .len = 36 },
	};
	for (size_t i = 0; i < 3; i++)
		assert_false(settable_may_have(t.raw, &none[i]));
	fini(&t);
}

/* The last of three UUIDs is at its own place, not across two. */
static void uuids_are_compared_whole(void **state)
{
	static const char *const text[] = { "00000000000000000000000000000001",
					    "00000000000000000000000000000002",
					    "10000000000000000000000000000003" };
	struct block b = { .has = 0 };
	struct settable t = { 0 };
	struct settable_label v[3];
	(void)state;
	for (size_t i = 0; i < 3; i++)
		v[i] = (struct settable_label){ .type = LABEL_STRING, .str = text[i], .len = 32 };
	assert_int_equal(settable_add(&t, 0, v, 3), 0);
	assert_int_equal(settable_encode(&b, &t), 0);
	const struct buf *raw = &b.column[COLUMN_TABLE_NARROW];
	for (size_t i = 0; i < 3; i++)
		assert_true(settable_may_have(raw, &v[i]));
	/* The bytes of the second one's end and the third one's begin. */
	v[0].str = "00000000000000000000000000000210";
	assert_false(settable_may_have(raw, &v[0]));
	settable_fini(&t);
	block_fini(&b);
}

/* ---- values by themselves, and their order ---- */

static void values_by_themselves(void **state)
{
	struct model m = { .random = 4 };
	(void)state;
	for (size_t i = 0; i < 2000; i++) {
		struct settable_label l = draw_value(&m), got;
		struct buf b = BUF_INIT;
		char text[37];
		assert_int_equal(value_encode(&b, &l), 0);
		struct cursor c = cursor_of(&b);
		assert_int_equal(value_decode(&c, &got, text), 0);
		assert_int_equal(cursor_left(&c), 0);
		assert_true(same_value(&l, &got));
		b.len--;
		c = cursor_of(&b);
		assert_int_equal(value_decode(&c, &got, text), -EBADMSG);
		b.data[0] = VALUE_HEX + 1;
		c = cursor_of(&b);
		assert_int_equal(value_decode(&c, &got, text), -EBADMSG);
		buf_fini(&b);
		free((char *)l.str);
	}
}

/* A key for strcmp: of equal length for what is compared as numbers. */
static void order_key(const struct plain *p, char out[2000])
{
	size_t n = (size_t)sprintf(out, "%08x", p->narrow);
	for (size_t i = 0; i < p->n; i++) {
		const struct settable_label *l = &p->v[i];
		n += (size_t)sprintf(out + n, "|%08x %d ", l->key, l->type);
		n += l->type == LABEL_INT
			     ? (size_t)sprintf(out + n, "%016llx",
					       (unsigned long long)l->num ^ 1ull << 63)
			     : (size_t)sprintf(out + n, "%.*s\x01", (int)l->len, l->str);
	}
}

static void sets_have_an_order(void **state)
{
	static struct tables t;
	(void)state;
	make(&t, 8);
	for (size_t i = 0; i < SETS; i++)
		for (size_t k = 0; k < SETS; k += 7) {
			char a[2000], b[2000];
			order_key(&t.set[i], a);
			order_key(&t.set[k], b);
			int want = strcmp(a, b),
			    got = settable_compare(&t.t, &t.t.sets[i], &t.t.sets[k]);
			assert_int_equal((got > 0) - (got < 0), (want > 0) - (want < 0));
		}
	fini(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_goes_in_comes_out),   cmocka_unit_test(damage_is_seen),
		cmocka_unit_test(bad_types_and_counts),	    cmocka_unit_test(a_value_is_found),
		cmocka_unit_test(uuids_are_compared_whole), cmocka_unit_test(values_by_themselves),
		cmocka_unit_test(sets_have_an_order),	    cmocka_unit_test(the_longest_value),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

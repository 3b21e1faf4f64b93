/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decoder of records against what label.h writes, against a second decoder that walks instead
 * of indexing, and on damaged bytes in allocations of their exact size (for ASan).
 */
#include <ascribe/label.h>

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "labels/record.h"

#define LEN_MAX (ASCRIBE_PREFIX_SIZE + ASCRIBE_RECORD_MAX)

static uint64_t seed;

static uint32_t rnd(uint32_t below)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)((seed >> 33) % below);
}

/* "key=value" or "key=#integer", in the order given, joined by commas. */
static const char *show(const struct label *v, size_t n)
{
	static char text[200000];
	char value[300];
	size_t at = 0;
	text[0] = 0;
	for (size_t i = 0; i < n; i++) {
		label_text(&v[i], value, sizeof(value));
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%.*s=%s%s", i ? "," : "",
				       (int)v[i].key_len, v[i].key,
				       v[i].type == LABEL_INT ? "#" : "", value);
	}
	return text;
}

static const char *decode_set(const struct ascribe_label_set *set, struct record_side *side)
{
	static struct label v[RECORD_LABELS_MAX];
	size_t n = 0;
	assert_int_equal(record_decode(&set->prefix, set->prefix.total_size,
				       ascribe_state_v1.keys.text, ascribe_state_v1.keys.bytes, v,
				       &n, side),
			 0);
	return show(v, n);
}

static void test_written_by_the_library(void **state)
{
	struct ascribe_label_set set;
	struct record_side side;
	uint64_t id = 0;
	uint8_t trace[24];
	(void)state;
	ascribe_set_init(&set);
	assert_string_equal(decode_set(&set, &side), "");
	ascribe_set_add_string(&set, "tenant", "acme");
	ascribe_set_add_int(&set, "query_id", INT64_MIN);
	ascribe_set_add_int(&set, "max", INT64_MAX);
	ascribe_set_add_string(&set, "empty", "");
	ascribe_set_add_uint(&set, "big", (uint64_t)INT64_MAX + 1);
	assert_string_equal(decode_set(&set, &side),
			    "big=9223372036854775808,empty=,max=#9223372036854775807,"
			    "query_id=#-9223372036854775808,tenant=acme");
	assert_int_equal(side.unknown_keys, 0);
	assert_int_equal(side.not_integer, 0);
	for (int i = 0; i < 24; i++)
		trace[i] = (uint8_t)(0xf8 + i);
	ascribe_set_init(&set);
	ascribe_set_add_string(&set, "trace_id", "an attribute of that name");
	ascribe_set_trace(&set, trace, trace + 16, 1);
	assert_string_equal(decode_set(&set, &side), "span_id=08090a0b0c0d0e0f,"
						     "trace_id=f8f9fafbfcfdfeff0001020304050607");
	assert_int_equal(record_ids(&set.prefix, set.prefix.total_size, &id, NULL), 0);
	assert_int_equal(id, set.prefix.set_id);
}

/* A record and a key table made by hand. */
struct sample {
	uint8_t record[LEN_MAX];
	size_t len;
	uint8_t keys[ASCRIBE_KEYS_TEXT_MAX];
	size_t key_len;
};

static void put_key(struct sample *s, int type, const char *name)
{
	size_t n = strlen(name);
	s->keys[s->key_len] = (uint8_t)type;
	s->keys[s->key_len + 1] = (uint8_t)n;
	memcpy(s->keys + s->key_len + 2, name, n);
	s->key_len += 2 + n;
}

static void put_attr(struct sample *s, unsigned int key, const char *value)
{
	size_t n = strlen(value);
	s->record[s->len] = (uint8_t)key;
	s->record[s->len + 1] = (uint8_t)n;
	memcpy(s->record + s->len + 2, value, n);
	s->len += 2 + n;
}

static void put_head(struct sample *s)
{
	struct ascribe_record_prefix p = { .magic = ASCRIBE_RECORD_MAGIC,
					   .abi = ASCRIBE_ABI_VERSION,
					   .total_size = (uint16_t)s->len,
					   .set_id = 1 };
	uint16_t attrs = (uint16_t)(s->len - 60);
	memset(s->record, 0, 60);
	memcpy(s->record, &p, sizeof(p));
	s->record[32 + 24] = 1;
	memcpy(s->record + 32 + 26, &attrs, 2);
}

static int decode(const struct sample *s, struct label *v, size_t *ret_n, struct record_side *side)
{
	return record_decode(s->record, s->len, s->keys, s->key_len, v, ret_n, side);
}

static void test_duplicates_and_unknown(void **state)
{
	struct label v[RECORD_LABELS_MAX];
	struct record_side side;
	struct sample s = { .len = 60 };
	size_t n;
	(void)state;
	put_key(&s, ASCRIBE_KEY_STRING, "b");
	put_key(&s, ASCRIBE_KEY_INT, "a");
	put_key(&s, ASCRIBE_KEY_INT, "b");
	put_key(&s, ASCRIBE_KEY_STRING, "");
	put_attr(&s, 0, "first");
	put_attr(&s, 9, "unknown");
	put_attr(&s, 1, "1");
	put_attr(&s, 2, "77");
	put_attr(&s, 3, "no name");
	put_attr(&s, 1, "-0012");
	put_attr(&s, 0, "last of the name b");
	put_head(&s);
	assert_int_equal(decode(&s, v, &n, &side), 0);
	assert_string_equal(show(v, n), "a=#-12,b=last of the name b");
	assert_int_equal(side.unknown_keys, 2);
	s.key_len -= 3; /* the int key "b" is not whole now: it and the next do not exist */
	assert_int_equal(decode(&s, v, &n, &side), 0);
	assert_string_equal(show(v, n), "a=#-12,b=last of the name b");
	assert_int_equal(side.unknown_keys, 3);
}

static void test_integers(void **state)
{
	static const struct {
		const char *text, *want;
		unsigned int bad;
	} t[] = {
		{ "0", "n=#0", 0 },
		{ "-1", "n=#-1", 0 },
		{ "9223372036854775807", "n=#9223372036854775807", 0 },
		{ "9223372036854775808", "n=9223372036854775808", 1 },
		{ "-9223372036854775808", "n=#-9223372036854775808", 0 },
		{ "-9223372036854775809", "n=-9223372036854775809", 1 },
		{ "99999999999999999999999999", "n=99999999999999999999999999", 1 },
		{ "", "n=", 1 },
		{ "-", "n=-", 1 },
		{ "--1", "n=--1", 1 },
		{ "+1", "n=+1", 1 },
		{ " 1", "n= 1", 1 },
		{ "1x", "n=1x", 1 },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct label v[RECORD_LABELS_MAX];
		struct record_side side;
		struct sample s = { .len = 60 };
		size_t n;
		put_key(&s, ASCRIBE_KEY_INT, "n");
		put_attr(&s, 0, t[i].text);
		put_head(&s);
		assert_int_equal(decode(&s, v, &n, &side), 0);
		assert_string_equal(show(v, n), t[i].want);
		assert_int_equal(side.not_integer, t[i].bad);
	}
}

static void test_refused(void **state)
{
	struct label v[RECORD_LABELS_MAX];
	struct record_side side = { .unknown_keys = 42 };
	struct sample s = { .len = 60 }, t;
	size_t n = 99;
	(void)state;
	put_key(&s, ASCRIBE_KEY_STRING, "k");
	put_attr(&s, 0, "value");
	put_head(&s);
#define REFUSED(change, error) \
	do { \
		t = s; \
		change; \
		assert_int_equal(decode(&t, v, &n, &side), error); \
		assert_int_equal(record_ids(t.record, t.len, NULL, NULL), error); \
	} while (0)
	REFUSED(t.len = 0, -EBADMSG);
	REFUSED(t.len = 59, -EBADMSG);
	REFUSED(t.len--, -EBADMSG);
	REFUSED(t.record[0]++, -EBADMSG);	  /* magic */
	REFUSED(t.record[4]++, -EPROTONOSUPPORT); /* abi */
	REFUSED(t.record[6]--, -EBADMSG);	  /* total_size */
	REFUSED(t.record[8] = 0, -EBADMSG);	  /* set_id */
	REFUSED(t.record[56] = 0, -EBADMSG);	  /* valid */
	REFUSED(t.record[59] = 255, -EBADMSG);	  /* attrs_size */
	t = s;
	t.record[61]++; /* a value that goes past the end */
	assert_int_equal(decode(&t, v, &n, &side), -EBADMSG);
	t.record[61] -= 2; /* a single byte is left behind it */
	assert_int_equal(decode(&t, v, &n, &side), -EBADMSG);
	assert_int_equal(n, 99);
	assert_int_equal(side.unknown_keys, 42);
	assert_int_equal(decode(&s, v, &n, &side), 0);
	assert_string_equal(show(v, n), "k=value");
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int same_name(const uint8_t *entry, const char *name)
{
	return entry[1] == strlen(name) && !memcmp(entry + 2, name, strlen(name));
}

/* For each name of the table the last attribute of any key with that name. */
static const char *oracle(const struct sample *s)
{
	static char text[70000], rows[256][600];
	char *order[256];
	int n = 0;
	size_t at = 0;
	for (size_t k = 0; k < s->key_len; k += 2u + s->keys[k + 1]) {
		char name[256];
		int seen = 0, last = -1, last_type = 0;
		snprintf(name, sizeof(name), "%.*s", s->keys[k + 1], (const char *)s->keys + k + 2);
		for (size_t j = 0; j < k; j += 2u + s->keys[j + 1])
			seen |= same_name(s->keys + j, name);
		for (size_t a = 60; a < s->len; a += 2u + s->record[a + 1]) {
			size_t pos = 0;
			for (int i = 0; i < s->record[a] && pos < s->key_len; i++)
				pos += 2u + s->keys[pos + 1];
			if (pos < s->key_len && same_name(s->keys + pos, name)) {
				last = (int)a;
				last_type = s->keys[pos];
			}
		}
		if (!seen && last >= 0)
			snprintf(rows[n++], sizeof(rows[0]), "%s=%s%.*s", name,
				 last_type ? "#" : "", s->record[last + 1],
				 (const char *)s->record + last + 2);
	}
	for (int i = 0; i < n; i++)
		order[i] = rows[i];
	qsort(order, (size_t)n, sizeof(*order), by_text);
	text[0] = 0;
	for (int i = 0; i < n; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s", i ? "," : "",
				       order[i]);
	return text;
}

/* A well-formed random record over a random table. */
static void make(struct sample *s)
{
	char text[32];
	memset(s, 0, sizeof(*s));
	s->len = 60;
	for (uint32_t n = rnd(40); n; n--) {
		snprintf(text, sizeof(text), "%c%u", (char)('a' + rnd(3)), rnd(8));
		put_key(s, (int)rnd(2), text);
	}
	for (uint32_t n = rnd(30); n && s->len + 40 <= LEN_MAX; n--) {
		snprintf(text, sizeof(text), "%d", (int)rnd(10000) - 5000);
		put_attr(s, rnd(45), text);
	}
	put_head(s);
}

static void test_random_well_formed(void **state)
{
	(void)state;
	seed = 20240315;
	for (int i = 0; i < 20000; i++) {
		struct label v[RECORD_LABELS_MAX];
		struct record_side side;
		struct sample s;
		size_t n;
		make(&s);
		assert_int_equal(decode(&s, v, &n, &side), 0);
		assert_string_equal(show(v, n), oracle(&s));
	}
}

static void *exact(const void *data, size_t n)
{
	void *p = malloc(n ? n : 1);
	assert_non_null(p);
	if (n)
		memcpy(p, data, n);
	return p;
}

static void assert_normal(const struct label *v, size_t n)
{
	assert_true(n <= RECORD_LABELS_MAX);
	for (size_t k = 1; k < n; k++) {
		size_t len = v[k].key_len < v[k - 1].key_len ? v[k].key_len : v[k - 1].key_len;
		int c = memcmp(v[k - 1].key, v[k].key, len);
		assert_true(c < 0 || (c == 0 && v[k - 1].key_len < v[k].key_len));
	}
}

/* Any bytes: refused, or labels whose every byte may be read. */
static void test_damaged(void **state)
{
	size_t accepted = 0;
	(void)state;
	seed = 7;
	for (int i = 0; i < 100000; i++) {
		struct label v[RECORD_LABELS_MAX];
		struct record_side side;
		struct sample s;
		size_t n = 0;
		make(&s);
		for (uint32_t k = rnd(4); k; k--)
			s.record[rnd((uint32_t)s.len)] = (uint8_t)rnd(256);
		for (uint32_t k = rnd(4); k && s.key_len; k--)
			s.keys[rnd((uint32_t)s.key_len)] = (uint8_t)rnd(256);
		if (rnd(4) == 0) /* all attributes are noise, the frame around them is right */
			for (size_t k = 60; k < s.len; k++)
				s.record[k] = (uint8_t)rnd(rnd(2) ? 256 : 4);
		if (rnd(8) == 0)
			s.key_len = rnd((uint32_t)s.key_len + 1);
		void *record = exact(s.record, s.len), *keys = exact(s.keys, s.key_len);
		int err = record_decode(record, s.len, keys, s.key_len, v, &n, &side);
		assert_true(err == 0 || err == -EBADMSG || err == -EPROTONOSUPPORT);
		if (err == 0) {
			assert_normal(v, n);
			show(v, n);
			accepted++;
		}
		free(record);
		free(keys);
	}
	assert_in_range(accepted, 10000, 95000);
}

/* As many attributes, keys and labels as the sizes allow. */
static void test_largest(void **state)
{
	struct label v[RECORD_LABELS_MAX];
	struct record_side side;
	struct sample s = { .len = 60 };
	size_t n;
	char name[8];
	(void)state;
	for (int i = 0; i < ASCRIBE_KEYS_MAX; i++) {
		snprintf(name, sizeof(name), "k%d", 999 - i);
		put_key(&s, ASCRIBE_KEY_STRING, name);
	}
	for (unsigned int i = 0; i < ASCRIBE_ATTRS_MAX / 2; i++)
		put_attr(&s, i % 256, "");
	put_head(&s);
	s.record[32] = s.record[48] = 1; /* trace and span id */
	assert_int_equal(s.len, LEN_MAX);
	assert_int_equal(decode(&s, v, &n, &side), 0);
	assert_int_equal(n, 257);
	assert_normal(v, n);
	assert_int_equal(side.unknown_keys, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_written_by_the_library),
		cmocka_unit_test(test_duplicates_and_unknown),
		cmocka_unit_test(test_integers),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_random_well_formed),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_largest),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures of foreign labels, and OpenTelemetry's process context: made by hand here, damaged in
 * every way.
 */
#include "labels/foreign.h"
#include "labels/otel.h"
#include "util/utf8.h"

#include <linux/types.h>
#include "label_wire.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct capture {
	uint8_t bytes[CAPTURE_MAX];
	size_t len;
};

static void put(struct capture *c, const void *p, size_t n)
{
	memcpy(c->bytes + c->len, p, n);
	c->len += (n + 7) & ~(size_t)7;
}

static void pair(struct capture *c, uint8_t source, const char *key, const char *value,
		 size_t value_len, bool cut)
{
	struct label_entry e = { .source = source,
				 .what = ENTRY_PAIR,
				 .cut = cut,
				 .len = (uint16_t)strlen(key),
				 .len2 = (uint16_t)value_len };
	put(c, &e, sizeof(e));
	put(c, key, strlen(key));
	put(c, value, value_len);
}

static void bytes(struct capture *c, uint8_t source, uint8_t what, uint16_t field, const void *p,
		  size_t n, bool cut)
{
	struct label_entry e = {
		.source = source, .what = what, .cut = cut, .len = (uint16_t)n, .len2 = field
	};
	put(c, &e, sizeof(e));
	put(c, p, n);
}

static struct label out[FOREIGN_LABELS_MAX];
static struct foreign_side side;

static size_t decode(const struct capture *c, const struct foreign_source *s, size_t n)
{
	return foreign_decode(c->bytes, c->len, s, n, out, &side);
}

static void is_text(const struct label *l, const char *key, const char *value)
{
	char text[600];
	assert_int_equal(l->key_len, strlen(key));
	assert_memory_equal(l->key, key, l->key_len);
	label_text(l, text, sizeof(text));
	assert_string_equal(text, value);
}

static void test_pairs(void **state)
{
	(void)state;
	struct capture c = { .len = 0 };
	struct foreign_source s = { .kind = LABEL_CUSTOM };
	pair(&c, 0, "tenant", "acme", 4, false);
	pair(&c, 0, "empty", "", 0, false);
	pair(&c, 0, "cut", "caf\xc3\xa9\xe2\x82", 7, true); /* the last character has lost a byte */
	pair(&c, 0, "whole", "caf\xc3\xa9", 5, true);
	assert_int_equal(decode(&c, &s, 1), 4);
	is_text(&out[0], "tenant", "acme");
	is_text(&out[1], "empty", "");
	is_text(&out[2], "cut", "caf\xc3\xa9");
	is_text(&out[3], "whole", "caf\xc3\xa9");
	assert_int_equal(side.invalid, 0);
	/* A source that the list does not have ends the capture. */
	pair(&c, 1, "a", "b", 1, false);
	assert_int_equal(decode(&c, &s, 1), 4);
}

static void absent(struct capture *c, const char *key, uint64_t at, uint64_t len)
{
	struct label_entry e = { .what = ENTRY_ABSENT,
				 .len = (uint16_t)strlen(key),
				 .len2 = sizeof(struct label_absent) };
	struct label_absent a = { .at = at, .len = len };
	put(c, &e, sizeof(e));
	put(c, key, strlen(key));
	put(c, &a, sizeof(a));
}

/* The process's memory: this text at 1000. */
static int read_text(void *ctx, uint64_t at, void *to, size_t len)
{
	const char *text = ctx;
	if (at < 1000 || at + len > 1000 + strlen(text))
		return -EFAULT;
	memcpy(to, text + (at - 1000), len);
	return 0;
}

/*
 * What was not resident is read then; what cannot be read, or lies about its length, takes no other
 * label with it.
 */
/* Arguments of probes stand behind the labels of sources, and need none. */
static void test_arguments(void **state)
{
	(void)state;
	static const struct foreign_source go = { .kind = LABEL_GO_SLICE };
	const int64_t number = -3;
	struct capture c = { .len = 0 };
	bytes(&c, ENTRY_ARGUMENT, ENTRY_INT, 2, &number, sizeof(number), false);
	bytes(&c, ENTRY_ARGUMENT, ENTRY_BYTES, 65535, "/etc/\xc3", 6, true);
	assert_int_equal(decode(&c, NULL, 0), 2);
	is_text(&out[0], "arg2", "-3");
	is_text(&out[1], "arg65535", "/etc/");
	assert_int_equal(side.invalid, 0);
	assert_false(foreign_has_sources(c.bytes, c.len));
	assert_false(foreign_has_sources(c.bytes, 0));
	c.len = 0;
	pair(&c, 0, "tenant", "acme", 4, false);
	bytes(&c, ENTRY_ARGUMENT, ENTRY_BYTES, 1, "", 0, false);
	assert_true(foreign_has_sources(c.bytes, c.len));
	assert_int_equal(decode(&c, &go, 1), 2);
	is_text(&out[0], "tenant", "acme");
	is_text(&out[1], "arg1", "");
	c.len = 0;
	bytes(&c, ENTRY_ARGUMENT, ENTRY_OTEL, 1, "12345678", 8, false);
	assert_int_equal(decode(&c, &go, 1), 0);
}

/* The timed call likewise; its event may be none that times calls. */
static void test_call(void **state)
{
	(void)state;
	static char parse[] = "parse";
	static char *const calls[] = { NULL, parse };
	static const struct foreign_source go = { .kind = LABEL_GO_SLICE };
	struct capture c = { .len = 0 };
	side.calls = calls;
	side.n_calls = 2;
	bytes(&c, ENTRY_CALL, ENTRY_BYTES, 1, "", 0, false);
	assert_int_equal(decode(&c, NULL, 0), 1);
	is_text(&out[0], "in", "parse");
	assert_false(foreign_has_sources(c.bytes, c.len));
	c.len = 0;
	pair(&c, 0, "tenant", "acme", 4, false);
	bytes(&c, ENTRY_CALL, ENTRY_BYTES, 0, "", 0, false);
	assert_int_equal(decode(&c, &go, 1), 1);
	is_text(&out[0], "tenant", "acme");
	c.len = 0;
	bytes(&c, ENTRY_CALL, ENTRY_BYTES, 2, "", 0, false);
	assert_int_equal(decode(&c, &go, 1), 0);
	c.len = 0;
	bytes(&c, ENTRY_CALL, ENTRY_INT, 1, "12345678", 8, false);
	assert_int_equal(decode(&c, &go, 1), 0);
	side.n_calls = 0;
}

static void test_absent(void **state)
{
	(void)state;
	char text[] = "there";
	struct capture c = { .len = 0 };
	struct foreign_source s = { .kind = LABEL_GO_MAP };
	absent(&c, "far", 1000, 5);
	absent(&c, "gone", 2000, 5);
	pair(&c, 0, "near", "here", 4, false);
	assert_int_equal(decode(&c, &s, 1), 1);
	assert_int_equal(side.unread, 1);
	side.read = read_text;
	side.ctx = text;
	assert_int_equal(decode(&c, &s, 1), 2);
	is_text(&out[0], "far", "there");
	is_text(&out[1], "near", "here");
	assert_int_equal(side.unread, 1);
	assert_int_equal(side.invalid, 0);
	absent(&c, "long", 1000, LABEL_TEXT_BYTES + 1);
	assert_int_equal(decode(&c, &s, 1), 2);
	assert_int_equal(side.invalid, 1);
	side.read = NULL;
}

/* Against the definition: the longest prefix that ends between two characters. */
static void test_utf8(void **state)
{
	static const char text[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z";
	(void)state;
	for (size_t cut = 0; cut < sizeof(text); cut++) {
		size_t want = cut;
		while (want < sizeof(text) - 1 && want && ((uint8_t)text[want] & 0xc0) == 0x80)
			want--;
		assert_int_equal(utf8_cut(text, cut), want);
	}
	assert_int_equal(utf8_cut("\x80\x80\x80\x80\x80", 5), 5); /* not UTF-8 */
	assert_int_equal(utf8_cut("\x80\x80", 2), 2);
	assert_int_equal(utf8_cut("", 0), 0);
}

static void test_mark_cut(void **state)
{
	static const char text[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z";
	static const char *const want[] = { [4] = "...",
					    [5] = "a...",
					    [6] = "a...",
					    [7] = "a\xc3\xa9...",
					    [8] = "a\xc3\xa9...",
					    [9] = "a\xc3\xa9...",
					    [10] = "a\xc3\xa9\xe2\x82\xac...",
					    [11] = "a\xc3\xa9\xe2\x82\xac...",
					    [12] = text };
	(void)state;
	for (size_t cap = 4; cap < sizeof(want) / sizeof(want[0]); cap++) {
		char got[sizeof(text) + 1];
		utf8_mark_cut(got, cap, (size_t)snprintf(got, cap, "%s", text));
		assert_string_equal(got, want[cap]);
	}
}

static size_t attribute(uint8_t *at, uint8_t key, const char *text)
{
	at[0] = key;
	at[1] = (uint8_t)strlen(text);
	memcpy(at + 2, text, at[1]);
	return 2u + at[1];
}

static size_t otel_record(uint8_t *r)
{
	memset(r, 0, 28);
	r[0] = 0xab;
	r[15] = 1;
	r[24] = 1;
	size_t n = attribute(r + 28, 0, "first");
	n += attribute(r + 28 + n, 2, "other");
	n += attribute(r + 28 + n, 0, "last");
	n += attribute(r + 28 + n, 9, "unknown");
	uint16_t size = (uint16_t)n;
	memcpy(r + 26, &size, 2);
	return 28 + n;
}

static void test_otel(void **state)
{
	static char *keys[] = { (char *)"tenant", NULL, (char *)"user" };
	struct foreign_source s = { .kind = LABEL_OTEL, .keys = keys, .n_keys = 3 };
	struct capture c = { .len = 0 };
	uint8_t r[200];
	(void)state;
	size_t n = otel_record(r);
	bytes(&c, 0, ENTRY_OTEL, 0, r, n, false);
	assert_int_equal(decode(&c, &s, 1), 3);
	is_text(&out[0], "trace_id", "ab000000000000000000000000000001");
	is_text(&out[1], "tenant", "last");
	is_text(&out[2], "user", "other");
	assert_int_equal(side.unknown_keys, 1);
	assert_int_equal(side.invalid, 0);
	/* Sizes that lie, a record that is not valid, another kind of source. */
	for (int i = 0; i < 4; i++) {
		struct capture d = { .len = 0 };
		struct foreign_source other = s;
		memcpy(r, c.bytes + 8, n);
		r[26] = (uint8_t)(r[26] + (i == 0) - (i == 1));
		r[24] = i == 2 ? 2 : 1;
		other.kind = i == 3 ? LABEL_CUSTOM : LABEL_OTEL;
		bytes(&d, 0, ENTRY_OTEL, 0, r, n, false);
		assert_int_equal(decode(&d, &other, 1), 0);
		assert_int_equal(side.invalid, 1);
	}
}

static void test_fields(void **state)
{
	static const struct foreign_name names[] = { { 2, "active" }, { -1, "none" } };
	const struct foreign_field f[] = {
		{ .key = "query_id", .form = FOREIGN_INT },
		{ .key = "state", .form = FOREIGN_INT, .names = names, .n_names = 2 },
		{ .key = "big", .form = FOREIGN_UINT },
		{ .key = "hex", .form = FOREIGN_HEX },
		{ .key = "user", .form = FOREIGN_TEXT },
		{ .key = "raw", .form = FOREIGN_BYTES },
	};
	struct foreign_source s = { .kind = LABEL_PATH, .fields = f, .n_fields = 6 };
	struct capture c = { .len = 0 };
	const int64_t minus = -5, active = 2, none = -1;
	const uint64_t big = ~0ull, small = 0xab;
	(void)state;
	bytes(&c, 0, ENTRY_INT, 0, &minus, 8, false);
	bytes(&c, 0, ENTRY_INT, 1, &active, 8, false);
	bytes(&c, 0, ENTRY_INT, 1, &none, 8, false);
	bytes(&c, 0, ENTRY_INT, 2, &big, 8, false);
	bytes(&c, 0, ENTRY_INT, 2, &small, 8, false);
	bytes(&c, 0, ENTRY_INT, 3, &small, 8, false);
	bytes(&c, 0, ENTRY_BYTES, 4, "postgres", 8, false);
	bytes(&c, 0, ENTRY_BYTES, 4, "", 0, false); /* empty text is no label */
	bytes(&c, 0, ENTRY_BYTES, 5, "\x01\xff", 2, false);
	assert_int_equal(decode(&c, &s, 1), 8);
	is_text(&out[0], "query_id", "-5");
	is_text(&out[1], "state", "active");
	is_text(&out[2], "state", "none");
	is_text(&out[3], "big", "18446744073709551615");
	is_text(&out[4], "big", "171");
	is_text(&out[5], "hex", "00000000000000ab");
	is_text(&out[6], "user", "postgres");
	is_text(&out[7], "raw", "01ff");
	assert_int_equal(side.invalid, 0);
	bytes(&c, 0, ENTRY_INT, 6, &minus, 8, false); /* no such field */
	assert_int_equal(decode(&c, &s, 1), 8);
	assert_int_equal(side.invalid, 1);
}

/* A source that was found late stands behind others, and comes before them all the same. */
static void test_ranks(void **state)
{
	const struct foreign_field f = { .key = "x", .form = FOREIGN_INT };
	const struct foreign_source s[2] = {
		{ .kind = LABEL_PATH, .rank = FOREIGN_RANKS - 1, .fields = &f, .n_fields = 1 },
		{ .kind = LABEL_PATH, .rank = 1, .fields = &f, .n_fields = 1 }
	};
	struct capture c = { .len = 0 };
	const int64_t first = 1, second = 2;
	(void)state;
	bytes(&c, 0, ENTRY_INT, 0, &first, 8, false);
	bytes(&c, 1, ENTRY_INT, 0, &second, 8, false);
	assert_int_equal(decode(&c, s, 2), 2);
	is_text(&out[0], "x", "2");
	is_text(&out[1], "x", "1");
}

static void test_datadog_elastic(void **state)
{
	const struct foreign_field datadog = { .key = "d", .form = FOREIGN_DATADOG };
	const struct foreign_field elastic = { .key = "e", .form = FOREIGN_ELASTIC };
	struct foreign_source s[2] = { { .kind = LABEL_PATH, .fields = &datadog, .n_fields = 1 },
				       { .kind = LABEL_PATH, .fields = &elastic, .n_fields = 1 } };
	struct capture c = { .len = 0 };
	/* span 1, root span 2: 1 * k ^ (2 << 32) * k, computed by hand. */
	uint64_t d[8] = { 1, 2, 0x9e3779b97f4a7c15ull ^ 0xfe94f82a00000000ull };
	uint8_t e[37] = { 1, 0, 1, 1, 0, 0xaa };
	(void)state;
	e[28] = 0x11;
	e[36] = 0x22;
	bytes(&c, 0, ENTRY_BYTES, 0, d, 64, false);
	bytes(&c, 1, ENTRY_BYTES, 0, e, 37, false);
	size_t n = decode(&c, s, 2);
	assert_int_equal(side.invalid, 0);
	assert_int_equal(n, 5);
	is_text(&out[0], "span_id", "1");
	is_text(&out[1], "local_root_span_id", "2");
	is_text(&out[3], "span_id", "0000000000000011");
	is_text(&out[4], "transaction_id", "0000000000000022");
	d[2]++;
	e[3] = 2;
	c.len = 0;
	bytes(&c, 0, ENTRY_BYTES, 0, d, 64, false);
	bytes(&c, 1, ENTRY_BYTES, 0, e, 37, false);
	assert_int_equal(decode(&c, s, 2), 0);
	assert_int_equal(side.invalid, 3);
	d[2] = 0; /* both are being changed: nothing, and nothing wrong */
	e[2] = 0;
	c.len = 0;
	bytes(&c, 0, ENTRY_BYTES, 0, d, 64, false);
	bytes(&c, 1, ENTRY_BYTES, 0, e, 37, false);
	assert_int_equal(decode(&c, s, 2), 0);
	assert_int_equal(side.invalid, 0);
}

/* Whatever the bytes are: labels lie inside of what they borrow. */
static void test_random(void **state)
{
	static char *keys[] = { (char *)"a", (char *)"b" };
	const struct foreign_field f[] = { { .key = "x", .form = FOREIGN_TEXT },
					   { .key = "y", .form = FOREIGN_INT },
					   { .key = "d", .form = FOREIGN_DATADOG },
					   { .key = "e", .form = FOREIGN_ELASTIC } };
	const struct foreign_source s[3] = { { .kind = LABEL_OTEL, .keys = keys, .n_keys = 2 },
					     { .kind = LABEL_CUSTOM },
					     { .kind = LABEL_PATH, .fields = f, .n_fields = 4 } };
	unsigned seed = 1;
	(void)state;
	for (int turn = 0; turn < 200000; turn++) {
		size_t len = (size_t)rand_r(&seed) % 200;
		uint8_t *p = malloc(len + 1); /* exactly: a sanitizer sees what is read behind */
		for (size_t i = 0; i < len; i++)
			p[i] = (uint8_t)(rand_r(&seed) % (i % 8 == 0  ? 4
							  : i % 8 < 3 ? 5
							  : i % 8 < 6 ? 40
								      : 256));
		size_t n = foreign_decode(p, len, s, 3, out, &side);
		assert_true(n <= FOREIGN_LABELS_MAX);
		for (size_t i = 0; i < n; i++) {
			char text[600];
			assert_true(out[i].key_len > 0);
			label_text(&out[i], text, sizeof(text));
		}
		free(p);
	}
}

/* ---- the process context ---- */

static size_t field(uint8_t *at, uint8_t number, const void *p, size_t n)
{
	size_t head = n < 128 ? 2 : 3;
	at[0] = (uint8_t)(number << 3 | 2);
	at[1] = (uint8_t)(n < 128 ? n : (n & 127) | 128);
	if (head == 3)
		at[2] = (uint8_t)(n >> 7);
	memcpy(at + head, p, n);
	return head + n;
}

static size_t context(uint8_t *out_bytes, uint8_t where)
{
	uint8_t key[256], array[512], any[600], kv[700], wrapped[800];
	size_t n = 0, m;
	static const char *const keys[] = { "tenant", "", "user.id" };
	for (int i = 0; i < 3; i++) {
		m = field(key, 1, keys[i], strlen(keys[i]));
		n += field(array + n, 1, key, m);
	}
	m = field(any, 5, array, n);
	n = field(kv, 1, "threadlocal.attribute_key_map", 29);
	n += field(kv + n, 2, any, m);
	if (where == 2)
		return field(out_bytes, 2, kv, n);
	m = field(wrapped, 1, kv, n); /* an attribute of the resource */
	return field(out_bytes, 1, wrapped, m);
}

static void test_context(void **state)
{
	struct otel_context c = { .n_keys = 0 };
	uint8_t p[900];
	(void)state;
	for (uint8_t where = 1; where <= 2; where++) {
		size_t n = context(p, where);
		assert_int_equal(otel_context_parse(&c, p, n), 0);
		assert_int_equal(c.n_keys, 3);
		assert_string_equal(c.keys[0], "tenant");
		assert_null(c.keys[1]);
		assert_string_equal(c.keys[2], "user.id");
		/* Cut anywhere: refused, and the old one stays. */
		for (size_t cut = 1; cut < n; cut++) {
			assert_int_equal(otel_context_parse(&c, p, cut), -EBADMSG);
			assert_int_equal(c.n_keys, 3);
		}
	}
	assert_int_equal(otel_context_parse(&c, p, 0), 0);
	assert_int_equal(c.n_keys, 0);
	unsigned seed = 2;
	for (int turn = 0; turn < 100000; turn++) {
		size_t n = context(p, 1 + (turn & 1));
		for (int k = 0; k < 3; k++)
			p[(size_t)rand_r(&seed) % n] = (uint8_t)rand_r(&seed);
		uint8_t *copy = malloc(n);
		memcpy(copy, p, n);
		otel_context_parse(&c, copy, n);
		assert_true(c.n_keys <= OTEL_KEYS_MAX);
		free(copy);
	}
	otel_context_fini(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pairs),  cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_call),   cmocka_unit_test(test_absent),
		cmocka_unit_test(test_utf8),   cmocka_unit_test(test_mark_cut),
		cmocka_unit_test(test_otel),   cmocka_unit_test(test_fields),
		cmocka_unit_test(test_ranks),  cmocka_unit_test(test_datadog_elastic),
		cmocka_unit_test(test_random), cmocka_unit_test(test_context),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

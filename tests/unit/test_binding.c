/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decoder of trampoline bindings: times by brute force, and text of any bytes, which must stay
 * inside.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "labels/binding.h"

static uint64_t state = 5;

static uint32_t rnd(uint32_t below)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)((state >> 33) % below);
}

static uint32_t put(struct ascribe_binding *b, int type, const char *key, const char *value)
{
	uint8_t *t = b->text + b->len;
	t[0] = (uint8_t)type;
	t[1] = (uint8_t)strlen(key);
	t[2] = (uint8_t)strlen(value);
	memcpy(t + 3, key, t[1]);
	memcpy(t + 3 + t[1], value, t[2]);
	return b->len += 3u + t[1] + t[2];
}

static void test_text(void **ctx)
{
	struct ascribe_binding b = { .begin = 1, .end = 1 };
	struct label v[BINDING_LABELS_MAX];
	(void)ctx;
	put(&b, 0, "tenant", "acme");
	put(&b, 1, "query_id", "-42");
	put(&b, 1, "wrong", "4x");
	put(&b, 0, "tenant", "second");
	put(&b, 0, "a", "");
	assert_int_equal(binding_labels(&b, v), 4);
	assert_memory_equal(v[0].key, "a", 1);
	assert_int_equal(v[0].str_len, 0);
	assert_int_equal(v[1].type, LABEL_INT);
	assert_int_equal(v[1].num, -42);
	assert_int_equal(v[2].str_len, 4);
	assert_memory_equal(v[2].str, "acme", 4);
	assert_int_equal(v[3].type, LABEL_STRING);
	b.len -= 1; /* the last label is cut */
	b.text[b.len - 3 + 2] = 1;
	assert_int_equal(binding_labels(&b, v), 3);
}

static void test_any_bytes(void **ctx)
{
	struct label v[BINDING_LABELS_MAX];
	(void)ctx;
	for (int round = 0; round < 200000; round++) {
		struct ascribe_binding *b = malloc(sizeof(*b));
		for (size_t i = 0; i < sizeof(b->text); i++)
			b->text[i] = (uint8_t)rnd(rnd(3) ? 6 : 256);
		b->len = rnd(2) ? rnd(217) : rnd(UINT32_MAX);
		size_t n = binding_labels(b, v);
		assert_true(n <= BINDING_LABELS_MAX);
		for (size_t i = 0; i < n; i++) {
			const char *end = (const char *)b->text + sizeof(b->text);
			assert_true(v[i].key_len && v[i].key + v[i].key_len <= end);
			assert_true(v[i].type == LABEL_INT || v[i].str + v[i].str_len <= end);
			assert_true(!i || v[i].key_len != v[i - 1].key_len ||
				    memcmp(v[i].key, v[i - 1].key, v[i].key_len));
		}
		free(b);
	}
}

/* Who was bound all the time from one sample to another, by looking at every instant. */
static void test_times(void **ctx)
{
	struct ascribe_binding v[8];
	(void)ctx;
	for (int round = 0; round < 20000; round++) {
		uint64_t at = 1 + rnd(4), newest = 0;
		memset(v, 0, sizeof(v));
		for (uint64_t n = 1; n <= 12; n++) {
			struct ascribe_binding *b = &v[n % 8];
			*b = (struct ascribe_binding){ .begin = n, .end = n, .from_ns = at };
			at += rnd(5);
			b->to_ns = at;
			at += rnd(3);
			newest = n % 8;
		}
		if (rnd(2))
			v[newest].to_ns = 0;
		if (rnd(4) == 0)
			v[rnd(8)].end = 0; /* being written */
		if (rnd(4) == 0)
			v[rnd(8)].len = 217;
		uint64_t first = rnd((uint32_t)at + 3), last = first + rnd(3);
		const struct ascribe_binding *got = binding_during(v, 8, first, last), *want = NULL;
		for (int i = 0; i < 8; i++) {
			int all = v[i].begin == v[i].end && v[i].len <= 216 && v[i].begin;
			for (uint64_t t = first; t <= last; t++)
				all &= t >= v[i].from_ns && (!v[i].to_ns || t < v[i].to_ns);
			if (all && (!want || v[i].begin > want->begin))
				want = &v[i];
		}
		assert_ptr_equal(got, want);
	}
}

static void test_table(void **ctx)
{
	const struct ascribe_trampoline_table good = { .magic = ASCRIBE_TRAMPOLINES_MAGIC,
						       .abi = 1,
						       .size = 64,
						       .count = 256,
						       .step = 16,
						       .code = 0x400000,
						       .depth = 8,
						       .binding_size = 256,
						       .clock = 7 };
	struct ascribe_trampoline_table t = good;
	(void)ctx;
	assert_int_equal(binding_check_table(&t), 0);
#define WITH(member, value, rc) \
	t = good; \
	t.member = value; \
	assert_int_equal(binding_check_table(&t), rc)
	WITH(magic, 0, -EAGAIN);
	WITH(magic, 1, -EBADMSG);
	WITH(abi, 2, -EPROTONOSUPPORT);
	WITH(clock, 1, -EPROTONOSUPPORT);
	WITH(binding_size, 128, -EPROTONOSUPPORT);
	WITH(count, 0, -EBADMSG);
	WITH(count, ASCRIBE_TRAMPOLINES_MAX + 1, -EBADMSG);
	WITH(depth, 0, -EBADMSG);
	WITH(depth, ASCRIBE_BINDINGS_MAX + 1, -EBADMSG);
	WITH(step, 0, -EBADMSG);
	WITH(size, 63, -EBADMSG);
	WITH(code, UINT64_MAX - 100, -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_text),
					    cmocka_unit_test(test_any_bytes),
					    cmocka_unit_test(test_times),
					    cmocka_unit_test(test_table) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}

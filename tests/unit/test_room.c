/* SPDX-License-Identifier: Apache-2.0 */
/* With AddressSanitizer exactly the room that was asked for may be used, in whatever steps. */
#include "util/array.h"
#include "util/buf.h"
#include "util/chunks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <cmocka.h>

/* Without a sanitizer all of it may. */
static bool is_open(const void *p, size_t at)
{
#ifdef ROOM_EXACT
	return !__asan_address_is_poisoned((const char *)p + at);
#else
	(void)p, (void)at;
	return true;
#endif
}

static void assert_room(const void *p, size_t asked, size_t size)
{
#ifdef ROOM_EXACT
	for (size_t i = 0; i < size; i++)
		if (is_open(p, i) != (i < asked))
			fail_msg("byte %zu of %zu, %zu were asked for", i, size, asked);
#endif
	(void)p, (void)asked, (void)size;
}

/* Elements of 12 bytes: their ends are anywhere in the eight bytes that a shadow byte is for. */
struct element {
	uint32_t v[3];
};

static void arrays(void **state)
{
	static const size_t steps[] = { 1, 2, 3, 7, 1, 40, 1 };
	struct element *v = NULL;
	size_t cap = 0, n = 0;
	(void)state;
	for (size_t i = 0; i < 300; i++) {
		n += steps[i % 7];
		assert_int_equal(ARRAY_RESERVE(v, cap, n), 0);
		assert_true(cap >= n);
		assert_room(v, n * sizeof(*v), cap * sizeof(*v));
		memset(v, (int)i, n * sizeof(*v));
	}
	/* Who asks for less keeps what was asked for. */
	assert_int_equal(ARRAY_RESERVE(v, cap, 1), 0);
	assert_room(v, n * sizeof(*v), cap * sizeof(*v));
	free(v);
}

static void cleared(void **state)
{
	struct element *v = NULL;
	const struct element zero = { 0 };
	size_t cap = 0, had = 0;
	(void)state;
	for (size_t i = 0; i < 3000; i += 7, had = cap) {
		assert_int_equal(ARRAY_RESERVE_CLEARED(v, cap, i + 1), 0);
		assert_true(cap > i);
		assert_room(v, cap * sizeof(*v), cap * sizeof(*v));
		for (size_t k = had; k < cap; k++)
			assert_memory_equal(&v[k], &zero, sizeof(zero));
		memset(v, 0xff, cap * sizeof(*v));
	}
	free(v);
}

static void bufs(void **state)
{
	struct buf b = BUF_INIT;
	(void)state;
	for (size_t i = 0; i < 500; i++) {
		assert_int_equal(buf_add_u8(&b, (uint8_t)i), 0);
		assert_room(b.data, b.len, b.cap);
		assert_int_equal(buf_add(&b, "abc", i % 3), 0);
		assert_room(b.data, b.len, b.cap);
	}
	assert_int_equal(buf_reserve(&b, b.cap - b.len), 0);
	assert_room(b.data, b.cap, b.cap);
	buf_fini(&b);
}

static void chunks(void **state)
{
	struct chunks c = { 0 };
	(void)state;
	for (size_t i = 1; i < 200; i++) {
		uint8_t *p = chunks_alloc(&c, i, 4);
		assert_true(is_open(p, 0) && is_open(p, i - 1));
		memset(p, 1, i);
#ifdef ROOM_EXACT
		/* What follows is not given, whether the chunk goes on or ends. */
		assert_false(is_open(p, i));
#endif
	}
	chunks_fini(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arrays),
		cmocka_unit_test(cleared),
		cmocka_unit_test(bufs),
		cmocka_unit_test(chunks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

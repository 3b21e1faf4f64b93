/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that wait for names: their copies, their order, and the limits of time and bytes. */
#include "collect/aside.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#define SECOND 1000000000ull
#define ROWS 3000

/* What a turn of aside_try hands out, and which rows go on waiting. */
struct turn {
	uint32_t set[ROWS];
	bool last[ROWS];
	size_t n;
	bool (*has_names)(uint32_t set);
};

static bool take(void *ctx, const struct sample *s, bool last)
{
	struct turn *t = ctx;
	assert_true(t->n < ROWS);
	t->set[t->n] = s->set;
	t->last[t->n++] = last;
	return last || t->has_names(s->set);
}

static bool always(uint32_t set)
{
	(void)set;
	return true;
}

static bool never(uint32_t set)
{
	(void)set;
	return false;
}

static bool odd(uint32_t set)
{
	return set % 2;
}

static struct turn *try(struct aside *a, uint64_t now_ns, bool now, bool (*has_names)(uint32_t set))
{
	static struct turn t;
	t = (struct turn){ .has_names = has_names };
	aside_try(a, now_ns, now, take, &t);
	return &t;
}

static bool add(struct aside *a, uint32_t set, uint32_t n_frames, uint64_t now_ns)
{
	static uint64_t frames[1280];
	struct sample s = { .set = set,
			    .user = set % 2,
			    .stack = { .frames = frames, .n_user = n_frames } };
	return aside_add(a, &s, now_ns);
}

static void assert_empty(const struct aside *a)
{
	assert_null(a->first);
	assert_ptr_equal(a->last, &a->first);
	assert_int_equal(a->n, 0);
	assert_int_equal(a->bytes.taken, 0);
}

/*
 * A copy shares no memory with the sample: the half, from which its frames are, is zeroed after the
 * drain.
 */
static bool compare(void *ctx, const struct sample *s, bool last)
{
	unsigned *seen = ctx;
	(void)last;
	assert_int_equal(s->set, 7);
	assert_int_equal(s->cpu, 3);
	assert_int_equal(s->row.samples, 5);
	assert_true(s->by_trampolines && !s->no_binding);
	assert_int_equal(s->stack.n_kernel, 2);
	assert_int_equal(s->stack.n_user, 3);
	assert_int_equal(s->stack.n_script, 3);
	for (uint64_t i = 0; i < 5; i++)
		assert_int_equal(s->stack.frames[i], 0xffff000000000000 + i);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(s->stack.script[i], 100 + i);
		assert_int_equal(s->stack.entry[i], i == 1);
	}
	return (*seen)++ == 1;
}

static void test_copy(void **state)
{
	struct aside a;
	unsigned seen = 0;
	uint64_t frames[5];
	uint32_t python[3] = { 100, 101, 102 };
	bool entry[3] = { false, true, false };
	(void)state;
	for (uint64_t i = 0; i < 5; i++)
		frames[i] = 0xffff000000000000 + i;
	struct sample s = {
		.row.samples = 5,
		.cpu = 3,
		.set = 7,
		.by_trampolines = true,
		.stack = { .frames = frames,
			   .n_kernel = 2,
			   .n_user = 3,
			   .script = python,
			   .entry = entry,
			   .n_script = 3 },
	};
	aside_init(&a);
	assert_true(aside_add(&a, &s, 0));
	memset(frames, 0xa5, sizeof(frames));
	memset(python, 0xa5, sizeof(python));
	memset(entry, 0, sizeof(entry));
	memset(&s, 0, sizeof(s));
	aside_try(&a, 1, false, compare, &seen);
	aside_try(&a, 2, false, compare, &seen);
	assert_int_equal(seen, 2);
	assert_empty(&a);
}

/*
 * Rows are handed out in the order in which they came, also when some of them left and others came.
 */
static void test_order(void **state)
{
	struct aside a;
	(void)state;
	aside_init(&a);
	for (uint32_t i = 0; i < 10; i++)
		assert_true(add(&a, i, i, 0));
	struct turn *t = try(&a, 1, false, odd);
	assert_int_equal(t->n, 10);
	for (uint32_t i = 0; i < 10; i++)
		assert_int_equal(t->set[i], i);
	for (uint32_t i = 10; i < 13; i++)
		assert_true(add(&a, i, i, 0));
	const uint32_t left[] = { 0, 2, 4, 6, 8, 10, 11, 12 };
	assert_int_equal(a.n, 8);
	t = try(&a, 2, false, always);
	assert_int_equal(t->n, 8);
	assert_memory_equal(t->set, left, sizeof(left));
	assert_empty(&a);
	/* The last row leaves, and others follow the one before it. */
	for (uint32_t i = 0; i < 2; i++)
		assert_true(add(&a, i, 0, 0));
	assert_int_equal(try(&a, 3, false, odd)->n, 2);
	assert_true(add(&a, 5, 0, 0));
	t = try(&a, 4, false, always);
	assert_int_equal(t->n, 2);
	assert_true(t->set[0] == 0 && t->set[1] == 5);
	assert_empty(&a);
}

/* Each row has its own time, and leaves at its end with or without names. */
static void test_time(void **state)
{
	struct aside a;
	const uint64_t begin = 100 * SECOND;
	(void)state;
	aside_init(&a);
	for (uint32_t i = 0; i < 4; i++)
		assert_true(add(&a, i, 1, begin + i * SECOND / 4));
	struct turn *t = try(&a, begin + ASIDE_NS - 1, false, never);
	assert_int_equal(t->n, 4);
	for (uint32_t i = 0; i < 4; i++)
		assert_false(t->last[i]);
	assert_int_equal(a.n, 4);
	t = try(&a, begin + ASIDE_NS + SECOND / 4, false, never);
	assert_int_equal(t->n, 4);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(t->last[i], i < 2);
	t = try(&a, begin + ASIDE_NS + SECOND, false, never);
	assert_int_equal(t->n, 2);
	assert_true(t->set[0] == 2 && t->last[0] && t->set[1] == 3 && t->last[1]);
	assert_empty(&a);
}

/* At the end of a window all rows leave, however young. */
static void test_window(void **state)
{
	struct aside a;
	(void)state;
	aside_init(&a);
	for (uint32_t i = 0; i < 5; i++)
		assert_true(add(&a, i, 1, 0));
	struct turn *t = try(&a, 0, true, never);
	assert_int_equal(t->n, 5);
	for (uint32_t i = 0; i < 5; i++)
		assert_true(t->last[i]);
	assert_empty(&a);
}

/* Beyond the limit a row is refused, those before it stay whole, and what leaves makes room. */
static void test_bytes(void **state)
{
	struct aside a;
	uint32_t n = 0;
	(void)state;
	aside_init(&a);
	while (add(&a, n, 1280, 0))
		assert_true(++n < ROWS);
	assert_int_equal(a.n, n);
	assert_true(a.bytes.taken <= ASIDE_BYTES_MAX &&
		    a.bytes.taken > ASIDE_BYTES_MAX - 2 * 1280 * sizeof(uint64_t));
	assert_true(n > ASIDE_BYTES_MAX / 2 / (1280 * sizeof(uint64_t)));
	assert_false(add(&a, n, 1280, 0));
	assert_int_equal(a.n, n);
	struct turn *t = try(&a, 1, false, odd);
	assert_int_equal(t->n, n);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(t->set[i], i);
	assert_true(add(&a, n, 1280, 0));
	aside_clear(&a);
	assert_empty(&a);
	assert_true(add(&a, 0, 1280, 0));
	assert_int_equal(try(&a, 1, false, always)->n, 1);
	assert_empty(&a);
}

/* One user alone has three quarters of it, and others the rest. */
static void test_users(void **state)
{
	struct aside a;
	uint32_t n = 0;
	(void)state;
	aside_init(&a);
	while (add(&a, 2 * n, 1280, 0))
		n++;
	assert_in_range(a.bytes.taken, ASIDE_BYTES_MAX / 4 * 3 - 2 * 1280 * sizeof(uint64_t),
			ASIDE_BYTES_MAX / 4 * 3);
	for (uint32_t i = 0; i < n / 4; i++)
		assert_true(add(&a, 1, 1280, 0));
	assert_false(add(&a, 2 * n, 1280, 0));
	aside_clear(&a);
	assert_true(add(&a, 0, 1280, 0));
	aside_clear(&a);
	assert_empty(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_copy),  cmocka_unit_test(test_order),
		cmocka_unit_test(test_time),  cmocka_unit_test(test_window),
		cmocka_unit_test(test_bytes), cmocka_unit_test(test_users),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Python frames among native ones: stacks are made as a program would make them, cut, and put
 * together again.
 */
#include "stacks/interleave.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdlib.h>

#define MAX 64

/* Evals from the leaf on, each with 1 to 5 Python frames; owner[i] is the eval of frame i. */
struct made {
	bool entry[MAX];
	uint32_t owner[MAX], n_script, n_evals;
};

static struct made make(unsigned *seed)
{
	struct made m = { .n_evals = 1 + (uint32_t)rand_r(seed) % 8 };
	for (uint32_t k = 0; k < m.n_evals; k++) {
		uint32_t n = 1 + (uint32_t)rand_r(seed) % 5;
		while (n--) {
			m.owner[m.n_script] = k;
			m.entry[m.n_script++] = n == 0;
		}
	}
	return m;
}

static void check(const struct interleave *s, const struct made *m, int32_t shift)
{
	uint32_t next = 0;
	for (uint32_t k = 0; k < s->n_evals; k++) {
		uint32_t first, n = interleave_part(s, k, &first);
		if (!n)
			continue;
		assert_int_equal(first, next); /* in order, none twice, none left out */
		assert_true(k + 1 == s->n_evals || (int32_t)m->owner[first] == (int32_t)k - shift);
		assert_int_equal(m->owner[first],
				 m->owner[first + (k + 1 == s->n_evals ? 0 : n - 1)]);
		next = first + n;
	}
	assert_int_equal(next, s->n_script);
}

static void test_whole(void **state)
{
	unsigned seed = 7;
	(void)state;
	for (int i = 0; i < 2000; i++) {
		struct made m = make(&seed);
		struct interleave s = { m.entry, m.n_script, m.n_evals, false };
		check(&s, &m, 0);
	}
}

/* An eval that has just begun has no frame yet. */
static void test_begun(void **state)
{
	unsigned seed = 8;
	(void)state;
	for (int i = 0; i < 2000; i++) {
		struct made m = make(&seed);
		struct interleave s = { m.entry, m.n_script, m.n_evals + 1, false };
		uint32_t first;
		assert_int_equal(interleave_part(&s, 0, &first), 0);
		check(&s, &m, 1);
	}
}

static void test_native_cut(void **state)
{
	unsigned seed = 9;
	(void)state;
	for (int i = 0; i < 2000; i++) {
		struct made m = make(&seed);
		struct interleave s = { m.entry, m.n_script,
					1 + (uint32_t)rand_r(&seed) % m.n_evals, false };
		check(&s, &m, 0);
	}
}

static void test_script_cut(void **state)
{
	unsigned seed = 10;
	(void)state;
	for (int i = 0; i < 2000; i++) {
		struct made m = make(&seed);
		uint32_t n = 1 + (uint32_t)rand_r(&seed) % m.n_script;
		struct interleave s = { m.entry, n, m.n_evals, true };
		check(&s, &m, 0);
	}
}

static void test_none(void **state)
{
	bool no = false;
	uint32_t first;
	struct interleave s = { &no, 0, 3, false };
	(void)state;
	for (uint32_t k = 0; k < 3; k++)
		assert_int_equal(interleave_part(&s, k, &first), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),	   cmocka_unit_test(test_begun),
		cmocka_unit_test(test_native_cut), cmocka_unit_test(test_script_cut),
		cmocka_unit_test(test_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables keep within one budget, whatever the number of CPUs, and are as large as they need to be
 * where there is room.
 */
#include "sampler/sizes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#define MIB (1u << 20)

/* About what the tables of the BPF programs have. */
static struct sizes_question question(unsigned n_cpus, bool waits)
{
	return (struct sizes_question){ .n_cpus = n_cpus,
					.hz = 19,
					.window_s = 10,
					.waits = waits,
					.wakers = waits,
					.fixed_bytes = 23 * MIB,
					.cpu_fixed_bytes = 18000,
					.half_extra_bytes = waits ? 8000 : 0,
					.run_bytes = waits ? 64 : 0,
					.reuse_bytes = 2080,
					.recalled_bytes = 16,
					.copy_bytes = 26000 };
}

static bool is_pow2(uint32_t n)
{
	return n && !(n & (n - 1));
}

static void within_the_budget(void **state)
{
	(void)state;
	for (unsigned waits = 0; waits < 2; waits++)
		for (unsigned n = 1; n <= 512; n++) {
			struct sizes_question q = question(n, waits);
			struct sizes s;
			sizes_choose(&q, &s);
			assert_true(s.bytes <= SIZES_BUDGET);
			assert_true(is_pow2(s.rows) && is_pow2(s.words) && is_pow2(s.runs) &&
				    is_pow2(s.reuse) && is_pow2(s.recalled) && is_pow2(s.copies));
			assert_true(s.rows >= 64 && s.words >= 512 && s.runs >= 64 &&
				    s.reuse >= 1 && s.recalled >= 32);
			assert_true(s.n_halves > n && s.n_halves <= n + 16);
			assert_true(is_pow2((uint32_t)s.ring_bytes) && s.ring_bytes >= 16384);
		}
}

static void as_large_as_needed(void **state)
{
	struct sizes_question q = question(2, true);
	struct sizes s;
	(void)state;
	sizes_choose(&q, &s);
	assert_int_equal(s.rows, 32768);
	assert_int_equal(s.runs, 2048);
	assert_int_equal(s.ring_bytes, 131072);
	assert_false(s.may_grow);
	q = question(2, false);
	sizes_choose(&q, &s);
	assert_int_equal(s.rows, 256); /* 19 Hz for 10 s and a quarter */
	assert_int_equal(s.drain_ms, 10000);
	q.hz = 999;
	sizes_choose(&q, &s);
	assert_int_equal(s.rows, 1024);
	assert_true(s.drain_ms < 1000);
}

/* From small tables on, twice as large each time, until the budget or the need is met. */
static void they_grow(void **state)
{
	(void)state;
	for (unsigned n = 1; n <= 512; n *= 2) {
		struct sizes_question q = question(n, true), all = q;
		struct sizes s, most;
		sizes_choose(&all, &most);
		unsigned steps = 0;
		q.rows = 64;
		for (sizes_choose(&q, &s); s.may_grow; sizes_choose(&q, &s)) {
			q.rows = 2 * s.rows;
			assert_true(++steps < 12);
		}
		assert_int_equal(s.rows, most.rows);
		assert_true(s.bytes <= SIZES_BUDGET);
	}
}

/* Few CPUs begin with large tables: each time they grow costs a new start. */
static void they_begin_by_memory(void **state)
{
	(void)state;
	assert_int_equal(sizes_first_rows(2, 8 * MIB), 8192);
	assert_int_equal(sizes_first_rows(2, 1 * MIB), 2048);
	assert_int_equal(sizes_first_rows(512, 8 * MIB), 2048);
	for (unsigned n = 1; n <= 512; n++)
		assert_true(is_pow2(sizes_first_rows(n, 8 * MIB)) &&
			    sizes_first_rows(n, 8 * MIB) >= sizes_first_rows(n + 1, 8 * MIB));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(within_the_budget),
		cmocka_unit_test(as_large_as_needed),
		cmocka_unit_test(they_grow),
		cmocka_unit_test(they_begin_by_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

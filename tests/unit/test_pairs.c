/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of who waited and who was running: how many of them are kept, and whose. */
#include "collect/pairs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdlib.h>

static struct pairs p;

/* Any two numbers below 2^32 have a key of their own. */
static uint64_t key_of(uint64_t a, uint64_t b)
{
	uint64_t h = (a << 32 | b) + 1;
	h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9ull;
	h = (h ^ h >> 27) * 0x94d049bb133111ebull;
	return h ^ h >> 31;
}

static int set_up(void **state)
{
	(void)state;
	p.n = 1;
	pairs_clear(&p);
	return 0;
}

/* How many of n new pairs of processes a and b find room. */
static unsigned flood(uint64_t a, uint64_t b, unsigned n)
{
	unsigned got = 0;
	for (unsigned i = 0; i < n; i++)
		got += pairs_fit(&p, PAIRS_MAX, key_of(a << 16 | b, i), a, b);
	return got;
}

static void test_known_stay(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 1000; i++)
		assert_true(pairs_fit(&p, PAIRS_MAX, key_of(7, i), 7, i));
	flood(1, 2, 100000);
	for (unsigned i = 0; i < 1000; i++)
		assert_true(pairs_fit(&p, PAIRS_MAX, key_of(7, i), 7, i));
	assert_true(p.n <= PAIRS_MAX);
}

/*
 * One process with sets without end, against itself, as who waits, or as who has the CPU: the
 * others find room.
 */
static void test_one_takes_half(void **state)
{
	(void)state;
	assert_int_equal(flood(1, 1, 100000), PAIRS_MAX / 2);
	assert_int_equal(flood(2, 2, 500), 500);
	pairs_clear(&p);
	assert_int_equal(p.n, 0);
	assert_int_equal(flood(1, 2, 100000), PAIRS_MAX / 2);
	assert_int_equal(flood(3, 4, 500), 500);
	assert_int_equal(flood(1, 5, 500), 0);
	pairs_clear(&p);
	for (unsigned i = 10; i < 110; i++) /* a hundred that waited for it */
		flood(i, 1, 1000);
	assert_true(p.n <= PAIRS_MAX / 2 + 1);
	assert_int_equal(flood(200, 201, 500), 500);
}

/* Several of them, one after the other: there is still room for a pair of somebody else. */
static void test_several(void **state)
{
	(void)state;
	for (unsigned i = 1; i <= 8; i++)
		assert_true(flood(i, i, 100000) > 0);
	assert_int_equal(flood(100, 101, 4), 4);
	assert_true(p.n < PAIRS_MAX);
}

/* However they come, the table is never full: a search ends. */
static void test_any_order(void **state)
{
	(void)state;
	srand(1);
	for (unsigned i = 0; i < 1000000; i++) {
		uint64_t a = (uint64_t)rand() % 3000, b = (uint64_t)rand() % 3000;
		pairs_fit(&p, PAIRS_MAX, key_of(a << 16 | b, (uint64_t)rand()), a, b);
	}
	assert_true(p.n <= PAIRS_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_known_stay, set_up),
		cmocka_unit_test_setup(test_one_takes_half, set_up),
		cmocka_unit_test_setup(test_several, set_up),
		cmocka_unit_test_setup(test_any_order, set_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

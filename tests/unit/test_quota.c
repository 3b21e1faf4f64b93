/* SPDX-License-Identifier: Apache-2.0 */
/* What users share: none takes all of it, and all together take no more than there is. */
#include "util/quota.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <stdlib.h>

static void test_shares(void **state)
{
	struct quota q = { .max = 1000 };
	(void)state;
	for (int i = 0; i < 750; i++)
		assert_true(quota_take(&q, 1, 1));
	assert_false(quota_take(&q, 1, 1));
	assert_true(quota_is_greedy(&q, 1, 1));
	assert_false(quota_is_greedy(&q, 2, 1));
	assert_false(quota_take(&q, 2, 251));
	assert_true(quota_take(&q, 2, 250));
	assert_false(quota_take(&q, 3, 1)); /* nothing is left, which is nobody's greed */
	assert_false(quota_is_greedy(&q, 3, 1));
	quota_give(&q, 2, 250);
	assert_true(quota_take(&q, 3, 250));
	quota_give(&q, 1, 750);
	quota_give(&q, 3, 250);
	assert_int_equal(q.taken, 0);
}

static void test_sizes(void **state)
{
	struct quota q = { .max = 1000 };
	(void)state;
	assert_false(quota_take(&q, 1, 751));
	assert_false(quota_take(&q, 1, SIZE_MAX));
	assert_true(quota_take(&q, 1, 0));
	assert_true(quota_take(&q, 1, 750));
	assert_true(quota_take(&q, 1, 0));
	assert_int_equal(q.taken, 750);
}

/* What is in use in any case counts, and nobody gets more until it is given back. */
static void test_beyond(void **state)
{
	struct quota q = { .max = 1000 };
	(void)state;
	quota_add(&q, 1, 900);
	assert_true(quota_has(&q, 2, 100));
	assert_false(quota_has(&q, 1, 1));
	quota_add(&q, 1, 600);
	assert_false(quota_has(&q, 2, 1));
	assert_false(quota_take(&q, 2, 1));
	quota_give(&q, 1, 1500);
	assert_true(quota_take(&q, 2, 750));
	assert_int_equal(q.taken, 750);
}

/* A random mix of users: never more than there is, never more than a user may have. */
static void test_many(void **state)
{
	struct quota q = { .max = 100 };
	size_t has[5] = { 0 }, sum = 0;
	(void)state;
	srand(7);
	for (int i = 0; i < 100000; i++) {
		uint32_t user = (uint32_t)rand() % 5;
		size_t n = (size_t)rand() % 30;
		if (rand() % 2) {
			bool may = sum + n <= 100 && has[user] + n <= 75;
			assert_int_equal(quota_take(&q, user, n), may);
			has[user] += may ? n : 0;
			sum += may ? n : 0;
		} else if (has[user] >= n) {
			quota_give(&q, user, n);
			has[user] -= n;
			sum -= n;
		}
		assert_int_equal(q.taken, sum);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shares),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_beyond),
		cmocka_unit_test(test_many),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

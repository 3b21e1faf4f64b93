/* SPDX-License-Identifier: Apache-2.0 */
/* How long files may be read for, by whom: against a second by second account. */
#include "symbols/spending.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#define S 1000000000ull
#define SHARE (S * SPENDING_PERCENT / 100)

/*
 * Two users want all that they can get, in pieces of 10 ms, for two minutes: half each, and both
 * together no more than the share.
 */
static void test_shares(void **state)
{
	struct spending s;
	uint64_t now = 7 * S, end = now + 120 * S, spent[3] = { 0 }, idle = 0;
	(void)state;
	spending_begin(&s, 10000, now);
	while (now < end) {
		uint32_t user = (uint32_t)(now / 10000000 % 3);
		if (user < 2 && spending_may(&s, user, now)) {
			now += 10000000;
			spent[user] += 10000000;
			spending_add(&s, user, 10000000, now);
		} else {
			now += 10000000;
			idle += 10000000;
		}
	}
	for (unsigned user = 0; user < 2; user++)
		assert_in_range(spent[user], 110 * SHARE / 2, 120 * SHARE / 2 + 10 * SHARE / 2 + S);
	assert_in_range(spent[0] + spent[1], 110 * SHARE, 130 * SHARE + S);
	assert_true(idle > 0);
}

/* One who has used up what is his does not keep another one waiting. */
static void test_user(void **state)
{
	struct spending s;
	(void)state;
	spending_begin(&s, 10000, S);
	for (unsigned i = 0; i < 100 && spending_may(&s, 5, S); i++)
		spending_add(&s, 5, S / 10, S);
	assert_false(spending_may(&s, 5, S));
	assert_true(spending_may(&s, 6, S));
	assert_true(spending_may(&s, 5, 2 * S));
	/* Many others do not make that forgotten. */
	spending_begin(&s, 10000, S);
	while (spending_may(&s, 5, S))
		spending_add(&s, 5, S / 10, S);
	for (uint32_t user = 100; user < 400; user++)
		spending_add(&s, user, 1000, S);
	assert_false(spending_may(&s, 5, S));
}

/* All together. */
static void test_all(void **state)
{
	struct spending s;
	uint64_t sum = 0;
	(void)state;
	spending_begin(&s, 10000, S);
	for (uint32_t user = 0; user < 64 && spending_may(&s, user, S); user++, sum += S / 2)
		spending_add(&s, user, S / 2, S);
	assert_int_equal(sum, 10 * SHARE);
	assert_true(spending_may(&s, 0, 2 * S));
}

/* However short drains are, a file can be read; before the beginning there is no limit. */
static void test_least(void **state)
{
	struct spending s = { 0 };
	(void)state;
	for (unsigned i = 0; i < 1000; i++) {
		assert_true(spending_may(&s, 1, i * S));
		spending_add(&s, 1, 10 * S, i * S);
	}
	spending_begin(&s, 20, S);
	assert_true(spending_may(&s, 1, S));
	spending_add(&s, 1, SPENDING_LEAST_NS / 4, S);
	assert_true(spending_may(&s, 1, S));
	spending_add(&s, 1, SPENDING_LEAST_NS / 4, S);
	assert_false(spending_may(&s, 1, S));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shares),
		cmocka_unit_test(test_user),
		cmocka_unit_test(test_all),
		cmocka_unit_test(test_least),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

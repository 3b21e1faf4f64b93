/* SPDX-License-Identifier: Apache-2.0 */
/* Questions within a budget to a large store. */
#include "bounded_checks.h"

static void large_store(void **state)
{
	(void)state;
	struct fixture *f = &fixture;
	make(f, (struct size){ 40, 4000, 300, 3000, NODES_MAX, false }, 99);
	warm_up(f);
	const size_t factor = part_of("budgets of a large store", 2) > 1 ? 8 : 2;
	for (size_t budget = 1 << 20; budget <= 64 << 20; budget *= factor)
		for (int i = 0; i < 2 - !COUNTS_BYTES; i++)
			ask_all(f, budget);
	fini(f);
	printf("at most %lld KiB beside the budget; %u answers were cut, %u were not\n",
	       (long long)most_over / 1024, n_bounded, n_whole);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(large_store),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

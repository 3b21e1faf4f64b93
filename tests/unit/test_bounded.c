/* SPDX-License-Identifier: Apache-2.0 */
/* Questions within a budget to small stores. */
#include "bounded_checks.h"

/* From a tenth of the smallest useful budget to plenty. */
static size_t draw_budget(struct fixture *f)
{
	return ((size_t)8 << 10 << draw(f, 14)) + draw(f, 5000);
}

static void small_stores(void **state)
{
	(void)state;
	const unsigned trials = TRIALS / (unsigned)part_of("budgets of small stores", 3);
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct fixture *f = &fixture;
		make(f,
		     (struct size){ 6 + (uint32_t)seed * 4, 20 * (uint32_t)seed,
				    3 + 3 * (uint32_t)seed, 20 * (uint32_t)seed,
				    100 * (uint32_t)seed, false },
		     seed);
		warm_up(f);
		for (unsigned i = 0; i < trials; i++)
			ask_all(f, draw_budget(f));
		fini(f);
	}
	assert_true(n_bounded > 5 * trials && n_whole > 5 * trials);
	assert_true(query_bounded_total() >= n_bounded);
}

/* Small stacks may be left out, which differ from large ones in source lines alone. */
static void small_stacks(void **state)
{
	(void)state;
	struct fixture *f = &fixture;
	make(f, (struct size){ 40, 4000, 3, 3, NODES_MAX, true }, 7);
	check_tree(f, (size_t)1 << 30);
	const size_t n = 30 / part_of("trees of small stacks", 3);
	for (size_t i = 0; i < n; i++)
		check_tree(f, (size_t)64 << 20);
	fini(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_stores),
		cmocka_unit_test(small_stacks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

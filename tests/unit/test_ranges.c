/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of unwind ranges: equal ones take the room of one. */
#include "stacks/ranges.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>

#define CHILDREN 650
#define MAPPINGS 56

static void no_free(void *ctx, struct range_list *l)
{
	(void)ctx;
	(void)l;
}

static struct unwind_range *fill(struct unwind_range *r, uint64_t first)
{
	for (uint32_t i = 0; i < MAPPINGS; i++)
		r[i] = (struct unwind_range){ .start = first + 2ull * i * 4096,
					      .end = first + (2ull * i + 1) * 4096,
					      .page = i };
	return r;
}

static void test_share(void **state)
{
	(void)state;
	struct unwind_range *shared = calloc(UNWIND_RANGES, sizeof(*shared)), r[MAPPINGS];
	struct range_lists all;
	struct range_list *first, *l;
	void *code[2] = { &all, r };
	bool made;
	assert_int_equal(range_lists_init(&all, shared, no_free, NULL), 0);
	assert_int_equal(range_lists_get(&all, fill(r, 4096), MAPPINGS, code, 2, 0, &first, &made),
			 0);
	assert_true(made);
	for (unsigned i = 1; i < CHILDREN; i++) {
		assert_int_equal(range_lists_get(&all, r, MAPPINGS, code, 2, 0, &l, &made), 0);
		assert_false(made);
		assert_ptr_equal(l, first);
	}
	assert_int_equal(all.free.used, MAPPINGS);
	assert_int_equal(first->refs, CHILDREN);
	const uint64_t word = range_list_word(first, 64);
	assert_memory_equal(shared + UNWIND_LIST_FIRST(word), r, sizeof(r));
	assert_int_equal(UNWIND_LIST_N(word), MAPPINGS);
	assert_int_equal(UNWIND_LIST_V8(word), 64);
	assert_int_equal(UNWIND_LIST_NUMBER(word), first->number);
	/* Other files behind the same addresses are another list. */
	assert_int_equal(range_lists_get(&all, r, MAPPINGS, code, 1, 0, &l, &made), 0);
	assert_true(made && l != first && l->number != first->number);
	const uint64_t last =
		UNWIND_LIST(UNWIND_RANGES - 1, UNWIND_PROC_RANGES_MAX, 64, UNWIND_LIST_NUMBERS - 1);
	assert_int_equal(UNWIND_LIST_FIRST(last), UNWIND_RANGES - 1);
	assert_int_equal(UNWIND_LIST_N(last), UNWIND_PROC_RANGES_MAX);
	assert_int_equal(UNWIND_LIST_V8(last), 64);
	assert_int_equal(UNWIND_LIST_NUMBER(last), UNWIND_LIST_NUMBERS - 1);
	/* One that nobody uses, and that is wanted again before it was freed. */
	range_lists_put(&all, l);
	assert_int_equal(all.unused.n, 1);
	assert_int_equal(range_lists_get(&all, r, MAPPINGS, code, 1, 0, &l, &made), 0);
	assert_false(made);
	assert_int_equal(all.unused.n, 0);
	range_lists_fini(&all);
	free(shared);
}

/*
 * Without anything in common there is room for so many, and no more. One user has three quarters.
 */
static void test_full(void **state)
{
	(void)state;
	struct unwind_range *shared = calloc(UNWIND_RANGES, sizeof(*shared)), r[MAPPINGS];
	struct range_lists all;
	struct range_list *l;
	bool made;
	uint64_t n = 0;
	void *none[1];
	assert_int_equal(range_lists_init(&all, shared, no_free, NULL), 0);
	while (!range_lists_get(&all, fill(r, 4096 * (n + 1)), MAPPINGS, none, 0, 5, &l, &made))
		n++;
	assert_int_equal(n, UNWIND_RANGES / 4 * 3 / MAPPINGS);
	assert_int_equal(range_lists_get(&all, r, MAPPINGS, none, 0, 5, &l, &made), -EDQUOT);
	while (!range_lists_get(&all, fill(r, 4096 * (n + 1)), MAPPINGS, none, 0, 6, &l, &made))
		n++;
	assert_int_equal(n, UNWIND_RANGES / MAPPINGS);
	assert_int_equal(range_lists_get(&all, r, MAPPINGS, none, 0, 6, &l, &made), -ENOSPC);
	assert_int_equal(range_lists_get(&all, fill(r, 4096), MAPPINGS, none, 0, 5, &l, &made), 0);
	range_lists_fini(&all);
	free(shared);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_share),
		cmocka_unit_test(test_full),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

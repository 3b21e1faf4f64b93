/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every place of an operation on stores that asks for memory gets none, once. For a test that
 * includes fault/alloc.c.
 */
#ifndef TESTS_UNIT_STARVED_H
#define TESTS_UNIT_STARVED_H

#include "unit/store_ops.h"

#define PLACES 4000

static void begin_faults(void)
{
	alloc_faults.on = true;
}

static void end_faults(void)
{
	alloc_faults.on = false;
}

static inline void starve(const char *name, int (*run)(struct digest *ret, struct err *err))
{
	static long places[PLACES];
	struct digest want = { 0 };
	struct err err = { 0 };
	const size_t descriptors = count_descriptors();
	size_t failed = 0;
	alloc_faults = (struct alloc_faults){ .places = places, .cap = PLACES };
	if (run(&want, &err))
		fail_msg("%s, with memory: %s", name, err.text);
	const size_t n = alloc_faults.n_places;
	remove_tree(target);
	assert_true(n > 5 && n < PLACES);
	for (size_t i = 0; i < n; i++) {
		struct digest got = { 0 };
		alloc_faults = (struct alloc_faults){ .at = places[i] };
		err = (struct err){ 0 };
		int rc = run(&got, &err);
		if (rc && (rc != -ENOMEM || !err.text[0]))
			fail_msg("%s, allocation %ld: %d, %s", name, places[i], rc, err.text);
		if (!rc && !same_digest(&got, &want))
			fail_msg("%s, allocation %ld: another result", name, places[i]);
		failed += rc != 0;
		assert_int_equal(count_descriptors(), descriptors);
		remove_tree(target);
		remove_tree(target_tmp); /* to remove it takes memory, too */
	}
	print_message("%s: %zu places, %zu failures\n", name, n, failed);
	assert_true(failed);
}

#endif

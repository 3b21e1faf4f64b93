/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Return how much of a sweep to do. `make test` takes one in so many positions, `make test-all`
 * (ASCRIBE_TEST_ALL) takes each. Every kind of case is in both.
 */
#ifndef TESTS_PART_H
#define TESTS_PART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

static inline bool part_all(void)
{
	return getenv("ASCRIBE_TEST_ALL") != NULL;
}

/* One in n positions of what is named, which is printed: tools/test shows it. */
static inline size_t part_of(const char *what, size_t n)
{
	if (part_all() || n <= 1)
		return 1;
	printf("%s: 1 of %zu of all, all of them in make test-all\n", what, n);
	return n;
}

#endif

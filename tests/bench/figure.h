/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ASCRIBE_TESTS_FIGURE_H
#define ASCRIBE_TESTS_FIGURE_H

#include <stddef.h>
#include <stdio.h>

/*
 * Print values of a figure for tools/benchmarks, each divided by `by`. The id is one of
 * tests/bench/figures, `who` is "ascribe" or what stands beside it.
 */
static inline void figure(const char *id, const char *who, const double *v, size_t n, double by)
{
	printf("figure\t%s\t%s\t", id, who);
	for (size_t i = 0; i < n; i++)
		printf("%s%.6g", i ? " " : "", v[i] / by);
	putchar('\n');
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* libc calls back: the work is in the function that compares for qsort. */
#include "truth.h"

static part_fn *compared;
static unsigned compared_n;

static int compare(const void *a, const void *b)
{
	if (compared_n)
		compared(compared_n);
	compared_n = 0; /* the first time only */
	return *(const int *)a - *(const int *)b;
}

static NOINLINE void by(part_fn *part, unsigned n)
{
	int v[] = { 3, 1, 2 };
	compared = part;
	compared_n = n;
	qsort(v, 3, sizeof(v[0]), compare);
	sink += (unsigned long long)v[0];
}

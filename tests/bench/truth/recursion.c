/* SPDX-License-Identifier: Apache-2.0 */
/* A recursion, DEPTH calls deep. */
#include "truth.h"

static NOINLINE void down(int depth, part_fn *part, unsigned n)
{
	if (depth)
		down(depth - 1, part, n);
	else
		part(n);
	sink++; /* no tail call */
}

static NOINLINE void by(part_fn *part, unsigned n)
{
	down(DEPTH, part, n);
	sink++;
}

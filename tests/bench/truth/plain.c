/* SPDX-License-Identifier: Apache-2.0 */
/* One function that calls another: the program for the options of compilers and linkers. */
#include "truth.h"

static NOINLINE void by(part_fn *part, unsigned n)
{
	part(n);
	sink++; /* no tail call */
}

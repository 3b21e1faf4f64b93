/* SPDX-License-Identifier: Apache-2.0 */
/* Tail calls: by() and middle() jump, so they are not on the stack. */
#include "truth.h"

static NOINLINE void middle(part_fn *part, unsigned n)
{
	part(n);
}

static NOINLINE void by(part_fn *part, unsigned n)
{
	middle(part, n);
}

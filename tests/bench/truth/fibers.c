/* SPDX-License-Identifier: Apache-2.0 */
/* The work is on the stack of a fiber. */
#include "truth.h"

#include <ucontext.h>

static ucontext_t mine, its;
static char stack[1 << 16];
static part_fn *fiber_part;
static unsigned fiber_n;

static void fiber(void)
{
	for (;;) {
		fiber_part(fiber_n);
		swapcontext(&its, &mine);
	}
}

static NOINLINE void by(part_fn *part, unsigned n)
{
	fiber_part = part;
	fiber_n = n;
	if (!its.uc_stack.ss_sp) {
		getcontext(&its);
		its.uc_stack.ss_sp = stack;
		its.uc_stack.ss_size = sizeof(stack);
		makecontext(&its, fiber, 0);
	}
	swapcontext(&mine, &its);
	sink++;
}

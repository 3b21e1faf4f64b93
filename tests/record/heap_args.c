/* SPDX-License-Identifier: Apache-2.0 */
/* The probes of allocations, with arguments where no other program has them. */
#include "static_probe.h"

int main(void)
{
	STATIC_PROBE("otel_memory", "alloc", "0", "8@-8(%%rbp) 8@$16 8@%%r15", "i"(0));
	STATIC_PROBE("otel_memory", "free", "0", "8@%%rdi", "i"(0));
	return 0;
}

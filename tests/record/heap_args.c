/* SPDX-License-Identifier: Apache-2.0 */
/* The probes of allocations, with arguments where no other program has them. */
#include <stdlib.h>

#define PROBE(name, args) \
	__asm__ volatile("990: nop\n" \
			 ".pushsection .note.stapsdt,\"\",\"note\"\n" \
			 ".balign 4\n" \
			 ".4byte 992f-991f, 994f-993f, 3\n" \
			 "991: .asciz \"stapsdt\"\n" \
			 "992: .balign 4\n" \
			 "993: .8byte 990b, 0, 0\n" \
			 ".asciz \"otel_memory\"\n.asciz \"" name "\"\n.asciz \"" args "\"\n" \
			 "994: .balign 4\n" \
			 ".popsection\n")

int main(void)
{
	PROBE("alloc", "8@-8(%%rbp) 8@$16 8@%%r15");
	PROBE("free", "8@%%rdi");
	return 0;
}

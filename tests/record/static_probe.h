/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A static probe whose note is as sys/sdt.h writes it: names and the text of the arguments as
 * string literals, the operands that the text names ("8@%0"). SEMAPHORE: a name, or 0.
 */
#ifndef ASCRIBE_TESTS_STATIC_PROBE_H
#define ASCRIBE_TESTS_STATIC_PROBE_H

#define STATIC_PROBE(PROVIDER, NAME, SEMAPHORE, ARGUMENTS, ...) \
	__asm__ volatile("990: nop\n" \
			 ".pushsection .note.stapsdt,\"\",\"note\"\n" \
			 ".balign 4\n" \
			 ".4byte 992f-991f, 994f-993f, 3\n" \
			 "991: .asciz \"stapsdt\"\n" \
			 "992: .balign 4\n" \
			 "993: .8byte 990b, _.stapsdt.base, " SEMAPHORE "\n" \
			 ".asciz \"" PROVIDER "\"\n.asciz \"" NAME "\"\n.asciz \"" ARGUMENTS \
			 "\"\n" \
			 "994: .balign 4\n" \
			 ".popsection\n" \
			 ".ifndef _.stapsdt.base\n" \
			 ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
			 ".weak _.stapsdt.base\n.hidden _.stapsdt.base\n" \
			 "_.stapsdt.base: .space 1\n" \
			 ".size _.stapsdt.base, 1\n" \
			 ".popsection\n" \
			 ".endif\n" \
			 : \
			 : __VA_ARGS__)

#endif

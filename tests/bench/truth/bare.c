/* SPDX-License-Identifier: Apache-2.0 */
/* A caller in assembler without call frame information, which has a value in the frame pointer. */
#include "truth.h"

void bare(unsigned n, part_fn *part);
__asm__(".text\n.balign 16\n.globl bare\n.type bare, @function\n"
	"bare: push %rbp\nmov $7, %ebp\ncall *%rsi\npop %rbp\nret\n.size bare, . - bare\n");

static NOINLINE void by(part_fn *part, unsigned n)
{
	bare(n, part);
	sink++;
}

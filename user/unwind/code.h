/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules for x86-64 code without call frame information, which is hand-written assembler: from what
 * its instructions do to the stack pointer, the frame pointer and the stack. For user/unwind alone.
 *
 * Control flow is followed from where functions are entered: their symbols, and what comes first in
 * the code. Where a jump's target is not known (tables of unrolled loops), the code that nothing
 * else leads to is taken to have the frame of that jump. A function that never returns, or
 * with another depth than it was entered with, was not understood: none of it has a rule.
 */
#ifndef ASCRIBE_UNWIND_CODE_H
#define ASCRIBE_UNWIND_CODE_H

#include "elf/image.h"
#include "unwind/table.h"

struct code {
	const struct elf_image *img;
	uint64_t *entries; /* [n]: vaddrs of functions, ascending */
	size_t n, cap;
	uint64_t first, end; /* the .text section; both 0: there is nothing to be done */
	uint64_t left;	     /* bytes that may still be looked at */
};

/* The image is used until code_fini. 0, also where the file is not of x86-64 or has no .text;
 * -ENOMEM. */
int code_read(struct code *c, const struct elf_image *img);

/* Add rules for the code in [begin, end), none of which has an entry. 0, -ENOMEM, or the error of
 * table_add. */
int code_add(struct code *c, struct table_builder *out, uint64_t begin, uint64_t end);
void code_fini(struct code *c);

#endif

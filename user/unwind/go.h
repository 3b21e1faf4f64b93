/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of a Go program's code from .gopclntab, which stripping leaves in place. Go keeps frame pointers, and its own walk of a
 * stack needs no call frame information; what frame pointers do not tell are the places where a function has no frame yet or no longer,
 * or never makes one, as memmove does: there they lead past the caller.
 */
#ifndef ASCRIBE_UNWIND_GO_H
#define ASCRIBE_UNWIND_GO_H

#include "elf/image.h"
#include "unwind/table.h"

struct go_piece {
	uint32_t begin, end; /* from the beginning of the text */
	uint32_t depth; /* of the stack; or one of these: */
#define GO_ROOT UINT32_MAX /* the outermost frame */
#define GO_FRAME (UINT32_MAX - 1) /* a frame that its frame pointer tells of */
#define GO_DUFF (UINT32_MAX - 2) /* duffzero, duffcopy: who calls them has put its frame pointer below the return address */
};

struct go_code {
	struct go_piece *v; /* in order of begin */
	size_t n, cap, at; /* the next to add */
	uint64_t first, end; /* the text */
	uint16_t machine;
	uint32_t sp; /* the number of the stack pointer */
};

/* Files that are not of Go, or lie, give what there is: nothing, or their beginning. 0, -ENOMEM. */
int go_code_read(struct go_code *g, const struct elf_image *img, const struct table_builder *out, uint32_t sp);

/* Add those that begin up to `until`, an address. */
int go_code_add(struct go_code *g, struct table_builder *out, uint64_t until);
void go_code_fini(struct go_code *g);

#endif

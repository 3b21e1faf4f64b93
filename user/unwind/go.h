/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of a Go program's code from .gopclntab, which stripping leaves in place: how deep
 * the stack is at each instruction. Go keeps frame pointers, but they lead past the caller where a
 * function has no frame yet or no longer, or never makes one, as memmove does. Hand-written code
 * (crypto/sha256) uses their register for something else. What no depth tells of are functions that
 * change stacks.
 */
#ifndef ASCRIBE_UNWIND_GO_H
#define ASCRIBE_UNWIND_GO_H

#include "elf/image.h"
#include "unwind/table.h"

struct go_piece {
	uint32_t begin, end; /* from the beginning of the text */
	uint32_t depth;	     /* of the stack */
	enum go_kind {
		GO_BARE, /* the caller's frame pointer is in its register */
		/*
		 * And here below the return address: that of a frame, or what who calls duffzero or
		 * duffcopy puts there
		 */
		GO_SAVED,
		/* A frame by its frame pointer: the stack pointer may be that of another stack */
		GO_SWITCH,
		GO_SIGNAL, /* what a signal handler returns to: above it is what the kernel saved */
		GO_ROOT,   /* the outermost frame */
	} kind;
};

struct go_code {
	struct go_piece *v;  /* in order of begin */
	size_t n, cap, at;   /* the next to add */
	uint64_t first, end; /* the text */
	uint16_t machine;
	uint32_t sp; /* the number of the stack pointer */
};

/* Files that are not of Go, or lie, give what there is: nothing, or their beginning. 0, -ENOMEM. */
int go_code_read(struct go_code *g, const struct elf_image *img, const struct table_builder *out,
		 uint32_t sp);

/* Add those that begin up to `until`, an address. */
int go_code_add(struct go_code *g, struct table_builder *out, uint64_t until);
void go_code_fini(struct go_code *g);

#endif

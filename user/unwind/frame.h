/* SPDX-License-Identifier: Apache-2.0 */
/* What one x86-64 instruction does to the frame of the function that it is in. For user/unwind
 * alone. */
#ifndef ASCRIBE_UNWIND_FRAME_H
#define ASCRIBE_UNWIND_FRAME_H

#include <linux/types.h>
#include "unwind_wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where the caller's value of a register is: a distance from the CFA (negative), or one of these.
 */
#define FRAME_SAME 0
#define FRAME_LOST 1

/* Before an instruction. The CFA is sp + depth, and rbp + base when base is not 0. */
struct frame {
	bool known;    /* else the CFA is not: no rule */
	bool sp_known; /* else by rbp alone */
	bool broken; /* it has taken from the stack what is its caller's: this is no frame of such a
			depth */
	int32_t depth; /* 8 where the function is entered */
	int32_t base;
	int32_t fp, bx; /* the caller's rbp and rbx */
};

enum frame_flow {
	FRAME_NEXT,	/* goes on behind the instruction */
	FRAME_BRANCH,	/* there, or to the target */
	FRAME_JUMP,	/* to the target */
	FRAME_INDIRECT, /* nobody knows where to */
	FRAME_RETURN,
	FRAME_STOP, /* a trap, or no instruction */
};

struct frame_insn {
	uint8_t len; /* 0: no instruction */
	enum frame_flow flow;
	int64_t target; /* from the instruction's first byte on */
};

/* The instruction at p, of which `left` bytes may be read; *io_frame becomes that behind it. Any
 * bytes whatever will do. */
void frame_step(const uint8_t *p, size_t left, struct frame *io_frame, struct frame_insn *ret);

/* The frame where a function is entered. */
struct frame frame_entered(void);

/* The rule that a frame makes; cfa UNWIND_CFA_NONE: none. */
struct unwind_rule frame_rule(const struct frame *f);

#endif

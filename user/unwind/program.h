/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call frame instructions (DWARF 5, 6.4.2; LSB for the augmentations): what is known of the frame
 * while they are executed. For user/unwind alone.
 */
#ifndef ASCRIBE_UNWIND_PROGRAM_H
#define ASCRIBE_UNWIND_PROGRAM_H

#include "unwind/unwind.h"
#include "util/buf.h"

#include <stdbool.h>

enum how {
	HOW_SAME = 0,
	HOW_UNDEFINED,
	HOW_CFA,    /* in memory at cfa + off */
	HOW_REG,    /* in register reg */
	HOW_AT_REG, /* in memory at reg + off */
	HOW_OTHER,  /* in a way that we do not follow */
};

struct saved {
	enum how how;
	uint32_t reg;
	int64_t off;
};

struct cfa {
	enum unwind_cfa how; /* UNWIND_CFA_NONE: in a way that we do not follow */
	uint32_t reg;
	int64_t off, add;
};

struct frame_state {
	struct cfa cfa;
	struct saved fp, bx, ra;
};

/* The registers of a machine that are followed, by DWARF number. */
struct arch {
	uint16_t machine; /* EM_* */
	uint32_t sp, fp, ra;
	uint32_t kept; /* one more, followed above the leaf */
	uint32_t n;    /* those below are integer registers */
	/*
	 * A call leaves the return address in register ra (glibc's rawmemchr: in x15), else on the
	 * stack
	 */
	bool ra_in_reg;
	uint32_t padding; /* between functions, bytes at most */
};

/* NULL: none of ours. */
const struct arch *arch_of(uint16_t machine);

/* A common entry: what its frames share. */
struct cie {
	const struct arch *arch;
	size_t at; /* in its section */
	uint64_t code_align;
	int64_t data_align;
	uint32_t ra_reg;
	uint8_t pointer; /* encoding of addresses */
	bool has_data;	 /* entries carry a length of augmentation data */
	bool is_signal;
	bool good;
	struct frame_state initial;
};

/* Where encoded pointers are relative to. */
struct pointer_base {
	const uint8_t *bytes;
	uint64_t vaddr;
};

/* A signed LEB128 number. */
int64_t signed_read(struct cursor *c);

/* An encoded pointer (DW_EH_PE_*); c->bad when it is of a kind that has no place here. */
uint64_t pointer_read(struct cursor *c, uint8_t encoding, const struct pointer_base *base);

/* The initial instructions of a common entry. 0, or -EBADMSG. */
int program_initial(struct cie *cie, struct cursor code, const struct pointer_base *base);

/*
 * The instructions of one entry for [start, end): each piece with its rule goes to `piece`. 0,
 * -EBADMSG when they do not make sense, or what piece returned.
 */
int program_run(const struct cie *cie, struct cursor code, const struct pointer_base *base,
		uint64_t start, uint64_t end,
		int (*piece)(void *ctx, uint64_t start, uint64_t end,
			     const struct unwind_rule *rule),
		void *ctx);

#endif

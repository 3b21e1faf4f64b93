/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What unwind_walk.h, which includes this, has to know of arm64.
 *
 * A call leaves the return address in x30. A function that calls others saves it, beside the frame
 * pointer in most code and signed in some (PAC). The pair may lie anywhere in the frame, so the
 * frame pointer does not tell the caller's stack pointer. After a step by it rules that count from
 * sp cannot be used, until one that counts from x29 has given sp back.
 */
#ifndef ASCRIBE_UNWIND_ARM64_H
#define ASCRIBE_UNWIND_ARM64_H

/*
 * struct rt_sigframe (arch/arm64/kernel/signal.c): siginfo, then ucontext with sigcontext 176 bytes
 * into it.
 */
#define SIGFRAME_REGS (128 + 176 + 8)
#define SIGFRAME_FP (SIGFRAME_REGS + 29 * 8)
#define SIGFRAME_LR (SIGFRAME_REGS + 30 * 8)
#define SIGFRAME_SP (SIGFRAME_REGS + 31 * 8)
#define SIGFRAME_PC (SIGFRAME_REGS + 32 * 8)

#define FRAME_ENDS_AT_FP 0
#define FP_BELOW_SP 8 /* Go saves the frame pointer below the stack pointer */

/*
 * The rules of glibc's dynamic linker forget what .plt has pushed: they find the return address
 * above the end of the frame. It ends behind that address, and for the leaf it may just have been
 * popped.
 */
#define RA_IN_FRAME 1

/*
 * Bits that an address of a process has; includers define it. Above them are the signature and the
 * tag.
 */
static __always_inline __u64 unwind_address_mask(void);

static __always_inline __u64 unwind_unsigned(__u64 at)
{
	return at & unwind_address_mask();
}

/* Is the code at pc `mov x8, #139; svc #0`, which the vdso has without rules? */
static __always_inline bool is_sigreturn(__u64 pc)
{
	__u64 code;
	return read_word(pc, &code) && code == 0xd4000001d2801168ull;
}

/* The leaf may be at the second instruction, or behind it, in the kernel. */
static __always_inline bool at_sigreturn(const struct unwind_state *s)
{
	return is_sigreturn(s->pc) ||
	       (s->leaf && (is_sigreturn(s->pc - 4) || is_sigreturn(s->pc - 8)));
}

static __always_inline bool unwind_signal(struct unwind_state *s)
{
	__u64 sp = s->sp;
	if (!read_word(sp + SIGFRAME_FP, &s->fp) ||
	    !read_word(sp + SIGFRAME_LR, &s->reg[UNWIND_ARM_LR]) ||
	    !read_word(sp + SIGFRAME_PC, &s->pc) || !read_word(sp + SIGFRAME_SP, &s->sp))
		return false;
	s->lr_known = 1;
	return true;
}

#define CODE_PLT0 0xa9bf7bf0u	/* stp x16, x30, [sp, #-16]! */
#define CODE_MOV_FP 0x910003fdu /* add x29, sp, #n */

/*
 * Is x30 where the function whose next instruction this is returns to? It has not called anything
 * yet, or is about to return: landing pads and signing (bti c, bti jc, paciasp, pacibsp), stp x29,
 * x30, [sp, #n]! and add x29, sp, #n; autiasp, autibsp, ret, retaa, retab; the four instructions of
 * an entry of .plt, and the first of those before the first entry.
 */
static __always_inline bool lr_returns(__u32 code)
{
	return (code & ~0x80u) == 0xd503245f || (code & ~0x40u) == 0xd503233f ||
	       (code & 0xffc07fff) == 0xa9807bfd || (code & 0xffc003ff) == CODE_MOV_FP ||
	       (code & ~0x40u) == 0xd50323bf || code == 0xd65f03c0 ||
	       (code & ~0x400u) == 0xd65f0bff || (code & 0x9f00001f) == 0x90000010 ||
	       (code & 0xffc003ff) == 0xf9400211 || (code & 0xffc003ff) == 0x91000210 ||
	       code == 0xd61f0220 || code == CODE_PLT0;
}

/*
 * Code of another mapping that x30 leads to is the caller: after a call of its own the function
 * would find itself there. The vdso's functions are like that, without a frame. Those that have
 * one, with that same address, are left to the frame pointer.
 */
static __always_inline bool lr_leads_away(const struct unwind_state *s, __u64 lr)
{
	__u64 saved;
	return !in_last_range(s, lr - 1) && read_word(s->fp + 8, &saved) &&
	       unwind_unsigned(saved) != lr;
}

/* The caller of a frame that is not made: 0, or 1 when it is none of those. */
static __always_inline int unwind_bare(struct unwind_state *s)
{
	__u64 pc = unwind_unsigned(s->reg[UNWIND_ARM_LR]), top = 0;
	__u32 code;
	if ((!s->leaf && !s->lr_known) || unwind_read(&code, sizeof(code), s->pc))
		return 1;
	bool returns = lr_returns(code);
	if ((!returns && !lr_leads_away(s, pc)) || !is_code(s, pc - 1))
		return 1;
	s->pc = pc;
	if (!returns) {
		s->sp_lost = 1;
		return 0;
	}
	/*
	 * The frame is there, of unknown size; or the dynamic linker is on its way with x16 and x30
	 * on the stack.
	 */
	s->sp_lost =
		(code & 0xffc003ff) == CODE_MOV_FP ||
		(code != CODE_PLT0 && read_word(s->sp + 8, &top) && top == s->reg[UNWIND_ARM_LR]);
	return 0;
}

static __always_inline bool other_reg(const struct unwind_state *s, __u32 reg, __u64 *ret)
{
	if (!s->leaf && !(reg == UNWIND_ARM_LR && s->lr_known))
		return false;
	*ret = s->reg[reg & (UNWIND_REGS - 1)];
	return true;
}

#endif

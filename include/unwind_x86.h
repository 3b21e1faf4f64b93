/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What unwind_walk.h, which includes this, has to know of x86-64: signal frames, frames that are
 * not made yet, rbx.
 */
#ifndef ASCRIBE_UNWIND_X86_H
#define ASCRIBE_UNWIND_X86_H

/*
 * Offsets in what the kernel leaves on the stack for a signal handler
 * (arch/x86/include/uapi/asm/sigcontext.h), from ucontext on.
 */
#define SIGFRAME_FP 120
#define SIGFRAME_SP 160
#define SIGFRAME_PC 168

#define FRAME_ENDS_AT_FP 1 /* the caller's stack begins 16 bytes above the frame pointer */
#define FP_BELOW_SP 0
#define RA_IN_FRAME 0

/* An address as it was before it was saved. */
static __always_inline __u64 unwind_unsigned(__u64 at)
{
	return at;
}

/*
 * Is the code at pc `mov $15, %rax; syscall`, what a C library without rules for it has signal
 * handlers return to?
 */
static __always_inline bool is_sigreturn(__u64 pc)
{
	struct {
		__u64 low, high;
	} code = { 0 };
	return !unwind_read(&code, 9, pc) && code.low == 0x0f0000000fc0c748ull &&
	       (code.high & 0xff) == 0x05;
}

static __always_inline bool at_sigreturn(const struct unwind_state *s)
{
	return !s->leaf && is_sigreturn(s->pc);
}

/* What a signal interrupted: pc, sp and fp. */
static __always_inline bool unwind_signal(struct unwind_state *s)
{
	__u64 sp = s->sp;
	return read_word(sp + SIGFRAME_FP, &s->fp) && read_word(sp + SIGFRAME_PC, &s->pc) &&
	       read_word(sp + SIGFRAME_SP, &s->sp);
}

/*
 * The function that was interrupted has not made its frame yet, or has left it. The next
 * instruction shows that: push %rbp, endbr64, ret; mov %rsp, %rbp in its two forms. How far above
 * the stack pointer its return address is, -1 if none of these.
 */
static __always_inline int frame_is_bare(__u64 pc)
{
	__u32 code;
	if (unwind_read(&code, sizeof(code), pc))
		return -1;
	if ((code & 0xff) == 0x55 || (code & 0xfe) == 0xc2 || code == 0xfa1e0ff3)
		return 0;
	code &= 0xffffff;
	return code == 0xe58948 || code == 0xec8b48 ? 8 : -1;
}

/* The caller of a frame that is not made: 0, or 1 when it is none of those. */
static __always_inline int unwind_bare(struct unwind_state *s)
{
	__u64 sp = s->sp, pc, fp = s->fp;
	int off = frame_is_bare(s->pc);
	if (off < 0 || !read_word(sp + off, &pc) || !is_code(s, pc - 1))
		return 1;
	if (off && !read_word(sp, &fp))
		return 1;
	s->pc = pc;
	s->fp = fp;
	s->sp = sp + off + 8;
	return 0;
}

/* A register that is neither sp nor fp. */
static __always_inline bool other_reg(const struct unwind_state *s, __u32 reg, __u64 *ret)
{
	if (s->leaf || (reg == UNWIND_X86_BX && s->bx_at == UNWIND_BX_SAME))
		*ret = s->reg[reg & (UNWIND_REGS - 1)];
	else if (reg == UNWIND_X86_BX && s->bx_at != UNWIND_BX_LOST)
		return read_word(s->bx_at, ret);
	else
		return false;
	return true;
}

#endif

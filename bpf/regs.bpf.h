/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The registers of a thread in user mode, by architecture. */
#ifndef ASCRIBE_REGS_BPF_H
#define ASCRIBE_REGS_BPF_H

#include "common.bpf.h"

/* The part of the kernel's struct pt_regs that is copied, and its test for 64-bit user code. */
#if defined(__TARGET_ARCH_x86)

#define USER_CS 0x33 /* arch/x86/include/asm/segment.h: 64-bit code */
#define XEN_USER_CS \
	0xe033 /* of a Xen PV guest: FLAT_RING3_CS64, arch/x86/include/asm/xen/interface_64.h */

typedef struct pt_regs saved_regs;

static __always_inline bool is_user64(const struct pt_regs *r)
{
	__u16 cs = *(volatile __u16 *)&r->cs;
	return cs == USER_CS || cs == XEN_USER_CS;
}

static __always_inline bool in_user_mode(const struct bpf_perf_event_data *ctx)
{
	return (ctx->regs.cs & 3) == 3;
}

#define REGS_PC(r) ((r)->ip)
#define REGS_FP(r) ((r)->bp)
#define REGS_SP(r) ((r)->sp)
/* The system call that the thread is in; no number of one, where an exception stopped it */
#define REGS_SYSCALL(r) ((__s64)(r)->orig_ax)
#define REGS_RETURN_BYTES 8 /* that a return pops */
#define REGS_LINK(r) 0ull   /* no register has the return address */
/* The first arguments of a call */
#define REGS_ARG1(r) ((r)->di)
#define REGS_ARG2(r) ((r)->si)
#define REGS_ARG3(r) ((r)->dx)
/* Of the system call that the thread is in */
#define REGS_SYSCALL_ARG1(r) ((r)->di)
#define NR_FUTEX 202

/* Store the registers of 64-bit user code in the order of the rules. Return the program counter. */
static __always_inline __u64 unwind_registers(__u64 *reg, const saved_regs *r)
{
	reg[0] = r->ax;
	reg[1] = r->dx;
	reg[2] = r->cx;
	reg[3] = r->bx;
	reg[4] = r->si;
	reg[5] = r->di;
	reg[UNWIND_X86_FP] = r->bp;
	reg[UNWIND_X86_SP] = r->sp;
	reg[8] = r->r8;
	reg[9] = r->r9;
	reg[10] = r->r10;
	reg[11] = r->r11;
	reg[12] = r->r12;
	reg[13] = r->r13;
	reg[14] = r->r14;
	reg[15] = r->r15;
	return r->ip;
}

#elif defined(__TARGET_ARCH_arm64)

#define PSR_MODE_MASK 0x1f /* arch/arm64/include/uapi/asm/ptrace.h: 0 is 64-bit user mode */

typedef struct user_pt_regs saved_regs; /* struct pt_regs begins with it */

static __always_inline bool is_user64(const struct pt_regs *r)
{
	return !(*(volatile __u64 *)&r->user_regs.pstate & PSR_MODE_MASK);
}

static __always_inline bool in_user_mode(const struct bpf_perf_event_data *ctx)
{
	return !(ctx->regs.pstate & 0xf); /* 32-bit code too */
}

#define REGS_PC(r) ((r)->user_regs.pc)
#define REGS_FP(r) ((r)->user_regs.regs[UNWIND_ARM_FP])
#define REGS_SP(r) ((r)->user_regs.sp)
#define REGS_SYSCALL(r) ((__s64)(r)->syscallno)
#define REGS_RETURN_BYTES 0
#define REGS_LINK(r) ((r)->user_regs.regs[UNWIND_ARM_LR])
#define REGS_ARG1(r) ((r)->user_regs.regs[0])
#define REGS_ARG2(r) ((r)->user_regs.regs[1])
#define REGS_ARG3(r) ((r)->user_regs.regs[2])
#define REGS_SYSCALL_ARG1(r) ((r)->orig_x0)
#define NR_FUTEX 98

static __always_inline __u64 unwind_registers(__u64 *reg, const saved_regs *r)
{
	for (int i = 0; i < 31; i++)
		reg[i] = r->regs[i];
	reg[UNWIND_ARM_SP] = r->sp;
	return r->pc;
}

#endif
#endif

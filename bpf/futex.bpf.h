/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The futex that a thread's system call names: a lock, a condition variable, or the like. */
#ifndef ASCRIBE_FUTEX_BPF_H
#define ASCRIBE_FUTEX_BPF_H

#include "regs.bpf.h"

/* System calls of all architectures: since v5.16 (futex_waitv), v6.7 (the others) */
#define NR_FUTEX_WAITV 449
#define NR_FUTEX_WAKE 454
#define NR_FUTEX_WAIT 455
#define FUTEX_OF_MANY 1 /* futex_waitv: which one is known when one of them is released */

/* Return the address that the thread's futex call names; 0: it is in no such call. */
static __always_inline __u64 futex_of(struct task_struct *t)
{
	struct pt_regs *regs;
	if (t->flags & PF_KTHREAD)
		return 0;
	regs = (void *)bpf_task_pt_regs(t);
	__u64 call = REGS_SYSCALL(regs);
	if (call == NR_FUTEX_WAITV)
		return is_user64(regs) ? FUTEX_OF_MANY : 0;
	if (call != NR_FUTEX && call != NR_FUTEX_WAKE && call != NR_FUTEX_WAIT)
		return 0;
	return is_user64(regs) ? REGS_SYSCALL_ARG1(regs) : 0;
}

#endif

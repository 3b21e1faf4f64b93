/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a blocked thread may wait for, by its system call: other threads of its group, or nothing
 * (INSIDE), or what lies outside (OUTSIDE: a disk, a timer, a peer). Its stack would say more and
 * costs a microsecond.
 */
#ifndef ASCRIBE_LATENCY_STATE_BPF_H
#define ASCRIBE_LATENCY_STATE_BPF_H

#include "latency.h"
#include "regs.bpf.h"

static __always_inline bool is_inside_call(__s64 nr)
{
	switch (nr) {
#if defined(__TARGET_ARCH_x86)	   /* arch/x86/entry/syscalls/syscall_64.tbl */
	case 7:			   /* poll */
	case 23:		   /* select */
	case 34:		   /* pause */
	case 43:		   /* accept */
	case 61:		   /* wait4 */
	case 65:		   /* semop */
	case 70:		   /* msgrcv */
	case 128:		   /* rt_sigtimedwait */
	case 130:		   /* rt_sigsuspend */
	case 202:		   /* futex */
	case 208:		   /* io_getevents */
	case 220:		   /* semtimedop */
	case 232:		   /* epoll_wait */
	case 243:		   /* mq_timedreceive */
	case 247:		   /* waitid */
	case 270:		   /* pselect6 */
	case 271:		   /* ppoll */
	case 281:		   /* epoll_pwait */
	case 288:		   /* accept4 */
	case 333:		   /* io_pgetevents */
#elif defined(__TARGET_ARCH_arm64) /* include/uapi/asm-generic/unistd.h */
	case 4:	  /* io_getevents */
	case 22:  /* epoll_pwait */
	case 72:  /* pselect6 */
	case 73:  /* ppoll */
	case 95:  /* waitid */
	case 98:  /* futex */
	case 133: /* rt_sigsuspend */
	case 137: /* rt_sigtimedwait */
	case 183: /* mq_timedreceive */
	case 188: /* msgrcv */
	case 192: /* semtimedop */
	case 193: /* semop */
	case 202: /* accept */
	case 242: /* accept4 */
	case 260: /* wait4 */
	case 292: /* io_pgetevents */
#endif
	case 426: /* io_uring_enter */
	case 441: /* epoll_pwait2 */
	case 449: /* futex_waitv */
	case 455: /* futex_wait */
		return true;
	}
	return false;
}

static __always_inline __u32 latency_blocked_state(struct task_struct *t)
{
	const struct pt_regs *regs = (void *)bpf_task_pt_regs(t);
	return is_user64(regs) && is_inside_call(REGS_SYSCALL(regs)) ? LATENCY_INSIDE
								     : LATENCY_OUTSIDE;
}

#endif

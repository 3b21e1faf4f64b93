/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The kernel's types on x86_64; see ../types.h. */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

#include "../types.h"

/* arch/x86/include/asm/ptrace.h; as struct bpf_perf_event_data shows it: part of the user interface. */
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};
struct bpf_perf_event_data {
	struct pt_regs regs;
	__u64 sample_period;
	__u64 addr;
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct thread_struct {
	unsigned long fsbase;
};

struct thread_info {
	unsigned long flags;
};

#pragma clang attribute pop

#include "../task.h"

#endif

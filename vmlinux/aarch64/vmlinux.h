/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The kernel's types on aarch64; see ../types.h. */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

#include "../types.h"

/* arch/arm64/include/uapi/asm/ptrace.h: struct user_pt_regs. */
struct user_pt_regs {
	__u64 regs[31], sp, pc, pstate;
};
struct bpf_perf_event_data {
	struct user_pt_regs regs;
	__u64 sample_period;
	__u64 addr;
};

/* arch/arm64/include/asm/ptrace.h: what stands behind is not read. */
struct pt_regs {
	struct user_pt_regs user_regs;
	__u64 orig_x0;
	__s32 syscallno; /* -1: an exception */
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct uw_state {
	unsigned long tp_value;
};

struct thread_struct {
	struct uw_state uw;
};

struct thread_info {
	u64 preempt_count; /* its lower half */
};

#pragma clang attribute pop

#include "../task.h"

#endif

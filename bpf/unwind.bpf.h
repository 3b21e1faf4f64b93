/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The stacks of a sample: kernel frames, then user frames, leaf first, straight into the arena.
 *
 * User frames come from frame pointers, walked by the kernel's own helper. This is the one place that another way of
 * unwinding has to replace.
 */
#ifndef ASCRIBE_UNWIND_BPF_H
#define ASCRIBE_UNWIND_BPF_H

#include "common.bpf.h"

struct stack_lengths {
	__u32 n_kernel;
	__u32 n_user;
	bool user_failed;
};

/* out has room for 2 * MAX_FRAMES words. */
static __always_inline void unwind(void *ctx, bool in_user, bool kthread, __u64 *out, struct stack_lengths *ret)
{
	ret->n_kernel = 0;
	ret->n_user = 0;
	ret->user_failed = false;
	if (!in_user) { /* a sample in user mode has no kernel frames: spare the call */
		long len = bpf_get_stack(ctx, out, MAX_FRAMES * 8, 0);
		if (len > 0)
			ret->n_kernel = (__u32)len / 8;
	}
	if (kthread)
		return;
	__u32 at = ret->n_kernel;
	if (at > MAX_FRAMES)
		return;
	long len = bpf_get_stack(ctx, out + at, MAX_FRAMES * 8, BPF_F_USER_STACK);
	if (len > 0)
		ret->n_user = (__u32)len / 8;
	else
		ret->user_failed = true;
}

#endif

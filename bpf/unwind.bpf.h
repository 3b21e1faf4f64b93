/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The stacks of a sample: kernel frames, then user frames, leaf first, straight into the arena.
 *
 * User frames come from frame pointers. This is the one place that another way of unwinding has to replace.
 */
#ifndef ASCRIBE_UNWIND_BPF_H
#define ASCRIBE_UNWIND_BPF_H

#include "common.bpf.h"
#include "table.bpf.h"

struct stack_lengths {
	__u32 n_kernel;
	__u32 n_user;
	bool user_failed;
};

#if defined(__TARGET_ARCH_x86)
#define USER_CS 0x33 /* arch/x86/include/asm/segment.h: 64-bit code */
#define NO_PAGE 4096 /* nothing is mapped below: chains end there, and asking would cost a page fault */

/*
 * Follow a chain of frame pointers into the arena, as the kernel's own walk does, which takes twice as long: it reads each
 * word by itself and always ends by a page fault. Words written: 1 (ip) or more.
 */
__noinline __u32 follow_frames(__u32 key, __u32 at, __u64 ip, __u64 fp)
{
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	struct {
		__u64 next, ret;
	} frame;
	__u32 n = 1;
	if (!h)
		return 0;
	__u64 *out = arena_ptr(h, at);
	out[0] = ip;
	for (; n < MAX_FRAMES && n < cfg.max_frames; n++) {
		if (fp < NO_PAGE || bpf_probe_read_user(&frame, sizeof(frame), (void *)fp))
			break;
		out[n] = frame.ret;
		fp = frame.next;
	}
	return n;
}
#endif

static __always_inline __u32 user_stack(void *ctx, struct task_struct *t, __u32 key, __u32 at, __u64 *out)
{
#if defined(__TARGET_ARCH_x86)
	if (!t->mm) /* it is exiting */
		return 0;
	struct pt_regs *regs = (void *)bpf_task_pt_regs(t);
	if (*(volatile __u16 *)&regs->cs == USER_CS)
		return follow_frames(key, at, regs->ip, regs->bp);
#endif
	long len = bpf_get_stack(ctx, out, MAX_FRAMES * 8, BPF_F_USER_STACK);
	return len > 0 ? (__u32)len / 8 : 0;
}

/* At the arena's tail, where there is room for 2 * MAX_FRAMES words. */
static __always_inline void unwind(void *ctx, struct task_struct *t, bool in_user, bool kthread, struct half *h, __u32 key,
				   __u64 *tail, struct stack_lengths *ret)
{
	ret->n_kernel = 0;
	ret->n_user = 0;
	ret->user_failed = false;
	if (!in_user) { /* a sample in user mode has no kernel frames: spare the call */
		long len = bpf_get_stack(ctx, tail, MAX_FRAMES * 8, 0);
		if (len > 0)
			ret->n_kernel = (__u32)len / 8;
	}
	if (kthread || ret->n_kernel > MAX_FRAMES)
		return;
	ret->n_user = user_stack(ctx, t, key, h->arena_used + ret->n_kernel, tail + ret->n_kernel);
	ret->user_failed = !ret->n_user;
}

#endif

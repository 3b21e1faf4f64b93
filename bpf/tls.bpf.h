/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Find a source of labels of the current thread. It is found by the thread pointer, by the table of
 * thread-local blocks (the DTV of glibc or musl), or by the register with Go's goroutine.
 */
#ifndef ASCRIBE_TLS_BPF_H
#define ASCRIBE_TLS_BPF_H

#include "capture.bpf.h"
#include "regs.bpf.h"

/* 0: this thread has no such block, or not yet. */
__noinline __u64 dtv_block(__u64 tp, __u32 module, __u32 musl)
{
	struct capture *c = capture();
	__u64 dtv = 0, n = 0, block = 0;
#if defined(__TARGET_ARCH_x86)
	__u64 at = tp + 8;
#else
	__u64 at = musl ? tp - 8 : tp;
#endif
	if (!c)
		return 0;
	/*
	 * glibc: the count is before the first entry, entries of 16 bytes; musl: the count is in
	 * it, entries of 8 bytes.
	 */
	if (read_at(&dtv, 8, at) || !dtv || read_at(&n, 8, musl ? dtv : dtv - 16))
		goto unreadable;
	if (!module || module > n)
		return 0;
	if (read_at(&block, 8, dtv + (musl ? 8ull : 16ull) * module))
		goto unreadable;
	return block == ~0ull ? 0 : block;
unreadable:
	capture_flag(c, COUNTER_dtv_fault);
	return 0;
}

/*
 * While musl's dynamic linker runs, it has a thread pointer of its own with an empty DTV. The
 * memory around it holds no thread-local variable.
 */
static __always_inline bool musl_has_blocks(struct capture *c)
{
	__u64 dtv = 0, n = 0;
#if defined(__TARGET_ARCH_x86)
	__u64 at = c->tp + 8;
#else
	__u64 at = c->tp - 8;
#endif
	if (!read_at(&dtv, 8, at) && dtv && !read_at(&n, 8, dtv))
		return n != 0;
	capture_flag(c, COUNTER_dtv_fault);
	return false;
}

/* Registers saved at the entry into the kernel, for samples in user code and in the kernel. */
static __always_inline __u64 go_register(void)
{
#if defined(__TARGET_ARCH_arm64)
	const struct pt_regs *r = (const void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	return r->user_regs.regs[28];
#else
	return 0;
#endif
}

/* 0: none. A program without libc on arm64 has no thread pointer, and needs none. */
static __always_inline __u64 source_start(struct capture *c)
{
	__u64 base = 0;
	if (c->source.start == LABEL_AT_GO_REGISTER)
		return go_register();
	if (!c->tp) /* the program is still starting */
		return 0;
	switch (c->source.start) {
	case LABEL_AT_TP_MUSL:
		if (!musl_has_blocks(c))
			return 0;
		base = c->tp;
		break;
	case LABEL_AT_TP:
		base = c->tp;
		break;
	case LABEL_AT_DTV:
	case LABEL_AT_DTV_MUSL:
		base = dtv_block(c->tp, c->source.module, c->source.start == LABEL_AT_DTV_MUSL);
		if (!base)
			return 0;
		break;
	}
	return base + (__u64)c->source.at;
}

#endif

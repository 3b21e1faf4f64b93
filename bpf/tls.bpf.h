/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where a source of labels begins for the current thread: by its thread pointer, its table of thread-local blocks (the
 * DTV of glibc or musl), or the register that holds Go's goroutine.
 */
#ifndef ASCRIBE_TLS_BPF_H
#define ASCRIBE_TLS_BPF_H

#include "capture.bpf.h"
#include "regs.bpf.h"

/* 0: this thread has no such block (yet). */
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
	/* glibc: how many there are stands before the first, 16 bytes each; musl: in it, 8 bytes each. */
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
 * While musl's dynamic linker works it has a thread pointer of its own, whose DTV is empty: what stands around it is no variable of
 * anybody.
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

/* Saved at the entry into the kernel, whether the sample hit user code or the kernel. */
static __always_inline __u64 go_register(void)
{
#if defined(__TARGET_ARCH_arm64)
	const struct pt_regs *r = (const void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	return r->user_regs.regs[28];
#else
	return 0;
#endif
}

/* 0: this thread has none. A program without libc on arm64 has no thread pointer, and needs none. */
static __always_inline __u64 source_start(struct capture *c)
{
	__u64 base = 0;
	if (c->source.start == LABEL_AT_GO_REGISTER)
		return go_register();
	if (!c->tp) /* the program is only being started */
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

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The innermost timed call (calls.bpf.h) that the running thread is in, as a label of its samples,
 * waits and hits: an entry of the capture, behind those of the process's own sources.
 */
#ifndef ASCRIBE_CALL_LABEL_BPF_H
#define ASCRIBE_CALL_LABEL_BPF_H

#include "calls.bpf.h"
#include "capture.bpf.h"

/* Has the thread made timed calls? Then what it is in may have changed since its last switch. */
static __always_inline bool is_timed(struct task_struct *t)
{
	return cfg.any_call && bpf_task_storage_get(&calls, t, 0, 0);
}

/*
 * Is the thread still in a call that was made with the stack pointer at `call`, and has it at sp
 * now? Not below a call that it left: a longjmp, an exception. What it called since has overwritten
 * the return address there, which the kernel had made its own. arm64 has that in a register.
 */
static __always_inline bool call_goes_on(const struct task_struct *t, __u64 call, __u64 sp)
{
	__u64 back = 0;
	if (call < sp)
		return false;
	if (!REGS_RETURN_BYTES)
		return true;
	return !bpf_probe_read_user(&back, sizeof(back), (const void *)call) &&
	       back == calls_trampoline(t);
}

/* Append the call to the capture. User registers stay where they were saved, also in the kernel. */
__noinline int call_append(void)
{
	struct capture *c = capture();
	if (!cfg.any_call || !c)
		return 0;
	struct task_struct *t = bpf_get_current_task_btf();
	struct calls *k = bpf_task_storage_get(&calls, t, 0, 0);
	if (!k)
		return 0;
	const struct pt_regs *regs = (const void *)bpf_task_pt_regs(t);
	const __u64 sp = REGS_SP(regs);
	const __u32 n = k->n;
	for (__u32 i = 1; i <= CALLS_MAX && i <= n; i++) {
		const struct call *call = call_at(k, n - i);
		if (!call_goes_on(t, call->sp, sp))
			continue;
		struct label_entry *e = entry_at_end(c);
		if (!e)
			return 0;
		*e = (struct label_entry){ .source = ENTRY_CALL,
					   .what = ENTRY_BYTES,
					   .len2 = (__u16)call->event };
		entry_done(c, 0);
		return 0;
	}
	return 0;
}

#endif

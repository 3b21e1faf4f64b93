/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From a timed call (calls.bpf.h) to its caller. The kernel has put the address of its trampoline
 * where the return address was, so that it sees the return. The address was noted before.
 */
#ifndef ASCRIBE_CALL_LEAVE_BPF_H
#define ASCRIBE_CALL_LEAVE_BPF_H

#include "calls.bpf.h"
#include "unwind_walk.h"

/*
 * The state has come to a caller. Where that is the trampoline, go to the caller itself. A function
 * that ends in a jump to another timed one has its stack pointer, and its return address.
 */
__noinline int call_leave(void)
{
	struct unwind_state *s = unwind_state();
	struct task_struct *t = bpf_get_current_task_btf();
	if (!cfg.calls || !s || s->pc != calls_trampoline(t))
		return 0;
	struct calls *c = bpf_task_storage_get(&calls, t, 0, 0);
	const __u32 n = c ? c->n : 0;
	for (__u32 i = 1; c && i <= CALLS_MAX && i <= n; i++) {
		const struct call *call = call_at(c, n - i);
		if (call->sp + REGS_RETURN_BYTES != s->sp || call->back == s->pc)
			continue;
		s->pc = unwind_unsigned(call->back);
		break;
	}
	return 0;
}

#endif

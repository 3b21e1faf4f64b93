/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How long calls of functions take, in the thread that makes them. Each thread has a stack of the
 * calls that it is in. The stack pointer tells them apart: a call below another one is an inner
 * one, so a call that lies below the place where the thread is now cannot return any more
 * (longjmp, an exception, a depth at which the kernel watches no return).
 */
#ifndef ASCRIBE_CALLS_BPF_H
#define ASCRIBE_CALLS_BPF_H

#include "regs.bpf.h"
#include "table.bpf.h"

#define CALLS_MAX 64 /* MAX_URETPROBE_DEPTH, include/linux/uprobes.h: no return beyond it */

struct call {
	__u64 sp;   /* at the entry */
	__u64 back; /* where it returns to: the kernel puts its trampoline there */
	__u64 begin_ns;
	__u32 event;
	__u32 reserved;
};

struct calls {
	__u32 n;
	__u32 unreturned; /* to be counted: dropped, or without a place */
	struct call v[CALLS_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct calls);
} calls SEC(".maps");

static __always_inline struct call *call_at(struct calls *c, __u32 i)
{
	__u64 at = i & (CALLS_MAX - 1);
	barrier_var(at);
	return &c->v[at];
}

/* Count n samples of an event that fired and cannot be taken. */
__noinline int calls_count(__u32 event, __u32 counter, __u32 n)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_state *c = bpf_map_lookup_elem(&cpu_states, &cpu);
	if (!c)
		return 0;
	cpu_state_step(c);
	__u32 key = HALF_INDEX(*(volatile __u32 *)&c->active);
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	if (h) {
		h->ran[event & (MAX_EVENTS - 1)] += n;
		count_several(h, (int)counter, n);
	}
	cpu_state_step(c);
	return 0;
}

/* Count the calls that the thread has left without a return. */
static __always_inline void calls_lose(struct calls *c, __u32 event)
{
	__u32 n = c->unreturned;
	c->unreturned = 0;
	if (n)
		calls_count(event, COUNTER_call_unreturned, n);
}

/* Drop the calls below sp. */
static __always_inline void calls_drop(struct calls *c, __u64 sp)
{
	for (__u32 i = 0; i < CALLS_MAX && c->n && call_at(c, c->n - 1)->sp < sp; i++) {
		c->n--;
		c->unreturned++;
	}
}

/* Where timed calls of the thread return to: the kernel's trampoline; 0: there is none yet. */
static __always_inline __u64 calls_trampoline(const struct task_struct *t)
{
	return t->mm->uprobes_state.xol_area->vaddr;
}

/* The event's function is entered, with the stack pointer at sp. link: REGS_LINK then. */
__noinline int call_begin(__u32 event, __u64 sp, __u64 link)
{
	__u64 back = link;
	if (!cfg.calls) /* the verifier checks each global function: there may be no map */
		return 0;
	struct task_struct *t = bpf_get_current_task_btf();
	struct calls *c = bpf_task_storage_get(&calls, t, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!c)
		return 0; /* its return will be unbegun */
	if (REGS_RETURN_BYTES && bpf_probe_read_user(&back, sizeof(back), (const void *)sp))
		back = 0;
	calls_drop(c, sp);
	/* It was left, and is made once more. Of another event: that function ended in a jump. */
	struct call *last = call_at(c, c->n - 1);
	if (c->n && last->sp == sp && last->event == event) {
		c->n--;
		c->unreturned++;
	}
	if (c->n < CALLS_MAX) {
		*call_at(c, c->n) = (struct call){ sp, back, bpf_ktime_get_ns(), event };
		barrier(); /* a clock may interrupt here, and look for the call */
		c->n++;
	} else {
		c->unreturned++;
	}
	calls_lose(c, event);
	return 0;
}

/* A call returns that was made with the stack pointer at sp: its time in ns; 0: not known. */
__noinline __u64 call_end(__u32 event, __u64 sp)
{
	__u64 now = bpf_ktime_get_ns(), took = 0;
	if (!cfg.calls)
		return 0;
	struct calls *c = bpf_task_storage_get(&calls, bpf_get_current_task_btf(), 0, 0);
	if (c)
		calls_drop(c, sp);
	for (__u32 i = 1; c && i <= CALLS_MAX && i <= c->n; i++) {
		struct call *k = call_at(c, c->n - i);
		if (k->sp != sp)
			break;
		if (k->event != event)
			continue;
		took = now - k->begin_ns;
		*k = *call_at(c, --c->n);
		break;
	}
	if (c)
		calls_lose(c, event);
	if (!took)
		calls_count(event, COUNTER_call_unbegun, 1);
	return took;
}

#endif

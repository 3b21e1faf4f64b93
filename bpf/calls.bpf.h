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

#define CALLS_MAX 64 /* MAX_URETPROBE_DEPTH, include/linux/uprobes.h: no return beyond it */

struct call {
	__u64 sp; /* at the entry */
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

/* Drop the calls below sp. */
static __always_inline void calls_drop(struct calls *c, __u64 sp)
{
	for (__u32 i = 0; i < CALLS_MAX && c->n && call_at(c, c->n - 1)->sp < sp; i++) {
		c->n--;
		c->unreturned++;
	}
}

/* A call of the event's function begins, with the stack pointer at sp. */
__noinline int calls_begin(struct calls *c, __u32 event, __u64 sp)
{
	if (!c)
		return 0;
	calls_drop(c, sp);
	/* It was left, and is made once more. Of another event: that function ended in a jump. */
	struct call *last = call_at(c, c->n - 1);
	if (c->n && last->sp == sp && last->event == event) {
		c->n--;
		c->unreturned++;
	}
	if (c->n >= CALLS_MAX) {
		c->unreturned++;
		return 0;
	}
	*call_at(c, c->n++) = (struct call){ sp, bpf_ktime_get_ns(), event };
	return 0;
}

/* A call returns: when it began, in CLOCK_MONOTONIC; 0: that is not known. */
__noinline __u64 calls_end(struct calls *c, __u32 event, __u64 sp)
{
	if (!c)
		return 0;
	calls_drop(c, sp);
	for (__u32 i = 1; i <= CALLS_MAX && i <= c->n; i++) {
		struct call *k = call_at(c, c->n - i);
		__u64 begin_ns = k->begin_ns;
		if (k->sp != sp)
			break;
		if (k->event != event)
			continue;
		*k = *call_at(c, --c->n);
		return begin_ns;
	}
	return 0;
}

#endif

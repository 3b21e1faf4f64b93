/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Back-end of kernels that do not note when a thread came into a run queue: wake-ups (sched_wakeup)
 * and the thread that is switched in are watched instead.
 */
#ifndef ASCRIBE_OFFCPU_WAKEUPS_BPF_H
#define ASCRIBE_OFFCPU_WAKEUPS_BPF_H

#include "offcpu_types.bpf.h"

static __always_inline __u64 wakeups_clock(struct task_struct *t)
{
	return 0;
}

static __always_inline __u64 wakeups_arrived(const struct switch_ctx *s)
{
	return s->wait->arrived;
}

static __always_inline void wakeups_queued(const struct thread_wait *w, struct task_struct *t,
					   struct wait_times *ret)
{
	if (w->woken && w->woken < ret->arrived)
		ret->here = ret->arrived - w->woken;
}

static __always_inline __u64 wakeups_unseen(const struct switch_ctx *s, __u64 arrived)
{
	return 0;
}

static __always_inline void wakeups_begin(struct thread_wait *w, struct task_struct *t, __u32 cpu)
{
	w->woken = 0;
	w->cpu = cpu;
}

static __always_inline void wakeups_found(struct thread_wait *w, struct task_struct *t)
{
}

static __always_inline void wakeups_new(struct thread_wait *w, struct task_struct *t, __u64 now)
{
	w->cpu = (__u32)t->wake_cpu;
	w->woken = now;
}

static __always_inline void wakeups_woken(struct thread_wait *w, struct task_struct *t)
{
	if (!w->since || w->woken || w->state != WAIT_BLOCKED)
		return;
	w->cpu = (__u32)t->wake_cpu;
	w->woken = bpf_ktime_get_boot_ns();
}

static __always_inline __u32 wakeups_queue(const struct thread_wait *w, __u32 cpu)
{
	return w->cpu;
}

static __always_inline void wakeups_entered(struct task_struct *next, __u64 now)
{
	struct thread_wait *w = next->pid ? bpf_task_storage_get(&waits, next, 0, 0) : 0;
	if (w)
		w->arrived = now;
}

static __always_inline __u64 wakeups_progress(const struct thread_wait *w, struct task_struct *t,
					      __u64 now, __u64 *ret_woken)
{
	*ret_woken = w->woken;
	return w->arrived > w->began && w->arrived < now ? w->arrived : now;
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Back-end of kernels that note when a thread came into a run queue (CONFIG_SCHED_INFO). No wake-up
 * is watched: at the switch out, task_struct still has the arrival and the run queue time of the
 * wait before.
 */
#ifndef ASCRIBE_OFFCPU_SCHEDINFO_BPF_H
#define ASCRIBE_OFFCPU_SCHEDINFO_BPF_H

#include "offcpu_types.bpf.h"

/* Ns by which the run queue's clock and CLOCK_BOOTTIME differ at most */
#define RUN_DELAY_SLACK (1ull << 20)

/*
 * The run queue's clock, which the scheduler read just before the tracepoint. Loading it saves the
 * 60 ns that reading the time costs.
 */
static __always_inline __u64 schedinfo_clock(struct task_struct *t)
{
	return t->se.cfs_rq->rq->clock;
}

static __always_inline __u64 schedinfo_arrived(const struct switch_ctx *s)
{
	return s->now - (s->clock - s->task->sched_info.last_arrival);
}

/*
 * Set here and elsewhere of a wait that ended at ret->arrived. The kernel counts nothing for a
 * thread that runs at once.
 */
static __always_inline void schedinfo_queued(const struct thread_wait *w, struct task_struct *t,
					     struct wait_times *ret)
{
	__u64 all = t->sched_info.run_delay - w->run_delay;
	if ((__s64)all < 0 || w->moved ||
	    (w->began && all > ret->arrived - w->began + RUN_DELAY_SLACK))
		return;
	ret->elsewhere = w->before < all ? w->before : all;
	ret->here = all - ret->elsewhere;
}

/*
 * Return how long the thread ran in switches that the tracepoint did not see: some kernels hide
 * what init does.
 */
static __always_inline __u64 schedinfo_unseen(const struct switch_ctx *s, __u64 arrived)
{
	const struct thread_wait *w = s->wait;
	if (s->task->sched_info.pcount - w->pcount <= 1)
		return 0;
	__u64 ran = s->task->se.sum_exec_runtime - w->ran, last = s->now - arrived;
	return ran > last && (__s64)ran > 0 ? ran - last : 0;
}

static __always_inline void schedinfo_begin(struct thread_wait *w, struct task_struct *t, __u32 cpu)
{
	w->run_delay = t->sched_info.run_delay;
	w->pcount = t->sched_info.pcount;
	w->ran = t->se.sum_exec_runtime;
}

/* The thread waited before recording began. */
static __always_inline void schedinfo_found(struct thread_wait *w, struct task_struct *t)
{
	schedinfo_begin(w, t, 0);
	w->moved = t->sched_info.last_queued != 0;
}

static __always_inline void schedinfo_new(struct thread_wait *w, struct task_struct *t, __u64 now)
{
	w->run_delay = w->pcount = w->ran = 0;
}

/*
 * Time in queues until now was not spent where the thread will run. Since v6.12 (commit
 * 152e11f6df29, delayed dequeue), moving a blocked thread notes that as its arrival in the queue.
 * The kernel keeps that time when the thread is woken later, so the queue time of that wait is
 * unknown.
 */
static __always_inline void schedinfo_migrated(struct thread_wait *w, struct task_struct *t)
{
	w->before = t->sched_info.run_delay - w->run_delay;
	if (bpf_core_field_exists(struct sched_entity, sched_delayed) && t->se.sched_delayed)
		w->moved = 1;
}

/* The CPU whose queue the wait before ended in: threads run where they are queued last. */
static __always_inline __u32 schedinfo_queue(const struct thread_wait *w, __u32 cpu)
{
	return cpu;
}

static __always_inline void schedinfo_entered(struct task_struct *next, __u64 now)
{
}

/*
 * For the iterator: return until when the thread waited (now: it still does). *ret_woken: since
 * when it was in queues; 0: it is blocked.
 */
static __always_inline __u64 schedinfo_progress(const struct thread_wait *w, struct task_struct *t,
						__u64 now, __u64 *ret_woken)
{
	__u32 cpu = (__u32)t->wake_cpu;
	struct sched_cpu *sc = bpf_map_lookup_elem(&sched_cpus, &cpu);
	*ret_woken = 0;
	if (!sc)
		return now;
	__u64 boot = sc->boot - sc->clock, delay = t->sched_info.run_delay - w->run_delay,
	      queued = t->sched_info.last_queued;
	bool arrived = t->sched_info.pcount != w->pcount;
	__u64 until = arrived ? t->sched_info.last_arrival + boot : now,
	      woken = arrived ? until : queued + boot;
	if (until > now)
		until = now;
	if (w->moved || (!arrived && (!queued || t->__state)) || (__s64)delay < 0)
		return until;
	*ret_woken = woken - delay < until ? woken - delay : until;
	return until;
}

#endif

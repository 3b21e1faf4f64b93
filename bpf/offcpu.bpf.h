/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Off-CPU time: how long threads are blocked (event off-cpu: from the switch out to the wake-up)
 * and runnable (event runq: from the wake-up, or the preemption, to the switch in). Every wait is
 * measured in nanoseconds.
 *
 *            switch out: begin a wait                      switch out: account the wait before
 *   running ------------------------> blocked --> queue --> running ------------------------> ...
 *
 * All work is done when a thread is switched out, also for the wait that ended before: the kernel
 * still has its arrival and its run queue time (offcpu_schedinfo.bpf.h). So a switch looks at one
 * thread, and wake-ups are not watched: each tracepoint with a program costs 100 ns by itself.
 *
 *   offcpu_types    the maps and structures
 *   offcpu_clock    the times of a wait, from one of two back-ends: offcpu_schedinfo,
 *                   offcpu_wakeups
 *   offcpu_stack    whose stack is taken, and where it is kept
 *   offcpu_account  rows, and sums per thread
 *   runq_blame      who was running meanwhile
 *   latency         weights by label value
 *   offcpu_iter     the iterator over all threads, at the ends of windows
 *
 * The programs of the scheduler run with interrupts off and a run queue locked: they allocate
 * nothing.
 */
#ifndef ASCRIBE_OFFCPU_BPF_H
#define ASCRIBE_OFFCPU_BPF_H

#include "latency.bpf.h"
#include "offcpu_iter.bpf.h"
#include "runq_blame.bpf.h"

/*
 * waker.bpf.h: account who ended the wait of the current thread, of which it was blocked for `off`
 * ns.
 */
int waker_over(__u32 cpu, struct thread_wait *w, __u64 off);

/* What a context switch does beside. */
#define WITH_WAKERS 1u
#define WITH_LATENCY 2u

/* ---- whose waits ---- */

static __always_inline void occupant_identify(struct task_struct *t, struct occupant *who)
{
	who->start_ns = t->group_leader->start_boottime;
	who->exec_id = (__u32)t->self_exec_id;
	who->tgid = process_id(t);
	who->cgroup = t->cgroups->dfl_cgrp->kn->id;
	const __u64 *comm = (const void *)&t->comm;
	who->comm[0] = comm[0];
	who->comm[1] = comm[1];
}

/*
 * Identify the running thread, which a context switch switches out, in sched_cpu.current. A global
 * function: where a pointer is loaded from a task, the verifier searches all types of the kernel by
 * name (since v6.4, commit 6fcd486b3a0a). In a static function it would do so on each path of the
 * caller.
 */
__noinline int current_identify(__u32 cpu)
{
	struct sched_cpu *sc = bpf_map_lookup_elem(&sched_cpus, &cpu);
	if (sc)
		occupant_identify(bpf_get_current_task_btf(), &sc->current);
	return 0;
}

/* Does the thread, identified in `current`, still have the identity of its last switch out? */
static __always_inline bool identity_holds(struct task_struct *t, const struct occupant *current,
					   const struct thread_wait *w)
{
	const struct occupant *who = &w->who;
	return !((current->comm[0] ^ who->comm[0]) | (current->comm[1] ^ who->comm[1]) |
		 (current->cgroup ^ who->cgroup) | (current->exec_id ^ who->exec_id) |
		 (thread_id(t) ^ w->tid));
}

static __always_inline void identity_set(struct task_struct *t, struct thread_wait *w, __u64 set_id)
{
	w->who.set_id = set_id;
	w->tid = thread_id(t);
	w->kthread = !!(t->flags & PF_KTHREAD);
}

/* The same for the running thread. */
static __always_inline void identity_set_current(const struct switch_ctx *s, __u64 set_id)
{
	s->wait->who = s->sched->current;
	identity_set(s->task, s->wait, set_id);
}

/*
 * Read the thread's name, cgroup and labels; flush the sums where they changed. Each read of a
 * process's memory costs 80 ns, so the result counts for a while: 8 wait_ns where the process has
 * no labels. Unknown processes are asked for only where a stack is taken: there may be thousands
 * per second.
 */
static __always_inline void identity_refresh(const struct switch_ctx *s, bool take)
{
	struct task_struct *t = s->task;
	struct thread_wait *w = s->wait;
	struct sched_cpu *sc = s->sched;
	bool none = t->flags & PF_KTHREAD;
	__u64 set_id = 0;
	current_identify(s->cpu);
	sc->image.tgid = sc->current.tgid;
	sc->image.start_ns = sc->current.start_ns;
	sc->image.exec_id = sc->current.exec_id;
	if (!none) {
		half_enter(s->state, sc);
		const struct proc_entry *known = proc_find(&sc->image);
		none = known && !known->n_slots && !known->n_sources && !is_timed(t);
		if (!none && (known || take))
			set_id = read_labels(&sc->image, &sc->flags);
		half_leave(s->state);
	}
	w->fresh_until = s->now + (none		 ? 8 * cfg.wait_ns
				   : cfg.latency ? 0 /* each change of the group counts */
				   : set_id	 ? cfg.wait_ns
						 : cfg.wait_ns / 8);
	if (identity_holds(t, &sc->current, w) && set_id == w->who.set_id)
		return;
	if (w->summed_since)
		sums_flush(s->cpu, w);
	if (sums_are_held(w))
		w->fresh_until = 0;
	else
		identity_set_current(s, set_id);
}

/*
 * Must the identity be read again? A preempted thread's wait has no expected length: an eighth of
 * the age is allowed. A thread may be in another timed call since.
 */
static __always_inline bool identity_is_stale(const struct switch_ctx *s)
{
	__u64 age = s->preempted ? cfg.wait_ns / 8 * 7 : 0;
	return s->now + age >= s->wait->fresh_until ||
	       (__u32)s->task->self_exec_id != s->wait->who.exec_id || is_timed(s->task);
}

/* ---- the end of a wait ---- */

/* Account the blocked part; `summed` is WAIT_SUMMED unless a row with its stack has it. */
static __always_inline void wait_add_off(const struct switch_ctx *s, const struct wait_parts *p,
					 __u32 summed)
{
	if (p->off || p->off_full)
		sum_add(s->cpu, s->wait, summed | (p->off_full ? 0 : SUM_NO_LENGTH), p->off,
			p->off_full);
}

static __always_inline void wait_add_runq(const struct switch_ctx *s, const struct wait_parts *p,
					  __u64 arrived, __u32 summed)
{
	if (p->runq || p->runq_full) {
		sum_add(s->cpu, s->wait, SUM_RUNQ | summed | (p->runq_full ? 0 : SUM_NO_LENGTH),
			p->runq, p->runq_full);
		blame_wait(s, arrived, p->here, p->elsewhere);
	} else if (s->wait->state & WAIT_BLOCKED) { /* it ran at once: a length, too */
		sum_add(s->cpu, s->wait, SUM_RUNQ, 0, 0);
	}
}

/*
 * Account the wait that ended when the thread arrived on this CPU. Return how long it was blocked.
 */
static __always_inline __u64 wait_end(const struct switch_ctx *s, __u64 since, __u64 arrived)
{
	struct thread_wait *w = s->wait;
	struct wait_times t = { .began = w->began,
				.since = since,
				.arrived = arrived,
				.blocked = w->state & WAIT_BLOCKED };
	__u64 from = waits_from;
	__u32 left = 3; /* bit 0: blocked time, bit 1: run queue time is in no row with a stack */
	BACKEND(queued, w, s->task, &t);
	if (unlikely(since < from)) {
		t.since = from;
		t.began = 0;
	}
	if (unlikely(arrived < t.since))
		return 0;
	struct wait_parts p = split_wait(&t);
	call_site_learn(w, p.off + p.runq); /* a sample stands for both */
	w->last_ns = arrived;
	if (unlikely(w->stack)) {
		left = rows_add_stacked(s->cpu, w, p.off, p.runq);
		w->stack = 0;
	}
	if (!w->summed_since)
		w->summed_since = arrived;
	wait_add_off(s, &p, left & 1 ? WAIT_SUMMED : 0);
	wait_add_runq(s, &p, arrived, left & 2 ? WAIT_SUMMED : 0);
	return p.off;
}

/* ---- the switch ---- */

/* Begin the wait of the thread that is switched out. */
static __always_inline void wait_begin(const struct switch_ctx *s, __u32 with)
{
	struct thread_wait *w = s->wait;
	bool blocked = !s->preempted && s->task->__state, take = stack_is_sampled(s, blocked);
	if (unlikely(take || identity_is_stale(s))) {
		identity_refresh(s, take);
		if (take) {
			__u32 key = half_enter(s->state, s->sched);
			w->stack = wait_stack_unwind(s->ctx, s->task, s->sched, key,
						     (__u32)s->task->pid);
			half_leave(s->state);
		}
	}
	w->before = 0;
	w->moved = 0;
	BACKEND(begin, w, s->task, s->cpu);
	w->state = blocked ? WAIT_BLOCKED : WAIT_RUNNABLE;
	w->began = s->now;
	w->since = s->now;
	if (with & WITH_LATENCY)
		latency_switched_out(w, blocked ? latency_blocked_state(s->task) : LATENCY_QUEUED,
				     s->now);
}

/*
 * Account the wait before, and begin the next one. Return when the thread arrived on this CPU.
 * with: WITH_*, a constant, so that code is not there when nobody asked for it.
 */
static __always_inline __u64 switch_out(const struct switch_ctx *s, __u32 with)
{
	struct thread_wait *w = s->wait;
	if (unlikely(!w->tid)) { /* a new thread, or one that waited when recording began */
		current_identify(s->cpu);
		identity_set_current(s, w->who.set_id);
	}
	__u64 since = w->since ? __sync_lock_test_and_set(&w->since, 0) : 0, arrived = arrival(s),
	      off = 0;
	if (since) {
		off = wait_end(s, since + BACKEND(unseen, s, arrived), arrived);
		if (unlikely(s->now - w->summed_since > SUMS_MAX_NS))
			sums_flush(s->cpu, w);
	}
	if (with & WITH_LATENCY)
		latency_sum(w, arrived);
	if (with & WITH_WAKERS)
		waker_over(s->cpu, w, off);
	if (unlikely(w->stack)) {
		wait_stack_free(w->stack, (__u32)s->task->pid);
		w->stack = 0;
	}
	if (unlikely(s->task->__state & TASK_DEAD) || is_hidden(w->tid) || !is_selected(s->task)) {
		if (w->summed_since)
			sums_flush(s->cpu, w);
		current_identify(s->cpu);
		if (!identity_holds(s->task, &s->sched->current, w) && !sums_are_held(w))
			identity_set_current(s, 0); /* for the run that ends: it called exec */
		if (with & WITH_LATENCY)
			latency_leave(w, s->now, s->now);
		return arrived;
	}
	wait_begin(s, with);
	return arrived;
}

/* Note who had this CPU in [begin, s->now). */
static __always_inline void run_add(const struct switch_ctx *s, __u64 begin)
{
	struct task_struct *prev = s->task;
	struct cpu_run *run = run_at(s->sched, s->sched->head + 1);
	run->begin = begin;
	run->end = s->now;
	if (s->wait) {
		run->who = s->wait->who;
	} else if (prev->pid) {
		current_identify(s->cpu);
		run->who = s->sched->current;
		if (!is_hidden(run->who.tgid))
			count_untracked(s->cpu);
		run->who.set_id = 0;
	} else {
		run->who = (struct occupant){ .start_ns = OCCUPANT_IDLE };
	}
	s->sched->head++;
}

static __always_inline void sched_switched(__u64 *ctx, __u32 with)
{
	struct switch_ctx s = { .ctx = ctx, .task = (void *)ctx[1], .preempted = ctx[0] & 1 };
	s.cpu = bpf_get_smp_processor_id();
	s.state = bpf_map_lookup_elem(&cpu_states, &s.cpu);
	s.sched = bpf_map_lookup_elem(&sched_cpus, &s.cpu);
	if (s.cpu >= cfg.n_cpus || !s.state || !s.sched)
		return;
	s.clock = BACKEND(clock, s.task);
	s.now = clock_boot(s.sched, s.clock);
	if (unlikely(s.now >= waits_until)) {
		if (s.task->__state & TASK_DEAD)
			sums_flush_last(s.task, s.cpu);
		return;
	}
	s.last = run_at(s.sched, s.sched->head);
	s.wait = s.task->pid ? bpf_task_storage_get(&waits, s.task, 0, 0) : 0;
	run_add(&s, s.wait ? switch_out(&s, with) : s.last->end);
	BACKEND(entered, (struct task_struct *)ctx[2], s.now);
	if (with & WITH_LATENCY) {
		struct task_struct *next = (void *)ctx[2];
		latency_switched_in(next->pid ? bpf_task_storage_get(&waits, next, 0, 0) : 0,
				    s.now);
	}
}

SEC("tp_btf/sched_switch")
int on_switch(__u64 *ctx)
{
	sched_switched(ctx, 0);
	return 0;
}

/* Loaded instead of on_switch. */
SEC("tp_btf/sched_switch")
int on_switch_latency(__u64 *ctx)
{
	sched_switched(ctx, WITH_LATENCY);
	return 0;
}

/* Loaded for the back-end of wake-ups. */
SEC("tp_btf/sched_wakeup")
int on_wakeup(__u64 *ctx)
{
	struct task_struct *t = (void *)ctx[0];
	struct thread_wait *w = bpf_task_storage_get(&waits, t, 0, 0);
	if (w)
		wakeups_woken(w, t);
	return 0;
}

/* Loaded for the back-end of sched_info. */
SEC("tp_btf/sched_migrate_task")
int on_migrate(__u64 *ctx)
{
	struct task_struct *t = (void *)ctx[0];
	struct thread_wait *w = bpf_task_storage_get(&waits, t, 0, 0);
	if (w)
		schedinfo_migrated(w, t);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int on_wakeup_new(__u64 *ctx)
{
	struct task_struct *t = (void *)ctx[0];
	struct thread_wait *w = bpf_task_storage_get(&waits, t, 0, 0);
	if (!w || !is_selected(t))
		return 0;
	__u64 now = bpf_ktime_get_boot_ns();
	w->stack = 0;
	occupant_identify(t, &w->who);
	if (is_hidden(w->who.tgid))
		return 0;
	/* Its first wait is one of this image, whatever it has become at its first switch out */
	identity_set(t, w, 0);
	w->state = WAIT_RUNNABLE;
	w->before = 0;
	w->moved = 0;
	BACKEND(new, w, t, now);
	w->began = w->since = now;
	return 0;
}

/*
 * Allocate storage in the parent, where memory can be had. The kernel keeps few pieces ready and
 * refills them in an interrupt that it raises when there are few: so try again.
 */
SEC("tp_btf/sched_process_fork")
int on_thread(__u64 *ctx)
{
	for (int i = 0; i < STORAGE_TRIES; i++)
		if (bpf_task_storage_get(&waits, (struct task_struct *)ctx[1], 0,
					 BPF_LOCAL_STORAGE_GET_F_CREATE))
			break;
	return 0;
}

SEC("iter/task")
int on_threads(struct bpf_iter__task *ctx)
{
	struct task_struct *t = ctx->task;
	__u64 now = bpf_ktime_get_boot_ns();
	if (t && waits_begin)
		iter_begin_thread(t, now);
	else if (t)
		iter_report_thread(ctx->meta->seq, t, now);
	return 0;
}

#endif

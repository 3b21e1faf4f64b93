/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who ended a wait: the thread that was running where a blocked one was woken, with its label set and, where the wait was long, its stack.
 * Loaded only when it is asked for (record --waker).
 *
 *   victim   blocked ------------------------> queue --> running --> leaves: a row of the blocked time, by who is noted
 *   waker    ----- on_waking: notes itself -----> ...
 *
 * sched_waking runs in the waker's context, with the victim's pi_lock held, so one at a time for each victim. In an interrupt the thread that
 * happens to run there has nothing to do with it: it is then the interrupt's doing; but who sends to a local socket delivers it himself, in a
 * softirq that he lets run. How long the victim was blocked is known by then: a stack is taken
 * from cfg.wait_ns on, and where the victim's was taken; no guess is needed. It is kept in a place beside the victim's.
 *
 * The time goes into a row when it goes into those of sched.bpf.h, so that both sums are the same: when the victim leaves its CPU the
 * next time. Until then it may be woken again, before it was blocked a second time, and that one must not stand for the first: on its CPU it
 * is noted elsewhere (`early`), which is looked at only where nobody else is known.
 */
#ifndef ASCRIBE_WAKER_BPF_H
#define ASCRIBE_WAKER_BPF_H

#include "sched.bpf.h"

#define EARLY_NEAR 50000 /* ns: between being told to wake it, and its having left the CPU */

/* include/linux/preempt.h: in an NMI or an interrupt; serving what one has left to do */
#define IN_INTERRUPT 0xff0000
#define IN_SOFTIRQ 0x100
#define SOFTIRQ_FRAMES 64

struct waker {
	struct occupant who; /* without a tgid: nobody, start_ns is one of OCCUPANT_* */
	__u64 at;    /* CLOCK_BOOTTIME; 0: none, or being written */
	__u32 place; /* of its stack in `places`, counted from 1; 0: none. The owner is the victim */
	__u32 reserved;
};

struct waking {
	struct waker woken; /* who ended the wait that it is in, or had before it came; the first one */
	struct waker early; /* the last one that found it on its CPU */
	/* As a waker itself: its label set, as it was read last. */
	__u64 set_id;
	__u64 labels_until;
	__u32 exec_id;
	__u32 reserved;
};

/* Made as `waits` is. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct waking);
} wakings SEC(".maps");

/* ---- has an interrupt stopped the current thread? ---- */

#if defined(__TARGET_ARCH_x86)
/* Both are variables of each CPU: as far apart on all of them. Not every kernel gives us the one by its name. */
static __always_inline __u32 interrupts(struct task_struct *by)
{
	__u32 count = IN_INTERRUPT;
	bpf_probe_read_kernel(&count, sizeof(count), (const char *)by->se.cfs_rq->rq + cfg.preempt_count);
	return count;
}
#elif defined(__TARGET_ARCH_arm64)
static __always_inline __u32 interrupts(struct task_struct *by)
{
	return (__u32)by->thread_info.preempt_count;
}
#endif

/* Do the n frames at the tail of half `key` lead from the queue of local packets to where a thread lets softirqs run? */
__noinline int softirq_is_own(__u32 key, __u32 n)
{
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	bool packets = false;
	if (!cfg.wakers || !h)
		return 0;
	const __u64 *word = arena_ptr(h, h->arena_used);
	for (__u32 i = 0; i < SOFTIRQ_FRAMES && i < n; i++) {
		packets |= word[i] - cfg.backlog.from < cfg.backlog.to - cfg.backlog.from;
		if (word[i] - cfg.bottom_half.from < cfg.bottom_half.to - cfg.bottom_half.from)
			return packets;
	}
	return 0;
}

/* Is what is being done an interrupt's, not the current thread's? */
static __always_inline bool in_interrupt(void *ctx, struct task_struct *by, struct cpu_state *c, struct sched_cpu *sc, __u32 cpu)
{
	__u32 count = interrupts(by);
	if (!(count & (IN_INTERRUPT | IN_SOFTIRQ)))
		return false;
	if (count & IN_INTERRUPT || !by->pid)
		return true;
	__u32 key = inside(c, sc, cpu);
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	__u64 *tail = h ? arena_tail(h) : 0;
	long len = tail ? bpf_get_stack(ctx, tail, SOFTIRQ_FRAMES * 8, 0) : 0;
	bool own = len > 0 && softirq_is_own(key, (__u32)len / 8);
	outside(c);
	return !own;
}

/* ---- the waker ---- */

/*
 * The label set of the current thread, whose image is in sc. As of one that leaves: where the wait was short, what was read a moment ago is good
 * enough, and a process that is not known yet is asked about only by the way of a stack.
 */
static __always_inline __u64 waker_labels(struct sched_cpu *sc, struct task_struct *t, bool take, __u64 now)
{
	struct waking *mine = bpf_task_storage_get(&wakings, t, 0, 0);
	if (!take && mine && now < mine->labels_until && mine->exec_id == sc->image.exec_id)
		return mine->set_id;
	struct proc_entry *known = proc_find(&sc->image);
	bool none = known && !known->n_slots && !known->n_sources;
	__u64 set_id = none ? 0 : known || take ? read_labels(&sc->image, &sc->flags) : 0;
	if (mine) {
		mine->set_id = set_id;
		mine->exec_id = sc->image.exec_id;
		mine->labels_until = known ? now + (set_id ? cfg.wait_ns : cfg.wait_ns / 8) : 0;
	}
	return set_id;
}

/* The current thread wakes thread `tid`. */
static __always_inline void waker_note(void *ctx, struct task_struct *t, __u32 tid, struct cpu_state *c, struct sched_cpu *sc, __u32 cpu,
				       struct waker *k, bool take, __u64 now)
{
	bool kthread = t->flags & PF_KTHREAD;
	struct stack_lengths len;
	__u32 key = inside(c, sc, cpu);
	identify_as(t, &k->who);
	sc->image.tgid = k->who.tgid;
	sc->image.start_ns = k->who.start_ns;
	sc->image.exec_id = k->who.exec_id;
	k->who.set_id = kthread ? 0 : waker_labels(sc, t, take, now);
	struct half *h = take ? bpf_map_lookup_elem(&halves, &key) : 0;
	__u64 *tail = h ? arena_tail(h) : 0;
	if (tail) {
		unwind(ctx, t, &sc->image, false, kthread, key, tail, WAIT_WORDS, &len);
		__u32 n_python = kthread ? 0 : python_behind(&sc->image, key, len.n_kernel + len.n_user);
		k->place = place_keep(key, tid, len.n_kernel, len.n_user, n_python);
	}
	outside(c);
}

static __always_inline void waker_nobody(struct waker *k, __u64 which)
{
	k->who.tgid = 0;
	k->who.start_ns = which;
}

/*
 * A thread that was preempted on its way to being blocked, or has been woken before, goes on waiting for a CPU. Where a program of ours is at
 * work on this CPU, which an interrupt has stopped, the waker stays unknown.
 */
SEC("tp_btf/sched_waking")
int on_waking(__u64 *ctx)
{
	struct task_struct *t = (void *)ctx[0], *by = bpf_get_current_task_btf();
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_state *c = bpf_map_lookup_elem(&cpu_states, &cpu);
	struct sched_cpu *sc = bpf_map_lookup_elem(&sched_cpus, &cpu);
	struct waiting *w = bpf_task_storage_get(&waits, t, 0, 0);
	struct waking *all = bpf_task_storage_get(&wakings, t, 0, 0);
	if (t == by || cpu >= cfg.n_cpus || !c || !sc || !w || !all || *(volatile __u32 *)&c->seq & 1)
		return 0;
	bool early = t->on_cpu;
	__u64 since = w->since;
	if (!early && (all->woken.at || !since || w->state != WAITS_BLOCKED))
		return 0;
	struct waker *k = early ? &all->early : &all->woken;
	__u64 now = bpf_ktime_get_boot_ns();
	__sync_lock_test_and_set(&k->at, 0);
	k->place = 0;
	if (in_interrupt(ctx, by, c, sc, cpu))
		waker_nobody(k, OCCUPANT_INTERRUPT);
	else if (!by->pid)
		waker_nobody(k, OCCUPANT_IDLE);
	else
		waker_note(ctx, by, (__u32)t->pid, c, sc, cpu, k, !early && (now - since >= cfg.wait_ns || w->place) &&
			   may_take(&sc->waker_taking, now - since, now), now);
	__sync_lock_test_and_set(&k->at, now);
	return 0;
}

/* ---- the wait is over ---- */

/* `off` ns of the waits of w, which `who` ended, whose stack is in that place. */
__noinline int put_waker(__u32 cpu, struct waiting *w, const struct occupant *who, __u32 place, __u64 off)
{
	struct cpu_state *c = bpf_map_lookup_elem(&cpu_states, &cpu);
	struct sched_cpu *sc = bpf_map_lookup_elem(&sched_cpus, &cpu);
	if (!cfg.wakers || !c || !sc || !w || !who)
		return 0;
	__u32 key = inside(c, sc, cpu);
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	struct wait_others *o = bpf_map_lookup_elem(&wait_others, &key);
	if (h && o) {
		struct row *row = row_of(sc, w);
		row->kind = ROW_WAKER;
		row->event = (__u8)cfg.event_off;
		row->tid = w->kthread ? WAIT_KTHREAD : 0; /* by the labels of the work alone */
		row->n_kernel = row->n_user = 0;
		row->samples = 1;
		row->value = off;
		if (!place || place_take(key, place, who, row))
			row->stack = occupant_at(key, sc, who);
		if (row->stack == OCCUPANT_OTHER)
			count(h, COUNTER_waker_unknown);
		if (row_add(key, row) < 0) {
			count(h, COUNTER_wait_parts_full);
			o->waker.n++;
			o->waker.ns += off;
		}
		row->n_python = 0;
		ask_for_drain(h);
	}
	outside(c);
	return 0;
}

/* Was it woken before it had left its CPU? Then this is who: another may be writing there. */
static __always_inline bool waker_early(struct waking *all, const struct waiting *w, struct occupant *ret)
{
	__u64 at = __sync_fetch_and_add(&all->early.at, 0);
	if (!at || !w->began || at - w->began + EARLY_NEAR >= 2 * EARLY_NEAR)
		return false;
	*ret = all->early.who;
	return __sync_fetch_and_add(&all->early.at, 0) == at;
}

__noinline int waker_over(__u32 cpu, struct waiting *w, __u64 off)
{
	struct sched_cpu *sc = bpf_map_lookup_elem(&sched_cpus, &cpu);
	if (!cfg.wakers || !sc || !w)
		return 0;
	struct waking *all = bpf_task_storage_get(&wakings, bpf_get_current_task_btf(), 0, 0);
	sc->other.start_ns = OCCUPANT_OTHER;
	if (!all) {
		if (off)
			put_waker(cpu, w, &sc->other, 0, off);
		return 0;
	}
	__u32 place = all->woken.place;
	if (off && all->woken.at) {
		put_waker(cpu, w, &all->woken.who, place, off);
		place = 0;
	} else if (off) {
		put_waker(cpu, w, waker_early(all, w, &sc->waker) ? &sc->waker : &sc->other, 0, off);
	}
	if (place)
		place_drop(place, (__u32)bpf_get_current_task_btf()->pid);
	all->woken.place = 0;
	all->woken.at = 0;
	return 0;
}

/* In place of on_switch. */
SEC("tp_btf/sched_switch")
int on_switch_waker(__u64 *ctx)
{
	switched(ctx, true);
	return 0;
}

/* ---- all threads: at the beginning, and those to come ---- */

static __always_inline void waking_make(struct task_struct *t)
{
	for (int i = 0; i < STORAGE_TRIES; i++)
		if (bpf_task_storage_get(&wakings, t, 0, BPF_LOCAL_STORAGE_GET_F_CREATE))
			break;
}

/* Beside on_thread. */
SEC("tp_btf/sched_process_fork")
int on_thread_waker(__u64 *ctx)
{
	waking_make((struct task_struct *)ctx[1]);
	return 0;
}

/* Once, before on_threads. */
SEC("iter/task")
int on_threads_waker(struct bpf_iter__task *ctx)
{
	if (ctx->task)
		waking_make(ctx->task);
	return 0;
}

#endif

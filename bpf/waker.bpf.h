/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Wakers: who ended a wait. The thread that ran where a blocked one was woken, with its label set
 * and, where the wait was long, its stack. Loaded only for record --waker.
 *
 *   blocked thread   blocked ----------------------> queue --> running --> switch out:
 *                                                                      account off-cpu by waker
 *   waker            ----- on_waking: note itself -----> ...
 *
 * sched_waking runs in the waker's context with the blocked thread's pi_lock held: one at a time
 * per blocked thread. In an interrupt the current thread is not the waker; but who sends to a local
 * socket delivers the packet itself, in a softirq that it lets run. How long the thread was blocked
 * is known by then, so no guess is needed: the waker's stack is taken from cfg.wait_ns on, and
 * wherever the blocked thread's was. It is kept in wait_stacks until then.
 *
 * The time goes into a row together with that of offcpu.bpf.h, so that both sums are the same: at
 * the next switch out. Until then the thread may be woken again, before it is blocked a second
 * time. Such a wake-up finds it on its CPU and is noted in `early`, which counts only where no
 * other waker is known.
 *
 * Both threads' system calls are looked at. A thread blocked in a futex call waits for a lock or
 * the like, whose address is the call's first argument. Where the waker is in a futex call with the
 * same argument, it released that futex: it is the last holder of a mutex.
 */
#ifndef ASCRIBE_WAKER_BPF_H
#define ASCRIBE_WAKER_BPF_H

#include "futex.bpf.h"
#include "offcpu.bpf.h"

/* 8 tokens for wakers' stacks, where a wait's stack has one: cfg.token_shift */
#define WAKER_SLICE_SHIFT 3
#define WAKER_TOKENS 64
#define WAKER_LONG_FACTOR 16	   /* multiples of cfg.wait_ns: waits are medium 1-16, long >= 16 */
#define WAKER_MEDIUM_SLICE_SHIFT 2 /* likewise, one medium wait each, when tokens are few */
#define EARLY_NEAR 50000	   /* ns between an early wake-up and the switch out, at most */

/* preempt_count, include/linux/preempt.h: in an NMI or a hard interrupt; serving a softirq */
#define IN_INTERRUPT 0xff0000
#define IN_SOFTIRQ 0x100
#define SOFTIRQ_FRAMES 64

/* Two processes may map a futex at different addresses, whose bits in a page are the same. */
#define FUTEX_SAME 0xfff

struct waker {
	struct occupant who; /* tgid 0: no process; start_ns is one of OCCUPANT_* */
	__u64 at;	     /* CLOCK_BOOTTIME; 0: none, or being written */
	__u32 stack; /* index in wait_stacks plus 1; 0: none. Its owner is the blocked thread */
	__u32 reserved;
	__u64 futex; /* that its futex call names; 0: it was in no such call */
};

struct waking {
	struct waker woken; /* the first that ended the wait which is not accounted yet */
	struct waker early; /* the last that found the thread on its CPU */
	__u64 futex;	    /* in which the thread is blocked since its last switch out; 0: none */
	/* As a waker itself: its label set when it was last read. */
	__u64 set_id;
	__u64 labels_until;
	__u32 exec_id;
	__u32 reserved;
};

/* Allocated as `waits` is. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct waking);
} wakings SEC(".maps");

/* ---- interrupts ---- */

#if defined(__TARGET_ARCH_x86)
/*
 * Return this CPU's preempt_count. It and the run queue are per-CPU variables, equally far apart on
 * all CPUs; not every kernel gives us preempt_count by its name.
 */
static __always_inline __u32 preempt_count_of(struct task_struct *by)
{
	__u32 count = IN_INTERRUPT;
	bpf_probe_read_kernel(&count, sizeof(count),
			      (const char *)by->se.cfs_rq->rq + cfg.preempt_count);
	return count;
}
#elif defined(__TARGET_ARCH_arm64)
static __always_inline __u32 preempt_count_of(struct task_struct *by)
{
	return (__u32)by->thread_info.preempt_count;
}
#endif

/*
 * Do the n frames at the tail of half `key` lead from the queue of local packets to the place where
 * a thread lets softirqs run?
 */
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

/*
 * Is this CPU in an interrupt, rather than at work for the current thread? With PREEMPT_RT softirqs
 * run in threads (ktimers/N ends sleeps), which count them by themselves.
 */
static __always_inline bool in_interrupt(void *ctx, struct task_struct *by, struct cpu_state *c,
					 struct sched_cpu *sc, __u32 cpu)
{
	__u32 count = preempt_count_of(by);
	if (bpf_core_field_exists(by->softirq_disable_cnt))
		count |= (__u32)by->softirq_disable_cnt & IN_SOFTIRQ;
	if (!(count & (IN_INTERRUPT | IN_SOFTIRQ)))
		return false;
	if (count & IN_INTERRUPT || !by->pid)
		return true;
	__u32 key = half_enter(c, sc);
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	__u64 *tail = h ? arena_tail(h) : 0;
	long len = tail ? bpf_get_stack(ctx, tail, SOFTIRQ_FRAMES * 8, 0) : 0;
	bool own = len > 0 && softirq_is_own(key, (__u32)len / 8);
	half_leave(c);
	return !own;
}

/* ---- futexes ---- */

/* Note in sc the futex of the wait that is over, and whether its waker released it. */
static __always_inline void futex_over(struct sched_cpu *sc, const struct thread_wait *w,
				       __u64 futex, const struct occupant *who, __u64 released)
{
	if (futex == FUTEX_OF_MANY)
		futex = who->tgid == w->who.tgid ? released : 0;
	sc->futex = futex;
	sc->released = futex && released && !((futex ^ released) & FUTEX_SAME) ? WAKER_RELEASED : 0;
}

/* ---- the waker ---- */

/*
 * Return the label set of the current thread, whose image is in sc. As in identity_refresh: a set
 * that was read a moment ago counts after a short wait, and unknown processes are asked for only
 * with a stack.
 */
static __always_inline __u64 waker_labels(struct sched_cpu *sc, struct task_struct *t, bool take,
					  __u64 now)
{
	struct waking *mine = bpf_task_storage_get(&wakings, t, 0, 0);
	if (!take && mine && now < mine->labels_until && mine->exec_id == sc->image.exec_id)
		return mine->set_id;
	struct proc_entry *known = proc_find(&sc->image);
	bool none = known && !known->n_slots && !known->n_sources && !is_timed(t);
	__u64 set_id = none ? 0 : known || take ? read_labels(&sc->image, &sc->flags) : 0;
	if (mine) {
		mine->set_id = set_id;
		mine->exec_id = sc->image.exec_id;
		mine->labels_until = known ? now + (set_id ? cfg.wait_ns : cfg.wait_ns / 8) : 0;
	}
	return set_id;
}

/*
 * Take a token for the waker's stack of a wait of `ns`. The upper half of the tokens is for all
 * waits, the lower half for long ones: a busy host has thousands of medium waits per second.
 */
static __always_inline bool waker_take_token(struct sched_cpu *sc, __u64 ns, __u64 now)
{
	if (no_wait_stacks)
		return false;
	__u64 slice = now >> (cfg.token_shift - WAKER_SLICE_SHIFT),
	      more = slice - sc->waker_tokens.slice;
	__u32 left = sc->waker_tokens.left;
	sc->waker_tokens.slice = slice;
	left = more < WAKER_TOKENS && left + more < WAKER_TOKENS ? left + (__u32)more
								 : WAKER_TOKENS;
	sc->waker_tokens.left = left;
	if (ns < WAKER_LONG_FACTOR * cfg.wait_ns) {
		__u64 medium = now >> (cfg.token_shift - WAKER_MEDIUM_SLICE_SHIFT);
		if (left < WAKER_TOKENS / 2 && sc->waker_tokens.slice_medium == medium)
			return false;
		sc->waker_tokens.slice_medium = medium;
	}
	if (!left)
		return false;
	sc->waker_tokens.left = left - 1;
	return true;
}

/* Note the current thread as the waker of thread `tid`, with its stack if `take`. */
static __always_inline void waker_note(void *ctx, struct task_struct *t, __u32 tid,
				       struct cpu_state *c, struct sched_cpu *sc, __u32 cpu,
				       struct waker *k, bool take, __u64 now)
{
	__u32 key = half_enter(c, sc);
	occupant_identify(t, &k->who);
	sc->image.tgid = k->who.tgid;
	sc->image.start_ns = k->who.start_ns;
	sc->image.exec_id = k->who.exec_id;
	k->who.set_id = t->flags & PF_KTHREAD ? 0 : waker_labels(sc, t, take, now);
	k->futex = futex_of(t);
	if (take)
		k->stack = wait_stack_unwind(ctx, t, sc, key, tid);
	half_leave(c);
}

static __always_inline void waker_set_none(struct waker *k, __u64 which)
{
	k->who = (struct occupant){ .start_ns = which };
	k->futex = 0;
}

/*
 * Ignore threads that were preempted on their way to being blocked, and those that are woken
 * already: they wait for a CPU. Where the interrupt has stopped a program of ours, the waker stays
 * unknown.
 */
SEC("tp_btf/sched_waking")
int on_waking(__u64 *ctx)
{
	struct task_struct *t = (void *)ctx[0], *by = bpf_get_current_task_btf();
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_state *c = bpf_map_lookup_elem(&cpu_states, &cpu);
	struct sched_cpu *sc = bpf_map_lookup_elem(&sched_cpus, &cpu);
	struct thread_wait *w = bpf_task_storage_get(&waits, t, 0, 0);
	struct waking *all = bpf_task_storage_get(&wakings, t, 0, 0);
	if (t == by || cpu >= cfg.n_cpus || !c || !sc || !w || !all ||
	    *(volatile __u32 *)&c->seq & 1)
		return 0;
	bool early = t->on_cpu;
	__u64 since = w->since;
	if (!early && (all->woken.at || !since || w->state != WAIT_BLOCKED))
		return 0;
	struct waker *k = early ? &all->early : &all->woken;
	__u64 now = bpf_ktime_get_boot_ns();
	__sync_lock_test_and_set(&k->at, 0);
	k->stack = 0;
	if (in_interrupt(ctx, by, c, sc, cpu))
		waker_set_none(k, OCCUPANT_INTERRUPT);
	else if (!by->pid)
		waker_set_none(k, OCCUPANT_IDLE);
	else
		waker_note(ctx, by, (__u32)t->pid, c, sc, cpu, k,
			   !early && (now - since >= cfg.wait_ns || w->stack) &&
				   waker_take_token(sc, now - since, now),
			   now);
	__sync_lock_test_and_set(&k->at, now);
	return 0;
}

/* ---- the end of a wait ---- */

/*
 * Name the blocked thread's own stack in the row of its waker, where the half of that row has it.
 */
static __always_inline void row_set_blocked_stack(struct row *row, const struct sched_cpu *sc,
						  const struct thread_wait *w)
{
	if (!sc->blocked_stack.at || sc->blocked_stack.active != sc->active)
		return;
	row->waker_flags |= sc->blocked_stack.at << WAKER_BLOCKED_SHIFT;
	row->thinning = w->thinning & 15;
	row->earlier = !w->began;
}

/*
 * Add `off` ns of blocked time of w to the row of its waker, with the waker's stack unless that is
 * 0.
 */
__noinline int row_add_waker(__u32 cpu, struct thread_wait *w, const struct occupant *who,
			     __u32 stack, __u64 off)
{
	struct cpu_state *c = bpf_map_lookup_elem(&cpu_states, &cpu);
	struct sched_cpu *sc = bpf_map_lookup_elem(&sched_cpus, &cpu);
	if (!cfg.wakers || !c || !sc || !w || !who)
		return 0;
	__u32 key = half_enter(c, sc);
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	struct wait_others *o = bpf_map_lookup_elem(&wait_others, &key);
	if (h && o) {
		struct row *row = row_begin(sc, w);
		row->kind = ROW_WAKER;
		row->event = (__u8)cfg.event_off;
		/* No tid: by the labels of the work alone */
		row->waker_flags = w->kthread ? WAIT_KTHREAD : 0;
		if (sc->futex)
			row->waker_flags |= WAKER_FUTEX | (__u32)sc->released;
		row->n_kernel = row->n_user = 0;
		row_set_blocked_stack(row, sc, w);
		row->samples = 1;
		row->value = off;
		if (!stack || wait_stack_take(key, stack, who, sc->futex, row))
			row->occupant = occupant_intern(key, sc, who, sc->futex);
		if (row->occupant == OCCUPANT_OTHER ||
		    (!who->tgid && who->start_ns == OCCUPANT_OTHER))
			count(h, COUNTER_waker_unknown);
		if (row_add(key, row) < 0) {
			count(h, COUNTER_wait_parts_full);
			o->waker.n++;
			o->waker.ns += off;
		}
		row->n_script = 0;
		row->thinning = 0;
		row->earlier = 0;
		ask_for_drain(h);
	}
	sc->blocked_stack.at = 0;
	half_leave(c);
	return 0;
}

/*
 * Was the thread woken before it was switched out? Copy that waker to *ret; another CPU may be
 * writing it.
 */
static __always_inline bool waker_early(struct waking *all, const struct thread_wait *w,
					struct occupant *ret, __u64 *ret_futex)
{
	__u64 at = __sync_fetch_and_add(&all->early.at, 0);
	if (!at || !w->began || at - w->began + EARLY_NEAR >= 2 * EARLY_NEAR)
		return false;
	*ret = all->early.who;
	*ret_futex = all->early.futex;
	return __sync_fetch_and_add(&all->early.at, 0) == at;
}

__noinline int waker_over(__u32 cpu, struct thread_wait *w, __u64 off)
{
	struct sched_cpu *sc = bpf_map_lookup_elem(&sched_cpus, &cpu);
	if (!cfg.wakers || !sc || !w)
		return 0;
	struct waking *all = bpf_task_storage_get(&wakings, bpf_get_current_task_btf(), 0, 0);
	sc->other.start_ns = OCCUPANT_OTHER;
	sc->futex = 0;
	if (!all) {
		if (off)
			row_add_waker(cpu, w, &sc->other, 0, off);
		return 0;
	}
	__u32 stack = all->woken.stack;
	__u64 released = 0;
	if (off && all->woken.at) {
		futex_over(sc, w, all->futex, &all->woken.who, all->woken.futex);
		row_add_waker(cpu, w, &all->woken.who, stack, off);
		stack = 0;
	} else if (off && waker_early(all, w, &sc->waker, &released)) {
		futex_over(sc, w, all->futex, &sc->waker, released);
		row_add_waker(cpu, w, &sc->waker, 0, off);
	} else if (off) {
		futex_over(sc, w, all->futex, &sc->other, 0);
		row_add_waker(cpu, w, &sc->other, 0, off);
	}
	all->futex = futex_of(bpf_get_current_task_btf());
	if (stack)
		wait_stack_free(stack, (__u32)bpf_get_current_task_btf()->pid);
	all->woken.stack = 0;
	all->woken.at = 0;
	return 0;
}

/* Loaded instead of on_switch. */
SEC("tp_btf/sched_switch")
int on_switch_waker(__u64 *ctx)
{
	sched_switched(ctx, WITH_WAKERS);
	return 0;
}

SEC("tp_btf/sched_switch")
int on_switch_waker_latency(__u64 *ctx)
{
	sched_switched(ctx, WITH_WAKERS | WITH_LATENCY);
	return 0;
}

/* ---- storage ---- */

static __always_inline void waking_alloc(struct task_struct *t)
{
	for (int i = 0; i < STORAGE_TRIES; i++)
		if (bpf_task_storage_get(&wakings, t, 0, BPF_LOCAL_STORAGE_GET_F_CREATE))
			break;
}

/* Beside on_thread. */
SEC("tp_btf/sched_process_fork")
int on_thread_waker(__u64 *ctx)
{
	waking_alloc((struct task_struct *)ctx[1]);
	return 0;
}

/* Run once, before on_threads. */
SEC("iter/task")
int on_threads_waker(struct bpf_iter__task *ctx)
{
	if (ctx->task)
		waking_alloc(ctx->task);
	return 0;
}

#endif

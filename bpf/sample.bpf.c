// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * One sample: who ran (thread, process image, cgroup), for whom (label set), where (stacks) -> one
 * more in the row of this CPU's active half. No map operation here takes a lock; nothing is waited
 * for.
 */
#include "common.bpf.h"
#include "copy.bpf.h"
#include "heap.bpf.h"
#include "hist_bucket.h"
#include "ids.bpf.h"
#include "jitter.bpf.h"
#include "labels.bpf.h"
#include "latency.bpf.h"
#include "offcpu.bpf.h"
#include "probe_value.bpf.h"
#include "script.bpf.h"
#include "select.bpf.h"
#include "table.bpf.h"
#include "thin.bpf.h"
#include "unwind.bpf.h"
#include "waker.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* One more in the row of this key with the stack at the tail. False: counted as lost. */
static __always_inline bool keep_row(struct half *h, __u32 half_key, struct row *key,
				     const struct stack_lengths *len)
{
	int at = stack_intern(half_key, len->n_kernel, len->n_user, len->n_script);
	if (at < 0) {
		count(h, -1 - at);
		return false;
	}
	key->stack = (__u32)at;
	key->n_kernel = (__u16)len->n_kernel;
	key->n_user = (__u16)len->n_user;
	key->n_script = (__u16)len->n_script;
	if (cfg.heap[key->event & (MAX_EVENTS - 1)] ? row_add_alone(half_key, key)
						    : row_add(half_key, key) >= 0)
		return true;
	count(h, COUNTER_rows_full);
	return false;
}

/* Several sources may have failed, each in its own way. Rare: seldom more than one bit. */
__noinline int count_failed(__u32 half_key, __u64 failed)
{
	struct half *h = bpf_map_lookup_elem(&halves, &half_key);
	if (!h)
		return 0;
	for (int i = 0; i < N_COUNTERS - COUNTER_labels_cut && i < 64; i++)
		if (failed >> i & 1)
			count(h, COUNTER_labels_cut + i);
	return 0;
}

/* A sample of a thread: stored, on its way to user space, or counted as lost. */
static __always_inline void sample_task(void *ctx, struct half *h, __u32 half_key,
					struct task_struct *t, struct row *key, bool in_user,
					bool weighs)
{
	struct image im = { .tgid = process_id(t) };
	struct stack_lengths len;
	struct label_flags labels = { .flag = COUNTER_unlabelled };

	key->tgid = im.tgid;
	key->tid = thread_id(t);
	im.start_ns = key->start_ns = t->group_leader->start_boottime;
	im.exec_id = key->exec_id = (__u32)t->self_exec_id;
	/*
	 * Plain loads: the helpers for these two cost some 60 ns each, because their code is never
	 * warm.
	 */
	key->cgroup = t->cgroups->dfl_cgrp->kn->id;
	const __u64 *comm = (const void *)&t->comm;
	key->comm[0] = comm[0];
	key->comm[1] = comm[1];
	key->kind = t->flags & PF_KTHREAD ? ROW_KTHREAD : ROW_TASK;

	__u64 *tail = arena_tail(h);
	if (!tail) {
		count(h, COUNTER_stacks_full);
		return;
	}
	if (key->kind == ROW_TASK) {
		key->set_id = read_labels(&im, &labels);
		if (weighs && cfg.latency && key->event == cfg.latency_event)
			latency_weigh_sample(&im, key);
	}
	if (key->value == VALUE_UNKNOWN) {
		key->value = 0;
		labels.failed |= 1ull << (COUNTER_value_unknown - COUNTER_labels_cut);
	}
	unwind(ctx, t, &im, in_user, key->kind == ROW_KTHREAD, half_key, tail, USER_FRAMES_MAX,
	       &len);
	if (len.later && !copy_send(half_key, key, len.n_kernel))
		len.user_end = COUNTER_copied;
	if (key->kind == ROW_TASK && len.user_end != COUNTER_copied)
		len.n_script =
			script_stack(&im, half_key, len.n_kernel + len.n_user, STACK_WORDS_MAX);
	if (len.user_end != COUNTER_copied && !keep_row(h, half_key, key, &len))
		return;
	count(h, labels.flag);
	if (!key->set_id && labels.flag != COUNTER_unlabelled)
		count(h, COUNTER_unlabelled);
	if (labels.failed)
		count_failed(half_key, labels.failed);
	if (len.n_kernel >= cfg.max_frames)
		count(h, COUNTER_kernel_truncated);
	count(h, len.user_end);
	if (weighs && cfg.latency && key->first_ns && len.user_end != COUNTER_copied)
		latency_add_row(half_key, key);
}

/* Which program takes the sample: a constant, so that it has no code for what others do. */
enum sample_of { OF_CLOCK, OF_TRACEPOINT, OF_PROBE }; /* OF_CLOCK: and other counters */

/* hit: HEAP_NONE, but for probes, where ctx has the registers. */
static __always_inline void sample_in(void *ctx, struct half *h, __u32 half_key, __u32 event,
				      __u64 period, bool in_user, enum heap_hit hit,
				      enum sample_of of)
{
	struct task_struct *t = bpf_get_current_task_btf();
	bool idle = !t->pid;
	struct row key = { .event = (__u8)event,
			   .value = period,
			   .last_ns = bpf_ktime_get_boot_ns() };

	h->ran[event]++;
	if (idle)
		h->idle++;
	if (cfg.leaves_out[event] & (in_user ? LEAVE_OUT_USER : LEAVE_OUT_KERNEL) ||
	    (idle ? cfg.skip_idle : !is_selected(t))) {
		h->outside[event]++;
		return;
	}
	if (hit == HEAP_ALLOC && !heap_measure(ctx, &key)) {
		count(h, COUNTER_heap_refused);
		return;
	}
	if (cfg.n_rates && cfg.thins[event & (MAX_EVENTS - 1)]) {
		__u32 rate = idle ? 0 : chosen_rate(chosen_answer(t));
		if (!thin_is_due(event, rate)) {
			h->thinned++;
			return;
		}
		key.thinning = rate & (RATES_MAX - 1);
		key.value = thin_value(period, rate);
	}
	if (idle) {
		key.kind = ROW_IDLE;
		count(h, row_add(half_key, &key) < 0 ? COUNTER_rows_full : COUNTER_idle);
	} else {
		const bool noted = of == OF_PROBE && cfg.any_argument &&
				   cfg.argument[event & (MAX_EVENTS - 1)];
		if (noted)
			argument_note(bpf_get_attach_cookie(ctx));
		sample_task(ctx, h, half_key, t, &key, in_user, of == OF_CLOCK);
		if (noted)
			argument_drop();
		if (of == OF_PROBE && cfg.spreads[event] && period != VALUE_UNKNOWN)
			value_spread(half_key, &key);
	}
	ask_for_drain(h);
}

/*
 * Is a program at work on this CPU already? A function of its own: on_event is at the limit of its
 * stack on Linux 6.1.
 */
__noinline int is_inside(__u32 cpu)
{
	struct cpu_state *c = bpf_map_lookup_elem(&cpu_states, &cpu);
	return c && *(volatile __u32 *)&c->seq & 1;
}

/* How long this run took. */
__noinline int count_run(__u32 key)
{
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	if (!h)
		return 0;
	__u64 i = hist_bucket_index(RUN_HIST_BITS, bpf_ktime_get_ns() - h->run_begin);
	if (i >= RUN_BUCKETS)
		i = RUN_BUCKETS - 1;
	barrier_var(i);
	if (i < RUN_BUCKETS)
		h->run[i]++;
	return 0;
}

/*
 * tick: the event's count since it fired before, in its own unit. value: what the sample adds to
 * its row, but for clocks. hit: as for sample_in.
 */
static __always_inline void sample(void *ctx, __u32 event, __u64 tick, __u64 value, bool in_user,
				   enum heap_hit hit, enum sample_of of)
{
	__u32 cpu = bpf_get_smp_processor_id();
	event &= MAX_EVENTS - 1;
	barrier_var(event);
	if (cpu >= cfg.n_cpus) {
		__sync_fetch_and_add(&lost_bad_cpu, 1);
		return;
	}
	if (is_inside(cpu))
		return; /* a hardware event inside of offcpu.bpf.h: counted as not_run */
	struct cpu_state *c = bpf_map_lookup_elem(&cpu_states, &cpu);
	if (!c)
		return;
	cpu_state_step(c);
	__u32 key = HALF_INDEX(*(volatile __u32 *)&c->active);
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	if (h && hit == HEAP_FREED) {
		heap_free(key, event, REGS_ARG1((struct pt_regs *)ctx));
	} else if (h) {
		h->covered[event] += tick;
		if (jitter_is_due(event, tick)) {
			__u64 period_ns = cfg.period_ns[event];
			h->run_begin = bpf_ktime_get_ns();
			sample_in(ctx, h, key, event, period_ns ? period_ns : value, in_user, hit,
				  of);
			count_run(key);
		}
	}
	cpu_state_step(c);
}

SEC("perf_event")
int on_event(struct bpf_perf_event_data *ctx)
{
	sample(ctx, (__u32)bpf_get_attach_cookie(ctx), ctx->sample_period, ctx->sample_period,
	       in_user_mode(ctx), HEAP_NONE, OF_CLOCK);
	return 0;
}

/* A tracepoint is a perf event of another kind: every hit is a sample. */
SEC("tracepoint")
int on_tracepoint(void *ctx)
{
	sample(ctx, (__u32)bpf_get_attach_cookie(ctx), 1, 1, false, HEAP_NONE, OF_TRACEPOINT);
	return 0;
}

extern void bpf_preempt_disable(void) __ksym __weak;
extern void bpf_preempt_enable(void) __ksym __weak;

/* Called twice: to keep the answer takes 8 bytes of stack more than Linux 6.1 allows. */
static __always_inline bool is_guarded(void)
{
	return cfg.guard_probes && bpf_preempt_disable && bpf_preempt_enable;
}

/*
 * A hit of a probe, in the thread that hit it: every one is a sample, but for frees. There is no
 * kernel stack but the trap's; that of a return begins with the caller. Alone of all programs here
 * this one may be preempted, where the kernel is: another thread would step into the half that it
 * is in. programs.c loads it where that cannot be.
 */
SEC("kprobe")
int on_probe(struct pt_regs *ctx)
{
	if (is_guarded())
		bpf_preempt_disable();
	if (is_inside(bpf_get_smp_processor_id())) {
		__sync_fetch_and_add(&probes_missed, 1);
	} else {
		const __u64 cookie = bpf_get_attach_cookie(ctx);
		const __u32 event = PROBE_COOKIE(cookie).event & (MAX_EVENTS - 1);
		const enum heap_hit hit = !cfg.heap[event]			    ? HEAP_NONE
					  : PROBE_COOKIE(cookie).part == PROBE_FREE ? HEAP_FREED
										    : HEAP_ALLOC;
		const __u64 value = hit ? 1 : probe_value(cookie, REGS_SP(ctx), REGS_LINK(ctx));
		if (value != VALUE_NONE)
			sample(ctx, event, 1, value, true, hit, OF_PROBE);
	}
	if (is_guarded())
		bpf_preempt_enable();
	return 0;
}

/* A thread exits: its calls return no more. */
SEC("tp_btf/sched_process_exit")
int on_calls_exit(__u64 *ctx)
{
	struct calls *c = bpf_task_storage_get(&calls, (struct task_struct *)ctx[0], 0, 0);
	if (!c)
		return 0;
	c->unreturned += c->n;
	c->n = 0;
	calls_lose(c, c->v[0].event);
	return 0;
}

/* Children of what is selected are selected. */
SEC("tp_btf/sched_process_fork")
int on_fork(__u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	if (child->tgid != parent->tgid && selected_has(process_id(parent)))
		selected_add(process_id(child));
	return 0;
}

/*
 * A process is deselected when its leader is freed: the last of its threads, when all have run
 * their last instruction. At sched_process_exit the memory would still have to be given up (since
 * Linux 6.16, where it comes before exit_mm).
 */
SEC("tp_btf/sched_process_free")
int on_free(__u64 *ctx)
{
	struct task_struct *t = (void *)ctx[0];
	if (t->pid == t->tgid)
		selected_remove((__u32)t->tgid);
	return 0;
}

/*
 * The same in a PID namespace: a task that is freed has no ids there any more. So the process is
 * deselected when its last thread exits.
 */
SEC("tp_btf/sched_process_exit")
int on_exit(__u64 *ctx)
{
	struct task_struct *t = (void *)ctx[0];
	if (!t->signal->live.counter)
		selected_remove(process_id(t));
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The iterator over all threads. At the start of the recording it gives each thread its storage. At
 * the end of each window it reports the sums that are in no row yet, and the part so far of each
 * wait that goes on.
 */
#ifndef ASCRIBE_OFFCPU_ITER_BPF_H
#define ASCRIBE_OFFCPU_ITER_BPF_H

#include "futex.bpf.h"
#include "latency.bpf.h"
#include "offcpu_account.bpf.h"
#include "offcpu_clock.bpf.h"
#include "regs.bpf.h"
#include "select.bpf.h"

/*
 * waits_begin: give storage to all threads. waits_over: the recording ended, no switch adds waits.
 */
bool waits_begin, waits_over;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wire_wait);
} waits_out SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, saved_regs); /* too large for the stack */
} waits_regs SEC(".maps");

/* A thread that is blocked when recording begins waits since now. */
static __always_inline void iter_begin_thread(struct task_struct *t, __u64 now)
{
	struct wait_stack *s = 0;
	struct thread_wait *w = bpf_task_storage_get(&waits, t, 0, 0);
	__u32 state = t->__state;
	if (w)
		return;
	for (int i = 0; i < STORAGE_TRIES && !w; i++)
		w = bpf_task_storage_get(&waits, t, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!w || !state || (state & TASK_DEAD) || !t->pid)
		return;
	if (cfg.selection == SELECTION_CGROUP || !is_selected(t))
		return;
	w->stack = wait_stack_claim((__u32)t->pid, &s);
	if (s) {
		long n = bpf_get_task_stack(t, s->words, WAIT_WORDS * 8, 0);
		s->n_kernel = n > 0 ? (__u8)((__u64)n / 8) : 0;
		s->n_user = s->n_script = 0;
	}
	w->state = WAIT_BLOCKED;
	BACKEND(found, w, t);
	w->began = 0;
	w->since = now;
}

/* ---- waits that go on ---- */

static __always_inline void iter_set_task(struct task_struct *t, struct row *row)
{
	row->start_ns = t->group_leader->start_boottime;
	row->exec_id = (__u32)t->self_exec_id;
	row->tgid = process_id(t);
	row->tid = thread_id(t);
	row->cgroup = t->cgroups->dfl_cgrp->kn->id;
	const __u64 *comm = (const void *)&t->comm;
	row->comm[0] = comm[0];
	row->comm[1] = comm[1];
	row->kind = t->flags & PF_KTHREAD ? ROW_KTHREAD : ROW_TASK;
}

/*
 * Read the stack of a thread that waits: the one taken at its switch out, or, where none was taken
 * and it is blocked, its kernel frames now. Return the number of words.
 */
static __always_inline __u64 iter_stack(struct wire_wait *o, struct task_struct *t,
					const struct thread_wait *w)
{
	__u32 stack = w->stack, i = stack - 1;
	struct wait_stack *s = stack ? bpf_map_lookup_elem(&wait_stacks, &i) : 0;
	__u64 n = 0;
	o->row.stack = 0;
	o->row.n_kernel = o->row.n_user = o->row.n_script = 0;
	if (s) {
		o->row.n_kernel = s->n_kernel;
		o->row.n_user = s->n_user;
		o->row.n_script = s->n_script;
		n = o->row.n_kernel + o->row.n_user + o->row.n_script;
		barrier_var(n);
		if (n > WAIT_WORDS || bpf_probe_read_kernel(o->words, n * 8, s->words))
			/* Written meanwhile */
			n = o->row.n_kernel = o->row.n_user = o->row.n_script = 0;
	} else if (w->state & WAIT_BLOCKED && !stack) {
		long size = bpf_get_task_stack(t, o->words, WAIT_WORDS * 8, 0);
		n = size > 0 ? (__u64)size / 8 : 0;
		o->row.n_kernel = (__u16)n;
	}
	return n;
}

/*
 * Append where user space finds the user frames of a blocked thread that has none. Return the
 * number of words.
 */
static __always_inline __u64 iter_append_hang(struct wire_wait *o, struct task_struct *t,
					      const struct thread_wait *w, __u64 n)
{
	__u32 zero = 0;
	saved_regs *regs = bpf_map_lookup_elem(&waits_regs, &zero);
	const struct pt_regs *user = (void *)bpf_task_pt_regs(t);
	if (o->row.kind != ROW_TASK || o->row.n_user || !(w->state & WAIT_BLOCKED) || !regs ||
	    !is_user64(user))
		return n;
	barrier_var(n);
	if (n > WAIT_WORDS - HANG_WORDS || bpf_probe_read_kernel(regs, sizeof(*regs), user))
		return n;
	struct wire_hang *hang = (void *)(o->words + n);
	hang->regs.pc = unwind_registers(hang->regs.reg, regs);
	hang->began = w->began;
	hang->switches = t->nvcsw + t->nivcsw;
	o->row.stack = WAIT_HAS_HANG;
	return n + HANG_WORDS;
}

static __always_inline void iter_write_wait(struct seq_file *seq, struct wire_wait *o, __u64 n,
					    __u32 event, __u64 ns)
{
	o->row.event = (__u8)event;
	o->row.value = ns;
	n = WIRE_WAIT_BYTES + n * 8;
	barrier_var(n);
	if (ns && n <= sizeof(*o))
		bpf_seq_write(seq, o, n);
}

/* Report what the part weighed, with the same stack. */
static __always_inline void iter_write_weight(struct seq_file *seq, struct wire_wait *o,
					      struct thread_wait *w, __u64 n, __u64 now)
{
	bool runq = false;
	__u64 ns = latency_take(w, now, &runq);
	o->row.kind = ROW_LATENCY;
	o->row.stack = 0;
	iter_write_wait(seq, o, n, runq ? cfg.event_runq : cfg.event_off, ns);
	for (int i = 0; waits_over && i < 2; i++) { /* its next switch out is never seen */
		iter_write_wait(seq, o, n, i ? cfg.event_runq : cfg.event_off,
				w->latency.weight[i]);
		w->latency.weight[i] = 0;
	}
}

/*
 * Report what of a wait is not reported yet. The exchange on `since` fails when the wait ended
 * meanwhile.
 */
static __always_inline void iter_report_wait(struct seq_file *seq, struct wire_wait *o,
					     struct task_struct *t, struct thread_wait *w,
					     __u64 now)
{
	__u64 raw = *(volatile __u64 *)&w->since, woken,
	      until = BACKEND(progress, w, t, now, &woken), from = waits_from;
	__u64 since = raw < from ? from : raw;
	bool blocked = w->state & WAIT_BLOCKED;
	if (!raw || until <= since)
		return;
	iter_set_task(t, &o->row);
	o->row.set_id = w->who.set_id;
	o->row.last_ns = now;
	o->row.first_ns = since;
	o->row.samples = 1;
	o->row.earlier = !w->began;
	o->futex = blocked && cfg.wakers ? futex_of(t) : 0;
	if (o->futex == FUTEX_OF_MANY)
		o->futex = 0;
	__u64 n_stack = iter_stack(o, t, w), n = iter_append_hang(o, t, w, n_stack);
	if (__sync_val_compare_and_swap(&w->since, raw, until) != raw)
		return;
	__u64 queued = !blocked ? since : woken ? woken : until;
	if (queued < since)
		queued = since;
	if (queued > until)
		queued = until;
	o->row.last_ns = queued;
	iter_write_wait(seq, o, n, cfg.event_off, queued - since);
	o->row.last_ns = until;
	iter_write_wait(seq, o, n, cfg.event_runq, until - queued);
	o->row.last_ns = now;
	if (cfg.latency)
		iter_write_weight(seq, o, w, n_stack, now);
}

/* ---- sums ---- */

/* Move length i of w into the row of waits_out. False: the length is 0. */
__noinline int iter_take_length(struct thread_wait *w, __u32 i)
{
	__u32 zero = 0;
	struct wire_wait *o = bpf_map_lookup_elem(&waits_out, &zero);
	__u64 at = i;
	barrier_var(at);
	if (!o || !w || at >= 2 * LENGTHS)
		return 0;
	__u16 *n = &w->length[0][0] + at;
	o->row.event = (__u8)(at < LENGTHS ? cfg.event_off : cfg.event_runq);
	o->row.wait.bucket = (__u16)length_bucket((__u32)at % LENGTHS);
	o->row.samples = *n;
	*n = 0;
	return o->row.samples != 0;
}

static __always_inline void iter_report_latency(struct seq_file *seq, struct wire_wait *o,
						struct thread_wait *w)
{
	o->row.wait.flags = WAIT_LATENCY;
	for (int i = 0; i < 2; i++) {
		struct wait_sum *sum = &w->latency.sum[i];
		o->row.event = (__u8)(i ? cfg.event_runq : cfg.event_off);
		o->row.samples = sum->n;
		o->row.value = sum->ns;
		sum->n = sum->ns = 0;
		if (o->row.samples)
			bpf_seq_write(seq, o, WIRE_WAIT_BYTES);
	}
}

static __always_inline void iter_report_sums(struct seq_file *seq, struct wire_wait *o,
					     struct thread_wait *w)
{
	__u32 kthread = w->kthread ? WAIT_KTHREAD : 0;
	row_set_thread(&o->row, w);
	o->row.first_ns = w->last_ns;
	o->row.kind = ROW_WAIT;
	o->row.earlier = 0;
	o->row.occupant = OCCUPANT_OTHER;
	o->row.wait.flags = (__u16)(kthread | WAIT_SUMMED);
	o->row.wait.bucket = 0;
	for (__u32 i = 0; i < 2; i++) {
		o->row.event = (__u8)(i ? cfg.event_runq : cfg.event_off);
		o->row.samples = w->sum[i].n;
		o->row.value = w->sum[i].ns;
		o->row.last_ns = sum_ended_ns(w, &w->sum[i]);
		w->sum[i].n = w->sum[i].ns = 0;
		if (o->row.samples)
			bpf_seq_write(seq, o, WIRE_WAIT_BYTES);
	}
	o->row.last_ns = w->last_ns;
	if (cfg.latency)
		iter_report_latency(seq, o, w);
	o->row.wait.flags = (__u16)kthread;
	o->row.value = 0;
	for (__u64 i = 0; i < LENGTH_WORDS; i++) {
		barrier_var(i);
		if (!length_word(w, i))
			continue;
		for (__u32 k = 0; k < 4; k++)
			if (iter_take_length(w, (__u32)i * 4 + k))
				bpf_seq_write(seq, o, WIRE_WAIT_BYTES);
	}
	o->row.event = (__u8)cfg.event_runq;
	o->row.kind = ROW_BLAME;
	o->row.wait.bucket = 0;
	for (__u32 i = 0; i < BLAME_SUMS; i++) {
		struct blame_sum *sum = &w->blame[i];
		if (!sum->n)
			continue;
		o->row.occupant = sum->who.tgid ? 0 : (__u32)sum->who.start_ns;
		o->row.samples = sum->n;
		o->row.value = sum->ns;
		*(struct occupant *)o->words = sum->who;
		sum->n = sum->ns = 0;
		bpf_seq_write(seq, o, WIRE_WAIT_BYTES + sizeof(struct occupant));
	}
}

/*
 * The thread's CPU claims `since` and then reads `held`; we set `held` and then read `since`. So
 * either the CPU sees that the sums are held, or we see that the thread does not wait. After the
 * recording only threads that exit touch their sums: the exchange decides.
 */
static __always_inline void iter_hold_sums(struct seq_file *seq, struct wire_wait *o,
					   struct thread_wait *w)
{
	__sync_lock_test_and_set(&w->held, 1);
	bool ours = waits_over ? __sync_lock_test_and_set(&w->summed_since, 0) != 0
			       : w->summed_since && *(volatile __u64 *)&w->since;
	if (ours) {
		iter_report_sums(seq, o, w);
		w->summed_since = 0;
	}
	__sync_lock_test_and_set(&w->held, 0);
}

static __always_inline void iter_report_thread(struct seq_file *seq, struct task_struct *t,
					       __u64 now)
{
	__u32 zero = 0;
	struct wire_wait *o = bpf_map_lookup_elem(&waits_out, &zero);
	struct thread_wait *w = bpf_task_storage_get(&waits, t, 0, 0);
	if (!o || !w)
		return;
	if (now > waits_until)
		now = waits_until;
	if (cfg.latency)
		latency_recount(w);
	iter_hold_sums(seq, o, w);
	iter_report_wait(seq, o, t, w, now);
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Account waits: into rows of the CPU's half, or first into sums that are kept with the thread.
 *
 * Whatever touches a half stands between half_enter() and half_leave(), as a sample does; a sample
 * never interrupts it. The sums go into rows when the thread's identity changes, when it exits, or
 * SUMS_MAX_NS after the first wait in them. The iterator reports the rest at the end of a window.
 */
#ifndef ASCRIBE_OFFCPU_ACCOUNT_BPF_H
#define ASCRIBE_OFFCPU_ACCOUNT_BPF_H

#include "offcpu_stack.bpf.h"
#include "offcpu_types.bpf.h"
#include "table.bpf.h"

#define SUMS_MAX_NS (1ull << 30) /* 1.07 s */

/* What sum_add accounts, beside WAIT_SUMMED (no stack has the wait). */
#define SUM_RUNQ 0x100
#define SUM_NO_LENGTH 0x200 /* a part of a wait, or one that began before the recording */

/* ---- rows ---- */

static __always_inline __u32 half_enter(struct cpu_state *c, struct sched_cpu *sc)
{
	cpu_state_step(c);
	sc->active = *(volatile __u32 *)&c->active;
	return HALF_INDEX(sc->active);
}

static __always_inline void half_leave(struct cpu_state *c)
{
	cpu_state_step(c);
}

/* Fill in whose wait it was, and when the last one ended. */
static __always_inline void row_set_thread(struct row *row, const struct thread_wait *w)
{
	row->set_id = w->who.set_id;
	row->start_ns = w->who.start_ns;
	row->cgroup = w->who.cgroup;
	row->comm[0] = w->who.comm[0];
	row->comm[1] = w->who.comm[1];
	row->tgid = w->who.tgid;
	row->tid = w->tid;
	row->exec_id = w->who.exec_id;
	row->last_ns = w->last_ns;
}

/* Begin the row of sc for this thread. */
static __always_inline struct row *row_begin(struct sched_cpu *sc, const struct thread_wait *w)
{
	row_set_thread(&sc->row, w);
	sc->kthread = w->kthread ? WAIT_KTHREAD : 0;
	return &sc->row;
}

static __always_inline void half_count_waits(struct half *h, __u64 event, __u64 n)
{
	event &= MAX_EVENTS - 1;
	barrier_var(event);
	h->ran[event] += n;
}

/*
 * Add n waits without a stack to a row. With WAIT_SUMMED the row has their time and counts as
 * samples; without, they are n waits of the length of `bucket`.
 */
static __always_inline void row_add_waits(struct half *h, __u32 key, struct row *row, bool runq,
					  __u32 flags, __u32 bucket, __u64 n, __u64 ns)
{
	row->kind = ROW_WAIT;
	if (!(flags & WAIT_SUMMED))
		/*
		 * lengths are kept by the labels of the work alone: all threads of it share a row
		 */
		row->tid = 0;
	row->occupant = OCCUPANT_OTHER;
	row->event = (__u8)(runq ? cfg.event_runq : cfg.event_off);
	row->wait.bucket = (__u16)bucket;
	row->wait.flags = (__u16)flags;
	row->samples = n;
	row->value = ns;
	if (flags & WAIT_SUMMED) {
		half_count_waits(h, row->event, n);
		h->counters[COUNTER_wait_summed] += n;
	}
	if (row_add(key, row) >= 0)
		return;
	h->counters[flags & WAIT_SUMMED ? COUNTER_wait_rows_full : COUNTER_wait_parts_full] += n;
	struct wait_others *o = bpf_map_lookup_elem(&wait_others, &key);
	__u64 i = bucket + (runq ? WAIT_BUCKETS : 0);
	barrier_var(i);
	if (o && flags & WAIT_SUMMED) {
		o->all[runq].n += n;
		o->all[runq].ns += ns;
	} else if (o && i < 2 * WAIT_BUCKETS) {
		o->length[i] += n;
	}
}

/* All words before one branch. */
static __always_inline bool same_occupant(const struct occupant *who, const struct occupant *other)
{
	const __u64 *a = (const void *)who, *b = (const void *)other;
	__u64 differ = 0;
#pragma unroll
	for (int i = 0; i < OCCUPANT_WORDS; i++)
		differ |= a[i] ^ b[i];
	return !differ;
}

/*
 * Return the occupant's index in the arena of half `key`, or one of OCCUPANT_*. futex: behind it,
 * unless that is 0.
 */
static __always_inline __u32 occupant_intern(__u32 key, struct sched_cpu *sc,
					     const struct occupant *who, __u64 futex)
{
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	__u64 k = (who->tgid ^ (who->set_id >> 32) ^ (futex >> 3)) & (OCCUPANT_CACHE - 1);
	if (!who->tgid && !futex)
		return (__u32)who->start_ns;
	barrier_var(k);
	if (!h || k >= OCCUPANT_CACHE)
		return OCCUPANT_OTHER;
	if (sc->occupants[k].active == sc->active && sc->occupants[k].futex == futex &&
	    same_occupant(who, &sc->occupants[k].who))
		return sc->occupants[k].at;
	struct occupant *tail = (void *)arena_tail(h);
	if (!tail)
		return OCCUPANT_OTHER;
	*tail = *who;
	*(__u64 *)(tail + 1) = futex;
	int at = stack_intern(key, OCCUPANT_WORDS + (futex ? FUTEX_WORDS : 0), 0, 0);
	if (at < 0)
		return OCCUPANT_OTHER;
	sc->occupants[k].who = *who;
	sc->occupants[k].futex = futex;
	sc->occupants[k].at = (__u32)at;
	sc->occupants[k].active = sc->active;
	return (__u32)at;
}

/*
 * Add run queue time to the row of sc: `n` parts of waits, `ns` in all, during which `who` had the
 * CPU.
 */
__noinline int row_add_blame(__u32 key, const struct occupant *who, __u64 ns, __u64 n)
{
	__u32 me = bpf_get_smp_processor_id();
	struct sched_cpu *sc = bpf_map_lookup_elem(&sched_cpus, &me);
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	if (!sc || !h || !who)
		return 0;
	struct row *row = &sc->row;
	row->kind = ROW_BLAME;
	row->tid = 0; /* as of lengths */
	row->event = (__u8)cfg.event_runq;
	row->occupant = occupant_intern(key, sc, who, 0);
	row->wait.bucket = 0;
	row->wait.flags = sc->kthread;
	row->samples = n;
	row->value = ns;
	if (row_add(key, row) >= 0)
		return 0;
	h->counters[COUNTER_wait_parts_full] += n;
	struct wait_others *o = bpf_map_lookup_elem(&wait_others, &key);
	if (o) {
		o->blame.n += n;
		o->blame.ns += ns;
	}
	return 0;
}

/* Add what the wait weighed, with the stack of row. What finds no row is summed without it. */
static __always_inline void latency_add_stacked(__u32 key, struct row *row, struct thread_wait *w)
{
	row->kind = ROW_LATENCY;
	for (int i = 0; i < 2; i++) {
		row->event = (__u8)(i ? cfg.event_runq : cfg.event_off);
		row->value = w->latency.weight[i];
		if (row->value && row_add(key, row) >= 0)
			w->latency.weight[i] = 0;
	}
}

/*
 * Add a wait with its stack, `off` ns blocked and `runq` ns runnable. Return what found no row: bit
 * 0 blocked, bit 1 runnable; those are summed without their stack.
 */
__noinline int rows_add_stacked(__u32 cpu, struct thread_wait *w, __u64 off, __u64 runq)
{
	struct cpu_state *c = bpf_map_lookup_elem(&cpu_states, &cpu);
	struct sched_cpu *sc = bpf_map_lookup_elem(&sched_cpus, &cpu);
	int left = 3;
	if (!c || !sc || !w)
		return left;
	__u32 key = half_enter(c, sc);
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	struct row *row = row_begin(sc, w);
	row->kind = w->kthread ? ROW_KTHREAD : ROW_TASK;
	row->samples = 1;
	if (h && !wait_stack_take(key, w->stack, 0, 0, row)) {
		row->thinning = w->thinning & 15;
		row->earlier = !w->began;
		row->event = (__u8)cfg.event_off;
		row->value = off;
		if (off && row_add(key, row) >= 0) {
			half_count_waits(h, cfg.event_off, 1);
			sc->blocked_stack.at = row->stack + 1;
			sc->blocked_stack.active = sc->active;
			left &= ~1;
		}
		row->event = (__u8)cfg.event_runq;
		row->value = runq;
		if (runq && row_add(key, row) >= 0) {
			half_count_waits(h, cfg.event_runq, 1);
			left &= ~2;
		}
		if (cfg.latency)
			latency_add_stacked(key, row, w);
	}
	row->n_script = 0;
	row->thinning = 0;
	row->earlier = 0;
	half_leave(c);
	return left;
}

/* A wait of a thread without task storage. */
__noinline int count_untracked(__u32 cpu)
{
	struct cpu_state *c = bpf_map_lookup_elem(&cpu_states, &cpu);
	struct sched_cpu *sc = bpf_map_lookup_elem(&sched_cpus, &cpu);
	if (!c || !sc)
		return 0;
	__u32 key = half_enter(c, sc);
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	if (h) {
		half_count_waits(h, cfg.event_off, 1);
		count(h, COUNTER_wait_untracked);
	}
	half_leave(c);
	return 0;
}

/* ---- sums of a thread ---- */

static __always_inline bool sums_are_held(const struct thread_wait *w)
{
	return *(const volatile __u32 *)&w->held;
}

/*
 * Index of a bucket in thread_wait.length[]; LENGTHS if it is not counted per thread. The last
 * index is bucket 0, a thread that ran at once: a length, but no sample.
 */
static __always_inline __u64 length_index(__u32 bucket)
{
	__u32 i = bucket - LENGTH_FIRST;
	return i < LENGTHS - 1 ? i : bucket ? LENGTHS : LENGTHS - 1;
}

static __always_inline __u32 length_bucket(__u32 i)
{
	return i < LENGTHS - 1 ? LENGTH_FIRST + i : 0;
}

/*
 * Lengths are looked at in words of four. The loops over words call global functions for those that
 * are not 0: the verifier checks such a function once, and not once for each turn.
 */
#define LENGTH_WORDS (2 * LENGTHS / 4)
_Static_assert(2 * LENGTHS % 4 == 0 && !(__builtin_offsetof(struct thread_wait, length) % 8),
	       "words of lengths");

static __always_inline __u64 length_word(const struct thread_wait *w, __u64 i)
{
	return ((const __u64 *)&w->length[0][0])[i];
}

/* Move length i of w into a row; whose it is says the row of sc. */
__noinline int length_flush(__u32 key, struct thread_wait *w, __u32 i)
{
	__u32 me = bpf_get_smp_processor_id();
	struct sched_cpu *sc = bpf_map_lookup_elem(&sched_cpus, &me);
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	__u64 at = i;
	barrier_var(at);
	if (!sc || !h || !w || at >= 2 * LENGTHS)
		return 0;
	__u16 *n = &w->length[0][0] + at;
	if (*n)
		row_add_waits(h, key, &sc->row, at >= LENGTHS, sc->kthread,
			      length_bucket((__u32)at % LENGTHS), *n, 0);
	*n = 0;
	return 0;
}

static __always_inline void lengths_flush(__u32 key, struct thread_wait *w)
{
	for (__u64 i = 0; i < LENGTH_WORDS; i++) {
		barrier_var(i);
		if (!length_word(w, i))
			continue;
		for (__u32 k = 0; k < 4; k++)
			length_flush(key, w, (__u32)i * 4 + k);
	}
}

/* Move what waits weighed without their stacks into rows. */
static __always_inline void latency_flush(struct half *h, __u32 key, struct row *row,
					  struct thread_wait *w)
{
	struct wait_others *o = bpf_map_lookup_elem(&wait_others, &key);
	row->kind = ROW_WAIT;
	row->tid = w->tid;
	row->occupant = OCCUPANT_OTHER;
	row->wait.bucket = 0;
	row->wait.flags = WAIT_LATENCY;
	for (int i = 0; i < 2; i++) {
		struct wait_sum *sum = &w->latency.sum[i];
		row->event = (__u8)(i ? cfg.event_runq : cfg.event_off);
		row->samples = sum->n;
		row->value = sum->ns;
		if (sum->n && row_add(key, row) < 0) {
			count_several(h, COUNTER_latency_rows_full, sum->n);
			if (o) {
				o->latency[i].n += sum->n;
				o->latency[i].ns += sum->ns;
			}
		}
		sum->n = sum->ns = 0;
	}
}

/*
 * Move all sums of w into rows, unless the iterator holds them. With summed_since 0 they are the
 * caller's alone, held or not (sums_flush_last).
 */
__noinline int sums_flush(__u32 cpu, struct thread_wait *w)
{
	struct cpu_state *c = bpf_map_lookup_elem(&cpu_states, &cpu);
	struct sched_cpu *sc = bpf_map_lookup_elem(&sched_cpus, &cpu);
	if (!c || !sc || !w || (sums_are_held(w) && w->summed_since))
		return 0;
	__u32 key = half_enter(c, sc);
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	if (h) {
		struct row *row = row_begin(sc, w);
		for (__u32 i = 0; i < 2; i++) {
			/* A wait with its own stack may have ended since. */
			row->last_ns = sum_ended_ns(w, &w->sum[i]);
			if (w->sum[i].n)
				row_add_waits(h, key, row, i, sc->kthread | WAIT_SUMMED, 0,
					      w->sum[i].n, w->sum[i].ns);
			w->sum[i].n = w->sum[i].ns = 0;
		}
		row->last_ns = w->last_ns;
		lengths_flush(key, w);
		if (cfg.latency)
			latency_flush(h, key, row, w);
		for (__u32 i = 0; i < BLAME_SUMS; i++) {
			if (!w->blame[i].n)
				continue;
			row_add_blame(key, &w->blame[i].who, w->blame[i].ns, w->blame[i].n);
			w->blame[i].n = w->blame[i].ns = 0;
		}
		ask_for_drain(h);
	}
	half_leave(c);
	w->summed_since = 0;
	return 0;
}

/*
 * The thread exits after the recording ended, so the iterator cannot see it: flush here. The
 * exchange lets exactly one side flush.
 */
static __always_inline void sums_flush_last(struct task_struct *t, __u32 cpu)
{
	struct thread_wait *w = bpf_task_storage_get(&waits, t, 0, 0);
	if (w && __sync_lock_test_and_set(&w->summed_since, 0))
		sums_flush(cpu, w);
}

/*
 * Add one wait directly to rows: its sum while the iterator holds the sums, its length if that is
 * not counted per thread.
 */
__noinline int sum_add_row(__u32 cpu, struct thread_wait *w, __u32 what, __u64 ns, __u32 bucket)
{
	struct cpu_state *c = bpf_map_lookup_elem(&cpu_states, &cpu);
	struct sched_cpu *sc = bpf_map_lookup_elem(&sched_cpus, &cpu);
	bool runq = what & SUM_RUNQ;
	if (!c || !sc || !w)
		return 0;
	__u32 key = half_enter(c, sc);
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	if (h) {
		struct row *row = row_begin(sc, w);
		if (what & WAIT_SUMMED)
			row_add_waits(h, key, row, runq, sc->kthread | WAIT_SUMMED, 0, 1, ns);
		if (!(what & SUM_NO_LENGTH))
			row_add_waits(h, key, row, runq, sc->kthread, bucket, 1, 0);
		ask_for_drain(h);
	}
	half_leave(c);
	return 0;
}

/*
 * Account one wait: `ns` of it now; the whole wait was `full` ns long. what: SUM_* and WAIT_SUMMED.
 */
static __always_inline void sum_add(__u32 cpu, struct thread_wait *w, __u32 what, __u64 ns,
				    __u64 full)
{
	__u32 bucket = hist_bucket_index(WAIT_HIST_BITS, full), runq = what & SUM_RUNQ ? 1 : 0;
	__u64 i = length_index(bucket);
	if (unlikely(sums_are_held(w))) {
		sum_add_row(cpu, w, what, ns, bucket);
		return;
	}
	if (what & WAIT_SUMMED) {
		w->sum[runq].n++;
		w->sum[runq].ns += ns;
		w->sum[runq].ended = (__u32)(w->last_ns >> 10);
	}
	if (unlikely(what & SUM_NO_LENGTH))
		return;
	barrier_var(i);
	if (unlikely(i >= LENGTHS)) {
		sum_add_row(cpu, w, what & ~WAIT_SUMMED, ns, bucket);
	} else if (unlikely(w->length[runq][i] == 0xffff)) {
		w->summed_since = 1; /* long ago: all sums go into rows with this wait */
		sum_add_row(cpu, w, what & ~WAIT_SUMMED, ns, bucket);
	} else {
		w->length[runq][i]++;
	}
}

#endif

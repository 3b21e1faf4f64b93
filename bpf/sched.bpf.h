/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where threads wait: blocked (event off-cpu, from leaving the CPU to the wake-up) and for a CPU (event runq, from the wake-up, or from
 * being preempted, to running), in nanoseconds, exactly, of every wait; and who had the CPU meanwhile.
 *
 *            leave: since, label set, stack          wake-up                enter: rows
 *   running ------------------------------> blocked ---------------> queue ------------> running
 *
 * When it was woken is read when it enters: the kernel notes when a thread came into its queue (sched_info, with CONFIG_SCHED_INFO).
 * Each tracepoint with a program costs 100 ns before the program does anything; so wake-ups are watched only where it does not.
 *
 * What is known of a thread is in its task storage, made when the thread is (never here, where a run queue is locked). A
 * stack is taken when the thread leaves, for that is when its memory can be read, and kept in a place of its own until the wait is
 * over. Stacks are what is costly, so they are taken where the wait will be long: `spots` remembers how long the last waits of
 * each program counter and stack pointer were; of those that were short one in SHORT_ONE_IN has its stack taken all the same, one in 17 ms. A CPU
 * takes one in a millisecond, and up to TAKE_MAX at once that it did not take before. A wait without its stack is counted in a row by its length.
 *
 * Runs with interrupts off, between the same two increments of cpu_state.seq as a sample, which it therefore never meets.
 */
#ifndef ASCRIBE_SCHED_BPF_H
#define ASCRIBE_SCHED_BPF_H

#include "common.bpf.h"
#include "hist_bucket.h"
#include "labels.bpf.h"
#include "select.bpf.h"
#include "table.bpf.h"
#include "unwind.bpf.h"

#define TASK_DEAD 0x80 /* include/linux/sched.h */
#define SPOTS 16384
#define SHORT_ONE_IN 512
#define SHORT_SLICE_BITS 24 /* ns: one of them in 17 ms */
#define SLICE_BITS 20 /* ns: 1.05 ms */
#define TAKE_MAX 64 /* that were not taken before */
#define RUNS 512 /* of each CPU that are remembered */
#define KNOWN 8  /* occupants whose place in the arena is remembered */
#define PLACES 8192
#define PLACE_PROBES 8

enum wait_flag {
	WAITS_BLOCKED = 1,
	WAITS_RUNNABLE = 2, /* preempted, or just made */
};

/* One thread. All times are of CLOCK_BOOTTIME, which never steps. */
struct waiting {
	__u64 since;  /* waits from then on; 0: it runs, or nothing is known. Who takes a wait swaps it */
	__u64 began;  /* the same without what was told before the wait was over; 0: before we looked */
	__u64 woken;  /* in the queue of `cpu` since then; 0: still blocked. Without queue_times told by the wake-up */
	__u64 before; /* ns in other queues, before that */
	__u64 run_delay; /* as the kernel counts it, when it left the CPU */
	__u64 set_id; /* label set when it left the CPU */
	__u32 state;  /* enum wait_flag */
	__u32 place;  /* of its stack in `places`, counted from 1; 0: none */
	__u32 spot;
	__u32 cpu;    /* in whose queue it waits */
	__u32 row_off, row_runq; /* that its last waits were counted in */
	__u64 labels_until; /* set_id is not read again before, but for a wait that is likely to be long; 0: read it */
	__u32 exec_id;      /* of the image that it was read from */
	__u32 moved;        /* to another queue while it was blocked */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct waiting);
} waits SEC(".maps");

/* A stack while its thread waits. */
struct wait_place {
	__u32 owner; /* tid, 0: free */
	__u16 n_kernel, n_user;
	__u64 words[WAIT_WORDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PLACES);
	__type(key, __u32);
	__type(value, struct wait_place);
} places SEC(".maps");

/* How long the last waits were, in units of 1024 ns; 0: none yet. Written without care: it is a guess. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SPOTS);
	__type(key, __u32);
	__type(value, __u64);
} spots SEC(".maps");

struct run {
	__u64 begin, end; /* end 0: it runs */
	struct occupant who;
	__u32 tid;
	__u32 unseen; /* who had it is not sure: a switch was not told */
};

struct sched_cpu {
	struct row row; /* being built: too large for the stack */
	__u64 clock, boot; /* of the run queue, read together with CLOCK_BOOTTIME */
	struct image image; /* of who leaves: these three are too much for the stack on 6.1 */
	struct label_flags flags; /* of each sample: counted there */
	__u64 until; /* the end of the wait that is being divided */
	__u64 elsewhere; /* what of it was in other queues */
	__u64 slice, slice_short;
	__u32 may_take; /* stacks: one more in each slice */
	__u32 head;     /* runs[head % RUNS] is the newest */
	struct run runs[RUNS];
	struct {
		struct occupant who;
		__u32 at, active; /* in the arena of that half */
	} known[KNOWN];
};

/* By CPU; only its own CPU writes, others read what ran there. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* cfg.n_cpus */
	__type(key, __u32);
	__type(value, struct sched_cpu);
} sched_cpus SEC(".maps");

/* ---- the time ---- */

#define CLOCK_NEW (1ull << 20) /* ns */

/*
 * The clock of a run queue, which the scheduler read just before it tells us: a load instead of the 60 ns that reading the time again
 * takes. It counts as the CPU's counter does, which nobody corrects: so it is held against CLOCK_BOOTTIME every millisecond.
 */
static __always_inline __u64 queue_clock(struct task_struct *t)
{
	return cfg.queue_times ? t->se.cfs_rq->rq->clock : 0;
}

/* Now, in CLOCK_BOOTTIME; `clock` is that of this CPU's queue. */
static __always_inline __u64 queue_now(struct sched_cpu *sc, __u64 clock)
{
	__u64 since = clock - sc->clock;
	if (clock && since < CLOCK_NEW)
		return sc->boot + since;
	sc->clock = clock;
	sc->boot = bpf_ktime_get_boot_ns();
	return sc->boot;
}

/* How long it has been in the queue of this CPU, and in others before, since it left a CPU. */
static __always_inline void queued(struct waiting *w, struct task_struct *t, __u64 clock, __u64 now)
{
	if (!cfg.queue_times)
		return;
	__u64 at = t->sched_info.last_queued, before = t->sched_info.run_delay - w->run_delay;
	__u64 woken = at && at < clock ? now - (clock - at) : now;
	bool stale = w->moved || (w->state == WAITS_BLOCKED && woken + CLOCK_NEW < w->began);
	w->woken = stale ? now : woken;
	w->before = (__s64)before > 0 && !stale ? before : 0;
}

/* ---- stacks of those who wait ---- */

static __always_inline __u32 spot_of(struct task_struct *t)
{
	__u64 h = mix(0x73706f74, (__u32)t->tgid);
	if (t->flags & PF_KTHREAD) {
		h = mix(h, (__u32)t->pid);
	} else {
		struct pt_regs *regs = (void *)bpf_task_pt_regs(t);
		h = mix(mix(h, REGS_PC(regs)), REGS_SP(regs));
	}
	return (__u32)(h >> 32) & (SPOTS - 1);
}

/* Is the stack of a thread that leaves at this spot worth its time? */
static __always_inline bool take_stack(struct sched_cpu *sc, __u32 spot, __u64 now)
{
	__u64 *length = bpf_map_lookup_elem(&spots, &spot);
	if (!length)
		return false;
	if (*length && *length < cfg.wait_ns >> 10) {
		if (mix(now, spot) % SHORT_ONE_IN || sc->slice_short == now >> SHORT_SLICE_BITS)
			return false;
		sc->slice_short = now >> SHORT_SLICE_BITS;
	}
	__u64 slice = now >> SLICE_BITS, more = slice - sc->slice;
	sc->slice = slice;
	sc->may_take = more < TAKE_MAX && sc->may_take + more < TAKE_MAX ? sc->may_take + (__u32)more : TAKE_MAX;
	if (!sc->may_take)
		return false;
	sc->may_take--;
	return true;
}

static __always_inline void learn(__u32 spot, __u64 ns)
{
	__u64 *length = bpf_map_lookup_elem(&spots, &spot), v = (ns >> 10) + 1;
	if (length)
		*length = v > *length ? v : *length - *length / 32 + v / 32; /* forgets slowly: long ones count */
}

/* A free place for the stack of this thread, counted from 1; 0: none. */
static __always_inline __u32 place_find(__u32 tid, struct wait_place **ret)
{
	for (__u32 p = 0; p < PLACE_PROBES; p++) {
		__u32 i = (((tid * 0x9e3779b1u) >> 8) + p) & (PLACES - 1);
		struct wait_place *s = bpf_map_lookup_elem(&places, &i);
		if (s && !s->owner && !__sync_val_compare_and_swap(&s->owner, 0, tid)) {
			*ret = s;
			return i + 1;
		}
	}
	return 0;
}

/* The wait that the place was for was never looked at. */
static __always_inline void place_drop(__u32 place, __u32 tid)
{
	__u32 i = place - 1;
	struct wait_place *s = bpf_map_lookup_elem(&places, &i);
	if (s)
		__sync_val_compare_and_swap(&s->owner, tid, 0);
}

/* Keep the stack that stands at the tail of half `key`; where it is kept, 0 when there is no place. */
__noinline __u32 place_keep(__u32 key, __u32 tid, __u32 n_kernel, __u32 n_user)
{
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	struct wait_place *s = 0;
	if (!h)
		return 0;
	__u32 place = place_find(tid, &s);
	if (!place || !s) {
		count(h, COUNTER_wait_no_place);
		return 0;
	}
	if (n_kernel > WAIT_WORDS)
		n_kernel = WAIT_WORDS;
	if (n_user > WAIT_WORDS - n_kernel)
		n_user = WAIT_WORDS - n_kernel;
	__u64 n = n_kernel + n_user;
	barrier_var(n);
	if (n > WAIT_WORDS || bpf_probe_read_kernel(s->words, n * 8, arena_ptr(h, h->arena_used)))
		n_kernel = n_user = 0;
	s->n_kernel = (__u16)n_kernel;
	s->n_user = (__u16)n_user;
	return place;
}

/* The stack of a wait that is over, into the table of half `key`: *row names it then. The place is free again. */
__noinline int place_take(__u32 key, __u32 place, struct row *row)
{
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	__u32 i = place - 1;
	struct wait_place *s = bpf_map_lookup_elem(&places, &i);
	if (!h || !s || !row)
		return -1;
	__u32 n_kernel = s->n_kernel, n_user = s->n_user;
	__u64 *tail = arena_tail(h);
	__u64 n = n_kernel + n_user;
	barrier_var(n);
	int rc = -1 - COUNTER_stacks_full;
	if (tail && n <= WAIT_WORDS && !bpf_probe_read_kernel(tail, n * 8, s->words))
		rc = stack_intern(key, n_kernel, n_user, 0);
	__sync_lock_test_and_set(&s->owner, 0);
	if (rc < 0)
		return -1;
	row->stack = (__u32)rc;
	row->n_kernel = (__u16)n_kernel;
	row->n_user = (__u16)n_user;
	return 0;
}

/* ---- who had the CPU ---- */

/* Where the occupant stands in the arena of half `key`. */
__noinline __u32 occupant_at(__u32 key, __u32 active, struct sched_cpu *sc, const struct occupant *who)
{
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	if (!h || !sc || !who)
		return OCCUPANT_OTHER;
	__u64 k = (who->tgid ^ (who->set_id >> 32)) & (KNOWN - 1), differ = 0;
	barrier_var(k);
	if (k >= KNOWN)
		return OCCUPANT_OTHER;
	const __u64 *a = (const void *)who;
	__u64 *b = (void *)&sc->known[k].who;
#pragma unroll
	for (int i = 0; i < OCCUPANT_WORDS; i++)
		differ |= a[i] ^ b[i];
	if (!differ && sc->known[k].active == active)
		return sc->known[k].at;
	__u64 *tail = arena_tail(h);
	if (!tail)
		return OCCUPANT_OTHER;
#pragma unroll
	for (int i = 0; i < OCCUPANT_WORDS; i++)
		tail[i] = a[i];
	int at = stack_intern(key, OCCUPANT_WORDS, 0, 0);
	if (at < 0)
		return OCCUPANT_OTHER;
#pragma unroll
	for (int i = 0; i < OCCUPANT_WORDS; i++)
		b[i] = a[i];
	sc->known[k].at = (__u32)at;
	sc->known[k].active = active;
	return (__u32)at;
}

/* The part of [from, to) in which the i-th newest run of a CPU had it; *ret_who is who. */
static __always_inline __u64 run_part(struct sched_cpu *on, __u32 i, __u64 from, __u64 to, struct run **ret)
{
	__u64 at = (on->head - i) & (RUNS - 1);
	barrier_var(at);
	struct run *r = &on->runs[at & (RUNS - 1)];
	__u64 begin = r->begin, end = r->end;
	*ret = r;
	if (!begin)
		return 0;
	if (!end || end > to)
		end = to;
	if (begin < from)
		begin = from;
	return end > begin ? end - begin : 0;
}

static __always_inline __u32 run_who(__u32 key, __u32 active, struct sched_cpu *sc, struct run *r)
{
	if (r->unseen)
		return OCCUPANT_OTHER;
	return r->who.tgid ? occupant_at(key, active, sc, &r->who) : OCCUPANT_IDLE;
}

/*
 * What the i-th newest run of CPU `cpu` had of the wait from `from` to sc->until, at most `left`, in a row of its own. 0: nothing.
 * A function of its own: clang 19's loop is too much for the verifier otherwise.
 */
__noinline __u64 blame_run(__u32 key, __u32 cpu, __u32 i, __u64 from, __u64 left)
{
	__u32 me = key / 2;
	struct cpu_state *c = bpf_map_lookup_elem(&cpu_states, &me);
	struct sched_cpu *sc = bpf_map_lookup_elem(&sched_cpus, &me);
	struct sched_cpu *on = bpf_map_lookup_elem(&sched_cpus, &cpu);
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	struct run *r;
	if (!c || !sc || !on || !h)
		return 0;
	__u64 part = run_part(on, i, from, sc->until, &r);
	if (!part)
		return 0;
	part = part < left ? part : left; /* another CPU may be writing what we read */
	sc->row.stack = run_who(key, c->active, sc, r);
	sc->row.value = part;
	if (row_add(key, &sc->row) < 0)
		count(h, COUNTER_wait_rows_full);
	return part;
}

/*
 * The wait [from, to) in the queue of CPU `cpu`, to those who had that CPU, one row each; what is left, and sc->elsewhere, to OCCUPANT_OTHER. The row is
 * sc->row, which is what it was again at the end.
 */
__noinline int blame(__u32 key, __u32 cpu, __u64 from, __u64 to)
{
	__u32 me = key / 2;
	struct sched_cpu *sc = bpf_map_lookup_elem(&sched_cpus, &me);
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	if (!sc || !h)
		return 0;
	__u64 left = to - from;
	sc->row.kind = ROW_BLAME;
	sc->row.n_kernel = 0;
	sc->until = to;
	__u32 missed = 0;
	for (__u32 i = 0; i < RUNS && left && missed < 2; i++) {
		__u64 part = blame_run(key, cpu, i, from, left);
		left -= part;
		missed += !part; /* it ended before the wait began, or had no length */
	}
	left += sc->elsewhere;
	sc->row.stack = OCCUPANT_OTHER;
	sc->row.value = left;
	if (left && row_add(key, &sc->row) < 0)
		count(h, COUNTER_wait_rows_full);
	return 0;
}

/*
 * The usual case of blame(), at a fraction of its cost: who had this CPU until now had it since `from`, and his place in the arena
 * is remembered. OCCUPANT_OTHER: it is not that case.
 */
static __always_inline __u32 last_occupant(struct sched_cpu *sc, __u32 active, __u64 from)
{
	__u64 at = sc->head & (RUNS - 1);
	barrier_var(at);
	struct run *r = &sc->runs[at & (RUNS - 1)];
	if (!r->begin || r->begin > from || r->unseen)
		return OCCUPANT_OTHER;
	if (!r->who.tgid)
		return OCCUPANT_IDLE;
	__u64 k = (r->who.tgid ^ (r->who.set_id >> 32)) & (KNOWN - 1), differ = sc->known[k & (KNOWN - 1)].active ^ active;
	const __u64 *a = (const void *)&r->who, *b = (const void *)&sc->known[k & (KNOWN - 1)].who;
#pragma unroll
	for (int i = 0; i < OCCUPANT_WORDS; i++)
		differ |= a[i] ^ b[i];
	return differ ? OCCUPANT_OTHER : sc->known[k & (KNOWN - 1)].at;
}

/* ---- a wait that is over ---- */

#define LENGTH_UNKNOWN ~0ull

/* One wait of an event, in a row by its length. `full`: the length, of which `ns` were not told before. */
static __always_inline void add_length(struct half *h, __u32 key, struct sched_cpu *sc, __u32 event, __u64 ns, __u64 full,
				       __u32 flags, bool summed, __u32 *hint)
{
	struct row *row = &sc->row;
	row->kind = ROW_WAIT;
	row->event = (__u8)event;
	row->n_kernel = (__u16)hist_bucket_index(WAIT_HIST_BITS, full);
	row->n_user = (__u16)(flags | (full == LENGTH_UNKNOWN ? WAIT_NO_HIST : 0) | (summed ? WAIT_SUMMED : 0));
	row->value = ns;
	event &= MAX_EVENTS - 1;
	barrier_var(event);
	if (summed) {
		h->ran[event]++;
		count(h, COUNTER_wait_summed);
	}
	if (row_add_hint(h, key, row, hint) < 0)
		count(h, summed ? COUNTER_rows_full : COUNTER_wait_rows_full);
}

/* The same with its stack, which *row names. */
static __always_inline void add_stacked(struct half *h, __u32 key, struct row *row, __u32 event, __u64 ns)
{
	row->event = (__u8)event;
	row->value = ns;
	event &= MAX_EVENTS - 1;
	barrier_var(event);
	h->ran[event]++;
	if (row_add(key, row) < 0)
		count(h, COUNTER_rows_full);
}

/* The row of sc says who; w what it waited for, from `since` to `now`. */
__noinline int wait_over(__u32 key, __u32 active, struct waiting *w, __u64 since, __u64 now)
{
	__u32 me = key / 2;
	struct sched_cpu *sc = bpf_map_lookup_elem(&sched_cpus, &me);
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	if (!sc || !h || !w)
		return 0;
	struct row *row = &sc->row;
	__u64 began = w->began, woken = w->woken, before = w->before;
	if (now < since)
		now = since;
	bool blocked = w->state & WAITS_BLOCKED;
	__u64 all = now - since, here = woken && woken < now ? now - woken : 0;
	if (!blocked && !here) /* preempted, and not known where it was since then */
		here = all;
	__u64 runq_full = blocked ? here + before : began ? now - began : LENGTH_UNKNOWN;
	__u64 runq = blocked && runq_full < all ? runq_full : all;
	__u64 off = all - runq, off_full = blocked && began && now - runq_full > began ? now - runq_full - began : LENGTH_UNKNOWN;
	if (here > runq)
		here = runq;
	__u32 flags = row->kind == ROW_KTHREAD ? WAIT_KTHREAD : 0;
	bool stacked = false;

	learn(w->spot, all);
	if (w->place && !place_take(key, w->place, row)) {
		stacked = true;
		if (off)
			add_stacked(h, key, row, cfg.event_off, off);
		if (runq)
			add_stacked(h, key, row, cfg.event_runq, runq);
	}
	row->stack = OCCUPANT_OTHER;
	if (off)
		add_length(h, key, sc, cfg.event_off, off, off_full, flags | WAIT_NO_BLAME, !stacked, &w->row_off);
	if (!runq) { /* it ran at once: one of its lengths, too */
		if (blocked)
			add_length(h, key, sc, cfg.event_runq, 0, 0, flags | WAIT_NO_BLAME, false, &w->row_runq);
		return 0;
	}
	row->event = (__u8)cfg.event_runq;
	row->n_user = (__u16)flags;
	row->stack = w->cpu == me && here == runq ? last_occupant(sc, active, now - runq) : OCCUPANT_OTHER;
	if (row->stack == OCCUPANT_OTHER) {
		sc->elsewhere = runq - here;
		blame(key, w->cpu, now - here, now);
		row->stack = OCCUPANT_OTHER;
		flags |= WAIT_NO_BLAME;
	}
	add_length(h, key, sc, cfg.event_runq, runq, runq_full, flags, !stacked, &w->row_runq);
	return 0;
}

/* ---- the scheduler ---- */

static __always_inline void identify(struct task_struct *t, struct row *row)
{
	row->start_ns = t->group_leader->start_boottime;
	row->exec_id = (__u32)t->self_exec_id;
	row->tgid = (__u32)t->tgid;
	row->tid = (__u32)t->pid;
	row->cgroup = t->cgroups->dfl_cgrp->kn->id;
	const __u64 *comm = (const void *)&t->comm;
	row->comm[0] = comm[0];
	row->comm[1] = comm[1];
	row->kind = t->flags & PF_KTHREAD ? ROW_KTHREAD : ROW_TASK;
}

/*
 * The label set of the current thread, which leaves. A process that is not known yet is asked about only by the way of a stack: there may
 * be thousands a second. Reading memory of a process costs 80 ns for each piece: where the wait is likely to be short, what was read
 * within wait_ns before is good enough. Nobody knows how long one will wait who was preempted: of them an eighth of that.
 */
static __always_inline void leave_labels(struct waiting *w, struct sched_cpu *sc, bool take, __u64 now)
{
	struct proc_entry *known = proc_find(&sc->image);
	bool none = known && !known->n_slots && !known->n_sources;
	w->set_id = none ? 0 : known || take ? read_labels(&sc->image, &sc->flags) : 0;
	w->labels_until = known ? now + (w->set_id ? cfg.wait_ns : cfg.wait_ns / 8) : 0;
	w->exec_id = sc->image.exec_id;
}

/* The current thread leaves the CPU. */
static __always_inline void leave(void *ctx, struct task_struct *t, bool preempted, struct half *h, __u32 key, __u32 active,
				  struct sched_cpu *sc, struct run *run, __u64 now)
{
	struct waiting *w = bpf_task_storage_get(&waits, t, 0, 0);
	__u32 state = t->__state;
	if (!w) {
		h->ran[cfg.event_off & (MAX_EVENTS - 1)]++;
		count(h, COUNTER_wait_untracked);
		return;
	}
	/* It came without our having been told (some kernels hide what init does): its wait ended at the last switch that was. */
	__u64 since = __sync_lock_test_and_set(&w->since, 0);
	if (since && run->begin) {
		if (cfg.queue_times) {
			w->woken = 0;
			w->before = t->sched_info.run_delay - w->run_delay;
		}
		identify(t, &sc->row);
		sc->row.set_id = w->set_id;
		sc->row.last_ns = now;
		wait_over(key, active, w, since, run->begin);
		w->place = 0;
	}
	if (w->place)
		place_drop(w->place, (__u32)t->pid);
	w->place = 0;
	if ((state & TASK_DEAD) || (cfg.selection != SELECTION_NONE && !is_selected((__u32)t->tgid, (__u32)t->pid)))
		return;
	bool kthread = t->flags & PF_KTHREAD;
	struct image *im = &sc->image;
	im->tgid = (__u32)t->tgid;
	im->start_ns = t->group_leader->start_boottime;
	im->exec_id = (__u32)t->self_exec_id;
	w->spot = spot_of(t);
	bool take = take_stack(sc, w->spot, now);
	if (kthread)
		w->set_id = 0;
	else if (take || now + (preempted ? cfg.wait_ns / 8 * 7 : 0) >= w->labels_until || w->exec_id != im->exec_id)
		leave_labels(w, sc, take, now);
	run->who.set_id = w->set_id;
	if (take) {
		struct stack_lengths len;
		__u64 *tail = arena_tail(h);
		if (tail) {
			unwind(ctx, t, im, false, kthread, h, key, tail, &len);
			w->place = place_keep(key, (__u32)t->pid, len.n_kernel, len.n_user);
		}
	}
	w->woken = 0;
	w->before = 0;
	w->moved = 0;
	if (cfg.queue_times)
		w->run_delay = t->sched_info.run_delay;
	w->cpu = key / 2;
	w->state = preempted || !state ? WAITS_RUNNABLE : WAITS_BLOCKED;
	w->began = now;
	w->since = now;
}

/* Another thread enters it. */
static __always_inline void enter(struct task_struct *t, __u32 key, __u32 active, struct sched_cpu *sc, __u64 clock, __u64 now)
{
	struct row *row = &sc->row;
	__u64 set_id = 0, since = 0;
	identify(t, row);
	if (row->tid) {
		struct waiting *w = bpf_task_storage_get(&waits, t, 0, 0);
		if (w) {
			set_id = w->set_id;
			since = __sync_lock_test_and_set(&w->since, 0);
		}
		if (w && since) {
			row->set_id = set_id;
			row->last_ns = now;
			queued(w, t, clock, now);
			if (cfg.queue_times)
				w->cpu = key / 2;
			wait_over(key, active, w, since, now);
			w->place = 0;
		}
	}
	__u64 at = ++sc->head & (RUNS - 1);
	barrier_var(at);
	struct run *r = &sc->runs[at & (RUNS - 1)];
	r->end = 0;
	r->begin = now;
	r->tid = row->tid;
	r->unseen = 0;
	r->who.start_ns = row->start_ns;
	r->who.set_id = set_id;
	r->who.cgroup = row->cgroup;
	r->who.comm[0] = row->comm[0];
	r->who.comm[1] = row->comm[1];
	r->who.tgid = row->tgid;
	r->who.exec_id = row->exec_id;
}

static __always_inline void switched(void *ctx, bool preempted, struct task_struct *prev, struct task_struct *next)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_state *c = bpf_map_lookup_elem(&cpu_states, &cpu);
	struct sched_cpu *sc = bpf_map_lookup_elem(&sched_cpus, &cpu);
	if (cpu >= cfg.n_cpus || !c || !sc)
		return;
	__sync_fetch_and_add(&c->seq, 1); /* see sample() */
	__u32 active = *(volatile __u32 *)&c->active, key = cpu * 2 + (active & 1);
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	if (h) {
		__u64 clock = queue_clock(prev), now = queue_now(sc, clock), at = sc->head & (RUNS - 1);
		barrier_var(at);
		struct run *run = &sc->runs[at & (RUNS - 1)];
		run->end = now;
		run->unseen = run->tid != (__u32)prev->pid;
		if (prev->pid)
			leave(ctx, prev, preempted, h, key, active, sc, run, now);
		enter(next, key, active, sc, clock, now);
		ask_for_drain(h);
	}
	__sync_fetch_and_add(&c->seq, 1);
}

SEC("tp_btf/sched_switch")
int on_switch(__u64 *ctx)
{
	switched(ctx, ctx[0] & 1, (void *)ctx[1], (void *)ctx[2]);
	return 0;
}

/* Without queue_times. */
SEC("tp_btf/sched_wakeup")
int on_wakeup(__u64 *ctx)
{
	struct task_struct *t = (void *)ctx[0];
	struct waiting *w = bpf_task_storage_get(&waits, t, 0, 0);
	if (!w || !w->since || w->woken || w->state != WAITS_BLOCKED)
		return 0;
	w->cpu = (__u32)t->wake_cpu;
	w->woken = bpf_ktime_get_boot_ns();
	return 0;
}

/*
 * With queue_times, since 6.12: when a thread that is blocked is moved to another queue, the kernel notes that time, and keeps it though the
 * thread is woken later. Then nothing is known of its time in the queue. Rare.
 */
SEC("tp_btf/sched_migrate_task")
int on_migrate(__u64 *ctx)
{
	struct task_struct *t = (void *)ctx[0];
	if (!bpf_core_field_exists(struct sched_entity, sched_delayed) || !t->se.sched_delayed)
		return 0;
	struct waiting *w = bpf_task_storage_get(&waits, t, 0, 0);
	if (w)
		w->moved = 1;
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int on_wakeup_new(__u64 *ctx)
{
	struct task_struct *t = (void *)ctx[0];
	struct waiting *w = bpf_task_storage_get(&waits, t, 0, 0);
	if (!w || (cfg.selection != SELECTION_NONE && !is_selected((__u32)t->tgid, (__u32)t->pid)))
		return 0;
	w->place = 0;
	w->set_id = 0;
	w->cpu = (__u32)t->wake_cpu;
	w->state = WAITS_RUNNABLE;
	w->run_delay = 0;
	w->before = 0;
	w->moved = 0;
	w->woken = w->began = w->since = bpf_ktime_get_boot_ns();
	return 0;
}

/* In its parent, where memory can be had. */
SEC("tp_btf/sched_process_fork")
int on_thread(__u64 *ctx)
{
	bpf_task_storage_get(&waits, (struct task_struct *)ctx[1], 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	return 0;
}

/* ---- all threads: at the beginning, and for those whose wait outlasts a window ---- */

/* Those that wait when recording begins wait since then. */
bool waits_begin;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wire_wait);
} waits_out SEC(".maps");

static __always_inline void wait_begin(struct task_struct *t, __u64 now)
{
	struct wait_place *s = 0;
	struct waiting *w = bpf_task_storage_get(&waits, t, 0, 0);
	__u32 state = t->__state;
	if (w)
		return;
	w = bpf_task_storage_get(&waits, t, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!w || !state || (state & TASK_DEAD) || !t->pid)
		return;
	if (cfg.selection == SELECTION_CGROUP ||
	    (cfg.selection != SELECTION_NONE && !is_selected((__u32)t->tgid, (__u32)t->pid)))
		return;
	w->place = place_find((__u32)t->pid, &s);
	if (s) {
		long n = bpf_get_task_stack(t, s->words, WAIT_WORDS * 8, 0);
		s->n_kernel = n > 0 ? (__u16)((__u64)n / 8) : 0;
		s->n_user = 0;
	}
	w->state = WAITS_BLOCKED;
	if (cfg.queue_times) {
		w->run_delay = t->sched_info.run_delay;
		w->moved = t->sched_info.last_queued != 0;
	}
	w->began = 0;
	w->since = now;
}

static __always_inline void wait_put(struct seq_file *seq, struct wire_wait *o, __u64 n, __u32 event, __u64 ns)
{
	o->row.event = (__u8)event;
	o->row.value = ns;
	n = sizeof(o->row) + n * 8;
	barrier_var(n);
	if (ns && n <= sizeof(*o))
		bpf_seq_write(seq, o, n);
}

/* Since when the thread of a wait that goes on has been in a queue; 0: it is blocked. */
static __always_inline __u64 tell_woken(struct waiting *w, struct task_struct *t, __u64 now)
{
	if (!cfg.queue_times)
		return w->woken;
	__u64 at = t->sched_info.last_queued, before = t->sched_info.run_delay - w->run_delay;
	__u32 cpu = (__u32)t->wake_cpu;
	struct sched_cpu *sc = bpf_map_lookup_elem(&sched_cpus, &cpu);
	if (!at || !sc || t->__state || w->moved)
		return 0;
	at += sc->boot - sc->clock;
	if ((__s64)before > 0)
		at -= before;
	return at < now ? at : now;
}

/* What is new of a wait that goes on. */
static __always_inline void wait_tell(struct seq_file *seq, struct task_struct *t, __u64 now)
{
	__u32 zero = 0;
	struct wire_wait *o = bpf_map_lookup_elem(&waits_out, &zero);
	struct waiting *w = bpf_task_storage_get(&waits, t, 0, 0);
	if (!o || !w)
		return;
	__u64 since = *(volatile __u64 *)&w->since, woken = tell_woken(w, t, now), n = 0;
	bool blocked = w->state & WAITS_BLOCKED;
	if (!since || now <= since)
		return;
	identify(t, &o->row);
	o->row.set_id = w->set_id;
	o->row.last_ns = now;
	o->row.first_ns = since;
	o->row.samples = 1;
	o->row.stack = 0;
	o->row.n_kernel = o->row.n_user = 0;
	__u32 place = w->place, i = place - 1;
	struct wait_place *s = place ? bpf_map_lookup_elem(&places, &i) : 0;
	if (s) {
		o->row.n_kernel = s->n_kernel;
		o->row.n_user = s->n_user;
		n = o->row.n_kernel + o->row.n_user;
		barrier_var(n);
		if (n > WAIT_WORDS || bpf_probe_read_kernel(o->words, n * 8, s->words))
			n = 0;
	}
	/* The thread may have gone on, and its place be another's: then what was read is not told. */
	if (__sync_val_compare_and_swap(&w->since, since, now) != since)
		return;
	__u64 queued = !blocked ? since : woken ? woken : now;
	if (queued < since)
		queued = since;
	if (queued > now)
		queued = now;
	wait_put(seq, o, n, cfg.event_off, queued - since);
	wait_put(seq, o, n, cfg.event_runq, now - queued);
}

SEC("iter/task")
int on_threads(struct bpf_iter__task *ctx)
{
	struct task_struct *t = ctx->task;
	if (!t)
		return 0;
	if (waits_begin)
		wait_begin(t, bpf_ktime_get_boot_ns());
	else
		wait_tell(ctx->meta->seq, t, bpf_ktime_get_boot_ns());
	return 0;
}

#endif

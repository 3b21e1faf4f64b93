/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where threads wait: blocked (event off-cpu, from leaving the CPU to the wake-up) and for a CPU (event runq, from the wake-up, or from
 * being preempted, to running), in nanoseconds, exactly, of every wait; and who had the CPU meanwhile.
 *
 *            leave: since, label set, stack                                  leave: the wait before
 *   running ------------------------------> blocked --> queue --> running ------------------------> ...
 *
 * All is done when a thread leaves its CPU, also for what it waited for before it came: the kernel has noted when it came, and how long it had
 * been in queues until then (sched_info, with CONFIG_SCHED_INFO). So a switch looks at one thread, and wake-ups are not watched: each tracepoint
 * with a program costs 100 ns before the program does anything. Where the kernel notes nothing of it, both are.
 *
 * What is known of a thread is in its task storage, made when the thread is (never here, where a run queue is locked). Waits without a stack
 * are summed there, and by who had the CPU meanwhile, and so is how many waits were how long. That goes into rows when the thread's labels or
 * name change, when it ends, or a second after the first; the iterator over all threads tells what is left when a window ends.
 *
 * A stack is taken when the thread leaves, for that is when its memory can be read, and kept in a place of its own until the wait is
 * over. Stacks are what is costly, so they are taken where the wait will be long: `spots` remembers how long the last waits of
 * each program counter and stack pointer were; of those that were short one in SHORT_ONE_IN has its stack taken all the same, one in 17 ms. A CPU
 * takes one in a millisecond, and up to TAKE_MAX at once that it did not take before.
 *
 * Runs with interrupts off; whatever touches a half stands between two increments of cpu_state.seq, as a sample does, which it therefore never
 * meets.
 */
#ifndef ASCRIBE_SCHED_BPF_H
#define ASCRIBE_SCHED_BPF_H

#include "common.bpf.h"
#include "hist_bucket.h"
#include "labels.bpf.h"
#include "python.bpf.h"
#include "select.bpf.h"
#include "table.bpf.h"
#include "unwind.bpf.h"

#define unlikely(x) __builtin_expect(!!(x), 0) /* moves what follows out of the way: a switch finds the caches cold */

#define TASK_DEAD 0x80 /* include/linux/sched.h */
#define SPOTS 16384
#define SHORT_ONE_IN 512
#define SHORT_SLICE_BITS 24 /* ns: one of them in 17 ms */
#define SLICE_BITS 20 /* ns: 1.05 ms */
#define TAKE_MAX 64 /* that were not taken before */
#define LONG_WAITS 16  /* cfg.wait_ns: from there on a wait is long; up to there, if it is not short, it is of the middle */
#define MIDDLE_SLICE_BITS 21 /* ns: one of them in 2.1 ms */
#define RUNS 2048 /* of each CPU that are remembered: on a busy host a wait of 0.2 s has a thousand of them */
#define KNOWN 8  /* occupants whose place in the arena is remembered */
#define PLACES 8192
#define PLACE_PROBES 8
#define STORAGE_TRIES 16
#define TALLIES_BY 8
#define TALLY_RUNQ 0x100 /* beside WAIT_* */
#define TALLY_NO_LENGTH 0x200 /* a part of a wait that is not over, or began before we looked */
#define LENGTH_FIRST 48 /* a bucket: waits of 256 ns */
#define LENGTHS 106     /* buckets that are counted with the thread, up to 2 ms: of longer waits there are few */
#define TALLY_NS (1ull << 30) /* 1.07 s: then they go into rows */

enum wait_flag {
	WAITS_BLOCKED = 1,
	WAITS_RUNNABLE = 2, /* preempted, or just made */
};

/* Waits that are over and in no row yet; without a stack. */
struct tally {
	__u64 n, ns;
};

/* For whom they waited. */
struct tally_by {
	struct occupant who; /* without a tgid: nobody, start_ns is one of OCCUPANT_* */
	__u64 ns;
	__u64 n;
};

/*
 * One thread. All times are of CLOCK_BOOTTIME, which never steps.
 *
 * Its tallies are those of `who`: before that changes they go into rows. Written by the CPU that it enters or leaves; only while it
 * waits (`since`), and `held` is set, by the iterator.
 *
 * Ordered by cache lines of 64 bytes, of which a switch finds most cold: the kernel puts 8 bytes before it.
 */
struct waiting {
	__u64 since;  /* waits from then on; 0: it runs, or nothing is known. Who takes a wait swaps it */
	__u64 began;  /* the same without what was told before the wait was over; 0: before we looked */
	__u64 run_delay, pcount, ran; /* as the kernel counts them (sched_info, se), when it left the CPU */
	__u64 before; /* ns in other queues than the last, since then */
	__u64 known_until; /* name, cgroup and label set are not looked at again before, but for a wait that is likely to be long */

	struct occupant who; /* as it left the CPU */
	__u64 tallied;      /* the first wait of the tallies; 0: none */
	__u32 tid;
	__u32 spot;

	struct tally tally[2]; /* blocked, and for a CPU */
	__u64 last_ns;      /* the last one */
	__u32 state;  /* enum wait_flag */
	__u32 place;  /* of its stack in `places`, counted from 1; 0: none */
	__u32 quick;  /* waits at this spot were short */
	__u32 kthread;
	__u32 moved;        /* to another queue while it was blocked */
	__u32 held;

	/* Without queue_times: when it was woken, 0: still blocked; when it came to the CPU; in whose queue it waits. */
	__u64 woken, arrived;
	__u32 cpu;
	__u32 reserved;
	__u16 length[2][LENGTHS]; /* how many of its waits, also those with a stack, were of each length; see length_at() */

	struct tally_by by[TALLIES_BY];
};

#define LINE_OF(member) ((__builtin_offsetof(struct waiting, member) + 8) % 64)
_Static_assert(!LINE_OF(who) && !LINE_OF(tally) && !LINE_OF(woken) && !LINE_OF(by) && sizeof(struct tally_by) == 64, "cache lines");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct waiting);
} waits SEC(".maps");

/* A stack while its thread waits. */
struct wait_place {
	__u32 owner; /* tid, 0: free */
	__u8 n_kernel, n_user, n_python;
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
	__u64 begin, end;
	struct occupant who;
};

/* Stacks that may be taken, see may_take(). */
struct taking {
	__u64 slice, slice_middle; /* the last one, and the last one of the middle */
	__u32 left;
	__u32 reserved;
};

struct sched_cpu {
	__u64 clock, boot; /* of the run queue, read together with CLOCK_BOOTTIME */
	__u64 slice_short;
	struct taking taking;
	__u32 head;     /* runs[head % RUNS] is the newest */
	__u32 active;  /* of cpu_state, inside */
	__u32 kthread; /* WAIT_KTHREAD, of the row */
	__u32 reserved;
	struct run runs[RUNS]; /* a cache line each */
	__u64 from, until; /* the wait that is being divided */
	struct occupant other; /* nobody known */
	struct row row; /* being built: too large for the stack */
	struct image image; /* of who leaves: these three are too much for the stack on 6.1 */
	struct label_flags flags; /* of each sample: counted there */
	struct {
		struct occupant who;
		__u32 at, active; /* in the arena of that half */
	} known[KNOWN];
	/* waker.bpf.h */
	struct taking waker_taking;
	struct occupant waker; /* copied */
} __attribute__((aligned(64)));

_Static_assert(__builtin_offsetof(struct sched_cpu, runs) == 64, "cache lines");

/* By CPU; only its own CPU writes, others read what ran there. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE); /* only so that it begins with a page, and so a cache line */
	__uint(max_entries, 1); /* cfg.n_cpus */
	__type(key, __u32);
	__type(value, struct sched_cpu);
} sched_cpus SEC(".maps");

/* Waits that found no row: how many were how long, and all of them together; of a half, as those of `halves`. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 2); /* cfg.n_cpus * 2 */
	__type(key, __u32);
	__type(value, struct wait_others);
} wait_others SEC(".maps");

/* CLOCK_BOOTTIME: what is before the one, or after the other, is not of this recording. Attaching takes a while, detaching too. */
volatile __u64 waits_from = ~0ull, waits_until = ~0ull;

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
	if (unlikely(!clock || since >= CLOCK_NEW)) {
		sc->clock = clock;
		sc->boot = bpf_ktime_get_boot_ns();
		return sc->boot;
	}
	return sc->boot + since;
}

#define CAME_NEAR 20000 /* ns: two ways to the same instant differ by less */

/* Since when the current thread has had this CPU; `last` had it before. */
static __always_inline __u64 arrival(const struct waiting *w, struct task_struct *t, const struct run *last, __u64 clock, __u64 now)
{
	__u64 at = cfg.queue_times ? t->sched_info.last_arrival : 0, came = cfg.queue_times ? now - (clock - at) : w->arrived;
	if (came - last->end + CAME_NEAR < 2 * CAME_NEAR)
		came = last->end;
	return came < now ? came : now;
}

/*
 * How long it was in the queue of the CPU that it came to at `came`: *ret_before in others before. The kernel counts that; it notes nothing of who
 * runs at once.
 */
static __always_inline __u64 queued(const struct waiting *w, struct task_struct *t, __u64 came, __u64 *ret_before)
{
	*ret_before = 0;
	if (!cfg.queue_times)
		return w->woken && w->woken < came ? came - w->woken : 0;
	__u64 all = t->sched_info.run_delay - w->run_delay;
	if ((__s64)all < 0 || w->moved || (w->began && all > came - w->began + CLOCK_NEW))
		return 0;
	__u64 before = w->before < all ? w->before : all;
	*ret_before = before;
	return all - before;
}

/* How long it ran without our having been told (some kernels hide what init does). */
static __always_inline __u64 unseen(const struct waiting *w, struct task_struct *t, __u64 came, __u64 now)
{
	if (!cfg.queue_times || t->sched_info.pcount - w->pcount <= 1)
		return 0;
	__u64 ran = t->se.sum_exec_runtime - w->ran, last = now - came;
	return ran > last && (__s64)ran > 0 ? ran - last : 0;
}

/* ---- stacks of those who wait ---- */

/* Who is preempted waits for others, wherever that is: all of a process is one spot. */
static __always_inline __u32 spot_of(struct task_struct *t, bool blocked)
{
	__u64 h = (__u32)t->tgid * 2 + blocked;
	if (t->flags & PF_KTHREAD) {
		h ^= (__u64)(__u32)t->pid << 32;
	} else if (blocked) {
		struct pt_regs *regs = (void *)bpf_task_pt_regs(t);
		h = mix(h ^ REGS_SP(regs) << 20, REGS_PC(regs));
	}
	return (__u32)(mix(0x73706f74, h) >> 32) & (SPOTS - 1);
}

/*
 * One more in each slice, up to TAKE_MAX at once. Waits that are long, and those of which nothing is known (ns: 0), have the first right to half of
 * that: a busy host has thousands a second of some milliseconds, which would use up everything.
 */
static __always_inline bool may_take(struct taking *k, __u64 ns, __u64 now)
{
	__u64 slice = now >> SLICE_BITS, more = slice - k->slice;
	k->slice = slice;
	k->left = more < TAKE_MAX && k->left + more < TAKE_MAX ? k->left + (__u32)more : TAKE_MAX;
	if (ns && ns < LONG_WAITS * cfg.wait_ns) {
		if (k->left < TAKE_MAX / 2 && k->slice_middle == now >> MIDDLE_SLICE_BITS)
			return false;
		k->slice_middle = now >> MIDDLE_SLICE_BITS;
	}
	if (!k->left)
		return false;
	k->left--;
	return true;
}

/* Is the stack of a thread that leaves at this spot worth its time? */
static __always_inline bool take_stack(struct sched_cpu *sc, struct waiting *w, __u32 spot, __u64 now)
{
	__u64 expected = 0;
	if (w->spot != spot || !w->quick) {
		__u64 *length = bpf_map_lookup_elem(&spots, &spot);
		expected = length ? *length << 10 : 0;
		w->spot = spot;
		w->quick = expected && expected < cfg.wait_ns;
	}
	if (w->quick) {
		if (!unlikely(mix(now, spot) % SHORT_ONE_IN == 0) || sc->slice_short == now >> SHORT_SLICE_BITS)
			return false;
		sc->slice_short = now >> SHORT_SLICE_BITS;
		expected = 0;
	}
	return may_take(&sc->taking, expected, now);
}

static __always_inline void learn(__u32 spot, __u64 ns)
{
	__u64 *length = bpf_map_lookup_elem(&spots, &spot), v = (ns >> 10) + 1;
	if (!length)
		return;
	__u64 known = *length ? *length : v;
	*length = v > known ? known + (v - known) / 2 : known - (known - v) / 8; /* forgets slowly: long ones count */
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
__noinline __u32 place_keep(__u32 key, __u32 tid, __u32 n_kernel, __u32 n_user, __u32 n_python)
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
	if (n_python > WAIT_WORDS - n_kernel - n_user)
		n_python = WAIT_WORDS - n_kernel - n_user;
	__u64 n = n_kernel + n_user + n_python;
	barrier_var(n);
	if (n > WAIT_WORDS || bpf_probe_read_kernel(s->words, n * 8, arena_ptr(h, h->arena_used)))
		n_kernel = n_user = n_python = 0;
	s->n_kernel = (__u8)n_kernel;
	s->n_user = (__u8)n_user;
	s->n_python = (__u8)n_python;
	return place;
}

/*
 * The stack that is kept in `place` into the table of half `key`, behind the words of `who` where that is somebody: *row names it then. The place is
 * free again.
 */
__noinline int place_take(__u32 key, __u32 place, const struct occupant *who, struct row *row)
{
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	__u32 i = place - 1;
	struct wait_place *s = bpf_map_lookup_elem(&places, &i);
	if (!h || !s || !row)
		return -1;
	__u32 n_kernel = s->n_kernel, n_user = s->n_user, n_python = s->n_python, before = who ? OCCUPANT_WORDS : 0;
	__u64 *tail = arena_tail(h), n = n_kernel + n_user + n_python;
	barrier_var(n);
	int rc = -1;
	if (tail && n <= WAIT_WORDS && !bpf_probe_read_kernel(tail + before, n * 8, s->words)) {
		const __u64 *word = (const void *)who;
#pragma unroll
		for (int k = 0; who && k < OCCUPANT_WORDS; k++)
			tail[k] = word[k];
		rc = stack_intern(key, before + n_kernel, n_user, n_python);
	}
	__sync_lock_test_and_set(&s->owner, 0);
	if (rc < 0)
		return -1;
	row->stack = (__u32)rc;
	row->n_kernel = (__u16)n_kernel;
	row->n_user = (__u16)n_user;
	row->n_python = (__u16)n_python; /* 0 in all other rows: to be set back */
	return 0;
}

/* ---- rows: between the two increments of cpu_state.seq, see sample() ---- */

static __always_inline __u32 inside(struct cpu_state *c, struct sched_cpu *sc, __u32 cpu)
{
	cpu_state_step(c);
	sc->active = *(volatile __u32 *)&c->active;
	return cpu * 2 + (sc->active & 1);
}

static __always_inline void outside(struct cpu_state *c)
{
	cpu_state_step(c);
}

/* Whose waits they are, and the last of them. */
static __always_inline void row_whose(struct row *row, const struct waiting *w)
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

/* The row of sc, of the waits of this thread. */
static __always_inline struct row *row_of(struct sched_cpu *sc, const struct waiting *w)
{
	row_whose(&sc->row, w);
	sc->kthread = w->kthread ? WAIT_KTHREAD : 0;
	return &sc->row;
}

static __always_inline void count_waits(struct half *h, __u64 event, __u64 n)
{
	event &= MAX_EVENTS - 1;
	barrier_var(event);
	h->ran[event] += n;
}

/* n waits into a row: with WAIT_SUMMED `ns` together, which no other row has, so that they count as samples; otherwise of one length. */
static __always_inline void put_waits(struct half *h, __u32 key, struct row *row, bool runq, __u32 flags, __u32 bucket, __u64 n, __u64 ns)
{
	row->kind = ROW_WAIT;
	row->stack = OCCUPANT_OTHER;
	row->event = (__u8)(runq ? cfg.event_runq : cfg.event_off);
	row->n_kernel = (__u16)bucket;
	row->n_user = (__u16)flags;
	row->samples = n;
	row->value = ns;
	if (flags & WAIT_SUMMED) {
		count_waits(h, row->event, n);
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

/* Where the occupant stands in the arena of half `key`. */
static __always_inline __u32 occupant_at(__u32 key, struct sched_cpu *sc, const struct occupant *who)
{
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	__u64 k = (who->tgid ^ (who->set_id >> 32)) & (KNOWN - 1);
	if (!who->tgid)
		return (__u32)who->start_ns;
	barrier_var(k);
	if (!h || k >= KNOWN)
		return OCCUPANT_OTHER;
	if (sc->known[k].active == sc->active && same_occupant(who, &sc->known[k].who))
		return sc->known[k].at;
	struct occupant *tail = (void *)arena_tail(h);
	if (!tail)
		return OCCUPANT_OTHER;
	*tail = *who;
	int at = stack_intern(key, OCCUPANT_WORDS, 0, 0);
	if (at < 0)
		return OCCUPANT_OTHER;
	sc->known[k].who = *who;
	sc->known[k].at = (__u32)at;
	sc->known[k].active = sc->active;
	return (__u32)at;
}

/* `n` parts of waits, `ns` together, in which `who` had the CPU; whose waits the row of sc says. */
__noinline int put_by(__u32 key, const struct occupant *who, __u64 ns, __u64 n)
{
	__u32 me = key / 2;
	struct sched_cpu *sc = bpf_map_lookup_elem(&sched_cpus, &me);
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	if (!sc || !h || !who)
		return 0;
	struct row *row = &sc->row;
	row->kind = ROW_BLAME;
	row->event = (__u8)cfg.event_runq;
	row->stack = occupant_at(key, sc, who);
	row->n_kernel = 0;
	row->n_user = sc->kthread;
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

/* ---- tallies ---- */

static __always_inline bool is_held(const struct waiting *w)
{
	return *(const volatile __u32 *)&w->held;
}

/* Where the waits of a bucket are counted; LENGTHS: nowhere. Bucket 0, that it ran at once, which is a length but no sample, is the last. */
static __always_inline __u64 length_at(__u32 bucket)
{
	__u32 i = bucket - LENGTH_FIRST;
	return i < LENGTHS - 1 ? i : bucket ? LENGTHS : LENGTHS - 1;
}

static __always_inline __u32 length_bucket(__u32 i)
{
	return i < LENGTHS - 1 ? LENGTH_FIRST + i : 0;
}

/* The row of sc: rows of how many waits of w were how long. */
__noinline int put_lengths(__u32 key, struct waiting *w)
{
	__u32 me = key / 2;
	struct sched_cpu *sc = bpf_map_lookup_elem(&sched_cpus, &me);
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	if (!sc || !h || !w)
		return 0;
	for (__u64 i = 0; i < 2 * LENGTHS; i++) {
		barrier_var(i);
		__u16 *n = &w->length[0][0] + i;
		if (!*n)
			continue;
		put_waits(h, key, &sc->row, i >= LENGTHS, sc->kthread, length_bucket((__u32)i % LENGTHS), *n, 0);
		*n = 0;
	}
	return 0;
}

/* All tallies of w into rows; not while they are held, but those that are ours alone (tallies_last). */
__noinline int tallies_put(__u32 cpu, struct waiting *w)
{
	struct cpu_state *c = bpf_map_lookup_elem(&cpu_states, &cpu);
	struct sched_cpu *sc = bpf_map_lookup_elem(&sched_cpus, &cpu);
	if (!c || !sc || !w || (is_held(w) && w->tallied))
		return 0;
	__u32 key = inside(c, sc, cpu);
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	if (h) {
		struct row *row = row_of(sc, w);
		for (__u32 i = 0; i < 2; i++) {
			if (w->tally[i].n)
				put_waits(h, key, row, i, sc->kthread | WAIT_SUMMED, 0, w->tally[i].n, w->tally[i].ns);
			w->tally[i].n = w->tally[i].ns = 0;
		}
		put_lengths(key, w);
		for (__u32 i = 0; i < TALLIES_BY; i++) {
			if (!w->by[i].n)
				continue;
			put_by(key, &w->by[i].who, w->by[i].ns, w->by[i].n);
			w->by[i].n = w->by[i].ns = 0;
		}
		ask_for_drain(h);
	}
	outside(c);
	w->tallied = 0;
	return 0;
}

/* One wait more, at once: while the tallies are held; otherwise its length, which is not counted with the thread. */
__noinline int tally_else(__u32 cpu, struct waiting *w, __u32 what, __u64 ns, __u32 bucket)
{
	struct cpu_state *c = bpf_map_lookup_elem(&cpu_states, &cpu);
	struct sched_cpu *sc = bpf_map_lookup_elem(&sched_cpus, &cpu);
	bool runq = what & TALLY_RUNQ;
	if (!c || !sc || !w)
		return 0;
	__u32 key = inside(c, sc, cpu);
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	if (h) {
		struct row *row = row_of(sc, w);
		if (what & WAIT_SUMMED)
			put_waits(h, key, row, runq, sc->kthread | WAIT_SUMMED, 0, 1, ns);
		if (!(what & TALLY_NO_LENGTH))
			put_waits(h, key, row, runq, sc->kthread, bucket, 1, 0);
		ask_for_drain(h);
	}
	outside(c);
	return 0;
}

/* Where an occupant is looked for; then at the place beside that. */
static __always_inline __u64 by_at(const struct occupant *who)
{
	__u64 k = who->tgid ? who->tgid ^ (who->set_id >> 32) : who->start_ns;
	barrier_var(k);
	return k & (TALLIES_BY - 1);
}

static __always_inline void by_add(struct tally_by *by, __u64 ns)
{
	by->n++;
	by->ns += ns;
}

/* A part of a wait, where `who` is not at the first place. */
__noinline int by_else(__u32 cpu, struct waiting *w, const struct occupant *who, __u64 ns)
{
	struct cpu_state *c = bpf_map_lookup_elem(&cpu_states, &cpu);
	struct sched_cpu *sc = bpf_map_lookup_elem(&sched_cpus, &cpu);
	if (!c || !sc || !w || !who)
		return 0;
	__u64 k = by_at(who);
	struct tally_by *by = &w->by[k], *beside = &w->by[k ^ 1];
	bool held = is_held(w);
	if (!held && beside->n && same_occupant(who, &beside->who)) {
		by_add(beside, ns);
		return 0;
	}
	if (by->n && !beside->n)
		by = beside;
	__u32 key = inside(c, sc, cpu);
	row_of(sc, w);
	if (held)
		put_by(key, who, ns, 1);
	else if (by->n)
		put_by(key, &by->who, by->ns, by->n);
	outside(c);
	if (!held)
		*by = (struct tally_by){ .who = *who, .ns = ns, .n = 1 };
	return 0;
}

/* One wait of which `ns` are counted now, `full` long. what: TALLY_*; WAIT_SUMMED where no stack has it. */
static __always_inline void tally(__u32 cpu, struct waiting *w, __u32 what, __u64 ns, __u64 full)
{
	__u32 bucket = hist_bucket_index(WAIT_HIST_BITS, full), runq = what & TALLY_RUNQ ? 1 : 0;
	__u64 i = length_at(bucket);
	if (unlikely(is_held(w))) {
		tally_else(cpu, w, what, ns, bucket);
		return;
	}
	if (what & WAIT_SUMMED) {
		w->tally[runq].n++;
		w->tally[runq].ns += ns;
	}
	if (unlikely(what & TALLY_NO_LENGTH))
		return;
	barrier_var(i);
	if (unlikely(i >= LENGTHS)) {
		tally_else(cpu, w, what & ~WAIT_SUMMED, ns, bucket);
	} else if (unlikely(w->length[runq][i] == 0xffff)) {
		w->tallied = 1; /* long ago: they go into rows when this one is counted */
		tally_else(cpu, w, what & ~WAIT_SUMMED, ns, bucket);
	} else {
		w->length[runq][i]++;
	}
}

static __always_inline void tally_by(__u32 cpu, struct waiting *w, const struct occupant *who, __u64 ns)
{
	struct tally_by *by = &w->by[by_at(who)];
	if (unlikely(!by->n || is_held(w) || !same_occupant(who, &by->who)))
		by_else(cpu, w, who, ns);
	else
		by_add(by, ns);
}

/* ---- who had the CPU ---- */

#define BEFORE ~0ull

/* The part of [from, to) in which the i-th newest run of a CPU had it. */
static __always_inline __u64 run_part(struct sched_cpu *on, __u32 i, __u64 from, __u64 to, struct run **ret)
{
	__u64 at = (on->head - i) & (RUNS - 1);
	barrier_var(at);
	struct run *r = &on->runs[at & (RUNS - 1)];
	__u64 begin = r->begin, end = r->end;
	*ret = r;
	if (!begin)
		return 0;
	if (end > to)
		end = to;
	if (begin < from)
		begin = from;
	return end > begin ? end - begin : 0;
}

/*
 * What the i-th newest run of CPU `on` had of the wait from sc->from to sc->until, at most `left`. BEFORE: it ended before. A function of
 * its own: clang 19's loop is too much for the verifier otherwise.
 */
__noinline __u64 blame_run(__u32 cpu, struct waiting *w, __u32 on_cpu, __u32 i, __u64 left)
{
	struct sched_cpu *sc = bpf_map_lookup_elem(&sched_cpus, &cpu);
	struct sched_cpu *on = bpf_map_lookup_elem(&sched_cpus, &on_cpu);
	struct run *r;
	if (!sc || !on || !w)
		return 0;
	__u64 part = run_part(on, i, sc->from, sc->until, &r);
	if (!part)
		return r->end > sc->from ? 0 : BEFORE;
	part = part < left ? part : left; /* another CPU may be writing what we read */
	tally_by(cpu, w, &r->who, part);
	return part;
}

/* The wait [from, to) in the queue of CPU `on`, to those who had that CPU; what is left, and `elsewhere`, to nobody known. */
__noinline int blame(__u32 cpu, struct waiting *w, __u64 from, __u64 to, __u64 elsewhere)
{
	struct sched_cpu *sc = bpf_map_lookup_elem(&sched_cpus, &cpu);
	if (!sc || !w)
		return 0;
	__u64 left = to - from;
	__u32 on = cfg.queue_times ? cpu : w->cpu;
	sc->from = from;
	sc->until = to;
	sc->other.start_ns = OCCUPANT_OTHER;
	for (__u32 i = 0; i < RUNS && left; i++) {
		__u64 part = blame_run(cpu, w, on, i, left);
		if (part == BEFORE)
			break;
		left -= part;
	}
	if (left + elsewhere)
		tally_by(cpu, w, &sc->other, left + elsewhere);
	return 0;
}

/* ---- a wait that is over ---- */

/* What it waited for counts in rows of its stack. Where there is no room it does not: what of 1 (blocked) and 2 (for a CPU) is left. */
__noinline int put_stacked(__u32 cpu, struct waiting *w, __u64 off, __u64 runq)
{
	struct cpu_state *c = bpf_map_lookup_elem(&cpu_states, &cpu);
	struct sched_cpu *sc = bpf_map_lookup_elem(&sched_cpus, &cpu);
	int left = 3;
	if (!c || !sc || !w)
		return left;
	__u32 key = inside(c, sc, cpu);
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	struct row *row = row_of(sc, w);
	row->kind = w->kthread ? ROW_KTHREAD : ROW_TASK;
	row->samples = 1;
	if (h && !place_take(key, w->place, 0, row)) {
		row->event = (__u8)cfg.event_off;
		row->value = off;
		if (off && row_add(key, row) >= 0) {
			count_waits(h, cfg.event_off, 1);
			left &= ~1;
		}
		row->event = (__u8)cfg.event_runq;
		row->value = runq;
		if (runq && row_add(key, row) >= 0) {
			count_waits(h, cfg.event_runq, 1);
			left &= ~2;
		}
	}
	row->n_python = 0;
	outside(c);
	return left;
}

/*
 * What `w` waited for from `since` to `now`, when it came to this CPU, which `last` had before; of that it was `here` in this one's
 * queue, and `before` in others. How long it was blocked.
 */
static __always_inline __u64 wait_over(__u32 cpu, struct waiting *w, const struct run *last, __u64 since, __u64 now, __u64 here,
				       __u64 before)
{
	__u64 began = w->began, from = waits_from;
	if (unlikely(since < from)) {
		since = from;
		began = 0;
	}
	if (unlikely(now < since))
		return 0;
	bool blocked = w->state & WAITS_BLOCKED;
	__u64 all = now - since;
	if (!blocked && !here) /* preempted, and not known where it was since then */
		here = all;
	__u64 runq_full = blocked ? here + before : began ? now - began : 0;
	__u64 runq = blocked && runq_full < all ? runq_full : all;
	__u64 off = all - runq, off_full = blocked && began && now - runq_full > began ? now - runq_full - began : 0;
	if (here > runq)
		here = runq;
	__u32 left = 3;
	if (unlikely(!w->quick || all >= cfg.wait_ns)) {
		learn(w->spot, blocked ? off : all); /* where it blocked does not tell why it then was in a queue for long */
		w->quick = 0;
	}
	w->last_ns = now;
	if (unlikely(w->place)) {
		left = put_stacked(cpu, w, off, runq);
		w->place = 0;
	}
	if (!w->tallied)
		w->tallied = now;
	if (off || off_full)
		tally(cpu, w, (left & 1 ? WAIT_SUMMED : 0) | (off_full ? 0 : TALLY_NO_LENGTH), off, off_full);
	if (!runq && !runq_full) { /* it ran at once: one of its lengths, too */
		if (blocked)
			tally(cpu, w, TALLY_RUNQ, 0, 0);
		return off;
	}
	tally(cpu, w, TALLY_RUNQ | (left & 2 ? WAIT_SUMMED : 0) | (runq_full ? 0 : TALLY_NO_LENGTH), runq, runq_full);
	/* The usual case, at a fraction of the cost: who had this CPU until now had it since then. */
	if (unlikely(here != runq || last->end != now || last->begin > now - runq || (!cfg.queue_times && w->cpu != cpu)))
		blame(cpu, w, now - here, now, runq - here);
	else
		tally_by(cpu, w, &last->who, runq);
	return off;
}

/* waker.bpf.h: who ended what the current thread waited for, of which it was blocked for `off`; it leaves. */
int waker_over(__u32 cpu, struct waiting *w, __u64 off);

/* ---- the scheduler ---- */

static __always_inline void identify_as(struct task_struct *t, struct occupant *who)
{
	who->start_ns = t->group_leader->start_boottime;
	who->exec_id = (__u32)t->self_exec_id;
	who->tgid = (__u32)t->tgid;
	who->cgroup = t->cgroups->dfl_cgrp->kn->id;
	const __u64 *comm = (const void *)&t->comm;
	who->comm[0] = comm[0];
	who->comm[1] = comm[1];
}

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

/* Is it still what it was when it last entered? */
static __always_inline bool is_same(struct task_struct *t, const struct waiting *w)
{
	const __u64 *comm = (const void *)&t->comm;
	return !((comm[0] ^ w->who.comm[0]) | (comm[1] ^ w->who.comm[1]) | (t->cgroups->dfl_cgrp->kn->id ^ w->who.cgroup) |
		 ((__u32)t->self_exec_id ^ w->who.exec_id) | ((__u32)t->pid ^ w->tid));
}

/*
 * Who leaves: a thread's name, cgroup and labels. What was summed in another's name goes into rows first. Reading memory of a process costs
 * 80 ns for each piece: where the wait is likely to be short, what was read within wait_ns before is good enough. A process that is
 * not known yet is asked about only by the way of a stack: there may be thousands a second.
 */
static __always_inline void look(struct waiting *w, struct task_struct *t, __u32 cpu, struct cpu_state *c, struct sched_cpu *sc, bool take,
				 __u64 now)
{
	bool kthread = t->flags & PF_KTHREAD, none = kthread;
	__u64 set_id = 0;
	sc->image.tgid = (__u32)t->tgid;
	sc->image.start_ns = t->group_leader->start_boottime;
	sc->image.exec_id = (__u32)t->self_exec_id;
	if (!kthread) {
		inside(c, sc, cpu);
		const struct proc_entry *known = proc_find(&sc->image);
		none = known && !known->n_slots && !known->n_sources;
		if (!none && (known || take))
			set_id = read_labels(&sc->image, &sc->flags);
		outside(c);
	}
	w->known_until = now + (none ? 2 * cfg.wait_ns : set_id ? cfg.wait_ns : cfg.wait_ns / 8);
	if (is_same(t, w) && set_id == w->who.set_id)
		return;
	if (w->tallied)
		tallies_put(cpu, w);
	if (is_held(w)) {
		w->known_until = 0;
		return;
	}
	identify_as(t, &w->who);
	w->who.set_id = set_id;
	w->tid = (__u32)t->pid;
	w->kthread = kthread;
}

static __always_inline void leave_stack(void *ctx, struct task_struct *t, __u32 cpu, struct cpu_state *c, struct sched_cpu *sc,
					struct waiting *w)
{
	bool kthread = t->flags & PF_KTHREAD;
	__u32 key = inside(c, sc, cpu);
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	__u64 *tail = h ? arena_tail(h) : 0;
	struct stack_lengths len;
	if (tail) {
		unwind(ctx, t, &sc->image, false, kthread, key, tail, WAIT_WORDS, &len);
		__u32 n_python = kthread ? 0 : python_behind(&sc->image, key, len.n_kernel + len.n_user);
		w->place = place_keep(key, (__u32)t->pid, len.n_kernel, len.n_user, n_python);
	}
	outside(c);
}

__noinline int count_untracked(__u32 cpu)
{
	struct cpu_state *c = bpf_map_lookup_elem(&cpu_states, &cpu);
	struct sched_cpu *sc = bpf_map_lookup_elem(&sched_cpus, &cpu);
	if (!c || !sc)
		return 0;
	__u32 key = inside(c, sc, cpu);
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	if (h) {
		count_waits(h, cfg.event_off, 1);
		count(h, COUNTER_wait_untracked);
	}
	outside(c);
	return 0;
}

/* The current thread leaves the CPU; it came when `last` left it. When that was. */
static __always_inline __u64 leave(void *ctx, struct task_struct *t, struct waiting *w, bool preempted, __u32 cpu, struct cpu_state *c,
				   struct sched_cpu *sc, const struct run *last, __u64 clock, __u64 now, bool wakers)
{
	__u32 state = t->__state;
	if (unlikely(!w->tid)) { /* it waited when recording began, or is new */
		identify_as(t, &w->who);
		w->tid = (__u32)t->pid;
		w->kthread = !!(t->flags & PF_KTHREAD);
	}
	__u64 since = w->since ? __sync_lock_test_and_set(&w->since, 0) : 0, came = arrival(w, t, last, clock, now), off = 0;
	if (since) {
		__u64 before, here = queued(w, t, came, &before);
		off = wait_over(cpu, w, last, since + unseen(w, t, came, now), came, here, before);
		if (unlikely(now - w->tallied > TALLY_NS))
			tallies_put(cpu, w);
	}
	if (wakers)
		waker_over(cpu, w, off);
	if (unlikely(w->place)) {
		place_drop(w->place, (__u32)t->pid);
		w->place = 0;
	}
	if (unlikely(state & TASK_DEAD) || (cfg.selection != SELECTION_NONE && !is_selected((__u32)t->tgid, (__u32)t->pid))) {
		if (w->tallied)
			tallies_put(cpu, w);
		return came;
	}
	bool blocked = !preempted && state, take = take_stack(sc, w, spot_of(t, blocked), now);
	/* Nobody knows how long one will wait who was preempted: what is known of him is an eighth as old at most. */
	if (unlikely(take || now + (preempted ? cfg.wait_ns / 8 * 7 : 0) >= w->known_until || (__u32)t->self_exec_id != w->who.exec_id)) {
		look(w, t, cpu, c, sc, take, now);
		if (take)
			leave_stack(ctx, t, cpu, c, sc, w);
	}
	w->before = 0;
	w->moved = 0;
	if (cfg.queue_times) {
		w->run_delay = t->sched_info.run_delay;
		w->pcount = t->sched_info.pcount;
		w->ran = t->se.sum_exec_runtime;
	} else {
		w->woken = 0;
		w->cpu = cpu;
	}
	w->state = blocked ? WAITS_BLOCKED : WAITS_RUNNABLE;
	w->began = now;
	w->since = now;
	return came;
}

/* The current thread leaves for ever when recording has ended: the iterator will not find it. One of the two has its tallies. */
static __always_inline void tallies_last(struct task_struct *t, __u32 cpu)
{
	struct waiting *w = bpf_task_storage_get(&waits, t, 0, 0);
	if (w && __sync_lock_test_and_set(&w->tallied, 0))
		tallies_put(cpu, w);
}

/*
 * All is done when a thread leaves: what it waited for before it came, too. The kernel has noted when it came, and how long it had been in
 * queues; so the one who enters need not be looked at. wakers: a constant, so that what is not asked for is not there.
 */
static __always_inline void switched(__u64 *ctx, bool wakers)
{
	struct task_struct *prev = (void *)ctx[1];
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_state *c = bpf_map_lookup_elem(&cpu_states, &cpu);
	struct sched_cpu *sc = bpf_map_lookup_elem(&sched_cpus, &cpu);
	if (cpu >= cfg.n_cpus || !c || !sc)
		return;
	__u64 clock = queue_clock(prev), now = queue_now(sc, clock), at = sc->head;
	if (unlikely(now >= waits_until)) {
		if (prev->__state & TASK_DEAD)
			tallies_last(prev, cpu);
		return;
	}
	barrier_var(at);
	const struct run *last = &sc->runs[at & (RUNS - 1)];
	struct waiting *w = prev->pid ? bpf_task_storage_get(&waits, prev, 0, 0) : 0;
	__u64 came = w ? leave(ctx, prev, w, ctx[0] & 1, cpu, c, sc, last, clock, now, wakers) : last->end;
	at = sc->head + 1;
	barrier_var(at);
	struct run *run = &sc->runs[at & (RUNS - 1)];
	run->begin = came;
	run->end = now;
	if (w) {
		run->who = w->who;
	} else if (prev->pid) {
		count_untracked(cpu);
		identify_as(prev, &run->who);
		run->who.set_id = 0;
	} else {
		run->who = (struct occupant){ .start_ns = OCCUPANT_IDLE };
	}
	sc->head++;
	struct task_struct *next = (void *)ctx[2];
	if (cfg.queue_times || !next->pid)
		return;
	w = bpf_task_storage_get(&waits, next, 0, 0);
	if (w)
		w->arrived = now;
}

SEC("tp_btf/sched_switch")
int on_switch(__u64 *ctx)
{
	switched(ctx, false);
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
 * With queue_times. How long it was in queues until now was not where it will run. Since 6.12: when a thread that is blocked is moved, the
 * kernel notes that as the time when it came into the queue, and keeps it though the thread is woken later; then nothing is known of
 * its time there. Rare.
 */
SEC("tp_btf/sched_migrate_task")
int on_migrate(__u64 *ctx)
{
	struct task_struct *t = (void *)ctx[0];
	struct waiting *w = bpf_task_storage_get(&waits, t, 0, 0);
	if (!w)
		return 0;
	w->before = t->sched_info.run_delay - w->run_delay;
	if (bpf_core_field_exists(struct sched_entity, sched_delayed) && t->se.sched_delayed)
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
	w->who.set_id = 0;
	w->cpu = (__u32)t->wake_cpu;
	w->state = WAITS_RUNNABLE;
	w->run_delay = w->pcount = w->ran = 0;
	w->before = 0;
	w->moved = 0;
	w->woken = w->began = w->since = bpf_ktime_get_boot_ns();
	return 0;
}

/*
 * In its parent, where memory can be had. The kernel keeps few pieces ready, and makes new ones in an interrupt that it asks for when there
 * are few: so it is asked again.
 */
SEC("tp_btf/sched_process_fork")
int on_thread(__u64 *ctx)
{
	for (int i = 0; i < STORAGE_TRIES; i++)
		if (bpf_task_storage_get(&waits, (struct task_struct *)ctx[1], 0, BPF_LOCAL_STORAGE_GET_F_CREATE))
			break;
	return 0;
}

/* ---- all threads: at the beginning, and for those whose wait outlasts a window ---- */

/* Those that wait when recording begins wait since then. No wait is added to any more. */
bool waits_begin, waits_over;

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
	for (int i = 0; i < STORAGE_TRIES && !w; i++)
		w = bpf_task_storage_get(&waits, t, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!w || !state || (state & TASK_DEAD) || !t->pid)
		return;
	if (cfg.selection == SELECTION_CGROUP ||
	    (cfg.selection != SELECTION_NONE && !is_selected((__u32)t->tgid, (__u32)t->pid)))
		return;
	w->place = place_find((__u32)t->pid, &s);
	if (s) {
		long n = bpf_get_task_stack(t, s->words, WAIT_WORDS * 8, 0);
		s->n_kernel = n > 0 ? (__u8)((__u64)n / 8) : 0;
		s->n_user = s->n_python = 0;
	}
	w->state = WAITS_BLOCKED;
	if (cfg.queue_times) {
		w->run_delay = t->sched_info.run_delay;
		w->pcount = t->sched_info.pcount;
		w->ran = t->se.sum_exec_runtime;
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

/*
 * A thread that waits, or has come to its CPU and not left it again: until when it waited or waits, since when of that it was in
 * queues; 0: it is blocked.
 */
static __always_inline __u64 tell_until(const struct waiting *w, struct task_struct *t, __u64 now, __u64 *ret_woken)
{
	__u32 cpu = (__u32)t->wake_cpu;
	struct sched_cpu *sc = bpf_map_lookup_elem(&sched_cpus, &cpu);
	*ret_woken = cfg.queue_times ? 0 : w->woken;
	if (!cfg.queue_times)
		return w->arrived > w->began && w->arrived < now ? w->arrived : now;
	if (!sc)
		return now;
	__u64 boot = sc->boot - sc->clock, before = t->sched_info.run_delay - w->run_delay, at = t->sched_info.last_queued;
	bool came = t->sched_info.pcount != w->pcount;
	__u64 until = came ? t->sched_info.last_arrival + boot : now, woken = came ? until : at + boot;
	if (until > now)
		until = now;
	if (w->moved || (!came && (!at || t->__state)) || (__s64)before < 0)
		return until;
	*ret_woken = woken - before < until ? woken - before : until;
	return until;
}

/* What is new of a wait that goes on. */
static __always_inline void wait_tell(struct seq_file *seq, struct wire_wait *o, struct task_struct *t, struct waiting *w, __u64 now)
{
	__u64 raw = *(volatile __u64 *)&w->since, woken, until = tell_until(w, t, now, &woken), n = 0, from = waits_from;
	__u64 since = raw < from ? from : raw;
	bool blocked = w->state & WAITS_BLOCKED;
	if (!raw || until <= since)
		return;
	identify(t, &o->row);
	o->row.set_id = w->who.set_id;
	o->row.last_ns = now;
	o->row.first_ns = since;
	o->row.samples = 1;
	o->row.stack = 0;
	o->row.n_kernel = o->row.n_user = o->row.n_python = 0;
	__u32 place = w->place, i = place - 1;
	struct wait_place *s = place ? bpf_map_lookup_elem(&places, &i) : 0;
	if (s) {
		o->row.n_kernel = s->n_kernel;
		o->row.n_user = s->n_user;
		o->row.n_python = s->n_python;
		n = o->row.n_kernel + o->row.n_user + o->row.n_python;
		barrier_var(n);
		if (n > WAIT_WORDS || bpf_probe_read_kernel(o->words, n * 8, s->words))
			n = o->row.n_kernel = o->row.n_user = o->row.n_python = 0; /* another's by now: half of each */
	} else if (blocked && !place) { /* expected to be short: where it is in the kernel can be seen now, too */
		long size = bpf_get_task_stack(t, o->words, WAIT_WORDS * 8, 0);
		n = size > 0 ? (__u64)size / 8 : 0;
		o->row.n_kernel = (__u8)n;
	}
	/* The thread may have gone on, and its place be another's: then what was read is not told. */
	if (__sync_val_compare_and_swap(&w->since, raw, until) != raw)
		return;
	__u64 queued = !blocked ? since : woken ? woken : until;
	if (queued < since)
		queued = since;
	if (queued > until)
		queued = until;
	wait_put(seq, o, n, cfg.event_off, queued - since);
	wait_put(seq, o, n, cfg.event_runq, until - queued);
}

/* What was summed of its waits and is in no row yet. */
static __always_inline void tallies_tell(struct seq_file *seq, struct wire_wait *o, struct waiting *w)
{
	__u32 kthread = w->kthread ? WAIT_KTHREAD : 0;
	row_whose(&o->row, w);
	o->row.first_ns = w->last_ns;
	o->row.stack = OCCUPANT_OTHER;
	o->row.kind = ROW_WAIT;
	o->row.n_user = (__u16)(kthread | WAIT_SUMMED);
	o->row.n_kernel = 0;
	for (__u32 i = 0; i < 2; i++) {
		o->row.event = (__u8)(i ? cfg.event_runq : cfg.event_off);
		o->row.samples = w->tally[i].n;
		o->row.value = w->tally[i].ns;
		w->tally[i].n = w->tally[i].ns = 0;
		if (o->row.samples)
			bpf_seq_write(seq, o, sizeof(o->row));
	}
	o->row.n_user = (__u16)kthread;
	o->row.value = 0;
	for (__u64 i = 0; i < 2 * LENGTHS; i++) {
		barrier_var(i);
		__u16 *n = &w->length[0][0] + i;
		if (!*n)
			continue;
		o->row.event = (__u8)(i < LENGTHS ? cfg.event_off : cfg.event_runq);
		o->row.n_kernel = (__u16)length_bucket((__u32)i % LENGTHS);
		o->row.samples = *n;
		*n = 0;
		bpf_seq_write(seq, o, sizeof(o->row));
	}
	o->row.event = (__u8)cfg.event_runq;
	o->row.kind = ROW_BLAME;
	o->row.n_kernel = 0;
	o->row.n_user = (__u16)kthread;
	for (__u32 i = 0; i < TALLIES_BY; i++) {
		struct tally_by *by = &w->by[i];
		if (!by->n)
			continue;
		o->row.stack = by->who.tgid ? 0 : (__u32)by->who.start_ns;
		o->row.samples = by->n;
		o->row.value = by->ns;
		*(struct occupant *)o->words = by->who;
		by->n = by->ns = 0;
		bpf_seq_write(seq, o, sizeof(o->row) + sizeof(struct occupant));
	}
}

/*
 * Its CPU looks at `held` after it has taken `since`: so either it sees that we are at its tallies, or we that it does not wait. At
 * the end a CPU looks only at those who leave for ever.
 */
static __always_inline void tallies_hold(struct seq_file *seq, struct wire_wait *o, struct waiting *w)
{
	__sync_lock_test_and_set(&w->held, 1);
	if (waits_over) {
		if (__sync_lock_test_and_set(&w->tallied, 0))
			tallies_tell(seq, o, w);
	} else if (w->tallied && *(volatile __u64 *)&w->since) {
		tallies_tell(seq, o, w);
		w->tallied = 0;
	}
	__sync_lock_test_and_set(&w->held, 0);
}

SEC("iter/task")
int on_threads(struct bpf_iter__task *ctx)
{
	struct task_struct *t = ctx->task;
	__u64 now = bpf_ktime_get_boot_ns();
	__u32 zero = 0;
	if (!t)
		return 0;
	if (waits_begin) {
		wait_begin(t, now);
		return 0;
	}
	struct wire_wait *o = bpf_map_lookup_elem(&waits_out, &zero);
	struct waiting *w = bpf_task_storage_get(&waits, t, 0, 0);
	if (!o || !w)
		return 0;
	if (now > waits_until)
		now = waits_until;
	tallies_hold(ctx->meta->seq, o, w);
	wait_tell(ctx->meta->seq, o, t, w, now);
	return 0;
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The maps and structures of waits: per thread, per CPU, and the stacks of threads that wait. */
#ifndef ASCRIBE_OFFCPU_TYPES_BPF_H
#define ASCRIBE_OFFCPU_TYPES_BPF_H

#include "common.bpf.h"
#include "hist_bucket.h"
#include "labels.bpf.h"
#include "wait_split.h"

/* Move what follows out of the hot path: a switch finds the caches cold. */
#define unlikely(x) __builtin_expect(!!(x), 0)

#define TASK_DEAD 0x80	 /* include/linux/sched.h */
#define OCCUPANT_CACHE 8 /* occupants whose arena index is remembered, per CPU */
#define WAIT_STACKS 8192
#define CALL_SITES 16384
#define STORAGE_TRIES 16 /* to allocate task storage: see on_thread */
#define BLAME_SUMS 8	 /* occupants whose time is summed per thread */
#define LENGTH_FIRST 48	 /* bucket of 256 ns: the first that is counted per thread */
#define LENGTHS 106	 /* buckets counted per thread, up to 2 ms; longer waits are rare */

enum wait_state {
	WAIT_BLOCKED = 1,
	WAIT_RUNNABLE = 2, /* preempted, or a new thread */
};

/* Waits that ended and are in no row yet, without their stacks. */
struct wait_sum {
	__u64 n, ns;
};

/* The same of a thread, for a second or until a window ends. */
struct thread_sum {
	__u32 n;
	__u32 ended; /* when the last one of them did: low bits of the time in units of 2^10 ns */
	__u64 ns;
};

/* Run queue time during which `who` had the CPU. */
struct blame_sum {
	struct occupant who; /* tgid 0: no process; start_ns is one of OCCUPANT_* */
	__u64 ns;
	__u64 n;
};

/* What latency.bpf.h knows of a thread. */
struct latency_thread {
	__u64 key;	 /* of its group, if it is a member */
	__u64 mark;	 /* the clock of its tier when its wait began, or was reported last */
	__u64 seen;	 /* BOOTTIME at which its label was read last, or of the switch in */
	__u64 weight[2]; /* ns, of the wait that is not accounted yet: off-cpu, runq */
	struct wait_sum sum[2];
	__u32 member;  /* MEMBER_* of latency.bpf.h */
	__u16 arrived; /* `seen` is the switch in */
	__u16 reserved;
};

/*
 * One thread. All times are CLOCK_BOOTTIME, which never steps.
 *
 * The sums belong to `who`; they go into rows before `who` changes. The CPU that the thread enters
 * or leaves writes this. The iterator writes only while the thread waits (`since`) and after it set
 * `held`.
 *
 * Ordered by cache lines of 64 bytes, most of them cold at a switch. The kernel puts 8 bytes before
 * the structure.
 */
struct thread_wait {
	/* Start of what is not reported yet; 0: running or unknown. Claimed by exchange */
	__u64 since;
	__u64 began;		      /* start of the whole wait; 0: before the recording */
	__u64 run_delay, pcount, ran; /* sched_info and se of the kernel, at the switch out */
	__u64 before;		      /* ns in other queues than the last, since the switch out */
	__u64 fresh_until;	      /* name, cgroup and label set are not read again before */

	struct occupant who; /* at the last switch out */
	__u64 summed_since;  /* end of the first wait in the sums; 0: the sums are empty */
	__u32 tid;
	__u32 site; /* call site of the last wait: a hash */

	struct thread_sum sum[2]; /* off-cpu, runq */
	__u64 last_ns;		  /* end of the last wait */
	__u32 state;		  /* enum wait_state */
	__u32 stack;		  /* index in wait_stacks plus 1; 0: no stack was taken */
	__u32 expected;	     /* length of a wait at this site, in units of 2^10 ns; 0: unknown */
	__u32 expected_kept; /* in call_sites */
	__u16 kthread;
	__u16 moved; /* to another queue while it was blocked */
	__u32 held;  /* by the iterator, which reads the sums */

	/*
	 * The back-end of wake-ups: time of the wake-up (0: none), of the switch in, and the CPU of
	 * the queue.
	 */
	__u64 woken, arrived;
	__u32 cpu;
	__u16 thinning; /* of `stack`: it was taken with probability 4^-thinning */
	__u16 usual_ms; /* length of this thread's blocked waits, wherever; at most 65 s */
	/* waits by length, those with a stack included; see length_index() */
	__u16 length[2][LENGTHS];

	struct blame_sum blame[BLAME_SUMS];

	struct latency_thread latency;
};

/* When the last wait of a sum ended: not after the last wait of the thread, and not long before. */
static __always_inline __u64 sum_ended_ns(const struct thread_wait *w, const struct thread_sum *s)
{
	return w->last_ns - ((__u64)((__u32)(w->last_ns >> 10) - s->ended) << 10);
}

#define LINE_OF(member) ((__builtin_offsetof(struct thread_wait, member) + 8) % 64)
_Static_assert(!LINE_OF(who) && !LINE_OF(sum) && !LINE_OF(woken) && !LINE_OF(blame) &&
		       sizeof(struct blame_sum) == 64,
	       "cache lines");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_wait);
} waits SEC(".maps");

/* The stack of a thread that waits. */
struct wait_stack {
	__u32 owner; /* tid; 0: free */
	__u8 n_kernel, n_user, n_script;
	__u64 words[WAIT_WORDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, WAIT_STACKS);
	__type(key, __u32);
	__type(value, struct wait_stack);
} wait_stacks SEC(".maps");

/*
 * By call site: the site in the upper half, the expected length of a wait in units of 2^10 ns in
 * the lower. Written without locks.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CALL_SITES);
	__type(key, __u32);
	__type(value, __u64);
} call_sites SEC(".maps");

/* A thread ran in [begin, end). */
struct cpu_run {
	__u64 begin, end;
	struct occupant who;
};

#define THRESHOLD_MAX 30
#define TOKENS_PER_DOUBLING 3

/* A token bucket for stacks that may be overdrawn: see tokens_refill(). */
struct stack_tokens {
	__u64 slice;	 /* of the last refill */
	__u32 missing;	 /* stacks taken, less one per slice; 0: the bucket is full */
	__u32 threshold; /* of sampling: 2^threshold units of 2^10 ns, by `missing` */
};

struct sched_cpu {
	__u64 clock, boot;	    /* the run queue's clock and CLOCK_BOOTTIME, read together */
	struct stack_tokens tokens; /* for known call sites */
	__u64 random;		    /* state of a generator */
	__u32 head;		    /* of run_at(): the newest */
	__u32 active;		    /* cpu_state.active while inside */
	__u32 kthread;		    /* WAIT_KTHREAD or 0: of the thread in `row` */
	__u32 reserved;
	__u64 reserved2;
	__u64 from, until;     /* the run queue time that is being attributed */
	struct occupant other; /* OCCUPANT_OTHER */
	struct row row;	       /* being built: too large for the BPF stack */
	struct image image; /* of the thread that is switched out; too large for the stack on 6.1 */
	struct label_flags flags; /* counted with samples, not here */
	struct {
		struct occupant who;
		__u64 futex;	  /* behind it; 0: none */
		__u32 at, active; /* arena index, in that half */
	} occupants[OCCUPANT_CACHE];
	struct stack_tokens tokens_unknown; /* for call sites without an expectation */
	struct {
		__u64 slice, slice_medium; /* of the last refill, and of the last medium wait */
		__u32 left;
	} waker_tokens;	       /* waker.bpf.h */
	struct occupant waker; /* a copy */
	struct {
		__u32 at, active; /* arena index plus 1, in that half; 0: none */
	} blocked_stack;	  /* of the blocked time that was accounted last, for waker.bpf.h */
	__u64 futex;		  /* likewise: in which the thread was blocked; 0: none */
	__u64 released;		  /* likewise: WAKER_RELEASED or 0 */
	struct occupant current;  /* the running thread: current_identify() */
	/* cfg.run_mask + 1; a cache line each */
	struct cpu_run runs[] __attribute__((aligned(64)));
} __attribute__((aligned(64)));

_Static_assert(!(__builtin_offsetof(struct sched_cpu, runs) % 64) &&
		       sizeof(struct cpu_run) == CPU_RUN_BYTES,
	       "cache lines");

/* By CPU. Only that CPU writes; others read its runs. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE); /* only to begin at a page, so at a cache line */
	__uint(max_entries, 1);		   /* cfg.n_cpus */
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct sched_cpu)); /* and its runs */
} sched_cpus SEC(".maps");

/*
 * A run of a CPU: number sc->head is the newest, and older ones come before it. On a busy host 0.2
 * s have a thousand.
 */
static __always_inline struct cpu_run *run_at(struct sched_cpu *sc, __u64 at)
{
	at &= cfg.run_mask;
	barrier_var(at);
	return (void *)((char *)sc + __builtin_offsetof(struct sched_cpu, runs) +
			at * sizeof(struct cpu_run));
}

/* Waits that found no row, per half as in `halves`: their lengths and sums. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 2); /* cfg.n_cpus * 2 */
	__type(key, __u32);
	__type(value, struct wait_others);
} wait_others SEC(".maps");

/*
 * The recording, CLOCK_BOOTTIME. Attaching and detaching take longer than an instant, so both ends
 * are cut here.
 */
volatile __u64 waits_from = ~0ull, waits_until = ~0ull;

/* Stacks of waits and of wakers are not taken: user space is short of time or memory. */
volatile bool no_wait_stacks;

/*
 * What the steps of one context switch share. The compiler keeps it in registers: all of them are
 * inlined.
 */
struct switch_ctx {
	void *ctx;		  /* of the tracepoint */
	struct task_struct *task; /* switched out */
	struct thread_wait *wait; /* its storage */
	struct cpu_state *state;
	struct sched_cpu *sched;
	const struct cpu_run *last; /* the newest run of this CPU: before the task's */
	__u32 cpu;
	bool preempted;
	__u64 clock; /* of the run queue; 0: not known */
	__u64 now;
};

#endif

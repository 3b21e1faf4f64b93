/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * What the BPF programs and user/sampler exchange. One machine, one build: no byte order, no
 * versions.
 *
 * The map `halves`, mapped by user space, has one half for each CPU and some spare ones:
 *
 *   struct half | struct row [n_rows] | struct stack_ref [n_refs] |
 *   u64 arena [arena_mask + 1 + STACK_WORDS_MAX] | struct instant [instants]
 *
 * The BPF program of a CPU writes only the half that cpu_state.active names, between two increments
 * of cpu_state.seq (odd: inside). User space gives the CPU a spare half by `active`, waits until
 * seq is even or has moved, and then owns the old half. It copies and zeroes that half, which is
 * then the spare one (user/sampler/drain.c).
 */
#ifndef ASCRIBE_WIRE_H
#define ASCRIBE_WIRE_H

#include "label_wire.h"
#include "latency.h"
#include "unwind_wire.h"

enum counter {
#define LOST(id, help) COUNTER_##id,
#define FLAG(id, help) COUNTER_##id,
#include "counters.def"
#undef LOST
#undef FLAG
	N_COUNTERS,
};

#define KERNEL_FRAMES_MAX 127 /* the kernel's own limit; kernel.perf_event_max_stack may be lower */
#define USER_FRAMES_MAX 1024
#define SCRIPT_FRAMES_MAX 1024
/* of one stack: kernel and user frames, then as many script frames as are left */
#define STACK_WORDS_MAX 1280
/*
 * In tgid and tid of processes outside of the recorder's PID namespace: they have no id in it. The
 * other bits are the id in the initial namespace, which is below 2^22.
 */
#define ID_HIDDEN 0x80000000u
#define MAX_EVENTS 8
#define COMM_SIZE 16
#define PROC_SLOTS 4 /* label slots (modules) read per process */
#define PROC_PROBES 16
#define SEEN_BITS 16
#define ROW_PROBES 64
#define REF_PROBES 64

/*
 * One distinct (thread, image, comm, cgroup, label set, stack, event) of a half. samples == 0:
 * free. The key is all that stands before samples, without padding: it is hashed and compared as
 * ROW_KEY_WORDS words.
 */
struct row {
	__u64 set_id;	/* label set inside the process, 0: none */
	__u64 start_ns; /* of the thread group, BOOTTIME: tells reuses of a tgid apart */
	__u64 cgroup;	/* id in the v2 hierarchy */
	__u64 comm[COMM_SIZE / 8];
	__u32 tgid;
	union {
		/* 0 in rows of lengths and of BLAME, which have the labels of the work alone */
		__u32 tid;
		/*
		 * ROW_WAKER, of who was blocked: WAIT_KTHREAD, WAKER_*, and its stack
		 * (WAKER_BLOCKED_SHIFT)
		 */
		__u32 waker_flags;
	};
	__u32 exec_id; /* grows at each exec: tells images of one process apart */
	union {
		__u32 stack; /* TASK, KTHREAD, IDLE: index of the first word in the arena */
		/*
		 * BLAME, WAKER: index of a struct occupant in the arena, or OCCUPANT_*; WAIT:
		 * OCCUPANT_OTHER
		 */
		__u32 occupant;
	};
	union {
		struct { /* TASK, KTHREAD, IDLE; WAKER: the words behind the occupant */
			/* words: kernel frames first, then user frames, leaf first, */
			__u16 n_kernel;
			__u16 n_user;
			__u16 n_script; /* then frames of scripts (script_wire.h) */
		};
		struct { /* WAIT, BLAME: no stack */
			/*
			 * of the length (hist_bucket.h, WAIT_HIST_BITS); WAIT_SUMMED and BLAME: 0
			 */
			__u16 bucket;
			__u16 flags; /* WAIT_* */
			__u16 zero;
		} wait;
	};
	__u8 event;
	__u8 kind : 3; /* enum row_kind */
	/* TASK, KTHREAD of waits; WAKER, of a blocked thread's stack: */
	__u8 earlier : 1; /* it began before the recording, so its user frames are not known */
	/*
	 * Of waits: the stacks were taken with probability 4^-thinning. Of other samples: the index
	 * of their rate in cfg.rate_hz
	 */
	__u8 thinning : 4;
	__u64 samples;
	__u64 value;	/* sum of the events' periods */
	__u64 first_ns; /* BOOTTIME of the first and the last sample */
	__u64 last_ns;
};

#define ROW_KEY_WORDS 8

enum row_kind {
	ROW_TASK = 0,
	ROW_KTHREAD = 1,
	ROW_IDLE = 2,
	/* From here on of offcpu.bpf.h and waker.bpf.h; they may be without a row: see row_add. */
	/*
	 * Waits without their stack: of one length, or with WAIT_SUMMED of any. Of probes: hits
	 * with values of one length
	 */
	ROW_WAIT = 3,
	ROW_BLAME = 4, /* run queue time during which one occupant ran */
	ROW_WAKER = 5, /* blocked time by who ended it */
	ROW_FREE = 6,  /* a sampled allocation was freed: first_ns is its address */
	/* With --latency: the weight of a sample or wait, in ns, with its stack; it is no sample */
	ROW_LATENCY = 7,
};

/*
 * Allocations that a program samples itself (docs/memory.md). Each is a row of its own, a ROW_TASK:
 * `value` is the bytes that it stands for, `samples` how many allocations it stands for, times
 * HEAP_OBJECT; first_ns is its address.
 */
#define HEAP_OBJECT 256u
/* Of an allocation; more than that is a lie. */
#define HEAP_SIZE_MAX (1ull << 40)
/* The usual mean distance of samples, in bytes (ascribe/heap.h). */
#define HEAP_MEAN (512ull << 10)
/* The largest one: what an allocation stands for beyond its size. */
#define HEAP_MEAN_MAX (1ull << 30)

#define WAIT_HIST_BITS 3
/*
 * ROW_WAIT: these waits count as samples, value is their time; without: waits of one length, no
 * value
 */
#define WAIT_SUMMED 1
#define WAIT_KTHREAD 2 /* of a kernel thread */
#define WAIT_LATENCY 4 /* ROW_WAIT: value is the weight of waits without a stack, as of LATENCY */
/*
 * In waker_flags: the thread was blocked in a futex call. The occupant (tgid 0: no thread, start_ns
 * is one of OCCUPANT_*) is followed by the address of the futex, then by the stack.
 */
#define WAKER_FUTEX 4
/* The waker was in a futex call that named the same address: it did not send a signal, say. */
#define WAKER_RELEASED 8
/*
 * In waker_flags, shifted: 1 plus the index in the arena of the blocked thread's own stack. A row
 * TASK or KTHREAD of the same half has that stack. 0: it was not sampled.
 */
#define WAKER_BLOCKED_SHIFT 4

#define OCCUPANT_OTHER 0xffffffffu /* not known any more, or not yet */
#define OCCUPANT_IDLE 0xfffffffeu  /* no process: the CPU was leaving idle */
/* No process: a device, a timer or another CPU's call woke the thread */
#define OCCUPANT_INTERRUPT 0xfffffffdu
#define OCCUPANT_WORDS 6
#define FUTEX_WORDS 1

/* A thread that ran while others waited for it, or that woke another. */
struct occupant {
	__u64 start_ns;
	__u64 set_id;
	__u64 cgroup;
	__u64 comm[COMM_SIZE / 8];
	__u32 tgid;
	__u32 exec_id;
};

/* Of a thread in user mode, by DWARF number. */
struct user_registers {
	__u64 reg[UNWIND_REGS];
	__u64 pc;
};

/*
 * A record of the iterator over all threads: the part of a wait that goes on and is not reported
 * yet, or sums that are in no row yet.
 */
#define WAIT_WORDS 127
struct wire_wait {
	struct row row; /* stack, occupant: 0, or OCCUPANT_*; WAIT_HAS_HANG */
	__u64 futex;	/* TASK: in which the thread is blocked; 0: none, or not asked for */
	/* TASK, KTHREAD: the stack, and a struct wire_hang; WAIT: none; BLAME: the occupant */
	__u64 words[WAIT_WORDS];
};

#define WIRE_WAIT_BYTES __builtin_offsetof(struct wire_wait, words)
#define WAIT_HAS_HANG 1 /* in row.stack: behind the words stands a struct wire_hang */

/* A blocked thread without user frames: where user space finds them. */
struct wire_hang {
	struct user_registers regs;
	__u64 began;	/* BOOTTIME; 0: before the recording */
	__u64 switches; /* of the thread so far: while it is the same, the thread has not run */
};
#define HANG_WORDS (sizeof(struct wire_hang) / 8)

/* Waits of a half that found no row. [0] is off-cpu, [1] is runq. */
#define WAIT_BUCKETS 496 /* HIST_BUCKETS(WAIT_HIST_BITS) */
struct wait_others {
	struct wait_other {
		__u64 n, ns;
	} all[2], blame, waker, latency[2]; /* all: what counts as samples; [0]: off-cpu */
	__u64 length[2 * WAIT_BUCKETS];
};

/* Where a stack stands in the arena. hash == 0: free. */
struct stack_ref {
	__u64 hash;
	__u32 at;
	__u32 lengths; /* stack_lengths_word */
};

/* When a sample was added to a row. Of a wait: when it was over, and how long it was. */
struct instant {
	__u64 at_ns; /* BOOTTIME */
	__u32 row;   /* index in the table of its half */
	__u32 length_us;
};

/* How many words of each kind a stack has, in one word. */
static inline __u32 stack_lengths_word(__u32 n_kernel, __u32 n_user, __u32 n_script)
{
	return n_kernel | n_user << 8 | n_script << 20;
}

#define RUN_HIST_BITS 3
#define RUN_BUCKETS 160 /* up to 4 ms */

struct half {
	__u64 counters[N_COUNTERS];
	__u64 ran[MAX_EVENTS]; /* samples that reached the program, idle and outside ones too */
	/* of the event's count: what the ticks that ran cover, samples or not */
	__u64 covered[MAX_EVENTS];
	__u64 outside[MAX_EVENTS]; /* not of the selection */
	__u64 thinned;		   /* of ran: not taken, because this cgroup has a lower rate */
	__u64 idle;		   /* samples of an idle CPU, outside of the selection or not */
	__u64 run_begin;	   /* CLOCK_MONOTONIC */
	/*
	 * How long the sampling program ran: include/hist_bucket.h, RUN_HIST_BITS, ns; the last:
	 * longer
	 */
	__u32 run[RUN_BUCKETS];
	__u32 rows_used;
	__u32 refs_used;
	__u32 arena_used; /* words */
	__u32 asked;	  /* an early drain was asked for */
	__u32 id;	  /* of cpu_state.active; written by user space */
	__u32 instants_used;
};

/* Of the BPF side's own structures, so that user space can size their tables. */
#define CPU_RUN_BYTES 64
#define REUSE_SLOT_BYTES 3104

/* Index of a half in its table, of the id. */
#define HALF_INDEX(id) ((id) & 0xffff)

struct cpu_state {
	/*
	 * id of its half (struct half): the index, and a count of times that it was given out; by
	 * user space
	 */
	__u32 active;
	__u32 seq; /* odd while the program is inside */
	__u32 notified_hash[14];
};

/* One process image whose label slots user space has looked for. tgid is written last. */
struct proc_entry {
	/* 0: never used, ends a probe; PROC_GONE: may be reused, does not end a probe */
	__u32 tgid;
	__u32 exec_id;
	__u64 start_ns;
	__u16 n_slots;
	__u16 labels_late; /* there may be more slots and sources: user space is looking */
	__u32 n_sources;   /* in proc_labels of the same index */
	struct {
		__s64 tp_offset;
		__u64 key_table;
	} slot[PROC_SLOTS];
	/*
	 * of struct unwind_range: UNWIND_LIST of unwind_wire.h; 0: not known yet. Written in one
	 * piece
	 */
	__u64 ranges;
	/* CPython's runtime, PHP's globals, as enum script_way has it, or LuaJIT's
	 * interpreter; 0: none
	 */
	__u64 script_at;
	__u64 script_layout; /* SCRIPT_LAYOUT of script_wire.h */
	__u64 go;	     /* GO_LAYOUT of go_wire.h; 0: none */
	/* BOOTTIME from which on all of this was so, but for labels_late and ranges */
	__u64 since_ns;
};

#define PROC_GONE 0xffffffffu

/* Records of the ring buffer. */
enum wire_kind {
	WIRE_NEW_PROCESS = 1,
	WIRE_DEFINITION = 2, /* followed by the record: prefix, header, attributes */
	WIRE_KEYS = 3,	     /* followed by the text of a key table */
	WIRE_FILLING = 4,    /* a half is three quarters full */
	WIRE_SCRIPT = 6,     /* followed by struct wire_script */
	WIRE_FOREIGN = 7,    /* followed by what was read from foreign sources: label_wire.h */
	/*
	 * a stack of this process leads to where nothing was mapped when its ranges were published
	 */
	WIRE_NEW_MAPPING = 5,
	WIRE_WORD = 8, /* a function of code made at run time is on a stack for the first time */
};

struct wire_record {
	__u32 kind;
	__u32 size; /* bytes that follow */
	__u32 tgid;
	__u32 exec_id;
	__u64 start_ns;
	union {
		__u64 set_id; /* of the sample: of all parts together */
		__u64 at_ns;  /* WIRE_NEW_PROCESS: when it was sampled, BOOTTIME */
		/* WIRE_NEW_MAPPING: where its stack led; it may be a return address */
		__u64 pc;
		__u64 word; /* WIRE_WORD: of v8_wire.h or hotspot_wire.h */
	};
	union {
		__u64 key_table; /* address in the process */
		__u64 cgroup;	 /* WIRE_NEW_PROCESS: of the thread that was sampled */
	};
	__u32 generation;
	__u16 part, n_parts;
	/*
	 * Of DEFINITION, KEYS and FOREIGN: the image whose entry was read for this one, as
	 * WIRE_LENDER; 0: its own
	 */
	__u64 lender;
};

/* An image, whose exec_id is that of the process: when it started, modulo 4 s, and its tgid. */
#define WIRE_LENDER(start_ns, tgid) ((start_ns) << 32 | (tgid))

#define WIRE_PAYLOAD_MAX 4096
#define WIRE_CMDLINE_MAX 127 /* bytes of arguments behind a WIRE_NEW_PROCESS */

/*
 * A sample whose process has no unwind rules yet, in the ring `copies`: registers and a piece of
 * stack, for user space to unwind. It is in no row; it began in half `half`, and is stored with the
 * rows of that half.
 */
#define COPY_STACK_MAX 16384
#define COPY_OTHER_MAX 4096 /* of another stack, to which a chain of frame pointers leads */
/* It begins below the stack pointer: rules may still speak of what has just been popped */
#define COPY_BELOW 128

struct wire_copy {
	struct row row; /* stack, n_user, samples: 0 */
	struct user_registers regs;
	__u32 half; /* its id */
	__u32 cpu;
	__u32 n_stack; /* bytes of the stack, from COPY_BELOW below the stack pointer on */
	__u32 weight;  /* of a ROW_LATENCY with this stack, ns; 0: none */
	__u64 other_at;
	__u64 n_other; /* bytes of another one, from other_at on */
	__u64 kernel[KERNEL_FRAMES_MAX + 1];
}; /* the stack follows, then the other */

#define CGROUPS_MAX 64

/* A v2 cgroup with those below it. */
struct selected_cgroup {
	__u64 id;
	__u32 level; /* 0: the root */
	__u32 excluded;
};

/*
 * Whether a v2 cgroup is recorded, and at which rate. User space writes the answer. Threads of a
 * cgroup without a cell are sampled at the highest rate, and user space decides row by row.
 */
struct chosen_cell {
	__u64 id; /* 0: free. Written last */
	__u64 answer;
};

#define CHOSEN_PROBES 32
#define CHOSEN_CELLS 16384
/* Of an answer, whose low byte is the index of the rate */
#define CHOSEN_OUTSIDE 0x100
#define CHOSEN_LATE 0x200	/* recorded at the highest rate until there is an answer */
#define CHOSEN_KTHREADS (~0ull) /* stands for the cgroup of all kernel threads */
#define RATES_MAX 8

/* The place where the search for an id begins. */
static inline __u32 chosen_hash(__u64 id)
{
	return (__u32)((id * 0x9e3779b97f4a7c15ull) >> 40);
}

/* Fixed between open and load. */
struct config {
	__u32 n_cpus;
	__u32 row_mask; /* rows - 1, a power of two minus one */
	__u32 rows_max; /* rows in use at most */
	__u32 ref_mask; /* stack refs - 1 */
	/* a stack begins at or below this word; STACK_WORDS_MAX words more follow */
	__u32 arena_mask;
	__u32 half_size;     /* bytes */
	__u32 run_mask;	     /* runs kept of a CPU - 1, a power of two minus one */
	__u32 reuse_mask;    /* threads of a CPU with recorded frames - 1, likewise */
	__u32 recalled_mask; /* rules that a CPU recalls - 1, likewise */
	__u32 copy_mask;     /* buffers for copies of stacks - 1, likewise */
	__u32 proc_mask;
	__u32 max_frames;
	__u32 selection; /* enum selection */
	__u32 selected_mask;
	__u32 n_cgroups;
	__u32 cgroup_others; /* 1: threads that are in none of cgroup[] are selected */
	__u32 chooses;	     /* there is a table of chosen cgroups */
	__u32 chosen_mask;   /* its cells - 1 */
	__u32 skip_idle;     /* idle CPUs are outside the selection */
	/* The deepest first: the first that a thread is in decides */
	struct selected_cgroup cgroup[CGROUPS_MAX];
	__u64 secret;	 /* so that nobody can choose what two of our hashes have in common */
	__u64 ring_wake; /* bytes in the ring from which user space is woken */
	/*
	 * How long a label set that was read counts for waits, and from which on wakers have a
	 * stack
	 */
	__u64 wait_ns;
	__u32 event_off, event_runq; /* indices of these two events */
	/*
	 * one stack of a wait per 2^token_shift ns and CPU, for known and for unknown call sites
	 * each
	 */
	__u32 token_shift;
	__u32 queue_times; /* the kernel notes when a thread came into its queue */
	__u32 wakers;	   /* who wakes is asked for */
	__u32 cmdline;	   /* the record of a new process has its command line */
	/* the inode of the recorder's PID namespace; 0: the initial one */
	__u32 pid_namespace;
	__u64 preempt_count; /* where a CPU keeps it, behind its run queue; not on arm64 */
	struct {
		__u64 from, to;
	} bottom_half, backlog; /* kernel functions; 0: not known */
	__u64 address_mask; /* bits of a user address; arm64 signs return addresses above them */
	/* of a clock: time that one sample stands for; 0: each hit is a sample */
	__u64 period_ns[MAX_EVENTS];
	/* of chosen cgroups; [0]: of all others. Events come at most_hz. n_rates 0: all have one */
	__u32 n_rates, most_hz, most_rate; /* most_rate: its index */
	__u32 rate_hz[RATES_MAX];
	__u32 guard_probes;	      /* 1: programs can keep their CPU to themselves */
	__u32 calls;		      /* 1: calls of functions are timed, */
	__u32 any_call;		      /* and are a label of what happens in them */
	__u32 leaves_out[MAX_EVENTS]; /* LEAVE_OUT_* */
	__u32 thins[MAX_EVENTS];      /* 1: the event measures time, so it has such rates */
	__u32 heap[MAX_EVENTS];	      /* 1: hits are sampled allocations */
	__u32 spreads[MAX_EVENTS];    /* 1: how the values of hits are distributed is kept */
	__u32 any_argument;	      /* 1: of some event an argument is a label */
	__u32 argument[MAX_EVENTS];   /* so many arguments of the event are labels */
	__u32 latency;		      /* weights by label value are asked for */
	__u32 latency_mask;	      /* groups - 1, a power of two minus one */
	__u32 latency_event;	      /* the clock whose samples are weighed */
	__u64 latency_key;	      /* latency_text of the label's key */
	/* Instants that a half has room for, a power of two; 0: none are kept */
	__u32 instants;
	/* Of waits, in ns: those that are shorter have no instant. Of others 0: all have one */
	__u32 instant_least[MAX_EVENTS];
};

/* Samples of a clock that count as outside of the selection. */
#define LEAVE_OUT_USER 1
#define LEAVE_OUT_KERNEL 2

enum probe_part {
	PROBE_HIT = 0,
	PROBE_CALL,   /* a function is entered whose returns are sampled */
	PROBE_RETURN, /* a call of it has returned */
	PROBE_FREE,   /* of an event of allocations: a hit is no sample, but frees one */
};

enum probe_arg {
	ARG_NONE = 0, /* the value of a hit is 1 */
	ARG_REGISTER,
	ARG_MEMORY, /* at base + offset, or base + (index << scale) + offset */
	ARG_CONSTANT,
};

/* Where an argument of a probe is. */
struct probe_argument {
	__s32 offset;  /* ARG_CONSTANT: the value */
	__u8 arg : 2;  /* enum probe_arg */
	__u8 size : 2; /* of the argument, 1 << size bytes */
	__u8 is_signed : 1;
	__u8 indexed : 1;
	__u8 unused : 2;
	__u8 base; /* a register: its word in the kernel's struct pt_regs */
	__u8 index : 5, scale : 2, unused2 : 1;
	__u8 label : 4;	 /* of a label: ENTRY_INT or ENTRY_BYTES; 0: there is none */
	__u8 number : 4; /* of a label: that of the argument, from 1 */
};

/* The arguments that the program on a place reads. */
#define PROBE_LABELS 2
struct probe_arguments {
	struct probe_argument value, label[PROBE_LABELS];
};

/* Of all events: a call has two parts, an allocation has frees. */
#define PROBE_PLACES (MAX_EVENTS * 2 * 256)

/* A probe's cookie: what the program on a place of an event does. */
struct probe_cookie {
	__u32 place; /* the index of its arguments in probe_places */
	__u8 event;
	__u8 part; /* enum probe_part */
	__u16 unused;
};

#define PROBE_VALUE_MAX (1ull << 48) /* larger ones are no amounts: sums would overflow */

enum selection {
	SELECTION_NONE = 0,
	SELECTION_TGIDS = 1, /* and all their children, those to come too */
	SELECTION_TIDS = 2,
	SELECTION_CGROUP = 3,
};

_Static_assert(sizeof(struct row) % 8 == 0 && sizeof(struct row) == 96, "row");
_Static_assert(__builtin_offsetof(struct row, samples) == ROW_KEY_WORDS * 8, "the key of a row");
_Static_assert(sizeof(struct stack_ref) == 16, "stack_ref");
_Static_assert(KERNEL_FRAMES_MAX + OCCUPANT_WORDS + FUTEX_WORDS < 1 << 8 &&
		       STACK_WORDS_MAX < 1 << 12,
	       "stack_lengths_word");
_Static_assert(KERNEL_FRAMES_MAX + USER_FRAMES_MAX <= STACK_WORDS_MAX,
	       "room for the deepest user stack");
_Static_assert(sizeof(struct half) % 8 == 0, "half");
_Static_assert(sizeof(struct cpu_state) == 64, "one cache line per CPU");
_Static_assert(sizeof(struct occupant) == OCCUPANT_WORDS * 8, "occupant");
_Static_assert(sizeof(struct proc_entry) == 128, "proc_entry");
_Static_assert(sizeof(struct wire_record) == 56, "wire_record");
_Static_assert(sizeof(struct probe_cookie) == 8, "probe_cookie");
_Static_assert(sizeof(struct probe_arguments) == 24, "probe_arguments");
_Static_assert(sizeof(struct wire_copy) == 96 + (UNWIND_REGS + 1) * 8 + 32 + 128 * 8, "wire_copy");

#endif

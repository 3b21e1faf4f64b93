/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reuse of the frames that a thread had when it was sampled before.
 *
 * Most of a stack is the same from sample to sample. A step from a frame to its caller depends on
 * pc, sp and fp, on the rules, and on two words of the frame. These are the return address and the
 * saved frame pointer (unwind_walk.h, is_simple). So the steps of a walk are recorded with where
 * those words are. The next walk of the thread goes on by rules until it comes to a recorded frame
 * with the same pc, sp and fp. From there on one read of the stack shows whether the words are the
 * same as well. As far as they are, so are the callers. The walk by rules continues at the last of
 * these. Interpreted frames of HotSpot, and those of V8, have a third word, the method.
 *
 * A slot holds one thread's steps, in 3 KiB. It is found by the thread's id, so threads of one
 * CPU share slots: eight, and fewer where there are many CPUs.
 */
#ifndef ASCRIBE_REUSE_BPF_H
#define ASCRIBE_REUSE_BPF_H

#include "call_leave.bpf.h"
#include "common.bpf.h"
#include "table.bpf.h"
#include "unwind_walk.h"

#define REUSE_FRAMES 64	  /* recorded of a stack, those next to the leaf */
#define REUSE_BYTES 4096  /* of stack that are read at once */
#define REUSE_SAME 0xffff /* fp_off: the frame pointer was not saved */

enum reuse_mode {
	REUSE_OFF,
	REUSE_SEARCH,
	REUSE_RECORD,
};

/* A caller: its registers, and where in the callee's frame its pc and fp are saved. */
struct reuse_frame {
	__u64 pc, sp, fp;
	__u64 word;	      /* what stands for it in the stack; 0: its pc */
	__u64 method;	      /* what is at method_off */
	__u16 pc_off, fp_off; /* bytes above the callee's sp */
	__u16 by_fp;
	__u16 method_off; /* above its own sp: where that stands; 0: nowhere */
};

struct reuse_slot {
	__u64 ranges;	/* of the process: changes when its mappings do */
	__u64 start_ns; /* of the thread */
	__u64 bx_at;	/* of the last frame, as in struct unwind_state */
	__u32 tid;
	__u32 n; /* frames; 0: none yet */
	struct reuse_frame frame[REUSE_FRAMES];
};

_Static_assert(sizeof(struct reuse_slot) == REUSE_SLOT_BYTES,
	       "tables of them are sized by user space");

struct reuse_cpu {
	__u64 words[REUSE_BYTES / 8]; /* of the stack */
	__u64 sp;		      /* of the frame before: a recording's */
	__u32 slot_at;		      /* that of the thread in hand */
	__u32 taken;		      /* frames that this walk reused */
	__u64 searched;		      /* this walk began as a search */
	struct reuse_slot slot[];     /* cfg.reuse_mask + 1 */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, sizeof(struct reuse_cpu)); /* and its slots */
} reuse_cpus SEC(".maps");

static __always_inline struct reuse_cpu *reuse_cpu(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&reuse_cpus, &zero);
}

static __always_inline struct reuse_slot *reuse_slot(struct reuse_cpu *r)
{
	__u64 at = r->slot_at & cfg.reuse_mask;
	barrier_var(at);
	return (void *)((char *)r + sizeof(*r) + at * sizeof(struct reuse_slot));
}

static __always_inline struct reuse_frame *reuse_frame(struct reuse_slot *slot, __u32 i)
{
	__u64 at = i;
	/* Or the compiler drops the mask in loops whose bound the verifier of 6.1 does not see */
	barrier_var(at);
	return &slot->frame[at & (REUSE_FRAMES - 1)];
}

/* A walk begins: search the thread's frames where it has some, else record them. */
static __always_inline void reuse_begin(struct unwind_cpu *c, struct task_struct *t, __u64 ranges)
{
	struct reuse_cpu *r = reuse_cpu();
	c->state.reuse = REUSE_OFF;
	c->at = 0;
	if (!r)
		return;
	r->slot_at = (__u32)t->pid;
	r->taken = 0;
	r->searched = 0;
	r->sp = c->state.sp;
	struct reuse_slot *slot = reuse_slot(r);
	__u64 start_ns = t->start_boottime;
	if (slot->n && slot->tid == (__u32)t->pid && slot->ranges == ranges &&
	    slot->start_ns == start_ns) {
		c->state.reuse = REUSE_SEARCH;
		r->searched = 1;
		return;
	}
	slot->tid = (__u32)t->pid;
	slot->ranges = ranges;
	slot->start_ns = start_ns;
	slot->n = 0;
	c->state.reuse = REUSE_RECORD;
}

/* Does the next step from this frame depend on pc, sp and fp alone? */
static __always_inline bool reuse_is_plain(const struct unwind_state *s)
{
	return !(s->leaf | s->exact | s->changed_stack | s->sp_lost | s->lr_known);
}

/* Append the state's frame to the recording; the first that is not of the simple kind ends it. */
__noinline int reuse_record(void)
{
	struct unwind_cpu *c = unwind_cpu();
	struct reuse_cpu *r = reuse_cpu();
	if (!r || !c)
		return 0;
	const struct unwind_state *s = &c->state;
	struct reuse_slot *slot = reuse_slot(r);
	__u64 from = r->sp, pc_off = s->pc_at - from,
	      fp_off = s->fp_at ? s->fp_at - from : REUSE_SAME;
	__u64 method_off = s->method_at ? s->method_at - from : 0;
	__u32 n = slot->n;
	r->sp = s->sp;
	bool first = !n; /* the way to the first does not matter: nothing is reused before it */
	if (n >= REUSE_FRAMES || !reuse_is_plain(s) ||
	    (!first && (!s->pc_at || pc_off >= REUSE_BYTES || method_off >= REUSE_BYTES ||
			(s->fp_at && fp_off >= REUSE_BYTES)))) {
		if (!first)
			c->state.reuse = REUSE_OFF;
		return 0;
	}
	if (!first) { /* the callee, which has been walked by now */
		struct reuse_frame *callee = reuse_frame(slot, n - 1);
		callee->word = s->word;
		callee->method = s->method;
		callee->method_off = (__u16)method_off;
	}
	struct reuse_frame *f = reuse_frame(slot, n);
	f->pc = s->pc;
	f->sp = s->sp;
	f->fp = s->fp;
	f->by_fp = (__u16)s->by_fp;
	f->pc_off = (__u16)pc_off;
	f->fp_off = (__u16)fp_off;
	slot->bx_at = s->bx_at;
	slot->n = n + 1;
	return 0;
}

/* Is the state's frame one of those recorded? Both ascend. */
__noinline int reuse_search(void)
{
	struct unwind_cpu *c = unwind_cpu();
	struct reuse_cpu *r = reuse_cpu();
	if (!c || !r)
		return 0;
	const struct unwind_state *s = &c->state;
	struct reuse_slot *slot = reuse_slot(r);
	for (__u32 i = c->at; i < REUSE_FRAMES && i < slot->n; i++) {
		const struct reuse_frame *f = reuse_frame(slot, i);
		if (f->sp < s->sp)
			continue;
		c->at = i;
		return f->sp == s->sp && f->pc == s->pc && f->fp == s->fp && f->by_fp == s->by_fp &&
		       reuse_is_plain(s);
	}
	c->at = REUSE_FRAMES;
	c->state.reuse = REUSE_OFF;
	return 0;
}

/*
 * 0 where word `off` of the bytes read has the expected value. Without branches, like all of
 * reuse_differs(): the verifier follows each combination of branches in each turn of a loop.
 */
static __always_inline __u64 reuse_word_differs(const struct reuse_cpu *r, __u64 off, __u64 bytes,
						__u64 value, bool is_pc)
{
	/* off < 2^63: reuse_differs() */
	__u64 at = off / 8 & (REUSE_BYTES / 8 - 1), beyond = (bytes - 1 - off) >> 63;
	barrier_var(at);
	return ((is_pc ? unwind_unsigned(r->words[at]) : r->words[at]) ^ value) | (off & 7) |
	       beyond;
}

/*
 * 0 where the words read from `base` on say that `f` called `callee`, as it did when both were
 * recorded.
 */
static __always_inline __u64 reuse_differs(const struct reuse_cpu *r,
					   const struct reuse_frame *callee,
					   const struct reuse_frame *f, __u64 base, __u64 bytes)
{
	__u64 off = callee->sp - base;
	__u64 differ = off >> 62 | reuse_word_differs(r, off + f->pc_off, bytes, f->pc, true);
	__u64 saved = reuse_word_differs(r, off + f->fp_off, bytes, f->fp, false),
	      same = f->fp ^ callee->fp;
	__u64 is_same = ((__u64)(f->fp_off ^ REUSE_SAME) - 1) >> 63; /* 1: fp was not saved */
	barrier_var(is_same);
	__u64 method =
		      reuse_word_differs(r, off + callee->method_off, bytes, callee->method, false),
	      no_method = ((__u64)callee->method_off - 1) >> 63;
	barrier_var(no_method);
	return differ | (saved & (is_same - 1)) | (same & -is_same) | (method & (no_method - 1));
}

/*
 * The state's frame was found among those recorded. Write it and its callers to word `from` on at
 * the tail of half `key`, `max` at most, as far as the stack still says the same: how many. The
 * state is then at the next one.
 */
__noinline __u32 reuse_take(__u32 key, __u32 from, __u32 max)
{
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	struct unwind_cpu *c = unwind_cpu();
	struct reuse_cpu *r = reuse_cpu();
	__u64 *out = h ? stack_part(arena_ptr(h, h->arena_used), from, REUSE_FRAMES) : 0;
	if (!out || !c || !r)
		return 0;
	struct unwind_state *s = &c->state;
	struct reuse_slot *slot = reuse_slot(r);
	struct reuse_frame *f = reuse_frame(slot, c->at);
	__u64 base = s->sp;
	__u64 bytes = reuse_frame(slot, slot->n - 1)->sp - base;
	__u32 n = 0, more = slot->n - 1 - c->at;
	c->state.reuse = REUSE_OFF;
	if (bytes > REUSE_BYTES)
		bytes = REUSE_BYTES;
	barrier_var(bytes);
	if (bytes > REUSE_BYTES || bpf_probe_read_user(r->words, bytes, (void *)base))
		return 0;
	for (; n < REUSE_FRAMES && n < more && n < max; n++) {
		struct reuse_frame *caller = reuse_frame(slot, c->at + n + 1);
		if (reuse_differs(r, f, caller, base, bytes))
			break;
		__u64 is_word = -(f->word >> 63);
		out[n] = (f->word & is_word) | (f->pc & ~is_word);
		f = caller;
	}
	if (!n)
		return 0;
	s->pc = f->pc;
	s->sp = f->sp;
	s->fp = f->fp;
	s->by_fp = f->by_fp;
	if (n < more || slot->bx_at == UNWIND_BX_LOST)
		s->bx_at = UNWIND_BX_LOST;
	else if (slot->bx_at >= base) /* saved by one of the frames reused */
		s->bx_at = slot->bx_at;
	r->taken = n;
	return n;
}

/*
 * The walk is over. Where most of the frames had to be found by rules, the next one records them
 * anew.
 */
__noinline int reuse_end(void)
{
	struct unwind_cpu *c = unwind_cpu();
	struct reuse_cpu *r = reuse_cpu();
	if (c && r && r->searched && r->taken * 2 + 4 < (c->n < REUSE_FRAMES ? c->n : REUSE_FRAMES))
		reuse_slot(r)->n = 0;
	return 0;
}

/* unwind_walk.h: has the walk come to a frame that is recorded? */
static __always_inline bool unwind_is_known(struct unwind_state *s)
{
	if (cfg.calls)
		call_leave();
	if (s->reuse == REUSE_OFF)
		return false;
	return s->reuse == REUSE_SEARCH ? reuse_search() : reuse_record();
}

#endif

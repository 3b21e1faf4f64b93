/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The stacks of a sample: kernel frames, then user frames, leaf first, straight into the arena.
 *
 * User frames are found by the rules that user space has compiled from the binaries
 * (unwind_wire.h). A frame without a rule is left by the frame pointer: JIT code, Go, hand-written
 * assembler (unwind_walk.h). While the process is not known yet, and for 32-bit code, frame
 * pointers alone are followed; see copy.bpf.h. Every stack says why it ends: one counter each.
 *
 * The loops are in global functions with scalar arguments, which the verifier checks once, and the
 * state is in a map.
 */
#ifndef ASCRIBE_UNWIND_BPF_H
#define ASCRIBE_UNWIND_BPF_H

#include "common.bpf.h"
#include "labels.bpf.h"
#include "regs.bpf.h"
#include "table.bpf.h"

struct stack_lengths {
	__u32 n_kernel;
	__u32 n_user;
	__u32 n_script;
	int user_end; /* the counter that says why the user stack ends, -1 for a kernel thread */
	int later;    /* the rules for it are not in yet: user space should unwind it */
};

/* Nothing is mapped below: chains end there, and asking would cost a page fault */
#define NO_PAGE 4096

#define UNWIND_GLOBAL __noinline
#include "unwind_walk.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, UNWIND_RANGES);
	__type(key, __u32);
	__type(value, struct unwind_range);
} unwind_ranges SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, UNWIND_PAGES);
	__type(key, __u32);
	__type(value, struct unwind_page);
} unwind_pages SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, UNWIND_RULES);
	__type(key, __u32);
	__type(value, struct unwind_rule);
} unwind_rules SEC(".maps");

/* One value: user space maps it whole, and an array map's stride would make 8 bytes of each row. */
struct unwind_shard {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct unwind_rows));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, UNWIND_SHARDS);
	__type(key, __u32);
	__array(values, struct unwind_shard);
} unwind_shards SEC(".maps");

struct unwind_cpu {
	struct unwind_state state; /* first: Linux 6.1 adds no offset to what may be NULL */
	saved_regs regs;
	__u32 at; /* the recorded frame that a search has come to */
	__u32 n;  /* frames found */
	/*
	 * Rules that were found last, cfg.recalled_mask + 1. To find one anew reads some ten cache
	 * lines that the program has pushed out since; here it is one.
	 */
	struct recalled recalled[];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct unwind_cpu)); /* and what is recalled */
} unwind_states SEC(".maps");

static __always_inline struct unwind_cpu *unwind_cpu(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&unwind_states, &zero);
}

static __always_inline struct unwind_state *unwind_state(void)
{
	struct unwind_cpu *c = unwind_cpu();
	return c ? &c->state : 0;
}

static __always_inline const struct unwind_range *unwind_range_at(__u32 i)
{
	return bpf_map_lookup_elem(&unwind_ranges, &i);
}

static __always_inline const struct unwind_page *unwind_page_at(__u32 i)
{
	return bpf_map_lookup_elem(&unwind_pages, &i);
}

static __always_inline const struct unwind_rule *unwind_rule_at(__u32 i)
{
	return bpf_map_lookup_elem(&unwind_rules, &i);
}

static __always_inline const struct unwind_rows *unwind_rows_at(__u32 shard)
{
	__u32 zero = 0;
	void *inner = bpf_map_lookup_elem(&unwind_shards, &shard);
	return inner ? bpf_map_lookup_elem(inner, &zero) : 0;
}

static __always_inline long unwind_read(void *to, __u32 n, __u64 at)
{
	return bpf_probe_read_user(to, n, (void *)at);
}

static __always_inline struct recalled *recalled_at(__u32 list, __u64 at)
{
	struct unwind_cpu *c = unwind_cpu();
	__u64 i = (at ^ (__u64)list << 32) * 0x9e3779b97f4a7c15ull >> 48 & cfg.recalled_mask;
	barrier_var(i);
	return c ? (void *)((char *)c + sizeof(*c) + i * sizeof(struct recalled)) : 0;
}

static __always_inline __u32 unwind_recall(const struct unwind_state *s, __u64 at)
{
	const struct recalled *r = recalled_at(s->list, at);
	return r && r->at == at && r->list == s->list ? r->rule : 0;
}

static __always_inline void unwind_remember(const struct unwind_state *s, __u64 at, __u32 rule)
{
	struct recalled *r = recalled_at(s->list, at);
	if (r)
		*r = (struct recalled){ at, s->list, rule };
}

/* Put the state's word in the place of its frame's address in its stack. -1. */
__noinline int unwind_put(__u32 unused)
{
	struct unwind_state *s = unwind_state();
	__u32 half = s ? s->half : 0;
	struct half *h = bpf_map_lookup_elem(&halves, &half);
	__u64 *out = h && s ? stack_part(arena_ptr(h, h->arena_used), s->at, 1) : 0;
	if (out && s->word && !unused)
		*out = s->word;
	return -1;
}

#include "go_creators.bpf.h"
#include "hotspot.bpf.h"
#include "luajit_native.bpf.h"
#include "reuse.bpf.h"
#include "v8.bpf.h"

static __always_inline int unwind_made(struct unwind_state *s)
{
	return hotspot_step(0);
}

static __always_inline int unwind_unruled(struct unwind_state *s)
{
	return s->v8 ? v8_step(0) : s->vm_size ? luajit_leave(0) : -1;
}

static __always_inline int unwind_luajit(struct unwind_state *s, bool is_interpreter)
{
	return luajit_leave(is_interpreter);
}

#if defined(UNWIND_FOR_ARM64)
static __always_inline __u64 unwind_address_mask(void)
{
	return cfg.address_mask;
}
#endif

/*
 * The ranges of the current process, 0 when they are not known. Those of an ancestor will do until
 * then (proc_lender), also if it has mapped more since.
 */
__noinline __u64 unwind_ranges_of(const struct image *im)
{
	struct unwind_state *s = unwind_state();
	if (!im || !s)
		return 0;
	const struct proc_entry *e = proc_find(im), *lent = 0;
	if (!e || !e->ranges) {
		int lender = proc_lender(im, 0);
		__u32 index = (__u32)lender;
		if (lender >= 0)
			lent = bpf_map_lookup_elem(&procs, &index);
	}
	words_begin(im);
	luajit_begin(s, e ? e : lent);
	s->go = e ? e->go : lent ? lent->go : 0;
	if (e && e->ranges)
		return e->ranges;
	return lent ? lent->ranges : 0;
}

/*
 * Set the state to where the current thread left user mode, in 64-bit code. 0, or its registers
 * cannot be read.
 */
__noinline int unwind_prepare(__u64 ranges)
{
	struct unwind_cpu *c = unwind_cpu();
	struct task_struct *t = bpf_get_current_task_btf();
	if (!c)
		return -1;
	/*
	 * Entering the kernel from user mode, for whatever reason, leaves the user's registers
	 * here.
	 */
	const void *saved = (const void *)bpf_task_pt_regs(t);
	if (bpf_probe_read_kernel(&c->regs, sizeof(c->regs), saved))
		return -1;
	unwind_begin(&c->state, unwind_registers(c->state.reg, &c->regs), ranges);
	reuse_begin(c, t, ranges);
	if (c->state.vm_size) /* each frame of LuaJIT is to be seen */
		c->state.reuse = REUSE_OFF;
	c->n = 0;
	return 0;
}

/*
 * The next frames of the state's stack, up to `max` in all, behind n_kernel words and those found
 * before at the tail of half `key`. Their number, with those before, << 8 | the counter that says
 * why they end; `truncated`: there may be more.
 */
__noinline __u32 unwind_part(__u32 key, __u32 n_kernel, __u32 max)
{
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	struct unwind_cpu *c = unwind_cpu();
	if (!h || !c || c->n > max)
		return COUNTER_no_user_stack;
	c->state.half = key;
	__u32 found =
		unwind_frames(&c->state, arena_ptr(h, h->arena_used), n_kernel + c->n, max - c->n);
	c->n += found >> 8;
	if ((found & 0xff) != UNWIND_KNOWN)
		return c->n << 8 | (found & 0xff);
	if (c->n < max)
		c->n += reuse_take(key, n_kernel + c->n, max - c->n);
	return c->n << 8 | COUNTER_truncated;
}

/*
 * The user frames of the current thread, `max` at most, written behind n_kernel words at the tail
 * of half `key`: as unwind_part. Inlined: on Linux 6.1 the calls below may need no more of the
 * stack.
 */
static __always_inline __u32 unwind_user(__u32 key, __u32 n_kernel, __u64 ranges, __u32 max)
{
	__u32 found = COUNTER_no_user_stack;
	if (unwind_prepare(ranges))
		return found;
	/* One part more: a part ends early where recorded frames begin. */
	for (int i = 0; i <= USER_FRAMES_MAX / UNWIND_PART + 1; i++) {
		found = unwind_part(key, n_kernel, max);
		if ((found & 0xff) != COUNTER_truncated || found >> 8 >= max)
			break;
	}
	reuse_end();
	return found;
}

#define ASKED_RECENTLY_NS 250000000ull

/* When a new mapping was last asked about, whichever CPU did. */
__u64 mapping_asked_ns;

/*
 * The state's stack leads out of what is published: the process has mapped something since, or no
 * stack has led into this file yet. Asked once for each page. 1: an answer may be under way.
 */
__noinline int ask_about_mapping(const struct image *im)
{
	struct unwind_state *s = unwind_state();
	__u64 *cell, now = bpf_ktime_get_boot_ns();
	if (!s || !im)
		return 0;
	__u64 what = image_hash(im, s->pc >> UNWIND_PAGE_BITS);
	if (was_sent(what, &cell) || !cell)
		return s->range.page == UNWIND_PAGE_LATE ||
		       now - mapping_asked_ns < ASKED_RECENTLY_NS;
	struct wire_record r = { .kind = WIRE_NEW_MAPPING,
				 .tgid = im->tgid,
				 .exec_id = im->exec_id,
				 .start_ns = im->start_ns,
				 .pc = s->pc };
	if (ring_send(&r, sizeof(r), true))
		return 0;
	*cell = what;
	mapping_asked_ns = now;
	return 1;
}

/*
 * Follow a chain of frame pointers into the arena, as the kernel's own walk does. That takes twice
 * as long, for it reads each word by itself and always ends by a page fault. The next frames after
 * the state's, `max` at most and UNWIND_PART, to word `from` at the tail of half `key`. Words
 * written; less than it might be: the chain has ended.
 */
__noinline __u32 follow_part(__u32 key, __u32 from, __u32 max)
{
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	struct unwind_state *s = unwind_state();
	struct {
		__u64 next, ret;
	} frame;
	__u32 n = 0;
	__u64 *out = h ? stack_part(arena_ptr(h, h->arena_used), from, UNWIND_PART) : 0, fp;
	if (!out || !s)
		return 0;
	fp = s->fp;
	for (; n < UNWIND_PART && n < max; n++) {
		if (fp < NO_PAGE || bpf_probe_read_user(&frame, sizeof(frame), (void *)fp))
			break;
		out[n] = unwind_address(unwind_unsigned(frame.ret));
		fp = frame.next;
	}
	s->fp = fp;
	return n;
}

/*
 * The frames of a chain of frame pointers, 1 (ip) to `max`, behind n_kernel words at the tail of
 * half `key`: how many.
 */
__noinline __u32 follow_frames(__u32 key, __u32 n_kernel, __u64 ip, __u64 fp, __u32 max)
{
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	struct unwind_state *s = unwind_state();
	__u32 n = 1;
	__u64 *out = h ? stack_part(arena_ptr(h, h->arena_used), n_kernel, 1) : 0;
	if (!out || !s)
		return 0;
	*out = unwind_address(ip);
	s->fp = fp;
	for (int i = 0; i < USER_FRAMES_MAX / UNWIND_PART && n < max; i++) {
		__u32 more = follow_part(key, n_kernel + n, max - n);
		n += more;
		if (more < UNWIND_PART)
			break;
	}
	return n;
}

/* The user frames, behind the kernel's at the tail of half `key`. */
static __always_inline void user_stack(void *ctx, struct task_struct *t, const struct image *im,
				       __u32 key, __u64 *tail, __u32 max, struct stack_lengths *ret)
{
	__u64 at = ret->n_kernel;
	if (is_hidden(im->tgid)) {
		ret->user_end = COUNTER_hidden_process;
		return;
	}
	ret->user_end = COUNTER_no_user_stack;
	if (!t->mm) /* it is exiting */
		return;
	struct pt_regs *regs = (void *)bpf_task_pt_regs(t);
	if (is_user64(regs)) {
		__u64 ranges = unwind_ranges_of(im);
		if (ranges) {
			__u32 found = unwind_user(key, (__u32)at, ranges, max), n = found >> 8;
			if ((found & 0xff) == COUNTER_rooted && n + GO_CREATORS_MAX <= max)
				n += go_creators(key, (__u32)at + n);
			ret->n_user = n <= USER_FRAMES_MAX ? n : 0;
			ret->user_end = found & 0xff;
			if (ret->user_end == COUNTER_unwind_no_mapping)
				ret->later = ask_about_mapping(im);
			return;
		}
		ret->n_user = follow_frames(key, (__u32)at, REGS_PC(regs), REGS_FP(regs), max);
		ret->user_end = ret->n_user >= max ? COUNTER_truncated : COUNTER_frame_pointers;
		ret->later = 1;
		return;
	}
	/* 32-bit code: the kernel's walk, within the kernel's limit. */
	barrier_var(at); /* checked in the register that is used: see payload_read */
	if (at > KERNEL_FRAMES_MAX)
		return;
	long len = bpf_get_stack(ctx, tail + at, KERNEL_FRAMES_MAX * 8, BPF_F_USER_STACK);
	ret->n_user = len > 0 ? (__u32)len / 8 : 0;
	ret->user_end = !ret->n_user			? COUNTER_no_user_stack
			: ret->n_user >= cfg.max_frames ? COUNTER_truncated
							: COUNTER_frame_pointers;
}

/*
 * At the arena's tail, where there is room for STACK_WORDS_MAX words: user frames `max` at most and
 * USER_FRAMES_MAX.
 */
static __always_inline void unwind(void *ctx, struct task_struct *t, const struct image *im,
				   bool in_user, bool kthread, __u32 key, __u64 *tail, __u32 max,
				   struct stack_lengths *ret)
{
	ret->n_kernel = 0;
	ret->n_user = 0;
	ret->n_script = 0;
	ret->user_end = -1;
	ret->later = 0;
	if (!in_user) { /* a sample in user mode has no kernel frames: spare the call */
		long len = bpf_get_stack(ctx, tail, KERNEL_FRAMES_MAX * 8, 0);
		if (len > 0)
			ret->n_kernel = (__u32)len / 8;
	}
	if (!kthread)
		user_stack(ctx, t, im, key, tail, max, ret);
}

#endif

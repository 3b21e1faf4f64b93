/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The stacks of a sample: kernel frames, then user frames, leaf first, straight into the arena.
 *
 * User frames are found by the rules that user space has compiled from the binaries (unwind_wire.h), and by the frame
 * pointer for a frame without a rule: JIT code, Go, hand-written assembler. While the process is not known yet, and
 * on other machines than x86-64, frame pointers alone are followed. Every stack says why it ends: one counter each.
 *
 * An address that a call returns to may be the first one behind its function: what is looked up is the byte before
 * it, except for the leaf and for what a signal interrupted.
 *
 * The loops are in global functions with scalar arguments, which the verifier checks once, and the state is in a map.
 */
#ifndef ASCRIBE_UNWIND_BPF_H
#define ASCRIBE_UNWIND_BPF_H

#include "common.bpf.h"
#include "labels.bpf.h"
#include "table.bpf.h"

struct stack_lengths {
	__u32 n_kernel;
	__u32 n_user;
	int user_end; /* the counter that says why the user stack ends, -1 for a kernel thread */
};

#if defined(__TARGET_ARCH_x86)

#define USER_CS 0x33 /* arch/x86/include/asm/segment.h: 64-bit code */
#define NO_PAGE 4096 /* nothing is mapped below: chains end there, and asking would cost a page fault */

/* The loops below find one of 2^n in n + 1 steps. */
#define RANGE_STEPS 11
#define ROW_STEPS (UNWIND_BLOCK_BITS + 1)
_Static_assert(1 << (RANGE_STEPS - 1) >= UNWIND_PROC_RANGES_MAX, "ranges");

/*
 * Offsets in what the kernel leaves on the stack for a signal handler (arch/x86/include/uapi/asm/sigcontext.h), from
 * ucontext on.
 */
#define SIGFRAME_FP 120
#define SIGFRAME_SP 160
#define SIGFRAME_PC 168

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

struct unwind_rows {
	__u32 row[1 << UNWIND_SHARD_BITS];
};

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

struct unwind_state {
	__u64 pc, sp, fp;
	__u64 reg[16];             /* of the leaf, by DWARF number */
	struct unwind_range range; /* the one that was found last */
	__u32 first, n;            /* the process's ranges */
	__u32 leaf;
	__u32 exact; /* pc is the instruction itself, not behind a call */
	__u32 by_fp; /* the last frame was found by the frame pointer */
	__u32 unused;
	struct pt_regs regs;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct unwind_state);
} unwind_states SEC(".maps");

static __always_inline struct unwind_state *unwind_state(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&unwind_states, &zero);
}

/*
 * The ranges of the current process, 0 when they are not known. A child that has not called exec is laid out as its
 * parent is, or was: that will do until it is known itself.
 */
__noinline __u64 unwind_ranges_of(const struct image *im)
{
	if (!im)
		return 0;
	struct proc_entry *e = proc_find(im);
	if (e && e->ranges)
		return e->ranges;
	struct task_struct *t = bpf_get_current_task_btf();
	if (!(t->flags & PF_FORKNOEXEC))
		return 0;
	struct task_struct *parent = t->real_parent->group_leader;
	struct image of = { .start_ns = parent->start_boottime, .tgid = (__u32)parent->tgid,
			    .exec_id = (__u32)parent->self_exec_id };
	if (of.exec_id != im->exec_id)
		return 0;
	e = proc_find(&of);
	if (!e)
		ask_about(&of); /* a server that only waits for its children would never be sampled itself */
	return e ? e->ranges : 0;
}

static __always_inline bool in_last_range(const struct unwind_state *s, __u64 at)
{
	return at - s->range.start < s->range.end - s->range.start;
}

/* Make the range that holds `at` the state's; 0 when there is none. */
__noinline int unwind_find_range(__u64 at)
{
	struct unwind_state *s = unwind_state();
	if (!s)
		return 0;
	__u32 lo = s->first, end = s->first + s->n, hi = end;
	for (int i = 0; i < RANGE_STEPS && lo < hi; i++) {
		__u32 mid = lo + (hi - lo) / 2;
		struct unwind_range *r = bpf_map_lookup_elem(&unwind_ranges, &mid);
		if (!r)
			return 0;
		if (r->end <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	struct unwind_range *r = lo < end ? bpf_map_lookup_elem(&unwind_ranges, &lo) : 0;
	if (!r || r->start > at || r->end <= at)
		return 0;
	s->range = *r;
	return 1;
}

/* The rule at this address of the state's range, 0 for none. */
static __always_inline __u32 unwind_find_rule(const struct unwind_state *s, __u64 at)
{
	__u32 zero = 0;
	__u64 rel = at - s->range.bias;
	if (rel >> UNWIND_PAGE_BITS >= s->range.n_pages)
		return 0;
	__u32 index = s->range.page + (__u32)(rel >> UNWIND_PAGE_BITS);
	struct unwind_page *page = bpf_map_lookup_elem(&unwind_pages, &index);
	if (!page)
		return 0;
	__u32 first = page->first, lo = 0, hi = page->n, shard = first >> UNWIND_SHARD_BITS;
	void *inner = bpf_map_lookup_elem(&unwind_shards, &shard);
	if (!inner)
		return 0;
	struct unwind_rows *rows = bpf_map_lookup_elem(inner, &zero);
	if (!rows)
		return 0;
	__u32 key = (__u32)(rel & ((1 << UNWIND_PAGE_BITS) - 1)) << UNWIND_RULE_BITS | UNWIND_RULE_MASK;
	__u32 found = 0;
	for (int i = 0; i < ROW_STEPS && lo < hi; i++) {
		__u32 mid = lo + (hi - lo) / 2;
		__u64 place = (first + mid) & ((1 << UNWIND_SHARD_BITS) - 1);
		barrier_var(place);
		__u32 row = rows->row[place];
		if (row <= key) {
			found = row;
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return found & UNWIND_RULE_MASK;
}

static __always_inline bool read_word(__u64 at, __u64 *ret)
{
	return !bpf_probe_read_user(ret, sizeof(*ret), (void *)at);
}

/* Is the code at pc `mov $15, %rax; syscall`, what a C library without rules for it has signal handlers return to? */
static __always_inline bool is_sigreturn(__u64 pc)
{
	struct {
		__u64 low, high;
	} code = { 0 };
	return !bpf_probe_read_user(&code, 9, (void *)pc) && code.low == 0x0f0000000fc0c748ull &&
	       (code.high & 0xff) == 0x05;
}

/* The frames below, without a rule: the caller by the frame pointer. 0, or the counter that says why there is none. */
__noinline int unwind_by_fp(__u32 in_range)
{
	struct unwind_state *s = unwind_state();
	struct {
		__u64 fp, pc;
	} saved = { 0 };
	if (!s)
		return COUNTER_unwind_no_rule;
	__u64 fp = s->fp, sp = s->sp;
	if (in_range && !s->leaf && is_sigreturn(s->pc)) {
		if (!read_word(sp + SIGFRAME_FP, &s->fp) || !read_word(sp + SIGFRAME_PC, &s->pc) ||
		    !read_word(sp + SIGFRAME_SP, &s->sp))
			return COUNTER_unwind_fault;
		s->exact = 1;
		return 0;
	}
	if (!fp && s->by_fp)
		return COUNTER_rooted;
	if (fp < sp || fp & 7)
		return in_range ? COUNTER_unwind_no_rule : COUNTER_unwind_no_mapping;
	if (bpf_probe_read_user(&saved, sizeof(saved), (void *)fp))
		return COUNTER_unwind_fault;
	if (!saved.pc)
		return COUNTER_rooted;
	if (!in_last_range(s, saved.pc - 1) && !unwind_find_range(saved.pc - 1))
		return in_range ? COUNTER_unwind_no_rule : COUNTER_unwind_no_mapping;
	s->pc = saved.pc;
	s->fp = saved.fp;
	s->sp = fp + 16;
	s->exact = s->leaf = 0;
	s->by_fp = 1;
	return 0;
}

static __always_inline bool rule_reg(const struct unwind_state *s, __u32 reg, __u64 *ret)
{
	if (reg == UNWIND_REG_SP)
		*ret = s->sp;
	else if (reg == UNWIND_REG_FP)
		*ret = s->fp;
	else if (s->leaf)
		*ret = s->reg[reg & 15];
	else
		return false;
	return true;
}

/* The return address; false when it cannot be had: for UNWIND_RA_REG not in this frame, else it cannot be read. */
static __always_inline bool rule_pc(const struct unwind_state *s, const struct unwind_rule *r, __u32 ra, __u64 cfa,
				    __u64 *ret)
{
	__s64 off = r->ra_off;
	if (ra == UNWIND_RA_REG)
		return rule_reg(s, (__u32)off, ret);
	__u64 at = ra == UNWIND_RA_CFA ? cfa : ra == UNWIND_RA_AT_SP ? s->sp : s->fp;
	return read_word(at + off, ret);
}

/* The caller's frame pointer, which *io_fp holds already when it is the same. */
static __always_inline bool rule_fp(const struct unwind_state *s, const struct unwind_rule *r, __u64 cfa, __u64 *io_fp)
{
	__s64 off = r->fp_off;
	if (r->fp == UNWIND_FP_SAME)
		return true;
	if (r->fp == UNWIND_FP_LOST) {
		*io_fp = 0;
		return true;
	}
	__u64 at = r->fp == UNWIND_FP_CFA ? cfa : r->fp == UNWIND_FP_AT_SP ? s->sp : s->fp;
	return read_word(at + off, io_fp);
}

/*
 * From this frame to its caller, by rule `id`. 0, or the counter that says why not, or -1: the rule cannot be used
 * here.
 */
static __always_inline int unwind_by_rule(struct unwind_state *s, __u32 id)
{
	struct unwind_rule *r = bpf_map_lookup_elem(&unwind_rules, &id);
	if (!r)
		return -1;
	__u32 ra = r->ra & UNWIND_RA_KIND;
	__u64 cfa, pc = 0, fp = s->fp;
	__s64 cfa_off = r->cfa_off, fp_off = r->fp_off, ra_off = r->ra_off;

	if (ra == UNWIND_RA_ROOT)
		return COUNTER_rooted;
	if (!rule_reg(s, r->reg, &cfa))
		return -1;
	cfa += cfa_off;
	if (r->cfa == UNWIND_CFA_DEREF) {
		if (!read_word(cfa, &cfa))
			return COUNTER_unwind_fault;
		cfa += (__s64)r->cfa_add;
	} else if (r->cfa == UNWIND_CFA_PLT && (__s16)(s->pc & 15) >= r->cfa_add) {
		cfa += 8;
	}
	if (ra == UNWIND_RA_CFA && r->fp == UNWIND_FP_CFA && ra_off - fp_off == 8) { /* side by side: one read */
		struct {
			__u64 fp, pc;
		} saved;
		if (bpf_probe_read_user(&saved, sizeof(saved), (void *)(cfa + fp_off)))
			return COUNTER_unwind_fault;
		pc = saved.pc;
		fp = saved.fp;
	} else {
		if (!rule_pc(s, r, ra, cfa, &pc))
			return ra == UNWIND_RA_REG ? -1 : COUNTER_unwind_fault;
		if (!rule_fp(s, r, cfa, &fp))
			return COUNTER_unwind_fault;
	}
	s->exact = !!(r->ra & UNWIND_RA_SIGNAL);
	if (!pc)
		return COUNTER_rooted; /* what a thread's first frame returns to in some libraries */
	if (cfa <= s->sp && !s->exact && ra != UNWIND_RA_REG)
		return COUNTER_unwind_broken;
	s->pc = pc;
	s->sp = cfa;
	s->fp = fp;
	s->leaf = s->by_fp = 0;
	return 0;
}

/* From the state's frame to its caller: 0, or the counter that says why this was the last. */
__noinline int unwind_step(__u32 unused)
{
	struct unwind_state *s = unwind_state();
	if (!s || unused)
		return COUNTER_unwind_no_rule;
	__u64 at = s->exact ? s->pc : s->pc - 1;
	if (!in_last_range(s, at) && !unwind_find_range(at))
		return s->leaf ? unwind_by_fp(0) : COUNTER_unwind_no_mapping;
	__u32 id = unwind_find_rule(s, at);
	int end = id ? unwind_by_rule(s, id) : -1;
	return end < 0 ? unwind_by_fp(1) : end;
}

static __always_inline void unwind_registers(struct unwind_state *s)
{
	const struct pt_regs *r = &s->regs;
	s->pc = r->ip;
	s->sp = r->sp;
	s->fp = r->bp;
	s->reg[0] = r->ax;
	s->reg[1] = r->dx;
	s->reg[2] = r->cx;
	s->reg[3] = r->bx;
	s->reg[4] = r->si;
	s->reg[5] = r->di;
	s->reg[8] = r->r8;
	s->reg[9] = r->r9;
	s->reg[10] = r->r10;
	s->reg[11] = r->r11;
	s->reg[12] = r->r12;
	s->reg[13] = r->r13;
	s->reg[14] = r->r14;
	s->reg[15] = r->r15;
	s->leaf = s->exact = 1;
	s->by_fp = 0;
	s->range.start = s->range.end = 0;
}

/*
 * The user frames of the current thread, written behind n_kernel words at the tail of half `key`: their number << 8 |
 * the counter that says why they end. The registers are those of 64-bit user code.
 */
__noinline __u32 unwind_user(__u32 key, __u32 n_kernel, __u64 ranges)
{
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	struct unwind_state *s = unwind_state();
	struct task_struct *t = bpf_get_current_task_btf();
	if (!h || !s || n_kernel > MAX_FRAMES)
		return COUNTER_no_user_stack;
	/* Entering the kernel from user mode, for whatever reason, leaves the user's registers here. */
	const void *regs = (const void *)bpf_task_pt_regs(t);
	if (bpf_probe_read_kernel(&s->regs, sizeof(s->regs), regs))
		return COUNTER_no_user_stack;
	unwind_registers(s);
	s->first = (__u32)ranges;
	s->n = (__u32)(ranges >> 32);
	__u64 *out = arena_ptr(h, h->arena_used);
	int end = 0;
	__u32 n = 0;
	for (; n < MAX_FRAMES; n++) {
		__u64 at = n_kernel + n;
		barrier_var(at);
		if (at >= 2 * MAX_FRAMES)
			break;
		/* Whoever names it looks at the byte before, too, except for the leaf. */
		out[at] = s->exact && !s->leaf ? s->pc + 1 : s->pc;
		end = unwind_step(0);
		if (end) {
			n++;
			break;
		}
	}
	return n << 8 | (__u32)(end ? end : COUNTER_truncated);
}

/*
 * The state's stack leads out of what is published: the process has mapped something since. Asked once for each page.
 */
__noinline int ask_about_mapping(const struct image *im)
{
	struct unwind_state *s = unwind_state();
	__u64 *cell;
	if (!s || !im)
		return 0;
	__u64 what = image_hash(im, s->pc >> UNWIND_PAGE_BITS);
	if (was_sent(what, &cell) || !cell)
		return 0;
	struct wire_record r = { .kind = WIRE_NEW_MAPPING, .tgid = im->tgid, .exec_id = im->exec_id,
				 .start_ns = im->start_ns };
	if (!ring_send(&r, sizeof(r), true))
		*cell = what;
	return 0;
}

_Static_assert(N_COUNTERS < 256, "a counter fits into 8 bits");

/*
 * Follow a chain of frame pointers into the arena, as the kernel's own walk does, which takes twice as long: it reads
 * each word by itself and always ends by a page fault. Words written: 1 (ip) or more.
 */
__noinline __u32 follow_frames(__u32 key, __u32 at, __u64 ip, __u64 fp)
{
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	struct {
		__u64 next, ret;
	} frame;
	__u32 n = 1;
	if (!h)
		return 0;
	__u64 *out = arena_ptr(h, at);
	out[0] = ip;
	for (; n < MAX_FRAMES && n < cfg.max_frames; n++) {
		if (fp < NO_PAGE || bpf_probe_read_user(&frame, sizeof(frame), (void *)fp))
			break;
		out[n] = frame.ret;
		fp = frame.next;
	}
	return n;
}
#endif

/* The user frames, behind the kernel's at the tail of half `key`. */
static __always_inline void user_stack(void *ctx, struct task_struct *t, const struct image *im, struct half *h,
				       __u32 key, __u64 *tail, struct stack_lengths *ret)
{
	__u64 at = ret->n_kernel;
	barrier_var(at); /* checked in the register that is used: see payload_read */
	if (at > MAX_FRAMES)
		return;
#if defined(__TARGET_ARCH_x86)
	ret->user_end = COUNTER_no_user_stack;
	if (!t->mm) /* it is exiting */
		return;
	struct pt_regs *regs = (void *)bpf_task_pt_regs(t);
	if (*(volatile __u16 *)&regs->cs == USER_CS) {
		__u64 ranges = unwind_ranges_of(im);
		if (ranges) {
			__u32 found = unwind_user(key, (__u32)at, ranges), n = found >> 8;
			ret->n_user = n <= MAX_FRAMES ? n : 0;
			ret->user_end = found & 0xff;
			if (ret->user_end == COUNTER_unwind_no_mapping)
				ask_about_mapping(im);
			return;
		}
		ret->n_user = follow_frames(key, h->arena_used + (__u32)at, regs->ip, regs->bp);
		ret->user_end = ret->n_user >= cfg.max_frames ? COUNTER_truncated : COUNTER_frame_pointers;
		return;
	}
#endif
	long len = bpf_get_stack(ctx, tail + at, MAX_FRAMES * 8, BPF_F_USER_STACK);
	ret->n_user = len > 0 ? (__u32)len / 8 : 0;
	ret->user_end = !ret->n_user ? COUNTER_no_user_stack :
			ret->n_user >= cfg.max_frames ? COUNTER_truncated : COUNTER_frame_pointers;
}

/* At the arena's tail, where there is room for 2 * MAX_FRAMES words. */
static __always_inline void unwind(void *ctx, struct task_struct *t, const struct image *im, bool in_user, bool kthread,
				   struct half *h, __u32 key, __u64 *tail, struct stack_lengths *ret)
{
	ret->n_kernel = 0;
	ret->n_user = 0;
	ret->user_end = -1;
	if (!in_user) { /* a sample in user mode has no kernel frames: spare the call */
		long len = bpf_get_stack(ctx, tail, MAX_FRAMES * 8, 0);
		if (len > 0)
			ret->n_kernel = (__u32)len / 8;
	}
	if (!kthread)
		user_stack(ctx, t, im, h, key, tail, ret);
}

#endif

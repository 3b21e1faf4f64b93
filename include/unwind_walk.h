/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From a frame to its caller, by the rules of unwind_wire.h and by the frame pointer. One source
 * for two places: the BPF program on the running thread (bpf/unwind.bpf.h), and user space on a
 * copy of a stack (user/unwind/walk.c).
 *
 * Whoever includes this has defined __always_inline, barrier_var, bool and UNWIND_GLOBAL. The last
 * one is of functions that the verifier is to check once, by themselves: scalar arguments only.
 * Whoever includes this also defines the functions that are declared below, on arm64 also
 * unwind_address_mask.
 *
 * An address that a call returns to may be the first one behind its function. So the byte before it
 * is looked up, except for the leaf and for what a signal interrupted.
 */
#ifndef ASCRIBE_UNWIND_WALK_H
#define ASCRIBE_UNWIND_WALK_H

#include "wire.h"

/* The loops below find one of 2^n in n + 1 steps. */
#define RANGE_STEPS 11
#define ROW_STEPS (UNWIND_BLOCK_BITS + 1)
_Static_assert(1 << (RANGE_STEPS - 1) >= UNWIND_PROC_RANGES_MAX, "ranges");

/* What is known of the frame that the walk has come to. */
struct unwind_state {
	__u64 pc, sp, fp;
	__u64 reg[UNWIND_REGS];	   /* of the leaf, by DWARF number */
	struct unwind_range range; /* the one that was found last */
	__u32 first, n;		   /* the process's ranges */
	__u32 v8;		   /* 1 + index of its V8's layout; 0: none (v8_wire.h) */
	__u32 list;		   /* its number */
	__u64 vm, vm_size;	   /* of the program: its LuaJIT's interpreter; size 0: none */
	__u64 go;		   /* of the program: GO_LAYOUT of go_wire.h; 0: none */
	__u32 leaf;
	__u32 exact; /* pc is the instruction itself, not behind a call */
	__u32 by_fp; /* the last frame was found by the frame pointer */
	__u32 changed_stack;
	__u64 bx_at; /* x86-64: where this frame's rbx is in memory; or one of UNWIND_BX_* */
	/*
	 * Where this frame's pc and fp were read; pc_at 0: not in this simple way; fp_at 0: fp is
	 * the callee's
	 */
	__u64 pc_at, fp_at;
	__u32 reuse;	 /* of bpf/reuse.bpf.h */
	__u32 sp_lost;	 /* arm64: sp is only known to be no lower */
	__u32 lr_known;	 /* arm64: reg[UNWIND_ARM_LR] is this frame's, though it is not the leaf */
	__u64 word;	 /* what stands for this frame in its stack; 0: its address */
	__u64 method;	 /* what that word depends on, */
	__u64 method_at; /* and where it stands in the frame; 0: nowhere */
	__u32 half, at;	 /* of the program: where the frame's word is in the arena */
};

struct unwind_rows {
	__u32 row[1 << UNWIND_SHARD_BITS];
};

/* One for each CPU or thread. */
static __always_inline struct unwind_state *unwind_state(void);

/* An element of the arrays of unwind_wire.h, NULL when there is none. */
static __always_inline const struct unwind_range *unwind_range_at(__u32 i);
static __always_inline const struct unwind_page *unwind_page_at(__u32 i);
static __always_inline const struct unwind_rule *unwind_rule_at(__u32 i);
static __always_inline const struct unwind_rows *unwind_rows_at(__u32 shard);

/* The rule at this address of the process, if it was found before and is still at hand; else 0. */
static __always_inline __u32 unwind_recall(const struct unwind_state *s, __u64 at);
static __always_inline void unwind_remember(const struct unwind_state *s, __u64 at, __u32 rule);

/*
 * The state has come to a caller. True: what includes this knows the frames from here on, and the
 * walk pauses.
 */
static __always_inline bool unwind_is_known(struct unwind_state *s);

/*
 * The state's frame is in a range of UNWIND_PAGE_MADE. Step to its caller, and set s->word. As
 * unwind_step; -1: by the frame pointer.
 */
static __always_inline int unwind_made(struct unwind_state *s);

/*
 * There is no rule for the state's frame. Set s->word, if it is known. As unwind_step; -1: by the
 * frame pointer.
 */
static __always_inline int unwind_unruled(struct unwind_state *s);

/*
 * The state's frame is of LuaJIT's interpreter, or may be of code that LuaJIT made. As unwind_step;
 * -1: it is of none.
 */
static __always_inline int unwind_luajit(struct unwind_state *s, bool is_interpreter);

/* n bytes at `at` of the process. 0, or negative when they cannot all be read. */
static __always_inline long unwind_read(void *to, __u32 n, __u64 at);
static __always_inline bool in_last_range(const struct unwind_state *s, __u64 at)
{
	return at - s->range.start < s->range.end - s->range.start;
}

/* Make the range that holds `at` the state's; 0 when there is none. */
UNWIND_GLOBAL int unwind_find_range(__u64 at)
{
	struct unwind_state *s = unwind_state();
	if (!s)
		return 0;
	__u32 lo = s->first, end = s->first + s->n, hi = end;
	for (int i = 0; i < RANGE_STEPS && lo < hi; i++) {
		__u32 mid = lo + (hi - lo) / 2;
		const struct unwind_range *r = unwind_range_at(mid);
		if (!r)
			return 0;
		if (r->end <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	const struct unwind_range *r = lo < end ? unwind_range_at(lo) : 0;
	if (!r || r->start > at || r->end <= at)
		return 0;
	s->range = *r;
	return 1;
}

/* The rule at this address of the state's range, 0 for none. */
static __always_inline __u32 unwind_find_rule(const struct unwind_state *s, __u64 at)
{
	__u64 rel = at - s->range.bias;
	if (rel >> UNWIND_PAGE_BITS >= s->range.n_pages)
		return 0;
	__u32 index = s->range.page + (__u32)(rel >> UNWIND_PAGE_BITS);
	const struct unwind_page *page = unwind_page_at(index);
	if (!page)
		return 0;
	__u32 first = page->first, lo = 0, hi = page->n, shard = first >> UNWIND_SHARD_BITS;
	const struct unwind_rows *rows = unwind_rows_at(shard);
	if (!rows)
		return 0;
	__u32 key =
		(__u32)(rel & ((1 << UNWIND_PAGE_BITS) - 1)) << UNWIND_RULE_BITS | UNWIND_RULE_MASK;
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
	return !unwind_read(ret, sizeof(*ret), at);
}

/*
 * From one stack down to another, at least. In Go both may lie side by side in the heap. The upper
 * one, that of the runtime, has 16 KiB, and the walk is near its top when it leaves it.
 */
#define FAR_AWAY (1u << 13)

static __always_inline bool is_code(struct unwind_state *s, __u64 at)
{
	return in_last_range(s, at) || unwind_find_range(at);
}

#if defined(UNWIND_FOR_ARM64)
#include "unwind_arm64.h"
#else
#include "unwind_x86.h"
#endif

/*
 * May a chain of frame pointers go on downwards? Go's runtime runs some of its functions on another
 * stack, and their callers' frames stay on that of the goroutine. Once, and far away: a loop is no
 * other stack.
 */
static __always_inline bool unwind_change_stack(struct unwind_state *s)
{
	if (s->changed_stack || s->fp & 7 || s->fp < FAR_AWAY || s->fp + FAR_AWAY > s->sp)
		return false;
	s->changed_stack = 1;
	return true;
}

static __always_inline bool sp_known(const struct unwind_state *s)
{
	return FRAME_ENDS_AT_FP || !s->sp_lost;
}

#define FRAME_MAX (1u << 20)

/*
 * Is what stands at fp likely to be a frame, whose caller is code that nobody knows of yet (made at
 * run time)? Then its mapping is what is missing, not a rule.
 */
static __always_inline bool leads_on(__u64 fp, __u64 next, __u64 pc)
{
	return next > fp && next - fp < FRAME_MAX && !(next & 7) && pc >= FAR_AWAY && !(pc >> 56);
}

/*
 * The frames below, without a rule: the caller by the frame pointer. 0, or the counter that says
 * why there is none.
 */
UNWIND_GLOBAL int unwind_by_fp(__u32 in_range)
{
	struct unwind_state *s = unwind_state();
	struct {
		__u64 fp, pc;
	} saved = { 0 };
	if (!s)
		return COUNTER_unwind_no_rule;
	__u64 fp = s->fp, sp = s->sp;
	s->pc_at = 0;
	if (in_range && sp_known(s) && at_sigreturn(s)) {
		if (!unwind_signal(s))
			return COUNTER_unwind_fault;
		s->leaf = 0;
		s->exact = 1;
		s->bx_at = UNWIND_BX_LOST;
		return 0;
	}
	if (in_range && s->exact && !unwind_bare(s))
		goto out;
	if (!fp && s->by_fp)
		return COUNTER_rooted;
	/* The leaf may be what has just changed the stack pointer. */
	if ((fp + FP_BELOW_SP < sp || fp & 7) &&
	    !(in_range && (s->by_fp || s->leaf) && unwind_change_stack(s)))
		return in_range ? COUNTER_unwind_no_rule : COUNTER_unwind_no_mapping;
	if (unwind_read(&saved, sizeof(saved), fp))
		return COUNTER_unwind_fault;
	saved.pc = unwind_unsigned(saved.pc);
	if (!saved.pc)
		return COUNTER_rooted;
	if (!is_code(s, saved.pc - 1)) {
		if (!in_range || !leads_on(fp, saved.fp, saved.pc))
			return in_range ? COUNTER_unwind_no_rule : COUNTER_unwind_no_mapping;
		s->pc = saved.pc;
		return COUNTER_unwind_no_mapping;
	}
	s->pc = saved.pc;
	s->fp = saved.fp;
	s->sp = fp + 16;
	s->fp_at = fp;
	s->pc_at = fp + 8;
	s->sp_lost = !FRAME_ENDS_AT_FP;
out:
	s->exact = s->leaf = s->lr_known = 0;
	s->by_fp = 1;
	s->bx_at = UNWIND_BX_LOST;
	return 0;
}

static __always_inline bool rule_reg(const struct unwind_state *s, __u32 reg, __u64 *ret)
{
	if (reg == UNWIND_REG_SP) {
		*ret = s->sp;
		return sp_known(s);
	}
	if (reg != UNWIND_REG_FP)
		return other_reg(s, reg, ret);
	*ret = s->fp;
	return true;
}

/*
 * The return address; false when it cannot be had: for UNWIND_RA_REG not in this frame, else it
 * cannot be read.
 */
static __always_inline bool rule_pc(const struct unwind_state *s, const struct unwind_rule *r,
				    __u32 ra, __u64 cfa, __u64 *ret)
{
	__s64 off = r->ra_off;
	if (ra == UNWIND_RA_REG)
		return rule_reg(s, (__u32)off, ret);
	__u64 at = ra == UNWIND_RA_CFA ? cfa : ra == UNWIND_RA_AT_SP ? s->sp : s->fp;
	return read_word(at + off, ret);
}

/*
 * The caller's frame pointer, which *io_fp holds already when it is the same. Where it cannot be
 * read it is lost, or popped already. At the end of functions that realign their stack compilers
 * say where it no longer is; few callers need it.
 */
static __always_inline void rule_fp(const struct unwind_state *s, const struct unwind_rule *r,
				    __u64 cfa, __u64 *io_fp)
{
	__s64 off = r->fp_off;
	if (r->fp == UNWIND_FP_SAME)
		return;
	__u64 at = r->fp == UNWIND_FP_CFA ? cfa : r->fp == UNWIND_FP_AT_SP ? s->sp : s->fp;
	at += off;
	if (r->fp != UNWIND_FP_LOST && read_word(at, io_fp))
		return;
	*io_fp = 0;
#if defined(UNWIND_MEMORY_IS_A_COPY) /* which may begin at the stack pointer */
	if (r->fp != UNWIND_FP_LOST && s->leaf && at < s->sp)
		*io_fp = s->fp;
#endif
}

/* Does the step by this rule depend on nothing but pc, sp and fp, and on two words in the frame? */
static __always_inline bool is_simple(const struct unwind_rule *r)
{
	return r->ra == UNWIND_RA_CFA && (r->fp == UNWIND_FP_SAME || r->fp == UNWIND_FP_CFA) &&
	       (r->cfa == UNWIND_CFA_REG || r->cfa == UNWIND_CFA_PLT) &&
	       (r->reg == UNWIND_REG_SP || r->reg == UNWIND_REG_FP);
}

/*
 * From this frame to its caller, by rule `id`. 0, or the counter that says why not, or -1: the rule
 * cannot be used here.
 */
static __always_inline int unwind_by_rule(struct unwind_state *s, __u32 id)
{
	const struct unwind_rule *r = unwind_rule_at(id);
	if (!r)
		return -1;
	__u32 ra = r->ra & UNWIND_RA_KIND;
	__u64 cfa;
	struct {
		__u64 fp, pc;
	} to; /* the one place of both: no subprogram may need more of the stack */
	__s64 cfa_off = r->cfa_off, fp_off = r->fp_off, ra_off = r->ra_off;

	if (ra == UNWIND_RA_ROOT)
		return COUNTER_rooted;
	if (!rule_reg(s, r->reg, &cfa) || (ra == UNWIND_RA_AT_SP && !sp_known(s)))
		return -1;
	if (r->cfa == UNWIND_CFA_INDEX)
		cfa = s->sp + 8 * cfa;
	cfa += cfa_off;
	if (r->cfa == UNWIND_CFA_DEREF || r->cfa == UNWIND_CFA_INDEX) {
		if (!read_word(cfa, &cfa))
			return COUNTER_unwind_fault;
		cfa += (__s64)r->cfa_add;
	} else if (r->cfa == UNWIND_CFA_PLT && (__s16)(s->pc & 15) >= r->cfa_add) {
		cfa += 8;
	}
	if (ra != UNWIND_RA_CFA || r->fp != UNWIND_FP_CFA || ra_off - fp_off != 8 ||
	    unwind_read(&to, sizeof(to), cfa + fp_off)) { /* not side by side, which is one read */
		to.fp = s->fp;
		if (!rule_pc(s, r, ra, cfa, &to.pc))
			return ra == UNWIND_RA_REG ? -1 : COUNTER_unwind_fault;
		rule_fp(s, r, cfa, &to.fp);
	}
	s->exact = !!(r->ra & UNWIND_RA_SIGNAL);
	s->pc_at = is_simple(r) ? cfa + ra_off : 0;
	s->fp_at = r->fp == UNWIND_FP_CFA ? cfa + fp_off : 0;
	to.pc = unwind_unsigned(to.pc);
	if (!to.pc)
		/* What a thread's first frame returns to in some libraries */
		return COUNTER_rooted;
	if (RA_IN_FRAME && ra == UNWIND_RA_CFA && ra_off >= 0)
		cfa += ra_off + 8;
	bool go = r->cfa == UNWIND_CFA_GO;
	if (cfa <= s->sp && !s->exact && ra != UNWIND_RA_REG &&
	    !(RA_IN_FRAME && s->leaf && cfa == s->sp) && !(go && unwind_change_stack(s)))
		return COUNTER_unwind_broken;
	s->pc = to.pc;
	s->sp = cfa;
	s->fp = to.fp;
	s->by_fp = go;
	s->leaf = s->sp_lost = s->lr_known = 0;
	if (s->exact || go || r->cfa == UNWIND_CFA_DEREF || r->cfa == UNWIND_CFA_INDEX)
		s->bx_at = UNWIND_BX_LOST;
	else if (r->cfa == UNWIND_CFA_REG && r->cfa_add != UNWIND_BX_SAME)
		s->bx_at = r->cfa_add == UNWIND_BX_LOST ? UNWIND_BX_LOST : cfa + (__s64)r->cfa_add;
	return 0;
}

/* From the state's frame to its caller: 0, or the counter that says why this was the last. */
UNWIND_GLOBAL int unwind_step(__u32 unused)
{
	struct unwind_state *s = unwind_state();
	if (!s || unused)
		return COUNTER_unwind_no_rule;
	s->word = s->method = s->method_at = 0;
	__u64 at = s->exact ? s->pc : s->pc - 1;
	const bool in_vm = at - s->vm < s->vm_size;
	int end = in_vm ? unwind_luajit(s, true) : -1;
	if (end >= 0)
		return end;
	__u32 id = unwind_recall(s, at);
	if (!id && !is_code(s, at)) {
		end = s->vm_size ? unwind_luajit(s, false) : -1;
		if (end >= 0)
			return end;
		/* What a signal handler returns to may be the first of its mapping. */
		if (!s->leaf && is_code(s, at + 1))
			return unwind_by_fp(1);
		return s->leaf ? unwind_by_fp(0) : COUNTER_unwind_no_mapping;
	}
	if (!id && s->range.page == UNWIND_PAGE_LATE)
		return COUNTER_unwind_no_mapping;
	if (!id && s->range.page == UNWIND_PAGE_MADE) {
		end = unwind_made(s);
		return end < 0 ? unwind_by_fp(1) : end;
	}
	if (!id) {
		id = unwind_find_rule(s, at);
		unwind_remember(s, at, id);
	}
	end = id ? unwind_by_rule(s, id) : unwind_unruled(s);
	if (end >= 0)
		return end;
	is_code(s, at); /* the range of a rule that was recalled */
	return unwind_by_fp(1);
}

/* The state's frame is the one that was interrupted: its registers by DWARF number. */
static __always_inline void unwind_begin(struct unwind_state *s, __u64 pc, __u64 ranges)
{
	s->pc = pc;
	s->sp = s->reg[UNWIND_REG_SP];
	s->fp = s->reg[UNWIND_REG_FP];
	s->leaf = s->exact = 1;
	s->by_fp = s->changed_stack = s->sp_lost = s->lr_known = 0;
	s->bx_at = UNWIND_BX_SAME;
	s->pc_at = s->fp_at = 0;
	s->range.start = s->range.end = s->range.page = 0;
	s->first = UNWIND_LIST_FIRST(ranges);
	s->n = UNWIND_LIST_N(ranges);
	s->v8 = UNWIND_LIST_V8(ranges);
	s->list = UNWIND_LIST_NUMBER(ranges);
}

/*
 * The verifier follows each turn of a loop: long stacks are walked in parts, by a function that it
 * checks once.
 */
#define UNWIND_PART 32
#define UNWIND_KNOWN 255

/*
 * What stands where a return address should be may be any word. Those that are no addresses of user
 * code may be frames of code made at run time (hotspot_wire.h, v8_wire.h): 1 instead, where no code
 * is.
 */
static __always_inline __u64 unwind_address(__u64 pc)
{
	return pc >> 56 ? 1 : pc;
}

/*
 * The frames from the state's on, `max` at most and UNWIND_PART, to out[from], out[from + 1], ...
 * below KERNEL_FRAMES_MAX + USER_FRAMES_MAX: their number << 8 | the counter that says why they
 * end, or UNWIND_KNOWN. After that and after `truncated` the state is at the next frame.
 */
static __always_inline __u32 unwind_frames(struct unwind_state *s, __u64 *out, __u32 from,
					   __u32 max)
{
	int end = 0;
	__u32 n = 0;
	for (; n < UNWIND_PART && n < max; n++) {
		__u64 at = from + n;
		barrier_var(at);
		if (at >= KERNEL_FRAMES_MAX + USER_FRAMES_MAX)
			break;
		/* Whoever names it looks at the byte before, too, except for the leaf. */
		out[at] = unwind_address(s->exact && !s->leaf ? s->pc + 1 : s->pc);
		s->at = (__u32)at;
		end = unwind_step(0);
		if (!end && unwind_is_known(s))
			end = UNWIND_KNOWN;
		if (end) {
			n++;
			break;
		}
	}
	return n << 8 | (__u32)(end ? end : COUNTER_truncated);
}

_Static_assert(N_COUNTERS < UNWIND_KNOWN, "a counter fits into 8 bits");

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * LuaJIT on the native stack, for unwind.bpf.h: note the lua_States that run there, for the frames
 * on their own stacks (luajit.bpf.h), and step to the callers of:
 *
 *   the interpreter  by its frame on the C stack, which has a fixed size and leads to the state
 *   compiled code    has neither rules nor a frame pointer. A register, or what an earlier stack of
 *                    the thread left, leads to the global state, to the running state, and so to
 *                    the interpreter's frame that this code was entered from
 *
 * Both end up behind the interpreter's frame, so the stack has one frame for the two. Each state is
 * believed when the global state that it leads to is running a state of the same.
 */
#ifndef ASCRIBE_LUAJIT_NATIVE_BPF_H
#define ASCRIBE_LUAJIT_NATIVE_BPF_H

#include "common.bpf.h"
#include "labels.bpf.h"
#include "luajit_wire.h"
#include "script_wire.h"
#include "unwind_walk.h"

#define LUAJIT_STATES 16u      /* of one stack: coroutines that resumed each other */
#define LUAJIT_FRAME_FAR 4096u /* bytes from where compiled code may be to the frame above it */
#define LUAJIT_FOUND_MAX 4096u /* a power of two */
#define LUAJIT_INSIDE 16u      /* a place in the interpreter's code that stands for all of it */

struct luajit_cpu {
	__u64 dispatch;
	__u64 base, pc;		    /* of the innermost state; 0: as the state says; not known */
	__u64 n;		    /* states */
	__u64 state[LUAJIT_STATES]; /* innermost first */
	struct luajit_state read;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct luajit_cpu);
} luajit_cpus SEC(".maps");

/*
 * The global states of threads, by a hash of each. What is there may be of another thread, or of
 * one that is gone.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LUAJIT_FOUND_MAX);
	__type(key, __u32);
	__type(value, __u64);
} luajit_found SEC(".maps");

static __always_inline struct luajit_cpu *luajit_cpu(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&luajit_cpus, &zero);
}

/* A walk begins, of this process. */
static __always_inline void luajit_begin(struct unwind_state *s, const struct proc_entry *e)
{
	struct luajit_cpu *l = luajit_cpu();
	const __u64 layout = e ? e->script_layout : 0;
	s->vm_size = 0;
	if (!l)
		return;
	l->n = 0;
	if (!e || SCRIPT_LAYOUT_LANGUAGE(layout) != SCRIPT_LUAJIT || !e->script_at)
		return;
	__u64 i = layout & (LUAJIT_LAYOUTS - 1);
	barrier_var(i); /* the verifier must see the mask */
	l->dispatch = luajit_layouts[i].dispatch;
	s->vm = e->script_at;
	s->vm_size = SCRIPT_LAYOUT_WAY(layout);
}

static __always_inline __u64 *luajit_global(void)
{
	const __u64 id = bpf_get_current_pid_tgid();
	__u32 key = (__u32)mix(id, id >> 32) & (LUAJIT_FOUND_MAX - 1);
	return bpf_map_lookup_elem(&luajit_found, &key);
}

/* Read the state at `at`: 0, or it is none. */
static __always_inline int luajit_read(struct luajit_cpu *l, __u64 at)
{
	if (!at ||
	    bpf_probe_read_user(&l->read, sizeof(l->read), (void *)(at + LUAJIT_STATE_GLOBAL)))
		return -1;
	const __u64 current = user_word(l->read.global + LUAJIT_GLOBAL_STATE);
	return current && user_word(current + LUAJIT_STATE_GLOBAL) == l->read.global ? 0 : -1;
}

/* Note the state that was read. */
static __always_inline void luajit_note(struct luajit_cpu *l, __u64 state, __u64 base, __u64 pc)
{
	__u64 n = l->n, *global = luajit_global();
	if (global)
		*global = l->read.global;
	if (!n) {
		l->base = base;
		l->pc = pc;
	} else {
		__u64 last = (n - 1) & (LUAJIT_STATES - 1);
		barrier_var(last);
		if (l->state[last] == state)
			return;
	}
	barrier_var(n);
	if (n < LUAJIT_STATES) {
		l->state[n] = state;
		l->n = n + 1;
	}
}

/* Note the lua_State that was read, of the interpreter at work: its registers tell more. */
static __always_inline void luajit_note_leaf(struct luajit_cpu *l, const struct unwind_state *s,
					     __u64 state)
{
	const __u64 base = s->reg[LUAJIT_REG_BASE];
	const bool is = !(base & 7) && base > l->read.stack + 8 && base <= l->read.max;
	luajit_note(l, state, is ? base : 0, s->reg[LUAJIT_REG_PC]);
}

/* The state's pc is in the interpreter's code, and its sp where that runs: note whose. 0: so. */
__noinline int luajit_interpreter(__u32 unused)
{
	struct unwind_state *s = unwind_state();
	struct luajit_cpu *l = luajit_cpu();
	if (!s || !l || unused)
		return -1;
	const __u64 at = user_word(s->sp + LUAJIT_FRAME_STATE);
	if (luajit_read(l, at))
		return -1;
	if (s->leaf)
		luajit_note_leaf(l, s, at);
	else
		luajit_note(l, at, 0, user_word(s->sp + LUAJIT_FRAME_PC));
	return 0;
}

/*
 * The state's frame may be of compiled code. Set its sp to that of the interpreter's frame above,
 * and note whose that is. 0: so.
 */
__noinline int luajit_compiled(__u32 is_interpreter)
{
	struct unwind_state *s = unwind_state();
	struct luajit_cpu *l = luajit_cpu();
	__u64 *found = luajit_global();
	if (!s || !l || !found)
		return -1;
	const __u64 global = s->leaf ? s->reg[LUAJIT_REG_DISPATCH] - l->dispatch : *found;
	const __u64 at = user_word(global + LUAJIT_GLOBAL_STATE);
	const __u64 base = user_word(global + LUAJIT_GLOBAL_BASE);
	if ((!base && !is_interpreter) || luajit_read(l, at) || l->read.global != global)
		return -1;
	const __u64 frame = l->read.frame & ~3ull;
	if (frame - s->sp > LUAJIT_FRAME_FAR || user_word(frame + LUAJIT_FRAME_STATE) != at)
		return -1;
	if (!base && s->leaf)
		luajit_note_leaf(l, s, at);
	else
		luajit_note(l, at, base, 0);
	s->sp = frame;
	return 0;
}

/*
 * The state's process runs LuaJIT, and its frame is of the interpreter, or has no rule. Step to its
 * caller, if it is of LuaJIT. As unwind_step; -1: it is not.
 */
__noinline int luajit_leave(__u32 is_interpreter)
{
	struct unwind_state *s = unwind_state();
	struct {
		__u64 bp, ret;
	} saved;
	if (!s)
		return -1;
	/* While registers are saved for a call or an exit, the stack pointer is elsewhere. */
	if ((!is_interpreter || luajit_interpreter(0)) && luajit_compiled(is_interpreter))
		return -1;
	if (unwind_read(&saved, sizeof(saved), s->sp + LUAJIT_FRAME_BP))
		return COUNTER_unwind_fault;
	if (!is_interpreter) {
		s->word = s->vm + LUAJIT_INSIDE;
		unwind_put(0);
	}
	s->pc = saved.ret;
	s->fp = saved.bp;
	s->bx_at = s->sp + LUAJIT_FRAME_BX;
	s->sp += LUAJIT_FRAME_BYTES;
	s->pc_at = s->fp_at = 0;
	s->leaf = s->exact = s->by_fp = 0;
	return 0;
}

#endif

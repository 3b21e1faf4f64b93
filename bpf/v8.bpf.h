/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which function of JavaScript a frame of V8 belongs to (include/v8_wire.h). The frame itself is
 * left by its frame pointer, as all code without rules. Each frame proves that it is one: context,
 * function, and a SharedFunctionInfo and a ScopeInfo by their maps.
 */
#ifndef ASCRIBE_V8_BPF_H
#define ASCRIBE_V8_BPF_H

#include "common.bpf.h"
#include "unwind_walk.h"
#include "v8_wire.h"
#include "words.bpf.h"

#define V8_SHARED_MAX 64 /* bytes of a SharedFunctionInfo, at most */

struct v8_cpu {
	/* Maps that were found to be of these types. They do not move, and isolates share them. */
	__u64 shared_map, scope_map;
	__u64 shared[V8_SHARED_MAX / 8 + 1];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct v8_cpu);
} v8_cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, V8_LAYOUTS);
	__type(key, __u32);
	__type(value, struct v8_layout);
} v8_layouts SEC(".maps");

static __always_inline struct v8_cpu *v8_cpu(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&v8_cpus, &zero);
}

static __always_inline const struct v8_layout *v8_layout(const struct unwind_state *s)
{
	__u32 i = s->v8 - 1;
	return bpf_map_lookup_elem(&v8_layouts, &i);
}

static __always_inline bool v8_is_pointer(__u64 v)
{
	return (v & V8_TAG_MASK) == V8_TAG && !(v >> 47);
}

/* A field of the SharedFunctionInfo that was read. */
static __always_inline __u64 v8_field(const struct v8_cpu *c, __u64 at)
{
	at &= V8_SHARED_MAX - 1;
	barrier_var(at);
	return *(const __u64 *)((const __u8 *)c->shared + (at & (V8_SHARED_MAX - 1)));
}

/* Is this the map of objects of a type? *io_known: one that was found to be. */
static __always_inline bool v8_is_map(const struct v8_layout *l, __u64 map, __u16 type,
				      __u64 *io_known)
{
	__u16 is = 0;
	if (map == *io_known)
		return true;
	if (!v8_is_pointer(map) ||
	    bpf_probe_read_user(&is, sizeof(is), (void *)(map - V8_TAG + l->instance_type)) ||
	    is != type)
		return false;
	*io_known = map;
	return true;
}

/* The state's frame belongs to this JSFunction, if it is one: name it. */
__noinline int v8_name(__u64 function)
{
	struct unwind_state *s = unwind_state();
	struct v8_cpu *c = v8_cpu();
	const struct v8_layout *l = s ? v8_layout(s) : 0;
	__u64 shared, map;
	if (!s || !c || !l || !v8_is_pointer(function) ||
	    !read_word(function - V8_TAG + l->shared, &shared) || !v8_is_pointer(shared))
		return -1;
	shared -= V8_TAG;
	if (bpf_probe_read_user(c->shared, V8_SHARED_MAX, (void *)shared) ||
	    !v8_is_map(l, c->shared[0], l->type_shared, &c->shared_map))
		return -1;
	__u64 scope = v8_field(c, l->name_or_scope);
	if (!v8_is_pointer(scope) || !read_word(scope - V8_TAG, &map) ||
	    !v8_is_map(l, map, l->type_scope, &c->scope_map))
		return -1;
	s->word = v8_word(shared, scope, v8_field(c, l->script),
			  v8_field(c, l->parameters) & 0xffff, v8_field(c, l->token) & 0xffff);
	words_tell(s->word, s->word);
	return 0;
}

enum v8_leaf {
	V8_HAS_FRAME,
	V8_ENTERING, /* its frame is not whole yet: a register holds the function */
	V8_LEAVING,  /* its frame is gone */
};

/* The next instruction shows it, as in unwind_x86.h. */
static __always_inline enum v8_leaf v8_leaf(const struct unwind_state *s, const struct v8_layout *l)
{
	__u32 code = 0;
	if (bpf_probe_read_user(&code, sizeof(code), (void *)s->pc))
		return V8_LEAVING;
	if ((code & 0xfe) == 0xc2) /* ret */
		return V8_LEAVING;
	/* push %rbp; endbr64; mov %rsp, %rbp */
	if ((code & 0xff) == 0x55 || code == 0xfa1e0ff3 || (code & 0xffffff) == 0xe58948 ||
	    (code & 0xffffff) == 0xec8b48)
		return V8_ENTERING;
	return s->fp + l->fp_function < s->sp ? V8_ENTERING : V8_HAS_FRAME;
}

/*
 * The state's frame has no rule, and its process runs V8: name it, if it is of a function of
 * JavaScript. It is left by the frame pointer.
 */
__noinline int v8_step(__u32 unused)
{
	struct unwind_state *s = unwind_state();
	const struct v8_layout *l = s ? v8_layout(s) : 0;
	struct {
		__u64 function, context;
	} frame;
	if (!s || !l || unused)
		return -1;
	__u64 at = s->fp + l->fp_function;
	enum v8_leaf leaf = s->exact ? v8_leaf(s, l) : V8_HAS_FRAME;
	if (leaf == V8_ENTERING) {
		/* In a builtin, which is in the file, it may be a function of its caller. */
		if (s->leaf && !s->range.n_pages)
			v8_name(s->reg[l->function_register & (UNWIND_REGS - 1)]);
	} else if (leaf == V8_HAS_FRAME && !unwind_read(&frame, sizeof(frame), at) &&
		   v8_is_pointer(frame.context) && !v8_name(frame.function)) {
		s->method = frame.function;
		s->method_at = at;
	}
	return unwind_put(0);
}

#endif

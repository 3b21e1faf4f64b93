/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who made the goroutine whose stack was walked to its root (include/go_wire.h): one read of the
 * thread's g where that is the goroutine, and two more where it is the runtime's own.
 */
#ifndef ASCRIBE_GO_CREATORS_BPF_H
#define ASCRIBE_GO_CREATORS_BPF_H

#include "go_wire.h"
#include "labels.bpf.h"
#include "table.bpf.h"
#include "tls.bpf.h"
#include "unwind_walk.h"

/* Is this the g of the stack that the walk has come to the root of? */
static __always_inline bool go_has_stack(const struct unwind_state *s, __u64 g)
{
	struct {
		__u64 low, high;
	} stack;
	return g && !unwind_read(&stack, sizeof(stack), g) &&
	       s->sp - stack.low <= stack.high - stack.low;
}

/* The goroutine of the stack, 0 for none. */
__noinline __u64 go_goroutine(__u64 go)
{
	struct unwind_state *s = unwind_state();
	__u64 g, m;
	if (!s)
		return 0;
	if (go & GO_IN_REGISTER)
		g = go_register();
	else
		g = user_word(thread_pointer(bpf_get_current_task_btf()) + GO_LAYOUT_AT(go));
	if (go_has_stack(s, g))
		return g;
	m = g ? user_word(g + GO_G_M) : 0;
	g = m ? user_word(m + GO_LAYOUT_CURG(go)) : 0;
	return go_has_stack(s, g) ? g : 0;
}

/* The makers of its maker, behind the first of the words at `from`: how many. */
__noinline __u32 go_ancestors(__u32 key, __u32 from, __u64 ancestors)
{
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	__u64 *out = h ? stack_part(arena_ptr(h, h->arena_used), from, GO_CREATORS_MAX) : 0;
	struct {
		__u64 at, n;
	} slice;
	__u32 n = 1;
	if (!out || unwind_read(&slice, sizeof(slice), ancestors))
		return 0;
	for (; n < GO_CREATORS_MAX && n <= slice.n; n++) {
		__u64 pc = user_word(slice.at + (n - 1) * GO_ANCESTOR_BYTES + GO_ANCESTOR_GOPC);
		if (!pc || pc >> 56)
			break;
		out[n] = GO_CREATOR_WORD(pc);
	}
	return n - 1;
}

/*
 * The walk has come to a root. Write who made the goroutine to word `from` on at the tail of half
 * `key`: how many words, none where this is no goroutine.
 */
__noinline __u32 go_creators(__u32 key, __u32 from)
{
	struct unwind_state *s = unwind_state();
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	__u64 *out = h ? stack_part(arena_ptr(h, h->arena_used), from, GO_CREATORS_MAX) : 0;
	struct {
		__u64 pc, ancestors;
	} made;
	if (!out || !s || !s->go)
		return 0;
	const __u64 g = go_goroutine(s->go);
	if (!g || unwind_read(&made, sizeof(made), g + GO_LAYOUT_GOPC(s->go)) || !made.pc ||
	    made.pc >> 56)
		return 0;
	*out = GO_CREATOR_WORD(made.pc);
	return 1 + (made.ancestors ? go_ancestors(key, from, made.ancestors) : 0);
}

#endif

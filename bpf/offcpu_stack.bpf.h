/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Stacks of threads that wait. A stack can be read only at the switch out, when its thread is the
 * current one, and is kept in `wait_stacks` until the wait ends.
 *
 * Stacks cost microseconds, so they are taken where the wait will be long: `call_sites` remembers
 * how long the last waits were, by program counter and stack pointer.
 */
#ifndef ASCRIBE_OFFCPU_STACK_BPF_H
#define ASCRIBE_OFFCPU_STACK_BPF_H

#include "offcpu_types.bpf.h"
#include "python.bpf.h"
#include "table.bpf.h"
#include "unwind.bpf.h"

#define SHORT_ONE_IN 512 /* waits expected to be short whose stack is a candidate */
#define SHORT_SLICE_BITS 24 /* of these candidates one per 16.8 ms (2^24 ns) and CPU is taken */
#define SLICE_BITS 20 /* one token per 1.05 ms (2^20 ns) */
#define TOKENS_MAX 64
#define LONG_WAIT_FACTOR 16 /* multiples of cfg.wait_ns: short < 1, medium 1-16, long >= 16 */
#define MEDIUM_SLICE_BITS 21 /* one medium wait per 2.1 ms (2^21 ns) when tokens are few */
#define WAIT_STACK_PROBES 8

/* ---- which stacks to take ---- */

/* A preempted thread waits for others wherever it is in its code: its whole process is one site. */
static __always_inline __u32 call_site_of(struct task_struct *t, bool blocked)
{
	__u64 h = (__u32)t->tgid * 2 + blocked;
	if (t->flags & PF_KTHREAD) {
		h ^= (__u64)(__u32)t->pid << 32;
	} else if (blocked) {
		struct pt_regs *regs = (void *)bpf_task_pt_regs(t);
		h = mix(h ^ REGS_SP(regs) << 20, REGS_PC(regs));
	}
	return (__u32)(mix(0x73706f74, h) >> 32) & (CALL_SITES - 1);
}

/*
 * Take a token for a wait that is expected to last `ns` (0: unknown). The upper half of the tokens is
 * for everyone; the lower half is kept for long and unknown waits. A busy host has thousands of
 * medium waits per second, which would use up all tokens.
 */
static __always_inline bool tokens_take(struct stack_tokens *k, __u64 ns, __u64 now)
{
	__u64 slice = now >> SLICE_BITS, more = slice - k->slice;
	k->slice = slice;
	k->left = more < TOKENS_MAX && k->left + more < TOKENS_MAX ? k->left + (__u32)more : TOKENS_MAX;
	if (ns && ns < LONG_WAIT_FACTOR * cfg.wait_ns) {
		if (k->left < TOKENS_MAX / 2 && k->slice_medium == now >> MEDIUM_SLICE_BITS)
			return false;
		k->slice_medium = now >> MEDIUM_SLICE_BITS;
	}
	if (!k->left)
		return false;
	k->left--;
	return true;
}

/* Decide whether the stack of the thread that is switched out is worth its cost. */
static __always_inline bool stack_is_due(const struct switch_ctx *s, bool blocked)
{
	struct thread_wait *w = s->wait;
	__u32 site = call_site_of(s->task, blocked);
	__u64 expected = 0;
	if (w->site != site || !w->expected_short) {
		__u64 *length = bpf_map_lookup_elem(&call_sites, &site);
		expected = length ? *length << 10 : 0;
		w->site = site;
		w->expected_short = expected && expected < cfg.wait_ns;
	}
	if (w->expected_short) {
		if (!unlikely(mix(s->now, site) % SHORT_ONE_IN == 0) || s->sched->slice_short == s->now >> SHORT_SLICE_BITS)
			return false;
		s->sched->slice_short = s->now >> SHORT_SLICE_BITS;
		expected = 0;
	}
	return tokens_take(&s->sched->tokens, expected, s->now);
}

/* A wait of this call site lasted `ns`. The expectation rises fast and falls slowly: long waits matter. */
static __always_inline void call_site_learn(__u32 site, __u64 ns)
{
	__u64 *length = bpf_map_lookup_elem(&call_sites, &site), v = (ns >> 10) + 1;
	if (!length)
		return;
	__u64 known = *length ? *length : v;
	*length = v > known ? known + (v - known) / 2 : known - (known - v) / 8;
}

/* ---- where stacks are kept ---- */

/* Claim a free entry for a thread: its index plus 1; 0: none of those probed is free. */
static __always_inline __u32 wait_stack_claim(__u32 tid, struct wait_stack **ret)
{
	for (__u32 p = 0; p < WAIT_STACK_PROBES; p++) {
		__u32 i = (((tid * 0x9e3779b1u) >> 8) + p) & (WAIT_STACKS - 1);
		struct wait_stack *s = bpf_map_lookup_elem(&wait_stacks, &i);
		if (s && !s->owner && !__sync_val_compare_and_swap(&s->owner, 0, tid)) {
			*ret = s;
			return i + 1;
		}
	}
	return 0;
}

/* Free the stack of a wait that was never accounted. */
static __always_inline void wait_stack_free(__u32 stack, __u32 tid)
{
	__u32 i = stack - 1;
	struct wait_stack *s = bpf_map_lookup_elem(&wait_stacks, &i);
	if (s)
		__sync_val_compare_and_swap(&s->owner, tid, 0);
}

/* Keep the stack at the arena's tail of half `key`. Return its index plus 1; 0: no entry is free. */
__noinline __u32 wait_stack_keep(__u32 key, __u32 tid, __u32 n_kernel, __u32 n_user, __u32 n_python)
{
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	struct wait_stack *s = 0;
	if (!h)
		return 0;
	__u32 stack = wait_stack_claim(tid, &s);
	if (!stack || !s) {
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
	return stack;
}

/*
 * Move a kept stack into the table of half `key`, behind the words of `who` unless that is NULL, and
 * name it in *row. Its entry is free then, also after a failure. 0 or -1.
 */
__noinline int wait_stack_take(__u32 key, __u32 stack, const struct occupant *who, struct row *row)
{
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	__u32 i = stack - 1;
	struct wait_stack *s = bpf_map_lookup_elem(&wait_stacks, &i);
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
	row->n_python = (__u16)n_python; /* 0 in rows without a stack: the caller sets it back */
	return 0;
}

/* Unwind the current thread, whose image is in sc, in half `key`, and keep the stack for thread `tid`. */
static __always_inline __u32 wait_stack_unwind(void *ctx, struct task_struct *t, struct sched_cpu *sc, __u32 key, __u32 tid)
{
	bool kthread = t->flags & PF_KTHREAD;
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	__u64 *tail = h ? arena_tail(h) : 0;
	struct stack_lengths len;
	if (!tail)
		return 0;
	unwind(ctx, t, &sc->image, false, kthread, h, key, tail, &len);
	__u32 n_python = kthread ? 0 : python_behind(&sc->image, key, len.n_kernel + len.n_user);
	return wait_stack_keep(key, tid, len.n_kernel, len.n_user, n_python);
}

#endif

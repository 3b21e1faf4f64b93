/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Stacks of threads that wait. A stack can be read only at the switch out, when its thread is the
 * current one, and costs microseconds: so stacks are sampled. A sampled stack is kept in
 * `wait_stacks` until the wait ends.
 *
 * The stack of each wait is taken with a probability p = 4^-thinning that depends only on the past.
 * It depends on how long waits of this call site were expected to last, and on how many stacks this
 * CPU took of late. The outcome is drawn, and no later limit refuses it. The row of the wait
 * carries `thinning`, so user space knows p. A sampled wait of y ns stands for y * (1/p - 1) ns of
 * waits that were not sampled. The sum over all samples is an unbiased estimate of their time
 * (Horvitz-Thompson), however wrong the expectation was. p grows with the expected length, which
 * makes the estimate of time precise: a wait that is expected to be long is always sampled.
 */
#ifndef ASCRIBE_OFFCPU_STACK_BPF_H
#define ASCRIBE_OFFCPU_STACK_BPF_H

#include "offcpu_types.bpf.h"
#include "script.bpf.h"
#include "table.bpf.h"
#include "unwind.bpf.h"

#define THINNING_MAX 8 /* p >= 4^-8 */
/* Us (2^10 ns) that the wait of an unknown call site is taken to last */
#define EXPECTED_UNKNOWN 1024
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
	return (__u32)(mix(0x73706f74, h) >> 32);
}

/*
 * Return the expected length of a wait at this site, as other threads learned it; 0: unknown. Short
 * processes use up entries without end, so an entry says whose it is: its upper half is the site.
 */
static __always_inline __u32 call_site_expected(__u32 site)
{
	__u32 i = site & (CALL_SITES - 1);
	__u64 *kept = bpf_map_lookup_elem(&call_sites, &i);
	return kept && *kept >> 32 == site ? (__u32)*kept : 0;
}

/*
 * Return how long a wait at an unknown site is taken to last: as long as this thread's waits
 * elsewhere. A server's session that waits for seconds has few waits, and each of them matters.
 */
static __always_inline __u64 unknown_expected(const struct thread_wait *w, bool blocked)
{
	return blocked && w->usual_ms ? (__u64)w->usual_ms << 10 : EXPECTED_UNKNOWN;
}

/*
 * Set the threshold: the expected length from which on all waits are sampled. It doubles with each
 * TOKENS_PER_DOUBLING tokens that are missing, from 1 us (2^10 ns) on; at 63 it is 2 s. So the rate
 * of stacks follows that of tokens without a limit that would refuse a sampled wait.
 */
static __always_inline void tokens_set(struct stack_tokens *k, __u32 missing)
{
	__u32 threshold = missing / TOKENS_PER_DOUBLING;
	k->missing = missing;
	k->threshold = threshold < THRESHOLD_MAX ? threshold : THRESHOLD_MAX;
}

/*
 * Add the tokens of the time since the last call: one per 2^cfg.token_shift ns and CPU, for known
 * and for unknown call sites each.
 */
static __always_inline void tokens_refill(struct stack_tokens *k, __u64 now)
{
	__u64 slice = now >> cfg.token_shift, more = slice - k->slice;
	if (unlikely(more)) {
		k->slice = slice;
		tokens_set(k, more < k->missing ? k->missing - (__u32)more : 0);
	}
}

/* Return how often to divide p by 4 for a wait that is expected to last `expected` units. */
static __always_inline __u32 thinning_of(__u64 expected, const struct stack_tokens *k)
{
	__u64 threshold = 1ull << (k->threshold & 63);
	__u32 n = 0;
#pragma unroll
	for (int i = 0; i < THINNING_MAX; i++) {
		n += expected < threshold;
		expected <<= 2;
	}
	return n;
}

/* A linear congruential generator, whose increment no process knows; its highest bits are good. */
static __always_inline bool draw_one_in_4_to(struct sched_cpu *sc, __u32 thinning)
{
	sc->random = sc->random * 6364136223846793005ull + (cfg.secret | 1);
	return !(sc->random >> 1 >> (63 - 2 * thinning));
}

/* Draw whether to take the stack of the thread that is switched out; set its site and thinning. */
static __always_inline bool stack_is_sampled(const struct switch_ctx *s, bool blocked)
{
	struct thread_wait *w = s->wait;
	if (no_wait_stacks)
		return false;
	__u32 site = call_site_of(s->task, blocked);
	if (w->site != site || !w->expected) {
		w->site = site;
		w->expected = w->expected_kept = call_site_expected(site);
	}
	struct stack_tokens *k = w->expected ? &s->sched->tokens : &s->sched->tokens_unknown;
	tokens_refill(k, s->now);
	__u32 thinning = thinning_of(w->expected ? w->expected : unknown_expected(w, blocked), k);
	if (!draw_one_in_4_to(s->sched, thinning))
		return false;
	w->thinning = (__u16)thinning;
	tokens_set(k, k->missing + 1);
	return true;
}

/*
 * Return the next expectation after a wait of `length`. It rises fast and falls slowly: long waits
 * matter.
 */
static __always_inline __u64 expect(__u64 was, __u64 length)
{
	return length > was ? was + (length - was + 1) / 2 : was - (was - length + 7) / 8;
}

/*
 * The wait lasted `ns`. The expectation is shared with other threads when it has changed by an
 * eighth.
 */
static __always_inline void call_site_learn(struct thread_wait *w, __u64 ns)
{
	__u64 length = (ns >> 10) + 1, ms = length >> 10;
	if (length > 0x3fffffff)
		/* 18 minutes; shifted by 2 * THINNING_MAX it fits into 64 bits */
		length = 0x3fffffff;
	if (ms > 0xffff)
		ms = 0xffff;
	if (w->state & WAIT_BLOCKED)
		w->usual_ms = (__u16)(w->usual_ms ? expect(w->usual_ms, ms) : ms);
	__u64 is = w->expected ? expect(w->expected, length) : length, kept = w->expected_kept;
	w->expected = (__u32)is;
	if (is <= kept + kept / 8 && is >= kept - kept / 8)
		return;
	__u32 i = w->site & (CALL_SITES - 1);
	__u64 *entry = bpf_map_lookup_elem(&call_sites, &i);
	if (entry)
		*entry = (__u64)w->site << 32 | is;
	w->expected_kept = (__u32)is;
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

/*
 * Keep the stack at the arena's tail of half `key`. Return its index plus 1; 0: no entry is free.
 */
__noinline __u32 wait_stack_keep(__u32 key, __u32 tid, __u32 n_kernel, __u32 n_user, __u32 n_script)
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
	if (n_script > WAIT_WORDS - n_kernel - n_user)
		n_script = WAIT_WORDS - n_kernel - n_user;
	__u64 n = n_kernel + n_user + n_script;
	barrier_var(n);
	if (n > WAIT_WORDS || bpf_probe_read_kernel(s->words, n * 8, arena_ptr(h, h->arena_used)))
		n_kernel = n_user = n_script = 0;
	s->n_kernel = (__u8)n_kernel;
	s->n_user = (__u8)n_user;
	s->n_script = (__u8)n_script;
	return stack;
}

/*
 * Move a kept stack into the table of half `key`, behind the words of `who` unless that is NULL and
 * a futex unless that is 0, and name it in *row. Its entry is free then, also after a failure. 0 or
 * -1.
 */
__noinline int wait_stack_take(__u32 key, __u32 stack, const struct occupant *who, __u64 futex,
			       struct row *row)
{
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	__u32 i = stack - 1;
	struct wait_stack *s = bpf_map_lookup_elem(&wait_stacks, &i);
	if (!h || !s || !row)
		return -1;
	__u32 n_kernel = s->n_kernel, n_user = s->n_user, n_script = s->n_script,
	      before = who ? OCCUPANT_WORDS + (futex ? FUTEX_WORDS : 0) : 0;
	__u64 *tail = arena_tail(h), n = n_kernel + n_user + n_script;
	barrier_var(n);
	int rc = -1;
	if (tail && n <= WAIT_WORDS && !bpf_probe_read_kernel(tail + before, n * 8, s->words)) {
		const __u64 *word = (const void *)who;
#pragma unroll
		for (int k = 0; who && k < OCCUPANT_WORDS; k++)
			tail[k] = word[k];
		if (who && futex)
			tail[OCCUPANT_WORDS] = futex;
		rc = stack_intern(key, before + n_kernel, n_user, n_script);
	}
	__sync_lock_test_and_set(&s->owner, 0);
	if (rc < 0)
		return -1;
	row->stack = (__u32)rc;
	row->n_kernel = (__u16)n_kernel;
	row->n_user = (__u16)n_user;
	row->n_script = (__u16)n_script; /* 0 in rows without a stack: the caller sets it back */
	return 0;
}

/*
 * Unwind the current thread, whose image is in sc, in half `key`, and keep the stack for thread
 * `tid`.
 */
static __always_inline __u32 wait_stack_unwind(void *ctx, struct task_struct *t,
					       struct sched_cpu *sc, __u32 key, __u32 tid)
{
	bool kthread = t->flags & PF_KTHREAD;
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	__u64 *tail = h ? arena_tail(h) : 0;
	struct stack_lengths len;
	if (!tail)
		return 0;
	unwind(ctx, t, &sc->image, false, kthread, key, tail, WAIT_WORDS, &len);
	__u32 n_script = kthread ? 0 : script_behind(&sc->image, key, len.n_kernel + len.n_user);
	return wait_stack_keep(key, tid, len.n_kernel, len.n_user, n_script);
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The per-CPU table of a half: rows found by open addressing, their stacks in an arena, each
 * distinct stack once.
 *
 * Hashes only choose where to look: a stack and a row are the same only when every word is. Nothing
 * is ever moved or removed before user space takes the half, so that an index stays good.
 */
#ifndef ASCRIBE_TABLE_BPF_H
#define ASCRIBE_TABLE_BPF_H

#include "common.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 2); /* cfg.n_cpus * 2 */
	__uint(key_size, 4);
	__uint(value_size, 8); /* cfg.half_size */
} halves SEC(".maps");

static __always_inline void count_several(struct half *h, int counter, __u64 n)
{
	__u64 i = (__u32)counter; /* 64 bits: 6.1 loses the bound with a 32-bit move */
	barrier_var(i);
	if (i < N_COUNTERS)
		h->counters[i] += n;
}

static __always_inline void count(struct half *h, int counter)
{
	count_several(h, counter, 1);
}

/* Where the four arrays of a half begin, in bytes. */
static __always_inline __u32 rows_at(void)
{
	return sizeof(struct half);
}

static __always_inline __u32 refs_at(void)
{
	return rows_at() + (cfg.row_mask + 1) * sizeof(struct row);
}

static __always_inline __u32 arena_at(void)
{
	return refs_at() + (cfg.ref_mask + 1) * sizeof(struct stack_ref);
}

static __always_inline __u32 instants_at(void)
{
	return arena_at() + (cfg.arena_mask + 1 + STACK_WORDS_MAX) * 8;
}

static __always_inline struct row *row_at(struct half *h, __u32 i)
{
	__u64 at = i & cfg.row_mask;
	barrier_var(at);
	return (void *)((char *)h + rows_at() + at * sizeof(struct row));
}

static __always_inline struct stack_ref *ref_at(struct half *h, __u32 i)
{
	__u64 at = i & cfg.ref_mask;
	barrier_var(at);
	return (void *)((char *)h + refs_at() + at * sizeof(struct stack_ref));
}

/*
 * n words at any index of the arena; masked, and the arena has room for a deepest stack behind its
 * last index.
 */
static __always_inline __u64 *arena_ptr(struct half *h, __u64 at)
{
	at &= cfg.arena_mask;
	/* the compiler must not look through the mask: the verifier needs to see it */
	barrier_var(at);
	return (void *)((char *)h + arena_at() + at * 8);
}

/* Where the next stack may be written, or NULL when the arena is full. */
static __always_inline __u64 *arena_tail(struct half *h)
{
	if (h->arena_used > cfg.arena_mask)
		return 0;
	return arena_ptr(h, h->arena_used);
}

/*
 * Word `from` of the stack at `base`, with room for n words; NULL when that is more than a stack
 * has. In 64 bits and behind a barrier: Linux 6.1 forgets a bound that was checked in another copy.
 */
static __always_inline __u64 *stack_part(__u64 *base, __u64 from, __u64 n)
{
	barrier_var(from);
	return from > STACK_WORDS_MAX - n ? 0 : base + from;
}

/*
 * Words of a stack that one call looks at: the verifier follows each turn of a loop, and checks
 * global functions once.
 */
#define WORDS_PART 128
_Static_assert(STACK_WORDS_MAX % WORDS_PART == 0,
	       "a part that begins within a stack ends in the arena");

/*
 * The next WORDS_PART of the n words at the tail of the half `key`, from number `from` on, into
 * `hash`.
 */
__noinline __u64 hash_part(__u32 key, __u32 from, __u32 n, __u64 hash)
{
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	__u64 *w = h ? stack_part(arena_ptr(h, h->arena_used), from, WORDS_PART) : 0;
	if (!w)
		return hash;
	for (__u32 i = 0; i < WORDS_PART && from + i < n; i++)
		hash = mix(hash, w[i]);
	return hash;
}

/*
 * Are the next WORDS_PART of n words at `at` and at the tail of the half `key` the same, from
 * number `from` on?
 */
__noinline int same_part(__u32 key, __u32 at, __u32 from, __u32 n)
{
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	__u64 *x = h ? stack_part(arena_ptr(h, at), from, WORDS_PART) : 0, differ = 0;
	__u64 *y = h ? stack_part(arena_ptr(h, h->arena_used), from, WORDS_PART) : 0;
	if (!x || !y)
		return 0;
	for (__u32 i = 0; i < WORDS_PART && from + i < n; i++)
		differ |= x[i] ^ y[i];
	return !differ;
}

/* Hash of the n words at the tail of the half `key`; never 0, which marks a free place. */
static __always_inline __u64 hash_words(__u32 key, __u32 n)
{
	__u64 hash = mix(0x5851f42d4c957f2dull, n);
	for (__u32 i = 0; i < STACK_WORDS_MAX && i < n; i += WORDS_PART)
		hash = hash_part(key, i, n, hash);
	return hash | 1;
}

/* Are the n words at `at` and at the tail of the half `key` the same? */
static __always_inline bool same_words(__u32 key, __u32 at, __u32 n)
{
	for (__u32 i = 0; i < STACK_WORDS_MAX && i < n; i += WORDS_PART)
		if (!same_part(key, at, i, n))
			return false;
	return true;
}

/*
 * The index of the reference with this hash, else of the free one for it; it has neither when there
 * is no room.
 */
__noinline __u32 ref_find(__u32 key, __u64 hash)
{
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	__u32 at = (__u32)(hash >> 16);
	for (__u32 p = 0; h && p < REF_PROBES - 1; p++, at++) {
		__u64 found = ref_at(h, at)->hash;
		if (!found || found == hash)
			break;
	}
	return at;
}

/*
 * The stack of n_kernel + n_user + n_script words that stands at the arena's tail: find it among
 * the stacks known, or keep it there. The word that it begins at, or -1 - the counter of the loss.
 */
__noinline int stack_intern(__u32 key, __u32 n_kernel, __u32 n_user, __u32 n_script)
{
	__u32 lengths = stack_lengths_word(n_kernel, n_user, n_script),
	      n = n_kernel + n_user + n_script;
	__u64 hash = hash_words(key, n);
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	if (!h)
		return -1 - COUNTER_stacks_full;
	struct stack_ref *r = ref_at(h, ref_find(key, hash));
	if (!r->hash) {
		r->at = h->arena_used;
		r->lengths = lengths;
		r->hash = hash;
		h->refs_used++;
		h->arena_used += n;
		return (int)r->at;
	}
	if (r->hash != hash)
		return -1 - COUNTER_stacks_full;
	if (r->lengths != lengths || !same_words(key, r->at, n))
		return -1 - COUNTER_stack_collision;
	return (int)r->at;
}

/* Note when a row got a sample, or one wait. Sums of several waits have no instant. */
static __always_inline void note_instant(struct half *h, const struct row *k, __u64 n, __u32 row)
{
	const __u64 least = cfg.instant_least[k->event & (MAX_EVENTS - 1)];
	bool is_sample = k->kind < ROW_WAIT || (k->kind == ROW_WAIT && k->wait.flags & WAIT_SUMMED);
	if (!cfg.instants || !is_sample || (least && (n > 1 || k->value < least)))
		return;
	if (h->instants_used >= cfg.instants) {
		count_several(h, COUNTER_instants_full, n);
		return;
	}
	__u64 at = h->instants_used & (cfg.instants - 1);
	barrier_var(at);
	struct instant *i = (void *)((char *)h + instants_at() + at * sizeof(*i));
	i->at_ns = k->last_ns;
	i->row = row;
	i->length_us = least ? (__u32)(k->value / 1000) : 0;
	h->instants_used++;
}

/*
 * Samples more in the row of this key, which is made when it is new: its index, or -1 when the
 * table is full. Of `k` the key, samples (0: one), value (both are added) and last_ns (now) are
 * read.
 */
__noinline int row_add(__u32 key, const struct row *k)
{
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	if (!h || !k)
		return -1;
	const __u64 *word = (const __u64 *)k;
	__u64 hash = ROW_KEY_WORDS, n = k->samples + !k->samples;
	__u32 p = 0;
#pragma unroll
	for (int i = 0; i < ROW_KEY_WORDS; i++)
		hash = mix(hash, word[i]);
	for (; p < ROW_PROBES; p++) {
		struct row *r = row_at(h, (__u32)(hash >> 16) + p);
		if (!r->samples) {
			if (h->rows_used >=
			    (k->kind >= ROW_WAIT ? cfg.rows_max / 8 * 7 : cfg.rows_max))
				return -1; /* waits without a stack can do without a row */
			h->rows_used++;
			*r = *k;
			r->samples = n;
			r->first_ns = k->last_ns;
			break;
		}
		/*
		 * All words before one branch: a chain of comparisons costs the verifier three
		 * times as long.
		 */
		const __u64 *other = (const __u64 *)r;
		__u64 differ = 0;
#pragma unroll
		for (int i = 0; i < ROW_KEY_WORDS; i++)
			differ |= other[i] ^ word[i];
		if (!differ) {
			r->samples += n;
			r->value += k->value;
			r->last_ns = k->last_ns;
			break;
		}
	}
	if (p == ROW_PROBES)
		return -1;
	const __u32 at = ((__u32)(hash >> 16) + p) & cfg.row_mask;
	note_instant(h, k, n, at);
	return (int)at;
}

/*
 * The same in a row of its own: with samples, value, first_ns and last_ns as they are. False: the
 * table is full.
 */
__noinline int row_add_alone(__u32 key, const struct row *k)
{
	struct half *h = bpf_map_lookup_elem(&halves, &key);
	if (!h || !k)
		return 0;
	const __u32 at = (__u32)mix(k->last_ns, k->first_ns);
	if (h->rows_used >= cfg.rows_max)
		return 0;
	for (__u32 p = 0; p < ROW_PROBES; p++) {
		struct row *r = row_at(h, at + p);
		if (r->samples)
			continue;
		h->rows_used++;
		*r = *k;
		return 1;
	}
	return 0;
}

/* Not inlined: its caller is at the limit of its stack on Linux 6.1. 0: sent. */
__noinline int send_filling(__u32 unused)
{
	struct wire_record r = { .kind = WIRE_FILLING };
	return unused || ring_send(&r, sizeof(r), true);
}

/* The half is filling: ask user space, once, to take it before the window ends. */
static __always_inline void ask_for_drain(struct half *h)
{
	if (h->asked ||
	    (h->rows_used < cfg.rows_max / 4 * 3 && h->arena_used < cfg.arena_mask / 4 * 3))
		return;
	if (!send_filling(0))
		h->asked = 1;
}

#endif

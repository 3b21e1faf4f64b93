/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Copy arrays of pairs of strings (custom-labels, Go's slices) into the capture. */
#ifndef ASCRIBE_LABEL_PAIRS_BPF_H
#define ASCRIBE_LABEL_PAIRS_BPF_H

#include "capture.bpf.h"

#define PAIRS_SANE (1ull << 20) /* a larger count is invalid */

/*
 * Widen the span by the texts of pair i. A global function: the verifier checks its branches once,
 * not for each pair.
 */
__noinline int span_pair(__u32 i, __u32 swap)
{
	struct capture *c = capture();
	if (!c)
		return -1;
	const __u64 *w = &c->area.words[(i & (LABEL_PAIRS - 1)) * 4];
#pragma unroll
	for (int k = 0; k < 4; k += 2) {
		__u64 at = w[swap ? k : k + 1], len = w[swap ? k + 1 : k];
		if (!at || len > LABEL_TEXT_BYTES)
			continue;
		if (at < c->span_low)
			c->span_low = at;
		if (at + len > c->span_high)
			c->span_high = at + len;
	}
	return 0;
}

/* Read the texts of the n pairs in the area at once, if they are within SPAN_MAX bytes. */
__noinline int span_pairs(__u32 n, __u32 swap)
{
	struct capture *c = capture();
	if (!c)
		return -1;
	c->span_low = ~0ull;
	c->span_high = 0;
	for (__u32 i = 0; i < LABEL_PAIRS && i < n; i++)
		span_pair(i, swap);
	if (c->span_high > c->span_low)
		load_span(c, c->span_low, c->span_high);
	return 0;
}

/*
 * Append the n pairs of strings in the area. `swap`: {pointer, length} (Go), else {length,
 * pointer}.
 */
__noinline int append_pairs(__u32 n, __u32 swap)
{
	struct capture *c = capture();
	if (!c)
		return -1;
	for (__u32 i = 0; i < LABEL_PAIRS && i < n; i++) {
		const __u64 *w = &c->area.words[(i & (LABEL_PAIRS - 1)) * 4];
		__u64 key = swap ? w[0] : w[1], n_key = swap ? w[1] : w[0];
		__u64 value = swap ? w[2] : w[3], n_value = swap ? w[3] : w[2];
		if (!key)
			continue;
		if (n_key > LABEL_KEY_BYTES)
			n_key = LABEL_KEY_BYTES + 1;
		if (n_value > LABEL_TEXT_BYTES)
			n_value = LABEL_TEXT_BYTES + 1;
		if (append_pair(key, value, n_key << 32 | n_value))
			return -1;
	}
	return 0;
}

static __always_inline int read_pairs(struct capture *c, __u64 array, __u64 n, __u32 swap)
{
	if (n > LABEL_PAIRS) {
		capture_flag(c, COUNTER_labels_cut);
		n = LABEL_PAIRS;
	}
	__u64 size = n * 32;
	barrier_var(size);
	if (size > sizeof(c->area) || bpf_probe_read_user(&c->area, size, (void *)array))
		return capture_fault(c);
	span_pairs((__u32)n, swap);
	return append_pairs((__u32)n, swap);
}

/* Read the list {array, count} of pairs at address `at`; 0: none. */
static __always_inline int read_pair_list(struct capture *c, __u64 at, __u32 swap)
{
	struct {
		__u64 array, n;
	} list;
	if (!at)
		return 0;
	if (read_at(&list, sizeof(list), at))
		return capture_fault(c);
	if (!list.n)
		return 0;
	if (!list.array || list.n > PAIRS_SANE)
		return capture_invalid(c);
	return read_pairs(c, list.array, list.n, swap);
}

#endif

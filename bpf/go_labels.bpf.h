/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Read the labels of the current thread's goroutine (runtime/pprof): a map until Go 1.23, a sorted
 * slice since.
 */
#ifndef ASCRIBE_GO_LABELS_BPF_H
#define ASCRIBE_GO_LABELS_BPF_H

#include "capture.bpf.h"
#include "label_pairs.bpf.h"

#define GO_BUCKET 272 /* 8 hashes, 8 keys, 8 values, pointer to the next one */
#define GO_BUCKETS 16 /* to read at most */

/* Return the address of the labels of this thread's goroutine; 0: none. */
static __always_inline int go_labels(struct capture *c, __u64 *ret)
{
	__u64 g = 0, m = 0, curg = 0;
	*ret = 0;
	if (c->source.start == LABEL_AT_GO_REGISTER)
		g = c->start;
	else if (read_at(&g, 8, c->start))
		return capture_fault(c);
	if (!g)
		return 0;
	if (read_at(&m, 8, g + 48))
		return capture_fault(c);
	if (!m)
		return 0;
	if (read_at(&curg, 8, m + (c->source.arg >> 16)))
		return capture_fault(c);
	if (!curg)
		return 0;
	/* In C code the register holds something else. A valid g is its m's g0 or curg. */
	if (c->source.start == LABEL_AT_GO_REGISTER && curg != g && (read_at(&m, 8, m) || m != g))
		return 0;
	return read_at(ret, 8, curg + (c->source.arg & 0xffff)) ? capture_fault(c) : 0;
}

/*
 * Append the entries of one bucket. Return the next bucket of its chain, 0 for none, 1 when it was
 * unreadable.
 */
__noinline __u64 go_bucket(__u64 at)
{
	struct capture *c = capture();
	if (!c)
		return 1;
	if (read_at(&c->area, GO_BUCKET, at)) {
		capture_fault(c);
		return 1;
	}
	for (__u32 i = 0; i < 8; i++) {
		const __u64 *key = &c->area.words[1 + 2 * i], *value = &c->area.words[17 + 2 * i];
		__u64 n_key = key[1], n_value = value[1];
		if (c->area.bytes[i] < 5) /* empty, or moved */
			continue;
		if (n_key > LABEL_KEY_BYTES)
			n_key = LABEL_KEY_BYTES + 1;
		if (n_value > LABEL_TEXT_BYTES)
			n_value = LABEL_TEXT_BYTES + 1;
		if (append_pair(key[0], value[0], n_key << 32 | n_value))
			return 1;
	}
	return c->area.words[33];
}

__noinline int read_go_map(void)
{
	struct capture *c = capture();
	__u64 at, next, bucket = 0;
	if (!c)
		return -1;
	if (go_labels(c, &at))
		return -1;
	if (!at)
		return 0;
	/* The label map is a pointer to a map, which is a pointer itself */
	if (read_at(&at, 8, at))
		return capture_fault(c);
	if (!at)
		return 0;
	/* Count, u8 flags, u8 log2 of the buckets, ..., buckets, old buckets. */
	if (read_at(&c->area, 32, at))
		return capture_fault(c);
	if (!c->area.words[0])
		return 0;
	__u64 buckets = c->area.words[2], log2 = c->area.bytes[9];
	if (log2 > 16 || c->area.words[0] > PAIRS_SANE || !buckets)
		return capture_invalid(c);
	if (c->area.words[3]) /* growing: some entries are still in the old buckets */
		capture_flag(c, COUNTER_labels_cut);
	next = buckets;
	for (__u32 i = 0; i < GO_BUCKETS; i++) {
		next = go_bucket(next);
		if (next == 1)
			return -1;
		if (next)
			continue;
		if (++bucket >> (log2 & 31))
			return 0;
		next = buckets + bucket * GO_BUCKET;
	}
	capture_flag(c, COUNTER_labels_cut);
	return 0;
}

__noinline int read_go_slice(void)
{
	struct capture *c = capture();
	__u64 at;
	if (!c)
		return -1;
	if (go_labels(c, &at))
		return -1;
	return read_pair_list(c, at, 1);
}

#endif

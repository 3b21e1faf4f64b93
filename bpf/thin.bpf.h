/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A rate for each selection: events come at the highest rate of all, and of cgroups with a lower
 * one only some samples are taken. What is not taken is no loss: the samples that are taken stand
 * for more time.
 *
 * Each sample at the highest rate adds rate_hz to a sum. One sample is taken in each most_hz of the
 * sum, at a random place, so nobody can keep step with what is taken:
 *
 *   sum    0          most_hz     2 most_hz    3 most_hz
 *          |----x--------|--x----------|---------x---|
 *          rate_hz 19, most_hz 99: one in 5.2 samples is taken on average
 *
 * The rates keep to each other however uneven they are.
 */
#ifndef ASCRIBE_THIN_BPF_H
#define ASCRIBE_THIN_BPF_H

#include "common.bpf.h"

struct thin {
	__s32 left;  /* of the sum, until the next sample is taken */
	__u32 at;    /* the place of that one within its most_hz */
	__u32 begun; /* 0 before the first */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_EVENTS *RATES_MAX);
	__type(key, __u32);
	__type(value, struct thin);
} thins SEC(".maps");

static __always_inline __u32 thin_random(void)
{
	return (__u32)(((__u64)bpf_get_prandom_u32() * cfg.most_hz) >> 32);
}

/* Return 1 when this sample of the event is taken, at the rate with this index. */
__noinline int thin_is_due(__u32 event, __u32 rate)
{
	__u32 key = (event & (MAX_EVENTS - 1)) * RATES_MAX + (rate & (RATES_MAX - 1));
	struct thin *t = bpf_map_lookup_elem(&thins, &key);
	if (!t)
		return 1;
	if (!t->begun) {
		t->begun = 1;
		t->at = thin_random();
		t->left = 1 + (__s32)t->at;
	}
	t->left -= (__s32)cfg.rate_hz[rate & (RATES_MAX - 1)];
	if (t->left > 0)
		return 0;
	/* It may stay negative: then the next sample is taken, too. */
	__u32 at = thin_random();
	t->left += (__s32)(cfg.most_hz - t->at + at);
	t->at = at;
	return 1;
}

/* What a sample of this rate stands for, of `period` at the highest rate. */
static __always_inline __u64 thin_value(__u64 period, __u32 rate)
{
	__u32 hz = cfg.rate_hz[rate & (RATES_MAX - 1)];
	return hz ? period * cfg.most_hz / hz : period;
}

#endif

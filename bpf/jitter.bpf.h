/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Choose the ticks of a clock event that become samples.
 *
 * A clock that fires at each multiple of its period always finds a program of the same period at
 * the same place. The kernel never varies the period of a clock event, and a program cannot change
 * it. So each CPU's event ticks somewhat faster than the sampling rate, at a random period of its
 * own (event_tick_ns in user/sampler). The ticks that are sampled are chosen here, at random
 * distances whose mean is the sampling period. The other ticks return at once; they are no loss.
 *
 * The sum of the distances stays within a few periods of the elapsed time: the error is fed back.
 * So each sample stands for one sampling period, however short the recording is.
 */
#ifndef ASCRIBE_JITTER_BPF_H
#define ASCRIBE_JITTER_BPF_H

#include "common.bpf.h"

/*
 * The share of the error that the next distance corrects, 1 / 2^6. A larger share would tie the
 * samples to multiples of the period again: with this one they wander by about one period.
 */
#define JITTER_FEEDBACK_BITS 6
#define JITTER_RANDOM_BITS 24

struct jitter {
	__s64 left_ns;	/* until the next sample; 0 before the first tick */
	__s64 ahead_ns; /* sum of all distances beyond the sampling period: the error */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_EVENTS);
	__type(key, __u32);
	__type(value, struct jitter);
} jitters SEC(".maps");

/* A random number from 0 to below `range`, which has at most 40 bits. */
static __always_inline __s64 jitter_random(__u64 range)
{
	return (__s64)((bpf_get_prandom_u32() >> (32 - JITTER_RANDOM_BITS)) * range >>
		       JITTER_RANDOM_BITS);
}

/* Return 1 when this tick of the event, tick_ns after the one before, is a sample. */
__noinline int jitter_is_due(__u32 event, __u64 tick_ns)
{
	__u64 period_ns = cfg.period_ns[event & (MAX_EVENTS - 1)];
	struct jitter *j = bpf_map_lookup_elem(&jitters, &event);
	if (!j || tick_ns >= period_ns) /* not a clock: each hit is a sample */
		return 1;
	if (!j->left_ns)
		j->left_ns = 1 + jitter_random(period_ns);
	j->left_ns -= (__s64)tick_ns;
	if (j->left_ns > 0)
		return 0;
	/* No distance is shorter than a tick: no tick is due twice. */
	__s64 spread_ns = (__s64)(period_ns - tick_ns);
	__s64 more_ns = jitter_random((__u64)spread_ns * 2) - spread_ns -
			(j->ahead_ns >> JITTER_FEEDBACK_BITS);
	j->ahead_ns += more_ns;
	j->left_ns += (__s64)period_ns + more_ns;
	if (!j->left_ns)
		j->left_ns = 1;
	return 1;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * The clocks of a group: the threads that work for the same label value. They divide each instant
 * among the threads that are active then. Compiled for the BPF programs, the recorder and tests.
 *
 *   tier           0 runs, or waits for a CPU | 1 waits for what lies outside | 2 waits, perhaps
 *                                             |   (disk, sleep, network)      |   for the others
 *   active is      the lowest tier that has threads
 *   clock[tier]    advances by dt / threads of the tier, while that tier is the active one
 *
 * What a thread did in a tier from a to b weighs clock[tier] at b minus that at a. So the weights
 * of a group sum to the time in which it had any thread: wall-clock time.
 */
#ifndef ASCRIBE_LATENCY_H
#define ASCRIBE_LATENCY_H

#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

/* What a thread of a group does, and the tier that it is in. */
enum latency_state {
	LATENCY_RUN = 0,    /* tier 0 */
	LATENCY_QUEUED = 1, /* tier 0, too */
	LATENCY_OUTSIDE = 2,
	LATENCY_INSIDE = 3, /* or idle: only its stack can say */
	LATENCY_STATES = 4,
};
#define LATENCY_TIERS 3

#define LATENCY_UNIT_BITS 10	  /* clocks count in units of 2^-10 ns: 208 days until they wrap */
#define LATENCY_LANE_BITS 16	  /* of a count of threads, per state */
#define LATENCY_THREADS_MAX 30000 /* of a group: no lane runs over */
#define LATENCY_DEBT_MAX 1000000000 /* ns */

static inline __attribute__((always_inline)) __u32 latency_tier(__u32 state)
{
	return state <= LATENCY_QUEUED ? 0 : state - 1;
}

/* Threads per state, in one word: so that one atomic addition moves a thread. */
static inline __attribute__((always_inline)) __u64 latency_lane(__u32 state)
{
	return 1ull << (LATENCY_LANE_BITS * state);
}

static inline __attribute__((always_inline)) __u64 latency_threads(__u64 counts, __u32 state)
{
	return counts >> (LATENCY_LANE_BITS * state) & ((1ull << LATENCY_LANE_BITS) - 1);
}

/* Return how many threads are in a tier. */
static inline __attribute__((always_inline)) __u64 latency_in_tier(__u64 counts, __u32 tier)
{
	if (tier)
		return latency_threads(counts, tier + 1);
	return latency_threads(counts, LATENCY_RUN) + latency_threads(counts, LATENCY_QUEUED);
}

static inline __attribute__((always_inline)) __u64 latency_members(__u64 counts)
{
	return latency_in_tier(counts, 0) + latency_in_tier(counts, 1) + latency_in_tier(counts, 2);
}

/* Return the active tier; LATENCY_TIERS: no thread is in the group. */
static inline __attribute__((always_inline)) __u32 latency_active(__u64 counts)
{
	if (latency_in_tier(counts, 0))
		return 0;
	return latency_in_tier(counts, 1) ? 1 : latency_in_tier(counts, 2) ? 2 : LATENCY_TIERS;
}

struct latency_clock {
	__u64 last; /* CLOCK_BOOTTIME of the last advance */
	__u64 tier[LATENCY_TIERS];
};

/* Return how far the clock of the active tier advances in `ns`; `counts` has threads. */
static inline __attribute__((always_inline)) __u64 latency_share(__u64 counts, __u32 active,
								 __u64 ns)
{
	return (ns << LATENCY_UNIT_BITS) / latency_in_tier(counts, active);
}

/* Advance to `now`, since when the counts may change. Times before the last advance do nothing. */
static inline __attribute__((always_inline)) void latency_advance(struct latency_clock *c,
								  __u64 counts, __u64 now)
{
	__u32 active = latency_active(counts);
	if (now <= c->last)
		return;
	if (active == 0)
		c->tier[0] += latency_share(counts, 0, now - c->last);
	else if (active == 1)
		c->tier[1] += latency_share(counts, 1, now - c->last);
	else if (active == 2)
		c->tier[2] += latency_share(counts, 2, now - c->last);
	c->last = now;
}

/*
 * Return ns between two readings of a clock, 0 where the second is before the first: the clocks of
 * CPUs differ.
 */
static inline __attribute__((always_inline)) __u64 latency_ns(__u64 from, __u64 to)
{
	return (__s64)(to - from) > 0 ? (to - from) >> LATENCY_UNIT_BITS : 0;
}

/*
 * Return the weight of a sample that stands for `ns`, and what of the group's debt it pays in
 * *ret_paid. `counts` has the sampled thread. A debt is what samples of the group got too much,
 * because a thread was found in it late (latency_debt); below 0 they got too little.
 */
static inline __attribute__((always_inline)) __u64 latency_weigh(__u64 ns, __u64 counts, __s32 debt,
								 __s32 *ret_paid)
{
	__u64 n = latency_in_tier(counts, 0), weight = n ? ns / n : ns;
	__s64 pays = debt;
	if (pays > (__s64)weight)
		pays = (__s64)weight;
	if (pays < -(__s64)ns)
		pays = -(__s64)ns;
	*ret_paid = (__s32)pays;
	return weight - (__u64)pays;
}

/*
 * A thread ran in the group for `ns` unnoticed; `counts` is without it. Return the debt: n threads
 * of tier 0 shared each instant, and should have shared it with one more. Those that run have been
 * sampled so. For those in queues the clock makes up for it. A thread that left the group unnoticed
 * is the same with the other sign.
 */
static inline __attribute__((always_inline)) __s32 latency_debt(__u64 ns, __u64 counts)
{
	__u64 n = latency_in_tier(counts, 0), run = latency_threads(counts, LATENCY_RUN);
	if (ns > LATENCY_DEBT_MAX)
		ns = LATENCY_DEBT_MAX;
	return n ? (__s32)(ns * run / (n * (n + 1))) : 0;
}

/* Hash a text by words, the last one padded with zeros, from LATENCY_HASH on; then | 1. */
#define LATENCY_HASH 0xcbf29ce484222325ull
#define LATENCY_TEXT_WORDS 32
static inline __attribute__((always_inline)) __u64 latency_hash_word(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
	return hash ^ hash >> 29;
}

/* What went wrong, in counts since the start. */
struct latency_flaws {
	__u64 locked; /* clocks that were not advanced: the lock was not to be had */
	__u64 alone;  /* threads that found no group */
};

/* ---- the table of groups: the BPF programs write it, the recorder recounts (sampler_latency.c) */

#define LATENCY_GROUPS 4096 /* at a time */
#define LATENCY_PROBES 16

/*
 * A cache line. count[]: threads by state (latency_lane), in two parts, of which the sum counts.
 * Threads are counted in one of them for two windows, then in the other.
 */
struct latency_group {
	__u64 key; /* hash of the label value; 0: never used */
	__u64 count[2];
	struct latency_clock clock; /* of who holds the lock */
	__u32 lock;
	__s32 debt; /* ns: latency_weigh */
};

_Static_assert(sizeof(struct latency_group) == 64, "latency_group");

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A limit on the CPU time that is spent on one thing of many. It may take PACE_BUSY_NS at once.
 * After that each piece of work is followed by a pause of `share` times the CPU time that it took.
 * Not thread-safe: CPU time is that of the calling thread.
 */
#ifndef ASCRIBE_UTIL_PACE_H
#define ASCRIBE_UTIL_PACE_H

#include "util/clock.h"

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define PACE_BUSY_NS 20000000ull

/* All zero: it was never busy. */
struct pace {
	uint64_t until_ns; /* BOOTTIME until which it pauses */
};

static inline bool pace_pauses(const struct pace *p)
{
	return clock_ns(CLOCK_BOOTTIME) < p->until_ns;
}

/* Charge what was done since the thread's CPU clock was at begin_ns, and return it. */
static inline uint64_t pace_charge(struct pace *p, uint64_t begin_ns, unsigned share)
{
	uint64_t took_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns;
	uint64_t least = clock_ns(CLOCK_BOOTTIME) - share * PACE_BUSY_NS;
	p->until_ns = (p->until_ns > least ? p->until_ns : least) + share * took_ns;
	return took_ns;
}

#endif

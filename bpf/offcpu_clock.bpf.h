/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The times of a wait: now, the arrival on the CPU, and the time in run queues, from the kernel's
 * back-end.
 */
#ifndef ASCRIBE_OFFCPU_CLOCK_BPF_H
#define ASCRIBE_OFFCPU_CLOCK_BPF_H

#include "offcpu_schedinfo.bpf.h"
#include "offcpu_wakeups.bpf.h"

/* cfg is constant for the verifier: it drops the back-end that is not used. */
#define BACKEND(call, ...) \
	(cfg.queue_times ? schedinfo_##call(__VA_ARGS__) : wakeups_##call(__VA_ARGS__))

/* Ns until the run queue's clock is compared with CLOCK_BOOTTIME again */
#define CLOCK_FRESH (1ull << 20)
#define ARRIVAL_NEAR 20000 /* ns by which two readings of one switch differ at most */

/*
 * Return CLOCK_BOOTTIME; `clock` is this CPU's run queue clock, 0: not known. That clock counts as
 * the CPU's counter does, uncorrected: so it is compared with CLOCK_BOOTTIME every millisecond.
 */
static __always_inline __u64 clock_boot(struct sched_cpu *sc, __u64 clock)
{
	__u64 since = clock - sc->clock;
	if (unlikely(!clock || since >= CLOCK_FRESH)) {
		sc->clock = clock;
		sc->boot = bpf_ktime_get_boot_ns();
		return sc->boot;
	}
	return sc->boot + since;
}

/* |a - b| < distance. One comparison: the sum wraps around when a is far before b. */
static __always_inline bool is_near(__u64 a, __u64 b, __u64 distance)
{
	return a - b + distance - 1 < 2 * distance - 1;
}

/*
 * Return since when the current thread has had this CPU: when the run before ended, where both
 * agree.
 */
static __always_inline __u64 arrival(const struct switch_ctx *s)
{
	__u64 arrived = BACKEND(arrived, s);
	if (is_near(arrived, s->last->end, ARRIVAL_NEAR))
		arrived = s->last->end;
	return arrived < s->now ? arrived : s->now;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * Split a wait into blocked time and run queue time. Compiled for the BPF programs and for tests.
 *
 *        began                woken          moved            arrived
 *          |----- blocked -----|- elsewhere --|----- here ------|---- running
 *                     since
 *
 * A thread that was preempted is never blocked: all of its wait is run queue time. What lies before
 * `since` was reported while the wait went on, so only [since, arrived) is split. Run queue time is
 * the end of a wait, and time in the queue of the CPU where the thread then runs the end of that.
 */
#ifndef ASCRIBE_WAIT_SPLIT_H
#define ASCRIBE_WAIT_SPLIT_H

#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

/* All times in ns, of one clock; since <= arrived, and began <= since where it is known. */
struct wait_times {
	__u64 began; /* 0: before the recording */
	__u64 since;
	__u64 arrived;
	__u64 here;	 /* ns in the queue of the CPU where it arrived; preempted, 0: not known */
	__u64 elsewhere; /* ns in queues of other CPUs before that */
	__u32 blocked;	 /* 0: preempted, or a new thread */
};

struct wait_parts {
	__u64 off, runq;	   /* of [since, arrived): off + runq is all of it */
	__u64 here, elsewhere;	   /* of runq: here + elsewhere is all of it */
	__u64 off_full, runq_full; /* of the whole wait; 0: none, or not known */
};

static inline __attribute__((always_inline)) struct wait_parts
split_wait(const struct wait_times *t)
{
	struct wait_parts p = { 0 };
	__u64 all = t->arrived - t->since, whole = t->began ? t->arrived - t->began : 0;
	__u64 here = t->here;
	if (t->blocked) {
		p.runq_full = here + t->elsewhere;
		p.runq = p.runq_full < all ? p.runq_full : all;
		p.off_full = p.runq_full < whole ? whole - p.runq_full : 0;
	} else {
		here = here ? here : all;
		p.runq_full = whole;
		p.runq = all;
	}
	p.off = all - p.runq;
	p.here = here < p.runq ? here : p.runq;
	p.elsewhere = p.runq - p.here;
	return p;
}

#endif

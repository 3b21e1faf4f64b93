/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deadlines of children, in time that they could use. Time in the run queue does not count: on a
 * busy host it says nothing about the file or process that a child reads.
 *
 *   state                time that counts
 *   blocked or stopped   all since the start, less the time in the run queue
 *   running or runnable  CPU time: the kernel adds the time in the run queue when it is over
 *
 * No child has more than CHILD_STARVED_NS in all. Without sched_info in the kernel all time of a
 * blocked child counts.
 */
#ifndef ASCRIBE_SANDBOX_CHILD_CLOCK_H
#define ASCRIBE_SANDBOX_CHILD_CLOCK_H

#include "sandbox/sandbox.h"

#define CHILD_STARVED_NS 20000000000ull

struct child_clock {
	uint64_t blocked_max, cpu_max; /* ns: limits of the time that counts, by state */
	/* CLOCK_MONOTONIC; look_ns: the next time to look at the child */
	uint64_t begin_ns, look_ns;
	uint64_t cpu_ns, queued_ns; /* of the child at the start */
};

/* Start the clock of a request. */
void child_clock_start(struct child_clock *c, pid_t pid, uint64_t blocked_max, uint64_t cpu_max);

/* R: runnable. T: stopped. S, D: blocked. '?': it has ended. */
char sandbox_child_state(pid_t pid);

/* Return the time that counts. */
uint64_t child_clock_used_ns(const struct child_clock *c, pid_t pid, uint64_t now);

/*
 * True if the child has used its time, or was started CHILD_STARVED_NS ago. From look_ns on this
 * costs two reads of /proc, and sets the next look_ns. Receive what the child sent afterwards: it
 * may answer while it is judged.
 */
bool child_clock_is_late(struct child_clock *c, pid_t pid, uint64_t now);

#endif

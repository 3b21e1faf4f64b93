/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a blocked thread waited, and in which function of its program, by its stack. Both are worked
 * out when the store is read, so recordings of any age have them. The reasons of some tens of
 * thousands of stacks are kept, since the same stacks come in every window.
 */
#ifndef ASCRIBE_QUERY_WAITS_H
#define ASCRIBE_QUERY_WAITS_H

#include "query/wait_frames.h"

#define WAIT_EVENT "off-cpu"		/* the event of blocked threads */
#define LATENCY_EVENT "latency"		/* wall-clock time of label values: on and for CPUs, */
#define LATENCY_OFF_EVENT "latency.off" /* and blocked */
#define WAKER_EVENT "waker"		/* blocked time by who ended it, */
#define WAKER_IDLE_EVENT \
	"waker.idle" /* and that of idle waits: the recorder knows the blocked thread's stack */
/* the outermost frame of waits that were under way at its begin */
#define WAIT_EARLIER "[before the recording]"

struct wait_reason {
	/*
	 * the first frame of the program itself; else the first that is not the kernel's, else the
	 * leaf
	 */
	uint32_t frame;
	uint8_t class; /* enum wait_class */
	bool weak;     /* by a weak rule: WAIT_RULE_WEAK */
};

#define WAIT_STACKS 32768

struct wait_cached {
	uint32_t stack;
	struct wait_reason reason;
};

/* All zero is empty. */
struct wait_reasons {
	struct wait_frame *frames; /* [n_frames], by id */
	uint8_t *frame_known;	   /* [n_frames] */
	size_t n_frames;
	struct wait_cached *stacks; /* [WAIT_STACKS]: the last of each place */
};

void wait_reasons_fini(struct wait_reasons *w);

/* Are its rows of blocked threads, whose stacks say why? */
bool query_is_blocked(const char *event);

/* Of a stack of such an event. Borrowed until the next call. 0 or -ENOMEM. */
int wait_reason_of(struct wait_reasons *w, const struct store *s, uint32_t stack,
		   const struct wait_reason **ret);

#endif

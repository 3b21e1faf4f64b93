/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recording beside a program that shows it: a collector in a thread of its own writes short windows into a store in memory, which the program
 * reads as any store. Nothing touches a disk, and nothing is left when the process ends.
 *
 *   live_open (no thread yet: children are forked) -> live_start -> [live_fd readable: live_look, read live_store] -> live_stop
 *
 * The thread owns the collector from live_start to live_stop. It blocks all signals but those of faults.
 */
#ifndef ASCRIBE_COLLECT_LIVE_H
#define ASCRIBE_COLLECT_LIVE_H

#include "collect/collector.h"

struct live;

/*
 * cfg: as for collector_open; its window_s is how long a window is. what says what is recorded. Windows older than recent_ns
 * may go; those up to recent_ns are there. Root, as for recording.
 */
int live_open(struct live **ret, const struct sampler_config *cfg, const char *what, int64_t recent_ns, struct err *ret_warning,
	      struct err *err);
int live_start(struct live *l, struct err *err);

/* The store's directory, for this process. */
const char *live_store(const struct live *l);

/* Readable when a window was written or recording has ended, until live_look. */
int live_fd(const struct live *l);

struct live_state {
	struct collector_progress progress;
	uint64_t started_ns; /* BOOTTIME */
	bool ended;	     /* by an error, which is in err */
	struct err err;
};

void live_look(struct live *l, struct live_state *ret);

/* End recording; the last window is written. The first error of the recording, or of its end. */
int live_stop(struct live *l, struct err *err);
/* NULL and one that never started are fine. */
void live_close(struct live *l);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Record while a program shows the recording: a collector in a thread of its own writes short
 * windows into a store in memory. The program reads that store like any other. Nothing touches a
 * disk, and nothing is left when the process ends.
 *
 *   live_open (no thread yet: it forks children) -> live_start
 *             -> [live_fd readable: live_look, read live_store] -> live_stop
 *
 * The thread owns the collector from live_start to live_stop. It blocks all signals but those of
 * faults.
 */
#ifndef ASCRIBE_COLLECT_LIVE_H
#define ASCRIBE_COLLECT_LIVE_H

#include "collect/collector.h"

struct live;

/*
 * cfg: as for collector_open; window_s is the length of a window. detail: as for
 * collector_set_detail. what: a description of the recording, for the store. Windows older than
 * recent_ns may be removed. Needs root, like all recording.
 */
int live_open(struct live **ret, const struct sampler_config *cfg,
	      const struct collector_detail *detail, const char *what, int64_t recent_ns,
	      struct err *ret_warning, struct err *err);
int live_start(struct live *l, struct err *err);

/* Return the store's directory, valid in this process. */
const char *live_store(const struct live *l);

/*
 * Return a descriptor that is readable after a window was written or recording ended, until
 * live_look.
 */
int live_fd(const struct live *l);

struct live_state {
	struct collector_progress progress;
	uint64_t started_ns; /* BOOTTIME */
	bool ended;	     /* by the error in err */
	struct err err;
};

void live_look(struct live *l, struct live_state *ret);

/*
 * End recording and write the last window. Return the first error of the recording or of its end.
 */
int live_stop(struct live *l, struct err *err);
/* NULL is allowed, and a recording that never started. */
void live_close(struct live *l);

#endif

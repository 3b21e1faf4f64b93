/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ascribe's own latencies and sizes, as histograms of the process: metrics.def names them. To
 * measure one is one line, from any thread:
 *
 *   METRIC_TIME(drain);                              from here to the end of the block, whichever
 *                                                    way it is left
 *   metric_record(METRIC_stack_depth, n_frames);
 *
 * A histogram is made when its first value comes; without memory for it the value is counted in
 * metrics_lost alone. A value costs a nanosecond, a time two readings of the clock. Thread-safe;
 * not for signal handlers.
 */
#ifndef ASCRIBE_HIST_METRICS_H
#define ASCRIBE_HIST_METRICS_H

#include "hist/prometheus.h"
#include "hist/snapshot.h"

enum metric {
#define METRIC(id, name, decimals, from, to, help) METRIC_##id,
#include "hist/metrics.def"
#undef METRIC
	N_METRICS,
};

void metric_record(enum metric m, uint64_t value);

/* n times the same value. */
void metric_add(enum metric m, uint64_t value, uint64_t n);

struct metric_timer {
	enum metric metric;
	uint64_t begin_ns;
};

struct metric_timer metric_begin(enum metric m);
void metric_end(struct metric_timer *t);

#define METRIC_TIME(id) \
	struct metric_timer metric_timer_##id __attribute__((cleanup(metric_end))) = \
		metric_begin(METRIC_##id)

/* "ascribe_drain_seconds". */
const char *metric_name(enum metric m);

/* Of the unit in the name: 9 where values are nanoseconds and the name says seconds. */
unsigned metric_decimals(enum metric m);

/*
 * Add what was recorded to a snapshot; as the calls of snapshot.h that fail. Their precision is 6
 * bits, 0.78%.
 */
int metric_snapshot(enum metric m, struct hist_snapshot *s, struct err *err);

#define OWN_BITS 3 /* with which they are kept in a store: 6.25% */

/* Events of a store, with counts of the recorder beside its histograms: collect/own.h. */
#define OWN_SILENT "ascribe_reads_unanswered"
#define OWN_JOBS_REFUSED "ascribe_jobs_refused"
#define OWN_NATIVE "ascribe_runtimes_unknown"

/* Values for which there was no memory. */
uint64_t metrics_lost(void);

/* All that have a value, in Prometheus' text format. Appends. */
int metrics_prometheus(struct buf *out, struct err *err);

#endif

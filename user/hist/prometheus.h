/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A snapshot in other buckets, and in Prometheus' text format (version 0.0.4) as a classic
 * histogram, or as a summary with {quantile="0.99"} in the place of _bucket:
 *
 *   # HELP ascribe_drain_seconds Time to drain the tables.
 *   # TYPE ascribe_drain_seconds histogram
 *   ascribe_drain_seconds_bucket{cpu="0",le="0.001"} 12
 *   ascribe_drain_seconds_bucket{cpu="0",le="+Inf"} 13
 *   ascribe_drain_seconds_sum{cpu="0"} 0.0195
 *   ascribe_drain_seconds_count{cpu="0"} 13
 */
#ifndef ASCRIBE_HIST_PROMETHEUS_H
#define ASCRIBE_HIST_PROMETHEUS_H

#include "hist/bounds.h"
#include "hist/snapshot.h"
#include "util/buf.h"

/*
 * How many values are <= each of n ascending bounds. A bucket counts as its middle. Only values of
 * the one bucket in which a bound lies, within 2^-bits of it, can be on the wrong side. Where the
 * bound is a bucket's greatest value the count is exact.
 */
void hist_rebucket(const struct hist_snapshot *s, const uint64_t *bounds, size_t n,
		   uint64_t *ret_upto);

/* The same for each bucket alone: ret[n] is how many values are above all bounds. */
void hist_bucket_counts(const struct hist_snapshot *s, const uint64_t *bounds, size_t n,
			uint64_t *ret);

#define HIST_LABEL_BYTES_MAX 1024 /* of a value; what is longer is cut */

struct hist_label {
	const char *name, *value;
};

struct hist_family {
	const char *name; /* [a-zA-Z_:][a-zA-Z0-9_:]*, with the unit at its end */
	const char *help;
	/* Values are in 10^-decimals of the unit of the name: 9 for nanoseconds and _seconds */
	unsigned decimals;
	const uint64_t *bounds; /* ascending, in the unit of the values */
	size_t n_bounds;
	/* Of a summary, ascending, each in 0 .. 1; none: the family is a histogram */
	const double *quantiles;
	size_t n_quantiles;
};

/*
 * All append. -EINVAL: not a name; -ENOMEM. The head comes once, then the samples of all label
 * sets.
 */
int hist_prometheus_head(const struct hist_family *f, struct buf *out, struct err *err);
int hist_prometheus(const struct hist_family *f, const struct hist_snapshot *s,
		    const struct hist_label *labels, size_t n_labels, struct buf *out,
		    struct err *err);
/* A summary: the sum and the count are of `all`, quantiles of `recent`; NaN where that is empty. */
int hist_prometheus_summary(const struct hist_family *f, const struct hist_snapshot *all,
			    const struct hist_snapshot *recent, const struct hist_label *labels,
			    size_t n_labels, struct buf *out, struct err *err);

#endif

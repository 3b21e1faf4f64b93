/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics from profiles: rules turn the CPU time or the waits of a store into Prometheus counters,
 * and the lengths of waits into histograms and summaries. Each question counts the windows that
 * were written since the last one.
 *
 * A rule has at most `top` series and one more, whose labels are all "(other)". Each update gives
 * the free series to the groups with the most seconds. A series stays as long as the rules, so no
 * counter ever goes down. Groups without a series are counted in (other). Any thread.
 */
#ifndef ASCRIBE_HTTP_METRIC_RULES_H
#define ASCRIBE_HTTP_METRIC_RULES_H

#include "hist/bounds.h"
#include "query/query.h"
#include "util/buf.h"

#define RULES_MAX 16
#define RULE_KEYS_MAX 4
#define RULE_TOP_MAX 1000
/* Of a rule with lengths: a series then is some 20 lines, and 4 KiB of buckets at most. */
#define RULE_LENGTHS_TOP_MAX 100
#define RULE_QUANTILES_MAX 10

enum metric_rule_type {
	RULE_COUNTER = 0,
	RULE_HISTOGRAM, /* of the lengths of waits, as RULE_SUMMARY */
	RULE_SUMMARY,
};

struct metric_rule {
	const char *name; /* letters, digits and _ */
	enum query_metric metric;
	const char *const *keys;
	size_t n_keys;
	const char *where; /* NULL: everything */
	unsigned top;
	enum metric_rule_type type;
	const uint64_t *bounds; /* RULE_HISTOGRAM: ascending nanoseconds */
	size_t n_bounds;
	const double *quantiles; /* RULE_SUMMARY: ascending, each in 0 .. 1 */
	size_t n_quantiles;
};

struct metric_rules;

/* -EINVAL: a rule makes no sense; the text names what. */
int metric_rule_check(const struct metric_rule *r, struct err *err);

/*
 * Count windows that begin at from_ns or later. The texts of v must outlive the rules. -ENOMEM;
 * -EINVAL: two rules have one name.
 */
int metric_rules_new(struct metric_rules **ret, const struct metric_rule *v, size_t n,
		     int64_t from_ns, struct err *err);
void metric_rules_free(struct metric_rules *r);

/*
 * More bytes than the counters of RULES_MAX rules with RULE_TOP_MAX series have, or the buckets of
 * as many with RULE_LENGTHS_TOP_MAX.
 */
#define METRIC_RULES_KEPT_MAX (32u << 20)

/*
 * Go on with the counters that are in this file of memory, where they are of the same rules, and
 * keep them there from now on: they outlive this process. fd is borrowed. Before the first write.
 */
int metric_rules_keep(struct metric_rules *r, int fd, struct err *err);

/*
 * Count what is new in the store, and append the families: in Prometheus' text format, or as
 * OpenMetrics with trace ids as exemplars. A rule whose question fails keeps its counters;
 * ascribe_profile_rule_ok says so. -EAGAIN, -ESTALE: as of query_open; -ENOMEM.
 */
int metric_rules_write(struct metric_rules *r, struct store *s, bool openmetrics, struct buf *out,
		       struct err *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules that say when the daemon freezes its last minutes by itself (freeze.h):
 *
 *   cpu some > 40%      PRESSURE some|full > PERCENT, over ten seconds, of cpu, io or memory
 *   p99(runq) > 50ms    pQUANTILE(runq|off) > TIME, of the waits that ended in the last window;
 *                       p99(runq{tenant="a"}): of those with these labels
 */
#ifndef ASCRIBE_DAEMON_FREEZE_RULES_H
#define ASCRIBE_DAEMON_FREEZE_RULES_H

#include "query/query.h"

#define FREEZE_RULES_MAX 8
#define FREEZE_WHERE_MAX 256

struct freeze_rule {
	const char *text; /* borrowed */
	char pressure[8]; /* "cpu", "io", "memory"; "": it is about waits */
	char share[8];	  /* "some", "full" */
	double percent;	  /* more than that */
	enum query_metric metric;
	char where[FREEZE_WHERE_MAX]; /* a selector; "": all waits */
	double quantile;	      /* 0 to 1 */
	int64_t longer_ns;
};

/* waits: they are recorded. -EINVAL: no such rule, or the host has not what it is about. */
int freeze_rule_parse(struct freeze_rule *ret, const char *text, bool waits, struct err *err);
/*
 * Whether it holds now. Rules of waits read the newest window of the store, so they are asked once
 * for each. *ret_seen: what was measured, in the unit of the rule. -errno: it cannot be told.
 */
int freeze_rule_holds(const struct freeze_rule *r, const char *store, bool *ret, double *ret_seen,
		      struct err *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of rules: how they are counted (metric_rules.c), and kept (metric_rules_kept.c). */
#ifndef ASCRIBE_HTTP_METRIC_RULES_INT_H
#define ASCRIBE_HTTP_METRIC_RULES_INT_H

#include "http/metric_rules.h"

#include <pthread.h>

#define VALUE_MAX 256 /* bytes of a label's value; longer ones are cut */
#define TRACE_MAX 65  /* an exemplar has 128 characters at most, names included */
#define TRACE_KEY "trace_id"
#define OTHER "(other)"

struct series {
	char *values; /* one behind the other, each with its NUL */
	size_t len;
	uint64_t ns;
	/* Exemplar: the trace with the most time in the last update that had any; "": none */
	char trace[TRACE_MAX];
	uint64_t trace_ns;
	int64_t trace_at_ns;
};

struct rule_state {
	struct metric_rule r;
	struct series *series; /* [n], room for r.top */
	unsigned n;
	uint64_t other_ns;
	int64_t next_ns; /* windows that begin then or later are not counted yet */
	bool failed;
};

struct metric_rules {
	pthread_mutex_t lock;
	struct rule_state *v;
	size_t n;
	bool exemplars; /* somebody has asked for them, and may again */
	int kept_fd;	/* -1: none */
};

/* Write all counters to kept_fd, if there is one. With the lock. */
void metric_rules_save(const struct metric_rules *r);

#endif

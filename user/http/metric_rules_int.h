/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of rules: how they are counted (metric_rules.c), those of lengths of waits
 * (metric_rules_lengths.c), and how they are kept (metric_rules_kept.c).
 */
#ifndef ASCRIBE_HTTP_METRIC_RULES_INT_H
#define ASCRIBE_HTTP_METRIC_RULES_INT_H

#include "hist/snapshot.h"
#include "http/metric_rules.h"

#include <pthread.h>

#define VALUE_MAX 256 /* bytes of a label's value; longer ones are cut */
#define TRACE_MAX 65  /* an exemplar has 128 characters at most, names included */
#define TRACE_KEY "trace_id"
#define OTHER "(other)"

/* Of one series. The quantiles of a summary are those of `recent`. */
struct rule_lengths {
	struct hist_snapshot all,
		recent[2]; /* the last RULE_RECENT_NS at most, and as long before them */
};
#define RULE_RECENT_NS (INT64_C(300) * 1000000000)

struct series {
	char *values; /* one behind the other, each with its NUL */
	size_t len;
	uint64_t ns;
	/* Exemplar: the trace with the most time in the last update that had any; "": none */
	char trace[TRACE_MAX];
	uint64_t trace_ns;
	int64_t trace_at_ns;
	struct rule_lengths *lengths; /* NULL: of a counter */
};

struct rule_state {
	struct metric_rule r;
	struct series *series; /* [n], room for r.top */
	unsigned n;
	uint64_t other_ns;
	struct rule_lengths *other;
	int64_t recent_ns; /* when recent[0] of all series began; 0: not yet */
	int64_t next_ns;   /* windows that begin then or later are not counted yet */
	bool failed;
};

struct metric_rules {
	pthread_mutex_t lock;
	struct rule_state *v;
	size_t n;
	bool exemplars; /* somebody has asked for them, and may again */
	int kept_fd;	/* -1: none */
};

/* A label's name in Prometheus. */
void metric_rule_label(const char *key, char out[VALUE_MAX]);

/* The values of a group as they are shown. -ENOMEM. */
int rule_write_values(struct buf *to, const char *const *values, size_t n_keys);
/* The series of a group, a new one where there is room; NULL: it counts as (other). -ENOMEM. */
int rule_find_series(struct rule_state *s, const struct buf *values, struct series **ret);

/* New and empty; NULL: no memory. */
struct rule_lengths *rule_lengths_new(void);
void rule_lengths_clear(struct rule_lengths *l);
void rule_lengths_free(struct rule_lengths *l);
/*
 * Count the waits of windows that are not counted yet. As query_lengths; -ENOBUFS: the budget of
 * the question cut some.
 */
int rule_lengths_count(struct rule_state *s, struct store *store, struct err *err);
/* Append the family of a rule with lengths. -ENOMEM. */
int rule_lengths_write(const struct rule_state *s, struct buf *out, struct err *err);

/* Write all counters to kept_fd, if there is one. With the lock. */
void metric_rules_save(const struct metric_rules *r);

#endif

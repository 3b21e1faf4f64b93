/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules whose metric is a histogram or a summary. Each series counts lengths of waits in the
 * buckets in which they are recorded (LENGTHS_BITS). The buckets of the rule are made of those when
 * they are written: a length that was counted stays in its bucket, so no count goes down.
 */
#include "http/metric_rules_int.h"

#include "hist/prometheus.h"
#include "query/lengths.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rule_lengths *rule_lengths_new(void)
{
	struct rule_lengths *l = malloc(sizeof(*l));
	if (!l)
		return NULL;
	hist_snapshot_init(&l->all, LENGTHS_BITS);
	hist_snapshot_init(&l->recent[0], LENGTHS_BITS);
	hist_snapshot_init(&l->recent[1], LENGTHS_BITS);
	return l;
}

void rule_lengths_clear(struct rule_lengths *l)
{
	hist_snapshot_fini(&l->all);
	hist_snapshot_fini(&l->recent[0]);
	hist_snapshot_fini(&l->recent[1]);
}

void rule_lengths_free(struct rule_lengths *l)
{
	if (l)
		rule_lengths_clear(l);
	free(l);
}

/* ---- counting ---- */

static void forget_oldest(struct rule_lengths *l)
{
	hist_snapshot_fini(&l->recent[1]);
	l->recent[1] = l->recent[0];
	hist_snapshot_init(&l->recent[0], LENGTHS_BITS);
}

/* Begin recent[0] anew, where windows up to to_ns would make it too long. */
static void age(struct rule_state *s, int64_t to_ns)
{
	const int64_t since_ns = to_ns - s->recent_ns;
	if (since_ns <= RULE_RECENT_NS && s->recent_ns)
		return;
	for (int64_t n = since_ns > 2 * RULE_RECENT_NS ? 2 : 1; s->recent_ns && n; n--) {
		for (unsigned i = 0; i < s->n; i++)
			forget_oldest(s->series[i].lengths);
		forget_oldest(s->other);
	}
	s->recent_ns = s->next_ns;
}

static int add(const struct rule_state *s, struct rule_lengths *to, const struct hist_snapshot *h,
	       struct err *err)
{
	int rc = hist_snapshot_merge(&to->all, h, err);
	return rc || s->r.type != RULE_SUMMARY ? rc : hist_snapshot_merge(&to->recent[0], h, err);
}

/* Groups come by the number of their waits, so free series go to the largest. */
static int count_groups(struct rule_state *s, const struct query_lengths *l, struct err *err)
{
	struct query_lengths_group *groups = NULL;
	struct buf values = BUF_INIT;
	struct series *to;
	size_t n = 0;
	int rc = query_lengths_groups(l, &groups, &n);
	for (size_t i = 0; !rc && i < n; i++) {
		if (!groups[i].hist->total)
			continue;
		rc = rule_write_values(&values, groups[i].values, s->r.n_keys);
		rc = rc ? rc : rule_find_series(s, &values, &to);
		rc = rc ? rc : add(s, to ? to->lengths : s->other, groups[i].hist, err);
	}
	buf_fini(&values);
	query_lengths_groups_free(groups);
	return rc;
}

int rule_lengths_count(struct rule_state *s, struct store *store, struct err *err)
{
	const struct query_spec spec = { .where = s->r.where,
					 .from_ns = s->next_ns,
					 .to_ns = INT64_MAX,
					 .metric = s->r.metric,
					 .keys = s->r.keys,
					 .n_keys = s->r.n_keys,
					 .by_start = true };
	struct query_lengths *l = NULL;
	int rc = query_lengths(&l, store, &spec, err);
	const int64_t to_ns = rc ? 0 : query_lengths_to_ns(l);
	if (to_ns) { /* whatever fails from here on, nothing is counted twice */
		age(s, to_ns);
		s->next_ns = to_ns;
		rc = count_groups(s, l, err);
	}
	if (!rc && query_lengths_bounded(l))
		rc = err_set(err, -ENOBUFS, "%s: the budget of the question cut waits", s->r.name);
	query_lengths_free(l);
	return rc;
}

/* ---- the text ---- */

/* values NULL: of (other). */
static int write_series(const struct rule_state *s, const struct hist_family *f, const char *values,
			const struct rule_lengths *l, struct buf *out, struct err *err)
{
	char names[RULE_KEYS_MAX][VALUE_MAX];
	struct hist_label labels[RULE_KEYS_MAX];
	for (size_t i = 0; i < s->r.n_keys; i++) {
		metric_rule_label(s->r.keys[i], names[i]);
		labels[i] = (struct hist_label){ names[i], values ? values : OTHER };
		values += values ? strlen(values) + 1 : 0;
	}
	if (s->r.type == RULE_HISTOGRAM)
		return hist_prometheus(f, &l->all, labels, s->r.n_keys, out, err);
	struct hist_snapshot recent;
	hist_snapshot_init(&recent, LENGTHS_BITS);
	int rc = hist_snapshot_merge(&recent, &l->recent[0], err);
	rc = rc ? rc : hist_snapshot_merge(&recent, &l->recent[1], err);
	rc = rc ? rc : hist_prometheus_summary(f, &l->all, &recent, labels, s->r.n_keys, out, err);
	hist_snapshot_fini(&recent);
	return rc;
}

int rule_lengths_write(const struct rule_state *s, struct buf *out, struct err *err)
{
	char name[VALUE_MAX];
	const struct hist_family f = {
		.name = name,
		.help = s->r.metric == QUERY_OFF ? "Lengths of waits in profiles, blocked, of "
						   "the groups of the rule."
						 : "Lengths of waits for a CPU in profiles, of "
						   "the groups of the rule.",
		.decimals = 9,
		.bounds = s->r.bounds,
		.n_bounds = s->r.n_bounds,
		.quantiles = s->r.quantiles,
		.n_quantiles = s->r.n_quantiles
	};
	snprintf(name, sizeof(name), "ascribe_profile_%s_seconds", s->r.name);
	int rc = hist_prometheus_head(&f, out, err);
	for (unsigned i = 0; !rc && i < s->n; i++)
		rc = write_series(s, &f, s->series[i].values, s->series[i].lengths, out, err);
	return rc ? rc : write_series(s, &f, NULL, s->other, out, err);
}

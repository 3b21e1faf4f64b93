/* SPDX-License-Identifier: Apache-2.0 */
#include "query/counters.h"

#include <errno.h>
#include <stdlib.h>

int counters_init(struct query *q)
{
	const struct store_meta *meta = store_meta(q->store);
	q->counters = calloc(meta->n_lost + meta->n_flagged + 1, sizeof(*q->counters));
	if (!q->counters)
		return -ENOMEM;
	q->info.lost = q->counters;
	q->info.flagged = q->counters + meta->n_lost;
	return 0;
}

static void add_totals(struct query *q, const struct store_totals *t)
{
	const struct store_meta *m = store_meta(q->store);
	uint64_t *lost = q->counters, *flagged = lost + m->n_lost;
	for (size_t i = 0; i < t->n_cpus; i++) {
		q->info.fired += t->cpu[i].fired;
		q->info.stored += t->cpu[i].stored;
		for (size_t k = 0; k < m->n_lost; k++)
			lost[k] += t->cpu[i].lost[k];
		for (size_t k = 0; k < m->n_flagged; k++)
			flagged[k] += t->cpu[i].flagged[k];
	}
	q->info.outside += t->outside;
	q->info.own_cpu_ns += t->own_cpu_ns;
	if (t->own_rss > q->info.own_rss_max)
		q->info.own_rss_max = t->own_rss;
}

/*
 * A parent does not know the gaps between its windows; none of them is longer than a window of a
 * recorder.
 */
static int64_t covered(const struct store_block *b)
{
	int64_t length, windows;
	/* Times and numbers are whatever a damaged store says. */
	if (__builtin_sub_overflow(b->t1_ns, b->t0_ns, &length))
		length = INT64_MAX;
	if (__builtin_mul_overflow(b->n_windows, QUERY_WINDOW_NS, &windows))
		windows = INT64_MAX;
	return b->level && windows < length ? windows : length;
}

int counters_add(struct query *q, const struct store_block *b, struct err *err)
{
	struct store_totals *t;
	int rc = store_block_totals(q->store, b, &t, err);
	if (rc)
		return rc;
	if (!store_scope(q->store)) /* they are those of everybody */
		add_totals(q, t);
	store_totals_free(t);
	q->info.windows += b->n_windows;
	if (__builtin_add_overflow(q->info.covered_ns, covered(b), &q->info.covered_ns))
		q->info.covered_ns = INT64_MAX;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a query from its sums. */
#include "query/sum.h"

#include <errno.h>
#include <stdlib.h>

/* Whether the sum of a stack is part of the answer; it is counted, or that its CPU was idle. */
static bool admit(struct summing *m, const struct store_row *row)
{
	struct query_info *info = &m->q->info;
	bool idle = sum_is_idle(m->q->store, row->stack);
	if (idle && m->once)
		info->idle += row->samples;
	if (!m->of->measures.admitted || (idle && !m->of->spec.idle))
		return false;
	info->samples += row->samples;
	info->value += row->value;
	return true;
}

static int give_sums(struct summing *m)
{
	struct query *q = m->q;
	bool by_set = m->of->spec.labels == QUERY_KEYS;
	size_t n = 0;
	for (size_t i = 0; i < m->sums.n; i++)
		n += m->sums.v[i].samples || m->sums.v[i].value;
	q->rows = calloc(n + 1, sizeof(*q->rows));
	if (!q->rows)
		return -ENOMEM;
	for (size_t i = 0; i < m->sums.n; i++) {
		const struct sum *v = &m->sums.v[i];
		uint32_t id = (uint32_t)i;
		struct store_row row = { by_set ? id : 0, by_set ? 0 : id, q->event, v->samples, v->value };
		if ((v->samples || v->value) && (by_set || admit(m, &row)))
			q->rows[q->n_rows++] = row;
	}
	return 0;
}

/*
 * From nanoseconds back to samples: of the lowest rate that was seen, so that none stands for more
 * than one that was taken, and an interval is never narrower than it ought to be. What a row has
 * too much for a whole sample goes to the next: the sum is right.
 */
static void count_rates(struct summing *m)
{
	struct query *q = m->q;
	uint64_t ns = 0, carry, sum = 0;
	size_t n = 0, seen = 0;
	for (uint32_t i = 0; i < store_n_events(q->store); i++) {
		const struct store_event *e = store_event(q->store, i);
		bool longer = m->of->spec.ns_per_sample ? e->ns_per_sample == m->of->spec.ns_per_sample : m->of->measures.of[i].seen && e->ns_per_sample > ns;
		seen += m->of->measures.of[i].seen;
		if (!m->of->measures.of[i].counts || !longer)
			continue;
		q->event = i;
		ns = e->ns_per_sample;
	}
	q->rates = seen > 1;
	q->info.event = store_event(q->store, q->event);
	ns = q->info.event->ns_per_sample;
	carry = ns / 2;
	for (size_t i = 0; i < q->n_rows; i++) {
		struct store_row row = q->rows[i];
		carry += row.samples;
		row.samples = carry / ns;
		row.event = q->event;
		carry %= ns;
		sum += row.samples;
		if (row.samples)
			q->rows[n++] = row;
	}
	q->n_rows = n;
	q->info.samples = sum;
	q->info.idle = (q->info.idle + ns / 2) / ns;
}

int summing_finish(struct summing *m)
{
	struct query *q = m->q;
	enum query_labels labels = m->of->spec.labels;
	bool by_id = labels == QUERY_KEYS || labels == QUERY_NO_LABELS;
	int rc = by_id ? give_sums(m) : runs_finish(&m->runs, &q->rows, &q->n_rows);
	if (!rc && m->of->measures.rates)
		count_rates(m);
	if (!rc && q->info.event)
		q->info.seconds = (double)q->info.samples * (double)q->info.event->ns_per_sample / 1e9;
	return rc;
}

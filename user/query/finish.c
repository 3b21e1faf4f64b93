/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a query from its sums. */
#include "query/sum.h"

/*
 * From nanoseconds back to samples, of the lowest rate in the answer. So none stands for more than
 * one that was taken, and an interval is never narrower than it ought to be. What a row has too
 * much for a whole sample goes to the next: the sum is right.
 */
static void count_rates(struct summing *m)
{
	struct query *q = m->q;
	uint64_t ns = 0, carry, sum = 0;
	size_t n = 0;
	for (uint32_t i = 0; i < store_n_events(q->store); i++) {
		const struct store_event *e = store_event(q->store, i);
		bool longer = m->of->spec.ns_per_sample
				      ? e->ns_per_sample == m->of->spec.ns_per_sample
				      : m->of->measures.of[i].seen && e->ns_per_sample > ns;
		if (!m->of->measures.of[i].counts || !longer)
			continue;
		q->event = i;
		ns = e->ns_per_sample;
	}
	for (uint32_t i = 0; i < store_n_events(q->store); i++)
		q->rates |= m->of->measures.of[i].seen && i != q->event;
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

/* From integrals to averages over the time that the answer covers; what is left over is carried. */
static void average(struct query *q)
{
	const uint64_t ns = q->info.covered_ns > 0 ? (uint64_t)q->info.covered_ns : 1;
	unsigned __int128 carry = ns / 2;
	uint64_t sum = 0;
	size_t n = 0;
	for (size_t i = 0; i < q->n_rows; i++) {
		struct store_row row = q->rows[i];
		carry += (unsigned __int128)row.samples * 1000000000u;
		row.value = row.samples = (uint64_t)(carry / ns);
		carry %= ns;
		sum += row.samples;
		if (row.samples)
			q->rows[n++] = row;
	}
	q->n_rows = n;
	q->info.samples = q->info.value = sum;
}

/* Let a sampled allocation stand for the largest mean in the answer: no interval is too narrow. */
static void widen_grain(struct summing *m)
{
	struct query *q = m->q;
	for (uint32_t i = 0; i < store_n_events(q->store); i++)
		if (m->of->measures.of[i].seen && store_event(q->store, i)->period > q->info.grain)
			q->info.grain = store_event(q->store, i)->period;
}

int summing_finish(struct summing *m)
{
	struct query *q = m->q;
	int rc = sums_give(&m->sums);
	if (!rc && m->of->measures.rates)
		count_rates(m);
	if (!rc && m->of->measures.stock)
		average(q);
	if (!rc && query_metric_is_heap(m->of->spec.metric) && q->info.grain)
		widen_grain(m);
	if (!rc && q->info.event)
		q->info.seconds =
			(double)q->info.samples * (double)q->info.event->ns_per_sample / 1e9;
	return rc;
}

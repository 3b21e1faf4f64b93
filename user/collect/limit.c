/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keep the open window within the memory that it may have: distinct rows, and stacks in the store's
 * dictionaries.
 */
#include "collect/collector_int.h"
#include "store/writer.h"

bool limit_is_full(const struct collector *c)
{
	struct store_memory m;
	if (!c->detail.dictionaries_max)
		return false;
	store_writer_memory(c->store, &m);
	return m.dictionaries > c->detail.dictionaries_max;
}

void limit_count(struct collector *c, uint64_t samples)
{
	struct window_cpu *w = window_cpu(c->window, 0); /* sums of a label set cover all CPUs */
	w->counter[COUNTER_stack_other] += samples;
	w->used = true;
	c->sum.folded += samples;
}

void limit_rows(struct collector *c)
{
	uint32_t events[MAX_EVENTS + 4 + HEAP_EVENTS_MAX];
	uint64_t samples;
	if (!c->detail.rows_max || store_n_rows(c->store) <= c->detail.rows_max)
		return; /* the usual case, for each row */
	struct store_folding_rule f = { c->detail.rows_max, c->other_stack, c->waits.no_stack,
					events, 0 };
	for (unsigned i = 0; i < c->cfg.n_events; i++)
		events[f.n_events++] = c->event_id[i];
	if (c->waits.wakers) {
		events[f.n_events++] = c->waits.waker;
		events[f.n_events++] = c->waits.waker_idle;
	}
	if (c->waits.latency) {
		events[f.n_events++] = c->waits.weighed[0];
		events[f.n_events++] = c->waits.weighed[1];
	}
	if (c->heap.on)
		f.n_events += heap_events(&c->heap, events + f.n_events);
	if (!store_fold_small_rows(c->store, &f, &samples) && samples)
		limit_count(c, samples / c->cfg.weight);
}

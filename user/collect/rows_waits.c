/* SPDX-License-Identifier: Apache-2.0 */
/* Add what the iterator over threads tells of waits: parts of those that go on, and sums. */
#include "collect/collector_int.h"

void rows_add_part(struct collector *c, const struct row *row, const uint64_t *words,
		   uint64_t futex)
{
	struct window_cpu *w = window_cpu(c->window, 0);
	const struct sampler_half h = { .arena = words, .arena_words = sampler_row_words(row) };
	rows_enter_one(c, &h, row);
	if (row->event == c->waits.runq) {
		struct row of = *row;
		of.kind = ROW_BLAME;
		of.occupant = OCCUPANT_OTHER;
		of.n_kernel = of.n_user = of.n_script = 0;
		of.wait.flags = row->kind == ROW_KTHREAD ? WAIT_KTHREAD : 0;
		rows_enter(c, &h, &of, INSTANTS_NONE);
		return;
	}
	if (row->kind == ROW_TASK && !row->n_user && row->n_kernel)
		w->counter[COUNTER_wait_no_user_stack] += row->samples;
	if (c->waits.wakers) {
		w->counter[COUNTER_waker_unknown] += row->samples;
		wakers_add_part(c, row, words, futex);
	}
}

void rows_on_wait(void *ctx, const struct row *row, const uint64_t *words, uint64_t futex)
{
	struct collector *c = ctx;
	struct window_cpu *w = window_cpu(c->window, 0);
	const struct sampler_half h = { .arena = words, .arena_words = sampler_row_words(row) };
	bool part = row->kind == ROW_TASK || row->kind == ROW_KTHREAD;
	bool summed = row->kind == ROW_WAIT && row->wait.flags & WAIT_SUMMED;
	w->used = true;
	if (part || summed)
		w->ran += row->samples;
	if (summed)
		w->counter[COUNTER_wait_summed] += row->samples;
	if (!part) {
		rows_enter(c, &h, row, INSTANTS_NONE);
		return;
	}
	struct row of = *row;
	of.stack = 0;
	if (row->stack != WAIT_HAS_HANG || row->event != c->waits.off ||
	    !hangs_take(c, &of, words, futex, (const void *)(words + sampler_row_words(row))))
		rows_add_part(c, &of, words, futex);
}

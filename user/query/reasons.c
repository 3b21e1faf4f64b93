/* SPDX-License-Identifier: Apache-2.0 */
#include "query/reasons.h"

#include <errno.h>

int waits_choose(struct wait_choice *w, struct query *q, const struct measures *m,
		 const struct query_spec *spec, struct selector *sel, struct err *err)
{
	*w = (struct wait_choice){ .idle = spec->idle, .named = selector_names_wait(sel) };
	int rc = selector_match_wait(sel, "", &w->admits_others, err);
	bool blocked = false;
	for (int i = 0; !rc && i < WAIT_CLASSES; i++)
		rc = selector_match_wait(sel, wait_class_names[i], &w->admits[i], err);
	q->blocked = q->waits = store_n_events(q->store);
	for (uint32_t i = 0; i < store_n_events(q->store); i++) {
		const struct measure *v = &m->of[i];
		blocked |= v->counts && v->blocked;
		q->blocked &= !v->counts || v->blocked;
		q->waits &= !v->counts || v->waits;
	}
	w->by_class = w->named || (blocked && !w->idle);
	q->woken = spec->metric == QUERY_WAKER;
	if (!rc && w->named && spec->rest)
		return err_set(err, -EINVAL,
			       "`wait` cannot be in the selector of a comparison with the rest");
	return rc;
}

int waits_leave_out(const struct wait_choice *w, struct query *q, const struct measure *v,
		    const struct store_row *row, bool *ret)
{
	const struct wait_reason *r;
	*ret = (w->by_class && !v->blocked && !w->admits_others) || (v->idle && !w->idle);
	if (v->idle && !w->idle)
		q->info.idle_waits += row->value;
	if (!w->by_class || !v->blocked)
		return 0;
	int rc = wait_reason_of(&q->reasons, q->store, row->stack, &r);
	if (rc)
		return rc;
	uint8_t class = r->class;
	if (class == WAIT_CLASS_IDLE && r->weak && v->labelled)
		class = WAIT_CLASS_OTHER;
	bool idle = class == WAIT_CLASS_IDLE && !w->idle && !w->named;
	if (idle)
		q->info.idle_waits += v->value ? row->value : row->samples * v->per_sample;
	*ret = idle || !w->admits[class];
	return 0;
}

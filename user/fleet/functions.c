/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/functions.h"

#include "util/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- what can be counted ---- */

static bool uses_wait(const struct selector *selector)
{
	struct selector_matcher m;
	bool some = selector_names_wait(selector);
	for (size_t i = 0; selector_matcher(selector, i, &m); i++)
		some |= query_is_wait_key(m.key);
	return some;
}

/* Whether the events of a statement are recorded at several rates. */
static bool has_rates(const struct statement *s, const struct fleet_events *events)
{
	size_t n = 0;
	for (size_t i = 0; i < s->n_events; i++)
		for (size_t k = 0; k < events->n; k++)
			n += !strcmp(events->v[k].name, s->events[i]);
	return n > s->n_events;
}

bool functions_serve(const struct fleet_question *q, const struct selector *selector,
		     const struct fleet_events *events, const struct statement *s)
{
	return q->functions && !q->idle && q->metric < QUERY_BLAME && !uses_wait(selector) &&
	       (q->metric || !has_rates(s, events));
}

/* ---- the answer ---- */

/* Copy a text with a NUL behind it: no longer than its length and bytes were. */
static const char *take_text(struct cursor *c, char **to)
{
	size_t len = cursor_varint(c);
	const uint8_t *s = cursor_bytes(c, len);
	char *text = *to;
	if (s)
		memcpy(text, s, len);
	text[s ? len : 0] = 0;
	*to += (s ? len : 0) + 1;
	return text;
}

static int parse(const struct buf *answer, struct fleet_result *ret, bool *ret_whole,
		 struct err *err)
{
	struct query_counted *f = &ret->functions;
	struct cursor c = cursor_of(answer);
	char *to = ret->names = malloc(answer->len + 2);
	size_t cap = 0;
	*ret_whole = true;
	while (to && c.p < c.end) {
		struct query_function v = { .name = take_text(&c, &to) };
		v.module = take_text(&c, &to);
		v.inlined = cursor_u8(&c);
		v.self = cursor_u64(&c);
		v.samples = cursor_u64(&c);
		f->n_all = cursor_u64(&c);
		*ret_whole &= !cursor_u64(&c) && *v.name;
		if (c.bad)
			return err_set(err, -EPROTO, "clickhouse: functions of another form came");
		if (ARRAY_RESERVE(f->v, cap, f->n + 1))
			return err_sys(err, -ENOMEM, "cannot ask ClickHouse");
		f->v[f->n++] = v;
	}
	*ret_whole &= f->n_all >= f->n;
	return to ? 0 : err_sys(err, -ENOMEM, "cannot ask ClickHouse");
}

int functions_ask(struct ask *a, const struct fleet_question *q, const struct statement *s,
		  struct fleet_result *ret, struct err *err)
{
	struct statement st = *s;
	struct buf sql = BUF_INIT, answer = BUF_INIT;
	const struct statement_functions f = { .limit = q->functions < s->limit ? q->functions
										: s->limit,
					       .by_total = q->by_total,
					       .time = q->metric != QUERY_SAMPLES };
	bool whole = false;
	st.stacks = true;
	st.n_keep = 0;
	int rc = statement_write_functions(&st, &f, a, &sql);
	if (rc)
		err_sys(err, rc, "cannot ask ClickHouse");
	rc = rc ? rc : ask_run(a, (const char *)sql.data, NULL, 0, q->memory, &answer, err);
	rc = rc ? rc : parse(&answer, ret, &whole, err);
	bool fits = ret->functions.n == ret->functions.n_all || q->functions <= f.limit;
	ret->by_function = !rc && whole && fits;
	buf_fini(&sql);
	buf_fini(&answer);
	return rc;
}

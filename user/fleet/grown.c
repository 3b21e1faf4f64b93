/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/grown.h"

#include "fleet/statement.h"
#include "util/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_BYTES (1u << 20)

/* The text of an answer, which `filled` owns from now on. NULL: out of memory. */
static const char *keep_text(struct fleet_result *filled, const uint8_t *s, size_t len)
{
	if (ARRAY_RESERVE(filled->texts, filled->cap_texts, filled->n_texts + 1))
		return NULL;
	char *text = strndup((const char *)s, len);
	if (text)
		filled->texts[filled->n_texts++] = text;
	return text;
}

static int parse(const struct buf *answer, struct fleet_result *filled, double range_ns,
		 struct finding *f, struct err *err)
{
	struct cursor c = cursor_of(answer);
	if (c.p == c.end)
		return 0; /* no function grew */
	size_t len = cursor_varint(&c);
	const uint8_t *name = cursor_bytes(&c, len);
	uint64_t grew = cursor_u64(&c), hosts = cursor_u64(&c), now = cursor_u64(&c),
		 before = cursor_u64(&c);
	if (c.bad || cursor_left(&c) || !name || grew > hosts)
		return err_set(err, -EPROTO, "clickhouse: an answer of another form came");
	const char *text = keep_text(filled, name, len);
	if (!text)
		return err_sys(err, -ENOMEM, "cannot ask ClickHouse");
	f->function = text;
	f->module = f->value;
	f->function_now = (double)now / range_ns;
	f->function_before = (double)before / range_ns;
	f->n_hosts = hosts;
	f->n_grew = grew;
	return 0;
}

static int ask_build(struct ask *a, const struct statement *s, struct fleet_result *filled,
		     struct finding *f, struct err *err)
{
	struct buf sql = BUF_INIT, answer = BUF_INIT;
	int rc = statement_write_grown(s, f->value, f->build[0], a, &sql);
	if (rc)
		err_sys(err, rc, "cannot ask ClickHouse");
	rc = rc ? rc : ask_run(a, (const char *)sql.data, NULL, 0, ANSWER_BYTES, &answer, err);
	rc = rc ? rc : parse(&answer, filled, (double)(s->to - s->side[1].to) * 1e9, f, err);
	buf_fini(&sql);
	buf_fini(&answer);
	return rc;
}

static uint32_t seconds(int64_t ns)
{
	return ns <= 0			      ? 0
	       : ns / 1000000000 < UINT32_MAX ? (uint32_t)(ns / 1000000000)
					      : UINT32_MAX;
}

int fleet_grown(struct fleet_result *filled, const struct store *s, const char *where,
		struct findings *f, struct err *err)
{
	struct selector *selector = NULL;
	struct ask *a = NULL;
	const uint32_t before = seconds(f->before_ns), from = seconds(f->from_ns),
		       to = seconds(f->to_ns);
	int rc = selector_parse(&selector, where, NULL, err);
	rc = rc ? rc : ask_new(&a, filled->server, err);
	const struct statement st = {
		.side = { { selector, from, to }, { selector, before, from } },
		.n_sides = 2,
		.from = before,
		.to = to,
		.keep = { "host" },
		.n_keep = 1,
		.stacks = true,
		.events = { query_cpu_event(s) },
		.n_events = 1,
	};
	for (size_t i = 0; !rc && i < f->n; i++)
		if (f->v[i].kind == FINDING_BUILD)
			rc = ask_build(a, &st, filled, &f->v[i], err);
	ask_free(a);
	selector_free(selector);
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1/heatmap: what was sampled in each small step of time. */
#include "http/asked.h"
#include "http/server_int.h"
#include "query/heat.h"

#include <errno.h>

#define STEP_DEFAULT_NS 50000000ll
#define SPAN_DEFAULT_NS 60000000000ll /* of the end, where no range is given */

static json_t *cells_json(const struct query_heat *h, const struct query_heat_row *r)
{
	json_t *v = json_array();
	for (size_t i = 0; v && i < h->n_steps; i++)
		if (json_array_append_new(v, json_integer(r->cells[i]))) {
			json_decref(v);
			return NULL;
		}
	return v;
}

static json_t *row_json(const struct query_heat *h, const struct query_heat_row *r)
{
	json_t *o = json_object();
	int rc = json_put(o, "value", r->text ? json_string_of(r->text) : json_null());
	rc = rc ? rc : json_put(o, "total", json_count(r->total));
	return json_done(o, rc ? rc : json_put(o, "cells", cells_json(h, r)));
}

static json_t *heat_json(const struct query_heat *h)
{
	json_t *o = json_object(), *rows = json_array();
	int rc = json_put(o, "from", json_time(h->from_ns));
	rc = rc ? rc : json_put(o, "step", json_real((double)h->step_ns / 1e9));
	rc = rc ? rc : json_put(o, "steps", json_count(h->n_steps));
	rc = rc ? rc : json_put(o, "event", json_string_of(h->event));
	rc = rc ? rc : json_put(o, "unit", json_string_of(h->waits ? "microseconds" : "samples"));
	rc = rc ? rc : json_put(o, "total", json_count(h->total));
	rc = rc ? rc : json_put(o, "most", json_count(h->most));
	rc = rc ? rc : json_put(o, "windows", json_count(h->windows));
	rc = rc ? rc : json_put(o, "untracked", json_count(h->untracked));
	for (size_t i = 0; !rc && i < h->n_rows; i++)
		rc = json_array_append_new(rows, row_json(h, &h->rows[i])) ? -ENOMEM : 0;
	return json_done(o, rc ? (json_decref(rows), rc) : json_put(o, "rows", rows));
}

/* The end of what there is: a heat map of everything would be too long. */
static int choose_range(struct store *s, struct query_spec *q, struct err *err)
{
	struct store_cover c;
	if (q->from_ns != INT64_MIN)
		return 0;
	int rc = store_cover(s, q->from_ns, q->to_ns, STORE_FOLDED, NULL, 0, &c, err);
	if (rc)
		return rc;
	int64_t end = q->to_ns < c.to_ns ? q->to_ns : c.to_ns;
	q->from_ns = end - SPAN_DEFAULT_NS;
	store_cover_free(&c);
	return 0;
}

int api_heatmap(struct request *r, struct store *s, struct err *err)
{
	struct query_heat *h = NULL;
	struct asked a;
	int rc = asked_parse(&a, r, err);
	rc = rc ? rc : choose_range(s, &a.spec, err);
	if (!rc && a.n_keys > 1)
		rc = err_set(err, -EINVAL, "by: cpu, or one label key");
	if (!rc) {
		const struct query_heat_spec spec = { .range = a.spec,
						      .step_ns = a.step_ns ? a.step_ns
									   : STEP_DEFAULT_NS,
						      .by = a.n_keys ? a.keys[0] : NULL,
						      .top = a.limit };
		rc = query_heat(&h, s, &spec, err);
	}
	rc = rc ? rc : request_json(r, heat_json(h), err);
	query_heat_free(h);
	asked_fini(&a);
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "export/growth.h"

#include "export/export.h"

#include <errno.h>

#define NAME_MAX_BYTES 1024

bool growth_frame(const struct store *s, const struct growth *g, const struct growth_stack *of,
		  size_t i, char *name, size_t cap)
{
	uint32_t frames[EXPORT_DEPTH_MAX];
	const size_t n = of->stack == QUERY_OTHER_STACK ? 0 : export_stack(s, of->stack, frames);
	if (of->bytes <= 0 || i >= n)
		return false;
	query_name(g->ends[1], frames[i], name, cap);
	return true;
}

/* {"bytes", "frames": from the leaf on} */
static json_t *stack_json(const struct store *s, const struct growth *g,
			  const struct growth_stack *of)
{
	json_t *o = json_object(), *frames = json_array();
	char name[NAME_MAX_BYTES];
	int rc = frames ? 0 : -ENOMEM;
	for (size_t i = 0; !rc && growth_frame(s, g, of, i, name, sizeof(name)); i++)
		rc = json_array_append_new(frames, json_string_of(name)) ? -ENOMEM : 0;
	rc = rc ? rc : json_put(o, "bytes", json_count((uint64_t)of->bytes));
	if (rc)
		json_decref(frames);
	rc = rc ? rc : json_put(o, "frames", frames);
	return json_done(o, rc);
}

static json_t *row_json(const struct store *s, const struct growth *g, const struct growth_row *r)
{
	json_t *o = json_object(), *stacks = json_array();
	int rc = json_put(o, "value", r->value ? json_string_of(r->value) : json_null());
	rc = rc ? rc : json_put(o, "first", json_count(r->first));
	rc = rc ? rc : json_put(o, "last", json_count(r->last));
	rc = rc ? rc : json_put(o, "bytes_per_second", json_real(r->bytes_per_s));
	rc = rc ? rc : json_put(o, "chance", json_real(r->chance));
	rc = rc ? rc : json_put(o, "grows", json_boolean(r->grows));
	for (size_t i = 0; !rc && stacks && i < GROWTH_STACKS && r->stacks[i].bytes > 0; i++)
		rc = json_array_append_new(stacks, stack_json(s, g, &r->stacks[i])) ? -ENOMEM : 0;
	if (rc)
		json_decref(stacks);
	rc = rc ? rc : json_put(o, "stacks", stacks);
	return json_done(o, rc);
}

json_t *answer_growth(const struct store *s, const struct growth *g, const char *key, size_t limit)
{
	json_t *o = json_object(), *rows = json_array();
	int rc = json_put(o, "metric", json_string_of("inuse_space"));
	rc = rc ? rc : json_put(o, "key", json_string_of(key));
	rc = rc ? rc : json_put(o, "from", json_time(g->from_ns));
	rc = rc ? rc : json_put(o, "to", json_time(g->to_ns));
	rc = rc ? rc : json_put(o, "end_seconds", json_real(g->end_s));
	rc = rc ? rc : json_put(o, "first", json_count(g->first));
	rc = rc ? rc : json_put(o, "last", json_count(g->last));
	for (size_t i = 0; !rc && rows && i < g->n_rows && i < limit; i++)
		rc = json_array_append_new(rows, row_json(s, g, &g->rows[i])) ? -ENOMEM : 0;
	if (rc)
		json_decref(rows);
	rc = rc ? rc : json_put(o, "rows", rows);
	return json_done(o, rc);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table by one key that has too many values for the blocks above the windows to keep them all. It
 * has their most frequent ones, with what each may have more, and the rest in one row.
 */
#include "query/cover.h"
#include "query/table_int.h"
#include "store/top_values.h"

#include <stdio.h>

static int add_value(struct table *t, const struct store_top_value *v)
{
	struct value value = { .text = v->label.str, .present = true };
	struct query_table_row row = { .samples = v->samples,
				       .self = v->samples,
				       .error = v->error };
	if (v->label.type == LABEL_INT) {
		label_text(&v->label, value.number, sizeof(value.number));
		value.text = value.number;
	}
	int rc = table_row_of_values(t, &value, 1, &row);
	return rc ? rc : table_add_row(t, &row);
}

static int add_rest(struct table *t, bool present, uint64_t samples)
{
	struct value value = { .text = "", .present = present };
	struct query_table_row row = { .samples = samples, .self = samples, .other = present };
	int rc = samples ? table_row_of_values(t, &value, 1, &row) : 0;
	return rc || !samples ? rc : table_add_row(t, &row);
}

static int fill(struct query *q, const struct store_top *top, struct table *t)
{
	uint64_t listed = 0, all = q->info.samples;
	int rc = 0;
	for (size_t i = 0; !rc && i < top->n; i++) {
		listed += top->v[i].samples;
		rc = add_value(t, &top->v[i]);
	}
	t->table.bound = top->bound;
	if (!rc)
		rc = add_rest(t, false, all > top->total ? all - top->total : 0);
	table_sort(t, 1);
	if (!rc)
		rc = add_rest(t, true, top->total - listed);
	table_set_intervals(q, &t->table);
	for (size_t i = 0; i < t->table.n_rows; i++)
		t->table.approximate |= t->table.rows[i].error || t->table.rows[i].other;
	return rc;
}

bool query_top_serves(struct query *q, const char *key)
{
	return !store_scope(q->store) && !q->rates && !q->info.idle_waits &&
	       store_is_wide(q->store, key) && q->info.blocks < q->info.windows;
}

int query_top(struct query *q, const char *key, struct query_table **ret, struct err *err)
{
	struct store_cover cover;
	struct store_top top = { 0 };
	struct table *t = calloc(1, sizeof(*t));
	if (!t)
		return err_sys(err, -ENOMEM, "cannot build the table");
	int rc = plan_cover(q, STORE_FOLDED, NULL, 0, &cover, err);
	if (!rc) {
		rc = store_top(q->store, cover.blocks, cover.n, key, q->event, &top, err);
		store_cover_free(&cover);
	}
	if (!rc && fill(q, &top, t))
		rc = err_sys(err, -ENOMEM, "cannot build the table");
	store_top_free(&top);
	if (rc)
		query_table_free(&t->table);
	else
		*ret = &t->table;
	return rc;
}

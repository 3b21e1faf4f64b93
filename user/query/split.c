/* SPDX-License-Identifier: Apache-2.0 */
/* Rows are dealt out to their values; each value's rows make a view as those of a query do. */
#include "query/split.h"

#include "query/table_int.h"
#include "util/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* query_split must stay the first member. */
struct splitting {
	struct query_split split;
	size_t cap;
	struct table *table;
};

struct dealing {
	struct query *q;
	const struct query_view_spec *view;
	uint32_t *group;	/* of each row of the query: a row of the table; then its value */
	uint32_t *value_of;	/* row of the table -> value */
	struct store_row *rows; /* of one value */
};

void query_split_free(struct query_split *s)
{
	struct splitting *own = (struct splitting *)s;
	if (!own)
		return;
	if (own->table)
		query_table_free(&own->table->table);
	free(own->split.nodes);
	free(own);
}

static int by_samples(const void *pa, const void *pb, void *ctx)
{
	const struct query_table_row *rows = ctx, *a = &rows[*(const uint32_t *)pa],
				     *b = &rows[*(const uint32_t *)pb];
	if (a->samples != b->samples)
		return a->samples > b->samples ? -1 : 1;
	return strcmp(a->text, b->text);
}

/* Choose the values with most samples; what is left is one value behind them. */
static int choose_values(struct splitting *s, struct dealing *d, uint32_t most)
{
	const struct query_table *t = &s->table->table;
	uint32_t *order = malloc((t->n_rows + 1) * sizeof(*order));
	d->value_of = malloc((t->n_rows + 1) * sizeof(*d->value_of));
	if (!order || !d->value_of) {
		free(order);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < t->n_rows; i++)
		order[i] = i;
	if (t->n_rows)
		qsort_r(order, t->n_rows, sizeof(*order), by_samples, t->rows);
	uint32_t n = t->n_rows < most ? (uint32_t)t->n_rows : most;
	for (uint32_t i = 0; i < t->n_rows; i++) {
		const struct query_table_row *r = &t->rows[order[i]];
		d->value_of[order[i]] = i < n ? i : n;
		if (i < n)
			s->split.text[i] = !r->present[0]  ? "(none)"
					   : *r->values[0] ? r->values[0]
							   : "(empty)";
	}
	s->split.n_values = n;
	if (t->n_rows > n || s->table->other.samples)
		s->split.text[s->split.n_values++] = "(others)";
	for (size_t i = 0; i < d->q->n_rows; i++)
		d->group[i] = d->group[i] == TABLE_NO_GROUP ? n : d->value_of[d->group[i]];
	free(order);
	return 0;
}

/* Append the nodes of a view, whose root becomes a child of the root. */
static int append(struct splitting *s, uint32_t value, const struct query_view_tree *v)
{
	struct query_split *t = &s->split;
	uint32_t base = (uint32_t)t->n;
	int rc = ARRAY_RESERVE(t->nodes, s->cap, t->n + v->n);
	if (rc)
		return rc;
	memcpy(t->nodes + base, v->nodes, v->n * sizeof(*v->nodes));
	for (size_t i = base; i < base + v->n; i++) {
		struct query_node *node = &t->nodes[i];
		node->parent += base;
		node->first_child += node->first_child ? base : 0;
		node->next_sibling += node->next_sibling ? base : 0;
	}
	t->nodes[base].parent = 0;
	t->nodes[base].stack = 0;
	t->nodes[0].total += t->nodes[base].total;
	t->nodes[value ? t->node[value - 1] : 0].next_sibling = base;
	t->node[value] = base;
	t->n += v->n;
	return 0;
}

static int add_value(struct splitting *s, struct dealing *d, uint32_t value, struct err *err)
{
	struct query one = *d->q;
	struct query_view_tree v = { 0 };
	one.rows = d->rows;
	one.n_rows = 0;
	one.nodes = NULL;
	for (size_t i = 0; i < d->q->n_rows; i++)
		if (d->group[i] == value)
			d->rows[one.n_rows++] = d->q->rows[i];
	int rc = query_view(&v, &one, d->view, err);
	rc = rc ? rc : append(s, value, &v);
	query_view_free(&v);
	free(one.nodes);
	return rc;
}

static int build(struct splitting *s, struct dealing *d, const char *key, uint32_t most,
		 struct err *err)
{
	d->group = malloc((d->q->n_rows + 1) * sizeof(*d->group));
	d->rows = malloc((d->q->n_rows + 1) * sizeof(*d->rows));
	s->table = calloc(1, sizeof(*s->table));
	int rc = d->group && d->rows && s->table ? 0 : -ENOMEM;
	rc = rc ? rc : table_by_keys(d->q, &key, 1, s->table, d->group);
	rc = rc ? rc : choose_values(s, d, most);
	rc = rc ? rc : ARRAY_RESERVE(s->split.nodes, s->cap, 1);
	if (rc)
		return rc;
	s->split.nodes[0] = (struct query_node){ 0 };
	s->split.n = 1;
	for (uint32_t i = 0; !rc && i < s->split.n_values; i++)
		rc = add_value(s, d, i, err);
	s->split.nodes[0].first_child = s->split.n_values ? s->split.node[0] : 0;
	s->split.nodes[0].next_sibling = 0;
	return rc;
}

int query_split(struct query_split **ret, struct query *q, const char *key, uint32_t most,
		const struct query_view_spec *view, struct err *err)
{
	struct splitting *s = calloc(1, sizeof(*s));
	struct dealing d = { .q = q, .view = view };
	if (!s)
		return err_sys(err, -ENOMEM, "cannot split the tree");
	int rc = build(s, &d, key, most && most < QUERY_SPLIT_MAX ? most : QUERY_SPLIT_MAX, err);
	free(d.group);
	free(d.value_of);
	free(d.rows);
	if (rc) {
		query_split_free(&s->split);
		return err_sys(err, rc, "cannot split the tree");
	}
	*ret = &s->split;
	return 0;
}

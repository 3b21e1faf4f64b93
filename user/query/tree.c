/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The merged tree. A stack id names a path and parent < id. So sums of the stacks of the rows,
 * carried to the parent from the highest id down, are the tree already. Lines are left out of it.
 */
#include "query/same.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct building {
	const struct query *q;
	struct query_same *same;
	struct query_node *nodes; /* by the number of a stack (same.h), then by place in the tree */
	/* [same->t.n]: samples below a stack that have no row; NULL: there are none */
	uint64_t *other;
};

static size_t count_other(const struct query *q)
{
	size_t n = 0;
	for (size_t i = 0; i < q->n_rows; i++)
		n += query_row_is_other(q, &q->rows[i]);
	return n;
}

static void sum_stacks(struct building *b)
{
	const struct query *q = b->q;
	const struct query_same *same = b->same;
	for (size_t i = 0; i < q->n_rows; i++) {
		const struct store_row *row = &q->rows[i];
		uint32_t at = row->stack == QUERY_OTHER_STACK ? 0 : same_number(same, row->stack);
		b->nodes[at].total += row->samples;
		if (b->other && query_row_is_other(q, row))
			b->other[at] += row->samples;
		else
			b->nodes[at].self += row->samples;
	}
	for (uint32_t i = (uint32_t)same->t.n; i-- > 1;)
		if (same->first[i] == i)
			b->nodes[same->parent[i]].total += b->nodes[i].total;
}

/*
 * Move the nodes to their places, over those of stacks that another one stands for. Return how many
 * there are.
 */
static size_t place_nodes(struct building *b)
{
	struct query_same *same = b->same;
	/* a stack that stands for itself needs no other entry */
	uint32_t *place = same->first, n = 0;
	for (uint32_t i = 0; i < same->t.n; i++) {
		struct query_node *v = &b->nodes[i];
		if (same->first[i] != i)
			continue;
		place[i] = n;
		b->nodes[n++] = (struct query_node){ .stack = same->stack[i],
						     .parent = place[same->parent[i]],
						     .self = v->self,
						     .total = v->total };
		if (b->other)
			b->other[n - 1] = b->other[i];
	}
	for (uint32_t i = 0, n_stacks = n; b->other && i < n_stacks; i++)
		if (b->other[i])
			b->nodes[n++] = (struct query_node){ .stack = QUERY_OTHER_STACK,
							     .parent = i,
							     .self = b->other[i],
							     .total = b->other[i] };
	return n;
}

int query_by_total(const void *a, const void *b, void *ctx)
{
	const struct query_node *nodes = ctx;
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
	if (nodes[i].total != nodes[j].total)
		return nodes[i].total > nodes[j].total ? -1 : 1;
	return (i > j) - (i < j);
}

static int compare_texts(const struct store *s, uint32_t a, uint32_t b)
{
	return a == b ? 0 : strcmp(store_string(s, a, NULL), store_string(s, b, NULL));
}

/* What was cut has no frame: it is the last. */
static int compare_frames(const struct store *s, uint32_t a, uint32_t b)
{
	const struct store_frame *x = store_frame(s, a), *y = store_frame(s, b);
	if (!x || !y)
		return !x - !y;
	int d = compare_texts(s, x->function, y->function);
	d = d ? d : compare_texts(s, x->module, y->module);
	d = d ? d : compare_texts(s, x->build_id, y->build_id);
	d = d ? d : (x->offset > y->offset) - (x->offset < y->offset);
	d = d ? d : (x->kind > y->kind) - (x->kind < y->kind);
	return d ? d : (x->flags > y->flags) - (x->flags < y->flags);
}

/* Siblings with the same samples stand in order of their names, in whatever order they came. */
static int by_total_and_name(const void *a, const void *b, void *ctx)
{
	const struct building *of = ctx;
	const struct query_node *x = &of->nodes[*(const uint32_t *)a],
				*y = &of->nodes[*(const uint32_t *)b];
	uint32_t parent, frame_x, frame_y;
	if (x->total != y->total)
		return x->total > y->total ? -1 : 1;
	store_stack(of->q->store, x->stack, &parent, &frame_x);
	store_stack(of->q->store, y->stack, &parent, &frame_y);
	int d = compare_frames(of->q->store, frame_x, frame_y);
	return d ? d : (x > y) - (x < y);
}

/*
 * Children of one parent side by side, by counting; then each group is sorted by itself. Most have
 * one member, and a tree is linked in a time that grows with its nodes.
 */
static int link_children(struct building *b, size_t n)
{
	struct query_node *nodes = b->nodes;
	uint32_t *end = calloc(2 * n + 1, sizeof(*end));
	if (!end)
		return -ENOMEM;
	uint32_t *order = end + n + 1;
	for (size_t i = 1; i < n; i++)
		end[nodes[i].parent + 1]++;
	for (size_t i = 2; i < n; i++)
		end[i] += end[i - 1];
	/* end[p] is where the group of p begins, and once it is filled, where it ends. */
	for (size_t i = 1; i < n; i++)
		order[end[nodes[i].parent]++] = (uint32_t)i;
	for (size_t p = 0, from = 0; p < n; from = end[p++]) {
		size_t len = end[p] - from;
		if (!len)
			continue;
		if (len > 1)
			qsort_r(order + from, len, sizeof(*order), by_total_and_name, b);
		nodes[p].first_child = order[from];
		for (size_t k = from; k + 1 < end[p]; k++)
			nodes[order[k]].next_sibling = order[k + 1];
	}
	free(end);
	return 0;
}

static int make_nodes(struct building *b, size_t *ret_n)
{
	size_t n = b->same->t.n, n_other = count_other(b->q);
	b->nodes = calloc(n + n_other, sizeof(*b->nodes));
	b->other = b->nodes && n_other ? calloc(n, sizeof(*b->other)) : NULL;
	if (!b->nodes || (n_other && !b->other))
		return -ENOMEM;
	sum_stacks(b);
	*ret_n = place_nodes(b);
	return 0;
}

static int build(struct query *q)
{
	struct building b = { .q = q };
	size_t n = 0;
	int rc = query_same_new(&b.same, q);
	rc = rc ? rc : make_nodes(&b, &n);
	query_same_free(b.same);
	free(b.other);
	rc = rc ? rc : link_children(&b, n);
	if (rc) {
		free(b.nodes);
		return rc;
	}
	q->nodes = b.nodes;
	q->n_nodes = n;
	return 0;
}

int query_tree(struct query *q, const struct query_node **ret_nodes, size_t *ret_n, struct err *err)
{
	int rc = q->nodes ? 0 : build(q);
	if (rc)
		return err_sys(err, rc, "cannot build the tree");
	*ret_nodes = q->nodes;
	*ret_n = q->n_nodes;
	return 0;
}

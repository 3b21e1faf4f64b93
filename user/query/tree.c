/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The merged tree. A stack id names a path and parent < id, so sums of the stacks of the rows, carried
 * to the parent from the highest id down, are the tree already. Lines are left out of it.
 */
#include "query/same.h"

#include <errno.h>
#include <stdlib.h>

/* Of a stack by its number (same.h). */
struct sums {
	uint64_t self, total;
	uint32_t node; /* its index in the tree */
};

struct building {
	const struct query *q;
	struct query_same *same;
	struct sums *v;	 /* [same->t.n] */
	uint64_t *other; /* [same->t.n]: samples below it that have no row; NULL: there are none */
};

static uint32_t parent_of(const struct building *b, uint32_t number)
{
	uint32_t parent, frame;
	store_stack(b->q->store, b->same->stack[number], &parent, &frame);
	return same_number(b->same, parent);
}

/* Return how many nodes the tree has. */
static size_t sum_stacks(struct building *b)
{
	const struct query *q = b->q;
	struct query_same *same = b->same;
	size_t n = 1;
	for (size_t i = 0; i < q->n_rows; i++) {
		const struct store_row *row = &q->rows[i];
		uint32_t at = row->stack == QUERY_OTHER_STACK ? 0 : same_number(same, row->stack);
		b->v[at].total += row->samples;
		if (query_row_is_other(q, row))
			b->other[at] += row->samples;
		else
			b->v[at].self += row->samples;
	}
	for (uint32_t i = (uint32_t)same->t.n; i-- > 1;) {
		if (same->first[i] != i)
			continue;
		b->v[parent_of(b, i)].total += b->v[i].total;
		n++;
	}
	for (size_t i = 0; b->other && i < same->t.n; i++)
		n += b->other[i] > 0;
	return n;
}

static void place_nodes(struct building *b, struct query_node *nodes)
{
	const struct query_same *same = b->same;
	uint32_t n = 0;
	for (uint32_t i = 0; i < same->t.n; i++) {
		struct sums *v = &b->v[i];
		if (same->first[i] != i)
			continue;
		v->node = n;
		nodes[n++] = (struct query_node){
			.stack = same->stack[i], .parent = b->v[parent_of(b, i)].node, .self = v->self, .total = v->total
		};
	}
	for (uint32_t i = 0; b->other && i < same->t.n; i++)
		if (b->other[i])
			nodes[n++] = (struct query_node){
				.stack = QUERY_OTHER_STACK, .parent = b->v[i].node, .self = b->other[i], .total = b->other[i]
			};
}

/* Descending; ties by stack. */
static int by_total(const void *a, const void *b, void *ctx)
{
	const struct query_node *nodes = ctx;
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
	if (nodes[i].total != nodes[j].total)
		return nodes[i].total > nodes[j].total ? -1 : 1;
	return (i > j) - (i < j);
}

/*
 * Children of one parent side by side, by counting; then each group is sorted by itself: most have
 * one member, and a tree is linked in a time that grows with its nodes.
 */
static int link_children(struct query_node *nodes, size_t n)
{
	uint32_t *end = calloc(2 * n + 1, sizeof(*end)), *order = end + n + 1;
	if (!end)
		return -ENOMEM;
	for (size_t i = 1; i < n; i++)
		end[nodes[i].parent + 1]++;
	for (size_t i = 1; i < n; i++)
		end[i] += end[i - 1];
	/* end[p] is where the group of p begins, and once it is filled, where it ends. */
	for (size_t i = 1; i < n; i++)
		order[end[nodes[i].parent]++] = (uint32_t)i;
	for (size_t p = 0, from = 0; p < n; from = end[p++]) {
		size_t len = end[p] - from;
		if (!len)
			continue;
		if (len > 1)
			qsort_r(order + from, len, sizeof(*order), by_total, nodes);
		nodes[p].first_child = order[from];
		for (size_t k = from; k + 1 < end[p]; k++)
			nodes[order[k]].next_sibling = order[k + 1];
	}
	free(end);
	return 0;
}

static int make_nodes(struct building *b, struct query_node **ret, size_t *ret_n)
{
	size_t n_stacks = b->same->t.n;
	b->v = calloc(n_stacks, sizeof(*b->v));
	b->other = b->v && b->q->info.bounded ? calloc(n_stacks, sizeof(*b->other)) : NULL;
	if (!b->v || (b->q->info.bounded && !b->other))
		return -ENOMEM;
	size_t n = sum_stacks(b);
	*ret = calloc(n, sizeof(**ret));
	if (!*ret)
		return -ENOMEM;
	place_nodes(b, *ret);
	*ret_n = n;
	return 0;
}

static int build(struct query *q)
{
	struct building b = { .q = q };
	struct query_node *nodes = NULL;
	size_t n = 0;
	int rc = query_same_new(&b.same, q);
	rc = rc ? rc : make_nodes(&b, &nodes, &n);
	query_same_free(b.same);
	free(b.v);
	free(b.other);
	rc = rc ? rc : link_children(nodes, n);
	if (rc) {
		free(nodes);
		return rc;
	}
	q->nodes = nodes;
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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The merged tree. A stack id names a path and parent < id, so sums by stack id, carried to the
 * parent from the highest id down, are the tree already. Lines are left out of it.
 */
#include "query/query_int.h"

#include <errno.h>
#include <stdlib.h>

struct sums {
	uint64_t self, total;
	uint32_t node; /* index + 1 in the tree; while summing: not 0 when the stack is part of it */
};

/* The parent of a stack that stands for others (query_same_stacks), in those terms. */
static uint32_t parent_of(const struct query *q, const uint32_t *same, uint32_t stack)
{
	uint32_t parent, frame;
	store_stack(q->store, stack, &parent, &frame);
	return same ? same[parent] : parent;
}

static size_t sum_stacks(const struct query *q, const uint32_t *same, struct sums *v)
{
	size_t n_used = 1;
	for (size_t i = 0; i < q->n_rows; i++) {
		uint32_t stack = q->rows[i].stack;
		struct sums *s = &v[same ? same[stack] : stack];
		s->self += q->rows[i].samples;
		s->total += q->rows[i].samples;
		s->node = 1;
	}
	for (uint32_t id = store_n_stacks(q->store); id-- > 1;) {
		if (!v[id].node)
			continue;
		uint32_t parent = parent_of(q, same, id);
		v[parent].total += v[id].total;
		v[parent].node = 1;
		n_used++;
	}
	return n_used;
}

static void place_nodes(const struct query *q, const uint32_t *same, struct sums *v, struct query_node *nodes)
{
	uint32_t n = 0;
	v[0].node = 1;
	for (uint32_t id = 0; id < store_n_stacks(q->store); id++) {
		if (!v[id].node)
			continue;
		uint32_t parent = parent_of(q, same, id);
		v[id].node = n + 1;
		nodes[n++] = (struct query_node){
			.stack = id, .parent = v[parent].node - 1, .self = v[id].self, .total = v[id].total
		};
	}
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

static int build(struct query *q)
{
	struct sums *v = calloc(store_n_stacks(q->store), sizeof(*v));
	struct query_node *nodes = NULL;
	uint32_t *same = NULL;
	int rc = -ENOMEM;
	if (!v || query_same_stacks(q, &same))
		goto out;
	size_t n = sum_stacks(q, same, v);
	nodes = calloc(n, sizeof(*nodes));
	if (!nodes)
		goto out;
	place_nodes(q, same, v, nodes);
	rc = link_children(nodes, n);
	if (rc)
		goto out;
	q->nodes = nodes;
	q->n_nodes = n;
	nodes = NULL;
out:
	free(nodes);
	free(same);
	free(v);
	return rc;
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

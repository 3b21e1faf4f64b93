/* SPDX-License-Identifier: Apache-2.0 */
#include "store/block/prune.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define CLASSES 64 /* a node of class k has a share of 2^-k to 2^(1-k) */

static void mark_leaves(const struct prune_sums *of, uint8_t *marks)
{
	for (size_t e = 0; e < of->n_events; e++)
		for (uint32_t i = 0; i < of->events[e].n; i++)
			marks[of->shape->of_leaf[of->events[e].leaves[i]]] = 1;
}

int prune_used(const struct prune_sums *of, struct prune_nodes *ret)
{
	const struct shape *shape = of->shape;
	uint8_t *marks = calloc(shape->n, sizeof(*marks));
	size_t n = 0;
	*ret = (struct prune_nodes){ 0 };
	if (!marks)
		return -ENOMEM;
	mark_leaves(of, marks);
	for (uint32_t i = shape->n; i-- > 1;)
		marks[shape->above[i]] |= marks[i];
	marks[0] = 1;
	for (uint32_t i = 0; i < shape->n; i++)
		n += marks[i];
	ret->v = malloc(n * sizeof(*ret->v));
	for (uint32_t i = 0; ret->v && i < shape->n; i++)
		if (marks[i])
			ret->v[ret->n++] = i;
	free(marks);
	return ret->v ? 0 : -ENOMEM;
}

void prune_nodes_fini(struct prune_nodes *n)
{
	free(n->v);
	*n = (struct prune_nodes){ 0 };
}

/* Add the shares that the leaves have in the samples and the values of an event. */
static void add_shares(const struct prune_sums *of, const struct leaf_sums *event, float *share)
{
	double samples = 0, value = 0;
	for (uint32_t i = 0; i < event->n; i++) {
		uint32_t leaf = event->leaves[i];
		if (!shape_is_idle(of->shape, of->d, of->shape->of_leaf[leaf])) {
			samples += (double)event->v[leaf].samples;
			value += (double)event->v[leaf].value;
		}
	}
	double per_sample = samples > 0 ? 1 / samples : 1, per_value = value > 0 ? 1 / value : 0;
	for (uint32_t i = 0; i < event->n; i++) {
		const struct rows_sum *sum = &event->v[event->leaves[i]];
		share[of->shape->of_leaf[event->leaves[i]]] +=
			(float)((double)sum->samples * per_sample + (double)sum->value * per_value);
	}
}

/* [shape->n], set for the nodes that are used, to be freed. */
static float *shares(const struct prune_sums *of, const struct prune_nodes *used)
{
	float *share = malloc(of->shape->n * sizeof(*share));
	if (!share)
		return NULL;
	for (size_t i = 0; i < used->n; i++)
		share[used->v[i]] = 0;
	for (size_t e = 0; e < of->n_events; e++)
		add_shares(of, &of->events[e], share);
	for (size_t i = used->n; i-- > 1;)
		share[of->shape->above[used->v[i]]] += share[used->v[i]];
	return share;
}

static int class_of(float share)
{
	int k = share > 0 ? -ilogbf(share) : CLASSES - 1;
	return k < 0 ? 0 : k < CLASSES ? k : CLASSES - 1;
}

/* Return the first class of which not all fit; CLASSES: all fit. */
static int last_class(const struct shape *shape, const struct prune_nodes *used, const float *share,
		      size_t most, float least)
{
	size_t n[CLASSES] = { 0 }, sum = 0;
	int last = 0;
	for (size_t i = 1; i < used->n; i++)
		sum += share[used->v[i]] >= least ? shape->v[used->v[i]].length : 0;
	if (sum <= most)
		return CLASSES;
	for (size_t i = 1; i < used->n; i++)
		if (share[used->v[i]] >= least)
			n[class_of(share[used->v[i]])] += shape->v[used->v[i]].length;
	for (sum = 0; last < CLASSES - 1 && sum + n[last] <= most;)
		sum += n[last++];
	return last;
}

int prune_choose(const struct prune_sums *of, const struct prune_nodes *used, size_t most,
		 double least, struct idset *ret)
{
	const struct shape *shape = of->shape;
	float *share = shares(of, used);
	int rc = share ? idset_init(ret, shape->n) : -ENOMEM;
	int last = rc ? 0 : last_class(shape, used, share, most, (float)least);
	/* Sums of parts are rounded: a parent counts as large as its largest child. */
	for (size_t i = rc ? 0 : used->n; i-- > 1;) {
		uint32_t node = used->v[i];
		bool large = share[node] >= (float)least &&
			     (last == CLASSES || class_of(share[node]) < last);
		if (large || shape_is_idle(shape, of->d, node))
			idset_add(ret, node);
		if (idset_has(ret, node))
			idset_add(ret, shape->above[node]);
	}
	if (!rc)
		idset_add(ret, 0);
	free(share);
	return rc;
}

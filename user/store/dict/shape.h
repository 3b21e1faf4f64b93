/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the stacks of a dictionary part. Most stacks have one child and no sample of their own, so
 * a question that sums by stack visits the others alone: one in three to one in ten.
 *
 *   main - run - parse - f       nodes:  1 main-run     above 0   2 children
 *               \- sort - cmp            2 parse-f      above 1   a leaf
 *                                        3 sort-cmp     above 1   a leaf
 */
#ifndef ASCRIBE_STORE_DICT_SHAPE_H
#define ASCRIBE_STORE_DICT_SHAPE_H

#include "store/dict/dict.h"

/* A chain of stacks, each the only child of the one before. */
struct shape_node {
	uint32_t last;	 /* the one that has samples or several children */
	uint32_t length; /* in stacks */
};

/* All zero is empty. */
struct shape {
	struct shape_node *v; /* [n]; node 0 is the empty stack */
	/*
	 * [n]: the node that its first stack is below; less than the node itself. An array of its
	 * own, since most walks read nothing else.
	 */
	uint32_t *above;
	uint32_t n;
	uint32_t *of_leaf; /* [n_leaves]: the node that ends in the leaf's stack */
	uint32_t n_leaves;
};

/*
 * same: [d->n_stacks], for each stack the first of those that count as one with it; NULL: each is
 * its own. Freed by this call, whatever it returns. -ENOMEM.
 */
int shape_init(struct shape *s, const struct dicts *d, uint32_t *same);
/* Is it the stack of an idle CPU? */
static inline bool shape_is_idle(const struct shape *s, const struct dicts *d, uint32_t node)
{
	const struct shape_node *n = &s->v[node];
	return !s->above[node] && n->length == 1 && dicts_is_idle(d, n->last);
}
void shape_fini(struct shape *s);
size_t shape_bytes(const struct shape *s);

#endif

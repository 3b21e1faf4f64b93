/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stacks of an answer with their ancestors, numbered in order of their ids. Frames say at which
 * source line their function was. Where functions are what is asked for, stacks that differ in
 * nothing but lines are one: the first of them stands for all.
 */
#ifndef ASCRIBE_QUERY_SAME_H
#define ASCRIBE_QUERY_SAME_H

#include "query/query_int.h"
#include "query/subtree.h"

struct query_same {
	struct subtree t;
	uint32_t *stack;  /* [t.n]: by number */
	uint32_t *first;  /* [t.n]: the number of the one that stands for it */
	uint32_t *parent; /* [t.n]: the number of the one that stands for its parent */
};

/* The number of the one that stands for a stack of the answer. */
static inline uint32_t same_number(const struct query_same *s, uint32_t stack)
{
	return s->first[subtree_index(&s->t, stack)];
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The merged tree seen from elsewhere than its root: from the leaves (who calls what uses the CPU),
 * and around one function: what it calls, and who calls it. Functions are one by (name, module),
 * whatever line ran. In all three a sample counts once: a function that calls itself is looked at
 * where it was called first.
 *
 * What has less than 0.01% of a tree's samples is in it, without what would be below it.
 */
#ifndef ASCRIBE_QUERY_VIEW_H
#define ASCRIBE_QUERY_VIEW_H

#include "query/query.h"

#define QUERY_VIEW_MIN_SHARE 10000 /* 1 / 0.01% */

enum query_view {
	QUERY_VIEW_DOWN = 0, /* the tree itself */
	QUERY_VIEW_INVERTED, /* the children of the root are leaves, theirs are who called them */
	QUERY_VIEW_CALLEES,  /* the root's one child is the function, below it what it calls */
	QUERY_VIEW_CALLERS,  /* the same with who called it */
};

struct query_view_spec {
	enum query_view view;
	/* Callees, callers; module NULL: of any; without the mark of inlined calls */
	const char *function, *module;
};

struct query_view_tree {
	/* As query_tree's; `stack` is one that ends in the node's frame */
	const struct query_node *nodes;
	size_t n;
	struct query_node *owned; /* NULL: they belong to the query */
};

/* -ENOMEM. To be freed before the query is closed. */
int query_view(struct query_view_tree *ret, struct query *q, const struct query_view_spec *spec,
	       struct err *err);
void query_view_free(struct query_view_tree *t);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The merged tree with one more level: the children of its root are the values of a label, those
 * with most samples, and a last one for all others. Below each is a view of its samples alone.
 */
#ifndef ASCRIBE_QUERY_SPLIT_H
#define ASCRIBE_QUERY_SPLIT_H

#include "query/view.h"

#define QUERY_SPLIT_MAX 20

struct query_split {
	struct query_node *nodes; /* as query_tree's; a value's own `stack` is 0 */
	size_t n;
	uint32_t n_values;
	uint32_t node[QUERY_SPLIT_MAX + 1];    /* of each value */
	const char *text[QUERY_SPLIT_MAX + 1]; /* "(none)": without it; "(others)": the rest */
};

/*
 * q: of QUERY_KEYS_STACKS by this key. most: so many values at most, up to QUERY_SPLIT_MAX.
 * -ENOMEM. To be freed before the query is closed.
 */
int query_split(struct query_split **ret, struct query *q, const char *key, uint32_t most,
		const struct query_view_spec *view, struct err *err);
void query_split_free(struct query_split *s);

#endif

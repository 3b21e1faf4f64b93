/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flame graphs as Pyroscope has them: a list of numbers for each depth. For each node: how far it
 * begins behind the end of the one before it, total, self, index of the name. With two sides it is
 * the first three for each of them, then the name.
 */
#ifndef ASCRIBE_HTTP_LEVELS_H
#define ASCRIBE_HTTP_LEVELS_H

#include "export/export.h"
#include "query/diff.h"

struct level {
	int64_t *v;
	size_t n, cap;
	int64_t end[2]; /* of the last node */
};

struct levels {
	struct level *level;
	size_t n, cap;
	char **names;
	size_t n_names, names_cap;
	int64_t total[2], max_self;
};

/* scale: what a sample is worth. To be released either way. */
int levels_of_query(struct levels *l, const struct export_source *src, uint64_t max_nodes,
		    int64_t scale, struct err *err);
int levels_of_diff(struct levels *l, struct query *a, struct query *b, uint64_t max_nodes,
		   const int64_t scale[2], struct err *err);
void levels_fini(struct levels *l);

#endif

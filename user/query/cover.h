/* SPDX-License-Identifier: Apache-2.0 */
/* Which blocks a query reads, and with which labels. */
#ifndef ASCRIBE_QUERY_COVER_H
#define ASCRIBE_QUERY_COVER_H

#include "query/query_int.h"
#include "query/scope.h"

struct plan {
	enum store_want want;
	const char **keys; /* [n_keys] that tell rows apart; NULL: all do */
	size_t n_keys;
	struct store_cover blocks;
	/* The whole range, where postings left blocks out; else empty */
	struct store_cover account;
	bool posted;
};

/* The blocks of the range that q is about. */
int plan_cover(const struct query *q, enum store_want want, const char *const *keys, size_t n_keys,
	       struct store_cover *ret, struct err *err);

/*
 * Fill q's info about the range; stacks: the rows are told apart by them. The plan must be freed
 * whatever the result.
 */
int plan_make(struct plan *p, struct query *q, const struct query_spec *spec,
	      const struct selector *sel, const struct scope *scope, bool stacks, struct err *err);
void plan_fini(struct plan *p);

/* Return the blocks that hold the range's counters. */
static inline const struct store_cover *plan_range(const struct plan *p)
{
	return p->posted ? &p->account : &p->blocks;
}

#endif

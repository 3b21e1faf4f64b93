/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ASCRIBE_QUERY_QUERY_INT_H
#define ASCRIBE_QUERY_QUERY_INT_H

#include "query/query.h"
#include "query/waits.h"
#include "store/dict/setpool.h"

struct query {
	struct store *store;
	struct setpool sets;	/* of the rows; the first is (other) */
	int64_t from_ns, to_ns; /* that were asked for */
	bool by_start;		/* struct query_spec */
	enum query_names names;
	enum query_labels labels; /* of the rows */
	struct query_info info;
	uint32_t event;		   /* id; UINT32_MAX: the store has none */
	struct store_event metric; /* what info.event is with a metric */
	bool rates;   /* of another event of that name, too, or alone: at another rate */
	bool blocked; /* all its rows are of blocked threads: they have `wait` */
	bool waits;   /* all its rows are of waits, blocked or for a CPU: they have `wait_in` */
	bool woken;   /* its rows are of QUERY_WAKER: they have QUERY_WAKER_FUNCTION */
	struct wait_reasons reasons;
	uint64_t *counters; /* what info.lost and info.flagged point to */
	struct store_row *rows;
	size_t n_rows;
	struct query_node *nodes; /* NULL: not built yet */
	size_t n_nodes;
};

/* Does the value of a key come from the stack? */
bool query_by_stack(const struct query *q, const char *key);

/* -EINVAL: rows of q have no value for this key, which comes from the stacks of other events. */
int query_check_key(const struct query *q, const char *key, struct err *err);

/* Give the label set (other) its id, in an empty pool. -ENOMEM. */
int query_add_other(struct query *q);

/* Return the bytes that a query of spec may take, beside the dictionaries in memory now. */
size_t query_budget(const struct store *s, const struct query_spec *spec);

/* query_open from the rows of the blocks. */
int query_read(struct query **ret, struct store *s, const struct query_spec *spec, struct err *err);

#endif

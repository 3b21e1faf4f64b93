/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who was running while others waited for it, or who woke those that were blocked, by one label
 * key: a matrix of nanoseconds. Lines and columns are bounded: those of least time are summed in a
 * last one, so that every sum is that of all.
 */
#ifndef ASCRIBE_QUERY_BLAME_H
#define ASCRIBE_QUERY_BLAME_H

#include "query/query.h"

enum blame_kind {
	BLAME_VALUE = 0, /* name is the label's value */
	BLAME_NONE,	 /* a thread without the label */
	/* Nobody: the CPU was on its way out of idle. Occupants alone, as the next two */
	BLAME_IDLE,
	BLAME_INTERRUPT, /* nobody: an interrupt woke it */
	/* Not known, or one of too many; of lines too, where a query was bounded */
	BLAME_OTHER,
	BLAME_REST, /* all that have no line, or no column, of their own; always the last */
};

struct blame_party {
	enum blame_kind kind;
	const char *name; /* to be shown */
	uint64_t ns;
};

struct query_blame {
	struct query *query;
	struct query_table *table;
	struct blame_party *victim, *occupant; /* by ns, descending */
	size_t n_victims, n_occupants;
	size_t victims, occupants; /* there are */
	uint64_t *ns;		   /* [n_victims][n_occupants] */
	uint64_t total;
};

/*
 * spec: where, range, idle, and metric, which is QUERY_WAKER for who woke, whose columns are
 * wakers; of where labels may begin with "by.". At most so many lines and columns, at least 1 of
 * each. As query_open; -EINVAL too when the store has no waits. To be freed before the store is
 * closed.
 */
int query_blame(struct query_blame **ret, struct store *s, const struct query_spec *spec,
		const char *key, size_t max_victims, size_t max_occupants, struct err *err);
void query_blame_free(struct query_blame *b);

/*
 * Return who was running, or woke others, by the value of the label (NULL: none) and by.comm:
 * nobody is only called so there. ns is 0.
 */
struct blame_party blame_occupant(const char *value, const char *comm);

static inline uint64_t query_blame_ns(const struct query_blame *b, size_t victim, size_t occupant)
{
	return b->ns[victim * b->n_occupants + occupant];
}

#endif

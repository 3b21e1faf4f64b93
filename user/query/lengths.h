/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long waits were, and which values the hits of a probe had, by label keys: one histogram for
 * each group, whose quantiles are known to LENGTHS_ERROR. Whole waits, of those that ended in the
 * range.
 */
#ifndef ASCRIBE_QUERY_LENGTHS_H
#define ASCRIBE_QUERY_LENGTHS_H

#include "hist/snapshot.h"
#include "query/query.h"

#define LENGTHS_SUFFIX ".lengths" /* behind the name of an event: the one that has its lengths */
#define LENGTHS_BITS 3		  /* as they are recorded: WAIT_HIST_BITS of include/wire.h */
#define LENGTHS_ERROR (1.0 / (2 << LENGTHS_BITS))
/* A length within this of a bound may be counted on the bound's other side (hist_rebucket). */
#define LENGTHS_BOUND_ERROR (1.0 / (1 << LENGTHS_BITS))

struct query_lengths;

/*
 * Whether a question by keys has lengths in this store. Never where its selector names an event.
 */
bool query_lengths_serve(const struct store *s, const struct query_spec *spec);

/*
 * spec.metric: QUERY_OFF, QUERY_RUNQ, or else the event must be a probe with values. Labels of spec
 * are of no consequence. No keys: one group. As query_open; -EINVAL too when the store has no such
 * histograms.
 */
int query_lengths(struct query_lengths **ret, struct store *s, const struct query_spec *spec,
		  struct err *err);
void query_lengths_free(struct query_lengths *l);

/* What was counted: "waits" or "hits". */
const char *query_lengths_what(const struct query_lengths *l);

/* Did the budget cut groups, or lengths of groups? */
bool query_lengths_bounded(const struct query_lengths *l);

/* Where the last window ends that was read; 0: none was. */
int64_t query_lengths_to_ns(const struct query_lengths *l);

/*
 * The histogram of the group with these values (as in struct query_table_row), NULL when it has
 * none.
 */
const struct hist_snapshot *query_lengths_of(const struct query_lengths *l,
					     const char *const *values, const bool *present);

/*
 * All groups, by how many waits there were, descending; keys as in a table. Borrowed of l. 0 or
 * -ENOMEM.
 */
struct query_lengths_group {
	const char **values;
	bool *present;
	const struct hist_snapshot *hist;
};

int query_lengths_groups(const struct query_lengths *l, struct query_lengths_group **ret,
			 size_t *ret_n);
void query_lengths_groups_free(struct query_lengths_group *groups);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples over time, in steps, by label keys.
 *
 * Steps lie on multiples of the step since 1970, so that two questions about one store have the
 * same steps. A window is never split: it counts in the step in which it begins. So the sums of all
 * points are exactly the samples of the range used, and a step is no shorter than a window.
 */
#ifndef ASCRIBE_QUERY_SERIES_H
#define ASCRIBE_QUERY_SERIES_H

#include "query/query.h"

#define QUERY_STEPS_MAX 20000

struct query_series_spec {
	struct query_spec range; /* by_start, labels and keys are of no consequence */
	const char *const *keys; /* NULL: everything in one series */
	size_t n_keys;
	int64_t step_ns;  /* > 0; rounded up to a multiple of QUERY_WINDOW_NS */
	size_t max_steps; /* 0: QUERY_STEPS_MAX */
	/* So many groups, those with the most samples; the others are summed. 0: all */
	size_t top;
	bool exact; /* one wide key: every window is read (query_top) */
};

struct query_series_row {
	const char *const *values; /* per key, NULL in the row of all others */
	const bool *present;
	bool other;
	uint64_t samples;
	uint64_t *points; /* [n_steps] */
};

struct query_series {
	/* Used: whole steps; from + n_steps * step == to; both 0 when there is none */
	int64_t from_ns, to_ns, step_ns;
	size_t n_steps;
	/*
	 * [n_steps]; 0: nothing was recorded then, which is not the same as 0 samples. Of waits
	 * also where the recorder gave them up
	 */
	uint64_t *windows;
	int64_t *covered_ns; /* [n_steps] time that they cover */
	/* By samples, descending; "other" last, when it holds anything */
	struct query_series_row *rows;
	size_t n_rows;
	size_t n_groups, other_groups; /* in all; summed in "other" */
	/*
	 * One wide key: points are what a row has at least, what it may have more is in "other";
	 * n_groups are those known
	 */
	bool approximate;
	bool bounded; /* the budget cut something: of the whole range, of a step, or groups that
			     have no points of their own */
	struct query *whole; /* of the range used: its query_info and rows */
};

/*
 * As query_open; -EINVAL also for a step below 1 ns, -E2BIG for more steps than that (the text
 * names a step that fits).
 */
int query_series(struct query_series **ret, struct store *s, const struct query_series_spec *spec,
		 struct err *err);
void query_series_free(struct query_series *s);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers as JSON, the same from the commands and over HTTP: the shapes of docs/json.md. All return
 * a new reference, or NULL when out of memory.
 */
#ifndef ASCRIBE_EXPORT_ANSWER_H
#define ASCRIBE_EXPORT_ANSWER_H

#include "export/json.h"
#include "hist/bounds.h"
#include "query/diff.h"
#include "query/found.h"
#include "query/lengths.h"
#include "query/own.h"
#include "hist/metrics.h"
#include "query/query.h"
#include "query/series.h"
#include "query/account.h"
#include "query/blame.h"
#include "query/locks.h"

/* How much of its event each row of a table has, for each of another event. */
struct answer_ratios {
	const char *event;
	const double *ratio, *error; /* NAN: the row has nothing of it; relative, 95% */
};

/* What was asked of which store. */
struct answer {
	struct store *store;
	const char *dir;	 /* as the store is called */
	const char *where;	 /* the selector's text, NULL or "" for everything */
	const char *const *keys; /* NULL: by function */
	size_t n_keys;
	uint64_t limit;			     /* rows */
	const char *metric;		     /* as it was asked for, NULL: samples */
	const struct query_lengths *lengths; /* of waits, by keys; NULL: not asked for */
	const struct answer_ratios *ratios;  /* likewise */
	/* The buckets of answer_lengths; 0: as they are recorded */
	uint64_t bounds[HIST_BOUNDS_MAX];
	size_t n_bounds;
};

/* {"name": count, ...} */
json_t *answer_counts(const char *const *names, const uint64_t *counts, size_t n);
/*
 * Adds fired, stored, lost, flagged, idle, outside, own of the query's range to an object. -ENOMEM.
 */
int answer_accounting(json_t *object, const struct store *s, const struct query_info *info);
/* {"tenant": "a", "query_id": null}: null where the label is missing. */
json_t *answer_key(const char *const *keys, size_t n_keys, const char *const *values,
		   const bool *present);

/* Quantiles of waits that are shown, in seconds each between low and high. */
extern const struct answer_quantile {
	double q;
	const char *name, *head;
} answer_quantiles[];
#define ANSWER_QUANTILES 4

/* A table that is answered. Its rows are apart (json_rows), and borrow it. */
struct answer_table {
	const struct answer *a;
	const struct query *q;
	const struct query_table *t;
};

json_t *answer_table(const struct answer_table *of);
struct json_rows answer_table_rows(const struct answer_table *of);
/*
 * How long waits were: a row for each group, by how many there were. q: a query of the same range,
 * for what it says of it.
 */
json_t *answer_lengths(const struct answer *a, const struct query *q,
		       const struct query_lengths *l);
json_t *answer_blame(const struct answer *a, const char *key, const struct query_blame *b);
json_t *answer_locks(const struct answer *a, const char *key, const struct query_locks *l);
/*
 * Take the buckets that a user chose for the lengths that q asks for; NULL: as they are recorded.
 * -EINVAL.
 */
int answer_choose_buckets(struct answer *a, const struct query *q, const char *spec,
			  struct err *err);
/* [[low, high, count], ...]: a value of a bucket is one of low to high. {"0.5": value, ...}. */
json_t *answer_buckets(const struct hist_snapshot *h);
json_t *answer_quantile_values(const struct hist_snapshot *h);
json_t *answer_series(const struct answer *a, const struct query_series *s);
/* The keys, or the values of one key. */
json_t *answer_found(const struct answer *a, const struct found_list *l);
/* own: what the recorder measured of itself. */
json_t *answer_account(const struct store *s, const struct account *t, const struct query_own *own);

struct answer_sides {
	struct answer side[2]; /* keys and limit: those of the first count */
	const struct query *query[2];
	bool inclusive, absolute;
	uint64_t shared;
};

/* The same of a comparison. */
struct answer_diff {
	const struct answer_sides *s;
	const struct query_diff *d;
};

json_t *answer_diff(const struct answer_diff *of);
struct json_rows answer_diff_rows(const struct answer_diff *of);
extern const char *const answer_verdicts[]; /* by enum query_diff_verdict */

/* The event that a query is about, one without a name when the store is empty. */
const struct store_event *answer_event(const struct query *q);

#endif

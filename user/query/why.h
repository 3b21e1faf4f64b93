/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the time of a selection went: beside everything else of the same time, and beside itself in
 * an earlier range. Of each side, how long it ran, waited for a CPU and was blocked, the lengths of
 * its waits, and what it was blocked in. Also which threads were running meanwhile, and which
 * functions differ.
 */
#ifndef ASCRIBE_QUERY_WHY_H
#define ASCRIBE_QUERY_WHY_H

#include "query/diff.h"
#include "query/lengths.h"

enum why_part { WHY_CPU, WHY_RUNQ, WHY_OFF, WHY_PARTS };

struct why_side {
	bool there;		/* windows were read */
	bool waits;		/* the store has waits (record --wall) */
	int64_t from_ns, to_ns; /* used */
	double covered_s;
	bool bounded; /* the budget cut something (query_info) */
	double seconds[WHY_PARTS];
	/* of idle waits, which are not in seconds[WHY_OFF] unless asked for */
	double idle_s;
	uint64_t cpu_samples;	       /* what seconds[WHY_CPU] comes from */
	struct query *part[WHY_PARTS]; /* NULL: nothing of the kind in the store */
	/* of runq and off; NULL: not to be had for this selector */
	struct query_lengths *lengths[WHY_PARTS];
};

/*
 * spec: where, rest, idle and the range. lengths: also those, which the caller has seen to be kept
 * by what the selector asks for. The side must be closed whatever the result.
 */
int why_side_open(struct why_side *ret, struct store *s, const struct query_spec *spec,
		  bool lengths, struct err *err);
void why_side_close(struct why_side *s);

/* All of its time, and a part's share of it. */
double why_wall(const struct why_side *s);
double why_share(const struct why_side *s, enum why_part part);

/* The histogram of a part, NULL: none. */
const struct hist_snapshot *why_lengths(const struct why_side *s, enum why_part part);

/* ---- the sides together ---- */

enum { WHY_THIS, WHY_REST, WHY_BEFORE, WHY_SIDES };

struct why {
	struct store *store;
	struct query_spec spec; /* where, range, idle, names */
	struct why_side side[WHY_SIDES];
	bool wakers;  /* the store has who ended waits */
	bool by_work; /* lengths and occupants are kept by what the selector asks for */
};

/*
 * before_ns: where the earlier range begins, of the same length; INT64_MIN: just before. Close it
 * whatever the result. spec->where must outlive it.
 */
int why_open(struct why *ret, struct store *s, const struct query_spec *spec, int64_t before_ns,
	     struct err *err);
void why_close(struct why *w);
bool why_bounded(const struct why *w);

/* What the rows of a table are by: wait functions and classes, threads, wakers and functions. */
enum why_list { WHY_BLOCKED, WHY_OCCUPANTS, WHY_WAKERS };

/* Rows of the sides by the same keys; table[i] is NULL where there is no side. */
struct why_tables {
	struct query *own[WHY_SIDES]; /* opened for this */
	const struct query *query[WHY_SIDES];
	struct query_table *table[WHY_SIDES];
};

extern const char *const why_occupant_keys[1];

/*
 * What it was blocked in, and who was running while it waited for one. Free them whatever the
 * result.
 */
int why_blocked(const struct why *w, struct why_tables *ret, struct err *err);
int why_occupants(const struct why *w, struct why_tables *ret, struct err *err);
/* By whom its waits were ended, and in which function of that one's program (record --waker). */
int why_wakers(const struct why *w, struct why_tables *ret, struct err *err);
void why_tables_free(struct why_tables *t);
/* The row of the wakers who held the locks that it waited for; NULL: nobody stands out. */
const struct query_table_row *why_holder(const struct why_tables *blocked,
					 const struct why_tables *wakers);
/* The share of a side's time that a row of the first table has there. */
double why_row_share(const struct why_tables *t, int side, const struct query_table_row *of);

/* The functions of WHY_THIS against another side, by samples; q: both, to be closed. */
struct why_changes {
	struct query *q[2];
	struct query_diff *diff; /* NULL: the other side is not there */
};
int why_changes(const struct why *w, int against, bool inclusive, struct why_changes *ret,
		struct err *err);
void why_changes_free(struct why_changes *c);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heat maps: how much was sampled in each small step of time, from the tracks of windows.
 */
#ifndef ASCRIBE_QUERY_HEAT_H
#define ASCRIBE_QUERY_HEAT_H

#include "query/query.h"

#define HEAT_STEPS_MAX 36000 /* half an hour of 50 ms */
#define HEAT_CELLS_MAX (1u << 18)
#define HEAT_ROWS_MAX 64 /* with (other) */

/* Of range: where, from, to, idle; event, or metric: cpu, off, runq. */
struct query_heat_spec {
	struct query_spec range;
	int64_t step_ns; /* at least 1 ms */
	/* What the rows are: NULL: there is one; "cpu": CPUs; else the values of this label key */
	const char *by;
	size_t top; /* rows of values: those with most, and (other) */
};

struct query_heat_row {
	char *text;	 /* the value; "" without the label; NULL: (other) */
	uint32_t *cells; /* [n_steps]: samples; of waits microseconds */
	uint64_t total;
};

struct query_heat {
	int64_t from_ns, step_ns; /* from_ns is a multiple of step_ns */
	size_t n_steps;
	const char *event;
	bool waits; /* cells are microseconds that were waited, all threads together */
	struct query_heat_row *rows;
	size_t n_rows;
	uint64_t total, most;	   /* of a cell of any row */
	size_t windows, untracked; /* in the range; of them without a track: their cells are 0 */
};

/*
 * The range is what is asked for, cut to where there are windows. -EINVAL: steps that are too many
 * or too short, an event without instants, a selector that names `wait`. -EAGAIN as query_open.
 */
int query_heat(struct query_heat **ret, struct store *s, const struct query_heat_spec *spec,
	       struct err *err);
void query_heat_free(struct query_heat *h);

#endif

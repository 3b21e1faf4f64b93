/* SPDX-License-Identifier: Apache-2.0 */
/* Which events of the store a query sums up, and how much a row of each adds. */
#ifndef ASCRIBE_QUERY_EVENT_H
#define ASCRIBE_QUERY_EVENT_H

#include "query/query_int.h"
#include "query/selector.h"

#define NO_EVENT UINT32_MAX

/* What a row of one event adds. */
struct measure {
	bool counts;	     /* the event is of the metric */
	bool seen;	     /* rows of it are in the answer */
	bool value;	     /* a row adds its value */
	uint64_t per_sample; /* else this much for each of its samples */
	bool blocked;	     /* its stacks say why a thread waited, */
	bool waits;	     /* and where; also those of waits for a CPU */
	bool idle;	     /* all of its rows are of idle waits */
	/* Its threads have a label: a condition variable alone does not say that they are idle */
	bool labelled;
};

struct measures {
	struct measure *of; /* [store_n_events] */
	bool admitted;	    /* the selector admits the event */
	bool rates; /* several events have the name: until all is summed, samples are nanoseconds */
	bool metric; /* amounts are summed: value is the same as samples */
	bool stock;  /* until all is summed they are integrals over time (collect/heap.h) */
};

/*
 * Choose by spec's event or metric, and set q's event. The measures must be freed whatever the
 * result.
 */
int measures_choose(struct measures *m, struct query *q, const struct query_spec *spec,
		    struct selector *sel, struct err *err);
void measures_fini(struct measures *m);

/* Return what a row of the store adds, which is m's; NULL: nothing. */
struct measure *measure_of(const struct measures *m, const struct query *q,
			   const struct store_row *row);
/* Return the row as it counts in the query. */
struct store_row measured(const struct measures *m, const struct query *q, const struct measure *v,
			  const struct store_row *row);

#endif

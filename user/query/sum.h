/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the rows of a query's blocks into its sums. */
#ifndef ASCRIBE_QUERY_SUM_H
#define ASCRIBE_QUERY_SUM_H

#include "query/cover.h"
#include "query/reasons.h"
#include "query/scope.h"
#include "query/sums.h"

/* Whether a stack is that of an idle CPU, by stack. */
struct idle_stacks {
	uint8_t *v; /* [n] */
	size_t n;
};

/* What a query asks for, as it was worked out before any row is read. */
struct choice {
	struct query_spec spec; /* the range in whole windows */
	struct scope scope;
	struct selector *selector;
	struct measures measures;
	struct wait_choice waits;
	struct plan plan;
};

struct summing {
	struct query *q;
	struct choice *of;
	bool once; /* no rows are left out: idle samples are counted on the way */
	struct sums sums;
	/* QUERY_NO_LABELS: of what is read without labels, in any pass */
	struct store_folding folding;
	bool *events;	 /* [store_n_events]: which are measured */
	size_t n_folded; /* blocks of the plan up to here are in it */
	struct idle_stacks idle;
	struct err *err;
};

/* Sum up all blocks of the plan. The sums must be freed whatever the result. */
int summing_read(struct summing *m, struct query *q, struct choice *of, struct err *err);
void summing_fini(struct summing *m);

/* Make the sums q's rows (finish.c). -ENOMEM. */
int summing_finish(struct summing *m);

#endif

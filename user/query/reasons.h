/* SPDX-License-Identifier: Apache-2.0 */
/* Which waits a query admits, by their class: idle ones only when they are asked for. */
#ifndef ASCRIBE_QUERY_REASONS_H
#define ASCRIBE_QUERY_REASONS_H

#include "query/event.h"

struct wait_choice {
	bool by_class; /* a row of a wait is admitted or not by the class of the wait */
	bool named;    /* the selector names classes: idle waits are not left out beside that */
	bool idle;     /* idle waits are asked for */
	bool admits[WAIT_CLASSES]; /* by the selector */
	bool admits_others;	   /* rows that are no waits */
};

/*
 * Set q->blocked, waits and woken too. -EINVAL: `wait` in the selector of a comparison with the
 * rest.
 */
int waits_choose(struct wait_choice *w, struct query *q, const struct measures *m,
		 const struct query_spec *spec, struct selector *sel, struct err *err);
/*
 * Whether a row with this measure is left out for the class of its wait. An idle one is counted in
 * q's info. 0 or -ENOMEM.
 */
int waits_leave_out(const struct wait_choice *w, struct query *q, const struct measure *v,
		    const struct store_row *row, bool *ret);

#endif

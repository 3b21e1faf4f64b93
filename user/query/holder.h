/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who holds the locks that others wait for, by who ended the waits. In a convoy nearly all waits
 * are ended by threads that waited in the same place: each passes the lock on. So what a function
 * ended counts less what it waited itself, as shares: who holds is left.
 */
#ifndef ASCRIBE_QUERY_HOLDER_H
#define ASCRIBE_QUERY_HOLDER_H

#include "query/query.h"

#define HOLDER_LEAST 0.02 /* of the waits */
#define HOLDER_ROWS 256	  /* wakers that are looked at, those that ended most first */

extern const char *const holder_waits_keys[2];	/* of the table of waits, QUERY_OFF */
extern const char *const holder_wakers_keys[2]; /* of that of wakers, QUERY_WAKER */

/*
 * Return the row of the wakers' table, NULL: nobody stands out. Of the waits only locks count, of
 * the wakers only those of the program whose function waits most for locks: other waits have other
 * wakers.
 */
const struct query_table_row *query_holder(const struct query_table *waits,
					   const struct query_table *wakers);

#endif

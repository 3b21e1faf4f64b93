/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which locks threads were blocked in, and who ended the waits: rows of event `waker` that have a
 * lock (query/lock_frames.h), by one label key of both threads.
 */
#ifndef ASCRIBE_QUERY_LOCKS_H
#define ASCRIBE_QUERY_LOCKS_H

#include "query/blame.h"

struct query_lock {
	struct blame_party victim, by; /* ns: of this row */
	/* What `by` is to the lock, as of lock_waker_is; "" for rows that were cut */
	const char *is;
	const char *kind; /* of the lock, as in lock_kind_names */
	const char *name; /* of the lock; NULL: not known */
	uint64_t ns;
	/*
	 * The stack with the most time of who ended the waits, when it did; 0: none was taken. The
	 * frame is that of its program's own function, which is QUERY_WAKER_FUNCTION.
	 */
	uint32_t stack, frame;
	uint64_t stack_ns;
};

struct query_locks {
	struct query *query;
	struct query_table *table; /* what names borrow from */
	struct query_lock *v;	   /* by ns, descending */
	size_t n, n_all;	   /* n_all: there are */
	uint64_t ns;		   /* of all */
};

/*
 * spec: where, range, idle. key: of both threads. At most `max` rows. As query_open; -EINVAL too
 * when the store has no wakers. To be freed before the store is closed.
 */
int query_locks(struct query_locks **ret, struct store *s, const struct query_spec *spec,
		const char *key, size_t max, struct err *err);
void query_locks_free(struct query_locks *l);

/*
 * Call each for each function of a stack from the leaf to the root, without those of the kernel
 * where there are others, until it returns non-zero, which is returned.
 */
int query_locks_frames(const struct query_locks *l, uint32_t stack,
		       int (*each)(void *ctx, const char *function), void *ctx);

#endif

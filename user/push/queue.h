/* SPDX-License-Identifier: Apache-2.0 */
/* Which window of a store is to be sent next. */
#ifndef ASCRIBE_PUSH_QUEUE_H
#define ASCRIBE_PUSH_QUEUE_H

#include "push/cursor.h"
#include "push/push.h"

struct push_range {
	int64_t from_ns, to_ns; /* windows that end behind from and begin before to */
	int64_t oldest_ns;	/* those that begin before are too old */
};

/* All that can be sent, in the order of writing. */
int push_queue_cover(struct store *s, struct store_cover *ret, struct err *err);

/*
 * Move the cursor to the first window behind it that is to be sent, and count those that are not.
 * Where retention has cut windows, the block that sums them stands in: it goes out as one.
 * *ret NULL: there is none; the cursor is behind all windows.
 */
int push_queue_next(struct store *s, const struct push_range *r, struct push_cursor *c,
		    struct push_stats *st, const struct store_block **ret, struct err *err);
/* Move the cursor behind all windows. */
int push_queue_skip_all(struct store *s, struct push_cursor *c, struct err *err);

/*
 * The names of the events whose profiles are sent, in order; beside: and what the recorder knows
 * beside them, but for its own times. *ret, to be freed, refers to the store.
 */
int push_queue_events(const struct store *s, bool beside, const char ***ret, size_t *ret_n,
		      struct err *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is to be done when: a binary heap of items by time. The items belong to the owner and must
 * stay where they are. Adding and removing cost the logarithm of their number, the first one
 * nothing. Not thread-safe.
 */
#ifndef ASCRIBE_UTIL_DUE_H
#define ASCRIBE_UTIL_DUE_H

#include <stddef.h>
#include <stdint.h>

/* A member of the owner's struct. All zero: in no queue. */
struct due_item {
	uint64_t at_ns;
	size_t place; /* in the heap, plus one; 0: in no queue */
};

/* All zero is an empty queue. */
struct due {
	struct due_item **v;
	size_t n, cap;
};

/* Put an item in the queue, or move it to another time. 0 or -ENOMEM, and then it is as it was. */
int due_put(struct due *q, struct due_item *item, uint64_t at_ns);
/* Does nothing where it is in no queue. */
void due_remove(struct due *q, struct due_item *item);
/* The item with the least time, NULL when there is none. It stays in the queue. */
static inline struct due_item *due_first(const struct due *q)
{
	return q->n ? q->v[0] : NULL;
}
void due_fini(struct due *q);

#endif

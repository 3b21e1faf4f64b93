/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Remember which functions were seen, by one bit of a hash each. A table has a row for each
 * function. When the set is full, about one new function in ten counts as seen.
 */
#ifndef ASCRIBE_QUERY_SEEN_H
#define ASCRIBE_QUERY_SEEN_H

#include "store/store.h"

struct seen {
	uint64_t *bits;
	size_t mask;
	uint64_t seed;
};

/* For up to `most` functions. -ENOMEM. */
int seen_init(struct seen *s, size_t most, uint64_t seed);
void seen_fini(struct seen *s);
/* Add the function of a frame. Return whether it is new. */
bool seen_add(struct seen *s, const struct store_frame *f);

#endif

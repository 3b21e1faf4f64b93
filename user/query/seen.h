/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which functions were seen before, as a table has a row for each: a bit for each hash. In a set
 * that is as full as it may be one of ten new functions counts as seen.
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

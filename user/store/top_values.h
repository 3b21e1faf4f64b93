/* SPDX-License-Identifier: Apache-2.0 */
/* The values of a label key with the most samples, as the blocks of a store know them. */
#ifndef ASCRIBE_STORE_TOP_VALUES_H
#define ASCRIBE_STORE_TOP_VALUES_H

#include "store/store.h"

/* The most frequent values of a key. */
struct store_top_value {
	struct label label; /* borrowed from the list */
	uint64_t samples;   /* at least, */
	uint64_t error;	    /* and at most so many more */
};

struct store_top {
	/* samples that carry the key; "(other)" is total minus the sum of samples */
	uint64_t total;
	uint64_t bound; /* of any value that is not listed */
	struct store_top_value *v;
	size_t n;
	bool exact; /* all values are listed, without error, and no window lacks its labels */
	void *owned;
};

/*
 * Merged over blocks, for one event: exact where the blocks are windows, or know the key's values.
 * Blocks whose labels are gone add nothing.
 */
int store_top(struct store *s, const struct store_block *const *blocks, size_t n, const char *key,
	      uint32_t event, struct store_top *ret, struct err *err);
void store_top_free(struct store_top *t);

#endif

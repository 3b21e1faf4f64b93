/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The most frequent values of wide keys, mergeable. For each (key, event): at most TOP_K values
 * with a count that is never too high; `bound` is what any value may have beyond its count, listed
 * or not. All samples that carry the key are in `total`, so that "(other)" is total minus the
 * counts.
 */
#ifndef ASCRIBE_STORE_BLOCK_TOP_H
#define ASCRIBE_STORE_BLOCK_TOP_H

#include "store/block/settable.h"
#include "util/idhash.h"

struct top_value {
	struct settable_label value; /* text owned by the top */
	uint64_t samples;	     /* at least */
	uint64_t error;		     /* and at most so many more */
};

struct top_list {
	uint32_t key; /* string of the segment's label sets */
	uint32_t event;
	uint64_t total; /* samples that carry the key */
	uint64_t bound; /* of any value that is not listed */
	uint64_t known; /* while merging: sum of the bounds of the lists merged so far */
	struct top_value *v;
	size_t n, cap;
	struct idhash hash;
};

struct top {
	struct top_list *lists;
	size_t n, cap;
};

void top_list_fini(struct top_list *l);
void top_fini(struct top *t);
/* Samples of one value, exactly. */
int top_add(struct top *t, uint32_t key, uint32_t event, const struct settable_label *value,
	    uint64_t samples);
/* Another list of (key, event), as decoded from a child. */
int top_merge(struct top *t, uint32_t key, uint32_t event, const struct top_list *from);
/* Keep TOP_K values of each list, in order of samples. */
void top_cut(struct top *t);

int top_encode(struct block *b, const struct top *t);
int top_decode(struct top *ret, const struct buf *raw, uint32_t n_keys, uint32_t n_events);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which stacks to keep where not all are wanted: those with the largest shares of the samples. A
 * node that is kept has all its parents.
 */
#ifndef ASCRIBE_STORE_PRUNE_H
#define ASCRIBE_STORE_PRUNE_H

#include "store/block/rows.h"
#include "store/dict/translate.h"
#include "util/idset.h"

/* Bytes of a stack in dictionaries with an index, roughly, with its share of frames and names. */
#define STACK_BYTES 32

/* Sums by leaf. */
struct prune_sums {
	const struct dicts *d;
	/* [d->n_stacks]: the stack that stands for those which differ in source lines alone, the
	   first of them; NULL: each stands for itself */
	const uint32_t *same;
	struct rows_sum *const *v; /* by event, [n_leaves[event]] by leaf, or NULL */
	const size_t *n_leaves;
	size_t n_events;
};

/* The stacks that the samples have, with all below which they are. -ENOMEM. */
int prune_used(const struct prune_sums *of, struct idset *ret);
/*
 * Choose of these at most `most`, and none with less than `least` of the samples of each event.
 * Idle CPUs count as no samples, since most questions leave them out. -ENOMEM.
 */
int prune_choose(const struct prune_sums *of, const struct idset *used, size_t most, double least,
		 struct idset *ret);
/* Add the kept stacks to the other dictionaries. As translate_stack. */
int prune_translate(struct translation *t, const struct idset *keep);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which stacks to keep where there is no room for all: those with the largest shares of the samples
 * below them. A node that is kept has all its parents.
 */
#ifndef ASCRIBE_STORE_BLOCK_PRUNE_H
#define ASCRIBE_STORE_BLOCK_PRUNE_H

#include "store/block/rows.h"
#include "store/dict/translate.h"

/* Bytes of a stack in dictionaries with an index, roughly, with its share of frames and names. */
#define STACK_BYTES 96

/* sums: by event, [n_leaves[event]] by leaf, or NULL. *ret: [n_stacks], to be freed. -ENOMEM. */
int prune_choose(const struct dicts *d, struct rows_sum *const *sums, const size_t *n_leaves,
		 size_t n_events, size_t most, bool **ret);
/* Add the kept stacks to the other dictionaries. As translate_stack. */
int prune_translate(struct translation *t, const bool *keep);
/* How many stacks the samples have, with all below which they are. */
size_t prune_count(const struct dicts *d, struct rows_sum *const *sums, const size_t *n_leaves,
		   size_t n_events);

#endif

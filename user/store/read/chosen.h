/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stacks that an answer shows, where it does not show all: chosen from one segment after the
 * other, then found again in each. In ids of the reader; chosen stacks have all their parents.
 */
#ifndef ASCRIBE_STORE_READ_CHOSEN_H
#define ASCRIBE_STORE_READ_CHOSEN_H

#include "store/block/prune.h"
#include "store/read/symbols.h"

/* All zero is empty. */
struct chosen {
	struct idset stacks; /* of the reader */
	uint32_t *chain;     /* room for the stacks of one node */
	size_t chain_cap;
};

/*
 * Choose those of a segment with at most `most` stacks and none below a share of `least`
 * (prune_choose), and add them to the reader's. of->shape is y->shape. As translate_stack.
 */
int chosen_add(struct chosen *c, struct shaped *y, const struct prune_sums *of,
	       const struct prune_nodes *used, size_t most, double least);

#define BELOW (1u << 31) /* of what is below a stack and was not chosen; ids of stacks are less */

/*
 * Say where the samples of each used node belong. *ret, [y->shape.n], is the reader's stack, with
 * BELOW where only the first stacks of the node, or of those above, are chosen. To be freed.
 */
int chosen_map(struct chosen *c, struct shaped *y, const struct prune_nodes *used, uint32_t **ret);
void chosen_fini(struct chosen *c);

#endif

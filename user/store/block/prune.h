/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which stacks to keep where not all are wanted: those with the largest shares of the samples. A
 * node that is kept has all nodes above it.
 */
#ifndef ASCRIBE_STORE_PRUNE_H
#define ASCRIBE_STORE_PRUNE_H

#include "store/block/rows.h"
#include "store/dict/shape.h"
#include "store/dict/translate.h"
#include "util/idset.h"

/* Bytes of a stack in dictionaries with an index, roughly, with its share of frames and names. */
#define STACK_BYTES 32

/* Sums of one event by leaf. All zero: it has no samples. */
struct leaf_sums {
	struct rows_sum *v; /* by leaf; zero but for those below */
	uint32_t *leaves;   /* [n]: which leaves have samples, each once, in any order */
	uint32_t n;
	size_t cap;
};

struct prune_sums {
	const struct dicts *d;
	const struct shape *shape;	/* of d */
	const struct leaf_sums *events; /* [n_events] */
	size_t n_events;
};

/* The nodes that samples are in, and all above them: ascending, with node 0. */
struct prune_nodes {
	uint32_t *v;
	size_t n;
};

/* *ret is to be freed by prune_nodes_fini. -ENOMEM. */
int prune_used(const struct prune_sums *of, struct prune_nodes *ret);
void prune_nodes_fini(struct prune_nodes *n);
/*
 * Choose of the used nodes some with at most `most` stacks in sum, and none with less than `least`
 * of the samples of each event. Idle CPUs count as no samples, since most questions leave them out.
 * Node 0 is always chosen. -ENOMEM.
 */
int prune_choose(const struct prune_sums *of, const struct prune_nodes *used, size_t most,
		 double least, struct idset *ret);

#endif

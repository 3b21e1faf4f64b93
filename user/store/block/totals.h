/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counters of a block, per CPU. Parents hold the sums of their children; resident bytes are the
 * most there were.
 */
#ifndef ASCRIBE_STORE_BLOCK_TOTALS_H
#define ASCRIBE_STORE_BLOCK_TOTALS_H

#include "store/file/meta.h"
#include "util/buf.h"

/* Owned totals, with counters for exactly n_lost and n_flagged names; cpu[] by number. */
struct totals {
	struct store_totals t;
	size_t n_lost, n_flagged, cap;
};

/* What the caller's counters lack up to pad_lost and pad_flagged is 0. */
int totals_encode(struct buf *b, const struct store_totals *t, size_t n_lost, size_t n_flagged,
		  size_t pad_lost, size_t pad_flagged);

/* -EBADMSG, -ENOMEM. */
int totals_decode(struct totals *ret, struct cursor *c, size_t n_lost, size_t n_flagged);
int totals_add(struct totals *sum, const struct store_totals *t);
/*
 * Bring the counters into the order of a store with other names. -ENOMEM: some CPUs have it
 * already.
 */
int totals_map(struct totals *t, size_t n_lost, size_t n_flagged, const struct meta_map *at);
void totals_fini(struct totals *t);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A parent in the making (merge.c). It names ids of the writer's generation and epoch: it is given
 * up when one of them ends.
 */
#ifndef ASCRIBE_STORE_MERGE_H
#define ASCRIBE_STORE_MERGE_H

#include "store/writer_int.h"

struct merge;

/* Read the children, which are of the level below; the refs are copied. */
int merge_begin(struct merge **ret, struct store_writer *w, uint8_t level, const struct block_ref *v, size_t n,
		struct err *err);
/* Go on for about *budget rows, which are taken off it. *ret_done: nothing is left but to finish. */
int merge_step(struct merge *m, size_t *budget, bool *ret_done, struct err *err);
/* Write the block. After a failure there is nothing to be done with m but to free it. */
int merge_finish(struct merge *m, struct block_ref *ret, struct err *err);
bool merge_has(const struct merge *m, const struct block_ref *r);
void merge_free(struct merge *m);

#endif

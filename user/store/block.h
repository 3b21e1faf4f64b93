/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block: one window in a file, as the payload of a frame. Fixed part, column directory, columns.
 */
#ifndef ASCRIBE_STORE_BLOCK_H
#define ASCRIBE_STORE_BLOCK_H

#include "store/format.h"
#include "store/store.h"
#include "util/buf.h"

/* How far a dictionary went when the block was written. */
struct block_mark {
	uint64_t bytes;
	uint32_t count;
};

struct block {
	struct store_window window;
	uint64_t *counters; /* what window.totals points into; owned, as is totals.cpu */
	struct block_mark marks[N_DICTS + 1]; /* by enum file_kind */
};

/*
 * rows are sorted by (set, stack, event), each once. events: of all ids that rows name. The counters of totals are
 * padded with zeros from n_lost and n_flagged to pad_lost and pad_flagged.
 */
int block_encode(struct buf *out, const struct block *b, const struct store_row *rows, const struct store_event *events,
		 size_t n_lost, size_t n_flagged, size_t pad_lost, size_t pad_flagged);

/* All but the rows; counters are given for exactly n_lost and n_flagged names. -EBADMSG, -E2BIG, -ENOMEM. */
int block_decode(struct block *ret, const uint8_t *data, size_t len, size_t n_lost, size_t n_flagged);
void block_fini(struct block *b);

/*
 * The rows of the block whose payload this is, in order. -EBADMSG for ids that do not exist at its marks. events:
 * the first marks[KIND_EVENTS].count of the store.
 */
int block_rows(const struct block *b, const uint8_t *data, size_t len, const struct store_event *events,
	       struct store_row **ret_rows);

#endif

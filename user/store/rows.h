/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows and their columns: of blocks (set, stack, event), and folded (stack, event).
 */
#ifndef ASCRIBE_STORE_ROWS_H
#define ASCRIBE_STORE_ROWS_H

#include "store/block.h"

struct rows {
	struct store_row *v;
	size_t n, cap;
};

int rows_add(struct rows *r, const struct store_row *row);
/* Sort by (set, stack, event) and add up what is equal. */
void rows_sort(struct rows *r);
void rows_fini(struct rows *r);

/*
 * Fill the columns of sorted rows, each (set, stack, event) once. folded: set is 0 in all and not stored. The column of values
 * is left out when they are samples x period.
 */
int rows_encode(struct block *b, const struct rows *r, bool folded, const struct store_event *events);

struct rows_limits {
	uint32_t n_sets, n_stacks, n_events; /* ids are below */
	const struct store_event *events;
};

/* raw[]: the columns, unpacked; n rows are appended. -EBADMSG. */
int rows_decode(struct rows *r, const struct buf *raw, bool has_value, size_t n, bool folded,
		const struct rows_limits *l);

#endif

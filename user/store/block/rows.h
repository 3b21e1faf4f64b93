/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of a block and their columns. Rows are sorted by (leaf, event, set) and come in groups
 * of one (leaf, event). The sums of the groups are the profile with all labels folded. They stand
 * in columns of their own, so that a question without labels reads nothing else. A leaf is a stack
 * that samples ended in (KIND_LEAVES).
 */
#ifndef ASCRIBE_STORE_BLOCK_ROWS_H
#define ASCRIBE_STORE_BLOCK_ROWS_H

#include "store/block/block.h"

/* Here the member `stack` of a row is a leaf, but in the open window of a writer. */
struct rows {
	struct store_row *v;
	size_t n, cap;
};

int rows_add(struct rows *r, const struct store_row *row);
/* By (stack, event, set); 0: they are of the same. */
int rows_compare(const struct store_row *a, const struct store_row *b);
/* Sort in this order and add up what is equal. */
void rows_sort(struct rows *r);
void rows_fini(struct rows *r);

/* ---- writing ---- */

/* All zero but for `events` and `folded`. */
struct rows_writer {
	const struct store_event *events;
	bool folded;   /* sums of groups alone */
	bool explicit; /* a value is not samples x period */
	uint32_t leaf, n_groups, n_rows;
	struct buf column[COLUMN_SET_VALUE - COLUMN_LEAF + 1];
};

/*
 * The rows of one group, by set, each set once; groups in ascending order. -ENOMEM, -E2BIG: the
 * writer is of no use any more.
 */
int rows_put(struct rows_writer *w, const struct store_row *group, size_t n);
/* The columns become those of the block; only those of the groups if `folded` is set by now. */
void rows_finish(struct rows_writer *w, struct block *b);
void rows_writer_fini(struct rows_writer *w);

/* ---- reading ---- */

struct rows_limits {
	uint32_t n_sets, n_leaves, n_events; /* ids are below */
	const struct store_event *events;
};

struct rows_reader {
	struct rows_limits limits;
	struct cursor column[COLUMN_SET_VALUE - COLUMN_LEAF + 1];
	bool has_value, has_sets;
	uint32_t groups_left, rows_left; /* of the block */
	uint32_t left;			 /* rows of this group */
	uint64_t samples_left, value_left;
	uint64_t next_set;	/* the least that the next row may have */
	struct store_row group; /* set 0: the sum */
	struct store_row row;
	bool begun;
};

/*
 * raw[]: the columns from COLUMN_LEAF on, unpacked, which must outlive the reader. sets: rows are
 * wanted, not groups alone.
 */
void rows_begin(struct rows_reader *r, const struct block_head *h, const struct buf *raw, bool sets,
		const struct rows_limits *l);
/*
 * The next group, in r->group: 1; the end: 0; -EBADMSG. Rows of the group before that were not read
 * are passed over.
 */
int rows_next_group(struct rows_reader *r);
/* The next row of the group, in r->row: 1; none: 0; -EBADMSG. */
int rows_next(struct rows_reader *r);
/* The next rows of the group, at most cap: how many; none: 0; -EBADMSG. */
int rows_take(struct rows_reader *r, struct store_row *out, unsigned cap);

struct rows_sum {
	uint64_t samples, value;
};
/* Add all that is left of the group to by_set[limits.n_sets]. -EBADMSG. */
int rows_sum(struct rows_reader *r, struct rows_sum *by_set);

#endif

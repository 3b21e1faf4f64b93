/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The projections of a block above level 1: for each value of a label key, the groups of the rows
 * that have it. A question about one value of one key reads those alone.
 *
 * COLUMN_VALUES holds a list for each key: its values with their sums by event, and where the
 * groups of each are in COLUMN_PROJECTIONS. Values that have the same groups, as `comm` and `exe`
 * of a program, share them.
 */
#ifndef ASCRIBE_STORE_BLOCK_PROJECTION_H
#define ASCRIBE_STORE_BLOCK_PROJECTION_H

#include "store/block/keys.h"
#include "store/block/settable.h"
#include "util/idhash.h"

/* The groups of one value and one event; those of idle CPUs are apart. There may be 100,000 cells
 * at a time, most of them with few groups. */
struct cell {
	uint32_t event;
	bool idle;
	bool explicit; /* a value is not samples x period */
	uint32_t last; /* leaf */
	uint32_t n;
	uint64_t samples, value; /* sums */
	uint64_t period;	 /* of the event */
	struct buf groups;	 /* in pieces of three, which projections_add sorts into columns */
};

int cell_add(struct cell *c, uint32_t leaf, uint64_t samples, uint64_t value);
void cell_fini(struct cell *c);

/* ---- writing ---- */

/* The two columns in the making. All zero but for the buffers, which are those of the block. */
struct projections {
	struct buf *lists, *groups;
	struct buf list; /* of the key at hand */
	uint32_t n_values;
	struct shared_groups *shared;
	size_t n_shared, shared_cap;
	struct idhash by_content;
};

/* The next value of the key at hand, in the order of value_compare. -ENOMEM, -E2BIG. */
int projections_add(struct projections *p, const struct settable_label *value,
		    const struct cell *cells, size_t n);
/* The key is complete: its list goes to the column, and into k. */
int projections_end_key(struct projections *p, struct block_key *k);
void projections_fini(struct projections *p);

/* By type, then content. */
int value_compare(const struct settable_label *a, const struct settable_label *b);

/* ---- reading ---- */

struct value_sum {
	uint32_t event;
	bool idle, explicit;
	uint64_t samples, value;
};

/* The values of a key, one by one. raw: the list, unpacked; it must outlive the reader. */
struct value_list {
	struct cursor c;
	uint64_t left;
	uint32_t n_events;
	const struct store_event *events;
	/* What was read last. */
	struct settable_label value; /* text borrowed until the next */
	char text[40];
	struct value_sum *sums;
	size_t n_sums, sums_cap;
	uint32_t at, stored_len, raw_len, crc; /* of its groups */
	uint8_t codec;
};

int value_list_begin(struct value_list *l, const struct buf *raw, uint32_t n_events,
		     const struct store_event *events);
/* 1; 0: the end; -EBADMSG, -ENOMEM. */
int value_list_next(struct value_list *l);
void value_list_fini(struct value_list *l);

/* The groups of the value that was read last, unpacked, one by one: set is 0, stack a leaf. */
struct groups_reader {
	const struct value_list *of;
	struct cursor c;
	size_t cell;
	uint64_t left;
	struct cursor leaves, counts, values;
	uint32_t n_leaves;
	uint64_t leaf;
	bool idle;
	struct store_row row;
};

void groups_begin(struct groups_reader *r, const struct value_list *of, const struct buf *raw,
		  uint32_t n_leaves);
/* 1; 0: the end; -EBADMSG. */
int groups_next(struct groups_reader *r);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a statement (statement.h), as they came. */
#ifndef ASCRIBE_FLEET_FLEET_ROWS_H
#define ASCRIBE_FLEET_FLEET_ROWS_H

#include "fleet/ask.h"

struct fleet_row {
	uint32_t bucket, event;		/* event: place in the list */
	uint32_t labels_at, labels_len; /* in the text: the map, and the keys of integers */
	uint64_t stack[2];		/* hash, low half first */
	uint64_t samples, value;
	bool other; /* below no stack that came */
};

struct fleet_event {
	char name[200], unit[64];
	uint64_t ns_per_sample, period;
};

#define FLEET_EVENTS_MAX 256 /* the statement has the same limit */

struct fleet_events {
	struct fleet_event v[FLEET_EVENTS_MAX];
	size_t n;
};

struct fleet_rows {
	struct buf text;
	struct fleet_row *v;
	size_t n, cap;
};

/* Read what r->text has. -EPROTO: it is no such answer; -ENOMEM. */
int fleet_rows_parse(struct fleet_rows *r, const struct fleet_events *events, struct err *err);
void fleet_rows_fini(struct fleet_rows *r);

/* By bucket, label set, event, stack. */
void fleet_rows_sort(struct fleet_rows *r);

/*
 * Append rows for what `sums` (rows without stacks, sorted) has more than the rows of r, which are
 * sorted. The rows that are appended have the texts of sums, which are copied. -ENOMEM.
 */
int fleet_rows_add_other(struct fleet_rows *r, const struct fleet_rows *sums);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The segment tree over time: how long a block of each level is, and what its files are called. A
 * block of a level belongs to the slot [k * span, (k + 1) * span) of realtime in which it begins.
 * The last entry is no level of the tree: the postings of an hour.
 */
#ifndef ASCRIBE_STORE_FILE_LEVELS_H
#define ASCRIBE_STORE_FILE_LEVELS_H

#include <stdint.h>

#define N_LEVELS 9
#define LEVEL_POSTINGS 9
#define N_SEGMENT_LEVELS 10

#define SECOND_NS 1000000000ll
#define MINUTE_NS (60 * SECOND_NS)
#define HOUR_NS (60 * MINUTE_NS)
#define DAY_NS (24 * HOUR_NS)
#define WEEK_NS (7 * DAY_NS)

struct level {
	const char *name;
	int64_t span_ns; /* of a slot */
	int64_t file_ns; /* blocks of so much time share a file: what retention cuts at once */
};

extern const struct level levels[N_SEGMENT_LEVELS];

/* The number of the slot of a level that t lies in; towards minus infinity. */
int64_t slot_of(uint8_t level, int64_t t_ns);
/* floor(a / b) for b > 0. */
int64_t floor_div(int64_t a, int64_t b);

#endif
